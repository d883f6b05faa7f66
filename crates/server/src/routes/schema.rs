//! What `/openapi.json` says about bodies that the protocol crate reads, and the refusals that endpoints share.

#![expect(
    dead_code,
    reason = "these types are read by the description only; the protocol crate parses the bodies"
)]

use utoipa::{
    OpenApi, ToSchema,
    openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
};

/// What `DefaultChatTransport` and `AssistantChatTransport` post. Unknown fields are ignored.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatRequest {
    /// The chat; the server makes an id where this is absent.
    #[schema(pattern = "^[A-Za-z0-9_.:-]{1,128}$")]
    id: Option<String>,
    /// UI messages in the AI SDK's form; this or `message`. `content` may stand for `parts`: a text, or a list of
    /// parts, also in the form of OpenAI's APIs.
    #[schema(value_type = Option<Vec<Object>>, example = json!([{"role": "user", "content": "hi"}]))]
    messages: Option<Vec<()>>,
    /// The one new message.
    #[schema(value_type = Option<Object>)]
    message: Option<()>,
    /// `submit-message` or `regenerate-message`.
    #[schema(default = "submit-message")]
    trigger: Option<String>,
    /// Which message the trigger is about.
    message_id: Option<String>,
    /// Browser tools, by name: `{description?, parameters}`.
    #[schema(value_type = Option<Object>)]
    tools: Option<()>,
    /// Instructions put before the history, of at most `max_system`.
    system: Option<String>,
    /// Model settings by the AI SDK's names; one that is unknown or outside its range is refused.
    #[schema(value_type = Option<Object>, example = json!({"temperature": 0.2}))]
    call_settings: Option<()>,
    /// `auto`, `none`, `required`, or `{type: "tool", toolName}`; for the run's first step.
    #[schema(value_type = Option<Object>)]
    tool_choice: Option<()>,
    /// Short for a `toolChoice` of this tool.
    selected_tool_name: Option<String>,
    fermata: Option<FermataOptions>,
}

/// Fermata's own options.
#[derive(ToSchema)]
pub struct FermataOptions {
    /// The client's version of the AI SDK: 5, 6 or 7, which means the oldest of it, or a whole version.
    client: Option<ClientVersion>,
    /// How long a parked call holds this stream.
    #[schema(example = "30s")]
    hold: Option<String>,
    /// Only for a chat that the server has: one that it does not have is 404 instead of a new one. For a post that carries no history.
    exists: Option<bool>,
}

/// A version of the AI SDK.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum ClientVersion {
    /// The oldest of a major version.
    #[schema(example = 7)]
    Major(u8),
    /// A whole version.
    #[schema(example = "7.0.173")]
    Whole(String),
}

/// One answer, or several as `answers`, which are taken together or not at all.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerRequest {
    chat_id: String,
    /// Which call.
    tool_call_id: Option<String>,
    /// Which question, for a decision.
    approval_id: Option<String>,
    /// What came out of the call; any JSON.
    #[schema(value_type = Option<Object>)]
    output: Option<()>,
    /// Why the call failed.
    error_text: Option<String>,
    /// Whether the call may run.
    approved: Option<bool>,
    /// Why, told to the model.
    reason: Option<String>,
    /// Whether the decision covers later calls of the tool in this chat.
    always: Option<bool>,
    /// The edited input.
    #[schema(value_type = Option<Object>)]
    input: Option<()>,
    /// Which question of a running tool, for an `action`.
    elicitation_id: Option<String>,
    /// What the person does about it: `accept`, `decline` or `cancel`.
    action: Option<String>,
    /// What was asked for, with `accept`; fits the question's `requestedSchema`.
    #[schema(value_type = Option<Object>)]
    content: Option<()>,
    /// Answers without `chatId`, each to another call.
    #[schema(value_type = Option<Vec<Object>>, min_items = 1, max_items = 1000)]
    answers: Option<Vec<()>>,
}

/// What became of one answer.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnsweredCall {
    tool_call_id: String,
    /// `validating`, `awaiting_approval`, `scheduled`, `executing`, `success`, `error` or `cancelled`.
    state: String,
    /// Calls of the step that still wait for a person.
    waiting_for: Vec<String>,
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

    impl IntoResponses for Body {
        fn responses() -> Responses {
            let mut responses = Any::responses();
            responses.extend([
                refusal("400", "`invalid_json`: the body is no JSON", None),
                refusal("408", "`slow_request`: the body stopped coming", None),
                refusal("413", "`too_large`: the body, or something in it, is over a limit", None),
                refusal(
                    "422",
                    "`invalid_request`, `tool_name_taken`, `unknown_tool` or `denied_by_policy`",
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
        (name = "operators", description = "What operators ask"),
    )
)]
struct Head;

/// All of the description that is not an endpoint.
pub fn head() -> utoipa::openapi::OpenApi {
    let mut head = Head::openapi();
    let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    head.components.get_or_insert_default().add_security_scheme("token", scheme);
    // Nobody is asked for a token where auth is none.
    head.security = Some(vec![SecurityRequirement::default(), SecurityRequirement::new("token", [""; 0])]);
    head
}
