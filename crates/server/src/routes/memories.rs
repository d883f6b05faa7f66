//! The memories of an owner, which are known in all of the owner's chats.

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    http::StatusCode,
};
use fermata_engine::{
    memories::{MemoryDraft, MemoryError},
    store::memories::{MemoryAuthor, MemoryEdit, MemoryEvent, MemoryId, MemoryOutcome},
};
use fermata_protocol::{MemoryEditRequest, MemoryKind, MemoryRequest};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::schema::refusals;
use crate::{
    App,
    auth::Identity,
    client::Client,
    error::{ApiError, Code, Problem},
    extract::{ApiJson, ApiQuery},
    personal_data::Memory,
};

/// A page of memories.
#[derive(Serialize, ToSchema)]
pub struct MemoryList {
    /// The memories, newest first.
    memories: Vec<Memory>,
    /// The value of `before` for the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// The memory after its newest change was undone.
#[derive(Serialize, ToSchema)]
pub struct UndoneMemory {
    /// The memory as it is now; `null` if it was new and is deleted now.
    #[schema(required)]
    memory: Option<Memory>,
}

/// The number of memories that were deleted.
#[derive(Serialize, ToSchema)]
pub struct DeletedMemories {
    #[schema(example = 12)]
    deleted: usize,
}

/// The parameters of a page of memories.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct MemoryPageQuery {
    /// Words: only the memories that have to do with them are listed.
    query: Option<String>,
    /// The kind of the memories that are listed.
    kind: Option<MemoryKind>,
    /// The number of memories on the page, 1 to 100.
    #[serde(default = "MemoryPageQuery::default_limit")]
    #[param(default = 20, minimum = 1, maximum = 100)]
    limit: usize,
    /// The `next` of the previous page.
    before: Option<String>,
}

/// Lists the owner's memories, newest first.
#[utoipa::path(get, path = "/api/memories", operation_id = "listMemories", tag = "memory", params(MemoryPageQuery),
    responses((status = 200, description = "A page of memories", body = MemoryList), refusals::Any)
)]
pub async fn list(
    State(app): State<App>,
    Identity(owner): Identity,
    ApiQuery(page): ApiQuery<MemoryPageQuery>,
) -> Result<Json<MemoryList>, ApiError> {
    let MemoryPageQuery { query, kind, limit, before } = page;
    if !(1..=100).contains(&limit) {
        return Err(ApiError::new(Code::InvalidRequest, "limit must be 1 to 100."));
    }
    let memories = app.engine().memories();
    let page = memories.list(&owner, query.as_deref(), kind, limit, before.as_deref()).await;
    let page = page.map_err(MemoryError::from)?;
    Ok(Json(MemoryList { memories: page.memories.into_iter().map(Into::into).collect(), next: page.next }))
}

/// Saves a memory.
///
/// A memory whose slot is taken replaces the one that has it. One that is known already is not saved again.
#[utoipa::path(post, path = "/api/memories", operation_id = "saveMemory", tag = "memory",
    request_body = MemoryRequest,
    responses((status = 201, description = "The memory", body = Memory), refusals::Any, refusals::Body)
)]
pub async fn post(
    State(app): State<App>,
    Identity(owner): Identity,
    client: Client,
    ApiJson { body, reservation: _reservation }: ApiJson<MemoryRequest>,
) -> Result<(StatusCode, Json<Memory>), ApiError> {
    let MemoryRequest { text, kind, slot, pinned } = body;
    let draft = MemoryDraft {
        id: None,
        kind: kind.unwrap_or_default(),
        text,
        slot,
        pinned: pinned.unwrap_or_default(),
    };
    let author = MemoryAuthor::person(client.address);
    match app.engine().memories().save(&owner, draft, &author).await? {
        MemoryOutcome::Changed(MemoryEvent { after: Some(memory), .. })
        | MemoryOutcome::Unchanged(memory) => Ok((StatusCode::CREATED, Json(memory.into()))),
        MemoryOutcome::Changed(MemoryEvent { after: None, .. })
        | MemoryOutcome::Unknown
        | MemoryOutcome::Full
        | MemoryOutcome::TooManyAlways => Err(MemoryError::NotFound.into()),
    }
}

/// Changes parts of a memory.
#[utoipa::path(patch, path = "/api/memories/{id}", operation_id = "editMemory", tag = "memory",
    params(("id" = String, Path, description = "The memory's id")),
    request_body = MemoryEditRequest,
    responses((status = 200, description = "The memory", body = Memory), refusals::Memory, refusals::Body)
)]
pub async fn patch(
    State(app): State<App>,
    Identity(owner): Identity,
    client: Client,
    path: Result<Path<String>, PathRejection>,
    ApiJson { body, reservation: _reservation }: ApiJson<MemoryEditRequest>,
) -> Result<Json<Memory>, ApiError> {
    let MemoryEditRequest { text, kind, slot, pinned } = body;
    let edit = MemoryEdit { kind, text, slot, pinned };
    let author = MemoryAuthor::person(client.address);
    Ok(Json(app.engine().memories().edit(&owner, id_in(path)?, edit, &author).await?.into()))
}

/// Deletes a memory. `POST …/undo` brings it back.
#[utoipa::path(delete, path = "/api/memories/{id}", operation_id = "deleteMemory", tag = "memory",
    params(("id" = String, Path, description = "The memory's id")),
    responses((status = 204, description = "The memory is deleted"), refusals::Memory)
)]
pub async fn delete(
    State(app): State<App>,
    Identity(owner): Identity,
    client: Client,
    path: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let author = MemoryAuthor::person(client.address);
    app.engine().memories().forget(&owner, id_in(path)?, &author).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Undoes the newest change of a memory, even its deletion.
#[utoipa::path(post, path = "/api/memories/{id}/undo", operation_id = "undoMemory", tag = "memory",
    params(("id" = String, Path, description = "The memory's id")),
    responses(
        (status = 200, description = "The memory as it is now", body = UndoneMemory),
        (status = 409, description = "`nothing_to_undo`: no change is left to be undone", body = Problem, content_type = "application/problem+json"),
        refusals::Memory,
    )
)]
pub async fn undo(
    State(app): State<App>,
    Identity(owner): Identity,
    client: Client,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<UndoneMemory>, ApiError> {
    let author = MemoryAuthor::person(client.address);
    let memory = app.engine().memories().undo(&owner, &id_in(path)?, &author).await?;
    Ok(Json(UndoneMemory { memory: memory.map(Into::into) }))
}

/// Deletes all memories of the owner. This cannot be undone.
#[utoipa::path(delete, path = "/api/memories", operation_id = "deleteMemories", tag = "memory",
    responses((status = 200, description = "The number of memories that were deleted", body = DeletedMemories), refusals::Any)
)]
pub async fn delete_all(
    State(app): State<App>,
    Identity(owner): Identity,
    client: Client,
) -> Result<Json<DeletedMemories>, ApiError> {
    let author = MemoryAuthor::person(client.address);
    let deleted = app.engine().memories().forget_all(&owner, &author).await.map_err(MemoryError::from)?;
    Ok(Json(DeletedMemories { deleted }))
}

/// Returns the id in the path. A path that is not UTF-8 has none that exists.
fn id_in(path: Result<Path<String>, PathRejection>) -> Result<MemoryId, ApiError> {
    match path {
        Ok(Path(id)) => Ok(MemoryId(id)),
        Err(_) => Err(MemoryError::NotFound.into()),
    }
}

// === impl MemoryPageQuery ===

impl MemoryPageQuery {
    fn default_limit() -> usize {
        20
    }
}
