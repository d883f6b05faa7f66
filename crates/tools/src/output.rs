//! The output of a tool that tells the person and the model different things, or whose text is Markdown.
//!
//! It has the form of an MCP result, so that tools in Rust and those of MCP servers say this in the same way: `annotations.audience` names
//! the audience of a part, and a resource has a media type.

use serde_json::{Map, Value, json};

/// The audience of a part of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// The person and the model.
    #[default]
    Both,
    /// The person; the model is not told this part.
    Person,
    /// The model; a page does not show this part to the person, but its record has it.
    Model,
}

/// The output of a tool, as parts for the person, the model, or both. A tool returns it as JSON:
///
/// ```
/// use fermata_tools::{Audience, Output};
///
/// let output = Output::new()
///     .markdown(Audience::Person, "report.md", "# Sales\n\n**Up** by 4 %.")
///     .text(Audience::Model, "The user has been shown the report: up by 4 %.");
/// let json = serde_json::Value::from(output);
/// assert_eq!(json["content"][1]["annotations"]["audience"][0], "assistant");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    content: Vec<Value>,
    structured: Option<Value>,
}

// === impl Output ===

impl Output {
    /// Returns an output without parts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text.
    #[must_use]
    pub fn text(self, audience: Audience, text: impl Into<String>) -> Self {
        self.part(audience, "text", "text", Value::String(text.into()))
    }

    /// Adds a text that is Markdown, with a name such as `report.md`. Pages draw it as such.
    #[must_use]
    pub fn markdown(self, audience: Audience, name: &str, text: impl Into<String>) -> Self {
        let resource = json!({ "uri": name, "mimeType": "text/markdown", "text": text.into() });
        self.part(audience, "resource", "resource", resource)
    }

    /// Sets the output as data. The model receives it if no text is for the model.
    #[must_use]
    pub fn structured(self, value: Value) -> Self {
        Self { structured: Some(value), ..self }
    }

    fn part(mut self, audience: Audience, kind: &str, field: &str, value: Value) -> Self {
        let mut part = Map::from_iter([("type".to_owned(), kind.into()), (field.to_owned(), value)]);
        let roles = match audience {
            Audience::Both => None,
            Audience::Person => Some("user"),
            Audience::Model => Some("assistant"),
        };
        if let Some(role) = roles {
            part.insert("annotations".into(), json!({ "audience": [role] }));
        }
        self.content.push(Value::Object(part));
        self
    }
}

impl From<Output> for Value {
    fn from(Output { content, structured }: Output) -> Self {
        let mut result = Map::from_iter([("content".to_owned(), Self::Array(content))]);
        result.extend(structured.map(|structured| ("structuredContent".to_owned(), structured)));
        Self::Object(result)
    }
}
