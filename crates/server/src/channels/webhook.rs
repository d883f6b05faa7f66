//! A service that receives events, as Standard Webhooks describes it.

use async_trait::async_trait;
use fermata_engine::store::Notice;

use super::{ApprovalDesk, Channel, SendError, endpoint::SignedEndpoint};
use crate::{config::Endpoint, tools::web::WebClient};

/// A webhook.
pub struct Webhook(SignedEndpoint);

// === impl Webhook ===

impl Webhook {
    pub fn new(endpoint: Endpoint, client: WebClient) -> Self {
        Self(SignedEndpoint::new(endpoint, client))
    }
}

#[async_trait]
impl Channel for Webhook {
    async fn send(&self, notice: &Notice, _: &dyn ApprovalDesk) -> Result<(), SendError> {
        self.0.post(notice).await.map(drop)
    }
}
