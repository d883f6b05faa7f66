//! The first pages: the web demo, and a page with commands for curl.

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, header},
    response::{Html, IntoResponse, Response},
};

use super::demo;
use crate::{App, demo::Demo};

const PAGE: &str = include_str!("../pages/welcome.html");

/// Returns the first page.
///
/// It is the web demo if the server has it, and otherwise the page of `GET /curl`.
#[utoipa::path(get, path = "/", operation_id = "welcome", tag = "operators",
    responses(
        (status = 200, description = "The page", body = String, content_type = "text/html"),
        (status = 304, description = "The client has the page"),
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

/// Returns a page that shows how to start with curl.
#[utoipa::path(get, path = "/curl", operation_id = "curl", tag = "operators",
    responses((status = 200, description = "The page", body = String, content_type = "text/html")), security(())
)]
pub async fn curl(State(app): State<App>, headers: HeaderMap) -> impl IntoResponse {
    let token =
        if app.auth().wants_token() { " \\\n  -H \"authorization: Bearer $FERMATA_TOKEN\"" } else { "" };
    let model = app.model().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let page =
        PAGE.replace("{{base}}", &base(&headers)).replace("{{token}}", token).replace("{{model}}", &model);
    // The page loads nothing, so nothing is allowed.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'";
    let about = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::CACHE_CONTROL, "no-cache"),
        (header::REFERRER_POLICY, "no-referrer"),
        (demo::PERMISSIONS_POLICY, demo::DEVICES),
    ];
    (about, Html(page))
}

/// Returns the URL under which the person reached this page. A host with characters that are special to a shell is not used.
fn base(headers: &HeaderMap) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let plain =
        text("host").filter(|host| host.bytes().all(|b| b.is_ascii_alphanumeric() || b".:-[]".contains(&b)));
    let host = plain.unwrap_or("127.0.0.1:3000");
    let scheme = if text("x-forwarded-proto") == Some("https") { "https" } else { "http" };
    format!("{scheme}://{host}")
}
