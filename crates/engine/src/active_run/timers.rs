//! The deadlines of a run that this process has in memory, by the monotonic clock.
//!
//! Invariant: once a deadline is known, setting any other clock makes it come neither sooner nor later.
//!
//! So the event of a deadline says that it is time, and the run does what was due first. It must not ask [`Context::now`] again whether
//! the deadline has passed: if the clock was set back meanwhile, nothing would happen, and the same event would come again at once and
//! without end.
//!
//! [`Context::now`]: crate::run::Context::now

use std::time::Duration;

use fermata_tools::{ErrorStrategy, ErrorType, MAX_RETRIES};
use jiff::Timestamp;
use tokio::time::Instant;

use super::ActiveRun;
use crate::{
    deployment_clock::DeploymentClock,
    model::ModelError,
    ports::store::StoreError,
    run::{Ending, Event, detach_chunks},
};

/// A run without a deadline is looked at again after this time.
pub(super) const FURTHEST: Duration = Duration::from_secs(24 * 3600);

/// The deadlines of a run.
#[derive(Default)]
pub(super) struct Timers {
    /// The end of the hold, when the run's readers are detached.
    pub hold: Timer,
    /// The end of the first question that keeps other calls from a resource.
    pub question: Timer,
    /// The time when calls stop waiting for missing tools.
    pub tools: Timer,
    /// The time when an input no longer counts as being edited.
    pub editing: Timer,
    /// The time when something is due about an approval.
    pub approvals: Timer,
}

/// A deadline, if there is one, as a time and as a moment of the monotonic clock.
#[derive(Default)]
pub(super) struct Timer(Option<(Timestamp, Instant)>);

// === impl ActiveRun ===

impl ActiveRun {
    /// Ends everything past its deadline: waiting calls, the hold, the model's answer. A resumed run also comes here, before anybody
    /// reads it.
    pub async fn keep_deadlines(&mut self) -> Result<(), StoreError> {
        // This runs for each delta, and hardly ever is a deadline over.
        self.deadline = self.next_deadline();
        let now = Instant::now();
        if self.deadline > now {
            return Ok(());
        }
        self.end_what_is_over(now).await?;
        self.deadline = self.next_deadline();
        Ok(())
    }

    async fn end_what_is_over(&mut self, now: Instant) -> Result<(), StoreError> {
        // Every timer is named here, in `next_deadline` and in `set_timers`, so that a new one does not compile until it is in all three.
        let Timers { hold, question, tools, editing, approvals } = &self.timers;
        let is_over = |timer: &Timer| timer.ends().is_some_and(|ends| ends <= now);
        let (hold_is_over, question_is_over, tools_timed_out, editing_is_over, approvals_are_due) =
            (is_over(hold), is_over(question), is_over(tools), is_over(editing), is_over(approvals));
        if self.model_deadline().is_some_and(|deadline| deadline <= now) {
            let may_retry =
                self.step.model().is_some_and(|stream| !stream.has_begun && stream.retries < MAX_RETRIES);
            let strategy = self.policies.rules.error_policy.of(ErrorType::Timeout);
            if strategy == ErrorStrategy::Retry && may_retry {
                let (chat, run) = (&self.record.chat, &self.run.id);
                tracing::warn!(%chat, %run, "the model is silent and is asked again");
                return Box::pin(self.ask_model()).await;
            }
            return Box::pin(self.handle_model(Vec::new(), Some(ModelError::Timeout))).await;
        }
        if question_is_over {
            return Box::pin(self.apply(Event::QuestionTimedOut)).await;
        }
        if self.run.expiry().is_some() && self.run.is_expired(self.services.clock.reached()) {
            return Box::pin(self.apply(Event::Ended(Ending::Expired))).await;
        }
        if approvals_are_due {
            return Box::pin(self.apply(Event::ApprovalsDue)).await;
        }
        if tools_timed_out {
            return Box::pin(self.apply(Event::ToolsTimedOut)).await;
        }
        if self.harmless_at().is_some_and(|harmless| harmless <= now) {
            return Box::pin(self.note_harmless()).await;
        }
        if editing_is_over {
            return Box::pin(self.apply(Event::EditingTimedOut)).await;
        }
        if hold_is_over {
            self.end_hold().await?;
        }
        Ok(())
    }

    /// Detaches the readers if the run waits and holds them. Returns whether it did.
    pub async fn end_hold(&mut self) -> Result<bool, StoreError> {
        if self.run.hold_ends().is_none() {
            return Ok(false);
        }
        Box::pin(self.apply(Event::HoldEnded)).await?;
        self.log.detach_readers(detach_chunks());
        Ok(true)
    }

    /// Returns the time when the model times out, because it was silent or has answered for too long.
    fn model_deadline(&self) -> Option<Instant> {
        let limits = &self.services.settings.limits;
        let stream = self.step.model()?;
        let silent = stream.last_event_at + limits.model_timeout;
        Some(silent.min(stream.asked_at + limits.model_call_timeout))
    }

    /// Returns when the attempt at the run stops to count, if it counts now.
    fn harmless_at(&self) -> Option<Instant> {
        (self.attempts > 0).then_some(self.harmless_from)
    }

    /// Returns the earliest time when a deadline may have passed.
    fn next_deadline(&mut self) -> Instant {
        self.set_timers();
        let Timers { hold, question, tools, editing, approvals } = &self.timers;
        let deadlines = [
            hold.ends(),
            question.ends(),
            tools.ends(),
            editing.ends(),
            approvals.ends(),
            self.run.expiry().map(|expires| instant_of(expires, self.services.clock.reached())),
            self.model_deadline(),
            self.harmless_at(),
        ];
        deadlines.into_iter().flatten().min().unwrap_or_else(|| Instant::now() + FURTHEST)
    }

    fn set_timers(&mut self) {
        let clock = &self.services.clock;
        let tool_timeout = self.services.settings.limits.tool_timeout;
        let Timers { hold, question, tools, editing, approvals } = &mut self.timers;
        hold.set(self.run.hold_ends(), clock);
        question.set(self.run.first_question_ends(), clock);
        tools.set(self.run.tool_wait_ends(tool_timeout), clock);
        editing.set(self.run.editing_ends(), clock);
        approvals.set(self.run.approvals_due(), clock);
    }
}

// === impl Timer ===

impl Timer {
    /// Sets the deadline. If it is set to this time already, its moment does not change.
    pub fn set(&mut self, time: Option<Timestamp>, clock: &DeploymentClock) {
        if self.0.map(|(current, _)| current) != time {
            self.0 = time.map(|time| (time, instant_of(time, clock.now())));
        }
    }

    /// Returns the moment of the deadline.
    pub fn ends(&self) -> Option<Instant> {
        self.0.map(|(_, ends)| ends)
    }
}

/// Converts `time` to a moment of the monotonic clock, given that it is `now`. A moment more than a year ahead becomes one in a year,
/// because the monotonic clock may not reach further.
fn instant_of(time: Timestamp, now: Timestamp) -> Instant {
    let left = Duration::try_from(time.duration_since(now)).unwrap_or(Duration::ZERO);
    Instant::now() + left.min(Duration::from_secs(366 * 24 * 3600))
}
