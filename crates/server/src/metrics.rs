//! Numbers for operators, as Prometheus reads them.
//!
//! Whoever has a number to tell uses the `metrics` facade; names that other crates use are described here, after
//! OpenTelemetry's conventions for HTTP and for generative AI. Labels are never taken from what a client sent, so that no
//! client can make the server remember more.

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

/// What the recorder of this process has recorded; nothing where the recorder is somebody else's.
#[derive(Clone)]
pub struct Metrics(Option<PrometheusHandle>);

const REQUEST_DURATION: &str = "http_server_request_duration_seconds";
const SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];
const TOKENS: &[f64] =
    &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0];

// === impl Metrics ===

impl Metrics {
    /// Records for the whole process, from now on; asked again, gives the same. A program that has a recorder
    /// of its own keeps it: it gets the numbers, and here there are none.
    ///
    /// # Errors
    /// Where the recorder cannot be built.
    pub fn install() -> Result<Self, BuildError> {
        // Held while installing: of two that begin at once, one must find what the other installed.
        static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = installed.as_ref() {
            return Ok(Self(Some(handle.clone())));
        }
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), SECONDS)?
            .set_buckets_for_metric(Matcher::Full("gen_ai_client_token_usage".into()), TOKENS)?
            .install_recorder();
        describe();
        match recorder {
            Ok(handle) => Ok(Self(Some(installed.insert(handle).clone()))),
            Err(BuildError::FailedToSetGlobalRecorder(_)) => Ok(Self(None)),
            Err(error) => Err(error),
        }
    }

    /// All numbers, as text.
    pub fn render(&self) -> String {
        self.0.as_ref().map(PrometheusHandle::render).unwrap_or_default()
    }

    /// Folds what was observed into its buckets; without it, observations pile up until somebody reads them.
    pub fn tidy(&self) {
        if let Some(handle) = &self.0 {
            handle.run_upkeep();
        }
    }
}

fn describe() {
    describe_histogram!(REQUEST_DURATION, Unit::Seconds, "Time until a response began.");
    describe_histogram!(
        "gen_ai_client_operation_duration_seconds",
        Unit::Seconds,
        "Time that one model call took."
    );
    describe_histogram!("gen_ai_client_token_usage", "Tokens of one model call, by type.");
    describe_gauge!("fermata_runs_open", "Runs at work or waiting in this process.");
    describe_gauge!("fermata_calls_parked", "Calls that wait for a browser or a person.");
    describe_counter!("fermata_runs_total", "Runs that ended, by outcome.");
}

/// Times every request, by route and status.
pub async fn observe(request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = method_label(request.method());
    let response = next.run(request).await;
    let route = route.as_ref().map_or("none", MatchedPath::as_str).to_owned();
    let (status, took) = (response.status().as_u16(), begun.elapsed());
    tracing::debug!(method, route, status, ?took, "answered a request");
    metrics::histogram!(REQUEST_DURATION,
        "http_request_method" => method,
        "http_route" => route,
        "http_response_status_code" => status.to_string(),
    )
    .record(took);
    response
}

fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "_OTHER",
    }
}
