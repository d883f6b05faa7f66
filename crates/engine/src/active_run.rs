//! A run with everything that is at work for it: the model, the tools, the calls that wait, the log.
//!
//! The run decides; this performs its effects, in the order of [`Effects`](crate::run::Effects). Nothing that cannot be saved is done: on a
//! store error the caller drops the active run and leaves the chat as it was saved last.
//!
//! Dropping it ends all of its work: the request to the model, the wait of the readers, the requests for locks; tools are cancelled.

mod answering;
mod asking;
mod continuing;
mod model_stream;
mod performing;
mod refusals;
mod resuming;
mod running_tools;
mod saving;
mod spans;
mod timers;

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use fermata_protocol::{AnswerKind, Plan, ToolCallId, UiMessage};
use fermata_tools::{InputError, PendingCalls, Slot, ToolError, Toolbox, Wait};
use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    sync::oneshot,
    time::{Instant, Sleep},
};

use asking::ReadMessages;
use model_stream::ModelStream;
use running_tools::{RunningTools, ToolEvent};
use spans::CallSpans;
use timers::{FURTHEST, Timers};

use crate::{
    context::{Fit, Measured, summary::WrittenSummary},
    memories::Recollection,
    model::{ModelError, ModelEvent, metrics::record_model_call},
    ports::store::{Change, StoreError},
    record::Record,
    run::{Admission, Compaction, Effects, Ending, Event, Next, Phase, RememberedRun, Run, interrupted},
    run_log::Writer,
    services::{OpenRun, Patience, PolicySnapshot, ResourceLock, Services},
    summarizer::WriteError,
};

pub(crate) use performing::context as run_context;
pub(crate) use resuming::{Resumption, is_detached, read_run, works_by_itself};

/// The interval between saves of an answer while the model speaks. If the process is killed, people lose at most this much of the
/// answer.
const SAVE_ANSWER_AFTER: Duration = Duration::from_secs(2);
/// A resumed run counts as harmless to the process after this time.
const HARMLESS_AFTER: Duration = Duration::from_secs(5);

/// A run at work, and its chat.
pub(crate) struct ActiveRun {
    pub record: Record,
    pub run: Run,
    pub log: Writer,
    services: Arc<Services>,
    /// The rules, assistants and tools of the current step.
    policies: Arc<PolicySnapshot>,
    /// The tools of the current step, with those of the browser. If a tool changes meanwhile, this has it as it is now.
    pub toolbox: Toolbox,
    /// The snapshot that the server's tools in the toolbox come from.
    tools_from: Arc<PolicySnapshot>,
    /// The snapshot whose rules say who decides about the calls that wait.
    followed: Option<Arc<PolicySnapshot>>,
    ownership: Ownership,
    /// The saved number of processes in a row that ended within seconds of resuming the run. It counts this process until that has lived for
    /// some seconds.
    attempts: u32,
    /// From this time on, an end of this process is no sign that the run has ended it.
    harmless_from: Instant,
    /// The reason why something could not be done after it was saved.
    failure: Option<StoreError>,
    /// `false` while the run has decided something that has to be saved and is not.
    is_saved: bool,
    /// Changes to the chat that a request has made; they are saved with the consequences of the request.
    unsaved: Vec<Change>,
    /// The message that the run goes on from, as it was saved last, if it was needed before.
    earlier: Option<Box<UiMessage>>,
    /// The plan of the run as it was saved last.
    saved_plan: Option<Plan>,
    /// The other messages of the chat, while the model may need them; they are read when they are needed and are not here.
    history: Option<ReadMessages>,
    step: StepWork,
    tools: RunningTools,
    /// The calls and questions that wait for an answer.
    pending: PendingCalls<AnswerKind>,
    /// Their futures.
    parked: FuturesUnordered<BoxFuture<'static, Option<AnswerKind>>>,
    /// The futures that calls wait for before they run: each is a lock or a slot.
    waits: FuturesUnordered<BoxFuture<'static, Happening>>,
    /// The locks and slots of calls that were admitted and have not begun yet.
    admitted: HashMap<ToolCallId, Admitted>,
    /// The slot of the request to the model.
    model_slot: Option<Slot>,
    timers: Timers,
    /// Goes off at the next deadline, or at an earlier time.
    alarm: Pin<Box<Sleep>>,
    /// The earliest time when a deadline may have passed, as [`ActiveRun::keep_deadlines`] has left it.
    deadline: Instant,
    spans: CallSpans,
}

/// A run, its log, and the rules and tools of its current step.
pub(crate) struct RunParts {
    pub run: Run,
    pub log: Writer,
    pub policies: Arc<PolicySnapshot>,
    pub toolbox: Toolbox,
}

/// A run that is about to begin.
pub(crate) struct NewRun {
    pub parts: RunParts,
    pub open_run: OpenRun,
    /// Changes to the chat that are saved together with the run.
    pub changes: Vec<Change>,
    /// The other messages of the chat, if they are known.
    pub history: Option<Vec<UiMessage>>,
}

/// The owner of the run, according to the store.
enum Ownership {
    /// This process has only looked at the run; the store does not know.
    Unclaimed,
    /// This instance, which counts the run among the open ones of its user.
    Claimed(#[expect(dead_code, reason = "the run is counted until this is dropped")] OpenRun),
}

/// The work for the current step, besides its calls.
enum StepWork {
    None,
    /// The request to the model is about to be made.
    Request,
    /// The request to the model waits for its turn.
    Queue(oneshot::Receiver<Slot>),
    /// The knowledge of the user is looked for, before the model is asked for the first time.
    Recollection(BoxFuture<'static, Recollection>),
    Model(ModelStream),
    /// A summary is written of what falls out of the request.
    Summary(Box<SummaryWork>),
    /// The inputs of the step's calls are checked against their schemas.
    InputChecks(BoxFuture<'static, CheckedInputs>),
}

/// Calls whose inputs were checked, and the errors of those that do not fit their schemas.
type CheckedInputs = Vec<(ToolCallId, Result<(), InputError>)>;

/// A summary that is being written, and the request that waits for it.
struct SummaryWork {
    writing: BoxFuture<'static, Result<WrittenSummary, WriteError>>,
    /// The part of the history that is sent then.
    fit: Fit,
    compaction: Compaction,
    /// As in [`ModelStream`].
    overflows: u32,
}

/// An event that an active run has waited for.
pub(crate) enum Happening {
    /// Something could not be done after it was saved.
    Failed(StoreError),
    /// The model is to be asked.
    Request,
    Recollected(Recollection),
    /// The model has said something, and may have failed after it.
    Model {
        received: Vec<ModelEvent>,
        failure: Option<ModelError>,
    },
    /// The run has decided something because of the model's output, and it has to be saved.
    Heard(Box<Effects>),
    /// The model has spoken for a while, and its words are to be saved.
    Spoken,
    SummaryWritten(Result<WrittenSummary, WriteError>),
    InputsChecked(CheckedInputs),
    Tool(Box<ToolEvent>),
    /// A call has the lock of its resource.
    Locked(ToolCallId, ResourceLock),
    LockTimedOut(ToolCallId, ToolError),
    /// A call may be one more that runs.
    Admitted(ToolCallId, Slot),
    /// It is the turn of the request to the model.
    RequestAdmitted(Slot),
    /// A deadline may have passed.
    Deadline,
    /// A wait has ended without a result.
    Nothing,
}

/// The lock and the slot of a call.
#[derive(Default)]
struct Admitted {
    /// The lock of its resource, if it has one.
    lock: Option<ResourceLock>,
    /// Its place among the calls that run; `None` while it waits for one.
    slot: Option<Slot>,
}

/// Counts a call among the parked ones while it lives.
struct ParkedGauge;

// === impl ActiveRun ===

impl ActiveRun {
    fn new(services: Arc<Services>, record: Record, parts: RunParts, ownership: Ownership) -> Self {
        let RunParts { run, log, policies, toolbox } = parts;
        Self {
            spans: CallSpans::new(&run),
            tools: RunningTools::new(services.shutdown.tasks.clone()),
            services,
            record,
            run,
            log,
            tools_from: policies.clone(),
            policies,
            toolbox,
            followed: None,
            ownership,
            attempts: 0,
            harmless_from: Instant::now() + HARMLESS_AFTER,
            failure: None,
            is_saved: true,
            unsaved: Vec::new(),
            earlier: None,
            saved_plan: None,
            history: None,
            step: StepWork::None,
            pending: PendingCalls::new(),
            parked: FuturesUnordered::new(),
            waits: FuturesUnordered::new(),
            admitted: HashMap::new(),
            model_slot: None,
            timers: Timers::default(),
            // It is set to the first deadline before it is awaited.
            alarm: Box::pin(tokio::time::sleep(FURTHEST)),
            deadline: Instant::now(),
        }
    }

    /// Begins a run, together with changes to its chat.
    pub async fn begin(services: Arc<Services>, record: Record, new: NewRun) -> Result<Self, StoreError> {
        let mut active = Self::new(services, record, new.parts, Ownership::Claimed(new.open_run));
        active.unsaved = new.changes;
        active.history = new.history.map(|messages| ReadMessages { first: 0, messages });
        if active.run.settings.retries.is_some() {
            active.read_owner_grants().await;
        }
        active.apply(Event::Begun).await?;
        Ok(active)
    }

    /// Returns whether the run is as it was saved, so that a failure of the store costs it nothing.
    pub fn is_saved(&self) -> bool {
        self.is_saved
    }

    /// Returns whether the run is over.
    pub fn is_over(&self) -> bool {
        self.run.state.phase == Phase::Over
    }

    /// Returns whether the run can be dropped from memory without losing anything.
    pub fn is_unloadable(&self) -> bool {
        let is_only_looked_at = matches!(self.ownership, Ownership::Unclaimed)
            && self.run.is_waiting()
            && !self.run.is_pinned()
            && !self.log.has_readers();
        self.run.is_unloadable() || is_only_looked_at
    }

    /// Lets calls go on whose tools have come.
    pub async fn find_tools(&mut self) -> Result<(), StoreError> {
        if !self.run.waits_for_tools() {
            return Ok(());
        }
        self.use_policies(self.services.policies.current());
        Box::pin(self.apply(Event::ToolsChanged)).await
    }

    /// Reads the grants of the chat's owner, which were perhaps given or revoked in another chat. While the store is away none of them
    /// counts, so a person is asked, and nobody waits for the store.
    async fn read_owner_grants(&mut self) {
        let grants = self.services.store.owner_grants(&self.record.head.owner).await.unwrap_or_default();
        self.record.grants.set_of_owner(grants);
    }

    /// Has the newest rules say who decides about calls that wait.
    pub async fn follow_rules(&mut self) -> Result<(), StoreError> {
        let newest = self.services.policies.current();
        if self.followed.as_ref().is_some_and(|followed| Arc::ptr_eq(followed, &newest)) {
            return Ok(());
        }
        self.followed = Some(newest);
        if !self.run.awaits_approval() {
            return Ok(());
        }
        Box::pin(self.apply(Event::RulesChanged)).await
    }

    /// Uses these rules and tools from now on.
    fn use_policies(&mut self, policies: Arc<PolicySnapshot>) {
        if !Arc::ptr_eq(&policies, &self.policies) {
            let own = self.run.settings.server_tools(&policies);
            self.toolbox = self.toolbox.with_server_tools_of(&own);
            self.tools_from = policies.clone();
            self.policies = policies;
        }
    }

    /// Uses each tool as it is now. A tool that is not there any more stays until the step is over, because it may come back.
    fn use_newest_tools(&mut self) {
        let newest = self.services.policies.current();
        if !Arc::ptr_eq(&newest, &self.tools_from) {
            let own = self.run.settings.server_tools(&newest);
            self.toolbox = self.toolbox.with_newer_tools_of(&own);
            self.tools_from = newest;
        }
    }

    /// Waits for something to happen to the run that its actor has to handle. Meanwhile the model's output is shown at once, unless it has
    /// to be saved. Cancel safe.
    pub async fn next(&mut self) -> Happening {
        if let Some(error) = self.failure.take() {
            return Happening::Failed(error);
        }
        // The model's deadline moves with each delta. It is looked at when the alarm goes off, because setting that costs more than a delta.
        if self.deadline < self.alarm.deadline() || self.alarm.is_elapsed() {
            self.alarm.as_mut().reset(self.deadline);
        }
        loop {
            let happening = tokio::select! {
                Some(happening) = self.waits.next(), if !self.waits.is_empty() => happening,
                // This one was released. The answers of the others are received where these are resolved.
                Some(_) = self.parked.next(), if !self.parked.is_empty() => Happening::Nothing,
                event = self.tools.next() => Happening::Tool(Box::new(event)),
                happening = self.step.next() => happening,
                () = self.alarm.as_mut() => Happening::Deadline,
            };
            let Happening::Model { received, failure: None } = happening else { return happening };
            // The first words after a refusal wait until the refused parts are noted.
            if self.step.model().is_some_and(|stream| stream.search.is_some()) {
                return Happening::Model { received, failure: None };
            }
            if let Some(effects) = self.hear_model(received, None) {
                return Happening::Heard(effects);
            }
            match self.step.model() {
                None => return Happening::Nothing,
                Some(stream) if stream.last_event_at - stream.saved_at >= SAVE_ANSWER_AFTER => {
                    return Happening::Spoken;
                }
                Some(_) => {}
            }
            // The actor gets its turn even if the model never pauses.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Has the run decide about something that has happened.
    pub async fn handle(&mut self, happening: Happening) -> Result<(), StoreError> {
        let event = match happening {
            Happening::Failed(error) => return Err(error),
            Happening::Request => {
                self.step = StepWork::None;
                return Box::pin(self.ask_model()).await;
            }
            Happening::Model { received, failure } => return self.handle_model(received, failure).await,
            Happening::Heard(effects) => return Box::pin(self.perform_saved(effects)).await,
            Happening::Spoken => return Box::pin(self.save_spoken()).await,
            Happening::SummaryWritten(written) => return Box::pin(self.handle_summary(written)).await,
            Happening::Recollected(recollection) => {
                self.step = StepWork::None;
                Event::Recollected(Arc::new(recollection))
            }
            Happening::Tool(event) => return Box::pin(self.handle_tool(*event)).await,
            Happening::InputsChecked(results) => {
                self.step = StepWork::None;
                Event::InputsChecked(results)
            }
            Happening::Locked(call, lock) if self.run.wait_of(&call) == Some(&Wait::Resource) => {
                let admission = self.admit_locked(&call, Some(lock));
                Event::Admission(vec![(call, admission)])
            }
            Happening::LockTimedOut(call, error) => Event::Admission(vec![(call, Admission::Refused(error))]),
            Happening::Admitted(call, slot) if self.run.wait_of(&call) == Some(&Wait::Capacity) => {
                self.admitted.entry(call.clone()).or_default().slot = Some(slot);
                Event::Admission(vec![(call, Admission::Granted)])
            }
            Happening::RequestAdmitted(slot) => {
                self.step = StepWork::None;
                self.model_slot = Some(slot);
                Box::pin(self.apply(Event::RequestQueued(false))).await?;
                return Box::pin(self.ask_model()).await;
            }
            // The call does not wait for it any more.
            Happening::Locked(..) | Happening::Admitted(..) => return Ok(()),
            // Deadlines are looked at before the run waits again.
            Happening::Deadline | Happening::Nothing => return Ok(()),
        };
        Box::pin(self.apply(event)).await
    }

    async fn handle_model(
        &mut self,
        received: Vec<ModelEvent>,
        failure: Option<ModelError>,
    ) -> Result<(), StoreError> {
        if let (Some(error), StepWork::Model(stream)) = (&failure, &self.step) {
            stream.span.record("error.type", error.error_type().as_str());
        }
        if let (Some(error @ (ModelError::TooLong(_) | ModelError::NoAnswer(_))), StepWork::Model(stream)) =
            (&failure, &self.step)
            && !stream.has_begun
            && Box::pin(self.ask_for_less(error)).await?
        {
            return Ok(());
        }
        let failure = match failure {
            Some(ModelError::Refused(reason)) => match Box::pin(self.ask_without(reason)).await? {
                Some(reason) => Some(ModelError::Refused(reason)),
                None => return Ok(()),
            },
            failure => failure,
        };
        Box::pin(self.note_refused()).await?;
        match self.hear_model(received, failure) {
            Some(effects) => Box::pin(self.perform_saved(effects)).await,
            None => Ok(()),
        }
    }

    /// Has the run decide about the model's output, and performs the effects if none of them has to be waited for.
    fn hear_model(
        &mut self,
        mut received: Vec<ModelEvent>,
        failure: Option<ModelError>,
    ) -> Option<Box<Effects>> {
        if failure.is_none()
            && self.unsaved.is_empty()
            && let Some(chunks) = self.run.stream_text(&mut received, &self.services.settings.limits)
        {
            self.log.stage(&chunks);
            self.log.publish();
            return None;
        }
        let usage_before = self.run.state.usage.unwrap_or_default();
        let asked = self.step.model().map(|stream| (stream.model.clone(), stream.asked_at, stream.estimated));
        let mut effects = self.decide(Event::Model(received));
        if let Some(error) = failure {
            effects.append(self.decide(Event::ModelFailed(error)));
        }
        let has_ended = self.run.state.phase != Phase::Streaming
            || effects.after.next == Next::AskModel
            || self.run.is_checking();
        if has_ended {
            if matches!(self.step, StepWork::Model(_)) {
                // The request to the model ends here.
                self.step = StepWork::None;
                self.model_slot = None;
            }
            if let Some((model, asked_at, estimated)) = asked {
                let usage = self.run.state.usage.unwrap_or_default();
                record_model_call(&model, asked_at.elapsed(), usage_before, usage);
                let counted = usage.input_tokens - usage_before.input_tokens;
                if let Some(estimated) = estimated {
                    // A provider that counts nothing leaves the estimate.
                    let tokens = if counted > 0 { counted } else { estimated };
                    let context = &mut self.record.context;
                    let summarized = context.fit.summary.as_ref().map_or(0, |covered| covered.messages);
                    context.measured = Some(Measured { tokens, estimated, summarized });
                    self.unsaved.push(self.record.context.saved());
                }
            }
        }
        self.perform_at_once(effects)
    }

    /// Ends the work on the run because the server ends, and saves the words of the model so far. Returns `true` if another instance may go on
    /// with the run at once. While a call runs, none may before this process has ended: its tool may take a while to end.
    pub async fn shut_down(&mut self) -> Result<bool, StoreError> {
        let tally = &self.services.shutdown.tally;
        if self.run.is_waiting() {
            tally.moved.fetch_add(1, Ordering::Relaxed);
            return Ok(false);
        }
        tally.cut.fetch_add(1, Ordering::Relaxed);
        // The run has done this process no harm: the end comes from outside, and is not counted against it.
        self.attempts = self.attempts.saturating_sub(1);
        self.step = StepWork::None;
        let is_free = self.run.state.phase == Phase::Streaming;
        let owner = if is_free { None } else { Some(self.services.lease.instance.clone()) };
        self.save_answer(Patience::Run, owner).await?;
        Ok(is_free)
    }

    /// Sends the readers away because the server ends. They come back to another instance, or after the next start.
    pub fn leave(&mut self) {
        self.log.leave(interrupted());
    }

    /// Drops the run from memory; its readers look for it again. Returns the part of it that the store may have forgotten.
    pub fn unload(mut self) -> RememberedRun {
        self.log.end_moved();
        self.run.remembered()
    }

    /// Ends the log because the database has lost a part of it.
    pub fn end_lost(&mut self) {
        self.log.end_lost();
    }

    /// Ends the log after the chat was deleted: nothing of it is saved any more, but readers that are left waiting would post again.
    pub fn end_deleted(mut self) {
        let effects = self.decide(Event::Ended(Ending::Stopped));
        self.log.stage(&effects.after.publish);
        self.log.publish();
        self.log.end(Vec::new());
    }
}

// === impl StepWork ===

impl StepWork {
    /// Returns the answer of the model, if one is being streamed.
    fn model(&self) -> Option<&ModelStream> {
        match self {
            Self::Model(stream) => Some(stream),
            Self::Request
            | Self::Queue(_)
            | Self::Recollection(_)
            | Self::Summary(_)
            | Self::InputChecks(_)
            | Self::None => None,
        }
    }

    async fn next(&mut self) -> Happening {
        match self {
            Self::None => std::future::pending().await,
            Self::Request => {
                // Readers are sent the chunks that were published just now before the request is made, which takes longer.
                tokio::task::yield_now().await;
                Happening::Request
            }
            Self::Queue(turn) => {
                match turn.await {
                    Ok(slot) => Happening::RequestAdmitted(slot),
                    // The slots are gone, because the server ends.
                    Err(_) => std::future::pending().await,
                }
            }
            Self::Recollection(recollection) => Happening::Recollected(recollection.await),
            Self::InputChecks(checks) => Happening::InputsChecked(checks.await),
            Self::Summary(work) => Happening::SummaryWritten((&mut work.writing).await),
            Self::Model(stream) => stream.next().await,
        }
    }
}

// === impl ParkedGauge ===

impl ParkedGauge {
    fn new() -> Self {
        metrics::gauge!("fermata_calls_parked").increment(1);
        Self
    }
}

impl Drop for ParkedGauge {
    fn drop(&mut self) {
        metrics::gauge!("fermata_calls_parked").decrement(1);
    }
}
