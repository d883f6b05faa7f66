//! The end of a server, in stages: it leaves, it drains, it is drained. A signal or an operator's `POST /drain` begins it. And `fermata drain`,
//! which sends that request.

use std::{net::SocketAddr, time::Duration};

use fermata_engine::DrainCounts;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{config::ServerSettings, health::reachable};

/// The stage of a server's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The end has not begun.
    Serving,
    /// `/readyz` fails, and everything is still served.
    Leaving,
    /// Nothing new begins. Runs that wait have moved, and those at work come to their end.
    Draining,
    /// Nothing is at work any more. The process can be ended.
    Drained,
}

/// The end of a server. Its methods are called in the order of the stages.
pub(crate) struct Drain {
    linger: Duration,
    stage: watch::Sender<Stage>,
    asked: CancellationToken,
    begun: CancellationToken,
}

/// The reply to `POST /drain` and `GET /drain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainStatus {
    /// The stage that is reached.
    pub stage: Stage,
    /// The numbers of runs and requests.
    #[serde(flatten)]
    pub counts: DrainCounts,
}

/// The reason why a server cannot be drained.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// The settings name no address for operators.
    #[error(
        "the server has no address for operators, for the drain request; set operator_bind (FERMATA_OPERATOR_BIND), for example to \
         127.0.0.1:9100, and start it again"
    )]
    NoAddress,
    /// The server did not respond in time.
    #[error("{address} does not answer")]
    NoAnswer {
        /// The address that was asked.
        address: SocketAddr,
        /// The failure of the request.
        source: reqwest::Error,
    },
}

/// The time limit for a response.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The interval between the requests of `fermata drain --wait` for the server's state.
const ASK_EVERY: Duration = Duration::from_millis(200);

// === impl Drain ===

impl Drain {
    /// Creates the end of a server that goes on serving for this time after its end was announced.
    pub fn new(linger: Duration) -> Self {
        Self {
            linger,
            stage: watch::Sender::new(Stage::Serving),
            asked: CancellationToken::new(),
            begun: CancellationToken::new(),
        }
    }

    /// Returns the stage that is reached.
    pub fn stage(&self) -> Stage {
        *self.stage.borrow()
    }

    /// Returns the token that is cancelled when an operator asks for the end.
    pub fn asked(&self) -> &CancellationToken {
        &self.asked
    }

    /// Returns the token that is cancelled when nothing new begins any more.
    pub fn begun(&self) -> &CancellationToken {
        &self.begun
    }

    /// Waits while proxies notice that the server is not ready.
    pub async fn linger(&self) {
        self.stage.send_replace(Stage::Leaving);
        if !self.linger.is_zero() {
            let linger = humantime::format_duration(self.linger);
            tracing::info!("leaving: /readyz fails from now on, and everything is still served for {linger}");
            sleep(self.linger).await;
        }
    }

    /// Notes that nothing new begins any more.
    pub fn begin(&self) {
        self.stage.send_replace(Stage::Draining);
        self.begun.cancel();
    }

    /// Notes that nothing is at work any more.
    pub fn end(&self) {
        self.stage.send_replace(Stage::Drained);
    }
}

/// Tells the server with these settings to drain, and returns a line about it. With `waits`, returns once drained. Must be called within a
/// tokio runtime.
///
/// # Errors
/// Returns an error if the server has no address for operators or does not respond.
pub async fn ask(server: &ServerSettings, waits: bool) -> Result<String, DrainError> {
    let address = reachable(server.operator_bind.ok_or(DrainError::NoAddress)?.0);
    let url = format!("http://{address}/drain");
    let no_answer = |source| DrainError::NoAnswer { address, source };
    // The environment may name a proxy, which is not meant for this machine.
    let client = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().map_err(no_answer)?;
    let send = async |request: reqwest::RequestBuilder| {
        let request = match &server.operator_token {
            Some(token) => request.bearer_auth(token.0.expose_secret()),
            None => request,
        };
        request.send().await?.error_for_status()?.json::<DrainStatus>().await
    };
    let begun_at = Instant::now();
    let mut status = send(client.post(&url)).await.map_err(no_answer)?;
    while waits && status.stage != Stage::Drained {
        sleep(ASK_EVERY).await;
        status = match send(client.get(&url)).await {
            Ok(status) => status,
            // A signal has come meanwhile, and the process is gone.
            Err(error) if error.is_connect() => return Ok("the server has ended\n".into()),
            Err(error) => return Err(no_answer(error)),
        };
    }
    let DrainCounts { runs, moved, finished, cut, refused } = status.counts;
    Ok(match status.stage {
        Stage::Drained => format!(
            "drained after {:.1?}: {moved} runs were moved, {finished} finished, {cut} were cut, {refused} requests were refused\n",
            begun_at.elapsed()
        ),
        Stage::Serving | Stage::Leaving | Stage::Draining => format!("draining: {runs} runs are open\n"),
    })
}
