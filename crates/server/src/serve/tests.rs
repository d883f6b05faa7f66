//! Connections that keep the server waiting, and more of them than there are slots. Time is paused.

use std::{future::pending, sync::Mutex};

use axum::{
    Extension,
    body::{Body, Bytes},
    http::{HeaderName, StatusCode, header},
    routing::{get, post},
};
use futures::StreamExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    net::TcpStream,
    sync::mpsc,
    time::{Instant, sleep},
};

use tower::ServiceExt;

use super::*;

const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 2,
    per_address: 2,
    header_timeout: Duration::from_secs(10),
    reader_timeout: Duration::from_secs(30),
};
/// The capacity of a test's pipe, which stands for the buffers of two kernels.
const PIPE: usize = 1 << 10;
const GET: &str = "GET / HTTP/1.1\r\nhost: h\r\n\r\n";

/// A server whose `/` responds with the peer's address, whose `/busy` never responds, and whose `/endless` never ends its response.
fn server() -> Server {
    let address = async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.ip().to_string();
    let refusal = async |Extension(reserved): Extension<Reserved>| {
        let status = match reserved.refuse() {
            Full::Server => StatusCode::SERVICE_UNAVAILABLE,
            Full::Address => StatusCode::TOO_MANY_REQUESTS,
        };
        (status, "full")
    };
    let endless = async || {
        let piece = Bytes::from_static(&[b'x'; PIPE]);
        Body::from_stream(futures::stream::repeat_with(move || Ok::<_, Infallible>(piece.clone())))
    };
    let routes = Router::new()
        .route("/", get(address))
        .route("/busy", post(async |_: Body| pending::<()>().await))
        .route("/endless", get(endless));
    let when_full = Router::new().route("/healthz", get(async || "ok")).fallback(refusal);
    Server {
        routes,
        when_full,
        limits: LIMITS,
        proxies: TrustedProxies::default(),
        draining: CancellationToken::new(),
        shares_port: false,
    }
}

/// Returns the address of a client, and a slot for its connection.
async fn slot() -> (SocketAddr, Slot) {
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    (peer, Slots::new(&LIMITS, TrustedProxies::default()).take(peer.ip()).await.expect("a slot"))
}

/// Returns the client's end of a connection and the future that serves it.
async fn connect(server: Server) -> (DuplexStream, impl Future<Output = ()>) {
    let (client, io) = duplex(PIPE);
    let (peer, slot) = slot().await;
    (client, Arc::new(server).connection(io, peer, slot, CancellationToken::new()))
}

/// Serves a client until it is done.
async fn served(client: impl Future<Output = ()>, connection: impl Future<Output = ()>) {
    tokio::select! {
        () = client => {}
        () = connection => panic!("the connection ended"),
    }
}

/// Returns how long a connection lasts if the client does this and then nothing more.
async fn lasts(server: Server, does: impl AsyncFnOnce(&mut DuplexStream)) -> Duration {
    let begun = Instant::now();
    let (mut client, connection) = connect(server).await;
    let client = async {
        does(&mut client).await;
        pending::<()>().await;
    };
    tokio::select! {
        () = client => {}
        () = connection => {}
    }
    begun.elapsed()
}

async fn answer(client: &mut (impl AsyncRead + Unpin), end: &str) -> String {
    let mut answer = String::new();
    while !answer.ends_with(end) {
        let mut piece = [0; 256];
        let read = client.read(&mut piece).await.expect("an answer");
        assert!(read > 0, "the connection was closed after {answer:?}");
        answer.push_str(std::str::from_utf8(&piece[..read]).expect("text"));
    }
    answer
}

/// Serves on a socket and returns its address.
async fn listening(server: Server) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(server.serve(listener, CancellationToken::new()));
    address
}

async fn ask(address: SocketAddr, request: &str) -> TcpStream {
    let mut client = TcpStream::connect(address).await.expect("a connection");
    client.write_all(request.as_bytes()).await.expect("sending");
    client
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_nothing_is_disconnected() {
    assert_eq!(lasts(server(), async |_| {}).await.as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_trickles_its_head_is_disconnected_as_soon() {
    let trickle = async |client: &mut DuplexStream| {
        client.write_all(b"GET / HTTP/1.1\r\n").await.expect("sending");
        for _ in 0..100 {
            client.write_all(b"x: y\r\n").await.expect("sending");
            sleep(Duration::from_secs(1)).await;
        }
    };
    assert_eq!(lasts(server(), trickle).await.as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_another_request_is_closed() {
    let ask_twice = async |client: &mut DuplexStream| {
        for _ in 0..2 {
            sleep(Duration::from_secs(8)).await;
            client.write_all(GET.as_bytes()).await.expect("sending");
            assert!(answer(client, "127.0.0.1").await.starts_with("HTTP/1.1 200"));
        }
    };
    assert_eq!(lasts(server(), ask_twice).await.as_secs(), 26);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_nothing_is_disconnected() {
    let ask = async |client: &mut DuplexStream| {
        client.write_all(b"GET /endless HTTP/1.1\r\nhost: h\r\n\r\n").await.expect("sending");
        let mut piece = [0; PIPE];
        client.read_exact(&mut piece).await.expect("a piece");
        sleep(Duration::from_secs(29)).await;
        client.read_exact(&mut piece).await.expect("a piece");
    };
    assert_eq!(lasts(server(), ask).await.as_secs(), 59);
}

#[tokio::test(start_paused = true)]
async fn a_stream_on_which_nothing_is_said_is_kept() {
    let (said, says) = mpsc::channel::<Result<Bytes, Infallible>>(1);
    let says = Mutex::new(Some(says));
    let quiet = async move || {
        let mut says = says.lock().expect("a lock").take().expect("one request");
        Body::from_stream(futures::stream::poll_fn(move |cx| says.poll_recv(cx)))
    };
    let quiet = Arc::new(quiet);
    let routes = Router::new().route("/", get(move || async move { quiet().await }));
    let (mut client, connection) = connect(Server { routes, ..server() }).await;
    let client = async {
        client.write_all(GET.as_bytes()).await.expect("sending");
        for _ in 0..3 {
            sleep(Duration::from_secs(300)).await;
            said.send(Ok(Bytes::from_static(b"still here"))).await.expect("a reader");
            answer(&mut client, "still here\r\n").await;
        }
    };
    served(client, connection).await;
}

#[tokio::test]
async fn a_client_that_sends_all_of_a_refused_body_before_it_reads_finds_the_refusal() {
    const BODY: usize = 5_000_000;
    let routes = server().routes.route("/half-read", post(refuse_halfway));
    let address = listening(Server { routes, ..server() }).await;
    for (path, status) in [("/", 405), ("/half-read", 413)] {
        for option in ["keep-alive", "close"] {
            let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\nconnection: {option}\r\n");
            let mut client = ask(address, &format!("{head}content-length: {BODY}\r\n\r\n")).await;
            client.write_all(&vec![b'x'; BODY]).await.expect("the server goes on reading");
            let refusal = answer(&mut client, "\r\n\r\n").await;
            assert!(refusal.starts_with(&format!("HTTP/1.1 {status}")), "{path} {option}: {refusal}");
            if option == "keep-alive" {
                client.write_all(GET.as_bytes()).await.expect("sending");
                assert!(answer(&mut client, "127.0.0.1").await.starts_with("HTTP/1.1 200"));
            }
        }
    }
}

/// Reads the beginning of a body and drops the rest.
async fn refuse_halfway(body: Body) -> StatusCode {
    body.into_data_stream().next().await.expect("a beginning").expect("bytes");
    StatusCode::PAYLOAD_TOO_LARGE
}

#[tokio::test(start_paused = true)]
async fn a_body_is_refused_before_it_is_sent_and_is_not_waited_for_for_long() {
    let refused = async |client: &mut DuplexStream, head: &str| {
        client
            .write_all(format!("POST / HTTP/1.1\r\nhost: h\r\n{head}\r\n").as_bytes())
            .await
            .expect("sending");
        assert!(answer(client, "\r\n\r\n").await.starts_with("HTTP/1.1 405"));
    };
    let announced = async |client: &mut DuplexStream| refused(client, "content-length: 10\r\n").await;
    assert_eq!(lasts(server(), announced).await.as_secs(), 10);
    let asked = async |client: &mut DuplexStream| {
        refused(client, "expect: 100-continue\r\ncontent-length: 10\r\n").await;
    };
    assert_eq!(lasts(server(), asked).await.as_secs(), 0);
    let endless = async |client: &mut DuplexStream| {
        refused(client, "transfer-encoding: chunked\r\n").await;
        // It ends when the server has closed the connection.
        while client.write_all(format!("1000\r\n{}\r\n", "x".repeat(0x1000)).as_bytes()).await.is_ok() {}
    };
    assert_eq!(lasts(server(), endless).await.as_secs(), 0);
}

#[tokio::test]
async fn connections_without_a_request_give_way() {
    // With this limit, only eviction closes a connection.
    let limits = ConnectionLimits { header_timeout: Duration::from_secs(3600), ..LIMITS };
    let Server { routes, .. } = server();
    let exchanged = move |Extension(reserved): Extension<Reserved>, request: Request<Body>| {
        let routes = routes.clone();
        async move {
            assert!(reserved.exchange(Duration::from_secs(4)).await, "the slot of a silent connection");
            routes.oneshot(request).await
        }
    };
    let when_full = Router::new().fallback(exchanged);
    let address = listening(Server { limits, when_full, ..server() }).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(ask(address, "GET / HT").await);
    }
    let mut asking = ask(address, GET).await;
    assert!(answer(&mut asking, "127.0.0.1").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn health_is_answered_when_every_connection_is_busy() {
    let address = listening(server()).await;
    let busy = "POST /busy HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n";
    let mut connections = Vec::new();
    for _ in 0..2 {
        connections.push(ask(address, "GET /endless HTTP/1.1\r\nhost: h\r\n\r\n").await);
        connections.last_mut().expect("a connection").read_exact(&mut [0; 12]).await.expect("an answer");
    }
    for _ in 0..100 {
        connections.push(ask(address, "").await);
    }
    let mut health = ask(address, "GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n").await;
    let mut answer = String::new();
    health.read_to_string(&mut answer).await.expect("an answer, and the end of the connection");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
    let mut refused = ask(address, busy).await;
    let mut answer = String::new();
    refused.read_to_string(&mut answer).await.expect("an answer, and the end of the connection");
    assert!(answer.starts_with("HTTP/1.1 503") && answer.ends_with("full"), "{answer}");
}

#[tokio::test]
async fn when_the_server_ends_a_response_under_way_is_finished() {
    let (said, says) = mpsc::channel::<Result<Bytes, Infallible>>(1);
    let says = Arc::new(Mutex::new(Some(says)));
    let quiet = move || async move {
        let mut says = says.lock().expect("a lock").take().expect("one request");
        Body::from_stream(futures::stream::poll_fn(move |cx| says.poll_recv(cx)))
    };
    let server = Server { routes: Router::new().route("/", get(quiet)), ..server() };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let over = CancellationToken::new();
    let serving = tokio::spawn(server.serve(listener, over.clone()));
    let mut client = ask(address, GET).await;
    said.send(Ok(Bytes::from_static(b"begun"))).await.expect("a reader");
    answer(&mut client, "begun\r\n").await;
    over.cancel();
    said.send(Ok(Bytes::from_static(b"done"))).await.expect("a reader");
    drop(said);
    let mut rest = String::new();
    client.read_to_string(&mut rest).await.expect("the rest");
    assert!(rest.contains("done") && rest.ends_with("0\r\n\r\n"), "{rest}");
    serving.await.expect("an end");
}

#[tokio::test]
async fn connections_that_the_kernel_has_accepted_are_served_when_the_server_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let limits = ConnectionLimits { connections: 100, ..LIMITS };
    let mut clients = Vec::new();
    for _ in 0..50 {
        clients.push(ask(address, GET).await);
    }
    // This one says nothing, and is not waited for.
    let _silent = TcpStream::connect(address).await.expect("a connection");
    let over = CancellationToken::new();
    over.cancel();
    let serving = tokio::spawn(Server { limits, ..server() }.serve(listener, over));
    for mut client in clients {
        let mut whole = String::new();
        client.read_to_string(&mut whole).await.expect("an answer, and the end of the connection");
        assert!(whole.starts_with("HTTP/1.1 200") && whole.ends_with("127.0.0.1"), "{whole}");
    }
    serving.await.expect("an end");
    assert!(TcpStream::connect(address).await.is_err(), "later connections are refused");
}

#[tokio::test(start_paused = true)]
async fn while_the_server_drains_a_connection_ends_after_its_next_response() {
    for path in ["/", "/stream"] {
        let (server, said) = streaming();
        let draining = server.draining.clone();
        let (mut client, connection) = connect(server).await;
        let client = async {
            client.write_all(GET.as_bytes()).await.expect("sending");
            assert!(!answer(&mut client, "127.0.0.1").await.contains("connection: close"));
            draining.cancel();
            let request = format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n");
            client.write_all(request.as_bytes()).await.expect("sending");
            let talking = async {
                if path == "/stream" {
                    say(&said, "one").await;
                    say(&said, "two").await;
                }
                drop(said);
            };
            let reading = async {
                let mut whole = String::new();
                client.read_to_string(&mut whole).await.expect("an answer, and the end of the connection");
                whole
            };
            let (whole, ()) = futures::join!(reading, talking);
            assert!(whole.contains("\r\nconnection: close\r\n"), "{whole}");
            let end = if path == "/" { "127.0.0.1" } else { "3\r\ntwo\r\n0\r\n\r\n" };
            assert!(whole.ends_with(end), "{whole}");
        };
        futures::join!(client, connection);
    }
}

/// A server whose `/stream` is an event stream of the sent texts, whose `/endless-stream` is one without end, and whose `/` is as ever.
fn streaming() -> (Server, mpsc::Sender<Result<Bytes, Infallible>>) {
    let (said, says) = mpsc::channel::<Result<Bytes, Infallible>>(1);
    let says = Arc::new(Mutex::new(Some(says)));
    const MEDIA_TYPE: [(HeaderName, &str); 1] = [(header::CONTENT_TYPE, "text/event-stream")];
    let stream = move || async move {
        let mut says = says.lock().expect("a lock").take().expect("one request");
        (MEDIA_TYPE, Body::from_stream(futures::stream::poll_fn(move |cx| says.poll_recv(cx))))
    };
    let endless = async move || {
        let piece = Bytes::from_static(&[b'x'; PIPE]);
        let quiet_first = futures::stream::once(async move { sleep(Duration::from_millis(1)).await });
        let pieces = quiet_first.chain(futures::stream::repeat(()));
        (MEDIA_TYPE, Body::from_stream(pieces.map(move |()| Ok::<_, Infallible>(piece.clone()))))
    };
    let routes =
        server().routes.route("/stream", get(stream.clone()).post(async move |_: Bytes| stream().await));
    (Server { routes: routes.route("/endless-stream", get(endless)), ..server() }, said)
}

async fn say(said: &mpsc::Sender<Result<Bytes, Infallible>>, text: &'static str) {
    said.send(Ok(Bytes::from_static(text.as_bytes()))).await.expect("a reader");
    // The next one is not ready together with it.
    sleep(Duration::from_millis(10)).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_serves_more_requests_after_an_event_stream() {
    for method in ["GET", "POST"] {
        let (server, said) = streaming();
        let (mut client, connection) = connect(server).await;
        let client = async {
            let body = if method == "GET" { "" } else { "question" };
            let length = body.len();
            let head = format!("{method} /stream HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n");
            client.write_all(head.as_bytes()).await.expect("sending");
            sleep(Duration::from_secs(1)).await;
            client.write_all(body.as_bytes()).await.expect("sending");
            let talking = async {
                for text in ["one", "twenty-four characters!!", ""] {
                    say(&said, text).await;
                }
                said.send(Ok(Bytes::from_static(b"last"))).await.expect("a reader");
                drop(said);
            };
            let (read, ()) = futures::join!(answer(&mut client, "\r\n0\r\n\r\n"), talking);
            let (head, body) = read.split_once("\r\n\r\n").expect("a head");
            assert!(
                head.starts_with("HTTP/1.1 200") && head.contains("transfer-encoding: chunked"),
                "{head}"
            );
            assert_eq!(body, "3\r\none\r\n18\r\ntwenty-four characters!!\r\n4\r\nlast\r\n0\r\n\r\n");
            client.write_all(GET.as_bytes()).await.expect("sending");
            assert!(answer(&mut client, "127.0.0.1").await.starts_with("HTTP/1.1 200"));
        };
        served(client, connection).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_sent_during_an_event_stream_is_answered_after_it() {
    let (server, said) = streaming();
    let (mut client, connection) = connect(server).await;
    let client = async {
        client.write_all(b"GET /stream HTTP/1.1\r\nhost: h\r\n\r\n").await.expect("sending");
        say(&said, "one").await;
        client.write_all(GET.as_bytes()).await.expect("sending");
        // It is longer than one read.
        let long = format!("GET / HTTP/1.1\r\nhost: h\r\nx: {}\r\n\r\n", "y".repeat(PIPE));
        let (mut reader, mut writer) = tokio::io::split(&mut client);
        let talking = async {
            say(&said, "two").await;
            drop(said);
        };
        let asking = async { writer.write_all(long.as_bytes()).await.expect("sending") };
        let reading = async {
            let mut read = String::new();
            while read.matches("127.0.0.1").count() < 2 {
                read += &answer(&mut reader, "127.0.0.1").await;
            }
            read
        };
        let (read, (), ()) = futures::join!(reading, talking, asking);
        assert!(read.contains("3\r\none\r\n3\r\ntwo\r\n0\r\n\r\nHTTP/1.1 200"), "{read}");
        assert_eq!(read.matches("HTTP/1.1 200").count(), 3, "{read}");
    };
    served(client, connection).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_stream_ends_its_connection_if_the_client_asks_for_that() {
    for (request, chunked) in [
        ("GET /stream HTTP/1.1\r\nhost: h\r\nconnection: x, Close\r\n\r\n", true),
        ("GET /stream HTTP/1.0\r\nhost: h\r\n\r\n", false),
    ] {
        let (server, said) = streaming();
        let (mut client, connection) = connect(server).await;
        let client = async {
            client.write_all(request.as_bytes()).await.expect("sending");
            say(&said, "one").await;
            say(&said, "two").await;
            drop(said);
            let mut read = String::new();
            client.read_to_string(&mut read).await.expect("the whole answer");
            let body = if chunked { "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n" } else { "onetwo" };
            assert!(read.ends_with(&format!("\r\n\r\n{body}")), "{read}");
        };
        futures::join!(client, connection);
    }
}

#[tokio::test(start_paused = true)]
async fn the_head_of_an_event_stream_is_all_that_head_is_answered_with() {
    let (server, _said) = streaming();
    let (mut client, connection) = connect(server).await;
    let client = async {
        client.write_all(b"HEAD /stream HTTP/1.1\r\nhost: h\r\n\r\n").await.expect("sending");
        answer(&mut client, "\r\n\r\n").await;
        client.write_all(GET.as_bytes()).await.expect("sending");
        assert!(answer(&mut client, "127.0.0.1").await.starts_with("HTTP/1.1 200"));
    };
    served(client, connection).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_stream_ends_when_its_reader_leaves() {
    let (server, said) = streaming();
    let (mut client, connection) = connect(server).await;
    let client = async {
        client.write_all(b"GET /stream HTTP/1.1\r\nhost: h\r\n\r\n").await.expect("sending");
        say(&said, "one").await;
        answer(&mut client, "one\r\n").await;
        drop(client);
        said.closed().await;
    };
    futures::join!(client, connection);
}

#[tokio::test(start_paused = true)]
async fn an_event_stream_ends_when_its_reader_has_sent_more_and_leaves() {
    for sent in [1, 100, PIPE, 5 * PIPE] {
        let (server, said) = streaming();
        let (mut client, connection) = connect(server).await;
        let client = async {
            client.write_all(b"GET /stream HTTP/1.1\r\nhost: h\r\n\r\n").await.expect("sending");
            say(&said, "one").await;
            answer(&mut client, "one\r\n").await;
            client.write_all(&vec![b'x'; sent]).await.expect("sending");
            drop(client);
            // Nothing is said that would show that the reader is gone.
            said.closed().await;
        };
        futures::join!(client, connection);
    }
}

#[tokio::test]
async fn the_slot_of_a_client_that_sends_more_during_an_event_stream_and_resets_is_free_at_once() {
    let (server, said) = streaming();
    let address = listening(server).await;
    let mut client = ask(address, "GET /stream HTTP/1.1\r\nhost: h\r\n\r\n").await;
    say(&said, "one").await;
    answer(&mut client, "one\r\n").await;
    client.write_all(&[b'x'; 100]).await.expect("sending");
    client.set_zero_linger().expect("an option");
    drop(client);
    said.closed().await;
}

#[tokio::test(start_paused = true)]
async fn requests_that_do_not_conform_are_refused_and_end_the_connection() {
    let post = "POST / HTTP/1.1\r\nhost: h\r\n";
    for request in [
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n".into(),
        "GET / HTTP/1.1\r\nhost:\r\n\r\n".into(),
        "GET / HTTP/1.1\nhost: h\r\n\r\n".into(),
        "GET / HTTP/1.1\r\nhost: h\n\r\n".into(),
        "GET / HTTP/1.1\r\nhost: h\r\n\n".into(),
        "GET / HTTP/1.1\r\nx: y\nhost: h\r\n\r\n".into(),
        "\nGET / HTTP/1.1\r\nhost: h\r\n\r\n".into(),
        format!("{post}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        format!("{post}transfer-encoding: identity\r\n\r\n"),
        format!("{post}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    ] {
        let (mut client, connection) = connect(server()).await;
        let client = async {
            client.write_all(request.as_bytes()).await.expect("sending");
            client.write_all(GET.as_bytes()).await.expect("sending");
            let mut answers = String::new();
            client.read_to_string(&mut answers).await.expect("an end");
            assert!(answers.starts_with("HTTP/1.1 400"), "{request:?}: {answers}");
            assert_eq!(answers.matches("HTTP/1.1").count(), 1, "{request:?}: {answers}");
        };
        futures::join!(client, connection);
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_request_with_bare_line_ends_is_refused() {
    for first in [
        GET,
        "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 4\r\n\r\na\n\nb",
        "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n4\r\na\n\nb\r\n0\r\n\r\n",
    ] {
        let routes = Router::new().route("/", get(async || "ok").post(async |_: Bytes| "ok"));
        let (mut client, connection) = connect(Server { routes, ..server() }).await;
        let client = async {
            for request in [first, first, "GET / HTTP/1.1\r\nhost: h\n\r\n"] {
                client.write_all(request.as_bytes()).await.expect("sending");
            }
            let mut answers = String::new();
            client.read_to_string(&mut answers).await.expect("an end");
            assert_eq!(answers.matches("HTTP/1.1 200").count(), 2, "{first:?}: {answers}");
            assert_eq!(answers.matches("HTTP/1.1 400").count(), 1, "{first:?}: {answers}");
        };
        futures::join!(client, connection);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_nothing_of_an_event_stream_is_disconnected() {
    let ask = async |client: &mut DuplexStream| {
        client.write_all(b"GET /endless-stream HTTP/1.1\r\nhost: h\r\n\r\n").await.expect("sending");
        let mut piece = [0; PIPE];
        for _ in 0..100 {
            client.read_exact(&mut piece).await.expect("a piece");
        }
        sleep(Duration::from_secs(29)).await;
        client.read_exact(&mut piece).await.expect("a piece");
    };
    assert_eq!(lasts(streaming().0, ask).await.as_secs(), 59);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_larger_than_the_buffers_to_its_reader_arrives_whole() {
    let (server, said) = streaming();
    let (mut client, connection) = connect(server).await;
    let client = async {
        client.write_all(b"GET /stream HTTP/1.1\r\nhost: h\r\n\r\n").await.expect("sending");
        say(&said, "begun").await;
        answer(&mut client, "begun\r\n").await;
        let talking = async {
            said.send(Ok(Bytes::from(vec![b'x'; 10 * PIPE]))).await.expect("a reader");
            say(&said, "last").await;
            drop(said);
        };
        let reading = async {
            sleep(Duration::from_secs(1)).await;
            answer(&mut client, "\r\n0\r\n\r\n").await
        };
        let (read, ()) = futures::join!(reading, talking);
        assert_eq!(read, format!("2800\r\n{}\r\n4\r\nlast\r\n0\r\n\r\n", "x".repeat(10 * PIPE)));
    };
    served(client, connection).await;
}

#[tokio::test]
async fn when_the_server_ends_an_event_stream_is_finished() {
    let (server, said) = streaming();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let over = CancellationToken::new();
    let serving = tokio::spawn(server.serve(listener, over.clone()));
    let mut client = ask(address, "GET /stream HTTP/1.1\r\nhost: h\r\n\r\n").await;
    say(&said, "begun").await;
    answer(&mut client, "begun\r\n").await;
    over.cancel();
    say(&said, "done").await;
    drop(said);
    let mut rest = String::new();
    client.read_to_string(&mut rest).await.expect("the rest");
    assert!(rest.contains("done") && rest.ends_with("0\r\n\r\n"), "{rest}");
    serving.await.expect("an end");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_event_stream_is_taken_from_hyper() {
    let (server, said) = streaming();
    let (mut client, io) = duplex(PIPE);
    let (peer, slot) = slot().await;
    let slot = Arc::new(slot);
    let socket = Socket::new(io, LIMITS.reader_timeout, slot.clone());
    client.write_all(b"GET /stream HTTP/1.1\r\nhost: h\r\n\r\n").await.expect("sending");
    said.send(Ok(Bytes::from_static(b"one"))).await.expect("a reader");
    let shutdown = CancellationToken::new();
    let taken = server.requests(socket, peer, &slot, &shutdown).await.expect("no error");
    assert!(taken.is_some(), "the stream");
    answer(&mut client, "\r\n\r\n3\r\none\r\n").await;
}

#[test]
fn a_connection_with_a_quiet_event_stream_is_small() {
    fn size<F>(_: impl FnOnce(Arc<Server>, TcpStream, SocketAddr, Slot, CancellationToken) -> F) -> usize {
        size_of::<F>()
    }
    let size = size(Server::connection::<TcpStream>);
    assert!(size <= 768, "{size} bytes for each open stream");
}
