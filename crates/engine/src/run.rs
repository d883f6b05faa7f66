//! One assistant message being made: every decision about it, and no I/O.
//!
//! The active run tells the run which [`Event`] has happened and performs the [`Effects`] that follow from it.
//!
//! This module knows no clock (the [`Context`] has the time), no bytes of the log and no model, and makes no ids (the context does).
//! Invariants: nothing is published before `start` or after `finish`; every text part is closed before `finish-step`; no call of a
//! step runs while one of them waits for a decision; a call that has its outcome never changes again.

mod activity;
mod answers;
mod call_status;
mod closing;
mod continuing;
mod dead_tools;
mod effects;
mod elicit;
mod ending;
mod event;
mod gate;
mod left_over;
mod live_call;
mod memory;
mod notices;
mod outcome;
mod own_calls;
mod planning;
mod reconcile;
mod recovery;
mod rejected;
mod stage;
mod streaming;
#[cfg(test)]
mod tests;
mod trace;
mod validation;
mod votes;
mod working;

use std::{collections::BTreeSet, ops::Range, sync::Arc, time::Duration};

use fermata_protocol::{
    AssembleError, Assembler, ChatId, DataChunk, MessageId, Plan, PlanMode, PostedTool, Profile, RunId,
    RunStatus, Show, ToolCallId, ToolChoice, UiChunk, UiMessage,
};
use fermata_tools::{Call, CallState, Decider, Grants, Policy, Principal, Toolbox, Work};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use activity::Activity;
pub(crate) use continuing::{Continuation, Said, WaitingRun};
pub(crate) use effects::{AfterCommit, BeforeCommit, Commit, Decided, Effects, Next};
use elicit::ExpiryEnds;
pub(crate) use elicit::{Elicited, ValidReply, asker_in};
pub(crate) use ending::{Ending, detach_chunks, interrupted};
pub(crate) use event::{Admission, Event};
use left_over::LeftOver;
pub(crate) use left_over::drop_unfinished;
pub(crate) use live_call::LiveCall;
pub(crate) use outcome::no_output_metadata;
pub(crate) use own_calls::RetriedCall;
pub(crate) use reconcile::{claims_settled_call, client_view, reconcile_finished};
pub(crate) use recovery::RememberedRun;
pub(crate) use rejected::Rejected;
pub(crate) use stage::LastOutcome;
pub(crate) use streaming::{Compaction, CompactionState};
pub(crate) use trace::{FinishedStep, parent_of_call, parent_of_step};
pub(crate) use validation::{ValidAnswers, Validation};
pub(crate) use votes::Overruled;
pub(crate) use votes::newest_terms;
pub(crate) use working::{EDITED_FIELDS, LAST_OUTPUT};

use crate::{
    assistants::{Assistant, ModelChoice},
    context::Window,
    memories::Recollection,
    model::Usage,
    ports::{ids::Ids, store::json_bytes},
    run_log::position::Position,
    run_tools::{self, Earlier, plan},
    services::{PolicySnapshot, Rules},
    settings::{Limits, RunHold},
};

/// A run.
pub(crate) struct Run {
    pub id: RunId,
    pub message: MessageId,
    pub settings: RunSettings,
    pub state: RunState,
    /// All calls of the run, in the order the model made them.
    pub calls: Vec<LiveCall>,
    assembler: Assembler,
    /// The questions that calls of the run have asked the user. They are never saved: the question of a tool ends with the process, and one
    /// of the run itself follows from its call.
    elicited: Vec<Elicited>,
    /// The number of times that pages have said that an input is edited, or no longer.
    edits: u32,
    /// The newest `data-plan`. It is never saved, because clients may receive it again.
    shown_plan: Option<Plan>,
    /// The newest `data-run`. It is never saved, because clients may receive it again.
    shown_status: Option<RunStatus>,
    /// The step that the model is making. It is never saved, because the step is asked for again if the process ends.
    open_step: streaming::OpenStep,
    /// The beginning of that step, if another process has left it.
    left_over: Option<LeftOver>,
}

/// The settings of the request that began a run. They never change, and are saved once.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunSettings {
    pub started: Timestamp,
    /// The owner of the chat, with the groups that the post has proved.
    pub requester: Arc<Principal>,
    /// The name of the model that answers, as its provider knows it.
    pub model: String,
    /// The assistant that answers; `None` for the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assistant: Option<String>,
    /// The model that the chat has chosen among those of the assistant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_model: Option<String>,
    /// `true` if the run knows the memories of its user, and may change them.
    pub remembers: bool,
    pub tools: Vec<PostedTool>,
    /// The instructions that the page has posted.
    pub system: Option<String>,
    pub call_settings: Map<String, Value>,
    pub tool_choice: Option<ToolChoice>,
    /// The use of plans.
    pub plan: PlanMode,
    /// `true` if the words of the user ask for a plan.
    pub wants_plan: bool,
    /// The plan of earlier runs that is not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_plan: Option<Plan>,
    /// A person makes this call again. The run begins with it in place of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<RetriedCall>,
    /// The header `traceparent` of the post, if runs are traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// The part of a run that is saved as one piece each time. The calls, the log and the message are saved apart, as they grow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunState {
    pub profile: Profile,
    pub hold: RunHold,
    pub phase: Phase,
    /// The number of steps.
    pub step: u32,
    /// The number of those steps without a request to the model, because the run made the calls itself in place of failed ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub own_steps: u32,
    /// The position of the newest chunk in the log.
    pub position: Position,
    pub usage: Option<Usage>,
    /// The steps that the model has finished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<FinishedStep>,
    /// The data chunks that the client asked for.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub show: BTreeSet<Show>,
    /// `true` if the model got a reminder to call the tool that the user has chosen, because its first answer did not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_reminded: bool,
    /// The message that the run goes on from, if the user has decided about its calls in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<EarlierMessage>,
    /// The outcome of the last call that got one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_outcome: Option<LastOutcome>,
    /// The run's knowledge of its user, once it has looked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recollection: Option<Arc<Recollection>>,
    pub checkpoints: Vec<Checkpoint>,
    pub activity: Activity,
    texts: u32,
}

/// The message whose calls the user has decided about in words. The run has taken over its calls, and goes on in a message of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EarlierMessage {
    pub id: MessageId,
    /// The run that made it.
    pub run: RunId,
    /// The last step of it.
    pub step: u32,
    /// The words of the user after it.
    pub said: Said,
}

/// The phase of a run's current step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// The model streams its answer.
    Streaming,
    /// The run waits for decisions about the step's calls: the gate is closed.
    Deciding,
    /// The run waits for the outcomes of the step's calls: the gate is open, or lets each call pass by itself.
    Working,
    /// The run waits for nothing.
    Over,
}

/// A position in the log where the run waited: a client that posts the message again has seen nothing that comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    pub step: u32,
    pub position: Position,
    /// `true` if the gate was open.
    pub open: bool,
}

/// The request for a new run.
pub(crate) struct RunRequest {
    pub id: RunId,
    pub message: MessageId,
    pub profile: Profile,
    pub hold: RunHold,
    pub show: BTreeSet<Show>,
    pub settings: RunSettings,
}

/// A run as it was saved.
pub(crate) struct SavedRun {
    pub id: RunId,
    pub message: MessageId,
    pub settings: RunSettings,
    pub state: RunState,
    pub calls: Vec<Call>,
    pub log: Vec<(Position, UiChunk)>,
}

/// The facts that the decisions of a run depend on.
#[derive(Clone)]
pub(crate) struct Context<'a> {
    pub now: Timestamp,
    pub ids: &'a dyn Ids,
    pub toolbox: &'a Toolbox,
    pub rules: &'a Rules,
    /// The policy that is in force by now, which may be newer than the step's: a call that it denies does not run.
    pub newest: Arc<dyn Policy>,
    /// The owner of the chat, in whose name the calls run.
    pub requester: Arc<Principal>,
    pub limits: &'a Limits,
    pub expire: Duration,
    /// The tools that a person has allowed for this chat for good.
    pub grants: &'a Grants,
    pub chat: &'a ChatId,
    /// The size of the chat's other messages, in bytes of JSON.
    pub other_bytes: usize,
    /// `true` if clients are shown why a model failed.
    pub shows_model_errors: bool,
    /// The size of the model's window, as far as it is known.
    pub window: Option<Window>,
}

/// A run that decides about an event.
struct Deciding<'a> {
    run: &'a mut Run,
    context: &'a Context<'a>,
    /// The person whose answers the event has; `None` if it has none.
    decider: Option<Decider>,
    effects: Effects,
}

// === impl RunSettings ===

impl RunSettings {
    /// Returns the assistant and the model that answer now.
    pub fn answering<'a>(&self, policies: &'a PolicySnapshot) -> (&'a Assistant, &'a ModelChoice) {
        let assistant = policies.assistant(self.assistant.as_deref());
        (assistant, assistant.model(self.chosen_model.as_deref()))
    }

    /// Returns the tools of the server that the run has now.
    pub fn server_tools(&self, policies: &PolicySnapshot) -> Toolbox {
        policies.toolbox_of(self.assistant.as_deref(), self.remembers, self.plan, &self.tools)
    }
}

// === impl Run ===

impl Run {
    /// Returns a run that has not begun.
    pub fn new(request: RunRequest) -> Self {
        let state = RunState {
            profile: request.profile,
            hold: request.hold,
            phase: Phase::Streaming,
            step: 0,
            own_steps: 0,
            position: Position::START,
            usage: None,
            steps: Vec::new(),
            show: request.show,
            is_reminded: false,
            earlier: None,
            last_outcome: None,
            recollection: None,
            checkpoints: Vec::new(),
            activity: Activity::Working,
            texts: 0,
        };
        Self::in_state(request.id, request.message, request.settings, state)
    }

    /// Returns a run in a state, without calls and without a message.
    fn in_state(id: RunId, message: MessageId, settings: RunSettings, state: RunState) -> Self {
        Self {
            assembler: Assembler::new(message.clone()),
            id,
            message,
            settings,
            state,
            calls: Vec::new(),
            elicited: Vec::new(),
            edits: 0,
            shown_plan: None,
            shown_status: None,
            open_step: streaming::OpenStep::default(),
            left_over: None,
        }
    }

    /// Returns a run as it was saved. Its message is folded again from its log.
    ///
    /// # Errors
    /// If the log cannot be folded into a message, because something else has written it.
    pub fn restore(saved: SavedRun) -> Result<Self, AssembleError> {
        let SavedRun { id, message, settings, state, calls, log } = saved;
        let mut run = Self::in_state(id, message, settings, state);
        run.calls = calls.into_iter().map(LiveCall::from).collect();
        if run.state.phase == Phase::Streaming {
            run.left_over = Some(LeftOver::of(&log));
        }
        for (position, chunk) in &log {
            run.assembler.apply(chunk)?;
            run.note_outcome(*position, chunk);
        }
        for call in &run.calls {
            if let (Some(question), Some(decided)) = (&call.approval_request, &call.approval_decision) {
                run.assembler.decide(&question.id, decided.approved, decided.reason.as_deref());
            }
        }
        run.restore_questions();
        Ok(run)
    }

    /// Gives back memory that only more events would need.
    pub fn shrink_to_fit(&mut self) {
        self.calls.shrink_to_fit();
        self.assembler.shrink_to_fit();
    }

    /// Returns whether something is saved with these effects that need not be done again if the process ends now. Resuming a run, up to the
    /// request to the model, is no progress by itself, unless it settles a call.
    pub fn is_progress(&self, effects: &Effects, is_recovery: bool) -> bool {
        let calls = &effects.commit.calls;
        if is_recovery {
            return calls.iter().any(|index| self.call(*index).state().is_final());
        }
        effects.after.next == Next::AskModel || !calls.is_empty()
    }

    /// Returns the message as it stands.
    pub fn snapshot(&self) -> UiMessage {
        UiMessage { created_at: Some(self.settings.started), ..self.assembler.snapshot() }
    }

    /// Returns the size of the chat with the message as it stands, in bytes of JSON.
    fn chat_bytes(&self, context: &Context<'_>) -> usize {
        context.other_bytes + json_bytes(&self.snapshot())
    }

    /// Returns whether nothing of the run is at work, so that it continues only when somebody answers.
    pub fn is_waiting(&self) -> bool {
        match self.state.phase {
            Phase::Deciding => true,
            Phase::Working => {
                let mut waits = false;
                for index in self.step_indexes() {
                    let (call, elicits) = (self.call(index), self.elicits(index));
                    if matches!(call.state(), CallState::Scheduled { .. }) || (is_at_work(call) && !elicits) {
                        return false;
                    }
                    waits |= elicits || call.awaits_answer();
                }
                waits
            }
            Phase::Streaming | Phase::Over => false,
        }
    }

    /// Returns whether the run has something in this process that is not saved.
    pub fn is_pinned(&self) -> bool {
        self.elicitations().any(|elicited| !Self::is_own_question(elicited))
    }

    /// Returns whether the run can be dropped from memory: its readers were detached, and everything of it is saved.
    pub fn is_unloadable(&self) -> bool {
        self.is_detached() && !self.is_pinned()
    }

    /// Returns the time when something is due first: a call or question that waits for an answer expires, or an approval needs attention.
    pub fn expires(&self) -> Option<Timestamp> {
        self.expiry().into_iter().chain(self.first_question_ends()).chain(self.approvals_due()).min()
    }

    /// Returns the time when the run ends if nobody answers.
    pub fn expiry(&self) -> Option<Timestamp> {
        let calls = self.calls.iter().filter(|call| call.awaits_answer());
        let questions = self.elicitations().filter(|asked| asked.expiry_ends == ExpiryEnds::Run);
        calls.filter_map(|call| call.state().expires()).chain(questions.map(|asked| asked.expires)).min()
    }

    /// Returns whether a call of the step waits for a decision.
    pub fn awaits_approval(&self) -> bool {
        self.step_calls().iter().any(|call| call.awaits_approval())
    }

    /// Returns the calls that wait for an answer.
    pub fn pending(&self) -> impl Iterator<Item = &Call> {
        self.all_calls().filter(|call| call.awaits_answer())
    }

    /// Returns which tools the next step may or must call. The user's choice is forced in the first step only, or the run would never
    /// end, and in the last step there is none.
    pub fn tool_choice(&self, limits: &Limits) -> Option<ToolChoice> {
        if self.is_last_step(limits) {
            return Some(ToolChoice::None);
        }
        if let Some(tool) = self.required_tool(limits) {
            return Some(ToolChoice::Tool(tool.to_owned()));
        }
        self.settings
            .tool_choice
            .clone()
            .filter(|choice| self.state.step <= 1 || matches!(choice, ToolChoice::Auto | ToolChoice::None))
    }

    /// Adds a chunk to the message, and moves the position of the log behind it.
    fn add_chunk(&mut self, chunk: &UiChunk) {
        if let Err(error) = self.assembler.apply(chunk) {
            debug_assert!(false, "{error}: {chunk:?}");
            tracing::error!(run = %self.id, %error, "a chunk does not fit into the message");
        }
        self.state.position = self.state.position.next();
    }

    /// Returns the tool that the step has to call, and no other: the one that the user has chosen, or the one that makes a plan.
    fn required_tool(&self, limits: &Limits) -> Option<&str> {
        if self.must_plan() && !self.is_last_step(limits) {
            return Some(plan::MAKE_PLAN);
        }
        self.chosen_tool(limits)
    }

    /// Returns the tool that the user has chosen, if the step has to call it.
    fn chosen_tool(&self, limits: &Limits) -> Option<&str> {
        if self.is_last_step(limits) {
            return None;
        }
        match &self.settings.tool_choice {
            Some(ToolChoice::Tool(name)) if self.state.step <= 1 => Some(name),
            Some(ToolChoice::Tool(_) | ToolChoice::Auto | ToolChoice::None | ToolChoice::Required) | None => {
                None
            }
        }
    }

    /// Returns whether the model is not asked again after this step.
    fn is_last_step(&self, limits: &Limits) -> bool {
        self.state.step - self.state.own_steps >= limits.steps
    }

    /// Returns whether this step is the last one for the limit's sake. A run that may have no more than one step was not stopped by it.
    fn is_limited(&self, limits: &Limits) -> bool {
        self.state.step > 1 && self.is_last_step(limits)
    }

    /// Returns the notes for the model about the step, which follow its instructions.
    pub fn step_instructions(&self, limits: &Limits) -> Option<String> {
        if self.is_limited(limits) {
            return Some(
                "This is your last answer to the user's message, and no tool can be called any more. Say what is done, and what is left to do."
                    .into(),
            );
        }
        if !self.state.is_reminded {
            return None;
        }
        let tool = self.chosen_tool(limits)?;
        Some(format!(
            "The user has chosen the tool {tool} for this message. Your last answer did not call it, so nobody was shown that answer. Call \
             {tool} now."
        ))
    }

    fn call(&self, index: usize) -> &LiveCall {
        &self.calls[index]
    }

    fn index_of(&self, call: &ToolCallId) -> Option<usize> {
        self.calls.iter().position(|known| known.id == *call)
    }

    fn step_calls(&self) -> &[LiveCall] {
        &self.calls[self.step_indexes()]
    }

    /// Returns the calls of the run as they are saved.
    pub fn all_calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().map(|live| &live.call)
    }

    /// Checks the input of a call if its tool is one of the run's own.
    ///
    /// # Errors
    /// If the tool refuses the input. The error is the text for the model.
    fn check_own_tool(&self, call: &Call, input: &Value, toolbox: &Toolbox) -> Result<(), String> {
        let Some(tool) = run_tools::of_call(call, toolbox) else { return Ok(()) };
        let calls = self.all_calls().take_while(|other| other.id != call.id).collect();
        tool.check(input, &Earlier { calls, plan: self.plan_before(Some(&call.id)) }, toolbox)
    }

    /// Returns the indexes of the step's calls, which are the last ones.
    fn step_indexes(&self) -> Range<usize> {
        self.calls.partition_point(|call| call.step < self.state.step)..self.calls.len()
    }

    fn note_outcome(&mut self, position: Position, chunk: &UiChunk) {
        if let UiChunk::ToolOutputAvailable { tool_call_id, preliminary: None | Some(false), .. }
        | UiChunk::ToolOutputError { tool_call_id, .. }
        | UiChunk::ToolOutputDenied { tool_call_id, .. }
        | UiChunk::ToolInputError { tool_call_id, .. } = chunk
            && let Some(index) = self.index_of(tool_call_id)
        {
            self.calls[index].settled_at = Some(position);
        }
        if let UiChunk::ToolApprovalRequest { tool_call_id, approval_id, .. } = chunk
            && let Some(index) = self.index_of(tool_call_id)
            && !self.calls[index].asked_before.is_empty()
            && self.calls[index].approval_request.as_ref().is_some_and(|request| request.id == *approval_id)
        {
            self.calls[index].asked_again_at = Some(position);
        }
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Returns a call to be changed, and notes that it is to be saved.
    fn call_mut(&mut self, index: usize) -> &mut LiveCall {
        self.effects.commit.calls.insert(index);
        &mut self.run.calls[index]
    }

    fn publish(&mut self, chunk: UiChunk) {
        if chunk.is_about_call() && self.run.is_in_earlier_message() {
            // Partial outputs are for readers, and this message has none any more.
            if !matches!(chunk, UiChunk::ToolOutputAvailable { preliminary: Some(true), .. }) {
                self.effects.commit.earlier.push(chunk);
            }
            return;
        }
        if let Some(left_over) = &mut self.run.left_over {
            left_over.note(&chunk);
        }
        self.run.add_chunk(&chunk);
        self.run.note_outcome(self.run.state.position, &chunk);
        self.effects.after.publish.push((self.run.state.position, chunk));
    }

    /// Tells the client something that is not a part of the message.
    fn publish_transient(&mut self, kind: &str, data: Value) {
        let kind = kind.to_owned();
        self.publish(UiChunk::Data(DataChunk { kind, id: None, data, transient: Some(true) }));
    }

    fn begin_step(&mut self) {
        self.run.state.step += 1;
        self.run.state.phase = Phase::Streaming;
        self.run.state.activity = Activity::Working;
        self.run.open_step.has_checked_fallbacks = false;
        self.publish(UiChunk::StartStep);
        self.ask_model();
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Returns the later time, or the latest there is.
fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}

fn is_at_work(call: &Call) -> bool {
    match call.state() {
        CallState::Executing { work } => match work {
            Work::Server | Work::Asking { .. } | Work::Again(_) => true,
            Work::Browser { .. } => false,
        },
        CallState::Validating
        | CallState::AwaitingApproval { .. }
        | CallState::Scheduled { .. }
        | CallState::Success { .. }
        | CallState::Error { .. }
        | CallState::Cancelled { .. } => false,
    }
}
