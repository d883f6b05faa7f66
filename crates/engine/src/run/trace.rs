//! The trace of a run: what happened in it and when, as a tree of spans.
//!
//! A run may work at several instances and wait for days in between. So its trace is made from its record when it ends, in one piece, and its
//! ids follow from the id of the run: a process that is killed while the run waits leaves no piece of a trace behind, and the requests that
//! the run makes meanwhile name the spans that will be there. Names and attributes follow OpenTelemetry's conventions for generative AI.

use fermata_protocol::{ChatId, RunId, ToolCallId};
use fermata_tools::{Call, CallState, Cancelled, RunBy, StateName, Transition};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Ending, Run};
use crate::{
    model::Usage,
    ports::traces::{RunTrace, TraceSpan, TraceValue},
};

/// A step of a run that the model has finished.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FinishedStep {
    /// The number of the step.
    pub step: u32,
    pub ended: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// Returns the header `traceparent` for the next request to the model of a run.
pub(crate) fn parent_of_step(run: &Run) -> String {
    traceparent(&run.id, &step_key(run.state.steps.len()))
}

/// Returns the header `traceparent` for the requests of a call.
pub(crate) fn parent_of_call(run: &RunId, call: &ToolCallId) -> String {
    traceparent(run, call.as_str())
}

fn traceparent(run: &RunId, key: &str) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("00-{}-{}-01", hex(&trace_id(run)), hex(&span_id(run, key)))
}

fn trace_id(run: &RunId) -> [u8; 16] {
    first_bytes(run.as_str())
}

/// Returns the id of a span of a run. `key` tells its spans apart.
fn span_id(run: &RunId, key: &str) -> [u8; 8] {
    first_bytes(&format!("{run} {key}"))
}

/// Returns the first bytes of the hash of a text.
fn first_bytes<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&Sha256::digest(text)[..N]);
    bytes
}

/// Returns the key of the span of a step. The model may be asked twice in a step, so the number of the step does not do.
fn step_key(place: usize) -> String {
    format!("step {place}")
}

/// Makes the spans of a run that has ended.
struct Builder<'a> {
    run: &'a Run,
    ended: Timestamp,
    has_content: bool,
    spans: Vec<TraceSpan>,
}

// === impl RunTrace ===

impl RunTrace {
    /// Returns the trace of a run that has ended.
    pub(crate) fn of(run: &Run, chat: &ChatId, ending: &Ending, ended: Timestamp, has_content: bool) -> Self {
        let mut builder = Builder { run, ended, has_content, spans: Vec::new() };
        builder.add_root(chat, ending);
        builder.add_steps(ending);
        for call in run.own_calls() {
            builder.add_call(call);
        }
        Self { id: trace_id(&run.id), spans: builder.spans, caller: run.settings.traceparent.clone() }
    }
}

// === impl Builder ===

impl Builder<'_> {
    fn add_root(&mut self, chat: &ChatId, ending: &Ending) {
        let settings = &self.run.settings;
        let agent = settings.assistant.as_deref().unwrap_or("default");
        let mut attributes = vec![
            ("gen_ai.operation.name", text("invoke_agent")),
            ("gen_ai.agent.name", text(agent)),
            ("gen_ai.conversation.id", text(chat.as_str())),
            ("gen_ai.request.model", text(&settings.model)),
            ("fermata.run", text(self.run.id.as_str())),
            ("fermata.ending", text(ending.name())),
        ];
        attributes.extend(tokens(self.run.state.usage));
        let span =
            self.span("run", format!("invoke_agent {agent}"), (settings.started, self.ended), attributes);
        let error = failure(ending);
        self.spans.push(TraceSpan { parent: None, error, ..span });
    }

    fn add_steps(&mut self, ending: &Ending) {
        let steps = &self.run.state.steps;
        for (place, step) in steps.iter().enumerate() {
            self.add_step(place, step, None);
        }
        // A step that the run has asked for and that did not finish.
        let asked = self.run.state.step;
        if asked > steps.last().map_or(0, |step| step.step)
            && self.run.calls.iter().all(|call| call.step < asked)
        {
            let step = FinishedStep { step: asked, ended: self.ended, usage: None };
            self.add_step(steps.len(), &step, failure(ending));
        }
    }

    fn add_step(&mut self, place: usize, step: &FinishedStep, error: Option<String>) {
        let FinishedStep { step: number, ended, usage } = *step;
        let model = &self.run.settings.model;
        let mut attributes = vec![
            ("gen_ai.operation.name", text("chat")),
            ("gen_ai.request.model", text(model)),
            ("fermata.step", TraceValue::Number(number.into())),
        ];
        attributes.extend(tokens(usage));
        // A step begins when the calls of the one before have their outcomes.
        let before = self.run.state.steps.iter().take(place).map(|step| step.ended);
        let calls = self.run.own_calls().filter(|call| call.step < number).map(Call::since);
        let started = before.chain(calls).fold(self.run.settings.started, Timestamp::max);
        let span = self.span(&step_key(place), format!("chat {model}"), (started, ended), attributes);
        self.spans.push(TraceSpan { error, ..span });
    }

    fn add_call(&mut self, call: &Call) {
        let history = call.history();
        let ends = history.iter().skip(1).map(|next| next.at).chain([self.ended]);
        let mut executed: Option<(Timestamp, Timestamp)> = None;
        for (place, (Transition { state, at }, end)) in history.iter().zip(ends).enumerate() {
            match state {
                StateName::AwaitingApproval => self.add_wait(call, place, "approval", (*at, end)),
                StateName::Executing => {
                    if call.run_by == Some(RunBy::Browser) {
                        self.add_wait(call, place, "page", (*at, end));
                    }
                    executed = Some((executed.map_or(*at, |(began, _)| began), end));
                }
                _ => {}
            }
        }
        let Some(times) = executed else { return };
        let mut attributes = vec![
            ("gen_ai.operation.name", text("execute_tool")),
            ("gen_ai.tool.name", text(&call.tool)),
            ("gen_ai.tool.call.id", text(call.id.as_str())),
            ("fermata.call.state", text(call.state().name().as_str())),
        ];
        let error = call.error_type().map(|error_type| error_type.as_str().to_owned());
        if self.has_content {
            attributes.push(("gen_ai.tool.call.arguments", text(call.effective_input().as_str())));
            if let CallState::Success { output } = call.state() {
                attributes.push(("gen_ai.tool.call.result", TraceValue::Text(output.to_string())));
            }
        }
        let span = self.span(call.id.as_str(), format!("execute_tool {}", call.tool), times, attributes);
        self.spans.push(TraceSpan { error, ..span });
    }

    /// Adds a wait for a person or a page.
    fn add_wait(&mut self, call: &Call, place: usize, kind: &str, times: (Timestamp, Timestamp)) {
        let outcome = match (call.state(), &call.approval_decision) {
            (CallState::Cancelled { cancelled: Cancelled::Expired }, _) => "expired",
            (_, Some(decision)) if kind == "approval" => {
                if decision.approved {
                    "approved"
                } else {
                    "denied"
                }
            }
            (CallState::Cancelled { .. }, _) => "cancelled",
            _ => "answered",
        };
        let attributes = vec![
            ("fermata.wait.kind", text(kind)),
            ("fermata.wait.outcome", text(outcome)),
            ("gen_ai.tool.name", text(&call.tool)),
            ("gen_ai.tool.call.id", text(call.id.as_str())),
        ];
        let key = format!("{} wait {place}", call.id);
        let span = self.span(&key, "fermata.wait".to_owned(), times, attributes);
        self.spans.push(span);
    }

    /// Returns a span below the root.
    fn span(
        &self,
        key: &str,
        name: String,
        (started, ended): (Timestamp, Timestamp),
        attributes: Vec<(&'static str, TraceValue)>,
    ) -> TraceSpan {
        let parent = Some(span_id(&self.run.id, "run"));
        // The clocks of two instances may differ a little.
        let ended = ended.max(started);
        TraceSpan { id: span_id(&self.run.id, key), parent, name, started, ended, attributes, error: None }
    }
}

fn text(value: &str) -> TraceValue {
    TraceValue::Text(value.to_owned())
}

fn tokens(usage: Option<Usage>) -> impl Iterator<Item = (&'static str, TraceValue)> {
    let number = |count: u64| TraceValue::Number(i64::try_from(count).unwrap_or(i64::MAX));
    usage.into_iter().flat_map(move |usage| {
        [
            ("gen_ai.usage.input_tokens", number(usage.input_tokens)),
            ("gen_ai.usage.output_tokens", number(usage.output_tokens)),
        ]
    })
}

fn failure(ending: &Ending) -> Option<String> {
    ending.public().map(|_| ending.name().to_owned())
}
