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
    ModelRequest { messages, tools, ..ModelRequest::default() }
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
            text Hello! I am Fermata's built-in **demo**: a script, not a language model. Type any of these and see what happens:

            - `what time is it`: a tool that the server runs without asking
            - `write a note: buy milk`: a tool that waits for your approval
            - `find my notes about milk`: another tool of the server, which shares a lock with the one above
            - `where am I`: a tool that your browser runs, if the page has posted one
            - `do everything`: several calls in one step
            - `think about tea`: reasoning before the answer
            - `tell me a long story`: a long answer; press stop whenever you like
            - `use current_time`: any tool of this chat by its name, also your page's own

            For a real model, set `OPENAI_API_KEY` (or `OPENAI_BASE_URL` for a server of your own) and `FERMATA_MODEL`, and start Fermata again.
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
fn a_request_without_a_user_message_is_greeted() {
    let request =
        ModelRequest { messages: vec![ModelMessage::System("x".into())], ..ModelRequest::default() };
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

/// What each line of a greeting is about, in the order of the lines, with the tool that it calls.
fn offered(language: Language) -> Vec<(Wish, &'static [&'static str])> {
    let (note, query, title, about) = match language {
        Language::English => ("buy milk", "milk", "first visit", "tea"),
        Language::Chinese => ("买牛奶", "牛奶", "第一次来访", "茶"),
    };
    let all = &["current_time", "search_notes", "write_note", "get_location", "show_chart"];
    vec![
        (Wish::Time, &["current_time"]),
        (Wish::WriteNote(note.into()), &["write_note"]),
        (Wish::FindNotes(query.into()), &["search_notes"]),
        (Wish::Location, &["get_location"]),
        (Wish::Chart(ChartKind::Bar), &["show_chart"]),
        (Wish::Question, &["ask_user"]),
        (Wish::PickFile, &["pick_file"]),
        (Wish::CreateRecord(title.into()), &["create_record"]),
        (Wish::Everything, all),
        (Wish::Think(about.into()), &[]),
        (Wish::Story, &[]),
        (Wish::Use("get_weather".into()), &["get_weather"]),
    ]
}

fn of_a_page() -> Vec<ModelTool> {
    let page = ["show_chart", "ask_user", "pick_file", "create_record", "get_weather"];
    with_location().into_iter().chain(page.map(|name| tool(name, json!({"type": "object"})))).collect()
}

fn text_of(request: &ModelRequest) -> String {
    match &reply(request)[0] {
        ModelEvent::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    }
}

/// What a greeting says to type.
fn lines_of(greeting: &str) -> Vec<&str> {
    greeting.lines().filter_map(|line| line.strip_prefix("- `")?.split('`').next()).collect()
}

fn called(events: &[ModelEvent]) -> Vec<&str> {
    let tools = events.iter().filter_map(|event| match event {
        ModelEvent::CallStart { tool, .. } => Some(tool.as_str()),
        _ => None,
    });
    tools.collect()
}

#[test]
fn every_line_of_a_greeting_does_what_it_says_when_typed_exactly() {
    for (hello, language) in [("hello", Language::English), ("你好", Language::Chinese)] {
        let greeting = text_of(&asked(hello, of_a_page()));
        let lines = lines_of(&greeting);
        let expected = offered(language);
        assert_eq!(lines.len(), expected.len(), "{greeting}");
        for (line, (wish, tools)) in lines.into_iter().zip(expected) {
            assert_eq!(Wish::read(line), wish, "{line}");
            assert_eq!(Language::of(line), language, "the answer to {line} is in its language");
            assert_eq!(called(&reply(&asked(line, of_a_page()))), tools, "{line}");
        }
    }
}

#[test]
fn what_a_page_cannot_do_is_not_offered_and_explained_to_who_asks() {
    for (hello, language) in [("hi", Language::English), ("您好", Language::Chinese)] {
        let greeting = text_of(&asked(hello, server_tools()));
        let wishes: Vec<_> = lines_of(&greeting).into_iter().map(Wish::read).collect();
        let of_page = ["show_chart", "ask_user", "pick_file", "create_record", "get_weather"];
        let expected = offered(language)
            .into_iter()
            .filter(|(_, tools)| tools.len() != 1 || !of_page.contains(&tools[0]));
        let mut expected: Vec<_> = expected.map(|(wish, _)| wish).collect();
        expected.push(Wish::Use("current_time".into()));
        assert_eq!(wishes, expected, "{greeting}");
        let bare = text_of(&asked(hello, vec![]));
        assert_eq!(lines_of(&bare).len(), 4, "no tool at all: {bare}");
    }
    for said in
        ["draw a chart", "ask me something", "pick a file", "create a record: x", "问我一个问题", "现在几点"]
    {
        assert!(called(&reply(&asked(said, vec![]))).is_empty(), "{said}");
        assert!(text_of(&asked(said, vec![])).contains('`'), "{said}: which tool is missing");
    }
}

#[test]
fn who_writes_chinese_is_answered_in_chinese() {
    check(
        &asked("你好", server_tools()),
        expect![[r#"
            text 你好！我是 Fermata 内置的**演示**：只是一段脚本，不是语言模型。输入下面任意一行，看看会发生什么：

            - `现在几点`: 服务器直接运行的工具
            - `写一条笔记：买牛奶`: 需要你批准才会运行的工具
            - `查找关于牛奶的笔记`: 服务器的另一个工具，与上面那个共用一把锁
            - `我在哪里`: 由浏览器运行的工具（需要页面提供）
            - `全部一起来`: 一步里的多个调用
            - `思考一下茶`: 回答之前的推理
            - `讲一个长故事`: 一段很长的回答，随时可以按停止
            - `使用 current_time`: 按名字调用这个聊天里的任意工具，包括页面自己的

            想用真正的模型，请设置 `OPENAI_API_KEY`（或者用 `OPENAI_BASE_URL` 指向你自己的服务器）和 `FERMATA_MODEL`，然后重新启动 Fermata。
            finished Stop
        "#]],
    );
    check(
        &asked("写一条笔记：买牛奶", server_tools()),
        expect![[r#"
            text 如果你允许，我就记下来。
            call 0 write_note {"title":"买牛奶","body":"买牛奶"}
            finished ToolCalls
        "#]],
    );
    let input = json!({"title": "买牛奶", "body": "买牛奶"});
    check(
        &answered("写一条笔记：买牛奶", &[("write_note", input.clone(), r#"{"id":1}"#)]),
        expect![[r#"
            text 谢谢，我记下了“买牛奶”。你可以让我再把它找出来。
            finished Stop
        "#]],
    );
    check(
        &answered("写一条笔记：买牛奶", &[("write_note", input, "Denied: not now")]),
        expect![[r#"
            text `write_note` 被拒绝了，所以我没有做。得到的说明是：Denied: not now
            finished Stop
        "#]],
    );
    check(
        &asked("全部一起来", of_a_page()),
        expect![[r#"
            text 那就一起来。在你做出所有决定之前，什么都不会运行。
            call 0 current_time {}
            call 1 search_notes {"query":"牛奶"}
            call 2 write_note {"title":"买牛奶","body":"买牛奶"}
            call 3 get_location {}
            call 4 show_chart {"title":"各月茶的销量（虚构）","kind":"bar","labels":["一月","二月","三月","四月","五月","六月"],"series":[{"name":"绿茶","values":[120,135,150,170,210,240]},{"name":"红茶","values":[180,175,160,140,120,105]},{"name":"薄荷茶","values":[60,72,95,130,150,165]}]}
            finished ToolCalls
        "#]],
    );
    check(
        &asked("思考一下茶", vec![]),
        expect![[r#"
            reasoning 有人想让我思考一下茶。我只是一段脚本，所以这不算思考，但它像思考一样一点点出现：真正的模型会把推理写在这里，客户端可以把它折叠起来。
            text 关于茶，我已经像脚本那样认真想过了。上面那一段就是推理。
            finished Stop
        "#]],
    );
}

#[test]
fn a_chart_has_a_number_for_every_label_whatever_its_kind_and_language() {
    let said =
        ["draw a chart", "draw a line chart", "draw a pie chart", "画一张图表", "画一张折线图", "画一个饼图"];
    for (words, kind) in said.into_iter().zip(["bar", "line", "pie"].into_iter().cycle()) {
        let input = input_of(words);
        assert_eq!(input["kind"], kind, "{words}");
        let labels = input["labels"].as_array().unwrap().len();
        let series = input["series"].as_array().unwrap();
        assert!(labels > 1 && !series.is_empty() && input["title"].is_string());
        for one in series {
            assert!(one["name"].is_string());
            let values = one["values"].as_array().unwrap();
            assert!(values.len() == labels && values.iter().all(Value::is_number), "{words}");
        }
    }
}

/// The input of the one call that these words lead to.
fn input_of(said: &str) -> Value {
    let events = reply(&asked(said, of_a_page()));
    let arguments = events.iter().find_map(|event| match event {
        ModelEvent::CallDelta { arguments, .. } => Some(arguments.as_str()),
        _ => None,
    });
    serde_json::from_str(arguments.expect("a call")).unwrap()
}

#[test]
fn a_form_asks_for_a_name_a_drink_and_cups_and_the_answers_are_repeated() {
    for said in ["ask me something", "问我一个问题"] {
        let input = input_of(said);
        let fields = &input["fields"]["properties"];
        assert_eq!(fields["name"]["type"], "string", "{said}");
        assert_eq!(fields["drink"]["enum"].as_array().unwrap().len(), 3, "{said}");
        assert_eq!(fields["cups"]["type"], "integer", "{said}");
    }
    let told = |said: &str, result: &str| text_of(&answered(said, &[("ask_user", input_of(said), result)]));
    let answers = r#"{"name":"Ann","drink":"tea","cups":3}"#;
    assert_eq!(
        told("ask me something", answers),
        "Thank you. You told me:\n\n- Your name: **Ann**\n- Your favourite drink: **tea**\n- How many cups a day?: **3**\n\n\
         That is all I know of you. Nice to meet you, Ann. If scripts could pour, your tea would be on its way."
    );
    assert_eq!(
        told("ask me something", &format!(r#"{{"answers":{answers}}}"#)),
        told("ask me something", answers)
    );
    assert!(told("问我一个问题", r#"{"name":"安","drink":"茶"}"#).contains("很高兴认识你，安。"));
    for (result, shown) in
        [(r#"{"answer":"green"}"#, "- green"), (r#""green""#, "- green"), ("green", "- green")]
    {
        assert!(told("ask me something", result).contains(shown), "{result}");
    }
    for nothing in ["null", "{}", r#"{"cancelled":true}"#] {
        assert_eq!(
            told("ask me something", nothing),
            "You would rather not say, which is fine.",
            "{nothing}"
        );
    }
}

#[test]
fn what_a_page_did_is_told_in_words() {
    let told = |said: &str, tool: &str, input: Value, result: &str| {
        text_of(&answered(said, &[(tool, input, result)]))
    };
    let chart = input_of("draw a chart");
    assert_eq!(
        told("draw a chart", "show_chart", chart, r#"{"shown":true}"#),
        "There it is: “Tea sold by month (made up)”. Your browser drew it; I only sent the numbers."
    );
    let file = r#"{"name":"notes.txt","size":1234,"type":"text/plain"}"#;
    for (result, expected) in [
        (file.to_owned(), "You picked “notes.txt” (1.2 kB, text/plain)."),
        (format!("[{file}]"), "You picked “notes.txt” (1.2 kB, text/plain)."),
        (
            format!(r#"{{"files":[{file},{{"name":"b"}}]}}"#),
            "You picked “notes.txt” (1.2 kB, text/plain), “b”.",
        ),
        (r#"{"name":"big","size":2500000}"#.into(), "You picked “big” (2.5 MB)."),
        (r#"{"name":"small","size":999}"#.into(), "You picked “small” (999 B)."),
        (r#"{"cancelled":true}"#.into(), "You picked no file, which is fine."),
        ("null".into(), "You picked no file, which is fine."),
    ] {
        assert_eq!(told("pick a file", "pick_file", json!({}), &result), expected, "{result}");
    }
    let record = input_of("create a record: first visit");
    assert_eq!(record["title"], "first visit");
    assert_eq!(
        told("create a record: first visit", "create_record", record, r#"{"id":"1"}"#),
        "Done: “first visit” is in the collection “visits” of your browser now."
    );
    let here = r#"{"latitude":46.94797,"longitude":7.44744,"accuracy":18.6}"#;
    let place =
        "Your browser says that you are at latitude 46.9480, longitude 7.4474, give or take 19 metres.";
    assert_eq!(told("where am I", "get_location", json!({}), here), place);
    assert_eq!(told("where am I", "get_location", json!({}), &format!(r#"{{"coords":{here}}}"#)), place);
    assert_eq!(
        told("pick a file", "pick_file", json!({}), "Denied: mine"),
        "`pick_file` was denied, so I left it. I was told: Denied: mine"
    );
}

#[test]
fn a_story_has_all_that_markdown_has() {
    for said in ["tell me a long story", "讲一个长故事"] {
        let story = text_of(&asked(said, vec![]));
        for mark in ["# ", "\n## ", "\n|---|", "\n- ", "\n1. ", "\n```rust\n", "\n> ", "**"] {
            assert!(story.contains(mark), "{said}: no {mark:?}");
        }
        assert!(
            story.split_whitespace().count() > 500 || story.chars().filter(|c| is_han(*c)).count() > 700,
            "{said}"
        );
    }
}
