//! The open calls of one connection: to whom its server's progress and questions belong.
//!
//! Invariant: a question finds a call only where it is beyond doubt whose it is.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fermata_tools::CallContext;
use rmcp::model::{ProgressNotificationParam, ProgressToken, RequestId};
use serde_json::{Map, Value};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NobodyToAsk {
    /// No call is open.
    #[error("no call of it is open")]
    NoCall,
    /// It could be any of several chats.
    #[error("its open calls are of more than one chat")]
    SeveralChats,
}

/// The open calls, by when they were opened.
#[derive(Default)]
pub(crate) struct OpenCalls(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    next: u64,
    open: BTreeMap<u64, OpenCall>,
}

struct OpenCall {
    context: CallContext,
    ended: CancellationToken,
    /// Known once the request is on its way.
    sent: Option<(RequestId, ProgressToken)>,
    /// How far it was when last heard of.
    progress: Option<f64>,
}

/// A call among the open ones, until it is dropped.
pub(crate) struct Place {
    calls: Arc<OpenCalls>,
    key: u64,
    _ended: DropGuard,
}

// === impl OpenCalls ===

impl OpenCalls {
    /// Adds a call.
    pub(crate) fn open(self: &Arc<Self>, context: CallContext) -> Place {
        let ended = CancellationToken::new();
        let mut calls = self.lock();
        let key = calls.next;
        calls.next += 1;
        calls.open.insert(key, OpenCall { context, ended: ended.clone(), sent: None, progress: None });
        Place { calls: self.clone(), key, _ended: ended.drop_guard() }
    }

    /// Whom a question is put to, and what ends when their call does.
    pub(crate) fn asked(&self, origin: &Origin) -> Result<(CallContext, CancellationToken), NobodyToAsk> {
        let calls = self.lock();
        let named = |call: &&OpenCall| match (origin, &call.sent) {
            (Origin::Request(id), Some((sent, _))) => id == sent,
            (Origin::Request(_) | Origin::Unknown, _) => false,
        };
        let whose = match calls.open.values().find(named) {
            Some(call) => call,
            None => calls.newest_of_the_only_chat(origin)?,
        };
        Ok((whose.context.clone(), whose.ended.clone()))
    }

    /// Shows how far a call is.
    pub(crate) fn progressed(&self, news: &ProgressNotificationParam) {
        let shown = {
            let mut calls = self.lock();
            let named = |call: &&mut OpenCall| {
                call.sent.as_ref().is_some_and(|(_, token)| *token == news.progress_token)
            };
            let Some(call) = calls.open.values_mut().find(named) else { return };
            // Notifications are handled side by side, so that an old one may come late.
            if call.progress.is_some_and(|latest| news.progress <= latest) {
                return;
            }
            call.progress = Some(news.progress);
            call.context.clone()
        };
        shown.report(progress(news));
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn progress(news: &ProgressNotificationParam) -> Value {
    let mut output = Map::from_iter([("progress".to_owned(), number(news.progress))]);
    output.extend(news.total.map(|total| ("total".to_owned(), number(total))));
    output.extend(news.message.clone().map(|message| ("message".to_owned(), message.into())));
    Value::Object(output)
}

/// A whole number without a fraction, as JavaScript writes it.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { Value::from(value as i64) } else { Value::from(value) }
}

// === impl Calls ===

impl Calls {
    fn newest_of_the_only_chat(&self, origin: &Origin) -> Result<&OpenCall, NobodyToAsk> {
        // A request that is named but not among those sent is over, unless one is just being sent.
        let over = matches!(origin, Origin::Request(_)) && self.open.values().all(|call| call.sent.is_some());
        let newest = self.open.values().next_back().filter(|_| !over).ok_or(NobodyToAsk::NoCall)?;
        let same_chat = |call: &OpenCall| {
            call.context.owner == newest.context.owner && call.context.chat == newest.context.chat
        };
        if self.open.values().all(same_chat) { Ok(newest) } else { Err(NobodyToAsk::SeveralChats) }
    }
}

// === impl Place ===

impl Place {
    /// The call is on its way to the server as this request.
    pub(crate) fn sent(&self, id: RequestId, token: ProgressToken) {
        if let Some(call) = self.calls.lock().open.get_mut(&self.key) {
            call.sent = Some((id, token));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.calls.lock().open.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use fermata_protocol::{ChatId, ToolCallId};
    use fermata_tools::{Elicitation, ElicitationReply, Owner, Surroundings};
    use serde_json::json;

    use super::*;

    fn context(owner: &str, chat: &str, call: &str) -> CallContext {
        CallContext::new(Owner::new(owner), ChatId::new(chat), ToolCallId::new(call))
    }

    fn sent(place: &Place, id: i64) {
        place.sent(RequestId::Number(id), ProgressToken(RequestId::Number(id)));
    }

    fn asked(calls: &OpenCalls, origin: &Origin) -> Result<String, NobodyToAsk> {
        calls.asked(origin).map(|(context, _)| context.call.to_string())
    }

    #[test]
    fn a_question_belongs_to_the_newest_call_of_the_only_chat() {
        let calls = Arc::new(OpenCalls::default());
        assert_eq!(asked(&calls, &Origin::Unknown), Err(NobodyToAsk::NoCall));
        let _one = calls.open(context("ann", "chat", "a"));
        let two = calls.open(context("ann", "chat", "b"));
        assert_eq!(asked(&calls, &Origin::Unknown).as_deref(), Ok("b"));
        drop(two);
        assert_eq!(asked(&calls, &Origin::Unknown).as_deref(), Ok("a"));
    }

    #[test]
    fn a_question_that_may_be_of_two_chats_belongs_to_nobody() {
        let calls = Arc::new(OpenCalls::default());
        let _one = calls.open(context("ann", "chat", "a"));
        let other = calls.open(context("ann", "other", "b"));
        assert_eq!(asked(&calls, &Origin::Unknown), Err(NobodyToAsk::SeveralChats));
        drop(other);
        let _other = calls.open(context("bob", "chat", "b"));
        assert_eq!(asked(&calls, &Origin::Unknown), Err(NobodyToAsk::SeveralChats));
    }

    #[test]
    fn a_question_that_names_its_call_belongs_to_it() {
        let calls = Arc::new(OpenCalls::default());
        let one = calls.open(context("ann", "chat", "a"));
        let two = calls.open(context("bob", "other", "b"));
        sent(&one, 1);
        sent(&two, 2);
        assert_eq!(asked(&calls, &Origin::Request(RequestId::Number(1))).as_deref(), Ok("a"));
        drop(one);
        assert_eq!(asked(&calls, &Origin::Request(RequestId::Number(1))), Err(NobodyToAsk::NoCall));
    }

    #[test]
    fn the_end_of_a_call_is_seen_by_its_question() {
        let calls = Arc::new(OpenCalls::default());
        let place = calls.open(context("ann", "chat", "a"));
        let (_, ended) = calls.asked(&Origin::Unknown).unwrap();
        assert!(!ended.is_cancelled());
        drop(place);
        assert!(ended.is_cancelled());
    }

    /// Keeps what it is told.
    #[derive(Default)]
    struct Ears(Mutex<Vec<Value>>);

    #[async_trait::async_trait]
    impl Surroundings for Ears {
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
        let place = calls.open(context("ann", "chat", "a").heard_by(ears.clone()));
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

    #[test]
    fn progress_says_no_more_than_the_server_did() {
        let news = |progress| ProgressNotificationParam::new(ProgressToken(RequestId::Number(1)), progress);
        assert_eq!(progress(&news(1.0)).to_string(), r#"{"progress":1}"#);
        let mut more = news(0.5);
        more.total = Some(4.0);
        more.message = Some("reading".into());
        assert_eq!(progress(&more).to_string(), r#"{"progress":0.5,"total":4,"message":"reading"}"#);
    }
}
