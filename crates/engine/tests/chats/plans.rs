//! Plans of chats: they go on in later runs, whatever ends a run or a process, until they are done or dropped.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use fermata_engine::{
    PlanError,
    model::{ModelContent, ModelMessage},
};
use fermata_protocol::UiPart;
use fermata_tools::Owner;
use serde_json::{Value, json};

use crate::world::{StreamReader, World, calls, text};

/// A plan of two steps.
fn plan() -> Value {
    json!({"goal": "Both", "steps": [{"id": "a", "title": "First"}, {"id": "b", "title": "Second", "dependsOn": ["a"]}]})
}

fn done(step: &str) -> Value {
    json!({"id": step, "state": "done", "note": format!("{step} went well")})
}

async fn says(world: &World, words: &str) -> StreamReader {
    let options = json!({"plan": "auto", "show": ["plan"]});
    let mut reader = world
        .post(json!({"id": "c", "message": {"role": "user", "content": words}, "fermata": options}))
        .await;
    reader.read_to_end().await;
    reader
}

/// Returns the user's last message as the model was sent it.
fn last_user(world: &World) -> String {
    let requests = world.model.requests.lock().unwrap();
    let mut users = requests.last().unwrap().messages.iter().filter_map(|message| match message {
        ModelMessage::User(content) => Some(content),
        ModelMessage::System(_) | ModelMessage::Assistant { .. } | ModelMessage::Tool { .. } => None,
    });
    let texts = users.next_back().unwrap().iter().filter_map(|piece| match piece {
        ModelContent::Text(text) => Some(text.as_str()),
        ModelContent::File { .. } => None,
    });
    texts.collect()
}

/// Returns the states of the plans in the record, in order.
async fn recorded(world: &World) -> Vec<String> {
    let parts = world.messages().await.into_iter().flat_map(|message| message.parts);
    parts
        .filter_map(|part| match part {
            UiPart::Data(part) if part.kind == "data-plan" => Some(part.data["state"].as_str()?.to_owned()),
            _ => None,
        })
        .collect()
}

/// A chat whose plan has the open step `b`.
async fn halfway() -> World {
    let world = World::new();
    world.script([calls(&[("make_plan", plan())]), calls(&[("update_plan", done("a"))]), text("A is done.")]);
    says(&world, "Please do both").await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_plan_goes_on_after_the_end_of_its_run_and_of_the_process() {
    let world = halfway().await.restarted();
    world.script([calls(&[("update_plan", done("b"))]), text("All done.")]);
    let reader = says(&world, "continue").await;
    let first = world.model.requests.lock().unwrap().len() - 1;
    let told = {
        let requests = world.model.requests.lock().unwrap();
        format!("{:?}", requests[first - 1].messages)
    };
    assert!(told.contains("Second"), "the open step is told");
    assert!(!last_user(&world).contains("<plan>"), "and no more once it is done");
    assert_eq!(reader.find("data-plan")["data"]["state"], "accepted", "it is shown from the beginning");
    let last = world.messages().await.pop().unwrap();
    assert!(format!("{last:?}").contains("b went well"));
    assert_eq!(recorded(&world).await, ["accepted", "done"]);
    assert!(matches!(world.engine.drop_plan(&world.owner, &world.chat).await, Err(PlanError::NoPlan)));

    world.script([text("Hello.")]);
    says(&world, "thanks").await;
    assert!(!last_user(&world).contains("<plan>"));
}

#[tokio::test(start_paused = true)]
async fn an_open_plan_can_be_dropped() {
    let world = halfway().await;
    let stranger = Owner::new("mallory");
    assert!(matches!(world.engine.drop_plan(&stranger, &world.chat).await, Err(PlanError::NotFound)));
    world.engine.drop_plan(&world.owner, &world.chat).await.unwrap();
    assert_eq!(recorded(&world).await, ["denied"]);
    assert!(matches!(world.engine.drop_plan(&world.owner, &world.chat).await, Err(PlanError::NoPlan)));
    world.script([text("Something else, then.")]);
    says(&world, "continue").await;
    assert!(!last_user(&world).contains("<plan>"));
}

#[tokio::test(start_paused = true)]
async fn an_open_run_keeps_its_plan() {
    let world = halfway().await;
    let stream = world.script_streamed();
    let options = json!({"plan": "auto"});
    let mut reader = world
        .post(json!({"id": "c", "message": {"role": "user", "content": "continue"}, "fermata": options}))
        .await;
    reader.read_until("start-step").await;
    assert!(matches!(world.engine.drop_plan(&world.owner, &world.chat).await, Err(PlanError::RunOpen)));
    drop(stream);
}

#[tokio::test(start_paused = true)]
async fn a_plan_goes_with_the_message_that_made_it() {
    let world = halfway().await;
    let first = world.messages().await[0].id.to_string();
    world.script([text("Another answer.")]);
    let edited = json!({"id": "c", "messageId": first, "trigger": "submit-message",
        "messages": [{"id": first, "role": "user", "parts": [{"type": "text", "text": "Something else"}]}],
        "fermata": {"plan": "auto"}});
    world.post(edited).await.read_to_end().await;
    assert!(!last_user(&world).contains("<plan>"), "{}", last_user(&world));
}
