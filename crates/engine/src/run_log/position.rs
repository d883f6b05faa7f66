//! Positions in the log of a run.

use serde::{Deserialize, Serialize};

/// The position of a chunk in the log of a run: an epoch, and a sequence number within it.
///
/// A process that recovers a run begins a new epoch. Readers may have seen chunks of the epoch before that were never saved; their
/// positions are never given to other chunks.
///
/// In event ids, in messages between instances and in the database, a position is one number with the epoch in its upper 32 bits. No epoch
/// has more chunks than the lower 32 bits can count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Position(u64);

const SEQUENCE_BITS: u32 = 32;

impl Position {
    /// The position before the first chunk of a log.
    pub const START: Self = Self(0);

    /// Returns the epoch, which is 0 until the run is recovered for the first time.
    pub fn epoch(self) -> u64 {
        self.0 >> SEQUENCE_BITS
    }

    /// Returns the position of the next chunk of the same epoch.
    pub fn next(self) -> Self {
        self.plus(1)
    }

    /// Returns the position that is so many chunks later in the same epoch.
    pub fn plus(self, chunks: usize) -> Self {
        Self(self.0.saturating_add(chunks as u64))
    }

    /// Returns the position before the first chunk of the next epoch.
    pub fn next_epoch(self) -> Self {
        Self((self.epoch() + 1) << SEQUENCE_BITS)
    }
}

impl From<u64> for Position {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl From<Position> for u64 {
    fn from(position: Position) -> Self {
        position.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_epoch_is_after_everything_of_an_earlier_one() {
        let last = Position::START.plus(9);
        assert_eq!((last.epoch(), last.next()), (0, Position::from(10)));
        let recovered = last.next_epoch();
        assert!(recovered > last.plus(1_000_000));
        assert_eq!((recovered.epoch(), recovered.next().epoch()), (1, 1));
        assert_eq!(recovered.next_epoch().epoch(), 2);
    }
}
