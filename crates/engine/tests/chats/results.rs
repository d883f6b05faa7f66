//! The outputs of tools, in each shape that they can have: pages and the record get them whole, the model gets their content.

use fermata_engine::model::{ModelContent, ModelMessage};
use fermata_protocol::{ToolState, UiPart};
use serde_json::{Value, json};

use crate::world::{World, calls, decision, edited, output, text};

const PNG: &str = "iVBORw0KGgo=";

fn text_content(text: &str) -> ModelContent {
    ModelContent::Text(text.into())
}

fn image() -> ModelContent {
    let url = format!("data:image/png;base64,{PNG}");
    ModelContent::File { media_type: "image/png".into(), url, filename: None }
}

/// Returns outputs, each with the content that the model gets.
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
        (json!("Bern"), vec![text_content("Bern")]),
        (json!(null), vec![text_content("null")]),
        (json!(""), vec![text_content("")]),
        (json!({"city": "Bern", "type": "city"}), vec![text_content(r#"{"city":"Bern","type":"city"}"#)]),
        (json!(format!("data:image/png;base64,{PNG}")), vec![image()]),
        (mcp, vec![text_content("A map:"), image(), text_content("[notes://1]\nBern")]),
        (json!({"structuredContent": {"city": "Bern"}}), vec![text_content(r#"{"city":"Bern"}"#)]),
        (sdk, vec![text_content("A map:"), image()]),
        (json!({"type": "error-text", "value": "No signal."}), vec![text_content("Error: No signal.")]),
        (envelope, vec![text_content("Bern"), image()]),
    ]
}

/// Returns the contents of the tool results in the last request to the model.
fn tool_results(world: &World) -> Vec<Vec<ModelContent>> {
    let requests = world.model.requests.lock().expect("no panic");
    let last = requests.last().expect("a request to the model");
    let results = last.messages.iter().filter_map(|message| match message {
        ModelMessage::Tool { content, .. } => Some(content.clone()),
        ModelMessage::System(_) | ModelMessage::User(_) | ModelMessage::Assistant { .. } => None,
    });
    results.collect()
}

/// Returns the outputs that are in the record.
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
    world.script([calls(&vec![("where", json!({})); outputs.len()]), text("Bern.")]);
    let mut stream = world.post_text("where am I?").await;
    stream.read_until("tool-input-available").await;
    let waiting = world.pending().await;
    let answers = waiting.iter().zip(&outputs).map(|(call, value)| {
        let call = call.split(' ').next().unwrap();
        output(call, value.clone())
    });
    world.answer_all(answers.collect()).await.unwrap();
    stream.read_to_end().await;
    let shown = stream.chunks.iter().filter(|chunk| chunk["type"] == "tool-output-available");
    let shown: Vec<Value> = shown.map(|chunk| chunk["output"].clone()).collect();
    assert_eq!(shown, outputs);
    assert_eq!(tool_results(&world), contents);
    assert_eq!(recorded(&world).await, outputs);

    let world = world.restarted();
    world.script([text("As I said.")]);
    world.post_text("are you sure?").await.read_to_end().await;
    assert_eq!(tool_results(&world), contents, "the contents from the record are the same");
}

#[tokio::test(start_paused = true)]
async fn the_model_is_told_which_fields_of_an_input_a_person_has_changed() {
    let world = World::new();
    world.script([
        calls(&[("note", json!({"as": "a", "text": "one"})), ("note", json!({"as": "b"}))]),
        text("Noted."),
    ]);
    let body = json!({"id": "c", "message": {"role": "user", "content": "go"}, "fermata": {"client": 7}});
    let mut stream = world.post(body).await;
    stream.read_until("tool-approval-request").await;
    let waiting = world.pending().await;
    let [first, second] = [0, 1].map(|index| waiting[index].split(' ').next().unwrap().to_owned());
    world.answer(edited(&first, json!({"as": "c", "text": "one"}))).await.unwrap();
    world.answer(decision(&second, true)).await.unwrap();
    stream.read_to_end().await;
    let shown = stream
        .chunks
        .iter()
        .rfind(|chunk| chunk["type"] == "tool-input-available" && chunk["toolCallId"] == json!(first));
    let metadata = &shown.expect("the edited input is shown")["toolMetadata"];
    assert_eq!((&metadata["edited"], &metadata["editedFields"]), (&json!(true), &json!(["as"])));

    let told = |world: &World| -> Vec<bool> {
        let results = tool_results(world);
        results.iter().map(|content| format!("{content:?}").contains("before it ran: as.]")).collect()
    };
    assert_eq!(told(&world), [true, false]);
    let world = world.restarted();
    world.script([text("As I said.")]);
    world.post_text("are you sure?").await.read_to_end().await;
    assert_eq!(told(&world), [true, false], "the record has it too");
}

#[tokio::test(start_paused = true)]
async fn an_output_of_any_shape_can_come_in_a_posted_message_and_from_any_client() {
    for client in [5, 6, 7] {
        for (value, content) in shapes() {
            let world = World::new();
            world.script([calls(&[("where", json!({}))]), text("Bern.")]);
            let post = |messages: Value| {
                let tools = json!({"where": {"parameters": {"type": "object"}}});
                json!({"id": "c", "messages": messages, "tools": tools, "fermata": {"client": client, "hold": "0s"}})
            };
            let user = json!({"id": "u", "role": "user", "parts": [{"type": "text", "text": "go"}]});
            let mut stream = world.post(post(json!([user]))).await;
            let call = stream.read_until("tool-input-available").await;
            stream.read_to_end().await;
            let part = json!({"type": "tool-where", "toolCallId": call, "state": "output-available", "input": {}, "output": value});
            let shown = json!({"id": stream.find("start")["messageId"], "role": "assistant", "parts": [{"type": "step-start"}, part]});
            let mut next = world.post(post(json!([user, shown]))).await;
            next.read_to_end().await;
            assert_eq!(next.text(), "Bern.", "{value}");
            assert_eq!(tool_results(&world), [content], "{value}");
            assert_eq!(recorded(&world).await, [value]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_an_oversized_output_the_model_gets_the_beginning_and_the_end() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-input-available").await;
    let whole = format!("{}{}", "a".repeat(1000), "z".repeat(1000));
    world.answer(output(&call, json!(whole))).await.unwrap();
    stream.read_to_end().await;
    assert_eq!(stream.find("tool-output-available")["output"], whole);
    assert_eq!(recorded(&world).await, [json!(whole)]);
    let note = text_content("[… 1400 bytes of this output are left out here …]");
    assert_eq!(
        tool_results(&world),
        [[text_content(&"a".repeat(400)), note, text_content(&"z".repeat(200))]]
    );
}
