//! A run with everything that is at work for it: the model, the tools, the calls that wait, the log.
//!
//! Dropping it ends all of that: the request upstream, the readers' wait, the place in every line; tools are told to wind up.

use std::{collections::HashMap, sync::Arc, time::Duration};

use fermata_protocol::{AnswerKind, ToolCallId};
use fermata_tools::{InputError, MAX_RETRIES, PendingCall, PendingCalls, ResourceKey, Toolbox, Waiter};
use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, Either, ready},
    stream::{BoxStream, FuturesUnordered},
};
use tokio::{task::unconstrained, time::Instant};
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span};

use super::{
    jobs::{Jobs, Signal},
    spans::CallSpans,
    timers::Timers,
};
use crate::{
    engine::Inner,
    instances::Lock,
    model::{ModelError, ModelEvent},
    open_runs::OpenRun,
    rules::PolicySnapshot,
    run::Run,
    run_log::Writer,
};

/// A run at work.
pub(super) struct Live {
    pub run: Run,
    pub log: Writer,
    /// What the step goes by.
    pub current: Arc<PolicySnapshot>,
    /// Its tools, with the browser's.
    pub toolbox: Toolbox,
    pub jobs: Jobs,
    pub spans: CallSpans,
    /// Counts the run among its owner's open ones; there while it is saved that this instance drives it. The others are counted by
    /// their rows.
    pub driven: Option<OpenRun>,
    /// Whether what it was asked for is saved by itself.
    pub has_settings: bool,
    /// How often it was taken up to be worked on since it last got on, as it is saved.
    pub attempts: u32,
    /// Whether what is done now only takes up what was done before.
    pub is_taken_up: bool,
    /// Whether it was saved after the server had begun to end.
    pub is_saved_late: bool,
    pub timers: Timers,
    pending_calls: PendingCalls,
    parked: FuturesUnordered<BoxFuture<'static, (ToolCallId, Option<AnswerKind>)>>,
    lines: FuturesUnordered<BoxFuture<'static, (ToolCallId, Option<Lock>)>>,
    /// Locks of calls whose turn it is and that have not begun yet.
    locks: HashMap<ToolCallId, Lock>,
    model: Option<Speech>,
    /// The inputs of a step that are being checked.
    checks: Option<BoxFuture<'static, CheckedInputs>>,
}

/// Calls whose inputs were checked: each fits, or not.
type CheckedInputs = Vec<(ToolCallId, Result<(), InputError>)>;

/// Counts a call among the parked ones while it lives.
struct Counted;

/// What a model is saying.
struct Speech {
    events: BoxStream<'static, Vec<Result<ModelEvent, ModelError>>>,
    /// When it was last heard.
    heard: Instant,
    asked: Instant,
    /// Whether a piece of an answer has come.
    has_spoken: bool,
    /// How often the step was asked for before, in vain.
    before: u32,
    span: Span,
}

/// What happened to a run by itself.
pub(super) enum Happening {
    Heard(Vec<Result<ModelEvent, ModelError>>),
    /// The model's stream ended.
    Silence,
    /// The inputs of the step were checked.
    Checked(CheckedInputs),
    /// Something came from a tool.
    Tool(Signal),
    /// It is a call's turn to use its resource.
    Turn(ToolCallId),
    /// A call has waited for its turn long enough.
    NoTurn(ToolCallId),
    /// A time may be over.
    Time,
}

// === impl Live ===

impl Live {
    /// A run at which nothing is at work yet; its tools' tasks will belong to `tasks`.
    pub fn new(
        run: Run,
        log: Writer,
        current: Arc<PolicySnapshot>,
        toolbox: Toolbox,
        driven: Option<OpenRun>,
        tasks: TaskTracker,
    ) -> Self {
        Self {
            spans: CallSpans::new(&run),
            driven,
            has_settings: false,
            attempts: 0,
            is_taken_up: false,
            is_saved_late: false,
            timers: Timers::default(),
            run,
            log,
            current,
            toolbox,
            jobs: Jobs::new(tasks),
            pending_calls: PendingCalls::new(),
            parked: FuturesUnordered::new(),
            lines: FuturesUnordered::new(),
            locks: HashMap::new(),
            model: None,
            checks: None,
        }
    }

    /// Whether nothing is lost by forgetting it.
    pub fn may_rest(&self) -> bool {
        let is_only_looked_at = self.driven.is_none() && self.run.is_waiting() && !self.run.is_bound();
        self.run.may_rest() || (is_only_looked_at && !self.log.has_readers())
    }

    /// Goes by these rules and tools from now on.
    pub fn go_by(&mut self, current: Arc<PolicySnapshot>) {
        if !Arc::ptr_eq(&current, &self.current) {
            self.toolbox = self.toolbox.with_server_tools_of(&current.toolbox);
            self.current = current;
        }
    }

    /// Listens to a model.
    pub fn listen(&mut self, events: BoxStream<'static, Result<ModelEvent, ModelError>>, span: Span) {
        // What the provider has ready is taken together and shown in one write.
        let events = events.ready_chunks(64).boxed();
        let (heard, asked) = (Instant::now(), Instant::now());
        let before = self.model.take().map_or(0, |silent| silent.before + 1);
        self.model = Some(Speech { events, heard, asked, has_spoken: false, before, span });
    }

    /// Whether a model that is listened to has given nothing of an answer yet, and was not asked too often.
    pub fn may_ask_again(&self) -> bool {
        self.model.as_ref().is_some_and(|model| !model.has_spoken && model.before < MAX_RETRIES)
    }

    /// Notes how the model fails.
    pub fn note_model_error(&self, error: &ModelError) {
        if let Some(model) = &self.model {
            model.span.record("error.type", error.error_type().as_str());
        }
    }

    /// Stops listening; the request upstream ends. Returns how long the model was listened to.
    pub fn stop_listening(&mut self) -> Option<Duration> {
        self.model.take().map(|speech| speech.asked.elapsed())
    }

    /// Waits for what comes of these checks.
    pub fn check(&mut self, checks: impl Future<Output = CheckedInputs> + Send + 'static) {
        self.checks = Some(checks.boxed());
    }

    /// Gives a call a place to wait in.
    pub fn park(&mut self, call: ToolCallId) {
        let parked: PendingCall = self.pending_calls.park(call.clone());
        let counted = Counted::new();
        self.parked.push(
            async move {
                let _counted = counted;
                (call, parked.await)
            }
            .boxed(),
        );
    }

    /// Takes a call's place away.
    pub fn release(&mut self, call: &ToolCallId) {
        self.pending_calls.release(call);
    }

    /// Hands answers to the calls that wait for them, and returns what has woken.
    pub fn wake(&mut self, answers: Vec<(ToolCallId, AnswerKind)>) -> HashMap<ToolCallId, AnswerKind> {
        for (call, answer) in answers {
            if self.pending_calls.answer(&call, answer).is_err() {
                tracing::error!(%call, "a call that waits has no place in the lot");
            }
        }
        let mut woken = HashMap::new();
        // What was answered is ready, however much it is: tokio's budget for one turn of a task must not end this early.
        while let Some(Some((call, answer))) = unconstrained(self.parked.next()).now_or_never() {
            woken.extend(answer.map(|answer| (call, answer)));
        }
        woken
    }

    /// Puts a call into the line for its resource, for at most this time. Whether it is its turn already.
    pub fn stand_in_line(
        &mut self,
        inner: &Arc<Inner>,
        call: ToolCallId,
        waiter: Waiter<ResourceKey>,
        patience: Duration,
    ) -> bool {
        let is_alone = inner.instances.mail.is_none();
        let waiter = match waiter.try_acquire() {
            Ok(lock) if is_alone => {
                self.locks.insert(call, Lock::near(lock));
                return true;
            }
            Ok(lock) => Either::Left(ready(Some(lock))),
            Err(waiter) => Either::Right(waiter.acquire()),
        };
        let inner = inner.clone();
        let turn = async move {
            let near = waiter.await?;
            if is_alone { Some(Lock::near(near)) } else { Lock::everywhere(&inner, near).await }
        };
        let turn = async move { (call, tokio::time::timeout(patience, turn).await.ok().flatten()) };
        self.lines.push(turn.boxed());
        false
    }

    /// The lock of a call that begins, where it uses a resource.
    pub fn take_lock(&mut self, call: &ToolCallId) -> Option<Lock> {
        self.locks.remove(call)
    }

    /// Gives back the lock of a call that did not begin after all.
    pub fn drop_lock(&mut self, call: &ToolCallId) {
        self.locks.remove(call);
    }

    /// Waits for the next thing to happen, at most until `deadline`.
    pub async fn next(&mut self, deadline: Option<Instant>) -> Happening {
        let time = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            signal = self.jobs.next() => Happening::Tool(signal),
            Some((call, lock)) = self.lines.next(), if !self.lines.is_empty() => match lock {
                Some(lock) => {
                    self.locks.insert(call.clone(), lock);
                    Happening::Turn(call)
                }
                None => Happening::NoTurn(call),
            },
            events = heard(&mut self.model) => match events {
                Some(events) => Happening::Heard(events),
                None => Happening::Silence,
            },
            results = checked(&mut self.checks) => Happening::Checked(results),
            () = time => Happening::Time,
        }
    }

    /// When the model counts as gone: after so long a silence, or so long a speech.
    pub fn model_deadline(&self, silence: Duration, speech: Duration) -> Option<Instant> {
        self.model.as_ref().map(|model| (model.heard + silence).min(model.asked + speech))
    }
}

async fn checked(checks: &mut Option<BoxFuture<'static, CheckedInputs>>) -> CheckedInputs {
    match checks {
        Some(checking) => {
            let results = checking.await;
            *checks = None;
            results
        }
        None => std::future::pending().await,
    }
}

async fn heard(model: &mut Option<Speech>) -> Option<Vec<Result<ModelEvent, ModelError>>> {
    match model {
        Some(speech) => {
            let events = speech.events.next().instrument(speech.span.clone()).await;
            speech.heard = Instant::now();
            let is_answer = |event: &Result<ModelEvent, ModelError>| !matches!(event, Ok(ModelEvent::Alive));
            speech.has_spoken |= events.as_ref().is_none_or(|events| events.iter().any(is_answer));
            events
        }
        None => std::future::pending().await,
    }
}

// === impl Counted ===

impl Counted {
    fn new() -> Self {
        metrics::gauge!("fermata_calls_parked").increment(1);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        metrics::gauge!("fermata_calls_parked").decrement(1);
    }
}
