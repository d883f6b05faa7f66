//! From chunks to the message that they make, and to the frames that clients read.

use std::hint::black_box;

use anyhow::Result;
use fermata_protocol::{Assembler, MessageId, Profile, RunId, UiChunk, encode as encode_chunk};

use crate::Round;

/// The chunks of an answer of so many words.
fn chunks(deltas: usize) -> Vec<UiChunk> {
    let id = || "txt_1".to_owned();
    let start = [UiChunk::StartStep, UiChunk::TextStart { id: id(), provider_metadata: None }];
    let delta = |n| UiChunk::TextDelta { id: id(), delta: format!(" word{n}"), provider_metadata: None };
    start.into_iter().chain((0..deltas).map(delta)).collect()
}

/// Folds the chunks into a message.
pub fn fold(deltas: usize) -> Result<Round> {
    let chunks = chunks(deltas);
    let folded = move || {
        let mut message = Assembler::new(MessageId::new("msg_1"));
        chunks.iter().try_for_each(|chunk| message.apply(chunk)).map(|()| message.snapshot())
    };
    folded()?;
    Ok(Box::new(move || {
        let _ = black_box(folded());
    }))
}

/// Encodes the chunks for the newest clients.
pub fn encode(deltas: usize) -> Result<Round> {
    let (run, chunks) = (RunId::new("run_1"), chunks(deltas));
    Ok(Box::new(move || {
        for (seq, chunk) in (1..).zip(&chunks) {
            black_box(encode_chunk(&run, seq, chunk).get(Profile::V6));
        }
    }))
}
