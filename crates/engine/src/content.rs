//! What a model is told of a tool's output: the shapes that outputs come in, read.
//!
//! Pure: the same output and limit give the same content, so that a prompt never differs from the one before it in what
//! both hold, and providers' caches stay warm. The record and the page keep the output as it came. Knows no provider:
//! which files an API takes is for the provider's module to say.
//!
//! Invariants: the content is never empty; no text in it is empty; each file has a URL that can be sent (`https:`, `http:`,
//! or a data URL whose base64 is sound), because one that providers refuse would end the chat for good. Only what has a
//! shape entirely is read as that shape; any other output is told as its JSON.

mod limit;

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
    prelude::BASE64_STANDARD,
};
use serde_json::{Map, Value};

use self::limit::{bytes_of_text, within};
use crate::model::ModelContent;

/// What is told of a list of content with nothing in it.
const NOTHING: &str = "(no output)";

/// The only key, besides `value`, of what assistant-ui's tools give when they have something of their own for the model.
const ENVELOPE: &str = "__aui_modelContent";

/// The media type of what has none.
const UNKNOWN: &str = "application/octet-stream";

/// Tools pad their base64, or do not.
const BASE64_ANY: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

type Object = Map<String, Value>;

/// What a model is told of a tool's output.
///
/// Text is told as it is. Read are MCP results (`content`, `structuredContent`, `isError`), tool result outputs of the AI SDK
/// (`type`, `value`) and assistant-ui's `__aui_modelContent`; any other output is told as its JSON. A text that is one
/// image as a data URL is a file; a file that is text is told as text, and counts as such.
///
/// Of more than `limit` bytes of text the middle is left out, and how much that was is told. Files do not count.
pub fn tool_content(output: &Value, limit: usize) -> Vec<ModelContent> {
    let read = mcp_result(output).or_else(|| sdk_output(output)).or_else(|| envelope(output));
    within(read.map_or_else(|| vec![plain(output)], something), limit)
}

/// What a model is told in words that a call came to, at most `limit` bytes of them and a note.
pub(crate) fn told(words: impl Into<String>, limit: usize) -> Vec<ModelContent> {
    within(something(vec![ModelContent::Text(words.into())]), limit)
}

// === the shapes ===

fn plain(output: &Value) -> ModelContent {
    match output {
        Value::String(words) => text_or_image(words),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => json(output),
    }
}

/// The result of an MCP tool. What is structured is there in words too, by the protocol's own advice.
fn mcp_result(output: &Value) -> Option<Vec<ModelContent>> {
    let result = output.as_object()?;
    let structured = result.get("structuredContent").filter(|structured| !structured.is_null());
    let blocks = match result.get("content") {
        Some(blocks) => blocks.as_array()?.as_slice(),
        None if structured.is_some() => &[],
        None => return None,
    };
    let of_the_protocol = result.iter().all(|(key, value)| match key.as_str() {
        "content" | "structuredContent" => true,
        "isError" => value.is_boolean(),
        "resultType" => value.is_string(),
        "_meta" => value.is_object(),
        _ => false,
    });
    if !of_the_protocol {
        return None;
    }
    let mut content = blocks.iter().map(mcp_block).collect::<Option<Vec<_>>>()?;
    if let (Some(structured), false) = (structured, content.iter().any(|piece| bytes_of_text(piece) > 0)) {
        content.push(json(structured));
    }
    let failed = result.get("isError") == Some(&Value::Bool(true));
    Some(if failed { failure(content) } else { content })
}

fn mcp_block(block: &Value) -> Option<ModelContent> {
    let block = block.as_object()?;
    let has = |keys: &[&str]| has_only(block, &[keys, &["type", "annotations", "_meta"]].concat());
    match text(block, "type")? {
        "text" if has(&["text"]) => Some(text_or_image(text(block, "text")?)),
        "image" | "audio" if has(&["data", "mimeType"]) => {
            Some(file(text(block, "mimeType")?, text(block, "data")?, None))
        }
        "resource" if has(&["resource"]) => mcp_resource(block.get("resource")?.as_object()?),
        "resource_link" if has(&["uri", "name", "title", "description", "mimeType", "size", "icons"]) => {
            mcp_link(block)
        }
        _ => None,
    }
}

fn mcp_resource(resource: &Object) -> Option<ModelContent> {
    let uri = text(resource, "uri")?;
    match (resource.get("text"), resource.get("blob")) {
        (Some(Value::String(words)), None) => Some(named_text(uri, words)),
        (None, Some(Value::String(data))) => {
            let media_type = text(resource, "mimeType").unwrap_or_default();
            Some(file(media_type, data, Some(uri)))
        }
        _ => None,
    }
}

fn mcp_link(link: &Object) -> Option<ModelContent> {
    let (uri, name) = (text(link, "uri")?, text(link, "name")?);
    let media_type = text(link, "mimeType").map(|kind| format!(" ({kind})")).unwrap_or_default();
    let about = text(link, "description").map(|about| format!(": {about}")).unwrap_or_default();
    Some(ModelContent::Text(format!("[resource {name}{media_type} at {uri}]{about}")))
}

/// What a tool's `toModelOutput` gives in the AI SDK, versions 5 to 7.
fn sdk_output(output: &Value) -> Option<Vec<ModelContent>> {
    let fields = output.as_object()?;
    let (kind, value) = (text(fields, "type")?, fields.get("value")?);
    if !sdk_fields(fields, &["type", "value"]) {
        return None;
    }
    match (kind, value) {
        ("text", Value::String(words)) => Some(vec![text_or_image(words)]),
        ("error-text", Value::String(words)) => Some(failure(vec![text_or_image(words)])),
        ("json", value) => Some(vec![json(value)]),
        ("error-json", value) => Some(failure(vec![json(value)])),
        ("content", Value::Array(parts)) => parts.iter().map(sdk_part).collect(),
        _ => None,
    }
}

fn sdk_part(part: &Value) -> Option<ModelContent> {
    let part = part.as_object()?;
    let has = |keys: &[&str]| sdk_fields(part, &[keys, &["type"]].concat());
    let filename = text(part, "filename");
    match text(part, "type")? {
        "text" if has(&["text"]) => Some(text_or_image(text(part, "text")?)),
        "media" | "image-data" | "file-data" if has(&["data", "mediaType", "filename"]) => {
            Some(file(text(part, "mediaType")?, text(part, "data")?, filename))
        }
        "image-url" if has(&["url", "mediaType"]) => {
            Some(remote(text(part, "mediaType").unwrap_or("image/*"), text(part, "url")?, None))
        }
        "file-url" if has(&["url", "mediaType", "filename"]) => {
            Some(remote(text(part, "mediaType").unwrap_or_default(), text(part, "url")?, filename))
        }
        "file" if has(&["data", "mediaType", "filename"]) => {
            sdk_file(text(part, "mediaType")?, part.get("data")?.as_object()?, filename)
        }
        _ => None,
    }
}

/// A file as version 7 has it, which says of the data what it is.
fn sdk_file(media_type: &str, data: &Object, filename: Option<&str>) -> Option<ModelContent> {
    match text(data, "type")? {
        "data" => Some(file(media_type, text(data, "data")?, filename)),
        "url" => Some(remote(media_type, text(data, "url")?, filename)),
        "text" => {
            let words = text(data, "text")?;
            Some(filename.map_or_else(|| ModelContent::Text(words.into()), |name| named_text(name, words)))
        }
        _ => None,
    }
}

/// What a tool of assistant-ui gave, with what it has for the model beside it.
fn envelope(output: &Value) -> Option<Vec<ModelContent>> {
    let fields = output.as_object()?;
    let parts = fields.get(ENVELOPE)?.as_array()?;
    if !has_only(fields, &[ENVELOPE, "value"]) {
        return None;
    }
    parts.iter().map(envelope_part).collect()
}

fn envelope_part(part: &Value) -> Option<ModelContent> {
    let part = part.as_object()?;
    match text(part, "type")? {
        "text" if has_only(part, &["type", "text"]) => Some(text_or_image(text(part, "text")?)),
        "file" if has_only(part, &["type", "data", "mediaType", "filename"]) => {
            Some(file(text(part, "mediaType")?, text(part, "data")?, text(part, "filename")))
        }
        _ => None,
    }
}

fn text<'a>(fields: &'a Object, key: &str) -> Option<&'a str> {
    fields.get(key)?.as_str()
}

fn has_only(fields: &Object, keys: &[&str]) -> bool {
    fields.keys().all(|key| keys.contains(&key.as_str()))
}

/// Whether there is nothing else but what any object of the AI SDK may have.
fn sdk_fields(fields: &Object, keys: &[&str]) -> bool {
    let options = |value: &Value| value.is_object() || value.is_null();
    has_only(fields, &[keys, &["providerOptions"]].concat())
        && fields.get("providerOptions").is_none_or(options)
}

// === pieces of content ===

fn json(value: &Value) -> ModelContent {
    ModelContent::Text(value.to_string())
}

fn named_text(name: &str, words: &str) -> ModelContent {
    ModelContent::Text(format!("[{name}]\n{words}"))
}

/// What there is, or that there is nothing.
fn something(mut content: Vec<ModelContent>) -> Vec<ModelContent> {
    content.retain(says_something);
    if content.is_empty() {
        content.push(ModelContent::Text(NOTHING.into()));
    }
    content
}

fn says_something(piece: &ModelContent) -> bool {
    match piece {
        ModelContent::Text(words) => !words.trim().is_empty(),
        ModelContent::File { .. } => true,
    }
}

/// In the words that a failed call is told in.
fn failure(mut content: Vec<ModelContent>) -> Vec<ModelContent> {
    content.retain(says_something);
    match content.first_mut() {
        Some(ModelContent::Text(words)) => words.insert_str(0, "Error: "),
        Some(ModelContent::File { .. }) | None => {
            content.insert(0, ModelContent::Text("Error: the tool says that it failed.".into()));
        }
    }
    content
}

/// Words, unless they are an image.
fn text_or_image(words: &str) -> ModelContent {
    let image = || {
        let (media_type, data) = base64_url(words.trim())?;
        let media_type = media_type.starts_with("image/").then(|| essence(media_type))?;
        decoded(media_type, data, None)
    };
    image().unwrap_or_else(|| ModelContent::Text(words.to_owned()))
}

/// A file by its data: base64, or a URL where a tool puts one in that place.
fn file(media_type: &str, data: &str, name: Option<&str>) -> ModelContent {
    if is_web(data) || data.starts_with("data:") {
        return remote(media_type, data, name);
    }
    let media_type = essence(media_type);
    decoded(media_type, data, name).unwrap_or_else(|| unreadable(media_type, name, "its data cannot be read"))
}

/// A file by its URL.
fn remote(media_type: &str, url: &str, name: Option<&str>) -> ModelContent {
    let given = essence(media_type);
    if is_web(url) {
        let (media_type, url) = (given.to_owned(), url.to_owned());
        return ModelContent::File { media_type, url, filename: name.map(ToOwned::to_owned) };
    }
    let Some((said, data)) = base64_url(url) else {
        // A page's own `blob:` or `file:` is nothing that anybody else could open.
        let why = if url.starts_with("data:") { "its data cannot be read" } else { "its URL leads nowhere" };
        return unreadable(given, name, why);
    };
    let media_type = if given.ends_with("/*") || given == UNKNOWN { essence(said) } else { given };
    decoded(media_type, data, name).unwrap_or_else(|| unreadable(media_type, name, "its data cannot be read"))
}

fn is_web(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

/// Media type and data of a data URL in base64.
fn base64_url(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    Some((head.strip_suffix(";base64")?, data))
}

/// Text where it is text, otherwise a file. None without sound data.
fn decoded(media_type: &str, data: &str, name: Option<&str>) -> Option<ModelContent> {
    let bytes = BASE64_ANY.decode(data.split_ascii_whitespace().collect::<String>()).ok()?;
    if bytes.is_empty() {
        return None;
    }
    if let (true, Ok(words)) = (is_text(media_type), std::str::from_utf8(&bytes)) {
        return Some(
            name.map_or_else(|| ModelContent::Text(words.to_owned()), |name| named_text(name, words)),
        );
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

/// A media type without its parameters, as it can stand in a data URL.
fn essence(media_type: &str) -> &str {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    let fit = |b: u8| b.is_ascii_alphanumeric() || b"/!#$&-^_.+*".contains(&b);
    if essence.contains('/') && essence.bytes().all(fit) { essence } else { UNKNOWN }
}

fn is_text(media_type: &str) -> bool {
    let media_type = media_type.to_ascii_lowercase();
    let structured = ["json", "xml", "yaml"].iter().any(|syntax| {
        media_type.strip_suffix(syntax).is_some_and(|rest| rest.ends_with('+') || rest == "application/")
    });
    structured || media_type.starts_with("text/") || media_type == "application/javascript"
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;
