//! Measures the heap that the arguments of a call take. There is only one test, because the allocator counts for the whole process.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fermata_engine::{
    Assistants, Engine, EngineParts, Limits, MemoryService, Model, Reader, Rules, Settings, Submission,
    SystemResolver,
    memories::MemoryLimits,
    model::{ModelContent, ModelError, ModelEvent, ModelMessage, ModelRequest},
    store::{ChatStore, InMemoryStore},
};
use fermata_protocol::{ChatBody, ChatId, FinishReason, JsonText};
use fermata_tools::{CallContext, Capacity, Decision, Owner, RunBy, Tool, ToolError, ToolSpec};
use futures::{StreamExt, stream, stream::BoxStream};
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

#[allow(dead_code, unused_imports, reason = "each test binary uses its part")]
#[path = "../shared/mod.rs"]
mod shared;

use shared::{CountingIds, TestClock};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The size of the pieces that the model sends the arguments in. The log keeps about 250 bytes more for each piece.
const PIECE: usize = 4096;

/// A model that makes one call, and then says a word. Its arguments are as many small objects as the user's message says.
struct OneCall;

/// A tool that runs until it may end.
struct Waits {
    may_end: Arc<Semaphore>,
    runs: Arc<Semaphore>,
}

#[async_trait]
impl Model for OneCall {
    fn name(&self) -> &str {
        "one-call"
    }

    async fn stream(
        &self,
        request: ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelEvent, ModelError>>, ModelError> {
        let Some(ModelMessage::User(content)) = request.messages.last() else {
            let end = ModelEvent::Finished { reason: FinishReason::Stop, usage: None };
            return Ok(stream::iter([Ok(ModelEvent::Text("done".into())), Ok(end)]).boxed());
        };
        let [ModelContent::Text(objects)] = &content[..] else { panic!("the message is a text") };
        let arguments = arguments(objects.parse().unwrap());
        let start = ModelEvent::CallStart { key: 0, tool: "wait".into() };
        let end = ModelEvent::Finished { reason: FinishReason::ToolCalls, usage: None };
        let pieces = (0..arguments.len()).step_by(PIECE).map(move |from| {
            let piece = &arguments[from..arguments.len().min(from + PIECE)];
            ModelEvent::CallDelta { key: 0, arguments: piece.to_owned() }
        });
        let events = std::iter::once(start).chain(pieces).chain([end]);
        Ok(stream::iter(events.map(Ok)).boxed())
    }
}

#[async_trait]
impl Tool for Waits {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "wait".into(),
            title: None,
            description: "Waits.".into(),
            input_schema: json!({"type": "object", "properties": {"x": {"type": "array"}}}).into(),
            run_by: RunBy::Server,
            server: None,
            policy: Decision::Allow,
            resource: None,
            timeout: None,
            repeatable: false,
            annotations: None,
        }
    }

    async fn call(&self, _: JsonText, _: CallContext) -> Result<Value, ToolError> {
        self.runs.add_permits(1);
        self.may_end.acquire().await.unwrap().forget();
        Ok(json!({}))
    }
}

fn arguments(objects: usize) -> String {
    let objects: Vec<_> = (0..objects).map(|n| format!("{{\"a\":{n}}}")).collect();
    format!("{{\"x\":[{}]}}", objects.join(","))
}

fn engine(store: &Arc<InMemoryStore>, tool: Waits) -> Engine {
    let (clock, ids) = (Arc::new(TestClock::default()), Arc::new(CountingIds::default()));
    let memories = MemoryService::new(
        store.clone(),
        clock.clone(),
        ids.clone(),
        None,
        Capacity::unlimited(),
        MemoryLimits::default(),
    );
    let parts = EngineParts {
        assistants: Assistants::answered_by(Arc::new(OneCall)),
        store: store.clone(),
        peers: None,
        tools: vec![Arc::new(tool)],
        rules: Rules::default(),
        clock,
        ids,
        resolver: Arc::new(SystemResolver::default()),
        memories,
        model_requests: Capacity::unlimited(),
        traces: None,
        settings: Settings {
            heartbeat_thread: false,
            limits: Limits { argument_nodes: 200_000, ..Limits::default() },
            ..Settings::default()
        },
    };
    Engine::new(parts).unwrap()
}

/// Posts a message that has the model make a call with so many objects. Returns the reader of the answer.
async fn post(engine: &Engine, chat: &str, objects: usize) -> Reader {
    let message = json!({"role": "user", "content": objects.to_string()});
    let submission = Submission {
        owner: Owner::anyone(),
        body: ChatBody::parse(json!({"id": chat, "message": message})).unwrap(),
        hold: None,
        address: None,
        groups: Vec::new(),
        retries: None,
        traceparent: None,
    };
    engine.submit(submission).await.unwrap().reader
}

/// Reads to the end, and waits until nothing of the run is left in memory.
async fn end(mut reader: Reader) {
    while reader.next().await.is_some() {}
    drop(reader);
    tokio::time::sleep(Duration::from_secs(3600)).await;
}

/// Returns the bytes of the log that the store keeps of the open run. A database keeps them elsewhere.
async fn stored(store: &InMemoryStore, chat: &str) -> usize {
    let run = store.chat(&ChatId::new(chat)).await.unwrap().unwrap().open_run.unwrap();
    run.chunks.iter().map(|(_, record)| record.len()).sum()
}

#[tokio::test(start_paused = true)]
async fn the_arguments_of_a_call_that_runs_take_no_more_than_four_times_their_size() {
    // Nearly as many bytes as a call may have.
    const OBJECTS: usize = 60_000;
    let size = arguments(OBJECTS).len();
    let (runs, may_end) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let store = Arc::new(InMemoryStore::new());
    let engine = engine(&store, Waits { may_end: may_end.clone(), runs: runs.clone() });
    // What the first call alone takes is not counted.
    may_end.add_permits(1);
    end(post(&engine, "first", 1).await).await;
    runs.acquire().await.unwrap().forget();

    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let reader = post(&engine, "second", OBJECTS).await;
    runs.acquire().await.unwrap().forget();
    let peak = ALLOCATOR.peak_usage() - before;
    let running = ALLOCATOR.current_usage() - before - stored(&store, "second").await;
    may_end.add_permits(1);
    end(reader).await;
    let kept = ALLOCATOR.current_usage() - before;

    let times = |bytes: usize| bytes as f64 / size as f64;
    let found = format!(
        "{size} bytes of arguments take {:.1} times their size while the call runs, {:.1} times at most before, and {:.1} times afterwards",
        times(running),
        times(peak),
        times(kept)
    );
    // The call and the chunk that shows its input have the arguments, and the deltas have them with escaped quotes.
    assert!(running <= 4 * size, "{found}");
    // For a moment the input is a tree of values: when it is checked, when the rules decide about it, and when it is asked where it reads.
    assert!(peak <= 50 * size, "{found}");
    // The store in memory keeps the call and the message.
    assert!(kept <= 2 * size, "{found}");
}
