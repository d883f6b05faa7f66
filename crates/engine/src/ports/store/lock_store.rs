//! The part of the store that keeps the locks that instances share.

use async_trait::async_trait;
use fermata_tools::ResourceKey;

use super::{InstanceId, StoreError};

/// Locks that all instances share. An instance's locks are free as soon as it is no longer alive.
#[async_trait]
pub trait LockStore: Send + Sync {
    /// Acquires the lock while this instance is alive. An instance may acquire a lock again that it holds already.
    ///
    /// Returns `false` if another instance alive holds the lock, or if this instance is not alive itself.
    async fn try_lock(&self, key: &ResourceKey, instance: &InstanceId) -> Result<bool, StoreError>;

    /// Releases the lock if this instance holds it.
    async fn unlock(&self, key: &ResourceKey, instance: &InstanceId) -> Result<(), StoreError>;

    /// Returns the locks that this instance holds.
    async fn locks_of(&self, instance: &InstanceId) -> Result<Vec<ResourceKey>, StoreError>;
}
