//! A scripted provider, which decides about every byte that it sends.
//!
//! It implements just enough HTTP/1.1 to cut a connection at any byte, which HTTP frameworks do not allow.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use fermata_engine::{
    Model,
    model::{ModelContent, ModelError, ModelEvent, ModelMessage, ModelRequest, ModelTool},
};
use fermata_providers::{OpenAi, OpenAiConfig};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

/// The key that must never be seen anywhere but in the header.
pub const KEY: &str = "sk-test-4711";

/// The server's reply to one request.
#[derive(Clone)]
pub enum Reply {
    /// A stream that ends as it should.
    Stream(String),
    /// A stream whose connection breaks after these bytes.
    Cut(String),
    /// A stream that stays open after these bytes.
    Hold(String),
    /// A status with headers and a body.
    Status(u16, &'static str, String),
    /// One JSON body instead of a stream.
    Json(String),
    /// A connection that is closed without a response.
    Drop,
}

/// A request as it was received.
pub struct Request {
    pub head: String,
    pub body: Value,
}

/// The server of one test.
pub struct Server {
    pub base_url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    /// Receives a message for each held connection that the client has closed.
    closed: mpsc::UnboundedReceiver<()>,
}

impl Server {
    pub async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (hung_up, closed) = mpsc::unbounded_channel();
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            let mut replies = VecDeque::from(replies);
            while let Ok((mut socket, _)) = listener.accept().await {
                let Some(request) = read_request(&mut socket).await else {
                    continue;
                };
                seen.lock().unwrap().push(request);
                let unexpected = || Reply::Status(418, "", "there are no more replies".into());
                let reply = replies.pop_front().unwrap_or_else(unexpected);
                tokio::spawn(serve(socket, reply, hung_up.clone()));
            }
        });
        Self { base_url, requests, closed }
    }

    pub fn model(&self) -> OpenAi {
        self.model_named("m-1")
    }

    pub fn model_named(&self, name: &str) -> OpenAi {
        OpenAi::build(OpenAiConfig {
            base_url: Some(self.base_url.clone()),
            api_key: Some(KEY.into()),
            retry_pause: Duration::from_millis(1),
            ..OpenAiConfig::new(name)
        })
        .unwrap()
    }

    pub fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    pub fn take_request(&self) -> Request {
        self.requests.lock().unwrap().remove(0)
    }

    /// Waits until the client has closed a held connection; the limit only keeps a failing test from hanging.
    pub async fn hung_up(&mut self) {
        tokio::time::timeout(Duration::from_secs(20), self.closed.recv()).await.expect("still open").unwrap();
    }
}

async fn read_request(socket: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let lower = head.to_lowercase();
    let length =
        lower.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    while bytes.len() - end < length {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some(Request { head, body: serde_json::from_slice(&bytes[end..]).unwrap() })
}

async fn serve(mut socket: TcpStream, reply: Reply, hung_up: mpsc::UnboundedSender<()>) {
    let bytes = match &reply {
        Reply::Stream(body) => {
            [head(200, "text/event-stream", ""), chunked(body), "0\r\n\r\n".into()].concat()
        }
        Reply::Cut(body) | Reply::Hold(body) => [head(200, "text/event-stream", ""), chunked(body)].concat(),
        Reply::Status(status, headers, body) => {
            [head(*status, "application/json", headers), chunked(body), "0\r\n\r\n".into()].concat()
        }
        Reply::Json(body) => {
            [head(200, "application/json; charset=utf-8", ""), chunked(body), "0\r\n\r\n".into()].concat()
        }
        Reply::Drop => return,
    };
    // If the client has closed the connection before everything was written, the reading below notices.
    let _ = socket.write_all(&bytes).await;
    if matches!(reply, Reply::Hold(_)) {
        // The client sends nothing more: reading ends when it closes, and only then.
        while socket.read_buf(&mut Vec::new()).await.is_ok_and(|count| count > 0) {}
        hung_up.send(()).unwrap();
    }
}

fn head(status: u16, media_type: &str, headers: &str) -> Vec<u8> {
    let common = "transfer-encoding: chunked\r\nconnection: close\r\n";
    format!("HTTP/1.1 {status} Said\r\ncontent-type: {media_type}\r\n{common}{headers}\r\n").into()
}

/// Encodes a body in pieces of seven bytes, which cut lines, events and characters anywhere. A body of megabytes is cut into larger pieces,
/// for speed.
fn chunked(body: &str) -> Vec<u8> {
    let pieces = body.as_bytes().chunks(if body.len() < 1 << 20 { 7 } else { 16 << 10 });
    pieces.flat_map(|piece| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()).collect()
}

/// Returns a plain request with two tools.
pub fn question() -> ModelRequest {
    let tool = |name: &str, schema: Value| ModelTool {
        name: name.into(),
        description: String::new(),
        input_schema: schema.into(),
    };
    ModelRequest {
        messages: vec![
            ModelMessage::System("Be brief.".into()),
            ModelMessage::User(vec![ModelContent::Text("How is the weather in Bern?".into())]),
        ],
        tools: vec![
            tool("get_weather", json!({"type": "object", "properties": {"city": {"type": "string"}}})),
            tool("current_time", json!({"type": "object"})),
        ],
        ..ModelRequest::default()
    }
}

/// Returns the body that [`question`] must become on the wire.
pub fn question_on_the_wire() -> Value {
    json!({
        "model": "m-1",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "How is the weather in Bern?"},
        ],
        "stream": true,
        "stream_options": {"include_usage": true},
        "tools": [
            {"type": "function", "function": {
                "name": "get_weather",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
            }},
            {"type": "function", "function": {"name": "current_time", "parameters": {"type": "object", "properties": {}}}},
        ],
    })
}

/// Sends the request once and reads the answer to its end.
pub async fn ask(model: &dyn Model) -> Result<Vec<Result<ModelEvent, ModelError>>, ModelError> {
    Ok(model.stream(question()).await?.collect().await)
}

/// Returns a line for each event, except for signs of life. Deltas that follow one another are one line, because it depends on the network
/// which of them come together.
pub fn lines(events: &[Result<ModelEvent, ModelError>]) -> String {
    let mut joined: Vec<Result<ModelEvent, ModelError>> = Vec::new();
    for event in events {
        match (joined.last_mut(), event) {
            (_, Ok(ModelEvent::Alive)) => {}
            (Some(Ok(ModelEvent::Text(last))), Ok(ModelEvent::Text(delta)))
            | (Some(Ok(ModelEvent::Reasoning(last))), Ok(ModelEvent::Reasoning(delta))) => {
                last.push_str(delta)
            }
            (
                Some(Ok(ModelEvent::CallDelta { key: last_key, arguments: last })),
                Ok(ModelEvent::CallDelta { key, arguments: delta }),
            ) if last_key == key => last.push_str(delta),
            (_, event) => joined.push(event.clone()),
        }
    }
    let line = |event: &Result<ModelEvent, ModelError>| match event {
        Ok(ModelEvent::Alive) => unreachable!("left out above"),
        Ok(ModelEvent::Text(text)) => format!("text {text:?}"),
        Ok(ModelEvent::Reasoning(text)) => format!("reasoning {text:?}"),
        Ok(ModelEvent::CallStart { key, tool }) => format!("call {key} {tool}"),
        Ok(ModelEvent::CallDelta { key, arguments }) => format!("call {key} + {arguments}"),
        Ok(ModelEvent::Finished { reason, usage: Some(usage) }) => {
            let (input, output, total) = (usage.input_tokens, usage.output_tokens, usage.total_tokens);
            format!("finished {reason:?} {input}+{output}={total}")
        }
        Ok(ModelEvent::Finished { reason, usage: None }) => format!("finished {reason:?}"),
        Ok(ModelEvent::ProviderMetadata { key: None, metadata }) => format!("back {metadata}"),
        Ok(ModelEvent::ProviderMetadata { key: Some(key), metadata }) => format!("back {key} {metadata}"),
        Ok(other @ (ModelEvent::File { .. } | ModelEvent::Source { .. } | ModelEvent::Citation(_))) => {
            format!("{other:?}")
        }
        Err(error) => {
            // The URL is another one each time.
            let text = error.to_string();
            let (what, cause) = text.split_once(": http://127.0.0.1:").expect("the URL of the API");
            let (_, cause) = cause.split_once("/v1/chat/completions: ").expect("what the provider said");
            format!("error: {what}: {cause}")
        }
    };
    joined.iter().map(|event| line(event) + "\n").collect()
}
