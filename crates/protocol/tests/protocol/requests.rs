//! Accepted bodies of clients, and the errors for the others.

use std::{fmt::Write as _, time::Duration};

use expect_test::{Expect, expect};
use fermata_protocol::{
    Always, Answer, AnswerKind, AnswerTarget, ChatBody, ElicitAction, GrantedFor, Profile, Role, ToolChoice,
    ToolResult, ToolResultBody, Trigger, UiPart,
};
use serde_json::{Value, json};

fn chat(fields: Value) -> Result<ChatBody, String> {
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    ChatBody::parse(body).map_err(|error| error.to_string())
}

fn message(message: Value) -> Result<ChatBody, String> {
    ChatBody::parse(json!({ "message": message })).map_err(|error| error.to_string())
}

fn answer(fields: Value) -> Result<ToolResultBody, String> {
    let mut body = json!({"chatId": "chat"});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    ToolResultBody::parse(body).map_err(|error| error.to_string())
}

fn answers(body: ToolResultBody) -> Vec<Answer> {
    match body.result {
        ToolResult::Answers(answers) => answers,
        ToolResult::Editing { .. } | ToolResult::Preview { .. } => panic!("no answer"),
    }
}

fn errors<T>(made: impl IntoIterator<Item = Result<T, String>>, expected: Expect) {
    let mut lines = String::new();
    for result in made {
        writeln!(lines, "{}", result.err().unwrap_or("TAKEN".to_owned())).unwrap();
    }
    expected.assert_eq(&lines);
}

#[test]
fn settings_of_a_call_that_nobody_reads_are_refused_with_those_that_are_read() {
    let settings = |settings: Value| chat(json!({ "callSettings": settings }));
    errors(
        [
            settings(json!({"temprature": 0.5})),
            settings(json!({"temperature": "hot"})),
            settings(json!({"temperature": 2.5})),
            settings(json!({"topP": -0.1})),
            settings(json!({"maxOutputTokens": 0})),
            settings(json!({"maxTokens": 1.5})),
            settings(json!({"seed": [1]})),
            settings(json!({"stopSequences": vec!["x"; 17]})),
            settings(json!({"stopSequences": ["x".repeat(257)]})),
            settings(json!({"stopSequences": [""]})),
            settings(json!({"presencePenalty": 3})),
            settings(json!({"headers": "x"})),
            settings(json!({"reasoningEffort": 3})),
            settings(json!({"parallelToolCalls": "no"})),
            settings(json!({"providerOptions": {"openai": true}})),
            settings(json!({"providerOptions": {"openai": {"a": "x".repeat(20_000)}}})),
            settings(
                json!({"temperature": 0, "topP": 1, "topK": 40, "maxOutputTokens": 5, "maxTokens": 5, "seed": -1,
                "presencePenalty": -2, "frequencyPenalty": 2, "stopSequences": ["x"], "maxRetries": 2, "headers": {},
                "reasoningEffort": "low", "parallelToolCalls": false, "providerOptions": {"openai": {"serviceTier": "flex"}}}),
            ),
            settings(json!({"temperature": null, "stopSequences": []})),
        ],
        expect![[r#"
            `callSettings.temprature` is no known name; the known ones are: temperature, topP, topK, maxOutputTokens, maxTokens, presencePenalty, frequencyPenalty, stopSequences, seed, reasoningEffort, parallelToolCalls, providerOptions, maxRetries, headers.
            `callSettings.temperature` is "hot"; it must be a number from 0 to 2.
            `callSettings.temperature` is 2.5; it must be a number from 0 to 2.
            `callSettings.topP` is -0.1; it must be a number from 0 to 1.
            `callSettings.maxOutputTokens` is 0; it must be a whole number from 1 on.
            `callSettings.maxTokens` is 1.5; it must be a whole number from 1 on.
            `callSettings.seed` is a list; it must be a whole number.
            `callSettings.stopSequences` is a list; it must be a list of at most 16 texts of 1 to 256 bytes each.
            `callSettings.stopSequences` is a list; it must be a list of at most 16 texts of 1 to 256 bytes each.
            `callSettings.stopSequences` is a list; it must be a list of at most 16 texts of 1 to 256 bytes each.
            `callSettings.presencePenalty` is 3; it must be a number from -2 to 2.
            `callSettings.headers` is "x"; it must be an object.
            `callSettings.reasoningEffort` is 3; it must be a text of 1 to 32 bytes, such as "low".
            `callSettings.parallelToolCalls` is "no"; it must be true or false.
            `callSettings.providerOptions` is an object; it must be an object with an object for each provider, of at most 16384 bytes together.
            `callSettings.providerOptions` is an object; it must be an object with an object for each provider, of at most 16384 bytes together.
            TAKEN
            TAKEN
        "#]],
    );
    assert!(settings(json!({"temperature": null})).unwrap().call_settings.is_empty());
}

#[test]
fn options_of_fermata_that_nobody_reads_are_refused() {
    errors(
        [
            chat(json!({"fermata": {"clinet": 6}})),
            chat(json!({"fermata": {"hold": "1s", "plan": true}})),
            chat(json!({"fermata": {"show": ["cal"]}})),
            chat(json!({"fermata": {"show": "call"}})),
            chat(json!({"fermata": {"show": "all"}})),
            chat(json!({"fermata": {"show": ["call", "context"]}})),
            chat(json!({"fermata": {"assistant": ""}})),
            chat(json!({"fermata": {"model": 5}})),
            chat(json!({"fermata": {"assistant": "support", "model": "fast"}})),
            chat(json!({"fermata": {"client": 6, "hold": "1s", "exists": false, "show": ["call"]}})),
        ],
        expect![[r#"
            `fermata.clinet` is no known name; the known ones are: client, hold, exists, assistant, model, memory, decides, plan, show.
            `fermata.plan` is true; it must be "off", "auto", "always" or "ask".
            `fermata.show[0]` is "cal"; it must be "run", "call", "context", "plan" or "memory".
            `fermata.show` is "call"; it must be "all" or a list.
            TAKEN
            TAKEN
            `fermata.assistant` is empty; it must be a string that is not empty.
            `fermata.model` is 5; it must be a string.
            TAKEN
            TAKEN
        "#]],
    );
}

#[test]
fn an_id_to_which_no_path_leads_is_no_chat_id() {
    for id in [".", "..", "tool-result"] {
        for refused in [
            chat(json!({"id": id})).err(),
            answer(json!({"chatId": id, "toolCallId": "c", "output": 1})).err(),
        ] {
            assert!(refused.is_some_and(|words| words.contains("is no chat id")), "{id}");
        }
    }
    for id in ["...", ".a", "tool-results", "Tool-Result"] {
        assert!(chat(json!({"id": id})).is_ok(), "{id}");
    }
}

#[test]
fn what_stock_clients_send_is_read() {
    let body = chat(json!({
        "id": "c-1", "trigger": "regenerate-message", "messageId": "m1", "system": "Be kind.",
        "callSettings": {"temperature": 0}, "config": {"a": 1}, "metadata": {}, "unknown": [1],
        "fermata": {"client": 7, "hold": "30s"},
        "messages": [
            {"id": "m0", "role": "user", "metadata": {"a": 1}, "parts": [{"type": "text", "text": "hi"}, {"type": "hologram"}]},
            {"id": "m1", "role": "assistant", "parts": [{"type": "step-start"}, {"type": "tool-t", "toolCallId": "c", "state": "x"}]},
        ],
    }))
    .unwrap();
    assert_eq!(body.id.unwrap().as_str(), "c-1");
    assert_eq!((body.trigger, body.message_id.unwrap().as_str()), (Trigger::Regenerate, "m1"));
    assert_eq!(
        (body.system.as_deref(), body.fermata.client, body.fermata.hold.as_deref()),
        (Some("Be kind."), Some(Profile::V7), Some("30s"))
    );
    assert_eq!(body.call_settings["temperature"], json!(0));
    assert_eq!(body.messages.len(), 2);
    assert_eq!((body.messages[0].role, body.messages[1].role), (Role::User, Role::Assistant));
    assert_eq!(body.messages[0].metadata, Some(json!({"a": 1})));
    assert!(matches!(body.messages[0].parts[1], UiPart::Unknown(_)));
    assert!(
        matches!(body.messages[1].parts[1], UiPart::Unknown(_)),
        "a part that cannot be read fails no request"
    );
}

#[test]
fn curl_may_leave_almost_everything_out() {
    let body = message(json!({"role": "user", "content": "hi"})).unwrap();
    assert!(body.id.is_none() && body.message_id.is_none() && body.messages[0].id.is_none());
    assert_eq!((body.trigger, body.tool_choice, body.tools.len()), (Trigger::Submit, None, 0));
    assert!(matches!(&body.messages[0].parts[..], [UiPart::Text { text, .. }] if text == "hi"));
    let listed =
        message(json!({"role": "user", "parts": [], "content": [{"type": "text", "text": "hi"}]})).unwrap();
    assert_eq!(listed.messages[0].parts.len(), 1);
}

#[test]
fn parts_in_the_form_of_openai_are_read_as_text_and_files() {
    let body = message(json!({"role": "user", "content": [
        {"type": "input_text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
        {"type": "image_url", "image_url": "https://example.com/a"},
        {"type": "input_image", "image_url": "DATA:image/webp,x"},
        {"type": "input_image", "image_url": {"url": "data:;base64,AAAA"}},
    ]}))
    .unwrap();
    assert_eq!(
        serde_json::to_value(&body.messages[0].parts).unwrap(),
        json!([
            {"type": "text", "text": "what is this?"},
            {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"},
            {"type": "file", "mediaType": "image/*", "url": "https://example.com/a"},
            {"type": "file", "mediaType": "image/webp", "url": "DATA:image/webp,x"},
            {"type": "file", "mediaType": "image/*", "url": "data:;base64,AAAA"},
        ])
    );
}

#[test]
fn an_error_does_not_repeat_a_long_name() {
    let long = "x".repeat(1_000_000);
    for fields in [json!({"tools": {long.as_str(): {}}}), json!({"tools": {long.as_str(): 5}})] {
        let error = chat(fields).err().unwrap();
        assert!(error.len() < 300 && error.starts_with("`tools.xxx"), "{} bytes", error.len());
    }
}

#[test]
fn null_counts_as_absent() {
    let body = chat(json!({
        "id": null, "trigger": null, "messageId": null, "tools": null, "system": null, "callSettings": null, "toolChoice": null,
        "selectedToolName": null, "fermata": {"client": null, "hold": null}, "message": null,
    }))
    .unwrap();
    assert!(body.id.is_none() && body.system.is_none() && body.fermata.client.is_none());
}

#[test]
fn tools_come_in_every_form() {
    let schema = json!({"type": "object", "properties": {"a": {}}});
    let forms = [
        json!({"t": {"description": "d", "parameters": schema, "providerOptions": {}}}),
        json!({"t": {"description": "d", "inputSchema": schema}}),
        json!({"t": {"description": "d", "inputSchema": {"jsonSchema": schema}}}),
        json!([{"name": "t", "description": "d", "input_schema": schema}]),
        json!([{"type": "function", "function": {"name": "t", "description": "d", "parameters": schema}}]),
        json!({"t": {"description": "d", "parameters": {"properties": {"a": {}}}}}),
    ];
    for form in forms {
        let tool = chat(json!({ "tools": form })).unwrap().tools.remove(0);
        assert_eq!(
            (tool.name.as_str(), tool.description.as_deref(), &tool.input_schema),
            ("t", Some("d"), &schema),
            "{form}"
        );
    }
    let bare = chat(json!({"tools": {"a": {}, "b": {"parameters": null}}})).unwrap().tools;
    assert!(bare.iter().all(|tool| tool.input_schema == json!({"type": "object"})));
    assert_eq!(bare.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn the_tool_choice_has_a_long_and_a_short_form() {
    let choice = |fields: Value| chat(fields).unwrap().tool_choice;
    assert_eq!(choice(json!({"toolChoice": "auto"})), Some(ToolChoice::Auto));
    assert_eq!(choice(json!({"toolChoice": "none"})), Some(ToolChoice::None));
    assert_eq!(choice(json!({"toolChoice": {"type": "required"}})), Some(ToolChoice::Required));
    assert_eq!(
        choice(json!({"toolChoice": {"type": "tool", "toolName": "t"}})),
        Some(ToolChoice::Tool("t".into()))
    );
    assert_eq!(choice(json!({"selectedToolName": "t"})), Some(ToolChoice::Tool("t".into())));
}

#[test]
fn a_chat_body_that_cannot_be_taken_says_why() {
    let long = "x".repeat(257);
    let parse = |body: Value| ChatBody::parse(body).map_err(|error| error.to_string());
    errors(
        [
            parse(json!([1])),
            parse(json!({})),
            parse(json!({"messages": "hi"})),
            chat(json!({"messages": []})),
            chat(json!({"messages": [5]})),
            chat(json!({"id": 5})),
            chat(json!({"id": "a/b"})),
            chat(json!({"trigger": "go"})),
            chat(json!({ "messageId": long })),
            chat(json!({"system": ["x"]})),
            chat(json!({"callSettings": 1})),
            chat(json!({"toolChoice": "tool"})),
            chat(json!({"toolChoice": {"type": "tool"}})),
            chat(json!({"selectedToolName": ""})),
            chat(json!({"fermata": 6})),
            chat(json!({"fermata": {"client": 4}})),
            chat(json!({"fermata": {"client": "6"}})),
            chat(json!({"fermata": {"hold": 30}})),
            chat(json!({"fermata": {"exists": "yes"}})),
            chat(json!({"tools": "t"})),
            chat(json!({"tools": {"t": null}})),
            chat(json!({"tools": {"a tool": {}}})),
            chat(json!({"tools": [{}]})),
            chat(json!({"tools": [{"name": "t"}, {"name": "t"}]})),
            chat(json!({"tools": {"t": {"description": 1}}})),
            chat(json!({"tools": {"t": {"parameters": true}}})),
            chat(json!({"tools": {"t": {"parameters": {"type": "string"}}}})),
            message(json!("hi")),
            message(json!({"content": "hi"})),
            message(json!({"role": "robot", "content": "hi"})),
            message(json!({"role": "user"})),
            message(json!({"role": "user", "content": 5})),
            message(json!({"role": "user", "parts": {}})),
            message(json!({"role": "user", "parts": ["hi"]})),
            message(json!({"role": "user", "parts": [{"text": "hi"}]})),
            message(json!({"role": "user", "parts": [{"type": "text", "txt": "hi"}]})),
            message(json!({"role": "user", "parts": [{"type": "file", "url": "u"}]})),
            message(json!({"role": "user", "parts": [{"type": "image_url", "image_url": {"url": ""}}]})),
            message(
                json!({"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "file_id": "f"}]}),
            ),
            message(json!({"role": "user", "content": [{"type": "input_text"}]})),
        ],
        expect![[r#"
            The body is a list; it must be a JSON object.
            `messages` is missing; it must be a list of at least one message. The smallest body that works is {"messages":[{"role":"user","content":"hi"}]}.
            `messages` is "hi"; it must be a list. The smallest body that works is {"messages":[{"role":"user","content":"hi"}]}.
            `messages` is an empty list; it must be a list of at least one message. The smallest body that works is {"messages":[{"role":"user","content":"hi"}]}.
            `messages[0]` is 5; it must be an object.
            `id` is 5; it must be a string.
            `id` is no chat id: a chat id is 1 to 128 characters of A-Z, a-z, 0-9, '_', '.', ':' and '-', and not ".", ".." or "tool-result".
            `trigger` is "go"; it must be "submit-message" or "regenerate-message".
            `messageId` is a long string; it must be a string of at most 256 characters.
            `system` is a list; it must be a string.
            `callSettings` is 1; it must be an object.
            `toolChoice` is "tool"; it must be "auto", "none", "required" or {"type": "tool", "toolName": …}.
            `toolChoice.toolName` is missing; it must be the name of a tool.
            `selectedToolName` is empty; it must be a string that is not empty.
            `fermata` is 6; it must be an object.
            `fermata.client` is 4; it must be 5, 6, 7 or a whole version such as "7.0.173".
            `fermata.client` is "6"; it must be 5, 6, 7 or a whole version such as "7.0.173".
            `fermata.hold` is 30; it must be a string.
            `fermata.exists` is "yes"; it must be true or false.
            `tools` is "t"; it must be an object of tools by name, or a list of tools.
            `tools.t` is null; it must be an object.
            `tools.a tool` has a name that models do not take; it must be 1 to 64 characters of A-Z, a-z, 0-9, '_' and '-'.
            `tools[0].name` is missing; it must be 1 to 64 characters of A-Z, a-z, 0-9, '_' and '-'.
            `tools[1].name` is "t", which an earlier tool has.
            `tools.t.description` is 1; it must be a string.
            `tools.t.parameters` is true; it must be an object.
            `tools.t.parameters.type` is "string"; it must be "object".
            `message` is "hi"; it must be an object. Did you mean `messages`? The smallest body that works is {"messages":[{"role":"user","content":"hi"}]}.
            `message.role` is missing; it must be "user", "assistant" or "system".
            `message.role` is "robot"; it must be "user", "assistant" or "system".
            `message.parts` is missing; it must be a list of parts (or `content` a string).
            `message.content` is 5; it must be a string or a list of parts.
            `message.parts` is an object; it must be a list.
            `message.parts[0]` is "hi"; it must be an object with a `type`.
            `message.parts[0].type` is missing; it must be a string.
            `message.parts[0]` cannot be read; it must have `text`, a string.
            `message.parts[0]` cannot be read; it must have `mediaType` and `url`, both strings.
            `message.parts[0]` cannot be read; it must have `image_url`, a URL or an object with a `url`.
            `message.content[1]` cannot be read; it must have `image_url`, a URL or an object with a `url`.
            `message.content[0]` cannot be read; it must have `text`, a string.
        "#]],
    );
}

#[test]
fn answers_are_read() {
    let one = |fields: Value| {
        let mut answers = answers(answer(fields).unwrap());
        assert_eq!(answers.len(), 1);
        let answer = answers.remove(0);
        let of = match answer.of {
            AnswerTarget::Call(id) => format!("call {id}"),
            AnswerTarget::Approval(id) => format!("approval {id}"),
            AnswerTarget::Elicitation(id) => format!("elicitation {id}"),
        };
        (of, answer.kind)
    };
    let output = |output: Value| AnswerKind::Output { output };
    let failure = |text: &str| AnswerKind::Failure { error_text: text.to_owned() };
    let decision = |approved, reason: Option<&str>, always, input| AnswerKind::Decision {
        approved,
        reason: reason.map(str::to_owned),
        always,
        input,
    };
    assert_eq!(one(json!({"toolCallId": "c", "output": null})), ("call c".into(), output(Value::Null)));
    assert_eq!(
        one(json!({"toolCallId": "c", "output": {"a": 1}, "approvalId": null})),
        ("call c".into(), output(json!({"a": 1})))
    );
    assert_eq!(one(json!({"toolCallId": "c", "errorText": "e"})), ("call c".into(), failure("e")));
    assert_eq!(
        one(json!({"toolCallId": "c", "approved": true})),
        ("call c".into(), decision(true, None, None, None))
    );
    assert_eq!(
        one(
            json!({"toolCallId": "c", "approvalId": "p", "approved": false, "reason": "no", "always": true, "input": null})
        ),
        ("approval p".into(), decision(false, Some("no"), Some(Always::default()), None))
    );
    assert_eq!(
        one(json!({"approvalId": "p", "approved": true, "input": {"a": 1}})),
        ("approval p".into(), decision(true, None, None, Some(json!({"a": 1}).into())))
    );
    let exact = r#"{"n":10000000000000000001,"x":[-0,1.0]}"#;
    assert_eq!(
        one(json!({"approvalId": "p", "approved": true, "inputText": exact})),
        ("approval p".into(), decision(true, None, None, Some(serde_json::from_str(exact).unwrap())))
    );
    for (always, expected) in [
        (json!(false), None),
        (json!(null), None),
        (json!(true), Some(Always::default())),
        (json!({}), Some(Always::default())),
        (json!({"for": "owner"}), Some(Always { granted_for: GrantedFor::Owner, ..Always::default() })),
        (
            json!({"scope": "host:a", "for": "chat", "until": "24h"}),
            Some(Always {
                scope: Some("host:a".into()),
                until: Some(Duration::from_secs(86_400)),
                ..Always::default()
            }),
        ),
        (
            json!({"until": "7d"}),
            Some(Always { until: Some(Duration::from_secs(604_800)), ..Always::default() }),
        ),
    ] {
        assert_eq!(
            one(json!({"approvalId": "p", "approved": true, "always": always})),
            ("approval p".into(), decision(true, None, expected, None)),
            "{always}"
        );
    }
    assert_eq!(
        one(json!({"tool_call_id": "c", "result": 1, "is_error": false})),
        ("call c".into(), output(json!(1)))
    );
    assert_eq!(
        one(json!({"tool_call_id": "c", "result": "bad", "is_error": true})),
        ("call c".into(), failure("bad"))
    );
    assert_eq!(
        one(json!({"tool_call_id": "c", "result": {"a": 1}, "is_error": true})),
        ("call c".into(), failure(r#"{"a":1}"#))
    );
    let elicited = |action, content| AnswerKind::Elicited { action, content };
    assert_eq!(
        one(json!({"elicitationId": "e", "action": "accept", "content": {"a": 1}})),
        ("elicitation e".into(), elicited(ElicitAction::Accept, Some(json!({"a": 1}))))
    );
    assert_eq!(
        one(json!({"elicitationId": "e", "toolCallId": "c", "action": "decline"})),
        ("elicitation e".into(), elicited(ElicitAction::Decline, None))
    );
    assert_eq!(
        one(json!({"elicitationId": "e", "action": "cancel", "content": null})),
        ("elicitation e".into(), elicited(ElicitAction::Cancel, None))
    );
    assert_eq!(
        one(json!({"toolCallId": "c", "output": 1, "action": "accept"})),
        ("call c".into(), output(json!(1)))
    );
}

#[test]
fn the_older_names_and_batches_are_taken() {
    let body = ToolResultBody::parse(json!({"session_id": "s", "answers": [{"toolCallId": "a", "output": 1}, {"approvalId": "a", "approved": true}]})).unwrap();
    assert_eq!((body.chat_id.as_str(), answers(body.clone()).len()), ("s", 2));
}

#[test]
fn a_thousand_answers_are_taken_and_one_more_is_not() {
    let many = |count: usize| {
        let answers: Vec<Value> =
            (0..count).map(|at| json!({"toolCallId": at.to_string(), "output": 1})).collect();
        answer(json!({ "answers": answers }))
    };
    assert_eq!(answers(many(1000).unwrap()).len(), 1000);
    errors(
        [many(1001)],
        expect![[r#"
            `answers` has 1001 answers; send at most 1000 at a time.
        "#]],
    );
}

#[test]
fn an_answer_that_cannot_be_taken_says_why() {
    let parse = |body: Value| ToolResultBody::parse(body).map_err(|error| error.to_string());
    errors(
        [
            parse(json!("x")),
            parse(json!({"toolCallId": "c", "output": 1})),
            parse(json!({"chatId": "a b", "toolCallId": "c", "output": 1})),
            parse(json!({"session_id": 5, "toolCallId": "c", "output": 1})),
            answer(json!({"toolCallId": "c"})),
            answer(json!({"output": 1})),
            answer(json!({"toolCallId": 5, "output": 1})),
            answer(json!({"toolCallId": "", "output": 1})),
            answer(json!({"toolCallId": "c", "errorText": 5})),
            answer(json!({"toolCallId": "c", "output": 1, "errorText": "x"})),
            answer(json!({"toolCallId": "c", "output": null, "approved": true})),
            answer(json!({"toolCallId": "c", "approved": "yes"})),
            answer(json!({"approvalId": {}, "approved": true})),
            answer(json!({"approvalId": "p", "output": 1})),
            answer(json!({"approvalId": "p", "approved": true, "reason": 5})),
            answer(json!({"approvalId": "p", "approved": true, "always": 1})),
            answer(json!({"approvalId": "p", "approved": true, "always": {"scope": 5}})),
            answer(json!({"approvalId": "p", "approved": true, "always": {"for": "all"}})),
            answer(json!({"approvalId": "p", "approved": true, "always": {"until": "soon"}})),
            answer(json!({"approvalId": "p", "approved": true, "always": {"until": "-1h"}})),
            answer(json!({"approvalId": "p", "approved": true, "input": {}, "inputText": "{}"})),
            answer(json!({"approvalId": "p", "approved": true, "inputText": "{"})),
            answer(json!({"toolCallId": "c", "is_error": true})),
            answer(json!({"toolCallId": "c", "result": 1, "is_error": "yes"})),
            answer(json!({"elicitationId": "e", "action": "maybe"})),
            answer(json!({"elicitationId": "e", "action": 1})),
            answer(json!({"action": "accept"})),
            answer(json!({"elicitationId": "e", "approved": true})),
            answer(json!({"answers": []})),
            answer(json!({"answers": "x"})),
            answer(json!({"answers": [null]})),
            answer(json!({"answers": [{"toolCallId": "c"}]})),
            answer(json!({"answers": [{"toolCallId": "c", "output": 1}, {"toolCallId": "c", "output": 2}]})),
        ],
        expect![[r#"
            The body is "x"; it must be a JSON object.
            `chatId` is missing; it must be the chat's id.
            `chatId` is no chat id: a chat id is 1 to 128 characters of A-Z, a-z, 0-9, '_', '.', ':' and '-', and not ".", ".." or "tool-result".
            `session_id` is 5; it must be a string.
            The answer says nothing; it must have `output`, `errorText`, `approved` or `action`.
            `toolCallId` is missing; it must be the id of the call that is answered.
            `toolCallId` is 5; it must be a string.
            `toolCallId` is empty; it must be a string that is not empty.
            `errorText` is 5; it must be a string.
            The answer says more than one thing; it must have one of `output`, `errorText`, `approved` or `action`.
            The answer says more than one thing; it must have one of `output`, `errorText`, `approved` or `action`.
            `approved` is "yes"; it must be true or false.
            `approvalId` is an object; it must be a string.
            `approvalId` goes with `approved` only; name the call with `toolCallId`.
            `reason` is 5; it must be a string.
            `always` is 1; it must be true, false or an object.
            `always.scope` is 5; it must be a string.
            `always.for` is "all"; it must be "chat" or "owner".
            `always.until` is "soon"; it must be a duration of at most ten years, such as "30m", "24h" or "7d".
            `always.until` is "-1h"; it must be a duration of at most ten years, such as "30m", "24h" or "7d".
            The answer has the edited input twice; send `input` or `inputText`.
            The answer has an `inputText` that is no JSON (EOF while parsing an object at line 1 column 1); it must be the edited input as JSON text.
            The answer says nothing; it must have `output`, `errorText`, `approved` or `action`.
            `is_error` is "yes"; it must be true or false.
            `action` is "maybe"; it must be "accept", "decline" or "cancel".
            `action` is 1; it must be "accept", "decline" or "cancel".
            `elicitationId` is missing; it must be the id of the question that `action` answers.
            `elicitationId` goes with `action`: "accept", "decline" or "cancel".
            `answers` is an empty list; it must be a list of at least one answer.
            `answers` is "x"; it must be a list.
            `answers[0]` is null; it must be an object.
            `answers[0]` says nothing; it must have `output`, `errorText`, `approved` or `action`.
            `answers[1]` answers what `answers[0]` answers; each call is answered once.
        "#]],
    );
}

#[test]
fn that_an_input_is_edited_is_told_by_itself() {
    let edited = answer(json!({"approvalId": "a", "toolCallId": "c", "editing": true})).unwrap();
    let of = AnswerTarget::Approval(fermata_protocol::ApprovalId::new("a"));
    assert_eq!(edited.result, ToolResult::Editing { of, is_edited: true });
    let preview = answer(json!({"approvalId": "a", "preview": {"inputText": "{\"n\":1.0}"}})).unwrap();
    assert!(matches!(preview.result, ToolResult::Preview { input, .. } if input.as_str() == r#"{"n":1.0}"#));
    let edited = answer(json!({"tool_call_id": "c", "editing": false})).unwrap();
    let of = AnswerTarget::Call(fermata_protocol::ToolCallId::new("c"));
    assert_eq!(edited.result, ToolResult::Editing { of, is_edited: false });
    errors(
        [
            answer(json!({"editing": true})),
            answer(json!({"toolCallId": "c", "editing": true, "approved": true})),
            answer(json!({"toolCallId": "c", "editing": "yes"})),
            answer(json!({"answers": [{"toolCallId": "c", "editing": true}]})),
            answer(json!({"preview": {"input": 1}})),
            answer(json!({"toolCallId": "c", "preview": {"input": 1}, "editing": true})),
            answer(json!({"toolCallId": "c", "preview": {"input": 1}, "output": 1})),
            answer(json!({"toolCallId": "c", "preview": {}})),
            answer(json!({"toolCallId": "c", "preview": {"input": 1, "inputText": "1"}})),
            answer(json!({"toolCallId": "c", "preview": {"inputText": "{"}})),
            answer(json!({"toolCallId": "c", "preview": true})),
        ],
        expect![[r#"
            `editing` and `preview` are no answers: post each by itself, with the `toolCallId` or the `approvalId` of one call.
            `editing` and `preview` are no answers: post each by itself, with the `toolCallId` or the `approvalId` of one call.
            `editing` is "yes"; it must be true or false.
            `answers[0]` cannot be taken: `editing` and `preview` are no answers: post each by itself, with the `toolCallId` or the `approvalId` of one call.
            `editing` and `preview` are no answers: post each by itself, with the `toolCallId` or the `approvalId` of one call.
            `editing` and `preview` are no answers: post each by itself, with the `toolCallId` or the `approvalId` of one call.
            `editing` and `preview` are no answers: post each by itself, with the `toolCallId` or the `approvalId` of one call.
            `preview` has no `input`; it must be the call's input as edited.
            `preview` has the edited input twice; send `input` or `inputText`.
            `preview` has an `inputText` that is no JSON (EOF while parsing an object at line 1 column 1); it must be the edited input as JSON text.
            `preview` is true; it must be an object.
        "#]],
    );
}
