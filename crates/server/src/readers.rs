//! How many streams each owner reads at a time.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fermata_tools::Owner;

use crate::error::{ApiError, Code};

/// The streams that are open, by owner. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Readers {
    limit: Option<NonZeroUsize>,
    // Held for a few instructions, never across an await.
    counts: Arc<Mutex<HashMap<Owner, usize>>>,
}

/// One stream among those of its owner, until it is dropped.
#[derive(Debug)]
pub struct ReaderPlace {
    readers: Readers,
    owner: Owner,
}

// === impl Readers ===

impl Readers {
    /// So many for each owner; `None`: as many as there are connections.
    pub fn new(limit: Option<NonZeroUsize>) -> Self {
        Self { limit, counts: Arc::default() }
    }

    /// Counts one more stream of the owner.
    ///
    /// # Errors
    /// 429 when the owner has as many as are allowed.
    pub fn enter(&self, owner: &Owner) -> Result<ReaderPlace, ApiError> {
        let mut counts = self.counts();
        let count = counts.entry(owner.clone()).or_default();
        if let Some(limit) = self.limit.filter(|limit| *count >= limit.get()) {
            return Err(ApiError::new(
                Code::TooManyReaders,
                format!(
                    "You are reading {limit} streams, which is the limit (readers_per_owner); close one."
                ),
            ));
        }
        *count += 1;
        Ok(ReaderPlace { readers: self.clone(), owner: owner.clone() })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Owner, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReaderPlace {
    fn drop(&mut self) {
        let mut counts = self.readers.counts();
        if let Some(count) = counts.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.owner);
            }
        }
    }
}
