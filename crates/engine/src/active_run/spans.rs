//! Spans of model calls and tool calls, and the metrics of tool calls.
//!
//! Each model call has a span. Each tool call has one too, from the model's request for the call to its outcome, with an event for each
//! state. Names and attributes follow OpenTelemetry's conventions for generative AI. Inputs and outputs are in the record, never in a span;
//! the call in the words of its tool, which may have a part of the input, is logged at the level `debug` only.

use std::collections::HashMap;

use fermata_protocol::ToolCallId;
use fermata_tools::{Call, RunBy, StateName};
use tracing::{Span, field::Empty};

use crate::run::Run;

/// The spans of the calls that have no outcome yet.
pub(super) struct CallSpans {
    run: String,
    spans: HashMap<ToolCallId, Span>,
}

impl CallSpans {
    /// Begins without spans.
    pub fn new(run: &Run) -> Self {
        Self { run: run.id.to_string(), spans: HashMap::new() }
    }

    /// Records the state of a call that was saved, and ends the call's span if the state is final. A call is also saved if something
    /// else of it has changed.
    pub fn record(&mut self, call: &Call) {
        let span = self.spans.entry(call.id.clone()).or_insert_with(|| {
            tracing::info_span!(
                "execute_tool",
                gen_ai.operation.name = "execute_tool",
                gen_ai.tool.name = %call.tool,
                gen_ai.tool.call.id = %call.id,
                fermata.run = self.run,
                fermata.call.state = Empty,
                error.type = Empty,
            )
        });
        let state = call.state().name();
        let description = call.presentation.description.as_deref();
        span.in_scope(
            || tracing::debug!(%state, since = %call.since(), description, "the call has entered a state"),
        );
        if state.is_final() {
            if let Some(error_type) = call.error_type() {
                span.record("error.type", error_type.as_str());
            }
            span.record("fermata.call.state", state.as_str());
            self.spans.remove(&call.id);
            count_outcome(call);
        }
    }

    /// Returns the span of a call, or an empty one if the call has its outcome.
    pub fn span(&self, call: &ToolCallId) -> Span {
        self.spans.get(call).cloned().unwrap_or_else(Span::none)
    }
}

/// Creates the span of one model call.
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

/// Records how long a call waited for a person's decision.
fn count_decision(call: &Call, tool: String) {
    let history = call.history();
    let Some(asked) = history.windows(2).find(|pair| pair[0].state == StateName::AwaitingApproval) else {
        return;
    };
    let outcome = call
        .approval_decision
        .as_ref()
        .map_or("none", |decision| if decision.approved { "approved" } else { "denied" });
    let seconds = asked[1].at.duration_since(asked[0].at).as_secs_f64().max(0.0);
    let labels = [("gen_ai_tool_name", tool), ("outcome", outcome.to_owned())];
    metrics::histogram!("fermata_decision_wait_seconds", &labels).record(seconds);
}

/// Counts the outcome of a call and its duration.
fn count_outcome(call: &Call) {
    // Labels are kept for ever and shown to operators, and pages and models can make up any number of names. So the tools of pages share
    // one label, and unknown tools another.
    let tool = match call.run_by {
        Some(RunBy::Server | RunBy::Mcp) => call.tool.clone(),
        Some(RunBy::Browser) => "browser".to_owned(),
        None => "unknown".to_owned(),
    };
    let state = call.state().name().as_str();
    let error_type = call.error_type().map_or("", |error_type| error_type.as_str());
    let labels = [
        ("gen_ai_tool_name", tool.clone()),
        ("state", state.to_owned()),
        ("error_type", error_type.to_owned()),
    ];
    metrics::counter!("fermata_calls_total", &labels).increment(1);
    count_decision(call, tool.clone());
    let began = call.history().iter().rfind(|entered| entered.state == StateName::Executing);
    if let Some(began) = began {
        let seconds = call.since().duration_since(began.at).as_secs_f64().max(0.0);
        metrics::histogram!(
            "gen_ai_client_operation_duration_seconds",
            "gen_ai_operation_name" => "execute_tool",
            "gen_ai_tool_name" => tool
        )
        .record(seconds);
    }
}
