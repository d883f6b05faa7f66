//! Runs one call within its time limit, and retries it if its failure and its tool allow that.
//!
//! Invariants: an outcome is reported exactly once. When the future of [`Execution::run`] completes, the tool has stopped working: it
//! returned, or it ignored its token for [`CANCEL_GRACE`] and was dropped. So a lock that is held until then covers all of its work.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use fermata_protocol::JsonText;
use futures::FutureExt;
use serde_json::Value;
use tokio::{sync::watch, time::Instant};

use crate::{
    CallContext, Check, Checker, Checking, ErrorPolicy, ErrorStrategy, ErrorType, MAX_RETRIES, Tool,
    ToolError, is_empty_output,
};

/// The time that a tool has to return after it was cancelled, before its future is dropped.
pub const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// The longest wait before a retry. A call fails at once if the other side asks for a longer one (`retry-after`).
const LONGEST_RETRY_DELAY: Duration = Duration::from_secs(30);

/// A call that is about to run.
pub struct Execution {
    /// The tool that runs the call.
    pub tool: Arc<dyn Tool>,
    /// The input, which fits the tool's schema.
    pub input: JsonText,
    /// The context that the tool gets.
    pub context: CallContext,
    /// The time limit of each attempt. The time that the call waits for a person does not count.
    pub timeout: Duration,
    /// The number of retries after a failure, or after an empty output, at most [`MAX_RETRIES`]; 0 for a tool that is not repeatable.
    pub retries: u32,
    /// The policy that says which failures are retried.
    pub error_policy: ErrorPolicy,
    /// The checker of structured outputs.
    pub checker: Arc<Checker>,
    /// The time limit of the check of an output, which is a part of the attempt.
    pub check_timeout: Duration,
    /// The dotted path of the part of an output that is empty if nothing was found. Such a call may also be retried.
    pub empty_at: Option<String>,
}

// === impl Execution ===

impl Execution {
    /// Runs the call and reports its outcome once, as soon as it is known. Completes when the tool has stopped working.
    pub async fn run(self, report: impl FnOnce(Result<Value, ToolError>)) {
        let mut delays = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(200))
            .with_jitter()
            .with_max_times(self.retries.min(MAX_RETRIES) as usize)
            .build();
        let mut report = Some(report);
        loop {
            let mut retry = None;
            self.attempt(|outcome| {
                let typed = |error| self.error_policy.typed(&self.tool.spec().name, error);
                let outcome = outcome.map_err(typed);
                if let Some(delay) = self.retry_delay(&outcome, &mut delays) {
                    retry = Some((delay, outcome));
                } else if let Some(report) = report.take() {
                    report(outcome);
                }
            })
            .await;
            let Some((delay, outcome)) = retry else { return };
            let cancelled = self.context.cancelled.cancelled();
            let is_cancelled = tokio::time::timeout(delay, cancelled).await.is_ok();
            if is_cancelled || !self.context.host.before_retry(&self.context.call).await {
                if let Some(report) = report.take() {
                    report(outcome);
                }
                return;
            }
        }
    }

    /// Runs the call and returns its outcome when the tool has stopped working.
    pub async fn outcome(self) -> Result<Value, ToolError> {
        let mut outcome = None;
        self.run(|reported| outcome = Some(reported)).await;
        outcome.unwrap_or_else(|| Err(ToolError::internal("The tool failed inside the server.")))
    }

    /// Returns the time to wait before the call runs again; `None` if it must not run again.
    fn retry_delay(
        &self,
        outcome: &Result<Value, ToolError>,
        delays: &mut impl Iterator<Item = Duration>,
    ) -> Option<Duration> {
        let (error_type, retry_after) = match outcome {
            Ok(output) if is_empty_output(output, self.empty_at.as_deref()?) => {
                (ErrorType::EmptyResult, None)
            }
            Ok(_) => return None,
            Err(error) => (error.error_type, error.retry_after),
        };
        let is_retried = self.error_policy.of(error_type) == ErrorStrategy::Retry;
        if !is_retried || self.context.cancelled.is_cancelled() {
            return None;
        }
        let delay = delays.next()?;
        match retry_after {
            Some(requested) if requested > LONGEST_RETRY_DELAY => None,
            Some(requested) => Some(requested.max(delay)),
            None => Some(delay),
        }
    }

    /// Calls the tool and checks its output.
    async fn checked_output(&self, context: CallContext) -> Result<Value, ToolError> {
        let output = self.tool.call(self.input.clone(), context).await?;
        if let (Some(schema), Some(structured)) = (self.tool.output_schema(), output.get("structuredContent"))
        {
            let check = Check::of_output(schema.clone(), structured.clone());
            let results = match self.checker.check(vec![check], self.check_timeout) {
                Checking::Done(results) => results,
                Checking::Later(results) => results.await,
            };
            if let Some(error) = results.into_iter().find_map(Result::err) {
                let text = format!("The tool ran, but its result does not fit its output schema: {error}.");
                return Err(ToolError::new(ErrorType::InvalidFormat, text));
            }
        }
        Ok(output)
    }

    /// Runs the call once and reports the attempt's outcome as soon as it is known. Completes when the tool has stopped working.
    async fn attempt(&self, report: impl FnOnce(Result<Value, ToolError>)) {
        let (context, paused) = self.context.attempt();
        let (cancelled, own_context) = (context.cancelled.clone(), context.clone());
        let mut work = pin!(AssertUnwindSafe(self.checked_output(context)).catch_unwind());
        let failure = tokio::select! {
            biased;
            outcome = &mut work => {
                report(outcome.unwrap_or_else(|_| Err(ToolError::internal("The tool failed inside the server."))));
                return;
            }
            () = cancelled.cancelled() => ToolError::new(ErrorType::Cancelled, "The call was cancelled."),
            () = time_is_over(self.timeout, paused) => {
                let limit = humantime::format_duration(self.timeout);
                let text = match own_context.waited_for() {
                    Some(reason) => format!("The tool could not begin within {limit}: {reason}."),
                    None => format!("The tool took longer than {limit} and was ended."),
                };
                ToolError::new(ErrorType::Timeout, text)
            }
        };
        cancelled.cancel();
        report(Err(failure));
        // A tool that ignores its token is dropped when this time is over.
        let _ = tokio::time::timeout(CANCEL_GRACE, work).await;
    }
}

/// Waits until the time is over, without counting pauses.
async fn time_is_over(limit: Duration, mut paused: watch::Receiver<usize>) {
    let mut left = limit;
    loop {
        let since = Instant::now();
        if tokio::time::timeout(left, wait_for_pause(&mut paused, true)).await.is_err() {
            return;
        }
        left = left.saturating_sub(since.elapsed());
        wait_for_pause(&mut paused, false).await;
    }
}

/// Waits until there are pauses, or until there are none.
async fn wait_for_pause(pauses: &mut watch::Receiver<usize>, wanted: bool) {
    let is_gone = pauses.wait_for(|pauses| (*pauses > 0) == wanted).await.is_err();
    // All clones of the context were dropped, so there are no pauses, and there will be none.
    if is_gone && wanted {
        std::future::pending().await
    }
}
