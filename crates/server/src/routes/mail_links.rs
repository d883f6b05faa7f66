//! The pages of one-time links in mails. A `GET` changes nothing; only the form's `POST` decides.

use axum::{
    extract::{Path, State},
    http::{StatusCode, header},
    response::{Html, IntoResponse, Response},
};

use crate::{
    App,
    channels::{LINK_POLICY, LinkError, LinkPage},
    client::Client,
};

/// Shows the approval of a one-time link, and asks whether the recipient means it.
#[utoipa::path(get, path = "/channels/{name}/l/{token}", operation_id = "showLink", tag = "channels", security(()),
    params(("name" = String, Path, description = "The channel's name"), ("token" = String, Path, description = "The token in the mail")),
    responses(
        (status = 200, description = "The approval, with a form", body = String, content_type = "text/html"),
        (status = 403, description = "The recipient may not decide", body = String, content_type = "text/html"),
        (status = 404, description = "There is no such link", body = String, content_type = "text/html"),
        (status = 409, description = "The approval is settled, or has another input", body = String, content_type = "text/html"),
        (status = 410, description = "The link was used", body = String, content_type = "text/html"),
        (status = 422, description = "The rules deny the call", body = String, content_type = "text/html"),
        (status = 503, description = "The approval cannot be read now", body = String, content_type = "text/html"),
    )
)]
pub async fn show(State(app): State<App>, Path((name, token)): Path<(String, String)>) -> Response {
    let shown = match app.channels().get(&name) {
        Some(channel) => channel.show_link(&token, app.desk()).await,
        None => Err(LinkError::Unknown),
    };
    respond(shown)
}

/// Decides as a one-time link says.
#[utoipa::path(post, path = "/channels/{name}/l/{token}", operation_id = "useLink", tag = "channels", security(()),
    params(("name" = String, Path, description = "The channel's name"), ("token" = String, Path, description = "The token in the mail")),
    responses(
        (status = 200, description = "The vote counts", body = String, content_type = "text/html"),
        (status = 403, description = "The recipient may not decide", body = String, content_type = "text/html"),
        (status = 404, description = "There is no such link", body = String, content_type = "text/html"),
        (status = 409, description = "The approval is settled, or has another input", body = String, content_type = "text/html"),
        (status = 410, description = "The link was used", body = String, content_type = "text/html"),
        (status = 422, description = "The rules deny the call", body = String, content_type = "text/html"),
        (status = 503, description = "The vote cannot be counted now", body = String, content_type = "text/html"),
    )
)]
pub async fn decide(
    State(app): State<App>,
    Path((name, token)): Path<(String, String)>,
    client: Client,
) -> Response {
    let decided = match app.channels().get(&name) {
        Some(channel) => channel.use_link(&token, client.address, app.desk()).await,
        None => Err(LinkError::Unknown),
    };
    respond(decided)
}

fn respond(page: Result<LinkPage, LinkError>) -> Response {
    let (status, html) = match page {
        Ok(page) => (StatusCode::OK, page.html()),
        Err(error) => (error.status(), error.html()),
    };
    let headers =
        [(header::CONTENT_SECURITY_POLICY, LINK_POLICY.as_str()), (header::REFERRER_POLICY, "no-referrer")];
    (status, headers, Html(html)).into_response()
}
