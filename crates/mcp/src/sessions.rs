//! The sessions of a server. Those that serve one chat or one owner are started when a call needs them and ended when they are
//! not used for some time.
//!
//! A server that is a program has one process per session. This module does not decide which calls need such a session.
//!
//! Invariants: there are never more sessions than the settings allow, including those that are ending · a session that a call
//! uses is not ended to make room for others · no session outlives [`Sessions::close`].

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fermata_tools::CallContext;
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    server::{Scope, Server},
    session::{Connection, Session, State},
    supervisor::{Connector, Publish, Supervisor},
};

/// The sessions of one server.
pub(crate) struct Sessions {
    pub(crate) server: Arc<Server>,
    /// Opens connections to the server.
    connector: Arc<dyn Connector>,
    /// The session that lists the tools. It also serves the calls that need no session of their chat or owner.
    pub(crate) shared: Arc<Session>,
    /// The sessions that serve one chat or one owner.
    table: Mutex<SessionTable>,
    /// Notifies when a session has ended or a call no longer uses one.
    freed: Notify,
}

#[derive(Default)]
struct SessionTable {
    sessions: BTreeMap<Scope, Arc<ScopedSession>>,
    /// The number of sessions that have been removed from `sessions` but have not ended yet.
    ending: usize,
    tasks: JoinSet<()>,
    closed: bool,
}

/// A session, and its use by calls.
struct ScopedSession {
    session: Arc<Session>,
    stop: CancellationToken,
    /// The number of calls that use the session. It is incremented only under the lock of [`Sessions::table`].
    uses: watch::Sender<usize>,
    /// The time when the last use ended.
    unused_since: Mutex<Instant>,
}

/// The session over which a call is made.
pub(crate) struct AcquiredSession {
    pub(crate) scope: Scope,
    pub(crate) connection: Connection,
    /// Keeps the session open while the call uses it. The shared session needs no guard.
    _guard: Option<SessionGuard>,
}

/// The use of a session by one call. It ends when this is dropped.
pub(crate) struct SessionGuard {
    sessions: Arc<Sessions>,
    scoped: Arc<ScopedSession>,
}

// === impl Sessions ===

impl Sessions {
    pub(crate) fn new(server: Arc<Server>, connector: Arc<dyn Connector>) -> Self {
        Self { server, connector, shared: Arc::default(), table: Mutex::default(), freed: Notify::new() }
    }

    /// Returns the supervisor that keeps a session connected. It has not started yet.
    pub(crate) fn supervisor(
        &self,
        session: Arc<Session>,
        publish: Option<Publish>,
        stop: CancellationToken,
    ) -> Supervisor {
        Supervisor {
            server: self.server.clone(),
            connector: self.connector.clone(),
            session,
            publish,
            stop,
            last_warning: None,
        }
    }

    /// Waits until a session for the call is connected, without a time limit. Returns `None` if the server ends.
    pub(crate) async fn acquire_session(self: &Arc<Self>, context: &CallContext) -> Option<AcquiredSession> {
        let scope = self.server.scope(context);
        let guard = match scope {
            Scope::Shared => None,
            Scope::Owner(_) | Scope::Chat(..) => Some(self.acquire(&scope, context).await?),
        };
        let session = match &guard {
            Some(guard) => &guard.scoped.session,
            None => &self.shared,
        };
        let _waiting = context.waits_for(format!("the MCP server {} was not connected", self.server.name));
        let connection = session.connection().await?;
        Some(AcquiredSession { scope, connection, _guard: guard })
    }

    /// Returns the session for this scope. If there is none, this waits until there is room for it and starts it. Returns `None`
    /// after [`Sessions::close`].
    async fn acquire(self: &Arc<Self>, scope: &Scope, context: &CallContext) -> Option<SessionGuard> {
        let mut waiting = None;
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // Sessions that are freed after this point are noticed.
            freed.as_mut().enable();
            {
                let mut table = self.table();
                if table.closed {
                    return None;
                }
                if let Some(scoped) = table.find_or_start(self, scope) {
                    scoped.uses.send_modify(|uses| *uses += 1);
                    return Some(SessionGuard { sessions: self.clone(), scoped });
                }
                table.make_room();
            }
            if waiting.is_none() {
                waiting = Some(context.waits_for(format!(
                    "all {} processes of the MCP server {} (max_processes) were in use by other chats",
                    self.server.max_processes, self.server.name
                )));
            }
            freed.await;
        }
    }

    /// Ends all sessions and waits until they have ended. No session is started afterwards.
    pub(crate) async fn close(&self) {
        let mut tasks = {
            let mut table = self.table();
            table.closed = true;
            while let Some(scope) = table.sessions.keys().next().cloned() {
                table.end(&scope);
            }
            mem::take(&mut table.tasks)
        };
        self.freed.notify_waiters();
        while tasks.join_next().await.is_some() {}
    }

    /// Ends all sessions immediately, without closing their connections properly. No session is started afterwards.
    pub(crate) fn abort(&self) {
        let mut table = self.table();
        table.closed = true;
        for scoped in mem::take(&mut table.sessions).into_values() {
            scoped.session.set_state(State::Ended);
        }
        table.tasks = JoinSet::new();
        drop(table);
        self.freed.notify_waiters();
    }

    /// Ends a session if no call uses it. Returns whether it is ending, for any reason.
    fn retire_if_unused(&self, scope: &Scope, scoped: &Arc<ScopedSession>) -> bool {
        let mut table = self.table();
        let is_current = table.sessions.get(scope).is_some_and(|current| Arc::ptr_eq(current, scoped));
        if is_current && scoped.is_unused() {
            table.end(scope);
        }
        scoped.stop.is_cancelled()
    }

    fn table(&self) -> MutexGuard<'_, SessionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl SessionTable ===

impl SessionTable {
    /// Returns the session for this scope, and starts it if there is none. Returns `None` if there is no room for it.
    fn find_or_start(&mut self, sessions: &Arc<Sessions>, scope: &Scope) -> Option<Arc<ScopedSession>> {
        if let Some(scoped) = self.sessions.get(scope) {
            return Some(scoped.clone());
        }
        if self.sessions.len() + self.ending >= sessions.server.max_processes {
            return None;
        }
        let scoped = Arc::new(ScopedSession {
            session: Arc::default(),
            stop: CancellationToken::new(),
            uses: watch::Sender::new(0),
            unused_since: Mutex::new(Instant::now()),
        });
        self.sessions.insert(scope.clone(), scoped.clone());
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(run_session(sessions.clone(), scope.clone(), scoped.clone()));
        tracing::debug!(
            server = sessions.server.name,
            ?scope,
            "another session with an MCP server is started"
        );
        Some(scoped)
    }

    /// Ends the session that has been unused for the longest time, unless another one is ending already.
    fn make_room(&mut self) {
        if self.ending > 0 {
            return;
        }
        let unused = self.sessions.iter().filter(|(_, scoped)| scoped.is_unused());
        let longest = unused
            .min_by_key(|(_, scoped)| *scoped.unused_since.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some((scope, _)) = longest {
            let scope = scope.clone();
            self.end(&scope);
        }
    }

    fn end(&mut self, scope: &Scope) {
        if let Some(scoped) = self.sessions.remove(scope) {
            self.ending += 1;
            scoped.stop.cancel();
        }
    }
}

/// Runs a session until it is ended or has not been used for the idle timeout.
async fn run_session(sessions: Arc<Sessions>, scope: Scope, scoped: Arc<ScopedSession>) {
    let supervisor = sessions.supervisor(scoped.session.clone(), None, scoped.stop.clone());
    let end_when_idle = async {
        loop {
            tokio::select! {
                () = scoped.stop.cancelled() => break,
                () = scoped.wait_until_unused_for(sessions.server.idle_timeout) => {}
            }
            if sessions.retire_if_unused(&scope, &scoped) {
                break;
            }
        }
    };
    tokio::join!(supervisor.run(), end_when_idle);
    sessions.table().ending -= 1;
    sessions.freed.notify_waiters();
}

// === impl ScopedSession ===

impl ScopedSession {
    fn is_unused(&self) -> bool {
        *self.uses.borrow() == 0
    }

    /// Waits until no call has used the session for this time.
    async fn wait_until_unused_for(&self, time: Duration) {
        let mut uses = self.uses.subscribe();
        loop {
            // It only fails if the sender is dropped, which is a field of `self`.
            let _ = uses.wait_for(|uses| *uses == 0).await;
            if timeout(time, uses.wait_for(|uses| *uses > 0)).await.is_err() {
                return;
            }
        }
    }
}

// === impl SessionGuard ===

impl Drop for SessionGuard {
    fn drop(&mut self) {
        *self.scoped.unused_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.scoped.uses.send_modify(|uses| *uses -= 1);
        self.sessions.freed.notify_waiters();
    }
}
