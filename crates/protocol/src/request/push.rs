//! The bodies of `POST /api/push` and `DELETE /api/push`.

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{BodyError, Posted, json::read_value, read::read};

/// A browser that is to take notifications.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PushDeviceRequest {
    /// The subscription, as `PushSubscription.toJSON()` returns it.
    pub subscription: Map<String, Value>,
}

/// A browser that is to take no more notifications.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PushEndpointRequest {
    /// The endpoint of the subscription.
    pub endpoint: String,
}

impl Posted for PushDeviceRequest {
    fn from_json(json: &[u8]) -> Result<Self, BodyError> {
        Ok(read(read_value(json)?, "The body")?)
    }
}

impl Posted for PushEndpointRequest {
    fn from_json(json: &[u8]) -> Result<Self, BodyError> {
        Ok(read(read_value(json)?, "The body")?)
    }
}
