//! Clients that follow runs: the chunks that each has read, and the message that it has built.

use std::sync::{Arc, Mutex};

use fermata_engine::Following;
use fermata_protocol::{Assembler, ChatId, EventId, MessageId, Profile, RunId, UiChunk, UiMessage};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{history::History, process::Process};

/// A client that follows a run.
pub struct Client {
    pub chat: ChatId,
    pub run: RunId,
    pub profile: Profile,
    /// `true` if a client of another version has posted meanwhile, so that this one got chunks of two versions.
    pub is_mixed: bool,
    /// The message that it showed before it began to read.
    pub base: Option<UiMessage>,
    pub read: Vec<Event>,
    pub end: StreamEnd,
    /// Cancelled to close the stream.
    pub close: CancellationToken,
}

/// An event of the stream.
#[derive(Clone)]
pub struct Event {
    pub id: String,
    pub chunk: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The stream is open.
    Open,
    /// The client has read `[DONE]`.
    Done,
    /// The client has closed the stream, or its instance was killed.
    Broken,
}

pub type SharedClient = Arc<Mutex<Client>>;

// === impl Client ===

impl Client {
    /// Returns a client that is about to read; `before` is the client that it goes on for.
    pub fn new(following: &Following, base: Option<UiMessage>, before: Option<&Self>) -> Self {
        let profile = profile_of(following);
        let before = before.filter(|before| before.run == following.run);
        let mut read = before.map(|before| before.read.clone()).unwrap_or_default();
        read.retain(|event| event.chunk["type"] != "error");
        Self {
            chat: following.chat.clone(),
            run: following.run.clone(),
            profile,
            is_mixed: before.is_some_and(|before| before.is_mixed || before.profile != profile),
            base: before.map_or(base, |before| before.base.clone()),
            read,
            end: StreamEnd::Open,
            close: CancellationToken::new(),
        }
    }

    /// Returns a copy that does not read on.
    pub fn fork(&self) -> Self {
        let Self { chat, run, profile, is_mixed, base, read, end, .. } = self;
        Self {
            chat: chat.clone(),
            run: run.clone(),
            profile: *profile,
            is_mixed: *is_mixed,
            base: base.clone(),
            read: read.clone(),
            end: *end,
            close: CancellationToken::new(),
        }
    }

    /// Returns the id of the last event. The client would resume after it.
    pub fn position(&self) -> Option<EventId> {
        EventId::parse(&self.read.last()?.id)
    }

    pub fn has(&self, kind: &str) -> bool {
        self.read.iter().any(|event| event.chunk["type"] == kind)
    }

    /// Returns whether the client has read the end of the run, and not only the end of its stream.
    pub fn has_read_end(&self) -> bool {
        let last = self.read.iter().rfind(|event| event.chunk["type"] == "finish");
        last.is_some_and(|event| is_of_log(&event.id)) && !self.has("error")
    }

    /// Returns the message that the client shows.
    pub fn message(&self) -> Result<Assembler, String> {
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

    /// Checks that no event comes twice, unless the step was reset before.
    fn check_order(&self, history: &History, id: &str, chunk: &Value) {
        let position = |id: &str| EventId::parse(id).map(|event| event.seq);
        let last = self.read.iter().rfind(|event| is_of_log(&event.id));
        let is_reset = self.read.last().is_some_and(|event| event.chunk["type"] == "reset-step");
        if is_of_log(id) && !is_reset && last.is_some_and(|last| position(&last.id) >= position(id)) {
            history.violation(format!("{id} {chunk} comes again, after {}", self.types()));
        }
    }

    fn receive(&mut self, history: &History, bytes: &[u8]) {
        let mut id = "";
        for line in std::str::from_utf8(bytes).unwrap().lines() {
            if let Some(event_id) = line.strip_prefix("id: ") {
                id = event_id;
            } else if line == "data: [DONE]" {
                self.end = StreamEnd::Done;
            } else if let Some(data) = line.strip_prefix("data: ") {
                let chunk: Value = serde_json::from_str(data).unwrap();
                history.note_read(self.profile, id, &chunk);
                if chunk["type"] == "start" && is_of_log(id) {
                    // The stream begins again.
                    (self.read, self.base) = (Vec::new(), None);
                }
                self.check_order(history, id, &chunk);
                self.read.push(Event { id: id.to_owned(), chunk });
            }
        }
    }
}

/// Reads the stream to its end, unless it is closed or the instance is killed.
pub async fn read_stream(client: SharedClient, following: Following, process: Arc<Process>) {
    let history = process.conditions.history.clone();
    let close = client.lock().unwrap().close.clone();
    let Following { mut reader, .. } = following;
    loop {
        let bytes = tokio::select! {
            biased;
            () = process.killed.cancelled() => None,
            () = close.cancelled() => None,
            bytes = reader.next() => bytes,
        };
        let mut client = client.lock().unwrap();
        match bytes {
            Some(bytes) => client.receive(&history, &bytes),
            None if client.end == StreamEnd::Open => {
                client.end = StreamEnd::Broken;
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
    let all = [Profile::V5, Profile::V6, Profile::V7];
    all.into_iter().find(|profile| shown.contains(&format!("{profile:?}"))).unwrap()
}
