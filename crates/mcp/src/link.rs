//! The state of a connection that calls, the client and the supervisor share.

use std::{
    borrow::Cow,
    sync::{Arc, atomic::AtomicBool},
};

use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::calls::OpenCalls;

/// The shared state of one connection to a server. Clones are cheap and share the state.
#[derive(Clone, Default)]
pub(crate) struct Link {
    /// The open calls of the connection.
    pub(crate) calls: Arc<OpenCalls>,
    /// Cancelled when the connection is closed, and not before everything that was received has been handed on.
    pub(crate) closed: CancellationToken,
    /// Notifies the supervisor that an error occurred after which the server may be gone, so that it sends a ping.
    pub(crate) check_alive: Arc<Notify>,
    /// Notifies the supervisor that the server's tools have changed.
    pub(crate) list_changed: Arc<Notify>,
}

/// A transport that marks the link as closed as soon as the other end closes it. The library itself reports that only after
/// it has shut the connection down.
pub(crate) struct MonitoredTransport<T> {
    transport: T,
    closed: CancellationToken,
}

// === impl Link ===

impl Link {
    /// Creates the state of a new connection. `elicits_unattributed` is shared by all connections to the server.
    pub(crate) fn new(elicits_unattributed: Arc<AtomicBool>) -> Self {
        Self { calls: Arc::new(OpenCalls::new(elicits_unattributed)), ..Self::default() }
    }
}

// === impl MonitoredTransport ===

impl<T> MonitoredTransport<T> {
    pub(crate) fn new(transport: T, link: &Link) -> Self {
        Self { transport, closed: link.closed.clone() }
    }
}

impl<T: Transport<RoleClient> + 'static> Transport<RoleClient> for MonitoredTransport<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.transport.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.transport.receive().await;
        if message.is_none() {
            self.closed.cancel();
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}
