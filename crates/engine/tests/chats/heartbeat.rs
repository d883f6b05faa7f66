//! The heartbeats of an instance that is busy.

use std::{sync::mpsc, time::Duration};

use crate::world::World;

/// The time limit of the test.
const TIMEOUT: Duration = Duration::from_secs(60);
const WORKERS: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_threads_are_all_busy_still_sends_heartbeats() {
    let world = World::first();
    let (sender, heartbeats) = mpsc::channel();
    *world.store.heartbeats.lock().unwrap() = Some(sender);
    heartbeats.recv_timeout(TIMEOUT).unwrap();

    let (is_busy, busy) = mpsc::channel();
    let mut ends = Vec::new();
    for _ in 0..WORKERS {
        let (end, ended) = mpsc::channel::<()>();
        let is_busy = is_busy.clone();
        ends.push(end);
        tokio::spawn(async move {
            is_busy.send(()).unwrap();
            // A chat actor that computes for minutes does the same.
            let _ = ended.recv_timeout(TIMEOUT);
        });
    }
    for _ in 0..WORKERS {
        busy.recv_timeout(TIMEOUT).unwrap();
    }
    // Heartbeats from before the last thread became busy do not count.
    while heartbeats.try_recv().is_ok() {}
    for _ in 0..2 {
        heartbeats.recv_timeout(TIMEOUT / 2).expect("a heartbeat");
    }
    drop(ends);
    world.engine.shutdown().await;
    while heartbeats.try_recv().is_ok() {}
    assert!(world.store.joined().is_some());
}
