//! The reason why a call has no output, in the metadata of its message: `calls["<toolCallId>"]` has the state and a code.
//!
//! The metadata is the one place that every version of the AI SDK has, while the message is written and after a reload. The chunk comes before the
//! outcome, so that no page shows an outcome that it cannot tell yet.

use fermata_protocol::{ToolCallId, UiChunk};
use fermata_tools::CallState;
use serde_json::{Value, json};

use super::{Deciding, LAST_OUTPUT};

/// Returns the metadata that says why a call in this state has no output; `None` if it has one, or may still get one.
pub(crate) fn no_output_metadata(call: &ToolCallId, state: &CallState) -> Option<Value> {
    let no_output = state.no_output()?;
    Some(json!({ "calls": { call.as_str(): no_output } }))
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Shows why a call that has ended has no output, and the last one that it had reported.
    pub(super) fn show_why(&mut self, index: usize) {
        let call = self.run.call(index);
        let Some(mut message_metadata) = no_output_metadata(&call.id, call.state()) else { return };
        if let Some(last) = &call.last_report {
            message_metadata["calls"][call.id.as_str()][LAST_OUTPUT] = last.clone();
        }
        let chunk = UiChunk::MessageMetadata { message_metadata };
        if self.run.is_in_earlier_message() {
            // The call is in that message.
            self.effects.commit.earlier.push(chunk);
        } else {
            self.publish(chunk);
        }
    }
}
