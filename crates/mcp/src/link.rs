//! What is known of a connection from the outside: that it is lost, that it is in doubt, that its list of tools is
//! old.

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

/// One connection to a server, from its beginning to its end. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Link {
    /// Its open calls.
    pub(crate) calls: Arc<OpenCalls>,
    /// Ends with it. Never before everything that was read has been handed on.
    pub(crate) closed: CancellationToken,
    /// Something went wrong that may mean that the server is gone.
    pub(crate) check_alive: Arc<Notify>,
    /// The server says that it has other tools now.
    pub(crate) list_changed: Arc<Notify>,
}

/// A transport that tells at once that nothing comes any more; the library first takes its time to wind up.
pub(crate) struct MonitoredTransport<T> {
    transport: T,
    closed: CancellationToken,
}

// === impl Link ===

impl Link {
    /// A new connection. `asks`: whether its server has asked something without saying for which call, on any connection.
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
