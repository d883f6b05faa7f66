//! The entry of a chat in lists, which its owner changes.

use fermata_engine::{
    ReadError,
    store::{ChatQuery, Listing},
};
use fermata_protocol::ChatPatch;
use fermata_tools::Owner;
use serde_json::json;

use crate::world::{World, calls, text};

fn post(words: &str) -> serde_json::Value {
    json!({"id": "c", "message": {"role": "user", "content": words}})
}

async fn change(world: &World, change: ChatPatch) -> Result<Listing, ReadError> {
    world.engine.change_listing(&world.owner, &world.chat, change).await
}

#[tokio::test(start_paused = true)]
async fn a_chat_is_renamed_while_a_call_waits_and_goes_on() {
    let world = World::new();
    world.script([calls(&[("get_location", json!({}))]), text("Bern.")]);
    let mut body = post("where am I?");
    body["tools"] = json!({"get_location": {"description": "", "parameters": {"type": "object"}}});
    world.post(body).await;
    let renamed = ChatPatch { title: Some(Some("Places".into())), ..ChatPatch::default() };
    let places = Listing { title: Some("Places".into()), ..Listing::default() };
    assert_eq!(change(&world, renamed).await.unwrap(), places);
    let world = world.restarted();
    assert_eq!(world.engine.chat(&world.owner, &world.chat).await.unwrap().listing, places);
    let reset = ChatPatch { title: Some(None), pinned: Some(true), ..ChatPatch::default() };
    let expected = Listing { title: Some("where am I?".into()), archived: false, pinned: true };
    assert_eq!(change(&world, reset).await.unwrap(), expected);
    let page = world.engine.chats(ChatQuery::new(&world.owner, 9)).await.unwrap();
    assert_eq!((&page.chats[0].listing, page.chats[0].pending), (&expected, 1));
}

#[tokio::test(start_paused = true)]
async fn only_the_owner_changes_what_lists_show() {
    let world = World::new();
    world.script([text("Hello.")]);
    let archive = ChatPatch { archived: Some(true), ..ChatPatch::default() };
    assert!(
        matches!(change(&world, archive.clone()).await, Err(ReadError::NotFound)),
        "there is no chat yet"
    );
    world.post(post("hi")).await.read_to_end().await;
    let mallory = world.engine.change_listing(&Owner::new("mallory"), &world.chat, archive).await;
    assert!(matches!(mallory, Err(ReadError::NotFound)));
    assert!(!world.engine.chat(&world.owner, &world.chat).await.unwrap().listing.archived);
}
