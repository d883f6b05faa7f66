//! A service that decides about calls: it answers the request about an approval, at once or later.
//!
//! Invariant: an answer is a vote about the input that the service was asked about, and about no other one.

use async_trait::async_trait;
use axum::http::StatusCode;
use fermata_engine::{
    ApprovalState, VoteError,
    store::{Notice, NoticeEvent},
};
use fermata_protocol::{ApprovalId, PostedVote};
use fermata_tools::{Decider, DecisionChannel, Principal};
use jiff::Timestamp;
use serde::Deserialize;

use super::{
    ApprovalDesk, Channel, Incoming, ReceiveError, Reply, SendError, endpoint::SignedEndpoint, signature,
};
use crate::{config::Endpoint, tools::web::WebClient};

/// A service that decides.
pub struct DecidingService {
    name: String,
    endpoint: SignedEndpoint,
}

/// The answer of the service to a request.
#[derive(Deserialize)]
struct Verdict {
    approved: bool,
    reason: Option<String>,
}

/// A later answer, as a request of the service.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LaterVerdict {
    approval_id: ApprovalId,
    input_hash: String,
    #[serde(flatten)]
    verdict: Verdict,
}

// === impl DecidingService ===

impl DecidingService {
    pub fn new(name: &str, endpoint: Endpoint, client: WebClient) -> Self {
        Self { name: name.to_owned(), endpoint: SignedEndpoint::new(endpoint, client) }
    }

    fn decider(&self) -> Decider {
        Decider::new(Principal::channel(&self.name), DecisionChannel::Decider, None)
    }
}

#[async_trait]
impl Channel for DecidingService {
    async fn send(&self, notice: &Notice, desk: &dyn ApprovalDesk) -> Result<(), SendError> {
        let (Some(id), Some(asked_about)) = (&notice.approval, notice.data["inputHash"].as_str()) else {
            return Err(SendError::Refused("the notice is not about an approval".into()));
        };
        let approval = desk.approval(id).await?;
        let waits = approval.is_some_and(|approval| {
            approval.state == ApprovalState::Waiting && approval.input_hash == asked_about
        });
        if notice.event == NoticeEvent::ApprovalSettled || !waits {
            return Ok(());
        }
        let answer = self.endpoint.post(notice).await?;
        if answer.status == StatusCode::ACCEPTED {
            return Ok(());
        }
        let verdict: Verdict = serde_json::from_slice(&answer.body).map_err(|error| {
            SendError::Failed(format!("the answer is not {{\"approved\": true or false}}: {error}"))
        })?;
        match desk.vote(self.decider(), id, verdict.about(asked_about)).await {
            Ok(_) => Ok(()),
            Err(VoteError::Unavailable(reason)) => {
                Err(SendError::Failed(format!("the vote cannot be counted: {reason}")))
            }
            Err(error) => {
                tracing::info!(channel = self.name, approval = %id, "the vote of a decider does not count: {error}");
                Ok(())
            }
        }
    }

    async fn receive(&self, request: Incoming, desk: &dyn ApprovalDesk) -> Result<Reply, ReceiveError> {
        signature::verify(self.endpoint.secrets(), &request.headers, Timestamp::now(), &request.body)?;
        let LaterVerdict { approval_id, input_hash, verdict } = serde_json::from_slice(&request.body)
            .map_err(|error| ReceiveError::BadBody(error.to_string()))?;
        let decider = Decider { address: request.address, ..self.decider() };
        let approval = desk.vote(decider, &approval_id, verdict.about(&input_hash)).await?;
        Ok(Reply::Approval(Box::new(approval)))
    }
}

// === impl Verdict ===

impl Verdict {
    /// Returns the vote for the call with the input of this hash.
    fn about(self, input_hash: &str) -> PostedVote {
        PostedVote {
            approved: self.approved,
            reason: self.reason,
            input: None,
            input_hash: Some(input_hash.to_owned()),
        }
    }
}
