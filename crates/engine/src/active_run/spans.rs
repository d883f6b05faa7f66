//! What tracing and the metrics are told of models and calls.
//!
//! One span for each model call, and one for each tool call, from the model's wish to the outcome, and an event in it for each state; names and attributes are those of
//! OpenTelemetry's conventions for generative AI. Inputs and outputs are in the record, never in a span.

use std::collections::HashMap;

use fermata_protocol::ToolCallId;
use fermata_tools::{Call, RunBy, StateName};
use jiff::Timestamp;
use tracing::{Span, field::Empty};

use crate::run::Run;

/// The spans of the calls that have no outcome yet.
pub(super) struct CallSpans {
    run: String,
    spans: HashMap<ToolCallId, Span>,
}

impl CallSpans {
    /// None yet.
    pub fn new(run: &Run) -> Self {
        Self { run: run.id.to_string(), spans: HashMap::new() }
    }

    /// Tells of the state that a call has come into.
    pub fn note(&mut self, call: &Call) {
        let run = self.run.as_str();
        let span = self.spans.entry(call.id.clone()).or_insert_with(|| begin(run, call));
        let state = call.state().name();
        span.in_scope(|| tracing::debug!(%state, since = %call.since(), "the call's state"));
        if state.is_final() {
            if let Some(error_type) = call.state().error_type() {
                span.record("error.type", error_type.as_str());
            }
            span.record("fermata.call.state", state.as_str());
            self.spans.remove(&call.id);
            count(call);
        }
    }

    /// The span of a call that has no outcome yet.
    pub fn of(&self, call: &ToolCallId) -> Span {
        self.spans.get(call).cloned().unwrap_or_else(Span::none)
    }
}

/// The span of one model call.
pub(super) fn model_span(model: &str, run: &Run) -> Span {
    tracing::info_span!(
        "chat",
        gen_ai.operation.name = "chat",
        gen_ai.request.model = model,
        fermata.run = %run.id,
        fermata.step = run.state.step,
        error.type = Empty,
    )
}

fn begin(run: &str, call: &Call) -> Span {
    tracing::info_span!(
        "execute_tool",
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = %call.tool,
        gen_ai.tool.call.id = %call.id,
        fermata.run = run,
        fermata.call.state = Empty,
        error.type = Empty,
    )
}

/// The tool's name as a label of metrics. A label is kept for ever and shown to operators, so pages and models, which make up names
/// as they like, share one each.
fn tool_label(call: &Call) -> String {
    match call.run_by {
        Some(RunBy::Server | RunBy::Mcp) => call.tool.clone(),
        Some(RunBy::Browser) => "browser".to_owned(),
        None => "unknown".to_owned(),
    }
}

fn count(call: &Call) {
    let tool = tool_label(call);
    let state = call.state().name().as_str();
    let error_type = call.state().error_type().map_or("", |error_type| error_type.as_str());
    let labels = [
        ("gen_ai_tool_name", tool.clone()),
        ("state", state.to_owned()),
        ("error_type", error_type.to_owned()),
    ];
    metrics::counter!("fermata_calls_total", &labels).increment(1);
    let began = call.history().iter().rfind(|entered| entered.state == StateName::Executing);
    if let Some(began) = began {
        metrics::histogram!(
            "gen_ai_client_operation_duration_seconds",
            "gen_ai_operation_name" => "execute_tool",
            "gen_ai_tool_name" => tool
        )
        .record(seconds(began.at, call.since()));
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}
