//! `fermata audit export`: writes the audit as JSON lines, which `fermata audit verify --file` verifies without the database.

use std::io::{self, Write};

use fermata_store::{Checkpoint, Database};
use jiff::Timestamp;

use super::lines::{Line, VERSION};
use crate::config::{AuditExport, DatabaseSettings};

/// The reason why the audit cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum AuditExportError {
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] fermata_store::OpenError),
    /// The database has failed, or something in it cannot be read.
    #[error("the audit cannot be read: {0}")]
    Store(#[from] fermata_engine::store::StoreError),
    /// The output cannot be written to.
    #[error("cannot write the lines: {0}")]
    Output(#[from] io::Error),
}

/// Writes lines, and counts them.
struct Writer<W> {
    output: W,
    chains: u64,
    rows: u64,
}

/// Writes the audit of these settings to the standard output. It ends early, without an error, if the reader closes the pipe.
///
/// # Errors
/// Returns an error if the database or the output fails; then the lines are not complete.
pub async fn export(settings: &DatabaseSettings, asked: &AuditExport) -> Result<(), AuditExportError> {
    let database = settings.open_for_command().await?;
    let mut writer = Writer { output: io::BufWriter::new(io::stdout()), chains: 0, rows: 0 };
    let written = writer.write_all(&database, asked).await;
    database.close().await;
    match written {
        // The reader has read enough.
        Err(AuditExportError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

// === impl Writer ===

impl<W: Write> Writer<W> {
    async fn write_all(&mut self, database: &Database, asked: &AuditExport) -> Result<(), AuditExportError> {
        let AuditExport { since, until } = *asked;
        self.line(&Line::Export { version: VERSION, exported_at: Timestamp::now(), since, until })?;
        let mut after: Option<String> = None;
        while let Some(chain) = database.next_chain(after.as_deref()).await? {
            self.write_chain(database, &chain, asked).await?;
            after = Some(chain);
        }
        self.line(&Line::End { chains: self.chains, rows: self.rows })?;
        Ok(self.output.flush()?)
    }

    async fn write_chain(
        &mut self,
        database: &Database,
        chain: &str,
        asked: &AuditExport,
    ) -> Result<(), AuditExportError> {
        let (mut from, mut to) = (None, i64::MAX);
        if asked.since.is_some() || asked.until.is_some() {
            let positions = database.audit_positions(chain, asked.since, asked.until).await?;
            let Some((first, last)) = positions else { return Ok(()) };
            if asked.since.is_some() {
                from = Some(first);
            }
            if asked.until.is_some() {
                to = last;
            }
        }
        let mut page = database.audit_page(chain, from).await?;
        let first = from.and_then(|_| page.rows.first()).map(|row| &row.row);
        let begin = Line::Chain {
            chain: chain.to_owned(),
            from: first.map(|row| row.position),
            prev: first.and_then(|row| row.prev.clone()),
            is_open: asked.until.is_some(),
        };
        self.line(&begin)?;
        self.chains += 1;
        let mut cuts = Vec::new();
        loop {
            // While the lines are written, the retention may remove rows.
            for cut in page.cuts {
                if from.is_none_or(|from| cut.last >= from) && cut.first <= to && !cuts.contains(&cut) {
                    self.line(&Line::Cut(cut.clone()))?;
                    cuts.push(cut);
                }
            }
            let counted = |checkpoint: &Checkpoint| checkpoint.count <= to.saturating_add(1);
            let mut checkpoints = page.checkpoints.into_iter().filter(counted).peekable();
            let last = page.rows.last().map(|row| row.row.position);
            for row in page.rows.into_iter().filter(|row| row.row.position <= to) {
                let is_before = |checkpoint: &Checkpoint| checkpoint.count <= row.row.position;
                while let Some(checkpoint) = checkpoints.next_if(is_before) {
                    self.line(&Line::Checkpoint(checkpoint))?;
                }
                self.rows += 1;
                self.line(&Line::Row(Box::new(row)))?;
            }
            for checkpoint in checkpoints {
                self.line(&Line::Checkpoint(checkpoint))?;
            }
            match last {
                Some(last) if !page.is_last && last < to => {
                    page = database.audit_page(chain, Some(last + 1)).await?;
                }
                Some(_) | None => return Ok(()),
            }
        }
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        serde_json::to_writer(&mut self.output, line)?;
        self.output.write_all(b"\n")
    }
}
