//! The steps of a message, and the order of parts within a step.

use std::iter;

use super::UiPart;

/// Splits a message into its steps, before each `step-start`.
pub(crate) fn steps(parts: &[UiPart]) -> impl Iterator<Item = &[UiPart]> {
    let mut rest = parts;
    iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let next_start = rest.iter().skip(1).position(|part| matches!(part, UiPart::StepStart));
        let (step, after) = rest.split_at(next_start.map_or(rest.len(), |index| index + 1));
        rest = after;
        Some(step)
    })
}

/// Returns the number of parts at the step's start that the model produced. The data parts after them are shown by tools
/// while they run. Approval requests belong between the two, because they are sent when the model's output has ended.
pub(crate) fn model_output_end(step: &[UiPart]) -> usize {
    step.iter().rposition(|part| !matches!(part, UiPart::Data(_))).map_or(0, |index| index + 1)
}
