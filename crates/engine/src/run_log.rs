//! The log of a run, and those who read it.
//!
//! One [`Writer`] appends, any number of [`Reader`]s follow. A chunk is encoded once, when it is appended; readers share its bytes and
//! own no more than a place. A reader that is slow or gone is nobody's business. The log does not know what its chunks mean.
//!
//! Invariants: a log has one writer; it ends exactly once, also when the writer is dropped in a panic; a reader ends when its log does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use fermata_protocol::{DONE, EventId, Frames, Profile, RunId, UiChunk, encode, encode_ephemeral};
use tokio::sync::Notify;

/// A batch larger than this is handed over in pieces, so that one reader's catching up does not copy a whole message at once.
const BATCH_BYTES: usize = 64 * 1024;

/// No chunk of a log stands here: who names it reads from the start.
const NO_PLACE: u64 = 0;

/// The log.
#[derive(Debug)]
pub(crate) struct RunLog {
    run: RunId,
    // Held for a few copies of pointers at a time; shared with nobody but this run's readers.
    inner: Mutex<Inner>,
    grown: Notify,
}

#[derive(Debug)]
struct Inner {
    entries: Vec<Entry>,
    ending: Option<Arc<[UiChunk]>>,
}

#[derive(Clone, Debug)]
struct Entry {
    seq: u64,
    frames: Frames,
    /// The chunk as it is saved, where no profile's bytes hold all of it.
    record: Option<Box<str>>,
}

/// The one who appends, in two steps: what is staged can be saved but not read yet.
#[derive(Debug)]
pub(crate) struct Writer {
    log: Arc<RunLog>,
    staged: Vec<Entry>,
    /// How many of the published entries are saved.
    saved: usize,
}

/// One reader of a run's log: a response, a reconnect, a second tab. Costs a place.
#[derive(Debug)]
pub struct Reader {
    source: Source,
    profile: Profile,
    /// Chunks for this reader alone, before the log.
    prelude: Vec<UiChunk>,
    /// How many chunks of its own the reader has been sent.
    own: u32,
    done: bool,
}

#[derive(Debug)]
enum Source {
    Log {
        log: Arc<RunLog>,
        next: usize,
        seq: u64,
    },
    /// Nothing but the prelude.
    Nothing(RunId),
}

// === impl Writer ===

impl Writer {
    /// An empty log.
    pub fn new(run: RunId) -> Self {
        let inner = Mutex::new(Inner { entries: Vec::new(), ending: None });
        Self { log: Arc::new(RunLog { run, inner, grown: Notify::new() }), staged: Vec::new(), saved: 0 }
    }

    /// A log as it was saved.
    pub fn restore(run: RunId, chunks: &[(u64, UiChunk)]) -> Self {
        let mut writer = Self::new(run);
        writer.stage(chunks);
        writer.publish();
        writer.note_saved();
        writer
    }

    /// Encodes chunks, which nobody can read yet.
    pub fn stage(&mut self, chunks: &[(u64, UiChunk)]) {
        let run = &self.log.run;
        self.staged.extend(chunks.iter().map(|(seq, chunk)| {
            let frames = encode(run, *seq, chunk);
            let record = matches!(frames, Frames::Split(_)).then(|| chunk.to_record().into_boxed_str());
            Entry { seq: *seq, frames, record }
        }));
    }

    /// Shows what is staged and wakes the readers once.
    pub fn publish(&mut self) {
        if self.staged.is_empty() {
            return;
        }
        self.log.lock().entries.append(&mut self.staged);
        self.log.grown.notify_waiters();
    }

    /// What has not been saved yet, staged or published, and the place of the first of it. Places have gaps only where a process
    /// ended, and what it left is saved.
    pub fn unsaved(&self) -> (u64, Vec<String>) {
        let inner = self.log.lock();
        let mut unsaved = inner.entries[self.saved..].iter().chain(&self.staged).peekable();
        let first = unsaved.peek().map_or(1, |entry| entry.seq);
        (first, unsaved.map(Entry::to_record).collect())
    }

    /// Notes that everything so far is saved.
    pub fn note_saved(&mut self) {
        self.saved = self.log.lock().entries.len() + self.staged.len();
    }

    /// Ends the log; the readers of this moment are sent these chunks first.
    pub fn end(&mut self, last: Vec<UiChunk>) {
        let mut inner = self.log.lock();
        if inner.ending.is_none() {
            inner.ending = Some(last.into());
            drop(inner);
            self.log.grown.notify_waiters();
        }
    }

    /// The same log for later readers, after it has ended for those of its time.
    pub fn reopen(&self) -> Self {
        let mut writer = Self::new(self.log.run.clone());
        writer.saved = self.saved;
        writer.log.lock().entries.clone_from(&self.log.lock().entries);
        writer
    }

    /// A reader from the start.
    pub fn read(&self, profile: Profile) -> Reader {
        self.log.clone().reader(profile, 0, 0, Vec::new())
    }

    /// A reader that is first sent chunks of its own, then the log after a place.
    pub fn read_after(&self, profile: Profile, after: u64, prelude: Vec<UiChunk>) -> Reader {
        let next = self.log.lock().entries.partition_point(|entry| entry.seq <= after);
        self.log.clone().reader(profile, next, after, prelude)
    }

    /// A reader that has read up to an event, or from the start where the log has no such event.
    pub fn read_from(&self, profile: Profile, event: Option<&EventId>) -> Reader {
        let place = event.filter(|event| event.run == self.log.run).and_then(|event| {
            let inner = self.log.lock();
            inner.entries.binary_search_by_key(&event.seq, |entry| entry.seq).ok()
        });
        match (place, event) {
            (Some(place), Some(event)) => self.log.clone().reader(profile, place + 1, event.seq, Vec::new()),
            _ => self.read(profile),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A driver that ends in good order has ended the log before.
        self.end(vec![UiChunk::Error {
            error_text: "The server lost this run. Load the chat again.".into(),
        }]);
    }
}

// === impl RunLog ===

impl RunLog {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reader(self: Arc<Self>, profile: Profile, next: usize, seq: u64, prelude: Vec<UiChunk>) -> Reader {
        Reader { source: Source::Log { log: self, next, seq }, profile, prelude, own: 0, done: false }
    }
}

// === impl Entry ===

impl Entry {
    fn to_record(&self) -> String {
        match (&self.record, &self.frames) {
            (Some(record), _) => record.to_string(),
            (None, Frames::Same(bytes)) => data_of(bytes).to_owned(),
            (None, Frames::Split(_)) => String::new(),
        }
    }
}

/// The JSON in an event's bytes.
fn data_of(bytes: &Bytes) -> &str {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    text.split_once("data: ").map_or("", |(_, data)| data.trim_end())
}

// === impl Reader ===

impl Reader {
    /// A stream that is all known: these chunks and the end.
    pub(crate) fn of(run: RunId, profile: Profile, chunks: Vec<UiChunk>) -> Self {
        Self { source: Source::Nothing(run), profile, prelude: chunks, own: 0, done: false }
    }

    /// All that is ready, as one piece of an event stream; waits where nothing is. `None` after `[DONE]`.
    ///
    /// Cancel safe: a call that is dropped has taken nothing.
    pub async fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        if !self.prelude.is_empty() {
            let mut batch = BytesMut::new();
            for chunk in std::mem::take(&mut self.prelude) {
                self.push_own(&chunk, NO_PLACE, &mut batch);
            }
            return Some(batch.freeze());
        }
        loop {
            let Source::Log { log, .. } = &self.source else { return Some(self.finish(&[])) };
            let log = log.clone();
            let grown = log.grown.notified();
            tokio::pin!(grown);
            // Registered before looking, so that what is appended in between is not missed.
            grown.as_mut().enable();
            match self.take_ready(&log) {
                Ready::Bytes(bytes) => return Some(bytes),
                Ready::End(last) => return Some(self.finish(&last)),
                Ready::Nothing => grown.await,
            }
        }
    }

    fn take_ready(&mut self, log: &RunLog) -> Ready {
        let Source::Log { next, seq, .. } = &mut self.source else { return Ready::Nothing };
        let inner = log.lock();
        let mut frames: Vec<Bytes> = Vec::new();
        let mut size = 0;
        for entry in &inner.entries[*next..] {
            if size >= BATCH_BYTES {
                break;
            }
            *next += 1;
            *seq = entry.seq;
            if let Some(bytes) = entry.frames.get(self.profile) {
                size += bytes.len();
                frames.push(bytes.clone());
            }
        }
        if frames.is_empty() {
            return inner
                .ending
                .clone()
                .filter(|_| *next == inner.entries.len())
                .map_or(Ready::Nothing, Ready::End);
        }
        drop(inner);
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

enum Ready {
    Bytes(Bytes),
    End(Arc<[UiChunk]>),
    Nothing,
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

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn delta(seq: u64) -> (u64, UiChunk) {
        (seq, UiChunk::TextDelta { id: "t".into(), delta: format!("<{seq}>"), provider_metadata: None })
    }

    fn text(bytes: Option<Bytes>) -> String {
        String::from_utf8(bytes.unwrap().to_vec()).unwrap()
    }

    impl Writer {
        fn append(&mut self, chunks: &[(u64, UiChunk)]) {
            self.stage(chunks);
            self.publish();
        }
    }

    #[tokio::test]
    async fn what_is_staged_can_be_saved_but_not_read() {
        let mut log = Writer::new(RunId::new("r"));
        let mut reader = log.read(Profile::V6);
        log.stage(&[delta(1)]);
        assert_eq!(log.unsaved().1.len(), 1);
        assert!(reader.next().now_or_never().is_none());
        log.note_saved();
        log.publish();
        assert!(log.unsaved().1.is_empty());
        assert!(text(reader.next().await).contains("<1>"));
    }

    #[tokio::test]
    async fn what_is_ready_comes_in_one_piece_and_then_the_reader_waits() {
        let mut log = Writer::new(RunId::new("r"));
        let mut reader = log.read(Profile::V6);
        assert!(reader.next().now_or_never().is_none());
        log.append(&[delta(1), delta(2)]);
        let piece = text(reader.next().await);
        assert!(piece.contains("<1>") && piece.contains("<2>"), "{piece}");
        assert!(reader.next().now_or_never().is_none());
        log.end(Vec::new());
        assert_eq!(text(reader.next().await), "data: [DONE]\n\n");
        assert!(reader.next().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_goes_on_after_the_event_it_names_and_from_the_start_where_there_is_none() {
        let mut log = Writer::new(RunId::new("r"));
        log.append(&[delta(1), delta(2), delta(900)]);
        let after = |event: &str| {
            text(log.read_from(Profile::V6, EventId::parse(event).as_ref()).next().now_or_never().flatten())
        };
        assert!(!after("r:2").contains("<2>") && after("r:2").contains("<900>"));
        assert!(after("r:2.1").contains("<900>") && !after("r:2.1").contains("<2>"));
        assert!(after("r:17").contains("<1>"), "a place in a gap is no place");
        assert!(after("other:2").contains("<1>"), "another run's event");
        let start = UiChunk::StartStep;
        let own = text(log.read_after(Profile::V6, 2, vec![start]).next().now_or_never().flatten());
        let id = own.lines().next().and_then(|line| line.strip_prefix("id: ")).unwrap();
        assert!(after(id).contains("<1>"), "what was for one reader alone is no place in the log");
    }

    #[tokio::test]
    async fn the_readers_of_the_end_are_told_and_later_ones_read_the_same_log() {
        let mut log = Writer::new(RunId::new("r"));
        log.append(&[delta(1)]);
        let mut reader = log.read_after(Profile::V6, 1, Vec::new());
        log.end(vec![UiChunk::FinishStep]);
        assert_eq!(
            text(reader.next().await),
            "id: r:1.1\ndata: {\"type\":\"finish-step\"}\n\ndata: [DONE]\n\n"
        );
    }

    #[tokio::test]
    async fn a_log_that_ended_for_its_readers_goes_on_for_later_ones() {
        let mut log = Writer::new(RunId::new("r"));
        log.append(&[delta(1)]);
        let mut early = log.read(Profile::V6);
        log.end(Vec::new());
        let mut log = log.reopen();
        let mut late = log.read(Profile::V6);
        log.append(&[delta(2)]);
        assert!(text(early.next().await).contains("<1>"));
        assert_eq!(text(early.next().await), "data: [DONE]\n\n");
        let all = text(late.next().await);
        assert!(all.contains("<1>") && all.contains("<2>"), "{all}");
    }

    #[tokio::test]
    async fn a_writer_that_is_lost_ends_its_readers_with_an_error() {
        let log = Writer::new(RunId::new("r"));
        let mut reader = log.read(Profile::V6);
        drop(log);
        assert!(text(reader.next().await).contains("\"type\":\"error\""));
        assert!(reader.next().await.is_none());
    }

    #[tokio::test]
    async fn what_was_saved_is_not_saved_again() {
        let mut log = Writer::new(RunId::new("r"));
        log.append(&[delta(1)]);
        assert_eq!(log.unsaved().1.len(), 1);
        log.note_saved();
        log.append(&[delta(2)]);
        let (first, unsaved) = log.unsaved();
        assert_eq!((first, unsaved.len()), (2, 1));
        assert_eq!(UiChunk::from_record(&unsaved[0]).unwrap(), delta(2).1);
    }

    #[tokio::test]
    async fn a_reader_that_is_slow_loses_nothing() {
        let mut log = Writer::new(RunId::new("r"));
        let mut reader = log.read(Profile::V6);
        let big = "x".repeat(BATCH_BYTES / 2);
        for seq in 1..=5 {
            log.append(&[(
                seq,
                UiChunk::TextDelta { id: "t".into(), delta: big.clone(), provider_metadata: None },
            )]);
        }
        log.end(Vec::new());
        let mut pieces = 0;
        let mut all = String::new();
        while let Some(piece) = reader.next().await {
            pieces += 1;
            all.push_str(std::str::from_utf8(&piece).unwrap());
        }
        assert_eq!(all.matches("text-delta").count(), 5);
        assert!(pieces > 2, "a large log comes in pieces");
    }
}
