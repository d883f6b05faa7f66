//! An instance that is busy says that it is alive all the same.

use std::{sync::mpsc, time::Duration};

use crate::world::World;

/// Says only when hope is lost.
const HOPELESS: Duration = Duration::from_secs(60);
const WORKERS: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_threads_are_all_busy_goes_on_saying_that_it_is_alive() {
    let world = World::first();
    let (said, beats) = mpsc::channel();
    *world.store.beats.lock().unwrap() = Some(said);
    beats.recv_timeout(HOPELESS).unwrap();

    let (is_busy, busy) = mpsc::channel();
    let mut ends = Vec::new();
    for _ in 0..WORKERS {
        let (end, ended) = mpsc::channel::<()>();
        let is_busy = is_busy.clone();
        ends.push(end);
        tokio::spawn(async move {
            is_busy.send(()).unwrap();
            // As a driver that computes for minutes does.
            let _ = ended.recv_timeout(HOPELESS);
        });
    }
    for _ in 0..WORKERS {
        busy.recv_timeout(HOPELESS).unwrap();
    }
    // What was said before the last thread became busy does not count.
    while beats.try_recv().is_ok() {}
    for _ in 0..2 {
        beats.recv_timeout(HOPELESS / 2).expect("it says that it is alive");
    }
    drop(ends);
    world.engine.shutdown().await;
    while beats.try_recv().is_ok() {}
    assert!(world.store.joined().is_some());
}
