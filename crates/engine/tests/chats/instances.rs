//! Several instances on one store: any of them takes an answer and serves a stream, and none does harm that was replaced.

use std::{sync::atomic::Ordering, time::Duration};

use fermata_engine::{AnswerError, PeerTransport, ReadError, SubmitError, Unavailable, model::ModelEvent};
use fermata_protocol::{ChatId, EventId};
use fermata_tools::{AuditAction, Owner};
use futures::FutureExt;
use serde_json::{Value, json};

use crate::world::{Read, Turn, World, always, calls, decision, finished, output, says};

const WAITS: (&str, fn() -> Value) = ("where", || json!({}));

/// A run that waits for the page's output at the first of two instances.
async fn parked() -> (World, World, Read, String) {
    parked_before([says("Bern.")]).await
}

/// The same, where the model says these things after that.
async fn parked_before(rest: impl IntoIterator<Item = Turn>) -> (World, World, Read, String) {
    let here = World::first();
    here.script([calls(&[(WAITS.0, WAITS.1())])].into_iter().chain(rest));
    let mut stream = here.say("where am I?").await;
    let call = stream.until("tool-input-available").await;
    let there = here.another();
    (here, there, stream, call)
}

/// Lets this much time go by.
async fn after(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// A post of the first message for a version of the client.
fn said(chat: &World, client: u8) -> Value {
    let tool = json!({"parameters": {"type": "object"}});
    json!({
        "id": chat.chat.as_str(),
        "message": {"role": "user", "content": "go"},
        "tools": {"where": tool},
        "fermata": {"client": client},
    })
}

#[tokio::test(start_paused = true)]
async fn an_answer_at_another_instance_goes_on_on_the_same_stream() {
    let (here, there, mut stream, call) = parked().await;
    assert_eq!(there.pending().await, here.pending().await);
    assert_eq!(there.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    assert!(stream.read_out().await.ends_with("text-end finish-step finish") && stream.done);
    assert_eq!(there.answer(output(&call, json!("Bern"))).await.unwrap(), "success", "the same again");
    let other = there.answer(output(&call, json!("Zug"))).await.unwrap_err();
    assert_eq!(other, here.answer(output(&call, json!("Zug"))).await.unwrap_err());
    assert!(other.contains("another answer"), "{other}");
    assert_eq!(there.messages().await, here.messages().await);
    assert_eq!(here.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_comes_through_as_it_is() {
    let (here, there, _stream, call) = parked().await;
    let refused = there.engine.answer(&there.owner, &there.chat, None, vec![decision(&call, true)]).await;
    assert!(matches!(refused, Err(AnswerError::WrongAnswer { .. })), "{refused:?}");
    let unknown = there.answer(output("call_none", json!(1))).await.unwrap_err();
    assert_eq!(unknown, here.answer(output("call_none", json!(1))).await.unwrap_err());
}

#[tokio::test(start_paused = true)]
async fn what_is_allowed_for_always_is_listed_and_taken_back_at_another_instance() {
    let here = World::first();
    here.script([calls(&[("note", json!({})), ("where", json!({}))]), says("ok")]);
    let mut stream = here.say("go").await;
    let call = stream.until("tool-approval-request").await;
    let there = here.another();
    let address = Some("192.0.2.7".parse().unwrap());
    let (owner, chat) = (&there.owner, &there.chat);
    there.engine.answer(owner, chat, address, vec![always(&call)]).await.unwrap();
    let granted = there.engine.grants(owner, chat).await.unwrap();
    assert_eq!(granted, here.engine.grants(owner, chat).await.unwrap());
    assert_eq!(granted.iter().map(|grant| grant.tool.as_str()).collect::<Vec<_>>(), ["note"]);
    there.engine.end_grant(owner, chat, address, "note".into()).await.unwrap();
    assert_eq!(here.engine.grants(owner, chat).await.unwrap(), []);
    let stranger = there.engine.grants(&Owner::new("bob"), chat).await;
    assert!(matches!(stranger, Err(ReadError::NotFound)), "{stranger:?}");
    // Each decision is on record with the address that the other instance was asked from, also when the chat is gone.
    here.engine.delete(owner, chat).await.unwrap();
    let audit = here.store.store.audit();
    let by_person: Vec<_> = audit
        .iter()
        .filter(|record| record.event.decided_by.is_some())
        .map(|record| (record.event.action, record.event.address, record.owner == *owner))
        .collect();
    assert_eq!(
        by_person,
        [
            (AuditAction::Approved, address, true),
            (AuditAction::Granted, address, true),
            (AuditAction::GrantRevoked, address, true)
        ]
    );
    assert!(
        audit
            .iter()
            .any(|record| record.event.action == AuditAction::RuleAsked && record.event.address.is_none())
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_is_followed_at_another_instance_from_its_start_and_from_an_event() {
    let (here, there, mut stream, call) = parked().await;
    let mut copy = there.follow().await.unwrap();
    let mut second = there.follow().await.unwrap();
    assert_eq!(copy.until("tool-input-available").await, call);
    let event = EventId::parse("run_3:3").unwrap();
    let rest = there.engine.resume(&there.owner, &there.chat, Some(event)).await.unwrap().unwrap();
    assert_eq!(rest.run.as_str(), "run_3", "ids are counted; mend the event above");
    let mut rest = Read::new(rest.reader);
    here.answer(output(&call, json!("Bern"))).await.unwrap();
    let all = stream.read_out().await;
    assert_eq!(copy.read_out().await, all);
    assert_eq!(second.read_out().await, all);
    assert_eq!(copy.chunks, stream.chunks);
    rest.read_out().await;
    assert_eq!(rest.chunks, stream.chunks[3..]);
    assert!(copy.done && rest.done);
    assert!(there.follow().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_let_go_is_anybodys() {
    let here = World::first();
    here.script([calls(&[("where", json!({}))])]);
    let mouth = here.speak();
    let mut stream = here.say_holding("where am I?", Some(0)).await;
    let call = stream.until("tool-input-available").await;
    assert!(stream.read_out().await.ends_with("finish-step finish"));
    let there = here.another();
    // Nobody has to be asked for it: the first instance cannot even be reached.
    here.transport.as_ref().unwrap().set_down(true);
    assert_eq!(there.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    let mut rest = there.follow().await.unwrap();
    for event in says("Bern.") {
        mouth.send(event).unwrap();
    }
    assert!(rest.read_out().await.ends_with("finish-step finish"));
    assert!(rest.text().ends_with("Bern."));
}

#[tokio::test(start_paused = true)]
async fn two_instances_that_take_up_a_run_at_once_agree() {
    let (here, there, _stream, call) = parked().await;
    let third = here.another();
    here.engine.shutdown().await;
    let (one, other) =
        tokio::join!(there.answer(output(&call, json!("Bern"))), third.answer(output(&call, json!("Zug"))));
    let (taken, refused) = if one.is_ok() { (one, other) } else { (other, one) };
    assert_eq!(taken.unwrap(), "success");
    assert!(refused.as_ref().is_err_and(|words| words.contains("another answer")), "{refused:?}");
    after(1).await;
    assert_eq!(there.messages().await, third.messages().await);
    assert_eq!(here.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_comes_second_stops_the_run_where_it_is() {
    let (here, there, _stream, _call) = parked().await;
    let third = here.another();
    here.engine.shutdown().await;
    let (stream, stopped) = tokio::join!(there.follow(), third.engine.stop(&third.owner, &third.chat));
    stopped.unwrap();
    if let Some(mut stream) = stream {
        assert!(stream.read_out().await.contains("tool-output-error"));
    }
    assert!(there.pending().await.is_empty() && third.pending().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn two_posts_that_begin_a_chat_at_once_both_count() {
    let here = World::first();
    let there = here.another();
    here.script([says("one"), says("two")]);
    let post = |words: &str| json!({"id": "c", "message": {"id": words, "role": "user", "content": words}});
    let (one, other) = tokio::join!(here.try_post(post("first"), None), there.try_post(post("second"), None));
    for following in [one.unwrap(), other.unwrap()] {
        Read::new(following.reader).read_out().await;
    }
    after(1).await;
    let said: Vec<_> = here.messages().await.iter().map(|message| message.id.to_string()).collect();
    assert!(said.contains(&"first".to_owned()) && said.contains(&"second".to_owned()), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_after_the_transport_was_down_reads_all() {
    let (here, there, mut stream, call) = parked().await;
    let mut copy = there.follow().await.unwrap();
    copy.until("tool-input-available").await;
    let transport = here.transport.clone().unwrap();
    drop(copy);
    transport.set_down(true);
    after(3).await;
    transport.set_down(false);
    after(3).await;
    let mut late = there.follow().await.unwrap();
    assert_eq!(late.until("tool-input-available").await, call, "what was fed before is fed again");
    here.answer(output(&call, json!("Bern"))).await.unwrap();
    assert_eq!(late.read_out().await, stream.read_out().await);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_after_others_have_left_reads_all() {
    let (here, there, mut stream, call) = parked().await;
    for pause in [0, 1, 5, 6, 7, 8, 20] {
        let mut copy = there.follow().await.unwrap();
        assert_eq!(copy.until("tool-input-available").await, call);
        drop(copy);
        after(pause).await;
    }
    let mut late = there.follow().await.unwrap();
    here.answer(output(&call, json!("Bern"))).await.unwrap();
    assert_eq!(late.read_out().await, stream.read_out().await);
}

#[tokio::test(start_paused = true)]
async fn a_new_message_at_another_instance_goes_on_without_the_old_run() {
    let (_here, there, mut stream, _call) = parked().await;
    let mut next = there.say("never mind").await;
    assert!(stream.read_out().await.ends_with("abort"));
    assert!(next.read_out().await.ends_with("finish-step finish"), "{}", next.types());
    assert_eq!(next.text(), "Bern.");
}

#[tokio::test(start_paused = true)]
async fn stopping_and_forgetting_reach_the_instance_that_drives_the_run() {
    let (_here, there, mut stream, call) = parked().await;
    there.engine.stop(&there.owner, &there.chat).await.unwrap();
    assert!(stream.read_out().await.contains("tool-output-error"));
    assert!(there.answer(output(&call, json!(1))).await.unwrap_err().contains("no longer waits"));
    let (here, there, mut stream, _) = parked().await;
    there.engine.delete(&there.owner, &there.chat).await.unwrap();
    assert!(stream.read_out().await.contains("tool-output-error"));
    assert!(matches!(here.engine.chat(&here.owner, &here.chat).await, Err(ReadError::NotFound)));
}

#[tokio::test(start_paused = true)]
async fn of_a_long_chat_another_instance_is_told_what_there_is_and_reads_it_itself() {
    let here = World::first();
    here.script([calls(&[(WAITS.0, WAITS.1())])]);
    let mut stream = here.say(&"x".repeat(2 << 20)).await;
    stream.until("tool-input-available").await;
    let there = here.another();
    let pages = there.engine.chat_in_pages(&there.owner, &there.chat).await.unwrap();
    assert!(pages.is_long() && pages.chat.open && pages.chat.messages.is_empty());
    assert_eq!(pages.chat.pending.len(), 1);
    let messages = there.messages().await;
    assert_eq!(messages.len(), 1, "the message that is being written is not among them");
    assert_eq!(messages, here.messages().await);
}

#[tokio::test(start_paused = true)]
async fn a_parked_run_outlives_its_instance_and_its_readers_elsewhere_notice_nothing() {
    let (here, there, stream, call) = parked().await;
    let mut copy = there.follow().await.unwrap();
    copy.until("tool-input-available").await;
    here.store.kill();
    here.transport.as_ref().unwrap().close(&here.store.instance()).await;
    after(5).await;
    assert!(copy_is_quiet(&mut copy), "its stream stays open");
    assert_eq!(there.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    let all = copy.read_out().await;
    assert!(all.ends_with("text-end finish-step finish") && !all.contains("error") && copy.done, "{all}");
    assert_eq!(copy.chunks.iter().filter(|chunk| chunk["type"] == "start").count(), 1);
    drop(stream);
}

fn copy_is_quiet(copy: &mut Read) -> bool {
    copy.read_out().now_or_never().is_none() && !copy.done
}

#[tokio::test(start_paused = true)]
async fn a_step_that_was_cut_off_is_asked_for_again_without_anybody_asking() {
    let here = World::first();
    let mouth = here.speak();
    let mut stream = here.post(said(&here, 7)).await;
    mouth.send(Ok(ModelEvent::Text("half".into()))).unwrap();
    stream.until("text-delta").await;
    let there = here.another();
    let mut copy = there.follow().await.unwrap();
    copy.until("text-delta").await;
    there.script([says("whole")]);
    here.store.kill();
    here.transport.as_ref().unwrap().close(&here.store.instance()).await;
    let all = copy.read_out().await;
    assert_eq!(
        all,
        "start start-step text-start text-delta reset-step text-start text-delta text-end finish-step finish"
    );
    assert_eq!(copy.text(), "halfwhole", "and version 7 takes back the half");
    assert_eq!(there.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_word_for_it_is_sent_to_read_the_cut_off_step_again() {
    let here = World::first();
    let mouth = here.speak();
    let mut stream = here.post(said(&here, 6)).await;
    mouth.send(Ok(ModelEvent::Text("half".into()))).unwrap();
    stream.until("text-delta").await;
    let there = here.another();
    let mut copy = there.follow().await.unwrap();
    copy.until("text-delta").await;
    let again = there.speak();
    here.store.kill();
    here.transport.as_ref().unwrap().close(&here.store.instance()).await;
    assert!(copy.read_out().await.ends_with("text-delta error"));
    let mut fresh = there.follow().await.unwrap();
    again.send(Ok(ModelEvent::Text("whole".into()))).unwrap();
    again.send(finished()).unwrap();
    drop(again);
    assert!(fresh.read_out().await.ends_with("finish-step finish"));
    assert_eq!(fresh.text(), "whole");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_was_replaced_writes_nothing_and_its_readers_go_on_elsewhere() {
    let (here, there, mut stream, call) = parked().await;
    here.store.bury();
    assert_eq!(there.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    let mut copy = there.follow().await;
    // It comes to itself, and hears that it was dead.
    after(5).await;
    assert!(stream.read_out().await.ends_with("text-end finish-step finish"), "{}", stream.types());
    assert_eq!(here.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    assert_eq!(here.messages().await, there.messages().await);
    assert_eq!(here.asked(), 2, "the model was asked once for each step");
    if let Some(copy) = &mut copy {
        copy.read_out().await;
    }
}

/// A run that was taken from an instance that does not know it yet, and the call that it waits for by now.
async fn taken_away() -> (World, World, Read, String, String) {
    let turns = [calls(&[(WAITS.0, WAITS.1())]), says("Bern.")];
    let (here, there, stream, first) = parked_before(turns).await;
    here.store.bury();
    assert_eq!(there.answer(output(&first, json!("Zug"))).await.as_deref(), Ok("success"));
    let second = loop {
        let waiting = there.pending().await;
        if let Some((call, "executing")) = waiting.first().and_then(|waits| waits.split_once(' ')) {
            break call.to_owned();
        }
        after(0).await;
    };
    assert_ne!(first, second);
    (here, there, stream, first, second)
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_was_replaced_refuses_no_post_by_what_it_remembers() {
    let (here, _there, stream, first, second) = taken_away().await;
    let told = |call: &str| json!({"type": "tool-where", "toolCallId": call, "state": "output-available", "input": {}, "output": "Zug"});
    let parts = json!([{"type": "step-start"}, told(&first), {"type": "step-start"}, told(&second)]);
    let message = json!({"id": stream.find("start")["messageId"], "role": "assistant", "parts": parts});
    let mut rest = here.post(json!({"id": "c", "messages": [message]})).await;
    assert!(rest.read_out().await.ends_with("text-end finish-step finish"), "{}", rest.types());
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_stood_still_for_a_lease_looks_again_before_it_says_what_waits() {
    let (here, there, _stream, _first, second) = taken_away().await;
    tokio::time::advance(fermata_engine::store::LEASE).await;
    let waits = here.pending().await;
    assert_eq!(waits, [format!("{second} executing")]);
    assert_eq!(waits, there.pending().await);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_nobody_replaced_goes_on() {
    let (here, there, mut stream, call) = parked().await;
    here.store.bury();
    after(5).await;
    assert_eq!(there.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    assert!(stream.read_out().await.ends_with("text-end finish-step finish"));
}

#[tokio::test(start_paused = true)]
async fn without_transport_chats_go_on_where_they_are_and_the_others_say_so() {
    let (here, there, mut stream, call) = parked().await;
    let mut copy = there.follow().await.unwrap();
    copy.until("tool-input-available").await;
    let transport = here.transport.clone().unwrap();
    transport.set_down(true);
    let away = there.engine.answer(&there.owner, &there.chat, None, vec![output(&call, json!(1))]).await;
    assert!(matches!(away, Err(AnswerError::Unavailable(Unavailable::Unreachable))), "{away:?}");
    let away = there.engine.resume(&there.owner, &there.chat, None).await;
    assert!(matches!(away, Err(ReadError::Unavailable(Unavailable::Unreachable))));
    assert_eq!(here.pending().await.len(), 1);
    after(10).await;
    transport.set_down(false);
    after(3).await;
    assert_eq!(there.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    let all = stream.read_out().await;
    assert_eq!(copy.read_out().await, all, "the reader elsewhere has found its run again");
}

#[tokio::test(start_paused = true)]
async fn a_lost_message_of_a_feed_is_made_up_for() {
    let (here, there, mut stream, call) = parked().await;
    let mut copy = there.follow().await.unwrap();
    copy.until("tool-input-available").await;
    here.transport.as_ref().unwrap().lose_next(1);
    here.answer(output(&call, json!("Bern"))).await.unwrap();
    let all = stream.read_out().await;
    let copied = copy.read_out().await;
    assert!(copied == all || copied.ends_with("error"), "{copied}");
    assert!(copy.done);
}

#[tokio::test(start_paused = true)]
async fn a_resource_has_one_lock_for_all_instances() {
    let here = World::first();
    here.script([
        calls(&[("note", json!({"as": "a", "does": "waits"}))]),
        calls(&[("note", json!({"as": "b", "does": "waits"}))]),
        says("ok"),
        says("ok"),
    ]);
    let mut there = here.another();
    there.chat = ChatId::new("d");
    let (mut one, mut other) = (here.say("a").await, there.say("b").await);
    let (a, b) = (one.until("tool-approval-request").await, other.until("tool-approval-request").await);
    here.answer(decision(&a, true)).await.unwrap();
    there.answer(decision(&b, true)).await.unwrap();
    one.read_out().await;
    other.read_out().await;
    let done = here.done.lock().unwrap().clone();
    assert!(
        done == ["begins a", "ends a", "begins b", "ends b"]
            || done == ["begins b", "ends b", "begins a", "ends a"],
        "{done:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_lock_of_an_instance_that_died_is_free() {
    let here = World::first();
    here.script([
        calls(&[("note", json!({"as": "a", "does": "hangs"}))]),
        calls(&[("note", json!({"as": "b"}))]),
        says("ok"),
    ]);
    let mut there = here.another();
    there.chat = ChatId::new("d");
    let mut one = here.say("a").await;
    let a = one.until("tool-approval-request").await;
    here.answer(decision(&a, true)).await.unwrap();
    after(1).await;
    let mut other = there.say("b").await;
    let b = other.until("tool-approval-request").await;
    there.answer(decision(&b, true)).await.unwrap();
    after(2).await;
    assert!(!there.done.lock().unwrap().contains(&"begins b".to_owned()));
    here.store.kill();
    other.until("tool-output-available").await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_ends_lets_its_waiting_runs_go_at_once() {
    let (here, there, mut stream, call) = parked().await;
    let mut copy = there.follow().await.unwrap();
    copy.until("tool-input-available").await;
    here.engine.shutdown().await;
    assert!(stream.read_out().await.ends_with("tool-input-available error"));
    assert!(matches!(here.engine.ready().await, Err(ReadError::Unavailable(Unavailable::ShuttingDown))));
    assert!(copy_is_quiet(&mut copy), "who reads elsewhere notices nothing");
    assert!(there.answer(output(&call, json!("Bern"))).await.is_ok());
    assert!(copy.read_out().await.ends_with("text-end finish-step finish"), "{}", copy.types());
}

#[tokio::test(start_paused = true)]
async fn a_run_at_work_may_come_to_its_end_before_the_instance_ends() {
    let here = World::first();
    let mouth = here.speak();
    let mut stream = here.say("go").await;
    stream.until("start-step").await;
    let engine = here.engine.clone();
    let ending = tokio::spawn(async move { engine.shutdown().await });
    after(1).await;
    assert!(here.try_post(said(&here, 6), None).await.is_err(), "nothing new begins");
    mouth.send(Ok(ModelEvent::Text("all".into()))).unwrap();
    mouth.send(finished()).unwrap();
    drop(mouth);
    assert!(stream.read_out().await.ends_with("finish-step finish"));
    ending.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_too_long_goes_on_elsewhere() {
    let here = World::first();
    let mouth = here.speak();
    let mut stream = here.say("go").await;
    stream.until("start-step").await;
    let there = here.another();
    there.script([says("whole")]);
    here.engine.shutdown().await;
    drop(mouth);
    assert!(stream.read_out().await.ends_with("error"));
    after(5).await;
    assert_eq!(there.asked(), 2);
    assert!(format!("{:?}", there.messages().await).contains("whole"));
}

#[tokio::test(start_paused = true)]
async fn a_database_that_comes_back_finds_the_readers_still_there() {
    let here = World::new();
    here.script([calls(&[("where", json!({}))]), says("Bern.")]);
    let mut stream = here.say("where am I?").await;
    let call = stream.until("tool-input-available").await;
    here.store.fails.store(true, Ordering::SeqCst);
    assert!(here.answer(output(&call, json!("Bern"))).await.is_err());
    after(10).await;
    here.store.fails.store(false, Ordering::SeqCst);
    after(5).await;
    assert_eq!(here.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    assert!(stream.read_out().await.ends_with("text-end finish-step finish"), "{}", stream.types());
}

#[tokio::test(start_paused = true)]
async fn the_runs_of_an_owner_are_counted_over_all_instances() {
    let here = World::first();
    let mut open = Vec::new();
    let mut mouths = Vec::new();
    let mut worlds = [here.another(), here.another(), here.another()];
    for (n, world) in worlds.iter_mut().enumerate() {
        world.chat = ChatId::new(format!("c{n}"));
        mouths.push(world.speak());
        open.push(world.say("go").await);
    }
    let refused = here.try_post(said(&here, 6), None).await;
    assert!(matches!(refused, Err(SubmitError::TooManyRuns(3))));
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_instance_is_gone_expires_all_the_same() {
    let (here, there, _stream, call) = parked().await;
    here.store.kill();
    after(3605).await;
    assert!(there.answer(output(&call, json!(1))).await.unwrap_err().contains("no longer waits"));
    assert!(format!("{:?}", there.messages().await).contains("Expired: "));
}

#[tokio::test(start_paused = true)]
async fn a_lost_question_is_asked_again() {
    let (here, there, mut stream, call) = parked().await;
    after(3).await;
    here.transport.as_ref().unwrap().lose_next(1);
    assert_eq!(there.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    assert!(stream.read_out().await.ends_with("text-end finish-step finish"));
}

#[tokio::test(start_paused = true)]
async fn who_has_not_been_heard_for_a_lease_looks_again_before_a_tool_begins() {
    let here = World::first();
    here.script([calls(&[("note", json!({"as": "it"}))]), says("ok")]);
    let mut stream = here.say("go").await;
    let call = stream.until("tool-approval-request").await;
    let there = here.another();
    here.store.stand_still_when_a_call_begins(Duration::from_secs(15));
    let answer = here.answer(decision(&call, true));
    let replaced = async {
        after(1).await;
        here.store.bury();
        after(5).await;
        there.pending().await
    };
    let (_, _) = tokio::join!(answer, replaced);
    after(30).await;
    let done = here.done.lock().unwrap().clone();
    assert!(done.iter().filter(|what| *what == "begins it").count() <= 1, "{done:?}");
    let record = format!("{:?}", there.messages().await);
    assert_eq!(record.contains("OutputAvailable"), done.contains(&"ends it".to_owned()), "{done:?} {record}");
}
