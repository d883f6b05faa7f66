//! Puts load on a target, and measures what that costs.

use std::{
    io::Write,
    sync::atomic::{AtomicIsize, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use anyhow::ensure;
use futures::future::{try_join, try_join_all};

use crate::{
    client::{Body, Client},
    distance::Distance,
    model::{MARK, Script, clock},
    target::{Asking, Target},
};

/// The end of every answer.
pub const END: &[u8] = b"data: [DONE]\n\n";

/// The CPU time of a request, and how many there were in a second.
pub struct Short {
    pub cpu: Duration,
    pub per_second: f64,
}

/// The middle and the slow end of many times.
pub struct Percentiles {
    pub p50: Duration,
    pub p99: Duration,
}

/// Returns how long it takes to have 4 kB more of a file on the disk, where the databases are, too.
pub fn fsync() -> anyhow::Result<Duration> {
    let mut file = tempfile::tempfile()?;
    let times = (0..200).map(|_| {
        let begin = Instant::now();
        file.write_all(&[1; 4096])?;
        file.sync_data()?;
        Ok(begin.elapsed())
    });
    Ok(percentiles(times.collect::<std::io::Result<_>>()?).p50)
}

/// Has connections made and code loaded before anything is measured.
pub async fn warm_up(target: &Target) -> anyhow::Result<()> {
    short_from(target, 32, 64).await?;
    Ok(())
}

/// Returns the CPU time of a delta, if 32 answers of 1,000 deltas come as fast as they can.
pub async fn burst(target: &Target) -> anyhow::Result<Duration> {
    const BURSTS: usize = 5;
    const ANSWERS: usize = 32;
    const DELTAS: usize = 1_000;
    let before = target.process.cpu()?;
    for _ in 0..BURSTS {
        try_join_all((0..ANSWERS).map(|_| async {
            let mut client = Client::connect(target.address).await?;
            let (_, body) = target.ask(&mut client, Asking::plain(Script::Burst(DELTAS))).await?;
            read_deltas(body, DELTAS).await
        }))
        .await?;
    }
    Ok((target.process.cpu()? - before) / count(BURSTS * ANSWERS * DELTAS))
}

/// Returns the CPU time of a delta, if 200 answers have one each 20 ms. Beginning and ending the answers does not count.
pub async fn paced(target: &Target) -> anyhow::Result<Duration> {
    const ANSWERS: usize = 200;
    const DELTAS: usize = 250;
    let received = AtomicUsize::new(0);
    let meter = async {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let (cpu, deltas) = (target.process.cpu()?, received.load(Ordering::Relaxed));
        tokio::time::sleep(Duration::from_millis(3_000)).await;
        Ok((target.process.cpu()? - cpu) / count(received.load(Ordering::Relaxed) - deltas))
    };
    Ok(try_join(meter, paced_answers(target, ANSWERS, DELTAS, &received)).await?.0)
}

/// Returns how long a delta is on its way from the model to a client, if 20 answers have one each 20 ms.
pub async fn latency(target: &Target) -> anyhow::Result<Percentiles> {
    Ok(percentiles(paced_answers(target, 20, 150, &AtomicUsize::new(0)).await?))
}

/// Returns what a short answer costs, if so many clients each ask one question after the other.
pub async fn short(target: &Target, clients: usize) -> anyhow::Result<Short> {
    let requests = 2_000;
    let (before, begin) = (target.process.cpu()?, Instant::now());
    short_from(target, clients, requests).await?;
    let cpu = (target.process.cpu()? - before) / count(requests);
    Ok(Short { cpu, per_second: requests as f64 / begin.elapsed().as_secs_f64() })
}

/// Returns the number of requests per second, and that of round trips to the database for each of those that follow one another.
pub async fn short_far_away(target: &Target, distance: &Distance) -> anyhow::Result<(f64, f64)> {
    let requests = 100;
    let before = distance.trips();
    short_from(target, 1, requests).await?;
    let trips = (distance.trips() - before) as f64 / requests as f64;
    Ok((short(target, 32).await?.per_second, trips))
}

/// Returns how long 32 clients that ask at the same time wait for the first event, in the middle.
pub async fn first_event(target: &Target) -> anyhow::Result<Duration> {
    let mut clients = try_join_all((0..32).map(|_| Client::connect(target.address))).await?;
    let mut times = Vec::new();
    for _ in 0..20 {
        let asked = clients.iter_mut().map(|client| async {
            let begin = Instant::now();
            let (_, mut body) = target.ask(client, Asking::plain(Script::Burst(20))).await?;
            let first = body.next().await?;
            ensure!(first.is_some(), "an empty answer");
            let time = begin.elapsed();
            body.read_all().await?;
            Ok(time)
        });
        times.extend(try_join_all(asked).await?);
    }
    Ok(percentiles(times).p50)
}

async fn short_from(target: &Target, clients: usize, requests: usize) -> anyhow::Result<()> {
    const DELTAS: usize = 20;
    let left = AtomicIsize::new(isize::try_from(requests)?);
    let left = &left;
    try_join_all((0..clients).map(|_| async move {
        let mut client = Client::connect(target.address).await?;
        while left.fetch_sub(1, Ordering::Relaxed) > 0 {
            let (_, body) = target.ask(&mut client, Asking::plain(Script::Burst(DELTAS))).await?;
            read_deltas(body, DELTAS).await?;
        }
        anyhow::Ok(())
    }))
    .await?;
    Ok(())
}

/// Reads an answer to its end, and checks that nothing of it is missing.
async fn read_deltas(mut body: Body, deltas: usize) -> anyhow::Result<()> {
    let mut marks = 0;
    let mut end = Vec::new();
    while let Some((piece, _)) = body.next().await? {
        marks += memchr::memchr_iter(MARK, &piece).count();
        // The end may be cut anywhere.
        let kept = piece.len().saturating_sub(END.len());
        end.extend_from_slice(&piece[kept..]);
        end.drain(..end.len().saturating_sub(END.len()));
    }
    ensure!(marks == deltas, "{marks} deltas came of {deltas}");
    ensure!(end == END, "the answer broke off");
    Ok(())
}

/// Returns for how long each delta of so many answers was on its way.
async fn paced_answers(
    target: &Target,
    answers: usize,
    deltas: usize,
    received: &AtomicUsize,
) -> anyhow::Result<Vec<Duration>> {
    const PAUSE: Duration = Duration::from_millis(20);
    let times = try_join_all((0..answers).map(|answer| async move {
        // They do not all speak at the same moment.
        tokio::time::sleep(PAUSE * count(answer) / count(answers)).await;
        let mut client = Client::connect(target.address).await?;
        let (_, body) = target.ask(&mut client, Asking::plain(Script::Paced(deltas, PAUSE))).await?;
        let times = read_times(body, received).await?;
        ensure!(times.len() == deltas, "{} deltas came of {deltas}", times.len());
        Ok(times)
    }))
    .await?;
    Ok(times.concat())
}

/// Reads an answer to its end. Returns for how long each delta was on its way, and counts them as they come.
pub async fn read_times(mut body: Body, received: &AtomicUsize) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    while let Some((piece, _)) = body.next().await? {
        let now = clock();
        for mark in memchr::memchr_iter(MARK, &piece) {
            let digits = piece[mark + 1..].iter().take_while(|byte| byte.is_ascii_digit());
            let written = digits.fold(0_u128, |number, digit| number * 10 + u128::from(digit - b'0'));
            times.push(Duration::from_micros(u64::try_from(now.saturating_sub(written))?));
            received.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(times)
}

pub fn percentiles(mut times: Vec<Duration>) -> Percentiles {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    Percentiles { p50: at(50), p99: at(99) }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
