//! Random schedules over several instances: whatever is asked of any of them, and whatever ends, fails or is lost in between, nobody is
//! promised what is not kept.
//!
//! One process holds two or three engines on one store in memory, with time that stands still. What happens is a list of moves (`moves`,
//! `asks`, `answers`); what takes time or is lost on the way to the store and to the others is left to a seed (`life`), and so is what the model
//! says (`model`). While it happens, tools look at what they are run for (`tools`) and readers at what they are sent (`clients`); what
//! must be so in the end is in `ending`. A schedule that fails is shrunk and printed with all that happened in it.
//!
//! One thing no seed decides: which of several things that are ready at once tokio takes first. So a schedule may have to be run more than
//! once to fail again.

#![expect(clippy::unwrap_used, reason = "a test ends where its world is not as it must be")]

mod answers;
mod asks;
mod clients;
mod ending;
mod facts;
mod found;
mod life;
mod model;
mod moves;
#[allow(dead_code, reason = "each test binary uses its part")]
#[path = "../shared/mod.rs"]
mod shared;
mod tools;
mod world;

use std::{cell::RefCell, panic, sync::Once};

use proptest::prelude::*;

use self::{
    moves::{Move, moves},
    world::World,
};

/// A schedule: a seed, how slow things are, how many instances there are, and what happens.
type Schedule = (u64, u64, usize, Vec<Move>);

thread_local! {
    /// What panicked in tasks while a schedule runs, which tokio keeps to itself.
    static PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

fn note_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            let is_noted = PANICS.with_borrow_mut(|panics| {
                panics.as_mut().map(|panics| panics.push(panicked.to_string())).is_some()
            });
            if !is_noted {
                before(panicked);
            }
        }));
    });
    PANICS.set(Some(Vec::new()));
}

fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = std::env::var_os("PROPTEST_CASES").map_or(25, |_| default.cases);
    ProptestConfig { cases, max_shrink_iters: 3000, failure_persistence: None, ..default }
}

fn schedules() -> impl Strategy<Value = Schedule> {
    let pace = prop_oneof![Just(0_u64), Just(3), Just(40), Just(400)];
    (any::<u64>(), pace, 2..4_usize, prop::collection::vec(moves(), 1..60))
}

/// Runs a schedule, and ends the test where it does not hold what it should.
fn run((seed, pace, instances, moves): Schedule) {
    note_panics();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(seed, pace, instances);
        for what in moves {
            world.happens(what).await;
        }
        let facts = world.facts().clone();
        world.settles_down().await;
        let panicked = PANICS.take().unwrap_or_default();
        panicked.into_iter().for_each(|panicked| facts.fault(panicked));
        facts.judge();
    });
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_schedule_keeps_what_was_promised(schedule in schedules()) {
        run(schedule);
    }
}
