//! The chains of the audit as an auditor reads them: pages of rows, with the checkpoints and the cuts beside them.

use jiff::Timestamp;

use crate::{
    chain::Head,
    column::{count, time},
    connection::{Connection, row},
    error::Fault,
    evidence::{AuditKey, AuditRow, Checkpoint, Cut, HashedRow, PublicKey},
    text::Text,
};

/// A part of a chain as of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditPage {
    /// All cuts of the chain.
    pub cuts: Vec<Cut>,
    /// The rows, by their positions.
    pub rows: Vec<HashedRow>,
    /// The checkpoints of these rows, by their counts. On the last page, also those that count more rows than there are.
    pub checkpoints: Vec<Checkpoint>,
    /// `true` if no further rows follow.
    pub is_last: bool,
}

row! {
    struct StoredRow {
        at: i64,
        owner: Text,
        principal: Option<Text>,
        groups: Option<Text>,
        channel: Option<String>,
        address: Option<String>,
        approval_id: Option<Text>,
        chat_id: String,
        run_id: Option<Text>,
        call_id: Option<Text>,
        tool: Text,
        event: String,
        rule: Option<String>,
        reason: Option<Text>,
        input_hash: Option<String>,
        shown_hash: Option<String>,
        outcome: Option<String>,
        subject: Option<Text>,
        chain: String,
        position: i64,
        prev: Option<String>,
        hash: String,
    }
}

row! {
    struct StoredCheckpoint {
        at: i64,
        chain: String,
        count: i64,
        head: String,
        key: Option<String>,
        signature: Option<String>,
    }
}

row! {
    struct StoredCut {
        before: i64,
        chain: String,
        first: i64,
        last: i64,
        prev: Option<String>,
        hash: String,
        key: Option<String>,
        signature: Option<String>,
    }
}

/// Returns the chain with the next name after this one, or the first chain.
pub async fn next_chain(
    connection: &mut Connection<'_>,
    after: Option<&str>,
) -> Result<Option<String>, Fault> {
    let query = if after.is_some() {
        "select min(chain) from (
            select min(chain) as chain from audit_events where chain > $1
            union all select min(chain) from audit_checkpoints where chain > $1
            union all select min(chain) from audit_cuts where chain > $1) as chains"
    } else {
        "select min(chain) from (
            select min(chain) as chain from audit_events where chain >= $1
            union all select min(chain) from audit_checkpoints where chain >= $1
            union all select min(chain) from audit_cuts where chain >= $1) as chains"
    };
    let (chain,) = connection.query(query).bind(after.unwrap_or_default()).fetch_one().await?;
    Ok(chain)
}

/// Returns the rows of a chain from a position on. The snapshot sees one moment, so that a cut is seen with what it has removed.
pub async fn page(
    snapshot: &mut Connection<'_>,
    chain: &str,
    from: Option<i64>,
    limit: usize,
) -> Result<AuditPage, Fault> {
    let from = from.unwrap_or(i64::MIN);
    let rows: Vec<StoredRow> = snapshot
        .query(
            "select at, owner, principal, groups, channel, address, approval_id, chat_id, run_id, call_id, tool, event, rule,
                reason, input_hash, shown_hash, outcome, subject, chain, position, prev, hash
             from audit_events where chain = $1 and position >= $2 order by position limit $3",
        )
        .bind(chain)
        .bind(from)
        .bind(count(limit))
        .fetch_all()
        .await?;
    let rows: Vec<HashedRow> = rows.into_iter().map(Into::into).collect();
    let is_last = rows.len() < limit;
    let to = match rows.last() {
        Some(last) if !is_last => last.row.position + 1,
        Some(_) | None => i64::MAX,
    };
    let checkpoints: Vec<StoredCheckpoint> = snapshot
        .query(
            "select at, chain, count, head, key, signature from audit_checkpoints
             where chain = $1 and count > $2 and count <= $3 order by count, id",
        )
        .bind(chain)
        .bind(from)
        .bind(to)
        .fetch_all()
        .await?;
    Ok(AuditPage {
        cuts: cuts(snapshot, chain).await?,
        rows,
        checkpoints: checkpoints.into_iter().map(Into::into).collect(),
        is_last,
    })
}

/// Returns the position of the first row of a chain at or after a time, and of the last one before another time. The last one is moved to
/// the end of the next signed checkpoint, because no earlier checkpoint covers the rows before that time.
pub async fn positions(
    connection: &mut Connection<'_>,
    chain: &str,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
) -> Result<Option<(i64, i64)>, Fault> {
    connection
        .query(
            "select first, coalesce(
                (select min(count) - 1 from audit_checkpoints
                 where chain = $1 and count > last and signature is not null), last) as last
             from (select (select min(position) from audit_events where chain = $1 and at >= $2) as first,
                (select max(position) from audit_events where chain = $1 and at < $3) as last) as bounds
             where first <= last",
        )
        .bind(chain)
        .bind(since.map_or(i64::MIN, time))
        .bind(until.map_or(i64::MAX, time))
        .fetch_optional()
        .await
}

/// Notes that these rows of a chain were removed, in one cut with what was removed beside them.
pub async fn add_cuts(
    transaction: &mut Connection<'_>,
    chain: &str,
    removed: Vec<Cut>,
    key: Option<&AuditKey>,
) -> Result<(), Fault> {
    let known = cuts(transaction, chain).await?;
    let joined = Cut::joined(known.iter().cloned().chain(removed).collect());
    for cut in joined.into_iter().filter(|cut| !known.contains(cut)) {
        put_cut(transaction, cut.signed(key)).await?;
    }
    Ok(())
}

/// Signs the cuts of all chains that are not signed.
pub async fn sign_cuts(transaction: &mut Connection<'_>, key: &AuditKey) -> Result<(), Fault> {
    let cuts: Vec<StoredCut> = transaction
        .query(
            "select before, chain, first, last, prev, hash, key, signature from audit_cuts
             where signature is null order by id",
        )
        .fetch_all()
        .await?;
    for cut in cuts {
        put_cut(transaction, Cut::from(cut).signed(Some(key))).await?;
    }
    Ok(())
}

/// Writes a cut, and then deletes those that it covers and the same cut without a signature.
async fn put_cut(transaction: &mut Connection<'_>, cut: Cut) -> Result<(), Fault> {
    transaction
        .query(
            "insert into audit_cuts (before, chain, first, last, prev, hash, key, signature)
             values ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(cut.before)
        .bind(cut.chain.clone())
        .bind(cut.first)
        .bind(cut.last)
        .bind(cut.prev)
        .bind(cut.hash)
        .bind(cut.key.map(|key| key.to_string()))
        .bind(cut.signature.clone())
        .execute()
        .await?;
    transaction
        .query(
            "delete from audit_cuts
             where chain = $1 and first >= $2 and last <= $3
                and (first <> $2 or last <> $3 or (signature is null and $4))",
        )
        .bind(cut.chain)
        .bind(cut.first)
        .bind(cut.last)
        .bind(cut.signature.is_some())
        .execute()
        .await
}

/// Returns whether a checkpoint of any chain is signed.
pub async fn is_signed(connection: &mut Connection<'_>) -> Result<bool, Fault> {
    let signed: Option<(i64,)> = connection
        .query("select count from audit_checkpoints where signature is not null limit 1")
        .fetch_optional()
        .await?;
    Ok(signed.is_some())
}

async fn cuts(connection: &mut Connection<'_>, chain: &str) -> Result<Vec<Cut>, Fault> {
    let cuts: Vec<StoredCut> = connection
        .query(
            "select before, chain, first, last, prev, hash, key, signature from audit_cuts
             where chain = $1 order by first, id",
        )
        .bind(chain)
        .fetch_all()
        .await?;
    Ok(cuts.into_iter().map(Into::into).collect())
}

/// Writes a checkpoint if the chain has more rows than the last one has counted, and returns it. With a key, only signed ones count.
pub async fn checkpoint(
    transaction: &mut Connection<'_>,
    chain: &str,
    head: Head,
    at: Timestamp,
    key: Option<&AuditKey>,
) -> Result<Option<Checkpoint>, Fault> {
    let Head { count, hash: Some(head) } = head else { return Ok(None) };
    let (counted,): (Option<i64>,) = transaction
        .query("select max(count) from audit_checkpoints where chain = $1 and (signature is not null or $2)")
        .bind(chain)
        .bind(key.is_none())
        .fetch_one()
        .await?;
    if counted.is_some_and(|counted| counted >= count) {
        return Ok(None);
    }
    let checkpoint =
        Checkpoint { at: time(at), chain: chain.to_owned(), count, head, key: None, signature: None }
            .signed(key);
    let Checkpoint { at, head, key, signature, .. } = checkpoint.clone();
    transaction
        .query(
            "insert into audit_checkpoints (at, chain, count, head, key, signature)
             values ($1, $2, $3, $4, $5, $6)",
        )
        .bind(at)
        .bind(chain)
        .bind(count)
        .bind(head)
        .bind(key.map(|key| key.to_string()))
        .bind(signature)
        .execute()
        .await?;
    Ok(Some(checkpoint))
}

/// Returns the head of a chain, and the time of its last row, if it has one.
pub async fn last(connection: &mut Connection<'_>, chain: &str) -> Result<Option<(Head, i64)>, Fault> {
    let last: Option<(i64, String, i64)> = connection
        .query("select position, hash, at from audit_events where chain = $1 order by position desc limit 1")
        .bind(chain)
        .fetch_optional()
        .await?;
    Ok(last.map(|(position, hash, at)| (Head { count: position + 1, hash: Some(hash) }, at)))
}

impl From<StoredRow> for HashedRow {
    fn from(stored: StoredRow) -> Self {
        let words = |text: Option<Text>| text.map(|Text(words)| words);
        let StoredRow { at, channel, address, chat_id, event, rule, input_hash, shown_hash, outcome, .. } =
            stored;
        let row = AuditRow {
            address,
            approval_id: words(stored.approval_id),
            at,
            call_id: words(stored.call_id),
            chain: stored.chain,
            channel,
            chat_id,
            event,
            groups: words(stored.groups),
            input_hash,
            outcome,
            owner: stored.owner.0,
            position: stored.position,
            prev: stored.prev,
            principal: words(stored.principal),
            reason: words(stored.reason),
            rule,
            run_id: words(stored.run_id),
            shown_hash,
            subject: words(stored.subject),
            tool: stored.tool.0,
        };
        Self { row, hash: stored.hash }
    }
}

impl From<StoredCheckpoint> for Checkpoint {
    fn from(stored: StoredCheckpoint) -> Self {
        let StoredCheckpoint { at, chain, count, head, key, signature } = stored;
        Self { at, chain, count, head, key: key.map(PublicKey::stored), signature }
    }
}

impl From<StoredCut> for Cut {
    fn from(stored: StoredCut) -> Self {
        let StoredCut { before, chain, first, last, prev, hash, key, signature } = stored;
        Self { before, chain, first, last, prev, hash, key: key.map(PublicKey::stored), signature }
    }
}
