//! A database that is some way off: one that is made for this, behind a proxy that delays what it passes on and counts round trips.

use std::{
    net::SocketAddr,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    time::Instant,
};
use url::Url;

/// A server that is some way off.
pub struct Distance {
    pub address: SocketAddr,
    trips: Arc<AtomicUsize>,
}

/// A database of PostgreSQL that is dropped with this value.
pub struct Database {
    pub url: Url,
    server: Url,
    name: String,
}

/// One direction of a connection. It passes on what comes, and counts a round trip if the other side has spoken last.
struct Way {
    /// `true` if the server has spoken last, or nobody has.
    server_spoke: Arc<AtomicBool>,
    trips: Arc<AtomicUsize>,
    to_server: bool,
}

// === impl Database ===

impl Database {
    /// Makes a database on the server.
    pub fn create(server: &Url) -> anyhow::Result<Self> {
        let name = format!("fermata_bench_{}", std::process::id());
        let mut url = server.clone();
        url.set_path(&name);
        let made = Self { url, server: server.clone(), name };
        made.psql(&format!("create database {}", made.name))?;
        Ok(made)
    }

    fn psql(&self, statement: &str) -> anyhow::Result<()> {
        let output = Command::new("psql")
            .args(["-X", "-q", "-c", statement, self.server.as_str()])
            .output()
            .context("psql")?;
        ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // If it fails, a database is left that nobody needs.
        let _ = self.psql(&format!("drop database {} with (force)", self.name));
    }
}

// === impl Distance ===

impl Distance {
    /// Listens for connections to a server, which answers after this time at the soonest.
    pub async fn to(server: SocketAddr, round_trip: Duration) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, trips) = (listener.local_addr()?, Arc::new(AtomicUsize::new(0)));
        let counted = trips.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(server).await else { continue };
                // It fails only for a connection that has ended.
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                let server_spoke = Arc::new(AtomicBool::new(true));
                let way =
                    |to_server| Way { server_spoke: server_spoke.clone(), trips: counted.clone(), to_server };
                way(true).pass_on(from_client, to_server, round_trip / 2);
                way(false).pass_on(from_server, to_client, round_trip / 2);
            }
        });
        Ok(Self { address, trips })
    }

    /// Returns the number of times that a client has sent something and the server has answered.
    pub fn trips(&self) -> usize {
        self.trips.load(Ordering::Relaxed)
    }
}

// === impl Way ===

impl Way {
    fn pass_on(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) {
        let (sender, mut under_way) = mpsc::unbounded_channel::<(Instant, Bytes)>();
        tokio::spawn(async move {
            let mut piece = BytesMut::with_capacity(64 * 1024);
            while from.read_buf(&mut piece).await.is_ok_and(|read| read > 0) {
                let server_spoke = self.server_spoke.swap(!self.to_server, Ordering::Relaxed);
                if self.to_server && server_spoke {
                    self.trips.fetch_add(1, Ordering::Relaxed);
                }
                if sender.send((Instant::now() + delay, piece.split().freeze())).is_err() {
                    break;
                }
            }
        });
        tokio::spawn(async move {
            while let Some((at, piece)) = under_way.recv().await {
                tokio::time::sleep_until(at).await;
                if to.write_all(&piece).await.is_err() {
                    break;
                }
            }
        });
    }
}
