//! Asking the instance that drives a chat.
//!
//! Whoever asks an instance that is gone, or does not drive the chat any more, looks again who does. Whatever may have been done already
//! is asked again only where doing it twice does no harm.

use std::{
    convert::identity,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dashmap::DashMap;
use fermata_protocol::ChatId;
use fermata_tools::Owner;
use futures::FutureExt;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use super::{
    home::ChatHome,
    letter::{Ask, Letter, Number},
};
use crate::{
    Unavailable,
    driver::{Checked, Command, Reply},
    engine::Inner,
    errors::RequestError,
    mail::MailError,
    store::InstanceId,
};

/// How often one who waits for a reply looks whether the other is still alive.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a reply may take before the letter, or the reply, counts as lost. A post is not posted again for this alone.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(3);
/// How long to wait before looking again who drives a chat.
const PAUSE: Duration = Duration::from_millis(200);

/// A command on its way to whoever drives the chat.
pub(crate) struct Order {
    pub command: Command,
    /// Until when whoever drives the chat is looked for.
    pub until: Instant,
    /// Whether another instance asks, which has looked already.
    pub from_afar: bool,
}

/// Questions that wait for a reply.
#[derive(Default)]
pub(crate) struct Relay {
    asked: DashMap<Number, oneshot::Sender<Returned>>,
    numbers: AtomicU64,
}

/// What has come back: a result, or nothing from one who does not drive the chat.
type Returned = Option<Box<RawValue>>;

/// Why there is no reply.
#[derive(Clone, Copy)]
enum Unreached {
    /// The instance is gone or does not drive the chat: somebody else does, or will.
    NotThere,
    /// The instance may have done what it was asked, and is gone, or its reply is.
    Lost,
    /// Nobody can be reached.
    Down,
}

// === asking ===

/// Hands an order on to the instance that drives the chat. The reply is sent from a task, so that nothing here waits for it.
pub(crate) fn forward(inner: &Arc<Inner>, chat: &ChatId, to: InstanceId, order: Order) {
    let Order { command, until, from_afar } = order;
    if from_afar {
        // Who asked has to look again, or letters might go round in circles. Dropping the command tells so.
        return;
    }
    let errand = Errand { inner: inner.clone(), chat: chat.clone(), to, until };
    let work = match command {
        Command::Submit(submission, reply) => {
            let home = errand.home(&submission.owner);
            let (ask, here) = (Ask::Submit(submission.clone()), home.clone());
            let again = move |reply| Command::Submit(submission, reply);
            errand.run(ask, reply, move |letter| here.arrive(letter), again).boxed()
        }
        // Whoever drives the chat checks by itself.
        Command::Answer { owner, address, answers, checked: _, reply } => {
            let ask = Ask::Answer { owner: owner.clone(), address, answers: answers.clone() };
            let again =
                move |reply| Command::Answer { owner, address, answers, checked: Checked::NotYet, reply };
            errand.run(ask, reply, identity, again).boxed()
        }
        Command::Resume { owner, after, reply } => {
            let home = errand.home(&owner);
            let ask = Ask::Resume { owner: owner.clone(), after: after.clone() };
            let arrive = move |letter: Option<_>| letter.map(|letter| home.arrive(letter));
            errand.run(ask, reply, arrive, move |reply| Command::Resume { owner, after, reply }).boxed()
        }
        Command::Rejoin { owner, run, place, profile, reply } => {
            let home = errand.home(&owner);
            let ask = Ask::Rejoin { owner: owner.clone(), run: run.clone(), place, profile };
            let arrive = move |letter: Option<_>| letter.map(|letter| home.arrive(letter));
            let again = move |reply| Command::Rejoin { owner, run, place, profile, reply };
            errand.run(ask, reply, arrive, again).boxed()
        }
        Command::Stop { owner, reply } => {
            let ask = Ask::Stop { owner: owner.clone() };
            errand.run(ask, reply, identity, move |reply| Command::Stop { owner, reply }).boxed()
        }
        Command::View { owner, detail, reply } => {
            let ask = Ask::View { owner: owner.clone(), detail };
            errand.run(ask, reply, identity, move |reply| Command::View { owner, detail, reply }).boxed()
        }
        Command::Delete { owner, reply } => {
            let ask = Ask::Delete { owner: owner.clone() };
            errand.run(ask, reply, identity, move |reply| Command::Delete { owner, reply }).boxed()
        }
        Command::Grants { owner, reply } => {
            let ask = Ask::Grants { owner: owner.clone() };
            errand.run(ask, reply, identity, move |reply| Command::Grants { owner, reply }).boxed()
        }
        Command::EndGrant { owner, address, tool, reply } => {
            let ask = Ask::EndGrant { owner: owner.clone(), address, tool: tool.clone() };
            let again = move |reply| Command::EndGrant { owner, address, tool, reply };
            errand.run(ask, reply, identity, again).boxed()
        }
        // Whoever drives the chat keeps its time.
        Command::Wake | Command::Verify => return,
    };
    let over = inner.over.clone();
    inner.tasks.spawn(async move { over.run_until_cancelled(work).await });
}

/// What is needed to ask one instance about one chat.
struct Errand {
    inner: Arc<Inner>,
    chat: ChatId,
    to: InstanceId,
    until: Instant,
}

impl Errand {
    fn home(&self, owner: &Owner) -> Arc<ChatHome> {
        ChatHome::new(&self.inner, owner, &self.chat)
    }

    async fn run<T, L, E>(
        self,
        ask: Ask,
        mut reply: Reply<T, E>,
        arrive: impl FnOnce(L) -> T,
        again: impl FnOnce(Reply<T, E>) -> Command,
    ) where
        L: DeserializeOwned,
        E: DeserializeOwned + RequestError,
    {
        let Self { inner, chat, to, until } = self;
        let may_be_done_twice = ask.may_be_done_twice();
        let result = match ask_instance(&inner, &chat, &to, until, ask).await {
            Ok(result) => serde_json::from_str::<Result<L, E>>(result.get()).unwrap_or_else(|error| {
                tracing::error!(%to, %error, "a reply of another instance cannot be read");
                Err(Unavailable::Unreachable.into())
            }),
            Err(unreached) if may_ask_again(unreached, may_be_done_twice) && Instant::now() < until => {
                sleep(PAUSE).await;
                let order = Order { command: again(reply), until, from_afar: false };
                inner.tell(&chat, order);
                return;
            }
            Err(Unreached::NotThere) => Err(Unavailable::Unreachable.into()),
            // What could not be sent in time may arrive all the same.
            Err(Unreached::Down) if may_be_done_twice => Err(Unavailable::Unreachable.into()),
            Err(Unreached::Down | Unreached::Lost) => Err(Unavailable::OutcomeUnknown.into()),
        };
        reply.send(result.map(arrive));
    }
}

fn may_ask_again(unreached: Unreached, may_be_done_twice: bool) -> bool {
    match unreached {
        Unreached::NotThere => true,
        Unreached::Lost => may_be_done_twice,
        Unreached::Down => false,
    }
}

async fn ask_instance(
    inner: &Inner,
    chat: &ChatId,
    to: &InstanceId,
    until: Instant,
    ask: Ask,
) -> Result<Box<RawValue>, Unreached> {
    let instances = &inner.instances;
    let mail = instances.mail.as_ref().ok_or(Unreached::Down)?;
    let number = instances.relay.numbers.fetch_add(1, Ordering::Relaxed);
    let (sender, mut reply) = oneshot::channel();
    // Who has just come is not known to be alive yet: what counts is heard after the question.
    let (beats, asked) = (instances.beats(), Instant::now());
    let is_question = !matches!(ask, Ask::Submit(_));
    instances.relay.asked.insert(number, sender);
    let from = instances.me.clone();
    let letter = Letter::Ask { number, from, chat: chat.clone(), ask: Box::new(ask) };
    let sent = mail.send(to, vec![letter.to_bytes()]).await;
    let result = match sent {
        Err(MailError::NoBox) => Err(Unreached::NotThere),
        Err(MailError::Unavailable(error)) => {
            tracing::warn!(%error, "another instance cannot be asked");
            Err(Unreached::Down)
        }
        Ok(()) => loop {
            match tokio::time::timeout(LOOK_EVERY, &mut reply).await {
                Ok(Ok(reply)) => break reply.ok_or(Unreached::NotThere),
                Ok(Err(_)) => break Err(Unreached::Lost),
                Err(_) if Instant::now() >= until => break Err(Unreached::Lost),
                Err(_) if is_question && asked.elapsed() >= ASK_AGAIN_AFTER => break Err(Unreached::Lost),
                Err(_) if instances.beats() > beats + 1 && !instances.is_alive(to) => {
                    break Err(Unreached::Lost);
                }
                Err(_) => {}
            }
        },
    };
    instances.relay.asked.remove(&number);
    result
}

// === impl Relay ===

impl Relay {
    /// Hands a reply to who waits for it.
    pub(super) fn take(&self, number: Number, returned: Returned) {
        if let Some((_, waiting)) = self.asked.remove(&number) {
            // Who asked may have gone.
            let _ = waiting.send(returned);
        }
    }

    /// Tells all who wait that no reply will come.
    pub(super) fn lose_all(&self) {
        self.asked.clear();
    }
}
