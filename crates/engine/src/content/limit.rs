//! How much of an output a model is told.
//!
//! Invariant: what is kept has no more bytes of text than the limit, besides the note; files stay where they are.

use std::ops::Range;

use crate::model::ModelContent;

/// The content, of whose text at most `limit` bytes are kept: two thirds from the beginning and the rest from the end of all
/// its texts, as if they were one.
pub(super) fn within(content: Vec<ModelContent>, limit: usize) -> Vec<ModelContent> {
    let total: usize = content.iter().map(bytes_of_text).sum();
    if total <= limit {
        return content;
    }
    let last = limit / 3;
    without(content, limit - last..total - last)
}

pub(super) fn bytes_of_text(piece: &ModelContent) -> usize {
    match piece {
        ModelContent::Text(words) => words.len(),
        ModelContent::File { .. } => 0,
    }
}

/// Leaves out these bytes of the text, and what of a character would be left over; a note is in their place.
fn without(content: Vec<ModelContent>, middle: Range<usize>) -> Vec<ModelContent> {
    let (mut kept, mut note_at, mut left_out, mut begin) = (Vec::new(), None, 0, 0);
    for piece in content {
        let ModelContent::Text(words) = &piece else {
            kept.push(piece);
            continue;
        };
        let from = words.floor_char_boundary(middle.start.saturating_sub(begin));
        let to = words.ceil_char_boundary(middle.end.saturating_sub(begin));
        begin += words.len();
        if from >= to {
            kept.push(piece);
            continue;
        }
        left_out += to - from;
        kept.extend(some_text(&words[..from]));
        note_at.get_or_insert(kept.len());
        kept.extend(some_text(&words[to..]));
    }
    if let Some(place) = note_at {
        kept.insert(
            place,
            ModelContent::Text(format!("[… {left_out} bytes of this output are left out here …]")),
        );
    }
    kept
}

fn some_text(words: &str) -> Option<ModelContent> {
    (!words.is_empty()).then(|| ModelContent::Text(words.to_owned()))
}
