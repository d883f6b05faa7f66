//! Databases and schemas in a PostgreSQL server, each for one test, which are dropped with it.
//!
//! `FERMATA_TEST_POSTGRES_URL` names a server and a user who may create databases. If none can be reached, the tests of PostgreSQL are
//! skipped, unless `FERMATA_REQUIRE_SERVICES=1` is set.

use std::{
    io::Write,
    ops::Deref,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use fermata_store::{Database, OpenOptions};
use tokio::{sync::OnceCell, task::JoinHandle};
use tokio_postgres::{Client, Error, NoTls, types::FromSqlOwned};

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

/// A connection that knows nothing of the store.
pub struct Raw {
    client: Client,
    task: JoinHandle<()>,
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
        let connecting = tokio::time::timeout(Duration::from_secs(3), Raw::connect(&url));
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
    let raw = Raw::connect(&maintenance()).await.unwrap();
    raw.batch_execute("set synchronous_commit = off").await.unwrap();
    raw.batch_execute(&statement).await.unwrap();
    raw.close().await;
}

fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("fermata_store_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

// === impl Raw ===

impl Raw {
    async fn connect(url: &str) -> Result<Self, Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let task = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Self { client, task })
    }

    /// Ends the session. The server has dropped it when this comes back.
    pub async fn close(self) {
        drop(self.client);
        self.task.await.unwrap();
    }
}

impl Deref for Raw {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
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
        fermata_store::open(&self.url, &OpenOptions { migrate: true, connections, audit_key: None })
            .await
            .unwrap()
    }

    /// Opens the store as an operator does, without the option that makes tests fast.
    pub async fn open_durably(&self) -> Database {
        let url = self.url.replace(FAST, "");
        fermata_store::open(&url, &OpenOptions { migrate: true, connections: 1, audit_key: None })
            .await
            .unwrap()
    }

    pub async fn raw(&self) -> Raw {
        Raw::connect(&self.url).await.unwrap()
    }

    pub async fn execute(&self, statements: &str) -> Result<(), Error> {
        let raw = self.raw().await;
        let done = raw.batch_execute(statements).await;
        raw.close().await;
        done
    }

    /// The first column of all rows.
    pub async fn column<T: FromSqlOwned>(&self, query: &str) -> Vec<T> {
        let raw = self.raw().await;
        let rows = raw.query(query, &[]).await.unwrap();
        raw.close().await;
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// The one number that the query asks for.
    pub async fn number(&self, query: &str) -> i64 {
        self.column(query).await.pop().unwrap()
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
