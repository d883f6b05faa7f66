//! Keeps a session with a server connected: connects, lists the tools, watches the connection, and reconnects when it is lost.

use std::{future::pending, sync::Arc, time::Duration};

use async_trait::async_trait;
use rmcp::{
    RoleClient, ServiceError, ServiceExt,
    model::{ClientRequest, ErrorCode, PingRequest, Tool},
    service::RunningService,
    transport::{Transport, async_rw::AsyncRwTransport},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    client::Client,
    config::{self, Secrets, ServerConfig},
    failure::{ConnectError, redacted_excerpt},
    http,
    line_monitor::LineMonitor,
    link::{Link, MonitoredTransport},
    listing::list_tools,
    program::{Pipes, Program, log_stderr},
    server::Server,
    session::{Connection, Session, State},
};

/// The pause before the first attempt to reconnect. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause. The pauses start from the first again after a connection that lasted this long.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// The time limit for connecting and listing the tools. It is long, because a program may have to be installed first.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The time limit for the answer to a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// The minimum time between two lists of a server's tools.
const LIST_INTERVAL: Duration = Duration::from_secs(1);
/// The time limit for the library to close a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Opens connections to a server.
#[async_trait]
pub(crate) trait Connector: Send + Sync {
    /// Opens a connection and initializes it.
    ///
    /// # Errors
    /// Returns an error if the connection cannot be opened or the server does not complete the MCP handshake.
    async fn connect(&self, client: Client, link: &Link) -> Result<LiveConnection, ConnectError>;
}

/// An open connection, and the program at its other end if there is one. The program is killed when this is dropped.
pub(crate) struct LiveConnection {
    service: RunningService<RoleClient, Client>,
    program: Option<Program>,
    /// The task that logs the standard error of the program. It is aborted when this is dropped.
    _stderr: JoinSet<()>,
}

/// Receives the tools of a server each time that they have been listed.
pub(crate) type Publish = Arc<dyn Fn(&Arc<Server>, Vec<Tool>) + Send + Sync>;

/// Keeps one session with a server connected.
pub(crate) struct Supervisor {
    pub(crate) server: Arc<Server>,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) session: Arc<Session>,
    /// Receives the tools that the session lists. Only the shared session of a server publishes its tools.
    pub(crate) publish: Option<Publish>,
    /// Cancelled when the session is to end.
    pub(crate) stop: CancellationToken,
    /// The last reason for a failed attempt that was logged as a warning. Repetitions are logged at a lower level.
    pub(crate) last_warning: Option<String>,
}

// === impl Supervisor ===

impl Supervisor {
    /// Keeps the session connected until the `stop` token is cancelled.
    pub(crate) async fn run(mut self) {
        let stop = self.stop.clone();
        let mut pause = FIRST_PAUSE;
        loop {
            let started = Instant::now();
            self.connect_and_serve().await;
            if started.elapsed() >= MAX_PAUSE {
                pause = FIRST_PAUSE;
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = sleep(pause) => pause = (pause * 2).min(MAX_PAUSE),
            }
        }
        self.session.set_state(State::Ended);
    }

    async fn connect_and_serve(&mut self) {
        let link = Link::new(self.server.elicits_unattributed.clone());
        // The link is closed even if this future is dropped.
        let _closed = link.closed.clone().drop_guard();
        let stop = self.stop.clone();
        let start = async {
            let client = Client::new(self.server.clone(), link.clone());
            let live = self.connector.connect(client, &link).await?;
            self.refresh_tools(&live, &link).await?;
            Ok::<_, ConnectError>(live)
        };
        let started = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            started = timeout(START_TIMEOUT, start) => started,
        };
        match started.unwrap_or(Err(ConnectError::Timeout(START_TIMEOUT))) {
            Ok(mut live) => {
                self.last_warning = None;
                self.serve(&mut live, &link).await;
                link.closed.cancel();
                if stop.is_cancelled() {
                    self.session.set_state(State::Ended);
                } else {
                    self.session.set_state(State::Down);
                    tracing::warn!(server = self.server.name, "the connection to an MCP server was lost");
                }
                live.close().await;
            }
            Err(error) => {
                self.session.set_state(State::Down);
                let reason = redacted_excerpt(&error.to_string(), &self.server.secrets);
                if self.last_warning.as_ref() == Some(&reason) {
                    tracing::debug!(
                        server = self.server.name,
                        reason,
                        "an MCP server is still not connected"
                    );
                } else {
                    tracing::warn!(
                        server = self.server.name,
                        reason,
                        "connecting to an MCP server failed and is tried again"
                    );
                    self.last_warning = Some(reason);
                }
            }
        }
    }

    async fn refresh_tools(&self, live: &LiveConnection, link: &Link) -> Result<(), ConnectError> {
        let tools = list_tools(&self.server.name, live.service.peer()).await?;
        let names = Arc::new(tools.iter().map(|tool| tool.name.clone().into_owned()).collect());
        // Code that waits for the session to be connected relies on its tools being published.
        if let Some(publish) = &self.publish {
            publish(&self.server, tools);
        }
        self.session.set_state(State::Up(Connection {
            peer: live.service.peer().clone(),
            link: link.clone(),
            tools: names,
        }));
        Ok(())
    }

    /// Returns when the connection is lost or the session is stopped.
    async fn serve(&self, live: &mut LiveConnection, link: &Link) {
        let mut program = live.program.take();
        let program_exit = async {
            match &mut program {
                Some(program) => program.wait().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            () = link.closed.cancelled() => {}
            () = program_exit => {}
            () = self.handle_notices(live, link) => {}
        }
        live.program = program;
    }

    /// Lists the tools again when they have changed, and sends a ping when the server may be gone. Returns when a ping is not
    /// answered.
    async fn handle_notices(&self, live: &LiveConnection, link: &Link) {
        let mut last_listed: Option<Instant> = None;
        loop {
            let list_changed = async {
                // A server may announce changes without end.
                if let Some(last_listed) = last_listed {
                    sleep_until(last_listed + LIST_INTERVAL).await;
                }
                // This must come after the sleep: a notice that was received would be lost if this future is dropped.
                link.list_changed.notified().await;
            };
            tokio::select! {
                () = list_changed => {
                    let refreshed = timeout(START_TIMEOUT, self.refresh_tools(live, link)).await;
                    if let Err(error) = refreshed.unwrap_or(Err(ConnectError::Timeout(START_TIMEOUT))) {
                        let reason = redacted_excerpt(&error.to_string(), &self.server.secrets);
                        tracing::warn!(
                            server = self.server.name,
                            reason,
                            "an MCP server could not list its tools again, and its previous list stays in use"
                        );
                    }
                    last_listed = Some(Instant::now());
                },
                () = link.check_alive.notified() => {
                    if !answers_ping(live).await {
                        return;
                    }
                }
            }
        }
    }
}

/// Sends a ping, and returns whether the server answers.
async fn answers_ping(live: &LiveConnection) -> bool {
    let ping = live.service.peer().send_request(ClientRequest::PingRequest(PingRequest::default()));
    match timeout(PING_TIMEOUT, ping).await {
        Ok(Ok(_)) => true,
        // A server that does not know the method is there to say so.
        Ok(Err(ServiceError::McpError(error))) => error.code == ErrorCode::METHOD_NOT_FOUND,
        Ok(Err(_)) | Err(_) => false,
    }
}

// === impl LiveConnection ===

impl LiveConnection {
    /// Performs the MCP handshake with the server at the other end of a transport.
    ///
    /// # Errors
    /// Returns an error if the server does not complete the handshake.
    pub(crate) async fn handshake<T>(client: Client, transport: T, link: &Link) -> Result<Self, ConnectError>
    where
        T: Transport<RoleClient> + 'static,
    {
        let service = client.serve(MonitoredTransport::new(transport, link)).await.map_err(Box::new)?;
        Ok(Self { service, program: None, _stderr: JoinSet::new() })
    }

    async fn close(mut self) {
        let _ = self.service.close_with_timeout(CLOSE_TIMEOUT).await;
        if let Some(program) = self.program.take() {
            program.stop().await;
        }
    }
}

// === impl ConfiguredConnector ===

/// Opens connections to a server as its configuration says.
pub(crate) struct ConfiguredConnector {
    pub(crate) config: ServerConfig,
    pub(crate) name: String,
    pub(crate) secrets: Secrets,
}

#[async_trait]
impl Connector for ConfiguredConnector {
    async fn connect(&self, client: Client, link: &Link) -> Result<LiveConnection, ConnectError> {
        match &self.config.transport {
            config::Transport::Http { url, headers } => {
                let transport = http::transport(url, headers, &self.secrets, link)?;
                LiveConnection::handshake(client, transport, link).await
            }
            config::Transport::Program { command, args, env } => {
                let (program, Pipes { stdin, stdout, stderr }) =
                    Program::start(command, args, env).map_err(ConnectError::Start)?;
                let (name, secrets) = (self.name.clone(), self.secrets.clone());
                let mut stderr_log = JoinSet::new();
                stderr_log.spawn(async move { log_stderr(&name, stderr, &secrets).await });
                let stdout = LineMonitor::new(stdout, link.calls.clone());
                let transport = AsyncRwTransport::new_client(stdout, stdin);
                let live = LiveConnection::handshake(client, transport, link).await?;
                Ok(LiveConnection { program: Some(program), _stderr: stderr_log, ..live })
            }
        }
    }
}
