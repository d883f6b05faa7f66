//! The requests that read a chat or follow its run.

use std::sync::Arc;

use fermata_protocol::{ChatId, Profile, RunId, RunStatus, Show, Stage, UiChunk};
use fermata_tools::{Grant, Owner, Toolbox};

use super::{ChatActor, ChatState, Handle};
use crate::{
    active_run::{is_detached, read_run, run_context, works_by_itself},
    api::{
        errors::ReadError,
        request::{Following, Grants, Rejoin, Resume, View},
        view::{ChatView, Detail, Outline, Pending, SHORT_CHAT, shown},
    },
    context::context_usage,
    ports::store::{RunRecord, Store},
    record::Record,
    run::{Run, detach_chunks},
    run_log::{Writer, position::Position, read_records},
    services::Services,
};

impl Handle for Resume {
    async fn handle(&self, actor: &mut ChatActor) -> Result<Option<Following>, ReadError> {
        if let ChatState::Dormant { saved, .. } = &actor.state
            && !works_by_itself(saved, actor.services.clock.reached())
            && is_detached(saved)?
        {
            // Nobody can follow it before it is answered, so looking for it need not resume it.
            return Ok(None);
        }
        actor.activate().await?;
        let ChatState::Active(active) = &mut actor.state else {
            // The run may have ended while the client was not connected.
            let (Some(record), Some(event)) = (actor.record(), &self.after) else { return Ok(None) };
            let (chat, profile, position) =
                (record.chat.clone(), record.head.profile, Position::from(event.seq));
            let log = finished_log(&actor.services.store, &chat, &event.run).await?.unwrap_or_default();
            if log.last().is_none_or(|(last, _)| *last <= position) {
                return Ok(None);
            }
            return Ok(read_finished(&chat, &event.run, &log, position, profile));
        };
        active.claim().await?;
        if active.run.is_detached() {
            // Clients take such a run for one that is not open: its message is among the chat's, and their answer opens it again.
            return Ok(None);
        }
        let profile = active.record.head.profile;
        let start = active.log.log().start_after(profile, self.after.as_ref());
        Ok(Some(active.follow(active.log.read(profile, start))))
    }
}

impl Handle for Rejoin {
    async fn handle(&self, actor: &mut ChatActor) -> Result<Option<Following>, ReadError> {
        actor.activate().await?;
        let (profile, position) = (self.profile, self.position);
        let active = match &mut actor.state {
            ChatState::Active(active) if active.run.id == self.run => active,
            _ => {
                let chat = &actor.mailbox.chat;
                let log = finished_log(&actor.services.store, chat, &self.run).await?;
                return Ok(log.and_then(|log| read_finished(chat, &self.run, &log, position, profile)));
            }
        };
        active.claim().await?;
        let Some(start) = active.log.log().resume_after(profile, position) else { return Ok(None) };
        let reader = active.log.read(profile, start);
        if active.run.is_detached() {
            // The other readers were sent away before this one came.
            active.log.detach_readers(detach_chunks());
        }
        Ok(Some(active.follow(reader)))
    }
}

impl Handle for View {
    async fn handle(&self, actor: &mut ChatActor) -> Result<ChatView, ReadError> {
        match &actor.state {
            ChatState::Dormant { .. } => {
                // Reading resumes nothing, because that may write. The next message finds the chat unread.
                let dormant = std::mem::replace(&mut actor.state, ChatState::Unread);
                let ChatState::Dormant { record, saved, .. } = dormant else {
                    return Err(ReadError::NotFound);
                };
                self.read(&actor.services, &record, Some(&read_run(*saved)?)).await
            }
            ChatState::Active(active) => self.read(&actor.services, &active.record, Some(&active.run)).await,
            ChatState::Idle(record) => self.read(&actor.services, record, None).await,
            ChatState::Unread | ChatState::Absent | ChatState::Elsewhere(_) => Err(ReadError::NotFound),
        }
    }

    async fn read_saved(&self, services: &Services, chat: &ChatId) -> Option<Result<ChatView, ReadError>> {
        let read = async {
            let (record, run) = saved(services, chat, &self.owner).await?;
            let run = run.map(read_run).transpose()?;
            self.read(services, &record, run.as_ref()).await
        };
        Some(read.await)
    }
}

/// Reads a user's chat and its open run as they were saved.
async fn saved(
    services: &Services,
    chat: &ChatId,
    owner: &Owner,
) -> Result<(Record, Option<RunRecord>), ReadError> {
    let lease_epoch = services.lease.epoch();
    let Some(saved) = services.store.chat(chat).await? else { return Err(ReadError::NotFound) };
    if saved.head.owner != *owner {
        return Err(ReadError::NotFound);
    }
    Ok((Record::read(chat.clone(), &saved, lease_epoch), saved.open_run))
}

impl View {
    /// Reads a chat and its open run.
    async fn read(
        &self,
        services: &Services,
        record: &Record,
        run: Option<&Run>,
    ) -> Result<ChatView, ReadError> {
        let (store, chat, profile, show) =
            (&services.store, &record.chat, record.head.profile, &record.head.show);
        let policies = services.policies.current();
        let (left_out, newer) = match run {
            // Its message is in the record, and decisions have come since the readers were sent away.
            Some(run) if run.is_detached() => (None, Some(run.snapshot())),
            Some(run) => (Some(run.message.clone()), None),
            None => (None, None),
        };
        let open = left_out.is_some();
        let is_long = self.detail == Detail::InPages && record.head.bytes > SHORT_CHAT;
        let mut messages = Vec::new();
        if !is_long && self.detail != Detail::Pending {
            for message in store.messages(chat).await? {
                if left_out.as_ref() == Some(&message.id) {
                    continue;
                }
                match &newer {
                    Some(newer) if newer.id == message.id => messages.push(shown(newer, profile, show)),
                    Some(_) | None => messages.push(shown(&message, profile, show)),
                }
            }
        }
        let mut outline = None;
        if is_long {
            let messages = store.outline(chat).await?;
            outline = Some(Outline { profile, show: show.clone(), messages, left_out, newer });
        }
        let mut pending = Vec::new();
        if let Some(run) = run {
            pending.extend(run.pending().map(|call| Pending::Call(Box::new(call.clone()))));
            pending.extend(run.pending_questions());
        }
        let (assistant, model) = (record.head.assistant.clone(), record.head.model.clone());
        let listing = record.listing(&**store).await?;
        let mut context = None;
        if show.contains(&Show::Context)
            && let Some(tokens) = record.context.last_tokens()
        {
            let choice = policies.assistant(assistant.as_deref()).model(model.as_deref());
            let window = choice.window(services.settings.compact_at);
            context = Some(context_usage(tokens, window));
        }
        let mut status = None;
        if show.contains(&Show::Run) {
            status = Some(match run {
                Some(run) => {
                    let toolbox = run.settings.server_tools(&policies);
                    run.status_with_words(&run_context(services, &policies, &toolbox, record, run, None))
                }
                // A run that another version of the server has ended may have left its status.
                None => {
                    RunStatus { stage: Stage::Idle, requires_confirm: false, ..record.head.status.clone() }
                }
            });
        }
        Ok(ChatView {
            id: chat.clone(),
            messages,
            pending,
            open,
            listing,
            assistant,
            model,
            status,
            context,
            outline,
        })
    }
}

impl Handle for Grants {
    /// Lists the grants that still count. A grant ends when its tool changes, which cannot be checked while the tool is missing.
    async fn handle(&self, actor: &mut ChatActor) -> Result<Vec<Grant>, ReadError> {
        let Some(record) = actor.record() else { return Err(ReadError::NotFound) };
        self.read(&actor.services, record, actor.active().map(|active| &active.toolbox)).await
    }

    async fn read_saved(&self, services: &Services, chat: &ChatId) -> Option<Result<Vec<Grant>, ReadError>> {
        let read = async {
            let (record, _) = saved(services, chat, &self.owner).await?;
            self.read(services, &record, None).await
        };
        Some(read.await)
    }
}

impl Grants {
    async fn read(
        &self,
        services: &Services,
        record: &Record,
        toolbox: Option<&Toolbox>,
    ) -> Result<Vec<Grant>, ReadError> {
        let mut grants = record.grants.clone();
        grants.set_of_owner(services.store.owner_grants(&record.head.owner).await?);
        let policies = services.policies.current();
        let toolbox = toolbox.unwrap_or(&policies.toolbox);
        let now = services.clock.now();
        let counts = |grant: &&Grant| {
            !grant.has_ended(now)
                && grant
                    .terms
                    .tools
                    .keys()
                    .any(|tool| toolbox.find(tool).is_none_or(|found| grant.is_for(found)))
        };
        Ok(grants.iter().filter(counts).cloned().collect())
    }
}

/// Returns the log of a run that is over. It is kept for a while.
async fn finished_log(
    store: &Arc<dyn Store>,
    chat: &ChatId,
    run: &RunId,
) -> Result<Option<Vec<(Position, UiChunk)>>, ReadError> {
    match store.finished_log(chat, run).await? {
        Some(chunks) => Ok(Some(read_records(&chunks)?)),
        None => Ok(None),
    }
}

/// Returns a reader of a run that is over, from a position on; `None` if the profile cannot continue there.
fn read_finished(
    chat: &ChatId,
    run: &RunId,
    log: &[(Position, UiChunk)],
    position: Position,
    profile: Profile,
) -> Option<Following> {
    let mut log = Writer::restore(run.clone(), log);
    log.end(Vec::new());
    let start = log.log().resume_after(profile, position)?;
    let reader = log.read(profile, start);
    Some(Following { chat: chat.clone(), run: run.clone(), reader })
}
