//! The state of a connection that calls, the client and the supervisor share.

use std::sync::{Arc, atomic::AtomicBool};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{calls::OpenCalls, program::LastWords};

/// The shared state of one connection to a server. Clones are cheap and share the state.
#[derive(Clone, Default)]
pub(crate) struct Link {
    /// The open calls of the connection.
    pub(crate) calls: Arc<OpenCalls>,
    /// Cancelled when the connection is closed, and not before everything that was received has been handed on.
    pub(crate) closed: CancellationToken,
    /// Notifies the supervisor of an error that may mean that the server is gone, so that it sends a ping.
    pub(crate) check_alive: Arc<Notify>,
    /// Notifies the supervisor that the server's tools have changed.
    pub(crate) list_changed: Arc<Notify>,
    /// The last lines of standard error of the program at the other end.
    pub(crate) last_words: LastWords,
}

// === impl Link ===

impl Link {
    /// Creates the state of a new connection. `elicits_unattributed` is shared by all connections to the server.
    pub(crate) fn new(elicits_unattributed: Arc<AtomicBool>) -> Self {
        Self { calls: Arc::new(OpenCalls::new(elicits_unattributed)), ..Self::default() }
    }
}
