//! One-time links in mails. A link shows the approval; only the form on its page decides.
//!
//! Invariants: a link decides as its recipient, about the input that the recipient was sent, and once; showing it changes nothing, because
//! scanners of mails follow links.

use std::net::IpAddr;

use aws_lc_rs::rand;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use fermata_engine::{Approval, VoteError, store::StoreError};
use fermata_protocol::PostedVote;
use fermata_store::MailLink;
use fermata_tools::{Decider, DecisionChannel, Principal, sha256};
use jiff::Timestamp;

use super::{Email, SendError};
use crate::channels::{ApprovalDesk, DeskError, words};

/// What the page of a link shows.
#[derive(Debug)]
pub enum LinkPage {
    /// The approval, and the question whether to decide like this.
    Ask {
        /// The approval.
        approval: Box<Approval>,
        /// `true` if the link approves.
        approves: bool,
    },
    /// The vote was counted.
    Counted(Box<Approval>),
}

/// The reason why a link does not decide.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LinkError {
    /// There is no such link, or its approval was deleted.
    #[error("This link is not valid.")]
    Unknown,
    /// The link was used.
    #[error("This link was used before. Each link works once.")]
    Used,
    /// The approval is settled.
    #[error("{}.", words::outcome(.0).unwrap_or_default())]
    Settled(Box<Approval>),
    /// The input has changed since the mail.
    #[error("The input of this call has changed since this mail was sent. A newer mail has the new input.")]
    Changed,
    /// The recipient may not decide any more.
    #[error("You may not decide about this call.")]
    NotYours,
    /// The rules do not allow it.
    #[error("{0}")]
    Refused(String),
    /// Something fails at the moment.
    #[error("The server cannot do this at the moment. Try again soon.")]
    Unavailable,
}

/// A random token of 256 bits.
pub struct Token(String);

// === impl Email ===

impl Email {
    /// Returns what the page of a link shows. It changes nothing.
    pub(super) async fn shown(&self, token: &str, desk: &dyn ApprovalDesk) -> Result<LinkPage, LinkError> {
        let (link, approval) = self.look_up(token, desk).await?;
        Ok(LinkPage::Ask { approval: Box::new(approval), approves: link.approves })
    }

    /// Decides as the link says.
    pub(super) async fn used(
        &self,
        token: &str,
        address: Option<IpAddr>,
        desk: &dyn ApprovalDesk,
    ) -> Result<LinkPage, LinkError> {
        let (link, _) = self.look_up(token, desk).await?;
        let by = Decider::new(link.recipient, DecisionChannel::Email, address);
        let vote = PostedVote {
            approved: link.approves,
            reason: None,
            input: None,
            input_hash: Some(link.input_hash),
        };
        match desk.vote(by, &link.approval, vote).await {
            Ok(approval) => {
                // After the vote, so that it is not lost if the process ends in between. The same vote twice counts once.
                self.records.use_link(&link.hash, Timestamp::now()).await?;
                Ok(LinkPage::Counted(Box::new(approval)))
            }
            Err(error) => {
                if let VoteError::Unavailable(reason) = &error {
                    tracing::warn!(channel = self.name, approval = %link.approval, "a vote by a link was not counted: {reason}");
                }
                Err(error.into())
            }
        }
    }

    /// Returns a link that can be used, and the approval as its recipient sees it.
    async fn look_up(&self, token: &str, desk: &dyn ApprovalDesk) -> Result<(MailLink, Approval), LinkError> {
        let hash = Token(token.to_owned()).hash();
        let (link, is_used) = self.records.link(&self.name, &hash).await?.ok_or(LinkError::Unknown)?;
        let recipient = Principal::from(link.recipient.clone());
        let approval = desk.approval_for(&recipient, &link.approval).await?.ok_or(LinkError::NotYours)?;
        if words::outcome(&approval).is_some() {
            return Err(LinkError::Settled(Box::new(approval)));
        }
        if is_used {
            return Err(LinkError::Used);
        }
        if approval.input_hash != link.input_hash {
            return Err(LinkError::Changed);
        }
        if approval.decision.may_decide != Some(true) {
            return Err(LinkError::NotYours);
        }
        Ok((link, approval))
    }
}

// === impl LinkError ===

impl From<StoreError> for LinkError {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "a link in a mail was not read");
        Self::Unavailable
    }
}

impl From<DeskError> for LinkError {
    fn from(error: DeskError) -> Self {
        tracing::warn!(%error, "a link in a mail was not read");
        Self::Unavailable
    }
}

impl From<VoteError> for LinkError {
    fn from(error: VoteError) -> Self {
        match error {
            VoteError::NotFound | VoteError::NotYours(_) => Self::NotYours,
            VoteError::AlreadyAnswered(approval) => Self::Settled(approval),
            VoteError::Changed(_) => Self::Changed,
            VoteError::Refused(reason) => Self::Refused(reason.to_string()),
            VoteError::Unavailable(_) => Self::Unavailable,
        }
    }
}

// === impl Token ===

impl Token {
    pub fn new() -> Result<Self, SendError> {
        let mut bytes = [0; 32];
        rand::fill(&mut bytes).map_err(|_| SendError::Failed("there are no random numbers".into()))?;
        Ok(Self(BASE64_URL_SAFE_NO_PAD.encode(bytes)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns what the database keeps of the token.
    pub fn hash(&self) -> String {
        sha256(self.0.as_bytes())
    }
}
