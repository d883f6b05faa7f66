//! Tests of the rules of the fold, and of the replay as its inverse. `real_clients` compares the fold with the clients.

use expect_test::expect;
use fermata_protocol::{
    ApprovalId, Assembler, MessageId, Profile, ToolState, UiChunk, UiMessage, UiPart, outcome, replay,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn chunk(value: Value) -> UiChunk {
    UiChunk::from_record(&value.to_string()).unwrap()
}

fn folded(chunks: impl IntoIterator<Item = UiChunk>) -> UiMessage {
    let mut assembler = Assembler::new(MessageId::new("m"));
    for chunk in chunks {
        assembler.apply(&chunk).unwrap();
    }
    assembler.snapshot()
}

#[test]
fn a_chunk_that_would_end_a_chat_is_an_error_and_changes_nothing() {
    let mut assembler = Assembler::new(MessageId::new("m"));
    assembler.apply(&chunk(json!({"type": "text-start", "id": "t"}))).unwrap();
    assembler.apply(&chunk(json!({"type": "text-end", "id": "t"}))).unwrap();
    let before = assembler.snapshot();
    let errors = [
        json!({"type": "text-delta", "id": "t", "delta": "x"}),
        json!({"type": "text-end", "id": "t"}),
        json!({"type": "reasoning-delta", "id": "t", "delta": "x"}),
        json!({"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "x"}),
        json!({"type": "tool-output-available", "toolCallId": "c", "output": 1}),
        json!({"type": "tool-output-error", "toolCallId": "c", "errorText": "e"}),
        json!({"type": "tool-output-denied", "toolCallId": "c"}),
        json!({"type": "tool-approval-request", "approvalId": "p", "toolCallId": "c"}),
        json!({"type": "tool-approval-response", "approvalId": "p", "approved": true}),
    ]
    .map(|value| assembler.apply(&chunk(value)).unwrap_err().to_string());
    expect![[r#"
        text t is not open
        text t is not open
        reasoning t is not open
        the input of call c has not started
        there is no call c
        there is no call c
        there is no call c
        there is no call c
        no call has the approval p"#]]
    .assert_eq(&errors.join("\n"));
    assert_eq!(assembler.snapshot(), before);
}

#[test]
fn a_call_takes_no_delta_after_anything_else() {
    let start = json!({"type": "tool-input-start", "toolCallId": "c", "toolName": "t"});
    let delta = json!({"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "{}"});
    for other in [
        json!({"type": "tool-input-available", "toolCallId": "c", "toolName": "t", "input": {}}),
        json!({"type": "tool-input-error", "toolCallId": "c", "toolName": "t", "input": {}, "errorText": "e"}),
        json!({"type": "tool-approval-request", "approvalId": "p", "toolCallId": "c"}),
        json!({"type": "tool-output-error", "toolCallId": "c", "errorText": "e"}),
    ] {
        let mut assembler = Assembler::new(MessageId::new("m"));
        for value in [&start, &delta, &other] {
            assembler.apply(&chunk(value.clone())).unwrap();
        }
        let before = assembler.snapshot();
        assert!(assembler.apply(&chunk(delta.clone())).is_err(), "{other}");
        assert_eq!(assembler.snapshot(), before);
    }
}

#[test]
fn a_decision_is_stored_with_the_approval_request() {
    let mut assembler = Assembler::new(MessageId::new("m"));
    for value in [
        json!({"type": "tool-input-available", "toolCallId": "c", "toolName": "t", "input": {}}),
        json!({"type": "tool-approval-request", "approvalId": "p", "toolCallId": "c", "reason": "why"}),
    ] {
        assembler.apply(&chunk(value)).unwrap();
    }
    assembler.decide(&ApprovalId::new("other"), true, None);
    assembler.decide(&ApprovalId::new("p"), false, Some("no"));
    expect![[r#"[{"type":"tool-t","toolCallId":"c","state":"approval-responded","input":{},"approval":{"id":"p","approved":false,"reason":"no","requestReason":"why"}}]"#]].assert_eq(&json!(assembler.snapshot().parts).to_string());
}

#[test]
fn a_stored_message_is_continued_where_its_input_stopped() {
    let mut first = Assembler::new(MessageId::new("m"));
    first.apply(&chunk(json!({"type": "start-step"}))).unwrap();
    first.apply(&chunk(json!({"type": "tool-input-start", "toolCallId": "c", "toolName": "t"}))).unwrap();
    first
        .apply(&chunk(json!({"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "{\"a\":"})))
        .unwrap();
    let mut second = Assembler::from_message(first.snapshot());
    let rest = chunk(json!({"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "1}"}));
    second.apply(&rest).unwrap();
    first.apply(&rest).unwrap();
    assert_eq!(second.snapshot(), first.snapshot());
    assert_eq!(first.snapshot().parts[1].as_tool().unwrap().state.input(), Some(&json!({"a": 1}).into()));
}

#[test]
fn a_refused_input_differs_from_the_input_of_a_call_that_failed() {
    let refused = folded([chunk(
        json!({"type": "tool-input-error", "toolCallId": "c", "toolName": "t", "input": 1, "errorText": "e"}),
    )]);
    let shown = |profile: Profile| json!(profile.message(&refused).parts[0]);
    assert_eq!(
        shown(Profile::V7),
        json!({"type": "tool-t", "toolCallId": "c", "state": "output-error", "input": 1, "errorText": "e"})
    );
    assert_eq!(
        shown(Profile::V6),
        json!({"type": "tool-t", "toolCallId": "c", "state": "output-error", "rawInput": 1, "errorText": "e"})
    );
}

#[test]
fn only_a_settled_call_has_an_outcome() {
    let part = |state: ToolState| {
        let mut message = folded([chunk(
            json!({"type": "tool-input-available", "toolCallId": "c", "toolName": "t", "input": 1, "dynamic": true}),
        )]);
        let UiPart::Tool(part) = &mut message.parts[0] else { panic!("a call is a tool part") };
        part.state = state;
        outcome(part).map(|chunk| chunk.to_record())
    };
    let output = |preliminary| ToolState::OutputAvailable { input: None, output: json!(1), preliminary };
    assert_eq!(part(output(Some(true))), None);
    assert_eq!(part(ToolState::InputAvailable { input: json!(1).into() }), None);
    let settled = part(output(None)).unwrap();
    assert_eq!(settled, r#"{"type":"tool-output-available","toolCallId":"c","output":1,"dynamic":true}"#);
    let denied = part(ToolState::OutputDenied { input: None, raw_input: None, error_text: None }).unwrap();
    assert_eq!(
        denied,
        r#"{"type":"tool-output-denied","toolCallId":"c","errorText":"Denied: the call was not approved.","dynamic":true}"#
    );
}

#[test]
fn a_replay_from_a_later_step_leaves_out_the_earlier() {
    let step = |id: &str| {
        [
            json!({"type": "start-step"}),
            json!({"type": "text-start", "id": id}),
            json!({"type": "text-delta", "id": id, "delta": id}),
            json!({"type": "text-end", "id": id}),
            json!({"type": "finish-step"}),
        ]
        .map(chunk)
    };
    let message = folded([step("one"), step("two"), step("three")].concat());
    let lines: Vec<String> = replay(&message, 2).iter().map(|chunk| json!(chunk).to_string()).collect();
    expect![[r#"
        {"type":"start","messageId":"m"}
        {"type":"start-step"}
        {"type":"text-start","id":"part-5"}
        {"type":"text-delta","id":"part-5","delta":"three"}
        {"type":"text-end","id":"part-5"}
        {"type":"finish-step"}
        {"type":"finish"}"#]]
    .assert_eq(&lines.join("\n"));
    assert_eq!(replay(&message, 9).len(), 2, "start and finish are always there");
}

/// Generates any chunk that a run might write about three calls and their texts, sensible or not. A chunk that is not generated here is
/// replayed only in the transcripts of `real_clients`, so a new chunk that makes or changes a part belongs here.
fn any_chunk() -> impl Strategy<Value = UiChunk> {
    let call = prop::sample::select(vec!["a", "b", "c"]);
    let input = prop::sample::select(vec![json!(null), json!({"x": 1}), json!([1.5, "é"]), json!("{")]);
    let delta = prop::sample::select(vec!["{", "\"x\"", ":", "[1", "tru", "}", "é", "\\u00", ""]);
    (0..19_u8, call, input, delta, any::<bool>()).prop_map(|(kind, call, input, delta, flag)| {
        let dynamic = call == "c";
        chunk(match kind {
            0 => json!({"type": "start-step"}),
            1 => json!({"type": "text-start", "id": call}),
            2 => json!({"type": "text-delta", "id": call, "delta": delta}),
            3 => json!({"type": "text-end", "id": call, "providerMetadata": {"p": {"d": delta}}}),
            4 => json!({"type": "reasoning-start", "id": call}),
            5 => json!({"type": "reasoning-end", "id": call}),
            6 => json!({"type": "data-x", "id": call, "data": input, "transient": flag}),
            7 => json!({"type": "message-metadata", "messageMetadata": {call: {delta: input}}}),
            8 => json!({"type": "file", "url": "data:,", "mediaType": "a/b"}),
            9 | 10 => json!({"type": "tool-input-start", "toolCallId": call, "toolName": "t", "dynamic": dynamic, "title": "T"}),
            11 | 12 => json!({"type": "tool-input-delta", "toolCallId": call, "inputTextDelta": delta}),
            13 => json!({"type": "tool-input-available", "toolCallId": call, "toolName": "t", "input": input, "dynamic": dynamic}),
            14 => json!({"type": "tool-input-error", "toolCallId": call, "toolName": "t", "input": input, "errorText": "e", "dynamic": dynamic}),
            15 => json!({"type": "tool-approval-request", "approvalId": format!("p-{call}"), "toolCallId": call, "toolName": "t"}),
            16 => json!({"type": "tool-output-available", "toolCallId": call, "output": input, "preliminary": flag, "dynamic": dynamic}),
            17 => json!({"type": "tool-output-error", "toolCallId": call, "errorText": "e", "dynamic": dynamic}),
            _ => json!({"type": "tool-output-denied", "toolCallId": call, "errorText": "Denied: the call was not approved.", "dynamic": dynamic}),
        })
    })
}

proptest! {
    #[test]
    fn folding_a_replay_gives_the_message_again(chunks in prop::collection::vec(any_chunk(), 0..40)) {
        let mut assembler = Assembler::new(MessageId::new("m"));
        for chunk in &chunks {
            if is_sensible(&assembler.snapshot(), chunk) {
                let _ = assembler.apply(chunk);
            }
        }
        let message = assembler.snapshot();
        prop_assert_eq!(folded(replay(&message, 0)), message);
    }

    #[test]
    fn no_delta_and_no_profile_makes_it_panic(chunks in prop::collection::vec(any_chunk(), 0..60), text in "\\PC{0,40}") {
        let mut assembler = Assembler::new(MessageId::new("m"));
        let start = chunk(json!({"type": "tool-input-start", "toolCallId": "z", "toolName": "t"}));
        let delta = chunk(json!({"type": "tool-input-delta", "toolCallId": "z", "inputTextDelta": text}));
        for chunk in chunks.iter().chain([&start, &delta]) {
            let _ = assembler.apply(chunk);
        }
        let message = assembler.snapshot();
        for profile in [Profile::V5, Profile::V6, Profile::V7, Profile::of_version("7.0.173").unwrap()] {
            let shown = profile.message(&message);
            prop_assert_eq!(profile.message(&shown).parts.len(), shown.parts.len());
        }
        let written = json!(message).to_string();
        prop_assert_eq!(serde_json::from_str::<UiMessage>(&written).unwrap(), message);
    }

    #[test]
    fn text_that_is_cut_anywhere_is_read_or_not_but_never_panics(text in "[\\[\\]{}\",:\\\\u0-9a-f.eE+\\- truefalsn😀]{0,60}") {
        let start = chunk(json!({"type": "tool-input-start", "toolCallId": "z", "toolName": "t"}));
        let delta = chunk(json!({"type": "tool-input-delta", "toolCallId": "z", "inputTextDelta": text}));
        let message = folded([start, delta]);
        if let Ok(whole) = serde_json::from_str::<Value>(&text) {
            prop_assert_eq!(message.parts[0].as_tool().unwrap().state.input(), Some(&whole.into()));
        }
    }
}

/// Returns whether a run would write the chunk: it begins no step between a call and its outcome, streams no input that is
/// complete or waits for approval, and writes nothing about a call that has its output.
fn is_sensible(message: &UiMessage, chunk: &UiChunk) -> bool {
    if matches!(chunk, UiChunk::StartStep) {
        return message.parts.iter().filter_map(UiPart::as_tool).all(|part| part.state.is_settled());
    }
    let call = json!(chunk)["toolCallId"].as_str().map(str::to_owned);
    let mut calls = message.parts.iter().filter_map(UiPart::as_tool);
    let Some(part) = calls.find(|part| call.as_deref() == Some(part.tool_call_id.as_str())) else {
        return true;
    };
    let streams = matches!(chunk, UiChunk::ToolInputStart { .. } | UiChunk::ToolInputDelta { .. });
    let asks = matches!(chunk, UiChunk::ToolApprovalRequest { .. });
    match part.state {
        ToolState::InputStreaming { .. } => true,
        ToolState::InputAvailable { .. }
        | ToolState::ApprovalRequested { .. }
        | ToolState::ApprovalResponded { .. } => !streams,
        ToolState::OutputAvailable { .. } => {
            !streams
                && !asks
                && !part.state.is_settled()
                && !matches!(chunk, UiChunk::ToolInputAvailable { .. })
        }
        ToolState::OutputError { .. } | ToolState::OutputDenied { .. } => false,
    }
}
