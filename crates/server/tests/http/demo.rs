//! The web demo, with and without embedded files.

use std::io::Read;

use axum::{
    body::{Body, Bytes, to_bytes},
    http::{HeaderMap, Method, Request, StatusCode, header},
};
use fermata_server::{Demo, site};
use serde_json::json;

use crate::{
    TestApp,
    app::{Stream, says},
    scripted,
};

const PAGE: &str = "<!doctype html><title>A page of the demo</title>";
const OTHER: &str = "<!doctype html><title>Another page of the demo</title>";

/// A server with a demo that does not depend on the embedded files.
async fn with_demo(options: &[&str]) -> TestApp {
    let app = TestApp::with(options, [scripted::says("Hello.")]).await;
    let script = "export const greeting = 'hello';\n".repeat(400);
    let files = [
        ("index.html", PAGE),
        ("assistant-ui.html", OTHER),
        ("favicon.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("site.webmanifest", "{}"),
        ("assets/index-B1cD2e.js", script.as_str()),
        ("assets/index-C3dE4f.css", "body{margin:0}"),
        ("assets/diagram-E7fG8h.html", "<!doctype html><script>1</script>"),
        ("assets/inter-D5eF6g.woff2", &"w".repeat(4000)),
    ];
    let demo = Demo::of(files.map(|(name, text)| (name.to_owned(), Bytes::from(text.to_owned()))));
    TestApp { router: site(app.app.clone(), demo), ..app }
}

struct Got {
    status: StatusCode,
    headers: HeaderMap,
    bytes: Bytes,
}

impl Got {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }
}

async fn ask(app: &TestApp, method: Method, path: &str, headers: &[(&str, &str)]) -> Got {
    let request = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:3000");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let (parts, body) = app.send(request.body(Body::empty()).expect("a request")).await.into_parts();
    Got {
        status: parts.status,
        headers: parts.headers,
        bytes: to_bytes(body, usize::MAX).await.expect("a body"),
    }
}

#[tokio::test]
async fn the_first_page_is_the_demo_if_there_is_one_and_the_curl_page_has_its_own_path() {
    let (with, without) = (with_demo(&[]).await, TestApp::new([]).await);
    assert_eq!(with.get("/").await.text, PAGE);
    assert_eq!(with.get("/?theme=dark").await.text, PAGE);
    assert_eq!(with.get("/assistant-ui").await.text, OTHER);
    let lines = without.get("/curl").await.text;
    assert!(lines.contains("curl -N http://127.0.0.1:3000/api/chat"), "{lines}");
    assert_eq!(without.get("/").await.text, lines);
    assert_eq!(with.get("/curl").await.text, lines);
    without.get("/assistant-ui").await.problem(404, "not_found");
    without.get("/assets/index-B1cD2e.js").await.problem(404, "not_found");
}

#[tokio::test]
async fn each_file_has_its_type_and_is_kept_for_as_long_as_its_name_says() {
    let app = with_demo(&[]).await;
    let (asked_again, kept) = ("no-cache", "public, max-age=31536000, immutable");
    for (path, kind, keep) in [
        ("/", "text/html; charset=utf-8", asked_again),
        ("/assistant-ui", "text/html; charset=utf-8", asked_again),
        ("/favicon.svg", "image/svg+xml", asked_again),
        ("/site.webmanifest", "application/manifest+json", asked_again),
        ("/assets/index-B1cD2e.js", "text/javascript; charset=utf-8", kept),
        ("/assets/index-C3dE4f.css", "text/css; charset=utf-8", kept),
        ("/assets/inter-D5eF6g.woff2", "font/woff2", kept),
    ] {
        let got = ask(&app, Method::GET, path, &[]).await;
        assert_eq!(got.status, 200, "{path}");
        assert_eq!((got.header("content-type"), got.header("cache-control")), (kind, keep), "{path}");
        assert_eq!(got.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(got.header("referrer-policy"), "no-referrer", "{path}");
        assert_eq!(got.header("x-dns-prefetch-control"), "off", "{path}");
    }
}

#[tokio::test]
async fn a_page_may_talk_to_its_own_server_only() {
    let app = with_demo(&[]).await;
    for path in ["/", "/assistant-ui"] {
        let got = ask(&app, Method::GET, path, &[]).await;
        let policy = got.header("content-security-policy");
        let directives: Vec<_> = policy.split("; ").collect();
        assert_eq!(
            directives,
            [
                "default-src 'self'",
                "script-src 'self'",
                "style-src 'self' 'unsafe-inline'",
                "img-src 'self' data: blob:",
                "media-src 'self' data: blob:",
                "font-src 'self' data:",
                "connect-src 'self'",
                "object-src 'none'",
                "base-uri 'none'",
                "form-action 'self'",
                "frame-ancestors 'none'",
            ],
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_page_among_the_assets_is_a_frame_without_an_origin_and_loads_nothing() {
    let app = with_demo(&[]).await;
    let got = ask(&app, Method::GET, "/assets/diagram-E7fG8h.html", &[]).await;
    let policy = got.header("content-security-policy");
    let directives: Vec<_> = policy.split("; ").collect();
    assert_eq!(
        directives,
        [
            "sandbox allow-scripts",
            "default-src 'none'",
            "script-src 'unsafe-inline'",
            "style-src 'unsafe-inline'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'self'",
        ],
    );
}

#[tokio::test]
async fn a_file_that_the_client_has_is_not_sent_again() {
    let app = with_demo(&[]).await;
    for path in ["/", "/assistant-ui", "/favicon.svg", "/assets/index-B1cD2e.js"] {
        let first = ask(&app, Method::GET, path, &[]).await;
        let etag = first.header("etag").to_owned();
        for known in [etag.clone(), etag.replace("W/", ""), format!("\"other\", {etag}"), "*".into()] {
            let again = ask(&app, Method::GET, path, &[("if-none-match", &known)]).await;
            assert_eq!((again.status.as_u16(), again.bytes.len()), (304, 0), "{path} {known}");
            assert_eq!(again.header("etag"), etag, "{path}");
            assert_eq!(again.header("cache-control"), first.header("cache-control"), "{path}");
        }
        let changed = ask(&app, Method::GET, path, &[("if-none-match", "\"other\"")]).await;
        assert_eq!((changed.status.as_u16(), &changed.bytes), (200, &first.bytes), "{path}");
    }
    let tags: std::collections::BTreeSet<_> =
        [ask(&app, Method::GET, "/", &[]).await, ask(&app, Method::GET, "/assistant-ui", &[]).await]
            .iter()
            .map(|got| got.header("etag").to_owned())
            .collect();
    assert_eq!(tags.len(), 2, "other bytes, another tag");
}

#[tokio::test]
async fn a_head_says_what_a_get_would_and_no_more() {
    let app = with_demo(&[]).await;
    for (path, headers) in [("/", &[][..]), ("/assets/index-B1cD2e.js", &[("accept-encoding", "gzip")][..])] {
        let get = ask(&app, Method::GET, path, headers).await;
        let head = ask(&app, Method::HEAD, path, headers).await;
        assert_eq!((head.status.as_u16(), head.bytes.len()), (200, 0), "{path}");
        for name in ["content-type", "content-encoding", "cache-control", "etag"] {
            assert_eq!(head.header(name), get.header(name), "{path} {name}");
        }
    }
    assert_eq!(ask(&app, Method::HEAD, "/nothing", &[]).await.status, 404);
}

#[tokio::test]
async fn compressible_files_are_compressed_for_clients_that_accept_it() {
    let app = with_demo(&[]).await;
    let plain = ask(&app, Method::GET, "/assets/index-B1cD2e.js", &[]).await;
    assert_eq!(plain.header("content-encoding"), "");
    let small = ask(&app, Method::GET, "/assets/index-B1cD2e.js", &[("accept-encoding", "br, gzip")]).await;
    assert_eq!(small.header("content-encoding"), "gzip");
    assert!(small.header("vary").contains("accept-encoding"), "{:?}", small.headers);
    assert!(small.bytes.len() * 4 < plain.bytes.len());
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&small.bytes[..]).read_to_end(&mut text).expect("gzip");
    assert_eq!(text, plain.bytes);
    let font = ask(&app, Method::GET, "/assets/inter-D5eF6g.woff2", &[("accept-encoding", "gzip")]).await;
    assert_eq!(font.header("content-encoding"), "", "a font is small already");
}

#[tokio::test]
async fn a_stream_is_never_compressed() {
    let app = with_demo(&[]).await;
    let request = Request::post("/api/chat")
        .header(header::HOST, "127.0.0.1:3000")
        .header(header::ACCEPT_ENCODING, "gzip")
        .body(says("c", "hi").to_string().into());
    let mut stream = Stream::of(app.send(request.expect("a request")).await);
    assert!(!stream.headers.contains_key(header::CONTENT_ENCODING));
    stream.end().await;
    assert_eq!(stream.text(), "Hello.");
}

#[tokio::test]
async fn no_other_path_is_there() {
    let app = with_demo(&[]).await;
    for path in [
        "/index.html",
        "/assistant-ui.html",
        "/assistant-ui/",
        "/assets",
        "/assets/",
        "/assets/nothing.js",
        "/assets/../index.html",
        "/assets/..%2findex.html",
        "/assets/%2e%2e/%2e%2e/Cargo.toml",
        "//etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/Cargo.toml",
        "/favicon.svg/",
    ] {
        app.get(path).await.problem(404, "not_found");
    }
    app.ask(Method::POST, "/", &[], "x").await.problem(405, "method_not_allowed");
    app.ask(Method::DELETE, "/assets/index-B1cD2e.js", &[], "").await.problem(405, "method_not_allowed");
}

#[tokio::test]
async fn the_demo_needs_no_token_and_its_api_does() {
    let app = with_demo(&["--auth", "token", "--tokens", "alice:a-token-of-alice"]).await;
    for path in ["/", "/assistant-ui", "/favicon.svg", "/assets/index-B1cD2e.js", "/curl"] {
        assert_eq!(app.get(path).await.status, 200, "{path}");
    }
    app.get("/api/chats").await.problem(401, "unauthorized");
    let known = [("authorization", "Bearer a-token-of-alice")];
    let chats = app.ask(Method::GET, "/api/chats", &known, Body::empty()).await;
    assert_eq!(chats.json(), json!({"chats": []}));
}

#[tokio::test]
async fn the_page_and_its_api_are_one_origin() {
    let app = with_demo(&[]).await;
    let of_the_page = [("origin", "http://127.0.0.1:3000"), ("sec-fetch-site", "same-origin")];
    assert_eq!(app.ask(Method::GET, "/api/chats", &of_the_page, Body::empty()).await.status, 200);
}
