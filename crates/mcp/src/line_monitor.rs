//! What a program writes, watched for lines that are longer than the library reads. It drops them, and tells nobody.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use rmcp::{model::RequestId, transport::async_rw::DEFAULT_MAX_LINE_LENGTH};
use tokio::io::{AsyncRead, ReadBuf};

use crate::calls::OpenCalls;

/// As much of a line's beginning and end as is kept to find the request that it answers.
const KEPT: usize = 100;

/// The output of a program on its way to the library.
pub(crate) struct LineMonitor<R> {
    output: R,
    line: Line,
    calls: Arc<OpenCalls>,
}

/// The line that is being read.
#[derive(Default)]
struct Line {
    length: usize,
    head: Vec<u8>,
    tail: Vec<u8>,
}

// === impl LineMonitor ===

impl<R> LineMonitor<R> {
    pub(crate) fn new(output: R, calls: Arc<OpenCalls>) -> Self {
        Self { output, line: Line::default(), calls }
    }

    fn read(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.add(piece);
            if piece.ends_with(b"\n") {
                if self.line.length > DEFAULT_MAX_LINE_LENGTH
                    && let Some(id) = self.line.request()
                {
                    self.calls.too_large(RequestId::Number(id));
                }
                self.line = Line::default();
            }
        }
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
        self.read(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

// === impl Line ===

impl Line {
    fn add(&mut self, piece: &[u8]) {
        self.length += piece.len();
        let more = piece.len().min(KEPT - self.head.len());
        self.head.extend_from_slice(&piece[..more]);
        self.tail.extend_from_slice(&piece[piece.len().saturating_sub(KEPT)..]);
        self.tail.drain(..self.tail.len().saturating_sub(KEPT));
    }

    /// The request that it answers. Servers write its id either before the result or behind it; what is inside of the result
    /// does not count.
    fn request(&self) -> Option<i64> {
        let bare = |bytes: &[u8]| -> String {
            String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_ascii_whitespace()).collect()
        };
        let head = bare(&self.head);
        let start = head.strip_prefix('{').map(|start| start.trim_start_matches(r#""jsonrpc":"2.0","#));
        let before = start.and_then(|start| start.strip_prefix(r#""id":"#)?.split_once(','));
        if let Some((id, _)) = before {
            return id.parse().ok();
        }
        let tail = bare(&self.tail);
        let end = tail.strip_suffix('}')?.trim_end_matches(r#","jsonrpc":"2.0""#);
        end.rsplit_once(r#"},"id":"#).or_else(|| end.rsplit_once(r#""2.0","id":"#))?.1.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str) -> Option<i64> {
        let mut read = Line::default();
        for piece in line.as_bytes().chunks(7) {
            read.add(piece);
        }
        assert_eq!(read.length, line.len());
        read.request()
    }

    #[test]
    fn the_request_is_found_before_and_behind_the_result() {
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
            assert_eq!(request(&format!("{line}\n")), Some(5), "{}…", &line[..60]);
        }
    }

    #[test]
    fn a_line_that_answers_nothing_names_no_request() {
        let much = "x".repeat(1_000);
        for line in [
            format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"id":5,"data":"{much}"}}}}"#
            ),
            format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"data":"{much}","id":5}}}}"#),
            much,
        ] {
            assert_eq!(request(&line), None);
        }
    }
}
