//! The allowed dependencies between crates: `server -> {providers, store, peers} -> engine -> tools -> protocol`, and `server -> mcp -> tools`.
//!
//! The test checks the dependencies that cargo resolves, not the manifests, so that a forbidden crate is also found behind another one.
//! Dependencies of tests are not restricted.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    process::Command,
};

use serde_json::Value;

/// The crates of the workspace from the bottom to the top, each with the crates of the workspace that it may depend on.
const CRATES: [(&str, &[&str]); 13] = [
    ("fermata-protocol", &[]),
    ("fermata-tools", &["fermata-protocol"]),
    ("fermata-mcp", &["fermata-protocol", "fermata-tools"]),
    ("fermata-engine", &["fermata-protocol", "fermata-tools"]),
    ("fermata-providers", &["fermata-protocol", "fermata-tools", "fermata-engine"]),
    ("fermata-store", &["fermata-protocol", "fermata-tools", "fermata-engine"]),
    ("fermata-peers", &["fermata-engine"]),
    (
        "fermata-server",
        &[
            "fermata-protocol",
            "fermata-tools",
            "fermata-engine",
            "fermata-mcp",
            "fermata-providers",
            "fermata-store",
            "fermata-peers",
        ],
    ),
    ("fermata-rs", &["fermata-tools", "fermata-engine", "fermata-providers", "fermata-server"]),
    // It measures the built server from outside.
    ("fermata-bench", &[]),
    (
        "fermata-hot-paths",
        &["fermata-protocol", "fermata-tools", "fermata-engine", "fermata-providers", "fermata-store"],
    ),
    ("fermata-examples", &["fermata-rs"]),
    (
        "fermata-fuzz",
        &[
            "fermata-protocol",
            "fermata-tools",
            "fermata-engine",
            "fermata-mcp",
            "fermata-providers",
            "fermata-peers",
        ],
    ),
];

/// Returns the names of all packages, each with the names of the packages that it needs on any platform.
///
/// All versions of a package count as one, because a forbidden package is forbidden in every version.
type Graph = BTreeMap<String, BTreeSet<String>>;

fn graph() -> Graph {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let names: BTreeMap<&str, &str> = list(&metadata["packages"])
        .iter()
        .map(|package| (text(&package["id"]), text(&package["name"])))
        .collect();
    let mut graph = Graph::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        // The kind of a dependency that is part of the product is `null`, and not `dev` or `build`.
        let is_normal =
            |dependency: &&Value| list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
        let needs = list(&node["deps"]).iter().filter(is_normal);
        graph
            .entry(names[text(&node["id"])].to_owned())
            .or_default()
            .extend(needs.map(|dependency| names[text(&dependency["pkg"])].to_owned()));
    }
    graph
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list in cargo metadata")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text in cargo metadata")
}

/// Returns the chain of packages through which `from` depends on `to`.
fn path<'a>(graph: &'a Graph, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
    let mut seen = BTreeSet::from([from]);
    let mut paths = vec![vec![from]];
    while let Some(path) = paths.pop() {
        for next in path.last().into_iter().flat_map(|last| &graph[*last]) {
            let longer = [path.as_slice(), &[next]].concat();
            if next == to {
                return Some(longer);
            }
            if seen.insert(next) {
                paths.push(longer);
            }
        }
    }
    None
}

fn assert_never_needs(crates: &[&str], forbidden: &[&str]) {
    let graph = graph();
    for name in crates {
        for other in forbidden {
            assert!(graph.contains_key(*other), "{other} is not in the workspace: forbid what there is");
            if let Some(path) = path(&graph, name, other) {
                panic!("{name} must not need {other}: {}", path.join(" -> "));
            }
        }
    }
}

#[test]
fn crates_of_the_workspace_know_only_those_below_them() {
    let graph = graph();
    let ours: BTreeSet<&str> =
        graph.keys().map(String::as_str).filter(|name| name.starts_with("fermata-")).collect();
    assert_eq!(ours, CRATES.iter().map(|(name, _)| *name).collect(), "a crate without a place in the order");
    for (name, below) in CRATES {
        for known in graph[name].iter().filter(|known| known.starts_with("fermata-")) {
            assert!(below.contains(&known.as_str()), "{name} must not know {known}");
        }
    }
}

#[test]
fn the_wire_needs_no_runtime() {
    assert_never_needs(&["fermata-protocol"], &["tokio", "async-trait", "futures"]);
}

#[test]
fn the_lower_crates_know_http_and_sql_only_as_ports() {
    assert_never_needs(
        &["fermata-protocol", "fermata-tools", "fermata-engine"],
        &["axum", "hyper", "reqwest", "rusqlite", "tokio-postgres", "async-openai"],
    );
}

#[test]
fn only_its_own_crate_knows_mcp() {
    let graph = graph();
    let knowing: Vec<&str> =
        CRATES.iter().map(|(name, _)| *name).filter(|name| graph[*name].contains("rmcp")).collect();
    assert_eq!(knowing, ["fermata-mcp"]);
    assert_never_needs(
        &["fermata-protocol", "fermata-tools", "fermata-engine", "fermata-providers", "fermata-store"],
        &["rmcp"],
    );
}

#[test]
fn mcp_needs_no_http_server_and_no_sql() {
    assert_never_needs(&["fermata-mcp"], &["axum", "rusqlite", "tokio-postgres", "async-openai"]);
}

#[test]
fn a_forbidden_crate_is_found_behind_others() {
    let graph = graph();
    assert!(path(&graph, "fermata-server", "hyper").is_some());
    assert!(path(&graph, "fermata-store", "tokio-postgres").is_some());
}
