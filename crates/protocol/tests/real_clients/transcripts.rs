//! Transcripts of runs with every chunk, in every order that makes a difference to clients.

mod approvals;
mod broken_inputs;

use std::sync::LazyLock;

use fermata_protocol::{Profile, UiChunk};
use serde_json::{Value, json};

/// The log of a run.
pub struct Transcript {
    pub name: &'static str,
    /// The profiles whose clients can read the transcript.
    pub profiles: &'static [Profile],
    pub events: Vec<Event>,
    /// The errors that a client must report, which are the texts of `error` chunks.
    pub errors: &'static [&'static str],
}

pub enum Event {
    Chunk(Box<UiChunk>),
    /// A decision, which clients are not sent.
    Decide {
        approval: String,
        approved: bool,
        reason: Option<String>,
    },
}

/// The major versions, and releases that know more than those before them.
static ALL: LazyLock<Vec<Profile>> = LazyLock::new(|| {
    ["5", "5.0.277", "6", "6.0.326", "7", "7.0.70", "7.0.82", "7.0.149", "7.0.173"]
        .into_iter()
        .map(release)
        .collect()
});
static NEWEST: LazyLock<Vec<Profile>> =
    LazyLock::new(|| ALL.iter().copied().filter(|profile| profile.major() == 7).collect());

static INTERRUPTIBLE: LazyLock<Vec<Profile>> =
    LazyLock::new(|| ["7.0.149", "7.0.173"].into_iter().map(release).collect());

fn release(version: &str) -> Profile {
    Profile::of_version(version).unwrap()
}

fn transcript(name: &'static str, chunks: Vec<Value>) -> Transcript {
    let framed = [vec![json!({"type": "start", "messageId": "m1"})], chunks, vec![finish()]].concat();
    Transcript { name, profiles: &ALL, events: framed.iter().map(event).collect(), errors: &[] }
}

/// The last chunk. It has metadata, as in every run, because a client would not show an empty last step otherwise.
fn finish() -> Value {
    json!({"type": "finish", "messageMetadata": {"model": "m"}})
}

fn event(value: &Value) -> Event {
    if let Some([approval, approved, reason]) =
        value.get("decide").and_then(Value::as_array).map(Vec::as_slice)
    {
        return Event::Decide {
            approval: approval.as_str().unwrap().to_owned(),
            approved: approved.as_bool().unwrap(),
            reason: reason.as_str().map(str::to_owned),
        };
    }
    let chunk = UiChunk::from_record(&value.to_string());
    Event::Chunk(Box::new(chunk.unwrap_or_else(|error| panic!("{value} is no chunk: {error}"))))
}

fn step(chunks: Vec<Value>) -> Vec<Value> {
    [vec![json!({"type": "start-step"})], chunks, vec![json!({"type": "finish-step"})]].concat()
}

fn says(id: &str, text: &str) -> Vec<Value> {
    vec![
        json!({"type": "text-start", "id": id}),
        json!({"type": "text-delta", "id": id, "delta": text}),
        json!({"type": "text-end", "id": id}),
    ]
}

fn streamed(call: &str, tool: &str, deltas: &[&str]) -> Vec<Value> {
    let mut chunks = vec![json!({"type": "tool-input-start", "toolCallId": call, "toolName": tool})];
    chunks.extend(
        deltas
            .iter()
            .map(|delta| json!({"type": "tool-input-delta", "toolCallId": call, "inputTextDelta": delta})),
    );
    chunks
}

fn streamed_dynamic(call: &str, tool: &str, deltas: &[&str]) -> Vec<Value> {
    let mut chunks = streamed(call, tool, deltas);
    chunks[0]["dynamic"] = json!(true);
    chunks
}

fn available(call: &str, tool: &str, input: Value) -> Value {
    json!({"type": "tool-input-available", "toolCallId": call, "toolName": tool, "input": input})
}

fn available_dynamic(call: &str, tool: &str, input: Value) -> Value {
    json!({"type": "tool-input-available", "toolCallId": call, "toolName": tool, "input": input, "dynamic": true})
}

fn asks(approval: &str, call: &str, tool: &str) -> Value {
    json!({"type": "tool-approval-request", "approvalId": approval, "toolCallId": call, "toolName": tool})
}

fn gives(call: &str, output: Value) -> Value {
    json!({"type": "tool-output-available", "toolCallId": call, "output": output})
}

fn fails(call: &str, text: &str) -> Value {
    json!({"type": "tool-output-error", "toolCallId": call, "errorText": text})
}

fn denies(call: &str, text: &str) -> Value {
    json!({"type": "tool-output-denied", "toolCallId": call, "errorText": text})
}

fn dynamic(mut chunk: Value) -> Value {
    chunk["dynamic"] = json!(true);
    chunk
}

pub fn all() -> Vec<Transcript> {
    [texts(), calls(), approvals::all(), broken_inputs::all(), of_version_7()].into_iter().flatten().collect()
}

fn texts() -> Vec<Transcript> {
    let mut metadata = transcript("metadata is merged to any depth", step(says("t", "hi")));
    metadata.events[0] = event(
        &json!({"type": "start", "messageId": "m1", "messageMetadata": {"a": {"b": 1, "c": [1, 2]}, "d": 1}}),
    );
    metadata.events.insert(
        1,
        event(&json!({"type": "message-metadata", "messageMetadata": {"a": {"c": [3]}, "constructor": 1}})),
    );
    metadata.events.pop();
    metadata.events.push(event(&json!({
        "type": "finish", "finishReason": "length", "messageMetadata": {"a": {"e": null}, "d": {"f": true}},
    })));
    // Other clients receive an error instead.
    let mut interrupted = transcript("an answer that is interrupted", step(says("t", "hi")));
    interrupted.profiles = &INTERRUPTIBLE;
    interrupted.events.pop();
    interrupted.events.push(event(&json!({"type": "finish", "finishReason": "interrupted"})));
    let mut error = transcript("an error keeps what came", step(says("t", "hi")));
    error.events.pop();
    error.events.push(event(&json!({"type": "error", "errorText": "The model failed."})));
    error.errors = &["The model failed."];
    vec![
        transcript("text and reasoning", [
            step(vec![
                json!({"type": "reasoning-start", "id": "r", "providerMetadata": {"p": {"a": 1}}}),
                json!({"type": "reasoning-delta", "id": "r", "delta": "hm "}),
                json!({"type": "reasoning-delta", "id": "r", "delta": "…\n\u{2028}😀", "providerMetadata": {"p": {"a": 2}}}),
                json!({"type": "reasoning-end", "id": "r", "providerMetadata": {"p": {"signature": "s"}}}),
                json!({"type": "text-start", "id": "r", "providerMetadata": {"p": {}}}),
                json!({"type": "text-delta", "id": "r", "delta": ""}),
                json!({"type": "text-delta", "id": "r", "delta": "data: [DONE]\n\n"}),
                json!({"type": "text-end", "id": "r", "citations": [{
                    "source": {"type": "source", "sourceType": "url", "id": "s", "url": "https://x.test", "title": "X"},
                    "startIndex": 0, "endIndex": 1, "citedText": "x",
                }]}),
            ]),
            step(says("r", "again")),
        ]
        .concat()),
        transcript("two texts at a time", step(vec![
            json!({"type": "text-start", "id": "a"}),
            json!({"type": "text-start", "id": "b"}),
            json!({"type": "text-delta", "id": "a", "delta": "A"}),
            json!({"type": "text-delta", "id": "b", "delta": "B"}),
            json!({"type": "text-end", "id": "a"}),
            json!({"type": "text-delta", "id": "b", "delta": "B", "providerMetadata": {"p": {"n": 1}}}),
            json!({"type": "text-end", "id": "b"}),
        ])),
        transcript("files and sources", step(vec![
            json!({"type": "file", "url": "data:text/plain,x", "mediaType": "text/plain", "providerMetadata": {"p": {}}}),
            json!({"type": "file", "url": "https://x.test/a.png", "mediaType": "image/png"}),
            json!({"type": "source-url", "sourceId": "s1", "url": "https://x.test", "title": "X", "providerMetadata": {"p": {}}}),
            json!({"type": "source-url", "sourceId": "s2", "url": "https://y.test"}),
            json!({"type": "source-document", "sourceId": "s3", "mediaType": "text/plain", "title": "D", "filename": "d.txt"}),
        ])),
        transcript("data is replaced by type and id", step(vec![
            json!({"type": "data-a", "id": "1", "data": {"n": 1}}),
            json!({"type": "data-b", "id": "1", "data": {"n": 2}, "transient": false}),
            json!({"type": "data-a", "id": "1", "data": null}),
            json!({"type": "data-a", "data": 3}),
            json!({"type": "data-a", "data": 4}),
            json!({"type": "data-a", "id": "2", "data": 5, "transient": true}),
        ])),
        transcript("parts before any step", says("t", "hi")),
        transcript("an abort and an empty last step", [
            step(says("t", "hi")),
            step(Vec::new()),
            vec![json!({"type": "abort", "reason": "stopped"})],
        ]
        .concat()),
        metadata,
        interrupted,
        error,
    ]
}

fn calls() -> Vec<Transcript> {
    vec![
        transcript("a call in full", [
            step([
                vec![json!({
                    "type": "tool-input-start", "toolCallId": "c", "toolName": "t", "title": "T", "toolMetadata": {"k": 1},
                    "providerMetadata": {"p": {"a": 0}},
                })],
                streamed("d", "u", &["{\"x\"", ":[1,", "2]}"]),
                vec![
                    json!({"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "{}"}),
                    json!({
                        "type": "tool-input-available", "toolCallId": "c", "toolName": "t", "input": {"a": 1}, "title": "T2",
                        "toolMetadata": {"k": 2}, "providerMetadata": {"p": {"a": 1}},
                    }),
                    available("d", "u", json!({"x": [1, 2]})),
                    json!({"type": "tool-output-available", "toolCallId": "c", "output": {"progress": 1}, "preliminary": true}),
                    json!({
                        "type": "tool-output-available", "toolCallId": "c", "output": {"done": true},
                        "providerMetadata": {"p": {"b": 1}}, "toolMetadata": {"k": 3},
                    }),
                    gives("d", Value::Null),
                ],
            ]
            .concat()),
            step(says("t", "done")),
        ]
        .concat()),
        transcript("a dynamic call in full", [
            step([
                streamed_dynamic("c", "t", &["{\"a\":", "1}"]),
                vec![
                    available_dynamic("c", "t", json!({"a": 1})),
                    dynamic(json!({"type": "tool-output-available", "toolCallId": "c", "output": 1, "preliminary": true})),
                    dynamic(gives("c", json!({"content": []}))),
                    available_dynamic("d", "t", json!({})),
                    dynamic(fails("d", "It failed.")),
                ],
            ]
            .concat()),
            step(says("t", "done")),
        ]
        .concat()),
        transcript("a provider's call", step(vec![
            json!({"type": "tool-input-available", "toolCallId": "c", "toolName": "t", "input": null, "providerExecuted": true}),
            json!({"type": "tool-output-error", "toolCallId": "c", "errorText": "no", "providerExecuted": true}),
        ])),
        transcript("a call fails", step(vec![available("c", "t", json!({"a": 1})), fails("c", "It failed.")])),
        transcript("a refused input", step([
            vec![json!({"type": "tool-input-error", "toolCallId": "a", "toolName": "t", "input": "{bad", "errorText": "e"})],
            vec![dynamic(json!({"type": "tool-input-error", "toolCallId": "b", "toolName": "t", "input": {"x": 1}, "errorText": "e"}))],
            streamed("c", "t", &["{bad"]),
            vec![json!({
                "type": "tool-input-error", "toolCallId": "c", "toolName": "t", "input": "{bad", "errorText": "e", "title": "T",
                "providerMetadata": {"p": {}}, "toolMetadata": {},
            })],
            streamed_dynamic("d", "t", &["[1"]),
            vec![dynamic(json!({"type": "tool-input-error", "toolCallId": "d", "toolName": "t", "input": [1], "errorText": "e"}))],
        ]
        .concat())),
        transcript("an edited input", step(vec![
            available("c", "t", json!({"a": 1})),
            available("c", "t", json!({"a": 2})),
            gives("c", json!("ok")),
        ])),
        transcript("an output for a call of an earlier step", [
            step(vec![available("c", "t", json!({})), available_dynamic("d", "t", json!({}))]),
            step(vec![gives("c", json!(1)), dynamic(gives("d", json!(2)))]),
        ]
        .concat()),
        transcript("a call that is settled while its input streams", step([
            streamed("c", "t", &["{\"a\": [1, tr"]),
            vec![fails("c", "Stopped.")],
            streamed_dynamic("d", "t", &["{\"a\": \"x"]),
            vec![dynamic(fails("d", "Stopped."))],
            streamed("e", "t", &["{\"a\": 1"]),
            vec![gives("e", json!(1))],
            streamed("f", "t", &[]),
            vec![fails("f", "Stopped.")],
        ]
        .concat())),
        transcript("calls left open", step([
            vec![available("c", "t", json!({"a": null}))],
            streamed("d", "t", &["{\"a\": 1"]),
            streamed("e", "t", &[]),
            streamed("f", "t", &[""]),
        ]
        .concat())),
    ]
}

fn of_version_7() -> Vec<Transcript> {
    let only = vec![
        json!({"type": "custom", "kind": "openai.compaction", "providerMetadata": {"p": {"id": 1}}}),
        json!({"type": "custom", "kind": "fermata.provider-metadata", "providerMetadata": {"fermata": {"answer": "1"}}}),
        json!({"type": "reasoning-file", "url": "data:image/png;base64,", "mediaType": "image/png"}),
        json!({"type": "steering-message", "id": "s", "parts": [{"type": "text", "text": "and?"}]}),
    ];
    let mut reset = transcript(
        "a step that is taken back",
        [
            step(says("t", "kept")),
            vec![json!({"type": "start-step"})],
            vec![
                json!({"type": "text-start", "id": "x"}),
                json!({"type": "text-delta", "id": "x", "delta": "gone"}),
            ],
            streamed("c", "t", &["{\"a\""]),
            vec![json!({"type": "reset-step"})],
            streamed("c", "t", &["{\"b\""]),
            says("x", "new"),
            vec![json!({"type": "finish-step"})],
        ]
        .concat(),
    );
    reset.profiles = &NEWEST;
    let mut responded = transcript("a decision that clients are sent", step([
        streamed("b", "t", &["{\"x\":"]),
        vec![
            available("a", "t", json!({})),
            asks("p1", "a", "t"),
            asks("p2", "b", "t"),
            json!({"type": "tool-approval-response", "approvalId": "p1", "approved": true, "reason": "yes"}),
            json!({"type": "tool-approval-response", "approvalId": "p2", "approved": false, "providerExecuted": true, "providerMetadata": {"p": {}}}),
            gives("a", json!(1)),
        ],
    ]
    .concat()));
    responded.profiles = &NEWEST;
    let text_input = transcript(
        "an input that is plain text",
        step(vec![
            json!({"type": "tool-input-start", "toolCallId": "c", "toolName": "t", "inputEncoding": "text"}),
            json!({"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "[1, 2"}),
            json!({"type": "tool-input-start", "toolCallId": "d", "toolName": "t", "inputEncoding": "json"}),
            json!({"type": "tool-input-delta", "toolCallId": "d", "inputTextDelta": "[1, 2"}),
        ]),
    );
    vec![
        transcript("parts that only version 7 knows", step([says("t", "hi"), only].concat())),
        reset,
        responded,
        text_input,
    ]
}
