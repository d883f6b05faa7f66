//! Fields that a model has written as `null` because it leaves them out.
//!
//! Some models write every field of a schema. A `null` is removed where the schema neither requires the field nor allows `null` there, so
//! an input that fits stays as it is. Keywords that are not looked at here count as allowing `null`.
//!
//! Invariant: the work is bounded for any references of the schema; an input that would take more stays as it is.

use serde_json::Value;

/// The limit on the subschemas that are visited for one input.
const MAX_VISITS: usize = 20_000;
/// The limit on schemas that refer to or combine each other at one place of the input.
const DEEPEST: usize = 64;

/// The known part of the schema at one place of the input.
#[derive(Clone)]
enum Part<'a> {
    /// The keywords of one schema, without those that combine others.
    Keywords(&'a Value),
    /// All of these apply.
    All(Vec<Part<'a>>),
    /// One of these applies. There is at least one.
    Any(Vec<Part<'a>>),
}

struct Reader<'a> {
    root: &'a Value,
    visits_left: usize,
    depth: usize,
}

/// A limit is reached.
struct TooMuch;

/// Removes `null` for optional fields from an input. Returns `None` if there is nothing to remove.
pub(crate) fn without_absent_fields(schema: &Value, input: &Value) -> Option<Value> {
    let mut reader = Reader { root: schema, visits_left: MAX_VISITS, depth: 0 };
    let mut fitted = input.clone();
    let part = reader.read(schema).ok()?;
    match reader.remove(&part, &mut fitted) {
        Ok(true) => Some(fitted),
        Ok(false) | Err(TooMuch) => None,
    }
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn visit(&mut self) -> Result<(), TooMuch> {
        self.visits_left = self.visits_left.checked_sub(1).ok_or(TooMuch)?;
        Ok(())
    }

    /// Reads a schema with those that it combines.
    fn read(&mut self, schema: &'a Value) -> Result<Part<'a>, TooMuch> {
        self.visit()?;
        if self.depth == DEEPEST {
            return Err(TooMuch);
        }
        self.depth += 1;
        let mut parts = vec![Part::Keywords(schema)];
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            // A schema that is not found allows everything.
            parts.push(self.read(target.unwrap_or(&Value::Bool(true)))?);
        }
        for schema in list(schema, "allOf") {
            parts.push(self.read(schema)?);
        }
        for keyword in ["anyOf", "oneOf"] {
            let branches = list(schema, keyword)
                .iter()
                .map(|branch| self.read(branch))
                .collect::<Result<Vec<_>, _>>()?;
            if !branches.is_empty() {
                parts.push(Part::Any(branches));
            }
        }
        self.depth -= 1;
        Ok(Part::All(parts))
    }

    /// Returns whether anything was removed.
    fn remove(&mut self, part: &Part<'a>, value: &mut Value) -> Result<bool, TooMuch> {
        self.visit()?;
        let mut has_removed = false;
        match value {
            Value::Object(fields) => {
                let mut absent = Vec::new();
                for (name, value) in fields.iter_mut() {
                    match value {
                        Value::Null => {
                            if !self.requires(part, name)? && !self.field(part, name)?.allows_null() {
                                absent.push(name.clone());
                            }
                        }
                        Value::Object(_) | Value::Array(_) => {
                            let field = self.field(part, name)?;
                            has_removed |= self.remove(&field, value)?;
                        }
                        Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
                    }
                }
                for name in absent {
                    fields.shift_remove(&name);
                    has_removed = true;
                }
            }
            Value::Array(items) => {
                for item in items.iter_mut().filter(|item| item.is_object() || item.is_array()) {
                    let element = self.derive(part, |schema| schema.get("items"))?;
                    has_removed |= self.remove(&element, item)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(has_removed)
    }

    fn requires(&mut self, part: &Part<'a>, name: &str) -> Result<bool, TooMuch> {
        self.visit()?;
        Ok(match part {
            Part::Keywords(schema) => list(schema, "required").iter().any(|required| required == name),
            Part::All(parts) => {
                for part in parts {
                    if self.requires(part, name)? {
                        return Ok(true);
                    }
                }
                false
            }
            Part::Any(parts) => {
                for part in parts {
                    if !self.requires(part, name)? {
                        return Ok(false);
                    }
                }
                true
            }
        })
    }

    /// Returns the schema of a field.
    fn field(&mut self, part: &Part<'a>, name: &str) -> Result<Part<'a>, TooMuch> {
        self.derive(part, |schema| {
            if let Some(field) = schema.get("properties").and_then(|fields| fields.get(name)) {
                return Some(field);
            }
            match schema.get("patternProperties") {
                // Patterns are not matched here.
                Some(_) => None,
                None => schema.get("additionalProperties"),
            }
        })
    }

    /// Returns the known part of a place below: the results of `find` for each schema's keywords. `None` stands for no keyword about it.
    fn derive(
        &mut self,
        part: &Part<'a>,
        find: impl Fn(&'a Value) -> Option<&'a Value> + Copy,
    ) -> Result<Part<'a>, TooMuch> {
        self.visit()?;
        Ok(match part {
            Part::Keywords(schema) => match find(schema) {
                Some(found) => self.read(found)?,
                None => Part::All(Vec::new()),
            },
            Part::All(parts) => {
                Part::All(parts.iter().map(|part| self.derive(part, find)).collect::<Result<_, _>>()?)
            }
            Part::Any(parts) => {
                Part::Any(parts.iter().map(|part| self.derive(part, find)).collect::<Result<_, _>>()?)
            }
        })
    }
}

// === impl Part ===

impl Part<'_> {
    fn allows_null(&self) -> bool {
        match self {
            Self::Keywords(Value::Bool(allows_all)) => *allows_all,
            Self::Keywords(schema) => {
                let allowed_by_type = match schema.get("type") {
                    Some(Value::String(name)) => name == "null",
                    Some(Value::Array(names)) => names.iter().any(|name| name == "null"),
                    Some(_) | None => true,
                };
                let allowed_by_value = match (schema.get("const"), schema.get("enum")) {
                    (Some(value), _) => value.is_null(),
                    (None, Some(Value::Array(values))) => values.contains(&Value::Null),
                    (None, _) => true,
                };
                allowed_by_type && allowed_by_value
            }
            Self::All(parts) => parts.iter().all(Self::allows_null),
            Self::Any(parts) => parts.iter().any(Self::allows_null),
        }
    }
}

fn list<'a>(schema: &'a Value, keyword: &str) -> &'a [Value] {
    schema.get(keyword).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: Value, input: Value, expected: Value) {
        let fitted = without_absent_fields(&schema, &input).unwrap_or_else(|| input.clone());
        assert_eq!(fitted, expected, "{schema} {input}");
    }

    #[test]
    fn null_is_removed_where_the_schema_neither_requires_nor_allows_it() {
        for (field, is_removed) in [
            (json!({"type": "string"}), true),
            (json!({"type": ["string", "integer"]}), true),
            (json!({"type": "array", "items": {}}), true),
            (json!({"type": "string", "nullable": true}), true),
            (json!({"enum": ["a", "b"]}), true),
            (json!({"const": 1}), true),
            (json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}), true),
            (json!({"$ref": "#/properties/q"}), true),
            (json!(false), true),
            (json!({"type": ["string", "null"]}), false),
            (json!({"type": "null"}), false),
            (json!({"enum": ["a", null]}), false),
            (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), false),
            (json!({"$ref": "#/nowhere"}), false),
            (json!({}), false),
            (json!(true), false),
        ] {
            let expected = if is_removed { json!({"q": "a"}) } else { json!({"q": "a", "x": null}) };
            let fields = json!({"q": {"type": "string"}, "x": field});
            let schema = json!({"type": "object", "properties": fields, "required": ["q"]});
            check(schema, json!({"q": "a", "x": null}), expected);
        }
    }

    #[test]
    fn null_for_a_required_field_stays() {
        let schema = json!({"properties": {"q": {"type": "string"}}, "required": ["q"]});
        check(schema, json!({"q": null}), json!({"q": null}));
        let everywhere = json!({"properties": {"q": {"type": "string"}}, "anyOf": [{"required": ["q"]}]});
        check(everywhere, json!({"q": null}), json!({"q": null}));
    }

    #[test]
    fn null_is_removed_within_objects_and_lists_and_in_one_of_several_schemas() {
        let person =
            json!({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}});
        let schema = json!({
            "$defs": {"person": person},
            "type": "object",
            "properties": {"people": {"type": "array", "items": {"$ref": "#/$defs/person"}}},
            "oneOf": [
                {"properties": {"one": {"$ref": "#/$defs/person"}}, "required": ["one"]},
                {"properties": {"none": {"type": "boolean"}}, "required": ["none"]},
            ],
        });
        check(
            schema,
            json!({"people": [{"name": "a", "age": null}, null], "one": {"age": null}}),
            json!({"people": [{"name": "a"}, null], "one": {"age": null}}),
        );
    }

    #[test]
    fn null_for_a_field_that_is_not_described_stays_unless_there_may_be_none() {
        let open = json!({"type": "object", "properties": {}});
        check(open.clone(), json!({"x": null}), json!({"x": null}));
        let mut closed = open.clone();
        closed["additionalProperties"] = json!(false);
        check(closed, json!({"x": null}), json!({}));
        let mut matched = open;
        matched["patternProperties"] = json!({".": {"type": "string"}});
        check(matched, json!({"x": null}), json!({"x": null}));
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let forked =
            json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}], "properties": {"x": {"type": "string"}}});
        check(forked, json!({"x": null}), json!({"x": null}));
        let tree = json!({"properties": {"x": {"type": "string"}, "next": {"$ref": "#"}}});
        check(tree, json!({"next": {"next": {"x": null}}}), json!({"next": {"next": {}}}));
    }
}
