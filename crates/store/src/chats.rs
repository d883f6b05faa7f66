//! The chats themselves: to whom they belong, and lists of them.

use fermata_engine::store::{ChatPage, ChatSummary, StoreError, page::Cursor};
use fermata_protocol::{ChatId, Profile};
use fermata_tools::Owner;
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::{
    column::{count, read_time, time},
    error::{failed, misfit},
};

type Summary = (String, i64, i64, Option<String>);

pub async fn create(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    owner: &Owner,
    profile: Profile,
    at: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query("insert into chats (id, owner, profile, created_at, updated_at) values ($1, $2, $3, $4, $4)")
        .bind(chat.as_str())
        .bind(owner.as_str())
        .bind(u8::from(profile))
        .bind(time(at))
        .execute(connection)
        .await
        .map_err(failed)?;
    Ok(())
}

/// Notes that the chat changes now; fails where there is none.
pub async fn touch(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    at: Timestamp,
) -> Result<(), StoreError> {
    let touched = sqlx::query("update chats set updated_at = $2 where id = $1")
        .bind(chat.as_str())
        .bind(time(at))
        .execute(connection)
        .await
        .map_err(failed)?;
    if touched.rows_affected() == 0 { Err(misfit("there is no such chat")) } else { Ok(()) }
}

pub async fn posted(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    profile: Profile,
) -> Result<(), StoreError> {
    sqlx::query("update chats set profile = $2 where id = $1")
        .bind(chat.as_str())
        .bind(u8::from(profile))
        .execute(connection)
        .await
        .map_err(failed)?;
    Ok(())
}

/// Everything else of the chat goes with its row, by the foreign keys.
pub async fn delete(connection: &mut SqliteConnection, chat: &ChatId) -> Result<(), StoreError> {
    sqlx::query("delete from chats where id = $1")
        .bind(chat.as_str())
        .execute(connection)
        .await
        .map_err(failed)?;
    Ok(())
}

pub async fn find(
    connection: &mut SqliteConnection,
    chat: &ChatId,
) -> Result<Option<(Owner, Profile)>, StoreError> {
    let found: Option<(String, u8)> = sqlx::query_as("select owner, profile from chats where id = $1")
        .bind(chat.as_str())
        .fetch_optional(connection)
        .await
        .map_err(failed)?;
    let Some((owner, profile)) = found else {
        return Ok(None);
    };
    let profile = Profile::try_from(profile).map_err(StoreError::Corrupt)?;
    Ok(Some((Owner::new(owner), profile)))
}

pub async fn page(
    connection: &mut SqliteConnection,
    owner: &Owner,
    limit: usize,
    before: Option<Cursor>,
) -> Result<ChatPage, StoreError> {
    // The first page begins at the end of time.
    let (updated_at, id) = match &before {
        Some(cursor) => (cursor.updated_at, cursor.chat.as_str()),
        None => (i64::MAX, ""),
    };
    let mut rows: Vec<Summary> = sqlx::query_as(
        "select id, created_at, updated_at,
            (select heading from messages where chat_id = chats.id and role = 'user' order by position limit 1)
         from chats
         where owner = $1 and (updated_at, id) < ($2, $3)
         order by updated_at desc, id desc
         limit $4",
    )
    .bind(owner.as_str())
    .bind(updated_at)
    .bind(id)
    .bind(count(limit.saturating_add(1)))
    .fetch_all(connection)
    .await
    .map_err(failed)?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|(id, _, updated_at, _)| {
        let chat = ChatId::new(id.as_str());
        Cursor { updated_at: *updated_at, chat }.encode()
    });
    Ok(ChatPage { chats: rows.into_iter().map(summary).collect::<Result<_, _>>()?, next })
}

fn summary((id, created_at, updated_at, title): Summary) -> Result<ChatSummary, StoreError> {
    Ok(ChatSummary {
        id: ChatId::new(id),
        title,
        created_at: read_time(created_at)?,
        updated_at: read_time(updated_at)?,
    })
}
