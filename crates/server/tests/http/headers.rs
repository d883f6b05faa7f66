//! The headers of all responses, for browsers, caches and proxies.

use axum::{Router, body::Body, http::Method};
use serde_json::json;

use crate::{Answer, TestApp, app::says, scripted};

fn check(answer: &Answer, cache: &str) {
    let header = |name: &str| answer.headers.get(name).map_or("", |value| value.to_str().expect("text"));
    let values = (header("x-content-type-options"), header("cross-origin-resource-policy"));
    assert_eq!(values, ("nosniff", "same-origin"), "{answer:?}");
    assert_eq!(header("cache-control"), cache, "{answer:?}");
}

#[tokio::test]
async fn no_response_may_be_sniffed_shared_or_cached() {
    let app = TestApp::new([scripted::says("Hello.")]).await;
    app.open(says("c", "hi")).await.end().await;
    for path in ["/api/chats", "/api/chat/c", "/api/chat/c/pending", "/api/tools", "/healthz", "/metrics"] {
        let answer = app.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        check(&answer, "no-store");
    }
    let refused = [
        (404, app.get("/api/chat/nobody").await),
        (404, app.get("/no/such/path").await),
        (204, app.get("/api/chat/c/stream").await),
        (405, app.ask(Method::PUT, "/api/chats", &[], Body::empty()).await),
        (422, app.post("/api/chat", json!({"messages": 1})).await),
        (400, app.ask(Method::POST, "/api/chat", &[], "{").await),
        (403, app.ask(Method::GET, "/api/chats", &[("origin", "https://evil.example")], Body::empty()).await),
    ];
    for (status, answer) in refused {
        assert_eq!(answer.status, status);
        check(&answer, "no-store");
    }
}

#[tokio::test]
async fn a_stream_is_not_to_be_held_back_by_what_is_in_between() {
    let app = TestApp::new([scripted::says("Hello.")]).await;
    let answer = app.post("/api/chat", says("c", "hi")).await;
    check(&answer, "no-cache, no-transform");
}

#[tokio::test]
async fn a_page_may_use_no_devices_of_the_person() {
    let app = TestApp::new([]).await;
    let page = app.get("/curl").await;
    check(&page, "no-cache");
    let policy = page.headers["permissions-policy"].to_str().expect("text");
    for device in ["camera=()", "microphone=()", "geolocation=(self)"] {
        assert!(policy.contains(device), "{policy}");
    }
    assert!(page.headers.contains_key("content-security-policy"));
}

#[tokio::test]
async fn a_mounted_router_sends_the_headers_too() {
    let mut app = TestApp::new([]).await;
    app.router = Router::new().nest("/assistant", app.router);
    check(&app.get("/assistant/api/chats").await, "no-store");
    check(&app.get("/assistant/api/chat/nobody").await, "no-store");
}

#[tokio::test]
async fn pages_that_the_operator_named_may_read_what_they_ask_for() {
    let app = TestApp::with(&["--cors-origins", "https://app.example"], []).await;
    let answer =
        app.ask(Method::GET, "/api/chats", &[("origin", "https://app.example")], Body::empty()).await;
    assert_eq!(answer.headers["access-control-allow-origin"], "https://app.example");
    // Browsers check this header only if a page loads something without CORS.
    check(&answer, "no-store");
}

#[tokio::test]
async fn pages_that_the_operator_named_may_send_headers_of_their_tracing_tools() {
    let app = TestApp::with(&["--cors-origins", "https://app.example"], []).await;
    for (origin, is_named) in [("https://app.example", true), ("https://other.example", false)] {
        let asked =
            "authorization, content-type, last-event-id, sentry-trace, baggage, traceparent, x-anything";
        let headers = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", asked),
        ];
        let answer = app.ask(Method::OPTIONS, "/api/chat", &headers, Body::empty()).await;
        assert_eq!(answer.headers.contains_key("access-control-allow-origin"), is_named, "{origin}");
        if is_named {
            assert_eq!(answer.headers["access-control-allow-headers"], asked);
        }
    }
}

#[tokio::test]
async fn each_request_has_an_id_which_a_proxy_may_have_given_it() {
    let app = TestApp::new([]).await;
    let id_of = |answer: &Answer| answer.headers["x-request-id"].to_str().expect("text").to_owned();
    let (one, other) = (id_of(&app.get("/api/chats").await), id_of(&app.get("/no/such/path").await));
    assert!(one.starts_with("req_") && other.starts_with("req_") && one != other, "{one} {other}");
    let long = "a".repeat(129);
    for (given, is_kept) in
        [("abc-123", true), ("a b", false), ("a\"b", false), (long.as_str(), false), ("", false)]
    {
        let headers = [("x-request-id", given)];
        let answer = app.ask(Method::GET, "/api/chats", &headers, Body::empty()).await;
        assert_eq!(id_of(&answer) == given, is_kept, "{given}");
    }
}
