//! Keeps one server running: connects, lists its tools, watches, and begins again when it is lost.

use std::{future::pending, sync::Arc, time::Duration};

use async_trait::async_trait;
use rmcp::{
    RoleClient, ServiceError, ServiceExt,
    model::{ClientRequest, ErrorCode, PingRequest, Tool},
    service::RunningService,
    transport::{Transport, async_rw::AsyncRwTransport},
};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    client::Client,
    config::{self, Secrets, ServerConfig},
    failure::{ConnectError, redacted_excerpt},
    http,
    line_monitor::LineMonitor,
    link::{Link, MonitoredTransport},
    listing::list,
    program::{Pipes, Program, log_lines},
    server::{Connection, Server, Session, State},
};

/// The first pause before a server is started again; each is twice the last.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause. A connection that lasted as long was a good one.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long a server may take to greet and to list its tools; a program may have to be installed first.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a server may take to answer when it is asked whether it is there.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// The least time between two lists of one server's tools.
const LISTINGS_APART: Duration = Duration::from_secs(1);
/// How long the library may take to wind a connection up.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// The way to a server.
#[async_trait]
pub(crate) trait Connector: Send + Sync {
    /// Opens a connection.
    ///
    /// # Errors
    /// It cannot be opened, or the server does not greet.
    async fn connect(&self, client: Client, link: &Link) -> Result<LiveConnection, ConnectError>;
}

/// An open connection, with what ends with it.
pub(crate) struct LiveConnection {
    service: RunningService<RoleClient, Client>,
    program: Option<Program>,
    _stderr: Option<AbortOnDropHandle<()>>,
}

/// Takes the tools of a server whenever they have been listed.
pub(crate) type Publish = Arc<dyn Fn(&Arc<Server>, Vec<Tool>) + Send + Sync>;

/// The one who keeps a session with a server running.
pub(crate) struct Supervisor {
    server: Arc<Server>,
    session: Arc<Session>,
    /// Takes the tools that the session lists, if they are what the server's tools are known by.
    publish: Option<Publish>,
    /// Ends it.
    end: CancellationToken,
    /// What was logged last, so that it is not said again every half minute.
    logged: Option<String>,
}

// === impl Supervisor ===

impl Supervisor {
    pub(crate) fn new(
        server: Arc<Server>,
        session: Arc<Session>,
        publish: Option<Publish>,
        end: CancellationToken,
    ) -> Self {
        Self { server, session, publish, end, logged: None }
    }

    /// Keeps the session running until it is no longer wanted.
    pub(crate) async fn run(mut self) {
        let end = self.end.clone();
        let mut pause = FIRST_PAUSE;
        loop {
            let since = Instant::now();
            self.connect_and_serve().await;
            if since.elapsed() >= LONGEST_PAUSE {
                pause = FIRST_PAUSE;
            }
            tokio::select! {
                () = end.cancelled() => break,
                () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
            }
        }
        self.session.set_state(State::Ended);
    }

    async fn connect_and_serve(&mut self) {
        let link = Link::new(self.server.elicits_unattributed.clone());
        // Also when this is dropped in the middle.
        let _lost = link.closed.clone().drop_guard();
        let end = self.end.clone();
        let started = tokio::select! {
            biased;
            () = end.cancelled() => return,
            started = timeout(START_TIMEOUT, self.start(&link)) => started,
        };
        match started.unwrap_or(Err(ConnectError::Timeout(START_TIMEOUT))) {
            Ok(mut live) => {
                self.logged = None;
                self.serve(&mut live, &link).await;
                link.closed.cancel();
                self.session.set_state(if end.is_cancelled() { State::Ended } else { State::Down });
                if !end.is_cancelled() {
                    tracing::warn!(server = self.server.name, "the connection to an MCP server was lost");
                }
                live.close().await;
            }
            Err(error) => {
                self.session.set_state(State::Down);
                self.log(&error);
            }
        }
    }

    async fn start(&self, link: &Link) -> Result<LiveConnection, ConnectError> {
        let client = Client::new(self.server.clone(), link.clone());
        let live = self.server.connector.connect(client, link).await?;
        self.list(&live, link).await?;
        Ok(live)
    }

    async fn list(&self, live: &LiveConnection, link: &Link) -> Result<(), ServiceError> {
        let tools = list(&self.server.name, live.service.peer()).await?;
        let names = Arc::new(tools.iter().map(|tool| tool.name.clone().into_owned()).collect());
        // Who waits until the server is up counts on its tools.
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

    /// Returns when the connection is lost or the server no longer wanted.
    async fn serve(&self, live: &mut LiveConnection, link: &Link) {
        let mut program = live.program.take();
        tokio::select! {
            biased;
            () = self.end.cancelled() => {}
            () = link.closed.cancelled() => {}
            () = ended(program.as_mut()) => {}
            () = self.follow(live, link) => {}
        }
        live.program = program;
    }

    /// Lists again and looks after the server, until it does not answer.
    async fn follow(&self, live: &LiveConnection, link: &Link) {
        let mut listed = None;
        // A server may say without end that it has other tools.
        let wanted = async |listed: Option<Instant>| {
            if let Some(listed) = listed {
                sleep_until(listed + LISTINGS_APART).await;
            }
            // Last, because a notice that was taken would be lost if this is dropped while it sleeps.
            link.list_changed.notified().await;
        };
        loop {
            tokio::select! {
                () = wanted(listed) => {
                    match timeout(START_TIMEOUT, self.list(live, link)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => self.log_listing(&error.into()),
                        Err(_) => self.log_listing(&ConnectError::Timeout(START_TIMEOUT)),
                    }
                    listed = Some(Instant::now());
                },
                () = link.check_alive.notified() => if !answers(live).await { return },
            }
        }
    }

    fn log(&mut self, error: &ConnectError) {
        let reason = redacted_excerpt(&error.to_string(), &self.server.secrets);
        if self.logged.as_ref() == Some(&reason) {
            tracing::debug!(server = self.server.name, reason, "an MCP server is still not there");
        } else {
            tracing::warn!(server = self.server.name, reason, "an MCP server is not there");
            self.logged = Some(reason);
        }
    }

    fn log_listing(&self, error: &ConnectError) {
        let reason = redacted_excerpt(&error.to_string(), &self.server.secrets);
        tracing::warn!(server = self.server.name, reason, "an MCP server keeps its old list of tools");
    }
}

async fn ended(program: Option<&mut Program>) {
    match program {
        Some(program) => program.ended().await,
        None => pending().await,
    }
}

/// Whether a server is still there.
async fn answers(live: &LiveConnection) -> bool {
    let ping = live.service.peer().send_request(ClientRequest::PingRequest(PingRequest::default()));
    match timeout(PING_TIMEOUT, ping).await {
        Ok(Ok(_)) => true,
        // Who does not know the question is there to say so.
        Ok(Err(ServiceError::McpError(error))) => error.code == ErrorCode::METHOD_NOT_FOUND,
        Ok(Err(_)) | Err(_) => false,
    }
}

// === impl LiveConnection ===

impl LiveConnection {
    /// Greets the server at the other end of a transport.
    ///
    /// # Errors
    /// It does not greet back.
    pub(crate) async fn handshake<T>(client: Client, transport: T, link: &Link) -> Result<Self, ConnectError>
    where
        T: Transport<RoleClient> + 'static,
    {
        let service = client.serve(MonitoredTransport::new(transport, link)).await.map_err(Box::new)?;
        Ok(Self { service, program: None, _stderr: None })
    }

    async fn close(mut self) {
        let _ = self.service.close_with_timeout(CLOSE_TIMEOUT).await;
        if let Some(program) = self.program.take() {
            program.end().await;
        }
    }
}

// === impl Connector for settings ===

/// The way to a server that the settings name.
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
                LiveConnection::handshake(client, http::transport(url, headers, &self.secrets, link)?, link)
                    .await
            }
            config::Transport::Program { command, args, env } => {
                let (program, Pipes { stdin, stdout, stderr }) =
                    Program::start(command, args, env).map_err(ConnectError::Start)?;
                let (name, secrets) = (self.name.clone(), self.secrets.clone());
                let lines = tokio::spawn(async move { log_lines(&name, stderr, &secrets).await });
                let lines = AbortOnDropHandle::new(lines);
                let stdout = LineMonitor::new(stdout, link.calls.clone());
                let transport = AsyncRwTransport::new_client(stdout, stdin);
                let live = LiveConnection::handshake(client, transport, link).await?;
                Ok(LiveConnection { program: Some(program), _stderr: Some(lines), ..live })
            }
        }
    }
}
