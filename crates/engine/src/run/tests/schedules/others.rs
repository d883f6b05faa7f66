//! What others do to a run: people and pages answer, tools report, ask and settle, lines move.

use fermata_protocol::ElicitAction;
use fermata_tools::{ErrorType, ValidAnswer};

use super::{super::*, world::World};

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
            input,
        };
        let kind = match how {
            0 => AnswerKind::Output { output: json!(1) },
            1 => AnswerKind::Failure { error_text: "no".into() },
            2 => decision(true, false, None),
            3 => decision(true, true, None),
            4 => decision(true, false, Some(json!({"n": 2}))),
            5 => decision(true, false, Some(json!({"n": 10}))),
            _ => decision(false, false, None),
        };
        self.answer(vec![Answer { of, kind }]);
    }

    pub fn answer_all(&mut self, approved: bool) {
        let waiting = self.run.pending();
        let answers = waiting.map(|call| {
            let id = call.id.as_str();
            if call.awaits_approval() { decision(id, approved) } else { output(id, json!(2)) }
        });
        self.answer(answers.collect());
    }

    pub fn answer_question(&mut self, index: usize, how: usize) {
        let asked = self.run.elicited.iter().rev().nth(index);
        let Some(of) = asked.map(|elicited| AnswerTarget::Elicitation(elicited.id.clone())) else { return };
        let (action, content) = match how {
            0 | 1 => (ElicitAction::Accept, Some(json!({"size": 1}))),
            2 => (ElicitAction::Accept, Some(json!({"size": "big"}))),
            3 => (ElicitAction::Decline, None),
            _ => (ElicitAction::Cancel, None),
        };
        self.answer(vec![Answer { of, kind: AnswerKind::Elicited { action, content } }]);
    }

    /// As the active run: the answers are validated as a whole, taken from the pending calls and applied; what was acknowledged is the same when it comes again.
    pub fn answer(&mut self, answers: Vec<Answer>) {
        if self.live.is_none() {
            return;
        }
        let before = (self.run.calls.clone(), self.run.snapshot());
        let valid = self.run.validate(&answers, &self.scene.context(self.now));
        assert_eq!((self.run.calls.clone(), self.run.snapshot()), before, "a validation changed something");
        let Ok(Validation { answers: valid, .. }) = valid else { return };
        let checks = self.run.inputs_to_check(&answers, &self.scene.context(self.now));
        if checks.iter().any(|(check, _)| CHECKER.check_here(check).is_err()) {
            return;
        }
        if valid.calls.is_empty() && valid.elicitations.is_empty() {
            return;
        }
        let driven = self.live.as_mut().unwrap();
        for (place, _) in &valid.calls {
            assert!(driven.pending_calls.remove(&self.run.calls[*place].id), "an answered call had no place");
        }
        let about: Vec<_> = valid
            .calls
            .iter()
            .map(|(place, kind)| (self.run.calls[*place].id.clone(), kind.clone()))
            .collect();
        self.apply(Event::Answered(valid, AnswerSource::SeparateRequest));
        if self.live.is_none() {
            // The process died around it, or the run is over: whether it was acknowledged is not known.
            return;
        }
        for (id, kind) in about {
            let call = self.run.calls.iter().find(|call| call.id == id).unwrap();
            assert_eq!(
                call.validate_answer(&kind),
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
        // The lock is given back when the outcome is on its way.
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

    /// Whose turn has come begins, as far as the run still wants it. Whether there was one.
    pub fn lines_move(&mut self) -> bool {
        self.strangers_move();
        let Some(live) = &mut self.live else { return false };
        for index in 0..live.places.len() {
            let Some(lock) = live.places[index].1.turn() else { continue };
            let (call, _) = live.places.remove(index);
            live.lock(&call, lock);
            let effects = self.decide(Event::LockGranted(call.clone()));
            if !effects.after.execute.contains(&call)
                && let Some(live) = &mut self.live
            {
                live.unlock(&call);
            }
            self.perform(effects);
            return true;
        }
        false
    }

    pub fn strangers_move(&mut self) {
        let mut index = 0;
        while index < self.strangers.len() {
            match self.strangers[index].turn() {
                Some(lock) => {
                    self.strangers_locks.push(lock);
                    self.strangers.remove(index);
                }
                None => index += 1,
            }
        }
    }
}
