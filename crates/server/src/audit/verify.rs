//! `fermata audit verify`: verifies the audit in the database, or in a file that was exported, and reports what does not hold.

use std::{
    io,
    path::{Path, PathBuf},
};

use fermata_store::{Bounds, Checkpoint, KeyError, PublicKey, Report, Verifier};
use jiff::Timestamp;

use super::lines::{self, Line, VERSION};
use crate::config::{AuditAnchor, AuditVerification, DatabaseSettings};

/// The number of findings that are printed.
const SHOWN: usize = 50;

/// The report for the operator.
#[derive(Debug)]
pub struct Verified {
    /// The text.
    pub text: String,
    /// The number of faults. The audit holds if there is none.
    pub faults: usize,
}

/// The reason why the audit cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum AuditVerifyError {
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] fermata_store::OpenError),
    /// The database has failed, or something in it cannot be read.
    #[error("the audit cannot be read: {0}")]
    Store(#[from] fermata_engine::store::StoreError),
    /// A file cannot be read.
    #[error("{} cannot be read", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file has no public key.
    #[error("{}", .path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What it has instead.
        source: KeyError,
    },
    /// The file is no export.
    #[error("{}: line {line} is not one that this version of fermata audit export writes", .path.display())]
    NoExport {
        /// The file.
        path: PathBuf,
        /// The number of the line.
        line: u64,
    },
}

/// What was read beside the chains.
#[derive(Default)]
struct Read {
    /// The lines of the anchor file that cannot be understood.
    bad_anchors: Vec<u64>,
    has_anchor: bool,
    has_keys: bool,
    /// The file does not have its last line, or another number of rows.
    is_cut_off: bool,
    /// The bounds of an exported file that is a part of the audit.
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

/// Verifies the audit of these settings, or of a file, and returns a report.
///
/// # Errors
/// Returns an error if something cannot be read.
pub async fn report(
    settings: &DatabaseSettings,
    asked: &AuditVerification,
) -> Result<Verified, AuditVerifyError> {
    let mut read = Read::default();
    let mut keys = Vec::new();
    for path in &asked.public_key {
        let text = std::fs::read_to_string(path).map_err(failed(path))?;
        keys.push(
            PublicKey::parse(&text).map_err(|source| AuditVerifyError::Key { path: path.clone(), source })?,
        );
    }
    keys.extend(settings.audit_key.as_ref().map(|key| key.0.public().clone()));
    read.has_keys = !keys.is_empty();
    let configured = settings.audit_anchor.as_ref().map(|AuditAnchor::File(path)| path);
    let anchors = match asked.anchor.as_ref().or(configured) {
        Some(path) => read.anchors(path)?,
        None => Vec::new(),
    };
    let mut verifier = Verifier::new(keys, anchors, Timestamp::now());
    match &asked.file {
        Some(path) => read.file(path, &mut verifier)?,
        None => {
            let database = settings.open_for_command().await?;
            let verified = database.verify_audit(&mut verifier).await;
            database.close().await;
            verified?;
        }
    }
    Ok(read.report(&verifier.finish()))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> AuditVerifyError {
    |source| AuditVerifyError::File { path: path.to_owned(), source }
}

// === impl Read ===

impl Read {
    fn anchors(&mut self, path: &Path) -> Result<Vec<Checkpoint>, AuditVerifyError> {
        self.has_anchor = true;
        let mut anchors = Vec::new();
        for line in lines::read(path).map_err(failed(path))? {
            match line.map_err(failed(path))? {
                (_, Some(Line::Checkpoint(checkpoint))) => anchors.push(checkpoint),
                (number, _) => self.bad_anchors.push(number),
            }
        }
        Ok(anchors)
    }

    /// Has the lines of an exported file verified, in their order.
    fn file(&mut self, path: &Path, verifier: &mut Verifier) -> Result<(), AuditVerifyError> {
        let mut begun: Option<String> = None;
        let (mut chains, mut rows, mut end) = (0, 0, None);
        for line in lines::read(path).map_err(failed(path))? {
            let (number, line) = line.map_err(failed(path))?;
            let is_in_chain = |chain: &String| begun.as_ref() == Some(chain);
            match line {
                Some(Line::Export { version: VERSION, since, until, .. }) if number == 1 => {
                    (self.since, self.until) = (since, until);
                    if since.is_some() || until.is_some() {
                        verifier.expect_a_part();
                    }
                }
                // Only a part leaves rows out. The chains are in the order of their names, so none comes twice.
                Some(Line::Chain { chain, from, prev, is_open })
                    if number > 1
                        && (from.is_none() || self.since.is_some())
                        && (!is_open || self.until.is_some())
                        && begun.as_ref().is_none_or(|before| *before < chain) =>
                {
                    verifier.begin(&chain, Bounds { from: from.map(|from| (from, prev)), is_open });
                    chains += 1;
                    begun = Some(chain);
                }
                Some(Line::Cut(cut)) if is_in_chain(&cut.chain) => verifier.cut(cut),
                Some(Line::Row(row)) if is_in_chain(&row.row.chain) => {
                    verifier.row(&row);
                    rows += 1;
                }
                Some(Line::Checkpoint(checkpoint)) if is_in_chain(&checkpoint.chain) => {
                    verifier.checkpoint(&checkpoint);
                }
                Some(Line::End { chains, rows }) if number > 1 && end.is_none() => end = Some((chains, rows)),
                Some(_) | None => {
                    return Err(AuditVerifyError::NoExport { path: path.to_owned(), line: number });
                }
            }
        }
        self.is_cut_off = end != Some((chains, rows));
        Ok(())
    }

    fn report(&self, report: &Report) -> Verified {
        let Report { chains, rows, checkpoints, .. } = report;
        let mut lines = vec![format!("{chains} chains, {rows} rows, {checkpoints} checkpoints")];
        if let Some(since) = self.since {
            lines.push(format!("this is a part of the audit: rows before {since} are left out"));
        }
        if let Some(until) = self.until {
            lines.push(format!("this is a part of the audit: rows after {until} are left out"));
        }
        if report.cut_rows > 0 {
            lines.push(format!("{} rows were removed by the retention (audit_keep)", report.cut_rows));
        }
        if self.has_anchor {
            lines.push(format!("{} checkpoints are in the anchor file", report.anchors));
        }
        if !self.bad_anchors.is_empty() {
            lines.push(format!("lines of the anchor file that cannot be understood: {:?}", self.bad_anchors));
        }
        if *checkpoints == 0 && *rows > 0 {
            lines.push(
                "there are no checkpoints, so rows removed from the end of a chain cannot be detected".into(),
            );
        } else if report.unsigned > 0 {
            lines.push(format!(
                "{} of {checkpoints} checkpoints are not signed, so anyone with write access to the database can write them (audit_key)",
                report.unsigned
            ));
        }
        for key in &report.keys {
            lines.push(format!("signed with {key}"));
        }
        if !self.has_keys && !report.keys.is_empty() {
            lines.push("these keys are not known to be yours; name yours with --public-key".into());
        }
        if !report.keys.is_empty() && report.uncovered > 0 {
            lines.push(format!(
                "{} rows come after the last signed checkpoint of their chain",
                report.uncovered
            ));
        }
        let mut faults = report.findings.len();
        lines.extend(report.findings.iter().take(SHOWN).map(ToString::to_string));
        if faults > SHOWN {
            lines.push(format!("and {} more", faults - SHOWN));
        }
        if self.is_cut_off {
            faults += 1;
            lines.push(
                "the file is not complete: its last line is missing, or counts other chains or rows".into(),
            );
        }
        lines.push(if faults == 0 { "the audit holds".into() } else { "the audit does not hold".into() });
        Verified { text: lines.join("\n") + "\n", faults }
    }
}
