//! Reads `POST /api/chat`.

use serde_json::Value;

use super::{
    BodyError, ChatBody, ClientOptions, Posted, PostedMessage, RequestError, ToolChoice, Trigger,
    fields::{Fields, missing, shortened, wrong},
    json::known_fields,
    openai, settings, tools,
};
use crate::{ChatId, Profile, Role, UiPart};

/// What of a body is read.
const FIELDS: &[&str] = &[
    "id",
    "messages",
    "message",
    "trigger",
    "messageId",
    "tools",
    "system",
    "callSettings",
    "toolChoice",
    "selectedToolName",
    "fermata",
];
/// What the `fermata` object can say. A name that did nothing would be a mistake in silence.
const OPTIONS: [&str; 3] = ["client", "hold", "exists"];
const MESSAGES: &str = "a list of at least one message";

impl ChatBody {
    /// Reads a body.
    ///
    /// # Errors
    /// A sentence that names the field and what it should be.
    pub fn parse(body: Value) -> Result<Self, RequestError> {
        let fields = Fields::of_body(&body, FIELDS)?;
        let trigger = trigger(&fields)?;
        Ok(Self {
            id: chat_id(&fields)?,
            messages: messages(&fields, trigger)?,
            trigger,
            message_id: fields.message_id("messageId")?,
            tools: fields.value("tools").map_or(Ok(Vec::new()), tools::parse)?,
            system: fields.string("system")?.filter(|system| !system.is_empty()).map(str::to_owned),
            call_settings: settings::parse(&fields)?,
            tool_choice: tool_choice(&fields)?,
            fermata: client_options(&fields)?,
        })
    }
}

impl Posted for ChatBody {
    fn from_json(json: &[u8]) -> Result<Self, BodyError> {
        Ok(Self::parse(known_fields(json, FIELDS)?)?)
    }
}

fn chat_id(fields: &Fields<'_>) -> Result<Option<ChatId>, RequestError> {
    let Some(id) = fields.string("id")? else {
        return Ok(None);
    };
    ChatId::parse(id).map(Some).map_err(|error| RequestError(format!("`id` is no chat id: {error}.")))
}

/// A client that regenerates cuts its history first, and may have nothing left to send.
fn messages(fields: &Fields<'_>, trigger: Trigger) -> Result<Vec<PostedMessage>, RequestError> {
    match (fields.list("messages")?, fields.value("message")) {
        (Some([]) | None, None) if trigger == Trigger::Regenerate => Ok(Vec::new()),
        (Some([]), None) => Err(wrong("messages", &Value::Array(Vec::new()), MESSAGES)),
        (Some(posted @ [_, ..]), _) => {
            posted.iter().enumerate().map(|(at, value)| message(format!("messages[{at}]"), value)).collect()
        }
        (Some([]) | None, Some(value)) => Ok(vec![message("message".to_owned(), value)?]),
        (None, None) => Err(missing("messages", MESSAGES)),
    }
}

fn message(path: String, value: &Value) -> Result<PostedMessage, RequestError> {
    let fields = Fields::of(path, value)?;
    let role = role(&fields)?;
    let (name, parts) = parts(&fields)?;
    if role == Role::User {
        refuse_unreadable(&fields.path(name), &parts)?;
    }
    Ok(PostedMessage {
        id: fields.message_id("id")?,
        role,
        metadata: fields.value("metadata").cloned(),
        parts,
    })
}

fn role(fields: &Fields<'_>) -> Result<Role, RequestError> {
    const SHOULD: &str = "\"user\", \"assistant\" or \"system\"";
    let value = fields.value("role").ok_or_else(|| missing(&fields.path("role"), SHOULD))?;
    match value.as_str() {
        Some("user") => Ok(Role::User),
        Some("assistant") => Ok(Role::Assistant),
        Some("system") => Ok(Role::System),
        Some(_) | None => Err(wrong(&fields.path("role"), value, SHOULD)),
    }
}

/// `parts`, or for short `content`: a string, or a list of parts. Clients that know both send an empty `parts` at times.
/// Says which of the two it was.
fn parts(fields: &Fields<'_>) -> Result<(&'static str, Vec<UiPart>), RequestError> {
    let content = fields.value("content");
    match (fields.list("parts")?, content) {
        (Some([]), Some(content)) | (None, Some(content)) => match content {
            Value::String(text) => Ok(("content", vec![UiPart::text(text)])),
            Value::Array(items) => Ok(("content", read_parts(&fields.path("content"), items)?)),
            other => Err(wrong(&fields.path("content"), other, "a string or a list of parts")),
        },
        (Some(items), _) => Ok(("parts", read_parts(&fields.path("parts"), items)?)),
        (None, None) => Err(missing(&fields.path("parts"), "a list of parts (or `content` a string)")),
    }
}

fn read_parts(path: &str, items: &[Value]) -> Result<Vec<UiPart>, RequestError> {
    items.iter().enumerate().map(|(at, item)| read_part(&format!("{path}[{at}]"), item)).collect()
}

fn read_part(path: &str, item: &Value) -> Result<UiPart, RequestError> {
    let part =
        serde_json::from_value(item.clone()).map_err(|_| match (item.is_object(), item.get("type")) {
            (false, _) => wrong(path, item, "an object with a `type`"),
            (true, None) => missing(&format!("{path}.type"), "a string"),
            (true, Some(kind)) => wrong(&format!("{path}.type"), kind, "a string"),
        })?;
    Ok(match part {
        UiPart::Unknown(fields) => openai::part(&fields).unwrap_or(UiPart::Unknown(fields)),
        UiPart::Text { .. }
        | UiPart::Reasoning { .. }
        | UiPart::File(_)
        | UiPart::StepStart
        | UiPart::Tool(_)
        | UiPart::Data(_) => part,
    })
}

/// What a person says and shows must not be lost in silence.
fn refuse_unreadable(path: &str, parts: &[UiPart]) -> Result<(), RequestError> {
    for (at, part) in parts.iter().enumerate() {
        let UiPart::Unknown(unread) = part else { continue };
        let should = match unread.get("type").and_then(Value::as_str) {
            Some("text" | "input_text") => "`text`, a string",
            Some("file") => "`mediaType` and `url`, both strings",
            Some("image_url" | "input_image") => "`image_url`, a URL or an object with a `url`",
            Some(_) | None => continue,
        };
        return Err(RequestError(format!("`{path}[{at}]` cannot be read; it must have {should}.")));
    }
    Ok(())
}

fn trigger(fields: &Fields<'_>) -> Result<Trigger, RequestError> {
    match fields.value("trigger") {
        None => Ok(Trigger::Submit),
        Some(value) => match value.as_str() {
            Some("submit-message") => Ok(Trigger::Submit),
            Some("regenerate-message") => Ok(Trigger::Regenerate),
            Some(_) | None => Err(wrong("trigger", value, "\"submit-message\" or \"regenerate-message\"")),
        },
    }
}

fn tool_choice(fields: &Fields<'_>) -> Result<Option<ToolChoice>, RequestError> {
    const SHOULD: &str = "\"auto\", \"none\", \"required\" or {\"type\": \"tool\", \"toolName\": …}";
    let Some(value) = fields.value("toolChoice") else {
        return Ok(fields.words("selectedToolName")?.map(|name| ToolChoice::Tool(name.to_owned())));
    };
    let kind = value.get("type").unwrap_or(value);
    match kind.as_str() {
        Some("auto") => Ok(Some(ToolChoice::Auto)),
        Some("none") => Ok(Some(ToolChoice::None)),
        Some("required") => Ok(Some(ToolChoice::Required)),
        Some("tool") if value.is_object() => {
            let choice = Fields::of("toolChoice".to_owned(), value)?;
            let name = choice
                .words("toolName")?
                .ok_or_else(|| missing("toolChoice.toolName", "the name of a tool"))?;
            Ok(Some(ToolChoice::Tool(name.to_owned())))
        }
        Some(_) | None => Err(wrong("toolChoice", value, SHOULD)),
    }
}

fn client_options(fields: &Fields<'_>) -> Result<ClientOptions, RequestError> {
    let Some(options) = fields.object("fermata")? else {
        return Ok(ClientOptions::default());
    };
    if let Some(name) = options.entries().keys().find(|name| !OPTIONS.contains(&name.as_str())) {
        let (name, known) = (shortened(name), OPTIONS.join(", "));
        return Err(RequestError(format!("`fermata` has no option {name:?}; it has: {known}.")));
    }
    let client = match options.value("client") {
        None => None,
        Some(value) => {
            let version = match value {
                Value::Number(major) => Some(major.to_string()),
                // A major version alone is a number.
                Value::String(version) if version.contains('.') => Some(version.clone()),
                _ => None,
            };
            let profile = version.and_then(|version| Profile::of_version(&version).ok());
            Some(profile.ok_or_else(|| wrong("fermata.client", value, Profile::VERSIONS))?)
        }
    };
    Ok(ClientOptions {
        client,
        hold: options.string("hold")?.map(str::to_owned),
        exists: options.flag("exists")?.unwrap_or_default(),
    })
}
