//! The instances that are alive, and the runs that they own. Each database decides in its own module when an instance is dead.

use fermata_engine::store::InstanceId;

use crate::{
    connection::Connection,
    error::Fault,
    text::{Text, text},
};

/// All instances that are alive, the one that joined first in front.
pub async fn alive(connection: &mut Connection<'_>) -> Result<Vec<InstanceId>, Fault> {
    let alive: Vec<(Text,)> =
        connection.query("select id from instances order by joined_at, id").fetch_all().await?;
    Ok(alive.into_iter().map(|(Text(id),)| InstanceId::new(id)).collect())
}

/// Removes an instance that is no longer alive. Its locks go with its row, by the foreign key.
pub async fn remove(connection: &mut Connection<'_>, instance: &InstanceId) -> Result<(), Fault> {
    connection.query("delete from instances where id = $1").bind(text(instance.as_str())).execute().await?;
    Ok(())
}

/// Releases the runs of the instance that wait.
pub async fn release(connection: &mut Connection<'_>, instance: &InstanceId) -> Result<(), Fault> {
    let release = connection.choose(RELEASE_IN_SQLITE, RELEASE_IN_POSTGRES);
    connection.query(release).bind(text(instance.as_str())).execute().await?;
    Ok(())
}

// SQLite has no index by instance of runs that wait, because it has one instance, which releases them when it leaves. The index is that of open
// runs.
const RELEASE_IN_SQLITE: &str = "update runs indexed by runs_open set instance = null where instance = $1 and outcome is null and waiting";
const RELEASE_IN_POSTGRES: &str =
    "update runs set instance = null where instance = $1 and outcome is null and waiting";
