//! One call of a server's tool, from the moment it may run to its outcome: its time, its retries, its resource and the size of its output.
//!
//! This module knows neither a chat nor a loop, and does not decide which calls run. Whoever runs the execution keeps the lock until the
//! tool has wound up.

use std::time::Duration;

use fermata_tools::{CallContext, ErrorPolicy, ErrorType, Execution, ResourceKey, ToolError, ToolRef};
use serde_json::Value;

/// The rules that one loop has for the calls of its server tools.
#[derive(Clone, Debug)]
pub(crate) struct CallExecutor {
    /// The time limit of a call whose tool has none of its own.
    pub tool_timeout: Duration,
    /// How long a call may wait for its resource.
    pub lock_timeout: Duration,
    /// The size that an output may have, as JSON; `None`: any.
    pub output_bytes: Option<usize>,
    /// Says after which failures a call is tried again.
    pub error_policy: ErrorPolicy,
}

// === impl CallExecutor ===

impl CallExecutor {
    /// The execution of a call that has run so often before, in a process that has ended since; each of these runs counts as a retry.
    /// `None` if the tool does not run on the server.
    pub fn execution(
        &self,
        tool: ToolRef<'_>,
        input: Value,
        context: CallContext,
        times_run_before: u32,
    ) -> Option<Execution> {
        let spec = tool.spec();
        Some(Execution {
            tool: tool.tool()?.clone(),
            input,
            context,
            timeout: spec.timeout.unwrap_or(self.tool_timeout),
            retries: spec.retries().saturating_sub(times_run_before),
            error_policy: self.error_policy.clone(),
        })
    }

    /// Waits until the lock of a resource is granted, whatever kind of lock that is. The caller queues for it beforehand, so that calls
    /// are granted it in the order in which the model made them.
    ///
    /// # Errors
    /// If the lock is not granted in time, or never will be. The call must not run then.
    pub async fn wait_for_lock<L>(
        &self,
        resource: &ResourceKey,
        grant: impl Future<Output = Option<L>>,
    ) -> Result<L, ToolError> {
        let name = &resource.name;
        match tokio::time::timeout(self.lock_timeout, grant).await {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(ToolError::internal(format!(
                "The lock of {name} cannot be had, so this call did not run."
            ))),
            Err(_) => {
                let limit = humantime::format_duration(self.lock_timeout);
                let text =
                    format!("Other calls used {name} for longer than {limit}, so this call did not run.");
                Err(ToolError::new(ErrorType::Timeout, text))
            }
        }
    }

    /// The outcome of a call; a failure in its place if the output is too large.
    ///
    /// # Errors
    /// If the call failed, or its output is larger than an output may be.
    pub fn within_limit(&self, outcome: Result<Value, ToolError>) -> Result<Value, ToolError> {
        let output = outcome?;
        let Some(limit) = self.output_bytes else { return Ok(output) };
        let bytes = output.to_string().len();
        if bytes <= limit {
            return Ok(output);
        }
        let text = format!("The output of the tool has {bytes} bytes; the limit is {limit}.");
        Err(ToolError::new(ErrorType::InvalidFormat, text))
    }
}
