//! The instances that are alive, as PostgreSQL sees them.
//!
//! Each instance has a session of its own that holds an advisory lock. The server frees the lock when the process ends, so the others
//! need not wait for the lease. The lease is for instances that are paused or cut off, whose session lives on.
//!
//! Invariants: a lock is held before its number is in the row, so a row whose lock is free belongs to an instance that has ended or has
//! lost its session; a row is removed only if it is still as it was when its instance was found dead. While a query is under way, its session
//! is not in the map, so the session is dropped if the query is given up.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use fermata_engine::store::{InstanceId, Joined, LEASE, Renewed, StoreError};
use jiff::Timestamp;
use sqlx::{Connection as _, PgConnection, postgres::PgConnectOptions};

use super::within;
use crate::{
    column::read_time,
    connection::Connection,
    error::{Fault, failed},
    queries::{clock_marks, instances},
    text::{Text, text},
};

/// The first key of our advisory locks; the second is the session's number.
const LOCKS: i32 = 0x4665_726d;

/// The time that a heartbeat may take. One that takes longer is as bad as none.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(5);

/// The sessions of the instances of this process.
pub struct Sessions {
    options: PgConnectOptions,
    // The lock is held to take a session out or to put it back, never across an await.
    open: Mutex<HashMap<InstanceId, Session>>,
}

struct Session {
    connection: PgConnection,
    /// The second key of the session's advisory lock.
    number: i32,
    /// The time before which this session removes no other instance.
    reaps_from: Option<Instant>,
}

/// The row of an instance that may be dead: its id, session and last heartbeat.
type Expired = (Text, i64, i64);

// === impl Sessions ===

impl Sessions {
    pub fn new(options: PgConnectOptions) -> Self {
        Self { options, open: Mutex::default() }
    }

    /// Opens the instance's session, notes it, and removes the instances that have ended.
    pub async fn join(&self, instance: &InstanceId) -> Result<Joined, Fault> {
        let joining = async {
            let mut session = Session::open(&self.options, None).await?;
            let mark = clock_marks::find(&mut Connection::Postgres(&mut session.connection)).await?;
            let renewed = session.heartbeat(instance).await?;
            Ok((session, Joined { now: renewed.now, mark }))
        };
        let (session, joined) = within(HEARTBEAT_TIMEOUT, joining).await?;
        self.lock().insert(instance.clone(), session);
        Ok(joined)
    }

    /// Renews the instance's lease, in a new session if the one it had is gone.
    pub async fn heartbeat(&self, instance: &InstanceId) -> Result<Renewed, Fault> {
        let known = self.lock().remove(instance);
        let renewing = async {
            if let Some(mut session) = known {
                match session.heartbeat(instance).await {
                    Err(Fault::Store(StoreError::Unavailable(_))) => {}
                    renewed => return Ok((session, renewed)),
                }
            }
            // The outage that cut off this instance may have cut off the others, too, and they are about to come back.
            let mut session = Session::open(&self.options, Some(Instant::now() + LEASE)).await?;
            let renewed = session.heartbeat(instance).await;
            Ok((session, renewed))
        };
        let (session, renewed) = within(HEARTBEAT_TIMEOUT, renewing).await?;
        self.lock().insert(instance.clone(), session);
        renewed
    }

    /// Ends the instance's session.
    pub async fn end(&self, instance: &InstanceId) {
        let session = self.lock().remove(instance);
        if let Some(session) = session {
            // If the server cannot be told, it finds out by itself.
            let _ = session.connection.close().await;
        }
    }

    /// Ends all sessions.
    pub async fn close(&self) {
        let all: Vec<InstanceId> = self.lock().keys().cloned().collect();
        for instance in &all {
            self.end(instance).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<InstanceId, Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Session ===

impl Session {
    /// Opens a session that holds a lock which no other session has.
    async fn open(options: &PgConnectOptions, reaps_from: Option<Instant>) -> Result<Self, Fault> {
        let mut connection = PgConnection::connect_with(options).await.map_err(failed)?;
        loop {
            let number: Option<i32> = sqlx::query_scalar(
                "select number from (select (random() * 2147483647)::int as number offset 0) as draw
                 where pg_try_advisory_lock($1, number)",
            )
            .bind(LOCKS)
            .fetch_optional(&mut connection)
            .await
            .map_err(failed)?;
            if let Some(number) = number {
                return Ok(Self { connection, number, reaps_from });
            }
        }
    }

    async fn heartbeat(&mut self, instance: &InstanceId) -> Result<Renewed, Fault> {
        let (was_dead, now) = self.renew(instance).await?;
        if self.reaps_from.is_none_or(|from| from <= Instant::now()) {
            self.reaps_from = None;
            self.reap(instance).await?;
        }
        Ok(Renewed {
            was_dead,
            alive: instances::alive(&mut Connection::Postgres(&mut self.connection)).await?,
            now: Some(now),
        })
    }

    /// Notes that the instance is alive, and its session. Returns true if its row was not there, and the time by the server's clock.
    async fn renew(&mut self, instance: &InstanceId) -> Result<(bool, Timestamp), Fault> {
        let renewed: Option<i64> = sqlx::query_scalar(
            "update instances set session = $2, beat_at = (extract(epoch from clock_timestamp()) * 1000000)::bigint
             where id = $1
             returning beat_at",
        )
        .bind(text(instance.as_str()))
        .bind(i64::from(self.number))
        .fetch_optional(&mut self.connection)
        .await
        .map_err(failed)?;
        if let Some(now) = renewed {
            return Ok((false, read_time(now)?));
        }
        let now: i64 = sqlx::query_scalar(
            "insert into instances (id, session, joined_at, beat_at)
             select $1, $2, now.at, now.at
             from (select (extract(epoch from clock_timestamp()) * 1000000)::bigint as at offset 0) as now
             on conflict (id) do update set session = excluded.session, beat_at = excluded.beat_at
             returning beat_at",
        )
        .bind(text(instance.as_str()))
        .bind(i64::from(self.number))
        .fetch_one(&mut self.connection)
        .await
        .map_err(failed)?;
        Ok((true, read_time(now)?))
    }

    /// Removes the other instances that are dead: their last heartbeat is older than a lease, or their lock is free. Their locks on
    /// resources go with their rows.
    async fn reap(&mut self, instance: &InstanceId) -> Result<(), Fault> {
        let expired: Vec<Expired> = sqlx::query_as(
            "select id, session, beat_at from instances
             where id <> $1 and (
                beat_at < (extract(epoch from clock_timestamp()) * 1000000)::bigint - $2
                or not exists (
                    select 1 from pg_locks
                    where locktype = 'advisory' and granted and objsubid = 2
                        and database = (select oid from pg_database where datname = current_database())
                        and classid::bigint = $3 and objid::bigint = instances.session
                )
             )",
        )
        .bind(text(instance.as_str()))
        .bind(i64::try_from(LEASE.as_micros()).unwrap_or(i64::MAX))
        .bind(i64::from(LOCKS))
        .fetch_all(&mut self.connection)
        .await
        .map_err(failed)?;
        for (id, session, beat_at) in expired {
            // A row that was renewed meanwhile stays.
            sqlx::query("delete from instances where id = $1 and session = $2 and beat_at = $3")
                .bind(id)
                .bind(session)
                .bind(beat_at)
                .execute(&mut self.connection)
                .await
                .map_err(failed)?;
        }
        Ok(())
    }
}
