//! Hosts: which host a text names, which addresses a host stands for, and whether it is one of the public Internet.
//!
//! This module knows names and numbers, and resolves nothing. A name that looks public may lead to any address, so a program that connects
//! has to check the addresses too.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use url::{Host, Url};

use crate::reading::{fold, readings};

/// A host in its canonical spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostName {
    /// A domain name in lower case, in its ASCII form and without a dot at the end.
    Domain(String),
    /// An IP address. An IPv4-mapped IPv6 address is kept as IPv4.
    Address(IpAddr),
}

/// Names that a network defines for itself, each with the names below it.
const PRIVATE_SUFFIXES: [&str; 15] = [
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "private",
    "home",
    "lan",
    "corp",
    "home.arpa",
    "svc",
    "consul",
    "test",
    "invalid",
    "onion",
];

/// The address where machines of a cloud reach its control plane, although its block is a public one.
const CLOUD_CONTROL_PLANE: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// The number of pieces of an authority that are looked at.
const MOST_PIECES: usize = 256;

// === impl HostName ===

impl HostName {
    /// Parses a host by the WHATWG URL standard. An address of version 6 may be without brackets. Returns `None` if the text is not a host.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Some(Self::of(&Host::<&str>::Ipv6(address)));
        }
        Some(Self::of(&Host::parse(text).ok()?))
    }

    /// Returns the host of a parsed URL.
    pub fn of_url(url: &Url) -> Option<Self> {
        Some(Self::of(&url.host()?))
    }

    fn of<S: AsRef<str>>(host: &Host<S>) -> Self {
        match host {
            // The hosts of schemes that the standard does not know are not parsed further.
            Host::Domain(name) => match Host::parse(name.as_ref()) {
                Ok(Host::Ipv4(address)) => Self::Address(address.into()),
                Ok(Host::Domain(name)) => Self::domain(&name),
                Ok(Host::Ipv6(_)) | Err(_) => Self::domain(name.as_ref()),
            },
            Host::Ipv4(address) => Self::Address((*address).into()),
            Host::Ipv6(address) => Self::Address(IpAddr::from(*address).to_canonical()),
        }
    }

    fn domain(name: &str) -> Self {
        Self::Domain(name.trim_end_matches('.').to_ascii_lowercase())
    }

    /// Returns whether the host may be one of the public Internet: an address that is public, or a name that no network defines for itself.
    pub fn is_public(&self) -> bool {
        match self {
            Self::Domain(name) => {
                let is_private = PRIVATE_SUFFIXES
                    .iter()
                    .any(|suffix| name.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.')));
                // A name without a dot is looked up in the network's own domain.
                name.contains('.') && !is_private
            }
            Self::Address(address) => is_public_address(*address),
        }
    }

    /// Returns whether a connection to one of the hosts may end at the other one.
    pub(crate) fn may_be(&self, other: &Self) -> bool {
        let others = other.identities();
        self.identities().iter().any(|own| others.contains(own))
    }

    /// Returns the host with the addresses that it stands for, without asking a name server.
    fn identities(&self) -> Vec<Self> {
        let mut identities = vec![self.clone()];
        let mut add = |address: IpAddr| identities.push(Self::Address(address));
        match self {
            Self::Domain(name) if name == "localhost" || name.ends_with(".localhost") => {
                add(Ipv4Addr::LOCALHOST.into());
                add(Ipv6Addr::LOCALHOST.into());
            }
            Self::Domain(_) => {}
            // A connection to no address in particular goes to the machine itself.
            Self::Address(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) => add(Ipv4Addr::LOCALHOST.into()),
            Self::Address(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) => {
                add(Ipv4Addr::LOCALHOST.into());
                add(Ipv6Addr::LOCALHOST.into());
            }
            Self::Address(IpAddr::V4(_)) => {}
            Self::Address(IpAddr::V6(address)) => {
                embedded_addresses(*address).into_iter().for_each(|embedded| add(embedded.into()));
            }
        }
        identities
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

/// Returns the host of a URL that every program reads in one way: it has no backslash, space, control or invisible character, no
/// credentials in front of the host, and a scheme that connects to the host it names. The host itself is spelled without escapes, without
/// characters that stand for others, and without octal numbers, which other programs take for decimal ones.
pub(crate) fn plain_host(text: &str) -> Option<HostName> {
    let (_, rest) = text.split_once("://")?;
    if text.contains(|c: char| c == '\\' || c.is_whitespace() || crate::is_invisible(c)) {
        return None;
    }
    let url = Url::parse(text).ok()?;
    let connects_to_host = matches!(url.scheme(), "http" | "https" | "ws" | "wss" | "ftp");
    let has_credentials = !url.username().is_empty() || url.password().is_some();
    let authority = rest.split(['/', '?', '#']).next()?;
    let has_other_dots = authority.contains("..") || authority.contains(['。', '．', '｡']);
    let has_other_characters = authority.contains(['@', '%']) || fold(authority) != authority.to_lowercase();
    let host = HostName::of_url(&url)?;
    if !connects_to_host || has_credentials || has_other_dots || has_other_characters {
        return None;
    }
    let in_decimal = decimal_address(authority.split(':').next()?);
    if in_decimal.is_some_and(|address| host != HostName::Address(address.into())) {
        return None;
    }
    Some(host)
}

/// Returns the hosts that some program may find in a text: as a URL, as a URL without its scheme or with another one, decoded, folded,
/// and with the authority divided by any character that cannot be in a host. Returns `None` if there are too many to tell.
pub(crate) fn possible_hosts(text: &str) -> Option<Vec<HostName>> {
    let mut hosts = Vec::new();
    for reading in readings(text) {
        let trimmed = reading.trim_start_matches(|c: char| c.is_control() || c.is_whitespace());
        let without_scheme = trimmed.split_once("://").map_or(trimmed, |(_, rest)| rest);
        let without_slashes = without_scheme.trim_start_matches(['/', '\\']);
        let urls = [trimmed.to_owned(), format!("http://{trimmed}"), format!("http://{without_slashes}")];
        hosts.extend(urls.iter().filter_map(|url| HostName::of_url(&Url::parse(url).ok()?)));
        let is_divider = |c: char| c.is_ascii() && !c.is_ascii_alphanumeric() && !".-_:[]%".contains(c);
        let authority = without_slashes.split('/').next().unwrap_or_default();
        if authority.split(is_divider).nth(MOST_PIECES).is_some() {
            return None;
        }
        for piece in authority.split(is_divider) {
            let without_port = piece.rsplit_once(':').map_or(piece, |(host, _)| host);
            // The zone of an address, as in `fe80::1%eth0`, says how to reach it.
            let without_brackets = piece.trim_start_matches('[').split([']', '%']).next().unwrap_or_default();
            hosts.extend([piece, without_port, without_brackets].into_iter().filter_map(HostName::parse));
            hosts.extend(decimal_address(without_port).map(|address| HostName::Address(address.into())));
        }
    }
    Some(hosts)
}

/// Returns the address of four decimal numbers, which may begin with zeros.
fn decimal_address(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = parts.next().filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()?;
    }
    if parts.next().is_some() { None } else { Some(octets.into()) }
}

/// Returns whether an address is routed over the public Internet, by the blocks of IANA's registries of special-purpose addresses. An
/// address that carries another one is public only if that one is.
pub fn is_public_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || address == CLOUD_CONTROL_PLANE
        || matches!(
            (a, b, c),
            (0 | 224..=255, _, _) | (100, 64..=127, _) | (192, 0, 0) | (192, 88, 99) | (198, 18..=19, _)
        );
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, ..] = address.segments();
    // Among the global addresses, the blocks of 6to4 and Teredo and those for documentation do not count as public. The addresses that are
    // not global include loopback, link-local and unique local addresses.
    let is_global = (0x2000..=0x3fff).contains(&a)
        && a != 0x2002
        && a != 0x3fff
        && !(a == 0x2001 && (b < 0x0200 || b == 0x0db8));
    let is_mapped = (a, b, c, d, e, f) == (0, 0, 0, 0, 0, 0xffff);
    let is_translated = (a, b, c, d, e, f) == (0x64, 0xff9b, 0, 0, 0, 0);
    (is_global || is_mapped || is_translated) && embedded_addresses(address).into_iter().all(is_public_v4)
}

/// Returns the addresses of version 4 that a connection to an address of version 6 may reach.
fn embedded_addresses(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    let last = join(g, h);
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0) if u32::from(last) <= 1 => vec![],
        // Compatible, mapped, and translated (RFC 2765).
        (0, 0, 0, 0, 0, 0 | 0xffff) | (0, 0, 0, 0, 0xffff, 0) => vec![last],
        // NAT64, and NAT64 within a network, whose prefix says where the address is (RFC 6052).
        (0x64, 0xff9b, 0, 0, 0, 0) => vec![last],
        (0x64, 0xff9b, 1, ..) => vec![
            last,
            join(d, e << 8 | f >> 8),
            join(d << 8 | e & 0xff, f),
            join(e << 8 | f >> 8, f << 8 | g >> 8),
        ],
        // 6to4.
        (0x2002, ..) => vec![join(b, c)],
        // Teredo: the server, and the client with its bits inverted.
        (0x2001, 0, ..) => vec![join(c, d), join(!g, !h)],
        // ISATAP.
        (_, _, _, _, 0 | 0x0200, 0x5efe) => vec![last],
        _ => vec![],
    }
}

#[cfg(test)]
mod tests;
