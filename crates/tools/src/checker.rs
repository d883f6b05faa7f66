//! Checks of inputs against schemas: cheap ones at once, others on threads of their own, each within a fixed cost.
//!
//! A schema may be a page's and an input a model's, so neither is trusted with the time of a thread that others need. What a check may
//! cost is counted while it runs ([`crate::schema`]). Validators are built when they are first needed and shared by all who have the same
//! schema; the cache is bounded, and nobody but a check that runs keeps one.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use jsonschema::{PatternOptions, Validator};
use quick_cache::{Weighter, sync::Cache};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::{
    InputError,
    schema::{self, Meter, Metered, MeteredJson, Prices, SchemaFault, Weight},
    toolbox::Entry,
};

/// Steps of a check that is made at once: about a millisecond.
const STEPS_AT_ONCE: u64 = 50_000;
/// Steps of any check.
const MOST_STEPS: u64 = 50_000_000;
/// Steps in which the faults of an input that does not fit are put into words.
const FAULT_STEPS: u64 = 500_000;
/// Faults of one input that are kept in memory until the first of them are told.
const MOST_FAULTS: u64 = 2_000;
/// Bytes of a schema whose validator is built at once.
const BUILT_AT_ONCE: usize = 16 * 1024;
/// States of the patterns of such a schema.
const STATES_AT_ONCE: u64 = 8_000;
/// Levels of an input times levels of its schema: each costs some of the thread's stack.
const DEEPEST: usize = 1_500;
/// The same for checks on a thread that has no more stack than others, and on one that has the stack below.
const DEEPEST_AT_ONCE: usize = 250;
/// Levels of a schema whose validator is built on a stack like others.
const DEEPEST_BUILT_AT_ONCE: usize = 40;
/// Bytes of stack, of which a check takes what it needs.
const STACK: usize = 64 * 1024 * 1024;
/// Bytes that all validators together may take, as far as they can be reckoned.
const CACHE: u64 = 64 * 1024 * 1024;
/// Bytes that the engine for patterns may take to build one; what [`schema::weigh`] lets through needs less.
const PATTERN_BYTES: usize = 8 * 1024 * 1024;
/// Bytes in which it remembers what it has worked out about a pattern.
const PATTERN_MEMORY: usize = 64 * 1024;

/// Checks inputs. One for a process.
pub struct Checker {
    validators: Cache<Key, Arc<Built>, ByBytes>,
    /// Held by each thread that computes.
    permits: Arc<Semaphore>,
}

/// An input and what it is to be checked against.
#[derive(Clone)]
pub struct Check {
    schema: Source,
    value: Value,
}

#[derive(Clone)]
enum Source {
    Tool(Arc<Entry>),
    /// A question's; formats such as `email` count.
    Elicitation(Arc<Value>),
}

/// SHA-256 of a schema and of what else decides about its validator.
type Key = [u8; 32];

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
    /// One that has built nothing yet.
    pub fn new() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            validators: Cache::with_weighter(256, CACHE, ByBytes),
            // The others are for those who have something to do.
            permits: Arc::new(Semaphore::new((threads / 2).max(1))),
        }
    }

    /// Makes checks at once; `None` if all of them together would take longer than a moment.
    pub fn check_at_once(&self, checks: &[Check]) -> Option<Vec<Result<(), InputError>>> {
        let steps = STEPS_AT_ONCE / checks.len().max(1) as u64;
        checks.iter().map(|check| self.attempt(check, steps, None, false)).collect()
    }

    /// Makes a check on this thread, however long it takes.
    ///
    /// # Errors
    /// What is wrong with the input, or that it costs too much.
    pub fn check_here(&self, check: &Check) -> Result<(), InputError> {
        self.attempt(check, MOST_STEPS, None, true).unwrap_or_else(|| Err(too_dear()))
    }

    /// Makes checks, all within this time; on a thread of their own, unless they take but a moment.
    pub async fn check_all(
        self: &Arc<Self>,
        checks: Vec<Check>,
        patience: Duration,
    ) -> Vec<Result<(), InputError>> {
        if let Some(results) = self.check_at_once(&checks) {
            return results;
        }
        let (count, until) = (checks.len(), Instant::now() + patience);
        let in_time = async {
            let permit = self.permits.clone().acquire_owned().await;
            let this = self.clone();
            let work = move || {
                let _permit = permit;
                checks.iter().map(|check| this.check_until(check, until, patience)).collect()
            };
            tokio::task::spawn_blocking(work).await
        };
        match tokio::time::timeout(patience, in_time).await {
            Ok(Ok(results)) => results,
            Ok(Err(_)) => vec![Err(unchecked()); count],
            // A validator that is being built goes on; it is bounded by what a schema may be.
            Err(_) => vec![Err(too_slow(patience)); count],
        }
    }

    fn check_until(&self, check: &Check, until: Instant, patience: Duration) -> Result<(), InputError> {
        if Instant::now() >= until {
            return Err(too_slow(patience));
        }
        match self.attempt(check, MOST_STEPS, Some(until), true) {
            Some(result) => result,
            None if Instant::now() < until => Err(too_dear()),
            None => Err(too_slow(patience)),
        }
    }

    /// Checks within so many steps and until then. `None` if that was not enough, or a validator would have to be built that is large.
    fn attempt(
        &self,
        check: &Check,
        steps: u64,
        until: Option<Instant>,
        may_build: bool,
    ) -> Option<Result<(), InputError>> {
        let weight = match check.schema.weight() {
            Ok(weight) => weight,
            // The program behind the tool has patterns that are not matched here, and looks at its inputs itself.
            Err(SchemaFault::Dialect(_)) if check.schema.is_of_program() => return Some(Ok(())),
            Err(SchemaFault::Dialect(words) | SchemaFault::Unusable(words)) => {
                return Some(Err(InputError(format!("the schema cannot be used: {words}"))));
            }
        };
        let levels = weight.depth.saturating_mul(depth(&check.value) + 1);
        if levels > DEEPEST {
            let words = format!(
                "it is nested too deep for its schema: the levels of both multiplied are over {DEEPEST}"
            );
            return Some(Err(InputError(words)));
        }
        let is_deep = levels > DEEPEST_AT_ONCE || weight.depth > DEEPEST_BUILT_AT_ONCE;
        if is_deep && !may_build {
            return None;
        }
        let work = || self.build_and_run(check, &weight, steps, until, may_build);
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
        check: &Check,
        weight: &Weight,
        steps: u64,
        until: Option<Instant>,
        may_build: bool,
    ) -> Option<Result<(), InputError>> {
        let key = check.schema.key();
        let is_small = weight.bytes <= BUILT_AT_ONCE && weight.building <= STATES_AT_ONCE;
        let built = match self.validators.get(&key) {
            Some(built) => built,
            None if !may_build && !is_small => return None,
            None => match self.validators.get_or_insert_with(&key, || build(&check.schema, weight)) {
                Ok(built) => built,
                Err(error) => return Some(Err(error)),
            },
        };
        // A pattern's engine has panicked before; a driver must not go down with it.
        let run = AssertUnwindSafe(|| run(&built.validator, &check.value, &weight.prices, steps, until));
        catch_unwind(run).unwrap_or_else(|_| Some(Err(unchecked())))
    }
}

impl Default for Checker {
    fn default() -> Self {
        Self::new()
    }
}

fn build(source: &Source, weight: &Weight) -> Result<Arc<Built>, InputError> {
    let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_MEMORY);
    let mut options = jsonschema::options_for::<MeteredJson>().with_pattern_options(patterns);
    if let Source::Elicitation(_) = source {
        options = options.should_validate_formats(true);
    }
    let built = catch_unwind(AssertUnwindSafe(|| options.build(source.value())));
    let Ok(built) = built else {
        return Err(InputError("the schema cannot be used".into()));
    };
    let validator = built
        .map_err(|fault| InputError(format!("the schema cannot be used: {}", schema::describe(&fault))))?;
    let memory = weight.patterns as u64 * 2 * PATTERN_MEMORY as u64;
    let bytes = 1024 + weight.bytes as u64 * 16 + weight.subschemas * 512 + weight.building * 64 + memory;
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
    let fits = validator.is_valid(Metered(value));
    if !meter.was_enough() {
        return None;
    }
    if fits {
        return Some(Ok(()));
    }
    // Looking for them takes longer than finding out that there are some. Each keeps its place, which may have long names.
    let steps = meter.used().saturating_mul(4).max(FAULT_STEPS);
    let fault = prices.fault.max(steps / MOST_FAULTS) + steps / FAULT_STEPS * longest_place(value) / 16;
    let meter = Meter::start(steps, until, Prices { fault, ..*prices });
    let faults: Vec<String> =
        validator.iter_errors(Metered(value)).take(3).map(|fault| schema::describe(&fault)).collect();
    if !meter.was_enough() || faults.is_empty() {
        return Some(Err(InputError("it does not fit in more places than can be named".into())));
    }
    Some(Err(InputError(faults.join("; "))))
}

fn unchecked() -> InputError {
    InputError("it could not be checked against its schema".into())
}

fn too_dear() -> InputError {
    InputError(format!(
        "it is too large for its schema: checking one against the other takes more than {MOST_STEPS} steps"
    ))
}

fn too_slow(patience: Duration) -> InputError {
    let patience = humantime::format_duration(patience);
    InputError(format!("checking it against its schema took longer than {patience} (check_timeout)"))
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Bytes of the longest path into a value.
fn longest_place(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 8 + items.iter().map(longest_place).max().unwrap_or(0),
        Value::Object(entries) => entries
            .iter()
            .map(|(name, value)| name.len() as u64 + 1 + longest_place(value))
            .max()
            .unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

// === impl Check ===

impl Check {
    pub(crate) fn of_tool(entry: &Arc<Entry>, value: Value) -> Self {
        Self { schema: Source::Tool(entry.clone()), value }
    }

    /// A check of what a person answers to a question with this schema.
    pub fn of_answer(schema: Value, value: Value) -> Self {
        Self { schema: Source::Elicitation(Arc::new(schema)), value }
    }
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Check").field(&self.value).finish()
    }
}

impl Source {
    fn value(&self) -> &Value {
        match self {
            Self::Tool(entry) => &entry.spec.input_schema,
            Self::Elicitation(schema) => schema,
        }
    }

    fn weight(&self) -> Result<Weight, SchemaFault> {
        match self {
            Self::Tool(entry) => entry.weight().clone(),
            Self::Elicitation(schema) => schema::weigh(schema),
        }
    }

    fn is_of_program(&self) -> bool {
        match self {
            Self::Tool(entry) => entry.tool.is_some(),
            Self::Elicitation(_) => false,
        }
    }

    fn key(&self) -> Key {
        let key = |kind: &[u8]| {
            Sha256::new()
                .chain_update(kind)
                .chain_update(self.value().to_string().as_bytes())
                .finalize()
                .into()
        };
        match self {
            Self::Tool(entry) => *entry.key.get_or_init(|| key(b"tool ")),
            Self::Elicitation(_) => key(b"question "),
        }
    }
}

#[cfg(test)]
mod tests;
