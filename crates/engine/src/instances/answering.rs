//! Reading the letters of other instances, and answering what they ask.
//!
//! What is asked from afar goes through the same driver as what is asked here, and comes back as the same result.

use std::{sync::Arc, time::Duration};

use fermata_protocol::ChatId;
use futures::{FutureExt, future::BoxFuture};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::{Instant, sleep};

use super::{
    feeds::{Part, deliver},
    letter::{Ask, FeedLetter, FollowingLetter, Letter, Number},
    relay::Order,
};
use crate::{
    Following,
    chats::Lost,
    driver::{Checked, Command, Reply},
    engine::Inner,
    run_log::Start,
    store::InstanceId,
};

/// How long to wait before opening the box again.
const REOPEN_AFTER: Duration = Duration::from_secs(1);

/// Reads the letters that come to this instance, until it is dropped.
pub(crate) async fn read_letters(inner: Arc<Inner>) {
    let instances = &inner.instances;
    let Some(mail) = instances.mail.clone() else { return };
    let mut is_open = true;
    loop {
        let error = match mail.open(&instances.me).await {
            Ok(()) => {
                if !is_open {
                    tracing::info!("other instances can be reached again");
                    // Also what was asked since the box was lost has had nowhere to come back to.
                    lose_all(&inner);
                }
                is_open = true;
                loop {
                    match mail.receive(&instances.me).await {
                        Ok(letters) => letters.iter().for_each(|letter| read_letter(&inner, letter)),
                        Err(error) => break error,
                    }
                }
            }
            Err(error) => error,
        };
        if is_open {
            tracing::warn!(%error, "other instances cannot be reached; chats that are driven here go on");
        }
        is_open = false;
        lose_all(&inner);
        sleep(REOPEN_AFTER).await;
    }
}

/// What was on its way here may be lost: who waits for it asks again.
fn lose_all(inner: &Inner) {
    inner.instances.relay.lose_all();
    inner.instances.feeds.lose(|_| true);
}

fn read_letter(inner: &Arc<Inner>, bytes: &[u8]) {
    let feeds = &inner.instances.feeds;
    match serde_json::from_slice(bytes) {
        Ok(Letter::Ask { number, from, chat, ask }) => {
            inner.tasks.spawn(answer_letter(inner.clone(), number, from, chat, *ask));
        }
        Ok(Letter::Reply { number, result, feed }) => {
            // Before anything of the feed is read.
            if let Some(feed) = feed.filter(|feed| !feeds.expect(feed)) {
                inner.tasks.spawn(unfollow(inner.clone(), feed.from, feed.feed));
            }
            inner.instances.relay.take(number, result);
        }
        Ok(Letter::Feed { feed, from, part, chunks }) => {
            if !feeds.take(&from, feed, part, Part::Chunks(chunks)) {
                inner.tasks.spawn(unfollow(inner.clone(), from, feed));
            }
        }
        Ok(Letter::End { feed, from, part, last }) => {
            feeds.take(&from, feed, part, Part::End(last));
        }
        Ok(Letter::Unfollow { feed, from }) => feeds.unfollow(feed, &from),
        Err(error) => tracing::warn!(%error, "a letter of another instance cannot be read"),
    }
}

/// Tells an instance that a feed of its is not wanted.
pub(super) async fn unfollow(inner: Arc<Inner>, to: InstanceId, feed: Number) {
    let letter = Letter::Unfollow { feed, from: inner.instances.me.clone() };
    if let Some(mail) = &inner.instances.mail
        && let Err(error) = mail.send(&to, vec![letter.to_bytes()]).await
    {
        // It will be told again with the next part.
        tracing::debug!(%error, "another instance cannot be told that nobody reads");
    }
}

async fn answer_letter(inner: Arc<Inner>, number: Number, from: InstanceId, chat: ChatId, ask: Ask) {
    let mut desk = Desk { inner: &inner, chat: &chat, to: &from, feed: None, sending: None };
    let result = match ask {
        // Nothing new begins here any more.
        Ask::Submit(_) if inner.closing.is_cancelled() => None,
        Ask::Submit(submission) => {
            let told = desk.tell(|reply| Command::Submit(submission, reply)).await;
            desk.write(told, |desk, following| desk.depart(following))
        }
        Ask::Answer { owner, address, answers } => {
            let told = desk
                .tell(|reply| Command::Answer { owner, address, answers, checked: Checked::NotYet, reply })
                .await;
            desk.write(told, |_, receipts| receipts)
        }
        Ask::Resume { owner, after } => {
            let told = desk.tell(|reply| Command::Resume { owner, after, reply }).await;
            desk.write(told, |desk, following: Option<_>| following.map(|following| desk.depart(following)))
        }
        Ask::Rejoin { owner, run, place, profile } => {
            let told = desk.tell(|reply| Command::Rejoin { owner, run, place, profile, reply }).await;
            desk.write(told, |desk, following: Option<_>| following.map(|following| desk.depart(following)))
        }
        Ask::Stop { owner } => {
            let told = desk.tell(|reply| Command::Stop { owner, reply }).await;
            desk.write(told, |_, done| done)
        }
        Ask::View { owner, detail } => {
            let told = desk.tell(|reply| Command::View { owner, detail, reply }).await;
            desk.write(told, |_, view| view)
        }
        Ask::Delete { owner } => {
            let told = desk.tell(|reply| Command::Delete { owner, reply }).await;
            desk.write(told, |_, done| done)
        }
        Ask::Grants { owner } => {
            let told = desk.tell(|reply| Command::Grants { owner, reply }).await;
            desk.write(told, |_, grants| grants)
        }
        Ask::EndGrant { owner, address, tool } => {
            let told = desk.tell(|reply| Command::EndGrant { owner, address, tool, reply }).await;
            desk.write(told, |_, done| done)
        }
    };
    let Desk { feed, sending, .. } = desk;
    let letter = Letter::Reply { number, result, feed };
    deliver(&inner, &from, &letter).await;
    // After the reply that announces it; also where that was lost, because a second reader may count on it.
    if let Some(sending) = sending {
        sending.await;
    }
}

/// Where a question from afar is answered.
struct Desk<'a> {
    inner: &'a Arc<Inner>,
    chat: &'a ChatId,
    to: &'a InstanceId,
    feed: Option<FeedLetter>,
    sending: Option<BoxFuture<'static, ()>>,
}

impl Desk<'_> {
    async fn tell<T, E>(
        &mut self,
        command: impl FnOnce(Reply<T, E>) -> Command,
    ) -> Result<Result<T, E>, Lost> {
        if self.inner.is_closed_to(self.chat) {
            return Err(Lost);
        }
        let order = |reply| Order { command: command(reply), until: Instant::now(), from_afar: true };
        self.inner.put(self.chat, order).await
    }

    /// The result as a letter has it; nothing where the chat is not driven here.
    fn write<T, L: Serialize, E: Serialize>(
        &mut self,
        told: Result<Result<T, E>, Lost>,
        depart: impl FnOnce(&mut Self, T) -> L,
    ) -> Option<Box<RawValue>> {
        let result = told.ok()?.map(|value| depart(self, value));
        to_raw_value(&result)
            .inspect_err(|error| tracing::error!(%error, "a reply to another instance cannot be written"))
            .ok()
    }

    fn depart(&mut self, following: Following) -> FollowingLetter {
        let (log, profile, Start { after, prelude }) = following.reader.beginning();
        if let Some(log) = log {
            let (feed, sending) = self.inner.instances.feeds.open(self.inner, log, self.to);
            self.feed = Some(feed);
            self.sending = sending.map(FutureExt::boxed);
        }
        FollowingLetter { run: following.run, profile, after, prelude, feed: self.feed.clone() }
    }
}
