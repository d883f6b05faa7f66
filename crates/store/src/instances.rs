//! Which instances are alive, and what they drive. When one is no longer alive is the database's to say.

use fermata_engine::store::InstanceId;

use super::Connection;
use crate::{
    error::{Fault, failed},
    text::{Text, text},
};

/// All that are alive.
pub async fn alive(connection: &mut Connection) -> Result<Vec<InstanceId>, Fault> {
    let alive: Vec<Text> = sqlx::query_scalar("select id from instances order by id")
        .fetch_all(connection)
        .await
        .map_err(failed)?;
    Ok(alive.into_iter().map(|Text(id)| InstanceId::new(id)).collect())
}

/// The instance is no longer alive. Its locks go with its row, by the foreign key.
pub async fn remove(connection: &mut Connection, instance: &InstanceId) -> Result<(), Fault> {
    sqlx::query("delete from instances where id = $1")
        .bind(text(instance.as_str()))
        .execute(connection)
        .await
        .map_err(failed)?;
    Ok(())
}

/// Lets go of its runs that wait.
pub async fn release(connection: &mut Connection, instance: &InstanceId) -> Result<(), Fault> {
    sqlx::query("update runs set driver = null where driver = $1 and outcome is null and waiting")
        .bind(text(instance.as_str()))
        .execute(connection)
        .await
        .map_err(failed)?;
    Ok(())
}
