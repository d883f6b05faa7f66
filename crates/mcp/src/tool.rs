//! A tool of a server, as Fermata's scheduler runs it.

use std::sync::Arc;

use async_trait::async_trait;
use fermata_tools::{CallContext, Decision, ErrorType, RunBy, Tool, ToolError, ToolSpec};
use futures::FutureExt;
use rmcp::{
    Peer, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam, ClientRequest,
        RequestId, ServerResult,
    },
    service::PeerRequestOptions,
};
use serde_json::{Map, Value};
use tokio::task::unconstrained;

use crate::{
    failure::{CallEnd, call_end, lost, too_large, unreadable},
    server::{Connection, Server, Servers},
};

/// As much of what a failed tool says as is passed on.
const LONGEST_FAILURE: usize = 8_000;

/// A tool of an MCP server.
pub(crate) struct McpTool {
    servers: Arc<Servers>,
    /// The name of the one that has it.
    server: String,
    /// Its name there.
    name: String,
    spec: ToolSpec,
}

/// A request whose answer is awaited. Dropped before that, it tells the server that nobody waits any more.
struct Awaited {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

// === impl McpTool ===

impl McpTool {
    /// The tool as `listed` by a server, under a `name` of our own.
    pub(crate) fn new(
        servers: Arc<Servers>,
        server: String,
        name: String,
        listed: &rmcp::model::Tool,
    ) -> Self {
        let read_only = listed.annotations.as_ref().and_then(|hints| hints.read_only_hint) == Some(true);
        let spec = ToolSpec {
            name,
            description: listed.description.as_deref().or(listed.title.as_deref()).unwrap_or_default().into(),
            input_schema: object_schema(&listed.input_schema),
            run_by: RunBy::Mcp,
            server: Some(server.clone()),
            policy: if read_only { Decision::Allow } else { Decision::Ask },
            resource: None,
            timeout: None,
            repeatable: false,
        };
        Self { servers, server, name: listed.name.clone().into_owned(), spec }
    }

    /// Runs the call over one connection.
    async fn call_over(
        &self,
        server: &Server,
        connection: &Connection,
        input: Map<String, Value>,
        context: &CallContext,
    ) -> Result<Value, CallEnd> {
        let Connection { peer, link, .. } = connection;
        let end = |error| call_end(&server.name, error, &server.secrets);
        let place = link.calls.open(context.clone());
        let params = CallToolRequestParams::new(self.name.clone()).with_arguments(input);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let handle =
            peer.send_request_with_option(request, PeerRequestOptions::no_options()).await.map_err(end)?;
        place.sent(handle.id.clone(), handle.progress_token.clone());
        let mut awaited = Awaited { peer: peer.clone(), id: Some(handle.id.clone()) };
        let answer = tokio::select! {
            biased;
            answer = handle.await_response() => answer.map_err(end),
            () = context.cancelled.cancelled() => {
                return Err(CallEnd::Failed(ToolError::new(ErrorType::Cancelled, "The call was cancelled.")));
            }
            () = place.too_large() => Err(CallEnd::Failed(too_large(&server.name))),
            () = link.lost.cancelled() => Err(CallEnd::Failed(lost(&server.name))),
        };
        awaited.id = None;
        match answer {
            Ok(result) => output(server, result).map_err(CallEnd::Failed),
            Err(_) if place.answer_is_too_large() => Err(CallEnd::Failed(too_large(&server.name))),
            Err(end) => {
                if matches!(&end, CallEnd::Failed(error) if error.error_type == ErrorType::Network) {
                    link.doubt.notify_one();
                }
                Err(end)
            }
        }
    }
}

fn output(server: &Server, result: ServerResult) -> Result<Value, ToolError> {
    match result {
        ServerResult::CallToolResult(CallToolResult { content, structured_content, is_error, .. }) => {
            let content = serde_json::to_value(content).map_err(|_| unreadable(&server.name))?;
            checked(server, content, structured_content, is_error == Some(true))
        }
        // Content of a kind that the library does not know: the rest is as good as ever.
        ServerResult::CustomResult(result) => {
            let Value::Object(mut fields) = result.0 else { return Err(unreadable(&server.name)) };
            let failed = fields.get("isError") == Some(&Value::Bool(true));
            match (fields.remove("content"), fields.remove("structuredContent")) {
                (Some(content @ Value::Array(_)), structured) => checked(server, content, structured, failed),
                (_, _) => Err(unreadable(&server.name)),
            }
        }
        _ => Err(unreadable(&server.name)),
    }
}

fn checked(
    server: &Server,
    content: Value,
    structured: Option<Value>,
    failed: bool,
) -> Result<Value, ToolError> {
    if failed {
        return Err(failure(server, &content));
    }
    let mut output = Map::from_iter([("content".to_owned(), content)]);
    output.extend(structured.map(|structured| ("structuredContent".to_owned(), structured)));
    Ok(Value::Object(output))
}

fn failure(server: &Server, content: &Value) -> ToolError {
    let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    let text = server.secrets.mask(texts.join("\n"));
    ToolError::internal(match text.char_indices().nth(LONGEST_FAILURE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None if text.trim().is_empty() => "The tool failed and did not say why.".to_owned(),
        None => text,
    })
}

/// The schema with the type that every input has. One that says something else stays wrong, and is for those to refuse
/// who take the tool.
fn object_schema(schema: &Map<String, Value>) -> Value {
    let mut schema = schema.clone();
    schema.entry("type").or_insert_with(|| "object".into());
    Value::Object(schema)
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    async fn call(&self, input: Value, context: CallContext) -> Result<Value, ToolError> {
        let Value::Object(input) = input else {
            return Err(ToolError::new(ErrorType::InvalidFormat, "The input must be an object."));
        };
        let mut forgotten = false;
        loop {
            let (server, connection) = tokio::select! {
                biased;
                () = context.cancelled.cancelled() => {
                    return Err(ToolError::new(ErrorType::Cancelled, "The call was cancelled."));
                }
                found = self.servers.connection(&self.server) => found?,
            };
            if !connection.tools.contains(&self.name) {
                let (server, name) = (&self.server, &self.name);
                return Err(ToolError::internal(format!(
                    "The MCP server {server} no longer has the tool {name}."
                )));
            }
            match self.call_over(&server, &connection, input.clone(), &context).await {
                Ok(output) => return Ok(output),
                Err(CallEnd::Failed(error)) => return Err(error),
                Err(CallEnd::Forgotten) if forgotten => return Err(lost(&self.server)),
                // The server has not seen the call, so that it can be made again over a new connection.
                Err(CallEnd::Forgotten) => {
                    forgotten = true;
                    connection.link.lost.cancel();
                }
            }
        }
    }
}

// === impl Awaited ===

impl Drop for Awaited {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let params =
                CancelledNotificationParam::new(Some(id), Some("nobody waits for it any more".into()));
            // The first poll puts it into the queue, also when the task has used up its turn; nobody can wait for more here.
            let _ = unconstrained(self.peer.notify_cancelled(params)).now_or_never();
        }
    }
}
