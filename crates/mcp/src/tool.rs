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
use serde_json::{Map, Value, json};
use tokio::task::unconstrained;

use crate::{
    calls::OpenCallGuard,
    failure::{CallFailure, call_end, lost, too_large, unreadable},
    server::{AcquiredSession, Connection, Server, Servers},
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
struct PendingRequest {
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
        let is_trusted = servers.get(&server).is_some_and(|server| server.trusts_annotations);
        let spec = ToolSpec {
            name,
            description: listed.description.as_deref().or(listed.title.as_deref()).unwrap_or_default().into(),
            input_schema: object_schema(&listed.input_schema),
            run_by: RunBy::Mcp,
            server: Some(server.clone()),
            policy: if is_trusted && only_reads(listed) { Decision::Allow } else { Decision::Ask },
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
        session: &AcquiredSession,
        input: Map<String, Value>,
        context: &CallContext,
    ) -> Result<Value, CallFailure> {
        let Connection { peer, link, .. } = &session.connection;
        let end = |error| call_end(&server.name, error, &server.secrets);
        let place = open(server, session, context).await?;
        let params = CallToolRequestParams::new(self.name.clone()).with_arguments(input);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let handle =
            peer.send_request_with_option(request, PeerRequestOptions::no_options()).await.map_err(end)?;
        place.register_request(handle.id.clone(), handle.progress_token.clone());
        let mut awaited = PendingRequest { peer: peer.clone(), id: Some(handle.id.clone()) };
        let answer = tokio::select! {
            biased;
            answer = handle.await_response() => answer.map_err(end),
            () = context.cancelled.cancelled() => return Err(CallFailure::Failed(cancelled())),
            () = place.wait_until_too_large() => Err(CallFailure::Failed(too_large(&server.name))),
            () = link.closed.cancelled() => Err(CallFailure::Failed(lost(&server.name))),
        };
        awaited.id = None;
        match answer {
            Ok(result) => {
                let unanswered: Vec<String> = place
                    .unanswered()
                    .iter()
                    .map(|unanswered| server.explain_unanswered(unanswered))
                    .collect();
                output(server, result, &unanswered).map_err(CallFailure::Failed)
            }
            Err(_) if place.is_too_large() => Err(CallFailure::Failed(too_large(&server.name))),
            Err(end) => {
                if matches!(&end, CallFailure::Failed(error) if error.error_type == ErrorType::Network) {
                    link.check_alive.notify_one();
                }
                Err(end)
            }
        }
    }
}

/// Waits until the connection can take the call.
async fn open(
    server: &Server,
    session: &AcquiredSession,
    context: &CallContext,
) -> Result<OpenCallGuard, CallFailure> {
    let link = &session.connection.link;
    let mut waiting = None;
    loop {
        let changed = link.calls.changed.notified();
        tokio::pin!(changed);
        // From here on nothing is missed that happens after the look.
        changed.as_mut().enable();
        if let Some(place) = link.calls.open(context.clone()) {
            return Ok(place);
        }
        if server.scope(context) != session.scope {
            return Err(CallFailure::NeedsOtherSession);
        }
        if waiting.is_none() {
            waiting = Some(context.waits_for(format!(
                "the MCP server {} may ask the person something, so a process of it serves one chat at a time, and calls of \
                 another chat were open (see `processes`)",
                server.name
            )));
        }
        tokio::select! {
            biased;
            () = context.cancelled.cancelled() => return Err(CallFailure::Failed(cancelled())),
            () = link.closed.cancelled() => return Err(CallFailure::NeedsOtherSession),
            () = changed => {}
        }
    }
}

fn cancelled() -> ToolError {
    ToolError::new(ErrorType::Cancelled, "The call was cancelled.")
}

/// `unanswered`: what is to be told besides.
fn output(server: &Server, result: ServerResult, unanswered: &[String]) -> Result<Value, ToolError> {
    match result {
        ServerResult::CallToolResult(CallToolResult { content, structured_content, is_error, .. }) => {
            let content = serde_json::to_value(content).map_err(|_| unreadable(&server.name))?;
            checked(server, content, structured_content, is_error == Some(true), unanswered)
        }
        // Content of a kind that the library does not know: the rest is as good as ever.
        ServerResult::CustomResult(result) => {
            let Value::Object(mut fields) = result.0 else { return Err(unreadable(&server.name)) };
            let failed = fields.get("isError") == Some(&Value::Bool(true));
            match (fields.remove("content"), fields.remove("structuredContent")) {
                (Some(content @ Value::Array(_)), structured) => {
                    checked(server, content, structured, failed, unanswered)
                }
                (_, _) => Err(unreadable(&server.name)),
            }
        }
        _ => Err(unreadable(&server.name)),
    }
}

fn checked(
    server: &Server,
    mut content: Value,
    structured: Option<Value>,
    failed: bool,
    unanswered: &[String],
) -> Result<Value, ToolError> {
    if let Value::Array(blocks) = &mut content {
        let told = unanswered.iter().map(|text| json!({"type": "text", "text": text}));
        // The end of what a failed tool says may be cut off.
        let at = if failed { 0 } else { blocks.len() };
        blocks.splice(at..at, told);
    }
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

/// What a tool says about itself. A tool that says that it destroys something is not believed to only read.
fn only_reads(listed: &rmcp::model::Tool) -> bool {
    listed
        .annotations
        .as_ref()
        .is_some_and(|hints| hints.read_only_hint == Some(true) && hints.destructive_hint != Some(true))
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
            let (server, session) = tokio::select! {
                biased;
                () = context.cancelled.cancelled() => return Err(cancelled()),
                found = self.servers.acquire_session(&self.server, &context) => found?,
            };
            if !session.connection.tools.contains(&self.name) {
                let (server, name) = (&self.server, &self.name);
                return Err(ToolError::internal(format!(
                    "The MCP server {server} no longer has the tool {name}."
                )));
            }
            match self.call_over(&server, &session, input.clone(), &context).await {
                Ok(output) => return Ok(output),
                Err(CallFailure::Failed(error)) => return Err(error),
                Err(CallFailure::SessionExpired) if forgotten => return Err(lost(&self.server)),
                // The server has not seen the call, so that it can be made again over a new connection.
                Err(CallFailure::SessionExpired) => {
                    forgotten = true;
                    session.connection.link.closed.cancel();
                }
                Err(CallFailure::NeedsOtherSession) => {}
            }
        }
    }
}

// === impl PendingRequest ===

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let params =
                CancelledNotificationParam::new(Some(id), Some("nobody waits for it any more".into()));
            // The first poll puts it into the queue, also when the task has used up its turn; nobody can wait for more here.
            let _ = unconstrained(self.peer.notify_cancelled(params)).now_or_never();
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ToolAnnotations;

    use super::*;

    #[test]
    fn a_tool_only_reads_if_it_says_so_and_does_not_say_that_it_destroys() {
        let says = |read_only, destructive| {
            let mut annotations = ToolAnnotations::new();
            annotations.read_only_hint = read_only;
            annotations.destructive_hint = destructive;
            only_reads(&rmcp::model::Tool::new("tool", "", Map::new()).with_annotations(annotations))
        };
        assert!(says(Some(true), None) && says(Some(true), Some(false)));
        assert!(!says(Some(true), Some(true)), "it contradicts itself");
        assert!(!says(None, None) && !says(Some(false), None) && !says(None, Some(false)));
        assert!(!only_reads(&rmcp::model::Tool::new("tool", "", Map::new())));
    }
}
