//! The number of open runs of each user at this instance.

use std::{num::NonZeroUsize, sync::Arc};

use dashmap::DashMap;
use fermata_tools::Owner;

/// Counts the open runs of each user at this instance.
#[derive(Clone, Default)]
pub(crate) struct OpenRuns {
    by_owner: Arc<DashMap<Owner, usize>>,
}

/// One open run of a user, which is counted until this is dropped.
pub(crate) struct OpenRun {
    owner: Owner,
    runs: OpenRuns,
}

// === impl OpenRuns ===

impl OpenRuns {
    /// Returns the number of open runs in memory, of all users.
    pub fn count(&self) -> usize {
        self.by_owner.iter().map(|of_owner| *of_owner.value()).sum()
    }

    /// Counts one more run, without regard to the limit.
    pub fn enter(&self, owner: &Owner) -> OpenRun {
        *self.by_owner.entry(owner.clone()).or_default() += 1;
        OpenRun::new(owner, self)
    }

    /// Counts one more run, unless the user has as many as `limit` at this instance and elsewhere. Then the limit is returned as the error.
    pub fn try_enter(
        &self,
        owner: &Owner,
        limit: Option<NonZeroUsize>,
        elsewhere: usize,
    ) -> Result<OpenRun, usize> {
        let mut count = self.by_owner.entry(owner.clone()).or_default();
        if let Some(limit) = limit
            && *count + elsewhere >= limit.get()
        {
            return Err(limit.get());
        }
        *count += 1;
        Ok(OpenRun::new(owner, self))
    }
}

impl OpenRun {
    fn new(owner: &Owner, runs: &OpenRuns) -> Self {
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
