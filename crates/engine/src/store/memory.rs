//! The reference store: what [`Store`] means, without I/O. Forgets everything with the process.
//!
//! Invariant: a commit works on a copy of the chat and puts it back whole, so a change that does not fit leaves nothing.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use fermata_protocol::{AnswerTarget, ChatId, MessageId, Profile, Role, RunId, UiMessage};
use fermata_tools::{Call, Confirmation, Owner};
use jiff::Timestamp;
use serde_json::Value;

use super::{
    Change, ChatPage, ChatRecord, ChatSummary, RunRecord, Store, StoreError,
    page::{self, Cursor},
};

/// A store that lives as long as the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    // One lock for all: it is held for a few copies in memory and never across an await.
    chats: Mutex<BTreeMap<ChatId, Chat>>,
}

#[derive(Clone, Debug)]
struct Chat {
    owner: Owner,
    profile: Profile,
    created_at: Timestamp,
    updated_at: Timestamp,
    messages: Vec<UiMessage>,
    runs: Vec<Run>,
    confirmations: Vec<Confirmation>,
}

#[derive(Clone, Debug)]
struct Run {
    id: RunId,
    message: MessageId,
    open: bool,
    state: Value,
    expires: Option<Timestamp>,
    chunks: Vec<(u64, String)>,
    calls: Vec<Call>,
}

// === impl MemoryStore ===

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ChatId, Chat>> {
        // A panic elsewhere cannot leave a chat half changed, so the map behind a poisoned lock is whole.
        self.chats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn chat(&self, chat: &ChatId) -> Result<Option<ChatRecord>, StoreError> {
        Ok(self.lock().get(chat).map(Chat::record))
    }

    async fn messages(&self, chat: &ChatId) -> Result<Vec<UiMessage>, StoreError> {
        Ok(self.lock().get(chat).map(|chat| chat.messages.clone()).unwrap_or_default())
    }

    async fn owner(&self, chat: &ChatId) -> Result<Option<Owner>, StoreError> {
        Ok(self.lock().get(chat).map(|chat| chat.owner.clone()))
    }

    async fn call(&self, chat: &ChatId, target: &AnswerTarget) -> Result<Option<Call>, StoreError> {
        Ok(self.lock().get(chat).and_then(|chat| chat.calls().find(|call| is_target(call, target)).cloned()))
    }

    async fn commit(&self, chat: &ChatId, at: Timestamp, changes: Vec<Change>) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut chats = self.lock();
        let mut changed = chats.get(chat).cloned();
        for change in changes {
            changed = Some(apply(changed, change, at)?);
        }
        if let Some(mut changed) = changed {
            changed.updated_at = page::whole_microseconds(at);
            chats.insert(chat.clone(), changed);
        }
        Ok(())
    }

    async fn chats(&self, owner: &Owner, limit: usize, before: Option<&str>) -> Result<ChatPage, StoreError> {
        let before = before.map(Cursor::parse).transpose()?.map(|cursor| (cursor.updated_at, cursor.chat));
        let chats = self.lock();
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
            places.iter().filter_map(|(_, id)| chats.get(id).map(|chat| chat.summary(id))).collect();
        Ok(ChatPage { chats: summaries, next: next.map(|cursor| cursor.encode()) })
    }

    async fn delete(&self, chat: &ChatId) -> Result<(), StoreError> {
        self.lock().remove(chat);
        Ok(())
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        let chats = self.lock();
        let mut due: Vec<_> = chats
            .iter()
            .filter_map(|(id, chat)| Some((chat.open_run()?.expires.filter(|expires| *expires <= now)?, id)))
            .collect();
        due.sort();
        Ok(due.into_iter().take(limit).map(|(_, id)| id.clone()).collect())
    }

    async fn ready(&self) -> Result<(), StoreError> {
        Ok(())
    }
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
        AnswerTarget::Approval(id) => call.question.as_ref().is_some_and(|question| question.id == *id),
        AnswerTarget::Elicitation(_) => false,
    }
}

// === impl Chat ===

impl Chat {
    fn new(owner: Owner, profile: Profile, at: Timestamp) -> Self {
        let at = page::whole_microseconds(at);
        Self {
            owner,
            profile,
            created_at: at,
            updated_at: at,
            messages: Vec::new(),
            runs: Vec::new(),
            confirmations: Vec::new(),
        }
    }

    fn record(&self) -> ChatRecord {
        ChatRecord {
            owner: self.owner.clone(),
            profile: self.profile,
            confirmations: self.confirmations.clone(),
            open_run: self.open_run().map(Run::record),
        }
    }

    fn summary(&self, id: &ChatId) -> ChatSummary {
        let first = self.messages.iter().find(|message| message.role == Role::User);
        ChatSummary {
            id: id.clone(),
            title: first.and_then(page::title),
            created_at: self.created_at,
            updated_at: self.updated_at,
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
            Change::OpenRun { run, message } => self.open(run, message)?,
            Change::SaveRun { run, state, expires } => {
                let run = self.run_in_progress(&run)?;
                (run.state, run.expires) = (state, expires);
            }
            Change::AppendChunks { chunks, .. } if chunks.is_empty() => {}
            Change::AppendChunks { run, first, chunks } => {
                self.run_in_progress(&run)?.append(first, chunks)?
            }
            Change::PutCall { run, call } => self.put_call(&run, *call)?,
            Change::Confirm { run, call, by } => self.confirm(&run, &call, by, at)?,
            Change::CloseRun { run, outcome: _ } => self.run_in_progress(&run)?.close(),
        }
        Ok(())
    }

    fn put_message(&mut self, message: UiMessage) {
        match self.messages.iter_mut().find(|known| known.id == message.id) {
            Some(known) => *known = message,
            None => self.messages.push(message),
        }
    }

    fn open(&mut self, id: RunId, message: MessageId) -> Result<(), StoreError> {
        if self.runs.iter().any(|run| run.open || run.id == id) {
            return Err(misfit(format!("run {id} cannot be opened: it is known, or another one is open")));
        }
        self.runs.push(Run::new(id, message));
        Ok(())
    }

    fn put_call(&mut self, run: &RunId, call: Call) -> Result<(), StoreError> {
        let taken = |known: &Call| match &call.question {
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

    fn confirm(&mut self, run: &RunId, call: &Call, by: Owner, at: Timestamp) -> Result<(), StoreError> {
        self.run(run)?;
        let confirmation = Confirmation::of(call, by, at)
            .ok_or_else(|| misfit(format!("nothing was decided about call {}", call.id)))?;
        self.confirmations.push(confirmation);
        Ok(())
    }
}

// === impl Run ===

impl Run {
    fn new(id: RunId, message: MessageId) -> Self {
        Self {
            id,
            message,
            open: true,
            state: Value::Null,
            expires: None,
            chunks: Vec::new(),
            calls: Vec::new(),
        }
    }

    fn record(&self) -> RunRecord {
        RunRecord {
            id: self.id.clone(),
            message: self.message.clone(),
            state: self.state.clone(),
            chunks: self.chunks.clone(),
            calls: self.calls.clone(),
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

    fn close(&mut self) {
        self.open = false;
        self.state = Value::Null;
        self.expires = None;
        self.chunks = Vec::new();
    }
}
