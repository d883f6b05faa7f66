//! A connection to PostgreSQL that sends the queries of a transaction one after another, without a wait for their answers.
//!
//! A transaction takes one round trip to the server for each query that reads, and one for its end, however many queries change something:
//! they are on their way together with the query or the commit after them. So the server has to stop a transaction when a
//! query fails. It does so by itself for an error; the SQL around a query turns a change of no row into an error.
//!
//! Invariants: answers are taken in the order of the queries, and the first error is the one that counts, because the server refuses all
//! later queries of the transaction for it. A connection goes back to the pool only if nothing more is expected from it.

use std::{borrow::Cow, collections::VecDeque, ops::Deref, sync::Arc};

use deadpool_postgres::{ClientWrapper, Object};
use futures::{
    FutureExt, TryStreamExt,
    future::{self, BoxFuture},
};
use tokio_postgres::{
    Error, Row, Statement,
    error::SqlState,
    types::{ToSql, Type},
};

use super::{rows::FromRow, value::Value};
use crate::{
    chain::{Chain, Chains, Lease},
    error::{Fault, failed_in_postgres, unreadable_in_postgres},
};

/// A connection with the queries whose answers were not taken yet.
pub struct Pipeline {
    /// Queries on their way share it; none holds it any more when this is dropped.
    client: Option<Arc<Client>>,
    sent: VecDeque<Sent>,
    state: State,
    /// The chains of the audit; `None` for a connection of our own.
    chains: Option<Chains>,
    /// The chain that the transaction extends, once it has a row of the audit.
    lease: Option<Lease>,
}

/// Says what is still expected from the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing is expected from the server.
    Idle,
    /// The answer to a query outside of a transaction is expected.
    Asking,
    InTransaction,
}

/// A connection of the pool, or one of our own.
pub enum Client {
    Pooled(Object),
    Own(ClientWrapper),
}

/// A query that was sent.
struct Sent {
    answer: Answer<u64>,
    /// The fault of the transaction if the query has changed no row.
    otherwise: Option<Fault>,
}

type Answer<T> = BoxFuture<'static, Result<T, Error>>;

/// A query whose values are being bound.
pub struct PipelinedQuery<'c> {
    pipeline: &'c mut Pipeline,
    sql: Cow<'static, str>,
    values: Values,
    types: Vec<Type>,
}

type Values = Vec<Box<dyn ToSql + Send + Sync>>;

// === impl Pipeline ===

impl Pipeline {
    pub fn new(client: Client) -> Self {
        Self {
            client: Some(Arc::new(client)),
            sent: VecDeque::new(),
            state: State::Idle,
            chains: None,
            lease: None,
        }
    }

    /// Lets transactions write rows of the audit.
    pub fn with_chains(mut self, chains: Chains) -> Self {
        self.chains = Some(chains);
        self
    }

    /// Returns the chain of the audit that this transaction extends, and no other one before its end.
    pub fn chain(&mut self) -> Option<&mut Chain> {
        if self.state != State::InTransaction {
            return None;
        }
        let chains = self.chains.as_ref()?;
        Some(&mut self.lease.get_or_insert_with(|| chains.lease()).chain)
    }

    pub fn query(&mut self, sql: impl Into<Cow<'static, str>>) -> PipelinedQuery<'_> {
        PipelinedQuery { pipeline: self, sql: sql.into(), values: Vec::new(), types: Vec::new() }
    }

    /// Begins a transaction with this statement.
    pub fn begin(&mut self, statement: &'static str) {
        let answer = self.send_statement(statement);
        self.state = State::InTransaction;
        self.sent.push_back(Sent { answer, otherwise: None });
    }

    /// Commits the transaction. It is over afterwards in any case.
    ///
    /// # Errors
    /// Returns [`Fault::Lost`] if the server may have committed, and has not said so.
    pub async fn commit(&mut self) -> Result<(), Fault> {
        if let Some(lease) = &mut self.lease {
            lease.doubt();
        }
        let committed = self.send_commit().await;
        if let Some(lease) = self.lease.take() {
            match &committed {
                Ok(()) => lease.committed(),
                Err(Fault::Lost(_)) => drop(lease),
                Err(_) => lease.undone(),
            }
        }
        committed
    }

    async fn send_commit(&mut self) -> Result<(), Fault> {
        let committed = self.send_statement("COMMIT");
        let done = self.take_answers().await;
        let committed = committed.await;
        self.state = State::Idle;
        done?;
        committed.map(drop).map_err(|error| match failed_in_postgres(&error) {
            // A server that is stopped while it waits for its standbys has committed.
            Fault::Collided(text) if error.code().is_some_and(|code| code.code().starts_with("57")) => {
                Fault::Lost(text)
            }
            fault => fault,
        })
    }

    /// Takes the answers to all queries that were sent, and returns the first fault.
    pub async fn take_answers(&mut self) -> Result<(), Fault> {
        let mut faults = Vec::new();
        while let Some(Sent { answer, .. }) = self.sent.front_mut() {
            let answer = answer.await;
            let otherwise = self.sent.pop_front().and_then(|sent| sent.otherwise);
            let Err(error) = answer else { continue };
            faults.push(match otherwise {
                Some(fault) if error.code() == Some(&SqlState::DIVISION_BY_ZERO) => fault,
                _ => failed_in_postgres(&error),
            });
        }
        faults.into_iter().next().map_or(Ok(()), Err)
    }

    /// Returns the prepared statement. Asks the server for it if this connection does not have it yet.
    async fn prepare(&mut self, sql: &str, types: &[Type]) -> Result<Statement, Fault> {
        let prepared = self.client().prepare_typed_cached(sql, types).await;
        match prepared {
            Ok(statement) => Ok(statement),
            Err(error) => {
                self.take_answers().await?;
                Err(failed_in_postgres(&error))
            }
        }
    }

    fn send_statement(&self, statement: &'static str) -> Answer<u64> {
        let client = self.client();
        send(async move { client.batch_execute(statement).await.map(|()| 0) })
    }

    fn client(&self) -> Arc<Client> {
        self.client.clone().expect("it is taken only when this is dropped")
    }
}

/// Sends a query: its future does so when it is polled first.
fn send<T: Send + 'static>(query: impl Future<Output = Result<T, Error>> + Send + 'static) -> Answer<T> {
    let mut query = query.boxed();
    match (&mut query).now_or_never() {
        Some(answer) => future::ready(answer).boxed(),
        None => query,
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.sent.clear();
        if self.state != State::Idle
            && let Some(Client::Pooled(client)) = self.client.take().and_then(Arc::into_inner)
        {
            // The next user of the connection would have to wait for the queries sent here.
            drop(Object::take(client));
        }
    }
}

// === impl Client ===

impl Deref for Client {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        match self {
            Self::Pooled(client) => client,
            Self::Own(client) => client,
        }
    }
}

// === impl PipelinedQuery ===

impl PipelinedQuery<'_> {
    /// Binds the value of the next parameter.
    pub fn bind<V: Value>(mut self, value: V) -> Self {
        self.types.push(V::TYPE);
        self.values.push(Box::new(value.into_owned()));
        self
    }

    /// Executes the query. In a transaction nobody waits for it, and its error comes from a later query or from the commit.
    pub async fn execute(self) -> Result<(), Fault> {
        if self.pipeline.state == State::InTransaction {
            self.send(None).await
        } else {
            self.count().await.map(drop)
        }
    }

    /// As [`PipelinedQuery::execute`]. If the query changes no row, the transaction fails with this.
    pub async fn execute_or(mut self, otherwise: Fault) -> Result<(), Fault> {
        if self.pipeline.state == State::InTransaction {
            let sql = format!("with changed as ({} returning 1) select 1 / count(*) from changed", self.sql);
            self.sql = sql.into();
            self.send(Some(otherwise)).await
        } else if self.count().await? == 0 {
            Err(otherwise)
        } else {
            Ok(())
        }
    }

    /// Executes the query, and returns the number of rows that it has changed.
    pub async fn count(self) -> Result<u64, Fault> {
        self.ask(|client, statement, values| async move { client.execute_raw(&statement, values).await })
            .await
    }

    /// All rows.
    pub async fn fetch<T: FromRow>(self) -> Result<Vec<T>, Fault> {
        let rows: Vec<Row> = self
            .ask(|client, statement, values| async move {
                client.query_raw(&statement, values).await?.try_collect().await
            })
            .await?;
        rows.iter()
            .map(|row| T::from_postgres_row(row).map_err(|error| unreadable_in_postgres(&error)))
            .collect()
    }

    async fn send(self, otherwise: Option<Fault>) -> Result<(), Fault> {
        let Self { pipeline, sql, values, types } = self;
        let (statement, client) = (pipeline.prepare(&sql, &types).await?, pipeline.client());
        let answer = send(async move { client.execute_raw(&statement, values).await });
        pipeline.sent.push_back(Sent { answer, otherwise });
        Ok(())
    }

    /// Sends the query and waits for the answer.
    async fn ask<T, A>(self, query: impl FnOnce(Arc<Client>, Statement, Values) -> A) -> Result<T, Fault>
    where
        T: Send + 'static,
        A: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let Self { pipeline, sql, values, types } = self;
        let before = pipeline.state;
        if before == State::Idle {
            pipeline.state = State::Asking;
        }
        let answer = match pipeline.prepare(&sql, &types).await {
            Ok(statement) => {
                let answer = send(query(pipeline.client(), statement, values));
                let earlier = pipeline.take_answers().await;
                let answer = answer.await;
                earlier.and(answer.map_err(|error| failed_in_postgres(&error)))
            }
            Err(fault) => Err(fault),
        };
        pipeline.state = before;
        answer
    }
}
