//! A model that is as strict as the strictest provider.

use fermata_engine::model::{ModelMessage, ModelRequest};

/// What strict providers answer 400 to.
pub fn assert_paired(request: &ModelRequest) {
    let mut open: Vec<&str> = Vec::new();
    for message in &request.messages {
        match message {
            ModelMessage::Tool { call_id, .. } => {
                let place = open.iter().position(|id| id == call_id);
                open.remove(
                    place.unwrap_or_else(|| panic!("{call_id} has a result without a call: {request:?}")),
                );
            }
            ModelMessage::Assistant { calls, .. } => {
                assert!(open.is_empty(), "calls without a result: {open:?}");
                open = calls.iter().map(|call| call.id.as_str()).collect();
            }
            ModelMessage::System(_) | ModelMessage::User(_) => {
                assert!(open.is_empty(), "calls without a result: {open:?}")
            }
        }
    }
    assert!(open.is_empty(), "calls without a result: {open:?}");
}
