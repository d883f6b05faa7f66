//! What may happen, and how it happens.

use std::{sync::atomic::Ordering, time::Duration};

use proptest::prelude::*;
use tokio::time::sleep;

use crate::{answers::How, life::Fuse, world::World};

/// Something that may happen. Numbers name one of those that there are.
#[derive(Clone, Debug)]
pub enum Move {
    /// A user's message; the client's version, and for how many seconds the stream is held.
    Says {
        chat: usize,
        at: usize,
        client: u8,
        hold: Option<u64>,
        named: bool,
    },
    /// A user's message that ends each instance which works on its run, at once or after a step.
    SaysPoison {
        chat: usize,
        at: usize,
        is_slow: bool,
    },
    /// The user's last message once more.
    SaysAgain {
        chat: usize,
        at: usize,
    },
    /// An answer of the model's is to be made again.
    Regenerates {
        chat: usize,
        at: usize,
    },
    Answers {
        chat: usize,
        at: usize,
        nth: usize,
        how: How,
    },
    /// Everything that waits, in one batch.
    AnswersAll {
        chat: usize,
        at: usize,
        approved: bool,
    },
    AnswersQuestion {
        chat: usize,
        at: usize,
        accepts: bool,
    },
    /// A client posts the message as it shows it, with answers in it.
    Posts {
        nth: usize,
        at: usize,
        approved: bool,
    },
    Stops {
        chat: usize,
        at: usize,
    },
    Deletes {
        chat: usize,
        at: usize,
    },
    Looks {
        chat: usize,
        at: usize,
    },
    Follows {
        chat: usize,
        at: usize,
    },
    /// One that has read something goes on elsewhere.
    Resumes {
        nth: usize,
        at: usize,
    },
    Leaves {
        nth: usize,
    },
    Passes {
        time: u64,
    },
    Dies {
        at: usize,
    },
    Burns {
        at: usize,
        fuse: Fuse,
    },
    IsBuried {
        at: usize,
    },
    StoreFails {
        at: usize,
    },
    StoreHeals {
        at: usize,
    },
    TransportIsDown(bool),
    TransportLoses {
        lost: u64,
        doubled: u64,
    },
    ShutsDown {
        at: usize,
    },
}

/// All of them; those more often of which more is to be expected.
pub fn moves() -> impl Strategy<Value = Move> {
    let n = || 0..6_usize;
    // Most of it happens in one chat.
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
    let fuse = (0..6_usize, any::<bool>(), any::<bool>()).prop_map(|(commits, after, kills)| Fuse {
        commits,
        after,
        kills,
    });
    prop_oneof![
        10 => (c(), n(), client, hold, prop::bool::weighted(0.8))
            .prop_map(|(chat, at, client, hold, named)| Move::Says { chat, at, client, hold, named }),
        1 => (c(), n(), any::<bool>()).prop_map(|(chat, at, is_slow)| Move::SaysPoison { chat, at, is_slow }),
        1 => (c(), n()).prop_map(|(chat, at)| Move::SaysAgain { chat, at }),
        1 => (c(), n()).prop_map(|(chat, at)| Move::Regenerates { chat, at }),
        20 => (c(), n(), n(), How::any()).prop_map(|(chat, at, nth, how)| Move::Answers { chat, at, nth, how }),
        10 => (c(), n(), prop::bool::weighted(0.8))
            .prop_map(|(chat, at, approved)| Move::AnswersAll { chat, at, approved }),
        2 => (c(), n(), any::<bool>())
            .prop_map(|(chat, at, accepts)| Move::AnswersQuestion { chat, at, accepts }),
        3 => (n(), n(), any::<bool>()).prop_map(|(nth, at, approved)| Move::Posts { nth, at, approved }),
        1 => (c(), n()).prop_map(|(chat, at)| Move::Stops { chat, at }),
        1 => (c(), n()).prop_map(|(chat, at)| Move::Deletes { chat, at }),
        1 => (c(), n()).prop_map(|(chat, at)| Move::Looks { chat, at }),
        4 => (c(), n()).prop_map(|(chat, at)| Move::Follows { chat, at }),
        4 => (n(), n()).prop_map(|(nth, at)| Move::Resumes { nth, at }),
        1 => n().prop_map(|nth| Move::Leaves { nth }),
        24 => time.prop_map(|time| Move::Passes { time }),
        2 => n().prop_map(|at| Move::Dies { at }),
        3 => (n(), fuse).prop_map(|(at, fuse)| Move::Burns { at, fuse }),
        3 => n().prop_map(|at| Move::IsBuried { at }),
        1 => n().prop_map(|at| Move::StoreFails { at }),
        3 => n().prop_map(|at| Move::StoreHeals { at }),
        2 => prop::bool::weighted(0.35).prop_map(Move::TransportIsDown),
        2 => (prop_oneof![Just(0_u64), Just(15), Just(60)], prop_oneof![Just(0_u64), Just(20)])
            .prop_map(|(lost, doubled)| Move::TransportLoses { lost, doubled }),
        1 => n().prop_map(|at| Move::ShutsDown { at }),
    ]
}

impl World {
    /// Lets it happen. What is asked is not waited for.
    pub async fn happens(&mut self, what: Move) {
        self.facts().log(format!("{what:?}"));
        match what {
            Move::Says { chat, at, client, hold, named } => self.says(chat, at, client, hold, named),
            Move::SaysPoison { chat, at, is_slow } => self.says_poison(chat, at, is_slow),
            Move::SaysAgain { chat, at } => self.says_again(chat, at),
            Move::Regenerates { chat, at } => self.regenerates(chat, at),
            Move::Answers { chat, at, nth, how } => {
                self.waits_for_call(chat).await;
                self.answers(chat, at, nth, how);
            }
            Move::AnswersAll { chat, at, approved } => {
                self.waits_for_call(chat).await;
                self.answers_all(chat, at, approved);
            }
            Move::AnswersQuestion { chat, at, accepts } => self.answers_question(chat, at, accepts),
            Move::Posts { nth, at, approved } => self.posts_message(nth, at, approved),
            Move::Stops { chat, at } => self.stops(chat, at),
            Move::Deletes { chat, at } => self.deletes(chat, at),
            Move::Looks { chat, at } => self.looks(chat, at),
            Move::Follows { chat, at } => self.follows(chat, at),
            Move::Resumes { nth, at } => self.resumes(nth, at),
            Move::Leaves { nth } => {
                self.client(nth).inspect(|client| client.lock().unwrap().leaves.cancel());
            }
            Move::Passes { time } => sleep(Duration::from_millis(time)).await,
            Move::Dies { at } => self.slot(at).life.dead.cancel(),
            Move::Burns { at, fuse } => *self.slot(at).life.fuse.lock().unwrap() = Some(fuse),
            Move::IsBuried { at } => self.is_buried(at),
            Move::StoreFails { at } => self.slot(at).store.fails.store(true, Ordering::SeqCst),
            Move::StoreHeals { at } => self.slot(at).store.fails.store(false, Ordering::SeqCst),
            Move::TransportIsDown(is_down) => self.transport.set_down(is_down),
            Move::TransportLoses { lost, doubled } => {
                self.weather.lost.store(lost, Ordering::Relaxed);
                self.weather.doubled.store(doubled, Ordering::Relaxed);
            }
            Move::ShutsDown { at } => self.shuts_down(at),
        }
    }

    /// Gives the run of a chat some time to come to wait for somebody.
    async fn waits_for_call(&self, chat: usize) {
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

    fn is_buried(&mut self, at: usize) {
        let slot = self.slot(at);
        if slot.store.joined().is_some() {
            slot.life.was_buried.store(true, Ordering::SeqCst);
            slot.store.bury();
        }
    }

    fn shuts_down(&mut self, at: usize) {
        let slot = self.slot(at);
        let place = at % self.slots.len();
        self.slots[place] = self.start();
        self.ending.push(slot.clone());
        let engine = slot.engine.clone();
        let facts = self.facts().clone();
        let named = format!("{:?}", slot.store.joined());
        // Whose store fails cannot end before it heals, so nobody asks how long it takes.
        self.requests.spawn(async move {
            tokio::select! {
                () = slot.life.dead.cancelled() => {}
                () = engine.shutdown() => {
                    facts.log(format!("{named} has ended"));
                    // Where its store failed it could not say so, and its lease runs out.
                    sleep(fermata_engine::store::LEASE).await;
                    slot.store.joined().inspect(|_| slot.store.bury());
                }
            }
        });
    }
}
