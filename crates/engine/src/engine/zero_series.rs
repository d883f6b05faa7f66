//! The initial series of the engine's metrics.
//!
//! A series that appears with its first event hides that event from a rate. So each series whose labels are known begins at zero.

use fermata_protocol::SummaryReason;
use fermata_tools::{ErrorType, StateName};

use crate::{memories, run::Ending, services::PolicySnapshot};

/// Registers the series of the tools and models of a snapshot, and those that every process has. Series that exist keep their values.
pub(crate) fn begin(snapshot: &PolicySnapshot) {
    metrics::gauge!("fermata_runs_open").increment(0);
    metrics::gauge!("fermata_calls_parked").increment(0);
    for outcome in Ending::NAMES {
        metrics::counter!("fermata_runs_total", "outcome" => outcome).increment(0);
    }
    metrics::counter!("fermata_runs_taken_over_total").increment(0);
    for outcome in ["renewed", "lost", "failed"] {
        metrics::counter!("fermata_lease_renewals_total", "outcome" => outcome).increment(0);
    }
    for change in memories::CHANGES {
        memories::count(change, 0);
    }
    for outcome in ["done", "failed"] {
        metrics::counter!("fermata_embeddings_total", "outcome" => outcome).increment(0);
        for reason in
            [SummaryReason::Every, SummaryReason::Size, SummaryReason::Overflow, SummaryReason::Asked]
        {
            metrics::counter!("fermata_compactions_total", "reason" => reason.as_str(), "outcome" => outcome)
                .increment(0);
        }
    }
    for spec in snapshot.toolbox.specs() {
        begin_tool(&spec.name);
    }
    // The names for tools of pages and for tools that nobody has.
    begin_tool("browser");
    begin_tool("unknown");
    let assistants = &snapshot.assistants;
    for choice in
        assistants.iter().flat_map(|(_, assistant)| assistant.models()).chain(&assistants.summary_model)
    {
        begin_model(choice.model.name());
    }
}

fn begin_tool(tool: &str) {
    let failures = ErrorType::ALL.map(|error_type| (StateName::Error, error_type.as_str()));
    let others = [(StateName::Success, ""), (StateName::Cancelled, ErrorType::Cancelled.as_str())];
    for (state, error_type) in others.into_iter().chain(failures) {
        let labels = [
            ("gen_ai_tool_name", tool.to_owned()),
            ("state", state.as_str().to_owned()),
            ("error_type", error_type.to_owned()),
        ];
        metrics::counter!("fermata_calls_total", &labels).increment(0);
    }
    let labels =
        [("gen_ai_operation_name", "execute_tool".to_owned()), ("gen_ai_tool_name", tool.to_owned())];
    // A histogram is shown once it has a handle.
    let _ = metrics::histogram!("gen_ai_client_operation_duration_seconds", &labels);
    for outcome in ["approved", "denied", "none"] {
        let labels = [("gen_ai_tool_name", tool.to_owned()), ("outcome", outcome.to_owned())];
        let _ = metrics::histogram!("fermata_decision_wait_seconds", &labels);
    }
}

fn begin_model(model: &str) {
    let labels = [("gen_ai_operation_name", "chat".to_owned()), ("gen_ai_request_model", model.to_owned())];
    let _ = metrics::histogram!("gen_ai_client_operation_duration_seconds", &labels);
    for token_type in ["input", "output"] {
        let labels =
            [("gen_ai_request_model", model.to_owned()), ("gen_ai_token_type", token_type.to_owned())];
        let _ = metrics::histogram!("gen_ai_client_token_usage", &labels);
    }
}
