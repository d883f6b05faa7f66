//! The yardstick: an HTTP proxy that passes bytes on as they come, and understands nothing of them.

use std::net::SocketAddr;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Mutex,
};

/// Serves for ever, and prints its address first.
#[expect(clippy::print_stdout, reason = "whoever starts it reads the address there")]
pub async fn serve(upstream: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (client, _) = listener.accept().await?;
        client.set_nodelay(true)?;
        tokio::spawn(async move {
            // A connection of its own for each client's, so that nothing is looked up.
            let connection = Mutex::new(None);
            let service = service_fn(|request| pass_on(&connection, upstream, request));
            // A client that leaves is no failure.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(client), service).await;
        });
    }
}

async fn pass_on(
    connection: &Mutex<Option<SendRequest<Full<Bytes>>>>,
    upstream: SocketAddr,
    request: Request<Incoming>,
) -> anyhow::Result<Response<Incoming>> {
    let (mut head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    head.headers.remove("connection");
    let mut connection = connection.lock().await;
    if connection.as_ref().is_none_or(SendRequest::is_closed) {
        let stream = TcpStream::connect(upstream).await?;
        stream.set_nodelay(true)?;
        let (sender, driver) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(driver);
        *connection = Some(sender);
    }
    let sender = connection.as_mut().context("there is a connection")?;
    sender.ready().await?;
    Ok(sender.send_request(Request::from_parts(head, Full::new(body))).await?)
}
