//! Which instances are alive, and what they drive. When one is no longer alive is the database's to say.

use fermata_engine::store::InstanceId;
use fermata_tools::Owner;

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

/// How many open runs of the owner others drive that are alive.
pub async fn driven_elsewhere(
    connection: &mut Connection,
    owner: &Owner,
    instance: &InstanceId,
) -> Result<usize, Fault> {
    let driven: i64 = sqlx::query_scalar(
        "select count(*) from runs
            join instances on instances.id = runs.driver
            join chats on chats.id = runs.chat_id
         where runs.driver <> $2 and runs.outcome is null and chats.owner = $1",
    )
    .bind(text(owner.as_str()))
    .bind(text(instance.as_str()))
    .fetch_one(connection)
    .await
    .map_err(failed)?;
    Ok(usize::try_from(driven).unwrap_or_default())
}
