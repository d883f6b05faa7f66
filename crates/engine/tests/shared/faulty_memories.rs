//! Memories in a store that fails on a test's command.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use fermata_engine::store::{
    StoreError,
    memories::{
        Memories, Memory, MemoryAuthor, MemoryChange, MemoryFilter, MemoryId, MemoryOutcome, MemoryVector,
        Undone,
    },
};
use fermata_tools::Owner;
use jiff::Timestamp;

use super::FaultyStore;

impl FaultyStore {
    async fn before_memories(&self, is_write: bool) -> Result<(), StoreError> {
        if self.memories_fail.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("the test lets the memories fail".into()));
        }
        self.before_operation(is_write).await
    }
}

#[async_trait]
impl Memories for FaultyStore {
    async fn memories(&self, owner: &Owner, filter: &MemoryFilter) -> Result<Vec<Memory>, StoreError> {
        self.before_memories(false).await?;
        self.store.memories(owner, filter).await
    }
    async fn change_memories(
        &self,
        owner: &Owner,
        at: Timestamp,
        changes: Vec<MemoryChange>,
        most: usize,
        author: &MemoryAuthor,
    ) -> Result<Vec<MemoryOutcome>, StoreError> {
        self.before_memories(true).await?;
        let outcomes = self.store.change_memories(owner, at, changes, most, author).await?;
        self.after_write().await?;
        Ok(outcomes)
    }
    async fn undo_memory(
        &self,
        owner: &Owner,
        id: &MemoryId,
        at: Timestamp,
        author: &MemoryAuthor,
    ) -> Result<Undone, StoreError> {
        self.before_memories(true).await?;
        self.store.undo_memory(owner, id, at, author).await
    }
    async fn delete_memories(
        &self,
        owner: &Owner,
        at: Timestamp,
        author: &MemoryAuthor,
    ) -> Result<usize, StoreError> {
        self.before_memories(true).await?;
        self.store.delete_memories(owner, at, author).await
    }
    async fn note_recalled(&self, owner: &Owner, ids: &[MemoryId], at: Timestamp) -> Result<(), StoreError> {
        self.before_memories(true).await?;
        self.store.note_recalled(owner, ids, at).await
    }
    async fn nearest_memories(
        &self,
        owner: &Owner,
        model: &str,
        vector: &[f32],
        limit: usize,
    ) -> Result<Vec<(Memory, f32)>, StoreError> {
        self.before_memories(false).await?;
        self.store.nearest_memories(owner, model, vector, limit).await
    }
    async fn unembedded_memories(
        &self,
        model: &str,
        limit: usize,
    ) -> Result<Vec<(Owner, Memory)>, StoreError> {
        self.before_memories(false).await?;
        self.store.unembedded_memories(model, limit).await
    }
    async fn put_vectors(&self, model: &str, vectors: Vec<MemoryVector>) -> Result<(), StoreError> {
        self.before_memories(true).await?;
        self.store.put_vectors(model, vectors).await
    }
    async fn forget_memory_events(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.before_memories(true).await?;
        self.store.forget_memory_events(before, limit).await
    }
}
