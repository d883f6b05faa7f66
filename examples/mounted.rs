//! Fermata inside a bigger Axum app: `cargo run -p fermata-examples --bin mounted`.
//!
//! The app has a route and a state of its own, and all of Fermata under `/assistant`, with a tool that sees that
//! state. It serves until it is interrupted; with `--check` it talks to itself over HTTP instead, and fails unless both halves answer.

#![expect(clippy::print_stdout, reason = "whoever starts it must learn where it is")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use async_trait::async_trait;
use axum::{Router, extract::State, routing::get};
use fermata::{
    App,
    config::Config,
    router,
    tools::{CallContext, Decision, ToolError, TypedTool, typed},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The state of the bigger app.
#[derive(Clone, Default)]
struct Shop {
    visits: Arc<AtomicU64>,
}

/// A tool that the model can call, beside Fermata's own.
struct CountVisits(Shop);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[async_trait]
impl TypedTool for CountVisits {
    const NAME: &'static str = "count_visits";
    const DESCRIPTION: &'static str = "Tells how many visits the shop has had.";
    const POLICY: Decision = Decision::Allow;
    type Input = Nothing;

    async fn call(&self, _: Nothing, _: CallContext) -> Result<Value, ToolError> {
        Ok(json!({ "visits": self.0.visits.load(Ordering::Relaxed) }))
    }
}

async fn visits(State(shop): State<Shop>) -> String {
    let visits = shop.visits.fetch_add(1, Ordering::Relaxed) + 1;
    format!("{visits} visits")
}

/// The bigger app. Each half has its own state, so each is given it before they are put together.
fn site(shop: Shop, fermata: App) -> Router {
    Router::new().route("/visits", get(visits)).with_state(shop).nest("/assistant", router(fermata))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let checking = std::env::args().any(|argument| argument == "--check");
    // A check must not depend on the settings of whoever runs it, and never costs anything.
    let mut config = Config::from_environment(&|name| std::env::var(name).ok().filter(|_| !checking))?;
    if checking {
        config.database.database_url = "sqlite::memory:".into();
    }
    let shop = Shop::default();
    let fermata = App::builder(&config).tools([typed(CountVisits(shop.clone()))]).build().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let base = format!("http://{}", listener.local_addr()?);
    println!("{base}/visits is the app's own, {base}/assistant is Fermata, answered by {}", fermata.model());

    let server = axum::serve(listener, site(shop, fermata.clone())).into_future();
    tokio::select! {
        served = server => served?,
        checked = check(&base), if checking => checked?,
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        () = tidy(&fermata) => {}
    }
    // Runs that are open are saved, and their readers told.
    fermata.shutdown().await;
    Ok(())
}

/// Folds numbers together that nobody reads; not needed where the program has a `metrics` recorder of its
/// own.
async fn tidy(fermata: &App) {
    let mut interval = tokio::time::interval(Duration::from_secs(5));
    loop {
        interval.tick().await;
        fermata.metrics().tidy();
    }
}

/// Uses both halves as a client would.
async fn check(base: &str) -> anyhow::Result<()> {
    let client = reqwest::Client::new();
    let visit = async || -> anyhow::Result<String> {
        Ok(client.get(format!("{base}/visits")).send().await?.error_for_status()?.text().await?)
    };
    ensure!(visit().await? == "1 visits", "the app's own route has its own state");

    let post = json!({
        "id": "hello",
        "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "use count_visits"}]}],
    });
    let chat = client.post(format!("{base}/assistant/api/chat")).json(&post).send().await?;
    let stream = chat.error_for_status()?.text().await?;
    ensure!(stream.contains(r#""output":{"visits":1}"#), "the demo calls the app's own tool: {stream}");
    ensure!(stream.ends_with("data: [DONE]\n\n"), "a stream ends with its mark: {stream}");

    let record = client.get(format!("{base}/assistant/api/chat/hello")).send().await?.error_for_status()?;
    let record: Value = serde_json::from_str(&record.text().await?)?;
    let messages = record["messages"].as_array().context("a chat has messages")?;
    ensure!(messages.len() == 2, "the question and the answer are in the record: {record}");

    ensure!(visit().await? == "2 visits", "the app goes on beside it");
    println!("both answer");
    Ok(())
}
