//! The number of streams that each owner reads at a time.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fermata_tools::Owner;

use crate::error::{ApiError, Code};

/// The number of open streams of each owner. Clones share the numbers.
#[derive(Clone, Debug, Default)]
pub struct Readers {
    limit: Option<NonZeroUsize>,
    // The mutex is held for a few instructions, never across an await.
    counts: Arc<Mutex<HashMap<Owner, usize>>>,
}

/// A guard that counts a stream until it is dropped.
#[derive(Debug)]
pub struct ReaderGuard {
    readers: Readers,
    owner: Owner,
}

// === impl Readers ===

impl Readers {
    /// Allows each owner this number of streams; `None` for any number.
    pub fn new(limit: Option<NonZeroUsize>) -> Self {
        Self { limit, counts: Arc::default() }
    }

    /// Counts one more stream of an owner.
    ///
    /// # Errors
    /// Returns 429 if the owner has reached the limit.
    pub fn enter(&self, owner: &Owner) -> Result<ReaderGuard, ApiError> {
        let mut counts = self.counts();
        let count = counts.entry(owner.clone()).or_default();
        if let Some(limit) = self.limit
            && *count >= limit.get()
        {
            return Err(ApiError::new(
                Code::TooManyReaders,
                format!("You have reached the limit of {limit} open streams (readers_per_owner). Close one."),
            ));
        }
        *count += 1;
        Ok(ReaderGuard { readers: self.clone(), owner: owner.clone() })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Owner, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReaderGuard {
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
