//! The client side of MCP: the requests and notifications that a server may send. The only request that is supported is
//! elicitation in form mode.

use std::sync::Arc;

use fermata_tools::{Elicitation, ElicitationReply};
use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CustomRequest, CustomResult, ElicitRequestParams, ElicitResult,
        ElicitationAction, ElicitationCapability, ErrorCode, FormElicitationCapability, Implementation,
        JsonObject, MetaObject, ProgressNotificationParam, ProtocolVersion,
    },
    service::{InboundStreamOrigin, NotificationContext, RequestContext},
};
use serde_json::Value;

use crate::{
    calls::{Origin, Unanswered, Unroutable},
    link::Link,
    server::Server,
};

/// The method of an elicitation request.
pub(crate) const ELICITATION_METHOD: &str = "elicitation/create";

/// The largest message of an elicitation, in bytes. It is shown to a person and stored with the chat.
const MAX_MESSAGE: usize = 16_000;
/// The largest schema of an elicitation, as JSON in bytes. It is also stored with the chat.
const MAX_SCHEMA: usize = 64_000;

/// The key in `_meta` of the reason for a cancellation that no person has made.
const REASON_KEY: &str = "fermata/reason";

/// The handler of requests and notifications that come over one connection.
pub(crate) struct Client {
    server: Arc<Server>,
    link: Link,
    /// The version of MCP that the handshake offers.
    protocol: ProtocolVersion,
}

// === impl Client ===

impl Client {
    pub(crate) fn new(server: Arc<Server>, link: Link) -> Self {
        Self { server, link, protocol: ProtocolVersion::default() }
    }

    /// Sets the version that the handshake offers.
    pub(crate) fn with_protocol(self, protocol: ProtocolVersion) -> Self {
        Self { protocol, ..self }
    }

    /// Handles a request for an elicitation.
    async fn handle_elicitation(
        &self,
        params: &Value,
        context: &RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let (message, requested_schema) = read_elicitation(params)?;
        Ok(elicit_result(self.elicit(message, requested_schema, context).await))
    }

    /// Shows an elicitation to the person whose call it belongs to, and waits for the reply. It is cancelled if it belongs to no
    /// open call, when all calls that it may belong to have ended, and when the connection is closed.
    async fn elicit(
        &self,
        message: String,
        requested_schema: Value,
        context: &RequestContext<RoleClient>,
    ) -> ElicitationReply {
        let origin = match context.extensions.get::<InboundStreamOrigin>() {
            Some(InboundStreamOrigin::OutboundRequest(id)) => Origin::Request(id.clone()),
            Some(InboundStreamOrigin::Unassociated) | None => Origin::Unknown,
        };
        let route = tokio::select! {
            biased;
            () = self.link.closed.cancelled() => return ElicitationReply::Cancel,
            () = context.ct.cancelled() => return ElicitationReply::Cancel,
            route = self.link.calls.route_elicitation(&origin) => route,
        };
        let server = self.server.name.as_str();
        let route = match route {
            Ok(route) => route,
            Err(Unroutable::NoCall) => {
                tracing::warn!(
                    server,
                    "an elicitation of an MCP server is cancelled because no call to it is open"
                );
                return ElicitationReply::Cancel;
            }
            Err(Unroutable::SeveralChats) => {
                let reason = self.server.explain_unanswered(&Unanswered::SeveralChats);
                tracing::warn!(server, reason, "an elicitation of an MCP server is cancelled");
                return ElicitationReply::Unanswered { reason };
            }
        };
        let elicitation = Elicitation {
            message,
            requested_schema,
            server: Some(server.to_owned()),
            other_candidates: route.other_candidates.clone(),
        };
        let reply = tokio::select! {
            biased;
            () = route.ended() => ElicitationReply::Cancel,
            () = self.link.closed.cancelled() => ElicitationReply::Cancel,
            () = context.ct.cancelled() => ElicitationReply::Cancel,
            reply = route.context.elicit(elicitation) => reply,
        };
        if let ElicitationReply::Unanswered { reason } = &reply {
            let (chat, call) = (&route.context.chat, &route.context.call);
            tracing::warn!(server, %chat, %call, reason, "an elicitation of an MCP server is cancelled");
            route.note_unanswered(&Unanswered::Reason(reason.clone()));
        }
        reply
    }
}

/// Returns the reply in the form that is sent to the server.
pub(crate) fn elicit_result(reply: ElicitationReply) -> ElicitResult {
    match reply {
        ElicitationReply::Accept(content) => {
            ElicitResult::new(ElicitationAction::Accept).with_content(content)
        }
        ElicitationReply::Decline => ElicitResult::new(ElicitationAction::Decline),
        ElicitationReply::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        ElicitationReply::Unanswered { reason } => {
            let mut result = ElicitResult::new(ElicitationAction::Cancel);
            result.meta = Some(MetaObject(JsonObject::from_iter([(REASON_KEY.to_owned(), reason.into())])));
            result
        }
    }
}

/// Reads the message and the requested schema of an elicitation. The library cannot read every schema, but a person can answer it.
///
/// # Errors
/// Returns an error if the elicitation is not in form mode, is incomplete or is too large.
pub(crate) fn read_elicitation(params: &Value) -> Result<(String, Value), ErrorData> {
    if params.get("mode").is_some_and(|mode| mode != "form") {
        return Err(ErrorData::invalid_params("only elicitation in form mode is supported", None));
    }
    let (Some(message), Some(schema @ Value::Object(_))) =
        (params.get("message").and_then(Value::as_str), params.get("requestedSchema"))
    else {
        return Err(ErrorData::invalid_params("message and requestedSchema are required", None));
    };
    if message.len() > MAX_MESSAGE || schema.to_string().len() > MAX_SCHEMA {
        let limits = format!(
            "a message may have at most {MAX_MESSAGE} bytes, and a requested schema {MAX_SCHEMA} bytes"
        );
        return Err(ErrorData::invalid_params(limits, None));
    }
    Ok((message.to_owned(), schema.clone()))
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation =
            Some(ElicitationCapability::new().with_form(FormElicitationCapability::new()));
        ClientConfig::new(capabilities, Implementation::new("fermata", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(self.protocol.clone())
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let params = serde_json::to_value(request)
            .map_err(|_| ErrorData::invalid_params("the elicitation cannot be read", None))?;
        self.handle_elicitation(&params, &context).await
    }

    /// Handles an elicitation with a schema that the library cannot read. It is shown to the person like any other.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != ELICITATION_METHOD {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None));
        }
        let result = self.handle_elicitation(&request.params.unwrap_or_default(), &context).await?;
        serde_json::to_value(result)
            .map(CustomResult::new)
            .map_err(|_| ErrorData::internal_error("the answer cannot be written", None))
    }

    #[expect(
        deprecated,
        reason = "the library's default handler would return an empty list instead of an error"
    )]
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "roots/list", None))
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.link.calls.report_progress(&progress);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.link.list_changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_elicitation_has_a_limited_size() {
        let read = |message: String, schema: Value| {
            read_elicitation(&json!({"message": message, "requestedSchema": schema}))
        };
        let schema = json!({"type": "object"});
        assert!(read("x".repeat(MAX_MESSAGE), schema.clone()).is_ok());
        let error = read("x".repeat(MAX_MESSAGE + 1), schema).unwrap_err();
        assert!(error.message.contains("16000"), "{error}");
        assert!(read("Which?".into(), json!({"type": "object", "title": "x".repeat(MAX_SCHEMA)})).is_err());
    }
}
