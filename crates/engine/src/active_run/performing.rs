//! Performing the effects of a run's decisions.

use fermata_protocol::ToolCallId;
use fermata_tools::{
    CallContext, CallOrigin, Checking, ElicitationReply, ResourceKey, SlotRequest, Toolbox, Wait,
};
use futures::FutureExt;

use super::{ActiveRun, Admitted, Happening, Ownership, StepWork, ToolEvent};
use crate::{
    context::Window,
    ports::store::StoreError,
    ports::traces::RunTrace,
    record::Record,
    run::parent_of_call,
    run::{Admission, AfterCommit, BeforeCommit, Context, Effects, Ending, Event, Next, Run},
    services::{LockRequest, Patience, PolicySnapshot, ResourceLock, Services},
    step::call_executor::CallExecutor,
};

impl ActiveRun {
    /// Has the run decide about an event, and performs the effects.
    pub async fn apply(&mut self, event: Event) -> Result<(), StoreError> {
        let effects = self.decide(event);
        self.perform(effects).await
    }

    /// Has the run decide about an event. Checks and locks that it asks for and that are there at once are its next events,
    /// so that everything that follows is saved in one commit.
    pub(super) fn decide(&mut self, event: Event) -> Effects {
        let window = self.window();
        // What is known of the user may have to be looked for again after a recovery.
        let is_recovery = matches!(event, Event::Resumed | Event::GivenUp | Event::Recollected(_));
        let mut effects = self.decide_event(event, window);
        loop {
            // What was granted to calls that do not run after all is given back.
            let (run, execute) = (&self.run, &effects.after.execute);
            self.admitted
                .retain(|call, _| execute.contains(call) || run.wait_of(call) == Some(&Wait::Capacity));
            match self.next_at_once(&mut effects.before) {
                Some(next) => effects.append(self.decide_event(next, window)),
                None => break,
            }
        }
        effects.commit.is_progress = self.run.is_progress(&effects, is_recovery);
        self.is_saved &= effects.commit.is_empty();
        effects
    }

    fn decide_event(&mut self, event: Event, window: Option<Window>) -> Effects {
        if self.run.makes_own_calls() {
            // They are a step of their own, so they go by the newest rules.
            self.use_policies(self.services.policies.current());
        }
        // What the model says is decided about with the next event, and there are many of its pieces.
        if !matches!(event, Event::Model(_)) {
            self.use_newest_tools();
        }
        let context = context(&self.services, &self.policies, &self.toolbox, &self.record, &self.run, window);
        self.run.apply(event, &context)
    }

    /// Begins the checks and the requests for locks that were asked for. Returns the next event, if results are there at once.
    fn next_at_once(&mut self, before: &mut BeforeCommit) -> Option<Event> {
        if !before.checks.is_empty() {
            let (calls, checks): (Vec<_>, Vec<_>) = std::mem::take(&mut before.checks).into_iter().unzip();
            match self.services.checker.check(checks, self.services.settings.limits.check_timeout) {
                Checking::Done(results) => {
                    return Some(Event::InputsChecked(calls.into_iter().zip(results).collect()));
                }
                Checking::Later(results) => {
                    let results = results.map(|results| calls.into_iter().zip(results).collect());
                    self.step = StepWork::InputChecks(results.boxed());
                }
            }
        }
        if before.admissions.is_empty() {
            return None;
        }
        let mut admissions = Vec::new();
        for (call, key) in std::mem::take(&mut before.admissions) {
            let admission = self.admit(&call, key);
            admissions.push((call, admission));
        }
        Some(Event::Admission(admissions))
    }

    /// Gives a call the lock of its resource and then lets it be one more that runs, as far as neither has to be waited for.
    fn admit(&mut self, call: &ToolCallId, key: Option<ResourceKey>) -> Admission {
        let Some(key) = key else { return self.admit_locked(call, None) };
        match self.services.locks.enqueue(key.clone()) {
            LockRequest::Granted(lock) => self.admit_locked(call, Some(lock)),
            LockRequest::Queued(waiting) => {
                let (executor, call) = (self.call_executor(), call.clone());
                let wait = async move {
                    match executor.wait_for_lock(&key, waiting).await {
                        Ok(lock) => Happening::Locked(call, lock),
                        Err(error) => Happening::LockTimedOut(call, error),
                    }
                };
                self.waits.push(wait.boxed());
                Admission::Queued(Wait::Resource)
            }
        }
    }

    /// Lets a call be one more that runs, as soon as it may. The lock that it holds is kept for it.
    pub(super) fn admit_locked(&mut self, call: &ToolCallId, lock: Option<ResourceLock>) -> Admission {
        let (admission, slot) = match self.services.running_calls.request(&self.record.head.owner) {
            SlotRequest::Granted(slot) => (Admission::Granted, Some(slot)),
            SlotRequest::Queued(turn) => {
                let call = call.clone();
                let wait = async move {
                    match turn.await {
                        Ok(slot) => Happening::Admitted(call, slot),
                        // The slots are gone, because the server ends.
                        Err(_) => Happening::Nothing,
                    }
                };
                self.waits.push(wait.boxed());
                (Admission::Queued(Wait::Capacity), None)
            }
        };
        self.admitted.insert(call.clone(), Admitted { lock, slot });
        admission
    }

    /// Performs the run's decisions, in the order of [`Effects`]. The effects before the commit are done when this is called.
    ///
    /// # Errors
    /// If this fails, nothing was done. A failure after the commit is an event of its own ([`Happening::Failed`]), because a request
    /// that has led to the commit has succeeded.
    pub(super) async fn perform(&mut self, effects: Effects) -> Result<(), StoreError> {
        match self.perform_at_once(effects) {
            Some(effects) => self.perform_saved(effects).await,
            None => Ok(()),
        }
    }

    /// Performs the run's decisions if none of them has to be waited for, as with most deltas of a model. Otherwise returns it, for
    /// [`Self::perform_saved`].
    pub(super) fn perform_at_once(&mut self, effects: Effects) -> Option<Box<Effects>> {
        self.log.stage(&effects.after.publish);
        if !effects.commit.is_empty() || !self.unsaved.is_empty() || !effects.after.execute.is_empty() {
            return Some(Box::new(effects));
        }
        self.perform_after_commit(effects.after);
        None
    }

    /// Saves the run's decisions, and performs them. Its chunks are staged.
    pub(super) async fn perform_saved(&mut self, effects: Box<Effects>) -> Result<(), StoreError> {
        if !effects.commit.is_empty() || !self.unsaved.is_empty() {
            Box::pin(self.save(&effects.commit, effects.after.next.ending())).await?;
        }
        if !effects.after.execute.is_empty() {
            // This process may have stood still since the commit, and another instance may have settled these calls.
            let (record, services) = (&mut self.record, &self.services);
            if let Err(error) = Box::pin(record.verify_if_in_doubt(services, Patience::Run)).await {
                self.failure = Some(error);
                return Ok(());
            }
        }
        self.perform_after_commit(effects.after);
        Ok(())
    }

    /// Performs the effects after the commit, in this order: calls that wait, calls that run, and only then the chunks for readers.
    fn perform_after_commit(&mut self, after: AfterCommit) {
        // The last two are for the caller that applied the event (`handle_tool`).
        let AfterCommit { cancel, execute, publish: _, replies, next, may_retry: _, elicited: _ } = after;
        for call in &cancel {
            self.tools.cancel(call);
        }
        self.park();
        for call in &execute {
            self.execute(call);
        }
        self.log.publish();
        for (id, reply) in replies {
            self.tools.reply(&id, reply);
        }
        match next {
            Next::Nothing => {}
            Next::AskModel => self.step = StepWork::Request,
            Next::Close(ending) => self.close(&ending),
        }
        if self.run.is_waiting() {
            // There may be a hundred thousand runs that wait.
            self.history = None;
            self.run.shrink_to_fit();
        }
    }

    /// Returns the executor of the step's calls.
    fn call_executor(&self) -> CallExecutor {
        let limits = &self.services.settings.limits;
        CallExecutor {
            tool_timeout: limits.tool_timeout,
            lock_timeout: limits.lock_timeout,
            output_bytes: Some(limits.output_bytes),
            output_nodes: Some(limits.output_nodes),
            checker: self.services.checker.clone(),
            check_timeout: limits.check_timeout,
            error_policy: self.policies.rules.error_policy.clone(),
            empty_at: None,
        }
    }

    fn execute(&mut self, id: &ToolCallId) {
        let Some(call) = self.run.calls.iter().find(|call| call.id == *id) else { return };
        let Some(tool) = self.toolbox.find(&call.tool) else { return };
        let rules = &self.policies.rules;
        let executor = CallExecutor {
            error_policy: rules.errors_of(&call.tool),
            empty_at: rules.empty_at(&call.tool).map(str::to_owned),
            ..self.call_executor()
        };
        let context = CallContext::new(self.record.head.owner.clone(), self.record.chat.clone(), id.clone());
        let context = match &call.idempotency_key {
            Some(key) => context.with_idempotency_key(key),
            None => context,
        };
        let origin = CallOrigin {
            run: self.run.id.clone(),
            message: self.run.message.clone(),
            traceparent: self.services.traces.as_ref().map(|_| parent_of_call(&self.run.id, id)),
        };
        let context = context
            .of(origin)
            .permitted_by(call.permission())
            .after_reading(self.run.outside_sources(call.step));
        let mut context = self.tools.host(context);
        let Admitted { lock, slot } = self.admitted.remove(id).unwrap_or_default();
        if let Some(slot) = slot {
            context = context.in_slot(slot);
        }
        let input = call.effective_input().clone();
        let mut times_run_before = u32::try_from(call.times_run()).unwrap_or(u32::MAX).saturating_sub(1);
        if self.run.failures_of(&call.tool) > 0 {
            // The retries of an earlier call have shown that they do not help.
            times_run_before = u32::MAX;
        }
        let Some(execution) = executor.execution(tool, input, context, times_run_before) else { return };
        self.tools.start(execution, lock, self.spans.span(id));
    }

    pub(super) async fn handle_tool(&mut self, event: ToolEvent) -> Result<(), StoreError> {
        match event {
            ToolEvent::Settled(call, outcome) => {
                let outcome = self.call_executor().within_limit(outcome);
                self.apply(Event::Settled(call, outcome)).await
            }
            ToolEvent::Reports(reports) => self.apply(Event::Reported(reports)).await,
            ToolEvent::Withdraws(id) => self.apply(Event::Withdrawn(id)).await,
            ToolEvent::Decides { call, input, decision } => {
                // A tool that was cancelled meanwhile does not wait.
                let _ = decision.send(self.run.decision_about(&call, &input, &self.context()));
                Ok(())
            }
            ToolEvent::Retries { call, saved } => {
                let effects = self.decide(Event::Retries(call));
                let may_retry = effects.after.may_retry;
                self.perform(effects).await?;
                if may_retry {
                    // A tool that was cancelled meanwhile does not wait.
                    let _ = saved.send(());
                }
                Ok(())
            }
            ToolEvent::Elicits { call, question, accepted } => {
                let mut effects = self.decide(Event::Elicits(call, question));
                let elicited = effects.after.elicited.take();
                self.perform(effects).await?;
                match elicited {
                    Some(Ok(id)) => self.tools.accept_question(id, accepted),
                    // A tool that was cancelled meanwhile does not wait.
                    Some(Err(reply)) => _ = accepted.send(Err(reply)),
                    None => _ = accepted.send(Err(ElicitationReply::Cancel)),
                }
                Ok(())
            }
        }
    }

    fn close(&mut self, ending: &Ending) {
        self.log.end(Vec::new());
        self.step = StepWork::None;
        self.model_slot = None;
        self.ownership = Ownership::Unclaimed;
        let (chat, run) = (&self.record.chat, &self.run.id);
        match ending {
            Ending::Failed(error) => tracing::warn!(%chat, %run, %error, "the run failed"),
            Ending::OutputLimit { bytes } => {
                tracing::warn!(%chat, %run, limit = bytes, "the run failed: the model said more than a step may have");
            }
            Ending::ChatLimit { bytes, limit } => {
                tracing::warn!(%chat, %run, bytes, limit, "the run failed: the chat is larger than it may be");
            }
            Ending::ToolFailed { tool, error_type } => {
                tracing::warn!(%chat, %run, tool, %error_type, "the run was ended by the failure of a tool");
            }
            Ending::CrashLoop => {
                let Services { repeated, shutdown, .. } = &*self.services;
                let (chat, run) = (chat.clone(), run.clone());
                repeated.log(shutdown, "given up".into(), move |times| {
                    tracing::error!(
                        %chat, %run, times,
                        "the run is given up: each process that resumed it ended, failed or was cut off before the run got on"
                    );
                });
            }
            Ending::Finished(_)
            | Ending::Stopped
            | Ending::Superseded
            | Ending::Expired
            | Ending::StepLimit
            | Ending::ToolNotCalled { .. } => {}
        }
        let now = self.services.clock.now();
        let usage = self.run.state.usage.unwrap_or_default();
        tracing::info!(
            %chat,
            %run,
            model = self.run.settings.model,
            ending = ending.name(),
            ms = now.duration_since(self.run.settings.started).as_millis(),
            input_tokens = usage.input_tokens,
            output_tokens = usage.output_tokens,
            calls = self.run.own_calls().count(),
            "the run has ended"
        );
        if let Some(traces) = &self.services.traces {
            traces.run_ended(RunTrace::of(&self.run, chat, ending, now, traces.has_content()));
        }
        metrics::counter!("fermata_runs_total", "outcome" => ending.name()).increment(1);
    }
}

/// Returns the context for the run's decisions now.
pub(crate) fn context<'a>(
    services: &'a Services,
    policies: &'a PolicySnapshot,
    toolbox: &'a Toolbox,
    record: &'a Record,
    run: &Run,
    window: Option<Window>,
) -> Context<'a> {
    Context {
        now: services.clock.now(),
        ids: &*services.ids,
        toolbox,
        rules: &policies.rules,
        newest: services.policies.current().rules.policy.clone(),
        limits: &services.settings.limits,
        expire: services.settings.expire,
        requester: run.settings.requester.clone(),
        grants: &record.grants,
        chat: &record.chat,
        other_bytes: record.head.bytes,
        shows_model_errors: services.settings.shows_model_errors,
        window,
    }
}
