//! Settings that nobody may see. Neither a report nor an error nor `Debug` shows them.

use fermata_peers::{ClusterKey, is_guessable};
use secrecy::{ExposeSecret, SecretString};

use super::value::Value;
use crate::owner::read_owner;

/// A text of at least this many bytes that is not shown. If there is a minimum, it must not be easy to guess.
#[derive(Clone, Debug)]
pub struct Secret<const MIN: usize = 0>(pub SecretString);

/// An owner and the owner's bearer token.
#[derive(Clone, Debug)]
pub struct Token {
    /// The owner.
    pub owner: String,
    /// The token.
    pub secret: SecretString,
}

/// The minimum length of a token. A shorter one could be guessed.
pub(super) const MIN_TOKEN: usize = 16;
/// The minimum length of a secret that signs tokens. It must not be easier to guess than the hash that it keys (RFC 7518, 3.2).
pub(super) const MIN_SIGNING_SECRET: usize = 32;
/// The least number of different characters in such a secret. A random one of sixteen hexadecimal digits has about ten.
const MIN_DIFFERENT: usize = 6;
/// The text that a report shows instead of a secret.
const HIDDEN: &str = "(secret)";

impl<const MIN: usize> PartialEq for Secret<MIN> {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }
}

impl<const MIN: usize> Value for Secret<MIN> {
    fn name() -> String {
        "SECRET".into()
    }

    fn read(text: &str) -> Result<Self, String> {
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

    fn show(&self) -> Option<toml::Value> {
        Some(HIDDEN.into())
    }
}

impl Value for ClusterKey {
    fn name() -> String {
        "KEY".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|error| error.to_string())
    }

    fn show(&self) -> Option<toml::Value> {
        Some(HIDDEN.into())
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.owner == other.owner && self.secret.expose_secret() == other.secret.expose_secret()
    }
}

impl Value for Token {
    fn name() -> String {
        "OWNER:TOKEN".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some((owner, secret)) if !owner.trim().is_empty() && !secret.trim().is_empty() => {
                let secret = secret.trim();
                let named = read_owner(owner).map_err(|fault| format!("the name of an owner {fault}"))?;
                let length = secret.chars().count();
                if length < MIN_TOKEN {
                    return Err(format!(
                        "the token of {owner} has {length} characters and could be guessed; it needs at least {MIN_TOKEN}; make one \
                         with: openssl rand -hex 24"
                    ));
                }
                if is_guessable(secret.as_bytes(), MIN_DIFFERENT) {
                    return Err(format!(
                        "the token of {owner} is too regular and could be guessed; make one with: openssl rand -hex 24"
                    ));
                }
                Ok(Self { owner: named.as_str().into(), secret: secret.into() })
            }
            Some(_) | None => Err("each entry must be owner:token".into()),
        }
    }

    fn show(&self) -> Option<toml::Value> {
        Some(format!("{}:{HIDDEN}", self.owner).into())
    }
}
