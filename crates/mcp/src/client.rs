//! What a server may ask of Fermata: elicitation in form mode, and nothing else.

use std::sync::Arc;

use fermata_tools::{Elicitation, ElicitationReply};
use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CustomRequest, CustomResult, ElicitRequestParams, ElicitResult,
        ElicitationAction, ElicitationCapability, ErrorCode, FormElicitationCapability, Implementation,
        JsonObject, MetaObject, ProgressNotificationParam,
    },
    service::{InboundStreamOrigin, NotificationContext, RequestContext},
};
use serde_json::Value;

use crate::{
    calls::{Origin, Unanswered, Unroutable},
    link::Link,
    server::Server,
};

/// The question that is understood.
const ELICIT: &str = "elicitation/create";

/// The longest question and the largest schema of an answer, in bytes: both are shown to a person, and kept with the chat.
const LONGEST_QUESTION: usize = 16_000;
const LARGEST_FORM: usize = 64_000;

/// The key in `_meta` of a cancellation that no person has made: the reason for it.
const REASON: &str = "fermata/reason";

/// Fermata, as one server sees it.
pub(crate) struct Client {
    server: Arc<Server>,
    link: Link,
}

// === impl Client ===

impl Client {
    pub(crate) fn new(server: Arc<Server>, link: Link) -> Self {
        Self { server, link }
    }

    /// Puts a question to whom it belongs, until it is answered or can no longer be.
    async fn ask(
        &self,
        message: String,
        requested_schema: Value,
        context: &RequestContext<RoleClient>,
    ) -> ElicitationReply {
        let origin = match context.extensions.get::<InboundStreamOrigin>() {
            Some(InboundStreamOrigin::OutboundRequest(id)) => Origin::Request(id.clone()),
            Some(InboundStreamOrigin::Unassociated) | None => Origin::Unknown,
        };
        let found = tokio::select! {
            biased;
            () = self.link.closed.cancelled() => return ElicitationReply::Cancel,
            () = context.ct.cancelled() => return ElicitationReply::Cancel,
            found = self.link.calls.route_elicitation(&origin) => found,
        };
        let name = self.server.name.as_str();
        let asker = match found {
            Ok(asker) => asker,
            Err(Unroutable::NoCall) => {
                tracing::warn!(server = name, "an MCP server's question is cancelled: no call of it is open");
                return ElicitationReply::Cancel;
            }
            Err(Unroutable::SeveralChats) => {
                let reason = self.server.explain_unanswered(&Unanswered::SeveralChats);
                tracing::warn!(server = name, reason, "an MCP server's question is cancelled");
                return ElicitationReply::Unanswered { reason };
            }
        };
        let elicitation = Elicitation {
            message,
            requested_schema,
            server: Some(name.to_owned()),
            other_candidates: asker.other_candidates.clone(),
        };
        let reply = tokio::select! {
            biased;
            () = asker.ended() => ElicitationReply::Cancel,
            () = self.link.closed.cancelled() => ElicitationReply::Cancel,
            () = context.ct.cancelled() => ElicitationReply::Cancel,
            reply = asker.context.elicit(elicitation) => reply,
        };
        if let ElicitationReply::Unanswered { reason } = &reply {
            tracing::warn!(server = name, chat = %asker.context.chat, reason, "an MCP server's question is cancelled");
            asker.note(&Unanswered::Reason(reason.clone()));
        }
        reply
    }
}

fn answer(reply: ElicitationReply) -> ElicitResult {
    match reply {
        ElicitationReply::Accept(content) => {
            ElicitResult::new(ElicitationAction::Accept).with_content(content)
        }
        ElicitationReply::Decline => ElicitResult::new(ElicitationAction::Decline),
        ElicitationReply::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        ElicitationReply::Unanswered { reason } => {
            let mut result = ElicitResult::new(ElicitationAction::Cancel);
            result.meta = Some(MetaObject(JsonObject::from_iter([(REASON.to_owned(), reason.into())])));
            result
        }
    }
}

fn check_size(message: &str, requested_schema: &Value) -> Result<(), ErrorData> {
    if message.len() <= LONGEST_QUESTION && requested_schema.to_string().len() <= LARGEST_FORM {
        return Ok(());
    }
    let limits =
        format!("a message has at most {LONGEST_QUESTION} bytes, and a requested schema {LARGEST_FORM}");
    Err(ErrorData::invalid_params(limits, None))
}

fn not_a_form() -> ErrorData {
    ErrorData::invalid_params("only elicitation in form mode is supported", None)
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation =
            Some(ElicitationCapability::new().with_form(FormElicitationCapability::new()));
        ClientConfig::new(capabilities, Implementation::new("fermata", env!("CARGO_PKG_VERSION")))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = request else {
            return Err(not_a_form());
        };
        let requested_schema = serde_json::to_value(requested_schema)
            .map_err(|_| ErrorData::invalid_params("the requested schema cannot be read", None))?;
        check_size(&message, &requested_schema)?;
        Ok(answer(self.ask(message, requested_schema, &context).await))
    }

    /// A question whose schema the library does not know is still a question.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != ELICIT {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None));
        }
        let params = request.params.unwrap_or_default();
        if params.get("mode").is_some_and(|mode| mode != "form") {
            return Err(not_a_form());
        }
        let (Some(message), Some(schema @ Value::Object(_))) =
            (params.get("message").and_then(Value::as_str), params.get("requestedSchema"))
        else {
            return Err(ErrorData::invalid_params("message and requestedSchema are needed", None));
        };
        check_size(message, schema)?;
        let result = answer(self.ask(message.into(), schema.clone(), &context).await);
        serde_json::to_value(result)
            .map(CustomResult::new)
            .map_err(|_| ErrorData::internal_error("the answer cannot be written", None))
    }

    #[expect(deprecated, reason = "the library would answer for us, with an empty list")]
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "roots/list", None))
    }

    async fn on_progress(&self, news: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.link.calls.progressed(&news);
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
    fn a_question_has_a_size() {
        let schema = json!({"type": "object"});
        assert!(check_size(&"x".repeat(LONGEST_QUESTION), &schema).is_ok());
        let error = check_size(&"x".repeat(LONGEST_QUESTION + 1), &schema).unwrap_err();
        assert!(error.message.contains("16000"), "{error}");
        assert!(check_size("Which?", &json!({"type": "object", "title": "x".repeat(LARGEST_FORM)})).is_err());
    }
}
