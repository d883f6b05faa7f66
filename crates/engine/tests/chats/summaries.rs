//! Summaries of chats: written beside the runs or in a run that is too long, told to the model, corrected and taken back.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::sync::atomic::Ordering;

use fermata_engine::{
    ReadError, SummaryError, SummaryView,
    model::{ModelContent, ModelError, ModelEvent, ModelMessage, ModelRequest},
    store::ChatStore,
};
use fermata_protocol::{FinishReason, Summary, UiPart};
use fermata_tools::Owner;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use crate::world::{ModelStep, World, calls, text};

fn summary(goal: &str) -> ModelStep {
    text(&json!({"goal": goal, "entities": {"gardener": "Mr Quince"}}).to_string())
}

/// Returns a post with a history of this many messages, by turns of the user and the assistant, and a new message.
fn past(messages: usize, bytes: usize) -> Value {
    let mut past = Vec::new();
    for index in 0..messages {
        let role = if index % 2 == 0 { "user" } else { "assistant" };
        let content = format!("item-{index:03} {}", "x".repeat(bytes));
        past.push(json!({"id": format!("m{index}"), "role": role, "content": content}));
    }
    past.push(json!({"id": "new", "role": "user", "content": "and now?"}));
    json!({"id": "c", "messages": past})
}

async fn says(world: &World, body: Value) -> String {
    world.post(body).await.read_to_end().await
}

fn message(text: &str) -> Value {
    json!({"id": "c", "message": {"role": "user", "content": text}})
}

async fn read(world: &World) -> Option<SummaryView> {
    world.engine.summary(&world.owner, &world.chat).await.unwrap()
}

/// Waits for a summary of this many messages.
async fn written(world: &World, messages: usize) -> SummaryView {
    loop {
        match read(world).await {
            Some(summary) if summary.messages == messages => return summary,
            Some(_) | None => sleep(Duration::from_millis(10)).await,
        }
    }
}

fn last_request(world: &World) -> ModelRequest {
    world.model.requests.lock().unwrap().last().unwrap().clone()
}

fn system(request: &ModelRequest) -> String {
    match request.messages.first() {
        Some(ModelMessage::System(text)) => text.clone(),
        _ => String::new(),
    }
}

/// Returns the first item of the history in a request.
fn begins_with(request: &ModelRequest) -> String {
    let first = request.messages.iter().find_map(|message| match message {
        ModelMessage::User(content) => match content.first() {
            Some(ModelContent::Text(text)) => Some(text.chars().take(8).collect()),
            Some(ModelContent::File { .. }) | None => None,
        },
        ModelMessage::System(_) | ModelMessage::Assistant { .. } | ModelMessage::Tool { .. } => None,
    });
    first.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_long_chat_is_summarized_beside_its_runs_and_the_next_run_begins_with_the_summary() {
    let world = World::new();
    world.script([text("Fine."), text("ok")]);
    world.script_summaries([summary("plant an orchard")]);
    says(&world, past(30, 0)).await;
    let saved = written(&world, 12).await;
    assert_eq!((saved.summary.goal.as_str(), saved.up_to.as_str()), ("plant an orchard", "m11"));
    assert_eq!((saved.reason.as_str(), saved.model.as_str()), ("every", "script"));
    let asked = format!("{:?}", world.summaries.requests.lock().unwrap()[0].messages);
    assert!(asked.contains("item-011") && !asked.contains("item-012"));

    says(&world, message("go on")).await;
    let request = last_request(&world);
    assert!(system(&request).contains("plant an orchard") && system(&request).contains("Mr Quince"));
    assert_eq!(begins_with(&request), "item-012");
    assert_eq!(world.messages().await.len(), 34, "the record keeps everything");
    assert_eq!(world.summaries.requests.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_short_chat_gets_no_summary_unless_somebody_asks() {
    let world = World::new();
    world.script([text("Fine."), text("ok")]);
    world.script_summaries([summary("asked for")]);
    says(&world, past(20, 0)).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(read(&world).await, None);
    let wishes = Some("Mind the ROSES.".to_owned());
    let saved = world.engine.compact(&world.owner.clone().into(), &world.chat, wishes).await.unwrap();
    assert_eq!((saved.messages, saved.reason.as_str()), (2, "asked"));
    assert_eq!(read(&world).await, Some(saved));
    assert!(
        format!("{:?}", world.summaries.requests.lock().unwrap()[0].messages).contains("Mind the ROSES.")
    );
    let again = world.engine.compact(&world.owner.clone().into(), &world.chat, None).await;
    assert!(matches!(again, Err(SummaryError::NothingToCompact)), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_else_sees_or_changes_a_summary() {
    let world = World::new();
    world.script([text("Fine.")]);
    world.script_summaries([summary("mine")]);
    says(&world, past(30, 0)).await;
    written(&world, 12).await;
    let bob = Owner::new("bob");
    assert!(matches!(world.engine.summary(&bob, &world.chat).await, Err(ReadError::NotFound)));
    let corrected = world.engine.correct_summary(&bob, &world.chat, Summary::default()).await;
    assert!(matches!(corrected, Err(SummaryError::NotFound)));
    assert!(matches!(
        world.engine.compact(&bob.clone().into(), &world.chat, None).await,
        Err(SummaryError::NotFound)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_corrected_summary_is_what_the_next_run_is_told() {
    let world = World::new();
    world.script([text("Fine."), text("ok")]);
    world.script_summaries([summary("plant an orchard")]);
    says(&world, past(30, 0)).await;
    let before = written(&world, 12).await;
    let pond = Summary { goal: "dig a pond".into(), ..Summary::default() };
    let corrected = world.engine.correct_summary(&world.owner, &world.chat, pond.clone()).await.unwrap();
    assert_eq!(corrected, SummaryView { summary: pond, ..before });
    assert_eq!(read(&world).await, Some(corrected));
    says(&world, message("go on")).await;
    let told = system(&last_request(&world));
    assert!(told.contains("dig a pond") && !told.contains("orchard"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn an_edit_before_the_end_of_a_summary_takes_it_back() {
    let world = World::new();
    world.script([text("Fine."), text("changed"), text("ok")]);
    world.script_summaries([summary("plant an orchard")]);
    says(&world, past(30, 0)).await;
    written(&world, 12).await;
    let edit = json!({"id": "c", "messageId": "m4", "message": {"id": "m4", "role": "user", "content": "item-004 other"}});
    says(&world, edit).await;
    assert_eq!(read(&world).await, None);
    let request = last_request(&world);
    assert_eq!((system(&request).as_str(), begins_with(&request).as_str()), ("", "item-000"));
}

#[tokio::test(start_paused = true)]
async fn an_edit_after_the_end_of_a_summary_leaves_it() {
    let world = World::new();
    world.script([text("Fine."), text("changed")]);
    world.script_summaries([summary("plant an orchard")]);
    says(&world, past(30, 0)).await;
    written(&world, 12).await;
    let edit = json!({"id": "c", "messageId": "m12", "message": {"id": "m12", "role": "user", "content": "item-012 other"}});
    says(&world, edit).await;
    let request = last_request(&world);
    assert!(system(&request).contains("orchard"));
    assert_eq!(begins_with(&request), "item-012");
}

#[tokio::test(start_paused = true)]
async fn what_falls_out_of_a_request_that_was_refused_is_summarized_in_the_same_step() {
    let world = World::new();
    world.script([
        vec![Err(ModelError::TooLong("maximum context length".into()))],
        text("It fits."),
        text("ok"),
    ]);
    world.script_summaries([summary("plant an orchard")]);
    let mut body = past(12, 400);
    body["fermata"] = json!({"show": ["context"]});
    let mut stream = world.post(body).await;
    assert_eq!(
        stream.read_to_end().await,
        "start start-step data-compaction data-compaction text-start text-delta text-end finish-step finish"
    );
    let done = &stream.find("data-compaction")["data"];
    assert_eq!(done["reason"], "overflow", "{done}");
    let request = last_request(&world);
    assert!(system(&request).contains("orchard"));
    let saved = read(&world).await.unwrap();
    assert_eq!(begins_with(&request), format!("item-{:03}", saved.messages));

    let world = world.restarted();
    says(&world, message("go on")).await;
    let next = last_request(&world);
    assert_eq!(next.messages[..request.messages.len()], request.messages, "it goes on as it began");
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_is_not_written_ends_no_run() {
    let world = World::new();
    world.script([vec![Err(ModelError::TooLong("maximum context length".into()))], text("It fits.")]);
    world.script_summaries([text("no"), text("still no")]);
    let mut stream = world.post(past(12, 400)).await;
    assert_eq!(
        stream.read_to_end().await,
        "start start-step text-start text-delta text-end finish-step finish"
    );
    assert_eq!((read(&world).await, world.summaries.requests.lock().unwrap().len()), (None, 2));
}

#[tokio::test(start_paused = true)]
async fn a_summary_survives_the_end_of_the_process_that_was_to_write_it() {
    let world = World::new();
    world.script([text("Fine.")]);
    // The model never answers.
    let silent = world.script_silent_summary();
    says(&world, past(30, 0)).await;
    while world.summaries.requests.lock().unwrap().is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    let world = world.restarted();
    drop(silent);
    world.script_summaries([summary("after all")]);
    assert_eq!(written(&world, 12).await.summary.goal, "after all");
    assert_eq!(world.store.due_summaries(Timestamp::MAX, 9).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_comes_during_a_run_counts_from_the_next_run_on() {
    let world = World::new();
    world.script([text("Fine.")]);
    let writing = world.script_silent_summary();
    says(&world, past(30, 0)).await;
    while world.summaries.requests.lock().unwrap().is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    let step = world.script_streamed();
    world.script([text("done"), text("ok")]);
    let mut stream = world.post(message("go on")).await;
    stream.read_until("start-step").await;
    for event in summary("plant an orchard") {
        writing.send(event).unwrap();
    }
    written(&world, 12).await;
    for event in calls(&[("run", json!({}))]) {
        step.send(event).unwrap();
    }
    stream.read_to_end().await;
    let requests = world.model.requests.lock().unwrap().clone();
    let [.., first, second] = &requests[..] else { panic!("two steps") };
    assert_eq!(second.messages[..first.messages.len()], first.messages, "the run goes on as it began");
    assert_eq!(begins_with(second), "item-000");

    says(&world, message("more")).await;
    let next = last_request(&world);
    assert!(system(&next).contains("orchard"));
    assert_eq!(begins_with(&next), "item-012");
}

#[tokio::test(start_paused = true)]
async fn a_window_that_fills_up_is_compacted_after_the_run() {
    let world = World::new();
    world.set_window(2000);
    let usage = fermata_engine::model::Usage { input_tokens: 1700, output_tokens: 1, total_tokens: 1701 };
    let full = vec![
        Ok(ModelEvent::Text("ok".into())),
        Ok(ModelEvent::Finished { reason: FinishReason::Stop, usage: Some(usage) }),
    ];
    world.script([full, text("ok")]);
    world.script_summaries([summary("plant an orchard")]);
    says(&world, past(10, 500)).await;
    while read(&world).await.is_none() {
        sleep(Duration::from_millis(10)).await;
    }
    let saved = read(&world).await.unwrap();
    assert_eq!(saved.reason, "size");
    assert!((2..=10).contains(&saved.messages), "{}", saved.messages);
}

#[tokio::test(start_paused = true)]
async fn a_post_to_a_long_chat_reads_no_more_of_it_than_the_model_is_sent() {
    let world = World::new();
    world.script([text("Fine."), text("ok")]);
    world.script_summaries([summary("plant an orchard")]);
    says(&world, past(80, 0)).await;
    written(&world, 62).await;
    world.store.messages_read.store(0, Ordering::SeqCst);
    says(&world, message("go on")).await;
    // The twenty recent ones and the new one.
    assert_eq!(world.store.messages_read.load(Ordering::SeqCst), 21);
}

#[tokio::test(start_paused = true)]
async fn a_compaction_is_in_the_record_only_for_a_client_that_asks() {
    let world = World::new();
    let refused = vec![Err(ModelError::TooLong("maximum context length".into()))];
    world.script([refused, text("It fits."), text("ok"), text("ok")]);
    world.script_summaries([summary("plant an orchard")]);
    let shows = |mut body: Value| {
        body["fermata"] = json!({"show": ["context"]});
        body
    };
    let compactions = async || {
        let chat = world.engine.chat(&world.owner, &world.chat).await.unwrap();
        let parts = chat.messages.into_iter().flat_map(|message| message.parts);
        parts.filter(|part| matches!(part, UiPart::Data(data) if data.kind == "data-compaction")).count()
    };
    says(&world, shows(past(12, 400))).await;
    assert_eq!(compactions().await, 1);
    says(&world, message("go on")).await;
    assert_eq!(compactions().await, 0);
    says(&world, shows(message("and on"))).await;
    assert_eq!(compactions().await, 1);
}

#[tokio::test(start_paused = true)]
async fn runs_that_end_while_a_summary_is_written_are_summarized_afterwards() {
    let world = World::new();
    world.script(vec![text("Fine."); 8]);
    let first = world.script_silent_summary();
    world.script_summaries([summary("the second one")]);
    says(&world, past(30, 0)).await;
    for _ in 0..7 {
        says(&world, message("go on")).await;
    }
    sleep(Duration::from_secs(5)).await;
    assert_eq!(read(&world).await, None, "the first one is still being written");
    for event in summary("the first one") {
        first.send(event).unwrap();
    }
    drop(first);
    for _ in 0..100 {
        sleep(Duration::from_secs(1)).await;
        if read(&world).await.is_some_and(|summary| summary.summary.goal == "the second one") {
            return;
        }
    }
    panic!("the second one was forgotten: {:?}", read(&world).await);
}

#[tokio::test(start_paused = true)]
async fn how_full_the_window_is_is_not_known_after_a_compaction() {
    let world = World::new();
    world.set_window(100_000);
    world.script([text("Fine.")]);
    let mut body = past(24, 0);
    body["fermata"] = json!({"show": ["context"]});
    says(&world, body).await;
    let context = async || world.engine.chat(&world.owner, &world.chat).await.unwrap().context;
    assert_eq!(context().await.unwrap().window, Some(100_000));
    world.script_summaries([summary("plant an orchard")]);
    world.engine.compact(&world.owner.clone().into(), &world.chat, None).await.unwrap();
    assert_eq!(context().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_compaction_that_its_run_does_not_outlive_has_failed() {
    for is_stopped in [true, false] {
        let world = World::new();
        let refused = vec![Err(ModelError::TooLong("maximum context length".into()))];
        world.script([refused, text("Other answer.")]);
        let _silent = world.script_silent_summary();
        let mut body = past(12, 400);
        body["fermata"] = json!({"show": ["context"]});
        let mut stream = world.post(body.clone()).await;
        stream.read_until("data-compaction").await;
        if is_stopped {
            world.engine.stop(&world.owner, &world.chat).await.unwrap();
            let rest = stream.read_to_end().await;
            assert!(rest.contains("data-compaction"), "{rest}");
        } else {
            let mut next = message("something else");
            next["fermata"] = body["fermata"].take();
            says(&world, next).await;
        }
        let chat = world.engine.chat(&world.owner, &world.chat).await.unwrap();
        let parts = chat.messages.into_iter().flat_map(|message| message.parts);
        let states: Vec<Value> = parts
            .filter_map(|part| match part {
                UiPart::Data(data) if data.kind == "data-compaction" => Some(data.data["state"].clone()),
                _ => None,
            })
            .collect();
        assert_eq!(states, ["failed"], "stopped: {is_stopped}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_two_failures_no_summary_is_tried_for_a_while_unless_somebody_asks() {
    let world = World::new();
    let asked = || world.summaries.requests.lock().unwrap().len();
    world.script([text("Fine."), text("ok"), text("ok")]);
    world.script_summaries([text("no"), text("no"), text("no"), text("no")]);
    says(&world, past(30, 0)).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(asked(), 2, "each attempt asks twice");
    says(&world, message("go on")).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(asked(), 4, "one failure may be chance");
    says(&world, message("and on")).await;
    sleep(Duration::from_secs(200)).await;
    assert_eq!((asked(), read(&world).await), (4, None));
    world.script_summaries([text("no"), text("no"), summary("after a while")]);
    let now = world.engine.compact(&world.owner.clone().into(), &world.chat, None).await;
    assert!(matches!(now, Err(SummaryError::NotWritten)), "{now:?}");
    sleep(Duration::from_secs(200)).await;
    assert_eq!(asked(), 6, "that one has also failed");
    sleep(Duration::from_secs(300)).await;
    world.script([text("ok")]);
    says(&world, message("and on and on")).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(read(&world).await.unwrap().summary.goal, "after a while");
}

#[tokio::test(start_paused = true)]
async fn a_run_does_not_wait_for_a_summary_if_several_have_just_failed() {
    let world = World::new();
    let refused = || vec![Err(ModelError::TooLong("maximum context length".into()))];
    world.script([refused(), text("It fits."), refused(), text("It fits."), refused(), text("It fits.")]);
    world.script_summaries([text("no"), text("no"), text("no"), text("no")]);
    says(&world, past(12, 400)).await;
    for _ in 0..2 {
        says(&world, message(&"x".repeat(400))).await;
    }
    assert_eq!(world.summaries.requests.lock().unwrap().len(), 4);
    assert_eq!(world.messages().await.len(), 18);
}

#[tokio::test(start_paused = true)]
async fn of_two_summaries_that_are_written_at_once_the_one_that_covers_more_counts() {
    let world = World::new();
    world.script([text("Fine.")]);
    let beside = world.script_silent_summary();
    says(&world, past(30, 400)).await;
    while world.summaries.requests.lock().unwrap().is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    // Meanwhile a run also has to summarize.
    let in_run = world.script_silent_summary();
    world.script([vec![Err(ModelError::TooLong("maximum context length".into()))], text("It fits.")]);
    let mut stream = world.post(message("go on")).await;
    while world.summaries.requests.lock().unwrap().len() < 2 {
        sleep(Duration::from_millis(10)).await;
    }
    for event in summary("of the run") {
        in_run.send(event).unwrap();
    }
    stream.read_to_end().await;
    let longer = read(&world).await.unwrap();
    for event in summary("of the job") {
        beside.send(event).unwrap();
    }
    sleep(Duration::from_secs(5)).await;
    assert!(longer.messages > 12, "{longer:?}");
    assert_eq!(read(&world).await, Some(longer));
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_summary_covers_less_than_that_of_a_job_goes_on_with_the_jobs() {
    let world = World::new();
    world.script([text("Fine.")]);
    let beside = world.script_silent_summary();
    says(&world, past(30, 10)).await;
    while world.summaries.requests.lock().unwrap().is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    let in_run = world.script_silent_summary();
    world.set_window(800);
    world.script([text("It fits.")]);
    let mut stream = world.post(message(&"x".repeat(1900))).await;
    while world.summaries.requests.lock().unwrap().len() < 2 {
        sleep(Duration::from_millis(10)).await;
    }
    for event in summary("of the job") {
        beside.send(event).unwrap();
    }
    let of_job = written(&world, 12).await;
    for event in summary("of the run") {
        in_run.send(event).unwrap();
    }
    stream.read_to_end().await;
    let request = last_request(&world);
    let of_run = read(&world).await.unwrap();
    if of_run.messages > of_job.messages {
        assert!(system(&request).contains("of the run"), "{}", system(&request));
    } else {
        assert_eq!(of_run, of_job);
        assert!(system(&request).contains("of the job"), "{}", system(&request));
    }
}

#[tokio::test(start_paused = true)]
async fn a_window_fills_up_also_if_the_provider_counts_nothing() {
    let world = World::new();
    world.set_window(2000);
    let uncounted = vec![
        Ok(ModelEvent::Text("ok".into())),
        Ok(ModelEvent::Finished { reason: FinishReason::Stop, usage: None }),
    ];
    world.script([uncounted]);
    world.script_summaries([summary("in the run"), summary("after the run")]);
    says(&world, past(12, 550)).await;
    let in_run = read(&world).await.unwrap();
    assert_eq!((in_run.summary.goal.as_str(), in_run.reason.as_str()), ("in the run", "size"));
    sleep(Duration::from_secs(5)).await;
    let after = read(&world).await.unwrap();
    assert_eq!((after.summary.goal.as_str(), after.reason.as_str()), ("after the run", "size"));
    assert!(after.messages > in_run.messages, "there is room for the next turns");
}

#[tokio::test(start_paused = true)]
async fn a_question_for_a_summary_is_shortened_if_the_provider_gives_no_answer() {
    let world = World::new();
    world.script([text("Fine.")]);
    world.script_summaries([vec![Err(ModelError::NoAnswer("it ended".into()))], summary("shorter")]);
    says(&world, past(30, 8000)).await;
    while read(&world).await.is_none() {
        sleep(Duration::from_millis(10)).await;
    }
    let requests = world.summaries.requests.lock().unwrap().clone();
    let length = |request: &ModelRequest| format!("{:?}", request.messages).len();
    assert!(
        length(&requests[1]) < length(&requests[0]),
        "{} and then {}",
        length(&requests[0]),
        length(&requests[1])
    );
}
