//! The requests that change a chat, except posts.

use fermata_protocol::{Answer as CallAnswer, AnswerKind, AnswerTarget, ElicitationId, GrantedFor};
use fermata_tools::{AuditAction, AuditEvent, Grant, GrantTerms, Principal, Receipt, Refusal, ValidAnswer};

use super::{ChatActor, ChatState, Handle, delivery::Checks};
use crate::{
    api::{
        errors::{AnswerError, CallError, ReadError},
        request::{
            AnswerRequest, CancelCall, CheckedAnswers, Delete, EditInput, EndGrant, EndHold, PreviewInput,
            Stop, TakeOver,
        },
        view::InputPreview,
    },
    ports::store::{AuditEntry, Change, Files},
    run::{Ending, Event, Rejected, asker_in},
    services::Patience,
};

impl Handle for AnswerRequest {
    async fn checks(&self, actor: &mut ChatActor) -> Result<Checks, AnswerError> {
        actor.activate().await?;
        let ChatState::Active(active) = &mut actor.state else { return Ok(Vec::new()) };
        let checks = active.checks_of(&self.answers).into_iter();
        Ok(checks.filter(|(index, _)| self.checked.iter().all(|(checked, _)| checked != index)).collect())
    }

    fn note_checked(&mut self, results: CheckedAnswers) {
        self.checked.extend(results);
    }

    async fn handle(&self, actor: &mut ChatActor) -> Result<Vec<Receipt>, AnswerError> {
        if actor.record().is_none() {
            return Err(AnswerError::no_such_chat());
        }
        actor.activate().await?;
        // Answers to calls of runs that are over can only be repeated, so looking at them first keeps the batch whole.
        let mut receipts = actor.repeat_settled(&self.answers, &self.by.by).await?;
        if let ChatState::Active(active) = &mut actor.state {
            receipts.extend(active.answer(self).await?);
            // Readers of the run wait for the outcome. The reply only says that the answers were accepted, so it may come later.
            tokio::task::yield_now().await;
        }
        Ok(receipts)
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

impl Handle for TakeOver {
    async fn handle(&self, actor: &mut ChatActor) -> Result<(), ReadError> {
        Ok(actor.activate().await?)
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
            Some(index) => actor.active().map(|active| active.run.calls[index].call.clone()),
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
        let receipt = Receipt::without_effect(call);
        active.apply(Event::InputEdited { index, is_edited: self.is_edited }).await?;
        Ok(vec![receipt])
    }
}

impl Handle for PreviewInput {
    async fn checks(&self, actor: &mut ChatActor) -> Result<Checks, AnswerError> {
        actor.activate().await?;
        match &mut actor.state {
            ChatState::Active(active) if self.checked.is_empty() => {
                Ok(active.checks_of(std::slice::from_ref(&self.answer)))
            }
            _ => Ok(Vec::new()),
        }
    }

    fn note_checked(&mut self, results: CheckedAnswers) {
        self.checked.extend(results);
    }

    async fn handle(&self, actor: &mut ChatActor) -> Result<InputPreview, AnswerError> {
        actor.activate().await?;
        match &mut actor.state {
            ChatState::Active(active) if active.run.find_call(&self.answer.of).is_some() => {
                active.preview(self)
            }
            _ => {
                let known = actor.services.store.call(&actor.mailbox.chat, &self.answer.of).await?;
                Err(match known {
                    Some(call) => Rejected::of(Refusal::WrongAnswer, &call).into(),
                    None => Rejected::Unknown(self.answer.of.clone()).into(),
                })
            }
        }
    }
}

impl Handle for EndGrant {
    async fn handle(&self, actor: &mut ChatActor) -> Result<(), ReadError> {
        let (services, patience) = (actor.services.clone(), actor.request_patience());
        let Some(record) = actor.record_mut() else { return Err(ReadError::NotFound) };
        let Self { owner, address: _, tool, scope, granted_for } = self;
        record.grants.set_of_owner(services.store.owner_grants(&record.head.owner).await?);
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
            ChatState::Active(active) => Some((&active.run.id, active.run.all_calls().collect())),
            ChatState::Dormant { saved, .. } => Some((&saved.id, saved.calls.iter().collect())),
            ChatState::Unread | ChatState::Absent | ChatState::Elsewhere(_) | ChatState::Idle(_) => None,
        };
        let (now, owner) = (actor.services.clock.now(), &record.head.owner);
        let audit = AuditEntry::of_deletion(owner, &record.chat, open_run, Some(owner));
        let delete = || store.delete(&record.chat, record.head.version, now, audit.clone());
        actor.services.patiently(Patience::Request, delete).await?;
        if let ChatState::Active(active) = std::mem::replace(&mut actor.state, ChatState::Absent) {
            active.end_deleted();
        }
        Ok(())
    }
}

impl ChatActor {
    /// Returns the receipts for those answers that are to calls of runs that are over, if they are the answers that the calls were given.
    async fn repeat_settled(
        &mut self,
        answers: &[CallAnswer],
        by: &Principal,
    ) -> Result<Vec<Receipt>, AnswerError> {
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
            match call.validate_answer(&answer.kind, by) {
                Ok(ValidAnswer::Repeated) => receipts.push(Receipt::without_effect(&call)),
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
            Some(reply) if reply.action == *action && reply.content == *content => {
                Ok(Receipt::without_effect(&call))
            }
            Some(_) => Err(Rejected::of(Refusal::AlreadyAnswered, &call).into()),
        }
    }
}
