//! Checks of inputs and outputs against schemas. A cheap check is made at once, an expensive one on a blocking thread, each within a fixed cost.
//!
//! Schemas may come from pages and inputs from models, so neither may block a thread that others need. The cost of a check is counted
//! while it runs ([`crate::schema`]). Validators are built when they are first needed, and shared by all tools with an equal schema. Only
//! the bounded cache and running checks hold validators.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use fermata_protocol::JsonText;
use futures::{FutureExt, future::BoxFuture};
use jsonschema::{PatternOptions, Validator};
use quick_cache::{Weighter, sync::Cache};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::{
    OutputSchema,
    registered_tool::RegisteredTool,
    schema::{self, Meter, Metered, MeteredJson, Misfit, Prices, SchemaCost},
};

/// The limit on the steps of checks that are made at once; they take about a millisecond.
const STEPS_AT_ONCE: u64 = 50_000;
/// The limit on the steps of any check.
const MAX_STEPS: u64 = 50_000_000;
/// The least number of steps for describing the errors of an input.
const ERROR_STEPS: u64 = 500_000;
/// The limit on the errors of one input that are in memory at a time. Only the first few are reported.
const MAX_ERRORS: u64 = 2_000;
/// The limit on the bytes of a schema whose validator is built at once.
const BUILT_AT_ONCE: usize = 16 * 1024;
/// The limit on the states of the patterns of such a schema.
const STATES_AT_ONCE: u64 = 8_000;
/// The limit on the levels of an input multiplied by the levels of its schema. Each level takes some of the thread's stack.
const DEEPEST: usize = 1_500;
/// The limit on that product for checks on a thread with a stack of the default size. Others run on a thread with [`STACK`].
const DEEPEST_AT_ONCE: usize = 250;
/// The limit on the levels of a schema whose validator is built on a stack of the default size.
const DEEPEST_BUILT_AT_ONCE: usize = 40;
/// The size of a large stack, in bytes. The operating system provides memory only for the part that is used.
const STACK: usize = 64 * 1024 * 1024;
/// The limit on the estimated size of all cached validators, in bytes.
const CACHE: u64 = 64 * 1024 * 1024;
/// The limit on a compiled pattern, in bytes. Patterns that [`schema::cost`] accepts need less.
const PATTERN_BYTES: usize = 8 * 1024 * 1024;
/// The limit on the lazily built automaton of a pattern, in bytes.
const PATTERN_MEMORY: usize = 64 * 1024;

/// Checks inputs against schemas. A process has one.
pub struct Checker {
    validators: Cache<Key, Arc<Built>, ByBytes>,
    /// Each blocking thread that checks inputs holds a permit.
    permits: Arc<Semaphore>,
}

/// An input with the schema that it is checked against. It is read when it is checked, because checks may wait for their turn.
#[derive(Clone)]
pub struct Check {
    pub(crate) schema: Schema,
    pub(crate) value: JsonText,
}

/// A description of how a value violates its schema, for the model and the person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct InputError {
    /// The description.
    pub text: String,
    /// The places that it is about, as far as it names some.
    pub places: Vec<Misfit>,
}

/// The schema of a value that is checked.
#[derive(Clone)]
pub(crate) enum Schema {
    /// The schema of a tool's input.
    Tool(Arc<RegisteredTool>),
    /// The schema of a tool's output.
    Output(OutputSchema),
    /// The schema of a question to the person. Formats such as `email` are also checked.
    Elicitation(Arc<Value>),
}

/// The SHA-256 of a schema and its kind, which together determine the validator.
type Key = [u8; 32];

/// The results of checks, one for each.
pub type CheckResults = Vec<Result<(), InputError>>;

/// Checks that were made at once, or take a while.
pub enum Checking {
    /// The results.
    Done(CheckResults),
    /// Their results come later.
    Later(BoxFuture<'static, CheckResults>),
}

struct Built {
    validator: Validator<MeteredJson>,
    bytes: u64,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Arc<Built>> for ByBytes {
    fn weight(&self, _: &Key, built: &Arc<Built>) -> u64 {
        built.bytes
    }
}

// === impl Checker ===

impl Checker {
    /// Creates a checker with an empty cache.
    pub fn new() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            validators: Cache::with_weighter(256, CACHE, ByBytes),
            // The other half of the processors is left to the rest of the server.
            permits: Arc::new(Semaphore::new((threads / 2).max(1))),
        }
    }

    /// Makes checks at once; `None` if all of them together would take longer than about a millisecond.
    fn check_at_once(&self, checks: &[Check]) -> Option<CheckResults> {
        let steps = STEPS_AT_ONCE / checks.len().max(1) as u64;
        checks.iter().map(|check| self.attempt(check, steps, None, false)).collect()
    }

    /// Makes a check on this thread, without a time limit.
    ///
    /// # Errors
    /// Returns an error if the input violates the schema, or if the check costs too much.
    pub fn check_here(&self, check: &Check) -> Result<(), InputError> {
        self.attempt(check, MAX_STEPS, None, true).unwrap_or_else(|| Err(too_expensive()))
    }

    /// Makes checks: cheap ones at once, others on a blocking thread, within a time limit for all of them.
    pub fn check(self: &Arc<Self>, checks: Vec<Check>, limit: Duration) -> Checking {
        match self.check_at_once(&checks) {
            Some(results) => Checking::Done(results),
            None => Checking::Later(self.clone().check_on_thread(checks, limit).boxed()),
        }
    }

    async fn check_on_thread(self: Arc<Self>, checks: Vec<Check>, limit: Duration) -> CheckResults {
        let (count, until) = (checks.len(), Instant::now() + limit);
        let results = async {
            let permit = self.permits.clone().acquire_owned().await;
            tokio::task::spawn_blocking(move || {
                let _permit = permit;
                let mut results = Vec::new();
                for check in &checks {
                    let is_late = Instant::now() >= until;
                    let result =
                        if is_late { None } else { self.attempt(check, MAX_STEPS, Some(until), true) };
                    results.push(match result {
                        Some(result) => result,
                        None if Instant::now() < until => Err(too_expensive()),
                        None => Err(too_slow(limit)),
                    });
                }
                results
            })
            .await
        };
        match tokio::time::timeout(limit, results).await {
            Ok(Ok(results)) => results,
            Ok(Err(_)) => vec![Err(unchecked()); count],
            // The thread may still be building a validator. The limits on schemas bound the time that it takes.
            Err(_) => vec![Err(too_slow(limit)); count],
        }
    }

    /// Makes a check within a number of steps and until a point in time. Returns `None` if that was not enough, or if an expensive
    /// validator would have to be built and `may_build` is false.
    fn attempt(
        &self,
        check: &Check,
        steps: u64,
        until: Option<Instant>,
        may_build: bool,
    ) -> Option<Result<(), InputError>> {
        let cost = match check.schema.cost() {
            Ok(cost) => cost,
            Err(reason) => return Some(Err(InputError::new(format!("the schema cannot be used: {reason}")))),
        };
        let value = check.value.value();
        let levels = cost.depth.saturating_mul(depth(&value) + 1);
        if levels > DEEPEST {
            return Some(Err(InputError::new(format!(
                "it is nested too deep for its schema: the levels of both multiplied are over {DEEPEST}"
            ))));
        }
        let is_deep = levels > DEEPEST_AT_ONCE || cost.depth > DEEPEST_BUILT_AT_ONCE;
        if is_deep && !may_build {
            return None;
        }
        let work = || self.build_and_run(&check.schema, &value, &cost, steps, until, may_build);
        if !is_deep {
            return work();
        }
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
            thread.ok().and_then(|thread| thread.join().ok()).unwrap_or_else(|| Some(Err(unchecked())))
        })
    }

    fn build_and_run(
        &self,
        schema: &Schema,
        value: &Value,
        cost: &SchemaCost,
        steps: u64,
        until: Option<Instant>,
        may_build: bool,
    ) -> Option<Result<(), InputError>> {
        let key = schema.key();
        let is_small = cost.bytes <= BUILT_AT_ONCE && cost.building <= STATES_AT_ONCE;
        let built = match self.validators.get(&key) {
            Some(built) => built,
            None if !may_build && !is_small => return None,
            None => match self.validators.get_or_insert_with(&key, || build(schema, cost)) {
                Ok(built) => built,
                Err(error) => return Some(Err(error)),
            },
        };
        // The regular expression engine has panicked before, which must not stop the chat's actor.
        let run = AssertUnwindSafe(|| run(&built.validator, value, &cost.prices, steps, until));
        catch_unwind(run).unwrap_or_else(|_| Some(Err(unchecked())))
    }
}

impl Default for Checker {
    fn default() -> Self {
        Self::new()
    }
}

fn build(schema: &Schema, cost: &SchemaCost) -> Result<Arc<Built>, InputError> {
    let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_MEMORY);
    let options = jsonschema::options_for::<MeteredJson>().with_pattern_options(patterns);
    let (options, schema) = match schema {
        Schema::Tool(tool) => (options, &*tool.spec.input_schema),
        Schema::Output(schema) => (options, schema.value()),
        Schema::Elicitation(schema) => (options.should_validate_formats(true), &**schema),
    };
    let schema = match &cost.relaxed {
        Some(relaxed) => &relaxed.schema,
        None => schema,
    };
    let built = catch_unwind(AssertUnwindSafe(|| options.build(schema)));
    let Ok(built) = built else {
        return Err(InputError::new("the schema cannot be used"));
    };
    let validator = built
        .map_err(|error| InputError::new(format!("the schema cannot be used: {}", Misfit::of(&error))))?;
    let memory = cost.patterns as u64 * 2 * PATTERN_MEMORY as u64;
    let bytes = 1024 + cost.bytes as u64 * 16 + cost.subschemas * 512 + cost.building * 64 + memory;
    Ok(Arc::new(Built { validator, bytes }))
}

fn run(
    validator: &Validator<MeteredJson>,
    value: &Value,
    prices: &Prices,
    steps: u64,
    until: Option<Instant>,
) -> Option<Result<(), InputError>> {
    let meter = Meter::start(steps, until, *prices);
    let is_valid = validator.is_valid(Metered(value));
    if !meter.was_enough() {
        return None;
    }
    if is_valid {
        return Some(Ok(()));
    }
    // Collecting the errors takes more steps than finding out that there are some. Each error keeps its path, which may have long names.
    let steps = meter.used().saturating_mul(4).max(ERROR_STEPS);
    let error = prices.error.max(steps / MAX_ERRORS) + steps / ERROR_STEPS * longest_path(value) / 16;
    let meter = Meter::start(steps, until, Prices { error, ..*prices });
    let places: Vec<Misfit> =
        validator.iter_errors(Metered(value)).take(3).map(|error| Misfit::of(&error)).collect();
    if !meter.was_enough() || places.is_empty() {
        return Some(Err(InputError::new("it does not fit in more places than can be named")));
    }
    let text = places.iter().map(Misfit::to_string).collect::<Vec<_>>().join("; ");
    Some(Err(InputError { text, places }))
}

fn unchecked() -> InputError {
    InputError::new("it could not be checked against its schema")
}

fn too_expensive() -> InputError {
    InputError::new(format!(
        "it is too large for its schema: checking one against the other takes more than {MAX_STEPS} steps"
    ))
}

fn too_slow(limit: Duration) -> InputError {
    let limit = humantime::format_duration(limit);
    InputError::new(format!("checking it against its schema took longer than {limit} (check_timeout)"))
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Returns the length of the longest path into a value, in bytes.
fn longest_path(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 8 + items.iter().map(longest_path).max().unwrap_or(0),
        Value::Object(entries) => {
            entries.iter().map(|(name, value)| name.len() as u64 + 1 + longest_path(value)).max().unwrap_or(0)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

// === impl Check ===

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Check").field(&self.value).finish()
    }
}

impl Check {
    /// Returns the check of a tool's structured output.
    pub fn of_output(schema: OutputSchema, output: Value) -> Self {
        Self { schema: Schema::Output(schema), value: output.into() }
    }
}

// === impl InputError ===

impl InputError {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), places: Vec::new() }
    }
}

// === impl Check ===

impl Check {
    /// Returns the check of a person's answer to a question against the schema of the question.
    pub fn of_elicitation(schema: Value, content: impl Into<JsonText>) -> Self {
        Self { schema: Schema::Elicitation(Arc::new(schema)), value: content.into() }
    }
}

// === impl Schema ===

impl Schema {
    fn cost(&self) -> Result<SchemaCost, String> {
        match self {
            Self::Tool(tool) => tool.cost().clone(),
            Self::Output(schema) => Ok(schema.cost().clone()),
            Self::Elicitation(schema) => schema::cost(schema),
        }
    }

    fn key(&self) -> Key {
        match self {
            Self::Tool(tool) => *tool.key.get_or_init(|| key(b"tool ", &tool.spec.input_schema)),
            Self::Output(schema) => schema.key(|schema| key(b"output ", schema)),
            Self::Elicitation(schema) => key(b"question ", schema),
        }
    }
}

fn key(kind: &[u8], schema: &Value) -> Key {
    Sha256::new().chain_update(kind).chain_update(schema.to_string().as_bytes()).finalize().into()
}

#[cfg(test)]
mod tests;
