//! Reads `POST /api/chat`.

use std::{collections::BTreeSet, fmt};

use serde::{
    Deserialize,
    de::{Deserializer, Error as _, SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    BodyError, ChatBody, ClientOptions, MAX_ANSWERS, Posted, PostedMessage, RequestError, Show, ToolChoice,
    Trigger,
    json::known_fields,
    openai,
    read::{chat_id, message_id, names, read, words, wrong},
    settings::CallSettings,
    tools::ToolsRequest,
};
use crate::{ApprovalId, ChatId, MessageId, PlanMode, Profile, Role, UiPart, profile::Version};

const MESSAGES: &str = "a list of at least one message";
/// Ends an error about a body that has no messages.
const SMALLEST: &str = r#"The smallest body that works is {"messages":[{"role":"user","content":"hi"}]}."#;
const ROLES: &str = "\"user\", \"assistant\" or \"system\"";
const SHOWN: &str = "\"run\", \"call\", \"context\", \"plan\" or \"memory\"";
const PLAN_MODES: &str = "\"off\", \"auto\", \"always\" or \"ask\"";
const TOOL_CHOICES: &str = "\"auto\", \"none\", \"required\" or {\"type\": \"tool\", \"toolName\": …}";

/// The body that `DefaultChatTransport` and `AssistantChatTransport` post. Unknown fields are ignored.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatRequest {
    /// The chat; the server makes an id where this is absent.
    #[serde(default, deserialize_with = "chat_id")]
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9_.:-]{1,128}$")]
    id: Option<ChatId>,
    /// UI messages in the AI SDK's form; this or `message`.
    #[schema(value_type = Option<Vec<MessageRequest>>, example = json!([{"role": "user", "content": "hi"}]))]
    messages: Option<Vec<PostedMessage>>,
    /// The one new message.
    #[schema(value_type = Option<MessageRequest>)]
    message: Option<PostedMessage>,
    /// The reason for the post; `submit-message` if it is absent.
    trigger: Option<TriggerRequest>,
    /// Which message the trigger is about.
    #[serde(default, deserialize_with = "message_id")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 256)]
    message_id: Option<MessageId>,
    tools: Option<ToolsRequest>,
    /// Instructions put before the history, of at most `max_system`.
    system: Option<String>,
    call_settings: Option<CallSettings>,
    tool_choice: Option<ToolChoiceRequest>,
    /// Short for a `toolChoice` of this tool.
    #[serde(default, deserialize_with = "words")]
    #[schema(min_length = 1)]
    selected_tool_name: Option<String>,
    fermata: Option<FermataOptions>,
}

/// A message as clients post it. It has `parts` or `content`.
#[derive(Deserialize, ToSchema)]
pub struct MessageRequest {
    /// The client's id for it.
    #[serde(default, deserialize_with = "message_id")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 256)]
    id: Option<MessageId>,
    #[schema(value_type = Role, required = true)]
    role: Option<Role>,
    /// Free-form.
    metadata: Option<Value>,
    /// The content.
    #[schema(value_type = Option<Vec<UiPart>>)]
    parts: Option<Vec<PostedPart>>,
    content: Option<ContentRequest>,
}

/// Short for `parts`: a text, or a list of parts, which may have the form of OpenAI's APIs.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum ContentRequest {
    /// The text of the only part.
    Text(String),
    /// The parts.
    #[schema(value_type = Vec<Value>)]
    Parts(Vec<PostedPart>),
}

/// The reason for a post of a chat.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TriggerRequest {
    /// A new message, an edit, or an automatic continuation.
    SubmitMessage,
    /// The answer is to be made again.
    RegenerateMessage,
}

/// Which tool the run's first step must or may call.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum ToolChoiceRequest {
    /// Short for the form with a `type`.
    Name(ToolChoiceName),
    /// The AI SDK's form.
    Typed(TypedToolChoice),
}

/// Which tool must or may be called.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ToolChoiceName {
    /// The model decides.
    Auto,
    /// It must call none.
    None,
    /// It must call one.
    Required,
}

/// Which tool must or may be called, with a `type`.
#[derive(Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum TypedToolChoice {
    /// The model decides.
    Auto,
    /// It must call none.
    None,
    /// It must call one.
    Required,
    /// It must call this one.
    #[schema(rename_all = "camelCase")]
    Tool {
        /// Its name.
        #[schema(value_type = String, required = true, min_length = 1)]
        tool_name: Option<Value>,
    },
}

/// Fermata's own options. One that is unknown is refused.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FermataOptions {
    /// The client's version of the AI SDK: 5, 6 or 7, which means the oldest of it, or a whole version.
    #[serde(default, deserialize_with = "client")]
    #[schema(value_type = Option<Version>, example = "7.0.173")]
    client: Option<Profile>,
    /// The time that a parked call holds this stream.
    #[schema(example = "30s")]
    hold: Option<String>,
    /// Only for a chat that the server has: one that it does not have is 404 instead of a new one. For a post that carries no history.
    exists: Option<bool>,
    /// The assistant that answers in this chat from now on, by its name in `GET /api/assistants`.
    #[serde(default, deserialize_with = "words")]
    #[schema(min_length = 1, example = "support")]
    assistant: Option<String>,
    /// The model that answers in this chat from now on: one of the assistant's.
    #[serde(default, deserialize_with = "words")]
    #[schema(min_length = 1)]
    model: Option<String>,
    /// `false` leaves the post out of all memory: nothing that is known of the user is used for it, and nothing of it is remembered.
    memory: Option<bool>,
    /// The approvals that wait and that the page shows. A message such as "yes" decides about them, if exactly these wait.
    #[serde(default, deserialize_with = "decides")]
    #[schema(value_type = Option<Vec<String>>, max_items = 1000)]
    decides: Option<Vec<ApprovalId>>,
    /// The use of plans for this post, in place of the assistant's: `off`, `auto`, `always`, or `ask` (a person is
    /// asked about the plan).
    #[serde(default, deserialize_with = "plan_mode")]
    plan: Option<PlanMode>,
    /// The data chunks to send besides the message: `"all"`, or a list. `run` is `data-run` with the stage of the run, `call` is
    /// `data-call` with the state of a call whenever it changes, `context` is `data-context` with the tokens of each step, `plan` is
    /// `data-plan` with the plan of the run, `memory` is `data-memory` with the memories that were used and changed.
    #[serde(default, deserialize_with = "show")]
    #[schema(value_type = Option<ShowRequest>, example = json!(["call"]))]
    show: Option<BTreeSet<Show>>,
}

/// The data chunks that a client asks for.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes what `show` reads")]
pub enum ShowRequest {
    /// All of them.
    All(ShowAll),
    /// Those of these kinds.
    These(Vec<Show>),
}

/// The word for all data chunks.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "it describes what `show` reads")]
pub enum ShowAll {
    /// All kinds.
    All,
}

/// A part as clients post it, in the AI SDK's form or in OpenAI's.
#[derive(Deserialize)]
#[serde(try_from = "Value")]
pub struct PostedPart(UiPart);

fn client<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Profile>, D::Error> {
    let Some(value) = Option::<Value>::deserialize(json)? else { return Ok(None) };
    let version = match &value {
        Value::Number(major) => Some(major.to_string()),
        // A major version alone is a number.
        Value::String(version) if version.contains('.') => Some(version.clone()),
        _ => None,
    };
    let profile = version.and_then(|version| Profile::of_version(&version).ok());
    profile.map(Some).ok_or_else(|| D::Error::custom(wrong(&value, Profile::VERSIONS)))
}

/// Reads a list of data chunks, or `"all"`.
fn show<'de, D: Deserializer<'de>>(json: D) -> Result<Option<BTreeSet<Show>>, D::Error> {
    match Option::<Value>::deserialize(json)? {
        None => Ok(None),
        Some(Value::String(all)) if all == "all" => Ok(Some(Show::ALL.into())),
        Some(Value::Array(kinds)) => {
            let mut shown = BTreeSet::new();
            for (at, kind) in kinds.iter().enumerate() {
                let known = Show::deserialize(kind)
                    .map_err(|_| D::Error::custom(format!("[{at}]{}", wrong(kind, SHOWN))))?;
                shown.insert(known);
            }
            Ok(Some(shown))
        }
        Some(other) => Err(D::Error::custom(wrong(&other, "\"all\" or a list"))),
    }
}

fn decides<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Vec<ApprovalId>>, D::Error> {
    let decides = Option::<Vec<String>>::deserialize(json)?;
    if let Some(ids) = &decides
        && ids.len() > MAX_ANSWERS
    {
        return Err(D::Error::custom(format!(" has {} approvals; send at most {MAX_ANSWERS}.", ids.len())));
    }
    Ok(decides.map(|ids| ids.into_iter().map(ApprovalId::new).collect()))
}

fn plan_mode<'de, D: Deserializer<'de>>(json: D) -> Result<Option<PlanMode>, D::Error> {
    match Value::deserialize(json)? {
        Value::Null => Ok(None),
        mode => match PlanMode::deserialize(&mode) {
            Ok(mode) => Ok(Some(mode)),
            Err(_) => Err(D::Error::custom(wrong(&mode, PLAN_MODES))),
        },
    }
}

/// Finds a body whose messages are no messages. Those who write one by hand need to see a whole one.
fn check_messages(body: &Value) -> Result<(), RequestError> {
    match (body.get("messages"), body.get("message")) {
        (Some(Value::Null | Value::Array(_)), _) | (None, None | Some(Value::Null | Value::Object(_))) => {
            Ok(())
        }
        (Some(messages), _) => {
            Err(RequestError(format!("`messages`{} {SMALLEST}", wrong(messages, "a list"))))
        }
        (None, Some(message)) => Err(RequestError(format!(
            "`message`{} Did you mean `messages`? {SMALLEST}",
            wrong(message, "an object")
        ))),
    }
}

// === impl ChatBody ===

impl ChatBody {
    /// Reads a body.
    ///
    /// # Errors
    /// A sentence that names the field and the expected value.
    pub fn parse(body: Value) -> Result<Self, RequestError> {
        check_messages(&body)?;
        let posted: ChatRequest = read(body, "The body")?;
        let is_stock = posted.trigger.is_some() && posted.fermata.is_none();
        let trigger = match posted.trigger {
            Some(TriggerRequest::SubmitMessage) | None => Trigger::Submit,
            Some(TriggerRequest::RegenerateMessage) => Trigger::Regenerate,
        };
        let messages = match (posted.messages, posted.message) {
            (Some(messages), _) if !messages.is_empty() => messages,
            (_, Some(message)) => vec![message],
            // A client that regenerates cuts its history first, and may have nothing left to send.
            (_, None) if trigger == Trigger::Regenerate => Vec::new(),
            (Some(_), None) => {
                return Err(RequestError(format!(
                    "`messages` is an empty list; it must be {MESSAGES}. {SMALLEST}"
                )));
            }
            (None, None) => {
                return Err(RequestError(format!(
                    "`messages` is missing; it must be {MESSAGES}. {SMALLEST}"
                )));
            }
        };
        let fermata = posted.fermata.unwrap_or_default();
        Ok(Self {
            id: posted.id,
            messages,
            trigger,
            message_id: posted.message_id,
            tools: posted.tools.map_or(Ok(Vec::new()), ToolsRequest::into_tools)?,
            system: posted.system.filter(|system| !system.is_empty()),
            call_settings: posted.call_settings.map(CallSettings::into_map).unwrap_or_default(),
            tool_choice: match (posted.tool_choice, posted.selected_tool_name) {
                (Some(choice), _) => Some(choice.into()),
                (None, name) => name.map(ToolChoice::Tool),
            },
            fermata: ClientOptions {
                client: fermata.client,
                hold: fermata.hold,
                exists: fermata.exists.unwrap_or_default(),
                assistant: fermata.assistant,
                model: fermata.model,
                memory: fermata.memory,
                decides: fermata.decides,
                plan: fermata.plan,
                show: fermata.show.unwrap_or_default(),
            },
            is_stock,
            lacks_history: false,
        })
    }
}

impl Posted for ChatBody {
    fn from_json(json: &[u8]) -> Result<Self, BodyError> {
        Ok(Self::parse(known_fields(json, &[names::<ChatRequest>()])?)?)
    }

    const HAS_HISTORY: bool = true;

    fn note_skipped_history(&mut self) {
        self.lacks_history = true;
    }
}

// === impl PostedMessage ===

impl TryFrom<MessageRequest> for PostedMessage {
    type Error = String;

    fn try_from(posted: MessageRequest) -> Result<Self, String> {
        let role = posted.role.ok_or_else(|| format!(".role is missing; it must be {ROLES}."))?;
        // Clients that know both send an empty `parts` at times.
        let (name, parts) = match (posted.parts, posted.content) {
            (Some(parts), None) => ("parts", parts),
            (Some(parts), Some(_)) if !parts.is_empty() => ("parts", parts),
            (_, Some(ContentRequest::Parts(parts))) => ("content", parts),
            (_, Some(ContentRequest::Text(text))) => ("content", vec![PostedPart(UiPart::text(&text))]),
            (None, None) => {
                return Err(
                    ".parts is missing; it must be a list of parts (or `content` a string).".to_owned()
                );
            }
        };
        let parts: Vec<UiPart> = parts.into_iter().map(|PostedPart(part)| part).collect();
        // What a person says and shows must not be lost in silence.
        if role == Role::User {
            for (at, part) in parts.iter().enumerate() {
                let UiPart::Unknown(unread) = part else { continue };
                let should = match unread.get("type").and_then(Value::as_str) {
                    Some("text" | "input_text") => "`text`, a string",
                    Some("file") => "`mediaType` and `url`, both strings",
                    Some("image_url" | "input_image") => "`image_url`, a URL or an object with a `url`",
                    Some(_) | None => continue,
                };
                return Err(format!(".{name}[{at}] cannot be read; it must have {should}."));
            }
        }
        Ok(Self { id: posted.id, role, metadata: posted.metadata, parts })
    }
}

impl TryFrom<Value> for PostedPart {
    type Error = String;

    fn try_from(part: Value) -> Result<Self, String> {
        match (part.is_object(), part.get("type")) {
            (false, _) => return Err(wrong(&part, "an object with a `type`")),
            (true, None) => return Err(".type is missing; it must be a string.".to_owned()),
            (true, Some(Value::String(_))) => {}
            (true, Some(kind)) => return Err(format!(".type{}", wrong(kind, "a string"))),
        }
        Ok(Self(
            match serde_json::from_value(part).map_err(|error| format!(" cannot be read: {error}."))? {
                UiPart::Unknown(fields) => openai::part(&fields).unwrap_or(UiPart::Unknown(fields)),
                part => part,
            },
        ))
    }
}

// === impl ContentRequest ===

impl<'de> Deserialize<'de> for ContentRequest {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct TextOrParts;

        impl<'de> Visitor<'de> for TextOrParts {
            type Value = ContentRequest;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of parts")
            }

            fn visit_str<E>(self, text: &str) -> Result<ContentRequest, E> {
                Ok(ContentRequest::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<ContentRequest, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(parts)).map(ContentRequest::Parts)
            }
        }

        json.deserialize_any(TextOrParts)
    }
}

// === impl ToolChoiceRequest ===

impl<'de> Deserialize<'de> for ToolChoiceRequest {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(json)?;
        let read = match &value {
            Value::Object(_) => TypedToolChoice::deserialize(&value).map(Self::Typed),
            _ => ToolChoiceName::deserialize(&value).map(Self::Name),
        };
        match read {
            Err(_) => Err(D::Error::custom(wrong(&value, TOOL_CHOICES))),
            Ok(Self::Typed(TypedToolChoice::Tool { tool_name: None })) => {
                Err(D::Error::custom(".toolName is missing; it must be the name of a tool."))
            }
            Ok(Self::Typed(TypedToolChoice::Tool { tool_name: Some(name) }))
                if name.as_str().is_none_or(str::is_empty) =>
            {
                Err(D::Error::custom(format!(".toolName{}", wrong(&name, "a string that is not empty"))))
            }
            Ok(choice) => Ok(choice),
        }
    }
}

impl From<ToolChoiceRequest> for ToolChoice {
    fn from(choice: ToolChoiceRequest) -> Self {
        match choice {
            ToolChoiceRequest::Name(ToolChoiceName::Auto)
            | ToolChoiceRequest::Typed(TypedToolChoice::Auto) => Self::Auto,
            ToolChoiceRequest::Name(ToolChoiceName::None)
            | ToolChoiceRequest::Typed(TypedToolChoice::None) => Self::None,
            ToolChoiceRequest::Name(ToolChoiceName::Required)
            | ToolChoiceRequest::Typed(TypedToolChoice::Required) => Self::Required,
            ToolChoiceRequest::Typed(TypedToolChoice::Tool { tool_name }) => {
                Self::Tool(tool_name.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned())
            }
        }
    }
}
