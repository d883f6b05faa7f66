//! Chats and runs as they are saved.

use std::{collections::BTreeSet, io};

use fermata_protocol::{MessageId, Profile, RunId, RunStatus, Show, UiMessage};
use fermata_tools::{Call, Confirmation, GrantEnd, Owner};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{InstanceId, Listing};

/// The name of the last commit to a chat, which is the chat's fencing token: an instance that does not know it can no longer write
/// to the chat.
///
/// Each commit draws a new one at random, so that no two histories of a chat ever share a version: not if a database has forgotten what it
/// had confirmed, and not if a chat was deleted and made again. So a writer that got no reply to a commit can see whether it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u64);

/// The facts of a chat that a store and an engine both know. Each form of a chat embeds its head, so a new fact is a field here.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatHead {
    /// The chat's version.
    pub version: Version,
    /// The owner of the chat.
    pub owner: Owner,
    /// The client version of the last post.
    pub profile: Profile,
    /// The data chunks that the last post asked for.
    pub show: BTreeSet<Show>,
    /// The status of the chat's last run.
    pub status: RunStatus,
    /// The number of messages.
    pub messages: usize,
    /// The size of the messages, in bytes of JSON.
    pub bytes: usize,
    /// The assistant that the chat has chosen last.
    pub assistant: Option<String>,
    /// The model that the chat has chosen last.
    pub model: Option<String>,
    /// The entry of the chat in lists, as its owner has set it.
    pub listing: Listing,
}

/// A chat as it was saved, without its messages.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatRecord {
    /// The chat's head as of this moment.
    pub head: ChatHead,
    /// The instance that owns the open run; `None` also if that instance is no longer alive.
    pub run_owner: Option<InstanceId>,
    /// The value of [`Change::PutContext`](super::Change::PutContext); null if there was none. The store does not look inside.
    pub context: Value,
    /// All decisions of people about calls of the chat, in order.
    pub confirmations: Vec<Confirmation>,
    /// All tools that are no longer allowed for always, in the order that the permissions were taken back.
    pub grant_ends: Vec<GrantEnd>,
    /// The run that is not over.
    pub open_run: Option<RunRecord>,
}

/// A summary of the first messages of a chat, as it was saved.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryRecord {
    /// The number of messages that it covers.
    pub messages: usize,
    /// The last of them.
    pub up_to: MessageId,
    /// The engine's own value; the store does not look inside.
    pub content: Value,
    /// The reason why it was written.
    pub reason: String,
    /// The name of the model that has written it.
    pub model: String,
    /// The time when it was written.
    pub created_at: Timestamp,
}

/// An open run as it was saved.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The run's id.
    pub id: RunId,
    /// The message that the run makes.
    pub message: MessageId,
    /// The size of that message as the chat has it, in bytes of JSON; 0 if the chat does not have it.
    pub message_bytes: usize,
    /// The settings of [`Change::PutSettings`](super::Change::PutSettings); null if there were none.
    pub settings: Value,
    /// The engine's own state of the run; the store does not look inside.
    pub state: Value,
    /// The log, in order: the sequence number of each chunk, and the chunk as JSON text. The numbers grow, but may have gaps.
    pub chunks: Vec<(u64, String)>,
    /// The calls, in the order they were first saved.
    pub calls: Vec<Call>,
    /// `true` if the run goes on only after an answer or when its time is over.
    pub waiting: bool,
    /// The number of times that the run was resumed to be worked on since it last made progress.
    pub attempts: u32,
}

/// The owner of a chat, the instance that owns its run, and what tells the chat and the run from earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatOwner {
    /// The owner of the chat.
    pub owner: Owner,
    /// The instance that owns the open run, as in [`ChatRecord::run_owner`].
    pub run_owner: Option<InstanceId>,
    /// The time when the chat was made: a chat that is made again after it was deleted is another one.
    pub created_at: Timestamp,
    /// The open run.
    pub open_run: Option<RunId>,
}

/// A message without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageOutline {
    /// The message's id.
    pub id: MessageId,
    /// The size of the message, in bytes of JSON.
    pub bytes: usize,
}

/// The form of files in messages that were sent as data URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// With their data URLs.
    Inline,
    /// A store that keeps a file by itself may put its name in place of the data URL: a text that begins with [`STORED_FILE`].
    ByName,
}

/// Begins the name of a file in place of its URL.
pub const STORED_FILE: &str = "stored-file:";

/// The parts of an owner's usage that are counted. A part that has a limit is counted up to that limit, so that the work is bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WantedUsage {
    /// The highest count of chats that matters; `None` if they need not be counted.
    pub chats: Option<usize>,
    /// `true` if the bytes of the owner's chats are to be summed up.
    pub bytes: bool,
    /// The highest count of open runs that matters; `None` if they need not be counted.
    pub runs_elsewhere: Option<usize>,
}

/// The number and the size of one owner's stored data. A figure that was not requested is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerUsage {
    /// The number of chats.
    pub chats: usize,
    /// The size of the messages in those chats, in bytes of JSON.
    pub bytes: usize,
    /// The number of open runs that the instance in question does not own.
    pub runs_elsewhere: usize,
}

/// Returns the size of a message as it is saved.
pub fn json_bytes(message: &UiMessage) -> usize {
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, message) {
        Ok(()) => counter.0,
        Err(_) => 0,
    }
}

/// Counts the bytes that are written.
struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// === impl Version ===

impl Version {
    /// The version of a chat that does not exist.
    pub const NONE: Self = Self(0);
}

// === impl ChatHead ===

impl ChatHead {
    /// Returns the head of a chat that is about to be created.
    pub fn new(owner: Owner, profile: Profile) -> Self {
        Self {
            version: Version::NONE,
            owner,
            profile,
            show: BTreeSet::new(),
            status: RunStatus::default(),
            messages: 0,
            bytes: 0,
            assistant: None,
            model: None,
            listing: Listing::default(),
        }
    }

    /// Notes the choices of the chat. `None` leaves a choice as it was.
    pub fn choose(&mut self, assistant: Option<String>, model: Option<String>) {
        self.assistant = assistant.or(self.assistant.take());
        self.model = model.or(self.model.take());
    }
}

// === impl RunRecord ===

impl RunRecord {
    /// Returns the chunks of the log without their numbers.
    pub fn texts(&self) -> Vec<&str> {
        self.chunks.iter().map(|(_, text)| text.as_str()).collect()
    }
}
