//! The parts of a chat that the provider of a model has refused.
//!
//! A provider refuses a whole request for one picture that is too large, a link that has expired, or a text that its filter rejects. Every
//! later request of the chat has the same part, so one part would end the chat. Therefore the step is requested again without the parts that
//! may be the reason, beginning with the smallest loss, until the provider takes a request. The metadata of the answer names the parts
//! that were left out. Later requests to the same model have a line of text in their place.
//!
//! This module decides without I/O. It does not read the words of a refusal, because each provider has its own.

use std::collections::{BTreeSet, VecDeque};

use fermata_protocol::{FilePart, MessageId, Role, ToolCallId, ToolPart, ToolState, UiMessage, UiPart};
use fermata_tools::sha256;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    model::{ModelContent, content::tool_content},
    ports::store::STORED_FILE,
};

/// The field of an answer's metadata that lists the refused parts.
pub(crate) const REFUSED: &str = "refused";
/// The text in place of a message of the user.
pub(crate) const REFUSED_MESSAGE: &str =
    "[This message of the user is not shown: the provider of the model refused it.]";

/// The number of parts of a kind that are each left out alone, before all of them are.
const SINGLES: usize = 6;
/// The number of requests that may follow a refused one.
const MAX_REQUESTS: usize = 12;

/// A part of a chat that a provider can refuse.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(crate) enum Refusable {
    /// A file, by the SHA-256 of its URL.
    File { sha256: String },
    /// The result of a call.
    ToolResult { tool_call_id: ToolCallId },
    /// A message of the user.
    Message { message_id: MessageId },
}

/// Parts of a chat that are left out of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RefusedParts(BTreeSet<Refusable>);

/// A refused part as the metadata of an answer has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RefusedPart {
    #[serde(flatten)]
    part: Refusable,
    /// The model whose provider has refused it.
    model: String,
    /// The name and the media type of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filename: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    /// The message that has the part.
    #[serde(rename = "in", default, skip_serializing_if = "Option::is_none")]
    within: Option<MessageId>,
    /// The provider's reason, for readers who may see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A search for the parts that a provider refuses.
#[derive(Debug)]
pub(crate) struct Search {
    /// The words of the first refusal.
    pub reason: String,
    /// The parts that are left out of the request on its way.
    pub without: RefusedParts,
    /// The parts to leave out of the following requests.
    next: VecDeque<RefusedParts>,
}

// === impl RefusedParts ===

impl RefusedParts {
    /// Returns the parts that the provider of this model has refused, as the messages say.
    pub fn of(messages: &[&UiMessage], model: &str) -> Self {
        let refused = messages.iter().flat_map(|message| refused_in(message));
        Self(refused.filter(|refused| refused.model == model).map(|refused| refused.part).collect())
    }

    /// Adds parts.
    pub fn extend(&mut self, parts: &Self) {
        self.0.extend(parts.0.iter().cloned());
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a message of the user is among them.
    pub fn has_message(&self, id: &MessageId) -> bool {
        !self.is_empty() && self.0.contains(&Refusable::Message { message_id: id.clone() })
    }

    /// Returns whether the result of a call is among them.
    pub fn has_result(&self, call: &ToolCallId) -> bool {
        !self.is_empty() && self.0.contains(&Refusable::ToolResult { tool_call_id: call.clone() })
    }

    /// Puts a line of text in place of each file that is among them.
    pub fn replace_files(&self, content: &mut [ModelContent]) {
        if !self.0.iter().any(|part| matches!(part, Refusable::File { .. })) {
            return;
        }
        for piece in content {
            let ModelContent::File { media_type, url, filename } = piece else { continue };
            if self.0.contains(&file(url)) {
                let name = filename.as_deref().unwrap_or("A file");
                *piece = ModelContent::Text(format!(
                    "[{name} ({media_type}) is not shown: the provider of the model refused it.]"
                ));
            }
        }
    }

    /// Returns them as the metadata of an answer has them, in the order of the chat.
    pub fn described(&self, messages: &[&UiMessage], model: &str, reason: &str) -> Vec<RefusedPart> {
        let mut described: Vec<RefusedPart> = Vec::new();
        for place in messages.iter().flat_map(|message| places_in(message, model)) {
            // The same file may be in several messages.
            let is_known = described.iter().any(|known| known.part == place.part);
            if self.0.contains(&place.part) && !is_known {
                described.push(RefusedPart { reason: Some(reason.to_owned()), ..place });
            }
        }
        described
    }
}

/// Returns the text in place of the result of a call.
pub(crate) fn refused_result(part: &ToolPart) -> String {
    let outcome = match part.state {
        ToolState::OutputAvailable { .. } => "succeeded",
        _ => "did not succeed",
    };
    format!("[This call {outcome}. Its result is not shown: the provider of the model refused it.]")
}

/// Returns the refusals that the metadata of a message lists.
pub(crate) fn refused_in(message: &UiMessage) -> Vec<RefusedPart> {
    let listed = match (message.role, &message.metadata) {
        (Role::Assistant, Some(metadata)) => metadata.get(REFUSED).and_then(Value::as_array),
        _ => None,
    };
    listed.into_iter().flatten().filter_map(|refused| RefusedPart::deserialize(refused).ok()).collect()
}

fn file(url: &str) -> Refusable {
    let sha256 = match url.strip_prefix(STORED_FILE) {
        Some(hash) => hash.to_owned(),
        None => sha256(url.as_bytes()),
    };
    Refusable::File { sha256 }
}

// === impl Search ===

impl Search {
    /// Begins to look for the parts of these messages that a provider refuses.
    pub fn new(reason: String, messages: &[&UiMessage], known: &RefusedParts) -> Self {
        Self { reason, without: RefusedParts::default(), next: suspects(messages, known) }
    }

    /// Returns the search with other parts left out, or the first reason if nothing is left to try.
    pub fn next(mut self) -> Result<Self, String> {
        match self.next.pop_front() {
            Some(without) => Ok(Self { without, ..self }),
            None => Err(self.reason),
        }
    }
}

/// Returns the sets of parts to leave out of one request after the other: first those that no request has had before, each alone.
fn suspects(messages: &[&UiMessage], known: &RefusedParts) -> VecDeque<RefusedParts> {
    let answered = messages.iter().rposition(|message| is_answer(message)).map_or(0, |at| at + 1);
    let (old, new) = messages.split_at(answered);
    let new_files: Vec<Refusable> = new.iter().flat_map(|message| files_in(message)).collect();
    let (mut new_results, mut result_files) = (Vec::new(), Vec::new());
    // The last step has no calls if an answer followed their results.
    if let Some(last) = old.last() {
        let mut steps = last.parts.split(|part| *part == UiPart::StepStart);
        let calls = steps.rfind(|step| !step.is_empty()).unwrap_or_default();
        for call in calls.iter().filter_map(UiPart::as_tool) {
            new_results.push(Refusable::ToolResult { tool_call_id: call.tool_call_id.clone() });
            result_files.extend(files_of_result(call).map(|(part, ..)| part));
        }
    }
    let said: Vec<&&UiMessage> =
        messages.iter().filter(|message| message.role == Role::User || is_answer(message)).collect();
    let unanswered = said.windows(2).filter(|pair| pair.iter().all(|message| message.role == Role::User));
    let unanswered: Vec<Refusable> =
        unanswered.map(|pair| Refusable::Message { message_id: pair[0].id.clone() }).collect();
    let all_files: Vec<Refusable> = messages.iter().flat_map(|message| files_in(message)).collect();
    let everything = all_files.iter().chain(&new_results).chain(&unanswered).cloned().collect();
    let mut sets = Vec::new();
    for parts in [new_files, result_files, new_results] {
        sets.extend(parts.iter().rev().take(SINGLES).map(|part| vec![part.clone()]));
        sets.push(parts);
    }
    sets.extend([unanswered, all_files, everything]);
    let mut suspects = VecDeque::new();
    for parts in sets {
        let left_out = RefusedParts(parts.into_iter().filter(|part| !known.0.contains(part)).collect());
        if !left_out.is_empty() && !suspects.contains(&left_out) {
            suspects.push_back(left_out);
        }
    }
    suspects.truncate(MAX_REQUESTS);
    suspects
}

/// Returns whether a message shows that the model has answered.
fn is_answer(message: &UiMessage) -> bool {
    let is_of_model = |part: &UiPart| match part {
        UiPart::Text { text, .. } => !text.is_empty(),
        part => part.as_tool().is_some(),
    };
    message.role == Role::Assistant && message.parts.iter().any(is_of_model)
}

fn files_in(message: &UiMessage) -> Vec<Refusable> {
    let parts = places_in(message, "").into_iter().map(|place| place.part);
    parts.filter(|part| matches!(part, Refusable::File { .. })).collect()
}

/// Returns the files in the result of a call, with their media types and names.
fn files_of_result(call: &ToolPart) -> impl Iterator<Item = (Refusable, String, Option<String>)> {
    let content = match &call.state {
        ToolState::OutputAvailable { output, .. } => tool_content(output, usize::MAX),
        _ => Vec::new(),
    };
    content.into_iter().filter_map(|piece| match piece {
        ModelContent::File { media_type, url, filename } => Some((file(&url), media_type, filename)),
        ModelContent::Text(_) => None,
    })
}

/// Returns all parts of a message that a provider can refuse.
fn places_in(message: &UiMessage, model: &str) -> Vec<RefusedPart> {
    let refused = |part: Refusable| RefusedPart {
        part,
        model: model.to_owned(),
        filename: None,
        media_type: None,
        within: Some(message.id.clone()),
        reason: None,
    };
    let of_file = |part: Refusable, media_type: String, filename| RefusedPart {
        media_type: Some(media_type),
        filename,
        ..refused(part)
    };
    let mut places = Vec::new();
    if message.role == Role::User {
        places.push(refused(Refusable::Message { message_id: message.id.clone() }));
    }
    for part in &message.parts {
        match part {
            UiPart::File(FilePart { url, media_type, filename, .. }) if message.role == Role::User => {
                places.push(of_file(file(url), media_type.clone(), filename.clone()));
            }
            UiPart::Tool(call) => {
                places.push(refused(Refusable::ToolResult { tool_call_id: call.tool_call_id.clone() }));
                places.extend(
                    files_of_result(call).map(|(part, media_type, name)| of_file(part, media_type, name)),
                );
            }
            _ => {}
        }
    }
    places
}
