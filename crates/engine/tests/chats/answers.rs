//! Answers to one call that come at the same time.

use fermata_protocol::{Answer, AnswerKind, AnswerTarget, ToolCallId};
use serde_json::{Value, json};

use crate::world::{World, calls, decision, output, text};

fn edited(call: &str, input: Value) -> Answer {
    let kind = AnswerKind::Decision { approved: true, reason: None, always: false, input: Some(input) };
    Answer { of: AnswerTarget::Call(ToolCallId::new(call)), kind }
}

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
