//! Reads what a server sends, even if it is not quite JSON-RPC.
//!
//! The library drops a message that it cannot read, and the call that it answers would wait for its time limit. So everything is read
//! here first. A reply that cannot be used becomes an error reply to the same request.
//!
//! Invariants: a message that the library can read is passed on unchanged · a text that contains a reply yields a reply.

use rmcp::model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use serde_json::{Map, Value, json};

use crate::repair::{is_too_deep, read_first_value};

/// The number of characters that an error shows of a reply that cannot be read.
const SHOWN: usize = 200;

/// The number of bytes at the beginning and the end of a reply that are searched for its id.
const SEARCHED: usize = 200;

/// The number of possible beginnings of a message that are tried in a line.
const MAX_BEGINNINGS: usize = 8;

/// The first fields of messages.
const KEYS: [&str; 6] =
    [r#""jsonrpc""#, r#""id""#, r#""result""#, r#""error""#, r#""method""#, r#""params""#];

/// Words that say that a session is gone, if they are near the word itself.
const GONE: [&str; 17] = [
    "no",
    "not",
    "invalid",
    "unknown",
    "unrecognized",
    "expired",
    "terminated",
    "closed",
    "missing",
    "gone",
    "lost",
    "deleted",
    "inactive",
    "stale",
    "ended",
    "exist",
    "exists",
];

/// The number of words that are near.
const DISTANCE: usize = 5;

/// The key in an error's `data` under which this module notes its kind.
const KIND_KEY: &str = "io.fermata/reply";

/// A kind of reply that is known from its form. Servers report it in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    /// It is larger than the limit.
    TooLarge,
    /// It is neither a result nor an error.
    Unreadable,
    /// The server does not know the session, so it has not run the request.
    SessionGone,
}

/// Reads the messages in a line of a program's output, in the body of an HTTP response or in the data of an event.
///
/// A reply without a usable id gets the id of `expected`, the request that the text is known to answer. Without `expected`, it becomes an
/// error without an id. A text that contains no message yields nothing.
pub(crate) fn read_messages(text: &[u8], expected: Option<&RequestId>) -> Vec<ServerJsonRpcMessage> {
    if !is_too_deep(text)
        && let Ok(message) = serde_json::from_slice::<ServerJsonRpcMessage>(text)
        && reply_id(&message).is_none_or(|id| match expected {
            Some(_) => id == expected,
            // Only numbers are sent.
            None => matches!(id, Some(RequestId::Number(_))),
        })
    {
        return vec![message];
    }
    let mut messages = Vec::new();
    let mut rest = text;
    for _ in 0..MAX_BEGINNINGS {
        let Some(start) = find_beginning(rest) else { break };
        rest = &rest[start..];
        match read_first_value(rest) {
            Some(repaired) => {
                add_messages(repaired.value, expected, &mut messages);
                rest = &rest[repaired.length..];
            }
            None => rest = &rest[1..],
        }
    }
    if messages.is_empty() && looks_like_a_reply(text) {
        let shown: String = String::from_utf8_lossy(text).chars().take(SHOWN).collect();
        let id = expected.cloned().or_else(|| find_id(text));
        messages.push(error_reply(ReplyKind::Unreadable, &shown, id));
    }
    messages
}

/// Returns the reply that stands for one that is too large, if it was one. `head` and `tail` are its beginning and its end.
pub(crate) fn too_large_reply(head: &[u8], tail: &[u8]) -> Option<ServerJsonRpcMessage> {
    let head = &head[..head.len().min(SEARCHED)];
    let id = find_id_in(head, tail);
    let is_reply = id.is_some() || looks_like_a_reply(head) || looks_like_a_reply(tail);
    is_reply.then(|| error_reply(ReplyKind::TooLarge, "it is too large", id))
}

/// Creates a reply that stands for one that cannot be used.
pub(crate) fn error_reply(kind: ReplyKind, reason: &str, id: Option<RequestId>) -> ServerJsonRpcMessage {
    let name = match kind {
        ReplyKind::TooLarge => "too_large",
        ReplyKind::Unreadable => "unreadable",
        ReplyKind::SessionGone => "session_gone",
    };
    let data = json!({ KIND_KEY: name });
    ServerJsonRpcMessage::error(ErrorData::new(ErrorCode::PARSE_ERROR, reason.to_owned(), Some(data)), id)
}

/// Returns the kind that [`error_reply`] noted in an error.
pub(crate) fn reply_kind(error: &ErrorData) -> Option<ReplyKind> {
    match error.data.as_ref()?.get(KIND_KEY)?.as_str()? {
        "too_large" => Some(ReplyKind::TooLarge),
        "unreadable" => Some(ReplyKind::Unreadable),
        "session_gone" => Some(ReplyKind::SessionGone),
        _ => None,
    }
}

/// Returns whether the text of an error says that the server does not know the session. Servers use many words for it.
pub(crate) fn says_that_the_session_is_gone(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    if text.contains("not initialized") {
        return true;
    }
    let words: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
    let Some(session) = words.iter().position(|word| *word == "session") else { return false };
    let near = &words[session.saturating_sub(DISTANCE)..words.len().min(session + DISTANCE)];
    near.iter().any(|word| GONE.contains(word))
}

/// Returns whether a message is a reply.
pub(crate) fn is_reply(message: &ServerJsonRpcMessage) -> bool {
    reply_id(message).is_some()
}

/// Returns the id of a reply, which an error may lack. Returns `None` for other messages.
#[expect(clippy::option_option, reason = "the outer one says whether it is a reply, the inner one is its id")]
pub(crate) fn reply_id(message: &ServerJsonRpcMessage) -> Option<Option<&RequestId>> {
    match message {
        ServerJsonRpcMessage::Response(response) => Some(Some(&response.id)),
        ServerJsonRpcMessage::Error(error) => Some(error.id.as_ref()),
        _ => None,
    }
}

/// Returns the first position where a JSON-RPC message or a list of them may begin. Log lines before it may contain braces.
fn find_beginning(text: &[u8]) -> Option<usize> {
    let places = text.iter().enumerate().filter(|(_, byte)| matches!(byte, b'{' | b'['));
    places.map(|(at, _)| at).find(|&at| begins_a_message(&text[at..]))
}

fn begins_a_message(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    let text = text.strip_prefix(b"[").unwrap_or(text).trim_ascii_start();
    let Some(fields) = text.strip_prefix(b"{") else { return false };
    let fields = fields.trim_ascii_start();
    KEYS.iter().any(|key| fields.starts_with(key.as_bytes()))
}

/// Adds the messages in a JSON value. A reply that the library cannot read becomes an error reply.
fn add_messages(value: Value, expected: Option<&RequestId>, messages: &mut Vec<ServerJsonRpcMessage>) {
    match value {
        Value::Array(values) => {
            for value in values {
                add_messages(value, expected, messages);
            }
        }
        Value::Object(mut fields) if fields.contains_key("method") => {
            fields.insert("jsonrpc".to_owned(), "2.0".into());
            messages.extend(serde_json::from_value(Value::Object(fields)));
        }
        Value::Object(fields) if fields.contains_key("result") || fields.contains_key("error") => {
            messages.push(read_reply(fields, expected));
        }
        _ => {}
    }
}

fn read_reply(mut fields: Map<String, Value>, expected: Option<&RequestId>) -> ServerJsonRpcMessage {
    let own_id = fields.remove("id").and_then(|id| match id {
        Value::Number(number) => number.as_i64().map(RequestId::Number),
        Value::String(text) => Some(read_id(&text).unwrap_or(RequestId::String(text.into()))),
        _ => None,
    });
    let is_foreign = own_id.is_none() || expected.is_some_and(|expected| own_id.as_ref() != Some(expected));
    let id = expected.cloned().or(own_id);
    match (fields.remove("error").filter(|error| !error.is_null()), fields.remove("result")) {
        (Some(error), _) => {
            let error = read_error(error);
            if is_foreign && says_that_the_session_is_gone(&error.message) {
                error_reply(ReplyKind::SessionGone, &error.message, id)
            } else {
                ServerJsonRpcMessage::error(error, id)
            }
        }
        (None, result) => {
            let result = result.filter(|result| !result.is_null()).unwrap_or_else(|| json!({}));
            let reply = json!({"jsonrpc": "2.0", "id": id, "result": result});
            serde_json::from_value(reply).unwrap_or_else(|_| {
                let shown: String = result.to_string().chars().take(SHOWN).collect();
                error_reply(ReplyKind::Unreadable, &shown, id)
            })
        }
    }
}

/// Reads an error object. Some servers send a text in its place, or leave out the code.
fn read_error(error: Value) -> ErrorData {
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let message = match error.get("message").unwrap_or(&error) {
        Value::String(message) => message.clone(),
        other => other.to_string(),
    };
    let code = code.map_or(ErrorCode::INTERNAL_ERROR, ErrorCode);
    ErrorData::new(code, message, error.get("data").cloned())
}

/// Returns whether a text that cannot be read was meant as a reply. A notification may have the words of one in its data.
fn looks_like_a_reply(text: &[u8]) -> bool {
    let text = without_whitespace(text);
    let Some(key) = [r#""result":"#, r#""error":"#].iter().filter_map(|key| text.find(key)).min() else {
        return false;
    };
    let before = &text[..key];
    !before.contains(r#""method":"#) && (text.contains(r#""jsonrpc":"#) || before.ends_with('{'))
}

/// Returns the id of a reply that cannot be read.
fn find_id(text: &[u8]) -> Option<RequestId> {
    find_id_in(&text[..text.len().min(SEARCHED)], &text[text.len().saturating_sub(SEARCHED)..])
}

/// Returns the id of a reply with this beginning and this end. Servers write the id before or after the result; an `id` inside the result
/// does not count.
fn find_id_in(head: &[u8], tail: &[u8]) -> Option<RequestId> {
    let head = without_whitespace(head);
    if let Some((_, start)) = head.split_once('{')
        && let Some(id) = start.trim_start_matches(r#""jsonrpc":"2.0","#).strip_prefix(r#""id":"#)
        && let Some((id, rest)) = id.split_once(',')
    {
        return if rest.starts_with(r#""method":"#) { None } else { read_id(id) };
    }
    let tail = without_whitespace(tail);
    let end = tail.strip_suffix('}')?.trim_end_matches(r#","jsonrpc":"2.0""#);
    let (_, id) = end.rsplit_once(r#"},"id":"#).or_else(|| end.rsplit_once(r#""2.0","id":"#))?;
    read_id(id)
}

fn read_id(text: &str) -> Option<RequestId> {
    text.trim_matches('"').parse().ok().map(RequestId::Number)
}

fn without_whitespace(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_ascii_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: RequestId = RequestId::Number(5);

    /// Reads a line and returns its messages as JSON.
    fn read(text: &str) -> Vec<Value> {
        read_messages(text.as_bytes(), None).into_iter().map(|message| json!(message)).collect()
    }

    fn result_of_five(text: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": 5, "result": {"content": [{"type": "text", "text": text}]}})
    }

    #[test]
    fn a_line_is_read_as_far_as_possible() {
        let five = result_of_five("hi").to_string();
        for line in [
            five.clone(),
            format!("[INFO] starting {{x}} {five}"),
            format!("\u{feff}{five} done"),
            format!("[{five}]"),
            five.replace(r#""id":5"#, r#""id":"5""#),
            five.replace(r#""id":5"#, r#""error":null,"id":5"#),
            five.replace(r#""jsonrpc":"2.0","#, ""),
        ] {
            assert_eq!(read(&line), [result_of_five("hi")], "{line}");
        }
        assert_eq!(read(&five.replace("hi", r"hi\ud83d")), [result_of_five("hi\u{fffd}")]);
        assert_eq!(read(&format!("{five}{five}")), [result_of_five("hi"), result_of_five("hi")]);
        let nan = r#"{"jsonrpc":"2.0","id":5,"result":{"content":[],"structuredContent":{"mean":NaN}}}"#;
        assert_eq!(read(nan)[0]["result"]["structuredContent"], json!({"mean": null}));
        let deep = five.replace(r#""hi""#, &format!("{}{}", "[".repeat(200), "]".repeat(200)));
        assert_eq!(read(&deep)[0]["id"], 5);
    }

    #[test]
    fn a_reply_that_cannot_be_read_is_an_error_of_its_request() {
        for (line, id) in [
            (r#"{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"cut"#, json!(5)),
            (r#"{"result":{"content":["a" "b"]},"jsonrpc":"2.0","id":5}"#, json!(5)),
            (r#"log {"jsonrpc": "2.0", "id": 5, "result": {"content": [}}"#, json!(5)),
            (r#"{"result":{"content":["cut"],"jsonrpc":"2"#, Value::Null),
        ] {
            let [message] = &read(line)[..] else { panic!("{line}") };
            assert_eq!(message["id"], id, "{line}");
            assert_eq!(message["error"]["data"][KIND_KEY], "unreadable", "{line}");
        }
    }

    #[test]
    fn an_error_in_any_form_is_an_error() {
        for (error, code, message) in [
            (r#"{"code":-32000,"message":"no"}"#, -32000, "no"),
            (r#"{"message":"no"}"#, -32603, "no"),
            (r#""no""#, -32603, "no"),
            (r#"{"code":"E_NO","message":"no"}"#, -32603, "no"),
            (r#"{"code":3000000000,"message":null}"#, -32603, "null"),
        ] {
            let expected = json!({"jsonrpc": "2.0", "id": 5, "error": {"code": code, "message": message}});
            assert_eq!(
                read(&format!(r#"{{"jsonrpc":"2.0","id":5,"error":{error}}}"#)),
                [expected],
                "{error}"
            );
        }
    }

    #[test]
    fn text_without_a_message_is_ignored() {
        for line in [
            "",
            "Listening on port 8080",
            "{}",
            "[]",
            r#"{"level":"info"}"#,
            r#"{"id":5}"#,
            "{\"jsonrpc\":\"2.0\"}",
        ] {
            assert!(read(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn a_reply_gets_the_id_of_the_request_that_it_is_known_to_answer() {
        for id in ["null", "7", r#""server-error""#, "5.5"] {
            let text = result_of_five("hi").to_string().replace(r#""id":5"#, &format!(r#""id":{id}"#));
            let messages = read_messages(text.as_bytes(), Some(&FIVE));
            assert_eq!(json!(messages), json!([result_of_five("hi")]), "{id}");
        }
        let notification = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#;
        assert!(!is_reply(&read_messages(notification.as_bytes(), Some(&FIVE))[0]));
    }

    #[test]
    fn a_session_that_is_gone_is_recognized_unless_the_error_is_of_the_call() {
        let kind = |text: &str| match &read_messages(text.as_bytes(), Some(&FIVE))[..] {
            [ServerJsonRpcMessage::Error(error)] => reply_kind(&error.error),
            other => panic!("{other:?}"),
        };
        let gone = |id: &str, message: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32000,"message":"{message}"}}}}"#)
        };
        for message in [
            "Bad Request: No valid session ID provided",
            "Session not found",
            "Bad Request: Server not initialized",
        ] {
            assert_eq!(kind(&gone("null", message)), Some(ReplyKind::SessionGone), "{message}");
            assert_eq!(kind(&gone(r#""server-error""#, message)), Some(ReplyKind::SessionGone), "{message}");
        }
        assert_eq!(kind(&gone("5", "browser session not found")), None);
        for message in
            ["Invalid params: session_id is required", "The session is busy", "Unknown tool", "no such place"]
        {
            assert_eq!(kind(&gone("null", message)), None, "{message}");
        }
        assert_eq!(kind(&gone("null", "Invalid params: q is missing")), None);
    }

    #[test]
    fn the_id_is_found_before_and_after_a_large_result() {
        let much = "x".repeat(1_000);
        let result =
            format!(r#""result":{{"content":[{{"id":9,"text":"{much}"}}],"structuredContent":{{"id":8}}}}"#);
        for line in [
            format!(r#"{{"jsonrpc":"2.0","id":5,{result}}}"#),
            format!(r#"{{"jsonrpc": "2.0", "id": 5, {result}}}"#),
            format!(r#"{{"id":5,"jsonrpc":"2.0",{result}}}"#),
            format!(r#"{{{result},"jsonrpc":"2.0","id":5}}"#),
            format!(r#"{{"jsonrpc":"2.0",{result},"id":5}}"#),
            format!(r#"{{{result},"id":5,"jsonrpc":"2.0"}}"#),
        ] {
            assert_eq!(find_id(line.as_bytes()), Some(FIVE), "{}…", &line[..60]);
        }
        for line in [
            format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"id":5,"data":"{much}"}}}}"#
            ),
            format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"data":"{much}","id":5}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":5,"method":"x","params":{{"data":"{much}"}}}}"#),
            much,
        ] {
            assert_eq!(find_id(line.as_bytes()), None);
        }
    }
}
