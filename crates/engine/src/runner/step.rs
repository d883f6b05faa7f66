//! One question to a model, and what it said.

use std::collections::HashSet;

use fermata_protocol::FinishReason;
use fermata_tools::{ErrorType, ToolError};
use futures::StreamExt;
use serde_json::{Value, json};

use super::{Hooks, Params};
use crate::{
    model::{ModelCall, ModelContent, ModelError, ModelEvent, ModelMessage, Usage},
    prompt::tool_name,
};

/// What a model said in one go.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Which question it answers, counted from 1; questions that came to nothing count.
    pub iteration: u32,
    /// Its reasoning.
    pub reasoning: String,
    /// Its words.
    pub text: String,
    /// Its calls. The input of one whose arguments were no JSON object is an empty object.
    pub calls: Vec<ModelCall>,
    /// Files that it made.
    pub files: Vec<ModelContent>,
    /// Where it has something from.
    pub sources: Vec<Source>,
    /// What it cost, where the provider said so.
    pub usage: Option<Usage>,
    /// Why it ended.
    pub finish_reason: FinishReason,
}

/// Where a model has something from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The URL.
    pub url: String,
    /// Its title.
    pub title: Option<String>,
}

/// A step, and why some of its calls cannot run as they stand.
pub(super) struct Heard {
    pub step: Step,
    pub faults: Faults,
}

/// Calls that cannot run as the model made them.
pub(super) type Faults = Vec<(ModelCall, ToolError)>;

/// A step as far as it came.
#[derive(Default)]
struct Speaking {
    reasoning: String,
    text: String,
    arguments: Vec<Arguments>,
    files: Vec<ModelContent>,
    sources: Vec<Source>,
}

/// A call as far as it came.
struct Arguments {
    key: usize,
    tool: String,
    text: String,
}

/// Asks the model and listens until it has said all.
pub(super) async fn ask(params: &Params, hooks: &dyn Hooks, iteration: u32) -> Result<Heard, ModelError> {
    let answer = tokio::time::timeout(params.model_call_timeout, listen(params, hooks));
    let (said, finish_reason, usage) = answer.await.unwrap_or(Err(ModelError::Timeout))?;
    if finish_reason == FinishReason::Error {
        return Err(ModelError::Provider("the model says that it failed".into()));
    }
    let Speaking { reasoning, text, arguments, files, sources } = said;
    let whole = is_whole(finish_reason);
    let mut ids = FreeIds::besides(&params.messages);
    let (mut calls, mut faults) = (Vec::new(), Faults::new());
    for Arguments { tool: named, text, .. } in arguments {
        let (id, tool) = (ids.next(), tool_name(&named));
        let input = if whole { read(&named, &tool, &text) } else { Err(cut_off()) };
        let (input, fault) = input.map_or_else(|fault| (json!({}), Some(fault)), |input| (input, None));
        let call = ModelCall { id, tool, input };
        faults.extend(fault.map(|fault| (call.clone(), fault)));
        calls.push(call);
    }
    let step = Step { iteration, reasoning, text, calls, files, sources, usage, finish_reason };
    Ok(Heard { step, faults })
}

async fn listen(
    params: &Params,
    hooks: &dyn Hooks,
) -> Result<(Speaking, FinishReason, Option<Usage>), ModelError> {
    let patience = params.model_timeout;
    let stream = tokio::time::timeout(patience, params.model.stream(params.request()));
    let mut events = stream.await.unwrap_or(Err(ModelError::Timeout))?;
    let mut said = Speaking::default();
    loop {
        let event = tokio::time::timeout(patience, events.next()).await.map_err(|_| ModelError::Timeout)?;
        let event = event
            .unwrap_or_else(|| Err(ModelError::Network("the stream ended before the answer did".into())))?;
        hooks.event(&event);
        if let ModelEvent::Finished { reason, usage } = event {
            return Ok((said, reason, usage));
        }
        said.hear(event);
    }
}

/// The input that these arguments are, or what is wrong with them. `tool` is what the name became that the
/// model gave.
fn read(named: &str, tool: &str, text: &str) -> Result<Value, ToolError> {
    let fault = |words: String| Err(ToolError::new(ErrorType::InvalidFormat, words));
    if tool != named {
        // The name that providers take may be another tool's.
        return fault(format!("There is no tool named {named:?}."));
    }
    if text.trim().is_empty() {
        return Ok(json!({}));
    }
    let again = "Call it again with a JSON object.";
    match serde_json::from_str::<Value>(text) {
        Ok(input) if input.is_object() => Ok(input),
        Ok(_) => fault(format!("The arguments of {tool} are not a JSON object. {again}")),
        Err(wrong) => fault(format!("The arguments of {tool} are not valid JSON ({wrong}). {again}")),
    }
}

fn cut_off() -> ToolError {
    ToolError::new(ErrorType::Cancelled, "The answer was cut off, so the call did not run.")
}

/// Whether the provider let the model say all that it wanted. What a filter or an interruption cut off must
/// not run.
fn is_whole(reason: FinishReason) -> bool {
    match reason {
        FinishReason::Stop | FinishReason::Length | FinishReason::ToolCalls | FinishReason::Other => true,
        FinishReason::ContentFilter | FinishReason::Interrupted | FinishReason::Error => false,
    }
}

// === impl Step ===

impl Step {
    /// The step as a conversation has it.
    pub fn message(&self) -> ModelMessage {
        ModelMessage::Assistant {
            reasoning: self.reasoning.clone(),
            text: self.text.clone(),
            calls: self.calls.clone(),
        }
    }

    /// Whether the provider cut it off.
    pub(super) fn is_cut_off(&self) -> bool {
        !is_whole(self.finish_reason)
    }

    /// Whether a conversation can hold it: providers refuse a message without words and calls.
    pub(super) fn says_something(&self) -> bool {
        !self.text.is_empty() || !self.calls.is_empty()
    }
}

// === impl Speaking ===

impl Speaking {
    fn hear(&mut self, event: ModelEvent) {
        match event {
            ModelEvent::Alive | ModelEvent::Finished { .. } => {}
            ModelEvent::Text(delta) => self.text.push_str(&delta),
            ModelEvent::Reasoning(delta) => self.reasoning.push_str(&delta),
            ModelEvent::CallStart { key, tool } => {
                self.arguments.push(Arguments { key, tool, text: String::new() });
            }
            ModelEvent::CallDelta { key, arguments } => self.hear_arguments(key, &arguments),
            ModelEvent::File { media_type, url } => {
                self.files.push(ModelContent::File { media_type, url, filename: None });
            }
            ModelEvent::Source { url, title } => self.sources.push(Source { url, title }),
        }
    }

    fn hear_arguments(&mut self, key: usize, delta: &str) {
        // The newest call with the key: providers that number every call 0 mean the last one.
        match self.arguments.iter_mut().rev().find(|arguments| arguments.key == key) {
            Some(arguments) => arguments.text.push_str(delta),
            None => tracing::warn!(key, "arguments came for a call that never began"),
        }
    }
}

/// Ids that no call of a conversation has.
struct FreeIds {
    taken: HashSet<String>,
    count: usize,
}

// === impl FreeIds ===

impl FreeIds {
    fn besides(messages: &[ModelMessage]) -> Self {
        let calls = messages.iter().flat_map(|message| match message {
            ModelMessage::Assistant { calls, .. } => calls.as_slice(),
            ModelMessage::System(_) | ModelMessage::User(_) | ModelMessage::Tool { .. } => &[],
        });
        Self { taken: calls.map(|call| call.id.clone()).collect(), count: 0 }
    }

    fn next(&mut self) -> String {
        loop {
            self.count += 1;
            let id = format!("call_{}", self.count);
            if self.taken.insert(id.clone()) {
                return id;
            }
        }
    }
}
