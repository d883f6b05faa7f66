//! The log of a run, and its readers.
//!
//! One [`Writer`] appends, and any number of [`Reader`]s follow. A chunk is encoded once, when it is appended; readers share its bytes and own
//! no more than a position. A reader that is slow or gone delays nothing. Only one thing about the meaning of chunks matters here: a
//! `reset-step` takes back the model's output in its step before. Readers who have seen nothing of that are shown neither.
//!
//! Invariants: a log has one writer. It ends exactly once, even if the writer panics. A reader ends when its log does, unless
//! the run continues in another log: then the reader continues there.

pub(crate) mod position;
mod reader;
mod saved;
#[cfg(test)]
mod tests;
mod waiter;

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
};

use fermata_protocol::{EventId, Frames, Profile, RunId, UiChunk, encode};

use crate::run_log::position::Position;

pub use reader::Reader;
pub(crate) use reader::{Start, StreamLocator};
use saved::UnsavedChunk;
pub(crate) use saved::read_records;
use waiter::{Waiter, Waiters};

/// The size of a batch in bytes. A reader that catches up reads batch by batch, so that it does not copy a whole message at once.
const BATCH_BYTES: usize = 64 * 1024;

/// The log of a run.
#[derive(Debug)]
pub(crate) struct RunLog {
    run: RunId,
    // The lock is held while the pointers or the chunks of one batch are copied. Only the readers of this run compete for it.
    entries: Mutex<Entries>,
    waiters: Waiters,
}

#[derive(Debug)]
struct Entries {
    entries: Vec<Entry>,
    detachments: Vec<Detachment>,
    ending: Option<LogEnd>,
}

/// A point where all readers were detached. The log continues for later readers.
#[derive(Debug)]
struct Detachment {
    /// The number of entries that the detached readers are sent.
    entries: usize,
    /// The chunks that they are sent last.
    last: Arc<[UiChunk]>,
}

/// The end of a log for a reader.
#[derive(Clone, Debug)]
pub(crate) enum LogEnd {
    /// The reader is sent these chunks last.
    Closed(Arc<[UiChunk]>),
    /// The run continues in another log, and the reader looks for it.
    Moved,
    /// This process shuts down. Its own readers are sent these chunks last; a reader of a replica looks for the run, as for [`LogEnd::Moved`].
    Leaving(Arc<[UiChunk]>),
}

#[derive(Clone, Debug)]
struct Entry {
    position: Position,
    role: Role,
    frames: Frames,
}

/// The kinds of chunks that the log distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    StepBegins,
    /// Takes back the beginning of its step, because the model is asked again.
    StepResets,
    /// Something that the server tells the page, such as the status of the run, at any time.
    Aside,
    /// A part of the answer.
    Answer,
}

impl Role {
    fn of(chunk: &UiChunk) -> Self {
        match chunk {
            UiChunk::StartStep => Self::StepBegins,
            UiChunk::ResetStep => Self::StepResets,
            UiChunk::Data(_) | UiChunk::MessageMetadata { .. } => Self::Aside,
            _ => Self::Answer,
        }
    }
}

/// Appends to a log in two steps: chunks that are staged can be saved, but not read yet.
#[derive(Debug)]
pub(crate) struct Writer {
    log: Arc<RunLog>,
    staged: Vec<Entry>,
    /// The chunks that are not saved yet, staged or published.
    unsaved: Vec<UnsavedChunk>,
}

// === impl Writer ===

impl Writer {
    /// Returns an empty log.
    pub fn new(run: RunId) -> Self {
        let entries = Entries { entries: Vec::new(), detachments: Vec::new(), ending: None };
        let log = RunLog { run, entries: Mutex::new(entries), waiters: Waiters::default() };
        Self { log: Arc::new(log), staged: Vec::new(), unsaved: Vec::new() }
    }

    /// Returns a log as it was saved.
    pub fn restore(run: RunId, chunks: &[(Position, UiChunk)]) -> Self {
        let mut writer = Self::new(run);
        writer.stage(chunks);
        writer.publish();
        writer.note_saved();
        writer
    }

    /// Encodes chunks, which cannot be read yet.
    pub fn stage(&mut self, chunks: &[(Position, UiChunk)]) {
        for (position, chunk) in chunks {
            let frames = encode(&self.log.run, (*position).into(), chunk);
            self.staged.push(Entry { position: *position, role: Role::of(chunk), frames });
            saved::add(&mut self.unsaved, *position, chunk);
        }
    }

    /// Shows the staged chunks and wakes the readers once.
    pub fn publish(&mut self) {
        if self.staged.is_empty() {
            return;
        }
        self.log.lock().entries.append(&mut self.staged);
        self.log.waiters.wake();
    }

    /// Returns the chunks that have not been saved yet, staged or published, as they are saved ([`read_records`] reads them): groups with
    /// consecutive positions, each with the first of them.
    pub fn unsaved(&self) -> Vec<(Position, Vec<String>)> {
        saved::to_records(&self.unsaved)
    }

    /// Notes that everything so far is saved.
    pub fn note_saved(&mut self) {
        // The grown capacity is also freed: the run may wait for long now.
        self.unsaved = Vec::new();
    }

    /// Detaches the current readers, which are sent these chunks last. The log continues for later readers.
    pub fn detach_readers(&mut self, last: Vec<UiChunk>) {
        let mut log = self.log.lock();
        let entries = log.entries.len();
        log.detachments.push(Detachment { entries, last: last.into() });
        drop(log);
        self.log.waiters.wake();
    }

    /// Ends the log; its readers are sent these chunks last.
    pub fn end(&mut self, last: Vec<UiChunk>) {
        self.end_as(LogEnd::Closed(last.into()));
    }

    /// Ends the log; its readers look for the log that continues the run.
    pub fn end_moved(&mut self) {
        self.end_as(LogEnd::Moved);
    }

    /// Ends the log because it cannot be followed any further. Its readers get an error.
    pub fn end_lost(&mut self) {
        self.end(vec![reader::lost()]);
    }

    /// Ends the log because this process ends: its readers here are sent these chunks last, and those of replicas look for their run.
    pub fn leave(&mut self, last: Vec<UiChunk>) {
        self.end_as(LogEnd::Leaving(last.into()));
    }

    fn end_as(&mut self, ending: LogEnd) {
        let mut log = self.log.lock();
        if log.ending.is_none() {
            log.ending = Some(ending);
            drop(log);
            self.log.waiters.wake();
        }
    }

    /// Returns a reader that begins at `start`.
    pub fn read(&self, profile: Profile, start: Start) -> Reader {
        Reader::new(self.log.clone(), profile, start)
    }

    /// Returns whether the log has readers.
    pub fn has_readers(&self) -> bool {
        Arc::strong_count(&self.log) > 1
    }

    /// Returns the log.
    pub fn log(&self) -> &Arc<RunLog> {
        &self.log
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A chat actor that ends normally has ended the log already.
        self.end_lost();
    }
}

// === impl RunLog ===

impl RunLog {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the run whose log this is.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Waits for the chunks after a position, for a reader that began after so many detachments. Returns one batch of them in the form in
    /// which they are saved, or the end of the log for that reader. Cancel safe.
    pub async fn after(
        self: &Arc<Self>,
        position: Position,
        detachments: usize,
    ) -> Result<Vec<(Position, String)>, LogEnd> {
        let waiter = Waiter::new(self.clone());
        poll_fn(|cx| {
            waiter.register(cx);
            let log = self.lock();
            let readable = log.readable(detachments);
            let next = readable.partition_point(|entry| entry.position <= position);
            let (mut batch, mut size) = (Vec::new(), 0);
            for entry in &readable[next..] {
                if size >= BATCH_BYTES {
                    break;
                }
                let text = entry.frames.to_record();
                size += text.len();
                batch.push((entry.position, text));
            }
            if !batch.is_empty() {
                return Poll::Ready(Ok(batch));
            }
            match log.ending(detachments) {
                Some(ending) => Poll::Ready(Err(ending)),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Returns where a reader begins that has read up to an event: at the start of the log if the event is not of this run.
    pub fn start_after(&self, profile: Profile, event: Option<&EventId>) -> Start {
        match event {
            Some(event) if event.run == self.run => {
                self.resume_after(profile, event.seq.into()).unwrap_or_default()
            }
            Some(_) | None => Start::default(),
        }
    }

    /// Returns where a reader continues that has read up to a position; `None` if it has read something that is taken back by now, and its
    /// version of the protocol has no chunk for that.
    ///
    /// A position that is not in the log was given by a process that ended before its chunk was saved, in an epoch that is over.
    pub fn resume_after(&self, profile: Profile, position: Position) -> Option<Start> {
        let log = self.lock();
        let next = log.entries.partition_point(|entry| entry.position <= position);
        let Some(step) = log.entries[..next].iter().rposition(|entry| entry.role == Role::StepBegins) else {
            return Some(Start { after: position, ..Start::default() });
        };
        let reads_answer = reads_answer(&log.entries[step..next], position);
        let start = Start { after: position, reads_answer, prologue: Vec::new() };
        match last_reset(&log.entries, step) {
            Some(reset) if reset >= next => {
                let (before, reset) = (log.entries[reset - 1].position, log.entries[reset].position);
                if !reads_answer {
                    return Some(Start { after: reset, ..start });
                }
                profile.can_reset_step().then(|| Start { after: position.max(before), ..start })
            }
            Some(_) | None => Some(start),
        }
    }
}

/// Returns whether a reader has read something of the answer that was not taken back. `read` is what the log still has of the step up to the
/// reader's position. A process that has ended since may have shown more than that.
fn reads_answer(read: &[Entry], position: Position) -> bool {
    let begin =
        read.iter().rposition(|entry| matches!(entry.role, Role::StepBegins | Role::StepResets)).unwrap_or(0);
    let is_known = read.last().is_some_and(|last| last.position == position);
    !is_known
        || position.epoch() != read[begin].position.epoch()
        || read[begin..].iter().any(|entry| entry.role == Role::Answer)
}

/// Returns the index of the last entry that takes back the output of the step that begins at an index.
fn last_reset(entries: &[Entry], step: usize) -> Option<usize> {
    let later = &entries[step + 1..];
    let end = later.iter().position(|entry| entry.role == Role::StepBegins).unwrap_or(later.len());
    later[..end].iter().rposition(|entry| entry.role == Role::StepResets).map(|index| step + 1 + index)
}

// === impl Entries ===

impl Entries {
    /// Returns the entries for a reader that began after so many detachments.
    fn readable(&self, detachments: usize) -> &[Entry] {
        match self.detachments.get(detachments) {
            Some(detachment) => &self.entries[..detachment.entries],
            None => &self.entries,
        }
    }

    /// Returns the end of the log for a reader that began after so many detachments, if it has ended.
    fn ending(&self, detachments: usize) -> Option<LogEnd> {
        match self.detachments.get(detachments) {
            Some(detachment) => Some(LogEnd::Closed(detachment.last.clone())),
            None => self.ending.clone(),
        }
    }
}
