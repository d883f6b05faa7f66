//! Ending a run.
//!
//! A run that ended must leave no stock client that posts again by itself: every open call gets an outcome, the message never ends
//! in a step of calls, and `finish` carries metadata.

use fermata_protocol::{Answer, FinishReason, UiChunk, UiPart};
use fermata_tools::{CallState, Cancelled};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Deciding, Ending, Next, Phase, Run};

// === impl Run ===

impl Run {
    /// Returns whether a call has waited for its answer for too long.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expiry().is_some_and(|expires| expires <= now)
    }

    /// Returns whether the message has any content. A step without output of the model is none.
    pub fn has_content(&self) -> bool {
        self.snapshot().parts.iter().any(|part| *part != UiPart::StepStart)
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Ends the run because the model completed its answer, or because the answer was cut off and every call of it has its outcome.
    pub(super) fn finish(&mut self, reason: FinishReason) {
        let is_limited = self.run.is_limited(self.context.limits);
        let ending = if is_limited { Ending::StepLimit } else { Ending::Finished(reason) };
        self.finish_step();
        self.end_in_a_step_without_calls();
        self.publish_finish(reason, &ending);
        self.close(ending);
    }

    /// Ends the run in any state.
    pub(super) fn end_run(&mut self, ending: Ending) {
        if self.run.state.phase == Phase::Over {
            return;
        }
        self.abandon_step();
        self.cancel_open_calls(&ending);
        self.finish_step();
        let error_text = match &ending {
            Ending::Failed(error) if self.context.shows_model_errors => Some(error.for_developer()),
            ending => ending.public(),
        };
        if let Some(error_text) = error_text {
            self.show_idle();
            self.publish(UiChunk::Error { error_text });
            return self.close(ending);
        }
        self.end_in_a_step_without_calls();
        if ending == Ending::Stopped {
            self.publish(UiChunk::Abort { reason: Some("The run was stopped.".into()) });
        }
        self.publish_finish(FinishReason::Other, &ending);
        self.close(ending);
    }

    /// Makes a step without calls the last one, because stock clients post again after a message that ends in a step of calls.
    fn end_in_a_step_without_calls(&mut self) {
        if !self.run.step_calls().is_empty() && !self.run.is_in_earlier_message() {
            self.publish(UiChunk::StartStep);
            self.publish(UiChunk::FinishStep);
        }
    }

    /// Ends the run because the user has continued the conversation, and keeps the outputs that came with the new message. Only the saved
    /// message has them: any chunk but `abort` would double the message in the client that continued.
    pub(super) fn on_superseded(&mut self, outputs: &[Answer]) {
        self.abandon_step();
        for Answer { of, kind } in outputs {
            let index = self.run.find_call(of).filter(|&index| self.run.call(index).is_parked());
            if let Some(index) = index {
                self.apply_output(index, kind.clone());
            }
        }
        self.cancel_open_calls(&Ending::Superseded);
        // Readers see nothing of this.
        self.effects.after.publish.clear();
        self.publish(UiChunk::Abort { reason: Some("The conversation went on.".into()) });
        self.close(Ending::Superseded);
    }

    fn close(&mut self, ending: Ending) {
        self.run.state.phase = Phase::Over;
        self.notify_of_ending(&ending);
        self.effects.after.next = Next::Close(ending);
    }

    fn cancel_open_calls(&mut self, ending: &Ending) {
        for index in self.run.step_indexes() {
            let has_expired_question = self
                .run
                .elicitations()
                .any(|asked| asked.asker == index && asked.expires <= self.context.now);
            self.withdraw_elicitations(index);
            if self.run.state.phase == Phase::Deciding
                && let Some(reason) = self.run.call(index).denial_by_person()
            {
                self.show_error(index, Cancelled::Denied { reason }.text());
            }
            let call = self.run.call(index);
            if call.state().is_final() {
                continue;
            }
            let has_expired = has_expired_question
                || call.state().expires().is_some_and(|expires| expires <= self.context.now);
            let cancelled = match ending {
                Ending::Stopped => Cancelled::Stopped,
                Ending::Superseded => Cancelled::Superseded,
                Ending::Expired if has_expired => Cancelled::Expired,
                Ending::Expired
                | Ending::Finished(_)
                | Ending::StepLimit
                | Ending::ToolNotCalled { .. }
                | Ending::OutputLimit { .. }
                | Ending::ChatLimit { .. }
                | Ending::Failed(_)
                | Ending::CrashLoop
                | Ending::ToolFailed { .. } => Cancelled::RunEnded,
            };
            self.keep_last_report(index);
            let text = cancelled.text();
            self.change(index, CallState::Cancelled { cancelled });
            self.show_error(index, text);
        }
    }

    /// Publishes the last chunk of the message, with the metadata of the run.
    fn publish_finish(&mut self, reason: FinishReason, ending: &Ending) {
        self.show_idle();
        let elapsed = self.context.now.duration_since(self.run.settings.started).as_millis().max(0);
        let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
        let mut metadata =
            json!({ "model": self.run.settings.model, "durationMs": elapsed, "ending": ending.name() });
        if let Some(usage) = self.run.state.usage {
            metadata["usage"] = json!(usage);
        }
        if *ending == Ending::StepLimit {
            metadata["stopped"] = ending.name().into();
        }
        let mut calls = Map::new();
        for (index, call) in self.run.calls.iter().enumerate() {
            if self.run.is_own(call) {
                let mut about = json!(self.run.trouble(self.run.call(index), self.context.rules));
                // A call that was cancelled while it ran has no duration.
                let has_ended = matches!(call.state(), CallState::Success { .. } | CallState::Error { .. });
                if has_ended && let Some(ran_for) = call.ran_for() {
                    about["durationMs"] = u64::try_from(ran_for.as_millis()).unwrap_or(u64::MAX).into();
                }
                if about != json!({}) {
                    calls.insert(call.id.to_string(), about);
                }
            }
        }
        if !calls.is_empty() {
            metadata["calls"] = Value::Object(calls);
        }
        let chunk = UiChunk::Finish { finish_reason: Some(reason), message_metadata: Some(metadata) };
        self.publish(chunk);
    }
}
