//! Detects lines of a program's output that are longer than the library reads. The library drops them without a notice.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use rmcp::{model::RequestId, transport::async_rw::DEFAULT_MAX_LINE_LENGTH};
use tokio::io::{AsyncRead, ReadBuf};

use crate::calls::OpenCalls;

/// The length of a line's beginning and end that is kept, in bytes. They contain the id of the request that it answers.
const KEPT_LENGTH: usize = 100;

/// The output of a program, which the library reads through this.
pub(crate) struct LineMonitor<R> {
    output: R,
    line: ObservedLine,
    calls: Arc<OpenCalls>,
}

/// The line that is being read.
#[derive(Default)]
struct ObservedLine {
    /// The length so far, in bytes.
    length: usize,
    head: Vec<u8>,
    tail: Vec<u8>,
}

// === impl LineMonitor ===

impl<R> LineMonitor<R> {
    pub(crate) fn new(output: R, calls: Arc<OpenCalls>) -> Self {
        Self { output, line: ObservedLine::default(), calls }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for LineMonitor<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.output).poll_read(context, buffer))?;
        for piece in buffer.filled()[before..].split_inclusive(|&byte| byte == b'\n') {
            self.line.add(piece);
            if piece.ends_with(b"\n") {
                if self.line.length > DEFAULT_MAX_LINE_LENGTH
                    && let Some(id) = self.line.request_id()
                {
                    self.calls.mark_too_large(RequestId::Number(id));
                }
                self.line = ObservedLine::default();
            }
        }
        Poll::Ready(Ok(()))
    }
}

// === impl ObservedLine ===

impl ObservedLine {
    fn add(&mut self, piece: &[u8]) {
        self.length += piece.len();
        let more = piece.len().min(KEPT_LENGTH - self.head.len());
        self.head.extend_from_slice(&piece[..more]);
        self.tail.extend_from_slice(&piece[piece.len().saturating_sub(KEPT_LENGTH)..]);
        self.tail.drain(..self.tail.len().saturating_sub(KEPT_LENGTH));
    }

    /// Returns the id of the request that the line answers, if it answers one. Servers write the id before or after the result;
    /// an `id` inside the result does not count.
    fn request_id(&self) -> Option<i64> {
        let head = without_whitespace(&self.head);
        if let Some(start) = head.strip_prefix('{')
            && let Some(id) = start.trim_start_matches(r#""jsonrpc":"2.0","#).strip_prefix(r#""id":"#)
            && let Some((id, _)) = id.split_once(',')
        {
            return id.parse().ok();
        }
        let tail = without_whitespace(&self.tail);
        let end = tail.strip_suffix('}')?.trim_end_matches(r#","jsonrpc":"2.0""#);
        end.rsplit_once(r#"},"id":"#).or_else(|| end.rsplit_once(r#""2.0","id":"#))?.1.parse().ok()
    }
}

fn without_whitespace(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_ascii_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_id(line: &str) -> Option<i64> {
        let mut read = ObservedLine::default();
        for piece in line.as_bytes().chunks(7) {
            read.add(piece);
        }
        assert_eq!(read.length, line.len());
        read.request_id()
    }

    #[test]
    fn the_request_id_is_found_before_and_after_the_result() {
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
            assert_eq!(request_id(&format!("{line}\n")), Some(5), "{}…", &line[..60]);
        }
    }

    #[test]
    fn a_line_that_is_no_response_has_no_request_id() {
        let much = "x".repeat(1_000);
        for line in [
            format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"id":5,"data":"{much}"}}}}"#
            ),
            format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"data":"{much}","id":5}}}}"#),
            much,
        ] {
            assert_eq!(request_id(&line), None);
        }
    }
}
