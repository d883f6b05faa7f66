//! Settings that nobody may see. Neither a report nor an error nor `Debug` shows them.

use std::fmt;

use fermata_peers::{ClusterKey, is_guessable};
use fermata_store::AuditKey;
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::{hex, owner::read_owner};

/// A text of at least this many bytes that is not shown. If there is a minimum, it must not be easy to guess.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, title = "SECRET")]
pub struct Secret<const MIN: usize = 0>(#[serde(serialize_with = "hide")] pub SecretString);

/// The key that the instances of a deployment share.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, title = "KEY")]
pub struct SharedKey(#[serde(serialize_with = "hide")] pub ClusterKey);

/// The key that signs checkpoints of the audit.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, title = "KEY")]
pub struct SigningKey(#[serde(serialize_with = "hide")] pub AuditKey);

/// An owner and the owner's bearer token, or the hash of the token as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, title = "OWNER:TOKEN")]
pub struct Token {
    /// The owner.
    pub owner: String,
    /// The hash of the token.
    sha256: [u8; 32],
}

/// The bearer token in the table of a user. Only its hash is kept.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline)]
pub struct UserToken([u8; 32]);

/// The minimum length of a token. A shorter one could be guessed.
pub(super) const MIN_TOKEN: usize = 16;
/// The minimum length of a secret that signs tokens. It must not be easier to guess than the hash that it keys (RFC 7518, 3.2).
pub(super) const MIN_SIGNING_SECRET: usize = 32;
/// The least number of different characters in such a secret. A random one of sixteen hexadecimal digits has about ten.
const MIN_DIFFERENT: usize = 6;
/// The text that a report shows instead of a secret.
const HIDDEN: &str = "(secret)";

/// Returns whether a value for a report leaves something out.
pub(super) fn is_masked(value: &toml::Value) -> bool {
    value.to_string().contains(HIDDEN)
}

fn hide<T, S: Serializer>(_: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(HIDDEN)
}

impl<const MIN: usize> PartialEq for Secret<MIN> {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }
}

impl<const MIN: usize> TryFrom<String> for Secret<MIN> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.len() < MIN {
            return Err(format!(
                "it is shorter than {MIN} bytes and could be guessed; make one with: openssl rand -hex 32"
            ));
        }
        if MIN > 0 && is_guessable(text.as_bytes(), MIN_DIFFERENT) {
            return Err("it is too regular and could be guessed; make one with: openssl rand -hex 32".into());
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for SharedKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        ClusterKey::parse(&text).map(Self).map_err(|error| error.to_string())
    }
}

impl TryFrom<String> for SigningKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        AuditKey::parse(&text).map(Self).map_err(|error| error.to_string())
    }
}

impl Token {
    /// Returns whether this is the token, after a time that does not depend on it.
    pub fn is(&self, given: &str) -> bool {
        self.sha256.ct_eq(Sha256::digest(given).as_slice()).into()
    }

    /// Returns whether two owners have the same token.
    pub(super) fn is_same_secret(&self, other: &Self) -> bool {
        self.sha256 == other.sha256
    }
}

/// Returns the hash of a token, which is given as it is or as its hash, or a predicate that describes its fault.
fn token_hash(token: &str) -> Result<[u8; 32], String> {
    if let Some(digits) = token.strip_prefix("sha256:") {
        let hash = hex::decode(digits).and_then(|bytes| bytes.try_into().ok());
        return hash.ok_or_else(|| {
            "is no hash: it must be sha256: and 64 hexadecimal digits; make it with: printf %s TOKEN | sha256sum".into()
        });
    }
    let length = token.chars().count();
    if length < MIN_TOKEN {
        return Err(format!(
            "has {length} characters and could be guessed; it needs at least {MIN_TOKEN}; make one with: openssl rand -hex 24"
        ));
    }
    if is_guessable(token.as_bytes(), MIN_DIFFERENT) {
        return Err("is too regular and could be guessed; make one with: openssl rand -hex 24".into());
    }
    Ok(Sha256::digest(token).into())
}

impl UserToken {
    /// Returns the token as that of this owner.
    pub fn of(&self, owner: &str) -> Token {
        Token { owner: owner.to_owned(), sha256: self.0 }
    }
}

impl TryFrom<String> for UserToken {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        token_hash(text.trim()).map(Self).map_err(|fault| format!("the token {fault}"))
    }
}

impl fmt::Debug for UserToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserToken")
    }
}

impl TryFrom<String> for Token {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.split_once(':') {
            Some((owner, secret)) if !owner.trim().is_empty() && !secret.trim().is_empty() => {
                let secret = secret.trim();
                let named = read_owner(owner).map_err(|fault| format!("the name of an owner {fault}"))?;
                let sha256 = token_hash(secret).map_err(|fault| format!("the token of {owner} {fault}"))?;
                Ok(Self { owner: named.as_str().into(), sha256 })
            }
            Some(_) | None => Err("each entry must be owner:token".into()),
        }
    }
}

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}:{HIDDEN}", self.owner))
    }
}
