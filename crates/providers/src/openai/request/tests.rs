//! Each part of a request as it is on the wire.

use super::*;

/// The body as it is read again.
fn body(model: &str, dialect: Dialect, field: ReasoningField, request: ModelRequest) -> Value {
    let body = super::body(model, dialect, field, &request).unwrap();
    serde_json::from_str(body.get()).unwrap()
}

fn request(messages: Vec<ModelMessage>) -> ModelRequest {
    ModelRequest { messages, ..ModelRequest::default() }
}

fn mapped(messages: Vec<ModelMessage>) -> Value {
    body("m", Dialect::Common, ReasoningField::ReasoningContent, request(messages))["messages"].clone()
}

fn user(text: &str) -> ModelMessage {
    ModelMessage::User(vec![ModelContent::Text(text.into())])
}

fn assistant_said(reasoning: &str, text: &str, calls: &[&str]) -> ModelMessage {
    let call = |id: &&str| ModelCall { id: (*id).into(), tool: "f".into(), input: json!({"x": 1}).into() };
    let calls = calls.iter().map(call).collect();
    ModelMessage::Assistant { reasoning: reasoning.into(), text: text.into(), calls }
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

fn with_settings(settings: Value, dialect: Dialect) -> Value {
    let settings = settings.as_object().unwrap().clone();
    let request = ModelRequest { settings, ..request(vec![user("hi")]) };
    let mut body = body("m", dialect, dialect.reasoning_field(), request);
    for fixed in ["model", "messages", "stream", "stream_options"] {
        body.as_object_mut().unwrap().remove(fixed);
    }
    body
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
    let messages = mapped(vec![user("a"), assistant_said("hm", "", &[]), user("b")]);
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
fn a_tool_choice_is_sent_only_with_tools() {
    let tool = ModelTool {
        name: "f".into(),
        description: "Does f.".into(),
        input_schema: json!({"type": "object"}).into(),
    };
    let choice = |choice: ToolChoice, tools: Vec<ModelTool>| {
        let request = ModelRequest { tools, tool_choice: Some(choice), ..request(vec![user("hi")]) };
        body("m", Dialect::Common, ReasoningField::Nowhere, request)
    };
    let with = |given| choice(given, vec![tool.clone()])["tool_choice"].clone();
    assert_eq!(with(ToolChoice::Auto), "auto");
    assert_eq!(with(ToolChoice::None), "none");
    assert_eq!(with(ToolChoice::Required), "required");
    let named = json!({"type": "function", "function": {"name": "f"}});
    assert_eq!(with(ToolChoice::Tool("f".into())), named);
    let without = choice(ToolChoice::Required, vec![]);
    assert!(without.get("tools").is_none() && without.get("tool_choice").is_none());
}

#[test]
fn settings_get_their_names_on_the_wire() {
    let settings = json!({
        "temperature": 0.2, "topP": 0.9, "topK": 4, "maxOutputTokens": 50, "presencePenalty": 0.1,
        "frequencyPenalty": -0.1, "stopSequences": ["\n"], "seed": 7, "headers": {"x": "y"},
    });
    let expected = json!({
        "temperature": 0.2, "top_p": 0.9, "max_tokens": 50, "presence_penalty": 0.1,
        "frequency_penalty": -0.1, "stop": ["\n"], "seed": 7,
    });
    assert_eq!(with_settings(settings, Dialect::Common), expected);
}

#[test]
fn the_output_limit_has_openais_newer_name_for_openai_only() {
    let limited = |dialect| with_settings(json!({"maxTokens": 5}), dialect);
    assert_eq!(limited(Dialect::OpenAi), json!({"max_completion_tokens": 5}));
    assert_eq!(limited(Dialect::Common), json!({"max_tokens": 5}));
}

#[test]
fn options_for_the_provider_go_into_the_request_and_replace_nothing_that_is_reserved() {
    let options = json!({
        "model": "other", "messages": [], "Tools": [], "toolChoice": "none", "stream": false, "n": 5,
        "maxTokens": 1_000_000, "max_completion_tokens": 1_000_000, "nPredict": 1_000_000, "stream_options": {},
        "serviceTier": "flex", "reasoning_effort": "high", "textVerbosity": "low", "parallelToolCalls": false,
    });
    let settings =
        json!({"reasoningEffort": "low", "providerOptions": {"openai": options, "other": {"a": 1}}});
    let expected = json!({"service_tier": "flex", "reasoning_effort": "high", "verbosity": "low"});
    assert_eq!(with_settings(settings, Dialect::Common), expected);
}

#[test]
fn calls_one_at_a_time_are_asked_for_only_if_there_are_tools() {
    let settings = json!({"parallelToolCalls": false}).as_object().unwrap().clone();
    assert_eq!(with_settings(settings.clone().into(), Dialect::Common), json!({}));
    let tool = ModelTool {
        name: "a".into(),
        description: String::new(),
        input_schema: json!({"type": "object"}).into(),
    };
    let request = ModelRequest { settings, tools: vec![tool], ..request(vec![user("hi")]) };
    assert_eq!(
        body("m", Dialect::Common, ReasoningField::Nowhere, request)["parallel_tool_calls"],
        json!(false)
    );
}

#[test]
fn settings_of_a_wrong_type_are_left_out() {
    let settings = json!({
        "temperature": "hot", "topP": null, "maxOutputTokens": 0, "maxTokens": 1.5, "stopSequences": [],
        "seed": 1.5, "presencePenalty": [],
    });
    assert_eq!(with_settings(settings, Dialect::Common), json!({}));
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
        body("m", Dialect::Common, field, request(messages))["messages"][1].clone()
    };
    assert_eq!(message(ReasoningField::Reasoning)["reasoning"], "r");
    let without = message(ReasoningField::Nowhere);
    assert!(without.get("reasoning").is_none() && without.get("reasoning_content").is_none());
}

#[test]
fn geminis_first_call_of_a_step_carries_a_signature() {
    let messages = vec![user("a"), assistant_said("", "", &["1", "2"]), done("1"), done("2")];
    let body = body("m", Dialect::Google, ReasoningField::Nowhere, request(messages));
    let calls = &body["messages"][1]["tool_calls"];
    assert_eq!(calls[0]["extra_content"]["google"]["thought_signature"], NO_SIGNATURE);
    assert!(calls[1].get("extra_content").is_none());
}
