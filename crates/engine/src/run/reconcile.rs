//! The position where a client that posts a message again continues to read.
//!
//! A stock client shows the message as it was when its stream ended. It must not be sent the text and inputs that it has again, and it must
//! be sent the outcomes that it lacks. The unit is the step: the calls that the client shows in its last step determine the checkpoint of the
//! log where it continues.

use fermata_protocol::{FinishReason, ToolPart, ToolState, UiChunk, UiMessage, UiPart, outcome, replay};
use serde_json::json;

use super::{
    Checkpoint, Run,
    elicit::{ElicitState, elicitation_chunk, pending_question},
};
use crate::run_log::position::Position;

/// The chunks that bring a client up to date: first the prologue, then the log after `after`.
#[derive(Debug, PartialEq)]
pub(crate) struct Reconciliation {
    pub prologue: Vec<UiChunk>,
    pub after: Position,
}

/// The part of a client's view of the message that reconciliation depends on.
pub(crate) struct ClientView<'a> {
    steps: u32,
    /// The calls of its last step.
    calls: Vec<&'a ToolPart>,
    /// The ids of the questions that it shows as waiting.
    questions: Vec<&'a str>,
}

/// Returns the view of the client that posted these parts.
pub(crate) fn client_view(parts: &[UiPart]) -> ClientView<'_> {
    let steps = parts.iter().filter(|part| **part == UiPart::StepStart).count();
    let last = parts.iter().rposition(|part| *part == UiPart::StepStart).map_or(0, |start| start + 1);
    ClientView {
        steps: u32::try_from(steps).unwrap_or(u32::MAX),
        calls: parts[last..].iter().filter_map(UiPart::as_tool).collect(),
        questions: parts.iter().filter_map(pending_question).map(|(id, _)| id).collect(),
    }
}

impl Run {
    /// Returns how a client with this view continues to read, or `None` if the run never was in the state that it shows.
    pub fn reconcile(&self, shown: &ClientView<'_>) -> Option<Reconciliation> {
        // A client that still shows an approval request has not seen the gate open.
        let before_the_gate = shown.calls.iter().any(|part| match part.state {
            ToolState::ApprovalRequested { .. }
            | ToolState::ApprovalResponded { .. }
            | ToolState::InputStreaming { .. } => true,
            ToolState::InputAvailable { .. }
            | ToolState::OutputAvailable { .. }
            | ToolState::OutputError { .. }
            | ToolState::OutputDenied { .. } => false,
        });
        // A client that shows a call which was asked about again has seen the log up to there.
        let has_seen = shown.calls.iter().filter_map(|part| self.shows_new_question(part)).max();
        let checkpoints = || {
            let of_step = |checkpoint: &&Checkpoint| checkpoint.step == shown.steps;
            let newest_first = self.state.checkpoints.iter().rev().filter(of_step);
            newest_first.filter(|checkpoint| has_seen.is_none_or(|seen| checkpoint.position >= seen))
        };
        let checkpoint = checkpoints()
            .find(|checkpoint| !before_the_gate || !checkpoint.open)
            .or_else(|| checkpoints().next_back())?;
        let message = self.snapshot();
        // It says why calls have no output, including those whose outcomes precede the checkpoint.
        let message_metadata = message.metadata.clone();
        let mut prologue = vec![UiChunk::Start { message_id: Some(self.message.clone()), message_metadata }];
        prologue.extend(settled_questions(&message, shown));
        if checkpoint.open {
            // If the gate is open, outcomes that this client has not seen may precede the checkpoint.
            for part in &shown.calls {
                let Some(known) = part_of(&message, part) else { continue };
                let call = self.calls.iter().find(|call| call.id == part.tool_call_id);
                let settled_at = call.and_then(|call| call.settled_at);
                if !shows_outcome(part, known)
                    && settled_at.is_some_and(|position| position <= checkpoint.position)
                {
                    prologue.extend(outcome(known));
                }
            }
        }
        Some(Reconciliation { prologue, after: checkpoint.position })
    }

    /// Returns the position of the repeated question about the call of this part, if the part shows that.
    fn shows_new_question(&self, part: &ToolPart) -> Option<Position> {
        let call = self.calls.iter().find(|call| call.id == part.tool_call_id)?;
        let (shown, newest) = (part.approval.as_ref()?, call.approval_request.as_ref()?);
        if shown.id == newest.id { call.asked_again_at } else { None }
    }

    /// Returns whether the client shows the whole message.
    pub fn is_up_to_date(&self, shown: &ClientView<'_>) -> bool {
        shown.steps >= self.state.step && all_outcomes_shown(&self.snapshot(), shown)
    }
}

/// Returns the chunks for a client that shows an older state of a finished message, or `None` if it shows the whole message. A browser
/// runs the calls that it reads as `tool-input-available`, so an edited input is shown again only if `on_server` says that it is safe.
pub(crate) fn reconcile_finished(
    message: &UiMessage,
    shown: &ClientView<'_>,
    on_server: impl Fn(&str) -> bool,
) -> Option<Vec<UiChunk>> {
    let steps = message.parts.iter().filter(|part| **part == UiPart::StepStart).count();
    let behind = (shown.steps as usize) < steps;
    let questions = settled_questions(message, shown);
    if !behind && all_outcomes_shown(message, shown) && questions.is_empty() {
        return None;
    }
    let mut chunks = vec![UiChunk::Start { message_id: Some(message.id.clone()), message_metadata: None }];
    chunks.extend(questions);
    for part in &shown.calls {
        let Some(known) = part_of(message, part) else { continue };
        if on_server(known.name.as_str()) {
            chunks.extend(edited_input(part, known));
        }
        chunks.extend(outcome(known));
    }
    chunks.push(UiChunk::FinishStep);
    if behind {
        let rest = replay(message, shown.steps as usize).into_iter();
        chunks.extend(rest.filter(|chunk| !matches!(chunk, UiChunk::Start { .. } | UiChunk::Finish { .. })));
    }
    // A stock client posts again after a message whose last step has calls.
    let last_step = message.parts.rsplit(|part| *part == UiPart::StepStart).next();
    if last_step.is_some_and(|parts| parts.iter().any(|part| part.as_tool().is_some())) {
        chunks.extend([UiChunk::StartStep, UiChunk::FinishStep]);
    }
    // Without metadata a stock client whose last step is empty posts again.
    let message_metadata = Some(message.metadata.clone().unwrap_or_else(|| json!({})));
    chunks.push(UiChunk::Finish { finish_reason: Some(FinishReason::Other), message_metadata });
    Some(chunks)
}

/// Returns the input that ran, if the client shows another.
fn edited_input(shown: &ToolPart, known: &ToolPart) -> Option<UiChunk> {
    let input = known.state.input().filter(|input| shown.state.input() != Some(*input))?;
    known.approval.as_ref().filter(|approval| approval.approved == Some(true))?;
    Some(UiChunk::ToolInputAvailable {
        tool_call_id: known.tool_call_id.clone(),
        tool_name: known.name.as_str().to_owned(),
        input: input.clone(),
        provider_executed: None,
        provider_metadata: None,
        tool_metadata: None,
        dynamic: known.name.is_dynamic().then_some(true),
        title: None,
    })
}

/// Returns whether a client claims an outcome or a decision for a call of this message that does not wait for one.
pub(crate) fn claims_settled_call(message: &UiMessage, shown: &ClientView<'_>) -> bool {
    shown.calls.iter().any(|part| {
        let claims = match &part.state {
            ToolState::OutputAvailable { .. }
            | ToolState::OutputError { .. }
            | ToolState::ApprovalResponded { .. } => true,
            ToolState::InputStreaming { .. }
            | ToolState::InputAvailable { .. }
            | ToolState::ApprovalRequested { .. }
            | ToolState::OutputDenied { .. } => false,
        };
        claims
            && part_of(message, part).is_some_and(|known| {
                known.state.is_settled() || matches!(known.state, ToolState::ApprovalResponded { .. })
            })
    })
}

fn all_outcomes_shown(message: &UiMessage, shown: &ClientView<'_>) -> bool {
    shown.calls.iter().all(|part| part_of(message, part).is_none_or(|known| shows_outcome(part, known)))
}

fn shows_outcome(part: &ToolPart, known: &ToolPart) -> bool {
    match (&known.state, &part.state) {
        (ToolState::OutputAvailable { output, .. }, ToolState::OutputAvailable { output: shown, .. }) => {
            output == shown
        }
        (ToolState::OutputError { error_text, .. }, ToolState::OutputError { error_text: shown, .. }) => {
            error_text == shown
        }
        // A client without a state for denials shows an error.
        (ToolState::OutputDenied { .. }, ToolState::OutputDenied { .. } | ToolState::OutputError { .. }) => {
            true
        }
        (known, _) => !known.is_settled(),
    }
}

/// Returns the chunks of the questions that the client shows as waiting although they are over.
fn settled_questions(message: &UiMessage, shown: &ClientView<'_>) -> Vec<UiChunk> {
    let mut chunks = Vec::new();
    for part in &message.parts {
        if let UiPart::Data(part) = part
            && let Some(id) = &part.id
            && shown.questions.contains(&id.as_str())
            && part.data["state"] != ElicitState::Pending.name()
        {
            chunks.push(elicitation_chunk(id, part.data.clone()));
        }
    }
    chunks
}

fn part_of<'a>(message: &'a UiMessage, part: &ToolPart) -> Option<&'a ToolPart> {
    message.parts.iter().filter_map(UiPart::as_tool).find(|known| known.tool_call_id == part.tool_call_id)
}
