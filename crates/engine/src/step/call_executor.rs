//! One call of a server's tool, from the moment it may run to its outcome: its time, its retries, its resource and the size of its output.
//!
//! This module knows neither a chat nor a loop, and does not decide which calls run. The owner of the execution keeps the lock until the
//! tool has wound up.

use std::{sync::Arc, time::Duration};

use fermata_protocol::{JsonText, measure};
use fermata_tools::{
    CallContext, Checker, ErrorPolicy, ErrorType, Execution, ResourceKey, ToolError, ToolRef,
};
use serde_json::Value;

/// The rules that one loop has for the calls of its server tools.
#[derive(Clone)]
pub(crate) struct CallExecutor {
    /// The time limit of a call whose tool has none of its own.
    pub tool_timeout: Duration,
    /// The time that a call may wait for its resource.
    pub lock_timeout: Duration,
    /// The size that an output may have, as JSON; `None`: any.
    pub output_bytes: Option<usize>,
    /// The number of JSON values that an output may have; `None` stands for no limit.
    pub output_nodes: Option<usize>,
    /// The checker of structured outputs.
    pub checker: Arc<Checker>,
    /// The time limit of the check of an output.
    pub check_timeout: Duration,
    /// Decides which failures lead to another attempt.
    pub error_policy: ErrorPolicy,
    /// The dotted path of the part of an output that is empty if nothing was found; `None`: as the tool says.
    pub empty_at: Option<String>,
}

// === impl CallExecutor ===

impl CallExecutor {
    /// Builds the execution of a call. If the call ran before, in a process that has ended since, each of these runs counts as a retry.
    /// Returns `None` if the tool does not run on the server.
    pub fn execution(
        &self,
        tool: ToolRef<'_>,
        input: JsonText,
        context: CallContext,
        times_run_before: u32,
    ) -> Option<Execution> {
        let spec = tool.spec();
        let tool = tool.tool()?;
        Some(Execution {
            tool: tool.clone(),
            input,
            context,
            timeout: spec.timeout.unwrap_or(self.tool_timeout),
            retries: spec.retries().saturating_sub(times_run_before),
            error_policy: self.error_policy.clone(),
            checker: self.checker.clone(),
            check_timeout: self.check_timeout,
            empty_at: self.empty_at.clone().or_else(|| tool.empty_at().map(str::to_owned)),
        })
    }

    /// Waits until the lock of a resource is granted, for any kind of lock. The caller queues for it beforehand, so that calls
    /// are granted it in the order that the model made them.
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
                "The lock of {name} cannot be acquired, so this call did not run."
            ))),
            Err(_) => {
                let limit = humantime::format_duration(self.lock_timeout);
                let text =
                    format!("Other calls used {name} for longer than {limit}, so this call did not run.");
                Err(ToolError::new(ErrorType::Timeout, text))
            }
        }
    }

    /// Returns the outcome of a call, or an error in place of an output that is too large.
    ///
    /// # Errors
    /// If the call failed, or its output is larger than an output may be.
    pub fn within_limit(&self, outcome: Result<Value, ToolError>) -> Result<Value, ToolError> {
        let output = outcome?;
        if self.output_bytes.is_none() && self.output_nodes.is_none() {
            return Ok(output);
        }
        let json = output.to_string();
        let nodes = measure(json.as_bytes()).nodes;
        for (count, unit, limit) in
            [(json.len(), "bytes", self.output_bytes), (nodes, "JSON values", self.output_nodes)]
        {
            if let Some(limit) = limit.filter(|limit| count > *limit) {
                let text = format!("The output of the tool has {count} {unit}; the limit is {limit}.");
                return Err(ToolError::new(ErrorType::InvalidFormat, text));
            }
        }
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use fermata_protocol::{ChatId, ToolCallId};
    use fermata_tools::{Decision, NamedBy, Owner, RunBy, Tool, ToolSpec, Toolbox};
    use serde_json::json;

    use super::*;

    struct Repeatable;

    #[async_trait]
    impl Tool for Repeatable {
        fn spec(&self) -> ToolSpec {
            ToolSpec {
                name: "look".into(),
                title: None,
                description: String::new(),
                input_schema: json!({"type": "object"}).into(),
                run_by: RunBy::Server,
                server: None,
                policy: Decision::Allow,
                resource: None,
                timeout: None,
                repeatable: true,
                annotations: None,
            }
        }

        async fn call(&self, _: JsonText, _: CallContext) -> Result<Value, ToolError> {
            Ok(Value::Null)
        }
    }

    fn executor() -> CallExecutor {
        CallExecutor {
            tool_timeout: Duration::from_secs(7),
            lock_timeout: Duration::from_secs(9),
            output_bytes: Some(4),
            output_nodes: Some(2),
            checker: Arc::default(),
            check_timeout: Duration::from_secs(5),
            error_policy: ErrorPolicy::default(),
            empty_at: None,
        }
    }

    #[test]
    fn runs_before_the_process_ended_count_as_retries() {
        for (own_timeout, timeout) in
            [(None, Duration::from_secs(7)), (Some(Duration::from_secs(1)), Duration::from_secs(1))]
        {
            let tools: [Arc<dyn Tool>; 1] = [Arc::new(Repeatable)];
            let (toolbox, _) = Toolbox::new(tools, |spec| spec.timeout = own_timeout);
            for (times_run_before, retries) in [(0, 2), (1, 1), (2, 0), (3, 0)] {
                let context =
                    CallContext::new(Owner::anyone(), ChatId::new("chat"), ToolCallId::new("call_1"));
                let tool = toolbox.find("look").expect("the tool");
                let execution = executor()
                    .execution(tool, json!({}).into(), context, times_run_before)
                    .expect("a server's tool");
                assert_eq!((execution.retries, execution.timeout), (retries, timeout));
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_lock_is_not_granted_gets_an_error_in_place_of_the_lock() {
        let key = ResourceKey { named_by: NamedBy::Settings, name: "file".into(), owner: None };
        let granted = executor().wait_for_lock(&key, async { Some(1) }).await;
        assert_eq!(granted, Ok(1));
        let late =
            executor().wait_for_lock(&key, std::future::pending::<Option<()>>()).await.expect_err("no lock");
        assert_eq!(late.error_type, ErrorType::Timeout);
        assert_eq!(late.text, "Other calls used file for longer than 9s, so this call did not run.");
        let never = executor().wait_for_lock(&key, async { None::<()> }).await.expect_err("no lock");
        assert_eq!(never.error_type, ErrorType::Internal);
    }

    #[test]
    fn an_output_has_a_size_as_json() {
        assert_eq!(executor().within_limit(Ok(json!("ab"))), Ok(json!("ab")));
        let error = executor().within_limit(Ok(json!("abc"))).expect_err("too large");
        assert_eq!(error.text, "The output of the tool has 5 bytes; the limit is 4.");
        let error = executor().within_limit(Ok(json!([1]))).map(|_| ());
        assert_eq!(error, Ok(()));
        let more_bytes = CallExecutor { output_bytes: None, ..executor() };
        let error = more_bytes.within_limit(Ok(json!([[], []]))).expect_err("too many values");
        assert_eq!(error.text, "The output of the tool has 3 JSON values; the limit is 2.");
        let any = CallExecutor { output_nodes: None, ..more_bytes };
        assert_eq!(any.within_limit(Ok(json!("abc"))), Ok(json!("abc")));
    }
}
