//! A tool's statements about its calls: their words, their details, the need for an approval, and the way they were let through.

use std::sync::Arc;

use fermata_engine::{Pending, Rules};
use fermata_protocol::{Answer, AnswerKind, AnswerTarget, ToolCallId};
use fermata_tools::{ApprovalMode, CallDetails, Decision, Rule, RulePolicy};
use serde_json::{Value, json};

use crate::world::{World, always, calls, decision, text};

fn rules(decision: Decision, approval: ApprovalMode) -> Rules {
    let rule = Rule { reason: Some("the operator wants it".into()), ..Rule::of_every_call(decision) };
    Rules {
        policy: Arc::new(RulePolicy { rules: vec![rule], approval, ..RulePolicy::default() }),
        ..Rules::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_shown_in_the_words_of_its_tool() {
    let world = World::new();
    let input = json!({"described": "Write “milk”", "confirm": "details", "as": "milk"});
    world.script([calls(&[("note", input)]), text("Done.")]);
    let message = json!({"role": "user", "content": "go"});
    let mut stream = world.post(json!({"id": "c", "message": message, "fermata": {"client": 7}})).await;
    let call = stream.read_until("tool-approval-request").await;
    let metadata = json!({"description": "Write “milk”", "details": {"kind": "run", "text": "run \"milk\""}});
    assert_eq!(stream.find("tool-input-available")["toolMetadata"], metadata);
    let pending = world.engine.pending(&world.owner, &world.chat).await.unwrap();
    let Some(Pending::Call(waiting)) = pending.first() else { panic!("{pending:?}") };
    assert_eq!(waiting.presentation.description.as_deref(), Some("Write “milk”"));

    // What a person edits is described again, and a restart forgets none of it.
    let world = world.restarted();
    let mut again = world.follow().await.unwrap();
    let edited = json!({"described": "Write “bread”", "confirm": "details", "as": "bread"});
    let kind =
        AnswerKind::Decision { approved: true, reason: None, always: None, input: Some(edited.into()) };
    world.answer(Answer { of: AnswerTarget::Call(ToolCallId::new(call.as_str())), kind }).await.unwrap();
    again.read_to_end().await;
    let shown: Vec<_> = again
        .chunks
        .iter()
        .filter(|chunk| chunk["type"] == "tool-input-available")
        .map(|chunk| chunk["toolMetadata"]["description"].clone())
        .collect();
    assert_eq!(shown, ["Write “milk”", "Write “bread”"]);
    let message = format!("{:?}", world.messages().await[1].parts);
    assert!(message.contains("Write “bread”") && !message.contains("Write “milk”"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn the_stricter_one_of_the_tool_and_the_rules_decides() {
    let (default, auto) = (ApprovalMode::Default, ApprovalMode::Auto);
    for (says, rules, expected) in [
        // The tool's own default is to be asked about.
        ("", Rules::default(), "asked"),
        ("details", Rules::default(), "asked"),
        ("allow", Rules::default(), "runs"),
        ("ask", Rules::default(), "asked"),
        ("deny", Rules::default(), "refused"),
        ("panics", Rules::default(), "refused"),
        ("allow", rules(Decision::Ask, default), "asked"),
        ("allow", rules(Decision::Deny, default), "denied"),
        ("details", rules(Decision::Allow, default), "runs"),
        ("ask", rules(Decision::Allow, default), "asked"),
        ("ask", rules(Decision::Deny, default), "denied"),
        ("deny", rules(Decision::Allow, default), "refused"),
        ("ask", rules(Decision::Ask, auto), "runs"),
        ("deny", rules(Decision::Allow, auto), "refused"),
    ] {
        let world = World::new();
        world.engine.set_rules(rules);
        world.script([calls(&[("note", json!({"confirm": says}))]), text("Done.")]);
        let mut stream = world.post_text("go").await;
        let endings = [
            ("tool-approval-request", "asked"),
            ("tool-output-denied", "denied"),
            ("tool-output-error", "refused"),
            ("tool-output-available", "runs"),
        ];
        // A call that is asked about ends the stream only with the hold.
        let ending = loop {
            let types = stream.types();
            if let Some((_, ending)) = endings.iter().find(|(chunk, _)| types.contains(chunk)) {
                break *ending;
            }
            assert!(stream.read_more().await, "{says}: {types}");
        };
        assert_eq!(ending, expected, "{says:?}: {}", stream.types());
        if ending == "asked" {
            continue;
        }
        stream.read_to_end().await;
        let has_run = !world.tool_log.lock().unwrap().is_empty();
        assert_eq!(has_run, expected == "runs", "{says}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_always_does_not_answer_for_an_input_that_the_tool_wants_asked_about() {
    let world = World::new();
    let asked = json!({"confirm": "ask"});
    world.script([
        calls(&[("note", json!({})), ("note", asked.clone())]),
        calls(&[("note", json!({}))]),
        calls(&[("note", asked)]),
        text("Done."),
    ]);
    let mut stream = world.post_text("go").await;
    let first = stream.read_until("tool-approval-request").await;
    world.answer(always(&first)).await.unwrap();
    let waiting = world.pending().await;
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    let second = waiting[0].split(' ').next().unwrap().to_owned();
    world.answer(always(&second)).await.unwrap();
    // The next call is covered by the "always", and the one after it is not.
    while world.pending().await.is_empty() {
        assert!(stream.read_more().await, "{}", stream.types());
    }
    assert_eq!(world.model_calls(), 3);
    let third = world.pending().await[0].split(' ').next().unwrap().to_owned();
    world.answer(decision(&third, true)).await.unwrap();
    stream.read_to_end().await;
    assert_eq!(stream.text(), "Done.");
}

#[tokio::test(start_paused = true)]
async fn a_person_cannot_edit_an_input_into_one_that_the_tool_refuses() {
    let world = World::new();
    world.script([calls(&[("note", json!({}))]), text("Done.")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-approval-request").await;
    let input = Some(json!({"confirm": "deny"}));
    let kind =
        AnswerKind::Decision { approved: true, reason: None, always: None, input: input.map(Into::into) };
    let refused = world.answer(Answer { of: AnswerTarget::Call(ToolCallId::new(call.as_str())), kind }).await;
    assert!(refused.unwrap_err().contains("the input asks for it"));
    world.answer(decision(&call, true)).await.unwrap();
    stream.read_to_end().await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_told_how_its_call_was_let_through() {
    let does = json!({"does": "says how it was let through"});
    let world = World::new();
    let note = || calls(&[("note", does.clone())]);
    world.script([calls(&[("run", does.clone())]), note(), note(), note(), text("Done.")]);
    let mut stream = world.post_text("go").await;
    let edited = stream.read_until("tool-approval-request").await;
    let kind = AnswerKind::Decision { approved: true, reason: None, always: None, input: Some(does.into()) };
    world.answer(Answer { of: AnswerTarget::Call(ToolCallId::new(edited.as_str())), kind }).await.unwrap();
    while world.pending().await.is_empty() {
        assert!(stream.read_more().await);
    }
    let second = world.pending().await[0].split(' ').next().unwrap().to_owned();
    world.answer(always(&second)).await.unwrap();
    stream.read_to_end().await;
    let mut log = world.tool_log.lock().unwrap().clone();
    log.retain(|line| !line.contains("begins") && !line.contains("ends"));
    assert_eq!(log, ["Rule ", "Edited ", "Person ", "Always "]);
}

#[tokio::test(start_paused = true)]
async fn a_running_tool_asks_the_rules_about_another_input_of_its_call() {
    let about = |input: Value| ("run", json!({"does": "asks the rules", "about": input}));
    let world = World::new();
    let made =
        calls(&[about(json!({})), about(json!({"confirm": "ask"})), about(json!({"confirm": "deny"}))]);
    world.script([made, text("Done.")]);
    let mut stream = world.post_text("go").await;
    stream.read_to_end().await;
    assert_eq!(stream.text(), "Done.");
    let mut log = world.tool_log.lock().unwrap().clone();
    log.retain(|line| !line.contains("begins") && !line.contains("ends"));
    log.sort();
    assert_eq!(log, ["Allow ", "Ask ", "Deny "]);
}

#[test]
fn the_names_of_details_stay() {
    let edit = CallDetails::Edit { text: "a.txt".into(), before: "a".into(), after: "b".into() };
    assert_eq!(json!(edit), json!({"kind": "edit", "text": "a.txt", "before": "a", "after": "b"}));
    assert_eq!(json!(CallDetails::Send { text: "x".into() }), json!({"kind": "send", "text": "x"}));
    assert_eq!(json!(CallDetails::Info { text: "x".into() }), json!({"kind": "info", "text": "x"}));
}
