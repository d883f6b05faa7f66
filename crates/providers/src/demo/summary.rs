//! The demo model's answer to the request for a summary: the wishes of the user, the tools that were used, and the few sentences that
//! it learns from about the user.

use std::sync::LazyLock;

use fermata_engine::model::{ModelContent, ModelMessage, ModelRequest};
use regex::{Captures, Regex};
use serde_json::{Value, json};

/// The length of a quoted message, in characters.
const QUOTED: usize = 120;

/// Returns the summary as JSON.
pub(super) fn summary(request: &ModelRequest) -> String {
    let input = request.messages.iter().find_map(|message| match message {
        ModelMessage::User(content) => match content.first() {
            Some(ModelContent::Text(text)) => serde_json::from_str::<Value>(text).ok(),
            Some(ModelContent::File { .. }) | None => None,
        },
        ModelMessage::System(_) | ModelMessage::Assistant { .. } | ModelMessage::Tool { .. } => None,
    });
    let input = input.unwrap_or_default();
    let mut done = texts(&input["summary"]["done"]);
    let mut tools = texts(&input["summary"]["toolsUsed"]);
    for message in input["messages"].as_array().into_iter().flatten() {
        if message["role"] == "user"
            && let Some(text) = message["text"].as_str()
        {
            done.push(text.chars().take(QUOTED).collect());
        }
        for call in message["calls"].as_array().into_iter().flatten() {
            if let Some(tool) = call["tool"].as_str()
                && !tools.iter().any(|known| known == tool)
            {
                tools.push(tool.to_owned());
            }
        }
    }
    let mut memories = Vec::new();
    if let Some(known) = input["memories"].as_array() {
        for message in input["messages"].as_array().into_iter().flatten() {
            if message["role"] == "user"
                && let Some(memory) = message["text"].as_str().and_then(memory_of)
                && !known.iter().chain(&memories).any(|known| known["text"] == memory["text"])
            {
                memories.push(memory);
            }
        }
    }
    let first = done.first().cloned().unwrap_or_default();
    let goal = input["summary"]["goal"].as_str().filter(|goal| !goal.is_empty()).unwrap_or(&first);
    json!({"goal": goal, "done": done, "toolsUsed": tools, "memories": memories}).to_string()
}

/// Returns the statement of a message about its user, if it is one of a few sentences.
fn memory_of(text: &str) -> Option<Value> {
    static NAME: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?i)\bmy name is (?<it>\w+)|我叫(?<its>\p{Han}{1,4})"));
    static WISH: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"(?i)\bI (?:prefer|like|love) (?<it>[^.!?;]+)|我(?:更)?喜欢(?<its>[^。！？；]+)")
    });
    let found = |captures: Captures<'_>| {
        let found = captures.name("it").or(captures.name("its"));
        found.map(|found| found.as_str().trim().to_owned())
    };
    if let Some(name) = NAME.captures(text).and_then(found) {
        return Some(
            json!({"op": "new", "kind": "fact", "slot": "name", "text": format!("The user is called {name}.")}),
        );
    }
    let wish = WISH.captures(text).and_then(found)?;
    Some(json!({"op": "new", "kind": "preference", "text": format!("The user likes {wish}.")}))
}

fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern that is tested")
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_goes_on_from_the_one_before() {
        let input = json!({
            "summary": {"goal": "tea", "done": ["make tea"], "toolsUsed": ["search_notes"]},
            "messages": [
                {"role": "user", "text": "What time is it?"},
                {"role": "assistant", "text": "Noon.", "calls": [{"tool": "current_time"}, {"tool": "search_notes"}]},
            ],
        });
        let content = vec![ModelContent::Text(input.to_string())];
        let request = ModelRequest { messages: vec![ModelMessage::User(content)], ..ModelRequest::default() };
        let expected = json!({
            "goal": "tea",
            "done": ["make tea", "What time is it?"],
            "toolsUsed": ["search_notes", "current_time"],
            "memories": [],
        });
        assert_eq!(serde_json::from_str::<Value>(&summary(&request)).ok(), Some(expected));
    }

    #[test]
    fn a_few_sentences_say_something_about_the_user() {
        for (said, kind, text) in [
            ("Hello, my name is Beatrix!", "fact", "The user is called Beatrix."),
            ("我叫小明。", "fact", "The user is called 小明."),
            ("I prefer Celsius.", "preference", "The user likes Celsius."),
            ("我喜欢绿茶。", "preference", "The user likes 绿茶."),
        ] {
            let memory = memory_of(said).unwrap_or_default();
            assert_eq!((memory["kind"].as_str(), memory["text"].as_str()), (Some(kind), Some(text)));
        }
        assert_eq!(memory_of("What time is it?"), None);
    }
}
