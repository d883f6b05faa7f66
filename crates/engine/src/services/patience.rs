//! Operations of the store that are repeated while the store is away.
//!
//! A run that is at work must not be lost because the database restarts, a connection breaks or a reply does not arrive. Every commit has a
//! name ([`Version`](crate::ports::store::Version)), so it can be repeated until its outcome is known, and repeating it does no harm after another
//! instance has taken the chat over: then it is refused.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Services;
use crate::ports::store::StoreError;

/// For how long operations are repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Nothing is lost if it is not done, and it comes again soon.
    Glance,
    /// Somebody waits for a reply, and nothing is lost if the request is refused.
    Request,
    /// As [`Patience::Request`], in a chat that has an open run here. If it is not known whether the request was done, this process does not
    /// know the chat any more, and the run would be lost.
    RequestBesideRun,
    /// A run that is at work would be lost. Its readers look for a run that has moved for as long.
    Run,
}

/// The first and the longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

// === impl Patience ===

impl Patience {
    /// Returns for how long an operation is repeated that may have been done, or that was not.
    fn time(self, may_be_done: bool) -> Duration {
        match self {
            Self::Glance if !may_be_done => Duration::ZERO,
            Self::Request => Duration::from_secs(5),
            Self::RequestBesideRun if !may_be_done => Duration::from_secs(5),
            Self::Glance | Self::RequestBesideRun | Self::Run => Duration::from_secs(60),
        }
    }
}

// === impl Services ===

impl Services {
    /// Repeats an operation of the store as long as the store is away, until the patience or the server ends. Only reads and commits can
    /// be repeated so, because doing them twice is no different from doing them once.
    ///
    /// # Errors
    /// Returns the error of the last attempt, but [`StoreError::Unclear`] if an earlier attempt may have been made and the later ones do
    /// not tell.
    pub async fn patiently<T, F>(
        &self,
        patience: Patience,
        mut operation: impl FnMut() -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let begin = Instant::now();
        let (mut pause, longest) = PAUSES;
        let mut unclear = None;
        loop {
            let error = match operation().await {
                Err(error @ StoreError::Unavailable(_)) => error,
                Err(error @ StoreError::Unclear(_)) => {
                    unclear = Some(error.clone());
                    error
                }
                // Another instance may have changed the chat before the commit was made, or after it.
                Err(StoreError::Fenced) if unclear.is_some() => StoreError::Fenced,
                done => {
                    self.outage.note_success();
                    return done;
                }
            };
            if error != StoreError::Fenced {
                self.outage.note_failure(&error);
            }
            let is_over =
                begin.elapsed() >= patience.time(unclear.is_some()) || self.shutdown.stopping.is_reached();
            if is_over || error == StoreError::Fenced {
                return Err(unclear.unwrap_or(error));
            }
            tracing::debug!(%error, "the store is away; the operation is repeated");
            tokio::select! {
                () = sleep(pause) => {}
                () = self.shutdown.stopping.reached() => {}
            }
            pause = longest.min(pause * 2);
        }
    }
}
