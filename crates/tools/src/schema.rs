//! What a schema is, and what it may cost, found out before it is used.
//!
//! Schemas come from pages, MCP servers and tools that ask. [`weigh`] refuses what would be too dear, without building anything: it
//! reads the schema once, counts what it unfolds to and reckons the size of its patterns. What an input may cost that is checked
//! against it is another matter, see [`meter`].

mod meter;
mod pattern;
mod unfold;

use serde_json::{Map, Value};

pub(crate) use meter::{Meter, Metered, MeteredJson, Prices};
use pattern::{PatternCost, PatternFault};

/// Bytes of one schema as JSON.
pub(crate) const LONGEST: usize = 256 * 1024;
/// Patterns of one schema.
pub(crate) const MOST_PATTERNS: usize = 200;
/// What building all patterns of one schema, or of one post, may cost, in states.
pub(crate) const LARGEST_PATTERNS: u64 = 256_000;
/// Steps that are taken to find out whether a schema is one.
const VALIDITY_STEPS: u64 = 20_000;
/// The same for each byte of it.
const VALIDITY_STEPS_A_BYTE: u64 = 50;
/// States of a pattern that are looked at in the time of one step.
const STATES_A_STEP: u64 = 32;
/// Subschemas that are gone through in the time of one step without a look at the input.
const SUBSCHEMAS_A_STEP: u64 = 256;

/// Keywords whose values are data and not schemas.
const DATA: [&str; 5] = ["default", "examples", "example", "const", "enum"];
/// Keywords whose values are schemas by name.
const BY_NAME: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// What a schema costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    /// Its length as JSON.
    pub bytes: usize,
    /// How many patterns it has.
    pub patterns: usize,
    /// What building them costs, in states.
    pub building: u64,
    /// What it unfolds to.
    pub subschemas: u64,
    /// The most subschemas within one another.
    pub depth: usize,
    /// What reading an input costs that is checked against it.
    pub prices: Prices,
}

/// Why a schema cannot be used, in words for who wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SchemaFault {
    /// It has a pattern of another dialect than the linear one.
    Dialect(String),
    /// It is none, or costs too much.
    Unusable(String),
}

/// The patterns and references of a schema, and the values that it names.
#[derive(Default)]
struct Survey<'a> {
    references: Vec<&'a str>,
    /// Whether data keywords are looked into too, because references may make schemas of what they hold.
    takes_all: bool,
    patterns: usize,
    building: u64,
    /// States of the largest pattern.
    largest: u64,
    /// States of all patterns of names.
    names: u64,
    /// Nodes of the largest list or object that an input may be compared with.
    comparison: u64,
}

/// What a schema costs.
pub(crate) fn weigh(schema: &Value) -> Result<Weight, SchemaFault> {
    let unusable = |words: String| SchemaFault::Unusable(words);
    let bytes = schema.to_string().len();
    if bytes > LONGEST {
        return Err(unusable(format!("it has {bytes} bytes; the limit is {LONGEST}")));
    }
    let mut survey = Survey { takes_all: has_odd_reference(schema), ..Survey::default() };
    survey.take(schema).map_err(|fault| match fault {
        PatternFault::Dialect(words) => SchemaFault::Dialect(words),
        PatternFault::Unusable(words) => SchemaFault::Unusable(words),
    })?;
    let unfolded = unfold::unfold(schema, &survey.references).map_err(unusable)?;
    check_validity(schema, bytes).map_err(unusable)?;
    let prices = Prices {
        node: unfolded.subschemas / SUBSCHEMAS_A_STEP,
        string_byte: survey.largest / STATES_A_STEP,
        name_byte: survey.names / STATES_A_STEP,
        // A fault keeps where it is, in the input and in the schema.
        fault: 64 + bytes as u64 / 1024,
        comparison: 1 + survey.comparison,
    };
    let Survey { patterns, building, .. } = survey;
    Ok(Weight { bytes, patterns, building, subschemas: unfolded.subschemas, depth: unfolded.depth, prices })
}

/// Whether the schema says what the metaschema of its draft lets it say.
fn check_validity(schema: &Value, bytes: usize) -> Result<(), String> {
    let steps = VALIDITY_STEPS + VALIDITY_STEPS_A_BYTE * bytes as u64;
    let meter = Meter::start(steps, None, Prices { comparison: 64, fault: 64, ..Prices::default() });
    let verdict = jsonschema::meta::validate_for::<MeteredJson>(Metered(schema));
    if !meter.was_enough() {
        return Err("it is too large to be looked through".into());
    }
    verdict.map_err(|fault| describe(&fault))
}

/// A fault in words, with its place. It quotes the value it is about, and the place the names on the way, which may be megabytes.
pub(crate) fn describe(fault: &jsonschema::ValidationError<'_>) -> String {
    let words = head(&fault.to_string(), 400).to_owned();
    match fault.instance_path().as_str() {
        "" => words,
        place => format!("{}: {words}", head(place, 200)),
    }
}

fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Whether a reference may lead to where no schema is expected.
fn has_odd_reference(schema: &Value) -> bool {
    match schema {
        Value::Object(entries) => entries.iter().any(|(keyword, value)| match value {
            Value::String(reference) if keyword.ends_with("Ref") || keyword == "$ref" => is_odd(reference),
            value => has_odd_reference(value),
        }),
        Value::Array(items) => items.iter().any(has_odd_reference),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn is_odd(reference: &str) -> bool {
    let Some((_, pointer)) = reference.split_once('#') else { return false };
    // A name may be written with escapes.
    pointer.split('/').any(|token| DATA.contains(&token) || token.contains('%') || token.contains('~'))
}

impl<'a> Survey<'a> {
    fn take(&mut self, schema: &'a Value) -> Result<(), PatternFault> {
        match schema {
            Value::Object(keywords) => self.take_keywords(keywords),
            Value::Array(items) => items.iter().try_for_each(|item| self.take(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn take_keywords(&mut self, keywords: &'a Map<String, Value>) -> Result<(), PatternFault> {
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
                    schemas.values().try_for_each(|schema| self.take(schema))?;
                }
                value if self.takes_all || !DATA.contains(&keyword.as_str()) => self.take(value)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// A value that lists and objects of an input are compared with.
    fn note_value(&mut self, value: &Value) {
        if value.is_array() || value.is_object() {
            self.comparison = self.comparison.max(meter::size(value));
        }
    }

    fn count(&mut self, pattern: &str) -> Result<PatternCost, PatternFault> {
        let cost = pattern::weigh(pattern)?;
        self.patterns += 1;
        self.building += cost.building;
        if self.patterns > MOST_PATTERNS {
            return Err(PatternFault::Unusable(format!("it has more than {MOST_PATTERNS} patterns")));
        }
        if self.building > LARGEST_PATTERNS {
            return Err(PatternFault::Unusable(format!(
                "its patterns stand for more than {LARGEST_PATTERNS} states in all"
            )));
        }
        Ok(cost)
    }
}
