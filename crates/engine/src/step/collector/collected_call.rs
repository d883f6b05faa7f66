//! A call as the model made it, whose arguments are read as its input when the step is complete.
//!
//! Invariant: an input is a JSON object, complete and no deeper than a history may be.

use fermata_protocol::{FinishReason, JsonText, measure};
use serde_json::{Value, json};

/// The deepest nesting that an input may have. A client posts the input again inside its history, whose nesting is limited to a hundred
/// levels.
const DEEPEST_INPUT: usize = 90;

/// A call as the model made it.
#[derive(Debug, PartialEq)]
pub(crate) struct CollectedCall {
    /// The provider's key for the call. Some providers give every call of a step the key 0.
    pub(super) key: usize,
    /// The name that the model called, which may not be the name of a tool.
    pub tool: String,
    pub(super) arguments: String,
    /// The number of JSON values that the arguments may have.
    pub(super) max_nodes: usize,
    /// The reason why the call cannot run and no more of its arguments is kept.
    pub(super) error_text: Option<String>,
    pub provider_metadata: Option<JsonText>,
}

/// Arguments that are no input.
#[derive(Debug, PartialEq)]
pub(crate) struct InvalidArguments {
    /// The arguments as far as they are kept: a string if they are no JSON.
    pub received: JsonText,
    /// The reason, for the model and the person.
    pub error_text: String,
}

// === impl CollectedCall ===

impl CollectedCall {
    /// Returns whether the model sent any arguments. If it sent none, the input is an empty object.
    pub fn has_arguments(&self) -> bool {
        !self.arguments.trim().is_empty()
    }

    /// Reads the arguments as the input of the call. A later check compares it with the tool's schema.
    ///
    /// # Errors
    /// If they are no JSON object, were not complete, or are larger or deeper than an input may be.
    pub fn into_input(self, finish_reason: FinishReason) -> Result<JsonText, InvalidArguments> {
        let Self { tool, arguments, max_nodes, error_text, .. } = self;
        if let Some(error_text) = error_text {
            return Err(InvalidArguments { received: JsonText::default(), error_text });
        }
        let nodes = measure(arguments.as_bytes()).nodes;
        if nodes > max_nodes {
            let error_text = format!(
                "The arguments of {tool} have {nodes} JSON values; the limit is {max_nodes} (max_argument_nodes). Call it again with \
                 less."
            );
            return Err(InvalidArguments { received: JsonText::default(), error_text });
        }
        let is_at_token_limit = finish_reason == FinishReason::Length;
        if arguments.trim().is_empty() && !is_at_token_limit {
            return Ok(json!({}).into());
        }
        let input: Value = match serde_json::from_str(&arguments) {
            Ok(input) => input,
            // A call without arguments is also incomplete: a tool may do more without them than with those that were to come.
            Err(_) if is_at_token_limit => {
                let error_text = format!(
                    "The answer reached its token limit before the arguments of {tool} were complete. Call it again, with less if you \
                     can."
                );
                return Err(InvalidArguments { received: Value::String(arguments).into(), error_text });
            }
            Err(error) => {
                let error_text = format!(
                    "The arguments of {tool} are not valid JSON ({error}). Call it again with a JSON object."
                );
                return Err(InvalidArguments { received: Value::String(arguments).into(), error_text });
            }
        };
        if depth(&input) > DEEPEST_INPUT {
            let error_text = format!("The arguments of {tool} are nested over {DEEPEST_INPUT} levels deep.");
            return Err(InvalidArguments { received: JsonText::default(), error_text });
        }
        if !input.is_object() {
            let error_text =
                format!("The arguments of {tool} are not a JSON object. Call it again with a JSON object.");
            return Err(InvalidArguments { received: input.into(), error_text });
        }
        Ok(input.into())
    }

    /// The arguments of a call that will not run, for the record: a string if they are no JSON; nothing if they have too many values.
    pub fn into_received(self) -> JsonText {
        if measure(self.arguments.as_bytes()).nodes > self.max_nodes {
            return JsonText::default();
        }
        serde_json::from_str(&self.arguments).unwrap_or_else(|_| Value::String(self.arguments).into())
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &str) -> CollectedCall {
        CollectedCall {
            key: 0,
            tool: "look".into(),
            arguments: arguments.into(),
            max_nodes: 1000,
            error_text: None,
            provider_metadata: None,
        }
    }

    #[test]
    fn only_a_complete_json_object_or_nothing_at_all_is_an_input() {
        for (arguments, reason, expected) in [
            ("", FinishReason::ToolCalls, Ok(json!({}))),
            (" \n", FinishReason::Stop, Ok(json!({}))),
            (r#"{"n":1}"#, FinishReason::Length, Ok(json!({"n": 1}))),
            (r#"{"n""#, FinishReason::ToolCalls, Err("not valid JSON (")),
            (r#"{"n""#, FinishReason::Length, Err("before the arguments of look were complete")),
            ("", FinishReason::Length, Err("before the arguments of look were complete")),
            ("[1]", FinishReason::ToolCalls, Err("not a JSON object")),
            ("null", FinishReason::ToolCalls, Err("not a JSON object")),
        ] {
            match (call(arguments).into_input(reason), expected) {
                (Ok(input), Ok(expected)) => assert_eq!(input, expected.into(), "{arguments}"),
                (Err(invalid), Err(expected)) => {
                    assert!(invalid.error_text.contains(expected), "{arguments}: {}", invalid.error_text);
                }
                (read, _) => panic!("{arguments}: {read:?}"),
            }
        }
        for (levels, is_input) in [(DEEPEST_INPUT, true), (DEEPEST_INPUT + 1, false)] {
            let deep = format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
            let input = call(&deep).into_input(FinishReason::Stop);
            assert_eq!(input.is_ok(), is_input, "{levels}");
        }
    }
}
