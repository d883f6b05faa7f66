//! What is said about a chain beside its rows: checkpoints and cuts, and their signatures.

use serde::{Deserialize, Serialize};

use super::{AuditKey, PublicKey};

/// The length and the head of a chain at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The time, in microseconds.
    pub at: i64,
    /// The chain.
    pub chain: String,
    /// The number of rows, with those that the retention has removed.
    pub count: i64,
    /// The hash of the last row.
    pub head: String,
    /// The key of the signature; `None` if it is not signed.
    pub key: Option<PublicKey>,
    /// The signature, in base64.
    pub signature: Option<String>,
}

/// Rows that the retention has removed from a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// The time before which the removed rows were written, in microseconds.
    pub before: i64,
    /// The chain.
    pub chain: String,
    /// The position of the first row.
    pub first: i64,
    /// The position of the last row.
    pub last: i64,
    /// The hash of the row before the first one; `None` if it was the first of the chain.
    pub prev: Option<String>,
    /// The hash of the last row.
    pub hash: String,
    /// The key of the signature; `None` if it is not signed.
    pub key: Option<PublicKey>,
    /// The signature, in base64.
    pub signature: Option<String>,
}

/// The state of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signature<'a> {
    None,
    /// The key signs exactly this.
    By(&'a PublicKey),
    Wrong,
}

/// The text of a checkpoint that is signed: canonical JSON, with the keys in order.
#[derive(Serialize)]
struct CheckpointText<'a> {
    at: i64,
    chain: &'a str,
    count: i64,
    head: &'a str,
    key: Option<&'a PublicKey>,
    r#type: &'static str,
}

/// The text of a cut that is signed.
#[derive(Serialize)]
struct CutText<'a> {
    before: i64,
    chain: &'a str,
    first: i64,
    hash: &'a str,
    key: Option<&'a PublicKey>,
    last: i64,
    prev: Option<&'a str>,
    r#type: &'static str,
}

fn json(text: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(text).expect("texts and integers have a JSON form")
}

fn check<'a>(key: Option<&'a PublicKey>, signature: Option<&str>, text: &[u8]) -> Signature<'a> {
    match (key, signature) {
        (None, None) => Signature::None,
        (Some(key), Some(signature)) if key.verifies(text, signature) => Signature::By(key),
        _ => Signature::Wrong,
    }
}

// === impl Checkpoint ===

impl Checkpoint {
    /// Returns the checkpoint with a signature.
    #[must_use]
    pub fn signed(mut self, key: Option<&AuditKey>) -> Self {
        self.key = key.map(|key| key.public().clone());
        self.signature = key.map(|key| key.sign(&self.text()));
        self
    }

    pub(super) fn signature(&self) -> Signature<'_> {
        check(self.key.as_ref(), self.signature.as_deref(), &self.text())
    }

    fn text(&self) -> Vec<u8> {
        let Self { at, chain, count, head, key, signature: _ } = self;
        json(&CheckpointText { at: *at, chain, count: *count, head, key: key.as_ref(), r#type: "checkpoint" })
    }
}

// === impl Cut ===

impl Cut {
    /// Returns the cut with a signature.
    #[must_use]
    pub fn signed(mut self, key: Option<&AuditKey>) -> Self {
        self.key = key.map(|key| key.public().clone());
        self.signature = key.map(|key| key.sign(&self.text()));
        self
    }

    pub(super) fn signature(&self) -> Signature<'_> {
        check(self.key.as_ref(), self.signature.as_deref(), &self.text())
    }

    fn text(&self) -> Vec<u8> {
        let Self { before, chain, first, last, prev, hash, key, signature: _ } = self;
        json(&CutText {
            before: *before,
            chain,
            first: *first,
            hash,
            key: key.as_ref(),
            last: *last,
            prev: prev.as_deref(),
            r#type: "cut",
        })
    }

    /// Joins cuts that follow one another. Cuts whose hashes do not fit stay apart, so that a verification finds them.
    pub fn joined(mut cuts: Vec<Self>) -> Vec<Self> {
        cuts.sort_by_key(|cut| cut.first);
        let mut joined: Vec<Self> = Vec::new();
        for cut in cuts {
            match joined.last_mut() {
                Some(before) if before.last + 1 == cut.first && Some(&before.hash) == cut.prev.as_ref() => {
                    *before = Self {
                        before: before.before.max(cut.before),
                        first: before.first,
                        prev: before.prev.take(),
                        key: None,
                        signature: None,
                        ..cut
                    };
                }
                Some(_) | None => joined.push(cut),
            }
        }
        joined
    }
}
