//! The key that the instances on one database share if the settings give none.

use crate::{connection::Connection, error::Fault};

/// The key of this database, which is `new` from now on if there is none yet. Several that ask at once all get the same key.
pub async fn find_or_keep(connection: &mut Connection<'_>, new: &str) -> Result<String, Fault> {
    connection
        .query("insert into cluster_keys (id, key) values (1, $1) on conflict (id) do nothing")
        .bind(new)
        .execute()
        .await?;
    let (key,): (String,) = connection.query("select key from cluster_keys where id = 1").fetch_one().await?;
    Ok(key)
}
