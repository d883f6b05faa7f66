//! The pages that greet a person: the web demo where the binary carries it, and lines for a terminal that work as they stand.

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, header},
    response::{Html, IntoResponse, Response},
};

use super::demo;
use crate::{App, demo::Demo};

const PAGE: &str = include_str!("../pages/welcome.html");

/// The first page.
///
/// The web demo, where the server has it; otherwise the page of `GET /curl`.
#[utoipa::path(get, path = "/", operation_id = "welcome", tag = "operators",
    responses(
        (status = 200, description = "The page", body = String, content_type = "text/html"),
        (status = 304, description = "The client has it"),
    ), security(())
)]
pub async fn welcome(
    State(app): State<App>,
    Extension(demo): Extension<Demo>,
    headers: HeaderMap,
) -> Response {
    match demo.get("/") {
        Some(page) => demo::send(page, &headers),
        None => curl(State(app), headers).await.into_response(),
    }
}

/// A page that shows how to start with curl.
#[utoipa::path(get, path = "/curl", operation_id = "curl", tag = "operators",
    responses((status = 200, description = "The page", body = String, content_type = "text/html")), security(())
)]
pub async fn curl(State(app): State<App>, headers: HeaderMap) -> impl IntoResponse {
    let token =
        if app.auth().wants_token() { " \\\n  -H \"authorization: Bearer $FERMATA_TOKEN\"" } else { "" };
    let page = PAGE
        .replace("{{base}}", &base(&headers))
        .replace("{{token}}", token)
        .replace("{{model}}", &escape(app.model()));
    // The page needs nothing from anywhere, so nothing is allowed.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'";
    let about = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::CACHE_CONTROL, "no-cache"),
        (header::REFERRER_POLICY, "no-referrer"),
        (demo::PERMISSIONS_POLICY, demo::DEVICES),
    ];
    (about, Html(page))
}

/// Under which URL the person reached this page. Only what a host can be made of gets into a line for a shell.
fn base(headers: &HeaderMap) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let plain =
        |host: &&str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".:-[]".contains(&byte));
    let host = text("host").filter(plain).unwrap_or("127.0.0.1:3000");
    let scheme = if text("x-forwarded-proto") == Some("https") { "https" } else { "http" };
    format!("{scheme}://{host}")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
