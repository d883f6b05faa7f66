//! Tables of schemas, and a property over schemas of any kind.

use proptest::prelude::*;

use super::*;
use crate::openai::dialect::DialectSettings;

fn check(schema: Value, expected: Value) {
    let fitted = fit_schema(&schema).unwrap_or_else(|| schema.clone());
    assert_eq!(fitted, expected, "{schema}");
    assert_eq!(fit_schema(&fitted), None, "a second time: {schema}");
}

fn tool(name: &str) -> ModelTool {
    ModelTool {
        name: name.into(),
        description: String::new(),
        input_schema: json!({"type": "object", "properties": {}}).into(),
    }
}

#[test]
fn a_schema_that_every_provider_reads_is_not_changed() {
    let schema = json!({
        "type": "object",
        "description": "d",
        "properties": {
            "anyOf": {"anyOf": [{"type": "string"}, {"type": "integer", "exclusiveMinimum": 0}]},
            "list": {"type": "array", "items": {"$ref": "#/$defs/a"}},
            "map": {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        },
        "required": ["list"],
        "additionalProperties": false,
        "$defs": {"a": {"enum": [1, true, null]}},
    });
    assert_eq!(fit_schema(&schema), None);
}

#[test]
fn an_object_has_properties_and_a_list_has_items() {
    check(json!({"type": "object"}), json!({"type": "object", "properties": {}}));
    check(
        json!({"type": "object", "properties": {"o": {"type": ["object", "null"]}, "l": {"type": "array"}, "any": true}}),
        json!({"type": "object", "properties": {
            "o": {"type": ["object", "null"], "properties": {}}, "l": {"type": "array", "items": {}}, "any": {},
        }}),
    );
}

#[test]
fn forms_of_earlier_drafts_are_rewritten() {
    check(
        json!({"type": "object", "properties": {
            "n": {"type": "number", "minimum": 1, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false},
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "number"}], "additionalItems": false},
        }, "$schema": "http://json-schema.org/draft-04/schema#"}),
        json!({"type": "object", "properties": {
            "n": {"type": "number", "exclusiveMinimum": 1, "maximum": 9},
            "pair": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}},
        }}),
    );
}

#[test]
fn the_fields_of_a_union_at_the_top_stand_side_by_side() {
    check(
        json!({"type": "object", "anyOf": [
            {"type": "object", "properties": {"p": {"type": "string"}}, "required": ["p"]},
            {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
        ]}),
        json!({
            "type": "object",
            "description": "It needs one of these sets of fields: p; q.",
            "properties": {"p": {"type": "string"}, "q": {"type": "string"}},
        }),
    );
    // The field that tells the schemas apart.
    check(
        json!({"type": "object", "oneOf": [
            {"properties": {"op": {"const": "add"}, "text": {"type": "string"}}, "required": ["op", "text"]},
            {"properties": {"op": {"const": "drop"}, "text": {"type": "integer"}}, "required": ["op"]},
            {"properties": {"op": {"enum": ["list"]}, "text": {"type": "boolean"}}, "required": ["op"]},
        ]}),
        json!({
            "type": "object",
            "properties": {
                "op": {"enum": ["add", "drop", "list"]},
                "text": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}]},
            },
            "description": "It needs one of these sets of fields: op, text; op.",
            "required": ["op"],
        }),
    );
}

#[test]
fn what_the_top_refers_to_is_put_in_its_place() {
    check(
        json!({
            "type": "object",
            "$ref": "#/$defs/base",
            "allOf": [{"properties": {"b": {"minLength": 2}, "c": {}}, "required": ["c"]}],
            "$defs": {"base": {"type": "object", "properties": {"a": {}, "b": {"type": "string"}}, "required": ["a"]}},
        }),
        json!({
            "type": "object",
            "$defs": {"base": {"type": "object", "properties": {"a": {}, "b": {"type": "string"}}, "required": ["a"]}},
            "properties": {"a": {}, "b": {"type": "string", "minLength": 2}, "c": {}},
            "required": ["a", "c"],
        }),
    );
}

#[test]
fn a_closed_object_gets_no_field_that_it_refuses() {
    check(
        json!({
            "type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false,
            "anyOf": [{"properties": {"a": {"minLength": 1}, "b": {}}}], "not": {"required": ["a"]},
        }),
        json!({"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}, "additionalProperties": false}),
    );
}

#[test]
fn a_schema_that_refers_to_itself_ends() {
    let circle = json!({"type": "object", "allOf": [{"$ref": "#"}, {"$ref": "#"}], "properties": {"a": {}}});
    check(circle, json!({"type": "object", "properties": {"a": {}}}));
}

#[test]
fn no_more_tools_are_sent_than_the_provider_takes_and_the_chosen_one_is_among_them() {
    let tools: Vec<ModelTool> = ["a", "b", "c", "d"].map(tool).into();
    let names = |choice: Option<ToolChoice>, max| {
        let (kept, left_out) = within_limit(&tools, choice.as_ref(), max);
        let join = |tools: Vec<&ModelTool>| tools.iter().map(|tool| tool.name.as_str()).collect::<String>();
        (join(kept), join(left_out))
    };
    let chosen = |name: &str| Some(ToolChoice::Tool(name.into()));
    for (choice, max, kept, left_out) in [
        (None, 4, "abcd", ""),
        (None, 3, "abc", "d"),
        (Some(ToolChoice::Required), 2, "ab", "cd"),
        (chosen("d"), 2, "ad", "bc"),
        (chosen("a"), 2, "ab", "cd"),
        (chosen("d"), 1, "d", "abc"),
        (chosen("x"), 2, "ab", "cd"),
    ] {
        assert_eq!(names(choice.clone(), max), (kept.to_owned(), left_out.to_owned()), "{choice:?} {max}");
    }
}

#[test]
fn the_form_of_schemas_is_that_of_the_dialect() {
    let of = |base: &str| {
        let base = reqwest::Url::parse(base).unwrap();
        let dialect = Dialect { max_tools: 1, ..Dialect::of(&base, "m", &DialectSettings::default()) };
        let mut closed = tool("a");
        closed.input_schema =
            json!({"type": "object", "properties": {"x": {}}, "additionalProperties": false}).into();
        let tools = [closed, tool("b")];
        let names = [None, Some(ToolChoice::Tool("b".into()))];
        names.map(|choice| {
            serde_json::to_value(fit_tools(&tools, choice.as_ref(), &dialect, &ToolNames::default())).unwrap()
        })
    };
    let function = |function: Value| json!([{"type": "function", "function": function}]);
    let closed = json!({"type": "object", "properties": {"x": {}}, "additionalProperties": false});
    let [first, chosen] = of("https://api.openai.com/v1");
    assert_eq!(first, function(json!({"name": "a", "parameters": closed})));
    let empty = json!({"type": "object", "properties": {}});
    assert_eq!(chosen, function(json!({"name": "b", "parameters": empty})));
    let [first, chosen] = of("https://generativelanguage.googleapis.com/v1beta/openai");
    assert_eq!(
        first,
        function(json!({"name": "a", "parameters": {"type": "object", "properties": {"x": {}}}}))
    );
    assert_eq!(chosen, function(json!({"name": "b"})));
}

fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!(false)),
        Just(json!({})),
        Just(json!({"type": "object"})),
        Just(json!({"type": "array"})),
        Just(json!({"const": 1})),
        Just(json!({"type": "number", "minimum": 1, "exclusiveMinimum": true})),
        Just(json!({"$ref": "#"})),
        Just(json!({"$ref": "#/$defs/a"})),
        Just(json!({"$ref": "#/nowhere"})),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..3);
        let by_name = prop::collection::btree_map("[ab]", inner.clone(), 0..3);
        prop_oneof![
            (list.clone(), prop::sample::select(vec!["anyOf", "oneOf", "allOf", "items", "prefixItems"]))
                .prop_map(|(schemas, keyword)| json!({keyword: schemas})),
            (by_name, any::<bool>()).prop_map(|(fields, is_closed)| {
                json!({"type": "object", "properties": fields, "required": ["a"], "additionalProperties": !is_closed})
            }),
            (inner.clone(), inner).prop_map(|(one, other)| {
                json!({"type": "array", "items": one, "additionalItems": other, "not": other, "$defs": {"a": one}})
            }),
        ]
    })
}

proptest! {
    #[test]
    fn every_schema_gets_a_form_that_stays_as_it_is(schema in schemas()) {
        let mut schema = schema;
        if let Value::Object(keywords) = &mut schema {
            keywords.insert("type".into(), "object".into());
        }
        let fitted = fit_schema(&schema).unwrap_or(schema);
        prop_assert!(fitted["properties"].is_object(), "{}", fitted);
        for keyword in NOT_AT_THE_TOP {
            prop_assert!(fitted.get(keyword).is_none(), "{}", fitted);
        }
        prop_assert_eq!(fit_schema(&fitted), None, "{}", fitted);
    }
}

#[test]
fn azure_gets_the_beginning_of_a_long_description() {
    let described = |base: &str, length: usize| {
        let base = reqwest::Url::parse(base).unwrap();
        let dialect = Dialect::of(&base, "m", &DialectSettings::default());
        let tools = [ModelTool { description: "ä".repeat(length), ..tool("f") }];
        let fitted = serde_json::to_value(fit_tools(&tools, None, &dialect, &ToolNames::default())).unwrap();
        fitted[0]["function"]["description"].as_str().unwrap().to_owned()
    };
    let azure = "https://mine.openai.azure.com/openai/v1";
    assert_eq!(described(azure, 1024), "ä".repeat(1024));
    assert_eq!(described(azure, 1025), "ä".repeat(1023) + "…");
    assert_eq!(described("https://api.openai.com/v1", 1025), "ä".repeat(1025));
}
