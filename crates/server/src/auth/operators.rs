//! To whom the operators' numbers are shown.
//!
//! They say how much a deployment is used and by which tools, which is nothing for those who use it. Where owners are told apart they
//! are therefore at an address of their own, or for those who have the operator's token.

use axum::{
    extract::{Request, State},
    http::{Extensions, HeaderMap, header},
    middleware::Next,
    response::Response,
};
use secrecy::SecretString;

use super::{Refusal, Way, bearer, is_same};
use crate::{
    App,
    auth::local::LocalOnly,
    client::Client,
    config::{AuthKind, Config},
    error::{ApiError, Code},
};

/// Who may see the numbers.
#[derive(Debug)]
pub struct Operators {
    /// What must be shown at either address, if there is such a token.
    token: Option<SecretString>,
    /// Whether they are shown at the main address without a token.
    is_open: bool,
    /// What keeps pages of other sites away from the operators' own address.
    local: LocalOnly,
}

impl Operators {
    /// As the settings say.
    pub fn build(config: &Config) -> Self {
        let is_open = match config.auth {
            AuthKind::None => config.operator_bind.is_none(),
            AuthKind::Token | AuthKind::Jwt | AuthKind::Header => false,
        };
        let local = LocalOnly::new(config.cors_origins.to_vec(), config.hosts.to_vec());
        Self { token: config.operator_token.as_ref().map(|token| token.0.clone()), is_open, local }
    }
}

/// Guards the numbers at the main address.
pub async fn guard(State(app): State<App>, request: Request, next: Next) -> Result<Response, ApiError> {
    let operators = app.operators();
    match (&operators.token, &app.auth().way) {
        (Some(token), _) => check_token(&app, token, request.headers(), request.extensions()).await?,
        (None, Way::None(local)) if operators.is_open => local.admit_visitor(request.headers())?,
        (None, _) => {
            return Err(ApiError::new(
                Code::NotFound,
                "The numbers are not shown here. The operator has them at the address operator_bind \
                 (FERMATA_OPERATOR_BIND), or with the token operator_token (FERMATA_OPERATOR_TOKEN).",
            ));
        }
    }
    Ok(next.run(request).await)
}

/// Guards the numbers at the operators' own address: whoever reaches it may see them, unless there is a token.
pub async fn guard_own_address(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let operators = app.operators();
    match &operators.token {
        Some(token) => check_token(&app, token, request.headers(), request.extensions()).await?,
        None => operators.local.admit_visitor(request.headers())?,
    }
    Ok(next.run(request).await)
}

async fn check_token(
    app: &App,
    token: &SecretString,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<(), ApiError> {
    if bearer(headers).is_ok_and(|given| is_same(token, given)) {
        return Ok(());
    }
    let detail = "Send the operator's token, as `Authorization: Bearer …`.";
    let refusal = match headers.contains_key(header::AUTHORIZATION) {
        true => Refusal::guess(detail),
        false => Refusal::anonymous(detail),
    };
    Err(app.auth().refuse(refusal, Client::of(extensions, headers, app.auth().proxies())).await)
}
