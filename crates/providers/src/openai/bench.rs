//! The cost of decoding a long answer, from the bytes of the body to the engine's events: printed, never asserted. `make bench` runs it.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use bytes::Bytes;
use fermata_engine::{
    Model,
    model::{ModelEvent, ModelRequest},
};
use futures::StreamExt;
use serde_json::Value;

use super::{OpenAi, OpenAiConfig};

const DELTAS: usize = 5_000;
const ROUNDS: usize = 41;

/// The data of the events of an answer of [`DELTAS`] words, with the fields that OpenAI sends.
fn answer() -> Vec<String> {
    let delta = |n: usize| {
        format!(
            r#"{{"id":"chatcmpl-BxQ0a","object":"chat.completion.chunk","created":1762000000,"model":"gpt-5.1-2025-11-13","service_tier":"default","system_fingerprint":null,"choices":[{{"index":0,"delta":{{"content":" word{n}"}},"logprobs":null,"finish_reason":null}}],"usage":null,"obfuscation":"aX93kd"}}"#
        )
    };
    let stopped = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    (0..DELTAS).map(delta).chain([stopped.to_owned()]).collect()
}

async fn read(model: &OpenAi) -> Duration {
    let begun = Instant::now();
    let mut events = model.stream(ModelRequest::default()).await.unwrap();
    let mut words = 0;
    while let Some(event) = events.next().await {
        if let ModelEvent::Text(text) = event.unwrap() {
            words += black_box(text).matches("word").count();
        }
    }
    assert_eq!(words, DELTAS);
    begun.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[tokio::test]
#[ignore = "measures; `make bench` runs it"]
#[expect(clippy::print_stdout, reason = "the numbers are what it is for")]
async fn bench_decoding_a_long_answer() {
    let answer = answer();
    let mut body: String = answer.iter().map(|data| format!("data: {data}\n\n")).collect();
    body.push_str("data: [DONE]\n\n");
    let model = OpenAi::build(OpenAiConfig::new("m")).unwrap();
    let by_event = body.split_inclusive("\n\n").map(|event| Bytes::copy_from_slice(event.as_bytes()));
    let by_size = body.as_bytes().chunks(4096).map(Bytes::copy_from_slice);
    for (pieces, name) in
        [(by_event.collect(), "one event at a time"), (by_size.collect(), "in 4 KiB pieces")]
    {
        let model = model.with_recording(pieces);
        let (mut decoded, mut parsed) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            decoded.push(read(&model).await);
            let begun = Instant::now();
            for data in &answer {
                black_box(serde_json::from_str::<Value>(data).unwrap());
            }
            parsed.push(begun.elapsed());
        }
        let (decoded, parsed) = (median(decoded), median(parsed));
        println!(
            "{DELTAS} deltas {name}: {} ns each, {:.2} times their JSON read into a `Value` ({} ns each)",
            decoded.as_nanos() / DELTAS as u128,
            decoded.as_secs_f64() / parsed.as_secs_f64(),
            parsed.as_nanos() / DELTAS as u128,
        );
    }
}
