use std::time::Duration;

use fermata_engine::model::{ModelCall, ModelContent, ModelMessage, ModelTool};
use fermata_protocol::{FinishReason, ToolChoice};
use serde_json::{Value, json};

use super::*;

/// The tools of the server, of the web demo's page and of a page elsewhere.
fn tools() -> Vec<ModelTool> {
    let names = [
        "current_time",
        "search_notes",
        "write_note",
        "get_location",
        "show_chart",
        "ask_user",
        "pick_file",
        "create_record",
        "get_weather",
    ];
    names.map(|name| tool(name, json!({"type": "object"}))).into()
}

fn tool(name: &str, input_schema: Value) -> ModelTool {
    ModelTool { name: name.into(), description: String::new(), input_schema: input_schema.into() }
}

fn asked(said: &str, tools: Vec<ModelTool>) -> ModelRequest {
    let user = |text: &str| ModelMessage::User(vec![ModelContent::Text(text.into())]);
    let answer = ModelMessage::Assistant {
        reasoning: String::new(),
        text: "Noon.".into(),
        calls: vec![],
        provider_metadata: None,
    };
    let messages = vec![ModelMessage::System("Be kind.".into()), user("what time is it"), answer, user(said)];
    ModelRequest { messages, tools, ..ModelRequest::default() }
}

/// The request after calls have been answered, each with its tool, its input and the result.
fn answered(said: &str, answers: &[(&str, Value, &str)]) -> ModelRequest {
    let mut request = asked(said, tools());
    let calls = answers.iter().enumerate().map(|(place, (tool, input, _))| ModelCall {
        id: place.to_string(),
        tool: (*tool).into(),
        input: input.clone().into(),
        provider_metadata: None,
    });
    let results = answers.iter().enumerate().map(|(place, (tool, _, result))| ModelMessage::Tool {
        call_id: place.to_string(),
        tool: (*tool).into(),
        content: vec![ModelContent::Text((*result).into())],
    });
    let calls = ModelMessage::Assistant {
        reasoning: String::new(),
        text: String::new(),
        calls: calls.collect(),
        provider_metadata: None,
    };
    request.messages.push(calls);
    request.messages.extend(results);
    request
}

/// Returns the played answer in one line: reasoning, text and calls.
fn played(request: &ModelRequest, demo: &Demo) -> String {
    let events = reply::reply(request, demo.scenes()).into_iter().map(|event| match event {
        Ok(ModelEvent::Text(text) | ModelEvent::Reasoning(text)) => format!("{text} "),
        Ok(ModelEvent::CallStart { tool, .. }) => format!("{tool} "),
        Ok(ModelEvent::CallDelta { arguments, .. }) => format!("{arguments} "),
        Ok(ModelEvent::Source { url, .. }) => url,
        Ok(ModelEvent::Finished { .. }) => String::new(),
        Ok(other) => panic!("{other:?}"),
        Err(error) => error.to_string(),
    });
    events.collect::<String>().trim().to_owned()
}

fn says(said: &str) -> String {
    played(&asked(said, tools()), &Demo::new())
}

fn tells(said: &str, tool: &str, input: Value, result: &str) -> String {
    played(&answered(said, &[(tool, input, result)]), &Demo::new())
}

#[test]
fn every_sentence_of_the_docs_the_page_and_the_tests_does_what_it_says() {
    for (said, expected) in [
        // README.md, docs, examples, the page with the curl lines and the tests of the pages
        ("hello", "Hello! I am Fermata's built-in **demo**"),
        ("hi", "Hello! "),
        ("help", "Hello! "),
        ("What can you do?", "Hello! "),
        ("what time is it", r#"Let me look at the clock. current_time {}"#),
        ("What time is it?", r#"Let me look at the clock. current_time {}"#),
        ("write a note: buy milk", r#"write_note {"title":"buy milk","body":"buy milk"}"#),
        ("Write a note: buy milk", r#"write_note {"title":"buy milk","body":"buy milk"}"#),
        ("write a note: buy bread", r#"write_note {"title":"buy bread","body":"buy bread"}"#),
        ("write a note: buy salt", r#"write_note {"title":"buy salt","body":"buy salt"}"#),
        ("write a note", r#"write_note {"title":"a note","body":"a note"}"#),
        ("Please write a note \"Buy milk.\"", r#"write_note {"title":"Buy milk","body":"Buy milk"}"#),
        ("remember the milk", r#"write_note {"title":"the milk","body":"the milk"}"#),
        ("remember to leave at 5:30", r#""body":"to leave at 5:30"}"#),
        ("write a note: draw a chart", r#"write_note {"title":"draw a chart""#),
        ("write a note: think about everything", r#"write_note {"title":"think about everything""#),
        ("write a note: one two three four five six", r#"{"title":"one two three four five","body""#),
        ("where am I", "Your browser knows that; I am asking it. get_location {}"),
        ("Where am I?", "get_location {}"),
        ("do everything", r#"current_time {} search_notes {"query":"milk"} write_note {"title":"buy milk""#),
        ("do everything", r#"get_location {} show_chart {"title":"#),
        ("find my notes about milk", r#"search_notes {"query":"milk"}"#),
        ("search for milk in my notes", r#"search_notes {"query":"milk"}"#),
        ("search notes", r#"search_notes {"query":""}"#),
        (
            "draw a chart",
            r#"show_chart {"title":"Tea sold by month (made up)","kind":"bar","labels":["January""#,
        ),
        ("Draw a chart!", r#""kind":"bar""#),
        ("draw a line chart by date", r#""kind":"line""#),
        ("show me a pie chart", r#""kind":"pie","labels":["Green tea""#),
        ("ask me something", r#"ask_user {"question":"Who are you"#),
        ("pick a file", r#"pick_file {"purpose":"#),
        ("let me choose files", "pick_file"),
        (
            "create a record: tea",
            r#"create_record {"collection":"visits","title":"tea","data":{"from":"the demo"}}"#,
        ),
        ("create a record: First visit", r#""title":"First visit""#),
        ("create a record: a note about everything", r#""title":"a note about everything""#),
        ("Create a record", r#""title":"a record""#),
        ("think about tea", "Somebody wants me to think about tea. "),
        ("think about lamps", "I have thought about lamps as well as a script can. "),
        ("think", "Somebody wants me to think about that. "),
        ("tell me a long story", "## "),
        ("use current_time", "Calling `current_time` with an input made up from its schema. current_time {}"),
        ("use ask_user", "ask_user {}"),
        ("Use get_weather.", "get_weather {}"),
        ("use t", "I see no tool of that name. This chat has: `current_time`, "),
        ("show an error", "Here it comes. the provider failed: "),
        ("cite a source", "https://ai-sdk.dev/"),
        (
            "useful",
            "I am a script, not a language model. Try: `what time is it`, `write a note: buy milk` or `where am I`.",
        ),
        ("", "I am a script, not a language model. Try: "),
        ("ÄÖ", "I am a script, not a language model. Try: "),
        // The same in Chinese
        ("你好", "你好！我是 Fermata 内置的**演示**"),
        ("你会什么？", "你好！"),
        ("现在几点", "我来看看时钟。 current_time {}"),
        ("请问现在是什么时间？", "current_time {}"),
        ("写一条笔记：买牛奶", r#"如果你允许，我就记下来。 write_note {"title":"买牛奶","body":"买牛奶"}"#),
        ("写一条笔记:买牛奶。", r#""body":"买牛奶"}"#),
        ("帮我记住“买牛奶”", r#""body":"买牛奶"}"#),
        ("记一下买牛奶", r#""body":"买牛奶"}"#),
        ("写一条笔记", r#""body":"一条笔记"}"#),
        ("写一条笔记：查找图表，全部一起来", r#""body":"查找图表，全部一起来"}"#),
        ("write a note: 买牛奶", r#""body":"买牛奶"}"#),
        ("查找关于牛奶的笔记", r#"search_notes {"query":"牛奶"}"#),
        ("搜索我的笔记", r#"search_notes {"query":""}"#),
        ("搜索笔记：牛奶", r#"search_notes {"query":"牛奶"}"#),
        ("找一下牛奶的笔记", r#"search_notes {"query":"牛奶"}"#),
        ("我在哪里", "get_location {}"),
        ("我的位置", "get_location {}"),
        ("全部一起来", r#"current_time {} search_notes {"query":"牛奶"} write_note {"title":"买牛奶""#),
        ("思考一下茶", "有人想让我思考一下茶。"),
        ("想一想关于茶的事", "有人想让我思考一下茶的事。"),
        ("思考", "有人想让我思考一下这件事。"),
        ("使用 get_weather", "正在调用 `get_weather`，输入是按它的 schema 编出来的。 get_weather {}"),
        ("使用get_weather。", "get_weather {}"),
        ("请使用工具 get_weather", "get_weather {}"),
        ("use 天气", "没有叫这个名字的工具。这个聊天里有：`current_time`、"),
        ("画一张图表", r#""kind":"bar","labels":["一月""#),
        ("画一张折线图", r#""kind":"line""#),
        ("画一个饼图", r#""kind":"pie""#),
        ("问我一个问题", r#"ask_user {"question":"你是谁"#),
        ("选择一个文件", "pick_file"),
        ("创建一条记录：茶", r#""title":"茶""#),
        ("创建一条记录：第一次来访", r#""title":"第一次来访""#),
        ("新建记录", r#""title":"一条记录""#),
        ("讲一个长故事", "## "),
        (
            "量子力学是怎么回事",
            "我是一段脚本，不是语言模型。可以试试：`现在几点`、`写一条笔记：买牛奶`或`我在哪里`。",
        ),
    ] {
        let played = says(said);
        assert!(played.contains(expected), "{said}: {played}");
    }
}

/// The tools that the web demo has without a page of its own.
fn all_tools() -> Vec<ModelTool> {
    let questions = json!({"type": "object", "properties": {"questions": {"type": "array"}}});
    let names = ["search_notes", "write_note", "make_plan", "update_plan", "busy_search", "broken_search"];
    let objects = names.map(|name| tool(name, json!({"type": "object"})));
    objects.into_iter().chain([tool("ask_user", questions)]).collect()
}

/// Plays a message to its end, with these results of each tool, and returns the calls of each step and the last words.
fn played_to_the_end(said: &str, tools: &[ModelTool], result: impl Fn(&str) -> String) -> Vec<String> {
    let demo = Demo::new();
    let mut request = asked(said, tools.to_vec());
    let mut steps = Vec::new();
    loop {
        steps.push(played(&request, &demo));
        let mut calls = Vec::new();
        for event in reply::reply(&request, demo.scenes()) {
            match event.unwrap() {
                ModelEvent::CallStart { tool, .. } => {
                    let id = format!("{}_{}", steps.len(), calls.len());
                    calls.push(ModelCall { id, tool, input: Value::Null.into(), provider_metadata: None });
                }
                ModelEvent::CallDelta { arguments, .. } => {
                    calls.last_mut().unwrap().input = serde_json::from_str(&arguments).unwrap();
                }
                _ => {}
            }
        }
        if calls.is_empty() {
            return steps;
        }
        let results = calls.iter().map(|call| ModelMessage::Tool {
            call_id: call.id.clone(),
            tool: call.tool.clone(),
            content: vec![ModelContent::Text(result(&call.tool))],
        });
        let results: Vec<_> = results.collect();
        request.messages.push(ModelMessage::Assistant {
            reasoning: String::new(),
            text: String::new(),
            calls,
            provider_metadata: None,
        });
        request.messages.extend(results);
        assert!(steps.len() < 10, "{steps:?}");
    }
}

#[test]
fn a_scene_may_have_several_steps() {
    for (said, query) in [
        ("search my notes for tea and write a shopping list", "tea"),
        ("搜索关于茶的笔记，然后保存一张购物清单", "茶"),
        ("search notes for tea and write a list", "tea"),
        ("搜索关于茶的笔记，然后保存一张清单", "茶"),
    ] {
        let result = |tool: &str| match tool {
            "search_notes" => r#"{"notes":[]}"#.to_owned(),
            "write_note" => r#"{"id":"note_1"}"#.to_owned(),
            _ => "{}".to_owned(),
        };
        let steps = played_to_the_end(said, &all_tools(), result);
        assert_eq!(steps.len(), 4, "{steps:?}");
        assert!(steps[0].starts_with("make_plan "), "{steps:?}");
        assert_eq!(steps[1], format!("search_notes {{\"query\":\"{query}\"}}"));
        assert!(steps[2].starts_with("write_note "), "{steps:?}");

        // Without plans it is the same without a plan.
        let without: Vec<_> = all_tools().into_iter().filter(|tool| !tool.name.ends_with("_plan")).collect();
        let steps = played_to_the_end(said, &without, result);
        assert_eq!(steps.len(), 3, "{steps:?}");

        // What is denied ends it.
        let steps = played_to_the_end(said, &all_tools(), |_| "The user denied this call.".to_owned());
        assert_eq!(steps.len(), 2, "{steps:?}");
    }
}

#[test]
fn failures_and_guesses_have_scenes() {
    for (said, call) in [
        ("ask the busy service", r#"busy_search {"query":"tea"}"#),
        ("ask the broken service", r#"broken_search {"query":"tea"}"#),
        ("问一下坏掉的服务", r#"broken_search {"query":"茶"}"#),
        ("book a table", r#"ask_user {"questions":[{"id":"day","question":"For which day?""#),
        ("ask me something", r#"ask_user {"questions":"#),
    ] {
        let played = played(&asked(said, all_tools()), &Demo::new());
        assert!(played.contains(call), "{said}: {played}");
    }
    let told = |said: &str, tool: &str, result: &str| {
        let mut request = answered(said, &[(tool, json!({}), result)]);
        request.tools = all_tools();
        played(&request, &Demo::new())
    };
    let found = told("ask the busy service", "busy_search", r#"{"found":["tea"]}"#);
    assert!(found.contains("the third time there was an answer"), "{found}");
    let failed = told("ask the broken service", "broken_search", "Error: The service cannot be reached.");
    assert!(failed.contains("your notes were searched in its place"), "{failed}");
    let answers = r#"{"answers":{"day":"Sunday","people":"3"}}"#;
    assert!(told("book a table", "ask_user", answers).contains("A table on Sunday for 3 it is."));
}

#[test]
fn results_are_told_in_sentences() {
    let note = json!({"title": "buy milk", "body": "buy milk"});
    let form =
        json!({"fields": {"properties": {"name": {"title": "Your name"}, "drink": {"title": "Drink"}}}});
    let file = r#"{"name":"notes.txt","size":1234,"type":"text/plain"}"#;
    let here = r#"{"latitude":46.94797,"longitude":7.44744,"accuracy":18.6}"#;
    let place =
        "Your browser says that you are at latitude 46.9480, longitude 7.4474, give or take 19 metres.";
    let time = r#"{"time":"2026-07-02T00:30:00+02:00","timezone":"America/New_York","weekday":"Thursday"}"#;
    for (tool, input, result, expected) in [
        ("current_time", json!({}), time, "It is 00:30 in New York."),
        ("current_time", json!({}), r#"{"time":"noon"}"#, "`current_time` gave: time: noon"),
        (
            "search_notes",
            json!({}),
            r#"{"notes":[{"title":"denied milk"}]}"#,
            "I found 1 note: “denied milk”.",
        ),
        (
            "search_notes",
            json!({}),
            r#"{"notes":[{"title":"a"},{"title":"b"}]}"#,
            "I found 2 notes: “a”, “b”.",
        ),
        ("search_notes", json!({"query": "x"}), r#"{"notes":[]}"#, "I found no notes about “x”."),
        ("search_notes", json!({"query": ""}), r#"{"notes":[]}"#, "I found no notes."),
        (
            "write_note",
            note.clone(),
            r#"{"id":1}"#,
            "Thank you: I wrote down “buy milk”. Ask me to find it again.",
        ),
        (
            "write_note",
            json!({"title": "Milk", "body": "buy oat milk"}),
            r#"{"id":1}"#,
            "Thank you: I wrote down your version, “Milk”: buy oat milk",
        ),
        (
            "write_note",
            note.clone(),
            "The user denied this call: not now",
            "`write_note` was denied, so I left it. I was told: The user denied this call: not now",
        ),
        (
            "write_note",
            note.clone(),
            r#"{"error":"disk full"}"#,
            "`write_note` did not work. I was told: disk full",
        ),
        (
            "get_location",
            json!({}),
            "The call failed: no permission",
            "`get_location` did not work. I was told: The call failed: no permission",
        ),
        (
            "get_location",
            json!({}),
            "The call was cancelled.",
            "`get_location` was cancelled. I was told: The call was cancelled.",
        ),
        ("get_location", json!({}), r#"{"city":"Bern"}"#, "`get_location` gave: city: Bern"),
        ("get_location", json!({}), here, place),
        ("get_location", json!({}), &format!(r#"{{"coords":{here}}}"#), place),
        ("get_weather", json!({}), "null", "`get_weather` is done."),
        (
            "get_weather",
            json!({}),
            r#"{"sky":{"cloud":1},"on":["a","b"]}"#,
            "`get_weather` gave: sky (cloud: 1), on (a, b)",
        ),
        ("ask_user", json!({}), r#""forty-two""#, "Thank you. You told me:\n\n- forty-two"),
        ("ask_user", json!({}), r#"{"answer":"b"}"#, "Thank you. You told me:\n\n- b"),
        ("ask_user", json!({}), r#"{"cancelled":true}"#, "You would rather not say, which is fine."),
        ("ask_user", json!({}), "null", "You would rather not say, which is fine."),
        (
            "ask_user",
            form.clone(),
            r#"{"answers":{"name":"Ada","drink":"tea"}}"#,
            "Thank you. You told me:\n\n- Your name: **Ada**\n- Drink: **tea**\n\nThat is all I know of you. Nice to meet you, Ada. If scripts could pour, your tea would be on its way.",
        ),
        ("pick_file", json!({}), file, "You picked “notes.txt” (1.2 kB, text/plain)."),
        ("pick_file", json!({}), r#"{"name":"big","size":2500000}"#, "You picked “big” (2.5 MB)."),
        ("pick_file", json!({}), r#"{"files":[{"name":"a"},{"name":"b"}]}"#, "You picked “a”, “b”."),
        ("pick_file", json!({}), r#"{"cancelled":true}"#, "You picked no file, which is fine."),
        ("pick_file", json!({}), "null", "You picked no file, which is fine."),
        (
            "create_record",
            json!({"title": "first visit", "collection": "visits"}),
            r#"{"id":"1"}"#,
            "Done: “first visit” is in the collection “visits” of your browser now.",
        ),
    ] {
        assert_eq!(tells("write a note: buy milk", tool, input, result), expected, "{tool} {result}");
    }
    assert_eq!(tells("现在几点", "current_time", json!({}), time), "New York 现在是 00:30。");
    let notes = r#"{"notes":[{"title":"a"},{"title":"b"}]}"#;
    assert_eq!(tells("查找笔记", "search_notes", json!({}), notes), "我找到了 2 条笔记：“a”、“b”。");
    assert_eq!(
        tells("写一条笔记：茶", "write_note", json!({"title": "茶"}), "Denied: no"),
        "`write_note` 被拒绝了，所以我没有做。得到的说明是：Denied: no"
    );
}

#[test]
fn a_long_result_is_shortened_and_a_long_note_is_not() {
    let told = tells("use get_weather", "get_weather", json!({}), &"x".repeat(5_000));
    assert!(told.ends_with('…') && told.len() < 700, "{told}");
    assert!(says(&format!("write a note: {}", "x".repeat(5_000))).len() > 10_000);
}

#[test]
fn several_results_are_told_together() {
    let answers =
        [("get_weather", json!({}), "sun"), ("write_note", json!({"title": "t", "body": "b"}), "Denied: no")];
    assert_eq!(
        played(&answered("do everything", &answers), &Demo::new()),
        "`get_weather` gave: sun\n\n`write_note` was denied, so I left it. I was told: Denied: no"
    );
}

#[test]
fn every_suggestion_leads_to_a_scene_of_its_own() {
    for help in ["help", "帮助"] {
        let list = says(help);
        let lines: Vec<_> =
            list.lines().filter_map(|line| line.strip_prefix("- `")?.split('`').next()).collect();
        assert_eq!(lines.len(), 13, "{list}");
        for line in lines {
            let played = says(line);
            assert!(
                !played.contains("not a language model.") && !played.contains("不是语言模型。"),
                "{line}: {played}"
            );
        }
    }
}

#[test]
fn a_tool_that_is_not_offered_is_neither_called_nor_suggested() {
    for said in [
        "what time is it",
        "write a note: x",
        "find notes about x",
        "do everything",
        "use it",
        "where am I",
        "hi",
    ] {
        let events = reply::reply(&asked(said, vec![]), Demo::new().scenes());
        assert!(events.iter().all(|event| !matches!(event, Ok(ModelEvent::CallStart { .. }))), "{said}");
    }
    let alone = |said| played(&asked(said, vec![]), &Demo::new());
    assert_eq!(
        alone("x"),
        "I am a script, not a language model. Try: `think about tea` or `tell me a long story`."
    );
    assert_eq!(
        alone("what time is it"),
        "I would call the tool `current_time` for that, but this chat does not offer it."
    );
    assert!(alone("where am I").contains(r#""tools": {"get_location": {"#));
}

#[test]
fn a_tool_of_a_page_is_called_by_name_with_an_input_from_its_schema() {
    let schema = json!({"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}});
    assert_eq!(
        played(&asked("use Get_Weather", vec![tool("get_weather", schema)]), &Demo::new()),
        r#"Calling `Get_Weather` with an input made up from its schema. get_weather {"city":"a city from the demo"}"#
    );
}

#[test]
fn a_tool_choice_is_obeyed() {
    let with = |choice, said| {
        let request = ModelRequest { tool_choice: Some(choice), ..asked(said, tools()) };
        played(&request, &Demo::new())
    };
    let forbidden = "I would call a tool for that, but was told to call none.";
    assert_eq!(with(ToolChoice::None, "what time is it"), forbidden);
    assert!(with(ToolChoice::None, "hi").starts_with("Hello!"));
    assert_eq!(with(ToolChoice::Required, "hi"), "As you wish. current_time {}");
    let search = ToolChoice::Tool("search_notes".into());
    assert_eq!(with(search, "what time is it"), "As you wish. search_notes {}");
}

#[tokio::test(start_paused = true)]
async fn the_answer_streams_in_several_deltas_and_finishes_last_with_usage() {
    let demo = Demo::new();
    let request = asked("hi", tools());
    let whole = played(&request, &demo);
    let events: Vec<_> = demo.stream(request).await.unwrap().map(Result::unwrap).collect().await;
    let (last, deltas) = events.split_last().unwrap();
    let ModelEvent::Finished { reason: FinishReason::Stop, usage: Some(usage) } = last else {
        panic!("{last:?}")
    };
    assert_eq!(usage.output_tokens, u64::try_from(whole.len().div_ceil(4)).unwrap());
    assert_eq!(usage.total_tokens, usage.input_tokens + usage.output_tokens);
    assert!(usage.input_tokens > 50, "{usage:?}");
    let joined: String = deltas
        .iter()
        .map(|event| match event {
            ModelEvent::Text(text) => text.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(deltas.len() > 5);
    assert_eq!(joined, whole);
}

#[test]
fn pieces_are_a_few_words_in_either_language_and_lose_nothing() {
    assert_eq!(pieces("one two three four"), ["one two three ", "four"]);
    assert_eq!(pieces("暂停和结束，分得清。"), ["暂停和", "结束，分", "得清。"]);
    assert_eq!(pieces(""), [""]);
}

#[tokio::test(start_paused = true)]
async fn a_story_takes_long_enough_to_be_stopped_and_a_sentence_does_not_take_long() {
    let takes = async |said: &str| {
        let begun = tokio::time::Instant::now();
        let _ = Demo::new().stream(asked(said, tools())).await.unwrap().count().await;
        begun.elapsed()
    };
    for said in ["tell me a long story", "讲一个长故事"] {
        assert!(takes(said).await > Duration::from_secs(3), "{said}");
    }
    assert!(takes("what time is it").await < Duration::from_millis(500));
}

#[test]
fn a_story_has_all_that_markdown_has() {
    for said in ["tell me a long story", "讲一个长故事"] {
        let story = says(said);
        for mark in ["# ", "\n## ", "\n|---|", "\n- ", "\n1. ", "\n```rust\n", "\n> ", "**"] {
            assert!(story.contains(mark), "{said}: no {mark:?}");
        }
    }
}

/// The example of the documentation.
fn documented() -> String {
    let page = include_str!("../../../../docs/guide/demo-model.md");
    let (_, rest) = page.split_once("```toml title=\"scenes.toml\"\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_example_of_the_documentation_plays_as_documented() {
    let demo = Demo::with_scenes("scenes.toml", &documented()).unwrap();
    let weather = tool("get_weather", json!({"type": "object"}));
    let request = |said| asked(said, vec![weather.clone()]);
    assert_eq!(
        played(&request("How is the weather in Bern?"), &demo),
        r#"They want to know about Bern. I will look. get_weather {"city":"Bern","days":3}"#
    );
    assert_eq!(
        played(&request("伯尔尼的天气怎么样"), &demo),
        r#"They want to know about 伯尔尼. 我来看看。 get_weather {"city":"伯尔尼","days":3}"#
    );
    let told = |result| {
        let input = json!({"city": "Bern", "days": 3});
        played(&answered("How is the weather in Bern?", &[("get_weather", input, result)]), &demo)
    };
    assert_eq!(told(r#"{"sky":"sunny","temperature":21.46}"#), "It is sunny in Bern, at 21.5 degrees.");
    assert_eq!(told(r#"{"sky":"sunny"}"#), "It is sunny in Bern.");
    assert_eq!(told("The user denied this call."), "Then I will not look.");
    assert_eq!(
        told("The call failed: no network"),
        "`get_weather` did not work. I was told: The call failed: no network"
    );
    assert_eq!(played(&request("break, please"), &demo), "One moment. the provider failed: out of order");
    assert!(
        played(&request("x"), &demo).contains("Try: `how is the weather in Bern`, "),
        "{}",
        played(&request("x"), &demo)
    );
    assert!(
        played(&request("what time is it"), &demo).contains("`current_time`"),
        "the built-in scenes follow"
    );
}

#[test]
fn a_file_may_leave_out_the_built_in_scenes_but_every_message_is_answered() {
    let text = "builtin = false\npace_ms = 0\n[[scene]]\nwhen = ['ping']\nsay = 'pong'\n";
    let demo = Demo::with_scenes("s.toml", text).unwrap();
    assert_eq!(played(&asked("ping", tools()), &demo), "pong");
    let unknown = "I am a script, not a language model, and have no answer to that.";
    assert_eq!(played(&asked("what time is it", tools()), &demo), unknown);
    assert_eq!(
        played(&answered("ping", &[("x", json!({}), "y")]), &demo),
        "`x` gave: y",
        "results are always told"
    );
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_line() {
    for (text, expected) in [
        (
            "[[scene]]\nwhen = ['(']\nsay = 'x'",
            "s.toml:2: “(” is no regular expression: error: unclosed group",
        ),
        ("[[scene]]\nsays = 'x'", "s.toml:2: unknown field `says`"),
        ("[[scene]]\nsay = ", "s.toml:2: "),
        ("\n[[scene]]\nname = 'a'", "s.toml:2: the scene “a” says nothing and calls nothing"),
        ("[[scene]]\nsay = { en = 'x' }", "s.toml:2: expected a text, or a table with en and zh"),
        ("[[scene]]\nsay = '{{x'", "s.toml:2: “{{” has no “}}” after it"),
        ("[[scene]]\nsay = '{{x|y}}'", "s.toml:2: {{x|y}}: there is no filter “y”; there are or, words, "),
        (
            "[[scene]]\nsay = '{{x|round}}'",
            "s.toml:2: {{x|round}}: the filter “round” does not take these arguments",
        ),
        (
            "[[scene]]\nsay = '{{x}}'",
            "s.toml:1: the scene names {{x}}, which no pattern in when captures as (?<x>…)",
        ),
        ("[[scene]]\ncalls = [{ tool = 't', input = { a = ['{{x}}'] } }]", "s.toml:1: the scene names {{x}}"),
        (
            "[[scene]]\ncalls = [{ tool = 't', input = 3 }]",
            "s.toml:1: the scene has an input that is not a table",
        ),
        (
            "[[then]]\non = 'never'\nsay = 'x'",
            "s.toml:2: unknown variant `never`, expected one of `result`, `denied`",
        ),
        ("pace_ms = 10001", "s.toml: pace_ms is above 10000"),
    ] {
        let error = Demo::with_scenes("s.toml", text).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{text}: {error}");
    }
}
