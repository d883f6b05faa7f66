//! Commits to a SQLite file.

use std::sync::Arc;

use anyhow::Result;
use fermata_engine::store::{Change, ChatStore, InstanceId, Version};
use fermata_protocol::{ChatId, MessageId, Profile, RunId, UiMessage};
use fermata_store::SqlStore;
use fermata_tools::Owner;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::Round;

/// The two commits of a turn in a new chat, so many times by halves.
pub fn commits(commits: usize) -> Result<Round> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite://{}", folder.path().join("hot-paths.db").display());
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let store = runtime.block_on(SqlStore::open(&url))?;
    let question = message("msg_1", "user", "Why is the sky blue?")?;
    let answer = message("msg_2", "assistant", "Because the air scatters blue light more than red light.")?;
    let mut turns = 0;
    Ok(Box::new(move || {
        // The file lives as long as the path.
        let _ = &folder;
        for _ in 0..commits / 2 {
            turns += 1;
            let chat = ChatId::new(format!("chat_{:032x}", turn_id(turns)));
            let [begin, end] = turn(&question, &answer);
            let made = runtime.block_on(async {
                store.commit(&chat, Version::NONE, Version(1), Timestamp::UNIX_EPOCH, begin).await?;
                store.commit(&chat, Version(1), Version(2), Timestamp::UNIX_EPOCH, end).await
            });
            made.expect("the disk takes it");
        }
    }))
}

/// Different from turn to turn, and as far apart as random ids are.
fn turn_id(turn: u64) -> u128 {
    u128::from(turn).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

fn message(id: &str, role: &str, text: &str) -> Result<UiMessage> {
    let message = json!({ "id": id, "role": role, "parts": [{ "type": "text", "text": text }] });
    Ok(serde_json::from_value(message)?)
}

/// Returns the changes of the first commit of a turn, and those of the last one.
fn turn(question: &UiMessage, answer: &UiMessage) -> [Arc<[Change]>; 2] {
    let (run, owner) = (RunId::new("run_1"), InstanceId::new("ins_1"));
    let chunk = r#"{"type":"text-delta","id":"txt_1","delta":" word"}"#;
    let append =
        |first, count| Change::AppendChunks { run: run.clone(), first, chunks: vec![chunk.into(); count] };
    let begin = [
        Change::CreateChat { owner: Owner::anyone(), profile: Profile::V6 },
        Change::PutMessage(Box::new(question.clone())),
        Change::OpenRun { run: run.clone(), message: MessageId::new("msg_2"), owner },
        Change::PutSettings { run: run.clone(), settings: json!({ "steps": 20 }) },
        append(1, 2),
    ];
    let end = [
        append(3, 20),
        Change::PutMessage(Box::new(answer.clone())),
        Change::PutContext { context: Value::Null },
        Change::CloseRun { run: run.clone(), outcome: "completed" },
    ];
    [begin.into(), end.into()]
}
