//! The settings about owners and their authentication.
//!
//! Invariant: no combination of settings leaves a server open that was meant to ask people who they are.

use std::net::IpAddr;

use axum::http::{HeaderName, Uri, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Config, text::NonEmpty, value::Value};

/// The authentication of owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthKind {
    /// They are not: everybody is the same owner.
    None,
    /// By bearer tokens.
    Token,
    /// By JSON Web Tokens.
    Jwt,
    /// By a header of the proxy in front.
    Header,
}

/// The name of the header where a proxy names the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserHeader(pub HeaderName);

/// A user with more in the settings than a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserSettings {
    /// The groups that the user is in, besides those that a JSON Web Token names.
    pub groups: Vec<String>,
}

/// A user as a table of the file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "User")]
pub(super) struct UserTable {
    /// The groups that the user is in, besides those that a JSON Web Token names.
    #[serde(default)]
    groups: Vec<NonEmpty>,
}

impl From<UserTable> for UserSettings {
    fn from(table: UserTable) -> Self {
        Self { groups: table.groups.into_iter().map(|NonEmpty(group)| group).collect() }
    }
}

impl AuthKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Token => "token",
            Self::Jwt => "jwt",
            Self::Header => "header",
        }
    }
}

impl Value for UserHeader {
    fn name() -> String {
        "HEADER".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        let name: HeaderName =
            text.trim().parse().map_err(|_| format!("{text:?} is not the name of a header"))?;
        let others = [header::AUTHORIZATION, header::COOKIE, header::HOST, header::ORIGIN, header::FORWARDED];
        if others.contains(&name) || name == "x-forwarded-for" {
            return Err(format!(
                "{name} has another meaning; name the header where your proxy names the user"
            ));
        }
        Ok(Self(name))
    }

    fn show(&self) -> Option<toml::Value> {
        Some(self.0.as_str().into())
    }
}

/// Checks that the settings go together. The error has the key of a setting, and its fault.
pub(super) fn check(config: &Config) -> Result<(), (&'static str, String)> {
    let auth = config.auth.as_str();
    if config.auth != AuthKind::Token && !config.tokens.is_empty() {
        let words = format!(
            "there are tokens but auth is {auth}, so nobody would be asked for one; set auth to token"
        );
        return Err(("tokens", words));
    }
    let about_jwt = [
        ("jwks_url", config.jwks_url.is_some()),
        ("jwt_secret", config.jwt_secret.is_some()),
        ("jwt_issuer", config.jwt_issuer.is_some()),
        ("jwt_audience", !config.jwt_audience.is_empty()),
        ("jwt_groups_claim", config.jwt_groups_claim.is_some()),
    ];
    if config.auth != AuthKind::Jwt
        && let Some((key, _)) = about_jwt.into_iter().find(|(_, is_set)| *is_set)
    {
        return Err((key, format!("it is for auth = jwt, and auth is {auth}; set auth to jwt")));
    }
    if config.auth != AuthKind::Header && config.user_header.is_some() {
        return Err(("user_header", format!("auth is {auth}; leave out one of them, or set auth to header")));
    }
    match config.auth {
        AuthKind::None if !config.bind.ip.is_loopback() && !config.insecure_bind => Err((
            "bind",
            "auth is none, so everybody who reaches this address could read every chat and use the model at your \
             cost. Set auth to token, or listen on 127.0.0.1, or say insecure_bind = true \
             (FERMATA_INSECURE_BIND=true, --insecure-bind true) if that is what you want"
                .into(),
        )),
        AuthKind::Token if config.tokens.is_empty() => Err((
            "auth",
            "auth is token but there are no tokens; set FERMATA_TOKENS to owner:token,owner:token".into(),
        )),
        AuthKind::Jwt => check_jwt(config),
        AuthKind::Header if config.user_header.is_none() => Err((
            "auth",
            "auth is header but no header is set; set FERMATA_USER_HEADER to the header where your proxy names the user".into(),
        )),
        AuthKind::Header if config.trusted_proxies.is_empty() => Err((
            "user_header",
            "without trusted_proxies everybody could say who they are; set FERMATA_TRUSTED_PROXIES to the addresses of your proxy".into(),
        )),
        AuthKind::None | AuthKind::Token | AuthKind::Header => Ok(()),
    }
}

fn check_jwt(config: &Config) -> Result<(), (&'static str, String)> {
    match (&config.jwks_url, &config.jwt_secret) {
        (None, None) => Err((
            "auth",
            "auth is jwt but no key checks the tokens; set FERMATA_JWKS_URL to where their issuer publishes its \
             keys, or FERMATA_JWT_SECRET"
                .into(),
        )),
        (Some(_), Some(_)) => {
            Err(("jwt_secret", "jwks_url is also set; keep the one that signs your tokens".into()))
        }
        (Some(url), None) if !is_safe(&url.0) => Err((
            "jwks_url",
            "it must begin with https://, because a person who changes the keys on their way can be any user; http:// is for this \
             machine alone"
                .into(),
        )),
        (Some(_), None) | (None, Some(_)) => Ok(()),
    }
}

/// Returns whether nobody between here and the URL's host can change the response.
fn is_safe(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_here = host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    uri.scheme_str() == Some("https") || is_here
}
