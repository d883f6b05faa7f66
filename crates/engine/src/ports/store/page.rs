//! Lists of chats: their entries, the cursor where a page begins, and the title of a chat. All stores share them, so that their lists are
//! equal.
//!
//! This module knows no database. Times in lists are whole microseconds, so that every store has one order of chats.

use std::time::Duration;

use fermata_protocol::{ApprovalId, ChatId, Role, RunStatus, UiMessage};
use fermata_tools::Owner;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::StoreError;

/// The entry of a chat in lists, as its owner has set it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// The title that a person or a model has given it; `None` if nobody has.
    pub title: Option<String>,
    /// `true` if only lists of archived chats have it.
    pub archived: bool,
    /// `true` if lists begin with it.
    pub pinned: bool,
}

/// The chats that a list has.
#[derive(Clone, Copy, Debug)]
pub struct ChatQuery<'a> {
    /// The owner of the chats.
    pub owner: &'a Owner,
    /// `true` for archived chats, `false` for the others, `None` for all.
    pub archived: Option<bool>,
    /// The number of chats.
    pub limit: usize,
    /// The `next` of the page before.
    pub before: Option<&'a str>,
}

/// One page of a list of chats.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatPage {
    /// The chats: the pinned ones first, then newest first.
    pub chats: Vec<ChatSummary>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<String>,
}

/// A chat in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatSummary {
    /// The chat's id.
    pub id: ChatId,
    /// The entry of the chat. Without a title of its own, it has the beginning of the first user message.
    pub listing: Listing,
    /// The time when the chat began.
    pub created_at: Timestamp,
    /// The time when the chat last changed.
    pub updated_at: Timestamp,
    /// `true` if the chat has an open run that can be followed, which is one whose readers were not detached.
    pub open: bool,
    /// The number of calls of the open run that wait for a decision or for the browser's output, and of its questions that wait for an
    /// answer.
    pub pending: usize,
    /// The status of the chat's run, if the last post asked for it.
    pub status: Option<RunStatus>,
}

/// The number of characters of a message that make a title.
const TITLE_CHARACTERS: usize = 80;

/// The last chat of a page. Pages are ordered by `pinned`, then by `updated_at`, then by id, all downwards.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// `true` if the chat is pinned.
    pub pinned: bool,
    /// The time when the chat last changed, in microseconds.
    pub updated_at: i64,
    /// The chat's id.
    pub chat: ChatId,
}

// === impl ChatQuery ===

impl<'a> ChatQuery<'a> {
    /// Asks for the first of all chats of an owner.
    pub fn new(owner: &'a Owner, limit: usize) -> Self {
        Self { owner, archived: None, limit, before: None }
    }
}

/// Returns the title that a message gives to its chat; `None` if it is not the user's or has no text.
pub fn title(message: &UiMessage) -> Option<String> {
    if message.role != Role::User {
        return None;
    }
    let mut texts = message.parts.iter().filter_map(|part| part.as_text()).map(str::trim);
    let text = texts.find(|text| !text.is_empty())?;
    let mut characters = text.chars().map(|c| if c.is_whitespace() || c.is_control() { ' ' } else { c });
    let mut title: String = characters.by_ref().take(TITLE_CHARACTERS).collect();
    if characters.next().is_some() {
        title.truncate(title.trim_end().len());
        title.push('…');
    }
    Some(title)
}

/// Returns a time in whole microseconds, as lists have it.
pub fn whole_microseconds(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

// === impl Cursor ===

impl Cursor {
    /// Reads a text that [`Cursor::encode`] wrote.
    ///
    /// # Errors
    /// Returns [`StoreError::BadCursor`] if it is any other text.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let (pinned, rest) = text.split_once('~').ok_or(StoreError::BadCursor)?;
        let (updated_at, chat) = rest.split_once('~').ok_or(StoreError::BadCursor)?;
        let pinned = match pinned {
            "p" => true,
            "" => false,
            _ => return Err(StoreError::BadCursor),
        };
        let updated_at = updated_at.parse().map_err(|_| StoreError::BadCursor)?;
        let chat = ChatId::parse(chat).map_err(|_| StoreError::BadCursor)?;
        Ok(Self { pinned, updated_at, chat })
    }

    /// Returns the cursor as text, which needs no escaping in a URL.
    pub fn encode(&self) -> String {
        format!("{}~{}~{}", if self.pinned { "p" } else { "" }, self.updated_at, self.chat)
    }
}

/// A place in a list of approvals, which is ordered by a time, then by id: the last approval of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalCursor {
    /// The time.
    pub at: Timestamp,
    /// The id of the approval.
    pub id: ApprovalId,
}

// === impl ApprovalCursor ===

impl ApprovalCursor {
    /// Returns the place after all approvals of a time.
    pub fn after(at: Timestamp) -> Self {
        let at = whole_microseconds(at).checked_add(Duration::from_micros(1)).unwrap_or(Timestamp::MAX);
        Self { at, id: ApprovalId::new("") }
    }

    /// Reads a text that [`ApprovalCursor::encode`] wrote.
    ///
    /// # Errors
    /// Returns [`StoreError::BadCursor`] if it is any other text.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let (at, id) = text.split_once('~').ok_or(StoreError::BadCursor)?;
        let at = at.parse().ok().and_then(|at| Timestamp::from_microsecond(at).ok());
        Ok(Self { at: at.ok_or(StoreError::BadCursor)?, id: ApprovalId::new(id) })
    }

    /// Returns the cursor as text.
    pub fn encode(&self) -> String {
        format!("{}~{}", self.at.as_microsecond(), self.id)
    }
}

#[cfg(test)]
mod tests {
    use fermata_protocol::{MessageId, UiPart};
    use serde_json::Map;

    use super::*;

    fn said(role: Role, text: &str) -> UiMessage {
        let part =
            UiPart::Text { text: text.into(), streaming: None, provider_metadata: None, extra: Map::new() };
        UiMessage {
            id: MessageId::new("m"),
            role,
            metadata: None,
            created_at: None,
            parts: vec![UiPart::StepStart, part],
        }
    }

    #[test]
    fn a_title_is_the_beginning_of_what_the_user_said() {
        assert_eq!(title(&said(Role::User, "  What is\nit? ")).as_deref(), Some("What is it?"));
        assert_eq!(title(&said(Role::User, " \n")), None);
        assert_eq!(title(&said(Role::Assistant, "It is.")), None);
        assert_eq!(title(&said(Role::User, &"ü".repeat(80))), Some("ü".repeat(80)));
        assert_eq!(title(&said(Role::User, &"ü".repeat(81))), Some("ü".repeat(80) + "…"));
    }

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_nothing_else_is() {
        for pinned in [false, true] {
            let cursor = Cursor { pinned, updated_at: -7, chat: ChatId::new("a.b:c_d-e") };
            assert_eq!(Cursor::parse(&cursor.encode()).unwrap(), cursor);
        }
        for wrong in [
            "",
            "~",
            "7~a",
            "~7",
            "~7~",
            "q~7~a",
            "~x~a",
            "~7~a b",
            "~99999999999999999999~a",
            "~7~a~b",
            "~7~tool-result",
        ] {
            assert!(matches!(Cursor::parse(wrong), Err(StoreError::BadCursor)), "{wrong:?} was taken");
        }
    }
}
