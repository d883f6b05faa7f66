//! A run's knowledge of its user and the changes by its calls, in the form for clients.

use std::sync::Arc;

use fermata_protocol::{DataChunk, UiChunk};
use fermata_tools::{
    ApprovalMode, Call, CallState, Decision, DecisionSource, MemoryWrites, PolicyDecision, RunBy,
};
use serde_json::json;

use super::{Context, Deciding, Next, Phase, Run};
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
    /// Returns the outside sources read before this step of the turn, in the order of the calls. A run that a person's retry began
    /// goes on in a turn whose earlier calls it does not know, so it counts as having read.
    pub fn outside_sources(&self, step: u32) -> Vec<String> {
        let retried = self.settings.retries.as_ref().map(|retried| retried.tool.clone());
        let ran = self.calls.iter().filter(|call| call.step < step && call.times_run() > 0);
        let mut sources: Vec<String> = Vec::new();
        for source in retried.into_iter().chain(ran.filter_map(|call| call.reads_from.clone())) {
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        sources
    }

    /// Returns the decision to ask a person before a call changes memories; `None` if nobody is asked.
    pub(super) fn memory_write_asks(&self, call: &Call, context: &Context<'_>) -> Option<PolicyDecision> {
        if !writes_memory(call) || context.rules.policy.approval() != ApprovalMode::Default {
            return None;
        }
        let asks = |by, reason| Some(PolicyDecision { reason, ..PolicyDecision::new(Decision::Ask, by) });
        match context.rules.memory_writes {
            MemoryWrites::Free => None,
            MemoryWrites::Ask => asks(DecisionSource::MemoryWrites, None),
            MemoryWrites::AskAfterReading => {
                if let Some(source) = self.outside_sources(call.step).into_iter().next() {
                    return asks(DecisionSource::MemoryWrites, Some(source));
                }
                let input = call.effective_input().value();
                let slot = input["slot"].as_str().unwrap_or_default();
                if slot.trim().is_empty() { None } else { asks(DecisionSource::MemorySlot, None) }
            }
        }
    }

    fn changed_memories(&self) -> ChangedMemories {
        let mut changed = ChangedMemories::default();
        for output in self.all_calls().filter_map(memory_output) {
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
    /// Asks the model for the first step, with the knowledge of the user.
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

    /// Tells the client which memories a call has changed, if any.
    pub(super) fn note_memory_output(&mut self, index: usize) {
        if memory_output(self.run.call(index)).is_some() {
            self.show_memory();
        }
    }

    /// Tells the client which memories were used and changed, so that a person sees it even on a page that asks for nothing. A run has one
    /// part for it, which is replaced.
    fn show_memory(&mut self) {
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

/// Returns whether a call changes memories.
fn writes_memory(call: &Call) -> bool {
    call.run_by == Some(RunBy::Server) && [REMEMBER, FORGET].contains(&call.tool.as_str())
}

/// Returns the changes of a call to the memories; `None` if it has changed nothing.
fn memory_output(call: &Call) -> Option<MemoryToolOutput> {
    match call.state() {
        CallState::Success { output } if writes_memory(call) => serde_json::from_value(output.clone()).ok(),
        _ => None,
    }
}
