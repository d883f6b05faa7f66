//! The changes that a commit makes to a chat.

use std::collections::BTreeSet;

use fermata_protocol::{MessageId, Plan, Profile, RunId, RunStatus, Show, ToolCallId, UiMessage};
use fermata_tools::{ApprovalDecision, Call, Grant, GrantTerms, Owner};
use jiff::Timestamp;
use serde_json::Value;

use super::{
    AuditEntry, InstanceId, Listing, Notice, SummaryRecord,
    memories::{MemoryAuthor, MemoryChange},
};

/// A change to one chat.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The chat begins.
    CreateChat {
        /// The owner of the chat.
        owner: Owner,
        /// The client version of the first post.
        profile: Profile,
    },
    /// The chat was posted to.
    Posted {
        /// The client version of the post.
        profile: Profile,
    },
    /// A person, a model or a tool has done something in the chat, so lists show it as changed.
    Touched,
    /// The chat has chosen who answers in it.
    Choose {
        /// The name of the assistant; `None` leaves it as it was.
        assistant: Option<String>,
        /// The name of the model; `None` leaves it as it was.
        model: Option<String>,
    },
    /// The owner has changed the entry of the chat in lists.
    PutListing(Listing),
    /// The part of the chat that its model is sent has changed.
    PutContext {
        /// The engine's own value; the store does not look inside.
        context: Value,
    },
    /// A post has asked for these data chunks.
    PutShow {
        /// The kinds of the chunks.
        show: BTreeSet<Show>,
    },
    /// The status of the chat's run has changed.
    PutStatus {
        /// The status.
        status: RunStatus,
    },
    /// Adds the plan of a run, or replaces the one that it has.
    PutPlan {
        /// The run's id.
        run: RunId,
        /// The plan.
        plan: Box<Plan>,
    },
    /// Has no plan of the chat be open any more.
    DropPlan,
    /// Adds a summary, or replaces the one that covers as many messages.
    PutSummary(Box<SummaryRecord>),
    /// A summary of the chat is to be written.
    ScheduleSummary {
        /// The earliest time when an instance may begin with it; `None` if none is to be written any more.
        due: Option<Timestamp>,
    },
    /// Keeps the first `keep` messages and deletes the others, with the summaries that cover any of them.
    TruncateMessages {
        /// The number of messages that stay.
        keep: usize,
    },
    /// Adds a message at the end, or replaces the message that has its id.
    PutMessage(Box<UiMessage>),
    /// Replaces a message that the chat has.
    ReplaceMessage(Box<UiMessage>),
    /// Deletes a message, and the summaries that cover it. Those after it move up.
    DeleteMessage {
        /// Its position.
        position: usize,
    },
    /// A run begins.
    OpenRun {
        /// The run's id.
        run: RunId,
        /// The message that the run makes.
        message: MessageId,
        /// The instance that owns the run.
        owner: InstanceId,
    },
    /// An open run has another owner from now on, or has none.
    SetRunOwner {
        /// The run's id.
        run: RunId,
        /// The instance that owns the run from now on.
        owner: Option<InstanceId>,
        /// The number of times that the run was resumed to be worked on since it last made progress.
        attempts: u32,
    },
    /// The settings of an open run, which are saved once and do not change.
    PutSettings {
        /// The run's id.
        run: RunId,
        /// The engine's own settings; the store does not look inside.
        settings: Value,
    },
    /// The current state of an open run.
    SaveRun {
        /// The run's id.
        run: RunId,
        /// The engine's own state; the store does not look inside.
        state: Value,
        /// The time when the first of the waiting calls expires.
        expires: Option<Timestamp>,
        /// `true` if nothing of the run is at work: it goes on only after an answer or when its time is over.
        waiting: bool,
        /// `true` if the run's readers were detached: it waits and cannot be followed before it goes on.
        detached: bool,
        /// The number of questions of running calls that wait for an answer.
        questions: usize,
        /// The instance that owns the run from now on.
        owner: Option<InstanceId>,
        /// The number of times that the run was resumed to be worked on since it last made progress.
        attempts: u32,
    },
    /// The log of an open run grew.
    AppendChunks {
        /// The run's id.
        run: RunId,
        /// The sequence number of the first of the chunks; the first chunk of a log has 1.
        first: u64,
        /// The chunks as JSON text.
        chunks: Vec<String>,
    },
    /// An open run takes over the calls of one that is over.
    MoveCalls {
        /// The run that has had the calls.
        from: RunId,
        /// The run that has them from now on.
        to: RunId,
    },
    /// A call is new or has changed.
    PutCall {
        /// The run of the call.
        run: RunId,
        /// The call.
        call: Box<Call>,
    },
    /// A person makes a failed call of an earlier run again.
    NoteRetry {
        /// The failed call.
        call: ToolCallId,
        /// The new call that repeats it.
        retried_as: ToolCallId,
    },
    /// A person decided about a call; the decision is kept for ever and never changed.
    Confirm {
        /// The run of the call.
        run: RunId,
        /// The call.
        call: Box<Call>,
        /// The decision, or the vote.
        decision: Box<ApprovalDecision>,
        /// The scope of the decision besides the call.
        terms: Option<Box<GrantTerms>>,
    },
    /// Grants of the chat are revoked; this is kept for ever and never changed.
    EndGrant {
        /// The name of the tool that they were given for.
        tool: String,
        /// The id of the scope; `None` for all scopes.
        scope: Option<String>,
        /// The person who revoked them.
        by: Owner,
    },
    /// A grant holds in all chats of the owner. It replaces an earlier one of the same tool and scope.
    GrantToOwner {
        /// The owner of the chat.
        owner: Owner,
        /// The grant.
        grant: Box<Grant>,
    },
    /// Grants of the owner are revoked.
    EndGrantToOwner {
        /// The owner of the chat.
        owner: Owner,
        /// The name of the tool that they were given for.
        tool: String,
        /// The id of the scope; `None` for all scopes.
        scope: Option<String>,
    },
    /// A row for the audit, which outlives the chat.
    Audit(Box<AuditEntry>),
    /// A notice for the outbox, which outlives the chat.
    Notify(Box<Notice>),
    /// Changes of the owner's memories, as [`Memories::change_memories`](super::Memories::change_memories) makes them. One that cannot be made
    /// changes nothing.
    ChangeMemories {
        /// The owner of the chat.
        owner: Owner,
        /// The changes.
        changes: Vec<MemoryChange>,
        /// The number of memories that the owner may have.
        most: usize,
        /// The party that changes them.
        author: MemoryAuthor,
    },
    /// A stock page of the owner has shown how it answers.
    Answered {
        /// The owner of the chat.
        owner: Owner,
        /// The way the page answers.
        route: AnswerRoute,
    },
    /// The run is over: its state may be deleted, and its log is deleted by [`ChatStore::forget_logs`](super::ChatStore::forget_logs).
    CloseRun {
        /// The run's id.
        run: RunId,
        /// The outcome of the run, for the operator.
        outcome: &'static str,
    },
}

/// A way that a stock page answers calls that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerRoute {
    /// By `POST /chat/tool-result`; the page goes on reading the same stream.
    ToolResult,
    /// By posting the chat again once the stream has ended.
    Repost,
}

// === impl Change ===

impl Change {
    /// Returns `true` if lists show the chat as changed. What is saved of a run does not count by itself, because saving it need not mean that
    /// anybody has done anything: the run's own decision, [`Change::Touched`], does.
    pub fn is_news(&self) -> bool {
        match self {
            Self::CreateChat { .. }
            | Self::Posted { .. }
            | Self::Touched
            | Self::TruncateMessages { .. }
            | Self::DeleteMessage { .. }
            | Self::OpenRun { .. }
            | Self::EndGrant { .. }
            | Self::EndGrantToOwner { .. } => true,
            // The place of a chat in lists follows from its contents.
            Self::PutListing(_)
            | Self::Choose { .. }
            | Self::PutContext { .. }
            | Self::PutShow { .. }
            | Self::PutStatus { .. }
            | Self::PutPlan { .. }
            | Self::DropPlan
            | Self::PutSummary(_)
            | Self::ScheduleSummary { .. }
            | Self::PutMessage(_)
            | Self::ReplaceMessage(_)
            | Self::SetRunOwner { .. }
            | Self::PutSettings { .. }
            | Self::SaveRun { .. }
            | Self::AppendChunks { .. }
            | Self::MoveCalls { .. }
            | Self::PutCall { .. }
            | Self::Confirm { .. }
            | Self::NoteRetry { .. }
            | Self::GrantToOwner { .. }
            | Self::Audit(_)
            | Self::Notify(_)
            | Self::ChangeMemories { .. }
            | Self::Answered { .. }
            | Self::CloseRun { .. } => false,
        }
    }
}
