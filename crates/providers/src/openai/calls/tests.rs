//! Calls as servers send them, by the book and beside it.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

/// Decodes one chunk for each item, which is a list of pieces.
fn check(chunks: Value, expected: Expect) {
    let mut calls = Calls::default();
    let mut events = Vec::new();
    for chunk in chunks.as_array().unwrap() {
        calls.decode(serde_json::from_value(chunk.clone()).unwrap(), &mut events).unwrap();
    }
    let lines: String = events
        .iter()
        .map(|event| match event {
            ModelEvent::CallStart { key, tool } => format!("start {key} {tool}\n"),
            ModelEvent::CallDelta { key, arguments } => format!("delta {key} {arguments}\n"),
            other => panic!("{other:?}"),
        })
        .collect();
    expected.assert_eq(&lines);
}

fn piece(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: Option<&str>) -> Value {
    json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

#[test]
fn interleaved_calls_are_kept_apart_by_index() {
    check(
        json!([
            [piece(Some(0), Some("a"), Some("f"), Some(""))],
            [piece(Some(1), Some("b"), Some("g"), Some(""))],
            [piece(Some(0), None, None, Some("{\"x\""))],
            [piece(Some(1), None, None, Some("{}"))],
            [piece(Some(0), None, None, Some(":1}"))],
        ]),
        expect![[r#"
            start 0 f
            start 1 g
            delta 0 {"x"
            delta 1 {}
            delta 0 :1}
        "#]],
    );
}

#[test]
fn a_new_id_and_name_is_a_new_call_though_the_index_is_the_same() {
    check(
        json!([
            [piece(Some(0), Some("a"), Some("f"), Some("{}"))],
            [piece(Some(0), Some("b"), Some("f"), Some("{}"))],
            [piece(Some(0), Some("c"), Some("g"), None)],
        ]),
        expect![[r#"
            start 0 f
            delta 0 {}
            start 1 f
            delta 1 {}
            start 2 g
        "#]],
    );
}

#[test]
fn calls_without_index_and_id_are_told_apart_by_name_and_by_closed_arguments() {
    check(
        json!([
            [piece(None, None, Some("f"), Some("{\"x\":"))],
            [piece(None, None, None, Some("\"}\"}"))],
            [piece(None, Some(""), Some("f"), Some("{}"))],
            [piece(None, Some(""), Some("g"), Some("{}"))],
            [piece(None, Some(""), Some(""), Some("{\"y\":2}"))],
        ]),
        expect![[r#"
            start 0 f
            delta 0 {"x":
            delta 0 "}"}
            start 1 f
            delta 1 {}
            start 2 g
            delta 2 {}
            start 3 g
            delta 3 {"y":2}
        "#]],
    );
}

#[test]
fn two_named_pieces_in_one_chunk_are_two_calls() {
    check(
        json!([[piece(None, None, Some("f"), None), piece(None, None, Some("f"), None)]]),
        expect![[r#"
            start 0 f
            start 1 f
        "#]],
    );
}

#[test]
fn pieces_without_index_are_matched_by_id() {
    check(
        json!([
            [piece(None, Some("a"), Some("f"), Some("{")), piece(None, Some("b"), Some("g"), Some("{"))],
            [piece(None, Some("a"), None, Some("}"))],
            [piece(None, Some("b"), None, Some("}"))],
        ]),
        expect![[r#"
            start 0 f
            delta 0 {
            start 1 g
            delta 1 {
            delta 0 }
            delta 1 }
        "#]],
    );
}

#[test]
fn a_name_in_each_piece_and_an_id_of_its_own_for_each_piece_change_nothing() {
    check(
        json!([
            [piece(Some(0), Some("a"), Some("f"), Some("{\"x"))],
            [piece(Some(0), Some("a"), Some("f"), Some("\":"))],
            [piece(Some(0), None, Some("f"), Some("1}"))],
            [piece(Some(0), Some("a"), Some("f"), Some(""))],
            [piece(Some(1), Some("r1"), Some("g"), Some("{"))],
            [piece(Some(1), Some("r2"), None, Some("}"))],
        ]),
        expect![[r#"
            start 0 f
            delta 0 {"x
            delta 0 ":
            delta 0 1}
            start 1 g
            delta 1 {
            delta 1 }
        "#]],
    );
}

#[test]
fn arguments_that_come_before_the_name_are_kept_for_it() {
    check(
        json!([
            [piece(Some(0), Some("a"), None, None)],
            [piece(Some(0), None, None, Some("{\"x\":"))],
            [piece(Some(0), None, Some("f"), Some("1}"))],
        ]),
        expect![[r#"
            start 0 f
            delta 0 {"x":
            delta 0 1}
        "#]],
    );
}

#[test]
fn one_id_for_two_calls_does_not_join_them() {
    check(
        json!([
            [piece(Some(0), Some("x"), Some("f"), Some("{\"n\":1}"))],
            [piece(Some(1), Some("x"), Some("f"), Some("{\"n\":2}"))],
            [piece(Some(1), Some("x"), Some("f"), Some("{\"n\":3}"))],
        ]),
        expect![[r#"
            start 0 f
            delta 0 {"n":1}
            start 1 f
            delta 1 {"n":2}
            start 2 f
            delta 2 {"n":3}
        "#]],
    );
}

#[test]
fn a_call_that_is_sent_again_whole_under_its_id_is_one_call() {
    check(
        json!([
            [piece(Some(0), Some("x"), Some("f"), Some("{\"n\":1}"))],
            [piece(Some(0), Some("x"), Some("f"), Some("{\"n\":1}"))],
        ]),
        expect![[r#"
            start 0 f
            delta 0 {"n":1}
        "#]],
    );
}

#[test]
fn null_arguments_are_none() {
    check(
        json!([
            [piece(Some(0), Some("a"), Some("f"), None)],
            [piece(Some(1), Some("b"), Some("g"), Some("null"))],
            [{"index": 2, "id": "c", "function": {"name": "h", "arguments": {"x": 1}}}],
            [{"index": 3, "id": "d", "function": null}],
        ]),
        expect![[r#"
            start 0 f
            start 1 g
            start 2 h
            delta 2 {"x":1}
        "#]],
    );
}

#[test]
fn arguments_that_were_never_named_are_noticed() {
    let mut calls = Calls::default();
    let mut events = Vec::new();
    let pieces = json!([{"index": 0, "function": {"arguments": "{}"}}]);
    calls.decode(serde_json::from_value(pieces).unwrap(), &mut events).unwrap();
    assert!(calls.has_nameless() && events.is_empty());
}

fn refusal(chunks: impl IntoIterator<Item = Value>) -> Option<Failure> {
    let mut calls = Calls::default();
    chunks.into_iter().find_map(|chunk| {
        calls.decode(serde_json::from_value(json!([chunk])).unwrap(), &mut Vec::new()).err()
    })
}

#[test]
fn an_answer_makes_a_thousand_calls_and_no_more() {
    let calls = |count| (0..count).map(|index| piece(Some(index), None, Some("f"), Some("{}")));
    assert!(refusal(calls(1_000)).is_none());
    assert!(refusal(calls(1_001)).is_some());
    let unnamed = (0..1_001).map(|index| piece(Some(index), None, None, None));
    assert!(refusal(unnamed).is_some(), "calls that are never passed on count, too");
}

#[test]
fn arguments_without_a_name_do_not_grow_for_ever() {
    let text = "x".repeat(LONGEST_UNNAMED / 4);
    let pieces = |name| {
        (0..5).map({
            let text = text.clone();
            move |_| piece(Some(0), None, name, Some(&text))
        })
    };
    assert!(refusal(pieces(None)).is_some());
    assert!(refusal(pieces(Some("f"))).is_none(), "those of a named call are the engine's to count");
}
