//! Tests of every chunk on the wire for every profile, and of frames, records and parts.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use fermata_protocol::{
    EventId, Frames, Profile, RunId, UiChunk, UiMessage, UiPart, denial_text, encode, encode_ephemeral,
};
use serde_json::{Value, json};

fn chunk(value: &Value) -> UiChunk {
    UiChunk::from_record(&value.to_string()).unwrap()
}

/// The major versions, each followed by its releases that know more than those before.
const RELEASES: [&str; 17] = [
    "5", "5.0.92", "5.0.217", "6", "6.0.15", "6.0.120", "6.0.176", "6.0.202", "6.0.231", "7", "7.0.70",
    "7.0.82", "7.0.87", "7.0.113", "7.0.138", "7.0.149", "7.0.154",
];

/// Compares what each release is sent. Releases that are sent equal chunks share a line; one that is sent the same as the
/// release before it is not named.
fn check(chunks: &[Value], expected: Expect) {
    let mut table = String::new();
    for value in chunks {
        let chunk = chunk(value);
        assert_eq!(UiChunk::from_record(&chunk.to_record()).unwrap(), chunk, "the record keeps everything");
        let mut views: Vec<(String, Vec<&str>)> = Vec::new();
        let mut before = String::new();
        for release in RELEASES {
            let profile = Profile::of_version(release).unwrap();
            let view = profile.chunk(&chunk).map_or("-".to_owned(), |chunk| json!(chunk).to_string());
            if release.contains('.') && view == before {
                continue;
            }
            before.clone_from(&view);
            match views.iter_mut().find(|(other, _)| *other == view) {
                Some((_, releases)) => releases.push(release),
                None => views.push((view, vec![release])),
            }
        }
        for (view, releases) in views {
            writeln!(table, "{:<5} {view}", releases.join(" ")).unwrap();
        }
    }
    expected.assert_eq(&table);
}

#[test]
fn chunks_that_frame_a_message() {
    check(
        &[
            json!({"type": "start", "messageId": "m", "messageMetadata": {"a": 1}}),
            json!({"type": "start", "messageMetadata": null}),
            json!({"type": "start-step"}),
            json!({"type": "finish-step"}),
            json!({"type": "reset-step"}),
            json!({"type": "message-metadata", "messageMetadata": {"a": 1}}),
            json!({"type": "finish", "finishReason": "tool-calls", "messageMetadata": {}}),
            json!({"type": "finish", "finishReason": "interrupted"}),
            json!({"type": "abort", "reason": "stopped"}),
            json!({"type": "error", "errorText": "e"}),
        ],
        expect![[r#"
            5 6 7 {"type":"start","messageId":"m","messageMetadata":{"a":1}}
            5 6 7 {"type":"start"}
            5 6 7 {"type":"start-step"}
            5 6 7 {"type":"finish-step"}
            5 6   -
            7     {"type":"reset-step"}
            5 6 7 {"type":"message-metadata","messageMetadata":{"a":1}}
            5     {"type":"finish","messageMetadata":{}}
            5.0.92 6 7 {"type":"finish","finishReason":"tool-calls","messageMetadata":{}}
            5 6 7 {"type":"error","errorText":"The answer was interrupted. Load the chat again in a moment."}
            7.0.149 {"type":"finish","finishReason":"interrupted"}
            5 6   {"type":"abort"}
            5.0.217 6.0.15 7 {"type":"abort","reason":"stopped"}
            5 6 7 {"type":"error","errorText":"e"}
        "#]],
    );
}

#[test]
fn chunks_with_content() {
    check(
        &[
            json!({"type": "text-start", "id": "t", "providerMetadata": {"p": {}}}),
            json!({"type": "text-delta", "id": "t", "delta": "\"\n"}),
            json!({"type": "text-end", "id": "t", "citations": [{}]}),
            json!({"type": "reasoning-start", "id": "r"}),
            json!({"type": "reasoning-delta", "id": "r", "delta": "hm", "providerMetadata": {"p": {}}}),
            json!({"type": "reasoning-end", "id": "r"}),
            json!({"type": "reasoning-file", "url": "data:,", "mediaType": "image/png"}),
            json!({"type": "custom", "kind": "a.b"}),
            json!({"type": "custom", "kind": "fermata.provider-metadata", "providerMetadata": {"fermata": {}}}),
            json!({"type": "source-url", "sourceId": "s", "url": "https://x.test", "title": "X"}),
            json!({"type": "source-document", "sourceId": "s", "mediaType": "text/plain", "title": "D", "filename": "d"}),
            json!({"type": "file", "url": "data:,", "mediaType": "text/plain", "providerMetadata": {"p": {}}}),
            json!({"type": "steering-message", "id": "s", "parts": []}),
            json!({"type": "data-x", "id": "1", "data": null, "transient": true}),
        ],
        expect![[r#"
            5 6 7 {"type":"text-start","id":"t","providerMetadata":{"p":{}}}
            5 6 7 {"type":"text-delta","id":"t","delta":"\"\n"}
            5 6 7 {"type":"text-end","id":"t"}
            7.0.138 {"type":"text-end","id":"t","citations":[{}]}
            5 6 7 {"type":"reasoning-start","id":"r"}
            5 6 7 {"type":"reasoning-delta","id":"r","delta":"hm","providerMetadata":{"p":{}}}
            5 6 7 {"type":"reasoning-end","id":"r"}
            5 6   -
            7     {"type":"reasoning-file","url":"data:,","mediaType":"image/png"}
            5 6   -
            7     {"type":"custom","kind":"a.b"}
            5 6 7 -
            5 6 7 {"type":"source-url","sourceId":"s","url":"https://x.test","title":"X"}
            5 6 7 {"type":"source-document","sourceId":"s","mediaType":"text/plain","title":"D","filename":"d"}
            5     {"type":"file","url":"data:,","mediaType":"text/plain"}
            6 7   {"type":"file","url":"data:,","mediaType":"text/plain","providerMetadata":{"p":{}}}
            5 6 7 -
            7.0.154 {"type":"steering-message","id":"s","parts":[]}
            5 6 7 {"type":"data-x","id":"1","data":null,"transient":true}
        "#]],
    );
}

#[test]
fn chunks_of_calls() {
    let all = json!({"title": "T", "toolMetadata": {"k": 1}, "providerMetadata": {"p": {}}, "providerExecuted": true, "dynamic": true});
    let with = |mut chunk: Value| {
        for (key, value) in all.as_object().unwrap() {
            chunk[key] = value.clone();
        }
        chunk
    };
    check(
        &[
            with(
                json!({"type": "tool-input-start", "toolCallId": "c", "toolName": "t", "inputEncoding": "text"}),
            ),
            json!({"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "{"}),
            with(json!({"type": "tool-input-available", "toolCallId": "c", "toolName": "t", "input": null})),
            with(
                json!({"type": "tool-input-error", "toolCallId": "c", "toolName": "t", "input": 1, "errorText": "e"}),
            ),
            with(
                json!({"type": "tool-output-available", "toolCallId": "c", "output": null, "preliminary": true}),
            ),
            with(json!({"type": "tool-output-error", "toolCallId": "c", "errorText": "e"})),
        ],
        expect![[r#"
            5     {"type":"tool-input-start","toolCallId":"c","toolName":"t","providerExecuted":true,"dynamic":true}
            6     {"type":"tool-input-start","toolCallId":"c","toolName":"t","providerExecuted":true,"dynamic":true,"title":"T"}
            6.0.176 {"type":"tool-input-start","toolCallId":"c","toolName":"t","providerExecuted":true,"toolMetadata":{"k":1},"dynamic":true,"title":"T"}
            7     {"type":"tool-input-start","toolCallId":"c","toolName":"t","providerExecuted":true,"providerMetadata":{"p":{}},"toolMetadata":{"k":1},"dynamic":true,"title":"T"}
            5 6 7 {"type":"tool-input-delta","toolCallId":"c","inputTextDelta":"{"}
            5     {"type":"tool-input-available","toolCallId":"c","toolName":"t","input":null,"providerExecuted":true,"providerMetadata":{"p":{}},"dynamic":true}
            6     {"type":"tool-input-available","toolCallId":"c","toolName":"t","input":null,"providerExecuted":true,"providerMetadata":{"p":{}},"dynamic":true,"title":"T"}
            6.0.176 7 {"type":"tool-input-available","toolCallId":"c","toolName":"t","input":null,"providerExecuted":true,"providerMetadata":{"p":{}},"toolMetadata":{"k":1},"dynamic":true,"title":"T"}
            5     {"type":"tool-input-error","toolCallId":"c","toolName":"t","input":1,"errorText":"e","providerExecuted":true,"dynamic":true}
            6     {"type":"tool-input-error","toolCallId":"c","toolName":"t","input":1,"errorText":"e","providerExecuted":true,"dynamic":true,"title":"T"}
            6.0.176 {"type":"tool-input-error","toolCallId":"c","toolName":"t","input":1,"errorText":"e","providerExecuted":true,"toolMetadata":{"k":1},"dynamic":true,"title":"T"}
            7     {"type":"tool-input-error","toolCallId":"c","toolName":"t","input":1,"errorText":"e","providerExecuted":true,"providerMetadata":{"p":{}},"toolMetadata":{"k":1},"dynamic":true,"title":"T"}
            5 6   {"type":"tool-output-available","toolCallId":"c","output":null,"preliminary":true,"providerExecuted":true,"dynamic":true}
            6.0.120 {"type":"tool-output-available","toolCallId":"c","output":null,"preliminary":true,"providerExecuted":true,"providerMetadata":{"p":{}},"dynamic":true}
            6.0.176 7 {"type":"tool-output-available","toolCallId":"c","output":null,"preliminary":true,"providerExecuted":true,"providerMetadata":{"p":{}},"toolMetadata":{"k":1},"dynamic":true}
            5 6   {"type":"tool-output-error","toolCallId":"c","errorText":"e","providerExecuted":true,"dynamic":true}
            6.0.120 {"type":"tool-output-error","toolCallId":"c","errorText":"e","providerExecuted":true,"providerMetadata":{"p":{}},"dynamic":true}
            6.0.176 7 {"type":"tool-output-error","toolCallId":"c","errorText":"e","providerExecuted":true,"providerMetadata":{"p":{}},"toolMetadata":{"k":1},"dynamic":true}
        "#]],
    );
}

#[test]
fn chunks_of_approvals() {
    check(
        &[
            json!({"type": "tool-approval-request", "approvalId": "p", "toolCallId": "c", "toolName": "t"}),
            json!({
                "type": "tool-approval-request", "approvalId": "p", "toolCallId": "c", "toolName": "t", "approvalDescriptor": 1,
                "inputSchemaInput": 2, "reason": "r", "isAutomatic": true, "signature": "s",
            }),
            json!({"type": "tool-approval-response", "approvalId": "p", "approved": false, "reason": "r"}),
            json!({"type": "tool-output-denied", "toolCallId": "c", "errorText": "Denied: r", "dynamic": true}),
            json!({"type": "tool-output-denied", "toolCallId": "c"}),
        ],
        expect![[r#"
            5     {"type":"data-tool-approval","id":"p","data":{"approvalId":"p","toolCallId":"c","toolName":"t"}}
            6 7   {"type":"tool-approval-request","approvalId":"p","toolCallId":"c"}
            5     {"type":"data-tool-approval","id":"p","data":{"approvalId":"p","toolCallId":"c","toolName":"t","reason":"r"}}
            6     {"type":"tool-approval-request","approvalId":"p","toolCallId":"c"}
            6.0.202 {"type":"tool-approval-request","approvalId":"p","toolCallId":"c","signature":"s"}
            7     {"type":"tool-approval-request","approvalId":"p","toolCallId":"c","isAutomatic":true,"signature":"s"}
            7.0.82 {"type":"tool-approval-request","approvalId":"p","toolCallId":"c","reason":"r","isAutomatic":true,"signature":"s"}
            7.0.87 {"type":"tool-approval-request","approvalId":"p","toolCallId":"c","approvalDescriptor":1,"reason":"r","isAutomatic":true,"signature":"s"}
            7.0.113 {"type":"tool-approval-request","approvalId":"p","toolCallId":"c","approvalDescriptor":1,"inputSchemaInput":2,"reason":"r","isAutomatic":true,"signature":"s"}
            5 6   -
            7     {"type":"tool-approval-response","approvalId":"p","approved":false,"reason":"r"}
            5     {"type":"tool-output-error","toolCallId":"c","errorText":"Denied: r","dynamic":true}
            6 7   {"type":"tool-output-denied","toolCallId":"c"}
            5     {"type":"tool-output-error","toolCallId":"c","errorText":"Denied: the call was not approved."}
            6 7   {"type":"tool-output-denied","toolCallId":"c"}
        "#]],
    );
}

#[test]
fn json_that_is_no_chunk_is_refused() {
    for record in [
        "{}",
        "[]",
        r#"{"type":"text"}"#,
        r#"{"type":"bogus","data":1}"#,
        r#"{"type":"text-delta","id":"t"}"#,
        "x",
    ] {
        assert!(UiChunk::from_record(record).is_err(), "{record}");
    }
}

#[test]
fn a_frame_is_an_id_line_and_a_data_line() {
    let run = RunId::new("run_1");
    let delta = chunk(&json!({"type": "text-delta", "id": "t", "delta": "a\nb"}));
    let Frames::Same(bytes) = encode(&run, 7, &delta) else { panic!("a delta is the same for all") };
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert_eq!(text, "id: run_1:7\ndata: {\"type\":\"text-delta\",\"id\":\"t\",\"delta\":\"a\\nb\"}\n\n");

    let ephemeral = encode_ephemeral(&run, 7, 2, Profile::V5, &delta).unwrap();
    assert!(ephemeral.starts_with(b"id: run_1:7.2\ndata: {"));
}

#[test]
fn profiles_that_differ_get_frames_of_their_own() {
    let request = chunk(
        &json!({"type": "tool-approval-request", "approvalId": "p", "toolCallId": "c", "toolName": "t"}),
    );
    let frames = encode(&RunId::new("r"), 1, &request);
    assert_ne!(frames.get(Profile::V5), frames.get(Profile::V6));
    assert_eq!(frames.get(Profile::V6), frames.get(Profile::V7));
    assert_eq!(frames.to_record(), request.to_record());

    let response = chunk(&json!({"type": "tool-approval-response", "approvalId": "p", "approved": true}));
    let frames = encode(&RunId::new("r"), 1, &response);
    assert_eq!((frames.get(Profile::V5), frames.get(Profile::V6)), (None, None));
    assert!(frames.get(Profile::V7).is_some());
    assert!(encode_ephemeral(&RunId::new("r"), 1, 1, Profile::V6, &response).is_none());
}

#[test]
fn event_ids_come_back_from_clients() {
    let read = |text: &str| EventId::parse(text).map(|id| (id.run.to_string(), id.seq));
    assert_eq!(read("run_1:7"), Some(("run_1".to_owned(), 7)));
    assert_eq!(read(" run:1:7.2 "), Some(("run:1".to_owned(), 7)));
    for foreign in ["", "7", "run:", "run:x", "run:-1"] {
        assert_eq!(read(foreign), None, "{foreign}");
    }
}

#[test]
fn a_denial_has_the_reason_if_there_is_one() {
    assert_eq!(denial_text(Some("too late")), "Denied: too late");
    assert_eq!(denial_text(Some(" ")), "Denied: the call was not approved.");
    assert_eq!(denial_text(None), "Denied: the call was not approved.");
}

#[test]
fn parts_are_written_as_they_were_read() {
    for part in [
        json!({"type": "text", "text": "a"}),
        json!({"type": "text", "text": "a", "state": "done", "providerMetadata": {"p": {}}, "citations": []}),
        json!({"type": "text", "text": "a", "state": "odd"}),
        json!({"type": "reasoning", "text": "a", "state": "streaming", "id": "r"}),
        json!({"type": "file", "mediaType": "a/b", "url": "data:,", "filename": "f", "providerReference": {"a": "b"}}),
        json!({"type": "step-start"}),
        json!({"type": "step-start", "note": 1}),
        json!({"type": "data-x", "id": "1", "data": null, "more": true}),
        json!({"type": "source-url", "sourceId": "s", "url": "u"}),
        json!({"type": "hologram", "of": [1]}),
        json!({"type": "tool-t", "toolCallId": "c", "state": "input-streaming"}),
        json!({"type": "tool-t", "toolCallId": "c", "state": "input-streaming", "input": {}, "rawInput": "{", "title": "T"}),
        json!({"type": "dynamic-tool", "toolName": "t", "toolCallId": "c", "state": "input-available", "input": null}),
        json!({"type": "tool-t", "toolCallId": "c", "state": "approval-requested", "input": 1, "approval": {"id": "p", "signature": "s"}}),
        json!({"type": "tool-t", "toolCallId": "c", "state": "approval-responded", "input": 1, "approval": {"id": "p", "approved": true, "reason": "r"}}),
        json!({"type": "tool-t", "toolCallId": "c", "state": "output-available", "input": 1, "output": null, "preliminary": true}),
        json!({"type": "tool-t", "toolCallId": "c", "state": "output-error", "rawInput": [1], "errorText": "e", "providerExecuted": true}),
        json!({"type": "tool-t", "toolCallId": "c", "state": "output-denied", "input": 1, "approval": {"id": "p", "approved": false}}),
    ] {
        let read: UiPart = serde_json::from_value(part.clone()).unwrap();
        assert_eq!(json!(read), part);
        assert!(json!(read).to_string().starts_with(r#"{"type":"#), "the type comes first");
    }
}

#[test]
fn a_part_that_does_not_fit_its_type_is_kept_unchanged() {
    for part in [
        json!({"type": "text", "text": 5}),
        json!({"type": "file", "url": "u"}),
        json!({"type": "tool-t", "state": "input-available", "input": 1}),
        json!({"type": "tool-t", "toolCallId": "c", "state": "flying"}),
        json!({"type": "tool-t", "toolCallId": "c", "state": "approval-responded", "approval": {"id": "p", "approved": "true"}}),
        json!({"type": "dynamic-tool", "toolCallId": "c", "state": "input-available"}),
    ] {
        let read: UiPart = serde_json::from_value(part.clone()).unwrap();
        assert!(matches!(read, UiPart::Unknown(_)), "{part}");
        assert_eq!(json!(read), part);
    }
    for none in [json!(null), json!("text"), json!({}), json!({"type": 5})] {
        assert!(serde_json::from_value::<UiPart>(none).is_err());
    }
}

#[test]
fn a_required_value_that_is_undefined_in_a_client_is_read_as_null() {
    let part = json!({"type": "tool-t", "toolCallId": "c", "state": "output-available", "approval": null, "errorText": null});
    let read: UiPart = serde_json::from_value(part).unwrap();
    assert_eq!(
        json!(read),
        json!({"type": "tool-t", "toolCallId": "c", "state": "output-available", "output": null})
    );
}

#[test]
fn a_message_needs_a_role_that_exists() {
    let message =
        |role: &str| serde_json::from_value::<UiMessage>(json!({"id": "m", "role": role, "parts": []}));
    assert!(message("assistant").is_ok());
    assert!(message("data").is_err());
}
