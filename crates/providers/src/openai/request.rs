//! From the engine's request to the JSON of chat completions.
//!
//! Pure: the same request, model and dialect give the same body. It does not check the conversation, which the engine keeps
//! paired.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use fermata_engine::model::{ModelCall, ModelContent, ModelMessage, ModelRequest, ModelTool};
use fermata_protocol::ToolChoice;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::dialect::{Dialect, ReasoningField};

/// Google's own stand-in for a signature that was not kept.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The request body.
pub(super) fn body(model: &str, dialect: Dialect, field: ReasoningField, request: ModelRequest) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), model.into());
    body.insert("messages".into(), messages(request.messages, dialect, field).into());
    body.insert("stream".into(), true.into());
    body.insert("stream_options".into(), json!({"include_usage": true}));
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.into_iter().map(tool).collect());
        if let Some(choice) = request.tool_choice {
            body.insert("tool_choice".into(), tool_choice(choice));
        }
    }
    put_settings(&mut body, &request.settings, dialect);
    Value::Object(body)
}

fn messages(messages: Vec<ModelMessage>, dialect: Dialect, field: ReasoningField) -> Vec<Value> {
    let with_reasoning = in_turns_with_calls(&messages);
    let mut mapped = Vec::new();
    let mut shown = Vec::new();
    for (message, with_reasoning) in messages.into_iter().zip(with_reasoning) {
        if !matches!(message, ModelMessage::Tool { .. }) {
            mapped.extend(show(&mut shown));
        }
        match message {
            ModelMessage::System(text) => mapped.push(json!({"role": "system", "content": text})),
            ModelMessage::User(content) => {
                mapped.push(json!({"role": "user", "content": user_content(content)}));
            }
            ModelMessage::Assistant { reasoning, text, calls } => {
                let reasoning = Some(reasoning).filter(|reasoning| with_reasoning && !reasoning.is_empty());
                mapped.extend(assistant(reasoning, text, calls, dialect, field));
            }
            ModelMessage::Tool { call_id, tool, content } => {
                let (told, files) = result(&call_id, &tool, content);
                mapped.push(json!({"role": "tool", "tool_call_id": call_id, "content": told}));
                shown.extend(files);
            }
        }
    }
    mapped.extend(show(&mut shown));
    mapped
}

/// The files of a step's results. Results take text only, and strict providers want every result of a step before
/// anything else, so the files follow the last one, as if the user showed them.
fn show(parts: &mut Vec<Value>) -> Option<Value> {
    (!parts.is_empty()).then(|| json!({"role": "user", "content": std::mem::take(parts)}))
}

/// What a result says, and its files, each behind words on whose it is.
fn result(call_id: &str, tool: &str, content: Vec<ModelContent>) -> (String, Vec<Value>) {
    let (mut texts, mut names, mut files) = (Vec::new(), Vec::new(), Vec::new());
    for piece in content {
        match piece {
            ModelContent::Text(text) => texts.push(text),
            ModelContent::File { media_type, url, filename } => {
                let name = format!("{} ({media_type})", filename.as_deref().unwrap_or("a file"));
                files.push(text_part(format!("[From the result of {tool}, call {call_id}: {name}]")));
                files.push(result_file(&media_type, url, filename));
                names.push(name);
            }
        }
    }
    if texts.is_empty() {
        texts.push(format!("[The result is shown in the next message: {}]", names.join(", ")));
    }
    (texts.join("\n"), files)
}

/// A file of a result. What an API does not take is described: refused once, it would be refused with every later request of
/// the chat, and unlike a user nobody has chosen it.
fn result_file(media_type: &str, url: String, filename: Option<String>) -> Value {
    if DataUrl::parse(&url).is_none() || is_taken(&media_type.to_ascii_lowercase()) {
        return file_part(media_type, url, filename);
    }
    text_part(format!("[It cannot be shown: the model takes no {media_type}.]"))
}

/// Whether chat completions know the kind.
fn is_taken(media_type: &str) -> bool {
    const PICTURES_AND_PAPERS: [&str; 6] =
        ["image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp", "application/pdf"];
    PICTURES_AND_PAPERS.contains(&media_type)
        || media_type.starts_with("text/")
        || audio_format(media_type).is_some()
}

/// Which messages belong to a turn (from one user message to the next) in which tools were called: of those, and only of
/// those, providers that think want their reasoning back, some under the threat of a 400.
fn in_turns_with_calls(messages: &[ModelMessage]) -> Vec<bool> {
    messages
        .chunk_by(|_, next| !matches!(next, ModelMessage::User(_)))
        .flat_map(|turn| {
            let calls = turn
                .iter()
                .any(|message| matches!(message, ModelMessage::Assistant { calls, .. } if !calls.is_empty()));
            std::iter::repeat_n(calls, turn.len())
        })
        .collect()
}

/// None for a message that says and calls nothing, which strict providers refuse.
fn assistant(
    reasoning: Option<String>,
    text: String,
    calls: Vec<ModelCall>,
    dialect: Dialect,
    field: ReasoningField,
) -> Option<Value> {
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    message.insert("content".into(), if text.is_empty() { Value::Null } else { text.into() });
    if let (Some(reasoning), Some(name)) = (reasoning, field.name()) {
        message.insert(name.into(), reasoning.into());
    }
    if !calls.is_empty() {
        let calls = calls.into_iter().enumerate();
        message.insert(
            "tool_calls".into(),
            calls.map(|(place, made)| call(made, dialect.signs_calls() && place == 0)).collect(),
        );
    }
    Some(Value::Object(message))
}

fn call(call: ModelCall, signed: bool) -> Value {
    let mut value = json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.tool, "arguments": call.input.to_string()},
    });
    if signed {
        value["extra_content"] = json!({"google": {"thought_signature": NO_SIGNATURE}});
    }
    value
}

fn user_content(content: Vec<ModelContent>) -> Value {
    let texts: Option<Vec<&str>> = content
        .iter()
        .map(|piece| match piece {
            ModelContent::Text(text) => Some(text.as_str()),
            ModelContent::File { .. } => None,
        })
        .collect();
    match texts {
        Some(texts) => texts.join("\n").into(),
        None => content.into_iter().map(user_part).collect(),
    }
}

fn user_part(piece: ModelContent) -> Value {
    match piece {
        ModelContent::Text(text) => text_part(text),
        ModelContent::File { media_type, url, filename } => file_part(&media_type, url, filename),
    }
}

fn text_part(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}

fn file_part(media_type: &str, url: String, filename: Option<String>) -> Value {
    let media_type = media_type.to_ascii_lowercase();
    if media_type.starts_with("image/") {
        return json!({"type": "image_url", "image_url": {"url": url}});
    }
    let Some(data) = DataUrl::parse(&url) else {
        let name = filename.as_deref().unwrap_or("a file");
        return text_part(format!("[{name} ({media_type}): {url}]"));
    };
    if let (Some(format), true) = (audio_format(&media_type), data.is_base64) {
        return json!({"type": "input_audio", "input_audio": {"data": data.text, "format": format}});
    }
    if let (true, Some(text)) = (media_type.starts_with("text/"), data.decode()) {
        return text_part(text);
    }
    let filename = filename
        .unwrap_or_else(|| if media_type == "application/pdf" { "document.pdf" } else { "file" }.into());
    json!({"type": "file", "file": {"filename": filename, "file_data": url}})
}

fn audio_format(media_type: &str) -> Option<&'static str> {
    match media_type {
        "audio/wav" | "audio/x-wav" | "audio/wave" => Some("wav"),
        "audio/mp3" | "audio/mpeg" => Some("mp3"),
        _ => None,
    }
}

/// The two halves of a data URL that matter here.
struct DataUrl<'a> {
    is_base64: bool,
    text: &'a str,
}

impl<'a> DataUrl<'a> {
    fn parse(url: &'a str) -> Option<Self> {
        let (head, text) = url.strip_prefix("data:")?.split_once(',')?;
        Some(Self { is_base64: head.to_ascii_lowercase().ends_with(";base64"), text })
    }

    fn decode(&self) -> Option<String> {
        let bytes = if self.is_base64 {
            BASE64_STANDARD.decode(self.text.trim()).ok()?
        } else {
            percent_decode_str(self.text).collect()
        };
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn tool(tool: ModelTool) -> Value {
    let mut function = Map::new();
    function.insert("name".into(), tool.name.into());
    if !tool.description.is_empty() {
        function.insert("description".into(), tool.description.into());
    }
    function.insert("parameters".into(), tool.input_schema);
    json!({"type": "function", "function": function})
}

fn tool_choice(choice: ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
    }
}

/// The settings that chat completions know; an unknown or wrongly typed one is left out.
fn put_settings(body: &mut Map<String, Value>, settings: &Map<String, Value>, dialect: Dialect) {
    let mut put = |from: &str, to: &str, fits: fn(&Value) -> bool| {
        if let Some(value) = settings.get(from).filter(|value| fits(value)) {
            body.insert(to.to_owned(), value.clone());
        }
    };
    put("temperature", "temperature", Value::is_number);
    put("topP", "top_p", Value::is_number);
    put("maxTokens", dialect.output_limit(), is_count);
    put("maxOutputTokens", dialect.output_limit(), is_count);
    put("presencePenalty", "presence_penalty", Value::is_number);
    put("frequencyPenalty", "frequency_penalty", Value::is_number);
    put("stopSequences", "stop", are_words);
    put("seed", "seed", |value| value.is_i64() || value.is_u64());
}

fn is_count(value: &Value) -> bool {
    value.as_u64().is_some_and(|count| count > 0)
}

fn are_words(value: &Value) -> bool {
    value.as_array().is_some_and(|words| !words.is_empty() && words.iter().all(Value::is_string))
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
