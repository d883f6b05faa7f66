//! Locks that all instances share. A lock is a row that goes with the row of its holder.

use fermata_engine::store::InstanceId;
use fermata_tools::ResourceKey;

use crate::{
    column::json,
    connection::Connection,
    error::Fault,
    text::{Text, text},
};

/// Takes the lock; `false` if another instance has it, or if this one is not alive itself.
pub async fn take(
    connection: &mut Connection<'_>,
    key: &ResourceKey,
    instance: &InstanceId,
) -> Result<bool, Fault> {
    let taken = connection
        .query(
            "insert into resource_locks (resource, instance)
             select $1, id from instances where id = $2
             on conflict do nothing",
        )
        .bind(json(key)?)
        .bind(text(instance.as_str()))
        .execute()
        .await?;
    if taken == 1 {
        return Ok(true);
    }
    let own: Option<(Text,)> = connection
        .query("select instance from resource_locks where resource = $1 and instance = $2")
        .bind(json(key)?)
        .bind(text(instance.as_str()))
        .fetch_optional()
        .await?;
    Ok(own.is_some())
}

pub async fn give_back(
    connection: &mut Connection<'_>,
    key: &ResourceKey,
    instance: &InstanceId,
) -> Result<(), Fault> {
    connection
        .query("delete from resource_locks where resource = $1 and instance = $2")
        .bind(json(key)?)
        .bind(text(instance.as_str()))
        .execute()
        .await?;
    Ok(())
}
