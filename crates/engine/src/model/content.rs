//! The content that a model gets for a tool's output.
//!
//! Outputs come in several shapes, which this module recognizes. It is pure: the same output and limit give the same content, so two
//! prompts agree in what they share, and providers' caches stay warm. The record and the page keep the output as it came. This
//! module knows no provider: each provider's module decides which files its API takes.
//!
//! Invariants: the content is never empty; no text in it is empty, unless the output is the empty text itself; each file has a URL that
//! can be sent (`https:`, `http:`, or a data URL whose base64 is valid), because one that providers refuse would end the chat for good.
//! An output is read as a shape only if all of it fits that shape; any other output is rendered as its JSON.

mod limit;

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
    prelude::BASE64_STANDARD,
};
use serde_json::{Map, Value};

use self::limit::{bytes_of_text, limited};
use crate::model::{ModelContent, media_types::is_text};

/// The text in place of content that has none.
const NO_OUTPUT: &str = "(no output)";

/// The key of the content for the model in the results of assistant-ui's tools. Such a result has no other key than this and `value`.
const ASSISTANT_UI_CONTENT: &str = "__aui_modelContent";

/// The media type of a file that names none.
const UNKNOWN_MEDIA_TYPE: &str = "application/octet-stream";

/// Decodes base64 with and without padding, because tools send both.
const BASE64_ANY: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The line in the result of a call whose input a person has changed.
pub(crate) const EDITED: &str = "[A person changed the input of this call before it ran.]";

type JsonObject = Map<String, Value>;

/// Returns the content that a model gets for a tool's output.
///
/// Text stays as it is. Three shapes are recognized: MCP results (`content`, `structuredContent`, `isError`), tool result outputs of the
/// AI SDK (`type`, `value`) and assistant-ui's `__aui_modelContent`; any other output is rendered as its JSON. A text that is one image
/// as a data URL becomes a file. A file that is text becomes text and counts as such.
///
/// If there are more than `limit` bytes of text, the middle is left out, and a note says how much that was. Files do not count.
pub fn tool_content(output: &Value, limit: usize) -> Vec<ModelContent> {
    let recognized =
        mcp_result(output).or_else(|| sdk_output(output)).or_else(|| assistant_ui_result(output));
    let content = match (recognized, output) {
        (Some(content), _) => non_empty(content),
        (None, Value::String(text)) => vec![text_or_image(text)],
        (None, output) => vec![json_text(output)],
    };
    limited(content, limit)
}

/// Returns the text for the model about a call that failed.
pub(crate) fn failure_text(error_text: &str, hint: Option<&str>) -> String {
    match hint {
        Some(hint) => format!("Error: {error_text}\n{hint}"),
        None => format!("Error: {error_text}"),
    }
}

/// Returns the tool-result text of a call that has no output, with at most `limit` bytes of it and a note.
pub(crate) fn tool_result_text(text: impl Into<String>, limit: usize) -> Vec<ModelContent> {
    limited(non_empty(vec![ModelContent::Text(text.into())]), limit)
}

// === the shapes ===

/// Reads the result of an MCP tool. Structured content is rendered only if there is no text, because the protocol advises servers to send
/// it as text too.
fn mcp_result(output: &Value) -> Option<Vec<ModelContent>> {
    let result = output.as_object()?;
    let structured = result.get("structuredContent").filter(|structured| !structured.is_null());
    let blocks = match result.get("content") {
        Some(blocks) => blocks.as_array()?.as_slice(),
        None if structured.is_some() => &[],
        None => return None,
    };
    let has_only_mcp_fields = result.iter().all(|(key, value)| match key.as_str() {
        "content" | "structuredContent" => true,
        "isError" => value.is_boolean(),
        "resultType" => value.is_string(),
        "_meta" => value.is_object(),
        _ => false,
    });
    if !has_only_mcp_fields {
        return None;
    }
    let mut content = Vec::new();
    for block in blocks {
        let piece = mcp_block(block)?;
        if is_for_model(block) {
            content.push(piece);
        }
    }
    let has_text = content.iter().any(|piece| bytes_of_text(piece) > 0);
    if let Some(structured) = structured
        && !has_text
    {
        content.push(json_text(structured));
    }
    let has_failed = result.get("isError") == Some(&Value::Bool(true));
    Some(if has_failed { as_failure(content) } else { content })
}

/// Returns whether a block is also for the model. One whose annotations name an audience without it is for the person alone.
fn is_for_model(block: &Value) -> bool {
    let audience = block["annotations"]["audience"].as_array();
    audience.is_none_or(|roles| roles.is_empty() || roles.iter().any(|role| role == "assistant"))
}

fn mcp_block(block: &Value) -> Option<ModelContent> {
    let block = block.as_object()?;
    let has_only_mcp = |keys: &[&str]| has_only(block, &[keys, &["type", "annotations", "_meta"]].concat());
    match string_field(block, "type")? {
        "text" if has_only_mcp(&["text"]) => Some(text_or_image(string_field(block, "text")?)),
        "image" | "audio" if has_only_mcp(&["data", "mimeType"]) => {
            Some(file_from_data(string_field(block, "mimeType")?, string_field(block, "data")?, None))
        }
        "resource" if has_only_mcp(&["resource"]) => mcp_resource(block.get("resource")?.as_object()?),
        "resource_link"
            if has_only_mcp(&["uri", "name", "title", "description", "mimeType", "size", "icons"]) =>
        {
            mcp_link(block)
        }
        _ => None,
    }
}

fn mcp_resource(resource: &JsonObject) -> Option<ModelContent> {
    let uri = string_field(resource, "uri")?;
    match (resource.get("text"), resource.get("blob")) {
        (Some(Value::String(text)), None) => Some(named_text(uri, text)),
        (None, Some(Value::String(data))) => {
            let media_type = string_field(resource, "mimeType").unwrap_or_default();
            Some(file_from_data(media_type, data, Some(uri)))
        }
        _ => None,
    }
}

fn mcp_link(link: &JsonObject) -> Option<ModelContent> {
    let (uri, name) = (string_field(link, "uri")?, string_field(link, "name")?);
    let media_type =
        string_field(link, "mimeType").map(|media_type| format!(" ({media_type})")).unwrap_or_default();
    let description =
        string_field(link, "description").map(|description| format!(": {description}")).unwrap_or_default();
    Some(ModelContent::Text(format!("[resource {name}{media_type} at {uri}]{description}")))
}

/// Reads a tool result output of the AI SDK, versions 5 to 7, which a tool's `toModelOutput` returns.
fn sdk_output(output: &Value) -> Option<Vec<ModelContent>> {
    let fields = output.as_object()?;
    let (output_type, value) = (string_field(fields, "type")?, fields.get("value")?);
    if !has_only_sdk_fields(fields, &["type", "value"]) {
        return None;
    }
    match (output_type, value) {
        ("text", Value::String(text)) => Some(vec![text_or_image(text)]),
        ("error-text", Value::String(text)) => Some(as_failure(vec![text_or_image(text)])),
        ("json", value) => Some(vec![json_text(value)]),
        ("error-json", value) => Some(as_failure(vec![json_text(value)])),
        ("content", Value::Array(parts)) => parts.iter().map(sdk_part).collect(),
        _ => None,
    }
}

fn sdk_part(part: &Value) -> Option<ModelContent> {
    let part = part.as_object()?;
    let has_only_sdk = |keys: &[&str]| has_only_sdk_fields(part, &[keys, &["type"]].concat());
    let filename = string_field(part, "filename");
    match string_field(part, "type")? {
        "text" if has_only_sdk(&["text"]) => Some(text_or_image(string_field(part, "text")?)),
        "media" | "image-data" | "file-data" if has_only_sdk(&["data", "mediaType", "filename"]) => {
            Some(file_from_data(string_field(part, "mediaType")?, string_field(part, "data")?, filename))
        }
        "image-url" if has_only_sdk(&["url", "mediaType"]) => {
            let media_type = string_field(part, "mediaType").unwrap_or("image/*");
            Some(file_from_url(media_type, string_field(part, "url")?, None))
        }
        "file-url" if has_only_sdk(&["url", "mediaType", "filename"]) => {
            let media_type = string_field(part, "mediaType").unwrap_or_default();
            Some(file_from_url(media_type, string_field(part, "url")?, filename))
        }
        "file" if has_only_sdk(&["data", "mediaType", "filename"]) => {
            sdk_file(string_field(part, "mediaType")?, part.get("data")?.as_object()?, filename)
        }
        _ => None,
    }
}

/// Reads a file of the AI SDK's version 7, whose data is tagged with its type.
fn sdk_file(media_type: &str, data: &JsonObject, filename: Option<&str>) -> Option<ModelContent> {
    match string_field(data, "type")? {
        "data" => Some(file_from_data(media_type, string_field(data, "data")?, filename)),
        "url" => Some(file_from_url(media_type, string_field(data, "url")?, filename)),
        "text" => Some(text_file(filename, string_field(data, "text")?)),
        _ => None,
    }
}

/// Reads the result of an assistant-ui tool that has content for the model beside its value.
fn assistant_ui_result(output: &Value) -> Option<Vec<ModelContent>> {
    let fields = output.as_object()?;
    let parts = fields.get(ASSISTANT_UI_CONTENT)?.as_array()?;
    if !has_only(fields, &[ASSISTANT_UI_CONTENT, "value"]) {
        return None;
    }
    parts.iter().map(assistant_ui_part).collect()
}

fn assistant_ui_part(part: &Value) -> Option<ModelContent> {
    let part = part.as_object()?;
    match string_field(part, "type")? {
        "text" if has_only(part, &["type", "text"]) => Some(text_or_image(string_field(part, "text")?)),
        "file" if has_only(part, &["type", "data", "mediaType", "filename"]) => {
            let (media_type, data) = (string_field(part, "mediaType")?, string_field(part, "data")?);
            Some(file_from_data(media_type, data, string_field(part, "filename")))
        }
        _ => None,
    }
}

fn string_field<'a>(fields: &'a JsonObject, key: &str) -> Option<&'a str> {
    fields.get(key)?.as_str()
}

fn has_only(fields: &JsonObject, keys: &[&str]) -> bool {
    fields.keys().all(|key| keys.contains(&key.as_str()))
}

/// Returns whether an object has no other fields than these and the options that any object of the AI SDK may have.
fn has_only_sdk_fields(fields: &JsonObject, keys: &[&str]) -> bool {
    let are_options_valid = match fields.get("providerOptions") {
        Some(options) => options.is_object() || options.is_null(),
        None => true,
    };
    are_options_valid && has_only(fields, &[keys, &["providerOptions"]].concat())
}

// === pieces of content ===

fn json_text(value: &Value) -> ModelContent {
    ModelContent::Text(value.to_string())
}

fn named_text(name: &str, text: &str) -> ModelContent {
    ModelContent::Text(format!("[{name}]\n{text}"))
}

/// Returns a file that is text as text, with its name if it has one.
fn text_file(name: Option<&str>, text: &str) -> ModelContent {
    match name {
        Some(name) => named_text(name, text),
        None => ModelContent::Text(text.to_owned()),
    }
}

/// Removes blank texts. If nothing is left, a text stands for the empty content.
fn non_empty(mut content: Vec<ModelContent>) -> Vec<ModelContent> {
    content.retain(|piece| !is_blank(piece));
    if content.is_empty() {
        content.push(ModelContent::Text(NO_OUTPUT.into()));
    }
    content
}

fn is_blank(piece: &ModelContent) -> bool {
    match piece {
        ModelContent::Text(text) => text.trim().is_empty(),
        ModelContent::File { .. } => false,
    }
}

/// Marks content as that of a failed call, as the text of every failed call is marked.
fn as_failure(mut content: Vec<ModelContent>) -> Vec<ModelContent> {
    content.retain(|piece| !is_blank(piece));
    match content.first_mut() {
        Some(ModelContent::Text(text)) => text.insert_str(0, "Error: "),
        Some(ModelContent::File { .. }) | None => {
            content.insert(0, ModelContent::Text("Error: the tool says that it failed.".into()));
        }
    }
    content
}

/// Returns a text that is an image as a data URL as a file, and any other text as it is.
fn text_or_image(text: &str) -> ModelContent {
    if let Some((media_type, data)) = base64_url(text.trim())
        && media_type.starts_with("image/")
        && let Some(image) = decoded(essence(media_type), data, None)
    {
        return image;
    }
    ModelContent::Text(text.to_owned())
}

/// Returns a file by its data, which is base64, or a URL because some tools put one there.
fn file_from_data(media_type: &str, data: &str, name: Option<&str>) -> ModelContent {
    if is_web(data) || data.starts_with("data:") {
        return file_from_url(media_type, data, name);
    }
    let media_type = essence(media_type);
    decoded(media_type, data, name).unwrap_or_else(|| unreadable(media_type, name, "its data cannot be read"))
}

/// Returns a file by its URL.
fn file_from_url(media_type: &str, url: &str, name: Option<&str>) -> ModelContent {
    let given = essence(media_type);
    if is_web(url) {
        let (media_type, url) = (given.to_owned(), url.to_owned());
        return ModelContent::File { media_type, url, filename: name.map(ToOwned::to_owned) };
    }
    let Some((url_media_type, data)) = base64_url(url) else {
        // The `blob:` and `file:` URLs of a page cannot be opened anywhere else.
        let why = if url.starts_with("data:") { "its data cannot be read" } else { "its URL leads nowhere" };
        return unreadable(given, name, why);
    };
    let is_unspecific = given.ends_with("/*") || given == UNKNOWN_MEDIA_TYPE;
    let media_type = if is_unspecific { essence(url_media_type) } else { given };
    decoded(media_type, data, name).unwrap_or_else(|| unreadable(media_type, name, "its data cannot be read"))
}

fn is_web(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

/// Returns the media type and the data of a data URL in base64.
fn base64_url(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    Some((head.strip_suffix(";base64")?, data))
}

/// Decodes base64: into text if it is text by its media type and its bytes, into a file otherwise. Returns `None` if the data is not
/// valid or empty.
fn decoded(media_type: &str, data: &str, name: Option<&str>) -> Option<ModelContent> {
    let bytes = BASE64_ANY.decode(data.split_ascii_whitespace().collect::<String>()).ok()?;
    if bytes.is_empty() {
        return None;
    }
    if is_text(media_type)
        && let Ok(text) = std::str::from_utf8(&bytes)
    {
        return Some(text_file(name, text));
    }
    Some(ModelContent::File {
        media_type: media_type.to_owned(),
        url: format!("data:{media_type};base64,{}", BASE64_STANDARD.encode(bytes)),
        filename: name.map(ToOwned::to_owned),
    })
}

fn unreadable(media_type: &str, name: Option<&str>, why: &str) -> ModelContent {
    ModelContent::Text(format!("[{} ({media_type}): {why}]", name.unwrap_or("a file")))
}

/// Returns a media type without its parameters, in a form that is valid in a data URL.
fn essence(media_type: &str) -> &str {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    let is_plain = essence.bytes().all(|b| b.is_ascii_alphanumeric() || b"/!#$&-^_.+*".contains(&b));
    if essence.contains('/') && is_plain { essence } else { UNKNOWN_MEDIA_TYPE }
}

#[cfg(test)]
mod tests;
