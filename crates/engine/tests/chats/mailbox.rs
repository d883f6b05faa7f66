//! Chats that get more requests than they can handle.

use std::{sync::atomic::Ordering, time::Duration};

use fermata_engine::{AnswerError, ReadError, Submission, SubmitError, Unavailable};
use fermata_protocol::ChatBody;
use futures::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use serde_json::json;
use tokio::task::unconstrained;

use crate::world::{World, calls, finished, output, text};

/// More requests than fit into a mailbox.
const MANY: usize = 10_000;
/// The maximum number of requests that may wait for one chat.
const MAX_WAITING: usize = 4000;

/// Makes a chat with a call that waits for the browser. Returns the call.
async fn park(world: &World) -> String {
    world.script([calls(&[("where", json!({}))])]);
    world.post_text("where am I?").await.read_until("tool-input-available").await
}

/// Makes a request to the chat; which one depends on `index`. Returns an error if the chat is busy.
async fn request(world: &World, index: usize, call: &str) -> Result<(), String> {
    let (engine, owner, chat) = (&world.engine, &world.owner, &world.chat);
    let is_busy = match index % 4 {
        0 => {
            let answered = engine
                .answer(
                    fermata_tools::Decider::new(owner.clone(), fermata_tools::DecisionChannel::Api, None),
                    chat,
                    vec![output(call, json!("Bern"))],
                )
                .await;
            matches!(answered, Err(AnswerError::Unavailable(Unavailable::Busy)))
        }
        1 => {
            let message =
                json!({"id": format!("u{index}"), "role": "user", "content": format!("text {index}")});
            let body = ChatBody::parse(json!({"id": chat.as_str(), "message": message})).expect("a post");
            let submission = Submission {
                owner: owner.clone(),
                body,
                hold: None,
                address: None,
                groups: Vec::new(),
                retries: None,
                traceparent: None,
            };
            matches!(engine.submit(submission).await, Err(SubmitError::Unavailable(Unavailable::Busy)))
        }
        2 => matches!(engine.resume(owner, chat, None).await, Err(ReadError::Unavailable(Unavailable::Busy))),
        _ => matches!(engine.chat(owner, chat).await, Err(ReadError::Unavailable(Unavailable::Busy))),
    };
    if is_busy { Err("busy".into()) } else { Ok(()) }
}

/// Makes all of these requests at once, in this order. Returns those that wait, and the results of the others.
fn flood<'a, T>(requests: impl IntoIterator<Item = BoxFuture<'a, T>>) -> (Vec<BoxFuture<'a, T>>, Vec<T>) {
    let (mut waiting, mut refused) = (Vec::new(), Vec::new());
    for mut request in requests {
        // Tokio's budget of one task must not end the flood.
        match unconstrained(request.as_mut()).now_or_never() {
            None => waiting.push(request),
            Some(refusal) => refused.push(refusal),
        }
    }
    (waiting, refused)
}

#[tokio::test(start_paused = true)]
async fn a_chat_whose_database_does_not_answer_accepts_a_bounded_number_of_requests() {
    let world = World::new();
    let call = park(&world).await;
    world.store.is_blocked.send_replace(true);
    let mut requests: Vec<_> = (0..MANY).map(|index| request(&world, index, &call).boxed()).collect();
    // The actor receives this one first, and is blocked by it.
    let first = &mut requests[3];
    assert!(first.now_or_never().is_none());
    tokio::time::sleep(Duration::from_secs(1)).await;

    let (waiting, refused) = flood(requests);
    assert!(refused.iter().all(|refusal| refusal == &Err("busy".into())));
    assert!(waiting.len() < MAX_WAITING, "{} wait", waiting.len());

    // When the database answers again, accepted requests are served, and the chat goes on.
    world.script((0..MAX_WAITING).map(|_| text("Well.")));
    world.store.is_blocked.send_replace(false);
    assert!(join_all(waiting).await.iter().all(Result::is_ok));
    let mut stream = world.post_text("are you there?").await;
    stream.read_to_end().await;
    assert!(stream.is_done, "{}", stream.types());
}

/// After a restart all readers come back at the same moment.
#[tokio::test(start_paused = true)]
async fn a_thousand_readers_that_come_at_once_are_all_served() {
    let world = World::new();
    park(&world).await;
    let (waiting, refused) =
        flood((0..1000).map(|_| world.engine.resume(&world.owner, &world.chat, None).boxed()));
    assert!(refused.is_empty(), "{} are refused", refused.len());
    for reader in join_all(waiting).await {
        assert!(reader.expect("a chat that can be read").is_some(), "a run that waits");
    }
}

/// Outcomes of tools, events of the model and deadlines do not come through the mailbox, so a chat that is busy loses none of them.
#[tokio::test(start_paused = true)]
async fn a_busy_chat_loses_no_outcome_and_no_event_of_the_model() {
    let world = World::new();
    world.script([calls(&[("run", json!({"does": "waits", "as": "a"}))])]);
    let model = world.script_streamed();
    let mut stream = world.post_text("go").await;
    stream.read_until("tool-input-available").await;
    world.store.is_blocked.send_replace(true);
    let (waiting, refused) = flood((0..MANY).map(|_| world.engine.chat(&world.owner, &world.chat).boxed()));
    assert!(
        !refused.is_empty()
            && refused.iter().all(|view| matches!(view, Err(ReadError::Unavailable(Unavailable::Busy))))
    );
    // The tool has ended long ago.
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.store.is_blocked.send_replace(false);
    assert!(join_all(waiting).await.iter().all(Result::is_ok));
    model.send(Ok(fermata_engine::model::ModelEvent::Text("Done.".into()))).unwrap();
    model.send(finished()).unwrap();
    let types = stream.read_to_end().await;
    assert!(types.contains("tool-output-available") && stream.is_done, "{types}");
    assert_eq!(stream.text(), "Done.");
}

/// The sweep wakes a chat whose actor has failed. If the mailbox is full, the sweep has to wake the chat again later, because no other
/// instance resumes the run while this one is alive.
#[tokio::test(start_paused = true)]
async fn a_chat_that_is_too_busy_to_be_woken_is_woken_later() {
    let world = World::first();
    let _silent = world.script_streamed();
    world.script([text("Here I am.")]);
    drop(world.post_text("go").await);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.model_calls(), 1);
    world.store.fails.store(true, Ordering::SeqCst);
    assert!(world.engine.stop(&world.owner, &world.chat).await.is_err());
    world.store.fails.store(false, Ordering::SeqCst);
    // The next actor is blocked by its first request before the sweep wakes the chat, and none of the requests needs the run.
    world.store.is_blocked.send_replace(true);
    let grants = |_| world.engine.grants(&world.owner, &world.chat).boxed();
    let (mut waiting, _) = flood((0..1).map(grants));
    while world.store.is_blocked.receiver_count() == 0 {
        tokio::task::yield_now().await;
    }
    let (more, refused) = flood((0..MANY).map(grants));
    waiting.extend(more);
    assert!(
        !refused.is_empty()
            && refused.iter().all(|grants| matches!(grants, Err(ReadError::Unavailable(Unavailable::Busy))))
    );
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.store.is_blocked.send_replace(false);
    assert!(join_all(waiting).await.iter().all(Result::is_ok));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((world.model_calls(), world.open_run()), (2, None));
}
