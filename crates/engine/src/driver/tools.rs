//! The run's tools: started, heard, and told what the person said.

use fermata_protocol::ToolCallId;
use fermata_tools::{Call, CallContext, ElicitationReply, Execution};

use super::{Driver, jobs::Signal};
use crate::{
    run::{Effects, Run},
    store::StoreError,
};

impl Driver {
    /// Has inputs checked: at once where that takes but a moment, so that what follows is done in the same step of saving; the others
    /// apart, while the driver goes on.
    pub(super) fn check_inputs(&mut self, effects: &mut Effects) {
        let (Some(live), Some(record)) = (&mut self.live, &self.record) else { return };
        if effects.check.is_empty() {
            return;
        }
        let (calls, checks): (Vec<_>, Vec<_>) = std::mem::take(&mut effects.check).into_iter().unzip();
        match self.inner.checker.check_at_once(&checks) {
            Some(results) => {
                let context = self.inner.context(&live.current.rules, &live.toolbox, record);
                live.run.checked(calls.into_iter().zip(results).collect(), &context, effects);
            }
            None => {
                let (checker, patience) =
                    (self.inner.checker.clone(), self.inner.settings.limits.check_timeout);
                live.check(async move {
                    let results = checker.check_all(checks, patience).await;
                    calls.into_iter().zip(results).collect()
                });
            }
        }
    }

    /// Puts calls into the lines for what they use; those whose turn it is run at once, in the same step of saving.
    pub(super) fn stand_in_line(&mut self, effects: &mut Effects) {
        let (Some(live), Some(record)) = (&mut self.live, &self.record) else { return };
        let current = live.current.clone();
        let toolbox = live.toolbox.clone();
        for (call, key) in std::mem::take(&mut effects.queue) {
            let waiter = self.inner.locks.enqueue(key);
            if live.stand_in_line(&self.inner, call.clone(), waiter, self.inner.settings.limits.lock_timeout)
            {
                let context = self.inner.context(&current.rules, &toolbox, record);
                live.run.take_turn(&call, &context, effects);
                if !effects.execute.contains(&call) {
                    live.drop_lock(&call);
                }
            }
        }
    }

    /// Whether calls wait for their tools to be there.
    pub(super) fn waits_for_tools(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.run.waits_for_tools())
    }

    /// Lets calls go on whose tools have come.
    pub(super) async fn find_tools(&mut self) -> Result<(), StoreError> {
        let Some(live) = self.live.as_mut().filter(|live| live.run.waits_for_tools()) else { return Ok(()) };
        live.go_by(self.inner.policies.current());
        let effects = self.decide(Run::find_tools);
        self.perform(effects).await
    }

    pub(super) fn execute(&mut self, calls: &[ToolCallId]) {
        let (Some(live), Some(record)) = (&mut self.live, &self.record) else { return };
        for id in calls {
            let Some(call) = live.run.calls.iter().find(|call| call.id == *id) else { continue };
            let found = live.toolbox.find(&call.tool);
            let Some((spec, tool)) = found.and_then(|found| Some((found.spec(), found.tool()?))) else {
                continue;
            };
            let context = CallContext::new(record.owner.clone(), self.chat.clone(), id.clone());
            let execution = Execution {
                tool: tool.clone(),
                input: call.effective_input().clone(),
                context: live.jobs.surround(context),
                timeout: spec.timeout.unwrap_or(self.inner.settings.limits.tool_timeout),
                // Times it ran before the process ended count.
                retries: spec.retries().saturating_sub(times_before(call)),
                error_policy: live.current.rules.error_policy.clone(),
            };
            let lock = live.take_lock(id);
            live.jobs.start(execution, lock, live.spans.of(id));
        }
    }

    /// Takes what comes from a running tool.
    pub(super) async fn hear_tool(&mut self, signal: Signal) -> Result<(), StoreError> {
        match signal {
            Signal::Settled(call, outcome) => {
                let outcome = self.inner.within_limit(outcome);
                let effects =
                    self.decide(|run, context, effects| run.settle(&call, outcome, context, effects));
                self.perform(effects).await
            }
            Signal::Reports(reports) => {
                let effects = self.decide(|run, context, effects| {
                    for (call, output) in reports {
                        if output.to_string().len() <= context.limits.output_bytes {
                            run.report(&call, output, effects);
                        }
                    }
                });
                self.perform(effects).await
            }
            Signal::Repeats { call, noted } => {
                let mut repeats = false;
                let effects =
                    self.decide(|run, context, effects| repeats = run.repeat(&call, context, effects));
                self.perform(effects).await?;
                if repeats {
                    // A tool that was cancelled meanwhile does not wait.
                    let _ = noted.send(());
                }
                Ok(())
            }
            Signal::Elicits { call, question, asked } => {
                let mut taken = Err(ElicitationReply::Cancel);
                let effects = self
                    .decide(|run, context, effects| taken = run.elicit(&call, question, context, effects));
                match (&mut self.live, taken) {
                    (Some(live), Ok(id)) => live.jobs.ask(id, asked),
                    (_, Err(reply)) => _ = asked.send(Err(reply)),
                    (None, Ok(_)) => {}
                }
                self.perform(effects).await
            }
            Signal::Withdraws(id) => {
                let effects = self.decide(|run, context, effects| run.withdraw(&id, context, effects));
                self.perform(effects).await
            }
        }
    }
}

/// How often a call that runs has run before.
fn times_before(call: &Call) -> u32 {
    u32::try_from(call.times_run()).unwrap_or(u32::MAX).saturating_sub(1)
}
