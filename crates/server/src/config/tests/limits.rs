//! `docs/guide/limits.md` lists every setting that is a size, a number or a time, with the consequence of exceeding it.
//!
//! The page is written from the table of settings: `FERMATA_WRITE_DOCS=1 cargo test -p fermata-server --lib limits`.

use fermata_engine::{Limits, memories::MemoryLimits};

use super::super::{SETTINGS, Setting};
use crate::{extract, serve};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/limits.md");

const HEAD: &str = "\
# Limits

<!-- Written by crates/server/src/config/tests/limits.rs; the head of that file says how. -->

These are the settings that bound what clients, pages, models and tools may send, and how long each may take. Each is a key of
`fermata.toml`, and the environment variable and the option of the same name. An error says which limit it was.

| limit | default | over it |
| --- | --- | --- |
";

const FIXED: &str = "
## Fixed limits

No setting changes these. A Rust program that mounts the engine can set those of `Limits` and `MemoryLimits`.

| limit | value | over it |
| --- | --- | --- |
";

/// Returns the limits that are no settings, with their values.
fn fixed() -> [(&'static str, String, &'static str); 17] {
    let limits = Limits::default();
    let memories = MemoryLimits::default();
    let (failed, too_large) = ("the call has failed, and the model learns why", "413 `too_large`");
    let invalid = "422 `invalid_request`";
    [
        (
            "bytes of a memory",
            memories.text_bytes.to_string(),
            "422 `invalid_request`; a call of `remember` has failed",
        ),
        (
            "similarity of two vectors, at least",
            memories.threshold.to_string(),
            "a memory with less is not recalled",
        ),
        ("calls of a chat that wait for an answer", limits.parked_calls.to_string(), failed),
        (
            "calls in one step",
            limits.calls_per_step.to_string(),
            "the first excess call has failed, and those after it are left out",
        ),
        (
            "bytes of the arguments of a call",
            limits.argument_bytes.to_string(),
            "the call has failed; 413 `too_large` for an edited input",
        ),
        (
            "JSON values in the arguments of a call",
            limits.argument_nodes.to_string(),
            "the call has failed; 413 `too_large` for an edited input",
        ),
        (
            "bytes of the model's output in one step",
            limits.step_output_bytes.to_string(),
            "the run ends with `error`",
        ),
        ("JSON values in an output of a server's tool", limits.output_nodes.to_string(), failed),
        ("JSON values in a request body", extract::MOST_JSON_VALUES.to_string(), too_large),
        ("nesting of a request body", extract::DEEPEST_JSON.to_string(), invalid),
        ("bytes of `system`", limits.system_bytes.to_string(), too_large),
        ("browser tools in a request", limits.tools.to_string(), too_large),
        ("bytes of all browser tools in a request", limits.tool_bytes.to_string(), invalid),
        ("patterns in the schemas of all browser tools", limits.patterns.to_string(), invalid),
        (
            "check of inputs against their schemas",
            humantime::format_duration(limits.check_timeout).to_string(),
            "the call has failed; 422 `invalid_request` for an answer",
        ),
        (
            "head of a request, and an idle connection",
            humantime::format_duration(serve::HEADER_TIMEOUT).to_string(),
            "the connection is closed",
        ),
        (
            "client that does not read its stream",
            humantime::format_duration(serve::READER_TIMEOUT).to_string(),
            "the connection is closed; the run goes on and can be followed again",
        ),
    ]
}

fn row(setting: &Setting) -> Option<String> {
    let over = setting.over?;
    let default = setting.default.map_or_else(|| "none".to_owned(), |default| format!("`{default}`"));
    let Setting { key, about, .. } = setting;
    Some(format!("| `{key}`<br>{about} | {default} | {over} |\n"))
}

#[test]
fn every_measure_says_what_a_client_gets_that_goes_over_it() {
    for Setting { key, over, is_measure, .. } in SETTINGS {
        assert_eq!(
            over.is_some(),
            *is_measure,
            "{key}: in the table of settings, a size, a number or a time has `over \"…\"`, and nothing else has"
        );
    }
}

#[test]
fn the_page_of_limits_is_that_of_the_settings() {
    let fixed = fixed().map(|(limit, value, over)| format!("| {limit} | {value} | {over} |\n"));
    let page: String = [HEAD.to_owned()]
        .into_iter()
        .chain(SETTINGS.iter().filter_map(row))
        .chain([FIXED.to_owned()])
        .chain(fixed)
        .collect();
    if std::env::var("FERMATA_WRITE_DOCS").is_ok_and(|wish| wish == "1") {
        std::fs::write(PAGE, &page).expect("docs can be written");
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    let help = "FERMATA_WRITE_DOCS=1 cargo test -p fermata-server --lib limits writes docs/guide/limits.md";
    assert_eq!(written, page, "{help}");
}
