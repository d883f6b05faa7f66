//! The engine's port for memories on either database.

use async_trait::async_trait;
use fermata_engine::store::{
    Memories, StoreError,
    memories::{
        Memory, MemoryAuthor, MemoryChange, MemoryFilter, MemoryId, MemoryOutcome, MemoryVector, Undone,
        check_vector,
    },
};
use fermata_tools::Owner;
use jiff::Timestamp;

use super::SqlStore;
use crate::{
    backend::Backend,
    postgres::Effect,
    queries::{memories, memory_vectors},
};

#[async_trait]
impl Memories for SqlStore {
    async fn memories(&self, owner: &Owner, filter: &MemoryFilter) -> Result<Vec<Memory>, StoreError> {
        self.backend.look_up(|mut db| async move { memories::find(&mut db.get(), owner, filter).await }).await
    }

    async fn change_memories(
        &self,
        owner: &Owner,
        at: Timestamp,
        changes: Vec<MemoryChange>,
        most: usize,
        author: &MemoryAuthor,
    ) -> Result<Vec<MemoryOutcome>, StoreError> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        self.backend
            .transact(
                Effect::Once,
                (owner.clone(), changes, author.clone()),
                move |mut transaction, about| async move {
                    let (owner, changes, author) = &*about;
                    let changes = changes.clone();
                    let outcomes =
                        memories::change(&mut transaction.get(), owner, at, changes, most, author).await?;
                    Ok((transaction, outcomes))
                },
            )
            .await
    }

    async fn undo_memory(
        &self,
        owner: &Owner,
        id: &MemoryId,
        at: Timestamp,
        author: &MemoryAuthor,
    ) -> Result<Undone, StoreError> {
        let about = (owner.clone(), id.clone(), author.clone());
        self.backend
            .transact(Effect::Once, about, move |mut transaction, about| async move {
                let (owner, id, author) = &*about;
                let undone = memories::undo(&mut transaction.get(), owner, id, at, author).await?;
                Ok((transaction, undone))
            })
            .await
    }

    async fn delete_memories(
        &self,
        owner: &Owner,
        at: Timestamp,
        author: &MemoryAuthor,
    ) -> Result<usize, StoreError> {
        let about = (owner.clone(), author.clone());
        let deleted = self
            .backend
            .transact(Effect::Once, about, move |mut transaction, about| async move {
                let (owner, author) = &*about;
                let deleted = memories::delete(&mut transaction.get(), owner, at, author).await?;
                Ok((transaction, deleted))
            })
            .await?;
        self.backend.forget_deleted().await;
        Ok(deleted)
    }

    async fn note_recalled(&self, owner: &Owner, ids: &[MemoryId], at: Timestamp) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        self.backend
            .transact(
                Effect::Repeatable,
                (owner.clone(), ids.to_vec()),
                |mut transaction, about| async move {
                    memories::note_recalled(&mut transaction.get(), &about.0, &about.1, at).await?;
                    Ok((transaction, ()))
                },
            )
            .await
    }

    async fn nearest_memories(
        &self,
        owner: &Owner,
        model: &str,
        vector: &[f32],
        limit: usize,
    ) -> Result<Vec<(Memory, f32)>, StoreError> {
        check_vector(vector)?;
        if let Backend::Postgres(database) = &self.backend
            && let Some(pgvector) = &database.pgvector
            && pgvector.compares(vector.len())
        {
            let nearest = database.retrying(Effect::Repeatable, || async {
                let mut connection = database.pool.acquire().await?;
                pgvector.nearest(&mut connection, owner, model, vector, limit).await
            });
            return nearest.await;
        }
        self.backend
            .read((owner.clone(), model.to_owned(), vector.to_vec()), |mut db, about| async move {
                let (owner, model, vector) = &*about;
                memory_vectors::nearest(&mut db.get(), owner, model, vector, limit).await
            })
            .await
    }

    async fn unembedded_memories(
        &self,
        model: &str,
        limit: usize,
    ) -> Result<Vec<(Owner, Memory)>, StoreError> {
        self.backend
            .read(model.to_owned(), |mut db, model| async move {
                memory_vectors::missing(&mut db.get(), &model, limit).await
            })
            .await
    }

    async fn put_vectors(&self, model: &str, vectors: Vec<MemoryVector>) -> Result<(), StoreError> {
        vectors.iter().try_for_each(|of_memory| check_vector(&of_memory.vector))?;
        self.backend
            .transact(Effect::Repeatable, (model.to_owned(), vectors), |mut transaction, about| async move {
                memory_vectors::put(&mut transaction.get(), &about.0, &about.1).await?;
                Ok((transaction, ()))
            })
            .await
    }

    async fn forget_memory_events(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.backend
            .transact(Effect::Once, (), |mut transaction, _| async move {
                let forgotten = memories::forget_events(&mut transaction.get(), before, limit).await?;
                Ok((transaction, forgotten))
            })
            .await
    }
}
