//! The binary: settings, log, socket, and an end in good order.

mod log;

use std::{io::Write, net::SocketAddr, process::ExitCode, time::Duration};

use anyhow::Context;
use fermata_server::{
    App, Demo,
    config::{Config, ConfigError, Invocation},
    health, migrate, operators_site, policy_test,
    reload::Reloader,
    routes,
    serve::{ConnectionLimits, Server},
    site,
};
use tikv_jemallocator::Jemalloc;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The system's allocator keeps what large requests have taken; this one gives it back within seconds.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// How long open connections may take to end after the last signal to them.
const GRACE: Duration = Duration::from_secs(10);
/// Connections at a time to the address of the operators.
const OPERATORS: usize = 64;
const NO_SIGNALS: &str = "signals cannot be received";

/// The signals that end the server.
struct Ends {
    terminate: Signal,
    interrupt: Signal,
}

fn main() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(
                clippy::print_stderr,
                reason = "why the server does not run must be seen whatever the log's filter is"
            )]
            {
                eprintln!("fermata: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}

fn start() -> anyhow::Result<()> {
    let invocation = match read_settings() {
        Ok(invocation) => invocation,
        Err(ConfigError::Usage(usage)) => usage.exit(),
        Err(error @ ConfigError::Bad(_)) => return Err(error.into()),
    };
    let runtime = || tokio::runtime::Runtime::new().context("the runtime cannot be started");
    match invocation {
        Invocation::Serve(config) => {
            log::begin();
            runtime()?.block_on(serve(*config))
        }
        Invocation::Check(report) => print(&report),
        Invocation::TestPolicy(config, call) => {
            print(&runtime()?.block_on(policy_test::report(&config, &call))?)
        }
        Invocation::Migrate(config) => print(&runtime()?.block_on(migrate::report(&config))?),
        Invocation::Health(config) => Ok(runtime()?.block_on(health::ask(&config))?),
    }
}

fn read_settings() -> Result<Invocation, ConfigError> {
    Invocation::read(std::env::args_os(), &|name| std::env::var(name).ok())
}

/// What was asked for goes to the standard output. Nobody who stops reading it is an error.
fn print(report: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(report.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

async fn serve(config: Config) -> anyhow::Result<()> {
    // Before anything else: until it is listened for, the signal would end the process.
    let hangups = tokio::signal::unix::signal(SignalKind::hangup()).context(NO_SIGNALS)?;
    let listener = listen(config.bind).await?;
    let address = listener.local_addr().context("the socket has no address")?;
    let operators = match config.operator_bind {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    let app = App::build(&config).await?;
    let mut ends = Ends::listen()?;
    tracing::info!("listening on http://{address}, answered by the model {}", app.model());
    warn_of_demo(&config);
    let server = Server {
        routes: site(app.clone(), Demo::built()),
        when_full: routes::when_full(app.clone()),
        limits: ConnectionLimits::of(&config),
        proxies: app.auth().proxies().clone(),
    };
    let over = CancellationToken::new();
    let again = Reloader::new(app.clone(), config, Box::new(read_settings));
    let tasks = TaskTracker::new();
    tasks.spawn(tidy_metrics(app.clone(), over.clone()));
    tasks.spawn(again.on_signal(hangups, over.clone()));
    if let Some(listener) = operators {
        tracing::info!("listening for operators on http://{}", listener.local_addr()?);
        let limits = ConnectionLimits { connections: OPERATORS, ..server.limits };
        let server = Server { routes: operators_site(app.clone()), limits, ..server.clone() };
        tasks.spawn(serve_operators(server, listener, over.clone()));
    }
    let serving = async {
        tokio::select! {
            () = server.serve(listener, over.clone()) => {}
            () = grace(&over) => tracing::warn!("connections were still open and were cut"),
        }
        over.cancel();
        tasks.close();
        tasks.wait().await;
        app.close().await;
        Ok(())
    };
    tokio::select! {
        ended = serving => ended,
        () = ends.twice(&app, &over) => std::process::exit(1),
    }
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("{address} cannot be listened on"))
}

async fn serve_operators(server: Server, listener: TcpListener, over: CancellationToken) {
    tokio::select! {
        () = server.serve(listener, over.clone()) => {}
        () = grace(&over) => {}
    }
}

fn warn_of_demo(config: &Config) {
    if config.model.is_some() && config.openai_api_key.is_none() && config.openai_base_url.is_none() {
        tracing::warn!(
            "a model is named, but neither OPENAI_API_KEY nor OPENAI_BASE_URL is set, so the demo model answers"
        );
    }
}

async fn tidy_metrics(app: App, over: CancellationToken) {
    let mut interval = tokio::time::interval(Duration::from_secs(5));
    while over.run_until_cancelled(interval.tick()).await.is_some() {
        app.metrics().tidy();
    }
}

async fn grace(over: &CancellationToken) {
    over.cancelled().await;
    tokio::time::sleep(GRACE).await;
}

// === impl Ends ===

impl Ends {
    /// From now on these signals do not end the process by themselves.
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| tokio::signal::unix::signal(kind).context(NO_SIGNALS);
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// At the first signal, ends runs, still accepting connections, so that whoever asks hears that this instance is ending; then has
    /// the connections end. Returns at the second signal.
    async fn twice(&mut self, app: &App, over: &CancellationToken) {
        self.next().await;
        tracing::info!("ending; a second signal ends at once");
        let ending = async {
            app.end_runs().await;
            over.cancel();
            std::future::pending().await
        };
        tokio::select! {
            () = ending => {}
            () = self.next() => {}
        }
    }
}
