//! The owner's end of a mailbox: how messages are taken out, and how it is noticed that some are missing.
//!
//! Each opening draws a number, the *opening*, and makes the stream begin at the id `<opening>-0`. As the first half of a stream's ids is a
//! time for Redis, and this one lies far in the future, Redis numbers all messages `<opening>-1`, `<opening>-2` … without gaps. What is read is
//! always the whole mailbox from its beginning, from which messages are removed once they are taken. So
//!
//! - messages that fell out of a full mailbox leave a gap;
//! - a mailbox that was made anew, by anybody, or put back to an older state, has other numbers;
//! - a mailbox that is gone cannot have its expiry renewed, which each reading does;
//! - a Redis that lost data by ending has ended the connection, which is never made again within an opening.

use std::{pin::Pin, time::Duration};

use fermata_engine::peer_transport::TransportError;
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    PATIENCE,
    connection::{Connection, Server},
};

/// The field of a stream's entry that holds the message.
pub const FIELD: &str = "l";

/// How many messages are taken out at a time.
const BATCH: usize = 64;
/// How long Redis holds a question back until a message comes. A mailbox that is gone is noticed after this time.
const WAIT: Duration = Duration::from_secs(2);
/// What Redis may take for an answer beyond that.
const SLACK: Duration = Duration::from_secs(3);

/// An open mailbox, as its owner holds it.
pub struct MailboxReader {
    connection: Connection,
    key: String,
    opening: u64,
    expiry: Duration,
    /// The number of the last message that was taken out.
    taken: u64,
    /// How many of the messages taken are still in the mailbox; they are the last ones.
    left: u64,
    /// A question that has been asked. It outlives a caller that gives up, so that no other waits behind it in Redis.
    asked: Option<Question>,
}

type Question = Pin<Box<dyn Future<Output = Result<Answer, TransportError>> + Send>>;
/// What is in the mailbox, and whether there is one.
type Answer = (Option<Vec<(Vec<u8>, Vec<Entry>)>>, bool);
/// An id, and the fields.
type Entry = (String, Vec<(Vec<u8>, Vec<u8>)>);

// === impl MailboxReader ===

impl MailboxReader {
    /// Makes the mailbox anew, empty.
    pub async fn open(server: &Server, key: String, expiry: Duration) -> Result<Self, TransportError> {
        let deadline = Instant::now() + PATIENCE;
        let connection = server.connect(deadline).await?;
        let opening = draw_opening();
        let begin = format!("{opening}-0");
        let mut question = redis::pipe();
        question.atomic();
        question.cmd("UNLINK").arg(&key).ignore();
        // A stream stays when its last entry goes, and so does its count.
        question.cmd("XADD").arg(&key).arg(&begin).arg(FIELD).arg("").ignore();
        question.cmd("XDEL").arg(&key).arg(&begin).ignore();
        question.cmd("PEXPIRE").arg(&key).arg(milliseconds(expiry)).ignore();
        connection.ask::<()>(&question, deadline).await?;
        Ok(Self { connection, key, opening, expiry, taken: 0, left: 0, asked: None })
    }

    /// Takes the next messages out. After an error, this opening has ended.
    pub async fn next(&mut self) -> Result<Vec<Vec<u8>>, TransportError> {
        loop {
            let question = self.asked.take().unwrap_or_else(|| self.ask());
            let answer = self.asked.insert(question).await;
            self.asked = None;
            let (found, is_there) = answer?;
            if !is_there {
                return Err(self.lost("the mailbox is gone, as Redis was emptied or nobody read it in time"));
            }
            // The question has removed what was still in the mailbox.
            self.left = 0;
            let messages = self.take(found.into_iter().flatten().flat_map(|(_, entries)| entries))?;
            if !messages.is_empty() {
                return Ok(messages);
            }
        }
    }

    fn ask(&self) -> Question {
        // So that a mailbox whose owner waits for messages does not expire meanwhile.
        let wait = WAIT.min(self.expiry / 3);
        let mut question = redis::pipe();
        if self.left > 0 {
            // By their ids, so that the messages of another opening stay and are seen.
            let ids = (self.taken - self.left + 1..=self.taken).map(|number| self.id(number));
            question.cmd("XDEL").arg(&self.key).arg(ids.collect::<Vec<_>>()).ignore();
        }
        let read = question.cmd("XREAD").arg("COUNT").arg(BATCH).arg("BLOCK").arg(milliseconds(wait));
        read.arg("STREAMS").arg(&self.key).arg("0-0");
        question.cmd("PEXPIRE").arg(&self.key).arg(milliseconds(self.expiry));
        let connection = self.connection.clone();
        Box::pin(async move { connection.ask(&question, Instant::now() + wait + SLACK).await })
    }

    fn take(&mut self, entries: impl Iterator<Item = Entry>) -> Result<Vec<Vec<u8>>, TransportError> {
        let mut messages = Vec::new();
        for (id, fields) in entries {
            if id != self.id(self.taken + 1) {
                return Err(self.missing(&id));
            }
            self.taken += 1;
            self.left += 1;
            messages.extend(fields.into_iter().map(|(_, message)| message));
        }
        Ok(messages)
    }

    fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.opening)
    }

    fn missing(&self, id: &str) -> TransportError {
        if id.split_once('-').is_some_and(|(opening, _)| opening == self.opening.to_string()) {
            return self.lost(
                "messages are missing, as the mailbox was full or Redis was put back to an older state",
            );
        }
        self.lost("somebody else has opened the mailbox")
    }

    fn lost(&self, reason: &str) -> TransportError {
        self.connection.unavailable(reason)
    }
}

/// A number that no other opening has, and that Redis takes for a time of the far future: beyond 2^62 milliseconds.
fn draw_opening() -> u64 {
    const FAR: u64 = 1 << 62;
    FAR | (Uuid::new_v4().as_u64_pair().0 >> 2)
}

fn milliseconds(duration: Duration) -> u64 {
    // Zero would mean for ever.
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1)
}
