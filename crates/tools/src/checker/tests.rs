//! Schemas and inputs as an attacker would write them. The tests count steps and do not measure time.

use fermata_protocol::PostedTool;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::{PostedLimits, Toolbox, ToolboxError};

const LIMITS: PostedLimits = PostedLimits { bytes: 1_000_000, patterns: 200 };

fn posted(name: &str, schema: Value) -> PostedTool {
    PostedTool { name: name.into(), description: None, input_schema: schema }
}

fn offer(schema: Value) -> Result<Toolbox, ToolboxError> {
    Toolbox::default().with_browser_tools(&[posted("t", schema)], LIMITS)
}

fn refusal(schema: Value) -> String {
    offer(schema).err().expect("the schema is refused").to_string()
}

fn check(schema: Value, input: Value) -> Check {
    offer(schema).expect("the schema is accepted").find("t").expect("a tool").check_of(input)
}

fn items(schema: Value) -> Value {
    json!({"type": "object", "properties": {"x": {"items": schema}}})
}

fn fault(check: &Check) -> String {
    Checker::new().check_here(check).expect_err("the input is refused").to_string()
}

#[test]
fn patterns_that_cannot_be_checked_are_left_out_and_named() {
    for (pattern, what) in [
        (r"^(a|aa)+\1y$", "a back-reference"),
        ("^(?=x).*$", "look-around"),
        ("(?<!x)y", "look-around"),
        (r"\p{L}{220}", "64000 states"),
        ("((a{90}){90}){90}", "64000 states"),
        ("(?i)a", "not a regular expression of ECMA-262"),
        ("(", "not a regular expression"),
        (&"a".repeat(2_001), "2000"),
        (&r"\s".repeat(500), "64000 states"),
    ] {
        let named = pattern.chars().take(80).collect::<String>();
        let named = &format!("{named:?}")[1..];
        // Each schema, with an input that fits what is left of it and one that does not.
        for (schema, fits, misfits) in [
            (json!({"pattern": pattern, "minLength": 2}), json!("éé"), json!("é")),
            (json!({"anyOf": [{"pattern": pattern, "type": "string"}]}), json!("éé"), json!(5)),
            (json!({"not": {"pattern": pattern}, "type": "string"}), json!("éé"), json!(5)),
            (
                json!({"oneOf": [{"type": "string"}, {"pattern": pattern}], "allOf": [{"maxLength": 2}]}),
                json!("éé"),
                json!("ééé"),
            ),
            (json!({"if": {"pattern": pattern}, "then": false, "type": "string"}), json!("éé"), json!(5)),
            (
                json!({"contains": {"pattern": pattern}, "maxContains": 1, "maxItems": 2}),
                json!(["éé", "éé"]),
                json!([1, 2, 3]),
            ),
            (
                json!({"type": "object", "patternProperties": {pattern: {"type": "string"}}, "additionalProperties": false, "maxProperties": 1}),
                json!({"éé": 1}),
                json!({"a": 1, "b": 2}),
            ),
            (
                json!({"$defs": {"p": {"pattern": pattern}}, "not": {"$ref": "#/$defs/p"}, "type": "string"}),
                json!("éé"),
                json!(5),
            ),
        ] {
            let definitions = schema.get("$defs").cloned();
            let mut whole = items(schema.clone());
            if let Some(definitions) = definitions {
                whole["$defs"] = definitions;
            }
            let toolbox = offer(whole).expect("the schema is accepted");
            let tool = toolbox.find("t").expect("a tool");
            let reasons = tool.unchecked_patterns().expect("a pattern that is not checked");
            assert!(reasons.contains(what) && reasons.contains(&named[..named.len() - 1]), "{reasons}");
            let checker = Checker::new();
            assert_eq!(checker.check_here(&tool.check_of(json!({"x": [fits]}))), Ok(()), "{schema}");
            assert!(checker.check_here(&tool.check_of(json!({"x": [misfits]}))).is_err(), "{schema}");
        }
    }
}

#[test]
fn patterns_that_stand_for_too_much_are_refused_before_they_are_built() {
    let forty = |pattern: &str| {
        let of = |n: usize| (format!("p{n}"), json!({"pattern": format!("{pattern}{n}")}));
        json!({"type": "object", "properties": (0..40).map(of).collect::<Map<_, _>>()})
    };
    assert!(refusal(forty(r"\p{L}{20}")).contains("in all"));
    assert!(offer(forty(r"^[\w.+-]+@[\w-]+\.[\w.]{2,20}$")).is_ok());
}

#[test]
fn the_cost_of_all_tools_of_one_post_is_limited() {
    let many = |schema: Value, count: usize| -> Vec<PostedTool> {
        (0..count).map(|n| posted(&format!("t{n}"), schema.clone())).collect()
    };
    let refusal = |tools: &[PostedTool]| {
        Toolbox::default().with_browser_tools(tools, LIMITS).err().expect("too much").to_string()
    };
    let pattern = json!({"type": "object", "properties": {"a": {"pattern": "^a+$"}}});
    assert!(Toolbox::default().with_browser_tools(&many(pattern.clone(), 200), LIMITS).is_ok());
    assert!(refusal(&many(pattern, 201)).contains("max_patterns"));
    let long = json!({"type": "object", "description": "x".repeat(200_000)});
    assert!(refusal(&many(long, 6)).contains("max_tools_size"));
    let mut talkative = posted("t", json!({"type": "object"}));
    talkative.description = Some("x".repeat(40_000));
    assert!(refusal(&[talkative]).contains("description"));
}

#[test]
fn an_invalid_schema_is_refused_without_building_a_validator() {
    assert!(
        refusal(json!({"type": "object", "properties": {"a": {"type": 5}}})).contains("/properties/a/type")
    );
    assert!(refusal(json!({"type": "object", "$ref": "#/$defs/none"})).contains("does not have"));
}

#[test]
fn data_that_looks_like_a_pattern_is_not_a_pattern() {
    let schema = json!({"type": "object", "default": {"pattern": "(?=x)"}, "properties": {"default": {"pattern": "^x$"}}});
    assert!(fault(&check(schema, json!({"default": "y"}))).contains("/default"));
    // A reference may use the data as a schema.
    let used_as_schema =
        json!({"type": "object", "default": {"pattern": "(?=x)", "minProperties": 1}, "$ref": "#/default"});
    assert!(
        offer(used_as_schema.clone())
            .expect("it is accepted")
            .find("t")
            .expect("a tool")
            .unchecked_patterns()
            .is_some()
    );
    assert!(fault(&check(used_as_schema, json!({}))).contains("less than 1"));
}

#[test]
fn the_error_of_an_input_starts_with_its_path() {
    let schema =
        json!({"type": "object", "properties": {"name": {"type": "string", "pattern": r"^\p{L}{1,50}$"}}});
    assert!(fault(&check(schema.clone(), json!({"name": "1"}))).starts_with("/name: "));
    assert_eq!(Checker::new().check_here(&check(schema, json!({"name": "Zoë"}))), Ok(()));
}

#[test]
fn many_patterns_times_many_strings_end_within_what_a_check_may_cost() {
    let patterns: Vec<Value> = (0..180).map(|n| json!({"pattern": format!("^(a|aa)+{n}$")})).collect();
    let strings: Vec<String> = (0..20_000).map(|n| format!("{}{n}x", "a".repeat(20))).collect();
    let check = check(items(json!({"anyOf": patterns})), json!({"x": strings}));
    let checker = Checker::new();
    assert_eq!(checker.check_at_once(std::slice::from_ref(&check)), None);
    assert!(checker.check_here(&check).is_err());
}

#[test]
fn references_that_only_the_validator_can_follow_cost_no_more_than_a_check_may() {
    let mut definitions = Map::new();
    for level in 0..30 {
        let next = json!({"$ref": format!("http://x/y#/$defs/d{}", level + 1)});
        definitions.insert(format!("d{level}"), json!({"allOf": [next, next]}));
    }
    definitions.insert("d30".into(), json!({"type": "object"}));
    let schema =
        json!({"$id": "http://x/y", "type": "object", "$defs": definitions, "$ref": "http://x/y#/$defs/d0"});
    assert!(fault(&check(schema, json!({"a": 1}))).contains("steps"));
}

#[test]
fn unevaluated_keywords_within_each_other_are_refused_before_they_multiply() {
    let mut schema = json!({"properties": {"a": {"type": "string"}}});
    for _ in 0..12 {
        schema = json!({"allOf": [schema], "unevaluatedProperties": false});
    }
    schema["type"] = "object".into();
    assert!(refusal(schema).contains("unfolds"));
}

#[test]
fn a_deep_input_in_a_deep_schema_does_not_exhaust_the_stack() {
    let mut definitions = Map::new();
    for level in 0..150 {
        definitions
            .insert(format!("d{level}"), json!({"allOf": [{"$ref": format!("#/$defs/d{}", level + 1)}]}));
    }
    definitions.insert("d150".into(), json!({"type": "object"}));
    let schema = json!({"type": "object", "$defs": definitions, "properties": {"a": {"$ref": "#/$defs/d0"}}});
    let checker = Checker::new();
    for input in [json!({"a": {}}), json!({"a": 1})] {
        let result = format!("{:?}", checker.check_here(&check_saved(&schema, input)));
        assert!(
            result.contains("levels deep") || result.starts_with("Ok") || result.contains("object"),
            "{result}"
        );
    }
    let tree =
        json!({"type": "object", "properties": {"a": {"allOf": [{"allOf": [{"allOf": [{"$ref": "#"}]}]}]}}});
    let mut deep = json!({});
    for _ in 0..90 {
        deep = json!({"a": deep});
    }
    assert_eq!(checker.check_here(&check_saved(&tree, deep)), Ok(()));
}

fn check_saved(schema: &Value, input: Value) -> Check {
    let toolbox = Toolbox::default().with_saved_tools(&[posted("t", schema.clone())]);
    toolbox.find("t").expect("a tool").check_of(input)
}

#[test]
fn a_saved_tool_whose_schema_is_no_longer_accepted_fails_only_when_it_is_called() {
    let toolbox = Toolbox::default().with_saved_tools(&[posted("t", items(json!({"type": "what"})))]);
    let found = toolbox.find("t").expect("a tool");
    assert!(fault(&found.check_of(json!({}))).contains("what"));
}

#[test]
fn tools_with_equal_schemas_share_a_validator() {
    let schema = json!({"type": "object", "properties": {"a": {"pattern": "^a$"}}});
    let checker = Checker::new();
    for _ in 0..3 {
        assert_eq!(checker.check_here(&check(schema.clone(), json!({"a": "a"}))), Ok(()));
    }
    assert_eq!(checker.validators.len(), 1);
    assert_eq!(checker.check_here(&Check::of_elicitation(schema, json!({"a": "a"}))), Ok(()));
    assert_eq!(checker.validators.len(), 2, "formats count in answers to questions");
}

#[tokio::test]
async fn a_check_whose_time_is_over_says_so() {
    let strings = vec!["aaaaaaaaaaaaaaaaaaaaaaaaaaaaa"; 20_000];
    let check = check(items(json!({"anyOf": [{"pattern": "^b"}, {"pattern": "a$"}]})), json!({"x": strings}));
    let checker = Arc::new(Checker::new());
    let Checking::Later(results) = checker.check(vec![check], Duration::ZERO) else {
        panic!("the check is expensive");
    };
    let results = results.await;
    assert!(results[0].as_ref().is_err_and(|fault| fault.text.contains("check_timeout")), "{results:?}");
}

fn any_schema() -> impl Strategy<Value = Value> {
    let pattern = prop_oneof![
        "[a-c(){}|*+?^$.\\\\0-9,\\[\\]pLsdw-]{0,20}",
        Just(r"^(a|aa)+$".to_owned()),
        Just(r"\p{L}{1,9}".to_owned()),
        Just("(?i)x".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!(false)),
        Just(json!({})),
        "#|#/properties/a|#/\\$defs/a|x".prop_map(|to| json!({"$ref": to})),
        "string|object|array|integer|nothing".prop_map(|kind| json!({"type": kind})),
        pattern.clone().prop_map(|pattern| json!({"pattern": pattern})),
        (0..5u8).prop_map(|n| json!({"minLength": n, "maxItems": n, "uniqueItems": true})),
        prop::collection::vec(0..9u8, 0..4).prop_map(|values| json!({"enum": values})),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let several = prop::collection::vec(inner.clone(), 0..4);
        let keyword = "allOf|anyOf|oneOf|prefixItems";
        let single =
            "not|items|additionalProperties|unevaluatedProperties|unevaluatedItems|contains|propertyNames|if";
        prop_oneof![
            (keyword, several).prop_map(|(keyword, schemas)| json!({keyword: schemas})),
            (single, inner.clone()).prop_map(|(keyword, schema)| json!({keyword: schema})),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| json!({"properties": {"a": a}, "$defs": {"a": b}})),
            (pattern.clone(), inner.clone(), inner).prop_map(|(pattern, schema, rest)| {
                json!({"patternProperties": {pattern: schema}, "unevaluatedProperties": rest})
            }),
        ]
    })
}

fn any_input() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..9i64).prop_map(Value::from),
        "[abcxé]{0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[abc]{1,3}", inner, 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_schema_and_no_input_exceed_the_allowance_of_a_check(mut schema in any_schema(), input in any_input()) {
        if let Some(keywords) = schema.as_object_mut() {
            keywords.entry("type").or_insert("object".into());
        }
        let checker = Checker::new();
        let check = check_saved(&schema, input);
        let at_once = checker.check_at_once(std::slice::from_ref(&check));
        let here = checker.check_here(&check);
        if let Some(results) = at_once {
            prop_assert_eq!(&results[0], &here);
        }
        // The faults of a schema are reported when the tool is posted, so an accepted schema has none when the tool is called.
        if offer(schema).is_ok() {
            prop_assert!(!format!("{here:?}").contains("cannot be used"), "{here:?}");
        }
    }

    #[test]
    fn an_accepted_pattern_can_be_built(pattern in "[a-z(){}|*+?^$.\\\\0-9,\\[\\]\\-pPLsSdDwWb]{0,30}") {
        let schema = items(json!({"pattern": pattern}));
        if let Ok(toolbox) = offer(schema) {
            let check = toolbox.find("t").expect("a tool").check_of(json!({"x": ["a"]}));
            let result = format!("{:?}", Checker::new().check_here(&check));
            prop_assert!(!result.contains("cannot be used"), "{result}");
        }
    }
}
