//! Metrics for operators, in the format of Prometheus.
//!
//! All crates record metrics by the `metrics` facade. Their names follow OpenTelemetry's conventions for HTTP and generative AI and are
//! described here. Labels never contain text from clients, so that clients cannot increase the number of series.

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
use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

/// The metrics of this process; `None` if the program has its own recorder.
#[derive(Clone)]
pub struct Metrics(Option<PrometheusHandle>);

const REQUEST_DURATION: &str = "http_server_request_duration_seconds";
const SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];
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
            .set_buckets_for_metric(Matcher::Full("gen_ai_client_token_usage".into()), TOKENS)?
            .install_recorder();
        describe_histogram!(REQUEST_DURATION, Unit::Seconds, "The time until a response started.");
        describe_histogram!(
            "gen_ai_client_operation_duration_seconds",
            Unit::Seconds,
            "The duration of a model call or, by gen_ai_operation_name, of a tool or of embeddings."
        );
        describe_histogram!("gen_ai_client_token_usage", "The tokens of a model call, by type.");
        describe_gauge!("fermata_runs_open", "The runs that work or wait in this process.");
        describe_gauge!("fermata_calls_parked", "The calls that wait for a browser or a person.");
        describe_counter!("fermata_runs_total", "The runs that ended, by outcome.");
        describe_counter!(
            "fermata_calls_total",
            "The calls that ended, by tool, final state and type of failure."
        );
        describe_counter!(
            "fermata_compactions_total",
            "The summaries of chats that were written or failed, by reason and outcome."
        );
        describe_counter!(
            "fermata_memories_total",
            "The memories that were saved, changed, forgotten, undone or recalled."
        );
        describe_counter!("fermata_embeddings_total", "The calls of the embedding model, by outcome.");
        describe_counter!(
            "fermata_connections_refused_total",
            "The connections that were refused, by reason."
        );
        match recorder {
            Ok(handle) => Ok(Self(Some(installed.insert(handle).clone()))),
            Err(BuildError::FailedToSetGlobalRecorder(_)) => Ok(Self(None)),
            Err(error) => Err(error),
        }
    }

    /// Returns all metrics as text.
    pub fn render(&self) -> String {
        self.0.as_ref().map(PrometheusHandle::render).unwrap_or_default()
    }

    /// Moves observations into their buckets. Without this, they accumulate until the metrics are read.
    pub fn tidy(&self) {
        if let Some(handle) = &self.0 {
            handle.run_upkeep();
        }
    }
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
    metrics::histogram!(REQUEST_DURATION,
        "http_request_method" => method,
        "http_route" => route,
        "http_response_status_code" => status.to_string(),
    )
    .record(took);
    response
}
