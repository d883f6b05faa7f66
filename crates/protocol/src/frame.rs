//! A chunk as bytes of an event stream. Encoded once, shared among all readers.

use std::{borrow::Cow, fmt, io::Write as _};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Profile, RunId, UiChunk};

/// What ends every stream.
pub const DONE: &[u8] = b"data: [DONE]\n\n";
/// What keeps proxies from dropping a quiet stream.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// A place in a run's log: what `id:` and `Last-Event-ID` carry, as `<run>:<seq>` or `<run>:<seq>.<n>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventId {
    /// Whose log.
    pub run: RunId,
    /// How many chunks of the log the reader has.
    pub seq: u64,
}

/// One chunk, ready to be written to readers of every profile.
#[derive(Clone, Debug)]
pub enum Frames {
    /// All profiles read the same bytes (every delta does).
    Same(Bytes),
    /// They differ; `None` where a profile is not sent the chunk. In the order of [`Profile::ALL`].
    Split(Box<[Option<Bytes>; 4]>),
}

/// Encodes the chunk that stands at `seq` (counted from 1) in the run's log.
pub fn encode(run: &RunId, seq: u64, chunk: &UiChunk) -> Frames {
    let id = EventIdText { run, seq, ephemeral: None };
    let shown = Profile::ALL.map(|profile| profile.chunk(chunk));
    if shown.iter().all(|shown| matches!(shown, Some(Cow::Borrowed(_)))) {
        return Frames::Same(frame(&id, chunk));
    }
    let mut whole = None;
    Frames::Split(Box::new(shown.map(|shown| match shown? {
        Cow::Borrowed(chunk) => Some(whole.get_or_insert_with(|| frame(&id, chunk)).clone()),
        Cow::Owned(chunk) => Some(frame(&id, &chunk)),
    })))
}

/// Encodes a chunk that is not in the log, for one reader that has read up to `seq`; `n` tells such chunks apart.
/// `None` where the profile is not sent it.
pub fn encode_ephemeral(run: &RunId, seq: u64, n: u32, profile: Profile, chunk: &UiChunk) -> Option<Bytes> {
    let chunk = profile.chunk(chunk)?;
    Some(frame(&EventIdText { run, seq, ephemeral: Some(n) }, &chunk))
}

/// What stands in the `id:` line.
struct EventIdText<'a> {
    run: &'a RunId,
    seq: u64,
    ephemeral: Option<u32>,
}

impl fmt::Display for EventIdText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.run, self.seq)?;
        self.ephemeral.map_or(Ok(()), |n| write!(f, ".{n}"))
    }
}

/// JSON has no raw line ends, so one `data:` line always holds it.
fn frame(id: &EventIdText<'_>, chunk: &UiChunk) -> Bytes {
    let mut bytes = Vec::with_capacity(160);
    let written =
        write!(bytes, "id: {id}\ndata: ").and_then(|()| Ok(serde_json::to_writer(&mut bytes, chunk)?));
    debug_assert!(written.is_ok(), "a chunk is always JSON, and memory takes every byte");
    bytes.extend_from_slice(b"\n\n");
    Bytes::from(bytes)
}

impl Frames {
    /// The bytes for readers of this profile.
    pub fn get(&self, profile: Profile) -> Option<&Bytes> {
        match self {
            Self::Same(bytes) => Some(bytes),
            Self::Split(frames) => frames[profile as usize].as_ref(),
        }
    }
}

impl EventId {
    /// Reads what a client sent as `Last-Event-ID`; `None` where it is none of ours.
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
