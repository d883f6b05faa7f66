//! Brings each request to the instance that owns its chat.
//!
//! The question "here or elsewhere?" is asked here and nowhere else: a chat actor handles a request or gives it back with the owner's id,
//! and the router calls that instance. Retries live here, and so do readers that look for their run again.

mod locator;
mod recovery;
mod refusals;
mod serving;
mod summaries;

use std::{sync::Arc, time::Duration};

use fermata_protocol::ChatId;
use fermata_tools::{Grant, Owner, Receipt};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};

use locator::ChatLocator;
use recovery::{OnEnd, Recovery};
use refusals::Refusals;

use crate::{
    api::{
        errors::{RequestError, Unavailable},
        request::{Following, RemoteRequest, TakeOver},
        view::{ChatView, InputPreview, SummaryView},
    },
    chat::{
        ActorMessage, ChatActor, Delivered, End, Handle,
        mailbox::{Full, Mailbox, Mailboxes},
    },
    cluster::{CallError, Cluster, OutgoingReply, ReaderMessage},
    context::summary::ChatJob,
    ports::store::{ChatOwner, InstanceId, Listing, StoreError},
    run::interrupted,
    services::Services,
};

/// The pause before the owner of a chat is looked for again.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// The number of instances that are asked to go on with a run that was cut off, and the time that each of them has.
const MAX_HEIRS: usize = 2;
const HAND_OVER_TIME: Duration = Duration::from_secs(1);
/// The number of readers that may look for their runs at a time, if an instance dies that had many.
const MAX_REJOINING: usize = 64;

/// Routes each request to its chat.
pub(crate) struct Router {
    services: Arc<Services>,
    cluster: Arc<Cluster>,
    mailboxes: Mailboxes<ActorMessage>,
    recovery: Recovery,
    refusals: Refusals,
    rejoining: Semaphore,
}

/// The instance that a request belongs to.
enum Location {
    /// This instance, as far as the store knows.
    Here,
    /// Another instance, which owns the chat, or has to see to it because this one is shutting down; with the chat, if there is one.
    Elsewhere(InstanceId, Option<ChatOwner>),
    /// None: the chat belongs to this user and not to the one who asks.
    Denied(Owner),
}

/// The attempts at a request.
struct Attempts {
    /// The time until which other instances are asked.
    deadline: Instant,
    /// `true` once an attempt may have been made without a reply.
    may_be_done: bool,
}

/// A reply in the form that instances send to each other.
pub(crate) trait RemoteReply: Sized {
    type Wire: Serialize + DeserializeOwned;

    /// Writes the reply for another instance.
    fn export(self, reply: &mut OutgoingReply<'_>) -> Self::Wire;

    /// Reads the reply of another instance.
    fn import(wire: Self::Wire, locator: &ChatLocator) -> Self;

    /// Returns the reply of this instance's own chat actor, with readers that find their run again wherever it goes.
    fn located(self, _: &ChatLocator) -> Self {
        self
    }
}

// === impl Router ===

impl Router {
    pub fn new(services: Arc<Services>, cluster: Arc<Cluster>) -> Self {
        Self {
            services,
            cluster,
            mailboxes: Mailboxes::default(),
            recovery: Recovery::default(),
            refusals: Refusals::default(),
            rejoining: Semaphore::new(MAX_REJOINING),
        }
    }

    /// Makes a request to a chat, wherever it is, and waits for the reply.
    pub async fn call<R>(self: &Arc<Self>, chat: &ChatId, request: R) -> Result<R::Reply, R::Error>
    where
        R: RemoteRequest + Handle,
        R::Reply: RemoteReply,
    {
        let mut attempts = Attempts { deadline: Instant::now() + R::OWNER_TIMEOUT, may_be_done: false };
        let result = self.attempt(chat, request, &mut attempts).await;
        if attempts.may_be_done { result.map_err(RequestError::after_unknown_attempt) } else { result }
    }

    async fn attempt<R>(
        self: &Arc<Self>,
        chat: &ChatId,
        mut request: R,
        attempts: &mut Attempts,
    ) -> Result<R::Reply, R::Error>
    where
        R: RemoteRequest + Handle,
        R::Reply: RemoteReply,
    {
        let locator = ChatLocator::new(self, request.owner(), chat);
        let mut is_noted = false;
        loop {
            let owner = match self.locate(chat, request.owner(), !R::STREAMS).await {
                Ok(Location::Denied(known)) => {
                    self.note_refusal(chat, known, &request);
                    return R::denied();
                }
                Ok(Location::Here) => match self.call_here(chat, request).await? {
                    Delivered::Reply(result) => return result.map(|reply| reply.located(&locator)),
                    Delivered::Elsewhere(owner, returned) => {
                        request = returned;
                        owner
                    }
                },
                Ok(Location::Elsewhere(owner, known)) => {
                    if let (Some(known), false) = (known, is_noted) {
                        request.note_chat(&known);
                        is_noted = true;
                    }
                    owner
                }
                Err(unavailable) => return self.read_saved(chat, &request, unavailable).await,
            };
            match self.call_elsewhere(&owner, chat, &request, &locator, attempts).await {
                Ok(Some(result)) => return result,
                Ok(None) => {}
                Err(unavailable) => return self.read_saved(chat, &request, unavailable).await,
            }
        }
    }

    /// Reads the saved state, because the chat's actor cannot be asked for this reason. If only the actor can serve it, the reason is
    /// returned.
    async fn read_saved<R: RemoteRequest + Handle>(
        &self,
        chat: &ChatId,
        request: &R,
        reason: Unavailable,
    ) -> Result<R::Reply, R::Error> {
        if matches!(reason, Unavailable::Store(_)) {
            return Err(reason.into());
        }
        match request.read_saved(&self.services, chat).await {
            Some(read) => read,
            None => Err(self.refused(reason).into()),
        }
    }

    /// Returns why a request is refused, and counts the request if the shutdown is the reason.
    fn refused(&self, reason: Unavailable) -> Unavailable {
        match reason {
            Unavailable::ShuttingDown => self.services.shutdown.refuse(),
            _ => reason,
        }
    }

    /// Makes a request to the instance that owns the chat, and returns its result; `None` if the owner has to be looked for again.
    async fn call_elsewhere<R>(
        &self,
        owner: &InstanceId,
        chat: &ChatId,
        request: &R,
        locator: &ChatLocator,
        attempts: &mut Attempts,
    ) -> Result<Option<Result<R::Reply, R::Error>>, Unavailable>
    where
        R: RemoteRequest,
        R::Reply: RemoteReply,
    {
        let error = match self.cluster.call(owner, chat, request.clone().into(), attempts.deadline).await {
            Ok(result) => {
                let result: Result<Result<<R::Reply as RemoteReply>::Wire, R::Error>, _> =
                    serde_json::from_str(result.get());
                return match result {
                    Ok(result) => Ok(Some(result.map(|reply| R::Reply::import(reply, locator)))),
                    Err(error) => {
                        tracing::error!(%chat, %owner, %error, "the reply of the instance that owns the chat cannot be read");
                        Err(Unavailable::Unreachable)
                    }
                };
            }
            Err(error) => error,
        };
        attempts.may_be_done |= matches!(error, CallError::OutcomeUnknown);
        let is_idempotent = request.is_idempotent();
        let may_retry = match error {
            CallError::NotOwner => true,
            CallError::OutcomeUnknown => is_idempotent,
            CallError::Unreachable => false,
        };
        if may_retry && Instant::now() < attempts.deadline {
            sleep(RETRY_AFTER).await;
            return Ok(None);
        }
        let unavailable = match error {
            CallError::NotOwner => Unavailable::Unreachable,
            // A message that could not be sent in time may arrive all the same.
            CallError::Unreachable if is_idempotent => Unavailable::Unreachable,
            CallError::Unreachable | CallError::OutcomeUnknown => Unavailable::OutcomeUnknown,
        };
        Err(unavailable)
    }

    /// Makes a request to the chat's actor in this process, which is started if there is none.
    async fn call_here<R: Handle>(
        self: &Arc<Self>,
        chat: &ChatId,
        request: R,
    ) -> Result<Delivered<R>, R::Error> {
        let (message, reply) = ActorMessage::request(request);
        self.send(chat, message);
        // A request that finds no room also gets a reply.
        match reply.await {
            Ok(delivered) => Ok(delivered),
            Err(_) if self.services.shutdown.draining.is_reached() => {
                Err(self.services.shutdown.refuse().into())
            }
            Err(_) => Err(StoreError::Unavailable("the chat's actor has failed".into()).into()),
        }
    }

    /// Has the newest of the other instances go on with a run that was cut off here, before its readers look for it: an older one would
    /// soon be replaced as well, and the model would be asked once more. If none takes it over, the first that finds it does.
    async fn hand_over(&self, chat: &ChatId, owner: &Owner) {
        for instance in self.cluster.newest_others().into_iter().take(MAX_HEIRS) {
            let request = TakeOver { owner: owner.clone() };
            let called =
                self.cluster.call(&instance, chat, request.into(), Instant::now() + HAND_OVER_TIME).await;
            match called {
                Ok(_) => return,
                Err(error) => tracing::debug!(%chat, %instance, ?error, "a run was not taken over"),
            }
        }
    }

    /// Puts a message into the mailbox of the chat's actor. Returns `false` if it is full; a request is refused as busy then.
    fn send(self: &Arc<Self>, chat: &ChatId, message: ActorMessage) -> bool {
        let start = |mailbox: Mailbox<ActorMessage>| {
            let router = self.clone();
            self.services.shutdown.tasks.spawn(async move {
                let services = router.services.clone();
                // Unless the actor says otherwise, it has panicked.
                let mut ended = OnEnd { router, chat: mailbox.chat.clone(), end: End::Retry };
                ended.end = ChatActor::new(services, mailbox).run().await;
                if let End::Cut(run) = &mut ended.end {
                    Box::pin(ended.router.hand_over(&ended.chat, &run.owner)).await;
                    run.log.leave(interrupted());
                }
            });
        };
        match self.mailboxes.send(chat, message, start) {
            Ok(()) => true,
            Err(Full(message)) => {
                if let ActorMessage::Request(mut request) = message {
                    request.refuse(Unavailable::Busy);
                }
                false
            }
        }
    }

    /// Returns the chats that have an actor in this process.
    pub fn chats(&self) -> Vec<ChatId> {
        self.mailboxes.chats()
    }

    /// Tells the actors of these chats that a stage of the shutdown is reached.
    pub fn shut_actors_down(self: &Arc<Self>, chats: &[ChatId]) {
        for chat in chats {
            // If the mailbox is full, this is dropped: the actor looks at the stages after each message that waits there.
            self.send(chat, ActorMessage::ShutDown);
        }
    }

    /// Returns whether this instance is shutting down and nothing of this chat is at work here any more.
    pub fn is_closed_to(&self, chat: &ChatId) -> bool {
        self.services.shutdown.draining.is_reached() && !self.mailboxes.contains(chat)
    }

    /// Returns which instance a user's request belongs to. This comes before anything else of the chat is read and before its actor gets the
    /// request, so that other users cost its owner nothing. The actor checks again, because the chat may get another owner meanwhile.
    ///
    /// An instance that is shutting down begins nothing. Requests that may be passed on go to another one.
    async fn locate(
        &self,
        chat: &ChatId,
        owner: &Owner,
        may_be_passed_on: bool,
    ) -> Result<Location, Unavailable> {
        let is_closed = self.is_closed_to(chat);
        if is_closed && !may_be_passed_on {
            return Err(Unavailable::ShuttingDown);
        }
        if !is_closed {
            if self.mailboxes.belongs_to(chat, owner) {
                return Ok(Location::Here);
            }
            // Before this instance has joined, a process that has ended may still count as alive.
            self.services.lease.acquire().await?;
        }
        let known = self.services.store.owner_of(chat).await?;
        if let Some(known) = &known
            && known.owner != *owner
        {
            return Ok(Location::Denied(known.owner.clone()));
        }
        let this = &self.services.lease.instance;
        let elsewhere = match known.as_ref().and_then(|known| known.run_owner.clone()) {
            Some(instance) if instance != *this => Some(instance),
            Some(_) => None,
            None if is_closed => self.cluster.another(),
            None => None,
        };
        match elsewhere {
            Some(instance) => Ok(Location::Elsewhere(instance, known)),
            None if is_closed => Err(Unavailable::ShuttingDown),
            None => Ok(Location::Here),
        }
    }
}

// === impl RemoteReply ===

macro_rules! sent_as_it_is {
    ($($reply:ty),*) => {$(
        impl RemoteReply for $reply {
            type Wire = Self;

            fn export(self, _: &mut OutgoingReply<'_>) -> Self {
                self
            }

            fn import(wire: Self, _: &ChatLocator) -> Self {
                wire
            }
        }
    )*};
}

sent_as_it_is!(
    (),
    bool,
    Vec<Receipt>,
    Vec<Grant>,
    InputPreview,
    ChatView,
    Listing,
    SummaryView,
    Option<SummaryView>,
    Option<(String, ChatJob)>
);

impl RemoteReply for Following {
    type Wire = ReaderMessage;

    fn export(self, reply: &mut OutgoingReply<'_>) -> ReaderMessage {
        reply.export_reader(self)
    }

    fn import(wire: ReaderMessage, locator: &ChatLocator) -> Self {
        locator.import(wire)
    }

    fn located(self, locator: &ChatLocator) -> Self {
        Self { reader: self.reader.located_by(locator.clone()), ..self }
    }
}

impl RemoteReply for Option<Following> {
    type Wire = Option<ReaderMessage>;

    fn export(self, reply: &mut OutgoingReply<'_>) -> Option<ReaderMessage> {
        self.map(|following| following.export(reply))
    }

    fn import(wire: Option<ReaderMessage>, locator: &ChatLocator) -> Self {
        wire.map(|wire| Following::import(wire, locator))
    }

    fn located(self, locator: &ChatLocator) -> Self {
        self.map(|following| following.located(locator))
    }
}
