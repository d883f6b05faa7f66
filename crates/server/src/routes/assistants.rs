//! The list of the assistants that people can talk to.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::schema::refusals;
use crate::{App, auth::Caller, error::ApiError};

/// An assistant. The operator's instructions to the model are not part of this.
#[derive(Serialize, ToSchema)]
pub struct ListedAssistant {
    /// The name that `fermata.assistant` of a post chooses it with.
    #[schema(example = "default")]
    name: String,
    /// The title for people.
    title: String,
    /// The names of its models, which `fermata.model` of a post chooses; the first answers if a chat has chosen none.
    models: Vec<String>,
    /// Messages that a page may suggest for a beginning.
    suggestions: Vec<String>,
}

/// A list of assistants.
#[derive(Serialize, ToSchema)]
pub struct AssistantList {
    /// The assistants that the owner may talk to, with `default` first.
    assistants: Vec<ListedAssistant>,
}

/// Lists the assistants that the owner may talk to.
#[utoipa::path(get, path = "/api/assistants", operation_id = "listAssistants", tag = "record",
    responses((status = 200, description = "The assistants", body = AssistantList), refusals::Any)
)]
pub async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
) -> Result<Json<AssistantList>, ApiError> {
    let (assistants, principal) = (app.engine().assistants(), app.engine().with_groups(&principal));
    let listed = assistants.iter_for(&principal).map(|(name, assistant)| ListedAssistant {
        name: name.to_owned(),
        title: assistant.title.clone().unwrap_or_else(|| name.to_owned()),
        models: assistant.models().map(|model| model.name.clone()).collect(),
        suggestions: assistant.suggestions.clone(),
    });
    Ok(Json(AssistantList { assistants: listed.collect() }))
}
