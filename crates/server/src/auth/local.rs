//! What keeps foreign web pages away from a server that asks nobody who they are.
//!
//! A browser sends requests to this machine for any page that asks it to. Two headers give such a page away, and a page
//! cannot forge them: `Origin` names it on every cross-site post, and `Host` is its own name where it has that name
//! resolve to this machine (DNS rebinding). Programs that send neither are not what this is about.

use std::net::IpAddr;

use axum::http::{HeaderMap, header};

use crate::{
    config::Origin,
    error::{ApiError, Code},
};

/// Admits this machine's own pages and programs.
#[derive(Debug)]
pub struct LocalOnly {
    friends: Vec<Origin>,
    any_host: bool,
}

impl LocalOnly {
    /// `friends` are admitted too; `any_host` where the operator lets everybody in who reaches the port, under whatever
    /// name they do.
    pub fn new(friends: Vec<Origin>, any_host: bool) -> Self {
        Self { friends, any_host }
    }

    /// Refuses what a foreign page sent.
    ///
    /// # Errors
    /// 403, with what the operator can do about it.
    pub fn admit(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let host = text(header::HOST);
        if let Some(host) = host.filter(|host| !self.knows_host(host)) {
            return Err(ApiError::new(
                Code::ForeignPage,
                format!(
                    "This server asks for no token, so it answers only under the names localhost and 127.0.0.1, not under \
                 {host:?}. Its operator can add http://{host} or https://{host} to cors_origins, or set auth to token."
                ),
            ));
        }
        if let Some(origin) = text(header::ORIGIN).filter(|origin| !self.knows_origin(origin, host)) {
            return Err(ApiError::new(
                Code::ForeignPage,
                format!(
                    "This server asks for no token, so pages from {origin:?} may not use it. Its operator can add that \
                 origin to cors_origins, or set auth to token."
                ),
            ));
        }
        Ok(())
    }

    fn knows_host(&self, host: &str) -> bool {
        let friend = |friend: &Origin| friend.authority().eq_ignore_ascii_case(host);
        let name = without_port(host);
        self.any_host || is_loopback(name) || is_address(name) || self.friends.iter().any(friend)
    }

    fn knows_origin(&self, origin: &str, host: Option<&str>) -> bool {
        let Some(origin) = Origin::parse(origin) else {
            return false;
        };
        let same_host = host.is_some_and(|host| origin.authority().eq_ignore_ascii_case(host));
        same_host || is_loopback(without_port(origin.authority())) || self.friends.contains(&origin)
    }
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
        let local = LocalOnly::new(vec![], false);
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
        let local = LocalOnly::new(vec![], false);
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
        let local = LocalOnly::new(vec![friend], false);
        assert!(admits(&local, "127.0.0.1:3000", Some("https://chat.example.com")));
        assert!(admits(&local, "chat.example.com", Some("https://chat.example.com")));
        assert!(!admits(&local, "127.0.0.1:3000", Some("https://chat.example.com:8443")));
    }

    #[test]
    fn a_server_open_to_everybody_has_any_name_but_still_no_foreign_pages() {
        let local = LocalOnly::new(vec![], true);
        assert!(admits(&local, "fermata:3000", None));
        assert!(admits(&local, "fermata:3000", Some("http://fermata:3000")));
        assert!(!admits(&local, "fermata:3000", Some("https://evil.example")));
    }
}
