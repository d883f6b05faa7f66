//! Opens a PostgreSQL database: sets up its sessions, checks its version and applies its migrations.
//!
//! Invariant: no transaction outlives a client that is gone, paused or cut off for long, because no other instance could
//! write to the chat that it has locked. The server enforces the limits.

use std::{str::FromStr, sync::Arc, time::Duration};

use sqlx::{
    Connection as _, PgConnection,
    migrate::{MigrateError, Migrator},
    postgres::PgConnectOptions,
};

use super::{
    PostgresDatabase,
    connect::Connector,
    pgvector::{self, Pgvector},
    pool::Pool,
    sessions::Sessions,
};
use crate::{
    Migrated, OpenError, OpenOptions,
    migrations::POSTGRES,
    schema::{self, FLOOR, Schema, SchemaError},
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
const OLDEST: u32 = 150_000;

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

/// Opens the database that the URL names, and brings it up to date if the options ask for it.
pub async fn open(url: &str, options: &OpenOptions) -> Result<PostgresDatabase, OpenError> {
    let connect = parse(url)?;
    let Found { pgvector, loses_commits, .. } = bring_up(&connect, &POSTGRES, options.migrate).await?;
    let mut connect = with_limits(connect);
    if loses_commits {
        let (name, value) = DURABLE;
        if connect.get_options().is_some_and(|given| given.contains(name)) {
            tracing::warn!(
                "synchronous_commit is off in DATABASE_URL: if the database's server fails, it loses what it has confirmed, and a tool may run \
                 again"
            );
        } else {
            tracing::warn!(
                "synchronous_commit is off in this database; Fermata turns it on in its own sessions, because it must not lose what was confirmed"
            );
            connect = connect.options([(name, value)]);
        }
    }
    let connector =
        Connector::new(&connect).map_err(|reason| OpenError::Failed { database: name(&connect), reason })?;
    Ok(PostgresDatabase {
        pool: Pool::new(connector.clone(), options.connections),
        sessions: Arc::new(Sessions::new(connector)),
        pgvector: pgvector.map(Arc::new),
    })
}

/// Brings the database up to date.
pub async fn migrate(url: &str) -> Result<Migrated, OpenError> {
    Ok(bring_up(&parse(url)?, &POSTGRES, true).await?.migrated)
}

/// The setting without which a server that fails loses what it has confirmed.
const DURABLE: (&str, &str) = ("synchronous_commit", "on");

/// A database that was brought up to date.
struct Found {
    migrated: Migrated,
    pgvector: Option<Pgvector>,
    /// `true` if the server confirms commits before they are on its disk.
    loses_commits: bool,
}

fn parse(url: &str) -> Result<PgConnectOptions, OpenError> {
    let options = PgConnectOptions::from_str(url).map_err(|error| OpenError::BadUrl(error.to_string()))?;
    // Otherwise every start would log that tables are there already.
    Ok(options.application_name("fermata").options([("client_min_messages", "warning")]))
}

fn with_limits(options: PgConnectOptions) -> PgConnectOptions {
    let given = options.get_options().unwrap_or_default().to_owned();
    options.options(SESSION.into_iter().filter(|(name, _)| !given.contains(name)))
}

/// Migrates the database, or checks that nothing is missing, and looks what it can do, in a session without limits, because a migration may take
/// long.
async fn bring_up(
    options: &PgConnectOptions,
    migrations: &Migrator,
    migrate: bool,
) -> Result<Found, OpenError> {
    let mut attempts = 0;
    let (mut connection, done) = loop {
        let mut connection = connect(options).await?;
        if let Some(version) = connection.server_version_num()
            && version < OLDEST
        {
            return Err(OpenError::TooOld { server: server(options), version: version / 10_000 });
        }
        let done = if migrate {
            schema::migrate(&mut connection, migrations).await
        } else {
            schema::check(&mut connection, migrations).await.map(|()| Migrated { applied: Vec::new() })
        };
        attempts += 1;
        if attempts == LOCK_ATTEMPTS || !done.as_ref().is_err_and(is_locked) {
            break (connection, done);
        }
        tracing::warn!(
            "a table is in use by a long query, so a migration that would make others wait is tried again"
        );
        tokio::time::sleep(LOCK_PAUSE).await;
    };
    let database = name(options);
    let migrated = done.map_err(|error| match error {
        SchemaError::Newer(migration) => OpenError::Newer { database, migration },
        SchemaError::Behind => OpenError::Behind { database },
        SchemaError::Unreleased => OpenError::Unreleased { database },
        SchemaError::Failed(MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) => {
            refused(options, &error)
        }
        SchemaError::Failed(other) => OpenError::Failed { database, reason: other.to_string() },
    })?;
    let pgvector = pgvector::find(&mut connection, options, migrate).await;
    let pgvector = pgvector.map_err(|error| refused(options, &error))?;
    let durability: Result<String, _> =
        sqlx::query_scalar("show synchronous_commit").fetch_one(&mut connection).await;
    let loses_commits = durability.map_err(|error| refused(options, &error))? == "off";
    // The work of this connection is done, so an error at its end does not matter.
    let _ = connection.close().await;
    Ok(Found { migrated, pgvector, loses_commits })
}

async fn connect(options: &PgConnectOptions) -> Result<PgConnection, OpenError> {
    let connecting = tokio::time::timeout(CONNECT, PgConnection::connect_with(options)).await;
    let connection = connecting.unwrap_or_else(|_| Err(sqlx::Error::PoolTimedOut));
    connection.map_err(|error| refused(options, &error))
}

/// Returns `true` if a migration has waited as long for a table as it may.
fn is_locked(fault: &SchemaError) -> bool {
    let code = fault.query_error().and_then(|error| error.as_database_error()?.code());
    // lock_not_available.
    code.as_deref() == Some("55P03")
}

/// Classifies an error by PostgreSQL's table of error codes.
fn refused(options: &PgConnectOptions, error: &sqlx::Error) -> OpenError {
    let (server, user) = (server(options), options.get_username().to_owned());
    // The server's messages may have several lines.
    let reason = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    let code = error.as_database_error().and_then(|error| error.code());
    match (code.as_deref(), error) {
        (Some("28000" | "28P01"), _) => OpenError::NotLetIn { server, user, reason },
        (Some("3D000"), _) => OpenError::NoDatabase { server, name: name(options) },
        (Some("42501"), _) => OpenError::NotPermitted { database: name(options), user, reason },
        (Some("57P03"), _) | (None, sqlx::Error::Io(_) | sqlx::Error::Tls(_)) => {
            OpenError::Unreachable { server, reason }
        }
        (None, sqlx::Error::PoolTimedOut) => {
            OpenError::Unreachable { server, reason: format!("no answer within {} s", CONNECT.as_secs()) }
        }
        (_, _) => OpenError::Failed { database: name(options), reason },
    }
}

fn server(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}

/// The name of the database, which is the user's name if the URL gives none.
fn name(options: &PgConnectOptions) -> String {
    options.get_database().unwrap_or(options.get_username()).to_owned()
}

/// Returns the name of the index that a migration builds `concurrently`, if it builds one.
fn index_of(migration: &str) -> Option<&str> {
    let (_, name) = migration.split_once("create index concurrently if not exists ")?;
    name.split_whitespace().next()
}

// === impl PgConnection ===

impl Schema for PgConnection {
    async fn has_table(&mut self, name: &'static str) -> Result<bool, sqlx::Error> {
        sqlx::query_scalar("select to_regclass($1) is not null").bind(name).fetch_one(self).await
    }

    async fn wait_for_turn(&mut self, migrations: &Migrator) -> Result<(), sqlx::Error> {
        // The lock is freed with the session.
        let take = "select pg_try_advisory_lock($1)";
        while !sqlx::query_scalar::<_, bool>(take).bind(MIGRATING).fetch_one(&mut *self).await? {
            tokio::time::sleep(TURN).await;
        }
        // If a process was stopped while it built an index `concurrently`, that index is invalid, and has the name of the one to be built.
        let names: Vec<&str> =
            migrations.iter().filter_map(|migration| index_of(migration.sql.as_str())).collect();
        let halves: Vec<String> = sqlx::query_scalar(
            "select format('drop index concurrently if exists %I.%I', pg_namespace.nspname, pg_class.relname)
             from pg_index
                join pg_class on pg_class.oid = pg_index.indexrelid
                join pg_namespace on pg_namespace.oid = pg_class.relnamespace
             where not pg_index.indisvalid and pg_namespace.nspname = current_schema()
                and pg_class.relname = any($1)",
        )
        .bind(names)
        .fetch_all(&mut *self)
        .await?;
        for drop_half in halves {
            // PostgreSQL itself has quoted the names.
            sqlx::raw_sql(sqlx::AssertSqlSafe(drop_half)).execute(&mut *self).await?;
        }
        Ok(())
    }

    async fn floor(&mut self) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar(FLOOR).fetch_one(self).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrations::with_later;

    #[test]
    fn a_session_has_its_limits_unless_the_url_says_otherwise() {
        let plain = with_limits(parse("postgres://u@h/d").unwrap());
        assert!(plain.get_options().unwrap().contains("-c idle_in_transaction_session_timeout=5s"));
        let own = parse("postgres://u@h/d?options=-c%20statement_timeout=1h").unwrap();
        let own = with_limits(own);
        let given = own.get_options().unwrap();
        assert!(
            given.contains("statement_timeout=1h") && !given.contains("statement_timeout=10s"),
            "{given}"
        );
        assert!(given.contains("lock_timeout=8s"), "{given}");
    }

    const EXPAND: (&str, &str) =
        ("0002_expand", "set local lock_timeout = '100ms'; alter table chats add column mood text;");
    const INDEX: (&str, &str) = (
        "0003_index",
        "-- no-transaction\ncreate index concurrently if not exists chats_by_mood on chats (mood)",
    );
    const CONTRACT: (&str, &str) =
        ("0004_contract", "alter table chats drop column mood; update schema_floor set migration = 4;");

    /// The story of two releases: while a long query reads a table, and after a process was stopped that built an index.
    #[tokio::test]
    async fn a_database_is_upgraded_and_read_by_the_version_before_until_the_floor_is_raised() {
        let Ok(url) = std::env::var("FERMATA_TEST_POSTGRES_URL") else { return };
        let schema = format!("fermata_upgrade_{}", std::process::id());
        let mut raw = PgConnection::connect(&url).await.unwrap();
        let execute = async |connection: &mut PgConnection, statement: &str| {
            sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(connection).await.unwrap();
        };
        execute(&mut raw, &format!("create schema {schema}; set search_path = {schema}")).await;
        let options = parse(&url).unwrap().options([("search_path", schema.as_str())]);
        let second = with_later(&POSTGRES, &[EXPAND, INDEX]);
        let third = with_later(&POSTGRES, &[EXPAND, INDEX, CONTRACT]);
        let chat = "insert into chats (id, owner, version, profile, created_at, updated_at)
                    values ('a', 'alice', 1, '7', 1, 1)";

        let first = bring_up(&options, &POSTGRES, true).await.unwrap();
        assert_eq!(first.migrated.applied, ["0001 init"]);
        execute(&mut raw, chat).await;
        let behind = bring_up(&options, &second, false).await.err();
        assert!(matches!(behind, Some(OpenError::Behind { .. })), "{behind:?}");

        // The table is in use, so the migration gives up and is tried again.
        execute(&mut raw, "begin; select count(*) from chats").await;
        let end_query = async {
            let waits = "select count(*) from pg_locks where not granted and relation = to_regclass('chats')";
            while sqlx::query_scalar::<_, i64>(waits).fetch_one(&mut raw).await.unwrap() == 0 {}
            execute(&mut raw, "commit").await;
        };
        let (upgraded, ()) = tokio::join!(bring_up(&options, &second, true), end_query);
        assert_eq!(upgraded.unwrap().migrated.applied, ["0002 expand", "0003 index"]);
        let half = "update pg_index set indisvalid = false where indexrelid = to_regclass('chats_by_mood');
                    delete from _sqlx_migrations where version = 3";
        execute(&mut raw, half).await;
        assert_eq!(bring_up(&options, &second, true).await.unwrap().migrated.applied, ["0003 index"]);
        let valid = "select indisvalid from pg_index where indexrelid = to_regclass('chats_by_mood')";
        assert!(sqlx::query_scalar::<_, bool>(valid).fetch_one(&mut raw).await.unwrap());

        assert_eq!(bring_up(&options, &POSTGRES, true).await.unwrap().migrated.applied, [""; 0]);
        execute(&mut raw, &chat.replace("'a'", "'b'")).await;
        bring_up(&options, &third, true).await.unwrap();
        for older in [&*POSTGRES, &second] {
            for migrate in [false, true] {
                let refused = bring_up(&options, older, migrate).await.err();
                assert!(matches!(refused, Some(OpenError::Newer { migration: 4, .. })), "{refused:?}");
            }
        }
        bring_up(&options, &third, false).await.unwrap();
        let count = "select count(*) from chats";
        assert_eq!(sqlx::query_scalar::<_, i64>(count).fetch_one(&mut raw).await.unwrap(), 2);
        execute(&mut raw, &format!("drop schema {schema} cascade")).await;
    }
}
