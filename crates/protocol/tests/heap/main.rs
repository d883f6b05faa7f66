//! Measures the heap that reading a body takes. There is only one test, because the allocator counts for the whole process.

use fermata_protocol::{BodyError, ChatBody, NODE_BYTES, Posted, ToolResultBody, measure};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The beginning and the end of chat bodies, around values that are repeated.
const BODIES: [(&str, &str); 6] = [
    ("{\"messages\":[{\"role\":\"user\",\"content\":\"hi\",\"metadata\":[", "]}]}"),
    ("{\"messages\":[{\"role\":\"user\",\"parts\":[{\"type\":\"data-x\",\"data\":[", "]}]}]}"),
    ("{\"messages\":[{\"role\":\"user\",\"parts\":[{\"type\":\"unknown\",\"x\":[", "]}]}]}"),
    (
        "{\"messages\":[{\"role\":\"assistant\",\"parts\":[{\"type\":\"tool-x\",\"toolCallId\":\"c\",\"state\":\"output-available\",\"output\":[",
        "]}]}]}",
    ),
    (
        "{\"tools\":{\"t\":{\"parameters\":{\"enum\":[",
        "]}}},\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
    ),
    ("{\"callSettings\":{\"stopSequences\":[", "]},\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"),
];
const REPEATED: [&str; 5] = ["[]", "{\"\":0}", "0", "\"\"", "[[{}]]"];

fn repeated(value: &str, bytes: usize) -> String {
    let mut text = vec![value; bytes / (value.len() + 1)].join(",");
    text.shrink_to_fit();
    text
}

/// Returns the most memory that was in use while the body was read, in bytes more than before, and the body.
fn peak<T: Posted>(json: &str) -> (usize, Result<T, BodyError>) {
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let read = T::from_json(json.as_bytes());
    (ALLOCATOR.peak_usage() - before, read)
}

#[test]
fn reading_a_body_takes_memory_for_what_is_read_and_no_more_than_was_counted() {
    for value in REPEATED {
        let ignored = repeated(value, 1_000_000);
        let chat = format!("{{\"zzz\":[{ignored}],\"messages\":[{{\"role\":\"user\",\"content\":\"hi\"}}]}}");
        let (most, read) = peak::<ChatBody>(&chat);
        assert!(read.is_ok() && most < 10_000, "{value} in an ignored field of a chat takes {most} bytes");
        let answer = format!("{{\"chatId\":\"c\",\"toolCallId\":\"a\",\"output\":1,\"zzz\":[{ignored}]}}");
        let (most, read) = peak::<ToolResultBody>(&answer);
        assert!(read.is_ok() && most < 10_000, "{value} in an ignored field of an answer takes {most} bytes");
        for (before, after) in BODIES {
            let body = format!("{before}{}{after}", repeated(value, 100_000));
            let nodes = measure(body.as_bytes()).nodes;
            let (most, read) = peak::<ChatBody>(&body);
            drop(read);
            assert!(
                most <= nodes * NODE_BYTES,
                "{value} after {before} takes {} bytes a value",
                most / nodes
            );
        }
    }
}
