//! Random schedules: whatever happens in whatever order, and wherever the process ends, the invariants hold.
//!
//! Where they are: what holds of effects in the order in which they are done, in `world`; what holds of a run at rest, of its log and of
//! what the model is told, in `facts`; what holds of locks, in `lines`.

mod facts;
mod lines;
mod moves;
mod others;
mod world;

use proptest::prelude::*;

use self::{moves::moves, world::World};

/// As many as are asked for, and otherwise as many as take a few seconds.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = std::env::var_os("PROPTEST_CASES").map_or(400, |_| default.cases);
    ProptestConfig { cases, max_shrink_iters: 20_000, failure_persistence: None, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_schedule_keeps_the_invariants(schedule in prop::collection::vec(moves(), 1..40)) {
        let mut world = World::new();
        for what in schedule {
            world.happens(what);
        }
        world.settles_down();
    }
}
