//! Owners and their authentication, as settings.

use axum::http::{HeaderName, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{secret::UserToken, values::NonEmpty};

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
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", inline, title = "HEADER")]
pub struct UserHeader(pub HeaderName);

/// A user with more in the settings than a token, as a table of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "User")]
pub struct UserSettings {
    /// The bearer token of the user, of at least 16 characters, or its hash as sha256:<64 hexadecimal digits>. For auth = token.
    pub token: Option<UserToken>,
    /// The groups that the user is in, besides those that a JSON Web Token or a proxy names.
    #[serde(default)]
    pub groups: Vec<NonEmpty>,
    /// The address for e-mail about approvals.
    pub email: Option<NonEmpty>,
}

impl AuthKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Token => "token",
            Self::Jwt => "jwt",
            Self::Header => "header",
        }
    }
}

impl TryFrom<String> for UserHeader {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
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
}

impl From<UserHeader> for String {
    fn from(UserHeader(name): UserHeader) -> Self {
        name.to_string()
    }
}
