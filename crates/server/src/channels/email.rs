//! E-mail: a mail to each person who may decide now, and the outcome as a reply to it.
//!
//! The people are those of the table `users` who have an address. Groups that only a token proves are not known here.
//!
//! Invariants: a mail's `Message-ID` follows from the notice and the recipient, so a mail that is sent twice is shown once; a token of a link
//! is in the mail and nowhere else.

use std::time::Duration;

use async_trait::async_trait;
use fermata_engine::{Approval, store::Notice};
use fermata_store::{ChannelRecords, MailLink, SentMessage};
use fermata_tools::{Owner, Principal};
use jiff::Timestamp;
use lettre::message::Mailbox;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::timeout;

use super::{ApprovalDesk, ApprovalNews, Channel, SendError, Sending, Shared, news, send_all, words};
use crate::config::EmailSettings;

mod links;
mod mail;
mod server;

pub use links::{LinkError, LinkPage};

use links::Token;
use mail::{Letter, Links};
use server::MailServer;

/// A channel of e-mail.
pub struct Email {
    name: String,
    settings: EmailSettings,
    server: MailServer,
    records: ChannelRecords,
    shared: Shared,
}

/// A person who is sent a mail.
struct Recipient {
    user: Owner,
    mailbox: Mailbox,
    approval: Approval,
}

/// The mails that a person was sent about an approval.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Sent {
    /// The first mail, which the others reply to.
    message_id: String,
    /// The notice that was sent last; `None` while the first one is on its way.
    notice: Option<String>,
    user: Owner,
}

/// The time that one mail may take.
const TIMEOUT: Duration = Duration::from_secs(10);

// === impl Email ===

impl Email {
    pub fn new(
        name: &str,
        settings: EmailSettings,
        is_private: bool,
        records: ChannelRecords,
        shared: Shared,
    ) -> Self {
        let server = MailServer::new(settings.smtp.clone(), is_private);
        Self { name: name.to_owned(), settings, server, records, shared }
    }

    /// Sends a mail about an approval that waits to each person who may decide now.
    async fn request(
        &self,
        notice: &Notice,
        approval: &Approval,
        desk: &dyn ApprovalDesk,
    ) -> Result<(), SendError> {
        let sent = self.records.messages(&self.name, &approval.id).await?;
        let recipients = self.recipients(approval, desk).await?;
        let mut sending: Vec<Sending<'_>> = Vec::new();
        for recipient in &recipients {
            sending.push(Box::pin(self.send_one(notice, recipient, &sent)));
        }
        send_all(sending).await
    }

    async fn send_one(
        &self,
        notice: &Notice,
        recipient: &Recipient,
        sent: &[SentMessage],
    ) -> Result<(), SendError> {
        let address = recipient.mailbox.email.to_string();
        let before = sent_to(&address, sent);
        if before.as_ref().is_some_and(|before| before.is_about(notice)) {
            return Ok(());
        }
        let approval = &recipient.approval;
        let public_url = self.shared.public_url();
        let links = match public_url.as_deref() {
            Some(public_url) if self.settings.links => Some(self.links(public_url, recipient).await?),
            Some(_) | None => None,
        };
        let letter = Letter {
            from: self.settings.from.clone(),
            to: recipient.mailbox.clone(),
            message_id: self.message_id(&notice.id, &address),
            in_reply_to: before.as_ref().map(|before| before.message_id.clone()),
            heading: words::heading(notice.event, approval),
            approval,
            links: links.as_ref(),
            inbox: words::inbox(public_url.as_deref(), approval),
        };
        let mut sent = match before {
            Some(before) => before,
            None => {
                let user = recipient.user.clone();
                let first = Sent { message_id: letter.message_id.clone(), notice: None, user };
                // If the process ends before the mail is noted as sent, the outcome still follows it.
                self.note(approval, &address, &first).await?;
                first
            }
        };
        self.deliver(&letter).await?;
        sent.notice = Some(notice.id.clone());
        self.note(approval, &address, &sent).await
    }

    /// Replies to the mails about an approval with its outcome.
    async fn settle(&self, notice: &Notice, approval: &Approval) -> Result<(), SendError> {
        let sent = self.records.messages(&self.name, &approval.id).await?;
        let mut sending: Vec<Sending<'_>> = Vec::new();
        for message in &sent {
            sending.push(Box::pin(self.send_outcome(notice, approval, message)));
        }
        send_all(sending).await?;
        Ok(self.records.delete_messages(&self.name, &approval.id).await?)
    }

    async fn send_outcome(
        &self,
        notice: &Notice,
        approval: &Approval,
        message: &SentMessage,
    ) -> Result<(), SendError> {
        let address = &message.recipient;
        let Some(sent) = sent_to(address, std::slice::from_ref(message)) else { return Ok(()) };
        let Ok(mailbox) = address.parse() else { return Ok(()) };
        if sent.is_about(notice) {
            return Ok(());
        }
        let letter = Letter {
            from: self.settings.from.clone(),
            to: mailbox,
            message_id: self.message_id(&notice.id, address),
            in_reply_to: Some(sent.message_id.clone()),
            heading: format!("{}: {}", words::outcome(approval).unwrap_or_default(), words::title(approval)),
            approval,
            links: None,
            inbox: words::inbox(self.shared.public_url().as_deref(), approval),
        };
        self.deliver(&letter).await?;
        let done = Sent { notice: Some(notice.id.clone()), ..sent };
        self.note(approval, address, &done).await
    }

    async fn note(&self, approval: &Approval, address: &str, sent: &Sent) -> Result<(), SendError> {
        let (sent, at) = (json!(sent), Timestamp::now());
        Ok(self.records.note_message(&self.name, &approval.id, address, &sent, at).await?)
    }

    async fn deliver(&self, letter: &Letter<'_>) -> Result<(), SendError> {
        let message = letter
            .message()
            .map_err(|error| SendError::Refused(format!("the mail cannot be written: {error}")))?;
        match timeout(TIMEOUT, self.server.send(message)).await {
            Ok(sent) => sent,
            Err(_) => Err(SendError::Failed("the mail server did not answer in time".into())),
        }
    }

    /// Returns the people who may decide about an approval now, and have not approved it yet.
    async fn recipients(
        &self,
        approval: &Approval,
        desk: &dyn ApprovalDesk,
    ) -> Result<Vec<Recipient>, SendError> {
        let (mut people, mut principals) = (Vec::new(), Vec::new());
        for (name, person) in self.shared.people().iter() {
            let Some(address) = &person.email else { continue };
            let user = Owner::new(name);
            let Ok(mailbox) = address.parse::<Mailbox>() else {
                tracing::warn!(
                    channel = self.name,
                    user = name,
                    "the e-mail address of a user cannot be used"
                );
                continue;
            };
            principals.push(Principal::from(user.clone()));
            people.push((user, mailbox));
        }
        let seen = desk.approval_for_deciders(&principals, &approval.id).await?;
        let recipients = people
            .into_iter()
            .zip(seen)
            .filter_map(|((user, mailbox), approval)| Some(Recipient { user, mailbox, approval: approval? }));
        Ok(recipients.collect())
    }

    /// Makes the one-time links of a recipient.
    async fn links(&self, public_url: &str, recipient: &Recipient) -> Result<Links, SendError> {
        let mut urls = Vec::new();
        for approves in [true, false] {
            let token = Token::new()?;
            let link = MailLink {
                hash: token.hash(),
                channel: self.name.clone(),
                approval: recipient.approval.id.clone(),
                input_hash: recipient.approval.input_hash.clone(),
                recipient: recipient.user.clone(),
                approves,
            };
            self.records.add_link(&link, Timestamp::now()).await?;
            urls.push(format!("{public_url}/channels/{}/l/{}", self.name, token.as_str()));
        }
        let deny = urls.pop().unwrap_or_default();
        Ok(Links { approve: urls.pop().unwrap_or_default(), deny })
    }

    /// Returns the id of the mail to a recipient, which is the same in every attempt.
    fn message_id(&self, notice: &str, address: &str) -> String {
        let hash = fermata_tools::input_hash(&json!([notice, address]).into());
        format!("<{}@{}>", &hash[..32], self.settings.from.email.domain())
    }
}

#[async_trait]
impl Channel for Email {
    async fn send(&self, notice: &Notice, desk: &dyn ApprovalDesk) -> Result<(), SendError> {
        match news(notice, desk).await? {
            Some(ApprovalNews::Waits(approval)) => self.request(notice, &approval, desk).await,
            Some(ApprovalNews::Settled(approval)) => self.settle(notice, &approval).await,
            None => Ok(()),
        }
    }

    async fn show_link(&self, token: &str, desk: &dyn ApprovalDesk) -> Result<LinkPage, LinkError> {
        self.shown(token, desk).await
    }

    async fn use_link(
        &self,
        token: &str,
        address: Option<std::net::IpAddr>,
        desk: &dyn ApprovalDesk,
    ) -> Result<LinkPage, LinkError> {
        self.used(token, address, desk).await
    }
}

// === impl Sent ===

impl Sent {
    fn is_about(&self, notice: &Notice) -> bool {
        self.notice.as_ref() == Some(&notice.id)
    }
}

fn sent_to(address: &str, sent: &[SentMessage]) -> Option<Sent> {
    let message = sent.iter().find(|message| message.recipient == address)?;
    serde_json::from_value(message.reference.clone()).ok()
}

#[cfg(test)]
mod tests;
