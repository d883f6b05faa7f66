//! The runtime for an instance's heartbeats.
//!
//! Chat actors, tools and requests share the program's runtime. If they keep all of its threads busy, the instance must not look dead, or
//! the other instances would resume the runs that keep it busy, and become busy in turn. So heartbeats have a runtime of their own.
//!
//! Invariant: connections for heartbeats are used on this runtime only, because a connection does not work while the runtime that
//! opened it is busy.

use std::{io, thread};

use tokio::runtime::{Builder, Handle};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::ports::store::StoreError;

/// The runtime for heartbeats.
pub(crate) enum Heartbeat {
    /// A thread of its own, which ends when this is dropped.
    Thread { runtime: Handle, _running: DropGuard },
    /// The runtime of the program.
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

    /// Spawns a task on the runtime of the heartbeats, tracked by `tasks`.
    pub fn spawn(&self, tasks: &TaskTracker, work: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Thread { runtime, .. } => tasks.spawn_on(work, runtime),
            Self::Shared => tasks.spawn(work),
        };
    }

    /// Runs a future on the runtime of the heartbeats, and waits for it.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        match self {
            Self::Thread { runtime, .. } => runtime.spawn(work).await.unwrap_or_else(|error| {
                Err(StoreError::Unavailable(format!("the heartbeat thread failed: {error}")))
            }),
            Self::Shared => work.await,
        }
    }
}
