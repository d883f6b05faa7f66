//! A configured server as its tools see it: its sessions, and whether they are connected.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fermata_tools::{CallContext, ToolError};
use rmcp::{Peer, RoleClient};
use tokio::sync::watch;

use crate::{
    calls::Unanswered,
    config::{Processes, Secrets, ServerConfig},
    link::Link,
    sessions::{Scope, SessionGuard, Sessions},
    supervisor::Connector,
};

/// The servers that are configured now, by name. A tool looks its server up for each call, so it stays usable when the
/// server's configuration changes.
#[derive(Default)]
pub(crate) struct Servers(Mutex<BTreeMap<String, Arc<Server>>>);

/// A configured server. It does not run its sessions itself; [`crate::supervisor`] does.
pub(crate) struct Server {
    /// The server's name in the settings.
    pub(crate) name: String,
    /// The values that must be removed from texts.
    pub(crate) secrets: Secrets,
    /// `true` if the annotations of its tools are trusted.
    pub(crate) trusts_annotations: bool,
    /// The maximum number of sessions besides the shared one.
    pub(crate) max_processes: usize,
    /// The time after which an unused session is closed. The shared session is never closed for this reason.
    pub(crate) idle_timeout: Duration,
    /// Opens connections to the server.
    pub(crate) connector: Arc<dyn Connector>,
    processes: Option<Processes>,
    /// `true` once the server has sent an elicitation that does not say to which call it belongs. It never becomes `false` again.
    pub(crate) elicits_unattributed: Arc<AtomicBool>,
    /// The session that lists the tools. It also serves the calls that need no session of their chat or owner.
    pub(crate) shared: Arc<Session>,
    /// The sessions that serve one chat or one owner.
    pub(crate) sessions: Sessions,
}

/// A session with a server. When its connection is lost, it gets a new one.
pub(crate) struct Session {
    state: watch::Sender<State>,
}

/// The session over which a call is made.
pub(crate) struct AcquiredSession {
    pub(crate) scope: Scope,
    pub(crate) connection: Connection,
    /// Keeps the session open while the call uses it. The shared session needs no guard.
    _guard: Option<SessionGuard>,
}

/// The state of a session.
#[derive(Clone)]
pub(crate) enum State {
    /// The first connection is being opened.
    Starting,
    /// There is no connection. It is opened again later.
    Down,
    /// It is connected and its tools are listed.
    Up(Connection),
    /// It has ended and gets no other connection.
    Ended,
}

/// A connection over which calls can be made.
#[derive(Clone)]
pub(crate) struct Connection {
    /// The peer that requests are sent to.
    pub(crate) peer: Peer<RoleClient>,
    /// The shared state of the connection.
    pub(crate) link: Link,
    /// The names of the tools that the server has over this connection.
    pub(crate) tools: Arc<BTreeSet<String>>,
}

// === impl Servers ===

impl Servers {
    /// Replaces all servers.
    pub(crate) fn replace(&self, servers: BTreeMap<String, Arc<Server>>) {
        *self.lock() = servers;
    }

    /// Returns the server with this name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Server>> {
        self.lock().get(name).cloned()
    }

    /// Returns whether the server is configured now and has not been replaced by another one of its name.
    pub(crate) fn is_current(&self, server: &Arc<Server>) -> bool {
        self.lock().get(&server.name).is_some_and(|current| Arc::ptr_eq(current, server))
    }

    /// Waits until the server with this name has a session for the call, without a time limit. If the server is replaced
    /// meanwhile, this waits for the new one.
    ///
    /// # Errors
    /// Returns an error if no server of that name is configured.
    pub(crate) async fn acquire_session(
        &self,
        name: &str,
        context: &CallContext,
    ) -> Result<(Arc<Server>, AcquiredSession), ToolError> {
        let mut ended: Option<Arc<Server>> = None;
        loop {
            let not_configured =
                || ToolError::internal(format!("The MCP server {name} is no longer configured."));
            let server = self.get(name).ok_or_else(not_configured)?;
            // A server that has ended must not be tried again, or this would loop without waiting.
            if ended.is_some_and(|ended| Arc::ptr_eq(&ended, &server)) {
                return Err(not_configured());
            }
            match server.acquire_session(context).await {
                Some(session) => return Ok((server, session)),
                None => ended = Some(server),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Server>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Server ===

impl Server {
    pub(crate) fn new(name: impl Into<String>, config: &ServerConfig, connector: Arc<dyn Connector>) -> Self {
        Self {
            name: name.into(),
            secrets: config.secrets(),
            trusts_annotations: config.trust_annotations,
            max_processes: config.max_processes.get(),
            idle_timeout: config.idle_timeout,
            connector,
            processes: config.processes,
            elicits_unattributed: Arc::default(),
            shared: Arc::default(),
            sessions: Sessions::default(),
        }
    }

    /// Returns the scope of the session that the call must use.
    pub(crate) fn scope(&self, context: &CallContext) -> Scope {
        match self.processes {
            Some(Processes::Shared) => Scope::Shared,
            Some(Processes::PerOwner) => Scope::of_owner(&context.owner),
            Some(Processes::PerChat) => Scope::of_chat(context),
            None if self.elicits_unattributed.load(Ordering::SeqCst) => Scope::of_chat(context),
            None => Scope::Shared,
        }
    }

    /// Waits until a session for the call is connected, without a time limit. Returns `None` if the server ends.
    async fn acquire_session(self: &Arc<Self>, context: &CallContext) -> Option<AcquiredSession> {
        let scope = self.scope(context);
        let guard = match scope {
            Scope::Shared => None,
            Scope::Owner(_) | Scope::Chat(..) => Some(Sessions::acquire(self, &scope, context).await?),
        };
        let session = match &guard {
            Some(guard) => guard.session(),
            None => &self.shared,
        };
        let _waiting = context.waits_for(format!("the MCP server {} was not connected", self.name));
        let connection = session.connection().await?;
        Some(AcquiredSession { scope, connection, _guard: guard })
    }

    /// Returns the text for a person and a model about an elicitation that was not answered.
    pub(crate) fn explain_unanswered(&self, unanswered: &Unanswered) -> String {
        let name = &self.name;
        match unanswered {
            Unanswered::SeveralChats => {
                let from_now_on = match self.processes {
                    None => "From now on each chat has a process of its own",
                    Some(Processes::Shared | Processes::PerOwner | Processes::PerChat) => {
                        "From now on the process serves one chat at a time"
                    }
                };
                format!(
                    "The MCP server {name} asked the person something, but the question was shown to no one: calls of several \
                     chats ran in one process of it, and the server does not say which call asked. {from_now_on}, so the \
                     tool can be called again."
                )
            }
            Unanswered::Reason(reason) => {
                format!("What the MCP server {name} asked the person was not answered: {reason}")
            }
        }
    }
}

// === impl Session ===

impl Session {
    /// Sets the state and wakes the tasks that wait for it.
    pub(crate) fn set_state(&self, state: State) {
        self.state.send_replace(state);
    }

    /// Waits until the first attempt to connect has succeeded or failed.
    pub(crate) async fn wait_until_started(&self) {
        let _ = self.state.subscribe().wait_for(|state| !matches!(state, State::Starting)).await;
    }

    /// Waits until the session is connected, without a time limit. Returns `None` if it ends.
    async fn connection(&self) -> Option<Connection> {
        let mut state = self.state.subscribe();
        let usable = state.wait_for(|state| match state {
            State::Up(connection) => !connection.link.closed.is_cancelled(),
            State::Ended => true,
            State::Starting | State::Down => false,
        });
        match usable.await.map(|state| State::clone(&state)) {
            Ok(State::Up(connection)) => Some(connection),
            Ok(State::Starting | State::Down | State::Ended) | Err(_) => None,
        }
    }
}

impl Default for Session {
    fn default() -> Self {
        Self { state: watch::Sender::new(State::Starting) }
    }
}
