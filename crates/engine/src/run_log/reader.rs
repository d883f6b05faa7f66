//! The readers of a log: a response, a reconnect, a second tab. A reader holds no more than a position.
//!
//! A reader outlives its log. If the run has moved, to another chat actor or another instance, the reader asks its [`StreamLocator`] for the
//! log that continues the run, and the response that it fills stays open.

use std::{
    fmt,
    future::poll_fn,
    mem,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use fermata_protocol::{DONE, Profile, RunId, UiChunk, encode_ephemeral};
use futures::future::BoxFuture;

use super::{BATCH_BYTES, LogEnd, Role, RunLog, Waiter, last_reset};
use crate::run_log::position::Position;

/// A reader of a run.
pub struct Reader {
    content: Content,
    profile: Profile,
    /// Chunks for this reader alone, before the log.
    prologue: Vec<UiChunk>,
    /// The number of chunks that the reader was sent besides the log's.
    own: u32,
    locator: Option<Arc<dyn StreamLocator>>,
    /// The search for the log that continues the run.
    moving: Option<BoxFuture<'static, Option<Reader>>>,
    done: bool,
}

/// The beginning of a reader.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Start {
    /// The position in the log that it has read up to.
    pub after: Position,
    /// `true` if it has read something of the answer in the step that it is in.
    pub reads_answer: bool,
    /// Chunks for this reader alone, before the log.
    pub prologue: Vec<UiChunk>,
}

/// Finds the log that continues a run after its log has moved.
pub(crate) trait StreamLocator: Send + Sync {
    /// Returns a reader of the run that continues after a position; `None` if there is no such log, or the profile cannot continue there.
    fn locate(&self, run: RunId, position: Position, profile: Profile) -> BoxFuture<'static, Option<Reader>>;
}

enum Content {
    Log {
        waiter: Waiter,
        /// The number of entries that the reader has looked at.
        next: usize,
        /// The end of the part of the log that the reader has read.
        position: Position,
        /// `true` if the reader has read something of the answer in the step that it is in.
        reads_answer: bool,
        /// The number of detachments before the reader began.
        detachments: usize,
    },
    /// Nothing but the prologue.
    Nothing(RunId),
}

/// Something that is ready for a reader.
enum Ready {
    Bytes(Bytes),
    End(LogEnd),
}

// === impl Reader ===

impl Reader {
    /// Returns a reader of a log.
    pub(crate) fn new(log: Arc<RunLog>, profile: Profile, start: Start) -> Self {
        let (next, detachments) = {
            let log = log.lock();
            let next = log.entries.partition_point(|entry| entry.position <= start.after);
            (next, log.detachments.len())
        };
        let Start { after: position, reads_answer, prologue } = start;
        let content = Content::Log { waiter: Waiter::new(log), next, position, reads_answer, detachments };
        Self::reading(content, profile, prologue)
    }

    /// Returns a reader of these chunks and nothing else.
    pub(crate) fn of(run: RunId, profile: Profile, chunks: Vec<UiChunk>) -> Self {
        Self::reading(Content::Nothing(run), profile, chunks)
    }

    /// Returns the reader with a locator that it asks when its log has moved.
    pub(crate) fn located_by(self, locator: impl StreamLocator + 'static) -> Self {
        Self { locator: Some(Arc::new(locator)), ..self }
    }

    /// Returns where the reader begins, for a replica that it reads at another instance.
    pub(crate) fn start(&self) -> (Profile, Start) {
        let reads_answer = matches!(self.content, Content::Log { reads_answer: true, .. });
        (self.profile, Start { after: self.position(), reads_answer, prologue: self.prologue.clone() })
    }

    /// Returns the log that it reads, and the number of detachments before it began.
    pub(crate) fn log(&self) -> Option<(&Arc<RunLog>, usize)> {
        match &self.content {
            Content::Log { waiter, detachments, .. } => Some((&waiter.log, *detachments)),
            Content::Nothing(_) => None,
        }
    }

    fn reading(content: Content, profile: Profile, prologue: Vec<UiChunk>) -> Self {
        Self { content, profile, prologue, own: 0, locator: None, moving: None, done: false }
    }

    /// Waits until something is ready, and returns all that is, as one piece of an event stream; `None` after `[DONE]`.
    ///
    /// Cancel safe: dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        loop {
            if let Some(moving) = &mut self.moving {
                let located = moving.await;
                self.moving = None;
                match located {
                    Some(reader) => (self.content, self.prologue) = (reader.content, reader.prologue),
                    None => return Some(self.finish(&[cut_off()])),
                }
            }
            if !self.prologue.is_empty() {
                let mut batch = BytesMut::new();
                for chunk in mem::take(&mut self.prologue) {
                    self.push_own(&chunk, Position::START, &mut batch);
                }
                return Some(batch.freeze());
            }
            match poll_fn(|cx| self.poll_log(cx)).await {
                Ready::Bytes(bytes) => return Some(bytes),
                Ready::End(LogEnd::Closed(last) | LogEnd::Leaving(last)) => return Some(self.finish(&last)),
                Ready::End(LogEnd::Moved) => match &self.locator {
                    Some(locator) => {
                        let run = self.content.run().clone();
                        self.moving = Some(locator.locate(run, self.position(), self.profile));
                    }
                    None => return Some(self.finish(&[lost()])),
                },
            }
        }
    }

    fn poll_log(&mut self, cx: &Context<'_>) -> Poll<Ready> {
        let Content::Log { waiter, next, position, reads_answer, detachments } = &mut self.content else {
            return Poll::Ready(Ready::End(LogEnd::Closed([].into())));
        };
        waiter.register(cx);
        let log = waiter.log.lock();
        let readable = log.readable(*detachments);
        // Mostly there is one, and nothing is allocated for it.
        let (mut first, mut others) = (None, Vec::new());
        let mut is_taken_back = false;
        let mut size = 0;
        while let Some(entry) = readable.get(*next) {
            if size >= BATCH_BYTES {
                break;
            }
            let index = *next;
            *next += 1;
            if entry.position <= *position {
                // A replica may reach the reader's position only now.
                continue;
            }
            match entry.role {
                Role::StepBegins => {
                    *reads_answer = false;
                    // What is taken back by now need not be shown.
                    *next = last_reset(readable, index).map_or(*next, |reset| reset + 1);
                }
                Role::StepResets if !*reads_answer => continue,
                Role::StepResets if !self.profile.can_reset_step() => {
                    *next = index;
                    is_taken_back = true;
                    break;
                }
                Role::StepResets => *reads_answer = false,
                Role::Answer => *reads_answer = true,
                Role::Aside => {}
            }
            *position = entry.position;
            if let Some(bytes) = entry.frames.get(self.profile) {
                size += bytes.len();
                match first {
                    None => first = Some(bytes),
                    Some(_) => others.push(bytes),
                }
            }
        }
        let Some(first) = first else {
            if is_taken_back {
                return Poll::Ready(Ready::End(LogEnd::Closed([cut_off()].into())));
            }
            return match log.ending(*detachments) {
                Some(ending) if *next >= readable.len() => Poll::Ready(Ready::End(ending)),
                Some(_) | None => Poll::Pending,
            };
        };
        drop(log);
        if others.is_empty() {
            return Poll::Ready(Ready::Bytes(first));
        }
        let mut batch = BytesMut::with_capacity(size);
        batch.extend_from_slice(&first);
        for frame in &others {
            batch.extend_from_slice(frame);
        }
        Poll::Ready(Ready::Bytes(batch.freeze()))
    }

    fn finish(&mut self, last: &[UiChunk]) -> Bytes {
        let mut batch = BytesMut::new();
        for chunk in last {
            self.push_own(chunk, self.position(), &mut batch);
        }
        batch.extend_from_slice(DONE);
        self.done = true;
        batch.freeze()
    }

    /// Adds a chunk for this reader alone. It carries the reader's position in the log, so that it can continue from there;
    /// before the log it carries the start, because the prologue cannot be sent again to another reader.
    fn push_own(&mut self, chunk: &UiChunk, position: Position, batch: &mut BytesMut) {
        self.own += 1;
        let run = self.content.run();
        if let Some(bytes) = encode_ephemeral(run, position.into(), self.own, self.profile, chunk) {
            batch.extend_from_slice(&bytes);
        }
    }

    fn position(&self) -> Position {
        match &self.content {
            Content::Log { position, .. } => *position,
            Content::Nothing(_) => Position::START,
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("profile", &self.profile)
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

// === impl Content ===

impl Content {
    fn run(&self) -> &RunId {
        match self {
            Self::Log { waiter, .. } => &waiter.log.run,
            Self::Nothing(run) => run,
        }
    }
}

/// Returns the last chunk for a reader of a run that cannot be followed any further, because it may have been lost.
pub(super) fn lost() -> UiChunk {
    UiChunk::Error { error_text: "The server lost this run. Load the chat again.".into() }
}

/// Returns the last chunk for a reader that cannot go on where its run does, because something that it has read is taken back, or the run is over.
fn cut_off() -> UiChunk {
    UiChunk::Error {
        error_text: "The answer cannot be followed any further here. Load the chat again.".into(),
    }
}
