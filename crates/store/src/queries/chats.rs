//! The chats themselves: their owners and versions, and lists of them.

use std::collections::BTreeSet;

use fermata_engine::store::{
    Change, ChatHead, ChatOwner, ChatPage, ChatRecord, ChatSummary, InstanceId, Listing, StoreError, Version,
    page::Cursor,
};
use fermata_protocol::{ChatId, Profile, RunId, RunStatus, Show, Stage};
use fermata_tools::Owner;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    column::{count, json, read_json, read_name, read_time, time},
    connection::{Connection, Query, row},
    error::Fault,
    text::{Text, text},
};

row! {
    struct Summary {
        id: String,
        created_at: i64,
        updated_at: i64,
        title: Option<Text>,
        archived: bool,
        pinned: bool,
        open: bool,
        pending: i64,
        show: Option<String>,
        stage: Option<String>,
        requires_confirm: Option<bool>,
        last_tool: Option<Text>,
        last_result: Option<Text>,
    }
}

row! {
    struct Found {
        version: i64,
        owner: Text,
        profile: String,
        show: Option<String>,
        messages: i64,
        bytes: i64,
        assistant: Option<Text>,
        model: Option<Text>,
        title: Option<Text>,
        archived: bool,
        pinned: bool,
        context: Option<String>,
        stage: Option<String>,
        requires_confirm: Option<bool>,
        last_tool: Option<Text>,
        last_result: Option<Text>,
        has_open_run: bool,
        has_decisions: bool,
    }
}

/// The number of chats that are forgotten in one transaction, so that other writers do not wait for long.
pub const BATCH: usize = 50;

/// The chat's own row.
pub struct ChatRow {
    /// The chat without its open run and the decisions about its calls.
    pub record: ChatRecord,
    pub has_open_run: bool,
    /// `true` if somebody has decided about calls of the chat.
    pub has_decisions: bool,
}

/// The columns of a chat that a commit changes. A column that is `None` stays as it was.
#[derive(Default)]
pub struct ChatColumns<'a> {
    pub profile: Option<Profile>,
    pub assistant: Option<&'a str>,
    pub model: Option<&'a str>,
    pub show: Option<&'a BTreeSet<Show>>,
    pub context: Option<&'a Value>,
    pub status: Option<&'a RunStatus>,
}

/// Makes the chat. If it is there already, the transaction fails with [`StoreError::Fenced`].
pub async fn create(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    version: Version,
    owner: &Owner,
    columns: ChatColumns<'_>,
    at: Timestamp,
) -> Result<(), Fault> {
    let insert = connection
        .query(
            "insert into chats (id, version, owner, created_at, updated_at,
                profile, assistant, model, show, context, stage, requires_confirm, last_tool, last_result)
             values ($1, $2, $3, $4, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
             on conflict (id) do nothing",
        )
        .bind(chat.as_str())
        .bind(number(version)?)
        .bind(text(owner.as_str()))
        .bind(time(at));
    columns.bind(insert)?.execute_or(StoreError::Fenced.into()).await
}

/// Notes that the chat changes now, and changes these columns. If its version is another one or it is not there, the transaction fails with
/// [`StoreError::Fenced`].
pub async fn advance(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    from: Version,
    to: Version,
    news: Option<Timestamp>,
    columns: ChatColumns<'_>,
) -> Result<(), Fault> {
    // SQLite writes the indexes of a column again for each update that names it.
    let update = if news.is_some() { ADVANCE_WITH_NEWS } else { ADVANCE };
    let update = connection.query(update).bind(chat.as_str()).bind(number(from)?).bind(number(to)?);
    let update = columns.bind(update)?;
    let update = if let Some(news) = news { update.bind(time(news)) } else { update };
    update.execute_or(StoreError::Fenced.into()).await
}

macro_rules! advance {
    ($updated_at:literal) => {
        concat!(
            "update chats set version = $3, profile = coalesce($4, profile),
                assistant = coalesce($5, assistant), model = coalesce($6, model),
                show = coalesce($7, show), context = coalesce($8, context),
                stage = coalesce($9, stage), requires_confirm = coalesce($10, requires_confirm),
                last_tool = case when $9 is null then last_tool else $11 end,
                last_result = case when $9 is null then last_result else $12 end",
            $updated_at,
            " where id = $1 and version = $2"
        )
    };
}

const ADVANCE: &str = advance!("");
const ADVANCE_WITH_NEWS: &str = advance!(", updated_at = $13");

/// Forgets the chat and returns true, unless its version is another one. Everything else of the chat goes with its row, by the foreign keys.
pub async fn delete(connection: &mut Connection<'_>, chat: &ChatId, version: Version) -> Result<bool, Fault> {
    let deleted = connection
        .query("delete from chats where id = $1 and version = $2")
        .bind(chat.as_str())
        .bind(number(version)?)
        .count()
        .await?;
    Ok(deleted == 1)
}

/// Forgets at most `limit` chats without an open run that have not changed since `before`, the oldest first. Returns the number of those
/// chats. A chat that changes meanwhile has another version, and stays.
pub async fn forget(
    connection: &mut Connection<'_>,
    before: Timestamp,
    limit: usize,
) -> Result<usize, Fault> {
    let forgotten = connection
        .query(
            "delete from chats where (id, version) in (
                select id, version from chats
                where updated_at < $1
                    and not exists (select 1 from runs where runs.chat_id = chats.id and runs.outcome is null)
                order by updated_at, id
                limit $2
             )",
        )
        .bind(time(before))
        .bind(count(limit))
        .count()
        .await?;
    Ok(usize::try_from(forgotten).unwrap_or(usize::MAX))
}

pub async fn find(connection: &mut Connection<'_>, chat: &ChatId) -> Result<Option<ChatRow>, Fault> {
    let found: Option<Found> = connection
        .query(
            "select version, owner, profile, show,
                coalesce((select max(position) + 1 from messages where messages.chat_id = chats.id), 0) as messages,
                bytes, assistant, model, title, archived, pinned, context,
                stage, requires_confirm, last_tool, last_result,
                exists (select 1 from runs where runs.chat_id = chats.id and runs.outcome is null) as has_open_run,
                exists (select 1 from confirmations where confirmations.chat_id = chats.id) as has_decisions
             from chats where id = $1",
        )
    .bind(chat.as_str())
    .fetch_optional().await?;
    let Some(found) = found else { return Ok(None) };
    let head = ChatHead {
        version: Version(found.version.unsigned_abs()),
        owner: Owner::new(found.owner.0),
        profile: Profile::of_version(&found.profile).map_err(StoreError::Corrupt)?,
        show: read_show(found.show)?,
        status: status(found.stage, found.requires_confirm, found.last_tool, found.last_result)?,
        messages: usize::try_from(found.messages).unwrap_or_default(),
        bytes: usize::try_from(found.bytes).unwrap_or_default(),
        assistant: found.assistant.map(|Text(name)| name),
        model: found.model.map(|Text(name)| name),
        listing: Listing {
            title: found.title.map(|Text(title)| title),
            archived: found.archived,
            pinned: found.pinned,
        },
    };
    let record = ChatRecord {
        head,
        run_owner: None,
        context: found.context.map_or(Ok(Value::Null), |text| read_json("the context of a chat", &text))?,
        confirmations: Vec::new(),
        grant_ends: Vec::new(),
        open_run: None,
    };
    Ok(Some(ChatRow { record, has_open_run: found.has_open_run, has_decisions: found.has_decisions }))
}

/// The chat's version alone.
pub async fn version(connection: &mut Connection<'_>, chat: &ChatId) -> Result<Option<Version>, Fault> {
    let version: Option<(i64,)> = connection
        .query("select version from chats where id = $1")
        .bind(chat.as_str())
        .fetch_optional()
        .await?;
    Ok(version.map(|(version,)| Version(version.unsigned_abs())))
}

/// The size of the chat's messages, in bytes of JSON; `None` if there is no such chat.
pub async fn bytes(connection: &mut Connection<'_>, chat: &ChatId) -> Result<Option<usize>, Fault> {
    let found: Option<(i64,)> = connection
        .query("select bytes from chats where id = $1")
        .bind(chat.as_str())
        .fetch_optional()
        .await?;
    Ok(found.and_then(|(bytes,)| usize::try_from(bytes).ok()))
}

/// The chat's owner, and the instance alive that owns its open run.
pub async fn owner_of(connection: &mut Connection<'_>, chat: &ChatId) -> Result<Option<ChatOwner>, Fault> {
    let found: Option<(Text, i64, Option<String>, Option<Text>)> = connection
        .query(
            "select chats.owner, chats.created_at, runs.id, instances.id
             from chats
             left join runs on runs.chat_id = chats.id and runs.outcome is null
             left join instances on instances.id = runs.instance
             where chats.id = $1",
        )
        .bind(chat.as_str())
        .fetch_optional()
        .await?;
    let Some((Text(owner), created_at, open_run, run_owner)) = found else { return Ok(None) };
    Ok(Some(ChatOwner {
        owner: Owner::new(owner),
        run_owner: run_owner.map(|Text(id)| InstanceId::new(id)),
        created_at: read_time(created_at)?,
        open_run: open_run.map(RunId::new),
    }))
}

/// A page of the chats of an owner that meet a condition on `$6`.
macro_rules! page {
    ($condition:literal) => {
        concat!(
            "select id, created_at, updated_at,
            coalesce(chats.title, (select messages.title from messages
             where chat_id = chats.id and role = 'user' order by position limit 1)) as title,
            archived, pinned,
            exists (select 1 from runs
             where runs.chat_id = chats.id and runs.outcome is null and not runs.detached) as open,
            coalesce((
                select
                    case
                        when exists (select 1 from instances where instances.id = runs.instance)
                            then runs.questions
                        else (
                            select count(*) from calls
                            where calls.chat_id = runs.chat_id and calls.run_id = runs.id
                                and calls.state = 'executing' and calls.run_by <> 'browser'
                                and calls.expires_at is not null
                        )
                    end + (
                        select count(*) from calls
                        where calls.chat_id = runs.chat_id and calls.run_id = runs.id
                            and (
                                calls.state = 'awaiting_approval'
                                or (calls.state = 'executing' and calls.run_by = 'browser')
                            )
                    )
                from runs where runs.chat_id = chats.id and runs.outcome is null
            ), 0) as pending,
            show, stage, requires_confirm, last_tool, last_result
         from chats
         where owner = $1 and (pinned, updated_at, id) < ($2, $3, $4) and ",
            $condition,
            " order by pinned desc, updated_at desc, id desc limit $5"
        )
    };
}

const PAGE: &str = page!("archived = $6");
const PAGE_OF_ALL: &str = page!("($6 or not $6)");

pub async fn page(
    connection: &mut Connection<'_>,
    owner: &Owner,
    archived: Option<bool>,
    limit: usize,
    before: Option<&Cursor>,
) -> Result<ChatPage, Fault> {
    // The first page begins with pinned chats, at the end of time.
    let (pinned, updated_at, id) = match before {
        Some(cursor) => (cursor.pinned, cursor.updated_at, cursor.chat.as_str()),
        None => (true, i64::MAX, ""),
    };
    let mut rows: Vec<Summary> = connection
        .query(if archived.is_some() { PAGE } else { PAGE_OF_ALL })
        .bind(text(owner.as_str()))
        .bind(pinned)
        .bind(updated_at)
        .bind(id)
        .bind(count(limit.saturating_add(1)))
        .bind(archived.unwrap_or_default())
        .fetch_all()
        .await?;
    let is_last = rows.len() <= limit;
    rows.truncate(limit);
    let next = match rows.last() {
        Some(row) if !is_last => {
            let chat = ChatId::new(row.id.as_str());
            Some(Cursor { pinned: row.pinned, updated_at: row.updated_at, chat }.encode())
        }
        Some(_) | None => None,
    };
    Ok(ChatPage { chats: rows.into_iter().map(summary).collect::<Result<_, Fault>>()?, next })
}

/// The beginning of the chat's first user message.
pub async fn first_words(connection: &mut Connection<'_>, chat: &ChatId) -> Result<Option<String>, Fault> {
    let found: Option<(Option<Text>,)> = connection
        .query("select title from messages where chat_id = $1 and role = 'user' order by position limit 1")
        .bind(chat.as_str())
        .fetch_optional()
        .await?;
    Ok(found.and_then(|(title,)| title).map(|Text(title)| title))
}

/// Replaces the entry of a chat in lists.
pub async fn put_listing(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    listing: &Listing,
) -> Result<(), Fault> {
    connection
        .query("update chats set title = $2, archived = $3, pinned = $4 where id = $1")
        .bind(chat.as_str())
        .bind(listing.title.as_deref().map(text))
        .bind(listing.archived)
        .bind(listing.pinned)
        .execute()
        .await
}

fn read_show(saved: Option<String>) -> Result<BTreeSet<Show>, StoreError> {
    saved.map_or(Ok(BTreeSet::new()), |text| read_json("the data chunks of a chat", &text))
}

fn status(
    stage: Option<String>,
    requires_confirm: Option<bool>,
    last_tool: Option<Text>,
    last_result: Option<Text>,
) -> Result<RunStatus, StoreError> {
    Ok(RunStatus {
        gate_closed: false,
        confirm_words: Vec::new(),
        takes_reply: false,
        waits_for: None,
        stage: stage.map_or(Ok(Stage::Idle), |stage| read_name("the stage of a chat", &stage))?,
        requires_confirm: requires_confirm.unwrap_or_default(),
        last_tool: last_tool.map(|Text(tool)| tool),
        last_result: last_result.map(|Text(result)| result),
    })
}

fn summary(row: Summary) -> Result<ChatSummary, Fault> {
    let is_asked_for = read_show(row.show)?.contains(&Show::Run);
    let status = status(row.stage, row.requires_confirm, row.last_tool, row.last_result)?;
    Ok(ChatSummary {
        status: if is_asked_for { Some(status) } else { None },
        id: ChatId::new(row.id),
        listing: Listing {
            title: row.title.map(|Text(title)| title),
            archived: row.archived,
            pinned: row.pinned,
        },
        created_at: read_time(row.created_at)?,
        updated_at: read_time(row.updated_at)?,
        open: row.open,
        pending: usize::try_from(row.pending).unwrap_or_default(),
    })
}

/// The version as a column has it. A number that no column can have is never a chat's version.
fn number(version: Version) -> Result<i64, StoreError> {
    i64::try_from(version.0).map_err(|_| StoreError::Fenced)
}

// === impl ChatColumns ===

impl<'a> ChatColumns<'a> {
    /// The columns that these changes are about; of two changes of the same column the later one counts.
    pub fn of(changes: &'a [Change]) -> Self {
        let mut columns = Self::default();
        for change in changes {
            match change {
                Change::CreateChat { profile, .. } | Change::Posted { profile } => {
                    columns.profile = Some(*profile)
                }
                Change::Choose { assistant, model } => {
                    columns.assistant = assistant.as_deref().or(columns.assistant);
                    columns.model = model.as_deref().or(columns.model);
                }
                Change::PutShow { show } => columns.show = Some(show),
                Change::PutContext { context } => columns.context = Some(context),
                Change::PutStatus { status } => columns.status = Some(status),
                _ => {}
            }
        }
        columns
    }

    fn bind<'c>(self, query: Query<'c>) -> Result<Query<'c>, Fault>
    where
        'a: 'c,
    {
        let status = self.status;
        Ok(query
            .bind(
                self.profile.map(|profile| profile.release().unwrap_or_else(|| profile.major().to_string())),
            )
            .bind(self.assistant.map(text))
            .bind(self.model.map(text))
            .bind(self.show.map(json).transpose()?)
            .bind(self.context.map(json).transpose()?)
            .bind(status.map(|status| status.stage.as_str()))
            .bind(status.map(|status| status.requires_confirm))
            .bind(status.and_then(|status| status.last_tool.as_deref()).map(text))
            .bind(status.and_then(|status| status.last_result.as_deref()).map(text)))
    }
}
