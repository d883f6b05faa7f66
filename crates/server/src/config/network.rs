//! Addresses, networks, origins and names of hosts, as settings.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use super::value::Value;
use axum::http::uri::{Authority, Uri};
use ipnet::IpNet;

/// An address to listen on, and a port if it names one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// The port.
    pub port: Option<u16>,
}

/// The origin of a web page: scheme, host and port, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

/// A host's name in lower case, with a port if only that port is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(String);

impl Value for Address {
    fn name() -> String {
        "ADDRESS".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (host, port) = match text.rsplit_once(':') {
            // The colons of an IPv6 address do not separate a port unless the address is in brackets.
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
            _ => (text, None),
        };
        let wrong = || {
            format!(
                "{text:?} is not an address; write it as 127.0.0.1:3000, [::1]:3000, 0.0.0.0 or localhost:3000"
            )
        };
        let ip = match host {
            "localhost" => Ipv4Addr::LOCALHOST.into(),
            host => host.trim_start_matches('[').trim_end_matches(']').parse().map_err(|_| wrong())?,
        };
        let port = port.map(str::parse).transpose().map_err(|_| wrong())?;
        Ok(Self { ip, port })
    }

    fn show(&self) -> Option<toml::Value> {
        match self.port {
            Some(port) => SocketAddr::new(self.ip, port).show(),
            None => Some(self.ip.to_string().into()),
        }
    }
}

impl Value for SocketAddr {
    fn name() -> String {
        "ADDRESS:PORT".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        text.trim()
            .parse()
            .map_err(|_| format!("{text:?} is not an address with a port, such as 127.0.0.1:3000"))
    }

    fn show(&self) -> Option<toml::Value> {
        Some(self.to_string().into())
    }
}

impl Value for IpNet {
    fn name() -> String {
        "NETWORK".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        let network = match text.parse::<IpAddr>() {
            Ok(address) => Self::from(address.to_canonical()),
            Err(_) => text.parse().map_err(|_| {
                format!("{text:?} is neither an address nor a network, such as 10.0.0.7 or 10.0.0.0/8")
            })?,
        };
        if network.prefix_len() == 0 {
            return Err(format!("{text:?} is everybody; name the addresses of your proxies"));
        }
        Ok(network)
    }

    fn show(&self) -> Option<toml::Value> {
        Some(self.to_string().into())
    }
}

// === impl Origin ===

impl Origin {
    /// Reads an origin as a browser sends it.
    pub fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.trim().parse().ok()?;
        let bare = uri.path() == "/" && uri.query().is_none() && !text.ends_with('?');
        let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"))?;
        let authority = uri.authority().filter(|authority| bare && !authority.as_str().contains('@'))?;
        Some(Self(format!("{scheme}://{authority}").to_ascii_lowercase()))
    }

    /// Returns the whole origin, as a browser sends it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the host and the port, as a `Host` header has them.
    pub fn authority(&self) -> &str {
        self.0.split_once("://").map_or("", |(_, authority)| authority)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Value for Origin {
    fn name() -> String {
        "ORIGIN".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        Self::parse(text)
            .ok_or_else(|| format!("{text:?} is not an origin; write it as https://app.example.com"))
    }

    fn show(&self) -> Option<toml::Value> {
        Some(self.as_str().into())
    }
}

// === impl HostName ===

impl HostName {
    /// Reads a name, with a port or without.
    pub fn parse(text: &str) -> Option<Self> {
        let authority: Authority = text.trim().parse().ok()?;
        let name = authority.as_str();
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte));
        if authority.host().is_empty() || !is_plain {
            return None;
        }
        Some(Self(name.to_ascii_lowercase()))
    }

    /// Returns whether a `Host` header names this host.
    pub fn is_named_by(&self, host: &str) -> bool {
        let name = match (self.0.contains(':'), host.rsplit_once(':')) {
            (false, Some((name, _port))) => name,
            (true, _) | (false, None) => host,
        };
        name.eq_ignore_ascii_case(&self.0)
    }
}

impl Value for HostName {
    fn name() -> String {
        "HOST".into()
    }

    fn read(text: &str) -> Result<Self, String> {
        Self::parse(text).ok_or_else(|| {
            format!(
                "{text:?} is not the name of a host; write it as chat.example.com or chat.example.com:8443"
            )
        })
    }

    fn show(&self) -> Option<toml::Value> {
        Some(self.0.as_str().into())
    }
}
