//! The audit: the end of each call that needed a person, for any reason, and the events of a chat as a whole.

use std::time::Duration;

use fermata_engine::store::in_memory::AuditRecord;
use fermata_tools::{AuditAction, Decider, DecisionChannel, Owner};
use serde_json::json;
use tokio::time::sleep;

use crate::world::{World, calls, decision, output, text};

fn records(world: &World) -> Vec<AuditRecord> {
    world.store.store.audit()
}

fn actions(world: &World) -> Vec<AuditAction> {
    records(world).iter().map(|record| record.entry.event.action).collect()
}

/// Starts a call of a tool, and returns its id.
async fn calling(world: &World, tool: &str, input: serde_json::Value) -> String {
    world.script([calls(&[(tool, input)])]);
    world.post_text_with_hold("go", Some(0)).await.read_until("tool-input-available").await
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_has_a_row_for_what_ends_it() {
    for (tool, first) in [("note", AuditAction::RuleAsked), ("where", AuditAction::RuleAllowed)] {
        let world = World::new();
        calling(&world, tool, json!({})).await;
        world.engine.stop(&world.owner, &world.chat).await.unwrap();
        assert_eq!(actions(&world), [first, AuditAction::Stopped]);
        let last = records(&world).pop().unwrap().entry;
        assert_eq!(last.event.principal, Some(world.owner.clone()));
        assert_eq!((last.event.tool.as_str(), last.event.input_hash.is_some()), (tool, true));

        let world = World::new();
        calling(&world, tool, json!({})).await;
        world.script([text("Never mind.")]);
        world.post_text("never mind").await.read_to_end().await;
        assert_eq!(actions(&world), [first, AuditAction::Superseded]);

        let world = World::new();
        calling(&world, tool, json!({})).await;
        sleep(Duration::from_secs(4000)).await;
        assert_eq!(actions(&world), [first, AuditAction::Expired]);
        assert_eq!(records(&world).pop().unwrap().entry.event.principal, None, "nobody did it");

        let world = World::new();
        calling(&world, tool, json!({})).await;
        world.engine.delete(&world.owner, &world.chat, false).await.unwrap();
        assert_eq!(actions(&world), [first, AuditAction::Stopped, AuditAction::ChatDeleted]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_approved_has_a_row_for_its_start_and_one_for_its_outcome() {
    for (does, outcome, reason) in
        [("", AuditAction::Succeeded, None), ("fails", AuditAction::Failed, Some("internal"))]
    {
        let world = World::new();
        let call = calling(&world, "note", json!({"does": does})).await;
        world.script([text("Done.")]);
        world.answer(decision(&call, true)).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        world.engine.delete(&world.owner, &world.chat, false).await.unwrap();
        let ran = [AuditAction::RuleAsked, AuditAction::Approved, AuditAction::Started, outcome];
        assert_eq!(actions(&world), [&ran[..], &[AuditAction::ChatDeleted]].concat());
        assert_eq!(records(&world)[3].entry.event.reason.as_deref(), reason);
        assert!(records(&world).iter().all(|record| record.entry.chat.as_ref() == Some(&world.chat)));
    }
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_call_that_was_cut_off_is_unknown() {
    let world = World::new();
    let call = calling(&world, "note", json!({"does": "hangs"})).await;
    world.answer(decision(&call, true)).await.unwrap();
    let world = world.restarted();
    world.script([text("It may have run.")]);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(
        actions(&world),
        [AuditAction::RuleAsked, AuditAction::Approved, AuditAction::Started, AuditAction::OutcomeUnknown]
    );
}

#[tokio::test(start_paused = true)]
async fn a_running_call_that_is_deleted_with_its_chat_has_an_end() {
    let world = World::new();
    let call = calling(&world, "note", json!({"does": "hangs"})).await;
    world.answer(decision(&call, true)).await.unwrap();
    world.engine.delete(&world.owner, &world.chat, false).await.unwrap();
    assert_eq!(
        actions(&world),
        [
            AuditAction::RuleAsked,
            AuditAction::Approved,
            AuditAction::Started,
            AuditAction::Stopped,
            AuditAction::ChatDeleted
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_attempts_of_another_user_are_noted_and_bounded() {
    let world = World::new();
    let call = calling(&world, "note", json!({})).await;
    let mallory = Owner::new("mallory");
    let address = Some(std::net::Ipv4Addr::LOCALHOST.into());
    for _ in 0..5 {
        let refused = world
            .engine
            .answer(
                Decider::new(mallory.clone(), DecisionChannel::Api, address),
                &world.chat,
                vec![output(&call, json!("x"))],
            )
            .await;
        assert_eq!(refused.unwrap_err().to_string(), "There is no chat with this id.");
        world.engine.chat(&mallory, &world.chat).await.unwrap_err();
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(actions(&world), [AuditAction::RuleAsked, AuditAction::RefusedToOther]);
    let refused = records(&world).pop().unwrap().entry;
    assert_eq!((refused.owner.as_ref(), refused.chat.as_ref()), (Some(&world.owner), Some(&world.chat)));
    assert_eq!((refused.event.principal, refused.event.address), (Some(mallory.clone()), address));
    assert_eq!(refused.event.call.unwrap().as_str(), call);
    sleep(Duration::from_secs(60)).await;
    world.engine.stop(&mallory, &world.chat).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(actions(&world).len(), 3, "once a minute");
}
