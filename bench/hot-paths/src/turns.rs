//! Turns of an engine whose store is memory: deciding, folding, the log, encoding and a reader.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use async_trait::async_trait;
use fermata_engine::{
    Assistants, Clock, Engine, EngineParts, Hold, Ids, MemoryService, Model, Rules, Settings, Submission,
    memories::MemoryLimits,
    model::{ModelError, ModelEvent, ModelMessage, ModelRequest},
    store::InMemoryStore,
};
use fermata_protocol::{ChatBody, FinishReason};
use fermata_tools::{CallContext, Capacity, Decision, Owner, Tool, ToolError, TypedTool, typed};
use futures::{StreamExt, stream, stream::BoxStream};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::Round;

/// The words of each of many short answers.
const WORDS: usize = 20;

/// One answer of so many words.
pub fn long_answer(deltas: usize) -> Result<Round> {
    let mut world = World::new(Script { calls: 0, words: deltas })?;
    Ok(Box::new(move || world.turn()))
}

/// So many short answers, each in a new chat.
pub fn short_answers(turns: usize) -> Result<Round> {
    let mut world = World::new(Script { calls: 0, words: WORDS })?;
    Ok(Box::new(move || (0..turns).for_each(|_| world.turn())))
}

/// A step that makes so many calls, and one with a short answer to their outputs.
pub fn step_of_calls(calls: usize) -> Result<Round> {
    let mut world = World::new(Script { calls, words: WORDS })?;
    Ok(Box::new(move || world.turn()))
}

struct World {
    /// Its time stands still unless nothing else is to be done, so that what is done at intervals is not counted.
    runtime: Runtime,
    engine: Engine,
    turns: u64,
}

/// A model that makes calls, if it is to, and then says words, one after the other.
struct Script {
    calls: usize,
    words: usize,
}

/// A tool that has its output at once.
struct Noon;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Day {
    #[serde(rename = "day")]
    _day: u32,
}

/// A clock that stands still.
struct StoppedClock;

/// Ids that are counted.
#[derive(Default)]
struct CountedIds(AtomicU64);

// === impl World ===

impl World {
    fn new(model: Script) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build()?;
        let store = Arc::new(InMemoryStore::new());
        let (clock, ids) = (Arc::new(StoppedClock), Arc::new(CountedIds::default()));
        let noon: Arc<dyn Tool> = typed(Noon);
        let parts = EngineParts {
            assistants: Assistants::answered_by(Arc::new(model)),
            store: store.clone(),
            peers: None,
            tools: vec![noon],
            rules: Rules::default(),
            clock: clock.clone(),
            ids: ids.clone(),
            resolver: Arc::new(fermata_engine::SystemResolver::default()),
            memories: MemoryService::new(
                store,
                clock,
                ids,
                None,
                Capacity::unlimited(),
                MemoryLimits::default(),
            ),
            model_requests: Capacity::unlimited(),
            traces: None,
            settings: Settings {
                hold: Hold::For(Duration::from_secs(60)),
                heartbeat_thread: false,
                ..Settings::default()
            },
        };
        let engine = runtime.block_on(async { Engine::new(parts) })?;
        let mut world = Self { runtime, engine, turns: 0 };
        world.turn();
        Ok(world)
    }

    /// Posts a message to a new chat, and reads the answer to its end.
    fn turn(&mut self) {
        self.turns += 1;
        let message =
            json!({ "role": "user", "parts": [{ "type": "text", "text": "Why is the sky blue?" }] });
        let body = json!({ "id": format!("chat_{}", self.turns), "messages": [message] });
        let submission = Submission {
            owner: Owner::anyone(),
            body: ChatBody::parse(body).expect("a body"),
            hold: None,
            address: None,
            groups: Vec::new(),
            retries: None,
            traceparent: None,
        };
        let ended = self.runtime.block_on(async {
            let mut following = self.engine.submit(submission).await.expect("a run");
            let mut last = None;
            while let Some(frames) = following.reader.next().await {
                last = Some(frames);
            }
            last
        });
        let ended = ended.expect("a stream");
        assert!(ended.ends_with(b"data: [DONE]\n\n"), "the stream ends");
    }
}

// === impl Script ===

#[async_trait]
impl Model for Script {
    fn name(&self) -> &str {
        "script"
    }

    async fn stream(
        &self,
        request: ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelEvent, ModelError>>, ModelError> {
        let has_outputs = matches!(request.messages.last(), Some(ModelMessage::Tool { .. }));
        let calls = if has_outputs { 0 } else { self.calls };
        let words = if calls > 0 { 0 } else { self.words };
        let call = |key| {
            let arguments = format!(r#"{{"day":{key}}}"#);
            [ModelEvent::CallStart { key, tool: "noon".into() }, ModelEvent::CallDelta { key, arguments }]
        };
        let reason = if calls > 0 { FinishReason::ToolCalls } else { FinishReason::Stop };
        let end = ModelEvent::Finished { reason, usage: None };
        let events = (0..calls)
            .flat_map(call)
            .chain((0..words).map(|n| ModelEvent::Text(format!(" word{n}"))))
            .chain([end])
            .collect::<Vec<_>>();
        // One after the other, as from a model that speaks.
        let in_turn = stream::iter(events).then(async |event| {
            tokio::task::yield_now().await;
            Ok(event)
        });
        Ok(in_turn.boxed())
    }
}

// === impl Noon ===

#[async_trait]
impl TypedTool for Noon {
    const NAME: &'static str = "noon";
    const DESCRIPTION: &'static str = "Tells when it is noon.";
    const POLICY: Decision = Decision::Allow;
    type Input = Day;

    async fn call(&self, _: Day, _: CallContext) -> Result<Value, ToolError> {
        Ok(json!({ "noon": true }))
    }
}

// === impl StoppedClock ===

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

// === impl CountedIds ===

impl Ids for CountedIds {
    fn next(&self, prefix: &str) -> String {
        format!("{prefix}{:022}", self.next_number())
    }

    fn next_idempotency_key(&self) -> String {
        self.next("key_")
    }

    fn next_number(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}
