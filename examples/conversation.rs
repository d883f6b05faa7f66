//! A whole conversation with a tool of one's own: `cargo run -p fermata-examples --bin conversation`.
//!
//! With `OPENAI_API_KEY` (or `OPENAI_BASE_URL`) and `FERMATA_MODEL` set, that model answers, otherwise the
//! built-in demo. The program fails unless the model was told what the tool said.

#![expect(clippy::print_stdout, reason = "a conversation is there to be read")]

use std::{
    io::Write,
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, ensure};
use async_trait::async_trait;
use fermata_engine::{
    Model, Runner,
    model::{ModelCall, ModelContent, ModelError, ModelEvent, ModelMessage, ModelRequest},
    runner::{Approval, Hooks, Params, Step, StopReason},
};
use fermata_providers::Provider;
use fermata_tools::{CallContext, Decision, ErrorType, ToolError, ToolSpec, TypedTool, typed};
use futures::stream::BoxStream;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Knows how many of a thing are left in a shop.
struct StockLevel;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Question {
    /// Which thing.
    item: Item,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Item {
    Lamp,
    Chair,
    Table,
}

#[async_trait]
impl TypedTool for StockLevel {
    const NAME: &'static str = "stock_level";
    const DESCRIPTION: &'static str = "Tells how many of an item are left in the shop.";
    // Asked about, to show how a program is asked; a tool that only reads could say `Allow`.
    const POLICY: Decision = Decision::Ask;
    type Input = Question;

    async fn call(&self, input: Question, _: CallContext) -> Result<Value, ToolError> {
        let left = match input.item {
            Item::Lamp => 4711,
            Item::Chair => 42,
            Item::Table => return Err(ToolError::new(ErrorType::EmptyResult, "Tables are not sold here.")),
        };
        Ok(json!({ "left": left }))
    }
}

/// Shows the conversation while it goes on, and answers the tool's question as the shop's owner would.
struct Shown;

#[async_trait]
impl Hooks for Shown {
    fn event(&self, event: &ModelEvent) {
        if let ModelEvent::Text(words) = event {
            print!("{words}");
            // Whoever reads a pipe sees the words later; nothing else is lost.
            let _ = std::io::stdout().flush();
        }
    }

    fn step(&self, _: &Step) {
        println!();
    }

    fn result(&self, call: &ModelCall, result: &Result<Value, ToolError>) {
        match result {
            Ok(output) => println!("  {} {} -> {output}", call.tool, call.input),
            Err(error) => println!("  {} {} failed: {error}", call.tool, call.input),
        }
    }

    async fn approve(&self, call: &ModelCall, _: &ToolSpec, _: Option<&str>) -> Approval {
        println!("\n  {} may look", call.tool);
        Approval::Approved
    }
}

/// A model that keeps in mind what it was asked with; anything that implements [`Model`] can answer.
struct Witness {
    model: Arc<dyn Model>,
    heard: Mutex<Vec<ModelMessage>>,
}

#[async_trait]
impl Model for Witness {
    fn name(&self) -> &str {
        self.model.name()
    }

    async fn stream(
        &self,
        request: ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelEvent, ModelError>>, ModelError> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&request.messages);
        self.model.stream(request).await
    }
}

impl Witness {
    /// Whether the last question had a result of the tool with these words in it.
    fn was_told(&self, tool_name: &str, wanted: &str) -> bool {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.iter().any(|message| match message {
            ModelMessage::Tool { tool, content, .. } if tool == tool_name => {
                content.iter().any(|piece| match piece {
                    ModelContent::Text(text) => text.contains(wanted),
                    ModelContent::File { .. } => false,
                })
            }
            ModelMessage::Tool { .. }
            | ModelMessage::System(_)
            | ModelMessage::User(_)
            | ModelMessage::Assistant { .. } => false,
        })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let variable = |name| std::env::var(name).ok();
    let provider = Provider::choose(
        variable("OPENAI_BASE_URL"),
        variable("OPENAI_API_KEY").map(Into::into),
        variable("FERMATA_MODEL"),
    )?;
    // The demo is a script that understands orders only.
    let (first, second) = match provider {
        Provider::Demo(_) => ("use stock_level", "think about lamps"),
        Provider::OpenAi(_) => ("How many lamps are left?", "Is that a lot? One sentence."),
    };
    let model = Arc::new(Witness { model: fermata_providers::build(provider)?, heard: Mutex::default() });
    let params = Params::new(model.clone())
        .system("You work in a shop. Look up the stock before you speak of it.")
        .tools([typed(StockLevel)])?
        .max_iterations(NonZeroU32::new(10).context("ten is not zero")?);

    println!("> {first}");
    let answered = Runner::new(params.clone().user(first)).with_hooks(Arc::new(Shown)).await?;
    println!("> {second}");
    let conversation = params.messages(answered.messages).user(second);
    let answered = Runner::new(conversation).with_hooks(Arc::new(Shown)).await?;

    ensure!(answered.stop_reason == StopReason::Answered, "the model never came to an end");
    ensure!(model.was_told("stock_level", "4711"), "the model was never told what the tool said");
    println!(
        "({}: {} messages, {} tokens)",
        model.name(),
        answered.messages.len(),
        answered.usage.total_tokens
    );
    Ok(())
}
