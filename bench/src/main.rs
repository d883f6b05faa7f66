//! Measures the built server under load: `cargo run --release -p fermata-bench -- --server target/release/fermata`.
//!
//! The server runs on one core, and everything else on another: the clients and a model API that answers at once. A byte proxy, which
//! understands nothing of what it passes on, does the same work in the same run and is the yardstick, so that a figure says something on
//! any machine. docs/contributing/performance.md says what each figure means and what limits it.

mod client;
mod distance;
mod fan_out;
mod load;
mod model;
mod parked;
mod process;
mod proxy;
mod readers;
mod table;
mod target;

use std::{path::PathBuf, time::Duration};

use anyhow::Context;
use clap::{Parser, ValueEnum};
use url::Url;

use self::{
    distance::{Database, Distance},
    model::ModelApi,
    process::Cores,
    table::{Table, Unit},
    target::{Kind, Target, Targets},
};

/// The time in which the allocator gives back what is free: it begins after ten seconds, and does it little by little.
const SETTLING: Duration = Duration::from_secs(30);

/// Measures the built server under load.
#[derive(Parser)]
struct Options {
    /// The binary to measure.
    #[arg(long, default_value = "target/release/fermata")]
    server: PathBuf,
    /// The number of times that everything is measured; medians are printed.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The figures to measure; all of them if none is named.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Figure>,
    /// The number of runs that are parked.
    #[arg(long, default_value_t = 10_000)]
    parked: usize,
    /// Measure also nginx and the AI SDK on Node, which have to be installed.
    #[arg(long)]
    peers: bool,
    /// The script of the AI SDK's server, beside its packages.
    #[arg(long, default_value = "e2e/bench/ai-sdk-server.mjs")]
    ai_sdk: PathBuf,
    /// A PostgreSQL server, on which a database is made and dropped with psql. Without one it is not measured.
    #[arg(long)]
    postgres: Option<Url>,
    /// Be the byte proxy in front of this address, for the measuring process.
    #[arg(long, hide = true)]
    proxy_of: Option<std::net::SocketAddr>,
    /// Be the yardstick for so many readers, for the measuring process.
    #[arg(long, hide = true)]
    fan_out: Option<usize>,
}

/// A figure, or several that are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Figure {
    /// 32 answers of 1,000 deltas, as fast as they come.
    Burst,
    /// 200 answers with a delta each 20 ms, and how long a delta takes with 20 of them.
    Paced,
    /// Answers of 20 deltas, one after the other from 32 and from 200 clients.
    Short,
    /// Runs that wait with their streams open: what they cost, and how soon an answer is seen.
    Parked,
    /// One run with 1, 10 and 1,000 readers.
    Readers,
    /// The time until the server is ready with an empty database, and with runs that wait in it; its memory while it is idle.
    Start,
    /// Short answers on PostgreSQL that is 2.4 ms away.
    Postgres,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if let Some(upstream) = options.proxy_of {
        return runtime.block_on(proxy::serve(upstream));
    }
    if let Some(readers) = options.fan_out {
        return fan_out::serve(readers);
    }
    process::raise_file_limit()?;
    let cores = Cores::choose()?;
    runtime.block_on(measure(&options, &cores))
}

#[expect(clippy::print_stderr, reason = "a run takes minutes")]
async fn measure(options: &Options, cores: &Cores) -> anyhow::Result<()> {
    let model = ModelApi::start().await?;
    let targets = Targets { server: &options.server, model: &model, cores };
    let mut table = Table::new();
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        table.note_machine("the disk: an fsync of 4 kB, p50", Unit::Micros, micros(load::fsync()?));
        for kind in Kind::ALL {
            let target = match kind {
                Kind::Proxy => targets.proxy().await?,
                Kind::Fermata => targets.fermata().await?,
                Kind::Nginx | Kind::AiSdk if !options.peers => continue,
                Kind::Nginx => targets.nginx("nginx").await?,
                Kind::AiSdk => targets.ai_sdk(&options.ai_sdk).await?,
            };
            measure_target(options, &target, &mut table)
                .await
                .with_context(|| format!("{}: {}", kind.name(), target.log()))?;
        }
        if options.wants(Figure::Parked) {
            let server = targets.fermata().await?;
            measure_parked(options.parked, &server, &mut table).await.with_context(|| server.log())?;
        }
        if options.wants(Figure::Readers) {
            let server = targets.fermata().await?;
            measure_readers(&server, cores, &mut table).await.with_context(|| server.log())?;
        }
        if options.wants(Figure::Start) {
            measure_start(options.parked, &targets, &mut table).await?;
        }
        if let Some(url) = &options.postgres
            && options.wants(Figure::Postgres)
        {
            measure_postgres(url, &targets, &mut table).await.context("PostgreSQL")?;
        }
    }
    table.print();
    Ok(())
}

async fn measure_start(runs: usize, targets: &Targets<'_>, table: &mut Table) -> anyhow::Result<()> {
    // Once before it counts, so that the program's pages are in memory.
    drop(targets.fermata().await?);
    let (target, time) = targets.start_new().await?;
    table.note(&target, "start: ready with an empty database", Unit::Millis, millis(time));
    tokio::time::sleep(SETTLING).await;
    let (all, own) = (target.process.memory()?, target.process.own_memory()?);
    table.note(&target, "idle: memory", Unit::Megabytes, megabytes(all));
    table.note(&target, "idle: memory without the program's file", Unit::Megabytes, megabytes(own));
    parked::detached(&target, runs).await.with_context(|| target.log())?;
    let (target, time) = targets.start_again(target).await?;
    let name = format!("start: ready with {runs} runs that wait");
    table.note(&target, &name, Unit::Millis, millis(time));
    Ok(())
}

async fn measure_postgres(url: &Url, targets: &Targets<'_>, table: &mut Table) -> anyhow::Result<()> {
    const ROUND_TRIP: Duration = Duration::from_micros(2_400);
    let host = url.host_str().context("the URL names no host")?;
    let address = tokio::net::lookup_host((host, url.port().unwrap_or(5432))).await?.next();
    let distance = Distance::to(address.context("the host has no address")?, ROUND_TRIP).await?;
    let database = Database::create(url)?;
    let mut near = database.url.clone();
    near.set_ip_host(distance.address.ip()).ok().context("the URL takes no address")?;
    near.set_port(Some(distance.address.port())).ok().context("the URL takes no port")?;
    let target = targets.fermata_on_postgres(near.as_str()).await?;
    let measuring = async {
        load::warm_up(&target).await?;
        let (per_second, trips) = load::short_far_away(&target, &distance).await?;
        table.note(&target, "PostgreSQL 2.4 ms away: round trips of a short answer", Unit::Times, trips);
        table.note(
            &target,
            "PostgreSQL 2.4 ms away, 32 clients: requests per second",
            Unit::PerSecond,
            per_second,
        );
        anyhow::Ok(())
    };
    measuring.await.with_context(|| target.log())
}

async fn measure_parked(runs: usize, target: &Target, table: &mut Table) -> anyhow::Result<()> {
    load::warm_up(target).await?;
    let idle = target.process.memory()?;
    table.note(target, "parked: memory before any run", Unit::Megabytes, megabytes(idle));
    let detached = parked::detached(target, runs.min(10_000)).await?;
    table.note(target, "parked: memory of a run without readers", Unit::Kilobytes, detached / 1e3);
    let mut parked = parked::Parked::new();
    for runs in [runs / 10, runs] {
        let name = format!("parked: memory of each of {runs} runs, with its stream");
        table.note(target, &name, Unit::Kilobytes, parked.grow(target, runs).await? / 1e3);
    }
    let answers = parked.answer_one_by_one(target, 1_000.min(runs / 10)).await?;
    table.note(target, "parked: answer to chunk, p50", Unit::Micros, micros(answers.p50));
    table.note(target, "parked: answer to chunk, p99", Unit::Micros, micros(answers.p99));
    let others = u32::try_from(parked.len())?;
    let (before, time) = (target.process.cpu()?, parked.answer_all(target).await?);
    table.note(target, "parked: all others are answered at once", Unit::Seconds, time.as_secs_f64());
    let cpu = (target.process.cpu()? - before) / others;
    table.note(target, "parked: CPU for each of these", Unit::Micros, micros(cpu));
    tokio::time::sleep(SETTLING).await;
    table.note(
        target,
        "parked: memory when all are over",
        Unit::Megabytes,
        megabytes(target.process.memory()?),
    );
    Ok(())
}

async fn measure_readers(target: &Target, cores: &Cores, table: &mut Table) -> anyhow::Result<()> {
    load::warm_up(target).await?;
    for readers in [1, 10, 1_000] {
        let name = |what| format!("{readers} readers of a run: {what}");
        let (way, cpu) = (name("a delta's way, p50"), name("CPU for each delta"));
        let yardstick = readers::yardstick(cores, readers).await?;
        table.note_machine(&way, Unit::Micros, micros(yardstick.way.p50));
        table.note_machine(&cpu, Unit::Micros, micros(yardstick.cpu));
        let reading = readers::readers(target, readers).await?;
        table.note(target, &way, Unit::Micros, micros(reading.way.p50));
        table.note(target, &cpu, Unit::Micros, micros(reading.cpu));
    }
    Ok(())
}

async fn measure_target(options: &Options, target: &Target, table: &mut Table) -> anyhow::Result<()> {
    load::warm_up(target).await?;
    if options.wants(Figure::Burst) {
        let burst = load::burst(target).await?;
        table.note(target, "burst: CPU for each delta", Unit::Micros, micros(burst));
    }
    if options.wants(Figure::Paced) {
        let cpu = load::paced(target).await?;
        table.note(target, "paced: CPU for each delta", Unit::Micros, micros(cpu));
        let latency = load::latency(target).await?;
        table.note(target, "paced: a delta's way, p50", Unit::Micros, micros(latency.p50));
        table.note(target, "paced: a delta's way, p99", Unit::Micros, micros(latency.p99));
    }
    if options.wants(Figure::Short) {
        for clients in [32, 200] {
            let short = load::short(target, clients).await?;
            let name = |what| format!("short, {clients} clients: {what}");
            table.note(target, &name("CPU for each request"), Unit::Micros, micros(short.cpu));
            table.note(target, &name("requests per second"), Unit::PerSecond, short.per_second);
        }
        let first = load::first_event(target).await?;
        table.note(target, "short: first event, 32 at once, p50", Unit::Micros, micros(first));
    }
    Ok(())
}

// === impl Options ===

impl Options {
    fn wants(&self, figure: Figure) -> bool {
        self.only.is_empty() || self.only.contains(&figure)
    }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
