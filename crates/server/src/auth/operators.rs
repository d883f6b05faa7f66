//! Access to the metrics.
//!
//! Metrics reveal the load of a deployment and the tools that it uses. Its users should not see that. So if users are authenticated, the
//! metrics are available only at the operators' own address, or with the operator's token.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{Extensions, HeaderMap, Method, header},
    middleware::Next,
    response::Response,
};
use secrecy::SecretString;

use super::{Auth, AuthMethod, Refusal, Suspicion, bearer, is_same};
use crate::{
    auth::local::LocalOnly,
    client::Client,
    config::{AccessSettings, AuthKind, ServerSettings},
    error::{ApiError, Code},
};

/// The access rules for the metrics.
#[derive(Debug)]
pub struct Operators {
    /// The token that requests must have at either address, if one is set.
    token: Option<SecretString>,
    /// True if the main address shows the metrics without a token.
    is_open: bool,
    /// The protection of the operators' own address from pages of other sites.
    local: LocalOnly,
}

// === impl Operators ===

impl Operators {
    /// Builds the access rules from the settings.
    pub fn build(access: &AccessSettings, server: &ServerSettings) -> Self {
        let is_open = match access.auth {
            AuthKind::None => server.operator_bind.is_none(),
            AuthKind::Token | AuthKind::Jwt | AuthKind::Header => false,
        };
        let local = LocalOnly::new(access.cors_origins.clone(), access.hosts.clone());
        Self { token: server.operator_token.as_ref().map(|token| token.0.clone()), is_open, local }
    }
}

/// Guards the metrics at the main address.
pub async fn guard(
    State((auth, operators)): State<(Arc<Auth>, Arc<Operators>)>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    match (&operators.token, &auth.method) {
        (Some(token), _) => check_token(&auth, token, request.headers(), request.extensions()).await?,
        (None, AuthMethod::None(local)) if operators.is_open => local.admit_visitor(request.headers())?,
        (None, _) => {
            return Err(ApiError::new(
                Code::NotFound,
                "The metrics are not available here. The operator gets them at the address operator_bind \
                 (FERMATA_OPERATOR_BIND), or with the token operator_token (FERMATA_OPERATOR_TOKEN).",
            ));
        }
    }
    Ok(next.run(request).await)
}

/// Guards the operators' own address, which is for everyone who can reach it unless a token is set.
pub async fn guard_own_address(
    State((auth, operators)): State<(Arc<Auth>, Arc<Operators>)>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    match &operators.token {
        Some(token) => check_token(&auth, token, request.headers(), request.extensions()).await?,
        None if request.method() == Method::GET => operators.local.admit_visitor(request.headers())?,
        // A page of another site may not send a form, either.
        None => operators.local.admit(request.headers())?,
    }
    Ok(next.run(request).await)
}

async fn check_token(
    auth: &Auth,
    token: &SecretString,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<(), ApiError> {
    if bearer(headers).is_ok_and(|given| is_same(token, given)) {
        return Ok(());
    }
    let detail = "Send the operator's token, as `Authorization: Bearer …`.";
    let suspicion =
        if headers.contains_key(header::AUTHORIZATION) { Suspicion::Guess } else { Suspicion::Harmless };
    let refusal = Refusal::unproven(suspicion, detail);
    Err(auth.refuse(refusal, Client::of(extensions, headers, auth.proxies())).await)
}
