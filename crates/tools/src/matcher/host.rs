//! Conditions on the host of a URL.

use std::fmt;

use super::Side;
use crate::hosts::{HostName, plain_host, possible_hosts};

/// A condition on the host of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// The host is this one.
    Is(HostName),
    /// The host is a subdomain of this one, as in `*.example.com`.
    Below(HostName),
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
        if host.contains('*') {
            return None;
        }
        match (is_below, HostName::parse(host)?) {
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
            Side::Allows => plain_host(text).is_some_and(|host| match self {
                Self::Is(own) => *own == host,
                Self::Below(own) => is_below(&host, own),
            }),
            Side::Restricts => possible_hosts(text).is_none_or(|hosts| {
                hosts.iter().any(|host| match self {
                    Self::Is(own) => own.may_be(host),
                    Self::Below(own) => is_below(host, own),
                })
            }),
        }
    }
}

fn is_below(host: &HostName, parent: &HostName) -> bool {
    let (HostName::Domain(host), HostName::Domain(parent)) = (host, parent) else { return false };
    let rest = host.strip_suffix(parent.as_str()).and_then(|rest| rest.strip_suffix('.'));
    rest.is_some_and(|rest| !rest.is_empty())
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
        ] {
            assert_eq!(matches("docs.example.com", url), (true, true), "{url}");
        }
        for url in [
            "https://docs.example.com.evil.com/",
            "https://evil.com/docs.example.com",
            "https://evil.com/?u=https://docs.example.com",
            "https://xdocs.example.com",
            "mailto:docs.example.com",
            "https://example.com",
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
            "https://evil.com\\@docs.example.com/",
            "https://evil.com#@docs.example.com",
            "https://evil.com?@docs.example.com/",
            "https://docs.example.com@evil.com/",
            "https://a@docs.example.com@evil.com/",
            "https://docs%2Eexample.com/",
            "https://docs%252Eexample.com/",
            "https://docs.example.com%2F.evil.com/",
            "https://ｄocs.example.com/",
            "https://ⓓocs。example．com/",
            "https://docs.ex\u{ad}ample.com/",
            "https://docs.example\u{200b}.com/",
            "https://docs.example.com\0.evil.com/",
            "https://docs.example.com../",
            "http://evil.com,docs.example.com/",
            "http://evil.com docs.example.com/",
            "url:http://docs.example.com/",
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
            "http://0xa9.0xfe.0xa9.0xfe/",
            "http://0251.0376.0251.0376/",
            "http://169.254.43518/",
            "http://[::ffff:a9fe:a9fe]/",
            "http://[0:0:0:0:0:ffff:169.254.169.254]:80/",
            "http://169.254.169.254./",
        ] {
            assert_eq!(matches("169.254.169.254", url), (true, true), "{url}");
            assert_eq!(matches("::ffff:169.254.169.254", url), (true, true), "{url}");
        }
        for url in [
            "2852039166/latest",
            "169.254.169.254:80",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http://[64:ff9b::169.254.169.254]/",
            "http://[64:ff9b:1::a9fe:a9fe]/",
            "http://[64:ff9b:1:a9fe:a9:fe00::]/",
            "http://[::a9fe:a9fe]/",
            "http://[::ffff:0:a9fe:a9fe]/",
            "http://[2002:a9fe:a9fe::]/",
            "http://[2002:a9fe:a9fe:1::5]/",
            "http://[2001:0:0:0:0:0:5601:5601]/",
            "http://[2001:0:a9fe:a9fe::1]/",
            "http://[fe80::5efe:a9fe:a9fe]/",
            "http://[fe80::200:5efe:a9fe:a9fe]/",
            "http://[::ffff:a9fe:a9fe%25eth0]/",
            "::ffff:a9fe:a9fe",
            "http://169.254.0169.254/",
            "http://169.0254.169.254/",
            "http://①⑥⑨.②⑤④.①⑥⑨.②⑤④/",
            "http://１６９.２５４.１６９.２５４/",
            "http://169。254。169。254/",
            "http://169%2e254%2e169%2e254/",
            "http://%31%36%39.254.169.254/",
            "http://user@169.254.169.254/",
            "http://evil.com@169.254.169.254:80/",
            "http://169.254.169.254:80@evil.com/",
            "http://169.254.169.254\\@evil.com/",
            "\thttp://169.254.169.254/",
            "ht\ntp://169.254.169.254/",
            "jar:http://169.254.169.254!/",
            "//169.254.169.254/latest",
        ] {
            assert_eq!(matches("169.254.169.254", url), (false, true), "{url:?}");
        }
        assert_eq!(matches("169.254.169.254", "gopher://2852039166/"), (false, true));
        assert_eq!(matches("::1", "http://[0:0::1]:9/"), (true, true));
        assert_eq!(matches("127.0.0.1", "http://[::1]/"), (false, false));
        for url in ["http://localhost/", "http://a.localhost:3000/", "http://0/", "http://[::]/"] {
            assert_eq!(matches("127.0.0.1", url), (false, true), "{url}");
        }
        assert_eq!(matches("localhost", "http://127.0.0.1/"), (false, true));
        assert_eq!(matches("64:ff9b::a9fe:a9fe", "http://169.254.169.254/"), (false, true));
        assert_eq!(matches("169.254.169.254", "http://[2001:470::a9fe:a9fe]/"), (false, false));
        assert_eq!(matches("8.0.0.1", "http://010.0.0.1/"), (false, true));
        assert_eq!(matches("10.0.0.1", "http://010.0.0.1/"), (false, true));
        assert_eq!(
            matches("10.0.0.1", &format!("http://{}", "x,".repeat(10_000))),
            (false, true),
            "too many"
        );
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
