//! Those who read a log: a response, a reconnect, a second tab. Each costs a place.
//!
//! A reader outlives its log. Where the run has moved, to another driver or another instance, it asks its [`StreamLocator`] for the log in which
//! the run goes on, and the response that it fills stays open.

use std::{fmt, mem, sync::Arc};

use bytes::{Bytes, BytesMut};
use fermata_protocol::{DONE, Profile, RunId, UiChunk, encode_ephemeral};
use futures::future::BoxFuture;

use super::{BATCH_BYTES, Ending, RunLog};

/// No chunk of a log stands here: who names it reads from the start.
const NO_PLACE: u64 = 0;

/// One reader of a run.
pub struct Reader {
    source: Source,
    profile: Profile,
    /// Chunks for this reader alone, before the log.
    prelude: Vec<UiChunk>,
    /// How many chunks of its own the reader has been sent.
    own: u32,
    locator: Option<Arc<dyn StreamLocator>>,
    /// Where the run goes on, once somebody says so.
    moving: Option<BoxFuture<'static, Option<Reader>>>,
    done: bool,
}

/// Where a reader begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Start {
    /// The place in the log that it has read up to.
    pub after: u64,
    /// Chunks for it alone, before the log.
    pub prelude: Vec<UiChunk>,
}

/// Finds the log in which a run goes on after its log has moved.
pub(crate) trait StreamLocator: Send + Sync {
    /// Returns a reader of the run that goes on after a position; `None` if there is none, or if the profile has no way to go on there.
    fn locate(&self, run: RunId, position: u64, profile: Profile) -> BoxFuture<'static, Option<Reader>>;
}

enum Source {
    Log {
        log: Arc<RunLog>,
        /// How many entries were looked at.
        next: usize,
        /// The place up to which the reader has the log.
        seq: u64,
        /// The number of detachments before the reader began.
        detachments: usize,
    },
    /// Nothing but the prelude.
    Nothing(RunId),
}

enum Ready {
    Bytes(Bytes),
    End(Ending),
    Nothing,
}

// === impl Reader ===

impl Reader {
    /// A reader of a log.
    pub(crate) fn new(log: Arc<RunLog>, profile: Profile, start: Start) -> Self {
        let (next, detachments) = {
            let log = log.lock();
            let next = log.entries.partition_point(|entry| entry.seq <= start.after);
            (next, log.detachments.len())
        };
        Self::reading(Source::Log { log, next, seq: start.after, detachments }, profile, start.prelude)
    }

    /// A stream that is all known: these chunks and the end.
    pub(crate) fn of(run: RunId, profile: Profile, chunks: Vec<UiChunk>) -> Self {
        Self::reading(Source::Nothing(run), profile, chunks)
    }

    /// Returns the reader with a locator that it asks when its log has moved.
    pub(crate) fn located_by(self, locator: impl StreamLocator + 'static) -> Self {
        Self { locator: Some(Arc::new(locator)), ..self }
    }

    /// Returns where the reader begins, for a replica that it reads at another instance.
    pub(crate) fn start(&self) -> (Profile, Start) {
        (self.profile, Start { after: self.place(), prelude: self.prelude.clone() })
    }

    /// Returns the log that it reads, and the number of detachments before it began.
    pub(crate) fn log(&self) -> Option<(&Arc<RunLog>, usize)> {
        match &self.source {
            Source::Log { log, detachments, .. } => Some((log, *detachments)),
            Source::Nothing(_) => None,
        }
    }

    fn reading(source: Source, profile: Profile, prelude: Vec<UiChunk>) -> Self {
        Self { source, profile, prelude, own: 0, locator: None, moving: None, done: false }
    }

    /// All that is ready, as one piece of an event stream; waits where nothing is. `None` after `[DONE]`.
    ///
    /// Cancel safe: a call that is dropped has taken nothing.
    pub async fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        loop {
            if let Some(moving) = &mut self.moving {
                let there = moving.await;
                self.moving = None;
                match there {
                    Some(there) => (self.source, self.prelude) = (there.source, there.prelude),
                    None => return Some(self.finish(&[lost()])),
                }
            }
            if !self.prelude.is_empty() {
                let mut batch = BytesMut::new();
                for chunk in mem::take(&mut self.prelude) {
                    self.push_own(&chunk, NO_PLACE, &mut batch);
                }
                return Some(batch.freeze());
            }
            let Source::Log { log, .. } = &self.source else { return Some(self.finish(&[])) };
            let log = log.clone();
            let grown = log.grown.notified();
            tokio::pin!(grown);
            // Registered before looking, so that what is appended in between is not missed.
            grown.as_mut().enable();
            match self.take_ready(&log) {
                Ready::Bytes(bytes) => return Some(bytes),
                Ready::End(Ending::Closed(last) | Ending::Leaving(last)) => return Some(self.finish(&last)),
                Ready::End(Ending::Moved) => match &self.locator {
                    Some(locator) => {
                        self.moving = Some(locator.locate(log.run.clone(), self.place(), self.profile));
                    }
                    None => return Some(self.finish(&[lost()])),
                },
                Ready::Nothing => grown.await,
            }
        }
    }

    fn take_ready(&mut self, log: &RunLog) -> Ready {
        let Source::Log { next, seq, detachments, .. } = &mut self.source else { return Ready::Nothing };
        let log = log.lock();
        let readable = log.readable(*detachments);
        let mut frames: Vec<Bytes> = Vec::new();
        let mut size = 0;
        for entry in readable.get(*next..).unwrap_or_default() {
            if size >= BATCH_BYTES {
                break;
            }
            *next += 1;
            if entry.seq <= *seq {
                // A log that is copied from elsewhere may come up to the reader's place only now.
                continue;
            }
            *seq = entry.seq;
            if let Some(bytes) = entry.frames.get(self.profile) {
                size += bytes.len();
                frames.push(bytes.clone());
            }
        }
        if frames.is_empty() {
            return match log.ending(*detachments) {
                Some(ending) if *next >= readable.len() => Ready::End(ending),
                Some(_) | None => Ready::Nothing,
            };
        }
        drop(log);
        Ready::Bytes(join(frames, size))
    }

    fn finish(&mut self, last: &[UiChunk]) -> Bytes {
        let mut batch = BytesMut::new();
        for chunk in last {
            self.push_own(chunk, self.place(), &mut batch);
        }
        batch.extend_from_slice(DONE);
        self.done = true;
        batch.freeze()
    }

    /// Chunks of its own carry the place up to which the reader has the log, so that it can go on from there; before the log they carry
    /// none, because nobody else could give them to it again.
    fn push_own(&mut self, chunk: &UiChunk, place: u64, batch: &mut BytesMut) {
        self.own += 1;
        let run = match &self.source {
            Source::Log { log, .. } => &log.run,
            Source::Nothing(run) => run,
        };
        if let Some(bytes) = encode_ephemeral(run, place, self.own, self.profile, chunk) {
            batch.extend_from_slice(&bytes);
        }
    }

    fn place(&self) -> u64 {
        match &self.source {
            Source::Log { seq, .. } => *seq,
            Source::Nothing(_) => NO_PLACE,
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("profile", &self.profile)
            .field("place", &self.place())
            .finish_non_exhaustive()
    }
}

/// What a reader is told whose run cannot be followed any further.
pub(super) fn lost() -> UiChunk {
    UiChunk::Error { error_text: "The server lost this run. Load the chat again.".into() }
}

fn join(mut frames: Vec<Bytes>, size: usize) -> Bytes {
    if frames.len() == 1 {
        return frames.swap_remove(0);
    }
    let mut batch = BytesMut::with_capacity(size);
    for frame in &frames {
        batch.extend_from_slice(frame);
    }
    batch.freeze()
}
