//! Channels: how approvals and other events reach people and services, and how their decisions come back.
//!
//! A [`Channel`] sends notices of the outbox ([`Sender`]) and receives what people and services answer. It does not know rules or runs: it
//! reads and decides approvals through an [`ApprovalDesk`], which checks who may.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
};

use async_trait::async_trait;
use axum::http::HeaderMap;
use bytes::Bytes;
use fermata_engine::{
    Approval, VoteError,
    store::{Notice, NoticeEvent, StoreError},
};
use fermata_protocol::{ApprovalId, PostedVote};
use fermata_store::ChannelRecords;
use fermata_tools::{Decider, Principal};
use futures::{StreamExt, future::BoxFuture};
use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use tokio::sync::OnceCell;
use url::Url;

use crate::{
    config::{ChannelKind, ChannelSettings, Config},
    tools::web::WebClient,
};

mod deciding_service;
mod desk;
mod email;
mod endpoint;
mod html;
mod link_page;
mod sender;
mod shared;
mod signature;
mod slack;
mod web_push;
mod webhook;
mod words;

pub use desk::EngineDesk;
pub use email::{LinkError, LinkPage};
pub use link_page::POLICY as LINK_POLICY;
pub use sender::{FAILED, GIVEN_UP, OPEN, SENT, Sender};
pub use web_push::{PushKey, PushKeyError};

use deciding_service::DecidingService;
use email::Email;
use shared::Shared;
use slack::Slack;
use web_push::WebPush;
use webhook::Webhook;

/// A way to people or to a service.
#[async_trait]
pub trait Channel: Send + Sync {
    /// Sends a notice. It may be sent several times, so the receiver is given its id.
    ///
    /// # Errors
    /// Returns the reason why it was not sent, which decides whether it is tried again.
    async fn send(&self, notice: &Notice, desk: &dyn ApprovalDesk) -> Result<(), SendError>;

    /// Takes a request to the channel's own URL. The channel checks that the request comes from its service.
    ///
    /// # Errors
    /// Returns the reason why the request did nothing.
    async fn receive(&self, _: Incoming, _: &dyn ApprovalDesk) -> Result<Reply, ReceiveError> {
        Err(ReceiveError::NoSuchChannel)
    }

    /// Returns what the page of a one-time link shows. It changes nothing.
    ///
    /// # Errors
    /// Returns the reason why the link cannot be used.
    async fn show_link(&self, _: &str, _: &dyn ApprovalDesk) -> Result<LinkPage, LinkError> {
        Err(LinkError::Unknown)
    }

    /// Decides as a one-time link says.
    ///
    /// # Errors
    /// Returns the reason why the vote does not count.
    async fn use_link(
        &self,
        _: &str,
        _: Option<IpAddr>,
        _: &dyn ApprovalDesk,
    ) -> Result<LinkPage, LinkError> {
        Err(LinkError::Unknown)
    }
}

/// The approvals, for channels. A principal sees and decides what the rules allow.
#[async_trait]
pub trait ApprovalDesk: Send + Sync {
    /// Returns an approval as a service sees it; `None` if there is none.
    async fn approval(&self, id: &ApprovalId) -> Result<Option<Approval>, DeskError>;

    /// Returns an approval as a principal sees it, with `mayDecide`; `None` if there is none for that principal.
    async fn approval_for(
        &self,
        principal: &Principal,
        id: &ApprovalId,
    ) -> Result<Option<Approval>, DeskError>;

    /// Returns an approval as each of these principals sees it; `None` for those who may not decide about it now, or have approved it.
    async fn approval_for_deciders(
        &self,
        principals: &[Principal],
        id: &ApprovalId,
    ) -> Result<Vec<Option<Approval>>, DeskError>;

    /// Counts a vote.
    async fn vote(&self, by: Decider, id: &ApprovalId, vote: PostedVote) -> Result<Approval, VoteError>;
}

/// The reason why an approval cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DeskError {
    /// The database fails, or the instance with the chat cannot be reached.
    #[error("the approval cannot be read: {0}")]
    Unavailable(String),
}

/// The reason why a notice was not sent. The texts are for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// It may succeed later.
    #[error("{0}")]
    Failed(String),
    /// It can never succeed.
    #[error("{0}")]
    Refused(String),
}

/// A request to the URL of a channel.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The address that it comes from.
    pub address: Option<IpAddr>,
}

/// The answer to a request that a channel has taken.
#[derive(Debug)]
pub enum Reply {
    /// The approval after a vote.
    Approval(Box<Approval>),
    /// Nothing more to say.
    Done,
}

/// The reason why a request to a channel did nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// No channel of this name takes requests.
    #[error("No channel of this name takes requests.")]
    NoSuchChannel,
    /// The request does not come from the channel's service.
    #[error("The request is not accepted: {0}.")]
    Unsigned(#[from] signature::Unsigned),
    /// The body has another form.
    #[error("The body is not what the channel expects: {0}.")]
    BadBody(String),
    /// The vote does not count.
    #[error(transparent)]
    Vote(#[from] VoteError),
}

/// The reason why a browser cannot be registered for notifications.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// There is no channel for notifications.
    #[error("This server has no channel of kind web_push.")]
    NoChannel,
    /// The subscription cannot be used.
    #[error("`subscription` cannot be used: {0}.")]
    BadSubscription(&'static str),
    /// There is no key.
    #[error(transparent)]
    Key(#[from] PushKeyError),
}

/// The channels of the settings. Clones share them.
#[derive(Clone)]
pub struct Channels {
    current: Arc<RwLock<Arc<BTreeMap<String, Configured>>>>,
    clients: Clients,
    records: ChannelRecords,
    shared: Shared,
    /// The key for push services, once it was read.
    push_key: Arc<OnceCell<PushKey>>,
}

/// A channel with the settings that it was built from.
#[derive(Clone)]
struct Configured {
    settings: ChannelSettings,
    channel: Arc<dyn Channel>,
}

/// The news about an approval that a channel brings to people.
enum ApprovalNews {
    /// It waits.
    Waits(Approval),
    /// It is settled.
    Settled(Approval),
}

/// The sending to one of several receivers.
type Sending<'a> = BoxFuture<'a, Result<(), SendError>>;

/// The number of receivers of one notice that are sent to at the same time.
const AT_ONCE: usize = 4;

/// The HTTP clients of all channels.
#[derive(Clone)]
struct Clients {
    public: WebClient,
    private: WebClient,
}

// === impl Channels ===

impl Channels {
    /// Builds the channels of these settings.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up.
    pub fn build(config: &Config, records: ChannelRecords) -> Result<Self, reqwest::Error> {
        let clients = Clients { public: WebClient::new()?, private: WebClient::private()? };
        let channels = Self {
            current: Arc::default(),
            clients,
            records,
            shared: Shared::default(),
            push_key: Arc::default(),
        };
        channels.set(config);
        Ok(channels)
    }

    /// Replaces the channels by those of these settings. Channels whose settings are the same stay as they are.
    pub fn set(&self, config: &Config) {
        self.shared.set(config);
        let before = self.all();
        let next = config.tables.channels.iter().map(|(name, settings)| {
            let configured = match before.get(name) {
                Some(known) if known.settings == *settings => known.clone(),
                Some(_) | None => {
                    Configured { settings: settings.clone(), channel: self.build_one(name, settings) }
                }
            };
            (name.clone(), configured)
        });
        let next: BTreeMap<_, _> = next.collect();
        for name in next.keys() {
            sender::begin_at_zero(name);
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }

    #[cfg(test)]
    fn of(channels: BTreeMap<String, Arc<dyn Channel>>, store: &fermata_store::SqlStore) -> Self {
        let channels = channels.into_iter().map(|(name, channel)| {
            let settings = ChannelSettings { kind: ChannelKind::WebPush, private: false };
            (name, Configured { settings, channel })
        });
        let clients =
            Clients { public: WebClient::new().expect("TLS"), private: WebClient::private().expect("TLS") };
        let current = Arc::new(RwLock::new(Arc::new(channels.collect())));
        let (records, shared) = (store.channel_records(), Shared::default());
        Self { current, clients, records, shared, push_key: Arc::default() }
    }

    /// Returns the public key that browsers subscribe with.
    ///
    /// # Errors
    /// Returns an error if there is no channel for notifications, or if the database fails.
    pub async fn push_key(&self) -> Result<String, PushError> {
        self.takes_push()?;
        let key = self.push_key.get_or_try_init(|| PushKey::kept(&self.records)).await?;
        Ok(key.public())
    }

    /// Returns the endpoint of a subscription, if notifications may be sent there.
    ///
    /// # Errors
    /// Returns an error if there is no channel for notifications, or if the subscription cannot be used.
    pub fn push_endpoint(&self, subscription: &Value) -> Result<String, PushError> {
        let is_private = self.takes_push()?;
        web_push::endpoint(subscription, is_private).map_err(PushError::BadSubscription)
    }

    /// Returns whether one of the channels for notifications may connect to addresses that are not public.
    fn takes_push(&self) -> Result<bool, PushError> {
        let mut found = None;
        for Configured { settings, .. } in self.all().values() {
            if settings.kind == ChannelKind::WebPush {
                found = Some(settings.private || found == Some(true));
            }
        }
        found.ok_or(PushError::NoChannel)
    }

    /// Returns the channel of this name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Channel>> {
        self.all().get(name).map(|configured| configured.channel.clone())
    }

    fn all(&self) -> Arc<BTreeMap<String, Configured>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn build_one(&self, name: &str, settings: &ChannelSettings) -> Arc<dyn Channel> {
        let client = if settings.private { &self.clients.private } else { &self.clients.public };
        match &settings.kind {
            ChannelKind::Webhook { endpoint, .. } => Arc::new(Webhook::new(endpoint.clone(), client.clone())),
            ChannelKind::Decider(endpoint) => {
                Arc::new(DecidingService::new(name, endpoint.clone(), client.clone()))
            }
            ChannelKind::Slack(slack) => Arc::new(Slack::new(
                name,
                slack.clone(),
                self.records.clone(),
                self.shared.clone(),
                client.clone(),
            )),
            ChannelKind::Email(email) => Arc::new(Email::new(
                name,
                email.clone(),
                settings.private,
                self.records.clone(),
                self.shared.clone(),
            )),
            ChannelKind::WebPush => Arc::new(WebPush::new(
                name,
                self.records.clone(),
                self.shared.clone(),
                client.clone(),
                self.push_key.clone(),
            )),
        }
    }
}

/// Sends to several receivers, a few at a time, and returns a failure once all have been tried. If one of them may succeed later, the notice is
/// sent again, even if the others have refused it.
async fn send_all(sending: Vec<Sending<'_>>) -> Result<(), SendError> {
    let mut sent = futures::stream::iter(sending).buffer_unordered(AT_ONCE);
    let mut result = Ok(());
    while let Some(one) = sent.next().await {
        match one {
            Err(SendError::Failed(_)) => result = one,
            Err(SendError::Refused(_)) if result.is_ok() => result = one,
            Ok(()) | Err(SendError::Refused(_)) => {}
        }
    }
    result
}

/// Returns a request of a channel to this URL.
fn post_to(client: &WebClient, url: &Url) -> Result<RequestBuilder, SendError> {
    client.request(Method::POST, url).map_err(|reason| {
        SendError::Refused(format!("{reason} private = true in the table of the channel allows others."))
    })
}

/// Returns the approval of a notice as it is now; `None` if there is nothing to send, because a newer notice follows.
async fn news(notice: &Notice, desk: &dyn ApprovalDesk) -> Result<Option<ApprovalNews>, SendError> {
    let Some(id) = &notice.approval else {
        return Err(SendError::Refused("a channel of this kind sends approvals only".into()));
    };
    let Some(approval) = desk.approval(id).await? else { return Ok(None) };
    let is_settled = words::outcome(&approval).is_some();
    Ok(match (notice.event, is_settled) {
        (NoticeEvent::ApprovalSettled, true) => Some(ApprovalNews::Settled(approval)),
        // The notice of the outcome follows, or is late and the approval waits again.
        (NoticeEvent::ApprovalSettled, false) | (_, true) => None,
        (_, false) => Some(ApprovalNews::Waits(approval)),
    })
}

impl From<DeskError> for SendError {
    fn from(error: DeskError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<StoreError> for SendError {
    fn from(error: StoreError) -> Self {
        Self::Failed(format!("the database failed: {error}"))
    }
}

#[cfg(test)]
pub mod tests;
