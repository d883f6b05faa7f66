//! The beginning of a step whose process ended while the model was streaming it.
//!
//! The model is asked for the step again. The beginning stays in the message and on pages until the model speaks again: then it is taken
//! back. If the run ends before that, the saved part of it is kept, and readers lose what they have read beyond that.

use fermata_protocol::{UiChunk, UiMessage, UiPart};

use super::{Deciding, Phase, Run, RunState, streaming::part_end};
use crate::{run_log::position::Position, step::collector::PartKind};

/// The beginning of a step, as it was saved before the process ended.
#[derive(Debug, Default)]
pub(super) struct LeftOver {
    /// The text or reasoning that has not ended, by its id.
    open_part: Option<(PartKind, String)>,
    /// The chunks that `reset-step` takes back.
    chunks: Vec<UiChunk>,
}

/// Removes unfinished work from the log of a run that another process has left: calls that the model had begun to make in the
/// step, and a compaction that was under way.
pub(crate) fn drop_unfinished(state: &RunState, log: &mut Vec<(Position, UiChunk)>) {
    if state.phase != Phase::Streaming {
        return;
    }
    let step = log.iter().rposition(|(_, chunk)| matches!(chunk, UiChunk::StartStep)).unwrap_or(0);
    let mut index = 0;
    log.retain(|(_, chunk)| {
        index += 1;
        index <= step
            || match chunk {
                UiChunk::ToolInputStart { .. } | UiChunk::ToolInputDelta { .. } => false,
                UiChunk::Data(data) => data.kind != "data-compaction" || data.data["state"] != "running",
                _ => true,
            }
    });
}

// === impl LeftOver ===

impl LeftOver {
    /// Returns the beginning of the step at the end of a log.
    pub fn of(log: &[(Position, UiChunk)]) -> Self {
        let mut left = Self::default();
        for (_, chunk) in log {
            left.note(chunk);
        }
        left
    }

    /// Notes a chunk of the step. Data parts may follow after the restart, before the model speaks again.
    pub fn note(&mut self, chunk: &UiChunk) {
        match chunk {
            UiChunk::StartStep | UiChunk::ResetStep => {
                *self = Self::default();
                return;
            }
            UiChunk::MessageMetadata { .. } => return,
            UiChunk::Data(data) if data.transient == Some(true) => return,
            UiChunk::TextStart { id, .. } => self.open_part = Some((PartKind::Text, id.clone())),
            UiChunk::ReasoningStart { id, .. } => self.open_part = Some((PartKind::Reasoning, id.clone())),
            UiChunk::TextEnd { .. } | UiChunk::ReasoningEnd { .. } => self.open_part = None,
            _ => {}
        }
        self.chunks.push(chunk.clone());
    }
}

// === impl Run ===

impl Run {
    /// Returns the message for the model: without the beginning of a step that it is asked for again.
    pub fn message_so_far(&self) -> UiMessage {
        let mut message = self.snapshot();
        if self.left_over.is_some()
            && let Some(step) = message.parts.iter().rposition(|part| *part == UiPart::StepStart)
        {
            message.parts.truncate(step + 1);
        }
        message
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Takes back the beginning of the step, because the step begins again. Its data parts are no part of the answer, and are shown again.
    pub(super) fn take_back_left_over(&mut self) {
        if let Some(left) = self.run.left_over.take() {
            self.publish(UiChunk::ResetStep);
            for chunk in left.chunks {
                if matches!(chunk, UiChunk::Data(_)) {
                    self.publish(chunk);
                }
            }
        }
    }

    /// Keeps the saved beginning of the step, because the run ends. Readers may have read more than that, so they read it again.
    pub(super) fn keep_left_over(&mut self) {
        if let Some(left) = self.run.left_over.take() {
            self.publish(UiChunk::ResetStep);
            for chunk in left.chunks {
                self.publish(chunk);
            }
            if let Some((kind, id)) = left.open_part {
                self.publish(part_end(kind, id, Vec::new()));
            }
        }
    }
}
