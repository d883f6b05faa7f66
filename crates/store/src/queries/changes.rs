//! The changes that a commit makes to a chat, and the record that is read of it. The caller provides the transactions.
//!
//! Invariant: before anything else a commit changes the version or makes the chat, so an instance that knows an older version changes
//! nothing, and a commit that is repeated changes nothing twice.

use fermata_engine::store::{AuditEntry, Change, ChatRecord, StoreError, Version};
use fermata_protocol::{ChatId, RunId};
use jiff::Timestamp;

use super::{
    approvals, audit, calls,
    chats::{self, ChatColumns},
    confirmations, deleted_chats, memories, messages, outbox, owners, plans,
    runs::{self, RunState},
    summaries,
};
use crate::{
    connection::Connection,
    error::{Fault, conflict},
};

/// Makes all of the changes. If it fails, or if the transaction does, that has to be rolled back.
///
/// # Errors
/// Fails with [`StoreError::Fenced`] if the chat has another version than `from`: also if an earlier attempt at the same commit has made it.
pub async fn make(
    transaction: &mut Connection<'_>,
    chat: &ChatId,
    from: Version,
    to: Version,
    at: Timestamp,
    changes: &[Change],
) -> Result<(), Fault> {
    let columns = ChatColumns::of(changes);
    let changes = match (from, changes) {
        (Version::NONE, [Change::CreateChat { owner, .. }, others @ ..]) => {
            chats::create(transaction, chat, to, owner, columns, at).await?;
            others
        }
        (Version::NONE, _) => {
            return match chats::version(transaction, chat).await? {
                Some(_) => Err(StoreError::Fenced.into()),
                None => Err(conflict("there is no such chat")),
            };
        }
        (from, changes) => {
            let news = changes.iter().any(Change::is_news).then_some(at);
            chats::advance(transaction, chat, from, to, news, columns).await?;
            changes
        }
    };
    for change in changes {
        if let Err(fault) = apply(transaction, chat, at, change, changes).await {
            // What was sent before comes first, the version above all.
            transaction.take_answers().await?;
            return Err(fault);
        }
    }
    Ok(())
}

/// The chat, if it has no open run and nobody has decided about its calls; the outer `None` if more has to be read, as of one moment.
pub async fn simple_record(
    connection: &mut Connection<'_>,
    chat: &ChatId,
) -> Result<Option<Option<ChatRecord>>, Fault> {
    Ok(match chats::find(connection, chat).await? {
        None => Some(None),
        Some(found) if found.has_open_run || found.has_decisions => None,
        Some(found) => Some(Some(found.record)),
    })
}

/// The chat with its open run, as of one moment if the connection is in a transaction that sees one.
pub async fn record(snapshot: &mut Connection<'_>, chat: &ChatId) -> Result<Option<ChatRecord>, Fault> {
    let Some(found) = chats::find(snapshot, chat).await? else {
        return Ok(None);
    };
    let (open_run, run_owner) = runs::find_open(snapshot, chat).await?.unzip();
    Ok(Some(ChatRecord {
        run_owner: run_owner.flatten(),
        confirmations: confirmations::all(snapshot, chat).await?,
        grant_ends: confirmations::grant_ends(snapshot, chat).await?,
        open_run,
        ..found.record
    }))
}

/// Forgets the chat, and notes it in the audit. If the database does not know it, there is nothing to forget.
pub async fn delete(
    transaction: &mut Connection<'_>,
    chat: &ChatId,
    version: Version,
    at: Timestamp,
    audit: &[AuditEntry],
) -> Result<(), Fault> {
    let owner = chats::owner_of(transaction, chat).await?;
    if chats::delete(transaction, chat, version).await? {
        if let Some(owner) = owner {
            deleted_chats::add(transaction, &owner.owner, chat, at).await?;
        }
        for entry in audit {
            audit::add(transaction, entry, at).await?;
        }
        return Ok(());
    }
    match chats::version(transaction, chat).await? {
        None => Ok(()),
        Some(_) => Err(StoreError::Fenced.into()),
    }
}

/// Makes one of the changes of a commit.
async fn apply(
    transaction: &mut Connection<'_>,
    chat: &ChatId,
    at: Timestamp,
    change: &Change,
    changes: &[Change],
) -> Result<(), Fault> {
    match change {
        Change::CreateChat { .. } => Err(conflict("the chat is there already")),
        // These are columns of the chat's own row.
        Change::Posted { .. }
        | Change::Touched
        | Change::Choose { .. }
        | Change::PutContext { .. }
        | Change::PutShow { .. }
        | Change::PutStatus { .. } => Ok(()),
        Change::PutListing(listing) => chats::put_listing(transaction, chat, listing).await,
        Change::PutPlan { run, plan } => plans::put(transaction, chat, run, plan, at).await,
        Change::DropPlan => plans::drop_open(transaction, chat, at).await,
        Change::PutSummary(summary) => summaries::put(transaction, chat, summary).await,
        Change::ScheduleSummary { due } => summaries::schedule(transaction, chat, *due).await,
        Change::TruncateMessages { keep } => {
            messages::truncate(transaction, chat, *keep).await?;
            summaries::truncate(transaction, chat, *keep).await
        }
        Change::PutMessage(message) | Change::ReplaceMessage(message) => {
            messages::put(transaction, chat, message).await
        }
        Change::DeleteMessage { position } => {
            messages::delete(transaction, chat, *position).await?;
            summaries::truncate(transaction, chat, *position).await
        }
        Change::OpenRun { run, message, owner } => {
            let state = RunState::of(changes, run).unwrap_or_else(|| RunState::unsaved(owner));
            runs::open(transaction, chat, run, message, state, at).await
        }
        Change::SetRunOwner { run, owner, attempts } => {
            runs::set_owner(transaction, chat, run, owner.as_ref(), *attempts).await
        }
        Change::PutSettings { run, settings } => runs::put_settings(transaction, chat, run, settings).await,
        Change::SaveRun { run, .. } => match RunState::of(changes, run) {
            // A run that is new has its state already.
            Some(state) if !opens(changes, run) => runs::save(transaction, chat, run, state).await,
            Some(_) | None => Ok(()),
        },
        Change::AppendChunks { run, first, chunks } => {
            runs::append(transaction, chat, run, *first, chunks).await
        }
        Change::MoveCalls { from, to } => calls::take_over(transaction, chat, from, to).await,
        Change::PutCall { run, call } => {
            calls::put(transaction, chat, run, call).await?;
            approvals::put(transaction, chat, call, at).await
        }
        Change::NoteRetry { call, retried_as } => {
            calls::note_retry(transaction, chat, call, retried_as).await
        }
        Change::Confirm { run, call, decision, terms } => {
            confirmations::add(transaction, chat, run, call, decision, terms.as_deref().cloned()).await
        }
        Change::EndGrant { tool, scope, by } => {
            confirmations::end_grant(transaction, chat, tool, scope.as_deref(), by, at).await
        }
        Change::GrantToOwner { owner, grant } => {
            confirmations::grant_to_owner(transaction, owner, grant).await
        }
        Change::EndGrantToOwner { owner, tool, scope } => {
            confirmations::end_grant_to_owner(transaction, owner, tool, scope.as_deref()).await
        }
        Change::Audit(entry) => audit::add(transaction, entry, at).await,
        Change::Notify(notice) => outbox::add(transaction, notice, at).await,
        Change::ChangeMemories { owner, changes, most, author } => {
            memories::change(transaction, owner, at, changes.clone(), *most, author).await.map(|_| ())
        }
        Change::Answered { owner, route } => owners::note_answer_route(transaction, owner, *route, at).await,
        Change::CloseRun { run, outcome } => runs::close(transaction, chat, run, outcome, at).await,
    }
}

/// Returns whether the run begins with this commit.
fn opens(changes: &[Change], run: &RunId) -> bool {
    changes.iter().any(|change| matches!(change, Change::OpenRun { run: opened, .. } if opened == run))
}
