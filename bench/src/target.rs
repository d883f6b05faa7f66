//! The targets that are measured are the byte proxy and Fermata on SQLite. Both lead to the same model API.

use std::{
    fs::File,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    client::{Body, Client},
    model::{MODEL, ModelApi, Script},
    process::{Cores, Process},
};

/// The parts that each target is started with.
pub struct Targets<'a> {
    pub server: &'a Path,
    pub model: &'a ModelApi,
    pub cores: &'a Cores,
}

/// Something that passes on what the model says.
pub struct Target {
    pub process: Process,
    pub address: SocketAddr,
    /// The folder of its database and its log; `None` of the byte proxy.
    folder: Option<TempDir>,
    chats: AtomicUsize,
}

/// A question.
pub struct Asking {
    pub script: Script,
    /// More fields of the post.
    pub more: Value,
}

// === impl Asking ===

impl Asking {
    /// A question with nothing but its message.
    pub fn plain(script: Script) -> Self {
        Self { script, more: Value::Null }
    }
}

// === impl Targets ===

impl Targets<'_> {
    /// Starts the byte proxy.
    pub async fn proxy(&self) -> anyhow::Result<Target> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--proxy-of").arg(self.model.address.to_string());
        let (process, address) = self.cores.start_with_address(&mut command)?;
        Ok(Target { process, address, folder: None, chats: AtomicUsize::new(0) })
    }

    /// Starts Fermata with an empty SQLite database.
    pub async fn fermata(&self) -> anyhow::Result<Target> {
        let folder = TempDir::new()?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let log = File::create(folder.path().join("log"))?;
        let mut command = Command::new(self.server.canonicalize().context("the server's binary")?);
        command
            .env_clear()
            .env("FERMATA_BIND", address.to_string())
            .env("DATABASE_URL", format!("sqlite://{}/bench.db", folder.path().display()))
            .env("OPENAI_BASE_URL", format!("http://{}/v1", self.model.address))
            .env("OPENAI_API_KEY", "bench-key-of-nobody")
            .env("FERMATA_MODEL", MODEL)
            .env("FERMATA_MAX_CONNECTIONS", "200000")
            .env("RUST_LOG", "warn")
            .current_dir(folder.path())
            .stdout(log.try_clone()?)
            .stderr(Stdio::from(log));
        let process = self.cores.start(&mut command)?;
        let (folder, chats) = (Some(folder), AtomicUsize::new(0));
        let mut target = Target { process, address, folder, chats };
        while Client::connect(address).await.is_err() {
            if !target.process.is_alive() {
                bail!("the server did not start: {}", target.log());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(target)
    }
}

// === impl Target ===

impl Target {
    /// Asks for an answer, in a new chat, whose id is returned with the answer.
    pub async fn ask(&self, client: &mut Client, asking: Asking) -> anyhow::Result<(String, Body)> {
        let number = self.chats.fetch_add(1, Ordering::Relaxed);
        let chat = format!("chat-{number}");
        let Asking { script, more } = asking;
        let text = script.to_text();
        if self.is_proxy() {
            let body =
                json!({"model": MODEL, "messages": [{"role": "user", "content": text}], "stream": true});
            return Ok((chat, client.post("/v1/chat/completions", body.to_string()).await?));
        }
        let message = json!({"id": "m", "role": "user", "parts": [{"type": "text", "text": text}]});
        let mut body = json!({"id": chat, "messages": [message]});
        if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
            body.extend(more);
        }
        let body = client.post("/api/chat", body.to_string()).await?;
        Ok((chat, body))
    }

    pub fn is_proxy(&self) -> bool {
        self.folder.is_none()
    }

    /// Returns what the server has logged.
    pub fn log(&self) -> String {
        let log = self.folder.as_ref().map(|folder| std::fs::read_to_string(folder.path().join("log")));
        format!("the server's log: {}", log.and_then(Result::ok).unwrap_or_default())
    }
}
