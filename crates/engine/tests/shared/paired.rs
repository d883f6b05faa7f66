//! The rules of the strictest model providers.

use std::collections::HashSet;

use fermata_engine::model::{ModelMessage, ModelRequest};

/// Panics if a strict provider would refuse the request: each call needs an id of its own and a result right after the message that made
/// it, in the order of the calls, and no other result is allowed.
pub fn assert_paired(request: &ModelRequest) {
    let mut messages = request.messages.iter();
    let mut ids = HashSet::new();
    while let Some(message) = messages.next() {
        match message {
            ModelMessage::Assistant { calls, text, .. } => {
                assert!(!calls.is_empty() || !text.is_empty(), "an empty message: {request:?}");
                for call in calls {
                    assert!(ids.insert(&call.id), "two calls have the id {}: {request:?}", call.id);
                    assert!(call.input.is_object(), "the input of {} is not an object: {request:?}", call.id);
                    let result = messages.next();
                    assert!(
                        matches!(result, Some(ModelMessage::Tool { call_id, .. }) if *call_id == call.id),
                        "no result of {} follows: {request:?}",
                        call.id
                    );
                }
            }
            ModelMessage::Tool { call_id, .. } => {
                panic!("{call_id} has a result without a call: {request:?}")
            }
            ModelMessage::System(_) | ModelMessage::User(_) => {}
        }
    }
}
