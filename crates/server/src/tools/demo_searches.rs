//! Tools that exist beside the demo model only, and show how failures end: one whose service is busy, and one whose service is away.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use fermata_protocol::ToolCallId;
use fermata_tools::{CallContext, Decision, ErrorType, ToolError, TypedTool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The names of these tools.
pub const NAMES: [&str; 2] = [BusySearch::NAME, BrokenSearch::NAME];
/// The number of attempts of a call that the busy service refuses.
const REFUSED: u32 = 2;
/// The maximum number of calls with known attempts. Abandoned ones are forgotten beyond it.
const MOST: usize = 1000;

/// The input of both tools.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The words to look for.
    query: String,
}

/// A search that is refused twice for too many requests, and then finds something.
#[derive(Default)]
pub struct BusySearch {
    attempts: Mutex<HashMap<ToolCallId, u32>>,
}

/// A search whose service is never reached. The notes are searched in its place.
pub struct BrokenSearch;

#[async_trait]
impl TypedTool for BusySearch {
    const NAME: &'static str = "busy_search";
    const TITLE: Option<&'static str> = Some("Search a busy service");
    const DESCRIPTION: &'static str = "Searches a service that takes no more requests at first. It is there for the demo and finds nothing real.";
    const POLICY: Decision = Decision::Allow;
    const REPEATABLE: bool = true;
    type Input = Input;

    async fn call(&self, input: Input, context: CallContext) -> Result<Value, ToolError> {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if attempts.len() > MOST {
            attempts.clear();
        }
        let made = attempts.entry(context.call.clone()).or_default();
        *made += 1;
        if *made <= REFUSED {
            return Err(ToolError::new(ErrorType::RateLimit, "The service takes no more requests for now."));
        }
        attempts.remove(&context.call);
        Ok(json!({ "found": [format!("Something about {}, made up", input.query)] }))
    }
}

#[async_trait]
impl TypedTool for BrokenSearch {
    const NAME: &'static str = "broken_search";
    const TITLE: Option<&'static str> = Some("Search a broken service");
    const DESCRIPTION: &'static str = "Searches a service that cannot be reached. It is there for the demo, and the notes are searched in its place.";
    const POLICY: Decision = Decision::Allow;
    const FALLBACK: Option<&'static str> = Some("search_notes");
    type Input = Input;

    async fn call(&self, _: Input, _: CallContext) -> Result<Value, ToolError> {
        Err(ToolError::new(ErrorType::Network, "The service cannot be reached."))
    }
}
