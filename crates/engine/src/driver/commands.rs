//! What a chat is asked, except to be posted to.

use std::net::IpAddr;

use fermata_protocol::{Answer, AnswerKind, AnswerTarget, ElicitationId, EventId, Profile, RunId};
use fermata_tools::{AuditAction, AuditEvent, Call, Check, Grant, Owner, Receipt, Refusal, ValidAnswer};
use tokio::time::Instant;

use super::{Checked, Command, Driver, Live, Reply, saving::read_chunks};
use crate::{
    AnswerError, ChatView, Following, GrantedTool, Pending, ReadError, Reader, Unavailable,
    errors::RequestError,
    instances::{Order, forward, home_of},
    run::{Ending, Given, Rejected, asker_in, goodbye},
    run_log::Writer,
    store::{Change, StoreError},
    view::{Detail, Outline, SHORT_CHAT},
};

/// How far an answer has come.
enum Answering {
    Done(Vec<Receipt>),
    /// These are to be checked first, each with what is said of one that does not fit.
    Checks(Vec<(Check, &'static str)>),
}

impl Answering {
    fn into_receipts(self) -> Vec<Receipt> {
        match self {
            Self::Done(receipts) => receipts,
            Self::Checks(_) => Vec::new(),
        }
    }
}

/// How often a command is tried again when somebody else has written to the chat just before.
const TRIES: usize = 5;

impl Driver {
    /// Does what it is asked, or hands it on to the instance that drives the chat. Where that has changed meanwhile, it looks again.
    pub(super) async fn obey(&mut self, mut order: Order) -> Result<(), StoreError> {
        self.was_woken |= matches!(order.command, Command::Wake);
        let mut tries = 0;
        loop {
            tries += 1;
            if !self.has_read {
                self.read().await?;
            }
            if let Some(driver) = self.record.as_ref().and_then(|record| record.driver.clone()) {
                // It may be another one the next time.
                self.has_read = false;
                forward(&self.inner, &self.chat, driver, order);
                return Ok(());
            }
            match self.attempt(&mut order, tries == TRIES).await {
                Err(StoreError::Fenced) if tries < TRIES => self.forget(),
                done => return done,
            }
        }
    }

    async fn attempt(&mut self, order: &mut Order, is_last: bool) -> Result<(), StoreError> {
        // Reading needs no commit, which would tell that others have gone on with the run.
        self.verify_in_doubt().await?;
        self.address = order.command.address();
        let done = self.dispatch(order, is_last).await;
        self.address = None;
        done
    }

    async fn dispatch(&mut self, order: &mut Order, is_last: bool) -> Result<(), StoreError> {
        let (until, from_afar) = (order.until, order.from_afar);
        match &mut order.command {
            Command::Submit(submission, reply) => {
                let result = self.submit(submission).await;
                self.settle(reply, result, is_last).await
            }
            Command::Answer { owner, answers, checked, reply, address } => {
                let result = self.answer(owner, answers, checked).await;
                if let Ok(Answering::Checks(checks)) = result {
                    let (owner, address) = (owner.clone(), *address);
                    let (answers, reply) = (std::mem::take(answers), reply.take());
                    let command = move |checked| Command::Answer { owner, address, answers, checked, reply };
                    self.check_apart(checks, until, from_afar, command);
                    return Ok(());
                }
                let result = result.map(Answering::into_receipts);
                self.settle(reply, result, is_last).await
            }
            Command::Resume { owner, after, reply } => {
                let result = self.resume(owner, after.as_ref()).await;
                self.settle(reply, result, is_last).await
            }
            Command::Rejoin { owner, run, place, profile, reply } => {
                let result = self.rejoin(owner, run, *place, *profile).await;
                self.settle(reply, result, is_last).await
            }
            Command::Stop { owner, reply } => {
                let result = self.stop(owner).await;
                self.settle(reply, result, is_last).await
            }
            Command::View { owner, detail, reply } => {
                let result = self.view(owner, *detail).await;
                self.settle(reply, result, is_last).await
            }
            Command::Delete { owner, reply } => {
                let result = self.delete(owner).await;
                self.settle(reply, result, is_last).await
            }
            Command::Grants { owner, reply } => {
                let result = self.grants(owner);
                self.settle(reply, result, is_last).await
            }
            Command::EndGrant { owner, tool, reply, address: _ } => {
                let result = self.end_grant(owner, tool).await;
                self.settle(reply, result, is_last).await
            }
            Command::Wake => self.take_up().await,
            Command::Verify => self.verify().await,
        }
    }

    /// Sends a result, and hands on what ends the driver: a database that has failed, or holds something else than it should. Where the
    /// chat has changed meanwhile, nothing is sent while there is another try.
    async fn settle<T, E: RequestError>(
        &mut self,
        reply: &mut Reply<T, E>,
        result: Result<T, E>,
        is_last: bool,
    ) -> Result<(), StoreError> {
        let result = match result {
            // It needs no commit that would tell whether it is still right.
            Err(refusal) if refusal.store().is_none() && self.inner.store.is_shared() => {
                Err(self.verify().await.map_or_else(E::from, |()| refusal))
            }
            result => result,
        };
        let broken = result.as_ref().err().and_then(RequestError::store).cloned();
        if broken != Some(StoreError::Fenced) || is_last {
            reply.send(result);
        }
        broken.map_or(Ok(()), Err)
    }

    /// Whether the chat exists and is this owner's.
    pub(super) fn belongs_to(&self, owner: &Owner) -> bool {
        self.record.as_ref().is_some_and(|record| record.owner == *owner)
    }

    async fn answer(
        &mut self,
        owner: &Owner,
        answers: &[Answer],
        checked: &Checked,
    ) -> Result<Answering, AnswerError> {
        if !self.belongs_to(owner) {
            return Err(AnswerError::NotFound("There is no chat with this id.".into()));
        }
        self.take_up().await?;
        let (live, old): (Vec<&Answer>, Vec<&Answer>) =
            answers.iter().partition(|answer| self.is_live(&answer.of));
        // Answers to calls of runs that are over can only be repeated, so looking at them first keeps the batch whole.
        let mut receipts = Vec::with_capacity(answers.len());
        for answer in old {
            receipts.push(self.answer_again(answer).await?);
        }
        let live: Vec<Answer> = live.into_iter().cloned().collect();
        let to_check = match checked {
            Checked::NotYet => self.inputs_to_check(&live),
            Checked::Fits | Checked::Misfit(_) => Vec::new(),
        };
        // What refuses the batch for another reason counts more.
        if let Checked::Misfit(words) = checked
            && !self.inputs_to_check(&live).is_empty()
        {
            return Err(AnswerError::Invalid(words.clone()));
        }
        if !to_check.is_empty() {
            return Ok(Answering::Checks(to_check));
        }
        receipts.extend(self.answer_live(&live, Given::Aside).await?);
        Ok(Answering::Done(receipts))
    }

    fn inputs_to_check(&self, answers: &[Answer]) -> Vec<(Check, &'static str)> {
        let (Some(live), Some(record)) = (&self.live, &self.record) else { return Vec::new() };
        let context = self.inner.context(&live.current.rules, &live.toolbox, record);
        live.run.inputs_to_check(answers, &context)
    }

    /// Has the inputs of an answer checked while the driver goes on, and then gives it the command again.
    fn check_apart(
        &self,
        checks: Vec<(Check, &'static str)>,
        until: Instant,
        from_afar: bool,
        command: impl FnOnce(Checked) -> Command + Send + 'static,
    ) {
        let (inner, chat) = (self.inner.clone(), self.chat.clone());
        self.inner.tasks.spawn(async move {
            let (checks, about): (Vec<Check>, Vec<&str>) = checks.into_iter().unzip();
            let results = inner.checker.check_all(checks, inner.settings.limits.check_timeout).await;
            let misfit = about.iter().zip(results).find_map(|(about, result)| Some((about, result.err()?)));
            let checked = match misfit {
                Some((about, fault)) => Checked::Misfit(format!("{about}: {fault}.")),
                None => Checked::Fits,
            };
            inner.tell(&chat, Order { command: command(checked), until, from_afar });
        });
    }

    fn is_live(&self, target: &AnswerTarget) -> bool {
        self.live.as_ref().is_some_and(|live| live.run.find(target).is_some())
    }

    async fn answer_again(&mut self, answer: &Answer) -> Result<Receipt, AnswerError> {
        if let AnswerTarget::Elicitation(id) = &answer.of {
            return self.answer_question_again(id, answer).await;
        }
        let Some(call) = self.inner.store.call(&self.chat, &answer.of).await? else {
            return Err(Rejected::Unknown(answer.of.clone()).into());
        };
        match call.validate_answer(&answer.kind) {
            Ok(ValidAnswer::Repeated) => Ok(Receipt {
                tool_call_id: call.id.clone(),
                state: call.state().name(),
                waiting_for: Vec::new(),
            }),
            Ok(ValidAnswer::New) => Err(Rejected::of(Refusal::Gone, &call).into()),
            Err(refusal) => Err(Rejected::of(refusal, &call).into()),
        }
    }

    /// An answer to what a tool has asked in a run that is over, or before a restart: only the record knows of it.
    async fn answer_question_again(
        &mut self,
        id: &ElicitationId,
        answer: &Answer,
    ) -> Result<Receipt, AnswerError> {
        let mut messages = self.inner.store.messages(&self.chat).await?;
        messages.extend(self.live.as_ref().map(|live| live.run.snapshot()));
        let Some(asker) = messages.iter().rev().find_map(|message| asker_in(message, id)) else {
            return Err(Rejected::Unknown(answer.of.clone()).into());
        };
        let Some(call) = self.inner.store.call(&self.chat, &AnswerTarget::Call(asker)).await? else {
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

    /// Judges, wakes what waits, and lets the run go on. Empty where no run is at hand.
    pub(super) async fn answer_live(
        &mut self,
        answers: &[Answer],
        given: Given,
    ) -> Result<Vec<Receipt>, AnswerError> {
        let (Some(live), Some(record)) = (&mut self.live, &self.record) else { return Ok(Vec::new()) };
        let mut context = self.inner.context(&live.current.rules, &live.toolbox, record);
        context.address = self.address;
        let taken = match live.run.judge(answers, &context) {
            Ok(taken) => taken,
            Err(rejected) => {
                if let Rejected::Denied(event) = &rejected {
                    let (owner, run) = (record.owner.clone(), Some(live.run.id.clone()));
                    self.commit(vec![Change::Audit { owner, run, event: event.clone() }]).await?;
                }
                return Err(rejected.into());
            }
        };
        if given == Given::Aside
            && let Some((_, first)) = taken.denied.first()
        {
            let words = first.reason.clone().unwrap_or_else(|| "A rule denies this call by now.".into());
            let effects =
                self.decide(|run, context, effects| run.deny_approved(taken.denied, context, effects));
            self.perform(effects).await?;
            return Err(AnswerError::DeniedByPolicy(words));
        }
        let to_wake = taken
            .answers
            .iter()
            .map(|(place, answer)| (live.run.calls[*place].id.clone(), answer.clone()))
            .collect();
        let mut woken = live.wake(to_wake);
        let answers: Vec<_> = taken
            .answers
            .into_iter()
            .filter_map(|(place, _)| Some((place, woken.remove(&live.run.calls[place].id)?)))
            .collect();
        let elicited = taken.elicited;
        if !answers.is_empty() || !elicited.is_empty() {
            let effects =
                self.decide(|run, context, effects| run.take(answers, elicited, given, context, effects));
            self.perform(effects).await?;
        }
        Ok(taken.receipts)
    }

    async fn resume(
        &mut self,
        owner: &Owner,
        after: Option<&EventId>,
    ) -> Result<Option<Following>, ReadError> {
        if !self.belongs_to(owner) {
            return Ok(None);
        }
        self.take_up().await?;
        self.claim().await?;
        let (Some(live), Some(record)) = (&self.live, &self.record) else { return Ok(None) };
        if live.run.state.let_go {
            return Ok(None);
        }
        let start = live.log.log().start_after(record.profile, after);
        let reader = live.log.read(record.profile, start);
        Ok(Some(self.follow(live, reader)))
    }

    /// A reader comes from another log of the run, having read so much of it.
    async fn rejoin(
        &mut self,
        owner: &Owner,
        run: &RunId,
        place: u64,
        profile: Profile,
    ) -> Result<Option<Following>, ReadError> {
        if !self.belongs_to(owner) {
            return Ok(None);
        }
        self.take_up().await?;
        self.claim().await?;
        let Some(live) = self.live.as_ref().filter(|live| live.run.id == *run) else {
            return self.rejoin_finished(run, place, profile).await;
        };
        let Some(start) = live.log.log().go_on_after(profile, place) else { return Ok(None) };
        let reader = if live.run.state.let_go {
            // The others were sent away before this one came.
            let mut left = live.log.reopen();
            left.end(goodbye());
            left.read(profile, start)
        } else {
            live.log.read(profile, start)
        };
        Ok(Some(self.follow(live, reader)))
    }

    /// The same where the run is over: what the reader has not read yet is kept for a while.
    async fn rejoin_finished(
        &mut self,
        run: &RunId,
        place: u64,
        profile: Profile,
    ) -> Result<Option<Following>, ReadError> {
        let Some(chunks) = self.inner.store.finished_log(&self.chat, run).await? else { return Ok(None) };
        let mut log = Writer::restore(run.clone(), &read_chunks(&chunks)?);
        log.end(Vec::new());
        let Some(start) = log.log().go_on_after(profile, place) else { return Ok(None) };
        let reader = log.read(profile, start);
        Ok(Some(Following { chat: self.chat.clone(), run: run.clone(), reader }))
    }

    /// A reader that finds the run again wherever it goes on.
    pub(super) fn follow(&self, live: &Live, reader: Reader) -> Following {
        let owner = self.record.as_ref().map_or_else(Owner::anyone, |record| record.owner.clone());
        let home = home_of(&self.inner, &owner, &self.chat);
        Following { chat: self.chat.clone(), run: live.run.id.clone(), reader: reader.at_home(home) }
    }

    async fn stop(&mut self, owner: &Owner) -> Result<(), ReadError> {
        if !self.belongs_to(owner) {
            return Ok(());
        }
        self.take_up().await?;
        let effects = self.decide(|run, context, effects| run.end(Ending::Stopped, context, effects));
        Ok(self.perform(effects).await?)
    }

    async fn view(&mut self, owner: &Owner, detail: Detail) -> Result<ChatView, ReadError> {
        if !self.belongs_to(owner) {
            return Err(ReadError::NotFound);
        }
        self.take_up().await?;
        let Some((profile, bytes)) = self.record.as_ref().map(|record| (record.profile, record.bytes)) else {
            return Err(ReadError::NotFound);
        };
        let (left_out, newer) = match &self.live {
            // With the decisions that came since the readers were sent away.
            Some(live) if live.run.state.let_go => (None, Some(live.run.snapshot())),
            Some(live) => (Some(live.run.message.clone()), None),
            None => (None, None),
        };
        let open = left_out.is_some();
        let is_long = detail == Detail::InPages && bytes > SHORT_CHAT;
        let mut messages = Vec::new();
        if !is_long && detail != Detail::Pending {
            messages = self.inner.store.messages(&self.chat).await?;
            messages.retain(|message| left_out.as_ref() != Some(&message.id));
            for message in &mut messages {
                if let Some(newer) = &newer
                    && newer.id == message.id
                {
                    *message = newer.clone();
                }
            }
        }
        let outline = if is_long {
            let outline = self.inner.store.outline(&self.chat).await?;
            Some(Outline { profile, messages: outline, left_out, newer })
        } else {
            None
        };
        let calls = self.live.iter().flat_map(|live| live.run.pending());
        let calls = calls.map(|call: &Call| Pending::Call(Box::new(call.clone())));
        let questions = self.live.iter().flat_map(|live| live.run.pending_questions());
        Ok(ChatView {
            id: self.chat.clone(),
            messages: messages.iter().map(|message| profile.message(message)).collect(),
            pending: calls.chain(questions).collect(),
            open,
            outline,
        })
    }

    /// What is allowed for always, as far as the tools are still what they were. Of a tool that is not there nobody can tell.
    fn grants(&self, owner: &Owner) -> Result<Vec<GrantedTool>, ReadError> {
        let Some(record) = self.record.as_ref().filter(|record| record.owner == *owner) else {
            return Err(ReadError::NotFound);
        };
        let server_has = self.inner.policies.current();
        let toolbox = self.live.as_ref().map_or(&server_has.toolbox, |live| &live.toolbox);
        let counts = |(tool, grant): &(&String, &Grant)| match toolbox.find(tool) {
            Some(found) => grant.covers(found.spec()),
            None => grant.fingerprint.is_some(),
        };
        let listed =
            |(tool, grant): (&String, &Grant)| GrantedTool { tool: tool.clone(), since: grant.since };
        Ok(record.grants.iter().filter(counts).map(listed).collect())
    }

    /// Takes back that a tool is allowed for always. If it is not, nothing happens.
    async fn end_grant(&mut self, owner: &Owner, tool: &str) -> Result<(), ReadError> {
        let Some(record) = self.record.as_ref().filter(|record| record.owner == *owner) else {
            return Err(ReadError::NotFound);
        };
        if !record.grants.contains_key(tool) {
            return Ok(());
        }
        let event = AuditEvent {
            action: AuditAction::GrantRevoked,
            decided_by: Some(owner.clone()),
            address: self.address,
            call: None,
            tool: tool.to_owned(),
            rule: None,
            reason: None,
            input_hash: None,
        };
        let audit = Change::Audit { owner: owner.clone(), run: None, event: Box::new(event) };
        self.commit(vec![Change::EndGrant { tool: tool.to_owned(), by: owner.clone() }, audit]).await?;
        if let Some(record) = &mut self.record {
            record.grants.remove(tool);
        }
        Ok(())
    }

    async fn delete(&mut self, owner: &Owner) -> Result<(), ReadError> {
        let Some(record) = self.record.as_ref().filter(|record| record.owner == *owner) else {
            return Err(ReadError::NotFound);
        };
        self.inner.store.delete(&self.chat, record.fence).await?;
        // Nothing of it is saved any more, but those who read must not be left to post again.
        let effects = self.decide(|run, context, effects| run.end(Ending::Stopped, context, effects));
        self.record = None;
        if let Some(mut live) = self.live.take() {
            live.log.stage(&effects.publish);
            live.log.publish();
            live.log.end(Vec::new());
        }
        Ok(())
    }
}

impl Command {
    /// Tells whoever asked that the chat has no room for this. Nothing of it was done.
    pub fn refuse_as_busy(self) {
        match self {
            Self::Submit(_, mut reply) => reply.send(Err(Unavailable::Busy.into())),
            Self::Answer { mut reply, .. } => reply.send(Err(Unavailable::Busy.into())),
            Self::Resume { mut reply, .. } | Self::Rejoin { mut reply, .. } => {
                reply.send(Err(Unavailable::Busy.into()));
            }
            Self::Stop { mut reply, .. }
            | Self::Delete { mut reply, .. }
            | Self::EndGrant { mut reply, .. } => reply.send(Err(Unavailable::Busy.into())),
            Self::View { mut reply, .. } => reply.send(Err(Unavailable::Busy.into())),
            Self::Grants { mut reply, .. } => reply.send(Err(Unavailable::Busy.into())),
            Self::Wake | Self::Verify => {}
        }
    }

    /// Where it comes from, if that is noted.
    fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Submit(submission, _) => submission.address,
            Self::Answer { address, .. } | Self::EndGrant { address, .. } => *address,
            Self::Resume { .. }
            | Self::Stop { .. }
            | Self::View { .. }
            | Self::Delete { .. }
            | Self::Grants { .. }
            | Self::Rejoin { .. }
            | Self::Wake
            | Self::Verify => None,
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
            Rejected::Twice(id) => {
                Self::Invalid(format!("The batch answers the call {id} twice; answer each call once."))
            }
            Rejected::Denied(event) => {
                Self::DeniedByPolicy(event.reason.unwrap_or_else(|| "A rule denies this input.".into()))
            }
            Rejected::TooLarge(words) => Self::TooLarge(words),
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
