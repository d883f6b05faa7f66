//! The binary: settings, log, sockets and an orderly shutdown.

mod log;

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use fermata_providers::Provider;
use fermata_server::{
    App, Demo, audit, backup,
    config::{
        AuditCommand, Config, ConfigError, DataCommand, Invocation, OperatorCommand, OutboxCommand,
        PolicyCommand, warnings_of_variables,
    },
    drain, first_start, health,
    mcp_check::{self, McpReport},
    migrate, operators_site, outbox, personal_data, policy_dry_run, prompt_preview,
    reload::Reloader,
    running::RunningServer,
    serve::{ConnectionLimits, Server},
    site,
    sockets::{Inherited, Sockets},
    telemetry::MetricsExporter,
    warnings_of_fallbacks, when_full,
};
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind},
    sync::Notify,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::log::LogWriter;

/// The system's allocator keeps the memory that large requests have used; this one returns it within seconds.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The time that open connections have to end after they were asked to.
const GRACE: Duration = Duration::from_secs(10);
/// The limit on concurrent connections to the operators' address.
const OPERATOR_CONNECTIONS: usize = 64;
/// The time that the last lines of the log have to be written. Nobody may be reading them.
const LAST_LINES: Duration = Duration::from_secs(2);
const NO_SIGNALS: &str = "cannot listen for signals";

/// Has the last lines of the log written when the program ends, even if it panics.
struct Flushed<'a>(&'a LogWriter);

/// The signals that shut the server down.
struct ShutdownSignals {
    terminate: Signal,
    interrupt: Signal,
    /// The terminal was closed.
    closed: Arc<Notify>,
}

fn main() -> ExitCode {
    let log = match LogWriter::start(io::stderr()) {
        Ok(log) => log,
        Err(error) => {
            // There is nowhere else to report this.
            let _ = writeln!(io::stderr(), "fermata: cannot start the thread that writes the log: {error}");
            return ExitCode::FAILURE;
        }
    };
    let _flushed = Flushed(&log);
    match start(&log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The reason why the server does not run must be seen with every filter of the log.
            log.put(format!("fermata: {error:#}\n").as_bytes());
            ExitCode::FAILURE
        }
    }
}

fn start(log: &LogWriter) -> anyhow::Result<()> {
    let invocation = match read_settings() {
        Ok(invocation) => invocation,
        Err(ConfigError::Usage(usage)) => usage.exit(),
        Err(error @ ConfigError::Bad(_)) => return Err(error.into()),
    };
    match invocation {
        Invocation::Serve(config) => {
            log::begin(config.server.log, log);
            for warning in warnings(&config) {
                tracing::warn!("{warning}");
            }
            // No other thread uses the environment yet.
            let inherited = Inherited::from_environment();
            runtime()?.block_on(serve(*config, inherited, log))
        }
        Invocation::Check(config, false) => print(report(&config)),
        Invocation::Check(config, true) => {
            print(report(&config))?;
            let McpReport { text, failed } = runtime()?.block_on(mcp_check::report(&config.tables.mcp));
            print(text)?;
            anyhow::ensure!(failed.is_empty(), "MCP servers are not connected: {}", failed.join(", "));
            Ok(())
        }
        Invocation::Print(text) => print(text),
        Invocation::Init(file) => print(first_start::init(&file)?),
        Invocation::Command(config, command) => runtime()?.block_on(run(&config, command)),
    }
}

async fn run(config: &Config, command: OperatorCommand) -> anyhow::Result<()> {
    let Config { database, server, .. } = config;
    print(match command {
        OperatorCommand::Policy(PolicyCommand::Test(call)) => policy_dry_run::report(config, &call).await?,
        OperatorCommand::Migrate => migrate::report(database).await?,
        OperatorCommand::Backup { file } => backup::back_up(database, &file)?,
        OperatorCommand::Restore { file } => backup::restore(database, &file)?,
        OperatorCommand::Data(DataCommand::Export { owner }) => {
            return Ok(personal_data::export(database, &owner).await?);
        }
        OperatorCommand::Data(DataCommand::Delete { owner }) => {
            personal_data::delete(database, &owner).await?
        }
        OperatorCommand::Audit(AuditCommand::Export(asked)) => {
            return Ok(audit::export::export(database, &asked).await?);
        }
        OperatorCommand::Audit(AuditCommand::Verify(asked)) => {
            let verified = audit::verify::report(database, &asked).await?;
            print(verified.text)?;
            anyhow::ensure!(
                verified.faults == 0,
                "the audit does not hold; faults found: {}",
                verified.faults
            );
            return Ok(());
        }
        OperatorCommand::Outbox { command: None } => outbox::list(database).await?,
        OperatorCommand::Outbox { command: Some(OutboxCommand::Retry { id }) } => {
            outbox::retry(database, &id).await?
        }
        OperatorCommand::Prompt { chat } => prompt_preview::report(config, &chat).await?,
        OperatorCommand::Chats(asked) => RunningServer::new(server, asked)?.chats().await?,
        OperatorCommand::Show { chat, asked } => RunningServer::new(server, asked)?.show(&chat).await?,
        OperatorCommand::Answer { answer, asked } => {
            RunningServer::new(server, asked)?.answer(&answer).await?
        }
        OperatorCommand::Health => return Ok(health::ask(server).await?),
        OperatorCommand::Drain { wait } => drain::ask(server, wait).await?,
    })
}

/// Returns the runtime of the program. On one core it has one thread: several would only take turns. It costs less to wake a task then, and
/// what is ready is done in order, so that the same code runs for many streams before the next does.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = match std::thread::available_parallelism() {
        Ok(cores) if cores.get() == 1 => tokio::runtime::Builder::new_current_thread(),
        Ok(_) | Err(_) => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.enable_all().build().context("cannot start the tokio runtime")
}

fn read_settings() -> Result<Invocation, ConfigError> {
    Invocation::read(std::env::args_os(), &|name| std::env::var(name).ok())
}

/// Returns a warning for each variable that looks like a setting and is none, and for each fallback that is no tool.
fn warnings(config: &Config) -> Vec<String> {
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let mut warnings =
        warnings_of_variables(std::env::vars_os().map(|(name, value)| (text(name), text(value))));
    warnings.extend(warnings_of_fallbacks(config));
    warnings
}

fn report(config: &Config) -> String {
    let mut report = config.report().to_string();
    for warning in warnings(config) {
        report += &format!("\n# warning: {warning}\n");
    }
    report
}

/// Writes a report to the standard output. It is not an error if the reader closes the pipe.
fn print(report: impl AsRef<[u8]>) -> anyhow::Result<()> {
    match io::stdout().write_all(report.as_ref()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

async fn serve(given: Config, inherited: Inherited, log: &LogWriter) -> anyhow::Result<()> {
    // This comes first, because the signal ends a process that does not listen for it.
    let hangups = tokio::signal::unix::signal(SignalKind::hangup()).context(NO_SIGNALS)?;
    // Another server of the same file would take the runs of this one.
    let _lock = fermata_store::lock(given.database.database_url.as_str())?;
    let Sockets { everybody: listener, operators, config } = Sockets::open(inherited, &given)?;
    let address = listener.local_addr().context("cannot read the address of the socket")?;
    let app = App::build(&config).await?;
    log.count_in(app.metrics().log_lines_lost());
    let mut signals = ShutdownSignals::listen()?;
    let version = fermata_engine::version();
    tracing::info!(version, "listening on http://{address}, answered by the model {}", app.model());
    first_start::tell(&given, &config);
    if config.model.model.is_none()
        && let Ok(Provider::OpenAi(api)) = config.provider()
    {
        tracing::info!(
            "FERMATA_MODEL is not set, so the default model of this API is asked for: {}",
            api.model
        );
    }
    if config.model.model.is_some()
        && config.model.openai_api_key.is_none()
        && config.model.openai_base_url.is_none()
    {
        tracing::warn!(
            "the settings name a model, but neither OPENAI_API_KEY nor OPENAI_BASE_URL is set, so the demo model answers"
        );
    }
    let routes = site(app.clone(), Demo::built());
    let server = Server {
        when_full: when_full(app.clone(), routes.clone()),
        routes,
        limits: ConnectionLimits::of(&config),
        proxies: app.auth().proxies().clone(),
        draining: app.draining().clone(),
        shares_port: config.server.reuse_port,
    };
    let shutdown = CancellationToken::new();
    let reloader = Reloader::new(app.clone(), given, Box::new(read_settings));
    let tasks = TaskTracker::new();
    tasks.spawn(shutdown.clone().run_until_cancelled_owned(first_start::mention_ollama(config.clone())));
    tasks.spawn(tidy_metrics(app.clone(), shutdown.clone()));
    if let Some(exporter) = MetricsExporter::of(&config.telemetry)? {
        let app = app.clone();
        tasks.spawn(exporter.run(move || app.metrics_text(), shutdown.clone()));
    }
    tasks.spawn(reloader.on_signal(hangups, signals.closed.clone(), shutdown.clone()));
    if let Some(listener) = operators {
        tracing::info!("listening for operators on http://{}", listener.local_addr()?);
        let limits = ConnectionLimits { connections: OPERATOR_CONNECTIONS, ..server.limits };
        // Those beyond the limit are served alike.
        let routes = operators_site(app.clone());
        let server =
            Server { when_full: routes.clone(), routes, limits, shares_port: false, ..server.clone() };
        tasks.spawn(serve_operators(server, listener, shutdown.clone()));
    }
    let serving = async {
        tokio::select! {
            () = server.serve(listener, shutdown.clone()) => {}
            () = grace(&shutdown) => {
                let after = humantime::format_duration(GRACE);
                tracing::warn!(%address, "connections were still open {after} after the shutdown began and were closed");
            }
        }
        shutdown.cancel();
        tasks.close();
        tasks.wait().await;
        app.close().await;
        Ok(())
    };
    tokio::select! {
        ended = serving => ended,
        () = signals.shut_down(&app, &shutdown) => {
            log.flush(LAST_LINES);
            std::process::exit(1)
        }
    }
}

async fn serve_operators(server: Server, listener: TcpListener, shutdown: CancellationToken) {
    tokio::select! {
        () = server.serve(listener, shutdown.clone()) => {}
        () = grace(&shutdown) => {}
    }
}

async fn tidy_metrics(app: App, shutdown: CancellationToken) {
    let mut interval = tokio::time::interval(Duration::from_secs(5));
    while shutdown.run_until_cancelled(interval.tick()).await.is_some() {
        app.metrics().tidy();
    }
}

async fn grace(shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    tokio::time::sleep(GRACE).await;
}

// === impl Flushed ===

impl Drop for Flushed<'_> {
    fn drop(&mut self) {
        self.0.flush(LAST_LINES);
    }
}

// === impl ShutdownSignals ===

impl ShutdownSignals {
    /// Starts listening. From now on these signals do not end the process by themselves.
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| tokio::signal::unix::signal(kind).context(NO_SIGNALS);
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            closed: Arc::default(),
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = self.closed.notified() => {}
        }
    }

    /// Shuts the server down at the first signal, and returns at the second.
    ///
    /// It ends the runs first and keeps accepting connections meanwhile, so that clients learn that this instance is shutting down. Then it
    /// ends the connections. If an operator has asked for that by `POST /drain`, the connections are ended at the first signal.
    async fn shut_down(&mut self, app: &App, shutdown: &CancellationToken) {
        let mut is_to_end = tokio::select! {
            () = self.next() => true,
            () = app.asked_to_drain().cancelled() => false,
        };
        if is_to_end {
            tracing::info!("shutting down; a second signal ends the process at once");
        } else {
            tracing::info!("an operator asks this server to drain; the process ends after a signal");
        }
        let mut draining = std::pin::pin!(app.end_runs());
        loop {
            tokio::select! {
                () = &mut draining => break,
                () = self.next() => {
                    if is_to_end {
                        return;
                    }
                    is_to_end = true;
                    tracing::info!("shutting down when drained; another signal ends the process at once");
                }
            }
        }
        if !is_to_end {
            tracing::info!("drained; the process waits for a signal to end");
            self.next().await;
        }
        shutdown.cancel();
        self.next().await;
    }
}
