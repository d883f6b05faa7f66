//! Calls to the instance that owns a chat.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use dashmap::DashMap;
use fermata_protocol::ChatId;
use serde_json::value::RawValue;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::{
    Cluster,
    message::{Message, Number},
};
use crate::{
    api::request::Request,
    ports::{peer_transport::TransportError, store::InstanceId},
};

/// A caller checks at this interval that the other instance is still alive.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// A message or its reply counts as lost after this time. A post is not sent again for this alone.
const LOST_AFTER: Duration = Duration::from_secs(3);

/// The calls of this instance that wait for a reply.
#[derive(Default)]
pub(super) struct RemoteCalls {
    pub waiting: DashMap<Number, oneshot::Sender<Option<Box<RawValue>>>>,
    next: AtomicU64,
}

/// The reason why a call has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// The instance is gone or does not own the chat: another one does, or will.
    NotOwner,
    /// The instance may have served the request, and is gone, or its reply was lost.
    OutcomeUnknown,
    /// No instance can be reached.
    Unreachable,
}

// === impl Cluster ===

impl Cluster {
    /// Calls the instance that owns a chat, and waits for its result as JSON.
    pub async fn call(
        &self,
        to: &InstanceId,
        chat: &ChatId,
        request: Request,
        deadline: Instant,
    ) -> Result<Box<RawValue>, CallError> {
        let Some(transport) = &self.transport else { return Err(CallError::Unreachable) };
        let is_post = matches!(request, Request::Submit(_));
        let number = self.calls.next.fetch_add(1, Ordering::Relaxed);
        let (sender, reply) = oneshot::channel();
        self.calls.waiting.insert(number, sender);
        let _waiting = Waiting { calls: &self.calls, number };
        let (sent_at, heartbeats) = (Instant::now(), self.heartbeats.load(Ordering::Relaxed));
        let message = Message::Call {
            number,
            from: self.instance().clone(),
            chat: chat.clone(),
            request: Box::new(request),
        };
        match timeout_at(deadline, transport.send(to, vec![message.to_bytes()])).await {
            Ok(Ok(())) => {}
            Ok(Err(TransportError::NoMailbox)) => return Err(CallError::NotOwner),
            Ok(Err(TransportError::Unavailable(error))) => {
                tracing::warn!(%chat, %to, %error, "the instance that owns the chat cannot be called");
                return Err(CallError::Unreachable);
            }
            Err(_) => return Err(CallError::Unreachable),
        }
        tokio::pin!(reply);
        loop {
            let check_at = deadline.min(Instant::now() + CHECK_INTERVAL);
            match timeout_at(check_at, &mut reply).await {
                Ok(Ok(Some(result))) => return Ok(result),
                Ok(Ok(None)) => return Err(CallError::NotOwner),
                Ok(Err(_)) => return Err(CallError::OutcomeUnknown),
                Err(_) => {}
            }
            // An instance that has just started is not known to be alive yet, so what counts is a heartbeat after the call was sent.
            let is_dead = self.heartbeats.load(Ordering::Relaxed) > heartbeats + 1 && !self.is_alive(to);
            let is_lost = !is_post && sent_at.elapsed() >= LOST_AFTER;
            if is_dead || is_lost || Instant::now() >= deadline {
                return Err(CallError::OutcomeUnknown);
            }
        }
    }
}

/// A call that waits for its reply, until this is dropped.
struct Waiting<'a> {
    calls: &'a RemoteCalls,
    number: Number,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.calls.waiting.remove(&self.number);
    }
}
