//! The bodies that clients post.
//!
//! Reading is lenient where clients differ and strict where a mistake would be silent: unknown fields are ignored, a field
//! of the wrong type is an error that names it, says what it was and what it should be. `null` counts as absent, except where
//! it is a value (`output`). The types whose names end in `Request` are read by serde and shown in the description of the API;
//! the others have been checked. The limits are not known here, apart from [`MAX_ANSWERS`]. The time that reading takes
//! grows with the length of the body and not faster, and no error repeats more than a few words of it.

mod answers;
mod chat;
mod history;
mod json;
mod listing;
mod memories;
mod openai;
mod push;
mod read;
mod retry;
mod settings;
mod summaries;
mod tools;
mod votes;

pub use listing::ChatPatch;
pub use memories::{MemoryEditRequest, MemoryRequest};
pub use push::{PushDeviceRequest, PushEndpointRequest};
pub use retry::{RetryBody, RetryRequest};
pub use summaries::{CompactRequest, SummaryRequest};
pub use votes::{PostedVote, VoteRequest};

pub use self::{
    answers::{AlwaysRequest, AnswerRequest, ToolResultRequest},
    chat::ChatRequest,
    history::HistorySkipper,
    json::{BodyError, Measure, NODE_BYTES, Posted, measure, utf16_unit},
    settings::CallSettings,
};
use std::{collections::BTreeSet, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{
    ApprovalId, ChatId, ElicitationId, JsonText, MessageId, PlanMode, Profile, Role, ToolCallId, ToolState,
    UiPart, profile::DATA_TOOL_APPROVAL,
};

/// Answers in one `POST /chat/tool-result`, and approvals in `fermata.decides`. Far more than may wait in a chat; a longer list is a mistake, or an attack.
const MAX_ANSWERS: usize = 1000;

/// A body that cannot be taken, in words for the person who sent it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RequestError(pub String);

/// `POST /api/chat`. As a client sends it, [`ChatBody::parse`] reads it; serde's form is for messages between instances.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChatBody {
    /// The chat; the server makes an id where this is absent.
    pub id: Option<ChatId>,
    /// The posted history (`messages`, or the one `message`); empty only where an answer is to be made again.
    pub messages: Vec<PostedMessage>,
    /// The reason for the post.
    pub trigger: Trigger,
    /// Which message the trigger is about.
    pub message_id: Option<MessageId>,
    /// Browser tools, in the order posted.
    pub tools: Vec<PostedTool>,
    /// Instructions put before the history.
    pub system: Option<String>,
    /// Model settings by the AI SDK's names (`temperature`, `maxOutputTokens`, …).
    pub call_settings: Map<String, Value>,
    /// Which tool the first step must or may call.
    pub tool_choice: Option<ToolChoice>,
    /// Fermata's own object.
    pub fermata: ClientOptions,
    /// `true` if the post has a `trigger` and no `fermata` object, as the AI SDK's own transports send it. curl lines have no trigger.
    pub is_stock: bool,
    /// `true` if the beginning of the history was skipped. It is needed for a chat that does not exist.
    pub lacks_history: bool,
}

/// A message as posted: curl leaves out the id and may write `content` instead of `parts`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "chat::MessageRequest")]
pub struct PostedMessage {
    /// The client's id for it.
    pub id: Option<MessageId>,
    /// The role of the sender.
    pub role: Role,
    /// Free-form.
    pub metadata: Option<Value>,
    /// The content.
    pub parts: Vec<UiPart>,
}

/// An approval that a posted message shows as waiting for a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownApproval {
    /// Its id.
    pub id: ApprovalId,
    /// `true` if the client shows it until the call has its outcome, even once it is decided.
    pub stays: bool,
}

/// The reason for a post of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Trigger {
    /// `submit-message`: a new message, an edit, or an automatic continuation.
    #[default]
    Submit,
    /// `regenerate-message`: the answer is to be made again.
    Regenerate,
}

/// A tool that the browser runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PostedTool {
    /// Its name.
    pub name: String,
    /// The description for the model.
    pub description: Option<String>,
    /// JSON Schema of its input (an object schema).
    pub input_schema: Value,
}

/// Which tool the model must or may call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// It must call none.
    None,
    /// It must call one.
    Required,
    /// It must call this one.
    Tool(String),
}

/// The `fermata` object of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientOptions {
    /// The client's version.
    pub client: Option<Profile>,
    /// The time that a parked call holds the stream, as written (`30s`).
    pub hold: Option<String>,
    /// `true` if the post is only for a chat that the server has, because it does not carry the history that a new one would begin with.
    pub exists: bool,
    /// The assistant that answers from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assistant: Option<String>,
    /// The model that answers from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// `Some(false)` if nothing that is known of the user is used for the post, and nothing of it is remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
    /// The approvals that the sender was shown, if the message may decide about them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decides: Option<Vec<ApprovalId>>,
    /// The use of plans for the post; `None` if the assistant decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanMode>,
    /// The data chunks that the client asks for.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub show: BTreeSet<Show>,
}

/// A kind of data chunk that a client may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Show {
    /// `data-call`, whenever the state of a call changes.
    Call,
    /// `data-context`, after each step whose tokens the provider has counted.
    Context,
    /// `data-memory`, if memories were recalled, saved, changed or deleted. Every client is sent it.
    Memory,
    /// `data-plan`, whenever the plan of the run changes.
    Plan,
    /// `data-run`, whenever the stage of the run changes.
    Run,
}

impl Show {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Call, Self::Context, Self::Memory, Self::Plan, Self::Run];
}

/// `POST /chat/tool-result`.
#[derive(Clone, Debug)]
pub struct ToolResultBody {
    /// Which chat.
    pub chat_id: ChatId,
    /// The answers, or what is said of an input that is being edited.
    pub result: ToolResult,
}

/// A client answers calls that wait, or says that the input of one is being edited.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolResult {
    /// One or several answers, to be taken together or not at all.
    Answers(Vec<Answer>),
    /// A person has begun to edit the input of a call that waits for a decision, or has stopped to. That is no answer.
    Editing {
        /// This is the call that waits for the decision.
        of: AnswerTarget,
        /// It is `false` once the person has stopped.
        is_edited: bool,
    },
    /// A person thinks of another input for a call that waits for a decision. That is no answer.
    Preview {
        /// This is the call that waits for the decision.
        of: AnswerTarget,
        /// This is the other input.
        input: JsonText,
    },
}

/// The action of a browser or a person on one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The call or question that it answers.
    pub of: AnswerTarget,
    /// The content of the answer.
    pub kind: AnswerKind,
}

/// The target of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AnswerTarget {
    /// A call by its own id.
    Call(ToolCallId),
    /// A call by the id of its question.
    Approval(ApprovalId),
    /// A question that a running call puts to a person.
    Elicitation(ElicitationId),
}

/// The reaction of a person to a tool's question, in MCP's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ElicitAction {
    /// Answers it.
    Accept,
    /// Declines it.
    Decline,
    /// Goes away without deciding.
    Cancel,
}

/// The later calls that a person's decision covers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Always {
    /// The id of a scope that the call's tool proposes; `None` for the first one.
    pub scope: Option<String>,
    /// The chats whose calls the decision covers.
    pub granted_for: GrantedFor,
    /// The time that it covers them; `None` if it has no end.
    pub until: Option<Duration>,
}

/// The chats where a permission holds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum GrantedFor {
    /// The chat where it was given.
    #[default]
    Chat,
    /// All chats of the owner.
    Owner,
}

/// The content of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AnswerKind {
    /// The browser ran the call.
    Output {
        /// The result; any JSON.
        output: Value,
    },
    /// The browser ran it and it failed.
    Failure {
        /// The error, which the model receives as it is.
        error_text: String,
    },
    /// A person decided.
    Decision {
        /// `true` if it may run.
        approved: bool,
        /// The comment of the person.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reason: Option<String>,
        /// Which later calls the decision covers.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        always: Option<Always>,
        /// The edited input.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        input: Option<JsonText>,
    },
    /// A person answered the question of a running call.
    Elicited {
        /// The reaction, in MCP's words.
        action: ElicitAction,
        /// With what.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        content: Option<Value>,
    },
}

// === impl PostedMessage ===

impl PostedMessage {
    /// Returns the approvals that the message shows as waiting for a decision: as `approval-requested`, or in version 5 as
    /// `data-tool-approval`, which stays beside a call that is approved.
    pub fn shown_approvals(&self) -> Vec<ShownApproval> {
        let shown = self.parts.iter().filter_map(|part| match part {
            UiPart::Tool(call) if matches!(call.state, ToolState::ApprovalRequested { .. }) => {
                Some(ShownApproval { id: call.approval.as_ref()?.id.clone(), stays: false })
            }
            UiPart::Data(part) if part.kind == DATA_TOOL_APPROVAL => {
                let (id, call) = (part.data["approvalId"].as_str()?, part.data["toolCallId"].as_str()?);
                let mut calls = self.parts.iter().filter_map(UiPart::as_tool);
                let is_settled =
                    calls.any(|part| part.tool_call_id.as_str() == call && part.state.is_settled());
                if is_settled { None } else { Some(ShownApproval { id: ApprovalId::new(id), stays: true }) }
            }
            UiPart::Tool(_)
            | UiPart::Data(_)
            | UiPart::Text { .. }
            | UiPart::Reasoning { .. }
            | UiPart::File(_)
            | UiPart::StepStart
            | UiPart::Unknown(_) => None,
        });
        shown.collect()
    }
}
