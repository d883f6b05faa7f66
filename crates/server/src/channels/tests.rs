//! Channels against services on this machine, and a desk with approvals that a test sets.

use std::{collections::BTreeMap, sync::Mutex};

use axum::{
    Router,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    routing::any,
};
use fermata_engine::{
    ApprovalState, Deciding, Settled,
    store::{Change, ChatStore as _, InstanceId, Version},
};
use fermata_protocol::{ChatId, JsonText, MessageId, Profile, RunId, ToolCallId};
use fermata_store::SqlStore;
use fermata_tools::{ApprovalRequest, Approver, Call, DecisionChannel, Owner, RunBy, input_hash};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::config::{Endpoint, SigningSecret, Url as SettingUrl};

/// Approvals that one kind of principals may decide. It notes the votes.
#[derive(Default)]
pub struct FakeDesk {
    approvals: Mutex<BTreeMap<ApprovalId, Approval>>,
    pub votes: Mutex<Vec<(Decider, PostedVote)>>,
}

/// A service that answers every request alike, and hands the requests to the test.
pub struct Service {
    pub url: String,
    requests: mpsc::UnboundedReceiver<(HeaderMap, Bytes)>,
    paths: Arc<Mutex<Vec<String>>>,
}

pub type Answer = (StatusCode, &'static str);

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

pub fn approval(by: &[Approver]) -> Approval {
    let input: JsonText = json!({"order": 7, "amount": 120}).into();
    Approval {
        id: ApprovalId::new("appr_1"),
        state: ApprovalState::Waiting,
        tool: "refund".into(),
        title: Some("Refund an order".into()),
        server: None,
        description: Some("Refund 120 € for order 7".into()),
        details: None,
        input_text: input.to_string(),
        input_hash: input_hash(&input),
        input,
        reason: Some("Refunds over 100 € need finance.".into()),
        requested_by: Owner::new("dave"),
        requested_at: Timestamp::from_second(1_700_000_000).expect("a time"),
        expires_at: None,
        decision: Deciding {
            by: by.to_vec(),
            quorum: 1,
            not_requester: true,
            approved_by: Vec::new(),
            may_decide: None,
        },
        chat: None,
        settled: None,
    }
}

pub fn notice(channel: &str, event: NoticeEvent, approval: &Approval) -> Notice {
    Notice {
        id: "ntc_1".into(),
        channel: channel.into(),
        event,
        at: approval.requested_at,
        approval: Some(approval.id.clone()),
        data: serde_json::to_value(approval).expect("JSON"),
    }
}

// === impl FakeDesk ===

impl FakeDesk {
    pub fn with(approval: Approval) -> Self {
        let desk = Self::default();
        desk.put(approval);
        desk
    }

    pub fn put(&self, approval: Approval) {
        self.approvals.lock().expect("no panic").insert(approval.id.clone(), approval);
    }

    fn may_decide(principal: &Principal, approval: &Approval) -> bool {
        approval.decision.by.iter().any(|approver| match approver {
            Approver::User(name) => !principal.is_channel && name.matches(principal.user.as_str()),
            Approver::Group(name) => principal.groups.iter().any(|group| name.matches(group)),
            Approver::Channel(name) => *principal == Principal::channel(name),
            Approver::Requester => principal.is_user(&approval.requested_by),
        })
    }
}

#[async_trait]
impl ApprovalDesk for FakeDesk {
    async fn approval(&self, id: &ApprovalId) -> Result<Option<Approval>, DeskError> {
        Ok(self.approvals.lock().expect("no panic").get(id).cloned())
    }

    async fn approval_for(
        &self,
        principal: &Principal,
        id: &ApprovalId,
    ) -> Result<Option<Approval>, DeskError> {
        let Some(mut approval) = self.approval(id).await? else { return Ok(None) };
        let may_decide = Self::may_decide(principal, &approval);
        if !may_decide && !principal.is_user(&approval.requested_by) {
            return Ok(None);
        }
        approval.decision.may_decide = Some(may_decide && approval.state == ApprovalState::Waiting);
        Ok(Some(approval))
    }

    async fn approval_for_deciders(
        &self,
        principals: &[Principal],
        id: &ApprovalId,
    ) -> Result<Vec<Option<Approval>>, DeskError> {
        let mut seen = Vec::new();
        for principal in principals {
            let approval = self.approval_for(principal, id).await?;
            let is_asked = |approval: &Approval| {
                let Deciding { may_decide, approved_by, .. } = &approval.decision;
                *may_decide == Some(true) && !approved_by.contains(&principal.user)
            };
            seen.push(approval.filter(is_asked));
        }
        Ok(seen)
    }

    async fn vote(&self, by: Decider, id: &ApprovalId, vote: PostedVote) -> Result<Approval, VoteError> {
        let mut approvals = self.approvals.lock().expect("no panic");
        let Some(approval) = approvals.get_mut(id) else { return Err(VoteError::NotFound) };
        if approval.state != ApprovalState::Waiting {
            return Err(VoteError::AlreadyAnswered(Box::new(approval.clone())));
        }
        if !Self::may_decide(&by.by, approval) {
            return Err(VoteError::NotYours(format!("{} may not decide.", by.by.user)));
        }
        if vote.input_hash.as_ref().is_some_and(|hash| *hash != approval.input_hash) {
            return Err(VoteError::Changed(Box::new(approval.clone())));
        }
        approval.state = if vote.approved { ApprovalState::Approved } else { ApprovalState::Denied };
        approval.settled = Some(Settled {
            by: Some(by.by.user.clone()),
            at: approval.requested_at,
            channel: Some(by.how),
            reason: vote.reason.clone(),
        });
        self.votes.lock().expect("no panic").push((by, vote));
        Ok(approval.clone())
    }
}

// === impl Service ===

impl Service {
    pub async fn start(answer: Answer) -> Self {
        let (sending, requests) = mpsc::unbounded_channel();
        let paths: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = paths.clone();
        let answering = async move |uri: Uri, headers: HeaderMap, body: Bytes| {
            noted.lock().expect("no panic").push(uri.path().to_owned());
            let _ = sending.send((headers, body));
            let location = [(header::LOCATION, HeaderValue::from_static("/elsewhere"))];
            (answer.0, location, answer.1)
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
        let router = Router::new().fallback(any(answering));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, requests, paths }
    }

    /// Returns the only request that has come, if there was one.
    pub fn request(&mut self) -> Option<(HeaderMap, Bytes)> {
        let request = self.requests.try_recv().ok();
        assert!(self.requests.try_recv().is_err(), "there was more than one request");
        request
    }
}

impl Service {
    /// Returns the path and the JSON of each request that has come.
    pub fn take(&mut self) -> Vec<(String, Value)> {
        let paths = std::mem::take(&mut *self.paths.lock().expect("no panic"));
        let mut taken = Vec::new();
        for path in paths {
            let (_, body) = self.requests.try_recv().expect("as many as there are paths");
            taken.push((path, serde_json::from_slice(&body).expect("JSON")));
        }
        taken
    }
}

/// Returns the records of a database in memory that has the call of [`approval`].
pub async fn records() -> ChannelRecords {
    let store = SqlStore::open("sqlite::memory:").await.expect("a store");
    let asked = approval(&[]);
    let (run, by, at) = (RunId::new("r"), asked.requested_by.clone(), asked.requested_at);
    let mut call = Call::new(ToolCallId::new("call"), 1, asked.tool, Some(RunBy::Server), at);
    call.approval_request = Some(ApprovalRequest::new(asked.id, by.clone().into(), None, at));
    let changes = [
        Change::CreateChat { owner: by, profile: Profile::V6 },
        Change::OpenRun { run: run.clone(), message: MessageId::new("m"), owner: InstanceId::new("one") },
        Change::PutCall { run, call: Box::new(call) },
    ];
    let version = Version(1);
    store.commit(&ChatId::new("c"), Version::NONE, version, at, changes.into()).await.expect("a commit");
    store.channel_records()
}

fn endpoint(url: &str) -> Endpoint {
    Endpoint { url: SettingUrl(url.to_owned()), secrets: vec![secret()] }
}

fn secret() -> SigningSecret {
    SigningSecret::try_from(SECRET.to_owned()).expect("a secret")
}

fn webhook(url: &str) -> Webhook {
    Webhook::new(endpoint(url), WebClient::private().expect("TLS"))
}

fn service(url: &str) -> DecidingService {
    DecidingService::new("risk", endpoint(url), WebClient::private().expect("TLS"))
}

fn of_risk() -> Approval {
    approval(&[Approver::Channel("risk".into())])
}

#[tokio::test]
async fn a_webhook_sends_the_event_signed() {
    let mut ops = Service::start((StatusCode::NO_CONTENT, "")).await;
    let event = notice("ops", NoticeEvent::ApprovalRequested, &of_risk());
    webhook(&ops.url).send(&event, &FakeDesk::default()).await.expect("it is sent");
    let (headers, body) = ops.request().expect("a request");
    assert_eq!(headers["webhook-id"], "ntc_1");
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(signature::verify(&[secret()], &headers, Timestamp::now(), &body), Ok(()));
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!((&body["type"], &body["data"]["id"]), (&json!("approval.requested"), &json!("appr_1")));
    assert_eq!(body["timestamp"], "2023-11-14T22:13:20Z");
    assert_eq!(body["data"]["decision"].get("mayDecide"), None);
}

#[tokio::test]
async fn a_webhook_tells_failures_apart() {
    let event = notice("ops", NoticeEvent::ApprovalRequested, &of_risk());
    for status in [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::NOT_FOUND, StatusCode::FOUND] {
        let mut ops = Service::start((status, "")).await;
        let failure = webhook(&ops.url).send(&event, &FakeDesk::default()).await;
        assert_eq!(failure, Err(SendError::Failed(format!("the endpoint answered {status}"))));
        ops.request().expect("one request, because redirects are not followed");
    }
}

#[tokio::test]
async fn an_endpoint_that_is_gone_gets_nothing_more() {
    let mut ops = Service::start((StatusCode::GONE, "")).await;
    let (webhook, desk) = (webhook(&ops.url), FakeDesk::default());
    let event = notice("ops", NoticeEvent::ApprovalRequested, &of_risk());
    let first = webhook.send(&event, &desk).await;
    assert!(matches!(first, Err(SendError::Refused(_))), "{first:?}");
    ops.request().expect("a request");
    assert_eq!(webhook.send(&event, &desk).await, first);
    assert!(ops.request().is_none());
}

#[tokio::test]
async fn a_private_address_is_refused_unless_the_channel_is_private() {
    let mut ops = Service::start((StatusCode::OK, "")).await;
    let event = notice("ops", NoticeEvent::ApprovalRequested, &of_risk());
    let port = ops.url.rsplit(':').next().expect("a port").to_owned();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "10.0.0.1", "169.254.169.254"] {
        let public = WebClient::new().expect("TLS");
        let webhook = Webhook::new(endpoint(&format!("http://{host}:{port}")), public);
        let refused = webhook.send(&event, &FakeDesk::default()).await;
        assert!(matches!(refused, Err(SendError::Refused(_))), "{host}: {refused:?}");
    }
    assert!(ops.request().is_none());
    let url = format!("http://localhost:{port}");
    webhook(&url).send(&event, &FakeDesk::default()).await.expect("the channel is private");
    ops.request().expect("a request");
}

#[tokio::test]
async fn the_answer_of_a_decider_is_the_vote_of_its_channel() {
    let mut risk = Service::start((StatusCode::OK, r#"{"approved": false, "reason": "too dear"}"#)).await;
    let asked = of_risk();
    let desk = FakeDesk::with(asked.clone());
    service(&risk.url)
        .send(&notice("risk", NoticeEvent::ApprovalRequested, &asked), &desk)
        .await
        .expect("an answer");
    let (headers, body) = risk.request().expect("a request");
    assert_eq!(signature::verify(&[secret()], &headers, Timestamp::now(), &body), Ok(()));
    let [(by, vote)] = &desk.votes.lock().expect("no panic")[..] else { panic!("one vote") };
    assert_eq!((&by.by, by.how), (&Principal::channel("risk"), DecisionChannel::Decider));
    assert_eq!((vote.approved, vote.reason.as_deref()), (false, Some("too dear")));
    assert_eq!(vote.input_hash, Some(asked.input_hash));
}

#[tokio::test]
async fn a_decider_that_does_not_answer_has_not_voted() {
    let asked = of_risk();
    for (answer, is_over) in [
        ((StatusCode::ACCEPTED, ""), true),
        ((StatusCode::OK, ""), false),
        ((StatusCode::OK, r#"{"approved": "yes"}"#), false),
        ((StatusCode::BAD_GATEWAY, r#"{"approved": true}"#), false),
    ] {
        let risk = Service::start(answer).await;
        let desk = FakeDesk::with(asked.clone());
        let event = notice("risk", NoticeEvent::ApprovalRequested, &asked);
        assert_eq!(service(&risk.url).send(&event, &desk).await.is_ok(), is_over, "{answer:?}");
        assert!(desk.votes.lock().expect("no panic").is_empty());
    }
}

#[tokio::test]
async fn a_decider_is_asked_only_about_what_waits_with_the_same_input() {
    let asked = of_risk();
    let settled = Approval { state: ApprovalState::Expired, ..asked.clone() };
    let edited = Approval { input_hash: "another".into(), ..asked.clone() };
    let mut risk = Service::start((StatusCode::OK, r#"{"approved": true}"#)).await;
    for (now, event) in [
        (Some(settled), NoticeEvent::ApprovalRequested),
        (Some(edited), NoticeEvent::ApprovalRequested),
        (None, NoticeEvent::ApprovalRequested),
        (Some(asked.clone()), NoticeEvent::ApprovalSettled),
    ] {
        let desk = now.map_or_else(FakeDesk::default, FakeDesk::with);
        service(&risk.url).send(&notice("risk", event, &asked), &desk).await.expect("nothing to ask");
        assert!(risk.request().is_none());
    }
}

#[tokio::test]
async fn a_decider_may_answer_later_with_a_signed_request() {
    let (risk, asked) = (service("http://127.0.0.1:1"), of_risk());
    let desk = FakeDesk::with(asked.clone());
    let body = json!({"approvalId": asked.id, "approved": true, "inputHash": asked.input_hash}).to_string();
    let headers =
        signature::sign(&[secret()], "later_1", Timestamp::now(), body.as_bytes()).expect("headers");
    let unsigned = Incoming { headers: HeaderMap::new(), body: body.clone().into(), address: None };
    assert!(matches!(risk.receive(unsigned, &desk).await, Err(ReceiveError::Unsigned(_))));
    let other =
        Incoming { headers: headers.clone(), body: body.replace("true", "false").into(), address: None };
    assert!(matches!(risk.receive(other, &desk).await, Err(ReceiveError::Unsigned(_))));
    assert!(desk.votes.lock().expect("no panic").is_empty());
    let signed = Incoming { headers, body: body.into(), address: None };
    let Ok(Reply::Approval(approval)) = risk.receive(signed.clone(), &desk).await else { panic!("a vote") };
    assert_eq!(approval.state, ApprovalState::Approved);
    let again = risk.receive(signed, &desk).await;
    assert!(matches!(again, Err(ReceiveError::Vote(VoteError::AlreadyAnswered(_)))), "{again:?}");
}

#[tokio::test]
async fn a_notice_that_one_receiver_may_still_get_is_sent_again() {
    let failed = || Err(SendError::Failed("later".into()));
    let refused = || Err(SendError::Refused("never".into()));
    for (results, expected) in [
        (vec![Ok(()), Ok(())], Ok(())),
        (vec![refused(), Ok(())], refused()),
        (vec![refused(), Ok(()), failed()], failed()),
        (vec![failed(), refused()], failed()),
    ] {
        let sending: Vec<Sending<'_>> =
            results.into_iter().map(|result| -> Sending<'_> { Box::pin(async { result }) }).collect();
        assert_eq!(send_all(sending).await, expected);
    }
}
