//! Turns the engine's request into the JSON of chat completions.
//!
//! The same request, model and dialect always give the same body. This module does not check the conversation, in which the engine
//! keeps calls and results paired.
//!
//! A conversation may have megabytes, and schemas many fields, so the body borrows them until it is written.

use std::borrow::Cow;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use fermata_engine::{
    call_settings::{api_field, is_reserved},
    model::{ModelCall, ModelContent, ModelMessage, ModelRequest, ModelTool},
};
use fermata_protocol::ToolChoice;
use fermata_tools::InputSchema;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};

use super::dialect::{Dialect, ReasoningField};

/// The value that Google accepts instead of a signature that was not stored.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Returns the request body, as JSON text.
///
/// # Errors
/// If a part of it cannot be written as JSON.
pub(super) fn body(
    model: &str,
    dialect: Dialect,
    field: ReasoningField,
    request: &ModelRequest,
) -> serde_json::Result<Box<RawValue>> {
    let tools: Vec<Tool<'_>> = request.tools.iter().map(Tool::new).collect();
    let tool_choice = match &request.tool_choice {
        // It is refused without tools.
        _ if tools.is_empty() => None,
        None => None,
        Some(ToolChoice::Auto) => Some("auto".into()),
        Some(ToolChoice::None) => Some("none".into()),
        Some(ToolChoice::Required) => Some("required".into()),
        Some(ToolChoice::Tool(name)) => Some(json!({"type": "function", "function": {"name": name}})),
    };
    to_raw_value(&Body {
        model,
        messages: messages(&request.messages, dialect, field),
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        settings: settings(&request.settings, dialect, !tools.is_empty()),
        tools,
        tool_choice,
    })
}

/// Returns about how long the messages of a request are, in bytes. The inputs of calls are not counted: most are short, and they have no
/// length before they are written.
pub(super) fn length(request: &ModelRequest) -> usize {
    let of_content = |content: &[ModelContent]| -> usize {
        let pieces = content.iter().map(|piece| match piece {
            ModelContent::Text(text) => text.len(),
            ModelContent::File { url, .. } => url.len(),
        });
        pieces.sum()
    };
    let messages = request.messages.iter().map(|message| match message {
        ModelMessage::System(text) => text.len(),
        ModelMessage::User(content) | ModelMessage::Tool { content, .. } => of_content(content),
        ModelMessage::Assistant { reasoning, text, .. } => reasoning.len() + text.len(),
    });
    messages.sum()
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(flatten)]
    settings: Map<String, Value>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        /// `null` if there is no text.
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: Cow<'a, str>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl<'a> },
    InputAudio { input_audio: InputAudio<'a> },
    File { file: File<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: &'a str,
}

#[derive(Serialize)]
struct InputAudio<'a> {
    data: &'a str,
    format: &'static str,
}

#[derive(Serialize)]
struct File<'a> {
    filename: &'a str,
    file_data: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct ToolCall<'a> {
    id: &'a str,
    function: CalledFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<Value>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    /// JSON text.
    arguments: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct Tool<'a> {
    function: OfferedFunction<'a>,
}

#[derive(Serialize)]
struct OfferedFunction<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: &'a InputSchema,
}

fn messages<'a>(messages: &'a [ModelMessage], dialect: Dialect, field: ReasoningField) -> Vec<Message<'a>> {
    let mut mapped = Vec::with_capacity(messages.len());
    let mut result_files = Vec::new();
    for (message, is_in_turn_with_calls) in messages.iter().zip(are_in_turns_with_calls(messages)) {
        if !matches!(message, ModelMessage::Tool { .. }) {
            push_result_files(&mut mapped, &mut result_files);
        }
        match message {
            ModelMessage::System(text) => mapped.push(Message::System { content: text }),
            ModelMessage::User(content) => mapped.push(Message::User { content: user_content(content) }),
            ModelMessage::Assistant { reasoning, text, calls } => {
                let has_reasoning = is_in_turn_with_calls && !reasoning.is_empty();
                let reasoning = if has_reasoning { Some(reasoning.as_str()) } else { None };
                // Strict providers refuse a message without text and calls.
                if !text.is_empty() || !calls.is_empty() {
                    mapped.push(assistant(reasoning, text, calls, dialect, field));
                }
            }
            ModelMessage::Tool { call_id, tool, content } => {
                let (text, files) = result(call_id, tool, content);
                mapped.push(Message::Tool { tool_call_id: call_id, content: text });
                result_files.extend(files);
            }
        }
    }
    push_result_files(&mut mapped, &mut result_files);
    mapped
}

/// Pushes the files of a step's results. Results take text only, and strict providers want every result of a step before
/// anything else, so the files follow the last one, as if the user sent them.
fn push_result_files<'a>(mapped: &mut Vec<Message<'a>>, files: &mut Vec<Part<'a>>) {
    if !files.is_empty() {
        mapped.push(Message::User { content: Content::Parts(std::mem::take(files)) });
    }
}

/// Returns the text of a result, and the parts for its files. Each file follows a text that names its call.
fn result<'a>(call_id: &str, tool: &str, content: &'a [ModelContent]) -> (Cow<'a, str>, Vec<Part<'a>>) {
    let (mut texts, mut names, mut files) = (Vec::new(), Vec::new(), Vec::new());
    for piece in content {
        match piece {
            ModelContent::Text(text) => texts.push(text.as_str()),
            ModelContent::File { media_type, url, filename } => {
                let name = format!("{} ({media_type})", filename.as_deref().unwrap_or("a file"));
                files.push(text_part(format!("[From the result of {tool}, call {call_id}: {name}]")));
                // A request with a file that no API supports would be refused, and so would every later request of the chat, although
                // no user has chosen that file.
                let is_shown =
                    DataUrl::parse(url).is_none() || is_supported(&media_type.to_ascii_lowercase());
                files.push(if is_shown {
                    file_part(media_type, url, filename.as_deref())
                } else {
                    text_part(format!("[It cannot be shown: the model takes no {media_type}.]"))
                });
                names.push(name);
            }
        }
    }
    let text = if texts.is_empty() {
        format!("[The result is shown in the next message: {}]", names.join(", ")).into()
    } else {
        join(&texts)
    };
    (text, files)
}

/// Returns texts as one, with each on a line of its own.
fn join<'a>(texts: &[&'a str]) -> Cow<'a, str> {
    match texts {
        [text] => Cow::Borrowed(text),
        texts => texts.join("\n").into(),
    }
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

fn assistant<'a>(
    reasoning: Option<&'a str>,
    text: &'a str,
    calls: &'a [ModelCall],
    dialect: Dialect,
    field: ReasoningField,
) -> Message<'a> {
    let call = |call: &'a ModelCall| ToolCall {
        id: &call.id,
        function: CalledFunction { name: &call.tool, arguments: call.input.as_str() },
        extra_content: None,
    };
    let mut tool_calls: Vec<ToolCall<'_>> = calls.iter().map(call).collect();
    if dialect.signs_calls()
        && let Some(first) = tool_calls.first_mut()
    {
        first.extra_content = Some(json!({"google": {"thought_signature": NO_SIGNATURE}}));
    }
    let (reasoning_content, reasoning) = match field {
        ReasoningField::ReasoningContent => (reasoning, None),
        ReasoningField::Reasoning => (None, reasoning),
        ReasoningField::Nowhere => (None, None),
    };
    let content = if text.is_empty() { None } else { Some(text) };
    Message::Assistant { content, reasoning_content, reasoning, tool_calls }
}

fn user_content(content: &[ModelContent]) -> Content<'_> {
    let texts: Option<Vec<&str>> = content
        .iter()
        .map(|piece| match piece {
            ModelContent::Text(text) => Some(text.as_str()),
            ModelContent::File { .. } => None,
        })
        .collect();
    match texts {
        Some(texts) => Content::Text(join(&texts)),
        None => {
            let parts = content.iter().map(|piece| match piece {
                ModelContent::Text(text) => text_part(text),
                ModelContent::File { media_type, url, filename } => {
                    file_part(media_type, url, filename.as_deref())
                }
            });
            Content::Parts(parts.collect())
        }
    }
}

fn text_part<'a>(text: impl Into<Cow<'a, str>>) -> Part<'a> {
    Part::Text { text: text.into() }
}

fn file_part<'a>(media_type: &str, url: &'a str, filename: Option<&'a str>) -> Part<'a> {
    let media_type = media_type.to_ascii_lowercase();
    if media_type.starts_with("image/") {
        return Part::ImageUrl { image_url: ImageUrl { url } };
    }
    let Some(data) = DataUrl::parse(url) else {
        let name = filename.unwrap_or("a file");
        return text_part(format!("[{name} ({media_type}): {url}]"));
    };
    if let (Some(format), true) = (audio_format(&media_type), data.is_base64) {
        return Part::InputAudio { input_audio: InputAudio { data: data.text, format } };
    }
    if let (true, Some(text)) = (media_type.starts_with("text/"), data.decode()) {
        return text_part(text);
    }
    let otherwise = if media_type == "application/pdf" { "document.pdf" } else { "file" };
    Part::File { file: File { filename: filename.unwrap_or(otherwise), file_data: url } }
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

// === impl Tool ===

impl<'a> Tool<'a> {
    fn new(tool: &'a ModelTool) -> Self {
        let ModelTool { name, description, input_schema } = tool;
        Self { function: OfferedFunction { name, description, parameters: input_schema } }
    }
}

/// Returns the fields for the settings that chat completions know. A setting that is unknown or of a wrong type is left out.
fn settings(settings: &Map<String, Value>, dialect: Dialect, has_tools: bool) -> Map<String, Value> {
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
    let mut fields = Map::new();
    for (setting, field, is_valid) in known {
        if let Some(value) = settings.get(setting)
            && is_valid(value)
        {
            fields.insert(field.to_owned(), value.clone());
        }
    }
    let options = settings.get("providerOptions").and_then(|options| options.get("openai"));
    for (name, value) in options.and_then(Value::as_object).into_iter().flatten() {
        let field = api_field(name);
        if !is_reserved(&field) {
            fields.insert(field, value.clone());
        }
    }
    if !has_tools {
        // OpenAI refuses it then.
        fields.remove("parallel_tool_calls");
    }
    fields
}

fn is_count(value: &Value) -> bool {
    value.as_u64().is_some_and(|count| count > 0)
}

fn are_strings(value: &Value) -> bool {
    value.as_array().is_some_and(|items| !items.is_empty() && items.iter().all(Value::is_string))
}

#[cfg(test)]
mod tests;
