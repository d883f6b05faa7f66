//! Runs that wait for their browser, with their streams open: what they cost, and how soon an answer is seen.

use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use futures::{
    StreamExt, TryStreamExt,
    future::{try_join, try_join_all},
    stream,
};
use serde_json::json;

use crate::{
    client::{Body, Client},
    load::{END, Percentiles, percentiles},
    model::Script,
    target::{Asking, Target},
};

/// The number of requests under way at a time while runs are parked or answered.
const AT_ONCE: usize = 64;

/// Runs that are parked.
pub struct Parked {
    runs: Vec<Run>,
}

/// A parked run, whose stream is open.
struct Run {
    chat: String,
    call: String,
    body: Body,
    // The stream ends with its connection.
    _client: Client,
}

// === impl Parked ===

impl Parked {
    pub fn new() -> Self {
        Self { runs: Vec::new() }
    }

    /// Parks more runs until there are so many. Returns the memory of each of the new ones in bytes.
    pub async fn grow(&mut self, target: &Target, runs: usize) -> anyhow::Result<f64> {
        let before = target.process.memory()?;
        let parked: Vec<Run> = stream::iter(self.runs.len()..runs)
            .map(|number| async move {
                let client = Client::connect_from(loopback_of(number), target.address).await?;
                park(target, client, "1h").await
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        let added = parked.len();
        self.runs.extend(parked);
        // What was only needed to park them goes back meanwhile.
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok((target.process.memory()? as f64 - before as f64) / added as f64)
    }

    /// Answers some of the runs, one after the other. Returns the time from each answer to its chunk on the stream.
    pub async fn answer_one_by_one(&mut self, target: &Target, runs: usize) -> anyhow::Result<Percentiles> {
        let mut client = Client::connect(target.address).await?;
        let mut times = Vec::with_capacity(runs);
        for _ in 0..runs {
            let mut run = self.runs.pop().context("no run is parked")?;
            let begin = Instant::now();
            let answering = answer(&mut client, &run.chat, &run.call);
            let reading = read_until(&mut run.body, b"tool-output-available");
            times.push(try_join(answering, reading).await?.1.1 - begin);
            run.body.read_all().await?;
        }
        Ok(percentiles(times))
    }

    /// Returns the number of runs that are parked.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Answers all runs and reads their streams to the end. Returns the time that takes.
    pub async fn answer_all(&mut self, target: &Target) -> anyhow::Result<Duration> {
        let clients = try_join_all((0..AT_ONCE).map(|_| Client::connect(target.address))).await?;
        let mut runs = std::mem::take(&mut self.runs);
        let share = runs.len().div_ceil(clients.len());
        let begin = Instant::now();
        try_join_all(clients.into_iter().map(|mut client| {
            let own = runs.split_off(runs.len().saturating_sub(share));
            async move {
                for run in &own {
                    answer(&mut client, &run.chat, &run.call).await?;
                }
                for run in own {
                    let end = run.body.read_all().await?;
                    ensure!(end.ends_with(END), "a stream broke off: {end:?}");
                }
                Ok(())
            }
        }))
        .await?;
        Ok(begin.elapsed())
    }
}

/// Parks runs whose readers are sent away at once. Returns the memory of each of them in bytes.
pub async fn detached(target: &Target, runs: usize) -> anyhow::Result<f64> {
    let before = target.process.memory()?;
    stream::iter(0..runs)
        .map(|_| async {
            let client = Client::connect(target.address).await?;
            park(target, client, "10ms").await?.body.read_all().await
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(async |_| Ok(()))
        .await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    Ok((target.process.memory()? as f64 - before as f64) / runs as f64)
}

/// The address from which the stream of a run is opened. All of 127.0.0.0/8 are addresses of this machine.
fn loopback_of(number: usize) -> Ipv4Addr {
    const STREAMS_OF_AN_ADDRESS: usize = 20_000;
    Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + (number / STREAMS_OF_AN_ADDRESS) as u32)
}

async fn park(target: &Target, mut client: Client, hold: &str) -> anyhow::Result<Run> {
    let parameters = json!({"type": "object", "properties": {}});
    let asking = Asking {
        script: Script::Call,
        more: json!({"tools": {"get_location": {"parameters": parameters}}, "fermata": {"hold": hold}}),
    };
    let (chat, mut body) = target.ask(&mut client, asking).await?;
    let (text, _) = read_until(&mut body, b"tool-input-available").await?;
    let call = text.rsplit_once("\"toolCallId\":\"").and_then(|(_, rest)| rest.split_once('"'));
    let call = call.context("a call without an id")?.0.to_owned();
    Ok(Run { chat, call, body, _client: client })
}

async fn answer(client: &mut Client, chat: &str, call: &str) -> anyhow::Result<()> {
    let body = json!({"chatId": chat, "toolCallId": call, "output": {"city": "Bern"}});
    client.post("/chat/tool-result", body.to_string()).await?.read_all().await?;
    Ok(())
}

/// Reads until these bytes have come. Returns everything that has come, and when the last of it did.
async fn read_until(body: &mut Body, wanted: &[u8]) -> anyhow::Result<(String, Instant)> {
    let mut text = Vec::new();
    while let Some((piece, at)) = body.next().await? {
        text.extend_from_slice(&piece);
        if memchr::memmem::find(&text, wanted).is_some() {
            return Ok((String::from_utf8(text)?, at));
        }
    }
    anyhow::bail!("the stream ended without {}", String::from_utf8_lossy(wanted))
}
