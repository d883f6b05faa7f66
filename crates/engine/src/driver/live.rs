//! A run with everything that is at work for it: the model, the tools, the calls that wait, the log.
//!
//! Dropping it ends all of that: the request upstream, the tools, the readers' wait.

use std::{collections::HashMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use fermata_protocol::{AnswerKind, ToolCallId};
use fermata_tools::{
    CallContext, ErrorType, Parked, ParkingLot, ResourceKey, Ticket, Tool, ToolError, Toolbox,
};
use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{BoxStream, FuturesUnordered},
};
use serde_json::Value;
use tokio::{
    task::{JoinSet, unconstrained},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    engine::{Current, OpenRun},
    model::{ModelError, ModelEvent},
    run::Run,
    run_log::Writer,
};

/// A run at work.
pub(super) struct Live {
    pub run: Run,
    pub log: Writer,
    /// What the step goes by.
    pub current: Arc<Current>,
    /// Its tools, with the browser's.
    pub toolbox: Toolbox,
    lot: ParkingLot,
    parked: FuturesUnordered<BoxFuture<'static, (ToolCallId, Option<AnswerKind>)>>,
    tools: JoinSet<(ToolCallId, Result<Value, ToolError>)>,
    cancelled: CancellationToken,
    model: Option<Speech>,
    /// Counts the run among its owner's open ones while it lives.
    _open: OpenRun,
}

/// Counts a call among the parked ones while it lives.
struct Counted;

/// What a model is saying.
struct Speech {
    events: BoxStream<'static, Vec<Result<ModelEvent, ModelError>>>,
    /// When it was last heard.
    heard: Instant,
    asked: Instant,
}

/// What happened to a run by itself.
pub(super) enum Happening {
    Heard(Vec<Result<ModelEvent, ModelError>>),
    /// The model's stream ended.
    Silence,
    Settled(ToolCallId, Result<Value, ToolError>),
    /// A time may be over.
    Time,
}

/// A server tool about to run.
pub(super) struct Job {
    pub tool: Arc<dyn Tool>,
    pub input: Value,
    pub context: CallContext,
    pub timeout: Duration,
    pub place: Option<Ticket<ResourceKey>>,
}

// === impl Live ===

impl Live {
    /// A run at which nothing is at work yet.
    pub fn new(run: Run, log: Writer, current: Arc<Current>, toolbox: Toolbox, open: OpenRun) -> Self {
        Self {
            run,
            log,
            current,
            toolbox,
            lot: ParkingLot::new(),
            parked: FuturesUnordered::new(),
            tools: JoinSet::new(),
            cancelled: CancellationToken::new(),
            model: None,
            _open: open,
        }
    }

    /// Goes by these rules and tools from now on.
    pub fn go_by(&mut self, current: Arc<Current>) {
        if !Arc::ptr_eq(&current, &self.current) {
            self.toolbox = self.toolbox.with_server_tools_of(&current.toolbox);
            self.current = current;
        }
    }

    /// What the tools of the run watch to see it end.
    pub fn cancelled(&self) -> CancellationToken {
        self.cancelled.child_token()
    }

    /// Listens to a model.
    pub fn listen(&mut self, events: BoxStream<'static, Result<ModelEvent, ModelError>>) {
        // What the provider has ready is taken together and shown in one write.
        let events = events.ready_chunks(64).boxed();
        self.model = Some(Speech { events, heard: Instant::now(), asked: Instant::now() });
    }

    /// Stops listening; the request upstream ends. Returns how long the model was listened to.
    pub fn stop_listening(&mut self) -> Option<Duration> {
        self.model.take().map(|speech| speech.asked.elapsed())
    }

    /// Gives a call a place to wait in.
    pub fn park(&mut self, call: ToolCallId) {
        let parked: Parked = self.lot.park(call.clone());
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
        self.lot.release(call);
    }

    /// Hands answers to the calls that wait for them, and returns what has woken.
    pub fn wake(&mut self, answers: Vec<(ToolCallId, AnswerKind)>) -> HashMap<ToolCallId, AnswerKind> {
        for (call, answer) in answers {
            if self.lot.answer(&call, answer).is_err() {
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

    /// Runs a server tool.
    pub fn execute(&mut self, call: ToolCallId, job: Job) {
        self.tools.spawn(async move { (call, job.run().await) });
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
            Some(done) = self.tools.join_next(), if !self.tools.is_empty() => match done {
                Ok((call, outcome)) => Happening::Settled(call, outcome),
                // Jobs catch their panics and are aborted only with the run.
                Err(_) => Happening::Time,
            },
            events = heard(&mut self.model) => match events {
                Some(events) => Happening::Heard(events),
                None => Happening::Silence,
            },
            () = time => Happening::Time,
        }
    }

    /// When the model counts as gone, if it says nothing.
    pub fn model_deadline(&self, timeout: Duration) -> Option<Instant> {
        self.model.as_ref().map(|speech| speech.heard + timeout)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.cancelled.cancel();
    }
}

async fn heard(model: &mut Option<Speech>) -> Option<Vec<Result<ModelEvent, ModelError>>> {
    match model {
        Some(speech) => {
            let events = speech.events.next().await;
            speech.heard = Instant::now();
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

// === impl Job ===

impl Job {
    async fn run(self) -> Result<Value, ToolError> {
        let Self { tool, input, context, timeout, place } = self;
        let _lock = match place {
            Some(place) => place.turn().await,
            None => None,
        };
        let cancelled = context.cancelled.clone();
        // Standing in line costs the call none of its time.
        let running =
            tokio::time::timeout(timeout, AssertUnwindSafe(tool.call(input, context)).catch_unwind());
        match running.await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(ToolError::internal("The tool failed inside the server.")),
            Err(_) => {
                cancelled.cancel();
                Err(ToolError::new(
                    ErrorType::Timeout,
                    format!("The tool took longer than {} s and was ended.", timeout.as_secs_f32()),
                ))
            }
        }
    }
}
