//! Reading the settings again while the server runs: the same command line, the environment and the file.
//!
//! Invariant: what cannot be used as a whole changes nothing.

use tokio::signal::unix::Signal;
use tokio_util::sync::CancellationToken;

use crate::{
    App,
    config::{AuthKind, Config, ConfigError, Invocation},
};

/// The settings that take effect without a restart; the tables of the file all do.
const TAKEN: [&str; 4] = ["approval", "gate", "chain", "tokens"];

/// Reads the settings from where they were read at the start.
pub type Read = Box<dyn Fn() -> Result<Invocation, ConfigError> + Send + Sync>;

/// Reads the settings again and puts in force what can be.
pub struct Reloader {
    app: App,
    read: Read,
    /// What the server was started with, and what all that needs a restart still goes by.
    started: Config,
    /// What was read last.
    current: Config,
}

/// What reading again came to, by the keys of settings and the names of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// What is in force from now on.
    pub taken: Vec<&'static str>,
    /// What is not what the server was started with, and has no effect before it is started again.
    pub needing_restart: Vec<&'static str>,
}

/// Why what was in force stays.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// Something cannot be used.
    #[error(transparent)]
    Bad(#[from] ConfigError),
    /// The file that was read before is not there. Going on without it would forget what it denies.
    #[error("{0}: it is not there any more")]
    FileGone(String),
    /// The command line asks for something else than to serve.
    #[error("the command line does not serve")]
    NotServing,
}

/// Puts in force what may change while the server runs. The one place where settings that were read again are handed on.
pub fn apply(app: &App, config: &Config) {
    app.engine().set_rules(config.rules());
    // Another way to tell owners apart needs a restart, and until then those who are known stay known.
    if config.auth == AuthKind::Token {
        app.auth().set_tokens(&config.tokens);
    }
    app.mcp().set_servers(config.mcp.clone());
}

// === impl Reloader ===

impl Reloader {
    /// For a server that was built from these settings.
    pub fn new(app: App, config: Config, read: Read) -> Self {
        Self { app, read, started: config.clone(), current: config }
    }

    /// Reads again at every signal, until the server ends.
    pub async fn on_signal(mut self, mut signals: Signal, over: CancellationToken) {
        while let Some(Some(())) = over.run_until_cancelled(signals.recv()).await {
            match self.again() {
                Ok(changes) => changes.log(&self.current),
                Err(error) => {
                    tracing::error!("the settings are not taken, and the old ones stay in force: {error}")
                }
            }
        }
    }

    /// Reads again, now.
    ///
    /// # Errors
    /// Why nothing changes.
    pub fn again(&mut self) -> Result<Changes, ReloadError> {
        let config = match (self.read)()? {
            Invocation::Serve(config) => *config,
            Invocation::Check(_)
            | Invocation::TestPolicy(..)
            | Invocation::Migrate(_)
            | Invocation::Health(_) => return Err(ReloadError::NotServing),
        };
        if let (Some(gone), None) = (&self.current.file, &config.file) {
            return Err(ReloadError::FileGone(gone.clone()));
        }
        let changes = Changes::between(&self.started, &self.current, &config);
        apply(&self.app, &config);
        self.current = config;
        Ok(changes)
    }
}

// === impl Changes ===

impl Changes {
    fn between(started: &Config, current: &Config, next: &Config) -> Self {
        let is_taken = |key: &&str| TAKEN.contains(key);
        let rules = |config: &Config| -> Vec<_> {
            config.policy.iter().map(|written| written.rule.clone()).collect()
        };
        let mut taken: Vec<&str> = current.differing(next).into_iter().filter(is_taken).collect();
        let tables = [
            ("policy", rules(current) != rules(next)),
            ("tools", current.tools != next.tools),
            ("mcp", current.mcp != next.mcp),
            ("errors", current.error_policy != next.error_policy),
        ];
        taken.extend(tables.into_iter().filter_map(|(name, differs)| differs.then_some(name)));
        let needing_restart = started.differing(next).into_iter().filter(|key| !is_taken(key)).collect();
        Self { taken, needing_restart }
    }

    fn log(&self, config: &Config) {
        let file = config.file.as_deref().unwrap_or("no file");
        if self.taken.is_empty() {
            tracing::info!("read the settings again ({file}): nothing that is taken has changed");
        } else {
            let taken = self.taken.join(", ");
            tracing::info!("read the settings again ({file}); in force from now on: {taken}");
        }
        if !self.needing_restart.is_empty() {
            let keys = self.needing_restart.join(", ");
            tracing::warn!(
                "these settings have changed, and take effect when the server is started again: {keys}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that the test can read.
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
        let Changes { taken, needing_restart } = Changes::between(&from, &from, &config(to));
        (taken, needing_restart)
    }

    #[test]
    fn what_has_changed_is_told_by_name() {
        let rule = "[[policy]]\ntool = \"a\"\ndecision = \"ask\"\n";
        let tokens = "auth = \"token\"\ntokens = [\"alice:a-token-of-some-length\"]\n";
        let server = "[mcp.files]\ncommand = \"files\"\nenv = { KEY = \"one\" }\n";
        for (from, to, taken, needing_restart) in [
            ("", "", vec![], vec![]),
            ("", "\n# A comment moves a rule, and does not change it.\n", vec![], vec![]),
            (rule, &format!("\n\n{rule}"), vec![], vec![]),
            (rule, "", vec!["policy"], vec![]),
            (rule, &rule.replace("ask", "deny"), vec!["policy"], vec![]),
            (
                "",
                "approval = \"auto\"\ngate = \"progressive\"\nchain = \"ask\"\n",
                TAKEN[..3].to_vec(),
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
                "openai_api_key = \"one\"\nmodel = \"m\"\n",
                "openai_api_key = \"two\"\nmodel = \"m\"\ngate = \"progressive\"\n",
                vec!["gate"],
                vec!["openai_api_key"],
            ),
        ] {
            assert_eq!(changes(from, to), (taken, needing_restart), "from {from:?} to {to:?}");
        }
    }

    #[test]
    fn a_setting_needs_a_restart_as_long_as_it_is_not_what_the_server_started_with() {
        let (started, changed) = (config(""), config("hold = \"1s\"\n"));
        assert_eq!(Changes::between(&started, &changed, &changed).needing_restart, ["hold"]);
        assert!(Changes::between(&started, &changed, &started).needing_restart.is_empty());
    }
}
