//! What was promised to somebody and what was seen, over all instances: what must therefore be so in the end.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
};

use fermata_protocol::{Answer, ChatId, EventId, Profile};
use serde_json::Value;
use tokio::time::Instant;

/// What has been seen.
pub struct Facts {
    began: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
pub struct State {
    /// What must not be.
    pub faults: Vec<String>,
    pub promises: Vec<Promise>,
    cuts: Vec<Cut>,
    /// What each place of a log has named.
    events: HashMap<(u8, String), Value>,
    /// What happened, for whoever has to find out why.
    log: Vec<String>,
}

/// Something that was acknowledged.
#[derive(Clone, Debug)]
pub struct Promise {
    pub chat: ChatId,
    /// When it was asked for.
    asked: Instant,
    pub what: Promised,
}

#[derive(Clone, Debug)]
pub enum Promised {
    Answer(Answer),
    /// A user's message, by its words.
    Message(String),
}

/// Something that takes messages away: all of a chat, or its end.
struct Cut {
    chat: ChatId,
    is_all: bool,
    /// When it was done for certain; before that it may be done at any time.
    done: Option<Instant>,
}

// === impl Facts ===

impl Facts {
    pub fn new() -> Self {
        Self { began: Instant::now(), state: Mutex::default() }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn fault(&self, words: impl Into<String>) {
        let words = words.into();
        self.log(format!("FAULT {words}"));
        self.lock().faults.push(words);
    }

    pub fn log(&self, words: impl Into<String>) {
        let words = format!("{:>9.3} {}", self.began.elapsed().as_secs_f64(), words.into());
        self.lock().log.push(words);
    }

    pub fn promise(&self, chat: &ChatId, asked: Instant, what: Promised) {
        self.lock().promises.push(Promise { chat: chat.clone(), asked, what });
    }

    /// Something is asked for that takes messages away; to be told to [`Facts::cut_is_done`].
    pub fn cut_begins(&self, chat: &ChatId, is_all: bool) -> usize {
        let mut state = self.lock();
        let number = state.cuts.len();
        state.cuts.push(Cut { chat: chat.clone(), is_all, done: None });
        number
    }

    pub fn cut_is_done(&self, number: usize) {
        self.lock().cuts[number].done = Some(Instant::now());
    }

    /// Something of a chat is not there, which is as it should be where the chat was deleted.
    pub fn note_missing(&self, chat: &ChatId, words: &str) {
        let was_deleted = self.lock().cuts.iter().any(|cut| cut.is_all && cut.chat == *chat);
        if !was_deleted {
            self.fault(words);
        }
    }

    /// Whether somebody posted messages of a chat again, which is then made anew with them.
    pub fn may_come_back(&self, chat: &ChatId) -> bool {
        self.lock().cuts.iter().any(|cut| !cut.is_all && cut.chat == *chat)
    }

    /// Whether messages of a chat may be missing.
    pub fn was_cut(&self, chat: &ChatId) -> bool {
        self.lock().cuts.iter().any(|cut| cut.chat == *chat)
    }

    /// A reader of this version has read an event.
    pub fn read(&self, profile: Profile, id: &str, chunk: &Value) {
        if EventId::parse(id).is_none_or(|event| event.to_string() != id) {
            // It was for this reader alone.
            return;
        }
        let mut state = self.lock();
        let known = state.events.entry((profile.major(), id.to_owned())).or_insert_with(|| chunk.clone());
        if !is_same(known, chunk) {
            let words = format!("{id} names {known} and {chunk}");
            drop(state);
            self.fault(words);
        }
    }

    /// Ends the test where something was not as it must be.
    pub fn judge(&self) {
        let state = self.lock();
        assert!(
            state.faults.is_empty(),
            "{}\n  as follows:\n{}",
            state.faults.join("\n"),
            state.log.join("\n")
        );
    }
}

impl State {
    /// Whether what was promised may be gone; `from_all`: with all that is known of its chat.
    pub fn may_be_gone(&self, promise: &Promise, from_all: bool) -> bool {
        let mut cuts = self.cuts.iter().filter(|cut| cut.chat == promise.chat && (cut.is_all || !from_all));
        cuts.any(|cut| cut.done.is_none_or(|done| done >= promise.asked))
    }
}

/// Words are put together in the log of a run that is over; they stand at the place of the last piece.
fn is_same(one: &Value, other: &Value) -> bool {
    let are_words = one["type"] == other["type"] && one["id"] == other["id"];
    match (one["delta"].as_str(), other["delta"].as_str()) {
        (Some(one), Some(other)) if are_words => one.ends_with(other) || other.ends_with(one),
        _ => one == other,
    }
}
