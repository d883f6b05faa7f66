//! The idempotency key of a call. It is equal in each repetition of the call, so a server that keeps the keys runs the call's effect once.

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, MetaObject, RequestMetaObject};
use serde_json::Map;

/// The field of `_meta` with the key.
const FIELD: &str = "io.fermata/idempotencyKey";

/// Returns the metadata of a call with this key.
pub(crate) fn metadata(key: &str) -> RequestMetaObject {
    RequestMetaObject(MetaObject(Map::from_iter([(FIELD.to_owned(), key.into())])))
}

/// Returns the key of a message, if it is a call.
pub(crate) fn key_of(message: &ClientJsonRpcMessage) -> Option<&str> {
    match message {
        ClientJsonRpcMessage::Request(request) => match &request.request {
            ClientRequest::CallToolRequest(call) => call.params.meta.as_ref()?.get(FIELD)?.as_str(),
            _ => None,
        },
        _ => None,
    }
}
