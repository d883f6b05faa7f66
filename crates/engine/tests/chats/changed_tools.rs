//! A tool that changes while its call waits, in a stream that is held, in a run that was let go, and in another process.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use fermata_engine::{AnswerError, Rules, SubmitError};
use fermata_protocol::{Answer, AnswerTarget, ApprovalId, JsonText};
use fermata_tools::{
    ApprovalTerms, CallContext, Decider, Decision, DecisionChannel, Rule, RulePolicy, RunBy, Tool, ToolError,
    ToolSpec,
};
use serde_json::{Value, json};

use crate::world::{World, always, calls, decision, text};

/// A tool that says something of itself, and notes the words of each run.
struct Pay {
    description: &'static str,
    ran: Arc<Mutex<Vec<&'static str>>>,
}

#[async_trait]
impl Tool for Pay {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "pay".into(),
            title: None,
            description: self.description.into(),
            input_schema: json!({"type": "object"}).into(),
            run_by: RunBy::Mcp,
            server: Some("bank".into()),
            policy: Decision::Ask,
            resource: None,
            timeout: None,
            repeatable: false,
            annotations: None,
        }
    }

    async fn call(&self, _: JsonText, _: CallContext) -> Result<Value, ToolError> {
        self.ran.lock().expect("the notes").push(self.description);
        Ok(json!("paid"))
    }
}

type Ran = Arc<Mutex<Vec<&'static str>>>;

fn offer(world: &World, ran: &Ran, description: &'static str) {
    world.engine.set_tools(vec![Arc::new(Pay { description, ran: ran.clone() })]);
}

/// Approves the question about the call that waits.
async fn approve_newest(world: &World) {
    let run = world.open_run().expect("an open run");
    let request = run.calls[0].approval_request.clone().expect("a request");
    let of = AnswerTarget::Approval(request.id);
    world.answer(Answer { of, ..decision("", true) }).await.expect("an answer");
}

#[tokio::test(start_paused = true)]
async fn a_changed_tool_runs_only_after_it_was_shown() {
    for (hold, restarts) in [(60, false), (0, false), (60, true)] {
        let mut world = World::new();
        let ran = Ran::default();
        offer(&world, &ran, "Pays once.");
        world.script([calls(&[("pay", json!({}))]), text("Done.")]);
        let mut stream = world.post_text_with_hold("go", Some(hold)).await;
        let call = stream.read_until("tool-approval-request").await;
        let shown = ApprovalId::new(stream.find("tool-approval-request")["approvalId"].as_str().unwrap());
        if restarts {
            world = world.restarted();
        } else if hold == 0 {
            stream.read_to_end().await;
        }
        offer(&world, &ran, "Pays ten times.");
        for answer in [
            decision(&call, true),
            decision(&call, true),
            Answer { of: AnswerTarget::Approval(shown), ..decision("", true) },
        ] {
            let (owner, chat) = (&world.owner, &world.chat);
            let refused = world
                .engine
                .answer(Decider::new(owner.clone(), DecisionChannel::Api, None), chat, vec![answer])
                .await;
            assert!(matches!(refused, Err(AnswerError::ToolChanged(_))), "{refused:?}");
        }
        assert!(ran.lock().unwrap().is_empty());
        assert_eq!(world.pending().await, [format!("{call} awaiting_approval")]);
        if hold > 0 && !restarts {
            assert_eq!(stream.read_until("tool-approval-request").await, call, "the stream shows it again");
        }
        approve_newest(&world).await;
        if let Some(mut stream) = world.follow().await {
            stream.read_to_end().await;
        }
        assert_eq!(*ran.lock().unwrap(), ["Pays ten times."]);
        assert_eq!(world.model_calls(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn always_that_comes_after_the_change_allows_nothing() {
    for hold in [0, 60] {
        let world = World::new();
        let ran = Ran::default();
        offer(&world, &ran, "Pays once.");
        world.script([calls(&[("pay", json!({}))]), text("Done.")]);
        let mut stream = world.post_text_with_hold("go", Some(hold)).await;
        let call = stream.read_until("tool-approval-request").await;
        offer(&world, &ran, "Pays ten times.");
        let refused = world.answer(always(&call)).await.unwrap_err();
        assert!(refused.contains("pay has changed"), "{refused}");
        assert_eq!(world.engine.grants(&world.owner, &world.chat).await.unwrap(), []);
        world.answer(decision(&call, false)).await.unwrap();
        assert!(ran.lock().unwrap().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn words_do_not_approve_a_tool_that_has_changed() {
    let world = World::new();
    let rule = Rule {
        terms: ApprovalTerms { words: Some(true), ..ApprovalTerms::default() },
        ..Rule::of_every_call(Decision::Ask)
    };
    let policy = RulePolicy { rules: vec![rule], ..RulePolicy::default() };
    world.engine.set_rules(Rules { policy: Arc::new(policy), ..Rules::default() });
    let ran = Ran::default();
    offer(&world, &ran, "Pays once.");
    world.script([calls(&[("pay", json!({}))]), text("Done.")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-approval-request").await;
    offer(&world, &ran, "Pays ten times.");
    let decides = world.waiting_approvals().await;
    let body = json!({
        "id": world.chat.as_str(),
        "message": { "role": "user", "content": "yes" },
        "fermata": { "decides": decides },
    });
    let refused = world.try_post(body, None).await.map(|_| ());
    assert!(matches!(refused, Err(SubmitError::ToolChanged(_))), "{refused:?}");
    assert_eq!(stream.read_until("tool-approval-request").await, call, "its own stream shows it again");
    assert_eq!(world.pending().await, [format!("{call} awaiting_approval")]);
    assert!(ran.lock().unwrap().is_empty());
}
