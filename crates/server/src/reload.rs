//! Reloading of the settings while the server runs, from the command line, the environment and the file.
//!
//! Invariant: settings with an error change nothing.

use std::{
    io::{self, IsTerminal},
    sync::Arc,
};

use fermata_providers::BuildError;
use fermata_tools::AuditAction;
use tokio::{signal::unix::Signal, sync::Notify};
use tokio_util::sync::CancellationToken;

use crate::{
    App,
    config::{Config, ConfigError, Invocation},
};

/// The settings that can be changed without a restart, besides all tables of the file.
const RELOADABLE: [&str; 23] = [
    "approval",
    "gate",
    "chain",
    "tokens",
    "jwt_secret",
    "other_jwt_secret",
    "openai_base_url",
    "openai_api_key",
    "model",
    "demo_scenes",
    "context_window",
    "embedding_model",
    "instructions",
    "instructions_file",
    "client_system",
    "builtin",
    "confirm_words",
    "deny_words",
    "plan",
    "plan_over",
    "plan_verbs",
    "memory_writes",
    "public_url",
];

/// Reads the settings from their sources.
pub type Read = Box<dyn Fn() -> Result<Invocation, ConfigError> + Send + Sync>;

/// Reads the settings again and applies those that can be changed without a restart.
pub struct Reloader {
    app: App,
    read: Read,
    /// The settings that the server was started with. Those that need a restart still have these values.
    started: Config,
    /// The settings that were read last.
    current: Config,
}

/// The result of a reload, with the keys of settings and the names of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The settings whose new values were applied.
    pub applied: Vec<&'static str>,
    /// The settings whose values differ from those at the start and need a restart to take effect.
    pub needing_restart: Vec<&'static str>,
}

/// The reason why a reload changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// A setting has an error.
    #[error(transparent)]
    Bad(#[from] ConfigError),
    /// A model cannot be built.
    #[error(transparent)]
    Model(#[from] BuildError),
    /// The file that was read before does not exist any more. Without it, the rules that deny calls would be lost.
    #[error("{0}: the file does not exist any more")]
    FileGone(String),
    /// The command line does not start the server.
    #[error("the command line does not start the server")]
    NotServing,
}

/// Applies the settings that can be changed without a restart. No other function passes reloaded settings on.
///
/// # Errors
/// Returns an error if a model cannot be built. Then nothing changes.
pub fn apply(app: &App, config: &Config) -> Result<(), BuildError> {
    let (assistants, embedder) = (app.assistants_of(config)?, config.embedder()?);
    app.engine().set_assistants(assistants);
    app.engine().memories().set_embedder(embedder);
    app.engine().set_rules(config.rules());
    app.auth().set_secrets(&config.access);
    app.channels().set(config);
    app.mcp().set_servers(config.tables.mcp.clone());
    Ok(())
}

// === impl Reloader ===

impl Reloader {
    /// Creates the reloader of a server that was built from these settings.
    pub fn new(app: App, config: Config, read: Read) -> Self {
        Self { app, read, started: config.clone(), current: config }
    }

    /// Reloads the settings at every signal, until the server shuts down. If the terminal of the server was closed, which the system tells
    /// by the same signal, `closed` is notified instead.
    pub async fn on_signal(mut self, mut signals: Signal, closed: Arc<Notify>, shutdown: CancellationToken) {
        let has_terminal = io::stdin().is_terminal();
        while let Some(Some(())) = shutdown.run_until_cancelled(signals.recv()).await {
            if has_terminal && !io::stdin().is_terminal() {
                closed.notify_one();
                continue;
            }
            match self.reload() {
                Ok(changes) => {
                    changes.log(&self.current);
                    self.app.auth().refetch_keys().await;
                    self.app.note_rules(AuditAction::RulesReloaded, &self.current).await;
                }
                Err(error) => {
                    tracing::error!(
                        "the settings were not reloaded, and the old ones stay in effect: {error}"
                    )
                }
            }
        }
    }

    /// Reloads the settings.
    ///
    /// # Errors
    /// Returns an error if the settings cannot be used. Then nothing changes.
    pub fn reload(&mut self) -> Result<Changes, ReloadError> {
        let config = match (self.read)()? {
            Invocation::Serve(config) => *config,
            Invocation::Check(..) | Invocation::Print(_) | Invocation::Init(_) | Invocation::Command(..) => {
                return Err(ReloadError::NotServing);
            }
        };
        if let (Some(gone), None) = (&self.current.file, &config.file) {
            return Err(ReloadError::FileGone(gone.clone()));
        }
        let changes = Changes::between(&self.started, &self.current, &config);
        apply(&self.app, &config)?;
        self.current = config;
        Ok(changes)
    }
}

// === impl Changes ===

impl Changes {
    fn between(started: &Config, current: &Config, next: &Config) -> Self {
        let is_reloadable = |key: &&str| RELOADABLE.contains(key);
        let rules = |config: &Config| -> Vec<_> {
            config.tables.policy.iter().map(|written| written.rule.clone()).collect()
        };
        let mut applied: Vec<&str> = current.differing(next).into_iter().filter(is_reloadable).collect();
        let tables = [
            ("policy", rules(current) != rules(next)),
            ("tools", current.tables.tools != next.tables.tools),
            ("mcp", current.tables.mcp != next.tables.mcp),
            ("errors", current.tables.error_policy != next.tables.error_policy),
            ("context", current.tables.never_clear != next.tables.never_clear),
            ("models", current.tables.models != next.tables.models),
            ("assistants", current.tables.assistants != next.tables.assistants),
            ("users", current.tables.users != next.tables.users),
            ("channels", current.tables.channels != next.tables.channels),
            ("notify_requester", current.tables.notify_requester != next.tables.notify_requester),
        ];
        for (name, has_changed) in tables {
            if has_changed {
                applied.push(name);
            }
        }
        let needing_restart = started.differing(next).into_iter().filter(|key| !is_reloadable(key)).collect();
        Self { applied, needing_restart }
    }

    fn log(&self, config: &Config) {
        let file = config.file.as_deref().unwrap_or("no file");
        if self.applied.is_empty() {
            tracing::info!("read the settings again ({file}): no setting that can be reloaded has changed");
        } else {
            let applied = self.applied.join(", ");
            tracing::info!("read the settings again ({file}) and applied: {applied}");
        }
        if !self.needing_restart.is_empty() {
            let keys = self.needing_restart.join(", ");
            tracing::warn!("these settings have changed and need a restart to take effect: {keys}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that is deleted when this is dropped.
    struct Written(std::path::PathBuf);

    impl Drop for Written {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn config(toml: &str) -> Config {
        let path = std::env::temp_dir().join(format!("fermata-{}.toml", uuid::Uuid::new_v4()));
        let file = Written(path);
        std::fs::write(&file.0, toml).expect("a file");
        let arguments = ["fermata".into(), "--config".into(), file.0.clone().into_os_string()];
        match Invocation::read(arguments, &|_| None).expect("good settings") {
            Invocation::Serve(config) => *config,
            other => panic!("{other:?} does not serve"),
        }
    }

    fn changes(from: &str, to: &str) -> (Vec<&'static str>, Vec<&'static str>) {
        let from = config(from);
        let Changes { applied, needing_restart } = Changes::between(&from, &from, &config(to));
        (applied, needing_restart)
    }

    #[test]
    fn changes_are_reported_by_name() {
        let rule = "[[policy]]\ntool = \"a\"\ndecision = \"ask\"\n";
        let tokens = "auth = \"token\"\ntokens = [\"alice:a-token-of-some-length\"]\n";
        let server = "[mcp.files]\ncommand = \"files\"\nenv = { KEY = \"one\" }\n";
        let channel = "[channels.ops]\nkind = \"webhook\"\nurl = \"https://ops.example.com\"\nsecret = \
                       \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n";
        for (from, to, applied, needing_restart) in [
            ("", "", vec![], vec![]),
            ("", "\n# A comment moves a rule, and does not change it.\n", vec![], vec![]),
            (rule, &format!("\n\n{rule}"), vec![], vec![]),
            (rule, "", vec!["policy"], vec![]),
            (rule, &rule.replace("ask", "deny"), vec!["policy"], vec![]),
            (
                "",
                "approval = \"auto\"\ngate = \"progressive\"\nchain = \"ask\"\n",
                RELOADABLE[..3].to_vec(),
                vec![],
            ),
            (tokens, &tokens.replace("alice", "bob"), vec!["tokens"], vec![]),
            ("", "[tools.a]\nrepeatable = true\n", vec!["tools"], vec![]),
            ("", "[errors]\ninternal = \"fail_run\"\n", vec!["errors"], vec![]),
            (server, server, vec![], vec![]),
            (server, &server.replace("one", "two"), vec!["mcp"], vec![]),
            ("", "hold = \"1s\"\nmax_steps = 3\n", vec![], vec!["hold", "max_steps"]),
            ("hold = \"5m\"", "hold = \"300s\"", vec![], vec![]),
            (
                "operator_token = \"one-0123456789abcdef\"\nopenai_api_key = \"one\"\nmodel = \"m\"\n",
                "operator_token = \"two-0123456789abcdef\"\nopenai_api_key = \"two\"\nmodel = \"m\"\n",
                vec!["openai_api_key"],
                vec!["operator_token"],
            ),
            ("", "[models.fast]\nmodel = \"m\"\n", vec!["models"], vec![]),
            ("", "[assistants.support]\n", vec!["assistants"], vec![]),
            (tokens, &format!("{tokens}[users.alice]\ngroups = [\"a\"]\n"), vec!["users"], vec![]),
            ("", "client_system = \"ignore\"\n", vec!["client_system"], vec![]),
            (channel, channel, vec![], vec![]),
            (channel, &channel.replace("LaSw", "LaSx"), vec!["channels"], vec![]),
            (
                channel,
                &format!("{channel}[notify_requester]\nchannels = [\"ops\"]\nafter = \"30s\"\n"),
                vec!["notify_requester"],
                vec![],
            ),
        ] {
            assert_eq!(changes(from, to), (applied, needing_restart), "from {from:?} to {to:?}");
        }
    }

    #[test]
    fn a_setting_needs_a_restart_as_long_as_it_is_not_what_the_server_started_with() {
        let (started, changed) = (config(""), config("hold = \"1s\"\n"));
        assert_eq!(Changes::between(&started, &changed, &changed).needing_restart, ["hold"]);
        assert!(Changes::between(&started, &changed, &started).needing_restart.is_empty());
    }
}
