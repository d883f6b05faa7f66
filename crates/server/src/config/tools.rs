//! `[tools."glob"]`: settings of tools by name.

use std::{borrow::Cow, fmt};

use fermata_tools::{Fallback, Resource, ResourcePart, ToolSettings};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::{
    errors::ErrorsTable,
    values::{NonEmpty, NonZeroDuration},
};

/// The settings of the tools under one glob.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tools")]
pub(super) struct ToolsTable {
    /// The resource that a call uses: of the calls that share one, one runs at a time.
    resource: Option<ResourceName>,
    /// The time limit of a call, in place of tool_timeout.
    timeout: Option<NonZeroDuration>,
    /// A call that failed, or was cut off, may run again.
    repeatable: Option<bool>,
    /// The consequence of a failure of the tool, by its type. It overrides the table errors.
    errors: Option<ErrorsTable>,
    /// The part of an output, as a path with dots, that is empty if nothing was found. The model is then told what to do about it.
    empty: Option<NonEmpty>,
    /// The tool that is called with the same input once a call has failed for good. The rules apply to it.
    fallback: Option<NonEmpty>,
    /// The input for the fallback, in place of the same one.
    fallback_input: Option<serde_json::Map<String, serde_json::Value>>,
}

/// The name of a resource, or the field of the input that has it.
struct ResourceName(Resource);

struct ResourceVisitor;

/// A resource whose name is in the input.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Resource")]
struct ResourceTable {
    /// The path of the field.
    input: NonEmpty,
    /// The part of the field's value that names the resource.
    part: Option<ResourcePart>,
}

impl TryFrom<ToolsTable> for ToolSettings {
    /// The key that is wrong, and the reason.
    type Error = (&'static str, String);

    fn try_from(table: ToolsTable) -> Result<Self, Self::Error> {
        let ToolsTable { resource, timeout, repeatable, errors, empty, fallback, fallback_input } = table;
        if fallback.is_none() && fallback_input.is_some() {
            let reason = "there is no fallback that gets it; name one with fallback";
            return Err(("fallback_input", reason.into()));
        }
        if errors.as_ref().is_some_and(ErrorsTable::has_matches) {
            let reason = "match is a table of its own; write it as [[errors.match]], with the tool in it";
            return Err(("errors", reason.into()));
        }
        let input = fallback_input.map(serde_json::Value::Object);
        Ok(Self {
            resource: resource.map(|ResourceName(resource)| resource),
            timeout: timeout.map(|NonZeroDuration(timeout)| timeout),
            repeatable,
            errors: errors.map(|errors| errors.strategies()).unwrap_or_default(),
            empty: empty.map(|NonEmpty(path)| path),
            fallback: fallback.map(|NonEmpty(tool)| Fallback { tool, input }),
        })
    }
}

impl<'de> Deserialize<'de> for ResourceName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ResourceVisitor).map(Self)
    }
}

impl<'de> Visitor<'de> for ResourceVisitor {
    type Value = Resource;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name or { input = \"field\" }")
    }

    fn visit_string<E: Error>(self, name: String) -> Result<Resource, E> {
        let NonEmpty(name) = name.try_into().map_err(E::custom)?;
        Ok(Resource::named(name))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Resource, E> {
        self.visit_string(name.to_owned())
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Resource, A::Error> {
        let ResourceTable { input: NonEmpty(field), part } =
            ResourceTable::deserialize(MapAccessDeserializer::new(entries))?;
        Ok(Resource::Input { field, part: part.unwrap_or(ResourcePart::Whole) })
    }
}

impl JsonSchema for ResourceName {
    fn schema_name() -> Cow<'static, str> {
        "ResourceName".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<ResourceTable>();
        json_schema!({"anyOf": [{"type": "string", "minLength": 1}, table]})
    }
}
