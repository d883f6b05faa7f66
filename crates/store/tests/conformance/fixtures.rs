//! Chats, messages and calls to store, and folders to store them in. Knows no store.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use fermata_engine::store::Change;
use fermata_protocol::{ApprovalId, ChatId, MessageId, Profile, Role, RunId, ToolCallId, UiMessage, UiPart};
use fermata_tools::{Call, CallState, Decided, Owner, Question, RunBy};
use jiff::Timestamp;
use serde_json::{Map, json};

/// A folder that goes with the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("store-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self) -> PathBuf {
        self.0.join("fermata.db")
    }

    pub fn url(&self) -> String {
        format!("sqlite://{}", self.file().display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

pub fn chat(id: &str) -> ChatId {
    ChatId::parse(id).unwrap()
}

pub fn alice() -> Owner {
    Owner::new("alice")
}

pub fn bob() -> Owner {
    Owner::new("bob")
}

pub fn run(id: &str) -> RunId {
    RunId::new(id)
}

pub fn create(owner: Owner) -> Change {
    Change::CreateChat { owner, profile: Profile::V6 }
}

pub fn message(id: &str, role: Role, text: &str) -> UiMessage {
    let words =
        UiPart::Text { text: text.into(), streaming: None, provider_metadata: None, extra: Map::new() };
    UiMessage { id: MessageId::new(id), role, metadata: Some(json!({"n": 0.1})), parts: vec![words] }
}

pub fn user(id: &str, text: &str) -> UiMessage {
    message(id, Role::User, text)
}

pub fn put(message: UiMessage) -> Change {
    Change::PutMessage(Box::new(message))
}

pub fn open(id: &str) -> Change {
    Change::OpenRun { run: run(id), message: MessageId::new("answer") }
}

pub fn close(id: &str) -> Change {
    Change::CloseRun { run: run(id), outcome: "finished" }
}

pub fn append(id: &str, first: u64, chunks: &[&str]) -> Change {
    Change::AppendChunks { run: run(id), first, chunks: chunks.iter().copied().map(String::from).collect() }
}

pub fn save(id: &str, state: serde_json::Value, expires: Option<Timestamp>) -> Change {
    Change::SaveRun { run: run(id), state, expires }
}

pub fn call(id: &str, state: CallState) -> Call {
    let mut call = Call::new(ToolCallId::new(id), 1, "write_note".into(), Some(RunBy::Server), at(0));
    call.input = json!({"title": "Ü", "z": 1, "a": null});
    call.question = Some(Question { id: ApprovalId::new(format!("question-{id}")), required: true });
    for state in way_to(state) {
        call.enter(state, at(0));
    }
    call.expires = Some(at(60));
    call
}

/// A call with something else about it.
pub fn changed(mut call: Call, change: impl FnOnce(&mut Call)) -> Call {
    change(&mut call);
    call
}

/// The states through which a call comes into this one.
fn way_to(state: CallState) -> Vec<CallState> {
    match &state {
        CallState::Validating => vec![],
        CallState::Executing => vec![CallState::Scheduled, state],
        CallState::Success { .. } => vec![CallState::Scheduled, CallState::Executing, state],
        CallState::AwaitingApproval
        | CallState::Scheduled
        | CallState::Error { .. }
        | CallState::Cancelled { .. } => vec![state],
    }
}

pub fn put_call(id: &str, call: &Call) -> Change {
    Change::PutCall { run: run(id), call: Box::new(call.clone()) }
}

/// A decision for always (or not) about a call of the tool.
pub fn confirm(id: &str, tool: &str, approved: bool, always: bool) -> Change {
    let decided = Some(Decided { by: alice(), approved, reason: Some("because".into()), always });
    let mut call = call("c", CallState::Scheduled);
    call.tool = tool.into();
    call.decided = decided;
    Change::Confirm { run: run(id), call: Box::new(call), by: alice() }
}
