//! Several instances on one store: each of them accepts answers and serves streams, and one that has lost its lease does no harm.

use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};

use fermata_engine::{
    AnswerError, PeerTransport, ReadError, Submission, SubmitError, Unavailable, model::ModelEvent,
};
use fermata_protocol::{ChatBody, ChatId, EventId};
use fermata_tools::{AuditAction, Decider, DecisionChannel, Owner};
use futures::FutureExt;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::Instant};

use crate::world::{ModelStep, StreamReader, World, always, calls, decision, finished, output, text};

/// Makes a run that waits for the browser's output at the first of two instances. Returns the call last.
async fn parked() -> (World, World, StreamReader, String) {
    parked_before([text("Bern.")]).await
}

/// As [`parked`], with the model's next steps.
async fn parked_before(rest: impl IntoIterator<Item = ModelStep>) -> (World, World, StreamReader, String) {
    let here = World::first();
    here.script([calls(&[("where", json!({}))])].into_iter().chain(rest));
    let mut stream = here.post_text("where am I?").await;
    let call = stream.read_until("tool-input-available").await;
    let there = here.another();
    (here, there, stream, call)
}

/// Lets this number of seconds pass.
async fn wait(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Returns a first post of a client of this version.
fn first_post(world: &World, client: u8) -> Value {
    let tool = json!({"parameters": {"type": "object"}});
    json!({
        "id": world.chat.as_str(),
        "message": {"role": "user", "content": "go"},
        "tools": {"where": tool},
        "fermata": {"client": client},
    })
}

#[tokio::test(start_paused = true)]
async fn after_an_answer_at_another_instance_the_run_goes_on_in_the_same_stream() {
    let (here, there, mut stream, call) = parked().await;
    assert_eq!(there.pending().await, here.pending().await);
    assert_eq!(there.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    assert!(stream.read_to_end().await.ends_with("text-end finish-step finish") && stream.is_done);
    assert_eq!(there.answer(output(&call, json!("Bern"))).await.unwrap(), "success", "the same answer again");
    let other = there.answer(output(&call, json!("Zug"))).await.unwrap_err();
    assert_eq!(other, here.answer(output(&call, json!("Zug"))).await.unwrap_err());
    assert!(other.contains("another answer"), "{other}");
    assert_eq!(there.messages().await, here.messages().await);
    assert_eq!(here.model_calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_the_same_at_every_instance() {
    let (here, there, _stream, call) = parked().await;
    let refused = there
        .engine
        .answer(
            Decider::new(there.owner.clone(), DecisionChannel::Api, None),
            &there.chat,
            vec![decision(&call, true)],
        )
        .await;
    assert!(matches!(refused, Err(AnswerError::WrongAnswer { .. })), "{refused:?}");
    let unknown = there.answer(output("call_none", json!(1))).await.unwrap_err();
    assert_eq!(unknown, here.answer(output("call_none", json!(1))).await.unwrap_err());
}

#[tokio::test(start_paused = true)]
async fn grants_are_listed_and_revoked_at_another_instance() {
    let here = World::first();
    here.script([calls(&[("note", json!({})), ("where", json!({}))]), text("ok")]);
    let mut stream = here.post_text("go").await;
    let call = stream.read_until("tool-approval-request").await;
    let there = here.another();
    let address = Some("192.0.2.7".parse().unwrap());
    let (owner, chat) = (&there.owner, &there.chat);
    there
        .engine
        .answer(Decider::new(owner.clone(), DecisionChannel::Button, address), chat, vec![always(&call)])
        .await
        .unwrap();
    let granted = there.engine.grants(owner, chat).await.unwrap();
    assert_eq!(granted, here.engine.grants(owner, chat).await.unwrap());
    assert_eq!(granted.iter().map(|grant| grant.tool.as_str()).collect::<Vec<_>>(), ["note"]);
    there.engine.end_grant(owner, chat, address, "note".into(), None, None).await.unwrap();
    assert_eq!(here.engine.grants(owner, chat).await.unwrap(), []);
    let stranger = there.engine.grants(&Owner::new("bob"), chat).await;
    assert!(matches!(stranger, Err(ReadError::NotFound)), "{stranger:?}");
    // Each decision is on record with the address of the client of the other instance, even when the chat is deleted.
    here.engine.delete(owner, chat, false).await.unwrap();
    let audit = here.store.store.audit();
    let by_person: Vec<_> = audit
        .iter()
        .filter(|record| record.entry.event.principal.is_some())
        .map(|record| {
            (
                record.entry.event.action,
                record.entry.event.channel,
                record.entry.event.address,
                record.entry.owner.as_ref() == Some(owner),
            )
        })
        .collect();
    assert_eq!(
        by_person,
        [
            (AuditAction::Approved, Some(DecisionChannel::Button), address, true),
            (AuditAction::Granted, Some(DecisionChannel::Button), address, true),
            (AuditAction::GrantRevoked, None, address, true),
            // The page's call of the open run, and the chat.
            (AuditAction::Stopped, None, None, true),
            (AuditAction::ChatDeleted, None, None, true)
        ]
    );
    assert!(
        audit.iter().any(|record| record.entry.event.action == AuditAction::RuleAsked
            && record.entry.event.address.is_none())
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_is_followed_at_another_instance_from_its_start_and_from_an_event() {
    let (here, there, mut stream, call) = parked().await;
    let mut remote = there.follow().await.unwrap();
    let mut second = there.follow().await.unwrap();
    assert_eq!(remote.read_until("tool-input-available").await, call);
    let event = EventId::parse("run_3:3").unwrap();
    let rest = there.engine.resume(&there.owner, &there.chat, Some(event)).await.unwrap().unwrap();
    assert_eq!(rest.run.as_str(), "run_3", "ids are counted; correct the event above");
    let mut rest = StreamReader::new(rest.reader);
    here.answer(output(&call, json!("Bern"))).await.unwrap();
    let all = stream.read_to_end().await;
    assert_eq!(remote.read_to_end().await, all);
    assert_eq!(second.read_to_end().await, all);
    assert_eq!(remote.chunks, stream.chunks);
    rest.read_to_end().await;
    assert_eq!(rest.chunks, stream.chunks[3..]);
    assert!(remote.is_done && rest.is_done);
    assert!(there.follow().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_run_without_readers_can_be_resumed_by_any_instance() {
    let here = World::first();
    here.script([calls(&[("where", json!({}))])]);
    let model = here.script_streamed();
    let mut stream = here.post_text_with_hold("where am I?", Some(0)).await;
    let call = stream.read_until("tool-input-available").await;
    assert!(stream.read_to_end().await.ends_with("finish-step finish"));
    let there = here.another();
    // The first instance does not own the run any more: it cannot even be reached.
    here.transport.as_ref().unwrap().set_down(true);
    assert_eq!(there.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    let mut rest = there.follow().await.unwrap();
    for event in text("Bern.") {
        model.send(event).unwrap();
    }
    assert!(rest.read_to_end().await.ends_with("finish-step finish"));
    assert!(rest.text().ends_with("Bern."));
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_for_all_readers_wherever_that_is_asked_for() {
    let (_here, there, mut stream, _) = parked().await;
    let mut remote = there.follow().await.unwrap();
    assert!(there.engine.end_hold(&there.owner, &there.chat).await.unwrap());
    for reader in [&mut stream, &mut remote] {
        let types = reader.read_to_end().await;
        assert!(types.ends_with("finish-step finish") && reader.is_done, "{types}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_instances_that_resume_a_run_at_once_agree() {
    let (here, there, _stream, call) = parked().await;
    let third = here.another();
    here.engine.shutdown().await;
    let (one, other) =
        tokio::join!(there.answer(output(&call, json!("Bern"))), third.answer(output(&call, json!("Zug"))));
    let (accepted, refused) = if one.is_ok() { (one, other) } else { (other, one) };
    assert_eq!(accepted.unwrap(), "success");
    assert!(refused.as_ref().is_err_and(|error| error.contains("another answer")), "{refused:?}");
    wait(1).await;
    assert_eq!(there.messages().await, third.messages().await);
    assert_eq!(here.model_calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_comes_second_stops_the_run_where_it_is() {
    let (here, there, _stream, _call) = parked().await;
    let third = here.another();
    here.engine.shutdown().await;
    let (stream, stopped) = tokio::join!(there.follow(), third.engine.stop(&third.owner, &third.chat));
    stopped.unwrap();
    if let Some(mut stream) = stream {
        assert!(stream.read_to_end().await.contains("tool-output-error"));
    }
    assert!(there.pending().await.is_empty() && third.pending().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn two_posts_that_begin_a_chat_at_once_both_count() {
    let here = World::first();
    let there = here.another();
    here.script([text("one"), text("two")]);
    let post = |text: &str| json!({"id": "c", "message": {"id": text, "role": "user", "content": text}});
    let (one, other) = tokio::join!(here.try_post(post("first"), None), there.try_post(post("second"), None));
    for following in [one.unwrap(), other.unwrap()] {
        StreamReader::new(following.reader).read_to_end().await;
    }
    wait(1).await;
    let ids: Vec<_> = here.messages().await.iter().map(|message| message.id.to_string()).collect();
    assert!(ids.contains(&"first".to_owned()) && ids.contains(&"second".to_owned()), "{ids:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_after_the_transport_was_down_reads_all() {
    let (here, there, mut stream, call) = parked().await;
    let mut remote = there.follow().await.unwrap();
    remote.read_until("tool-input-available").await;
    let transport = here.transport.clone().unwrap();
    drop(remote);
    transport.set_down(true);
    wait(3).await;
    transport.set_down(false);
    wait(3).await;
    let mut late = there.follow().await.unwrap();
    assert_eq!(
        late.read_until("tool-input-available").await,
        call,
        "what was replicated before is replicated again"
    );
    here.answer(output(&call, json!("Bern"))).await.unwrap();
    assert_eq!(late.read_to_end().await, stream.read_to_end().await);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_after_others_have_left_reads_all() {
    let (here, there, mut stream, call) = parked().await;
    for pause in [0, 1, 5, 6, 7, 8, 20] {
        let mut remote = there.follow().await.unwrap();
        assert_eq!(remote.read_until("tool-input-available").await, call);
        drop(remote);
        wait(pause).await;
    }
    let mut late = there.follow().await.unwrap();
    here.answer(output(&call, json!("Bern"))).await.unwrap();
    assert_eq!(late.read_to_end().await, stream.read_to_end().await);
}

#[tokio::test(start_paused = true)]
async fn a_new_message_at_another_instance_supersedes_the_run() {
    let (_here, there, mut stream, _call) = parked().await;
    let mut next = there.post_text("never mind").await;
    assert!(stream.read_to_end().await.ends_with("abort"));
    assert!(next.read_to_end().await.ends_with("finish-step finish"), "{}", next.types());
    assert_eq!(next.text(), "Bern.");
}

#[tokio::test(start_paused = true)]
async fn stopping_and_deleting_reach_the_instance_that_owns_the_run() {
    let (_here, there, mut stream, call) = parked().await;
    there.engine.stop(&there.owner, &there.chat).await.unwrap();
    assert!(stream.read_to_end().await.contains("tool-output-error"));
    assert!(there.answer(output(&call, json!(1))).await.unwrap_err().contains("no longer waits"));
    let (here, there, mut stream, _) = parked().await;
    there.engine.delete(&there.owner, &there.chat, false).await.unwrap();
    assert!(stream.read_to_end().await.contains("tool-output-error"));
    assert!(matches!(here.engine.chat(&here.owner, &here.chat).await, Err(ReadError::NotFound)));
}

#[tokio::test(start_paused = true)]
async fn a_late_copy_of_stop_reaches_no_later_run() {
    let (here, there, mut stream, _) = parked_before([calls(&[("where", json!({}))])]).await;
    let transport = here.transport.as_ref().unwrap();
    transport.keep_sent();
    there.engine.stop(&there.owner, &there.chat).await.unwrap();
    stream.read_to_end().await;
    wait(1).await;
    let mut next = here.post_text("and now?").await;
    let call = next.read_until("tool-input-available").await;
    transport.send_again().await.unwrap();
    wait(1).await;
    assert_eq!(here.pending().await, [format!("{call} executing")]);
}

#[tokio::test(start_paused = true)]
async fn who_may_have_been_heard_is_not_told_that_nothing_was_done() {
    let (here, there, mut stream, call) = parked().await;
    let transport = here.transport.clone().unwrap();
    here.store.is_blocked.send_replace(true);
    let (engine, owner, chat) = (there.engine.clone(), there.owner.clone(), there.chat.clone());
    let answers = vec![output(&call, json!("Bern"))];
    let answering = tokio::spawn(async move {
        engine.answer(Decider::new(owner.clone(), DecisionChannel::Api, None), &chat, answers).await
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    // The reply is lost, and then nothing can be reached.
    transport.lose_next(1_000);
    here.store.is_blocked.send_replace(false);
    stream.read_until("tool-output-available").await;
    there.store.fails.store(true, Ordering::SeqCst);
    transport.set_down(true);
    let refused = answering.await.unwrap();
    assert!(matches!(refused, Err(AnswerError::Unavailable(Unavailable::OutcomeUnknown))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_post_whose_reply_is_lost_is_not_refused_for_what_it_has_done_itself() {
    let (here, there, mut stream, _) = parked().await;
    let transport = here.transport.clone().unwrap();
    here.store.is_blocked.send_replace(true);
    let message = json!({"id": "second", "role": "user", "content": "And now?"});
    let posting = there.try_post(json!({"id": there.chat.as_str(), "message": message}), None);
    let losing = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        transport.lose_next(1_000);
        here.store.is_blocked.send_replace(false);
        stream.read_to_end().await;
        wait(1).await;
        assert_eq!((here.messages().await.len(), here.open_run()), (4, None), "the post is answered");
        // Callers learn that messages to them may be lost.
        transport.set_down(true);
        wait(1).await;
        transport.set_down(false);
    };
    let (posted, ()) = tokio::join!(posting, losing);
    let Err(error) = posted else { panic!("the message was posted once and answered twice") };
    assert!(matches!(error, SubmitError::Unavailable(Unavailable::OutcomeUnknown)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn of_a_long_chat_another_instance_gets_the_outline_and_reads_the_messages_itself() {
    let here = World::first();
    here.script([calls(&[("where", json!({}))])]);
    let mut stream = here.post_text(&"x".repeat(2 << 20)).await;
    stream.read_until("tool-input-available").await;
    let there = here.another();
    let pages = there.engine.chat_in_pages(&there.owner, &there.chat).await.unwrap();
    assert!(pages.is_long() && pages.chat.open && pages.chat.messages.is_empty());
    assert_eq!(pages.chat.pending.len(), 1);
    let messages = there.messages().await;
    assert_eq!(messages.len(), 1, "the message that is being written is not among them");
    assert_eq!(messages, here.messages().await);
}

#[tokio::test(start_paused = true)]
async fn a_parked_run_outlives_its_instance_and_its_readers_elsewhere_are_not_disturbed() {
    let (here, there, stream, call) = parked().await;
    let mut remote = there.follow().await.unwrap();
    remote.read_until("tool-input-available").await;
    here.store.kill();
    here.transport.as_ref().unwrap().close(&here.store.joined().unwrap()).await;
    wait(5).await;
    assert!(is_idle(&mut remote), "its stream stays open");
    assert_eq!(there.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    let all = remote.read_to_end().await;
    assert!(
        all.ends_with("text-end finish-step finish") && !all.contains("error") && remote.is_done,
        "{all}"
    );
    assert_eq!(remote.chunks.iter().filter(|chunk| chunk["type"] == "start").count(), 1);
    drop(stream);
}

fn is_idle(stream: &mut StreamReader) -> bool {
    stream.read_to_end().now_or_never().is_none() && !stream.is_done
}

#[tokio::test(start_paused = true)]
async fn a_step_that_was_cut_off_is_requested_again_without_a_request_of_a_client() {
    let here = World::first();
    let model = here.script_streamed();
    let mut stream = here.post(first_post(&here, 7)).await;
    model.send(Ok(ModelEvent::Text("half".into()))).unwrap();
    stream.read_until("text-delta").await;
    let there = here.another();
    let mut remote = there.follow().await.unwrap();
    remote.read_until("text-delta").await;
    there.script([text("whole")]);
    here.store.kill();
    here.transport.as_ref().unwrap().close(&here.store.joined().unwrap()).await;
    let all = remote.read_to_end().await;
    assert_eq!(
        all,
        "start start-step text-start text-delta reset-step text-start text-delta text-end finish-step finish"
    );
    assert_eq!(remote.text(), "halfwhole", "and version 7 resets the step");
    assert_eq!(there.model_calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_client_without_reset_step_has_to_read_the_run_from_its_start() {
    let here = World::first();
    let model = here.script_streamed();
    let mut stream = here.post(first_post(&here, 6)).await;
    model.send(Ok(ModelEvent::Text("half".into()))).unwrap();
    stream.read_until("text-delta").await;
    let there = here.another();
    let mut remote = there.follow().await.unwrap();
    remote.read_until("text-delta").await;
    let again = there.script_streamed();
    here.store.kill();
    here.transport.as_ref().unwrap().close(&here.store.joined().unwrap()).await;
    again.send(Ok(ModelEvent::Text("whole".into()))).unwrap();
    assert!(remote.read_to_end().await.ends_with("text-delta error"));
    let mut fresh = there.follow().await.unwrap();
    again.send(finished()).unwrap();
    drop(again);
    assert!(fresh.read_to_end().await.ends_with("finish-step finish"));
    assert_eq!(fresh.text(), "whole");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_lost_its_lease_writes_nothing_and_its_readers_go_on_elsewhere() {
    let (here, there, mut stream, call) = parked().await;
    here.store.expire_lease();
    assert_eq!(there.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    let mut remote = there.follow().await;
    // With its next heartbeat the first instance notices the loss.
    wait(5).await;
    assert!(stream.read_to_end().await.ends_with("text-end finish-step finish"), "{}", stream.types());
    assert_eq!(here.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    assert_eq!(here.messages().await, there.messages().await);
    assert_eq!(here.model_calls(), 2, "the model was called once for each step");
    if let Some(remote) = &mut remote {
        remote.read_to_end().await;
    }
}

/// Makes a run that another instance has resumed and that waits for its second call, while the first instance does not know that it has
/// lost its lease. Returns both calls last.
async fn resumed_elsewhere() -> (World, World, StreamReader, String, String) {
    let steps = [calls(&[("where", json!({}))]), text("Bern.")];
    let (here, there, stream, first) = parked_before(steps).await;
    here.store.expire_lease();
    assert_eq!(there.answer(output(&first, json!("Zug"))).await.as_deref(), Ok("success"));
    let second = loop {
        let waiting = there.pending().await;
        if let Some((call, "executing")) = waiting.first().and_then(|pending| pending.split_once(' ')) {
            break call.to_owned();
        }
        wait(0).await;
    };
    assert_ne!(first, second);
    (here, there, stream, first, second)
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_lost_its_lease_refuses_no_post_because_of_what_it_has_in_memory() {
    let (here, _there, stream, first, second) = resumed_elsewhere().await;
    let output_part = |call: &str| json!({"type": "tool-where", "toolCallId": call, "state": "output-available", "input": {}, "output": "Zug"});
    let parts =
        json!([{"type": "step-start"}, output_part(&first), {"type": "step-start"}, output_part(&second)]);
    let message = json!({"id": stream.find("start")["messageId"], "role": "assistant", "parts": parts});
    let mut rest = here.post(json!({"id": "c", "messages": [message]})).await;
    assert!(rest.read_to_end().await.ends_with("text-end finish-step finish"), "{}", rest.types());
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_was_suspended_for_a_lease_verifies_a_chat_before_it_shows_it() {
    let (here, there, _stream, _first, second) = resumed_elsewhere().await;
    tokio::time::advance(fermata_engine::store::LEASE).await;
    let pending = here.pending().await;
    assert_eq!(pending, [format!("{second} executing")]);
    assert_eq!(pending, there.pending().await);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_lost_its_lease_goes_on_if_no_other_has_acquired_the_chat() {
    let (here, there, mut stream, call) = parked().await;
    here.store.expire_lease();
    wait(5).await;
    assert_eq!(there.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    assert!(stream.read_to_end().await.ends_with("text-end finish-step finish"));
}

#[tokio::test(start_paused = true)]
async fn without_transport_chats_go_on_at_their_owner_and_the_others_are_unreachable() {
    let (here, there, mut stream, call) = parked().await;
    let mut remote = there.follow().await.unwrap();
    remote.read_until("tool-input-available").await;
    let transport = here.transport.clone().unwrap();
    transport.set_down(true);
    let unreachable = there
        .engine
        .answer(
            Decider::new(there.owner.clone(), DecisionChannel::Api, None),
            &there.chat,
            vec![output(&call, json!(1))],
        )
        .await;
    assert!(
        matches!(unreachable, Err(AnswerError::Unavailable(Unavailable::Unreachable))),
        "{unreachable:?}"
    );
    let unreachable = there.engine.resume(&there.owner, &there.chat, None).await;
    assert!(matches!(unreachable, Err(ReadError::Unavailable(Unavailable::Unreachable))));
    assert_eq!(here.pending().await.len(), 1);
    is_read_as_saved(&there, &here).await;
    wait(10).await;
    transport.set_down(false);
    wait(3).await;
    assert_eq!(there.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    let all = stream.read_to_end().await;
    assert_eq!(remote.read_to_end().await, all, "the reader elsewhere has found its run again");
}

/// Anything that can be read without the owner is there at once, and equals the owner's view.
async fn is_read_as_saved(there: &World, here: &World) {
    let begun_at = Instant::now();
    assert_eq!(there.pending().await, here.pending().await);
    let read = |world: &World| {
        let (engine, owner, chat) = (world.engine.clone(), world.owner.clone(), world.chat.clone());
        async move {
            let view = engine.chat(&owner, &chat).await.expect("it can be read");
            let grants = engine.grants(&owner, &chat).await.expect("it can be read");
            (format!("{:?} {:?} {grants:?}", view.messages, view.pending), view.open)
        }
    };
    assert_eq!(read(there).await, read(here).await);
    assert!(begun_at.elapsed() < Duration::from_secs(1), "{:?}", begun_at.elapsed());
    let stranger = there.engine.pending(&Owner::new("eve"), &there.chat).await;
    assert!(matches!(stranger, Err(ReadError::NotFound)));
}

#[tokio::test(start_paused = true)]
async fn a_chat_is_read_as_it_was_saved_while_its_owner_does_not_reply() {
    let (here, there, mut stream, call) = parked().await;
    here.transport.as_ref().unwrap().lose_next(usize::MAX);
    is_read_as_saved(&there, &here).await;
    here.transport.as_ref().unwrap().lose_next(0);
    here.answer(output(&call, json!("Bern"))).await.unwrap();
    stream.read_to_end().await;
}

#[tokio::test(start_paused = true)]
async fn readers_recover_from_a_lost_message_of_a_replicated_log() {
    let (here, there, mut stream, call) = parked().await;
    let mut remote = there.follow().await.unwrap();
    remote.read_until("tool-input-available").await;
    here.transport.as_ref().unwrap().lose_next(1);
    here.answer(output(&call, json!("Bern"))).await.unwrap();
    let all = stream.read_to_end().await;
    let replicated = remote.read_to_end().await;
    assert!(replicated == all || replicated.ends_with("error"), "{replicated}");
    assert!(remote.is_done);
}

#[tokio::test(start_paused = true)]
async fn a_resource_has_one_lock_for_all_instances() {
    let here = World::first();
    here.script([
        calls(&[("note", json!({"as": "a", "does": "waits"}))]),
        calls(&[("note", json!({"as": "b", "does": "waits"}))]),
        text("ok"),
        text("ok"),
    ]);
    let mut there = here.another();
    there.chat = ChatId::new("d");
    let (mut one, mut other) = (here.post_text("a").await, there.post_text("b").await);
    let (a, b) =
        (one.read_until("tool-approval-request").await, other.read_until("tool-approval-request").await);
    here.answer(decision(&a, true)).await.unwrap();
    there.answer(decision(&b, true)).await.unwrap();
    one.read_to_end().await;
    other.read_to_end().await;
    let log = here.tool_log.lock().unwrap().clone();
    assert!(
        log == ["begins a", "ends a", "begins b", "ends b"]
            || log == ["begins b", "ends b", "begins a", "ends a"],
        "{log:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lock_whose_release_a_failover_has_lost_is_released() {
    let here = World::first();
    here.script([
        calls(&[("note", json!({"as": "a", "does": "waits"}))]),
        text("ok"),
        calls(&[("note", json!({"as": "b"}))]),
        text("ok"),
        text("ok"),
    ]);
    let mut there = here.another();
    there.chat = ChatId::new("d");
    let mut one = here.post_text("a").await;
    let a = one.read_until("tool-approval-request").await;
    wait(3).await;
    here.answer(decision(&a, true)).await.unwrap();
    one.read_until("tool-input-available").await;
    while !here.tool_log.lock().unwrap().contains(&"begins a".to_owned()) {
        wait(0).await;
    }
    let standby = here.store.store.standby();
    one.read_to_end().await;
    here.store.store.fail_over_to(&standby);
    let mut other = there.post_text("b").await;
    let b = other.read_until("tool-approval-request").await;
    there.answer(decision(&b, true)).await.unwrap();
    assert!(other.read_to_end().await.ends_with("finish"), "{}", other.types());
    let log = there.tool_log.lock().unwrap().clone();
    assert_eq!(log, ["begins a", "ends a", "begins b", "ends b"]);
}

#[tokio::test(start_paused = true)]
async fn the_lock_of_an_instance_that_died_is_free() {
    let here = World::first();
    here.script([
        calls(&[("note", json!({"as": "a", "does": "hangs"}))]),
        calls(&[("note", json!({"as": "b"}))]),
        text("ok"),
    ]);
    let mut there = here.another();
    there.chat = ChatId::new("d");
    let mut one = here.post_text("a").await;
    let a = one.read_until("tool-approval-request").await;
    here.answer(decision(&a, true)).await.unwrap();
    wait(1).await;
    let mut other = there.post_text("b").await;
    let b = other.read_until("tool-approval-request").await;
    there.answer(decision(&b, true)).await.unwrap();
    wait(2).await;
    assert!(!there.tool_log.lock().unwrap().contains(&"begins b".to_owned()));
    here.store.kill();
    other.read_until("tool-output-available").await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_shuts_down_releases_its_waiting_runs_at_once() {
    let (here, there, mut stream, call) = parked().await;
    let mut remote = there.follow().await.unwrap();
    remote.read_until("tool-input-available").await;
    here.engine.shutdown().await;
    assert!(stream.read_to_end().await.ends_with("tool-input-available error"));
    assert!(matches!(here.engine.ready().await, Err(ReadError::Unavailable(Unavailable::ShuttingDown))));
    assert!(is_idle(&mut remote), "readers elsewhere are not disturbed");
    assert!(there.answer(output(&call, json!("Bern"))).await.is_ok());
    assert!(remote.read_to_end().await.ends_with("text-end finish-step finish"), "{}", remote.types());
}

#[tokio::test(start_paused = true)]
async fn a_run_at_work_may_come_to_its_end_before_the_instance_ends() {
    let here = World::first();
    let model = here.script_streamed();
    let mut stream = here.post_text("go").await;
    stream.read_until("start-step").await;
    let engine = here.engine.clone();
    let shutdown = tokio::spawn(async move { engine.shutdown().await });
    wait(1).await;
    assert!(here.try_post(first_post(&here, 6), None).await.is_err(), "nothing new begins");
    model.send(Ok(ModelEvent::Text("all".into()))).unwrap();
    model.send(finished()).unwrap();
    drop(model);
    assert!(stream.read_to_end().await.ends_with("finish-step finish"));
    shutdown.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn streams_that_wait_move_in_batches() {
    let here = World::first();
    const STREAMS: usize = 160;
    let mut ends = JoinSet::new();
    for number in 0..STREAMS {
        here.script([calls(&[("where", json!({}))])]);
        let mut body = first_post(&here, 6);
        body["id"] = format!("chat_{number}").into();
        let owner = Owner::new(format!("user_{number}").as_str());
        let body = ChatBody::parse(body).unwrap();
        let submission = Submission {
            owner,
            body,
            hold: None,
            address: None,
            groups: Vec::new(),
            retries: None,
            traceparent: None,
        };
        let mut stream = StreamReader::new(here.engine.submit(submission).await.unwrap().reader);
        stream.read_until("tool-input-available").await;
        ends.spawn(async move {
            stream.read_to_end().await;
            Instant::now()
        });
    }
    assert!(here.engine.ready().await.is_ok());
    here.engine.leave();
    wait(1).await;
    assert!(here.engine.ready().await.is_err());
    assert!(ends.try_join_next().is_none(), "nothing has ended");
    here.engine.shutdown().await;
    let mut batches = BTreeMap::<_, usize>::new();
    for ended_at in ends.join_all().await {
        *batches.entry(ended_at).or_default() += 1;
    }
    assert_eq!(batches.values().sum::<usize>(), STREAMS);
    assert!(batches.values().all(|moved| *moved <= 50), "{batches:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_too_long_goes_on_elsewhere() {
    let here = World::first();
    let model = here.script_streamed();
    let mut stream = here.post_text("go").await;
    stream.read_until("start-step").await;
    let there = here.another();
    there.script([text("whole")]);
    here.engine.shutdown().await;
    drop(model);
    assert!(stream.read_to_end().await.ends_with("error"));
    wait(5).await;
    assert_eq!(there.model_calls(), 2);
    assert!(format!("{:?}", there.messages().await).contains("whole"));
}

#[tokio::test(start_paused = true)]
async fn a_database_that_comes_back_finds_the_readers_still_there() {
    let here = World::new();
    here.script([calls(&[("where", json!({}))]), text("Bern.")]);
    let mut stream = here.post_text("where am I?").await;
    let call = stream.read_until("tool-input-available").await;
    here.store.fails.store(true, Ordering::SeqCst);
    assert!(here.answer(output(&call, json!("Bern"))).await.is_err());
    wait(10).await;
    here.store.fails.store(false, Ordering::SeqCst);
    wait(5).await;
    assert_eq!(here.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    assert!(stream.read_to_end().await.ends_with("text-end finish-step finish"), "{}", stream.types());
}

#[tokio::test(start_paused = true)]
async fn the_runs_of_an_owner_are_counted_over_all_instances() {
    let here = World::first();
    let mut open = Vec::new();
    let mut models = Vec::new();
    let mut worlds = [here.another(), here.another(), here.another()];
    for (n, world) in worlds.iter_mut().enumerate() {
        world.chat = ChatId::new(format!("c{n}"));
        models.push(world.script_streamed());
        open.push(world.post_text("go").await);
    }
    let refused = here.try_post(first_post(&here, 6), None).await;
    assert!(matches!(refused, Err(SubmitError::TooManyRuns(3))));
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_instance_is_gone_expires_all_the_same() {
    let (here, there, _stream, call) = parked().await;
    here.store.kill();
    wait(3605).await;
    assert!(there.answer(output(&call, json!(1))).await.unwrap_err().contains("no longer waits"));
    assert!(format!("{:?}", there.messages().await).contains("Expired: "));
}

#[tokio::test(start_paused = true)]
async fn a_lost_call_to_another_instance_is_repeated() {
    let (here, there, mut stream, call) = parked().await;
    wait(3).await;
    here.transport.as_ref().unwrap().lose_next(1);
    assert_eq!(there.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    assert!(stream.read_to_end().await.ends_with("text-end finish-step finish"));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_was_suspended_for_a_lease_verifies_a_chat_before_a_tool_begins() {
    let here = World::first();
    here.script([calls(&[("note", json!({"as": "it"}))]), text("ok")]);
    let mut stream = here.post_text("go").await;
    let call = stream.read_until("tool-approval-request").await;
    let there = here.another();
    here.store.suspend_when_a_call_begins(Duration::from_secs(15));
    let answer = here.answer(decision(&call, true));
    let resumed_elsewhere = async {
        wait(1).await;
        here.store.expire_lease();
        wait(5).await;
        there.pending().await
    };
    let (_, _) = tokio::join!(answer, resumed_elsewhere);
    wait(30).await;
    let log = here.tool_log.lock().unwrap().clone();
    assert!(log.iter().filter(|event| *event == "begins it").count() <= 1, "{log:?}");
    let record = format!("{:?}", there.messages().await);
    assert_eq!(record.contains("OutputAvailable"), log.contains(&"ends it".to_owned()), "{log:?} {record}");
}
