//! The part of the store that keeps chats with their runs, calls and logs.
//!
//! There is one write operation, [`ChatStore::commit`]: a list of [`Change`]s to one chat that happen together or not at all. Ids and
//! times come from the caller.

use std::{ops::Range, sync::Arc};

use async_trait::async_trait;
use fermata_protocol::{AnswerTarget, ChatId, MessageId, Plan, Role, RunId, UiMessage};
use fermata_tools::{Call, Grant, Owner};
use jiff::Timestamp;

use super::{
    AnswerRoute, AuditEntry, Change, ChatOwner, ChatPage, ChatQuery, ChatRecord, Files, InstanceId,
    MessageOutline, OwnerUsage, StoreError, SummaryRecord, Version, WantedUsage,
};

/// The store of chats and everything that belongs to them.
#[async_trait]
pub trait ChatStore: Send + Sync {
    /// Returns a chat with its open run, without its messages, as of one moment; `None` if there is no such chat.
    async fn chat(&self, chat: &ChatId) -> Result<Option<ChatRecord>, StoreError>;

    /// Returns the chat's version alone; `None` if there is no such chat.
    async fn version(&self, chat: &ChatId) -> Result<Option<Version>, StoreError>;

    /// Returns the chat's owner, and the instance that owns its open run if it is alive; `None` if there is no such chat.
    async fn owner_of(&self, chat: &ChatId) -> Result<Option<ChatOwner>, StoreError>;

    /// Returns the chat's messages, in order.
    async fn messages(&self, chat: &ChatId) -> Result<Vec<UiMessage>, StoreError>;

    /// Returns the beginning of the chat's first user message, which is its title until it is given another one.
    async fn first_words(&self, chat: &ChatId) -> Result<Option<String>, StoreError>;

    /// Returns the chat's messages without their contents, in order.
    async fn outline(&self, chat: &ChatId) -> Result<Vec<MessageOutline>, StoreError>;

    /// Returns the chat's messages at these positions, as far as the chat has them.
    async fn messages_at(
        &self,
        chat: &ChatId,
        positions: Range<usize>,
        files: Files,
    ) -> Result<Vec<UiMessage>, StoreError>;

    /// Returns the data URL of a file by the name that [`Files::ByName`] has given it; `None` if the chat has no such file.
    async fn file(&self, chat: &ChatId, name: &str) -> Result<Option<String>, StoreError>;

    /// Returns the chat's message of this id, with its position.
    async fn message(&self, chat: &ChatId, id: &MessageId) -> Result<Option<(usize, UiMessage)>, StoreError>;

    /// Returns the position and the id of the last message before a position, or of the last one with this role.
    async fn last_message(
        &self,
        chat: &ChatId,
        before: usize,
        role: Option<Role>,
    ) -> Result<Option<(usize, MessageId)>, StoreError>;

    /// Returns the chat's summary that covers the most messages, but not more than `most`; `None` if there is none.
    async fn summary(&self, chat: &ChatId, most: usize) -> Result<Option<SummaryRecord>, StoreError>;

    /// Returns whether this owner has deleted a chat with this id in the last 30 days.
    async fn was_deleted(&self, owner: &Owner, chat: &ChatId) -> Result<bool, StoreError>;

    /// Returns the plan of the last run that is over, had one, and whose message is among the first `most` ones; `None` if there is none.
    async fn last_plan(&self, chat: &ChatId, most: usize) -> Result<Option<Plan>, StoreError>;

    /// Returns a call of this chat, whose run may be over. The questions of running calls are not saved, so for an elicitation the result
    /// is `None`.
    async fn call(&self, chat: &ChatId, target: &AnswerTarget) -> Result<Option<Call>, StoreError>;

    /// Makes all of the changes in one transaction. When this returns, they survive a crash.
    ///
    /// `from` is the chat's version as it was read or written last, and [`Version::NONE`] for a chat that does not exist yet; `to` is a new
    /// one, which no other commit has. If the chat's version is neither of them by now, nothing is changed and the result is
    /// [`StoreError::Fenced`]. If it is `to`, the changes were made by an earlier attempt, and nothing happens. So a commit can be repeated
    /// until its outcome is known. Without changes nothing happens.
    async fn commit(
        &self,
        chat: &ChatId,
        from: Version,
        to: Version,
        at: Timestamp,
        changes: Arc<[Change]>,
    ) -> Result<(), StoreError>;

    /// Returns a page of an owner's chats.
    async fn chats(&self, query: ChatQuery<'_>) -> Result<ChatPage, StoreError>;

    /// Deletes a chat and everything that belongs to it, unless its version is another one by now, and adds these rows to the audit. If there
    /// is no such chat, nothing happens.
    async fn delete(
        &self,
        chat: &ChatId,
        version: Version,
        at: Timestamp,
        audit: Vec<AuditEntry>,
    ) -> Result<(), StoreError>;

    /// Adds rows to the audit that belong to no commit of a chat.
    async fn add_audit(&self, at: Timestamp, entries: Vec<AuditEntry>) -> Result<(), StoreError>;

    /// Returns the chats with an open run that no instance alive owns and that has a call which expires at or before `now`: the earliest
    /// first, at most `limit`.
    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<ChatId>, StoreError>;

    /// Returns the chats with an open run that no instance alive owns and that is at work: the oldest run first, at most `limit`.
    async fn orphans(&self, limit: usize) -> Result<Vec<ChatId>, StoreError>;

    /// Returns the chats whose summary may be begun at or before `now`, with their owners: the earliest first, at most `limit`.
    async fn due_summaries(&self, now: Timestamp, limit: usize) -> Result<Vec<(ChatId, Owner)>, StoreError>;

    /// Counts the data of this owner, as far as it is asked for. An open run counts as elsewhere if this instance does not own it, even
    /// if no other instance does.
    async fn usage(
        &self,
        owner: &Owner,
        instance: &InstanceId,
        wanted: WantedUsage,
    ) -> Result<OwnerUsage, StoreError>;

    /// Returns how the owner's stock pages answer, by the last of them that has shown it ([`Change::Answered`]).
    async fn answer_route(&self, owner: &Owner) -> Result<Option<AnswerRoute>, StoreError>;

    /// Returns the grants that hold in all chats of the owner ([`Change::GrantToOwner`]), in the order they were given.
    async fn owner_grants(&self, owner: &Owner) -> Result<Vec<Grant>, StoreError>;

    /// Deletes chats without an open run that have not changed since `before`, at most `limit`. Returns the number of chats deleted.
    async fn forget(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;

    /// Returns the log of a run that is over, as in [`RunRecord::chunks`](super::RunRecord::chunks); `None` if there is no such run, if it is
    /// open, or if its log was deleted.
    async fn finished_log(
        &self,
        chat: &ChatId,
        run: &RunId,
    ) -> Result<Option<Vec<(u64, String)>>, StoreError>;

    /// Deletes the logs of runs that ended before `before`, at most `limit`. Returns the number of logs deleted.
    async fn forget_logs(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;

    /// Deletes the rows of the audit that were added before `before`, at most `limit`. Returns the number of rows deleted. No other operation
    /// deletes any.
    async fn forget_audit(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;

    /// Checks that the store can be used at all.
    async fn ready(&self) -> Result<(), StoreError>;

    /// Checks that starting the process again is of no use: fails if this process could write nothing for minutes, for a reason that may lie
    /// in the process.
    async fn healthy(&self) -> Result<(), StoreError>;
}
