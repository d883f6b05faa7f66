//! A whole conversation with a tool of one's own: `cargo run -p fermata-examples --bin conversation`.
//!
//! With `OPENAI_API_KEY` (or `OPENAI_BASE_URL`) and `FERMATA_MODEL` set, that model answers, otherwise the
//! built-in demo. Each part shows other methods of the runner, and fails if they do not work.

#![expect(clippy::print_stdout, reason = "a conversation is there to be read")]

use std::{io::Write, num::NonZeroU32, sync::Arc};

use anyhow::{Context, ensure};
use async_trait::async_trait;
use fermata::{
    Provider, Runner, build_model,
    model::{ModelCall, ModelContent, ModelEvent, ModelMessage},
    runner::{Approval, Hooks, Params, Step, StopReason, ToolChoice},
    tools::{CallContext, Decision, ErrorType, ToolError, ToolSpec, TypedTool, typed},
};
use futures::TryStreamExt;
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
            // A pipe shows the words later; nothing else is lost.
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

/// Returns what the tool said last in a conversation.
fn last_result(messages: &[ModelMessage]) -> Option<&[ModelContent]> {
    messages.iter().rev().find_map(|message| match message {
        ModelMessage::Tool { content, .. } => Some(content.as_slice()),
        ModelMessage::System(_) | ModelMessage::User(_) | ModelMessage::Assistant { .. } => None,
    })
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let variable = |name| std::env::var(name).ok();
    let provider = Provider::choose(
        variable("OPENAI_BASE_URL"),
        variable("OPENAI_API_KEY").map(Into::into),
        variable("FERMATA_MODEL"),
    )?;
    // The demo model is a script that understands orders only.
    let (question, further) = match provider {
        Provider::Demo(_) => ("use stock_level", "think about lamps"),
        Provider::OpenAi(_) => ("How many lamps are left?", "Is that a lot? One sentence."),
    };
    let params = Params::new(build_model(provider)?)
        .system("You work in a shop. Look up the stock before you speak of it.")
        .tools([typed(StockLevel)])?
        .max_iterations(NonZeroU32::new(10).context("ten is not zero")?);
    let runner = |params: Params| Runner::new(params).with_hooks(Arc::new(Shown));

    println!("== to the end");
    let outcome = runner(params.clone().user(question)).await?;
    ensure!(outcome.stop_reason == StopReason::Answered, "the model never came to an end");
    ensure!(last_result(&outcome.messages).is_some(), "the model never called the tool");

    println!("== goes on with the conversation");
    let mut conversation = runner(params.clone().messages(outcome.messages).user(further));
    conversation.run().await?;
    println!("({} tokens)", conversation.usage().total_tokens);

    println!("== step by step, with a result of the program's own");
    let mut steps = runner(params.clone().user(question));
    let first = steps.next_step().await?.context("the loop has no step")?;
    if !first.calls.is_empty() {
        println!("  the tool says {:?}", steps.tool_response().await);
        let call = &first.calls[0];
        steps.push_messages([ModelMessage::Tool {
            call_id: call.id.clone(),
            tool: call.tool.clone(),
            content: vec![ModelContent::Text("None are left: the shop has burned down.".to_owned())],
        }]);
    }
    // From now on, the model can call nothing.
    steps.update_params(|params| params.tool_choice = Some(ToolChoice::None));
    steps.run().await?;
    let told = format!("{:?}", last_result(steps.messages()));
    ensure!(told.contains("burned down"), "the model got {told}");

    println!("== as a stream, while another task waits for the outcome");
    let mut streamed = runner(params.user(question));
    let elsewhere = tokio::spawn(streamed.done());
    let steps: Vec<Step> = streamed.steps().try_collect().await?;
    println!("({} steps)", steps.len());
    let outcome = elsewhere.await?.context("the loop has no outcome")?;
    println!("({} messages, {:?})", outcome.messages.len(), outcome.stop_reason);
    Ok(())
}
