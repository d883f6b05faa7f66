//! The number of subschemas that a schema unfolds to, counted before a validator is built.
//!
//! A schema of a few lines can unfold to a billion checks, if its references double at each level, or if it refers to itself twice for
//! one path of the input. Both are refused here, so that building a validator does not take long.

use std::collections::HashMap;

use serde_json::Value;

/// The limit on the subschemas of a schema with its references unfolded.
const LARGEST: u64 = 10_000;
/// The limit on the references from within a subschema back to it.
const MAX_SELF_REFERENCES: usize = 500;
/// The limit on subschemas within each other.
const DEEPEST: usize = 200;
/// The limit on the steps for finding out whether two references apply to one path of the input.
const MAX_COMPARISONS: usize = 1_000_000;
/// The number of times that a validator applies the keywords beside `unevaluatedProperties` or `unevaluatedItems`.
const REPETITIONS_BESIDE_UNEVALUATED: u64 = 3;
/// The addresses of schemas that a reference may name although the schema does not contain them: the validator has the metaschemas.
const DIALECTS: [&str; 2] = ["http://json-schema.org/", "https://json-schema.org/"];

/// Keywords whose subschemas apply to the value itself.
const IN_PLACE: [&str; 9] =
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"];
/// Keywords whose subschemas apply to properties of any name.
const PROPERTIES: [&str; 4] =
    ["patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"];
/// Keywords whose subschemas apply to elements of a list.
const ELEMENTS: [&str; 5] = ["items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"];

/// One step into an input.
#[derive(Clone, Debug, PartialEq)]
enum Step<'a> {
    Property(&'a str),
    AnyProperty,
    Element,
}

/// A subschema that is being unfolded.
struct Unfolding<'a> {
    schema: &'a Value,
    /// The length of the path to the part of the input that the subschema applies to.
    path_length: usize,
    /// The paths, from there on, where the subschema refers to itself.
    self_references: Vec<Vec<Step<'a>>>,
}

struct Walk<'a> {
    root: &'a Value,
    /// The subschemas that references can find by a name.
    names: HashMap<&'a str, &'a Value>,
    /// True if a part of the schema has its own address, so that only the validator can resolve some references.
    has_addresses: bool,
    seen: u64,
    /// The number of times that the validator applies the current subschema.
    repetitions: u64,
    depth: usize,
    compared: usize,
    path: Vec<Step<'a>>,
    unfolding: Vec<Unfolding<'a>>,
}

/// The size of a schema with its references unfolded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unfolded {
    /// The number of subschemas.
    pub subschemas: u64,
    /// The largest number of subschemas within each other.
    pub depth: usize,
}

/// Measures a schema that has these references.
///
/// # Errors
/// Returns a text for the schema's author if the schema exceeds a limit, or if a reference leads nowhere.
pub(crate) fn unfold(schema: &Value, references: &[&str]) -> Result<Unfolded, String> {
    let mut walk = Walk {
        root: schema,
        names: HashMap::new(),
        has_addresses: false,
        seen: 0,
        repetitions: 1,
        depth: 0,
        compared: 0,
        path: Vec::new(),
        unfolding: Vec::new(),
    };
    walk.note_names(schema);
    for reference in references {
        walk.resolve(reference)?;
    }
    walk.unfold(schema)?;
    Ok(Unfolded { subschemas: walk.seen, depth: walk.depth })
}

// === impl Walk ===

impl<'a> Walk<'a> {
    fn note_names(&mut self, schema: &'a Value) {
        match schema {
            Value::Object(entries) => {
                for keyword in ["$anchor", "$dynamicAnchor", "$id", "id"] {
                    let Some(name) = entries.get(keyword).and_then(Value::as_str) else { continue };
                    self.has_addresses |= keyword.ends_with("id");
                    self.names.entry(name).or_insert(schema);
                }
                entries.values().for_each(|value| self.note_names(value));
            }
            Value::Array(items) => items.iter().for_each(|item| self.note_names(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn unfold(&mut self, schema: &'a Value) -> Result<(), String> {
        self.seen = self.seen.saturating_add(self.repetitions);
        if self.seen > LARGEST {
            return Err(format!("it unfolds to more than {LARGEST} subschemas"));
        }
        let Some(keywords) = schema.as_object() else { return Ok(()) };
        if self.unfolding.len() >= DEEPEST {
            return Err(format!("it is nested over {DEEPEST} levels deep"));
        }
        let path_length = self.path.len();
        self.unfolding.push(Unfolding { schema, path_length, self_references: Vec::new() });
        self.depth = self.depth.max(self.unfolding.len());
        let repetitions = self.repetitions;
        if keywords.contains_key("unevaluatedProperties") || keywords.contains_key("unevaluatedItems") {
            self.repetitions = repetitions.saturating_mul(REPETITIONS_BESIDE_UNEVALUATED);
        }
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(reference) = keywords.get(keyword).and_then(Value::as_str) else { continue };
            if let Some(target) = self.resolve(reference)? {
                self.follow(target)?;
            }
        }
        for (keyword, value) in keywords {
            let keyword = keyword.as_str();
            if IN_PLACE.contains(&keyword) {
                self.unfold_all(value)?;
            } else if keyword == "properties" {
                for (name, schema) in value.as_object().into_iter().flatten() {
                    self.step(Step::Property(name), |walk| walk.unfold(schema))?;
                }
            } else if PROPERTIES.contains(&keyword) {
                self.step(Step::AnyProperty, |walk| walk.unfold_all(value))?;
            } else if ELEMENTS.contains(&keyword) {
                self.step(Step::Element, |walk| walk.unfold_all(value))?;
            }
        }
        self.repetitions = repetitions;
        self.unfolding.pop();
        Ok(())
    }

    /// Unfolds a schema, a list of schemas, or an object of schemas by name. An object of objects may be either, so it counts as both.
    fn unfold_all(&mut self, value: &'a Value) -> Result<(), String> {
        match value {
            Value::Array(schemas) => schemas.iter().try_for_each(|schema| self.unfold(schema)),
            Value::Object(named) if named.values().all(Value::is_object) => {
                self.unfold(value)?;
                named.values().try_for_each(|schema| self.unfold(schema))
            }
            Value::Object(_) | Value::Bool(_) => self.unfold(value),
            Value::Null | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn step(
        &mut self,
        step: Step<'a>,
        inside: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        self.path.push(step);
        inside(self)?;
        self.path.pop();
        Ok(())
    }

    fn follow(&mut self, target: &'a Value) -> Result<(), String> {
        let Some(known) = self.unfolding.iter_mut().rfind(|known| std::ptr::eq(known.schema, target)) else {
            return self.unfold(target);
        };
        let path = self.path[known.path_length..].to_vec();
        self.compared += known.self_references.len() * path.len().max(1);
        if self.compared > MAX_COMPARISONS {
            return Err("it refers to itself in too many places".into());
        }
        if known.self_references.iter().any(|other| may_be_equal(other, &path)) {
            return Err("it refers to itself in two ways for one place of the input".into());
        }
        known.self_references.push(path);
        if known.self_references.len() > MAX_SELF_REFERENCES {
            return Err(format!("it refers to itself more than {MAX_SELF_REFERENCES} times"));
        }
        Ok(())
    }

    /// Returns the subschema that a reference names; `None` if only the validator can resolve it.
    fn resolve(&self, reference: &str) -> Result<Option<&'a Value>, String> {
        let target = match reference.strip_prefix('#') {
            Some("") => Some(self.root),
            Some(pointer) if pointer.starts_with('/') => self.root.pointer(pointer),
            Some(anchor) => self.names.get(anchor).copied(),
            None => self.names.get(reference).copied(),
        };
        let may_be_elsewhere =
            self.has_addresses || DIALECTS.iter().any(|dialect| reference.starts_with(dialect));
        if target.is_none() && !may_be_elsewhere {
            let head: String = reference.chars().take(80).collect();
            return Err(format!("it refers to {head:?}, which it does not have"));
        }
        Ok(target)
    }
}

/// Returns whether two paths may lead to one value of an input.
fn may_be_equal(one: &[Step<'_>], other: &[Step<'_>]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|steps| match steps {
            (Step::Property(one), Step::Property(other)) => one == other,
            (Step::Element, Step::Element) => true,
            (Step::Element, _) | (_, Step::Element) => false,
            (Step::AnyProperty, _) | (_, Step::AnyProperty) => true,
        })
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn doubling(keyword: &str, levels: usize) -> Value {
        let mut definitions = Map::new();
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            definitions.insert(format!("d{level}"), json!({keyword: [next, next]}));
        }
        definitions.insert(format!("d{levels}"), json!({"type": "object"}));
        json!({"type": "object", "$defs": definitions, keyword: [{"$ref": "#/$defs/d0"}]})
    }

    #[test]
    fn references_that_double_at_each_level_are_refused() {
        for keyword in ["allOf", "anyOf", "oneOf"] {
            assert!(unfold(&doubling(keyword, 5), &[]).is_ok());
            assert!(unfold(&doubling(keyword, 30), &[]).unwrap_err().contains("unfolds"), "{keyword}");
        }
    }

    #[test]
    fn a_schema_may_refer_to_itself_but_not_twice_for_one_path() {
        let again = json!({"$ref": "#"});
        let tree = json!({"properties": {"left": again, "right": again, "more": {"items": again}}});
        assert!(unfold(&tree, &[]).is_ok());
        for twice in [
            json!({"allOf": [{"properties": {"a": again}}, {"properties": {"a": again}}]}),
            json!({"properties": {"a": again}, "patternProperties": {"^a": again}}),
            json!({"items": again, "contains": again}),
            json!({"$anchor": "me", "anyOf": [{"$ref": "#me"}, {"$ref": "#me"}]}),
        ] {
            assert!(unfold(&twice, &[]).unwrap_err().contains("two ways"), "{twice}");
        }
    }

    #[test]
    fn a_very_deep_schema_is_refused() {
        let mut deep = json!({});
        for _ in 0..300 {
            deep = json!({"not": deep});
        }
        assert!(unfold(&deep, &[]).unwrap_err().contains("deep"));
    }
}
