//! The one limit on requests to models: runs, summaries and embeddings take turns.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use fermata_engine::{
    Assistants, Embedder, Model, Submission, SummaryError,
    assistants::{Assistant, ModelChoice},
    memories::MemoryDraft,
    model::{ModelError, ModelEvent, ModelRequest},
    store::memories::MemoryAuthor,
};
use fermata_protocol::{ChatBody, ChatId};
use fermata_tools::{Owner, Principal};
use futures::{
    StreamExt,
    future::join_all,
    stream::{self, BoxStream},
};
use serde_json::json;
use tokio::time::sleep;

use crate::world::{StreamReader, World, finished};

/// Counts the requests that are under way.
#[derive(Clone, Default)]
struct Gauge {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    all: Arc<AtomicUsize>,
}

/// A request that is under way until this is dropped.
struct UnderWay(Gauge);

/// A model that takes a second for its answer, a summary with a fact about the user.
struct Slow(Gauge);

/// An embedding model that takes a second.
struct SlowEmbedder(Gauge);

impl Gauge {
    fn enter(&self) -> UnderWay {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        self.all.fetch_add(1, Ordering::SeqCst);
        UnderWay(self.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Model for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    async fn stream(
        &self,
        _: ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelEvent, ModelError>>, ModelError> {
        let under_way = self.0.enter();
        let answer = json!({"goal": "g", "memories": []}).to_string();
        let events = stream::iter([Ok(ModelEvent::Text(answer)), finished()]);
        Ok(events
            .then(move |event| {
                let _ = &under_way;
                async {
                    sleep(Duration::from_millis(500)).await;
                    event
                }
            })
            .boxed())
    }
}

#[async_trait]
impl Embedder for SlowEmbedder {
    fn name(&self) -> &str {
        "slow"
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError> {
        let _under_way = self.0.enter();
        sleep(Duration::from_secs(1)).await;
        Ok(texts.iter().map(|_| vec![1.0, 0.5]).collect())
    }
}

fn slow(world: &World, gauge: &Gauge) {
    let model = || ModelChoice::of(Arc::new(Slow(gauge.clone())));
    let assistant = Assistant { remembers: true, ..Assistant::answered_by(model()) };
    let assistants = Assistants {
        default: assistant,
        summary_model: Some(model()),
        ..Assistants::answered_by(world.model.clone())
    };
    world.engine.set_assistants(assistants);
    world.engine.memories().set_embedder(Some(Arc::new(SlowEmbedder(gauge.clone()))));
}

async fn post(world: &World, owner: &Owner, chat: &str, past: usize) {
    let mut messages: Vec<_> = (0..past)
        .map(|index| json!({"role": if index % 2 == 0 { "user" } else { "assistant" }, "content": "past"}))
        .collect();
    messages.push(json!({"role": "user", "content": "and now?"}));
    let body = ChatBody::parse(json!({"id": chat, "messages": messages})).unwrap();
    let owner = owner.clone();
    let submission = Submission {
        owner,
        body,
        hold: None,
        address: None,
        groups: Vec::new(),
        retries: None,
        traceparent: None,
    };
    let following = world.engine.submit(submission).await.unwrap();
    StreamReader::new(following.reader).read_to_end().await;
}

async fn save(world: &World, owner: &Owner, text: &str) {
    let draft = MemoryDraft { text: text.to_owned(), ..MemoryDraft::default() };
    world.engine.memories().save(owner, draft, &MemoryAuthor::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn runs_summaries_and_embeddings_take_turns() {
    let world = World::one_at_a_time();
    let gauge = Gauge::default();
    slow(&world, &gauge);
    let owners = [Owner::new("ada"), Owner::new("bob")];
    for (index, owner) in owners.iter().enumerate() {
        for chat in 0..3 {
            post(&world, owner, &format!("old-{index}-{chat}"), 32).await;
        }
        save(&world, owner, "Likes roses.").await;
    }
    let before = gauge.all.load(Ordering::SeqCst);
    let work = owners.iter().enumerate().map(|(index, owner)| {
        let world = &world;
        async move {
            let principal = Principal::from(owner.clone());
            let chats: Vec<ChatId> = (0..3).map(|chat| ChatId::new(format!("old-{index}-{chat}"))).collect();
            let compact = chats.iter().map(|chat| world.engine.compact(&principal, chat, None));
            let names: Vec<String> = (0..2).map(|chat| format!("new-{index}-{chat}")).collect();
            let runs = names.iter().map(|chat| post(world, owner, chat, 0));
            let saves = ["a", "b", "c"].map(|text| save(world, owner, text));
            let finds =
                ["x", "y"].map(|query| world.engine.memories().list(owner, Some(query), None, 9, None));
            let (compacted, _, _, found) =
                tokio::join!(join_all(compact), join_all(runs), join_all(saves), join_all(finds));
            for result in compacted {
                assert!(matches!(result, Ok(_) | Err(SummaryError::NothingToCompact)), "{result:?}");
            }
            assert!(found.iter().all(Result::is_ok));
        }
    });
    join_all(work).await;
    sleep(Duration::from_secs(120)).await;
    assert_eq!(gauge.now.load(Ordering::SeqCst), 0);
    assert!(gauge.all.load(Ordering::SeqCst) - before >= 12, "{:?}", gauge.all);
    assert_eq!(gauge.most.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_page_is_told_when_its_summary_waits_for_too_long() {
    let world = World::one_at_a_time();
    let gauge = Gauge::default();
    slow(&world, &gauge);
    post(&world, &world.owner, "old", 32).await;
    sleep(Duration::from_secs(60)).await;
    // A run that never ends keeps the only slot.
    world.engine.set_assistants(Assistants::answered_by(world.model.clone()));
    let answer = world.script_streamed();
    answer.send(Ok(ModelEvent::Text("Well".into()))).unwrap();
    let body = json!({"id": "other", "message": {"role": "user", "content": "hi"}});
    let mut stream = world.post(body).await;
    stream.read_until("text-delta").await;
    let compacted = world.engine.compact(&world.owner.clone().into(), &ChatId::new("old"), None).await;
    assert!(matches!(compacted, Err(SummaryError::NoModelRequest)), "{compacted:?}");
}
