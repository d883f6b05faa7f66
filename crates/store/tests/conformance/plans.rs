//! The plans of runs.

use fermata_engine::store::Change;
use fermata_protocol::{PlanState, PlanStepState};

use crate::{AnyStore, commit, commit_at, fixtures::*};

in_every_store! {
    a_plan_is_kept_as_it_was_put_last
    the_plan_of_the_last_run_that_is_over_counts
    an_open_run_takes_over_the_calls_of_one_that_is_over
    each_state_of_a_plan_and_of_a_step_has_a_name
    an_open_plan_is_dropped
}

async fn a_plan_is_kept_as_it_was_put_last(store: AnyStore) {
    let id = chat("a");
    let first = plan("A goal \u{0}", &["s1", "s2", "s3"]);
    commit(&store, &id, vec![create(alice()), put(user("answer", "x")), open("r1"), put_plan("r1", &first)])
        .await;
    assert_eq!(store.last_plan(&id, usize::MAX).await.unwrap(), None, "the run is still open");
    let fewer = plan("Another goal", &["s2", "s1"]);
    commit(&store, &id, vec![put_plan("r1", &first), put_plan("r1", &fewer), close("r1")]).await;
    assert_eq!(store.last_plan(&id, usize::MAX).await.unwrap(), Some(fewer));
    assert_eq!(store.last_plan(&chat("b"), usize::MAX).await.unwrap(), None);
}

async fn the_plan_of_the_last_run_that_is_over_counts(store: AnyStore) {
    let id = chat("a");
    commit_at(&*store, &id, at(0), vec![create(alice()), put(user("0", "x")), put(user("answer", "x"))])
        .await
        .unwrap();
    for (second, run) in [(1, "r2"), (2, "r1"), (3, "r3")] {
        let mut changes = vec![open(run)];
        if run != "r3" {
            changes.push(put_plan(run, &plan(run, &["s1"])));
        }
        changes.push(close(run));
        commit_at(&*store, &id, at(second), changes).await.unwrap();
    }
    for (most, expected) in [(usize::MAX, Some("r1")), (2, Some("r1")), (1, None)] {
        let found = store.last_plan(&id, most).await.unwrap();
        assert_eq!(found.map(|plan| plan.goal).as_deref(), expected, "of the first {most} messages");
    }
    commit_at(&*store, &id, at(4), vec![Change::TruncateMessages { keep: 1 }]).await.unwrap();
    assert_eq!(store.last_plan(&id, usize::MAX).await.unwrap(), None, "it goes with its message");
}

async fn an_open_run_takes_over_the_calls_of_one_that_is_over(store: AnyStore) {
    let id = chat("a");
    let made = [call("c", awaiting_approval()), call("b", executing())];
    commit(
        &store,
        &id,
        vec![create(alice()), open("r1"), put_call("r1", &made[0]), put_call("r1", &made[1])],
    )
    .await;
    let moved = Change::MoveCalls { from: run("r1"), to: run("r2") };
    commit(&store, &id, vec![close("r1"), open("r2"), moved, put_call("r2", &made[0])]).await;
    let resumed = store.chat(&id).await.unwrap().unwrap().open_run.unwrap();
    assert_eq!((resumed.id, resumed.calls), (run("r2"), made.to_vec()));
}

async fn each_state_of_a_plan_and_of_a_step_has_a_name(store: AnyStore) {
    let id = chat("a");
    commit(&store, &id, vec![create(alice()), put(user("answer", "x"))]).await;
    let steps = [
        PlanStepState::Todo,
        PlanStepState::Doing,
        PlanStepState::Done,
        PlanStepState::Failed,
        PlanStepState::Skipped,
    ];
    let states = [PlanState::Proposed, PlanState::Accepted, PlanState::Denied, PlanState::Done];
    for (index, state) in states.into_iter().enumerate() {
        let mut made = plan("goal", &["s1", "s2", "s3", "s4", "s5"]);
        made.state = state;
        for (step, state) in made.steps.iter_mut().zip(steps) {
            step.state = state;
        }
        let run = format!("r{index}");
        let changes: Vec<Change> = vec![open(&run), put_plan(&run, &made), close(&run)];
        commit_at(&*store, &id, at(i64::try_from(index).unwrap()), changes).await.unwrap();
        assert_eq!(store.last_plan(&id, usize::MAX).await.unwrap(), Some(made));
    }
}

async fn an_open_plan_is_dropped(store: AnyStore) {
    let id = chat("a");
    let made = plan("goal", &["s1"]);
    commit(
        &store,
        &id,
        vec![create(alice()), put(user("answer", "x")), open("r1"), put_plan("r1", &made), close("r1")],
    )
    .await;
    commit(&store, &id, vec![Change::DropPlan]).await;
    let dropped = store.last_plan(&id, usize::MAX).await.unwrap().unwrap();
    assert_eq!((dropped.state, dropped.steps), (PlanState::Denied, made.steps));
}
