//! Each ability of the demo as a transcript.

use expect_test::{Expect, expect};

use super::*;

fn tool(name: &str, schema: Value) -> ModelTool {
    ModelTool { name: name.into(), description: String::new(), input_schema: schema }
}

fn server_tools() -> Vec<ModelTool> {
    ["current_time", "search_notes", "write_note"].map(|name| tool(name, json!({"type": "object"}))).into()
}

fn with_location() -> Vec<ModelTool> {
    let mut tools = server_tools();
    tools.push(tool("get_location", json!({"type": "object", "properties": {}})));
    tools
}

fn asked(said: &str, tools: Vec<ModelTool>) -> ModelRequest {
    let messages = vec![
        ModelMessage::System("Be kind.".into()),
        ModelMessage::User(vec![ModelContent::Text("what time is it".into())]),
        ModelMessage::Assistant { reasoning: String::new(), text: "Noon.".into(), calls: vec![] },
        ModelMessage::User(vec![ModelContent::Text(said.into())]),
    ];
    ModelRequest { messages, tools, tool_choice: None, settings: serde_json::Map::new() }
}

/// The request after the calls of the reply to `said` have been answered.
fn answered(said: &str, answers: &[(&str, Value, &str)]) -> ModelRequest {
    let mut request = asked(said, with_location());
    let calls: Vec<ModelCall> = answers
        .iter()
        .enumerate()
        .map(|(place, (tool, input, _))| ModelCall {
            id: format!("c{place}"),
            tool: (*tool).into(),
            input: input.clone(),
        })
        .collect();
    let results: Vec<ModelMessage> = calls
        .iter()
        .zip(answers)
        .map(|(call, (tool, _, result))| ModelMessage::Tool {
            call_id: call.id.clone(),
            tool: (*tool).into(),
            content: vec![ModelContent::Text((*result).into())],
        })
        .collect();
    request.messages.push(ModelMessage::Assistant { reasoning: String::new(), text: "…".into(), calls });
    request.messages.extend(results);
    request
}

fn check(request: &ModelRequest, expected: Expect) {
    let lines: String = reply(request)
        .into_iter()
        .map(|event| match event {
            ModelEvent::Text(text) => format!("text {text}\n"),
            ModelEvent::Reasoning(text) => format!("reasoning {text}\n"),
            ModelEvent::CallStart { key, tool } => format!("call {key} {tool} "),
            ModelEvent::CallDelta { arguments, .. } => format!("{arguments}\n"),
            ModelEvent::Finished { reason, .. } => format!("finished {reason:?}\n"),
            other => panic!("{other:?}"),
        })
        .collect();
    expected.assert_eq(&lines);
}

#[test]
fn the_greeting_says_what_it_is_how_to_get_a_model_and_what_to_try() {
    check(
        &asked("hi", server_tools()),
        expect![[r#"
        text Hello! I am Fermata's built-in demo: a script, not a language model, here because no model API is set up. For a real model, set OPENAI_API_KEY (or OPENAI_BASE_URL for a server of your own) and FERMATA_MODEL, and start Fermata again.

        Meanwhile I can show you what Fermata does. Try:
        - `what time is it`: a tool that the server runs without asking
        - `write a note: buy milk`: a tool that waits for your approval
        - `find my notes about milk`: another tool of the server, which shares a lock with the one above
        - `where am I`: a tool that your browser runs, if the page has posted one
        - `do everything`: several calls in one step
        - `think about tea`: reasoning before the answer
        - `use <tool name>`: any tool of this chat, also your page's own
        finished Stop
    "#]],
    );
}

#[test]
fn the_time_is_a_server_tool_that_needs_no_asking() {
    check(
        &asked("what time is it?", server_tools()),
        expect![[r#"
        text Let me look at the clock.
        call 0 current_time {}
        finished ToolCalls
    "#]],
    );
    let result = r#"{"time":"12:00"}"#;
    check(
        &answered("what time is it?", &[("current_time", json!({}), result)]),
        expect![[r#"
            text The server's clock says: {"time":"12:00"}
            finished Stop
        "#]],
    );
}

#[test]
fn a_note_is_proposed_and_its_approval_acknowledged() {
    check(
        &asked("write a note: buy milk", server_tools()),
        expect![[r#"
        text I will write that down, if you allow it.
        call 0 write_note {"title":"buy milk","body":"buy milk"}
        finished ToolCalls
    "#]],
    );
    let input = json!({"title": "buy milk", "body": "buy milk"});
    check(
        &answered("write a note: buy milk", &[("write_note", input, r#"{"id":1}"#)]),
        expect![[r#"
            text Thank you: I wrote down “buy milk”. Ask me to find it again.
            finished Stop
        "#]],
    );
}

#[test]
fn a_denied_note_is_acknowledged_with_the_reason() {
    let input = json!({"title": "buy milk", "body": "buy milk"});
    let result = "The user denied this call: not now";
    check(
        &answered("write a note: buy milk", &[("write_note", input, result)]),
        expect![[r#"
            text `write_note` was denied, so I left it. I was told: The user denied this call: not now
            finished Stop
        "#]],
    );
}

#[test]
fn an_edited_note_is_acknowledged_as_edited() {
    let input = json!({"title": "Milk", "body": "buy oat milk"});
    check(
        &answered("write a note: buy milk", &[("write_note", input, r#"{"id":1}"#)]),
        expect![[r#"
            text Thank you: I wrote down your version, “Milk”: buy oat milk
            finished Stop
        "#]],
    );
}

#[test]
fn notes_are_searched() {
    check(
        &asked("find my notes about milk", server_tools()),
        expect![[r#"
        text Let me look through your notes.
        call 0 search_notes {"query":"milk"}
        finished ToolCalls
    "#]],
    );
    let result = r#"{"notes":[{"title":"denied milk"}]}"#;
    check(
        &answered("find my notes about milk", &[("search_notes", json!({"query": "milk"}), result)]),
        expect![[r#"
            text This is what your notes have: {"notes":[{"title":"denied milk"}]}
            finished Stop
        "#]],
    );
}

#[test]
fn the_location_is_the_browsers_where_it_posted_a_tool() {
    check(
        &asked("where am I?", with_location()),
        expect![[r#"
        text Your browser knows that; I am asking it.
        call 0 get_location {}
        finished ToolCalls
    "#]],
    );
    let result = r#"{"city":"Bern"}"#;
    check(
        &answered("where am I?", &[("get_location", json!({}), result)]),
        expect![[r#"
            text `get_location` gave: {"city":"Bern"}
            finished Stop
        "#]],
    );
}

#[test]
fn without_a_browser_tool_the_demo_says_how_to_post_one() {
    let request = asked("where am I?", server_tools());
    check(
        &request,
        expect![[r#"
        text Only your browser knows that, and it has lent me no tool to ask it with. A page, or a curl call, posts such a tool next to the messages:

        ```json
        "tools": {"get_location": {"description": "Where the user is", "parameters": {"type": "object", "properties": {}}}}
        ```

        Then ask me again, and the call waits until the page answers it.
        finished Stop
    "#]],
    );
    let posted: Value = serde_json::from_str(&format!("{{{LOCATION_TOOL}}}")).unwrap();
    assert!(posted["tools"]["get_location"]["parameters"].is_object());
}

#[test]
fn everything_is_several_calls_in_one_step() {
    check(
        &asked("do everything", with_location()),
        expect![[r#"
        text All at once, then. Nothing of it runs before you have decided what you are asked.
        call 0 current_time {}
        call 1 search_notes {"query":"milk"}
        call 2 write_note {"title":"buy milk","body":"buy milk"}
        call 3 get_location {}
        finished ToolCalls
    "#]],
    );
    let note = json!({"title": "buy milk", "body": "buy milk"});
    let answers = [
        ("current_time", json!({}), "12:00"),
        ("write_note", note, "Denied: no"),
        ("get_location", json!({}), "The call failed: no permission"),
    ];
    check(
        &answered("do everything", &answers),
        expect![[r#"
        text The server's clock says: 12:00

        `write_note` was denied, so I left it. I was told: Denied: no

        `get_location` did not work. I was told: The call failed: no permission
        finished Stop
    "#]],
    );
}

#[test]
fn thinking_streams_reasoning_before_the_text() {
    check(
        &asked("think about tea", vec![]),
        expect![[r#"
        reasoning Somebody wants me to think about tea. I am a script, so this is no thought, but it streams like one: a real model's reasoning would stand here, and a client may fold it away.
        text I have thought about tea as well as a script can. The part above this one is the reasoning.
        finished Stop
    "#]],
    );
}

#[test]
fn any_posted_tool_can_be_used_by_name() {
    let schema = json!({"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}});
    check(
        &asked("use Get_Weather", vec![tool("get_weather", schema)]),
        expect![[r#"
            text Calling `get_weather` with an input made up from its schema.
            call 0 get_weather {"city":"a city from the demo"}
            finished ToolCalls
        "#]],
    );
    check(
        &asked("use nothing", server_tools()),
        expect![[r#"
        text I see no tool of that name. This chat has: `current_time`, `search_notes`, `write_note`.
        finished Stop
    "#]],
    );
}

#[test]
fn a_tool_choice_is_obeyed() {
    let with = |choice, said| ModelRequest { tool_choice: Some(choice), ..asked(said, server_tools()) };
    check(
        &with(ToolChoice::None, "what time is it"),
        expect![[r#"
        text I would call a tool for that, but was told to call none.
        finished Stop
    "#]],
    );
    check(
        &with(ToolChoice::Required, "hi"),
        expect![[r#"
        text As you wish.
        call 0 current_time {}
        finished ToolCalls
    "#]],
    );
    check(
        &with(ToolChoice::Tool("search_notes".into()), "what time is it"),
        expect![[r#"
            text As you wish.
            call 0 search_notes {}
            finished ToolCalls
        "#]],
    );
}

#[test]
fn tools_that_are_not_there_are_not_called() {
    for said in
        ["what time is it", "write a note: x", "find notes about x", "do everything", "use it", "where am I"]
    {
        assert!(
            reply(&asked(said, vec![])).iter().all(|event| !matches!(event, ModelEvent::CallStart { .. })),
            "{said}"
        );
    }
}

#[test]
fn every_ability_that_the_greeting_names_does_something() {
    for line in ABILITIES.lines() {
        let said = line.split('`').nth(1).unwrap().replace("<tool name>", "get_location");
        assert_ne!(Wish::read(&said), Wish::Talk, "{said}");
    }
}

#[test]
fn a_request_without_a_user_message_is_greeted() {
    let request = ModelRequest {
        messages: vec![ModelMessage::System("x".into())],
        tools: vec![],
        tool_choice: None,
        settings: serde_json::Map::new(),
    };
    assert!(matches!(&reply(&request)[0], ModelEvent::Text(text) if text.starts_with("Hello!")));
}

#[test]
fn a_result_whose_middle_was_left_out_is_no_failure() {
    let mut request = answered("where am I", &[("get_location", json!({}), "")]);
    let Some(ModelMessage::Tool { content, .. }) = request.messages.last_mut() else { panic!("{request:?}") };
    *content =
        [r#"{"city":"Be"#, "[… 9 bytes …]", r#"rn"}"#].map(|text| ModelContent::Text(text.into())).into();
    check(
        &request,
        expect![[r#"
            text `get_location` gave: {"city":"Be
            [… 9 bytes …]
            rn"}
            finished Stop
        "#]],
    );
}

#[test]
fn a_file_in_a_result_is_named() {
    let mut request = answered("where am I", &[("get_location", json!({}), "")]);
    let Some(ModelMessage::Tool { content, .. }) = request.messages.last_mut() else { panic!("{request:?}") };
    let file = |filename: Option<&str>| ModelContent::File {
        media_type: "image/png".into(),
        url: "data:image/png;base64,AAAA".into(),
        filename: filename.map(ToOwned::to_owned),
    };
    *content = vec![ModelContent::Text("A map:".into()), file(None), file(Some("b.png"))];
    check(
        &request,
        expect![[r#"
            text `get_location` gave: A map:
            [a file (image/png)]
            [b.png (image/png)]
            finished Stop
        "#]],
    );
}
