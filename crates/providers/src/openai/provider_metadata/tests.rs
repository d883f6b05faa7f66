use reqwest::Url;

use super::*;
use crate::openai::dialect::DialectSettings;

fn joined(pieces: Vec<Value>) -> Value {
    let mut attached = Attached::default();
    for piece in pieces {
        attached.add("field", Some(Box::new(piece)));
    }
    attached.0.shift_remove("field").unwrap_or_default()
}

fn dialect(base: &str, model: &str) -> Dialect {
    Dialect::of(&Url::parse(base).unwrap(), model, &DialectSettings::default())
}

#[test]
fn pieces_of_reasoning_are_joined_by_type_and_index() {
    let text = |index: u8, text: &str| json!({"type": "reasoning.text", "text": text, "index": index});
    let encrypted = |data: &str| json!({"type": "reasoning.encrypted", "data": data, "index": 0});
    for (pieces, expected) in [
        // The signature comes with the last piece, or with a piece of its own.
        (
            vec![
                json!([{"type": "reasoning.text", "text": "a", "signature": null, "index": 0}]),
                json!([text(0, "b")]),
                json!([{"type": "reasoning.text", "text": "", "signature": "S", "format": "f", "index": 0}]),
            ],
            json!([{"type": "reasoning.text", "text": "ab", "signature": "S", "index": 0, "format": "f"}]),
        ),
        (
            vec![json!([text(0, "a"), text(1, "x")]), json!([text(0, "b"), text(1, "y")])],
            json!([text(0, "ab"), text(1, "xy")]),
        ),
        (
            vec![
                json!([{"type": "reasoning.summary", "summary": "a", "index": 0}]),
                json!([{"type": "reasoning.summary", "summary": "b", "index": 0}]),
                json!([encrypted("D")]),
                json!([encrypted("E")]),
            ],
            json!([{"type": "reasoning.summary", "summary": "ab", "index": 0}, encrypted("D"), encrypted("E")]),
        ),
        // Nothing is added to what was signed, and nothing comes twice.
        (
            vec![
                json!([{"type": "thinking", "thinking": "a", "signature": ""}]),
                json!([{"type": "thinking", "thinking": "", "signature": "S"}]),
                json!([{"type": "redacted_thinking", "data": "D"}]),
                json!([{"type": "redacted_thinking", "data": "D"}]),
                json!([{"type": "thinking", "thinking": "b", "signature": "T"}]),
                json!([{"type": "thinking", "thinking": "c", "signature": "U"}]),
            ],
            json!([
                {"type": "thinking", "thinking": "a", "signature": "S"},
                {"type": "redacted_thinking", "data": "D"},
                {"type": "thinking", "thinking": "b", "signature": "T"},
                {"type": "thinking", "thinking": "c", "signature": "U"},
            ]),
        ),
        (
            vec![
                json!([{"type": "reasoning.text", "text": "a", "id": "1"}]),
                json!([{"type": "reasoning.text", "text": "b", "id": "2"}]),
            ],
            json!([{"type": "reasoning.text", "text": "a", "id": "1"}, {"type": "reasoning.text", "text": "b", "id": "2"}]),
        ),
    ] {
        assert_eq!(joined(pieces), expected);
    }
}

#[test]
fn objects_are_joined_field_by_field() {
    let pieces = vec![
        json!({"google": {"thought_signature": "A"}}),
        Value::Null,
        json!({}),
        json!({"google": {"thought_signature": "B", "thought": true}, "x": [1, "a"]}),
        json!({"x": ["a", null]}),
    ];
    let expected = json!({"google": {"thought_signature": "B", "thought": true}, "x": [1, "a", null]});
    assert_eq!(joined(pieces), expected);
    assert_eq!(joined(vec![json!([]), Value::Null]), Value::Null);
}

#[test]
fn what_was_kept_goes_back_to_its_model_at_its_host_only() {
    let mut attached = Attached::default();
    attached.add(EXTRA_CONTENT, Some(Box::new(json!({"google": {"thought_signature": "S"}}))));
    let origin = dialect("https://a.example/v1", "m").origin;
    let mut metadata = attached.keep().unwrap();
    mark(&mut metadata, &origin);
    let read = |base: &str, model: &str| Kept::read(Some(&metadata), &dialect(base, model));
    assert_eq!(read("https://a.example/other", "m").unwrap().fields, attached);
    assert!(read("https://b.example/v1", "m").is_none());
    assert!(read("https://a.example/v1", "n").is_none());
    let mut without = dialect("https://a.example/v1", "m");
    without.omit.insert(EXTRA_CONTENT.to_owned());
    assert!(Kept::read(Some(&metadata), &without).unwrap().fields.is_empty());
}

#[test]
fn a_call_keeps_its_id_if_the_answer_names_it() {
    let mut answer = Attached::default();
    let details = json!([{"type": "reasoning.encrypted", "data": "D", "id": "tool_1", "index": 0}]);
    answer.add(REASONING_DETAILS, Some(Box::new(details)));
    let call = Attached::default();
    assert_eq!(call.keep_of_call("tool_2", &answer), None);
    assert_eq!(call.keep_of_call("", &answer), None);
    let kept = call.keep_of_call("tool_1", &answer).unwrap();
    assert_eq!(kept.value()["id"], "tool_1");
}

#[test]
fn halves_of_characters_are_joined_across_pieces() {
    let piece = |half: &str| {
        let json = format!(r#"[{{"type":"reasoning.text","text":"{half}","index":0}}]"#);
        serde_json::from_str(&super::super::surrogate_halves::repair(&json)).unwrap()
    };
    let mut attached = Attached::default();
    for half in [r"a\ud83e", r"\udd80b"] {
        attached.add(REASONING_DETAILS, Some(Box::new(piece(half))));
    }
    let kept = attached.keep().unwrap();
    assert_eq!(kept.value()["fields"][REASONING_DETAILS][0]["text"], "a🦀b");
}
