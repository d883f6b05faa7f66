//! `fermata chats`, `show` and `answer`: they ask the running server, as a page does.

use std::fmt::Write;

use fermata_protocol::{ApprovalId, ChatId, ToolCallId};
use jiff::Timestamp;
use reqwest::{Method, RequestBuilder};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    config::{Answer, Asked, Decision, ServerSettings},
    health::reachable,
};

/// The reason why the server did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// There is no connection, or the response is not one of Fermata.
    #[error("no Fermata answers at {url}; --url names the address of another")]
    NoAnswer {
        /// The address.
        url: String,
        /// The failure.
        source: reqwest::Error,
    },
    /// The server refused the request.
    #[error("{0}")]
    Refused(String),
    /// It is not clear which call is meant.
    #[error("{0}")]
    Unclear(String),
}

/// A connection to the running server.
pub struct RunningServer {
    url: String,
    token: Option<String>,
    http: reqwest::Client,
}

#[derive(Deserialize)]
struct ListedChats {
    chats: Vec<ListedChat>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedChat {
    id: String,
    title: Option<String>,
    updated_at: Timestamp,
    open: bool,
    pending: usize,
}

#[derive(Deserialize)]
struct Record {
    messages: Vec<Message>,
    pending: Vec<Waiting>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    parts: Vec<Value>,
}

/// A call that waits.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    tool_call_id: ToolCallId,
    tool: String,
    description: Option<String>,
    input_text: String,
    kind: String,
    approval_id: Option<ApprovalId>,
}

#[derive(Deserialize)]
struct Problem {
    detail: String,
}

// === impl RunningServer ===

impl RunningServer {
    /// Returns the server of these settings, or the one that the options name. Nothing is sent yet.
    ///
    /// # Errors
    /// Returns an error if there can be no client.
    pub fn new(settings: &ServerSettings, asked: Asked) -> Result<Self, AskError> {
        let own = || format!("http://{}", reachable(settings.address()));
        let url = asked.url.map_or_else(own, |url| url.trim_end_matches('/').to_owned());
        // The environment may name a proxy, which is not meant for this machine.
        let http = reqwest::Client::builder().no_proxy().build();
        let http = http.map_err(|source| AskError::NoAnswer { url: url.clone(), source })?;
        Ok(Self { url, token: asked.token, http })
    }

    /// Returns a line for each chat of the user, the newest first.
    ///
    /// # Errors
    /// Returns an error if the server does not answer or refuses.
    pub async fn chats(&self) -> Result<String, AskError> {
        let ListedChats { chats } = self.send(self.request(Method::GET, "/api/chats")).await?;
        let mut text = String::new();
        for chat in chats {
            let state = match (chat.pending, chat.open) {
                (0, false) => String::new(),
                (0, true) => "running".into(),
                (waiting, _) => format!("{waiting} waiting"),
            };
            let (at, title) = (chat.updated_at.strftime("%F %R"), chat.title.unwrap_or_default());
            text += &format!("{}  {at}  {state:<10}  {}\n", plain(&chat.id), in_one_line(&title));
        }
        if text.is_empty() {
            text += "there are no chats\n";
        }
        Ok(text)
    }

    /// Returns a chat as text, with the calls that wait.
    ///
    /// # Errors
    /// Returns an error if there is no such chat, or if the server does not answer.
    pub async fn show(&self, chat: &ChatId) -> Result<String, AskError> {
        let record = self.record(chat).await?;
        let mut text = String::new();
        for message in &record.messages {
            let _ = writeln!(text, "{}:", if message.role == "user" { "you" } else { &message.role });
            for part in &message.parts {
                text += &shown(part);
            }
        }
        for call in &record.pending {
            let _ = writeln!(text, "\nwaits ({}): {}", plain(&call.kind), call.in_words());
            if call.approval_id.is_some() {
                let _ = writeln!(text, "  fermata answer {chat} yes --call {}", call.tool_call_id);
            }
        }
        Ok(text)
    }

    /// Decides about a call that waits for approval and returns a line about it.
    ///
    /// # Errors
    /// Returns an error if no call or more than one can be meant, or if the server does not take the decision.
    pub async fn answer(&self, answer: &Answer) -> Result<String, AskError> {
        let Answer { chat, decision, call, reason } = answer;
        let record = self.record(chat).await?;
        let waiting: Vec<&Waiting> =
            record.pending.iter().filter(|call| call.approval_id.is_some()).collect();
        let meant = match (call, waiting.as_slice()) {
            (_, []) => return Err(AskError::Unclear(format!("no call of chat {chat} waits for approval"))),
            (None, [only]) => *only,
            (None, several) => {
                let list: Vec<String> = several
                    .iter()
                    .map(|call| format!("\n  --call {}: {}", call.tool_call_id, call.in_words()))
                    .collect();
                return Err(AskError::Unclear(format!(
                    "{} calls wait for approval; name one:{}",
                    several.len(),
                    list.concat()
                )));
            }
            (Some(id), several) => {
                let found = several.iter().find(|call| call.tool_call_id.as_str() == id);
                found.ok_or_else(|| {
                    AskError::Unclear(format!("call {id} of chat {chat} does not wait for approval"))
                })?
            }
        };
        let is_approved = *decision == Decision::Yes;
        let mut body = json!({"chatId": chat, "approvalId": meant.approval_id, "approved": is_approved});
        if let Some(reason) = reason {
            body["reason"] = reason.as_str().into();
        }
        let _: Value = self.send(self.request(Method::POST, "/chat/tool-result").json(&body)).await?;
        Ok(format!("{}: {}\n", if is_approved { "approved" } else { "denied" }, meant.in_words()))
    }

    async fn record(&self, chat: &ChatId) -> Result<Record, AskError> {
        let id = percent_encoding::utf8_percent_encode(chat.as_str(), percent_encoding::NON_ALPHANUMERIC);
        self.send(self.request(Method::GET, &format!("/api/chat/{id}"))).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.url));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    async fn send<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, AskError> {
        let no_answer = |source| AskError::NoAnswer { url: self.url.clone(), source };
        let response = request.send().await.map_err(no_answer)?;
        let status = response.status();
        if status.is_success() {
            return response.json().await.map_err(no_answer);
        }
        let detail =
            response.json::<Problem>().await.map_or_else(|_| status.to_string(), |problem| problem.detail);
        let hint = if status == 401 { " (--token or FERMATA_TOKEN names the token)" } else { "" };
        Err(AskError::Refused(format!("{}{hint}", plain(&detail))))
    }
}

// === impl Waiting ===

impl Waiting {
    fn in_words(&self) -> String {
        let words = self.description.clone().unwrap_or_else(|| format!("{} {}", self.tool, self.input_text));
        in_one_line(&words)
    }
}

/// Returns a part of a message as lines of text, or nothing if it is for programs.
fn shown(part: &Value) -> String {
    let kind = part["type"].as_str().unwrap_or_default();
    let text = match (kind, part["text"].as_str()) {
        ("text", Some(text)) => plain(text),
        ("file", _) => format!("[{}]", plain(part["filename"].as_str().unwrap_or("file"))),
        _ => {
            let name = part["toolName"].as_str().or_else(|| kind.strip_prefix("tool-"));
            let Some(name) = name else { return String::new() };
            let state = part["state"].as_str().unwrap_or_default();
            format!("[{} {}: {}]", plain(name), in_one_line(&part["input"].to_string()), plain(state))
        }
    };
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// Returns a text without characters that a terminal would take for commands.
fn plain(text: &str) -> String {
    text.chars().filter(|character| !character.is_control() || matches!(character, '\n' | '\t')).collect()
}

fn in_one_line(text: &str) -> String {
    const LONGEST: usize = 200;
    let line = plain(text).split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
