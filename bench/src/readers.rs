//! Many readers of one run.

use std::{sync::atomic::AtomicUsize, time::Duration};

use futures::future::{try_join, try_join_all};

use crate::{
    client::Client,
    load::{Percentiles, percentiles, read_times},
    model::Script,
    target::{Asking, Target},
};

/// Returns how long a delta is on its way to readers of one run, and the CPU time of one delta for all of them together.
pub async fn readers(target: &Target, readers: usize) -> anyhow::Result<(Percentiles, Duration)> {
    const DELTAS: usize = 150;
    const PAUSE: Duration = Duration::from_millis(20);
    let mut clients = try_join_all((1..readers).map(|_| Client::connect(target.address))).await?;
    let mut client = Client::connect(target.address).await?;
    let received = AtomicUsize::new(0);
    let (chat, body) = target.ask(&mut client, Asking::plain(Script::Paced(DELTAS, PAUSE))).await?;
    let path = format!("/api/chat/{chat}/stream");
    let others = clients.iter_mut().map(async |client| {
        let body = client.get(&path).await?;
        read_times(body, &received).await
    });
    let meter = async {
        tokio::time::sleep(PAUSE * 40).await;
        let before = target.process.cpu()?;
        tokio::time::sleep(PAUSE * 100).await;
        Ok((target.process.cpu()? - before) / 100)
    };
    let reading = try_join(read_times(body, &received), try_join_all(others));
    let ((first, others), cpu) = try_join(reading, meter).await?;
    // Readers that come later catch up first, which is no delta's way.
    let live = |times: Vec<Duration>| times.into_iter().skip(DELTAS / 4);
    let times = live(first).chain(others.into_iter().flat_map(live)).collect();
    Ok((percentiles(times), cpu))
}
