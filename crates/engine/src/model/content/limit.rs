//! The limit on the text of one output that a model gets.
//!
//! Invariant: the text that is kept has no more bytes than the limit, besides the note; files stay at their positions.

use crate::model::ModelContent;

/// Keeps at most `limit` bytes of the content's text: two thirds from the beginning and the rest from the end, as if all its texts were
/// one. A note replaces the middle. A character that lies only partly in the middle is removed as a whole.
pub(super) fn limited(content: Vec<ModelContent>, limit: usize) -> Vec<ModelContent> {
    let total: usize = content.iter().map(bytes_of_text).sum();
    if total <= limit {
        return content;
    }
    let end = limit / 3;
    let middle = limit - end..total - end;
    let (mut kept, mut note_index, mut left_out, mut begin) = (Vec::new(), None, 0, 0);
    for piece in content {
        let ModelContent::Text(text) = &piece else {
            kept.push(piece);
            continue;
        };
        let from = text.floor_char_boundary(middle.start.saturating_sub(begin));
        let to = text.ceil_char_boundary(middle.end.saturating_sub(begin));
        begin += text.len();
        if from >= to {
            kept.push(piece);
            continue;
        }
        left_out += to - from;
        if from > 0 {
            kept.push(ModelContent::Text(text[..from].to_owned()));
        }
        if note_index.is_none() {
            note_index = Some(kept.len());
        }
        if to < text.len() {
            kept.push(ModelContent::Text(text[to..].to_owned()));
        }
    }
    if let Some(index) = note_index {
        let note = format!("[… {left_out} bytes of this output are left out here …]");
        kept.insert(index, ModelContent::Text(note));
    }
    kept
}

pub(super) fn bytes_of_text(piece: &ModelContent) -> usize {
    match piece {
        ModelContent::Text(text) => text.len(),
        ModelContent::File { .. } => 0,
    }
}
