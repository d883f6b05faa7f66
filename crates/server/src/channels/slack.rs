//! Slack: one message for each approval, with buttons, which becomes the outcome.
//!
//! Invariants: a click counts only if Slack has signed it, and as the user that the settings name for the Slack account. Text of models and
//! strangers is escaped, so it can neither mention people nor make links.

use std::time::Duration;

use async_trait::async_trait;
use fermata_engine::{
    Approval, VoteError,
    store::{Notice, NoticeEvent},
};
use fermata_protocol::{ApprovalId, PostedVote};
use fermata_store::ChannelRecords;
use fermata_tools::{Decider, DecisionChannel, Owner};
use jiff::Timestamp;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::timeout;
use url::Url;

use super::{
    ApprovalDesk, ApprovalNews, Channel, Incoming, ReceiveError, Reply, SendError, Shared, news, post_to,
    words,
};
use crate::{
    config::SlackSettings,
    tools::web::{WebClient, failure},
};

mod blocks;
mod interaction;

use interaction::{Click, Interaction};

/// A channel of Slack.
pub struct Slack {
    name: String,
    settings: SlackSettings,
    records: ChannelRecords,
    shared: Shared,
    client: WebClient,
}

/// A message, as Slack names it.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct MessageRef {
    channel: String,
    ts: String,
}

/// The answer of Slack's API.
#[derive(Deserialize)]
struct ApiAnswer {
    ok: bool,
    error: Option<String>,
    channel: Option<String>,
    ts: Option<String>,
}

/// The time that a request to Slack may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The time until a click is answered. Slack waits for three seconds, and shows a failure then.
const CLICK_TIMEOUT: Duration = Duration::from_millis(2500);
/// The host of the URLs where clicks are answered.
const RESPONSE_HOST: &str = "hooks.slack.com";

// === impl Slack ===

impl Slack {
    pub fn new(
        name: &str,
        settings: SlackSettings,
        records: ChannelRecords,
        shared: Shared,
        client: WebClient,
    ) -> Self {
        Self { name: name.to_owned(), settings, records, shared, client }
    }

    /// Brings an approval that waits to the channel.
    async fn request(&self, event: NoticeEvent, approval: &Approval) -> Result<(), SendError> {
        let blocks =
            blocks::waiting(approval, words::inbox(self.shared.public_url().as_deref(), approval).as_deref());
        let text = blocks::escaped(&words::heading(event, approval), blocks::TEXT);
        match self.message(&approval.id).await? {
            None => {
                let body = json!({"channel": self.settings.channel, "text": text, "blocks": blocks, "unfurl_links": false});
                let sent = self.call("chat.postMessage", &body).await?;
                let (Some(channel), Some(ts)) = (sent.channel, sent.ts) else {
                    return Err(SendError::Failed(
                        "Slack has not named the message that it has posted".into(),
                    ));
                };
                let (reference, at) = (json!(MessageRef { channel, ts }), Timestamp::now());
                self.records.note_message(&self.name, &approval.id, "", &reference, at).await?;
            }
            // It was edited, or the result of an earlier attempt was not saved.
            Some(MessageRef { channel, ts }) if event == NoticeEvent::ApprovalRequested => {
                self.call(
                    "chat.update",
                    &json!({"channel": channel, "ts": ts, "text": text, "blocks": blocks}),
                )
                .await?;
            }
            Some(MessageRef { channel, ts }) => {
                let body =
                    json!({"channel": channel, "thread_ts": ts, "reply_broadcast": true, "text": text});
                self.call("chat.postMessage", &body).await?;
            }
        }
        Ok(())
    }

    /// Replaces the message about an approval by its outcome.
    async fn settle(&self, approval: &Approval) -> Result<(), SendError> {
        if let Some(MessageRef { channel, ts }) = self.message(&approval.id).await? {
            let text = words::outcome(approval).unwrap_or_default();
            let text = blocks::escaped(&format!("{}: {text}", words::title(approval)), blocks::TEXT);
            let blocks = blocks::settled(approval);
            self.call("chat.update", &json!({"channel": channel, "ts": ts, "text": text, "blocks": blocks}))
                .await?;
        }
        Ok(self.records.delete_messages(&self.name, &approval.id).await?)
    }

    async fn message(&self, id: &ApprovalId) -> Result<Option<MessageRef>, SendError> {
        let sent = self.records.messages(&self.name, id).await?;
        let Some(sent) = sent.into_iter().next() else { return Ok(None) };
        match serde_json::from_value(sent.reference) {
            Ok(message) => Ok(Some(message)),
            Err(error) => Err(SendError::Refused(format!("the saved message cannot be read: {error}"))),
        }
    }

    /// Calls a method of Slack's API.
    async fn call(&self, method: &str, body: &Value) -> Result<ApiAnswer, SendError> {
        let url = Url::parse(&format!("{}/api/{method}", self.settings.base_url.0));
        let url = url.map_err(|_| SendError::Refused("base_url cannot be used".into()))?;
        let request = post_to(&self.client, &url)?;
        let request = request.bearer_auth(self.settings.token.0.expose_secret()).json(body).timeout(TIMEOUT);
        let response = request.send().await.map_err(|error| SendError::Failed(failure(&error).text))?;
        if !response.status().is_success() {
            return Err(SendError::Failed(format!("{method} of Slack answered {}", response.status())));
        }
        let answer: ApiAnswer =
            response.json().await.map_err(|error| SendError::Failed(failure(&error).text))?;
        match answer {
            ApiAnswer { ok: true, .. } => Ok(answer),
            ApiAnswer { error, .. } => {
                let error = error.unwrap_or_else(|| "no reason".into());
                Err(SendError::Failed(format!("{method} of Slack failed: {}", words::shortened(&error, 100))))
            }
        }
    }

    /// Counts a click, and answers it if the message itself does not show the result.
    async fn decide(&self, interaction: Interaction, click: Click, desk: &dyn ApprovalDesk) {
        let answer = match self.settings.users.get(&interaction.user) {
            Some(user) => self.vote(user, &click, desk).await,
            None => Some("Your Slack account belongs to no user here. An operator can add it to the table users of the channel.".into()),
        };
        if let Some(text) = answer
            && let Err(error) = self.tell(&interaction, &text).await
        {
            tracing::info!(channel = self.name, %error, "a click in Slack was not answered");
        }
    }

    /// Votes as a user. Returns the answer to the click; `None` if the message itself shows the result.
    async fn vote(&self, user: &str, click: &Click, desk: &dyn ApprovalDesk) -> Option<String> {
        let by = Decider::new(Owner::new(user), DecisionChannel::Slack, None);
        let vote = PostedVote {
            approved: click.approves,
            reason: None,
            input: None,
            input_hash: Some(click.input_hash.clone()),
        };
        match desk.vote(by, &click.approval, vote).await {
            Ok(approval) if words::outcome(&approval).is_some() => None,
            Ok(approval) => Some(format!("Your vote was counted. {}", words::terms(&approval))),
            Err(VoteError::NotFound) => Some("You may not decide about this call.".into()),
            Err(VoteError::NotYours(detail)) => Some(detail),
            Err(VoteError::AlreadyAnswered(approval)) => {
                Some(format!("It is too late. {}.", words::outcome(&approval).unwrap_or_default()))
            }
            Err(VoteError::Changed(_)) => {
                Some("The input of this call has changed. Look at the message again.".into())
            }
            Err(VoteError::Refused(reason)) => Some(reason.to_string()),
            Err(VoteError::Unavailable(reason)) => {
                tracing::warn!(channel = self.name, approval = %click.approval, "a click in Slack was not counted: {reason}");
                Some("Your click could not be counted. Try again in a moment.".into())
            }
        }
    }

    /// Sends a text that only the person who has clicked sees.
    async fn tell(&self, interaction: &Interaction, text: &str) -> Result<(), SendError> {
        let text = blocks::escaped(text, blocks::TEXT);
        if let Some(url) = &interaction.response_url
            && self.is_slack(url)
        {
            let request = post_to(&self.client, url)?;
            let body = json!({"response_type": "ephemeral", "replace_original": false, "text": text});
            let sent = request.json(&body).timeout(TIMEOUT).send().await;
            return match sent {
                Ok(response) if response.status().is_success() => Ok(()),
                Ok(response) => Err(SendError::Failed(format!("Slack answered {}", response.status()))),
                Err(error) => Err(SendError::Failed(failure(&error).text)),
            };
        }
        let Some(channel) = &interaction.channel else { return Ok(()) };
        let body = json!({"channel": channel, "user": interaction.user, "text": text});
        self.call("chat.postEphemeral", &body).await.map(drop)
    }

    /// Returns whether a URL is one of Slack's, so that nobody can have this server send requests elsewhere.
    fn is_slack(&self, url: &Url) -> bool {
        let base = Url::parse(&self.settings.base_url.0).ok();
        let is_base = base.is_some_and(|base| base.origin() == url.origin());
        is_base || (url.scheme() == "https" && url.host_str() == Some(RESPONSE_HOST) && url.port().is_none())
    }
}

#[async_trait]
impl Channel for Slack {
    async fn send(&self, notice: &Notice, desk: &dyn ApprovalDesk) -> Result<(), SendError> {
        match news(notice, desk).await? {
            Some(ApprovalNews::Waits(approval)) => self.request(notice.event, &approval).await,
            Some(ApprovalNews::Settled(approval)) => self.settle(&approval).await,
            None => Ok(()),
        }
    }

    async fn receive(&self, request: Incoming, desk: &dyn ApprovalDesk) -> Result<Reply, ReceiveError> {
        let secret = self.settings.signing_secret.0.expose_secret();
        let interaction = Interaction::read(&request, secret, Timestamp::now())?;
        // Other clicks, such as those on links, decide nothing.
        if let Some(click) = interaction.click()
            && timeout(CLICK_TIMEOUT, self.decide(interaction, click, desk)).await.is_err()
        {
            tracing::warn!(channel = self.name, "a click in Slack took too long, so it may not have counted");
        }
        Ok(Reply::Done)
    }
}

#[cfg(test)]
mod tests;
