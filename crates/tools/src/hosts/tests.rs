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
        "::ffff:0:10.0.0.1",
        "::1.1.1.1",
        "2001:0:0101:0101::1",
        "2002:0101:0101::",
        "2001:470:1::5efe:7f00:1",
        "2001:470:1::200:5efe:10.0.0.1",
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
        "2001:470:1::5efe:1.1.1.1",
        "::ffff:1.1.1.1",
        "64:ff9b::1.1.1.1",
    ] {
        assert!(is_public(address), "{address}");
    }
}

#[test]
fn names_that_a_network_defines_for_itself_are_not_public() {
    for name in [
        "localhost",
        "LOCALHOST.",
        "localhost..",
        "x.localhost",
        "redis",
        "metadata.google.internal",
        "a.home.arpa.",
        "kubernetes.default.svc",
        "foo.svc.cluster.local",
        "host.localdomain",
        "a.test",
        "a.private",
        "ⓛocalhost",
        "a.ｌocal",
        "127.1",
        "0x7f.1",
        "169。254。169。254",
        "::ffff:10.0.0.1",
        "[::1]",
    ] {
        assert!(!HostName::parse(name).expect("a host").is_public(), "{name}");
    }
    for name in ["example.com", "example.com.", "localhost.example.com", "internal.io", "svc.example.com"] {
        assert!(HostName::parse(name).expect("a host").is_public(), "{name}");
    }
}
