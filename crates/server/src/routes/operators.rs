//! What operators and their machines ask.

use axum::{
    Extension,
    body::Bytes,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
};
use utoipa::openapi::OpenApi;

use crate::{
    App,
    error::{ApiError, Problem},
};

/// `/openapi.json`, encoded once.
#[derive(Clone)]
pub struct Description(Bytes);

impl Description {
    /// Encodes it.
    pub fn of(description: OpenApi) -> Self {
        // A description that does not encode is found by the test that reads it.
        Self(serde_json::to_vec(&description).unwrap_or_default().into())
    }
}

/// Whether the process lives.
#[utoipa::path(get, path = "/healthz", operation_id = "health", tag = "operators",
    responses((status = 200, description = "It does", body = String, content_type = "text/plain")), security(())
)]
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether requests can be served.
#[utoipa::path(get, path = "/readyz", operation_id = "ready", tag = "operators", security(()), responses(
    (status = 200, description = "They can", body = String, content_type = "text/plain"),
    (status = 503, description = "`unavailable`: the store fails, or the server is shutting down", body = Problem, content_type = "application/problem+json"),
))]
pub async fn readyz(State(app): State<App>) -> Result<&'static str, ApiError> {
    app.engine().ready().await?;
    Ok("ready\n")
}

/// Numbers, as Prometheus reads them.
///
/// Where owners are told apart they are shown at the operators' own address only, or to the operator's token.
#[utoipa::path(get, path = "/metrics", operation_id = "metrics", tag = "operators", security(()), responses(
    (status = 200, description = "Prometheus text", body = String, content_type = "text/plain"),
    (status = 401, description = "`unauthorized`: not without the operator's token", body = Problem, content_type = "application/problem+json"),
    (status = 403, description = "`foreign_page`: a page elsewhere asked", body = Problem, content_type = "application/problem+json"),
    (status = 404, description = "`not_found`: not at this address", body = Problem, content_type = "application/problem+json"),
))]
pub async fn metrics(State(app): State<App>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], app.metrics().render())
}

/// This description.
#[utoipa::path(get, path = "/openapi.json", operation_id = "openapi", tag = "operators",
    responses((status = 200, description = "OpenAPI", body = Object, content_type = "application/json")), security(())
)]
pub async fn openapi(Extension(Description(bytes)): Extension<Description>) -> impl IntoResponse {
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], bytes)
}
