//! The list of the server's tools.

use axum::{Json, extract::State};
use fermata_tools::{Decision, RunBy};
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
    /// The description for the model.
    description: String,
    /// The JSON Schema of the input.
    input_schema: Value,
    /// The party that runs the tool's calls: `server` or `mcp`.
    #[schema(value_type = String, example = "server")]
    run_by: RunBy,
    /// The decision about a call unless a rule about its input decides otherwise: `allow`, `ask` or `deny`.
    #[schema(value_type = String, example = "ask")]
    policy: Decision,
    /// The resource that only one call at a time may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
}

/// A list of tools.
#[derive(Serialize, ToSchema)]
pub struct ToolList {
    tools: Vec<ListedTool>,
}

/// Lists the server's tools.
#[utoipa::path(get, path = "/api/tools", operation_id = "listTools", tag = "record",
    responses((status = 200, description = "The tools", body = ToolList), refusals::Any)
)]
pub async fn list(State(app): State<App>, Identity(owner): Identity) -> Result<Json<ToolList>, ApiError> {
    let tools = app.engine().tools(&owner, None).into_iter().map(|spec| ListedTool {
        name: spec.name,
        description: spec.description,
        input_schema: spec.input_schema,
        run_by: spec.run_by,
        policy: spec.policy,
        resource: spec.resource.map(|resource| resource.to_string()),
    });
    Ok(Json(ToolList { tools: tools.collect() }))
}
