//! Databases and schemas in a PostgreSQL server, each for one test, which are dropped with it.
//!
//! `FERMATA_TEST_POSTGRES_URL` names a server and a user who may create databases. If none can be reached, the tests of PostgreSQL are
//! skipped, unless `FERMATA_REQUIRE_SERVICES=1` is set.

use std::{
    io::Write,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use fermata_store::{Database, OpenOptions};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::sync::OnceCell;

const LOCAL: &str = "postgres://postgres@127.0.0.1:5432/postgres";

/// Data lost in a power cut is no loss to a test.
const FAST: &str = "-c%20synchronous_commit%3Doff";

/// A database, or a schema in one, that only one test uses.
pub struct TestDatabase {
    /// The URL that opens a store.
    pub url: String,
    /// The statement that drops the database.
    drop: String,
}

/// The server's URL up to the database, and what stands behind it.
fn server() -> (String, String) {
    let url = std::env::var("FERMATA_TEST_POSTGRES_URL").unwrap_or_else(|_| LOCAL.into());
    let (base, parameters) = url.split_once('?').unwrap_or((&url, ""));
    let (base, database) = base.rsplit_once('/').unwrap();
    assert!(!parameters.contains("options="), "the tests add options of their own");
    (base.to_owned(), format!("{database}?{parameters}"))
}

fn maintenance() -> String {
    let (base, rest) = server();
    format!("{base}/{rest}")
}

async fn is_there() -> bool {
    static THERE: OnceCell<bool> = OnceCell::const_new();
    let look = async || {
        let url = maintenance();
        let connecting = tokio::time::timeout(Duration::from_secs(3), PgConnection::connect(&url));
        let there = matches!(connecting.await, Ok(Ok(_)));
        if !there {
            let required = std::env::var("FERMATA_REQUIRE_SERVICES").is_ok_and(|value| value == "1");
            assert!(!required, "PostgreSQL cannot be reached, see FERMATA_TEST_POSTGRES_URL");
            // Past the test's own output, which nobody sees when it passes.
            let _ = writeln!(
                std::io::stderr(),
                "PostgreSQL cannot be reached: its tests are skipped (FERMATA_TEST_POSTGRES_URL)"
            );
        }
        there
    };
    *THERE.get_or_init(look).await
}

async fn execute(statement: String) {
    let mut connection = PgConnection::connect(&maintenance()).await.unwrap();
    connection.execute("set synchronous_commit = off").await.unwrap();
    connection.execute(AssertSqlSafe(statement)).await.unwrap();
    connection.close().await.unwrap();
}

fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("fermata_store_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

// === impl TestDatabase ===

impl TestDatabase {
    /// A schema, which is made in no time; `None` where there is no server.
    pub async fn schema() -> Option<Self> {
        if !is_there().await {
            return None;
        }
        let (name, (base, rest)) = (name(), server());
        execute(format!("create schema {name}")).await;
        let url = format!("{base}/{rest}&options={FAST}%20-c%20search_path%3D{name}").replace("?&", "?");
        Some(Self { url, drop: format!("drop schema {name} cascade") })
    }

    /// A database, for tests that must tell its sessions from those of others.
    pub async fn database() -> Option<Self> {
        if !is_there().await {
            return None;
        }
        let (name, (base, rest)) = (name(), server());
        execute(format!("create database {name}")).await;
        let parameters = rest.split_once('?').map_or("", |(_, parameters)| parameters);
        let url = format!("{base}/{name}?{parameters}&options={FAST}").replace("?&", "?");
        Some(Self { url, drop: format!("drop database {name} with (force)") })
    }

    pub async fn open(&self) -> Database {
        self.open_with(4).await
    }

    pub async fn open_with(&self, connections: u32) -> Database {
        fermata_store::open(&self.url, &OpenOptions { migrate: true, connections }).await.unwrap()
    }

    /// Opens the store as an operator does, without the option that makes tests fast.
    pub async fn open_durably(&self) -> Database {
        let url = self.url.replace(FAST, "");
        fermata_store::open(&url, &OpenOptions { migrate: true, connections: 1 }).await.unwrap()
    }

    /// A connection that knows nothing of the store.
    pub async fn raw(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.unwrap()
    }

    pub async fn execute(&self, statement: &str) -> Result<u64, String> {
        let mut connection = self.raw().await;
        let done = connection.execute(AssertSqlSafe(statement)).await;
        connection.close().await.unwrap();
        done.map(|done| done.rows_affected()).map_err(|error| error.to_string())
    }

    /// The one number that the query asks for.
    pub async fn number(&self, query: &str) -> i64 {
        let mut connection = self.raw().await;
        let number = sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        number
    }

    /// Comes back when the query, asked again and again, gives this number.
    pub async fn until(&self, query: &str, expected: i64) {
        let asking = async { while self.number(query).await != expected {} };
        tokio::time::timeout(Duration::from_secs(30), asking).await.unwrap_or_else(|_| panic!("{query}"));
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // This runs even after a panic, and regardless of the runtime of the test.
        let statement = std::mem::take(&mut self.drop);
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(execute(statement));
        });
        let _ = dropping.join();
    }
}
