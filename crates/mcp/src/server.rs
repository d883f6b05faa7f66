//! A server as its tools see it: there, not there, or gone for good.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fermata_tools::ToolError;
use rmcp::{Peer, RoleClient};
use tokio::sync::watch;

use crate::{config::Secrets, link::Link};

/// The servers that are configured now, by name. A tool finds its server here each time that it is called, so that it
/// outlives a change of how that is reached.
#[derive(Default)]
pub(crate) struct Servers(Mutex<BTreeMap<String, Arc<Server>>>);

/// A configured server. Who keeps it running is elsewhere.
pub(crate) struct Server {
    /// Its name in the settings.
    pub(crate) name: String,
    /// What must not be told.
    pub(crate) secrets: Secrets,
    state: watch::Sender<State>,
}

/// How a server is.
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
    pub(crate) fn are(&self, servers: BTreeMap<String, Arc<Server>>) {
        *self.lock() = servers;
    }

    /// Whether this is one of them, and not one that another has replaced.
    pub(crate) fn include(&self, server: &Arc<Server>) -> bool {
        self.lock().get(&server.name).is_some_and(|current| Arc::ptr_eq(current, server))
    }

    /// Waits until the server of that name is up, for as long as that takes, also if it is replaced meanwhile.
    ///
    /// # Errors
    /// None of that name is configured.
    pub(crate) async fn connection(&self, name: &str) -> Result<(Arc<Server>, Connection), ToolError> {
        let mut ended = None;
        loop {
            let current = self.lock().get(name).cloned();
            // One that has ended is not waited for again, whatever happens.
            let server = current
                .filter(|server| ended.as_ref().is_none_or(|ended| !Arc::ptr_eq(ended, server)))
                .ok_or_else(|| {
                    ToolError::internal(format!("The MCP server {name} is no longer configured."))
                })?;
            match server.connection().await {
                Some(connection) => return Ok((server, connection)),
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
    pub(crate) fn new(name: impl Into<String>, secrets: Secrets) -> Self {
        Self { name: name.into(), secrets, state: watch::Sender::new(State::Starting) }
    }

    /// Tells its tools how it is.
    pub(crate) fn is(&self, state: State) {
        self.state.send_replace(state);
    }

    /// Waits until it has been up or has failed.
    pub(crate) async fn started(&self) {
        let _ = self.state.subscribe().wait_for(|state| !matches!(state, State::Starting)).await;
    }

    /// Waits until it is up, for as long as that takes. `None` once it is no longer wanted.
    async fn connection(&self) -> Option<Connection> {
        let mut state = self.state.subscribe();
        let usable = state.wait_for(|state| match state {
            State::Up(connection) => !connection.link.lost.is_cancelled(),
            State::Ended => true,
            State::Starting | State::Down => false,
        });
        match usable.await.map(|state| State::clone(&state)) {
            Ok(State::Up(connection)) => Some(connection),
            Ok(State::Starting | State::Down | State::Ended) | Err(_) => None,
        }
    }
}
