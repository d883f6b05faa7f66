//! Chats of which more is asked than they can do.

use std::{sync::atomic::Ordering, time::Duration};

use fermata_engine::{AnswerError, ReadError, Submission, SubmitError, Unavailable};
use fermata_protocol::ChatBody;
use futures::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use serde_json::json;
use tokio::task::unconstrained;

use crate::world::{World, calls, finished, output, says};

/// More than any chat takes at a time.
const MANY: usize = 10_000;
/// More commands than this must never wait for one chat.
const MOST_WAITING: usize = 1000;

/// A chat that waits for the page, and its call.
async fn parked(world: &World) -> String {
    world.script([calls(&[("where", json!({}))])]);
    world.say("where am I?").await.until("tool-input-available").await
}

/// What somebody asks of the chat, as far as whether it is busy.
async fn asks(world: &World, nth: usize, call: &str) -> Result<(), String> {
    let (engine, owner, chat) = (&world.engine, &world.owner, &world.chat);
    let is_busy = match nth % 4 {
        0 => {
            let answered = engine.answer(owner, chat, None, vec![output(call, json!("Bern"))]).await;
            matches!(answered, Err(AnswerError::Unavailable(Unavailable::Busy)))
        }
        1 => {
            let message = json!({"id": format!("u{nth}"), "role": "user", "content": format!("words {nth}")});
            let body = ChatBody::parse(json!({"id": chat.as_str(), "message": message})).expect("a post");
            let submission = Submission { owner: owner.clone(), body, hold: None, address: None };
            matches!(engine.submit(submission).await, Err(SubmitError::Unavailable(Unavailable::Busy)))
        }
        2 => matches!(engine.resume(owner, chat, None).await, Err(ReadError::Unavailable(Unavailable::Busy))),
        _ => matches!(engine.chat(owner, chat).await, Err(ReadError::Unavailable(Unavailable::Busy))),
    };
    if is_busy { Err("busy".into()) } else { Ok(()) }
}

/// Asks all of this at once, in this order; those that wait, and what the others came to.
fn flood<'a, T>(asked: impl IntoIterator<Item = BoxFuture<'a, T>>) -> (Vec<BoxFuture<'a, T>>, Vec<T>) {
    let (mut waiting, mut refused) = (Vec::new(), Vec::new());
    for mut asks in asked {
        // How much tokio lets one task do at a time is not what this is about.
        match unconstrained(asks.as_mut()).now_or_never() {
            None => waiting.push(asks),
            Some(refusal) => refused.push(refusal),
        }
    }
    (waiting, refused)
}

#[tokio::test(start_paused = true)]
async fn a_chat_whose_database_does_not_answer_takes_so_much_and_says_that_it_is_busy() {
    let world = World::new();
    let call = parked(&world).await;
    world.store.is_silent.send_replace(true);
    let mut asked: Vec<_> = (0..MANY).map(|nth| asks(&world, nth, &call).boxed()).collect();
    // The driver takes the first, and does not come back.
    let first = &mut asked[3];
    assert!(first.now_or_never().is_none());
    tokio::time::sleep(Duration::from_secs(1)).await;

    let (waiting, refused) = flood(asked);
    assert!(refused.iter().all(|refusal| refusal == &Err("busy".into())));
    assert!(waiting.len() < MOST_WAITING, "{} wait", waiting.len());

    // It answers again: what was taken is done, and the chat goes on.
    world.script((0..MOST_WAITING).map(|_| says("Well.")));
    world.store.is_silent.send_replace(false);
    assert!(join_all(waiting).await.iter().all(Result::is_ok));
    let mut stream = world.say("are you there?").await;
    stream.read_out().await;
    assert!(stream.done, "{}", stream.types());
}

/// A tool's outcome, the model's words and times that are over do not come through the inbox, so a chat that is busy loses none of them.
#[tokio::test(start_paused = true)]
async fn what_a_run_waits_for_is_not_lost_because_its_chat_is_busy() {
    let world = World::new();
    world.script([calls(&[("run", json!({"does": "waits", "as": "a"}))])]);
    let mouth = world.speak();
    let mut stream = world.say("go").await;
    stream.until("tool-input-available").await;
    world.store.is_silent.send_replace(true);
    let (waiting, refused) = flood((0..MANY).map(|_| world.engine.chat(&world.owner, &world.chat).boxed()));
    assert!(
        !refused.is_empty()
            && refused.iter().all(|view| matches!(view, Err(ReadError::Unavailable(Unavailable::Busy))))
    );
    // The tool has ended long ago.
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.store.is_silent.send_replace(false);
    assert!(join_all(waiting).await.iter().all(Result::is_ok));
    mouth.send(Ok(fermata_engine::model::ModelEvent::Text("Done.".into()))).unwrap();
    mouth.send(finished()).unwrap();
    let types = stream.read_out().await;
    assert!(types.contains("tool-output-available") && stream.done, "{types}");
    assert_eq!(stream.text(), "Done.");
}

/// A driver that has failed is followed by another when the sweep wakes the chat. If that finds the chat busy, it has to do so again: nobody
/// else takes up the run while this instance is alive.
#[tokio::test(start_paused = true)]
async fn a_wake_up_that_finds_the_chat_busy_comes_again() {
    let world = World::first();
    let _never = world.speak();
    world.script([says("Here I am.")]);
    drop(world.say("go").await);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.asked(), 1);
    world.store.fails.store(true, Ordering::SeqCst);
    assert!(world.engine.stop(&world.owner, &world.chat).await.is_err());
    world.store.fails.store(false, Ordering::SeqCst);
    // The next driver is stuck with its first command before the sweep comes by, and all that it has to do needs no run.
    world.store.is_silent.send_replace(true);
    let grants = |_| world.engine.grants(&world.owner, &world.chat).boxed();
    let (mut waiting, _) = flood((0..1).map(grants));
    while world.store.is_silent.receiver_count() == 0 {
        tokio::task::yield_now().await;
    }
    let (more, refused) = flood((0..MANY).map(grants));
    waiting.extend(more);
    assert!(
        !refused.is_empty()
            && refused.iter().all(|grants| matches!(grants, Err(ReadError::Unavailable(Unavailable::Busy))))
    );
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.store.is_silent.send_replace(false);
    assert!(join_all(waiting).await.iter().all(Result::is_ok));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((world.asked(), world.open_run()), (2, None));
}
