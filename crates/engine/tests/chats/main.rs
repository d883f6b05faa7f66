//! Chats through the engine's public API: without HTTP and SQL, and without waiting, because time is paused.

mod answers;
mod approvals;
mod assistants;
mod attempts;
mod audit;
mod capacity;
mod changed_tools;
mod clocks;
mod confirm;
mod consent;
mod context;
mod cut_off;
mod deletion;
mod failures;
mod heartbeat;
mod holds;
mod instances;
mod listing;
mod mailbox;
mod memories;
mod model_requests;
mod outages;
mod plans;
mod provider_metadata;
mod questions;
mod reading;
mod refused;
mod results;
#[allow(dead_code, reason = "each test binary uses its part")]
#[path = "../shared/mod.rs"]
mod shared;
mod sources;
mod summaries;
mod tools;
mod world;

use std::{sync::atomic::Ordering, time::Duration};

use fermata_engine::model::{ModelError, ModelEvent};
use fermata_protocol::Role;
use serde_json::json;
use world::{World, always, calls, decision, finished, output, text};

#[tokio::test(start_paused = true)]
async fn after_an_answer_the_run_goes_on_in_the_same_stream() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), text("Bern.")]);
    let mut stream = world.post_text("where am I?").await;
    let call = stream.read_until("tool-input-available").await;
    assert_eq!(world.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    assert_eq!(
        stream.read_to_end().await,
        "start start-step tool-input-start tool-input-delta tool-input-available tool-output-available finish-step \
         start-step text-start text-delta text-end finish-step finish"
    );
    assert!(stream.is_done);
    assert_eq!(world.model_calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_of_another_user_reads_only_the_owner_of_the_chat() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), text("Bern.")]);
    let mut stream = world.post_text_with_hold("where am I?", Some(0)).await;
    let call = stream.read_until("tool-input-available").await;
    stream.read_to_end().await;
    let mut stranger = world.another();
    stranger.owner = fermata_tools::Owner::new("mallory");
    for engine in [&world.engine, &stranger.engine] {
        let (owner, chat) = (&stranger.owner, &world.chat);
        let read = || world.store.reads.load(Ordering::SeqCst) + stranger.store.reads.load(Ordering::SeqCst);
        let before = read();
        assert!(matches!(engine.chat(owner, chat).await, Err(fermata_engine::ReadError::NotFound)));
        assert!(engine.resume(owner, chat, None).await.unwrap().is_none());
        engine.stop(owner, chat).await.unwrap();
        assert!(matches!(engine.delete(owner, chat, false).await, Err(fermata_engine::ReadError::NotFound)));
        let answered = engine
            .answer(
                fermata_tools::Decider::new(owner.clone(), fermata_tools::DecisionChannel::Api, None),
                chat,
                vec![output(&call, json!("Zug"))],
            )
            .await;
        assert_eq!(answered.unwrap_err().to_string(), "There is no chat with this id.");
        let posted =
            stranger.try_post(json!({"id": "c", "message": {"role": "user", "content": "hi"}}), None);
        assert!(matches!(posted.await, Err(fermata_engine::SubmitError::NotFound)));
        assert_eq!(read(), before, "only the owner was read");
    }
    assert_eq!(world.pending().await.len(), 1, "the call still waits");
    assert_eq!(world.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_answer_at_the_moment_at_which_the_call_is_shown_is_accepted() {
    for _ in 0..50 {
        let world = World::new();
        world.script([calls(&[("where", json!({}))]), text("ok")]);
        let mut stream = world.post_text("go").await;
        let call = stream.read_until("tool-input-available").await;
        world.answer(output(&call, json!(1))).await.unwrap();
        stream.read_to_end().await;
        assert!(stream.text().ends_with("ok"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_before_the_call_is_shown_is_refused_and_the_call_waits_on() {
    let world = World::new();
    let model = world.script_streamed();
    world.script([text("ok")]);
    let mut stream = world.post_text("go").await;
    model.send(Ok(ModelEvent::CallStart { key: 0, tool: "where".into() })).unwrap();
    let call = stream.read_until("tool-input-start").await;
    let early = world.answer(output(&call, json!(1))).await.unwrap_err();
    assert!(early.contains("does not wait for this kind of answer"), "{early}");
    model.send(finished()).unwrap();
    stream.read_until("tool-input-available").await;
    world.answer(output(&call, json!(2))).await.unwrap();
    stream.read_to_end().await;
    assert_eq!(stream.find("tool-output-available")["output"], 2);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_shown_before_the_model_is_asked_again() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-input-available").await;
    world.answer(output(&call, json!(1))).await.unwrap();
    stream.read_until("tool-output-available").await;
    assert_eq!(world.model_calls(), 1);
    stream.read_to_end().await;
    assert_eq!(world.model_calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_first_of_two_answers_counts_also_when_the_run_is_over() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-input-available").await;
    world.answer(output(&call, json!({"a": 1, "b": 2}))).await.unwrap();
    stream.read_to_end().await;
    assert_eq!(world.answer(output(&call, json!({"b": 2, "a": 1}))).await.unwrap(), "success");
    let other = world.answer(output(&call, json!(3))).await.unwrap_err();
    assert!(other.contains("has another answer already"), "{other}");
    assert_eq!(world.model_calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_large_batch_of_answers_is_accepted_as_a_whole() {
    let world = World::new();
    let many: Vec<_> = (0..300).map(|_| ("where", json!({}))).collect();
    world.script([calls(&many), text("ok")]);
    let mut stream = world.post_text("go").await;
    stream.read_until("tool-input-available").await;
    let waiting = world.pending().await;
    let answers = waiting.iter().map(|call| output(call.split(' ').next().unwrap_or(""), json!(1)));
    world.answer_all(answers.collect()).await.unwrap();
    assert_eq!(stream.read_to_end().await.matches("tool-output-available").count(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_answer_does_not_consume_the_call() {
    let world = World::new();
    world.script([calls(&[("note", json!({}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-approval-request").await;
    world.answer(output(&call, json!(1))).await.unwrap_err();
    assert_eq!(world.pending().await, [format!("{call} awaiting_approval")]);
    assert_eq!(world.answer(decision(&call, true)).await.unwrap(), "scheduled");
    stream.read_to_end().await;
    assert!(stream.is_done);
}

#[tokio::test(start_paused = true)]
async fn an_answer_cannot_reach_another_chats_call_or_another_owners() {
    let mut world = World::new();
    world.script([calls(&[("where", json!({}))]), text("other"), text("ok")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-input-available").await;
    world.chat = fermata_protocol::ChatId::new("other");
    world.post_text("hi").await.read_to_end().await;
    assert!(world.answer(output(&call, json!(1))).await.unwrap_err().contains("no call"));
    world.chat = fermata_protocol::ChatId::new("c");
    world.owner = fermata_tools::Owner::new("mallory");
    assert!(world.answer(output(&call, json!(1))).await.unwrap_err().contains("no chat"));
    world.owner = fermata_tools::Owner::new("alice");
    world.answer(output(&call, json!(1))).await.unwrap();
    stream.read_to_end().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_could_not_be_saved_can_be_given_again() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-input-available").await;
    world.store.fails.store(true, Ordering::SeqCst);
    assert!(world.answer(output(&call, json!(1))).await.unwrap_err().contains("database"));
    assert!(!stream.read_to_end().await.contains("tool-output"), "what was not saved is not shown");
    world.store.fails.store(false, Ordering::SeqCst);
    assert_eq!(world.pending().await, [format!("{call} executing")]);

    let mut again = world.follow().await.unwrap();
    world.answer(output(&call, json!(2))).await.unwrap();
    again.read_to_end().await;
    assert_eq!(again.find("tool-output-available")["output"], 2);
}

#[tokio::test(start_paused = true)]
async fn the_hold_ends_the_stream_and_not_the_call() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))])]);
    let model = world.script_streamed();
    let begun = tokio::time::Instant::now();
    let mut stream = world.post_text_with_hold("where?", Some(10)).await;
    let types = stream.read_to_end().await;
    assert!(types.ends_with("tool-input-available finish-step finish"), "{types}");
    assert_eq!(begun.elapsed().as_secs(), 10);
    assert!(world.follow().await.is_none());
    assert_eq!(world.messages().await.len(), 2, "the record has the open call");
    let call = stream.find("tool-input-available")["toolCallId"].as_str().unwrap().to_owned();
    world.answer(output(&call, json!("Bern"))).await.unwrap();
    let mut rest = world.follow().await.unwrap();
    model.send(Ok(ModelEvent::Text("Bern.".into()))).unwrap();
    model.send(finished()).unwrap();
    let types = rest.read_to_end().await;
    assert_eq!(
        types,
        "start start-step tool-input-start tool-input-delta tool-input-available tool-output-available finish-step \
         start-step text-start text-delta text-end finish-step finish"
    );
    assert_eq!(world.model_calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_hold_does_not_count_while_something_is_at_work() {
    let world = World::new();
    world.script([calls(&[("run", json!({"does": "waits"})), ("where", json!({}))])]);
    let begun = tokio::time::Instant::now();
    let mut stream = world.post_text_with_hold("go", Some(1)).await;
    let types = stream.read_to_end().await;
    assert!(types.ends_with("tool-output-available finish-step finish"), "{types}");
    assert_eq!(begun.elapsed().as_secs(), 6, "five for the tool, and then the hold");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_answers_expires_with_or_without_readers() {
    for hold in [0, 100_000] {
        let world = World::new();
        world.script([calls(&[("where", json!({})), ("note", json!({}))]), text("next")]);
        let mut stream = world.post_text_with_hold("go", Some(hold)).await;
        let call = stream.read_until("tool-approval-request").await;
        if hold == 0 {
            stream.read_to_end().await;
            tokio::time::sleep(Duration::from_secs(3602)).await;
        } else {
            let types = stream.read_to_end().await;
            let errors = "message-metadata tool-output-error message-metadata tool-output-error";
            assert!(
                types.ends_with(&format!("{errors} finish-step start-step finish-step finish")),
                "{types}"
            );
            assert!(stream.is_done);
        }
        assert!(world.pending().await.is_empty());
        let late = world.answer(decision(&call, true)).await.unwrap_err();
        assert!(late.contains("expired or was cancelled"), "{late}");
        world.post_text("and now?").await.read_to_end().await;
        let prompt = format!("{:?}", world.model.requests.lock().unwrap()[1]);
        assert!(prompt.contains("Expired: nobody answered"), "{prompt}");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_on_one_resource_run_one_after_the_other() {
    let world = World::new();
    world.script([
        calls(&[
            ("note", json!({"as": "1", "does": "waits"})),
            ("run", json!({"as": "other"})),
            ("note", json!({"as": "2"})),
        ]),
        text("ok"),
    ]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-approval-request").await;
    world.answer(always(&call)).await.unwrap();
    stream.read_to_end().await;
    let mut log = world.tool_log.lock().unwrap().clone();
    log.retain(|event| !event.contains("other"));
    assert_eq!(log, ["begins 1", "ends 1", "begins 2", "ends 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_fails_panics_or_hangs_fails_its_call_and_not_the_run() {
    let world = World::new();
    let does = |what: &str| ("run", json!({"does": what}));
    world.script([calls(&[does("fails"), does("panics"), does("hangs")]), text("ok")]);
    let mut stream = world.post_text("go").await;
    stream.read_to_end().await;
    let errors: Vec<_> = stream.chunks.iter().filter_map(|chunk| chunk["errorText"].as_str()).collect();
    assert_eq!(
        errors,
        [
            "the input asks for it",
            "The tool failed inside the server.",
            "The tool took longer than 30s and was ended."
        ]
    );
    assert_eq!(stream.text(), "ok");
}

#[tokio::test(start_paused = true)]
async fn stop_ends_the_model_and_the_tools() {
    let world = World::new();
    let model = world.script_streamed();
    let mut stream = world.post_text("go").await;
    model.send(Ok(ModelEvent::Text("so".into()))).unwrap();
    stream.read_until("text-delta").await;
    assert_eq!(world.model.open_streams.load(Ordering::SeqCst), 1);
    world.engine.stop(&world.owner, &world.chat).await.unwrap();
    assert_eq!(world.model.open_streams.load(Ordering::SeqCst), 0, "the request to the model is dropped");
    assert!(stream.read_to_end().await.ends_with("text-end finish-step abort finish"));

    world.script([calls(&[("run", json!({"as": "tool", "does": "hangs"}))]), text("next")]);
    let mut stream = world.post_text("again").await;
    stream.read_until("tool-input-available").await;
    tokio::task::yield_now().await;
    world.engine.stop(&world.owner, &world.chat).await.unwrap();
    assert!(
        stream
            .read_to_end()
            .await
            .ends_with("tool-output-error finish-step start-step finish-step abort finish")
    );
    world.post_text("and now").await.read_to_end().await;
}

#[tokio::test(start_paused = true)]
async fn a_model_that_never_pauses_can_be_stopped() {
    let world = World::new();
    world.script_endless();
    let mut stream = world.post_text("hello?").await;
    world.engine.stop(&world.owner, &world.chat).await.unwrap();
    stream.read_to_end().await;
    assert_eq!((world.open_run(), world.model.open_streams.load(Ordering::SeqCst)), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn a_new_message_supersedes_the_run_and_outputs_that_come_with_it_are_accepted() {
    let world = World::new();
    world.script([calls(&[("where", json!({})), ("color", json!({}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-input-available").await;
    let message = stream.find("start")["messageId"].clone();
    let part = json!({"type": "tool-where", "toolCallId": call, "state": "output-available", "input": {}, "output": "Bern"});
    let body = json!({"id": "c", "messages": [
        {"id": message, "role": "assistant", "parts": [{"type": "step-start"}, part]},
        {"id": "u2", "role": "user", "parts": [{"type": "text", "text": "never mind"}]},
    ]});
    let mut next = world.post(body).await;
    let types = stream.read_to_end().await;
    assert!(types.ends_with("tool-input-available tool-input-available abort"), "{types}");
    assert!(stream.is_done);
    next.read_to_end().await;
    let prompt = format!("{:?}", world.model.requests.lock().unwrap()[1].messages);
    assert!(
        prompt.contains("content: [Text(\"Bern\")]") && prompt.contains("the conversation went on"),
        "{prompt}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_known_id_is_an_edit_only_if_the_post_says_so_or_shows_it_at_its_place() {
    let said =
        |id: &str, text: &str| json!({"id": id, "role": "user", "parts": [{"type": "text", "text": text}]});
    // The texts of the user's messages afterwards; those of an edit and of what it drops are not among them.
    let (edited, added) = (vec!["one", "other"], vec!["one", "two", "other"]);
    for (what, expected) in [
        ("alone", &added),
        ("named", &edited),
        ("at its place", &edited),
        ("behind the end", &added),
        ("with the id of an answer", &added),
        ("the first one, behind the end", &added),
    ] {
        let world = World::new();
        world.script([text("1"), text("2"), text("3")]);
        for (id, words) in [("u1", "one"), ("u2", "two")] {
            world.post(json!({"id": "c", "message": said(id, words)})).await.read_to_end().await;
        }
        let record = json!(world.messages().await);
        let (u1, a1, u2, a2) = (&record[0], &record[1], &record[2], &record[3]);
        let other = said("u2", "other");
        let body = match what {
            "alone" => json!({"id": "c", "messages": [other]}),
            "named" => json!({"id": "c", "messages": [other], "messageId": "u2"}),
            "at its place" => json!({"id": "c", "messages": [u1, a1, other]}),
            "behind the end" => json!({"id": "c", "messages": [u1, a1, u2, a2, other]}),
            "with the id of an answer" => {
                json!({"id": "c", "messages": [said(a1["id"].as_str().unwrap(), "other")]})
            }
            _ => json!({"id": "c", "messages": [u1, a1, u2, a2, said("u1", "other")]}),
        };
        world.post(body).await.read_to_end().await;
        let messages = world.messages().await;
        let users = messages.iter().filter(|message| message.role == Role::User);
        let texts: Vec<&str> = users.filter_map(|message| message.parts[0].as_text()).collect();
        assert_eq!(texts, *expected, "{what}");
        let ids: std::collections::HashSet<_> = messages.iter().map(|message| &message.id).collect();
        assert_eq!(ids.len(), messages.len(), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_regeneration_for_a_message_that_never_arrived_posts_the_message() {
    let world = World::new();
    world.script([text("one"), text("two")]);
    world.post_text("first").await.read_to_end().await;
    let lost = json!({"id": "lost", "role": "user", "parts": [{"type": "text", "text": "second"}]});
    let body = json!({"id": "c", "trigger": "regenerate-message", "messages": [lost]});
    assert_eq!(world.post(body.clone()).await.read_to_end().await.split(' ').next_back(), Some("finish"));
    let roles: Vec<_> = world.messages().await.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User, Role::Assistant]);
    // Now that the message has arrived, the same post regenerates its answer.
    world.script([text("three")]);
    world.post(body).await.read_to_end().await;
    assert_eq!(world.messages().await.len(), 4);
    // The same holds if an edit of the message was lost.
    world.script([text("four")]);
    let edited = json!({"id": "lost", "role": "user", "parts": [{"type": "text", "text": "third"}]});
    let body = json!({"id": "c", "trigger": "regenerate-message", "messages": [edited]});
    world.post(body).await.read_to_end().await;
    let messages = world.messages().await;
    assert_eq!(messages.len(), 4);
    assert!(format!("{:?}", messages[2].parts).contains("third"), "{:?}", messages[2].parts);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_goes_away_changes_nothing() {
    let world = World::new();
    let model = world.script_streamed();
    drop(world.post_text("go").await);
    model.send(Ok(ModelEvent::Text("all ".into()))).unwrap();
    let mut second = world.follow().await.unwrap();
    model.send(Ok(ModelEvent::Text("of it".into()))).unwrap();
    model.send(finished()).unwrap();
    second.read_to_end().await;
    assert_eq!(second.text(), "all of it");
    assert_eq!(world.messages().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_breaks_off_or_is_silent_fails_the_run_and_the_next_one_works() {
    let world = World::new();
    let cut = vec![Ok(ModelEvent::Text("half".into())), Err(ModelError::Network("reset by peer".into()))];
    let short = vec![Ok(ModelEvent::CallStart { key: 0, tool: "where".into() })];
    world.script([cut, short]);
    for _ in 0..2 {
        let mut stream = world.post_text("go").await;
        assert!(stream.read_to_end().await.ends_with("finish-step error"));
        let error = stream.find("error")["errorText"].as_str().unwrap();
        assert!(!error.contains("peer"), "a provider's text never reaches a client: {error}");
    }
    let model = world.script_streamed();
    let mut silent = world.post_text("go").await;
    assert!(silent.read_to_end().await.ends_with("finish-step error"));
    drop(model);
    world.script([text("ok")]);
    let mut stream = world.post_text("go").await;
    stream.read_to_end().await;
    assert_eq!(stream.text(), "ok");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_sends_nothing_is_retried_twice_and_one_that_has_begun_is_not() {
    let world = World::new();
    let silent = [world.script_streamed(), world.script_streamed()];
    world.script([text("at last")]);
    let mut stream = world.post_text("go").await;
    stream.read_to_end().await;
    assert_eq!((stream.text().as_str(), world.model_calls()), ("at last", 3));
    drop(silent);
    let model = world.script_streamed();
    model.send(Ok(ModelEvent::Text("so".into()))).unwrap();
    let mut stream = world.post_text("again").await;
    assert!(stream.read_to_end().await.ends_with("text-end finish-step error"));
    assert_eq!(world.model_calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_goes_on_for_too_long_is_cut_off() {
    let world = World::new();
    let model = world.script_streamed();
    let mut stream = world.post_text("go").await;
    let send = async {
        while model.send(Ok(ModelEvent::Text("and ".into()))).is_ok() {
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
    };
    let (types, ()) = tokio::join!(stream.read_to_end(), send);
    assert!(types.ends_with("text-end finish-step error"), "{types}");
    assert!(stream.find("error")["errorText"].as_str().unwrap().contains("too long"));
}

#[tokio::test(start_paused = true)]
async fn a_restart_loses_nothing_that_waits() {
    let world = World::new();
    world.script([calls(&[("note", json!({"as": "n"})), ("where", json!({}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    let note = stream.read_until("tool-approval-request").await;
    let before = stream.types();
    let world = world.restarted();
    assert_eq!(world.pending().await, [format!("{note} awaiting_approval")]);
    let mut again = world.follow().await.unwrap();
    again.read_until("tool-approval-request").await;
    assert_eq!(again.types(), before, "the stream is the same from its start");
    world.answer(decision(&note, true)).await.unwrap();
    again.read_until("tool-output-available").await;
    let world = world.restarted();
    let pending = world.pending().await;
    let call = pending[0].split(' ').next().unwrap().to_owned();
    let mut last = world.follow().await.unwrap();
    world.answer(output(&call, json!("here"))).await.unwrap();
    last.read_to_end().await;
    assert!(last.text().ends_with("ok"));
    assert!(
        world.tool_log.lock().unwrap().is_empty(),
        "the note was written before the restart and is not written again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_call_that_a_restart_cut_off_fails_and_is_not_repeated() {
    let world = World::new();
    world.script([calls(&[("run", json!({"as": "x", "does": "hangs"}))]), text("I see.")]);
    let mut stream = world.post_text("go").await;
    stream.read_until("tool-input-available").await;
    let world = world.restarted();
    let mut again = world.follow().await.unwrap();
    again.read_to_end().await;
    assert!(again.find("tool-output-error")["errorText"].as_str().unwrap().contains("restarted"));
    assert!(again.text().ends_with("I see."));
    assert!(world.tool_log.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn always_is_remembered_in_this_chat_across_a_restart() {
    let world = World::new();
    world.script([calls(&[("note", json!({}))]), text("1"), calls(&[("note", json!({}))]), text("2")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-approval-request").await;
    world.answer(always(&call)).await.unwrap();
    stream.read_to_end().await;
    let mut world = world.restarted();
    let types = world.post_text("again").await.read_to_end().await;
    assert!(!types.contains("tool-approval-request"), "{types}");
    world.chat = fermata_protocol::ChatId::new("another");
    world.script([calls(&[("note", json!({}))])]);
    world.post_text("here").await.read_until("tool-approval-request").await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_has_no_more_open_runs_than_allowed() {
    let mut world = World::new();
    let mut streams = Vec::new();
    for n in 0..3 {
        world.script([calls(&[("where", json!({}))])]);
        world.chat = fermata_protocol::ChatId::new(format!("c{n}"));
        let mut stream = world.post_text("go").await;
        stream.read_until("tool-input-available").await;
        streams.push(stream);
    }
    let body = json!({"id": "c3", "message": {"role": "user", "content": "one more"}});
    let refused = world.try_post(body.clone(), None).await.err().unwrap();
    assert!(refused.to_string().contains("limit of 3 open runs (runs_per_owner)"), "{refused}");
    world.engine.stop(&world.owner, &world.chat).await.unwrap();
    world.script([text("ok")]);
    world.try_post(body, None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_chat_that_is_deleted_ends_its_stream() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))])]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-input-available").await;
    world.engine.delete(&world.owner, &world.chat, false).await.unwrap();
    stream.read_to_end().await;
    assert!(stream.is_done);
    assert!(world.engine.chat(&world.owner, &world.chat).await.is_err());
    assert!(world.answer(output(&call, json!(1))).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_streams_with_an_error_and_the_call_waits_for_the_next_process() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-input-available").await;
    world.engine.shutdown().await;
    assert!(stream.read_to_end().await.ends_with("tool-input-available error"));
    assert!(world.answer(output(&call, json!(1))).await.unwrap_err().contains("shutting down"));
    let world = world.restarted();
    let mut again = world.follow().await.unwrap();
    world.answer(output(&call, json!(1))).await.unwrap();
    assert!(!again.read_to_end().await.contains("error"));
}

/// Returns the post of a stock client that shows these parts in its last step.
fn post_of(message: &serde_json::Value, parts: &[serde_json::Value]) -> serde_json::Value {
    let mut all = vec![json!({"type": "step-start"})];
    all.extend_from_slice(parts);
    json!({"id": "c", "messages": [{"id": message, "role": "assistant", "parts": all}]})
}

fn output_part(call: &str, output: &str) -> serde_json::Value {
    json!({"type": "tool-where", "toolCallId": call, "state": "output-available", "input": {}, "output": output})
}

#[tokio::test(start_paused = true)]
async fn a_tab_whose_answer_came_too_late_is_shown_the_outcome_of_the_call() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), text("never mind, then")]);
    let mut stream = world.post_text_with_hold("go", Some(0)).await;
    stream.read_to_end().await;
    let (call, message) = (
        stream.find("tool-input-available")["toolCallId"].clone(),
        stream.find("start")["messageId"].clone(),
    );
    world.post_text("go on without").await.read_to_end().await;
    let mut reconciled = world.post(post_of(&message, &[output_part(call.as_str().unwrap(), "mine")])).await;
    assert_eq!(
        reconciled.read_to_end().await,
        "start tool-output-error finish-step start-step finish-step finish",
        "an empty step at the end keeps the client from posting again"
    );
    assert_eq!(reconciled.find("start")["messageId"], message);
    assert_eq!(world.model_calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_tab_whose_output_came_second_is_shown_the_first() {
    let world = World::new();
    world.script([calls(&[("where", json!({})), ("where", json!({}))]), text("ok")]);
    let mut stream = world.post_text_with_hold("go", Some(0)).await;
    stream.read_to_end().await;
    let ids: Vec<_> = stream.chunks.iter().filter(|chunk| chunk["type"] == "tool-input-available").collect();
    let ids: Vec<_> = ids.iter().map(|chunk| chunk["toolCallId"].as_str().unwrap().to_owned()).collect();
    let message = stream.find("start")["messageId"].clone();
    world.answer(output(&ids[0], json!("true"))).await.unwrap();
    let mut reconciled =
        world.post(post_of(&message, &[output_part(&ids[0], "mine"), output_part(&ids[1], "other")])).await;
    reconciled.read_to_end().await;
    let shown: Vec<_> = reconciled.chunks.iter().filter_map(|chunk| chunk["output"].as_str()).collect();
    assert_eq!(shown, ["true", "other"]);
    assert_eq!(reconciled.text(), "ok");
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_a_restart_that_outlasted_the_hold_goes_on_in_one_stream() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))])]);
    let model = world.script_streamed();
    let mut stream = world.post_text_with_hold("go", Some(10)).await;
    let call = stream.read_until("tool-input-available").await;
    let message = stream.find("start")["messageId"].clone();
    drop(stream);
    let world = world.restarted_at(60);
    let mut next = world.post(post_of(&message, &[output_part(&call, "here")])).await;
    model.send(Ok(ModelEvent::Text("ok".into()))).unwrap();
    model.send(finished()).unwrap();
    assert_eq!(
        next.read_to_end().await,
        "start tool-output-available finish-step start-step text-start text-delta text-end finish-step finish"
    );
}
