//! Runs that end each process which works on them, and runs that only seem to.

use std::{sync::atomic::Ordering, time::Duration};

use fermata_engine::{
    ReadError, Unavailable,
    store::{ChatStore, StoreError},
};
use fermata_protocol::AnswerTarget;
use serde_json::json;

use crate::world::{World, calls, output, says};

/// Long enough for another process to take up what nobody drives.
async fn is_noticed() {
    tokio::time::sleep(Duration::from_secs(3)).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_each_process_is_given_up_when_it_is_taken_up_for_the_third_time() {
    let mut world = World::first();
    // Nobody ever gets to hear a word of them.
    let _mouths: Vec<_> = (0..9).map(|_| world.speak()).collect();
    let mut stream = world.say("end it all").await;
    stream.until("start").await;
    for killed in 1..=3 {
        is_noticed().await;
        assert_eq!(world.asked(), killed);
        assert_eq!(world.open_run().unwrap().attempts as usize, killed - 1);
        world = world.restarted();
    }
    is_noticed().await;
    assert_eq!(world.asked(), 3, "the model is not asked again");
    assert_eq!(world.open_run(), None);
    assert!(world.messages().await.iter().all(|message| message.role == fermata_protocol::Role::User));
}

#[tokio::test(start_paused = true)]
async fn the_readers_of_a_run_that_is_given_up_are_told() {
    let mut world = World::first();
    let _mouths: Vec<_> = (0..9).map(|_| world.speak()).collect();
    let mut first = world.say("end it all").await;
    first.until("start").await;
    for _ in 0..2 {
        world = world.restarted();
        is_noticed().await;
    }
    let reading = world.another();
    let mut stream = reading.follow().await.unwrap();
    stream.until("start").await;
    world.store.kill();
    let types = stream.read_out().await;
    assert!(types.ends_with("error"), "{types}");
    let words = stream.find("error")["errorText"].as_str().unwrap().to_owned();
    assert!(words.contains("given up"), "{words}");
    assert!(stream.done);
}

#[tokio::test(start_paused = true)]
async fn what_a_run_has_done_before_it_is_given_up_stays_in_the_record() {
    let mut world = World::first();
    world.script([calls(&[("where", json!({}))])]);
    let _mouths: Vec<_> = (0..9).map(|_| world.speak()).collect();
    let mut stream = world.say_holding("where am I?", Some(0)).await;
    let call = stream.until("tool-input-available").await;
    stream.read_out().await;
    assert_eq!(world.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    for _ in 0..3 {
        is_noticed().await;
        world = world.restarted();
    }
    is_noticed().await;
    assert_eq!(world.open_run(), None);
    let message = world.messages().await.pop().unwrap();
    let parts = message.parts.iter().filter_map(fermata_protocol::UiPart::as_tool);
    assert!(parts.clone().count() == 1 && parts.clone().all(|part| part.state.is_settled()), "{message:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_survives_any_number_of_restarts_and_looks() {
    let mut world = World::new();
    world.script([calls(&[("where", json!({}))])]);
    let mut stream = world.say_holding("where am I?", Some(0)).await;
    let call = stream.until("tool-input-available").await;
    stream.read_out().await;
    for _ in 0..8 {
        world = world.restarted();
        is_noticed().await;
        assert_eq!(world.pending().await.len(), 1);
        assert!(world.follow().await.is_none());
        assert_eq!(world.open_run().unwrap().attempts, 0);
    }
    world.script([says("Bern.")]);
    assert_eq!(world.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    is_noticed().await;
    assert_eq!(world.open_run(), None);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_gets_on_between_its_crashes_is_not_given_up() {
    let mut world = World::new();
    let mut mouths = vec![world.speak(), world.speak()];
    world.script([calls(&[("where", json!({}))])]);
    mouths.extend([world.speak(), world.speak()]);
    world.script([says("Bern.")]);
    drop(world.say("where am I?").await);
    for _ in 0..2 {
        is_noticed().await;
        world = world.restarted();
    }
    is_noticed().await;
    let run = world.open_run().unwrap();
    assert_eq!((run.attempts, run.waiting), (0, true), "a step was saved");
    let call = run.calls[0].id.to_string();
    assert_eq!(world.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    for _ in 0..2 {
        is_noticed().await;
        world = world.restarted();
    }
    is_noticed().await;
    assert_eq!((world.open_run(), world.asked()), (None, 6));
    drop(mouths);
}

#[tokio::test(start_paused = true)]
async fn what_a_run_was_asked_for_is_saved_once_and_also_found_where_earlier_versions_saved_it() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))])]);
    let tool = json!({"parameters": {"type": "object"}, "description": "y".repeat(30_000)});
    let post = json!({
        "id": "c",
        "message": {"role": "user", "content": "where am I?"},
        "system": "x".repeat(100_000),
        "tools": {"where": tool},
        "callSettings": {"temperature": 0.5},
    });
    let mut stream = crate::world::Read::new(world.try_post(post, Some(0)).await.unwrap().reader);
    let call = stream.until("tool-input-available").await;
    stream.read_out().await;
    let run = world.open_run().unwrap();
    let (state, settings) = (run.state.to_string(), run.settings.to_string());
    assert!(state.len() < 2_000 && settings.len() > 130_000, "{} {}", state.len(), settings.len());

    // Earlier versions knew of one value only.
    let mut whole = run.settings.clone();
    whole.as_object_mut().unwrap().extend(run.state.as_object().unwrap().clone());
    world.put_state(run.id, whole).await;
    let world = world.restarted();
    assert_eq!(world.pending().await.len(), 1);
    world.script([calls(&[("where", json!({}))]), says("Bern.")]);
    assert_eq!(world.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    is_noticed().await;
    let again = world.open_run().unwrap();
    assert!(again.state.to_string().len() < 2_000, "from now on it is saved once, too");
    assert_eq!(again.settings, run.settings);
    let asked = world.model.asked.lock().unwrap().last().unwrap().clone();
    assert!(
        format!("{:?}", asked.messages).contains("xxxx") && asked.tools.len() == 3,
        "{:?}",
        asked.tools.len()
    );
}

#[tokio::test(start_paused = true)]
async fn processes_that_end_in_good_order_are_not_counted() {
    let mut world = World::first();
    let mouths: Vec<_> = (0..5).map(|_| world.speak()).collect();
    world.script([says("Done.")]);
    drop(world.say("take your time").await);
    for asked in 1..=5 {
        is_noticed().await;
        assert_eq!(world.asked(), asked);
        let next = world.another();
        world.engine.shutdown().await;
        world = next;
    }
    drop(mouths);
    is_noticed().await;
    assert_eq!(world.open_run(), None);
    let message = world.messages().await.pop().unwrap();
    assert!(message.parts.iter().any(|part| part.as_text() == Some("Done.")), "{message:?}");
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_panics_leaves_its_chat_as_it_was_saved_and_another_goes_on() {
    for world in [World::new(), World::first()] {
        world.panic(2);
        world.script([says("Here I am.")]);
        let mut stream = world.say("hello?").await;
        let types = stream.read_out().await;
        assert!(types.ends_with("finish") && stream.done, "{types}");
        assert_eq!((stream.text().as_str(), world.asked()), ("Here I am.", 3));
        assert_eq!(world.open_run(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_in_which_each_driver_panics_ends_with_an_error_and_its_chat_goes_on() {
    for world in [World::new(), World::first()] {
        world.panic(3);
        let mut stream = world.say("hello?").await;
        let types = stream.read_out().await;
        assert!(types.ends_with("error") && stream.done, "{types}");
        let words = stream.find("error")["errorText"].as_str().unwrap().to_owned();
        assert!(words.contains("given up"), "{words}");
        assert_eq!((world.asked(), world.open_run()), (3, None));

        world.script([says("Here I am.")]);
        let mut stream = world.say("hello?").await;
        stream.read_out().await;
        assert_eq!((stream.text().as_str(), world.asked()), ("Here I am.", 4));
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_a_driver_that_panics_is_told_and_may_ask_again() {
    let world = World::new();
    world.panic(1);
    world.script([says("One."), says("Two.")]);
    drop(world.say("one").await);
    // They are in the inbox when the driver panics, or come just after.
    let asked: Vec<_> = (0..20).map(|_| world.engine.chat(&world.owner, &world.chat)).collect();
    for answer in futures::future::join_all(asked).await {
        assert!(
            answer.as_ref().is_ok_and(|view| !view.messages.is_empty()) || is_lost(&answer),
            "{answer:?}"
        );
    }
    let mut stream = world.say("two").await;
    stream.read_out().await;
    assert!(stream.done && !stream.text().is_empty(), "{}", stream.types());
    assert_eq!(world.open_run(), None);
}

fn is_lost(answer: &Result<fermata_engine::ChatView, ReadError>) -> bool {
    matches!(answer, Err(ReadError::Unavailable(Unavailable::Store(StoreError::Unavailable(_)))))
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_ended_in_good_order_is_ended_by_its_rows_alone() {
    for world in [World::new(), World::first()] {
        world.script([calls(&[("where", json!({}))])]);
        let mut stream = world.say_holding("where am I?", Some(0)).await;
        let call = stream.until("tool-input-available").await;
        stream.read_out().await;
        world.panic(9);
        world.store.endings_to_fail.store(3, Ordering::SeqCst);
        assert_eq!(world.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
        let mut reader = world.follow().await.unwrap();
        let types = reader.read_out().await;
        // The third, fourth and fifth take-up were to end it in good order.
        assert_eq!(world.store.endings_to_fail.load(Ordering::SeqCst), 0);
        assert!(types.ends_with("error") && reader.done, "{types}");
        assert!(reader.find("error")["errorText"].as_str().unwrap().contains("given up"), "{types}");
        assert_eq!((world.asked(), world.open_run()), (4, None));
        assert!(world.pending().await.is_empty());

        let messages = world.messages().await;
        let parts: Vec<_> = messages
            .iter()
            .flat_map(|message| &message.parts)
            .filter_map(fermata_protocol::UiPart::as_tool)
            .collect();
        assert!(!parts.is_empty() && parts.iter().all(|part| part.state.is_settled()), "{parts:?}");
        let late = world.answer(output(&call, json!("Zug"))).await.unwrap_err();
        assert!(late.contains("has another answer already"), "{late}");

        world.model.forget_script();
        world.script([says("Here I am.")]);
        let mut stream = world.say("hello?").await;
        stream.read_out().await;
        assert_eq!((stream.text().as_str(), stream.done), ("Here I am.", true));
    }
}

/// What an unread end does to calls that were still to be done: nobody is told to do them, and no answer is taken.
#[tokio::test(start_paused = true)]
async fn the_open_calls_of_a_run_that_is_ended_by_its_rows_alone_are_cancelled() {
    let mut world = World::first();
    world.script([calls(&[("where", json!({})), ("note", json!({"as": "n"}))])]);
    let mut stream = world.say_holding("where am I?", Some(0)).await;
    stream.read_out().await;
    let open = world.open_run().unwrap().calls;
    assert_eq!(
        (open.len(), world.pending().await.len()),
        (2, 1),
        "one waits for a person, the other for that"
    );
    // Its time is over while nobody is there, and who takes it up to end it as expired does not survive.
    world = world.restarted_after(4000);
    world.store.endings_to_fail.store(5, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((world.store.endings_to_fail.load(Ordering::SeqCst), world.open_run()), (0, None));
    assert!(world.pending().await.is_empty());
    for call in open {
        let of = AnswerTarget::Call(call.id);
        let call = world.store.store.call(&world.chat, &of).await.unwrap().unwrap();
        assert_eq!(call.state().name().as_str(), "cancelled");
        let late = world.answer(output(call.id.as_str(), json!("Bern"))).await.unwrap_err();
        assert!(late.contains("no longer waits") || late.contains("does not wait"), "{late}");
    }
    assert!(world.done.lock().unwrap().is_empty(), "no call has run");
}
