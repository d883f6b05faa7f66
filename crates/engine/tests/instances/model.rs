//! A model that says what chance wants, and is as strict as the strictest provider about what it is told.

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
    model::{ModelContent, ModelError, ModelEvent, ModelMessage, ModelRequest},
    store::ChatStore,
};
use fermata_protocol::{ChatId, FinishReason, RunId};
use futures::{FutureExt, StreamExt, stream, stream::BoxStream};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    life::{Chance, Life},
    shared::{Shaky, assert_paired},
    tools::KINDS,
};

type Event = Result<ModelEvent, ModelError>;

/// What all instances ask.
#[derive(Default)]
pub struct Oracle {
    /// Whether it says one word from now on, and nothing else.
    pub is_calm: AtomicBool,
    /// Whether the first that it says then is a call of the page's.
    pub calls_first: AtomicBool,
    /// What it was told, as far as it is calm.
    pub asked: Mutex<Vec<ModelRequest>>,
    /// The streams that are listened to, and by whom.
    listened: Listened,
    words: AtomicUsize,
    /// How many instances each run has ended.
    ended: Mutex<BTreeMap<RunId, u32>>,
}

/// How an instance asks it.
pub struct Mouth {
    pub oracle: Arc<Oracle>,
    pub life: Arc<Life>,
    pub store: Arc<Shaky>,
}

/// A message with this word ends each instance that asks the model about it.
pub const POISON: &str = "poison";
/// The same, but the model calls a tool first.
pub const SLOW_POISON: &str = "slow poison";
/// How many instances a run may end: the one at which it begins, and those that take it up, but for the one that gives it up.
pub const MOST_ENDED: u32 = 3;

/// A stream that somebody listens to, until this is dropped.
struct Listening(u64, Listened);

type Listened = Arc<Mutex<Vec<(u64, Arc<Life>)>>>;

impl Drop for Listening {
    fn drop(&mut self) {
        self.1.lock().unwrap().retain(|(number, _)| *number != self.0);
    }
}

// === impl Oracle ===

impl Oracle {
    /// How many instances the runs have ended, each.
    pub fn ended(&self) -> Vec<u32> {
        self.ended.lock().unwrap().values().copied().collect()
    }

    fn listen(&self, life: &Arc<Life>) -> Listening {
        let number = life.world.chance.below(u64::MAX);
        self.listened.lock().unwrap().push((number, life.clone()));
        Listening(number, self.listened.clone())
    }

    /// Whether a process that has not ended listens to it.
    pub fn is_listened_to(&self) -> bool {
        self.listened.lock().unwrap().iter().any(|(_, life)| !life.dead.is_cancelled())
    }

    /// What it says, and after how many milliseconds each.
    fn speech(&self, chance: &Chance) -> Vec<(u64, Event)> {
        if self.calls_first.swap(false, Ordering::SeqCst) {
            return vec![
                (0, Ok(ModelEvent::CallStart { key: 0, tool: "where".into() })),
                (0, Ok(ModelEvent::CallDelta { key: 0, arguments: "{}".into() })),
                (0, finished()),
            ];
        }
        if self.is_calm.load(Ordering::SeqCst) {
            return vec![(0, Ok(ModelEvent::Text("done".into()))), (0, finished())];
        }
        let mut said = self.words(chance);
        match chance.below(16) {
            0..2 => {}
            2 => said.push((chance.below(500), Err(ModelError::Provider("as chance wants".into())))),
            // It is silent for longer than anybody waits.
            3 => said.push((100_000, finished())),
            _ => said.extend(
                (0..=*chance.one_of(&[0, 0, 1, 2]))
                    .flat_map(|key| call(usize::try_from(key).unwrap(), chance)),
            ),
        }
        said.push((chance.below(300), finished()));
        said
    }

    fn words(&self, chance: &Chance) -> Vec<(u64, Event)> {
        let pause = *chance.one_of(&[0, 0, 200, 3000]);
        let word = |_| {
            let word = format!("w{} ", self.words.fetch_add(1, Ordering::SeqCst));
            let is_reasoning = chance.below(4) == 0;
            let event = if is_reasoning { ModelEvent::Reasoning(word) } else { ModelEvent::Text(word) };
            (chance.below(pause + 1), Ok(event))
        };
        (0..chance.below(5)).map(word).collect()
    }
}

fn call(key: usize, chance: &Chance) -> Vec<(u64, Event)> {
    let tool = match chance.below(10) {
        0..4 => *chance.one_of(&["where", "color"]),
        4 => "nothing_like_that",
        _ => chance.one_of(&KINDS).name,
    };
    let does = *chance.one_of(&["", "", "fails", "is limited", "reports", "asks"]);
    let time = *chance.one_of(&[0, 0, 50, 700, 6000, 40_000]);
    let input = json!({"does": does, "ms": time, "key": *chance.one_of(&["a", "b"])}).to_string();
    let (head, tail) = input.split_at(4);
    vec![
        (0, Ok(ModelEvent::CallStart { key, tool: tool.into() })),
        (0, Ok(ModelEvent::CallDelta { key, arguments: head.into() })),
        (chance.below(200), Ok(ModelEvent::CallDelta { key, arguments: tail.into() })),
    ]
}

fn finished() -> Event {
    Ok(ModelEvent::Finished { reason: FinishReason::Stop, usage: None })
}

/// What somebody has said that ends whoever works on it.
enum Poison {
    Waits,
    Works { chat: ChatId },
}

impl Poison {
    fn of(request: &ModelRequest) -> Option<Self> {
        let said = request.messages.iter().rev().find_map(|message| match message {
            ModelMessage::User(content) => Some(content),
            ModelMessage::System(_) | ModelMessage::Assistant { .. } | ModelMessage::Tool { .. } => None,
        })?;
        let words = said.iter().find_map(|content| {
            let ModelContent::Text(words) = content else { return None };
            words.ends_with(POISON).then_some(words)
        })?;
        let is_first = matches!(request.messages.last(), Some(ModelMessage::User(_)));
        if is_first && words.ends_with(SLOW_POISON) {
            return Some(Self::Waits);
        }
        let chat = words.split(' ').next().map(ChatId::new)?;
        Some(Self::Works { chat })
    }
}

// === impl Mouth ===

impl Mouth {
    /// Ends this instance, and notes for which run.
    fn ends(&self, chat: &ChatId) {
        let facts = &self.life.world.facts;
        let record = self.store.store.chat(chat).now_or_never().unwrap().unwrap();
        // What an instance does with a run that others have taken up meanwhile is nobody's take-up.
        let mine = record.filter(|record| record.driver == self.store.joined());
        if let Some(run) = mine.and_then(|record| record.open_run) {
            facts.log(format!("{} ends {:?}", run.id, self.store.joined()));
            let mut ended = self.oracle.ended.lock().unwrap();
            let ended = ended.entry(run.id.clone()).or_default();
            *ended += 1;
            if *ended > MOST_ENDED {
                facts.fault(format!("{} has ended {ended} instances", run.id));
            }
        }
        self.life.dead.cancel();
    }
}

#[async_trait]
impl Model for Mouth {
    fn name(&self) -> &str {
        "oracle"
    }

    async fn stream(&self, request: ModelRequest) -> Result<BoxStream<'static, Event>, ModelError> {
        self.life.goes_on().await;
        assert_paired(&request);
        let oracle = &self.oracle;
        let poison = Poison::of(&request);
        if oracle.is_calm.load(Ordering::SeqCst) {
            oracle.asked.lock().unwrap().push(request);
        }
        self.life.world.passes().await;
        if let Some(Poison::Works { chat }) = &poison {
            self.ends(chat);
        }
        self.life.goes_on().await;
        let listening = oracle.listen(&self.life);
        let said = match poison {
            Some(_) => call(0, &self.life.world.chance).into_iter().chain([(0, finished())]).collect(),
            None => oracle.speech(&self.life.world.chance),
        };
        let life = self.life.clone();
        let speech = stream::iter(said).then(move |(time, event)| {
            let (life, _) = (life.clone(), &listening);
            async move {
                if time > 0 {
                    life.lives(sleep(Duration::from_millis(time))).await;
                }
                life.goes_on().await;
                event
            }
        });
        Ok(speech.boxed())
    }
}

/// What a model was told of a call.
pub fn told_of<'a>(request: &'a ModelRequest, call: &str) -> Option<&'a [ModelContent]> {
    request.messages.iter().find_map(|message| match message {
        ModelMessage::Tool { call_id, content, .. } if call_id == call => Some(content.as_slice()),
        ModelMessage::Tool { .. }
        | ModelMessage::System(_)
        | ModelMessage::User(_)
        | ModelMessage::Assistant { .. } => None,
    })
}

/// Whether these words are among what somebody was told.
pub fn holds(content: &[ModelContent], words: &Value) -> bool {
    let words = words.as_str().unwrap_or_default();
    content.iter().any(|content| matches!(content, ModelContent::Text(text) if text.contains(words)))
}
