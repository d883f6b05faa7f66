//! The network address that a request came from, for the log, for limits and for the audit log.
//!
//! Only this module determines it. Behind a proxy that the operator trusts, it is the address in the proxy's `x-forwarded-for`; on any other
//! connection the header is ignored.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{ConnectInfo, FromRef, FromRequestParts},
    http::{Extensions, HeaderMap, request::Parts},
};
use ipnet::IpNet;

/// The networks of the proxies whose headers are trusted. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Arc<[IpNet]>);

/// The sender of a request. Both addresses are `None` if a program mounts the router without [`ConnectInfo`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// The address at the other end of the connection.
    pub peer: Option<IpAddr>,
    /// The address of the client: the peer, or the address that a trusted proxy names.
    pub address: Option<IpAddr>,
}

/// The header with the span that a request belongs to.
const TRACEPARENT: &str = "traceparent";

/// Returns the span that a request belongs to, if the header names one.
pub fn traceparent(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(TRACEPARENT)?.to_str().ok()?;
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    let is_one = lengths == [2, 32, 16, 2] && text.split('-').all(is_hex);
    is_one.then(|| text.to_owned())
}

/// The header where each proxy appends the address of its client.
const FORWARDED_FOR: &str = "x-forwarded-for";

// === impl TrustedProxies ===

impl TrustedProxies {
    /// Trusts the proxies in these networks.
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks.into())
    }

    /// Returns whether headers on connections from this address are trusted.
    pub fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

// === impl Client ===

impl Client {
    /// Determines the sender of a request from its connection and its headers.
    pub fn of(extensions: &Extensions, headers: &HeaderMap, proxies: &TrustedProxies) -> Self {
        let Some(ConnectInfo(connected)) = extensions.get::<ConnectInfo<SocketAddr>>() else {
            return Self::default();
        };
        let peer = connected.ip().to_canonical();
        // The header is followed from proxy to proxy as long as each is trusted.
        let lines = headers.get_all(FORWARDED_FOR).iter().rev();
        let mut hops = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
        let mut address = peer;
        while proxies.trusts(address)
            && let Some(before) = hops.next().and_then(read_hop)
        {
            address = before;
        }
        Self { peer: Some(peer), address: Some(address) }
    }
}

impl<S> FromRequestParts<S> for Client
where
    TrustedProxies: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        Ok(Self::of(&parts.extensions, &parts.headers, &TrustedProxies::from_ref(state)))
    }
}

/// Returns the part of an address that limits count by. Of IPv6 it is the /64 network, because one client usually has a whole network.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            Ipv6Addr::from(u128::from(address) >> 64 << 64).into()
        }
        address @ (IpAddr::V4(_) | IpAddr::V6(_)) => address,
    }
}

/// Parses an address with or without a port or brackets.
fn read_hop(hop: &str) -> Option<IpAddr> {
    let hop = hop.trim();
    if let Ok(address) = hop.parse::<SocketAddr>() {
        return Some(address.ip().to_canonical());
    }
    let bare = hop.strip_prefix('[').and_then(|hop| hop.strip_suffix(']')).unwrap_or(hop);
    bare.parse().ok().map(|address: IpAddr| address.to_canonical())
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
    fn without_a_trusted_proxy_it_is_the_peer_whatever_the_headers_say() {
        assert_eq!(address("192.0.2.1", &[]), "192.0.2.1");
        assert_eq!(address("192.0.2.1", &["10.0.0.1"]), "192.0.2.1");
        assert_eq!(address("::ffff:192.0.2.1", &["203.0.113.9"]), "192.0.2.1");
    }

    #[test]
    fn behind_trusted_proxies_it_is_the_last_address_that_is_not_trusted() {
        for (forwarded, expected) in [
            (&["203.0.113.9"][..], "203.0.113.9"),
            (&["203.0.113.9, 10.2.2.2"], "203.0.113.9"),
            (&["203.0.113.9", "10.2.2.2"], "203.0.113.9"),
            // What the client wrote itself is further left.
            (&["127.0.0.1, 203.0.113.9"], "203.0.113.9"),
            (&["8.8.8.8", "203.0.113.9:4711 , 10.2.2.2"], "203.0.113.9"),
            (&["[2001:db8::1]:443"], "2001:db8::1"),
            (&["[2001:db8::1]"], "2001:db8::1"),
            (&["2001:db8::1, fd00::7"], "2001:db8::1"),
            (&["::ffff:203.0.113.9"], "203.0.113.9"),
            // The header does not name a client, so the last known address counts.
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
    fn without_the_peer_there_is_no_address() {
        let mut headers = HeaderMap::new();
        headers.insert(FORWARDED_FOR, "203.0.113.9".parse().expect("a header"));
        assert_eq!(Client::of(&Extensions::new(), &headers, &TrustedProxies::default()), Client::default());
    }
}
