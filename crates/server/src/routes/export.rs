//! `/api/chat/{id}/export`: a chat for people.

use axum::{
    BoxError,
    body::{Body, Bytes},
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use fermata_engine::ChatPages;
use futures::Stream;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    chats::{Chat, long_chat},
    schema::refusals,
};
use crate::{
    App,
    auth::Identity,
    error::ApiError,
    extract::{ApiQuery, ChatPath},
    markdown,
};

/// The parameters of an export.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Export {
    /// `json` has everything, `markdown` is for reading.
    #[serde(default)]
    #[param(inline, default = "json")]
    format: Format,
}

/// The format of an export.
#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Json,
    Markdown,
}

/// Returns the chat as a file: as `GET /api/chat/{id}` has it, or as Markdown, without the model's reasoning.
///
/// It is sent as fast as the client reads it. If it cannot be read to its end, the response ends early.
#[utoipa::path(get, path = "/api/chat/{id}/export", operation_id = "exportChat", tag = "record",
    params(("id" = String, Path, description = "The chat's id"), Export),
    responses(
        (status = 200, description = "The chat", content((Chat = "application/json"), (String = "text/markdown"))),
        refusals::Chat,
    )
)]
pub async fn get(
    State(app): State<App>,
    Identity(owner): Identity,
    ChatPath(chat): ChatPath,
    ApiQuery(Export { format }): ApiQuery<Export>,
) -> Result<Response, ApiError> {
    let pages = app.engine().chat_in_pages(&owner, &chat?).await?;
    let name = pages.chat.id.as_str().replace(':', "-");
    let (kind, extension, body) = match format {
        Format::Json => ("application/json", "json", Body::from_stream(long_chat(pages))),
        Format::Markdown => ("text/markdown; charset=utf-8", "md", Body::from_stream(sections(pages))),
    };
    let disposition = format!("attachment; filename=\"{name}.{extension}\"");
    let headers = [(header::CONTENT_TYPE, kind.to_owned()), (header::CONTENT_DISPOSITION, disposition)];
    Ok((headers, body).into_response())
}

/// Returns a chat as Markdown in pages. Only one page at a time is in memory.
fn sections(pages: ChatPages) -> impl Stream<Item = Result<Bytes, BoxError>> {
    let title = pages.chat.listing.title.as_deref().unwrap_or("Chat");
    let head = format!("# {}\n\n", markdown::heading(title));
    futures::stream::try_unfold((head, pages), async |(mut text, mut pages)| {
        let page = pages.next().await.inspect_err(|error| {
            tracing::warn!(chat = %pages.chat.id, %error, "cannot read all messages of a chat for an export");
        })?;
        for message in &page {
            text += &markdown::section(message);
        }
        if page.is_empty() && text.is_empty() {
            return Ok(None);
        }
        Ok(Some((Bytes::from(text), (String::new(), pages))))
    })
}
