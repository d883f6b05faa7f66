//! The effects that instances have acknowledged, the events that clients have read, and the invariants that were violated.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard},
};

use fermata_protocol::{Answer, ApprovalId, ChatId, EventId, Profile};
use serde_json::Value;
use tokio::time::Instant;

/// The history of a schedule.
pub struct History {
    began: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
pub struct State {
    /// The violations of invariants.
    pub violations: Vec<String>,
    pub acknowledgments: Vec<Acknowledgment>,
    removals: Vec<Removal>,
    /// The approvals that the senders of words of consent were shown.
    shown_to_senders: HashSet<ApprovalId>,
    /// The chunks that were read, by the version of the client and the id of the event.
    events: HashMap<(u8, String), Value>,
    /// Everything that happened, to be printed if the schedule fails.
    log: Vec<String>,
}

/// An effect that was acknowledged, and has to last.
#[derive(Clone, Debug)]
pub struct Acknowledgment {
    pub chat: ChatId,
    /// The time of the request.
    requested_at: Instant,
    pub effect: Effect,
}

#[derive(Clone, Debug)]
pub enum Effect {
    Answer(Answer),
    /// A user message with this text.
    Message(String),
}

/// A request that removes messages: all of a chat, or the last ones.
struct Removal {
    chat: ChatId,
    is_all: bool,
    /// The latest time when it was done; it may have happened at any time before.
    done: Option<Instant>,
}

// === impl Facts ===

impl History {
    pub fn new() -> Self {
        Self { began: Instant::now(), state: Mutex::default() }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn violation(&self, text: impl Into<String>) {
        let text = text.into();
        self.log(format!("VIOLATION {text}"));
        self.lock().violations.push(text);
    }

    pub fn log(&self, event: impl Into<String>) {
        let event = format!("{:>9.3} {}", self.began.elapsed().as_secs_f64(), event.into());
        self.lock().log.push(event);
    }

    pub fn acknowledge(&self, chat: &ChatId, requested_at: Instant, effect: Effect) {
        self.lock().acknowledgments.push(Acknowledgment { chat: chat.clone(), requested_at, effect });
    }

    /// Notes the approvals that the sender of a word of consent was shown.
    pub fn show_to_sender(&self, approvals: Vec<ApprovalId>) {
        self.lock().shown_to_senders.extend(approvals);
    }

    /// Returns whether the sender of a word of consent was shown an approval.
    pub fn was_shown(&self, approval: &ApprovalId) -> bool {
        self.lock().shown_to_senders.contains(approval)
    }

    /// Notes a request that removes messages. Returns its number, for [`History::end_removal`].
    pub fn begin_removal(&self, chat: &ChatId, is_all: bool) -> usize {
        let mut state = self.lock();
        let number = state.removals.len();
        state.removals.push(Removal { chat: chat.clone(), is_all, done: None });
        number
    }

    pub fn end_removal(&self, number: usize) {
        self.lock().removals[number].done = Some(Instant::now());
    }

    /// Notes that something of a chat is missing, which is a violation unless the chat was deleted.
    pub fn check_missing(&self, chat: &ChatId, text: &str) {
        let was_deleted = self.lock().removals.iter().any(|removal| removal.is_all && removal.chat == *chat);
        if !was_deleted {
            self.violation(text);
        }
    }

    /// Returns whether messages of a chat were posted again, which creates the chat again if it was deleted.
    pub fn may_be_recreated(&self, chat: &ChatId) -> bool {
        self.lock().removals.iter().any(|removal| !removal.is_all && removal.chat == *chat)
    }

    /// Returns whether messages of a chat may be missing.
    pub fn may_lack_messages(&self, chat: &ChatId) -> bool {
        self.lock().removals.iter().any(|removal| removal.chat == *chat)
    }

    /// Notes an event that a client of this version has read, and checks that its id names the same chunk for all.
    pub fn note_read(&self, profile: Profile, id: &str, chunk: &Value) {
        if EventId::parse(id).is_none_or(|event| event.to_string() != id) {
            // The chunk was for this client alone.
            return;
        }
        let mut state = self.lock();
        let known = state.events.entry((profile.major(), id.to_owned())).or_insert_with(|| chunk.clone());
        if !is_same(known, chunk) {
            let text = format!("{id} names {known} and {chunk}");
            drop(state);
            self.violation(text);
        }
    }

    /// Panics if an invariant was violated, with everything that happened.
    pub fn assert_no_violation(&self) {
        let state = self.lock();
        assert!(
            state.violations.is_empty(),
            "{}\n  as follows:\n{}",
            state.violations.join("\n"),
            state.log.join("\n")
        );
    }
}

impl State {
    /// Returns whether an acknowledged effect may be missing. Calls are missing only if the whole chat was deleted.
    pub fn may_be_removed(&self, acknowledgment: &Acknowledgment, is_call: bool) -> bool {
        let mut removals = self
            .removals
            .iter()
            .filter(|removal| removal.chat == acknowledgment.chat && (removal.is_all || !is_call));
        removals.any(|removal| removal.done.is_none_or(|done| done >= acknowledgment.requested_at))
    }
}

/// Returns whether two chunks are the same. The log of a run that is over has joined deltas, at the position of the last one.
fn is_same(one: &Value, other: &Value) -> bool {
    let are_deltas = one["type"] == other["type"] && one["id"] == other["id"];
    match (one["delta"].as_str(), other["delta"].as_str()) {
        (Some(one), Some(other)) if are_deltas => one.ends_with(other) || other.ends_with(one),
        _ => one == other,
    }
}
