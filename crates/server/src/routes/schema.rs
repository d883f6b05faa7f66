//! The parts of `/openapi.json` that endpoints share, and its generation.

use std::collections::BTreeMap;

use fermata_engine::InputPreview;
use fermata_protocol::{DataChunk, UiChunk};
use fermata_tools::{CallDetails, Decision, Receipt};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::{
    IntoResponses, OpenApi, PartialSchema, ToSchema,
    openapi::{
        ContentBuilder, HeaderBuilder, Ref, RefOr, Response, ResponseBuilder, Schema,
        extensions::Extensions,
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

/// The result of a batch of answers.
#[derive(Serialize, ToSchema)]
pub struct Answered {
    /// The result for each call.
    #[schema(value_type = Vec<AnsweredCall>)]
    pub calls: Vec<Receipt>,
}

/// The response to what a client posts of calls.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum Replied {
    Answered(Answered),
    Preview(CallPreview),
}

/// A call as it would be with another input.
#[derive(Serialize, ToSchema)]
pub struct CallPreview {
    /// The call in the words of its tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The effect that the call would have: `kind` (edit, run, send or info), `text`, and for an edit the text `before` and `after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    details: Option<CallDetails>,
    /// What the rules say of the call: `ask`, `allow` or `deny`.
    #[schema(value_type = String, example = "ask")]
    decision: Decision,
}

impl From<InputPreview> for CallPreview {
    fn from(InputPreview { description, details, decision }: InputPreview) -> Self {
        Self { description, details, decision }
    }
}

/// The result of one answer.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it is read by the description only; the engine has the receipts")]
pub struct AnsweredCall {
    tool_call_id: String,
    /// `validating`, `awaiting_approval`, `scheduled`, `executing`, `success`, `error` or `cancelled`.
    state: String,
    /// Calls of the step that still wait for a person.
    waiting_for: Vec<String>,
    /// True if the call runs only when those are decided.
    gate_closed: Option<bool>,
    /// Other calls of the step that were asked about and that this answer lets run.
    also_approved: Option<Vec<String>>,
}

/// The stream of a run.
pub struct EventStream;

impl IntoResponses for EventStream {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        // OpenAPI 3.2 calls this `itemSchema`, which 3.1 does not allow.
        let chunk = Ref::from_schema_name(UiChunk::name());
        let extensions = Extensions::builder().add("x-itemSchema", json!(chunk)).build();
        let events =
            ContentBuilder::new().schema(Some(String::schema())).extensions(Some(extensions)).build();
        let header = |about: &str| {
            HeaderBuilder::new().schema(Some(String::schema())).description(Some(about)).build()
        };
        let response = ResponseBuilder::new()
            .description("The run's stream: events whose data is a UIMessageChunk, and `[DONE]` at the end")
            .content("text/event-stream", events)
            .header("x-chat-id", header("The chat's id"))
            .header("x-resumable-stream-id", header("The run's id"))
            .header("x-vercel-ai-ui-message-stream", header("Always v1"));
        BTreeMap::from([("200".to_owned(), response.build().into())])
    }
}

/// Describes an optional property as one that may be left out, and not as one that may be `null`: a server sends no such `null`, and
/// clients that are generated from the description need not, either.
pub fn without_optional_nulls(description: &mut Value) {
    match description {
        Value::Array(items) => items.iter_mut().for_each(without_optional_nulls),
        Value::Object(fields) => {
            let required = fields.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            if let Some(Value::Object(properties)) = fields.get_mut("properties") {
                let optional = properties.iter_mut().filter(|(name, _)| !required.contains(&json!(name)));
                for (_, schema) in optional {
                    if let Some(types) = schema.get_mut("type")
                        && let Some([only, Value::String(null)]) = types.as_array().map(Vec::as_slice)
                        && null == "null"
                    {
                        *types = only.clone();
                    }
                    if let Some([only, null]) =
                        schema.get("oneOf").and_then(Value::as_array).map(Vec::as_slice)
                        && null["type"] == "null"
                    {
                        *schema = only.clone();
                    }
                }
            }
            fields.values_mut().for_each(without_optional_nulls);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Refusals that endpoints share, each with the codes that tell them apart.
pub mod refusals {
    use std::collections::BTreeMap;

    use utoipa::{
        IntoResponses, PartialSchema,
        openapi::{ContentBuilder, HeaderBuilder, Ref, RefOr, Response, ResponseBuilder},
    };

    /// Every endpoint of the API.
    pub struct Any;
    /// Those about one chat.
    pub struct Chat;
    /// Those about one memory.
    pub struct Memory;
    /// Those about one note.
    pub struct Note;
    /// Those that take a body.
    pub struct Body;

    type Responses = BTreeMap<String, RefOr<Response>>;

    impl IntoResponses for Any {
        fn responses() -> Responses {
            BTreeMap::from([
                refusal(
                    "401",
                    "`unauthorized`: nothing that this request carries proves who sends it; of a JSON Web Token, `www-authenticate` says what is wrong",
                    Some("www-authenticate"),
                ),
                refusal(
                    "403",
                    "`foreign_page`: the server asks for no token, and a foreign page sent this; `forbidden`: a header of the proxy's was sent by somebody else",
                    None,
                ),
                refusal(
                    "429",
                    "`too_many_failures`: too many wrong proofs from this address; `too_many_connections`: it has too many",
                    Some("retry-after"),
                ),
                refusal("422", "`invalid_request`: the detail names the field and what it should be", None),
                refusal(
                    "503",
                    "`unavailable`: the store fails, the server is shutting down, or the chat is with another instance that cannot be reached or has as much to do as it can take",
                    Some("retry-after"),
                ),
            ])
        }
    }

    impl IntoResponses for Chat {
        fn responses() -> Responses {
            let mut responses = Any::responses();
            responses.extend([refusal("404", "`not_found`: no such chat, or somebody else's", None)]);
            responses
        }
    }

    impl IntoResponses for Memory {
        fn responses() -> Responses {
            let mut responses = Any::responses();
            responses.extend([refusal("404", "`not_found`: no such memory, or somebody else's", None)]);
            responses
        }
    }

    impl IntoResponses for Note {
        fn responses() -> Responses {
            let mut responses = Any::responses();
            responses.extend([refusal("404", "`not_found`: no such note, or somebody else's", None)]);
            responses
        }
    }

    impl IntoResponses for Body {
        fn responses() -> Responses {
            let mut responses = Any::responses();
            responses.extend([
                refusal("400", "`invalid_json`: the body is no JSON", None),
                refusal("408", "`slow_request`: the body stopped coming", None),
                refusal("413", "`too_large`: the body, or something in it, is over a limit", None),
                refusal(
                    "422",
                    "`invalid_request`, `tool_name_taken`, `unknown_tool`, `denied_by_policy` or `too_many_memories`",
                    None,
                ),
            ]);
            responses
        }
    }

    fn refusal(status: &str, description: &str, header: Option<&str>) -> (String, RefOr<Response>) {
        let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let mut response =
            ResponseBuilder::new().description(description).content("application/problem+json", body);
        if let Some(header) = header {
            response = response.header(header, HeaderBuilder::new().schema(Some(String::schema())).build());
        }
        (status.to_owned(), response.build().into())
    }
}

#[derive(OpenApi)]
#[openapi(
    info(title = "Fermata", description = "A chat server that speaks the AI SDK UI Message Stream and holds a tool call until it is answered."),
    tags(
        (name = "chat", description = "A chat and what waits in it"),
        (name = "record", description = "What is stored"),
        (name = "memory", description = "What is known of a user in all chats"),
        (name = "notes", description = "What the tools for notes have written"),
        (name = "personal data", description = "All that is stored for a user"),
        (name = "channels", description = "What services of channels send"),
        (name = "operators", description = "What operators ask"),
    )
)]
struct Head;

/// All of the description that is not an endpoint.
pub fn head() -> utoipa::openapi::OpenApi {
    let mut head = Head::openapi();
    let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    let components = head.components.get_or_insert_default();
    components.add_security_scheme("token", scheme);
    // No body has these as such: they are a stream's, and those of responses that two paths share.
    let mut schemas = vec![
        (UiChunk::name().into_owned(), UiChunk::schema()),
        (Replied::name().into_owned(), Replied::schema()),
    ];
    UiChunk::schemas(&mut schemas);
    Replied::schemas(&mut schemas);
    components.schemas.extend(schemas);
    // utoipa does not know that one variant has no tag of its own.
    if let Some(RefOr::T(Schema::OneOf(chunks))) = components.schemas.get_mut(UiChunk::name().as_ref()) {
        chunks.items.pop();
        chunks.items.push(Ref::from_schema_name(DataChunk::name()).into());
    }
    // Nobody is asked for a token where auth is none.
    head.security = Some(vec![SecurityRequirement::default(), SecurityRequirement::new("token", [""; 0])]);
    head
}
