//! Random schedules: the invariants hold for any events in any order, and wherever the process ends.
//!
//! `world` checks the order of effects; `facts` checks the run between two events, its log and its prompts; `locks`
//! checks the order of the locks.

mod actions;
mod facts;
mod locks;
mod moves;
mod world;

use std::num::NonZeroUsize;

use fermata_protocol::{PlanMode, ToolCallId};
use fermata_tools::{ChainMode, GateMode};
use proptest::prelude::*;
use serde_json::json;

use self::{
    moves::{Beginning, Move, beginning, moves},
    world::{Failure, World},
};
use crate::run::RetriedCall;

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

/// A store that fails leaves the call at work and has it run again, once the first attempt has stopped.
#[test]
fn a_call_that_is_cancelled_while_it_waits_to_run_again_does_not_run() {
    let retries = Some(RetriedCall {
        id: ToolCallId::new("call_again"),
        of: ToolCallId::new("call_failed"),
        tool: "ledger".into(),
        input: json!({"n": 1}).into(),
        had_begun: true,
    });
    let (plan, wants_plan, running_calls) = (PlanMode::Off, false, None);
    let mut world = World::new(Beginning { chosen: None, plan, wants_plan, retries, running_calls });
    for what in [
        Move::Checks,
        Move::Fails(Failure::Store),
        Move::CancelsCall { index: 0 },
        Move::WindsUp { index: 0 },
        Move::LockIsGranted,
    ] {
        world.make_move(what);
    }
    world.finish();
}

/// The tool of an approved call changes while the call waits for a slot, so that the next process asks about it again.
#[test]
fn a_call_that_is_asked_about_again_after_a_crash_waits_once() {
    let (plan, wants_plan, running_calls) = (PlanMode::Auto, true, NonZeroUsize::new(1));
    let mut world = World::new(Beginning { chosen: None, plan, wants_plan, retries: None, running_calls });
    for what in [
        Move::RulesChange {
            gate: GateMode::Progressive,
            chain: ChainMode::Free,
            severe: false,
            missing: None,
        },
        Move::Recollects,
        Move::Calls(vec![(0, 0)]),
        Move::Calls(vec![(0, 0)]),
        Move::Calls(vec![(1, 0), (8, 0), (0, 0)]),
        Move::Answers { index: 2, how: 2, by_question: false },
        Move::ToolChanges { tool: 1 },
        Move::Fails(Failure::Process),
    ] {
        world.make_move(what);
    }
    world.finish();
}
