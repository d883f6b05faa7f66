//! Sends the traces of runs and the metrics to an OpenTelemetry collector, as OTLP over HTTP.
//!
//! A trace is sent when its run ends. The queue never delays a run: if the collector is away for long, the traces that do not fit are
//! dropped and counted.

mod exposition;

use std::{sync::Arc, time::Duration};

use backon::{ExponentialBuilder, Retryable};
use fermata_engine::{
    trace::{RunTrace, TraceSpan, TraceValue, Traces},
    version,
};
use jiff::Timestamp;
use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value},
    metrics::v1::{ResourceMetrics, ScopeMetrics},
    resource::v1::Resource,
    trace::v1::{
        ResourceSpans, ScopeSpans, Span, Status,
        span::{Link, SpanKind},
        status::StatusCode,
    },
};
use prost::Message;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret;
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{TelemetrySettings, Url},
    hex,
};

/// The exporter of traces.
pub struct Telemetry {
    task: std::sync::Mutex<Option<JoinHandle<()>>>,
    closed: CancellationToken,
}

/// The exporter, and the way into its queue.
pub type Started = (Telemetry, Arc<dyn Traces>);

/// Puts traces into the queue.
struct Queue {
    traces: mpsc::Sender<RunTrace>,
    has_content: bool,
}

/// The way to the collector.
struct Collector {
    http: reqwest::Client,
    endpoint: String,
    headers: HeaderMap,
    resource: Resource,
}

/// Sends the metrics from time to time.
pub struct MetricsExporter {
    collector: Collector,
    interval: Duration,
    started: u64,
}

/// The number of traces that wait for the collector.
const QUEUE: usize = 1024;
/// The most traces in a request.
const BATCH: usize = 64;
/// The time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The time that the queue has to empty when the server ends.
const LAST_TRACES: Duration = Duration::from_secs(5);
/// The number of traces that were dropped.
pub const TRACES_LOST: &str = "fermata_traces_lost_total";

/// The reason why runs cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// A header is not one.
    #[error("otel_headers must be name=value,name=value")]
    Headers,
    /// There is no client.
    #[error("the client for the collector cannot be built")]
    Client(#[from] reqwest::Error),
}

// === impl Telemetry ===

impl Telemetry {
    /// Starts to export, if the settings name a collector. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the settings cannot be used.
    pub fn start(settings: &TelemetrySettings) -> Result<Option<Started>, TelemetryError> {
        let Some(collector) = Collector::of(settings)? else { return Ok(None) };
        let (traces, received) = mpsc::channel(QUEUE);
        let closed = CancellationToken::new();
        let task = tokio::spawn(collector.export(received, closed.clone()));
        let queue = Queue { traces, has_content: settings.otel_content };
        Ok(Some((Self { task: Some(task).into(), closed }, Arc::new(queue))))
    }

    /// Sends the traces that wait, and ends.
    pub async fn close(&self) {
        self.closed.cancel();
        let task = self.task.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(task) = task {
            let _ = tokio::time::timeout(LAST_TRACES, task).await;
        }
    }
}

impl Traces for Queue {
    fn run_ended(&self, trace: RunTrace) {
        if self.traces.try_send(trace).is_err() {
            metrics::counter!(TRACES_LOST).increment(1);
        }
    }

    fn has_content(&self) -> bool {
        self.has_content
    }
}

// === impl Collector ===

impl Collector {
    fn of(settings: &TelemetrySettings) -> Result<Option<Self>, TelemetryError> {
        let Some(Url(endpoint)) = &settings.otel_endpoint else { return Ok(None) };
        Ok(Some(Self {
            // The environment may name a proxy for the Internet. A collector is nearer.
            http: reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build()?,
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            headers: headers(settings)?,
            resource: resource(&settings.otel_service),
        }))
    }

    async fn export(self, mut received: mpsc::Receiver<RunTrace>, closed: CancellationToken) {
        let mut is_away = false;
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                biased;
                count = received.recv_many(&mut batch, BATCH) => if count == 0 { return },
                // The queue is empty.
                () = closed.cancelled() => return,
            }
            let count = batch.len();
            let request = self.request(batch).encode_to_vec();
            let send = || self.send("/v1/traces", request.clone());
            let sent = send.retry(ExponentialBuilder::default()).when(|_| !closed.is_cancelled()).await;
            match sent {
                Ok(()) if is_away => {
                    tracing::info!(url = self.endpoint, "the OpenTelemetry collector takes traces again")
                }
                Ok(()) => {}
                Err(error) => {
                    metrics::counter!(TRACES_LOST).increment(count as u64);
                    if !is_away {
                        tracing::warn!(
                            url = self.endpoint, %error,
                            "the OpenTelemetry collector takes no traces, which are dropped (OTEL_EXPORTER_OTLP_ENDPOINT must take OTLP over HTTP, \
                             mostly at port 4318)"
                        );
                    }
                    is_away = true;
                    continue;
                }
            }
            is_away = false;
        }
    }

    async fn send(&self, path: &str, body: Vec<u8>) -> Result<(), reqwest::Error> {
        let request = self.http.post(format!("{}{path}", self.endpoint)).headers(self.headers.clone());
        let response = request.header(CONTENT_TYPE, "application/x-protobuf").body(body).send().await;
        response.and_then(reqwest::Response::error_for_status).map(drop).map_err(reqwest::Error::without_url)
    }

    fn request(&self, traces: Vec<RunTrace>) -> ExportTraceServiceRequest {
        let spans = traces.into_iter().flat_map(|RunTrace { id, spans, caller }| {
            let link = caller.as_deref().and_then(link);
            spans.into_iter().enumerate().map(move |(place, span)| {
                let links = if place == 0 { link.clone().into_iter().collect() } else { Vec::new() };
                Span { links, ..span_of(id, span) }
            })
        });
        let scope_spans =
            ScopeSpans { scope: Some(scope()), spans: spans.collect(), ..ScopeSpans::default() };
        let resource = Some(self.resource.clone());
        let spans = ResourceSpans { resource, scope_spans: vec![scope_spans], ..ResourceSpans::default() };
        ExportTraceServiceRequest { resource_spans: vec![spans] }
    }
}

// === impl MetricsExporter ===

impl MetricsExporter {
    /// Returns an exporter, if the settings name a collector.
    ///
    /// # Errors
    /// Returns an error if the settings cannot be used.
    pub fn of(settings: &TelemetrySettings) -> Result<Option<Self>, TelemetryError> {
        let (interval, started) = (settings.otel_interval.0, nanoseconds(Timestamp::now()));
        Ok(Collector::of(settings)?.map(|collector| Self { collector, interval, started }))
    }

    /// Sends what `render` returns, in the format of Prometheus, until the server shuts down, and once more then.
    pub async fn run(self, render: impl Fn() -> String, shutdown: CancellationToken) {
        loop {
            let goes_on = shutdown.run_until_cancelled(tokio::time::sleep(self.interval)).await.is_some();
            let metrics = exposition::metrics(&render(), self.started, nanoseconds(Timestamp::now()));
            let scope_metrics = ScopeMetrics { scope: Some(scope()), metrics, ..ScopeMetrics::default() };
            let resource = Some(self.collector.resource.clone());
            let resource_metrics = ResourceMetrics {
                resource,
                scope_metrics: vec![scope_metrics],
                ..ResourceMetrics::default()
            };
            let request = ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] };
            // The next ones have all that these have. A collector that is away is in the log for its traces.
            if let Err(error) = self.collector.send("/v1/metrics", request.encode_to_vec()).await {
                tracing::debug!(%error, "the OpenTelemetry collector takes no metrics");
            }
            if !goes_on {
                return;
            }
        }
    }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "fermata".to_owned(),
        version: version().to_owned(),
        ..InstrumentationScope::default()
    }
}

fn span_of(trace: [u8; 16], span: TraceSpan) -> Span {
    let TraceSpan { id, parent, name, started, ended, mut attributes, error } = span;
    let kind = if name.starts_with("chat ") { SpanKind::Client } else { SpanKind::Internal };
    let status =
        error.as_ref().map(|error| Status { message: error.clone(), code: StatusCode::Error.into() });
    if let Some(error) = error {
        attributes.push(("error.type", TraceValue::Text(error)));
    }
    Span {
        trace_id: trace.to_vec(),
        span_id: id.to_vec(),
        parent_span_id: parent.map(|id| id.to_vec()).unwrap_or_default(),
        name,
        kind: kind.into(),
        start_time_unix_nano: nanoseconds(started),
        end_time_unix_nano: nanoseconds(ended),
        attributes: attributes.into_iter().map(|(key, value)| attribute(key, value)).collect(),
        status,
        // The trace is sampled.
        flags: 1,
        ..Span::default()
    }
}

fn text_attribute(key: &str, text: String) -> KeyValue {
    attribute(key, TraceValue::Text(text))
}

fn attribute(key: &str, value: TraceValue) -> KeyValue {
    let value = match value {
        TraceValue::Text(text) => Value::StringValue(text),
        TraceValue::Number(number) => Value::IntValue(number),
    };
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// Returns a link to the span that a header `traceparent` names.
fn link(traceparent: &str) -> Option<Link> {
    let mut parts = traceparent.split('-').skip(1);
    Some(Link {
        trace_id: hex::decode(parts.next()?)?,
        span_id: hex::decode(parts.next()?)?,
        ..Link::default()
    })
}

fn nanoseconds(time: Timestamp) -> u64 {
    u64::try_from(time.as_nanosecond()).unwrap_or(0)
}

fn resource(service: &str) -> Resource {
    let attributes = vec![
        text_attribute("service.name", service.to_owned()),
        text_attribute("service.version", version().to_owned()),
    ];
    Resource { attributes, ..Resource::default() }
}

/// Reads `name=value,name=value`.
fn headers(settings: &TelemetrySettings) -> Result<HeaderMap, TelemetryError> {
    let Some(text) = &settings.otel_headers else { return Ok(HeaderMap::new()) };
    let pairs = text.0.expose_secret().split(',').filter(|pair| !pair.trim().is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').ok_or(TelemetryError::Headers)?;
            let name: HeaderName = name.trim().parse().map_err(|_| TelemetryError::Headers)?;
            let mut value: HeaderValue = value.trim().parse().map_err(|_| TelemetryError::Headers)?;
            value.set_sensitive(true);
            Ok((name, value))
        })
        .collect()
}
