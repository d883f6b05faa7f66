//! The instances that are alive, as PostgreSQL sees them.
//!
//! Each instance has a session of its own that holds an advisory lock. The server frees the lock when the process ends, so the others
//! need not wait for the lease. The lease is for instances that are paused or cut off, whose session lives on.
//!
//! A lock that is free is no proof: a session may have been ended by itself, or with all others when the server was started again. So an
//! instance is dead only if its process is gone, which only another one on its machine can see, or if it has not been heard of for longer
//! than a living one needs to come back. And what an instance has not seen it does not judge: one that joins, that has lost its session, or
//! whose own heartbeat was late, because it, the server or the network stood still, waits until the others had the time to be heard of.
//!
//! Invariants: a lock is held before its number is in the row; a row is removed only if it is still as it was when its instance was found
//! dead; a session is kept while a query is under way in it, however long that takes within a lease.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use fermata_engine::{
    store::{InstanceId, Joined, LEASE, Renewed, StoreError},
    version,
};
use tokio::task::AbortHandle;

use super::{connect::Connector, process::Process, within};
use crate::{
    SharedClock,
    column::read_time,
    connection::{
        Connection,
        pipeline::{Client, Pipeline},
        row,
    },
    error::{Fault, describe},
    queries::{clock_marks, instances},
    text::{Text, text},
};

/// The first key of our advisory locks; the second is the session's number.
const LOCKS: i32 = 0x4665_726d;

/// The time that a heartbeat may take before another session is tried. A connection may have been forgotten by what it leads through, so
/// this, twice the interval of heartbeats and a new connection fit into a lease.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(3);

/// An instance whose lock is free is dead after this time without a heartbeat. An instance that has lost its session and nothing else
/// is heard of sooner: it sends a heartbeat every two seconds.
const SILENCE: Duration = Duration::from_secs(5);

/// The sessions of the instances of this process.
pub struct Sessions {
    connector: Connector,
    /// Told of the server's time with each heartbeat.
    pub clock: SharedClock,
    members: Arc<Mutex<HashMap<InstanceId, Member>>>,
}

/// An instance of this process.
#[derive(Default)]
struct Member {
    /// Its session, unless a heartbeat has it.
    session: Option<Session>,
    seen: Seen,
    /// The heartbeats that are under way.
    heartbeats: Vec<AbortHandle>,
}

struct Session {
    pipeline: Pipeline,
    /// The second key of the session's advisory lock.
    number: i32,
    /// `true` once the number is in the instance's row.
    is_noted: bool,
}

/// The facts that an instance has seen in its last heartbeats.
#[derive(Clone, Default)]
struct Seen {
    /// As in [`Renewed`], until a heartbeat has reported it: one that is given up goes on and learns it as well.
    was_dead: bool,
    has_failed_over: bool,
    /// The time of its last heartbeat, by the server's clock, in microseconds.
    beat_at: Option<i64>,
    /// The time before which it takes no other instance for dead because that is silent.
    reaps_from: Option<Instant>,
    /// The timeline of the server: another one is a standby that was promoted, or a backup.
    timeline: Option<String>,
}

row! {
    /// The row of another instance.
    struct Other {
        id: Text,
        session: i64,
        process: Option<String>,
        /// The time of its last heartbeat, in microseconds.
        heard_of: i64,
        /// The time since then, in microseconds.
        silent_for: i64,
        /// `true` if it was heard of since this instance has joined.
        is_heard: bool,
    }
}

// === impl Sessions ===

impl Sessions {
    pub fn new(connector: Connector) -> Self {
        Self { connector, clock: SharedClock::default(), members: Arc::default() }
    }

    /// Opens the instance's session and notes it.
    pub async fn join(&self, instance: &InstanceId) -> Result<Joined, Fault> {
        let joining = async {
            let mut session = Session::open(&self.connector).await?;
            let mark = clock_marks::find(&mut session.connection()).await?;
            let mut seen = Seen::default();
            seen.forbear(SILENCE);
            let renewed = session.heartbeat(instance, &mut seen).await?;
            // It was not there before, or its process starts again.
            seen.was_dead = false;
            Ok((Member { session: Some(session), seen, heartbeats: Vec::new() }, renewed.now, mark))
        };
        let (member, now, mark) = within(HEARTBEAT_TIMEOUT, joining).await?;
        if let Some(now) = member.seen.beat_at {
            self.clock.note(now);
        }
        lock(&self.members).insert(instance.clone(), member);
        Ok(Joined { now, mark })
    }

    /// Renews the instance's lease, in a new session if the one it had is gone or does not answer.
    pub async fn heartbeat(&self, instance: &InstanceId) -> Result<Renewed, Fault> {
        let (members, connector, id) = (self.members.clone(), self.connector.clone(), instance.clone());
        let clock = self.clock.clone();
        let (known, mut seen) = {
            let mut members = lock(&self.members);
            let member = members.entry(instance.clone()).or_default();
            (member.session.take(), member.seen.clone())
        };
        let renewing = async move {
            let mut session = known;
            let mut renewed = match &mut session {
                Some(known) => known.heartbeat(&id, &mut seen).await,
                None => Err(StoreError::Unavailable("the session has ended".into()).into()),
            };
            if renewed.is_err() {
                // The cause that ended this session may have ended those of the others, and they are about to come back.
                seen.forbear(LEASE);
                session = None;
                renewed = match Session::open(&connector).await {
                    Ok(opened) => session.insert(opened).heartbeat(&id, &mut seen).await,
                    Err(fault) => Err(fault),
                };
            }
            if let (Ok(_), Some(now)) = (&renewed, seen.beat_at) {
                clock.note(now);
            }
            if let Some(member) = lock(&members).get_mut(&id) {
                // A later heartbeat may have opened another session meanwhile, which counts.
                if member.session.is_none() {
                    member.session = session;
                }
                member.seen = seen.with(&member.seen);
            }
            renewed
        };
        // The server may stand still with everything else. Then it answers in this session first when it goes on, so the session is kept,
        // and with it the lock, even if this heartbeat is given up.
        let task = tokio::spawn(within(LEASE, renewing));
        if let Some(member) = lock(&self.members).get_mut(instance) {
            member.heartbeats.retain(|heartbeat| !heartbeat.is_finished());
            member.heartbeats.push(task.abort_handle());
        }
        let renewed = async {
            task.await.unwrap_or_else(|error| {
                Err(StoreError::Unavailable(format!("the heartbeat failed: {error}")).into())
            })
        };
        let renewed = within(HEARTBEAT_TIMEOUT, renewed).await?;
        if let Some(member) = lock(&self.members).get_mut(instance) {
            // What a late heartbeat has learned meanwhile is for the next one to tell.
            member.seen.was_dead &= !renewed.was_dead;
            member.seen.has_failed_over &= !renewed.has_failed_over;
        }
        Ok(renewed)
    }

    /// Ends the instance's session. The server sees the end of its connection.
    pub fn end(&self, instance: &InstanceId) {
        if let Some(member) = lock(&self.members).remove(instance) {
            member.end();
        }
    }

    /// Ends all sessions.
    pub fn close(&self) {
        for (_, member) in lock(&self.members).drain() {
            member.end();
        }
    }
}

// === impl Member ===

impl Member {
    fn end(self) {
        for heartbeat in self.heartbeats {
            heartbeat.abort();
        }
    }
}

/// Held to look at a member or to change it, never across an await.
fn lock(members: &Mutex<HashMap<InstanceId, Member>>) -> MutexGuard<'_, HashMap<InstanceId, Member>> {
    members.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Seen ===

impl Seen {
    /// Returns this with what another heartbeat has seen, which may have been later.
    fn with(self, other: &Self) -> Self {
        Self {
            was_dead: self.was_dead || other.was_dead,
            has_failed_over: self.has_failed_over || other.has_failed_over,
            reaps_from: self.reaps_from.max(other.reaps_from),
            ..self
        }
    }

    /// Takes no other instance for dead because of its silence for this time.
    fn forbear(&mut self, time: Duration) {
        let from = Instant::now() + time;
        self.reaps_from = self.reaps_from.max(Some(from));
    }

    /// Notes a heartbeat of this instance. If it comes late, this instance, the server or the network stood still, or the server's clock
    /// was set; the heartbeats of others may be late for the same reason.
    fn note_heartbeat(&mut self, beat_at: i64) {
        let since_last =
            self.beat_at.replace(beat_at).map(|last| Duration::from_micros(beat_at.abs_diff(last)));
        if since_last.is_some_and(|time| time >= SILENCE) {
            self.forbear(SILENCE);
        }
    }
}

// === impl Session ===

impl Session {
    /// Opens a session that holds a lock which no other session has.
    async fn open(connector: &Connector) -> Result<Self, Fault> {
        let client = connector.connect().await;
        let client = client.map_err(|error| StoreError::Unavailable(describe(&error)))?;
        let mut pipeline = Pipeline::new(Client::Own(client));
        loop {
            let number: Option<(i32,)> = Connection::Postgres(&mut pipeline)
                .query(
                    "select number from (select (random() * 2147483647)::int as number offset 0) as draw
                     where pg_try_advisory_lock($1, number)",
                )
                .bind(LOCKS)
                .fetch_optional()
                .await?;
            if let Some((number,)) = number {
                return Ok(Self { pipeline, number, is_noted: false });
            }
        }
    }

    fn connection(&mut self) -> Connection<'_> {
        Connection::Postgres(&mut self.pipeline)
    }

    async fn heartbeat(&mut self, instance: &InstanceId, seen: &mut Seen) -> Result<Renewed, Fault> {
        let (was_dead, beat_at) = self.renew(instance).await?;
        seen.was_dead |= was_dead;
        seen.note_heartbeat(beat_at);
        if let Some(timeline) = self.timeline().await {
            let before = seen.timeline.replace(timeline.clone());
            seen.has_failed_over |= before.is_some_and(|before| before != timeline);
        }
        let judges_silence = seen.reaps_from.is_none_or(|from| from <= Instant::now());
        if judges_silence {
            seen.reaps_from = None;
        }
        self.reap(instance, judges_silence).await?;
        Ok(Renewed {
            was_dead: seen.was_dead,
            has_failed_over: seen.has_failed_over,
            alive: instances::alive(&mut self.connection()).await?,
            now: Some(read_time(beat_at)?),
        })
    }

    /// Returns the timeline that the server is on; `None` if it does not tell.
    async fn timeline(&mut self) -> Option<String> {
        // The first eight digits of the name of a file of the log are the timeline.
        let timeline: Result<(String,), _> = self
            .connection()
            .query("select substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)")
            .fetch_one()
            .await;
        timeline.ok().map(|(timeline,)| timeline)
    }

    /// Notes that the instance is alive, and its session. Returns true if its row was not there, and the time by the server's clock, in
    /// microseconds, when that was done: the server may have stood still since the request.
    async fn renew(&mut self, instance: &InstanceId) -> Result<(bool, i64), Fault> {
        let mut was_dead = false;
        if !self.is_noted {
            was_dead = self.note(instance).await?;
            self.is_noted = true;
        }
        if let Some(now) = self.beat(instance).await? {
            return Ok((was_dead, now));
        }
        self.note(instance).await?;
        match self.beat(instance).await? {
            Some(now) => Ok((true, now)),
            None => {
                let reason = format!("another instance has removed {instance} just now");
                Err(StoreError::Unavailable(reason).into())
            }
        }
    }

    /// Notes the instance and its session. Returns true if its row was not there.
    async fn note(&mut self, instance: &InstanceId) -> Result<bool, Fault> {
        let number = i64::from(self.number);
        let (added,): (bool,) = self
            .connection()
            .query(
                "insert into instances (id, session, joined_at, process, version)
                 values ($1, $2, (extract(epoch from clock_timestamp()) * 1000000)::bigint, $3, $4)
                 on conflict (id) do update set session = excluded.session, process = excluded.process
                 returning xmax = 0",
            )
            .bind(text(instance.as_str()))
            .bind(number)
            .bind(Process::current().map(|process| process.to_string()))
            .bind(version())
            .fetch_one()
            .await?;
        Ok(added)
    }

    /// Notes that the instance is heard of. Returns the time by the server's clock, in microseconds; `None` if the instance is not noted.
    async fn beat(&mut self, instance: &InstanceId) -> Result<Option<i64>, Fault> {
        let now: Option<(i64,)> = self
            .connection()
            .query(
                "insert into heartbeats (instance, beat_at)
                 select id, (extract(epoch from clock_timestamp()) * 1000000)::bigint from instances where id = $1
                 on conflict (instance) do update set beat_at = excluded.beat_at
                 returning (extract(epoch from clock_timestamp()) * 1000000)::bigint",
            )
            .bind(text(instance.as_str()))
            .fetch_optional()
            .await?;
        Ok(now.map(|(now,)| now))
    }

    /// Removes the other instances that are dead. Their lock is free, and their process is gone, or ran in the container of this one before
    /// that was started again. Or, if this instance judges silence, their last heartbeat is older than a lease, or their lock is free and
    /// they are silent. Their locks on resources go with their rows.
    async fn reap(&mut self, instance: &InstanceId, judges_silence: bool) -> Result<(), Fault> {
        let others: Vec<Other> = self
            .connection()
            .query(
                "select id, session, process, heard_of,
                    (extract(epoch from clock_timestamp()) * 1000000)::bigint - heard_of as silent_for,
                    heard_of >= (select joined_at from instances where id = $1) as is_heard
                 from (
                    select instances.id, session, process, coalesce(heartbeats.beat_at, joined_at) as heard_of
                    from instances left join heartbeats on heartbeats.instance = instances.id
                 ) as others
                 where id <> $1",
            )
            .bind(text(instance.as_str()))
            .fetch_all()
            .await?;
        for Other { id, session, process, heard_of, silent_for, is_heard } in others {
            let silent_for = Duration::from_micros(u64::try_from(silent_for).unwrap_or_default());
            let is_dead = judges_silence && silent_for > LEASE;
            let is_dead_without_lock = judges_silence && silent_for > SILENCE
                || process
                    .and_then(|process| process.parse::<Process>().ok())
                    .is_some_and(|it| it.is_gone() || !is_heard && it.ran_in_this_container());
            if !is_dead && !is_dead_without_lock {
                continue;
            }
            // An instance that was heard of meanwhile stays.
            let removed: Option<(Text, String)> = self
                .connection()
                .query(
                    "delete from instances where id = $1 and session = $2
                     and $3 = coalesce((select beat_at from heartbeats where instance = $1), joined_at)
                     and ($4 or not exists (
                        select 1 from pg_locks
                        where locktype = 'advisory' and granted and objsubid = 2
                            and database = (select oid from pg_database where datname = current_database())
                            and classid::bigint = $5 and objid::bigint = $2
                     ))
                     returning id, version",
                )
                .bind(id)
                .bind(session)
                .bind(heard_of)
                .bind(is_dead)
                .bind(i64::from(LOCKS))
                .fetch_optional()
                .await?;
            if let Some((Text(gone), version)) = removed {
                tracing::info!(%instance, %gone, version, ?silent_for, "another instance is gone; its runs are resumed by those that are left");
            }
        }
        Ok(())
    }
}
