//! The server of a test: a router in this process, or behind a socket.

use std::{ffi::OsString, net::SocketAddr, time::Duration};

use axum::{
    Router,
    body::{Body, BodyDataStream, to_bytes},
    extract::ConnectInfo,
    http::{HeaderMap, Method, Request, StatusCode, header},
    response::Response,
};
use fermata_server::{
    App,
    config::Invocation,
    router,
    serve::{ConnectionLimits, Server},
};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::scripted::{Scripted, Turn};

/// A server with a scripted model.
pub struct TestApp {
    pub router: Router,
    pub app: App,
    pub model: Scripted,
}

/// A complete response.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

/// A stream that is read like a client reads it.
pub struct Stream {
    pub headers: HeaderMap,
    body: BodyDataStream,
    unread: String,
    pub chunks: Vec<Value>,
    pub comments: usize,
    /// The delay before the client is to come back, in milliseconds, if the stream names one.
    pub retry: Option<u64>,
    pub done: bool,
}

/// A settings file, which is deleted at the end of the test.
pub struct Settings {
    path: String,
}

/// The limit on any wait. A test that reaches it has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

impl TestApp {
    pub async fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::with(&[], turns).await
    }

    /// Builds a server with these options.
    pub async fn with(options: &[&str], turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::on("sqlite::memory:", options, turns).await
    }

    /// Builds a server on this database.
    pub async fn on(database: &str, options: &[&str], turns: impl IntoIterator<Item = Turn>) -> Self {
        let arguments = ["fermata", "--database-url", database]
            .into_iter()
            .chain(options.iter().copied())
            .map(Into::into);
        let Invocation::Serve(config) = Invocation::read(arguments, &|_| None).expect("good options") else {
            panic!("these options serve nothing");
        };
        let model = Scripted::new(turns);
        let app =
            App::builder(&config).model(std::sync::Arc::new(model.clone())).build().await.expect("a server");
        Self { router: router(app.clone()), app, model }
    }

    pub async fn send(&self, request: Request<Body>) -> Response {
        tokio::time::timeout(PATIENCE, self.router.clone().oneshot(request))
            .await
            .expect("an answer")
            .expect("a response")
    }

    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        self.ask_from(None, method, path, headers, body).await
    }

    /// Sends a request on a connection from this address.
    pub async fn ask_from(
        &self,
        peer: Option<&str>,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:3000");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(peer) = peer {
            let peer = SocketAddr::new(peer.parse().expect("an address"), 4711);
            request = request.extension(ConnectInfo(peer));
        }
        Answer::read(self.send(request.body(body.into()).expect("a request")).await).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, &[], Body::empty()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask(Method::POST, path, &[], body.to_string()).await
    }

    /// Posts to `/api/chat` without reading the stream.
    pub async fn open(&self, body: Value) -> Stream {
        let request =
            Request::post("/api/chat").header(header::HOST, "127.0.0.1:3000").body(body.to_string().into());
        Stream::of(self.send(request.expect("a request")).await)
    }

    /// Follows a chat's open run.
    pub async fn follow(&self, chat: &str) -> Stream {
        let request = Request::get(format!("/api/chat/{chat}/stream"))
            .header(header::HOST, "127.0.0.1:3000")
            .body(Body::empty());
        Stream::of(self.send(request.expect("a request")).await)
    }

    /// Returns the pending calls of a chat.
    pub async fn pending(&self, chat: &str) -> Vec<Value> {
        let answer = self.get(&format!("/api/chat/{chat}/pending")).await;
        answer.json()["pending"].as_array().expect("a list").clone()
    }

    /// Serves the router on a socket until the end of the test.
    pub async fn serve(&self) -> SocketAddr {
        let limits = ConnectionLimits {
            connections: 100,
            per_address: 100,
            header_timeout: PATIENCE,
            reader_timeout: PATIENCE,
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let when_full = fermata_server::when_full(self.app.clone(), self.router.clone());
        let server = Server {
            routes: self.router.clone(),
            when_full,
            limits,
            proxies: self.app.auth().proxies().clone(),
            draining: self.app.draining().clone(),
            shares_port: false,
        };
        tokio::spawn(server.serve(listener, CancellationToken::new()));
        address
    }
}

/// Returns the body of a post with this text.
pub fn says(chat: &str, text: &str) -> Value {
    json!({"id": chat, "messages": [{"role": "user", "content": text}]})
}

/// Returns the body of a post with this text, from a page with a tool for its location.
pub fn says_with_location(chat: &str, text: &str) -> Value {
    let location =
        json!({"description": "Where this browser is.", "parameters": {"type": "object", "properties": {}}});
    json!({"id": chat, "messages": [{"role": "user", "content": text}], "tools": {"get_location": location}})
}

impl Settings {
    pub fn new(toml: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fermata-{}.toml", uuid::Uuid::new_v4()));
        let file = Self { path: path.to_str().expect("a path in UTF-8").to_owned() };
        file.write(toml);
        file
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn write(&self, toml: &str) {
        std::fs::write(&self.path, toml).expect("a file");
    }

    pub fn remove(&self) {
        std::fs::remove_file(&self.path).expect("a file");
    }

    /// Returns a command line that names the file.
    pub fn arguments(&self) -> Vec<OsString> {
        vec!["fermata".into(), "--config".into(), self.path.as_str().into()]
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // The test may have removed it.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Answer {
    async fn read(response: Response) -> Self {
        let (parts, body) = response.into_parts();
        let bytes = tokio::time::timeout(PATIENCE, to_bytes(body, usize::MAX))
            .await
            .expect("an end")
            .expect("a body");
        Self {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8(bytes.to_vec()).expect("text"),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("this is no JSON: {}", self.text))
    }

    /// Asserts that the response is a complete problem, and returns its detail.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> String {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["status"], status, "{problem}");
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["type"], "about:blank");
        assert!(problem["title"].is_string());
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.ends_with('.'), "no sentence: {detail}");
        detail.to_owned()
    }
}

impl Stream {
    pub fn of(response: Response) -> Self {
        let (parts, body) = response.into_parts();
        assert_eq!(parts.status, StatusCode::OK);
        assert_eq!(parts.headers[header::CONTENT_TYPE], "text/event-stream");
        Self {
            headers: parts.headers,
            body: body.into_data_stream(),
            unread: String::new(),
            chunks: Vec::new(),
            comments: 0,
            retry: None,
            done: false,
        }
    }

    /// Reads up to a chunk of this type, and returns it.
    pub async fn until(&mut self, kind: &str) -> Value {
        let is_it = |chunk: &&Value| chunk["type"] == kind;
        loop {
            if let Some(chunk) = self.chunks.iter().find(is_it) {
                return chunk.clone();
            }
            assert!(self.read_more().await, "the stream ended without {kind}: {:?}", self.kinds());
        }
    }

    /// Reads to the end.
    pub async fn end(&mut self) {
        while self.read_more().await {}
        assert!(self.done, "no [DONE] after {:?}", self.kinds());
    }

    /// Reads one piece. Returns false at the end of the stream.
    pub async fn read_more(&mut self) -> bool {
        let Some(bytes) = tokio::time::timeout(PATIENCE, self.body.next()).await.expect("a sign of life")
        else {
            return false;
        };
        self.unread.push_str(std::str::from_utf8(&bytes.expect("a piece")).expect("text"));
        while let Some((event, rest)) = self.unread.split_once("\n\n") {
            let event = event.to_owned();
            self.unread = rest.to_owned();
            for line in event.lines() {
                match line.split_once(": ") {
                    Some(("data", "[DONE]")) => self.done = true,
                    Some(("data", json)) => self.chunks.push(serde_json::from_str(json).expect("a chunk")),
                    Some(("", _)) => self.comments += 1,
                    Some(("retry", time)) => self.retry = Some(time.parse().expect("a time")),
                    _ => assert!(line.starts_with("id: "), "what is {line:?}?"),
                }
            }
        }
        true
    }

    pub fn kinds(&self) -> Vec<&str> {
        self.chunks.iter().filter_map(|chunk| chunk["type"].as_str()).collect()
    }

    /// Returns the text of the answer.
    pub fn text(&self) -> String {
        self.chunks
            .iter()
            .filter(|chunk| chunk["type"] == "text-delta")
            .filter_map(|chunk| chunk["delta"].as_str())
            .collect()
    }
}
