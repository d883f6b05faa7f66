//! The conversation of a request, as its provider takes it.
//!
//! Some providers, and the chat templates of some models, refuse a conversation that others take: for the form of a call's id, for two
//! messages of the user in a row, for an image. Each such refusal would end the chat, so the conversation is written in the form that the
//! [`Dialect`] asks for. The record of the chat stays as it is.
//!
//! Invariants: a call and its result have the same id, and no other call of the request has it, unless the provider itself gave it to both; a
//! call that was sent before is sent with the same id again, as long as the conversation only grows; there is at most one system message,
//! and it comes first.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use fermata_engine::{
    media_types::{is_common, is_taken, is_text_file},
    model::{ModelCall, ModelContent, ModelMessage},
};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{
    dialect::{Dialect, ReasoningField, Roles, ToolIds},
    provider_metadata::{Attached, EXTRA_CONTENT, Kept},
    tool_names::ToolNames,
};

/// The value that Google accepts instead of a signature that was not stored.
pub(super) const NO_SIGNATURE: &str = "skip_thought_signature_validator";
/// The characters of an id, and their number where the length is fixed.
const ID_CHARACTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ID_LENGTH: usize = 9;
/// The words of the assistant between a result and the next message of the user.
const AFTER_RESULT: &str = "I have the result.";
/// The words of the user before an assistant that begins, and after one that spoke last.
const BEFORE_ASSISTANT: &str = "Begin.";
const AFTER_ASSISTANT: &str = "Go on.";

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum Message<'a> {
    System {
        content: Cow<'a, str>,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        /// `null` if there is no text.
        content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
        #[serde(flatten)]
        attached: Attached,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: Cow<'a, str>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl<'a> },
    InputAudio { input_audio: InputAudio<'a> },
    File { file: File<'a> },
}

#[derive(Serialize)]
pub(super) struct ImageUrl<'a> {
    url: &'a str,
}

#[derive(Serialize)]
pub(super) struct InputAudio<'a> {
    data: &'a str,
    format: &'static str,
}

#[derive(Serialize)]
pub(super) struct File<'a> {
    filename: &'a str,
    file_data: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
pub(super) struct ToolCall<'a> {
    id: Cow<'a, str>,
    function: CalledFunction<'a>,
    #[serde(flatten)]
    attached: Attached,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: Cow<'a, str>,
    /// JSON text.
    arguments: &'a str,
}

/// The form of the answers of the model.
struct AnswerForm<'a, 'd> {
    dialect: &'d Dialect,
    field: ReasoningField,
    names: &'a ToolNames,
}

/// The ids of the calls of one request.
struct CallIds<'a> {
    form: ToolIds,
    given: HashMap<&'a str, String>,
    taken: HashSet<String>,
}

/// Returns the conversation in the form of a dialect. Reasoning goes into `field`.
pub(super) fn fit_conversation<'a>(
    messages: &'a [ModelMessage],
    dialect: &Dialect,
    field: ReasoningField,
    names: &'a ToolNames,
) -> Vec<Message<'a>> {
    let mut system = Vec::new();
    let mut mapped = Vec::with_capacity(messages.len());
    let mut result_files = Vec::new();
    let mut ids = CallIds { form: dialect.tool_ids, given: HashMap::new(), taken: HashSet::new() };
    let form = AnswerForm { dialect, field, names };
    for (message, is_in_turn_with_calls) in messages.iter().zip(are_in_turns_with_calls(messages)) {
        if !matches!(message, ModelMessage::Tool { .. }) {
            push_result_files(&mut mapped, &mut result_files, dialect);
        }
        match message {
            ModelMessage::System(text) => system.push(text.as_str()),
            ModelMessage::User(content) => {
                mapped.push(Message::User { content: user_content(content, dialect) })
            }
            ModelMessage::Assistant { reasoning, text, calls, provider_metadata } => {
                let has_reasoning = is_in_turn_with_calls && !reasoning.is_empty();
                let reasoning = if has_reasoning { Some(reasoning.as_str()) } else { None };
                // Strict providers refuse a message without text and calls, and blank text.
                if !text.trim().is_empty() || !calls.is_empty() {
                    let attached = Kept::read(provider_metadata.as_ref(), dialect).map(|kept| kept.fields);
                    let attached = attached.unwrap_or_default();
                    mapped.push(assistant(reasoning, text, calls, attached, &mut ids, &form));
                }
            }
            ModelMessage::Tool { call_id, tool, content } => {
                let tool_call_id = ids.of(call_id);
                let (text, files) = result(&tool_call_id, tool, content, dialect);
                mapped.push(Message::Tool { tool_call_id, content: text });
                result_files.extend(files);
            }
        }
    }
    push_result_files(&mut mapped, &mut result_files, dialect);
    if dialect.roles == Roles::Alternate {
        mapped = alternate(mapped);
    }
    if !system.is_empty() {
        let content = match system.as_slice() {
            [text] => Cow::Borrowed(*text),
            texts => texts.join("\n\n").into(),
        };
        mapped.insert(0, Message::System { content });
    }
    mapped
}

/// Returns messages, without that of the system, so that user and assistant take turns. Messages of one side that follow each other are
/// joined, and where one is missing a short one is added.
fn alternate(messages: Vec<Message<'_>>) -> Vec<Message<'_>> {
    let user = |text: &'static str| Message::User { content: Content::Text(text.into()) };
    let mut ordered: Vec<Message<'_>> = Vec::with_capacity(messages.len());
    for message in messages {
        match (ordered.last_mut(), message) {
            (Some(Message::User { content: before }), Message::User { content }) => before.append(content),
            (
                Some(Message::Assistant {
                    content: text_before,
                    reasoning_content: old_before,
                    reasoning: new_before,
                    tool_calls: calls_before,
                    attached: attached_before,
                }),
                Message::Assistant { content, reasoning_content, reasoning, tool_calls, attached },
            ) if calls_before.is_empty() => {
                append(text_before, content);
                append(old_before, reasoning_content);
                append(new_before, reasoning);
                *calls_before = tool_calls;
                if !attached.is_empty() {
                    *attached_before = attached;
                }
            }
            (Some(Message::Tool { .. }), message @ Message::User { .. }) => {
                let content = Some(AFTER_RESULT.into());
                ordered.push(Message::Assistant {
                    content,
                    reasoning_content: None,
                    reasoning: None,
                    tool_calls: Vec::new(),
                    attached: Attached::default(),
                });
                ordered.push(message);
            }
            (None, message @ Message::Assistant { .. }) => ordered.extend([user(BEFORE_ASSISTANT), message]),
            (_, message) => ordered.push(message),
        }
    }
    if matches!(ordered.last(), Some(Message::Assistant { .. })) {
        ordered.push(user(AFTER_ASSISTANT));
    }
    ordered
}

/// Adds a text to another in a paragraph of its own.
fn append<'a>(before: &mut Option<Cow<'a, str>>, text: Option<Cow<'a, str>>) {
    match (&mut *before, text) {
        (Some(before), Some(text)) => *before = format!("{before}\n\n{text}").into(),
        (None, text) => *before = text,
        (Some(_), None) => {}
    }
}

/// Pushes the files of a step's results. Results take text only, and strict providers want every result of a step before
/// anything else, so the files follow the last one, as if the user sent them.
fn push_result_files<'a>(mapped: &mut Vec<Message<'a>>, files: &mut Vec<Part<'a>>, dialect: &Dialect) {
    if !files.is_empty() {
        let content = Content::of(std::mem::take(files), dialect);
        mapped.push(Message::User { content });
    }
}

/// Returns the text of a result, and the parts for its files. Each file follows a text that names its call.
fn result<'a>(
    call_id: &str,
    tool: &str,
    content: &'a [ModelContent],
    dialect: &Dialect,
) -> (Cow<'a, str>, Vec<Part<'a>>) {
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
                    DataUrl::parse(url).is_none() || is_common(media_type) || is_text_file(media_type, url);
                files.push(if is_shown {
                    file_part(media_type, url, filename.as_deref(), dialect)
                } else {
                    not_shown(media_type)
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
    attached: Attached,
    ids: &mut CallIds<'a>,
    &AnswerForm { dialect, field, names }: &AnswerForm<'a, '_>,
) -> Message<'a> {
    let mut given = HashSet::new();
    let call = |call: &'a ModelCall| {
        let kept = Kept::read(call.provider_metadata.as_ref(), dialect);
        let (id, attached) = kept.map(|kept| (kept.id, kept.fields)).unwrap_or_default();
        if let Some(id) = id.filter(|id| given.insert(id.clone())) {
            ids.given.insert(&call.id, id);
        }
        ToolCall {
            id: ids.of(&call.id),
            function: CalledFunction { name: names.on_the_wire(&call.tool), arguments: call.input.as_str() },
            attached,
        }
    };
    let mut tool_calls: Vec<ToolCall<'_>> = calls.iter().map(call).collect();
    if dialect.signs_calls
        && dialect.field(EXTRA_CONTENT).is_some()
        && let Some(first) = tool_calls.first_mut()
        && !first.attached.has(EXTRA_CONTENT)
    {
        let signature = json!({"google": {"thought_signature": NO_SIGNATURE}});
        first.attached.add(EXTRA_CONTENT, Some(signature.into()));
    }
    let reasoning = reasoning.map(Cow::Borrowed);
    let (reasoning_content, reasoning) = match field {
        ReasoningField::ReasoningContent => (reasoning, None),
        ReasoningField::Reasoning => (None, reasoning),
        ReasoningField::Nowhere => (None, None),
    };
    let content = if text.trim().is_empty() { None } else { Some(text.into()) };
    Message::Assistant { content, reasoning_content, reasoning, tool_calls, attached }
}

fn user_content<'a>(content: &'a [ModelContent], dialect: &Dialect) -> Content<'a> {
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
                    file_part(media_type, url, filename.as_deref(), dialect)
                }
            });
            Content::of(parts.collect(), dialect)
        }
    }
}

fn text_part<'a>(text: impl Into<Cow<'a, str>>) -> Part<'a> {
    Part::Text { text: text.into() }
}

/// Returns the text that stands for a file which the model cannot take.
fn not_shown<'a>(media_type: &str) -> Part<'a> {
    text_part(format!("[It cannot be shown: the model takes no {media_type}.]"))
}

fn file_part<'a>(media_type: &str, url: &'a str, filename: Option<&'a str>, dialect: &Dialect) -> Part<'a> {
    let media_type = media_type.to_ascii_lowercase();
    let name = filename.unwrap_or("a file");
    let data = DataUrl::parse(url);
    if is_text_file(&media_type, url)
        && let Some(text) = data.as_ref().and_then(DataUrl::decode)
    {
        return text_part(text);
    }
    if dialect.vision && media_type.starts_with("image/") {
        return Part::ImageUrl { image_url: ImageUrl { url } };
    }
    let Some(data) = data else { return text_part(format!("[{name} ({media_type}): {url}]")) };
    if !is_taken(&media_type, url) {
        return text_part(format!("[{name} ({media_type}) cannot be shown: no model takes it.]"));
    }
    if !dialect.vision {
        return text_part(format!("[{name} ({media_type}) cannot be shown: the model takes text only.]"));
    }
    if let (Some(format), true) = (audio_format(&media_type), data.is_base64) {
        return Part::InputAudio { input_audio: InputAudio { data: data.text, format } };
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

// === impl Content ===

impl<'a> Content<'a> {
    /// Returns these parts as content. A model that takes text only may not even take a list of texts.
    fn of(parts: Vec<Part<'a>>, dialect: &Dialect) -> Self {
        if dialect.vision {
            return Self::Parts(parts);
        }
        let texts = parts.iter().map(|part| match part {
            Part::Text { text } => Some(text.as_ref()),
            Part::ImageUrl { .. } | Part::InputAudio { .. } | Part::File { .. } => None,
        });
        match texts.collect::<Option<Vec<&str>>>() {
            Some(texts) => Self::Text(texts.join("\n").into()),
            None => Self::Parts(parts),
        }
    }

    fn append(&mut self, content: Self) {
        *self = match (std::mem::replace(self, Self::Parts(Vec::new())), content) {
            (Self::Text(before), Self::Text(text)) => Self::Text(format!("{before}\n\n{text}").into()),
            (before, content) => {
                let mut parts = before.into_parts();
                parts.extend(content.into_parts());
                Self::Parts(parts)
            }
        };
    }

    fn into_parts(self) -> Vec<Part<'a>> {
        match self {
            Self::Text(text) => vec![Part::Text { text }],
            Self::Parts(parts) => parts,
        }
    }
}

// === impl CallIds ===

impl<'a> CallIds<'a> {
    /// Returns the id that a call has on the wire.
    fn of(&mut self, id: &'a str) -> Cow<'a, str> {
        if let Some(given) = self.given.get(id) {
            return given.clone().into();
        }
        if self.form == ToolIds::Any {
            return id.into();
        }
        // An id of the right form stays, unless an earlier call has it.
        let mut given = id.to_owned();
        let mut attempt = 0_u32;
        while !has_fixed_form(&given) || self.taken.contains(&given) {
            given = fixed_id(id, attempt);
            attempt += 1;
        }
        self.taken.insert(given.clone());
        self.given.insert(id, given.clone());
        given.into()
    }
}

fn has_fixed_form(id: &str) -> bool {
    id.len() == ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns an id of the fixed form that depends only on the call's id and on how often another call had it already.
fn fixed_id(id: &str, attempt: u32) -> String {
    let hash = Sha256::new().chain_update(id).chain_update(attempt.to_le_bytes()).finalize();
    let bytes = hash.iter().take(ID_LENGTH);
    bytes.map(|byte| char::from(ID_CHARACTERS[usize::from(*byte) % ID_CHARACTERS.len()])).collect()
}

#[cfg(test)]
mod tests;
