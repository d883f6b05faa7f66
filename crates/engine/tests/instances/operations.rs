//! The operations of a schedule, and how they are performed.

use std::{sync::atomic::Ordering, time::Duration};

use proptest::prelude::*;
use tokio::time::sleep;

use crate::{answers::AnswerVariant, process::CommitFault, world::World};

/// An operation. Numbers are indexes into what there is, and wrap around.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Posts a user message; with the version of the client, and the hold in seconds.
    PostText {
        chat: usize,
        instance: usize,
        client: u8,
        hold: Option<u64>,
        has_id: bool,
    },
    /// Posts a user message that kills each instance that works on its run, at once or after a step.
    PostPoison {
        chat: usize,
        instance: usize,
        is_slow: bool,
    },
    /// Posts the last user message once more.
    PostAgain {
        chat: usize,
        instance: usize,
    },
    /// Regenerates the last answer of the model.
    Regenerate {
        chat: usize,
        instance: usize,
    },
    Answer {
        chat: usize,
        instance: usize,
        index: usize,
        variant: AnswerVariant,
    },
    /// Answers everything that waits, in one batch.
    AnswerAll {
        chat: usize,
        instance: usize,
        approved: bool,
    },
    AnswerQuestion {
        chat: usize,
        instance: usize,
        accepts: bool,
    },
    /// Posts the message as a client shows it, with answers in it.
    PostMessage {
        index: usize,
        instance: usize,
        approved: bool,
    },
    /// Posts "yes" or "no" as a client does that shows a message, which may be an older one.
    PostWords {
        index: usize,
        instance: usize,
        approved: bool,
    },
    Stop {
        chat: usize,
        instance: usize,
    },
    Delete {
        chat: usize,
        instance: usize,
    },
    View {
        chat: usize,
        instance: usize,
    },
    Follow {
        chat: usize,
        instance: usize,
    },
    /// Resumes a stream after the last event that a client has read.
    Resume {
        index: usize,
        instance: usize,
    },
    CloseStream {
        index: usize,
    },
    LetPass {
        time: u64,
    },
    Kill {
        instance: usize,
    },
    FailCommit {
        instance: usize,
        commit_fault: CommitFault,
    },
    ExpireLease {
        instance: usize,
    },
    StoreFails {
        instance: usize,
    },
    StoreRecovers {
        instance: usize,
    },
    SetTransportDown(bool),
    SetTransportLosses {
        lost: u64,
        doubled: u64,
    },
    ShutDown {
        instance: usize,
    },
}

/// Returns all operations, with the weights that make schedules interesting.
pub fn operations() -> impl Strategy<Value = Operation> {
    let n = || 0..6_usize;
    // Most operations are on one chat.
    let c = || prop_oneof![4 => Just(0_usize), 2 => Just(1), 1 => Just(2)];
    let client = prop_oneof![Just(5_u8), Just(6), Just(6), Just(7)];
    let hold = prop_oneof![3 => Just(None), 1 => Just(Some(0)), 1 => Just(Some(7))];
    let time = prop_oneof![
        Just(1_u64),
        Just(20),
        Just(300),
        Just(300),
        Just(1500),
        Just(1500),
        Just(6000),
        Just(13_000),
        Just(70_000),
        Just(500_000)
    ];
    let commit_fault = (0..6_usize, any::<bool>(), any::<bool>())
        .prop_map(|(commits, after, kills)| CommitFault { commits, after, kills });
    prop_oneof![
        10 => (c(), n(), client, hold, prop::bool::weighted(0.8))
            .prop_map(|(chat, instance, client, hold, has_id)| Operation::PostText { chat, instance, client, hold, has_id }),
        1 => (c(), n(), any::<bool>()).prop_map(|(chat, instance, is_slow)| Operation::PostPoison { chat, instance, is_slow }),
        1 => (c(), n()).prop_map(|(chat, instance)| Operation::PostAgain { chat, instance }),
        1 => (c(), n()).prop_map(|(chat, instance)| Operation::Regenerate { chat, instance }),
        20 => (c(), n(), n(), AnswerVariant::any()).prop_map(|(chat, instance, index, variant)| Operation::Answer { chat, instance, index, variant }),
        10 => (c(), n(), prop::bool::weighted(0.8))
            .prop_map(|(chat, instance, approved)| Operation::AnswerAll { chat, instance, approved }),
        2 => (c(), n(), any::<bool>())
            .prop_map(|(chat, instance, accepts)| Operation::AnswerQuestion { chat, instance, accepts }),
        3 => (n(), n(), any::<bool>()).prop_map(|(index, instance, approved)| Operation::PostMessage { index, instance, approved }),
        4 => (n(), n(), prop::bool::weighted(0.8)).prop_map(|(index, instance, approved)| Operation::PostWords { index, instance, approved }),
        1 => (c(), n()).prop_map(|(chat, instance)| Operation::Stop { chat, instance }),
        1 => (c(), n()).prop_map(|(chat, instance)| Operation::Delete { chat, instance }),
        1 => (c(), n()).prop_map(|(chat, instance)| Operation::View { chat, instance }),
        4 => (c(), n()).prop_map(|(chat, instance)| Operation::Follow { chat, instance }),
        4 => (n(), n()).prop_map(|(index, instance)| Operation::Resume { index, instance }),
        1 => n().prop_map(|index| Operation::CloseStream { index }),
        24 => time.prop_map(|time| Operation::LetPass { time }),
        2 => n().prop_map(|instance| Operation::Kill { instance }),
        3 => (n(), commit_fault).prop_map(|(instance, commit_fault)| Operation::FailCommit { instance, commit_fault }),
        3 => n().prop_map(|instance| Operation::ExpireLease { instance }),
        1 => n().prop_map(|instance| Operation::StoreFails { instance }),
        3 => n().prop_map(|instance| Operation::StoreRecovers { instance }),
        2 => prop::bool::weighted(0.35).prop_map(Operation::SetTransportDown),
        2 => (prop_oneof![Just(0_u64), Just(15), Just(60)], prop_oneof![Just(0_u64), Just(20)])
            .prop_map(|(lost, doubled)| Operation::SetTransportLosses { lost, doubled }),
        1 => n().prop_map(|instance| Operation::ShutDown { instance }),
    ]
}

impl World {
    /// Performs an operation, without waiting for replies.
    pub async fn perform(&mut self, operation: Operation) {
        self.history().log(format!("{operation:?}"));
        match operation {
            Operation::PostText { chat, instance, client, hold, has_id } => {
                self.post_text(chat, instance, client, hold, has_id)
            }
            Operation::PostPoison { chat, instance, is_slow } => self.post_poison(chat, instance, is_slow),
            Operation::PostAgain { chat, instance } => self.post_again(chat, instance),
            Operation::Regenerate { chat, instance } => self.regenerate(chat, instance),
            Operation::Answer { chat, instance, index, variant } => {
                self.wait_for_call(chat).await;
                self.answer(chat, instance, index, variant);
            }
            Operation::AnswerAll { chat, instance, approved } => {
                self.wait_for_call(chat).await;
                self.answer_all(chat, instance, approved);
            }
            Operation::AnswerQuestion { chat, instance, accepts } => {
                self.answer_question(chat, instance, accepts)
            }
            Operation::PostMessage { index, instance, approved } => {
                self.post_message(index, instance, approved)
            }
            Operation::PostWords { index, instance, approved } => self.post_words(index, instance, approved),
            Operation::Stop { chat, instance } => self.stop(chat, instance),
            Operation::Delete { chat, instance } => self.delete(chat, instance),
            Operation::View { chat, instance } => self.view(chat, instance),
            Operation::Follow { chat, instance } => self.follow(chat, instance),
            Operation::Resume { index, instance } => self.resume(index, instance),
            Operation::CloseStream { index } => {
                self.client(index).inspect(|client| client.lock().unwrap().close.cancel());
            }
            Operation::LetPass { time } => sleep(Duration::from_millis(time)).await,
            Operation::Kill { instance } => self.instance(instance).process.killed.cancel(),
            Operation::FailCommit { instance, commit_fault } => {
                *self.instance(instance).process.commit_fault.lock().unwrap() = Some(commit_fault)
            }
            Operation::ExpireLease { instance } => {
                let instance = self.instance(instance);
                if instance.store.joined().is_some() {
                    instance.process.lease_expired.store(true, Ordering::SeqCst);
                    instance.store.expire_lease();
                }
            }
            Operation::StoreFails { instance } => {
                self.instance(instance).store.fails.store(true, Ordering::SeqCst)
            }
            Operation::StoreRecovers { instance } => {
                self.instance(instance).store.fails.store(false, Ordering::SeqCst)
            }
            Operation::SetTransportDown(is_down) => self.transport.set_down(is_down),
            Operation::SetTransportLosses { lost, doubled } => {
                self.conditions.lost_percent.store(lost, Ordering::Relaxed);
                self.conditions.duplicated_percent.store(doubled, Ordering::Relaxed);
            }
            Operation::ShutDown { instance } => self.shut_down(instance),
        }
    }

    /// Waits a while for the run of a chat to have a call that waits for an answer.
    async fn wait_for_call(&self, chat: usize) {
        let chat = self.chat(chat);
        for _ in 0..20 {
            if !self.calls(&chat, false).is_empty()
                || self.record(&chat).is_none_or(|saved| saved.open_run.is_none())
            {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn shut_down(&mut self, index: usize) {
        let instance = self.instance(index);
        let index = index % self.instances.len();
        self.instances[index] = self.start();
        self.shutting_down.push(instance.clone());
        let engine = instance.engine.clone();
        let history = self.history().clone();
        let id = format!("{:?}", instance.store.joined());
        // If its store fails, the instance cannot shut down before the store recovers, so there is no timeout.
        self.requests.spawn(async move {
            tokio::select! {
                () = instance.process.killed.cancelled() => {}
                () = engine.shutdown() => {
                    history.log(format!("{id} has shut down"));
                    // If its store failed, the instance could not give up its lease, and the lease expires.
                    sleep(fermata_engine::store::LEASE).await;
                    instance.store.joined().inspect(|_| instance.store.expire_lease());
                }
            }
        });
    }
}
