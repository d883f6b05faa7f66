//! A chat as its user may see it, and its messages one page after the other, so that a long chat is never in memory as a whole.
//!
//! Everything that belongs together (the list of messages, the pending calls, whether a run is open) is read at one moment by the
//! chat actor. The contents of a long chat are read from the store afterwards, as slowly as the client takes them; if a message is
//! gone by then, the reading ends with an error.

use std::{collections::BTreeSet, sync::Arc};

use fermata_protocol::{
    ChatId, ContextUsage, ElicitationId, MessageId, Profile, RunStatus, Show, Summary, UiMessage, UiPart,
};
use fermata_tools::{AskedFailure, Asks, Call, CallDetails, Decision, Elicitation};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    api::errors::ReadError,
    context::summary::Covered,
    ports::store::{Files, Listing, MessageOutline, Store, StoreError, SummaryRecord},
};

/// The size of the longest chat that is read at once, in bytes of JSON.
pub(crate) const SHORT_CHAT: usize = 1 << 20;
/// The size of one page of a long chat, in bytes of JSON, unless a single message is longer.
const PAGE_BYTES: usize = 256 << 10;

/// A chat as its user may see it, in the profile of its last post.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChatView {
    /// The chat's id.
    pub id: ChatId,
    /// The chat's messages, without the one that an open run is writing.
    pub messages: Vec<UiMessage>,
    /// The calls and questions that wait for the user or the browser.
    pub pending: Vec<Pending>,
    /// `true` if a run is open and can be followed.
    pub open: bool,
    /// The entry of the chat in lists.
    #[serde(default)]
    pub listing: Listing,
    /// The assistant that the chat has chosen last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assistant: Option<String>,
    /// The model that the chat has chosen last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The status of the chat's run, if the last post asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// The part of its model's window that is filled, if the chat's last post asked for that and it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextUsage>,
    /// The messages of a long chat, which are read page by page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outline: Option<Outline>,
}

/// A call or a question that waits for the user or the browser.
#[expect(clippy::large_enum_variant, reason = "a value is made, read once and dropped; few exist at a time")]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Pending {
    /// A call that waits for a person's decision or for the browser's output.
    Call(Box<Call>),
    /// A question that a running call has put to the user.
    Elicitation {
        /// The question's id.
        id: ElicitationId,
        /// The call that asks.
        call: Box<Call>,
        /// The question.
        question: Elicitation,
        /// The party that asks.
        asks: Asks,
        /// The failure that the question is about, if Fermata asks about its consequence.
        failure: Option<AskedFailure>,
        /// The time when the question was put.
        since: Timestamp,
        /// The time when the run ends as expired.
        expires: Timestamp,
    },
}

/// A call that waits for a decision, as a person would see it with another input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputPreview {
    /// The call in words.
    pub description: Option<String>,
    /// The effect that the call would have.
    pub details: Option<CallDetails>,
    /// The decision of the rules about a call with that input.
    pub decision: Decision,
}

/// A chat's summary as its user may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryView {
    /// The summary.
    pub summary: Summary,
    /// The last message that it covers.
    pub up_to: MessageId,
    /// The number of messages that it covers, from the first of the chat.
    pub messages: usize,
    /// The reason why it was written: `every`, `size`, `overflow` or `asked`.
    pub reason: String,
    /// The name of the model that has written it.
    pub model: String,
    /// The time when it was written.
    pub created_at: Timestamp,
}

impl From<&SummaryRecord> for SummaryView {
    fn from(saved: &SummaryRecord) -> Self {
        Self {
            summary: Covered::read(saved).summary,
            up_to: saved.up_to.clone(),
            messages: saved.messages,
            reason: saved.reason.clone(),
            model: saved.model.clone(),
            created_at: saved.created_at,
        }
    }
}

/// The part of a chat that a request wants to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Detail {
    /// All messages at once.
    Everything,
    /// All messages of a short chat, and the outline of a long one.
    InPages,
    /// The pending calls and questions, without messages.
    Pending,
}

/// The messages of a long chat that are still to be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outline {
    pub profile: Profile,
    /// The data chunks that the chat's last post asked for.
    pub show: BTreeSet<Show>,
    /// All messages of the chat, in order.
    pub messages: Vec<MessageOutline>,
    /// The message that an open run is writing.
    pub left_out: Option<MessageId>,
    /// A message whose state in the chat actor is newer than in the store.
    pub newer: Option<UiMessage>,
}

/// A chat, and its messages one page after the other.
pub struct ChatPages {
    /// The chat, without messages.
    pub chat: ChatView,
    /// The messages of a short chat.
    short: Vec<UiMessage>,
    outline: Option<Outline>,
    position: usize,
    store: Arc<dyn Store>,
}

/// Returns a message as a client of this version is shown it, without the data parts that its last post did not ask for.
pub(crate) fn shown(message: &UiMessage, profile: Profile, show: &BTreeSet<Show>) -> UiMessage {
    let mut shown = profile.message(message);
    for (kind, asked_for) in [("data-compaction", Show::Context), ("data-plan", Show::Plan)] {
        if !show.contains(&asked_for) {
            shown.parts.retain(|part| !matches!(part, UiPart::Data(data) if data.kind == kind));
        }
    }
    shown
}

// === impl ChatPages ===

impl ChatPages {
    pub(crate) fn new(mut chat: ChatView, store: Arc<dyn Store>) -> Self {
        let short = std::mem::take(&mut chat.messages);
        let outline = chat.outline.take();
        Self { chat, short, outline, position: 0, store }
    }

    /// Returns whether there may be more than one page.
    pub fn is_long(&self) -> bool {
        self.outline.is_some()
    }

    /// Returns the next messages; an empty page is the end.
    ///
    /// # Errors
    /// Returns an error if the messages cannot be read, or have changed since the reading began.
    pub async fn next(&mut self) -> Result<Vec<UiMessage>, ReadError> {
        let Some(outline) = &self.outline else { return Ok(std::mem::take(&mut self.short)) };
        let mut page = Vec::new();
        // A page may consist of the message that is left out.
        while page.is_empty() && self.position < outline.messages.len() {
            let begins = self.position;
            let mut bytes = 0;
            while let Some(message) = outline.messages.get(self.position)
                && (self.position == begins || bytes + message.bytes <= PAGE_BYTES)
            {
                bytes += message.bytes;
                self.position += 1;
            }
            let messages =
                self.store.messages_at(&self.chat.id, begins..self.position, Files::Inline).await?;
            let expected = &outline.messages[begins..self.position];
            if !messages.iter().map(|message| &message.id).eq(expected.iter().map(|message| &message.id)) {
                return Err(StoreError::Fenced.into());
            }
            for message in messages {
                if outline.left_out.as_ref() == Some(&message.id) {
                    continue;
                }
                let newer = outline.newer.as_ref().filter(|newer| newer.id == message.id);
                page.push(shown(newer.unwrap_or(&message), outline.profile, &outline.show));
            }
        }
        Ok(page)
    }
}
