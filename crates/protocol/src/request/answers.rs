//! Reads `POST /chat/tool-result`, in camelCase and in the older snake_case names.

use std::{
    collections::{HashMap, hash_map::Entry},
    time::Duration,
};

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{AllOfBuilder, RefOr, Schema},
};

use super::{
    Always, Answer, AnswerKind, AnswerTarget, BodyError, ElicitAction, GrantedFor, MAX_ANSWERS, Posted,
    RequestError, ToolResult, ToolResultBody,
    json::{known_fields, without_lone_surrogates},
    read::{any_value, chat_id, names, read, read_field, words, wrong},
};
use crate::{ApprovalId, ChatId, ElicitationId, JsonText, ToolCallId};
use jiff::{Span, SpanRelativeTo};

/// The kinds of an answer, one of them.
const KINDS: &str = "`output`, `errorText`, `approved` or `action`";
/// This is said, without the stop, if `editing` or `preview` comes with something else.
const NO_ANSWER: &str = "`editing` and `preview` are no answers: post each by itself, with the `toolCallId` or the `approvalId` of one call";
/// The name of a whole body in an error that concerns no field.
const WHOLE: &str = "The answer";
/// The longest duration of a permission with an end.
const LONGEST_GRANT: Duration = Duration::from_secs(10 * 365 * 86_400);

/// One answer, or several as `answers`, which are taken together or not at all. Unknown fields are ignored.
///
/// The object of the body is read twice: as `AnswersRequest`, and, if that has no list, as `AnswerRequest`.
pub struct ToolResultRequest;

/// The chat, and several answers.
#[derive(Deserialize, ToSchema)]
pub struct AnswersRequest {
    /// The chat.
    #[serde(rename = "chatId", default, deserialize_with = "chat_id")]
    #[schema(value_type = String, required = true, pattern = "^[A-Za-z0-9_.:-]{1,128}$")]
    chat: Option<ChatId>,
    /// The older name of `chatId`.
    #[serde(rename = "session_id", default, deserialize_with = "chat_id")]
    #[schema(value_type = Option<String>)]
    session: Option<ChatId>,
    /// Several answers, each to another call.
    #[schema(value_type = Option<Vec<AnswerRequest>>, min_items = 1, max_items = 1000)]
    answers: Option<Vec<PostedAnswer>>,
}

/// One answer: its call or question, and one of `output`, `errorText`, `approved` and `action`.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerRequest {
    /// The call that is answered.
    #[serde(default, deserialize_with = "words")]
    #[schema(min_length = 1)]
    tool_call_id: Option<String>,
    /// The older name of `toolCallId`.
    #[serde(rename = "tool_call_id", default, deserialize_with = "words")]
    snake_tool_call_id: Option<String>,
    /// The question that is answered, for a decision.
    #[serde(default, deserialize_with = "words")]
    #[schema(min_length = 1)]
    approval_id: Option<String>,
    /// The question of a running tool that is answered, for an `action`.
    #[serde(default, deserialize_with = "words")]
    #[schema(min_length = 1)]
    elicitation_id: Option<String>,
    /// The result of the call, which is any JSON.
    #[serde(default, deserialize_with = "any_value")]
    output: Option<Value>,
    /// The older name of `output`.
    #[serde(default, deserialize_with = "any_value")]
    result: Option<Value>,
    /// The error of the call.
    error_text: Option<String>,
    /// `true` if `output` is the error of the call. The older form of `errorText`.
    #[serde(rename = "is_error")]
    is_error: Option<bool>,
    /// `true` if the call may run.
    approved: Option<bool>,
    /// The reason, which the model receives.
    reason: Option<String>,
    /// The scope of the decision for later calls: `true` for the first of the call's `scopes`, or an `AlwaysRequest`.
    #[serde(default, deserialize_with = "always")]
    #[schema(value_type = Option<Value>)]
    always: Option<Always>,
    /// The edited input.
    input: Option<Value>,
    /// The edited input as JSON text, in place of `input`. A page that edits the `inputText` it was sent changes no number that it cannot
    /// read exactly.
    #[serde(default, deserialize_with = "words")]
    input_text: Option<String>,
    /// The reaction of the person to a question.
    action: Option<ElicitAction>,
    /// The requested content, with `accept`; it fits the question's `requestedSchema`.
    content: Option<Value>,
    /// No answer: whether a person is editing the input of a call that waits for a decision, which other pages then show. It counts
    /// for 90 seconds.
    editing: Option<bool>,
    /// No answer: an input that a person thinks of for a call that waits for a decision. The response says how the call would be shown
    /// with it.
    preview: Option<PreviewRequest>,
}

/// An input for a call that waits for a decision.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewRequest {
    /// The input.
    input: Option<Value>,
    /// The input as JSON text, in place of `input`.
    #[serde(default, deserialize_with = "words")]
    input_text: Option<String>,
}

/// The meaning of "always", if it is not the first of the call's scopes for this chat.
#[derive(Deserialize, ToSchema)]
pub struct AlwaysRequest {
    /// The id of one of the call's `scopes`; the first of them if it is left out.
    #[serde(default, deserialize_with = "words")]
    scope: Option<String>,
    /// The chats where the permission holds: this chat (`chat`, the default) or all chats of the owner (`owner`).
    #[serde(rename = "for")]
    granted_for: Option<GrantedFor>,
    /// The duration of the permission, such as `30m`, `24h` or `7d`. It has no end if this is left out.
    #[schema(value_type = Option<String>, example = "24h")]
    #[serde(default, deserialize_with = "duration")]
    until: Option<Duration>,
}

/// An answer that a client posted.
#[derive(Deserialize)]
#[serde(try_from = "AnswerRequest")]
struct PostedAnswer(Answer);

impl ToolResultBody {
    /// Reads a body, in camelCase or in the older snake_case names.
    ///
    /// # Errors
    /// A sentence that names the field and the expected value.
    pub fn parse(mut body: Value) -> Result<Self, RequestError> {
        // A list may be long, so it is not read twice.
        let listed = body.get_mut("answers").map(Value::take).filter(|list| !list.is_null());
        let one = listed.is_none().then(|| body.clone());
        if let Some(list) = listed {
            body["answers"] = list;
        }
        let AnswersRequest { chat, session, answers } = read(body, WHOLE)?;
        let chat_id = chat
            .or(session)
            .ok_or_else(|| RequestError("`chatId` is missing; it must be the chat's id.".to_owned()))?;
        let answers: Vec<PostedAnswer> = match (answers, one) {
            (Some(answers), _) => answers,
            (None, Some(one)) if !one["editing"].is_null() || !one["preview"].is_null() => {
                let one: AnswerRequest = read(one, WHOLE)?;
                return Ok(Self { chat_id, result: one.edit().map_err(RequestError)? });
            }
            (None, Some(one)) => vec![read(one, WHOLE)?],
            (None, None) => Vec::new(),
        };
        if answers.is_empty() {
            let words = "is an empty list; it must be a list of at least one answer.";
            return Err(RequestError(format!("`answers` {words}")));
        }
        if answers.len() > MAX_ANSWERS {
            let count = answers.len();
            return Err(RequestError(format!(
                "`answers` has {count} answers; send at most {MAX_ANSWERS} at a time."
            )));
        }
        let mut places = HashMap::with_capacity(answers.len());
        for (at, PostedAnswer(answer)) in answers.iter().enumerate() {
            match places.entry(&answer.of) {
                Entry::Vacant(place) => place.insert(at),
                Entry::Occupied(earlier) => {
                    let earlier = earlier.get();
                    return Err(RequestError(format!(
                        "`answers[{at}]` answers what `answers[{earlier}]` answers; each call is answered once."
                    )));
                }
            };
        }
        let answers = answers.into_iter().map(|PostedAnswer(answer)| answer).collect();
        Ok(Self { chat_id, result: ToolResult::Answers(answers) })
    }
}

impl Posted for ToolResultBody {
    fn from_json(json: &[u8]) -> Result<Self, BodyError> {
        let known = [names::<AnswersRequest>(), names::<AnswerRequest>(), names::<PreviewRequest>()];
        Ok(Self::parse(known_fields(json, &known)?)?)
    }
}

/// Reads `always`, which is a flag or an object.
fn always<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Always>, D::Error> {
    match Value::deserialize(json)? {
        Value::Null | Value::Bool(false) => Ok(None),
        Value::Bool(true) => Ok(Some(Always::default())),
        value @ Value::Object(_) => {
            let AlwaysRequest { scope, granted_for, until } = read_field(value).map_err(D::Error::custom)?;
            Ok(Some(Always { scope, granted_for: granted_for.unwrap_or_default(), until }))
        }
        other => Err(D::Error::custom(wrong(&other, "true, false or an object"))),
    }
}

/// Reads an edited input, which is JSON or its text.
pub(super) fn edited_input(input: Option<Value>, text: Option<String>) -> Result<Option<JsonText>, String> {
    match (input, text) {
        (Some(_), Some(_)) => Err(" has the edited input twice; send `input` or `inputText`.".to_owned()),
        (None, Some(text)) => {
            let text = without_lone_surrogates(&text).unwrap_or(text);
            serde_json::from_str(&text).map(Some).map_err(|error| {
                format!(
                    " has an `inputText` that is no JSON ({error}); it must be the edited input as JSON text."
                )
            })
        }
        (input, None) => Ok(input.map(JsonText::from)),
    }
}

/// Reads a duration, such as `24h`.
fn duration<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Duration>, D::Error> {
    let Some(text) = Option::<String>::deserialize(json)? else { return Ok(None) };
    let span = text.parse::<Span>().and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()));
    match span.ok().and_then(|span| Duration::try_from(span).ok()) {
        Some(duration) if !duration.is_zero() && duration <= LONGEST_GRANT => Ok(Some(duration)),
        Some(_) | None => {
            let should = "a duration of at most ten years, such as \"30m\", \"24h\" or \"7d\"";
            Err(D::Error::custom(wrong(&text.into(), should)))
        }
    }
}

// === impl ToolResultRequest ===

impl PartialSchema for ToolResultRequest {
    fn schema() -> RefOr<Schema> {
        AllOfBuilder::new().item(AnswersRequest::schema()).item(AnswerRequest::schema()).into()
    }
}

impl ToSchema for ToolResultRequest {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((AnswerRequest::name().into(), AnswerRequest::schema()));
        schemas.push((AlwaysRequest::name().into(), AlwaysRequest::schema()));
        schemas.push((PreviewRequest::name().into(), PreviewRequest::schema()));
        AnswersRequest::schemas(schemas);
        AnswerRequest::schemas(schemas);
    }
}

// === impl AnswerRequest ===

impl AnswerRequest {
    /// Reads what a client says of the input of a call that waits for a decision.
    fn edit(self) -> Result<ToolResult, String> {
        let Self { output, result, error_text, approved, action, elicitation_id, .. } = &self;
        let says_more = output.is_some()
            || result.is_some()
            || error_text.is_some()
            || approved.is_some()
            || action.is_some()
            || elicitation_id.is_some();
        let of = match (self.approval_id, self.tool_call_id.or(self.snake_tool_call_id)) {
            (Some(approval), _) => AnswerTarget::Approval(ApprovalId::new(approval)),
            (None, Some(call)) => AnswerTarget::Call(ToolCallId::new(call)),
            (None, None) => return Err(format!("{NO_ANSWER}.")),
        };
        match (says_more, self.editing, self.preview) {
            (false, Some(is_edited), None) => Ok(ToolResult::Editing { of, is_edited }),
            (false, None, Some(PreviewRequest { input, input_text })) => {
                let input = edited_input(input, input_text).map_err(|error| format!("`preview`{error}"))?;
                let input =
                    input.ok_or("`preview` has no `input`; it must be the call's input as edited.")?;
                Ok(ToolResult::Preview { of, input })
            }
            (_, _, _) => Err(format!("{NO_ANSWER}.")),
        }
    }
}

// === impl PostedAnswer ===

impl TryFrom<AnswerRequest> for PostedAnswer {
    type Error = String;

    fn try_from(posted: AnswerRequest) -> Result<Self, String> {
        if posted.editing.is_some() || posted.preview.is_some() {
            return Err(format!(" cannot be taken: {NO_ANSWER}."));
        }
        let output = posted.output.or(posted.result);
        let kind = match (output, posted.error_text, posted.approved, posted.action) {
            (Some(output), None, None, _) if posted.is_error == Some(true) => {
                let error_text = output.as_str().map_or_else(|| output.to_string(), str::to_owned);
                AnswerKind::Failure { error_text }
            }
            (Some(output), None, None, _) => AnswerKind::Output { output },
            (None, Some(error_text), None, _) => AnswerKind::Failure { error_text },
            (None, None, Some(approved), _) => {
                let input = edited_input(posted.input, posted.input_text)?;
                AnswerKind::Decision { approved, reason: posted.reason, always: posted.always, input }
            }
            (None, None, None, Some(action)) => AnswerKind::Elicited { action, content: posted.content },
            (None, None, None, None) => return Err(format!(" says nothing; it must have {KINDS}.")),
            (_, _, _, _) => {
                return Err(format!(" says more than one thing; it must have one of {KINDS}."));
            }
        };
        let call = posted.tool_call_id.or(posted.snake_tool_call_id);
        let of = match (posted.elicitation_id, posted.approval_id, call, &kind) {
            (Some(elicitation), _, _, AnswerKind::Elicited { .. }) => {
                AnswerTarget::Elicitation(ElicitationId::new(elicitation))
            }
            (None, _, _, AnswerKind::Elicited { .. }) => {
                return Err(
                    ".elicitationId is missing; it must be the id of the question that `action` answers."
                        .to_owned(),
                );
            }
            (Some(_), _, _, _) => {
                let with = "goes with `action`: \"accept\", \"decline\" or \"cancel\".";
                return Err(format!(".elicitationId {with}"));
            }
            (None, Some(approval), _, AnswerKind::Decision { .. }) => {
                AnswerTarget::Approval(ApprovalId::new(approval))
            }
            (None, _, Some(call), _) => AnswerTarget::Call(ToolCallId::new(call)),
            (None, Some(_), None, _) => {
                return Err(
                    ".approvalId goes with `approved` only; name the call with `toolCallId`.".to_owned()
                );
            }
            (None, None, None, _) => {
                return Err(
                    ".toolCallId is missing; it must be the id of the call that is answered.".to_owned()
                );
            }
        };
        Ok(Self(Answer { of, kind }))
    }
}
