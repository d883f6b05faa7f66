//! Requests on their way to a chat actor, and their replies.

use std::future::ready;

use async_trait::async_trait;
use fermata_protocol::ChatId;
use fermata_tools::{Check, Checking};
use futures::{FutureExt, future::BoxFuture};
use tokio::sync::oneshot;

use super::ChatActor;
use crate::{
    api::{
        errors::{RequestError, Unavailable},
        request::{ChatRequest, CheckedAnswers},
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

/// A request of any type and the sender of its reply.
#[async_trait]
pub(crate) trait Deliver: Send {
    /// Handles the request and sends the reply. If the chat has been changed by another instance, that is returned and nothing is sent,
    /// unless this was the last attempt. Nothing is sent either if the request needs checks that take a while.
    async fn handle(&mut self, actor: &mut ChatActor, is_last_attempt: bool) -> Result<Handled, StoreError>;

    /// Notes the results of the request's checks, before it is handled again.
    fn note_checked(&mut self, results: CheckedAnswers);

    /// Gives the request back, because another instance owns the chat.
    fn send_back(self: Box<Self>, owner: InstanceId);

    /// Refuses the request: nothing of it was done.
    fn refuse(&mut self, unavailable: Unavailable);
}

/// The progress of a request that a chat actor has handled.
pub(crate) enum Handled {
    Replied,
    /// The checks that come first are being made, while the chat goes on.
    Checking(BoxFuture<'static, CheckedAnswers>),
}

/// Checks of inputs and contents, each with the index of its answer.
pub(crate) type Checks = Vec<(usize, Check)>;

/// A request that a chat actor can handle.
pub(crate) trait Handle: ChatRequest {
    /// Returns the checks that have to be made before the request is handled, and have not been made yet.
    fn checks(&self, _: &mut ChatActor) -> impl Future<Output = Result<Checks, Self::Error>> + Send {
        ready(Ok(Vec::new()))
    }

    /// Notes the results of these checks.
    fn note_checked(&mut self, _: CheckedAnswers) {}

    /// Handles the request. The chat does not exist, or belongs to the user who makes the request.
    fn handle(&self, actor: &mut ChatActor) -> impl Future<Output = Result<Self::Reply, Self::Error>> + Send;

    /// Reads the saved state, because the owner of the chat cannot be asked. Returns `None` if only the owner can serve the request.
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

impl<R: Handle> Delivery<R> {
    /// Makes the checks that come before the request is handled, or begins them if they take a while.
    async fn check(
        &mut self,
        actor: &mut ChatActor,
    ) -> Result<Option<BoxFuture<'static, CheckedAnswers>>, R::Error> {
        let (indexes, checks): (Vec<_>, Vec<_>) = self.request.checks(actor).await?.into_iter().unzip();
        let timeout = actor.services.settings.limits.check_timeout;
        match actor.services.checker.check(checks, timeout) {
            Checking::Done(results) => {
                self.request.note_checked(indexes.into_iter().zip(results).collect());
                Ok(None)
            }
            Checking::Later(results) => {
                Ok(Some(results.map(|results| indexes.into_iter().zip(results).collect()).boxed()))
            }
        }
    }

    fn reply(&mut self, result: Result<R::Reply, R::Error>) {
        if let Some(reply) = self.reply.take() {
            // The client may have gone.
            let _ = reply.send(Delivered::Reply(result));
        }
    }
}

#[async_trait]
impl<R: Handle> Deliver for Delivery<R> {
    async fn handle(&mut self, actor: &mut ChatActor, is_last_attempt: bool) -> Result<Handled, StoreError> {
        let owner = self.request.owner();
        let mut result = if actor.record().is_some_and(|record| record.head.owner != *owner) {
            R::denied()
        } else {
            match self.check(actor).await {
                Ok(None) => self.request.handle(actor).await,
                Ok(Some(checking)) => return Ok(Handled::Checking(checking)),
                Err(error) => Err(error),
            }
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
        actor.after_request(failure)?;
        Ok(Handled::Replied)
    }

    fn note_checked(&mut self, results: CheckedAnswers) {
        self.request.note_checked(results);
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
