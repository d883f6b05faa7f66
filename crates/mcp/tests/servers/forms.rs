//! Replies in every form that servers were seen to send, and in forms that nobody should: each ends its call at once, with a result if
//! there is one in it, and otherwise with an error.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use fermata_mcp::{Protocol, ServerConfig, ServerState, Transport};
use fermata_tools::{ErrorType, ToolError};
use futures::stream;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::world::{World, program, text};

/// The expected outcome of a call.
#[derive(Clone, Copy)]
enum Expected {
    /// A result with this text in it.
    Text(&'static str),
    /// A failure of this type with this text in it.
    Failure(ErrorType, &'static str),
}

use Expected::{Failure, Text};

const RESULT: &str = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"42"}]}}"#;
const NOTIFICATION: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"working"}}"#;
const CUT: &str = "sent a response that is not a result";

fn error(id: &str, error: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

/// Messages in forms that all transports share.
fn messages() -> Vec<(String, Expected)> {
    let with = |from: &str, to: &str| RESULT.replace(from, to);
    let structured = |json: &str| with(r#""content""#, &format!(r#""structuredContent":{json},"content""#));
    vec![
        (RESULT.to_owned(), Text("42")),
        (with("$ID", r#""$ID""#), Text("42")),
        (with(r#""result""#, r#""error":null,"result""#), Text("42")),
        (with(r#""jsonrpc":"2.0","#, ""), Text("42")),
        (with("42", r"42\ud83d"), Text("42\u{fffd}")),
        (with("42", r"42\q"), Text(r"42\q")),
        (format!("\u{feff}{RESULT}"), Text("42")),
        (format!("[{NOTIFICATION},{RESULT}]"), Text("42")),
        (format!("[INFO] {{done}} {RESULT}"), Text("42")),
        (structured(r#"{"mean":NaN,"max":-Infinity}"#), Text("42")),
        (structured(&format!("{{\"deep\":{}{}}}", "[".repeat(200), "]".repeat(200))), Text("42")),
        (
            with(r#"[{"type":"text","text":"42"}]"#, r#"[{"type":"text","text":"42""#),
            Failure(ErrorType::InvalidFormat, CUT),
        ),
        (
            error("$ID", r#"{"code":-32000,"message":"out of paper"}"#),
            Failure(ErrorType::Internal, "out of paper"),
        ),
        (
            error("$ID", r#"{"code":-32602,"message":"q is missing"}"#),
            Failure(ErrorType::InvalidFormat, "q is missing"),
        ),
        (error("$ID", r#""out of paper""#), Failure(ErrorType::Internal, "out of paper")),
        (error("$ID", r#"{"code":"E1","message":{"a":1}}"#), Failure(ErrorType::Internal, r#"{"a":1}"#)),
        (
            error("null", r#"{"code":-32000,"message":"out of paper"}"#),
            Failure(ErrorType::Internal, "out of paper"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":$ID,"result":"a text"}"#.to_owned(),
            Failure(ErrorType::InvalidFormat, CUT),
        ),
        (r#"{"jsonrpc":"2.0","id":$ID,"result":null}"#.to_owned(), Failure(ErrorType::InvalidFormat, CUT)),
    ]
}

fn check(outcome: Result<Value, ToolError>, expected: Expected, form: &str) {
    match (outcome, expected) {
        (Ok(output), Text(expected)) => assert!(text(&output).contains(expected), "{output} for {form}"),
        (Err(error), Failure(error_type, expected)) => {
            assert_eq!(error.error_type, error_type, "{error} for {form}");
            assert!(error.text.contains(expected), "{error} for {form}");
        }
        (outcome, _) => panic!("{outcome:?} for {form}"),
    }
}

/// A program whose tool writes the given text.
const WRITER: &str = r#"
const send = (message) => process.stdout.write(JSON.stringify(message) + "\n");
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  const answer = (result) => send({ jsonrpc: "2.0", id, result });
  if (method === "initialize") {
    answer({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "writer", version: "1" } });
  } else if (method === "tools/list") {
    answer({ tools: [{ name: "write", inputSchema: { type: "object" } }] });
  } else if (method === "tools/call") {
    process.stdout.write(params.arguments.text.replaceAll("$ID", id) + "\n");
  } else if (id !== undefined) {
    // It answers everything that it does not know, and not with an error.
    answer({});
  }
});
"#;

#[tokio::test]
async fn every_line_of_a_program_ends_its_call() {
    let world = World::with([("writer", program("node", ["-e", WRITER]))]).await;
    let truncated = (RESULT.find("result").unwrap() + 9..RESULT.len())
        .map(|length| (RESULT[..length].to_owned(), Failure(ErrorType::InvalidFormat, CUT)));
    let logged = [(format!("working on it\n{NOTIFICATION}\n{RESULT}"), Text("42"))];
    for (line, expected) in messages().into_iter().chain(truncated).chain(logged) {
        check(world.call("writer__write", json!({"text": line})).await, expected, &line);
    }
}

/// A server whose tool responds with the given status, content type and body.
struct Responder {
    config: ServerConfig,
    task: JoinHandle<()>,
    /// The number of handshakes, which is the number of the newest session.
    sessions: Arc<AtomicUsize>,
}

impl Responder {
    async fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", port.local_addr().unwrap());
        let sessions = Arc::new(AtomicUsize::new(0));
        let routes = Router::new().route("/mcp", post(respond)).with_state(sessions.clone());
        let task = tokio::spawn(async move { axum::serve(port, routes).await.unwrap() });
        Self { config: ServerConfig::new(Transport::Http { url, headers: BTreeMap::new() }), task, sessions }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn respond(State(sessions): State<Arc<AtomicUsize>>, headers: HeaderMap, body: String) -> Response {
    let message: Value = serde_json::from_str(&body).unwrap();
    let (id, params) = (message["id"].to_string(), &message["params"]);
    let json = |result: Value| {
        let session = sessions.load(Ordering::SeqCst).to_string();
        let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
        ([("content-type", "application/json".to_owned()), ("mcp-session-id", session)], body).into_response()
    };
    match message["method"].as_str() {
        Some("initialize") => {
            sessions.fetch_add(1, Ordering::SeqCst);
            json(json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "responder", "version": "1"},
            }))
        }
        Some("tools/list") => {
            json(json!({"tools": [{"name": "respond", "inputSchema": {"type": "object"}}]}))
        }
        Some("tools/call") => {
            let form = &params["arguments"];
            let field = |name: &str| form[name].as_str().unwrap_or_default().replace("$ID", &id);
            // A form may be meant for the first session alone.
            if form["once"] == true && headers["mcp-session-id"] != "1" {
                return json(json!({"content": [{"type": "text", "text": "42"}]}));
            }
            let status = StatusCode::from_u16(form["status"].as_u64().unwrap().try_into().unwrap()).unwrap();
            // No JSON text has this byte, which is not UTF-8.
            let body: Vec<u8> = field("body").into_bytes();
            let body: Vec<u8> = body.into_iter().map(|byte| if byte == 1 { 0xff } else { byte }).collect();
            let pieces: Vec<Result<Vec<u8>, std::io::Error>> = match form["cut"].as_bool() {
                Some(true) => vec![Ok(body), Err(std::io::ErrorKind::BrokenPipe.into())],
                _ => body.chunks(7).map(|piece| Ok(piece.to_vec())).collect(),
            };
            let content_type = [("content-type", field("type"))];
            (status, content_type, Body::from_stream(stream::iter(pieces))).into_response()
        }
        _ if message["id"].is_null() => (StatusCode::OK, "Accepted").into_response(),
        _ => json(json!({})),
    }
}

fn form(status: u16, content_type: &str, body: &str) -> Value {
    json!({"status": status, "type": content_type, "body": body})
}

#[tokio::test]
async fn every_http_response_ends_its_call() {
    let responder = Responder::start().await;
    let world = World::with([("http", responder.config.clone())]).await;
    let event = |data: &str| format!("data: {data}\n\n");
    let mut forms = Vec::new();
    for (message, expected) in messages() {
        forms.push((form(200, "application/json", &message), expected));
        forms.push((form(200, "text/event-stream", &event(&message)), expected));
    }
    for (message, expected) in messages() {
        if let Failure(ErrorType::Internal, _) = expected {
            forms.push((form(400, "application/json", &message), expected));
            forms.push((form(500, "application/json; charset=utf-8", &message), expected));
        }
    }
    let not_utf8 = RESULT.replace("42", "ä\u{1}42");
    forms.push((form(200, "application/json", &not_utf8), Text("ä\u{fffd}42")));
    forms.push((form(200, "text/event-stream", &event(&not_utf8)), Text("ä\u{fffd}42")));
    for id in ["null", "77", r#""server-error""#] {
        forms.push((form(200, "application/json", &RESULT.replace("$ID", id)), Text("42")));
    }
    forms.extend([
        (form(200, "text/plain", RESULT), Text("42")),
        (
            form(
                200,
                "text/event-stream",
                &format!(": ping\n\ndata: hello\n\n{}{}", event(NOTIFICATION), event(RESULT)),
            ),
            Text("42"),
        ),
        (
            form(200, "text/event-stream", &format!("event: ping\ndata: {{}}\n\n{}", event(RESULT))),
            Text("42"),
        ),
        (form(200, "text/event-stream", ": nothing\n\n"), Failure(ErrorType::Network, "was lost")),
        (form(200, "application/json", ""), Failure(ErrorType::InvalidFormat, CUT)),
        (form(202, "text/plain", ""), Failure(ErrorType::InvalidFormat, CUT)),
        (form(200, "application/json", "{}"), Failure(ErrorType::InvalidFormat, CUT)),
        (form(200, "text/html", "<html>Please sign in</html>"), Failure(ErrorType::InvalidFormat, CUT)),
        (
            form(
                400,
                "application/json",
                &error("$ID", r#"{"code":-32602,"message":"session_id is missing"}"#),
            ),
            Failure(ErrorType::InvalidFormat, "session_id is missing"),
        ),
        (
            form(
                500,
                "application/json",
                &error("$ID", r#"{"code":-32000,"message":"browser session closed"}"#),
            ),
            Failure(ErrorType::Internal, "browser session closed"),
        ),
        (form(500, "text/plain", "the session was lost"), Failure(ErrorType::Internal, "500")),
        (form(400, "text/plain", "no such place"), Failure(ErrorType::Internal, "no such place")),
        (
            form(401, "application/json", r#"{"error":"unauthorized"}"#),
            Failure(ErrorType::Auth, "credentials"),
        ),
        (form(403, "text/plain", ""), Failure(ErrorType::Auth, "credentials")),
        (form(503, "text/html", "<html>"), Failure(ErrorType::Network, "503")),
    ]);
    for (form, expected) in forms {
        check(world.call("http__respond", form.clone()).await, expected, &form.to_string());
    }
    assert_eq!(responder.sessions.load(Ordering::SeqCst), 1, "no form is taken for a session that is gone");
}

#[tokio::test]
async fn a_response_that_is_cut_anywhere_ends_its_call() {
    let responder = Responder::start().await;
    let world = World::with([("http", responder.config.clone())]).await;
    for length in 0..RESULT.len() {
        for body in [RESULT[..length].to_owned(), format!("data: {}\n\n", &RESULT[..length])] {
            let content_type =
                if body.starts_with("data") { "text/event-stream" } else { "application/json" };
            let mut form = form(200, content_type, &body);
            let error = world.call("http__respond", form.clone()).await.unwrap_err();
            assert!(
                matches!(error.error_type, ErrorType::InvalidFormat | ErrorType::Network),
                "{error} for {body}"
            );
            form["cut"] = true.into();
            let error = world.call("http__respond", form).await.unwrap_err();
            assert_eq!(error.error_type, ErrorType::Network, "{error} for {body}");
        }
    }
}

#[tokio::test]
async fn a_session_that_is_gone_is_replaced_in_whatever_form_it_is_reported() {
    let error = |id: &str, message: &str| error(id, &format!(r#"{{"code":-32000,"message":"{message}"}}"#));
    for (status, content_type, body) in [
        (404, "text/plain", String::new()),
        (400, "application/json", error("null", "Bad Request: No valid session ID provided")),
        (400, "application/json", error("null", "Bad Request: Server not initialized")),
        (400, "application/json", error(r#""server-error""#, "Session not found")),
        (400, "text/plain", "Invalid session id".to_owned()),
        (400, "application/json", error("$ID", "Session abc does not exist")),
        (410, "text/plain", "session has expired".to_owned()),
        (500, "application/json", error("null", "Unknown session")),
        (200, "application/json", error("null", "Session not found")),
        (200, "text/event-stream", format!("data: {}\n\n", error("null", "Session terminated"))),
    ] {
        let responder = Responder::start().await;
        let world = World::with([("http", responder.config.clone())]).await;
        let mut form = form(status, content_type, &body);
        form["once"] = true.into();
        let output = world.call("http__respond", form).await;
        check(output, Text("42"), &format!("{status} {body}"));
        assert_eq!(responder.sessions.load(Ordering::SeqCst), 2, "{status} {body}");
    }
}

/// A program that speaks only the version without a handshake.
const NEW_ONLY: &str = r#"
const send = (message) => process.stdout.write(JSON.stringify(message) + "\n");
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  const answer = (result) => send({ jsonrpc: "2.0", id, result });
  const refuse = (code, message) => send({ jsonrpc: "2.0", id, error: { code, message } });
  if (id === undefined) return;
  if (params?._meta?.["io.modelcontextprotocol/protocolVersion"] !== "2026-07-28") return refuse(-32600, "no version in _meta");
  const cache = { ttlMs: 0, cacheScope: "private", resultType: "complete" };
  if (method === "server/discover") {
    answer({ supportedVersions: ["2026-07-28"], capabilities: { tools: {} }, serverInfo: { name: "new", version: "1" }, ...cache });
  } else if (method === "tools/list") {
    answer({ tools: [{ name: "book", inputSchema: { type: "object" } }], ...cache });
  } else if (method === "tools/call" && params.inputResponses === undefined) {
    const requestedSchema = { type: "object", properties: { seat: { type: "string" }, odd: { type: ["string", "null"] } } };
    const request = { method: "elicitation/create", params: { mode: "form", message: "Which seat?", requestedSchema } };
    answer({ resultType: "input_required", inputRequests: { seat: request }, requestState: "half booked" });
  } else if (method === "tools/call") {
    const { inputResponses, requestState } = params;
    answer({ content: [{ type: "text", text: JSON.stringify({ inputResponses, requestState }) }], resultType: "complete" });
  } else {
    refuse(-32601, "Method not found: " + method);
  }
});
"#;

#[tokio::test]
async fn a_server_that_speaks_only_the_newest_version_works() {
    use crate::world::Person;
    use fermata_tools::ElicitationReply;

    for protocol in [Protocol::Auto, Protocol::V2026July] {
        let mut config = program("node", ["-e", NEW_ONLY]);
        config.protocol = protocol;
        let world = World::with([("new", config)]).await;
        let [status] = &world.hub.servers()[..] else { panic!("one server") };
        let expected = ServerState::Connected { protocol: "2026-07-28".into(), tools: vec!["book".into()] };
        assert_eq!(status.state, expected);
        let mut person = Person::new("chat", [ElicitationReply::Accept(json!({"seat": "4a"}))]);
        let output = world.call_as("new__book", json!({}), &person).await.unwrap();
        assert_eq!(person.elicitations.try_recv().unwrap().message, "Which seat?");
        let given: Value = serde_json::from_str(&text(&output)).unwrap();
        assert_eq!(given["requestState"], "half booked");
        assert_eq!(given["inputResponses"]["seat"], json!({"action": "accept", "content": {"seat": "4a"}}));
    }
}

/// A program that ends when its first message is not the one that it expects, as older servers in Rust do.
const IMPATIENT: &str = r#"
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  const answer = (result) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\n");
  if (method === "initialize") answer({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "i", version: "1" } });
  else if (method === "tools/list") answer({ tools: [{ name: "a", inputSchema: { type: "object" } }] });
  else if (id !== undefined) { console.error("expected initialize"); process.exit(1); }
});
"#;

#[tokio::test]
async fn a_server_that_ends_at_an_unknown_request_is_asked_in_an_older_version() {
    let world = World::with([("old", program("node", ["-e", IMPATIENT]))]).await;
    let [status] = &world.hub.servers()[..] else { panic!("one server") };
    let expected = ServerState::Connected { protocol: "2025-11-25".into(), tools: vec!["a".into()] };
    assert_eq!(status.state, expected);
}

/// A program that speaks only the newest version, and answers nothing before it is asked in an older one.
const SLOW: &str = r#"
let isFirst = process.env.SLOW_ONCE !== undefined && !require("fs").existsSync(process.env.SLOW_ONCE);
if (isFirst) require("fs").writeFileSync(process.env.SLOW_ONCE, "");
const held = [];
const handle = ({ id, method }) => {
  const answer = (result) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\n");
  const cache = { ttlMs: 0, cacheScope: "private", resultType: "complete" };
  if (method === "server/discover") answer({ supportedVersions: ["2026-07-28"], capabilities: { tools: {} }, ...cache });
  else if (method === "tools/list") answer({ tools: [{ name: "a", inputSchema: { type: "object" } }], ...cache });
  else if (id !== undefined) process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32600, message: "no handshake" } }) + "\n");
};
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  held.push(JSON.parse(line));
  if (isFirst && held.length < 2) return;
  isFirst = false;
  held.splice(0).forEach(handle);
});
"#;

#[tokio::test]
async fn a_server_that_answers_too_late_is_asked_again_in_the_newest_version() {
    let marker = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("slow-once");
    let _ = std::fs::remove_file(&marker);
    let Transport::Program { command, args, .. } = program("node", ["-e", SLOW]).transport else {
        unreachable!()
    };
    let env = [("SLOW_ONCE".to_owned(), marker.to_str().unwrap().to_owned())].into();
    let world = World::with([("slow", ServerConfig::new(Transport::Program { command, args, env }))]).await;
    let [status] = &world.hub.servers()[..] else { panic!("one server") };
    let expected = ServerState::Connected { protocol: "2026-07-28".into(), tools: vec!["a".into()] };
    assert_eq!(status.state, expected);
}

#[tokio::test]
async fn a_server_that_does_not_start_says_why() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = port.local_addr().unwrap();
    let old_transport =
        async || ([("content-type", "text/event-stream")], "event: endpoint\ndata: /messages?s=1\n\n");
    let routes = Router::new()
        .route("/sse", axum::routing::get(old_transport))
        .route("/key", post(async || StatusCode::UNAUTHORIZED))
        .route("/page", post(async || "<html>Hello</html>"));
    let task = tokio::spawn(async move { axum::serve(port, routes).await.unwrap() });
    let at = |path: &str| {
        ServerConfig::new(Transport::Http {
            url: format!("http://{address}{path}"),
            headers: BTreeMap::new(),
        })
    };
    let with_key = |path: &str| {
        let headers = [("authorization".to_owned(), "Bearer wrong-key".to_owned())].into();
        ServerConfig::new(Transport::Http { url: format!("http://{address}{path}"), headers })
    };
    let mut too_new = program("node", ["-e", IMPATIENT]);
    too_new.protocol = Protocol::V2026July;
    let script = "console.error('Error: SEARCH' + '_TOKEN is not set'); process.exit(3)";
    let world = World::with([
        ("absent", program("there-is-no-such-program", [])),
        ("ends", program("node", ["-e", script])),
        ("key", at("/key")),
        ("page", at("/page")),
        ("sse", at("/sse")),
        ("too-new", too_new),
        ("wrong-key", with_key("/key")),
    ])
    .await;
    let reasons: BTreeMap<String, String> = world
        .hub
        .servers()
        .into_iter()
        .map(|status| match status.state {
            ServerState::Down { reason } => (status.name, reason),
            other => panic!("{} is {other:?}", status.name),
        })
        .collect();
    for (name, expected) in [
        ("absent", "is not installed, or not in PATH"),
        (
            "ends",
            "the program ended during the handshake (exit status: 3). The last lines of its standard error: Error: SEARCH_TOKEN is not set",
        ),
        ("key", "requires credentials; set `headers = { Authorization"),
        ("page", "Hello"),
        ("sse", "older HTTP+SSE transport"),
        ("too-new", "expected initialize"),
        ("wrong-key", "does not accept the credentials"),
    ] {
        assert!(reasons[name].contains(expected), "{name}: {}", reasons[name]);
    }
    assert!(reasons.values().all(|reason| !reason.contains("::")), "{reasons:?}");
    task.abort();
}
