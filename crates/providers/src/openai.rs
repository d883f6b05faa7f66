//! Any OpenAI-compatible chat-completions API, through `async-openai`.
//!
//! `async-openai` builds the request and sends it. The body of the response is read here, once, from its bytes to the engine's events:
//! `transport` (the response) → `sse` (events) → `chunk` (JSON) → `decoder` (the engine's events), pulled by `answer`, which
//! `model_stream` asks for again after a failure. The chunks are types of our own, because vendors add fields that OpenAI does not have.
//! This module does not know what a run is: it makes one call of a model.
//!
//! Invariants: a request is sent at most three times, and never again once a piece of its answer has been passed on;
//! the key is in no error and in no line that this crate logs; no `OPENAI_*` variable is read (`async-openai`'s own
//! configuration would read them).

mod answer;
mod calls;
mod chunk;
mod conversation;
mod decoder;
mod dialect;
mod embedding;
mod failure;
mod google_schema;
mod learning;
mod lenient;
mod model_stream;
mod provider_metadata;
mod request;
mod shape;
mod sse;
mod surrogate_halves;
mod think_tags;
mod tool_names;
mod tools;
mod transport;
mod wording;

use std::{
    collections::BTreeMap,
    panic::resume_unwind,
    sync::{Arc, Once},
    time::Duration,
};

use async_openai::{Client, config::Config};
use async_trait::async_trait;
use backon::ExponentialBuilder;
use bytes::Bytes;
use fermata_engine::{
    Model,
    model::{ModelError, ModelEvent, ModelRequest},
};
use futures::stream::{self, BoxStream, StreamExt};
use reqwest::{
    Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::value::RawValue;
use tokio::task::spawn_blocking;

pub use self::dialect::{DialectSettings, Roles, ToolIds};
use self::{
    dialect::{Dialect, LastReasoningField},
    failure::Failure,
    learning::LearnedDialect,
    model_stream::{ModelStream, Request},
    tool_names::ToolNames,
    transport::Transport,
};
use crate::BuildError;

/// A value in the query of the base URL, or of a header, that is shorter than this is no secret.
const SHORTEST_SECRET: usize = 8;
/// The length of the messages of a request, in bytes, over which another thread writes it.
const LARGE_REQUEST: usize = 256 << 10;
/// The number of tools that are named in the log if some are left out.
const NAMED: usize = 20;
/// The limit on the lessons that the refusals of one request may teach.
const MAX_LESSONS: usize = 3;
/// The API if no base URL is given.
const OPENAI: &str = "https://api.openai.com/v1";

/// The settings of an OpenAI-compatible API.
#[derive(Clone, Debug)]
pub struct OpenAiConfig {
    /// The API's root, such as `http://localhost:11434/v1`; OpenAI's own if it is absent.
    pub base_url: Option<String>,
    /// The bearer token. If it is absent, no `authorization` header is sent, which is what local servers expect.
    pub api_key: Option<SecretString>,
    /// Headers of each request. One that is named `authorization` stands in place of the token.
    pub headers: BTreeMap<String, SecretString>,
    /// The model's name.
    pub model: String,
    /// The longest time that making a connection may take. The answer itself has no time limit here.
    pub connect_timeout: Duration,
    /// The pause before the first retry; the second is twice as long, and both get some jitter on top.
    pub retry_pause: Duration,
    /// The form of its requests, where it differs from the known facts about the provider.
    pub dialect: DialectSettings,
}

/// A model behind an OpenAI-compatible API.
pub struct OpenAi {
    model: String,
    transport: Transport,
    dialect: LearnedDialect,
    /// Called when tools are left out for the first time.
    left_out: Arc<Once>,
    last_reasoning_field: LastReasoningField,
    /// The URL of the API for errors, without its query.
    url: Url,
    /// The texts that are removed from every error: the key, and the values of headers and in the query of the base URL.
    secrets: Vec<SecretString>,
    retries: ExponentialBuilder,
}

/// The configuration of `async-openai`.
#[derive(Clone)]
struct Endpoint {
    base: Url,
    headers: HeaderMap,
    key: SecretString,
}

// === impl OpenAiConfig ===

impl OpenAiConfig {
    /// Returns the model to ask for at this base URL, or at OpenAI's own API, if the settings name none. Only some hosts have one.
    pub fn default_model(base_url: Option<&str>) -> Option<&'static str> {
        dialect::default_model(&parse_base(base_url.unwrap_or(OPENAI)).ok()?)
    }

    /// Creates the settings of OpenAI's own API, without a key.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            base_url: None,
            api_key: None,
            headers: BTreeMap::new(),
            model: model.into(),
            connect_timeout: Duration::from_secs(10),
            retry_pause: Duration::from_millis(500),
            dialect: DialectSettings::default(),
        }
    }
}

// === impl OpenAi ===

impl OpenAi {
    /// Builds the model. Nothing is sent yet.
    ///
    /// # Errors
    /// Returns an error if the configuration cannot work.
    pub fn build(config: OpenAiConfig) -> Result<Self, BuildError> {
        let key = config.api_key;
        let base = parse_base(config.base_url.as_deref().unwrap_or(OPENAI))?;
        let dialect = Dialect::of(&base, &config.model, &config.dialect);
        let secrets = secrets(key.as_ref(), &config.headers, &base);
        let mut url = base.clone();
        url.set_query(None);
        let builder = reqwest::Client::builder()
            .connect_timeout(config.connect_timeout)
            // A redirect would turn the request into a GET. It means that the base URL is wrong.
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(30))
            .pool_idle_timeout(Duration::from_secs(90))
            .user_agent(concat!("fermata/", env!("CARGO_PKG_VERSION")));
        // A proxy from the environment cannot reach a model server on this machine.
        let builder = if is_loopback(&base) { builder.no_proxy() } else { builder };
        let http = builder.build().map_err(|error| BuildError::Client(failure::innermost(&error)))?;
        let endpoint = Endpoint {
            headers: headers(key.as_ref(), &config.headers)?,
            key: key.unwrap_or_else(|| String::new().into()),
            base,
        };
        Ok(Self {
            model: config.model,
            transport: Transport::Http { api: Box::new(Client::build(http.clone(), endpoint)), http },
            last_reasoning_field: LastReasoningField::new(dialect.reasoning_field),
            dialect: LearnedDialect::new(dialect),
            left_out: Arc::new(Once::new()),
            url,
            secrets,
            retries: ExponentialBuilder::default()
                .with_min_delay(config.retry_pause)
                .with_factor(2.0)
                .with_jitter()
                .with_max_times(2),
        })
    }

    /// Returns the same model, except that it sends nothing: its answer to any request is this event stream, which arrives in these
    /// pieces.
    #[must_use]
    pub fn with_recording(&self, pieces: Vec<Bytes>) -> Self {
        Self {
            model: self.model.clone(),
            transport: Transport::Recording(pieces),
            dialect: self.dialect.clone(),
            left_out: self.left_out.clone(),
            last_reasoning_field: self.last_reasoning_field.clone(),
            url: self.url.clone(),
            secrets: self.secrets.clone(),
            retries: self.retries,
        }
    }

    /// Writes the body of a request; on another thread if it is large, because everything else on this one waits meanwhile.
    async fn write(&self, request: &Arc<ModelRequest>) -> Result<Box<RawValue>, Failure> {
        let dialect = self.dialect.get();
        if request.tools.len() > dialect.max_tools {
            self.left_out.call_once(|| {
                let (_, left_out) =
                    tools::within_limit(&request.tools, request.tool_choice.as_ref(), dialect.max_tools);
                let names: Vec<&str> = left_out.iter().map(|tool| tool.name.as_str()).take(NAMED).collect();
                tracing::warn!(
                    model = self.model,
                    max_tools = dialect.max_tools,
                    left_out = left_out.len(),
                    names = names.join(", "),
                    "tools are left out of requests to the model, because the provider takes no more (see max_tools)"
                );
            });
        }
        let is_large = request::length(request) > LARGE_REQUEST;
        let (model, request, field) = (self.model.clone(), request.clone(), self.last_reasoning_field.get());
        let write = move || request::body(&model, &dialect, field, &request);
        let written = if is_large {
            spawn_blocking(write).await.map_err(|error| match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => Failure::format("the server is shutting down"),
            })?
        } else {
            write()
        };
        written.map_err(|error| Failure::format(format!("the request cannot be written: {error}")))
    }
}

#[async_trait]
impl Model for OpenAi {
    fn name(&self) -> &str {
        &self.model
    }

    async fn stream(
        &self,
        request: ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelEvent, ModelError>>, ModelError> {
        let url = url_below(&self.url, "/chat/completions");
        let request = Arc::new(request);
        let mut lessons = 0;
        // The port wants a failure before the first event as an error of its own.
        let (first, events) = loop {
            let dialect = self.dialect.get();
            let body =
                self.write(&request).await.map_err(|failure| failure.into_error(&url, &self.secrets))?;
            // It is moved with each event.
            let mut events = Box::new(ModelStream::new(
                Request {
                    transport: self.transport.clone(),
                    body,
                    traceparent: request.traceparent.clone(),
                    last_reasoning_field: self.last_reasoning_field.clone(),
                    origin: dialect.origin.clone(),
                    names: ToolNames::new(&request.tools, &dialect),
                    url: url.clone(),
                    secrets: self.secrets.clone(),
                    error_policy: request.error_policy.clone(),
                },
                self.retries,
            ));
            match events.next().await.transpose() {
                Err(ModelError::Refused(refusal))
                    if lessons < MAX_LESSONS && self.dialect.learn(&self.model, &refusal, events.body()) =>
                {
                    lessons += 1;
                }
                first => break (first?, events),
            }
        };
        let answer = stream::unfold((first, events), async |(first, mut events)| {
            let event = match first {
                Some(first) => Ok(first),
                None => events.next().await?,
            };
            Some((event, (None, events)))
        });
        Ok(answer.boxed())
    }
}

fn parse_base(text: &str) -> Result<Url, BuildError> {
    let base = Url::parse(text.trim()).map_err(|error| BuildError::BaseUrl(error.to_string()))?;
    if !matches!(base.scheme(), "http" | "https") {
        return Err(BuildError::BaseUrl("it has another scheme".to_owned()));
    }
    if !base.username().is_empty() || base.password().is_some() {
        return Err(BuildError::BaseUrl("it has a user name or a password".to_owned()));
    }
    Ok(base)
}

/// Returns the texts that no error may contain. A short value is not a secret, and its removal would spoil texts.
fn secrets(
    key: Option<&SecretString>,
    headers: &BTreeMap<String, SecretString>,
    base: &Url,
) -> Vec<SecretString> {
    let mut secrets = Vec::new();
    if let Some(key) = key.map(|key| key.expose_secret().trim())
        && !key.is_empty()
    {
        secrets.push(key.to_owned());
    }
    let decoded = base.query_pairs().map(|(_, value)| value.into_owned());
    let encoded = base.query().unwrap_or_default().split('&');
    let encoded = encoded.filter_map(|pair| Some(pair.split_once('=')?.1.to_owned()));
    let headers = headers.values().map(|value| value.expose_secret().to_owned());
    secrets.extend(decoded.chain(encoded).chain(headers).filter(|value| value.len() >= SHORTEST_SECRET));
    secrets.into_iter().map(SecretString::from).collect()
}

fn headers(
    key: Option<&SecretString>,
    own: &BTreeMap<String, SecretString>,
) -> Result<HeaderMap, BuildError> {
    let mut headers = HeaderMap::new();
    if let Some(key) = key {
        let mut value = HeaderValue::try_from(format!("Bearer {}", key.expose_secret().trim()))
            .map_err(|_| BuildError::ApiKey)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    for (name, value) in own {
        let header = HeaderName::try_from(name).map_err(|_| BuildError::Header(name.clone()))?;
        let mut value =
            HeaderValue::try_from(value.expose_secret()).map_err(|_| BuildError::Header(name.clone()))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

/// Returns the URL of a path below the base, whose query stays.
fn url_below(base: &Url, path: &str) -> String {
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url.into()
}

fn is_loopback(base: &Url) -> bool {
    let host = base.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

// === impl Endpoint ===

impl Config for Endpoint {
    fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    fn url(&self, path: &str) -> String {
        url_below(&self.base, path)
    }

    fn query(&self) -> Vec<(&str, &str)> {
        // A query of the base URL, such as Azure's `api-version`, is already part of `url`.
        Vec::new()
    }

    fn api_base(&self) -> &str {
        self.base.as_str()
    }

    fn api_key(&self) -> &SecretString {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use fermata_engine::model::{ModelContent, ModelMessage};
    use futures::FutureExt;

    use super::*;

    fn url(base: &str) -> String {
        let base = parse_base(base).unwrap();
        Endpoint { base, headers: HeaderMap::new(), key: String::new().into() }.url("/chat/completions")
    }

    #[test]
    fn the_path_is_put_after_the_base_and_before_its_query() {
        assert_eq!(url("http://localhost:1/v1"), "http://localhost:1/v1/chat/completions");
        assert_eq!(url("http://localhost:1/v1/"), "http://localhost:1/v1/chat/completions");
        assert_eq!(url("http://localhost:1"), "http://localhost:1/chat/completions");
        assert_eq!(url("https://a.b/x?api-version=1"), "https://a.b/x/chat/completions?api-version=1");
    }

    #[test]
    fn a_base_url_that_cannot_work_is_refused() {
        for base in ["localhost:11434/v1", "ftp://a.b", "https://me:secret@a.b/v1", "nothing"] {
            assert!(
                matches!(parse_base(base), Err(BuildError::BaseUrl(why)) if !why.contains("secret")),
                "{base}"
            );
        }
    }

    #[test]
    fn a_key_with_a_line_break_is_refused_without_being_shown() {
        let error = headers(Some(&"sk-a\nb".into()), &BTreeMap::new()).unwrap_err();
        assert_eq!(error, BuildError::ApiKey);
        assert!(!format!("{error} {error:?}").contains("sk-a"));
        let own = BTreeMap::from([("x-team".to_owned(), "sk-a\nb".into())]);
        let error = headers(None, &own).unwrap_err();
        assert_eq!(error, BuildError::Header("x-team".into()));
    }

    #[test]
    fn the_values_of_headers_and_in_the_query_of_the_base_url_are_secrets() {
        let base = parse_base("https://a.b/v1?api-version=QUERYSECRET99&token=a%2Bsecret&v=1").unwrap();
        let own = BTreeMap::from([("x-team".to_owned(), "headersecret".into())]);
        let secrets = secrets(Some(&"sk-key".into()), &own, &base);
        let secrets: Vec<&str> = secrets.iter().map(|secret| secret.expose_secret()).collect();
        assert_eq!(
            secrets,
            ["sk-key", "QUERYSECRET99", "a+secret", "QUERYSECRET99", "a%2Bsecret", "headersecret"]
        );
    }

    #[test]
    fn no_key_means_no_authorization_header() {
        assert!(headers(None, &BTreeMap::new()).unwrap().is_empty());
    }

    #[test]
    fn the_configuration_does_not_print_the_key() {
        let config = OpenAiConfig { api_key: Some("sk-hidden".into()), ..OpenAiConfig::new("m") };
        assert!(!format!("{config:?}").contains("sk-hidden"));
    }

    #[test]
    fn loopback_is_known_by_name_and_address() {
        for base in ["http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"] {
            assert!(is_loopback(&Url::parse(base).unwrap()), "{base}");
        }
        assert!(!is_loopback(&Url::parse("https://api.openai.com/v1").unwrap()));
    }

    #[test]
    fn only_a_large_request_is_written_by_another_thread() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let model = OpenAi::build(OpenAiConfig::new("m")).unwrap();
            let [small, large] = [LARGE_REQUEST, LARGE_REQUEST + 1].map(|length| {
                Arc::new(ModelRequest {
                    messages: vec![ModelMessage::User(vec![ModelContent::Text("a".repeat(length))])],
                    ..ModelRequest::default()
                })
            });
            // The only other thread is busy.
            let (free, is_freed) = std::sync::mpsc::channel::<()>();
            let busy = spawn_blocking(move || is_freed.recv());
            assert!(model.write(&small).now_or_never().unwrap().is_ok());
            let mut large = pin!(model.write(&large));
            assert!(large.as_mut().now_or_never().is_none());
            drop(free);
            busy.await.unwrap().unwrap_err();
            let written = large.await.ok().unwrap();
            assert!(written.get().contains(&format!("{:?}", "a".repeat(LARGE_REQUEST + 1))));
        });
    }
}
