//! Chats and runs as they were saved.

use fermata_protocol::{MessageId, Profile, RunId, UiMessage};
use fermata_tools::{Call, Confirmation, GrantEnd, Owner};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::InstanceId;

/// The number of times that a chat has been written to. An instance that knows an older number can no longer write to the chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence(pub u64);

/// A chat as it was saved, without its messages.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatRecord {
    /// The number of times that the chat has been written to.
    pub fence: Fence,
    /// The instance alive that drives the open run; `None` also if the instance that drove it has ended.
    pub driver: Option<InstanceId>,
    /// The owner of the chat.
    pub owner: Owner,
    /// The client version of the last post.
    pub profile: Profile,
    /// The size of the messages, in bytes of JSON.
    pub bytes: usize,
    /// All decisions of people about calls of the chat, in order.
    pub confirmations: Vec<Confirmation>,
    /// All tools that people no longer allow for always, in the order in which they said so.
    pub grant_ends: Vec<GrantEnd>,
    /// The run that is not over.
    pub open_run: Option<RunRecord>,
}

/// An open run as it was saved.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The run's id.
    pub id: RunId,
    /// The message that the run makes.
    pub message: MessageId,
    /// The size of that message as it stands in the chat, in bytes of JSON; 0 if the chat does not have it.
    pub message_bytes: usize,
    /// The settings of [`Change::PutSettings`](super::Change::PutSettings); null if none were put.
    pub settings: Value,
    /// The engine's own state of the run; the store does not look inside.
    pub state: Value,
    /// The log, in order: the place of each chunk, and the chunk as JSON text. Places grow, but may have gaps.
    pub chunks: Vec<(u64, String)>,
    /// The calls, in the order in which they were first put.
    pub calls: Vec<Call>,
    /// True if the run goes on only when somebody answers or its time is over.
    pub waiting: bool,
    /// The number of times that the run was taken up to be worked on since it last got on.
    pub attempts: u32,
}

/// The owner of a chat, and the instance to ask about the chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatOwner {
    /// The owner of the chat.
    pub owner: Owner,
    /// The instance alive that drives the open run, as in [`ChatRecord::driver`].
    pub instance: Option<InstanceId>,
}

/// A message without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outlined {
    /// The message's id.
    pub id: MessageId,
    /// The size of the message, in bytes of JSON.
    pub bytes: usize,
}

/// Everything that one owner keeps, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The number of chats.
    pub chats: usize,
    /// The size of the messages in those chats, in bytes of JSON.
    pub bytes: usize,
    /// The number of open runs that the asking instance does not drive.
    pub runs_elsewhere: usize,
}

/// The size of a message as it is saved.
pub fn json_bytes(message: &UiMessage) -> usize {
    serde_json::to_vec(message).map_or(0, |json| json.len())
}

// === impl Fence ===

impl Fence {
    /// The fence of a chat that does not exist.
    pub const NONE: Self = Self(0);

    /// The fence after one more commit.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

// === impl RunRecord ===

impl RunRecord {
    /// The chunks of the log without their places.
    pub fn texts(&self) -> Vec<&str> {
        self.chunks.iter().map(|(_, text)| text.as_str()).collect()
    }
}
