//! From the bytes of a provider to the events of a model.

use std::hint::black_box;

use anyhow::{Result, ensure};
use bytes::Bytes;
use fermata_engine::{
    Model,
    model::{ModelEvent, ModelRequest},
};
use fermata_providers::{OpenAi, OpenAiConfig};
use futures::StreamExt;
use tokio::runtime::Builder;

use crate::Round;

/// An answer of so many words, whose events differ in nothing else.
pub fn answer(deltas: usize) -> Result<Round> {
    read(deltas, |_| 1_762_000_000)
}

/// An answer of so many words, whose events differ elsewhere, too, so that each of them is parsed.
pub fn changing_answer(deltas: usize) -> Result<Round> {
    read(deltas, |n| 1_762_000_000 + n)
}

/// An answer of so many words, one event in each piece, with the fields that OpenAI sends.
fn read(deltas: usize, created: impl Fn(usize) -> usize) -> Result<Round> {
    let delta = |n: usize| {
        let created = created(n);
        let data = format!(
            r#"{{"id":"chatcmpl-BxQ0a","object":"chat.completion.chunk","created":{created},"model":"gpt-5.1-2025-11-13","service_tier":"default","system_fingerprint":null,"choices":[{{"index":0,"delta":{{"content":" word{n}"}},"logprobs":null,"finish_reason":null}}],"usage":null,"obfuscation":"aX93kd"}}"#
        );
        Bytes::from(format!("data: {data}\n\n"))
    };
    let stopped = r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let end = [format!("{stopped}\n\n"), "data: [DONE]\n\n".into()].map(Bytes::from);
    let model =
        OpenAi::build(OpenAiConfig::new("m"))?.with_recording((0..deltas).map(delta).chain(end).collect());
    let runtime = Builder::new_current_thread().enable_all().build()?;
    ensure!(runtime.block_on(words(&model))? == deltas, "every delta is an event");
    Ok(Box::new(move || {
        let _ = black_box(runtime.block_on(words(&model)));
    }))
}

async fn words(model: &OpenAi) -> Result<usize> {
    let mut events = model.stream(ModelRequest::default()).await?;
    let mut words = 0;
    while let Some(event) = events.next().await {
        if let ModelEvent::Text(text) = event? {
            words += black_box(text).matches("word").count();
        }
    }
    Ok(words)
}
