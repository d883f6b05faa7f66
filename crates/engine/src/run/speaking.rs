//! The model's words, as they come.
//!
//! At most one text or reasoning part is open at a time; a call or a part of the other kind closes it. Providers interleave the
//! arguments of several calls, so each keeps its own.

use fermata_protocol::{FinishReason, ToolCallId, UiChunk};
use fermata_tools::{Call, Check, InputError, RunBy};
use serde_json::Value;

use super::{Context, Effects, Ending, Phase, Run, gate::read_input};
use crate::model::{ModelEvent, Usage};

/// What the model is in the middle of.
#[derive(Debug, Default)]
pub(super) struct Speaking {
    open: Option<OpenPart>,
    arguments: Vec<Arguments>,
    /// Calls whose inputs are being checked: the model has ended its step, and nothing is decided about it yet.
    checking: Vec<MadeCall>,
    /// Bytes that the model has said in this step.
    said: usize,
    /// Whether it made more calls than a step may have.
    has_too_many_calls: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum OpenPart {
    Text(String),
    Reasoning(String),
}

/// The arguments of one call, as far as they came.
#[derive(Debug)]
pub(super) struct Arguments {
    key: usize,
    /// The call's place in [`Run::calls`].
    place: usize,
    text: String,
    /// What is wrong with the call already, so that no more of it is kept.
    fault: Option<String>,
}

/// A call of a step that the model has ended.
#[derive(Debug)]
pub(super) struct MadeCall {
    /// The call's place in [`Run::calls`].
    pub place: usize,
    /// Whether the model gave no arguments at all.
    pub is_bare: bool,
    /// Its input; or what came instead, and what is wrong with it.
    pub input: Result<Value, (Value, String)>,
}

impl Run {
    /// Takes what the model says.
    pub fn hear(&mut self, event: ModelEvent, context: &Context<'_>, effects: &mut Effects) {
        if self.state.phase != Phase::Speaking || self.is_checking() {
            return;
        }
        self.speaking.said += length(&event);
        if self.speaking.said > context.limits.step_output_bytes {
            return self.end(
                Ending::OutputLimit { bytes: context.limits.step_output_bytes },
                context,
                effects,
            );
        }
        match event {
            ModelEvent::Alive => {}
            ModelEvent::Text(delta) => self.hear_text(delta, effects),
            ModelEvent::Reasoning(delta) => self.hear_reasoning(delta, effects),
            ModelEvent::CallStart { key, tool } => self.hear_call(key, tool, context, effects),
            ModelEvent::CallDelta { key, arguments } => self.hear_arguments(key, arguments, context, effects),
            ModelEvent::File { media_type, url } => {
                self.close_part(effects);
                self.publish(effects, UiChunk::File { url, media_type, provider_metadata: None });
            }
            ModelEvent::Source { url, title } => {
                self.close_part(effects);
                let source_id = self.next_part_id("source");
                self.publish(effects, UiChunk::SourceUrl { source_id, url, title, provider_metadata: None });
            }
            ModelEvent::Finished { reason, usage } => self.hear_end(reason, usage, context, effects),
        }
    }

    fn hear_text(&mut self, delta: String, effects: &mut Effects) {
        let id = match &self.speaking.open {
            Some(OpenPart::Text(id)) => id.clone(),
            Some(OpenPart::Reasoning(_)) | None => {
                self.close_part(effects);
                let id = self.next_part_id("text");
                self.publish(effects, UiChunk::TextStart { id: id.clone(), provider_metadata: None });
                self.speaking.open = Some(OpenPart::Text(id.clone()));
                id
            }
        };
        self.publish(effects, UiChunk::TextDelta { id, delta, provider_metadata: None });
    }

    fn hear_reasoning(&mut self, delta: String, effects: &mut Effects) {
        let id = match &self.speaking.open {
            Some(OpenPart::Reasoning(id)) => id.clone(),
            Some(OpenPart::Text(_)) | None => {
                self.close_part(effects);
                let id = self.next_part_id("reasoning");
                self.publish(effects, UiChunk::ReasoningStart { id: id.clone(), provider_metadata: None });
                self.speaking.open = Some(OpenPart::Reasoning(id.clone()));
                id
            }
        };
        self.publish(effects, UiChunk::ReasoningDelta { id, delta, provider_metadata: None });
    }

    fn hear_call(&mut self, key: usize, tool: String, context: &Context<'_>, effects: &mut Effects) {
        self.close_part(effects);
        if self.speaking.has_too_many_calls {
            tracing::warn!(run = %self.id, "a call is left out, because its step has too many");
            return;
        }
        let limit = context.limits.calls_per_step;
        // The first that is too much stays, to say so.
        self.speaking.has_too_many_calls = self.speaking.arguments.len() >= limit;
        let fault = self.speaking.has_too_many_calls.then(|| {
            format!(
                "The step has more than {limit} calls (max_calls_per_step). This one and those after it were left out; make them in \
                 the next step."
            )
        });
        let found = context.toolbox.find(&tool);
        let id = ToolCallId::new(context.ids.next("call_"));
        let run_by = found.map(|found| found.spec().run_by);
        let call = Call::new(id, self.state.step, tool, run_by, context.now);
        self.publish(
            effects,
            UiChunk::ToolInputStart {
                tool_call_id: call.id.clone(),
                tool_name: call.tool.clone(),
                input_encoding: None,
                provider_executed: None,
                provider_metadata: None,
                tool_metadata: None,
                dynamic: dynamic(&call),
                title: None,
            },
        );
        self.speaking.arguments.push(Arguments { key, place: self.calls.len(), text: String::new(), fault });
        self.calls.push(call);
    }

    fn hear_arguments(&mut self, key: usize, delta: String, context: &Context<'_>, effects: &mut Effects) {
        // The newest call with the key: providers that number every call 0 mean the last one.
        let Some(arguments) = self.speaking.arguments.iter_mut().rev().find(|arguments| arguments.key == key)
        else {
            tracing::warn!(run = %self.id, key, "arguments came for a call that never began");
            return;
        };
        if arguments.fault.is_some() {
            return;
        }
        let limit = context.limits.argument_bytes;
        if arguments.text.len() + delta.len() > limit {
            arguments.text = String::new();
            arguments.fault = Some(format!(
                "The arguments of {} have more than {limit} bytes (max_arguments). Call it again with less.",
                self.calls[arguments.place].tool
            ));
            return;
        }
        arguments.text.push_str(&delta);
        let tool_call_id = self.calls[arguments.place].id.clone();
        self.publish(effects, UiChunk::ToolInputDelta { tool_call_id, input_text_delta: delta });
    }

    fn hear_end(
        &mut self,
        reason: FinishReason,
        usage: Option<Usage>,
        context: &Context<'_>,
        effects: &mut Effects,
    ) {
        self.close_part(effects);
        self.count(usage);
        let arguments = std::mem::take(&mut self.speaking).arguments;
        if arguments.is_empty() {
            return self.finish(reason, context, effects);
        }
        for Arguments { place, text, fault, .. } in arguments {
            let is_bare = fault.is_none() && text.trim().is_empty();
            let text = if is_bare { "{}".to_owned() } else { text };
            let input = match fault {
                Some(fault) => Err((Value::Null, fault)),
                None => read_input(&self.calls[place], text, context),
            };
            if let (Ok(input), Some(found)) = (&input, context.toolbox.find(&self.calls[place].tool)) {
                let check: Check = found.check_of(input.clone());
                effects.check.push((self.calls[place].id.clone(), check));
            }
            self.speaking.checking.push(MadeCall { place, is_bare, input });
        }
        if effects.check.is_empty() {
            self.checked(Vec::new(), context, effects);
        }
    }

    /// Whether the model has ended its step and the inputs of its calls are being checked.
    pub fn is_checking(&self) -> bool {
        !self.speaking.checking.is_empty()
    }

    /// The inputs of the step's calls were checked: each of these fits, or not.
    pub fn checked(
        &mut self,
        results: Vec<(ToolCallId, Result<(), InputError>)>,
        context: &Context<'_>,
        effects: &mut Effects,
    ) {
        let mut made = std::mem::take(&mut self.speaking.checking);
        if made.is_empty() {
            return;
        }
        for (id, result) in results {
            let Some(MadeCall { place, input, .. }) =
                made.iter_mut().find(|made| self.calls[made.place].id == id)
            else {
                continue;
            };
            let (Err(fault), Some(found)) = (result, context.toolbox.find(&self.calls[*place].tool)) else {
                continue;
            };
            let words = found.validation_error(&fault).text;
            *input = Err((input.as_ref().map_or(Value::Null, Value::clone), words));
        }
        self.decide(made, context, effects);
    }

    fn count(&mut self, usage: Option<Usage>) {
        let Some(usage) = usage else { return };
        let total = self.state.usage.get_or_insert_default();
        total.input_tokens += usage.input_tokens;
        total.output_tokens += usage.output_tokens;
        total.total_tokens += usage.total_tokens;
    }

    /// Ends the text or reasoning that is open.
    pub(super) fn close_part(&mut self, effects: &mut Effects) {
        let chunk = match self.speaking.open.take() {
            Some(OpenPart::Text(id)) => UiChunk::TextEnd { id, citations: None, provider_metadata: None },
            Some(OpenPart::Reasoning(id)) => UiChunk::ReasoningEnd { id, provider_metadata: None },
            None => return,
        };
        self.publish(effects, chunk);
    }

    /// Keeps what came of calls whose arguments will never be whole, or will not be looked at any more.
    pub(super) fn abandon_arguments(&mut self) {
        let Speaking { arguments, checking, .. } = std::mem::take(&mut self.speaking);
        for Arguments { place, text, .. } in arguments {
            self.calls[place].input = serde_json::from_str(&text).unwrap_or(Value::String(text));
        }
        for MadeCall { place, input, .. } in checking {
            self.calls[place].input = input.unwrap_or_else(|(instead, _)| instead);
        }
    }

    fn next_part_id(&mut self, kind: &str) -> String {
        self.state.texts += 1;
        format!("{kind}-{}", self.state.texts)
    }
}

/// Whether the part is dynamic: a page cannot know the types of an MCP server's tool, and nobody those of one that does not exist.
pub(super) fn dynamic(call: &Call) -> Option<bool> {
    matches!(call.run_by, None | Some(RunBy::Mcp)).then_some(true)
}

/// Bytes that an event adds to what the model has said; a part of its own counts for what it costs besides.
fn length(event: &ModelEvent) -> usize {
    const PART: usize = 64;
    match event {
        ModelEvent::Alive | ModelEvent::Finished { .. } => 0,
        ModelEvent::Text(delta) | ModelEvent::Reasoning(delta) => delta.len(),
        ModelEvent::CallStart { tool, .. } => PART + tool.len(),
        ModelEvent::CallDelta { arguments, .. } => arguments.len(),
        ModelEvent::File { media_type, url } => PART + media_type.len() + url.len(),
        ModelEvent::Source { url, title } => PART + url.len() + title.as_ref().map_or(0, String::len),
    }
}
