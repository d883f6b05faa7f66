//! Compares this crate with the real npm clients: the messages that they make of its bytes must be those that it predicts.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use fermata_protocol::{
    ApprovalId, Assembler, DONE, Frames, MessageId, Profile, RunId, ToolPart, UiChunk, UiMessage, UiPart,
    encode, outcome, replay,
};
use serde_json::{Value, json};

mod transcripts;

use transcripts::{Event, Transcript};

/// One event stream for one client, and the message it should make of it.
struct Case {
    name: String,
    profile: Profile,
    /// The messages that the client shows before the stream.
    shown: Vec<Value>,
    chunks: Vec<UiChunk>,
    expected: Value,
    errors: &'static [&'static str],
}

/// The npm package that folds a profile's chunks: the newest of its major version, because this crate folds as the newest does.
/// Each release's own package tests that the release accepts its chunks.
fn package(profile: Profile) -> &'static str {
    match profile.major() {
        5 => "ai-5.0.277",
        6 => "ai-6.0.326",
        _ => "ai-7.0.173",
    }
}

fn chunks_of(transcript: &Transcript) -> Vec<UiChunk> {
    let chunks = transcript.events.iter().filter_map(|event| match event {
        Event::Chunk(chunk) => Some(UiChunk::clone(chunk)),
        Event::Decide { .. } => None,
    });
    chunks.collect()
}

fn record_of(transcript: &Transcript) -> UiMessage {
    let mut assembler = Assembler::new(MessageId::new("m1"));
    for event in &transcript.events {
        match event {
            Event::Chunk(chunk) => {
                assembler.apply(chunk).unwrap_or_else(|error| panic!("{}: {error}", transcript.name))
            }
            Event::Decide { approval, approved, reason } => {
                let approval = ApprovalId::new(approval.as_str());
                assembler.decide(&approval, *approved, reason.as_deref());
            }
        }
    }
    assembler.snapshot()
}

/// Removes the only difference that is allowed: clients are not sent decisions, so their approvals have no `approved` and no
/// `reason` unless the client made the decision itself.
fn comparable(message: &Value) -> Value {
    let mut message = message.clone();
    for part in message["parts"].as_array_mut().into_iter().flatten() {
        if let Some(approval) = part.get_mut("approval").and_then(Value::as_object_mut) {
            approval.shift_remove("approved");
            approval.shift_remove("reason");
        }
    }
    with_whole_numbers(message)
}

/// Writes whole numbers without a fraction, as JavaScript does.
fn with_whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 1e15) {
            Some(whole) => json!(whole as i64),
            None => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(with_whole_numbers).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (key, with_whole_numbers(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value,
    }
}

fn event_stream(profile: Profile, chunks: &[UiChunk]) -> String {
    let mut bytes = Vec::new();
    for (at, chunk) in chunks.iter().enumerate() {
        let frames: Frames = encode(&RunId::new("run"), at as u64 + 1, chunk);
        bytes.extend_from_slice(&frames.get(profile).unwrap_or_default());
    }
    bytes.extend_from_slice(DONE);
    String::from_utf8(bytes).unwrap()
}

fn npm_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/npm")
}

fn ask_clients(requests: &[Value]) -> Vec<Value> {
    let folder = npm_folder();
    assert!(
        folder.join("node_modules").exists(),
        "the real clients are missing: run `make unit`, or `npm ci` in {}",
        folder.display()
    );
    let mut node = Command::new("node")
        .arg("fold.mjs")
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node is missing: install Node 20 or later to run the real clients");
    node.stdin.take().unwrap().write_all(json!(requests).to_string().as_bytes()).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success(), "fold.mjs failed");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The advice about a difference.
const HELP: &str = "If a client reports that the validation failed, it was sent a chunk or a field that it does not know: see \
    src/profile/chunk.rs. If only a part differs, see src/assemble.rs for what the newest client shows, src/profile/message.rs \
    for what older clients show of it, and src/replay.rs if only a replay differs.";

/// Fails with a list of all differences. Returns the clients' messages.
fn compare(cases: &[Case]) -> Vec<Value> {
    let request = |case: &Case| json!({"client": package(case.profile), "messages": case.shown, "sse": event_stream(case.profile, &case.chunks)});
    let folded = ask_clients(&cases.iter().map(request).collect::<Vec<_>>());
    let mut differences = Vec::new();
    for (case, made) in cases.iter().zip(&folded) {
        let case_name = format!("{} for {:?} in {}", case.name, case.profile, package(case.profile));
        if made["errors"] != json!(case.errors) {
            differences.push(format!("{case_name}: the client reports {}", made["errors"]));
        }
        let (client, server) = (comparable(&made["message"]), comparable(&case.expected));
        for field in ["id", "role", "metadata"] {
            if client.get(field) != server.get(field) {
                differences.push(format!(
                    "{case_name}: {field}\n  client {:?}\n  server {:?}",
                    client.get(field),
                    server.get(field)
                ));
            }
        }
        let (client, server) = (
            client["parts"].as_array().cloned().unwrap_or_default(),
            server["parts"].as_array().cloned().unwrap(),
        );
        for at in 0..client.len().max(server.len()) {
            if client.get(at) != server.get(at) {
                let show = |part: Option<&Value>| part.map_or("nothing".to_owned(), Value::to_string);
                differences.push(format!(
                    "{case_name}: part {at}\n  client {}\n  server {}",
                    show(client.get(at)),
                    show(server.get(at))
                ));
            }
        }
    }
    assert!(
        differences.is_empty(),
        "{} differences:\n{}\n\n{HELP}",
        differences.len(),
        differences.join("\n")
    );
    folded
}

#[test]
fn the_clients_show_what_the_profile_predicts() {
    let mut cases = Vec::new();
    for transcript in transcripts::all() {
        for profile in transcript.profiles {
            cases.push(Case {
                name: transcript.name.to_owned(),
                profile: *profile,
                shown: Vec::new(),
                chunks: chunks_of(&transcript),
                expected: json!(profile.message(&record_of(&transcript))),
                errors: transcript.errors,
            });
        }
    }
    compare(&cases);
}

#[test]
fn a_replay_makes_the_same_message_in_every_client() {
    let mut cases = Vec::new();
    for transcript in transcripts::all() {
        let record = record_of(&transcript);
        for profile in transcript.profiles {
            cases.push(Case {
                name: transcript.name.to_owned(),
                profile: *profile,
                shown: Vec::new(),
                chunks: replay(&record, 0),
                expected: json!(profile.message(&record)),
                errors: &[],
            });
        }
    }
    for (case, made) in cases.iter().zip(compare(&cases)) {
        let has_output =
            |part: &&Value| part["state"] == "output-available" && part.get("preliminary").is_none();
        let done = case.expected["parts"].as_array().unwrap().iter().filter(has_output);
        for part in done.filter(|part| part.get("callProviderMetadata").is_none()) {
            let run = made["toolCalls"].as_array().unwrap();
            assert!(!run.contains(&part["toolCallId"]), "{}: a browser runs {part} again", case.name);
        }
    }
}

#[test]
fn outcomes_and_later_steps_complete_a_page_that_shows_open_calls() {
    let mut cases = Vec::new();
    for transcript in transcripts::all() {
        let record = record_of(&transcript);
        let Some(first) = transcript.events.iter().position(is_outcome) else {
            continue;
        };
        let beginning = Transcript {
            name: transcript.name,
            profiles: transcript.profiles,
            events: transcript.events.into_iter().take(first).collect(),
            errors: &[],
        };
        let shown_before = record_of(&beginning);
        let replayed = replay(&record, 1);
        let shows = |call: &ToolPart| {
            shown_before
                .parts
                .iter()
                .any(|part| part.as_tool().is_some_and(|part| part.tool_call_id == call.tool_call_id))
        };
        let calls = record.parts.iter().filter_map(UiPart::as_tool);
        let outcomes = calls.filter(|call| shows(call)).filter_map(outcome);
        let rest: Vec<UiChunk> =
            replayed[..1].iter().cloned().chain(outcomes).chain(replayed[1..].iter().cloned()).collect();
        for profile in beginning.profiles {
            let before = profile.message(&shown_before);
            let mut assembler = Assembler::from_message(shown_before.clone());
            for chunk in &rest {
                assembler.apply(chunk).unwrap();
            }
            cases.push(Case {
                name: transcript.name.to_owned(),
                profile: *profile,
                shown: vec![json!({"id": "u", "role": "user", "parts": []}), json!(before)],
                chunks: rest.clone(),
                expected: json!(profile.message(&assembler.snapshot())),
                errors: &[],
            });
        }
    }
    compare(&cases);
}

fn is_outcome(event: &Event) -> bool {
    let Event::Chunk(chunk) = event else { return false };
    matches!(
        **chunk,
        UiChunk::ToolOutputAvailable { .. }
            | UiChunk::ToolOutputError { .. }
            | UiChunk::ToolOutputDenied { .. }
    )
}

/// Lists every chunk. A new variant of [`UiChunk`] does not compile until it is in the list.
macro_rules! all_chunks {
    ($($name:ident)+) => {
        const ALL_CHUNKS: &[&str] = &[$(stringify!($name)),+];

        fn name_of(chunk: &UiChunk) -> &'static str {
            match chunk {
                $(UiChunk::$name { .. } => stringify!($name),)+
            }
        }
    };
}

all_chunks! {
    Start StartStep FinishStep ResetStep Finish Abort Error MessageMetadata
    TextStart TextDelta TextEnd ReasoningStart ReasoningDelta ReasoningEnd ReasoningFile
    Custom SourceUrl SourceDocument File SteeringMessage
    ToolInputStart ToolInputDelta ToolInputAvailable ToolInputError
    ToolApprovalRequest ToolApprovalResponse ToolOutputAvailable ToolOutputError ToolOutputDenied
    Data
}

#[test]
fn every_chunk_is_in_a_transcript() {
    let transcripts = transcripts::all();
    let written: Vec<_> = transcripts.iter().flat_map(chunks_of).map(|chunk| name_of(&chunk)).collect();
    for name in ALL_CHUNKS {
        assert!(
            written.contains(name),
            "no transcript has {name}, so no real client has read it: add it to tests/real_clients/transcripts.rs"
        );
    }
}

#[test]
fn the_clients_accept_every_chunk_of_their_profile() {
    let clients = [
        ("5", "ai-5.0.100"),
        ("5.0.277", "ai-5.0.277"),
        ("6", "ai-6.0.0"),
        ("6.0.326", "ai-6.0.326"),
        ("7", "ai-7.0.20"),
        ("7.0.20", "ai-7.0.20"),
        ("7.0.70", "ai-7.0.70"),
        ("7.0.82", "ai-7.0.82"),
        ("7.0.149", "ai-7.0.149"),
        ("7.0.173", "ai-7.0.173"),
    ];
    let transcripts = transcripts::all();
    let requests = clients.map(|(version, client)| {
        let profile = Profile::of_version(version).unwrap();
        let chunks =
            transcripts.iter().flat_map(chunks_of).filter_map(|chunk| Some(json!(profile.chunk(&chunk)?)));
        // A client that calls itself just 7 is sent it because it would otherwise be sent an error.
        let checked = chunks.filter(|chunk| version != "7" || chunk["type"] != "reset-step");
        json!({"client": client, "chunks": checked.collect::<Vec<_>>()})
    });
    for ((version, client), answer) in clients.iter().zip(ask_clients(&requests)) {
        assert_eq!(
            answer["refused"],
            json!([]),
            "{client} refuses these chunks of {version}: src/profile/since.rs must say since when it knows what they have"
        );
    }
}
