//! Similar memories by the extension pgvector, and without it on the same server.

use std::{io::Write, sync::Arc};

use async_trait::async_trait;
use fermata_engine::{
    Clock, Embedder, Ids, MemoryService,
    memories::MemoryLimits,
    model::ModelError,
    store::memories::{Memory, MemoryVector, cosine},
};
use fermata_store::Database;
use fermata_tools::{Capacity, Owner};
use jiff::Timestamp;

use crate::{
    AnyStore,
    fixtures::*,
    memories::{change_of, id, new, save},
    memory_vectors::{Numbers, check},
    test_database::TestDatabase,
};

/// More vectors than are compared without an index, with eight dimensions each.
const MANY: i64 = 10_500;

const INDEX: &str = "select count(*) from pg_index join pg_class on pg_class.oid = indexrelid
    where relname = 'memory_vectors_hnsw_8' and indisvalid";

const IS_USED: &str = "select (idx_scan > 0)::int::bigint from pg_stat_user_indexes
    where indexrelname = 'memory_vectors_hnsw_8'";

/// The clock, the ids and the embedding model of a service that only looks for memories. The vector of a text is a fixed one.
struct Parts;

const ASKED: [f32; 8] = [0.5, 1.0, -0.5, 0.25, 0.0, -1.0, 0.75, 0.1];

impl Clock for Parts {
    fn now(&self) -> Timestamp {
        at(1)
    }
}

impl Ids for Parts {
    fn next(&self, _: &str) -> String {
        unreachable!("nothing is saved")
    }

    fn next_idempotency_key(&self) -> String {
        unreachable!("nothing runs")
    }

    fn next_number(&self) -> u64 {
        unreachable!("nothing is saved")
    }
}

#[async_trait]
impl Embedder for Parts {
    fn name(&self) -> &'static str {
        "m"
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError> {
        Ok(texts.iter().map(|_| ASKED.to_vec()).collect())
    }
}

/// A database of a server that has pgvector. Where it is not installed, the tests are skipped, even if services are required, because
/// PostgreSQL comes without it, and not every system has a package of it.
async fn database() -> Option<TestDatabase> {
    let postgres = TestDatabase::database().await?;
    if postgres.number("select count(*) from pg_available_extensions where name = 'vector'").await == 0 {
        // Past the test's own output, which nobody sees when it passes.
        let _ = writeln!(std::io::stderr(), "PostgreSQL has no extension pgvector: its tests are skipped");
        return None;
    }
    Some(postgres)
}

async fn has_extension(postgres: &TestDatabase) -> bool {
    postgres.number("select count(*) from pg_extension where extname = 'vector'").await == 1
}

/// Saves memories with vectors of the model `m` for an owner, past the store. The vectors lie on both sides of one that begins with `first`.
async fn fill(postgres: &TestDatabase, owner: &str, count: i64, first: i64) {
    let statements = format!(
        "insert into memories (owner, id, kind, text, pinned, created_at, version, embedded_by)
         select '{owner}', 'm' || n, 'fact', 'x', false, n, 0, 'm' from generate_series(1, {count}) as n;
         insert into memory_vectors (owner, memory_id, dims, vector)
         select '{owner}', 'm' || n, 8, array[{first}, sin(n * 1.1), sin(n * 2.3), sin(n * 3.7), sin(n * 5.3),
            sin(n * 7.9), sin(n * 9.1), sin(n * 11.3)]::real[]
         from generate_series(1, {count}) as n;
         analyze memories; analyze memory_vectors"
    );
    postgres.execute(&statements).await.unwrap();
}

/// The vectors of an owner, as [`fill`] has saved them.
async fn vectors(postgres: &TestDatabase, owner: &str) -> Vec<MemoryVector> {
    let raw = postgres.raw().await;
    let query = "select memory_id, vector from memory_vectors where owner = $1";
    let rows = raw.query(query, &[&owner]).await.unwrap();
    raw.close().await;
    let rows = rows.iter().map(|row| (row.get(0), row.get(1)));
    let of = |(name, vector): (String, _)| MemoryVector {
        owner: Owner::new(owner),
        id: id(&name),
        version: 0,
        vector,
    };
    rows.into_iter().map(of).collect()
}

async fn near(database: &Database, owner: &str, to: &[f32]) -> Vec<(Memory, f32)> {
    database.store.nearest_memories(&Owner::new(owner), "m", to, 5).await.unwrap()
}

#[tokio::test]
async fn the_extension_is_created_if_the_server_has_it() {
    let Some(postgres) = database().await else { return };
    fermata_store::migrate(&postgres.url).await.unwrap();
    assert!(has_extension(&postgres).await);
    postgres.execute("drop extension vector").await.unwrap();
    let as_it_is = fermata_store::OpenOptions { migrate: false, connections: 2, audit_key: None };
    fermata_store::open(&postgres.url, &as_it_is).await.unwrap().close().await;
    assert!(!has_extension(&postgres).await, "nothing is changed if it is not to migrate");
    postgres.open().await.close().await;
    assert!(has_extension(&postgres).await, "also if no migration is missing");
}

#[tokio::test]
async fn results_are_the_same_with_and_without_the_extension() {
    let Some(postgres) = database().await else { return };
    let role = format!("fermata_store_vectors_{}", std::process::id());
    let create =
        format!("create role {role} login password 'secret'; grant create on schema public to {role}");
    let raw = postgres.raw().await;
    raw.batch_execute(&create).await.unwrap();
    let url = crate::postgres::with(&postgres.url, &role, None);
    let without = fermata_store::open(&url, &fermata_store::OpenOptions::default()).await.unwrap();
    let could_create = has_extension(&postgres).await;
    let with = postgres.open().await;
    let store: AnyStore = without.store.clone();
    let saves = (0..40).map(|n| save(new(&format!("m{n:02}"), "x"))).collect();
    change_of(&store, &alice(), 1, saves).await;
    let mut numbers = Numbers(11);
    let vectors: Vec<_> = (0..40)
        .map(|n| MemoryVector {
            owner: alice(),
            id: id(&format!("m{n:02}")),
            version: 0,
            vector: numbers.vector(1_536),
        })
        .collect();
    store.put_vectors("m", vectors.clone()).await.unwrap();
    for _ in 0..5 {
        let to = numbers.vector(1_536);
        for database in [&with, &without] {
            check(&near(database, "alice", &to).await, &vectors, &to, 5);
        }
    }
    with.close().await;
    without.close().await;
    let drop = format!("reassign owned by {role} to current_user; drop owned by {role}; drop role {role}");
    raw.batch_execute(&drop).await.unwrap();
    raw.close().await;
    assert!(!could_create, "this would have compared it with itself");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_with_very_many_vectors_gets_an_index() {
    let Some(postgres) = database().await else { return };
    let databases = [postgres.open().await, postgres.open().await];
    fill(&postgres, "alice", MANY, 1).await;
    let vectors = vectors(&postgres, "alice").await;
    let to = ASKED;
    let (one, two) = tokio::join!(near(&databases[0], "alice", &to), near(&databases[1], "alice", &to));
    check(&one, &vectors, &to, 5);
    check(&two, &vectors, &to, 5);
    postgres.until(INDEX, 1).await;
    let by_index = near(&databases[0], "alice", &to).await;
    postgres.until(IS_USED, 1).await;
    // An index finds nearly the nearest.
    let mut expected: Vec<f32> = vectors.iter().map(|of| cosine(&to, &of.vector)).collect();
    expected.sort_by(|a, b| b.total_cmp(a));
    assert_eq!(by_index.len(), 5);
    assert!(by_index.iter().all(|(_, similarity)| *similarity >= expected[20] - 1e-5), "{by_index:?}");
    assert!(by_index.is_sorted_by(|(_, one), (_, other)| one >= other), "{by_index:?}");
    for (Memory { id: found, .. }, similarity) in &by_index {
        let own = vectors.iter().find(|of| of.id == *found).unwrap();
        assert!((cosine(&to, &own.vector) - similarity).abs() < 1e-5);
    }
    // The index also has a vector that comes later.
    postgres.execute("update memories set embedded_by = null where id = 'm7'").await.unwrap();
    let new = MemoryVector { owner: alice(), id: id("m7"), version: 0, vector: to.to_vec() };
    databases[1].store.put_vectors("m", vec![new]).await.unwrap();
    assert_eq!(near(&databases[0], "alice", &to).await[0].0.id, id("m7"));
    for database in databases {
        database.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_finds_what_is_recalled_for_a_message() {
    let Some(postgres) = database().await else { return };
    let database = postgres.open().await;
    fill(&postgres, "alice", MANY, 1).await;
    // Not embedded yet, and most similar by its words.
    let new = "insert into memories (owner, id, kind, text, pinned, created_at, version)
        values ('alice', 'new', 'fact', 'Drives an old automobile.', false, 1, 0)";
    postgres.execute(new).await.unwrap();
    let parts = Arc::new(Parts);
    let limits = MemoryLimits { per_owner: 20_000, ..MemoryLimits::default() };
    let memories = MemoryService::new(
        database.store.clone(),
        parts.clone(),
        parts.clone(),
        Some(parts),
        Capacity::unlimited(),
        limits,
    );
    let recall = async || {
        let recalled = memories.recall(&alice(), "Is my automobile old?").await.unwrap();
        recalled.into_iter().map(|memory| memory.id).collect::<Vec<_>>()
    };
    let exact = recall().await;
    assert_eq!(exact.len(), 5);
    assert!(exact.contains(&id("new")), "{exact:?}");
    postgres.until(INDEX, 1).await;
    let by_index = recall().await;
    postgres.until(IS_USED, 1).await;
    assert_eq!(by_index.len(), 5);
    assert!(by_index.contains(&id("new")), "{by_index:?}");
    database.close().await;
}

#[tokio::test]
async fn memories_are_compared_once_each_without_statistics() {
    let Some(postgres) = database().await else { return };
    let database = postgres.open().await;
    let raw = postgres.raw().await;
    for table in ["memories", "memory_vectors"] {
        let keep = format!("alter table {table} set (autovacuum_enabled = off)");
        raw.batch_execute(&keep).await.unwrap();
    }
    let fill = "insert into memories (owner, id, kind, text, pinned, created_at, version, embedded_by)
         select 'alice', 'm' || n, 'fact', 'x', false, n, 0, 'm' from generate_series(1, 1000) as n;
         insert into memory_vectors (owner, memory_id, dims, vector)
         select 'alice', 'm' || n, 8, array[n, 2, 3, 4, 5, 6, 7, 8]::real[] from generate_series(1, 1000) as n";
    raw.batch_execute(fill).await.unwrap();
    assert_eq!(near(&database, "alice", &ASKED).await.len(), 5);
    database.close().await;
    // The statistics of a session are there once it has ended.
    let looked_up = "select (sum(idx_tup_fetch) between 1000 and 5000)::int::bigint from pg_stat_user_tables
        where relname = 'memory_vectors'";
    postgres.until(looked_up, 1).await;
    raw.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_vectors_of_others_hide_none() {
    let Some(postgres) = database().await else { return };
    let database = postgres.open().await;
    fill(&postgres, "alice", MANY, -9).await;
    // Nearer to what is looked for than all of alice's, and more than an index looks at.
    fill(&postgres, "bob", 25_000, 9).await;
    let to = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let before = near(&database, "alice", &to).await;
    postgres.until(INDEX, 1).await;
    assert_eq!(near(&database, "alice", &to).await, before);
    check(&before, &vectors(&postgres, "alice").await, &to, 5);
    database.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_was_not_finished_is_built_anew() {
    let Some(postgres) = database().await else { return };
    let database = postgres.open().await;
    fill(&postgres, "alice", MANY, 1).await;
    fill(&postgres, "bob", 1, 1).await;
    // The index cannot be built, and what was built of it stays.
    let break_one = "update memory_vectors set vector[1] = 'NaN' where owner = 'bob'";
    postgres.execute(break_one).await.unwrap();
    let to = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let vectors = vectors(&postgres, "alice").await;
    check(&near(&database, "alice", &to).await, &vectors, &to, 5);
    let leftover = "select count(*) from pg_index join pg_class on pg_class.oid = indexrelid
        where relname = 'memory_vectors_hnsw_8' and not indisvalid
        and not exists (select 1 from pg_locks where locktype = 'advisory' and objid = 8)";
    postgres.until(leftover, 1).await;
    check(&near(&database, "alice", &to).await, &vectors, &to, 5);
    database.close().await;
    postgres.execute("update memory_vectors set vector[1] = 1 where owner = 'bob'").await.unwrap();
    let database = postgres.open().await;
    check(&near(&database, "alice", &to).await, &vectors, &to, 5);
    postgres.until(INDEX, 1).await;
    postgres.until(leftover, 0).await;
    database.close().await;
}
