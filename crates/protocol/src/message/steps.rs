//! How a message falls into steps, and a step into what came when.

use std::iter;

use super::UiPart;

/// The message cut before each `step-start`.
pub(crate) fn steps(parts: &[UiPart]) -> impl Iterator<Item = &[UiPart]> {
    let mut rest = parts;
    iter::from_fn(move || {
        let first = !rest.is_empty();
        let next = rest
            .iter()
            .skip(1)
            .position(|part| matches!(part, UiPart::StepStart))
            .map_or(rest.len(), |at| at + 1);
        let (step, after) = rest.split_at(next.min(rest.len()));
        rest = after;
        first.then_some(step)
    })
}

/// Questions are put when the model's output of the step has ended: what it made stands before them, data that tools show
/// while they run after them.
pub(crate) fn questions_place(step: &[UiPart]) -> usize {
    step.iter().rposition(|part| !matches!(part, UiPart::Data(_))).map_or(0, |at| at + 1)
}
