//! Reads the browser tools of a request, in every form that clients send.

use std::{collections::HashSet, fmt};

use serde::{
    Deserialize,
    de::{Deserializer, MapAccess, SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::{
    PostedTool, RequestError,
    read::{shortened, wrong},
};

/// The form of a tool's name that model providers take.
const NAME: &str = "1 to 64 characters of A-Z, a-z, 0-9, '_' and '-'";

/// Browser tools: an object of tools by name (AI SDK, assistant-ui), or a list of tools with names (OpenAI and others).
#[derive(ToSchema)]
#[serde(untagged)]
pub enum ToolsRequest {
    /// Tools by name.
    #[schema(value_type = HashMap<String, ToolRequest>)]
    ByName(Vec<(String, ToolRequest)>),
    /// Tools with names.
    Listed(Vec<ToolRequest>),
}

/// A browser tool. Its input's schema stands in the first of `parameters`, `inputSchema` and `input_schema` that is there, which may hold
/// it as `jsonSchema`; it is that of an object.
#[derive(Deserialize, ToSchema)]
pub struct ToolRequest {
    /// Its name, in a list of tools.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    name: Option<String>,
    /// The description for the model.
    description: Option<String>,
    /// The JSON Schema of its input.
    parameters: Option<Value>,
    /// The JSON Schema of its input.
    #[serde(rename = "inputSchema")]
    camel_schema: Option<Value>,
    /// The JSON Schema of its input.
    #[serde(rename = "input_schema")]
    snake_schema: Option<Value>,
    /// The tool, one level deeper, as OpenAI has it in a list of tools.
    #[schema(no_recursion)]
    function: Option<Box<ToolRequest>>,
}

impl<'de> Deserialize<'de> for ToolsRequest {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Tools;

        impl<'de> Visitor<'de> for Tools {
            type Value = ToolsRequest;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tools by name, or a list of tools")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut tools: A) -> Result<ToolsRequest, A::Error> {
                let mut read = Vec::new();
                while let Some(tool) = tools.next_entry()? {
                    read.push(tool);
                }
                Ok(ToolsRequest::ByName(read))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, tools: A) -> Result<ToolsRequest, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(tools)).map(ToolsRequest::Listed)
            }
        }

        json.deserialize_any(Tools)
    }
}

impl ToolsRequest {
    /// Checks the tools, which came in any form.
    pub(super) fn into_tools(self) -> Result<Vec<PostedTool>, RequestError> {
        let tools = match self {
            Self::ByName(tools) => {
                return tools
                    .into_iter()
                    .map(|(name, tool)| tool.named(&format!("tools.{}", shortened(&name)), name))
                    .collect();
            }
            Self::Listed(tools) => tools,
        };
        let mut read = Vec::with_capacity(tools.len());
        let mut names = HashSet::with_capacity(tools.len());
        for (at, mut tool) in tools.into_iter().enumerate() {
            let mut path = format!("tools[{at}]");
            if let Some(function) = tool.function.take() {
                tool = *function;
                path.push_str(".function");
            }
            let name = tool
                .name
                .take()
                .ok_or_else(|| RequestError(format!("`{path}.name` is missing; it must be {NAME}.")))?;
            let tool = tool.named(&path, name)?;
            if !names.insert(tool.name.clone()) {
                return Err(RequestError(format!(
                    "`tools[{at}].name` is \"{}\", which an earlier tool has.",
                    tool.name
                )));
            }
            read.push(tool);
        }
        Ok(read)
    }
}

impl ToolRequest {
    /// Returns the tool of this name. Its schema is that of an object: the type is added if it is absent.
    fn named(self, path: &str, name: String) -> Result<PostedTool, RequestError> {
        let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if !(1..=64).contains(&name.len()) || !is_plain {
            let words = format!("has a name that models do not take; it must be {NAME}.");
            return Err(RequestError(format!("`{path}` {words}")));
        }
        let schemas = [
            ("parameters", self.parameters),
            ("inputSchema", self.camel_schema),
            ("input_schema", self.snake_schema),
        ];
        let given = schemas.into_iter().find_map(|(name, schema)| Some((name, schema?)));
        let (place, mut schema) = given.unwrap_or_else(|| ("parameters", json!({})));
        let mut path = format!("{path}.{place}");
        if let Some(wrapped) = schema.get_mut("jsonSchema") {
            schema = wrapped.take();
            path.push_str(".jsonSchema");
        }
        let input_schema = match schema {
            Value::Object(fields) => match fields.get("type") {
                None | Some(Value::Null) => {
                    let mut typed = Map::from_iter([("type".to_owned(), json!("object"))]);
                    typed.extend(fields.into_iter().filter(|(name, _)| name != "type"));
                    typed
                }
                Some(Value::String(kind)) if kind == "object" => fields,
                Some(other) => {
                    return Err(RequestError(format!("`{path}.type`{}", wrong(other, "\"object\""))));
                }
            },
            other => return Err(RequestError(format!("`{path}`{}", wrong(&other, "an object")))),
        };
        Ok(PostedTool { name, description: self.description, input_schema: Value::Object(input_schema) })
    }
}
