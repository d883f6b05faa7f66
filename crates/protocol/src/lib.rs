//! The wire format of the AI SDK UI Message Stream, version 1.
//!
//! This crate reads and writes every chunk, message part and request body that AI SDK 5, 6 and 7 define. It does not know
//! what a run, a model or a socket is, it has no clock, and it does no I/O.

mod assemble;
mod chunk;
mod frame;
mod ids;
mod json_text;
mod memory;
mod message;
mod partial_json;
mod plan;
mod profile;
mod replay;
mod request;
mod stage;
mod summary;

pub use assemble::{AssembleError, Assembler};
pub use chunk::{DataChunk, FinishReason, UiChunk};
pub use frame::{DONE, EventId, Frames, KEEP_ALIVE, SplitChunk, encode, encode_ephemeral};
pub use ids::{ApprovalId, ChatId, ElicitationId, InvalidId, MessageId, RunId, ToolCallId};
pub use json_text::JsonText;
pub use memory::MemoryKind;
pub use message::{Approval, DataPart, FilePart, Role, ToolName, ToolPart, ToolState, UiMessage, UiPart};
pub use plan::{Plan, PlanMode, PlanState, PlanStep, PlanStepState};
pub use profile::{PROVIDER_METADATA, Profile, denial_text};
pub use replay::{outcome, replay};
pub use request::{
    Always, AlwaysRequest, Answer, AnswerKind, AnswerRequest, AnswerTarget, BodyError, CallSettings,
    ChatBody, ChatPatch, ChatRequest, ClientOptions, CompactRequest, ElicitAction, GrantedFor,
    HistorySkipper, Measure, MemoryEditRequest, MemoryRequest, NODE_BYTES, Posted, PostedMessage, PostedTool,
    PostedVote, PushDeviceRequest, PushEndpointRequest, RequestError, RetryBody, RetryRequest, Show,
    ShownApproval, SummaryRequest, ToolChoice, ToolResult, ToolResultBody, ToolResultRequest, Trigger,
    VoteRequest, measure, utf16_unit,
};
pub use stage::{ContextUsage, RunStatus, RunWaitsFor, Stage};
pub use summary::{Summary, SummaryReason};
