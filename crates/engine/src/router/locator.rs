//! Readers of a chat that find their run again when its log has moved.

use std::{sync::Arc, time::Duration};

use fermata_protocol::{ChatId, Profile, RunId};
use fermata_tools::Owner;
use futures::{FutureExt, future::BoxFuture};
use tokio::time::{Instant, sleep};

use super::Router;
use crate::{
    api::{
        errors::{ReadError, Unavailable},
        request::{Following, Rejoin},
    },
    cluster::ReaderMessage,
    ports::store::StoreError,
    run_log::{Reader, StreamLocator, position::Position},
};

/// The time limit for a reader that looks for its run.
const REJOIN_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause before it looks again.
const REJOIN_INTERVAL: Duration = Duration::from_secs(1);

/// Finds the runs of one chat.
#[derive(Clone)]
pub(crate) struct ChatLocator {
    router: Arc<Router>,
    owner: Owner,
    chat: ChatId,
}

// === impl ChatLocator ===

impl ChatLocator {
    pub fn new(router: &Arc<Router>, owner: &Owner, chat: &ChatId) -> Self {
        Self { router: router.clone(), owner: owner.clone(), chat: chat.clone() }
    }

    /// Returns a reader that came from another instance.
    pub fn import(&self, message: ReaderMessage) -> Following {
        let run = message.run.clone();
        let reader = self.router.cluster.import_reader(message);
        Following { chat: self.chat.clone(), run, reader: reader.located_by(self.clone()) }
    }
}

impl StreamLocator for ChatLocator {
    fn locate(&self, run: RunId, position: Position, profile: Profile) -> BoxFuture<'static, Option<Reader>> {
        let Self { router, owner, chat } = self.clone();
        let find = async move {
            let give_up_at = Instant::now() + REJOIN_TIMEOUT;
            loop {
                let rejoin = Rejoin { owner: owner.clone(), run: run.clone(), position, profile };
                let found = {
                    let _permit = router.rejoining.acquire().await.ok()?;
                    router.call(&chat, rejoin).await
                };
                let error = match found {
                    Ok(following) => return following.map(|following| following.reader),
                    Err(error) => error,
                };
                let is_draining = router.services.shutdown.draining.is_reached();
                if !is_transient(&error) || Instant::now() >= give_up_at || is_draining {
                    tracing::debug!(%chat, %run, %error, "a reader has not found its run again");
                    return None;
                }
                sleep(REJOIN_INTERVAL).await;
            }
        };
        find.boxed()
    }
}

/// Returns whether it is worth trying again after this error.
fn is_transient(error: &ReadError) -> bool {
    match error {
        ReadError::NotFound | ReadError::Unavailable(Unavailable::ShuttingDown) => false,
        ReadError::Unavailable(
            Unavailable::Busy | Unavailable::Unreachable | Unavailable::OutcomeUnknown,
        ) => true,
        ReadError::Unavailable(Unavailable::Store(error)) => match error {
            StoreError::Unavailable(_) | StoreError::Unclear(_) | StoreError::Fenced => true,
            StoreError::Corrupt(_) | StoreError::Conflict(_) | StoreError::BadCursor => false,
        },
    }
}
