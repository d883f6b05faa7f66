//! The targets that are measured: the byte proxy, Fermata on SQLite or PostgreSQL, and what else does the same work. All lead to the same
//! model API.

use std::{
    fs::File,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant, SystemTime},
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
    pub kind: Kind,
    pub process: Process,
    pub address: SocketAddr,
    /// The folder of its files and its log; `None` of the byte proxy.
    folder: Option<TempDir>,
    /// The beginning of the ids of its chats, which differs from round to round if the database does not.
    prefix: String,
    chats: AtomicUsize,
}

/// The kind of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A proxy that passes bytes on with hyper, the yardstick.
    Proxy,
    /// nginx as a proxy that buffers nothing.
    Nginx,
    /// The AI SDK's own server on Node, which saves nothing.
    AiSdk,
    Fermata,
}

/// A question.
pub struct Asking {
    pub script: Script,
    /// More fields of the post.
    pub more: Value,
}

// === impl Kind ===

impl Kind {
    /// All kinds, in the order of the table.
    pub const ALL: [Self; 4] = [Self::Proxy, Self::Nginx, Self::AiSdk, Self::Fermata];

    /// Returns the heading of its column.
    pub fn name(self) -> &'static str {
        match self {
            Self::Proxy => "byte proxy",
            Self::Nginx => "nginx",
            Self::AiSdk => "AI SDK on Node",
            Self::Fermata => "Fermata",
        }
    }
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
        Ok(Target {
            kind: Kind::Proxy,
            process,
            address,
            folder: None,
            prefix: String::new(),
            chats: AtomicUsize::new(0),
        })
    }

    /// Starts nginx.
    pub async fn nginx(&self, program: &str) -> anyhow::Result<Target> {
        let folder = TempDir::new()?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let at = folder.path().display();
        let settings = format!(
            "daemon off; master_process off; pid {at}/pid; error_log stderr;
             events {{ worker_connections 4096; }}
             http {{
                access_log off; client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;
                fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
                upstream model {{ server {}; keepalive 512; }}
                server {{
                    listen {address};
                    location / {{
                        proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ''; proxy_buffering off;
                    }}
                }}
             }}",
            self.model.address
        );
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, settings)?;
        let mut command = Command::new(program);
        command.arg("-c").arg(file);
        self.start_at(Kind::Nginx, command, address, folder).await
    }

    /// Starts the AI SDK's own server with this script.
    pub async fn ai_sdk(&self, script: &Path) -> anyhow::Result<Target> {
        let mut command = Command::new("node");
        command.arg(script).arg(format!("http://{}/v1", self.model.address)).arg(MODEL);
        let (process, address) = self.cores.start_with_address(&mut command)?;
        Ok(Target {
            kind: Kind::AiSdk,
            process,
            address,
            folder: None,
            prefix: "chat".into(),
            chats: AtomicUsize::new(0),
        })
    }

    /// Starts Fermata with an empty SQLite database.
    pub async fn fermata(&self) -> anyhow::Result<Target> {
        Ok(self.start_new().await?.0)
    }

    /// Starts Fermata with an empty SQLite database. Returns also the time until it is ready.
    pub async fn start_new(&self) -> anyhow::Result<(Target, Duration)> {
        let folder = TempDir::new()?;
        let url = sqlite_in(&folder);
        self.start(folder, &url, "chat".into()).await
    }

    /// Starts Fermata with this database of PostgreSQL.
    pub async fn fermata_on_postgres(&self, url: &str) -> anyhow::Result<Target> {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let prefix = format!("chat-{}", since_1970.as_nanos());
        Ok(self.start(TempDir::new()?, url, prefix).await?.0)
    }

    /// Ends Fermata without a word, and starts it again on its SQLite database. Returns also the time until it is ready.
    pub async fn start_again(&self, target: Target) -> anyhow::Result<(Target, Duration)> {
        let Target { process, folder, prefix, .. } = target;
        drop(process);
        let folder = folder.context("the byte proxy has no database")?;
        let url = sqlite_in(&folder);
        self.start(folder, &url, prefix).await
    }

    async fn start(
        &self,
        folder: TempDir,
        database_url: &str,
        prefix: String,
    ) -> anyhow::Result<(Target, Duration)> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = Command::new(self.server.canonicalize().context("the server's binary")?);
        command
            .env_clear()
            .env("FERMATA_BIND", address.to_string())
            .env("DATABASE_URL", database_url)
            .env("OPENAI_BASE_URL", format!("http://{}/v1", self.model.address))
            .env("OPENAI_API_KEY", "bench-key-of-nobody")
            .env("FERMATA_MODEL", MODEL)
            .env("FERMATA_MAX_CONNECTIONS", "200000")
            .env("RUST_LOG", "warn")
            .current_dir(folder.path());
        let begin = Instant::now();
        let target = self.start_at(Kind::Fermata, command, address, folder).await?;
        Ok((Target { prefix, ..target }, begin.elapsed()))
    }

    /// Starts a process that will listen at this address, and waits until it is ready.
    async fn start_at(
        &self,
        kind: Kind,
        mut command: Command,
        address: SocketAddr,
        folder: TempDir,
    ) -> anyhow::Result<Target> {
        let log = File::create(folder.path().join("log"))?;
        command.stdout(log.try_clone()?).stderr(Stdio::from(log));
        let process = self.cores.start(&mut command)?;
        let (folder, prefix, chats) = (Some(folder), String::new(), AtomicUsize::new(0));
        let mut target = Target { kind, process, address, folder, prefix, chats };
        while !target.is_ready().await {
            if !target.process.is_alive() {
                bail!("it did not start: {}", target.log());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(target)
    }
}

fn sqlite_in(folder: &TempDir) -> String {
    format!("sqlite://{}/bench.db", folder.path().display())
}

// === impl Target ===

impl Target {
    /// Asks for an answer, in a new chat, whose id is returned with the answer.
    pub async fn ask(&self, client: &mut Client, asking: Asking) -> anyhow::Result<(String, Body)> {
        let number = self.chats.fetch_add(1, Ordering::Relaxed);
        let chat = format!("{}-{number}", self.prefix);
        let Asking { script, more } = asking;
        let text = script.to_text();
        if matches!(self.kind, Kind::Proxy | Kind::Nginx) {
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

    async fn is_ready(&self) -> bool {
        let connected = Client::connect(self.address).await;
        match (self.kind, connected) {
            (_, Err(_)) => false,
            (Kind::Fermata, Ok(mut client)) => client.get("/readyz").await.is_ok(),
            (_, Ok(_)) => true,
        }
    }

    /// Returns what the server has logged.
    pub fn log(&self) -> String {
        let log = self.folder.as_ref().map(|folder| std::fs::read_to_string(folder.path().join("log")));
        format!("its log: {}", log.and_then(Result::ok).unwrap_or_default())
    }
}
