//! Chats as their users see them, through the engine's public API: no HTTP, no SQL, no waiting (time is paused).

mod answers;
mod attempts;
mod clocks;
mod heartbeat;
mod inbox;
mod instances;
mod results;
#[allow(dead_code, reason = "each test binary uses its part")]
#[path = "../shared/mod.rs"]
mod shared;
mod tools;
mod world;

use std::{sync::atomic::Ordering, time::Duration};

use fermata_engine::model::{ModelError, ModelEvent};
use fermata_protocol::Role;
use serde_json::json;
use world::{World, always, calls, decision, finished, output, says};

#[tokio::test(start_paused = true)]
async fn an_answer_goes_on_on_the_same_stream() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), says("Bern.")]);
    let mut stream = world.say("where am I?").await;
    let call = stream.until("tool-input-available").await;
    assert_eq!(world.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    assert_eq!(
        stream.read_out().await,
        "start start-step tool-input-start tool-input-delta tool-input-available tool-output-available finish-step \
         start-step text-start text-delta text-end finish-step finish"
    );
    assert!(stream.done);
    assert_eq!(world.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stranger_has_nothing_of_a_chat_read() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), says("Bern.")]);
    let mut stream = world.say_holding("where am I?", Some(0)).await;
    let call = stream.until("tool-input-available").await;
    stream.read_out().await;
    let mut stranger = world.another();
    stranger.owner = fermata_tools::Owner::new("mallory");
    for engine in [&world.engine, &stranger.engine] {
        let (whose, chat) = (&stranger.owner, &world.chat);
        let read = || world.store.reads.load(Ordering::SeqCst) + stranger.store.reads.load(Ordering::SeqCst);
        let before = read();
        assert!(matches!(engine.chat(whose, chat).await, Err(fermata_engine::ReadError::NotFound)));
        assert!(engine.resume(whose, chat, None).await.unwrap().is_none());
        engine.stop(whose, chat).await.unwrap();
        assert!(matches!(engine.delete(whose, chat).await, Err(fermata_engine::ReadError::NotFound)));
        let answered = engine.answer(whose, chat, None, vec![output(&call, json!("Zug"))]).await;
        assert_eq!(answered.unwrap_err().to_string(), "There is no chat with this id.");
        let posted =
            stranger.try_post(json!({"id": "c", "message": {"role": "user", "content": "hi"}}), None);
        assert!(matches!(posted.await, Err(fermata_engine::SubmitError::NotFound)));
        assert_eq!(read(), before, "only whose it is was looked at");
    }
    assert_eq!(world.pending().await.len(), 1, "nothing has become of it");
    assert_eq!(world.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_answer_in_the_instant_the_call_is_shown_finds_its_place() {
    for _ in 0..50 {
        let world = World::new();
        world.script([calls(&[("where", json!({}))]), says("ok")]);
        let mut stream = world.say("go").await;
        let call = stream.until("tool-input-available").await;
        world.answer(output(&call, json!(1))).await.unwrap();
        stream.read_out().await;
        assert!(stream.text().ends_with("ok"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_before_the_call_is_shown_is_refused_and_the_call_waits_on() {
    let world = World::new();
    let mouth = world.speak();
    world.script([says("ok")]);
    let mut stream = world.say("go").await;
    mouth.send(Ok(ModelEvent::CallStart { key: 0, tool: "where".into() })).unwrap();
    let call = stream.until("tool-input-start").await;
    let early = world.answer(output(&call, json!(1))).await.unwrap_err();
    assert!(early.contains("does not wait for this kind of answer"), "{early}");
    mouth.send(finished()).unwrap();
    stream.until("tool-input-available").await;
    world.answer(output(&call, json!(2))).await.unwrap();
    stream.read_out().await;
    assert_eq!(stream.find("tool-output-available")["output"], 2);
}

#[tokio::test(start_paused = true)]
async fn the_first_of_two_answers_counts_also_when_the_run_is_over() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), says("ok")]);
    let mut stream = world.say("go").await;
    let call = stream.until("tool-input-available").await;
    world.answer(output(&call, json!({"a": 1, "b": 2}))).await.unwrap();
    stream.read_out().await;
    assert_eq!(world.answer(output(&call, json!({"b": 2, "a": 1}))).await.unwrap(), "success");
    let other = world.answer(output(&call, json!(3))).await.unwrap_err();
    assert!(other.contains("has another answer already"), "{other}");
    assert_eq!(world.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_large_batch_of_answers_is_taken_whole() {
    let world = World::new();
    let many: Vec<_> = (0..300).map(|_| ("where", json!({}))).collect();
    world.script([calls(&many), says("ok")]);
    let mut stream = world.say("go").await;
    stream.until("tool-input-available").await;
    let waiting = world.pending().await;
    let answers = waiting.iter().map(|call| output(call.split(' ').next().unwrap_or(""), json!(1)));
    world.answer_all(answers.collect()).await.unwrap();
    assert_eq!(stream.read_out().await.matches("tool-output-available").count(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_answer_does_not_consume_the_place() {
    let world = World::new();
    world.script([calls(&[("note", json!({}))]), says("ok")]);
    let mut stream = world.say("go").await;
    let call = stream.until("tool-approval-request").await;
    world.answer(output(&call, json!(1))).await.unwrap_err();
    assert_eq!(world.pending().await, [format!("{call} awaiting_approval")]);
    assert_eq!(world.answer(decision(&call, true)).await.unwrap(), "scheduled");
    stream.read_out().await;
    assert!(stream.done);
}

#[tokio::test(start_paused = true)]
async fn an_answer_cannot_reach_another_chats_call_or_another_owners() {
    let mut world = World::new();
    world.script([calls(&[("where", json!({}))]), says("other"), says("ok")]);
    let mut stream = world.say("go").await;
    let call = stream.until("tool-input-available").await;
    world.chat = fermata_protocol::ChatId::new("other");
    world.say("hi").await.read_out().await;
    assert!(world.answer(output(&call, json!(1))).await.unwrap_err().contains("no call"));
    world.chat = fermata_protocol::ChatId::new("c");
    world.owner = fermata_tools::Owner::new("mallory");
    assert!(world.answer(output(&call, json!(1))).await.unwrap_err().contains("no chat"));
    world.owner = fermata_tools::Owner::new("alice");
    world.answer(output(&call, json!(1))).await.unwrap();
    stream.read_out().await;
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_saved_was_not_answered_and_can_be_answered_again() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), says("ok")]);
    let mut stream = world.say("go").await;
    let call = stream.until("tool-input-available").await;
    world.store.fails.store(true, Ordering::SeqCst);
    assert!(world.answer(output(&call, json!(1))).await.unwrap_err().contains("database"));
    assert!(!stream.read_out().await.contains("tool-output"), "what was not saved is not shown");
    world.store.fails.store(false, Ordering::SeqCst);
    assert_eq!(world.pending().await, [format!("{call} executing")]);

    let mut again = world.follow().await.unwrap();
    world.answer(output(&call, json!(2))).await.unwrap();
    again.read_out().await;
    assert_eq!(again.find("tool-output-available")["output"], 2);
}

#[tokio::test(start_paused = true)]
async fn the_hold_ends_the_stream_and_not_the_call() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))])]);
    let mouth = world.speak();
    let begun = tokio::time::Instant::now();
    let mut stream = world.say_holding("where?", Some(10)).await;
    let seen = stream.read_out().await;
    assert!(seen.ends_with("tool-input-available finish-step finish"), "{seen}");
    assert_eq!(begun.elapsed().as_secs(), 10);
    assert!(world.follow().await.is_none());
    assert_eq!(world.messages().await.len(), 2, "the record has the open call");
    let call = stream.find("tool-input-available")["toolCallId"].as_str().unwrap().to_owned();
    world.answer(output(&call, json!("Bern"))).await.unwrap();
    let mut rest = world.follow().await.unwrap();
    mouth.send(Ok(ModelEvent::Text("Bern.".into()))).unwrap();
    mouth.send(finished()).unwrap();
    let all = rest.read_out().await;
    assert_eq!(
        all,
        "start start-step tool-input-start tool-input-delta tool-input-available tool-output-available finish-step \
         start-step text-start text-delta text-end finish-step finish"
    );
    assert_eq!(world.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_hold_does_not_count_while_something_is_at_work() {
    let world = World::new();
    world.script([calls(&[("run", json!({"does": "waits"})), ("where", json!({}))])]);
    let begun = tokio::time::Instant::now();
    let mut stream = world.say_holding("go", Some(1)).await;
    let seen = stream.read_out().await;
    assert!(seen.ends_with("tool-output-available finish-step finish"), "{seen}");
    assert_eq!(begun.elapsed().as_secs(), 6, "five for the tool, and then the hold");
}

#[tokio::test(start_paused = true)]
async fn nobody_answers_and_the_call_expires_whoever_listens() {
    for hold in [0, 100_000] {
        let world = World::new();
        world.script([calls(&[("where", json!({})), ("note", json!({}))]), says("next")]);
        let mut stream = world.say_holding("go", Some(hold)).await;
        let call = stream.until("tool-approval-request").await;
        if hold == 0 {
            stream.read_out().await;
            tokio::time::sleep(Duration::from_secs(3602)).await;
        } else {
            let seen = stream.read_out().await;
            assert!(
                seen.ends_with(
                    "tool-output-error tool-output-error finish-step start-step finish-step finish"
                ),
                "{seen}"
            );
            assert!(stream.done);
        }
        assert!(world.pending().await.is_empty());
        let late = world.answer(decision(&call, true)).await.unwrap_err();
        assert!(late.contains("expired or was cancelled"), "{late}");
        world.say("and now?").await.read_out().await;
        let told = format!("{:?}", world.model.asked.lock().unwrap()[1]);
        assert!(told.contains("Expired: nobody answered"), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_on_one_resource_run_one_after_the_other_and_others_beside_them() {
    let world = World::new();
    world.script([
        calls(&[
            ("note", json!({"as": "1", "does": "waits"})),
            ("run", json!({"as": "beside"})),
            ("note", json!({"as": "2"})),
        ]),
        says("ok"),
    ]);
    let mut stream = world.say("go").await;
    let call = stream.until("tool-approval-request").await;
    world.answer(always(&call)).await.unwrap();
    stream.read_out().await;
    let mut done = world.done.lock().unwrap().clone();
    done.retain(|line| !line.contains("beside"));
    assert_eq!(done, ["begins 1", "ends 1", "begins 2", "ends 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_fails_panics_or_hangs_fails_its_call_and_not_the_run() {
    let world = World::new();
    let does = |what: &str| ("run", json!({"does": what}));
    world.script([calls(&[does("fails"), does("panics"), does("hangs")]), says("ok")]);
    let mut stream = world.say("go").await;
    stream.read_out().await;
    let errors: Vec<_> = stream.chunks.iter().filter_map(|chunk| chunk["errorText"].as_str()).collect();
    assert_eq!(
        errors,
        [
            "as it was told",
            "The tool failed inside the server.",
            "The tool took longer than 30s and was ended."
        ]
    );
    assert_eq!(stream.text(), "ok");
}

#[tokio::test(start_paused = true)]
async fn stop_ends_the_model_and_the_tools() {
    let world = World::new();
    let mouth = world.speak();
    let mut stream = world.say("go").await;
    mouth.send(Ok(ModelEvent::Text("so".into()))).unwrap();
    stream.until("text-delta").await;
    assert_eq!(world.model.listened.load(Ordering::SeqCst), 1);
    world.engine.stop(&world.owner, &world.chat).await.unwrap();
    assert_eq!(world.model.listened.load(Ordering::SeqCst), 0, "the request upstream is dropped");
    assert!(stream.read_out().await.ends_with("text-end finish-step abort finish"));

    world.script([calls(&[("run", json!({"as": "tool", "does": "hangs"}))]), says("next")]);
    let mut stream = world.say("again").await;
    stream.until("tool-input-available").await;
    tokio::task::yield_now().await;
    world.engine.stop(&world.owner, &world.chat).await.unwrap();
    assert!(
        stream
            .read_out()
            .await
            .ends_with("tool-output-error finish-step start-step finish-step abort finish")
    );
    world.say("and now").await.read_out().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_message_supersedes_and_outputs_that_come_along_are_taken() {
    let world = World::new();
    world.script([calls(&[("where", json!({})), ("color", json!({}))]), says("ok")]);
    let mut stream = world.say("go").await;
    let call = stream.until("tool-input-available").await;
    let message = stream.find("start")["messageId"].clone();
    let part = json!({"type": "tool-where", "toolCallId": call, "state": "output-available", "input": {}, "output": "Bern"});
    let body = json!({"id": "c", "messages": [
        {"id": message, "role": "assistant", "parts": [{"type": "step-start"}, part]},
        {"id": "u2", "role": "user", "parts": [{"type": "text", "text": "never mind"}]},
    ]});
    let mut next = world.post(body).await;
    let seen = stream.read_out().await;
    assert!(seen.ends_with("tool-input-available tool-input-available abort"), "{seen}");
    assert!(stream.done);
    next.read_out().await;
    let told = format!("{:?}", world.model.asked.lock().unwrap()[1].messages);
    assert!(
        told.contains("content: [Text(\"Bern\")]") && told.contains("the conversation went on"),
        "{told}"
    );
}

#[tokio::test(start_paused = true)]
async fn to_make_again_what_never_arrived_is_to_say_it() {
    let world = World::new();
    world.script([says("one"), says("two")]);
    world.say("first").await.read_out().await;
    let lost = json!({"id": "lost", "role": "user", "parts": [{"type": "text", "text": "second"}]});
    let body = json!({"id": "c", "trigger": "regenerate-message", "messages": [lost]});
    assert_eq!(world.post(body.clone()).await.read_out().await.split(' ').next_back(), Some("finish"));
    let words: Vec<_> = world.messages().await.iter().map(|message| message.role).collect();
    assert_eq!(words, [Role::User, Role::Assistant, Role::User, Role::Assistant]);
    // Now that it has arrived, its answer is made again.
    world.script([says("three")]);
    world.post(body).await.read_out().await;
    assert_eq!(world.messages().await.len(), 4);
    // An edit of it is lost, too.
    world.script([says("four")]);
    let edited = json!({"id": "lost", "role": "user", "parts": [{"type": "text", "text": "third"}]});
    let body = json!({"id": "c", "trigger": "regenerate-message", "messages": [edited]});
    world.post(body).await.read_out().await;
    let messages = world.messages().await;
    assert_eq!(messages.len(), 4);
    assert!(format!("{:?}", messages[2].parts).contains("third"), "{:?}", messages[2].parts);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_goes_away_changes_nothing() {
    let world = World::new();
    let mouth = world.speak();
    drop(world.say("go").await);
    mouth.send(Ok(ModelEvent::Text("all ".into()))).unwrap();
    let mut second = world.follow().await.unwrap();
    mouth.send(Ok(ModelEvent::Text("of it".into()))).unwrap();
    mouth.send(finished()).unwrap();
    second.read_out().await;
    assert_eq!(second.text(), "all of it");
    assert_eq!(world.messages().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_breaks_off_or_falls_silent_fails_the_run_and_the_next_turn_works() {
    let world = World::new();
    let cut = vec![Ok(ModelEvent::Text("half".into())), Err(ModelError::Network("reset by peer".into()))];
    let short = vec![Ok(ModelEvent::CallStart { key: 0, tool: "where".into() })];
    world.script([cut, short]);
    for _ in 0..2 {
        let mut stream = world.say("go").await;
        assert!(stream.read_out().await.ends_with("finish-step error"));
        let words = stream.find("error")["errorText"].as_str().unwrap();
        assert!(!words.contains("peer"), "a provider's words never reach a client: {words}");
    }
    let mouth = world.speak();
    let mut silent = world.say("go").await;
    assert!(silent.read_out().await.ends_with("finish-step error"));
    drop(mouth);
    world.script([says("ok")]);
    let mut stream = world.say("go").await;
    stream.read_out().await;
    assert_eq!(stream.text(), "ok");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_says_nothing_is_asked_twice_more_and_one_that_has_spoken_is_not() {
    let world = World::new();
    let silent = [world.speak(), world.speak()];
    world.script([says("at last")]);
    let mut stream = world.say("go").await;
    stream.read_out().await;
    assert_eq!((stream.text().as_str(), world.asked()), ("at last", 3));
    drop(silent);
    let mouth = world.speak();
    mouth.send(Ok(ModelEvent::Text("so".into()))).unwrap();
    let mut stream = world.say("again").await;
    assert!(stream.read_out().await.ends_with("text-end finish-step error"));
    assert_eq!(world.asked(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_does_not_come_to_an_end_is_ended() {
    let world = World::new();
    let mouth = world.speak();
    let mut stream = world.say("go").await;
    let talk = async {
        while mouth.send(Ok(ModelEvent::Text("and ".into()))).is_ok() {
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
    };
    let (seen, ()) = tokio::join!(stream.read_out(), talk);
    assert!(seen.ends_with("text-end finish-step error"), "{seen}");
    assert!(stream.find("error")["errorText"].as_str().unwrap().contains("too long"));
}

#[tokio::test(start_paused = true)]
async fn a_restart_loses_nothing_that_waits() {
    let world = World::new();
    world.script([calls(&[("note", json!({"as": "n"})), ("where", json!({}))]), says("ok")]);
    let mut stream = world.say("go").await;
    let note = stream.until("tool-approval-request").await;
    let before = stream.types();
    let world = world.restarted();
    assert_eq!(world.pending().await, [format!("{note} awaiting_approval")]);
    let mut again = world.follow().await.unwrap();
    again.until("tool-approval-request").await;
    assert_eq!(again.types(), before, "the stream is the same from its start");
    world.answer(decision(&note, true)).await.unwrap();
    again.until("tool-output-available").await;
    let world = world.restarted();
    let place = world.pending().await;
    let call = place[0].split(' ').next().unwrap().to_owned();
    let mut last = world.follow().await.unwrap();
    world.answer(output(&call, json!("here"))).await.unwrap();
    last.read_out().await;
    assert!(last.text().ends_with("ok"));
    assert!(
        world.done.lock().unwrap().is_empty(),
        "the note was written before the restart and is not written again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_call_that_a_restart_cut_off_fails_and_is_not_repeated() {
    let world = World::new();
    world.script([calls(&[("run", json!({"as": "x", "does": "hangs"}))]), says("I see.")]);
    let mut stream = world.say("go").await;
    stream.until("tool-input-available").await;
    let world = world.restarted();
    let mut again = world.follow().await.unwrap();
    again.read_out().await;
    assert!(again.find("tool-output-error")["errorText"].as_str().unwrap().contains("restarted"));
    assert!(again.text().ends_with("I see."));
    assert!(world.done.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn always_is_remembered_in_this_chat_across_a_restart() {
    let world = World::new();
    world.script([calls(&[("note", json!({}))]), says("1"), calls(&[("note", json!({}))]), says("2")]);
    let mut stream = world.say("go").await;
    let call = stream.until("tool-approval-request").await;
    world.answer(always(&call)).await.unwrap();
    stream.read_out().await;
    let mut world = world.restarted();
    let seen = world.say("again").await.read_out().await;
    assert!(!seen.contains("tool-approval-request"), "{seen}");
    world.chat = fermata_protocol::ChatId::new("another");
    world.script([calls(&[("note", json!({}))])]);
    world.say("here").await.until("tool-approval-request").await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_has_no_more_open_runs_than_allowed() {
    let mut world = World::new();
    let mut streams = Vec::new();
    for n in 0..3 {
        world.script([calls(&[("where", json!({}))])]);
        world.chat = fermata_protocol::ChatId::new(format!("c{n}"));
        let mut stream = world.say("go").await;
        stream.until("tool-input-available").await;
        streams.push(stream);
    }
    let body = json!({"id": "c3", "message": {"role": "user", "content": "one more"}});
    let refused = world.try_post(body.clone(), None).await.err().unwrap();
    assert!(refused.to_string().contains("limit of 3 open runs (runs_per_owner)"), "{refused}");
    world.engine.stop(&world.owner, &world.chat).await.unwrap();
    world.script([says("ok")]);
    world.try_post(body, None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_deleted_chat_ends_its_stream_and_knows_nothing() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))])]);
    let mut stream = world.say("go").await;
    let call = stream.until("tool-input-available").await;
    world.engine.delete(&world.owner, &world.chat).await.unwrap();
    stream.read_out().await;
    assert!(stream.done);
    assert!(world.engine.chat(&world.owner, &world.chat).await.is_err());
    assert!(world.answer(output(&call, json!(1))).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn shutdown_tells_the_readers_and_the_call_waits_for_the_next_process() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), says("ok")]);
    let mut stream = world.say("go").await;
    let call = stream.until("tool-input-available").await;
    world.engine.shutdown().await;
    assert!(stream.read_out().await.ends_with("tool-input-available error"));
    assert!(world.answer(output(&call, json!(1))).await.unwrap_err().contains("shutting down"));
    let world = world.restarted();
    let mut again = world.follow().await.unwrap();
    world.answer(output(&call, json!(1))).await.unwrap();
    assert!(!again.read_out().await.contains("error"));
}

/// What a stock client posts that shows these calls in its last step.
fn shows(message: &serde_json::Value, parts: &[serde_json::Value]) -> serde_json::Value {
    let mut all = vec![json!({"type": "step-start"})];
    all.extend_from_slice(parts);
    json!({"id": "c", "messages": [{"id": message, "role": "assistant", "parts": all}]})
}

fn has_output(call: &str, output: &str) -> serde_json::Value {
    json!({"type": "tool-where", "toolCallId": call, "state": "output-available", "input": {}, "output": output})
}

#[tokio::test(start_paused = true)]
async fn a_tab_whose_answer_came_too_late_is_shown_what_became_of_the_call() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), says("never mind, then")]);
    let mut stream = world.say_holding("go", Some(0)).await;
    stream.read_out().await;
    let (call, message) = (
        stream.find("tool-input-available")["toolCallId"].clone(),
        stream.find("start")["messageId"].clone(),
    );
    world.say("go on without").await.read_out().await;
    let mut healed = world.post(shows(&message, &[has_output(call.as_str().unwrap(), "mine")])).await;
    assert_eq!(
        healed.read_out().await,
        "start tool-output-error finish-step start-step finish-step finish",
        "an empty step at the end keeps the client from posting again"
    );
    assert_eq!(healed.find("start")["messageId"], message);
    assert_eq!(world.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_output_that_lost_against_another_is_corrected_in_the_tab_that_has_it() {
    let world = World::new();
    world.script([calls(&[("where", json!({})), ("where", json!({}))]), says("ok")]);
    let mut stream = world.say_holding("go", Some(0)).await;
    stream.read_out().await;
    let ids: Vec<_> = stream.chunks.iter().filter(|chunk| chunk["type"] == "tool-input-available").collect();
    let ids: Vec<_> = ids.iter().map(|chunk| chunk["toolCallId"].as_str().unwrap().to_owned()).collect();
    let message = stream.find("start")["messageId"].clone();
    world.answer(output(&ids[0], json!("true"))).await.unwrap();
    let mut healed =
        world.post(shows(&message, &[has_output(&ids[0], "mine"), has_output(&ids[1], "other")])).await;
    healed.read_out().await;
    let shown: Vec<_> = healed.chunks.iter().filter_map(|chunk| chunk["output"].as_str()).collect();
    assert_eq!(shown, ["true", "other"]);
    assert_eq!(healed.text(), "ok");
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_a_restart_that_outlasted_the_hold_goes_on_in_one_stream() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))])]);
    let mouth = world.speak();
    let mut stream = world.say_holding("go", Some(10)).await;
    let call = stream.until("tool-input-available").await;
    let message = stream.find("start")["messageId"].clone();
    drop(stream);
    let world = world.restarted_after(60);
    let mut next = world.post(shows(&message, &[has_output(&call, "here")])).await;
    mouth.send(Ok(ModelEvent::Text("ok".into()))).unwrap();
    mouth.send(finished()).unwrap();
    assert_eq!(
        next.read_out().await,
        "start tool-output-available finish-step start-step text-start text-delta text-end finish-step finish"
    );
}
