//! The settings that depend on each other: defaults that follow from other settings, and combinations that are refused.

use std::net::{IpAddr, SocketAddr};

use axum::http::Uri;
use fermata_engine::assistants::DEFAULT_ASSISTANT;
use fermata_providers::{BuildError, Demo, Provider};
use fermata_tools::Approver;

use super::{
    Config, ConfigError,
    assistants::read_instructions,
    channels::ChannelKind,
    fault::{either, nearest},
    identity::AuthKind,
    network::Address,
    policy::WrittenRule,
    secret::Token,
    settings::{AccessSettings, AssistantDefaults, InsecureBind},
    values::NonEmpty,
    written::toml_key,
};

// === impl Config ===

impl Config {
    /// Sets the defaults that depend on other settings, and checks that all settings go together.
    pub(super) fn checked(mut self) -> Result<Self, ConfigError> {
        if self.access.auth == AuthKind::None && self.access.user_header.is_some() {
            self.access.auth = AuthKind::Header;
        }
        if self.access.auth != AuthKind::None {
            self.origins.add_defaults_with_auth();
            self.owner_limits = self.origins.read()?.owner_limits;
        }
        self.complete_default_assistant()?;
        self.check()?;
        Ok(self)
    }

    /// Completes the assistant `default`, which inherits everything that its table leaves out from the main settings.
    fn complete_default_assistant(&mut self) -> Result<(), ConfigError> {
        let AssistantDefaults { instructions, instructions_file, .. } = &self.assistant;
        let instructions =
            read_instructions(instructions, instructions_file.as_deref(), self.file.as_deref()).map_err(
                |reason| {
                    let place = self.origins.place("instructions_file");
                    ConfigError::Bad(format!("{place}: instructions_file: {reason}"))
                },
            )?;
        let default = self.tables.assistants.entry(DEFAULT_ASSISTANT.to_owned()).or_default();
        if default.instructions.is_none() {
            default.instructions = instructions;
        }
        Ok(())
    }

    /// Returns the name of every model that an assistant may have.
    fn model_names(&self) -> Result<Vec<String>, BuildError> {
        let mut names: Vec<String> = self.tables.models.keys().cloned().collect();
        let main = self.provider()?.model().to_owned();
        for name in [main, Demo::NAME.to_owned()] {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Returns an error that names the place of the first table about models and assistants that cannot be used.
    fn check_assistants(&self) -> Result<(), ConfigError> {
        let bad = |table: &str, name: &str, reason: String| {
            let header = format!("[{table}.{}]", toml_key(name));
            let written = self.tables.written.iter().find(|written| written.header == header);
            let place = written.map_or(header.as_str(), |written| written.place.as_str());
            ConfigError::Bad(format!("{place}: {name}: {reason}"))
        };
        for (name, model) in &self.tables.models {
            if let Err(error) = model.provider(self) {
                return Err(bad("models", name, error.to_string()));
            }
        }
        let known = self.model_names().map_err(|error| ConfigError::Bad(error.to_string()))?;
        for (name, assistant) in &self.tables.assistants {
            let mut models = assistant.models.iter().flatten();
            if let Some(NonEmpty(unknown)) = models.find(|NonEmpty(model)| !known.contains(model)) {
                let hint = match nearest(unknown, &known) {
                    Some(meant) => format!("did you mean {meant}?"),
                    None => format!("use {}", either(&known)),
                };
                return Err(bad("assistants", name, format!("there is no model {unknown}; {hint}")));
            }
        }
        Ok(())
    }

    /// Returns an error that names the place of the first rule or table that names a channel which is not there, or is of the wrong kind.
    fn check_channels(&self) -> Result<(), ConfigError> {
        let channels = &self.tables.channels;
        let known: Vec<&String> = channels.keys().collect();
        let check = |name: &str, decides: bool| match channels.get(name).map(|channel| &channel.kind) {
            None => match nearest(name, &known) {
                Some(meant) => Err(format!("there is no channel {name}; did you mean {meant}?")),
                None => Err(format!("there is no channel {name}; add a table [channels.{}]", toml_key(name))),
            },
            Some(ChannelKind::Decider(_)) if !decides => Err(format!(
                "the channel {name} is a decider, which is asked without notify; name it in by, as \"channel:{name}\""
            )),
            Some(ChannelKind::Decider(_)) => Ok(()),
            Some(_) if decides => Err(format!("the channel {name} is not a decider, so it cannot decide")),
            Some(_) => Ok(()),
        };
        for WrittenRule { rule, written } in &self.tables.policy {
            let escalation = rule.terms.escalate.as_ref();
            let notified = rule.terms.notify.iter().chain(escalation.into_iter().flat_map(|it| &it.notify));
            let deciding = rule.terms.by.iter().chain(escalation.into_iter().flat_map(|it| &it.by));
            let deciding = deciding.filter_map(|approver| match approver {
                Approver::Channel(name) => Some(name),
                Approver::Requester | Approver::User(_) | Approver::Group(_) => None,
            });
            let mut named =
                notified.map(|name| check(name, false)).chain(deciding.map(|name| check(name, true)));
            named
                .try_for_each(|checked| checked)
                .map_err(|reason| ConfigError::Bad(format!("{}: {reason}", written.place)))?;
        }
        for (name, channel) in channels {
            let needs_url = match &channel.kind {
                ChannelKind::Email(email) => email.links,
                ChannelKind::WebPush => true,
                ChannelKind::Webhook { .. } | ChannelKind::Decider(_) | ChannelKind::Slack(_) => false,
            };
            if needs_url && self.server.public_url.is_none() {
                let header = format!("[channels.{}]", toml_key(name));
                let written = self.tables.written.iter().find(|written| written.header == header);
                let place = written.map_or(header.as_str(), |written| written.place.as_str());
                return Err(ConfigError::Bad(format!(
                    "{place}: {name}: its links need public_url, the URL where people reach this server; set it, \
                     for example to https://chat.example.com"
                )));
            }
        }
        let of_requester = self.tables.notify_requester.iter().flat_map(|notify| &notify.channels);
        for NonEmpty(name) in of_requester {
            check(name, false).map_err(|reason| ConfigError::Bad(format!("notify_requester: {reason}")))?;
        }
        Ok(())
    }

    /// Returns an error that names the place of the first setting that does not go with the others.
    fn check(&self) -> Result<(), ConfigError> {
        let fault =
            |key: &str, words: &str| Err(ConfigError::Bad(format!("{}: {words}", self.origins.culprit(key))));
        if let Err(error) = self.provider() {
            let key = if matches!(error, BuildError::Scenes(_)) { "demo_scenes" } else { "model" };
            return fault(key, &error.to_string());
        }
        self.check_assistants()?;
        self.check_channels()?;
        if let Err(error) = self.embedder() {
            return fault("embedding_model", &error.to_string());
        }
        if self.database.redis_url.is_some() && !self.database.database_url.is_postgres() {
            return fault(
                "redis_url",
                "Redis is for instances that share a PostgreSQL database, and the database is a SQLite file; set DATABASE_URL \
                 to postgres://user:password@host/database, or leave out REDIS_URL",
            );
        }
        if self.server.reuse_port && !self.database.database_url.is_postgres() {
            return fault(
                "reuse_port",
                "processes that listen on the same port share a database, and a SQLite file is for one process; set DATABASE_URL to \
                 postgres://user:password@host/database, or leave out reuse_port",
            );
        }
        if let Some(owners) = shared_token(&self.access.tokens) {
            return fault(
                "tokens",
                &format!("{owners} have the same token; give each owner one of their own"),
            );
        }
        match self.check_access() {
            Ok(()) => Ok(()),
            Err((key, words)) => fault(key, &words),
        }
    }

    /// Checks that no combination of settings leaves a server open that was meant to ask people who they are. The error has the key of a
    /// setting, and its fault.
    fn check_access(&self) -> Result<(), (&'static str, String)> {
        let Self { access, server, .. } = self;
        check_identity(access)?;
        if access.auth != AuthKind::None || server.bind.ip.is_loopback() {
            return Ok(());
        }
        let reason = match server.insecure_bind {
            InsecureBind::True => return Ok(()),
            InsecureBind::Demo if self.is_only_demo() => return Ok(()),
            InsecureBind::Demo => {
                "auth is none and insecure_bind is demo, but there is more than the demo model. Everybody who reaches \
                 this address could use the model at your cost"
            }
            InsecureBind::False => {
                "auth is none, so everybody who reaches this address could read every chat and use the model at your cost"
            }
        };
        let words = format!(
            "{reason}. Set auth to token, or listen on 127.0.0.1, or say insecure_bind = true \
             (FERMATA_INSECURE_BIND=true, --insecure-bind true) if that is what you want"
        );
        Err(("bind", words))
    }

    /// Returns whether a stranger can neither cause costs nor reach an MCP server.
    fn is_only_demo(&self) -> bool {
        let is_demo = |model: Result<Provider, BuildError>| matches!(model, Ok(Provider::Demo(_)));
        is_demo(self.provider())
            && self.tables.models.values().all(|model| is_demo(model.provider(self)))
            && self.tables.mcp.is_empty()
    }

    /// Returns these settings for a server that listens on this address in place of `bind`.
    ///
    /// # Errors
    /// Returns an error if they do not allow that address.
    pub fn at(&self, address: SocketAddr) -> Result<Self, ConfigError> {
        let mut config = self.clone();
        config.server.bind = Address { ip: address.ip(), port: Some(address.port()) };
        match config.check_access() {
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
        let other =
            tokens[..place].iter().find(|other| other.owner != token.owner && other.is_same_secret(token))?;
        Some(format!("{} and {}", other.owner, token.owner))
    })
}

/// Checks that the settings about authentication go together.
fn check_identity(access: &AccessSettings) -> Result<(), (&'static str, String)> {
    let auth = access.auth.as_str();
    if access.auth != AuthKind::Token && !access.tokens.is_empty() {
        let words = format!(
            "there are tokens but auth is {auth}, so nobody would be asked for one; set auth to token"
        );
        return Err(("tokens", words));
    }
    let about_jwt = [
        ("jwks_url", access.jwks_url.is_some()),
        ("jwt_secret", access.jwt_secret.is_some()),
        ("other_jwt_secret", access.other_jwt_secret.is_some()),
        ("jwt_issuer", access.jwt_issuer.is_some()),
        ("jwt_audience", !access.jwt_audience.is_empty()),
        ("jwt_groups_claim", access.jwt_groups_claim.is_some()),
    ];
    if access.auth != AuthKind::Jwt
        && let Some((key, _)) = about_jwt.into_iter().find(|(_, is_set)| *is_set)
    {
        return Err((key, format!("it is for auth = jwt, and auth is {auth}; set auth to jwt")));
    }
    if access.auth != AuthKind::Header && access.user_header.is_some() {
        return Err(("user_header", format!("auth is {auth}; leave out one of them, or set auth to header")));
    }
    if access.groups_header.is_some() && access.user_header.is_none() {
        return Err(("groups_header", "it is for auth = header; set user_header as well".into()));
    }
    match access.auth {
        AuthKind::Token if access.tokens.is_empty() => Err((
            "auth",
            "auth is token but there are no tokens; set FERMATA_TOKENS to owner:token,owner:token, or write token in a table [users.NAME]".into(),
        )),
        AuthKind::Jwt => check_jwt(access),
        AuthKind::Header if access.user_header.is_none() => Err((
            "auth",
            "auth is header but no header is set; set FERMATA_USER_HEADER to the header where your proxy names the user".into(),
        )),
        AuthKind::Header if access.trusted_proxies.is_empty() => Err((
            "user_header",
            "without trusted_proxies everybody could say who they are; set FERMATA_TRUSTED_PROXIES to the addresses of your proxy".into(),
        )),
        AuthKind::None | AuthKind::Token | AuthKind::Header => Ok(()),
    }
}

fn check_jwt(access: &AccessSettings) -> Result<(), (&'static str, String)> {
    match (&access.jwks_url, &access.jwt_secret) {
        (None, None) => Err((
            "auth",
            "auth is jwt but no key checks the tokens; set FERMATA_JWKS_URL to where their issuer publishes its \
             keys, or FERMATA_JWT_SECRET"
                .into(),
        )),
        (Some(_), Some(_)) => {
            Err(("jwt_secret", "jwks_url is also set; keep the one that signs your tokens".into()))
        }
        (Some(url), None) if !is_safe(&url.0) => Err((
            "jwks_url",
            "it must begin with https://, because a person who changes the keys on their way can be any user; http:// is for this \
             machine alone"
                .into(),
        )),
        (Some(_), None) if access.other_jwt_secret.is_some() => {
            Err(("other_jwt_secret", "it is for jwt_secret, and jwks_url is set; leave out one of them".into()))
        }
        (Some(_), None) | (None, Some(_)) => Ok(()),
    }
}

/// Returns whether nobody between here and the URL's host can change the response.
fn is_safe(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_here = host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    uri.scheme_str() == Some("https") || is_here
}
