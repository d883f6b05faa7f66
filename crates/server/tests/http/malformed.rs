//! Malformed requests, which get a 4xx problem that says what is wrong.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    http::{Method, Request},
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    TestApp,
    app::says,
    scripted::{self, calls},
};

const BODIES: [&str; 3] = ["/api/chat", "/chat/tool-result", "/api/chat/tool-result"];

fn nested(levels: usize) -> String {
    let depth = levels - 1;
    format!("{{\"x\":{}1{}}}", "[".repeat(depth), "]".repeat(depth))
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused_with_the_position() {
    let app = TestApp::new([]).await;
    for path in BODIES {
        for body in [
            &b""[..],
            b"{",
            b"{\"id\": nope}",
            b"hello",
            b"[1,]",
            b"{\"id\":\"\xff\xfe\"}",
            b"\xff",
            b"1e999",
            b"\0",
            b"{} {}",
        ] {
            let answer = app.ask(Method::POST, path, &[], Bytes::from_static(body)).await;
            answer.problem(400, "invalid_json");
        }
        let detail = app.ask(Method::POST, path, &[], "{\"id\": nope}").await.problem(400, "invalid_json");
        assert!(detail.contains("line 1 column"), "{detail}");
    }
}

#[tokio::test]
async fn json_of_another_shape_is_refused() {
    let app = TestApp::new([]).await;
    for path in BODIES {
        for body in [
            json!(null),
            json!([]),
            json!("x"),
            json!(7),
            json!({}),
            json!({"id": 7, "chatId": 7}),
            json!({"id": "no spaces", "chatId": "no spaces", "toolCallId": "a", "output": 1, "messages": [{"role": "user", "content": "x"}]}),
            json!({"id": "c", "chatId": "c", "messages": "x", "toolCallId": {}, "output": 1}),
            json!({"id": "c", "chatId": "c", "messages": [7], "answers": [7]}),
            json!({"id": "c", "chatId": "c", "messages": [{"role": "nobody", "parts": []}], "answers": []}),
        ] {
            app.post(path, body).await.problem(422, "invalid_request");
        }
    }
}

#[tokio::test]
async fn a_hundred_levels_are_taken_and_one_more_is_not() {
    let app = TestApp::new([]).await;
    for path in BODIES {
        let detail = app.ask(Method::POST, path, &[], nested(101)).await.problem(422, "invalid_request");
        assert!(detail.contains("100 levels"), "{detail}");
        let detail =
            app.ask(Method::POST, path, &[], "[".repeat(1_000_000)).await.problem(422, "invalid_request");
        assert!(detail.contains("100 levels"), "{detail}");
        // These lack fields, but are not too deep. Brackets in strings do not count.
        for body in [nested(100), json!({"x": "[".repeat(500), "y": "\"[[["}).to_string()] {
            let detail = app.ask(Method::POST, path, &[], body).await.problem(422, "invalid_request");
            assert!(!detail.contains("levels"), "{detail}");
        }
    }
}

#[tokio::test]
async fn a_body_with_too_many_values_is_refused_though_it_is_small() {
    let app = TestApp::new([]).await;
    for path in BODIES {
        // The body, its field and the list also count.
        for (values, status, code) in [(199_997, 422, "invalid_request"), (199_998, 413, "too_large")] {
            let body = format!("{{\"zzz\":1,\"x\":[{}]}}", vec!["[]"; values].join(","));
            let detail = app.ask(Method::POST, path, &[], body).await.problem(status, code);
            assert_eq!(detail.contains("the limit is 200000"), status == 413, "{detail}");
        }
    }
}

#[tokio::test]
async fn a_body_that_is_only_announced_takes_no_memory_from_others() {
    let app = TestApp::with(&["--max-body-memory", "100kB"], []).await;
    let address = app.serve().await;
    let mut announced = tokio::net::TcpStream::connect(address).await.expect("a connection");
    let head = format!(
        "POST /api/chat HTTP/1.1\r\nhost: {address}\r\nexpect: 100-continue\r\ncontent-length: 9000000\r\n\r\n"
    );
    announced.write_all(head.as_bytes()).await.expect("sending");
    announced.read_exact(&mut [0; 12]).await.expect("a sign that the body is waited for");
    // The body is larger than the memory for bodies, so the whole memory must be free.
    let large = json!({"chatId": "c", "toolCallId": "a", "output": "x".repeat(200_000)});
    app.post("/chat/tool-result", large).await.problem(404, "not_found");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_whether_or_not_it_says_so() {
    let app = TestApp::with(&["--max-body", "1kB"], []).await;
    for path in BODIES {
        let announced = app.ask(Method::POST, path, &[("content-length", "2000")], "x".repeat(2000)).await;
        let detail = announced.problem(413, "too_large");
        assert!(detail.contains("1000 bytes"), "{detail}");
        let pieces = futures::stream::iter(std::iter::repeat_n(
            Ok::<_, std::convert::Infallible>("x".repeat(100)),
            20,
        ));
        app.ask(Method::POST, path, &[], Body::from_stream(pieces)).await.problem(413, "too_large");
        let just_fits = json!({"x": "x".repeat(1000 - 8)}).to_string();
        assert_eq!(just_fits.len(), 1000);
        app.ask(Method::POST, path, &[], just_fits).await.problem(422, "invalid_request");
    }
}

#[tokio::test]
async fn a_body_that_comes_for_ever_in_small_pieces_is_given_up() {
    let app = TestApp::with(&["--body-timeout", "50ms"], []).await;
    for path in BODIES {
        let pieces = futures::stream::unfold((), async |()| {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Some((Ok::<_, std::convert::Infallible>(" "), ()))
        });
        let answer = app.ask(Method::POST, path, &[], Body::from_stream(pieces)).await;
        let detail = answer.problem(408, "slow_request");
        assert!(detail.contains("50ms") && detail.contains("body_timeout"), "{detail}");
        assert_eq!(answer.headers["connection"], "close");
    }
}

#[tokio::test]
async fn a_client_that_sends_far_too_much_reads_its_answer() {
    let app = TestApp::new([]).await;
    let address = app.serve().await;
    let mut socket = tokio::net::TcpStream::connect(address).await.expect("a connection");
    let length = 20_000_000;
    let head = format!(
        "POST /api/chat HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.expect("sending");
    socket.write_all(&vec![b'x'; length]).await.expect("the server reads on while it is sent too much");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn a_client_that_asks_before_it_sends_need_not_send() {
    let app = TestApp::new([]).await;
    let address = app.serve().await;
    let mut socket = tokio::net::TcpStream::connect(address).await.expect("a connection");
    let head = format!(
        "POST /api/chat HTTP/1.1\r\nhost: {address}\r\nexpect: 100-continue\r\ncontent-length: 200000000\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.expect("sending");
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_panic() {
    let app = TestApp::new([]).await;
    let pieces = futures::stream::iter([Ok("{"), Err(std::io::Error::other("gone"))]);
    let request = Request::post("/api/chat").body(Body::from_stream(pieces)).expect("a request");
    assert_eq!(app.send(request).await.status(), 400);
}

#[tokio::test]
async fn ids_that_no_chat_can_have_are_not_found() {
    let app = TestApp::new([]).await;
    for chat in ["nobody", "bad%20id", "%FF", "%2e%2e%2f", &"x".repeat(129)] {
        app.get(&format!("/api/chat/{chat}")).await.problem(404, "not_found");
        app.get(&format!("/api/chat/{chat}/pending")).await.problem(404, "not_found");
        app.ask(Method::DELETE, &format!("/api/chat/{chat}"), &[], Body::empty())
            .await
            .problem(404, "not_found");
    }
}

#[tokio::test]
async fn a_list_with_an_invalid_page_is_refused() {
    let app = TestApp::new([]).await;
    for query in [
        "limit=0",
        "limit=101",
        "limit=-1",
        "limit=many",
        "limit=99999999999999999999",
        "limit=%FF",
        "before=nonsense",
    ] {
        app.get(&format!("/api/chats?{query}")).await.problem(422, "invalid_request");
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_problems() {
    let app = TestApp::new([]).await;
    for path in ["/nothing", "/api", "/api/chat/c/nothing", "/api/chat/"] {
        app.get(path).await.problem(404, "not_found");
    }
    for (method, path) in [
        (Method::GET, "/api/chat"),
        (Method::PUT, "/api/chat/c"),
        (Method::POST, "/healthz"),
        (Method::GET, "/chat/tool-result"),
    ] {
        let answer = app.ask(method, path, &[], Body::empty()).await;
        answer.problem(405, "method_not_allowed");
        assert!(answer.headers.contains_key("allow"), "{path}");
    }
}

#[tokio::test]
async fn a_refusal_does_not_repeat_what_was_sent_at_length() {
    let app = TestApp::new([]).await;
    let long = "x".repeat(1_000_000);
    let message = json!([{"role": "user", "content": "hi"}]);
    for (path, body) in [
        ("/api/chat", json!({"messages": message, "fermata": {"hold": long}})),
        ("/api/chat", json!({"messages": message, "toolChoice": {"type": "tool", "toolName": long}})),
        ("/api/chat", json!({"messages": message, "selectedToolName": long})),
        ("/api/chat", json!({"messages": message, "tools": {long.as_str(): {}}})),
        (
            "/api/chat",
            json!({"messages": message, "tools": {"t": {"parameters": {"properties": {"a": {"type": long}}}}}}),
        ),
        ("/chat/tool-result", json!({"chatId": "c", "toolCallId": long, "output": 1})),
    ] {
        let answer = app.post(path, body).await;
        assert!(answer.status.is_client_error(), "{}", answer.status);
        assert!(answer.text.len() < 12_000, "{path}: {} bytes", answer.text.len());
    }
}

#[tokio::test]
async fn a_tool_that_the_run_does_not_have_is_refused_with_those_it_has() {
    let app = TestApp::new([]).await;
    for (name, shown) in [
        ("no_such_tool".to_owned(), "no tool no_such_tool. "),
        ("write note".to_owned(), "no tool \"write note\". "),
        ("two\nlines".to_owned(), "no tool \"two\\nlines\". "),
        ("x".repeat(65), "no tool \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…\". "),
    ] {
        let body = json!({"messages": [{"role": "user", "content": "hi"}], "selectedToolName": name});
        let detail = app.post("/api/chat", body).await.problem(422, "unknown_tool");
        assert!(detail.contains(shown) && detail.contains("write_note"), "{detail}");
    }
}

fn posted_with(schema: &serde_json::Value) -> serde_json::Value {
    let tool = json!({"description": "t", "parameters": {"type": "object", "properties": {"x": {"type": "array", "items": schema}}}});
    let mut body = says("c", "use t");
    body["tools"] = json!({"t": tool});
    body
}

#[tokio::test]
async fn a_pattern_that_cannot_be_checked_is_skipped_and_too_many_patterns_are_refused() {
    let patterns = [r"^(a|aa)+\1y$", "(?=x)\\p{L}{220}", "^(?=.*[A-Z])(?=.*\\d).{8,}$"];
    let app = TestApp::new(patterns.map(|_| scripted::says("Hi."))).await;
    for pattern in patterns {
        let schema = json!({"anyOf": [{"pattern": pattern}, {"type": "string"}]});
        let mut stream = app.open(posted_with(&schema)).await;
        stream.end().await;
        assert_eq!(stream.text(), "Hi.");
    }
    let letters: Vec<_> = (0..40).map(|n| json!({"pattern": format!("\\p{{L}}{{20}}{n}")})).collect();
    let detail = app.post("/api/chat", posted_with(&json!({"anyOf": letters}))).await;
    assert!(detail.problem(422, "invalid_request").contains("states"));
}

#[tokio::test]
async fn many_patterns_for_many_strings_fail_their_call_and_the_run_goes_on() {
    let patterns: Vec<_> = (0..180).map(|n| json!({"pattern": format!("^(a|aa)+{n}$")})).collect();
    let strings: Vec<_> = (0..20_000).map(|n| format!("{}{n}", "a".repeat(20))).collect();
    let step = calls(&[("t", json!({"x": strings}))]);
    let app = TestApp::new([step, scripted::says("Then not.")]).await;
    let mut stream = app.open(posted_with(&json!({"anyOf": patterns}))).await;
    // The chat can be used while the check runs.
    stream.until("tool-input-start").await;
    assert_eq!(app.get("/api/chat/c/pending").await.status, 200);
    stream.end().await;
    assert!(stream.kinds().contains(&"tool-input-error"), "{:?}", stream.kinds());
    assert_eq!(stream.text(), "Then not.");
    assert_eq!(app.get("/healthz").await.status, 200);
}
