//! What can be asked of a chat, here or at the instance that owns it.

use std::{net::IpAddr, time::Duration};

use fermata_protocol::{ChatBody, ChatId, RunId};
use fermata_tools::Owner;
use serde::{Deserialize, Serialize};

use crate::Reader;

/// A post to a chat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Submission {
    /// The user who posts.
    pub owner: Owner,
    /// The body of the post.
    pub body: ChatBody,
    /// How long a parked call of this run holds its stream; `None` stands for [`Settings::hold`](crate::Settings::hold).
    pub hold: Option<Duration>,
    /// The address that the post comes from, for the record of decisions; `None` if it is not known.
    #[serde(default)]
    pub address: Option<IpAddr>,
}

/// A reader of a run.
pub struct Following {
    /// The chat's id.
    pub chat: ChatId,
    /// The run's id, which names the stream.
    pub run: RunId,
    /// The reader.
    pub reader: Reader,
}
