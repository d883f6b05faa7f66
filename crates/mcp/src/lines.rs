//! The output of a program, line by line, as the library can read it.
//!
//! Invariant: no line makes this buffer grow beyond the longest line that is read.

use std::{
    io, mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use rmcp::{model::ServerJsonRpcMessage, transport::async_rw::DEFAULT_MAX_LINE_LENGTH};
use tokio::io::{AsyncRead, ReadBuf};

use crate::lenient::{read_messages, too_large_reply};

/// The number of bytes that are read from the program at a time.
const CHUNK: usize = 64 * 1024;

/// The number of bytes that are kept of the end of a line that is too long.
const KEPT_TAIL: usize = 200;

/// The output of a program, reduced to messages that the library can read.
pub(crate) struct MessageLines<R> {
    output: R,
    chunk: Box<[u8]>,
    line: Line,
    /// The lines for the library.
    ready: Vec<u8>,
    /// The number of bytes of `ready` that the library has read.
    taken: usize,
    has_ended: bool,
}

/// The line that is being read.
#[derive(Default)]
struct Line {
    /// Its beginning, up to the length of the longest line that is read.
    head: Vec<u8>,
    /// Its end, if it is longer.
    tail: Vec<u8>,
}

// === impl MessageLines ===

impl<R> MessageLines<R> {
    pub(crate) fn new(output: R) -> Self {
        Self {
            output,
            chunk: vec![0; CHUNK].into(),
            line: Line::default(),
            ready: Vec::new(),
            taken: 0,
            has_ended: false,
        }
    }

    fn add(&mut self, length: usize) {
        for piece in self.chunk[..length].split_inclusive(|&byte| byte == b'\n') {
            self.line.add(piece);
            if piece.ends_with(b"\n") {
                mem::take(&mut self.line).finish(&mut self.ready);
            }
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for MessageLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let lines = &mut *self;
        while lines.taken == lines.ready.len() && !lines.has_ended {
            lines.ready.clear();
            lines.taken = 0;
            let mut chunk = ReadBuf::new(&mut lines.chunk);
            ready!(Pin::new(&mut lines.output).poll_read(context, &mut chunk))?;
            let length = chunk.filled().len();
            if length == 0 {
                // A program may end without a line break after its last message.
                lines.has_ended = true;
                mem::take(&mut lines.line).finish(&mut lines.ready);
            } else {
                lines.add(length);
            }
        }
        let rest = &lines.ready[lines.taken..];
        let length = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..length]);
        lines.taken += length;
        Poll::Ready(Ok(()))
    }
}

// === impl Line ===

impl Line {
    fn add(&mut self, piece: &[u8]) {
        let more = piece.len().min(DEFAULT_MAX_LINE_LENGTH - self.head.len());
        self.head.extend_from_slice(&piece[..more]);
        let rest = &piece[more..];
        self.tail.extend_from_slice(&rest[rest.len().saturating_sub(KEPT_TAIL)..]);
        self.tail.drain(..self.tail.len().saturating_sub(KEPT_TAIL));
    }

    /// Adds the messages of the line to those for the library.
    fn finish(self, ready: &mut Vec<u8>) {
        let mut messages = Vec::<ServerJsonRpcMessage>::new();
        if self.tail.is_empty() {
            messages.extend(read_messages(&self.head, None));
        } else {
            messages.extend(too_large_reply(&self.head, &self.tail));
        }
        if messages.is_empty() && !self.head.trim_ascii().is_empty() {
            tracing::debug!(length = self.head.len(), "a line of an MCP server is no message and is ignored");
        }
        for message in messages {
            if serde_json::to_writer(&mut *ready, &message).is_ok() {
                ready.push(b'\n');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::io::AsyncReadExt;

    use super::*;

    /// Reads an output that comes in pieces of this size, and returns the lines for the library.
    async fn lines(output: &str, size: usize) -> Vec<Value> {
        let pieces = output.as_bytes().chunks(size).map(|piece| Ok::<_, io::Error>(piece.to_vec()));
        let pieces: Vec<_> = pieces.map(|piece| piece.map(io::Cursor::new)).collect();
        let reader = tokio_util::io::StreamReader::new(futures::stream::iter(pieces));
        let mut read = String::new();
        MessageLines::new(reader).read_to_string(&mut read).await.unwrap();
        read.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[tokio::test]
    async fn the_same_messages_come_however_the_output_is_cut() {
        let reply = |id: u64, text: &str| json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}});
        let output = format!(
            "starting\n{}\n[INFO] {}\r\n\n{}\n{{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":\n{}",
            reply(1, "ä🦀"),
            reply(2, "b"),
            reply(3, "half").to_string().replace("half", r"half \ud83d"),
            reply(5, "without a line break"),
        );
        let whole = lines(&output, output.len()).await;
        let ids: Vec<&Value> = whole.iter().map(|message| &message["id"]).collect();
        assert_eq!(ids, [1, 2, 3, 4, 5]);
        assert!(whole[3]["error"].is_object(), "{}", whole[3]);
        for size in 1..output.len() {
            assert_eq!(lines(&output, size).await, whole, "pieces of {size} bytes");
        }
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_an_error_of_its_request() {
        let much = "x".repeat(DEFAULT_MAX_LINE_LENGTH);
        let output = format!(
            "{much}\n{}\n{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{{}}}}\n",
            json!({"result": {"text": much}, "id": 1})
        );
        let read = lines(&output, CHUNK).await;
        assert_eq!((read.len(), &read[0]["id"], &read[1]["id"]), (2, &json!(1), &json!(2)));
        assert!(read[0]["error"].is_object() && read[1]["result"].is_object());
    }
}
