//! The text of events and effects in a transcript. With `UPDATE_EXPECT=1` the tests write the transcripts that they see into the sources.

use std::fmt::Write;

use fermata_protocol::{Answer, AnswerKind, AnswerTarget, ToolCallId, UiChunk};

use super::super::{
    Effects, Next,
    effects::{AfterCommit, BeforeCommit},
};

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
                if always.is_some() { " always" } else { "" }
            )
        }
    }
}

/// Prints effects, and what waits for an answer since then or does not any more.
pub(super) fn print(effects: &Effects, before: &[AnswerTarget], after: &[AnswerTarget], out: &mut String) {
    let ended: Vec<_> = before.iter().filter(|target| !after.contains(target)).map(name).collect();
    let begun: Vec<_> = after.iter().filter(|target| !before.contains(target)).map(name).collect();
    // Nothing is left out with `..`, so that no new effect is missing from transcripts.
    let Effects { before, commit, after } = effects;
    let BeforeCommit { checks: _, admissions } = before;
    let AfterCommit { cancel, execute, publish, replies, next, may_retry: _, elicited: _ } = after;
    let ids = |calls: &[ToolCallId]| calls.iter().map(ToolCallId::to_string).collect::<Vec<_>>();
    if !commit.is_empty() {
        out.push_str("save\n");
    }
    for (call, key) in admissions {
        if let Some(key) = key {
            writeln!(out, "queue {call} for {}", key.name).unwrap();
        }
    }
    for (verb, ids) in
        [("release", ended), ("cancel", ids(cancel)), ("park", begun), ("execute", ids(execute))]
    {
        if !ids.is_empty() {
            writeln!(out, "{verb} {}", ids.join(" ")).unwrap();
        }
    }
    for (_, chunk) in publish {
        writeln!(out, "{}", line(chunk)).unwrap();
    }
    for (id, reply) in replies {
        writeln!(out, "reply {id} {reply:?}").unwrap();
    }
    match next {
        Next::Nothing => {}
        Next::AskModel => out.push_str("ask\n"),
        Next::Close(ending) => writeln!(out, "over: {}", ending.name()).unwrap(),
    }
}

fn name(target: &AnswerTarget) -> String {
    match target {
        AnswerTarget::Call(id) => id.to_string(),
        AnswerTarget::Elicitation(id) => id.to_string(),
        AnswerTarget::Approval(id) => id.to_string(),
    }
}

pub(super) fn line(chunk: &UiChunk) -> String {
    let value = serde_json::to_value(chunk).unwrap();
    let field = |name: &str| {
        value.get(name).map(|v| format!(" {}", v.as_str().map_or_else(|| v.to_string(), str::to_owned)))
    };
    let fields =
        ["toolCallId", "approved", "input", "output", "errorText", "delta", "inputTextDelta", "finishReason"];
    if let UiChunk::MessageMetadata { message_metadata } = chunk {
        return format!("message-metadata {}", message_metadata["calls"]);
    }
    let state = value["data"]["state"].as_str().map(|state| format!(" {state}")).unwrap_or_default();
    format!(
        "{}{}{state}",
        value["type"].as_str().unwrap(),
        fields.iter().filter_map(|name| field(name)).collect::<String>()
    )
}
