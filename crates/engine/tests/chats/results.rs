//! What tools give, in each shape that it comes in: whole for the page and the record, as content for the model.

use fermata_engine::model::{ModelContent, ModelMessage};
use fermata_protocol::{ToolState, UiPart};
use serde_json::{Value, json};

use crate::world::{World, calls, output, says};

const PNG: &str = "iVBORw0KGgo=";

fn words(words: &str) -> ModelContent {
    ModelContent::Text(words.into())
}

fn image() -> ModelContent {
    let url = format!("data:image/png;base64,{PNG}");
    ModelContent::File { media_type: "image/png".into(), url, filename: None }
}

/// Outputs, each with what the model is told of it.
fn shapes() -> Vec<(Value, Vec<ModelContent>)> {
    let mcp = json!({
        "content": [
            {"type": "text", "text": "A map:"},
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "notes://1", "text": "Bern"}},
        ],
        "structuredContent": {"city": "Bern"},
    });
    let sdk = json!({"type": "content", "value": [
        {"type": "text", "text": "A map:"},
        {"type": "image-data", "data": PNG, "mediaType": "image/png"},
    ]});
    let envelope = json!({
        "__aui_modelContent": [{"type": "text", "text": "Bern"}, {"type": "file", "data": PNG, "mediaType": "image/png"}],
        "value": {"city": "Bern", "map": PNG},
    });
    vec![
        (json!("Bern"), vec![words("Bern")]),
        (json!(null), vec![words("null")]),
        (json!(""), vec![words("")]),
        (json!({"city": "Bern", "type": "city"}), vec![words(r#"{"city":"Bern","type":"city"}"#)]),
        (json!(format!("data:image/png;base64,{PNG}")), vec![image()]),
        (mcp, vec![words("A map:"), image(), words("[notes://1]\nBern")]),
        (json!({"structuredContent": {"city": "Bern"}}), vec![words(r#"{"city":"Bern"}"#)]),
        (sdk, vec![words("A map:"), image()]),
        (json!({"type": "error-text", "value": "No signal."}), vec![words("Error: No signal.")]),
        (envelope, vec![words("Bern"), image()]),
    ]
}

/// What the model was told of the results, the last time that it was asked.
fn told(world: &World) -> Vec<Vec<ModelContent>> {
    let asked = world.model.asked.lock().expect("no panic while asked");
    let last = asked.last().expect("the model was asked");
    let results = last.messages.iter().filter_map(|message| match message {
        ModelMessage::Tool { content, .. } => Some(content.clone()),
        ModelMessage::System(_) | ModelMessage::User(_) | ModelMessage::Assistant { .. } => None,
    });
    results.collect()
}

/// The outputs that the record has.
async fn recorded(world: &World) -> Vec<Value> {
    let messages = world.messages().await;
    let outputs = messages.iter().flat_map(|message| &message.parts).filter_map(UiPart::as_tool).map(
        |part| match &part.state {
            ToolState::OutputAvailable { output, .. } => output.clone(),
            state => panic!("{state:?}"),
        },
    );
    outputs.collect()
}

#[tokio::test(start_paused = true)]
async fn an_output_of_any_shape_reaches_the_page_whole_and_the_model_as_content() {
    let (outputs, contents): (Vec<_>, Vec<_>) = shapes().into_iter().unzip();
    let world = World::new();
    world.script([calls(&vec![("where", json!({})); outputs.len()]), says("Bern.")]);
    let mut stream = world.say("where am I?").await;
    stream.until("tool-input-available").await;
    let waiting = world.pending().await;
    let answers = waiting.iter().zip(&outputs).map(|(call, given)| {
        let call = call.split(' ').next().unwrap();
        output(call, given.clone())
    });
    world.answer_all(answers.collect()).await.unwrap();
    stream.read_out().await;
    let shown = stream.chunks.iter().filter(|chunk| chunk["type"] == "tool-output-available");
    let shown: Vec<Value> = shown.map(|chunk| chunk["output"].clone()).collect();
    assert_eq!(shown, outputs);
    assert_eq!(told(&world), contents);
    assert_eq!(recorded(&world).await, outputs);

    let world = world.restarted();
    world.script([says("As I said.")]);
    world.say("are you sure?").await.read_out().await;
    assert_eq!(told(&world), contents, "told in the same words again, also from the record");
}

#[tokio::test(start_paused = true)]
async fn an_output_of_any_shape_can_come_with_a_posted_chat_and_from_any_client() {
    for client in [5, 6, 7] {
        for (given, content) in shapes() {
            let world = World::new();
            world.script([calls(&[("where", json!({}))]), says("Bern.")]);
            let post = |messages: Value| {
                let tools = json!({"where": {"parameters": {"type": "object"}}});
                json!({"id": "c", "messages": messages, "tools": tools, "fermata": {"client": client, "hold": "0s"}})
            };
            let user = json!({"id": "u", "role": "user", "parts": [{"type": "text", "text": "go"}]});
            let mut stream = world.post(post(json!([user]))).await;
            let call = stream.until("tool-input-available").await;
            stream.read_out().await;
            let part = json!({"type": "tool-where", "toolCallId": call, "state": "output-available", "input": {}, "output": given});
            let shown = json!({"id": stream.find("start")["messageId"], "role": "assistant", "parts": [{"type": "step-start"}, part]});
            let mut next = world.post(post(json!([user, shown]))).await;
            next.read_out().await;
            assert_eq!(next.text(), "Bern.", "{given}");
            assert_eq!(told(&world), [content], "{given}");
            assert_eq!(recorded(&world).await, [given]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_an_oversized_output_the_model_is_told_the_beginning_and_the_end() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), says("ok")]);
    let mut stream = world.say("go").await;
    let call = stream.until("tool-input-available").await;
    let whole = format!("{}{}", "a".repeat(1000), "z".repeat(1000));
    world.answer(output(&call, json!(whole))).await.unwrap();
    stream.read_out().await;
    assert_eq!(stream.find("tool-output-available")["output"], whole);
    assert_eq!(recorded(&world).await, [json!(whole)]);
    let note = words("[… 1400 bytes of this output are left out here …]");
    assert_eq!(told(&world), [[words(&"a".repeat(400)), note, words(&"z".repeat(200))]]);
}
