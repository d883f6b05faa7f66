//! The owner's end of a mailbox: it takes messages out, and notices if some are missing.
//!
//! A mailbox that is opened draws a number, its *generation*, and its stream begins at the id `<generation>-0`. Redis takes the first half
//! of an id for a time. As this one lies far in the future, Redis numbers all messages `<generation>-1`, `<generation>-2` … without gaps.
//! A read always begins at the start of the stream, and messages are removed once they have been taken. So
//!
//! - messages that a full mailbox has dropped leave a gap;
//! - a mailbox that anyone has created again, or that was restored to an older state, has other numbers;
//! - the expiry of a mailbox that is gone cannot be renewed, which each read does;
//! - a Redis that was restarted, and may have lost data, has broken the connection, which is never made again for the same generation.

use std::{pin::Pin, time::Duration};

use fermata_engine::peer_transport::TransportError;
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    TIMEOUT,
    connection::{Connection, Server},
};

/// The field of a stream's entry that holds the message.
pub const FIELD: &str = "l";

/// The maximum number of messages that one read returns.
const BATCH: usize = 64;
/// The longest time that Redis holds a read of an empty mailbox. A deleted mailbox is noticed when the read returns.
const BLOCK: Duration = Duration::from_secs(2);
/// The time that Redis may take for an answer beyond that.
const GRACE: Duration = Duration::from_secs(3);

/// The reader of an open mailbox.
pub struct MailboxReader {
    connection: Connection,
    key: String,
    generation: u64,
    expiry: Duration,
    /// The number of the last message that was taken.
    taken: u64,
    /// The number of messages that were taken and are still in the mailbox. They are the last ones.
    unremoved: u64,
    /// A read that has been sent to Redis. It is kept if the caller stops waiting, because Redis would make a second one wait behind it.
    pending: Option<PendingRead>,
}

type PendingRead = Pin<Box<dyn Future<Output = Result<ReadResult, TransportError>> + Send>>;
/// The streams that were read, by key, with their entries; and `true` if the mailbox exists.
type ReadResult = (Option<Vec<(Vec<u8>, Vec<StreamEntry>)>>, bool);
/// The id and the fields of an entry.
type StreamEntry = (String, Vec<(Vec<u8>, Vec<u8>)>);

// === impl MailboxReader ===

impl MailboxReader {
    /// Creates the mailbox again, empty.
    pub async fn open(server: &Server, key: String, expiry: Duration) -> Result<Self, TransportError> {
        let deadline = Instant::now() + TIMEOUT;
        let connection = server.connect(deadline).await?;
        // The number is one that no other generation has, and that Redis takes for a time in the far future: beyond 2^62 milliseconds.
        let generation = (1 << 62) | (Uuid::new_v4().as_u64_pair().0 >> 2);
        let first = format!("{generation}-0");
        let mut commands = redis::pipe();
        commands.atomic();
        commands.cmd("UNLINK").arg(&key).ignore();
        // A stream whose last entry is deleted remains, and so does its last id.
        commands.cmd("XADD").arg(&key).arg(&first).arg(FIELD).arg("").ignore();
        commands.cmd("XDEL").arg(&key).arg(&first).ignore();
        commands.cmd("PEXPIRE").arg(&key).arg(milliseconds(expiry)).ignore();
        connection.execute::<()>(&commands, deadline).await?;
        Ok(Self { connection, key, generation, expiry, taken: 0, unremoved: 0, pending: None })
    }

    /// Takes the next messages out of the mailbox. After an error, the mailbox has to be opened again.
    pub async fn next(&mut self) -> Result<Vec<Vec<u8>>, TransportError> {
        loop {
            let read = self.pending.take().unwrap_or_else(|| self.read());
            let result = self.pending.insert(read).await;
            self.pending = None;
            let (streams, exists) = result?;
            if !exists {
                return Err(self.connection.unavailable(
                    "the mailbox is gone, because Redis was emptied or the mailbox was not read in time",
                ));
            }
            // The read has removed what was still in the mailbox.
            self.unremoved = 0;
            let mut messages = Vec::new();
            for (id, fields) in streams.into_iter().flatten().flat_map(|(_, entries)| entries) {
                if id != self.id(self.taken + 1) {
                    let is_ours =
                        id.split_once('-').is_some_and(|(half, _)| half == self.generation.to_string());
                    return Err(self.connection.unavailable(if is_ours {
                        "messages are missing, because the mailbox was full or Redis was restored to an older state"
                    } else {
                        "another process has opened the mailbox"
                    }));
                }
                self.taken += 1;
                self.unremoved += 1;
                messages.extend(fields.into_iter().map(|(_, message)| message));
            }
            if !messages.is_empty() {
                return Ok(messages);
            }
        }
    }

    /// Removes the messages that were taken, waits for the next ones, and renews the expiry.
    fn read(&self) -> PendingRead {
        // The mailbox must not expire while its owner waits for messages.
        let block = BLOCK.min(self.expiry / 3);
        let mut commands = redis::pipe();
        if self.unremoved > 0 {
            // They are removed by their ids, so that the messages of another generation remain and are noticed.
            let ids = (self.taken - self.unremoved + 1..=self.taken).map(|number| self.id(number));
            commands.cmd("XDEL").arg(&self.key).arg(ids.collect::<Vec<_>>()).ignore();
        }
        let read = commands.cmd("XREAD").arg("COUNT").arg(BATCH).arg("BLOCK").arg(milliseconds(block));
        read.arg("STREAMS").arg(&self.key).arg("0-0");
        commands.cmd("PEXPIRE").arg(&self.key).arg(milliseconds(self.expiry));
        let connection = self.connection.clone();
        Box::pin(async move { connection.execute(&commands, Instant::now() + block + GRACE).await })
    }

    fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.generation)
    }
}

fn milliseconds(duration: Duration) -> u64 {
    // Redis takes zero for no limit.
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1)
}
