//! Requests to the web for tools and channels: to addresses of the public Internet only, and with a limit on everything that the other side decides.
//!
//! A URL comes from a model, and the model may have it from a stranger's page. So nothing is connected to but public addresses: literal
//! addresses are checked here, names when they are resolved, and the connection goes to the addresses that were checked. Redirects are not
//! followed here, because whether one may be followed is for the rules.

use std::{
    error::Error,
    io::Read as _,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use fermata_engine::{
    SystemResolver,
    resolver::{NameRefusal, allowed_addresses},
};
use fermata_tools::{ErrorType, HostName, ToolError, hosts::is_public_address};
use reqwest::{
    Client, Method, RequestBuilder, Response, StatusCode,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{self, HeaderMap, HeaderName},
};
use url::Url;

pub mod page;

/// The limit on the body of a response, in bytes, before and after it is decompressed.
pub const MAX_BODY: usize = 2_000_000;
/// The time limit of a page with all its redirects.
pub const TIMEOUT: Duration = Duration::from_secs(20);
/// The time limit of a connection to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

const USER_AGENT: &str = concat!("fermata/", env!("CARGO_PKG_VERSION"));

/// A client that connects to public addresses only. It is cheap to clone.
#[derive(Clone)]
pub struct WebClient {
    client: Client,
    is_allowed: fn(IpAddr) -> bool,
    /// `true` if names are looked up although no network but a private one knows them.
    takes_private_names: bool,
}

/// The response to a request.
#[derive(Debug)]
pub enum Fetched {
    /// The resource.
    Body {
        /// The URL after redirects.
        url: Url,
        /// The media type with its parameters; empty if the server names none.
        content_type: String,
        /// The decompressed body.
        bytes: Vec<u8>,
        /// True if the body is longer than [`MAX_BODY`].
        is_cut: bool,
    },
    /// The resource is elsewhere.
    Moved {
        /// The URL there.
        to: Url,
    },
}

/// The resolver of [`WebClient`]. A name with an address that is not allowed has none.
struct AllowedAddresses {
    resolver: SystemResolver,
    is_allowed: fn(IpAddr) -> bool,
}

// === impl WebClient ===

impl WebClient {
    /// Creates a client that connects to public addresses.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up.
    pub fn new() -> reqwest::Result<Self> {
        Self::connecting_to(is_public_address)
    }

    /// Creates a client that connects to all addresses, for URLs that an operator has chosen.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up.
    pub fn private() -> reqwest::Result<Self> {
        Ok(Self { takes_private_names: true, ..Self::connecting_to(|_| true)? })
    }

    fn connecting_to(is_allowed: fn(IpAddr) -> bool) -> reqwest::Result<Self> {
        let client = Client::builder()
            .user_agent(USER_AGENT)
            .dns_resolver(Arc::new(AllowedAddresses { resolver: SystemResolver::default(), is_allowed }))
            // A proxy would connect to addresses that nobody here has seen.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_max_idle_per_host(0)
            .build()?;
        Ok(Self { client, is_allowed, takes_private_names: false })
    }

    /// Returns the reason why a URL is never fetched, as far as it shows without asking a name server.
    pub fn refusal(&self, url: &Url) -> Option<String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Some(format!("Only http and https URLs are fetched, not {}:.", url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Some("A URL with a user name or a password is not fetched.".into());
        }
        let is_allowed = match HostName::of_url(url) {
            None => false,
            Some(HostName::Address(address)) => (self.is_allowed)(address),
            Some(name @ HostName::Domain(_)) => self.takes_private_names || name.is_public(),
        };
        if is_allowed {
            return None;
        }
        let host = url.host_str().unwrap_or_default();
        Some(format!("{host} is not a host of the public Internet, and only those are fetched."))
    }

    /// Returns a request to a URL, which the caller completes and sends.
    ///
    /// # Errors
    /// Returns the reason why nothing is sent to this URL.
    pub fn request(&self, method: Method, url: &Url) -> Result<RequestBuilder, String> {
        match self.refusal(url) {
            Some(reason) => Err(reason),
            None => Ok(self.client.request(method, url.clone())),
        }
    }

    /// Fetches a URL. The future may be dropped at any time.
    ///
    /// # Errors
    /// Returns an error with the type of the failure if the URL is refused, or if there is no response that can be used.
    pub async fn fetch(&self, url: Url) -> Result<Fetched, ToolError> {
        let request = self.request(Method::GET, &url);
        let request = request.map_err(|reason| ToolError::new(ErrorType::Denied, reason))?;
        let accepted = "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, */*;q=0.1";
        let request = request.header(header::ACCEPT, accepted);
        let response =
            request.header(header::ACCEPT_ENCODING, "gzip").send().await.map_err(|error| failure(&error))?;
        if !response.status().is_redirection() {
            return read(url, response).await;
        }
        let Some(location) = text_of(response.headers(), &header::LOCATION) else {
            return Err(unusable(format!("The page answers {} without a new address.", response.status())));
        };
        let to = url
            .join(location)
            .map_err(|_| unusable("The page has moved to an address that is not a URL."))?;
        Ok(Fetched::Moved { to })
    }
}

/// Returns whether a redirect leads to the same site: the same host (with or without `www.`) with the same scheme and port, or from http to
/// https on their usual ports.
pub fn is_same_site(from: &Url, to: &Url) -> bool {
    let place = |url: &Url| (url.scheme().to_owned(), url.port_or_known_default());
    let is_upgrade =
        (from.scheme(), to.scheme()) == ("http", "https") && (from.port(), to.port()) == (None, None);
    without_www(from) == without_www(to) && (place(from) == place(to) || is_upgrade)
}

// === impl AllowedAddresses ===

impl Resolve for AllowedAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        let (resolver, is_allowed) = (self.resolver.clone(), self.is_allowed);
        Box::pin(async move {
            let found = allowed_addresses(&resolver, name.as_str(), is_allowed).await?;
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}

/// Reads a response that is not a redirect.
async fn read(url: Url, response: Response) -> Result<Fetched, ToolError> {
    check_status(response.status(), response.headers())?;
    let headers = response.headers();
    let content_type = text_of(headers, &header::CONTENT_TYPE).unwrap_or_default().to_owned();
    let encoding = text_of(headers, &header::CONTENT_ENCODING).unwrap_or_default().to_ascii_lowercase();
    let (bytes, mut is_cut) = body(response).await?;
    let bytes = match encoding.as_str() {
        "" | "identity" => bytes,
        "gzip" | "x-gzip" => {
            // A body that was cut ends in the middle, so the output before the error counts.
            let mut decoded = Vec::new();
            let limit = MAX_BODY as u64 + 1;
            let result =
                flate2::read::MultiGzDecoder::new(bytes.as_slice()).take(limit).read_to_end(&mut decoded);
            if result.is_err() && !is_cut {
                return Err(unusable("The page is compressed in a way that cannot be read."));
            }
            is_cut |= decoded.len() > MAX_BODY;
            decoded.truncate(MAX_BODY);
            decoded
        }
        other => {
            let shown: String = other.chars().take(40).collect();
            return Err(unusable(format!("The page is compressed as {shown:?}, which was not asked for.")));
        }
    };
    Ok(Fetched::Body { url, content_type, bytes, is_cut })
}

/// Reads a body up to [`MAX_BODY`] bytes. Returns whether there is more.
pub async fn body(mut response: Response) -> Result<(Vec<u8>, bool), ToolError> {
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| failure(&error))? {
        bytes.extend_from_slice(&piece[..piece.len().min(MAX_BODY + 1 - bytes.len())]);
        if bytes.len() > MAX_BODY {
            bytes.truncate(MAX_BODY);
            return Ok((bytes, true));
        }
    }
    Ok((bytes, false))
}

/// Checks that a response has the requested content.
///
/// # Errors
/// Returns the failure that the status stands for.
pub fn check_status(status: StatusCode, headers: &HeaderMap) -> Result<(), ToolError> {
    let error_type = match status {
        status if status.is_success() => return Ok(()),
        StatusCode::TOO_MANY_REQUESTS => ErrorType::RateLimit,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            ErrorType::Auth
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => ErrorType::EmptyResult,
        StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => ErrorType::Timeout,
        status if status.is_server_error() => ErrorType::Network,
        _ => ErrorType::Internal,
    };
    let seconds = text_of(headers, &header::RETRY_AFTER).and_then(|seconds| seconds.trim().parse().ok());
    let retry_after = seconds.map(Duration::from_secs);
    let text = format!("The server answers {status}.");
    Err(ToolError { error_type, text, retry_after })
}

/// Returns the failure of a request that got no whole response.
pub fn failure(error: &reqwest::Error) -> ToolError {
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(inner) = cause {
        if let Some(refusal) = inner.downcast_ref::<NameRefusal>() {
            let error_type = match refusal {
                NameRefusal::NotPublic { .. } => ErrorType::Denied,
                NameRefusal::Unknown(_) => ErrorType::Network,
                NameRefusal::TimedOut(_) => ErrorType::Timeout,
            };
            return ToolError::new(error_type, format!("It is not fetched: {refusal}."));
        }
        cause = inner.source();
    }
    if error.is_timeout() {
        return ToolError::new(ErrorType::Timeout, "The server did not answer in time.");
    }
    if error.is_connect() {
        return ToolError::new(ErrorType::Network, "The server cannot be reached.");
    }
    ToolError::new(ErrorType::Network, "The connection to the server broke.")
}

fn unusable(text: impl Into<String>) -> ToolError {
    ToolError::new(ErrorType::InvalidFormat, text)
}

/// Returns a header that is text.
fn text_of<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the host of a URL. Hosts with and without `www.` have one owner.
fn without_www(url: &Url) -> Option<&str> {
    let host = url.host_str()?;
    Some(host.strip_prefix("www.").unwrap_or(host))
}

#[cfg(test)]
pub mod tests;
