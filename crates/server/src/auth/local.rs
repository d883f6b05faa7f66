//! What keeps foreign web pages away from a server that asks nobody who they are.
//!
//! A browser sends requests to this machine for any page that asks it to. Three headers give such a page away, and a page
//! cannot forge them: `Origin` names it on every cross-site post, `Sec-Fetch-Site` says of the requests without `Origin` that they
//! are another site's, and `Host` is the page's own name if it has that name resolve to this machine (DNS rebinding). Programs that
//! send none of them are not what this is about.

use std::net::IpAddr;

use axum::http::{HeaderMap, header, header::AsHeaderName};

use crate::{
    config::{HostName, Origin},
    error::{ApiError, Code},
};

/// Admits this machine's own pages and programs.
#[derive(Debug)]
pub struct LocalOnly {
    friends: Vec<Origin>,
    hosts: Vec<HostName>,
}

/// The header in which browsers say how the page that asks is related to this server.
const FETCH_SITE: &str = "sec-fetch-site";
/// The header in which browsers say whether the answer is to be shown as a page of its own.
const FETCH_MODE: &str = "sec-fetch-mode";

impl LocalOnly {
    /// Pages of `friends` are admitted too; `hosts` are names of this server besides theirs.
    pub fn new(friends: Vec<Origin>, hosts: Vec<HostName>) -> Self {
        Self { friends, hosts }
    }

    /// Refuses what a foreign page sent.
    ///
    /// # Errors
    /// 403, with what the operator can do about it.
    pub fn admit(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        self.check_host(headers)?;
        match text(headers, header::ORIGIN) {
            Some(origin) if self.knows_origin(origin, text(headers, header::HOST)) => Ok(()),
            Some(origin) => Err(ApiError::new(
                Code::ForeignPage,
                format!(
                    "This server asks for no token, so pages from {origin:?} may not use it. Its operator can add that \
                     origin to cors_origins, or set auth to token."
                ),
            )),
            None if text(headers, FETCH_SITE) == Some("cross-site") => Err(foreign_site()),
            None => Ok(()),
        }
    }

    /// The same for what a person may come to by a link from anywhere: the server's own pages.
    ///
    /// # Errors
    /// 403, with what the operator can do about it.
    pub fn admit_visitor(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        if text(headers, FETCH_MODE) == Some("navigate") {
            return self.check_host(headers);
        }
        self.admit(headers)
    }

    fn check_host(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(host) = text(headers, header::HOST).filter(|host| !self.knows_host(host)) else {
            return Ok(());
        };
        Err(ApiError::new(
            Code::ForeignPage,
            format!(
                "This server asks for no token, so it answers only under the names localhost and 127.0.0.1, not under \
                 {host:?}. Its operator can add that name to hosts (FERMATA_HOSTS), or set auth to token."
            ),
        ))
    }

    fn knows_host(&self, host: &str) -> bool {
        let name = without_port(host);
        is_loopback(name)
            || is_address(name)
            || self.hosts.iter().any(|known| known.is_named_by(host))
            || self.friends.iter().any(|friend| friend.authority().eq_ignore_ascii_case(host))
    }

    fn knows_origin(&self, origin: &str, host: Option<&str>) -> bool {
        let Some(origin) = Origin::parse(origin) else {
            return false;
        };
        let same_host = host.is_some_and(|host| origin.authority().eq_ignore_ascii_case(host));
        same_host || is_loopback(without_port(origin.authority())) || self.friends.contains(&origin)
    }
}

fn foreign_site() -> ApiError {
    ApiError::new(
        Code::ForeignPage,
        "This server asks for no token, so pages of other sites may not use it. Its operator can add their origins to \
         cors_origins, or set auth to token.",
    )
}

/// A header as text; what is no text is known to nobody.
fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// The name or address of a `Host`; an address in brackets keeps them.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        Some(_) | None => host,
    }
}

fn is_loopback(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || address(&name).is_some_and(|address| address.is_loopback())
}

/// A name that somebody else owns cannot be an address.
fn is_address(name: &str) -> bool {
    address(name).is_some()
}

fn address(name: &str) -> Option<IpAddr> {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    bare.parse().ok()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    fn admits(local: &LocalOnly, host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().expect("a host"));
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().expect("an origin"));
        }
        local.admit(&headers).is_ok()
    }

    #[test]
    fn programs_and_pages_of_this_machine_are_admitted() {
        let local = LocalOnly::new(vec![], vec![]);
        for (host, origin) in [
            ("127.0.0.1:3000", None),
            ("localhost:3000", Some("http://localhost:3000")),
            ("127.0.0.1:3000", Some("http://localhost:5173")),
            ("localhost", Some("http://127.0.0.1:8080")),
            ("[::1]:3000", Some("http://[::1]:3000")),
            ("app.localhost:3000", None),
            ("192.168.1.7:3000", Some("http://192.168.1.7:3000")),
        ] {
            assert!(admits(&local, host, origin), "{host} {origin:?}");
        }
    }

    #[test]
    fn foreign_pages_are_not() {
        let local = LocalOnly::new(vec![], vec![]);
        for (host, origin) in [
            ("127.0.0.1:3000", Some("https://evil.example")),
            ("127.0.0.1:3000", Some("null")),
            ("127.0.0.1:3000", Some("http://localhost.evil.example")),
            ("127.0.0.1:3000", Some("file://")),
            ("evil.example:3000", None),
            ("evil.example:3000", Some("http://evil.example:3000")),
            ("127.0.0.1.evil.example", None),
            ("notlocalhost:3000", None),
        ] {
            assert!(!admits(&local, host, origin), "{host} {origin:?}");
        }
    }

    #[test]
    fn origins_that_the_operator_names_are_friends_as_pages_and_as_hosts() {
        let friend = Origin::parse("https://chat.example.com").expect("an origin");
        let local = LocalOnly::new(vec![friend], vec![]);
        assert!(admits(&local, "127.0.0.1:3000", Some("https://chat.example.com")));
        assert!(admits(&local, "chat.example.com", Some("https://chat.example.com")));
        assert!(!admits(&local, "127.0.0.1:3000", Some("https://chat.example.com:8443")));
    }

    #[test]
    fn names_that_the_operator_lists_are_hosts_and_no_others() {
        let hosts = ["chat.example.com", "fermata:3000"].map(|name| HostName::parse(name).expect("a name"));
        let local = LocalOnly::new(vec![], hosts.to_vec());
        for (host, origin) in [
            ("chat.example.com", None),
            ("Chat.Example.com:8443", Some("http://chat.example.com:8443")),
            ("fermata:3000", None),
            ("localhost:3000", None),
        ] {
            assert!(admits(&local, host, origin), "{host} {origin:?}");
        }
        for (host, origin) in [
            ("evil.example", Some("http://evil.example")),
            ("fermata:3001", None),
            ("fermata", None),
            ("x.chat.example.com", None),
            ("chat.example.com.evil.example", None),
            ("chat.example.com", Some("https://evil.example")),
        ] {
            assert!(!admits(&local, host, origin), "{host} {origin:?}");
        }
    }

    #[test]
    fn what_another_site_asks_for_without_an_origin_is_refused_but_a_link_to_a_page() {
        let local = LocalOnly::new(vec![], vec![]);
        let headers = |site: &str, mode: &str, host: &str| {
            HeaderMap::from_iter([
                (header::HOST, host.parse().expect("a host")),
                (HeaderName::from_static(FETCH_SITE), site.parse().expect("a site")),
                (HeaderName::from_static(FETCH_MODE), mode.parse().expect("a mode")),
            ])
        };
        for (site, mode, used, visited) in [
            ("cross-site", "no-cors", false, false),
            ("cross-site", "navigate", false, true),
            ("same-origin", "cors", true, true),
            ("same-site", "no-cors", true, true),
            ("none", "navigate", true, true),
        ] {
            let headers = headers(site, mode, "localhost:3000");
            assert_eq!(local.admit(&headers).is_ok(), used, "{site} {mode}");
            assert_eq!(local.admit_visitor(&headers).is_ok(), visited, "{site} {mode}");
        }
        assert!(local.admit_visitor(&headers("none", "navigate", "evil.example")).is_err());
    }
}
