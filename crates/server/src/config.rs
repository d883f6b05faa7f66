//! The settings of an operator, the place of each value, and the checks that the values go together.
//!
//! `settings.rs` has every setting, with its help text, its default and its variable. An option overrides the variable, the variable the
//! file, and the file the default. An empty variable counts as unset, because compose files cannot leave a variable out. Limits that
//! hardly anybody changes are in the file only. Rules, settings of tools by name, MCP servers, failures, the model's history, models,
//! assistants, users and channels are tables of the file.

mod assistants;
mod channels;
mod checks;
mod command;
mod context;
mod database;
mod deciders;
mod errors;
mod fault;
mod file;
mod identity;
mod mcp;
mod models;
mod network;
mod node;
mod placed;
mod policy;
mod report;
mod schema;
mod secret;
mod setting;
mod settings;
mod sources;
mod tools;
mod url;
mod values;
mod variables;
mod written;

use std::sync::Arc;

use fermata_engine::{NoticeRoutes, RequesterNotice, Rules, consent::ConsentWords};
use fermata_providers::{BuildError, Provider};
use fermata_tools::{People, Person, RulePolicy, input_hash};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    assistants::{AssistantSettings, Builtin},
    channels::{
        ChannelKind, ChannelSettings, EmailSettings, Endpoint, NotifyRequester, SigningSecret, SlackSettings,
        SmtpUrl,
    },
    command::{
        Answer, Asked, AuditCommand, AuditExport, AuditVerification, DataCommand, Decision, Invocation,
        OperatorCommand, OutboxCommand, PolicyCommand, TestedCall,
    },
    database::{AuditAnchor, DatabaseUrl, RedisUrl},
    file::Tables,
    identity::{AuthKind, UserHeader, UserSettings},
    models::{CallSettingsTable, ModelSettings},
    network::{Address, Headers, HostName, Network, OperatorAddress, Origin},
    policy::WrittenRule,
    report::Report,
    schema::file_schema,
    secret::{Secret, SharedKey, SigningKey, Token},
    setting::{SETTINGS, Setting},
    settings::{
        AccessSettings, AssistantDefaults, ChatLimits, ConnectionSettings, DatabaseSettings, InsecureBind,
        LogFormat, MemorySettings, ModelDefaults, OwnerLimits, PlanSettings, RequestLimits, ServerSettings,
        TelemetrySettings, ToolCallSettings,
    },
    sources::warnings_of_variables,
    url::Url,
    values::{AllowedFiles, Duration, HoldTime, NonEmpty, NonZeroDuration, PostRate, Share, Size, UpTo},
    written::Written,
};
use self::{secret::is_masked, sources::Origins};

/// The reason why the server does not start. `Display` is one line for a terminal.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// `--help`, `--version`, or options that clap refuses.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    /// A value, or two together, that cannot be used. The message names the place.
    #[error("{0}")]
    Bad(String),
}

/// All settings, as they are in force. The doc of a group is its heading in `--help`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Config {
    /// Server
    pub server: ServerSettings,
    /// Traces
    pub telemetry: TelemetrySettings,
    /// Model
    pub model: ModelDefaults,
    /// Assistants
    pub assistant: AssistantDefaults,
    /// Plans
    pub plans: PlanSettings,
    /// Memory
    pub memory: MemorySettings,
    /// Database and instances
    pub database: DatabaseSettings,
    /// Access
    pub access: AccessSettings,
    /// Calls and approval
    pub calls: ToolCallSettings,
    /// Limits of an owner
    pub owner_limits: OwnerLimits,
    /// Limits of a chat and its runs
    pub chat_limits: ChatLimits,
    /// Limits of a request
    pub request_limits: RequestLimits,
    /// Limits of connections
    pub connections: ConnectionSettings,
    /// The tables of the file.
    #[serde(skip)]
    pub tables: Tables,
    /// The path of the file that was read, if there was one.
    #[serde(skip)]
    pub file: Option<String>,
    #[serde(skip)]
    origins: Origins,
}

// === impl Config ===

impl Config {
    /// Returns the model of the main settings. If it is the demo model, this reads its file of scenes.
    ///
    /// # Errors
    /// Returns an error if an API is named but no model, or if the file of scenes cannot be read or used.
    pub fn provider(&self) -> Result<Provider, BuildError> {
        ModelSettings::default().provider(self)
    }

    /// Returns whether an operator has chosen the port, and not the default.
    pub fn is_port_chosen(&self) -> bool {
        self.server.bind.port.is_some() || self.origins.is_set("port")
    }

    /// Returns whether nothing says which model answers, so that it is the demo model as it comes.
    pub fn is_model_unset(&self) -> bool {
        let keys = ["openai_base_url", "openai_api_key", "model", "demo_scenes"];
        keys.iter().all(|key| !self.origins.is_set(key)) && self.tables.models.is_empty()
    }

    /// Returns whether only people at this machine can use the server, and no proxy or page of another host stands in between.
    pub fn is_for_this_machine_alone(&self) -> bool {
        self.access.auth == AuthKind::None
            && self.server.bind.ip.is_loopback()
            && self.access.hosts.is_empty()
            && self.access.cors_origins.is_empty()
            && self.access.trusted_proxies.is_empty()
    }

    /// Returns the settings in force and their places, as a file that has them.
    pub fn report(&self) -> Report<'_> {
        Report(self)
    }

    /// Returns the keys of the settings that another configuration has otherwise. Tables are not settings.
    pub fn differing(&self, other: &Self) -> Vec<&'static str> {
        let (own, others) = (self.shown(), other.shown());
        let differ = |key: &str| match own.get(key) {
            // What is hidden looks the same, so its text tells.
            Some(value) if is_masked(value) => self.origins.text(key) != other.origins.text(key),
            value => value != others.get(key),
        };
        SETTINGS.iter().map(|setting| setting.key.as_str()).filter(|key| differ(key)).collect()
    }

    /// Returns the value of each setting that is set, without secrets.
    fn shown(&self) -> toml::Table {
        let sections = toml::Table::try_from(self).unwrap_or_default();
        let values = sections.into_iter().filter_map(|(_, section)| match section {
            toml::Value::Table(values) => Some(values),
            _ => None,
        });
        values.flatten().collect()
    }

    /// Returns a hash of all that decides about calls, a SHA-256 in hexadecimal. Equal rules have equal hashes in one version of the server.
    pub fn rules_hash(&self) -> String {
        let rules: Vec<_> = self.tables.policy.iter().map(|written| &written.rule).collect();
        let modes = (self.calls.approval, self.calls.gate, self.calls.chain, self.memory.memory_writes);
        input_hash(
            &serde_json::json!(format!(
                "{:?}",
                (rules, modes, &self.tables.tools, &self.tables.error_policy)
            ))
            .into(),
        )
    }

    /// Returns the people of the settings, with their groups.
    pub fn people(&self) -> People {
        let person = |user: &UserSettings| Person {
            groups: user.groups.iter().map(|group| group.0.clone()).collect(),
            email: user.email.as_ref().map(|email| email.0.clone()),
        };
        People::new(self.tables.users.iter().map(|(name, user)| (name.clone(), person(user))).collect())
    }

    /// Returns the channels that are notified without a rule.
    fn notice_routes(&self) -> NoticeRoutes {
        let mut subscriptions = Vec::new();
        for (name, channel) in &self.tables.channels {
            if let ChannelKind::Webhook { events, .. } = &channel.kind {
                subscriptions.push((name.clone(), events.clone()));
            }
        }
        let requester = self.tables.notify_requester.as_ref().map(|notify| RequesterNotice {
            channels: notify.channels.iter().map(|name| name.0.clone()).collect(),
            after: notify.after.0,
        });
        NoticeRoutes { subscriptions, requester }
    }

    /// Returns what decides about calls.
    pub fn rules(&self) -> Rules {
        let rules = self.tables.policy.iter().map(|written| written.rule.clone()).collect();
        Rules {
            policy: Arc::new(RulePolicy { approval: self.calls.approval, rules, people: self.people() }),
            gate: self.calls.gate,
            chain: self.calls.chain,
            memory_writes: self.memory.memory_writes,
            error_policy: self.tables.error_policy.clone(),
            tools: self.tables.tools.clone(),
            consent: match self.calls.confirm_words.as_deref() {
                Some([]) => ConsentWords::off(),
                confirm => ConsentWords::default().with(confirm.unwrap_or_default(), &self.calls.deny_words),
            },
            notices: self.notice_routes(),
            never_clear: self.tables.never_clear.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
