//! Where the readers of a chat ask when their log has moved.

use std::{sync::Arc, time::Duration};

use fermata_protocol::{ChatId, Profile, RunId};
use fermata_tools::Owner;
use futures::{FutureExt, future::BoxFuture};
use tokio::time::{Instant, sleep};

use super::letter::FollowingLetter;
use crate::{
    Following, ReadError, Reader, Unavailable,
    driver::Command,
    engine::Inner,
    run_log::{Home, Start},
    store::StoreError,
};

/// How long a reader looks for its run.
const REJOIN_FOR: Duration = Duration::from_secs(60);
/// How long it waits in between.
const REJOIN_EVERY: Duration = Duration::from_secs(1);

/// A chat whose run a reader follows.
pub(super) struct ChatHome {
    inner: Arc<Inner>,
    owner: Owner,
    chat: ChatId,
}

// === impl ChatHome ===

impl ChatHome {
    pub fn new(inner: &Arc<Inner>, owner: &Owner, chat: &ChatId) -> Arc<Self> {
        Arc::new(Self { inner: inner.clone(), owner: owner.clone(), chat: chat.clone() })
    }

    fn is_closing(&self) -> bool {
        self.inner.closing.is_cancelled()
    }

    /// A reader that came from another instance.
    pub fn arrive(self: Arc<Self>, letter: FollowingLetter) -> Following {
        let FollowingLetter { run, profile, after, prelude, feed } = letter;
        let reader = match feed {
            Some(feed) => self.inner.instances.feeds.reader(&feed, profile, Start { after, prelude }),
            None => Reader::of(run.clone(), profile, prelude),
        };
        Following { chat: self.chat.clone(), run, reader: reader.at_home(self) }
    }
}

/// Who knows where the runs of a chat go on.
pub(crate) fn home_of(inner: &Arc<Inner>, owner: &Owner, chat: &ChatId) -> Arc<dyn Home> {
    ChatHome::new(inner, owner, chat)
}

impl Home for ChatHome {
    fn rejoin(
        self: Arc<Self>,
        run: RunId,
        place: u64,
        profile: Profile,
    ) -> BoxFuture<'static, Option<Reader>> {
        async move {
            let give_up = Instant::now() + REJOIN_FOR;
            loop {
                let (owner, run) = (self.owner.clone(), run.clone());
                let rejoined = {
                    // Closed by nobody.
                    let _turn = self.inner.instances.rejoining.acquire().await.ok()?;
                    let command = |reply| Command::Rejoin { owner, run, place, profile, reply };
                    self.inner.ask(&self.chat, command).await
                };
                match rejoined {
                    Ok(following) => return following.map(|following| following.reader),
                    Err(error) if may_pass(&error) && Instant::now() < give_up && !self.is_closing() => {
                        sleep(REJOIN_EVERY).await;
                    }
                    Err(error) => {
                        tracing::debug!(chat = %self.chat, %error, "a reader has not found its run again");
                        return None;
                    }
                }
            }
        }
        .boxed()
    }
}

/// Whether it is worth asking again.
fn may_pass(error: &ReadError) -> bool {
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
