//! Health checks, metrics and the API description, for operators and their machines.

use axum::{
    Extension, Json,
    body::Bytes,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
};
use serde_json::json;
use utoipa::openapi::OpenApi;

use super::schema::without_optional_nulls;
use crate::{
    App,
    drain::DrainStatus,
    error::{ApiError, Problem},
};

/// The content of `/openapi.json`, encoded once.
#[derive(Clone)]
pub struct Description(Bytes);

impl Description {
    /// Encodes an API description.
    pub fn of(description: OpenApi) -> Self {
        let mut description = json!(description);
        without_optional_nulls(&mut description);
        Self(description.to_string().into())
    }
}

/// Checks whether the process works. If it does not, start it again.
#[utoipa::path(get, path = "/healthz", operation_id = "health", tag = "operators", security(()), responses(
    (status = 200, description = "The process works", body = String, content_type = "text/plain"),
    (status = 503, description = "`unavailable`: nothing could be written for minutes", body = Problem, content_type = "application/problem+json"),
))]
pub async fn healthz(State(app): State<App>) -> Result<&'static str, ApiError> {
    app.engine().healthy().await?;
    Ok("ok\n")
}

/// Checks whether the server is ready for requests. Lines after the first name faults that do not keep it from serving.
#[utoipa::path(get, path = "/readyz", operation_id = "ready", tag = "operators", security(()), responses(
    (status = 200, description = "The server is ready", body = String, content_type = "text/plain"),
    (status = 503, description = "`unavailable`: the database fails, or the server is shutting down", body = Problem, content_type = "application/problem+json"),
))]
pub async fn readyz(State(app): State<App>) -> Result<String, ApiError> {
    app.engine().ready().await?;
    let mut text = String::from("ready\n");
    for warning in app.engine().warnings() {
        text.push_str(&format!("warning: {warning}\n"));
    }
    Ok(text)
}

/// Returns metrics in the format of Prometheus.
///
/// If users are authenticated, the metrics are available only at the operators' own address, or with the operator's token.
#[utoipa::path(get, path = "/metrics", operation_id = "metrics", tag = "operators", security(()), responses(
    (status = 200, description = "Prometheus text", body = String, content_type = "text/plain"),
    (status = 401, description = "`unauthorized`: the operator's token is needed", body = Problem, content_type = "application/problem+json"),
    (status = 403, description = "`foreign_page`: the request came from a page of another site", body = Problem, content_type = "application/problem+json"),
    (status = 404, description = "`not_found`: the metrics are not available at this address", body = Problem, content_type = "application/problem+json"),
))]
pub async fn metrics(State(app): State<App>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], app.metrics_text())
}

/// Begins the same shutdown as a signal, without the end of the process: the server leaves and drains.
pub async fn drain(State(app): State<App>) -> (StatusCode, Json<DrainStatus>) {
    app.ask_to_drain();
    (StatusCode::ACCEPTED, Json(app.drain_status()))
}

/// Returns how far the end of the server is.
pub async fn drain_status(State(app): State<App>) -> Json<DrainStatus> {
    Json(app.drain_status())
}

/// Returns this API description.
#[utoipa::path(get, path = "/openapi.json", operation_id = "openapi", tag = "operators",
    responses((status = 200, description = "OpenAPI", body = serde_json::Value, content_type = "application/json")), security(())
)]
pub async fn openapi(Extension(Description(bytes)): Extension<Description>) -> impl IntoResponse {
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], bytes)
}
