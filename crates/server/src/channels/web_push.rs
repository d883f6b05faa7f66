//! Web Push: notifications in the browsers of people who may decide now, which disappear once the approval is settled.
//!
//! A push service is the browser's own, so requests go to public addresses only. It cannot read what it passes on (`message.rs`), and knows
//! this server by a signature (`vapid.rs`).

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use axum::http::StatusCode;
use fermata_engine::{
    Approval,
    store::{Notice, NoticeEvent},
};
use fermata_store::{ChannelRecords, PushDevice};
use fermata_tools::{HostName, Principal};
use jiff::Timestamp;
use reqwest::header;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use url::Url;

use super::{
    ApprovalDesk, ApprovalNews, Channel, SendError, Sending, Shared, news, post_to, send_all, words,
};
use crate::tools::web::{WebClient, failure};

mod message;
mod vapid;

pub use vapid::{PushKey, PushKeyError};

use message::Subscription;

/// A channel of push notifications.
pub struct WebPush {
    name: String,
    records: ChannelRecords,
    shared: Shared,
    client: WebClient,
    /// The key of this deployment, once it was read.
    key: Arc<OnceCell<PushKey>>,
}

/// A device, with the approval as its user sees it.
struct Receiver {
    device: PushDevice,
    approval: Approval,
}

/// The time that a request to a push service may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a push service keeps a notification for a device that is away, in seconds.
const TIME_TO_LIVE: u32 = 24 * 60 * 60;
/// The lengths of the texts in a notification, in characters. A push service takes 4096 bytes.
const TITLE: usize = 120;
const BODY: usize = 400;
/// The longest endpoint, in bytes.
const LONGEST_ENDPOINT: usize = 2000;

// === impl WebPush ===

impl WebPush {
    pub fn new(
        name: &str,
        records: ChannelRecords,
        shared: Shared,
        client: WebClient,
        key: Arc<OnceCell<PushKey>>,
    ) -> Self {
        Self { name: name.to_owned(), records, shared, client, key }
    }

    async fn request(
        &self,
        notice: &Notice,
        approval: &Approval,
        desk: &dyn ApprovalDesk,
    ) -> Result<(), SendError> {
        let sent = self.records.messages(&self.name, &approval.id).await?;
        let receivers = self.receivers(approval, desk).await?;
        let mut sending: Vec<Sending<'_>> = Vec::new();
        for receiver in &receivers {
            let known = sent.iter().find(|message| message.recipient == receiver.device.endpoint);
            if known.is_none_or(|known| known.reference != notice.id) {
                sending.push(Box::pin(self.notify(notice, receiver, known.is_some())));
            }
        }
        send_all(sending).await
    }

    /// Shows an approval on a device.
    async fn notify(
        &self,
        notice: &Notice,
        Receiver { device, approval }: &Receiver,
        is_known: bool,
    ) -> Result<(), SendError> {
        let public_url = self.shared.public_url();
        let payload = json!({
            "type": notice.event,
            "id": approval.id,
            "inputHash": approval.input_hash,
            "title": words::shortened(&words::heading(notice.event, approval), TITLE),
            "body": words::shortened(approval.description.as_deref().unwrap_or(&approval.input_text), BODY),
            "url": words::inbox(public_url.as_deref(), approval),
        });
        // If the process ends before the notification is noted as sent, it is closed all the same.
        if !is_known {
            self.note(approval, device, &Value::Null).await?;
        }
        self.push(device, &payload).await?;
        self.note(approval, device, &json!(notice.id)).await
    }

    async fn note(
        &self,
        approval: &Approval,
        device: &PushDevice,
        reference: &Value,
    ) -> Result<(), SendError> {
        let at = Timestamp::now();
        Ok(self.records.note_message(&self.name, &approval.id, &device.endpoint, reference, at).await?)
    }

    /// Closes the notifications about an approval.
    async fn settle(&self, approval: &Approval) -> Result<(), SendError> {
        let sent = self.records.messages(&self.name, &approval.id).await?;
        let devices = self.records.devices().await?;
        let payload = json!({
            "type": NoticeEvent::ApprovalSettled,
            "id": approval.id,
            "title": words::shortened(words::title(approval), TITLE),
            "body": words::shortened(&words::outcome(approval).unwrap_or_default(), BODY),
        });
        let mut sending: Vec<Sending<'_>> = Vec::new();
        for device in &devices {
            if sent.iter().any(|message| message.recipient == device.endpoint) {
                sending.push(Box::pin(self.push(device, &payload)));
            }
        }
        send_all(sending).await?;
        Ok(self.records.delete_messages(&self.name, &approval.id).await?)
    }

    /// Returns the devices of people who may decide about an approval now, and have not approved it yet.
    async fn receivers(
        &self,
        approval: &Approval,
        desk: &dyn ApprovalDesk,
    ) -> Result<Vec<Receiver>, SendError> {
        let devices = self.records.devices().await?;
        let principals: Vec<Principal> = devices.iter().map(PushDevice::principal).collect();
        let seen = desk.approval_for_deciders(&principals, &approval.id).await?;
        let receivers = devices
            .into_iter()
            .zip(seen)
            .filter_map(|(device, approval)| Some(Receiver { device, approval: approval? }));
        Ok(receivers.collect())
    }

    /// Sends a message to a device. A device that its push service does not know any more is deleted.
    async fn push(&self, device: &PushDevice, payload: &Value) -> Result<(), SendError> {
        let subscription = Subscription::read(&device.subscription);
        let Some(subscription) = subscription else {
            return Ok(self.records.drop_device(&device.endpoint).await?);
        };
        let Ok(url) = Url::parse(&device.endpoint) else {
            return Ok(self.records.drop_device(&device.endpoint).await?);
        };
        let key = self.key.get_or_try_init(|| PushKey::kept(&self.records)).await?;
        let contact = self.shared.public_url();
        let authorization = key.authorization(&url, contact.as_deref(), Timestamp::now())?;
        let body = subscription
            .encrypt(payload.to_string().as_bytes())
            .map_err(|_| SendError::Refused("a message cannot be encrypted for the device".into()))?;
        let request = post_to(&self.client, &url)?;
        let request = request
            .header("ttl", TIME_TO_LIVE)
            .header("urgency", "high")
            .header(header::CONTENT_ENCODING, "aes128gcm")
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .header(header::AUTHORIZATION, authorization)
            .timeout(TIMEOUT)
            .body(body);
        match request.send().await {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) if matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::GONE) => {
                Ok(self.records.drop_device(&device.endpoint).await?)
            }
            Ok(response) => {
                Err(SendError::Failed(format!("the push service answered {}", response.status())))
            }
            Err(error) => Err(SendError::Failed(failure(&error).text)),
        }
    }
}

#[async_trait]
impl Channel for WebPush {
    async fn send(&self, notice: &Notice, desk: &dyn ApprovalDesk) -> Result<(), SendError> {
        match news(notice, desk).await? {
            Some(ApprovalNews::Waits(approval)) => self.request(notice, &approval, desk).await,
            Some(ApprovalNews::Settled(approval)) => self.settle(&approval).await,
            None => Ok(()),
        }
    }
}

/// Returns the endpoint of a subscription.
///
/// # Errors
/// Returns the reason why nothing is sent there.
pub fn endpoint(subscription: &Value, is_private: bool) -> Result<String, &'static str> {
    let keys = Subscription::read(subscription).ok_or("it has no keys p256dh and auth")?;
    if keys.encrypt(b"").is_err() {
        return Err("its key p256dh is not a public key");
    }
    let endpoint = subscription["endpoint"].as_str().ok_or("it has no endpoint")?;
    let url = Url::parse(endpoint).map_err(|_| "its endpoint is not a URL")?;
    let is_public = url.scheme() == "https" && HostName::of_url(&url).is_some_and(|host| host.is_public());
    if endpoint.len() <= LONGEST_ENDPOINT && (is_public || is_private) {
        Ok(endpoint.to_owned())
    } else {
        Err("its endpoint is not an https URL of a push service on the Internet")
    }
}

#[cfg(test)]
mod tests;
