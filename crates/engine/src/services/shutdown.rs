//! The stages of the engine's shutdown, and the tasks that each of them waits for.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use serde::{Deserialize, Serialize};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::api::errors::Unavailable;

/// The stages of a shutdown, in this order, and the tasks of the engine.
#[derive(Clone, Default)]
pub(crate) struct Shutdown {
    /// This instance will end soon: `/readyz` fails, so that proxies send requests elsewhere, and everything is still served.
    pub leaving: Stage,
    /// The shutdown begins: nothing new begins, and runs at work may go on for [`Settings::drain`](crate::settings::Settings::drain).
    pub draining: Stage,
    /// The time is up: chats end now, even if something is at work in them.
    pub stopping: Stage,
    /// No chat is left: the lease is given up, and the background tasks end.
    pub stopped: Stage,
    /// The tasks of chats, which end at the stage `stopping` at the latest.
    pub tasks: TaskTracker,
    /// The tasks that go on until the stage `draining` or `stopped`.
    pub background: TaskTracker,
    /// The counts of this shutdown, for the log.
    pub tally: Arc<Tally>,
}

/// The numbers of a shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainCounts {
    /// The runs that are still open at this instance.
    pub runs: usize,
    /// The runs that were waiting, and may be resumed by other instances.
    pub moved: usize,
    /// The runs that were at work and came to their end.
    pub finished: usize,
    /// The runs that were cut off at work, and go on elsewhere.
    pub cut: usize,
    /// The requests that were refused.
    pub refused: usize,
}

/// Counts what became of runs and requests during a shutdown.
#[derive(Default)]
pub(crate) struct Tally {
    /// The runs that were open when the shutdown began.
    pub begun: AtomicUsize,
    /// The runs that were waiting: their streams have ended, and other instances may resume them.
    pub moved: AtomicUsize,
    /// The runs that were at work when the time was up: the step that they were in is made again.
    pub cut: AtomicUsize,
    /// The requests that were refused because the server is shutting down.
    pub refused: AtomicUsize,
}

/// A stage of the shutdown. Clones are the same stage.
///
/// A chat actor looks for each delta of its model whether a stage is reached. A token takes a lock for that, which all chats would share, so
/// the stage is also in an atomic.
#[derive(Clone, Default)]
pub(crate) struct Stage {
    is_reached: Arc<AtomicBool>,
    token: CancellationToken,
}

// === impl Tally ===

impl Tally {
    /// Returns the counts, with the number of runs that are open now.
    pub fn counts(&self, runs: usize) -> DrainCounts {
        let [begun, moved, cut, refused] =
            [&self.begun, &self.moved, &self.cut, &self.refused].map(|count| count.load(Ordering::Relaxed));
        let finished = begun.saturating_sub(moved + cut + runs);
        DrainCounts { runs, moved, finished, cut, refused }
    }
}

// === impl Shutdown ===

impl Shutdown {
    /// Returns the error of a request that is refused because the server is shutting down, and counts it.
    pub fn refuse(&self) -> Unavailable {
        self.tally.refused.fetch_add(1, Ordering::Relaxed);
        Unavailable::ShuttingDown
    }

    /// Spawns a background task that is dropped when the stage is reached.
    pub fn spawn_background(&self, until: &Stage, work: impl Future<Output = ()> + Send + 'static) {
        self.background.spawn(until.clone().cut_off(work));
    }
}

// === impl Stage ===

impl Stage {
    /// Notes that the stage is reached. Chat actors need a message about it.
    pub fn reach(&self) {
        self.is_reached.store(true, Ordering::Release);
        self.token.cancel();
    }

    /// Returns whether the stage is reached.
    pub fn is_reached(&self) -> bool {
        self.is_reached.load(Ordering::Acquire)
    }

    /// Waits until the stage is reached. Cancel safe.
    pub async fn reached(&self) {
        self.token.cancelled().await;
    }

    /// Does this work until the stage is reached.
    pub async fn cut_off(self, work: impl Future<Output = ()>) {
        self.token.run_until_cancelled(work).await;
    }
}
