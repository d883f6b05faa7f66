//! Sessions of a server that serve one chat or one owner: started when they are needed, ended when they are not.
//!
//! A program has one session, so a session is a process there. This module does not know when a call needs a session of its own.
//!
//! Invariants: no more sessions are open than the settings allow, those that are just ending included · a session that a call
//! uses is not ended for others · nothing that was started here outlives [`Sessions::close`].

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fermata_protocol::ChatId;
use fermata_tools::{CallContext, Owner};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    server::{Server, Session, State},
    supervisor::Supervisor,
};

/// Whose calls a session serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Everybody's.
    Shared,
    /// Those of one owner.
    Owner(String),
    /// Those of one chat.
    Chat(String, ChatId),
}

/// The sessions of one server that do not serve everybody.
#[derive(Default)]
pub(crate) struct Sessions {
    open: Mutex<SessionTable>,
    /// A session has ended, or is used by nobody any more.
    freed: Notify,
}

#[derive(Default)]
struct SessionTable {
    sessions: BTreeMap<Scope, Arc<ScopedSession>>,
    /// How many are ending.
    ending: usize,
    tasks: JoinSet<()>,
    closed: bool,
}

/// A session with those who use it.
struct ScopedSession {
    session: Arc<Session>,
    end: CancellationToken,
    /// How many calls use it. It only grows under the lock of [`Sessions::open`].
    uses: watch::Sender<usize>,
    /// Since when none does.
    unused_since: Mutex<Instant>,
}

/// One call's use of a session, until it is dropped.
pub(crate) struct SessionGuard {
    server: Arc<Server>,
    scoped: Arc<ScopedSession>,
}

// === impl Scope ===

impl Scope {
    pub(crate) fn of_chat(context: &CallContext) -> Self {
        Self::Chat(context.owner.as_str().to_owned(), context.chat.clone())
    }

    pub(crate) fn of_owner(owner: &Owner) -> Self {
        Self::Owner(owner.as_str().to_owned())
    }
}

// === impl Sessions ===

impl Sessions {
    /// The session that serves this scope, started if there is none, once there is room for it. `None` after
    /// [`Sessions::close`].
    pub(crate) async fn acquire(
        server: &Arc<Server>,
        scope: &Scope,
        context: &CallContext,
    ) -> Option<SessionGuard> {
        let sessions = &server.sessions;
        let mut waiting = None;
        loop {
            let freed = sessions.freed.notified();
            tokio::pin!(freed);
            // From here on nothing is missed that happens after the look.
            freed.as_mut().enable();
            {
                let mut open = sessions.open();
                if open.closed {
                    return None;
                }
                if let Some(scoped) = open.find_or_start(server, scope) {
                    scoped.uses.send_modify(|uses| *uses += 1);
                    return Some(SessionGuard { server: server.clone(), scoped });
                }
                open.make_room();
            }
            if waiting.is_none() {
                waiting = Some(context.waits_for(format!(
                    "all {} processes of the MCP server {} (max_processes) were in use by other chats",
                    server.max_processes, server.name
                )));
            }
            freed.await;
        }
    }

    /// Ends all sessions and waits until they have ended. Nothing is started afterwards.
    pub(crate) async fn close(&self) {
        let mut tasks = {
            let mut open = self.open();
            open.closed = true;
            while let Some(scope) = open.sessions.keys().next().cloned() {
                open.end(&scope);
            }
            std::mem::take(&mut open.tasks)
        };
        self.freed.notify_waiters();
        while tasks.join_next().await.is_some() {}
    }

    /// Ends all sessions at once, without a word to those at the other end.
    pub(crate) fn abort(&self) {
        let mut open = self.open();
        open.closed = true;
        for scoped in std::mem::take(&mut open.sessions).into_values() {
            scoped.session.set_state(State::Ended);
        }
        open.tasks = JoinSet::new();
        drop(open);
        self.freed.notify_waiters();
    }

    /// Takes a session out if nobody uses it.
    fn retire_if_unused(&self, scope: &Scope, scoped: &Arc<ScopedSession>) -> bool {
        let mut open = self.open();
        let is_current = open.sessions.get(scope).is_some_and(|current| Arc::ptr_eq(current, scoped));
        if is_current && scoped.is_unused() {
            open.end(scope);
        }
        scoped.end.is_cancelled()
    }

    /// A session that was taken out is no more.
    fn session_ended(&self) {
        self.open().ending -= 1;
        self.freed.notify_waiters();
    }

    fn open(&self) -> MutexGuard<'_, SessionTable> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl SessionTable ===

impl SessionTable {
    fn find_or_start(&mut self, server: &Arc<Server>, scope: &Scope) -> Option<Arc<ScopedSession>> {
        if let Some(scoped) = self.sessions.get(scope) {
            return Some(scoped.clone());
        }
        if self.sessions.len() + self.ending >= server.max_processes {
            return None;
        }
        let scoped = Arc::new(ScopedSession {
            session: Arc::default(),
            end: CancellationToken::new(),
            uses: watch::Sender::new(0),
            unused_since: Mutex::new(Instant::now()),
        });
        self.sessions.insert(scope.clone(), scoped.clone());
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(run_session(server.clone(), scope.clone(), scoped.clone()));
        tracing::debug!(server = server.name, ?scope, "an MCP server gets a process more");
        Some(scoped)
    }

    /// Ends the session that has been unused for the longest time, unless one is ending already.
    fn make_room(&mut self) {
        if self.ending > 0 {
            return;
        }
        let unused = self.sessions.iter().filter(|(_, scoped)| scoped.is_unused());
        let longest = unused.min_by_key(|(_, scoped)| scoped.unused_since()).map(|(scope, _)| scope.clone());
        if let Some(scope) = longest {
            self.end(&scope);
        }
    }

    fn end(&mut self, scope: &Scope) {
        if let Some(scoped) = self.sessions.remove(scope) {
            self.ending += 1;
            scoped.end.cancel();
        }
    }
}

/// Keeps a session running until it is ended, or until nobody has used it for long enough.
async fn run_session(server: Arc<Server>, scope: Scope, scoped: Arc<ScopedSession>) {
    let supervisor = Supervisor::new(server.clone(), scoped.session.clone(), None, scoped.end.clone());
    let idle = async {
        loop {
            scoped.unused_for(server.idle_timeout).await;
            if server.sessions.retire_if_unused(&scope, &scoped) {
                break;
            }
        }
    };
    tokio::join!(supervisor.run(), async {
        tokio::select! {
            () = scoped.end.cancelled() => {}
            () = idle => {}
        }
    });
    server.sessions.session_ended();
}

// === impl ScopedSession ===

impl ScopedSession {
    fn is_unused(&self) -> bool {
        *self.uses.borrow() == 0
    }

    fn unused_since(&self) -> Instant {
        *self.unused_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody has used it for so long.
    async fn unused_for(&self, long: Duration) {
        let mut uses = self.uses.subscribe();
        loop {
            // The sender lives as long as this.
            let _ = uses.wait_for(|uses| *uses == 0).await;
            if timeout(long, uses.wait_for(|uses| *uses > 0)).await.is_err() {
                return;
            }
        }
    }
}

// === impl SessionGuard ===

impl SessionGuard {
    pub(crate) fn session(&self) -> &Session {
        &self.scoped.session
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        *self.scoped.unused_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.scoped.uses.send_modify(|uses| *uses -= 1);
        self.server.sessions.freed.notify_waiters();
    }
}
