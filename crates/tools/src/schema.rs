//! The cost of JSON Schemas, determined before they are used.
//!
//! Schemas come from pages, MCP servers and questions of tools. [`cost`] refuses a schema that is too expensive, without building a
//! validator: it reads the schema once, counts the subschemas that it unfolds to and estimates the size of its patterns. The cost of
//! checking an input is limited elsewhere, see [`meter`].

mod meter;
mod pattern;
mod relaxed;
mod unfold;

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use meter::{Meter, Metered, MeteredJson, Prices};
use pattern::PatternCost;
use relaxed::Relaxation;

/// The limit on the length of a schema as JSON, in bytes.
pub(crate) const LONGEST: usize = 256 * 1024;
/// The limit on the number of patterns of a schema.
pub(crate) const MAX_PATTERNS: usize = 200;
/// The limit on the cost of building all patterns of a schema, or of a post, in states.
pub(crate) const LARGEST_PATTERNS: u64 = 256_000;
/// The limit on the steps for checking whether a schema is valid.
const VALIDITY_STEPS: u64 = 20_000;
/// The number of steps that each byte of the schema adds to this limit.
const VALIDITY_STEPS_PER_BYTE: u64 = 50;
/// The number of states of a pattern that the matcher visits in the time of one step.
const STATES_PER_STEP: u64 = 32;
/// The number of subschemas that the validator visits in the time of one step if it does not read the input.
const SUBSCHEMAS_PER_STEP: u64 = 256;

/// Keywords whose values are data and not schemas.
pub(crate) const DATA: [&str; 5] = ["default", "examples", "example", "const", "enum"];
/// Keywords whose values are objects that map names to schemas.
pub(crate) const BY_NAME: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// The cost of a schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchemaCost {
    /// The length as JSON, in bytes.
    pub bytes: usize,
    /// The number of patterns.
    pub patterns: usize,
    /// The cost of building the patterns, in states.
    pub building: u64,
    /// The number of subschemas with references unfolded.
    pub subschemas: u64,
    /// The largest number of subschemas within each other.
    pub depth: usize,
    /// The prices for reading an input that is checked against the schema.
    pub prices: Prices,
    /// The schema that inputs are checked against, if it is another one.
    pub relaxed: Option<Arc<RelaxedSchema>>,
}

/// A schema without the patterns that cannot be checked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RelaxedSchema {
    pub schema: Value,
    /// The reasons why the patterns are left out.
    pub reasons: String,
}

/// The patterns and references of a schema, and the values that it names.
#[derive(Default)]
struct Survey<'a> {
    references: Vec<&'a str>,
    /// True if the values of data keywords are also visited, because a reference may use them as schemas.
    includes_data: bool,
    patterns: usize,
    building: u64,
    /// The states of the largest pattern.
    largest: u64,
    /// The states of all patterns for property names.
    names: u64,
    /// The nodes of the largest list or object that an input may be compared with.
    comparison: u64,
    /// The patterns that cannot be checked.
    unchecked: Vec<&'a str>,
    /// The reason for each of them.
    reasons: Vec<String>,
}

/// Determines the cost of a schema.
///
/// # Errors
/// Returns the reason if the schema cannot be used, as a text for its author.
pub(crate) fn cost(schema: &Value) -> Result<SchemaCost, String> {
    let bytes = schema.to_string().len();
    if bytes > LONGEST {
        return Err(format!("it has {bytes} bytes; the limit is {LONGEST}"));
    }
    let mut survey = Survey { includes_data: has_odd_reference(schema), ..Survey::default() };
    survey.visit(schema)?;
    let unfolded = unfold::unfold(schema, &survey.references)?;
    let relaxed = survey.relaxed(schema);
    check_validity(relaxed.as_ref().map_or(schema, |relaxed| &relaxed.schema), bytes)?;
    let prices = Prices {
        node: unfolded.subschemas / SUBSCHEMAS_PER_STEP,
        string_byte: survey.largest / STATES_PER_STEP,
        name_byte: survey.names / STATES_PER_STEP,
        // An error keeps its paths in the input and in the schema.
        error: 64 + bytes as u64 / 1024,
        comparison: 1 + survey.comparison,
    };
    let Survey { patterns, building, .. } = survey;
    Ok(SchemaCost {
        bytes,
        patterns,
        building,
        subschemas: unfolded.subschemas,
        depth: unfolded.depth,
        prices,
        relaxed: relaxed.map(Arc::new),
    })
}

/// Checks a schema against the metaschema of its draft.
fn check_validity(schema: &Value, bytes: usize) -> Result<(), String> {
    let steps = VALIDITY_STEPS + VALIDITY_STEPS_PER_BYTE * bytes as u64;
    let meter = Meter::start(steps, None, Prices { comparison: 64, error: 64, ..Prices::default() });
    let result = jsonschema::meta::validate_for::<MeteredJson>(Metered(schema));
    if !meter.was_enough() {
        return Err("it is too large to be looked through".into());
    }
    result.map_err(|error| Misfit::of(&error).to_string())
}

/// A place in a value that violates the value's schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Misfit {
    /// The place, as a JSON Pointer. It is empty for the whole value.
    pub pointer: String,
    /// The fault there.
    pub detail: String,
}

impl Misfit {
    /// Describes a validation error. Its path and its text are cut, because they quote names and a value, which may have megabytes.
    pub(crate) fn of(error: &jsonschema::ValidationError<'_>) -> Self {
        let pointer = head(error.instance_path().as_str(), 200).to_owned();
        Self { pointer, detail: head(&error.to_string(), 400).to_owned() }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => f.write_str(&self.detail),
            pointer => write!(f, "{pointer}: {}", self.detail),
        }
    }
}

fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Returns whether a reference may lead to a value that is not expected to be a schema.
fn has_odd_reference(schema: &Value) -> bool {
    match schema {
        Value::Object(entries) => entries.iter().any(|(keyword, value)| match value {
            Value::String(reference) if keyword.ends_with("Ref") || keyword == "$ref" => {
                let Some((_, pointer)) = reference.split_once('#') else { return false };
                // An escape may hide the name of a data keyword.
                pointer
                    .split('/')
                    .any(|token| DATA.contains(&token) || token.contains('%') || token.contains('~'))
            }
            value => has_odd_reference(value),
        }),
        Value::Array(items) => items.iter().any(has_odd_reference),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

// === impl Survey ===

impl<'a> Survey<'a> {
    /// Returns the schema without the patterns that cannot be checked, if it has any.
    fn relaxed(&self, schema: &Value) -> Option<RelaxedSchema> {
        if self.unchecked.is_empty() {
            return None;
        }
        let patterns = self.unchecked.iter().copied().collect();
        let relaxation = Relaxation { patterns, includes_data: self.includes_data };
        Some(RelaxedSchema { schema: relaxation.relax(schema), reasons: self.reasons.join("; ") })
    }

    fn visit(&mut self, schema: &'a Value) -> Result<(), String> {
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Array(items) => return items.iter().try_for_each(|item| self.visit(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Ok(()),
        };
        for (keyword, value) in keywords {
            match (keyword.as_str(), value) {
                ("pattern", Value::String(pattern)) => {
                    let cost = self.count(pattern)?;
                    self.largest = self.largest.max(cost.states);
                }
                ("enum", Value::Array(values)) => values.iter().for_each(|value| self.note_value(value)),
                ("const", value) => self.note_value(value),
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                    self.references.push(reference)
                }
                _ => {}
            }
            if keyword == "patternProperties"
                && let Some(patterns) = value.as_object()
            {
                for pattern in patterns.keys() {
                    self.names += self.count(pattern)?.states;
                }
            }
            match value {
                Value::Object(schemas) if BY_NAME.contains(&keyword.as_str()) => {
                    schemas.values().try_for_each(|schema| self.visit(schema))?;
                }
                value if self.includes_data || !DATA.contains(&keyword.as_str()) => self.visit(value)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Notes a value that lists and objects of an input are compared with.
    fn note_value(&mut self, value: &Value) {
        if value.is_array() || value.is_object() {
            self.comparison = self.comparison.max(meter::size(value));
        }
    }

    fn count(&mut self, pattern: &'a str) -> Result<PatternCost, String> {
        self.patterns += 1;
        if self.patterns > MAX_PATTERNS {
            return Err(format!("it has more than {MAX_PATTERNS} patterns"));
        }
        let cost = match pattern::cost(pattern) {
            Ok(cost) => cost,
            Err(reason) => {
                self.unchecked.push(pattern);
                self.reasons.push(reason);
                return Ok(PatternCost::default());
            }
        };
        self.building += cost.building;
        if self.building > LARGEST_PATTERNS {
            return Err(format!("its patterns stand for more than {LARGEST_PATTERNS} states in all"));
        }
        Ok(cost)
    }
}
