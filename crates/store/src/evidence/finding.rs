//! What a verification has found, in words for the auditor.

use std::fmt;

use jiff::Timestamp;

use super::{HashedRow, PublicKey};

/// Something that does not hold, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The chain.
    pub chain: String,
    /// The first position that is concerned; `None` if the whole chain is.
    pub position: Option<i64>,
    /// The time and the event of the row that shows it, if there is one.
    pub row: Option<(i64, String)>,
    /// What does not hold.
    pub fault: Fault,
}

/// What does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The hash of the row is not that of its columns.
    Changed,
    /// The `prev` of the row is not the hash of the row before it.
    Unlinked,
    /// Another row has this position, or a later one came before it.
    Inserted,
    /// The rows up to this position are gone, and no cut says why.
    Removed {
        /// The last position that is gone.
        last: i64,
    },
    /// The rows at the end are gone, which this statement has counted.
    Truncated {
        /// The number of rows that the statement has counted.
        count: i64,
        /// The statement.
        by: Witness,
        /// The time of the statement, in microseconds.
        at: i64,
    },
    /// The statement has another hash for this row.
    Contradicted {
        /// The statement.
        by: Witness,
        /// The time of the statement, in microseconds.
        at: i64,
    },
    /// The statement stands behind rows that it does not count.
    Misplaced(Witness),
    /// The rows that the retention has removed did not follow the row before them.
    CutUnlinked,
    /// The signature of a statement is wrong.
    BadSignature(Witness),
    /// The statement is signed with a key that the auditor has not named.
    UnknownKey(Witness, PublicKey),
    /// The retention has removed rows, and the cut has no signature.
    UnsignedCut,
    /// No signed checkpoint covers the row, although it is old enough.
    Uncovered,
}

/// A statement beside the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// A checkpoint in the database, or in the file that was exported.
    Checkpoint,
    /// A line of the anchor file.
    Anchor,
    /// A cut of the retention.
    Cut,
}

/// A time in microseconds, for people.
struct Time(i64);

// === impl Finding ===

impl Finding {
    /// Returns the finding about a row that is stored in this chain.
    pub(super) fn of_row(chain: &str, row: &HashedRow, fault: Fault) -> Self {
        let row = &row.row;
        Self {
            chain: chain.to_owned(),
            position: Some(row.position),
            row: Some((row.at, row.event.clone())),
            fault,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chain {}", self.chain)?;
        if let Some(position) = self.position {
            write!(f, ", position {position}")?;
        }
        if let Some((at, event)) = &self.row {
            write!(f, " ({}, {event})", Time(*at))?;
        }
        write!(f, ": {}", self.fault)
    }
}

// === impl Fault ===

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed => f.write_str("the row was changed: its hash does not match its columns"),
            Self::Unlinked => {
                f.write_str("this row was inserted, or the row before it was changed or replaced")
            }
            Self::Inserted => f.write_str("the row was inserted: its position is already taken"),
            Self::Removed { last } => write!(f, "the rows up to position {last} were removed"),
            Self::Truncated { count, by, at } => {
                write!(f, "the last rows were removed: {by} of {} counts {count} rows", Time(*at))
            }
            Self::Contradicted { by, at } => {
                write!(f, "rows up to here were changed: {by} of {} has another hash", Time(*at))
            }
            Self::Misplaced(by) => write!(f, "{by} is out of place"),
            Self::CutUnlinked => {
                f.write_str("the rows that the retention has removed did not follow the row before them")
            }
            Self::BadSignature(by) => write!(f, "the signature of {by} is wrong"),
            Self::UnknownKey(by, key) => {
                write!(f, "{by} is signed with another key, {key}; if it is yours, name it with --public-key")
            }
            Self::UnsignedCut => f.write_str("rows were removed, and their cut is not signed"),
            Self::Uncovered => f.write_str("no signed checkpoint covers this row and those after it"),
        }
    }
}

// === impl Witness ===

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Checkpoint => "a checkpoint",
            Self::Anchor => "an anchor",
            Self::Cut => "a cut",
        })
    }
}

// === impl Time ===

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_microsecond(self.0) {
            Ok(time) => write!(f, "{time}"),
            Err(_) => write!(f, "{} µs", self.0),
        }
    }
}
