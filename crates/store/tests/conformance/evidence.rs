//! The audit is verified as it is stored: what nobody has changed holds, and what somebody has changed in the database is found.

use fermata_engine::store::AuditEntry;
use fermata_store::{
    AuditKey, Checkpointed, Database, Fault, Finding, OpenOptions, PublicKey, Report, Verifier, Witness, open,
};
use fermata_tools::{AuditAction, AuditEvent};
use jiff::Timestamp;

use crate::{
    fixtures::{Folder, alice, at, audit, chat, commit_at, create},
    sqlite::execute,
    test_database::TestDatabase,
};

macro_rules! in_every_database {
    ($($fact:ident)*) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $fact() {
                super::$fact(super::Place::Sqlite(crate::fixtures::Folder::new())).await;
            })*
        }

        mod on_postgres {
            $(#[tokio::test]
            async fn $fact() {
                let Some(postgres) = crate::test_database::TestDatabase::schema().await else { return };
                super::$fact(super::Place::Postgres(postgres)).await;
            })*
        }
    };
}

in_every_database! {
    what_was_written_holds_and_what_somebody_changed_is_found
    rows_that_are_removed_or_inserted_are_found
    the_audit_holds_after_each_deletion_of_the_retention
    a_chain_of_a_killed_process_gets_its_checkpoint_from_the_next_one
    checkpoints_and_cuts_are_not_changed
    a_part_ends_at_the_next_signed_checkpoint
    rows_that_are_left_keep_the_checkpoint_that_covers_them
    a_new_key_signs_what_was_cut_before
}

/// A database that a test may change behind the back of the store.
enum Place {
    Sqlite(Folder),
    Postgres(TestDatabase),
}

impl Place {
    fn url(&self) -> String {
        match self {
            Self::Sqlite(folder) => folder.url(),
            Self::Postgres(postgres) => postgres.url.clone(),
        }
    }

    async fn open(&self) -> Database {
        self.open_with(Some(key(1))).await
    }

    async fn open_with(&self, audit_key: Option<AuditKey>) -> Database {
        let options = OpenOptions { audit_key, connections: 2, ..OpenOptions::default() };
        open(&self.url(), &options).await.unwrap()
    }

    /// Executes statements that each database understands.
    async fn execute(&self, statements: &str) -> Result<(), String> {
        match self {
            Self::Sqlite(folder) => execute(folder, statements).map_err(|error| error.to_string()),
            Self::Postgres(postgres) => {
                let statements = statements.replace(
                    "insert into audit_events select",
                    "insert into audit_events overriding system value select",
                );
                postgres.execute(&statements).await.map_err(|error| error.to_string())
            }
        }
    }

    /// Does what the owner of a database can do: switches the triggers off.
    async fn disarm(&self) {
        let tables = ["audit_events", "audit_checkpoints", "audit_cuts"];
        match self {
            Self::Sqlite(folder) => {
                let triggers: Vec<String> = crate::sqlite::column(
                    folder,
                    0,
                    "select name from sqlite_schema where type = 'trigger' and name like 'audit%'",
                );
                let drop: String = triggers.iter().map(|name| format!("drop trigger {name};")).collect();
                execute(folder, &drop).unwrap();
            }
            Self::Postgres(postgres) => {
                let disable: String =
                    tables.iter().map(|table| format!("alter table {table} disable trigger user;")).collect();
                postgres.execute(&disable).await.unwrap();
            }
        }
    }
}

fn key(digit: u8) -> AuditKey {
    // 32 bytes in base64.
    AuditKey::parse(&format!("{}=", char::from(b'A' + digit).to_string().repeat(42) + "A")).unwrap()
}

async fn verify(database: &Database) -> Report {
    let keys: [PublicKey; 1] = [key(1).public().clone()];
    let mut verifier = Verifier::new(keys, [], Timestamp::now());
    database.verify_audit(&mut verifier).await.unwrap();
    verifier.finish()
}

fn event() -> AuditEntry {
    AuditEntry::of_owner(&alice(), AuditEvent::new(AuditAction::DataExported))
}

/// Two starts of a process, each with rows and a checkpoint. Returns the database of the second.
async fn filled(place: &Place) -> Database {
    for _ in 0..2 {
        let database = place.open().await;
        let id = chat(&uuid::Uuid::new_v4().to_string());
        commit_at(&*database.store, &id, at(0), vec![create(alice()), audit("one"), audit("two")])
            .await
            .unwrap();
        database.store.add_audit(at(1), vec![event(), event()]).await.unwrap();
        assert_eq!(database.checkpoint(at(2), Checkpointed::Own).await.unwrap().len(), 1);
        assert_eq!(database.checkpoint(at(3), Checkpointed::Own).await.unwrap(), [], "nothing is new");
        database.close().await;
    }
    place.open().await
}

async fn what_was_written_holds_and_what_somebody_changed_is_found(place: Place) {
    let database = filled(&place).await;
    let report = verify(&database).await;
    assert_eq!(report.findings, []);
    assert_eq!((report.chains, report.rows, report.checkpoints), (2, 8, 2));
    assert_eq!((report.unsigned, report.uncovered), (0, 0));

    place.disarm().await;
    place.execute("create table kept as select * from audit_events").await.unwrap();
    let texts = [
        "owner",
        "principal",
        "groups",
        "channel",
        "address",
        "approval_id",
        "chat_id",
        "run_id",
        "call_id",
        "tool",
        "event",
        "rule",
        "reason",
        "input_hash",
        "shown_hash",
        "outcome",
        "subject",
        "prev",
        "hash",
    ];
    let changes = texts.map(|column| format!("{column} = 'other'")).into_iter();
    let nulls = texts
        .into_iter()
        .skip(1)
        .filter(|column| !["chat_id", "tool", "event", "hash", "subject"].contains(column));
    let changes = changes.chain(nulls.map(|column| format!("{column} = null"))).chain(["at = at + 1".into()]);
    for change in changes {
        let chain = "(select min(chain) from audit_events)";
        place
            .execute(&format!("update audit_events set {change} where position = 1 and chain = {chain}"))
            .await
            .unwrap();
        let report = verify(&database).await;
        let [Finding { position: Some(1), row: Some(_), fault: Fault::Changed, .. }] = &report.findings[..]
        else {
            panic!("{change}: {:?}", report.findings);
        };
        place.execute("delete from audit_events; insert into audit_events select * from kept").await.unwrap();
        assert_eq!(verify(&database).await.findings, []);
    }
    database.close().await;
}

async fn rows_that_are_removed_or_inserted_are_found(place: Place) {
    let database = filled(&place).await;
    place.disarm().await;
    place.execute("create table kept as select * from audit_events").await.unwrap();
    let chain = "chain = (select min(chain) from kept)";
    let is_truncated = |fault: &Fault| matches!(fault, Fault::Truncated { by: Witness::Checkpoint, .. });
    for (change, position, expected) in [
        (format!("delete from audit_events where position = 0 and {chain}"), 0, "removed"),
        (format!("delete from audit_events where position = 2 and {chain}"), 2, "removed"),
        (format!("delete from audit_events where position = 3 and {chain}"), 3, "truncated"),
        (format!("delete from audit_events where {chain}"), 0, "truncated"),
        (
            format!(
                "update audit_events set position = -1 where position = 1 and {chain};
                 update audit_events set position = 1 where position = 2 and {chain};
                 update audit_events set position = 2 where position = -1 and {chain}"
            ),
            1,
            "changed",
        ),
        (
            // A copy of a row before all others.
            format!(
                "update kept set id = id + 100, position = -1 where position = 1 and {chain};
                 insert into audit_events select * from kept where position = -1;
                 update kept set id = id - 100, position = 1 where position = -1"
            ),
            -1,
            "inserted",
        ),
    ] {
        place.execute(&change).await.unwrap();
        let report = verify(&database).await;
        let [finding] = &report.findings[..] else { panic!("{change}: {:?}", report.findings) };
        assert_eq!(finding.position, Some(position), "{change}: {finding}");
        let is_expected = match expected {
            "removed" => finding.fault == Fault::Removed { last: position },
            "truncated" => is_truncated(&finding.fault),
            "changed" => finding.fault == Fault::Changed,
            _ => finding.fault == Fault::Inserted,
        };
        assert!(is_expected, "{change}: {finding}");
        place.execute("delete from audit_events; insert into audit_events select * from kept").await.unwrap();
        assert_eq!(verify(&database).await.findings, []);
    }
    // A checkpoint of another key, as somebody writes it who does not have ours.
    let report = {
        let mut verifier = Verifier::new([key(2).public().clone()], [], Timestamp::now());
        database.verify_audit(&mut verifier).await.unwrap();
        verifier.finish()
    };
    let unknown = Fault::UnknownKey(Witness::Checkpoint, key(1).public().clone());
    assert!(report.findings.iter().any(|finding| finding.fault == unknown), "{:?}", report.findings);
    database.close().await;
}

async fn the_audit_holds_after_each_deletion_of_the_retention(place: Place) {
    let database = place.open().await;
    // The clock is set back after the fourth row.
    for (second, rows) in [(1, 3), (9, 1), (2, 3), (3, 2)] {
        database.store.add_audit(at(second), vec![event(); rows]).await.unwrap();
        database.checkpoint(at(second), Checkpointed::Own).await.unwrap();
    }
    let mut forgotten = 0;
    for (before, limit) in [(2, 2), (2, 9), (3, 2), (4, 9)] {
        forgotten += database.store.forget_audit(at(before), limit).await.unwrap();
        let report = verify(&database).await;
        assert_eq!(report.findings, [], "before {before}, {limit} of them");
        assert_eq!((report.cut_rows, report.rows), (forgotten as u64, 9 - forgotten as u64));
    }
    assert_eq!(forgotten, 8, "one row is left");
    // The next row follows the last one that was written, and not the last one that is left.
    database.store.add_audit(at(10), vec![event()]).await.unwrap();
    database.checkpoint(at(10), Checkpointed::Own).await.unwrap();
    assert_eq!(verify(&database).await.findings, []);
    database.store.forget_audit(at(11), 9).await.unwrap();
    let report = verify(&database).await;
    assert_eq!(report.findings, []);
    assert_eq!((report.chains, report.rows, report.cut_rows), (1, 0, 10));
    // All of them are one cut now, and rows go on behind it even if the head has to be read.
    let chain = database.next_chain(None).await.unwrap().unwrap();
    let page = database.audit_page(&chain, None).await.unwrap();
    assert_eq!(page.cuts.iter().map(|cut| (cut.first, cut.last)).collect::<Vec<_>>(), [(0, 9)]);
    let twice = vec![create(alice()), audit("one"), create(alice())];
    commit_at(&*database.store, &chat("none"), at(12), twice).await.unwrap_err();
    database.store.add_audit(at(12), vec![event()]).await.unwrap();
    database.checkpoint(at(12), Checkpointed::Own).await.unwrap();
    let report = verify(&database).await;
    assert_eq!((report.findings, report.chains, report.rows), (vec![], 1, 1));
    database.close().await;
}

async fn a_chain_of_a_killed_process_gets_its_checkpoint_from_the_next_one(place: Place) {
    let killed = place.open().await;
    killed.store.add_audit(at(0), vec![event(), event()]).await.unwrap();
    let next = place.open().await;
    next.store.add_audit(at(5), vec![event()]).await.unwrap();
    let report = verify(&next).await;
    assert_eq!((report.checkpoints, report.uncovered), (0, 3));
    assert!(report.findings.iter().all(|finding| finding.fault == Fault::Uncovered), "{:?}", report.findings);
    let written = next.checkpoint(at(6), Checkpointed::OthersBefore(at(1))).await.unwrap();
    let mut counts: Vec<i64> = written.iter().map(|checkpoint| checkpoint.count).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 2]);
    assert_eq!(next.checkpoint(at(7), Checkpointed::OthersBefore(Timestamp::MAX)).await.unwrap(), []);
    let report = verify(&next).await;
    assert_eq!((report.findings, report.uncovered), (vec![], 0));
    killed.close().await;
    next.close().await;
}

async fn checkpoints_and_cuts_are_not_changed(place: Place) {
    let database = filled(&place).await;
    database.store.forget_audit(at(1), 1).await.unwrap();
    for statement in [
        "update audit_checkpoints set count = 1",
        "delete from audit_checkpoints",
        "update audit_cuts set last = 9",
        "delete from audit_cuts",
    ] {
        assert!(place.execute(statement).await.is_err(), "{statement}");
    }
    let replacing = match place {
        Place::Sqlite(_) => [
            "insert or replace into audit_checkpoints select * from audit_checkpoints",
            "insert or replace into audit_cuts select * from audit_cuts",
        ],
        Place::Postgres(_) => ["truncate audit_checkpoints", "truncate audit_cuts"],
    };
    for statement in replacing {
        assert!(place.execute(statement).await.is_err(), "{statement}");
    }
    assert_eq!(verify(&database).await.findings, []);
    // The retention removes them with the rows that they count.
    database.store.forget_audit(at(9), 99).await.unwrap();
    let report = verify(&database).await;
    assert_eq!((report.findings, report.checkpoints, report.cut_rows), (vec![], 0, 8));
    database.close().await;
}

async fn a_part_ends_at_the_next_signed_checkpoint(place: Place) {
    let database = place.open().await;
    for second in 1..=4 {
        database.store.add_audit(at(second), vec![event()]).await.unwrap();
    }
    let chain = database.next_chain(None).await.unwrap().unwrap();
    let (since, until) = (Some(at(2)), Some(at(3)));
    assert_eq!(database.audit_positions(&chain, since, until).await.unwrap(), Some((1, 1)));
    database.checkpoint(at(5), Checkpointed::Own).await.unwrap();
    database.store.add_audit(at(6), vec![event()]).await.unwrap();
    // The only checkpoint covers four rows, so that the part without the last two has none.
    assert_eq!(database.audit_positions(&chain, since, until).await.unwrap(), Some((1, 3)));
    assert_eq!(database.audit_positions(&chain, None, Some(at(9))).await.unwrap(), Some((0, 4)));
    assert_eq!(database.audit_positions(&chain, Some(at(9)), None).await.unwrap(), None);
    database.close().await;
}

async fn rows_that_are_left_keep_the_checkpoint_that_covers_them(place: Place) {
    let database = place.open().await;
    database.store.add_audit(at(1), vec![event(); 4]).await.unwrap();
    database.checkpoint(at(2), Checkpointed::Own).await.unwrap();
    for left in [2, 0] {
        database.store.forget_audit(at(9), 2).await.unwrap();
        let report = verify(&database).await;
        assert_eq!((report.findings, report.rows), (vec![], left));
    }
    assert_eq!(database.store.forget_audit(at(9), 2).await.unwrap(), 1, "the checkpoint");
    let report = verify(&database).await;
    assert_eq!((report.findings, report.checkpoints, report.cut_rows), (vec![], 0, 4));
    database.close().await;
}

async fn a_new_key_signs_what_was_cut_before(place: Place) {
    let database = place.open_with(None).await;
    database.store.add_audit(at(1), vec![event(); 3]).await.unwrap();
    database.store.forget_audit(at(2), 2).await.unwrap();
    database.checkpoint(at(2), Checkpointed::Own).await.unwrap();
    database.close().await;
    let database = place.open().await;
    database.store.add_audit(at(3), vec![event()]).await.unwrap();
    database.checkpoint(at(4), Checkpointed::Own).await.unwrap();
    database.checkpoint(at(5), Checkpointed::OthersBefore(at(5))).await.unwrap();
    let report = verify(&database).await;
    assert_eq!((report.findings, report.cut_rows), (vec![], 2));
    assert_eq!((report.checkpoints, report.unsigned), (3, 1), "each chain has a signed one now");
    database.close().await;
}
