//! Bugs that random schedules have found, each as the few steps that led to it.

use std::{sync::atomic::Ordering, time::Duration};

use fermata_engine::{
    Following, Submission,
    store::{
        Memories,
        memories::{MemoryAuthor, MemoryChange, MemoryId, NewMemory},
    },
};
use fermata_protocol::{Answer, AnswerKind, AnswerTarget, ChatBody, MemoryKind, ToolCallId};
use fermata_tools::{Decider, DecisionChannel};
use futures::FutureExt;
use jiff::Timestamp;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::{
    model::MAX_KILLED,
    operations::Operation,
    process::WriteGate,
    requests::body,
    world::{Instance, World},
};

const STEP_TIMEOUT: Duration = Duration::from_secs(600);

/// Returns two instances whose model writes one word in each step.
fn calm() -> World {
    let world = World::new(1, 0, 2);
    world.model.is_calm.store(true, Ordering::SeqCst);
    world
}

async fn post_text(world: &World, instance: &Instance, text: &str) -> Result<Following, String> {
    let chat = world.chat(0);
    let message = json!({"role": "user", "content": text});
    let body = ChatBody::parse(body(&chat, 6, &json!({ "message": message }))).unwrap();
    let owner = world.owner.clone();
    let submission = Submission {
        owner,
        body,
        hold: None,
        address: None,
        groups: Vec::new(),
        retries: None,
        traceparent: None,
    };
    instance.engine.submit(submission).await.map_err(|error| error.to_string())
}

/// Makes a run that waits for the browser at the first instance, and a reader of it at the second. Returns the call last.
async fn followed() -> (World, Following, ToolCallId) {
    let world = calm();
    world.model.begins_with_call.store(true, Ordering::SeqCst);
    let (here, there) = (world.instances[0].clone(), world.instances[1].clone());
    post_text(&world, &here, "go").await.unwrap();
    sleep(Duration::from_secs(3)).await;
    let call = world.calls(&world.chat(0), false)[0].id.clone();
    let mut following = there.engine.resume(&world.owner, &world.chat(0), None).await.unwrap().unwrap();
    while !read(&mut following).await.contains("tool-input-available") {}
    (world, following, call)
}

async fn answer(world: &World, instance: &Instance, call: &ToolCallId) {
    let kind = AnswerKind::Output { output: json!("Bern") };
    let answer = Answer { of: AnswerTarget::Call(call.clone()), kind };
    instance
        .engine
        .answer(Decider::new(world.owner.clone(), DecisionChannel::Api, None), &world.chat(0), vec![answer])
        .await
        .unwrap();
}

async fn read(following: &mut Following) -> String {
    let bytes = following.reader.next().await;
    bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).unwrap_or_default()
}

/// Returns whether the stream comes to its end.
async fn reads_to_end(following: &mut Following) -> bool {
    let all = async { while !read(following).await.is_empty() {} };
    timeout(STEP_TIMEOUT, all).await.is_ok()
}

/// Each instance that works on the run is killed, until one gives the run up. Other chats go on.
#[tokio::test(start_paused = true)]
async fn a_run_that_kills_each_instance_is_given_up_at_the_third_resumption() {
    for is_slow in [false, true] {
        let mut world = calm();
        world.post_poison(0, 0, is_slow);
        for _ in 0..60 {
            world.let_pass(Duration::from_secs(1)).await;
            // There may be a call of a browser tool first.
            world.answer_all(0, 1, true);
        }
        assert_eq!(world.model.killed_instances(), [MAX_KILLED]);
        assert_eq!(world.record(&world.chat(0)).unwrap().open_run, None);
        let history = world.history().clone();
        world.settle_and_check().await;
        history.assert_no_violation();
    }
}

/// Something becomes known of the user after the first instance has died. The next one finds it and saves it, which is no progress of the run.
#[tokio::test(start_paused = true)]
async fn a_memory_that_comes_between_resumptions_gives_the_run_no_more_of_them() {
    let mut world = calm();
    world.post_poison(0, 0, false);
    let mut knows = false;
    for _ in 0..60 {
        world.let_pass(Duration::from_secs(1)).await;
        if !knows && world.model.killed_instances() == [1] {
            knows = true;
            let memory = NewMemory {
                id: MemoryId("mem_1".into()),
                kind: MemoryKind::Fact,
                text: "is called Kim".into(),
                slot: Some("name".into()),
                pinned: false,
                source: None,
            };
            let changes = vec![MemoryChange::Save(memory)];
            let author = MemoryAuthor::default();
            world
                .store
                .change_memories(&world.owner, Timestamp::UNIX_EPOCH, changes, 10, &author)
                .await
                .unwrap();
        }
    }
    assert!(knows);
    assert_eq!(world.model.killed_instances(), [MAX_KILLED]);
}

/// Two instances begin the same chat at once. The second one reads the chat again, and has to find its owner then.
#[tokio::test(start_paused = true)]
async fn an_instance_that_loses_a_race_for_a_chat_passes_the_post_on() {
    let world = calm();
    world.model.begins_with_call.store(true, Ordering::SeqCst);
    let (here, there) = (world.instances[0].clone(), world.instances[1].clone());
    there.process.write_gate.send_replace(WriteGate::Closed);
    let second = post_text(&world, &there, "second");
    tokio::pin!(second);
    // The second instance has read that there is no chat, and is about to write.
    while !there.process.is_write_waiting() {
        assert!(second.as_mut().now_or_never().is_none());
        sleep(Duration::from_millis(1)).await;
    }
    post_text(&world, &here, "first").await.unwrap();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(world.calls(&world.chat(0), false).len(), 1, "the first run waits");
    there.process.write_gate.send_replace(WriteGate::Open);
    let second = second.await;
    assert!(second.is_ok(), "{:?}", second.err());
}

/// The transport is down for a moment. The remote reader asks for the rest, and must get a replica that begins again.
#[tokio::test(start_paused = true)]
async fn a_reader_whose_replica_was_lost_gets_another() {
    let (world, mut following, call) = followed().await;
    let reading = tokio::spawn(async move { reads_to_end(&mut following).await });
    world.transport.set_down(true);
    world.transport.set_down(false);
    // The answer comes through the other instance while both are about to open their mailboxes again.
    answer(&world, &world.instances[1], &call).await;
    assert!(reading.await.unwrap(), "the reader hangs");
}

/// An instance that shuts down leaves no stream open, not even one of a run that another instance owns.
#[tokio::test(start_paused = true)]
async fn a_reader_of_a_replica_is_detached_when_its_instance_shuts_down() {
    let (world, mut following, _call) = followed().await;
    world.instances[1].engine.shutdown().await;
    assert!(reads_to_end(&mut following).await, "the reader hangs");
}

/// The last message of a replicated log is lost, and no later message reveals the gap.
#[tokio::test(start_paused = true)]
async fn a_reader_recovers_from_a_lost_end_of_a_replicated_log() {
    let (world, mut following, call) = followed().await;
    world.conditions.lose_next.lock().unwrap().replace("{\"end\":");
    answer(&world, &world.instances[0], &call).await;
    assert!(reads_to_end(&mut following).await, "the reader hangs");
}

/// The readers of a run are detached while a tool is at work, and the run is resumed after the database has failed. It waits from then on,
/// so its row has to name no owner, or no instance would end it when it expires.
#[test]
fn a_run_that_begins_to_wait_when_it_is_resumed_still_expires() {
    let post_text =
        |chat, instance, hold| Operation::PostText { chat, instance, client: 5, hold, has_id: false };
    crate::run((
        10_868_442_240_050_173_343,
        40,
        2,
        vec![
            Operation::StoreFails { instance: 0 },
            Operation::LetPass { time: 70_000 },
            Operation::LetPass { time: 1500 },
            post_text(0, 2, None),
            Operation::LetPass { time: 1500 },
            post_text(1, 1, Some(0)),
            Operation::Regenerate { chat: 0, instance: 2 },
            Operation::Regenerate { chat: 0, instance: 1 },
            Operation::LetPass { time: 6000 },
            Operation::LetPass { time: 1500 },
            Operation::StoreFails { instance: 5 },
            post_text(1, 1, None),
            Operation::LetPass { time: 300 },
        ],
    ));
}
