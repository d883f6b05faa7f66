//! Similar memories by the extension pgvector, in a database that has it.
//!
//! The schema does not depend on the extension: a vector is an array of `real`, which a query casts to pgvector's type. The vectors of an
//! owner are all compared as long as there are not very many, because that is exact, fast enough and needs no index. For an owner with more
//! of them an HNSW index is built, one for each number of dimensions, if the caller wants few of them. For a caller that wants all of them,
//! an index is of no use.
//!
//! Invariants: results are never fewer because an index does not find them, as the filter by owner comes after it: then all vectors are
//! compared. Nothing fails because there is no index. One instance builds an index, and nobody waits for it.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use fermata_engine::store::memories::Memory;
use fermata_tools::Owner;
use tokio::task::JoinSet;
use tokio_postgres::{Client, Error};

use super::connect::Connector;
use crate::{
    column::count,
    connection::{Connection, pipeline::Pipeline},
    error::{Fault, describe},
    queries::memories::{COLUMNS, MemoryAnd},
    text::text,
    vector::vector,
};

/// The largest number of an owner's vectors that are all compared.
const EXACT: usize = 10_000;
/// The largest number of dimensions that pgvector's type can have.
const MOST_DIMENSIONS: usize = 16_000;
/// The largest number of dimensions that an HNSW index can have.
const MOST_INDEXED_DIMENSIONS: usize = 2_000;
/// The oldest version that is used: it scans an index on if a filter has removed what was found.
const OLDEST: (u32, u32) = (0, 8);
/// The first key of the advisory lock for building an index; the second is the number of dimensions.
const INDEX_LOCKS: i32 = 0x4665_7678;

/// The extension in an open database.
pub struct Pgvector {
    /// The schema of its type and operators, quoted.
    schema: String,
    /// Opens sessions without limits, because building an index may take long.
    connector: Connector,
    // The lock is held to begin a task or to take them all out, never across an await.
    indexing: Mutex<Indexing>,
}

/// The indexes that this process builds. The tasks end with it.
#[derive(Default)]
struct Indexing {
    /// The numbers of dimensions that it was tried for, with or without success.
    begun: BTreeSet<usize>,
    tasks: JoinSet<()>,
}

/// Finds the extension. If it may be created and is not there, that is tried, which takes the rights of a superuser on most servers.
pub async fn find(
    client: &Client,
    connector: &Connector,
    may_create: bool,
) -> Result<Option<Pgvector>, Error> {
    let available = "select default_version from pg_available_extensions where name = 'vector'";
    let available = client.query_opt(available, &[]).await?;
    let mut failure = None;
    if may_create && available.is_some_and(|row| is_new_enough(row.get(0))) {
        // Elsewhere it would go with the schema of one of several servers that share the database.
        failure =
            client.batch_execute("create extension if not exists vector with schema public").await.err();
    }
    let installed = client
        .query_opt(
            "select quote_ident(nspname), extversion, has_schema_privilege(pg_namespace.oid, 'usage')
             from pg_extension join pg_namespace on pg_namespace.oid = extnamespace
             where extname = 'vector'",
            &[],
        )
        .await?;
    let installed: Option<(String, String, bool)> = installed.map(|row| (row.get(0), row.get(1), row.get(2)));
    let Some((schema, version, may_use)) = installed else {
        if let Some(error) = failure {
            tracing::info!(
                error = describe(&error),
                "the server has the extension pgvector, but it cannot be created in this database"
            );
        }
        return Ok(None);
    };
    if !may_use || !is_new_enough(&version) {
        tracing::info!(
            version,
            may_use,
            "the extension pgvector is not used: it is older than 0.8, or its schema may not be used"
        );
        return Ok(None);
    }
    Ok(Some(Pgvector { schema, connector: connector.clone(), indexing: Mutex::default() }))
}

fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= OLDEST
}

fn index_name(dimensions: usize) -> String {
    format!("memory_vectors_hnsw_{dimensions}")
}

/// Builds the index for vectors of this length, unless it is there or another session builds it.
async fn build_index(connector: &Connector, schema: &str, dimensions: usize) -> Result<(), Error> {
    let client = connector.connect().await?;
    // A statement that waited for the lock would keep the index from being finished: that waits for all statements under way.
    let lock: (i32, i32) = (INDEX_LOCKS, i32::try_from(dimensions).unwrap_or(i32::MAX));
    let is_mine = client.query_one("select pg_try_advisory_lock($1, $2)", &[&lock.0, &lock.1]).await?;
    if !is_mine.get::<_, bool>(0) {
        return Ok(());
    }
    let index = index_name(dimensions);
    if let Some(found) = client.query_opt(FIND_INDEX, &[&index]).await? {
        let (name, is_valid): (&str, bool) = (found.get(0), found.get(1));
        if is_valid {
            return Ok(());
        }
        client.batch_execute(&format!("drop index concurrently {name}")).await?;
    }
    let create = format!(
        "create index concurrently {index} on memory_vectors
         using hnsw ((vector::{schema}.vector({dimensions})) {schema}.vector_cosine_ops)
         where dims = {dimensions}"
    );
    client.batch_execute(&create).await?;
    tracing::info!(index, "built an index of the vectors of memories");
    Ok(())
}

/// Finds an index by its name: its name with its schema, quoted, and `false` if it was not finished.
const FIND_INDEX: &str =
    "select indexrelid::regclass::text, indisvalid from pg_index join pg_class on pg_class.oid = indexrelid
     where indrelid = to_regclass('memory_vectors') and relname = $1";

// === impl Pgvector ===

impl Pgvector {
    /// Returns `true` if vectors of this length can be compared.
    pub fn compares(&self, dimensions: usize) -> bool {
        dimensions <= MOST_DIMENSIONS
    }

    /// The owner's memories with vectors of the model, the most similar ones first.
    pub async fn nearest(
        &self,
        pipeline: &mut Pipeline,
        owner: &Owner,
        model: &str,
        to: &[f32],
        limit: usize,
    ) -> Result<Vec<(Memory, f32)>, Fault> {
        let dimensions = to.len();
        if limit < EXACT && dimensions <= MOST_INDEXED_DIMENSIONS {
            let (vectors,): (i64,) = Connection::Postgres(pipeline)
                .query(
                    "select count(*) from (select 1 from memory_vectors where owner = $1 and dims = $2 limit $3) as those",
                )
                .bind(text(owner.as_str()))
                .bind(count(dimensions))
                .bind(count(EXACT + 1))
                .fetch_one()
                .await?;
            if vectors > count(EXACT) {
                let index: Option<(String, bool)> = Connection::Postgres(pipeline)
                    .query(FIND_INDEX)
                    .bind(index_name(dimensions))
                    .fetch_optional()
                    .await?;
                if let Some((_, true)) = index {
                    let found = self.nearest_by_index(pipeline, owner, model, to, limit).await?;
                    if found.len() == limit {
                        return Ok(found);
                    }
                } else {
                    self.begin_index(dimensions);
                }
            }
        }
        self.nearest_of_all(pipeline, owner, model, to, limit).await
    }

    /// Compares all vectors of the owner.
    async fn nearest_of_all(
        &self,
        pipeline: &mut Pipeline,
        owner: &Owner,
        model: &str,
        to: &[f32],
        limit: usize,
    ) -> Result<Vec<(Memory, f32)>, Fault> {
        let schema = &self.schema;
        // Nothing is similar to a vector of zeros; pgvector says NaN. It is not a join, which would be planned as a comparison of each row with
        // each other as long as there are no statistics.
        let select = format!(
            "select * from (
                select {COLUMNS}, (
                    select coalesce(nullif(
                        1 - (vector::{schema}.vector operator({schema}.<=>) cast($4 as real[])::{schema}.vector), 'NaN'
                    ), 0)
                    from memory_vectors
                    where memory_vectors.owner = memories.owner and memory_id = memories.id
                        and memories.embedded_by = $2 and dims = $3
                ) as value
                from memories
                where owner = $1
                offset 0
             ) as compared
             where value is not null
             order by value desc, id
             limit $5"
        );
        fetch(pipeline, select, owner, model, to, limit).await
    }

    /// Asks the index. The owner's other memories may be found before it has found enough of them, so there may be fewer than there are.
    async fn nearest_by_index(
        &self,
        pipeline: &mut Pipeline,
        owner: &Owner,
        model: &str,
        to: &[f32],
        limit: usize,
    ) -> Result<Vec<(Memory, f32)>, Fault> {
        let (schema, dimensions) = (&self.schema, to.len());
        pipeline.begin("begin");
        // The planner prefers to sort an owner's vectors while it estimates that they are few.
        let set = "select set_config('hnsw.iterative_scan', 'strict_order', true),
            set_config('hnsw.ef_search', '200', true), set_config('enable_sort', 'off', true)";
        pipeline.query(set).execute().await?;
        let distance = format!(
            "memory_vectors.vector::{schema}.vector({dimensions})
                operator({schema}.<=>) cast($4 as real[])::{schema}.vector({dimensions})"
        );
        // The number of dimensions is in the text, because the index is for vectors of this length only.
        let select = format!(
            "select memory.*, 1 - ({distance}) as value
             from memory_vectors cross join lateral (
                select {COLUMNS} from memories
                where owner = memory_vectors.owner and id = memory_vectors.memory_id and embedded_by = $2
                offset 0
             ) as memory
             where memory_vectors.owner = $1 and memory_vectors.dims = {dimensions} and memory_vectors.dims = $3
             order by {distance}
             limit $5"
        );
        let found = fetch(pipeline, select, owner, model, to, limit).await?;
        pipeline.commit().await?;
        Ok(found)
    }

    /// Begins to build an index, unless this process has tried that before.
    fn begin_index(&self, dimensions: usize) {
        let mut indexing = self.indexing.lock().unwrap_or_else(PoisonError::into_inner);
        if !indexing.begun.insert(dimensions) {
            return;
        }
        let (connector, schema) = (self.connector.clone(), self.schema.clone());
        indexing.tasks.spawn(async move {
            if let Err(error) = build_index(&connector, &schema, dimensions).await {
                tracing::warn!(
                    error = describe(&error),
                    dimensions,
                    "the index of the vectors of memories was not built; all vectors of an owner are compared instead"
                );
            }
        });
    }

    /// Gives up what is being built. The next process that needs an index begins again.
    pub async fn close(&self) {
        let mut tasks =
            std::mem::take(&mut self.indexing.lock().unwrap_or_else(PoisonError::into_inner).tasks);
        tasks.shutdown().await;
    }
}

async fn fetch(
    pipeline: &mut Pipeline,
    select: String,
    owner: &Owner,
    model: &str,
    to: &[f32],
    limit: usize,
) -> Result<Vec<(Memory, f32)>, Fault> {
    let rows: Vec<MemoryAnd<f64>> = pipeline
        .query(select)
        .bind(text(owner.as_str()))
        .bind(text(model))
        .bind(count(to.len()))
        .bind(vector(to))
        .bind(count(limit))
        .fetch()
        .await?;
    #[expect(clippy::cast_possible_truncation, reason = "pgvector computes with numbers of this precision")]
    rows.into_iter().map(|row| Ok((row.memory.into_memory()?.1, row.value as f32))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_new_enough_from_0_8_on() {
        for (version, expected) in
            [("0.8.0", true), ("0.8", true), ("0.10.1", true), ("1.0", true), ("0.7.4", false), ("", false)]
        {
            assert_eq!(is_new_enough(version), expected, "{version}");
        }
    }
}
