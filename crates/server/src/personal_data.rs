//! All that is stored for an owner: written as one JSON document, and deleted. `/api/me/data` does it for the owner, and `fermata data` for an
//! operator, even while servers use the database.

use std::{io::Write as _, time::Duration};

use axum::body::Bytes;
use fermata_engine::{
    SummaryView,
    store::{
        AuditEntry, ChatQuery, ChatRecord, ChatSummary, Files, StoreError,
        memories::{Memory as StoredMemory, MemoryAuthor, MemoryFilter, MemoryOrigin, MemorySource},
    },
};
use fermata_protocol::{ChatId, MemoryKind};
use fermata_store::{Checkpointed, Database};
use fermata_tools::{AuditAction, AuditEvent, Owner};
use futures::{SinkExt, Stream, StreamExt, channel::mpsc};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::{audit::checkpoints::CheckpointWriter, config::DatabaseSettings};

/// The pieces of a document that wait for a reader who is slow.
const AHEAD: usize = 4;
/// The number of messages, of chats and of other rows that are read at once.
const MESSAGES: usize = 8;
const ROWS: usize = 100;
/// The pause before a chat that was changed meanwhile is deleted.
const PAUSE: Duration = Duration::from_millis(20);

/// A memory.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    id: String,
    kind: MemoryKind,
    /// The words of the memory.
    #[schema(example = "Prefers Celsius.")]
    text: String,
    /// The name of the one thing that the memory says. A memory with a slot is in every prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<String>,
    /// `true` if the memory is never deleted to make room.
    pinned: bool,
    /// The chat where the user has said it, as long as the chat is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_id: Option<String>,
    /// The message where the user has said it, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    /// The party that has written it last.
    origin: Origin,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// The party that has written a memory.
#[derive(Serialize, ToSchema)]
#[serde(tag = "by", rename_all = "camelCase")]
pub enum Origin {
    /// A person, on a page or with the API.
    Person,
    /// The model, with a call of a tool.
    #[serde(rename_all = "camelCase")]
    Tool {
        /// The tool's name.
        #[schema(example = "remember")]
        tool: String,
        /// The call's id.
        tool_call_id: String,
        /// The outside sources that the model had read in the turn before, such as the URL of a page.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        read: Vec<String>,
    },
    /// The job that summarizes a chat.
    Summary,
}

/// A note.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    id: String,
    #[schema(example = "Shopping")]
    title: String,
    body: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// The numbers of deleted items.
#[derive(Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Deleted {
    /// The number of chats, each with its messages, calls, summaries and plans.
    #[schema(example = 12)]
    pub chats: usize,
    /// The number of memories. Earlier versions of them, which could be brought back, are deleted too.
    #[schema(example = 3)]
    pub memories: usize,
    /// The number of notes.
    #[schema(example = 1)]
    pub notes: usize,
}

/// The reason why an operator's command has failed.
#[derive(Debug, thiserror::Error)]
pub enum PersonalDataError {
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] fermata_store::OpenError),
    /// The database has failed. A deletion can be repeated.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The standard output cannot be written to.
    #[error("cannot write the document: {0}")]
    Output(#[from] std::io::Error),
}

/// The reason why a document ends early.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The database has failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nobody reads the document any longer.
    #[error("nobody reads the document any longer")]
    Gone(#[from] mpsc::SendError),
    /// Something that is stored has no JSON form.
    #[error("something has no JSON form: {0}")]
    Json(#[from] serde_json::Error),
}

/// Writes the document to the standard output. It ends early, without an error, if the reader closes the pipe.
///
/// # Errors
/// Returns an error if the database or the output fails; then the document is not complete.
pub async fn export(settings: &DatabaseSettings, owner: &Owner) -> Result<(), PersonalDataError> {
    let database = settings.open_for_command().await?;
    note(&database, owner, by_operator(AuditAction::DataExported)).await?;
    let mut pieces = std::pin::pin!(document(database.clone(), owner.clone()));
    while let Some(piece) = pieces.next().await {
        match std::io::stdout().write_all(&piece?) {
            Ok(()) => {}
            // The reader has read enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
            Err(error) => return Err(error.into()),
        }
    }
    close(database, settings).await;
    Ok(())
}

/// Deletes all that belongs to the owner, and returns a report. A server that runs one of the chats notices it with its next commit.
///
/// # Errors
/// Returns an error if the database fails. The deletion can be repeated then.
pub async fn delete(settings: &DatabaseSettings, owner: &Owner) -> Result<String, PersonalDataError> {
    let database = settings.open_for_command().await?;
    let deleted = by_operator(AuditAction::DataDeleted);
    let Deleted { chats, memories, notes } =
        delete_all(&database, owner, deleted, |chat| delete_stored(&database, owner, chat)).await?;
    database.sweep().await;
    close(database, settings).await;
    Ok(format!(
        "deleted {chats} chats, {memories} memories and {notes} notes; the audit (audit_events) is kept for audit_keep\n"
    ))
}

/// Closes the database, after a checkpoint of what this command has noted in the audit.
async fn close(database: Database, settings: &DatabaseSettings) {
    CheckpointWriter::new(database.clone(), settings).write(Checkpointed::Own).await;
    database.close().await;
}

/// Returns an event that an operator causes with a command.
fn by_operator(action: AuditAction) -> AuditEvent {
    AuditEvent { reason: Some("fermata data".into()), ..AuditEvent::new(action) }
}

/// Notes in the audit what happens to all data of an owner.
pub(crate) async fn note(database: &Database, owner: &Owner, event: AuditEvent) -> Result<(), StoreError> {
    database.store.add_audit(Timestamp::now(), vec![AuditEntry::of_owner(owner, event)]).await
}

/// Deletes a chat without its server. Returns `false` if it is not there.
async fn delete_stored(database: &Database, owner: &Owner, chat: ChatId) -> Result<bool, StoreError> {
    while let Some(record) = database.store.chat(&chat).await? {
        let open_run = record.open_run.as_ref().map(|run| (&run.id, run.calls.iter().collect()));
        let audit = AuditEntry::of_deletion(owner, &chat, open_run, None);
        match database.store.delete(&chat, record.head.version, Timestamp::now(), audit).await {
            Ok(()) => return Ok(true),
            // A server has written to it meanwhile.
            Err(StoreError::Fenced) => tokio::time::sleep(PAUSE).await,
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Deletes the owner's chats, memories and notes, and what is known of their client, and notes the event in the audit. `delete_chat` returns `false` if somebody else has
/// deleted the chat.
pub(crate) async fn delete_all<E, W>(
    database: &Database,
    owner: &Owner,
    event: AuditEvent,
    delete_chat: impl Fn(ChatId) -> W,
) -> Result<Deleted, E>
where
    E: From<StoreError>,
    W: Future<Output = Result<bool, E>>,
{
    let mut chats = 0;
    loop {
        let page = database.store.chats(ChatQuery::new(owner, ROWS)).await?;
        if page.chats.is_empty() {
            break;
        }
        for chat in page.chats {
            chats += usize::from(delete_chat(chat.id).await?);
        }
    }
    let author = MemoryAuthor::person(event.address);
    let memories = database.store.delete_memories(owner, Timestamp::now(), &author).await?;
    let notes = database.notes.delete_all(owner).await?;
    database.forget_client(owner).await?;
    database.channel_records.delete_devices(owner).await?;
    note(database, owner, event).await?;
    Ok(Deleted { chats, memories, notes })
}

/// Returns the document in pieces, read as fast as they are taken. It ends with an error if it cannot be read to its end.
pub(crate) fn document(
    database: Database,
    owner: Owner,
) -> impl Stream<Item = Result<Bytes, StoreError>> + Send {
    let (pieces, document) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let mut writer = Writer { database, owner, pieces };
        match writer.write().await {
            Ok(()) | Err(ExportError::Gone(_)) => {}
            Err(error) => {
                tracing::warn!(owner = %writer.owner.as_str(), %error, "cannot read all that belongs to an owner");
                let error = match error {
                    ExportError::Store(error) => error,
                    other => StoreError::Corrupt(other.to_string()),
                };
                // If nobody reads any longer, nobody has to know.
                let _ = writer.pieces.send(Err(error)).await;
            }
        }
    });
    document
}

/// Writes the document of an owner.
struct Writer {
    database: Database,
    owner: Owner,
    pieces: mpsc::Sender<Result<Bytes, StoreError>>,
}

// === impl Writer ===

impl Writer {
    async fn write(&mut self) -> Result<(), ExportError> {
        let owner = self.owner.clone();
        let head = format!(
            "{{\"owner\":{},\"exportedAt\":{},\"chats\":[",
            json!(owner.as_str()),
            json!(Timestamp::now())
        );
        self.send(head).await?;
        let mut before = None;
        let mut is_first = true;
        loop {
            let query = ChatQuery { before: before.as_deref(), ..ChatQuery::new(&owner, ROWS) };
            let page = self.database.store.chats(query).await?;
            for chat in page.chats {
                is_first &= !self.write_chat(&chat, is_first).await?;
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        self.send("],\"memories\":".into()).await?;
        let memories = self.database.store.memories(&owner, &MemoryFilter::default()).await?;
        let memories: Vec<Memory> = memories.into_iter().map(Into::into).collect();
        self.send(serde_json::to_string(&memories)?).await?;
        self.send(",\"notes\":[".into()).await?;
        let (mut before, mut separator) = (None, "");
        loop {
            let page = self.database.notes.page(&owner, "", ROWS, before.as_deref()).await?;
            let notes: Vec<Note> = page.notes.into_iter().map(Into::into).collect();
            self.send_items(&mut separator, &notes).await?;
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        self.send("],\"decisions\":[".into()).await?;
        let (mut after, mut separator) = (0, "");
        loop {
            let decisions = self.database.decisions(&owner, after, ROWS).await?;
            let Some(last) = decisions.last() else { break };
            after = last.number;
            self.send_items(&mut separator, &decisions).await?;
        }
        self.send("]}\n".into()).await
    }

    /// Writes a chat, as it is when this begins. Returns `false` if it was deleted meanwhile.
    async fn write_chat(&mut self, listed: &ChatSummary, is_first: bool) -> Result<bool, ExportError> {
        let store = self.database.store.clone();
        let Some(ChatRecord { head: chat, .. }) = store.chat(&listed.id).await? else { return Ok(false) };
        let summary = store.summary(&listed.id, usize::MAX).await?;
        let mut head = json!({
            "id": listed.id, "title": listed.listing.title, "archived": listed.listing.archived, "pinned": listed.listing.pinned,
            "createdAt": listed.created_at, "updatedAt": listed.updated_at,
        });
        if let Some(assistant) = &chat.assistant {
            head["assistant"] = json!(assistant);
        }
        if let Some(model) = &chat.model {
            head["model"] = json!(model);
        }
        if let Some(summary) = &summary {
            head["summary"] = json!(SummaryView::from(summary).summary);
        }
        let head = head.to_string();
        let comma = if is_first { "" } else { "," };
        // The messages follow in the same object.
        self.send(format!("{comma}{},\"messages\":[", &head[..head.len() - 1])).await?;
        let mut separator = "";
        for begin in (0..chat.messages).step_by(MESSAGES) {
            let messages = store.messages_at(&listed.id, begin..begin + MESSAGES, Files::Inline).await?;
            let messages: Vec<_> = messages.iter().map(|message| chat.profile.message(message)).collect();
            self.send_items(&mut separator, &messages).await?;
        }
        self.send("]}".into()).await?;
        Ok(true)
    }

    /// Sends items of a list. The separator is what stands before the first of them.
    async fn send_items(
        &mut self,
        separator: &mut &'static str,
        items: &[impl Serialize],
    ) -> Result<(), ExportError> {
        let mut json = String::new();
        for item in items {
            json.push_str(separator);
            json.push_str(&serde_json::to_string(item)?);
            *separator = ",";
        }
        self.send(json).await
    }

    async fn send(&mut self, json: String) -> Result<(), ExportError> {
        Ok(self.pieces.send(Ok(json.into())).await?)
    }
}

// === impl Memory ===

impl From<StoredMemory> for Memory {
    fn from(memory: StoredMemory) -> Self {
        let StoredMemory { id, kind, text, slot, pinned, source, origin, created_at, .. } = memory;
        let (mut chat_id, mut message_id) = (None, None);
        if let Some(MemorySource { chat, message }) = source {
            chat_id = Some(chat.to_string());
            message_id = message.map(|message| message.to_string());
        }
        let origin = origin.into();
        Self { id: id.0, kind, text, slot, pinned, chat_id, message_id, origin, created_at }
    }
}

// === impl Origin ===

impl From<MemoryOrigin> for Origin {
    fn from(origin: MemoryOrigin) -> Self {
        match origin {
            MemoryOrigin::Person => Self::Person,
            MemoryOrigin::Tool { tool, call, read } => {
                Self::Tool { tool, tool_call_id: call.to_string(), read }
            }
            MemoryOrigin::Summary => Self::Summary,
        }
    }
}

// === impl Note ===

impl From<fermata_store::Note> for Note {
    fn from(note: fermata_store::Note) -> Self {
        let fermata_store::Note { id, title, body, created_at } = note;
        Self { id, title, body, created_at }
    }
}
