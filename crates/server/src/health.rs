//! `fermata health`: asks the running server with these settings whether it is ready, for health checks of containers without curl.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use serde_json::Value;

use crate::config::ServerSettings;

/// The reason why the server is not healthy.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// The server did not respond in time.
    #[error("{address} does not answer")]
    NoAnswer {
        /// The address that was asked.
        address: SocketAddr,
        /// The failure of the request.
        source: reqwest::Error,
    },
    /// The server responded that it is not ready.
    #[error("{address} cannot serve: {detail}")]
    NotReady {
        /// The address that was asked.
        address: SocketAddr,
        /// The detail of the response, or its status.
        detail: String,
    },
}

/// The time limit for the response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Requests `/readyz` from the server. Must be called within a tokio runtime.
///
/// # Errors
/// Returns an error if the server does not respond in time or is not ready.
pub async fn ask(server: &ServerSettings) -> Result<(), HealthError> {
    let address = reachable(server.address());
    let no_answer = |source| HealthError::NoAnswer { address, source };
    // The environment may name a proxy, which is not meant for this machine.
    let client = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().map_err(no_answer)?;
    let response = client.get(format!("http://{address}/readyz")).send().await.map_err(no_answer)?;
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let problem: Value = response.json().await.unwrap_or_default();
    let detail = problem["detail"].as_str().map_or_else(|| status.to_string(), str::to_owned);
    Err(HealthError::NotReady { address, detail })
}

/// Returns the address for reaching a server that listens on `bind`. One that listens on all addresses is reached by the loopback address.
pub(crate) fn reachable(bind: SocketAddr) -> SocketAddr {
    let ip = match bind.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, bind.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_listens_on_all_addresses_is_reached_by_loopback() {
        for (bind, asked) in [
            ("0.0.0.0:3000", "127.0.0.1:3000"),
            ("[::]:80", "[::1]:80"),
            ("10.1.2.3:80", "10.1.2.3:80"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(reachable(bind.parse().unwrap()).to_string(), asked);
        }
    }
}
