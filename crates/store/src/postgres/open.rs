//! Opens a PostgreSQL database: sets up its sessions, checks its version and applies its migrations.
//!
//! Invariant: no transaction outlives a client that is gone, paused or cut off for long, because no other instance could
//! write to the chat that it has locked. The server enforces the limits.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use deadpool_postgres::ClientWrapper;
use tokio_postgres::{Client, Error, error::SqlState};

use super::{
    PostgresDatabase,
    connect::Connector,
    pgvector::{self, Pgvector},
    pool::Pool,
    sessions::Sessions,
};
use crate::{
    Migrated, OpenError, OpenOptions,
    error::describe,
    migrations::{Migration, POSTGRES},
    schema::{APPLIED, CREATE, FLOOR, FLOOR_TABLE, MIGRATIONS_TABLE, Misfit, NOTE, Schema, UNRELEASED_TABLE},
};

/// The time that the first connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// The advisory lock of the process that migrates the database, and the pause before it is asked for again.
const MIGRATING: i64 = 0x0046_6572_6d61_7461;
const TURN: Duration = Duration::from_millis(200);
/// The attempts at a migration that needs a table for itself while others use it, and the pause between them: five minutes or more.
const LOCK_ATTEMPTS: usize = 300;
const LOCK_PAUSE: Duration = Duration::from_secs(1);
/// The oldest version that can be used, in the server's notation.
const OLDEST: i32 = 150_000;

/// The settings of each session, unless the URL says otherwise. The limits for an idle transaction and for a client that cannot be reached
/// are shorter than a lease.
const SESSION: [(&str, &str); 7] = [
    ("idle_in_transaction_session_timeout", "5s"),
    ("lock_timeout", "8s"),
    ("statement_timeout", "10s"),
    ("tcp_keepalives_idle", "3"),
    ("tcp_keepalives_interval", "2"),
    ("tcp_keepalives_count", "2"),
    ("tcp_user_timeout", "7s"),
];

/// The setting without which a server that fails loses what it has confirmed.
const DURABLE: (&str, &str) = ("synchronous_commit", "on");

/// A database that was brought up to date.
struct Found {
    migrated: Migrated,
    pgvector: Option<Pgvector>,
    /// `true` if the server confirms commits before they are on its disk.
    loses_commits: bool,
}

/// The reason why migrations were not applied.
enum NotMigrated {
    /// Migrations are missing, and are not to be applied.
    Behind,
    Misfit(Misfit),
    Failed(Error),
}

/// Opens the database that the URL names, and brings it up to date if the options ask for it.
pub async fn open(url: &str, options: &OpenOptions) -> Result<PostgresDatabase, OpenError> {
    let unlimited = Connector::new(url).map_err(OpenError::BadUrl)?;
    let Found { pgvector, loses_commits, .. } = bring_up(&unlimited, POSTGRES, options.migrate).await?;
    let mut connector = unlimited.with(&SESSION);
    if loses_commits {
        if connector.options().contains(DURABLE.0) {
            tracing::warn!(
                "synchronous_commit is off in DATABASE_URL: if the database's server fails, it loses what it has confirmed, and a tool may run \
                 again"
            );
        } else {
            tracing::warn!(
                "synchronous_commit is off in this database; Fermata turns it on in its own sessions, because it must not lose what was confirmed"
            );
            connector = connector.with(&[DURABLE]);
        }
    }
    Ok(PostgresDatabase {
        pool: Pool::new(connector.clone(), options.connections),
        sessions: Arc::new(Sessions::new(connector)),
        pgvector: pgvector.map(Arc::new),
    })
}

/// Brings the database up to date.
pub async fn migrate(url: &str) -> Result<Migrated, OpenError> {
    let connector = Connector::new(url).map_err(OpenError::BadUrl)?;
    Ok(bring_up(&connector, POSTGRES, true).await?.migrated)
}

/// Migrates the database, or checks that nothing is missing, and looks what it can do, in a session without limits, because a migration may take
/// long.
async fn bring_up(connector: &Connector, known: &[Migration], migrate: bool) -> Result<Found, OpenError> {
    let failed = |error: Error| refused(connector, &error);
    let mut attempts = 0;
    let (client, done) = loop {
        let client = connect(connector).await?;
        let version = "select current_setting('server_version_num')::int";
        let version: i32 = client.query_one(version, &[]).await.map_err(failed)?.get(0);
        if version < OLDEST {
            return Err(OpenError::TooOld { server: connector.server(), version: version / 10_000 });
        }
        let done = apply(&client, known, migrate).await;
        attempts += 1;
        let is_locked = matches!(&done, Err(NotMigrated::Failed(error)) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE));
        if attempts == LOCK_ATTEMPTS || !is_locked {
            break (client, done);
        }
        tracing::warn!(
            "a table is in use by a long query, so a migration that would make others wait is tried again"
        );
        tokio::time::sleep(LOCK_PAUSE).await;
    };
    let migrated = done.map_err(|error| match error {
        NotMigrated::Behind => OpenError::Behind { database: connector.database().to_owned() },
        NotMigrated::Misfit(misfit) => misfit.of(connector.database().to_owned()),
        NotMigrated::Failed(error) => refused(connector, &error),
    })?;
    let pgvector = pgvector::find(&client, connector, migrate).await.map_err(failed)?;
    let durability = client.query_one("show synchronous_commit", &[]).await.map_err(failed)?;
    Ok(Found { migrated, pgvector, loses_commits: durability.get::<_, &str>(0) == "off" })
}

async fn connect(connector: &Connector) -> Result<ClientWrapper, OpenError> {
    let connecting = tokio::time::timeout(CONNECT, connector.connect()).await;
    let Ok(connected) = connecting else {
        let reason = format!("no answer within {} s", CONNECT.as_secs());
        return Err(OpenError::Unreachable { server: connector.server(), reason });
    };
    connected.map_err(|error| refused(connector, &error))
}

/// Applies the missing migrations, or checks that there are none. One process does it at a time. If it fails, the connection is not to be used
/// any more.
async fn apply(client: &Client, known: &[Migration], migrate: bool) -> Result<Migrated, NotMigrated> {
    let missing = look(client).await?.missing(known).map_err(NotMigrated::Misfit)?;
    // If nothing is missing, the user needs no right to change the schema.
    if missing.is_empty() {
        return Ok(Migrated::of(&missing));
    }
    if !migrate {
        return Err(NotMigrated::Behind);
    }
    wait_for_turn(client, known).await?;
    // Another process may have applied them meanwhile.
    let missing = look(client).await?.missing(known).map_err(NotMigrated::Misfit)?;
    client.batch_execute(CREATE).await?;
    for migration in &missing {
        let note =
            async || client.execute(NOTE, &[&migration.number, &migration.name, &migration.checksum()]).await;
        if migration.is_transaction() {
            client.batch_execute("begin").await?;
            client.batch_execute(migration.sql).await?;
            note().await?;
            client.batch_execute("commit").await?;
        } else {
            client.batch_execute(migration.sql).await?;
            note().await?;
        }
    }
    client.execute("select pg_advisory_unlock($1)", &[&MIGRATING]).await?;
    Ok(Migrated::of(&missing))
}

/// Looks what the schema of the database is.
async fn look(client: &Client) -> Result<Schema, Error> {
    let has_table = async |name: &str| {
        let found = client.query_one("select to_regclass($1) is not null", &[&name]).await;
        found.map(|row| row.get::<_, bool>(0))
    };
    let mut schema =
        Schema { applied: BTreeMap::new(), floor: None, is_unreleased: has_table(UNRELEASED_TABLE).await? };
    if has_table(MIGRATIONS_TABLE).await? {
        let rows = client.query(APPLIED, &[]).await?;
        schema.applied = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    }
    if has_table(FLOOR_TABLE).await? {
        schema.floor = Some(client.query_one(FLOOR, &[]).await?.get(0));
    }
    Ok(schema)
}

/// Waits until no other process migrates the database, and removes what one that was stopped has left of these migrations. A process that
/// waits must not keep a query under way, because an index that is built `concurrently` waits for the queries of all others.
async fn wait_for_turn(client: &Client, known: &[Migration]) -> Result<(), Error> {
    // The lock is freed with the session.
    let take = "select pg_try_advisory_lock($1)";
    while !client.query_one(take, &[&MIGRATING]).await?.get::<_, bool>(0) {
        tokio::time::sleep(TURN).await;
    }
    // If a process was stopped while it built an index `concurrently`, that index is invalid, and has the name of the one to be built.
    let names: Vec<&str> = known.iter().filter_map(|migration| index_of(migration.sql)).collect();
    let halves = client
        .query(
            "select format('drop index concurrently if exists %I.%I', pg_namespace.nspname, pg_class.relname)
             from pg_index
                join pg_class on pg_class.oid = pg_index.indexrelid
                join pg_namespace on pg_namespace.oid = pg_class.relnamespace
             where not pg_index.indisvalid and pg_namespace.nspname = current_schema()
                and pg_class.relname = any($1)",
            &[&names],
        )
        .await?;
    for drop_half in halves {
        client.batch_execute(drop_half.get(0)).await?;
    }
    Ok(())
}

/// Returns the name of the index that a migration builds `concurrently`, if it builds one.
fn index_of(migration: &str) -> Option<&str> {
    let (_, name) = migration.split_once("create index concurrently if not exists ")?;
    name.split_whitespace().next()
}

/// Classifies an error by PostgreSQL's table of error codes.
fn refused(connector: &Connector, error: &Error) -> OpenError {
    let (server, user) = (connector.server(), connector.user().to_owned());
    let database = connector.database().to_owned();
    // The server's messages may have several lines.
    let reason = describe(error).split_whitespace().collect::<Vec<_>>().join(" ");
    match error.code().map(SqlState::code) {
        Some("28000" | "28P01") => OpenError::NotLetIn { server, user, reason },
        Some("3D000") => OpenError::NoDatabase { server, name: database },
        Some("42501") => OpenError::NotPermitted { database, user, reason },
        Some("57P03") | None => OpenError::Unreachable { server, reason },
        Some(_) => OpenError::Failed { database, reason },
    }
}

// === impl NotMigrated ===

impl From<Error> for NotMigrated {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_its_limits_unless_the_url_says_otherwise() {
        let plain = Connector::new("postgres://u@h/d").unwrap().with(&SESSION);
        assert!(plain.options().contains("-c idle_in_transaction_session_timeout=5s"));
        let own =
            Connector::new("postgres://u@h/d?options=-c%20statement_timeout=1h").unwrap().with(&SESSION);
        let given = own.options();
        assert!(
            given.contains("statement_timeout=1h") && !given.contains("statement_timeout=10s"),
            "{given}"
        );
        assert!(given.contains("lock_timeout=8s"), "{given}");
    }

    /// The story of two releases: while a long query reads a table, and after a process was stopped that built an index.
    #[tokio::test]
    async fn a_database_is_upgraded_and_read_by_the_version_before_until_the_floor_is_raised() {
        let Ok(url) = std::env::var("FERMATA_TEST_POSTGRES_URL") else { return };
        let schema = format!("fermata_upgrade_{}", std::process::id());
        let raw = Connector::new(&url).unwrap().connect().await.unwrap();
        let execute = async |statements: &str| raw.batch_execute(statements).await.unwrap();
        execute(&format!("create schema {schema}; set search_path = {schema}")).await;
        let connector = Connector::new(&url).unwrap().with(&[("search_path", &schema)]);
        let migration = |number, name, sql| Migration { number, name, sql };
        let expand = "set local lock_timeout = '100ms'; alter table chats add column mood text;";
        let index =
            "-- no-transaction\ncreate index concurrently if not exists chats_by_mood on chats (mood)";
        let contract = "alter table chats drop column mood; update schema_floor set migration = 4;";
        let second = [POSTGRES, &[migration(2, "expand", expand), migration(3, "index", index)]].concat();
        let third = [&second[..], &[migration(4, "contract", contract)]].concat();
        let chat = "insert into chats (id, owner, version, profile, created_at, updated_at)
                    values ('a', 'alice', 1, '7', 1, 1)";

        let first = bring_up(&connector, POSTGRES, true).await.unwrap();
        assert_eq!(first.migrated.applied, ["0001 init"]);
        execute(chat).await;
        let behind = bring_up(&connector, &second, false).await.err();
        assert!(matches!(behind, Some(OpenError::Behind { .. })), "{behind:?}");

        // The table is in use, so the migration gives up and is tried again.
        execute("begin; select count(*) from chats").await;
        let end_query = async {
            let waits = "select count(*) from pg_locks where not granted and relation = to_regclass('chats')";
            while raw.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
            execute("commit").await;
        };
        let (upgraded, ()) = tokio::join!(bring_up(&connector, &second, true), end_query);
        assert_eq!(upgraded.unwrap().migrated.applied, ["0002 expand", "0003 index"]);
        let half = "update pg_index set indisvalid = false where indexrelid = to_regclass('chats_by_mood');
                    delete from schema_migrations where number = 3";
        execute(half).await;
        assert_eq!(bring_up(&connector, &second, true).await.unwrap().migrated.applied, ["0003 index"]);
        let valid = "select indisvalid from pg_index where indexrelid = to_regclass('chats_by_mood')";
        assert!(raw.query_one(valid, &[]).await.unwrap().get::<_, bool>(0));

        assert_eq!(bring_up(&connector, POSTGRES, true).await.unwrap().migrated.applied, [""; 0]);
        execute(&chat.replace("'a'", "'b'")).await;
        bring_up(&connector, &third, true).await.unwrap();
        for older in [POSTGRES, &second] {
            for migrate in [false, true] {
                let refused = bring_up(&connector, older, migrate).await.err();
                assert!(matches!(refused, Some(OpenError::Newer { migration: 4, .. })), "{refused:?}");
            }
        }
        bring_up(&connector, &third, false).await.unwrap();
        let count = raw.query_one("select count(*) from chats", &[]).await.unwrap();
        assert_eq!(count.get::<_, i64>(0), 2);
        execute(&format!("drop schema {schema} cascade")).await;
    }
}
