//! A model that says what chance wants, and is as strict as the strictest provider about what it is told.

use std::{
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
};
use fermata_protocol::FinishReason;
use futures::{StreamExt, stream, stream::BoxStream};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    life::{Chance, Life},
    shared::assert_paired,
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
}

/// How an instance asks it.
pub struct Mouth {
    pub oracle: Arc<Oracle>,
    pub life: Arc<Life>,
}

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

// === impl Mouth ===

#[async_trait]
impl Model for Mouth {
    fn name(&self) -> &str {
        "oracle"
    }

    async fn stream(&self, request: ModelRequest) -> Result<BoxStream<'static, Event>, ModelError> {
        self.life.goes_on().await;
        assert_paired(&request);
        let oracle = &self.oracle;
        if oracle.is_calm.load(Ordering::SeqCst) {
            oracle.asked.lock().unwrap().push(request);
        }
        self.life.world.passes().await;
        let listening = oracle.listen(&self.life);
        let said = oracle.speech(&self.life.world.chance);
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
