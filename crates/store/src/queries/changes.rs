//! The changes that a commit makes to a chat, and the record that is read of it. The caller provides the transactions.
//!
//! Invariant: before anything else a commit changes the version or makes the chat, so an instance that knows an older version changes
//! nothing, and a commit that is repeated changes nothing twice.

use fermata_engine::store::{Change, ChatRecord, StoreError, Version};
use fermata_protocol::ChatId;
use jiff::Timestamp;

use super::{audit, calls, chats, confirmations, memories, messages, owners, plans, runs, summaries};
use crate::{
    connection::Connection,
    error::{Fault, conflict},
};

/// Makes all of the changes, unless an earlier attempt at the same commit has made them. If it fails, the transaction has to be rolled back.
pub async fn make(
    transaction: &mut Connection<'_>,
    chat: &ChatId,
    from: Version,
    to: Version,
    at: Timestamp,
    changes: &[Change],
) -> Result<(), Fault> {
    let (is_advanced, changes) = match (from, changes) {
        (Version::NONE, [Change::CreateChat { owner, profile }, others @ ..]) => {
            (chats::create(transaction, chat, to, owner, *profile, at).await?, others)
        }
        (Version::NONE, _) => {
            return match chats::version(transaction, chat).await? {
                Some(version) if version == to => Ok(()),
                Some(_) => Err(StoreError::Fenced.into()),
                None => Err(conflict("there is no such chat")),
            };
        }
        (from, changes) => {
            let news = changes.iter().any(Change::is_news).then_some(at);
            (chats::advance(transaction, chat, from, to, news).await?, changes)
        }
    };
    if !is_advanced {
        let is_made = chats::version(transaction, chat).await? == Some(to);
        return if is_made { Ok(()) } else { Err(StoreError::Fenced.into()) };
    }
    for change in changes {
        apply(transaction, chat, at, change).await?;
    }
    Ok(())
}

/// The chat with its open run, as of one moment if the connection is in a transaction that sees one.
pub async fn record(snapshot: &mut Connection<'_>, chat: &ChatId) -> Result<Option<ChatRecord>, Fault> {
    let Some(found) = chats::find(snapshot, chat).await? else {
        return Ok(None);
    };
    let (open_run, run_owner) = runs::find_open(snapshot, chat).await?.unzip();
    Ok(Some(ChatRecord {
        version: found.version,
        run_owner: run_owner.flatten(),
        owner: found.owner,
        profile: found.profile,
        assistant: found.assistant,
        model: found.model,
        context: found.context,
        show: found.show,
        status: found.status,
        messages: found.messages,
        bytes: found.bytes,
        confirmations: confirmations::all(snapshot, chat).await?,
        grant_ends: confirmations::grant_ends(snapshot, chat).await?,
        open_run,
    }))
}

/// Forgets the chat. If the database does not know it, there is nothing to forget.
pub async fn delete(transaction: &mut Connection<'_>, chat: &ChatId, version: Version) -> Result<(), Fault> {
    if chats::delete(transaction, chat, version).await? {
        return Ok(());
    }
    match chats::version(transaction, chat).await? {
        None => Ok(()),
        Some(_) => Err(StoreError::Fenced.into()),
    }
}

async fn apply(
    transaction: &mut Connection<'_>,
    chat: &ChatId,
    at: Timestamp,
    change: &Change,
) -> Result<(), Fault> {
    match change {
        Change::CreateChat { .. } => Err(conflict("the chat is there already")),
        Change::Posted { profile } => chats::posted(transaction, chat, *profile).await,
        Change::Choose { assistant, model } => {
            chats::choose(transaction, chat, assistant.as_deref(), model.as_deref()).await
        }
        Change::PutContext { context } => chats::put_context(transaction, chat, context).await,
        Change::PutShow { show } => chats::put_show(transaction, chat, show).await,
        Change::PutStatus { status } => chats::put_status(transaction, chat, status).await,
        Change::PutPlan { run, plan } => plans::put(transaction, chat, run, plan, at).await,
        Change::PutSummary(summary) => summaries::put(transaction, chat, summary).await,
        Change::ScheduleSummary { due } => summaries::schedule(transaction, chat, *due).await,
        Change::TruncateMessages { keep } => {
            messages::truncate(transaction, chat, *keep).await?;
            summaries::truncate(transaction, chat, *keep).await
        }
        Change::PutMessage(message) => messages::put(transaction, chat, message).await,
        Change::OpenRun { run, message, owner } => {
            runs::open(transaction, chat, run, message, owner, at).await
        }
        Change::SetRunOwner { run, owner, attempts } => {
            runs::set_owner(transaction, chat, run, owner.as_ref(), *attempts).await
        }
        Change::PutSettings { run, settings } => runs::put_settings(transaction, chat, run, settings).await,
        Change::SaveRun { run, state, expires, waiting, detached, questions, owner, attempts } => {
            let run_state = runs::RunState {
                state,
                expires: *expires,
                waiting: *waiting,
                detached: *detached,
                questions: *questions,
                owner: owner.as_ref(),
                attempts: *attempts,
            };
            runs::save(transaction, chat, run, run_state).await
        }
        Change::AppendChunks { run, first, chunks } => {
            runs::append(transaction, chat, run, *first, chunks).await
        }
        Change::MoveCalls { from, to } => calls::take_over(transaction, chat, from, to).await,
        Change::PutCall { run, call } => calls::put(transaction, chat, run, call).await,
        Change::Confirm { run, call, by, fingerprint } => {
            confirmations::add(transaction, chat, run, call, by, fingerprint.clone(), at).await
        }
        Change::EndGrant { tool, by } => confirmations::end_grant(transaction, chat, tool, by, at).await,
        Change::Audit { owner, run, event } => {
            audit::add(transaction, chat, owner, run.as_ref(), event, at).await
        }
        Change::ChangeMemories { owner, changes, most } => {
            memories::change(transaction, owner, at, changes.clone(), *most).await.map(|_| ())
        }
        Change::AnsweredByPost { owner } => owners::note_answer_by_post(transaction, owner, at).await,
        Change::CloseRun { run, outcome } => runs::close(transaction, chat, run, outcome, at).await,
    }
}
