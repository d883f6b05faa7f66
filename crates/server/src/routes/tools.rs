//! The list of the server's tools, and of the MCP servers that offer some of them.

use axum::{Json, extract::State};
use fermata_engine::{
    assistants::DEFAULT_ASSISTANT,
    memories::{FORGET, REMEMBER},
    plan::{MAKE_PLAN, UPDATE_PLAN},
};
use fermata_mcp::{ServerState, ServerStatus};
use fermata_tools::{Decision, RunBy};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::schema::refusals;
use crate::{
    App,
    auth::Caller,
    error::{ApiError, Code},
    extract::ApiQuery,
};

/// A tool of the server.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedTool {
    name: String,
    /// The title that people see, if the tool has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
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

/// An MCP server of the settings.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedServer {
    /// The name in the settings. The names of its tools begin with it.
    name: String,
    /// `starting`, `connected` or `down`.
    #[schema(example = "connected")]
    state: &'static str,
    /// The version of MCP that is spoken, if it is connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<String>,
    /// The reason why it is not connected. It is only shown where the server is for its own machine alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The names of Fermata's own tools whose calls a page may show by their effect, whether or not the assistant has them.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnTools {
    /// The tool that makes a plan.
    #[schema(example = "make_plan")]
    make_plan: &'static str,
    /// The tool that reports a step of the plan.
    #[schema(example = "update_plan")]
    update_plan: &'static str,
    /// The tool that saves a memory.
    #[schema(example = "remember")]
    remember: &'static str,
    /// The tool that deletes a memory.
    #[schema(example = "forget")]
    forget: &'static str,
}

/// A list of tools.
#[derive(Serialize, ToSchema)]
pub struct ToolList {
    tools: Vec<ListedTool>,
    own: OwnTools,
    /// The MCP servers of the settings.
    servers: Vec<ListedServer>,
}

/// The parameters of the list.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct OfAssistant {
    /// The assistant whose tools are listed; `default` if it is absent.
    assistant: Option<String>,
}

/// Lists the server's tools that an assistant may call.
#[utoipa::path(get, path = "/api/tools", operation_id = "listTools", tag = "record", params(OfAssistant),
    responses((status = 200, description = "The tools", body = ToolList), refusals::Chat)
)]
pub async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    ApiQuery(OfAssistant { assistant }): ApiQuery<OfAssistant>,
) -> Result<Json<ToolList>, ApiError> {
    let name = assistant.as_deref().unwrap_or(DEFAULT_ASSISTANT);
    let principal = app.engine().with_groups(&principal);
    if let Err(error) = app.engine().assistants().choose(name, &principal) {
        return Err(ApiError::new(Code::NotFound, error.to_string()));
    }
    let tools = app.engine().tools(&principal, Some(name)).into_iter().map(|spec| ListedTool {
        name: spec.name,
        title: spec.title,
        description: spec.description,
        input_schema: Value::clone(&spec.input_schema),
        run_by: spec.run_by,
        policy: spec.policy,
        resource: spec.resource.map(|resource| resource.to_string()),
    });
    let servers = app.mcp().servers().into_iter().map(|status| listed_server(status, app.shows_causes()));
    let own = OwnTools { make_plan: MAKE_PLAN, update_plan: UPDATE_PLAN, remember: REMEMBER, forget: FORGET };
    Ok(Json(ToolList { tools: tools.collect(), own, servers: servers.collect() }))
}

fn listed_server(ServerStatus { name, state }: ServerStatus, shows_reason: bool) -> ListedServer {
    let (state, protocol, reason) = match state {
        ServerState::Starting => ("starting", None, None),
        ServerState::Connected { protocol, .. } => ("connected", Some(protocol), None),
        ServerState::Down { reason } => ("down", None, Some(reason)),
    };
    ListedServer { name, state, protocol, reason: if shows_reason { reason } else { None } }
}
