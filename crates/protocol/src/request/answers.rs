//! Reads `POST /chat/tool-result`, in camelCase and in the older snake_case names.

use std::collections::{HashMap, hash_map::Entry};

use serde_json::Value;

use super::{
    Answer, AnswerKind, AnswerTarget, BodyError, ElicitAction, MAX_ANSWERS, Posted, RequestError,
    ToolResultBody,
    fields::{Fields, missing, wrong},
    json::known_fields,
};
use crate::{ApprovalId, ChatId, ElicitationId, ToolCallId};

/// What of a body is read: all that an answer can have, beside the chat and a list of answers.
const FIELDS: &[&str] = &[
    "chatId",
    "session_id",
    "answers",
    "toolCallId",
    "tool_call_id",
    "approvalId",
    "elicitationId",
    "output",
    "result",
    "errorText",
    "is_error",
    "approved",
    "reason",
    "always",
    "input",
    "action",
    "content",
];
/// What an answer can say, one of them.
const KINDS: &str = "`output`, `errorText`, `approved` or `action`";
const ANSWERS: &str = "a list of at least one answer";

impl ToolResultBody {
    /// Reads a body, in camelCase or in the older snake_case names.
    ///
    /// # Errors
    /// A sentence that names the field and what it should be.
    pub fn parse(body: Value) -> Result<Self, RequestError> {
        let fields = Fields::of_body(&body, FIELDS)?;
        Ok(Self { chat_id: chat_id(&fields)?, answers: answers(&fields)? })
    }
}

impl Posted for ToolResultBody {
    fn from_json(json: &[u8]) -> Result<Self, BodyError> {
        Ok(Self::parse(known_fields(json, FIELDS)?)?)
    }
}

fn chat_id(fields: &Fields<'_>) -> Result<ChatId, RequestError> {
    let (name, id) = match fields.string("chatId")? {
        Some(id) => ("chatId", id),
        None => {
            ("session_id", fields.string("session_id")?.ok_or_else(|| missing("chatId", "the chat's id"))?)
        }
    };
    ChatId::parse(id).map_err(|error| RequestError(format!("`{name}` is no chat id: {error}.")))
}

fn answers(fields: &Fields<'_>) -> Result<Vec<Answer>, RequestError> {
    let Some(list) = fields.list("answers")? else {
        return Ok(vec![answer(fields)?]);
    };
    if list.is_empty() {
        return Err(wrong("answers", &Value::Array(Vec::new()), ANSWERS));
    }
    if list.len() > MAX_ANSWERS {
        let count = list.len();
        return Err(RequestError(format!(
            "`answers` has {count} answers; send at most {MAX_ANSWERS} at a time."
        )));
    }
    let mut answers: Vec<Answer> = Vec::with_capacity(list.len());
    let mut places = HashMap::with_capacity(list.len());
    for (at, value) in list.iter().enumerate() {
        let answer = answer(&Fields::of(format!("answers[{at}]"), value)?)?;
        match places.entry(answer.of.clone()) {
            Entry::Vacant(place) => place.insert(at),
            Entry::Occupied(earlier) => {
                let earlier = earlier.get();
                return Err(RequestError(format!(
                    "`answers[{at}]` answers what `answers[{earlier}]` answers; each call is answered once."
                )));
            }
        };
        answers.push(answer);
    }
    Ok(answers)
}

fn answer(fields: &Fields<'_>) -> Result<Answer, RequestError> {
    let kind = kind(fields)?;
    Ok(Answer { of: target(fields, &kind)?, kind })
}

fn target(fields: &Fields<'_>, kind: &AnswerKind) -> Result<AnswerTarget, RequestError> {
    let elicitation = fields.words("elicitationId")?;
    match (elicitation, kind) {
        (Some(id), AnswerKind::Elicited { .. }) => {
            return Ok(AnswerTarget::Elicitation(ElicitationId::new(id)));
        }
        (None, AnswerKind::Elicited { .. }) => {
            return Err(missing(
                &fields.path("elicitationId"),
                "the id of the question that `action` answers",
            ));
        }
        (Some(_), _) => {
            return Err(RequestError(format!(
                "`{}` goes with `action`: \"accept\", \"decline\" or \"cancel\".",
                fields.path("elicitationId")
            )));
        }
        (None, _) => {}
    }
    let approval = fields.words("approvalId")?;
    let call = match fields.words("toolCallId")? {
        Some(call) => Some(call),
        None => fields.words("tool_call_id")?,
    };
    let decides = matches!(kind, AnswerKind::Decision { .. });
    match (approval, call) {
        (Some(approval), _) if decides => Ok(AnswerTarget::Approval(ApprovalId::new(approval))),
        (_, Some(call)) => Ok(AnswerTarget::Call(ToolCallId::new(call))),
        (Some(_), None) => Err(RequestError(format!(
            "`{}` goes with `approved` only; name the call with `toolCallId`.",
            fields.path("approvalId")
        ))),
        (None, None) => Err(missing(&fields.path("toolCallId"), "the id of the call that is answered")),
    }
}

fn kind(fields: &Fields<'_>) -> Result<AnswerKind, RequestError> {
    let output = fields.raw("output").or_else(|| fields.raw("result"));
    let error_text = fields.string("errorText")?;
    let approved = fields.flag("approved")?;
    let failed = fields.flag("is_error")? == Some(true);
    let says_nothing_else = output.is_none() && error_text.is_none() && approved.is_none();
    if let Some(action) = fields.string("action")?.filter(|_| says_nothing_else) {
        let content = fields.value("content").cloned();
        return Ok(AnswerKind::Elicited { action: elicit_action(fields, action)?, content });
    }
    match (output, error_text, approved) {
        (Some(output), None, None) if failed => Ok(AnswerKind::Failure { error_text: as_text(output) }),
        (Some(output), None, None) => Ok(AnswerKind::Output { output: output.clone() }),
        (None, Some(error_text), None) => Ok(AnswerKind::Failure { error_text: error_text.to_owned() }),
        (None, None, Some(approved)) => Ok(AnswerKind::Decision {
            approved,
            reason: fields.string("reason")?.map(str::to_owned),
            always: fields.flag("always")?.unwrap_or_default(),
            input: fields.value("input").cloned(),
        }),
        (None, None, None) => {
            Err(RequestError(format!("{} says nothing; it must have {KINDS}.", whose(fields))))
        }
        (_, _, _) => Err(RequestError(format!(
            "{} says more than one thing; it must have one of {KINDS}.",
            whose(fields)
        ))),
    }
}

fn elicit_action(fields: &Fields<'_>, action: &str) -> Result<ElicitAction, RequestError> {
    match action {
        "accept" => Ok(ElicitAction::Accept),
        "decline" => Ok(ElicitAction::Decline),
        "cancel" => Ok(ElicitAction::Cancel),
        other => {
            let other = Value::String(other.to_owned());
            Err(wrong(&fields.path("action"), &other, "\"accept\", \"decline\" or \"cancel\""))
        }
    }
}

fn whose(fields: &Fields<'_>) -> String {
    let path = fields.path("");
    if path.is_empty() { "The answer".to_owned() } else { format!("`{path}`") }
}

fn as_text(output: &Value) -> String {
    output.as_str().map_or_else(|| output.to_string(), str::to_owned)
}
