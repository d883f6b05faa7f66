//! Logs of runs on their way to the instances whose readers follow them.
//!
//! One feed carries one log to one instance, however many readers it has there, and only for as long as it has any. There it becomes a
//! copy of the log that is read like any other. A copy that may lack something ends as moved, so its readers ask anew.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fermata_protocol::{Profile, UiChunk};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::letter::{FeedLetter, Letter, Number};
use crate::{
    Reader,
    engine::Inner,
    mail::MailError,
    run_log::{Ending, RunLog, Start, Writer},
    store::{InstanceId, LEASE},
};

/// How long to wait before sending a letter again.
const PAUSE: Duration = Duration::from_millis(500);

/// How often a feed that has nothing to say gives a sign: where the last letter was lost, nothing else would tell.
const SIGN_EVERY: Duration = Duration::from_secs(10);
/// How often in a row a copy may be found idle.
const IDLE_LOOKS: u32 = 3;

/// The feeds of this instance, in both directions.
#[derive(Default)]
pub(crate) struct Feeds {
    // Both are held for a few instructions or for encoding a letter's chunks, never across an await.
    outgoing: Mutex<HashMap<(usize, InstanceId), Outgoing>>,
    incoming: Mutex<HashMap<(InstanceId, Number), Copy>>,
    numbers: AtomicU64,
}

/// A feed from here.
struct Outgoing {
    number: Number,
    unfollowed: CancellationToken,
}

/// A log whose writer is another instance.
struct Copy {
    writer: Writer,
    /// How many letters of the feed have come.
    parts: u64,
    /// How often in a row it was found to have no reader.
    idle_looks: u32,
    heard: Instant,
}

/// What a letter of a feed says.
pub(super) enum Part {
    Chunks(Vec<(u64, String)>),
    End(Option<Vec<UiChunk>>),
}

// === outgoing ===

impl Feeds {
    /// The feed of a log to an instance, and, where it is new, what has to be awaited to keep it going.
    pub(super) fn open(
        &self,
        inner: &Arc<Inner>,
        log: &Arc<RunLog>,
        to: &InstanceId,
    ) -> (FeedLetter, Option<impl Future<Output = ()> + use<>>) {
        // The address names the log for as long as the feed holds it.
        let key = (Arc::as_ptr(log) as usize, to.clone());
        let mut outgoing = lock(&self.outgoing);
        let letter = |feed, is_new| FeedLetter {
            from: inner.instances.me.clone(),
            feed,
            run: log.run().clone(),
            is_new,
        };
        if let Some(known) = outgoing.get(&key) {
            return (letter(known.number, false), None);
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let unfollowed = CancellationToken::new();
        outgoing.insert(key.clone(), Outgoing { number, unfollowed: unfollowed.clone() });
        let (inner, log) = (inner.clone(), log.clone());
        let sending = async move {
            let closed = inner.over.clone();
            tokio::select! {
                () = unfollowed.cancelled() => {}
                () = closed.cancelled() => {}
                () = send_log(&inner, &log, &key.1, number) => {}
            }
            // Unless the same log has begun another feed meanwhile.
            let mut outgoing = lock(&inner.instances.feeds.outgoing);
            if outgoing.get(&key).is_some_and(|feed| feed.number == number) {
                outgoing.remove(&key);
            }
        };
        (letter(number, true), Some(sending))
    }

    /// Ends a feed that nobody reads any more.
    pub(super) fn unfollow(&self, feed: Number, from: &InstanceId) {
        lock(&self.outgoing).retain(|(_, to), known| {
            let is_it = to == from && known.number == feed;
            if is_it {
                known.unfollowed.cancel();
            }
            !is_it
        });
    }
}

async fn send_log(inner: &Inner, log: &RunLog, to: &InstanceId, feed: Number) {
    let (mut place, mut part) = (0, 0);
    loop {
        let from = inner.instances.me.clone();
        let next = tokio::time::timeout(SIGN_EVERY, log.after(place)).await.unwrap_or(Ok(Vec::new()));
        let (letter, is_last) = match next {
            Ok(chunks) => {
                place = chunks.last().map_or(place, |(seq, _)| *seq);
                (Letter::Feed { feed, from, part, chunks }, false)
            }
            Err(Ending::Closed(last)) => (Letter::End { feed, from, part, last: Some(last.to_vec()) }, true),
            Err(Ending::Moved | Ending::Leaving(_)) => (Letter::End { feed, from, part, last: None }, true),
        };
        if !deliver(inner, to, &letter).await || is_last {
            return;
        }
        part += 1;
    }
}

/// Sends a letter until it is sent, or the receiver is gone.
pub(super) async fn deliver(inner: &Inner, to: &InstanceId, letter: &Letter) -> bool {
    let Some(mail) = &inner.instances.mail else { return false };
    let give_up = Instant::now() + LEASE;
    loop {
        match mail.send(to, vec![letter.to_bytes()]).await {
            Ok(()) => return true,
            Err(MailError::NoBox) => return false,
            Err(MailError::Unavailable(_)) if Instant::now() >= give_up && !inner.instances.is_alive(to) => {
                return false;
            }
            Err(MailError::Unavailable(_)) => sleep(PAUSE).await,
        }
    }
}

// === incoming ===

impl Feeds {
    /// Makes sure that there is a copy for what is going to come. `false` where the copy has been given up of what has come already.
    pub(super) fn expect(&self, feed: &FeedLetter) -> bool {
        let mut incoming = lock(&self.incoming);
        let key = (feed.from.clone(), feed.feed);
        if feed.is_new {
            let copy = || Copy {
                writer: Writer::new(feed.run.clone()),
                parts: 0,
                idle_looks: 0,
                heard: Instant::now(),
            };
            incoming.entry(key.clone()).or_insert_with(copy);
        }
        incoming.contains_key(&key)
    }

    /// A reader of a copy. Where that has ended meanwhile, the reader will ask where its run is.
    pub(super) fn reader(&self, feed: &FeedLetter, profile: Profile, start: Start) -> Reader {
        match lock(&self.incoming).get_mut(&(feed.from.clone(), feed.feed)) {
            Some(copy) => {
                copy.idle_looks = 0;
                copy.writer.read(profile, start)
            }
            None => {
                let mut gone = Writer::new(feed.run.clone());
                gone.end_moved();
                gone.read(profile, start)
            }
        }
    }

    /// Takes what has come. `false` where the feed is none that is wanted here.
    pub(super) fn take(&self, from: &InstanceId, feed: Number, part: u64, what: Part) -> bool {
        let mut incoming = lock(&self.incoming);
        let key = (from.clone(), feed);
        let Some(copy) = incoming.get_mut(&key) else { return false };
        if part < copy.parts {
            return true;
        }
        copy.heard = Instant::now();
        let is_next = part == copy.parts;
        copy.parts += 1;
        match what {
            Part::Chunks(chunks) if is_next && copy.append(&chunks) => true,
            Part::End(Some(last)) if is_next => {
                copy.writer.end(last);
                incoming.remove(&key);
                true
            }
            // Something is missing, or the run goes on elsewhere.
            Part::Chunks(_) | Part::End(_) => {
                copy.writer.end_moved();
                incoming.remove(&key);
                false
            }
        }
    }

    /// Sends the readers of copies to look for their runs, where the writer of the copy is one of these.
    pub(super) fn lose(&self, is_gone: impl Fn(&InstanceId) -> bool) {
        lock(&self.incoming).retain(|(from, _), copy| {
            if is_gone(from) {
                copy.writer.end_moved();
            }
            !is_gone(from)
        });
    }

    /// Ends all copies because the process ends.
    pub fn leave(&self, last: &[UiChunk]) {
        for (_, mut copy) in lock(&self.incoming).drain() {
            copy.writer.end(last.to_vec());
        }
    }

    /// Forgets copies that nobody has read for a while, or of which nothing is heard, and says which.
    pub(super) fn take_idle(&self) -> Vec<(InstanceId, Number)> {
        let mut idle = Vec::new();
        lock(&self.incoming).retain(|key, copy| {
            copy.idle_looks = if copy.writer.has_readers() { 0 } else { copy.idle_looks + 1 };
            let silence = if copy.parts == 0 { SIGN_EVERY } else { 3 * SIGN_EVERY };
            let is_over = copy.idle_looks >= IDLE_LOOKS || copy.heard.elapsed() > silence;
            if is_over {
                copy.writer.end_moved();
                idle.push(key.clone());
            }
            !is_over
        });
        idle
    }
}

impl Copy {
    fn append(&mut self, chunks: &[(u64, String)]) -> bool {
        let read = chunks.iter().map(|(seq, chunk)| Ok((*seq, UiChunk::from_record(chunk)?)));
        let Ok(chunks) = read.collect::<Result<Vec<_>, serde_json::Error>>() else { return false };
        self.writer.stage(&chunks);
        self.writer.publish();
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
