//! Addresses, networks, origins and names of hosts, as settings.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use axum::http::{
    HeaderName, HeaderValue,
    uri::{Authority, Uri},
};
use ipnet::IpNet;
use schemars::JsonSchema;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};

use super::secret::Secret;

/// An address to listen on, and a port if it names one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", inline, title = "ADDRESS")]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// The port.
    pub port: Option<u16>,
}

/// An address with a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, title = "ADDRESS:PORT")]
pub struct OperatorAddress(pub SocketAddr);

/// A network, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", inline, title = "NETWORK")]
pub struct Network(pub IpNet);

/// The origin of a web page: scheme, host and port, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, title = "ORIGIN")]
pub struct Origin(String);

/// A host's name in lower case, with a port if only that port is meant.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, title = "HOST")]
pub struct HostName(String);

/// The headers of a request, with their names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "BTreeMap<String, String>")]
#[schemars(with = "BTreeMap<String, String>", inline)]
pub struct Headers(pub BTreeMap<String, Secret>);

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
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
}

impl From<Address> for String {
    fn from(Address { ip, port }: Address) -> Self {
        port.map_or_else(|| ip.to_string(), |port| SocketAddr::new(ip, port).to_string())
    }
}

impl TryFrom<String> for OperatorAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.trim()
            .parse()
            .map(Self)
            .map_err(|_| format!("{text:?} is not an address with a port, such as 127.0.0.1:3000"))
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let network = match text.parse::<IpAddr>() {
            Ok(address) => IpNet::from(address.to_canonical()),
            Err(_) => text.parse().map_err(|_| {
                format!("{text:?} is neither an address nor a network, such as 10.0.0.7 or 10.0.0.0/8")
            })?,
        };
        if network.prefix_len() == 0 {
            return Err(format!("{text:?} is everybody; name the addresses of your proxies"));
        }
        Ok(Self(network))
    }
}

impl From<Network> for String {
    fn from(Network(network): Network) -> Self {
        network.to_string()
    }
}

// === impl Headers ===

impl Headers {
    /// Returns the headers with their values.
    pub(super) fn exposed(self) -> BTreeMap<String, String> {
        self.0.into_iter().map(|(name, Secret(value))| (name, value.expose_secret().to_owned())).collect()
    }
}

impl TryFrom<BTreeMap<String, String>> for Headers {
    type Error = String;

    fn try_from(headers: BTreeMap<String, String>) -> Result<Self, String> {
        let mut checked = BTreeMap::new();
        for (name, value) in headers {
            let header =
                HeaderName::try_from(&name).map_err(|_| format!("{name:?} is not the name of a header"))?;
            if HeaderValue::try_from(&value).is_err() {
                return Err(format!("{name} has characters that a header cannot carry"));
            }
            if checked.insert(header.to_string(), Secret(value.into())).is_some() {
                return Err(format!("{header} is there twice"));
            }
        }
        Ok(Self(checked))
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

impl TryFrom<String> for Origin {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
            .ok_or_else(|| format!("{text:?} is not an origin; write it as https://app.example.com"))
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

impl TryFrom<String> for HostName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| {
            format!(
                "{text:?} is not the name of a host; write it as chat.example.com or chat.example.com:8443"
            )
        })
    }
}
