//! The metrics of a fresh server, and those that are described.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read, Write},
    path::Path,
};

use crate::{app::Settings, signals::Program};

/// Returns the names of the labels of each metric in `docs/guide/metrics.md`.
fn described() -> BTreeMap<String, BTreeSet<String>> {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/metrics.md"));
    let page = page.expect("docs/guide/metrics.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let labels = cells[3].split(", ").map(|label| label.trim_matches('`').to_owned());
        (cells[1].trim_matches('`').to_owned(), labels.filter(|label| !label.is_empty()).collect())
    })
    .collect()
}

/// Returns the names of the labels of each metric among these series.
fn shown(series: &str) -> BTreeMap<String, BTreeSet<String>> {
    let histograms: Vec<&str> =
        series.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" histogram")).collect();
    let mut shown = BTreeMap::<_, BTreeSet<_>>::new();
    for line in series.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (name, rest) = line.split_at(line.find(['{', ' ']).expect("a value"));
        let parts = ["_bucket", "_sum", "_count"].iter().filter_map(|part| name.strip_suffix(part));
        let name = parts.into_iter().find(|name| histograms.contains(name)).unwrap_or(name);
        let labels = rest.split_once('{').map_or("", |(_, rest)| rest.rsplit_once('}').expect("an end").0);
        let labels = labels.split("\",").filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
        shown.entry(name.to_owned()).or_default().extend(labels.filter(|label| label != "le"));
    }
    shown
}

fn metrics_of(program: &Program) -> String {
    let mut socket = program.connect();
    write!(socket, "GET /metrics HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", program.address())
        .expect("sending");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer.split_once("\r\n\r\n").expect("a body").1.to_owned()
}

/// The metrics of channels have a series for each channel.
const CHANNEL: &str = "[channels.ops]\nkind = \"webhook\"\nurl = \"https://ops.example.com\"\nsecret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n";

#[test]
fn a_fresh_server_shows_every_metric_that_is_described() {
    let program = Program::start(&Settings::new(CHANNEL));
    let series = metrics_of(&program);
    assert_eq!(shown(&series), described());
    let version = fermata_engine::version();
    for line in [
        format!("fermata_build_info{{version=\"{version}\"}} 1"),
        "fermata_log_lines_lost_total 0".into(),
        "fermata_runs_total{outcome=\"finished\"} 0".into(),
        "fermata_connections_refused_total{reason=\"server\"} 0".into(),
        "http_server_request_duration_seconds_count{http_request_method=\"POST\",http_route=\"/api/chat\",http_response_status_code=\"200\"} 0".into(),
    ] {
        assert!(series.lines().any(|shown| shown == line), "{line} is not in:\n{series}");
    }
    for tool in ["write_note", "browser", "unknown"] {
        let counted =
            format!("fermata_calls_total{{gen_ai_tool_name=\"{tool}\",state=\"success\",error_type=\"\"}} 0");
        assert!(series.lines().any(|shown| shown == counted), "{counted} is not in:\n{series}");
    }
}

#[test]
fn every_metric_that_is_recorded_is_described() {
    let described = described();
    let mut recorded = BTreeSet::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders: Vec<_> = fs::read_dir(crates)
        .expect("crates")
        .map(|entry| entry.expect("a crate").path().join("src"))
        .collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = fs::read_to_string(path).expect("a source");
                for kind in ["counter!(", "gauge!(", "histogram!("] {
                    for (_, after) in
                        source.match_indices(kind).map(|(at, _)| source.split_at(at + kind.len()))
                    {
                        if let Some(name) = after.trim_start().strip_prefix('"') {
                            recorded.insert(name.split('"').next().expect("a name").to_owned());
                        }
                    }
                }
            }
        }
    }
    assert!(recorded.contains("fermata_runs_total"), "{recorded:?}");
    let missing: Vec<_> = recorded.iter().filter(|name| !described.contains_key(*name)).collect();
    assert!(missing.is_empty(), "METRICS in crates/server/src/metrics.rs lacks {missing:?}");
}
