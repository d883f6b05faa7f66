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
        ClientNotification, ClientRequest, DiscoverResult, ErrorCode, ErrorData, RequestId,
        ServerJsonRpcMessage, ServerResult,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::json;
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
    /// `true` if the server has answered the discovery after the library had given it up.
    has_answered_late: bool,
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

    /// Returns whether the server speaks a version without a handshake, but said so too late. Such a server refuses the handshake.
    pub(crate) fn has_answered_late(&self) -> bool {
        self.table().has_answered_late
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
                    if let ServerJsonRpcMessage::Response(response) = message {
                        table.has_answered_late |= read_discovery(response.result).is_some();
                    }
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
            (Kind::Discovery, ServerJsonRpcMessage::Response(response)) => {
                match read_discovery(response.result) {
                    Some(versions) => {
                        ServerJsonRpcMessage::response(ServerResult::DiscoverResult(versions), id)
                    }
                    None => {
                        let reason = "the server does not know the request";
                        self.refusal = Some(reason.to_owned());
                        error_reply(ReplyKind::Unreadable, reason, Some(id))
                    }
                }
            }
            (_, reply) => reply,
        }
    }
}

/// Reads the reply to the discovery. The versions are enough; what else the library requires may be missing.
fn read_discovery(result: ServerResult) -> Option<DiscoverResult> {
    if let ServerResult::DiscoverResult(versions) = result {
        return Some(versions);
    }
    let mut fields =
        json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "capabilities": {"tools": {}}});
    let given = serde_json::to_value(result).ok()?;
    given.get("supportedVersions")?;
    fields.as_object_mut()?.extend(given.as_object()?.clone());
    serde_json::from_value(fields).ok()
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

#[cfg(test)]
mod tests {
    use rmcp::model::ClientJsonRpcMessage;
    use serde_json::{Value, json};

    use super::*;

    /// The requests after these methods were sent, with ids from 1.
    fn sent<const N: usize>(methods: [&str; N]) -> OpenRequests {
        let requests = OpenRequests::default();
        for (method, id) in methods.into_iter().zip(1..) {
            let params = match method {
                "tools/call" => json!({"name": "a"}),
                "initialize" => json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "test", "version": "1"},
                }),
                _ => json!({}),
            };
            send(&requests, json!({"id": id, "method": method, "params": params}));
        }
        requests
    }

    fn send(requests: &OpenRequests, mut message: Value) {
        message["jsonrpc"] = "2.0".into();
        requests.sent(&serde_json::from_value::<ClientJsonRpcMessage>(message).unwrap());
    }

    /// Receives a message, and returns all that is handed on then.
    fn receive(requests: &OpenRequests, mut message: Value) -> Vec<Value> {
        message["jsonrpc"] = "2.0".into();
        let received = requests.received(serde_json::from_value(message).unwrap());
        received.into_iter().chain(assigned(requests)).map(|message| json!(message)).collect()
    }

    fn assigned(requests: &OpenRequests) -> Vec<ServerJsonRpcMessage> {
        std::iter::from_fn(|| requests.assigned()).collect()
    }

    fn nameless(message: &str) -> Value {
        json!({"error": {"code": -32000, "message": message}})
    }

    fn ids(messages: &[Value]) -> Vec<&Value> {
        messages.iter().map(|message| &message["id"]).collect()
    }

    #[test]
    fn an_error_without_an_id_is_given_to_a_call_as_soon_as_that_is_certain() {
        let requests = sent(["tools/call"]);
        let [reply] = &receive(&requests, nameless("no"))[..] else { panic!("one reply") };
        assert_eq!((&reply["id"], &reply["error"]["message"]), (&json!(1), &json!("no")));

        let requests = sent(["tools/call", "tools/list", "tools/call"]);
        assert!(receive(&requests, nameless("no")).is_empty(), "it may be of either call");
        let messages = receive(&requests, json!({"id": 1, "result": {}}));
        assert_eq!(ids(&messages), [1, 3]);
        assert_eq!(ids(&receive(&requests, json!({"id": 2, "result": {}}))), [2]);

        let requests = sent(["tools/call", "tools/call"]);
        assert!(receive(&requests, nameless("no")).is_empty());
        let mut all = receive(&requests, nameless("no"));
        all.sort_by_key(|message| message["id"].as_u64());
        assert_eq!(ids(&all), [1, 2]);
    }

    #[test]
    fn an_error_without_an_id_waits_for_a_call_that_is_withdrawn() {
        let requests = sent(["tools/call", "tools/call"]);
        assert!(receive(&requests, nameless("no")).is_empty());
        send(&requests, json!({"method": "notifications/cancelled", "params": {"requestId": 2}}));
        let replies: Vec<Value> = assigned(&requests).into_iter().map(|message| json!(message)).collect();
        assert_eq!(ids(&replies), [1]);
    }

    #[test]
    fn an_error_about_a_notification_is_of_no_request() {
        let requests = sent(["tools/list"]);
        assert!(receive(&requests, nameless("what is initialized?")).is_empty());
        send(&requests, json!({"id": 2, "method": "tools/call", "params": {"name": "a"}}));
        let unknown = json!({"error": {"code": -32601, "message": "Method not found"}});
        assert!(receive(&requests, unknown).is_empty());
        assert_eq!(ids(&receive(&requests, json!({"id": 2, "result": {}}))), [2]);
    }

    #[test]
    fn a_second_reply_is_dropped() {
        let requests = sent(["tools/call"]);
        assert_eq!(receive(&requests, json!({"id": 1, "result": {}})).len(), 1);
        assert!(receive(&requests, json!({"id": 1, "result": {}})).is_empty());
        assert!(receive(&requests, json!({"id": 9, "result": {}})).is_empty());
    }

    #[test]
    fn whatever_else_answers_the_discovery_is_an_error() {
        let requests = sent(["server/discover"]);
        let [reply] = &receive(&requests, json!({"id": 1, "result": {"content": []}}))[..] else {
            panic!("one reply")
        };
        assert!(reply["error"].is_object() && requests.discovery_refusal().is_some(), "{reply}");

        let requests = sent(["server/discover", "initialize"]);
        assert!(receive(&requests, json!({"id": 1, "result": {}})).is_empty(), "it comes too late");
        assert!(!requests.has_answered_late());
        assert!(
            receive(&requests, json!({"id": 1, "result": {"supportedVersions": ["2026-07-28"]}})).is_empty()
        );
        assert!(requests.has_answered_late());
        assert_eq!(ids(&receive(&requests, json!({"id": 2, "result": {}}))), [2]);

        let requests = sent(["server/discover"]);
        let versions = json!({"supportedVersions": ["2026-07-28"]});
        let [reply] = &receive(&requests, json!({"id": 1, "result": versions}))[..] else {
            panic!("one reply")
        };
        assert!(reply["result"].is_object() && requests.discovery_refusal().is_none(), "{reply}");
    }
}
