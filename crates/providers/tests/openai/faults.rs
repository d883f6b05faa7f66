//! Failures before, during and after an answer.

use std::time::Duration;

use expect_test::expect;
use fermata_engine::{Model, model::ModelError};
use fermata_providers::{OpenAi, OpenAiConfig};
use fermata_tools::{ErrorPolicy, ErrorStrategy, ErrorType};
use futures::StreamExt;
use serde_json::json;

use crate::server::{KEY, Reply, Server, ask, lines, question};

const ROLE: &str = r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;

fn text(text: &str) -> String {
    format!(
        "data: {}\n\n",
        json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})
    )
}

fn finish(reason: &str) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": null, "finish_reason": reason}]}))
}

fn good() -> Reply {
    Reply::Stream([&text("Hi"), &finish("stop"), "data: [DONE]\n\n"].concat())
}

fn status(status: u16, headers: &'static str) -> Reply {
    Reply::Status(status, headers, format!(r#"{{"error":{{"message":"no, {KEY}","code":{status}}}}}"#))
}

// === before the first event ===

#[tokio::test]
async fn a_rate_limit_is_waited_out_and_asked_again() {
    let server = Server::start(vec![status(429, "retry-after-ms: 2\r\n"), good()]).await;
    assert_eq!(lines(&ask(&server.model()).await.unwrap()), "text \"Hi\"\nfinished Stop\n");
    assert_eq!(server.count(), 2);
}

#[tokio::test]
async fn a_failure_that_the_settings_do_not_retry_is_not_retried() {
    let server = Server::start(vec![status(429, ""), good()]).await;
    let mut request = question();
    request.error_policy = ErrorPolicy::default().with(ErrorType::RateLimit, ErrorStrategy::FailRun);
    assert!(matches!(server.model().stream(request).await.err(), Some(ModelError::RateLimit(_))));
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn a_rate_limit_of_an_hour_is_not_waited_for() {
    let server = Server::start(vec![status(429, "Retry-After: 3600\r\n"), good()]).await;
    assert!(matches!(ask(&server.model()).await, Err(ModelError::RateLimit(_))));
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn two_failures_of_the_server_are_retried() {
    let server = Server::start(vec![status(503, ""), status(500, ""), good()]).await;
    assert_eq!(lines(&ask(&server.model()).await.unwrap()), "text \"Hi\"\nfinished Stop\n");
    assert_eq!(server.count(), 3);
}

#[tokio::test]
async fn every_attempt_sends_the_same_request() {
    let server = Server::start(vec![status(503, ""), good()]).await;
    ask(&server.model()).await.unwrap();
    let (first, second) = (server.take_request(), server.take_request());
    assert_eq!((first.head, first.body), (second.head, second.body));
}

#[tokio::test]
async fn after_three_failures_the_last_is_reported() {
    let server = Server::start(vec![status(429, ""), status(502, ""), status(503, ""), good()]).await;
    assert!(matches!(ask(&server.model()).await, Err(ModelError::Provider(_))));
    assert_eq!(server.count(), 3);
    let server = Server::start(vec![status(503, ""), Reply::Drop, status(429, ""), good()]).await;
    assert!(matches!(ask(&server.model()).await, Err(ModelError::RateLimit(_))));
    assert_eq!(server.count(), 3);
}

#[tokio::test]
async fn a_connection_that_is_dropped_before_its_first_event_is_tried_again() {
    let server = Server::start(vec![Reply::Drop, Reply::Cut(format!("{ROLE}\n\n")), good()]).await;
    assert_eq!(lines(&ask(&server.model()).await.unwrap()), "text \"Hi\"\nfinished Stop\n");
    assert_eq!(server.count(), 3);
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let (base_url, retry_pause) = (Some(format!("{url}?key=hidden-secret")), Duration::from_millis(1));
    let model = OpenAi::build(OpenAiConfig { base_url, retry_pause, ..OpenAiConfig::new("m-1") }).unwrap();
    let Err(ModelError::Unreachable(text)) = ask(&model).await else { panic!("another error") };
    assert!(text.starts_with(&format!("{url}/chat/completions: ")) && text.contains("refused"), "{text}");
    assert!(!text.contains("hidden"), "{text}");
}

#[tokio::test]
async fn a_refusal_is_reported_at_once() {
    for (code, expected) in [
        (400, "the provider refused the request: URL/chat/completions: 400 Bad Request: no, [key]"),
        (401, "the provider refused the credentials: URL/chat/completions: 401 Unauthorized: no, [key]"),
        (404, "the provider refused the request: URL/chat/completions: 404 Not Found: no, [key]"),
    ] {
        let server = Server::start(vec![status(code, "retry-after: 0\r\n"), good()]).await;
        let error = ask(&server.model()).await.unwrap_err();
        assert_eq!(error.to_string().replace(&server.base_url, "URL"), expected);
        assert!(!format!("{error:?}").contains(KEY));
        assert_eq!(server.count(), 1);
    }
}

#[tokio::test]
async fn what_a_refusal_names_is_left_out_from_then_on() {
    let refusal = |message: &str| Reply::Status(400, "", json!({"error": {"message": message}}).to_string());
    let replies = vec![refusal("unknown field: stream_options"), good(), good()];
    let server = Server::start(replies).await;
    let model = server.model();
    for _ in 0..2 {
        assert_eq!(lines(&ask(&model).await.unwrap()), "text \"Hi\"\nfinished Stop\n");
    }
    assert_eq!(server.count(), 3, "the second question is not refused any more");
}

#[tokio::test]
async fn the_same_refusal_again_is_reported() {
    let refusal =
        Reply::Status(400, "", json!({"error": {"message": "unknown field: stream_options"}}).to_string());
    let server = Server::start(vec![refusal; 2]).await;
    assert!(matches!(ask(&server.model()).await, Err(ModelError::Refused(_))));
    assert_eq!(server.count(), 2);
}

#[tokio::test]
async fn a_redirect_is_reported_at_once_and_not_followed() {
    for code in [301, 302, 307, 308] {
        let reply = Reply::Status(code, "location: /v2/chat/completions\r\n", "moved".into());
        let server = Server::start(vec![reply, good()]).await;
        let error = ask(&server.model()).await.unwrap_err();
        assert!(matches!(&error, ModelError::Refused(text) if text.contains("base URL")), "{error:?}");
        assert_eq!(server.count(), 1);
    }
}

#[tokio::test]
async fn a_used_up_quota_is_not_asked_again() {
    let body = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    let server = Server::start(vec![Reply::Status(429, "", body.into()), good()]).await;
    assert!(matches!(ask(&server.model()).await, Err(ModelError::Auth(_))));
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn an_error_object_before_the_first_event_is_treated_as_its_status() {
    let overloaded = "data: {\"error\":{\"code\":503,\"message\":\"overloaded\"}}\n\n";
    let server = Server::start(vec![Reply::Stream(overloaded.into()), good()]).await;
    assert_eq!(lines(&ask(&server.model()).await.unwrap()), "text \"Hi\"\nfinished Stop\n");
    let refused: fn(&ModelError) -> bool = |error| matches!(error, ModelError::Refused(_));
    let too_long: fn(&ModelError) -> bool = |error| matches!(error, ModelError::TooLong(_));
    for (file, is_it) in [
        (include_str!("../traffic/groq-failed-generation.sse"), refused),
        (include_str!("../traffic/vllm-error.sse"), too_long),
    ] {
        let server = Server::start(vec![Reply::Stream(file.into()), good()]).await;
        let events = ask(&server.model()).await.unwrap_or_else(|error| vec![Err(error)]);
        assert!(matches!(events.last(), Some(Err(error)) if is_it(error)), "{events:?}");
        assert_eq!(lines(&events).lines().count(), 1);
        assert_eq!(server.count(), 1);
    }
}

// === in the middle ===

#[tokio::test]
async fn an_answer_that_breaks_off_ends_with_an_error_and_is_not_asked_for_again() {
    let server = Server::start(vec![Reply::Cut(text("Half an")), good()]).await;
    let events = ask(&server.model()).await.unwrap();
    assert!(matches!(events.as_slice(), [Ok(_), Err(ModelError::Network(_))]), "{events:?}");
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn a_body_that_just_ends_is_broken_off_too() {
    let half_an_event = &text("never seen")[..30];
    for body in [text("Half an"), [&text("Half an"), half_an_event].concat()] {
        let server = Server::start(vec![Reply::Stream(body)]).await;
        let events = ask(&server.model()).await.unwrap();
        assert!(matches!(events.as_slice(), [Ok(_), Err(ModelError::Network(_))]), "{events:?}");
    }
}

#[tokio::test]
async fn an_event_that_is_no_json_is_a_format_error() {
    let server = Server::start(vec![Reply::Stream([&text("Half an"), "data: oops\n\n"].concat())]).await;
    let events = ask(&server.model()).await.unwrap();
    assert!(matches!(events.as_slice(), [Ok(_), Err(ModelError::Format(_))]), "{events:?}");
}

#[tokio::test]
async fn an_error_object_in_the_middle_ends_the_answer() {
    let body = [
        &text("Half an"),
        "data: {\"error\":{\"message\":\"slow down\",\"code\":\"rate_limit_exceeded\"}}\n\n",
    ];
    let server = Server::start(vec![Reply::Stream(body.concat()), good()]).await;
    expect![[r#"
        text "Half an"
        error: the provider limits the rate: slow down
    "#]]
    .assert_eq(&lines(&ask(&server.model()).await.unwrap()));
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn the_key_is_taken_out_of_an_error_in_the_middle() {
    let body = [text("Half"), format!("data: {{\"error\":\"bad key {KEY}\"}}\n\n")].concat();
    let server = Server::start(vec![Reply::Stream(body)]).await;
    let events = ask(&server.model()).await.unwrap();
    assert!(events.last().unwrap().is_err());
    assert!(!format!("{events:?}").contains(KEY));
}

// === at the end ===

#[tokio::test]
async fn a_finish_reason_without_done_is_an_end() {
    for reply in [Reply::Stream, Reply::Cut] {
        let server = Server::start(vec![reply([text("Hi"), finish("stop")].concat())]).await;
        assert_eq!(lines(&ask(&server.model()).await.unwrap()), "text \"Hi\"\nfinished Stop\n");
    }
}

#[tokio::test]
async fn done_without_a_finish_reason_is_an_end() {
    let server = Server::start(vec![Reply::Stream([&text("Hi"), "data: [DONE]\n\n"].concat())]).await;
    assert_eq!(lines(&ask(&server.model()).await.unwrap()), "text \"Hi\"\nfinished Other\n");
}

#[tokio::test]
async fn done_is_an_end_though_the_connection_stays_open() {
    let mut server = Server::start(vec![Reply::Hold([&text("Hi"), "data: [DONE]\n\n"].concat())]).await;
    assert_eq!(lines(&ask(&server.model()).await.unwrap()), "text \"Hi\"\nfinished Other\n");
    server.hung_up().await;
}

#[tokio::test]
async fn an_answer_that_ends_before_its_first_word_twice_is_no_answer() {
    let empty = || Reply::Stream(String::new());
    for ends in [empty, || Reply::Stream(": ping\n\n".into()), || Reply::Stream(format!("{ROLE}\n\n"))] {
        let server = Server::start(vec![ends(), ends(), good()]).await;
        // Signs of life may come before the error.
        let last = ask(&server.model()).await.map(|mut events| events.pop());
        assert!(
            matches!(last, Err(ModelError::NoAnswer(_)) | Ok(Some(Err(ModelError::NoAnswer(_))))),
            "{last:?}"
        );
        assert_eq!(server.count(), 2, "the same request is of no use");
    }
    let server = Server::start(vec![empty(), good()]).await;
    assert_eq!(lines(&ask(&server.model()).await.unwrap()), "text \"Hi\"\nfinished Stop\n");
    let server = Server::start(vec![empty(), status(503, ""), empty(), good()]).await;
    assert!(matches!(ask(&server.model()).await, Err(ModelError::Network(_))), "not twice in a row");
    assert_eq!(server.count(), 3);
}

#[tokio::test]
async fn an_empty_answer_is_an_answer() {
    let server = Server::start(vec![Reply::Stream([&finish("stop"), "data: [DONE]\n\n"].concat())]).await;
    assert_eq!(lines(&ask(&server.model()).await.unwrap()), "finished Stop\n");
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let body = json!({
        "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "Hm.\nYes.", "reasoning_content": "R",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "current_time", "arguments": "{}"}}],
        }}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    });
    let server = Server::start(vec![Reply::Json(format!("{body:#}"))]).await;
    expect![[r#"
        reasoning "R"
        text "Hm.\nYes."
        call 0 current_time
        call 0 + {}
        finished ToolCalls 1+2=3
    "#]]
    .assert_eq(&lines(&ask(&server.model()).await.unwrap()));
}

#[tokio::test]
async fn a_stream_that_is_labelled_as_json_is_read_as_a_stream() {
    let body = [": ping\n\n", &text("Hi"), &finish("stop"), "data: [DONE]\n\n"].concat();
    let server = Server::start(vec![Reply::Json(body)]).await;
    assert_eq!(lines(&ask(&server.model()).await.unwrap()), "text \"Hi\"\nfinished Stop\n");
}

#[tokio::test]
async fn a_json_body_that_is_none_is_a_format_error() {
    let server = Server::start(vec![Reply::Json("<html>".into())]).await;
    assert!(matches!(ask(&server.model()).await, Err(ModelError::Format(_))));
}

#[tokio::test]
async fn what_is_neither_an_answer_nor_an_error_is_an_error_that_shows_it() {
    let done = "data: [DONE]\n\n";
    for (reply, shown) in [
        (
            Reply::Json(
                r#"{"choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}"#
                    .into(),
            ),
            "1008",
        ),
        (
            Reply::Json(
                r#"{"success":false,"errors":[{"code":7003,"message":"No route for that URI"}]}"#.into(),
            ),
            "No route",
        ),
        (Reply::Json(r#"{"detail":"Not authenticated"}"#.into()), "Not authenticated"),
        (Reply::Json(r#"{"id":"x","object":"chat.completion","choices":[]}"#.into()), "chat.completion"),
        (Reply::Stream("<!doctype html><title>Sign in</title>".into()), "Sign in"),
        (Reply::Stream(r#"{"detail":"Not authenticated"}"#.into()), "Not authenticated"),
        (Reply::Stream(format!("data: {{\"message\":\"Overloaded\",\"code\":1}}\n\n{done}")), "Overloaded"),
        (
            Reply::Stream(format!("event: error\ndata: {{\"type\":\"error\",\"detail\":\"Oh\"}}\n\n{done}")),
            "Oh",
        ),
        (
            Reply::Stream(format!("{}data: {{\"message\":\"Overloaded\"}}\n\n{done}", text("Hi"))),
            "Overloaded",
        ),
    ] {
        // Some of them are worth another attempt.
        let server = Server::start(vec![reply; 3]).await;
        let told = match ask(&server.model()).await {
            Ok(events) => lines(&events),
            Err(error) => error.to_string(),
        };
        assert!(told.contains(shown) && !told.contains("finished"), "{shown}: {told}");
    }
}

#[tokio::test]
async fn a_call_in_the_form_of_old_is_a_call() {
    let call = r#"data: {"choices":[{"delta":{"function_call":{"name":"f","arguments":"{\"x\":1}"}},"finish_reason":null}]}"#;
    let body = [call, "\n\n", &finish("function_call"), "data: [DONE]\n\n"].concat();
    let server = Server::start(vec![Reply::Stream(body)]).await;
    let told = lines(&ask(&server.model()).await.unwrap());
    assert_eq!(told, "call 0 f\ncall 0 + {\"x\":1}\nfinished ToolCalls\n");
}

#[tokio::test]
async fn reasoning_that_comes_in_details_alone_is_reasoning() {
    let details = |reasoning: &str, text: &str| {
        let delta = json!({"content": "", "reasoning": reasoning, "reasoning_details": [{"type": "reasoning.text", "text": text}]});
        format!("data: {}\n\n", json!({"choices": [{"delta": delta}]}))
    };
    for reasoning in ["", "hm"] {
        let body = [&details(reasoning, "hm"), &text("Hello"), &finish("stop"), "data: [DONE]\n\n"].concat();
        let server = Server::start(vec![Reply::Stream(body)]).await;
        let told = lines(&ask(&server.model()).await.unwrap());
        let back = r#"{"fields":{"reasoning_details":[{"type":"reasoning.text","text":"hm"}]},"host":"127.0.0.1","model":"m-1"}"#;
        assert_eq!(told, format!("reasoning \"hm\"\ntext \"Hello\"\nback {back}\nfinished Stop\n"));
    }
}

#[tokio::test]
async fn reasoning_in_tags_is_reasoning() {
    let body =
        [&text("<thi"), &text("nk>hm</th"), &text("ink>\n\nHello"), &finish("stop"), "data: [DONE]\n\n"]
            .concat();
    let server = Server::start(vec![Reply::Stream(body)]).await;
    let told = lines(&ask(&server.model()).await.unwrap());
    assert_eq!(told, "reasoning \"hm\"\ntext \"Hello\"\nfinished Stop\n");
}

#[tokio::test]
async fn an_event_without_end_is_refused() {
    let endless = format!("data: {}", "x".repeat(17 << 20));
    let server = Server::start(vec![Reply::Stream([&text("Hi"), endless.as_str()].concat())]).await;
    let events = ask(&server.model()).await.unwrap();
    assert!(matches!(events.last(), Some(Err(ModelError::Format(_)))));
    expect![[r#"
        text "Hi"
        error: the provider's answer could not be read: one event has more than 16777216 bytes
    "#]]
    .assert_eq(&lines(&events));
}

#[tokio::test]
async fn a_body_without_end_is_refused() {
    let server = Server::start(vec![Reply::Json(format!("{{\"x\": \"{}\"}}", "x".repeat(17 << 20)))]).await;
    let error = ask(&server.model()).await.unwrap_err();
    assert!(matches!(error, ModelError::Format(_)), "{error:?}");
    assert!(error.to_string().contains("the answer has more than 16777216 bytes"), "{error}");
}

// === stopping ===

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let mut server = Server::start(vec![Reply::Hold(text("Hi"))]).await;
    let mut events = server.model().stream(question()).await.unwrap();
    assert!(events.next().await.unwrap().is_ok());
    drop(events);
    server.hung_up().await;
}

#[tokio::test]
async fn dropping_the_question_before_its_first_event_closes_the_connection() {
    let mut server = Server::start(vec![Reply::Hold(String::new())]).await;
    let model = server.model();
    let asking = tokio::spawn(async move { model.stream(question()).await.map(drop) });
    while server.count() == 0 {
        tokio::task::yield_now().await;
    }
    asking.abort();
    server.hung_up().await;
}

// === the key ===

#[tokio::test]
async fn without_a_key_no_authorization_is_sent() {
    let server = Server::start(vec![good()]).await;
    let config = OpenAiConfig { base_url: Some(server.base_url.clone()), ..OpenAiConfig::new("m-1") };
    ask(&OpenAi::build(config).unwrap()).await.unwrap();
    let head = server.take_request().head.to_lowercase();
    assert!(!head.contains("authorization") && !head.contains("openai-"), "{head}");
}
