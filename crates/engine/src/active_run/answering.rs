//! Calls and questions of a run that wait for answers, the answers, and clients that give them by posting the message again.

use fermata_protocol::{Answer, AnswerKind, AnswerTarget, PostedMessage, Profile};
use fermata_tools::{AuditEvent, Check, Decider, DecisionChannel, PolicyDecision, Receipt, input_hash};
use futures::{FutureExt, StreamExt};

use super::{ActiveRun, ParkedGauge, performing::context};
use crate::{
    api::{
        errors::{AnswerError, SubmitError},
        request::{AnswerRequest, CheckedAnswers, Following, PreviewInput, Submission},
        view::InputPreview,
    },
    ports::store::{AnswerRoute, AuditEntry, Change},
    run::{
        Context, Event, Overruled, Rejected, ValidAnswers, ValidReply, Validation, WaitingRun,
        claims_settled_call, client_view,
    },
    run_log::{Reader, Start},
    services::Patience,
    settings::RunHold,
};

impl ActiveRun {
    /// Parks what waits for an answer now, and releases what no longer does.
    pub(super) fn park(&mut self) {
        let awaited: Vec<AnswerTarget> = self.run.awaited().collect();
        self.pending.retain(|target| awaited.contains(target));
        for target in awaited {
            if self.pending.contains(&target) {
                continue;
            }
            let gauge = matches!(target, AnswerTarget::Call(_)).then(ParkedGauge::new);
            let pending = self.pending.park(target);
            let parked = async move {
                let _gauge = gauge;
                pending.await
            };
            self.parked.push(parked.boxed());
        }
    }

    /// Hands each answer to the call or question that waits for it, and returns what these have got.
    pub(super) async fn hand_over(&mut self, answers: ValidAnswers) -> ValidAnswers {
        let ValidAnswers { calls, elicitations, by } = answers;
        let mut received = ValidAnswers { calls: Vec::new(), elicitations: Vec::new(), by };
        for (index, kind) in calls {
            let target = AnswerTarget::Call(self.run.calls[index].id.clone());
            received.calls.extend(self.resolve(&target, kind).await.map(|kind| (index, kind)));
        }
        for ValidReply { index, action, content, message } in elicitations {
            let target = AnswerTarget::Elicitation(self.run.question(index).id.clone());
            if let Some(AnswerKind::Elicited { action, content }) =
                self.resolve(&target, AnswerKind::Elicited { action, content }).await
            {
                received.elicitations.push(ValidReply { index, action, content, message });
            }
        }
        received
    }

    /// Resolves a call or question, and returns the answer as what waits for it has got it.
    async fn resolve(&mut self, target: &AnswerTarget, answer: AnswerKind) -> Option<AnswerKind> {
        if let Err(answer) = self.pending.resolve(target, answer) {
            // Nothing waits for a decision that takes an approval back.
            return Some(answer);
        }
        while let Some(answer) = self.parked.next().await {
            // What was released before resolves to nothing.
            if answer.is_some() {
                return answer;
            }
        }
        None
    }

    /// Returns the calls and questions that a message of the user could answer.
    pub fn waiting(&self) -> WaitingRun {
        self.run.waiting(&self.context())
    }

    pub(super) fn context(&self) -> Context<'_> {
        context(&self.services, &self.policies, &self.toolbox, &self.record, &self.run, self.window())
    }

    /// Returns the checks that answers need before they can be accepted, each with the index of its answer.
    pub fn checks_of(&mut self, answers: &[Answer]) -> Vec<(usize, Check)> {
        self.use_newest_tools();
        let checks = answers.iter().map(|answer| self.run.check_of(answer, &self.toolbox));
        checks.enumerate().filter_map(|(index, check)| Some((index, check?))).collect()
    }

    /// Accepts those answers that are to calls and questions of the run, all or none.
    pub async fn answer(&mut self, request: &AnswerRequest) -> Result<Vec<Receipt>, AnswerError> {
        let AnswerRequest { answers, checked, by, .. } = request;
        let own = answers.iter().filter(|answer| self.run.find(&answer.of).is_some()).cloned();
        let valid = self.validate(&own.collect::<Vec<_>>(), by).await?;
        if let Some((index, first)) = valid.overruled.first()
            && by.how != DecisionChannel::Message
        {
            let error = match first {
                Overruled::Denied(PolicyDecision { reason, .. }) => AnswerError::DeniedByPolicy(
                    reason.clone().unwrap_or_else(|| "A rule denies this call by now.".into()),
                ),
                Overruled::ToolChanged | Overruled::NotApproved | Overruled::Lapsed => {
                    let call = &self.run.calls[*index];
                    AnswerError::tool_changed(&call.id, &call.tool)
                }
            };
            self.apply(Event::ApprovalsOverruled(valid.overruled)).await?;
            return Err(error);
        }
        let is_changed = |(index, _): &(usize, AnswerKind)| {
            let now = input_hash(self.run.calls[*index].effective_input());
            by.shown_hash.as_ref().is_some_and(|shown| *shown != now)
        };
        if valid.answers.calls.iter().any(is_changed) {
            return Err(AnswerError::Changed);
        }
        // An error besides an input that does not fit is the more important one.
        all_fit(answers, checked)?;
        if !valid.answers.is_empty() {
            let answers = self.hand_over(valid.answers).await;
            self.apply(Event::Answered(answers)).await?;
        }
        Ok(valid.receipts)
    }

    /// Returns how a call that waits for a decision would be shown with another input.
    pub fn preview(&mut self, request: &PreviewInput) -> Result<InputPreview, AnswerError> {
        self.use_newest_tools();
        let preview = self.run.preview(&request.answer, &self.context())?;
        all_fit(std::slice::from_ref(&request.answer), &request.checked)?;
        Ok(preview)
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
        self.record.head.profile = profile;
        self.unsaved.push(Change::Posted { profile });
        self.unsaved.extend(self.record.choose(&submission.body.fermata));
        let show = submission.body.fermata.show.clone();
        self.apply(Event::Followed { profile, hold, show }).await?;
        let (owner, by) = (submission.owner.clone(), submission.decider(DecisionChannel::Message));
        let answer = AnswerRequest { owner, by, answers, checked: Vec::new() };
        self.answer(&answer).await.map_err(|error| match error {
            AnswerError::Unavailable(unavailable) => SubmitError::Unavailable(unavailable),
            AnswerError::TooLarge(text) => SubmitError::TooLarge(text),
            other => SubmitError::Invalid(other.to_string()),
        })?;
        Ok(following)
    }

    pub(super) async fn validate(
        &mut self,
        answers: &[Answer],
        by: &Decider,
    ) -> Result<Validation, AnswerError> {
        self.use_newest_tools();
        let rejected = match self.run.validate(answers, by, &self.context()) {
            Ok(valid) => return Ok(valid),
            Err(rejected) => rejected,
        };
        if let Rejected::Denied(event) | Rejected::NotYours { event, .. } = &rejected {
            let (owner, chat, run) = (&self.record.head.owner, &self.record.chat, Some(&self.run.id));
            let audit = AuditEntry::of_chat(owner, chat, run, AuditEvent::clone(event));
            let audit = Change::Audit(Box::new(audit));
            self.record.commit(&self.services, Patience::Run, vec![audit]).await?;
        }
        Err(rejected.into())
    }
}

/// Returns an error if one of the inputs and contents that were checked does not fit its schema.
fn all_fit(answers: &[Answer], checked: &CheckedAnswers) -> Result<(), AnswerError> {
    let Some((index, Err(error))) = checked.iter().find(|(_, result)| result.is_err()) else { return Ok(()) };
    let subject = match answers[*index].of {
        AnswerTarget::Call(_) | AnswerTarget::Approval(_) => "The edited input does not fit the schema",
        AnswerTarget::Elicitation(_) => "The content does not fit what was asked for",
    };
    let (detail, places) = (format!("{subject}: {error}."), error.places.clone());
    Err(AnswerError::DoesNotFit { detail, places })
}
