//! The values of messages that are kept once, outside of a message's body.
//!
//! A file that was sent as a data URL is kept in `files`, once for each chat. The input and the output of a call that is over are in
//! `calls`, where they do not change any more. Such a value is cut out of the body, and the column `elsewhere` says where it is. The
//! size of a message is that of the whole message nevertheless.

use std::collections::BTreeMap;

use fermata_engine::store::{Files, STORED_FILE, StoreError};
use fermata_protocol::{ChatId, FilePart, ToolState, UiMessage, UiPart};
use fermata_tools::sha256;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    column::{json, read_json},
    connection::{Connection, row},
    error::Fault,
    text::{ParsedJson, Text, text},
};

/// The smallest size in bytes of a value that is kept elsewhere. A reference to it takes about 100 bytes.
pub const LEAST_BYTES: usize = 1024;

/// A message as its row has it.
pub struct StoredMessage {
    pub body: String,
    pub elsewhere: Option<String>,
    /// The number of bytes that the body lacks of the whole message.
    pub bytes_elsewhere: usize,
}

/// A value that was cut out of a body.
#[derive(Serialize, Deserialize)]
struct Reference {
    /// The JSON pointer (RFC 6901) to the value in the message.
    at: String,
    #[serde(flatten)]
    place: Place,
}

/// The place of a value: a file by its hash, or a column of the view `tool_calls` by the id of the call.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Place {
    File(String),
    Input(String),
    EditedInput(String),
    Output(String),
}

row! {
    /// The values of a call that is over, as JSON.
    struct CallValues {
        id: Text,
        input: ParsedJson,
        edited_input: Option<ParsedJson>,
        outcome: ParsedJson,
    }
}

// === writing ===

/// Cuts the large values out of a message, as far as they are kept elsewhere. Files are put where they are kept.
pub async fn store(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    message: &UiMessage,
) -> Result<StoredMessage, Fault> {
    let body = json(message)?;
    let whole = body.len();
    let (files, calls) = (large_files(message), large_calls(message)?);
    if files.is_empty() && calls.is_empty() {
        return Ok(StoredMessage { body, elsewhere: None, bytes_elsewhere: 0 });
    }
    let mut references = Vec::new();
    let kept = calls_of(connection, chat, calls.iter().map(|call| call.id.as_str()).collect()).await?;
    for call in calls {
        let Some(kept) = kept.get(&call.id) else { continue };
        let place = match call.field {
            "output" if kept.outcome.0 == call.json => Place::Output(call.id),
            "input" if kept.edited_input.as_ref().is_some_and(|ParsedJson(input)| *input == call.json) => {
                Place::EditedInput(call.id)
            }
            "input" if kept.input.0 == call.json => Place::Input(call.id),
            _ => continue,
        };
        references.push((Reference { at: call.at, place }, Value::Null));
    }
    for (index, url) in files {
        let place = Place::File(put_file(connection, chat, url).await?);
        // Without an address the part would not be a file.
        let at = format!("/parts/{index}/url");
        references.push((Reference { at, place }, Value::String(String::new())));
    }
    let mut value: Value = read_json("a message", &body)?;
    let mut cut_out = Vec::new();
    for (reference, left) in references {
        if let Some(value) = value.pointer_mut(&reference.at) {
            *value = left;
            cut_out.push(reference);
        }
    }
    if cut_out.is_empty() {
        return Ok(StoredMessage { body, elsewhere: None, bytes_elsewhere: 0 });
    }
    let body = json(&value)?;
    let bytes_elsewhere = whole.saturating_sub(body.len());
    Ok(StoredMessage { body, elsewhere: Some(json(&cut_out)?), bytes_elsewhere })
}

/// A large value of a call in a message.
struct LargeValue {
    id: String,
    at: String,
    field: &'static str,
    json: String,
}

/// Returns the large inputs and outputs of a message. Calls whose ids have control characters are left out: PostgreSQL takes no U+0000 in
/// JSON, and such an id is a client's own.
fn large_calls(message: &UiMessage) -> Result<Vec<LargeValue>, StoreError> {
    let mut large = Vec::new();
    for (index, part) in message.parts.iter().enumerate() {
        let Some(part) = part.as_tool() else { continue };
        if part.tool_call_id.as_str().contains(char::is_control) {
            continue;
        }
        let input = part.state.input().map(|input| input.as_str().to_owned());
        let output = match &part.state {
            ToolState::OutputAvailable { output, .. } => Some(json(output)?),
            _ => None,
        };
        for (field, json) in [("input", input), ("output", output)] {
            let Some(json) = json else { continue };
            if json.len() >= LEAST_BYTES {
                let (id, at) = (part.tool_call_id.to_string(), format!("/parts/{index}/{field}"));
                large.push(LargeValue { id, at, field, json });
            }
        }
    }
    Ok(large)
}

/// Returns the large data URLs of a message, with the indexes of their parts.
fn large_files(message: &UiMessage) -> Vec<(usize, &str)> {
    let parts = message.parts.iter().enumerate();
    let url = |(index, part)| match part {
        &UiPart::File(FilePart { ref url, .. }) if url.len() >= LEAST_BYTES && url.starts_with("data:") => {
            Some((index, url.as_str()))
        }
        _ => None,
    };
    parts.filter_map(url).collect()
}

/// Keeps a file of the chat, if it is not there already. Returns its hash.
async fn put_file(connection: &mut Connection<'_>, chat: &ChatId, url: &str) -> Result<String, Fault> {
    let hash = sha256(url.as_bytes());
    connection
        .query("insert into files (chat_id, hash, url) values ($1, $2, $3) on conflict (chat_id, hash) do nothing")
        .bind(chat.as_str())
        .bind(hash.clone())
        .bind(text(url))
        .execute()
        .await?;
    Ok(hash)
}

/// Forgets the files of the chat that no message has any more.
pub async fn drop_files(connection: &mut Connection<'_>, chat: &ChatId) -> Result<(), Fault> {
    connection
        .query(
            "delete from files where chat_id = $1 and not exists (
                select 1 from messages
                where messages.chat_id = files.chat_id and messages.elsewhere like '%' || files.hash || '%'
             )",
        )
        .bind(chat.as_str())
        .execute()
        .await?;
    Ok(())
}

// === reading ===

/// Returns the messages of rows with the columns `body` and `elsewhere`; `None` if a value was deleted after the rows were read.
pub async fn read(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    rows: Vec<(String, Option<String>)>,
    files: Files,
) -> Result<Option<Vec<UiMessage>>, Fault> {
    let mut references: Vec<Vec<Reference>> = Vec::with_capacity(rows.len());
    for (_, elsewhere) in &rows {
        references.push(match elsewhere {
            Some(elsewhere) => read_json("where the values of a message are", elsewhere)?,
            None => Vec::new(),
        });
    }
    let (mut hashes, mut ids) = (Vec::new(), Vec::new());
    for reference in references.iter().flatten() {
        match &reference.place {
            Place::File(hash) => hashes.push(hash.as_str()),
            Place::Input(id) | Place::EditedInput(id) | Place::Output(id) => ids.push(id.as_str()),
        }
    }
    let urls = match files {
        Files::Inline => files_of(connection, chat, hashes).await?,
        Files::ByName => {
            hashes.iter().map(|hash| ((*hash).to_owned(), format!("{STORED_FILE}{hash}"))).collect()
        }
    };
    let calls = calls_of(connection, chat, ids).await?;
    let mut messages = Vec::with_capacity(rows.len());
    for ((body, _), references) in rows.iter().zip(references) {
        if references.is_empty() {
            messages.push(read_json("a message", body)?);
            continue;
        }
        let mut message: Value = read_json("a message", body)?;
        for Reference { at, place } in references {
            let value = match &place {
                Place::File(hash) => urls.get(hash).map(|url| Value::String(url.clone())),
                Place::Input(id) => {
                    calls.get(id).map(|call| read_json("an input", &call.input.0)).transpose()?
                }
                Place::EditedInput(id) => {
                    let edited = calls.get(id).and_then(|call| call.edited_input.as_ref());
                    edited.map(|input| read_json("an edited input", &input.0)).transpose()?
                }
                Place::Output(id) => {
                    calls.get(id).map(|call| read_json("an output", &call.outcome.0)).transpose()?
                }
            };
            let Some(value) = value else { return Ok(None) };
            let Some(cut) = message.pointer_mut(&at) else {
                return Err(StoreError::Corrupt(format!("a message has no value at {at}")).into());
            };
            *cut = value;
        }
        let message = UiMessage::deserialize(message);
        messages.push(message.map_err(|error| StoreError::Corrupt(format!("a message: {error}")))?);
    }
    Ok(Some(messages))
}

/// Returns a file of the chat as a data URL; `None` if the chat has no such file.
pub async fn file(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    hash: &str,
) -> Result<Option<String>, Fault> {
    let found: Option<(Text,)> = connection
        .query("select url from files where chat_id = $1 and hash = $2")
        .bind(chat.as_str())
        .bind(text(hash))
        .fetch_optional()
        .await?;
    Ok(found.map(|(Text(url),)| url))
}

/// Returns the files of the chat with these hashes, as far as they are there.
async fn files_of(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    hashes: Vec<&str>,
) -> Result<BTreeMap<String, String>, Fault> {
    let mut files = BTreeMap::new();
    for hash in hashes {
        if !files.contains_key(hash)
            && let Some(url) = file(connection, chat, hash).await?
        {
            files.insert(hash.to_owned(), url);
        }
    }
    Ok(files)
}

/// Returns the values of the chat's calls with these ids that are over.
async fn calls_of(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    ids: Vec<&str>,
) -> Result<BTreeMap<String, CallValues>, Fault> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let of_ids = connection.choose(CALLS_IN_SQLITE, CALLS_IN_POSTGRES);
    let found: Vec<CallValues> =
        connection.query(of_ids).bind(chat.as_str()).bind(json(&ids)?).fetch_all().await?;
    Ok(found.into_iter().map(|values| (values.id.0.clone(), values)).collect())
}

const CALLS_IN_SQLITE: &str = "select id, input, edited_input, outcome from tool_calls
 where chat_id = $1 and ended_at is not null and id in (select wanted.value from json_each($2) as wanted)";
const CALLS_IN_POSTGRES: &str = "select id, input, edited_input, outcome from tool_calls
 where chat_id = $1 and ended_at is not null
    and id in (select wanted.value from jsonb_array_elements_text($2::jsonb) as wanted (value))";
