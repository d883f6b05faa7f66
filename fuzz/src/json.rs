//! Bodies, messages, schemas and arguments: JSON from clients, and from models that are not done with it.

use fermata_protocol::{
    Assembler, ChatBody, MessageId, PostedTool, Profile, Role, ToolCallId, ToolResultBody, UiChunk,
    UiMessage, UiPart, replay,
};
use fermata_tools::{Check, Checker, PostedLimits, Toolbox};
use serde_json::Value;

/// An error repeats a few words of what was sent, and not all of it.
const LONGEST_ERROR: usize = 2_000;
/// Deltas are read anew with each piece, so a long text would test patience and nothing else.
const LONGEST_ARGUMENTS: usize = 1_000;
const LIMITS: PostedLimits = PostedLimits { bytes: 1_000_000, patterns: 200 };

/// Both bodies that clients post.
pub fn request_bodies(data: &[u8]) {
    let Ok(body) = serde_json::from_slice::<Value>(data) else { return };
    if let Err(error) = ToolResultBody::parse(body.clone()) {
        assert!(error.0.len() < LONGEST_ERROR, "{error}");
    }
    match ChatBody::parse(body) {
        Err(error) => assert!(error.0.len() < LONGEST_ERROR, "{error}"),
        Ok(body) => {
            let text = serde_json::to_string(&body).expect("a body is JSON");
            let again: ChatBody = serde_json::from_str(&text).expect("instances read each other's bodies");
            assert_eq!(serde_json::to_string(&again).expect("a body is JSON"), text);
            // A page's tools are the dearest that a body can bring.
            let _ = Toolbox::default().with_browser_tools(&body.tools, LIMITS);
        }
    }
}

/// A message as it is kept, shown to each version, and told again as a stream.
pub fn messages(data: &[u8]) {
    let Ok(message) = serde_json::from_slice::<UiMessage>(data) else { return };
    let text = serde_json::to_string(&message).expect("a message is JSON");
    let again: UiMessage = serde_json::from_str(&text).expect("what was kept can be read");
    assert_eq!(serde_json::to_string(&again).expect("a message is JSON"), text);
    for profile in [Profile::V5, Profile::V6, Profile::V7] {
        let shown = profile.message(&message);
        serde_json::to_string(&shown).expect("a message is JSON");
    }
    if message.role != Role::Assistant {
        return;
    }
    let mut assembler = Assembler::new(message.id.clone());
    for chunk in replay(&message, 0) {
        let record = UiChunk::from_record(&chunk.to_record()).expect("what was kept can be read");
        assert_eq!(record, chunk);
        if assembler.apply(&chunk).is_err() {
            // A history that a page made up may have parts that no stream could tell, such as two calls with one id.
            return;
        }
    }
}

/// A schema, then, behind a line that is a zero byte, an input for it.
pub fn schemas(data: &[u8]) {
    let cut = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let Ok(schema) = serde_json::from_slice::<Value>(&data[..cut]) else { return };
    let input: Value =
        data.get(cut + 1..).and_then(|rest| serde_json::from_slice(rest).ok()).unwrap_or_default();
    let tool = PostedTool { name: "t".into(), description: None, input_schema: schema.clone() };
    let checker = Checker::new();
    let _ = Toolbox::default().with_browser_tools(std::slice::from_ref(&tool), LIMITS);
    // The schemas of tools that were saved with a run are not looked at again.
    let toolbox = Toolbox::default().with_saved_tools(&[tool]);
    let Some(found) = toolbox.find("t") else { return };
    for check in [found.check_of(input.clone()), Check::of_elicitation(schema, input)] {
        if let Err(fault) = checker.check_here(&check) {
            assert!(fault.text.len() < LONGEST_ERROR, "{fault}");
        }
    }
}

/// Arguments as they come from a model, cut anywhere.
pub fn partial_json(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let text: String = text.chars().take(LONGEST_ARGUMENTS).collect();
    let call = ToolCallId::new("c");
    let mut assembler = Assembler::new(MessageId::new("m"));
    let start = r#"{"type":"tool-input-start","toolCallId":"c","toolName":"t"}"#;
    for record in [r#"{"type":"start-step"}"#, start] {
        let chunk = UiChunk::from_record(record).expect("this is a chunk");
        assembler.apply(&chunk).expect("a call begins");
    }
    for piece in text.chars() {
        let delta =
            UiChunk::ToolInputDelta { tool_call_id: call.clone(), input_text_delta: piece.to_string() };
        assembler.apply(&delta).expect("a call grows");
        assembler.snapshot();
    }
    let Ok(whole) = serde_json::from_str::<Value>(&text) else { return };
    let message = assembler.snapshot();
    let input = message.parts.iter().filter_map(UiPart::as_tool).find_map(|part| part.state.input().cloned());
    assert_eq!(input, Some(whole.into()), "arguments that are complete are what they say");
}
