//! Calls and questions of a run that wait for answers, and the answers.

use std::net::IpAddr;

use fermata_protocol::{Answer, AnswerTarget, ElicitationId, ToolCallId};
use fermata_tools::{AnswerSchema, Call, Receipt};
use futures::FutureExt;

use super::{ActiveRun, ParkedGauge, performing::context};
use crate::{
    AnswerError,
    run::{AnswerSource, Context, Event, Rejected, Validation},
    store::Change,
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
            self.answers.push(
                async move {
                    let _gauge = gauge;
                    pending.await
                }
                .boxed(),
            );
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
        self.answers.push(pending.boxed());
    }

    /// Lets endpoints find the targets of these answers again, if they still wait: an answer that was refused does not consume a call.
    pub fn park_again(&mut self, answers: &[Answer]) {
        for answer in answers {
            self.pending.release(&answer.of);
            if let AnswerTarget::Elicitation(id) = &answer.of {
                self.park_question(id);
            } else if let Some(index) = self.run.find_call(&answer.of)
                && self.run.calls[index].accepts_answer()
            {
                let id = self.run.calls[index].id.clone();
                self.release(&id);
                self.park(&id);
            }
        }
    }

    /// Returns the answers that are to calls and questions of the run.
    pub fn own_answers(&self, answers: &[Answer]) -> Vec<Answer> {
        answers.iter().filter(|answer| self.run.find(&answer.of).is_some()).cloned().collect()
    }

    /// Returns whether answers have inputs or contents that have to be checked before they can be accepted.
    pub fn needs_check(&self, answers: &[Answer]) -> bool {
        let context = context(&self.services, &self.policies, &self.toolbox, &self.record);
        !self.run.inputs_to_check(answers, &context).is_empty()
    }

    /// Accepts answers to calls and questions of the run, all or none.
    pub async fn answer(
        &mut self,
        answers: &[Answer],
        source: AnswerSource,
        address: Option<IpAddr>,
    ) -> Result<Vec<Receipt>, AnswerError> {
        let valid = self.validate(answers, address).await?;
        if source == AnswerSource::SeparateRequest
            && let Some((_, first)) = valid.denied.first()
        {
            let reason = first.reason.clone().unwrap_or_else(|| "A rule denies this call by now.".into());
            self.apply(Event::ApprovalsDenied(valid.denied)).await?;
            return Err(AnswerError::DeniedByPolicy(reason));
        }
        let answers = valid.answers;
        for (index, _) in &answers.calls {
            let id = self.run.calls[*index].id.clone();
            self.release(&id);
        }
        if !answers.calls.is_empty() || !answers.elicitations.is_empty() {
            self.apply(Event::Answered(answers, source)).await?;
        }
        Ok(valid.receipts)
    }

    /// Returns the receipts for answers that were all given before, or `None` if one of them is new.
    pub async fn repeat(
        &mut self,
        answers: &[Answer],
        address: Option<IpAddr>,
    ) -> Result<Option<Vec<Receipt>>, AnswerError> {
        let valid = self.validate(answers, address).await?;
        let is_new = !valid.answers.calls.is_empty() || !valid.answers.elicitations.is_empty();
        Ok(if is_new { None } else { Some(valid.receipts) })
    }

    async fn validate(
        &mut self,
        answers: &[Answer],
        address: Option<IpAddr>,
    ) -> Result<Validation, AnswerError> {
        let context = context(&self.services, &self.policies, &self.toolbox, &self.record);
        let rejected = match self.run.validate(answers, &Context { address, ..context }) {
            Ok(valid) => return Ok(valid),
            Err(rejected) => rejected,
        };
        if let Rejected::Denied(event) = &rejected {
            let (owner, run) = (self.record.owner.clone(), Some(self.run.id.clone()));
            let audit = Change::Audit { owner, run, event: event.clone() };
            self.record.commit(&self.services, vec![audit]).await?;
        }
        Err(rejected.into())
    }
}

/// Returns what an answer may name to reach a call.
fn targets(call: &Call) -> Vec<AnswerTarget> {
    let mut targets = vec![AnswerTarget::Call(call.id.clone())];
    if let Some(request) = &call.approval_request {
        targets.push(AnswerTarget::Approval(request.id.clone()));
    }
    targets
}
