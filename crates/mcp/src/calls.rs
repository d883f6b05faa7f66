//! The open calls of one connection. They receive the progress and the elicitations of the server.
//!
//! Invariant: an elicitation is routed to a call only if its chat is certain.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use fermata_protocol::ToolCallId;
use fermata_tools::{CallContext, Pause};
use rmcp::model::{ProgressNotificationParam, ProgressToken, RequestId};
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The request that an elicitation belongs to, as far as the transport says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It came on the response stream of this request.
    Request(RequestId),
    /// The transport does not name its request.
    Unknown,
}

/// The reason why an elicitation cannot be routed to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unroutable {
    /// No call is open.
    NoCall,
    /// It may belong to any of several chats.
    SeveralChats,
}

/// The reason why a person has not answered an elicitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// It may have belonged to any of several chats, so it was shown to no one.
    SeveralChats,
    /// Any other reason, as a sentence.
    Reason(String),
}

/// The open calls of one connection.
#[derive(Default)]
pub(crate) struct OpenCalls {
    calls: Mutex<CallTable>,
    /// `true` once the server has sent an elicitation without an origin, on this or another connection. From then on, all open
    /// calls of a connection belong to one chat. It is read and set under the lock of `calls`.
    elicits_unattributed: Arc<AtomicBool>,
    /// Notifies when a call's request has been sent or a call is no longer open.
    pub(crate) changed: Notify,
}

#[derive(Default)]
struct CallTable {
    next_key: u64,
    open: BTreeMap<u64, OpenCall>,
    /// The newest progress for tokens that no call is known to have sent. It is kept while the request of some open call has
    /// not been registered yet.
    early_progress: HashMap<ProgressToken, ProgressNotificationParam>,
}

/// The maximum length of a progress message, in bytes. A longer one is cut.
const MAX_PROGRESS_MESSAGE: usize = 16_000;

/// The maximum number of tokens whose early progress is kept.
const MAX_EARLY_PROGRESS: usize = 1_000;

struct OpenCall {
    context: CallContext,
    ended: CancellationToken,
    /// The request's id and progress token. `None` until the request has been registered.
    request: Option<(RequestId, ProgressToken)>,
    /// The latest progress that was reported.
    progress: Option<f64>,
    unanswered: UnansweredList,
}

/// The elicitations that may belong to a call and were not answered. They are added to the call's result.
type UnansweredList = Arc<Mutex<Vec<Unanswered>>>;

/// The calls that an elicitation may belong to. All of them are of one chat.
pub(crate) struct ElicitationRoute {
    /// The context of the newest call, through which the person is asked.
    pub(crate) context: CallContext,
    /// The ids of the other calls.
    pub(crate) other_candidates: Vec<ToolCallId>,
    /// A token for each call that is cancelled when the call ends.
    ended: Vec<CancellationToken>,
    /// The time of each call is paused, because each may be waiting for the person.
    _pauses: Vec<Pause>,
    unanswered: Vec<UnansweredList>,
}

/// An open call of a connection. It is closed when this is dropped.
pub(crate) struct OpenCallGuard {
    calls: Arc<OpenCalls>,
    key: u64,
    unanswered: UnansweredList,
    _ended: DropGuard,
}

// === impl OpenCalls ===

impl OpenCalls {
    /// Starts without any calls. `elicits_unattributed` is shared by all connections to the server.
    pub(crate) fn new(elicits_unattributed: Arc<AtomicBool>) -> Self {
        Self { elicits_unattributed, ..Self::default() }
    }

    /// Opens a call. Returns `None` if the server is known to send elicitations without an origin and calls of another chat are
    /// open, because such an elicitation could not be routed.
    pub(crate) fn open(self: &Arc<Self>, context: CallContext) -> Option<OpenCallGuard> {
        let ended = CancellationToken::new();
        let mut calls = self.lock();
        if self.elicits_unattributed.load(Ordering::SeqCst)
            && calls.open.values().any(|call| !call.is_of_chat(&context))
        {
            return None;
        }
        let key = calls.next_key;
        calls.next_key += 1;
        let unanswered = UnansweredList::default();
        let call = OpenCall {
            context,
            ended: ended.clone(),
            request: None,
            progress: None,
            unanswered: unanswered.clone(),
        };
        calls.open.insert(key, call);
        Some(OpenCallGuard { calls: self.clone(), key, unanswered, _ended: ended.drop_guard() })
    }

    /// Returns the calls that an elicitation may belong to. If it names a request that is not registered yet, this waits until
    /// the request is registered or no open call is without one.
    ///
    /// # Errors
    /// Returns an error if there is no such call, or if there are such calls of several chats.
    pub(crate) async fn route_elicitation(&self, origin: &Origin) -> Result<ElicitationRoute, Unroutable> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Changes after this point are noticed.
            changed.as_mut().enable();
            if let Some(route) = self.lock().route_elicitation(origin, &self.elicits_unattributed) {
                return route;
            }
            changed.await;
        }
    }

    /// Reports the progress of the call that it belongs to, and keeps it if that call is not known yet. Progress that is not beyond the last
    /// report is dropped.
    pub(crate) fn report_progress(&self, progress: &ProgressNotificationParam) {
        let mut calls = self.lock();
        let call = calls.open.values_mut().find(|call| match &call.request {
            Some((_, token)) => *token == progress.progress_token,
            None => false,
        });
        // The lock is held during the report, because newer progress must not overtake it.
        match call {
            Some(call) => call.report_progress(progress),
            // The progress may arrive before its request is registered: a server may be faster than the task that sent the request.
            None => {
                let may_be_of_a_call = calls.open.values().any(|call| call.request.is_none());
                let is_newest = match calls.early_progress.get(&progress.progress_token) {
                    Some(known) => progress.progress > known.progress,
                    None => true,
                };
                if may_be_of_a_call && is_newest && calls.early_progress.len() < MAX_EARLY_PROGRESS {
                    calls.early_progress.insert(progress.progress_token.clone(), progress.clone());
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, CallTable> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns progress as the partial output of a call.
fn progress_output(progress: &ProgressNotificationParam) -> Value {
    let mut output = Map::from_iter([("progress".to_owned(), number(progress.progress))]);
    if let Some(total) = progress.total {
        output.insert("total".to_owned(), number(total));
    }
    if let Some(message) = &progress.message {
        let end = message.floor_char_boundary(MAX_PROGRESS_MESSAGE);
        output.insert("message".to_owned(), message[..end].into());
    }
    Value::Object(output)
}

/// Returns a number as JavaScript writes it: a whole number has no fraction.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { Value::from(value as i64) } else { Value::from(value) }
}

// === impl OpenCall ===

impl OpenCall {
    fn is_of_chat(&self, context: &CallContext) -> bool {
        self.context.owner == context.owner && self.context.chat == context.chat
    }

    fn report_progress(&mut self, progress: &ProgressNotificationParam) {
        // Notifications are handled concurrently, so an old one may come late.
        if self.progress.is_none_or(|latest| progress.progress > latest) {
            self.progress = Some(progress.progress);
            self.context.report(progress_output(progress));
        }
    }
}

// === impl CallTable ===

impl CallTable {
    /// Drops early progress if the requests of all open calls are registered.
    fn drop_early_progress(&mut self) {
        if self.open.values().all(|call| call.request.is_some()) {
            self.early_progress = HashMap::new();
        }
    }

    /// Does what [`OpenCalls::route_elicitation`] does, but returns `None` if the request of a call must be registered first.
    fn route_elicitation(
        &self,
        origin: &Origin,
        elicits_unattributed: &AtomicBool,
    ) -> Option<Result<ElicitationRoute, Unroutable>> {
        // A cancelled call gets no elicitations any more, even if it has not been closed yet.
        let open: Vec<&OpenCall> =
            self.open.values().filter(|call| !call.context.cancelled.is_cancelled()).collect();
        let candidates: Vec<&OpenCall> = match origin {
            Origin::Unknown => {
                elicits_unattributed.store(true, Ordering::SeqCst);
                open
            }
            Origin::Request(id) => {
                let named = open.iter().find(|call| match &call.request {
                    Some((request, _)) => request == id,
                    None => false,
                });
                if named.is_none() && open.iter().any(|call| call.request.is_none()) {
                    return None;
                }
                named.into_iter().copied().collect()
            }
        };
        let Some((newest, others)) = candidates.split_last() else { return Some(Err(Unroutable::NoCall)) };
        let context = newest.context.clone();
        if !others.iter().all(|call| call.is_of_chat(&context)) {
            for call in candidates {
                note_unanswered(&call.unanswered, Unanswered::SeveralChats);
            }
            return Some(Err(Unroutable::SeveralChats));
        }
        Some(Ok(ElicitationRoute {
            other_candidates: others.iter().map(|call| call.context.call.clone()).collect(),
            ended: candidates.iter().map(|call| call.ended.clone()).collect(),
            _pauses: candidates.iter().map(|call| call.context.pause()).collect(),
            unanswered: candidates.iter().map(|call| call.unanswered.clone()).collect(),
            context,
        }))
    }
}

/// Adds an entry, unless the list has it already: a server may elicit again and again.
fn note_unanswered(list: &UnansweredList, unanswered: Unanswered) {
    let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
    if !list.contains(&unanswered) {
        list.push(unanswered);
    }
}

// === impl ElicitationRoute ===

impl ElicitationRoute {
    /// Has all calls of the route say in their results that the elicitation was not answered.
    pub(crate) fn note_unanswered(&self, unanswered: &Unanswered) {
        for list in &self.unanswered {
            note_unanswered(list, unanswered.clone());
        }
    }

    /// Waits until all calls of the route have ended.
    pub(crate) async fn ended(&self) {
        for ended in &self.ended {
            ended.cancelled().await;
        }
    }
}

// === impl OpenCallGuard ===

impl OpenCallGuard {
    /// Registers the request of the call, which has been sent to the server. A call whose server asks something makes another request with
    /// the answer.
    pub(crate) fn register_request(&self, id: RequestId, token: ProgressToken) {
        let mut calls = self.calls.lock();
        let early_progress = calls.early_progress.remove(&token);
        if let Some(call) = calls.open.get_mut(&self.key) {
            call.request = Some((id, token));
            if let Some(progress) = early_progress {
                call.report_progress(&progress);
            }
        }
        calls.drop_early_progress();
        drop(calls);
        self.calls.changed.notify_waiters();
    }

    /// Returns the elicitations that may have belonged to the call and were not answered.
    pub(crate) fn unanswered(&self) -> Vec<Unanswered> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for OpenCallGuard {
    fn drop(&mut self) {
        let mut calls = self.calls.lock();
        calls.open.remove(&self.key);
        calls.drop_early_progress();
        drop(calls);
        self.calls.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
