//! The streams that are open: how many each owner reads, and which of them have been quiet for the longest.

use std::{
    collections::{BTreeMap, BinaryHeap, HashMap},
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use fermata_protocol::ChatId;
use fermata_tools::Owner;
use tokio::time::Instant;

use crate::error::{ApiError, Code};

/// The open streams. Clones share them.
#[derive(Clone, Debug)]
pub struct Readers {
    limit: Option<NonZeroUsize>,
    /// The origin of the times of [`OpenStream::quiet_since`].
    epoch: Instant,
    // The mutex is held for a few instructions, unless connections have run out, and never across an await.
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    counts: HashMap<Owner, usize>,
    last: u64,
    streams: BTreeMap<u64, Arc<OpenStream>>,
}

#[derive(Debug)]
struct OpenStream {
    owner: Owner,
    /// It is not known before the run has started.
    chat: OnceLock<ChatId>,
    /// The time of the last event, in milliseconds. Keep-alive comments do not count.
    quiet_since: AtomicU64,
}

/// A guard that counts a stream until it is dropped.
#[derive(Debug)]
pub struct ReaderGuard {
    readers: Readers,
    number: u64,
    stream: Arc<OpenStream>,
}

// === impl Readers ===

impl Readers {
    /// Allows each owner this number of streams; `None` for any number.
    pub fn new(limit: Option<NonZeroUsize>) -> Self {
        Self { limit, epoch: Instant::now(), open: Arc::default() }
    }

    /// Returns the number of open streams.
    pub fn streams(&self) -> usize {
        self.open().streams.len()
    }

    /// Counts one more stream of an owner.
    ///
    /// # Errors
    /// Returns 429 if the owner has reached the limit.
    pub fn enter(&self, owner: &Owner) -> Result<ReaderGuard, ApiError> {
        let mut open = self.open();
        let count = open.counts.entry(owner.clone()).or_default();
        if let Some(limit) = self.limit
            && *count >= limit.get()
        {
            return Err(ApiError::new(
                Code::TooManyReaders,
                format!("You have reached the limit of {limit} open streams (readers_per_owner). Close one."),
            ));
        }
        *count += 1;
        open.last += 1;
        let number = open.last;
        let quiet_since = AtomicU64::new(self.millis(Instant::now()));
        let stream = Arc::new(OpenStream { owner: owner.clone(), chat: OnceLock::new(), quiet_since });
        open.streams.insert(number, stream.clone());
        Ok(ReaderGuard { readers: self.clone(), number, stream })
    }

    /// Returns the owners and chats of the streams that have been quiet for the longest, at most this number, with the quietest first.
    pub fn quietest(&self, number: usize) -> Vec<(Owner, ChatId)> {
        let open = self.open();
        let mut quietest = BinaryHeap::new();
        for (index, stream) in &open.streams {
            quietest.push((stream.quiet_since.load(Ordering::Relaxed), *index));
            if quietest.len() > number {
                // The one with the latest event.
                quietest.pop();
            }
        }
        let quietest = quietest.into_sorted_vec().into_iter();
        let streams = quietest.filter_map(|(_, index)| open.streams.get(&index));
        streams.filter_map(|stream| Some((stream.owner.clone(), stream.chat.get()?.clone()))).collect()
    }

    fn millis(&self, at: Instant) -> u64 {
        u64::try_from(at.duration_since(self.epoch).as_millis()).unwrap_or(u64::MAX)
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl ReaderGuard ===

impl ReaderGuard {
    /// Notes the chat of the stream.
    pub fn note_chat(&self, chat: &ChatId) {
        // It is noted once.
        let _ = self.stream.chat.set(chat.clone());
    }

    /// Notes the time of an event.
    pub fn note_event(&self, at: Instant) {
        self.stream.quiet_since.store(self.readers.millis(at), Ordering::Relaxed);
    }
}

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        let mut open = self.readers.open();
        open.streams.remove(&self.number);
        let owner = &self.stream.owner;
        if let Some(count) = open.counts.get_mut(owner) {
            *count -= 1;
            if *count == 0 {
                open.counts.remove(owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_quietest_streams_come_first() {
        let readers = Readers::new(None);
        let guards: Vec<_> = ["a", "b", "c", "d"]
            .into_iter()
            .map(|chat| {
                let guard = readers.enter(&Owner::new("ada")).expect("room");
                if chat != "d" {
                    guard.note_chat(&ChatId::new(chat));
                }
                guard
            })
            .collect();
        tokio::time::advance(Duration::from_secs(1)).await;
        guards[0].note_event(Instant::now());
        let chats = |number| {
            let quietest = readers.quietest(number).into_iter();
            quietest.map(|(_, chat)| chat.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(chats(10), "b c a");
        assert_eq!(chats(2), "b c");
        drop(guards);
        assert_eq!(chats(10), "");
    }
}
