//! Who is asking.
//!
//! A request to the API has an owner before its handler runs and before anything of its body is kept; a handler takes it as
//! [`Identity`]. What the owner may do is not decided here: a chat of somebody else is not found, by the engine.

mod local;

use std::convert::Infallible;

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, header, request::Parts},
    middleware::Next,
    response::Response,
};
use fermata_tools::Owner;
use secrecy::ExposeSecret;
use subtle::ConstantTimeEq;

use self::local::LocalOnly;
use crate::{
    App,
    config::{AuthKind, Config, Token},
    error::{ApiError, Code},
    extract::drain_unread,
};

/// How owners are told apart.
#[derive(Debug)]
pub enum Auth {
    /// They are not: there is one. Pages of foreign sites are kept out, since nothing else would.
    None(LocalOnly),
    /// By a bearer token.
    Token(Vec<Token>),
}

/// Who asks, for handlers.
#[derive(Clone, Debug)]
pub struct Identity(pub Owner);

// === impl Auth ===

impl Auth {
    /// As the settings say.
    pub fn build(config: &Config) -> Self {
        match config.auth {
            AuthKind::None => Self::None(LocalOnly::new(config.cors_origins.to_vec(), config.insecure_bind)),
            AuthKind::Token => Self::Token(config.tokens.to_vec()),
        }
    }

    /// Whether a request must carry a token.
    pub fn wants_token(&self) -> bool {
        match self {
            Self::None(_) => false,
            Self::Token(_) => true,
        }
    }

    /// The owner of a request with these headers.
    ///
    /// # Errors
    /// 401 where nobody is known by them, 403 where a foreign page sent them.
    pub fn identify(&self, headers: &HeaderMap) -> Result<Owner, ApiError> {
        match self {
            Self::None(local) => local.admit(headers).map(|()| Owner::anyone()),
            Self::Token(tokens) => owner_of(tokens, headers).ok_or_else(|| {
                ApiError::new(
                    Code::Unauthorized,
                    "Send a token that this server knows, as `Authorization: Bearer …`.",
                )
            }),
        }
    }
}

/// Every token is compared, and each in constant time, so that the time taken tells nothing.
fn owner_of(tokens: &[Token], headers: &HeaderMap) -> Option<Owner> {
    let (scheme, given) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let mut found = None;
    for token in tokens {
        if bool::from(token.secret.expose_secret().as_bytes().ct_eq(given.trim().as_bytes())) {
            found = Some(Owner::new(token.owner.as_str()));
        }
    }
    found
}

/// Finds the owner, or answers for the handler.
pub async fn identify(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    match app.auth().identify(request.headers()) {
        Ok(owner) => {
            request.extensions_mut().insert(Identity(owner));
            Ok(next.run(request).await)
        }
        Err(refusal) => {
            let (parts, body) = request.into_parts();
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
            None => app.auth().identify(&parts.headers).map(Self),
        }
    }
}

/// For rejections that cannot be.
impl From<Infallible> for ApiError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
