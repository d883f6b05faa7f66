//! A chat whose messages are read one after the other, so that a long one is never in memory as a whole.
//!
//! What belongs together, which messages there are, what is pending and whether a run is open, is read at one moment by whoever drives
//! the chat. The contents are read from the store afterwards, as slowly as somebody takes them; a message that is no longer there by
//! then ends the reading with an error.

use std::sync::Arc;

use fermata_protocol::{MessageId, Profile, UiMessage};
use serde::{Deserialize, Serialize};

use super::{ChatView, ReadError};
use crate::{
    Store,
    store::{Outlined, StoreError},
};

/// The longest chat, as JSON, that is read at once.
pub(crate) const SHORT_CHAT: usize = 1 << 20;
/// How much is read of a long one at a time, unless a single message is longer.
const PAGE_BYTES: usize = 256 << 10;

/// How much of a chat is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Detail {
    /// All messages at once, as an instance of an earlier version asks for them.
    #[default]
    Everything,
    /// All messages of a short chat, and what a long one has.
    InPages,
    /// What is pending, without messages.
    Pending,
}

/// The messages of a long chat that are still to be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Unread {
    pub profile: Profile,
    /// All of them, in order.
    pub outline: Vec<Outlined>,
    /// The one that is being written.
    pub left_out: Option<MessageId>,
    /// One of which there is something newer than what was saved.
    pub newer: Option<UiMessage>,
}

/// A chat, and its messages one page after the other.
pub struct ChatPages {
    /// The chat, without messages.
    pub chat: ChatView,
    /// The messages of a short chat.
    short: Vec<UiMessage>,
    unread: Option<Unread>,
    position: usize,
    store: Arc<dyn Store>,
}

impl ChatPages {
    pub(super) fn new(mut chat: ChatView, store: Arc<dyn Store>) -> Self {
        let short = std::mem::take(&mut chat.messages);
        let unread = chat.unread.take();
        Self { chat, short, unread, position: 0, store }
    }

    /// Whether there may be more than one page.
    pub fn is_long(&self) -> bool {
        self.unread.is_some()
    }

    /// The next messages; empty at the end.
    ///
    /// # Errors
    /// Where they cannot be read, or are no longer what they were when the reading began.
    pub async fn next(&mut self) -> Result<Vec<UiMessage>, ReadError> {
        let Some(unread) = &self.unread else { return Ok(std::mem::take(&mut self.short)) };
        let mut page = Vec::new();
        // A page may consist of the message that is left out.
        while page.is_empty() && self.position < unread.outline.len() {
            let begins = self.position;
            let mut bytes = 0;
            while let Some(message) = unread.outline.get(self.position)
                && (self.position == begins || bytes + message.bytes <= PAGE_BYTES)
            {
                bytes += message.bytes;
                self.position += 1;
            }
            let messages = self.store.messages_at(&self.chat.id, begins..self.position).await?;
            let expected = &unread.outline[begins..self.position];
            if !messages.iter().map(|message| &message.id).eq(expected.iter().map(|message| &message.id)) {
                return Err(StoreError::Fenced.into());
            }
            for message in messages {
                if unread.left_out.as_ref() == Some(&message.id) {
                    continue;
                }
                let newer = unread.newer.as_ref().filter(|newer| newer.id == message.id);
                page.push(unread.profile.message(newer.unwrap_or(&message)));
            }
        }
        Ok(page)
    }
}
