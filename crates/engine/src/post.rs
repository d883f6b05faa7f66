//! The plan for a post to a chat, made from the post and the record. This module decides and changes nothing.
//!
//! The record is authoritative: of a posted history only the new message counts, and the rest of it is ignored.

use std::collections::HashSet;

use fermata_protocol::{ChatBody, MessageId, PostedMessage, Role, ToolState, Trigger, UiMessage, UiPart};
use fermata_tools::Cancelled;

use crate::{Ids, SubmitError, consent::ConsentWords, prompt::has_model_content};

/// The plan for a post.
#[derive(Debug, PartialEq)]
pub(crate) enum Plan {
    /// A new run starts after the messages that are kept, followed by those that are added.
    Run { keep: Keep, add: Vec<UiMessage> },
    /// The message decides about all calls of the open run that wait for a person, and a run goes on from them in a new message.
    Decide {
        /// `true` if the calls are approved.
        approved: bool,
        /// The message.
        said: UiMessage,
    },
    /// The assistant message goes on if the post answers a pending call of it. Otherwise the client has an older state of the chat, or there
    /// is nothing to do.
    Continue(PostedMessage),
}

/// The messages of the record that stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// All messages, with the one that an open run leaves behind.
    All,
    /// The first messages, as many as this.
    First(usize),
}

/// The messages of a chat on which the plan for a post depends. A long chat is not read for it.
#[derive(Default)]
pub(crate) struct KnownMessages {
    /// Those that the post names, with their positions.
    pub named: Vec<(usize, UiMessage)>,
    /// The last message of the chat, and its position.
    pub last: Option<(usize, MessageId)>,
    /// The last user message of the chat, and the last one before the message that the post wants to have written again; only for a
    /// [`Trigger::Regenerate`].
    pub last_user: Option<usize>,
    pub user_before: Option<usize>,
    /// The message of the open run, which the chat may not have yet.
    pub writing: Option<MessageId>,
    /// The words that decide about the calls of the open run, if a message can decide about all that it waits for.
    pub consent: Option<ConsentWords>,
}

// === impl KnownMessages ===

impl KnownMessages {
    /// Returns the message of this id, with its position.
    pub fn find(&self, id: &MessageId) -> Option<(usize, &UiMessage)> {
        let found = self.named.iter().find(|(_, message)| message.id == *id);
        found.map(|(position, message)| (*position, message))
    }

    fn has(&self, id: &MessageId) -> bool {
        self.is_writing(id) || self.find(id).is_some()
    }

    fn is_writing(&self, id: &MessageId) -> bool {
        self.writing.as_ref() == Some(id)
    }

    fn user_message(&self, id: &MessageId) -> Option<(usize, &UiMessage)> {
        self.find(id).filter(|(_, message)| message.role == Role::User)
    }
}

/// Returns the messages that a post names.
pub(crate) fn named_messages(body: &ChatBody) -> HashSet<&MessageId> {
    let last_user = body.messages.iter().rfind(|message| message.role == Role::User);
    let posted = body.messages.last().into_iter().chain(last_user);
    posted.filter_map(|message| message.id.as_ref()).chain(&body.message_id).collect()
}

/// Plans a post to a chat that does not exist: its history becomes the record, and a run answers its last message.
pub(crate) fn plan_first(body: &ChatBody, ids: &dyn Ids) -> Result<Plan, SubmitError> {
    let mut posted = body.messages.clone();
    if body.trigger == Trigger::Regenerate {
        let end = posted.iter().rposition(|message| message.role == Role::User).map_or(0, |index| index + 1);
        posted.truncate(end);
    }
    match posted.last().map(|message| message.role) {
        Some(Role::User) => {}
        Some(Role::Assistant) => {
            return Err(nothing_to_continue(
                "This chat is not known here, so its assistant message cannot go on.",
            ));
        }
        Some(Role::System) => return Err(last_is_instructions()),
        None => return Err(nothing_to_continue("The post has no user message to answer.")),
    }
    check_content(posted.last())?;
    let mut known = HashSet::new();
    let add = posted.into_iter().map(|message| imported(message, &mut known, ids)).collect();
    Ok(Plan::Run { keep: Keep::First(0), add })
}

/// Plans a post to a chat that exists.
pub(crate) fn plan(body: &ChatBody, known: &KnownMessages, ids: &dyn Ids) -> Result<Plan, SubmitError> {
    match body.trigger {
        Trigger::Regenerate => match lost_message(body, known) {
            Some(lost) => plan_user_message(lost.clone(), None, known, ids),
            None => plan_regeneration(body, known),
        },
        Trigger::Submit => {
            let Some(last) = body.messages.last() else {
                return Err(nothing_to_continue("The post has no message."));
            };
            match last.role {
                Role::System => Err(last_is_instructions()),
                Role::Assistant => Ok(Plan::Continue(last.clone())),
                Role::User => plan_user_message(last.clone(), body.message_id.as_ref(), known, ids),
            }
        }
    }
}

/// Returns the last message of a regeneration if it is a user message that the chat does not have, or has with other content: an earlier
/// post of the message was lost, so it has to be added before it is answered.
fn lost_message<'a>(body: &'a ChatBody, known: &KnownMessages) -> Option<&'a PostedMessage> {
    let last = body.messages.last()?;
    if last.role != Role::User {
        return None;
    }
    if body.message_id.as_ref().is_some_and(|id| known.has(id)) {
        // The page names a message that has arrived, and wants another answer to it.
        return None;
    }
    let id = last.id.as_ref()?;
    let is_lost = match known.find(id) {
        Some((_, message)) => message.role == Role::User && message.parts != last.parts,
        None => !known.is_writing(id),
    };
    if is_lost { Some(last) } else { None }
}

fn plan_regeneration(body: &ChatBody, known: &KnownMessages) -> Result<Plan, SubmitError> {
    let named = body.message_id.as_ref();
    let user = match named.and_then(|id| known.find(id)) {
        Some((position, message)) if message.role == Role::User => Some(position),
        Some(_) => known.user_before,
        None if named.is_some_and(|id| known.is_writing(id)) => known.last_user,
        None => {
            let posted = body.messages.iter().rfind(|message| message.role == Role::User);
            match posted.and_then(|message| message.id.as_ref()).and_then(|id| known.find(id)) {
                Some((position, _)) => Some(position),
                None => known.last_user,
            }
        }
    };
    match user {
        Some(position) => Ok(Plan::Run { keep: Keep::First(position + 1), add: Vec::new() }),
        None => Err(nothing_to_continue("The chat has no user message that could be answered again.")),
    }
}

fn plan_user_message(
    posted: PostedMessage,
    edited: Option<&MessageId>,
    known: &KnownMessages,
    ids: &dyn Ids,
) -> Result<Plan, SubmitError> {
    check_content(Some(&posted))?;
    let same = posted.id.as_ref().and_then(|id| known.user_message(id));
    let changed = same.filter(|(_, message)| message.parts != posted.parts);
    if let Some((position, _)) = edited.and_then(|id| known.user_message(id)).or(changed) {
        let add = vec![user_message(posted, edited.cloned(), ids)];
        return Ok(Plan::Run { keep: Keep::First(position), add });
    }
    if let Some((position, message)) = same {
        // The message of an open run may follow; it does not count as an answer, because the run is about to be superseded.
        let is_last = known
            .last
            .as_ref()
            .is_none_or(|(last, id)| *id == message.id || (*last == position + 1 && known.is_writing(id)));
        if !is_last {
            return Err(nothing_to_continue(
                "This user message is known, unchanged and already answered. Post a new one, or an edit with messageId.",
            ));
        }
        return Ok(Plan::Run { keep: Keep::First(position + 1), add: Vec::new() });
    }
    if posted.id.as_ref().is_some_and(|id| known.has(id)) {
        return Err(SubmitError::Invalid(
            "The id of the posted user message belongs to another message of this chat.".into(),
        ));
    }
    let said = user_message(posted, None, ids);
    let decision = known.consent.as_ref().and_then(|words| words.decision(&text_alone(&said.parts)?));
    Ok(match decision {
        Some(approved) => Plan::Decide { approved, said },
        None => Plan::Run { keep: Keep::All, add: vec![said] },
    })
}

/// Returns the text of a message that has nothing else for a model.
fn text_alone(parts: &[UiPart]) -> Option<String> {
    let mut text = String::new();
    for part in parts {
        match part {
            UiPart::Text { text: piece, .. } => text.push_str(piece),
            UiPart::File(_) | UiPart::Reasoning { .. } | UiPart::Tool(_) | UiPart::Unknown(_) => return None,
            UiPart::StepStart | UiPart::Data(_) => {}
        }
    }
    Some(text)
}

fn user_message(posted: PostedMessage, id: Option<MessageId>, ids: &dyn Ids) -> UiMessage {
    let id = posted.id.or(id).unwrap_or_else(|| MessageId::new(ids.next("msg_")));
    UiMessage { id, role: posted.role, metadata: posted.metadata, created_at: None, parts: posted.parts }
}

/// Returns a message of a history that only the client has. The calls in it are kept as they are recorded there; those without a result
/// are settled, so that none of them ever runs.
fn imported(posted: PostedMessage, known: &mut HashSet<MessageId>, ids: &dyn Ids) -> UiMessage {
    let mut message = user_message(posted, None, ids);
    while !known.insert(message.id.clone()) {
        message.id = MessageId::new(ids.next("msg_"));
    }
    for part in &mut message.parts {
        match part {
            UiPart::Tool(call) => {
                if !call.state.is_settled() {
                    let (input, error_text) = (call.state.input().cloned(), Cancelled::Superseded.text());
                    call.state = ToolState::OutputError { input, raw_input: None, error_text };
                    call.approval = None;
                }
            }
            UiPart::Text { streaming, .. } | UiPart::Reasoning { streaming, .. } => {
                *streaming = streaming.map(|_| false);
            }
            UiPart::File(_) | UiPart::StepStart | UiPart::Data(_) | UiPart::Unknown(_) => {}
        }
    }
    message
}

fn check_content(posted: Option<&PostedMessage>) -> Result<(), SubmitError> {
    match posted {
        Some(message) if !has_model_content(&message.parts) => Err(SubmitError::Invalid(
            "The last message has no text and no file, so there is nothing to answer.".into(),
        )),
        Some(_) | None => Ok(()),
    }
}

fn nothing_to_continue(text: &str) -> SubmitError {
    SubmitError::NothingToContinue(text.into())
}

fn last_is_instructions() -> SubmitError {
    SubmitError::Invalid(
        "The last message must be a user's or an assistant's; instructions go into `system`.".into(),
    )
}
