//! The requests to a chat, and the one form that instances send to each other.
//!
//! A request is handled by the chat's actor at the instance that owns the chat. [`Request`] is the wire form: fields are only ever added,
//! with a default, because instances of two versions talk to each other while a new one is rolled out.

use std::{net::IpAddr, time::Duration};

use fermata_protocol::{
    Answer, AnswerTarget, ChatBody, ChatId, ChatPatch, EventId, GrantedFor, MessageId, Profile, RunId,
    Summary, ToolCallId,
};
use fermata_tools::{Decider, DecisionChannel, Grant, InputError, Owner, Principal, Receipt};
use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    api::{
        errors::{
            AnswerError, CallError, DeleteMessageError, PlanError, ReadError, RequestError, SubmitError,
            SummaryError,
        },
        view::{ChatView, Detail, InputPreview, SummaryView},
    },
    context::summary::{ChatJob, Written},
    ports::store::{ChatOwner, Listing},
    run_log::{Reader, position::Position},
};

/// After this time without a reply from the owner of a chat, the saved state is read.
const SAVED_AFTER: Duration = Duration::from_millis(300);

/// A request to the actor of a chat.
pub(crate) trait ChatRequest: Send + Sync + 'static {
    type Reply: Send + 'static;
    type Error: RequestError + Send + 'static;

    /// Returns the user who makes the request.
    fn owner(&self) -> &Owner;

    /// Returns the reply to a user who does not own the chat.
    fn denied() -> Result<Self::Reply, Self::Error>;
}

/// A request that another instance may also make.
pub(crate) trait RemoteRequest:
    ChatRequest<Error: Serialize + DeserializeOwned> + Clone + Into<Request>
{
    /// `true` if the request changes nothing.
    const READS: bool = false;

    /// `true` if the reply is a stream, which would end soon at an instance that is shutting down: the client asks another instance instead.
    const STREAMS: bool = false;

    /// The time to look for the owner of the chat. The death of an instance is noticed in less.
    const OWNER_TIMEOUT: Duration = Duration::from_secs(15);

    /// Returns the address that the request came from, and the call that it is about, as far as they are known.
    fn details(&self) -> (Option<IpAddr>, Option<ToolCallId>) {
        (None, None)
    }

    /// Returns whether the request does no harm if it is made again after it may have been done.
    fn is_idempotent(&self) -> bool {
        true
    }

    /// Notes the chat as it is when the request is made. A request that is sent twice may arrive late, and must not reach a later run or
    /// another chat of the same id.
    fn note_chat(&mut self, _: &ChatOwner) {}
}

/// A request as instances send it to each other.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    Submit(Box<Submission>),
    AnswerRequest(AnswerRequest),
    Resume(Resume),
    Rejoin(Rejoin),
    Stop(Stop),
    CancelCall(CancelCall),
    EditInput(EditInput),
    PreviewInput(PreviewInput),
    EndHold(EndHold),
    TakeOver(TakeOver),
    View(View),
    Delete(Delete),
    Grants(Grants),
    EndGrant(EndGrant),
    PlanSummary(PlanSummary),
    SaveSummary(Box<SaveSummary>),
    CorrectSummary(CorrectSummary),
    DropPlan(DropPlan),
    DeleteMessage(DeleteMessage),
    ChangeListing(ChangeListing),
}

/// A post to a chat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Submission {
    /// The user who posts.
    pub owner: Owner,
    /// The body of the post.
    pub body: ChatBody,
    /// The time that parked calls of this run hold its stream; `None` stands for [`Settings::hold`](crate::settings::Settings::hold).
    pub hold: Option<Duration>,
    /// The address that the post comes from, for the record of decisions; `None` if it is not known.
    pub address: Option<IpAddr>,
    /// The groups of the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The failed call that is made again; the post has no messages then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<ToolCallId>,
    /// The header `traceparent` of the post.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

// === impl Submission ===

impl Submission {
    /// Returns the user who posts, with the groups.
    pub(crate) fn principal(&self) -> Principal {
        Principal { groups: self.groups.clone(), ..self.owner.clone().into() }
    }

    /// Returns the user as the one who decides about calls with this post.
    pub(crate) fn decider(&self, how: DecisionChannel) -> Decider {
        Decider { by: self.principal(), how, address: self.address, shown_hash: None }
    }
}

/// Answers to pending calls. Either all are accepted or none.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AnswerRequest {
    /// The owner of the chat.
    pub owner: Owner,
    /// The principal who answers.
    pub by: Decider,
    pub answers: Vec<Answer>,
    /// The inputs and contents among them that were checked against their schemas, each with the index of its answer.
    #[serde(skip)]
    pub checked: CheckedAnswers,
}

/// The results of checks, each with the index of the answer.
pub(crate) type CheckedAnswers = Vec<(usize, Result<(), InputError>)>;

/// Follows the open run, from its start or after an event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Resume {
    pub owner: Owner,
    pub after: Option<EventId>,
}

/// As [`Resume`], for a reader that has read up to a position of this run. The reply is `None` if it cannot go on there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Rejoin {
    pub owner: Owner,
    pub run: RunId,
    pub position: Position,
    pub profile: Profile,
}

/// Ends the open run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stop {
    pub owner: Owner,
    /// The run that was open; `None` for any open run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<RunId>,
}

/// Cancels one running call; the run goes on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CancelCall {
    pub owner: Owner,
    pub call: ToolCallId,
}

/// Tells the other readers that a person has begun to edit the input of a call that waits for a decision, or has stopped to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EditInput {
    pub owner: Owner,
    pub of: AnswerTarget,
    pub is_edited: bool,
}

/// Asks how a call that waits for a decision would be shown with another input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PreviewInput {
    pub owner: Owner,
    /// The approval of the call with that input.
    pub answer: Answer,
    /// The result of the check of the input against the tool's schema.
    #[serde(skip)]
    pub checked: CheckedAnswers,
}

/// Ends the hold of the open run before its time, because its readers have to make room for others.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EndHold {
    pub owner: Owner,
}

/// Goes on with the open run, which an instance that is shutting down has cut off.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TakeOver {
    pub owner: Owner,
}

/// Reads the chat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct View {
    pub owner: Owner,
    pub detail: Detail,
}

/// Deletes the chat; its open run ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Delete {
    pub owner: Owner,
    /// The time when the chat was made; `None` for any chat with the id.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub created_at: Option<Timestamp>,
}

/// Lists the tools that are allowed for always.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Grants {
    pub owner: Owner,
}

/// Revokes the grants that were given for a tool, or those of one scope or kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EndGrant {
    pub owner: Owner,
    pub address: Option<IpAddr>,
    pub tool: String,
    pub scope: Option<String>,
    pub granted_for: Option<GrantedFor>,
}

/// Drops the open plan of the chat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DropPlan {
    pub owner: Owner,
}

/// Deletes a message of the chat, and all later ones if that is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DeleteMessage {
    pub owner: Owner,
    pub message: MessageId,
    pub and_later: bool,
}

/// Changes the entry of the chat in lists. The reply is the new entry.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ChangeListing {
    pub owner: Owner,
    pub patch: ChatPatch,
}

/// Plans the work for a model beside the runs: a summary, or facts about the user. The reply is `None` if there is none, or another instance
/// does it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PlanSummary {
    pub owner: Owner,
    /// The user asks for it, and for this.
    pub asked: Option<Asked>,
}

/// The wishes of a user who asks for a summary.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub wishes: Option<String>,
    /// The groups of the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
}

/// Saves the result of planned work. The reply is `None` if the chat has changed so much that it does not hold, or if it is no summary.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SaveSummary {
    pub owner: Owner,
    /// The id of the plan.
    pub job: String,
    /// `None` if nothing was written.
    pub written: Option<Written>,
    /// `true` if the model has failed to write one.
    pub has_failed: bool,
}

/// Replaces the text of the newest summary.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CorrectSummary {
    pub owner: Owner,
    pub summary: Summary,
}

/// A reader of a run.
pub struct Following {
    /// The chat's id.
    pub chat: ChatId,
    /// The run's id, which names the stream.
    pub run: RunId,
    /// The reader.
    pub reader: Reader,
}

// === impl ChatRequest ===

macro_rules! chat_request {
    ($request:ident -> $reply:ty, $error:ty, if denied $denied:expr) => {
        chat_request!($request -> $reply, $error, if denied $denied; {});
    };
    ($request:ident -> $reply:ty, $error:ty, if denied $denied:expr; { $($remote:item)* }) => {
        impl From<$request> for Request {
            fn from(request: $request) -> Self {
                Self::$request(request)
            }
        }

        impl ChatRequest for $request {
            type Reply = $reply;
            type Error = $error;

            fn owner(&self) -> &Owner {
                &self.owner
            }

            fn denied() -> Result<$reply, $error> {
                $denied
            }
        }

        impl RemoteRequest for $request {
            $($remote)*
        }
    };
}

chat_request!(AnswerRequest -> Vec<Receipt>, AnswerError, if denied Err(AnswerError::no_such_chat()); {
    fn details(&self) -> (Option<IpAddr>, Option<ToolCallId>) {
        let call = self.answers.first().and_then(|answer| match &answer.of {
            AnswerTarget::Call(id) => Some(id.clone()),
            AnswerTarget::Approval(_) | AnswerTarget::Elicitation(_) => None,
        });
        (self.by.address, call)
    }
});
chat_request!(Resume -> Option<Following>, ReadError, if denied Ok(None); {
    const READS: bool = true;
    const STREAMS: bool = true;
});
chat_request!(Rejoin -> Option<Following>, ReadError, if denied Ok(None); {
    const READS: bool = true;
    const STREAMS: bool = true;
});
chat_request!(Stop -> (), ReadError, if denied Ok(()); {
    fn note_chat(&mut self, chat: &ChatOwner) {
        self.run.clone_from(&chat.open_run);
    }
});
chat_request!(EndHold -> bool, ReadError, if denied Ok(false));
chat_request!(TakeOver -> (), ReadError, if denied Err(ReadError::NotFound));
chat_request!(View -> ChatView, ReadError, if denied Err(ReadError::NotFound); {
    const READS: bool = true;
    const OWNER_TIMEOUT: Duration = SAVED_AFTER;
});
chat_request!(Delete -> (), ReadError, if denied Err(ReadError::NotFound); {
    fn note_chat(&mut self, chat: &ChatOwner) {
        self.created_at = Some(chat.created_at);
    }
});
chat_request!(PreviewInput -> InputPreview, AnswerError, if denied Err(AnswerError::no_such_chat()));
chat_request!(EditInput -> Vec<Receipt>, AnswerError, if denied Err(AnswerError::no_such_chat()));
chat_request!(Grants -> Vec<Grant>, ReadError, if denied Err(ReadError::NotFound); {
    const READS: bool = true;
    const OWNER_TIMEOUT: Duration = SAVED_AFTER;
});
chat_request!(EndGrant -> (), ReadError, if denied Err(ReadError::NotFound); {
    fn details(&self) -> (Option<IpAddr>, Option<ToolCallId>) {
        (self.address, None)
    }
});
chat_request!(PlanSummary -> Option<(String, ChatJob)>, SummaryError, if denied Err(SummaryError::NotFound));
chat_request!(CorrectSummary -> SummaryView, SummaryError, if denied Err(SummaryError::NotFound));
chat_request!(DeleteMessage -> (), DeleteMessageError, if denied Err(DeleteMessageError::NotFound));
chat_request!(ChangeListing -> Listing, ReadError, if denied Err(ReadError::NotFound));
chat_request!(DropPlan -> (), PlanError, if denied Err(PlanError::NotFound));

impl From<CancelCall> for Request {
    fn from(request: CancelCall) -> Self {
        Self::CancelCall(request)
    }
}

impl ChatRequest for CancelCall {
    type Reply = ();
    type Error = CallError;

    fn owner(&self) -> &Owner {
        &self.owner
    }

    fn denied() -> Result<(), CallError> {
        Err(CallError::NotFound)
    }
}

impl RemoteRequest for CancelCall {
    fn details(&self) -> (Option<IpAddr>, Option<ToolCallId>) {
        (None, Some(self.call.clone()))
    }

    /// The second time, the call does not run any more.
    fn is_idempotent(&self) -> bool {
        false
    }
}

impl From<Box<SaveSummary>> for Request {
    fn from(request: Box<SaveSummary>) -> Self {
        Self::SaveSummary(request)
    }
}

impl ChatRequest for Box<SaveSummary> {
    type Reply = Option<SummaryView>;
    type Error = SummaryError;

    fn owner(&self) -> &Owner {
        &self.owner
    }

    fn denied() -> Result<Option<SummaryView>, SummaryError> {
        Err(SummaryError::NotFound)
    }
}

impl RemoteRequest for Box<SaveSummary> {}

impl From<Box<Submission>> for Request {
    fn from(submission: Box<Submission>) -> Self {
        Self::Submit(submission)
    }
}

impl ChatRequest for Box<Submission> {
    type Reply = Following;
    type Error = SubmitError;

    fn owner(&self) -> &Owner {
        &self.owner
    }

    fn denied() -> Result<Following, SubmitError> {
        Err(SubmitError::NotFound)
    }
}

impl RemoteRequest for Box<Submission> {
    const STREAMS: bool = true;

    fn details(&self) -> (Option<IpAddr>, Option<ToolCallId>) {
        (self.address, None)
    }

    /// A message without an id would be in the chat twice.
    fn is_idempotent(&self) -> bool {
        self.retries.is_none() && self.body.messages.iter().all(|message| message.id.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_keep_the_form_that_other_versions_read() {
        let owner = Owner::new("ada");
        let requests: [(Request, &str); 5] = [
            (
                AnswerRequest {
                    owner: owner.clone(),
                    by: Decider::new(owner.clone(), DecisionChannel::Button, None),
                    answers: Vec::new(),
                    checked: Vec::new(),
                }
                .into(),
                r#"{"answer_request":{"owner":"ada","by":{"by":{"user":"ada"},"how":"button"},"answers":[]}}"#,
            ),
            (Stop { owner: owner.clone(), run: None }.into(), r#"{"stop":{"owner":"ada"}}"#),
            (
                View { owner: owner.clone(), detail: Detail::InPages }.into(),
                r#"{"view":{"owner":"ada","detail":"in_pages"}}"#,
            ),
            (
                Rejoin {
                    owner: owner.clone(),
                    run: RunId::new("r"),
                    position: 7.into(),
                    profile: Profile::V6,
                }
                .into(),
                r#"{"rejoin":{"owner":"ada","run":"r","position":7,"profile":6}}"#,
            ),
            (
                EndGrant { owner, address: None, tool: "t".into(), scope: None, granted_for: None }.into(),
                r#"{"end_grant":{"owner":"ada","address":null,"tool":"t","scope":null,"granted_for":null}}"#,
            ),
        ];
        for (request, json) in requests {
            assert_eq!(serde_json::to_string(&request).unwrap(), json);
            assert!(serde_json::from_str::<Request>(json).is_ok());
        }
    }
}
