//! The text of events and effects in a transcript.

use std::fmt::Write;

use fermata_protocol::{Answer, AnswerKind, AnswerTarget, ToolCallId, UiChunk};

use super::super::{Effects, Next};

pub(super) fn brief(answer: &Answer) -> String {
    let call = match &answer.of {
        AnswerTarget::Call(call) => call.as_str(),
        AnswerTarget::Elicitation(id) => id.as_str(),
        AnswerTarget::Approval(_) => return "by question".into(),
    };
    match &answer.kind {
        AnswerKind::Output { output } => format!("{call} {output}"),
        AnswerKind::Failure { error_text } => format!("{call} failed: {error_text}"),
        AnswerKind::Elicited { action, content } => format!("{call} {action:?} {content:?}"),
        AnswerKind::Decision { approved, always, input, .. } => {
            let edited = input.as_ref().map(|input| format!(" as {input}")).unwrap_or_default();
            format!(
                "{call} {}{}{edited}",
                if *approved { "yes" } else { "no" },
                if *always { " always" } else { "" }
            )
        }
    }
}

pub(super) fn print(effects: &Effects, out: &mut String) {
    let ids = |calls: &[ToolCallId]| calls.iter().map(ToolCallId::as_str).collect::<Vec<_>>().join(" ");
    if !effects.commit.is_empty() {
        out.push_str("save\n");
    }
    for (call, key) in &effects.before.lock_requests {
        writeln!(out, "queue {call} for {}", key.name).unwrap();
    }
    for (verb, calls) in [
        ("release", &effects.after.release),
        ("park", &effects.after.park),
        ("execute", &effects.after.execute),
    ] {
        if !calls.is_empty() {
            writeln!(out, "{verb} {}", ids(calls)).unwrap();
        }
    }
    for (_, chunk) in &effects.after.publish {
        writeln!(out, "{}", line(chunk)).unwrap();
    }
    for (id, reply) in &effects.after.replies {
        writeln!(out, "reply {id} {reply:?}").unwrap();
    }
    match &effects.after.next {
        Next::Nothing => {}
        Next::AskModel => out.push_str("ask\n"),
        Next::Close(ending) => writeln!(out, "over: {}", ending.name()).unwrap(),
    }
}

pub(super) fn line(chunk: &UiChunk) -> String {
    let value = serde_json::to_value(chunk).unwrap();
    let field = |name: &str| {
        value.get(name).map(|v| format!(" {}", v.as_str().map_or_else(|| v.to_string(), str::to_owned)))
    };
    let fields =
        ["toolCallId", "approved", "input", "output", "errorText", "delta", "inputTextDelta", "finishReason"];
    let state = value["data"]["state"].as_str().map(|state| format!(" {state}")).unwrap_or_default();
    format!(
        "{}{}{state}",
        value["type"].as_str().unwrap(),
        fields.iter().filter_map(|name| field(name)).collect::<String>()
    )
}
