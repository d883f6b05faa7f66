//! Folds chunks into the message that a client builds from them.
//!
//! The rules are those of the AI SDK's newest client, including its odd ones; they were read in its source and are proven
//! against it by `tests/real_clients.rs`. The fold knows nothing of runs and profiles.
//!
//! Invariants: a part keeps its index until `reset-step` takes it back, so open text and streamed input are remembered by
//! index; no input is parsed before somebody needs it.

mod input;
mod metadata;
mod outcome;
mod tool;

use serde_json::{Map, Value, json};

use self::{input::StreamedInput, metadata::merge_metadata, tool::put};
use crate::{
    ApprovalId, DataChunk, DataPart, FilePart, MessageId, Role, ToolState, UiChunk, UiMessage, UiPart,
};

/// A chunk that no client would accept where it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AssembleError(pub String);

/// The fold. Cheap per delta: text is appended, nothing is parsed until somebody looks.
#[derive(Clone, Debug)]
pub struct Assembler {
    message: UiMessage,
    /// Where the current step's parts begin.
    step: usize,
    words: Vec<OpenWords>,
    inputs: Vec<StreamedInput>,
}

/// A text or reasoning part that deltas may be added to.
#[derive(Clone, Debug)]
struct OpenWords {
    kind: Words,
    id: String,
    part: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Words {
    Text,
    Reasoning,
}

// === impl Assembler ===

impl Assembler {
    /// An empty assistant message.
    pub fn new(id: MessageId) -> Self {
        Self::from_message(UiMessage { id, role: Role::Assistant, metadata: None, parts: Vec::new() })
    }

    /// Goes on with a message that is there already. No text of it is open; input that was still streaming in its last step
    /// goes on where it stopped.
    pub fn from_message(message: UiMessage) -> Self {
        let step =
            message.parts.iter().rposition(|part| matches!(part, UiPart::StepStart)).map_or(0, |at| at + 1);
        let inputs = StreamedInput::open_in(&message.parts, step);
        Self { message, step, words: Vec::new(), inputs }
    }

    /// Takes the next chunk.
    ///
    /// # Errors
    /// Where a client would end the chat over it: a delta before its start, an output of an unknown call.
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
                self.step = self.message.parts.len();
            }
            UiChunk::FinishStep | UiChunk::Abort { .. } | UiChunk::Error { .. } => {}
            UiChunk::ResetStep => self.reset_step(),
            UiChunk::TextStart { id, provider_metadata } => {
                self.start_words(Words::Text, id, provider_metadata)
            }
            UiChunk::ReasoningStart { id, provider_metadata } => {
                self.start_words(Words::Reasoning, id, provider_metadata)
            }
            UiChunk::TextDelta { id, delta, provider_metadata } => {
                self.add_words(Words::Text, id, delta, provider_metadata)?
            }
            UiChunk::ReasoningDelta { id, delta, provider_metadata } => {
                self.add_words(Words::Reasoning, id, delta, provider_metadata)?;
            }
            UiChunk::TextEnd { id, citations, provider_metadata } => {
                self.end_words(Words::Text, id, citations.as_ref(), provider_metadata)?;
            }
            UiChunk::ReasoningEnd { id, provider_metadata } => {
                self.end_words(Words::Reasoning, id, None, provider_metadata)?
            }
            UiChunk::File { url, media_type, provider_metadata } => {
                self.push_file(url, media_type, provider_metadata.as_ref())
            }
            UiChunk::ReasoningFile { .. }
            | UiChunk::Custom { .. }
            | UiChunk::SourceUrl { .. }
            | UiChunk::SourceDocument { .. }
            | UiChunk::SteeringMessage { .. } => self.push_as_it_is(chunk),
            UiChunk::Data(data) => self.take_data(data),
            UiChunk::ToolInputStart { .. } => self.start_input(chunk),
            UiChunk::ToolInputDelta { tool_call_id, input_text_delta } => {
                self.add_input(tool_call_id, input_text_delta)?
            }
            UiChunk::ToolInputAvailable { .. } => self.take_input(chunk),
            UiChunk::ToolInputError { .. } => self.refuse_input(chunk),
            UiChunk::ToolApprovalRequest { .. } => self.ask(chunk)?,
            UiChunk::ToolApprovalResponse { .. } => self.respond(chunk)?,
            UiChunk::ToolOutputAvailable { .. } => self.succeed(chunk)?,
            UiChunk::ToolOutputError { .. } => self.fail(chunk)?,
            UiChunk::ToolOutputDenied { tool_call_id, error_text, dynamic: _ } => {
                self.deny(tool_call_id, error_text)?
            }
        }
        Ok(())
    }

    /// Records the decision about a call where its question is shown, for readers that no [`UiChunk::ToolApprovalResponse`] tells of it:
    /// those before version 7, and logs that an earlier build began.
    pub fn decide(&mut self, approval: &ApprovalId, approved: bool, reason: Option<&str>) {
        let Some(part) = self.tool_of_approval(approval).and_then(|at| self.tool_mut(at)) else { return };
        if let Some(asked) = part.approval.as_mut() {
            asked.approved = Some(approved);
            asked.reason = reason.map(str::to_owned);
        }
        if let ToolState::ApprovalRequested { input, raw_input } = &part.state {
            part.state = ToolState::ApprovalResponded { input: input.clone(), raw_input: raw_input.clone() };
        }
    }

    /// The message as it stands: what the newest client shows after the chunks so far, and what the record alone knows (see
    /// [`UiMessage`]'s module); [`crate::Profile::message`] makes of it what a client shows.
    pub fn snapshot(&self) -> UiMessage {
        let mut message = self.message.clone();
        for input in self.inputs.iter().filter(|input| input.unread) {
            if let Some(UiPart::Tool(part)) = message.parts.get_mut(input.part) {
                part.state = input.state();
            }
        }
        message
    }

    fn reset_step(&mut self) {
        self.message.parts.truncate(self.step);
        self.words.clear();
        self.inputs.clear();
    }

    fn start_words(&mut self, kind: Words, id: &str, provider_metadata: &Option<Value>) {
        self.words.retain(|open| open.kind != kind || open.id != id);
        self.words.push(OpenWords { kind, id: id.to_owned(), part: self.message.parts.len() });
        let (text, streaming, provider_metadata) = (String::new(), Some(true), provider_metadata.clone());
        self.message.parts.push(match kind {
            Words::Text => UiPart::Text { text, streaming, provider_metadata, extra: Map::new() },
            Words::Reasoning => {
                let extra = Map::from_iter([("id".to_owned(), json!(id))]);
                UiPart::Reasoning { text, streaming, provider_metadata, extra }
            }
        });
    }

    fn add_words(
        &mut self,
        kind: Words,
        id: &str,
        delta: &str,
        metadata: &Option<Value>,
    ) -> Result<(), AssembleError> {
        let at = self.open_words(kind, id)?;
        if let UiPart::Text { text, provider_metadata, .. }
        | UiPart::Reasoning { text, provider_metadata, .. } = &mut self.message.parts[self.words[at].part]
        {
            text.push_str(delta);
            if metadata.is_some() {
                provider_metadata.clone_from(metadata);
            }
        }
        Ok(())
    }

    fn end_words(
        &mut self,
        kind: Words,
        id: &str,
        citations: Option<&Value>,
        metadata: &Option<Value>,
    ) -> Result<(), AssembleError> {
        let at = self.open_words(kind, id)?;
        if let UiPart::Text { streaming, provider_metadata, extra, .. }
        | UiPart::Reasoning { streaming, provider_metadata, extra, .. } =
            &mut self.message.parts[self.words[at].part]
        {
            *streaming = Some(false);
            put(extra, "citations", citations);
            if metadata.is_some() {
                provider_metadata.clone_from(metadata);
            }
        }
        self.words.remove(at);
        Ok(())
    }

    fn open_words(&self, kind: Words, id: &str) -> Result<usize, AssembleError> {
        let named = |open: &OpenWords| open.kind == kind && open.id == id;
        self.words.iter().rposition(named).ok_or_else(|| {
            let kind = if kind == Words::Text { "text" } else { "reasoning" };
            AssembleError(format!("{kind} {id} is not open"))
        })
    }

    fn push_file(&mut self, url: &str, media_type: &str, provider_metadata: Option<&Value>) {
        let mut extra = Map::new();
        put(&mut extra, "providerMetadata", provider_metadata);
        let (media_type, url) = (media_type.to_owned(), url.to_owned());
        self.message.parts.push(UiPart::File(FilePart { media_type, url, filename: None, extra }));
    }

    /// Parts that have the very form of their chunk.
    fn push_as_it_is(&mut self, chunk: &UiChunk) {
        if let Value::Object(part) = json!(chunk) {
            self.message.parts.push(UiPart::Unknown(part));
        }
    }

    fn take_data(&mut self, chunk: &DataChunk) {
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
                put(&mut extra, "transient", chunk.transient.map(Value::Bool).as_ref());
                let (kind, id, data) = (chunk.kind.clone(), chunk.id.clone(), chunk.data.clone());
                self.message.parts.push(UiPart::Data(DataPart { kind, id, data, extra }));
            }
        }
    }
}
