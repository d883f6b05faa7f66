//! A scripted model, which refuses the requests that a strict provider would refuse.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use fermata_engine::model::{Model, ModelCall, ModelError, ModelEvent, ModelMessage, ModelRequest};
use fermata_protocol::FinishReason;
use futures::{StreamExt, stream::BoxStream};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The events of one step. A turn without [`ModelEvent::Finished`] ends when it is released.
pub type Turn = Vec<ModelEvent>;

/// The scripted model.
#[derive(Clone, Default)]
pub struct Scripted {
    turns: Arc<Mutex<VecDeque<Turn>>>,
    requests: Arc<Mutex<Vec<ModelRequest>>>,
    released: CancellationToken,
}

impl Scripted {
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self {
            turns: Arc::new(Mutex::new(turns.into_iter().collect())),
            requests: Arc::default(),
            released: CancellationToken::new(),
        }
    }

    /// Appends turns.
    pub fn append(&self, turns: impl IntoIterator<Item = Turn>) {
        self.turns.lock().expect("no poisoned lock").extend(turns);
    }

    /// Ends the turns that have no end of their own.
    pub fn release(&self) {
        self.released.cancel();
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().expect("no poisoned lock").clone()
    }
}

/// Returns a turn with this text.
pub fn says(text: &str) -> Turn {
    vec![ModelEvent::Text(text.into()), finished(FinishReason::Stop)]
}

/// Returns a turn with these calls.
pub fn calls(calls: &[(&str, Value)]) -> Turn {
    let mut turn = Vec::new();
    for (key, (tool, input)) in calls.iter().enumerate() {
        turn.push(ModelEvent::CallStart { key, tool: (*tool).into() });
        turn.push(ModelEvent::CallDelta { key, arguments: input.to_string() });
    }
    turn.push(finished(FinishReason::ToolCalls));
    turn
}

/// Returns a turn that starts with a text and ends when it is released.
pub fn goes_on_for_ever() -> Turn {
    vec![ModelEvent::Text("Well".into())]
}

fn finished(reason: FinishReason) -> ModelEvent {
    ModelEvent::Finished { reason, usage: None }
}

#[async_trait]
impl Model for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn stream(
        &self,
        request: ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelEvent, ModelError>>, ModelError> {
        let refusal = refusal_of(&request);
        self.requests.lock().expect("no poisoned lock").push(request);
        if let Some(refusal) = refusal {
            return Err(ModelError::Refused(refusal));
        }
        let turn = self.turns.lock().expect("no poisoned lock").pop_front();
        let turn = turn.ok_or_else(|| ModelError::Refused("there is no turn left in the script".into()))?;
        let endless = !matches!(turn.last(), Some(ModelEvent::Finished { .. }));
        let events = futures::stream::iter(turn.into_iter().map(Ok));
        let released = self.released.clone();
        let end = futures::stream::once(async move {
            released.cancelled().await;
            Ok(finished(FinishReason::Stop))
        });
        Ok(if endless { events.chain(end).boxed() } else { events.boxed() })
    }
}

/// Returns the reason if a strict provider would refuse the request with 400.
fn refusal_of(request: &ModelRequest) -> Option<String> {
    let mut open: Vec<&ModelCall> = Vec::new();
    let mut seen = BTreeSet::new();
    for message in &request.messages {
        match message {
            ModelMessage::Tool { call_id, .. } => {
                let Some(at) = open.iter().position(|call| call.id == *call_id) else {
                    return Some(format!("the result {call_id} has no call"));
                };
                open.remove(at);
            }
            ModelMessage::System(_) | ModelMessage::User(_) | ModelMessage::Assistant { .. }
                if !open.is_empty() =>
            {
                return Some(format!("the call {} has no result", open[0].id));
            }
            ModelMessage::Assistant { text, calls, .. } => {
                if text.is_empty() && calls.is_empty() {
                    return Some("an assistant message is empty".into());
                }
                if let Some(call) =
                    calls.iter().find(|call| !seen.insert(call.id.clone()) || !call.input.is_object())
                {
                    return Some(format!("the call {} is there twice, or has no object as input", call.id));
                }
                open = calls.iter().collect();
            }
            ModelMessage::System(_) | ModelMessage::User(_) => {}
        }
    }
    open.first().map(|call| format!("the call {} has no result", call.id))
}
