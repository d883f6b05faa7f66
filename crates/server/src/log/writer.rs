//! The thread that writes the log to the standard error.
//!
//! It knows neither levels nor formats. A library has such a writer, but it limits lines and not bytes, and it can panic at the end of the
//! process.
//!
//! Invariant: logging cannot stop the server. [`LogWriter::put`] neither blocks nor panics, even if nobody reads the log. Lines that
//! find no room, and lines that cannot be written, are dropped and counted.

use std::{
    io::{self, Write},
    mem,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use metrics::Counter;
use tracing_subscriber::fmt::MakeWriter;

/// The limit on the lines that wait to be written, in bytes.
const QUEUE_BYTES: usize = 4 << 20;
/// The memory of a batch of at least this size is freed.
const LARGE_BATCH: usize = 64 << 10;
/// The delay before the next attempt to write into a full pipe whose other end has made it non-blocking.
const RETRY_AFTER: Duration = Duration::from_millis(10);

/// Writes lines on a thread of its own. Clones write to the same queue.
#[derive(Clone)]
pub struct LogWriter(Arc<Shared>);

/// One line of the log on its way to the queue.
pub struct Line<'a>(&'a LogWriter);

struct Shared {
    // The mutex is held while a line is copied.
    queue: Mutex<Queue>,
    /// Signals that there is something to write, or that everything is written.
    changed: Condvar,
    /// The number of lines that were dropped.
    lost: AtomicU64,
    lost_total: OnceLock<Counter>,
}

#[derive(Default)]
struct Queue {
    lines: Vec<u8>,
    /// `true` while the thread writes the lines that it has taken.
    is_writing: bool,
}

// === impl LogWriter ===

impl LogWriter {
    /// Starts the thread, which writes until the process ends.
    ///
    /// # Errors
    /// Returns an error if the system has no thread left.
    pub fn start(output: impl Write + Send + 'static) -> io::Result<Self> {
        let writer = Self(Arc::new(Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            lost: AtomicU64::new(0),
            lost_total: OnceLock::new(),
        }));
        let thread = writer.clone();
        thread::Builder::new().name("log".into()).spawn(move || thread.run(output))?;
        Ok(writer)
    }

    /// Adds complete lines to the queue, or drops them if there is no room.
    pub fn put(&self, lines: &[u8]) {
        let mut queue = self.queue();
        if queue.lines.len() + lines.len() > QUEUE_BYTES {
            drop(queue);
            self.count_lost(lines);
            return;
        }
        queue.lines.extend_from_slice(lines);
        drop(queue);
        self.0.changed.notify_all();
    }

    /// Waits until everything is written, or until the time is over because nobody takes the lines.
    pub fn flush(&self, within: Duration) {
        let done = self
            .0
            .changed
            .wait_timeout_while(self.queue(), within, |queue| queue.is_writing || !queue.lines.is_empty());
        // It does not matter whether the time is over.
        drop(done);
    }

    /// Counts lost lines in this metric, those before now included.
    pub fn count_in(&self, metric: Counter) {
        metric.absolute(self.0.lost.load(Ordering::Relaxed));
        // A second metric would be the same one.
        let _ = self.0.lost_total.set(metric);
    }

    fn count_lost(&self, lines: &[u8]) {
        if lines.is_empty() {
            return;
        }
        let number = lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        let total = self.0.lost.fetch_add(number, Ordering::Relaxed) + number;
        if let Some(metric) = self.0.lost_total.get() {
            metric.absolute(total);
        }
    }

    fn run(self, mut output: impl Write) {
        let mut batch = Vec::new();
        let (mut reported, mut is_within_line) = (0, false);
        loop {
            self.take(&mut batch);
            // What follows a line that was cut off is a line of its own.
            let is_cut_off = is_within_line && write_all(&mut output, b"\n") == 0;
            let written = if is_cut_off { 0 } else { write_all(&mut output, &batch) };
            is_within_line = match written.checked_sub(1) {
                Some(last) => batch[last] != b'\n',
                None => is_cut_off,
            };
            self.count_lost(&batch[written..]);
            let lost = self.0.lost.load(Ordering::Relaxed);
            if written == batch.len() && lost > reported {
                tracing::warn!(
                    lines = lost - reported,
                    "lines of the log were lost because they could not be written"
                );
                reported = lost;
            }
            batch.clear();
            if batch.capacity() > LARGE_BATCH {
                batch = Vec::new();
            }
        }
    }

    /// Waits for lines, and takes all.
    fn take(&self, batch: &mut Vec<u8>) {
        let mut queue = self.queue();
        queue.is_writing = false;
        if queue.lines.is_empty() {
            self.0.changed.notify_all();
        }
        let filled = self.0.changed.wait_while(queue, |queue| queue.lines.is_empty());
        let mut queue = filled.unwrap_or_else(PoisonError::into_inner);
        queue.is_writing = true;
        mem::swap(&mut queue.lines, batch);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes bytes, and returns how many of them were written. It waits for a reader that is slow, and gives up if there is an error.
fn write_all(output: &mut impl Write, bytes: &[u8]) -> usize {
    let mut written = 0;
    while written < bytes.len() {
        match output.write(&bytes[written..]) {
            Ok(0) => break,
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(RETRY_AFTER),
            Err(_) => break,
        }
    }
    written
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

// === impl Line ===

impl Write for Line<'_> {
    /// Takes all bytes: the subscriber writes an event at once.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.put(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// The limit on any wait. A test that reaches it has failed.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// An output whose writes follow the test's script, one by one. After its end, they succeed.
    struct Scripted {
        results: Receiver<io::Result<usize>>,
        written: Sender<Vec<u8>>,
    }

    impl Write for Scripted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let number = self.results.recv().unwrap_or(Ok(usize::MAX))?.min(bytes.len());
            self.written.send(bytes[..number].to_vec()).map_err(io::Error::other)?;
            Ok(number)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn scripted() -> (LogWriter, Sender<io::Result<usize>>, Receiver<Vec<u8>>) {
        let ((say, results), (written, read)) = (channel(), channel());
        (LogWriter::start(Scripted { results, written }).expect("a thread"), say, read)
    }

    fn lost(writer: &LogWriter) -> u64 {
        writer.0.lost.load(Ordering::Relaxed)
    }

    #[test]
    fn lines_are_written_in_order_and_a_flush_waits_for_them() {
        let (writer, say, read) = scripted();
        drop(say);
        for number in 0..1_000 {
            writer.put(format!("{number}\n").as_bytes());
        }
        writer.flush(PATIENCE);
        let expected: String = (0..1_000).map(|number| format!("{number}\n")).collect();
        assert_eq!(read.try_iter().flatten().collect::<Vec<_>>(), expected.as_bytes());
        assert_eq!(lost(&writer), 0);
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_later_ones_are_written() {
        let (writer, say, read) = scripted();
        // The disk is full after three bytes, and has room later.
        for result in [Ok(3), Err(io::ErrorKind::StorageFull.into()), Err(io::ErrorKind::BrokenPipe.into())] {
            say.send(result).expect("a writer");
        }
        writer.put(b"first\nsecond\n");
        while lost(&writer) < 2 {
            thread::yield_now();
        }
        writer.put(b"third\n");
        while lost(&writer) < 3 {
            thread::yield_now();
        }
        drop(say);
        writer.put(b"fourth\n");
        writer.flush(PATIENCE);
        assert_eq!(read.try_iter().flatten().collect::<Vec<_>>(), b"fir\nfourth\n");
        assert_eq!(lost(&writer), 3);
    }

    #[test]
    fn a_pipe_that_would_block_is_tried_again() {
        let (writer, say, read) = scripted();
        say.send(Err(io::ErrorKind::WouldBlock.into())).expect("a writer");
        say.send(Err(io::ErrorKind::Interrupted.into())).expect("a writer");
        drop(say);
        writer.put(b"line\n");
        writer.flush(PATIENCE);
        assert_eq!(read.try_iter().flatten().collect::<Vec<_>>(), b"line\n");
        assert_eq!(lost(&writer), 0);
    }

    #[test]
    fn an_output_that_blocks_delays_nobody_and_the_queue_has_a_limit() {
        let (writer, say, read) = scripted();
        let line = [vec![b'x'; (64 << 10) - 1], vec![b'\n']].concat();
        // The thread blocks in its first write with any number of these lines, and the queue takes 64 more.
        for _ in 0..200 {
            writer.put(&line);
        }
        let lost = lost(&writer);
        assert!((72..=136).contains(&lost), "{lost}");
        writer.flush(Duration::from_millis(1));
        drop(say);
        writer.flush(PATIENCE);
        assert_eq!(read.try_iter().flatten().count() as u64, (200 - lost) * (64 << 10));
    }
}
