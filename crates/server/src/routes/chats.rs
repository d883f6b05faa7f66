//! The record: one chat, all of an owner's chats, forgetting one.

use axum::{Json, extract::State, http::StatusCode};
use fermata_engine::{ChatView, store::ChatSummary};
use fermata_protocol::{ChatId, UiMessage};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{pending::Pending, schema::refusals};
use crate::{
    App,
    auth::Identity,
    error::{ApiError, Code},
    extract::{ApiQuery, ChatPath},
};

/// A chat.
#[derive(Serialize, ToSchema)]
pub struct Chat {
    #[schema(value_type = String)]
    id: ChatId,
    /// UI messages in the AI SDK's form, without the one being written.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<UiMessage>,
    /// What waits for somebody.
    pending: Vec<Pending>,
    /// Whether a run is open, so that `GET …/stream` follows it.
    open: bool,
}

/// A chat in a list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedChat {
    #[schema(value_type = String)]
    id: ChatId,
    /// The beginning of its first user message.
    title: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// Whether a run is open, so that `GET …/stream` follows it.
    open: bool,
    /// How much waits in it: calls for a person's decision or for a browser's output, questions of running tools for an answer.
    #[schema(example = 0)]
    pending: usize,
}

/// A page of chats.
#[derive(Serialize, ToSchema)]
pub struct ChatList {
    /// Newest first.
    chats: Vec<ListedChat>,
    /// What to pass as `before` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Which page.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// Chats on the page, 1 to 100.
    #[serde(default = "Page::usual")]
    #[param(default = 20, minimum = 1, maximum = 100)]
    limit: usize,
    /// The `next` of the page before.
    before: Option<String>,
}

/// The chat.
#[utoipa::path(get, path = "/api/chat/{id}", operation_id = "getChat", tag = "record",
    params(("id" = String, Path, description = "The chat")),
    responses((status = 200, description = "The chat", body = Chat), refusals::Chat)
)]
pub async fn get(
    State(app): State<App>,
    Identity(owner): Identity,
    ChatPath(chat): ChatPath,
) -> Result<Json<Chat>, ApiError> {
    Ok(Json(app.engine().chat(&owner, &chat?).await?.into()))
}

/// The owner's chats, newest first.
#[utoipa::path(get, path = "/api/chats", operation_id = "listChats", tag = "record", params(Page),
    responses((status = 200, description = "A page of chats", body = ChatList), refusals::Any)
)]
pub async fn list(
    State(app): State<App>,
    Identity(owner): Identity,
    ApiQuery(page): ApiQuery<Page>,
) -> Result<Json<ChatList>, ApiError> {
    if !(1..=100).contains(&page.limit) {
        return Err(ApiError::new(Code::InvalidRequest, "limit must be 1 to 100."));
    }
    let found = app.engine().chats(&owner, page.limit, page.before.as_deref()).await?;
    Ok(Json(ChatList { chats: found.chats.into_iter().map(Into::into).collect(), next: found.next }))
}

/// Forgets the chat; its open run ends.
#[utoipa::path(delete, path = "/api/chat/{id}", operation_id = "deleteChat", tag = "record",
    params(("id" = String, Path, description = "The chat")),
    responses((status = 204, description = "It is forgotten"), refusals::Chat)
)]
pub async fn delete(
    State(app): State<App>,
    Identity(owner): Identity,
    ChatPath(chat): ChatPath,
) -> Result<StatusCode, ApiError> {
    app.engine().delete(&owner, &chat?).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl Page {
    fn usual() -> usize {
        20
    }
}

impl From<ChatView> for Chat {
    fn from(chat: ChatView) -> Self {
        let pending = chat.pending.into_iter().map(Into::into).collect();
        Self { id: chat.id, messages: chat.messages, pending, open: chat.open }
    }
}

impl From<ChatSummary> for ListedChat {
    fn from(chat: ChatSummary) -> Self {
        Self {
            id: chat.id,
            title: chat.title,
            created_at: chat.created_at,
            updated_at: chat.updated_at,
            open: chat.open,
            pending: chat.pending,
        }
    }
}
