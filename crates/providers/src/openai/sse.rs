//! The provider's bytes, split into server-sent events.
//!
//! This is a parser of our own because those of `eventsource-stream` and `sse-stream` drop comments, which show that the provider is at
//! work, put no limit on an event, lose an event that no empty line follows, and give up on bytes that are not UTF-8. It does not know
//! what the data of an event means.
//!
//! Invariants: where the bytes are cut makes no difference; a provider is not trusted with this process's memory, so an event has at most
//! [`LONGEST_EVENT`] bytes, and nothing is read after a longer one.

use bytes::{Buf, Bytes, BytesMut};

/// The limit on the bytes of an event. An image that a model has drawn is in one event, and no provider sends more than a few megabytes
/// that way.
pub(super) const LONGEST_EVENT: usize = 16 << 20;

/// Some servers send it at the start of a body.
pub(super) const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Splits one body into events.
#[derive(Debug, Default)]
pub(super) struct SseParser {
    /// The bytes that were received and are not yet read.
    input: Bytes,
    /// The beginning of a line whose end has not been received.
    line: Vec<u8>,
    /// True if the last byte was a carriage return, so that a line feed after it does not end another line.
    is_after_return: bool,
    has_read_a_line: bool,
    /// The data of the event that is being read.
    data: Option<Bytes>,
    /// True if the event that is being read has the name `keepalive`.
    is_keep_alive: bool,
    has_failed: bool,
}

/// An event of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SseEvent {
    /// A comment, or an event without data or by the name of `keepalive`.
    KeepAlive,
    /// The data of an event, a part of what was received if it is one line. Lines are joined by spaces, because line breaks in JSON mean
    /// the same as spaces.
    Data(Bytes),
    /// `[DONE]`, which ends the answer.
    Done,
}

/// The error for an event of more than [`LONGEST_EVENT`] bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventTooLong;

// === impl SseParser ===

impl SseParser {
    /// Adds more of the body. Everything before must have been read by [`SseParser::next`].
    pub(super) fn feed(&mut self, bytes: Bytes) {
        debug_assert!(self.input.is_empty(), "input that was not read would be lost");
        if !self.has_failed {
            self.input = bytes;
        }
    }

    /// Returns the next event that has been received completely.
    ///
    /// # Errors
    /// Returns an error once, if the event is too long. There are no more events after it.
    pub(super) fn next(&mut self) -> Result<Option<SseEvent>, EventTooLong> {
        while !self.input.is_empty() {
            if std::mem::take(&mut self.is_after_return) && self.input[0] == b'\n' {
                self.input.advance(1);
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', &self.input);
            let part = self.input.split_to(end.unwrap_or(self.input.len()));
            let data_length = self.data.as_ref().map_or(0, Bytes::len);
            if self.line.len() + part.len() + data_length > LONGEST_EVENT {
                *self = Self { has_failed: true, ..Self::default() };
                return Err(EventTooLong);
            }
            if end.is_none() {
                self.line.extend_from_slice(&part);
                break;
            }
            self.is_after_return = self.input.get_u8() == b'\r';
            let line = if self.line.is_empty() {
                part
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&part);
                line.into()
            };
            let event = self.read_line(line);
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    /// Reads a line without its end, and returns the event that is complete with it.
    fn read_line(&mut self, mut line: Bytes) -> Option<SseEvent> {
        let is_first = !std::mem::replace(&mut self.has_read_a_line, true);
        if is_first && line.starts_with(BYTE_ORDER_MARK.as_bytes()) {
            line.advance(BYTE_ORDER_MARK.len());
        }
        if line.is_empty() {
            let is_keep_alive = std::mem::take(&mut self.is_keep_alive);
            let data = self.data.take()?;
            return Some(match data.trim_ascii() {
                b"" => SseEvent::KeepAlive,
                _ if is_keep_alive => SseEvent::KeepAlive,
                b"[DONE]" => SseEvent::Done,
                _ => SseEvent::Data(data),
            });
        }
        let colon = memchr::memchr(b':', &line);
        let (field, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"" => return Some(SseEvent::KeepAlive),
            b"data" => {
                line.advance(line.len() - value.len());
                self.data = Some(match self.data.take() {
                    Some(data) => {
                        // What was joined before is not copied again.
                        let mut data = BytesMut::from(data);
                        data.extend_from_slice(b" ");
                        data.extend_from_slice(&line);
                        data.freeze()
                    }
                    None => line,
                });
            }
            b"event" => self.is_keep_alive = value == b"keepalive",
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(parser: &mut SseParser, piece: impl Into<Bytes>) -> Vec<Result<SseEvent, EventTooLong>> {
        parser.feed(piece.into());
        std::iter::from_fn(|| parser.next().transpose()).collect()
    }

    /// The events of a body that comes in these pieces.
    fn events(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let mut parser = SseParser::default();
        let pieces = pieces.iter().map(|piece| Bytes::copy_from_slice(piece));
        pieces.flat_map(|piece| feed(&mut parser, piece)).map(Result::unwrap).collect()
    }

    fn data(text: &str) -> SseEvent {
        SseEvent::Data(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn an_event_without_end_is_refused_once_and_forgotten() {
        let piece = Bytes::from(vec![b'x'; 1 << 20]);
        for beginning in ["data: ", "data: {}\ndata: ", "x"] {
            let mut parser = SseParser::default();
            feed(&mut parser, beginning);
            let events: Vec<_> = (0..20).flat_map(|_| feed(&mut parser, piece.clone())).collect();
            assert_eq!(events, [Err(EventTooLong)], "{beginning}");
            assert!(parser.line.is_empty() && parser.data.is_none() && parser.input.is_empty());
            assert_eq!(feed(&mut parser, "\n\ndata: [DONE]\n\n"), []);
        }
    }

    #[test]
    fn the_lines_of_one_event_add_up_and_events_do_not() {
        let line = [b"data: ", vec![b' '; 1 << 20].as_slice(), b"\n"].concat();
        let mut parser = SseParser::default();
        let events: Vec<_> = (0..17).flat_map(|_| feed(&mut parser, line.clone())).collect();
        assert_eq!(events, [Err(EventTooLong)]);
        let mut parser = SseParser::default();
        let event = [line.as_slice(), b"\n"].concat();
        let events: Vec<_> = (0..17).flat_map(|_| feed(&mut parser, event.clone())).collect();
        assert_eq!(events, [(); 17].map(|()| Ok(SseEvent::KeepAlive)));
    }

    #[test]
    fn it_does_not_matter_where_the_bytes_are_cut() {
        let body =
            "\u{feff}data: {\"a\":\"ü\"}\r\n\r\n: b\r\rdata:{\ndata: }\n\ndata: [DONE]\n\nid: 1".as_bytes();
        let whole = events(&[body]);
        assert_eq!(whole, [data("{\"a\":\"ü\"}"), SseEvent::KeepAlive, data("{ }"), SseEvent::Done]);
        for cut in 0..body.len() {
            assert_eq!(events(&[&body[..cut], &body[cut..]]), whole, "{cut}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_hold_nothing_up() {
        let event = SseEvent::Data(Bytes::from_static(b"{\"a\":\"\xff\"}"));
        assert_eq!(events(&[b"data: {\"a\":\"\xff\"}\n\n\xff\n\n"]), [event]);
    }

    #[test]
    fn what_is_no_json_stays_as_it_is() {
        assert_eq!(events(&[b"data: oops\n\n"]), [data("oops")]);
        assert_eq!(events(&[b"data: {\"a\":\n\n"]), [data("{\"a\":")]);
    }

    #[test]
    fn an_event_that_says_nothing_is_a_sign_of_life_and_one_without_data_is_none() {
        let body = b"data:\n\ndata\n\ndata:  \n\nevent: keepalive\ndata: zzz\n\n";
        assert_eq!(events(&[body]), [(); 4].map(|()| SseEvent::KeepAlive));
        assert_eq!(events(&[b"event: keepalive\n\nid: 7\nretry: 10\n\n\n\ndata: 1\n\n"]), [data("1")]);
    }
}
