//! What random schedules have found, each as the few steps that lead to it.

use std::{sync::atomic::Ordering, time::Duration};

use fermata_engine::{Following, Submission};
use fermata_protocol::{Answer, AnswerKind, AnswerTarget, ChatBody, ToolCallId};
use futures::FutureExt;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::{
    asks::body,
    life::Gate,
    model::MOST_ENDED,
    moves::Move,
    world::{Slot, World},
};

const WHILE: Duration = Duration::from_secs(600);

/// Two instances, of which the model says one word each time.
fn calm() -> World {
    let world = World::new(1, 0, 2);
    world.oracle.is_calm.store(true, Ordering::SeqCst);
    world
}

async fn says(world: &World, slot: &Slot, words: &str) -> Result<Following, String> {
    let chat = world.chat(0);
    let message = json!({"role": "user", "content": words});
    let body = ChatBody::parse(body(&chat, 6, &json!({ "message": message }))).unwrap();
    let owner = world.owner.clone();
    let submission = Submission { owner, body, hold: None, address: None };
    slot.engine.submit(submission).await.map_err(|error| error.to_string())
}

/// A run that waits for the page at the first instance, and one that follows it at the second.
async fn followed() -> (World, Following, ToolCallId) {
    let world = calm();
    world.oracle.calls_first.store(true, Ordering::SeqCst);
    let (here, there) = (world.slots[0].clone(), world.slots[1].clone());
    says(&world, &here, "go").await.unwrap();
    sleep(Duration::from_secs(3)).await;
    let call = world.calls(&world.chat(0), false)[0].id.clone();
    let mut following = there.engine.resume(&world.owner, &world.chat(0), None).await.unwrap().unwrap();
    while !read(&mut following).await.contains("tool-input-available") {}
    (world, following, call)
}

async fn answers(world: &World, slot: &Slot, call: &ToolCallId) {
    let kind = AnswerKind::Output { output: json!("Bern") };
    let answer = Answer { of: AnswerTarget::Call(call.clone()), kind };
    slot.engine.answer(&world.owner, &world.chat(0), None, vec![answer]).await.unwrap();
}

async fn read(following: &mut Following) -> String {
    let bytes = following.reader.next().await;
    bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).unwrap_or_default()
}

/// Whether the stream comes to its end.
async fn ends(following: &mut Following) -> bool {
    let all = async { while !read(following).await.is_empty() {} };
    timeout(WHILE, all).await.is_ok()
}

/// Whoever works on a run ends, one instance after the other, until one gives the run up; other chats do not suffer.
#[tokio::test(start_paused = true)]
async fn a_run_that_ends_each_instance_is_given_up_at_the_third_take_up() {
    for is_slow in [false, true] {
        let mut world = calm();
        world.says_poison(0, 0, is_slow);
        for _ in 0..60 {
            world.passes(Duration::from_secs(1)).await;
            // A call of the page's may come first.
            world.answers_all(0, 1, true);
        }
        assert_eq!(world.oracle.ended(), [MOST_ENDED]);
        assert_eq!(world.record(&world.chat(0)).unwrap().open_run, None);
        let facts = world.facts().clone();
        world.settles_down().await;
        facts.judge();
    }
}

/// Two instances begin the same chat at once: who comes second reads the chat again, and must then see that it is driven elsewhere.
#[tokio::test(start_paused = true)]
async fn who_comes_second_hands_on_what_it_was_asked() {
    let world = calm();
    world.oracle.calls_first.store(true, Ordering::SeqCst);
    let (here, there) = (world.slots[0].clone(), world.slots[1].clone());
    there.life.gate.send_replace(Gate::Shut);
    let second = says(&world, &there, "second");
    tokio::pin!(second);
    // It has read that there is no chat, and is about to write.
    while !there.life.is_stopped() {
        assert!(second.as_mut().now_or_never().is_none());
        sleep(Duration::from_millis(1)).await;
    }
    says(&world, &here, "first").await.unwrap();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(world.calls(&world.chat(0), false).len(), 1, "the first run waits");
    there.life.gate.send_replace(Gate::Open);
    let second = second.await;
    assert!(second.is_ok(), "{:?}", second.err());
}

/// The transport is down for a moment. The remote reader asks for the rest, and must get a replica that begins anew.
#[tokio::test(start_paused = true)]
async fn a_reader_whose_feed_was_lost_is_given_another() {
    let (world, mut following, call) = followed().await;
    let reading = tokio::spawn(async move { ends(&mut following).await });
    world.transport.set_down(true);
    world.transport.set_down(false);
    // Both instances are about to open their mailboxes again. The answer arrives just then, through the other one.
    answers(&world, &world.slots[1], &call).await;
    assert!(reading.await.unwrap(), "the reader hangs");
}

/// An instance that ends leaves no stream open, also not of runs that others drive.
#[tokio::test(start_paused = true)]
async fn who_follows_from_afar_is_sent_away_when_its_instance_ends() {
    let (world, mut following, _call) = followed().await;
    world.slots[1].engine.shutdown().await;
    assert!(ends(&mut following).await, "the reader hangs");
}

/// The last message of a replicated log is lost, and no later message reveals the gap.
#[tokio::test(start_paused = true)]
async fn a_lost_end_of_a_feed_is_made_up_for() {
    let (world, mut following, call) = followed().await;
    world.weather.loses.lock().unwrap().replace("{\"end\":");
    answers(&world, &world.slots[0], &call).await;
    assert!(ends(&mut following).await, "the reader hangs");
}

/// A run is let go while a tool of it is at work, and taken up again after its database has failed: it waits from then on, and its row
/// must say that nobody drives it, or nobody ends it when its time is over.
#[test]
fn a_run_that_comes_to_wait_when_it_is_taken_up_again_still_expires() {
    let says = |chat, at, hold| Move::Says { chat, at, client: 5, hold, named: false };
    crate::run((
        10_868_442_240_050_173_343,
        40,
        2,
        vec![
            Move::StoreFails { at: 0 },
            Move::Passes { time: 70_000 },
            Move::Passes { time: 1500 },
            says(0, 2, None),
            Move::Passes { time: 1500 },
            says(1, 1, Some(0)),
            Move::Regenerates { chat: 0, at: 2 },
            Move::Regenerates { chat: 0, at: 1 },
            Move::Passes { time: 6000 },
            Move::Passes { time: 1500 },
            Move::StoreFails { at: 5 },
            says(1, 1, None),
            Move::Passes { time: 300 },
        ],
    ));
}
