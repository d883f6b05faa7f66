//! Verifies chains. It takes what is stored of one chain after another, and needs no more memory for a long chain than for a short one.
//!
//! Invariants: of each chain the first fault is reported, because what follows it proves nothing; nothing is believed that was not
//! hashed or checked here.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use jiff::Timestamp;

use super::{Checkpoint, Cut, Fault, Finding, HashedRow, PublicKey, finding::Witness, statements::Signature};

/// Rows younger than this may wait for their signed checkpoint. One is written each minute, and the chains of processes that were killed
/// get theirs later.
const GRACE: Duration = Duration::from_secs(60 * 60);

/// The part of a chain that is verified, if it is not all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The position of the first row, and the hash of the row before it.
    pub from: Option<(i64, Option<String>)>,
    /// `true` if the chain may go on behind the last row.
    pub is_open: bool,
}

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of chains.
    pub chains: usize,
    /// The number of rows.
    pub rows: u64,
    /// The number of rows that the retention has removed.
    pub cut_rows: u64,
    /// The number of checkpoints.
    pub checkpoints: u64,
    /// The number of checkpoints without a signature.
    pub unsigned: u64,
    /// The number of lines in the anchor file.
    pub anchors: u64,
    /// The number of rows that no signed checkpoint covers.
    pub uncovered: u64,
    /// The keys of the signatures.
    pub keys: BTreeSet<PublicKey>,
    /// What does not hold, at most one of each chain for its rows.
    pub findings: Vec<Finding>,
}

/// Verifies chains.
pub struct Verifier {
    /// The keys that the auditor trusts. If there are none, each signature is checked with the key that it names.
    keys: BTreeSet<PublicKey>,
    /// Rows written before this have to be covered.
    covered_before: i64,
    /// The anchors of the chains that were not verified yet, by their counts.
    anchors: BTreeMap<String, Vec<Checkpoint>>,
    /// `true` if chains may be missing.
    is_part: bool,
    walk: Option<Walk>,
    report: Report,
}

/// The chain that is being verified.
struct Walk {
    chain: String,
    is_open: bool,
    /// The position of the next row, and the hash that its `prev` has to be.
    next: i64,
    head: Option<String>,
    cuts: Vec<Cut>,
    anchors: VecDeque<Checkpoint>,
    /// The first row behind the last signed checkpoint: its position, time and event.
    uncovered: Option<(i64, i64, String)>,
    /// The first fault.
    finding: Option<Finding>,
}

// === impl Verifier ===

impl Verifier {
    /// Returns a verifier that trusts these keys and knows these anchors.
    pub fn new(
        keys: impl IntoIterator<Item = PublicKey>,
        anchors: impl IntoIterator<Item = Checkpoint>,
        now: Timestamp,
    ) -> Self {
        let grace = i64::try_from(GRACE.as_micros()).unwrap_or(i64::MAX);
        let mut verifier = Self {
            keys: keys.into_iter().collect(),
            covered_before: now.as_microsecond().saturating_sub(grace),
            anchors: BTreeMap::new(),
            is_part: false,
            walk: None,
            report: Report::default(),
        };
        for anchor in anchors {
            verifier.report.anchors += 1;
            let place = (anchor.chain.clone(), anchor.count - 1);
            verifier.check_signature(place, Witness::Anchor, anchor.signature());
            // There may be many of them.
            let anchor = Checkpoint { key: None, signature: None, ..anchor };
            verifier.anchors.entry(anchor.chain.clone()).or_default().push(anchor);
        }
        verifier
    }

    /// Does not miss chains that only anchors know, because a part of the audit is verified.
    pub fn expect_a_part(&mut self) {
        self.is_part = true;
    }

    /// Begins a chain, after the one before it. Its cuts, rows and checkpoints follow; a checkpoint follows the row that it covers last.
    pub fn begin(&mut self, chain: &str, bounds: Bounds) {
        self.end();
        self.report.chains += 1;
        let (next, head) = bounds.from.unwrap_or_default();
        let mut anchors = self.anchors.remove(chain).unwrap_or_default();
        anchors.sort_by_key(|anchor| anchor.count);
        // Those of rows before the part that is verified.
        anchors.retain(|anchor| anchor.count >= next);
        self.walk = Some(Walk {
            chain: chain.to_owned(),
            is_open: bounds.is_open,
            next,
            head,
            cuts: Vec::new(),
            anchors: anchors.into(),
            uncovered: None,
            finding: None,
        });
    }

    /// Takes a cut of the chain. Those that are known are taken again without effect.
    pub fn cut(&mut self, cut: Cut) {
        let Some(walk) = &mut self.walk else { return };
        if walk.cuts.contains(&cut) {
            return;
        }
        let place = (cut.chain.clone(), cut.first);
        let signature = cut.signature();
        if signature == Signature::None && !self.keys.is_empty() {
            walk.find(Some(cut.first), Fault::UnsignedCut);
        }
        self.check_signature(place, Witness::Cut, signature);
        if let Some(walk) = &mut self.walk {
            // A larger one stands in place of those that it covers.
            walk.cuts.retain(|known| known.first < cut.first || known.last > cut.last);
            walk.cuts.push(cut);
        }
    }

    /// Takes the next row of the chain.
    pub fn row(&mut self, row: &HashedRow) {
        self.report.rows += 1;
        if let Some(walk) = &mut self.walk {
            walk.row(row);
        }
    }

    /// Takes a checkpoint of the chain.
    pub fn checkpoint(&mut self, checkpoint: &Checkpoint) {
        self.report.checkpoints += 1;
        let place = (checkpoint.chain.clone(), checkpoint.count - 1);
        let signature = checkpoint.signature();
        self.report.unsigned += u64::from(signature == Signature::None);
        let is_trusted = self.check_signature(place, Witness::Checkpoint, signature);
        if let Some(walk) = &mut self.walk {
            walk.witness(checkpoint, Witness::Checkpoint);
            if is_trusted && checkpoint.count == walk.next {
                walk.uncovered = None;
            }
        }
    }

    /// Ends the verification. Chains that only anchors know are gone.
    pub fn finish(mut self) -> Report {
        self.end();
        for (chain, anchors) in std::mem::take(&mut self.anchors) {
            if !self.is_part
                && let Some(last) = anchors.into_iter().max_by_key(|anchor| anchor.count)
            {
                let fault = Fault::Truncated { count: last.count, by: Witness::Anchor, at: last.at };
                self.report.findings.push(Finding { chain, position: None, row: None, fault });
            }
        }
        self.report
    }

    fn end(&mut self) {
        let Some(mut walk) = self.walk.take() else { return };
        walk.skip_cuts(i64::MAX);
        walk.meet_anchors(i64::MAX);
        let cut_rows: i64 = walk.cuts.iter().map(|cut| cut.last - cut.first + 1).sum();
        self.report.cut_rows += u64::try_from(cut_rows).unwrap_or_default();
        if let Some((position, at, event)) = walk.uncovered.take() {
            self.report.uncovered += u64::try_from(walk.next - position).unwrap_or_default();
            if !self.keys.is_empty() && at < self.covered_before && walk.finding.is_none() {
                let row = Some((at, event));
                let (chain, position) = (walk.chain.clone(), Some(position));
                walk.finding = Some(Finding { chain, position, row, fault: Fault::Uncovered });
            }
        }
        self.report.findings.extend(walk.finding);
    }

    /// Checks who has signed a statement. Returns `true` if it was somebody trusted.
    fn check_signature(
        &mut self,
        (chain, position): (String, i64),
        by: Witness,
        signature: Signature<'_>,
    ) -> bool {
        let fault = match signature {
            Signature::None => return false,
            Signature::By(key) => {
                self.report.keys.insert(key.clone());
                if self.keys.is_empty() || self.keys.contains(key) {
                    return true;
                }
                Fault::UnknownKey(by, key.clone())
            }
            Signature::Wrong => Fault::BadSignature(by),
        };
        self.report.findings.push(Finding { chain, position: Some(position), row: None, fault });
        false
    }
}

// === impl Walk ===

impl Walk {
    fn find(&mut self, position: Option<i64>, fault: Fault) {
        let chain = self.chain.clone();
        self.finding.get_or_insert(Finding { chain, position, row: None, fault });
    }

    fn row(&mut self, hashed: &HashedRow) {
        let row = &hashed.row;
        if self.finding.is_some() {
            return;
        }
        self.skip_cuts(row.position);
        let fault = if row.position < self.next {
            Some(Fault::Inserted)
        } else if row.hash() != hashed.hash || row.chain != self.chain {
            Some(Fault::Changed)
        } else if row.position > self.next {
            Some(Fault::Removed { last: row.position - 1 })
        } else if row.prev != self.head {
            Some(Fault::Unlinked)
        } else {
            None
        };
        if let Some(fault) = fault {
            let mut finding = Finding::of_row(&self.chain, hashed, fault);
            if let Fault::Removed { .. } = finding.fault {
                finding.position = Some(self.next);
                finding.row = None;
            }
            self.finding.get_or_insert(finding);
            return;
        }
        self.uncovered.get_or_insert_with(|| (row.position, row.at, row.event.clone()));
        self.next = row.position + 1;
        self.head = Some(hashed.hash.clone());
        self.meet_anchors(self.next);
    }

    /// Goes on behind the rows that the retention has removed, up to the next row that is there.
    fn skip_cuts(&mut self, position: i64) {
        while self.next < position
            && let Some(cut) = self.cuts.iter().find(|cut| cut.first <= self.next && self.next <= cut.last)
        {
            // If it begins earlier, rows before it were read before they were removed.
            if cut.first == self.next && cut.prev != self.head {
                let first = cut.first;
                self.find(Some(first), Fault::CutUnlinked);
                return;
            }
            self.next = cut.last + 1;
            self.head = Some(cut.hash.clone());
        }
    }

    /// Compares the chain with the anchors of its rows up to this count.
    fn meet_anchors(&mut self, count: i64) {
        while self.finding.is_none()
            && let Some(anchor) = self.anchors.pop_front_if(|anchor| anchor.count <= count)
        {
            self.witness(&anchor, Witness::Anchor);
        }
    }

    /// Compares the chain with what a statement says about it.
    fn witness(&mut self, statement: &Checkpoint, by: Witness) {
        if self.finding.is_some() {
            return;
        }
        self.skip_cuts(statement.count);
        let (count, at) = (statement.count, statement.at);
        if count > self.next && !self.is_open {
            self.find(Some(self.next), Fault::Truncated { count, by, at });
        } else if count == self.next && self.head.as_ref() != Some(&statement.head) {
            self.find(Some(count - 1), Fault::Contradicted { by, at });
        } else if count < self.next && !self.cuts.iter().any(|cut| cut.first < count && count <= cut.last) {
            self.find(Some(count - 1), Fault::Misplaced(by));
        }
        // The others are about rows that the retention has removed.
    }
}

#[cfg(test)]
mod tests;
