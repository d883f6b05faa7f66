//! Every kind of tampering with every row is found, and named by its place.

use serde_json::{Value, json};

use super::*;
use crate::evidence::{AuditKey, AuditRow};

const HOUR: i64 = 3_600_000_000;
const NOW: i64 = 1_767_225_600_000_000;
const ROWS: i64 = 5;

/// What is stored of a chain.
#[derive(Clone, Default)]
struct Stored {
    cuts: Vec<Cut>,
    rows: Vec<HashedRow>,
    checkpoints: Vec<Checkpoint>,
}

fn key(byte: u8) -> AuditKey {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    AuditKey::parse(&STANDARD.encode([byte; 32])).unwrap()
}

fn hashed(row: AuditRow) -> HashedRow {
    let hash = row.hash();
    HashedRow { row, hash }
}

/// A chain of rows that are a day old, with a value in each column.
fn chain(name: &str, rows: i64) -> Stored {
    let mut stored = Stored::default();
    for position in 0..rows {
        let row = AuditRow {
            address: Some("192.0.2.7".into()),
            approval_id: Some("appr".into()),
            at: NOW - 24 * HOUR + position,
            call_id: Some("call".into()),
            chain: name.into(),
            channel: Some("button".into()),
            chat_id: "chat".into(),
            event: "approved".into(),
            groups: Some("[\"finance\"]".into()),
            input_hash: Some("1".repeat(64)),
            outcome: Some("counted".into()),
            owner: "dave".into(),
            position,
            prev: stored.rows.last().map(|row| row.hash.clone()),
            principal: Some("alice".into()),
            reason: Some("fine".into()),
            rule: Some("rule 1".into()),
            run_id: Some("run".into()),
            shown_hash: Some("1".repeat(64)),
            subject: Some("memory".into()),
            tool: "refund".into(),
        };
        stored.rows.push(hashed(row));
    }
    for count in [rows / 2, rows] {
        let checkpoint = checkpoint(name, count, &stored.rows[count as usize - 1].hash);
        stored.checkpoints.push(checkpoint.signed(Some(&key(1))));
    }
    stored
}

fn checkpoint(chain: &str, count: i64, head: &str) -> Checkpoint {
    Checkpoint {
        at: NOW - 23 * HOUR,
        chain: chain.into(),
        count,
        head: head.into(),
        key: None,
        signature: None,
    }
}

fn cut(stored: &Stored, first: usize, last: usize) -> Cut {
    let row = |index: usize| &stored.rows[index];
    Cut {
        before: NOW - 12 * HOUR,
        chain: row(first).row.chain.clone(),
        first: first as i64,
        last: last as i64,
        prev: row(first).row.prev.clone(),
        hash: row(last).hash.clone(),
        key: None,
        signature: None,
    }
}

/// Hashes the rows from this one on again, as somebody does who knows how.
fn link(stored: &mut Stored, from: usize) {
    for index in from..stored.rows.len() {
        let prev = index.checked_sub(1).map(|before| stored.rows[before].hash.clone());
        let row = AuditRow { prev, position: index as i64, ..stored.rows[index].row.clone() };
        stored.rows[index] = hashed(row);
    }
}

fn verify(chains: &[Stored], keys: &[AuditKey], anchors: &[Checkpoint]) -> Report {
    let now = Timestamp::from_microsecond(NOW).unwrap();
    let keys = keys.iter().map(|key| key.public().clone());
    let mut verifier = Verifier::new(keys, anchors.iter().cloned(), now);
    for stored in chains {
        // The rows may say something else.
        let name = stored.checkpoints.first().map_or("b", |checkpoint| &checkpoint.chain);
        verifier.begin(name, Bounds::default());
        for cut in &stored.cuts {
            verifier.cut(cut.clone());
        }
        let mut checkpoints = stored.checkpoints.iter().peekable();
        for row in &stored.rows {
            while let Some(checkpoint) =
                checkpoints.next_if(|checkpoint| checkpoint.count <= row.row.position)
            {
                verifier.checkpoint(checkpoint);
            }
            verifier.row(row);
        }
        checkpoints.for_each(|checkpoint| verifier.checkpoint(checkpoint));
    }
    verifier.finish()
}

/// The faults, each as the chain, the position and the fault.
fn found(report: &Report) -> Vec<(&str, Option<i64>, Fault)> {
    let findings = report.findings.iter();
    findings.map(|finding| (finding.chain.as_str(), finding.position, finding.fault.clone())).collect()
}

/// Verifies a chain of five rows that somebody has changed, with an untouched one before it and another behind it.
fn tampered(change: impl FnOnce(&mut Stored)) -> Vec<(Option<i64>, Fault)> {
    let mut stored = chain("b", ROWS);
    change(&mut stored);
    let report = verify(&[chain("a", ROWS), stored, chain("c", ROWS)], &[], &[]);
    let found = found(&report).into_iter();
    found
        .map(|(chain, position, fault)| {
            assert_eq!(chain, "b");
            (position, fault)
        })
        .collect()
}

#[test]
fn what_nobody_has_changed_holds() {
    let chains = [chain("a", ROWS), chain("b", 2), chain("c", 40)];
    let anchors: Vec<_> = chains.iter().flat_map(|chain| chain.checkpoints.clone()).collect();
    let report = verify(&chains, &[key(1)], &anchors);
    assert_eq!(found(&report), []);
    assert_eq!((report.chains, report.rows, report.checkpoints, report.anchors), (3, 47, 6, 6));
    assert_eq!((report.unsigned, report.uncovered), (0, 0));
    assert_eq!(report.keys, [key(1).public().clone()].into());
}

#[test]
fn a_change_of_any_column_of_any_row_is_found() {
    let columns = serde_json::to_value(&chain("b", 2).rows[1].row).unwrap();
    let columns: Vec<String> = columns.as_object().unwrap().keys().cloned().collect();
    assert_eq!(columns.len(), 21);
    for index in 0..ROWS as usize {
        for column in columns.iter().filter(|column| *column != "position" && *column != "chain") {
            for change in [json!("other"), Value::Null] {
                let mut row = serde_json::to_value(&chain("b", ROWS).rows[index].row).unwrap();
                let change =
                    if row[column].is_i64() { json!(row[column].as_i64().unwrap() + 1) } else { change };
                if row[column] == change {
                    continue;
                }
                row[column] = change;
                // Of a column that is never null, the row cannot be read.
                let Ok(row) = serde_json::from_value::<AuditRow>(row) else { continue };
                let found = tampered(|stored| stored.rows[index].row = row);
                assert_eq!(found, [(Some(index as i64), Fault::Changed)], "{column} of row {index}");
            }
        }
        let found = tampered(|stored| stored.rows[index].hash = "f".repeat(64));
        assert_eq!(found, [(Some(index as i64), Fault::Changed)], "the hash of row {index}");
        let found = tampered(|stored| stored.rows[index].row.chain = "a".into());
        assert_eq!(found, [(Some(index as i64), Fault::Changed)], "the chain of row {index}");
    }
}

#[test]
fn a_row_that_is_hashed_again_does_not_fit_the_next_one_or_the_checkpoint() {
    for index in 0..ROWS as usize {
        let found = tampered(|stored| {
            let row = AuditRow { principal: Some("mallory".into()), ..stored.rows[index].row.clone() };
            stored.rows[index] = hashed(row);
        });
        let [(position, fault)] = found.try_into().unwrap();
        // Where a checkpoint ends with the row, it shows the change; otherwise the next row does.
        let expected = if index == 1 || index == 4 { index } else { index + 1 };
        assert_eq!(position, Some(expected as i64), "{fault:?}");
        let all_again = tampered(|stored| {
            stored.rows[index].row.principal = Some("mallory".into());
            link(stored, index);
        });
        let last_of_checkpoint = if index < 2 { 1 } else { 4 };
        assert!(
            matches!(&all_again[..], [(Some(position), Fault::Contradicted { .. })] if *position == last_of_checkpoint)
        );
    }
}

#[test]
fn a_removed_row_is_found() {
    for index in 0..ROWS as usize - 1 {
        let removed = Fault::Removed { last: index as i64 };
        let found = tampered(|stored| drop(stored.rows.remove(index)));
        assert_eq!(found[0].0, Some(index as i64), "{found:?}");
        assert!(found[0].1 == removed || matches!(found[0].1, Fault::Truncated { .. }), "{found:?}");
        let closed_up = tampered(|stored| {
            stored.rows.remove(index);
            link(stored, index);
        });
        assert!(
            matches!(closed_up[0].1, Fault::Contradicted { .. } | Fault::Truncated { .. }),
            "{closed_up:?}"
        );
    }
    let found = tampered(|stored| drop(stored.rows.drain(1..3)));
    assert_eq!(found[0].0, Some(1));
}

#[test]
fn the_end_of_a_chain_does_not_go_unseen() {
    for left in 0..ROWS as usize {
        let found = tampered(|stored| stored.rows.truncate(left));
        let [(position, Fault::Truncated { by: Witness::Checkpoint, .. })] = &found[..] else {
            panic!("{left} are left: {found:?}");
        };
        assert_eq!(*position, Some(left as i64));
    }
}

#[test]
fn an_inserted_row_is_found() {
    for index in 0..=ROWS as usize {
        for copied in 0..ROWS as usize {
            let insert = |stored: &mut Stored| {
                let row = stored.rows[copied].clone();
                stored.rows.insert(index, row);
            };
            // A copy keeps its position; a forgery takes the next one, and the others are moved and hashed again.
            assert_eq!(tampered(insert).len(), 1, "a copy of {copied} before {index}");
            let forged = tampered(|stored| {
                insert(stored);
                link(stored, index);
            });
            // Behind the last checkpoint nobody can tell it from a row of the server.
            let is_behind = index == ROWS as usize || index + 1 == ROWS as usize && copied == index;
            assert_eq!(forged.len(), usize::from(!is_behind), "a copy of {copied} before {index}");
        }
    }
}

#[test]
fn rows_in_another_order_are_found() {
    for index in 0..ROWS as usize - 1 {
        let found = tampered(|stored| stored.rows.swap(index, index + 1));
        assert_eq!(found.len(), 1);
        let found = tampered(|stored| {
            let (one, other) = (stored.rows[index].row.position, stored.rows[index + 1].row.position);
            stored.rows[index].row.position = other;
            stored.rows[index + 1].row.position = one;
            stored.rows.swap(index, index + 1);
        });
        assert_eq!(found, [(Some(index as i64), Fault::Changed)]);
    }
}

#[test]
fn a_chain_that_is_gone_is_missed_by_its_checkpoints_and_anchors() {
    let whole = chain("b", ROWS);
    let found = tampered(|stored| stored.rows.clear());
    assert!(matches!(found[..], [(Some(0), Fault::Truncated { .. })]), "{found:?}");
    let report = verify(&[chain("a", ROWS)], &[key(1)], &whole.checkpoints);
    let [Finding { chain: name, position: None, fault, .. }] = &report.findings[..] else {
        panic!("{:?}", report.findings);
    };
    assert!(name == "b" && matches!(fault, Fault::Truncated { count: ROWS, by: Witness::Anchor, .. }));
    // Without its checkpoints, the anchors still know its end and its rows.
    let mut shorter = Stored { checkpoints: Vec::new(), ..whole.clone() };
    shorter.rows.truncate(3);
    let report = verify(&[shorter], &[], &whole.checkpoints);
    assert!(matches!(found_one(&report), (Some(3), Fault::Truncated { by: Witness::Anchor, .. })));
    let mut other = Stored { checkpoints: Vec::new(), ..whole.clone() };
    other.rows[0].row.reason = None;
    link(&mut other, 0);
    let report = verify(&[other], &[], &whole.checkpoints);
    assert!(matches!(found_one(&report), (Some(1), Fault::Contradicted { by: Witness::Anchor, .. })));
}

fn found_one(report: &Report) -> (Option<i64>, Fault) {
    let [(_, position, fault)] = found(report).try_into().unwrap();
    (position, fault)
}

#[test]
fn a_chain_holds_without_the_rows_that_the_retention_has_removed() {
    for (first, last) in [(0, 0), (0, 2), (0, 4), (1, 2), (2, 4), (3, 3)] {
        let mut stored = chain("b", ROWS);
        let cut = cut(&stored, first, last);
        stored.rows.drain(first..=last);
        let mut signed = stored.clone();
        signed.cuts.push(cut.clone().signed(Some(&key(1))));
        let report = verify(&[signed.clone()], &[key(1)], &signed.checkpoints);
        assert_eq!(found(&report), [], "{first} to {last}");
        assert_eq!(report.cut_rows, (last - first + 1) as u64);
        stored.cuts.push(cut.clone());
        assert_eq!(found(&verify(&[stored.clone()], &[], &[])), []);
        let unsigned = verify(&[stored.clone()], &[key(1)], &[]);
        assert_eq!(found_one(&unsigned), (Some(first as i64), Fault::UnsignedCut));
        // A note that names other hashes fits neither its neighbours nor the checkpoints.
        stored.cuts = vec![Cut { hash: "f".repeat(64), ..cut.clone() }];
        assert_eq!(verify(&[stored.clone()], &[], &[]).findings.len(), 1, "{first} to {last}");
        stored.cuts = vec![Cut { prev: Some("f".repeat(64)), ..cut }];
        assert_eq!(found_one(&verify(&[stored], &[], &[])), (Some(first as i64), Fault::CutUnlinked));
    }
}

#[test]
fn cuts_are_joined_where_they_meet() {
    let stored = chain("b", ROWS);
    let joined = Cut::joined(vec![cut(&stored, 3, 3), cut(&stored, 0, 1), cut(&stored, 2, 2)]);
    assert_eq!(joined, [cut(&stored, 0, 3)]);
    let apart = vec![cut(&stored, 0, 1), cut(&stored, 3, 4)];
    assert_eq!(Cut::joined(apart.clone()), apart);
    let misfit = vec![cut(&stored, 0, 1), Cut { prev: None, ..cut(&stored, 2, 2) }];
    assert_eq!(Cut::joined(misfit.clone()), misfit);
}

#[test]
fn signatures_are_by_the_keys_that_the_auditor_names() {
    let signed = |by: Option<&AuditKey>| {
        let mut stored = chain("b", ROWS);
        stored.checkpoints.remove(0);
        stored.checkpoints = stored.checkpoints.into_iter().map(|checkpoint| checkpoint.signed(by)).collect();
        stored
    };
    let (mine, other) = (key(1), key(2));
    assert_eq!(found(&verify(&[signed(Some(&other))], &[], &[])), []);
    assert_eq!(found(&verify(&[signed(Some(&other))], &[mine.clone(), other.clone()], &[])), []);
    let report = verify(&[signed(Some(&other))], std::slice::from_ref(&mine), &[]);
    let unknown = Fault::UnknownKey(Witness::Checkpoint, other.public().clone());
    assert_eq!(found(&report)[0].2, unknown);
    let unsigned = verify(&[signed(None)], &[], &[]);
    assert_eq!((found(&unsigned), unsigned.unsigned, unsigned.uncovered), (vec![], 1, ROWS as u64));
    // The rows are older than a signed checkpoint may be late.
    let report = verify(&[signed(None)], std::slice::from_ref(&mine), &[]);
    assert_eq!(found_one(&report), (Some(0), Fault::Uncovered));

    for change in [
        (|checkpoint| checkpoint.at += 1) as fn(&mut Checkpoint),
        |checkpoint| checkpoint.signature = None,
        |checkpoint| checkpoint.key = None,
        |checkpoint| checkpoint.signature = Some("AAAA".into()),
    ] {
        let mut stored = signed(Some(&mine));
        change(&mut stored.checkpoints[0]);
        let report = verify(&[stored], &[], &[]);
        assert_eq!(found_one(&report), (Some(ROWS - 1), Fault::BadSignature(Witness::Checkpoint)));
    }
    let mut anchor = chain("b", ROWS).checkpoints.remove(1);
    anchor.at += 1;
    let report = verify(&[chain("b", ROWS)], &[], &[anchor]);
    assert_eq!(found_one(&report).1, Fault::BadSignature(Witness::Anchor));
}

#[test]
fn a_part_of_a_chain_holds_by_itself() {
    let whole = chain("b", ROWS);
    let now = Timestamp::from_microsecond(NOW).unwrap();
    let mut verifier = Verifier::new([], whole.checkpoints.clone(), now);
    let from = Some((1, whole.rows[1].row.prev.clone()));
    verifier.begin("b", Bounds { from, is_open: true });
    verifier.row(&whole.rows[1]);
    verifier.checkpoint(&whole.checkpoints[0]);
    verifier.row(&whole.rows[2]);
    assert_eq!(found(&verifier.finish()), []);
}
