//! The provider's bytes, made into events that `async-openai` can read.
//!
//! Each event leaves as one `data:` line with an object in it. What says nothing (comments, pings, empty or null data)
//! leaves as an empty object, because it shows that the provider is at work. This module does not know what an object means.
//!
//! A provider is not trusted with this process's memory: an event has at most [`LONGEST_EVENT`] bytes. A longer one leaves as
//! [`TOO_LONG`], and whatever comes after it is dropped.
//!
//! Invariants: [`DONE`] is written where the provider wrote `[DONE]` and nowhere else, since async-openai does not tell that
//! from a body that just ended; what is no JSON leaves as it is, for the parser to refuse.

use serde_json::Value;

use super::surrogate_halves::repair;

/// What the provider's `[DONE]` becomes.
pub(super) const DONE: &str = "{\"fermata_done\":true}";

/// Bytes of one event. An image that a model has drawn comes in one, and no provider sends more than a few megabytes so.
pub(super) const LONGEST_EVENT: usize = 16 << 20;

/// What an event becomes that is longer.
const TOO_LONG: &str = "{\"fermata_too_long\":true}";

/// An event that says nothing.
const NOTHING: &str = "{}";

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Reads one body.
#[derive(Debug, Default)]
pub(super) struct Framing {
    line: Vec<u8>,
    /// Whether the last byte was a carriage return: a line feed after it ends no other line.
    after_return: bool,
    has_begun: bool,
    data: Option<String>,
    is_keepalive: bool,
    is_too_long: bool,
}

// === impl Framing ===

impl Framing {
    /// The events that are complete with these bytes.
    pub(super) fn take(&mut self, bytes: &[u8]) -> String {
        let mut events = String::with_capacity(bytes.len());
        let mut rest = bytes;
        while let Some(&first) = rest.first()
            && !self.is_too_long
        {
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            self.line.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > LONGEST_EVENT {
                write_event(TOO_LONG, &mut events);
                *self = Self { is_too_long: true, ..Self::default() };
                break;
            }
            let Some(end) = end else { break };
            self.after_return = rest[end] == b'\r';
            self.take_line(&mut events);
            rest = &rest[end + 1..];
        }
        events
    }

    /// The event that the body left open.
    pub(super) fn end(&mut self) -> String {
        let mut events = String::new();
        self.take_line(&mut events);
        self.take_event(&mut events);
        events
    }

    fn take_line(&mut self, events: &mut String) {
        let mut bytes = std::mem::take(&mut self.line);
        self.read_line(&String::from_utf8_lossy(&bytes), events);
        bytes.clear();
        self.line = bytes;
    }

    fn read_line(&mut self, line: &str, events: &mut String) {
        let has_begun = std::mem::replace(&mut self.has_begun, true);
        let line = if has_begun { line } else { without_mark(line) };
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" if line.is_empty() => self.take_event(events),
            "" => write_event(NOTHING, events),
            "data" => match &mut self.data {
                // A line break in JSON is as good as a space.
                Some(data) => data.extend([" ", value]),
                None => self.data = Some(value.to_owned()),
            },
            "event" => self.is_keepalive = value == "keepalive",
            _ => {}
        }
    }

    fn take_event(&mut self, events: &mut String) {
        let is_keepalive = std::mem::take(&mut self.is_keepalive);
        let Some(data) = self.data.take() else { return };
        match data.trim() {
            _ if is_keepalive => write_event(NOTHING, events),
            "" => write_event(NOTHING, events),
            "[DONE]" => write_event(DONE, events),
            object if object.starts_with('{') => write_event(&repair(object), events),
            other => write_other(&repair(other), events),
        }
    }
}

/// The text without the mark that some servers begin it with.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

pub(super) fn write_event(data: &str, events: &mut String) {
    events.extend(["data: ", data, "\n\n"]);
}

/// Data that is no object: of a list, its objects count; any other JSON says nothing.
fn write_other(data: &str, events: &mut String) {
    match serde_json::from_str(data) {
        Ok(Value::Array(items)) => {
            for item in items.iter().filter(|item| item.is_object()) {
                write_event(&item.to_string(), events);
            }
        }
        Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            write_event(NOTHING, events)
        }
        Err(_) => write_event(data, events),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(body: &[u8]) -> String {
        let mut framing = Framing::default();
        let events = framing.take(body);
        events + &framing.end()
    }

    #[test]
    fn an_event_without_end_is_refused_once_and_forgotten() {
        let piece = vec![b'x'; 1 << 20];
        for beginning in ["data: ", "data: {}\ndata: ", "x"] {
            let mut framing = Framing::default();
            framing.take(beginning.as_bytes());
            let events: String = (0..20).map(|_| framing.take(&piece)).collect();
            assert_eq!(events, format!("data: {TOO_LONG}\n\n"), "{beginning}");
            assert!(framing.line.is_empty() && framing.data.is_none());
            assert_eq!(framing.take(b"\n\ndata: [DONE]\n\n") + &framing.end(), "");
        }
    }

    #[test]
    fn the_lines_of_one_event_add_up_and_events_do_not() {
        let line = [b"data: ", vec![b' '; 1 << 20].as_slice(), b"\n"].concat();
        let mut framing = Framing::default();
        let events: String = (0..17).map(|_| framing.take(&line)).collect();
        assert_eq!(events, format!("data: {TOO_LONG}\n\n"));
        let mut framing = Framing::default();
        let event = [line.as_slice(), b"\n"].concat();
        let events: String = (0..17).map(|_| framing.take(&event)).collect();
        assert_eq!(events, format!("data: {NOTHING}\n\n").repeat(17));
    }

    #[test]
    fn it_does_not_matter_where_the_bytes_are_cut() {
        let body =
            "\u{feff}data: {\"a\":\"ü\"}\r\n\r\n: b\r\rdata:{\ndata: }\n\ndata: [DONE]\n\nid: 1".as_bytes();
        let whole = framed(body);
        assert_eq!(whole, format!("data: {{\"a\":\"ü\"}}\n\ndata: {{}}\n\ndata: {{ }}\n\ndata: {DONE}\n\n"));
        for cut in 0..body.len() {
            let mut framing = Framing::default();
            let events = framing.take(&body[..cut]) + &framing.take(&body[cut..]) + &framing.end();
            assert_eq!(events, whole, "{cut}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_and_hold_nothing_up() {
        assert_eq!(framed(b"data: {\"a\":\"\xff\"}\n\n"), "data: {\"a\":\"\u{fffd}\"}\n\n");
    }

    #[test]
    fn what_is_no_json_stays_as_it_is() {
        assert_eq!(framed(b"data: oops\n\n"), "data: oops\n\n");
        assert_eq!(framed(b"data: {\"a\":"), "data: {\"a\":\n\n");
    }
}
