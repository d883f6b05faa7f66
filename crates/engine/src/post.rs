//! The plan for a post to a chat, made from the post and the record. This module decides and changes nothing.
//!
//! The record is authoritative: of a posted history only the new message counts, and the rest of it is ignored.

use std::collections::HashSet;

use fermata_protocol::{
    ApprovalId, ChatBody, MessageId, PostedMessage, Role, ShownApproval, ToolState, Trigger, UiMessage,
    UiPart,
};
use fermata_tools::Cancelled;

use crate::{
    api::errors::SubmitError, consent::ConsentWords, model::provider_metadata, ports::ids::Ids,
    prompt::has_model_content, run::WaitingRun,
};

/// The plan for a post.
#[derive(Debug, PartialEq)]
pub(crate) enum Plan {
    /// A new run starts after the messages that are kept, followed by those that are added.
    Run { keep: Keep, add: Vec<UiMessage> },
    /// The message answers the calls or questions of the open run, and a run goes on from there in a new message.
    Reply { reply: Reply, said: UiMessage },
    /// The assistant message goes on if the post answers a pending call of it. Otherwise the client has an older state of the chat, or there
    /// is nothing to do.
    Continue(PostedMessage),
}

/// A message as the answer that the open run waits for.
#[derive(Debug, PartialEq)]
pub(crate) enum Reply {
    /// It decides about the calls that its sender was shown, which are all that wait for a decision.
    Decision { approved: bool, shown: Vec<ApprovalId> },
    /// It answers the questions of the assistant.
    Answer(String),
}

/// The messages of the record that stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// All messages, with the one that an open run leaves behind.
    All,
    /// The first messages, as many as this.
    First(usize),
}

/// The messages of a chat that the plan for a post depends on. A long chat is not read for it.
#[derive(Default)]
pub(crate) struct KnownMessages {
    /// Those that the post names, with their positions.
    pub named: Vec<(usize, UiMessage)>,
    /// The message before the post's last one, if the chat has that and it is not the first.
    pub before_last_posted: Option<MessageId>,
    /// The last message of the chat, and its position.
    pub last: Option<(usize, MessageId)>,
    /// The last user message of the chat, and the last one before the message that the post wants to have written again; only for a
    /// [`Trigger::Regenerate`].
    pub last_user: Option<usize>,
    pub user_before: Option<usize>,
    /// The message of the open run, which the chat may not have yet.
    pub writing: Option<MessageId>,
    /// The calls and questions that the open run waits for, if there is one.
    pub waiting: WaitingRun,
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

/// A user message of a post.
enum NewMessage {
    /// The record has it, or it edits the record.
    Planned(Plan),
    /// It is new.
    Said(UiMessage),
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
pub(crate) fn plan(
    body: &ChatBody,
    known: &KnownMessages,
    consent: &ConsentWords,
    ids: &dyn Ids,
) -> Result<Plan, SubmitError> {
    match body.trigger {
        Trigger::Regenerate => match lost_message(body, known) {
            Some(lost) => {
                // Asking for another answer to a message names it.
                let (edited, before) = (lost.id.as_ref(), posted_before_last(body));
                match plan_user_message(lost.clone(), edited, before, known, ids)? {
                    NewMessage::Planned(plan) => Ok(plan),
                    NewMessage::Said(said) => Ok(Plan::Run { keep: Keep::All, add: vec![said] }),
                }
            }
            None => plan_regeneration(body, known),
        },
        Trigger::Submit => {
            let Some(last) = body.messages.last() else {
                return Err(nothing_to_continue("The post has no message."));
            };
            match last.role {
                Role::System => Err(last_is_instructions()),
                Role::Assistant => Ok(Plan::Continue(last.clone())),
                Role::User => {
                    let (edited, before) = (body.message_id.as_ref(), posted_before_last(body));
                    match plan_user_message(last.clone(), edited, before, known, ids)? {
                        NewMessage::Planned(plan) => Ok(plan),
                        NewMessage::Said(said) => Ok(match reply_in(&said, body, &known.waiting, consent)? {
                            Some(reply) => Plan::Reply { reply, said },
                            None => Plan::Run { keep: Keep::All, add: vec![said] },
                        }),
                    }
                }
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

/// Returns the message before the last one of a post.
fn posted_before_last(body: &ChatBody) -> Option<&MessageId> {
    let (_, earlier) = body.messages.split_last()?;
    earlier.iter().rfind(|message| message.role != Role::System)?.id.as_ref()
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

/// Plans the last message of a post, a user's, that follows another one in the post.
///
/// Some clients count their messages from one after a reload, so a known id alone is no reason to drop anything. A known message with
/// other content is an edit if the post names it, or shows it at the same place. Otherwise it is a new message.
fn plan_user_message(
    mut posted: PostedMessage,
    edited: Option<&MessageId>,
    before: Option<&MessageId>,
    known: &KnownMessages,
    ids: &dyn Ids,
) -> Result<NewMessage, SubmitError> {
    check_content(Some(&posted))?;
    if let Some((position, _)) = edited.and_then(|id| known.user_message(id)) {
        let add = vec![user_message(posted, edited.cloned(), ids)];
        return Ok(NewMessage::Planned(Plan::Run { keep: Keep::First(position), add }));
    }
    let same = posted.id.as_ref().and_then(|id| known.user_message(id));
    let is_at_its_place = before.is_some() && before == known.before_last_posted.as_ref();
    if let Some((position, message)) = same
        && message.parts != posted.parts
        && is_at_its_place
    {
        let add = vec![user_message(posted, None, ids)];
        return Ok(NewMessage::Planned(Plan::Run { keep: Keep::First(position), add }));
    }
    // A post of one message shows nothing of its place. If the content is the same, it was posted twice.
    if let Some((position, message)) = same
        && message.parts == posted.parts
        && (is_at_its_place || before.is_none())
    {
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
        let keep = Keep::First(position + 1);
        return Ok(NewMessage::Planned(Plan::Run { keep, add: Vec::new() }));
    }
    if posted.id.as_ref().is_some_and(|id| known.has(id)) {
        posted.id = None;
    }
    Ok(NewMessage::Said(user_message(posted, None, ids)))
}

/// Returns the calls or questions that a new message answers, if the open run waits for it.
///
/// # Errors
/// If the message would decide, and its sender was shown other approvals than those that wait now.
fn reply_in(
    said: &UiMessage,
    body: &ChatBody,
    waiting: &WaitingRun,
    consent: &ConsentWords,
) -> Result<Option<Reply>, SubmitError> {
    if let Some(shown) = shown_approvals(body)
        && let Some(approved) = only_text(&said.parts).and_then(|text| consent.decision(text))
    {
        if !waiting.is_shown_by(&shown) {
            return Err(SubmitError::DecisionIsStale { waiting: waiting.approvals.clone() });
        }
        if let Some(deciders) = &waiting.others_decide {
            return Err(SubmitError::NotYours(deciders.clone()));
        }
        if waiting.takes_words {
            let shown = shown.into_iter().map(|approval| approval.id).collect();
            return Ok(Some(Reply::Decision { approved, shown }));
        }
    }
    if !waiting.takes_reply {
        return Ok(None);
    }
    let texts: Vec<&str> = said.parts.iter().filter_map(UiPart::as_text).collect();
    Ok(Some(Reply::Answer(texts.join("\n"))))
}

/// Returns the approvals that the sender of a post was shown, if the post tells: it names them, or the last message of the assistant in its
/// history shows them.
fn shown_approvals(body: &ChatBody) -> Option<Vec<ShownApproval>> {
    if let Some(decides) = &body.fermata.decides {
        return Some(decides.iter().map(|id| ShownApproval { id: id.clone(), stays: false }).collect());
    }
    let last = body.messages.iter().rfind(|message| message.role == Role::Assistant)?;
    let shown = last.shown_approvals();
    if shown.is_empty() { None } else { Some(shown) }
}

/// Returns the text of a message that is one text and nothing else.
fn only_text(parts: &[UiPart]) -> Option<&str> {
    match parts {
        [part] => part.as_text(),
        [] | [_, ..] => None,
    }
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
    // No client was ever sent it.
    message.parts.retain(|part| !provider_metadata::is_kept_in(part));
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
