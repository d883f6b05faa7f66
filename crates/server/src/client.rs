//! Who has sent a request, as an address: for the log, for limits, and for the record of decisions.
//!
//! The one place that decides which address that is. Behind a proxy that the operator trusts it is what the proxy says in
//! `x-forwarded-for`; everybody else's word in that header counts for nothing.

use std::net::{IpAddr, SocketAddr};

use axum::{
    extract::{ConnectInfo, FromRequestParts},
    http::{Extensions, HeaderMap, request::Parts},
};
use ipnet::IpNet;

use crate::App;

/// The proxies whose headers are believed.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<IpNet>);

/// Who has sent a request. Both are `None` in a program that mounts the router and does not say who connects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// Who holds the other end of the connection.
    pub peer: Option<IpAddr>,
    /// Who has asked: the peer, or whom a trusted proxy names.
    pub address: Option<IpAddr>,
}

/// The header in which each proxy appends whom it was asked by.
const FORWARDED_FOR: &str = "x-forwarded-for";

// === impl TrustedProxies ===

impl TrustedProxies {
    /// Those with addresses in these networks.
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// Whether the headers of whoever connects from there are believed.
    pub fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

// === impl Client ===

impl Client {
    /// Reads a request's connection and headers.
    pub fn of(extensions: &Extensions, headers: &HeaderMap, proxies: &TrustedProxies) -> Self {
        let connected = extensions.get::<ConnectInfo<SocketAddr>>();
        let peer = connected.map(|ConnectInfo(address)| address.ip().to_canonical());
        Self { peer, address: peer.map(|peer| asked_by(peer, headers, proxies)) }
    }
}

impl FromRequestParts<App> for Client {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Self::Rejection> {
        Ok(Self::of(&parts.extensions, &parts.headers, app.auth().proxies()))
    }
}

/// Goes back from proxy to proxy for as long as each is trusted.
fn asked_by(peer: IpAddr, headers: &HeaderMap, proxies: &TrustedProxies) -> IpAddr {
    let lines = headers.get_all(FORWARDED_FOR).iter().rev();
    let mut hops = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
    let mut address = peer;
    while proxies.trusts(address)
        && let Some(before) = hops.next().and_then(read_hop)
    {
        address = before;
    }
    address
}

/// An address, with or without a port.
fn read_hop(hop: &str) -> Option<IpAddr> {
    let hop = hop.trim();
    let with_port = || hop.parse().ok().map(|address: SocketAddr| address.ip());
    let bare = || hop.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    hop.parse().ok().or_else(with_port).or_else(bare).map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(peer: &str, forwarded: &[&str]) -> String {
        let proxies = ["10.0.0.0/8", "fd00::/8", "127.0.0.1/32"].map(|text| text.parse().expect("a network"));
        let mut extensions = Extensions::new();
        extensions.insert(ConnectInfo(SocketAddr::new(peer.parse().expect("an address"), 1234)));
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append(FORWARDED_FOR, line.parse().expect("a header"));
        }
        let client = Client::of(&extensions, &headers, &TrustedProxies::new(proxies.to_vec()));
        client.address.expect("an address").to_string()
    }

    #[test]
    fn a_stranger_is_who_connects_whatever_the_headers_say() {
        assert_eq!(address("192.0.2.1", &[]), "192.0.2.1");
        assert_eq!(address("192.0.2.1", &["10.0.0.1"]), "192.0.2.1");
        assert_eq!(address("::ffff:192.0.2.1", &["203.0.113.9"]), "192.0.2.1");
    }

    #[test]
    fn behind_trusted_proxies_it_is_the_last_one_whom_none_of_them_is() {
        for (forwarded, expected) in [
            (&["203.0.113.9"][..], "203.0.113.9"),
            (&["203.0.113.9, 10.2.2.2"], "203.0.113.9"),
            (&["203.0.113.9", "10.2.2.2"], "203.0.113.9"),
            // Whatever the client wrote itself stands further left.
            (&["127.0.0.1, 203.0.113.9"], "203.0.113.9"),
            (&["8.8.8.8", "203.0.113.9:4711 , 10.2.2.2"], "203.0.113.9"),
            (&["[2001:db8::1]:443"], "2001:db8::1"),
            (&["[2001:db8::1]"], "2001:db8::1"),
            (&["2001:db8::1, fd00::7"], "2001:db8::1"),
            (&["::ffff:203.0.113.9"], "203.0.113.9"),
            // Nothing more is known than who says so.
            (&[], "10.1.1.1"),
            (&["10.2.2.2"], "10.2.2.2"),
            (&["unknown"], "10.1.1.1"),
            (&["203.0.113.9, , 10.2.2.2"], "10.2.2.2"),
        ] {
            assert_eq!(address("10.1.1.1", forwarded), expected, "{forwarded:?}");
        }
        assert_eq!(address("::ffff:10.1.1.1", &["203.0.113.9"]), "203.0.113.9");
    }

    #[test]
    fn who_does_not_say_who_connects_gets_no_address() {
        let mut headers = HeaderMap::new();
        headers.insert(FORWARDED_FOR, "203.0.113.9".parse().expect("a header"));
        assert_eq!(Client::of(&Extensions::new(), &headers, &TrustedProxies::default()), Client::default());
    }
}
