//! What a run knows of its user, and what its calls have changed of that, as a client is shown it.

use std::sync::Arc;

use fermata_protocol::{DataChunk, Show, UiChunk};
use fermata_tools::{Call, CallState, RunBy};
use serde_json::json;

use super::{Deciding, Next, Phase, Run};
use crate::memories::{FORGET, MemoryNote, MemoryToolOutput, REMEMBER, Recollection};

/// The memories that calls have changed.
#[derive(Default)]
struct ChangedMemories {
    saved: Vec<MemoryNote>,
    changed: Vec<MemoryNote>,
    forgotten: Vec<MemoryNote>,
}

// === impl Run ===

impl Run {
    fn changed_memories(&self) -> ChangedMemories {
        let mut changed = ChangedMemories::default();
        for output in self.calls.iter().filter_map(memory_output) {
            match output {
                MemoryToolOutput::Saved(note) => changed.saved.push(note),
                MemoryToolOutput::Changed(note) => changed.changed.push(note),
                MemoryToolOutput::Forgotten(note) => changed.forgotten.push(note),
                MemoryToolOutput::Known(_) => {}
            }
        }
        changed
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Asks the model for the first step, with what is known of the user.
    pub(super) fn on_recollected(&mut self, recollection: Arc<Recollection>) {
        if self.run.state.phase != Phase::Streaming {
            return;
        }
        let has_recalled = !recollection.recalled.is_empty();
        self.run.state.recollection = Some(recollection);
        if has_recalled {
            self.show_memory();
        }
        self.effects.after.next = Next::AskModel;
    }

    /// Tells the client what a call has changed of what is remembered, if it has.
    pub(super) fn note_memory_output(&mut self, index: usize) {
        if memory_output(self.run.call(index)).is_some() {
            self.show_memory();
        }
    }

    /// Tells the client which memories were used and changed, if it has asked for that. A run has one part for it, which is replaced.
    fn show_memory(&mut self) {
        if !self.run.state.show.contains(&Show::Memory) {
            return;
        }
        let ChangedMemories { saved, changed, forgotten } = self.run.changed_memories();
        let recalled = match &self.run.state.recollection {
            Some(recollection) => recollection.recalled.as_slice(),
            None => &[],
        };
        let data = json!({"recalled": recalled, "saved": saved, "changed": changed, "forgotten": forgotten});
        let (kind, id) = ("data-memory".to_owned(), Some(self.run.id.to_string()));
        self.publish(UiChunk::Data(DataChunk { kind, id, data, transient: None }));
    }
}

/// Returns what a call has changed of what is remembered; `None` if it has changed nothing.
fn memory_output(call: &Call) -> Option<MemoryToolOutput> {
    let is_memory_tool =
        call.run_by == Some(RunBy::Server) && [REMEMBER, FORGET].contains(&call.tool.as_str());
    match call.state() {
        CallState::Success { output } if is_memory_tool => serde_json::from_value(output.clone()).ok(),
        _ => None,
    }
}
