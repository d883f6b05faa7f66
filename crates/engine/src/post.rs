//! What a post to a chat asks for, seen against the record. Decides, changes nothing.
//!
//! The record is the truth: of a posted history only what is new counts. Whatever else it claims is not even looked at.

use std::collections::HashSet;

use fermata_protocol::{
    ChatBody, MessageId, PostedMessage, Role, ToolPart, ToolState, Trigger, UiMessage, UiPart,
};
use fermata_tools::Cancelled;

use crate::{Ids, SubmitError, prompt::says_something};

/// What a post asks for.
#[derive(Debug, PartialEq)]
pub(crate) enum Plan {
    /// A new run: after these of the record's messages, and these new ones.
    Run { keep: Keep, add: Vec<UiMessage> },
    /// The assistant message goes on, if the post answers something; otherwise the client is behind, or there is nothing to do.
    Continue(PostedMessage),
}

/// How much of the record stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// All of it, with what an open run leaves behind.
    All,
    /// The first so many messages.
    First(usize),
}

/// What a post to a chat that nobody knows asks for: its history is taken as a record, and its last message is run.
pub(crate) fn plan_first(body: &ChatBody, ids: &dyn Ids) -> Result<Plan, SubmitError> {
    let mut posted = body.messages.clone();
    if body.trigger == Trigger::Regenerate {
        let end = posted.iter().rposition(|message| message.role == Role::User).map_or(0, |last| last + 1);
        posted.truncate(end);
    }
    match posted.last().map(|message| message.role) {
        Some(Role::User) => {}
        Some(Role::Assistant) => {
            return Err(nothing("This chat is not known here, so its assistant message cannot go on."));
        }
        Some(Role::System) => return Err(not_a_users()),
        None => return Err(nothing("The post has no user message to answer.")),
    }
    check_content(posted.last())?;
    let mut known = HashSet::new();
    let add = posted.into_iter().map(|message| imported(message, &mut known, ids)).collect();
    Ok(Plan::Run { keep: Keep::First(0), add })
}

/// What a post to a known chat asks for. `writing` is the message of the open run, which the record may not hold yet.
pub(crate) fn plan(
    body: &ChatBody,
    record: &[UiMessage],
    writing: Option<&MessageId>,
    ids: &dyn Ids,
) -> Result<Plan, SubmitError> {
    match body.trigger {
        Trigger::Regenerate => match never_arrived(body, record, writing) {
            Some(lost) => plan_user_message(lost.clone(), None, record, writing, ids),
            None => plan_again(body, record, writing),
        },
        Trigger::Submit => plan_submit(body, record, writing, ids),
    }
}

/// The user message that the page wants answered, where nobody here has heard of it, or of what it says now: the request that brought it
/// was lost, and the page tries again.
fn never_arrived<'a>(
    body: &'a ChatBody,
    record: &[UiMessage],
    writing: Option<&MessageId>,
) -> Option<&'a PostedMessage> {
    let is_known = |id: &MessageId| Some(id) == writing || record.iter().any(|message| message.id == *id);
    let last = body.messages.last().filter(|message| message.role == Role::User)?;
    let names_another = body.message_id.as_ref().is_some_and(is_known);
    let known = last.id.as_ref().and_then(|id| record.iter().find(|message| message.id == *id));
    let is_edited = known.is_some_and(|known| known.role == Role::User && known.parts != last.parts);
    let is_new = is_edited || last.id.as_ref().is_some_and(|id| !is_known(id));
    (is_new && !names_another).then_some(last)
}

fn plan_again(
    body: &ChatBody,
    record: &[UiMessage],
    writing: Option<&MessageId>,
) -> Result<Plan, SubmitError> {
    let place_of = |id: &MessageId| record.iter().position(|message| message.id == *id);
    let after_last_user = |before: usize| {
        record[..before].iter().rposition(|message| message.role == Role::User).map(|last| last + 1)
    };
    let named = body.message_id.as_ref();
    let keep = match named.and_then(place_of) {
        Some(place) if record[place].role == Role::User => Some(place + 1),
        Some(place) => after_last_user(place),
        None if named.is_some() && named == writing => after_last_user(record.len()),
        None => {
            let posted = body.messages.iter().rfind(|message| message.role == Role::User);
            let place = posted.and_then(|message| message.id.as_ref()).and_then(place_of);
            place.map(|place| place + 1).or_else(|| after_last_user(record.len()))
        }
    };
    let keep = keep.ok_or_else(|| nothing("The chat has no user message that could be answered again."))?;
    Ok(Plan::Run { keep: Keep::First(keep), add: Vec::new() })
}

fn plan_submit(
    body: &ChatBody,
    record: &[UiMessage],
    writing: Option<&MessageId>,
    ids: &dyn Ids,
) -> Result<Plan, SubmitError> {
    let Some(last) = body.messages.last() else { return Err(nothing("The post has no message.")) };
    match last.role {
        Role::System => Err(not_a_users()),
        Role::Assistant => Ok(Plan::Continue(last.clone())),
        Role::User => plan_user_message(last.clone(), body.message_id.as_ref(), record, writing, ids),
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
    let users =
        |id: &MessageId| record.iter().position(|message| message.id == *id && message.role == Role::User);
    let known = posted.id.as_ref().and_then(users);
    if let Some(place) = edited.and_then(users).or(known.filter(|&place| record[place].parts != posted.parts))
    {
        return Ok(Plan::Run {
            keep: Keep::First(place),
            add: vec![user_message(posted, edited.cloned(), ids)],
        });
    }
    match known {
        // An open run's message stands after it; it is about to be superseded.
        Some(place) if record[place + 1..].iter().all(|message| Some(&message.id) == writing) => {
            Ok(Plan::Run { keep: Keep::First(place + 1), add: Vec::new() })
        }
        Some(_) => Err(nothing(
            "This user message is known, unchanged and already answered. Post a new one, or an edit with messageId.",
        )),
        None if posted
            .id
            .as_ref()
            .is_some_and(|id| record.iter().any(|message| message.id == *id) || Some(id) == writing) =>
        {
            Err(SubmitError::Invalid(
                "The id of the posted user message belongs to another message of this chat.".into(),
            ))
        }
        None => Ok(Plan::Run { keep: Keep::All, add: vec![user_message(posted, None, ids)] }),
    }
}

fn user_message(posted: PostedMessage, id: Option<MessageId>, ids: &dyn Ids) -> UiMessage {
    let id = posted.id.or(id).unwrap_or_else(|| MessageId::new(ids.next("msg_")));
    UiMessage { id, role: posted.role, metadata: posted.metadata, parts: posted.parts }
}

/// A message of a history that only a client knows: what it says of calls is taken as a record, and what it leaves open is
/// settled, so that nothing in it ever runs.
fn imported(posted: PostedMessage, known: &mut HashSet<MessageId>, ids: &dyn Ids) -> UiMessage {
    let mut message = user_message(posted, None, ids);
    while !known.insert(message.id.clone()) {
        message.id = MessageId::new(ids.next("msg_"));
    }
    for part in &mut message.parts {
        match part {
            UiPart::Tool(call) => settle_imported(call),
            UiPart::Text { streaming, .. } | UiPart::Reasoning { streaming, .. } => {
                *streaming = streaming.map(|_| false);
            }
            UiPart::File(_) | UiPart::StepStart | UiPart::Data(_) | UiPart::Unknown(_) => {}
        }
    }
    message
}

fn settle_imported(call: &mut ToolPart) {
    if call.state.is_settled() {
        return;
    }
    let input = call.state.input().cloned();
    call.state = ToolState::OutputError { input, raw_input: None, error_text: Cancelled::Superseded.text() };
    call.approval = None;
}

fn check_content(posted: Option<&PostedMessage>) -> Result<(), SubmitError> {
    match posted {
        Some(message) if !says_something(&message.parts) => Err(SubmitError::Invalid(
            "The last message has no text and no file, so there is nothing to answer.".into(),
        )),
        Some(_) | None => Ok(()),
    }
}

fn nothing(words: &str) -> SubmitError {
    SubmitError::NothingToContinue(words.into())
}

fn not_a_users() -> SubmitError {
    SubmitError::Invalid(
        "The last message must be a user's or an assistant's; instructions go into `system`.".into(),
    )
}
