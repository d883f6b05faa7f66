//! A transport that gives each reply to the request that it answers.
//!
//! The library ignores an error without an id, and it ends a connection whose first reply is not the expected one. This module does not
//! know how messages are sent.
//!
//! Invariants: a reply is handed on only while its request is open, and at most once · as soon as no more calls are open than errors
//! without an id have come, each of these calls gets one of the errors.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::{
    RoleClient,
    model::{
        ClientNotification, ClientRequest, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage,
        ServerResult,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    lenient::{ReplyKind, error_reply, reply_id, says_that_the_session_is_gone},
    link::Link,
};

/// A transport that tracks the open requests. It also marks the link as closed as soon as the other end closes it; the library reports that
/// only after it has shut the connection down.
pub(crate) struct TrackedTransport<T> {
    transport: T,
    closed: CancellationToken,
    requests: Arc<OpenRequests>,
}

/// The requests of a connection that have no reply yet.
#[derive(Default)]
pub(crate) struct OpenRequests {
    table: Mutex<RequestTable>,
    /// Notifies when a request is no longer open although no reply came. A kept error may have only one call left then.
    withdrawn: Notify,
}

#[derive(Default)]
struct RequestTable {
    open: HashMap<RequestId, Kind>,
    /// The errors that came without an id and are not given to a request yet.
    unassigned: VecDeque<ErrorData>,
    /// The server's reason for refusing the discovery.
    refusal: Option<String>,
}

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The first request, which asks for the versions that the server speaks. Only newer servers know it.
    Discovery,
    /// The first request in older versions.
    Initialize,
    /// A call of a tool.
    Call,
    /// Any other request. It has a time limit of its own, and an error without an id may be about a notification.
    Other,
}

// === impl OpenRequests ===

impl OpenRequests {
    /// Returns the server's reason for refusing to say which versions it speaks.
    pub(crate) fn discovery_refusal(&self) -> Option<String> {
        self.table().refusal.clone()
    }

    fn sent(&self, message: &TxJsonRpcMessage<RoleClient>) {
        match message {
            TxJsonRpcMessage::<RoleClient>::Request(request) => {
                let kind = match &request.request {
                    ClientRequest::DiscoverRequest(_) => Kind::Discovery,
                    ClientRequest::InitializeRequest(_) => Kind::Initialize,
                    ClientRequest::CallToolRequest(_) => Kind::Call,
                    _ => Kind::Other,
                };
                let mut table = self.table();
                if kind == Kind::Initialize {
                    // The library no longer waits for the discovery, and a late reply to it would end the handshake.
                    table.open.retain(|_, open| *open != Kind::Discovery);
                }
                table.open.insert(request.id.clone(), kind);
            }
            TxJsonRpcMessage::<RoleClient>::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.withdraw(id);
                }
            }
            _ => {}
        }
    }

    fn withdraw(&self, id: &RequestId) {
        self.table().open.remove(id);
        self.withdrawn.notify_one();
    }

    /// Returns the message to hand on for one that was received.
    fn received(&self, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        let Some(id) = reply_id(&message) else { return Some(message) };
        let mut table = self.table();
        match (id.cloned(), message) {
            (Some(id), message) => match table.open.remove(&id) {
                Some(kind) => Some(table.checked(kind, id, message)),
                None => {
                    tracing::debug!(%id, "an MCP server replied to a request that is not open");
                    None
                }
            },
            (None, ServerJsonRpcMessage::Error(error)) => {
                let error = error.error;
                tracing::debug!(reason = %error.message, "an MCP server sent an error that names no request");
                // Requests have methods that every server knows, so this is about a notification.
                if error.code != ErrorCode::METHOD_NOT_FOUND {
                    table.unassigned.push_back(error);
                }
                None
            }
            (None, _) => None,
        }
    }

    /// Returns an error reply if it is certain that a kept error belongs to one of the open requests.
    fn assigned(&self) -> Option<ServerJsonRpcMessage> {
        let mut table = self.table();
        if table.unassigned.is_empty() {
            return None;
        }
        let waiting: Vec<(RequestId, Kind)> = table
            .open
            .iter()
            .filter(|(_, kind)| **kind != Kind::Other)
            .map(|(id, kind)| (id.clone(), *kind))
            .collect();
        if waiting.len() > table.unassigned.len() {
            return None;
        }
        let Some((id, kind)) = waiting.into_iter().next() else {
            table.unassigned.clear();
            return None;
        };
        table.open.remove(&id);
        let error = table.unassigned.pop_front()?;
        let reply = if says_that_the_session_is_gone(&error.message) {
            error_reply(ReplyKind::SessionGone, &error.message, Some(id.clone()))
        } else {
            ServerJsonRpcMessage::error(error, Some(id.clone()))
        };
        Some(table.checked(kind, id, reply))
    }

    /// The lock is held for an instant, never across an await.
    fn table(&self) -> MutexGuard<'_, RequestTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl RequestTable ===

impl RequestTable {
    /// Returns the reply, or an error if the request is the discovery and the reply is no answer to it. A server that does not know the
    /// request may reply with anything; after an error, the library uses an older version.
    fn checked(&mut self, kind: Kind, id: RequestId, reply: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
        match (kind, reply) {
            (Kind::Discovery, ServerJsonRpcMessage::Error(error)) => {
                self.refusal = Some(error.error.message.to_string());
                ServerJsonRpcMessage::Error(error)
            }
            (Kind::Discovery, ServerJsonRpcMessage::Response(response))
                if !matches!(response.result, ServerResult::DiscoverResult(_)) =>
            {
                let reason = "the server does not know the request";
                self.refusal = Some(reason.to_owned());
                error_reply(ReplyKind::Unreadable, reason, Some(id))
            }
            (_, reply) => reply,
        }
    }
}

// === impl TrackedTransport ===

impl<T> TrackedTransport<T> {
    pub(crate) fn new(transport: T, link: &Link, requests: Arc<OpenRequests>) -> Self {
        Self { transport, closed: link.closed.clone(), requests }
    }
}

impl<T: Transport<RoleClient> + 'static> Transport<RoleClient> for TrackedTransport<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.requests.sent(&item);
        let id = match &item {
            TxJsonRpcMessage::<RoleClient>::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let (requests, sent) = (self.requests.clone(), self.transport.send(item));
        async move {
            let sent = sent.await;
            if let (Err(_), Some(id)) = (&sent, &id) {
                requests.withdraw(id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(reply) = self.requests.assigned() {
                return Some(reply);
            }
            tokio::select! {
                biased;
                received = self.transport.receive() => {
                    let Some(message) = received else {
                        self.closed.cancel();
                        return None;
                    };
                    if let Some(message) = self.requests.received(message) {
                        return Some(message);
                    }
                }
                () = self.requests.withdrawn.notified() => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}
