//! The lines of an exported audit and of an anchor file: a JSON object each.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use fermata_store::{Checkpoint, Cut, HashedRow};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The version of the form that this program writes.
pub const VERSION: u32 = 1;

/// A line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// The first line of an export.
    Export {
        version: u32,
        exported_at: Timestamp,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    },
    /// The beginning of a chain. Its cuts follow, then its rows, each before the checkpoints that count it last.
    Chain {
        chain: String,
        /// The position of the first row and the `prev` of it, if earlier rows are left out.
        from: Option<i64>,
        prev: Option<String>,
        /// `true` if later rows are left out.
        is_open: bool,
    },
    Cut(Cut),
    Row(Box<HashedRow>),
    Checkpoint(Checkpoint),
    /// The last line of an export.
    End {
        chains: u64,
        rows: u64,
    },
}

/// Adds lines to the end of a file, and waits until the disk has them.
pub fn append(path: &Path, lines: &[Line]) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let mut text = Vec::new();
    if file.seek(SeekFrom::End(0))? > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != [b'\n'] {
            // A power cut has left half a line.
            text.push(b'\n');
        }
    }
    for line in lines {
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
    }
    // One call, so that the lines of several processes do not mix.
    file.write_all(&text)?;
    file.sync_data()
}

/// Returns the lines of a file with their numbers. A line that cannot be understood is `None`.
pub fn read(path: &Path) -> io::Result<impl Iterator<Item = io::Result<(u64, Option<Line>)>>> {
    let lines = BufReader::new(File::open(path)?).lines();
    Ok(lines.zip(1..).map(|(line, number)| Ok((number, serde_json::from_str(&line?).ok()))))
}
