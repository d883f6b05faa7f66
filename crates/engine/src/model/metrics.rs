//! The metrics of model calls, by the conventions of OpenTelemetry for generative AI.

use std::time::Duration;

use crate::model::Usage;

/// Records the duration and the tokens of a call of a model. The tokens are those of the run, before and after the call.
pub(crate) fn record_model_call(model: &str, took: Duration, before: Usage, after: Usage) {
    record_duration("chat", model, took);
    let counts = [
        ("input", before.input_tokens, after.input_tokens),
        ("output", before.output_tokens, after.output_tokens),
    ];
    for (token_type, before, after) in counts {
        if after <= before {
            continue;
        }
        let labels =
            [("gen_ai_request_model", model.to_owned()), ("gen_ai_token_type", token_type.to_owned())];
        #[expect(clippy::cast_precision_loss, reason = "the last of 2^53 tokens does not matter")]
        metrics::histogram!("gen_ai_client_token_usage", &labels).record((after - before) as f64);
    }
}

/// Records the duration of a call of a model for an operation, by the name that the conventions have for it.
pub(crate) fn record_duration(operation: &'static str, model: &str, took: Duration) {
    let labels =
        [("gen_ai_operation_name", operation.to_owned()), ("gen_ai_request_model", model.to_owned())];
    metrics::histogram!("gen_ai_client_operation_duration_seconds", &labels).record(took);
}
