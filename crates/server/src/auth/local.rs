//! Protection of a server without authentication from pages of other sites.
//!
//! A browser sends requests to this machine for any page. Three headers identify such a page, and a page cannot forge them: `Origin` names
//! it on every cross-site post, `Sec-Fetch-Site` marks cross-site requests without `Origin`, and `Host` has the page's own name if that
//! name resolves to this machine (DNS rebinding). Programs other than browsers are not restricted.

use std::net::IpAddr;

use axum::http::{HeaderMap, header, header::AsHeaderName};

use crate::{
    config::{HostName, Origin},
    error::{ApiError, Code},
};

/// Admits programs and pages of this machine, and those of named origins.
#[derive(Debug)]
pub struct LocalOnly {
    allowed_origins: Vec<Origin>,
    hosts: Vec<HostName>,
}

/// The header of browsers with the relation of the requesting page to this server.
const FETCH_SITE: &str = "sec-fetch-site";
/// The header of browsers that tells whether the response is going to be shown as a page.
const FETCH_MODE: &str = "sec-fetch-mode";

impl LocalOnly {
    /// Creates the protection. Pages of `allowed_origins` are also admitted; `hosts` are other names of this server.
    pub fn new(allowed_origins: Vec<Origin>, hosts: Vec<HostName>) -> Self {
        Self { allowed_origins, hosts }
    }

    /// Checks a request with these headers.
    ///
    /// # Errors
    /// Returns 403 if a page of another site sent it. The detail names the operator's remedy.
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
            None if text(headers, FETCH_SITE) == Some("cross-site") => Err(ApiError::new(
                Code::ForeignPage,
                "This server asks for no token, so pages of other sites may not use it. Its operator can add their origins to \
                 cors_origins, or set auth to token.",
            )),
            None => Ok(()),
        }
    }

    /// Checks a request for one of the server's own pages. Any site may link to them.
    ///
    /// # Errors
    /// Returns 403 if a page of another site sent it and is not just linking. The detail names the operator's remedy.
    pub fn admit_visitor(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        if text(headers, FETCH_MODE) == Some("navigate") {
            return self.check_host(headers);
        }
        self.admit(headers)
    }

    fn check_host(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(host) = text(headers, header::HOST) else {
            return Ok(());
        };
        let name = without_port(host);
        // DNS rebinding needs a name that its attacker controls, so an address is safe.
        let is_known = is_loopback(name)
            || address(name).is_some()
            || self.hosts.iter().any(|known| known.is_named_by(host))
            || self.allowed_origins.iter().any(|origin| origin.authority().eq_ignore_ascii_case(host));
        if is_known {
            return Ok(());
        }
        Err(ApiError::new(
            Code::ForeignPage,
            format!(
                "This server asks for no token, so it answers only under the names localhost and 127.0.0.1, not under \
                 {host:?}. Its operator can add that name to hosts (FERMATA_HOSTS), or set auth to token."
            ),
        ))
    }

    fn knows_origin(&self, origin: &str, host: Option<&str>) -> bool {
        let Some(origin) = Origin::parse(origin) else {
            return false;
        };
        let is_own = host.is_some_and(|host| origin.authority().eq_ignore_ascii_case(host));
        is_own || is_loopback(without_port(origin.authority())) || self.allowed_origins.contains(&origin)
    }
}

/// Returns a header as text. One that is not ASCII becomes `?`, which matches no known name.
fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// Returns the name or address in a `Host` header. An IPv6 address keeps its brackets.
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
    fn pages_of_other_sites_are_refused() {
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
    fn origins_that_the_operator_names_are_allowed_as_pages_and_as_hosts() {
        let origin = Origin::parse("https://chat.example.com").expect("an origin");
        let local = LocalOnly::new(vec![origin], vec![]);
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
    fn a_cross_site_request_without_an_origin_is_refused_unless_it_follows_a_link() {
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
