//! The record: reading a chat, listing an owner's chats, deleting a chat.

use axum::{
    BoxError, Json,
    body::{Body, Bytes},
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use fermata_engine::{
    ChatPages, ChatView, ReadError,
    store::{ChatQuery, Listing},
};
use fermata_protocol::{ChatId, ChatPatch, ContextUsage, RunStatus, UiMessage};
use futures::Stream;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{pending::Pending, schema::refusals};
use crate::{
    App,
    auth::Identity,
    error::{ApiError, Code},
    extract::{ApiJson, ApiQuery, ChatPath},
};

/// A chat.
#[derive(Serialize, ToSchema)]
pub struct Chat {
    #[schema(value_type = String)]
    id: ChatId,
    /// The UI messages in the AI SDK's form, without the one that is being written.
    messages: Vec<UiMessage>,
    #[serde(flatten)]
    status: ChatStatus,
}

/// A chat without its messages.
#[derive(Serialize, ToSchema)]
pub struct ChatStatus {
    /// The calls and questions that wait for an answer.
    pending: Vec<Pending>,
    /// True if a run is open, which `GET …/stream` follows.
    open: bool,
    #[serde(flatten)]
    listing: Listed,
    /// The assistant that the chat has chosen, by `fermata.assistant` of a post.
    #[serde(skip_serializing_if = "Option::is_none")]
    assistant: Option<String>,
    /// The model that the chat has chosen, by `fermata.model` of a post.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(flatten)]
    status: Option<RunStatus>,
    /// The part of the model's window that is filled, if the chat's last post asked for `context` and it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<ContextUsage>,
}

/// The entry of a chat in lists.
#[derive(Serialize, ToSchema)]
pub struct Listed {
    /// The title that the chat was given, or the beginning of the first user message.
    #[schema(required)]
    title: Option<String>,
    /// True if only lists of archived chats have the chat.
    archived: bool,
    /// True if the chat is one of the first in lists.
    pinned: bool,
}

/// A chat in a list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedChat {
    #[schema(value_type = String)]
    id: ChatId,
    #[serde(flatten)]
    listing: Listed,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// True if a run is open, which `GET …/stream` follows.
    open: bool,
    /// The number of calls that wait for a person's decision or a browser's output, and of questions that wait for an answer.
    #[schema(example = 0)]
    pending: usize,
    #[serde(flatten)]
    status: Option<RunStatus>,
}

/// A page of chats.
#[derive(Serialize, ToSchema)]
pub struct ChatList {
    /// The chats: the pinned ones first, then newest first.
    chats: Vec<ListedChat>,
    /// The value of `before` for the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// The parameters of a page of chats.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// `true` lists the archived chats, which are left out otherwise.
    #[serde(default)]
    #[param(default = false)]
    archived: bool,
    /// The number of chats on the page, 1 to 100.
    #[serde(default = "Page::default_limit")]
    #[param(default = 20, minimum = 1, maximum = 100)]
    limit: usize,
    /// The `next` of the previous page.
    before: Option<String>,
}

/// The parameters of reading a chat.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Reading {
    /// Answers 204 instead of 404 if there is no such chat, for pages that open a new one: browsers log a 404 as an error.
    #[serde(default)]
    #[param(default = false)]
    optional: bool,
}

/// The parameters of a deletion.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Deletion {
    /// Also deletes the memories that come from the chat. Otherwise they stay, because they are known in all chats.
    #[serde(default)]
    #[param(default = false)]
    memories: bool,
}

/// Returns the chat.
///
/// The messages of a long chat are sent as fast as the client reads them. If one of them is removed by an edit meanwhile, the response ends
/// early.
#[utoipa::path(get, path = "/api/chat/{id}", operation_id = "getChat", tag = "record",
    params(("id" = String, Path, description = "The chat's id"), Reading),
    responses(
        (status = 200, description = "The chat", body = Chat),
        (status = 204, description = "There is no such chat, and `optional` was given"),
        refusals::Chat,
    )
)]
pub async fn get(
    State(app): State<App>,
    Identity(owner): Identity,
    ChatPath(chat): ChatPath,
    ApiQuery(Reading { optional }): ApiQuery<Reading>,
) -> Result<Response, ApiError> {
    let mut pages = match app.engine().chat_in_pages(&owner, &chat?).await {
        Err(ReadError::NotFound) if optional => return Ok(StatusCode::NO_CONTENT.into_response()),
        pages => pages?,
    };
    if pages.is_long() {
        let json = Body::from_stream(long_chat(pages));
        return Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response());
    }
    let messages = pages.next().await?;
    Ok(Json(Chat { id: pages.chat.id.clone(), messages, status: pages.chat.into() }).into_response())
}

/// Returns a [`Chat`] as JSON in pages. Only one page at a time is in memory.
pub(super) fn long_chat(pages: ChatPages) -> impl Stream<Item = Result<Bytes, BoxError>> {
    futures::stream::try_unfold((Some(pages), true), async |(pages, is_first)| {
        let Some(mut pages) = pages else { return Ok(None) };
        let page = pages.next().await.inspect_err(|error| {
            tracing::warn!(chat = %pages.chat.id, %error, "cannot read all messages of a long chat");
        })?;
        let mut json = if is_first {
            format!("{{\"id\":{},\"messages\":[", serde_json::to_string(&pages.chat.id)?)
        } else if page.is_empty() {
            String::new()
        } else {
            ",".to_owned()
        };
        if page.is_empty() {
            let status = serde_json::to_string(&ChatStatus::from(pages.chat))?;
            // The fields follow the list in the same object.
            json.push_str("],");
            json.push_str(&status[1..]);
            return Ok(Some((json.into(), (None, false))));
        }
        // The brackets of the list are left out.
        let page = serde_json::to_string(&page)?;
        json.push_str(&page[1..page.len() - 1]);
        Ok(Some((json.into(), (Some(pages), false))))
    })
}

/// Lists the owner's chats: the pinned ones first, then newest first.
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
    let query = ChatQuery {
        owner: &owner,
        archived: Some(page.archived),
        limit: page.limit,
        before: page.before.as_deref(),
    };
    let found = app.engine().chats(query).await?;
    let chats = found.chats.into_iter().map(|chat| ListedChat {
        id: chat.id,
        listing: chat.listing.into(),
        created_at: chat.created_at,
        updated_at: chat.updated_at,
        open: chat.open,
        pending: chat.pending,
        status: chat.status,
    });
    Ok(Json(ChatList { chats: chats.collect(), next: found.next }))
}

/// Renames the chat, archives or pins it. Its place among the other chats stays.
#[utoipa::path(patch, path = "/api/chat/{id}", operation_id = "patchChat", tag = "record", request_body = ChatPatch,
    params(("id" = String, Path, description = "The chat's id")),
    responses((status = 200, description = "The entry of the chat in lists", body = Listed), refusals::Chat, refusals::Body)
)]
pub async fn patch(
    State(app): State<App>,
    Identity(owner): Identity,
    ChatPath(chat): ChatPath,
    ApiJson { body, .. }: ApiJson<ChatPatch>,
) -> Result<Json<Listed>, ApiError> {
    Ok(Json(app.engine().change_listing(&owner, &chat?, body).await?.into()))
}

/// Deletes the chat and stops its open run.
#[utoipa::path(delete, path = "/api/chat/{id}", operation_id = "deleteChat", tag = "record",
    params(("id" = String, Path, description = "The chat's id"), Deletion),
    responses((status = 204, description = "The chat is deleted"), refusals::Chat)
)]
pub async fn delete(
    State(app): State<App>,
    Identity(owner): Identity,
    ChatPath(chat): ChatPath,
    ApiQuery(Deletion { memories }): ApiQuery<Deletion>,
) -> Result<StatusCode, ApiError> {
    app.engine().delete(&owner, &chat?, memories).await?;
    Ok(StatusCode::NO_CONTENT)
}

// === impl ChatStatus ===

impl From<ChatView> for ChatStatus {
    fn from(chat: ChatView) -> Self {
        let pending = chat.pending.into_iter().map(Into::into).collect();
        let ChatView { open, listing, assistant, model, status, context, .. } = chat;
        Self { pending, open, listing: listing.into(), assistant, model, status, context }
    }
}

// === impl Listed ===

impl From<Listing> for Listed {
    fn from(Listing { title, archived, pinned }: Listing) -> Self {
        Self { title, archived, pinned }
    }
}

// === impl Page ===

impl Page {
    fn default_limit() -> usize {
        20
    }
}
