//! Requests on their way to a chat actor, and their replies.

use std::future::ready;

use async_trait::async_trait;
use fermata_protocol::ChatId;
use tokio::sync::oneshot;

use super::ChatActor;
use crate::{
    api::{
        errors::{RequestError, Unavailable},
        request::ChatRequest,
    },
    ports::store::{InstanceId, StoreError},
    services::{Patience, Services},
};

/// A message to a chat actor.
pub(crate) enum ActorMessage {
    Request(Box<dyn Deliver>),
    /// A deadline may have passed, or the open run may have no owner.
    Wake,
    /// The lease of this instance may have been lost, so another one may own the chat.
    Verify,
    /// A stage of the shutdown is reached. The actor looks at the stages after each message.
    ShutDown,
}

/// A request and the sender of its reply, of whatever type they are.
#[async_trait]
pub(crate) trait Deliver: Send {
    /// Handles the request and sends the reply. If the chat has been changed by another instance, that is returned and nothing is sent,
    /// unless this was the last attempt.
    async fn handle(&mut self, actor: &mut ChatActor, is_last_attempt: bool) -> Result<(), StoreError>;

    /// Gives the request back, because another instance owns the chat.
    fn send_back(self: Box<Self>, owner: InstanceId);

    /// Refuses the request: nothing of it was done.
    fn refuse(&mut self, unavailable: Unavailable);
}

/// A request that a chat actor can handle.
pub(crate) trait Handle: ChatRequest {
    /// Handles the request. The chat does not exist, or belongs to the user who makes the request.
    fn handle(&self, actor: &mut ChatActor) -> impl Future<Output = Result<Self::Reply, Self::Error>> + Send;

    /// Reads what was saved, because the owner of the chat cannot be asked. Returns `None` if only the owner can do what is asked.
    fn read_saved(
        &self,
        _: &Services,
        _: &ChatId,
    ) -> impl Future<Output = Option<Result<Self::Reply, Self::Error>>> + Send {
        ready(None)
    }
}

/// The outcome of a request.
pub(crate) enum Delivered<R: ChatRequest> {
    Reply(Result<R::Reply, R::Error>),
    /// Another instance owns the chat, and nothing was done. The request comes back.
    Elsewhere(InstanceId, R),
}

struct Delivery<R: ChatRequest> {
    request: R,
    /// `None` once the reply is sent.
    reply: Option<oneshot::Sender<Delivered<R>>>,
}

// === impl ActorMessage ===

impl ActorMessage {
    /// Returns the message of a request, and the receiver of its reply. The receiver fails if the actor fails.
    pub fn request<R: Handle>(request: R) -> (Self, oneshot::Receiver<Delivered<R>>) {
        let (reply, receiver) = oneshot::channel();
        (Self::Request(Box::new(Delivery { request, reply: Some(reply) })), receiver)
    }
}

// === impl Delivery ===

impl<R: ChatRequest> Delivery<R> {
    fn reply(&mut self, result: Result<R::Reply, R::Error>) {
        if let Some(reply) = self.reply.take() {
            // The client may have gone.
            let _ = reply.send(Delivered::Reply(result));
        }
    }
}

#[async_trait]
impl<R: Handle> Deliver for Delivery<R> {
    async fn handle(&mut self, actor: &mut ChatActor, is_last_attempt: bool) -> Result<(), StoreError> {
        let owner = self.request.owner();
        let mut result = if actor.record().is_some_and(|record| record.owner != *owner) {
            R::denied()
        } else {
            self.request.handle(actor).await
        };
        if let Err(refusal) = &result
            && refusal.store().is_none()
            && actor.services.store.is_shared()
            // A refusal makes no commit, which would tell whether another instance has changed the chat.
            && let Err(error) = actor.verify(Patience::Request).await
        {
            result = Err(error.into());
        }
        let failure = result.as_ref().err().and_then(RequestError::store).cloned();
        if failure != Some(StoreError::Fenced) || is_last_attempt {
            self.reply(result);
        }
        actor.after_request(failure)
    }

    fn send_back(self: Box<Self>, owner: InstanceId) {
        let Self { request, reply } = *self;
        if let Some(reply) = reply {
            let _ = reply.send(Delivered::Elsewhere(owner, request));
        }
    }

    fn refuse(&mut self, unavailable: Unavailable) {
        self.reply(Err(unavailable.into()));
    }
}
