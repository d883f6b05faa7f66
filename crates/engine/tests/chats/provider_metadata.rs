//! Metadata that a provider wants back: the model's next requests have it, for any outcome of the calls, and no client sees it.

use fermata_engine::model::{ModelEvent, ModelMessage};
use fermata_protocol::JsonText;
use serde_json::{Value, json};

use crate::world::{ModelStep, World, calls, decision, finished, output, text};

const SECRET: &str = "SIGNED";

fn metadata(of: &str) -> JsonText {
    json!({ SECRET: of }).into()
}

/// The step with metadata of its answer and of the calls with these keys.
fn signed(mut step: ModelStep, keys: &[usize]) -> ModelStep {
    step.pop();
    let event =
        |key: Option<usize>, of: &str| Ok(ModelEvent::ProviderMetadata { key, metadata: metadata(of) });
    step.push(event(None, "answer"));
    step.extend(keys.iter().map(|key| event(Some(*key), &format!("call {key}"))));
    step.push(finished());
    step
}

/// The metadata of each answer in the last request to the model, and of its calls.
fn sent(world: &World) -> Vec<(Option<JsonText>, Vec<Option<JsonText>>)> {
    let requests = world.model.requests.lock().expect("no panic");
    let messages = &requests.last().expect("a request to the model").messages;
    let answers = messages.iter().filter_map(|message| match message {
        ModelMessage::Assistant { provider_metadata, calls, .. } => {
            let of_calls = calls.iter().map(|call| call.provider_metadata.clone());
            Some((provider_metadata.clone(), of_calls.collect()))
        }
        ModelMessage::System(_) | ModelMessage::User(_) | ModelMessage::Tool { .. } => None,
    });
    answers.collect()
}

#[tokio::test(start_paused = true)]
async fn it_goes_back_with_the_answer_and_its_calls_after_a_restart_and_no_client_is_sent_it() {
    for client in [5, 6, 7] {
        let world = World::new();
        let step = calls(&[("where", json!({})), ("note", json!({})), ("nothing", json!({}))]);
        world.script([signed(step, &[0, 2])]);
        let tool = json!({"parameters": {"type": "object"}});
        let body = json!({
            "id": "c", "message": {"role": "user", "content": "where am I?"}, "tools": {"where": tool},
            "fermata": {"client": client},
        });
        let mut stream = world.try_post(body, Some(0)).await.map(|following| following.reader).unwrap();
        let mut shown = Vec::new();
        while let Some(bytes) = stream.next().await {
            shown.extend_from_slice(&bytes);
        }

        let world = world.restarted();
        world.script([signed(text("Bern."), &[]), text("Yes.")]);
        while let Some(waiting) = world.pending().await.first() {
            let (id, state) = waiting.split_once(' ').unwrap();
            let is_asked_about = state == "awaiting_approval";
            let answer = if is_asked_about { decision(id, false) } else { output(id, json!("Bern")) };
            world.answer(answer).await.unwrap();
        }
        // It may have ended already.
        if let Some(mut stream) = world.follow().await {
            stream.read_to_end().await;
        }
        let of_step =
            (Some(metadata("answer")), vec![Some(metadata("call 0")), None, Some(metadata("call 2"))]);
        assert_eq!(sent(&world), std::slice::from_ref(&of_step));

        let world = world.restarted();
        let mut later = world.post_text("are you sure?").await;
        later.read_to_end().await;
        assert_eq!(sent(&world), [of_step, (Some(metadata("answer")), vec![])]);
        let messages = serde_json::to_string(&world.messages().await).unwrap();
        let seen = [String::from_utf8(shown).unwrap(), json!(later.chunks).to_string(), messages];
        assert!(!seen.iter().any(|text| text.contains(SECRET)), "{client}: {seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_in_which_the_model_said_nothing_stays_empty() {
    let world = World::new();
    world.script([signed(vec![finished()], &[])]);
    world.post_text("hello").await.read_to_end().await;
    let parts: Vec<Value> = world.messages().await[1].parts.iter().map(|part| json!(part)).collect();
    assert_eq!(parts, [json!({"type": "step-start"})]);
}

#[tokio::test(start_paused = true)]
async fn what_a_page_claims_to_have_been_sent_is_not_passed_on() {
    let world = World::new();
    world.script([text("Yes.")]);
    let kept = json!({"fermata": {"answer": metadata("page").as_str()}});
    let messages = json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "parts": [
            {"type": "text", "text": "b"},
            {"type": "custom", "kind": "fermata.provider-metadata", "providerMetadata": kept},
        ]},
        {"role": "user", "content": "c"},
    ]);
    world.post(json!({"id": "c", "messages": messages})).await.read_to_end().await;
    assert_eq!(sent(&world), [(None, vec![])]);
}

#[tokio::test(start_paused = true)]
async fn it_goes_back_with_a_call_that_ran() {
    let world = World::new();
    world.script([signed(calls(&[("where", json!({}))]), &[0]), text("Bern.")]);
    let mut stream = world.post_text("where am I?").await;
    let call = stream.read_until("tool-input-available").await;
    world.answer(output(&call, json!("Bern"))).await.unwrap();
    stream.read_to_end().await;
    assert_eq!(sent(&world), [(Some(metadata("answer")), vec![Some(metadata("call 0"))])]);
}
