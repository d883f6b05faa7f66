//! The pages of the guide that list all settings, all endpoints and all error codes are written from the program:
//! `FERMATA_WRITE_DOCS=1 cargo test -p fermata-server --test http reference`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use fermata_server::config::{SETTINGS, Setting};
use serde_json::Value;

use crate::TestApp;

const WRITTEN: &str = "<!-- Written by crates/server/tests/http/reference.rs; its head says how. -->";

/// The errors that every endpoint may return, and the meanings of those that an endpoint only names.
const GENERAL: [(&str, &str, &str); 10] = [
    ("400", "malformed_request", "the request is not HTTP that the server can read"),
    ("405", "method_not_allowed", "the path has no such method; `allow` lists those that it has"),
    ("410", "deleted", "the chat was deleted; posts to its id are refused for 30 days"),
    ("422", "denied_by_policy", "the rules deny the call with the edited input"),
    ("422", "tool_name_taken", "a posted tool has the name of a tool of the server"),
    ("422", "too_many_memories", "all memories are pinned or have a slot; delete some"),
    (
        "422",
        "unknown_scope",
        "`always` names a scope that the call does not have; `scopes` of the call lists them",
    ),
    ("422", "unknown_tool", "`toolChoice` names a tool that there is not"),
    ("500", "internal", "an error of the server, which its log explains"),
    ("504", "unclear", "the request may have been done; look at the chat before you send it again"),
];

/// Compares a page with the one that is stored, or stores it.
fn check(name: &str, page: &str) {
    let path = format!("{}/../../docs/guide/{name}.md", env!("CARGO_MANIFEST_DIR"));
    if std::env::var("FERMATA_WRITE_DOCS").is_ok_and(|wish| wish == "1") {
        std::fs::write(&path, page).expect("docs can be written");
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        stored, page,
        "FERMATA_WRITE_DOCS=1 cargo test -p fermata-server --test http reference writes docs/guide/{name}.md"
    );
}

/// Returns a text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").replace('<', "&lt;")
}

#[test]
fn the_page_of_settings_has_all_of_them() {
    let mut page = format!(
        "# All settings\n\n{WRITTEN}\n\nThe settings by group. [Settings](settings.md) explains the most important ones, and how options, \
         variables and `fermata.toml` go together.\n"
    );
    let mut group = "";
    for Setting { key, group: own, variable, default, about, .. } in SETTINGS.iter() {
        if group != own {
            group = own;
            let _ = write!(page, "\n## {group}\n\n| key | variable | default | |\n|---|---|---|---|\n");
        }
        let code = |text: &Option<String>| {
            text.as_ref().map_or_else(String::new, |text| format!("`{}`", cell(text)))
        };
        let _ = writeln!(page, "| `{key}` | {} | {} | {} |", code(variable), code(default), cell(about));
    }
    check("all-settings", &page);
}

/// Returns the method, the path and the description of each operation.
fn operations(description: &Value) -> Vec<(String, &str, &Value)> {
    let paths = description["paths"].as_object().expect("paths");
    let mut operations = Vec::new();
    for (path, item) in paths {
        for (method, operation) in item.as_object().expect("an item").iter().filter(|(_, it)| it.is_object())
        {
            operations.push((method.to_uppercase(), path.as_str(), operation));
        }
    }
    operations
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default().trim()
}

#[tokio::test]
async fn the_page_of_endpoints_has_all_of_them() {
    let description = TestApp::new([]).await.get("/openapi.json").await.json();
    let mut page = format!(
        "# Endpoints\n\n{WRITTEN}\n\nEach endpoint with its responses. [HTTP API](http-api.md) is the introduction, `GET /openapi.json` has the \
         schemas of all bodies, and [Errors](errors.md) lists the codes.\n"
    );
    for (method, path, operation) in operations(&description) {
        let _ = write!(page, "\n## {method} {path}\n\n{}\n", text(&operation["summary"]));
        if !text(&operation["description"]).is_empty() {
            let _ = write!(page, "\n{}\n", text(&operation["description"]));
        }
        let parameters: Vec<&Value> = operation["parameters"].as_array().into_iter().flatten().collect();
        if !parameters.is_empty() {
            page += "\n| parameter | in | |\n|---|---|---|\n";
            for parameter in parameters {
                let (name, place) = (text(&parameter["name"]), text(&parameter["in"]));
                let _ = writeln!(page, "| `{name}` | {place} | {} |", cell(text(&parameter["description"])));
            }
        }
        page += "\n| status | |\n|---|---|\n";
        for (status, response) in operation["responses"].as_object().expect("responses") {
            let _ = writeln!(page, "| {status} | {} |", cell(text(&response["description"])));
        }
    }
    check("endpoints", &page);
}

#[tokio::test]
async fn the_page_of_errors_has_every_code_with_its_meaning() {
    let description = TestApp::new([]).await.get("/openapi.json").await.json();
    // The list of all codes is private, so its source is read.
    let source = include_str!("../../src/error.rs");
    let list = source.split("fn of(self)").nth(1).and_then(|rest| rest.split("fn hint").next());
    let known: Vec<&str> = list.expect("the codes").split('"').skip(1).step_by(2).collect();
    // A description is `code`: meaning; `code`: meaning.
    let mut codes: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for (_, _, operation) in operations(&description) {
        for (status, response) in operation["responses"].as_object().expect("responses") {
            if status.starts_with('2') {
                continue;
            }
            for part in text(&response["description"]).split("; ") {
                // Several codes may share a meaning.
                let (named, meaning) = part.split_once(": ").unwrap_or((part, ""));
                for code in named.split('`').skip(1).step_by(2).filter(|code| known.contains(code)) {
                    codes.entry((status.clone(), code.to_owned())).or_default().insert(cell(meaning.trim()));
                }
            }
        }
    }
    for (status, code, meaning) in GENERAL {
        codes.entry((status.to_owned(), code.to_owned())).or_default().insert(meaning.to_owned());
    }
    for code in known {
        let mut meanings =
            codes.iter().filter(|((_, other), _)| other == code).flat_map(|(_, meanings)| meanings);
        assert!(meanings.any(|meaning| !meaning.is_empty()), "nothing describes {code}");
    }
    let mut page = format!(
        "# Errors\n\n{WRITTEN}\n\nAn error is `application/problem+json`. `code` is stable, for programs. `detail` says what went wrong and \
         what to do, for people. Over a limit, `retry-after` says when to try again.\n\n| status | code | meaning |\n|---|---|---|\n"
    );
    for ((status, code), meanings) in codes {
        let meanings: Vec<String> = meanings.into_iter().filter(|meaning| !meaning.is_empty()).collect();
        let _ = writeln!(page, "| {status} | `{code}` | {} |", meanings.join("<br>"));
    }
    check("errors", &page);
}
