//! What instances write to each other, as JSON.
//!
//! Instances of two versions may write to each other while a new one is rolled out: fields are only added, with a default, and a letter that
//! cannot be read is as good as lost.

use std::net::IpAddr;

use fermata_protocol::{Answer, ChatId, EventId, Profile, RunId, UiChunk};
use fermata_tools::Owner;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Submission, store::InstanceId, view::Detail};

/// A number that its writer gives to a question, or to a feed.
pub(super) type Number = u64;

/// A letter.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Letter {
    /// Something is asked of a chat that the receiver drives.
    Ask { number: Number, from: InstanceId, chat: ChatId, ask: Box<Ask> },
    /// What came of it: a result as JSON, or nothing where the receiver of the question does not drive the chat.
    Reply { number: Number, result: Option<Box<RawValue>>, feed: Option<FeedLetter> },
    /// A part of a run's log. `part` counts the letters of the feed from 0.
    Feed { feed: Number, from: InstanceId, part: u64, chunks: Vec<(u64, String)> },
    /// The end of a feed: what its readers are sent last; nothing where the run goes on elsewhere.
    End { feed: Number, from: InstanceId, part: u64, last: Option<Vec<UiChunk>> },
    /// Nobody reads the feed any more.
    Unfollow { feed: Number, from: InstanceId },
}

/// What can be asked from afar.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ask {
    Submit(Box<Submission>),
    Answer {
        owner: Owner,
        #[serde(default)]
        address: Option<IpAddr>,
        answers: Vec<Answer>,
    },
    Resume {
        owner: Owner,
        after: Option<EventId>,
    },
    Rejoin {
        owner: Owner,
        run: RunId,
        place: u64,
        profile: Profile,
    },
    Stop {
        owner: Owner,
    },
    View {
        owner: Owner,
        #[serde(default)]
        detail: Detail,
    },
    Delete {
        owner: Owner,
    },
    Grants {
        owner: Owner,
    },
    EndGrant {
        owner: Owner,
        address: Option<IpAddr>,
        tool: String,
    },
}

/// A feed that carries a run's log to the receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FeedLetter {
    pub from: InstanceId,
    pub feed: Number,
    pub run: RunId,
    /// Whether nothing of it has been sent before.
    pub is_new: bool,
}

/// A reader, on its way.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FollowingLetter {
    pub run: RunId,
    pub profile: Profile,
    pub after: u64,
    pub prelude: Vec<UiChunk>,
    /// Where its log comes from; `None` where the prelude is all.
    pub feed: Option<FeedLetter>,
}

impl Ask {
    /// Whether it does no harm to ask again where it may have been done. A message without an id would be in the chat twice.
    pub fn may_be_done_twice(&self) -> bool {
        match self {
            Self::Submit(submission) => submission.body.messages.iter().all(|message| message.id.is_some()),
            Self::Answer { .. }
            | Self::Resume { .. }
            | Self::Rejoin { .. }
            | Self::Stop { .. }
            | Self::View { .. }
            | Self::Delete { .. }
            | Self::Grants { .. }
            | Self::EndGrant { .. } => true,
        }
    }
}

impl Letter {
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = serde_json::to_vec(self);
        debug_assert!(bytes.is_ok(), "letters are JSON: {bytes:?}");
        bytes.unwrap_or_default()
    }
}
