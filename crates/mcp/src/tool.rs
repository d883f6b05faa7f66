//! The tools of MCP servers, and how their calls are made.

use std::sync::Arc;

use async_trait::async_trait;
use fermata_protocol::JsonText;
use fermata_tools::{
    CallContext, Decision, Elicitation, ElicitationReply, ErrorType, InputSchema, OutputSchema, RunBy, Tool,
    ToolError, ToolSpec,
};
use futures::FutureExt;
use rmcp::{
    Peer, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam, ClientRequest,
        CustomResult, InputResponses, RequestId, ServerResult,
    },
    service::PeerRequestOptions,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::task::unconstrained;

use crate::{
    calls::{OpenCallGuard, Unanswered},
    client::{ELICITATION_METHOD, elicit_result, read_elicitation},
    failure::{CallFailure, call_failure, connection_lost, invalid_response},
    metadata,
    server::Server,
    servers::Servers,
    session::Connection,
    sessions::AcquiredSession,
};

/// The maximum length of the text of a failed tool, in characters. A longer one is cut.
const MAX_FAILURE_TEXT: usize = 8_000;

/// The number of times that a server may ask something during one call.
const MAX_ROUNDS: usize = 10;

/// A tool of an MCP server.
pub(crate) struct McpTool {
    servers: Arc<Servers>,
    /// The name of the server that has the tool.
    server: String,
    /// The tool's name on the server.
    name: String,
    spec: ToolSpec,
    output_schema: Option<OutputSchema>,
}

/// A request that waits for its response. It sends the server a cancellation when it is dropped, unless `id` has been taken.
struct PendingRequest {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

// === impl McpTool ===

impl McpTool {
    /// Creates the tool that a server has `listed`. `name` is its name in Fermata.
    pub(crate) fn new(
        servers: Arc<Servers>,
        server: String,
        name: String,
        listed: &rmcp::model::Tool,
    ) -> Self {
        let is_trusted = servers.get(&server).is_some_and(|sessions| sessions.server.trusts_annotations);
        let spec = ToolSpec {
            name,
            title: listed.title.clone(),
            description: listed.description.as_deref().or(listed.title.as_deref()).unwrap_or_default().into(),
            input_schema: InputSchema::received(Value::Object(listed.input_schema.as_ref().clone())),
            run_by: RunBy::Mcp,
            server: Some(server.clone()),
            policy: if is_trusted && is_read_only(listed) { Decision::Allow } else { Decision::Ask },
            resource: None,
            timeout: None,
            repeatable: is_trusted && (is_idempotent(listed) || is_read_only(listed)),
            annotations: listed.annotations.as_ref().and_then(|said| serde_json::to_value(said).ok()),
        };
        let output_schema = listed.output_schema.as_ref().and_then(|schema| {
            let schema = OutputSchema::new(Value::Object(schema.as_ref().clone()));
            schema
                .inspect_err(|reason| {
                    tracing::warn!(server, tool = %listed.name, reason, "the outputs of an MCP tool are not checked");
                })
                .ok()
        });
        Self { servers, server, name: listed.name.clone().into_owned(), spec, output_schema }
    }

    /// Makes the call over one connection. If the server asks the person something, the call is made again with the replies.
    async fn call_over(
        &self,
        server: &Server,
        session: &AcquiredSession,
        input: &JsonText,
        context: &CallContext,
    ) -> Result<Value, CallFailure> {
        let open_call = open_call(server, session, context).await?;
        let arguments = input.read().map_err(|_| {
            let error = ToolError::new(ErrorType::InvalidFormat, "The input must be an object.");
            CallFailure::Failed(error)
        })?;
        let mut params = CallToolRequestParams::new(self.name.clone()).with_arguments(arguments);
        params.meta = Some(metadata::of_call(context));
        let mut notes = Vec::new();
        for _ in 0..MAX_ROUNDS {
            let result = self.request(server, session, &open_call, params.clone(), context).await?;
            let Some(required) = input_required(&result) else {
                let unanswered = open_call.unanswered();
                notes.extend(unanswered.iter().map(|unanswered| server.explain_unanswered(unanswered)));
                return tool_output(server, result, notes).map_err(CallFailure::Failed);
            };
            let mut responses = InputResponses::new();
            for (name, request) in
                required.get("inputRequests").and_then(Value::as_object).into_iter().flatten()
            {
                let reply = elicit(server, request, context).await.map_err(CallFailure::Failed)?;
                if let ElicitationReply::Unanswered { reason } = &reply {
                    notes.push(server.explain_unanswered(&Unanswered::Reason(reason.clone())));
                }
                responses.insert(name.clone(), json!(elicit_result(reply)));
            }
            params.input_responses = Some(responses);
            params.request_state = required.get("requestState").and_then(Value::as_str).map(str::to_owned);
        }
        Err(CallFailure::Failed(ToolError::internal(format!(
            "The MCP server {} asked for something {MAX_ROUNDS} times and did not return a result.",
            server.name
        ))))
    }

    /// Makes one request of a call.
    async fn request(
        &self,
        server: &Server,
        session: &AcquiredSession,
        open_call: &OpenCallGuard,
        params: CallToolRequestParams,
        context: &CallContext,
    ) -> Result<ServerResult, CallFailure> {
        let Connection { peer, link, .. } = &session.connection;
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let fail = |error| call_failure(&server.name, error, &server.secrets);
        let handle =
            peer.send_request_with_option(request, PeerRequestOptions::no_options()).await.map_err(fail)?;
        open_call.register_request(handle.id.clone(), handle.progress_token.clone());
        let mut pending = PendingRequest { peer: peer.clone(), id: Some(handle.id.clone()) };
        let response = tokio::select! {
            biased;
            response = handle.await_response() => response.map_err(fail),
            () = context.cancelled.cancelled() => return Err(CallFailure::Failed(cancelled())),
            () = link.closed.cancelled() => Err(CallFailure::Failed(connection_lost(&server.name))),
        };
        pending.id = None;
        if let Err(CallFailure::Failed(error)) = &response
            && error.error_type == ErrorType::Network
        {
            link.check_alive.notify_one();
        }
        response
    }
}

/// Returns the fields of a result that asks for something before the call can end.
fn input_required(result: &ServerResult) -> Option<Value> {
    match result {
        ServerResult::InputRequiredResult(required) => serde_json::to_value(required).ok(),
        // The library cannot read every schema.
        ServerResult::CustomResult(CustomResult(fields)) if fields["resultType"] == "input_required" => {
            Some(fields.clone())
        }
        _ => None,
    }
}

/// Asks the person the question that a server has before it ends a call.
async fn elicit(
    server: &Server,
    request: &Value,
    context: &CallContext,
) -> Result<ElicitationReply, ToolError> {
    let method = request["method"].as_str().unwrap_or_default();
    if method != ELICITATION_METHOD {
        return Err(ToolError::internal(format!(
            "The MCP server {} asks for {method}, which is not supported.",
            server.name
        )));
    }
    let (message, requested_schema) = read_elicitation(&request["params"]).map_err(|error| {
        ToolError::internal(format!(
            "What the MCP server {} asks cannot be shown: {}",
            server.name, error.message
        ))
    })?;
    let elicitation = Elicitation {
        message,
        requested_schema,
        server: Some(server.name.clone()),
        other_candidates: Vec::new(),
    };
    let _pause = context.pause();
    tokio::select! {
        biased;
        () = context.cancelled.cancelled() => Err(cancelled()),
        reply = context.elicit(elicitation) => Ok(reply),
    }
}

/// Waits until the call can be opened on the connection.
///
/// # Errors
/// Returns [`CallFailure::NeedsOtherSession`] if the connection is closed or the server's calls now need sessions of another
/// scope, and a failure if the call is cancelled.
async fn open_call(
    server: &Server,
    session: &AcquiredSession,
    context: &CallContext,
) -> Result<OpenCallGuard, CallFailure> {
    let link = &session.connection.link;
    let mut waiting = None;
    loop {
        let changed = link.calls.changed.notified();
        tokio::pin!(changed);
        // Changes after this point are noticed.
        changed.as_mut().enable();
        if let Some(open_call) = link.calls.open(context.clone()) {
            return Ok(open_call);
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

/// Converts a result into the output of the call. `notes` are added to its content as texts.
fn tool_output(server: &Server, result: ServerResult, notes: Vec<String>) -> Result<Value, ToolError> {
    let (content, structured, meta, failed) = match result {
        ServerResult::CallToolResult(CallToolResult {
            content, structured_content, is_error, meta, ..
        }) => {
            let content = serde_json::to_value(content).map_err(|_| invalid_response(&server.name))?;
            let meta = serde_json::to_value(meta).ok();
            (content, structured_content, meta, is_error == Some(true))
        }
        // The library cannot read a result with content of an unknown type, so its fields are read here.
        ServerResult::CustomResult(CustomResult(Value::Object(mut fields))) => {
            let failed = fields.get("isError") == Some(&Value::Bool(true));
            let content = match fields.remove("content") {
                // Programs in Go write `null` for an empty list.
                Some(Value::Null) => json!([]),
                Some(content) => content,
                None => return Err(invalid_response(&server.name)),
            };
            (content, fields.remove("structuredContent"), fields.remove("_meta"), failed)
        }
        _ => return Err(invalid_response(&server.name)),
    };
    let Value::Array(mut blocks) = content else { return Err(invalid_response(&server.name)) };
    // The notes come first if the tool failed, because the end of its text may be cut off.
    let index = if failed { 0 } else { blocks.len() };
    blocks.splice(index..index, notes.into_iter().map(|text| json!({"type": "text", "text": text})));
    if failed {
        let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        let text = server.secrets.mask(texts.join("\n"));
        let text = match text.char_indices().nth(MAX_FAILURE_TEXT) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None if text.trim().is_empty() => "The tool failed and did not say why.".to_owned(),
            None => text,
        };
        return Err(ToolError::new(error_type(structured.as_ref(), meta.as_ref(), &text), text));
    }
    let mut output = Map::from_iter([("content".to_owned(), Value::Array(blocks))]);
    if let Some(structured) = structured {
        output.insert("structuredContent".to_owned(), structured);
    }
    Ok(Value::Object(output))
}

/// Returns the type of a failed result: `errorType` of its structured content or of its `_meta`, by the names that settings use, or the
/// type that its words name.
fn error_type(structured: Option<&Value>, meta: Option<&Value>, text: &str) -> ErrorType {
    let said = [structured, meta].into_iter().flatten().filter_map(|part| part.get("errorType"));
    let said = said.filter_map(|name| ErrorType::deserialize(name).ok()).next();
    said.or_else(|| ErrorType::of_words(text)).unwrap_or(ErrorType::Internal)
}

/// Returns whether the annotations of a tool say that it only reads. A tool that also says that it is destructive does not count
/// as one.
fn is_read_only(listed: &rmcp::model::Tool) -> bool {
    match &listed.annotations {
        Some(hints) => hints.read_only_hint == Some(true) && hints.destructive_hint != Some(true),
        None => false,
    }
}

/// Returns whether the annotations of a tool say that a call with the same input changes nothing more.
fn is_idempotent(listed: &rmcp::model::Tool) -> bool {
    listed.annotations.as_ref().is_some_and(|hints| hints.idempotent_hint == Some(true))
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn output_schema(&self) -> Option<&OutputSchema> {
        self.output_schema.as_ref()
    }

    async fn call(&self, input: JsonText, context: CallContext) -> Result<Value, ToolError> {
        let mut has_expired = false;
        loop {
            let (server, session) = tokio::select! {
                biased;
                () = context.cancelled.cancelled() => return Err(cancelled()),
                acquired = self.servers.acquire_session(&self.server, &context) => acquired?,
            };
            if !session.connection.tools.contains(&self.name) {
                let (server, name) = (&self.server, &self.name);
                return Err(ToolError::internal(format!(
                    "The MCP server {server} no longer has the tool {name}."
                )));
            }
            match self.call_over(&server, &session, &input, &context).await {
                Ok(output) => return Ok(output),
                Err(CallFailure::Failed(error)) => return Err(error),
                Err(CallFailure::SessionExpired) if has_expired => return Err(connection_lost(&self.server)),
                // The server has not run the call, so it can be made again over a new connection.
                Err(CallFailure::SessionExpired) => {
                    has_expired = true;
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
            let params = CancelledNotificationParam::new(Some(id), Some("the call was cancelled".into()));
            // The first poll puts the notification into the queue. It is unconstrained so that it does so even if the task has used
            // up its budget, because `drop` cannot wait.
            let _ = unconstrained(self.peer.notify_cancelled(params)).now_or_never();
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ToolAnnotations;

    use super::*;

    #[test]
    fn a_tool_is_read_only_if_it_says_so_and_does_not_say_that_it_is_destructive() {
        let with_hints = |read_only, destructive| {
            let mut annotations = ToolAnnotations::new();
            annotations.read_only_hint = read_only;
            annotations.destructive_hint = destructive;
            is_read_only(&rmcp::model::Tool::new("tool", "", Map::new()).with_annotations(annotations))
        };
        assert!(with_hints(Some(true), None) && with_hints(Some(true), Some(false)));
        assert!(!with_hints(Some(true), Some(true)), "it contradicts itself");
        assert!(!with_hints(None, None) && !with_hints(Some(false), None) && !with_hints(None, Some(false)));
        assert!(!is_read_only(&rmcp::model::Tool::new("tool", "", Map::new())));
    }

    #[test]
    fn a_tool_is_idempotent_only_if_it_says_so() {
        let with_hint = |hint| {
            let mut annotations = ToolAnnotations::new();
            annotations.idempotent_hint = hint;
            is_idempotent(&rmcp::model::Tool::new("tool", "", Map::new()).with_annotations(annotations))
        };
        assert!(with_hint(Some(true)) && !with_hint(Some(false)) && !with_hint(None));
    }

    #[test]
    fn a_failed_result_has_the_type_that_it_names() {
        let limited = json!({"errorType": "rate_limit"});
        let unknown = json!({"errorType": "bad luck"});
        for (structured, meta, expected) in [
            (Some(&limited), None, ErrorType::RateLimit),
            (None, Some(&limited), ErrorType::RateLimit),
            (Some(&unknown), Some(&limited), ErrorType::RateLimit),
            (Some(&unknown), Some(&json!({})), ErrorType::Internal),
            (Some(&json!({"errorType": 5})), None, ErrorType::Internal),
            (Some(&json!(["rate_limit"])), Some(&Value::Null), ErrorType::Internal),
            (None, None, ErrorType::Internal),
        ] {
            assert_eq!(error_type(structured, meta, "the disk is full"), expected, "{structured:?} {meta:?}");
        }
    }
}
