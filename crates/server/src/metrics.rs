//! Metrics for operators, in the format of Prometheus.
//!
//! All crates record metrics by the `metrics` facade. Their names follow OpenTelemetry's conventions for HTTP and generative AI and are
//! in the table here, the source of `docs/guide/metrics.md`. Labels never contain text from clients, so that clients cannot increase the
//! number of series. Every metric is shown from the start: the series whose labels are known begin at zero, those of the engine in its
//! `zero_series`.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use axum::{
    extract::{MatchedPath, Request},
    http::Method,
    middleware::Next,
    response::Response,
};
use fermata_engine::{DrainCounts, version};
use fermata_store::Connections;
use metrics::{Counter, Histogram, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use utoipa::openapi::{OpenApi, PathItem, path::Operation};

use crate::{
    channels,
    drain::{DrainStatus, Stage},
    telemetry::TRACES_LOST,
};

/// The metrics of this process; `None` if the program has its own recorder.
#[derive(Clone)]
pub struct Metrics(Option<PrometheusHandle>);

/// A metric, as operators see it.
struct Metric {
    name: &'static str,
    kind: Kind,
    #[cfg_attr(not(test), expect(dead_code, reason = "the page of metrics shows them"))]
    labels: &'static [&'static str],
    about: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

const REQUEST_DURATION: &str = "http_server_request_duration_seconds";
const DECISION_WAIT: &str = "fermata_decision_wait_seconds";
const LOG_LINES_LOST: &str = "fermata_log_lines_lost_total";

/// All metrics.
const METRICS: &[Metric] = &[
    Metric {
        name: "fermata_build_info",
        kind: Kind::Gauge,
        labels: &["version"],
        about: "Always 1. The label is the version of the server, in a release with its build, such as `1.2.3 (0a1b2c3)`.",
    },
    Metric {
        name: "fermata_runs_open",
        kind: Kind::Gauge,
        labels: &[],
        about: "The runs that work or wait in this process.",
    },
    Metric {
        name: "fermata_calls_parked",
        kind: Kind::Gauge,
        labels: &[],
        about: "The calls that wait for a browser or a person.",
    },
    Metric {
        name: "fermata_runs_total",
        kind: Kind::Counter,
        labels: &["outcome"],
        about: "The runs that ended.",
    },
    Metric {
        name: "fermata_calls_total",
        kind: Kind::Counter,
        labels: &["gen_ai_tool_name", "state", "error_type"],
        about: "The calls that ended. The tools of pages share the name `browser`, unknown tools the name `unknown`.",
    },
    Metric {
        name: "fermata_compactions_total",
        kind: Kind::Counter,
        labels: &["reason", "outcome"],
        about: "The summaries of chats that were written or failed.",
    },
    Metric {
        name: "fermata_memories_total",
        kind: Kind::Counter,
        labels: &["change"],
        about: "The memories that were saved, changed, forgotten, undone or recalled.",
    },
    Metric {
        name: "fermata_embeddings_total",
        kind: Kind::Counter,
        labels: &["outcome"],
        about: "The calls of the embedding model.",
    },
    Metric {
        name: "gen_ai_client_operation_duration_seconds",
        kind: Kind::Histogram,
        labels: &["gen_ai_operation_name", "gen_ai_request_model", "gen_ai_tool_name"],
        about: "The duration of a model call (`chat`), of embeddings (`embeddings`), or of a tool (`execute_tool`).",
    },
    Metric {
        name: "gen_ai_client_token_usage",
        kind: Kind::Histogram,
        labels: &["gen_ai_request_model", "gen_ai_token_type"],
        about: "The tokens of a model call.",
    },
    Metric {
        name: REQUEST_DURATION,
        kind: Kind::Histogram,
        labels: &["http_request_method", "http_route", "http_response_status_code"],
        about: "The time until a response started.",
    },
    Metric {
        name: "fermata_connections_refused_total",
        kind: Kind::Counter,
        labels: &["reason"],
        about: "The connections that were refused because of a limit: `server` (max_connections) or `address` (max_connections_per_address).",
    },
    Metric {
        name: "fermata_holds_cut_short_total",
        kind: Kind::Counter,
        labels: &[],
        about: "The waiting runs whose streams ended early, because the connections had run out.",
    },
    Metric {
        name: "fermata_runs_taken_over_total",
        kind: Kind::Counter,
        labels: &[],
        about: "The runs that were at work at an instance that has ended, and were resumed here.",
    },
    Metric {
        name: "fermata_lease_renewals_total",
        kind: Kind::Counter,
        labels: &["outcome"],
        about: "The heartbeats of this instance: `renewed`, `failed` (the database did not answer), or `lost` (it came too late, and others may have resumed runs of this instance).",
    },
    Metric {
        name: "fermata_draining_runs",
        kind: Kind::Gauge,
        labels: &[],
        about: "The runs that still wait or work while this server drains; 0 if it does not.",
    },
    Metric {
        name: "fermata_drained_runs_total",
        kind: Kind::Counter,
        labels: &["outcome"],
        about: "The runs that a server that drains has `moved` (they waited), `finished` or `cut` (the step is made again elsewhere).",
    },
    Metric {
        name: "fermata_drain_refusals_total",
        kind: Kind::Counter,
        labels: &[],
        about: "The requests that were refused because the server drains.",
    },
    Metric {
        name: DECISION_WAIT,
        kind: Kind::Histogram,
        labels: &["gen_ai_tool_name", "outcome"],
        about: "The time that a call waited for a person's decision, by its outcome: `approved`, `denied`, or `none` if nobody decided.",
    },
    Metric {
        name: "fermata_streams_open",
        kind: Kind::Gauge,
        labels: &[],
        about: "The event streams that clients read from this process.",
    },
    Metric {
        name: "fermata_database_connections",
        kind: Kind::Gauge,
        labels: &["state"],
        about: "The connections to PostgreSQL that are `used` or `idle`; 0 with SQLite.",
    },
    Metric {
        name: "fermata_database_waiting",
        kind: Kind::Gauge,
        labels: &[],
        about: "The operations that wait for a connection to PostgreSQL.",
    },
    Metric {
        name: channels::SENT,
        kind: Kind::Counter,
        labels: &["channel"],
        about: "The notices that channels have sent.",
    },
    Metric {
        name: channels::FAILED,
        kind: Kind::Counter,
        labels: &["channel"],
        about: "The attempts to send a notice that failed and are repeated.",
    },
    Metric {
        name: channels::GIVEN_UP,
        kind: Kind::Counter,
        labels: &["channel"],
        about: "The notices that were given up. `fermata outbox` lists them.",
    },
    Metric {
        name: channels::OPEN,
        kind: Kind::Gauge,
        labels: &[],
        about: "The notices of all instances that are still to be sent.",
    },
    Metric {
        name: TRACES_LOST,
        kind: Kind::Counter,
        labels: &[],
        about: "The traces of runs that the OpenTelemetry collector did not take.",
    },
    Metric {
        name: "process_start_time_seconds",
        kind: Kind::Gauge,
        labels: &[],
        about: "The start of the process, in Unix time.",
    },
    Metric { name: "process_threads", kind: Kind::Gauge, labels: &[], about: "The threads of the process." },
    Metric {
        name: "process_virtual_memory_bytes",
        kind: Kind::Gauge,
        labels: &[],
        about: "The virtual memory of the process.",
    },
    Metric {
        name: "process_virtual_memory_max_bytes",
        kind: Kind::Gauge,
        labels: &[],
        about: "The limit on the virtual memory of the process.",
    },
    Metric {
        name: "process_max_fds",
        kind: Kind::Gauge,
        labels: &[],
        about: "The limit on open files and connections of the process.",
    },
    Metric {
        name: "process_cpu_seconds_total",
        kind: Kind::Counter,
        labels: &[],
        about: "The processor time of the process.",
    },
    Metric {
        name: "process_resident_memory_bytes",
        kind: Kind::Gauge,
        labels: &[],
        about: "The memory of the process.",
    },
    Metric {
        name: "process_open_fds",
        kind: Kind::Gauge,
        labels: &[],
        about: "The open files and connections of the process.",
    },
    Metric {
        name: LOG_LINES_LOST,
        kind: Kind::Counter,
        labels: &[],
        about: "The lines of the log that were dropped, because they could not be written or nobody took them.",
    },
];

const SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];
/// From seconds to a week: a person decides.
const WAITS: &[f64] = &[1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 28_800.0, 86_400.0, 604_800.0];
const TOKENS: &[f64] =
    &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0];

// === impl Metrics ===

impl Metrics {
    /// Installs the recorder of the process, or returns the one that was installed before. If the program has its own recorder, that one
    /// gets the metrics, and there are none here.
    ///
    /// # Errors
    /// Returns an error if the recorder cannot be built.
    pub fn install() -> Result<Self, BuildError> {
        // The mutex is held during the installation, so that of two concurrent calls the second finds the first one's recorder.
        static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = installed.as_ref() {
            return Ok(Self(Some(handle.clone())));
        }
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), SECONDS)?
            .set_buckets_for_metric(Matcher::Full(DECISION_WAIT.into()), WAITS)?
            .set_buckets_for_metric(Matcher::Full("gen_ai_client_token_usage".into()), TOKENS)?
            .install_recorder();
        describe();
        begin_at_zero();
        match recorder {
            Ok(handle) => Ok(Self(Some(installed.insert(handle).clone()))),
            Err(BuildError::FailedToSetGlobalRecorder(_)) => Ok(Self(None)),
            Err(error) => Err(error),
        }
    }

    /// Returns the counter of the lines of the log that were lost.
    pub fn log_lines_lost(&self) -> Counter {
        metrics::counter!(LOG_LINES_LOST)
    }

    /// Returns all metrics as text, with those that are read for it.
    pub fn render(&self, drain: &DrainStatus, streams: usize, database: Connections) -> String {
        note_drain(drain);
        metrics::gauge!("fermata_streams_open").set(streams as f64);
        for (state, count) in [("used", database.used), ("idle", database.idle)] {
            metrics::gauge!("fermata_database_connections", "state" => state).set(count as f64);
        }
        metrics::gauge!("fermata_database_waiting").set(database.waiting as f64);
        metrics_process::Collector::default().collect();
        self.0.as_ref().map(PrometheusHandle::render).unwrap_or_default()
    }

    /// Moves observations into their buckets. Without this, they accumulate until the metrics are read.
    pub fn tidy(&self) {
        if let Some(handle) = &self.0 {
            handle.run_upkeep();
        }
    }
}

fn note_drain(DrainStatus { stage, counts }: &DrainStatus) {
    let DrainCounts { runs, moved, finished, cut, refused } = *counts;
    let left = if *stage == Stage::Draining { runs } else { 0 };
    metrics::gauge!("fermata_draining_runs").set(left as f64);
    for (outcome, count) in [("moved", moved), ("finished", finished), ("cut", cut)] {
        metrics::counter!("fermata_drained_runs_total", "outcome" => outcome).absolute(count as u64);
    }
    metrics::counter!("fermata_drain_refusals_total").absolute(refused as u64);
}

fn describe() {
    for Metric { name, kind, about, .. } in METRICS {
        match kind {
            Kind::Counter => describe_counter!(*name, *about),
            Kind::Gauge => describe_gauge!(*name, *about),
            Kind::Histogram => describe_histogram!(*name, *about),
        }
    }
}

/// Registers the series of the server. Series that exist keep their values.
fn begin_at_zero() {
    metrics::gauge!("fermata_build_info", "version" => version()).set(1);
    metrics::counter!(LOG_LINES_LOST).increment(0);
    metrics::counter!(TRACES_LOST).increment(0);
    metrics::gauge!(channels::OPEN).set(0);
    metrics::counter!("fermata_holds_cut_short_total").increment(0);
    for reason in ["server", "address"] {
        metrics::counter!("fermata_connections_refused_total", "reason" => reason).increment(0);
    }
}

/// Registers a series for each route, with the status of success.
pub fn begin_routes(description: &OpenApi) {
    for (path, item) in &description.paths.paths {
        let PathItem { get, put, post, delete, options, head, patch, .. } = item;
        for (method, operation) in [
            ("GET", get),
            ("PUT", put),
            ("POST", post),
            ("DELETE", delete),
            ("OPTIONS", options),
            ("HEAD", head),
            ("PATCH", patch),
        ] {
            let Some(Operation { responses, .. }) = operation else { continue };
            for status in responses.responses.keys().filter(|status| status.starts_with('2')) {
                // A histogram is shown once it has a handle.
                let _ = request_duration(method, path.clone(), status.clone());
            }
        }
    }
}

fn request_duration(method: &'static str, route: String, status: String) -> Histogram {
    metrics::histogram!(REQUEST_DURATION,
        "http_request_method" => method,
        "http_route" => route,
        "http_response_status_code" => status,
    )
}

/// Records the duration of each request, by method, route and status.
pub async fn observe(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = match *request.method() {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "_OTHER",
    };
    let response = next.run(request).await;
    let route = route.as_ref().map_or("none", MatchedPath::as_str).to_owned();
    let (status, took) = (response.status().as_u16(), started.elapsed());
    tracing::debug!(method, route, status, ?took, "answered a request");
    request_duration(method, route, status.to_string()).record(took);
    response
}

#[cfg(test)]
mod tests {
    //! `docs/guide/metrics.md` lists the metrics. It is written from the table: `FERMATA_WRITE_DOCS=1 cargo test -p fermata-server --lib metrics`.

    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/metrics.md");

    const HEAD: &str = "\
# Metrics

<!-- Written by crates/server/src/metrics.rs; its tests say how. -->

`GET /metrics` shows these metrics in the format of Prometheus. If `auth` is not `none`, it is served only at
`operator_bind`, or with the `operator_token`. Names follow the conventions of OpenTelemetry for HTTP and generative AI.

Every metric is shown from the start. The series whose labels are known (outcomes, tools, models, routes) begin at zero, so
that a rate counts their first event.

[deploy/prometheus/alerts.yml](../../deploy/prometheus/alerts.yml) has alerts, and [deploy/grafana.json](../../deploy/grafana.json)
a dashboard. [Deployment](deployment.md#monitoring) says how to use them.

| metric | type | labels | meaning |
| --- | --- | --- | --- |
";

    #[test]
    fn the_page_of_metrics_is_that_of_the_table() {
        let mut page = HEAD.to_owned();
        for Metric { name, kind, labels, about } in METRICS {
            let kind = format!("{kind:?}").to_lowercase();
            let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
            page += &format!("| `{name}` | {kind} | {} | {about} |\n", labels.join(", "));
        }
        if std::env::var("FERMATA_WRITE_DOCS").is_ok_and(|wish| wish == "1") {
            std::fs::write(PAGE, &page).expect("docs can be written");
        }
        let written = std::fs::read_to_string(PAGE).unwrap_or_default();
        let help =
            "FERMATA_WRITE_DOCS=1 cargo test -p fermata-server --lib metrics writes docs/guide/metrics.md";
        assert_eq!(written, page, "{help}");
    }
}
