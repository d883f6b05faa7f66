//! The JSON Schema of a tool's structured output.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use serde_json::Value;

use crate::schema::{self, SchemaCost};

/// The JSON Schema of a tool's structured output, MCP's `outputSchema`. Cheap to clone.
#[derive(Clone)]
pub struct OutputSchema(Arc<Shared>);

struct Shared {
    schema: Value,
    cost: SchemaCost,
    key: OnceLock<[u8; 32]>,
}

// === impl OutputSchema ===

impl OutputSchema {
    /// Creates the schema if outputs can be checked against it.
    ///
    /// # Errors
    /// Returns the reason if the schema is invalid or too expensive.
    pub fn new(schema: Value) -> Result<Self, String> {
        let cost = schema::cost(&schema)?;
        Ok(Self(Arc::new(Shared { schema, cost, key: OnceLock::new() })))
    }

    /// Returns the schema as JSON.
    pub fn value(&self) -> &Value {
        &self.0.schema
    }

    pub(crate) fn cost(&self) -> &SchemaCost {
        &self.0.cost
    }

    /// Returns the key of the schema's validator in the cache of [`crate::Checker`], which `make` makes once.
    pub(crate) fn key(&self, make: impl FnOnce(&Value) -> [u8; 32]) -> [u8; 32] {
        *self.0.key.get_or_init(|| make(&self.0.schema))
    }
}

impl fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OutputSchema").field(&self.0.schema).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_trait::async_trait;
    use fermata_protocol::{ChatId, JsonText, ToolCallId};
    use serde_json::json;

    use super::*;
    use crate::{
        CallContext, Decision, ErrorPolicy, ErrorType, Execution, Owner, RunBy, Tool, ToolError, ToolSpec,
    };

    /// A tool that returns its input.
    struct Echo(OutputSchema);

    #[async_trait]
    impl Tool for Echo {
        fn spec(&self) -> ToolSpec {
            ToolSpec {
                name: "echo".into(),
                title: None,
                description: String::new(),
                input_schema: json!({"type": "object"}).into(),
                run_by: RunBy::Server,
                server: None,
                policy: Decision::Allow,
                resource: None,
                timeout: None,
                repeatable: false,
                annotations: None,
            }
        }

        fn output_schema(&self) -> Option<&OutputSchema> {
            Some(&self.0)
        }

        async fn call(&self, input: JsonText, _: CallContext) -> Result<Value, ToolError> {
            Ok(input.value())
        }
    }

    fn rows() -> OutputSchema {
        let name = json!({"type": "string"});
        let row = json!({"type": "object", "properties": {"name": name}, "required": ["name"]});
        let rows = json!({"type": "array", "items": row});
        OutputSchema::new(json!({"type": "object", "properties": {"rows": rows}, "required": ["rows"]}))
            .unwrap()
    }

    async fn outcome(output: Value) -> Result<Value, ToolError> {
        let execution = Execution {
            tool: Arc::new(Echo(rows())),
            input: output.into(),
            context: CallContext::new(Owner::anyone(), ChatId::new("chat"), ToolCallId::new("call")),
            timeout: Duration::from_secs(5),
            retries: 0,
            error_policy: ErrorPolicy::default(),
            checker: Arc::default(),
            check_timeout: Duration::from_secs(5),
            empty_at: None,
        };
        execution.outcome().await
    }

    #[tokio::test]
    async fn an_output_that_fits_its_schema_or_has_no_structure_is_the_outcome() {
        for output in [
            json!({"content": [], "structuredContent": {"rows": [{"name": "a"}], "more": 1}}),
            json!({"content": []}),
            json!("text"),
        ] {
            assert_eq!(outcome(output.clone()).await, Ok(output));
        }
    }

    #[tokio::test]
    async fn an_output_that_does_not_fit_is_an_invalid_format_with_its_place() {
        for (structured, place) in [
            (json!({"rows": [{"name": "a"}, {"name": 5}]}), "/rows/1/name: 5 is not of type"),
            (json!({"rows": {}}), "/rows: {} is not of type"),
            (json!({}), "\"rows\" is a required property"),
            (json!(null), "null is not of type"),
        ] {
            let error = outcome(json!({"content": [], "structuredContent": structured})).await.unwrap_err();
            assert_eq!(error.error_type, ErrorType::InvalidFormat);
            assert!(
                error.text.contains("does not fit its output schema: ") && error.text.contains(place),
                "{error}"
            );
        }
    }

    #[test]
    fn a_schema_that_no_output_can_be_checked_against_is_refused() {
        for (schema, reason) in [
            (json!({"type": "what"}), "what"),
            (json!({"description": "x".repeat(schema::LONGEST)}), "limit"),
        ] {
            let refusal = OutputSchema::new(schema).unwrap_err();
            assert!(refusal.contains(reason), "{refusal}");
        }
    }
}
