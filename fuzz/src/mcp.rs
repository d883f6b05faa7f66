//! Output and responses of MCP servers.

use std::io;

use fermata_mcp::readers::{message_lines, read_response};
use futures::stream;
use serde_json::Value;
use tokio::{io::AsyncReadExt, runtime::Builder};
use tokio_util::io::StreamReader;

/// The output of a program. The first byte says into how large pieces it is cut.
pub fn mcp_output(data: &[u8]) {
    let Some((&size, output)) = data.split_first() else { return };
    let lines = read_output(output, usize::from(size).max(1));
    for line in lines.lines() {
        let message: Value = serde_json::from_str(line).expect("a message");
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
    }
    assert_eq!(lines, read_output(output, output.len().max(1)), "the pieces do not matter");
}

fn read_output(output: &[u8], size: usize) -> String {
    let pieces = output.chunks(size).map(|piece| Ok::<_, io::Error>(io::Cursor::new(piece.to_vec())));
    let pieces: Vec<_> = pieces.collect();
    let mut lines = Box::pin(message_lines(StreamReader::new(stream::iter(pieces))));
    let mut read = String::new();
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(lines.read_to_string(&mut read)).expect("the output has no errors");
    read
}

/// The body of a response to a request.
pub fn mcp_responses(data: &[u8]) {
    const ID: i64 = 5;
    let messages = read_response(data, ID);
    for message in &messages {
        let is_reply = message.get("method").is_none();
        assert!(!is_reply || message["id"] == ID, "a reply is one to this request: {message}");
        let again = read_response(message.to_string().as_bytes(), ID);
        assert_eq!(again, std::slice::from_ref(message), "a message that was read can be read");
    }
}
