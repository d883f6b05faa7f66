//! Folds chunks into the message that a client builds from them.
//!
//! The rules are those of the AI SDK's newest client, including its odd ones. They come from its source, and
//! `tests/real_clients` compares the results with it. The fold does not know runs or profiles.
//!
//! Invariants: a part keeps its index until `reset-step` removes it, so open texts and streamed inputs are stored by index ·
//! streamed input is not parsed before its value is needed, and its text is kept once · a call takes no more deltas once anything
//! else has come for it.

mod input;
mod metadata;
mod outcome;
mod tool;

use serde_json::{Map, Value, json};

use self::{input::StreamedInput, metadata::merge_metadata, tool::set_field};
use crate::{
    ApprovalId, DataChunk, DataPart, FilePart, MessageId, Role, ToolState, UiChunk, UiMessage, UiPart,
};

/// The error for a chunk that clients would not accept at this point of the stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AssembleError(pub String);

/// The state of the fold. A delta is cheap, because it is only appended to its text.
#[derive(Clone, Debug)]
pub struct Assembler {
    message: UiMessage,
    /// The index of the first part of the current step, after its `step-start`.
    step_start: usize,
    open_texts: Vec<OpenText>,
    inputs: Vec<StreamedInput>,
}

/// A text or reasoning part that deltas can still be appended to.
#[derive(Clone, Debug)]
struct OpenText {
    kind: TextKind,
    id: String,
    /// The index of the part.
    part: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextKind {
    Text,
    Reasoning,
}

// === impl Assembler ===

impl Assembler {
    /// Starts with an empty assistant message.
    pub fn new(id: MessageId) -> Self {
        Self::from_message(UiMessage {
            id,
            role: Role::Assistant,
            metadata: None,
            created_at: None,
            parts: Vec::new(),
        })
    }

    /// Continues an existing message. None of its texts is open. Input that is still streaming in its last step continues.
    pub fn from_message(message: UiMessage) -> Self {
        let last_step = message.parts.iter().rposition(|part| matches!(part, UiPart::StepStart));
        let step_start = last_step.map_or(0, |index| index + 1);
        let inputs = StreamedInput::open_in(&message.parts, step_start);
        Self { message, step_start, open_texts: Vec::new(), inputs }
    }

    /// Applies the next chunk.
    ///
    /// # Errors
    /// Returns an error and changes nothing if a client would end the chat because of the chunk, for example if a delta comes
    /// before its start or an output belongs to an unknown call. Clients append a delta to an input that is complete; here it
    /// is an error, because no run writes one, and the text need not be kept beside the input.
    pub fn apply(&mut self, chunk: &UiChunk) -> Result<(), AssembleError> {
        match chunk {
            UiChunk::Start { message_id, message_metadata } => {
                if let Some(id) = message_id {
                    self.message.id = id.clone();
                }
                merge_metadata(&mut self.message.metadata, message_metadata.as_ref());
            }
            UiChunk::Finish { message_metadata, .. } => {
                merge_metadata(&mut self.message.metadata, message_metadata.as_ref());
            }
            UiChunk::MessageMetadata { message_metadata } => {
                merge_metadata(&mut self.message.metadata, Some(message_metadata))
            }
            UiChunk::StartStep => {
                self.message.parts.push(UiPart::StepStart);
                self.step_start = self.message.parts.len();
            }
            UiChunk::FinishStep | UiChunk::Abort { .. } | UiChunk::Error { .. } => {}
            UiChunk::ResetStep => {
                self.message.parts.truncate(self.step_start);
                self.open_texts.clear();
                self.inputs.clear();
            }
            UiChunk::TextStart { id, provider_metadata } => {
                self.start_text(TextKind::Text, id, provider_metadata)
            }
            UiChunk::ReasoningStart { id, provider_metadata } => {
                self.start_text(TextKind::Reasoning, id, provider_metadata)
            }
            UiChunk::TextDelta { id, delta, provider_metadata } => {
                self.append_text(TextKind::Text, id, delta, provider_metadata)?
            }
            UiChunk::ReasoningDelta { id, delta, provider_metadata } => {
                self.append_text(TextKind::Reasoning, id, delta, provider_metadata)?;
            }
            UiChunk::TextEnd { id, citations, provider_metadata } => {
                self.end_text(TextKind::Text, id, citations.as_ref(), provider_metadata)?;
            }
            UiChunk::ReasoningEnd { id, provider_metadata } => {
                self.end_text(TextKind::Reasoning, id, None, provider_metadata)?
            }
            UiChunk::File { url, media_type, provider_metadata } => {
                let mut extra = Map::new();
                set_field(&mut extra, "providerMetadata", provider_metadata.as_ref());
                let (media_type, url) = (media_type.clone(), url.clone());
                self.message.parts.push(UiPart::File(FilePart { media_type, url, filename: None, extra }));
            }
            UiChunk::ReasoningFile { .. }
            | UiChunk::Custom { .. }
            | UiChunk::SourceUrl { .. }
            | UiChunk::SourceDocument { .. }
            | UiChunk::SteeringMessage { .. } => {
                // The part has the form of its chunk.
                if let Value::Object(part) = json!(chunk) {
                    self.message.parts.push(UiPart::Unknown(part));
                }
            }
            UiChunk::Data(data) => self.apply_data(data),
            UiChunk::ToolInputStart { .. } => self.start_input(chunk),
            UiChunk::ToolInputDelta { tool_call_id, input_text_delta } => {
                self.append_input(tool_call_id, input_text_delta)?
            }
            UiChunk::ToolInputAvailable { .. } => self.complete_input(chunk),
            UiChunk::ToolInputError { .. } => self.refuse_input(chunk),
            UiChunk::ToolApprovalRequest { .. } => self.request_approval(chunk)?,
            UiChunk::ToolApprovalResponse { .. } => self.apply_decision(chunk)?,
            UiChunk::ToolOutputAvailable { .. } => self.succeed(chunk)?,
            UiChunk::ToolOutputError { .. } => self.fail(chunk)?,
            UiChunk::ToolOutputDenied { tool_call_id, error_text, dynamic: _ } => {
                self.deny(tool_call_id, error_text)?
            }
        }
        Ok(())
    }

    /// Stores the decision about an approval request in the call's part. If the message has no such request, nothing changes.
    ///
    /// This is for decisions that are not in the log as [`UiChunk::ToolApprovalResponse`]: clients before version 7 are not sent
    /// that chunk.
    pub fn decide(&mut self, approval: &ApprovalId, approved: bool, reason: Option<&str>) {
        let Some(part) = self.tool_of_approval(approval).and_then(|index| self.tool_mut(index)) else {
            return;
        };
        if let Some(request) = part.approval.as_mut() {
            request.approved = Some(approved);
            request.reason = reason.map(str::to_owned);
        }
        if let ToolState::ApprovalRequested { input, raw_input } = &part.state {
            part.state = ToolState::ApprovalResponded { input: input.clone(), raw_input: raw_input.clone() };
        }
    }

    /// Gives back memory that only more chunks would need.
    pub fn shrink_to_fit(&mut self) {
        self.message.parts.shrink_to_fit();
        self.open_texts.shrink_to_fit();
        self.inputs.shrink_to_fit();
    }

    /// Returns the message as it is to be stored after the chunks so far.
    ///
    /// It is the newest client's view, together with the facts that only a stored message has: the text of a denial, and
    /// that an input was refused. [`crate::Profile::message`] turns it into the view of a client.
    pub fn snapshot(&self) -> UiMessage {
        let mut message = self.message.clone();
        for input in &self.inputs {
            if let Some(text) = &input.text
                && let Some(UiPart::Tool(part)) = message.parts.get_mut(input.part)
            {
                part.state = input.state_with(text.clone());
            }
        }
        message
    }

    fn start_text(&mut self, kind: TextKind, id: &str, provider_metadata: &Option<Value>) {
        self.open_texts.retain(|open| open.kind != kind || open.id != id);
        self.open_texts.push(OpenText { kind, id: id.to_owned(), part: self.message.parts.len() });
        let (text, streaming, provider_metadata) = (String::new(), Some(true), provider_metadata.clone());
        self.message.parts.push(match kind {
            TextKind::Text => UiPart::Text { text, streaming, provider_metadata, extra: Map::new() },
            TextKind::Reasoning => {
                let extra = Map::from_iter([("id".to_owned(), json!(id))]);
                UiPart::Reasoning { text, streaming, provider_metadata, extra }
            }
        });
    }

    fn append_text(
        &mut self,
        kind: TextKind,
        id: &str,
        delta: &str,
        metadata: &Option<Value>,
    ) -> Result<(), AssembleError> {
        let part = self.open_texts[self.find_open_text(kind, id)?].part;
        if let UiPart::Text { text, provider_metadata, .. }
        | UiPart::Reasoning { text, provider_metadata, .. } = &mut self.message.parts[part]
        {
            text.push_str(delta);
            if metadata.is_some() {
                provider_metadata.clone_from(metadata);
            }
        }
        Ok(())
    }

    fn end_text(
        &mut self,
        kind: TextKind,
        id: &str,
        citations: Option<&Value>,
        metadata: &Option<Value>,
    ) -> Result<(), AssembleError> {
        let index = self.find_open_text(kind, id)?;
        let part = self.open_texts.remove(index).part;
        if let UiPart::Text { streaming, provider_metadata, extra, .. }
        | UiPart::Reasoning { streaming, provider_metadata, extra, .. } = &mut self.message.parts[part]
        {
            *streaming = Some(false);
            set_field(extra, "citations", citations);
            if metadata.is_some() {
                provider_metadata.clone_from(metadata);
            }
        }
        Ok(())
    }

    fn find_open_text(&self, kind: TextKind, id: &str) -> Result<usize, AssembleError> {
        let index = self.open_texts.iter().rposition(|open| open.kind == kind && open.id == id);
        index.ok_or_else(|| {
            let kind = match kind {
                TextKind::Text => "text",
                TextKind::Reasoning => "reasoning",
            };
            AssembleError(format!("{kind} {id} is not open"))
        })
    }

    /// Replaces the data of the part with the chunk's type and id, or adds a part.
    fn apply_data(&mut self, chunk: &DataChunk) {
        if chunk.transient == Some(true) {
            return;
        }
        let earlier = self.message.parts.iter_mut().find_map(|part| match part {
            UiPart::Data(part) if chunk.id.is_some() && part.kind == chunk.kind && part.id == chunk.id => {
                Some(part)
            }
            UiPart::Data(_)
            | UiPart::Text { .. }
            | UiPart::Reasoning { .. }
            | UiPart::File(_)
            | UiPart::StepStart
            | UiPart::Tool(_)
            | UiPart::Unknown(_) => None,
        });
        match earlier {
            Some(part) => part.data = chunk.data.clone(),
            None => {
                let mut extra = Map::new();
                set_field(&mut extra, "transient", chunk.transient.map(Value::Bool).as_ref());
                let (kind, id, data) = (chunk.kind.clone(), chunk.id.clone(), chunk.data.clone());
                self.message.parts.push(UiPart::Data(DataPart { kind, id, data, extra }));
            }
        }
    }
}
