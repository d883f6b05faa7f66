//! Requests of users to chats of others, for the audit.
//!
//! The one who asks gets the answer for a chat that does not exist, at once: the row is written by a task of its own, so not even the time that
//! the answer takes tells that the chat exists. The number of rows is bounded, because anybody with an account could ask without end.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use fermata_protocol::ChatId;
use fermata_tools::{AuditAction, AuditEvent, Owner};
use tokio::time::Instant;

use super::Router;
use crate::{api::request::RemoteRequest, ports::store::AuditEntry};

/// Further requests of a user to a chat are not noted for this time.
const INTERVAL: Duration = Duration::from_secs(60);
/// The number of rows in that time at most.
const MOST: usize = 1_000;

/// The requests that were noted last. The mutex is held for an instant, never across an await.
#[derive(Default)]
pub(super) struct Refusals(Mutex<HashMap<(ChatId, Owner), Instant>>);

// === impl Refusals ===

impl Refusals {
    /// Returns whether a request of this user to this chat is noted.
    fn admits(&self, chat: &ChatId, user: &Owner) -> bool {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.retain(|_, at| at.elapsed() < INTERVAL);
        if noted.len() >= MOST {
            return false;
        }
        let key = (chat.clone(), user.clone());
        let is_new = !noted.contains_key(&key);
        if is_new {
            noted.insert(key, Instant::now());
        }
        is_new
    }
}

// === impl Router ===

impl Router {
    /// Notes that a user has tried to change a chat of somebody else.
    pub(super) fn note_refusal<R: RemoteRequest>(&self, chat: &ChatId, owner: Owner, request: &R) {
        if R::READS || !self.refusals.admits(chat, request.owner()) {
            return;
        }
        let (address, call) = request.details();
        let event = AuditEvent { call, ..AuditEvent::new(AuditAction::RefusedToOther) };
        let event = event.by(request.owner().clone(), address);
        let (services, chat) = (self.services.clone(), chat.clone());
        self.services.shutdown.tasks.spawn(async move {
            let entry = AuditEntry::of_chat(&owner, &chat, None, event);
            if let Err(error) = services.store.add_audit(services.clock.now(), vec![entry]).await {
                tracing::warn!(%chat, %error, "the attempt of another user could not be noted in the audit");
            }
        });
    }
}
