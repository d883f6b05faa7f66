//! The settings that depend on each other: defaults that follow from other settings, and combinations that are refused.

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

use fermata_engine::assistants::DEFAULT_ASSISTANT;
use fermata_providers::{BuildError, Demo};
use secrecy::ExposeSecret;

use super::{
    Config, ConfigError,
    assistants::read_instructions,
    fault::{either, nearest},
    identity::{self, AuthKind},
    network::Address,
    secret::Token,
    sources::Sources,
    value::{PostRate, Size},
    written::toml_key,
};

/// The default of `runs_per_owner` if there are several owners.
const RUNS_PER_OWNER: Option<NonZeroUsize> = NonZeroUsize::new(64);
/// The default of `posts_per_owner` if there are several owners.
const POSTS_PER_OWNER: Option<PostRate> = match NonZeroU32::new(60) {
    Some(posts) => Some(PostRate { posts, period: Duration::from_secs(60) }),
    None => None,
};
/// The default of `readers_per_owner` if there are several owners.
const READERS_PER_OWNER: Option<NonZeroUsize> = NonZeroUsize::new(256);
/// The default of `chats_per_owner` if there are several owners.
const CHATS_PER_OWNER: Option<NonZeroUsize> = NonZeroUsize::new(10_000);
/// The default of `bytes_per_owner` if there are several owners.
const BYTES_PER_OWNER: Size = Size(2_000_000_000);

// === impl Config ===

impl Config {
    /// Reads all settings and checks that they go together.
    pub(super) fn read(sources: &Sources<'_>) -> Result<Self, ConfigError> {
        Self::collect(sources)?.resolved().with_default_assistant(sources)?.checked(sources)
    }

    /// Sets the defaults that depend on other settings.
    fn resolved(self) -> Self {
        let auth = match self.auth {
            AuthKind::None if self.user_header.is_some() => AuthKind::Header,
            auth => auth,
        };
        match auth {
            AuthKind::None => Self { auth, ..self },
            AuthKind::Token | AuthKind::Jwt | AuthKind::Header => Self {
                auth,
                posts_per_owner: self.posts_per_owner.or(POSTS_PER_OWNER),
                runs_per_owner: self.runs_per_owner.or(RUNS_PER_OWNER),
                readers_per_owner: self.readers_per_owner.or(READERS_PER_OWNER),
                chats_per_owner: self.chats_per_owner.or(CHATS_PER_OWNER),
                bytes_per_owner: self.bytes_per_owner.or(Some(BYTES_PER_OWNER)),
                ..self
            },
        }
    }

    /// Completes the assistant `default`, which inherits everything that its table leaves out from the main settings.
    fn with_default_assistant(mut self, sources: &Sources<'_>) -> Result<Self, ConfigError> {
        let mut instructions = self.instructions.clone();
        if let Some(path) = &self.instructions_file {
            let bad = |reason: &str| {
                ConfigError::Bad(format!(
                    "{}: instructions_file: {reason}",
                    sources.place("instructions_file")
                ))
            };
            if instructions.is_some() {
                return Err(bad("instructions is also set; use one of them"));
            }
            let text = read_instructions(self.file.as_deref(), path).map_err(|reason| bad(&reason))?;
            instructions = Some(text);
        }
        let default = self.assistants.entry(DEFAULT_ASSISTANT.to_owned()).or_default();
        if default.instructions.is_none() {
            default.instructions = instructions;
        }
        Ok(self)
    }

    /// Returns the name of every model that an assistant may have.
    fn model_names(&self) -> Result<Vec<String>, BuildError> {
        let mut names: Vec<String> = self.models.keys().cloned().collect();
        let main = self.provider()?.model().to_owned();
        for name in [main, Demo::NAME.to_owned()] {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Returns an error that names the place of the first table about models and assistants that cannot be used.
    fn check_assistants(&self, sources: &Sources<'_>) -> Result<(), ConfigError> {
        let bad = |table: &str, name: &str, reason: String| {
            let header = format!("[{table}.{}]", toml_key(name));
            let written = sources.file.tables.written.iter().find(|written| written.header == header);
            let place = written.map_or(header.as_str(), |written| written.place.as_str());
            ConfigError::Bad(format!("{place}: {name}: {reason}"))
        };
        for (name, model) in &self.models {
            if let Err(error) = model.provider(self) {
                return Err(bad("models", name, error.to_string()));
            }
        }
        let known = self.model_names().map_err(|error| ConfigError::Bad(error.to_string()))?;
        for (name, assistant) in &self.assistants {
            let mut models = assistant.models.iter().flatten();
            if let Some(unknown) = models.find(|model| !known.contains(model)) {
                let hint = match nearest(unknown, &known) {
                    Some(meant) => format!("did you mean {meant}?"),
                    None => format!("use {}", either(&known)),
                };
                return Err(bad("assistants", name, format!("there is no model {unknown}; {hint}")));
            }
        }
        Ok(())
    }

    /// Returns the settings if they go together.
    fn checked(self, sources: &Sources<'_>) -> Result<Self, ConfigError> {
        let fault =
            |key: &str, words: &str| Err(ConfigError::Bad(format!("{}: {words}", sources.culprit(key))));
        if let Err(error) = self.provider() {
            let key = if matches!(error, BuildError::Scenes(_)) { "demo_scenes" } else { "model" };
            return fault(key, &error.to_string());
        }
        self.check_assistants(sources)?;
        if let Err(error) = self.embedder() {
            return fault("embedding_model", &error.to_string());
        }
        if self.redis_url.is_some() && !self.database_url.is_postgres() {
            return fault(
                "redis_url",
                "Redis is for instances that share a PostgreSQL database, and the database is a SQLite file; set DATABASE_URL \
                 to postgres://user:password@host/database, or leave out REDIS_URL",
            );
        }
        if self.reuse_port && !self.database_url.is_postgres() {
            return fault(
                "reuse_port",
                "processes that listen on the same port share a database, and a SQLite file is for one process; set DATABASE_URL to \
                 postgres://user:password@host/database, or leave out reuse_port",
            );
        }
        if let Some(owners) = shared_token(&self.tokens) {
            return fault(
                "tokens",
                &format!("{owners} have the same token; give each owner one of their own"),
            );
        }
        if let Err((key, words)) = identity::check(&self) {
            return fault(key, &words);
        }
        Ok(self)
    }
}

impl Config {
    /// Returns these settings for a server that listens on this address in place of `bind`.
    ///
    /// # Errors
    /// Returns an error if they do not allow that address.
    pub fn at(&self, address: SocketAddr) -> Result<Self, ConfigError> {
        let bind = Address { ip: address.ip(), port: Some(address.port()) };
        let config = Self { bind, ..self.clone() };
        match identity::check(&config) {
            Ok(()) => Ok(config),
            Err((key, words)) => {
                Err(ConfigError::Bad(format!("{address}, the socket that was handed over: {key}: {words}")))
            }
        }
    }
}

/// Returns the names of two owners that have the same token, if there are any.
fn shared_token(tokens: &[Token]) -> Option<String> {
    tokens.iter().enumerate().find_map(|(place, token)| {
        let other = tokens[..place].iter().find(|other| {
            other.owner != token.owner && other.secret.expose_secret() == token.secret.expose_secret()
        })?;
        Some(format!("{} and {}", other.owner, token.owner))
    })
}
