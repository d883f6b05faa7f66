//! The JSON Schema accepts what the reader accepts, and `docs/guide/fermata.schema.json` is the current one.
//!
//! `FERMATA_WRITE_DOCS=1 cargo test -p fermata-server --lib schema` writes the file.

use serde_json::json;

use super::{super::schema::file_schema, tables::uncommented};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/fermata.schema.json");

fn errors(toml: &str) -> Vec<String> {
    let file: toml::Table = toml.parse().expect("TOML");
    let validator = jsonschema::validator_for(&file_schema()).expect("a schema");
    validator.iter_errors(&json!(file)).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn the_schema_in_docs_is_the_current_one() {
    let schema = format!("{:#}\n", file_schema());
    if std::env::var("FERMATA_WRITE_DOCS").is_ok_and(|wish| wish == "1") {
        std::fs::write(FILE, &schema).expect("docs can be written");
    }
    let written = std::fs::read_to_string(FILE).unwrap_or_default();
    let help = "FERMATA_WRITE_DOCS=1 cargo test -p fermata-server --lib schema writes docs/guide/fermata.schema.json";
    assert!(written == schema, "{help}");
}

#[test]
fn the_example_is_valid_with_every_table_and_without() {
    let example = include_str!("../../../../../fermata.example.toml");
    assert_eq!(errors(example), [""; 0]);
    assert_eq!(errors(&uncommented(example)), [""; 0]);
    assert_eq!(errors(""), [""; 0]);
}

#[test]
fn what_the_reader_refuses_is_not_valid() {
    for wrong in [
        "hodl = \"1s\"",
        "max_steps = 0",
        "max_steps = \"many\"",
        "max_json_depth = 121",
        "gate = \"open\"",
        "migrate = \"no\"",
        "client = 4",
        "cors_origins = 5",
        "[[policy]]\ntool = \"x\"",
        "[[policy]]\ndecision = \"no\"",
        "[[policy]]\ndecision = \"deny\"\ninput = { path = { undre = \"/srv\" } }",
        "[tools.a]\nrepeatble = true",
        "[mcp.x]\ncomand = \"c\"",
        "[errors]\nauth = \"panic\"",
    ] {
        assert_ne!(errors(wrong), [""; 0], "{wrong}");
    }
}

#[test]
fn a_variable_may_stand_in_place_of_any_value() {
    assert_eq!(
        errors("max_steps = \"${STEPS}\"\nmigrate = \"${MIGRATE}\"\nmax_body = \"${BODY}\"\n"),
        [""; 0]
    );
}
