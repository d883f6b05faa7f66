//! Hosts of URLs, parsed by the WHATWG URL standard, so that all spellings of an address are equal.

use std::{fmt, net::IpAddr};

use url::{Host, Url};

use super::Side;

/// A condition on the host of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// The host is this one.
    Is(HostName),
    /// The host is a subdomain of this one, as in `*.example.com`.
    Below(HostName),
}

/// A host in its canonical spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostName {
    /// A domain name in lower case, in its ASCII form and without a dot at the end.
    Domain(String),
    /// An IP address. An IPv4-mapped IPv6 address is kept as IPv4.
    Address(IpAddr),
}

impl HostPattern {
    /// Parses a host, or `*.` and a host.
    ///
    /// # Errors
    /// Returns a message if the text is not a host.
    pub fn new(text: &str) -> Result<Self, String> {
        Self::parse(text).ok_or_else(|| {
            format!(
                "{text:?} is not a host, such as \"docs.example.com\", \"*.example.com\" or \"127.0.0.1\""
            )
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let (is_below, host) = match text.strip_prefix("*.") {
            Some(host) => (true, host),
            None => (false, text),
        };
        let is_version_6 = host.parse::<std::net::Ipv6Addr>().is_ok();
        let host = if is_version_6 { format!("[{host}]") } else { host.to_owned() };
        if host.is_empty() || host.contains('*') {
            return None;
        }
        match (is_below, HostName::of(&Host::parse(&host).ok()?)) {
            (false, name) => Some(Self::Is(name)),
            (true, name @ HostName::Domain(_)) => Some(Self::Below(name)),
            (true, HostName::Address(_)) => None,
        }
    }

    /// Returns whether a text is a URL with such a host.
    ///
    /// On the side that allows, every program must read the URL that way; on the side that restricts, it is enough that one could.
    pub(super) fn matches(&self, text: &str, side: Side) -> bool {
        match side {
            Side::Allows => host_of_plain_url(text).is_some_and(|host| self.is(&host)),
            Side::Restricts => possible_hosts(text).any(|host| self.is(&host)),
        }
    }

    fn is(&self, host: &HostName) -> bool {
        match (self, host) {
            (Self::Is(own), host) => own == host,
            (Self::Below(HostName::Domain(own)), HostName::Domain(host)) => host
                .strip_suffix(own.as_str())
                .and_then(|rest| rest.strip_suffix('.'))
                .is_some_and(|rest| !rest.is_empty()),
            (Self::Below(_), _) => false,
        }
    }
}

/// Returns the host of a URL that every program reads in one way: it has no backslash, space or control character, no credentials in
/// front of the host, and a scheme that connects to the host it names.
pub(super) fn host_of_plain_url(text: &str) -> Option<HostName> {
    let is_odd = |c: char| c == '\\' || c.is_control() || c.is_whitespace();
    if text.contains(is_odd) || !text.contains("://") {
        return None;
    }
    let url = Url::parse(text).ok()?;
    let connects_to_host = matches!(url.scheme(), "http" | "https" | "ws" | "wss" | "ftp");
    let has_credentials = !url.username().is_empty() || url.password().is_some();
    let authority = text.split_once("://")?.1.split(['/', '?', '#']).next()?;
    if !connects_to_host || has_credentials || authority.contains('@') {
        return None;
    }
    Some(HostName::of(&url.host()?.to_owned()))
}

/// Returns the hosts that some program may find in a text: the text as a URL, as a URL without its scheme, and with another scheme.
fn possible_hosts(text: &str) -> impl Iterator<Item = HostName> {
    let trimmed = text.trim_start_matches(|c: char| c.is_control() || c.is_whitespace());
    let without_scheme = match trimmed.split_once("://") {
        Some((_, rest)) => rest,
        None => trimmed,
    };
    let without_slashes = without_scheme.trim_start_matches(['/', '\\']);
    let spellings = [trimmed.to_owned(), format!("http://{trimmed}"), format!("http://{without_slashes}")];
    spellings.into_iter().filter_map(|spelling| {
        let url = Url::parse(&spelling).ok()?;
        Some(HostName::of(&url.host()?.to_owned()))
    })
}

impl HostName {
    fn of(host: &Host<String>) -> Self {
        match host {
            Host::Domain(name) => Self::Domain(name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()),
            Host::Ipv4(address) => Self::Address((*address).into()),
            Host::Ipv6(address) => Self::Address(IpAddr::from(*address).to_canonical()),
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Domain(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(host) => host.fmt(f),
            Self::Below(host) => write!(f, "*.{host}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a URL matches on the side that allows, and on the side that restricts.
    fn matches(host: &str, url: &str) -> (bool, bool) {
        let host = HostPattern::new(host).unwrap();
        (host.matches(url, Side::Allows), host.matches(url, Side::Restricts))
    }

    #[test]
    fn a_host_is_the_urls_and_nothing_that_looks_like_it() {
        for url in [
            "https://docs.example.com",
            "https://docs.example.com/a?b#c",
            "http://DOCS.example.com:8080/",
            "https://docs.example.com./",
            "wss://docs.example.com",
            "https://docs%2Eexample.com/",
        ] {
            assert_eq!(matches("docs.example.com", url), (true, true), "{url}");
        }
        for url in [
            "https://docs.example.com.evil.com/",
            "https://docs.example.com@evil.com/",
            "https://evil.com/docs.example.com",
            "https://evil.com/?u=https://docs.example.com",
            "https://evil.com#@docs.example.com",
            "https://xdocs.example.com",
            "https://example.com",
            "mailto:docs.example.com",
            "",
            "/docs",
        ] {
            assert_eq!(matches("docs.example.com", url), (false, false), "{url}");
        }
    }

    #[test]
    fn an_ambiguous_url_matches_to_restrict_and_not_to_allow() {
        for url in [
            "docs.example.com/a",
            "//docs.example.com/a",
            "docs.example.com:8080",
            "https:docs.example.com",
            "https:\\\\docs.example.com\\a",
            " https://docs.example.com",
            "https://docs.exa\tmple.com",
            "https://alice:pw@docs.example.com/",
            "https://@docs.example.com/",
            "https://docs.example.com\\@evil.com/",
            "gopher://DOCS.example.com/",
            "file://docs.example.com/etc",
        ] {
            assert_eq!(matches("docs.example.com", url), (false, true), "{url:?}");
        }
    }

    #[test]
    fn an_address_in_any_spelling_is_the_address() {
        for url in [
            "http://169.254.169.254/",
            "http://2852039166/",
            "http://0xa9fea9fe/",
            "http://0251.0376.0251.0376/",
            "http://169.254.43518/",
            "http://[::ffff:a9fe:a9fe]/",
            "http://[0:0:0:0:0:ffff:169.254.169.254]:80/",
            "http://169.254.169.254./",
        ] {
            assert_eq!(matches("169.254.169.254", url), (true, true), "{url}");
            assert_eq!(matches("::ffff:169.254.169.254", url), (true, true), "{url}");
        }
        assert_eq!(matches("169.254.169.254", "2852039166/latest"), (false, true));
        assert_eq!(matches("169.254.169.254", "gopher://2852039166/"), (false, true));
        assert_eq!(matches("::1", "http://[0:0::1]:9/"), (true, true));
        assert_eq!(matches("127.0.0.1", "http://[::1]/"), (false, false));
    }

    #[test]
    fn a_star_means_subdomains() {
        for (url, is_below) in [
            ("https://a.example.com", true),
            ("https://a.b.example.com", true),
            ("https://example.com", false),
            ("https://.example.com", false),
            ("https://aexample.com", false),
            ("https://a.example.com.evil.com", false),
        ] {
            assert_eq!(matches("*.example.com", url).0, is_below, "{url}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_host_is_refused() {
        for bad in ["", "*", "*.", "*.*.com", "a/b", "https://a.com", "a.com:80", "a b", "*.127.0.0.1", "a@b"]
        {
            assert!(HostPattern::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(HostPattern::new("[::1]").unwrap().to_string(), "::1");
        assert_eq!(HostPattern::new("*.Example.COM").unwrap().to_string(), "*.example.com");
    }
}
