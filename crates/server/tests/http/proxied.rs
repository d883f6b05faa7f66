//! Owners identified by a header of a proxy.

use axum::{body::Body, http::Method};
use serde_json::json;

use crate::{Answer, TestApp, app::says, scripted};

const OPTIONS: &[&str] = &["--user-header", "x-forwarded-user", "--trusted-proxies", "10.0.0.0/8"];
const PROXY: Option<&str> = Some("10.1.1.1");

async fn ask(app: &TestApp, peer: Option<&str>, headers: &[(&str, &str)]) -> Answer {
    app.ask_from(peer, Method::GET, "/api/chats", headers, Body::empty()).await
}

#[tokio::test]
async fn the_proxy_names_the_owner() {
    let app = TestApp::with(OPTIONS, [scripted::says("Hello.")]).await;
    let (alice, bob) = ([("x-forwarded-user", "alice@example.com")], [("x-forwarded-user", "bób")]);
    let posted = says("c", "hi").to_string();
    let begun = app.ask_from(PROXY, Method::POST, "/api/chat", &alice, posted).await;
    assert_eq!(begun.status, 200, "{}", begun.text);
    assert_eq!(ask(&app, PROXY, &alice).await.json()["chats"][0]["id"], "c");
    assert_eq!(ask(&app, PROXY, &bob).await.json(), json!({"chats": []}));
}

#[tokio::test]
async fn only_the_proxy_may_send_its_header() {
    let forged = [("x-forwarded-user", "alice")];
    for peer in [Some("192.0.2.1"), Some("127.0.0.1"), Some("::1"), None] {
        let app = TestApp::with(OPTIONS, []).await;
        ask(&app, peer, &forged).await.problem(403, "forbidden");
        ask(&app, peer, &[]).await.problem(401, "unauthorized");
        let through = [forged[0], ("x-forwarded-for", "10.1.1.1")];
        ask(&app, peer, &through).await.problem(403, "forbidden");
    }
}

#[tokio::test]
async fn a_request_without_one_valid_name_from_the_proxy_is_refused() {
    let app = TestApp::with(OPTIONS, []).await;
    ask(&app, PROXY, &[]).await.problem(401, "unauthorized");
    let long = "a".repeat(256);
    for names in
        [&[""][..], &[" "], &[&long], &["alice", "bob"], &["alice\u{200b}"], &["\u{3000}alice"], &["anyone"]]
    {
        let headers: Vec<_> = names.iter().map(|name| ("x-forwarded-user", *name)).collect();
        ask(&app, PROXY, &headers).await.problem(401, "unauthorized");
    }
}

#[tokio::test]
async fn pages_of_other_sites_cannot_use_the_cookie_that_the_proxy_knows_a_person_by() {
    let app = TestApp::with(&[OPTIONS, &["--cors-origins", "https://app.example"]].concat(), []).await;
    let status = async |more: &[(&str, &str)]| {
        let headers = [&[("x-forwarded-user", "alice")], more].concat();
        ask(&app, PROXY, &headers).await.status.as_u16()
    };
    for foreign in [
        &[("origin", "https://evil.example")][..],
        &[("origin", "null")],
        &[("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "cross-site")],
    ] {
        assert_eq!(status(foreign).await, 403, "{foreign:?}");
    }
    for own in [
        &[("origin", "http://127.0.0.1:3000")][..],
        &[("origin", "https://app.example"), ("sec-fetch-site", "cross-site")],
        // This is a request through a proxy that does not pass the host on.
        &[("origin", "https://chat.example"), ("sec-fetch-site", "same-origin")],
        &[],
    ] {
        assert_eq!(status(own).await, 200, "{own:?}");
    }
}
