//! Answers to one call that come at the same time.

use fermata_engine::AnswerError;
use fermata_protocol::{AnswerTarget, ToolCallId};
use fermata_tools::{AuditAction, Owner};
use serde_json::json;

use crate::world::{StreamReader, World, calls, decision, edited, output, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_input_that_does_not_fit_is_refused_whatever_else_is_answered_meanwhile() {
    for _ in 0..50 {
        let world = World::new();
        world.script([calls(&[("note", json!({}))]), text("ok")]);
        let mut stream = world.post_text("go").await;
        let call = stream.read_until("tool-approval-request").await;
        let (wrong_kind, invalid) = tokio::join!(
            world.answer(output(&call, json!("not what is asked for"))),
            world.answer(edited(&call, json!("no object"))),
        );
        assert!(wrong_kind.unwrap_err().contains("does not wait for this kind of answer"));
        assert!(invalid.unwrap_err().contains("The edited input does not fit the schema"));
        assert_eq!(world.pending().await.len(), 1, "neither has consumed the call");
        assert_eq!(world.answer(decision(&call, true)).await.unwrap(), "scheduled");
        stream.read_to_end().await;
        assert!(stream.text().ends_with("ok"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_several_answers_at_once_one_is_accepted_and_the_others_are_refused() {
    for _ in 0..50 {
        let world = World::new();
        world.script([calls(&[("where", json!({}))]), text("ok")]);
        let mut stream = world.post_text("go").await;
        let call = stream.read_until("tool-input-available").await;
        let (a, b, c) = tokio::join!(
            world.answer(output(&call, json!(1))),
            world.answer(output(&call, json!(2))),
            world.answer(output(&call, json!(3))),
        );
        let accepted = [&a, &b, &c].iter().filter(|answer| answer.is_ok()).count();
        assert_eq!(accepted, 1, "{a:?} {b:?} {c:?}");
        for refused in [a, b, c].into_iter().filter_map(Result::err) {
            assert!(refused.contains("has another answer already"), "{refused}");
        }
        stream.read_to_end().await;
        assert!(stream.text().ends_with("ok"));
    }
}

/// Reads on until the client's latest news is that the input is edited, or is not.
async fn read_until_edited(stream: &mut StreamReader, is_edited: bool) {
    loop {
        let told = stream.chunks.iter().rfind(|chunk| chunk["type"] == "data-call");
        if told.is_some_and(|told| told["data"]["editing"] == true) == is_edited {
            return;
        }
        assert!(stream.read_more().await, "{}", stream.types());
    }
}

#[tokio::test(start_paused = true)]
async fn other_pages_are_told_that_an_input_is_edited() {
    let world = World::new();
    world.script([calls(&[("note", json!({}))]), text("Done.")]);
    let body = json!({
        "id": world.chat.as_str(),
        "message": {"role": "user", "content": "go"},
        "fermata": {"show": ["call"]},
    });
    let mut stream = world.post(body).await;
    let asked = stream.read_until("tool-approval-request").await;
    let of = AnswerTarget::Call(ToolCallId::new(asked.as_str()));
    let edit = async |is_edited| {
        world.engine.edit_input(&world.owner, &world.chat, of.clone(), is_edited).await.map(|_| ())
    };
    read_until_edited(&mut stream, false).await;
    edit(true).await.unwrap();
    read_until_edited(&mut stream, true).await;
    edit(false).await.unwrap();
    read_until_edited(&mut stream, false).await;
    // The tab is closed, so nobody says that the person has stopped.
    edit(true).await.unwrap();
    read_until_edited(&mut stream, true).await;
    read_until_edited(&mut stream, false).await;
    let saved = world.open_run().unwrap();
    world.answer(decision(&asked, true)).await.unwrap();
    stream.read_to_end().await;
    assert_eq!(
        saved.state["checkpoints"].as_array().unwrap().len(),
        1,
        "what is only shown leaves nothing behind"
    );
    assert!(matches!(edit(true).await, Err(AnswerError::Gone { .. })));
    let nothing = AnswerTarget::Call(ToolCallId::new("nothing"));
    let unknown = world.engine.edit_input(&world.owner, &world.chat, nothing, true).await;
    assert!(matches!(unknown, Err(AnswerError::NotFound(_))));
    let stranger = world.engine.edit_input(&Owner::new("bob"), &world.chat, of, true).await;
    assert!(matches!(stranger, Err(AnswerError::NotFound(_))));
}

#[tokio::test(start_paused = true)]
async fn an_approval_is_taken_back_at_any_instance_while_the_gate_is_closed() {
    for hold in [0, 60] {
        let here = World::first();
        here.script([
            calls(&[("note", json!({"as": "a"})), ("note", json!({"as": "b"}))]),
            text("One of them."),
        ]);
        let mut stream = here.post_text_with_hold("go", Some(hold)).await;
        stream.read_until("tool-approval-request").await;
        let pending = here.pending().await;
        let [first, second] = [0, 1].map(|index| pending[index].split(' ').next().unwrap().to_owned());
        let there = here.another();
        assert_eq!(here.answer(decision(&first, true)).await.unwrap(), "scheduled");
        assert_eq!(there.answer(decision(&first, false)).await.unwrap(), "cancelled");
        assert_eq!(here.answer(decision(&first, false)).await.unwrap(), "cancelled", "the same answer again");
        let refused = there.answer(decision(&first, true)).await.unwrap_err();
        assert!(refused.contains("another answer"), "a denial stays: {refused}");
        there.answer(decision(&second, true)).await.unwrap();
        if let Some(mut stream) = here.follow().await {
            stream.read_to_end().await;
        }
        let late = there.answer(decision(&second, false)).await.unwrap_err();
        assert!(late.contains("another answer"), "{late}");
        assert_eq!(*here.tool_log.lock().unwrap(), ["begins b", "ends b"]);
        let audit = here.store.store.audit();
        let of_first: Vec<_> = audit
            .iter()
            .filter(|record| record.entry.event.call.as_ref().is_some_and(|call| call.as_str() == first))
            .map(|record| record.entry.event.action)
            .collect();
        assert_eq!(of_first, [AuditAction::RuleAsked, AuditAction::Approved, AuditAction::Denied]);
    }
}
