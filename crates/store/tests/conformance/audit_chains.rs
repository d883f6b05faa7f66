//! The chains of the audit have the rows that are committed, even if other commits are refused or undone meanwhile.

use std::sync::Arc;

use fermata_engine::{
    Store,
    store::{AuditEntry, Change, ChatStore, StoreError, Version},
};
use fermata_tools::{AuditAction, AuditEvent};
use futures::future::join_all;

use crate::{
    fixtures::*,
    sqlite::{count, one, opened},
    test_database::TestDatabase,
};

/// Rows whose `prev` is not the hash of the row before them.
const UNLINKED: &str = "select count(*) from audit_events as e where coalesce(prev, '') <> coalesce(
    (select hash from audit_events as b where b.chain = e.chain and b.position = e.position - 1), '')";
const CHAINS: &str = "select count(distinct chain) from audit_events";
const HASHES: &str = "select count(distinct hash) from audit_events where length(hash) = 64";
/// Positions without a row, before the last one of their chain.
const GAPS: &str = "select coalesce(sum(rows), 0) from
    (select max(position) + 1 - count(*) as rows from audit_events group by chain) as c";

/// Writes to many chats at once, and has as many commits refused, after their rows of the audit were written. Returns the number of rows
/// that are committed.
async fn write_at_once(store: Arc<dyn Store>) -> i64 {
    const CHATS: usize = 12;
    let writing = (0..CHATS).map(|number| {
        let store = store.clone();
        tokio::spawn(async move {
            let id = chat(&format!("c{number}"));
            let made = store.commit_next(&id, Version::NONE, at(0), vec![create(alice()), audit("made")]);
            let version = made.await.unwrap();
            let fenced =
                store.commit_next(&id, Version::NONE, at(1), vec![create(bob()), audit("fenced")]).await;
            assert!(fenced.is_err(), "{fenced:?}");
            let misfit = vec![audit("refused"), audit("refused"), save("none", 1.into(), None)];
            let refused = store.commit_next(&id, version, at(1), misfit).await;
            assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
            let event = AuditEntry::of_owner(&alice(), AuditEvent::new(AuditAction::DataExported));
            store.add_audit(at(2), vec![event.clone(), event]).await.unwrap();
            let rows = vec![Change::Touched, audit("one"), audit("two"), audit("three")];
            store.commit_next(&id, version, at(2), rows).await.unwrap();
        })
    });
    for written in join_all(writing).await {
        written.unwrap();
    }
    6 * CHATS as i64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_has_a_chain_for_each_start_of_its_server() {
    let folder = Folder::new();
    for start in 1..=2 {
        let store = opened(&folder).await;
        let rows = if start == 1 {
            write_at_once(Arc::new(store.clone())).await
        } else {
            let event = AuditEntry::of_server(AuditEvent::new(AuditAction::RulesLoaded));
            store.add_audit(at(3), vec![event]).await.unwrap();
            count(&folder, "audit_events")
        };
        store.close().await;
        assert_eq!(one::<i64>(&folder, CHAINS), start);
        assert_eq!((one::<i64>(&folder, UNLINKED), one::<i64>(&folder, GAPS)), (0, 0));
        assert_eq!((one::<i64>(&folder, HASHES), count(&folder, "audit_events")), (rows, rows));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_on_postgres_write_at_once_to_few_chains() {
    let Some(postgres) = TestDatabase::schema().await else { return };
    let (here, there) = (postgres.open().await, postgres.open().await);
    let event = AuditEntry::of_server(AuditEvent::new(AuditAction::RulesLoaded));
    let elsewhere = async {
        for _ in 0..20 {
            there.store.add_audit(at(1), vec![event.clone()]).await.unwrap();
        }
    };
    let (rows, ()) = tokio::join!(write_at_once(here.store.clone()), elsewhere);
    assert_eq!((postgres.number(UNLINKED).await, postgres.number(HASHES).await), (0, rows + 20));
    let gaps = GAPS.replace("coalesce(sum(rows), 0)", "coalesce(sum(rows), 0)::bigint");
    assert_eq!(postgres.number(&gaps).await, 0);
    // One for each of the four connections of the one, and one for the other, which writes one row after the other.
    assert!((2..=5).contains(&postgres.number(CHAINS).await));
    here.close().await;
    there.close().await;
}
