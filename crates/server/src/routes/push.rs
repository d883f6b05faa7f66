//! The browsers of a user that take push notifications.

use axum::{Json, extract::State, http::StatusCode};
use fermata_protocol::{PushDeviceRequest, PushEndpointRequest};
use fermata_store::PushDevice;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::schema::refusals;
use crate::{
    App,
    auth::{Caller, Identity},
    error::{ApiError, Code, Problem},
    extract::ApiJson,
};

/// The key that a browser subscribes with.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PushKeyView {
    /// The `applicationServerKey` of a subscription, as base64url.
    public_key: String,
}

/// The number of browsers that a user may register.
const MOST: usize = 20;

/// Returns the key that a browser subscribes to notifications with.
#[utoipa::path(get, path = "/api/push", operation_id = "pushKey", tag = "channels", responses(
    (status = 200, description = "The public key", body = PushKeyView),
    (status = 404, description = "`not_found`: there is no channel of kind web_push", body = Problem, content_type = "application/problem+json"),
    refusals::Any,
))]
pub async fn key(State(app): State<App>, _: Identity) -> Result<Json<PushKeyView>, ApiError> {
    let public_key = app.channels().push_key().await?;
    Ok(Json(PushKeyView { public_key }))
}

/// Registers a browser for notifications about what the user may decide.
#[utoipa::path(post, path = "/api/push", operation_id = "addPushDevice", tag = "channels", request_body = PushDeviceRequest, responses(
    (status = 204, description = "The browser is registered"),
    (status = 404, description = "`not_found`: there is no channel of kind web_push", body = Problem, content_type = "application/problem+json"),
    refusals::Body,
))]
pub async fn add(
    State(app): State<App>,
    Caller(principal): Caller,
    ApiJson { body: PushDeviceRequest { subscription }, .. }: ApiJson<PushDeviceRequest>,
) -> Result<StatusCode, ApiError> {
    let subscription = Value::Object(subscription);
    let endpoint = app.channels().push_endpoint(&subscription)?;
    let device = PushDevice { endpoint, owner: principal.user, groups: principal.groups, subscription };
    if app.database().channel_records.put_device(&device, Timestamp::now(), MOST).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        let detail =
            format!("You have registered {MOST} browsers, and more are not possible; remove one first.");
        Err(ApiError::new(Code::InvalidRequest, detail))
    }
}

/// Has a browser take no more notifications.
#[utoipa::path(delete, path = "/api/push", operation_id = "removePushDevice", tag = "channels", request_body = PushEndpointRequest, responses(
    (status = 204, description = "The browser takes no more notifications"),
    (status = 404, description = "`not_found`: the user has no such browser", body = Problem, content_type = "application/problem+json"),
    refusals::Body,
))]
pub async fn remove(
    State(app): State<App>,
    Identity(owner): Identity,
    ApiJson { body: PushEndpointRequest { endpoint }, .. }: ApiJson<PushEndpointRequest>,
) -> Result<StatusCode, ApiError> {
    if app.database().channel_records.delete_device(&owner, &endpoint).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(ApiError::new(Code::NotFound, "No browser with this endpoint is registered for you."))
    }
}
