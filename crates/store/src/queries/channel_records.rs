//! The messages, links and devices of channels.

use fermata_protocol::ApprovalId;
use fermata_tools::Owner;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    column::{count, json, read_json, time},
    connection::Connection,
    error::Fault,
    text::{Text, text},
};

/// A message that a channel has sent about an approval.
#[derive(Clone, Debug, PartialEq)]
pub struct SentMessage {
    /// The address of the recipient; empty for a message that everybody shares.
    pub recipient: String,
    /// The message as the service names it.
    pub reference: Value,
}

/// A one-time link that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailLink {
    /// The SHA-256 of the token, in hexadecimal.
    pub hash: String,
    /// The name of the channel.
    pub channel: String,
    /// The approval.
    pub approval: ApprovalId,
    /// The hash of the input that the recipient was shown.
    pub input_hash: String,
    /// The user who received the link.
    pub recipient: Owner,
    /// `true` if the link approves the call.
    pub approves: bool,
}

/// A browser that takes push notifications.
#[derive(Clone, Debug, PartialEq)]
pub struct PushDevice {
    /// The URL of the push service for this browser.
    pub endpoint: String,
    /// The user.
    pub owner: Owner,
    /// The groups that the user has proved with the registration.
    pub groups: Vec<String>,
    /// The subscription, as the browser made it.
    pub subscription: Value,
}

pub async fn messages(
    connection: &mut Connection<'_>,
    channel: &str,
    approval: &ApprovalId,
) -> Result<Vec<SentMessage>, Fault> {
    let rows: Vec<(Text, String)> = connection
        .query(
            "select recipient, reference from channel_messages where approval_id = $1 and channel = $2
             order by recipient",
        )
        .bind(text(approval.as_str()))
        .bind(text(channel))
        .fetch_all()
        .await?;
    let read = |(Text(recipient), reference): (Text, String)| {
        Ok(SentMessage { recipient, reference: read_json("the reference of a message", &reference)? })
    };
    rows.into_iter().map(read).collect()
}

pub async fn note_message(
    connection: &mut Connection<'_>,
    channel: &str,
    approval: &ApprovalId,
    recipient: &str,
    reference: &Value,
    at: Timestamp,
) -> Result<(), Fault> {
    connection
        .query(
            "insert into channel_messages (approval_id, channel, recipient, reference, sent_at)
             select $1, $2, $3, $4, $5 where exists (select 1 from approvals where id = $1)
             on conflict (approval_id, channel, recipient) do update set
                reference = excluded.reference, sent_at = excluded.sent_at",
        )
        .bind(text(approval.as_str()))
        .bind(text(channel))
        .bind(text(recipient))
        .bind(json(reference)?)
        .bind(time(at))
        .execute()
        .await
}

pub async fn delete_messages(
    connection: &mut Connection<'_>,
    channel: &str,
    approval: &ApprovalId,
) -> Result<(), Fault> {
    connection
        .query("delete from channel_messages where approval_id = $1 and channel = $2")
        .bind(text(approval.as_str()))
        .bind(text(channel))
        .execute()
        .await
}

pub async fn add_link(connection: &mut Connection<'_>, link: &MailLink, at: Timestamp) -> Result<(), Fault> {
    connection
        .query(
            "insert into mail_links (hash, channel, approval_id, input_hash, recipient, approves, created_at)
             select $1, $2, $3, $4, $5, $6, $7 where exists (select 1 from approvals where id = $3)",
        )
        .bind(link.hash.as_str())
        .bind(text(&link.channel))
        .bind(text(link.approval.as_str()))
        .bind(text(&link.input_hash))
        .bind(text(link.recipient.as_str()))
        .bind(link.approves)
        .bind(time(at))
        .execute()
        .await
}

pub async fn link(
    connection: &mut Connection<'_>,
    channel: &str,
    hash: &str,
) -> Result<Option<(MailLink, bool)>, Fault> {
    let row: Option<(Text, Text, Text, bool, Option<i64>)> = connection
        .query(
            "select approval_id, input_hash, recipient, approves, used_at from mail_links
             where hash = $1 and channel = $2",
        )
        .bind(hash)
        .bind(text(channel))
        .fetch_optional()
        .await?;
    Ok(row.map(|(Text(approval), Text(input_hash), Text(recipient), approves, used)| {
        let link = MailLink {
            hash: hash.to_owned(),
            channel: channel.to_owned(),
            approval: ApprovalId::new(approval),
            input_hash,
            recipient: Owner::new(recipient),
            approves,
        };
        (link, used.is_some())
    }))
}

/// Notes that a link was used.
pub async fn use_link(connection: &mut Connection<'_>, hash: &str, at: Timestamp) -> Result<(), Fault> {
    connection
        .query("update mail_links set used_at = $2 where hash = $1 and used_at is null")
        .bind(hash)
        .bind(time(at))
        .execute()
        .await
}

/// Adds a device, or replaces it; `false` if its owner has `most` others.
pub async fn put_device(
    connection: &mut Connection<'_>,
    device: &PushDevice,
    at: Timestamp,
    most: usize,
) -> Result<bool, Fault> {
    let added = connection
        .query(
            "insert into push_devices (endpoint, owner, groups, subscription, created_at)
             select $1, $2, $3, $4, $5
             where (select count(*) from push_devices where owner = $2 and endpoint <> $1) < $6
             on conflict (endpoint) do update set
                owner = excluded.owner, groups = excluded.groups, subscription = excluded.subscription",
        )
        .bind(text(&device.endpoint))
        .bind(text(device.owner.as_str()))
        .bind(json(&device.groups)?)
        .bind(json(&device.subscription)?)
        .bind(time(at))
        .bind(count(most))
        .count()
        .await?;
    Ok(added == 1)
}

pub async fn devices(connection: &mut Connection<'_>) -> Result<Vec<PushDevice>, Fault> {
    let rows: Vec<(Text, Text, String, String)> = connection
        .query("select endpoint, owner, groups, subscription from push_devices order by owner, created_at, endpoint")
        .fetch_all()
        .await?;
    let read = |(Text(endpoint), Text(owner), groups, subscription): (Text, Text, String, String)| {
        Ok(PushDevice {
            endpoint,
            owner: Owner::new(owner),
            groups: read_json("the groups of a device", &groups)?,
            subscription: read_json("the subscription of a device", &subscription)?,
        })
    };
    rows.into_iter().map(read).collect()
}

/// Deletes a device; `false` if the owner has none with this endpoint.
pub async fn delete_device(
    connection: &mut Connection<'_>,
    owner: &Owner,
    endpoint: &str,
) -> Result<bool, Fault> {
    let deleted = connection
        .query("delete from push_devices where owner = $1 and endpoint = $2")
        .bind(text(owner.as_str()))
        .bind(text(endpoint))
        .count()
        .await?;
    Ok(deleted == 1)
}

pub async fn delete_devices(connection: &mut Connection<'_>, owner: &Owner) -> Result<(), Fault> {
    connection.query("delete from push_devices where owner = $1").bind(text(owner.as_str())).execute().await
}

pub async fn drop_device(connection: &mut Connection<'_>, endpoint: &str) -> Result<(), Fault> {
    connection.query("delete from push_devices where endpoint = $1").bind(text(endpoint)).execute().await
}

/// The private key of this database, which is `new` from now on if there is none yet.
pub async fn push_key(connection: &mut Connection<'_>, new: &str) -> Result<String, Fault> {
    connection
        .query("insert into push_keys (id, key) values (1, $1) on conflict (id) do nothing")
        .bind(new)
        .execute()
        .await?;
    let (key,): (String,) = connection.query("select key from push_keys where id = 1").fetch_one().await?;
    Ok(key)
}
