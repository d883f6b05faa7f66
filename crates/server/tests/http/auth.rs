//! Authentication and access.

use axum::{
    body::Body,
    http::{Method, header},
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{TestApp, app::says, scripted};

const TOKENS: &[&str] = &["--auth", "token", "--tokens", "alice:a-token-of-alice,bob:the-token-of-bob"];
const API: &[(Method, &str)] = &[
    (Method::POST, "/api/chat"),
    (Method::POST, "/chat/tool-result"),
    (Method::POST, "/api/chat/tool-result"),
    (Method::GET, "/api/chat/c/stream"),
    (Method::POST, "/api/chat/c/stop"),
    (Method::GET, "/api/chat/c"),
    (Method::DELETE, "/api/chat/c"),
    (Method::GET, "/api/chat/c/pending"),
    (Method::GET, "/api/chats"),
    (Method::GET, "/api/tools"),
];

#[tokio::test]
async fn without_a_known_token_the_api_is_closed() {
    for (method, path) in API {
        let app = TestApp::with(TOKENS, []).await;
        for credentials in [
            None,
            Some("Bearer nonsense"),
            Some("Bearer a-token-of-alic"),
            Some("Basic a-token-of-alice"),
            Some("a-token-of-alice"),
            Some("Bearer "),
        ] {
            let headers: Vec<_> =
                credentials.map(|credentials| ("authorization", credentials)).into_iter().collect();
            let answer = app.ask(method.clone(), path, &headers, "not even JSON").await;
            answer.problem(401, "unauthorized");
            assert_eq!(answer.headers[header::WWW_AUTHENTICATE], "Bearer");
        }
    }
}

const GUESS: &[(&str, &str)] = &[("authorization", "Bearer guess-guess-guess")];
const ALICE: &[(&str, &str)] = &[("authorization", "Bearer a-token-of-alice")];
/// The number of wrong tokens of an address that are answered without a delay.
const FREE: usize = 10;

#[tokio::test]
async fn guesses_are_slowed_down_and_other_clients_of_the_address_are_not() {
    let app = TestApp::with(TOKENS, []).await;
    let ask = async |headers| {
        app.ask_from(Some("192.0.2.1"), Method::GET, "/api/chats", headers, Body::empty()).await
    };
    for _ in 0..FREE {
        ask(GUESS).await.problem(401, "unauthorized");
    }
    let refused = ask(GUESS).await;
    refused.problem(429, "too_many_failures");
    assert!(refused.headers.contains_key(header::RETRY_AFTER));
    assert_eq!(ask(ALICE).await.status, 200);
    ask(&[]).await.problem(401, "unauthorized");
    let elsewhere = app.ask_from(Some("192.0.2.2"), Method::GET, "/api/chats", GUESS, Body::empty()).await;
    elsewhere.problem(401, "unauthorized");
}

#[tokio::test]
async fn behind_a_trusted_proxy_only_the_client_that_guesses_is_slowed_down() {
    let options = [TOKENS, &["--trusted-proxies", "10.0.0.0/8"]].concat();
    for (proxy, expected) in [("10.1.1.1", 401), ("192.0.2.1", 429)] {
        let app = TestApp::with(&options, []).await;
        let ask = async |client: &str| {
            let headers = [GUESS[0], ("x-forwarded-for", client)];
            app.ask_from(Some(proxy), Method::GET, "/api/chats", &headers, Body::empty()).await
        };
        for _ in 0..FREE {
            ask("203.0.113.9").await.problem(401, "unauthorized");
        }
        assert_eq!(ask("203.0.113.10").await.status, expected, "a header from {proxy}");
        assert_eq!(ask("8.8.8.8, 203.0.113.9").await.status, 429);
    }
}

#[tokio::test]
async fn pages_and_health_checks_need_no_token() {
    let app = TestApp::with(TOKENS, []).await;
    for path in ["/healthz", "/readyz", "/openapi.json", "/", "/curl"] {
        assert_eq!(app.get(path).await.status, 200, "{path}");
    }
    assert!(app.get("/").await.text.contains("authorization: Bearer"));
}

#[tokio::test]
async fn a_chat_of_another_owner_is_not_found() {
    let app = TestApp::with(TOKENS, [scripted::says("Hello.")]).await;
    let alice = [("authorization", "bearer a-token-of-alice")];
    let bob = [("authorization", "Bearer the-token-of-bob")];
    let begun = app.ask(Method::POST, "/api/chat", &alice, says("c", "hi").to_string()).await;
    assert_eq!(begun.status, 200, "{}", begun.text);
    for (method, path) in
        [(Method::GET, "/api/chat/c"), (Method::GET, "/api/chat/c/pending"), (Method::DELETE, "/api/chat/c")]
    {
        app.ask(method, path, &bob, Body::empty()).await.problem(404, "not_found");
    }
    app.ask(Method::POST, "/api/chat", &bob, says("c", "mine").to_string()).await.problem(404, "not_found");
    assert_eq!(app.ask(Method::POST, "/api/chat/c/stop", &bob, Body::empty()).await.status, 204);
    assert_eq!(app.ask(Method::GET, "/api/chats", &bob, Body::empty()).await.json(), json!({"chats": []}));
    let listed = app.ask(Method::GET, "/api/chats", &alice, Body::empty()).await.json();
    assert_eq!(listed["chats"][0]["id"], "c");
}

#[tokio::test]
async fn without_tokens_foreign_pages_are_kept_out() {
    let app = TestApp::new([]).await;
    for (method, path) in API {
        let answer =
            app.ask(method.clone(), path, &[("origin", "https://evil.example")], Body::empty()).await;
        let detail = answer.problem(403, "foreign_page");
        assert!(detail.contains("cors_origins"), "{detail}");
    }
    let from_dev_server = [("origin", "http://localhost:5173")];
    assert_eq!(app.ask(Method::GET, "/api/chats", &from_dev_server, Body::empty()).await.status, 200);
}

#[tokio::test]
async fn without_tokens_only_names_that_the_operator_gave_lead_here() {
    let open = ["--insecure-bind", "true", "--bind", "0.0.0.0:0"];
    let ask = async |app: &TestApp, path: &str, host: &str| {
        let request = axum::http::Request::get(path).header(header::HOST, host).body(Body::empty());
        app.send(request.expect("a request")).await.status().as_u16()
    };
    for options in [&[] as &[&str], &open] {
        let app = TestApp::with(&[options, &["--hosts", "chat.example.com"]].concat(), []).await;
        for path in ["/api/chats", "/api/tools", "/", "/curl", "/metrics", "/openapi.json"] {
            for host in ["localhost:3000", "192.168.1.7:3000", "chat.example.com", "chat.example.com:8443"] {
                assert_eq!(ask(&app, path, host).await, 200, "{path} under {host}");
            }
            for host in ["evil.example", "evil.example:3000", "chat.example.com.evil.example", "rebind.it"] {
                assert_eq!(ask(&app, path, host).await, 403, "{path} under {host}");
            }
        }
        for path in ["/healthz", "/readyz"] {
            assert_eq!(ask(&app, path, "evil.example").await, 200, "{path}");
        }
    }
    let app = TestApp::with(TOKENS, []).await;
    assert_eq!(ask(&app, "/", "evil.example").await, 200, "a page elsewhere has no token");
}

#[tokio::test]
async fn without_tokens_what_another_site_loads_is_refused_and_its_links_are_not() {
    let app = TestApp::new([]).await;
    let from = async |path: &str, mode: &str| {
        let headers = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", mode)];
        app.ask(Method::GET, path, &headers, Body::empty()).await
    };
    for path in ["/api/chats", "/api/chat/c", "/metrics", "/openapi.json", "/"] {
        let detail = from(path, "no-cors").await.problem(403, "foreign_page");
        assert!(detail.contains("cors_origins"), "{detail}");
    }
    from("/api/chats", "navigate").await.problem(403, "foreign_page");
    assert_eq!(from("/", "navigate").await.status, 200);
}

#[tokio::test]
async fn only_origins_that_are_named_may_read_what_they_get() {
    let app = TestApp::with(&["--cors-origins", "https://app.example"], []).await;
    let preflight = async |origin: &str| {
        let headers = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "content-type,authorization"),
        ];
        app.ask(Method::OPTIONS, "/api/chat", &headers, Body::empty()).await
    };
    let friend = preflight("https://app.example").await;
    assert_eq!(friend.headers[header::ACCESS_CONTROL_ALLOW_ORIGIN], "https://app.example");
    assert!(
        friend.headers[header::ACCESS_CONTROL_ALLOW_HEADERS]
            .to_str()
            .is_ok_and(|names| names.contains("authorization"))
    );
    let stranger = preflight("https://evil.example").await;
    assert!(!stranger.headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
    let read = app.ask(Method::GET, "/api/chats", &[("origin", "https://app.example")], Body::empty()).await;
    let exposed = read.headers[header::ACCESS_CONTROL_EXPOSE_HEADERS].to_str().expect("text");
    assert!(exposed.contains("x-chat-id") && exposed.contains("x-resumable-stream-id"), "{exposed}");
}

#[tokio::test]
async fn a_client_without_a_token_that_sends_a_large_body_reads_the_refusal() {
    let length = 20_000_000;
    for (options, header, status) in
        [(TOKENS, "authorization: Bearer nonsense", "401"), (&[], "origin: https://evil.example", "403")]
    {
        let app = TestApp::with(options, []).await;
        let address = app.serve().await;
        let mut socket = tokio::net::TcpStream::connect(address).await.expect("a connection");
        let head = format!(
            "POST /api/chat HTTP/1.1\r\nhost: {address}\r\n{header}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).await.expect("sending");
        socket.write_all(&vec![b'x'; length]).await.expect("the server reads on after it has refused");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
}
