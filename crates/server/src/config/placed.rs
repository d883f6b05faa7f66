//! A value of a setting with its place.

use std::fmt;

/// The text of a setting, and the place that sets it: an option, a variable, `file:line` or the default.
#[derive(Clone)]
pub(super) struct Placed {
    pub(super) text: String,
    pub(super) place: String,
}

// === impl Placed ===

impl Placed {
    /// Returns the values of a list, which may stand in lines, with commas between them.
    pub(super) fn in_one_line(self) -> Self {
        let lines = self.text.lines().map(str::trim).filter(|line| !line.is_empty());
        Self { text: lines.collect::<Vec<_>>().join(","), ..self }
    }
}

impl fmt::Debug for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}
