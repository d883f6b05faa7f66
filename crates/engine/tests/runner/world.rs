//! A model that follows a script and refuses unpaired histories, tools that do as they are told, and hooks
//! that remember.

#![expect(clippy::unwrap_used, reason = "a test ends where its world is not as it must be")]

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
use fermata_protocol::FinishReason;
use fermata_tools::{
    CallContext, Decision, Elicitation, ElicitationReply, Resource, RunBy, Tool, ToolError, ToolSpec,
};
use futures::{
    StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// What the model does in one step.
pub type Turn = Vec<Result<ModelEvent, ModelError>>;

/// A model that follows a script; where the script is over, it is silent for ever.
pub struct Script {
    turns: Mutex<VecDeque<Turn>>,
    pub asked: Mutex<Vec<ModelRequest>>,
}

impl Script {
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Arc<Self> {
        Arc::new(Self { turns: Mutex::new(turns.into_iter().collect()), asked: Mutex::default() })
    }

    pub fn times_asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// The conversation that the model was asked with, a line for each message.
    pub fn heard(&self, time: usize) -> Vec<String> {
        self.asked.lock().unwrap()[time].messages.iter().map(line).collect()
    }

    pub fn request(&self, time: usize) -> ModelRequest {
        self.asked.lock().unwrap()[time].clone()
    }
}

#[async_trait]
impl Model for Script {
    fn name(&self) -> &str {
        "script"
    }

    async fn stream(
        &self,
        request: ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelEvent, ModelError>>, ModelError> {
        assert_paired(&request);
        self.asked.lock().unwrap().push(request);
        match self.turns.lock().unwrap().pop_front() {
            Some(turn) => Ok(stream::iter(turn).boxed()),
            None => Ok(stream::pending().boxed()),
        }
    }
}

/// What strict providers answer 400 to: a call without its result right behind it, in order, or a result
/// without its call.
fn assert_paired(request: &ModelRequest) {
    let mut messages = request.messages.iter().peekable();
    let mut ids = std::collections::HashSet::new();
    while let Some(message) = messages.next() {
        match message {
            ModelMessage::Assistant { calls, text, .. } => {
                assert!(!calls.is_empty() || !text.is_empty(), "an empty message: {request:?}");
                for call in calls {
                    assert!(ids.insert(&call.id), "two calls {}: {request:?}", call.id);
                    assert!(call.input.is_object(), "{request:?}");
                    let result = messages.next();
                    assert!(
                        matches!(result, Some(ModelMessage::Tool { call_id, .. }) if *call_id == call.id),
                        "{} has no result in its place: {request:?}",
                        call.id
                    );
                }
            }
            ModelMessage::Tool { call_id, .. } => panic!("{call_id} has a result too many: {request:?}"),
            ModelMessage::System(_) | ModelMessage::User(_) => {}
        }
    }
}

/// A message in one line.
pub fn line(message: &ModelMessage) -> String {
    let words = |content: &[ModelContent]| {
        let pieces = content.iter().map(|piece| match piece {
            ModelContent::Text(text) => text.as_str(),
            ModelContent::File { url, .. } => url.as_str(),
        });
        pieces.collect::<Vec<_>>().join("|")
    };
    match message {
        ModelMessage::System(text) => format!("system: {text}"),
        ModelMessage::User(content) => format!("user: {}", words(content)),
        ModelMessage::Assistant { text, calls, .. } => {
            let calls = calls.iter().map(|call| format!(" {}={}({})", call.id, call.tool, call.input));
            format!("assistant: {text}{}", calls.collect::<String>())
        }
        ModelMessage::Tool { call_id, content, .. } => format!("{call_id}: {}", words(content)),
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

/// A turn of words.
pub fn says(text: &str) -> Turn {
    vec![Ok(ModelEvent::Text(text.into())), Ok(finished(FinishReason::Stop))]
}

/// A turn of calls, each a tool and its arguments.
pub fn calls(calls: &[(&str, &str)]) -> Turn {
    let mut turn = Turn::new();
    for (key, (tool, arguments)) in calls.iter().enumerate() {
        turn.push(Ok(ModelEvent::CallStart { key, tool: (*tool).into() }));
        turn.push(Ok(ModelEvent::CallDelta { key, arguments: (*arguments).into() }));
    }
    turn.push(Ok(finished(FinishReason::ToolCalls)));
    turn
}

pub fn finished(reason: FinishReason) -> ModelEvent {
    let usage = Usage { input_tokens: 10, output_tokens: 2, total_tokens: 12 };
    ModelEvent::Finished { reason, usage: Some(usage) }
}

type Deed = Box<dyn Fn(Value, CallContext) -> BoxFuture<'static, Result<Value, ToolError>> + Send + Sync>;

/// A tool that does as it is told, and counts.
pub struct Doer {
    pub spec: ToolSpec,
    deed: Deed,
    pub runs: AtomicUsize,
}

impl Doer {
    pub fn new<F>(name: &str, deed: impl Fn(Value, CallContext) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Value, ToolError>> + Send + 'static,
    {
        let spec = ToolSpec {
            name: name.into(),
            description: format!("does {name}"),
            input_schema: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
            run_by: RunBy::Server,
            server: None,
            policy: Decision::Allow,
            resource: None,
            timeout: None,
            repeatable: false,
        };
        Self {
            spec,
            deed: Box::new(move |input, context| Box::pin(deed(input, context))),
            runs: AtomicUsize::new(0),
        }
    }

    /// One that says that it did it.
    pub fn done(name: &str) -> Self {
        let words = format!("{name} is done");
        Self::new(name, move |_, _| std::future::ready(Ok(Value::from(words.clone()))))
    }

    pub fn with(mut self, change: impl FnOnce(&mut ToolSpec)) -> Arc<Self> {
        change(&mut self.spec);
        Arc::new(self)
    }

    pub fn asked_about(self) -> Arc<Self> {
        self.with(|spec| spec.policy = Decision::Ask)
    }

    pub fn using(self, resource: &str) -> Arc<Self> {
        let resource = Resource::named(resource);
        self.with(|spec| spec.resource = Some(resource))
    }

    pub fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }

    pub fn times_run(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Tool for Doer {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    async fn call(&self, input: Value, context: CallContext) -> Result<Value, ToolError> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        (self.deed)(input, context).await
    }
}

/// A conversation that begins with "go".
pub fn params(model: &Arc<Script>, tools: &[&Arc<Doer>]) -> Params {
    let tools = tools.iter().map(|tool| Arc::clone(tool) as Arc<dyn Tool>);
    Params::new(model.clone()).user("go").tools(tools).unwrap()
}

/// A tool that never ends, and tells by a token that it began; the other token is the one it was given.
pub fn endless(name: &str) -> (Doer, CancellationToken, Arc<Mutex<Option<CancellationToken>>>) {
    let (began, given) = (CancellationToken::new(), Arc::new(Mutex::new(None)));
    let (begins, gets) = (began.clone(), given.clone());
    let tool = Doer::new(name, move |_, context: CallContext| {
        *gets.lock().unwrap() = Some(context.cancelled.clone());
        begins.cancel();
        std::future::pending()
    });
    (tool, began, given)
}

/// Hooks that remember, and answer questions with what they were given, the last of it again and again.
#[derive(Default)]
pub struct Memory {
    pub lines: Mutex<Vec<String>>,
    pub answers: Mutex<VecDeque<Approval>>,
    /// Before each answer.
    pub thinks_for: Duration,
}

impl Memory {
    pub fn answering(answers: impl IntoIterator<Item = Approval>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), ..Self::default() })
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    pub fn note(&self, line: String) {
        self.lines.lock().unwrap().push(line);
    }
}

#[async_trait]
impl Hooks for Memory {
    fn event(&self, event: &ModelEvent) {
        if let ModelEvent::Text(text) = event {
            self.note(format!("word {text}"));
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
        tokio::time::sleep(self.thinks_for).await;
        let mut answers = self.answers.lock().unwrap();
        answers.pop_front().unwrap_or(Approval::Approved)
    }

    async fn elicit(&self, _: &str, question: Elicitation) -> ElicitationReply {
        self.note(format!("question {}", question.message));
        ElicitationReply::Accept(json!({"city": "Bern"}))
    }
}
