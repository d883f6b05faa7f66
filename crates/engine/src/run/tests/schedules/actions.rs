//! The actions of others: people and pages answer, tools ask and settle, locks are granted.

use fermata_protocol::ElicitAction;
use fermata_tools::{ErrorType, ValidAnswer};

use super::{super::*, world::World};

fn always_of(scope: &str) -> Option<Always> {
    Some(Always { scope: Some(scope.into()), ..Always::default() })
}

impl World {
    // === answers ===

    pub fn answer_call(&mut self, index: usize, how: usize, by_question: bool) {
        let Some(call) = self.run.calls.iter().rev().nth(index) else { return };
        let of = match &call.approval_request {
            Some(question) if by_question => AnswerTarget::Approval(question.id.clone()),
            Some(_) | None => AnswerTarget::Call(call.id.clone()),
        };
        let decision = |approved, always, input: Option<Value>| AnswerKind::Decision {
            approved,
            reason: (!approved).then(|| "no".into()),
            always,
            input: input.map(Into::into),
        };
        let kind = match how {
            0 => AnswerKind::Output { output: json!(1) },
            1 => AnswerKind::Failure { error_text: "no".into() },
            2 => decision(true, None, None),
            3 => decision(true, Some(Always::default()), None),
            4 => decision(true, None, Some(json!({"n": 2}))),
            5 => decision(true, None, Some(json!({"n": 10}))),
            6 => decision(true, always_of("n:1"), None),
            7 => decision(true, always_of("n:2"), Some(json!({"n": 2}))),
            8 => decision(true, always_of("n:9"), Some(json!({"n": 2}))),
            _ => decision(false, None, None),
        };
        self.answer(vec![Answer { of, kind }]);
    }

    pub fn answer_all(&mut self, approved: bool) {
        let waiting = self.run.pending();
        let answers = waiting.map(|call| {
            let id = call.id.as_str();
            match &call.approval_request {
                Some(request) if call.awaits_approval() => {
                    Answer { of: AnswerTarget::Approval(request.id.clone()), ..decision(id, approved) }
                }
                Some(_) | None => output(id, json!(2)),
            }
        });
        self.answer(answers.collect());
    }

    pub fn answer_question(&mut self, index: usize, how: usize) {
        let asked = self.run.elicited.iter().rev().nth(index);
        let Some(of) = asked.map(|elicited| AnswerTarget::Elicitation(elicited.id.clone())) else { return };
        let is_about_failure = self.run.elicited.iter().any(|asked| {
            AnswerTarget::Elicitation(asked.id.clone()) == of
                && asked.source == elicit::QuestionSource::Failure
        });
        let is_of_assistant = self.run.elicited.iter().any(|asked| {
            AnswerTarget::Elicitation(asked.id.clone()) == of
                && asked.source == elicit::QuestionSource::AskUser
        });
        let choice = |choice: &str| (ElicitAction::Accept, Some(json!({ "choice": choice })));
        let (action, content) = match how {
            0 if is_about_failure => choice("go_on"),
            1 if is_about_failure => choice("retry"),
            2 if is_about_failure => choice("stop"),
            0 if is_of_assistant => (ElicitAction::Accept, Some(json!({"size": "S"}))),
            0 | 1 => (ElicitAction::Accept, Some(json!({"size": 1}))),
            2 => (ElicitAction::Accept, Some(json!({"size": "big"}))),
            3 => (ElicitAction::Decline, None),
            _ => (ElicitAction::Cancel, None),
        };
        self.answer(vec![Answer { of, kind: AnswerKind::Elicited { action, content } }]);
    }

    /// Answers as the active run does: the answers are validated as a whole, taken from the pending calls and applied. An acknowledged
    /// answer that is repeated is accepted.
    pub fn answer(&mut self, answers: Vec<Answer>) {
        if self.live.is_none() {
            return;
        }
        self.use_newest_tools();
        let calls = |run: &Run| run.all_calls().cloned().collect::<Vec<_>>();
        let before = (calls(&self.run), self.run.snapshot());
        let by = self.scene.decider(DecisionChannel::Api);
        let valid = self.run.validate(&answers, &by, &self.scene.context(self.now));
        assert_eq!((calls(&self.run), self.run.snapshot()), before, "a validation changed something");
        let Ok(Validation { answers: valid, overruled, .. }) = valid else { return };
        if !overruled.is_empty() {
            return self.apply(Event::ApprovalsOverruled(overruled));
        }
        let mut checks = answers.iter().filter_map(|answer| self.run.check_of(answer, &self.scene.toolbox));
        if checks.any(|check| CHECKER.check_here(&check).is_err()) {
            return;
        }
        if valid.calls.is_empty() && valid.elicitations.is_empty() {
            return;
        }
        let live = self.live.as_mut().unwrap();
        for (index, kind) in &valid.calls {
            let call = &self.run.calls[*index];
            self.facts.person_decides(call, Some(kind));
            let was_pending = live.pending_calls.remove(&call.id);
            assert_ne!(
                was_pending,
                call.can_be_taken_back(&self.scene.requester),
                "an answered call was not pending: {call:?}"
            );
        }
        for ValidReply { index, content, .. } in &valid.elicitations {
            if content.as_ref().is_some_and(|content| content["choice"] == "retry") {
                self.facts.person_retries(&self.run.calls[self.run.elicited[*index].asker].id);
            }
        }
        let about: Vec<_> = valid
            .calls
            .iter()
            .map(|(index, kind)| (self.run.calls[*index].id.clone(), kind.clone()))
            .collect();
        self.apply(Event::Answered(valid));
        if self.live.is_none() {
            // The process has failed or the run is over, so it is not known whether the answer was acknowledged.
            return;
        }
        for (id, kind) in about {
            let call = self.run.calls.iter().find(|call| call.id == id).unwrap();
            assert_eq!(
                call.validate_answer(&kind, &self.scene.requester),
                Ok(ValidAnswer::Repeated),
                "{call:?} has forgotten {kind:?}"
            );
        }
    }

    // === tools ===

    pub fn job(&self, index: usize) -> Option<ToolCallId> {
        self.live.as_ref()?.jobs.get(index).map(|job| job.call.clone())
    }

    pub fn settle(&mut self, index: usize, how: usize) {
        let Some(call) = self.job(index) else { return };
        let outcome = match ErrorType::ALL.get(how) {
            Some(error_type) => Err(ToolError::new(*error_type, "it failed")),
            None => Ok(json!(3)),
        };
        // The tool releases its lock before its outcome arrives.
        self.live.as_mut().unwrap().jobs.remove(index);
        self.apply(Event::Settled(call, outcome));
    }

    pub fn ask(&mut self, index: usize) {
        let Some(call) = self.job(index) else { return };
        let mut effects = self.decide(Event::Elicits(call.clone(), question()));
        if let (Some(live), Some(Ok(id))) = (&mut self.live, effects.after.elicited.take()) {
            live.questions.insert(id, call);
        }
        self.perform(effects);
    }

    /// Grants the first lock that is free, and lets its call run if the run still wants it. Returns whether a lock was granted.
    pub fn grant_lock(&mut self) -> bool {
        self.grant_other_locks();
        let Some(live) = &mut self.live else { return false };
        for index in 0..live.waiters.len() {
            let Some(lock) = live.waiters[index].1.try_acquire() else { continue };
            let (call, _) = live.waiters.remove(index);
            if self.run.wait_of(&call) == Some(&Wait::Resource) {
                live.locks.insert(call.clone(), lock);
                let admission = self.admit_locked(&call, 0);
                self.apply(Event::Admission(vec![(call, admission)]));
            }
            return true;
        }
        self.grant_slot()
    }

    /// Lets the first call that waits for that be one more that runs. Returns whether there is one, and one more may run.
    fn grant_slot(&mut self) -> bool {
        let has_slot = self.has_slot(0);
        let Some(live) = self.live.as_mut().filter(|live| has_slot && !live.slot_waiters.is_empty()) else {
            return false;
        };
        let call = live.slot_waiters.remove(0);
        self.apply(Event::Admission(vec![(call, Admission::Granted)]));
        true
    }

    pub fn grant_other_locks(&mut self) {
        let mut index = 0;
        while index < self.other_waiters.len() {
            match self.other_waiters[index].try_acquire() {
                Some(lock) => {
                    self.other_locks.push(lock);
                    self.other_waiters.remove(index);
                }
                None => index += 1,
            }
        }
    }
}
