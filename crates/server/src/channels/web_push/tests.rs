//! Notifications, with a stand-in for a push service on this machine.

use axum::http::{HeaderMap, StatusCode};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use fermata_engine::ApprovalState;
use fermata_tools::{Approver, Owner, Pattern, People};

use super::*;
use crate::channels::tests::{FakeDesk, Service, approval, notice, records};

struct Setup {
    push: WebPush,
    service: Service,
    desk: FakeDesk,
    asked: Approval,
}

impl Setup {
    /// Alice may decide, erin may not; each has a browser.
    async fn new(status: StatusCode) -> Self {
        let service = Service::start((status, "")).await;
        let records = records().await;
        for user in ["alice", "erin"] {
            let endpoint = service.url.replace("/hook", &format!("/{user}"));
            let subscription = json!({"endpoint": endpoint, "keys": {
                "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
                "auth": "BTBZMqHH6r4Tts7J_aSIgg",
            }});
            let device = PushDevice { endpoint, owner: Owner::new(user), groups: Vec::new(), subscription };
            assert!(records.put_device(&device, Timestamp::now(), 10).await.expect("a store"));
        }
        let shared = Shared::of("https://chat.example.com", People::default());
        let push = WebPush::new("phone", records, shared, WebClient::private().expect("TLS"), Arc::default());
        let asked = approval(&[Approver::User(Pattern::new("alice"))]);
        Self { push, service, desk: FakeDesk::with(asked.clone()), asked }
    }

    async fn send(&self, id: &str, event: NoticeEvent) -> Result<(), SendError> {
        let notice = Notice { id: id.into(), ..notice("phone", event, &self.asked) };
        self.push.send(&notice, &self.desk).await
    }

    async fn devices(&self) -> Vec<String> {
        let devices = self.push.records.devices().await.expect("a store");
        devices.into_iter().map(|device| device.owner.as_str().to_owned()).collect()
    }

    fn headers(&mut self) -> Option<HeaderMap> {
        self.service.request().map(|(headers, _)| headers)
    }
}

#[tokio::test]
async fn a_browser_of_somebody_who_may_decide_is_notified_once_and_told_the_outcome() {
    let mut setup = Setup::new(StatusCode::CREATED).await;
    setup.send("n1", NoticeEvent::ApprovalRequested).await.expect("it is sent");
    let headers = setup.headers().expect("a notification for alice");
    assert_eq!(headers["content-encoding"], "aes128gcm");
    assert_eq!(headers["ttl"], "86400");
    let public = PushKey::kept(&setup.push.records).await.expect("a key").public();
    let authorization = headers["authorization"].to_str().expect("text");
    assert!(authorization.starts_with("vapid t=") && authorization.ends_with(&format!(", k={public}")));
    setup.send("n1", NoticeEvent::ApprovalRequested).await.expect("it was sent");
    assert!(setup.headers().is_none(), "the same notice is sent once");
    setup.desk.put(Approval { state: ApprovalState::Approved, ..setup.asked.clone() });
    setup.send("n2", NoticeEvent::ApprovalSettled).await.expect("it is sent");
    assert!(setup.headers().is_some(), "the notification is closed");
    setup.send("n2", NoticeEvent::ApprovalSettled).await.expect("it was sent");
    assert!(setup.headers().is_none());
}

#[tokio::test]
async fn a_browser_that_its_push_service_does_not_know_is_removed() {
    for status in [StatusCode::NOT_FOUND, StatusCode::GONE] {
        let setup = Setup::new(status).await;
        setup.send("n1", NoticeEvent::ApprovalRequested).await.expect("there is nobody left");
        assert_eq!(setup.devices().await, ["erin"]);
    }
    let setup = Setup::new(StatusCode::TOO_MANY_REQUESTS).await;
    setup.send("n1", NoticeEvent::ApprovalRequested).await.expect_err("it is tried again");
    assert_eq!(setup.devices().await, ["alice", "erin"]);
}

#[test]
fn only_push_services_of_the_internet_are_endpoints() {
    let keys = json!({
        "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        "auth": "BTBZMqHH6r4Tts7J_aSIgg",
    });
    for (at, is_public) in [
        ("https://push.example.com/x", true),
        ("http://push.example.com/x", false),
        ("https://localhost/x", false),
        ("https://10.0.0.1/x", false),
        ("file:///etc/passwd", false),
    ] {
        let subscription = json!({"endpoint": at, "keys": keys});
        assert_eq!(endpoint(&subscription, false).is_ok(), is_public, "{at}");
    }
    let no_point = json!({"p256dh": BASE64_URL_SAFE_NO_PAD.encode([4; 65]), "auth": keys["auth"]});
    let subscription = json!({"endpoint": "https://push.example.com/x", "keys": no_point});
    assert_eq!(endpoint(&subscription, false), Err("its key p256dh is not a public key"));
    let local = json!({"endpoint": "http://127.0.0.1:9/x", "keys": keys});
    assert!(
        endpoint(&local, true).is_ok()
            && endpoint(&json!({"endpoint": "https://push.example.com"}), true).is_err()
    );
}
