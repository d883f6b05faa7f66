//! A model API that answers at once, as the last message asks it to: its first word names a [`Script`].
//!
//! It checks what a provider would refuse, so that nothing is measured that would not work.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use axum::{Json, Router, body::Body, response::Response, routing::post};
use bytes::Bytes;
use futures::{Stream, StreamExt, future::Either, stream};
use nix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::Value;
use tokio::{net::TcpListener, time::Instant};

/// The model's name.
pub const MODEL: &str = "bench-model";
/// The byte that begins each delta's text and occurs nowhere else.
pub const MARK: u8 = b'~';

/// A model API that is being served.
pub struct ModelApi {
    pub address: SocketAddr,
}

/// The way in which the model answers.
#[derive(Clone, Copy, Debug)]
pub enum Script {
    /// So many deltas, as fast as they can be written.
    Burst(usize),
    /// So many deltas, with a pause before each. Each says when it was written.
    Paced(usize, Duration),
    /// A call of the browser's tool `get_location`; and a few deltas once it has its output.
    Call,
}

/// The part of a request that matters here.
#[derive(Deserialize)]
struct Request {
    model: String,
    stream: bool,
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Value,
}

// === impl Script ===

impl Script {
    /// Returns the message that asks for this answer.
    pub fn to_text(self) -> String {
        match self {
            Self::Burst(deltas) => format!("burst {deltas}"),
            Self::Paced(deltas, pause) => format!("paced {deltas} {}", pause.as_micros()),
            Self::Call => "call".to_owned(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let name = words.next()?;
        let mut number = || words.next()?.parse().ok();
        Some(match name {
            "burst" => Self::Burst(number()?),
            "paced" => Self::Paced(number()?, Duration::from_micros(number()? as u64)),
            "call" => Self::Call,
            _ => return None,
        })
    }
}

// === impl ModelApi ===

impl ModelApi {
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let router = Router::new().route("/v1/chat/completions", post(answer));
        let listener = axum::serve::ListenerExt::tap_io(listener, |connection| {
            // It fails only for a connection that has ended.
            let _ = connection.set_nodelay(true);
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address })
    }
}

/// Returns the time in microseconds, as it is written in deltas. All processes have the same clock.
pub fn clock() -> u128 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| Duration::from(time).as_micros())
}

async fn answer(Json(request): Json<Request>) -> Result<Response, String> {
    if request.model != MODEL || !request.stream {
        return Err(format!("asked for {}, streamed: {}", request.model, request.stream));
    }
    let last = request.messages.last().ok_or("no messages")?;
    let has_output = last.role == "tool";
    let asked = request.messages.iter().rfind(|message| message.role == "user").ok_or("no user message")?;
    let text = match &asked.content {
        Value::String(text) => text.as_str(),
        content => content.pointer("/0/text").and_then(Value::as_str).unwrap_or_default(),
    };
    let script = Script::parse(text).ok_or_else(|| format!("no script: {text}"))?;
    let deltas = match script {
        Script::Burst(deltas) => Either::Left(burst(deltas)),
        Script::Call if has_output => Either::Left(burst(3)),
        Script::Paced(deltas, pause) => Either::Right(Either::Left(paced(deltas, pause))),
        Script::Call => Either::Right(Either::Right(stream::iter([call()]))),
    };
    let reason = if matches!(script, Script::Call) && !has_output { "tool_calls" } else { "stop" };
    let last = format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\n\
         data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{{\"prompt_tokens\":20,\"completion_tokens\":20,\"total_tokens\":40}}}}\n\n\
         data: [DONE]\n\n"
    );
    let body = deltas.chain(stream::iter([Bytes::from(last)])).map(Ok::<_, Infallible>);
    let response = Response::builder().header("content-type", "text/event-stream");
    response.body(Body::from_stream(body)).map_err(|error| error.to_string())
}

/// Returns deltas that are written one by one: hyper writes what it has when a body has nothing more at the moment.
fn burst(deltas: usize) -> impl Stream<Item = Bytes> {
    stream::iter(0..deltas).then(|number| async move {
        tokio::task::yield_now().await;
        delta(&format!(" {}word{number}", char::from(MARK)))
    })
}

fn paced(deltas: usize, pause: Duration) -> impl Stream<Item = Bytes> {
    let begin = Instant::now();
    stream::iter(1..=deltas).then(move |number| async move {
        tokio::time::sleep_until(begin + pause * u32::try_from(number).unwrap_or(u32::MAX)).await;
        delta(&format!(" {}{}", char::from(MARK), clock()))
    })
}

/// An event as OpenAI sends it, with all of its fields.
fn delta(text: &str) -> Bytes {
    event(&format!("{{\"content\":\"{text}\"}}"))
}

fn call() -> Bytes {
    event(
        r#"{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"get_location","arguments":"{}"}}]}"#,
    )
}

fn event(delta: &str) -> Bytes {
    format!(
        "data: {{\"id\":\"chatcmpl-BxQ0a\",\"object\":\"chat.completion.chunk\",\"created\":1762000000,\"model\":\"{MODEL}\",\
         \"service_tier\":\"default\",\"system_fingerprint\":null,\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\
         \"finish_reason\":null}}],\"usage\":null,\"obfuscation\":\"aX93kd\"}}\n\n"
    )
    .into()
}
