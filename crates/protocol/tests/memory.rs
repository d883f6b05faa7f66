//! The memory that reading a body takes. One test, because the allocator counts for the whole process.

use fermata_protocol::{BodyError, ChatBody, NODE_BYTES, Posted, ToolResultBody, measure};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// What a body of a chat begins with, and ends with, around something that is repeated.
const PLACES: [(&str, &str); 6] = [
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

fn repeated(what: &str, bytes: usize) -> String {
    let mut text = vec![what; bytes / (what.len() + 1)].join(",");
    text.shrink_to_fit();
    text
}

/// How much more was in use while it was read than before.
fn peak<T: Posted>(json: &str) -> (usize, Result<T, BodyError>) {
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let read = T::from_json(json.as_bytes());
    (ALLOCATOR.peak_usage() - before, read)
}

#[test]
fn reading_a_body_takes_memory_for_what_is_read_and_no_more_than_was_counted() {
    for what in REPEATED {
        let ignored = repeated(what, 1_000_000);
        let chat = format!("{{\"zzz\":[{ignored}],\"messages\":[{{\"role\":\"user\",\"content\":\"hi\"}}]}}");
        let (most, read) = peak::<ChatBody>(&chat);
        assert!(read.is_ok() && most < 10_000, "{what} in an ignored field of a chat takes {most} bytes");
        let answer = format!("{{\"chatId\":\"c\",\"toolCallId\":\"a\",\"output\":1,\"zzz\":[{ignored}]}}");
        let (most, read) = peak::<ToolResultBody>(&answer);
        assert!(read.is_ok() && most < 10_000, "{what} in an ignored field of an answer takes {most} bytes");
        for (before, after) in PLACES {
            let body = format!("{before}{}{after}", repeated(what, 100_000));
            let nodes = measure(body.as_bytes()).nodes;
            let (most, read) = peak::<ChatBody>(&body);
            drop(read);
            assert!(most <= nodes * NODE_BYTES, "{what} after {before} takes {} bytes a value", most / nodes);
        }
    }
}
