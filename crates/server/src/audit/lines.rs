//! The lines of an anchor file: a JSON object each.

use std::{
    fs::OpenOptions,
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use fermata_store::Checkpoint;
use serde::{Deserialize, Serialize};

/// A line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    Checkpoint(Checkpoint),
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
