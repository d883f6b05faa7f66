//! Streams and requests during a shutdown.

use serde_json::json;

use crate::{
    TestApp,
    app::{PATIENCE, says, says_with_location},
    commands::Folder,
    scripted::{calls, goes_on_for_ever},
};

/// A time limit that no test reaches.
const LONG: [&str; 2] = ["--drain", "1h"];

#[tokio::test]
async fn runs_at_work_go_on_and_nothing_new_begins() {
    let app = TestApp::with(&LONG, [goes_on_for_ever()]).await;
    let mut stream = app.open(says("c", "hi")).await;
    stream.until("text-delta").await;
    let ending = async {
        app.app.end_runs().await;
    };
    let meanwhile = async {
        while app.get("/readyz").await.status == 200 {
            tokio::task::yield_now().await;
        }
        app.get("/readyz").await.problem(503, "unavailable");
        assert_eq!(app.get("/healthz").await.status, 200);
        let refused = app.post("/api/chat", says("d", "hi")).await;
        refused.problem(503, "unavailable");
        assert!(refused.headers.contains_key("retry-after"));
        app.model.release();
        stream.end().await;
        assert_eq!(stream.kinds().last(), Some(&"finish"));
    };
    tokio::time::timeout(PATIENCE, async { tokio::join!(ending, meanwhile) }).await.expect("an end");
}

#[tokio::test]
async fn pending_calls_do_not_delay_a_shutdown() {
    let app = TestApp::with(&LONG, [calls(&[("get_location", json!({}))])]).await;
    let mut stream = app.open(says_with_location("c", "where?")).await;
    stream.until("tool-input-available").await;
    tokio::time::timeout(PATIENCE, app.app.end_runs()).await.expect("an end");
    stream.end().await;
    assert_eq!(stream.kinds().last(), Some(&"error"));
    assert!(stream.retry.is_some_and(|time| (1..=2000).contains(&time)), "{:?}", stream.retry);
}

#[tokio::test]
async fn a_run_that_is_at_work_for_too_long_is_cut() {
    let app = TestApp::with(&["--drain", "0s"], [goes_on_for_ever()]).await;
    let mut stream = app.open(says("c", "hi")).await;
    stream.until("text-delta").await;
    tokio::time::timeout(PATIENCE, app.app.end_runs()).await.expect("an end");
    stream.end().await;
    assert_eq!(stream.kinds().last(), Some(&"error"));
}

#[tokio::test]
async fn the_first_request_after_a_crash_is_not_sent_to_the_process_that_has_ended() {
    let folder = Folder::new();
    let url = format!("sqlite://{}", folder.0.join("fermata.db").display());
    let app = TestApp::on(&url, &[], [calls(&[("get_location", json!({}))])]).await;
    let mut stream = app.open(says_with_location("c", "where?")).await;
    stream.until("tool-input-available").await;
    // Nobody has told the database that the first one has ended.
    let second = TestApp::on(&url, &[], []).await;
    assert_eq!(second.pending("c").await.len(), 1);
}
