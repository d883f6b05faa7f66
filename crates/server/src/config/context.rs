//! `[context]`: the outputs that stay in the history that a model is sent, however full it is.

use fermata_tools::Pattern;
use schemars::JsonSchema;
use serde::Deserialize;

use super::values::NonEmpty;

/// The table of the file.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Context")]
pub(super) struct ContextTable {
    /// The tools whose outputs are never cleared to save room, as globs over their names.
    never_clear: Option<Vec<NonEmpty>>,
}

impl From<ContextTable> for Vec<Pattern> {
    fn from(table: ContextTable) -> Self {
        let globs = table.never_clear.unwrap_or_default();
        globs.iter().map(|NonEmpty(glob)| Pattern::new(glob)).collect()
    }
}
