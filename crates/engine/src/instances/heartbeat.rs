//! The thread on which an instance says that it is alive.
//!
//! Drivers, tools and requests share the program's runtime. Whatever keeps all of its threads busy must not make the instance look dead, or
//! the others would take up the runs that keep it busy, and be kept busy in turn. So what has to be done in time has a runtime of its own.
//! Invariant: what the store has opened to say so is used on this runtime only, because a connection does not work while the runtime that
//! has opened it is busy.

use std::{io, thread};

use tokio::runtime::{Builder, Handle};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::store::StoreError;

/// Where beats happen.
pub(crate) enum Heartbeat {
    /// On a thread of their own, which ends when this is dropped.
    Thread { runtime: Handle, _running: DropGuard },
    /// Beside everything else.
    Shared,
}

// === impl Heartbeat ===

impl Heartbeat {
    /// Starts the thread.
    pub fn thread() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (handle, running) = (runtime.handle().clone(), CancellationToken::new());
        let ended = running.clone();
        thread::Builder::new()
            .name("fermata-heartbeat".into())
            .spawn(move || runtime.block_on(ended.cancelled()))?;
        Ok(Self::Thread { runtime: handle, _running: running.drop_guard() })
    }

    /// Has this go on until it ends, counted by `tasks`.
    pub fn keep_up(&self, tasks: &TaskTracker, work: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Thread { runtime, .. } => tasks.spawn_on(work, runtime),
            Self::Shared => tasks.spawn(work),
        };
    }

    /// Does something where beats happen, and waits for it.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        match self {
            Self::Thread { runtime, .. } => runtime.spawn(work).await.unwrap_or_else(|error| {
                Err(StoreError::Unavailable(format!(
                    "the thread that says that this instance is alive: {error}"
                )))
            }),
            Self::Shared => work.await,
        }
    }
}
