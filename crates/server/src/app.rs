//! What every handler may use, and how it is built from the settings.

use std::{sync::Arc, time::Duration};

use fermata_engine::{Engine, EngineParts, Limits, Mail, Model, Settings};
use fermata_mcp::Hub;
use fermata_store::{ConnectError, Database, NoClusterKey, OpenOptions, RedisMail};

use crate::{
    auth::{Auth, operators::Operators},
    config::{Config, Origin},
    extract::BodyLimits,
    ids::{RandomIds, SystemClock},
    metrics::Metrics,
    readers::Readers,
    tools::{self, NoteLimits},
};

/// The parts of a running server. Clones share them.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// What an [`App`] is made of.
pub struct Parts {
    /// What happens in chats.
    pub engine: Engine,
    /// Who is asking.
    pub auth: Auth,
    /// Who may see the numbers.
    pub operators: Operators,
    /// How much a request body may take.
    pub body_limits: BodyLimits,
    /// How many streams each owner reads.
    pub readers: Readers,
    /// Pages elsewhere that may call.
    pub cors_origins: Vec<Origin>,
    /// What `/metrics` shows.
    pub metrics: Metrics,
    /// The name of the model that answers.
    pub model: String,
    /// The MCP servers whose tools the engine has.
    pub mcp: Hub,
    /// What is closed at the end; `None` where somebody else closes it.
    pub database: Option<Database>,
}

/// How long the start waits for MCP servers to list their tools. Those that take longer are used when they are there.
const MCP_PATIENCE: Duration = Duration::from_secs(5);

/// What all keys in Redis begin with. Deployments that share a Redis are kept apart by their cluster keys.
const REDIS_PREFIX: &str = "fermata";

/// Why the parts cannot be put together.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the sentences of the causes say it")]
pub enum BuildError {
    #[error(transparent)]
    Model(#[from] fermata_providers::BuildError),
    #[error(transparent)]
    Store(#[from] fermata_store::OpenError),
    #[error(transparent)]
    Mail(#[from] ConnectError),
    #[error(transparent)]
    ClusterKey(#[from] NoClusterKey),
    #[error(transparent)]
    Tools(#[from] fermata_tools::ToolboxError),
    #[error("numbers cannot be recorded: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
}

impl App {
    /// Puts given parts together, for a program that brings its own.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// Builds everything as the settings say. Needs a tokio runtime.
    ///
    /// # Errors
    /// In words for the operator.
    pub async fn build(config: &Config) -> Result<Self, BuildError> {
        Self::build_with(config, fermata_providers::build(config.provider()?)?).await
    }

    /// As [`App::build`], with a model that the settings do not know of.
    ///
    /// # Errors
    /// In words for the operator.
    pub async fn build_with(config: &Config, model: Arc<dyn Model>) -> Result<Self, BuildError> {
        let database = open(config).await?;
        let mail = mail(config, &database).await?;
        let name = model.name().to_owned();
        let engine = Engine::new(EngineParts {
            model,
            mail,
            tools: tools::all(database.notes.clone(), note_limits(config)),
            store: database.store.clone(),
            rules: config.rules(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            settings: settings(config),
        })?;
        let auth = Auth::build(config);
        let (mcp, ()) = tokio::join!(start_mcp(config, &engine), auth.prepare());
        Ok(Self::new(Parts {
            engine,
            mcp,
            database: Some(database),
            auth,
            operators: Operators::build(config),
            body_limits: BodyLimits::of(config),
            readers: Readers::new(config.readers_per_owner),
            cors_origins: config.cors_origins.to_vec(),
            metrics: Metrics::install()?,
            model: name,
        }))
    }

    /// What happens in chats.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The MCP servers whose tools the engine has.
    pub fn mcp(&self) -> &Hub {
        &self.0.mcp
    }

    /// Ends everything in good order: runs, then MCP servers, then the database.
    pub async fn shutdown(&self) {
        self.end_runs().await;
        self.close().await;
    }

    /// Ends runs, which takes little more than `drain`, then MCP servers. Requests are answered all the while, though most by 503.
    pub async fn end_runs(&self) {
        self.engine().shutdown().await;
        self.mcp().shutdown().await;
    }

    /// Closes the database, once nobody is there any more who asks it.
    pub async fn close(&self) {
        if let Some(database) = &self.0.database {
            database.close().await;
        }
    }

    /// Who is asking.
    pub fn auth(&self) -> &Auth {
        &self.0.auth
    }

    /// Who may see the numbers.
    pub fn operators(&self) -> &Operators {
        &self.0.operators
    }

    /// How much a request body may take.
    pub fn body_limits(&self) -> &BodyLimits {
        &self.0.body_limits
    }

    /// How many streams each owner reads.
    pub fn readers(&self) -> &Readers {
        &self.0.readers
    }

    /// Pages elsewhere that may call.
    pub fn cors_origins(&self) -> &[Origin] {
        &self.0.cors_origins
    }

    /// What `/metrics` shows.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// The name of the model that answers.
    pub fn model(&self) -> &str {
        &self.0.model
    }
}

async fn open(config: &Config) -> Result<Database, BuildError> {
    let options = OpenOptions { migrate: config.migrate, connections: config.database_connections.get() };
    Ok(fermata_store::open(config.database_url.as_str(), &options).await?)
}

/// How instances reach each other. Nothing is connected yet, because the server starts and serves without Redis, too.
async fn mail(config: &Config, database: &Database) -> Result<Option<Arc<dyn Mail>>, BuildError> {
    let Some(url) = &config.redis_url else {
        return Ok(None);
    };
    let (key, from) = match &config.cluster_key {
        Some(key) => (key.clone(), "the one that is set"),
        None => (database.cluster_key().await?, "the one in the database"),
    };
    // Instances that do not reach each other have different keys; this shows it, and not the keys.
    tracing::info!(
        "what instances write to each other is sealed with the cluster key {}, {from}",
        key.name()
    );
    Ok(Some(Arc::new(RedisMail::connect(url.as_str(), REDIS_PREFIX, &key)?)))
}

async fn start_mcp(config: &Config, engine: &Engine) -> Hub {
    let engine = engine.clone();
    let hub = Hub::start(config.mcp.clone(), move |tools| {
        for fault in engine.set_tools(tools) {
            tracing::warn!(%fault, "a tool of an MCP server is left out");
        }
    });
    if !hub.ready(MCP_PATIENCE).await {
        tracing::warn!(
            "some MCP servers have not listed their tools yet; these are used when they are there"
        );
    }
    hub
}

/// How much may be kept in notes.
pub(crate) fn note_limits(config: &Config) -> NoteLimits {
    NoteLimits { bytes: config.max_note.0, per_owner: config.notes_per_owner.get() }
}

fn settings(config: &Config) -> Settings {
    Settings {
        hold: config.hold.0,
        expire: config.expire.0,
        client: config.client,
        drain: config.drain.0,
        keep: config.keep.map(|keep| keep.0),
        audit_keep: config.audit_keep.map(|keep| keep.0),
        heartbeat_thread: true,
        file_urls: config.file_urls.clone(),
        limits: Limits {
            steps: config.max_steps.get(),
            attempts: config.max_attempts.get(),
            messages: config.max_messages.get(),
            chat_bytes: config.max_chat.0,
            tools: config.max_tools.get(),
            system_bytes: config.max_system.0,
            output_tokens: config.max_output_tokens,
            tool_bytes: config.max_tools_size.0,
            patterns: config.max_patterns.get(),
            calls_per_step: config.max_calls_per_step.get(),
            argument_bytes: config.max_arguments.0,
            step_output_bytes: config.max_step_output.0,
            check_timeout: config.check_timeout.0,
            output_bytes: config.max_output.0,
            parked_calls: config.max_parked_calls.get(),
            runs_per_owner: config.runs_per_owner,
            chats_per_owner: config.chats_per_owner,
            bytes_per_owner: config.bytes_per_owner.map(|bytes| bytes.0),
            model_output_bytes: config.max_model_output.0,
            model_timeout: config.model_timeout.0,
            model_call_timeout: config.model_call_timeout.0,
            tool_timeout: config.tool_timeout.0,
            lock_timeout: config.lock_timeout.0,
            elicit_timeout: config.elicit_timeout.0,
        },
    }
}
