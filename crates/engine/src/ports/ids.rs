//! The port to a source of ids. It is a port so that a whole transcript can be a snapshot in tests.

/// A source of ids.
pub trait Ids: Send + Sync {
    /// Returns a new id that cannot be guessed: 1 to 40 characters of `[A-Za-z0-9_-]`, beginning with `prefix`.
    fn next(&self, prefix: &str) -> String;

    /// Returns a new idempotency key, a random UUID (version 4) as text.
    fn next_idempotency_key(&self) -> String;

    /// Returns a number that was never returned before, by any process: from 1, below 2^63.
    fn next_number(&self) -> u64;
}
