//! A model that answers at random, and refuses the same requests as a strict provider.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use fermata_engine::{
    Model,
    memories::split_note,
    model::{ModelContent, ModelError, ModelEvent, ModelMessage, ModelRequest},
    store::ChatStore,
    summary::is_summary_request,
};
use fermata_protocol::{ChatId, FinishReason, RunId};
use futures::{FutureExt, StreamExt, stream, stream::BoxStream};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    process::{Process, Random},
    shared::{FaultyStore, assert_paired},
    tools::TOOLS,
};

type Event = Result<ModelEvent, ModelError>;

/// The model that all instances call.
#[derive(Default)]
pub struct RandomModel {
    /// If `true`, each step is one word.
    pub is_calm: AtomicBool,
    /// If `true`, the next step is a call of a browser tool.
    pub begins_with_call: AtomicBool,
    /// The requests since the model is calm.
    pub requests: Mutex<Vec<ModelRequest>>,
    /// The streams that are being read, and the processes that read them.
    open_streams: OpenStreams,
    next_word: AtomicUsize,
    /// The number of instances that each run has killed.
    killed_instances: Mutex<BTreeMap<RunId, u32>>,
}

/// The model as one instance calls it.
pub struct InstanceModel {
    pub model: Arc<RandomModel>,
    pub process: Arc<Process>,
    pub store: Arc<FaultyStore>,
}

/// A user message that ends with this word kills each instance that calls the model for it.
pub const POISON: &str = "poison";
/// As [`POISON`], after a step with a call.
pub const SLOW_POISON: &str = "slow poison";
/// The number of instances that a run may kill: the first, and those that resume it, except the one that gives it up.
pub const MAX_KILLED: u32 = 3;

/// Counts a stream among the open ones while it lives.
struct OpenStream(u64, OpenStreams);

type OpenStreams = Arc<Mutex<Vec<(u64, Arc<Process>)>>>;

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.1.lock().unwrap().retain(|(number, _)| *number != self.0);
    }
}

// === impl Oracle ===

impl RandomModel {
    /// Returns the number of instances that each run has killed.
    pub fn killed_instances(&self) -> Vec<u32> {
        self.killed_instances.lock().unwrap().values().copied().collect()
    }

    fn open_stream(&self, process: &Arc<Process>) -> OpenStream {
        let number = process.conditions.random.below(u64::MAX);
        self.open_streams.lock().unwrap().push((number, process.clone()));
        OpenStream(number, self.open_streams.clone())
    }

    /// Returns whether a process that was not killed reads a stream.
    pub fn has_open_streams(&self) -> bool {
        self.open_streams.lock().unwrap().iter().any(|(_, process)| !process.killed.is_cancelled())
    }

    /// Returns the events of an answer to the request for a summary, each with the milliseconds before it. A summary whose messages have
    /// given their facts before has none.
    fn summary_events(&self, random: &Random, asks_for_facts: bool) -> Vec<(u64, Event)> {
        let text = |text: &str| Ok(ModelEvent::Text(text.into()));
        let number = self.next_word.fetch_add(1, Ordering::SeqCst);
        let mut summary = json!({"goal": NO_FACT, "entities": {"name": "Ada"}});
        if asks_for_facts {
            summary["goal"] = number.to_string().into();
            summary["memories"] = json!([{"op": "new", "text": memory_of(number)}]);
        }
        let summary = summary.to_string();
        if self.is_calm.load(Ordering::SeqCst) {
            return vec![(0, text(&summary)), (0, finished())];
        }
        match random.below(8) {
            0 => vec![(random.below(500), text("I would rather not.")), (0, finished())],
            1 => vec![(random.below(500), Err(ModelError::Provider("at random".into())))],
            2 => vec![(0, Err(ModelError::TooLong("at random".into())))],
            3 => vec![(200_000, finished())],
            _ => vec![(random.below(3000), text(&summary)), (0, finished())],
        }
    }

    /// Returns the events of a step, each with the milliseconds before it.
    fn events(&self, random: &Random) -> Vec<(u64, Event)> {
        if self.begins_with_call.swap(false, Ordering::SeqCst) {
            return vec![
                (0, Ok(ModelEvent::CallStart { key: 0, tool: "where".into() })),
                (0, Ok(ModelEvent::CallDelta { key: 0, arguments: "{}".into() })),
                (0, finished()),
            ];
        }
        if self.is_calm.load(Ordering::SeqCst) {
            return vec![(0, Ok(ModelEvent::Text("done".into()))), (0, finished())];
        }
        let mut events = Vec::new();
        if random.below(20) == 0 {
            return vec![(random.below(200), Err(ModelError::TooLong("at random".into())))];
        }
        let pause = *random.one_of(&[0, 0, 200, 3000]);
        for _ in 0..random.below(5) {
            let word = format!("w{} ", self.next_word.fetch_add(1, Ordering::SeqCst));
            let is_reasoning = random.below(4) == 0;
            let event = if is_reasoning { ModelEvent::Reasoning(word) } else { ModelEvent::Text(word) };
            events.push((random.below(pause + 1), Ok(event)));
        }
        match random.below(16) {
            0..2 => {}
            2 => events.push((random.below(500), Err(ModelError::Provider("at random".into())))),
            // The model is silent until every timeout has passed.
            3 => events.push((100_000, finished())),
            _ => events.extend(
                (0..=*random.one_of(&[0, 0, 1, 2]))
                    .flat_map(|key| call(usize::try_from(key).unwrap(), random)),
            ),
        }
        events.push((random.below(300), finished()));
        events
    }
}

fn call(key: usize, random: &Random) -> Vec<(u64, Event)> {
    let tool = match random.below(10) {
        0..4 => *random.one_of(&["where", "color"]),
        4 => "nothing_like_that",
        _ => random.one_of(&TOOLS).name,
    };
    let does = *random.one_of(&["", "", "fails", "is limited", "reports", "asks"]);
    let time = *random.one_of(&[0, 0, 50, 700, 6000, 40_000]);
    let input = json!({"does": does, "ms": time, "key": *random.one_of(&["a", "b"])}).to_string();
    let (head, tail) = input.split_at(4);
    vec![
        (0, Ok(ModelEvent::CallStart { key, tool: tool.into() })),
        (0, Ok(ModelEvent::CallDelta { key, arguments: head.into() })),
        (random.below(200), Ok(ModelEvent::CallDelta { key, arguments: tail.into() })),
    ]
}

fn finished() -> Event {
    Ok(ModelEvent::Finished { reason: FinishReason::Stop, usage: None })
}

/// The effect of a message that kills instances.
enum Poison {
    MakesCall,
    Kills { chat: ChatId },
}

impl Poison {
    fn of(request: &ModelRequest) -> Option<Self> {
        let content = request.messages.iter().rev().find_map(|message| match message {
            ModelMessage::User(content) => Some(content),
            ModelMessage::System(_) | ModelMessage::Assistant { .. } | ModelMessage::Tool { .. } => None,
        })?;
        let text = content.iter().find_map(|content| {
            let ModelContent::Text(text) = content else { return None };
            let (_, text) = split_note(text);
            text.ends_with(POISON).then_some(text)
        })?;
        let is_first = matches!(request.messages.last(), Some(ModelMessage::User(_)));
        if is_first && text.ends_with(SLOW_POISON) {
            return Some(Self::MakesCall);
        }
        let chat = text.split(' ').next().map(ChatId::new)?;
        Some(Self::Kills { chat })
    }
}

// === impl Mouth ===

impl InstanceModel {
    /// Kills this instance, and notes the run that was the cause.
    fn kill(&self, chat: &ChatId) {
        let history = &self.process.conditions.history;
        let record = self.store.store.chat(chat).now_or_never().unwrap().unwrap();
        // The run may have been resumed by another instance meanwhile; then this death does not count.
        let mine = record.filter(|record| record.run_owner == self.store.joined());
        if let Some(run) = mine.and_then(|record| record.open_run) {
            history.log(format!("{} kills {:?}", run.id, self.store.joined()));
            let mut killed = self.model.killed_instances.lock().unwrap();
            let killed = killed.entry(run.id.clone()).or_default();
            *killed += 1;
            if *killed > MAX_KILLED {
                history.violation(format!("{} has killed {killed} instances", run.id));
            }
        }
        self.process.killed.cancel();
    }
}

#[async_trait]
impl Model for InstanceModel {
    fn name(&self) -> &str {
        "random"
    }

    async fn stream(&self, request: ModelRequest) -> Result<BoxStream<'static, Event>, ModelError> {
        self.process.hang_if_killed().await;
        assert_paired(&request);
        let model = &self.model;
        let poison = Poison::of(&request);
        let asks_for_summary = is_summary_request(&request);
        let asks_for_facts = matches!(request.messages.first(), Some(ModelMessage::System(text)) if text.contains("`memories`"));
        if model.is_calm.load(Ordering::SeqCst) && !asks_for_summary {
            model.requests.lock().unwrap().push(request);
        }
        self.process.conditions.delay().await;
        if let Some(Poison::Kills { chat }) = &poison {
            self.kill(chat);
        }
        self.process.hang_if_killed().await;
        let open_stream = model.open_stream(&self.process);
        let events = match poison {
            Some(_) => {
                call(0, &self.process.conditions.random).into_iter().chain([(0, finished())]).collect()
            }
            None if asks_for_summary => model.summary_events(&self.process.conditions.random, asks_for_facts),
            None => model.events(&self.process.conditions.random),
        };
        let process = self.process.clone();
        let events = stream::iter(events).then(move |(time, event)| {
            let (process, _) = (process.clone(), &open_stream);
            async move {
                if time > 0 {
                    process.run_until_killed(sleep(Duration::from_millis(time))).await;
                }
                process.hang_if_killed().await;
                event
            }
        });
        Ok(events.boxed())
    }
}

/// The goal of a summary without a fact.
pub const NO_FACT: &str = "no fact";

/// Returns the words of the memory that comes with a summary. They have to do with the messages of every chat.
pub fn memory_of(number: usize) -> String {
    format!("c0 c1 c2 fact {number}.")
}

/// Returns the result of a call in a request.
pub fn result_of<'a>(request: &'a ModelRequest, call: &str) -> Option<&'a [ModelContent]> {
    request.messages.iter().find_map(|message| match message {
        ModelMessage::Tool { call_id, content, .. } if call_id == call => Some(content.as_slice()),
        ModelMessage::Tool { .. }
        | ModelMessage::System(_)
        | ModelMessage::User(_)
        | ModelMessage::Assistant { .. } => None,
    })
}

/// Returns whether a content has a text that contains this one.
pub fn contains_text(content: &[ModelContent], wanted: &Value) -> bool {
    let wanted = wanted.as_str().unwrap_or_default();
    content.iter().any(|content| matches!(content, ModelContent::Text(text) if text.contains(wanted)))
}
