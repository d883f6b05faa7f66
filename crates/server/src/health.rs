//! `fermata health`: asks the server that these settings start whether it can serve, for health checks of containers without curl.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use serde_json::Value;

use crate::config::Config;

/// Why the server does not count as healthy.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// Nobody is there, or is too slow.
    #[error("{address} does not answer")]
    NoAnswer {
        /// Who was asked.
        address: SocketAddr,
        /// What went wrong.
        source: reqwest::Error,
    },
    /// It answers, but does not serve.
    #[error("{address} cannot serve: {detail}")]
    NotReady {
        /// Who was asked.
        address: SocketAddr,
        /// In its own words, where it has any.
        detail: String,
    },
}

/// A server that takes longer to say so is not ready.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks `/readyz` of the server. Needs a tokio runtime.
///
/// # Errors
/// Why it does not count as healthy.
pub async fn ask(config: &Config) -> Result<(), HealthError> {
    let address = reachable(config.bind);
    let no_answer = |source| HealthError::NoAnswer { address, source };
    // A proxy of the environment is for the world outside.
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().map_err(no_answer)?;
    let response = client.get(format!("http://{address}/readyz")).send().await.map_err(no_answer)?;
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let problem: Value = response.json().await.unwrap_or_default();
    let detail = problem["detail"].as_str().map_or_else(|| status.to_string(), str::to_owned);
    Err(HealthError::NotReady { address, detail })
}

/// Where to reach who listens there: an address that stands for all of a machine's is none to connect to.
fn reachable(bind: SocketAddr) -> SocketAddr {
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
    fn who_listens_everywhere_is_asked_on_this_machine() {
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
