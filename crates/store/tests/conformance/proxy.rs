//! A proxy between a store and its PostgreSQL.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

/// A proxy that can keep the server's answers to itself until the client has sent a commit. It reads what it passes on, so it is no use with TLS.
#[derive(Clone, Default)]
pub struct Withholding {
    withholds: Arc<watch::Sender<bool>>,
    loses: Arc<AtomicBool>,
}

impl Withholding {
    /// Starts the proxy. Returns its port.
    pub async fn start(&self, server: String) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy = self.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(proxy.clone().pass_on(client, server.clone()));
            }
        });
        port
    }

    /// From now on no answer comes before a commit was sent.
    pub fn withhold(&self) {
        self.withholds.send_replace(true);
    }

    /// Ends the connection instead of passing the next answer on.
    pub fn lose_next_answer(&self) {
        self.loses.store(true, Ordering::SeqCst);
    }

    async fn pass_on(self, client: TcpStream, server: String) {
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = TcpStream::connect(server).await.unwrap().into_split();
        let (withholds, mut is_withheld) = (self.withholds.clone(), self.withholds.subscribe());
        tokio::spawn(async move {
            let mut bytes = vec![0; 65_536];
            while let Ok(length @ 1..) = from_client.read(&mut bytes).await {
                if bytes[..length].windows(7).any(|word| word == b"COMMIT\0") {
                    withholds.send_replace(false);
                }
                if to_server.write_all(&bytes[..length]).await.is_err() {
                    break;
                }
            }
        });
        let mut bytes = vec![0; 65_536];
        while let Ok(length @ 1..) = from_server.read(&mut bytes).await {
            if self.loses.swap(false, Ordering::SeqCst) {
                break;
            }
            is_withheld.wait_for(|is_withheld| !is_withheld).await.unwrap();
            if to_client.write_all(&bytes[..length]).await.is_err() {
                break;
            }
        }
    }
}

/// Starts a proxy that speaks TLS to its clients, as a PostgreSQL does that has a certificate. Returns its port.
pub async fn with_tls(config: ServerConfig, server: String) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (acceptor, server) = (acceptor.clone(), server.clone());
            tokio::spawn(async move {
                let mut request = [0; 8];
                client.read_exact(&mut request).await.unwrap();
                assert_eq!(request, [0, 0, 0, 8, 4, 210, 22, 47], "it asks for TLS");
                client.write_all(b"S").await.unwrap();
                // A client that does not trust the certificate goes away.
                let Ok(mut client) = acceptor.accept(client).await else { return };
                let mut server = TcpStream::connect(server).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    port
}
