//! A row of the audit, as every store keeps it.

use fermata_protocol::{ChatId, RunId};
use fermata_tools::{AuditAction, AuditEvent, Call, Owner};
use serde::{Deserialize, Serialize};

/// Something that an operator may have to account for, and whose data it is about. Its row outlives the chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// The owner of the data; `None` if it is about the server.
    pub owner: Option<Owner>,
    /// The chat; `None` if it is about no chat.
    pub chat: Option<ChatId>,
    /// The run, if it happened in one.
    pub run: Option<RunId>,
    /// The event.
    pub event: AuditEvent,
}

// === impl AuditEntry ===

impl AuditEntry {
    /// Returns the entry for an event that is about no chat.
    pub fn of_owner(owner: &Owner, event: AuditEvent) -> Self {
        Self { owner: Some(owner.clone()), chat: None, run: None, event }
    }

    /// Returns the entry for an event in a chat.
    pub fn of_chat(owner: &Owner, chat: &ChatId, run: Option<&RunId>, event: AuditEvent) -> Self {
        Self { owner: Some(owner.clone()), chat: Some(chat.clone()), run: run.cloned(), event }
    }

    /// Returns the entries for the deletion of a chat whose open run has these calls: each call that is open ends with it. `by` is the owner, if
    /// a person deletes it.
    pub fn of_deletion(
        owner: &Owner,
        chat: &ChatId,
        open_run: Option<(&RunId, Vec<&Call>)>,
        by: Option<&Owner>,
    ) -> Vec<Self> {
        let by_person = |event: AuditEvent| match by {
            Some(person) => event.by(person.clone(), None),
            None => event,
        };
        let mut entries = Vec::new();
        if let Some((run, calls)) = open_run {
            let ended = calls.into_iter().filter_map(AuditEvent::of_deleted);
            entries.extend(ended.map(|event| Self::of_chat(owner, chat, Some(run), by_person(event))));
        }
        let deleted = by_person(AuditEvent::new(AuditAction::ChatDeleted));
        entries.push(Self::of_chat(owner, chat, None, deleted));
        entries
    }

    /// Returns the entry for an event that is about the server.
    pub fn of_server(event: AuditEvent) -> Self {
        Self { owner: None, chat: None, run: None, event }
    }
}
