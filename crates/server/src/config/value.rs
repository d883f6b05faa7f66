//! The kinds of values that settings have, read from text and shown as TOML.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::{NonZeroU32, NonZeroUsize},
    ops::Deref,
    str::FromStr,
};

use fermata_engine::{FileUrls, Hold, file_urls::parse_host};
use fermata_protocol::Profile;
use fermata_store::ClusterKey;
use ipnet::IpNet;
use secrecy::{ExposeSecret, SecretString};

use crate::{owner::read_owner, quote::shortened};

/// A kind of value.
pub(super) trait Value: Sized {
    /// Whether it is a size, a number or a time, so that there is something over it.
    const IS_MEASURE: bool = false;

    /// Reads it; the error says what it should be, and never repeats a secret.
    fn read(text: &str) -> Result<Self, String>;

    /// What shows it in a report; `None` where nothing is set.
    fn show(&self) -> Option<String>;

    /// What stands for it where nothing is set and there is no default.
    fn absent() -> Option<Self> {
        None
    }
}

/// An address to listen on, and a port if it names one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// The port.
    pub port: Option<u16>,
}

/// A span of time of at most ten years, written as `30s`, `5m` or `24h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duration(pub std::time::Duration);

/// A number of bytes, written as `10MB`, `64KiB` or a plain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub usize);

/// Something that is shown to nobody.
#[derive(Clone, Debug)]
pub struct Secret(pub SecretString);

/// An owner and what proves it.
#[derive(Clone, Debug)]
pub struct Token {
    /// Who.
    pub owner: String,
    /// The proof.
    pub secret: SecretString,
}

/// The origin of a web page: scheme, host and port, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

/// A host's name in lower case, with a port where only that port is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(String);

/// Several values, separated by commas.
#[derive(Clone, Debug, PartialEq)]
pub struct List<T>(pub Vec<T>);

/// A shorter token could be guessed.
pub(super) const SHORTEST_TOKEN: usize = 16;
/// Further away than this, adding the span to a clock's time could leave what the clock can say.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(10 * 365 * 24 * 60 * 60);

pub(super) fn quoted(text: &str) -> Option<String> {
    Some(toml::Value::from(text).to_string())
}

fn parsed<T: FromStr>(text: &str, form: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not {form}"))
}

impl Value for SocketAddr {
    fn read(text: &str) -> Result<Self, String> {
        parsed(text, "an address with a port, such as 127.0.0.1:3000")
    }

    fn show(&self) -> Option<String> {
        quoted(&self.to_string())
    }
}

impl Value for Address {
    fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (host, port) = match text.rsplit_once(':') {
            // The colons of an IPv6 address are no sign of a port unless it is in brackets.
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

    fn show(&self) -> Option<String> {
        match self.port {
            Some(port) => quoted(&SocketAddr::new(self.ip, port).to_string()),
            None => quoted(&self.ip.to_string()),
        }
    }
}

impl Value for u16 {
    fn read(text: &str) -> Result<Self, String> {
        parsed(text, "a port, from 0 to 65535")
    }

    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for bool {
    fn read(text: &str) -> Result<Self, String> {
        parsed(text, "true or false")
    }

    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for NonZeroUsize {
    const IS_MEASURE: bool = true;

    fn read(text: &str) -> Result<Self, String> {
        parsed(text, "a whole number above zero")
    }

    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for NonZeroU32 {
    const IS_MEASURE: bool = true;

    fn read(text: &str) -> Result<Self, String> {
        parsed(text, "a whole number above zero")
    }

    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for String {
    fn read(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }

    fn show(&self) -> Option<String> {
        quoted(self)
    }
}

impl Value for Profile {
    fn read(text: &str) -> Result<Self, String> {
        Self::of_version(text.trim())
    }

    fn show(&self) -> Option<String> {
        match self.release() {
            Some(release) => quoted(&release),
            None => Some(self.major().to_string()),
        }
    }
}

impl Value for FileUrls {
    fn read(text: &str) -> Result<Self, String> {
        match text.trim() {
            "data" => Ok(Self::Data),
            "https" => Ok(Self::Https),
            hosts => {
                let wrong = |host: &str| {
                    format!(
                        "{host:?} is not the name of a host; use data, https, or hosts such as cdn.example.com"
                    )
                };
                let hosts: Vec<&str> =
                    hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).collect();
                if hosts.is_empty() {
                    return Err("there is nothing; use data, https, or hosts such as cdn.example.com".into());
                }
                let hosts = hosts.into_iter().map(|host| parse_host(host).ok_or_else(|| wrong(host)));
                hosts.collect::<Result<_, _>>().map(Self::Hosts)
            }
        }
    }

    fn show(&self) -> Option<String> {
        match self {
            Self::Data => quoted("data"),
            Self::Https => quoted("https"),
            Self::Hosts(hosts) => {
                let hosts: Vec<String> = hosts.iter().filter_map(|host| quoted(host)).collect();
                Some(format!("[{}]", hosts.join(", ")))
            }
        }
    }
}

impl<T: Value> Value for Option<T> {
    const IS_MEASURE: bool = T::IS_MEASURE;

    fn read(text: &str) -> Result<Self, String> {
        T::read(text).map(Some)
    }

    fn show(&self) -> Option<String> {
        self.as_ref().and_then(T::show)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

// === impl List ===

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Value> Value for List<T> {
    fn read(text: &str) -> Result<Self, String> {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(T::read).collect::<Result<_, _>>().map(Self)
    }

    fn show(&self) -> Option<String> {
        let items: Vec<String> = self.0.iter().filter_map(T::show).collect();
        Some(format!("[{}]", items.join(", ")))
    }
}

// === impl Duration ===

impl Duration {
    /// Reads a span of time.
    ///
    /// # Errors
    /// What it should look like.
    pub fn parse(text: &str) -> Result<Self, String> {
        // Clients send spans too, and need not have all of theirs repeated.
        let shown = shortened(text);
        let span = humantime::parse_duration(text.trim())
            .map_err(|_| format!("{shown} is not a time; write it as 30s, 5m or 24h"))?;
        if span > LONGEST { Err(format!("{shown} is more than ten years")) } else { Ok(Self(span)) }
    }
}

impl Value for Duration {
    const IS_MEASURE: bool = true;

    fn read(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }

    fn show(&self) -> Option<String> {
        quoted(&humantime::format_duration(self.0).to_string())
    }
}

// === impl Hold ===

impl Value for Hold {
    const IS_MEASURE: bool = true;

    fn read(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            text => Ok(Self::For(Duration::parse(text)?.0)),
        }
    }

    fn show(&self) -> Option<String> {
        match self {
            Self::Auto => quoted("auto"),
            Self::For(hold) => Duration(*hold).show(),
        }
    }
}

// === impl Size ===

impl Value for Size {
    const IS_MEASURE: bool = true;

    fn read(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a size; write it as 10MB, 64KiB or a number of bytes");
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(end);
        let factor: usize = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kb" => 1000,
            "kib" => 1 << 10,
            "mb" => 1_000_000,
            "mib" => 1 << 20,
            "gb" => 1_000_000_000,
            "gib" => 1 << 30,
            _ => return Err(wrong()),
        };
        let number: usize = digits.parse().map_err(|_| wrong())?;
        number.checked_mul(factor).filter(|bytes| *bytes > 0).map(Self).ok_or_else(wrong)
    }

    fn show(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

// === impl Secret ===

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }
}

impl Value for Secret {
    fn read(text: &str) -> Result<Self, String> {
        Ok(Self(text.into()))
    }

    fn show(&self) -> Option<String> {
        quoted("(secret)")
    }
}

impl Value for ClusterKey {
    fn read(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|error| error.to_string())
    }

    fn show(&self) -> Option<String> {
        quoted("(secret)")
    }
}

// === impl Token ===

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.owner == other.owner && self.secret.expose_secret() == other.secret.expose_secret()
    }
}

impl Value for Token {
    fn read(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some((owner, secret)) if !owner.trim().is_empty() && !secret.trim().is_empty() => {
                let (owner, secret) = (owner.trim(), secret.trim());
                let length = secret.chars().count();
                if length < SHORTEST_TOKEN {
                    return Err(format!(
                        "the token of {owner} has {length} characters and could be guessed; it needs at least {SHORTEST_TOKEN}, such as \
                         those of: openssl rand -hex 24"
                    ));
                }
                let owner = read_owner(owner).map_err(|fault| format!("the name of an owner {fault}"))?;
                Ok(Self { owner: owner.as_str().into(), secret: secret.into() })
            }
            Some(_) | None => Err("each entry must be owner:token".into()),
        }
    }

    fn show(&self) -> Option<String> {
        quoted(&format!("{}:(secret)", self.owner))
    }
}

impl Value for IpNet {
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

    fn show(&self) -> Option<String> {
        quoted(&self.to_string())
    }
}

// === impl Origin ===

impl Origin {
    /// Reads an origin as a browser sends it.
    pub fn parse(text: &str) -> Option<Self> {
        let uri: axum::http::Uri = text.trim().parse().ok()?;
        let bare = uri.path() == "/" && uri.query().is_none() && !text.ends_with('?');
        let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"))?;
        let authority = uri.authority().filter(|authority| bare && !authority.as_str().contains('@'))?;
        Some(Self(format!("{scheme}://{authority}").to_ascii_lowercase()))
    }

    /// The whole, as a browser sends it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Host and port, as a `Host` header has them.
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
    fn read(text: &str) -> Result<Self, String> {
        Self::parse(text)
            .ok_or_else(|| format!("{text:?} is not an origin; write it as https://app.example.com"))
    }

    fn show(&self) -> Option<String> {
        quoted(&self.0)
    }
}

// === impl HostName ===

impl HostName {
    /// Reads a name, with a port or without.
    pub fn parse(text: &str) -> Option<Self> {
        let authority: axum::http::uri::Authority = text.trim().parse().ok()?;
        let fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        let is_name = !authority.host().is_empty() && authority.as_str().bytes().all(fit);
        is_name.then(|| Self(authority.as_str().to_ascii_lowercase()))
    }

    /// Whether a `Host` header names it.
    pub fn is_named_by(&self, host: &str) -> bool {
        let name = match (self.0.contains(':'), host.rsplit_once(':')) {
            (false, Some((name, _port))) => name,
            (true, _) | (false, None) => host,
        };
        name.eq_ignore_ascii_case(&self.0)
    }
}

impl Value for HostName {
    fn read(text: &str) -> Result<Self, String> {
        Self::parse(text).ok_or_else(|| {
            format!(
                "{text:?} is not the name of a host; write it as chat.example.com or chat.example.com:8443"
            )
        })
    }

    fn show(&self) -> Option<String> {
        quoted(&self.0)
    }
}
