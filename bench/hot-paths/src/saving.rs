//! Commits to a SQLite file.

use std::sync::Arc;

use anyhow::Result;
use fermata_engine::store::{Change, ChatStore, InstanceId, Version};
use fermata_protocol::{AnswerKind, ChatId, MessageId, Profile, RunId, ToolCallId, UiMessage};
use fermata_store::SqlStore;
use fermata_tools::{Call, CallState, Owner, RunBy, Wait, Work};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::Round;

/// The two commits of a turn in a new chat, so many times by halves.
pub fn commits(commits: usize) -> Result<Round> {
    let question = message("msg_1", "user", "Why is the sky blue?")?;
    let answer = message("msg_2", "assistant", "Because the air scatters blue light more than red light.")?;
    in_new_chats(commits / 2, turn(&question, &answer))
}

/// The commits of a call that waits for the page and of its answer, in a new chat, so many times by halves.
pub fn answers(commits: usize) -> Result<Round> {
    let question = message("msg_1", "user", "Where am I?")?;
    in_new_chats(commits / 2, parked(&question))
}

/// Makes these two commits in each of so many chats.
fn in_new_chats(chats: usize, [begin, end]: [Arc<[Change]>; 2]) -> Result<Round> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite://{}", folder.path().join("hot-paths.db").display());
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let store = runtime.block_on(SqlStore::open(&url))?;
    let mut made = 0;
    Ok(Box::new(move || {
        // The file lives as long as the path.
        let _ = &folder;
        for _ in 0..chats {
            made += 1;
            let chat = ChatId::new(format!("chat_{:032x}", chat_id(made)));
            let committed = runtime.block_on(async {
                store.commit(&chat, Version::NONE, Version(1), Timestamp::UNIX_EPOCH, begin.clone()).await?;
                store.commit(&chat, Version(1), Version(2), Timestamp::UNIX_EPOCH, end.clone()).await
            });
            committed.expect("the disk takes it");
        }
    }))
}

/// Different from chat to chat, and as far apart as random ids are.
fn chat_id(chat: u64) -> u128 {
    u128::from(chat).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

fn message(id: &str, role: &str, text: &str) -> Result<UiMessage> {
    let message = json!({ "id": id, "role": role, "parts": [{ "type": "text", "text": text }] });
    Ok(serde_json::from_value(message)?)
}

/// A log that grows by so many equal chunks.
fn append(run: &RunId, chunk: &str, first: u64, count: usize) -> Change {
    Change::AppendChunks { run: run.clone(), first, chunks: vec![chunk.into(); count] }
}

/// Returns the changes of the first commit of a turn, and those of the last one.
fn turn(question: &UiMessage, answer: &UiMessage) -> [Arc<[Change]>; 2] {
    let (run, owner) = (RunId::new("run_1"), InstanceId::new("ins_1"));
    let chunk = r#"{"type":"text-delta","id":"txt_1","delta":" word"}"#;
    let begin = [
        Change::CreateChat { owner: Owner::anyone(), profile: Profile::V6 },
        Change::PutMessage(Box::new(question.clone())),
        Change::OpenRun { run: run.clone(), message: MessageId::new("msg_2"), owner },
        Change::PutSettings { run: run.clone(), settings: json!({ "steps": 20 }) },
        append(&run, chunk, 1, 2),
    ];
    let end = [
        append(&run, chunk, 3, 20),
        Change::PutMessage(Box::new(answer.clone())),
        Change::PutContext { context: Value::Null },
        Change::CloseRun { run: run.clone(), outcome: "completed" },
    ];
    [begin.into(), end.into()]
}

/// Returns the changes with which a run is parked, and those with which its call is answered.
fn parked(question: &UiMessage) -> [Arc<[Change]>; 2] {
    let (run, owner) = (RunId::new("run_1"), InstanceId::new("ins_1"));
    let chunk = r#"{"type":"tool-input-start","toolCallId":"call_1","toolName":"get_location"}"#;
    let at = Timestamp::UNIX_EPOCH;
    let mut call = Call::new(ToolCallId::new("call_1"), 1, "get_location".into(), Some(RunBy::Browser), at);
    call.input = json!({}).into();
    call.enter(CallState::scheduled(Wait::Gate), at);
    call.enter(CallState::Executing { work: Work::Browser { expires: at } }, at);
    let mut answered = call.clone();
    let output = json!({ "city": "Bern" });
    answered.note_answer(&AnswerKind::Output { output: output.clone() });
    answered.enter(CallState::Success { output }, at);
    let put = |call: Call| Change::PutCall { run: run.clone(), call: Box::new(call) };
    let save = |waiting: bool| Change::SaveRun {
        run: run.clone(),
        state: json!({ "phase": "waiting", "step": 1 }),
        expires: if waiting { Some(at) } else { None },
        waiting,
        detached: false,
        questions: 0,
        owner: Some(owner.clone()),
        attempts: 0,
    };
    let begin = [
        Change::CreateChat { owner: Owner::anyone(), profile: Profile::V6 },
        Change::PutMessage(Box::new(question.clone())),
        Change::OpenRun { run: run.clone(), message: MessageId::new("msg_2"), owner: owner.clone() },
        append(&run, chunk, 1, 4),
        put(call),
        save(true),
    ];
    let end = [append(&run, chunk, 5, 1), put(answered), save(false)];
    [begin.into(), end.into()]
}
