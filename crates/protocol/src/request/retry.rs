//! Reads `POST /api/chat/{id}/calls/{call}/retry`.

use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    BodyError, ChatBody, ChatRequest, Posted,
    json::known_fields,
    read::{names, wrong},
};

/// The body that repeats a failed call: the fields of a post that are not about messages.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what `RetryBody` reads")]
pub struct RetryRequest {
    /// As in `POST /api/chat`.
    #[schema(value_type = Option<Value>)]
    tools: Option<Value>,
    /// As in `POST /api/chat`.
    system: Option<String>,
    /// As in `POST /api/chat`.
    #[schema(value_type = Option<Value>)]
    call_settings: Option<Value>,
    /// As in `POST /api/chat`.
    #[schema(value_type = Option<Value>)]
    fermata: Option<Value>,
}

/// A post without messages, with the settings of the run that makes the call again. It may be left out.
#[derive(Clone, Debug)]
pub struct RetryBody(pub ChatBody);

impl Posted for RetryBody {
    fn from_json(json: &[u8]) -> Result<Self, BodyError> {
        let posted = if json.is_empty() {
            Value::Object(Map::new())
        } else {
            known_fields(json, &[names::<ChatRequest>()])?
        };
        let Value::Object(mut fields) = posted else {
            return Err(super::RequestError(format!("The body{}.", wrong(&posted, "an object"))).into());
        };
        for of_messages in ["id", "messages", "message", "messageId", "toolChoice", "selectedToolName"] {
            fields.remove(of_messages);
        }
        // A post of this kind may come without messages.
        fields.insert("trigger".into(), "regenerate-message".into());
        Ok(Self(ChatBody::parse(Value::Object(fields))?))
    }
}
