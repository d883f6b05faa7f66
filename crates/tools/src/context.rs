//! The context of a running call: its identity, its cancellation, and its messages to the host before it has a result.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use fermata_protocol::{ChatId, MessageId, RunId, ToolCallId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{Decision, Owner, Permission, Slot};

/// The context of a running call. It is cheap to clone.
#[derive(Clone)]
pub struct CallContext {
    /// The owner of the chat.
    pub owner: Owner,
    /// The chat's id.
    pub chat: ChatId,
    /// The call's id.
    pub call: ToolCallId,
    /// The run and the message that the call belongs to; `None` if a program runs the loop itself.
    pub origin: Option<CallOrigin>,
    /// The way the call was let through.
    pub permission: Permission,
    /// The outside sources that the model had read in the turn before the call, in the words of [`Tool::reads_from`](crate::Tool::reads_from).
    pub read_from: Vec<String>,
    /// A token that is cancelled when the run is stopped or the call's time is over. Work in other tasks should watch it.
    pub cancelled: CancellationToken,
    idempotency_key: Arc<str>,
    pub(crate) host: Arc<dyn ToolHost>,
    /// The number of [`Pause`]s that exist. The call's time runs while it is zero.
    pauses: watch::Sender<usize>,
    waits_for: WaitsFor,
    /// The slot of the call, if their number is limited.
    slot: Option<Arc<Slot>>,
}

/// The run and the message of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOrigin {
    /// The run.
    pub run: RunId,
    /// The message of the assistant.
    pub message: MessageId,
    /// The header `traceparent` for requests of the call, if the run is traced.
    pub traceparent: Option<String>,
}

/// The reason why a call waits for something else than its own work. The mutex is held for an instant, never across an await.
type WaitsFor = Arc<Mutex<Option<String>>>;

/// A guard that keeps the reason why a call waits, until it is dropped.
#[derive(Debug)]
pub struct Waiting(WaitsFor);

/// A guard that stops a call's time, until it is dropped.
#[derive(Debug)]
pub struct Pause(watch::Sender<usize>);

/// The program that runs a call and receives its reports and questions.
#[async_trait]
pub trait ToolHost: Send + Sync {
    /// Receives partial output. Each output replaces the earlier ones, so the host may drop outputs that come too fast. Must not block.
    fn report(&self, call: &ToolCallId, output: Value);

    /// Asks the person a question and returns the reply. Dropping the future withdraws the question.
    async fn elicit(&self, call: &ToolCallId, elicitation: Elicitation) -> ElicitationReply;

    /// Returns the decision about a call of the same tool with another input, by the rules and grants of this moment. Nobody is asked, so
    /// [`Decision::Ask`] means that only a call of its own could be approved.
    async fn decide(&self, _call: &ToolCallId, _input: Value) -> Decision {
        Decision::Ask
    }

    /// Is called before a call runs again. Returns whether it may.
    async fn before_retry(&self, _call: &ToolCallId) -> bool {
        true
    }
}

/// The party that asks a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Asks {
    /// The model.
    Assistant,
    /// A tool of this server, or this server itself about a tool.
    Tool,
    /// An MCP server.
    Mcp,
}

/// A question that a tool asks the person while it runs (an MCP elicitation).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Elicitation {
    /// The text of the question.
    pub message: String,
    /// The JSON Schema of the reply's content, an object schema.
    pub requested_schema: Value,
    /// The name in the settings of the MCP server that asks; `None` if another tool asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Other running calls of the chat that may have asked, if the MCP server does not say which call did. The question stays open as
    /// long as one of them runs.
    pub other_candidates: Vec<ToolCallId>,
}

/// The reply to an [`Elicitation`].
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationReply {
    /// The person replied with this content, which fits the schema.
    Accept(Value),
    /// The person declined.
    Decline,
    /// The person dismissed the question.
    Cancel,
    /// The person was not asked, or the question was withdrawn. A tool treats it like [`ElicitationReply::Cancel`].
    Unanswered {
        /// The reason, as a sentence for the text of the call's outcome.
        reason: String,
    },
}

/// A host that ignores reports and cancels every question.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

// === impl CallContext ===

impl CallContext {
    /// Creates a context with a [`NoHost`], a token that is never cancelled and a new idempotency key.
    pub fn new(owner: Owner, chat: ChatId, call: ToolCallId) -> Self {
        let (cancelled, pauses) = (CancellationToken::new(), watch::Sender::new(0));
        Self {
            owner,
            chat,
            call,
            origin: None,
            permission: Permission::default(),
            read_from: Vec::new(),
            cancelled,
            idempotency_key: Uuid::new_v4().to_string().into(),
            host: Arc::new(NoHost),
            pauses,
            waits_for: Arc::default(),
            slot: None,
        }
    }

    /// Replaces the host.
    #[must_use]
    pub fn with_host(self, host: Arc<dyn ToolHost>) -> Self {
        Self { host, ..self }
    }

    /// Replaces the idempotency key, for a call that may have run with this one before.
    #[must_use]
    pub fn with_idempotency_key(self, key: &str) -> Self {
        Self { idempotency_key: key.into(), ..self }
    }

    /// Sets the run and the message of the call.
    #[must_use]
    pub fn of(self, origin: CallOrigin) -> Self {
        Self { origin: Some(origin), ..self }
    }

    /// Sets how the call was let through.
    #[must_use]
    pub fn permitted_by(self, permission: Permission) -> Self {
        Self { permission, ..self }
    }

    /// Sets the outside sources that the model had read.
    #[must_use]
    pub fn after_reading(self, read_from: Vec<String>) -> Self {
        Self { read_from, ..self }
    }

    /// Replaces the cancellation token.
    #[must_use]
    pub fn cancelled_by(self, cancelled: CancellationToken) -> Self {
        Self { cancelled, ..self }
    }

    /// Keeps a slot taken while the call runs. Others may use it while the call waits for the person.
    #[must_use]
    pub fn in_slot(self, slot: Slot) -> Self {
        Self { slot: Some(Arc::new(slot)), ..self }
    }

    /// Returns the key of the call's effect, a random UUID as text.
    ///
    /// Each repetition of the call has the same key: a retry after a failure, and a run again after a crash or by another instance. The key
    /// is saved before the call starts. A call that a person has run again has a new key. A tool that hands the key to a service which
    /// does nothing twice for one key can be declared repeatable.
    pub fn idempotency_key(&self) -> &str {
        &self.idempotency_key
    }

    /// Shows partial output, which replaces earlier partial output. Outputs that come too fast are dropped.
    pub fn report(&self, output: Value) {
        self.host.report(&self.call, output);
    }

    /// Asks the person a question and waits for the reply. The wait does not count against the call's time limit. Dropping the future
    /// withdraws the question.
    pub async fn elicit(&self, elicitation: Elicitation) -> ElicitationReply {
        let _pause = self.pause();
        let _lent = self.slot.as_ref().map(Slot::lend);
        self.host.elicit(&self.call, elicitation).await
    }

    /// Returns the decision about a call of the same tool with another input, for a tool that finds out where its call leads only while it
    /// runs. Nobody is asked; only [`Decision::Allow`] lets the tool go on there.
    pub async fn decide(&self, input: Value) -> Decision {
        self.host.decide(&self.call, input).await
    }

    /// Stops the call's time while it waits for something that it cannot influence.
    pub fn pause(&self) -> Pause {
        self.pauses.send_modify(|pauses| *pauses += 1);
        Pause(self.pauses.clone())
    }

    /// Creates the context of the call's next attempt, with a child of the cancellation token and no pauses.
    pub(crate) fn attempt(&self) -> (Self, watch::Receiver<usize>) {
        let (pauses, paused) = watch::channel(0);
        let cancelled = self.cancelled.child_token();
        (Self { cancelled, pauses, waits_for: Arc::default(), ..self.clone() }, paused)
    }

    /// Sets the reason why the call waits for something else than its own work, as a clause in the past tense. If the call's time runs
    /// out meanwhile, the failure's text contains the reason.
    pub fn waits_for(&self, what: impl Into<String>) -> Waiting {
        *self.waits_for.lock().unwrap_or_else(PoisonError::into_inner) = Some(what.into());
        Waiting(self.waits_for.clone())
    }

    /// Returns the reason that [`Self::waits_for`] set.
    pub(crate) fn waited_for(&self) -> Option<String> {
        self.waits_for.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        let Self {
            owner,
            chat,
            call,
            origin: _,
            permission,
            read_from: _,
            cancelled,
            idempotency_key,
            host: _,
            pauses: _,
            waits_for: _,
            slot: _,
        } = self;
        f.debug_struct("CallContext")
            .field("owner", owner)
            .field("chat", chat)
            .field("call", call)
            .field("permission", permission)
            .field("idempotency_key", idempotency_key)
            .field("cancelled", &cancelled.is_cancelled())
            .finish_non_exhaustive()
    }
}

// === impl NoHost ===

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
    fn attempts_of_a_call_share_its_key_and_other_calls_have_others() {
        let context = || CallContext::new(Owner::anyone(), ChatId::new("c"), ToolCallId::new("a"));
        let (one, other) = (context(), context());
        assert_eq!(one.attempt().0.idempotency_key(), one.idempotency_key());
        assert_ne!(one.idempotency_key(), other.idempotency_key());
        assert_eq!(Uuid::parse_str(one.idempotency_key()).unwrap().get_version_num(), 4);
        assert_eq!(one.with_idempotency_key("k").attempt().0.idempotency_key(), "k");
    }

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
            "other_candidates": ["b"],
        });
        assert_eq!(json!(elicitation), saved);
        assert_eq!(serde_json::from_value::<Elicitation>(saved).unwrap(), elicitation);
    }
}
