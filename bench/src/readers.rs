//! Many readers of one run.

use std::{process::Command, sync::atomic::AtomicUsize, time::Duration};

use futures::future::{try_join, try_join_all};

use crate::{
    client::{Body, Client},
    load::{Percentiles, percentiles, read_times},
    model::Script,
    process::{Cores, Process},
    target::{Asking, Target},
};

/// The number of deltas of the run.
pub const DELTAS: usize = 200;
/// The pause before each delta.
pub const PAUSE: Duration = Duration::from_millis(20);

/// The time and the work until all readers have read a delta.
pub struct Reading {
    /// For how long a delta is on its way to a reader.
    pub way: Percentiles,
    /// The CPU time of a delta, for all readers together.
    pub cpu: Duration,
}

/// Measures readers of one run.
pub async fn readers(target: &Target, readers: usize) -> anyhow::Result<Reading> {
    let mut clients = try_join_all((1..readers).map(|_| Client::connect(target.address))).await?;
    let mut client = Client::connect(target.address).await?;
    let (chat, body) = target.ask(&mut client, Asking::plain(Script::Paced(DELTAS, PAUSE))).await?;
    let path = format!("/api/chat/{chat}/stream");
    let others = try_join_all(clients.iter_mut().map(|client| client.get(&path))).await?;
    read(&target.process, others.into_iter().chain([body])).await
}

/// Measures as many readers of a process that only writes.
pub async fn yardstick(cores: &Cores, readers: usize) -> anyhow::Result<Reading> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--fan-out").arg(readers.to_string());
    let (process, address) = cores.start_with_address(&mut command)?;
    let mut clients = try_join_all((0..readers).map(|_| Client::connect(address))).await?;
    let bodies = try_join_all(clients.iter_mut().map(|client| client.get("/"))).await?;
    read(&process, bodies).await
}

async fn read(process: &Process, bodies: impl IntoIterator<Item = Body>) -> anyhow::Result<Reading> {
    let received = AtomicUsize::new(0);
    let meter = async {
        tokio::time::sleep(PAUSE * 40).await;
        let before = process.cpu()?;
        tokio::time::sleep(PAUSE * 100).await;
        Ok((process.cpu()? - before) / 100)
    };
    let reading = try_join_all(bodies.into_iter().map(|body| read_times(body, &received)));
    let (times, cpu) = try_join(reading, meter).await?;
    // Readers that come later catch up first, which is no delta's way.
    let live = times.into_iter().flat_map(|times| times.into_iter().skip(DELTAS / 4));
    Ok(Reading { way: percentiles(live.collect()), cpu })
}
