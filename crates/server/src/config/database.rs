//! The addresses of the database and Redis, as settings. Reports, the log and errors show the host and not the
//! password.

use std::{fmt, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::url::{Url, serialize_masked};

/// A SQLite file, as `sqlite://fermata.db`, or a PostgreSQL database, as `postgres://user:password@host/database`.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, title = "URL")]
pub struct DatabaseUrl(String);

/// A Redis server, as `redis://:password@host:6379`, or behind TLS as `rediss://…`.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, title = "URL")]
pub struct RedisUrl(#[serde(serialize_with = "serialize_masked")] String);

/// The place outside of the database that gets a copy of each checkpoint of the audit.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", inline, title = "FILE")]
pub enum AuditAnchor {
    /// A file.
    File(PathBuf),
}

// === impl DatabaseUrl ===

impl DatabaseUrl {
    /// All of it, the password included.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `true` if several instances may share the database.
    pub fn is_postgres(&self) -> bool {
        has_scheme(&self.0, &["postgres", "postgresql"])
    }

    fn masked(&self) -> String {
        // A SQLite file has no password, and its name may have any character.
        if self.is_postgres() { Url::masked(&self.0) } else { self.0.clone() }
    }
}

/// Takes it as it is; opening it says whether it can be used.
impl From<&str> for DatabaseUrl {
    fn from(url: &str) -> Self {
        Self(url.into())
    }
}

impl TryFrom<String> for DatabaseUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let url = Self::from(text.trim());
        if url.is_postgres() {
            check_place(&url.0, "postgres://user:password@host/database")?;
        } else if !has_scheme(&url.0, &["sqlite"]) {
            return Err("it must begin with sqlite: or postgres:, such as sqlite://fermata.db or \
                        postgres://user:password@host/database"
                .into());
        }
        Ok(url)
    }
}

impl Serialize for DatabaseUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.masked())
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DatabaseUrl").field(&self.masked()).finish()
    }
}

// === impl RedisUrl ===

impl RedisUrl {
    /// All of it, the password included.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RedisUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let text = text.trim();
        if !has_scheme(text, &["redis", "rediss"]) {
            return Err(
                "it must begin with redis:// or rediss://, such as redis://:password@host:6379".into()
            );
        }
        check_place(text, "redis://:password@host:6379")?;
        Ok(Self(text.into()))
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisUrl").field(&Url::masked(&self.0)).finish()
    }
}

// === impl AuditAnchor ===

impl TryFrom<String> for AuditAnchor {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.trim() {
            "" => Err("it names no file".into()),
            channel if channel.starts_with("channel:") => {
                Err("a channel cannot get checkpoints yet; name a file".into())
            }
            path => Ok(Self::File(path.into())),
        }
    }
}

impl From<AuditAnchor> for String {
    fn from(AuditAnchor::File(path): AuditAnchor) -> Self {
        path.to_string_lossy().into_owned()
    }
}

fn has_scheme(url: &str, schemes: &[&str]) -> bool {
    url.split_once(':').is_some_and(|(scheme, _)| schemes.contains(&scheme))
}

/// A password with a character that ends the host would be read as something else, and shown as such.
fn check_place(url: &str, example: &str) -> Result<(), String> {
    let (_, rest) = url.split_once("://").ok_or_else(|| format!("write it as {example}"))?;
    let (place, behind) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let address = place.rsplit('@').next().unwrap_or_default();
    let port = address.rsplit(']').next().and_then(|end| end.rsplit_once(':')).map_or("", |(_, port)| port);
    let is_cut =
        (behind.contains('@') && !place.contains('@')) || !(port.is_empty() || port.parse::<u16>().is_ok());
    if is_cut {
        return Err("its host and port are ambiguous; a password that has / ? # or @ in it must have them \
                    encoded, / as %2F, ? as %3F, # as %23 and @ as %40"
            .into());
    }
    Ok(())
}
