//! Recorded traffic of providers, and the events that the engine gets.

use std::path::Path;

use bytes::Bytes;
use expect_test::{Expect, expect};

use crate::server::{KEY, Reply, Server, ask, lines, question_on_the_wire};

async fn check(body: &str, expected: Expect) {
    let server = Server::start(vec![Reply::Stream(body.to_owned())]).await;
    let events = ask(&server.model()).await.unwrap();
    assert_eq!(server.count(), 1);
    let request = server.take_request();
    assert!(request.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", request.head);
    assert!(request.head.contains(&format!("authorization: Bearer {KEY}\r\n")), "{}", request.head);
    assert_eq!(request.body, question_on_the_wire());
    expected.assert_eq(&lines(&events));
}

#[tokio::test]
async fn openai_text() {
    check(
        include_str!("../traffic/openai-text.sse"),
        expect![[r#"
            text "Grüß dich! 👋"
            finished Stop 19+10=29
        "#]],
    )
    .await;
}

#[tokio::test]
async fn openai_calls() {
    check(
        include_str!("../traffic/openai-calls.sse"),
        expect![[r#"
            call 0 get_weather
            call 0 + {"city":"Bern"}
            call 1 current_time
            call 1 + {}
            finished ToolCalls 19+10=29
        "#]],
    )
    .await;
}

#[tokio::test]
async fn deepseek_reasoning_and_call() {
    check(
        include_str!("../traffic/deepseek-reasoning-and-call.sse"),
        expect![[r#"
            reasoning "The city is Bern."
            text "Looking it up."
            call 0 get_weather
            call 0 + {"city": "Bern"}
            finished ToolCalls 330+58=388
        "#]],
    )
    .await;
}

#[tokio::test]
async fn openrouter_reasoning_and_comments() {
    check(
        include_str!("../traffic/openrouter-reasoning.sse"),
        expect![[r#"
            reasoning "Greet back."
            text "Hello!"
            back {"fields":{"reasoning_details":[{"type":"reasoning.text","text":"Greet back.","format":"unknown","index":0}]},"host":"127.0.0.1","model":"m-1"}
            finished Stop 8+12=20
        "#]],
    )
    .await;
}

#[tokio::test]
async fn openrouter_signed_reasoning() {
    check(include_str!("../traffic/openrouter-signed-reasoning.sse"), expect![[r#"
        reasoning "The city is Bern."
        call 0 get_weather
        call 0 + {"city":"Bern"}
        back {"fields":{"reasoning_details":[{"type":"reasoning.text","text":"The city is Bern.","format":"anthropic-claude-v1","index":0,"signature":"ErUBCkYIBxgC"}]},"host":"127.0.0.1","model":"m-1"}
        finished ToolCalls 420+61=481
    "#]]).await;
}

#[tokio::test]
async fn openrouter_reasoning_that_is_encrypted_for_a_call() {
    check(include_str!("../traffic/openrouter-encrypted-reasoning.sse"), expect![[r#"
        call 0 get_weather
        call 0 + {"city":"Bern"}
        back 0 {"id":"tool_0_get_weather","fields":{},"host":"127.0.0.1","model":"m-1"}
        back {"fields":{"reasoning_details":[{"type":"reasoning.encrypted","data":"EjQKMgEMOdbHJChL","id":"tool_0_get_weather","format":"google-gemini-v1","index":0}]},"host":"127.0.0.1","model":"m-1"}
        finished ToolCalls 85+126=211
    "#]]).await;
}

#[tokio::test]
async fn litellm_signatures_of_reasoning_and_of_a_call() {
    check(include_str!("../traffic/litellm-signatures.sse"), expect![[r#"
        reasoning "Bern."
        call 0 get_weather
        call 0 + {"city": "Bern"}
        back 0 {"fields":{"provider_specific_fields":{"thought_signature":"JChLEjQKMgEM"}},"host":"127.0.0.1","model":"m-1"}
        back {"fields":{"thinking_blocks":[{"type":"thinking","thinking":"Bern.","signature":"EjQKMgEMOdbH"}]},"host":"127.0.0.1","model":"m-1"}
        finished ToolCalls
    "#]]).await;
}

#[tokio::test]
async fn openrouter_error_in_the_middle() {
    check(
        include_str!("../traffic/openrouter-error-in-the-middle.sse"),
        expect![[r#"
            text "Half an"
            error: the provider failed: Provider disconnected unexpectedly
        "#]],
    )
    .await;
}

#[tokio::test]
async fn mistral_thinking_and_calls() {
    check(
        include_str!("../traffic/mistral-thinking-and-calls.sse"),
        expect![[r#"
            reasoning "Two calls."
            text "One moment."
            call 0 get_weather
            call 0 + {"city": "Bern"}
            call 1 current_time
            call 1 + {}
            finished ToolCalls 94+28=122
        "#]],
    )
    .await;
}

#[tokio::test]
async fn groq_call_in_one_piece() {
    check(
        include_str!("../traffic/groq-call-in-one-piece.sse"),
        expect![[r#"
            reasoning "Need the time."
            call 0 current_time
            call 1 get_weather
            call 1 + {"city":"Bern"}
            finished ToolCalls 134+33=167
        "#]],
    )
    .await;
}

#[tokio::test]
async fn gemini_calls_without_index() {
    check(
        include_str!("../traffic/gemini-calls-without-index.sse"),
        expect![[r#"
            call 0 get_weather
            call 0 + {"city":"Bern"}
            call 1 get_weather
            call 1 + {"city":"Basel"}
            back 0 {"fields":{"extra_content":{"google":{"thought_signature":"EjQKMgEMOdbHJChL"}}},"host":"127.0.0.1","model":"m-1"}
            back {"fields":{"extra_content":{"google":{"thought_signature":"EjQKMgEMOdbHJChL"}}},"host":"127.0.0.1","model":"m-1"}
            finished Stop 85+24=211
        "#]],
    )
    .await;
}

#[tokio::test]
async fn gemini_calls_that_are_all_index_0() {
    check(
        include_str!("../traffic/gemini-proxy-calls-all-index-0.sse"),
        expect![[r#"
            text "Both. "
            call 0 get_weather
            call 0 + {"city":"Bern"}
            call 1 get_weather
            call 1 + {"city":"Basel"}
            finished Stop 85+24=211
        "#]],
    )
    .await;
}

#[tokio::test]
async fn ollama_calls() {
    check(
        include_str!("../traffic/ollama-calls.sse"),
        expect![[r#"
            reasoning "Okay."
            call 0 get_weather
            call 0 + {"city":"Bern"}
            call 1 current_time
            call 1 + {}
            finished ToolCalls 160+40=200
        "#]],
    )
    .await;
}

#[tokio::test]
async fn vllm_call() {
    check(
        include_str!("../traffic/vllm-call.sse"),
        expect![[r#"
            reasoning "Time?"
            call 0 get_weather
            call 0 + {"city": "Bern"}
            finished ToolCalls 170+25=195
        "#]],
    )
    .await;
}

#[tokio::test]
async fn llama_cpp_call_without_id() {
    check(
        include_str!("../traffic/llama-cpp-call.sse"),
        expect![[r#"
            call 0 get_weather
            call 0 + {"city":"Bern"}
            finished ToolCalls 140+17=157
        "#]],
    )
    .await;
}

#[tokio::test]
async fn llama_cpp_python_with_crlf_and_without_done() {
    check(
        include_str!("../traffic/llama-cpp-python-crlf.sse"),
        expect![[r#"
            call 0 get_weather
            call 0 + {"city":"Bern"}
            finished ToolCalls
        "#]],
    )
    .await;
}

#[tokio::test]
async fn openai_search_with_citations() {
    check(include_str!("../traffic/openai-search.sse"), expect![[r#"
        text "Bern is sunny ([weather.example](https://weather.example/bern))."
        Source { url: "https://weather.example/bern", title: Some("Weather in Bern") }
        Citation(Citation { url: "https://weather.example/bern", title: Some("Weather in Bern"), start: Some(14), end: Some(61), passage: None })
        finished Stop 12+40=52
    "#]]).await;
}

#[tokio::test]
async fn perplexity_sources_beside_the_answer() {
    check(
        include_str!("../traffic/perplexity-sources.sse"),
        expect![[r#"
        Source { url: "https://weather.example/bern", title: Some("Weather in Bern") }
        Source { url: "https://city.example/", title: Some("Bern") }
        text "Bern is sunny.[1]"
        finished Stop 7+4=11
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_events_are_the_same_wherever_the_traffic_is_cut() {
    let server = Server::start(Vec::new()).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traffic");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "sse") {
            continue;
        }
        files += 1;
        let body = Bytes::from(std::fs::read(&path).unwrap());
        let (model, mut whole) = (server.model(), None);
        for at in 0..body.len() {
            let cut = model.with_recording(vec![body.slice(..at), body.slice(at..)]);
            let read = match ask(&cut).await {
                Ok(events) => lines(&events),
                Err(error) => format!("error: {error}"),
            };
            // A refusal ends the request or the answer, and its words differ.
            let read = if read.starts_with("error: ") { "refused".to_owned() } else { read };
            let expected = whole.get_or_insert_with(|| read.clone());
            assert_eq!(read, *expected, "{} cut at byte {at}", path.display());
        }
    }
    assert!(files >= 15, "{files} files");
}
