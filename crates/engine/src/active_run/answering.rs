//! Calls and questions of a run that wait for answers, the answers, and clients that give them by posting the message again.

use std::net::IpAddr;

use fermata_protocol::{Answer, AnswerTarget, ElicitationId, PostedMessage, Profile, ToolCallId};
use fermata_tools::{
    AnswerSchema, AuditEvent, DecisionChannel, PendingCall, PolicyDecision, Receipt, ValidAnswer,
};
use futures::FutureExt;

use super::{
    ActiveRun, Happening, ParkedGauge,
    performing::{context, targets},
};
use crate::{
    api::{
        answer_batch::AnswerBatch,
        errors::{AnswerError, SubmitError},
        request::{Following, Submission},
    },
    ports::store::{AnswerRoute, AuditEntry, Change},
    run::{Context, Event, Overruled, Rejected, Validation, WaitingRun, claims_settled_call, client_view},
    run_log::{Reader, Start},
    services::Patience,
    settings::RunHold,
};

impl ActiveRun {
    /// Lets endpoints find a call that waits for an answer.
    pub(super) fn park(&mut self, id: &ToolCallId) {
        let Some(call) = self.run.calls.iter().find(|call| call.id == *id) else { return };
        let schema = self.toolbox.find(&call.tool).map(|tool| tool.answer_schema());
        for target in targets(call) {
            let pending = self.pending.park(target.clone(), schema.clone());
            // A call may be found by two ids, and counts once.
            let gauge = matches!(target, AnswerTarget::Call(_)).then(ParkedGauge::new);
            let answer = async move {
                let _gauge = gauge;
                answered(pending).await
            };
            self.waits.push(answer.boxed());
        }
    }

    /// Removes a call from those that endpoints find.
    pub(super) fn release(&mut self, id: &ToolCallId) {
        if let Some(call) = self.run.calls.iter().find(|call| call.id == *id) {
            for target in targets(call) {
                self.pending.release(&target);
            }
        }
    }

    /// Lets endpoints find a question that waits for an answer.
    pub(super) fn park_question(&mut self, id: &ElicitationId) {
        let Some(asked) = self.run.elicitations().find(|asked| asked.id == *id) else { return };
        let schema = AnswerSchema::of_elicitation(asked.question.requested_schema.clone());
        let pending = self.pending.park(AnswerTarget::Elicitation(id.clone()), Some(schema));
        self.waits.push(answered(pending).boxed());
    }

    /// Lets endpoints find the targets of these answers again, if they still wait: an answer that was refused does not consume a call. A call
    /// whose approval can be taken back is found only for an answer that does so.
    pub fn park_again(&mut self, answers: &[Answer]) {
        for answer in answers {
            self.pending.release(&answer.of);
            if let AnswerTarget::Elicitation(id) = &answer.of {
                self.park_question(id);
            } else if let Some(index) = self.run.find_call(&answer.of)
                && (self.run.calls[index].accepts_answer()
                    || self.run.calls[index].validate_answer(&answer.kind) == Ok(ValidAnswer::New))
            {
                let id = self.run.calls[index].id.clone();
                self.release(&id);
                self.park(&id);
            }
        }
    }

    /// Returns what a message of the user could answer.
    pub fn waiting(&self) -> WaitingRun {
        self.run.waiting(&self.context())
    }

    fn context(&self) -> Context<'_> {
        context(&self.services, &self.policies, &self.toolbox, &self.record, self.window())
    }

    /// Returns the answers that are to calls and questions of the run.
    pub fn own_answers(&self, answers: &[Answer]) -> Vec<Answer> {
        answers.iter().filter(|answer| self.run.find(&answer.of).is_some()).cloned().collect()
    }

    /// Returns whether answers have inputs or contents that have to be checked before they can be accepted.
    pub fn needs_check(&mut self, answers: &[Answer]) -> bool {
        self.use_newest_tools();
        !self.run.inputs_to_check(answers, &self.context()).is_empty()
    }

    /// Accepts answers to calls and questions of the run, all or none.
    pub async fn answer(
        &mut self,
        answers: &[Answer],
        how: DecisionChannel,
        address: Option<IpAddr>,
    ) -> Result<Vec<Receipt>, AnswerError> {
        let valid = self.validate(answers, how, address).await?;
        if how != DecisionChannel::Message
            && let Some((index, first)) = valid.overruled.first()
        {
            let error = match first {
                Overruled::Denied(PolicyDecision { reason, .. }) => AnswerError::DeniedByPolicy(
                    reason.clone().unwrap_or_else(|| "A rule denies this call by now.".into()),
                ),
                Overruled::ToolChanged => {
                    let call = &self.run.calls[*index];
                    AnswerError::tool_changed(&call.id, &call.tool)
                }
            };
            self.apply(Event::ApprovalsOverruled(valid.overruled)).await?;
            return Err(error);
        }
        let answers = valid.answers;
        for (index, _) in &answers.calls {
            let id = self.run.calls[*index].id.clone();
            self.release(&id);
        }
        if !answers.calls.is_empty() || !answers.elicitations.is_empty() {
            self.apply(Event::Answered(answers)).await?;
        }
        Ok(valid.receipts)
    }

    /// Returns the receipts for answers that were all given before, or `None` if one of them is new.
    pub async fn repeat(
        &mut self,
        answers: &[Answer],
        how: DecisionChannel,
        address: Option<IpAddr>,
    ) -> Result<Option<Vec<Receipt>>, AnswerError> {
        let valid = self.validate(answers, how, address).await?;
        let is_new = !valid.answers.calls.is_empty() || !valid.answers.elicitations.is_empty();
        Ok(if is_new { None } else { Some(valid.receipts) })
    }

    /// Returns a reader as the reply to a request.
    pub fn follow(&self, reader: Reader) -> Following {
        Following { chat: self.record.chat.clone(), run: self.run.id.clone(), reader }
    }

    /// Continues the run for a client that has posted its message again, and accepts the answers in it.
    pub async fn continue_with(
        &mut self,
        posted: &PostedMessage,
        submission: &Submission,
        profile: Profile,
    ) -> Result<Following, SubmitError> {
        let view = client_view(&posted.parts);
        let answers = self.run.new_answers(&posted.parts);
        // A run that is at work will show something that this client does not have.
        let has_all = self.run.is_waiting() && self.run.is_up_to_date(&view);
        if answers.is_empty() && (has_all || !claims_settled_call(&self.run.snapshot(), &view)) {
            return Err(SubmitError::nothing_new());
        }
        if !answers.is_empty() && self.run.is_detached() && self.run.state.hold != RunHold::ZERO {
            if self.services.holds.learn_from_repost(submission) {
                let (owner, route) = (submission.owner.clone(), AnswerRoute::Repost);
                self.unsaved.push(Change::Answered { owner, route });
            }
            tracing::info!(
                chat = %self.record.chat,
                run = %self.run.id,
                held = ?self.run.state.hold.duration(),
                "a page answered by a second POST /api/chat after its stream had been held in vain; with hold = auto, streams of this owner's \
                 stock pages are not held from now on; clients that answer so and send a fermata object should set fermata.hold to \"0s\""
            );
        }
        self.unsaved.extend(self.record.put_show(&submission.body.fermata.show));
        let hold = self.services.holds.of(submission, &*self.services.store).await?;
        let reconciliation = self.run.reconcile(&view).ok_or_else(SubmitError::nothing_new)?;
        // The reader is opened first, because the answers may be the end of the run.
        let start =
            Start { after: reconciliation.after, prologue: reconciliation.prologue, ..Start::default() };
        let following = self.follow(self.log.read(profile, start));
        // The post brings its own client version, hold and wishes; the run's other settings stay.
        self.record.profile = profile;
        self.unsaved.push(Change::Posted { profile });
        self.unsaved.extend(self.record.choose(&submission.body.fermata));
        let show = submission.body.fermata.show.clone();
        self.apply(Event::Followed { profile, hold, show }).await?;
        self.answer(&answers, DecisionChannel::Message, submission.address).await.map_err(
            |error| match error {
                AnswerError::Unavailable(unavailable) => SubmitError::Unavailable(unavailable),
                AnswerError::TooLarge(text) => SubmitError::TooLarge(text),
                other => SubmitError::Invalid(other.to_string()),
            },
        )?;
        Ok(following)
    }

    pub(super) async fn validate(
        &mut self,
        answers: &[Answer],
        how: DecisionChannel,
        address: Option<IpAddr>,
    ) -> Result<Validation, AnswerError> {
        self.use_newest_tools();
        let context = Context { how: Some(how), address, ..self.context() };
        let rejected = match self.run.validate(answers, &context) {
            Ok(valid) => return Ok(valid),
            Err(rejected) => rejected,
        };
        if let Rejected::Denied(event) = &rejected {
            let (owner, chat, run) = (&self.record.owner, &self.record.chat, Some(&self.run.id));
            let audit = AuditEntry::of_chat(owner, chat, run, AuditEvent::clone(event));
            let audit = Change::Audit(Box::new(audit));
            self.record.commit(&self.services, Patience::Run, vec![audit]).await?;
        }
        Err(rejected.into())
    }
}

/// Waits for the answer to a call or question.
async fn answered(pending: PendingCall<AnswerBatch>) -> Happening {
    match pending.await {
        Some(answers) => Happening::Answered(answers),
        // It was released.
        None => Happening::Nothing,
    }
}
