//! The running tools of a run: each in a task of its own, which outlives the run only to stop in good order.
//!
//! Partial outputs are coalesced here: of each call only the newest is kept, and all of them are handed on together, at most once in
//! [`REPORT_INTERVAL`]. So a tool that reports often costs a stream no more than one that does not.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fermata_protocol::{ElicitationId, ToolCallId};
use fermata_tools::{CallContext, Decision, Elicitation, ElicitationReply, Execution, ToolError, ToolHost};
use serde_json::Value;
use tokio::{
    sync::{Notify, Semaphore, mpsc, oneshot},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

use crate::services::ResourceLock;

/// The number of questions of a run's tools that may be on their way to the run at a time.
const MAX_QUESTIONS: usize = 16;
/// The least time between two batches of partial outputs.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// An event of a running tool.
pub(crate) enum ToolEvent {
    /// The call has ended.
    Settled(ToolCallId, Result<Value, ToolError>),
    /// The call asks the user something. The id goes back before the answer, so that the question can be withdrawn.
    Elicits { call: ToolCallId, question: Elicitation, accepted: oneshot::Sender<Accepted> },
    /// The call no longer waits for the answer to a question.
    Withdraws(ElicitationId),
    /// The call is about to run again, and waits until that is saved: a crash after it must not make it run too often.
    Retries { call: ToolCallId, saved: oneshot::Sender<()> },
    /// The call asks for the decision about a call of its tool with another input.
    Decides { call: ToolCallId, input: Value, decision: oneshot::Sender<Decision> },
    /// Calls show partial outputs.
    Reports(Vec<(ToolCallId, Value)>),
}

/// The question's id and the receiver of its answer; or the reply, if the question cannot be asked.
pub(crate) type Accepted = Result<(ElicitationId, oneshot::Receiver<ElicitationReply>), ElicitationReply>;

/// The running tools of one run.
pub(super) struct RunningTools {
    tasks: TaskTracker,
    /// Created with the first of them: most runs that wait have none, and there may be a hundred thousand runs.
    channel: Option<Channel>,
    /// The tokens that cancel single calls.
    calls: HashMap<ToolCallId, CancellationToken>,
    /// The calls that wait for the answer to a question.
    questions: HashMap<ElicitationId, oneshot::Sender<ElicitationReply>>,
}

/// The connection between a run and its tools.
struct Channel {
    cancelled: CancellationToken,
    host: Arc<Host>,
    /// Not bounded, because an outcome must not be lost and `Drop` cannot wait. There is one outcome of each call, and at most one retry
    /// that waits to be saved, or one input that waits for a decision; there are [`MAX_QUESTIONS`] questions, and no more withdrawals than questions that the run has accepted,
    /// whose number is limited (`max_parked_calls`).
    events: mpsc::UnboundedReceiver<ToolEvent>,
    /// The time of the last batch of partial outputs.
    reported_at: Option<Instant>,
}

/// The host of the run's tools.
struct Host {
    events: mpsc::UnboundedSender<ToolEvent>,
    /// Acquired by a question until the run has accepted or refused it.
    questions: Semaphore,
    /// The newest partial output of each call, in the order of the first reports. Held for a push or a take, never across an await.
    reports: Mutex<VecDeque<(ToolCallId, Value)>>,
    reported: Notify,
}

/// A question that is withdrawn when its call no longer waits for the answer.
struct OpenQuestion {
    id: ElicitationId,
    events: mpsc::UnboundedSender<ToolEvent>,
}

// === impl RunningTools ===

impl RunningTools {
    /// Returns no running tools; their tasks will be tracked by `tasks`.
    pub fn new(tasks: TaskTracker) -> Self {
        Self { tasks, channel: None, calls: HashMap::new(), questions: HashMap::new() }
    }

    /// Adds the things that the run's tools share to a call's context.
    pub fn host(&mut self, context: CallContext) -> CallContext {
        let channel = self.channel.get_or_insert_with(Channel::new);
        let cancelled = channel.cancelled.child_token();
        self.calls.insert(context.call.clone(), cancelled.clone());
        context.cancelled_by(cancelled).with_host(channel.host.clone())
    }

    /// Runs a call. The lock is held until the tool has stopped, even if its outcome is no longer of interest.
    pub fn start(&mut self, execution: Execution, lock: Option<ResourceLock>, span: tracing::Span) {
        let channel = self.channel.get_or_insert_with(Channel::new);
        let (call, events) = (execution.context.call.clone(), channel.host.events.clone());
        let task = async move {
            let _lock = lock;
            execution
                .run(|outcome| {
                    // The run may be over.
                    let _ = events.send(ToolEvent::Settled(call, outcome));
                })
                .await;
        };
        self.tasks.spawn(task.instrument(span));
    }

    /// Cancels the work of one call. Its outcome is of no interest any more.
    pub fn cancel(&mut self, call: &ToolCallId) {
        if let Some(cancelled) = self.calls.remove(call) {
            cancelled.cancel();
        }
    }

    /// Tells a call that its question is asked, and keeps the sender of the answer.
    pub fn accept_question(&mut self, id: ElicitationId, accepted: oneshot::Sender<Accepted>) {
        let (sender, reply) = oneshot::channel();
        self.questions.insert(id.clone(), sender);
        if accepted.send(Ok((id.clone(), reply))).is_err()
            && let Some(channel) = &self.channel
        {
            // The call was dropped before it could withdraw the question itself.
            let _ = channel.host.events.send(ToolEvent::Withdraws(id));
        }
    }

    /// Hands the answer to a question to the call that asked it, if it still waits.
    pub fn reply(&mut self, id: &ElicitationId, reply: ElicitationReply) {
        if let Some(question) = self.questions.remove(id) {
            let _ = question.send(reply);
        }
    }

    /// Waits for the next event. Cancel safe.
    pub async fn next(&mut self) -> ToolEvent {
        let Some(Channel { host, events, reported_at, .. }) = &mut self.channel else {
            return std::future::pending().await;
        };
        let due = reported_at.map(|reported_at| reported_at + REPORT_INTERVAL);
        let reports = async {
            loop {
                let reported = host.reported.notified();
                if !host.reports().is_empty() {
                    break;
                }
                reported.await;
            }
            if let Some(due) = due {
                tokio::time::sleep_until(due).await;
            }
        };
        tokio::select! {
            biased;
            event = events.recv() => match event {
                Some(event) => {
                    if let ToolEvent::Settled(call, _) = &event {
                        self.calls.remove(call);
                    }
                    event
                }
                // The host holds a sender while the channel lives.
                None => std::future::pending().await,
            },
            () = reports => {
                *reported_at = Some(Instant::now());
                ToolEvent::Reports(host.reports().drain(..).collect())
            }
        }
    }
}

// === impl Channel ===

impl Channel {
    fn new() -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let host = Host {
            events: sender,
            questions: Semaphore::new(MAX_QUESTIONS),
            reports: Mutex::default(),
            reported: Notify::new(),
        };
        Self { cancelled: CancellationToken::new(), host: Arc::new(host), events, reported_at: None }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.cancelled.cancel();
    }
}

// === impl Host ===

impl Host {
    fn reports(&self) -> MutexGuard<'_, VecDeque<(ToolCallId, Value)>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ToolHost for Host {
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
        let Ok(permit) = self.questions.acquire().await else { return ElicitationReply::Cancel };
        let (accepted, answer) = oneshot::channel();
        let event = ToolEvent::Elicits { call: call.clone(), question, accepted };
        let Ok(()) = self.events.send(event) else { return ElicitationReply::Cancel };
        let answer = answer.await;
        drop(permit);
        let (id, reply) = match answer {
            Ok(Ok(accepted)) => accepted,
            Ok(Err(reply)) => return reply,
            Err(_) => return ElicitationReply::Cancel,
        };
        let _open = OpenQuestion { id, events: self.events.clone() };
        reply.await.unwrap_or(ElicitationReply::Cancel)
    }

    async fn decide(&self, call: &ToolCallId, input: Value) -> Decision {
        let (decision, decided) = oneshot::channel();
        let sent = self.events.send(ToolEvent::Decides { call: call.clone(), input, decision });
        if sent.is_err() {
            return Decision::Deny;
        }
        decided.await.unwrap_or(Decision::Deny)
    }

    async fn before_retry(&self, call: &ToolCallId) -> bool {
        let (saved, wait) = oneshot::channel();
        let sent = self.events.send(ToolEvent::Retries { call: call.clone(), saved });
        sent.is_ok() && wait.await.is_ok()
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let _ = self.events.send(ToolEvent::Withdraws(self.id.clone()));
    }
}
