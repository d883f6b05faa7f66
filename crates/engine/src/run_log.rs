//! The log of a run, and its readers.
//!
//! One [`Writer`] appends, any number of [`Reader`]s follow. A chunk is encoded once, when it is appended; readers share its bytes and own no
//! more than a position. A reader that is slow or gone delays nothing. The log knows one thing of what its chunks mean: nothing of a step is
//! saved before all of it is, so a position that was lost right behind a `start-step` was in a step that was cut off.
//!
//! Invariants: a log has one writer. It ends exactly once, also when the writer is dropped in a panic. A reader ends when its log does, unless
//! the run goes on in another log: then the reader goes on there.

mod reader;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use fermata_protocol::{EventId, Frames, Profile, RunId, UiChunk, encode};
use tokio::sync::Notify;

use crate::position::Position;

pub use reader::Reader;
pub(crate) use reader::{Start, StreamLocator};

/// The number of bytes that are handed over at a time, so that a reader that catches up does not copy a whole message at once.
const BATCH_BYTES: usize = 64 * 1024;

/// The log of a run.
#[derive(Debug)]
pub(crate) struct RunLog {
    run: RunId,
    // Held for copying a few pointers, or as many chunks as go into a message. Shared with this run's readers only.
    entries: Mutex<Entries>,
    grown: Notify,
}

#[derive(Debug)]
struct Entries {
    entries: Vec<Entry>,
    detachments: Vec<Detachment>,
    ending: Option<LogEnd>,
}

/// A point at which the readers of that time were sent away. The log goes on for later ones.
#[derive(Debug)]
struct Detachment {
    /// The number of entries that they read.
    entries: usize,
    /// The chunks that they are sent last.
    last: Arc<[UiChunk]>,
}

/// The end of a log for a reader.
#[derive(Clone, Debug)]
pub(crate) enum LogEnd {
    /// The reader is sent these chunks last.
    Closed(Arc<[UiChunk]>),
    /// The run goes on elsewhere.
    Moved,
    /// As [`LogEnd::Moved`], because this process ends: the readers in it are sent these chunks last.
    Leaving(Arc<[UiChunk]>),
}

#[derive(Clone, Debug)]
struct Entry {
    position: Position,
    role: Role,
    frames: Frames,
    /// The chunk as it is saved, if the bytes of no profile hold all of it.
    record: Option<Box<str>>,
}

/// The kinds of chunks that the log distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    StepBegins,
    /// A delta of the model's text.
    Text,
    Other,
}

/// Appends to a log in two steps: chunks that are staged can be saved, but not read yet.
#[derive(Debug)]
pub(crate) struct Writer {
    log: Arc<RunLog>,
    staged: Vec<Entry>,
    /// The number of published entries that are saved.
    saved: usize,
}

// === impl Writer ===

impl Writer {
    /// Returns an empty log.
    pub fn new(run: RunId) -> Self {
        let entries = Entries { entries: Vec::new(), detachments: Vec::new(), ending: None };
        let log = RunLog { run, entries: Mutex::new(entries), grown: Notify::new() };
        Self { log: Arc::new(log), staged: Vec::new(), saved: 0 }
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
            let record = match frames {
                Frames::Split(_) => Some(chunk.to_record().into_boxed_str()),
                Frames::Same(_) => None,
            };
            self.staged.push(Entry { position: *position, role: Role::of(chunk), frames, record });
        }
    }

    /// Shows what is staged and wakes the readers once.
    pub fn publish(&mut self) {
        if self.staged.is_empty() {
            return;
        }
        self.log.lock().entries.append(&mut self.staged);
        self.log.grown.notify_waiters();
    }

    /// Returns the chunks that have not been saved yet, staged or published, and the position of the first of them. They are all of one
    /// epoch, because what an earlier process left is saved.
    pub fn unsaved(&self) -> (Position, Vec<String>) {
        let log = self.log.lock();
        let mut unsaved = log.entries[self.saved..].iter().chain(&self.staged).peekable();
        let first = unsaved.peek().map_or(Position::START.next(), |entry| entry.position);
        (first, unsaved.map(Entry::to_record).collect())
    }

    /// As [`Writer::unsaved`], for a log that ends: consecutive deltas of a text are joined, because they will not be streamed again. A
    /// joined text has the position of its last delta. Returns runs of consecutive positions, each with its first.
    pub fn unsaved_joined(&self) -> Vec<(Position, Vec<String>)> {
        let (first, texts) = self.unsaved();
        let mut joined: Vec<(Position, UiChunk)> = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let position = first.plus(index);
            let Ok(chunk) = UiChunk::from_record(text) else { continue };
            if let Some((last, text)) = joined.last_mut()
                && text.append_delta(&chunk)
            {
                *last = position;
            } else {
                joined.push((position, chunk));
            }
        }
        let mut runs: Vec<(Position, Vec<String>)> = Vec::new();
        for (position, chunk) in joined {
            match runs.last_mut() {
                Some((first, chunks)) if first.plus(chunks.len()) == position => {
                    chunks.push(chunk.to_record());
                }
                Some(_) | None => runs.push((position, vec![chunk.to_record()])),
            }
        }
        runs
    }

    /// Notes that everything so far is saved.
    pub fn note_saved(&mut self) {
        self.saved = self.log.lock().entries.len() + self.staged.len();
    }

    /// Sends the readers of this moment away, with these chunks as their last. The log goes on for later readers.
    pub fn detach_readers(&mut self, last: Vec<UiChunk>) {
        let mut log = self.log.lock();
        let entries = log.entries.len();
        log.detachments.push(Detachment { entries, last: last.into() });
        drop(log);
        self.log.grown.notify_waiters();
    }

    /// Ends the log; its readers are sent these chunks last.
    pub fn end(&mut self, last: Vec<UiChunk>) {
        self.end_as(LogEnd::Closed(last.into()));
    }

    /// Ends the log; its readers look for their run elsewhere.
    pub fn end_moved(&mut self) {
        self.end_as(LogEnd::Moved);
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
            self.log.grown.notify_waiters();
        }
    }

    /// Returns a reader that begins there.
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
        // A chat actor that ends in good order has ended the log before.
        self.end(vec![reader::lost()]);
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

    /// Waits for the chunks after a position, for a reader that began after so many detachments. Returns them as they are saved, about as
    /// many as fit into one message, or how the log ended for that reader. Cancel safe.
    pub async fn after(
        &self,
        position: Position,
        detachments: usize,
    ) -> Result<Vec<(Position, String)>, LogEnd> {
        loop {
            let grown = self.grown.notified();
            tokio::pin!(grown);
            // Registered before looking, so that nothing that is appended in between is missed.
            grown.as_mut().enable();
            {
                let log = self.lock();
                let readable = log.readable(detachments);
                let next = readable.partition_point(|entry| entry.position <= position);
                let (mut batch, mut size) = (Vec::new(), 0);
                for entry in &readable[next..] {
                    if size >= BATCH_BYTES {
                        break;
                    }
                    let text = entry.to_record();
                    size += text.len();
                    batch.push((entry.position, text));
                }
                if !batch.is_empty() {
                    return Ok(batch);
                }
                if let Some(ending) = log.ending(detachments) {
                    return Err(ending);
                }
            }
            grown.await;
        }
    }

    /// Returns where a reader begins that has read up to an event: at the start of the log if the event is not one of its own.
    pub fn start_after(&self, profile: Profile, event: Option<&EventId>) -> Start {
        match event {
            Some(event) if event.run == self.run => {
                self.go_on_after(profile, event.seq.into()).unwrap_or_default()
            }
            Some(_) | None => Start::default(),
        }
    }

    /// Returns where a reader goes on that has read up to a position; `None` if it has read text that is not in the log, and its version of
    /// the protocol cannot take text back.
    ///
    /// A position that is not in the log was given by a process that ended before its chunk was saved, in an epoch that is over; or it is
    /// in the middle of a text whose deltas were joined.
    pub fn go_on_after(&self, profile: Profile, position: Position) -> Option<Start> {
        let log = self.lock();
        let next = log.entries.partition_point(|entry| entry.position <= position);
        let read = &log.entries[..next];
        let Some(before) = read.last() else { return Some(Start::default()) };
        // Nothing of a step is saved before all of it is, so behind a `start-step` all of the step was lost.
        let step_was_lost = before.role == Role::StepBegins;
        let is_within_text = match log.entries.get(next) {
            Some(after) => after.role == Role::Text && after.position.epoch() == position.epoch(),
            None => false,
        };
        if before.position == position || !(step_was_lost || is_within_text) {
            // What is lost outside of the model's answer are partial outputs, each of which replaces those before it.
            return Some(Start { after: position, prologue: Vec::new() });
        }
        let step = read.iter().rfind(|entry| entry.role == Role::StepBegins)?;
        if profile < Profile::V7 {
            return None;
        }
        Some(Start { after: step.position, prologue: vec![UiChunk::ResetStep] })
    }
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

    /// Returns the end of the log for a reader that began after so many detachments, if it has come.
    fn ending(&self, detachments: usize) -> Option<LogEnd> {
        match self.detachments.get(detachments) {
            Some(detachment) => Some(LogEnd::Closed(detachment.last.clone())),
            None => self.ending.clone(),
        }
    }
}

// === impl Role ===

impl Role {
    fn of(chunk: &UiChunk) -> Self {
        if *chunk == UiChunk::StartStep {
            Self::StepBegins
        } else if matches!(chunk, UiChunk::TextDelta { .. } | UiChunk::ReasoningDelta { .. }) {
            Self::Text
        } else {
            Self::Other
        }
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

/// Returns the JSON in an event's bytes.
fn data_of(bytes: &Bytes) -> &str {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    text.split_once("data: ").map_or("", |(_, data)| data.trim_end())
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn at(number: u64) -> Position {
        number.into()
    }

    fn delta(number: u64) -> (Position, UiChunk) {
        (
            number.into(),
            UiChunk::TextDelta { id: "t".into(), delta: format!("<{number}>"), provider_metadata: None },
        )
    }

    fn text(bytes: Option<Bytes>) -> String {
        String::from_utf8(bytes.unwrap().to_vec()).unwrap()
    }

    impl Writer {
        fn append(&mut self, chunks: &[(Position, UiChunk)]) {
            self.stage(chunks);
            self.publish();
        }
    }

    #[tokio::test]
    async fn what_is_staged_can_be_saved_but_not_read() {
        let mut log = Writer::new(RunId::new("r"));
        let mut reader = log.read(Profile::V6, Start::default());
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
        let mut reader = log.read(Profile::V6, Start::default());
        assert!(reader.next().now_or_never().is_none());
        log.append(&[delta(1), delta(2)]);
        let piece = text(reader.next().await);
        assert!(piece.contains("<1>") && piece.contains("<2>"), "{piece}");
        assert!(reader.next().now_or_never().is_none());
        log.end(Vec::new());
        assert_eq!(text(reader.next().await), "data: [DONE]\n\n");
        assert!(reader.next().await.is_none());
    }

    fn after(log: &Writer, profile: Profile, event: &str) -> String {
        let start = log.log().start_after(profile, EventId::parse(event).as_ref());
        let mut reader = log.read(profile, start);
        std::iter::from_fn(|| reader.next().now_or_never().flatten()).map(|bytes| text(Some(bytes))).collect()
    }

    #[tokio::test]
    async fn a_reader_goes_on_after_the_event_it_names_and_from_the_start_where_there_is_none() {
        let mut log = Writer::new(RunId::new("r"));
        log.append(&[delta(1), delta(2), delta(900)]);
        let after = |event: &str| after(&log, Profile::V6, event);
        assert!(!after("r:2").contains("<2>") && after("r:2").contains("<900>"));
        assert!(after("r:2.1").contains("<900>") && !after("r:2.1").contains("<2>"));
        assert!(after("r:0").contains("<1>"));
        assert!(after("other:2").contains("<1>"), "another run's event");
        let own = Start { after: at(2), prologue: vec![UiChunk::StartStep] };
        let own = text(log.read(Profile::V6, own).next().now_or_never().flatten());
        let id = own.lines().next().and_then(|line| line.strip_prefix("id: ")).unwrap();
        assert!(after(id).contains("<1>"), "what was for one reader alone is no place in the log");
    }

    #[tokio::test]
    async fn what_was_lost_of_a_step_is_taken_back_and_of_reports_it_need_not_be() {
        let mut log = Writer::new(RunId::new("r"));
        // The run was recovered twice: within the step, and while its calls ran.
        let second = at(2).next_epoch();
        let third = second.next_epoch();
        let text = |position: Position| (position, delta(u64::from(position)).1);
        log.append(&[delta(1), (at(2), UiChunk::StartStep), text(second.plus(1)), text(second.plus(2))]);
        log.append(&[(third.plus(1), UiChunk::FinishStep)]);
        let (first_text, last_text) = (u64::from(second.plus(1)), u64::from(second.plus(2)));
        let seven = after(&log, Profile::V7, "r:7");
        assert!(seven.contains("reset-step") && !seven.contains("<1>"), "{seven}");
        assert!(seven.contains(&format!("<{first_text}>")), "{seven}");
        let six = after(&log, Profile::V6, "r:7");
        assert!(!six.contains("reset-step") && six.contains("<1>"), "version 6 reads all of it again: {six}");
        assert_eq!(log.log().go_on_after(Profile::V6, at(7)), None, "and cannot go on");
        let reports = after(&log, Profile::V6, &format!("r:{}", u64::from(second.plus(9))));
        assert!(!reports.contains(&format!("<{last_text}>")) && reports.contains("finish-step"), "{reports}");
        assert!(!after(&log, Profile::V7, "r:2").contains("reset-step"), "it has seen nothing of the step");
    }

    #[tokio::test]
    async fn a_log_that_is_over_has_its_words_in_one_piece() {
        let mut log = Writer::new(RunId::new("r"));
        log.append(&[
            (at(1), UiChunk::StartStep),
            delta(2),
            delta(3),
            delta(4),
            (at(5), UiChunk::FinishStep),
        ]);
        let whole = log.unsaved_joined();
        assert_eq!(
            whole.iter().map(|(first, texts)| (u64::from(*first), texts.len())).collect::<Vec<_>>(),
            [(1, 1), (4, 2)]
        );
        assert!(whole[1].1[0].contains("<2><3><4>"));
        let placed = whole.iter().flat_map(|(first, texts)| {
            texts.iter().enumerate().map(|(index, text)| (first.plus(index), text))
        });
        let chunks: Vec<_> = placed.map(|(seq, text)| (seq, UiChunk::from_record(text).unwrap())).collect();
        let kept = Writer::restore(RunId::new("r"), &chunks);
        assert_eq!(
            kept.log().go_on_after(Profile::V6, at(4)),
            Some(Start { after: at(4), prologue: Vec::new() })
        );
        assert_eq!(kept.log().go_on_after(Profile::V6, at(3)), None, "in the middle of the words");
        let again = Start { after: at(1), prologue: vec![UiChunk::ResetStep] };
        assert_eq!(kept.log().go_on_after(Profile::V7, at(3)), Some(again));
    }

    /// Sends everybody to one log.
    struct There(Arc<RunLog>);

    impl StreamLocator for There {
        fn locate(
            &self,
            _: RunId,
            place: Position,
            profile: Profile,
        ) -> futures::future::BoxFuture<'static, Option<Reader>> {
            let start = self.0.go_on_after(profile, place);
            std::future::ready(start.map(|start| Reader::new(self.0.clone(), profile, start))).boxed()
        }
    }

    #[tokio::test]
    async fn a_reader_goes_on_where_its_run_does() {
        let mut here = Writer::new(RunId::new("r"));
        here.append(&[delta(1), (at(2), UiChunk::StartStep), delta(3)]);
        let mut there = Writer::new(RunId::new("r"));
        there.append(&[delta(1), (at(2), UiChunk::StartStep), delta(900)]);
        let mut seven = here.read(Profile::V7, Start::default()).located_by(There(there.log().clone()));
        let mut six = here.read(Profile::V6, Start::default()).located_by(There(there.log().clone()));
        let mut homeless = here.read(Profile::V6, Start::default());
        for reader in [&mut seven, &mut six, &mut homeless] {
            assert!(text(reader.next().await).contains("<3>"));
        }
        here.end_moved();
        assert!(text(seven.next().await).contains("reset-step"));
        assert!(text(seven.next().await).contains("<900>"));
        for mut lost in [six, homeless] {
            let end = text(lost.next().await);
            assert!(end.contains("\"error\"") && end.ends_with("[DONE]\n\n"), "{end}");
        }
        there.end(Vec::new());
        assert_eq!(text(seven.next().await), "data: [DONE]\n\n");
    }

    #[tokio::test]
    async fn a_copy_that_comes_up_to_its_reader_later_gives_nothing_twice() {
        let mut copy = Writer::new(RunId::new("r"));
        let mut reader = copy.read(Profile::V6, Start { after: at(2), prologue: Vec::new() });
        copy.append(&[delta(1), delta(2)]);
        assert!(reader.next().now_or_never().is_none());
        copy.append(&[delta(3)]);
        assert_eq!(text(reader.next().await).matches("id: ").count(), 1);
    }

    #[tokio::test]
    async fn the_readers_of_the_end_are_told_and_later_ones_read_the_same_log() {
        let mut log = Writer::new(RunId::new("r"));
        log.append(&[delta(1)]);
        let mut reader = log.read(Profile::V6, Start { after: at(1), prologue: Vec::new() });
        log.end(vec![UiChunk::FinishStep]);
        assert_eq!(
            text(reader.next().await),
            "id: r:1.1\ndata: {\"type\":\"finish-step\"}\n\ndata: [DONE]\n\n"
        );
    }

    #[tokio::test]
    async fn readers_that_were_sent_away_end_and_the_log_goes_on_for_later_ones() {
        let mut log = Writer::new(RunId::new("r"));
        log.append(&[delta(1)]);
        let mut early = log.read(Profile::V6, Start::default());
        log.detach_readers(Vec::new());
        let mut late = log.read(Profile::V6, Start::default());
        log.append(&[delta(2)]);
        assert!(text(early.next().await).contains("<1>"));
        assert_eq!(text(early.next().await), "data: [DONE]\n\n");
        let all = text(late.next().await);
        assert!(all.contains("<1>") && all.contains("<2>"), "{all}");
    }

    #[tokio::test]
    async fn a_writer_that_is_lost_ends_its_readers_with_an_error() {
        let log = Writer::new(RunId::new("r"));
        let mut reader = log.read(Profile::V6, Start::default());
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
        assert_eq!((first, unsaved.len()), (at(2), 1));
        assert_eq!(UiChunk::from_record(&unsaved[0]).unwrap(), delta(2).1);
    }

    #[tokio::test]
    async fn a_reader_that_is_slow_loses_nothing() {
        let mut log = Writer::new(RunId::new("r"));
        let mut reader = log.read(Profile::V6, Start::default());
        let big = "x".repeat(BATCH_BYTES / 2);
        for seq in 1..=5 {
            log.append(&[(
                at(seq),
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
