//! Random schedules over several instances: every acknowledged effect lasts, for any requests and failures.
//!
//! One process runs two or three engines on one store in memory, on paused time. A schedule is a list of `operations`, and a seed that
//! decides about delays, lost messages (`process`) and the answers of the `model`. Tools and clients check what they see while the schedule
//! runs (`tools`, `clients`, `history`), and the rest is checked in the end (`checks`). A schedule that fails is shrunk and printed with
//! everything that happened in it.
//!
//! No seed decides which of several tasks that are ready Tokio runs first, so a schedule may have to be run more than once to fail again.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

mod answers;
mod checks;
mod clients;
mod history;
mod model;
mod operations;
mod process;
mod regressions;
mod requests;
#[allow(dead_code, reason = "each test binary uses its part")]
#[path = "../shared/mod.rs"]
mod shared;
mod tools;
mod world;

use std::{cell::RefCell, panic, sync::Once};

use proptest::prelude::*;

use self::{
    operations::{Operation, operations},
    world::World,
};

/// A schedule: the seed, the maximum delay in milliseconds, the number of instances, and the operations.
type Schedule = (u64, u64, usize, Vec<Operation>);

thread_local! {
    /// The panics of tasks while a schedule runs, which Tokio would only report to the task that joins them.
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
    let max_delay_ms = prop_oneof![Just(0_u64), Just(3), Just(40), Just(400)];
    (any::<u64>(), max_delay_ms, 2..4_usize, prop::collection::vec(operations(), 1..60))
}

/// Runs a schedule, and panics if an invariant was violated.
fn run((seed, max_delay_ms, instances, operations): Schedule) {
    note_panics();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(seed, max_delay_ms, instances);
        for operation in operations {
            world.perform(operation).await;
        }
        let history = world.history().clone();
        world.settle_and_check().await;
        let panicked = PANICS.take().unwrap_or_default();
        panicked.into_iter().for_each(|panicked| history.violation(panicked));
        history.assert_no_violation();
    });
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_schedule_keeps_what_was_acknowledged(schedule in schedules()) {
        run(schedule);
    }
}
