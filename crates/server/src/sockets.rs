//! The sockets that a server listens on: its own, or those that a service manager hands over (`LISTEN_FDS`, as systemd does).
//!
//! A socket that is handed over outlives the process. While one process ends and the next starts, connections wait in it.

use std::{io, net::SocketAddr};

use listenfd::ListenFd;
use tokio::net::{TcpListener, TcpSocket};

use crate::config::{Config, ConfigError, OperatorAddress};

/// The sockets that were handed over to this process.
pub struct Inherited(ListenFd);

/// The sockets of a server.
pub struct Sockets {
    /// The socket for everybody.
    pub everybody: TcpListener,
    /// The socket for operators, if they have one.
    pub operators: Option<TcpListener>,
    /// The settings, with the address of the socket for everybody.
    pub config: Config,
}

/// The reason why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The socket cannot be opened.
    #[error("cannot listen on {address}")]
    Open {
        /// The address.
        address: SocketAddr,
        /// The failure.
        source: io::Error,
    },
    /// The socket that was handed over cannot be used.
    #[error("the socket that was handed over (LISTEN_FDS) cannot be used")]
    Inherited(#[from] io::Error),
    /// The settings do not allow the address.
    #[error(transparent)]
    Address(#[from] ConfigError),
}

/// The number of connections that may wait to be accepted. It is that of tokio's own sockets.
const BACKLOG: u32 = 1024;
/// The number of ports that are tried if the default port is taken.
const NEXT_PORTS: u16 = 20;

// === impl Inherited ===

impl Inherited {
    /// Takes the sockets that the environment tells of, and removes them from it, so that no child takes them for its own. Nothing else may
    /// read or change the environment meanwhile.
    pub fn from_environment() -> Self {
        Self(ListenFd::from_env())
    }

    fn take(&mut self, place: usize) -> io::Result<Option<TcpListener>> {
        let Some(listener) = self.0.take_tcp_listener(place)? else { return Ok(None) };
        listener.set_nonblocking(true)?;
        Ok(Some(TcpListener::from_std(listener)?))
    }
}

// === impl Sockets ===

impl Sockets {
    /// Opens the sockets of these settings. The first one that was handed over takes the place of `bind`, and the second one that of
    /// `operator_bind`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if a socket cannot be opened or used, or if the settings do not allow the address of one that was handed over.
    pub fn open(mut inherited: Inherited, config: &Config) -> Result<Self, SocketError> {
        let (everybody, config) = match inherited.take(0)? {
            Some(listener) => {
                let config = config.at(listener.local_addr()?)?;
                (listener, config)
            }
            None if config.is_port_chosen() => {
                (listen(config.server.address(), config.server.reuse_port)?, config.clone())
            }
            None => {
                let listener = listen_near(config.server.address(), config.server.reuse_port)?;
                let config = config.at(listener.local_addr()?)?;
                (listener, config)
            }
        };
        let operators = match config.server.operator_bind {
            None => None,
            Some(OperatorAddress(address)) => Some(match inherited.take(1)? {
                Some(listener) => listener,
                // Each process has its own, or an operator would not know which one is asked.
                None => listen(address, false)?,
            }),
        };
        Ok(Self { everybody, operators, config })
    }
}

/// Listens on the address, or on one of the next ports if its own is taken.
fn listen_near(address: SocketAddr, reuse_port: bool) -> Result<TcpListener, SocketError> {
    let is_taken = |error: &SocketError| matches!(error, SocketError::Open { source, .. } if source.kind() == io::ErrorKind::AddrInUse);
    match listen(address, reuse_port) {
        Err(error) if is_taken(&error) => {
            let mut next = (1..=NEXT_PORTS).filter_map(|more| address.port().checked_add(more));
            next.find_map(|port| listen(SocketAddr::new(address.ip(), port), reuse_port).ok()).ok_or(error)
        }
        listener => listener,
    }
}

fn listen(address: SocketAddr, reuse_port: bool) -> Result<TcpListener, SocketError> {
    let open = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(reuse_port)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    open().map_err(|source| SocketError::Open { address, source })
}
