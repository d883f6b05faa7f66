//! The plan for a post to a chat, made from the post and the record. This module decides and changes nothing.
//!
//! The record is authoritative: of a posted history only the new message counts, and the rest of it is ignored.

use std::collections::HashSet;

use fermata_protocol::{ChatBody, MessageId, PostedMessage, Role, ToolState, Trigger, UiMessage, UiPart};
use fermata_tools::Cancelled;

use crate::{Ids, SubmitError, prompt::has_model_content};

/// The plan for a post.
#[derive(Debug, PartialEq)]
pub(crate) enum Plan {
    /// A new run starts after the messages that are kept, followed by those that are added.
    Run { keep: Keep, add: Vec<UiMessage> },
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

/// Plans a post to a chat that exists. `writing` is the message of the open run, which the record may not have yet.
pub(crate) fn plan(
    body: &ChatBody,
    record: &[UiMessage],
    writing: Option<&MessageId>,
    ids: &dyn Ids,
) -> Result<Plan, SubmitError> {
    match body.trigger {
        Trigger::Regenerate => match lost_message(body, record, writing) {
            Some(lost) => plan_user_message(lost.clone(), None, record, writing, ids),
            None => plan_regeneration(body, record, writing),
        },
        Trigger::Submit => {
            let Some(last) = body.messages.last() else {
                return Err(nothing_to_continue("The post has no message."));
            };
            match last.role {
                Role::System => Err(last_is_instructions()),
                Role::Assistant => Ok(Plan::Continue(last.clone())),
                Role::User => plan_user_message(last.clone(), body.message_id.as_ref(), record, writing, ids),
            }
        }
    }
}

/// Returns the last message of a regeneration if it is a user message that the chat does not have, or has with other content: an earlier
/// post of the message was lost, so it has to be added before it is answered.
fn lost_message<'a>(
    body: &'a ChatBody,
    record: &[UiMessage],
    writing: Option<&MessageId>,
) -> Option<&'a PostedMessage> {
    let last = body.messages.last()?;
    if last.role != Role::User {
        return None;
    }
    if body.message_id.as_ref().is_some_and(|id| is_known(id, record, writing)) {
        // The page names a message that has arrived, and wants another answer to it.
        return None;
    }
    let id = last.id.as_ref()?;
    let is_lost = match record.iter().find(|message| message.id == *id) {
        Some(known) => known.role == Role::User && known.parts != last.parts,
        None => writing != Some(id),
    };
    if is_lost { Some(last) } else { None }
}

fn is_known(id: &MessageId, record: &[UiMessage], writing: Option<&MessageId>) -> bool {
    writing == Some(id) || record.iter().any(|message| message.id == *id)
}

fn plan_regeneration(
    body: &ChatBody,
    record: &[UiMessage],
    writing: Option<&MessageId>,
) -> Result<Plan, SubmitError> {
    let index_of = |id: &MessageId| record.iter().position(|message| message.id == *id);
    let after_last_user = |end: usize| {
        record[..end].iter().rposition(|message| message.role == Role::User).map(|index| index + 1)
    };
    let named = body.message_id.as_ref();
    let keep = match named.and_then(index_of) {
        Some(index) if record[index].role == Role::User => Some(index + 1),
        Some(index) => after_last_user(index),
        None if named.is_some() && named == writing => after_last_user(record.len()),
        None => {
            let posted = body.messages.iter().rfind(|message| message.role == Role::User);
            match posted.and_then(|message| message.id.as_ref()).and_then(index_of) {
                Some(index) => Some(index + 1),
                None => after_last_user(record.len()),
            }
        }
    };
    match keep {
        Some(keep) => Ok(Plan::Run { keep: Keep::First(keep), add: Vec::new() }),
        None => Err(nothing_to_continue("The chat has no user message that could be answered again.")),
    }
}

fn plan_user_message(
    posted: PostedMessage,
    edited: Option<&MessageId>,
    record: &[UiMessage],
    writing: Option<&MessageId>,
    ids: &dyn Ids,
) -> Result<Plan, SubmitError> {
    check_content(Some(&posted))?;
    let index_of_user_message =
        |id: &MessageId| record.iter().position(|message| message.id == *id && message.role == Role::User);
    let known = posted.id.as_ref().and_then(index_of_user_message);
    let changed = known.filter(|&index| record[index].parts != posted.parts);
    if let Some(index) = edited.and_then(index_of_user_message).or(changed) {
        let add = vec![user_message(posted, edited.cloned(), ids)];
        return Ok(Plan::Run { keep: Keep::First(index), add });
    }
    if let Some(index) = known {
        // The message of an open run may follow; it does not count as an answer, because the run is about to be superseded.
        if record[index + 1..].iter().any(|message| Some(&message.id) != writing) {
            return Err(nothing_to_continue(
                "This user message is known, unchanged and already answered. Post a new one, or an edit with messageId.",
            ));
        }
        return Ok(Plan::Run { keep: Keep::First(index + 1), add: Vec::new() });
    }
    if posted.id.as_ref().is_some_and(|id| is_known(id, record, writing)) {
        return Err(SubmitError::Invalid(
            "The id of the posted user message belongs to another message of this chat.".into(),
        ));
    }
    Ok(Plan::Run { keep: Keep::All, add: vec![user_message(posted, None, ids)] })
}

fn user_message(posted: PostedMessage, id: Option<MessageId>, ids: &dyn Ids) -> UiMessage {
    let id = posted.id.or(id).unwrap_or_else(|| MessageId::new(ids.next("msg_")));
    UiMessage { id, role: posted.role, metadata: posted.metadata, parts: posted.parts }
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
