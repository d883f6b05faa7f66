//! Skips the known part of a history in a body that is too large to be kept.
//!
//! Stock clients post the whole history with each message. The server reads the history of a chat that it knows from its record, so it needs
//! only the last message of the user and the last one of the assistant, and of the latter only the last step: calls wait nowhere else.
//! The rest is dropped while the body arrives, so that the limit on bodies applies to what is new.
//!
//! This is no parser. JSON that is malformed stays malformed, and the parser reports it.

use std::mem::take;

use serde::Deserialize;

use crate::Role;

/// The JSON of a body, without the history that is not needed.
#[derive(Debug, Default)]
pub struct HistorySkipper {
    kept: Vec<u8>,
    has_skipped: bool,
    /// The objects and lists that are open, down to [`DEEPEST`].
    open: Vec<Container>,
    /// The number of those below.
    deeper: usize,
    in_text: bool,
    is_escaped: bool,
    /// The beginning of the last text.
    text: usize,
    /// The last text of an object, which is a name if a colon follows.
    name: Vec<u8>,
    /// The messages that are kept, in order.
    messages: Vec<Message>,
}

#[derive(Debug)]
struct Container {
    kind: Kind,
    /// The beginning of its first item.
    items: usize,
    /// The beginning of the item that is being read.
    item: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Body,
    Messages,
    Message,
    Parts,
    Part,
    Other,
}

#[derive(Debug)]
struct Message {
    role: Option<Role>,
    /// The position of its first byte, behind the comma of the one before.
    start: usize,
}

#[derive(Deserialize)]
struct Head {
    role: Option<Role>,
}

#[derive(Deserialize)]
struct PartHead<'a> {
    #[serde(borrow, rename = "type")]
    kind: &'a str,
}

/// A longer part is no `step-start`.
const STEP_START_BYTES: usize = 256;
/// Messages and their parts are less deep than this.
const DEEPEST: usize = 8;

impl HistorySkipper {
    /// Reads a piece of the body.
    pub fn push(&mut self, piece: &[u8]) {
        let mut rest = piece;
        loop {
            if self.in_text && !self.is_escaped {
                let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(rest.len());
                self.kept.extend_from_slice(&rest[..end]);
                rest = &rest[end..];
            }
            let Some((byte, after)) = rest.split_first() else { return };
            rest = after;
            self.kept.push(*byte);
            match byte {
                _ if take(&mut self.is_escaped) => {}
                b'"' if self.in_text => {
                    self.in_text = false;
                    self.name = self.name_in(self.text);
                }
                _ if self.in_text => self.is_escaped = true,
                b'"' => {
                    self.in_text = true;
                    self.text = self.kept.len();
                }
                b'{' | b'[' => self.enter(*byte == b'{'),
                b'}' | b']' => self.leave(),
                b',' if self.deeper == 0 => {
                    let at = self.kept.len();
                    if let Some(container) = self.open.last_mut() {
                        container.item = at;
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the number of bytes that are kept.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Returns the number of bytes that are kept, without the messages before the last one.
    pub fn new_bytes(&self) -> usize {
        let (Some(first), Some(last)) = (self.messages.first(), self.messages.last()) else {
            return self.kept.len();
        };
        let list = self.open.iter().find(|container| container.kind == Kind::Messages);
        let current = list.map_or(last.start, |list| list.item);
        self.kept.len() - (current - first.start)
    }

    /// Returns the bytes that are kept, and whether any were dropped.
    pub fn finish(self) -> (Vec<u8>, bool) {
        (self.kept, self.has_skipped)
    }

    /// Returns a text that ends here, if it is short enough for a name that matters.
    fn name_in(&self, start: usize) -> Vec<u8> {
        let text = &self.kept[start..self.kept.len() - 1];
        if text.len() <= b"messages".len() { text.to_vec() } else { Vec::new() }
    }

    fn enter(&mut self, is_object: bool) {
        if self.open.len() == DEEPEST {
            self.deeper += 1;
            return;
        }
        let parent = self.open.last().map(|container| container.kind);
        let kind = match (parent, is_object, self.name.as_slice()) {
            (None, true, _) => Kind::Body,
            (Some(Kind::Body), false, b"messages") => Kind::Messages,
            (Some(Kind::Messages), true, _) => Kind::Message,
            (Some(Kind::Message), false, b"parts") => Kind::Parts,
            (Some(Kind::Parts), true, _) => Kind::Part,
            _ => Kind::Other,
        };
        let at = self.kept.len();
        self.open.push(Container { kind, items: at, item: at });
    }

    fn leave(&mut self) {
        if self.deeper > 0 {
            self.deeper -= 1;
            return;
        }
        let Some(left) = self.open.pop() else { return };
        let Some(parent) = self.open.last_mut() else { return };
        match left.kind {
            Kind::Part => {
                let part = &self.kept[parent.item..];
                let is_step_start = part.len() <= STEP_START_BYTES
                    && serde_json::from_slice::<PartHead<'_>>(part)
                        .is_ok_and(|part| part.kind == "step-start");
                // The parts before it are of a step that is over.
                if is_step_start && parent.item > parent.items {
                    self.kept.drain(parent.items..parent.item);
                    parent.item = parent.items;
                    self.has_skipped = true;
                }
            }
            Kind::Message => {
                let message = &self.kept[parent.item..];
                let role = serde_json::from_slice::<Head>(message).ok().and_then(|head| head.role);
                self.messages.push(Message { role, start: parent.item });
                self.drop_messages();
            }
            Kind::Body | Kind::Messages | Kind::Parts | Kind::Other => {}
        }
    }

    /// Drops the messages before the one that has just ended, except the last one of the other role.
    fn drop_messages(&mut self) {
        let Some(last) = self.messages.len().checked_sub(1) else { return };
        let other = self.messages[..last].iter().rposition(|message| {
            message.role != self.messages[last].role
                && matches!(message.role, Some(Role::User | Role::Assistant))
        });
        for index in (0..last).rev().filter(|index| Some(*index) != other) {
            // With the comma behind it.
            let (start, end) = (self.messages[index].start, self.messages[index + 1].start);
            self.kept.drain(start..end);
            self.messages.remove(index);
            for later in &mut self.messages[index..] {
                later.start -= end - start;
            }
            self.has_skipped = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn skip(body: &str, piece: usize) -> (Value, bool) {
        let mut skipper = HistorySkipper::default();
        for piece in body.as_bytes().chunks(piece) {
            skipper.push(piece);
        }
        let (kept, has_skipped) = skipper.finish();
        let kept = serde_json::from_slice(&kept)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&kept)));
        (kept, has_skipped)
    }

    fn message(id: &str, role: &str, parts: Value) -> Value {
        json!({"id": id, "role": role, "parts": parts})
    }

    fn said(id: &str, role: &str) -> Value {
        message(id, role, json!([{"type": "text", "text": format!("{id} says \"}}],[{{\\\" 😀")}]))
    }

    #[test]
    fn the_last_message_of_each_role_is_kept() {
        let (user, assistant) = (|id: &str| said(id, "user"), |id: &str| said(id, "assistant"));
        for (messages, kept) in [
            (vec![], vec![]),
            (vec![user("1")], vec!["1"]),
            (vec![user("1"), assistant("2"), user("3")], vec!["2", "3"]),
            (vec![user("1"), assistant("2"), user("3"), assistant("4")], vec!["3", "4"]),
            (vec![user("1"), user("2"), user("3")], vec!["3"]),
            (vec![assistant("1"), user("2"), user("3")], vec!["1", "3"]),
            (vec![said("0", "system"), user("1"), assistant("2"), user("3")], vec!["2", "3"]),
        ] {
            let body = json!({"id": "c", "messages": messages, "tools": {"messages": [{"role": "user"}, {"role": "user"}]}, "trigger": "x"});
            for written in [body.to_string(), serde_json::to_string_pretty(&body).expect("JSON")] {
                for piece in [1, 2, 7, usize::MAX] {
                    let (read, has_skipped) = skip(&written, piece);
                    let ids: Vec<&str> = read["messages"]
                        .as_array()
                        .expect("a list")
                        .iter()
                        .filter_map(|message| message["id"].as_str())
                        .collect();
                    assert_eq!((ids, has_skipped), (kept.clone(), kept.len() < messages.len()), "{written}");
                    for field in ["id", "tools", "trigger"] {
                        assert_eq!(read[field], body[field]);
                    }
                    for message in read["messages"].as_array().expect("a list") {
                        assert!(messages.contains(message), "{message}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_messages_before_the_last_one_are_not_new() {
        let (small, large) =
            (said("1", "user").to_string(), message("2", "assistant", json!(["x".repeat(1000)])).to_string());
        let mut skipper = HistorySkipper::default();
        let begin = "{\"messages\":[";
        skipper.push(format!("{begin}{large}").as_bytes());
        assert_eq!(skipper.new_bytes(), begin.len() + large.len());
        skipper.push(format!(",{small}").as_bytes());
        assert_eq!(skipper.new_bytes(), begin.len() + small.len());
        skipper.push(format!(",{}", &large[..500]).as_bytes());
        assert_eq!(skipper.new_bytes(), begin.len() + 500);
        skipper.push(format!("{}],\"id\":1}}", &large[500..]).as_bytes());
        assert_eq!(skipper.new_bytes(), begin.len() + large.len() + "],\"id\":1}".len());
    }

    #[test]
    fn the_last_step_of_a_message_is_kept() {
        let step = |text: &str| {
            [
                json!({"type": "step-start"}),
                json!({"type": "text", "text": text}),
                json!({"type": "tool-x", "input": {"type": "step-start"}}),
            ]
        };
        let parts: Vec<Value> = [step("one"), step("two"), step("three")].concat();
        let body = json!({"messages": [message("a", "assistant", json!(parts))], "parts": parts});
        let (read, has_skipped) = skip(&body.to_string(), 5);
        assert!(has_skipped);
        assert_eq!(read["messages"][0]["parts"], json!(step("three")));
        assert_eq!(read["parts"], body["parts"]);
    }

    #[test]
    fn anything_that_is_no_json_is_kept_or_stays_malformed() {
        for text in [
            "",
            "]",
            "}}}}",
            "{\"messages\":[{]}",
            "{\"messages\":[}",
            "\"",
            "\\",
            "{\"messages\":[{\"role\":\"user\"}{\"role\":\"user\"}]}",
        ] {
            let mut skipper = HistorySkipper::default();
            skipper.push(text.as_bytes());
            let (kept, _) = skipper.finish();
            assert!(serde_json::from_slice::<Value>(&kept).is_err(), "{text}");
        }
        let mut skipper = HistorySkipper::default();
        skipper.push("[".repeat(100_000).as_bytes());
        skipper.push("]".repeat(100_000).as_bytes());
        assert_eq!(skipper.kept(), 200_000);
    }
}
