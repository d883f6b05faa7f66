//! The conversation of a request as it is on the wire.

use fermata_protocol::JsonText;
use proptest::prelude::*;
use reqwest::Url;
use serde_json::Value;

use super::*;
use crate::openai::{dialect::DialectSettings, provider_metadata::mark};

fn dialect(base: &str) -> Dialect {
    Dialect::of(&Url::parse(base).unwrap(), "m", &DialectSettings::default())
}

/// An unknown host.
fn common() -> Dialect {
    dialect("http://localhost:1/v1")
}

fn mistral() -> Dialect {
    dialect("https://api.mistral.ai/v1")
}

fn without_vision() -> Dialect {
    Dialect { vision: false, ..common() }
}

/// The messages as they are read again.
fn fitted(messages: &[ModelMessage], dialect: &Dialect, field: ReasoningField) -> Value {
    serde_json::to_value(fit_conversation(messages, dialect, field, &ToolNames::default())).unwrap()
}

fn mapped(messages: Vec<ModelMessage>) -> Value {
    fitted(&messages, &common(), ReasoningField::ReasoningContent)
}

fn user(text: &str) -> ModelMessage {
    ModelMessage::User(vec![ModelContent::Text(text.into())])
}

fn assistant_said(reasoning: &str, text: &str, calls: &[&str]) -> ModelMessage {
    let call = |id: &&str| ModelCall {
        id: (*id).into(),
        tool: "f".into(),
        input: json!({"x": 1}).into(),
        provider_metadata: None,
    };
    let calls = calls.iter().map(call).collect();
    ModelMessage::Assistant { reasoning: reasoning.into(), text: text.into(), calls, provider_metadata: None }
}

fn done(id: &str) -> ModelMessage {
    gave(id, vec![ModelContent::Text("done".into())])
}

fn gave(id: &str, content: Vec<ModelContent>) -> ModelMessage {
    ModelMessage::Tool { call_id: id.into(), tool: "f".into(), content }
}

fn image() -> ModelContent {
    piece("image/png", "data:image/png;base64,AAAA", None)
}

fn piece(media_type: &str, url: &str, filename: Option<&str>) -> ModelContent {
    ModelContent::File { media_type: media_type.into(), url: url.into(), filename: filename.map(Into::into) }
}

fn file(media_type: &str, url: &str, filename: Option<&str>) -> Value {
    let see = ModelContent::Text("see".into());
    mapped(vec![ModelMessage::User(vec![see, piece(media_type, url, filename)])])[0]["content"][1].clone()
}

/// The part for a file of a result.
fn shown(media_type: &str, url: &str, filename: Option<&str>) -> Value {
    let messages = vec![assistant_said("", "", &["a"]), gave("a", vec![piece(media_type, url, filename)])];
    mapped(messages)[2]["content"][1].clone()
}

#[test]
fn a_conversation_is_mapped_in_order() {
    let messages = mapped(vec![
        ModelMessage::System("Be kind.".into()),
        user("hi"),
        assistant_said("", "", &["a", "b"]),
        done("a"),
        done("b"),
        assistant_said("", "Done.", &[]),
    ]);
    let call =
        |id| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}});
    let expected = json!([
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null, "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "done"},
        {"role": "tool", "tool_call_id": "b", "content": "done"},
        {"role": "assistant", "content": "Done."},
    ]);
    assert_eq!(messages, expected);
}

#[test]
fn an_assistant_message_without_text_and_calls_is_left_out() {
    let messages =
        mapped(vec![user("a"), assistant_said("hm", "", &[]), assistant_said("", " \n", &[]), user("b")]);
    assert_eq!(messages, json!([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]));
}

#[test]
fn several_texts_are_one_string() {
    let texts = ["a", "b"].map(|text| ModelContent::Text(text.into()));
    assert_eq!(mapped(vec![ModelMessage::User(texts.into())])[0]["content"], "a\nb");
}

#[test]
fn each_kind_of_file_becomes_the_part_that_providers_know() {
    let image = "data:image/png;base64,AAAA";
    assert_eq!(file("image/png", image, None), json!({"type": "image_url", "image_url": {"url": image}}));
    let remote = "https://a.b/c.jpg";
    assert_eq!(file("image/*", remote, None), json!({"type": "image_url", "image_url": {"url": remote}}));
    let audio = |format| json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": format}});
    assert_eq!(file("audio/wav", "data:audio/wav;base64,AAAA", None), audio("wav"));
    assert_eq!(file("audio/mpeg", "data:audio/mpeg;base64,AAAA", None), audio("mp3"));
    let pdf = "data:application/pdf;base64,AAAA";
    let pdf_part = |name| json!({"type": "file", "file": {"filename": name, "file_data": pdf}});
    assert_eq!(file("application/pdf", pdf, None), pdf_part("document.pdf"));
    assert_eq!(file("application/pdf", pdf, Some("a.pdf")), pdf_part("a.pdf"));
}

#[test]
fn a_text_file_is_read_out() {
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(file("text/plain", "data:text/plain;base64,R3LDvMOf", None), text("Grüß"));
    assert_eq!(file("text/csv", "data:text/csv,a%2Cb%0A1,2", None), text("a,b\n1,2"));
    assert_eq!(file("application/json", "data:application/json;base64,e30=", None), text("{}"));
    assert_eq!(file("application/octet-stream", "data:;base64,YQ==", Some("a.md")), text("a"));
}

#[test]
fn a_file_that_no_api_takes_does_not_end_a_chat_that_has_it_already() {
    let zip = file("application/zip", "data:application/zip;base64,UEsDBAA=", Some("a.zip"));
    assert_eq!(zip["text"], "[a.zip (application/zip) cannot be shown: no model takes it.]");
}

#[test]
fn a_remote_file_that_is_no_image_is_named() {
    let expected = json!({"type": "text", "text": "[a.pdf (application/pdf): https://a.b/a.pdf]"});
    assert_eq!(file("application/pdf", "https://a.b/a.pdf", Some("a.pdf")), expected);
}

#[test]
fn the_texts_of_a_result_are_one_string() {
    let texts = ["a", "b"].map(|text| ModelContent::Text(text.into()));
    let messages = mapped(vec![assistant_said("", "", &["1"]), gave("1", texts.into())]);
    assert_eq!(messages[1], json!({"role": "tool", "tool_call_id": "1", "content": "a\nb"}));
    assert_eq!(messages.as_array().unwrap().len(), 2);
}

#[test]
fn the_files_of_a_step_follow_its_last_result_in_one_message() {
    let audio = || piece("audio/wav", "data:audio/wav;base64,BBBB", Some("a.wav"));
    let messages = mapped(vec![
        user("hi"),
        assistant_said("", "", &["a", "b", "c"]),
        gave("a", vec![ModelContent::Text("See:".into()), image()]),
        done("b"),
        gave("c", vec![audio(), image()]),
        assistant_said("", "", &["d"]),
        gave("d", vec![image()]),
        user("and?"),
    ]);
    let roles: Vec<&str> = messages.as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles.join(" "), "user assistant tool tool tool user assistant tool user user");
    assert_eq!(messages[2]["content"], "See:");
    assert_eq!(messages[3]["content"], "done");
    let next = "[The result is shown in the next message: a.wav (audio/wav), a file (image/png)]";
    assert_eq!(messages[4]["content"], next);
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let files = json!([
        text("[From the result of f, call a: a file (image/png)]"),
        picture,
        text("[From the result of f, call c: a.wav (audio/wav)]"),
        {"type": "input_audio", "input_audio": {"data": "BBBB", "format": "wav"}},
        text("[From the result of f, call c: a file (image/png)]"),
        picture,
    ]);
    assert_eq!(messages[5]["content"], files);
    let last = json!([text("[From the result of f, call d: a file (image/png)]"), picture]);
    assert_eq!(messages[8]["content"], last);
    assert_eq!(messages[9]["content"], "and?");
}

#[test]
fn files_at_the_end_of_the_conversation_are_shown_too() {
    let messages = mapped(vec![assistant_said("", "", &["a"]), gave("a", vec![image()])]);
    assert_eq!(messages[2]["role"], "user");
    assert_eq!(messages[2]["content"][1]["type"], "image_url");
}

#[test]
fn the_files_of_a_result_become_the_parts_that_a_users_files_become() {
    for (media_type, url, name) in [
        ("image/png", "data:image/png;base64,AAAA", None),
        ("image/*", "https://a.b/c.jpg", None),
        ("audio/mpeg", "data:audio/mpeg;base64,AAAA", None),
        ("application/pdf", "data:application/pdf;base64,AAAA", Some("a.pdf")),
        ("application/pdf", "https://a.b/a.pdf", Some("a.pdf")),
        ("text/plain", "data:text/plain;base64,R3LDvMOf", None),
    ] {
        assert_eq!(shown(media_type, url, name), file(media_type, url, name));
    }
}

#[test]
fn a_file_of_a_result_that_no_api_takes_is_described() {
    for media_type in ["application/zip", "audio/ogg", "image/tiff", "video/mp4"] {
        let described = json!({"type": "text", "text": format!("[It cannot be shown: the model takes no {media_type}.]")});
        assert_eq!(shown(media_type, &format!("data:{media_type};base64,AAAA"), None), described);
    }
}

#[test]
fn the_files_of_a_result_begin_no_new_turn() {
    let messages = mapped(vec![
        user("a"),
        assistant_said("one", "", &["1"]),
        gave("1", vec![image()]),
        assistant_said("two", "y", &[]),
    ]);
    assert_eq!(messages[1]["reasoning_content"], "one");
    assert_eq!(messages[3]["role"], "user");
    assert_eq!(messages[4]["reasoning_content"], "two");
}

#[test]
fn reasoning_goes_back_in_turns_with_calls_and_nowhere_else() {
    let messages = mapped(vec![
        user("a"),
        assistant_said("left out", "x", &[]),
        user("b"),
        assistant_said("sent", "", &["1"]),
        done("1"),
        assistant_said("sent too", "y", &[]),
        user("c"),
    ]);
    let reasoning: Vec<&Value> =
        messages.as_array().unwrap().iter().map(|m| &m["reasoning_content"]).collect();
    let expected =
        [json!(null), json!(null), json!(null), json!("sent"), json!(null), json!("sent too"), json!(null)];
    assert_eq!(reasoning, expected.iter().collect::<Vec<_>>());
}

#[test]
fn reasoning_goes_back_under_the_name_that_the_provider_uses() {
    let message = |field| {
        let messages = vec![user("a"), assistant_said("r", "", &["1"]), done("1")];
        fitted(&messages, &common(), field)[1].clone()
    };
    assert_eq!(message(ReasoningField::Reasoning)["reasoning"], "r");
    let without = message(ReasoningField::Nowhere);
    assert!(without.get("reasoning").is_none() && without.get("reasoning_content").is_none());
}

#[test]
fn geminis_first_call_of_a_step_carries_a_signature() {
    let messages = vec![user("a"), assistant_said("", "", &["1", "2"]), done("1"), done("2")];
    let google = dialect("https://generativelanguage.googleapis.com/v1beta/openai");
    let messages = fitted(&messages, &google, ReasoningField::Nowhere);
    let calls = &messages[1]["tool_calls"];
    assert_eq!(calls[0]["extra_content"]["google"]["thought_signature"], NO_SIGNATURE);
    assert!(calls[1].get("extra_content").is_none());
}

/// Metadata of the provider in the form that the engine keeps.
fn kept(dialect: &Dialect, id: Option<&str>, fields: Value) -> Option<JsonText> {
    let mut kept: JsonText = json!({"fields": fields, "id": id}).into();
    mark(&mut kept, &dialect.origin);
    Some(kept)
}

/// An answer with two calls and this metadata.
fn with_attached(answer: Option<JsonText>, first: Option<JsonText>) -> ModelMessage {
    let mut message = assistant_said("", "", &["1", "2"]);
    let ModelMessage::Assistant { calls, provider_metadata, .. } = &mut message else { unreachable!() };
    *provider_metadata = answer;
    calls[0].provider_metadata = first;
    message
}

#[test]
fn what_the_provider_attached_goes_back_to_its_place() {
    let google = dialect("https://generativelanguage.googleapis.com/v1beta/openai");
    let signature = |name: &str| json!({ name: {"thought_signature": "S"} });
    let details = json!([{"type": "reasoning.encrypted", "data": "D", "index": 0}]);
    for (dialect, field, value) in [
        (&google, "extra_content", signature("google")),
        (&common(), "extra_content", signature("vertex")),
        (&mistral(), "provider_specific_fields", json!({"thought_signature": "S"})),
    ] {
        let answer = kept(dialect, None, json!({"reasoning_details": details}));
        let first = kept(dialect, None, json!({ field: value }));
        let messages = [user("a"), with_attached(answer, first), done("1"), done("2")];
        let messages = fitted(&messages, dialect, ReasoningField::Nowhere);
        assert_eq!(messages[1]["reasoning_details"], details);
        let calls = &messages[1]["tool_calls"];
        assert_eq!(calls[0][field], value);
        assert!(calls[1].get(field).is_none());
    }
}

#[test]
fn what_another_model_attached_stays_here() {
    let google = dialect("https://generativelanguage.googleapis.com/v1beta/openai");
    let signature = json!({"extra_content": {"google": {"thought_signature": "S"}}});
    let first = kept(&common(), Some("tool_1"), signature);
    let answer = kept(&common(), None, json!({"reasoning_details": [{"text": "a"}]}));
    let messages = [user("a"), with_attached(answer, first), done("1"), done("2")];
    let messages = fitted(&messages, &google, ReasoningField::Nowhere);
    assert!(messages[1].get("reasoning_details").is_none());
    let call = &messages[1]["tool_calls"][0];
    assert_eq!(call["extra_content"]["google"]["thought_signature"], NO_SIGNATURE);
    assert_eq!(call["id"], "1");
}

#[test]
fn a_call_that_reasoning_names_has_the_id_by_which_it_is_named() {
    let first = || kept(&common(), Some("tool_0_f"), json!({}));
    let mut messages = vec![user("a"), with_attached(None, first()), done("1"), done("2")];
    // Some providers count the calls of each answer from 0.
    let mut again = with_attached(None, first());
    let ModelMessage::Assistant { calls, .. } = &mut again else { unreachable!() };
    (calls[0].id, calls[1].id) = ("3".into(), "4".into());
    calls[1].provider_metadata = first();
    messages.extend([again, done("3"), done("4")]);
    let messages = fitted(&messages, &common(), ReasoningField::Nowhere);
    let ids = |message: usize| [0, 1].map(|call| messages[message]["tool_calls"][call]["id"].clone());
    assert_eq!(ids(1), ["tool_0_f", "2"]);
    assert_eq!(ids(4), ["tool_0_f", "4"]);
    let results = [2, 3, 5, 6].map(|message: usize| messages[message]["tool_call_id"].clone());
    assert_eq!(results, ["tool_0_f", "2", "tool_0_f", "4"]);
}

fn roles(messages: &Value) -> String {
    let roles = messages.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap());
    roles.collect::<Vec<_>>().join(" ")
}

#[test]
fn an_answer_stands_between_a_result_and_the_next_message_of_the_user() {
    let messages = [
        user("write"),
        assistant_said("", "", &["a"]),
        done("a"),
        user("no, a joke"),
        assistant_said("", "", &["b"]),
        gave("b", vec![image()]),
        assistant_said("", "There.", &[]),
    ];
    let messages = fitted(&messages, &mistral(), ReasoningField::Nowhere);
    assert_eq!(
        roles(&messages),
        "user assistant tool assistant user assistant tool assistant user assistant user"
    );
    assert_eq!(messages[3], json!({"role": "assistant", "content": AFTER_RESULT}));
    assert_eq!(messages[8]["content"][1]["type"], "image_url");
    assert_eq!(messages[10]["content"], AFTER_ASSISTANT);
}

#[test]
fn messages_of_one_side_are_joined() {
    let messages = [
        user("a"),
        ModelMessage::User(vec![ModelContent::Text("b".into()), image()]),
        user("c"),
        assistant_said("r", "d", &[]),
        assistant_said("s", "e", &["1"]),
        done("1"),
    ];
    let messages = fitted(&messages, &mistral(), ReasoningField::ReasoningContent);
    assert_eq!(roles(&messages), "user assistant tool");
    let text = |text: &str| json!({"type": "text", "text": text});
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    assert_eq!(messages[0]["content"], json!([text("a"), text("b"), picture, text("c")]));
    assert_eq!(messages[1]["content"], "d\n\ne");
    assert_eq!(messages[1]["reasoning_content"], "r\n\ns");
    assert_eq!(messages[1]["tool_calls"][0]["id"], messages[2]["tool_call_id"]);
    let texts = fitted(&[user("a"), user("b")], &mistral(), ReasoningField::Nowhere);
    assert_eq!(texts, json!([{"role": "user", "content": "a\n\nb"}]));
}

#[test]
fn a_user_begins_where_roles_alternate() {
    let greeting = [assistant_said("", "Hi!", &[]), user("a")];
    let messages = fitted(&greeting, &mistral(), ReasoningField::Nowhere);
    assert_eq!(roles(&messages), "user assistant user");
    assert_eq!(roles(&fitted(&greeting, &common(), ReasoningField::Nowhere)), "assistant user");
}

#[test]
fn there_is_one_system_message_and_it_comes_first() {
    let messages = [user("a"), ModelMessage::System("b".into()), ModelMessage::System("c".into()), user("d")];
    for dialect in [common(), mistral()] {
        let messages = fitted(&messages, &dialect, ReasoningField::Nowhere);
        assert_eq!(messages[0], json!({"role": "system", "content": "b\n\nc"}));
        assert_eq!(messages[1]["role"], "user");
    }
}

#[test]
fn an_id_of_the_right_form_stays_and_another_gets_one_that_stays_the_same() {
    let id = |messages: &[ModelMessage], index: usize| {
        let messages = fitted(messages, &mistral(), ReasoningField::Nowhere);
        let id = messages[index]["tool_calls"][0]["id"].as_str().unwrap().to_owned();
        assert!(has_fixed_form(&id), "{id}");
        assert_eq!(messages[index + 1]["tool_call_id"], id.as_str());
        id
    };
    let turn = |id: &str| [user("a"), assistant_said("", "", &[id]), done(id), assistant_said("", "b", &[])];
    assert_eq!(id(&turn("gSIMJiOkT"), 1), "gSIMJiOkT");
    let alone = id(&turn("call_1"), 1);
    let longer = [turn("call_1"), turn("call_2")].concat();
    assert_eq!(id(&longer, 1), alone);
    assert_ne!(id(&longer, 5), alone);
    // A later call that has this id already gets another one.
    let taken = [turn("call_1"), turn(&alone)].concat();
    assert_eq!(id(&taken, 1), alone);
    assert_ne!(id(&taken, 5), alone);
}

#[test]
fn a_model_without_vision_gets_a_line_of_text_for_each_file_and_no_parts() {
    let pdf = || piece("application/pdf", "data:application/pdf;base64,AAAA", Some("a.pdf"));
    let text = || piece("text/plain", "data:text/plain;base64,R3LDvMOf", None);
    let remote = || piece("image/*", "https://a.b/c.jpg", None);
    let see = ModelContent::Text("see".into());
    let messages = [
        ModelMessage::User(vec![see, image(), pdf(), text(), remote()]),
        assistant_said("", "", &["1"]),
        gave("1", vec![image()]),
    ];
    let messages = fitted(&messages, &without_vision(), ReasoningField::Nowhere);
    assert_eq!(
        messages[0]["content"],
        "see\n[a file (image/png) cannot be shown: the model takes text only.]\n\
         [a.pdf (application/pdf) cannot be shown: the model takes text only.]\nGrüß\n\
         [a file (image/*): https://a.b/c.jpg]"
    );
    assert_eq!(
        messages[3]["content"],
        "[From the result of f, call 1: a file (image/png)]\n\
         [a file (image/png) cannot be shown: the model takes text only.]"
    );
}

/// A turn of a conversation: what the user says, the ids of the calls with whether each result has an image, and what the assistant says.
fn turns() -> impl Strategy<Value = Vec<ModelMessage>> {
    let said = prop_oneof![Just(String::new()), Just("word".to_owned())];
    let calls = prop::collection::vec(any::<bool>(), 0..3);
    let steps = prop::collection::vec((said.clone(), calls), 0..3);
    prop::collection::vec((0..3_usize, steps), 0..5).prop_map(|turns| {
        let mut messages = vec![ModelMessage::System("s".into())];
        let mut count = 0;
        for (users, steps) in turns {
            messages.extend((0..users).map(|_| user("u")));
            for (text, calls) in steps {
                let ids: Vec<(String, bool)> = calls
                    .into_iter()
                    .map(|has_image| {
                        count += 1;
                        (format!("call_{count}"), has_image)
                    })
                    .collect();
                let names: Vec<&str> = ids.iter().map(|(id, _)| id.as_str()).collect();
                messages.push(assistant_said("r", &text, &names));
                messages.extend(ids.iter().map(
                    |(id, has_image)| {
                        if *has_image { gave(id, vec![image()]) } else { done(id) }
                    },
                ));
            }
        }
        messages
    })
}

proptest! {
    #[test]
    fn a_conversation_in_turns_has_what_strict_templates_check(messages in turns(), vision: bool) {
        let dialect = Dialect { vision, ..mistral() };
        let fitted = fitted(&messages, &dialect, ReasoningField::Nowhere);
        let fitted = fitted.as_array().unwrap();
        prop_assert_eq!(&fitted[0]["role"], "system");
        let mut waiting: Vec<&Value> = Vec::new();
        let mut seen = HashSet::new();
        for pair in fitted.windows(2) {
            let (before, message) = (&pair[0], &pair[1]);
            let role = |message: &Value| message["role"].as_str().unwrap().to_owned();
            match (role(before).as_str(), role(message).as_str()) {
                ("system" | "assistant", "user") | ("user" | "tool", "assistant") => {
                    prop_assert!(waiting.is_empty(), "a call without its result");
                }
                ("assistant" | "tool", "tool") => {
                    prop_assert_eq!(&message["tool_call_id"], waiting.remove(0));
                }
                pair => prop_assert!(false, "{pair:?}"),
            }
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                prop_assert!(has_fixed_form(call["id"].as_str().unwrap()));
                prop_assert!(seen.insert(call["id"].as_str().unwrap()));
                waiting.push(&call["id"]);
            }
        }
        prop_assert!(waiting.is_empty());
        prop_assert!(fitted.last().unwrap()["role"] != "assistant");
        let has_image = serde_json::to_string(fitted).unwrap().contains("image_url");
        prop_assert!(vision || !has_image);
    }
}
