//! The audit as evidence: checkpoints of its chains, and their verification.

use fermata_engine::store::StoreError;
use jiff::Timestamp;

use super::Database;
use crate::{
    backend::Backend,
    connection::Connection,
    evidence::{Bounds, Checkpoint, Verifier},
    postgres::Effect,
    queries::{
        audit,
        evidence::{self, AuditPage},
    },
};

/// The number of rows that are read at once.
const ROWS: usize = 500;

/// The chains that get a checkpoint, if they have grown since their last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpointed {
    /// The chains of this process, whose heads it knows.
    Own,
    /// Also the chains of others whose last rows were written before this time, as the database has them. Their processes may have been
    /// killed.
    OthersBefore(Timestamp),
}

// === impl Database ===

impl Database {
    /// Writes a checkpoint for each of these chains that has grown, and returns them.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn checkpoint(
        &self,
        at: Timestamp,
        chains: Checkpointed,
    ) -> Result<Vec<Checkpoint>, StoreError> {
        let heads = match &self.sql.backend {
            Backend::Sqlite(_) => Vec::new(),
            Backend::Postgres(database) => database.pool.chains.heads(),
        };
        let about = (heads, self.sql.audit_key.clone());
        self.sql
            .backend
            .transact(Effect::Repeatable, about, move |mut transaction, about| async move {
                let (heads, key) = (&about.0, about.1.as_ref());
                let mut db = transaction.get();
                let mut heads = heads.clone();
                if let Connection::Sqlite(_) = db {
                    heads.push((db.chain()?.name.clone(), audit::head(&mut db).await?));
                }
                // What was cut before there was a key is signed once. Later, a cut without a signature is not the server's.
                if let Some(key) = key
                    && !evidence::is_signed(&mut db).await?
                {
                    evidence::sign_cuts(&mut db, key).await?;
                }
                let mut written = Vec::new();
                for (chain, head) in heads {
                    written.extend(evidence::checkpoint(&mut db, &chain, head, at, key).await?);
                }
                if let Checkpointed::OthersBefore(before) = chains {
                    let mut after: Option<String> = None;
                    while let Some(chain) = evidence::next_chain(&mut db, after.as_deref()).await? {
                        let last = evidence::last(&mut db, &chain).await?;
                        if let Some((head, last_at)) = last
                            && last_at < before.as_microsecond()
                        {
                            written.extend(evidence::checkpoint(&mut db, &chain, head, at, key).await?);
                        }
                        after = Some(chain);
                    }
                }
                Ok((transaction, written))
            })
            .await
    }

    /// Returns the chain of the audit with the next name after this one, or the first chain.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn next_chain(&self, after: Option<&str>) -> Result<Option<String>, StoreError> {
        self.sql
            .backend
            .look_up(|mut db| async move { evidence::next_chain(&mut db.get(), after).await })
            .await
    }

    /// Returns a page of a chain from a position on, as of one moment.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn audit_page(&self, chain: &str, from: Option<i64>) -> Result<AuditPage, StoreError> {
        self.sql
            .backend
            .snapshot(|mut snapshot| async move {
                let page = evidence::page(&mut snapshot.get(), chain, from, ROWS).await?;
                Ok((snapshot, page))
            })
            .await
    }

    /// Returns the positions of the first row of a chain at or after a time, and of the last one before another time; `None` if there is
    /// no row between them. The last one is moved to the end of the next signed checkpoint.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn audit_positions(
        &self,
        chain: &str,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> Result<Option<(i64, i64)>, StoreError> {
        self.sql
            .backend
            .look_up(|mut db| async move { evidence::positions(&mut db.get(), chain, since, until).await })
            .await
    }

    /// Has all chains verified, while others may write to them.
    ///
    /// # Errors
    /// If the database fails, or if something in it cannot be read.
    pub async fn verify_audit(&self, verifier: &mut Verifier) -> Result<(), StoreError> {
        let mut after: Option<String> = None;
        while let Some(chain) = self.next_chain(after.as_deref()).await? {
            verifier.begin(&chain, Bounds::default());
            let mut from = None;
            loop {
                let page = self.audit_page(&chain, from).await?;
                let (is_last, last) = (page.is_last, page.rows.last().map(|row| row.row.position + 1));
                page.verify(verifier);
                if is_last {
                    break;
                }
                from = last;
            }
            after = Some(chain);
        }
        Ok(())
    }
}

// === impl AuditPage ===

impl AuditPage {
    /// Has the page verified: each checkpoint behind the row that it covers last.
    fn verify(self, verifier: &mut Verifier) {
        for cut in self.cuts {
            verifier.cut(cut);
        }
        let mut checkpoints = self.checkpoints.into_iter().peekable();
        for row in &self.rows {
            // A checkpoint of rows that were removed stands before the next row.
            while let Some(checkpoint) =
                checkpoints.next_if(|checkpoint| checkpoint.count <= row.row.position)
            {
                verifier.checkpoint(&checkpoint);
            }
            verifier.row(row);
        }
        for checkpoint in checkpoints {
            verifier.checkpoint(&checkpoint);
        }
    }
}
