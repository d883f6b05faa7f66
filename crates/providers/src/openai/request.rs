//! Turns the engine's request into the JSON of chat completions.
//!
//! The same request, model and dialect always give the same body. This module does not check the conversation, in which the engine
//! keeps calls and results paired.
//!
//! A conversation may have megabytes, and schemas many fields, so they are moved into the body ([`object`]): `json!` would copy them.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use fermata_engine::model::{ModelCall, ModelContent, ModelMessage, ModelRequest, ModelTool};
use fermata_protocol::ToolChoice;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::dialect::{Dialect, ReasoningField};

/// The value that Google accepts instead of a signature that was not stored.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Builds the request body.
pub(super) fn body(model: &str, dialect: Dialect, field: ReasoningField, request: ModelRequest) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), model.into());
    body.insert("messages".into(), messages(request.messages, dialect, field).into());
    body.insert("stream".into(), true.into());
    body.insert("stream_options".into(), json!({"include_usage": true}));
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.into_iter().map(tool).collect());
        if let Some(choice) = request.tool_choice {
            let choice = match choice {
                ToolChoice::Auto => "auto".into(),
                ToolChoice::None => "none".into(),
                ToolChoice::Required => "required".into(),
                ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
            };
            body.insert("tool_choice".into(), choice);
        }
    }
    put_settings(&mut body, &request.settings, dialect);
    Value::Object(body)
}

fn messages(messages: Vec<ModelMessage>, dialect: Dialect, field: ReasoningField) -> Vec<Value> {
    let are_in_turns_with_calls = are_in_turns_with_calls(&messages);
    let mut mapped = Vec::new();
    let mut result_files = Vec::new();
    for (message, is_in_turn_with_calls) in messages.into_iter().zip(are_in_turns_with_calls) {
        if !matches!(message, ModelMessage::Tool { .. }) {
            push_result_files(&mut mapped, &mut result_files);
        }
        match message {
            ModelMessage::System(text) => mapped.push(message_of("system", text.into())),
            ModelMessage::User(content) => mapped.push(message_of("user", user_content(content))),
            ModelMessage::Assistant { reasoning, text, calls } => {
                let has_reasoning = is_in_turn_with_calls && !reasoning.is_empty();
                let reasoning = if has_reasoning { Some(reasoning) } else { None };
                // Strict providers refuse a message without text and calls.
                if !text.is_empty() || !calls.is_empty() {
                    mapped.push(assistant(reasoning, text, calls, dialect, field));
                }
            }
            ModelMessage::Tool { call_id, tool, content } => {
                let (text, files) = result(&call_id, &tool, content);
                mapped.push(object([
                    ("role", "tool".into()),
                    ("tool_call_id", call_id.into()),
                    ("content", text.into()),
                ]));
                result_files.extend(files);
            }
        }
    }
    push_result_files(&mut mapped, &mut result_files);
    mapped
}

/// Pushes the files of a step's results. Results take text only, and strict providers want every result of a step before
/// anything else, so the files follow the last one, as if the user sent them.
fn push_result_files(mapped: &mut Vec<Value>, files: &mut Vec<Value>) {
    if !files.is_empty() {
        mapped.push(message_of("user", std::mem::take(files).into()));
    }
}

fn message_of(role: &str, content: Value) -> Value {
    object([("role", role.into()), ("content", content)])
}

/// Returns an object with these fields.
fn object<const FIELDS: usize>(fields: [(&str, Value); FIELDS]) -> Value {
    fields.into_iter().collect()
}

/// Returns the text of a result, and the parts for its files. Each file follows a text that names its call.
fn result(call_id: &str, tool: &str, content: Vec<ModelContent>) -> (String, Vec<Value>) {
    let (mut texts, mut names, mut files) = (Vec::new(), Vec::new(), Vec::new());
    for piece in content {
        match piece {
            ModelContent::Text(text) => texts.push(text),
            ModelContent::File { media_type, url, filename } => {
                let name = format!("{} ({media_type})", filename.as_deref().unwrap_or("a file"));
                files.push(text_part(format!("[From the result of {tool}, call {call_id}: {name}]")));
                // A request with a file that no API supports would be refused, and so would every later request of the chat, although
                // no user has chosen that file.
                let is_shown =
                    DataUrl::parse(&url).is_none() || is_supported(&media_type.to_ascii_lowercase());
                files.push(if is_shown {
                    file_part(&media_type, url, filename)
                } else {
                    text_part(format!("[It cannot be shown: the model takes no {media_type}.]"))
                });
                names.push(name);
            }
        }
    }
    if texts.is_empty() {
        texts.push(format!("[The result is shown in the next message: {}]", names.join(", ")));
    }
    (texts.join("\n"), files)
}

/// Returns whether chat completions support files of this media type.
fn is_supported(media_type: &str) -> bool {
    const IMAGES_AND_DOCUMENTS: [&str; 6] =
        ["image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp", "application/pdf"];
    IMAGES_AND_DOCUMENTS.contains(&media_type)
        || media_type.starts_with("text/")
        || audio_format(media_type).is_some()
}

/// Returns for each message whether tools were called in its turn, which lasts from one user message to the next. Providers of reasoning
/// models expect the reasoning of these messages back, and of no others; some answer 400 without it.
fn are_in_turns_with_calls(messages: &[ModelMessage]) -> Vec<bool> {
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

fn assistant(
    reasoning: Option<String>,
    text: String,
    calls: Vec<ModelCall>,
    dialect: Dialect,
    field: ReasoningField,
) -> Value {
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    message.insert("content".into(), if text.is_empty() { Value::Null } else { text.into() });
    if let (Some(reasoning), Some(name)) = (reasoning, field.name()) {
        message.insert(name.into(), reasoning.into());
    }
    if !calls.is_empty() {
        let calls = calls.into_iter().enumerate();
        let calls = calls.map(|(index, call)| {
            let function = object([("name", call.tool.into()), ("arguments", call.input.to_string().into())]);
            let mut value =
                object([("id", call.id.into()), ("type", "function".into()), ("function", function)]);
            if dialect.signs_calls() && index == 0 {
                value["extra_content"] = json!({"google": {"thought_signature": NO_SIGNATURE}});
            }
            value
        });
        message.insert("tool_calls".into(), calls.collect());
    }
    Value::Object(message)
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
        None => content
            .into_iter()
            .map(|piece| match piece {
                ModelContent::Text(text) => text_part(text),
                ModelContent::File { media_type, url, filename } => file_part(&media_type, url, filename),
            })
            .collect(),
    }
}

fn text_part(text: impl Into<String>) -> Value {
    let text: String = text.into();
    object([("type", "text".into()), ("text", text.into())])
}

fn file_part(media_type: &str, url: String, filename: Option<String>) -> Value {
    let media_type = media_type.to_ascii_lowercase();
    if media_type.starts_with("image/") {
        return object([("type", "image_url".into()), ("image_url", object([("url", url.into())]))]);
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
    let file = object([("filename", filename.into()), ("file_data", url.into())]);
    object([("type", "file".into()), ("file", file)])
}

fn audio_format(media_type: &str) -> Option<&'static str> {
    match media_type {
        "audio/wav" | "audio/x-wav" | "audio/wave" => Some("wav"),
        "audio/mp3" | "audio/mpeg" => Some("mp3"),
        _ => None,
    }
}

/// The parts of a data URL that matter here.
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
    object([("type", "function".into()), ("function", function.into())])
}

/// The fields that options for the provider do not set, because they decide who is asked for what, in which form, and for how many
/// tokens. `n_predict` is llama.cpp's limit.
const RESERVED_FIELDS: [&str; 14] = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "stream",
    "stream_options",
    "n",
    "best_of",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "n_predict",
];

/// Adds the settings that chat completions know. A setting that is unknown or of a wrong type is left out.
fn put_settings(body: &mut Map<String, Value>, settings: &Map<String, Value>, dialect: Dialect) {
    type IsValid = fn(&Value) -> bool;
    let known: [(&str, &str, IsValid); 10] = [
        ("temperature", "temperature", Value::is_number),
        ("topP", "top_p", Value::is_number),
        ("maxTokens", dialect.output_limit(), is_count),
        ("maxOutputTokens", dialect.output_limit(), is_count),
        ("presencePenalty", "presence_penalty", Value::is_number),
        ("frequencyPenalty", "frequency_penalty", Value::is_number),
        ("stopSequences", "stop", are_strings),
        ("seed", "seed", |value| value.is_i64() || value.is_u64()),
        ("reasoningEffort", "reasoning_effort", Value::is_string),
        ("parallelToolCalls", "parallel_tool_calls", Value::is_boolean),
    ];
    for (setting, field, is_valid) in known {
        if let Some(value) = settings.get(setting)
            && is_valid(value)
        {
            body.insert(field.to_owned(), value.clone());
        }
    }
    let options = settings.get("providerOptions").and_then(|options| options.get("openai"));
    for (name, value) in options.and_then(Value::as_object).into_iter().flatten() {
        let field = api_field(name);
        if !RESERVED_FIELDS.contains(&field.as_str()) {
            body.insert(field, value.clone());
        }
    }
    if !body.contains_key("tools") {
        // OpenAI refuses it then.
        body.remove("parallel_tool_calls");
    }
}

/// Returns the API's name of an option, which the AI SDK writes in camel case.
fn api_field(option: &str) -> String {
    if option == "textVerbosity" {
        return "verbosity".to_owned();
    }
    let mut field = String::with_capacity(option.len());
    for c in option.chars() {
        if c.is_ascii_uppercase() && !field.is_empty() {
            field.push('_');
        }
        field.push(c.to_ascii_lowercase());
    }
    field
}

fn is_count(value: &Value) -> bool {
    value.as_u64().is_some_and(|count| count > 0)
}

fn are_strings(value: &Value) -> bool {
    value.as_array().is_some_and(|items| !items.is_empty() && items.iter().all(Value::is_string))
}

#[cfg(test)]
mod tests;
