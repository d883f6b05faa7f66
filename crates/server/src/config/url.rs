//! A URL as a setting. Reports, the log and errors hide the parts of it that may be a key.

use std::fmt;

use axum::http::Uri;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// An `http:` or `https:` URL.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, title = "URL")]
pub struct Url(#[serde(serialize_with = "serialize_masked")] pub String);

// === impl Url ===

impl Url {
    /// Takes it to the letter.
    ///
    /// # Errors
    /// Returns the form that it should have.
    pub(super) fn exact(text: &str) -> Result<Self, String> {
        let uri: Uri =
            text.trim().parse().map_err(|_| "it is not a URL, such as https://api.example.com/v1")?;
        match (uri.scheme_str(), uri.host()) {
            (Some("http" | "https"), Some(_)) if has_odd_port(&uri) => {
                Err("its port is not a number; a password that has / ? or # in it must have them encoded"
                    .into())
            }
            (Some("http" | "https"), Some(_)) => Ok(Self(text.trim().into())),
            (Some(_) | None, _) => Err("it must be a URL that begins with http:// or https://".into()),
        }
    }

    /// Hides the secrets of a URL whose path may also have a key.
    pub(super) fn masked_with_path(url: &str) -> String {
        let masked = Self::masked(url);
        let host = masked.find("://").map_or(0, |at| at + 3);
        let end = masked[host..].find(['?', '#']).map_or(masked.len(), |at| host + at);
        match masked[host..end].find('/').map(|at| host + at + 1) {
            Some(path) if path < end => format!("{}(secret){}", &masked[..path], &masked[end..]),
            Some(_) | None => masked,
        }
    }

    /// Hides the secrets of a URL: a key may stand before the host, as a value of the query, or behind all of it.
    pub(crate) fn masked(url: &str) -> String {
        let (rest, fragment) = cut(url, "#");
        let (rest, query) = cut(rest, "?");
        let (scheme, rest) = rest.find("://").map_or(("", rest), |at| rest.split_at(at + 3));
        let (user, place) = rest.rsplit_once('@').map_or(("", rest), |(_, place)| ("(secret)@", place));
        let query = query.map(|query| query.split('&').map(masked_pair).collect::<Vec<_>>().join("&"));
        let query = query.map_or_else(String::new, |query| format!("?{query}"));
        let fragment = fragment.map_or("", |_| "#(secret)");
        format!("{scheme}{user}{place}{query}{fragment}")
    }
}

impl TryFrom<String> for Url {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::exact(text.trim().trim_end_matches('/'))
    }
}

/// Shows a URL without what may be a secret, for `#[serde(serialize_with)]`.
pub(super) fn serialize_masked<S: Serializer>(url: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&Url::masked(url))
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Url").field(&Self::masked_with_path(&self.0)).finish()
    }
}

/// If a password has a character that ends the host, its beginning stands where the port should.
fn has_odd_port(uri: &Uri) -> bool {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let behind_user = authority.rsplit('@').next().unwrap_or_default();
    let behind_address = behind_user.rsplit(']').next().unwrap_or_default();
    behind_address.contains(':') && uri.port_u16().is_none()
}

fn cut<'a>(text: &'a str, at: &str) -> (&'a str, Option<&'a str>) {
    text.split_once(at).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn masked_pair(pair: &str) -> String {
    pair.split_once('=').map_or_else(|| "(secret)".into(), |(name, _)| format!("{name}=(secret)"))
}
