//! The results of the calls that a conversation ends with.
//!
//! All calls are validated first. Then the approvals that some of them need are requested, and then all calls that may run start at once.
//! The state of every call is kept here and not in a future, so a caller that stops waiting can wait again, and no call runs twice.
//! Dropping a [`ToolResponse`] ends its tools.

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use fermata_protocol::{JsonText, ToolCallId, denial_text};
use fermata_tools::{
    ApprovalMode, CallContext, Decision, Elicitation, ElicitationReply, ErrorStrategy, ErrorType, Execution,
    Guard, Owner, Policy, ResourceKey, ToolError, ToolHost, Toolbox, Waiter,
};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Approval, Hooks, Params, step_request::InvalidCalls};
use crate::{
    model::{
        ModelCall, ModelContent, ModelMessage,
        content::{EDITED, tool_content, tool_result_text},
    },
    step::call_executor::CallExecutor,
};

/// The calls of one message, on their way to their results.
pub(super) struct ToolResponse {
    pub calls: Vec<ModelCall>,
    /// The progress of each call, by its index in `calls`.
    progress: Vec<CallProgress>,
    /// The results of all calls; empty until every call has one.
    results: Vec<ModelMessage>,
    /// The calls whose inputs a person has changed, by their indexes in `calls`.
    edited: HashSet<usize>,
    cancelled: CancellationToken,
    /// This is declared before `running`, so that work elsewhere learns of the end before the tools' futures are dropped.
    _cancel_on_drop: DropGuard,
    running: JoinSet<(usize, Result<Value, ToolError>)>,
    /// `true` if a call failed in a way that is set to stop the loop.
    pub stops_loop: bool,
}

/// The loop around a response. It may change between two attempts to wait for the response.
pub(super) struct ResponseContext<'a> {
    pub params: &'a Params,
    pub hooks: &'a Arc<dyn Hooks>,
    pub invalid: &'a InvalidCalls,
}

enum CallProgress {
    New,
    NeedsApproval {
        reason: Option<String>,
    },
    /// The call may run, with another input if there is one.
    Allowed {
        edited: Option<JsonText>,
    },
    Running,
    Settled(ModelMessage),
}

/// A call that is about to run.
struct PreparedCall {
    execution: Execution,
    /// The call's waiter in the queue for its resource, if it uses one.
    waiter: Option<(ResourceKey, Waiter<ResourceKey>)>,
}

/// Passes the reports and questions of a running call on to the hooks, and has its other inputs decided by the policy.
struct CallHost {
    hooks: Arc<dyn Hooks>,
    policy: Arc<dyn Policy>,
    owner: Owner,
    toolbox: Toolbox,
    tool: String,
}

// === impl ToolResponse ===

impl ToolResponse {
    pub fn new(calls: Vec<ModelCall>) -> Self {
        let cancelled = CancellationToken::new();
        Self {
            progress: calls.iter().map(|_| CallProgress::New).collect(),
            calls,
            results: Vec::new(),
            edited: HashSet::new(),
            _cancel_on_drop: cancelled.clone().drop_guard(),
            cancelled,
            running: JoinSet::new(),
            stops_loop: false,
        }
    }

    /// Waits until every call has its result, and returns the results in the order of the calls.
    pub async fn messages(&mut self, context: &ResponseContext<'_>) -> &[ModelMessage] {
        if self.results.is_empty() {
            self.validate(context);
            self.request_approvals(context).await;
            self.start(context);
            self.collect_outcomes(context).await;
            let settled = self.progress.iter().filter_map(|progress| match progress {
                CallProgress::Settled(message) => Some(message.clone()),
                CallProgress::New
                | CallProgress::NeedsApproval { .. }
                | CallProgress::Allowed { .. }
                | CallProgress::Running => None,
            });
            // The caller may stop waiting, so the results are kept only when they are complete.
            let mut results: Vec<ModelMessage> = settled.collect();
            let params = context.params;
            params.file_urls.apply_lookups(&mut results, &*params.resolver).await;
            self.progress.clear();
            self.results = results;
        }
        &self.results
    }

    fn validate(&mut self, context: &ResponseContext<'_>) {
        for index in 0..self.progress.len() {
            if !matches!(self.progress[index], CallProgress::New) {
                continue;
            }
            let call = &mut self.calls[index];
            if let Some(tool) = context.params.toolbox().find(&call.tool)
                && !context.invalid.iter().any(|(made, _)| made == call)
            {
                call.input = tool.intended_input(std::mem::take(&mut call.input));
            }
            context.hooks.call(&self.calls[index]);
            match context.validate(&self.calls[index]) {
                Ok(progress) => self.progress[index] = progress,
                Err(error) => self.settle(context, index, Err(error)),
            }
        }
    }

    async fn request_approvals(&mut self, context: &ResponseContext<'_>) {
        let toolbox = context.params.toolbox();
        for index in 0..self.progress.len() {
            let CallProgress::NeedsApproval { reason } = &self.progress[index] else { continue };
            let call = &self.calls[index];
            // The tools may have changed since the call was validated.
            let Some(tool) = toolbox.find(&call.tool) else {
                let error = toolbox.unknown_tool(&call.tool);
                self.settle(context, index, Err(error));
                continue;
            };
            match context.hooks.approve(call, tool.spec(), reason.as_deref()).await {
                Approval::Approved => self.progress[index] = CallProgress::Allowed { edited: None },
                Approval::Edited { input } => match context.validate_edited(call, &input) {
                    Ok(()) => {
                        self.edited.insert(index);
                        self.progress[index] = CallProgress::Allowed { edited: Some(input) };
                    }
                    Err(error) => self.settle(context, index, Err(error)),
                },
                Approval::Denied { reason } => self.settle(context, index, Err(denied(reason.as_deref()))),
            }
        }
    }

    fn start(&mut self, context: &ResponseContext<'_>) {
        let params = context.params;
        let executor = CallExecutor {
            tool_timeout: params.tool_timeout,
            lock_timeout: params.lock_timeout,
            output_bytes: params.output_bytes,
            output_nodes: params.output_nodes,
            checker: params.checker.clone(),
            check_timeout: params.tool_timeout,
            error_policy: params.error_policy.clone(),
            empty_at: None,
        };
        for index in 0..self.progress.len() {
            let CallProgress::Allowed { edited } = &self.progress[index] else { continue };
            let call = &self.calls[index];
            match self.prepare(context, &executor, call, edited.as_ref().unwrap_or(&call.input)) {
                Ok(prepared) => {
                    let executor = executor.clone();
                    self.running.spawn(async move { (index, prepared.run(&executor).await) });
                    self.progress[index] = CallProgress::Running;
                }
                Err(error) => self.settle(context, index, Err(error)),
            }
        }
    }

    /// Queues a call for its resource. All calls are queued before the first one is awaited, so the queue has the order of the calls.
    fn prepare(
        &self,
        context: &ResponseContext<'_>,
        executor: &CallExecutor,
        call: &ModelCall,
        input: &JsonText,
    ) -> Result<PreparedCall, ToolError> {
        let params = context.params;
        let tool =
            params.toolbox().find(&call.tool).ok_or_else(|| params.toolbox().unknown_tool(&call.tool))?;
        let host = CallHost {
            hooks: context.hooks.clone(),
            policy: params.policy.clone(),
            owner: params.owner.clone(),
            toolbox: params.toolbox().clone(),
            tool: call.tool.clone(),
        };
        let call_context =
            CallContext::new(params.owner.clone(), params.chat.clone(), ToolCallId::new(call.id.as_str()))
                .cancelled_by(self.cancelled.child_token())
                .with_host(Arc::new(host));
        let Some(execution) = executor.execution(tool, input.clone(), call_context, 0) else {
            let text = format!("The tool {} runs in a browser, and there is none here.", call.tool);
            return Err(ToolError::internal(text));
        };
        let resource = tool.spec().resource.as_ref();
        let key = resource.and_then(|resource| resource.key(&input.value(), &params.owner));
        let waiter = key.map(|key| (key.clone(), params.locks.enqueue(key)));
        Ok(PreparedCall { execution, waiter })
    }

    async fn collect_outcomes(&mut self, context: &ResponseContext<'_>) {
        while let Some(ended) = self.running.join_next().await {
            match ended {
                Ok((index, outcome)) => self.settle(context, index, outcome),
                // An execution catches the panic of its tool. A call whose task ended otherwise is settled below.
                Err(error) => {
                    tracing::error!(chat = %context.params.chat, %error, "the task of a call was broken off")
                }
            }
        }
        for index in 0..self.progress.len() {
            if !matches!(self.progress[index], CallProgress::Settled(_)) {
                self.settle(context, index, Err(ToolError::internal("The tool was broken off.")));
            }
        }
    }

    fn settle(&mut self, context: &ResponseContext<'_>, index: usize, outcome: Result<Value, ToolError>) {
        let params = context.params;
        let call = &self.calls[index];
        context.hooks.result(call, &outcome);
        let mut content = match &outcome {
            Ok(output) => tool_content(output, params.model_output_bytes),
            Err(error) => {
                let strategy = params.error_policy.of(error.error_type);
                if strategy == ErrorStrategy::FailRun {
                    self.stops_loop = true;
                }
                // The text of a denial already names it as one.
                let text = match strategy.hint(error.error_type) {
                    _ if error.error_type == ErrorType::Denied => error.text.clone(),
                    Some(hint) => format!("Error: {}\n{hint}", error.text),
                    None => format!("Error: {}", error.text),
                };
                tool_result_text(text, params.model_output_bytes)
            }
        };
        for piece in &mut content {
            params.file_urls.apply(piece);
        }
        if self.edited.contains(&index) {
            content.push(ModelContent::Text(EDITED.to_owned()));
        }
        let (call_id, tool) = (call.id.clone(), call.tool.clone());
        self.progress[index] = CallProgress::Settled(ModelMessage::Tool { call_id, tool, content });
    }
}

// === impl ResponseContext ===

impl ResponseContext<'_> {
    /// Checks a call against its tool and the policy.
    fn validate(&self, call: &ModelCall) -> Result<CallProgress, ToolError> {
        if let Some((_, error)) = self.invalid.iter().find(|(made, _)| made == call) {
            return Err(error.clone());
        }
        let toolbox = self.params.toolbox();
        let tool = toolbox.find(&call.tool).ok_or_else(|| toolbox.unknown_tool(&call.tool))?;
        let check = tool.check_of(call.input.clone());
        self.params.checker.check_here(&check).map_err(|error| tool.validation_error(&error))?;
        let policy = &self.params.policy;
        let policy_decision = tool.decide(&**policy, &self.params.owner.clone().into(), &call.input.value());
        match policy_decision.decision {
            Decision::Deny => Err(denied(policy_decision.reason.as_deref())),
            Decision::Ask if policy.approval() != ApprovalMode::Auto => {
                Ok(CallProgress::NeedsApproval { reason: policy_decision.reason })
            }
            Decision::Ask | Decision::Allow => Ok(CallProgress::Allowed { edited: None }),
        }
    }

    /// Checks the input that a person has given a call.
    fn validate_edited(&self, call: &ModelCall, input: &JsonText) -> Result<(), ToolError> {
        let toolbox = self.params.toolbox();
        let tool = toolbox.find(&call.tool).ok_or_else(|| toolbox.unknown_tool(&call.tool))?;
        let check = tool.check_of(input.clone());
        self.params.checker.check_here(&check).map_err(|error| tool.validation_error(&error))?;
        let decision = tool.decide(&*self.params.policy, &self.params.owner.clone().into(), &input.value());
        match decision.decision {
            Decision::Deny => Err(denied(decision.reason.as_deref())),
            Decision::Ask | Decision::Allow => Ok(()),
        }
    }
}

// === impl PreparedCall ===

impl PreparedCall {
    /// Runs the call as soon as its resource is free, and holds the lock until the tool has wound up.
    async fn run(self, executor: &CallExecutor) -> Result<Value, ToolError> {
        let _lock: Option<Guard<ResourceKey>> = match self.waiter {
            Some((key, waiter)) => Some(executor.wait_for_lock(&key, waiter.acquire()).await?),
            None => None,
        };
        executor.within_limit(self.execution.outcome().await)
    }
}

// === impl CallHost ===

#[async_trait]
impl ToolHost for CallHost {
    fn report(&self, call: &ToolCallId, output: Value) {
        self.hooks.progress(call.as_str(), output);
    }

    async fn elicit(&self, call: &ToolCallId, elicitation: Elicitation) -> ElicitationReply {
        self.hooks.elicit(call.as_str(), elicitation).await
    }

    async fn decide(&self, _: &ToolCallId, input: Value) -> Decision {
        match self.toolbox.find(&self.tool) {
            Some(tool) => tool.decide(&*self.policy, &self.owner.clone().into(), &input).decision,
            None => Decision::Deny,
        }
    }
}

fn denied(reason: Option<&str>) -> ToolError {
    ToolError::new(ErrorType::Denied, denial_text(reason))
}
