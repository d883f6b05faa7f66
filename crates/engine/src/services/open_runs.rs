//! How many runs of each owner this instance drives.

use std::{num::NonZeroUsize, sync::Arc};

use dashmap::DashMap;
use fermata_tools::Owner;

/// How many runs of each owner this instance drives.
#[derive(Clone, Default)]
pub(crate) struct OpenRuns {
    by_owner: Arc<DashMap<Owner, usize>>,
}

/// One of its owner's runs that this instance drives, counted until it is dropped.
pub(crate) struct OpenRun {
    owner: Owner,
    runs: OpenRuns,
}

// === impl OpenRuns ===

impl OpenRuns {
    /// Counts one more run, whatever the limit.
    pub fn enter(&self, owner: &Owner) -> OpenRun {
        *self.by_owner.entry(owner.clone()).or_default() += 1;
        OpenRun::counted(owner, self)
    }

    /// Counts one more run unless the owner has that many, here and elsewhere.
    pub fn try_enter(
        &self,
        owner: &Owner,
        limit: Option<NonZeroUsize>,
        elsewhere: usize,
    ) -> Result<OpenRun, usize> {
        let mut count = self.by_owner.entry(owner.clone()).or_default();
        if let Some(limit) = limit.filter(|limit| *count + elsewhere >= limit.get()) {
            return Err(limit.get());
        }
        *count += 1;
        Ok(OpenRun::counted(owner, self))
    }
}

impl OpenRun {
    fn counted(owner: &Owner, runs: &OpenRuns) -> Self {
        metrics::gauge!("fermata_runs_open").increment(1);
        Self { owner: owner.clone(), runs: runs.clone() }
    }
}

impl Drop for OpenRun {
    fn drop(&mut self) {
        metrics::gauge!("fermata_runs_open").decrement(1);
        if let Some(mut count) = self.runs.by_owner.get_mut(&self.owner) {
            *count = count.saturating_sub(1);
        }
        self.runs.by_owner.remove_if(&self.owner, |_, count| *count == 0);
    }
}
