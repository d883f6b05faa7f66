//! A scripted model, tools whose behavior is a closure, and hooks that record.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use fermata_engine::{
    Model,
    model::{ModelCall, ModelContent, ModelError, ModelEvent, ModelMessage, ModelRequest, Usage},
    runner::{Approval, Hooks, Params, Step},
};
use fermata_protocol::{FinishReason, JsonText};
use fermata_tools::{CallContext, Decision, Elicitation, ElicitationReply, RunBy, Tool, ToolError, ToolSpec};
use futures::{
    StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::paired::assert_paired;

/// The events of one step.
pub type ModelStep = Vec<Result<ModelEvent, ModelError>>;

/// A model that follows a script, and is silent after its end. It refuses the same requests as a strict provider.
pub struct ScriptedModel {
    script: Mutex<VecDeque<ModelStep>>,
    pub requests: Mutex<Vec<ModelRequest>>,
}

impl ScriptedModel {
    pub fn new(script: impl IntoIterator<Item = ModelStep>) -> Arc<Self> {
        Arc::new(Self { script: Mutex::new(script.into_iter().collect()), requests: Mutex::default() })
    }

    pub fn model_calls(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// Returns the messages of a request, each in one line.
    pub fn conversation(&self, request: usize) -> Vec<String> {
        self.requests.lock().unwrap()[request].messages.iter().map(line).collect()
    }

    pub fn request(&self, index: usize) -> ModelRequest {
        self.requests.lock().unwrap()[index].clone()
    }
}

#[async_trait]
impl Model for ScriptedModel {
    fn name(&self) -> &str {
        "script"
    }

    async fn stream(
        &self,
        request: ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelEvent, ModelError>>, ModelError> {
        assert_paired(&request);
        self.requests.lock().unwrap().push(request);
        match self.script.lock().unwrap().pop_front() {
            Some(step) => Ok(stream::iter(step).boxed()),
            None => Ok(stream::pending().boxed()),
        }
    }
}

/// Formats a message in one line.
pub fn line(message: &ModelMessage) -> String {
    let joined = |content: &[ModelContent]| {
        let pieces = content.iter().map(|piece| match piece {
            ModelContent::Text(text) => text.as_str(),
            ModelContent::File { url, .. } => url.as_str(),
        });
        pieces.collect::<Vec<_>>().join("|")
    };
    match message {
        ModelMessage::System(text) => format!("system: {text}"),
        ModelMessage::User(content) => format!("user: {}", joined(content)),
        ModelMessage::Assistant { text, calls, .. } => {
            let calls = calls.iter().map(|call| format!(" {}={}({})", call.id, call.tool, call.input));
            format!("assistant: {text}{}", calls.collect::<String>())
        }
        ModelMessage::Tool { call_id, content, .. } => format!("{call_id}: {}", joined(content)),
    }
}

pub fn user(text: &str) -> ModelMessage {
    ModelMessage::User(vec![ModelContent::Text(text.into())])
}

pub fn result(call_id: &str, tool: &str, text: &str) -> ModelMessage {
    ModelMessage::Tool {
        call_id: call_id.into(),
        tool: tool.into(),
        content: vec![ModelContent::Text(text.into())],
    }
}

/// Returns a step with a text of the model.
pub fn text(text: &str) -> ModelStep {
    vec![Ok(ModelEvent::Text(text.into())), Ok(finished(FinishReason::Stop))]
}

/// Returns a step with calls of the model, each a tool and its arguments.
pub fn calls(calls: &[(&str, &str)]) -> ModelStep {
    let mut step = ModelStep::new();
    for (key, (tool, arguments)) in calls.iter().enumerate() {
        step.push(Ok(ModelEvent::CallStart { key, tool: (*tool).into() }));
        step.push(Ok(ModelEvent::CallDelta { key, arguments: (*arguments).into() }));
    }
    step.push(Ok(finished(FinishReason::ToolCalls)));
    step
}

pub fn finished(reason: FinishReason) -> ModelEvent {
    let usage = Usage { input_tokens: 10, output_tokens: 2, total_tokens: 12 };
    ModelEvent::Finished { reason, usage: Some(usage) }
}

type RunTool = Box<dyn Fn(Value, CallContext) -> BoxFuture<'static, Result<Value, ToolError>> + Send + Sync>;

/// A tool whose behavior is a closure. It counts its runs.
pub struct TestTool {
    pub spec: ToolSpec,
    run: RunTool,
    pub runs: AtomicUsize,
}

impl TestTool {
    pub fn new<F>(name: &str, run: impl Fn(Value, CallContext) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Value, ToolError>> + Send + 'static,
    {
        let spec = ToolSpec {
            name: name.into(),
            title: None,
            description: format!("does {name}"),
            input_schema: json!({"type": "object", "properties": {"n": {"type": "integer"}}}).into(),
            run_by: RunBy::Server,
            server: None,
            policy: Decision::Allow,
            resource: None,
            timeout: None,
            repeatable: false,
            annotations: None,
        };
        Self {
            spec,
            run: Box::new(move |input, context| Box::pin(run(input, context))),
            runs: AtomicUsize::new(0),
        }
    }

    /// Returns a tool whose output is that it is done.
    pub fn done(name: &str) -> Self {
        let output = format!("{name} is done");
        Self::new(name, move |_, _| std::future::ready(Ok(Value::from(output.clone()))))
    }

    pub fn with(mut self, change: impl FnOnce(&mut ToolSpec)) -> Arc<Self> {
        change(&mut self.spec);
        Arc::new(self)
    }

    pub fn needs_approval(self) -> Arc<Self> {
        self.with(|spec| spec.policy = Decision::Ask)
    }

    pub fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }

    pub fn times_run(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Tool for TestTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    async fn call(&self, input: JsonText, context: CallContext) -> Result<Value, ToolError> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        (self.run)(input.value(), context).await
    }
}

/// Returns params with the user message "go".
pub fn params(model: &Arc<ScriptedModel>, tools: &[&Arc<TestTool>]) -> Params {
    let tools = tools.iter().map(|tool| Arc::clone(tool) as Arc<dyn Tool>);
    Params::new(model.clone()).user("go").tools(tools).unwrap()
}

/// Returns a tool that never ends, a token that is cancelled when it begins, and the token that cancels it.
pub fn endless(name: &str) -> (TestTool, CancellationToken, Arc<Mutex<Option<CancellationToken>>>) {
    let (began, given) = (CancellationToken::new(), Arc::new(Mutex::new(None)));
    let (begins, gets) = (began.clone(), given.clone());
    let tool = TestTool::new(name, move |_, context: CallContext| {
        *gets.lock().unwrap() = Some(context.cancelled.clone());
        begins.cancel();
        std::future::pending()
    });
    (tool, began, given)
}

/// Hooks that record events, and give the scripted answers to approval requests. They approve when the script is over.
#[derive(Default)]
pub struct RecordingHooks {
    pub log: Mutex<Vec<String>>,
    pub answers: Mutex<VecDeque<Approval>>,
    /// The time before each answer.
    pub delay: Duration,
}

impl RecordingHooks {
    pub fn answering(answers: impl IntoIterator<Item = Approval>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), ..Self::default() })
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    pub fn note(&self, line: String) {
        self.log.lock().unwrap().push(line);
    }
}

#[async_trait]
impl Hooks for RecordingHooks {
    fn event(&self, event: &ModelEvent) {
        if let ModelEvent::Text(text) = event {
            self.note(format!("text {text}"));
        }
    }

    fn step(&self, step: &Step) {
        self.note(format!("step {} {}", step.iteration, step.text));
    }

    fn call(&self, call: &ModelCall) {
        self.note(format!("call {}", call.tool));
    }

    fn result(&self, call: &ModelCall, result: &Result<Value, ToolError>) {
        self.note(match result {
            Ok(output) => format!("result {} {output}", call.tool),
            Err(error) => format!("result {} {}", call.tool, error.error_type),
        });
    }

    fn progress(&self, _: &str, output: Value) {
        self.note(format!("progress {output}"));
    }

    async fn approve(&self, call: &ModelCall, tool: &ToolSpec, _: Option<&str>) -> Approval {
        assert_eq!(call.tool, tool.name);
        self.note(format!("asked {}", call.tool));
        tokio::time::sleep(self.delay).await;
        let mut answers = self.answers.lock().unwrap();
        answers.pop_front().unwrap_or(Approval::Approved)
    }

    async fn elicit(&self, _: &str, question: Elicitation) -> ElicitationReply {
        self.note(format!("question {}", question.message));
        ElicitationReply::Accept(json!({"city": "Bern"}))
    }
}
