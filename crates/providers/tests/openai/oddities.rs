//! Deviations from the specification that do no harm.

use expect_test::{Expect, expect};
use fermata_engine::{Model, model::ModelEvent};
use futures::StreamExt;

use crate::server::{Reply, Server, ask, lines, question};

const DONE: &str = "data: [DONE]\n\n";

/// An event with this delta, which is JSON text.
fn delta(delta: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n")
}

fn text(text: &str) -> String {
    delta(&format!("{{\"content\":\"{text}\"}}"))
}

async fn check(body: String, expected: Expect) {
    let server = Server::start(vec![Reply::Stream(body)]).await;
    let received = match ask(&server.model()).await {
        Ok(events) => lines(&events),
        Err(error) => format!("refused: {error}\n"),
    };
    expected.assert_eq(&received);
    assert_eq!(server.count(), 1);
}

// === half characters ===

#[tokio::test]
async fn a_character_that_is_cut_between_two_deltas_is_joined() {
    check(
        [&text(r"x\ud83e"), &text(r"\udd80y"), DONE].concat(),
        expect![[r#"
            text "x🦀y"
            finished Other
        "#]],
    )
    .await;
    check(
        [
            &delta(r#"{"reasoning_content":"x\uD83E"}"#),
            &delta(r#"{"reasoning_content":"\uDD80"}"#),
            &delta(r#"{"reasoning_content":"y"}"#),
            DONE,
        ]
        .concat(),
        expect![[r#"
            reasoning "x🦀y"
            finished Other
        "#]],
    )
    .await;
}

#[tokio::test]
async fn the_arguments_of_each_call_are_joined_on_their_own() {
    let piece = |index: usize, name: &str, arguments: &str| {
        delta(&format!(
            r#"{{"tool_calls":[{{"index":{index},"function":{{"name":{name},"arguments":"{arguments}"}}}}]}}"#
        ))
    };
    check(
        [
            &piece(0, r#""get_weather""#, r#"{\"city\":\"\ud83e"#),
            &piece(1, r#""get_weather""#, r#"{\"city\":\"\ud83d"#),
            &piece(0, "null", r#"\udd80\"}"#),
            &piece(1, "null", r#"\udc4b\"}"#),
            DONE,
        ]
        .concat(),
        expect![[r#"
            call 0 get_weather
            call 0 + {"city":"
            call 1 get_weather
            call 1 + {"city":"
            call 0 + 🦀"}
            call 1 + 👋"}
            finished ToolCalls
        "#]],
    )
    .await;
}

#[tokio::test]
async fn half_a_character_whose_other_half_never_comes_is_replaced() {
    check(
        [&text(r"a\ud83eb\udd80c\\ud83e\ud83e\udd80"), &text(r"\udd80d\ud83e"), DONE].concat(),
        expect![[r#"
            text "a�b�c\\ud83e🦀�d�"
            finished Other
        "#]],
    )
    .await;
    check(
        [&text(r"\ud83e"), &delta(r#"{"reasoning":"\udd80"}"#), &text("b"), DONE].concat(),
        expect![[r#"
            text "�"
            reasoning "�"
            text "b"
            finished Other
        "#]],
    )
    .await;
}

#[tokio::test]
async fn half_a_character_in_a_body_that_is_not_streamed_is_replaced() {
    let body = r#"{"choices":[{"message":{"content":"a\ud83e"},"finish_reason":"stop"}]}"#;
    let server = Server::start(vec![Reply::Json(body.into())]).await;
    let events = ask(&server.model()).await.unwrap();
    assert_eq!(lines(&events), "text \"a\u{fffd}\"\nfinished Stop\n");
}

// === what says nothing ===

#[tokio::test]
async fn a_byte_order_mark_is_no_part_of_the_answer() {
    let hi = "text \"Hi\"\nfinished Other\n";
    let body = ["\u{feff}", &text("Hi"), DONE].concat();
    for reply in [Reply::Stream(body.clone()), Reply::Json(body)] {
        let server = Server::start(vec![reply]).await;
        assert_eq!(lines(&ask(&server.model()).await.unwrap()), hi);
    }
    let body = "\u{feff}{\"choices\":[{\"message\":{\"content\":\"Hi\"}}]}";
    let server = Server::start(vec![Reply::Json(body.into())]).await;
    assert_eq!(lines(&ask(&server.model()).await.unwrap()), hi);
}

#[tokio::test]
async fn events_that_say_nothing_are_passed_over() {
    for event in [
        "data:\n\n",
        "data\n\n",
        "data: null\n\n",
        "data: 7\n\n",
        "data: true\n\n",
        "data: \"processing\"\n\n",
        "data: []\n\n",
        "event: ping\ndata: {}\n\n",
        "event: keepalive\ndata: zzz\n\n",
        "id: 7\nretry: 10\n\n",
        "data: {\"choices\":[null]}\n\n",
        "data: {\"choices\":{}}\n\n",
        "data: {\"choices\":[7,\"x\"]}\n\n",
        "data: {\"choices\":[{\"delta\":7}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[null]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":{}}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":[null,7]}}]}\n\n",
    ] {
        let body = [event, &text("a"), event, &text("b"), event, DONE].concat();
        let server = Server::start(vec![Reply::Stream(body)]).await;
        let received = ask(&server.model()).await.map(|events| lines(&events));
        assert_eq!(received.as_deref(), Ok("text \"ab\"\nfinished Other\n"), "{event}");
        assert_eq!(server.count(), 1, "{event}");
    }
}

#[tokio::test]
async fn an_error_in_a_list_is_an_error() {
    check(
        [&text("a"), "data: [{\"error\":{\"message\":\"slow down\",\"code\":429}}]\n\n"].concat(),
        expect![[r#"
            text "a"
            error: the provider limits the rate: slow down
        "#]],
    )
    .await;
}

#[tokio::test]
async fn an_event_in_several_lines_is_one_and_a_comment_between_them_none() {
    check(
        [
            "data: {\"choices\":\r\n: at work\r\ndata: [{\"delta\":{\"content\":\"a\"}}]}\r\n\r\n",
            &text("b").replace('\n', "\r"),
            // The last event needs no empty line after it.
            DONE.trim_end(),
        ]
        .concat(),
        expect![[r#"
            text "ab"
            finished Other
        "#]],
    )
    .await;
}

// === signs of life ===

#[tokio::test]
async fn a_comment_is_a_sign_of_life() {
    let server = Server::start(vec![Reply::Hold(": PROCESSING\n\n".into())]).await;
    let mut events = server.model().stream(question()).await.unwrap();
    assert_eq!(events.next().await, Some(Ok(ModelEvent::Alive)));
}

#[tokio::test]
async fn after_a_sign_of_life_alone_the_question_is_asked_again() {
    let overloaded = ": PROCESSING\n\ndata: {\"error\":{\"code\":503,\"message\":\"overloaded\"}}\n\n";
    let server = Server::start(vec![
        Reply::Stream(overloaded.into()),
        Reply::Cut(": PROCESSING\n\n".into()),
        Reply::Stream([&text("a"), DONE].concat()),
    ])
    .await;
    assert_eq!(lines(&ask(&server.model()).await.unwrap()), "text \"a\"\nfinished Other\n");
    assert_eq!(server.count(), 3);
}

#[tokio::test]
async fn after_a_sign_of_life_the_last_failure_is_told_once_and_last() {
    let refused = ": PROCESSING\n\ndata: {\"error\":{\"code\":400,\"message\":\"no\"}}\n\n";
    let server = Server::start(vec![Reply::Stream(refused.into())]).await;
    // If both come together, the failure is the first event.
    let events = ask(&server.model()).await.unwrap_or_else(|error| vec![Err(error)]);
    assert_eq!(lines(&events), "error: the provider refused the request: no\n");
    assert_eq!(server.count(), 1);
}

// === names of tools ===

#[tokio::test]
async fn a_call_has_the_tools_own_name_if_it_was_offered_by_another() {
    let server = Server::start(vec![Reply::Stream(
        [
            &delta(
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"_3d__render","arguments":"{}"}}]}"#,
            ),
            DONE,
        ]
        .concat(),
    )])
    .await;
    let mut request = question();
    request.tools[0].name = "3d__render".into();
    let model = server.model_named("gemini-3-flash-preview");
    let events: Vec<_> = model.stream(request).await.unwrap().collect().await;
    assert!(lines(&events).starts_with("call 0 3d__render\n"), "{events:?}");
    let body = server.take_request().body;
    assert_eq!(body["tools"][0]["function"]["name"], "_3d__render");
}
