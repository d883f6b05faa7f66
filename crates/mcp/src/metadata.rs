//! The metadata of a call: its idempotency key, and the span that it belongs to.
//!
//! The key is equal in each repetition of the call, so a server that keeps the keys runs the call's effect once.

use fermata_tools::CallContext;
use reqwest::header::HeaderName;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, MetaObject, RequestMetaObject};
use serde_json::Map;

/// The field of `_meta` with the key.
const KEY: &str = "io.fermata/idempotencyKey";
/// The field of `_meta` with the span, as in the header of that name.
const TRACEPARENT: &str = "traceparent";

/// The headers that repeat the metadata of a call, and their fields.
pub(crate) const HEADERS: [(HeaderName, &str); 2] =
    [(HeaderName::from_static("idempotency-key"), KEY), (HeaderName::from_static(TRACEPARENT), TRACEPARENT)];

/// Returns the metadata of a call.
pub(crate) fn of_call(context: &CallContext) -> RequestMetaObject {
    let mut fields = Map::from_iter([(KEY.to_owned(), context.idempotency_key().into())]);
    if let Some(traceparent) = context.origin.as_ref().and_then(|origin| origin.traceparent.as_deref()) {
        fields.insert(TRACEPARENT.to_owned(), traceparent.into());
    }
    RequestMetaObject(MetaObject(fields))
}

/// Returns a field of the metadata of a message, if the message is a call.
pub(crate) fn field<'a>(message: &'a ClientJsonRpcMessage, name: &str) -> Option<&'a str> {
    match message {
        ClientJsonRpcMessage::Request(request) => match &request.request {
            ClientRequest::CallToolRequest(call) => call.params.meta.as_ref()?.get(name)?.as_str(),
            _ => None,
        },
        _ => None,
    }
}
