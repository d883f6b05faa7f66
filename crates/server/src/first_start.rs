//! Says in the log at the start where the chats are stored, and how to have a model that is not the demo.

use std::{
    fmt,
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;

use crate::config::Config;

/// The reason why no file of settings was written.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// There is such a file.
    #[error("{} exists, and nothing is overwritten; --config names another file", .0.display())]
    Exists(PathBuf),
    /// The file cannot be written.
    #[error("cannot write {}", file.display())]
    Failed {
        /// The file.
        file: PathBuf,
        /// The failure.
        source: io::Error,
    },
}

/// The models that an Ollama server has, at the address where one listens by default.
#[derive(Debug, Deserialize, PartialEq, Eq)]
struct Ollama {
    models: Vec<OllamaModel>,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
struct OllamaModel {
    name: String,
}

const OLLAMA: &str = "http://127.0.0.1:11434";
/// The time that a server on the same machine has to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Logs what a person needs to know after the first start. `given` are the settings before a port was found.
pub fn tell(given: &Config, config: &Config) {
    let (wanted, found) = (given.server.address(), config.server.address());
    if wanted != found && !given.is_port_chosen() {
        tracing::info!(
            "port {} is taken, so the server listens on port {}; set FERMATA_BIND to choose an address",
            wanted.port(),
            found.port()
        );
    }
    if let Some(file) = fermata_store::file_of(config.database.database_url.as_str()) {
        let file = std::path::absolute(&file).unwrap_or(file);
        tracing::info!("chats are stored in {}", file.display());
    }
    if config.is_model_unset() {
        tracing::info!(
            "for a model that is not the demo, set OPENAI_API_KEY, or OPENAI_BASE_URL and FERMATA_MODEL; `fermata init` writes a file of \
             settings"
        );
    }
}

/// Logs how to use the Ollama server of this machine, if there is one and no model is set.
pub async fn mention_ollama(config: Config) {
    if config.is_model_unset()
        && let Some(ollama) = Ollama::find(OLLAMA).await
    {
        tracing::info!("{ollama}");
    }
}

/// Writes a small file of settings and returns a report.
///
/// # Errors
/// Returns an error if there is such a file, or if it cannot be written.
pub fn init(file: &Path) -> Result<String, InitError> {
    let written = File::create_new(file).and_then(|mut opened| opened.write_all(INITIAL.as_bytes()));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => InitError::Exists(file.to_owned()),
        _ => InitError::Failed { file: file.to_owned(), source: error },
    })?;
    Ok(format!("wrote {}; `fermata --check` prints the settings in force\n", file.display()))
}

/// The file of settings that `init` writes.
const INITIAL: &str = include_str!("first_start/fermata.toml");

// === impl Ollama ===

impl Ollama {
    /// Asks the server at this address for its models.
    async fn find(address: &str) -> Option<Self> {
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().ok()?;
        let reply = client.get(format!("{address}/api/tags")).send().await.ok()?;
        reply.error_for_status().ok()?.json().await.ok()
    }
}

impl fmt::Display for Ollama {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ollama answers at {OLLAMA}")?;
        match self.models.first() {
            None => f.write_str(", but has no model; `ollama pull llama3.1` downloads one"),
            Some(OllamaModel { name }) => {
                write!(f, "; OPENAI_BASE_URL={OLLAMA}/v1 FERMATA_MODEL={} uses it", name.escape_debug())
            }
        }
    }
}
