//! Measures the memory that the arguments of a call take. There is only one test, because the allocator counts for the whole process.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fermata_engine::{
    Assistants, Engine, EngineParts, MemoryService, Model, Rules, Settings, Submission, SystemResolver,
    memories::MemoryLimits,
    model::{ModelError, ModelEvent, ModelMessage, ModelRequest},
    store::{ChatStore, MemoryStore},
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

/// The bytes in which the model sends the arguments, piece by piece. The log keeps about 200 bytes more for each piece.
const PIECE: usize = 4096;

/// A model that makes one call with these arguments, and then says a word.
struct OneCall {
    arguments: Arc<str>,
}

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
        if matches!(request.messages.last(), Some(ModelMessage::Tool { .. })) {
            let end = ModelEvent::Finished { reason: FinishReason::Stop, usage: None };
            return Ok(stream::iter([Ok(ModelEvent::Text("done".into())), Ok(end)]).boxed());
        }
        let arguments = self.arguments.clone();
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

fn engine(arguments: &Arc<str>, store: &Arc<MemoryStore>, tool: Waits) -> Engine {
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
        assistants: Assistants::answered_by(Arc::new(OneCall { arguments: arguments.clone() })),
        store: store.clone(),
        peers: None,
        tools: vec![Arc::new(tool)],
        rules: Rules::default(),
        clock,
        ids,
        resolver: Arc::new(SystemResolver::default()),
        memories,
        model_requests: Capacity::unlimited(),
        settings: Settings { heartbeat_thread: false, ..Settings::default() },
    };
    Engine::new(parts).unwrap()
}

/// Returns the bytes that the store in memory keeps of the open run, which a database would keep elsewhere.
async fn stored(store: &MemoryStore, chat: &ChatId) -> usize {
    let run = store.chat(chat).await.unwrap().unwrap().open_run.unwrap();
    run.chunks.iter().map(|(_, record)| record.len()).sum()
}

#[tokio::test(start_paused = true)]
async fn the_arguments_of_a_call_that_runs_take_no_more_than_four_times_their_size() {
    // As many values as a call may have, which are small objects.
    let objects: Vec<_> = (0..9_000).map(|n| format!("{{\"a\":{n}}}")).collect();
    let arguments: Arc<str> = format!("{{\"x\":[{}]}}", objects.join(",")).into();
    drop(objects);
    let size = arguments.len();
    let (runs, may_end) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let store = Arc::new(MemoryStore::new());
    let engine = engine(&arguments, &store, Waits { may_end: may_end.clone(), runs: runs.clone() });
    let chat = ChatId::new("c");
    let body = json!({"id": "c", "message": {"role": "user", "content": "go"}});
    let submission = Submission {
        owner: Owner::anyone(),
        body: ChatBody::parse(body).unwrap(),
        hold: None,
        address: None,
        groups: Vec::new(),
        retries: None,
    };

    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let mut following = engine.submit(submission).await.unwrap();
    runs.acquire().await.unwrap().forget();
    let peak = ALLOCATOR.peak_usage() - before;
    let stored = stored(&store, &chat).await;
    let running = ALLOCATOR.current_usage() - before - stored;

    may_end.add_permits(1);
    while following.reader.next().await.is_some() {}
    drop(following);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let message = store.messages(&chat).await.unwrap();
    let kept = ALLOCATOR.current_usage() - before;
    drop(message);

    let times = |bytes: usize| bytes as f64 / size as f64;
    let found = format!(
        "{size} bytes of arguments take {:.1} times their size while the call runs, {:.1} times at most before, and {:.1} times afterwards",
        times(running),
        times(peak),
        times(kept)
    );
    eprintln!("{found}; stored {:.1}", times(stored));
    assert!(running <= 4 * size, "{found}");
}
