//! What the demo says and calls: one decision per request, without I/O.
//!
//! After tool results it always ends in words, so a run with it is over after two steps at most. The words themselves are elsewhere, in the
//! language of the last user message.

use fermata_engine::model::{ModelCall, ModelContent, ModelEvent, ModelMessage, ModelRequest, ModelTool};
use fermata_protocol::{FinishReason, ToolChoice};
use serde_json::{Value, json};

use super::{
    language::{Language, is_han},
    sample,
    tell::tell,
    wish::{ChartKind, Wish},
    words::{Before, Words, note, words},
};

/// What a page posts so that there is a tool to ask for the location.
const LOCATION_TOOL: &str = r#""tools": {"get_location": {"description": "Where the user is", "parameters": {"type": "object", "properties": {}}}}"#;

/// The tools that the greeting offers by what they do.
const KNOWN: [&str; 8] = [
    "current_time",
    "search_notes",
    "write_note",
    "get_location",
    "show_chart",
    "ask_user",
    "pick_file",
    "create_record",
];

/// The events of one step.
pub(super) fn reply(request: &ModelRequest) -> Vec<ModelEvent> {
    let (said, since) = last_turn(&request.messages);
    let words = words(Language::of(&said));
    let results = results(since);
    if results.is_empty() {
        let answer = answer(&said, &request.tools, words);
        obey(answer, request, words).into_events()
    } else {
        let told: Vec<String> =
            results.iter().map(|(call, result)| tell(call, result, &said, words)).collect();
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

fn answer(said: &str, tools: &[ModelTool], words: &dyn Words) -> Answer {
    let call = |before: Before, tool: &str, input: Value| match find(tool, tools) {
        Some(tool) => Answer::call(words.before(before), &tool.name, input),
        None => Answer::words(words.no_tool(tool, is_of_page(tool))),
    };
    match Wish::read(said) {
        Wish::Talk => Answer::words(greeting(said, tools, words)),
        Wish::Time => call(Before::Time, "current_time", json!({})),
        Wish::WriteNote(text) => call(Before::WriteNote, "write_note", note(&text, words)),
        Wish::FindNotes(query) => call(Before::FindNotes, "search_notes", json!({"query": query})),
        Wish::Chart(kind) => call(Before::Chart, "show_chart", words.chart(kind)),
        Wish::Question => call(Before::Question, "ask_user", words.question()),
        Wish::PickFile => call(Before::PickFile, "pick_file", words.file()),
        Wish::CreateRecord(title) => call(Before::CreateRecord, "create_record", words.record(&title)),
        Wish::Location => locate(tools, words),
        Wish::Everything => everything(tools, words),
        Wish::Think(about) => think(&about, words),
        Wish::Story => Answer::words(words.story()),
        Wish::Use(name) => use_tool(&name, tools, words),
    }
}

fn is_of_page(tool: &str) -> bool {
    !["current_time", "search_notes", "write_note"].contains(&tool)
}

/// What this is, what can be tried here, each line as it is to be typed, and how to get a real model.
fn greeting(said: &str, tools: &[ModelTool], words: &dyn Words) -> String {
    // One word, or a few Chinese characters, is how people begin.
    let characters = said.chars().filter(|letter| is_han(*letter)).count();
    let is_unknown = said.split_whitespace().count() >= 2 || characters > 6;
    let is_there = |tool: &Option<&str>| tool.is_none_or(|tool| find(tool, tools).is_some());
    let offers = words.offers().iter().filter(|offer| is_there(&offer.needs));
    let mut lines: Vec<_> = offers.map(|offer| format!("- `{}`: {}", offer.say, offer.shows)).collect();
    let foreign = tools.iter().find(|tool| !KNOWN.contains(&tool.name.as_str()));
    if let Some(tool) = foreign.or(tools.first()) {
        let (say, shows) = words.using_by_name(&tool.name);
        lines.push(format!("- `{say}`: {shows}"));
    }
    format!("{}\n\n{}\n\n{}", words.hello(is_unknown), lines.join("\n"), words.real_model())
}

fn find<'a>(name: &str, tools: &'a [ModelTool]) -> Option<&'a ModelTool> {
    tools.iter().find(|tool| tool.name.eq_ignore_ascii_case(name))
}

fn location_tool(tools: &[ModelTool]) -> Option<&ModelTool> {
    find("get_location", tools)
        .or_else(|| tools.iter().find(|tool| tool.name.to_lowercase().contains("location")))
}

fn locate(tools: &[ModelTool], words: &dyn Words) -> Answer {
    match location_tool(tools) {
        Some(tool) => {
            Answer::call(words.before(Before::Location), &tool.name, sample::input(&tool.input_schema))
        }
        None => Answer::words(words.no_location_tool(LOCATION_TOOL)),
    }
}

fn everything(tools: &[ModelTool], words: &dyn Words) -> Answer {
    let (milk, query) = words.note_and_query();
    let offered = |name: &str, input: Value| Some((find(name, tools)?.name.clone(), input));
    let located = location_tool(tools).map(|tool| (tool.name.clone(), sample::input(&tool.input_schema)));
    let calls: Vec<_> = [
        offered("current_time", json!({})),
        offered("search_notes", json!({"query": query})),
        offered("write_note", note(milk, words)),
        located,
        offered("show_chart", words.chart(ChartKind::Bar)),
    ]
    .into_iter()
    .flatten()
    .collect();
    if calls.is_empty() {
        return Answer::words(words.nothing_at_once());
    }
    Answer { text: words.before(Before::Everything).to_owned(), calls, ..Answer::default() }
}

fn think(about: &str, words: &dyn Words) -> Answer {
    let (reasoning, text) = words.thought(if about.is_empty() { words.some_subject() } else { about });
    Answer { reasoning, text, calls: Vec::new() }
}

fn use_tool(name: &str, tools: &[ModelTool], words: &dyn Words) -> Answer {
    match find(name, tools) {
        Some(tool) => Answer::call(&words.using(&tool.name), &tool.name, sample::input(&tool.input_schema)),
        None if tools.is_empty() => Answer::words(words.no_tools()),
        None => {
            let names: Vec<String> = tools.iter().map(|tool| format!("`{}`", tool.name)).collect();
            Answer::words(words.no_such_tool(&names.join(", ")))
        }
    }
}

/// Makes an answer do what the request's tool choice demands.
fn obey(answer: Answer, request: &ModelRequest, words: &dyn Words) -> Answer {
    let forced =
        |tool: &ModelTool| Answer::call(words.as_you_wish(), &tool.name, sample::input(&tool.input_schema));
    match &request.tool_choice {
        None | Some(ToolChoice::Auto) => answer,
        Some(ToolChoice::None) if answer.calls.is_empty() => answer,
        Some(ToolChoice::None) => Answer::words(words.call_none()),
        Some(ToolChoice::Required) if !answer.calls.is_empty() => answer,
        Some(ToolChoice::Required) => request.tools.first().map_or(answer, forced),
        Some(ToolChoice::Tool(name)) if answer.calls.iter().any(|(tool, _)| tool == name) => answer,
        Some(ToolChoice::Tool(name)) => find(name, &request.tools).map_or(answer, forced),
    }
}

#[cfg(test)]
mod tests;
