//! Locks that all instances share. A lock is a row that goes with the row of its holder.

use fermata_engine::store::InstanceId;
use fermata_tools::ResourceKey;

use crate::{
    column::{json, read_json},
    connection::Connection,
    error::Fault,
    text::{Text, text},
};

// In PostgreSQL the index is one of hashes, because a name may be longer than an index takes.
const OWN_IN_SQLITE: &str = "select instance from resource_locks where resource = $1 and instance = $2";
const OWN_IN_POSTGRES: &str =
    "select instance from resource_locks where md5(resource) = md5($1) and resource = $1 and instance = $2";
const GIVE_BACK_IN_SQLITE: &str = "delete from resource_locks where resource = $1 and instance = $2";
const GIVE_BACK_IN_POSTGRES: &str =
    "delete from resource_locks where md5(resource) = md5($1) and resource = $1 and instance = $2";

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
        .count()
        .await?;
    if taken == 1 {
        return Ok(true);
    }
    let own = connection.choose(OWN_IN_SQLITE, OWN_IN_POSTGRES);
    let own: Option<(Text,)> =
        connection.query(own).bind(json(key)?).bind(text(instance.as_str())).fetch_optional().await?;
    Ok(own.is_some())
}

pub async fn give_back(
    connection: &mut Connection<'_>,
    key: &ResourceKey,
    instance: &InstanceId,
) -> Result<(), Fault> {
    let give_back = connection.choose(GIVE_BACK_IN_SQLITE, GIVE_BACK_IN_POSTGRES);
    connection.query(give_back).bind(json(key)?).bind(text(instance.as_str())).execute().await?;
    Ok(())
}

/// The locks that the instance has.
pub async fn of_instance(
    connection: &mut Connection<'_>,
    instance: &InstanceId,
) -> Result<Vec<ResourceKey>, Fault> {
    let keys: Vec<(String,)> = connection
        .query("select resource from resource_locks where instance = $1")
        .bind(text(instance.as_str()))
        .fetch_all()
        .await?;
    keys.iter().map(|(key,)| Ok(read_json("a lock", key)?)).collect()
}
