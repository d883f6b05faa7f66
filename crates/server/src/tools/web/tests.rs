//! Requests to servers of this machine, and to addresses that are never connected to.

use std::{
    io::Write as _,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use fermata_protocol::{ChatId, ToolCallId};
use fermata_tools::{
    CallContext, Confirm, Decision, Elicitation, ElicitationReply, Owner, Tool, ToolHost, typed,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use crate::tools::{fetch_url::FetchUrl, web_search::WebSearch};

/// A server that answers every request with these bytes, and counts its connections.
async fn server(response: Vec<u8>) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, met) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counter = met.clone();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::SeqCst);
            let response = response.clone();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = connection.read(&mut request).await;
                let _ = connection.write_all(&response).await;
                let _ = connection.shutdown().await;
            });
        }
    });
    (address, met)
}

fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

/// A client that may connect to this machine.
fn local_client() -> WebClient {
    WebClient::connecting_to(|_| true).unwrap()
}

async fn call(tool: &dyn Tool, input: Value) -> Result<Value, ToolError> {
    let context = CallContext::new(Owner::anyone(), ChatId::new("c"), ToolCallId::new("call"));
    tool.call(input.into(), context).await
}

async fn fetch(response: Vec<u8>) -> Result<Value, ToolError> {
    let (address, _) = server(response).await;
    call(&*typed(FetchUrl { web: local_client() }), json!({"url": format!("http://{address}/a")})).await
}

async fn failure_of(response: Vec<u8>) -> ErrorType {
    fetch(response).await.unwrap_err().error_type
}

#[tokio::test]
async fn no_spelling_of_an_address_that_is_not_public_is_connected_to() {
    let (address, met) = server(response("200 OK", "content-type: text/plain\r\n", b"secret")).await;
    let port = address.port();
    let tool = typed(FetchUrl { web: WebClient::new().unwrap() });
    for host in [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "１２７.０.０.１",
        "127。0。0。1",
        "127.0.0.1.",
        "0",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[::127.0.0.1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "10.0.0.1",
        "169.254.169.254",
        "2852039166",
        "100.100.100.200",
        "168.63.129.16",
        "192.168.0.1",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "x.localhost",
        "metadata.google.internal",
        "redis",
        "user@127.0.0.1",
        "example.com@127.0.0.1",
        "user:password@example.com",
    ] {
        let input = json!({"url": format!("http://{host}:{port}/")});
        assert!(matches!(tool.confirm(&input), Confirm::Deny(_)), "{host}: {:?}", tool.confirm(&input));
        let error = call(&*tool, input).await.unwrap_err();
        assert_eq!(error.error_type, ErrorType::Denied, "{host}: {error}");
    }
    for url in [
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://example.com/",
        "data:text/plain,x",
        "about:blank",
    ] {
        assert_eq!(
            call(&*tool, json!({"url": url})).await.unwrap_err().error_type,
            ErrorType::Denied,
            "{url}"
        );
    }
    for url in ["", "example.com", "http://", "http://[::1", "//example.com"] {
        let error = call(&*tool, json!({"url": url})).await.unwrap_err();
        assert_eq!(error.error_type, ErrorType::InvalidFormat, "{url}");
    }
    assert_eq!(met.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_name_with_an_address_that_is_not_public_has_none() {
    // The name passes the first check here, and its address does not.
    let (address, met) = server(response("200 OK", "", b"secret")).await;
    let client = WebClient::new().unwrap().client;
    let url = format!("http://localhost:{}/", address.port());
    let error = failure(&client.get(url).send().await.unwrap_err());
    assert_eq!(error.error_type, ErrorType::Denied, "{error}");
    assert_eq!(met.load(Ordering::SeqCst), 0);
}

/// A host that decides about redirects by their paths.
struct Paths;

#[async_trait]
impl ToolHost for Paths {
    fn report(&self, _: &ToolCallId, _: Value) {}

    async fn elicit(&self, _: &ToolCallId, _: Elicitation) -> ElicitationReply {
        ElicitationReply::Cancel
    }

    async fn decide(&self, _: &ToolCallId, input: Value) -> Decision {
        match Url::parse(input["url"].as_str().unwrap()).unwrap().path() {
            "/denied" => Decision::Deny,
            "/asked" => Decision::Ask,
            _ => Decision::Allow,
        }
    }
}

/// Fetches a page that redirects with this header.
async fn redirected(location: &str) -> Result<Value, ToolError> {
    let headers = format!("location: {location}\r\n");
    let (address, _) = server(response("302 Found", &headers, b"")).await;
    let context = CallContext::new(Owner::anyone(), ChatId::new("c"), ToolCallId::new("call"));
    let tool = typed(FetchUrl { web: local_client() });
    tool.call(json!({"url": format!("http://{address}/")}).into(), context.with_host(Arc::new(Paths))).await
}

#[tokio::test]
async fn a_redirect_is_followed_only_within_its_site_and_if_the_rules_allow_its_url() {
    let (inside, met) = server(response("200 OK", "content-type: text/plain\r\n", b"secret")).await;
    let elsewhere = format!("http://127.0.0.1:{}/", inside.port());
    let output = redirected(&elsewhere).await.unwrap();
    assert_eq!(output["movedTo"], json!(elsewhere), "another port");
    for path in ["/denied", "/asked"] {
        let output = redirected(path).await.unwrap();
        let moved = output["movedTo"].as_str().unwrap();
        assert!(moved.ends_with(path) && output["text"].as_str().unwrap().contains(moved), "{output}");
    }
    assert_eq!(met.load(Ordering::SeqCst), 0);
    let allowed = redirected("/again").await.unwrap_err();
    assert_eq!(
        allowed.error_type,
        ErrorType::InvalidFormat,
        "it was followed until it was too often: {allowed}"
    );
    // Without a host nothing is decided, so nothing is followed.
    let output = fetch(response("302 Found", "location: /again\r\n", b"")).await.unwrap();
    assert!(output["movedTo"].as_str().unwrap().ends_with("/again"), "{output}");

    for odd in [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,x",
        "ftp://a.example.com/",
        "http://u:p@a.example.com/",
        "http://redis/",
    ] {
        let output = redirected(odd).await.unwrap();
        assert!(output.get("movedTo").is_none(), "{output}");
        assert!(
            !output.to_string().contains("alert(1)") && output["text"].as_str().unwrap().contains("moved"),
            "{output}"
        );
    }
    for unusable in ["", "location: http://[\r\n"] {
        assert_eq!(failure_of(response("302 Found", unusable, b"")).await, ErrorType::InvalidFormat);
    }
}

#[test]
fn a_site_is_a_host_with_a_scheme_and_a_port() {
    let is_same = |from: &str, to: &str| is_same_site(&Url::parse(from).unwrap(), &Url::parse(to).unwrap());
    for (from, to, same) in [
        ("http://a.com/x", "http://a.com/y", true),
        ("http://a.com/", "http://a.com:80/", true),
        ("http://a.com/", "http://www.a.com/", true),
        ("http://www.a.com/", "http://a.com/", true),
        ("http://a.com/", "https://a.com/", true),
        ("http://a.com/", "https://www.a.com:443/", true),
        ("https://a.com/", "http://a.com/", false),
        ("http://a.com:8080/", "https://a.com/", false),
        ("http://a.com/", "https://a.com:8443/", false),
        ("http://a.com/", "http://a.com:8080/", false),
        ("http://a.com:8080/", "http://a.com:8080/y", true),
        ("http://a.com/", "http://b.a.com/", false),
        ("http://a.com/", "http://a.com.evil.com/", false),
        ("http://a.com/", "ftp://a.com/", false),
    ] {
        assert_eq!(is_same(from, to), same, "{from} {to}");
    }
}

#[tokio::test]
async fn a_page_is_read_whole_up_to_its_limit() {
    let html = b"<title>Lamps</title><p>Hello <a href=/b>you</a>";
    let (address, _) = server(response("200 OK", "content-type: text/html; charset=utf-8\r\n", html)).await;
    let url = format!("http://{address}/a");
    let output = call(&*typed(FetchUrl { web: local_client() }), json!({ "url": url })).await.unwrap();
    let text = format!("Hello [you](http://{address}/b)");
    assert_eq!(output, json!({"url": url, "text": text, "title": "Lamps"}));

    let long =
        fetch(response("200 OK", "content-type: text/html\r\n", &vec![b' '; MAX_BODY + 5])).await.unwrap();
    assert_eq!(long["cut"], json!(format!("The page goes on; these are the first {MAX_BODY} bytes.")));
}

#[tokio::test]
async fn a_compressed_page_is_read_up_to_the_same_limit() {
    let packed = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let gzip = "content-type: text/plain\r\ncontent-encoding: gzip\r\n";
    assert_eq!(fetch(response("200 OK", gzip, &packed(b"hello"))).await.unwrap()["text"], "hello");
    let bomb = fetch(response("200 OK", gzip, &packed(&vec![b' '; 200_000_000]))).await.unwrap();
    assert!(bomb["cut"].is_string(), "{bomb}");
    assert_eq!(failure_of(response("200 OK", gzip, b"not gzip")).await, ErrorType::InvalidFormat);
    let other = "content-type: text/plain\r\ncontent-encoding: br\r\n";
    assert_eq!(failure_of(response("200 OK", other, b"x")).await, ErrorType::InvalidFormat);
}

#[tokio::test]
async fn each_failure_has_its_type() {
    for (status, error_type) in [
        ("401 Unauthorized", ErrorType::Auth),
        ("403 Forbidden", ErrorType::Auth),
        ("404 Not Found", ErrorType::EmptyResult),
        ("410 Gone", ErrorType::EmptyResult),
        ("429 Too Many Requests", ErrorType::RateLimit),
        ("500 Internal Server Error", ErrorType::Network),
        ("503 Service Unavailable", ErrorType::Network),
        ("504 Gateway Timeout", ErrorType::Timeout),
        ("418 I'm a teapot", ErrorType::Internal),
    ] {
        assert_eq!(failure_of(response(status, "", b"")).await, error_type, "{status}");
    }
    let limited = fetch(response("429 Too Many Requests", "retry-after: 7\r\n", b"")).await.unwrap_err();
    assert_eq!(limited.retry_after, Some(Duration::from_secs(7)));
    assert_eq!(
        failure_of(response("200 OK", "content-type: image/png\r\n", b"x")).await,
        ErrorType::InvalidFormat
    );
    assert_eq!(
        failure_of(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort".to_vec()).await,
        ErrorType::Network
    );
    assert_eq!(failure_of(b"hello".to_vec()).await, ErrorType::Network);
    assert_eq!(failure_of(Vec::new()).await, ErrorType::Network);
}

#[tokio::test]
async fn a_server_that_never_answers_or_never_ends_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let silent = tokio::spawn(async move { listener.accept().await.unwrap() });
    let tool = typed(FetchUrl { web: local_client() });
    let fetched =
        tokio::spawn(async move { call(&*tool, json!({"url": format!("http://{address}/")})).await });
    // The connection stays open, and the time passes as soon as it is there.
    let _connection = silent.await.unwrap();
    tokio::time::pause();
    let error = fetched.await.unwrap().unwrap_err();
    assert_eq!(error.error_type, ErrorType::Timeout, "{error}");
    tokio::time::resume();

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let _ = connection.read(&mut [0; 4096]).await;
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n").await;
        while connection.write_all(&[b'x'; 10_000]).await.is_ok() {}
    });
    let tool = typed(FetchUrl { web: local_client() });
    let output = call(&*tool, json!({"url": format!("http://{address}/")})).await.unwrap();
    assert!(output["cut"].is_string(), "a page without an end is cut");
}

/// A search through a server that answers with these bytes.
async fn search(response: Vec<u8>) -> Result<Value, ToolError> {
    let (address, _) = server(response).await;
    let url = format!("http://{address}/searxng/");
    call(&*typed(WebSearch { url, client: Client::new() }), json!({"query": "lamps"})).await
}

#[tokio::test]
async fn a_search_returns_pages_and_says_why_it_found_none() {
    let found = json!({"query": "lamps", "number_of_results": 2, "results": [
        {"url": "https://a.example/", "title": "A", "content": " lamps ", "engine": "x", "score": 1.5},
        {"url": "https://b.example/", "title": null},
    ]});
    let output = search(response("200 OK", "", found.to_string().as_bytes())).await.unwrap();
    let expected = json!({"results": [
        {"title": "A", "url": "https://a.example/", "text": "lamps"},
        {"title": "", "url": "https://b.example/"},
    ]});
    assert_eq!(output, expected);
    let empty = search(response("200 OK", "", br#"{"results": []}"#)).await.unwrap();
    assert_eq!(empty, json!({"results": []}));
    for (status, error_type) in [
        ("403 Forbidden", ErrorType::Auth),
        ("429 Too Many Requests", ErrorType::RateLimit),
        ("502 Bad Gateway", ErrorType::Network),
    ] {
        assert_eq!(search(response(status, "", b"")).await.unwrap_err().error_type, error_type, "{status}");
    }
    let html = search(response("200 OK", "", b"<html>")).await.unwrap_err();
    assert_eq!(html.error_type, ErrorType::InvalidFormat);
    let away = typed(WebSearch { url: "http://127.0.0.1:1/".into(), client: Client::new() });
    assert_eq!(call(&*away, json!({"query": "x"})).await.unwrap_err().error_type, ErrorType::Network);
    for query in ["", "  ", &"x".repeat(1_001)] {
        let error = call(&*away, json!({ "query": query })).await.unwrap_err();
        assert_eq!(error.error_type, ErrorType::InvalidFormat);
    }
}

#[tokio::test]
async fn the_query_is_sent_as_it_is() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/sub", listener.local_addr().unwrap());
    let request = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let length = connection.read(&mut request).await.unwrap();
        let _ = connection.write_all(&response("200 OK", "", br#"{"results": []}"#)).await;
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let tool = typed(WebSearch { url, client: Client::new() });
    call(&*tool, json!({"query": " lamps & 灯 #1 "})).await.unwrap();
    let request = request.await.unwrap();
    assert!(
        request.starts_with("GET /sub/search?q=lamps+%26+%E7%81%AF+%231&format=json HTTP/1.1"),
        "{request}"
    );
}
