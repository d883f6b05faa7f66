//! Tests of how open calls get elicitations, progress and oversized responses.

use fermata_protocol::ChatId;
use fermata_tools::{Elicitation, ElicitationReply, Owner, ToolHost};
use futures::FutureExt;
use serde_json::json;

use super::*;

fn context(owner: &str, chat: &str, call: &str) -> CallContext {
    CallContext::new(Owner::new(owner), ChatId::new(chat), ToolCallId::new(call))
}

fn register(call: &OpenCallGuard, id: i64) {
    call.register_request(RequestId::Number(id), ProgressToken(RequestId::Number(id)));
}

fn route(calls: &OpenCalls, origin: &Origin) -> Result<ElicitationRoute, Unroutable> {
    calls.route_elicitation(origin).now_or_never().expect("no request is missing")
}

fn routed_call(calls: &OpenCalls, origin: &Origin) -> Result<String, Unroutable> {
    route(calls, origin).map(|route| route.context.call.to_string())
}

#[test]
fn an_elicitation_belongs_to_the_newest_call_of_the_only_chat() {
    let calls = Arc::new(OpenCalls::default());
    assert_eq!(routed_call(&calls, &Origin::Unknown), Err(Unroutable::NoCall));
    let _one = calls.open(context("ann", "chat", "a")).unwrap();
    let two = calls.open(context("ann", "chat", "b")).unwrap();
    assert_eq!(routed_call(&calls, &Origin::Unknown).as_deref(), Ok("b"));
    drop(two);
    assert_eq!(routed_call(&calls, &Origin::Unknown).as_deref(), Ok("a"));
}

#[test]
fn an_elicitation_that_may_be_of_two_chats_belongs_to_neither_and_both_note_it() {
    for (owner, chat) in [("ann", "other"), ("bob", "chat")] {
        let calls = Arc::new(OpenCalls::default());
        let one = calls.open(context("ann", "chat", "a")).unwrap();
        let other = calls.open(context(owner, chat, "b")).unwrap();
        assert_eq!(routed_call(&calls, &Origin::Unknown), Err(Unroutable::SeveralChats));
        assert_eq!(routed_call(&calls, &Origin::Unknown), Err(Unroutable::SeveralChats));
        for call in [&one, &other] {
            assert_eq!(call.unanswered(), [Unanswered::SeveralChats]);
        }
    }
}

#[test]
fn after_an_elicitation_without_an_origin_the_open_calls_are_of_one_chat() {
    let calls = Arc::new(OpenCalls::default());
    let one = calls.open(context("ann", "chat", "a")).unwrap();
    let two = calls.open(context("ann", "chat", "b")).unwrap();
    assert_eq!(routed_call(&calls, &Origin::Unknown).as_deref(), Ok("b"));
    assert!(calls.open(context("ann", "other", "c")).is_none());
    assert!(calls.open(context("bob", "chat", "c")).is_none());
    let three = calls.open(context("ann", "chat", "c")).expect("it is a call of that chat");
    let mut changed = Box::pin(calls.changed.notified());
    assert!(changed.as_mut().now_or_never().is_none());
    drop((one, two, three));
    assert!(changed.now_or_never().is_some(), "a waiting call looks again");
    assert!(calls.open(context("bob", "chat", "c")).is_some());
}

#[test]
fn an_elicitation_that_names_its_call_does_not_restrict_other_chats() {
    let calls = Arc::new(OpenCalls::default());
    let one = calls.open(context("ann", "chat", "a")).unwrap();
    register(&one, 1);
    assert_eq!(routed_call(&calls, &Origin::Request(RequestId::Number(1))).as_deref(), Ok("a"));
    assert!(calls.open(context("bob", "other", "b")).is_some());
}

#[test]
fn an_elicitation_waits_until_the_request_that_it_names_is_registered() {
    let calls = Arc::new(OpenCalls::default());
    let one = calls.open(context("ann", "chat", "a")).unwrap();
    let two = calls.open(context("bob", "other", "b")).unwrap();
    let origin = Origin::Request(RequestId::Number(2));
    let mut route = Box::pin(calls.route_elicitation(&origin));
    assert!(route.as_mut().now_or_never().is_none(), "it may belong to either call");
    register(&one, 1);
    assert!(route.as_mut().now_or_never().is_none());
    register(&two, 2);
    let route = route.now_or_never().expect("the call is known").unwrap();
    assert_eq!(route.context.call.as_str(), "b");
}

#[test]
fn an_elicitation_that_names_its_call_belongs_to_it() {
    let calls = Arc::new(OpenCalls::default());
    let one = calls.open(context("ann", "chat", "a")).unwrap();
    let two = calls.open(context("bob", "other", "b")).unwrap();
    register(&one, 1);
    register(&two, 2);
    assert_eq!(routed_call(&calls, &Origin::Request(RequestId::Number(1))).as_deref(), Ok("a"));
    drop(one);
    assert_eq!(routed_call(&calls, &Origin::Request(RequestId::Number(1))), Err(Unroutable::NoCall));
}

#[test]
fn an_elicitation_that_may_be_of_several_calls_names_them_all() {
    let calls = Arc::new(OpenCalls::default());
    let one = calls.open(context("ann", "chat", "a")).unwrap();
    let _two = calls.open(context("ann", "chat", "b")).unwrap();
    let _three = calls.open(context("ann", "chat", "c")).unwrap();
    let other_candidates = |origin| route(&calls, &origin).unwrap().other_candidates;
    assert_eq!(other_candidates(Origin::Unknown), [ToolCallId::new("a"), ToolCallId::new("b")]);
    register(&one, 1);
    assert_eq!(other_candidates(Origin::Request(RequestId::Number(1))), []);
}

#[test]
fn an_elicitation_is_not_routed_to_a_cancelled_call() {
    let calls = Arc::new(OpenCalls::default());
    let _one = calls.open(context("ann", "chat", "a")).unwrap();
    let cancelled = context("ann", "chat", "b");
    cancelled.cancelled.cancel();
    let _two = calls.open(cancelled).unwrap();
    assert_eq!(routed_call(&calls, &Origin::Unknown).as_deref(), Ok("a"));
}

#[test]
fn an_elicitation_ends_with_the_last_call_that_it_may_belong_to() {
    let calls = Arc::new(OpenCalls::default());
    let one = calls.open(context("ann", "chat", "a")).unwrap();
    let two = calls.open(context("ann", "chat", "b")).unwrap();
    let route = route(&calls, &Origin::Unknown).unwrap();
    drop(two);
    assert_eq!(route.ended().now_or_never(), None);
    drop(one);
    assert_eq!(route.ended().now_or_never(), Some(()));
}

/// Keeps the reports.
#[derive(Default)]
struct RecordingHost(Mutex<Vec<Value>>);

#[async_trait::async_trait]
impl ToolHost for RecordingHost {
    fn report(&self, _: &ToolCallId, output: Value) {
        self.0.lock().unwrap().push(output);
    }

    async fn elicit(&self, _: &ToolCallId, _: Elicitation) -> ElicitationReply {
        ElicitationReply::Cancel
    }
}

#[test]
fn late_progress_is_not_reported() {
    let (calls, host) = (Arc::new(OpenCalls::default()), Arc::new(RecordingHost::default()));
    let call = calls.open(context("ann", "chat", "a").with_host(host.clone())).unwrap();
    register(&call, 1);
    let report = |token, progress| {
        calls.report_progress(&ProgressNotificationParam::new(
            ProgressToken(RequestId::Number(token)),
            progress,
        ));
    };
    report(1, 2.0);
    report(1, 1.0);
    report(2, 9.0);
    report(1, 3.0);
    drop(call);
    report(1, 4.0);
    assert_eq!(*host.0.lock().unwrap(), [json!({"progress": 2}), json!({"progress": 3})]);
}

/// Has newer progress handled before it keeps a report, if the lock allows it.
struct SlowHost {
    calls: Arc<OpenCalls>,
    shown: Mutex<Vec<Value>>,
}

#[async_trait::async_trait]
impl ToolHost for SlowHost {
    fn report(&self, _: &ToolCallId, output: Value) {
        let is_free = self.calls.calls.try_lock().is_ok();
        if output["progress"] == 1 && is_free {
            self.calls.report_progress(&progress_of_first_call(2.0));
        }
        self.shown.lock().unwrap().push(output);
    }

    async fn elicit(&self, _: &ToolCallId, _: Elicitation) -> ElicitationReply {
        ElicitationReply::Cancel
    }
}

fn progress_of_first_call(progress: f64) -> ProgressNotificationParam {
    ProgressNotificationParam::new(ProgressToken(RequestId::Number(1)), progress)
}

#[test]
fn progress_on_its_way_is_not_overtaken_by_newer_progress() {
    let calls = Arc::new(OpenCalls::default());
    let host = Arc::new(SlowHost { calls: calls.clone(), shown: Mutex::default() });
    let call = calls.open(context("ann", "chat", "a").with_host(host.clone())).unwrap();
    register(&call, 1);
    calls.report_progress(&progress_of_first_call(1.0));
    calls.report_progress(&progress_of_first_call(2.0));
    assert_eq!(*host.shown.lock().unwrap(), [json!({"progress": 1}), json!({"progress": 2})]);
}

#[test]
fn progress_before_the_request_is_registered_is_reported_afterwards() {
    let (calls, host) = (Arc::new(OpenCalls::default()), Arc::new(RecordingHost::default()));
    let call = calls.open(context("ann", "chat", "a").with_host(host.clone())).unwrap();
    calls.report_progress(&progress_of_first_call(4.0));
    calls.report_progress(&progress_of_first_call(5.0));
    calls.report_progress(&progress_of_first_call(3.0));
    register(&call, 1);
    assert_eq!(*host.0.lock().unwrap(), [json!({"progress": 5})]);
    calls.report_progress(&progress_of_first_call(5.0));
    calls.report_progress(&progress_of_first_call(6.0));
    assert_eq!(*host.0.lock().unwrap(), [json!({"progress": 5}), json!({"progress": 6})]);
    drop(call);
    calls.report_progress(&progress_of_first_call(7.0));
    assert!(calls.lock().early_progress.is_empty(), "no call is open that may have sent the token");
}

#[test]
fn progress_has_only_the_fields_that_the_server_sent() {
    assert_eq!(progress_output(&progress_of_first_call(1.0)).to_string(), r#"{"progress":1}"#);
    let mut more = progress_of_first_call(0.5);
    more.total = Some(4.0);
    more.message = Some("reading".into());
    assert_eq!(progress_output(&more).to_string(), r#"{"progress":0.5,"total":4,"message":"reading"}"#);
    more.message = Some("x".repeat(MAX_PROGRESS_MESSAGE + 1));
    assert_eq!(progress_output(&more)["message"].as_str().map(str::len), Some(MAX_PROGRESS_MESSAGE));
}
