//! Those who read: what each was sent, and the message that it has made of it.

use std::sync::{Arc, Mutex};

use fermata_engine::Following;
use fermata_protocol::{Assembler, ChatId, EventId, MessageId, Profile, RunId, UiChunk, UiMessage};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{facts::Facts, life::Life};

/// A page that follows a run.
pub struct Client {
    pub chat: ChatId,
    pub run: RunId,
    pub profile: Profile,
    /// Whether another version has posted in between, so that it was sent chunks of two versions.
    pub is_mixed: bool,
    /// What it showed before.
    pub base: Option<UiMessage>,
    pub read: Vec<Event>,
    pub end: End,
    /// Closes its stream.
    pub leaves: CancellationToken,
}

/// What it has been sent.
#[derive(Clone)]
pub struct Event {
    pub id: String,
    pub chunk: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its stream is open.
    Open,
    /// It was told that this is all.
    Done,
    /// It has gone, or the process that it had asked.
    Cut,
}

pub type Shared = Arc<Mutex<Client>>;

// === impl Client ===

impl Client {
    /// One that has this, and is about to read.
    pub fn new(following: &Following, base: Option<UiMessage>, before: Option<&Self>) -> Self {
        let profile = profile_of(following);
        let before = before.filter(|before| before.run == following.run);
        Self {
            chat: following.chat.clone(),
            run: following.run.clone(),
            profile,
            is_mixed: before.is_some_and(|before| before.is_mixed || before.profile != profile),
            base: before.map_or(base, |before| before.base.clone()),
            read: before.map(|before| before.without_error()).unwrap_or_default(),
            end: End::Open,
            leaves: CancellationToken::new(),
        }
    }

    /// What it has now, where it reads on.
    pub fn copy(&self) -> Self {
        let Self { chat, run, profile, is_mixed, base, read, end, .. } = self;
        Self {
            chat: chat.clone(),
            run: run.clone(),
            profile: *profile,
            is_mixed: *is_mixed,
            base: base.clone(),
            read: read.clone(),
            end: *end,
            leaves: CancellationToken::new(),
        }
    }

    fn without_error(&self) -> Vec<Event> {
        let is_error = |event: &&Event| event.chunk["type"] == "error";
        self.read.iter().filter(|event| !is_error(event)).cloned().collect()
    }

    /// Where it would go on.
    pub fn place(&self) -> Option<EventId> {
        EventId::parse(&self.read.last()?.id)
    }

    pub fn has(&self, kind: &str) -> bool {
        self.read.iter().any(|event| event.chunk["type"] == kind)
    }

    /// Whether it has read the end of the run, and not only the end of its stream.
    pub fn has_all(&self) -> bool {
        let last = self.read.iter().rfind(|event| event.chunk["type"] == "finish");
        last.is_some_and(|event| is_of_log(&event.id)) && !self.has("error")
    }

    /// The message that it shows.
    pub fn shows(&self) -> Result<Assembler, String> {
        let mut message = match &self.base {
            Some(base) => Assembler::from_message(base.clone()),
            None => Assembler::new(MessageId::new("none")),
        };
        for event in &self.read {
            let chunk = UiChunk::from_record(&event.chunk.to_string()).map_err(|error| error.to_string())?;
            message.apply(&chunk).map_err(|error| format!("{error} at {}", event.id))?;
        }
        Ok(message)
    }

    pub fn types(&self) -> String {
        let name = |event: &Event| format!("{}@{}", event.chunk["type"].as_str().unwrap_or(""), event.id);
        self.read.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    /// Nothing comes twice, unless it was taken back before.
    fn check_order(&self, facts: &Facts, id: &str, chunk: &Value) {
        let place = |id: &str| EventId::parse(id).map(|event| event.seq);
        let last = self.read.iter().rfind(|event| is_of_log(&event.id));
        let is_reset = self.read.last().is_some_and(|event| event.chunk["type"] == "reset-step");
        if is_of_log(id) && !is_reset && last.is_some_and(|last| place(&last.id) >= place(id)) {
            facts.fault(format!("{id} {chunk} comes again, after {}", self.types()));
        }
    }

    fn takes(&mut self, facts: &Facts, bytes: &[u8]) {
        let mut id = "";
        for line in std::str::from_utf8(bytes).unwrap().lines() {
            if let Some(named) = line.strip_prefix("id: ") {
                id = named;
            } else if line == "data: [DONE]" {
                self.end = End::Done;
            } else if let Some(data) = line.strip_prefix("data: ") {
                let chunk: Value = serde_json::from_str(data).unwrap();
                facts.read(self.profile, id, &chunk);
                if chunk["type"] == "start" && is_of_log(id) {
                    // From the start.
                    (self.read, self.base) = (Vec::new(), None);
                }
                self.check_order(facts, id, &chunk);
                self.read.push(Event { id: id.to_owned(), chunk });
            }
        }
    }
}

/// Reads on until there is nothing more, or nobody.
pub async fn reads(client: Shared, following: Following, life: Arc<Life>) {
    let facts = life.world.facts.clone();
    let leaves = client.lock().unwrap().leaves.clone();
    let Following { mut reader, .. } = following;
    loop {
        let bytes = tokio::select! {
            biased;
            () = life.dead.cancelled() => None,
            () = leaves.cancelled() => None,
            bytes = reader.next() => bytes,
        };
        let mut client = client.lock().unwrap();
        match bytes {
            Some(bytes) => client.takes(&facts, &bytes),
            None if client.end == End::Open => {
                client.end = End::Cut;
                return;
            }
            None => return,
        }
    }
}

fn is_of_log(id: &str) -> bool {
    EventId::parse(id).is_some_and(|event| event.to_string() == id)
}

fn profile_of(following: &Following) -> Profile {
    let shown = format!("{:?}", following.reader);
    let all = [("V5", Profile::V5), ("V6", Profile::V6), ("V7", Profile::V7)];
    all.into_iter().find(|(name, _)| shown.contains(name)).unwrap().1
}
