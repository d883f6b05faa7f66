//! The key that the instances on one database share, where nobody has set one.

use crate::{connection::Connection, error::Fault};

/// The key of this database: the one that is there, or else this one from now on. Of several that ask at once all get the same.
pub async fn find_or_keep(connection: &mut Connection<'_>, new: &str) -> Result<String, Fault> {
    connection
        .query("insert into cluster_keys (id, key) values (1, $1) on conflict (id) do nothing")
        .bind(new)
        .execute()
        .await?;
    let (key,): (String,) = connection.query("select key from cluster_keys where id = 1").fetch_one().await?;
    Ok(key)
}
