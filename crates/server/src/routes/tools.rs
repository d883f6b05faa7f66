//! What the server itself can do.

use axum::{Json, extract::State};
use fermata_tools::{Decision, RunBy, ToolSpec};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::schema::refusals;
use crate::{App, auth::Identity, error::ApiError};

/// A tool of the server.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedTool {
    name: String,
    /// What the model is told about it.
    description: String,
    /// JSON Schema of its input.
    #[schema(value_type = Object)]
    input_schema: Value,
    /// Who runs its calls.
    #[schema(value_type = String, example = "server")]
    run_by: RunBy,
    /// What happens to a call before it runs: `allow`, `ask` or `deny`.
    #[schema(value_type = String, example = "ask")]
    policy: Decision,
    /// Calls of tools with one resource run one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
}

/// The tools.
#[derive(Serialize, ToSchema)]
pub struct ToolList {
    tools: Vec<ListedTool>,
}

/// The server's own tools.
#[utoipa::path(get, path = "/api/tools", operation_id = "listTools", tag = "record",
    responses((status = 200, description = "The tools", body = ToolList), refusals::Any)
)]
pub async fn list(State(app): State<App>, Identity(owner): Identity) -> Result<Json<ToolList>, ApiError> {
    Ok(Json(ToolList { tools: app.engine().tools(&owner).into_iter().map(Into::into).collect() }))
}

impl From<ToolSpec> for ListedTool {
    fn from(spec: ToolSpec) -> Self {
        Self {
            name: spec.name,
            description: spec.description,
            input_schema: spec.input_schema,
            run_by: spec.run_by,
            policy: spec.policy,
            resource: spec.resource.map(|resource| resource.to_string()),
        }
    }
}
