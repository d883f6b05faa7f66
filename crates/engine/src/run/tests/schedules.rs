//! Random schedules: whatever happens in whatever order, and wherever the process ends, the invariants hold.
//!
//! `world` checks the order in which effects are performed; `facts` checks the run between two events, its log and its prompts; `locks`
//! checks the order of the locks.

mod actions;
mod facts;
mod locks;
mod moves;
mod world;

use proptest::prelude::*;

use self::{
    moves::{beginning, moves},
    world::World,
};

/// Runs as many cases as `PROPTEST_CASES` says, or as many as take a few seconds.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = std::env::var_os("PROPTEST_CASES").map_or(400, |_| default.cases);
    ProptestConfig { cases, max_shrink_iters: 20_000, failure_persistence: None, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_schedule_keeps_the_invariants(
        beginning in beginning(),
        schedule in prop::collection::vec(moves(), 1..40),
    ) {
        let mut world = World::new(beginning);
        for what in schedule {
            world.make_move(what);
        }
        world.finish();
    }
}
