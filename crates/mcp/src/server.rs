//! A server as its tools see it: there, not there, or gone for good.

use std::{collections::BTreeSet, sync::Arc};

use fermata_tools::ToolError;
use rmcp::{Peer, RoleClient};
use tokio::sync::watch;

use crate::{config::Secrets, link::Link};

/// A configured server. Its tools hold it; who keeps it running is elsewhere.
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

    /// Waits until it is up, for as long as that takes.
    ///
    /// # Errors
    /// It is no longer configured.
    pub(crate) async fn connection(&self) -> Result<Connection, ToolError> {
        let mut state = self.state.subscribe();
        let usable = state.wait_for(|state| match state {
            State::Up(connection) => !connection.link.lost.is_cancelled(),
            State::Ended => true,
            State::Starting | State::Down => false,
        });
        match usable.await.map(|state| State::clone(&state)) {
            Ok(State::Up(connection)) => Ok(connection),
            Ok(State::Starting | State::Down | State::Ended) | Err(_) => {
                Err(ToolError::internal(format!("The MCP server {} is no longer configured.", self.name)))
            }
        }
    }
}
