//! The port to what survives the process.
//!
//! One write operation, [`Store::commit`]: a list of [`Change`]s to one chat that happen together or not at all. Ids and
//! times come from above, where they follow the clock that the store tells with each beat, if it has one: the clocks of instances differ.
//! Who is alive is told by that clock alone.
//!
//! Several instances may share a store. What keeps them apart is the chat's [`Fence`]: a number that every commit raises by one and has
//! to know. Who has read a chat before somebody else changed it cannot write to it any more, however long it was away. Beside that,
//! an open run notes which instance drives it, so that others leave it alone for as long as that instance is alive.

pub mod memory;
pub mod page;

use std::{fmt, ops::Range, time::Duration};

use async_trait::async_trait;
use fermata_protocol::{AnswerTarget, ChatId, MessageId, Profile, RunId, UiMessage};
use fermata_tools::{AuditEvent, Call, Confirmation, GrantEnd, Owner, ResourceKey};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use memory::MemoryStore;

/// What survives the process.
#[async_trait]
pub trait Store: Send + Sync {
    /// A chat with its open run, without its messages, as of one moment; `None` where there is no such chat.
    async fn chat(&self, chat: &ChatId) -> Result<Option<ChatRecord>, StoreError>;

    /// The chat's messages, in order.
    async fn messages(&self, chat: &ChatId) -> Result<Vec<UiMessage>, StoreError>;

    /// What messages the chat has, in order, without their contents.
    async fn outline(&self, chat: &ChatId) -> Result<Vec<Outlined>, StoreError>;

    /// The chat's messages at these positions, as far as it has them.
    async fn messages_at(&self, chat: &ChatId, positions: Range<usize>)
    -> Result<Vec<UiMessage>, StoreError>;

    /// To whom a chat belongs; `None` where there is no such chat.
    async fn owner(&self, chat: &ChatId) -> Result<Option<Owner>, StoreError>;

    /// A call of this chat, also of runs that are over. What calls ask the person is not kept: for an elicitation, `None`.
    async fn call(&self, chat: &ChatId, target: &AnswerTarget) -> Result<Option<Call>, StoreError>;

    /// Makes all of the changes in one transaction, and raises the chat's fence by one. When this returns, they survive a crash.
    ///
    /// `fence` is the chat's as it was read or as the commit before returned it, and [`Fence::NONE`] for a chat that does not exist yet.
    /// Where it is another one by now, nothing is changed and the answer is [`StoreError::Fenced`]. Without changes nothing happens,
    /// and the same fence comes back.
    async fn commit(
        &self,
        chat: &ChatId,
        fence: Fence,
        at: Timestamp,
        changes: Vec<Change>,
    ) -> Result<Fence, StoreError>;

    /// The owner's chats, newest first by last change; `before` is the `next` of the page before.
    async fn chats(&self, owner: &Owner, limit: usize, before: Option<&str>) -> Result<ChatPage, StoreError>;

    /// Forgets a chat and all that belongs to it, unless its fence is another one by now.
    async fn delete(&self, chat: &ChatId, fence: Fence) -> Result<(), StoreError>;

    /// Chats with an open run that no instance alive drives and that has a call which expires at or before `now`: the earliest first, at
    /// most `limit`.
    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<ChatId>, StoreError>;

    /// Chats with an open run that no instance alive drives and that does not wait for anybody: the oldest run first, at most `limit`.
    async fn orphans(&self, limit: usize) -> Result<Vec<ChatId>, StoreError>;

    /// What this owner keeps. Of their open runs those are counted that this instance does not drive: others do, or nobody.
    async fn kept(&self, owner: &Owner, instance: &InstanceId) -> Result<Kept, StoreError>;

    /// Forgets chats without an open run that have not changed since `before`, at most `limit`. Returns how many.
    async fn forget(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;

    /// The log of a run that is over, as [`RunRecord::chunks`]; `None` where there is no such run, it is open, or its log was forgotten.
    async fn finished_log(
        &self,
        chat: &ChatId,
        run: &RunId,
    ) -> Result<Option<Vec<(u64, String)>>, StoreError>;

    /// Forgets the logs of runs that ended before `before`, of at most `limit` runs. Returns of how many.
    async fn forget_logs(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;

    /// Forgets what was noted of decisions before `before`, at most `limit` of them. Returns how many. Nothing else forgets any.
    async fn forget_audit(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;

    /// Counts this instance among those alive. Where the store can have one instance only, all others are no longer alive: theirs are
    /// the runs of a process that has ended.
    async fn join(&self, instance: &InstanceId) -> Result<Joined, StoreError>;

    /// Renews that this instance is alive, and removes those that are not: who has not been heard of for [`LEASE`], or whose connection
    /// tells sooner that it has ended.
    async fn beat(&self, instance: &InstanceId) -> Result<Beat, StoreError>;

    /// Keeps for the next start how far time has come. What is kept never goes back.
    async fn note_time(&self, mark: ClockMark) -> Result<(), StoreError>;

    /// Lets go of the runs of this instance that wait for somebody, so that any other may take them up.
    async fn release(&self, instance: &InstanceId) -> Result<(), StoreError>;

    /// The instance is no longer alive: others may take up all of its runs, and its locks are free.
    async fn leave(&self, instance: &InstanceId) -> Result<(), StoreError>;

    /// Takes a lock that all instances share, for as long as this instance is alive; `false` where another instance alive has it, or this one
    /// is not alive. Where it has the lock already, it has it.
    async fn try_lock(&self, key: &ResourceKey, instance: &InstanceId) -> Result<bool, StoreError>;

    /// Gives it back.
    async fn unlock(&self, key: &ResourceKey, instance: &InstanceId) -> Result<(), StoreError>;

    /// Whether several instances may be alive at a time.
    fn is_shared(&self) -> bool;

    /// Whether the store can be used at all.
    async fn ready(&self) -> Result<(), StoreError>;
}

/// A message without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outlined {
    /// Which.
    pub id: MessageId,
    /// How long it is as JSON.
    pub bytes: usize,
}

/// How long an instance counts as alive after it was heard of last.
pub const LEASE: Duration = Duration::from_secs(10);

/// A process that drives chats, among those that share a store. Each start is another instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstanceId(String);

/// How often a chat has been written to: who knows an older number writes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence(pub u64);

/// What an instance learns when it joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// What time it is by the clock that all instances share; `None` if the store has none.
    pub now: Option<Timestamp>,
    /// How far time had come, as it was noted last.
    pub mark: Option<ClockMark>,
}

/// How far time has come for a deployment, whatever the clocks say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockMark {
    /// The time that has certainly come.
    pub reached: Timestamp,
    /// The time to which the clock had leapt, if it was not believed yet.
    pub doubted: Option<Timestamp>,
}

/// What an instance learns when it renews its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Whether it had been taken for dead meanwhile; others may have taken up its runs.
    pub was_dead: bool,
    /// All instances that are alive, itself included.
    pub alive: Vec<InstanceId>,
    /// What time it is by the clock that all instances share; `None` if the store has none.
    pub now: Option<Timestamp>,
}

/// What one owner keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Their chats.
    pub chats: usize,
    /// Bytes of the messages in them, as JSON.
    pub bytes: usize,
    /// Their open runs that the instance which asks does not drive.
    pub runs_elsewhere: usize,
}

/// A chat as it was saved.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatRecord {
    /// How often it has been written to.
    pub fence: Fence,
    /// Which instance alive drives its open run; `None` also where the one that did has ended.
    pub driver: Option<InstanceId>,
    /// To whom it belongs.
    pub owner: Owner,
    /// The client version of its last post.
    pub profile: Profile,
    /// Bytes of its messages, as JSON.
    pub bytes: usize,
    /// What people said about its calls, all of it, in order.
    pub confirmations: Vec<Confirmation>,
    /// What people took back of what they had allowed for always, in order.
    pub grant_ends: Vec<GrantEnd>,
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
    /// Bytes of that message as it stands in the chat, as JSON; 0 if it does not.
    pub message_bytes: usize,
    /// What it was asked for, as [`Change::PutSettings`] has it; null where nothing was put.
    pub settings: Value,
    /// The engine's own state of it; the store does not look inside.
    pub state: Value,
    /// Its log, in order: the place of each chunk, and the chunk as JSON text. Places grow, but may have gaps.
    pub chunks: Vec<(u64, String)>,
    /// Its calls, in the order they were first put.
    pub calls: Vec<Call>,
    /// Whether it goes on only when somebody answers, or its time is over.
    pub waiting: bool,
    /// How often it was taken up to be worked on since it last got on.
    pub attempts: u32,
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
        /// Who drives it.
        driver: InstanceId,
    },
    /// An open run is driven by this instance from now on, or by none.
    Drive {
        /// Which.
        run: RunId,
        /// Who drives it.
        driver: Option<InstanceId>,
        /// How often it was taken up to be worked on since it last got on.
        attempts: u32,
    },
    /// What an open run was asked for, which is put once and does not change.
    PutSettings {
        /// Which.
        run: RunId,
        /// The engine's own; the store does not look inside.
        settings: Value,
    },
    /// Where the run is now.
    SaveRun {
        /// Which.
        run: RunId,
        /// The engine's own state.
        state: Value,
        /// When the first of its waiting calls expires.
        expires: Option<Timestamp>,
        /// Whether nothing of it is at work: it goes on only when somebody answers, or its time is over.
        waiting: bool,
        /// Whether its readers were sent away: it waits, and nobody can follow it before it goes on.
        let_go: bool,
        /// How many questions of its running calls wait for the person.
        questions: usize,
        /// Who drives it from now on.
        driver: Option<InstanceId>,
        /// How often it was taken up to be worked on since it last got on.
        attempts: u32,
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
        /// What the tool is, if it was allowed for always.
        fingerprint: Option<String>,
    },
    /// A tool is no longer allowed for always; kept for ever, never changed.
    EndGrant {
        /// Which.
        tool: String,
        /// Who took it back.
        by: Owner,
    },
    /// A decision to be noted for ever, also after the chat was forgotten.
    Audit {
        /// To whom the chat belongs.
        owner: Owner,
        /// In which run, if in one.
        run: Option<RunId>,
        /// The decision.
        event: Box<AuditEvent>,
    },
    /// The run is over; its state may go, and its log when [`Store::forget_logs`] says so.
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
    /// Whether it has an open run that can be followed: one whose readers were not sent away.
    pub open: bool,
    /// How much of its open run waits for somebody: calls for a decision or for the browser's output, questions for an answer.
    pub pending: usize,
}

/// Why the store did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum StoreError {
    /// It cannot be reached or has failed, and has changed nothing; trying again may help. The text is for the operator.
    #[error("the database failed: {0}")]
    Unavailable(String),
    /// It has failed when it was to confirm a change, which may have been made. The text is for the operator.
    #[error("the database failed, and whether it has made the change is not known: {0}")]
    Unclear(String),
    /// What it holds cannot be read. The text is for the operator.
    #[error("the database holds something unreadable: {0}")]
    Corrupt(String),
    /// A change does not fit what is there: no such chat or run, an open run already, a gap in a log. Nothing was changed,
    /// and trying again will not help. The text is for the operator.
    #[error("a change does not fit what is stored: {0}")]
    Conflict(String),
    /// Somebody else has written to the chat since it was read. Nothing was changed; who reads it again can go on.
    #[error("the chat has been changed by another instance")]
    Fenced,
    /// The `before` of a list is none that a page gave.
    #[error("No page of chats begins there; send the `next` of the page before.")]
    BadCursor,
}

/// How long a message is as it is saved.
pub fn json_bytes(message: &UiMessage) -> usize {
    serde_json::to_vec(message).map_or(0, |json| json.len())
}

// === impl Change ===

impl Change {
    /// Whether lists show the chat as changed: something was said or came to its end. Going on with a run, or taking one up, is none.
    pub fn is_news(&self) -> bool {
        match self {
            Self::CreateChat { .. }
            | Self::Posted { .. }
            | Self::TruncateMessages { .. }
            | Self::PutMessage(_)
            | Self::OpenRun { .. }
            | Self::Confirm { .. }
            | Self::EndGrant { .. }
            | Self::CloseRun { .. } => true,
            Self::Drive { .. }
            | Self::PutSettings { .. }
            | Self::SaveRun { .. }
            | Self::AppendChunks { .. }
            | Self::PutCall { .. }
            | Self::Audit { .. } => false,
        }
    }
}

// === impl InstanceId ===

impl InstanceId {
    /// An id that no other start has.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Fence ===

impl Fence {
    /// Of a chat that does not exist.
    pub const NONE: Self = Self(0);

    /// After one more commit.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
