//! The parts that handlers use, and how they are built from the settings.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::extract::FromRef;
use fermata_engine::{
    Assistants, Embedder, Engine, EngineParts, Limits, MemoryService, Model, PeerTransport, Settings,
    SystemResolver,
    memories::MemoryLimits,
    store::{AuditEntry, StoreError},
};
use fermata_mcp::{Hub, ServerConfig};
use fermata_peers::{BadClusterKey, ClusterKey, ConnectError, RedisTransport};
use fermata_store::{Database, OpenOptions};
use fermata_tools::{AuditAction, AuditEvent, Capacity, Tool};
use jiff::Timestamp;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{
    assistants,
    audit::checkpoints::Checkpoints,
    auth::{Auth, operators::Operators},
    channels::{ApprovalDesk, Channels, EngineDesk, Sender},
    client::TrustedProxies,
    config::{Config, DatabaseSettings, MemorySettings, Origin, OwnerLimits, SharedKey},
    drain::{Drain, DrainStatus},
    extract::BodyLimits,
    ids::{RandomIds, SystemClock},
    metrics::Metrics,
    posts::Posts,
    readers::Readers,
    telemetry::{Telemetry, TelemetryError},
    tools::{self, NoteLimits},
};

/// A running server. Clones share its parts.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// The parts of an [`App`]. Its methods document them.
struct Parts {
    engine: Engine,
    auth: Arc<Auth>,
    operators: Arc<Operators>,
    body_limits: BodyLimits,
    readers: Readers,
    posts: Posts,
    cors_origins: Vec<Origin>,
    metrics: Metrics,
    /// The model of the program that mounts the server, in place of the one in the settings.
    own_model: Option<Arc<dyn Model>>,
    mcp: Hub,
    database: Database,
    drain: Drain,
    channels: Channels,
    desk: Arc<EngineDesk>,
    /// The task that sends notices.
    sending: TaskTracker,
    /// Ends that task.
    stop_sending: DropGuard,
    telemetry: Option<Telemetry>,
    checkpoints: Checkpoints,
    /// `true` if only the person at this machine can use the server.
    shows_causes: bool,
}

/// The settings of an [`App`], with the additions of a program.
#[must_use]
pub struct AppBuilder<'a> {
    config: &'a Config,
    model: Option<Arc<dyn Model>>,
    tools: Vec<Arc<dyn Tool>>,
}

/// The time that the start waits for MCP servers to list their tools. The tools of slower servers are added later.
const MCP_START_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of quiet streams that are tried. One of them has to wait for an answer. The others are at work.
const HOLDS_TRIED: usize = 64;

/// The prefix of all keys in Redis. Deployments that share a Redis have different cluster keys.
const REDIS_PREFIX: &str = "fermata";

/// The reason why an [`App`] cannot be built.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the causes have their own texts")]
pub enum BuildError {
    #[error(transparent)]
    Model(#[from] fermata_providers::BuildError),
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    #[error(transparent)]
    Store(#[from] fermata_store::OpenError),
    #[error(transparent)]
    PeerTransport(#[from] ConnectError),
    #[error("the key of the instances cannot be read from the database: {0}")]
    NoClusterKey(StoreError),
    #[error("the key of the instances in the database (cluster_keys) cannot be used: {0}")]
    ClusterKey(#[from] BadClusterKey),
    #[error(transparent)]
    Tools(#[from] fermata_tools::ToolboxError),
    #[error(
        "the HTTP client of tools and channels cannot be built (CA certificates come from the system, for example from its package ca-certificates, or \
         from the file that SSL_CERT_FILE names)"
    )]
    Web(#[from] reqwest::Error),
    #[error("the metrics recorder cannot be installed: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
}

impl App {
    /// Builds a server from its settings. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if a part cannot be built, for example because the database cannot be opened.
    pub async fn build(config: &Config) -> Result<Self, BuildError> {
        Self::builder(config).build().await
    }

    /// Returns a builder for a server with these settings and a program's own model or tools.
    pub fn builder(config: &Config) -> AppBuilder<'_> {
        AppBuilder { config, model: None, tools: Vec::new() }
    }

    /// Returns the engine, which runs the chats.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Returns the hub of the MCP servers whose tools the engine uses.
    pub fn mcp(&self) -> &Hub {
        &self.0.mcp
    }

    /// Returns whether the causes of failures may be shown to everyone who can use the server, because that is only the person who runs it.
    pub(crate) fn shows_causes(&self) -> bool {
        self.0.shows_causes
    }

    /// Ends the hold of the run whose stream has waited for the longest, as if its time were over. Returns `false` if no run that only waits
    /// has a stream here.
    pub(crate) async fn end_longest_hold(&self) -> bool {
        for (owner, chat) in self.readers().quietest(HOLDS_TRIED) {
            match self.engine().end_hold(&owner, &chat).await {
                Ok(true) => {
                    tracing::debug!(%chat, "the connections have run out, so the hold of a run that waits has ended");
                    metrics::counter!("fermata_holds_cut_short_total").increment(1);
                    return true;
                }
                // Its run is at work, or its stream has ended meanwhile.
                Ok(false) => {}
                Err(error) => tracing::debug!(%chat, %error, "a hold cannot be ended"),
            }
        }
        false
    }

    /// Shuts the runs down, then the MCP servers, then the database.
    pub async fn shutdown(&self) {
        self.end_runs().await;
        self.close().await;
    }

    /// Announces the end, and serves everything for `linger`, if there may be other instances. Then shuts the runs down, which takes little
    /// more than `drain`, and at last the MCP servers. Requests are still answered meanwhile, most of them with 503.
    pub async fn end_runs(&self) {
        let drain = &self.0.drain;
        self.engine().leave();
        drain.linger().await;
        drain.begin();
        self.engine().shutdown().await;
        self.mcp().shutdown().await;
        drain.end();
    }

    /// Notes that an operator asks for the end of the runs. It is for the program to call [`end_runs`](Self::end_runs) then.
    pub fn ask_to_drain(&self) {
        self.0.drain.asked().cancel();
    }

    /// Returns the token that is cancelled by [`ask_to_drain`](Self::ask_to_drain).
    pub fn asked_to_drain(&self) -> &CancellationToken {
        self.0.drain.asked()
    }

    /// Returns the token that is cancelled when nothing new begins any more.
    pub fn draining(&self) -> &CancellationToken {
        self.0.drain.begun()
    }

    /// Returns how far the end of this server is.
    pub fn drain_status(&self) -> DrainStatus {
        DrainStatus { stage: self.0.drain.stage(), counts: self.engine().drain_counts() }
    }

    /// Ends the sending of notices and closes the database. No request may use it any more.
    pub async fn close(&self) {
        self.0.stop_sending.token().cancel();
        self.0.sending.wait().await;
        if let Some(telemetry) = &self.0.telemetry {
            telemetry.close().await;
        }
        self.0.checkpoints.close().await;
        self.0.database.close().await;
    }

    /// Returns all metrics in the format of Prometheus.
    pub fn metrics_text(&self) -> String {
        self.metrics().render(&self.drain_status(), self.readers().streams(), self.database().connections())
    }

    /// Returns the database, for data that belongs to owners and to no chat.
    pub(crate) fn database(&self) -> &Database {
        &self.0.database
    }

    /// Returns the channels.
    pub(crate) fn channels(&self) -> &Channels {
        &self.0.channels
    }

    /// Returns the approvals, for channels.
    pub(crate) fn desk(&self) -> &dyn ApprovalDesk {
        &*self.0.desk
    }

    /// Returns the part that identifies owners.
    pub fn auth(&self) -> &Arc<Auth> {
        &self.0.auth
    }

    /// Returns the access rules for the metrics.
    pub fn operators(&self) -> &Arc<Operators> {
        &self.0.operators
    }

    /// Returns the counter of the streams that each owner reads.
    pub fn readers(&self) -> &Readers {
        &self.0.readers
    }

    /// Returns the counter of the posts that each owner sends.
    pub fn posts(&self) -> &Posts {
        &self.0.posts
    }

    /// Returns the origins of other sites whose pages may call the API.
    pub fn cors_origins(&self) -> &[Origin] {
        &self.0.cors_origins
    }

    /// Returns the metrics, which `/metrics` shows.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Returns the name of the model that answers if a chat has chosen none.
    pub fn model(&self) -> String {
        self.engine().assistants().default.model.model.name().to_owned()
    }

    /// Builds the assistants of these settings. The program's own model, if there is one, stands in place of the one in the settings.
    ///
    /// # Errors
    /// Returns an error if a model cannot be built.
    pub(crate) fn assistants_of(&self, config: &Config) -> Result<Assistants, fermata_providers::BuildError> {
        assistants::build(config, self.0.own_model.clone())
    }
}

impl App {
    /// Notes in the audit which rules are in force from now on, and has the lists of approvals follow them. The server goes on if that
    /// cannot be saved.
    pub(crate) async fn note_rules(&self, action: AuditAction, config: &Config) {
        let event = AuditEvent { input_hash: Some(config.rules_hash()), ..AuditEvent::new(action) };
        let entries = vec![AuditEntry::of_server(event)];
        if let Err(error) = self.database().store.add_audit(Timestamp::now(), entries).await {
            tracing::warn!(%error, "the rules in force could not be noted in the audit");
        }
        self.engine().refresh_approvals();
    }
}

// === impl AppBuilder ===

impl AppBuilder<'_> {
    /// Has this model answer, in place of the one in the main settings.
    pub fn model(mut self, model: Arc<dyn Model>) -> Self {
        self.model = Some(model);
        self
    }

    /// Adds these tools to the server's own. Rules, limits and the audit log also apply to them.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Builds the server. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if a part cannot be built, for example because the database cannot be opened, or because two tools have the same
    /// name.
    pub async fn build(self) -> Result<App, BuildError> {
        let Self { config, model, tools: added } = self;
        // What the other parts record before this is lost.
        let metrics = Metrics::install()?;
        let assistants = assistants::build(config, model.clone())?;
        let options = OpenOptions {
            migrate: config.database.migrate,
            connections: config.database.database_connections.get(),
            audit_key: config.database.audit_key.clone().map(|key| key.0),
        };
        let database = fermata_store::open(config.database.database_url.as_str(), &options).await?;
        let peers = peer_transport(&config.database, &database).await?;
        let model_requests =
            Capacity::new(config.calls.max_model_requests, config.owner_limits.model_requests_per_owner);
        let memories = memory_service(&config.memory, &database, config.embedder()?, model_requests.clone());
        let search_url = config.assistant.search_url.as_ref();
        let is_demo = model.is_none() && assistants::has_demo(config);
        let mut tools = tools::all(
            database.notes.clone(),
            note_limits(&config.owner_limits),
            memories.clone(),
            search_url,
            is_demo,
        )?;
        tools.extend(added);
        let (telemetry, traces) = Telemetry::start(&config.telemetry)?.unzip();
        let engine = Engine::new(EngineParts {
            traces,
            assistants,
            peers,
            tools,
            store: database.store.clone(),
            rules: config.rules(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            resolver: Arc::new(SystemResolver::default()),
            memories,
            model_requests,
            settings: settings(config),
        })?;
        let auth = Arc::new(Auth::build(&config.access));
        let (channels, desk) = (
            Channels::build(config, database.channel_records.clone())?,
            Arc::new(EngineDesk { engine: engine.clone(), store: database.store.clone() }),
        );
        let sender =
            Sender::new(channels.clone(), database.store.clone(), desk.clone(), Arc::new(SystemClock));
        let (sending, stop_sending) = (TaskTracker::new(), CancellationToken::new());
        sending.spawn(sender.run(stop_sending.clone()));
        sending.close();
        let linger = if database.store.is_shared() { config.server.linger.0 } else { Duration::ZERO };
        let (mcp, ()) = tokio::join!(start_mcp(config.tables.mcp.clone(), &engine), auth.prepare());
        let parts = Parts {
            engine,
            mcp,
            checkpoints: Checkpoints::default(),
            database,
            auth,
            operators: Arc::new(Operators::build(&config.access, &config.server)),
            body_limits: BodyLimits::of(
                &config.request_limits,
                config.chat_limits.max_chat.0,
                config.connections.body_timeout.0,
            ),
            readers: Readers::new(config.owner_limits.readers_per_owner),
            posts: Posts::new(config.owner_limits.posts_per_owner),
            cors_origins: config.access.cors_origins.to_vec(),
            metrics,
            own_model: model,
            drain: Drain::new(linger),
            channels,
            desk,
            sending,
            stop_sending: stop_sending.drop_guard(),
            telemetry,
            shows_causes: config.is_for_this_machine_alone(),
        };
        let app = App(Arc::new(parts));
        app.note_rules(AuditAction::RulesLoaded, config).await;
        app.0.checkpoints.start(app.0.database.clone(), &config.database).await;
        Ok(app)
    }
}

// The extractors know only the part of an app that they need.

impl FromRef<App> for Arc<Auth> {
    fn from_ref(app: &App) -> Self {
        app.0.auth.clone()
    }
}

impl FromRef<App> for TrustedProxies {
    fn from_ref(app: &App) -> Self {
        app.0.auth.proxies().clone()
    }
}

impl FromRef<App> for BodyLimits {
    fn from_ref(app: &App) -> Self {
        app.0.body_limits.clone()
    }
}

/// Builds the transport between instances. It does not connect yet, because the server also starts without Redis.
async fn peer_transport(
    settings: &DatabaseSettings,
    database: &Database,
) -> Result<Option<Arc<dyn PeerTransport>>, BuildError> {
    let Some(url) = &settings.redis_url else {
        return Ok(None);
    };
    let (key, source) = match &settings.cluster_key {
        Some(SharedKey(key)) => (key.clone(), "from the settings"),
        None => {
            let new = ClusterKey::draw().map_err(|_| ConnectError::NoRandomNumbers)?;
            let key = database.cluster_key(&new).await.map_err(BuildError::NoClusterKey)?;
            (ClusterKey::parse(&key)?, "from the database")
        }
    };
    // If instances cannot reach each other, their keys may differ. The name of a key shows that without revealing the key.
    tracing::info!("messages between instances are sealed with the cluster key {} {source}", key.name());
    let transport = RedisTransport::connect(url.as_str(), REDIS_PREFIX, &key)?
        .with_other_keys(settings.other_cluster_key.iter().map(|SharedKey(key)| key.clone()));
    let clock = database.clock();
    Ok(Some(Arc::new(transport.with_clock(move || clock.now()))))
}

async fn start_mcp(servers: BTreeMap<String, ServerConfig>, engine: &Engine) -> Hub {
    let engine = engine.clone();
    let hub = Hub::start(servers, move |tools| {
        for error in engine.set_tools(tools) {
            tracing::warn!(%error, "a tool of an MCP server was left out");
        }
    });
    if !hub.ready(MCP_START_TIMEOUT).await {
        tracing::warn!(
            "some MCP servers have not listed their tools yet; their tools are added when they do"
        );
    }
    hub
}

/// Returns the service for memories in this database.
pub(crate) fn memory_service(
    settings: &MemorySettings,
    database: &Database,
    embedder: Option<Arc<dyn Embedder>>,
    model_requests: Capacity,
) -> MemoryService {
    let limits = MemoryLimits {
        per_owner: settings.memory_max.get(),
        text_bytes: settings.max_memory.0,
        recalled: settings.memory_recall.get(),
        threshold: settings.memory_threshold.0 as f32,
    };
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds));
    MemoryService::new(database.store.clone(), clock, ids, embedder, model_requests, limits)
}

/// Returns the limits on notes.
pub(crate) fn note_limits(limits: &OwnerLimits) -> NoteLimits {
    NoteLimits { bytes: limits.max_note.0, per_owner: limits.notes_per_owner.get() }
}

/// Returns the settings of the engine.
pub(crate) fn settings(config: &Config) -> Settings {
    let Config { server, model, memory, database, calls, owner_limits, chat_limits, request_limits, .. } =
        config;
    Settings {
        hold: calls.hold.0,
        expire: calls.expire.0,
        client: server.client,
        drain: server.drain.0,
        keep: database.keep.map(|keep| keep.0),
        audit_keep: database.audit_keep.map(|keep| keep.0),
        heartbeat_thread: true,
        file_urls: model.file_urls.0.clone(),
        compact_at: model.compact_at.0,
        keep_recent: model.keep_recent.get(),
        summary_every: model.summary_every.get(),
        memory_after: memory.memory_after.0,
        shows_model_errors: config.is_for_this_machine_alone(),
        limits: Limits {
            steps: chat_limits.max_steps.get(),
            attempts: chat_limits.max_attempts.get(),
            messages: request_limits.max_messages.get(),
            chat_bytes: chat_limits.max_chat.0,
            tools: request_limits.max_tools.get(),
            system_bytes: request_limits.max_system.0,
            output_tokens: model.max_output_tokens,
            tool_bytes: request_limits.max_tools_size.0,
            patterns: request_limits.max_patterns.get(),
            calls_per_step: chat_limits.max_calls_per_step.get(),
            argument_bytes: chat_limits.max_arguments.0,
            argument_nodes: chat_limits.max_argument_nodes.get(),
            step_output_bytes: chat_limits.max_step_output.0,
            check_timeout: request_limits.check_timeout.0,
            output_bytes: chat_limits.max_output.0,
            output_nodes: request_limits.max_json_nodes.get(),
            parked_calls: calls.max_parked_calls.get(),
            runs_per_owner: owner_limits.runs_per_owner,
            running_calls: calls.max_running_calls,
            running_calls_per_owner: owner_limits.running_calls_per_owner,
            chats_per_owner: owner_limits.chats_per_owner,
            bytes_per_owner: owner_limits.bytes_per_owner.map(|bytes| bytes.0),
            model_output_bytes: chat_limits.max_model_output.0,
            model_timeout: model.model_timeout.0,
            model_call_timeout: model.model_call_timeout.0,
            tool_timeout: calls.tool_timeout.0,
            lock_timeout: calls.lock_timeout.0,
            elicit_timeout: calls.elicit_timeout.0,
        },
    }
}
