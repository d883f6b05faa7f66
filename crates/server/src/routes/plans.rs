//! `/api/chat/{id}/plan`: the open plan of a chat.

use axum::{extract::State, http::StatusCode};

use super::schema::refusals;
use crate::{
    App,
    auth::Identity,
    error::{ApiError, Problem},
    extract::ChatPath,
};

/// Drops the open plan of a chat. Later runs do not go on with it, and its card shows it as denied.
#[utoipa::path(delete, path = "/api/chat/{id}/plan", operation_id = "dropPlan", tag = "record",
    params(("id" = String, Path, description = "The chat's id")),
    responses(
        (status = 204, description = "The plan is dropped"),
        (status = 409, description = "`run_open`: a run is open", body = Problem, content_type = "application/problem+json"),
        refusals::Chat,
    )
)]
pub async fn delete(
    State(app): State<App>,
    Identity(owner): Identity,
    ChatPath(chat): ChatPath,
) -> Result<StatusCode, ApiError> {
    app.engine().drop_plan(&owner, &chat?).await?;
    Ok(StatusCode::NO_CONTENT)
}
