//! Hosts and addresses of the public Internet, as opposed to those that only the network of whoever connects to them can reach.
//!
//! This module knows names and numbers, and resolves nothing. A name that looks public may lead to any address, so whoever connects has to
//! check the addresses, too.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::Host;

/// Names that a network defines for itself, each with the names below it.
const PRIVATE_SUFFIXES: [&str; 8] =
    ["localhost", "local", "internal", "intranet", "home", "lan", "corp", "home.arpa"];

/// The address at which machines of a cloud reach its control plane, although its block is a public one.
const CLOUD_CONTROL_PLANE: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Returns whether a host may be one of the public Internet: an address that is public, or a name that no network defines for itself.
pub fn is_public_host<S: AsRef<str>>(host: &Host<S>) -> bool {
    match host {
        Host::Domain(name) => {
            let name = name.as_ref();
            let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
            let has_suffix =
                |suffix: &&str| name.strip_suffix(*suffix).is_some_and(|rest| rest.ends_with('.'));
            // A name without a dot is looked up in the network's own domain.
            name.contains('.') && !PRIVATE_SUFFIXES.iter().any(has_suffix)
        }
        Host::Ipv4(address) => is_public_v4(*address),
        Host::Ipv6(address) => is_public_v6(*address),
    }
}

/// Returns whether an address is routed over the public Internet, by the blocks of IANA's registries of special-purpose addresses.
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
    let [a, b, c, d, e, f, g, h] = address.segments();
    let last = || {
        let ([one, two], [three, four]) = (g.to_be_bytes(), h.to_be_bytes());
        Ipv4Addr::new(one, two, three, four)
    };
    // An address that is mapped to version 4, or translated to it (NAT64), leads to that address.
    if (a, b, c, d, e) == (0, 0, 0, 0, 0) && f == 0xffff {
        return is_public_v4(last());
    }
    if (a, b, c, d, e, f) == (0x64, 0xff9b, 0, 0, 0, 0) {
        return is_public_v4(last());
    }
    // Among the global addresses, other blocks that carry an address of version 4 and those for documentation do not count as public. The
    // addresses that are not global include loopback, link-local and unique local addresses.
    let is_global = (0x2000..=0x3fff).contains(&a);
    is_global && a != 0x2002 && a != 0x3fff && !(a == 0x2001 && (b < 0x0200 || b == 0x0db8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_public(address: &str) -> bool {
        is_public_address(address.parse().expect("an address"))
    }

    #[test]
    fn addresses_with_a_special_purpose_are_not_public() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::1.1.1.1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(address), "{address}");
        }
    }

    #[test]
    fn other_addresses_are_public() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.88.98.1",
            "198.17.255.255",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
        ] {
            assert!(is_public(address), "{address}");
        }
    }

    #[test]
    fn names_that_a_network_defines_for_itself_are_not_public() {
        for name in
            ["localhost", "LOCALHOST.", "x.localhost", "redis", "metadata.google.internal", "a.home.arpa."]
        {
            assert!(!is_public_host(&Host::Domain(name)), "{name}");
        }
        for name in ["example.com", "example.com.", "localhost.example.com", "internal.io"] {
            assert!(is_public_host(&Host::Domain(name)), "{name}");
        }
    }
}
