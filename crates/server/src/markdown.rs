//! Messages as Markdown, for people who read an export.

use std::fmt::Write as _;

use fermata_protocol::{FilePart, Role, ToolName, ToolPart, ToolState, UiMessage, UiPart};
use serde_json::Value;

/// Returns a message as a section. Reasoning and data of the page are left out.
pub fn section(message: &UiMessage) -> String {
    let role = match message.role {
        Role::System => "System",
        Role::User => "User",
        Role::Assistant => "Assistant",
    };
    let mut text = format!("## {role}\n\n");
    if let Some(at) = message.created_at {
        let _ = write!(text, "*{}*\n\n", at.strftime("%F %R UTC"));
    }
    for part in &message.parts {
        match part {
            UiPart::Text { text: words, .. } if words.trim().is_empty() => {}
            UiPart::Text { text: words, .. } => {
                let _ = write!(text, "{}\n\n", words.trim());
            }
            UiPart::File(file) => text += &file_line(file),
            UiPart::Tool(call) => text += &call_block(call),
            UiPart::Reasoning { .. } | UiPart::StepStart | UiPart::Data(_) | UiPart::Unknown(_) => {}
        }
    }
    text
}

/// Returns a text on one line, with everything escaped that Markdown would read in a heading.
pub fn heading(text: &str) -> String {
    let mut heading = String::new();
    for c in text.chars() {
        if c.is_ascii_punctuation() {
            heading.push('\\');
        }
        heading.push(if c.is_whitespace() || c.is_control() { ' ' } else { c });
    }
    heading
}

/// A file by its name. A data URL would be longer than the rest of the chat.
fn file_line(FilePart { media_type, url, filename, .. }: &FilePart) -> String {
    let name = heading(filename.as_deref().unwrap_or("file"));
    if url.starts_with("data:") {
        format!("File: {name} ({media_type})\n\n")
    } else {
        format!("File: [{name}](<{}>) ({media_type})\n\n", url.replace(['<', '>', '\n'], ""))
    }
}

fn call_block(call: &ToolPart) -> String {
    let (ToolName::Static(name) | ToolName::Dynamic(name)) = &call.name;
    let (outcome, result) = match &call.state {
        ToolState::InputStreaming { .. } | ToolState::InputAvailable { .. } => ("not finished", None),
        ToolState::ApprovalRequested { .. } => ("waits for approval", None),
        ToolState::ApprovalResponded { .. } => ("decided", None),
        ToolState::OutputAvailable { output, .. } => ("done", Some(block(output))),
        ToolState::OutputError { error_text, .. } => ("failed", Some(fenced("text", error_text))),
        ToolState::OutputDenied { .. } => ("denied", None),
    };
    let mut text = format!("**Tool** `{}`, {outcome}\n\n", name.replace('`', ""));
    if let Some(input) = call.state.input() {
        text += &fenced("json", &input.to_string());
    }
    text + &result.unwrap_or_default()
}

fn block(value: &Value) -> String {
    match value {
        Value::String(text) => fenced("text", text),
        other => fenced("json", &format!("{other:#}")),
    }
}

/// Returns a block of code, whose fence is longer than each row of backticks in it.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(3.max(longest + 1));
    format!("{fence}{language}\n{}\n{fence}\n\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(parts: &Value) -> UiMessage {
        let message = json!({"id": "m", "role": "assistant", "parts": parts});
        serde_json::from_value(message).expect("a message")
    }

    #[test]
    fn a_section_has_words_calls_and_names_of_files() {
        let parts = json!([
            {"type": "step-start"},
            {"type": "reasoning", "text": "hm"},
            {"type": "text", "text": "It is *noon*.\n"},
            {"type": "tool-clock", "toolCallId": "c1", "state": "output-available", "input": {"zone": "東京"}, "output": "a ``` fence"},
            {"type": "dynamic-tool", "toolName": "refund", "toolCallId": "c2", "state": "output-error", "input": {}, "errorText": "no money"},
            {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA", "filename": "a[b].png"},
            {"type": "data-run", "data": {}},
        ]);
        assert_eq!(
            section(&message(&parts)),
            "## Assistant\n\nIt is *noon*.\n\n\
             **Tool** `clock`, done\n\n```json\n{\"zone\":\"東京\"}\n```\n\n````text\na ``` fence\n````\n\n\
             **Tool** `refund`, failed\n\n```json\n{}\n```\n\n```text\nno money\n```\n\n\
             File: a\\[b\\]\\.png (image/png)\n\n"
        );
    }

    #[test]
    fn a_heading_is_one_line_without_markup() {
        assert_eq!(heading("# <b>\n東京"), "\\# \\<b\\> 東京");
    }
}
