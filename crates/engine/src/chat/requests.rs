//! The requests to a chat, except posts.

use std::sync::Arc;

use fermata_protocol::{
    Answer as CallAnswer, AnswerKind, AnswerTarget, ChatId, ElicitationId, GrantedFor, Profile, RunId,
    RunStatus, Show, Stage, UiChunk,
};
use fermata_tools::{
    AuditAction, AuditEvent, Grant, GrantTerms, Owner, Receipt, Refusal, Toolbox, ValidAnswer,
};

use super::{ChatActor, ChatState, Handle};
use crate::{
    AnswerError, CallError, ChatView, Following, Pending, ReadError, Store,
    active_run::{is_detached, read_run, run_context, works_by_itself},
    answer_batch::{AnswerBatch, Answered, Checked, FindAnswered},
    context::context_usage,
    errors::RequestError,
    position::Position,
    record::Record,
    request::{CancelCall, Delete, EditInput, EndGrant, EndHold, Grants, Rejoin, Resume, Stop, View},
    run::{Ending, Event, Rejected, Run, asker_in, detach_chunks},
    run_log::{Writer, read_records},
    services::{Patience, Services},
    store::{AuditEntry, Change, Files, RunRecord, StoreError},
    view::{Detail, Outline, SHORT_CHAT, shown},
};

impl Handle for FindAnswered {
    async fn handle(&self, actor: &mut ChatActor) -> Result<Answered, AnswerError> {
        let Self(answer) = self;
        if actor.record().is_none() {
            return Err(AnswerError::no_such_chat());
        }
        // This parks what waits for an answer.
        actor.activate().await?;
        let mut receipts = actor.repeat_settled(&answer.answers).await?;
        if let ChatState::Active(active) = &mut actor.state {
            let live = active.own_answers(&answer.answers);
            match active.repeat(&live, answer.how, answer.address).await? {
                Some(repeated) => receipts.extend(repeated),
                None => {
                    // Another answer to these calls may be on its way, and may be refused.
                    active.park_again(&answer.answers);
                    return Ok(Answered::Pending(active.pin.clone()));
                }
            }
        }
        Ok(Answered::Repeated(receipts))
    }
}

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
            let (chat, profile, position) = (record.chat.clone(), record.profile, Position::from(event.seq));
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
        let profile = active.record.profile;
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

impl Handle for Stop {
    async fn handle(&self, actor: &mut ChatActor) -> Result<(), ReadError> {
        actor.activate().await?;
        if let ChatState::Active(active) = &mut actor.state
            && self.run.as_ref().is_none_or(|run| active.run.id == *run)
        {
            active.apply(Event::Ended(Ending::Stopped)).await?;
        }
        actor.leave_finished_run();
        Ok(())
    }
}

impl Handle for EndHold {
    async fn handle(&self, actor: &mut ChatActor) -> Result<bool, ReadError> {
        // A run that is not in memory has no readers.
        let ChatState::Active(active) = &mut actor.state else { return Ok(false) };
        Ok(active.end_hold().await?)
    }
}

impl Handle for CancelCall {
    async fn handle(&self, actor: &mut ChatActor) -> Result<(), CallError> {
        actor.activate().await?;
        if let ChatState::Active(active) = &mut actor.state
            && active.run.is_running(&self.call)
        {
            active.apply(Event::CallCancelled(self.call.clone())).await?;
            actor.leave_finished_run();
            return Ok(());
        }
        let known = match actor
            .active()
            .and_then(|active| active.run.find_call(&AnswerTarget::Call(self.call.clone())))
        {
            Some(index) => actor.active().map(|active| active.run.calls[index].clone()),
            None => {
                let target = AnswerTarget::Call(self.call.clone());
                actor.services.store.call(&actor.mailbox.chat, &target).await?
            }
        };
        match known {
            Some(call) => Err(CallError::NotRunning(call.state().name())),
            None => Err(CallError::NotFound),
        }
    }
}

impl Handle for EditInput {
    async fn handle(&self, actor: &mut ChatActor) -> Result<Vec<Receipt>, AnswerError> {
        actor.activate().await?;
        let found = match &mut actor.state {
            ChatState::Active(active) => active.run.find_call(&self.of).map(|index| (active, index)),
            _ => None,
        };
        let Some((active, index)) = found else {
            let known = actor.services.store.call(&actor.mailbox.chat, &self.of).await?;
            return Err(match known {
                Some(call) => Rejected::of(Refusal::Gone, &call).into(),
                None => Rejected::Unknown(self.of.clone()).into(),
            });
        };
        let call = &active.run.calls[index];
        if !call.awaits_approval() {
            let refusal = if call.state().is_final() { Refusal::Gone } else { Refusal::WrongAnswer };
            return Err(Rejected::of(refusal, call).into());
        }
        let receipt =
            Receipt { tool_call_id: call.id.clone(), state: call.state().name(), waiting_for: Vec::new() };
        active.apply(Event::InputEdited { index, is_edited: self.is_edited }).await?;
        Ok(vec![receipt])
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
    if saved.owner != *owner {
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
        let (store, chat, profile, show) = (&services.store, &record.chat, record.profile, &record.show);
        let policies = services.policies.current();
        let (left_out, newer) = match run {
            // Its message is in the record, and decisions have come since the readers were sent away.
            Some(run) if run.is_detached() => (None, Some(run.snapshot())),
            Some(run) => (Some(run.message.clone()), None),
            None => (None, None),
        };
        let open = left_out.is_some();
        let is_long = self.detail == Detail::InPages && record.bytes > SHORT_CHAT;
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
        let (assistant, model) = (record.assistant.clone(), record.model.clone());
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
                    run.status_with_words(&run_context(services, &policies, &toolbox, record, None))
                }
                // A run that another version of the server has ended may have left its status.
                None => RunStatus { stage: Stage::Idle, requires_confirm: false, ..record.status.clone() },
            });
        }
        Ok(ChatView { id: chat.clone(), messages, pending, open, assistant, model, status, context, outline })
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
        grants.set_of_owner(services.store.owner_grants(&record.owner).await?);
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

impl Handle for EndGrant {
    async fn handle(&self, actor: &mut ChatActor) -> Result<(), ReadError> {
        let (services, patience) = (actor.services.clone(), actor.request_patience());
        let Some(record) = actor.record_mut() else { return Err(ReadError::NotFound) };
        let Self { owner, address: _, tool, scope, granted_for } = self;
        record.grants.set_of_owner(services.store.owner_grants(&record.owner).await?);
        let is_named = |grant: &&Grant| grant.is_named(tool, scope.as_deref(), *granted_for);
        let revoked: Vec<&GrantTerms> =
            record.grants.iter().filter(is_named).map(|grant| &grant.terms).collect();
        let is_of = |kind| revoked.iter().any(|terms| terms.granted_for == kind);
        let mut changes = Vec::new();
        if is_of(GrantedFor::Chat) {
            changes.push(Change::EndGrant { tool: tool.clone(), scope: scope.clone(), by: owner.clone() });
        }
        if is_of(GrantedFor::Owner) {
            let owner = owner.clone();
            changes.push(Change::EndGrantToOwner { owner, tool: tool.clone(), scope: scope.clone() });
        }
        if changes.is_empty() {
            return Ok(());
        }
        let covered: Vec<&str> = revoked.iter().map(|terms| terms.scope.covers.as_str()).collect();
        let reason = Some(covered.join("; "));
        let event = AuditEvent { tool: tool.clone(), reason, ..AuditEvent::new(AuditAction::GrantRevoked) };
        let event = event.by(owner.clone(), self.address);
        changes.push(Change::Audit(Box::new(AuditEntry::of_chat(owner, &record.chat, None, event))));
        record.commit(&services, patience, changes).await?;
        record.grants.end(tool, scope.as_deref(), *granted_for);
        Ok(())
    }
}

impl Handle for Delete {
    async fn handle(&self, actor: &mut ChatActor) -> Result<(), ReadError> {
        let Some(record) = actor.record() else { return Err(ReadError::NotFound) };
        let store = &actor.services.store;
        if let Some(created_at) = self.created_at
            && store.owner_of(&record.chat).await?.is_none_or(|chat| chat.created_at != created_at)
        {
            // The chat that was meant is deleted.
            return Ok(());
        }
        let open_run = match &actor.state {
            ChatState::Active(active) => Some((&active.run.id, active.run.calls.as_slice())),
            ChatState::Dormant { saved, .. } => Some((&saved.id, saved.calls.as_slice())),
            ChatState::Unread | ChatState::Absent | ChatState::Elsewhere(_) | ChatState::Idle(_) => None,
        };
        let (now, owner) = (actor.services.clock.now(), &record.owner);
        let audit = AuditEntry::of_deletion(owner, &record.chat, open_run, Some(owner));
        let delete = || store.delete(&record.chat, record.version, now, audit.clone());
        actor.services.patiently(Patience::Request, delete).await?;
        if let ChatState::Active(active) = std::mem::replace(&mut actor.state, ChatState::Absent) {
            active.end_deleted();
        }
        Ok(())
    }
}

impl ChatActor {
    /// Handles answers that were handed over to calls of the open run, and replies. If another instance has changed the chat, or the answers
    /// have to be checked first, there is no reply, and the endpoint looks again.
    pub(super) async fn handle_answers(&mut self, batch: AnswerBatch) -> Result<(), StoreError> {
        let mut result = self.accept(&batch).await;
        if let ChatState::Active(active) = &mut self.state {
            // Calls that still wait can be answered again before the reply is sent.
            active.park_again(&batch.answers);
        }
        if let Ok(None) = result {
            return Ok(());
        }
        if let Err(refusal) = &result
            && refusal.store().is_none()
            && self.services.store.is_shared()
            // A refusal makes no commit, which would tell whether another instance has changed the chat.
            && let Err(error) = self.verify(Patience::Request).await
        {
            result = Err(error.into());
        }
        let failure = result.as_ref().err().and_then(RequestError::store).cloned();
        if failure != Some(StoreError::Fenced)
            && let Some(result) = result.transpose()
        {
            // Whoever reads the run waits for the outcome; the reply says no more than that it was accepted, and may come after it.
            tokio::task::yield_now().await;
            // The client may have gone.
            let _ = batch.reply.send(result);
        }
        self.after_request(failure)
    }

    /// Accepts answers, all or none. Returns `None` if an input or content has to be checked first.
    async fn accept(&mut self, batch: &AnswerBatch) -> Result<Option<Vec<Receipt>>, AnswerError> {
        if self.record().is_none_or(|record| record.owner != batch.owner) {
            return Err(AnswerError::no_such_chat());
        }
        let ChatState::Active(active) = &mut self.state else { return Ok(None) };
        active.record.verify_if_in_doubt(&self.services, Patience::Request).await?;
        let live = active.own_answers(&batch.answers);
        // Answers to calls of runs that are over can only be repeated, so looking at them first keeps the batch whole.
        let mut receipts = self.repeat_settled(&batch.answers).await?;
        let ChatState::Active(active) = &mut self.state else { return Ok(None) };
        // An error besides an input that does not fit is the more important one.
        if active.needs_check(&live) {
            match &batch.checked {
                Checked::Fits => {}
                Checked::DoesNotFit(reason) => return Err(AnswerError::Invalid(reason.clone())),
                Checked::Unknown => return Ok(None),
            }
        }
        receipts.extend(active.answer(&live, batch.how, batch.address).await?);
        Ok(Some(receipts))
    }

    /// Returns the receipts for those answers that are to calls of runs that are over, if they are the answers that the calls were given.
    async fn repeat_settled(&mut self, answers: &[CallAnswer]) -> Result<Vec<Receipt>, AnswerError> {
        let mut receipts = Vec::with_capacity(answers.len());
        for answer in answers {
            if self.active().is_some_and(|active| active.run.find(&answer.of).is_some()) {
                continue;
            }
            if let AnswerTarget::Elicitation(id) = &answer.of {
                receipts.push(self.repeat_reply(id, answer).await?);
                continue;
            }
            let Some(call) = self.services.store.call(&self.mailbox.chat, &answer.of).await? else {
                return Err(Rejected::Unknown(answer.of.clone()).into());
            };
            match call.validate_answer(&answer.kind) {
                Ok(ValidAnswer::Repeated) => receipts.push(Receipt {
                    tool_call_id: call.id.clone(),
                    state: call.state().name(),
                    waiting_for: Vec::new(),
                }),
                Ok(ValidAnswer::New) => return Err(Rejected::of(Refusal::Gone, &call).into()),
                Err(refusal) => return Err(Rejected::of(refusal, &call).into()),
            }
        }
        Ok(receipts)
    }

    /// Returns the receipt for an answer to a question of a call in a run that is over, or of a process before this one: only the chat's
    /// messages have the question.
    async fn repeat_reply(
        &mut self,
        id: &ElicitationId,
        answer: &CallAnswer,
    ) -> Result<Receipt, AnswerError> {
        let (store, chat) = (&self.services.store, &self.mailbox.chat);
        let mut messages = store.messages_at(chat, 0..usize::MAX, Files::ByName).await?;
        if let Some(active) = self.active() {
            messages.push(active.run.snapshot());
        }
        let Some(asker) = messages.iter().rev().find_map(|message| asker_in(message, id)) else {
            return Err(Rejected::Unknown(answer.of.clone()).into());
        };
        let Some(call) = store.call(chat, &AnswerTarget::Call(asker)).await? else {
            return Err(Rejected::Unknown(answer.of.clone()).into());
        };
        let AnswerKind::Elicited { action, content } = &answer.kind else {
            return Err(Rejected::of(Refusal::WrongAnswer, &call).into());
        };
        match call.replies.iter().find(|reply| reply.to == *id) {
            None => Err(Rejected::of(Refusal::Gone, &call).into()),
            Some(reply) if reply.action == *action && reply.content == *content => Ok(Receipt {
                tool_call_id: call.id.clone(),
                state: call.state().name(),
                waiting_for: Vec::new(),
            }),
            Some(_) => Err(Rejected::of(Refusal::AlreadyAnswered, &call).into()),
        }
    }
}

// === errors ===

impl From<Rejected> for AnswerError {
    fn from(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Unknown(AnswerTarget::Call(id)) => {
                Self::NotFound(format!("This chat has no call {id:?}.", id = id.as_str()))
            }
            Rejected::Unknown(AnswerTarget::Approval(id)) => {
                Self::NotFound(format!("This chat has asked no question {id:?}.", id = id.as_str()))
            }
            Rejected::Unknown(AnswerTarget::Elicitation(id)) => Self::NotFound(format!(
                "This chat has no question {id:?} of a tool's; none survives a restart.",
                id = id.as_str()
            )),
            Rejected::Outdated { call, tool } => Self::tool_changed(&call, &tool),
            Rejected::Twice(id) => {
                Self::Invalid(format!("The batch answers the call {id} twice; answer each call once."))
            }
            Rejected::Denied(event) => {
                Self::DeniedByPolicy(event.reason.unwrap_or_else(|| "A rule denies this input.".into()))
            }
            Rejected::BadInput(text) => Self::Invalid(text),
            Rejected::UnknownScope(text) => Self::UnknownScope(text),
            Rejected::TooLarge(text) => Self::TooLarge(text),
            Rejected::Refused { refusal, call, tool, state } => match refusal {
                Refusal::AlreadyAnswered => Self::AlreadyAnswered {
                    detail: format!(
                        "The call {call} of {tool} has another answer already; its state is {state}."
                    ),
                    state,
                },
                Refusal::WrongAnswer => Self::WrongAnswer {
                    detail: format!(
                        "The call {call} of {tool} does not wait for this kind of answer; its state is {state}."
                    ),
                    state,
                },
                Refusal::Gone => Self::Gone {
                    detail: format!(
                        "The call {call} of {tool} no longer waits for this: it has ended, expired or was cancelled."
                    ),
                    state,
                },
            },
        }
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
