//! The binary: settings, log, socket, and an end in good order.

use std::{io::IsTerminal, process::ExitCode, time::Duration};

use anyhow::Context;
use axum::serve::ListenerExt;
use fermata_server::{
    App,
    config::{Config, ConfigError, Invocation},
    router,
};
use tokio::{net::TcpListener, signal::unix::SignalKind};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing_subscriber::EnvFilter;

/// How long open connections may take to end after the last signal to them.
const GRACE: Duration = Duration::from_secs(10);

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
    let config = match Invocation::read(std::env::args_os(), &|name| std::env::var(name).ok()) {
        Ok(Invocation::Serve(config)) => config,
        Ok(Invocation::Check(report)) => {
            #[expect(clippy::print_stdout, reason = "the report is what was asked for")]
            {
                print!("{report}");
            }
            return Ok(());
        }
        Err(ConfigError::Usage(usage)) => usage.exit(),
        Err(error @ ConfigError::Bad(_)) => return Err(error.into()),
    };
    begin_log();
    let runtime = tokio::runtime::Runtime::new().context("the runtime cannot be started")?;
    runtime.block_on(serve(&config))
}

fn begin_log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr).init();
    // Otherwise a panic would be on stderr in a form that no log collector reads.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
}

async fn serve(config: &Config) -> anyhow::Result<()> {
    let listener = TcpListener::bind(config.bind)
        .await
        .with_context(|| format!("{} cannot be listened on", config.bind))?;
    let address = listener.local_addr().context("the socket has no address")?;
    let app = App::build(config).await?;
    let (tasks, over) = (TaskTracker::new(), CancellationToken::new());
    tasks.spawn(tidy_metrics(app.clone(), over.clone()));
    tasks.spawn(end_on_signal(app.clone(), over.clone()));
    tracing::info!("listening on http://{address}, answered by the model {}", app.model());
    if config.model.is_some() && config.openai_api_key.is_none() && config.openai_base_url.is_none() {
        tracing::warn!(
            "a model is named, but neither OPENAI_API_KEY nor OPENAI_BASE_URL is set, so the demo model answers"
        );
    }
    // A chunk is smaller than a packet; waiting for more to send would be what a reader sees as jerking.
    let listener = listener.tap_io(|socket| {
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "a socket takes no options");
        }
    });
    let server = axum::serve(listener, router(app)).with_graceful_shutdown(over.clone().cancelled_owned());
    tokio::select! {
        ended = server.into_future() => ended.context("the server failed")?,
        () = grace(&over) => tracing::warn!("connections were still open and were cut"),
    }
    over.cancel();
    tasks.close();
    tasks.wait().await;
    Ok(())
}

async fn tidy_metrics(app: App, over: CancellationToken) {
    let mut interval = tokio::time::interval(Duration::from_secs(5));
    while over.run_until_cancelled(interval.tick()).await.is_some() {
        app.metrics().tidy();
    }
}

/// At the first signal, tells every reader and stops; at the second, leaves at once.
async fn end_on_signal(app: App, over: CancellationToken) {
    if over.run_until_cancelled(signal()).await.is_none() {
        return;
    }
    tracing::info!("ending; a second signal ends at once");
    tokio::select! {
        () = app.engine().shutdown() => over.cancel(),
        () = signal() => std::process::exit(1),
    }
}

async fn signal() {
    let wait_for = |kind| async move {
        match tokio::signal::unix::signal(kind) {
            Ok(mut signals) => _ = signals.recv().await,
            Err(error) => {
                tracing::error!(%error, "signals cannot be received");
                std::future::pending().await
            }
        }
    };
    tokio::select! {
        () = wait_for(SignalKind::terminate()) => {}
        () = wait_for(SignalKind::interrupt()) => {}
    }
}

async fn grace(over: &CancellationToken) {
    over.cancelled().await;
    tokio::time::sleep(GRACE).await;
}
