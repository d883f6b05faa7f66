//! Calls as servers send them, by the book and beside it.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Decodes one chunk for each item, which is a list of pieces.
fn check(chunks: Value, expected: Expect) {
    let mut calls = Calls::default();
    let mut events = Vec::new();
    for chunk in chunks.as_array().unwrap() {
        calls.decode(serde_json::from_value(chunk.clone()).unwrap(), &mut events).unwrap();
    }
    calls.flush(&Attached::default(), &mut events);
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
            delta 0 {"x"
            delta 0 :1}
            start 1 g
            delta 1 {}
        "#]],
    );
}

#[test]
fn a_new_id_and_name_is_a_new_call_though_the_index_is_the_same() {
    check(
        json!([
            [piece(Some(0), Some("a"), Some("f"), Some("{}"))],
            [piece(Some(0), Some("b"), Some("f"), Some("{\"x\":1}"))],
            [piece(Some(0), Some("c"), Some("g"), None)],
        ]),
        expect![[r#"
            start 0 f
            start 1 f
            delta 1 {"x":1}
            delta 0 {}
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
            start 2 g
            start 3 g
            delta 3 {"y":2}
            delta 1 {}
            delta 2 {}
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
            delta 0 {"x":1}
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
    assert!(refusal(unnamed).is_some(), "calls that are never passed on also count");
}

#[test]
fn arguments_without_a_name_do_not_grow_for_ever() {
    let text = "x".repeat(LONGEST_UNKNOWN / 4);
    let pieces = |name| {
        (0..5).map({
            let text = text.clone();
            move |_| piece(Some(0), None, name, Some(&text))
        })
    };
    assert!(refusal(pieces(None)).is_some());
    assert!(refusal(pieces(Some("f"))).is_none(), "those of a named call are the engine's to count");
}

/// The calls of an answer whose pieces come one in each chunk: the tool and the arguments of each.
fn read(pieces: &[Value]) -> Vec<(String, String)> {
    let (mut calls, mut events) = (Calls::default(), Vec::new());
    for piece in pieces {
        calls.decode(serde_json::from_value(json!([piece])).unwrap(), &mut events).unwrap();
    }
    calls.flush(&Attached::default(), &mut events);
    let mut read: Vec<(usize, String, String)> = Vec::new();
    for event in events {
        match event {
            ModelEvent::CallStart { key, tool } => read.push((key, tool, String::new())),
            ModelEvent::CallDelta { key, arguments } => {
                read.iter_mut()
                    .find(|(begun, ..)| *begun == key)
                    .expect("it has begun")
                    .2
                    .push_str(&arguments);
            }
            other => panic!("{other:?}"),
        }
    }
    read.sort_by_key(|(key, ..)| *key);
    read.into_iter().map(|(_, tool, arguments)| (tool, arguments)).collect()
}

#[test]
fn arguments_that_do_not_simply_add_up_are_one_call() {
    let whole = r#"{"query":"x"}"#;
    let in_string = json!(whole).to_string();
    let twice = json!(in_string).to_string();
    for pieces in [
        vec!["{}", r#"{"query":"#, r#""x"}"#],
        vec![r#"{"que"#, r#"{"query":""#, whole],
        vec![r#"{"que"#, r#"{"que"#, r#"{"query":"x"#, whole, whole],
        vec![whole, "}"],
        vec![whole, "\n</tool_call>"],
        vec![r#"{"query":"x"}}"#],
        vec![r#"{"query":"x"}</tool_call>"#],
        vec![&in_string],
        vec![&twice],
        vec![&in_string[..5], &in_string[5..]],
        vec![&in_string, &in_string],
        vec![whole, whole],
        vec![whole, r#"{"query": "x"}"#],
        vec![whole, r#"{"que"#, r#"ry":"x"}"#],
        vec!["null", whole],
        vec!["", whole, ""],
    ] {
        let mut given = vec![piece(Some(0), Some("a"), Some("f"), pieces.first().copied())];
        given.extend(pieces[1..].iter().map(|text| piece(Some(0), None, None, Some(text))));
        assert_eq!(read(&given), [("f".to_owned(), whole.to_owned())], "{pieces:?}");
    }
}

#[test]
fn nested_objects_are_not_taken_for_all_of_the_arguments_so_far() {
    let pieces = [r#"{"child":"#, r#"{"child":"#, r#"{"child":null}"#, "}}"];
    let mut given = vec![piece(Some(0), Some("a"), Some("f"), Some(pieces[0]))];
    given.extend(pieces[1..].iter().map(|text| piece(Some(0), None, None, Some(text))));
    assert_eq!(read(&given), [("f".to_owned(), pieces.concat())]);
}

#[test]
fn a_name_that_comes_in_pieces_is_one_name() {
    let named = |name: &str, arguments: &str| piece(Some(0), Some("a"), Some(name), Some(arguments));
    for names in [vec!["search", "_no", "tes"], vec!["search", "search_no", "search_notes"]] {
        let mut given: Vec<_> = names.iter().map(|name| named(name, "")).collect();
        given.push(piece(Some(0), None, None, Some("{}")));
        assert_eq!(read(&given), [("search_notes".to_owned(), "{}".to_owned())], "{names:?}");
    }
}

#[test]
fn a_call_without_a_name_is_a_call_of_no_tool_and_takes_nothing_with_it() {
    let good = piece(Some(0), Some("a"), Some("f"), Some("{}"));
    let nameless = |index| piece(Some(index), Some("b"), Some(""), Some(r#"{"q":1}"#));
    let unnamed = ("unnamed".to_owned(), r#"{"q":1}"#.to_owned());
    assert_eq!(read(&[good.clone(), nameless(1)]), [("f".to_owned(), "{}".to_owned()), unnamed.clone()]);
    assert_eq!(read(&[nameless(0)]), [unnamed]);
    assert_eq!(read(&[good, piece(Some(1), Some("b"), None, None)]).len(), 1, "an id alone is no call");
}

#[test]
fn calls_that_differ_are_all_made() {
    let [one, two] = [r#"{"n":1}"#, r#"{"n":2}"#];
    let calls =
        |pieces: &[Value]| read(pieces).into_iter().map(|(_, arguments)| arguments).collect::<Vec<_>>();
    let given = |index, id| move |arguments| piece(index, id, Some("f"), Some(arguments));
    for (first, second) in [
        (given(Some(0), Some("a")), given(Some(1), Some("b"))),
        (given(Some(0), Some("a")), given(Some(0), Some("b"))),
        (given(Some(0), Some("a")), given(Some(1), Some("a"))),
        (given(None, Some("a")), given(None, Some("b"))),
        (given(None, None), given(None, None)),
    ] {
        assert_eq!(calls(&[first(one), second(two)]), [one, two]);
    }
    let (first, second) = (given(Some(0), Some("a")), given(Some(1), Some("b")));
    assert_eq!(calls(&[first(one), second(one)]), [one, one], "another index and another id is another call");
    let (first, second) = (given(None, Some("a")), given(None, Some("b")));
    assert_eq!(calls(&[first(one), second(one)]), [one, one]);
}

/// The ways that a server sends the pieces of one call.
#[derive(Clone, Debug)]
struct Manner {
    cuts: Vec<prop::sample::Index>,
    is_cumulative: bool,
    repeats_name: bool,
    repeats_id: bool,
    begins_empty: bool,
    is_string: bool,
    /// The repetition of the whole call: `None` without one, or the parts that it has.
    again: Option<(bool, bool, Vec<prop::sample::Index>)>,
    left_over: &'static str,
}

fn manner() -> impl Strategy<Value = Manner> {
    let cuts = || prop::collection::vec(any::<prop::sample::Index>(), 0..4);
    (
        (cuts(), any::<bool>(), any::<bool>(), any::<bool>()),
        (prop::bool::weighted(0.2), prop::bool::weighted(0.2)),
        prop::option::of((any::<bool>(), any::<bool>(), cuts())),
        prop::sample::select(vec!["", "}", " ", "</tool_call>", "\n"]),
    )
        .prop_map(
            |(
                (cuts, is_cumulative, repeats_name, repeats_id),
                (begins_empty, is_string),
                again,
                left_over,
            )| {
                Manner {
                    cuts,
                    is_cumulative,
                    repeats_name,
                    repeats_id,
                    begins_empty,
                    is_string,
                    again,
                    left_over,
                }
            },
        )
}

fn cut(text: &str, cuts: &[prop::sample::Index]) -> Vec<String> {
    let at_character = |end: usize| (0..=end).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let mut ends: Vec<usize> = cuts.iter().map(|cut| at_character(cut.index(text.len() + 1))).collect();
    ends.push(text.len());
    ends.sort_unstable();
    let mut begin = 0;
    ends.iter().map(|end| text[std::mem::replace(&mut begin, *end)..*end].to_owned()).collect()
}

/// Returns the pieces of a call, each with whether it names its tool and its id.
fn pieces_of(index: u64, tool: &str, arguments: &str, manner: &Manner) -> Vec<Value> {
    let id = format!("id-{index}");
    let text = if manner.is_string { json!(arguments).to_string() } else { arguments.to_owned() };
    let mut pieces = Vec::new();
    let mut texts = cut(&text, &manner.cuts);
    if manner.is_cumulative && !manner.is_string {
        for place in 1..texts.len() {
            texts[place] = format!("{}{}", texts[place - 1], texts[place]);
        }
    }
    if manner.begins_empty {
        texts.insert(0, "{}".to_owned());
    }
    for (place, text) in texts.iter().enumerate() {
        let name = (place == 0 || manner.repeats_name).then_some(tool);
        let id = (place == 0 || manner.repeats_id).then_some(id.as_str());
        pieces.push(piece(Some(index), id, name, Some(text)));
    }
    // Behind all of the arguments so far, a brace would close what looks like an object in them.
    if !manner.left_over.is_empty() && !manner.is_string && !manner.is_cumulative {
        pieces.push(piece(Some(index), None, None, Some(manner.left_over)));
    }
    if let Some((has_name, has_id, cuts)) = &manner.again {
        let cuts = if manner.is_string || manner.is_cumulative { &[][..] } else { cuts };
        for (place, text) in cut(&text, cuts).iter().enumerate() {
            let name = (place == 0 && *has_name).then_some(tool);
            pieces.push(piece(Some(index), has_id.then_some(id.as_str()), name, Some(text)));
        }
    }
    pieces
}

proptest! {
    #[test]
    fn the_same_calls_come_out_however_they_are_sent(
        calls in prop::collection::vec((prop::sample::select(vec!["f", "g"]), arguments(), manner()), 1..4),
        is_interleaved in any::<bool>(),
    ) {
        let mut queues: Vec<std::collections::VecDeque<Value>> = calls
            .iter()
            .zip(0..)
            .map(|((tool, arguments, manner), index)| pieces_of(index, tool, arguments, manner).into())
            .collect();
        let mut sent = Vec::new();
        while queues.iter().any(|queue| !queue.is_empty()) {
            for queue in &mut queues {
                if is_interleaved {
                    sent.extend(queue.pop_front());
                } else {
                    sent.extend(queue.drain(..));
                }
            }
        }
        let mut expected: Vec<_> = calls.iter().map(|(tool, text, _)| ((*tool).to_owned(), text.clone())).collect();
        let mut got = read(&sent);
        expected.sort();
        got.sort();
        prop_assert_eq!(got, expected, "{:#?}", sent);
    }
}

/// Arguments whose keys do not begin as the whole does, because then nobody could tell a part of them from all of them.
fn arguments() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        Just(json!(1)),
        Just(json!("a } b")),
        Just(json!("{\"")),
        Just(json!(["x", {"deep": true}])),
        Just(json!({"inner": {"n": null}})),
        "[a-zé\"\\\\{} ]{0,8}".prop_map(|text| json!(text)),
    ];
    (prop::sample::select(vec!["query", "n", "long name"]), value)
        .prop_map(|(key, value)| json!({ key: value }).to_string())
}
