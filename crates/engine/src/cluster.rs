//! The other instances that share the store: which of them are alive, calls to them, and the logs that are replicated between them.
//!
//! The store keeps instances from harming each other, with versions of chats and leases. Messages between instances may be lost;
//! an instance that misses one asks again, or its readers look for their run again.

mod message;
mod remote_call;
mod replication;

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fermata_protocol::{ChatId, UiChunk};
use futures::future::BoxFuture;
use serde_json::value::RawValue;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

pub(crate) use message::ReaderMessage;
use message::{Message, Number, ReplicatedLog};
pub(crate) use remote_call::CallError;
use remote_call::RemoteCalls;
use replication::{Part, Replication};

use crate::{
    api::request::Request,
    ports::{
        peer_transport::{PeerTransport, TransportError},
        store::{InstanceId, LEASE},
    },
    services::{HEARTBEAT_INTERVAL, Services},
};

/// The pause before the mailbox of this instance is opened again.
const REOPEN_AFTER: Duration = Duration::from_secs(1);
/// The pause before a message is sent again.
const RESEND_AFTER: Duration = Duration::from_millis(500);

/// This instance among the others.
pub(crate) struct Cluster {
    services: Arc<Services>,
    /// The transport to the other instances; `None` if there are none.
    transport: Option<Arc<dyn PeerTransport>>,
    /// The instances that were alive at the last heartbeat, the one that joined first in front.
    alive: watch::Sender<Arc<[InstanceId]>>,
    /// The number of heartbeats.
    heartbeats: AtomicU64,
    calls: RemoteCalls,
    logs: Replication,
}

/// A call from another instance.
pub(crate) struct IncomingCall {
    pub chat: ChatId,
    pub request: Request,
    from: InstanceId,
    number: Number,
}

/// The reply to a call from another instance, as far as it is written.
pub(crate) struct OutgoingReply<'a> {
    cluster: &'a Arc<Cluster>,
    to: InstanceId,
    number: Number,
    log: Option<ReplicatedLog>,
    replicate: Option<BoxFuture<'static, ()>>,
}

// === impl Cluster ===

impl Cluster {
    pub fn new(services: Arc<Services>, transport: Option<Arc<dyn PeerTransport>>) -> Self {
        Self {
            services,
            transport,
            alive: watch::Sender::new(Arc::default()),
            heartbeats: AtomicU64::new(0),
            calls: RemoteCalls::default(),
            logs: Replication::default(),
        }
    }

    fn instance(&self) -> &InstanceId {
        &self.services.lease.instance
    }

    /// Returns one of the other instances that were alive at the last heartbeat, if there is one and it can be called.
    pub fn another(&self) -> Option<InstanceId> {
        let others = self.newest_others();
        let chosen = (self.services.ids.next_number() as usize).checked_rem(others.len())?;
        Some(others[chosen].clone())
    }

    /// Returns the other instances that were alive at the last heartbeat and can be called, those that have started last first.
    pub fn newest_others(&self) -> Vec<InstanceId> {
        if self.transport.is_none() {
            return Vec::new();
        }
        let alive = self.alive.borrow();
        alive.iter().rev().filter(|instance| *instance != self.instance()).cloned().collect()
    }

    /// Returns the number of other instances that were alive at the last heartbeat.
    pub fn others(&self) -> usize {
        self.alive.borrow().iter().filter(|instance| *instance != self.instance()).count()
    }

    /// Returns whether an instance was alive at the last heartbeat.
    fn is_alive(&self, instance: &InstanceId) -> bool {
        self.alive.borrow().contains(instance)
    }

    /// Renews the lease with each heartbeat, until it is dropped. It needs nothing of the runtime of the chat actors, see
    /// [`Heartbeat`](crate::services::Heartbeat).
    pub async fn keep_alive(cluster: Weak<Self>) {
        let mut failing_since: Option<Instant> = None;
        while let Some(cluster) = cluster.upgrade() {
            match cluster.services.lease.renew().await {
                Ok(heartbeat) => {
                    if let Some(since) = failing_since.take() {
                        let after = since.elapsed();
                        tracing::info!(instance = %cluster.instance(), ?after, "the lease of this instance is renewed again");
                    }
                    cluster.alive.send_replace(heartbeat.alive.into());
                    cluster.heartbeats.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    if failing_since.is_none() {
                        tracing::warn!(instance = %cluster.instance(), %error, "the lease of this instance could not be renewed");
                        failing_since = Some(Instant::now());
                    }
                }
            }
            drop(cluster);
            sleep(HEARTBEAT_INTERVAL).await;
        }
    }

    /// Waits for the next heartbeat, or as long as one should take. Then drops what is no longer wanted of replicated logs, which has
    /// to happen even while the store does not answer.
    pub async fn follow_heartbeat(self: &Arc<Self>) {
        for (from, log) in self.logs.remove_idle() {
            self.services.shutdown.tasks.spawn(self.clone().unfollow(from, log));
        }
        let mut alive = self.alive.subscribe();
        // The sender is never dropped, so only the timeout can end this early.
        let _ = tokio::time::timeout(HEARTBEAT_INTERVAL, alive.changed()).await;
        self.logs.lose(|from| !self.is_alive(from));
    }

    /// Receives the messages of other instances until it is dropped; `serve` is given their calls.
    pub async fn receive(self: Arc<Self>, serve: impl Fn(IncomingCall)) {
        let Some(transport) = self.transport.clone() else { return };
        let mut is_open = true;
        loop {
            let error = match transport.open(self.instance()).await {
                Ok(()) => {
                    if !is_open {
                        tracing::info!(instance = %self.instance(), "other instances can be reached again");
                        // Calls that were sent while this instance had no mailbox get no reply.
                        self.lose_all();
                    }
                    is_open = true;
                    loop {
                        match transport.receive(self.instance()).await {
                            Ok(messages) => messages.iter().for_each(|bytes| self.read(bytes, &serve)),
                            Err(error) => break error,
                        }
                    }
                }
                Err(error) => error,
            };
            if is_open {
                tracing::warn!(instance = %self.instance(), %error, "other instances cannot be reached; chats that this instance owns go on");
            }
            is_open = false;
            self.lose_all();
            sleep(REOPEN_AFTER).await;
        }
    }

    /// Ends every wait for a message of another instance, because messages to this instance may be lost. Callers and readers then try
    /// again.
    fn lose_all(&self) {
        self.calls.waiting.clear();
        self.logs.lose(|_| true);
    }

    fn read(self: &Arc<Self>, bytes: &[u8], serve: &impl Fn(IncomingCall)) {
        let tasks = &self.services.shutdown.tasks;
        match serde_json::from_slice(bytes) {
            Ok(Message::Call { number, from, chat, request }) => {
                serve(IncomingCall { chat, request: *request, from, number });
            }
            Ok(Message::Reply { number, result, log }) => {
                // A replica has to be there before its reader comes to it with the reply.
                if let Some(log) = log
                    && !self.logs.expect(&log)
                {
                    tasks.spawn(self.clone().unfollow(log.from, log.number));
                }
                // The caller may have given up.
                if let Some((_, waiting)) = self.calls.waiting.remove(&number) {
                    let _ = waiting.send(result);
                }
            }
            Ok(Message::Chunks { log, from, part, chunks }) => {
                if !self.logs.receive(&from, log, part, Part::Chunks(chunks)) {
                    tasks.spawn(self.clone().unfollow(from, log));
                }
            }
            Ok(Message::End { log, from, part, last }) => {
                self.logs.receive(&from, log, part, Part::End(last));
            }
            Ok(Message::Unfollow { log, from }) => self.logs.unfollow(log, &from),
            Err(error) => {
                tracing::warn!(instance = %self.instance(), %error, "a message of another instance cannot be read");
            }
        }
    }

    /// Asks an instance to stop replicating a log to this one.
    async fn unfollow(self: Arc<Self>, to: InstanceId, log: Number) {
        let message = Message::Unfollow { log, from: self.instance().clone() };
        if let Some(transport) = &self.transport
            && let Err(error) = transport.send(&to, vec![message.to_bytes()]).await
        {
            // This instance asks again when the next part of the log comes.
            tracing::debug!(instance = %self.instance(), %to, log, %error, "an instance could not be asked to stop replicating a log");
        }
    }

    /// Sends a message, again and again if the transport fails, until the receiver is gone. Returns `true` if the message was sent.
    async fn deliver(&self, to: &InstanceId, message: &Message) -> bool {
        let Some(transport) = &self.transport else { return false };
        let give_up_at = Instant::now() + LEASE;
        loop {
            match transport.send(to, vec![message.to_bytes()]).await {
                Ok(()) => return true,
                Err(TransportError::NoMailbox) => return false,
                Err(TransportError::Unavailable(_)) if Instant::now() >= give_up_at && !self.is_alive(to) => {
                    return false;
                }
                Err(TransportError::Unavailable(_)) => sleep(RESEND_AFTER).await,
            }
        }
    }

    /// Begins the reply to a call.
    pub fn reply_to(self: &Arc<Self>, call: &IncomingCall) -> OutgoingReply<'_> {
        OutgoingReply {
            cluster: self,
            to: call.from.clone(),
            number: call.number,
            log: None,
            replicate: None,
        }
    }

    /// Returns the number of logs of other instances that are read here.
    pub fn replicas(&self) -> usize {
        self.logs.replicas()
    }

    /// Ends the readers of this many logs of other instances, because this instance ends. Returns how many logs there were.
    pub fn end_replicas(&self, most: usize, last: &[UiChunk]) -> usize {
        self.logs.end(most, last)
    }

    /// Closes the mailbox of this instance.
    pub async fn close(&self) {
        if let Some(transport) = &self.transport {
            transport.close(self.instance()).await;
        }
    }
}

// === impl OutgoingReply ===

impl OutgoingReply<'_> {
    /// Sends the reply, `None` if this instance does not own the chat, and then the log that it announces until it ends.
    pub async fn send(self, result: Option<Box<RawValue>>) {
        let message = Message::Reply { number: self.number, result, log: self.log };
        self.cluster.deliver(&self.to, &message).await;
        // The log is replicated even if the reply was lost, because a second reader at that instance may depend on it.
        if let Some(replicate) = self.replicate {
            replicate.await;
        }
    }
}
