//! The demo model's answer to the request for a summary: what the user has asked for, and the tools that were used.

use fermata_engine::model::{ModelContent, ModelMessage, ModelRequest};
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
    let first = done.first().cloned().unwrap_or_default();
    let goal = input["summary"]["goal"].as_str().filter(|goal| !goal.is_empty()).unwrap_or(&first);
    json!({"goal": goal, "done": done, "toolsUsed": tools}).to_string()
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
        });
        assert_eq!(serde_json::from_str::<Value>(&summary(&request)).ok(), Some(expected));
    }
}
