//! The stages in which the engine ends, and the tasks that each of them waits for.

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The stages of a shutdown, in this order, and the tasks of the engine.
#[derive(Clone, Default)]
pub(crate) struct Shutdown {
    /// Cancelled when the shutdown begins: nothing new begins, and runs at work may go on for [`Settings::drain`](crate::Settings::drain).
    pub draining: CancellationToken,
    /// Cancelled when the time is up: chats end now, whatever is at work in them.
    pub stopping: CancellationToken,
    /// Cancelled when no chat is left: the lease is given up, and the background tasks end.
    pub stopped: CancellationToken,
    /// The tasks of chats, which end when `stopping` is cancelled at the latest.
    pub tasks: TaskTracker,
    /// The tasks that go on until `draining` or `stopped` is cancelled.
    pub background: TaskTracker,
}

// === impl Shutdown ===

impl Shutdown {
    /// Spawns a background task that is dropped when `until` is cancelled.
    pub fn spawn_background(
        &self,
        until: &CancellationToken,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let until = until.clone();
        self.background.spawn(async move { until.run_until_cancelled(work).await });
    }
}
