//! Tests the log of a server that fails. The test runs in a process of its own, because a process has only one log.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, http::StatusCode, routing::post};
use fermata_mcp::{Hub, ServerConfig, Transport};
use tokio::{net::TcpListener, sync::mpsc, time::timeout};

/// A secret of the settings.
const KEY: &str = "sesame-open-up";

/// A log that the test can read.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_failure_is_logged_once_and_without_secrets() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).init();
    // This server repeats the secrets.
    let (asked, mut asks) = mpsc::unbounded_channel();
    let answer = async move || {
        let _ = asked.send(());
        (StatusCode::BAD_REQUEST, format!("what is Bearer {KEY} or key={KEY}?"))
    };
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp?key={KEY}", port.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(port, Router::new().route("/mcp", post(answer))).await });
    let headers = BTreeMap::from([("authorization".to_owned(), format!("Bearer {KEY}"))]);
    let config = ServerConfig::new(Transport::Http { url, headers });
    let _hub = Hub::start([("talkative".to_owned(), config)].into(), |_| {});
    for _ in 0..3 {
        timeout(Duration::from_secs(60), asks.recv()).await.expect("it is tried again").unwrap();
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let ours: Vec<&str> = log.lines().filter(|line| line.contains("fermata_mcp")).collect();
    assert_eq!(ours.len(), 1, "{log}");
    assert!(ours[0].contains("WARN") && ours[0].contains("what is *** or key=***?"), "{log}");
    assert!(!log.contains(KEY), "{log}");
}
