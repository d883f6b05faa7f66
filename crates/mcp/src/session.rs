//! The state of one session with a server.

use std::{collections::BTreeSet, sync::Arc};

use rmcp::{Peer, RoleClient};
use tokio::sync::watch;

use crate::link::Link;

/// A session with a server. When its connection is lost, it gets a new one.
pub(crate) struct Session {
    state: watch::Sender<State>,
}

/// The state of a session.
#[derive(Clone)]
pub(crate) enum State {
    /// The first connection is being opened.
    Starting,
    /// There is no connection, for this reason. It is opened again later.
    Down(Arc<str>),
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
    /// The version of MCP that is spoken.
    pub(crate) protocol: Arc<str>,
}

// === impl Session ===

impl Session {
    /// Returns the state of this moment.
    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Sets the state and wakes the tasks that wait for it.
    pub(crate) fn set_state(&self, state: State) {
        self.state.send_replace(state);
    }

    /// Waits until the first attempt to connect has succeeded or failed.
    pub(crate) async fn wait_until_started(&self) {
        let _ = self.state.subscribe().wait_for(|state| !matches!(state, State::Starting)).await;
    }

    /// Waits until the session is connected, without a time limit. Returns `None` if it ends.
    pub(crate) async fn connection(&self) -> Option<Connection> {
        let mut state = self.state.subscribe();
        let usable = state.wait_for(|state| match state {
            State::Up(connection) => !connection.link.closed.is_cancelled(),
            State::Ended => true,
            State::Starting | State::Down(_) => false,
        });
        match usable.await.map(|state| State::clone(&state)) {
            Ok(State::Up(connection)) => Some(connection),
            Ok(State::Starting | State::Down(_) | State::Ended) | Err(_) => None,
        }
    }
}

impl Default for Session {
    fn default() -> Self {
        Self { state: watch::Sender::new(State::Starting) }
    }
}
