//! A redis-server for one test, on a free port, with its own folder. Both are removed when it is dropped.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use fermata_peers::{ClusterKey, RedisTransport};
use redis::{FromRedisValue, aio::MultiplexedConnection};

/// The prefix of the keys in the tests.
pub const PREFIX: &str = "test";

/// The settings that let a server keep its data when it is killed.
pub const DURABLE: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

/// The cluster key of the instances in the tests.
pub fn key() -> ClusterKey {
    ClusterKey::parse("S1GA2b94PjbTYTdTTtDAkfRTBZbnMjrDxEIFSoRoAZU=").unwrap()
}

pub fn connect(url: &str, prefix: &str) -> RedisTransport {
    RedisTransport::connect(url, prefix, &key()).unwrap()
}

/// Returns the key of an instance's mailbox in Redis.
pub fn mailbox_key(instance: &str) -> String {
    format!("{PREFIX}:box:{instance}:{}", key().name())
}

pub struct Server {
    port: u16,
    folder: PathBuf,
    settings: Vec<String>,
    process: Option<Child>,
}

impl Server {
    /// Starts a server. Returns `None` if Redis is not installed and the tests may be skipped.
    pub fn start(settings: &[&str]) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !is_installed() {
            return None;
        }
        let name = format!("redis-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let mut server = Self { port: 0, folder, settings, process: None };
        // Another process may take the port before Redis does.
        let is_up = (0..10).any(|_| {
            server.port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            server.try_run()
        });
        assert!(is_up, "redis-server does not start");
        Some(server)
    }

    /// Starts the server again, on the same port.
    pub fn run(&mut self) {
        assert!(self.try_run(), "redis-server does not start again");
    }

    fn try_run(&mut self) -> bool {
        let mut process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--loglevel", "notice", "--port"])
            .arg(self.port.to_string())
            .arg("--dir")
            .arg(&self.folder)
            .args(&self.settings)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let is_up = lines.any(|line| line.contains("Ready to accept connections"));
        // The log is read, because the server would stop when the pipe is full.
        thread::spawn(move || lines.for_each(drop));
        self.process = Some(process);
        is_up
    }

    /// Kills the server. Data that is not on the disk is lost.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            process.wait().unwrap();
        }
    }

    /// Sends a signal to the process. While it is stopped, its connections stay open, and nothing is answered.
    pub fn signal(&self, signal: &str) {
        let id = self.process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn transport(&self) -> RedisTransport {
        connect(&self.url(), PREFIX)
    }

    /// Executes a Redis command.
    pub async fn ask<T: FromRedisValue>(&self, command: &[&str]) -> T {
        query(&mut self.connection().await, command).await
    }

    /// Waits until a client waits for a message.
    pub async fn until_a_client_waits(&self) {
        let mut connection = self.connection().await;
        loop {
            let clients: String = query(&mut connection, &["INFO", "clients"]).await;
            if !clients.contains("blocked_clients:0") {
                return;
            }
        }
    }

    pub async fn connection(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.url()).unwrap();
        client.get_multiplexed_async_connection().await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub async fn query<T: FromRedisValue>(connection: &mut MultiplexedConnection, command: &[&str]) -> T {
    let mut query = redis::cmd(command[0]);
    query.arg(&command[1..]);
    query.query_async(connection).await.unwrap()
}

#[expect(clippy::print_stderr, reason = "the output of the tests has to say what was not tested")]
fn is_installed() -> bool {
    let answer = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
    let is_installed = answer.is_ok_and(|status| status.success());
    if !is_installed {
        let is_required = std::env::var("FERMATA_REQUIRE_SERVICES").is_ok_and(|value| value == "1");
        assert!(!is_required, "redis-server is not installed");
        eprintln!("skipped: redis-server is not installed");
    }
    is_installed
}
