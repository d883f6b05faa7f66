//! What the demo says and calls: one decision per request, without I/O.
//!
//! After tool results it always ends in words, so a run with it is over after two steps at most.

use fermata_engine::model::{ModelCall, ModelContent, ModelEvent, ModelMessage, ModelRequest, ModelTool};
use fermata_protocol::{FinishReason, ToolChoice};
use serde_json::{Value, json};

use super::{sample, wish::Wish};

/// What can be tried, each line with what it shows.
const ABILITIES: &str = "\
- `what time is it`: a tool that the server runs without asking
- `write a note: buy milk`: a tool that waits for your approval
- `find my notes about milk`: another tool of the server, which shares a lock with the one above
- `where am I`: a tool that your browser runs, if the page has posted one
- `do everything`: several calls in one step
- `think about tea`: reasoning before the answer
- `use <tool name>`: any tool of this chat, also your page's own";

/// How to get a real model.
const REAL_MODEL: &str = "For a real model, set OPENAI_API_KEY (or OPENAI_BASE_URL for a server of your own) and \
    FERMATA_MODEL, and start Fermata again.";

/// What a page posts so that there is a tool to ask for the location.
const LOCATION_TOOL: &str = r#""tools": {"get_location": {"description": "Where the user is", "parameters": {"type": "object", "properties": {}}}}"#;

/// How much of a tool's result is repeated.
const RESULT_LIMIT: usize = 600;

/// The events of one step.
pub(super) fn reply(request: &ModelRequest) -> Vec<ModelEvent> {
    let (said, since) = last_turn(&request.messages);
    let results = results(since);
    if results.is_empty() {
        let answer = answer(&said, &request.tools);
        obey(answer, request).into_events()
    } else {
        let told: Vec<String> = results.iter().map(|(call, result)| tell(call, result, &said)).collect();
        Answer::words(told.join("\n\n")).into_events()
    }
}

/// What a step consists of.
#[derive(Default)]
struct Answer {
    reasoning: String,
    text: String,
    calls: Vec<(String, Value)>,
}

// === impl Answer ===

impl Answer {
    fn words(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    fn call(text: &str, tool: &str, input: Value) -> Self {
        Self { text: text.to_owned(), calls: vec![(tool.to_owned(), input)], ..Self::default() }
    }

    fn into_events(self) -> Vec<ModelEvent> {
        let reason = if self.calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        let mut events = Vec::new();
        if !self.reasoning.is_empty() {
            events.push(ModelEvent::Reasoning(self.reasoning));
        }
        if !self.text.is_empty() {
            events.push(ModelEvent::Text(self.text));
        }
        for (key, (tool, input)) in self.calls.into_iter().enumerate() {
            events.push(ModelEvent::CallStart { key, tool });
            events.push(ModelEvent::CallDelta { key, arguments: input.to_string() });
        }
        events.push(ModelEvent::Finished { reason, usage: None });
        events
    }
}

/// The last thing that was said, and what came after it.
fn last_turn(messages: &[ModelMessage]) -> (String, &[ModelMessage]) {
    let said = messages.iter().enumerate().rev().find_map(|(place, message)| match message {
        ModelMessage::User(content) => Some((place, content)),
        ModelMessage::System(_) | ModelMessage::Assistant { .. } | ModelMessage::Tool { .. } => None,
    });
    let Some((place, content)) = said else {
        return (String::new(), messages);
    };
    let texts = content.iter().filter_map(|piece| match piece {
        ModelContent::Text(text) => Some(text.as_str()),
        ModelContent::File { .. } => None,
    });
    (texts.collect::<Vec<_>>().join("\n"), &messages[place + 1..])
}

/// A result in words; of a file its kind, which is all that the demo has eyes for.
fn in_words(content: &[ModelContent]) -> String {
    let words = content.iter().map(|piece| match piece {
        ModelContent::Text(text) => text.clone(),
        ModelContent::File { media_type, filename: Some(name), .. } => format!("[{name} ({media_type})]"),
        ModelContent::File { media_type, filename: None, .. } => format!("[a file ({media_type})]"),
    });
    words.collect::<Vec<_>>().join("\n")
}

/// The results, each with the call that it belongs to.
fn results(since: &[ModelMessage]) -> Vec<(&ModelCall, String)> {
    let calls = || {
        since.iter().flat_map(|message| match message {
            ModelMessage::Assistant { calls, .. } => calls.as_slice(),
            ModelMessage::System(_) | ModelMessage::User(_) | ModelMessage::Tool { .. } => &[],
        })
    };
    let results = since.iter().filter_map(|message| match message {
        ModelMessage::Tool { call_id, content, .. } => Some((call_id, in_words(content))),
        ModelMessage::System(_) | ModelMessage::User(_) | ModelMessage::Assistant { .. } => None,
    });
    results.filter_map(|(id, content)| Some((calls().find(|call| call.id == *id)?, content))).collect()
}

fn answer(said: &str, tools: &[ModelTool]) -> Answer {
    match Wish::read(said) {
        Wish::Talk => Answer::words(greeting(said)),
        Wish::Time => call_or_say("Let me look at the clock.", "current_time", json!({}), tools),
        Wish::WriteNote(text) => {
            call_or_say("I will write that down, if you allow it.", "write_note", note(&text), tools)
        }
        Wish::FindNotes(query) => {
            call_or_say("Let me look through your notes.", "search_notes", json!({"query": query}), tools)
        }
        Wish::Location => locate(tools),
        Wish::Everything => everything(tools),
        Wish::Think(about) => think(&about),
        Wish::Use(name) => use_tool(&name, tools),
    }
}

fn greeting(said: &str) -> String {
    let unknown = if said.trim().is_empty() || said.split_whitespace().count() < 2 {
        String::new()
    } else {
        "I have no line for that. ".to_owned()
    };
    format!(
        "Hello! {unknown}I am Fermata's built-in demo: a script, not a language model, here because no model API is set \
         up. {REAL_MODEL}\n\nMeanwhile I can show you what Fermata does. Try:\n{ABILITIES}"
    )
}

fn find<'a>(name: &str, tools: &'a [ModelTool]) -> Option<&'a ModelTool> {
    tools.iter().find(|tool| tool.name.eq_ignore_ascii_case(name))
}

fn call_or_say(text: &str, name: &str, input: Value, tools: &[ModelTool]) -> Answer {
    match find(name, tools) {
        Some(tool) => Answer::call(text, &tool.name, input),
        None => Answer::words(format!(
            "I would call the tool `{name}` for that, but this server does not offer it."
        )),
    }
}

/// The note the demo proposes, before anybody edits it.
fn note(text: &str) -> Value {
    let title: String = text.split_whitespace().take(5).collect::<Vec<_>>().join(" ");
    json!({"title": title, "body": text})
}

fn location_tool(tools: &[ModelTool]) -> Option<&ModelTool> {
    find("get_location", tools)
        .or_else(|| tools.iter().find(|tool| tool.name.to_lowercase().contains("location")))
}

fn locate(tools: &[ModelTool]) -> Answer {
    match location_tool(tools) {
        Some(tool) => Answer::call(
            "Your browser knows that; I am asking it.",
            &tool.name,
            sample::input(&tool.input_schema),
        ),
        None => Answer::words(format!(
            "Only your browser knows that, and it has lent me no tool to ask it with. A page, or a curl call, posts such \
             a tool next to the messages:\n\n```json\n{LOCATION_TOOL}\n```\n\nThen ask me again, and the call waits until \
             the page answers it."
        )),
    }
}

fn everything(tools: &[ModelTool]) -> Answer {
    let wanted = [
        ("current_time", json!({})),
        ("search_notes", json!({"query": "milk"})),
        ("write_note", note("buy milk")),
    ];
    let server =
        wanted.into_iter().filter_map(|(name, input)| Some((find(name, tools)?.name.clone(), input)));
    let browser = location_tool(tools).map(|tool| (tool.name.clone(), sample::input(&tool.input_schema)));
    let calls: Vec<_> = server.chain(browser).collect();
    if calls.is_empty() {
        return Answer::words("I would call several tools at once, but this chat has none of those I know.");
    }
    let text = "All at once, then. Nothing of it runs before you have decided what you are asked.".to_owned();
    Answer { text, calls, ..Answer::default() }
}

fn think(about: &str) -> Answer {
    Answer {
        reasoning: format!(
            "Somebody wants me to think about {about}. I am a script, so this is no thought, but it streams like one: \
             a real model's reasoning would stand here, and a client may fold it away."
        ),
        text: format!(
            "I have thought about {about} as well as a script can. The part above this one is the reasoning."
        ),
        calls: Vec::new(),
    }
}

fn use_tool(name: &str, tools: &[ModelTool]) -> Answer {
    match find(name, tools) {
        Some(tool) => Answer::call(
            &format!("Calling `{}` with an input made up from its schema.", tool.name),
            &tool.name,
            sample::input(&tool.input_schema),
        ),
        None if tools.is_empty() => Answer::words("This chat has no tools that I could use."),
        None => {
            let names: Vec<String> = tools.iter().map(|tool| format!("`{}`", tool.name)).collect();
            Answer::words(format!("I see no tool of that name. This chat has: {}.", names.join(", ")))
        }
    }
}

/// Makes an answer do what the request's tool choice demands.
fn obey(answer: Answer, request: &ModelRequest) -> Answer {
    let forced =
        |tool: &ModelTool| Answer::call("As you wish.", &tool.name, sample::input(&tool.input_schema));
    match &request.tool_choice {
        None | Some(ToolChoice::Auto) => answer,
        Some(ToolChoice::None) if answer.calls.is_empty() => answer,
        Some(ToolChoice::None) => Answer::words("I would call a tool for that, but was told to call none."),
        Some(ToolChoice::Required) if !answer.calls.is_empty() => answer,
        Some(ToolChoice::Required) => request.tools.first().map_or(answer, forced),
        Some(ToolChoice::Tool(name)) if answer.calls.iter().any(|(tool, _)| tool == name) => answer,
        Some(ToolChoice::Tool(name)) => find(name, &request.tools).map_or(answer, forced),
    }
}

/// A sentence about what came of a call.
fn tell(call: &ModelCall, result: &str, said: &str) -> String {
    let tool = &call.tool;
    let shown = shorten(result);
    match trouble(result) {
        Some(Trouble::Denied) => return format!("`{tool}` was denied, so I left it. I was told: {shown}"),
        Some(Trouble::Failed) => return format!("`{tool}` did not work. I was told: {shown}"),
        None => {}
    }
    match tool.as_str() {
        "current_time" => format!("The server's clock says: {shown}"),
        "search_notes" => format!("This is what your notes have: {shown}"),
        "write_note" => tell_of_note(call, said),
        _ => format!("`{tool}` gave: {shown}"),
    }
}

fn tell_of_note(call: &ModelCall, said: &str) -> String {
    let proposed = match Wish::read(said) {
        Wish::WriteNote(text) => Some(note(&text)),
        Wish::Everything => Some(note("buy milk")),
        Wish::Talk | Wish::Time | Wish::FindNotes(_) | Wish::Location | Wish::Think(_) | Wish::Use(_) => None,
    };
    let field = |name: &str| call.input.get(name).and_then(Value::as_str).unwrap_or_default();
    let (title, body) = (field("title"), field("body"));
    if proposed.is_some_and(|proposed| proposed != call.input) {
        return format!("Thank you: I wrote down your version, “{title}”: {body}");
    }
    format!("Thank you: I wrote down “{title}”. Ask me to find it again.")
}

/// Why a call came to nothing.
enum Trouble {
    Denied,
    Failed,
}

/// Reads a result: words are looked through, JSON only where it says that it is an error.
fn trouble(result: &str) -> Option<Trouble> {
    let (words, is_error) = match serde_json::from_str::<Value>(result) {
        Ok(Value::Object(object)) => {
            (object.get("error").or_else(|| object.get("denied"))?.to_string(), true)
        }
        Ok(Value::String(text)) => (text, false),
        Ok(_) => return None,
        Err(_) => (result.to_owned(), false),
    };
    let words = words.to_lowercase();
    let has = |options: &[&str]| options.iter().any(|option| words.contains(option));
    if has(&["denied", "declined", "rejected", "not approved", "not allow"]) {
        Some(Trouble::Denied)
    } else if is_error || has(&["error", "failed", "expired", "cancelled", "timed out"]) {
        Some(Trouble::Failed)
    } else {
        None
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(RESULT_LIMIT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
