//! Tests of the stream that depend on time or on a socket.

use std::{sync::Arc, time::Duration};

use fermata_engine::{
    Assistants, Engine, EngineParts, MemoryService, Rules, Settings, Submission, memories::MemoryLimits,
    store::InMemoryStore,
};
use fermata_protocol::ChatBody;
use fermata_server::{RandomIds, SystemClock, readers::Readers, sse};
use fermata_tools::{Capacity, Owner};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    TestApp,
    app::{PATIENCE, Stream, says, says_with_location},
    scripted::{self, Scripted, calls},
};

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_gives_a_sign_of_life_in_time() {
    // This engine runs on this thread only, so that all of its time is paused.
    let store = Arc::new(InMemoryStore::default());
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds));
    let engine = Engine::new(EngineParts {
        assistants: Assistants::answered_by(Arc::new(Scripted::new([calls(&[("get_location", json!({}))])]))),
        peers: None,
        store: store.clone(),
        tools: vec![],
        rules: Rules::default(),
        clock: clock.clone(),
        ids: ids.clone(),
        resolver: Arc::new(fermata_engine::SystemResolver::default()),
        memories: MemoryService::new(store, clock, ids, None, Capacity::unlimited(), MemoryLimits::default()),
        model_requests: Capacity::unlimited(),
        traces: None,
        settings: Settings::default(),
    })
    .expect("an engine");
    let body = ChatBody::parse(says_with_location("c", "where?")).expect("a body");
    let owner = Owner::anyone();
    let guard = Readers::new(None).enter(&owner).expect("a guard");
    let submission = Submission {
        owner,
        body,
        hold: None,
        address: None,
        groups: Vec::new(),
        retries: None,
        traceparent: None,
    };
    let mut stream = Stream::of(sse::stream(&engine, engine.submit(submission).await.expect("a run"), guard));
    stream.until("tool-input-available").await;
    let mut last = tokio::time::Instant::now();
    for _ in 0..3 {
        let before = stream.comments;
        while stream.comments == before {
            assert!(stream.read_more().await, "the stream ended");
        }
        assert!(last.elapsed() <= Duration::from_secs(15), "quiet for {:?}", last.elapsed());
        last = tokio::time::Instant::now();
    }
}

#[tokio::test]
async fn text_reaches_the_socket_before_the_stream_ends() {
    let app = TestApp::new([scripted::goes_on_for_ever()]).await;
    let address = app.serve().await;
    let mut socket = tokio::net::TcpStream::connect(address).await.expect("a connection");
    let body = says("c", "hi").to_string();
    let head =
        format!("POST /api/chat HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    socket.write_all(head.as_bytes()).await.expect("sending");
    let mut seen = String::new();
    let mut piece = [0; 4096];
    while !seen.contains("text-delta") {
        let read =
            tokio::time::timeout(PATIENCE, socket.read(&mut piece)).await.expect("in time").expect("a piece");
        assert!(read > 0, "the stream ended after {seen}");
        seen.push_str(std::str::from_utf8(&piece[..read]).expect("text"));
    }
    assert!(!seen.to_lowercase().contains("content-encoding"), "{seen}");
    drop(socket);
    assert_eq!(app.get("/api/chat/c").await.json()["open"], true, "a client that goes away ends nothing");
}

#[tokio::test]
async fn an_owner_reads_so_many_streams_at_a_time() {
    let app = TestApp::with(&["--readers-per-owner", "2"], [calls(&[("get_location", json!({}))])]).await;
    let mut first = app.open(says_with_location("c", "where?")).await;
    first.until("tool-input-available").await;
    let _second = app.follow("c").await;
    let stream = app.get("/api/chat/c/stream").await;
    assert!(stream.problem(429, "too_many_readers").contains("readers_per_owner"));
    assert!(stream.headers.contains_key("retry-after"));
    app.post("/api/chat", says("d", "hi")).await.problem(429, "too_many_readers");
    app.get("/api/chat/d").await.problem(404, "not_found");
    drop(first);
    app.follow("c").await;
}
