//! Who is asking.
//!
//! A request to the API has an owner before its handler runs and before anything of its body is kept; a handler takes it as
//! [`Identity`]. What the owner may do is not decided here: a chat of somebody else is not found, by the engine.

mod failures;
mod jwt;
mod key_set;
mod local;
pub mod operators;
mod proxied;

use std::{
    convert::Infallible,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{Extensions, HeaderMap, HeaderValue, header, request::Parts},
    middleware::Next,
    response::Response,
};
use fermata_tools::Owner;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use self::{failures::Failures, jwt::Jwt, local::LocalOnly, proxied::ProxiedUser};
use crate::{
    App,
    client::{Client, TrustedProxies},
    config::{AuthKind, Config, Token},
    error::{ApiError, Code},
    extract::drain_unread,
};

/// Tells owners apart, and slows down those who guess.
#[derive(Debug)]
pub struct Auth {
    way: Way,
    proxies: TrustedProxies,
    failures: Failures,
}

/// How owners are told apart.
#[derive(Debug)]
enum Way {
    /// They are not: there is one. Pages of foreign sites are kept out, since nothing else would.
    None(LocalOnly),
    /// By a bearer token that the settings name.
    Token(KnownTokens),
    /// By a bearer token that somebody else has issued.
    Jwt(Box<Jwt>),
    /// By a header of the proxy in front.
    Header(ProxiedUser),
    /// By nothing that could be: nobody is let in.
    Nothing,
}

/// The tokens of the settings that were read last.
struct KnownTokens(RwLock<Arc<[Token]>>);

/// Who asks, for handlers.
#[derive(Clone, Debug)]
pub struct Identity(pub Owner);

/// Why a request has no owner.
enum Refusal {
    /// It does not prove who sends it.
    Unproven { detail: String, challenge: Option<String>, blame: Blame },
    /// A proxy's header was sent by somebody else.
    Forged(String),
    /// A page of another site sent it.
    Foreign(ApiError),
    /// What proves it cannot be checked now.
    Unavailable(String),
}

/// What is to be thought of a request that does not prove who sends it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blame {
    /// It does not claim to; pages find out so that they need a token.
    Nothing,
    /// It claims what once was true, or is for another place. The log says so.
    Claim,
    /// It may be a guess. The log says so, and there may not be many.
    Guess,
}

/// The longest name of an owner, in characters.
const LONGEST_NAME: usize = 255;

// === impl Auth ===

impl Auth {
    /// As the settings say.
    pub fn build(config: &Config) -> Self {
        let way = match config.auth {
            AuthKind::None => Way::None(LocalOnly::new(config.cors_origins.to_vec(), config.hosts.to_vec())),
            AuthKind::Token => Way::Token(KnownTokens(RwLock::new(config.tokens.to_vec().into()))),
            // The settings were checked, so neither is missing.
            AuthKind::Jwt => Jwt::build(config).map_or(Way::Nothing, |jwt| Way::Jwt(Box::new(jwt))),
            AuthKind::Header => match &config.user_header {
                Some(header) => Way::Header(ProxiedUser::new(header.0.clone(), config.cors_origins.to_vec())),
                None => Way::Nothing,
            },
        };
        let proxies = TrustedProxies::new(config.trusted_proxies.to_vec());
        Self { way, proxies, failures: Failures::default() }
    }

    /// Fetches what the first request would have to wait for.
    pub async fn prepare(&self) {
        if let Way::Jwt(jwt) = &self.way {
            jwt.prepare().await;
        }
    }

    /// Takes other tokens from now on, if owners are told apart by tokens. Streams that are open stay open.
    pub fn set_tokens(&self, tokens: &[Token]) {
        if let Way::Token(known) = &self.way {
            *known.0.write().unwrap_or_else(PoisonError::into_inner) = tokens.into();
        }
    }

    /// The proxies whose headers are believed.
    pub fn proxies(&self) -> &TrustedProxies {
        &self.proxies
    }

    /// Whether a request must carry a token.
    pub fn wants_token(&self) -> bool {
        match self.way {
            Way::None(_) | Way::Header(_) => false,
            Way::Token(_) | Way::Jwt(_) | Way::Nothing => true,
        }
    }

    /// The owner of a request with these headers, which came on this connection.
    ///
    /// # Errors
    /// 401 where nobody is known by them, or 429 where that has been so too often; 403 where a foreign page sent them.
    pub async fn identify(&self, headers: &HeaderMap, extensions: &Extensions) -> Result<Owner, ApiError> {
        let client = Client::of(extensions, headers, &self.proxies);
        let found = match &self.way {
            Way::None(local) => local.admit(headers).map(|()| Owner::anyone()).map_err(Refusal::Foreign),
            Way::Token(tokens) => tokens.owner(headers),
            Way::Jwt(jwt) => jwt.owner(headers).await,
            Way::Header(user) => user.owner(headers, client, &self.proxies),
            Way::Nothing => Err(Refusal::anonymous("This server lets nobody in.")),
        };
        match found {
            Ok(owner) => Ok(owner),
            Err(refusal) => Err(self.refuse(refusal, client).await),
        }
    }

    async fn refuse(&self, refusal: Refusal, client: Client) -> ApiError {
        let (error, blame) = match refusal {
            Refusal::Foreign(error) => return error,
            Refusal::Unavailable(detail) => return ApiError::new(Code::Unavailable, detail),
            Refusal::Forged(detail) => (ApiError::new(Code::Forbidden, detail), Blame::Guess),
            Refusal::Unproven { detail, challenge, blame } => {
                let error = ApiError::new(Code::Unauthorized, detail);
                let challenge = challenge.and_then(|challenge| HeaderValue::from_str(&challenge).ok());
                match challenge {
                    Some(challenge) => (error.with_header(header::WWW_AUTHENTICATE, challenge), blame),
                    None => (error, blame),
                }
            }
        };
        if blame != Blame::Nothing {
            self.failures.tell(client.address, error.detail());
        }
        if blame != Blame::Guess {
            return error;
        }
        let Some(wait) = self.failures.note(client.address).await else { return error };
        let detail = "Too many requests from your address did not prove who sends them. Send a token that this server knows, or wait.";
        let wait = HeaderValue::from(wait.as_secs().max(1));
        ApiError::new(Code::TooManyFailures, detail).with_header(header::RETRY_AFTER, wait)
    }
}

// === impl KnownTokens ===

impl KnownTokens {
    /// Every token is compared, and each in constant time, so that the time taken tells nothing.
    fn owner(&self, headers: &HeaderMap) -> Result<Owner, Refusal> {
        let given = bearer(headers)?;
        let tokens = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut found = None;
        for token in tokens.iter() {
            if is_same(&token.secret, given) {
                found = Some(Owner::new(token.owner.as_str()));
            }
        }
        found.ok_or_else(|| Refusal::guess(SEND_A_TOKEN))
    }
}

impl fmt::Debug for KnownTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownTokens")
    }
}

const SEND_A_TOKEN: &str = "Send a token that this server knows, as `Authorization: Bearer …`.";

/// The token that a request carries.
fn bearer(headers: &HeaderMap) -> Result<&str, Refusal> {
    let given = headers.get(header::AUTHORIZATION).ok_or_else(|| Refusal::anonymous(SEND_A_TOKEN))?;
    match given.to_str().ok().and_then(|given| given.split_once(' ')) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(token.trim()),
        Some(_) | None => Err(Refusal::guess(SEND_A_TOKEN)),
    }
}

/// Compares in a time that tells nothing.
fn is_same(secret: &SecretString, given: &str) -> bool {
    secret.expose_secret().as_bytes().ct_eq(given.as_bytes()).into()
}

/// The owner of this name, if it can be one; else what is wrong with it.
pub(crate) fn read_owner(name: &str) -> Result<Owner, &'static str> {
    if name.trim().is_empty() {
        Err("is empty")
    } else if name.chars().nth(LONGEST_NAME).is_some() {
        Err("is longer than 255 characters")
    } else if name.chars().any(char::is_control) {
        Err("has a control character")
    } else {
        Ok(Owner::new(name))
    }
}

// === impl Refusal ===

impl Refusal {
    fn anonymous(detail: impl Into<String>) -> Self {
        Self::Unproven { detail: detail.into(), challenge: None, blame: Blame::Nothing }
    }

    fn claim(detail: impl Into<String>) -> Self {
        Self::Unproven { detail: detail.into(), challenge: None, blame: Blame::Claim }
    }

    fn guess(detail: impl Into<String>) -> Self {
        Self::Unproven { detail: detail.into(), challenge: None, blame: Blame::Guess }
    }

    /// Says in the header `www-authenticate` what was wrong.
    fn with_challenge(self, text: String) -> Self {
        match self {
            Self::Unproven { detail, blame, .. } => Self::Unproven { detail, challenge: Some(text), blame },
            other @ (Self::Forged(_) | Self::Foreign(_) | Self::Unavailable(_)) => other,
        }
    }
}

/// Refuses what a page elsewhere sent for something that belongs to no owner: pages, numbers, the description. Where owners are told
/// apart there is nothing to protect, because a page elsewhere has no token.
pub async fn keep_foreign_pages_out(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if let Way::None(local) = &app.auth().way {
        local.admit_visitor(request.headers())?;
    }
    Ok(next.run(request).await)
}

/// Finds the owner, or answers for the handler.
pub async fn identify(State(app): State<App>, request: Request, next: Next) -> Result<Response, ApiError> {
    let (mut parts, body) = request.into_parts();
    match app.auth().identify(&parts.headers, &parts.extensions).await {
        Ok(owner) => {
            parts.extensions.insert(Identity(owner));
            Ok(next.run(Request::from_parts(parts, body)).await)
        }
        Err(refusal) => {
            drain_unread(&parts.headers, body).await;
            Err(refusal)
        }
    }
}

// === impl Identity ===

impl FromRequestParts<App> for Identity {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match parts.extensions.get::<Self>() {
            Some(identity) => Ok(identity.clone()),
            // A route outside the layer above is no less protected.
            None => app.auth().identify(&parts.headers, &parts.extensions).await.map(Self),
        }
    }
}

/// For rejections that cannot be.
impl From<Infallible> for ApiError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
