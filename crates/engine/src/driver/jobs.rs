//! The tools that a run has running: each in a task of its own that outlives the run only to wind up.
//!
//! What tools show is coalesced here: of each call only the newest output is kept, and all of them are handed on together, at most every
//! [`REPORTS_APART`]. So a tool that talks a lot costs a stream no more than one that does not.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fermata_protocol::{ElicitationId, ToolCallId};
use fermata_tools::{CallContext, Elicitation, ElicitationReply, Execution, ToolError, ToolHost};
use serde_json::Value;
use tokio::{
    sync::{Notify, Semaphore, mpsc, oneshot},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

use crate::instances::Lock;

/// How many questions of a run's tools may be on their way to the driver.
const QUESTIONS_AT_ONCE: usize = 16;
/// The least time between two looks at what tools show.
const REPORTS_APART: Duration = Duration::from_millis(250);

/// What comes from a running tool.
pub(super) enum Signal {
    /// It has ended.
    Settled(ToolCallId, Result<Value, ToolError>),
    /// It asks the person something. The id goes back first, so that the question can be withdrawn.
    Elicits { call: ToolCallId, question: Elicitation, asked: oneshot::Sender<Asking> },
    /// It does not want to know any more.
    Withdraws(ElicitationId),
    /// It is about to run again, and waits until that is noted: a crash after it must not make it run too often.
    Repeats { call: ToolCallId, noted: oneshot::Sender<()> },
    /// Some of them show something.
    Reports(Vec<(ToolCallId, Value)>),
}

/// The question's id and where its answer comes; or that it cannot be asked.
type Asking = Result<(ElicitationId, oneshot::Receiver<ElicitationReply>), ElicitationReply>;

/// The tools of one run.
pub(super) struct Jobs {
    tasks: TaskTracker,
    /// Made with the first of them: most runs that wait have none, and there may be a hundred thousand.
    channel: Option<Channel>,
    /// Those who wait for the answer to a question of theirs.
    questions: HashMap<ElicitationId, oneshot::Sender<ElicitationReply>>,
}

/// What connects a run with its tools.
struct Channel {
    cancelled: CancellationToken,
    outlet: Arc<Outlet>,
    /// Not bounded by itself, because outcomes must not be lost and nobody may wait in a `Drop`. Of each call there is one outcome and
    /// at most one repetition that waits to be noted; questions are as many as [`QUESTIONS_AT_ONCE`], and withdrawals as the questions
    /// that the run has taken, of which it takes a limited number (`max_parked_calls`).
    signals: mpsc::UnboundedReceiver<Signal>,
    /// When reports were handed on last.
    reported: Option<Instant>,
}

/// Where the run's tools speak into.
struct Outlet {
    signals: mpsc::UnboundedSender<Signal>,
    /// Taken by a question until the driver has heard it.
    questions: Semaphore,
    /// Held for a push or a take, never across an await. A queue, so that who reported first is shown first.
    reports: Mutex<VecDeque<(ToolCallId, Value)>>,
    reported: Notify,
}

/// A question that is withdrawn where nobody waits for its answer any more.
struct Asked {
    id: ElicitationId,
    signals: mpsc::UnboundedSender<Signal>,
}

// === impl Jobs ===

impl Jobs {
    /// None yet; their tasks will belong to `tasks`.
    pub fn new(tasks: TaskTracker) -> Self {
        Self { tasks, channel: None, questions: HashMap::new() }
    }

    /// The context with what the run's tools have in common.
    pub fn surround(&mut self, context: CallContext) -> CallContext {
        let channel = self.channel.get_or_insert_with(Channel::new);
        context.cancelled_by(channel.cancelled.child_token()).with_host(channel.outlet.clone())
    }

    /// Runs a call. The lock is held until the tool has wound up, also when nobody waits for its outcome any more.
    pub fn start(&mut self, execution: Execution, lock: Option<Lock>, span: tracing::Span) {
        let channel = self.channel.get_or_insert_with(Channel::new);
        let (call, signals) = (execution.context.call.clone(), channel.outlet.signals.clone());
        let job = async move {
            let _lock = lock;
            execution
                .run(|outcome| {
                    // The run may be over; then nobody wants to know.
                    let _ = signals.send(Signal::Settled(call, outcome));
                })
                .await;
        };
        self.tasks.spawn(job.instrument(span));
    }

    /// Keeps a tool that waits for an answer, and what it is told first.
    pub fn ask(&mut self, id: ElicitationId, asked: oneshot::Sender<Asking>) {
        let (sender, reply) = oneshot::channel();
        self.questions.insert(id.clone(), sender);
        // A tool that has gone meanwhile has dropped what withdraws the question, so that is done here.
        if let (Err(_), Some(channel)) = (asked.send(Ok((id.clone(), reply))), &self.channel) {
            let _ = channel.outlet.signals.send(Signal::Withdraws(id));
        }
    }

    /// Tells a tool what the person said.
    pub fn reply(&mut self, id: &ElicitationId, reply: ElicitationReply) {
        if let Some(question) = self.questions.remove(id) {
            // Who withdrew it does not wait.
            let _ = question.send(reply);
        }
    }

    /// Waits for the next that comes from a tool. Cancel safe.
    pub async fn next(&mut self) -> Signal {
        match &mut self.channel {
            Some(channel) => channel.next().await,
            None => std::future::pending().await,
        }
    }
}

// === impl Channel ===

impl Channel {
    fn new() -> Self {
        let (sender, signals) = mpsc::unbounded_channel();
        let outlet = Outlet {
            signals: sender,
            questions: Semaphore::new(QUESTIONS_AT_ONCE),
            reports: Mutex::default(),
            reported: Notify::new(),
        };
        Self { cancelled: CancellationToken::new(), outlet: Arc::new(outlet), signals, reported: None }
    }

    async fn next(&mut self) -> Signal {
        let due = self.reported.map(|reported| reported + REPORTS_APART);
        let outlet = &self.outlet;
        let reports = async {
            outlet.wait_for_report().await;
            if let Some(due) = due {
                tokio::time::sleep_until(due).await;
            }
        };
        tokio::select! {
            biased;
            signal = self.signals.recv() => match signal {
                Some(signal) => signal,
                // The outlet holds a sender for as long as this lives.
                None => std::future::pending().await,
            },
            () = reports => {
                self.reported = Some(Instant::now());
                Signal::Reports(self.outlet.reports().drain(..).collect())
            }
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.cancelled.cancel();
    }
}

// === impl Outlet ===

impl Outlet {
    fn reports(&self) -> MutexGuard<'_, VecDeque<(ToolCallId, Value)>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_for_report(&self) {
        loop {
            let reported = self.reported.notified();
            if !self.reports().is_empty() {
                return;
            }
            reported.await;
        }
    }
}

#[async_trait]
impl ToolHost for Outlet {
    fn report(&self, call: &ToolCallId, output: Value) {
        let mut reports = self.reports();
        match reports.iter_mut().find(|(known, _)| known == call) {
            Some((_, newest)) => *newest = output,
            None => reports.push_back((call.clone(), output)),
        }
        drop(reports);
        self.reported.notify_one();
    }

    async fn elicit(&self, call: &ToolCallId, question: Elicitation) -> ElicitationReply {
        let Ok(turn) = self.questions.acquire().await else { return ElicitationReply::Cancel };
        let (asked, answer) = oneshot::channel();
        let signal = Signal::Elicits { call: call.clone(), question, asked };
        let Ok(()) = self.signals.send(signal) else { return ElicitationReply::Cancel };
        let answer = answer.await;
        drop(turn);
        let (id, reply) = match answer {
            Ok(Ok(asked)) => asked,
            Ok(Err(reply)) => return reply,
            Err(_) => return ElicitationReply::Cancel,
        };
        let _asked = Asked { id, signals: self.signals.clone() };
        reply.await.unwrap_or(ElicitationReply::Cancel)
    }

    async fn before_retry(&self, call: &ToolCallId) -> bool {
        let (noted, noting) = oneshot::channel();
        let told = self.signals.send(Signal::Repeats { call: call.clone(), noted });
        told.is_ok() && noting.await.is_ok()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let _ = self.signals.send(Signal::Withdraws(self.id.clone()));
    }
}
