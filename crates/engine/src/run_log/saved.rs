//! The saved form of chunks: consecutive deltas of one text are saved as one chunk, with their lengths.
//!
//! A joined delta has the position of its last delta, and those before it have the positions before that. A delta by itself has no lengths.

use fermata_protocol::UiChunk;
use serde::{Deserialize, Serialize};

use crate::{ports::store::StoreError, run_log::position::Position};

/// A chunk to save, which may be several consecutive deltas.
#[derive(Clone, Debug)]
pub(super) struct UnsavedChunk {
    /// The position of the chunk, or of the last delta.
    position: Position,
    chunk: UiChunk,
    /// The length of each delta in bytes; empty for a chunk that is no delta.
    lengths: Vec<usize>,
}

/// The record of consecutive deltas that are joined.
#[derive(Serialize)]
struct JoinedDelta<'a> {
    #[serde(flatten)]
    chunk: &'a UiChunk,
    lengths: &'a [usize],
}

#[derive(Deserialize)]
struct Lengths {
    #[serde(default)]
    lengths: Vec<usize>,
}

/// Adds a chunk to those that are to be saved, or joins it to the last of them.
pub(super) fn add(unsaved: &mut Vec<UnsavedChunk>, position: Position, chunk: &UiChunk) {
    let length = chunk.delta().map(str::len);
    if let Some(last) = unsaved.last_mut()
        && let Some(length) = length
        && last.position.next() == position
        && last.chunk.append_delta(chunk)
    {
        last.position = position;
        last.lengths.push(length);
        return;
    }
    unsaved.push(UnsavedChunk { position, chunk: chunk.clone(), lengths: length.into_iter().collect() });
}

/// Returns the chunks as they are saved, in groups with consecutive positions, each group with the first of them.
pub(super) fn to_records(unsaved: &[UnsavedChunk]) -> Vec<(Position, Vec<String>)> {
    let mut groups: Vec<(Position, Vec<String>)> = Vec::new();
    for chunk in unsaved {
        let record = chunk.to_record();
        match groups.last_mut() {
            Some((first, records)) if first.plus(records.len()) == chunk.position => records.push(record),
            Some(_) | None => groups.push((chunk.position, vec![record])),
        }
    }
    groups
}

/// Returns the chunks of a log as it was saved, each delta by itself.
///
/// # Errors
/// Returns an error if a record is not a chunk.
pub(crate) fn read_records(records: &[(u64, String)]) -> Result<Vec<(Position, UiChunk)>, StoreError> {
    let mut chunks = Vec::with_capacity(records.len());
    for (position, record) in records {
        read_record(*position, record, &mut chunks)?;
    }
    Ok(chunks)
}

fn read_record(position: u64, record: &str, chunks: &mut Vec<(Position, UiChunk)>) -> Result<(), StoreError> {
    let unreadable =
        |error| StoreError::Corrupt(format!("the chunk at {position} of a log cannot be read: {error}"));
    let chunk = UiChunk::from_record(record).map_err(unreadable)?;
    let Lengths { lengths } = match chunk.delta() {
        Some(_) => serde_json::from_str(record).map_err(unreadable)?,
        None => Lengths { lengths: Vec::new() },
    };
    if lengths.is_empty() {
        chunks.push((position.into(), chunk));
        return Ok(());
    }
    let deltas = chunk.delta().and_then(|joined| divide(joined, &lengths));
    let first = (position + 1).checked_sub(lengths.len() as u64);
    let (Some(deltas), Some(first)) = (deltas, first) else {
        return Err(StoreError::Corrupt(format!(
            "the lengths of the deltas up to {position} of a log are wrong"
        )));
    };
    chunks.extend((first..).map(Position::from).zip(deltas.iter().map(|delta| chunk.with_delta(delta))));
    Ok(())
}

/// Returns the parts of a text with these lengths; `None` if they are not the lengths of its parts.
fn divide<'a>(text: &'a str, lengths: &[usize]) -> Option<Vec<&'a str>> {
    let mut rest = text;
    let mut parts = Vec::with_capacity(lengths.len());
    for length in lengths {
        let (part, after) = rest.split_at_checked(*length)?;
        parts.push(part);
        rest = after;
    }
    if rest.is_empty() { Some(parts) } else { None }
}

// === impl UnsavedChunk ===

impl UnsavedChunk {
    fn to_record(&self) -> String {
        if self.lengths.len() < 2 {
            return self.chunk.to_record();
        }
        let joined = JoinedDelta { chunk: &self.chunk, lengths: &self.lengths };
        // A delta can always be written as JSON: its keys are texts.
        serde_json::to_string(&joined).unwrap_or_default()
    }
}
