//! Everything that can happen to a run, and [`Run::apply`], the only way to change one.

use std::{collections::BTreeSet, sync::Arc};

use fermata_protocol::{Answer, ElicitationId, Profile, Show, ToolCallId, UiChunk, measure};
use fermata_tools::{DecisionChannel, Elicitation, InputError, ToolError, Wait};
use serde_json::Value;

use super::{
    Activity, Compaction, Context, Deciding, Effects, Ending, Next, Overruled, Phase, Run, RunHold, RunState,
    ValidAnswers,
};
use crate::{
    memories::Recollection,
    model::{ModelError, ModelEvent},
    refused::RefusedPart,
};

/// Something that has happened to a run.
#[derive(Debug)]
pub(crate) enum Event {
    /// The run begins.
    Begun,
    /// Another run takes over the calls and the questions, because a message of the user has answered some of them. These are the questions
    /// that it has answered, by their indexes.
    HandedOver(Vec<usize>),
    /// The run has taken over calls and questions, which a message of the user has answered so.
    Continued(ValidAnswers),
    /// This process has restored the run from what another one saved.
    Resumed,
    /// No process that resumed the run made progress with it.
    GivenUp,
    /// The run has recalled the memories of its user.
    Recollected(Arc<Recollection>),
    /// The model has sent these events.
    Model(Vec<ModelEvent>),
    /// The model has failed.
    ModelFailed(ModelError),
    /// The history is compacted before the model is asked, or was.
    Compacts(Compaction),
    /// The provider takes the request without these parts of the chat.
    PartsRefused(Vec<RefusedPart>),
    /// The inputs of the step's calls were checked against their schemas.
    InputsChecked(Vec<(ToolCallId, Result<(), InputError>)>),
    /// The answers to calls that have asked to be admitted.
    Admission(Vec<(ToolCallId, Admission)>),
    /// The request to the model waits for its turn, or does so no longer.
    RequestQueued(bool),
    /// Running calls show partial outputs.
    Reported(Vec<(ToolCallId, Value)>),
    /// A running call has failed and asks to run again. The answer is [`may_retry`](super::effects::AfterCommit::may_retry).
    Retries(ToolCallId),
    /// A running call asks the user something. [`elicited`](super::effects::AfterCommit::elicited) is the question's id, or the refusal.
    Elicits(ToolCallId, Elicitation),
    /// A question is no longer of interest to the call that asked it.
    Withdrawn(ElicitationId),
    /// A person cancels a running call.
    CallCancelled(ToolCallId),
    /// A person has begun to edit the input of the call of this index, or has stopped to.
    InputEdited { index: usize, is_edited: bool },
    /// Nothing was heard for long of a person who edits an input.
    EditingTimedOut,
    /// A call of the server or of an MCP server has ended.
    Settled(ToolCallId, Result<Value, ToolError>),
    /// Answers came that [`Run::validate`] has accepted.
    Answered(ValidAnswers),
    /// Calls were approved that the newest rules deny, or whose tools have changed since they were shown.
    ApprovalsOverruled(Vec<(usize, Overruled)>),
    /// The set of available tools has changed.
    ToolsChanged,
    /// The rules that are in force have changed, or the people that they know.
    RulesChanged,
    /// A reminder, an escalation, a notice to the requester or the end of an approval is due.
    ApprovalsDue,
    /// Calls have waited for tools that are not available as long as they may.
    ToolsTimedOut,
    /// A question has waited for its answer as long as a call may block a resource meanwhile.
    QuestionTimedOut,
    /// The readers have been held as long as they may.
    HoldEnded,
    /// A client continues to read with a version, a hold and wishes of its own.
    Followed { profile: Profile, hold: RunHold, show: BTreeSet<Show> },
    /// The user has continued the conversation without the run. These outputs came with the new message.
    Superseded(Vec<Answer>),
    /// The run has to end.
    Ended(Ending),
}

/// The answer to a call that has asked to be admitted.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It may run at once.
    Granted,
    /// It waits for this.
    Queued(Wait),
    /// It has waited for its resource as long as it may.
    Refused(ToolError),
}

/// The author of an event, for lists of chats.
enum Author {
    Person,
    ModelOrTool,
    /// A deadline, or a process that has only looked at the run.
    Nobody,
}

// === impl Run ===

impl Run {
    /// Decides about an event.
    pub fn apply(&mut self, event: Event, context: &Context<'_>) -> Effects {
        let before = self.state.clone();
        let waited = self.waiting_approvals();
        let author = event.author();
        let mut deciding = Deciding { run: self, context, decider: None, effects: Effects::default() };
        deciding.on_event(event);
        deciding.advance();
        deciding.notify_of_changes(&waited);
        let mut effects = deciding.effects;
        // Everything that changed is saved, so no decision has to ask for it. A question that changes is always shown by a chunk. Two things
        // are not saved by themselves: partial outputs, and the events in the middle of the model's answer, because a step that is cut off is
        // asked for again and must have left nothing.
        if self.state.phase != Phase::Streaming || effects.after.next == Next::AskModel {
            let position = before.position.plus(effects.after.publish.len());
            let mut unchanged = RunState { position, ..before };
            if self.state.recollection.as_ref().is_some_and(|recollection| recollection.is_empty()) {
                // If nothing is known of the user, that is saved with the step. Nothing is left of a step that is cut off.
                unchanged.recollection.clone_from(&self.state.recollection);
            }
            effects.commit.run = !effects.commit.calls.is_empty()
                || effects.after.publishes_lasting_chunks()
                || unchanged != self.state;
        }
        effects.commit.is_news = match author {
            Author::Person => true,
            // Each of these things by itself is not worth another place in the list.
            Author::ModelOrTool => {
                let begins_to_wait =
                    before.activity == Activity::Working && self.state.activity != Activity::Working;
                begins_to_wait || self.state.phase == Phase::Over
            }
            Author::Nobody => false,
        };
        effects
    }
}

// === impl Event ===

impl Event {
    fn author(&self) -> Author {
        match self {
            Self::Begun
            | Self::HandedOver(_)
            | Self::Continued(_)
            | Self::CallCancelled(_)
            | Self::Answered(..)
            | Self::ApprovalsOverruled(_)
            | Self::Superseded(_) => Author::Person,
            Self::Recollected(_)
            | Self::Model(_)
            | Self::ModelFailed(_)
            | Self::Compacts(_)
            | Self::PartsRefused(_)
            | Self::InputsChecked(_)
            | Self::Admission(_)
            | Self::RequestQueued(_)
            | Self::Reported(_)
            | Self::Retries(_)
            | Self::Elicits(..)
            | Self::Withdrawn(_)
            | Self::Settled(..)
            | Self::ToolsChanged
            | Self::ToolsTimedOut => Author::ModelOrTool,
            Self::Resumed
            | Self::GivenUp
            | Self::RulesChanged
            | Self::ApprovalsDue
            | Self::InputEdited { .. }
            | Self::EditingTimedOut
            | Self::QuestionTimedOut
            | Self::HoldEnded
            | Self::Followed { .. } => Author::Nobody,
            Self::Ended(ending) => match ending {
                Ending::Expired | Ending::CrashLoop => Author::Nobody,
                Ending::Stopped | Ending::Superseded => Author::Person,
                Ending::Finished(_)
                | Ending::StepLimit
                | Ending::ToolNotCalled { .. }
                | Ending::OutputLimit { .. }
                | Ending::ChatLimit { .. }
                | Ending::Failed(_)
                | Ending::ToolFailed { .. } => Author::ModelOrTool,
            },
        }
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    fn on_event(&mut self, event: Event) {
        match event {
            Event::Begun => {
                let message_id = Some(self.run.message.clone());
                self.publish(UiChunk::Start { message_id, message_metadata: None });
                self.begin_step();
            }
            Event::HandedOver(answered) => self.on_handed_over(&answered),
            Event::Continued(answers) => self.on_continued(answers),
            Event::Resumed => self.resume(),
            Event::GivenUp => self.give_up(),
            Event::Recollected(recollection) => self.on_recollected(recollection),
            Event::Model(events) => {
                for event in events {
                    self.on_model_event(event);
                    // Each stage is shown even if the whole answer comes at once.
                    self.show_run();
                }
            }
            Event::ModelFailed(error) => {
                if self.run.state.phase == Phase::Streaming {
                    self.end_run(Ending::Failed(error));
                }
            }
            Event::Compacts(compaction) => self.on_compaction(compaction),
            Event::PartsRefused(parts) => self.on_parts_refused(parts),
            Event::InputsChecked(results) => self.on_inputs_checked(results),
            Event::Admission(calls) => {
                for (call, admission) in calls {
                    self.on_admission(&call, admission);
                }
            }
            Event::RequestQueued(is_queued) => self.run.open_step.is_queued = is_queued,
            Event::Reported(reports) => {
                for (call, output) in reports {
                    let json = output.to_string();
                    let limits = self.context.limits;
                    if json.len() <= limits.output_bytes
                        && measure(json.as_bytes()).nodes <= limits.output_nodes
                    {
                        self.on_report(&call, output);
                    }
                }
            }
            Event::Retries(call) => self.effects.after.may_retry = self.on_retry(&call),
            Event::Elicits(call, question) => {
                self.effects.after.elicited = Some(self.on_elicitation(&call, question));
            }
            Event::Withdrawn(id) => self.on_withdrawal(&id),
            Event::CallCancelled(call) => self.on_call_cancelled(&call),
            Event::InputEdited { index, is_edited } => self.on_input_edited(index, is_edited),
            Event::EditingTimedOut => self.on_editing_timed_out(),
            Event::Settled(call, outcome) => self.on_settled(&call, outcome),
            Event::Answered(answers) => {
                if answers.by.how != DecisionChannel::Message {
                    self.end_trial();
                }
                self.on_answers(answers);
            }
            Event::ApprovalsOverruled(overruled) => {
                for (index, overruled) in overruled {
                    self.overrule(index, overruled);
                }
            }
            Event::RulesChanged => self.on_rules_changed(),
            Event::ApprovalsDue => self.on_approvals_due(),
            Event::ToolsChanged => self.on_tools_changed(),
            Event::ToolsTimedOut => self.on_tools_timed_out(),
            Event::QuestionTimedOut => self.on_question_timed_out(),
            Event::HoldEnded => self.on_hold_ended(),
            Event::Followed { profile, hold, show } => {
                self.run.on_followed(profile, hold, show, self.context);
            }
            Event::Superseded(outputs) => self.on_superseded(&outputs),
            Event::Ended(ending) => self.end_run(ending),
        }
    }
}
