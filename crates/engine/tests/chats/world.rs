//! An engine with a scripted model, a clock that follows Tokio's, and a store that fails on a test's command.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::{
    collections::VecDeque,
    num::{NonZeroU32, NonZeroUsize},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use fermata_engine::{
    Assistants, Engine, EngineParts, Following, Hold, Limits, MemoryService, Model, PeerTransport, Pending,
    Reader, Rules, Settings, Submission, SubmitError,
    assistants::ModelChoice,
    memories::MemoryLimits,
    model::{ModelError, ModelEvent, ModelRequest},
    peer_transport::InMemoryTransport,
    store::{ChatStore, InMemoryStore, RunRecord},
};
use fermata_protocol::{
    Always, Answer, AnswerKind, AnswerTarget, ChatBody, ChatId, FinishReason, JsonText, Profile, ToolCallId,
    UiMessage,
};
use fermata_tools::{
    CallContext, CallDetails, Capacity, Confirm, Decider, Decision, DecisionChannel, Elicitation, ErrorType,
    Owner, Resource, RunBy, Tool, ToolError, ToolSpec,
};
use futures::{
    FutureExt, StreamExt,
    stream::{self, BoxStream},
};
use serde_json::{Value, json};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::mpsc,
};

use crate::shared::{CountingIds, FaultyStore, TestClock, assert_paired};

/// The events of one model call.
pub type ModelStep = Vec<Result<ModelEvent, ModelError>>;

/// A model that follows a script, and refuses the same requests as a strict provider.
#[derive(Default)]
pub struct ScriptedModel {
    script: Mutex<VecDeque<ScriptedStep>>,
    pub requests: Mutex<Vec<ModelRequest>>,
    /// A request with one of these texts is refused.
    pub refuses: Mutex<Vec<String>>,
    /// The number of streams that are being read.
    pub open_streams: Arc<AtomicUsize>,
}

enum ScriptedStep {
    Whole(ModelStep),
    Streamed(mpsc::UnboundedReceiver<Result<ModelEvent, ModelError>>),
    /// Panics in the task that reads the stream.
    Panic,
    /// Signs of life without a pause and without an end.
    Endless,
}

impl ScriptedModel {
    /// Removes all steps from the script.
    pub fn clear(&self) {
        self.script.lock().unwrap().clear();
    }
}

/// Counts a stream among the open ones while it lives.
struct OpenStream(Arc<AtomicUsize>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
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
        let written = format!("{request:?}");
        self.requests.lock().unwrap().push(request);
        if let Some(refused) =
            self.refuses.lock().unwrap().iter().find(|text| written.contains(text.as_str()))
        {
            return Err(ModelError::Refused(format!("it has {refused}")));
        }
        let Some(step) = self.script.lock().unwrap().pop_front() else {
            return Err(ModelError::Refused("the script has no step for this".into()));
        };
        self.open_streams.fetch_add(1, Ordering::SeqCst);
        let open_stream = OpenStream(self.open_streams.clone());
        let events = match step {
            ScriptedStep::Whole(events) => stream::iter(events).boxed(),
            ScriptedStep::Endless => stream::repeat_with(|| Ok(ModelEvent::Alive)).boxed(),
            ScriptedStep::Panic => stream::once(async { panic!("the script asks for it") }).boxed(),
            ScriptedStep::Streamed(events) => {
                stream::unfold(events, |mut events| async { Some((events.recv().await?, events)) }).boxed()
            }
        };
        Ok(events
            .map(move |event| {
                let _ = &open_stream;
                event
            })
            .boxed())
    }
}

fn assistants(model: &Arc<ScriptedModel>, summaries: &Arc<ScriptedModel>) -> Assistants {
    let summary_model = Some(ModelChoice::of(summaries.clone()));
    Assistants { summary_model, ..Assistants::answered_by(model.clone()) }
}

/// A server tool that does what its input says, and logs it.
pub struct ScriptedTool {
    name: &'static str,
    policy: Decision,
    resource: Option<Resource>,
    log: Arc<Mutex<Vec<String>>>,
}

impl ScriptedTool {
    /// Returns a tool whose calls are allowed and use no resource.
    pub fn allowed(name: &'static str, log: &Arc<Mutex<Vec<String>>>) -> Self {
        Self { name, policy: Decision::Allow, resource: None, log: log.clone() }
    }
}

#[async_trait]
impl Tool for ScriptedTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.into(),
            title: None,
            description: "Does what its input says.".into(),
            input_schema: json!({"type": "object"}).into(),
            run_by: RunBy::Server,
            server: None,
            policy: self.policy,
            resource: self.resource.clone(),
            timeout: None,
            repeatable: false,
            annotations: None,
        }
    }

    fn describe(&self, input: &Value) -> Option<String> {
        input["described"].as_str().map(str::to_owned)
    }

    fn confirm(&self, input: &Value) -> Confirm {
        let details = || CallDetails::Run { text: format!("run {}", input["as"]) };
        match input["confirm"].as_str() {
            Some("allow") => Confirm::Allow,
            Some("ask") => Confirm::Ask(details()),
            Some("deny") => Confirm::Deny("the input asks for it".into()),
            Some("details") => Confirm::ByPolicy(Some(details())),
            Some("panics") => panic!("the input asks for it"),
            _ => Confirm::default(),
        }
    }

    async fn call(&self, input: JsonText, context: CallContext) -> Result<Value, ToolError> {
        let input = input.value();
        let log = |event: &str| {
            self.log.lock().unwrap().push(format!("{event} {}", input["as"].as_str().unwrap_or("")))
        };
        log("begins");
        if input["logs"] == "its key" {
            log(&format!("has {}", context.idempotency_key()));
        }
        match input["does"].as_str() {
            Some("panics") => panic!("the input asks for it"),
            Some("fails") => return Err(ToolError::internal("the input asks for it")),
            Some("hangs") => {
                context.cancelled.cancelled().await;
                log("was cancelled");
                std::future::pending::<()>().await;
            }
            Some("asks the rules") => {
                let decision = context.decide(input["about"].clone()).await;
                log(&format!("{decision:?}"));
            }
            Some("says how it was let through") => log(&format!("{:?}", context.permission)),
            Some("waits") => tokio::time::sleep(Duration::from_secs(5)).await,
            Some("cleans up") => {
                context.cancelled.cancelled().await;
                tokio::time::sleep(Duration::from_secs(2)).await;
                log("cleaned up");
            }
            Some("reports") => {
                for n in 0..1000 {
                    context.report(json!({ "progress": n }));
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            Some("asks") => {
                let requested_schema = match &input["schema"] {
                    Value::Null => json!({"type": "object", "required": ["size"]}),
                    schema => schema.clone(),
                };
                let question = Elicitation {
                    message: "How big?".into(),
                    requested_schema,
                    server: Some("sizes".into()),
                    other_candidates: Vec::new(),
                };
                let reply = context.elicit(question).await;
                log(&format!("got {reply:?}"));
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Some("is limited") => {
                let error =
                    ToolError::new(ErrorType::RateLimit, "slow down").retry_after(Duration::from_secs(7));
                return Err(error);
            }
            _ => {}
        }
        log("ends");
        Ok(json!({"input": input}))
    }
}

/// The parts that all instances of a deployment share.
#[derive(Default)]
struct Deployment {
    store: Arc<InMemoryStore>,
    model: Arc<ScriptedModel>,
    summaries: Arc<ScriptedModel>,
    ids: Arc<CountingIds>,
    clock: Arc<TestClock>,
    /// The store's own clock, if it has one.
    database_clock: Option<Arc<TestClock>>,
    tool_log: Arc<Mutex<Vec<String>>>,
    hold: Hold,
    /// `true` if one call may run at a time, and the model be asked once at a time.
    one_at_a_time: bool,
}

/// An instance, and the user and chat of the test.
pub struct World {
    pub engine: Engine,
    pub model: Arc<ScriptedModel>,
    /// The model that writes summaries. Without a script it writes none.
    pub summaries: Arc<ScriptedModel>,
    pub store: Arc<FaultyStore>,
    /// The transport to the other instances; `None` if there are none.
    pub transport: Option<Arc<InMemoryTransport>>,
    ids: Arc<CountingIds>,
    pub clock: Arc<TestClock>,
    database_clock: Option<Arc<TestClock>>,
    pub tool_log: Arc<Mutex<Vec<String>>>,
    hold: Hold,
    one_at_a_time: bool,
    pub owner: Owner,
    pub chat: ChatId,
}

impl World {
    /// Starts a single instance.
    pub fn new() -> Self {
        Self::start(Deployment::default(), None)
    }

    /// Starts a single instance that holds streams so.
    pub fn with_hold(hold: Hold) -> Self {
        Self::start(Deployment { hold, ..Deployment::default() }, None)
    }

    /// Starts a single instance with a limit of one running call and one request to the model at a time.
    pub fn one_at_a_time() -> Self {
        Self::start(Deployment { one_at_a_time: true, ..Deployment::default() }, None)
    }

    /// Starts the first of several instances.
    pub fn first() -> Self {
        Self::start(Deployment::default(), Some(Arc::default()))
    }

    /// Starts the first of several instances, on a store that has a clock of its own.
    pub fn first_with_database_clock() -> Self {
        let deployment = Deployment { database_clock: Some(Arc::default()), ..Deployment::default() };
        Self::start(deployment, Some(Arc::default()))
    }

    /// Starts one more instance of the deployment.
    pub fn another(&self) -> Self {
        Self::start(self.deployment(), self.transport.clone())
    }

    /// Starts one more instance, on a machine whose clock is this number of seconds ahead.
    pub fn another_with_clock_ahead(&self, seconds: i64) -> Self {
        let clock = TestClock::default();
        clock.shift(seconds);
        Self::start(Deployment { clock: Arc::new(clock), ..self.deployment() }, self.transport.clone())
    }

    /// Kills the instance and starts another: only the store and the model's script are left.
    pub fn restarted(self) -> Self {
        self.restarted_at(0)
    }

    /// As [`World::restarted`], with a machine clock that begins this number of seconds after the epoch.
    pub fn restarted_at(self, seconds: u64) -> Self {
        self.store.kill();
        let clock = Arc::new(TestClock::starting_at(seconds));
        Self::start(Deployment { clock, tool_log: Arc::default(), ..self.deployment() }, self.transport)
    }

    fn deployment(&self) -> Deployment {
        Deployment {
            store: self.store.store.clone(),
            model: self.model.clone(),
            summaries: self.summaries.clone(),
            ids: self.ids.clone(),
            clock: self.clock.clone(),
            database_clock: self.database_clock.clone(),
            tool_log: self.tool_log.clone(),
            hold: self.hold,
            one_at_a_time: self.one_at_a_time,
        }
    }

    fn start(deployment: Deployment, transport: Option<Arc<InMemoryTransport>>) -> Self {
        let Deployment { store, model, summaries, ids, clock, database_clock, tool_log, hold, one_at_a_time } =
            deployment;
        let store = FaultyStore::new(store, database_clock.clone());
        let note = ScriptedTool {
            name: "note",
            policy: Decision::Ask,
            resource: Some(Resource::per_owner("notes")),
            log: tool_log.clone(),
        };
        let model_requests = Capacity::new(NonZeroUsize::new(one_at_a_time.into()), None);
        let engine = Engine::new(EngineParts {
            assistants: assistants(&model, &summaries),
            store: store.clone(),
            peers: transport.clone().map(|transport| transport as Arc<dyn PeerTransport>),
            tools: vec![Arc::new(ScriptedTool::allowed("run", &tool_log)), Arc::new(note)],
            rules: Rules::default(),
            clock: clock.clone(),
            ids: ids.clone(),
            resolver: Arc::new(fermata_engine::SystemResolver::default()),
            memories: MemoryService::new(
                store.clone(),
                clock.clone(),
                ids.clone(),
                None,
                model_requests.clone(),
                MemoryLimits::default(),
            ),
            model_requests,
            traces: None,
            settings: Settings {
                hold,
                expire: Duration::from_secs(3600),
                keep: Some(Duration::from_secs(14 * 24 * 3600)),
                // No other thread sees the paused time of a runtime with one thread.
                heartbeat_thread: Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread,
                drain: Duration::from_secs(3),
                client: Profile::V6,
                limits: Limits {
                    steps: 5,
                    messages: 100,
                    tools: 10,
                    output_bytes: 10_000,
                    model_output_bytes: 600,
                    parked_calls: 1000,
                    calls_per_step: 1000,
                    runs_per_owner: NonZeroUsize::new(3),
                    running_calls: NonZeroUsize::new(one_at_a_time.into()),
                    model_timeout: Duration::from_secs(60),
                    tool_timeout: Duration::from_secs(30),
                    ..Limits::default()
                },
                ..Settings::default()
            },
        });
        Self {
            engine: engine.unwrap(),
            model,
            summaries,
            store,
            transport,
            ids,
            clock,
            database_clock,
            tool_log,
            hold,
            one_at_a_time,
            owner: Owner::new("alice"),
            chat: ChatId::new("c"),
        }
    }

    /// Appends steps to the model's script.
    pub fn script(&self, steps: impl IntoIterator<Item = ModelStep>) {
        self.model.script.lock().unwrap().extend(steps.into_iter().map(ScriptedStep::Whole));
    }

    /// Appends answers to the script of the model that writes summaries.
    pub fn script_summaries(&self, steps: impl IntoIterator<Item = ModelStep>) {
        self.summaries.script.lock().unwrap().extend(steps.into_iter().map(ScriptedStep::Whole));
    }

    /// Appends a summary that is never written as long as the sender lives.
    pub fn script_silent_summary(&self) -> mpsc::UnboundedSender<Result<ModelEvent, ModelError>> {
        let (sender, events) = mpsc::unbounded_channel();
        self.summaries.script.lock().unwrap().push_back(ScriptedStep::Streamed(events));
        sender
    }

    /// Gives the model a window of this many tokens.
    pub fn set_window(&self, tokens: u32) {
        let mut assistants = assistants(&self.model, &self.summaries);
        assistants.default.model.context = NonZeroU32::new(tokens);
        self.engine.set_assistants(assistants);
    }

    /// Appends this number of steps that panic in the task that reads them.
    pub fn script_panics(&self, times: usize) {
        self.model.script.lock().unwrap().extend((0..times).map(|_| ScriptedStep::Panic));
    }

    /// Appends a step that never pauses and never ends.
    pub fn script_endless(&self) {
        self.model.script.lock().unwrap().push_back(ScriptedStep::Endless);
    }

    /// Appends a step whose events are sent by the test. It ends when the sender is dropped.
    pub fn script_streamed(&self) -> mpsc::UnboundedSender<Result<ModelEvent, ModelError>> {
        let (sender, events) = mpsc::unbounded_channel();
        self.model.script.lock().unwrap().push_back(ScriptedStep::Streamed(events));
        sender
    }

    /// Returns the number of calls of the model, by all instances.
    pub fn model_calls(&self) -> usize {
        self.model.requests.lock().unwrap().len()
    }

    /// Posts a body, with a hold in seconds.
    pub async fn try_post(&self, body: Value, hold: Option<u64>) -> Result<Following, SubmitError> {
        let body = ChatBody::parse(body).unwrap();
        let hold = hold.map(Duration::from_secs);
        self.engine
            .submit(Submission {
                owner: self.owner.clone(),
                body,
                hold,
                address: None,
                groups: Vec::new(),
                retries: None,
                traceparent: None,
            })
            .await
    }

    /// Posts a user message, with the browser tools `where` and `color`.
    pub async fn post_text(&self, text: &str) -> StreamReader {
        self.post_text_with_hold(text, None).await
    }

    /// As [`World::post_text`], with a hold in seconds.
    pub async fn post_text_with_hold(&self, text: &str, hold: Option<u64>) -> StreamReader {
        let tool = json!({"parameters": {"type": "object"}});
        let message = json!({"role": "user", "content": text});
        let body =
            json!({"id": self.chat.as_str(), "message": message, "tools": {"where": tool, "color": tool}});
        StreamReader::new(self.try_post(body, hold).await.unwrap().reader)
    }

    /// Posts a user message as a page does that shows what waits now, in words that may decide about it.
    pub async fn say(&self, text: &str) -> StreamReader {
        let decides = self.waiting_approvals().await;
        self.post(json!({
            "id": self.chat.as_str(),
            "message": { "role": "user", "content": text },
            "fermata": { "decides": decides },
        }))
        .await
    }

    /// Returns the ids of the approvals that wait.
    pub async fn waiting_approvals(&self) -> Vec<String> {
        let view = self.engine.chat(&self.owner, &self.chat).await.unwrap();
        let id = |pending: &Pending| match pending {
            Pending::Call(call) => Some(call.approval_request.as_ref()?.id.to_string()),
            Pending::Elicitation { .. } => None,
        };
        view.pending.iter().filter_map(id).collect()
    }

    /// Posts a body.
    pub async fn post(&self, body: Value) -> StreamReader {
        StreamReader::new(self.try_post(body, None).await.unwrap().reader)
    }

    /// Follows the open run from its start; `None` if no run is open.
    pub async fn follow(&self) -> Option<StreamReader> {
        let following = self.engine.resume(&self.owner, &self.chat, None).await.unwrap();
        following.map(|following| StreamReader::new(following.reader))
    }

    /// Answers a call or question. Returns the state of the call, or the text of the error.
    pub async fn answer(&self, answer: Answer) -> Result<String, String> {
        self.answer_all(vec![answer]).await
    }

    pub async fn answer_all(&self, answers: Vec<Answer>) -> Result<String, String> {
        let receipts = self
            .engine
            .answer(Decider::new(self.owner.clone(), DecisionChannel::Api, None), &self.chat, answers)
            .await;
        let receipts = receipts.map_err(|error| error.to_string())?;
        Ok(receipts.iter().map(|receipt| receipt.state.as_str()).collect::<Vec<_>>().join(" "))
    }

    /// Lists the calls and questions that wait, each with its id first.
    pub async fn pending(&self) -> Vec<String> {
        let view = self.engine.chat(&self.owner, &self.chat).await.unwrap();
        view.pending
            .iter()
            .map(|pending| match pending {
                Pending::Call(call) => format!("{} {}", call.id, call.state().name()),
                Pending::Elicitation { id, question, .. } => format!("{id} asks {}", question.message),
            })
            .collect()
    }

    /// Returns the chat's open run as it is saved.
    pub fn open_run(&self) -> Option<RunRecord> {
        self.store.store.chat(&self.chat).now_or_never().unwrap().unwrap().unwrap().open_run
    }

    pub async fn messages(&self) -> Vec<UiMessage> {
        self.engine.chat(&self.owner, &self.chat).await.unwrap().messages
    }
}

/// A reader of a stream, and the chunks that it has read.
pub struct StreamReader {
    reader: Reader,
    pub chunks: Vec<Value>,
    /// `true` once the reader has read `[DONE]`.
    pub is_done: bool,
}

impl StreamReader {
    pub fn new(reader: Reader) -> Self {
        Self { reader, chunks: Vec::new(), is_done: false }
    }

    /// Reads on until there is a chunk of this type, and returns the id of its call, or `""`.
    pub async fn read_until(&mut self, kind: &str) -> String {
        let mut checked = 0;
        loop {
            while checked < self.chunks.len() {
                let chunk = &self.chunks[checked];
                checked += 1;
                if chunk["type"] == kind {
                    return chunk["toolCallId"].as_str().unwrap_or("").to_owned();
                }
            }
            assert!(self.read_more().await, "the stream ended without {kind}: {}", self.types());
        }
    }

    /// Reads to the end, and returns the types of all chunks.
    pub async fn read_to_end(&mut self) -> String {
        while self.read_more().await {}
        self.types()
    }

    pub fn types(&self) -> String {
        self.chunks.iter().map(|chunk| chunk["type"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    pub fn text(&self) -> String {
        self.chunks.iter().filter_map(|chunk| chunk["delta"].as_str()).collect()
    }

    pub fn find(&self, kind: &str) -> &Value {
        self.chunks
            .iter()
            .find(|chunk| chunk["type"] == kind)
            .unwrap_or_else(|| panic!("no {kind} in {}", self.types()))
    }

    pub async fn read_more(&mut self) -> bool {
        let Some(bytes) = self.reader.next().await else { return false };
        for line in std::str::from_utf8(&bytes).unwrap().lines() {
            match line.strip_prefix("data: ") {
                Some("[DONE]") => self.is_done = true,
                Some(data) => self.chunks.push(serde_json::from_str(data).unwrap()),
                None => {}
            }
        }
        true
    }
}

/// Returns a step with a text of the model.
pub fn text(text: &str) -> ModelStep {
    vec![Ok(ModelEvent::Text(text.into())), finished()]
}

/// Returns a step with calls of the model, each a tool and its input.
pub fn calls(calls: &[(&str, Value)]) -> ModelStep {
    let events = calls.iter().enumerate().flat_map(|(key, (tool, input))| {
        [
            Ok(ModelEvent::CallStart { key, tool: (*tool).into() }),
            Ok(ModelEvent::CallDelta { key, arguments: input.to_string() }),
        ]
    });
    events.chain([finished()]).collect()
}

pub fn finished() -> Result<ModelEvent, ModelError> {
    Ok(ModelEvent::Finished { reason: FinishReason::Stop, usage: None })
}

pub fn output(call: &str, output: Value) -> Answer {
    Answer { of: AnswerTarget::Call(ToolCallId::new(call)), kind: AnswerKind::Output { output } }
}

/// Returns an approval with an edited input.
pub fn edited(call: &str, input: Value) -> Answer {
    let kind = AnswerKind::Decision { approved: true, reason: None, always: None, input: Some(input.into()) };
    Answer { of: AnswerTarget::Call(ToolCallId::new(call)), kind }
}

pub fn decision(call: &str, approved: bool) -> Answer {
    let kind = AnswerKind::Decision { approved, reason: None, always: None, input: None };
    Answer { of: AnswerTarget::Call(ToolCallId::new(call)), kind }
}

pub fn always(call: &str) -> Answer {
    let kind =
        AnswerKind::Decision { approved: true, reason: None, always: Some(Always::default()), input: None };
    Answer { of: AnswerTarget::Call(ToolCallId::new(call)), kind }
}
