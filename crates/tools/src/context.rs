//! What a running call knows of its surroundings, and what it may do to them before it has a result.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use fermata_protocol::{ChatId, ToolCallId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Owner;

/// What a running call knows. Cheap to clone.
#[derive(Clone)]
pub struct CallContext {
    /// Whose chat it is.
    pub owner: Owner,
    /// Which chat.
    pub chat: ChatId,
    /// Which call.
    pub call: ToolCallId,
    /// Ends when the run is stopped or the call's time is over. Work that goes on elsewhere should watch it.
    pub cancelled: CancellationToken,
    host: Arc<dyn ToolHost>,
    /// For how many reasons the call's time stands still.
    pauses: watch::Sender<usize>,
    waits_for: WaitsFor,
}

/// What a call waits for, where that is not its own work. Locked for an instant, never across an await.
type WaitsFor = Arc<Mutex<Option<String>>>;

/// Says what a call waits for, until it is dropped.
#[derive(Debug)]
pub struct Waiting(WaitsFor);

/// Stops a call's time until it is dropped.
#[derive(Debug)]
pub struct Pause(watch::Sender<usize>);

/// Those who listen to a running call.
#[async_trait]
pub trait ToolHost: Send + Sync {
    /// Takes partial output. Must not wait: what comes too fast may be dropped, as each output stands for all before it.
    fn report(&self, call: &ToolCallId, output: Value);

    /// Puts a question to the person. Dropping the future withdraws it.
    async fn elicit(&self, call: &ToolCallId, elicitation: Elicitation) -> ElicitationReply;

    /// Takes note that the call is about to run again, and says whether it may.
    async fn before_retry(&self, _call: &ToolCallId) -> bool {
        true
    }
}

/// A question that a tool puts to the person while it runs (MCP's elicitation).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Elicitation {
    /// The question.
    pub message: String,
    /// JSON Schema of the answer's content, an object schema.
    pub requested_schema: Value,
    /// The MCP server that asks, by its name in the settings; `None` for any other tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Other running calls of the chat that may be the one that asks, where that cannot be told: the question lives as long as one of
    /// them does.
    #[serde(rename = "or_of")]
    pub other_candidates: Vec<ToolCallId>,
}

/// What the person said to it.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationReply {
    /// Answered, with content that fits the schema.
    Accept(Value),
    /// Said no.
    Decline,
    /// Did not decide.
    Cancel,
    /// Was not asked, or is asked no longer. The tool is to take it for [`ElicitationReply::Cancel`].
    Unanswered {
        /// Why, as a sentence for whoever reads the call's outcome.
        reason: String,
    },
}

/// Nobody listens: reports go nowhere, and there is no person to ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

// === impl CallContext ===

impl CallContext {
    /// The context of a call to which nobody listens and which nobody cancels.
    pub fn new(owner: Owner, chat: ChatId, call: ToolCallId) -> Self {
        let (cancelled, pauses) = (CancellationToken::new(), watch::Sender::new(0));
        Self { owner, chat, call, cancelled, host: Arc::new(NoHost), pauses, waits_for: Arc::default() }
    }

    /// The same with somebody who listens.
    #[must_use]
    pub fn with_host(self, host: Arc<dyn ToolHost>) -> Self {
        Self { host, ..self }
    }

    /// The same, cancelled by this token.
    #[must_use]
    pub fn cancelled_by(self, cancelled: CancellationToken) -> Self {
        Self { cancelled, ..self }
    }

    /// Shows partial output. Each stands for all before it; those that come too fast are left out.
    pub fn report(&self, output: Value) {
        self.host.report(&self.call, output);
    }

    /// Asks the person something and waits for the answer. The wait does not count against the call's time limit. Dropping the
    /// future withdraws the question.
    pub async fn elicit(&self, elicitation: Elicitation) -> ElicitationReply {
        let _pause = self.pause();
        self.host.elicit(&self.call, elicitation).await
    }

    /// Stops the call's time: what it waits for is not its own doing.
    pub fn pause(&self) -> Pause {
        self.pauses.send_modify(|pauses| *pauses += 1);
        Pause(self.pauses.clone())
    }

    /// The context of the call's next attempt: cancelled by a token of its own, too, and with a time of its own.
    pub(crate) fn attempt(&self) -> (Self, watch::Receiver<usize>) {
        let (pauses, paused) = watch::channel(0);
        let cancelled = self.cancelled.child_token();
        (Self { cancelled, pauses, waits_for: Arc::default(), ..self.clone() }, paused)
    }

    /// Says what the call waits for that is not its own work, as a sentence in the past tense. If its time is over meanwhile, its
    /// failure says so.
    pub fn waits_for(&self, what: impl Into<String>) -> Waiting {
        *self.waits_for.lock().unwrap_or_else(PoisonError::into_inner) = Some(what.into());
        Waiting(self.waits_for.clone())
    }

    /// What it waits for now.
    pub(crate) fn waited_for(&self) -> Option<String> {
        self.waits_for.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes note that the call is about to run again, and says whether it may.
    pub(crate) async fn before_retry(&self) -> bool {
        self.host.before_retry(&self.call).await
    }
}

// === impl Pause ===

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.send_modify(|pauses| *pauses -= 1);
    }
}

// === impl Waiting ===

impl Drop for Waiting {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, chat, call, cancelled, host: _, pauses: _, waits_for: _ } = self;
        f.debug_struct("CallContext")
            .field("owner", owner)
            .field("chat", chat)
            .field("call", call)
            .field("cancelled", &cancelled.is_cancelled())
            .finish_non_exhaustive()
    }
}

// === impl Alone ===

#[async_trait]
impl ToolHost for NoHost {
    fn report(&self, _: &ToolCallId, _: Value) {}

    async fn elicit(&self, _: &ToolCallId, _: Elicitation) -> ElicitationReply {
        ElicitationReply::Cancel
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_names_in_a_saved_question_stay() {
        let elicitation = Elicitation {
            message: "How big?".into(),
            requested_schema: json!({"type": "object"}),
            server: Some("shop".into()),
            other_candidates: vec![ToolCallId::new("b")],
        };
        let saved = json!({
            "message": "How big?",
            "requested_schema": {"type": "object"},
            "server": "shop",
            "or_of": ["b"],
        });
        assert_eq!(json!(elicitation), saved);
        assert_eq!(serde_json::from_value::<Elicitation>(saved).unwrap(), elicitation);
    }
}
