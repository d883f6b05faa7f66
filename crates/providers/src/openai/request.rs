//! Turns the engine's request into the JSON of chat completions.
//!
//! The same request, model and dialect always give the same body. This module does not check the conversation: the engine
//! keeps its calls and results paired. The differences between providers are decided in [`super::conversation`] and [`super::tools`].
//!
//! A conversation may have megabytes, and schemas many fields, so the body borrows them until it is written.

use fermata_engine::{
    call_settings::{api_field, is_reserved},
    model::{ModelContent, ModelMessage, ModelRequest},
};
use fermata_protocol::ToolChoice;
use serde::Serialize;
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};

use super::{
    conversation::{Message, fit_conversation},
    dialect::{Dialect, ReasoningField},
    tool_names::ToolNames,
    tools::{Tool, fit_tools},
};

/// Returns the request body, as JSON text.
///
/// # Errors
/// If a part of it cannot be written as JSON.
pub(super) fn body(
    model: &str,
    dialect: &Dialect,
    field: ReasoningField,
    request: &ModelRequest,
) -> serde_json::Result<Box<RawValue>> {
    let names = ToolNames::new(&request.tools, dialect);
    let is_sent = |field| dialect.field(field).is_some();
    let tools = if is_sent("tools") {
        fit_tools(&request.tools, request.tool_choice.as_ref(), dialect, &names)
    } else {
        Vec::new()
    };
    let tool_choice = match &request.tool_choice {
        _ if !is_sent("tool_choice") => None,
        // It is refused without tools.
        _ if tools.is_empty() => None,
        None => None,
        Some(ToolChoice::Auto) => Some("auto".into()),
        Some(ToolChoice::Required | ToolChoice::Tool(_)) if !dialect.forces_tools => Some("auto".into()),
        Some(ToolChoice::None) => Some("none".into()),
        Some(ToolChoice::Required) => Some("required".into()),
        Some(ToolChoice::Tool(name)) => {
            Some(json!({"type": "function", "function": {"name": names.on_the_wire(name)}}))
        }
    };
    to_raw_value(&Body {
        model,
        messages: fit_conversation(&request.messages, dialect, field, &names),
        stream: true,
        stream_options: if is_sent("stream_options") {
            Some(StreamOptions { include_usage: true })
        } else {
            None
        },
        settings: settings(&request.settings, dialect, !tools.is_empty()),
        tools,
        tool_choice,
    })
}

/// Returns about how long the messages of a request are, in bytes. The inputs of calls are not counted: most are short, and they have no
/// length before they are written.
pub(super) fn length(request: &ModelRequest) -> usize {
    let messages = request.messages.iter().map(|message| match message {
        ModelMessage::System(text) => text.len(),
        ModelMessage::User(content) | ModelMessage::Tool { content, .. } => {
            let pieces = content.iter().map(|piece| match piece {
                ModelContent::Text(text) => text.len(),
                ModelContent::File { url, .. } => url.len(),
            });
            pieces.sum()
        }
        ModelMessage::Assistant { reasoning, text, calls, provider_metadata } => {
            let of_calls = calls.iter().map(|call| &call.provider_metadata);
            let metadata = of_calls.chain([provider_metadata]).flatten().map(|text| text.as_str().len());
            reasoning.len() + text.len() + metadata.sum::<usize>()
        }
    });
    messages.sum()
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
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

/// Returns the fields for the settings that chat completions know. A setting that is unknown or of a wrong type is left out.
fn settings(settings: &Map<String, Value>, dialect: &Dialect, has_tools: bool) -> Map<String, Value> {
    type IsValid = fn(&Value) -> bool;
    let known: [(&str, &str, IsValid); 10] = [
        ("temperature", "temperature", Value::is_number),
        ("topP", "top_p", Value::is_number),
        ("maxTokens", "max_tokens", is_count),
        ("maxOutputTokens", "max_tokens", is_count),
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
    let named =
        fields.into_iter().filter_map(|(name, value)| Some((dialect.field(&name)?.to_owned(), value)));
    named.collect()
}

fn is_count(value: &Value) -> bool {
    value.as_u64().is_some_and(|count| count > 0)
}

fn are_strings(value: &Value) -> bool {
    value.as_array().is_some_and(|items| !items.is_empty() && items.iter().all(Value::is_string))
}

#[cfg(test)]
mod tests;
