//! Parts of a chat that the provider refuses: the chat goes on without them, and says which they are.

use fermata_engine::model::{ModelMessage, ModelRequest};
use serde_json::{Value, json};

use crate::world::{World, calls, output, text};

/// A picture with this text in it.
fn picture(name: &str) -> Value {
    json!({"type": "file", "mediaType": "image/png", "filename": format!("{name}.png"), "url": format!("data:image/png;base64,{name}")})
}

fn post(parts: Value) -> Value {
    json!({"id": "c", "message": {"role": "user", "parts": parts}, "fermata": {"client": 7}})
}

fn say(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn last_request(world: &World) -> ModelRequest {
    world.model.requests.lock().expect("no panic").last().cloned().expect("a request to the model")
}

fn refuse(world: &World, text: impl Into<String>) {
    world.model.refuses.lock().expect("no panic").push(text.into());
}

/// Returns the refused parts that the chat's answers list, each as its type and name.
async fn listed(world: &World) -> Vec<String> {
    let chat = world.engine.chat(&world.owner, &world.chat).await.expect("the chat");
    let metadata = chat.messages.iter().filter_map(|message| message.metadata.as_ref());
    let parts = metadata.filter_map(|metadata| metadata.get("refused")?.as_array()).flatten();
    let name = |part: &Value| {
        let name = ["filename", "toolCallId", "messageId"].into_iter().find_map(|field| part[field].as_str());
        format!("{} {}", part["type"].as_str().unwrap_or_default(), name.unwrap_or_default())
    };
    parts.map(name).collect()
}

#[tokio::test(start_paused = true)]
async fn a_refused_file_is_found_among_others_and_the_others_stay() {
    for (pictures, bad) in [
        (&["AAAA"][..], &["AAAA"][..]),
        (&["AAAA", "BBBB"], &["AAAA"]),
        (&["AAAA", "BBBB"], &["BBBB"]),
        (&["AAAA", "BBBB", "CCCC"], &["BBBB"]),
        (&["AAAA", "BBBB"], &["AAAA", "BBBB"]),
    ] {
        let world = World::new();
        for name in bad {
            refuse(&world, format!("base64,{name}"));
        }
        world.script([text("I see."), text("Yes.")]);
        let parts = [say("look")].into_iter().chain(pictures.iter().map(|name| picture(name))).collect();
        let mut stream = world.post(post(parts)).await;
        stream.read_to_end().await;
        assert_eq!(stream.text(), "I see.", "{pictures:?} {bad:?}");
        let of_bad: Vec<String> = bad.iter().map(|name| format!("file {name}.png")).collect();
        assert_eq!(listed(&world).await, of_bad);
        let shown = stream.find("message-metadata");
        assert_eq!(shown["messageMetadata"]["refused"][0]["filename"], format!("{}.png", bad[0]));

        // The next message takes one request, even after a restart.
        let world = world.restarted();
        let before = world.model_calls();
        world.post(post(json!([say("and now?")]))).await.read_to_end().await;
        assert_eq!(world.model_calls(), before + 1);
        let sent = format!("{:?}", last_request(&world));
        for name in pictures {
            assert_eq!(sent.contains(&format!("base64,{name}")), !bad.contains(name), "{name} in {sent}");
            assert!(sent.contains(&format!("{name}.png")), "{sent}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_refused_later_does_not_end_the_chat() {
    let world = World::new();
    world.script([text("I see."), text("Yes."), text("Still.")]);
    world.post(post(json!([say("look"), picture("AAAA")]))).await.read_to_end().await;
    // As a link does that has expired.
    refuse(&world, "base64,AAAA");
    for answer in ["Yes.", "Still."] {
        let mut stream = world.post(post(json!([say("and now?")]))).await;
        stream.read_to_end().await;
        assert_eq!(stream.text(), answer);
    }
    assert_eq!(listed(&world).await, ["file AAAA.png"]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_result_does_not_end_the_run() {
    let world = World::new();
    refuse(&world, "a curse");
    world.script([calls(&[("where", json!({})), ("color", json!({}))]), text("I know.")]);
    let mut stream = world.post_text("where am I?").await;
    while world.pending().await.len() < 2 {
        assert!(stream.read_more().await);
    }
    let waiting = world.pending().await;
    let ids: Vec<&str> = waiting.iter().filter_map(|call| call.split(' ').next()).collect();
    let (place, color) = (ids[0].to_owned(), ids[1].to_owned());
    world.answer(output(&place, json!("a curse"))).await.expect("it is taken");
    world.answer(output(&color, json!("blue"))).await.expect("it is taken");
    stream.read_to_end().await;
    assert_eq!(stream.text(), "I know.");
    assert_eq!(listed(&world).await, [format!("tool-result {place}")]);
    let sent = last_request(&world);
    let results = sent.messages.iter().filter(|message| matches!(message, ModelMessage::Tool { .. }));
    let results: Vec<String> = results.map(|result| format!("{result:?}")).collect();
    assert!(results[0].contains("This call succeeded") && results[1].contains("blue"), "{results:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_message_ends_its_own_answer_and_not_the_chat() {
    let world = World::new();
    refuse(&world, "a curse");
    world.script([text("Hello.")]);
    let mut stream = world.post(post(json!([say("a curse")]))).await;
    stream.read_to_end().await;
    assert_eq!(world.model_calls(), 1);
    stream.find("error");
    let mut stream = world.post(post(json!([say("only words")]))).await;
    stream.read_to_end().await;
    assert_eq!(stream.text(), "Hello.");
    assert_eq!(listed(&world).await.len(), 1);
    assert!(!format!("{:?}", last_request(&world)).contains("a curse"));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_another_reason_is_reported_and_nothing_is_marked() {
    let world = World::new();
    refuse(&world, "look");
    let mut stream = world.post(post(json!([say("look"), picture("AAAA")]))).await;
    stream.read_to_end().await;
    assert_eq!(stream.find("error")["errorText"], "The model provider refused this conversation.");
    assert_eq!(listed(&world).await, [""; 0]);
    assert_eq!(world.model_calls(), 2, "once more without the picture");
}
