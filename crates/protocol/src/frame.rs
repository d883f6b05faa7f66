//! Chunks as the bytes of an event stream. A chunk that all clients get alike, as each delta, is encoded once, and all readers share the
//! bytes.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Profile, RunId, UiChunk};

/// The event that ends every stream.
pub const DONE: &[u8] = b"data: [DONE]\n\n";
/// Frames of at least this many bytes get no more memory than they need. To move a smaller one would take longer than to write it.
const LARGE: usize = 1024;
/// A comment that is sent on a quiet stream, so that proxies do not close it.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// A position in a run's log, as `id:` and `Last-Event-ID` carry it: `<run>:<seq>` or `<run>:<seq>.<n>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventId {
    /// The run whose log it is.
    pub run: RunId,
    /// The number of chunks of the log that the reader has received.
    pub seq: u64,
}

/// One chunk of a run's log, ready for readers of every profile.
#[derive(Clone, Debug)]
pub enum Frames {
    /// All profiles get these bytes.
    Same(Bytes),
    /// Profiles get different bytes, which are made for each reader.
    Split(Box<SplitChunk>),
}

/// A chunk that not all clients get alike.
#[derive(Clone, Debug)]
pub struct SplitChunk {
    id: EventId,
    chunk: UiChunk,
}

/// Encodes the chunk at position `seq` (counted from 1) of the run's log.
pub fn encode(run: &RunId, seq: u64, chunk: &UiChunk) -> Frames {
    if Profile::all_are_sent(chunk) {
        return Frames::Same(frame(run, seq, None, chunk));
    }
    Frames::Split(Box::new(SplitChunk { id: EventId { run: run.clone(), seq }, chunk: chunk.clone() }))
}

/// Encodes a chunk that is not in the log, for one reader that has read up to `seq`. `n` distinguishes such chunks from
/// each other. Returns `None` if the profile does not get the chunk.
pub fn encode_ephemeral(run: &RunId, seq: u64, n: u32, profile: Profile, chunk: &UiChunk) -> Option<Bytes> {
    let chunk = profile.chunk(chunk)?;
    Some(frame(run, seq, Some(n), &chunk))
}

/// Encodes one event. `n` is the number of a chunk that is not in the log. JSON has no raw line breaks, so the chunk always fits in one
/// `data:` line.
fn frame(run: &RunId, seq: u64, n: Option<u32>, chunk: &UiChunk) -> Bytes {
    let mut bytes = Vec::with_capacity(160);
    // Not formatted, which would cost half as much as the JSON of a delta.
    bytes.extend_from_slice(b"id: ");
    bytes.extend_from_slice(run.as_str().as_bytes());
    bytes.push(b':');
    bytes.extend_from_slice(seq.to_string().as_bytes());
    if let Some(n) = n {
        bytes.push(b'.');
        bytes.extend_from_slice(n.to_string().as_bytes());
    }
    bytes.extend_from_slice(b"\ndata: ");
    let written = serde_json::to_writer(&mut bytes, chunk);
    debug_assert!(
        written.is_ok(),
        "a chunk can always be written as JSON, and writing to memory does not fail"
    );
    bytes.extend_from_slice(b"\n\n");
    if bytes.len() > LARGE {
        // A log keeps its frames, and the capacity has grown to up to twice the size.
        bytes.shrink_to_fit();
    }
    Bytes::from(bytes)
}

impl Frames {
    /// Returns the bytes for readers of this profile, or `None` if they do not get the chunk.
    pub fn get(&self, profile: Profile) -> Option<Bytes> {
        match self {
            Self::Same(bytes) => Some(bytes.clone()),
            Self::Split(split) => {
                let EventId { run, seq } = &split.id;
                let chunk = profile.chunk(&split.chunk)?;
                Some(frame(run, *seq, None, &chunk))
            }
        }
    }

    /// Returns the chunk as it is saved ([`UiChunk::from_record`] reads it).
    pub fn to_record(&self) -> String {
        match self {
            Self::Same(bytes) => {
                let event = std::str::from_utf8(bytes).unwrap_or_default();
                event.split_once("data: ").map_or("", |(_, data)| data.trim_end()).to_owned()
            }
            Self::Split(split) => split.chunk.to_record(),
        }
    }
}

impl EventId {
    /// Reads the value of a `Last-Event-ID` header. Returns `None` if Fermata did not write it.
    pub fn parse(text: &str) -> Option<Self> {
        let (run, seq) = text.trim().rsplit_once(':')?;
        let seq = seq.split('.').next()?.parse().ok()?;
        Some(Self { run: RunId::new(run), seq })
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.run, self.seq)
    }
}
