//! Scopes: the later calls that a person's "always" covers.
//!
//! A tool proposes scopes for an input, and a scope covers a call if the tool proposes the same scope for the call's input. So a scope
//! covers the call that it was proposed for, and no second rule says which other calls it covers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

/// A set of calls that a person can allow together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scope {
    /// The name of the scope, which is unique among the scopes of its tool.
    pub id: String,
    /// The calls in a word or two, for a button.
    pub label: String,
    /// The calls in words.
    pub covers: String,
}

impl Scope {
    /// The id of the scope that covers every call of a tool.
    pub const TOOL: &'static str = "tool";

    /// Creates a scope.
    pub fn new(id: impl Into<String>, label: impl Into<String>, covers: impl Into<String>) -> Self {
        Self { id: id.into(), label: label.into(), covers: covers.into() }
    }

    /// Returns the scope of all calls of a tool.
    pub fn tool(tool: &str) -> Self {
        Self::new(Self::TOOL, tool, format!("every call of {tool}"))
    }

    /// Returns the scope of all calls of the tools of an MCP server.
    pub fn server(server: &str) -> Self {
        Self::new(
            format!("server:{server}"),
            format!("all tools of {server}"),
            format!("every call of the tools that the MCP server {server} has now"),
        )
    }

    /// Returns the scope of all calls of a tool with a URL of this host and port and any path; `None` if the URL names no host.
    pub fn host(tool: &str, url: &Url) -> Option<Self> {
        let mut host = url.host_str().filter(|host| !host.is_empty())?.to_owned();
        if let Some(port) = url.port() {
            host = format!("{host}:{port}");
        }
        Some(Self::new(format!("host:{host}"), host.as_str(), format!("every call of {tool} for {host}")))
    }

    /// Returns the scope of all calls of a tool with a file in this file's folder, not in the folders below it; `None` if the path can be
    /// read in more than one way.
    pub fn folder(tool: &str, path: &str) -> Option<Self> {
        let (folder, file) = path.rsplit_once('/')?;
        let is_plain = |name: &str| {
            !matches!(name, "" | "." | "..")
                && name.trim() == name
                && !name.contains(|c: char| c.is_control() || matches!(c, '\\' | '%' | '~' | '*'))
        };
        let is_absolute = folder.is_empty() || folder.starts_with('/');
        if !is_absolute || !is_plain(file) || !folder.split('/').skip(1).all(is_plain) {
            return None;
        }
        let folder = if folder.is_empty() { "/" } else { folder };
        let covers = format!("every call of {tool} for a file in {folder}, not in the folders below it");
        Some(Self::new(format!("folder:{folder}"), folder, covers))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn host(url: &str) -> Option<String> {
        Scope::host("fetch", &Url::parse(url).unwrap()).map(|scope| scope.id)
    }

    #[test]
    fn the_scope_of_a_url_is_its_host_and_port() {
        for (url, expected) in [
            ("https://docs.example.org/a?b#c", Some("host:docs.example.org")),
            ("http://docs.example.org/", Some("host:docs.example.org")),
            ("https://DOCS.example.org:443/", Some("host:docs.example.org")),
            ("https://docs.example.org:8443/", Some("host:docs.example.org:8443")),
            ("https://docs.example.org@evil.example/", Some("host:evil.example")),
            ("https://evil.example/docs.example.org", Some("host:evil.example")),
            ("https://0x7f.1/", Some("host:127.0.0.1")),
            ("https://[::1]:80/", Some("host:[::1]:80")),
            ("data:text/plain,docs.example.org", None),
            ("file:///etc/passwd", None),
        ] {
            assert_eq!(host(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn the_scope_of_a_path_is_its_folder_unless_the_path_is_doubtful() {
        for (path, expected) in [
            ("/srv/safe/a.txt", Some("folder:/srv/safe")),
            ("/a.txt", Some("folder:/")),
            ("/srv/safe/../etc/passwd", None),
            ("/srv/safe/./a.txt", None),
            ("/srv//safe/a.txt", None),
            ("/srv/safe/", None),
            ("/srv/safe/..", None),
            ("/srv/%2e%2e/a.txt", None),
            ("/srv/safe\\..\\a.txt", None),
            ("/srv/ safe/a.txt", None),
            ("/srv/safe/a\0.txt", None),
            ("srv/a.txt", None),
            ("~/a.txt", None),
            ("file:///srv/a.txt", None),
            ("a.txt", None),
            ("", None),
        ] {
            assert_eq!(Scope::folder("read", path).map(|scope| scope.id).as_deref(), expected, "{path:?}");
        }
    }

    proptest! {
        #[test]
        fn two_urls_share_a_scope_only_if_they_share_host_and_port(
            one in "https?://[a-c]{1,2}(\\.[a-b])?(:[1-9][0-9]?)?/[a-c/]{0,3}",
            other in "https?://[a-c]{1,2}(\\.[a-b])?(:[1-9][0-9]?)?/[a-c/]{0,3}",
        ) {
            let (one, other) = (Url::parse(&one).unwrap(), Url::parse(&other).unwrap());
            let is_same_host = (one.host_str(), one.port()) == (other.host_str(), other.port());
            let is_same_scope = Scope::host("t", &one).unwrap().id == Scope::host("t", &other).unwrap().id;
            prop_assert_eq!(is_same_scope, is_same_host);
        }

        #[test]
        fn two_paths_share_a_scope_only_if_they_are_in_one_folder(
            one in "(/[a-c.]{0,3}){1,4}", other in "(/[a-c.]{0,3}){1,4}",
        ) {
            let scopes = (Scope::folder("t", &one), Scope::folder("t", &other));
            if let (Some(first), Some(second)) = scopes {
                let parent = |path: &str| std::path::Path::new(path).parent().unwrap().to_owned();
                prop_assert_eq!(first.id == second.id, parent(&one) == parent(&other));
            }
        }
    }
}
