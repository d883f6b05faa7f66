//! Runs one call: within its time, again where that helps and does no harm, and to its end even when nobody waits for it any more.
//!
//! Invariants: an outcome is told exactly once; when the future of [`Execution::run`] is over, so is the tool's work, unless it ignored
//! its token for [`CANCEL_GRACE`] and then being dropped. Whoever holds a lock for the call holds it for as long.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};
use futures::FutureExt;
use serde_json::Value;
use tokio::{sync::watch, time::Instant};

use crate::{CallContext, ErrorPolicy, ErrorStrategy, ErrorType, MAX_RETRIES, Tool, ToolError};

/// How long a tool may take to wind up after it was cancelled, before its work is dropped.
pub const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// The longest that is waited where the other side asks to be left alone; a call that would have to wait longer fails.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A call about to run.
pub struct Execution {
    /// What runs it.
    pub tool: Arc<dyn Tool>,
    /// Its input, which has passed the schema.
    pub input: Value,
    /// Its surroundings.
    pub context: CallContext,
    /// How long it may run, each time. Time in which it waits for a person does not count.
    pub timeout: Duration,
    /// How often it may run again after a failure, at most [`MAX_RETRIES`] times; 0 for a tool that does not declare itself
    /// repeatable.
    pub retries: u32,
    /// Which failures that helps with.
    pub error_policy: ErrorPolicy,
}

// === impl Execution ===

impl Execution {
    /// Runs the call and tells what came of it, once and as soon as it is known. Ends when the tool has wound up.
    pub async fn run(self, settled: impl FnOnce(Result<Value, ToolError>)) {
        let mut pauses = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(200))
            .with_jitter()
            .with_max_times(self.retries.min(MAX_RETRIES) as usize)
            .build();
        let mut settled = Some(settled);
        loop {
            let mut outcome = None;
            let mut pause = None;
            self.attempt(|result| {
                pause = result.as_ref().err().and_then(|error| self.pause(error, &mut pauses));
                match (pause, settled.take()) {
                    (None, Some(settled)) => settled(result),
                    (Some(_), waiting) => {
                        settled = waiting;
                        outcome = Some(result);
                    }
                    (None, None) => {}
                }
            })
            .await;
            let Some(pause) = pause else { return };
            let cancelled = self.context.cancelled.cancelled();
            let is_cancelled = tokio::time::timeout(pause, cancelled).await.is_ok();
            if is_cancelled || !self.context.before_retry().await {
                if let (Some(settled), Some(outcome)) = (settled.take(), outcome) {
                    settled(outcome);
                }
                return;
            }
        }
    }

    /// As [`Execution::run`], for one who only wants the outcome and can wait until the tool has wound up.
    pub async fn outcome(self) -> Result<Value, ToolError> {
        let mut told = None;
        self.run(|outcome| told = Some(outcome)).await;
        told.unwrap_or_else(|| Err(ToolError::internal("The tool failed inside the server.")))
    }

    /// How long to wait before the call runs again; `None` where it does not.
    fn pause(&self, error: &ToolError, pauses: &mut impl Iterator<Item = Duration>) -> Option<Duration> {
        let helps = !self.context.cancelled.is_cancelled()
            && self.error_policy.of(error.error_type) == ErrorStrategy::Retry;
        let pause = helps.then(|| pauses.next()).flatten()?;
        match error.retry_after {
            Some(asked) if asked > LONGEST_PAUSE => None,
            Some(asked) => Some(asked.max(pause)),
            None => Some(pause),
        }
    }

    /// Runs the call once.
    async fn attempt(&self, settled: impl FnOnce(Result<Value, ToolError>)) {
        let (context, paused) = self.context.attempt();
        let (cancelled, waiting) = (context.cancelled.clone(), context.clone());
        let mut work = pin!(AssertUnwindSafe(self.tool.call(self.input.clone(), context)).catch_unwind());
        let given_up = tokio::select! {
            biased;
            outcome = &mut work => {
                settled(outcome.unwrap_or_else(|_| Err(ToolError::internal("The tool failed inside the server."))));
                return;
            }
            () = cancelled.cancelled() => ToolError::new(ErrorType::Cancelled, "The call was cancelled."),
            () = time_is_over(self.timeout, paused) => self.took_too_long(waiting.waited_for()),
        };
        cancelled.cancel();
        settled(Err(given_up));
        // Who does not listen to the token is dropped.
        let _ = tokio::time::timeout(CANCEL_GRACE, work).await;
    }

    fn took_too_long(&self, waited_for: Option<String>) -> ToolError {
        let limit = humantime::format_duration(self.timeout);
        let text = match waited_for {
            Some(reason) => format!("The tool could not begin within {limit}: {reason}."),
            None => format!("The tool took longer than {limit} and was ended."),
        };
        ToolError::new(ErrorType::Timeout, text)
    }
}

/// Waits until the time is over, not counting time in which it stands still.
async fn time_is_over(limit: Duration, mut paused: watch::Receiver<usize>) {
    let mut left = limit;
    loop {
        let since = Instant::now();
        if tokio::time::timeout(left, until(&mut paused, |pauses| pauses > 0)).await.is_err() {
            return;
        }
        left = left.saturating_sub(since.elapsed());
        until(&mut paused, |pauses| pauses == 0).await;
    }
}

async fn until(paused: &mut watch::Receiver<usize>, holds: impl Fn(usize) -> bool) {
    if paused.wait_for(|pauses| holds(*pauses)).await.is_err() {
        // The tool let go of its context: nothing will stop its time any more.
        if !holds(0) {
            std::future::pending().await
        }
    }
}
