//! The reference store: what [`Store`] means, without I/O. Forgets everything with the process.
//!
//! Invariant: a commit works on a copy of the chat and puts it back whole, so a change that does not fit leaves nothing.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use fermata_protocol::{AnswerTarget, ChatId, MessageId, Profile, Role, RunId, UiMessage};
use fermata_tools::{AuditEvent, Call, Confirmation, GrantEnd, Owner, ResourceKey};
use jiff::Timestamp;
use serde_json::Value;

use super::{
    Beat, Change, ChatPage, ChatRecord, ChatSummary, ClockMark, Fence, InstanceId, Joined, Kept, Outlined,
    RunRecord, Store, StoreError, json_bytes,
    page::{self, Cursor},
};

/// A store that lives as long as the process. Engines that share one are instances to each other; each is alive until it leaves, or is
/// buried by [`MemoryStore::bury`].
#[derive(Debug, Default)]
pub struct MemoryStore {
    // One lock for all: it is held for a few copies in memory and never across an await.
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    chats: BTreeMap<ChatId, Chat>,
    alive: BTreeSet<InstanceId>,
    locks: HashMap<ResourceKey, InstanceId>,
    audit: Vec<AuditRecord>,
    mark: Option<ClockMark>,
}

/// A decision as it was noted.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditRecord {
    /// When.
    pub at: Timestamp,
    /// To whom the chat belongs.
    pub owner: Owner,
    /// In which chat.
    pub chat: ChatId,
    /// In which run, if in one.
    pub run: Option<RunId>,
    /// The decision.
    pub event: AuditEvent,
}

#[derive(Clone, Debug)]
struct Chat {
    fence: Fence,
    owner: Owner,
    profile: Profile,
    created_at: Timestamp,
    updated_at: Timestamp,
    messages: Vec<UiMessage>,
    runs: Vec<Run>,
    confirmations: Vec<Confirmation>,
    grant_ends: Vec<GrantEnd>,
}

#[derive(Clone, Debug)]
struct Run {
    id: RunId,
    message: MessageId,
    started: Timestamp,
    ended: Option<Timestamp>,
    open: bool,
    driver: Option<InstanceId>,
    waiting: bool,
    let_go: bool,
    questions: usize,
    attempts: u32,
    settings: Value,
    state: Value,
    expires: Option<Timestamp>,
    chunks: Vec<(u64, String)>,
    calls: Vec<Call>,
}

// === impl MemoryStore ===

impl MemoryStore {
    /// The decisions that were noted and not forgotten, in order.
    pub fn audit(&self) -> Vec<AuditRecord> {
        self.lock().audit.clone()
    }

    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an instance for dead, as the other stores do with one that is not heard of any more.
    pub fn bury(&self, instance: &InstanceId) {
        let mut inner = self.lock();
        inner.alive.remove(instance);
        inner.locks.retain(|_, holder| holder != instance);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic elsewhere cannot leave a chat half changed, so what is behind a poisoned lock is whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn chat(&self, chat: &ChatId) -> Result<Option<ChatRecord>, StoreError> {
        let inner = self.lock();
        Ok(inner.chats.get(chat).map(|chat| chat.record(&inner.alive)))
    }

    async fn messages(&self, chat: &ChatId) -> Result<Vec<UiMessage>, StoreError> {
        Ok(self.lock().chats.get(chat).map(|chat| chat.messages.clone()).unwrap_or_default())
    }

    async fn outline(&self, chat: &ChatId) -> Result<Vec<Outlined>, StoreError> {
        let messages = self.messages(chat).await?;
        let outlined = |message: UiMessage| Outlined { bytes: json_bytes(&message), id: message.id };
        Ok(messages.into_iter().map(outlined).collect())
    }

    async fn messages_at(
        &self,
        chat: &ChatId,
        positions: Range<usize>,
    ) -> Result<Vec<UiMessage>, StoreError> {
        let messages = self.messages(chat).await?;
        Ok(messages.into_iter().skip(positions.start).take(positions.len()).collect())
    }

    async fn owner(&self, chat: &ChatId) -> Result<Option<Owner>, StoreError> {
        Ok(self.lock().chats.get(chat).map(|chat| chat.owner.clone()))
    }

    async fn call(&self, chat: &ChatId, target: &AnswerTarget) -> Result<Option<Call>, StoreError> {
        Ok(self
            .lock()
            .chats
            .get(chat)
            .and_then(|chat| chat.calls().find(|call| is_target(call, target)).cloned()))
    }

    async fn commit(
        &self,
        chat: &ChatId,
        fence: Fence,
        at: Timestamp,
        changes: Vec<Change>,
    ) -> Result<Fence, StoreError> {
        if changes.is_empty() {
            return Ok(fence);
        }
        let Inner { chats, audit, .. } = &mut *self.lock();
        check(chats, chat, fence)?;
        let mut changed = chats.get(chat).cloned();
        let is_news = changes.iter().any(Change::is_news);
        let noted: Vec<AuditRecord> = changes.iter().filter_map(|change| noted(chat, at, change)).collect();
        for change in changes {
            changed = Some(apply(changed, change, at)?);
        }
        if let Some(mut changed) = changed {
            if is_news {
                changed.updated_at = page::whole_microseconds(at);
            }
            changed.fence = fence.next();
            chats.insert(chat.clone(), changed);
        }
        audit.extend(noted);
        Ok(fence.next())
    }

    async fn chats(&self, owner: &Owner, limit: usize, before: Option<&str>) -> Result<ChatPage, StoreError> {
        let before = before.map(Cursor::parse).transpose()?.map(|cursor| (cursor.updated_at, cursor.chat));
        let Inner { chats, alive, .. } = &*self.lock();
        let mut places: Vec<_> = chats
            .iter()
            .filter(|(_, chat)| chat.owner == *owner)
            .map(|(id, chat)| (chat.updated_at.as_microsecond(), id.clone()))
            .filter(|place| before.as_ref().is_none_or(|before| place < before))
            .collect();
        places.sort_by(|a, b| b.cmp(a));
        let more = places.len() > limit;
        places.truncate(limit);
        let next = places
            .last()
            .filter(|_| more)
            .map(|(updated_at, chat)| Cursor { updated_at: *updated_at, chat: chat.clone() });
        let summaries =
            places.iter().filter_map(|(_, id)| chats.get(id).map(|chat| chat.summary(id, alive))).collect();
        Ok(ChatPage { chats: summaries, next: next.map(|cursor| cursor.encode()) })
    }

    async fn delete(&self, chat: &ChatId, fence: Fence) -> Result<(), StoreError> {
        let chats = &mut self.lock().chats;
        check(chats, chat, fence)?;
        chats.remove(chat);
        Ok(())
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        let inner = self.lock();
        let due = inner.left_alone().filter_map(|(id, run)| Some((run.expires?, id)));
        Ok(first(due.filter(|(expires, _)| *expires <= now), limit))
    }

    async fn orphans(&self, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        let inner = self.lock();
        let at_work = inner.left_alone().filter(|(_, run)| !run.waiting);
        Ok(first(at_work.map(|(id, run)| (run.started, id)), limit))
    }

    async fn kept(&self, owner: &Owner, instance: &InstanceId) -> Result<Kept, StoreError> {
        let inner = self.lock();
        let mut kept = Kept::default();
        for chat in inner.chats.values().filter(|chat| chat.owner == *owner) {
            kept.chats += 1;
            kept.bytes += chat.messages.iter().map(json_bytes).sum::<usize>();
            let elsewhere = chat.open_run().filter(|run| run.driver.as_ref() != Some(instance));
            kept.runs_elsewhere += usize::from(elsewhere.is_some());
        }
        Ok(kept)
    }

    async fn forget(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let chats = &mut self.lock().chats;
        let old = chats.iter().filter(|(_, chat)| chat.open_run().is_none() && chat.updated_at < before);
        let old = first(old.map(|(id, chat)| (chat.updated_at, id)), limit);
        for chat in &old {
            chats.remove(chat);
        }
        Ok(old.len())
    }

    async fn finished_log(
        &self,
        chat: &ChatId,
        run: &RunId,
    ) -> Result<Option<Vec<(u64, String)>>, StoreError> {
        let inner = self.lock();
        let mut runs = inner.chats.get(chat).into_iter().flat_map(|chat| &chat.runs);
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
            (0..audit.len()).filter(|&place| audit[place].at < before).take(limit).collect();
        old.iter().rev().for_each(|&place| _ = audit.remove(place));
        Ok(old.len())
    }

    async fn join(&self, instance: &InstanceId) -> Result<Joined, StoreError> {
        let mut inner = self.lock();
        inner.alive.insert(instance.clone());
        Ok(Joined { now: None, mark: inner.mark })
    }

    async fn beat(&self, instance: &InstanceId) -> Result<Beat, StoreError> {
        let alive = &mut self.lock().alive;
        let was_dead = alive.insert(instance.clone());
        Ok(Beat { was_dead, alive: alive.iter().cloned().collect(), now: None })
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
        for run in runs.filter(|run| run.open && run.waiting && run.driver.as_ref() == Some(instance)) {
            run.driver = None;
        }
        Ok(())
    }

    async fn leave(&self, instance: &InstanceId) -> Result<(), StoreError> {
        self.bury(instance);
        Ok(())
    }

    async fn try_lock(&self, key: &ResourceKey, instance: &InstanceId) -> Result<bool, StoreError> {
        let mut inner = self.lock();
        // Nothing would free the lock of an instance that has been taken for dead.
        if !inner.alive.contains(instance) {
            return Ok(false);
        }
        let holder = inner.locks.entry(key.clone()).or_insert_with(|| instance.clone());
        Ok(holder == instance)
    }

    async fn unlock(&self, key: &ResourceKey, instance: &InstanceId) -> Result<(), StoreError> {
        let locks = &mut self.lock().locks;
        if locks.get(key) == Some(instance) {
            locks.remove(key);
        }
        Ok(())
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn ready(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Whether the chat is as who writes to it knows it.
fn check(chats: &BTreeMap<ChatId, Chat>, chat: &ChatId, fence: Fence) -> Result<(), StoreError> {
    let now = chats.get(chat).map_or(Fence::NONE, |chat| chat.fence);
    if now == fence { Ok(()) } else { Err(StoreError::Fenced) }
}

/// The first of them in their order.
fn first<'a>(chats: impl Iterator<Item = (Timestamp, &'a ChatId)>, limit: usize) -> Vec<ChatId> {
    let mut chats: Vec<_> = chats.collect();
    chats.sort();
    chats.into_iter().take(limit).map(|(_, id)| id.clone()).collect()
}

/// The chat after the change.
fn apply(chat: Option<Chat>, change: Change, at: Timestamp) -> Result<Chat, StoreError> {
    match (chat, change) {
        (None, Change::CreateChat { owner, profile }) => Ok(Chat::new(owner, profile, at)),
        (None, _) => Err(misfit("there is no such chat")),
        (Some(mut chat), change) => chat.apply(change, at).map(|()| chat),
    }
}

fn misfit(why: impl Into<String>) -> StoreError {
    StoreError::Conflict(why.into())
}

fn is_target(call: &Call, target: &AnswerTarget) -> bool {
    match target {
        AnswerTarget::Call(id) => call.id == *id,
        AnswerTarget::Approval(id) => {
            call.approval_request.as_ref().is_some_and(|question| question.id == *id)
        }
        AnswerTarget::Elicitation(_) => false,
    }
}

// === impl Inner ===

impl Inner {
    /// Open runs that no instance alive drives.
    fn left_alone(&self) -> impl Iterator<Item = (&ChatId, &Run)> {
        let open = self.chats.iter().filter_map(|(id, chat)| Some((id, chat.open_run()?)));
        open.filter(|(_, run)| run.driver.as_ref().is_none_or(|driver| !self.alive.contains(driver)))
    }
}

/// A decision among the changes of a commit, as it is noted.
fn noted(chat: &ChatId, at: Timestamp, change: &Change) -> Option<AuditRecord> {
    let Change::Audit { owner, run, event } = change else { return None };
    let at = page::whole_microseconds(at);
    let (owner, run) = (owner.clone(), run.clone());
    Some(AuditRecord { at, owner, chat: chat.clone(), run, event: AuditEvent::clone(event) })
}

// === impl Chat ===

impl Chat {
    fn new(owner: Owner, profile: Profile, at: Timestamp) -> Self {
        let at = page::whole_microseconds(at);
        Self {
            fence: Fence::NONE,
            owner,
            profile,
            created_at: at,
            updated_at: at,
            messages: Vec::new(),
            runs: Vec::new(),
            confirmations: Vec::new(),
            grant_ends: Vec::new(),
        }
    }

    fn record(&self, alive: &BTreeSet<InstanceId>) -> ChatRecord {
        let driver = self.open_run().and_then(|run| run.driver.clone());
        ChatRecord {
            fence: self.fence,
            driver: driver.filter(|driver| alive.contains(driver)),
            owner: self.owner.clone(),
            profile: self.profile,
            bytes: self.messages.iter().map(json_bytes).sum(),
            confirmations: self.confirmations.clone(),
            grant_ends: self.grant_ends.clone(),
            open_run: self.open_run().map(|run| run.record(&self.messages)),
        }
    }

    fn summary(&self, id: &ChatId, alive: &BTreeSet<InstanceId>) -> ChatSummary {
        let first = self.messages.iter().find(|message| message.role == Role::User);
        ChatSummary {
            id: id.clone(),
            title: first.and_then(page::title),
            created_at: self.created_at,
            updated_at: self.updated_at,
            open: self.open_run().is_some_and(|run| !run.let_go),
            pending: self.open_run().map_or(0, |run| run.pending(alive)),
        }
    }

    fn calls(&self) -> impl Iterator<Item = &Call> {
        self.runs.iter().flat_map(|run| &run.calls)
    }

    fn open_run(&self) -> Option<&Run> {
        self.runs.iter().find(|run| run.open)
    }

    fn run(&mut self, id: &RunId) -> Result<&mut Run, StoreError> {
        self.runs.iter_mut().find(|run| run.id == *id).ok_or_else(|| misfit(format!("there is no run {id}")))
    }

    fn run_in_progress(&mut self, id: &RunId) -> Result<&mut Run, StoreError> {
        let run = self.run(id)?;
        if run.open { Ok(run) } else { Err(misfit(format!("run {id} is over"))) }
    }

    fn apply(&mut self, change: Change, at: Timestamp) -> Result<(), StoreError> {
        match change {
            Change::CreateChat { .. } => return Err(misfit("the chat is there already")),
            Change::Posted { profile } => self.profile = profile,
            Change::TruncateMessages { keep } => self.messages.truncate(keep),
            Change::PutMessage(message) => self.put_message(*message),
            Change::OpenRun { run, message, driver } => self.open(run, message, driver, at)?,
            Change::Drive { run, driver, attempts } => {
                let run = self.run_in_progress(&run)?;
                (run.driver, run.attempts) = (driver, attempts);
            }
            Change::PutSettings { run, settings } => self.run_in_progress(&run)?.settings = settings,
            Change::SaveRun { run, state, expires, waiting, let_go, questions, driver, attempts } => {
                let run = self.run_in_progress(&run)?;
                run.attempts = attempts;
                (run.state, run.expires, run.driver) = (state, expires, driver);
                (run.waiting, run.let_go, run.questions) = (waiting, let_go, questions);
            }
            Change::AppendChunks { chunks, .. } if chunks.is_empty() => {}
            Change::AppendChunks { run, first, chunks } => {
                self.run_in_progress(&run)?.append(first, chunks)?
            }
            Change::PutCall { run, call } => self.put_call(&run, *call)?,
            Change::Confirm { run, call, by, fingerprint } => {
                self.run(&run)?;
                let confirmation = Confirmation::of(&call, by, at, fingerprint)
                    .ok_or_else(|| misfit(format!("nothing was decided about call {}", call.id)))?;
                self.confirmations.push(confirmation);
            }
            Change::EndGrant { tool, by } => {
                let (at, after) = (page::whole_microseconds(at), self.confirmations.len());
                self.grant_ends.push(GrantEnd { tool, by, at, after });
            }
            // It is no part of the chat.
            Change::Audit { .. } => {}
            Change::CloseRun { run, outcome: _ } => self.run_in_progress(&run)?.close(at),
        }
        Ok(())
    }

    fn put_message(&mut self, message: UiMessage) {
        match self.messages.iter_mut().find(|known| known.id == message.id) {
            Some(known) => *known = message,
            None => self.messages.push(message),
        }
    }

    fn open(
        &mut self,
        id: RunId,
        message: MessageId,
        driver: InstanceId,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        if self.runs.iter().any(|run| run.open || run.id == id) {
            return Err(misfit(format!("run {id} cannot be opened: it is known, or another one is open")));
        }
        self.runs.push(Run::new(id, message, driver, at));
        Ok(())
    }

    fn put_call(&mut self, run: &RunId, call: Call) -> Result<(), StoreError> {
        let taken = |known: &Call| match &call.approval_request {
            Some(question) => {
                known.id != call.id && is_target(known, &AnswerTarget::Approval(question.id.clone()))
            }
            None => false,
        };
        let elsewhere =
            self.runs.iter().any(|other| other.id != *run && other.calls.iter().any(|c| c.id == call.id));
        if elsewhere || self.calls().any(taken) {
            return Err(misfit(format!("call {} or its question belongs to another run or call", call.id)));
        }
        self.run(run)?.put_call(call);
        Ok(())
    }
}

// === impl Run ===

impl Run {
    /// How much of it waits for somebody. A question lives no longer than who drives its run.
    fn pending(&self, alive: &BTreeSet<InstanceId>) -> usize {
        let calls = self.calls.iter().filter(|call| call.awaits_answer()).count();
        let is_driven = self.driver.as_ref().is_some_and(|driver| alive.contains(driver));
        calls + if is_driven { self.questions } else { 0 }
    }

    fn new(id: RunId, message: MessageId, driver: InstanceId, at: Timestamp) -> Self {
        Self {
            id,
            message,
            open: true,
            driver: Some(driver),
            waiting: false,
            let_go: false,
            questions: 0,
            attempts: 0,
            started: at,
            ended: None,
            settings: Value::Null,
            state: Value::Null,
            expires: None,
            chunks: Vec::new(),
            calls: Vec::new(),
        }
    }

    fn record(&self, messages: &[UiMessage]) -> RunRecord {
        let message = messages.iter().find(|message| message.id == self.message);
        RunRecord {
            id: self.id.clone(),
            message: self.message.clone(),
            message_bytes: message.map_or(0, json_bytes),
            settings: self.settings.clone(),
            state: self.state.clone(),
            chunks: self.chunks.clone(),
            calls: self.calls.clone(),
            waiting: self.waiting,
            attempts: self.attempts,
        }
    }

    fn append(&mut self, first: u64, chunks: Vec<String>) -> Result<(), StoreError> {
        let next = self.chunks.last().map_or(1, |(last, _)| last + 1);
        if first < next || i64::try_from(first).is_err() {
            return Err(misfit(format!(
                "the log of run {} goes on at {next} or later, not at {first}",
                self.id
            )));
        }
        self.chunks.extend((first..).zip(chunks));
        Ok(())
    }

    fn put_call(&mut self, call: Call) {
        match self.calls.iter_mut().find(|known| known.id == call.id) {
            Some(known) => *known = call,
            None => self.calls.push(call),
        }
    }

    fn close(&mut self, at: Timestamp) {
        self.open = false;
        self.ended = Some(at);
        self.driver = None;
        self.settings = Value::Null;
        self.state = Value::Null;
        self.expires = None;
    }
}
