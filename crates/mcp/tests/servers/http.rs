//! Tests with a small HTTP server that counts its requests and can fail in every way.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Redirect, Response},
    routing::post,
};
use fermata_mcp::{ServerConfig, Transport};
use fermata_tools::{Decision, ErrorType};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::world::{Person, World, text};

const KEY: &str = "Bearer sesame-open-up";

/// The requests that the server got.
#[derive(Default)]
struct Seen {
    with_key: usize,
    without_key: usize,
    greetings: usize,
    calls: usize,
    /// The `_meta` of the calls.
    meta: Vec<Value>,
    /// The header with the key of the calls.
    keys: Vec<Option<String>>,
    /// The only session id that the server accepts.
    session: usize,
}

type Shared = Arc<Mutex<Seen>>;

struct Server {
    seen: Shared,
    url: String,
    task: JoinHandle<()>,
}

impl Server {
    async fn start() -> Self {
        let seen = Shared::default();
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", port.local_addr().unwrap());
        let away =
            async |Path(port): Path<String>| Redirect::temporary(&format!("http://127.0.0.1:{port}/mcp"));
        let routes = Router::new()
            .route("/mcp", post(answer))
            .route("/moved", post(async || Redirect::temporary("/mcp")))
            .route("/away/{port}", post(away))
            .with_state(seen.clone());
        let task = tokio::spawn(async move { axum::serve(port, routes).await.unwrap() });
        Self { seen, url, task }
    }

    fn config(&self, key: &str) -> ServerConfig {
        self.config_at("/mcp", key)
    }

    fn config_at(&self, path: &str, key: &str) -> ServerConfig {
        let headers = BTreeMap::from([("Authorization".to_owned(), key.to_owned())]);
        ServerConfig::new(Transport::Http { url: self.url.replace("/mcp", path), headers })
    }

    fn port(&self) -> &str {
        self.url.trim_start_matches("http://127.0.0.1:").trim_end_matches("/mcp")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State(seen): State<Shared>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    let mut seen = seen.lock().unwrap();
    if headers.get("authorization").is_none_or(|key| key != KEY) {
        seen.without_key += 1;
        return StatusCode::UNAUTHORIZED.into_response();
    }
    seen.with_key += 1;
    let session = seen.session.to_string();
    if body["method"] != "initialize" && headers.get("mcp-session-id").is_none_or(|given| *given != *session)
    {
        return StatusCode::NOT_FOUND.into_response();
    }
    if body["method"] == "tools/call" {
        seen.keys.push(headers.get("idempotency-key").map(|key| key.to_str().unwrap().to_owned()));
    }
    let result = match body["method"].as_str() {
        Some("initialize") => {
            seen.greetings += 1;
            json!({
                "protocolVersion": body["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "counting", "version": "1"},
            })
        }
        Some("tools/list") => tools(body["params"]["cursor"].as_str()),
        Some("tools/call") => match call(&mut seen, &body["params"]) {
            Ok(result) => result,
            Err(response) => return *response,
        },
        Some("ping") => json!({}),
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    let body = json!({"jsonrpc": "2.0", "id": body["id"], "result": result});
    ([("mcp-session-id", session)], Json(body)).into_response()
}

/// Returns the pages of the tool list. One tool of the second page cannot be read.
fn tools(cursor: Option<&str>) -> Value {
    let tool = |name: &str| json!({"name": name, "inputSchema": {}, "annotations": {"readOnlyHint": true}});
    match cursor {
        None => json!({"tools": [tool("answer")], "nextCursor": "2"}),
        Some(_) => json!({"tools": [{"name": "unreadable"}, tool("strange")]}),
    }
}

fn call(seen: &mut Seen, params: &Value) -> Result<Value, Box<Response>> {
    let refusal = |response: Response| Err(Box::new(response));
    match params["arguments"]["with"].as_str() {
        Some("401") => refusal(StatusCode::UNAUTHORIZED.into_response()),
        Some("429") => refusal((StatusCode::TOO_MANY_REQUESTS, [("retry-after", "7")]).into_response()),
        Some("500") => refusal(StatusCode::INTERNAL_SERVER_ERROR.into_response()),
        Some("half an answer") => {
            refusal(([("content-type", "text/event-stream")], ": it begins\n\n").into_response())
        }
        Some("no answer") => refusal(Json(json!({"hello": "a proxy"})).into_response()),
        Some("too much at once") => refusal(([("content-type", "application/json")], much()).into_response()),
        Some("too much in a stream") => refusal(
            ([("content-type", "text/event-stream")], format!("data: {}\n\n", much())).into_response(),
        ),
        Some("a picture") => {
            Ok(json!({"content": [{"type": "hologram", "depth": 3}, {"type": "text", "text": "and words"}]}))
        }
        Some("an echo of the key") => {
            Ok(json!({"content": [{"type": "text", "text": format!("bad key: {KEY}")}], "isError": true}))
        }
        _ => {
            seen.calls += 1;
            seen.meta.push(params["_meta"].clone());
            Ok(json!({"content": [{"type": "text", "text": "42"}]}))
        }
    }
}

/// Returns a text that is larger than any client accepts.
fn much() -> String {
    "x".repeat(17 * 1024 * 1024)
}

async fn world() -> (World, Server) {
    let server = Server::start().await;
    (World::with([("counting", server.config(KEY))]).await, server)
}

#[tokio::test]
async fn the_headers_are_sent_with_every_request() {
    let (world, server) = world().await;
    assert_eq!(text(&world.call("counting__answer", json!({})).await.unwrap()), "42");
    world.hub.shutdown().await;
    let seen = server.seen.lock().unwrap();
    assert_eq!((seen.without_key, seen.greetings, seen.calls), (0, 1, 1));
    assert!(seen.with_key >= 4, "{} requests", seen.with_key);
}

#[tokio::test]
async fn all_pages_are_listed_and_unreadable_tools_are_left_out() {
    let (world, _server) = world().await;
    let specs = world.specs();
    assert_eq!(specs.keys().collect::<Vec<_>>(), ["counting__answer", "counting__strange"]);
    assert_eq!(specs["counting__answer"].policy, Decision::Ask);
    assert_eq!(*specs["counting__answer"].input_schema, json!({"type": "object"}));
}

#[tokio::test]
async fn failures_have_their_error_types() {
    let (world, _server) = world().await;
    let refused = async |with: &str| world.call("counting__answer", json!({"with": with})).await.unwrap_err();
    assert_eq!(refused("401").await.error_type, ErrorType::Auth);
    let error = refused("429").await;
    assert_eq!((error.error_type, error.retry_after), (ErrorType::RateLimit, Some(Duration::from_secs(7))));
    assert_eq!(refused("500").await.error_type, ErrorType::Internal);
    assert_eq!(refused("half an answer").await.error_type, ErrorType::Network);
    assert_eq!(refused("an echo of the key").await.text, "bad key: ***");
}

#[tokio::test]
async fn a_response_that_is_not_a_result_is_an_invalid_format() {
    let (world, _server) = world().await;
    let refused = async |with: &str| world.call("counting__answer", json!({"with": with})).await.unwrap_err();
    let error = refused("no answer").await;
    assert_eq!(error.error_type, ErrorType::InvalidFormat);
    assert_eq!(error.text, "The MCP server counting sent a response that is not a result.");
    for with in ["too much at once", "too much in a stream"] {
        let error = refused(with).await;
        assert_eq!(error.error_type, ErrorType::InvalidFormat, "{with}");
        assert_eq!(error.text, "The response of the MCP server counting is too large.", "{with}");
    }
    assert_eq!(text(&world.call("counting__answer", json!({})).await.unwrap()), "42");
}

#[tokio::test]
async fn content_of_an_unknown_type_is_passed_on() {
    let (world, _server) = world().await;
    let output = world.call("counting__answer", json!({"with": "a picture"})).await.unwrap();
    let expected =
        json!({"content": [{"type": "hologram", "depth": 3}, {"type": "text", "text": "and words"}]});
    assert_eq!(output, expected);
}

#[tokio::test]
async fn a_call_is_made_again_after_its_session_has_expired() {
    let (world, server) = world().await;
    world.call("counting__answer", json!({})).await.unwrap();
    server.seen.lock().unwrap().session += 1;
    assert_eq!(text(&world.call("counting__answer", json!({})).await.unwrap()), "42");
    let seen = server.seen.lock().unwrap();
    assert_eq!((seen.greetings, seen.calls), (2, 2));
}

#[tokio::test]
async fn each_attempt_of_a_call_has_the_key_of_its_effect_in_its_metadata_and_its_header() {
    let (world, server) = world().await;
    let person = Person::new("chat", []);
    world.call_as("counting__answer", json!({}), &person).await.unwrap();
    server.seen.lock().unwrap().session += 1;
    world.call_as("counting__answer", json!({}), &person).await.unwrap();
    world.call("counting__answer", json!({})).await.unwrap();
    let seen = server.seen.lock().unwrap();
    let keys: Vec<&Value> = seen.meta.iter().map(|meta| &meta["io.fermata/idempotencyKey"]).collect();
    assert_eq!(keys[..2], [person.context.idempotency_key(); 2]);
    assert!(keys[2].is_string() && keys[2] != keys[0], "{keys:?}");
    let in_headers: Vec<Option<&str>> = seen.keys.iter().map(Option::as_deref).collect();
    assert_eq!(in_headers, keys.iter().map(|key| key.as_str()).collect::<Vec<_>>());
    assert!(seen.meta.iter().all(|meta| !meta["progressToken"].is_null()), "{:?}", seen.meta);
}

#[tokio::test]
async fn redirects_are_followed_only_within_the_origin() {
    let (server, other) = (Server::start().await, Server::start().await);
    let away = format!("/away/{}", other.port());
    let world =
        World::with([("moved", server.config_at("/moved", KEY)), ("away", server.config_at(&away, KEY))])
            .await;
    assert_eq!(text(&world.call("moved__answer", json!({})).await.unwrap()), "42");
    assert!(world.specs().keys().all(|name| name.starts_with("moved__")));
    let seen = other.seen.lock().unwrap();
    assert_eq!((seen.with_key, seen.without_key), (0, 0), "the other server got no request");
}

#[tokio::test]
async fn a_server_that_refuses_the_key_has_no_tools() {
    let server = Server::start().await;
    let world = World::with([("counting", server.config("Bearer wrong-key"))]).await;
    assert!(world.specs().is_empty());
    world.hub.set_servers([("counting".to_owned(), server.config(KEY))].into());
    assert_eq!(text(&world.call("counting__answer", json!({})).await.unwrap()), "42");
    assert!(server.seen.lock().unwrap().without_key > 0);
}
