//! What comes of the calls that a conversation ends with.
//!
//! Each call is looked at, then those are asked about that must be, then all that may run begin at once.
//! Every state is kept here and not in a future, so whoever stops waiting can wait again. Dropping it ends
//! the tools.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fermata_protocol::{ToolCallId, denial_text};
use fermata_tools::{
    ApprovalMode, CallContext, Decision, Elicitation, ElicitationReply, ErrorStrategy, ErrorType, Execution,
    Guard, ResourceKey, Tool, ToolError, ToolHost, ToolRef, ToolSpec, Waiter,
};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Approval, Hooks, Params, step::Faults};
use crate::{
    content::{told, tool_content},
    model::{ModelCall, ModelMessage},
};

/// Calls on their way to their results.
pub(super) struct Response {
    calls: Vec<ModelCall>,
    /// How far each is.
    progress: Vec<Progress>,
    /// All of them, once there are all.
    results: Vec<ModelMessage>,
    cancelled: CancellationToken,
    /// Before the tools themselves, so that work elsewhere hears of the end first.
    _ends: DropGuard,
    running: JoinSet<(usize, Result<Value, ToolError>)>,
    ends_loop: bool,
}

/// What the calls go by.
pub(super) struct Calls<'a> {
    pub params: &'a Params,
    pub hooks: &'a Arc<dyn Hooks>,
    /// Those that cannot run as the model made them.
    pub faults: &'a Faults,
}

enum Progress {
    New,
    Asked { reason: Option<String> },
    Allowed,
    Running,
    Told(ModelMessage),
}

/// Hears a running call for the hooks.
struct Listening(Arc<dyn Hooks>);

// === impl Response ===

impl Response {
    pub fn new(calls: Vec<ModelCall>) -> Self {
        let cancelled = CancellationToken::new();
        Self {
            progress: calls.iter().map(|_| Progress::New).collect(),
            calls,
            results: Vec::new(),
            _ends: cancelled.clone().drop_guard(),
            cancelled,
            running: JoinSet::new(),
            ends_loop: false,
        }
    }

    /// Whether it is that of these calls.
    pub fn is_for(&self, calls: &[ModelCall]) -> bool {
        self.calls == calls
    }

    /// Whether a call failed in a way that is set to end the loop.
    pub fn ends_loop(&self) -> bool {
        self.ends_loop
    }

    /// A result for each call, in the calls' order.
    pub async fn messages(&mut self, calls: &Calls<'_>) -> &[ModelMessage] {
        if self.results.is_empty() {
            self.take_up(calls);
            self.ask(calls).await;
            self.start(calls);
            self.finish(calls).await;
            self.results = self.progress.drain(..).filter_map(Progress::told).collect();
        }
        &self.results
    }

    fn take_up(&mut self, calls: &Calls<'_>) {
        for place in 0..self.progress.len() {
            if !matches!(self.progress[place], Progress::New) {
                continue;
            }
            calls.hooks.call(&self.calls[place]);
            match calls.rule(&self.calls[place]) {
                Ok(progress) => self.progress[place] = progress,
                Err(error) => self.settle(place, Err(error), calls),
            }
        }
    }

    async fn ask(&mut self, calls: &Calls<'_>) {
        for place in 0..self.progress.len() {
            let Progress::Asked { reason } = &self.progress[place] else { continue };
            let call = &self.calls[place];
            let Some(found) = calls.params.toolbox().find(&call.tool) else {
                self.settle(place, Err(calls.params.toolbox().unknown_tool(&call.tool)), calls);
                continue;
            };
            match calls.hooks.approve(call, found.spec(), reason.as_deref()).await {
                Approval::Approved => self.progress[place] = Progress::Allowed,
                Approval::Denied { reason } => self.settle(place, Err(denied(reason.as_deref())), calls),
            }
        }
    }

    fn start(&mut self, calls: &Calls<'_>) {
        for place in 0..self.progress.len() {
            if !matches!(self.progress[place], Progress::Allowed) {
                continue;
            }
            match self.job(&self.calls[place], calls) {
                Ok((waiter, execution)) => {
                    let limit = calls.params.lock_timeout;
                    self.running.spawn(async move { (place, run(waiter, limit, execution).await) });
                    self.progress[place] = Progress::Running;
                }
                Err(error) => self.settle(place, Err(error), calls),
            }
        }
    }

    /// A call about to run, with its place in the line for its resource: taken here, so that the line has the
    /// calls' order.
    fn job(
        &self,
        call: &ModelCall,
        calls: &Calls<'_>,
    ) -> Result<(Option<Waiter<ResourceKey>>, Execution), ToolError> {
        let params = calls.params;
        let found =
            params.toolbox().find(&call.tool).ok_or_else(|| params.toolbox().unknown_tool(&call.tool))?;
        let (spec, tool) = runnable(found)?;
        let key = spec.resource.as_ref().and_then(|resource| resource.key(&call.input, &params.owner));
        let context =
            CallContext::new(params.owner.clone(), params.chat.clone(), ToolCallId::new(call.id.as_str()))
                .cancelled_by(self.cancelled.child_token())
                .with_host(Arc::new(Listening(calls.hooks.clone())));
        let execution = Execution {
            tool: tool.clone(),
            input: call.input.clone(),
            context,
            timeout: spec.timeout.unwrap_or(params.tool_timeout),
            retries: spec.retries(),
            error_policy: params.error_policy.clone(),
        };
        Ok((key.map(|key| params.locks.enqueue(key)), execution))
    }

    async fn finish(&mut self, calls: &Calls<'_>) {
        while let Some(done) = self.running.join_next().await {
            match done {
                Ok((place, result)) => self.settle(place, result, calls),
                // An execution catches its tool's panic; whoever is left is settled below.
                Err(error) => tracing::error!(%error, "a call was broken off"),
            }
        }
        for place in 0..self.progress.len() {
            if !matches!(self.progress[place], Progress::Told(_)) {
                self.settle(place, Err(ToolError::internal("The tool was broken off.")), calls);
            }
        }
    }

    fn settle(&mut self, place: usize, result: Result<Value, ToolError>, calls: &Calls<'_>) {
        let call = &self.calls[place];
        calls.hooks.result(call, &result);
        let limit = calls.params.model_output_bytes;
        let mut content = match &result {
            Ok(output) => tool_content(output, limit),
            Err(error) => {
                let strategy = calls.params.error_policy.of(error.error_type);
                self.ends_loop |= strategy == ErrorStrategy::FailRun;
                told(words(error, strategy), limit)
            }
        };
        content.iter_mut().for_each(|piece| calls.params.file_urls.apply(piece));
        let (call_id, tool) = (call.id.clone(), call.tool.clone());
        self.progress[place] = Progress::Told(ModelMessage::Tool { call_id, tool, content });
    }
}

// === impl Calls ===

impl Calls<'_> {
    /// How far a call comes without anybody's answer.
    fn rule(&self, call: &ModelCall) -> Result<Progress, ToolError> {
        if let Some((_, fault)) = self.faults.iter().find(|(made, _)| made == call) {
            return Err(fault.clone());
        }
        let toolbox = self.params.toolbox();
        let found = toolbox.find(&call.tool).ok_or_else(|| toolbox.unknown_tool(&call.tool))?;
        let check = found.check_of(call.input.clone());
        self.params.checker().check_here(&check).map_err(|fault| found.validation_error(&fault))?;
        let (spec, _) = runnable(found)?;
        let policy = &self.params.policy;
        let policy_decision = policy.decide(&self.params.owner, spec, &call.input);
        match policy_decision.decision {
            Decision::Deny => Err(denied(policy_decision.reason.as_deref())),
            Decision::Ask if policy.approval() != ApprovalMode::Auto => {
                Ok(Progress::Asked { reason: policy_decision.reason })
            }
            Decision::Ask | Decision::Allow => Ok(Progress::Allowed),
        }
    }
}

// === impl Progress ===

impl Progress {
    fn told(self) -> Option<ModelMessage> {
        match self {
            Self::Told(message) => Some(message),
            Self::New | Self::Asked { .. } | Self::Allowed | Self::Running => None,
        }
    }
}

// === impl Listening ===

#[async_trait]
impl ToolHost for Listening {
    fn report(&self, call: &ToolCallId, output: Value) {
        self.0.progress(call.as_str(), output);
    }

    async fn elicit(&self, call: &ToolCallId, question: Elicitation) -> ElicitationReply {
        self.0.elicit(call.as_str(), question).await
    }
}

/// Runs a call when its resource is free, and holds that until the tool has wound up.
async fn run(
    waiter: Option<Waiter<ResourceKey>>,
    limit: Duration,
    execution: Execution,
) -> Result<Value, ToolError> {
    let _held: Option<Guard<ResourceKey>> = match waiter {
        Some(waiter) => tokio::time::timeout(limit, waiter.acquire()).await.map_err(|_| {
            let words = format!(
                "Other calls used the same resource for longer than {limit:?}, so the call did not run."
            );
            ToolError::new(ErrorType::Timeout, words)
        })?,
        None => None,
    };
    execution.outcome().await
}

fn runnable(found: ToolRef<'_>) -> Result<(&ToolSpec, &Arc<dyn Tool>), ToolError> {
    let spec = found.spec();
    let tool = found.tool().ok_or_else(|| {
        ToolError::internal(format!("The tool {} runs in a browser, and there is none here.", spec.name))
    })?;
    Ok((spec, tool))
}

fn denied(reason: Option<&str>) -> ToolError {
    ToolError::new(ErrorType::Denied, denial_text(reason))
}

/// What the model is told of a failure.
fn words(error: &ToolError, strategy: ErrorStrategy) -> String {
    let text = &error.text;
    match strategy.hint(error.error_type) {
        // Says itself what it is.
        _ if error.error_type == ErrorType::Denied => text.clone(),
        Some(hint) => format!("Error: {text}\n{hint}"),
        None => format!("Error: {text}"),
    }
}
