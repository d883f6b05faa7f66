//! Messages and clicks, with a stand-in for Slack on this machine.

use std::sync::Arc;

use aws_lc_rs::hmac;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use fermata_engine::ApprovalState;
use fermata_tools::{Approver, Pattern};
use url::form_urlencoded;

use super::*;
use crate::{
    channels::tests::{FakeDesk, Service, approval, notice, records},
    config::{Secret, Url as SettingUrl},
};

const SIGNING: &str = "a signing secret";

struct Setup {
    slack: Arc<Slack>,
    api: Service,
    desk: FakeDesk,
    asked: Approval,
}

impl Setup {
    async fn new() -> Self {
        let api = Service::start((StatusCode::OK, r#"{"ok": true, "channel": "C0123", "ts": "1.5"}"#)).await;
        let secret = |text: &str| Secret::try_from(text.to_owned()).expect("a secret");
        let settings = SlackSettings {
            token: secret("xoxb-token"),
            channel: "C0123".into(),
            signing_secret: secret(SIGNING),
            users: [("U1", "alice"), ("U2", "erin")].map(|(id, user)| (id.into(), user.into())).into(),
            base_url: SettingUrl(api.url.trim_end_matches("/hook").to_owned()),
        };
        let client = WebClient::private().expect("TLS");
        let slack = Slack::new("finance", settings, records().await, Shared::default(), client);
        let asked = approval(&[Approver::User(Pattern::new("alice"))]);
        Self { slack: Arc::new(slack), api, desk: FakeDesk::with(asked.clone()), asked }
    }

    async fn send(&self, event: NoticeEvent) {
        self.slack.send(&notice("finance", event, &self.asked), &self.desk).await.expect("it is sent");
    }

    /// Clicks a button, and returns the calls of the API that followed.
    async fn click(
        &mut self,
        user: &str,
        action: &str,
        hash: &str,
        response_url: &str,
    ) -> Vec<(String, Value)> {
        let value = json!({"approval": self.asked.id, "inputHash": hash}).to_string();
        let payload = json!({
            "type": "block_actions",
            "user": {"id": user},
            "channel": {"id": "C0123"},
            "response_url": response_url,
            "actions": [{"action_id": action, "value": value}],
        });
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("payload", &payload.to_string())
            .finish();
        let done = self.slack.receive(signed(body), &self.desk).await.expect("a signed click");
        assert!(matches!(done, Reply::Done));
        self.api.take()
    }
}

fn signed(body: String) -> Incoming {
    let time = Timestamp::now().as_second().to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, SIGNING.as_bytes());
    let signature = hmac::sign(&key, format!("v0:{time}:{body}").as_bytes());
    let signature: String = signature.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let header =
        |name, value: String| (HeaderName::from_static(name), HeaderValue::from_str(&value).expect("text"));
    let headers = HeaderMap::from_iter([
        header("x-slack-request-timestamp", time),
        header("x-slack-signature", format!("v0={signature}")),
    ]);
    Incoming { headers, body: body.into(), address: None }
}

fn has_buttons(body: &Value) -> bool {
    body["blocks"].as_array().is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "actions"))
}

#[tokio::test]
async fn one_message_is_posted_changed_and_replaced_by_the_outcome() {
    let mut setup = Setup::new().await;
    setup.send(NoticeEvent::ApprovalRequested).await;
    let [(path, body)] = setup.api.take().try_into().expect("one call");
    assert_eq!(
        (path.as_str(), &body["channel"], has_buttons(&body)),
        ("/api/chat.postMessage", &json!("C0123"), true)
    );
    setup.send(NoticeEvent::ApprovalRequested).await;
    let [(path, body)] = setup.api.take().try_into().expect("one call");
    assert_eq!((path.as_str(), &body["ts"], has_buttons(&body)), ("/api/chat.update", &json!("1.5"), true));
    setup.send(NoticeEvent::ApprovalReminder).await;
    let [(path, body)] = setup.api.take().try_into().expect("one call");
    assert_eq!((path.as_str(), &body["thread_ts"]), ("/api/chat.postMessage", &json!("1.5")));
    setup.desk.put(Approval { state: ApprovalState::Expired, ..setup.asked.clone() });
    setup.send(NoticeEvent::ApprovalSettled).await;
    let [(path, body)] = setup.api.take().try_into().expect("one call");
    assert_eq!((path.as_str(), has_buttons(&body)), ("/api/chat.update", false));
    assert!(body.to_string().contains("Expired"), "{body}");
    setup.send(NoticeEvent::ApprovalSettled).await;
    assert_eq!(setup.api.take(), [], "the message is forgotten");
}

#[tokio::test]
async fn a_click_is_the_vote_of_the_user_about_what_was_shown() {
    let mut setup = Setup::new().await;
    let hash = setup.asked.input_hash.clone();
    let answers = setup.click("U1", blocks::DENY, &hash, "https://hooks.slack.com/x").await;
    assert_eq!(answers, [], "the message shows the outcome");
    let votes = setup.desk.votes.lock().expect("no panic");
    let [(by, vote)] = &votes[..] else { panic!("one vote") };
    assert_eq!((by.by.user.as_str(), by.how, vote.approved), ("alice", DecisionChannel::Slack, false));
    assert_eq!(vote.input_hash, Some(hash));
}

#[tokio::test]
async fn a_click_that_does_not_count_is_answered_to_its_person_alone() {
    let mut setup = Setup::new().await;
    let hash = setup.asked.input_hash.clone();
    let own = setup.api.url.replace("/hook", "/respond");
    for (user, shown) in [("U9", hash.as_str()), ("U2", &hash), ("U1", "another")] {
        let [(path, body)] =
            setup.click(user, blocks::APPROVE, shown, &own).await.try_into().expect("one answer");
        assert_eq!((path.as_str(), &body["response_type"]), ("/respond", &json!("ephemeral")), "{user}");
    }
    let elsewhere = setup.click("U9", blocks::APPROVE, &hash, "https://hooks.slack.com.evil.example/x").await;
    let [(path, body)] = elsewhere.try_into().expect("one answer");
    assert_eq!((path.as_str(), &body["user"]), ("/api/chat.postEphemeral", &json!("U9")));
    assert_eq!(setup.desk.votes.lock().expect("no panic").len(), 0);
}

#[tokio::test]
async fn a_click_that_slack_has_not_signed_is_refused() {
    let setup = Setup::new().await;
    let mut forged = signed("payload=%7B%7D".into());
    forged.body = "payload=%7B%22%7D".into();
    let refused = setup.slack.receive(forged, &setup.desk).await;
    assert!(matches!(refused, Err(ReceiveError::Unsigned(_))), "{refused:?}");
}
