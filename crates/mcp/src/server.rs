//! A server as its tools see it: there, not there, or gone for good.

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

/// The servers that are configured now, by name. A tool finds its server here each time that it is called, so that it
/// outlives a change of how that is reached.
#[derive(Default)]
pub(crate) struct Servers(Mutex<BTreeMap<String, Arc<Server>>>);

/// A configured server. Who keeps its sessions running is elsewhere.
pub(crate) struct Server {
    /// Its name in the settings.
    pub(crate) name: String,
    /// What must not be told.
    pub(crate) secrets: Secrets,
    /// Whether what its tools say about themselves is believed.
    pub(crate) trusts_annotations: bool,
    /// The most sessions besides the shared one.
    pub(crate) max_processes: usize,
    /// How long such a session lives that no call uses.
    pub(crate) idle_timeout: Duration,
    /// The way to it.
    pub(crate) connector: Arc<dyn Connector>,
    processes: Option<Processes>,
    /// Whether it has asked the person something without saying for which call. Once true, always true.
    pub(crate) elicits_unattributed: Arc<AtomicBool>,
    /// The session that lists the tools. It serves everybody's calls where calls need none of their own.
    pub(crate) shared: Arc<Session>,
    /// The other ones.
    pub(crate) sessions: Sessions,
}

/// One connection to a server after the other.
pub(crate) struct Session {
    state: watch::Sender<State>,
}

/// What a call is made over.
pub(crate) struct AcquiredSession {
    pub(crate) scope: Scope,
    pub(crate) connection: Connection,
    /// Keeps the session while the call uses it.
    _used: Option<SessionGuard>,
}

/// How a session is.
#[derive(Clone)]
pub(crate) enum State {
    /// It was not yet up, nor did it fail.
    Starting,
    /// It failed, and is started again later.
    Down,
    /// It answers.
    Up(Connection),
    /// It is no longer wanted.
    Ended,
}

/// A connection that can be used.
#[derive(Clone)]
pub(crate) struct Connection {
    /// Where requests are put.
    pub(crate) peer: Peer<RoleClient>,
    /// What else is known of it.
    pub(crate) link: Link,
    /// The names of the tools that it has now.
    pub(crate) tools: Arc<BTreeSet<String>>,
}

// === impl Servers ===

impl Servers {
    /// These are the ones now.
    pub(crate) fn replace(&self, servers: BTreeMap<String, Arc<Server>>) {
        *self.lock() = servers;
    }

    /// The one of that name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Server>> {
        self.lock().get(name).cloned()
    }

    /// Whether this is one of them, and not one that another has replaced.
    pub(crate) fn is_current(&self, server: &Arc<Server>) -> bool {
        self.lock().get(&server.name).is_some_and(|current| Arc::ptr_eq(current, server))
    }

    /// Waits until the server of that name can take the call, for as long as that takes, also if it is replaced meanwhile.
    ///
    /// # Errors
    /// None of that name is configured.
    pub(crate) async fn acquire_session(
        &self,
        name: &str,
        context: &CallContext,
    ) -> Result<(Arc<Server>, AcquiredSession), ToolError> {
        let mut ended = None;
        loop {
            let current = self.get(name);
            // One that has ended is not waited for again, whatever happens.
            let server = current
                .filter(|server| ended.as_ref().is_none_or(|ended| !Arc::ptr_eq(ended, server)))
                .ok_or_else(|| {
                    ToolError::internal(format!("The MCP server {name} is no longer configured."))
                })?;
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

    /// Whose calls the session is to serve that takes this one.
    pub(crate) fn scope(&self, context: &CallContext) -> Scope {
        match self.processes {
            Some(Processes::Shared) => Scope::Shared,
            Some(Processes::PerOwner) => Scope::of_owner(&context.owner),
            Some(Processes::PerChat) => Scope::of_chat(context),
            None if self.elicits_unattributed.load(Ordering::SeqCst) => Scope::of_chat(context),
            None => Scope::Shared,
        }
    }

    /// Waits until a session is up that may serve the call, for as long as that takes. `None` once the server is no longer
    /// wanted.
    async fn acquire_session(self: &Arc<Self>, context: &CallContext) -> Option<AcquiredSession> {
        let scope = self.scope(context);
        let waits = || context.waits_for(format!("the MCP server {} was not there", self.name));
        if scope == Scope::Shared {
            let _waits = waits();
            let connection = self.shared.connection().await?;
            return Some(AcquiredSession { scope, connection, _used: None });
        }
        let used = Sessions::acquire(self, &scope, context).await?;
        let _waits = waits();
        let connection = used.session().connection().await?;
        Some(AcquiredSession { scope, connection, _used: Some(used) })
    }

    /// What is said about a question of one of its calls that was put to nobody, or that nobody answered.
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
                    "The MCP server {name} asked the person something, and nobody was shown the question: calls of several \
                     chats ran in one process of it, and nothing says which of them asked. {from_now_on}, so the tool can be \
                     called again."
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
    /// Tells those who wait for it how it is.
    pub(crate) fn set_state(&self, state: State) {
        self.state.send_replace(state);
    }

    /// Waits until it has been up or has failed.
    pub(crate) async fn wait_until_started(&self) {
        let _ = self.state.subscribe().wait_for(|state| !matches!(state, State::Starting)).await;
    }

    /// Waits until it is up, for as long as that takes. `None` once it is no longer wanted.
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
