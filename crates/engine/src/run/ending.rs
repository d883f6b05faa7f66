//! The ways a run ends, and the last chunks of its readers.

use fermata_protocol::{FinishReason, UiChunk};
use fermata_tools::ErrorType;

use crate::model::ModelError;

/// The way a run ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ending {
    /// The model completed its answer, or the answer was cut off; the reason says which.
    Finished(FinishReason),
    /// Somebody stopped the run.
    Stopped,
    /// The user continued the conversation without the outcome of the run.
    Superseded,
    /// Nobody answered in time.
    Expired,
    /// The run reached its limit of steps. In the last one the model could only report the finished and the open work.
    StepLimit,
    /// The model did not call the tool that the user has chosen.
    ToolNotCalled {
        /// The name of the tool.
        tool: String,
    },
    /// The model's output in one step exceeded its limit.
    OutputLimit {
        /// The limit that was exceeded.
        bytes: usize,
    },
    /// The chat has become larger than it may be.
    ChatLimit {
        /// The size of the chat.
        bytes: usize,
        /// The size that a chat may have.
        limit: usize,
    },
    /// The model failed.
    Failed(ModelError),
    /// Each process that worked on the run ended, or failed, before it made progress.
    CrashLoop,
    /// A tool failed in a way that the settings do not let a run survive.
    ToolFailed {
        /// The name of the tool.
        tool: String,
        /// The kind of the failure.
        error_type: ErrorType,
    },
}

// === impl Ending ===

impl Ending {
    /// All names of endings.
    pub const NAMES: [&str; 7] =
        ["finished", "stopped", "superseded", "expired", "step_limit", "failed", "crash_loop"];

    /// Returns the name of the ending for the operator and the database.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Finished(_) => "finished",
            Self::Stopped => "stopped",
            Self::Superseded => "superseded",
            Self::Expired => "expired",
            Self::StepLimit => "step_limit",
            Self::OutputLimit { .. }
            | Self::ChatLimit { .. }
            | Self::Failed(_)
            | Self::ToolFailed { .. }
            | Self::ToolNotCalled { .. } => "failed",
            Self::CrashLoop => "crash_loop",
        }
    }

    /// Returns the text for clients if the run failed.
    pub fn public(&self) -> Option<String> {
        match self {
            Self::Failed(error) => Some(error.public().into()),
            Self::CrashLoop => Some(
                "The server failed each time it worked on this answer, so it has given up. Send a message to go on.".into(),
            ),
            Self::OutputLimit { bytes } => Some(format!(
                "The model said more than {bytes} bytes in one step, and this server ends a run then (max_step_output)."
            )),
            Self::ChatLimit { bytes, limit } => Some(format!(
                "This chat has {bytes} bytes by now, and may have {limit} (max_chat), so the run has ended here. Go on in a new chat, or \
                 edit an earlier message, which drops all that follows."
            )),
            Self::ToolFailed { tool, error_type } => Some(format!(
                "The tool {tool} failed ({error_type}), and this server ends a run then. Nothing after it was done."
            )),
            Self::ToolNotCalled { tool } => Some(format!(
                "The model was asked twice to call the tool {tool}, which was chosen for this message, and did not call it."
            )),
            Self::Finished(_) | Self::Stopped | Self::Superseded | Self::Expired | Self::StepLimit => None,
        }
    }
}

/// Returns the last chunks for readers that are detached while calls wait. They are not in the log, because the message is not finished.
pub(crate) fn detach_chunks() -> Vec<UiChunk> {
    vec![
        UiChunk::FinishStep,
        UiChunk::Finish { finish_reason: Some(FinishReason::ToolCalls), message_metadata: None },
    ]
}

/// Returns the last chunk for readers of a server that ends before their run does. Clients that know it show no error, and all come back.
pub(crate) fn interrupted() -> Vec<UiChunk> {
    vec![UiChunk::Finish { finish_reason: Some(FinishReason::Interrupted), message_metadata: None }]
}
