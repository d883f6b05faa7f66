//! The actor of a chat: the one task that everything about the chat goes through.
//!
//! Messages are handled one after the other, so nothing about a chat is ever decided twice at once, and no lock is needed. The actor lives
//! while something happens in the chat. It does not know where requests come from: if another instance owns the chat, the request is given
//! back with that instance's id.
//!
//! Nothing that cannot be saved is done. While the store is away, the commit is retried for a time, and the run's readers go
//! on. If the store stays away for longer than that, the actor drops everything and leaves the chat as it was saved last, for the next
//! actor to resume.
//!
//! There may be a hundred thousand actors that wait. The future of an actor is as large as the largest that it may ever await, so those that
//! are large and seldom awaited are boxed, here and in `active_run`.

mod deletion;
mod delivery;
mod listing;
pub(crate) mod mailbox;
mod plans;
mod reading;
mod requests;
mod submit;
mod summaries;

use std::sync::Arc;

use fermata_tools::Owner;
use futures::{
    FutureExt,
    future::{BoxFuture, select_all},
};

pub(crate) use delivery::{ActorMessage, Delivered, Handle};
use delivery::{Deliver, Handled};

use crate::{
    active_run::{ActiveRun, Happening, Resumption},
    chat::mailbox::Mailbox,
    ports::store::{InstanceId, RunRecord, StoreError},
    record::Record,
    run::RememberedRun,
    run_log::Writer,
    services::{Patience, Services},
};

/// The number of attempts at a request if other instances keep changing the chat meanwhile.
const MAX_ATTEMPTS: usize = 5;

/// The actor of a chat.
pub(crate) struct ChatActor {
    services: Arc<Services>,
    mailbox: Mailbox<ActorMessage>,
    state: ChatState,
    /// The run that this process had in memory before it had to read the chat again.
    remembered: Option<RememberedRun>,
    /// The requests whose inputs are being checked. They are handled after that.
    checking: Vec<BoxFuture<'static, Box<dyn Deliver>>>,
}

/// The state of the chat, as far as this process knows it.
enum ChatState {
    /// Nothing: the chat has to be read before anything is done with it.
    Unread,
    /// The chat does not exist.
    Absent,
    /// The instance owns the chat's open run.
    Elsewhere(InstanceId),
    /// The chat has no open run.
    Idle(Box<Record>),
    /// The chat has an open run that this process has not resumed.
    Dormant { record: Box<Record>, saved: Box<RunRecord>, is_mine: bool },
    /// The chat has an open run in this process.
    Active(Box<ActiveRun>),
}

/// The way an actor ended.
pub(crate) enum End {
    /// Nothing is left to do in the chat.
    Passivated,
    /// It failed, and the chat has to be resumed as soon as that is possible.
    Retry,
    /// It failed because of the chat's contents, so there is no use in resuming it soon.
    BackOff,
    /// The server ends while the model speaks.
    Cut(Box<CutOff>),
}

/// A run that was cut off and saved, so that another instance can go on with it. Its readers wait to be sent away.
pub(crate) struct CutOff {
    pub owner: Owner,
    pub log: Writer,
}

// === impl ChatActor ===

impl ChatActor {
    pub fn new(services: Arc<Services>, mailbox: Mailbox<ActorMessage>) -> Box<Self> {
        Box::new(Self { services, mailbox, state: ChatState::Unread, remembered: None, checking: Vec::new() })
    }

    /// Handles messages until nothing is left to do, or something fails.
    pub async fn run(mut self: Box<Self>) -> End {
        loop {
            let error = match self.work().await {
                Ok(end) => return end,
                Err(error) => error,
            };
            let chat = &self.mailbox.chat;
            if error == StoreError::Fenced {
                tracing::info!(%chat, "the chat was changed by another instance, or the database has lost what was saved last");
                self.unload_changed().await;
                continue;
            }
            tracing::error!(%chat, %error, "the chat is dropped from memory; it stays as it was saved");
            self.unload();
            self.mailbox.close();
            return match error {
                StoreError::Unavailable(_) | StoreError::Unclear(_) => End::Retry,
                StoreError::Corrupt(_) | StoreError::Conflict(_) => End::BackOff,
                StoreError::Fenced | StoreError::BadCursor => End::Passivated,
            };
        }
    }

    async fn work(&mut self) -> Result<End, StoreError> {
        let services = self.services.clone();
        let mut policies = services.policies.changes();
        loop {
            policies.mark_unchanged();
            let mut waits_for_policies = false;
            let mut is_at_work = false;
            if let ChatState::Active(active) = &mut self.state {
                if !active.is_over() {
                    active.find_tools().await?;
                }
                if !active.is_over() {
                    active.follow_rules().await?;
                }
                if !active.is_over() {
                    active.keep_deadlines().await?;
                }
                waits_for_policies = active.run.waits_for_tools() || active.run.awaits_approval();
                is_at_work = !active.run.is_waiting() && !active.is_over();
                if active.is_over() || active.is_unloadable() {
                    self.state = ChatState::Unread;
                }
            }
            if !matches!(self.state, ChatState::Active(_)) {
                if self.remembered.is_some() {
                    // If nobody else has the run, it is resumed here, because only this process knows which of its calls have begun.
                    Box::pin(self.handle(ActorMessage::Wake)).await?;
                    self.remembered = None;
                    continue;
                }
                if self.checking.is_empty() && self.mailbox.remove_if_empty() {
                    return Ok(End::Passivated);
                }
                // Nothing keeps other instances from beginning a run, so the state that was read may be out of date.
                self.state = ChatState::Unread;
            }
            let shutdown = &services.shutdown;
            if shutdown.stopping.is_reached() || (shutdown.draining.is_reached() && !is_at_work) {
                return Box::pin(self.shut_down()).await;
            }
            tokio::select! {
                Some(message) = self.mailbox.receive() => Box::pin(self.handle(message)).await?,
                // Tools and rules are looked for at the beginning of the next round.
                Ok(()) = policies.changed(), if waits_for_policies => {}
                request = next_checked(&mut self.checking), if !self.checking.is_empty() => {
                    Box::pin(self.handle(ActorMessage::Request(request))).await?;
                }
                happening = self.state.next() => {
                    // Nothing happens by itself in a chat without a run.
                    if let ChatState::Active(active) = &mut self.state {
                        active.handle(happening).await?;
                    }
                }
            }
        }
    }

    /// Handles a message. If another instance has changed the chat just before, the chat is read again and the message tried again.
    async fn handle(&mut self, mut message: ActorMessage) -> Result<(), StoreError> {
        if matches!(message, ActorMessage::ShutDown) {
            return Ok(());
        }
        let mut attempts = 0;
        loop {
            attempts += 1;
            if matches!(self.state, ChatState::Unread) {
                self.read().await?;
            }
            if let ChatState::Elsewhere(owner) = &self.state {
                if let ActorMessage::Request(request) = message {
                    request.send_back(owner.clone());
                }
                // It may be another instance the next time.
                self.state = ChatState::Unread;
                return Ok(());
            }
            match self.attempt(&mut message, attempts == MAX_ATTEMPTS).await {
                Err(StoreError::Fenced) if attempts < MAX_ATTEMPTS => self.unload_changed().await,
                Err(error) => return Err(error),
                Ok(Handled::Replied) => return Ok(()),
                Ok(Handled::Checking(checks)) => {
                    if let ActorMessage::Request(mut request) = message {
                        self.checking.push(
                            async move {
                                request.note_checked(checks.await);
                                request
                            }
                            .boxed(),
                        );
                    }
                    return Ok(());
                }
            }
        }
    }

    async fn attempt(&mut self, message: &mut ActorMessage, is_last: bool) -> Result<Handled, StoreError> {
        if let ChatState::Active(active) = &mut self.state {
            // Reading makes no commit, which would tell that another instance has gone on with the run.
            let patience = match message {
                ActorMessage::Request(_) => Patience::Request,
                ActorMessage::Wake | ActorMessage::Verify | ActorMessage::ShutDown => Patience::Run,
            };
            if let Err(error) = active.record.verify_if_in_doubt(&self.services, patience).await {
                if let (ActorMessage::Request(request), StoreError::Unavailable(_)) = (&mut *message, &error)
                {
                    request.refuse(error.clone().into());
                }
                self.after_request(Some(error))?;
                return Ok(Handled::Replied);
            }
        }
        match message {
            ActorMessage::Request(request) => return request.handle(self, is_last).await,
            ActorMessage::Wake => Box::pin(self.activate()).await?,
            ActorMessage::Verify => self.verify(Patience::Run).await?,
            ActorMessage::ShutDown => {}
        }
        Ok(Handled::Replied)
    }

    /// Reads the chat.
    async fn read(&mut self) -> Result<(), StoreError> {
        self.services.lease.acquire().await?;
        let lease_epoch = self.services.lease.epoch();
        let saved = self.services.store.chat(&self.mailbox.chat).await?;
        self.mailbox.note_owner(saved.as_ref().map(|chat| chat.head.owner.clone()));
        let Some(mut saved) = saved else {
            self.state = ChatState::Absent;
            return Ok(());
        };
        let instance = &self.services.lease.instance;
        let is_mine = saved.run_owner.as_ref() == Some(instance);
        if let Some(owner) = saved.run_owner.take()
            && !is_mine
        {
            self.state = ChatState::Elsewhere(owner);
            return Ok(());
        }
        let record = Box::new(Record::read(self.mailbox.chat.clone(), &saved, lease_epoch));
        self.state = match saved.open_run {
            Some(run) => ChatState::Dormant { record, saved: Box::new(run), is_mine },
            None => ChatState::Idle(record),
        };
        Ok(())
    }

    /// Resumes the open run, if there is one that is not in memory yet.
    async fn activate(&mut self) -> Result<(), StoreError> {
        if !matches!(self.state, ChatState::Dormant { .. }) {
            return Ok(());
        }
        let remembered = self.remembered.take();
        // If this fails, the chat has to be read again.
        if let ChatState::Dormant { record, saved, is_mine } =
            std::mem::replace(&mut self.state, ChatState::Unread)
        {
            self.state =
                match ActiveRun::resume(&self.services, *record, *saved, is_mine, remembered.as_ref()).await?
                {
                    Resumption::Resumed(active) => ChatState::Active(active),
                    Resumption::Closed(record) => ChatState::Idle(record),
                };
        }
        self.leave_finished_run();
        Ok(())
    }

    /// Leaves the open run, if it is over.
    fn leave_finished_run(&mut self) {
        if matches!(&self.state, ChatState::Active(active) if active.is_over())
            && let ChatState::Active(active) = std::mem::replace(&mut self.state, ChatState::Unread)
        {
            self.state = ChatState::Idle(Box::new(active.record));
        }
    }

    /// Looks whether the chat is still as this process knows it, if it has an open run here.
    async fn verify(&mut self, patience: Patience) -> Result<(), StoreError> {
        if let ChatState::Active(active) = &mut self.state {
            active.record.verify(&self.services, patience).await?;
        }
        Ok(())
    }

    /// Returns whether the actor can go on after a request that has failed as the store did. It cannot if its knowledge of the chat is not
    /// the saved state.
    fn after_request(&self, failure: Option<StoreError>) -> Result<(), StoreError> {
        match (failure, &self.state) {
            (None, _) => Ok(()),
            (Some(StoreError::Unavailable(_)), ChatState::Active(active)) if active.is_saved() => Ok(()),
            (Some(error), _) => Err(error),
        }
    }

    /// Returns for how long the commit of a request is repeated.
    fn request_patience(&self) -> Patience {
        if self.active().is_some() { Patience::RequestBesideRun } else { Patience::Request }
    }

    /// Returns the chat's record, if the chat exists.
    fn record(&self) -> Option<&Record> {
        match &self.state {
            ChatState::Unread | ChatState::Absent | ChatState::Elsewhere(_) => None,
            ChatState::Idle(record) | ChatState::Dormant { record, .. } => Some(record),
            ChatState::Active(active) => Some(&active.record),
        }
    }

    fn record_mut(&mut self) -> Option<&mut Record> {
        match &mut self.state {
            ChatState::Unread | ChatState::Absent | ChatState::Elsewhere(_) => None,
            ChatState::Idle(record) | ChatState::Dormant { record, .. } => Some(record),
            ChatState::Active(active) => Some(&mut active.record),
        }
    }

    /// Returns the open run, if it is in memory.
    fn active(&self) -> Option<&ActiveRun> {
        if let ChatState::Active(active) = &self.state { Some(active) } else { None }
    }

    /// Forgets everything that is in memory; the run's readers look for it again.
    fn unload(&mut self) {
        if let ChatState::Active(active) = std::mem::replace(&mut self.state, ChatState::Unread) {
            self.remembered = Some(active.unload());
        }
    }

    /// Forgets everything that is in memory, because the store holds something else. Only the owner of an open run changes its chat: if the
    /// run is still this instance's, the database has lost what was saved last. The run's readers may have been sent that, so their
    /// streams end with an error, although the run goes on.
    async fn unload_changed(&mut self) {
        if let ChatState::Active(active) = &mut self.state
            && let Ok(Some(saved)) = self.services.store.owner_of(&self.mailbox.chat).await
            && saved.run_owner.as_ref() == Some(&self.services.lease.instance)
            && saved.open_run.as_ref() == Some(&active.run.id)
        {
            active.end_lost();
        }
        self.unload();
    }

    /// Ends because the server does.
    async fn shut_down(&mut self) -> Result<End, StoreError> {
        self.mailbox.close();
        let ChatState::Active(mut active) = std::mem::replace(&mut self.state, ChatState::Unread) else {
            return Ok(End::Passivated);
        };
        match active.shut_down().await {
            Ok(true) => {
                let ActiveRun { record, log, .. } = *active;
                return Ok(End::Cut(Box::new(CutOff { owner: record.head.owner, log })));
            }
            Ok(false) => {}
            // The run goes on from the state that was saved before.
            Err(error) => {
                tracing::warn!(chat = %self.mailbox.chat, %error, "the run could not be saved once more")
            }
        }
        active.leave();
        Ok(End::Passivated)
    }
}

impl Drop for ChatActor {
    fn drop(&mut self) {
        // The readers wait for the next actor, which goes on with the run or gives it up.
        if std::thread::panicking() {
            self.unload();
            self.mailbox.close();
        }
    }
}

// === impl ChatState ===

impl ChatState {
    /// Waits for something to happen to the open run.
    async fn next(&mut self) -> Happening {
        if let Self::Active(active) = self { active.next().await } else { std::future::pending().await }
    }
}

/// Waits for the next request whose inputs are checked. Cancel safe.
async fn next_checked(checking: &mut Vec<BoxFuture<'static, Box<dyn Deliver>>>) -> Box<dyn Deliver> {
    let (request, index, _) = select_all(checking.iter_mut()).await;
    drop(checking.swap_remove(index));
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<F: Future>(_: fn(Box<ChatActor>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_actor_that_waits_is_small() {
        let size = size(ChatActor::run);
        assert!(size <= 1536, "{size} bytes for each chat with an open run: box what is seldom awaited");
    }
}
