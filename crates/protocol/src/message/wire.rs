//! Reads parts from JSON and writes them as JSON.
//!
//! A part that does not have the fields of its type is no error: it is kept unchanged as [`UiPart::Unknown`]. Reading fails
//! only if the JSON is not an object or has no `type`. `null` counts as absent, except for `input`, `output` and `data`, for
//! which it is a value.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeMap};
use serde_json::{Map, Value};

use super::{Approval, DataPart, FilePart, ToolName, ToolPart, ToolState, UiPart};
use crate::{JsonText, ToolCallId};

type Object = Map<String, Value>;

/// The fields that belong to a call's state. Those that the current state does not have are stale and are dropped.
const STATE_FIELDS: [&str; 6] = ["state", "input", "rawInput", "output", "errorText", "preliminary"];

impl<'de> Deserialize<'de> for UiPart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Value::Object(object) = Value::deserialize(deserializer)? else {
            return Err(D::Error::custom("a part must be an object"));
        };
        let Some(Value::String(kind)) = object.get("type") else {
            return Err(D::Error::custom("a part must have a `type` that is a string"));
        };
        Ok(read_part(kind, &object).unwrap_or(Self::Unknown(object)))
    }
}

/// Reads a part of a known type. Returns `None` if the type is unknown or the fields do not fit it.
fn read_part(kind: &str, object: &Object) -> Option<UiPart> {
    let mut fields = object.clone();
    fields.shift_remove("type");
    match kind {
        "text" => {
            let (text, streaming, provider_metadata, extra) = read_text(fields)?;
            Some(UiPart::Text { text, streaming, provider_metadata, extra })
        }
        "reasoning" => {
            let (text, streaming, provider_metadata, extra) = read_text(fields)?;
            Some(UiPart::Reasoning { text, streaming, provider_metadata, extra })
        }
        "file" => Some(UiPart::File(FilePart {
            media_type: take_string(&mut fields, "mediaType")?,
            url: take_string(&mut fields, "url")?,
            filename: take_optional_string(&mut fields, "filename")?,
            extra: fields,
        })),
        "step-start" => {
            if fields.is_empty() {
                Some(UiPart::StepStart)
            } else {
                None
            }
        }
        "dynamic-tool" => {
            let name = ToolName::Dynamic(take_string(&mut fields, "toolName")?);
            read_tool(name, fields)
        }
        _ => match kind.strip_prefix("tool-") {
            Some(name) => read_tool(ToolName::Static(name.to_owned()), fields),
            None if kind.starts_with("data-") => Some(UiPart::Data(DataPart {
                kind: kind.to_owned(),
                id: take_optional_string(&mut fields, "id")?,
                data: fields.shift_remove("data").unwrap_or_default(),
                extra: fields,
            })),
            None => None,
        },
    }
}

/// Reads the text, the state of its stream, the provider metadata and all other fields of a text or reasoning part.
fn read_text(mut fields: Object) -> Option<(String, Option<bool>, Option<Value>, Object)> {
    let text = take_string(&mut fields, "text")?;
    let streaming = match fields.get("state").and_then(Value::as_str) {
        Some("streaming") => Some(true),
        Some("done") => Some(false),
        Some(_) | None => None,
    };
    if streaming.is_some() {
        fields.shift_remove("state");
    }
    let provider_metadata = take_value(&mut fields, "providerMetadata");
    Some((text, streaming, provider_metadata, fields))
}

fn read_tool(name: ToolName, mut fields: Object) -> Option<UiPart> {
    let tool_call_id = ToolCallId::new(take_string(&mut fields, "toolCallId")?);
    let approval =
        take_value(&mut fields, "approval").map(serde_json::from_value::<Approval>).transpose().ok()?;
    let state = read_tool_state(&mut fields)?;
    for field in STATE_FIELDS {
        fields.shift_remove(field);
    }
    Some(UiPart::Tool(Box::new(ToolPart { tool_call_id, name, state, approval, extra: fields })))
}

/// Reads a call's state. An `input` or `output` that is `undefined` in a client is absent from its JSON; if the state
/// requires the field, it is read as `null`.
fn read_tool_state(fields: &mut Object) -> Option<ToolState> {
    let state = take_string(fields, "state")?;
    let input = fields.shift_remove("input").map(JsonText::from);
    Some(match state.as_str() {
        "input-available" => ToolState::InputAvailable { input: input.unwrap_or_default() },
        "output-available" => ToolState::OutputAvailable {
            input,
            output: fields.shift_remove("output").unwrap_or_default(),
            preliminary: take_value(fields, "preliminary").and_then(|flag| flag.as_bool()),
        },
        "output-error" => ToolState::OutputError {
            input,
            raw_input: fields.shift_remove("rawInput").map(JsonText::from),
            error_text: take_optional_string(fields, "errorText")?.unwrap_or_default(),
        },
        "input-streaming" => {
            ToolState::InputStreaming { input, raw_input: take_optional_string(fields, "rawInput")? }
        }
        "approval-requested" => {
            ToolState::ApprovalRequested { input, raw_input: take_optional_string(fields, "rawInput")? }
        }
        "approval-responded" => {
            ToolState::ApprovalResponded { input, raw_input: take_optional_string(fields, "rawInput")? }
        }
        "output-denied" => ToolState::OutputDenied {
            input,
            raw_input: take_optional_string(fields, "rawInput")?,
            error_text: take_optional_string(fields, "errorText")?,
        },
        _ => return None,
    })
}

fn take_value(fields: &mut Object, name: &str) -> Option<Value> {
    fields.shift_remove(name).filter(|value| !value.is_null())
}

fn take_string(fields: &mut Object, name: &str) -> Option<String> {
    take_optional_string(fields, name)?
}

/// Removes a field that must be a string. The outer `None` means that it has another type, the inner one that it is absent.
#[expect(
    clippy::option_option,
    reason = "absent and unreadable are different, and callers can use `?` for unreadable fields"
)]
fn take_optional_string(fields: &mut Object, name: &str) -> Option<Option<String>> {
    match take_value(fields, name) {
        None => Some(None),
        Some(Value::String(text)) => Some(Some(text)),
        Some(_) => None,
    }
}

impl Serialize for UiPart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Text { text, streaming, provider_metadata, extra } => {
                map.serialize_entry("type", "text")?;
                write_text(&mut map, text, *streaming, provider_metadata.as_ref(), extra)?;
            }
            Self::Reasoning { text, streaming, provider_metadata, extra } => {
                map.serialize_entry("type", "reasoning")?;
                write_text(&mut map, text, *streaming, provider_metadata.as_ref(), extra)?;
            }
            Self::File(part) => {
                map.serialize_entry("type", "file")?;
                map.serialize_entry("mediaType", &part.media_type)?;
                map.serialize_entry("url", &part.url)?;
                write_some(&mut map, "filename", part.filename.as_ref())?;
                write_all(&mut map, &part.extra)?;
            }
            Self::StepStart => map.serialize_entry("type", "step-start")?,
            Self::Tool(part) => {
                match &part.name {
                    ToolName::Static(name) => map.serialize_entry("type", &format!("tool-{name}"))?,
                    ToolName::Dynamic(name) => {
                        map.serialize_entry("type", "dynamic-tool")?;
                        map.serialize_entry("toolName", name)?;
                    }
                }
                map.serialize_entry("toolCallId", &part.tool_call_id)?;
                write_state(&mut map, &part.state)?;
                write_some(&mut map, "approval", part.approval.as_ref())?;
                write_all(&mut map, &part.extra)?;
            }
            Self::Data(part) => {
                map.serialize_entry("type", &part.kind)?;
                write_some(&mut map, "id", part.id.as_ref())?;
                map.serialize_entry("data", &part.data)?;
                write_all(&mut map, &part.extra)?;
            }
            Self::Unknown(fields) => write_all(&mut map, fields)?,
        }
        map.end()
    }
}

fn write_text<M: SerializeMap>(
    map: &mut M,
    text: &str,
    streaming: Option<bool>,
    provider_metadata: Option<&Value>,
    extra: &Object,
) -> Result<(), M::Error> {
    map.serialize_entry("text", text)?;
    match streaming {
        Some(true) => map.serialize_entry("state", "streaming")?,
        Some(false) => map.serialize_entry("state", "done")?,
        None => {}
    }
    write_some(map, "providerMetadata", provider_metadata)?;
    write_all(map, extra)
}

fn write_state<M: SerializeMap>(map: &mut M, state: &ToolState) -> Result<(), M::Error> {
    let name = match state {
        ToolState::InputStreaming { .. } => "input-streaming",
        ToolState::InputAvailable { .. } => "input-available",
        ToolState::ApprovalRequested { .. } => "approval-requested",
        ToolState::ApprovalResponded { .. } => "approval-responded",
        ToolState::OutputAvailable { .. } => "output-available",
        ToolState::OutputError { .. } => "output-error",
        ToolState::OutputDenied { .. } => "output-denied",
    };
    map.serialize_entry("state", name)?;
    write_some(map, "input", state.input())?;
    match state {
        ToolState::InputAvailable { .. } => Ok(()),
        ToolState::InputStreaming { raw_input, .. }
        | ToolState::ApprovalRequested { raw_input, .. }
        | ToolState::ApprovalResponded { raw_input, .. } => write_some(map, "rawInput", raw_input.as_ref()),
        ToolState::OutputAvailable { output, preliminary, .. } => {
            map.serialize_entry("output", output)?;
            write_some(map, "preliminary", preliminary.as_ref())
        }
        ToolState::OutputError { raw_input, error_text, .. } => {
            write_some(map, "rawInput", raw_input.as_ref())?;
            map.serialize_entry("errorText", error_text)
        }
        ToolState::OutputDenied { raw_input, error_text, .. } => {
            write_some(map, "rawInput", raw_input.as_ref())?;
            write_some(map, "errorText", error_text.as_ref())
        }
    }
}

fn write_some<M: SerializeMap, T: Serialize>(
    map: &mut M,
    name: &str,
    value: Option<T>,
) -> Result<(), M::Error> {
    match value {
        Some(value) => map.serialize_entry(name, &value),
        None => Ok(()),
    }
}

fn write_all<M: SerializeMap>(map: &mut M, fields: &Object) -> Result<(), M::Error> {
    fields.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))
}
