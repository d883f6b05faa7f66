//! Replication of run logs to the instances whose readers follow them.
//!
//! A log is replicated once to an instance, however many readers it has there, and only while it has any. Its replica is read like
//! any other log. A replica that may lack something ends as moved, so that its readers look for their run again.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fermata_protocol::UiChunk;
use futures::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Cluster, OutgoingReply, ReaderMessage,
    message::{Message, Number, ReplicatedLog},
};
use crate::{
    api::request::Following,
    ports::store::InstanceId,
    run_log::{LogEnd, Reader, RunLog, Start, Writer, position::Position},
};

/// An idle log sends an empty part at this interval, which reveals that the last message was lost.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// A replica that had no readers at this many checks in a row is dropped.
const MAX_IDLE_CHECKS: u32 = 3;

/// The replicated logs of this instance, in both directions.
#[derive(Default)]
pub(super) struct Replication {
    // Both are held for a few instructions or for encoding the chunks of a message, never across an await.
    outgoing: Mutex<HashMap<OutgoingKey, Outgoing>>,
    replicas: Mutex<HashMap<(InstanceId, Number), Replica>>,
    next: AtomicU64,
}

/// A log, by its address, the number of detachments before its readers began, and the instance that it is replicated to.
type OutgoingKey = (usize, usize, InstanceId);

/// A log of this instance that is replicated to another one.
struct Outgoing {
    number: Number,
    unfollowed: CancellationToken,
}

/// A log whose writer is another instance.
struct Replica {
    writer: Writer,
    /// The number of its messages that have come.
    parts: u64,
    /// The number of checks in a row that found no reader.
    idle_checks: u32,
    received_at: Instant,
}

/// The content of a message of a replicated log.
pub(super) enum Part {
    Chunks(Vec<(Position, String)>),
    End(Option<Vec<UiChunk>>),
}

// === outgoing ===

impl OutgoingReply<'_> {
    /// Returns a reader of a run in the form that a reply carries; its log is replicated after the reply.
    pub fn export_reader(&mut self, following: Following) -> ReaderMessage {
        let (profile, Start { after, reads_answer, prologue }) = following.reader.start();
        if let Some((log, detachments)) = following.reader.log() {
            let (replicated, replicate) = Replication::replicate(self.cluster, log, detachments, &self.to);
            self.log = Some(replicated);
            self.replicate = replicate.map(FutureExt::boxed);
        }
        ReaderMessage { run: following.run, profile, after, reads_answer, prologue, log: self.log.clone() }
    }
}

impl Replication {
    /// Returns the replicated log of an instance, and, if it is new, the future that sends it.
    fn replicate(
        cluster: &Arc<Cluster>,
        log: &Arc<RunLog>,
        detachments: usize,
        to: &InstanceId,
    ) -> (ReplicatedLog, Option<impl Future<Output = ()> + use<>>) {
        let logs = &cluster.logs;
        // The address identifies the log while the future holds it.
        let key = (Arc::as_ptr(log) as usize, detachments, to.clone());
        let mut outgoing = lock(&logs.outgoing);
        let known = outgoing.get(&key).map(|known| known.number);
        let number = known.unwrap_or_else(|| logs.next.fetch_add(1, Ordering::Relaxed));
        let replicated = ReplicatedLog {
            from: cluster.instance().clone(),
            number,
            run: log.run().clone(),
            is_new: known.is_none(),
        };
        if known.is_some() {
            return (replicated, None);
        }
        let unfollowed = CancellationToken::new();
        outgoing.insert(key.clone(), Outgoing { number, unfollowed: unfollowed.clone() });
        let (cluster, log) = (cluster.clone(), log.clone());
        let replicate = async move {
            let stopping = cluster.services.shutdown.stopping.clone();
            tokio::select! {
                () = unfollowed.cancelled() => {}
                () = stopping.reached() => {}
                () = send_log(&cluster, &log, detachments, &key.2, number) => {}
            }
            let mut outgoing = lock(&cluster.logs.outgoing);
            // Replication of the log may have begun again meanwhile.
            if outgoing.get(&key).is_some_and(|known| known.number == number) {
                outgoing.remove(&key);
            }
        };
        (replicated, Some(replicate))
    }

    /// Ends the replication of a log that is no longer read.
    pub fn unfollow(&self, number: Number, from: &InstanceId) {
        lock(&self.outgoing).retain(|(_, _, to), known| {
            let is_unfollowed = to == from && known.number == number;
            if is_unfollowed {
                known.unfollowed.cancel();
            }
            !is_unfollowed
        });
    }
}

async fn send_log(cluster: &Cluster, log: &Arc<RunLog>, detachments: usize, to: &InstanceId, number: Number) {
    let (mut position, mut part) = (Position::START, 0);
    loop {
        let from = cluster.instance().clone();
        let next = tokio::time::timeout(KEEPALIVE_INTERVAL, log.after(position, detachments))
            .await
            .unwrap_or(Ok(Vec::new()));
        let (message, is_last) = match next {
            Ok(chunks) => {
                position = chunks.last().map_or(position, |(last, _)| *last);
                (Message::Chunks { log: number, from, part, chunks }, false)
            }
            Err(LogEnd::Closed(last)) => {
                (Message::End { log: number, from, part, last: Some(last.to_vec()) }, true)
            }
            Err(LogEnd::Moved | LogEnd::Leaving(_)) => {
                (Message::End { log: number, from, part, last: None }, true)
            }
        };
        if !cluster.deliver(to, &message).await || is_last {
            return;
        }
        part += 1;
    }
}

// === replicas ===

impl Cluster {
    /// Returns a reader that came with a reply. If its replica has ended meanwhile, the reader looks for its run again.
    pub fn import_reader(&self, message: ReaderMessage) -> Reader {
        let ReaderMessage { run, profile, after, reads_answer, prologue, log } = message;
        let Some(log) = log else { return Reader::of(run, profile, prologue) };
        let start = Start { after, reads_answer, prologue };
        match lock(&self.logs.replicas).get_mut(&(log.from, log.number)) {
            Some(replica) => {
                replica.idle_checks = 0;
                replica.writer.read(profile, start)
            }
            None => {
                let mut gone = Writer::new(log.run);
                gone.end_moved();
                gone.read(profile, start)
            }
        }
    }
}

impl Replication {
    /// Creates the replica of a new log. Returns `false` if the log is not new and its replica was removed already.
    pub fn expect(&self, log: &ReplicatedLog) -> bool {
        let mut replicas = lock(&self.replicas);
        let key = (log.from.clone(), log.number);
        if log.is_new {
            replicas.entry(key.clone()).or_insert_with(|| Replica {
                writer: Writer::new(log.run.clone()),
                parts: 0,
                idle_checks: 0,
                received_at: Instant::now(),
            });
        }
        replicas.contains_key(&key)
    }

    /// Adds a part to the replica of a log. Returns `false` if there is no replica that needs it.
    pub fn receive(&self, from: &InstanceId, number: Number, part: u64, content: Part) -> bool {
        let mut replicas = lock(&self.replicas);
        let key = (from.clone(), number);
        let Some(replica) = replicas.get_mut(&key) else { return false };
        if part < replica.parts {
            return true;
        }
        replica.received_at = Instant::now();
        let is_next = part == replica.parts;
        replica.parts += 1;
        match content {
            Part::Chunks(chunks) if is_next && replica.append(&chunks) => true,
            Part::End(Some(last)) if is_next => {
                replica.writer.end(last);
                replicas.remove(&key);
                true
            }
            // A part is missing, or the run goes on elsewhere.
            Part::Chunks(_) | Part::End(_) => {
                replica.writer.end_moved();
                replicas.remove(&key);
                false
            }
        }
    }

    /// Sends the readers of replicas to look for their runs if `is_gone` is true of the writer.
    pub fn lose(&self, is_gone: impl Fn(&InstanceId) -> bool) {
        lock(&self.replicas).retain(|(from, _), replica| {
            let is_kept = !is_gone(from);
            if !is_kept {
                replica.writer.end_moved();
            }
            is_kept
        });
    }

    /// Returns the number of replicas.
    pub fn replicas(&self) -> usize {
        lock(&self.replicas).len()
    }

    /// Ends this many replicas, because this instance ends. Returns how many there were.
    pub fn end(&self, most: usize, last: &[UiChunk]) -> usize {
        let mut ended = 0;
        for (_, mut replica) in lock(&self.replicas).extract_if(|_, _| true).take(most) {
            replica.writer.end(last.to_vec());
            ended += 1;
        }
        ended
    }

    /// Removes replicas that have had no reader, or got no message, for too long. Returns them.
    pub fn remove_idle(&self) -> Vec<(InstanceId, Number)> {
        let mut idle = Vec::new();
        lock(&self.replicas).retain(|key, replica| {
            replica.idle_checks = if replica.writer.has_readers() { 0 } else { replica.idle_checks + 1 };
            let silence = if replica.parts == 0 { KEEPALIVE_INTERVAL } else { 3 * KEEPALIVE_INTERVAL };
            let is_idle = replica.idle_checks >= MAX_IDLE_CHECKS || replica.received_at.elapsed() > silence;
            if is_idle {
                replica.writer.end_moved();
                idle.push(key.clone());
            }
            !is_idle
        });
        idle
    }
}

// === impl Replica ===

impl Replica {
    /// Appends chunks. Returns `false` if one of them cannot be read.
    fn append(&mut self, chunks: &[(Position, String)]) -> bool {
        let mut read = Vec::with_capacity(chunks.len());
        for (position, text) in chunks {
            let Ok(chunk) = UiChunk::from_record(text) else { return false };
            read.push((*position, chunk));
        }
        self.writer.stage(&read);
        self.writer.publish();
        // The instance that owns the run saves it.
        self.writer.note_saved();
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
