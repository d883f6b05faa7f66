//! Resources that calls must not use at the same time, and the keys of their locks.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Owner, field};

/// A resource that only one call at a time may use, as a tool or the settings declare it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Resource {
    /// A resource that all calls of the tool use.
    Named {
        /// The resource's name.
        name: String,
        /// True if each owner has a resource of this name.
        #[serde(skip, default)]
        per_owner: bool,
    },
    /// A resource that a field of the call's input names, such as a file, an account or the host of a URL. A call without the field
    /// uses no resource.
    Input {
        /// The field's path; `a.b` is the field `b` of the field `a`.
        field: String,
        /// The part of the field's value that names the resource.
        part: ResourcePart,
    },
}

/// The part of a field's value that names a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResourcePart {
    /// The whole value.
    Whole,
    /// The host of the URL; the whole value if it is not a URL.
    Host,
}

/// The key of a resource's lock. A key that comes from an input never equals one that comes from the settings.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResourceKey {
    /// The origin of the name.
    #[serde(skip_serializing_if = "NamedBy::is_settings", default)]
    pub named_by: NamedBy,
    /// The resource's name.
    pub name: String,
    /// The resource's owner, if each owner has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub owner: Option<Owner>,
}

/// The origin of a resource's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamedBy {
    /// The settings, or the tool itself.
    #[default]
    Settings,
    /// The call's input.
    Input,
}

// === impl NamedBy ===

impl NamedBy {
    fn is_settings(&self) -> bool {
        *self == Self::Settings
    }
}

// === impl Resource ===

impl Resource {
    /// Creates a resource that the whole deployment shares.
    pub fn named(name: impl Into<String>) -> Self {
        Self::Named { name: name.into(), per_owner: false }
    }

    /// Creates a resource that each owner has.
    pub fn per_owner(name: impl Into<String>) -> Self {
        Self::Named { name: name.into(), per_owner: true }
    }

    /// Creates a resource that the value of an input field names.
    pub fn input(field: impl Into<String>) -> Self {
        Self::Input { field: field.into(), part: ResourcePart::Whole }
    }

    /// Returns the key of the lock that a call with this input takes; `None` if it uses no resource.
    pub fn key(&self, input: &Value, owner: &Owner) -> Option<ResourceKey> {
        match self {
            Self::Named { name, per_owner } => {
                let owner = if *per_owner { Some(owner.clone()) } else { None };
                Some(ResourceKey { named_by: NamedBy::Settings, name: name.clone(), owner })
            }
            Self::Input { field, part } => {
                let value = field::values(input, field).into_iter().flatten().next()?;
                let name = field::text(value).into_owned();
                let name = match part {
                    ResourcePart::Whole => name,
                    ResourcePart::Host => host(&name).unwrap_or(name),
                };
                Some(ResourceKey { named_by: NamedBy::Input, name, owner: None })
            }
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named { name, .. } => f.write_str(name),
            Self::Input { field, part: ResourcePart::Whole } => write!(f, "input.{field}"),
            Self::Input { field, part: ResourcePart::Host } => write!(f, "host of input.{field}"),
        }
    }
}

/// Returns the host of a URL in lower case; `None` if the text is not a URL with a host.
fn host(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = match host.strip_prefix('[') {
        Some(address) => address.split(']').next()?,
        None => host.split(':').next()?,
    };
    if host.is_empty() { None } else { Some(host.to_ascii_lowercase()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(resource: &Resource, input: Value) -> Option<String> {
        resource.key(&input, &Owner::new("alice")).map(|key| key.name)
    }

    #[test]
    fn a_call_without_the_field_takes_no_lock() {
        let file = Resource::input("at.path");
        assert_eq!(key(&file, json!({"at": {"path": "a.txt"}})), Some("a.txt".into()));
        assert_eq!(key(&file, json!({"at": {"path": 7}})), Some("7".into()));
        assert_eq!(key(&file, json!({"path": "a.txt"})), None);
    }

    #[test]
    fn the_host_of_a_url_is_one_whatever_its_port_path_and_case() {
        let host = Resource::Input { field: "url".into(), part: ResourcePart::Host };
        for url in [
            "https://Example.com/a",
            "http://example.com:8080?x",
            "https://me:secret@example.com#y",
            "https://EXAMPLE.COM",
        ] {
            assert_eq!(key(&host, json!({ "url": url })), Some("example.com".into()), "{url}");
        }
        assert_eq!(key(&host, json!({"url": "https://[::1]:80/"})), Some("::1".into()));
        assert_eq!(key(&host, json!({"url": "no url"})), Some("no url".into()));
    }

    #[test]
    fn an_input_cannot_take_the_lock_of_a_name() {
        let alice = Owner::new("alice");
        let of_input = Resource::input("path").key(&json!({"path": "files"}), &alice).unwrap();
        let by_name = Resource::named("files").key(&json!({}), &alice).unwrap();
        assert_ne!(of_input, by_name);
        let (of_input, by_name) = (json!(of_input), json!(by_name));
        assert_ne!(of_input, by_name, "the database identifies a lock by its JSON");
        assert_eq!(by_name, json!({"name": "files"}));
        let read: ResourceKey = serde_json::from_value(of_input).unwrap();
        assert_eq!(read.named_by, NamedBy::Input);
    }

    #[test]
    fn a_resource_per_owner_is_not_shared() {
        let notes = Resource::per_owner("notes");
        let of = |owner| notes.key(&json!({}), &Owner::new(owner));
        assert_ne!(of("alice"), of("bob"));
        assert_eq!(
            Resource::named("x").key(&json!({}), &Owner::new("alice")),
            Resource::named("x").key(&json!({}), &Owner::new("bob"))
        );
    }
}
