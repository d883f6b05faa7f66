//! A client that reads streams with little work of its own.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Instant,
};

use anyhow::bail;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request,
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
    header::{CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpSocket, TcpStream};

/// A connection, on which one request follows the other.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

/// The body of a response, as it comes.
pub struct Body {
    incoming: Incoming,
}

// === impl Client ===

impl Client {
    pub async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        Self::over(TcpStream::connect(address).await?, address).await
    }

    /// Connects from an address of this machine. From one address, about 28,000 connections can lead to the same server.
    pub async fn connect_from(source: Ipv4Addr, address: SocketAddr) -> anyhow::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        Self::over(socket.connect(address).await?, address).await
    }

    async fn over(stream: TcpStream, address: SocketAddr) -> anyhow::Result<Self> {
        stream.set_nodelay(true)?;
        let (sender, driver) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(driver);
        Ok(Self { sender, host: address.to_string() })
    }

    /// Posts JSON, and returns the body of the response, which has to be 200.
    pub async fn post(&mut self, path: &str, body: String) -> anyhow::Result<Body> {
        self.send(Method::POST, path, body).await
    }

    /// Returns the body of the response, which has to be 200.
    pub async fn get(&mut self, path: &str) -> anyhow::Result<Body> {
        self.send(Method::GET, path, String::new()).await
    }

    async fn send(&mut self, method: Method, path: &str, body: String) -> anyhow::Result<Body> {
        self.sender.ready().await?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        let body = Body { incoming: response.into_body() };
        if !status.is_success() {
            bail!("{status} for {path}: {}", String::from_utf8_lossy(&body.read_all().await?));
        }
        Ok(body)
    }
}

// === impl Body ===

impl Body {
    /// Returns the next piece, and when it came; `None` at the end.
    pub async fn next(&mut self) -> anyhow::Result<Option<(Bytes, Instant)>> {
        while let Some(frame) = self.incoming.frame().await {
            if let Ok(bytes) = frame?.into_data() {
                return Ok(Some((bytes, Instant::now())));
            }
        }
        Ok(None)
    }

    pub async fn read_all(self) -> anyhow::Result<Bytes> {
        Ok(self.incoming.collect().await?.to_bytes())
    }
}
