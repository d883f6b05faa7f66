//! Questions that the model asks the user with `ask_user`.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::time::Duration;

use fermata_engine::{Assistants, Hold, Rules, model::ModelTool};
use fermata_protocol::{Answer, AnswerKind, AnswerTarget, ElicitAction, ElicitationId};
use fermata_tools::GateMode;
use serde_json::{Value, json};

use crate::world::{StreamReader, World, calls, output, text};

fn asking(world: &World) {
    let mut assistants = Assistants::answered_by(world.model.clone());
    assistants.default.asks_user = true;
    world.engine.set_assistants(assistants);
}

fn size() -> Value {
    json!({"questions": [{"id": "size", "question": "Which size?", "choices": ["S", "M", "L"], "guess": "M"}]})
}

async fn asked(world: &World) -> (StreamReader, String) {
    asking(world);
    world.script([calls(&[("ask_user", size())]), text("Very well.")]);
    let mut stream = world.post_text("a shirt").await;
    stream.read_until("data-elicitation").await;
    let data = &stream.find("data-elicitation")["data"];
    assert_eq!(data["requestedSchema"]["properties"]["size"]["default"], "M");
    let id = data["elicitationId"].as_str().unwrap().to_owned();
    (stream, id)
}

fn reply(id: &str, action: ElicitAction, content: Option<Value>) -> Answer {
    let kind = AnswerKind::Elicited { action, content };
    Answer { of: AnswerTarget::Elicitation(ElicitationId::new(id)), kind }
}

fn last_request(world: &World) -> String {
    format!("{:?}", world.model.requests.lock().unwrap().last().unwrap().messages)
}

#[tokio::test(start_paused = true)]
async fn an_answer_goes_to_the_model_and_is_given_once() {
    let world = World::new();
    let (mut stream, id) = asked(&world).await;
    assert!(!stream.types().contains("tool-approval-request"));
    assert_eq!(world.pending().await, [format!("{id} asks Which size?")]);
    let wrong = world.answer(reply(&id, ElicitAction::Accept, Some(json!({"size": "XXL"})))).await;
    assert!(wrong.unwrap_err().contains("does not fit"), "only a choice is an answer");
    let answer = reply(&id, ElicitAction::Accept, Some(json!({"size": "L"})));
    world.answer(answer.clone()).await.unwrap();
    stream.read_to_end().await;
    assert_eq!(stream.text().matches("Very well.").count(), 1);
    assert!(last_request(&world).contains(r#"\"size\":\"L\""#), "{}", last_request(&world));
    let states: Vec<&Value> = stream
        .chunks
        .iter()
        .filter(|chunk| chunk["type"] == "data-elicitation")
        .map(|chunk| &chunk["data"]["state"])
        .collect();
    assert_eq!(states, ["pending", "accepted"]);
    assert!(world.answer(reply(&id, ElicitAction::Decline, None)).await.is_err(), "late");
}

#[tokio::test(start_paused = true)]
async fn who_does_not_answer_has_the_guesses() {
    for action in [ElicitAction::Decline, ElicitAction::Cancel] {
        let world = World::new();
        let (mut stream, id) = asked(&world).await;
        world.answer(reply(&id, action, None)).await.unwrap();
        stream.read_to_end().await;
        assert!(last_request(&world).contains("did not answer"), "{}", last_request(&world));
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_outlives_a_restart_and_the_end_of_its_stream() {
    for (hold, restarts) in
        [(Hold::default(), true), (Hold::For(Duration::ZERO), true), (Hold::For(Duration::ZERO), false)]
    {
        let world = World::with_hold(hold);
        let (mut stream, id) = asked(&world).await;
        if hold == Hold::For(Duration::ZERO) {
            stream.read_to_end().await;
        }
        drop(stream);
        let world = if restarts { world.restarted() } else { world };
        asking(&world);
        assert_eq!(world.pending().await, [format!("{id} asks Which size?")], "the same question");
        world.answer(reply(&id, ElicitAction::Accept, Some(json!({"size": "S"})))).await.unwrap();
        if let Some(mut stream) = world.follow().await {
            stream.read_to_end().await;
        }
        assert!(world.pending().await.is_empty());
        assert!(last_request(&world).contains(r#"\"size\":\"S\""#), "{}", last_request(&world));
        let message = format!("{:?}", world.messages().await[1]);
        assert!(message.contains("accepted") && !message.contains("pending"), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_questions_are_to_be_assumed_and_nobody_is_asked() {
    let world = World::new();
    asking(&world);
    let three: Vec<Value> =
        ["a", "b", "c"].map(|id| json!({"id": id, "question": "?", "guess": "x"})).to_vec();
    world.script([calls(&[("ask_user", json!({"questions": three}))]), text("My best guess.")]);
    let mut stream = world.post_text("go").await;
    stream.read_to_end().await;
    assert!(!stream.types().contains("data-elicitation"));
    assert!(last_request(&world).contains("best assumption"));
}

#[tokio::test(start_paused = true)]
async fn a_stop_and_an_edit_withdraw_the_question() {
    for stops in [true, false] {
        let world = World::new();
        let (mut stream, id) = asked(&world).await;
        if stops {
            world.engine.stop(&world.owner, &world.chat).await.unwrap();
        } else {
            let first = world.messages().await[0].id.to_string();
            let body = json!({
                "id": world.chat.as_str(), "messageId": first, "message": {"role": "user", "content": "a hat"},
            });
            world.post(body).await.read_to_end().await;
        }
        stream.read_to_end().await;
        assert!(world.answer(reply(&id, ElicitAction::Accept, Some(json!({"size": "S"})))).await.is_err());
        assert!(world.pending().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_typed_reply_is_the_answer_and_the_run_goes_on_in_a_new_message() {
    for (said, told) in [
        ("l", r#"\"size\":\"L\""#),
        ("The biggest one, please!", r#"\"reply\":\"The biggest one, please!\""#),
        ("yes", r#"\"reply\":\"yes\""#),
    ] {
        for restarts in [false, true] {
            let world = World::new();
            let (mut first, _) = asked(&world).await;
            let world = if restarts { world.restarted() } else { world };
            asking(&world);
            let mut second = world.post_text(said).await;
            second.read_to_end().await;
            if !restarts {
                first.read_to_end().await;
                assert!(first.types().ends_with("data-elicitation abort"), "{}", first.types());
            }
            assert_eq!(second.text(), "Very well.", "{said}");
            assert!(last_request(&world).contains(told), "{}", last_request(&world));
            let messages = world.messages().await;
            assert_eq!(messages.len(), 4);
            assert_eq!(messages[2].parts.iter().find_map(|part| part.as_text()), Some(said));
            let asked = format!("{:?}", messages[1]);
            assert!(asked.contains("accepted") && asked.contains("OutputAvailable"), "{asked}");
            assert!(!asked.contains("pending"), "{asked}");
            assert!(world.pending().await.is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_goes_along_when_words_decide_about_a_call_and_is_answered_then() {
    for gate in [GateMode::Step, GateMode::Progressive] {
        let world = World::new();
        asking(&world);
        world.engine.set_rules(Rules { gate, ..Rules::default() });
        world.script([calls(&[("note", json!({})), ("ask_user", size())]), text("Very well.")]);
        let mut first = world.post_text("a shirt").await;
        first.read_until("tool-approval-request").await;
        if gate == GateMode::Progressive {
            first.read_until("data-elicitation").await;
        }
        let mut second = world.say("yes").await;
        second.read_until("data-elicitation").await;
        assert_eq!(second.find("data-elicitation")["data"]["state"], "pending");
        let mut third = world.post_text("S").await;
        third.read_to_end().await;
        first.read_to_end().await;
        second.read_to_end().await;
        assert_eq!(third.text(), "Very well.", "{gate:?}");
        assert!(last_request(&world).contains(r#"\"size\":\"S\""#), "{}", last_request(&world));
        let record = format!("{:?}", world.messages().await);
        assert!(!record.contains(r#"String("pending")"#), "{record}");
        assert!(world.pending().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_assistant_without_the_group_has_no_such_tool() {
    let world = World::new();
    world.script([calls(&[("ask_user", size())]), text("No.")]);
    let mut stream = world.post_text("go").await;
    stream.read_to_end().await;
    assert!(!stream.types().contains("data-elicitation"));
    assert!(last_request(&world).contains("There is no tool named"));
}

#[tokio::test(start_paused = true)]
async fn a_pages_own_ask_user_goes_before() {
    let world = World::new();
    asking(&world);
    world.script([calls(&[("ask_user", json!({"question": "Which size?"}))]), text("Very well.")]);
    let tool = json!({"parameters": {"type": "object", "properties": {"question": {"type": "string"}}}});
    let body = json!({
        "id": world.chat.as_str(),
        "message": {"role": "user", "content": "a shirt"},
        "tools": {"ask_user": tool},
    });
    let mut stream = world.post(body).await;
    let call = stream.read_until("tool-input-available").await;
    assert!(!stream.types().contains("data-elicitation"), "{}", stream.types());
    // Also after the rules have changed and after a restart.
    world.engine.set_rules(Rules::default());
    let world = world.restarted();
    asking(&world);
    world.answer(output(&call, json!({"answer": "L"}))).await.unwrap();
    if let Some(mut stream) = world.follow().await {
        stream.read_to_end().await;
    }
    let offered = world.model.requests.lock().unwrap().last().unwrap().tools.clone();
    let asks: Vec<&ModelTool> = offered.iter().filter(|tool| tool.name == "ask_user").collect();
    assert_eq!(asks.len(), 1);
    assert!(asks[0].input_schema["properties"]["questions"].is_null(), "{asks:?}");
    assert!(last_request(&world).contains("answer"), "{}", last_request(&world));
}
