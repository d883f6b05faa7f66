//! The port to what survives the process.
//!
//! One write operation, [`Store::commit`]: a list of [`Change`]s to one chat that happen together or not at all. Ids and
//! times come from above. One task at a time writes to a chat, so a store needs no locks of its own beyond the database's.

pub mod memory;
pub mod page;

use async_trait::async_trait;
use fermata_protocol::{AnswerTarget, ChatId, MessageId, Profile, RunId, UiMessage};
use fermata_tools::{Call, Confirmation, Owner};
use jiff::Timestamp;
use serde_json::Value;

pub use memory::MemoryStore;

/// What survives the process.
#[async_trait]
pub trait Store: Send + Sync {
    /// A chat with its open run, without its messages; `None` where there is no such chat.
    async fn chat(&self, chat: &ChatId) -> Result<Option<ChatRecord>, StoreError>;

    /// The chat's messages, in order.
    async fn messages(&self, chat: &ChatId) -> Result<Vec<UiMessage>, StoreError>;

    /// To whom a chat belongs; `None` where there is no such chat.
    async fn owner(&self, chat: &ChatId) -> Result<Option<Owner>, StoreError>;

    /// A call of this chat, also of runs that are over. What calls ask the person is not kept: for an elicitation, `None`.
    async fn call(&self, chat: &ChatId, target: &AnswerTarget) -> Result<Option<Call>, StoreError>;

    /// Makes all of the changes in one transaction. When this returns, they survive a crash.
    async fn commit(&self, chat: &ChatId, at: Timestamp, changes: Vec<Change>) -> Result<(), StoreError>;

    /// The owner's chats, newest first by last change; `before` is the `next` of the page before.
    async fn chats(&self, owner: &Owner, limit: usize, before: Option<&str>) -> Result<ChatPage, StoreError>;

    /// Forgets a chat and all that belongs to it.
    async fn delete(&self, chat: &ChatId) -> Result<(), StoreError>;

    /// Chats with an open run that has a call which expires at or before `now`, at most `limit`.
    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<ChatId>, StoreError>;

    /// Whether the store can be used at all.
    async fn ready(&self) -> Result<(), StoreError>;
}

/// A chat as it was saved.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatRecord {
    /// To whom it belongs.
    pub owner: Owner,
    /// The client version of its last post.
    pub profile: Profile,
    /// What people said about its calls, all of it, in order.
    pub confirmations: Vec<Confirmation>,
    /// The run that is not over.
    pub open_run: Option<RunRecord>,
}

/// An open run as it was saved.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Which run.
    pub id: RunId,
    /// The message it makes.
    pub message: MessageId,
    /// The engine's own state of it; the store does not look inside.
    pub state: Value,
    /// Its log, in order: the place of each chunk, and the chunk as JSON text. Places grow, but may have gaps.
    pub chunks: Vec<(u64, String)>,
    /// Its calls, in the order they were first put.
    pub calls: Vec<Call>,
}

impl RunRecord {
    /// The chunks of the log without their places.
    pub fn texts(&self) -> Vec<&str> {
        self.chunks.iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// A change to one chat.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The chat begins.
    CreateChat {
        /// To whom it belongs.
        owner: Owner,
        /// The client version of its first post.
        profile: Profile,
    },
    /// The chat was posted to.
    Posted {
        /// The client version of the post.
        profile: Profile,
    },
    /// Keeps the first `keep` messages and forgets the others.
    TruncateMessages {
        /// How many stay.
        keep: usize,
    },
    /// Adds a message at the end, or replaces the one with its id where it stands.
    PutMessage(Box<UiMessage>),
    /// A run begins.
    OpenRun {
        /// Which.
        run: RunId,
        /// The message it makes.
        message: MessageId,
    },
    /// Where the run is now.
    SaveRun {
        /// Which.
        run: RunId,
        /// The engine's own state.
        state: Value,
        /// When the first of its waiting calls expires.
        expires: Option<Timestamp>,
    },
    /// The log grew.
    AppendChunks {
        /// Whose log.
        run: RunId,
        /// The place of the first of them, counted from 1.
        first: u64,
        /// Chunks as JSON text.
        chunks: Vec<String>,
    },
    /// A call is new or has changed.
    PutCall {
        /// Of which run.
        run: RunId,
        /// The call.
        call: Box<Call>,
    },
    /// A person decided; kept for ever, never changed.
    Confirm {
        /// Of which run.
        run: RunId,
        /// The call, with its decision.
        call: Box<Call>,
        /// Who decided.
        by: Owner,
    },
    /// The run is over; its log and state may go.
    CloseRun {
        /// Which.
        run: RunId,
        /// How it ended, for the operator.
        outcome: &'static str,
    },
}

/// One page of a list of chats.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatPage {
    /// The chats, newest first.
    pub chats: Vec<ChatSummary>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<String>,
}

/// A chat in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatSummary {
    /// Which.
    pub id: ChatId,
    /// The beginning of its first user message.
    pub title: Option<String>,
    /// When it began.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// Why the store did not do it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached or has failed; trying again may help. The text is for the operator.
    #[error("the database failed: {0}")]
    Unavailable(String),
    /// What it holds cannot be read. The text is for the operator.
    #[error("the database holds something unreadable: {0}")]
    Corrupt(String),
    /// A change does not fit what is there: no such chat or run, an open run already, a gap in a log. Nothing was changed,
    /// and trying again will not help. The text is for the operator.
    #[error("a change does not fit what is stored: {0}")]
    Conflict(String),
    /// The `before` of a list is none that a page gave.
    #[error("No page of chats begins there; send the `next` of the page before.")]
    BadCursor,
}
