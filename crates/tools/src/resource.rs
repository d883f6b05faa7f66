//! What calls must not use side by side.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Owner, field};

/// A thing that one call at a time may use, as a tool declares it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Resource {
    /// The same for every call.
    Named {
        /// Its name.
        name: String,
        /// Whether each owner has one of their own.
        #[serde(skip, default)]
        per_owner: bool,
    },
    /// What a field of the call's input says: a file, an account, the host of a URL. A call without the field takes none.
    Input {
        /// The field; `a.b` is a path.
        field: String,
        /// What of its value counts.
        part: ResourcePart,
    },
}

/// What of a value names the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResourcePart {
    /// All of it.
    Whole,
    /// The host of the URL that it is; all of it where it is none.
    Host,
}

/// The lock of one resource. What an input says never takes the lock of a name, whatever it says.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResourceKey {
    /// Who says the name.
    #[serde(skip_serializing_if = "NamedBy::is_settings", default)]
    pub named_by: NamedBy,
    /// The resource's name, or the value that stands for it.
    pub name: String,
    /// Whose it is, where each owner has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub owner: Option<Owner>,
}

/// Who says what a resource is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamedBy {
    /// The operator, or the tool itself.
    #[default]
    Settings,
    /// The input of the call.
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
    /// One for the whole deployment.
    pub fn named(name: impl Into<String>) -> Self {
        Self::Named { name: name.into(), per_owner: false }
    }

    /// One for each owner.
    pub fn per_owner(name: impl Into<String>) -> Self {
        Self::Named { name: name.into(), per_owner: true }
    }

    /// What this field of the input says.
    pub fn input(field: impl Into<String>) -> Self {
        Self::Input { field: field.into(), part: ResourcePart::Whole }
    }

    /// The lock that a call with this input takes; `None` where it takes none.
    pub fn key(&self, input: &Value, owner: &Owner) -> Option<ResourceKey> {
        match self {
            Self::Named { name, per_owner } => {
                let owner = per_owner.then(|| owner.clone());
                Some(ResourceKey { named_by: NamedBy::Settings, name: name.clone(), owner })
            }
            Self::Input { field, part } => {
                let name = field::texts(input, field).into_iter().next()?;
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

/// The host of a URL, in lower case.
fn host(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = match host.strip_prefix('[') {
        Some(address) => address.split(']').next()?,
        None => host.split(':').next()?,
    };
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
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
        assert_ne!(of_input, by_name, "the database knows a lock by this");
        assert_eq!(by_name, json!({"name": "files"}), "as earlier builds write it");
        let read: ResourceKey = serde_json::from_value(of_input).unwrap();
        assert_eq!(read.named_by, NamedBy::Input);
    }

    #[test]
    fn what_each_owner_has_is_not_shared() {
        let notes = Resource::per_owner("notes");
        let of = |owner| notes.key(&json!({}), &Owner::new(owner));
        assert_ne!(of("alice"), of("bob"));
        assert_eq!(
            Resource::named("x").key(&json!({}), &Owner::new("alice")),
            Resource::named("x").key(&json!({}), &Owner::new("bob"))
        );
    }
}
