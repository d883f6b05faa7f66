//! The open calls of one connection: to whom its server's progress and questions belong, and what spoilt an answer.
//!
//! Invariant: a question finds a call only where it is beyond doubt of whose chat it is.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
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

/// Where a question came from, as far as the transport tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It came with the answer to this request.
    Request(RequestId),
    /// Nothing says so.
    Unknown,
}

/// Why a question has no call to belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unroutable {
    /// No call is open.
    NoCall,
    /// It could be any of several chats.
    SeveralChats,
}

/// Why a question of a call has no answer of the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// It could have been of any of several chats, so nobody was asked.
    SeveralChats,
    /// For this reason, a sentence.
    Reason(String),
}

/// The open calls of one connection.
#[derive(Default)]
pub(crate) struct OpenCalls {
    calls: Mutex<CallTable>,
    /// Whether the server, on this connection or another, has asked something without saying for which call. From then on
    /// the calls that are open are of one chat. Read and set under the lock of `calls`.
    elicits_unattributed: Arc<AtomicBool>,
    /// A call was sent, or is no longer open.
    pub(crate) changed: Notify,
}

#[derive(Default)]
struct CallTable {
    next: u64,
    open: BTreeMap<u64, OpenCall>,
    /// Requests whose answers are more than is read.
    too_large: HashSet<RequestId>,
    /// The newest progress of requests that no call is known to have sent, while there are calls that may turn out to have.
    early: HashMap<ProgressToken, ProgressNotificationParam>,
}

/// As much of a message of progress as is shown, in bytes.
const LONGEST_MESSAGE: usize = 16_000;

/// The most requests whose early progress is kept.
const MOST_EARLY: usize = 1_000;

struct OpenCall {
    context: CallContext,
    ended: CancellationToken,
    /// Known once the request is on its way.
    sent: Option<(RequestId, ProgressToken)>,
    /// How far it was when last heard of.
    progress: Option<f64>,
    unanswered: Notes,
}

/// What became of questions that may be a call's, so that whoever reads its outcome is told.
type Notes = Arc<Mutex<Vec<Unanswered>>>;

/// Whom a question is put to.
pub(crate) struct ElicitationRoute {
    /// The call through which it is put.
    pub(crate) context: CallContext,
    /// Others that may be the one that asks.
    pub(crate) other_candidates: Vec<ToolCallId>,
    /// The ends of all of them.
    ended: Vec<CancellationToken>,
    /// Each of them may be waiting for the person.
    _pauses: Vec<Pause>,
    unanswered: Vec<Notes>,
}

/// A call among the open ones, until it is dropped.
pub(crate) struct OpenCallGuard {
    calls: Arc<OpenCalls>,
    key: u64,
    unanswered: Notes,
    _ended: DropGuard,
}

// === impl OpenCalls ===

impl OpenCalls {
    /// None yet. `asks`: whether the server has asked something without saying for which call.
    pub(crate) fn new(elicits_unattributed: Arc<AtomicBool>) -> Self {
        Self { elicits_unattributed, ..Self::default() }
    }

    /// Adds a call. `None` while the open ones are of another chat and the server is known to ask: its question would be
    /// nobody's.
    pub(crate) fn open(self: &Arc<Self>, context: CallContext) -> Option<OpenCallGuard> {
        let ended = CancellationToken::new();
        let mut calls = self.lock();
        if self.elicits_unattributed.load(Ordering::SeqCst)
            && calls.open.values().any(|call| !call.is_of_chat(&context))
        {
            return None;
        }
        let key = calls.next;
        calls.next += 1;
        let unanswered = Notes::default();
        let call = OpenCall {
            context,
            ended: ended.clone(),
            sent: None,
            progress: None,
            unanswered: unanswered.clone(),
        };
        calls.open.insert(key, call);
        Some(OpenCallGuard { calls: self.clone(), key, unanswered, _ended: ended.drop_guard() })
    }

    /// Whom a question is put to: the newest of the calls that may have asked it. It takes as long as calls are just being sent
    /// of which one may turn out to be named.
    ///
    /// # Errors
    /// There is none, or they are of several chats.
    pub(crate) async fn route_elicitation(&self, origin: &Origin) -> Result<ElicitationRoute, Unroutable> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on nothing is missed that happens after the look.
            changed.as_mut().enable();
            if let Some(found) = self.lock().route_elicitation(origin, &self.elicits_unattributed) {
                return found;
            }
            changed.await;
        }
    }

    /// Shows how far a call is. A report that is not further than the last one is dropped.
    pub(crate) fn progressed(&self, news: &ProgressNotificationParam) {
        let mut calls = self.lock();
        let named =
            |call: &&mut OpenCall| call.sent.as_ref().is_some_and(|(_, token)| *token == news.progress_token);
        // The lock is held until the report has been handed on, because a newer one must not overtake it.
        match calls.open.values_mut().find(named) {
            Some(call) => call.progressed(news),
            None => calls.keep_early(news),
        }
    }

    /// The answer to the request of a call is more than is read. The library only says that none came.
    pub(crate) fn too_large(&self, id: RequestId) {
        let mut calls = self.lock();
        // That may be known before it is known whose request it is.
        let may_be = |call: &OpenCall| call.sent.as_ref().is_none_or(|(sent, _)| *sent == id);
        if calls.open.values().any(may_be) {
            calls.too_large.insert(id);
        }
        drop(calls);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, CallTable> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn progress(news: &ProgressNotificationParam) -> Value {
    let mut output = Map::from_iter([("progress".to_owned(), number(news.progress))]);
    output.extend(news.total.map(|total| ("total".to_owned(), number(total))));
    output.extend(news.message.as_deref().map(|message| {
        let end = message.floor_char_boundary(LONGEST_MESSAGE);
        ("message".to_owned(), message[..end].into())
    }));
    Value::Object(output)
}

/// A whole number without a fraction, as JavaScript writes it.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { Value::from(value as i64) } else { Value::from(value) }
}

// === impl OpenCall ===

impl OpenCall {
    fn is_of_chat(&self, context: &CallContext) -> bool {
        self.context.owner == context.owner && self.context.chat == context.chat
    }

    fn progressed(&mut self, news: &ProgressNotificationParam) {
        // Notifications are handled side by side, so that an old one may come late.
        if self.progress.is_none_or(|latest| news.progress > latest) {
            self.progress = Some(news.progress);
            self.context.report(progress(news));
        }
    }
}

// === impl CallTable ===

impl CallTable {
    /// A server may be faster than the task that has sent it the request.
    fn keep_early(&mut self, news: &ProgressNotificationParam) {
        let may_be_of_a_call = self.open.values().any(|call| call.sent.is_none());
        let is_newest =
            self.early.get(&news.progress_token).is_none_or(|known| news.progress > known.progress);
        if may_be_of_a_call && is_newest && self.early.len() < MOST_EARLY {
            self.early.insert(news.progress_token.clone(), news.clone());
        }
    }

    /// What comes early is only kept for calls that may have asked for it.
    fn forget_early(&mut self) {
        if self.open.values().all(|call| call.sent.is_some()) {
            self.early = HashMap::new();
        }
    }

    /// As [`OpenCalls::asker`]; `None` if it cannot be told before a call has been sent.
    fn route_elicitation(
        &self,
        origin: &Origin,
        elicits_unattributed: &AtomicBool,
    ) -> Option<Result<ElicitationRoute, Unroutable>> {
        // One that was cancelled is over for all others, even while it winds up.
        let open: Vec<&OpenCall> =
            self.open.values().filter(|call| !call.context.cancelled.is_cancelled()).collect();
        let may_ask = match origin {
            Origin::Unknown => {
                elicits_unattributed.store(true, Ordering::SeqCst);
                open
            }
            Origin::Request(id) => {
                let named = |call: &&OpenCall| call.sent.as_ref().is_some_and(|(sent, _)| sent == id);
                let found = open.iter().copied().find(named);
                if found.is_none() && open.iter().any(|call| call.sent.is_none()) {
                    return None;
                }
                found.into_iter().collect()
            }
        };
        let Some((newest, others)) = may_ask.split_last() else { return Some(Err(Unroutable::NoCall)) };
        let context = newest.context.clone();
        if !others.iter().all(|call| call.is_of_chat(&context)) {
            for call in may_ask {
                note(&call.unanswered, Unanswered::SeveralChats);
            }
            return Some(Err(Unroutable::SeveralChats));
        }
        Some(Ok(ElicitationRoute {
            other_candidates: others.iter().map(|call| call.context.call.clone()).collect(),
            ended: may_ask.iter().map(|call| call.ended.clone()).collect(),
            _pauses: may_ask.iter().map(|call| call.context.pause()).collect(),
            unanswered: may_ask.iter().map(|call| call.unanswered.clone()).collect(),
            context,
        }))
    }
}

fn note(notes: &Notes, unanswered: Unanswered) {
    let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
    // A server may ask again and again.
    if !notes.contains(&unanswered) {
        notes.push(unanswered);
    }
}

// === impl ElicitationRoute ===

impl ElicitationRoute {
    /// Has the calls that may have asked tell that nobody answered.
    pub(crate) fn note(&self, unanswered: &Unanswered) {
        for notes in &self.unanswered {
            note(notes, unanswered.clone());
        }
    }

    /// Waits until no call is left that may have asked.
    pub(crate) async fn ended(&self) {
        for ended in &self.ended {
            ended.cancelled().await;
        }
    }
}

// === impl OpenCallGuard ===

impl OpenCallGuard {
    /// The call is on its way to the server as this request.
    pub(crate) fn sent(&self, id: RequestId, token: ProgressToken) {
        let mut calls = self.calls.lock();
        let early = calls.early.remove(&token);
        if let Some(call) = calls.open.get_mut(&self.key) {
            call.sent = Some((id, token));
            if let Some(news) = early {
                call.progressed(&news);
            }
        }
        calls.forget_early();
        drop(calls);
        self.calls.changed.notify_waiters();
    }

    /// What became of questions that may have been its own and that nobody answered.
    pub(crate) fn unanswered(&self) -> Vec<Unanswered> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until its answer has turned out to be more than is read.
    pub(crate) async fn too_large(&self) {
        loop {
            let changed = self.calls.changed.notified();
            tokio::pin!(changed);
            // From here on nothing is missed that happens after the look.
            changed.as_mut().enable();
            if self.answer_is_too_large() {
                return;
            }
            changed.await;
        }
    }

    /// Whether its answer was more than is read.
    pub(crate) fn answer_is_too_large(&self) -> bool {
        let calls = self.calls.lock();
        let sent = calls.open.get(&self.key).and_then(|call| call.sent.as_ref());
        sent.is_some_and(|(id, _)| calls.too_large.contains(id))
    }
}

impl Drop for OpenCallGuard {
    fn drop(&mut self) {
        let mut calls = self.calls.lock();
        if let Some((id, _)) = calls.open.remove(&self.key).and_then(|call| call.sent) {
            calls.too_large.remove(&id);
        }
        calls.forget_early();
        drop(calls);
        self.calls.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use fermata_protocol::ChatId;
    use fermata_tools::{Elicitation, ElicitationReply, Owner, ToolHost};
    use futures::FutureExt;
    use serde_json::json;

    use super::*;

    fn context(owner: &str, chat: &str, call: &str) -> CallContext {
        CallContext::new(Owner::new(owner), ChatId::new(chat), ToolCallId::new(call))
    }

    fn sent(place: &OpenCallGuard, id: i64) {
        place.sent(RequestId::Number(id), ProgressToken(RequestId::Number(id)));
    }

    fn asker(calls: &OpenCalls, origin: &Origin) -> Result<ElicitationRoute, Unroutable> {
        calls.route_elicitation(origin).now_or_never().expect("it can be told at once")
    }

    fn asked(calls: &OpenCalls, origin: &Origin) -> Result<String, Unroutable> {
        asker(calls, origin).map(|asker| asker.context.call.to_string())
    }

    #[test]
    fn a_question_belongs_to_the_newest_call_of_the_only_chat() {
        let calls = Arc::new(OpenCalls::default());
        assert_eq!(asked(&calls, &Origin::Unknown), Err(Unroutable::NoCall));
        let _one = calls.open(context("ann", "chat", "a")).unwrap();
        let two = calls.open(context("ann", "chat", "b")).unwrap();
        assert_eq!(asked(&calls, &Origin::Unknown).as_deref(), Ok("b"));
        drop(two);
        assert_eq!(asked(&calls, &Origin::Unknown).as_deref(), Ok("a"));
    }

    #[test]
    fn a_question_that_may_be_of_two_chats_belongs_to_nobody_and_both_are_told() {
        for (owner, chat) in [("ann", "other"), ("bob", "chat")] {
            let calls = Arc::new(OpenCalls::default());
            let one = calls.open(context("ann", "chat", "a")).unwrap();
            let other = calls.open(context(owner, chat, "b")).unwrap();
            assert_eq!(asked(&calls, &Origin::Unknown), Err(Unroutable::SeveralChats));
            assert_eq!(asked(&calls, &Origin::Unknown), Err(Unroutable::SeveralChats));
            for place in [&one, &other] {
                assert_eq!(place.unanswered(), [Unanswered::SeveralChats]);
            }
        }
    }

    #[test]
    fn once_the_server_has_asked_the_open_calls_are_of_one_chat() {
        let calls = Arc::new(OpenCalls::default());
        let one = calls.open(context("ann", "chat", "a")).unwrap();
        let two = calls.open(context("ann", "chat", "b")).unwrap();
        assert_eq!(asked(&calls, &Origin::Unknown).as_deref(), Ok("b"));
        assert!(calls.open(context("ann", "other", "c")).is_none());
        assert!(calls.open(context("bob", "chat", "c")).is_none());
        let three = calls.open(context("ann", "chat", "c")).expect("the same chat");
        let mut changed = Box::pin(calls.changed.notified());
        assert!(changed.as_mut().now_or_never().is_none());
        drop((one, two, three));
        assert!(changed.now_or_never().is_some(), "who waits looks again");
        assert!(calls.open(context("bob", "chat", "c")).is_some());
    }

    #[test]
    fn a_question_that_names_its_call_leaves_the_others_alone() {
        let calls = Arc::new(OpenCalls::default());
        let one = calls.open(context("ann", "chat", "a")).unwrap();
        sent(&one, 1);
        assert_eq!(asked(&calls, &Origin::Request(RequestId::Number(1))).as_deref(), Ok("a"));
        assert!(calls.open(context("bob", "other", "b")).is_some());
    }

    #[test]
    fn a_question_waits_for_the_call_that_it_names_to_be_sent() {
        let calls = Arc::new(OpenCalls::default());
        let one = calls.open(context("ann", "chat", "a")).unwrap();
        let two = calls.open(context("bob", "other", "b")).unwrap();
        let origin = Origin::Request(RequestId::Number(2));
        let mut asker = Box::pin(calls.route_elicitation(&origin));
        assert!(asker.as_mut().now_or_never().is_none(), "it may be of either");
        sent(&one, 1);
        assert!(asker.as_mut().now_or_never().is_none());
        sent(&two, 2);
        let found = asker.now_or_never().expect("the call is known").unwrap();
        assert_eq!(found.context.call.as_str(), "b");
    }

    #[test]
    fn a_question_that_names_its_call_belongs_to_it() {
        let calls = Arc::new(OpenCalls::default());
        let one = calls.open(context("ann", "chat", "a")).unwrap();
        let two = calls.open(context("bob", "other", "b")).unwrap();
        sent(&one, 1);
        sent(&two, 2);
        assert_eq!(asked(&calls, &Origin::Request(RequestId::Number(1))).as_deref(), Ok("a"));
        drop(one);
        assert_eq!(asked(&calls, &Origin::Request(RequestId::Number(1))), Err(Unroutable::NoCall));
    }

    #[test]
    fn a_question_that_may_be_of_several_calls_names_them_all() {
        let calls = Arc::new(OpenCalls::default());
        let one = calls.open(context("ann", "chat", "a")).unwrap();
        let _two = calls.open(context("ann", "chat", "b")).unwrap();
        let _three = calls.open(context("ann", "chat", "c")).unwrap();
        let other_candidates = |origin| asker(&calls, &origin).unwrap().other_candidates;
        assert_eq!(other_candidates(Origin::Unknown), [ToolCallId::new("a"), ToolCallId::new("b")]);
        sent(&one, 1);
        assert_eq!(other_candidates(Origin::Request(RequestId::Number(1))), []);
    }

    #[test]
    fn a_question_is_not_put_through_a_call_that_was_cancelled() {
        let calls = Arc::new(OpenCalls::default());
        let _one = calls.open(context("ann", "chat", "a")).unwrap();
        let cancelled = context("ann", "chat", "b");
        cancelled.cancelled.cancel();
        let _two = calls.open(cancelled).unwrap();
        assert_eq!(asked(&calls, &Origin::Unknown).as_deref(), Ok("a"));
    }

    #[test]
    fn a_question_ends_with_the_last_call_that_may_have_asked_it() {
        let calls = Arc::new(OpenCalls::default());
        let one = calls.open(context("ann", "chat", "a")).unwrap();
        let two = calls.open(context("ann", "chat", "b")).unwrap();
        let asker = asker(&calls, &Origin::Unknown).unwrap();
        drop(two);
        assert_eq!(asker.ended().now_or_never(), None);
        drop(one);
        assert_eq!(asker.ended().now_or_never(), Some(()));
    }

    #[test]
    fn an_answer_that_is_too_large_is_known_to_its_call_alone() {
        let calls = Arc::new(OpenCalls::default());
        let (one, two) = (
            calls.open(context("ann", "chat", "a")).unwrap(),
            calls.open(context("ann", "chat", "b")).unwrap(),
        );
        sent(&two, 2);
        calls.too_large(RequestId::Number(1));
        sent(&one, 1);
        assert!(one.answer_is_too_large() && !two.answer_is_too_large());
        drop(one);
        calls.too_large(RequestId::Number(1));
        assert!(calls.lock().too_large.is_empty(), "nobody asks any more");
    }

    /// Keeps what it is told.
    #[derive(Default)]
    struct Ears(Mutex<Vec<Value>>);

    #[async_trait::async_trait]
    impl ToolHost for Ears {
        fn report(&self, _: &ToolCallId, output: Value) {
            self.0.lock().unwrap().push(output);
        }

        async fn elicit(&self, _: &ToolCallId, _: Elicitation) -> ElicitationReply {
            ElicitationReply::Cancel
        }
    }

    #[test]
    fn progress_that_comes_late_is_not_shown() {
        let (calls, ears) = (Arc::new(OpenCalls::default()), Arc::new(Ears::default()));
        let place = calls.open(context("ann", "chat", "a").with_host(ears.clone())).unwrap();
        sent(&place, 1);
        let news = |token, progress| {
            calls.progressed(&ProgressNotificationParam::new(
                ProgressToken(RequestId::Number(token)),
                progress,
            ));
        };
        news(1, 2.0);
        news(1, 1.0);
        news(2, 9.0);
        news(1, 3.0);
        drop(place);
        news(1, 4.0);
        assert_eq!(*ears.0.lock().unwrap(), [json!({"progress": 2}), json!({"progress": 3})]);
    }

    /// Takes a report only after a newer one has been handled, if that can be.
    struct Slow {
        calls: Arc<OpenCalls>,
        shown: Mutex<Vec<Value>>,
    }

    #[async_trait::async_trait]
    impl ToolHost for Slow {
        fn report(&self, _: &ToolCallId, output: Value) {
            let is_free = self.calls.calls.try_lock().is_ok();
            if output["progress"] == 1 && is_free {
                self.calls.progressed(&first_call_is_at(2.0));
            }
            self.shown.lock().unwrap().push(output);
        }

        async fn elicit(&self, _: &ToolCallId, _: Elicitation) -> ElicitationReply {
            ElicitationReply::Cancel
        }
    }

    fn first_call_is_at(progress: f64) -> ProgressNotificationParam {
        ProgressNotificationParam::new(ProgressToken(RequestId::Number(1)), progress)
    }

    #[test]
    fn progress_on_its_way_is_not_overtaken_by_newer_progress() {
        let calls = Arc::new(OpenCalls::default());
        let slow = Arc::new(Slow { calls: calls.clone(), shown: Mutex::default() });
        let place = calls.open(context("ann", "chat", "a").with_host(slow.clone())).unwrap();
        sent(&place, 1);
        calls.progressed(&first_call_is_at(1.0));
        calls.progressed(&first_call_is_at(2.0));
        assert_eq!(*slow.shown.lock().unwrap(), [json!({"progress": 1}), json!({"progress": 2})]);
    }

    #[test]
    fn progress_that_comes_before_the_request_is_known_is_shown_when_it_is() {
        let (calls, ears) = (Arc::new(OpenCalls::default()), Arc::new(Ears::default()));
        let place = calls.open(context("ann", "chat", "a").with_host(ears.clone())).unwrap();
        calls.progressed(&first_call_is_at(4.0));
        calls.progressed(&first_call_is_at(5.0));
        calls.progressed(&first_call_is_at(3.0));
        sent(&place, 1);
        assert_eq!(*ears.0.lock().unwrap(), [json!({"progress": 5})]);
        calls.progressed(&first_call_is_at(5.0));
        calls.progressed(&first_call_is_at(6.0));
        assert_eq!(*ears.0.lock().unwrap(), [json!({"progress": 5}), json!({"progress": 6})]);
        drop(place);
        calls.progressed(&first_call_is_at(7.0));
        assert!(calls.lock().early.is_empty(), "no call is open that may have asked");
    }

    #[test]
    fn progress_says_no_more_than_the_server_did() {
        let news = |progress| ProgressNotificationParam::new(ProgressToken(RequestId::Number(1)), progress);
        assert_eq!(progress(&news(1.0)).to_string(), r#"{"progress":1}"#);
        let mut more = news(0.5);
        more.total = Some(4.0);
        more.message = Some("reading".into());
        assert_eq!(progress(&more).to_string(), r#"{"progress":0.5,"total":4,"message":"reading"}"#);
        more.message = Some("x".repeat(LONGEST_MESSAGE + 1));
        assert_eq!(progress(&more)["message"].as_str().map(str::len), Some(LONGEST_MESSAGE));
    }
}
