//! Answers to the calls of a run.

use std::{collections::HashMap, net::IpAddr};

use fermata_protocol::{Answer, AnswerKind, ToolCallId};
use fermata_tools::{Check, Receipt};
use futures::{FutureExt, StreamExt};
use tokio::task::unconstrained;

use super::{ActiveRun, performing::context};
use crate::{
    AnswerError,
    run::{Context, Event, Given, Rejected},
    store::Change,
};

impl ActiveRun {
    /// Returns the inputs and contents of answers that have to be checked before they can be accepted, each with the beginning of the
    /// sentence that says that it does not fit.
    pub fn inputs_to_check(&self, answers: &[Answer]) -> Vec<(Check, &'static str)> {
        let context = context(&self.services, &self.policies, &self.toolbox, &self.record);
        self.run.inputs_to_check(answers, &context)
    }

    /// Accepts answers to calls of the run, all or none.
    pub async fn answer(
        &mut self,
        answers: &[Answer],
        given: Given,
        address: Option<IpAddr>,
    ) -> Result<Vec<Receipt>, AnswerError> {
        let context = context(&self.services, &self.policies, &self.toolbox, &self.record);
        let valid = match self.run.validate(answers, &Context { address, ..context }) {
            Ok(valid) => valid,
            Err(rejected) => {
                if let Rejected::Denied(event) = &rejected {
                    let (owner, run) = (self.record.owner.clone(), Some(self.run.id.clone()));
                    let audit = Change::Audit { owner, run, event: event.clone() };
                    self.record.commit(&self.services, vec![audit]).await?;
                }
                return Err(rejected.into());
            }
        };
        if given == Given::Aside
            && let Some((_, first)) = valid.denied.first()
        {
            let reason = first.reason.clone().unwrap_or_else(|| "A rule denies this call by now.".into());
            self.apply(Event::ApprovalsDenied(valid.denied)).await?;
            return Err(AnswerError::DeniedByPolicy(reason));
        }
        let mut answers = valid.answers;
        let mut woken = self.wake(&answers.calls);
        let expected = std::mem::take(&mut answers.calls);
        for (place, _) in expected {
            if let Some(answer) = woken.remove(&self.run.calls[place].id) {
                answers.calls.push((place, answer));
            }
        }
        if !answers.calls.is_empty() || !answers.elicitations.is_empty() {
            self.apply(Event::Answered(answers, given)).await?;
        }
        Ok(valid.receipts)
    }

    /// Hands answers to the calls that wait for them, and returns what has arrived.
    fn wake(&mut self, answers: &[(usize, AnswerKind)]) -> HashMap<ToolCallId, AnswerKind> {
        for (place, answer) in answers {
            let call = &self.run.calls[*place].id;
            if self.pending.answer(call, answer.clone()).is_err() {
                tracing::error!(chat = %self.record.chat, %call, "a call that waits for an answer is not among the pending calls");
            }
        }
        let mut woken = HashMap::new();
        // Everything that was answered is ready, however much it is: tokio's budget for one turn of a task must not end this early.
        while let Some(Some((call, answer))) = unconstrained(self.answers.next()).now_or_never() {
            if let Some(answer) = answer {
                woken.insert(call, answer);
            }
        }
        woken
    }
}
