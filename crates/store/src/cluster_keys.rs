//! The key that the instances on one database share, where nobody has set one.

use super::Connection;
use crate::error::{Fault, failed};

/// The key of this database: the one that is there, or else this one from now on. Of several that ask at once all get the same.
pub async fn find_or_keep(connection: &mut Connection, new: &str) -> Result<String, Fault> {
    sqlx::query("insert into cluster_keys (id, key) values (1, $1) on conflict (id) do nothing")
        .bind(new)
        .execute(&mut *connection)
        .await
        .map_err(failed)?;
    sqlx::query_scalar("select key from cluster_keys where id = 1")
        .fetch_one(connection)
        .await
        .map_err(failed)
}
