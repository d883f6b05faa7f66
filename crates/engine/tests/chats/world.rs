//! An engine with a model that follows a script, a clock that is tokio's, and a store that can be told to fail.

#![expect(clippy::unwrap_used, reason = "a test ends where its world is not as it must be")]

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use fermata_engine::{
    Engine, EngineParts, Following, Limits, Model, PeerTransport, Pending, Reader, Rules, Settings,
    Submission, SubmitError,
    model::{ModelError, ModelEvent, ModelRequest},
    peer_transport::MemoryTransport,
    store::{Change, ChatStore, MemoryStore, RunRecord},
};
use fermata_protocol::{
    Answer, AnswerKind, AnswerTarget, ChatBody, ChatId, FinishReason, Profile, RunId, ToolCallId, UiMessage,
};
use fermata_tools::{
    CallContext, Decision, Elicitation, ErrorType, Owner, Resource, RunBy, Tool, ToolError, ToolSpec,
};
use futures::{FutureExt, StreamExt, stream::BoxStream};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::mpsc,
};

use crate::shared::{Counting, Paused, Shaky, assert_paired};

/// What the model does in one step.
pub type Turn = Vec<Result<ModelEvent, ModelError>>;

#[derive(Default)]
pub struct Script {
    turns: Mutex<VecDeque<Speech>>,
    pub asked: Mutex<Vec<ModelRequest>>,
    /// How many streams are listened to at the moment.
    pub listened: Arc<AtomicUsize>,
}

enum Speech {
    Whole(Turn),
    Live(mpsc::UnboundedReceiver<Result<ModelEvent, ModelError>>),
    /// Panics in whoever listens.
    Panic,
}

impl Script {
    /// Whatever was written for the next steps is not said.
    pub fn forget_script(&self) {
        self.turns.lock().unwrap().clear();
    }
}

struct Listening(Arc<AtomicUsize>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
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
        let Some(turn) = self.turns.lock().unwrap().pop_front() else {
            return Err(ModelError::Refused("nobody wrote a turn for this".into()));
        };
        self.listened.fetch_add(1, Ordering::SeqCst);
        let listening = Listening(self.listened.clone());
        let stream = match turn {
            Speech::Whole(turn) => futures::stream::iter(turn).boxed(),
            Speech::Panic => futures::stream::once(async { panic!("as it was told") }).boxed(),
            Speech::Live(turn) => {
                futures::stream::unfold(turn, |mut turn| async { Some((turn.recv().await?, turn)) }).boxed()
            }
        };
        Ok(stream
            .map(move |event| {
                let _ = &listening;
                event
            })
            .boxed())
    }
}

/// A server tool: what its call does is in its input.
pub struct Does(&'static str, Decision, Option<Resource>, Arc<Mutex<Vec<String>>>);

impl Does {
    /// One that is allowed, under another name.
    pub fn called(name: &'static str, done: &Arc<Mutex<Vec<String>>>) -> Self {
        Self(name, Decision::Allow, None, Arc::clone(done))
    }
}

#[async_trait]
impl Tool for Does {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.0.into(),
            description: "Does what its input says.".into(),
            input_schema: json!({"type": "object"}),
            run_by: RunBy::Server,
            server: None,
            policy: self.1,
            resource: self.2.clone(),
            timeout: None,
            repeatable: false,
        }
    }

    async fn call(&self, input: Value, context: CallContext) -> Result<Value, ToolError> {
        let note = |what: &str| {
            self.3.lock().unwrap().push(format!("{what} {}", input["as"].as_str().unwrap_or("")))
        };
        note("begins");
        match input["does"].as_str() {
            Some("panics") => panic!("as it was told"),
            Some("fails") => return Err(ToolError::internal("as it was told")),
            Some("hangs") => {
                context.cancelled.cancelled().await;
                note("was cancelled");
                std::future::pending::<()>().await;
            }
            Some("waits") => tokio::time::sleep(Duration::from_secs(5)).await,
            Some("winds up") => {
                context.cancelled.cancelled().await;
                tokio::time::sleep(Duration::from_secs(2)).await;
                note("wound up");
            }
            Some("chats") => {
                for n in 0..1000 {
                    context.report(json!({ "progress": n }));
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            Some("asks") => {
                let requested_schema = json!({"type": "object", "required": ["size"]});
                let question = Elicitation {
                    message: "How big?".into(),
                    requested_schema,
                    server: Some("sizes".into()),
                    other_candidates: Vec::new(),
                };
                let reply = context.elicit(question).await;
                note(&format!("was told {reply:?}"));
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Some("is limited") => {
                let error =
                    ToolError::new(ErrorType::RateLimit, "slow down").retry_after(Duration::from_secs(7));
                return Err(error);
            }
            _ => {}
        }
        note("ends");
        Ok(json!({"input": input}))
    }
}

/// What outlives an instance.
#[derive(Default)]
struct Outside {
    store: Arc<MemoryStore>,
    model: Arc<Script>,
    ids: Arc<Counting>,
    clock: Arc<Paused>,
    database: Option<Arc<Paused>>,
    done: Arc<Mutex<Vec<String>>>,
}

/// An instance.
pub struct World {
    pub engine: Engine,
    pub model: Arc<Script>,
    pub store: Arc<Shaky>,
    /// How it reaches the other instances, where it is one of several.
    pub transport: Option<Arc<MemoryTransport>>,
    ids: Arc<Counting>,
    pub clock: Arc<Paused>,
    database: Option<Arc<Paused>>,
    pub done: Arc<Mutex<Vec<String>>>,
    pub owner: Owner,
    pub chat: ChatId,
}

impl World {
    pub fn new() -> Self {
        Self::on(Outside::default(), None)
    }

    /// The first of several instances.
    pub fn first() -> Self {
        Self::on(Outside::default(), Some(Arc::default()))
    }

    /// The same, on a database that has a clock of its own.
    pub fn first_on_a_clock() -> Self {
        Self::on(Outside { database: Some(Arc::default()), ..Outside::default() }, Some(Arc::default()))
    }

    /// One more instance, on a machine whose clock is so many seconds ahead.
    pub fn another_ahead(&self, seconds: i64) -> Self {
        let clock = Paused::default();
        clock.set(seconds);
        Self::on(Outside { clock: Arc::new(clock), ..self.outside() }, self.transport.clone())
    }

    /// One more instance of the same deployment.
    pub fn another(&self) -> Self {
        Self::on(self.outside(), self.transport.clone())
    }

    /// The same chats after the process has ended: nothing but the store and the model's script are left.
    pub fn restarted(self) -> Self {
        self.restarted_after(0)
    }

    /// The same, with the clock this many seconds after the beginning.
    pub fn restarted_after(self, since: u64) -> Self {
        self.store.kill();
        let clock = Arc::new(Paused::after(since));
        Self::on(Outside { clock, done: Arc::default(), ..self.outside() }, self.transport)
    }

    fn outside(&self) -> Outside {
        Outside {
            store: self.store.store.clone(),
            model: self.model.clone(),
            ids: self.ids.clone(),
            clock: self.clock.clone(),
            database: self.database.clone(),
            done: self.done.clone(),
        }
    }

    fn on(outside: Outside, transport: Option<Arc<MemoryTransport>>) -> Self {
        let Outside { store, model, ids, clock, database, done } = outside;
        let store = Shaky::on(store, database.clone());
        let notes = Some(Resource::per_owner("notes"));
        let engine = Engine::new(EngineParts {
            model: model.clone(),
            store: store.clone(),
            peers: transport.clone().map(|transport| transport as Arc<dyn PeerTransport>),
            tools: vec![
                Arc::new(Does("run", Decision::Allow, None, Arc::clone(&done))),
                Arc::new(Does("note", Decision::Ask, notes, Arc::clone(&done))),
            ],
            rules: Rules::default(),
            clock: clock.clone(),
            ids: ids.clone(),
            settings: Settings {
                hold: Duration::from_secs(300),
                expire: Duration::from_secs(3600),
                keep: Some(Duration::from_secs(14 * 24 * 3600)),
                // Paused time is that of a runtime with one thread, which no other thread sees.
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
            store,
            transport,
            ids,
            clock,
            database,
            done,
            owner: Owner::new("alice"),
            chat: ChatId::new("c"),
        }
    }

    /// Writes the model's next steps.
    pub fn script(&self, turns: impl IntoIterator<Item = Turn>) {
        self.model.turns.lock().unwrap().extend(turns.into_iter().map(Speech::Whole));
    }

    /// Has whoever listens to the model's next steps panic, this often.
    pub fn panic(&self, times: usize) {
        self.model.turns.lock().unwrap().extend((0..times).map(|_| Speech::Panic));
    }

    /// The model's next step, said bit by bit.
    pub fn speak(&self) -> mpsc::UnboundedSender<Result<ModelEvent, ModelError>> {
        let (mouth, ear) = mpsc::unbounded_channel();
        self.model.turns.lock().unwrap().push_back(Speech::Live(ear));
        mouth
    }

    pub fn asked(&self) -> usize {
        self.model.asked.lock().unwrap().len()
    }

    pub async fn try_post(&self, body: Value, hold: Option<u64>) -> Result<Following, SubmitError> {
        let body = ChatBody::parse(body).unwrap();
        let hold = hold.map(Duration::from_secs);
        self.engine.submit(Submission { owner: self.owner.clone(), body, hold, address: None }).await
    }

    /// A user's words, with two browser tools; the reader of the response.
    pub async fn say(&self, words: &str) -> Read {
        self.say_holding(words, None).await
    }

    pub async fn say_holding(&self, words: &str, hold: Option<u64>) -> Read {
        let tool = json!({"parameters": {"type": "object"}});
        let message = json!({"role": "user", "content": words});
        let body =
            json!({"id": self.chat.as_str(), "message": message, "tools": {"where": tool, "color": tool}});
        Read::new(self.try_post(body, hold).await.unwrap().reader)
    }

    /// A post as it stands; the reader of the response.
    pub async fn post(&self, body: Value) -> Read {
        Read::new(self.try_post(body, None).await.unwrap().reader)
    }

    pub async fn follow(&self) -> Option<Read> {
        let following = self.engine.resume(&self.owner, &self.chat, None).await.unwrap();
        following.map(|following| Read::new(following.reader))
    }

    pub async fn answer(&self, answer: Answer) -> Result<String, String> {
        self.answer_all(vec![answer]).await
    }

    pub async fn answer_all(&self, answers: Vec<Answer>) -> Result<String, String> {
        let receipts = self.engine.answer(&self.owner, &self.chat, None, answers).await;
        let states = |receipts: Vec<fermata_tools::Receipt>| {
            receipts.iter().map(|r| r.state.as_str()).collect::<Vec<_>>().join(" ")
        };
        receipts.map(states).map_err(|error| error.to_string())
    }

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

    /// The chat's open run as it is saved.
    pub fn open_run(&self) -> Option<RunRecord> {
        self.store.store.chat(&self.chat).now_or_never().unwrap().unwrap().unwrap().open_run
    }

    /// Saves a run as versions did that kept all of it in its state.
    pub async fn put_state(&self, run: RunId, state: Value) {
        let store = &self.store.store;
        let fence = store.chat(&self.chat).await.unwrap().unwrap().fence;
        let settings = Change::PutSettings { run: run.clone(), settings: Value::Null };
        let save = Change::SaveRun {
            run,
            state,
            expires: None,
            waiting: true,
            let_go: true,
            questions: 0,
            driver: None,
            attempts: 0,
        };
        store.commit(&self.chat, fence, Timestamp::UNIX_EPOCH, vec![settings, save]).await.unwrap();
    }

    pub async fn messages(&self) -> Vec<UiMessage> {
        self.engine.chat(&self.owner, &self.chat).await.unwrap().messages
    }
}

/// A reader, and what it has read.
pub struct Read {
    reader: Reader,
    pub chunks: Vec<Value>,
    pub done: bool,
}

impl Read {
    pub fn new(reader: Reader) -> Self {
        Self { reader, chunks: Vec::new(), done: false }
    }

    /// Reads on until there is such a chunk; gives its call's id, or nothing.
    pub async fn until(&mut self, kind: &str) -> String {
        let mut seen = 0;
        loop {
            while seen < self.chunks.len() {
                let chunk = &self.chunks[seen];
                seen += 1;
                if chunk["type"] == kind {
                    return chunk["toolCallId"].as_str().unwrap_or("").to_owned();
                }
            }
            assert!(self.more().await, "the stream ended without {kind}: {}", self.types());
        }
    }

    /// Reads to the end and lists what came.
    pub async fn read_out(&mut self) -> String {
        while self.more().await {}
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

    async fn more(&mut self) -> bool {
        let Some(bytes) = self.reader.next().await else { return false };
        for line in std::str::from_utf8(&bytes).unwrap().lines() {
            match line.strip_prefix("data: ") {
                Some("[DONE]") => self.done = true,
                Some(data) => self.chunks.push(serde_json::from_str(data).unwrap()),
                None => {}
            }
        }
        true
    }
}

pub fn says(words: &str) -> Turn {
    vec![Ok(ModelEvent::Text(words.into())), finished()]
}

pub fn calls(calls: &[(&str, Value)]) -> Turn {
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

pub fn decision(call: &str, approved: bool) -> Answer {
    let kind = AnswerKind::Decision { approved, reason: None, always: false, input: None };
    Answer { of: AnswerTarget::Call(ToolCallId::new(call)), kind }
}

pub fn always(call: &str) -> Answer {
    let kind = AnswerKind::Decision { approved: true, reason: None, always: true, input: None };
    Answer { of: AnswerTarget::Call(ToolCallId::new(call)), kind }
}
