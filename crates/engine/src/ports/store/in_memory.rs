//! The reference store, which defines without I/O what [`Store`](super::Store) means. Its contents end with the process.
//!
//! Invariant: a commit works on a copy of the chat and puts it back as a whole, so a commit with a change that does not fit changes nothing.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use fermata_protocol::{AnswerTarget, ChatId, MessageId, Plan, Role, RunId, UiMessage};
use fermata_tools::{Call, Grant, Owner, ResourceKey};
use jiff::Timestamp;
use tokio::sync::Notify;

use super::{
    AnswerRoute, AuditEntry, Change, ChatOwner, ChatPage, ChatQuery, ChatRecord, ChatStore, ClockMark, Files,
    InstanceId, Joined, Listing, LockStore, Membership, MessageOutline, Notice, OwnerUsage, Renewed,
    StoreError, SummaryRecord, Version, WantedUsage, json_bytes,
    page::{self, Cursor},
};
use chat::{StoredChat, StoredRun};
use memories::StoredMemories;
use outbox::StoredNotice;

mod approvals;
mod chat;
mod memories;
mod outbox;

/// A store that lives as long as the process. Engines that share one are instances; each is alive until it leaves or its lease is ended by
/// [`InMemoryStore::expire`].
#[derive(Debug, Default)]
pub struct InMemoryStore {
    // One lock suffices: it is held for a few copies in memory and never across an await.
    contents: Mutex<Contents>,
    notice_added: Notify,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    chats: BTreeMap<ChatId, StoredChat>,
    /// The chats that their owners have deleted.
    deleted: HashSet<(Owner, ChatId)>,
    alive: Vec<InstanceId>,
    locks: HashMap<ResourceKey, InstanceId>,
    audit: Vec<AuditRecord>,
    answer_routes: HashMap<Owner, AnswerRoute>,
    /// The grants that hold in all chats of their owner.
    owner_grants: HashMap<Owner, Vec<Grant>>,
    memories: HashMap<Owner, StoredMemories>,
    /// The notices that are open or were given up, in the order of their commits.
    outbox: Vec<StoredNotice>,
    mark: Option<ClockMark>,
    /// The number of times that the store was replaced.
    timeline: u64,
    /// The timelines of the instances' last heartbeats.
    timelines: HashMap<InstanceId, u64>,
}

/// A row of the audit.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditRecord {
    /// The time of the commit.
    pub at: Timestamp,
    /// The entries.
    pub entry: AuditEntry,
}

impl AuditRecord {
    fn new(at: Timestamp, entry: AuditEntry) -> Self {
        Self { at: page::whole_microseconds(at), entry }
    }
}

// === impl InMemoryStore ===

impl InMemoryStore {
    /// Returns the rows of the audit that were not deleted, in order.
    pub fn audit(&self) -> Vec<AuditRecord> {
        self.lock().audit.clone()
    }

    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a store with the same contents, as a standby that received everything.
    pub fn standby(&self) -> Self {
        Self { contents: Mutex::new(self.lock().clone()), ..Self::default() }
    }

    /// Replaces the contents by those of a standby, which lacks every commit since it was made. The instances learn it with their
    /// next heartbeats.
    pub fn fail_over_to(&self, standby: &Self) {
        let standby = standby.lock().clone();
        let mut contents = self.lock();
        let (timeline, timelines) = (contents.timeline + 1, std::mem::take(&mut contents.timelines));
        *contents = Contents { timeline, timelines, ..standby };
    }

    /// Ends the lease of an instance, as the other stores do if its heartbeats stop.
    pub fn expire(&self, instance: &InstanceId) {
        let mut contents = self.lock();
        contents.alive.retain(|alive| alive != instance);
        contents.locks.retain(|_, holder| holder != instance);
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        // A panic elsewhere cannot leave a chat half changed, so the state behind a poisoned lock is consistent.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ChatStore for InMemoryStore {
    async fn chat(&self, chat: &ChatId) -> Result<Option<ChatRecord>, StoreError> {
        let contents = self.lock();
        Ok(contents.chats.get(chat).map(|chat| chat.record(&contents.alive)))
    }

    async fn version(&self, chat: &ChatId) -> Result<Option<Version>, StoreError> {
        Ok(self.lock().chats.get(chat).map(|chat| chat.head.version))
    }

    async fn owner_of(&self, chat: &ChatId) -> Result<Option<ChatOwner>, StoreError> {
        let contents = self.lock();
        let Some(chat) = contents.chats.get(chat) else { return Ok(None) };
        Ok(Some(ChatOwner {
            owner: chat.head.owner.clone(),
            run_owner: chat.run_owner(&contents.alive),
            created_at: chat.created_at,
            open_run: chat.open_run().map(|run| run.id.clone()),
        }))
    }

    async fn first_words(&self, chat: &ChatId) -> Result<Option<String>, StoreError> {
        Ok(self.lock().chats.get(chat).and_then(StoredChat::first_words))
    }

    async fn messages(&self, chat: &ChatId) -> Result<Vec<UiMessage>, StoreError> {
        Ok(self.lock().chats.get(chat).map(|chat| chat.messages.clone()).unwrap_or_default())
    }

    async fn outline(&self, chat: &ChatId) -> Result<Vec<MessageOutline>, StoreError> {
        let messages = self.messages(chat).await?;
        let outline = messages
            .into_iter()
            .map(|message| MessageOutline { bytes: json_bytes(&message), id: message.id });
        Ok(outline.collect())
    }

    async fn messages_at(
        &self,
        chat: &ChatId,
        positions: Range<usize>,
        _: Files,
    ) -> Result<Vec<UiMessage>, StoreError> {
        let messages = self.messages(chat).await?;
        Ok(messages.into_iter().skip(positions.start).take(positions.len()).collect())
    }

    async fn file(&self, _: &ChatId, _: &str) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    async fn message(&self, chat: &ChatId, id: &MessageId) -> Result<Option<(usize, UiMessage)>, StoreError> {
        let messages = self.messages(chat).await?;
        Ok(messages.into_iter().enumerate().find(|(_, message)| message.id == *id))
    }

    async fn last_message(
        &self,
        chat: &ChatId,
        before: usize,
        role: Option<Role>,
    ) -> Result<Option<(usize, MessageId)>, StoreError> {
        let messages = self.messages(chat).await?;
        let before = &messages[..before.min(messages.len())];
        let last = before.iter().rposition(|message| role.is_none_or(|role| message.role == role));
        Ok(last.map(|position| (position, before[position].id.clone())))
    }

    async fn summary(&self, chat: &ChatId, most: usize) -> Result<Option<SummaryRecord>, StoreError> {
        let contents = self.lock();
        let Some(chat) = contents.chats.get(chat) else { return Ok(None) };
        Ok(chat.summaries.range(..=most).next_back().map(|(_, summary)| summary.clone()))
    }

    async fn was_deleted(&self, owner: &Owner, chat: &ChatId) -> Result<bool, StoreError> {
        Ok(self.lock().deleted.contains(&(owner.clone(), chat.clone())))
    }

    async fn last_plan(&self, chat: &ChatId, most: usize) -> Result<Option<Plan>, StoreError> {
        let contents = self.lock();
        let Some(chat) = contents.chats.get(chat) else { return Ok(None) };
        let has = |id: &MessageId| chat.messages.iter().take(most).any(|message| message.id == *id);
        let over = chat.runs.iter().rev().filter(|run| !run.open && has(&run.message));
        Ok(over.filter_map(|run| run.plan.clone()).next())
    }

    async fn call(&self, chat: &ChatId, target: &AnswerTarget) -> Result<Option<Call>, StoreError> {
        Ok(self
            .lock()
            .chats
            .get(chat)
            .and_then(|chat| chat.calls().find(|call| chat::is_target(call, target)).cloned()))
    }

    async fn commit(
        &self,
        chat: &ChatId,
        from: Version,
        to: Version,
        at: Timestamp,
        changes: Arc<[Change]>,
    ) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        let Contents { chats, audit, answer_routes, owner_grants, memories, outbox, .. } = &mut *self.lock();
        if chats.get(chat).is_some_and(|chat| chat.head.version == to) {
            return Ok(());
        }
        check(chats, chat, from)?;
        let mut changed = chats.get(chat).cloned();
        let is_news = changes.iter().any(Change::is_news);
        let mut decisions = Vec::new();
        let mut answering = Vec::new();
        let mut remembered = Vec::new();
        for change in changes.iter() {
            if let Change::Audit(entry) = change {
                decisions.push(AuditRecord::new(at, AuditEntry::clone(entry)));
            }
            if let Change::Answered { owner, route } = change {
                answering.push((owner.clone(), *route));
            }
            if let Change::ChangeMemories { owner, changes, most, author } = change {
                remembered.push((owner.clone(), changes.clone(), *most, author.clone()));
            }
            changed = Some(chat::apply(changed, change.clone(), at)?);
        }
        if let Some(mut changed) = changed {
            if is_news {
                changed.updated_at = page::whole_microseconds(at);
            }
            changed.head.version = to;
            chats.insert(chat.clone(), changed);
        }
        audit.extend(decisions);
        answer_routes.extend(answering);
        for change in changes.iter() {
            grant(owner_grants, change);
            if let Change::Notify(notice) = change {
                outbox.push(StoredNotice::new(Notice::clone(notice), at));
                self.notice_added.notify_one();
            }
        }
        for (owner, changes, most, author) in remembered {
            let stored = memories.entry(owner.clone()).or_default();
            stored.change(&owner, at, changes, most, &author, (chats, audit));
        }
        Ok(())
    }

    async fn chats(&self, query: ChatQuery<'_>) -> Result<ChatPage, StoreError> {
        let before = query.before.map(Cursor::parse).transpose()?;
        let Contents { chats, alive, .. } = &*self.lock();
        let mut listed: Vec<(Cursor, &StoredChat)> = Vec::new();
        for (id, chat) in chats {
            let Listing { archived, pinned, .. } = chat.head.listing;
            let cursor = Cursor { pinned, updated_at: chat.updated_at.as_microsecond(), chat: id.clone() };
            if chat.head.owner == *query.owner
                && query.archived.is_none_or(|asked| asked == archived)
                && before.as_ref().is_none_or(|before| cursor < *before)
            {
                listed.push((cursor, chat));
            }
        }
        listed.sort_by(|(a, _), (b, _)| b.cmp(a));
        let is_last = listed.len() <= query.limit;
        listed.truncate(query.limit);
        let next = if is_last { None } else { listed.last().map(|(cursor, _)| cursor.encode()) };
        let chats = listed.iter().map(|(cursor, chat)| chat.summary(&cursor.chat, alive)).collect();
        Ok(ChatPage { chats, next })
    }

    async fn delete(
        &self,
        chat: &ChatId,
        version: Version,
        at: Timestamp,
        entries: Vec<AuditEntry>,
    ) -> Result<(), StoreError> {
        let Contents { chats, memories, audit, deleted, .. } = &mut *self.lock();
        if !chats.contains_key(chat) {
            return Ok(());
        }
        check(chats, chat, version)?;
        if let Some(StoredChat { head, .. }) = chats.remove(chat) {
            if let Some(stored) = memories.get_mut(&head.owner) {
                stored.forget_chat(chat);
            }
            deleted.insert((head.owner, chat.clone()));
        }
        audit.extend(entries.into_iter().map(|entry| AuditRecord::new(at, entry)));
        Ok(())
    }

    async fn add_audit(&self, at: Timestamp, entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        self.lock().audit.extend(entries.into_iter().map(|entry| AuditRecord::new(at, entry)));
        Ok(())
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        let contents = self.lock();
        let due = contents.left_alone().filter_map(|(id, run)| Some((run.expires?, id)));
        Ok(first(due.filter(|(expires, _)| *expires <= now), limit))
    }

    async fn orphans(&self, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        let contents = self.lock();
        let at_work = contents.left_alone().filter(|(_, run)| !run.waiting);
        Ok(first(at_work.map(|(id, run)| (run.started, id)), limit))
    }

    async fn due_summaries(&self, now: Timestamp, limit: usize) -> Result<Vec<(ChatId, Owner)>, StoreError> {
        let contents = self.lock();
        let scheduled = contents.chats.iter().filter_map(|(id, chat)| Some((chat.summary_due?, id)));
        let due = first(scheduled.filter(|(due, _)| *due <= now), limit);
        let owned = due.into_iter().filter_map(|id| {
            let owner = contents.chats.get(&id)?.head.owner.clone();
            Some((id, owner))
        });
        Ok(owned.collect())
    }

    async fn answer_route(&self, owner: &Owner) -> Result<Option<AnswerRoute>, StoreError> {
        Ok(self.lock().answer_routes.get(owner).copied())
    }

    async fn owner_grants(&self, owner: &Owner) -> Result<Vec<Grant>, StoreError> {
        Ok(self.lock().owner_grants.get(owner).cloned().unwrap_or_default())
    }

    async fn usage(
        &self,
        owner: &Owner,
        instance: &InstanceId,
        wanted: WantedUsage,
    ) -> Result<OwnerUsage, StoreError> {
        let contents = self.lock();
        let mut usage = OwnerUsage::default();
        for chat in contents.chats.values().filter(|chat| chat.head.owner == *owner) {
            usage.chats += 1;
            usage.bytes += chat.bytes();
            let elsewhere = chat.open_run().filter(|run| run.owner.as_ref() != Some(instance));
            usage.runs_elsewhere += usize::from(elsewhere.is_some());
        }
        Ok(OwnerUsage {
            chats: usage.chats.min(wanted.chats.unwrap_or_default()),
            bytes: if wanted.bytes { usage.bytes } else { 0 },
            runs_elsewhere: usage.runs_elsewhere.min(wanted.runs_elsewhere.unwrap_or_default()),
        })
    }

    async fn forget(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let Contents { chats, memories, .. } = &mut *self.lock();
        let old = chats.iter().filter(|(_, chat)| chat.open_run().is_none() && chat.updated_at < before);
        let old = first(old.map(|(id, chat)| (chat.updated_at, id)), limit);
        for chat in &old {
            if let Some(deleted) = chats.remove(chat)
                && let Some(stored) = memories.get_mut(&deleted.head.owner)
            {
                stored.forget_chat(chat);
            }
        }
        Ok(old.len())
    }

    async fn finished_log(
        &self,
        chat: &ChatId,
        run: &RunId,
    ) -> Result<Option<Vec<(u64, String)>>, StoreError> {
        let contents = self.lock();
        let mut runs = contents.chats.get(chat).into_iter().flat_map(|chat| &chat.runs);
        let found = runs.find(|known| known.id == *run && !known.open && !known.chunks.is_empty());
        Ok(found.map(|run| run.chunks.clone()))
    }

    async fn forget_logs(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let chats = &mut self.lock().chats;
        let runs = chats.values_mut().flat_map(|chat| &mut chat.runs);
        let over = runs.filter(|run| !run.chunks.is_empty() && run.ended.is_some_and(|ended| ended < before));
        Ok(over.take(limit).map(|run| run.chunks.clear()).count())
    }

    async fn forget_audit(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let audit = &mut self.lock().audit;
        let old: Vec<usize> =
            (0..audit.len()).filter(|&index| audit[index].at < before).take(limit).collect();
        old.iter().rev().for_each(|&index| _ = audit.remove(index));
        Ok(old.len())
    }

    async fn healthy(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn ready(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl Membership for InMemoryStore {
    async fn join(&self, instance: &InstanceId) -> Result<Joined, StoreError> {
        let mut contents = self.lock();
        contents.join(instance);
        Ok(Joined { now: None, mark: contents.mark })
    }

    async fn heartbeat(&self, instance: &InstanceId) -> Result<Renewed, StoreError> {
        let mut contents = self.lock();
        let was_dead = contents.join(instance);
        let Contents { alive, timeline, timelines, .. } = &mut *contents;
        let before = timelines.insert(instance.clone(), *timeline);
        Ok(Renewed {
            was_dead,
            has_failed_over: before.is_some_and(|before| before != *timeline),
            alive: alive.clone(),
            now: None,
        })
    }

    async fn note_time(&self, mark: ClockMark) -> Result<(), StoreError> {
        let known = &mut self.lock().mark;
        let reached = known.map_or(mark.reached, |known| known.reached.max(mark.reached));
        *known = Some(ClockMark { reached, ..mark });
        Ok(())
    }

    async fn release(&self, instance: &InstanceId) -> Result<(), StoreError> {
        let chats = &mut self.lock().chats;
        let runs = chats.values_mut().flat_map(|chat| &mut chat.runs);
        for run in runs.filter(|run| run.open && run.waiting && run.owner.as_ref() == Some(instance)) {
            run.owner = None;
        }
        Ok(())
    }

    async fn leave(&self, instance: &InstanceId) -> Result<(), StoreError> {
        self.expire(instance);
        Ok(())
    }

    fn is_shared(&self) -> bool {
        true
    }
}

#[async_trait]
impl LockStore for InMemoryStore {
    async fn try_lock(&self, key: &ResourceKey, instance: &InstanceId) -> Result<bool, StoreError> {
        let mut contents = self.lock();
        // The lock of an instance whose lease has ended would never be freed.
        if !contents.alive.contains(instance) {
            return Ok(false);
        }
        let holder = contents.locks.entry(key.clone()).or_insert_with(|| instance.clone());
        Ok(holder == instance)
    }

    async fn unlock(&self, key: &ResourceKey, instance: &InstanceId) -> Result<(), StoreError> {
        let locks = &mut self.lock().locks;
        if locks.get(key) == Some(instance) {
            locks.remove(key);
        }
        Ok(())
    }

    async fn locks_of(&self, instance: &InstanceId) -> Result<Vec<ResourceKey>, StoreError> {
        let contents = self.lock();
        let held = contents.locks.iter().filter(|(_, holder)| *holder == instance);
        Ok(held.map(|(key, _)| key.clone()).collect())
    }
}

/// Gives or ends a grant that holds in all chats of its owner, if that is what changes.
fn grant(grants: &mut HashMap<Owner, Vec<Grant>>, change: &Change) {
    match change {
        Change::GrantToOwner { owner, grant } => {
            let (theirs, scope) = (grants.entry(owner.clone()).or_default(), &grant.terms.scope.id);
            theirs.retain(|known| !known.is_named(&grant.tool, Some(scope), None));
            theirs.push(Grant::clone(grant));
        }
        Change::EndGrantToOwner { owner, tool, scope } => {
            let theirs = grants.entry(owner.clone()).or_default();
            theirs.retain(|known| !known.is_named(tool, scope.as_deref(), None));
        }
        _ => {}
    }
}

/// Returns an error if the chat's version is not the one that its writer knows.
fn check(chats: &BTreeMap<ChatId, StoredChat>, chat: &ChatId, version: Version) -> Result<(), StoreError> {
    let now = chats.get(chat).map_or(Version::NONE, |chat| chat.head.version);
    if now == version { Ok(()) } else { Err(StoreError::Fenced) }
}

/// Returns the first chats in the order of their times.
fn first<'a>(chats: impl Iterator<Item = (Timestamp, &'a ChatId)>, limit: usize) -> Vec<ChatId> {
    let mut chats: Vec<_> = chats.collect();
    chats.sort();
    chats.into_iter().take(limit).map(|(_, id)| id.clone()).collect()
}

// === impl Contents ===

impl Contents {
    /// Counts an instance among those alive. Returns `true` if it was not.
    fn join(&mut self, instance: &InstanceId) -> bool {
        let is_new = !self.alive.contains(instance);
        if is_new {
            self.alive.push(instance.clone());
        }
        is_new
    }

    /// Returns the open runs that no instance alive owns.
    fn left_alone(&self) -> impl Iterator<Item = (&ChatId, &StoredRun)> {
        let open = self.chats.iter().filter_map(|(id, chat)| Some((id, chat.open_run()?)));
        open.filter(|(_, run)| run.owner.as_ref().is_none_or(|owner| !self.alive.contains(owner)))
    }
}
