//! Keeps a session with a server connected: connects, lists the tools, watches the connection, and reconnects when it is lost.

use std::{
    collections::BTreeSet,
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use rmcp::{
    RoleClient, ServiceError,
    model::{ClientRequest, PingRequest, ProtocolVersion, ServerResult, SubscriptionFilter, Tool},
    service::{ClientLifecycleMode, ClientServiceExt, RunningService},
    transport::{Transport, async_rw::AsyncRwTransport},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    client::Client,
    config::{self, Protocol, Secrets, ServerConfig},
    failure::{ConnectError, redacted_excerpt},
    http,
    lenient::{reply_kind, says_that_the_session_is_gone},
    lines::MessageLines,
    link::Link,
    listing::list_tools,
    program::{LastWords, Pipes, Program, log_stderr},
    server::Server,
    session::{Connection, Session, State},
    transport::{OpenRequests, TrackedTransport},
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
    /// The server's reason for not speaking a version without a handshake, if it was asked.
    refused: Option<String>,
    program: Option<Program>,
    /// The task that logs the standard error of the program. It is aborted when this is dropped.
    _stderr: JoinSet<()>,
}

/// Receives the tools of a server each time that they have been listed.
pub(crate) type Publish = Arc<dyn Fn(&Arc<Server>, Vec<Tool>) + Send + Sync>;

/// The time of the next attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Immediately,
    AfterPause,
}

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
            while self.connect_and_serve().await == Next::Immediately {}
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

    async fn connect_and_serve(&mut self) -> Next {
        let link = Link::new(self.server.elicits_unattributed.clone());
        // The link is closed even if this future is dropped.
        let _closed = link.closed.clone().drop_guard();
        let stop = self.stop.clone();
        let start = async {
            let client = Client::new(self.server.clone(), link.clone());
            let live = self.connector.connect(client, &link).await?;
            let tools = self.refresh_tools(&live, &link).await?;
            let (protocol, refused) = (live.protocol(), live.refused.as_deref());
            if self.publish.is_some() {
                tracing::info!(server = self.server.name, %protocol, refused, tools, "an MCP server is connected");
            } else {
                tracing::debug!(server = self.server.name, %protocol, "another session with an MCP server is connected");
            }
            Ok::<_, ConnectError>(live)
        };
        let started = tokio::select! {
            biased;
            () = stop.cancelled() => return Next::AfterPause,
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
                    let reason = with_last_words("the connection was lost", &link.last_words);
                    tracing::warn!(
                        server = self.server.name,
                        reason,
                        "the connection to an MCP server was lost"
                    );
                    self.session.set_state(State::Down(reason.into()));
                }
                live.close().await;
            }
            Err(ConnectError::OtherVersion(_)) => {
                tracing::debug!(server = self.server.name, "an MCP server is asked again in another version");
                return Next::Immediately;
            }
            Err(error) => {
                let reason = redacted_excerpt(&error.to_string(), &self.server.secrets);
                let reason = with_last_words(&reason, &link.last_words);
                self.session.set_state(State::Down(reason.as_str().into()));
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
        Next::AfterPause
    }

    /// Lists the tools and publishes them.
    async fn refresh_tools(&self, live: &LiveConnection, link: &Link) -> Result<usize, ConnectError> {
        let listed = list_tools(&self.server.name, live.service.peer()).await;
        let tools = listed.map_err(ConnectError::listing)?;
        let names: BTreeSet<String> = tools.iter().map(|tool| tool.name.clone().into_owned()).collect();
        let count = tools.len();
        // Code that waits for the session to be connected relies on its tools being published.
        if let Some(publish) = &self.publish {
            publish(&self.server, tools);
        }
        self.session.set_state(State::Up(Connection {
            peer: live.service.peer().clone(),
            link: link.clone(),
            tools: Arc::new(names),
            protocol: live.protocol().as_str().into(),
        }));
        Ok(count)
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
            () = subscribe_to_list_changes(live, link) => {}
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

/// Subscribes to changes of the tool list. In older versions, servers announce them without a subscription. Never returns.
async fn subscribe_to_list_changes(live: &LiveConnection, link: &Link) {
    let announces = live.service.peer().peer_info().is_some_and(|info| {
        let tools = info.capabilities.tools.as_ref();
        !info.protocol_version.has_initialize() && tools.is_some_and(|tools| tools.list_changed == Some(true))
    });
    if !announces {
        return pending().await;
    }
    loop {
        let mut filter = SubscriptionFilter::default();
        filter.tools_list_changed = Some(true);
        match live.service.peer().listen(filter).await {
            Ok(mut subscription) => {
                while let Ok(Some(_)) = subscription.next().await {
                    link.list_changed.notify_one();
                }
            }
            Err(error) => tracing::debug!(%error, "an MCP server refused a subscription to its tool list"),
        }
        sleep(MAX_PAUSE).await;
        // The list may have changed while there was no subscription.
        link.list_changed.notify_one();
    }
}

/// Returns a reason with the last lines of the program's standard error.
fn with_last_words(reason: &str, last_words: &LastWords) -> String {
    match last_words.text() {
        Some(text) => format!("{reason}. The last lines of its standard error: {text}"),
        None => reason.to_owned(),
    }
}

/// Sends a ping, and returns whether the server answers.
async fn answers_ping(live: &LiveConnection) -> bool {
    let ping = live.service.peer().send_request(ClientRequest::PingRequest(PingRequest::default()));
    match timeout(PING_TIMEOUT, ping).await {
        Ok(answer) => shows_life(&answer),
        Err(_) => false,
    }
}

/// Returns whether an answer to a ping shows that the session goes on. The newest version has no ping, so its servers refuse it.
fn shows_life(answer: &Result<ServerResult, ServiceError>) -> bool {
    match answer {
        Ok(_) => true,
        Err(ServiceError::McpError(error)) => {
            reply_kind(error).is_none() && !says_that_the_session_is_gone(&error.message)
        }
        Err(_) => false,
    }
}

// === impl LiveConnection ===

impl LiveConnection {
    /// Performs the MCP handshake with the server at the other end of a transport.
    ///
    /// # Errors
    /// Returns an error if the server does not complete the handshake.
    pub(crate) async fn handshake<T>(
        client: Client,
        transport: T,
        link: &Link,
        protocol: Protocol,
    ) -> Result<Self, ConnectError>
    where
        T: Transport<RoleClient> + 'static,
    {
        let requests = Arc::new(OpenRequests::default());
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        let (lifecycle, version) = match protocol {
            Protocol::Auto => {
                let auto = ClientLifecycleMode::Auto { preferred_versions, legacy_version: None };
                (auto, ProtocolVersion::LATEST_WITH_INITIALIZE)
            }
            Protocol::V2026July => {
                (ClientLifecycleMode::Discover { preferred_versions }, ProtocolVersion::V_2026_07_28)
            }
            Protocol::V2025November => (ClientLifecycleMode::Initialize, ProtocolVersion::V_2025_11_25),
            Protocol::V2025June => (ClientLifecycleMode::Initialize, ProtocolVersion::V_2025_06_18),
            Protocol::V2025March => (ClientLifecycleMode::Initialize, ProtocolVersion::V_2025_03_26),
            Protocol::V2024November => (ClientLifecycleMode::Initialize, ProtocolVersion::V_2024_11_05),
        };
        let client = client.with_protocol(version);
        let transport = TrackedTransport::new(transport, link, requests.clone());
        let service = client.serve_with_lifecycle(transport, lifecycle).await.map_err(|error| {
            if protocol == Protocol::Auto && requests.has_answered_late() {
                ConnectError::OtherVersion(Protocol::V2026July)
            } else {
                ConnectError::handshake(error)
            }
        })?;
        Ok(Self {
            service,
            refused: requests
                .discovery_refusal()
                .map(|reason| format!("{}: {reason}", ProtocolVersion::V_2026_07_28)),
            program: None,
            _stderr: JoinSet::new(),
        })
    }

    /// Returns the version of MCP that is spoken.
    fn protocol(&self) -> ProtocolVersion {
        self.service
            .peer()
            .peer_info()
            .map_or_else(ProtocolVersion::default, |info| info.protocol_version.clone())
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
    /// The version of the next attempt, if the last one has shown which one the server needs. Locked for an instant, never across an await.
    next_protocol: Mutex<Option<Protocol>>,
}

impl ConfiguredConnector {
    pub(crate) fn new(name: &str, config: &ServerConfig) -> Self {
        Self {
            config: config.clone(),
            name: name.to_owned(),
            secrets: config.secrets(),
            next_protocol: Mutex::default(),
        }
    }

    fn next_protocol(&self) -> MutexGuard<'_, Option<Protocol>> {
        self.next_protocol.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect_with(
        &self,
        client: Client,
        link: &Link,
        protocol: Protocol,
    ) -> Result<LiveConnection, ConnectError> {
        match &self.config.transport {
            config::Transport::Http { url, headers } => {
                let transport = http::transport(url, headers, &self.secrets, link)?;
                let connected = LiveConnection::handshake(client, transport, link, protocol).await;
                match connected {
                    Err(ConnectError::Http(_) | ConnectError::Refused(_))
                        if http::speaks_older_transport(url, headers).await =>
                    {
                        Err(ConnectError::OlderTransport)
                    }
                    Err(ConnectError::Unauthorized) => {
                        let has_key = headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
                        Err(if has_key { ConnectError::Unauthorized } else { ConnectError::NoCredentials })
                    }
                    connected => connected,
                }
            }
            config::Transport::Program { command, args, env } => {
                let (mut program, Pipes { stdin, stdout, stderr }) = Program::start(command, args, env)
                    .map_err(|error| ConnectError::start(command, &error))?;
                let (name, secrets, last_words) =
                    (self.name.clone(), self.secrets.clone(), link.last_words.clone());
                let mut stderr_log = JoinSet::new();
                stderr_log.spawn(async move { log_stderr(&name, stderr, &secrets, &last_words).await });
                // The lines have the lengths that their reader allows.
                let transport = AsyncRwTransport::new_client(MessageLines::new(stdout), stdin)
                    .with_max_line_length(usize::MAX);
                match LiveConnection::handshake(client, transport, link, protocol).await {
                    Ok(live) => Ok(LiveConnection { program: Some(program), _stderr: stderr_log, ..live }),
                    Err(error) => {
                        let exit = program.exit().await;
                        if exit.is_some() {
                            let _ = timeout(CLOSE_TIMEOUT, stderr_log.join_next()).await;
                        }
                        Err(match (error, exit) {
                            (ConnectError::Closed, Some(status)) => ConnectError::Exited(status),
                            (error, _) => error,
                        })
                    }
                }
            }
        }
    }
}

#[async_trait]
impl Connector for ConfiguredConnector {
    async fn connect(&self, client: Client, link: &Link) -> Result<LiveConnection, ConnectError> {
        let next = self.next_protocol().take();
        let protocol = match self.config.protocol {
            Protocol::Auto => next.unwrap_or(Protocol::Auto),
            configured => configured,
        };
        let connected = match self.connect_with(client, link, protocol).await {
            // Some servers end when their first message is not the one that they expect.
            Err(ConnectError::Closed | ConnectError::Exited(_)) if protocol == Protocol::Auto => {
                Err(ConnectError::OtherVersion(Protocol::V2025November))
            }
            connected => connected,
        };
        *self.next_protocol() = match &connected {
            Ok(_) => next,
            Err(ConnectError::OtherVersion(other)) => Some(*other),
            Err(_) => None,
        };
        connected
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ErrorCode, ErrorData, ServerJsonRpcMessage};

    use super::*;
    use crate::lenient::{ReplyKind, error_reply};

    #[test]
    fn a_server_that_refuses_a_ping_is_there_unless_it_has_lost_the_session() {
        let refused = |message: &str| {
            Err(ServiceError::McpError(ErrorData::new(ErrorCode(-32600), message.to_owned(), None)))
        };
        assert!(shows_life(&Ok(ServerResult::empty(()))));
        assert!(shows_life(&refused("Method not found")) && shows_life(&refused("no such request")));
        assert!(!shows_life(&refused("Session not found")));
        let ServerJsonRpcMessage::Error(unreadable) = error_reply(ReplyKind::Unreadable, "", None) else {
            unreachable!()
        };
        assert!(!shows_life(&Err(ServiceError::McpError(unreadable.error))));
        assert!(!shows_life(&Err(ServiceError::TransportClosed)));
    }
}
