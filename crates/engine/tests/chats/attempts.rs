//! Runs that end each process that works on them, and runs that only seem to.

use std::{sync::atomic::Ordering, time::Duration};

use fermata_engine::{
    ReadError, Unavailable,
    store::{ChatStore, StoreError},
};
use fermata_protocol::AnswerTarget;
use serde_json::json;

use crate::world::{StreamReader, World, calls, output, text};

/// Waits as long as another process needs to resume a run that has no owner.
async fn wait_for_recovery() {
    tokio::time::sleep(Duration::from_secs(3)).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_each_process_is_given_up_when_it_is_resumed_for_the_third_time() {
    let mut world = World::first();
    // None of these steps ever sends anything.
    let _models: Vec<_> = (0..9).map(|_| world.script_streamed()).collect();
    let mut stream = world.post_text("end it all").await;
    stream.read_until("start").await;
    for killed in 1..=3 {
        wait_for_recovery().await;
        assert_eq!(world.model_calls(), killed);
        assert_eq!(world.open_run().unwrap().attempts as usize, killed - 1);
        world = world.restarted();
    }
    wait_for_recovery().await;
    assert_eq!(world.model_calls(), 3, "the model is not asked again");
    assert_eq!(world.open_run(), None);
    assert!(world.messages().await.iter().all(|message| message.role == fermata_protocol::Role::User));
}

#[tokio::test(start_paused = true)]
async fn the_readers_of_a_run_that_is_given_up_get_an_error() {
    let mut world = World::first();
    let _models: Vec<_> = (0..9).map(|_| world.script_streamed()).collect();
    let mut first = world.post_text("end it all").await;
    first.read_until("start").await;
    for _ in 0..2 {
        world = world.restarted();
        wait_for_recovery().await;
    }
    let reading = world.another();
    let mut stream = reading.follow().await.unwrap();
    stream.read_until("start").await;
    world.store.kill();
    let types = stream.read_to_end().await;
    assert!(types.ends_with("error"), "{types}");
    let error = stream.find("error")["errorText"].as_str().unwrap().to_owned();
    assert!(error.contains("given up"), "{error}");
    assert!(stream.is_done);
}

#[tokio::test(start_paused = true)]
async fn the_steps_of_a_run_that_is_given_up_stay_in_the_record() {
    let mut world = World::first();
    world.script([calls(&[("where", json!({}))])]);
    let _models: Vec<_> = (0..9).map(|_| world.script_streamed()).collect();
    let mut stream = world.post_text_with_hold("where am I?", Some(0)).await;
    let call = stream.read_until("tool-input-available").await;
    stream.read_to_end().await;
    assert_eq!(world.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    for _ in 0..3 {
        wait_for_recovery().await;
        world = world.restarted();
    }
    wait_for_recovery().await;
    assert_eq!(world.open_run(), None);
    let message = world.messages().await.pop().unwrap();
    let parts = message.parts.iter().filter_map(fermata_protocol::UiPart::as_tool);
    assert!(parts.clone().count() == 1 && parts.clone().all(|part| part.state.is_settled()), "{message:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_survives_any_number_of_restarts() {
    let mut world = World::new();
    world.script([calls(&[("where", json!({}))])]);
    let mut stream = world.post_text_with_hold("where am I?", Some(0)).await;
    let call = stream.read_until("tool-input-available").await;
    stream.read_to_end().await;
    for _ in 0..8 {
        world = world.restarted();
        wait_for_recovery().await;
        assert_eq!(world.pending().await.len(), 1);
        assert!(world.follow().await.is_none());
        assert_eq!(world.open_run().unwrap().attempts, 0);
    }
    world.script([text("Bern.")]);
    assert_eq!(world.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    wait_for_recovery().await;
    assert_eq!(world.open_run(), None);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_makes_progress_between_crashes_is_not_given_up() {
    let mut world = World::new();
    let mut models = vec![world.script_streamed(), world.script_streamed()];
    world.script([calls(&[("where", json!({}))])]);
    models.extend([world.script_streamed(), world.script_streamed()]);
    world.script([text("Bern.")]);
    drop(world.post_text("where am I?").await);
    for _ in 0..2 {
        wait_for_recovery().await;
        world = world.restarted();
    }
    wait_for_recovery().await;
    let run = world.open_run().unwrap();
    assert_eq!((run.attempts, run.waiting), (0, true), "a step was saved");
    let call = run.calls[0].id.to_string();
    assert_eq!(world.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    for _ in 0..2 {
        wait_for_recovery().await;
        world = world.restarted();
    }
    wait_for_recovery().await;
    assert_eq!((world.open_run(), world.model_calls()), (None, 6));
    drop(models);
}

#[tokio::test(start_paused = true)]
async fn the_settings_of_a_run_are_saved_once_and_read_by_the_process_that_resumes_it() {
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
    let mut stream = StreamReader::new(world.try_post(post, Some(0)).await.unwrap().reader);
    let call = stream.read_until("tool-input-available").await;
    stream.read_to_end().await;
    let run = world.open_run().unwrap();
    let (state, settings) = (run.state.to_string(), run.settings.to_string());
    assert!(state.len() < 2_000 && settings.len() > 130_000, "{} {}", state.len(), settings.len());

    let world = world.restarted();
    assert_eq!(world.pending().await.len(), 1);
    world.script([calls(&[("where", json!({}))]), text("Bern.")]);
    assert_eq!(world.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    wait_for_recovery().await;
    let again = world.open_run().unwrap();
    assert!(again.state.to_string().len() < 2_000, "the settings are not in the state");
    assert_eq!(again.settings, run.settings);
    let request = world.model.requests.lock().unwrap().last().unwrap().clone();
    assert!(
        format!("{:?}", request.messages).contains("xxxx") && request.tools.len() == 3,
        "{:?}",
        request.tools.len()
    );
}

#[tokio::test(start_paused = true)]
async fn processes_that_end_in_good_order_are_not_counted() {
    let mut world = World::first();
    let models: Vec<_> = (0..5).map(|_| world.script_streamed()).collect();
    world.script([text("Done.")]);
    drop(world.post_text("take your time").await);
    for model_calls in 1..=5 {
        wait_for_recovery().await;
        assert_eq!(world.model_calls(), model_calls);
        let next = world.another();
        world.engine.shutdown().await;
        world = next;
    }
    drop(models);
    wait_for_recovery().await;
    assert_eq!(world.open_run(), None);
    let message = world.messages().await.pop().unwrap();
    assert!(message.parts.iter().any(|part| part.as_text() == Some("Done.")), "{message:?}");
}

#[tokio::test(start_paused = true)]
async fn a_chat_actor_that_panics_leaves_its_chat_as_it_was_saved_and_another_goes_on() {
    for world in [World::new(), World::first()] {
        world.script_panics(2);
        world.script([text("Here I am.")]);
        let mut stream = world.post_text("hello?").await;
        let types = stream.read_to_end().await;
        assert!(types.ends_with("finish") && stream.is_done, "{types}");
        assert_eq!((stream.text().as_str(), world.model_calls()), ("Here I am.", 3));
        assert_eq!(world.open_run(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_in_which_each_chat_actor_panics_ends_with_an_error_and_its_chat_goes_on() {
    for world in [World::new(), World::first()] {
        world.script_panics(3);
        let mut stream = world.post_text("hello?").await;
        let types = stream.read_to_end().await;
        assert!(types.ends_with("error") && stream.is_done, "{types}");
        let error = stream.find("error")["errorText"].as_str().unwrap().to_owned();
        assert!(error.contains("given up"), "{error}");
        assert_eq!((world.model_calls(), world.open_run()), (3, None));

        world.script([text("Here I am.")]);
        let mut stream = world.post_text("hello?").await;
        stream.read_to_end().await;
        assert_eq!((stream.text().as_str(), world.model_calls()), ("Here I am.", 4));
    }
}

#[tokio::test(start_paused = true)]
async fn requests_to_a_chat_actor_that_panics_fail_and_may_be_repeated() {
    let world = World::new();
    world.script_panics(1);
    world.script([text("One."), text("Two.")]);
    drop(world.post_text("one").await);
    // They are in the mailbox when the actor panics, or come just after.
    let requests: Vec<_> = (0..20).map(|_| world.engine.chat(&world.owner, &world.chat)).collect();
    for reply in futures::future::join_all(requests).await {
        let is_refused =
            matches!(&reply, Err(ReadError::Unavailable(Unavailable::Store(StoreError::Unavailable(_)))));
        let is_read = reply.as_ref().is_ok_and(|view| !view.messages.is_empty());
        assert!(is_read || is_refused, "{reply:?}");
    }
    while world.open_run().is_some() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut stream = world.post_text("two").await;
    stream.read_to_end().await;
    assert!(stream.is_done && !stream.text().is_empty(), "{}", stream.types());
    assert_eq!(world.open_run(), None);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_restored_is_closed_unread() {
    for world in [World::new(), World::first()] {
        world.script([calls(&[("where", json!({}))])]);
        let mut stream = world.post_text_with_hold("where am I?", Some(0)).await;
        let call = stream.read_until("tool-input-available").await;
        stream.read_to_end().await;
        world.script_panics(9);
        world.store.endings_to_fail.store(3, Ordering::SeqCst);
        assert_eq!(world.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
        let mut reader = loop {
            // The actor may panic while the request is in its mailbox.
            match world.engine.resume(&world.owner, &world.chat, None).await {
                Ok(following) => break StreamReader::new(following.unwrap().reader),
                Err(error) => assert!(matches!(error, ReadError::Unavailable(_)), "{error}"),
            }
        };
        let types = reader.read_to_end().await;
        // The third, fourth and fifth resumption have tried to end the run in good order.
        assert_eq!(world.store.endings_to_fail.load(Ordering::SeqCst), 0);
        assert!(types.ends_with("error") && reader.is_done, "{types}");
        assert!(reader.find("error")["errorText"].as_str().unwrap().contains("given up"), "{types}");
        assert_eq!((world.model_calls(), world.open_run()), (4, None));
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

        world.model.clear();
        world.script([text("Here I am.")]);
        let mut stream = world.post_text("hello?").await;
        stream.read_to_end().await;
        assert_eq!((stream.text().as_str(), stream.is_done), ("Here I am.", true));
    }
}

/// No call that is open when a run is closed unread runs afterwards, and no answer to it is accepted.
#[tokio::test(start_paused = true)]
async fn the_open_calls_of_a_run_that_is_closed_unread_are_cancelled() {
    let mut world = World::first();
    world.script([calls(&[("where", json!({})), ("note", json!({"as": "n"}))])]);
    let mut stream = world.post_text_with_hold("where am I?", Some(0)).await;
    stream.read_to_end().await;
    let open = world.open_run().unwrap().calls;
    assert_eq!(
        (open.len(), world.pending().await.len()),
        (2, 1),
        "the second waits for the decision about the first"
    );
    // The run expires while no process is there, and each process that resumes it to end it as expired fails.
    world = world.restarted_at(4000);
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
    assert!(world.tool_log.lock().unwrap().is_empty(), "no call has run");
}
