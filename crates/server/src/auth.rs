//! Authentication: the identification of a request's owner.
//!
//! A request to the API has an owner before its handler runs and before any of its body is kept; a handler gets it as [`Identity`], or with
//! the owner's groups as [`Caller`].
//! Authorization happens in the engine, which does not find another owner's chats.

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
    extract::{FromRef, FromRequestParts, Request, State},
    http::{Extensions, HeaderMap, HeaderValue, header, request::Parts},
    middleware::Next,
    response::Response,
};
use fermata_tools::{Owner, Principal};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use self::{failures::Failures, jwt::Jwt, local::LocalOnly, proxied::ProxiedUser};
use crate::{
    client::{Client, TrustedProxies},
    config::{AccessSettings, AuthKind, Token},
    error::{ApiError, Code},
};

/// Identifies owners, and slows down clients that guess tokens.
#[derive(Debug)]
pub struct Auth {
    method: AuthMethod,
    proxies: TrustedProxies,
    failures: Failures,
}

/// The way owners are identified.
#[derive(Debug)]
enum AuthMethod {
    /// There is one owner for all requests. Pages of other sites are refused, because nothing else protects the server from them.
    None(LocalOnly),
    /// A bearer token from the settings.
    Token(KnownTokens),
    /// A bearer token from an external issuer.
    Jwt(Box<Jwt>),
    /// A header that the proxy in front sets.
    Header(ProxiedUser),
    /// Settings that are incomplete. Every request is refused.
    Unusable,
}

/// The tokens of the settings that were read last.
struct KnownTokens(RwLock<Arc<[Token]>>);

/// The owner of a request, for handlers.
#[derive(Clone, Debug)]
pub struct Identity(pub Owner);

/// The owner of a request with the groups that it has proved, for handlers.
#[derive(Clone, Debug)]
pub struct Caller(pub Principal);

/// The reason why a request has no owner.
enum Refusal {
    /// The request does not prove its owner.
    Unproven { detail: String, challenge: Option<String>, suspicion: Suspicion },
    /// The request has the proxy's header, but did not come from the proxy.
    Forged(String),
    /// The request was sent by a page of another site.
    Foreign(ApiError),
    /// The proof cannot be checked at the moment.
    Unavailable(String),
}

/// The likelihood that a request without a valid proof is an attack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Suspicion {
    /// The request has no proof. Pages send such requests to find out whether they need a token.
    Harmless,
    /// The request has a proof that is expired or meant for another server. It is logged.
    InvalidClaim,
    /// The request may be a guess. It is logged and counted.
    Guess,
}

// === impl Auth ===

impl Auth {
    /// Builds the authentication from the settings.
    pub fn build(access: &AccessSettings) -> Self {
        let method = match access.auth {
            AuthKind::None => {
                AuthMethod::None(LocalOnly::new(access.cors_origins.clone(), access.hosts.clone()))
            }
            AuthKind::Token => AuthMethod::Token(KnownTokens(RwLock::new(access.tokens.clone().into()))),
            // The settings were checked, so the keys and the header are there.
            AuthKind::Jwt => match Jwt::build(access) {
                Some(jwt) => AuthMethod::Jwt(Box::new(jwt)),
                None => AuthMethod::Unusable,
            },
            AuthKind::Header => match &access.user_header {
                Some(header) => {
                    let groups = access.groups_header.as_ref().map(|header| header.0.clone());
                    AuthMethod::Header(ProxiedUser::new(
                        header.0.clone(),
                        groups,
                        access.cors_origins.clone(),
                    ))
                }
                None => AuthMethod::Unusable,
            },
        };
        let proxies = TrustedProxies::new(access.trusted_proxies.iter().map(|network| network.0).collect());
        Self { method, proxies, failures: Failures::default() }
    }

    /// Fetches the keys for tokens, so that the first request does not have to wait for them.
    pub async fn prepare(&self) {
        if let AuthMethod::Jwt(jwt) = &self.method {
            jwt.prepare().await;
        }
    }

    /// Replaces the tokens and secrets. Open streams stay open. Another kind of authentication needs a restart; until then, the known ones
    /// stay valid.
    pub fn set_secrets(&self, access: &AccessSettings) {
        match &self.method {
            AuthMethod::Token(known) if access.auth == AuthKind::Token => {
                *known.0.write().unwrap_or_else(PoisonError::into_inner) = access.tokens.clone().into();
            }
            AuthMethod::Jwt(jwt) if access.auth == AuthKind::Jwt => jwt.set_secrets(access),
            _ => {}
        }
    }

    /// Fetches the published keys of tokens again, so that those that were withdrawn are not accepted any more.
    pub async fn refetch_keys(&self) {
        if let AuthMethod::Jwt(jwt) = &self.method {
            jwt.refetch().await;
        }
    }

    /// Returns the proxies whose headers are trusted.
    pub fn proxies(&self) -> &TrustedProxies {
        &self.proxies
    }

    /// Returns whether a request must have a token.
    pub fn wants_token(&self) -> bool {
        match self.method {
            AuthMethod::None(_) | AuthMethod::Header(_) => false,
            AuthMethod::Token(_) | AuthMethod::Jwt(_) | AuthMethod::Unusable => true,
        }
    }

    /// Identifies the owner of a request, with the groups that it proves, from its headers and its connection.
    ///
    /// # Errors
    /// Returns 401 if the request does not prove its owner, 429 if its address has sent too many such requests, 403 if a page of another
    /// site sent it, and 503 if the proof cannot be checked at the moment.
    pub async fn identify(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<Principal, ApiError> {
        let client = Client::of(extensions, headers, &self.proxies);
        let principal = match &self.method {
            AuthMethod::None(local) => {
                local.admit(headers).map(|()| Owner::anyone().into()).map_err(Refusal::Foreign)
            }
            AuthMethod::Token(tokens) => tokens.owner(headers).map(Principal::from),
            AuthMethod::Jwt(jwt) => jwt.principal(headers).await,
            AuthMethod::Header(user) => user.principal(headers, client, &self.proxies),
            AuthMethod::Unusable => {
                Err(Refusal::unproven(Suspicion::Harmless, "This server accepts no requests."))
            }
        };
        match principal {
            Ok(principal) => Ok(principal),
            Err(refusal) => Err(self.refuse(refusal, client).await),
        }
    }

    async fn refuse(&self, refusal: Refusal, client: Client) -> ApiError {
        let (error, suspicion) = match refusal {
            Refusal::Foreign(error) => return error,
            Refusal::Unavailable(detail) => return ApiError::new(Code::Unavailable, detail),
            Refusal::Forged(detail) => (ApiError::new(Code::Forbidden, detail), Suspicion::Guess),
            Refusal::Unproven { detail, challenge, suspicion } => {
                let error = ApiError::new(Code::Unauthorized, detail);
                let challenge = challenge.and_then(|challenge| HeaderValue::from_str(&challenge).ok());
                match challenge {
                    Some(challenge) => (error.with_header(header::WWW_AUTHENTICATE, challenge), suspicion),
                    None => (error, suspicion),
                }
            }
        };
        if suspicion == Suspicion::Harmless {
            return error;
        }
        self.failures.log(client.address, error.detail());
        if suspicion == Suspicion::InvalidClaim {
            return error;
        }
        let Some(wait) = self.failures.note(client.address).await else { return error };
        let detail = "Too many requests from your address had no valid token. Send a token that this server knows, or wait.";
        let wait = HeaderValue::from(wait.as_secs().max(1));
        ApiError::new(Code::TooManyFailures, detail).with_header(header::RETRY_AFTER, wait)
    }
}

// === impl KnownTokens ===

impl KnownTokens {
    /// Compares every token, and each in constant time, so that the time that this takes reveals nothing.
    fn owner(&self, headers: &HeaderMap) -> Result<Owner, Refusal> {
        let given = bearer(headers)?;
        let tokens = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut found = None;
        for token in tokens.iter() {
            if token.is(given) {
                found = Some(Owner::new(token.owner.as_str()));
            }
        }
        found.ok_or_else(|| Refusal::unproven(Suspicion::Guess, SEND_A_TOKEN))
    }
}

impl fmt::Debug for KnownTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownTokens")
    }
}

const SEND_A_TOKEN: &str = "Send a token that this server knows, as `Authorization: Bearer …`.";

/// Returns the bearer token of a request.
fn bearer(headers: &HeaderMap) -> Result<&str, Refusal> {
    let given = headers
        .get(header::AUTHORIZATION)
        .ok_or_else(|| Refusal::unproven(Suspicion::Harmless, SEND_A_TOKEN))?;
    match given.to_str().ok().and_then(|given| given.split_once(' ')) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(token.trim()),
        Some(_) | None => Err(Refusal::unproven(Suspicion::Guess, SEND_A_TOKEN)),
    }
}

/// Compares a secret in constant time.
fn is_same(secret: &SecretString, given: &str) -> bool {
    secret.expose_secret().as_bytes().ct_eq(given.as_bytes()).into()
}

// === impl Refusal ===

impl Refusal {
    fn unproven(suspicion: Suspicion, detail: impl Into<String>) -> Self {
        Self::Unproven { detail: detail.into(), challenge: None, suspicion }
    }

    /// Sets the header `www-authenticate`, which says what is wrong with a token.
    fn with_challenge(self, text: String) -> Self {
        match self {
            Self::Unproven { detail, suspicion, .. } => {
                Self::Unproven { detail, challenge: Some(text), suspicion }
            }
            other @ (Self::Forged(_) | Self::Foreign(_) | Self::Unavailable(_)) => other,
        }
    }
}

/// Refuses requests from pages of other sites for resources without an owner, such as this server's own pages and its API description.
///
/// This applies only to a server without authentication. On any other, such a request reveals nothing that belongs to an owner.
pub async fn keep_foreign_pages_out(
    State(auth): State<Arc<Auth>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if let AuthMethod::None(local) = &auth.method {
        local.admit_visitor(request.headers())?;
    }
    Ok(next.run(request).await)
}

/// Identifies the owner of a request for its handler, or answers with an error.
pub async fn identify(
    State(auth): State<Arc<Auth>>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let principal = auth.identify(request.headers(), request.extensions()).await?;
    request.extensions_mut().insert(Caller(principal));
    Ok(next.run(request).await)
}

// === impl Identity ===

impl<S> FromRequestParts<S> for Identity
where
    Arc<Auth>: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Caller(principal) = Caller::from_request_parts(parts, state).await?;
        Ok(Self(principal.user))
    }
}

// === impl Caller ===

impl<S> FromRequestParts<S> for Caller
where
    Arc<Auth>: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match parts.extensions.get::<Self>() {
            Some(caller) => Ok(caller.clone()),
            // A route without the middleware `identify` is protected all the same.
            None => Arc::<Auth>::from_ref(state).identify(&parts.headers, &parts.extensions).await.map(Self),
        }
    }
}

/// Converts the rejections of extractors that never fail.
impl From<Infallible> for ApiError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
