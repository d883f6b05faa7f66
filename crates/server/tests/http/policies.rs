//! Rules of the settings file, and their effect on calls and on the model's prompts.

use fermata_engine::model::ModelMessage;
use fermata_server::{
    config::{Config, Invocation},
    reload::{ReloadError, Reloader},
};
use serde_json::{Value, json};

use crate::{
    TestApp,
    app::{Settings, Stream, says, says_with_location},
    scripted::{Turn, calls, says as model_says},
};

const GUARDED: &str = "[[policy]]\ntool = \"write_*\"\ninput = { title = \"*secret*\" }\ndecision = \"deny\"\nreason = \"No secrets in notes.\"\n";

fn note(title: &str) -> Value {
    json!({"title": title, "body": "b"})
}

async fn configured(toml: &str, turns: impl IntoIterator<Item = Turn>) -> TestApp {
    let file = Settings::new(toml);
    TestApp::with(&["--config", file.path()], turns).await
}

/// Returns the outcomes of the calls, in the order of the stream.
fn outcomes(stream: &Stream) -> Vec<&str> {
    stream.kinds().into_iter().filter(|kind| kind.starts_with("tool-output-")).collect()
}

fn questions(stream: &Stream) -> usize {
    stream.kinds().iter().filter(|kind| **kind == "tool-approval-request").count()
}

/// Returns the results of the calls in the last request to the model.
fn results(app: &TestApp) -> Vec<String> {
    let asked = app.model.requests();
    let messages = &asked.last().expect("a request").messages;
    messages
        .iter()
        .filter(|message| matches!(message, ModelMessage::Tool { .. }))
        .map(|message| format!("{message:?}"))
        .collect()
}

#[tokio::test]
async fn a_denied_call_is_not_asked_about_and_the_model_gets_the_reason() {
    let app =
        configured(GUARDED, [calls(&[("write_note", note("a secret"))]), model_says("I may not.")]).await;
    let mut stream = app.open(says("c", "go")).await;
    stream.end().await;
    assert_eq!((questions(&stream), outcomes(&stream)), (0, vec!["tool-output-denied"]));
    assert!(results(&app)[0].contains("No secrets in notes."), "{:?}", results(&app));
    assert_eq!(stream.text(), "I may not.");
}

#[tokio::test]
async fn an_input_that_no_rule_is_about_keeps_the_tools_default() {
    let app = configured(GUARDED, [calls(&[("write_note", note("milk"))]), model_says("ok")]).await;
    let mut stream = app.open(says("c", "go")).await;
    let question = stream.until("tool-approval-request").await;
    let answer = json!({"chatId": "c", "approvalId": question["approvalId"], "approved": true});
    assert_eq!(app.post("/chat/tool-result", answer).await.status, 200);
    stream.end().await;
    assert_eq!(outcomes(&stream), ["tool-output-available"]);
}

#[tokio::test]
async fn an_allowed_call_runs_at_once() {
    let toml = "[[policy]]\ntool = \"write_note\"\ndecision = \"allow\"\n";
    let app = configured(toml, [calls(&[("write_note", note("x"))]), model_says("ok")]).await;
    let mut stream = app.open(says("c", "go")).await;
    stream.end().await;
    assert_eq!((questions(&stream), outcomes(&stream)), (0, vec!["tool-output-available"]));
}

#[tokio::test]
async fn a_browsers_call_that_a_rule_asks_about_is_withheld_until_it_is_approved() {
    let toml = "[[policy]]\nfrom = \"browser\"\ndecision = \"ask\"\n";
    let app = configured(toml, [calls(&[("get_location", json!({}))]), model_says("Bern.")]).await;
    let mut stream = app.open(says_with_location("c", "where?")).await;
    let question = stream.until("tool-approval-request").await;
    assert!(!stream.kinds().contains(&"tool-input-available"), "{:?}", stream.kinds());
    let answer = json!({"chatId": "c", "approvalId": question["approvalId"], "approved": true});
    assert_eq!(app.post("/chat/tool-result", answer).await.status, 200);
    let call = stream.until("tool-input-available").await["toolCallId"].clone();
    app.post("/chat/tool-result", json!({"chatId": "c", "toolCallId": call, "output": "Bern"})).await;
    stream.end().await;
    assert_eq!(stream.text(), "Bern.");
}

#[tokio::test]
async fn the_first_rule_that_matches_decides() {
    let toml = "[[policy]]\ntool = \"current_*\"\ndecision = \"deny\"\n[[policy]]\nfrom = \"server\"\ndecision = \"allow\"\n";
    let step = [("current_time", json!({})), ("write_note", note("x"))];
    let app = configured(toml, [calls(&step), model_says("ok")]).await;
    let mut stream = app.open(says("c", "go")).await;
    stream.end().await;
    assert_eq!(questions(&stream), 0);
    assert_eq!(outcomes(&stream), ["tool-output-denied", "tool-output-available"]);
}

#[tokio::test]
async fn with_approval_auto_nothing_is_asked_and_what_is_denied_stays_denied() {
    let step = [("write_note", note("milk")), ("write_note", note("a secret"))];
    let app = configured(&format!("approval = \"auto\"\n{GUARDED}"), [calls(&step), model_says("ok")]).await;
    let mut stream = app.open(says("c", "go")).await;
    stream.end().await;
    let mut outcomes = outcomes(&stream);
    outcomes.sort_unstable();
    assert_eq!((questions(&stream), outcomes), (0, vec!["tool-output-available", "tool-output-denied"]));
}

#[tokio::test]
async fn settings_of_tools_by_name_are_listed_with_the_tool() {
    let toml =
        "[tools.\"*_note\"]\nresource = \"one\"\n[tools.\"write_*\"]\nresource = { input = \"title\" }\n";
    let app = configured(toml, []).await;
    let tools = app.get("/api/tools").await.json()["tools"].clone();
    let resources: Vec<(&str, &Value)> = tools
        .as_array()
        .expect("a list")
        .iter()
        .map(|tool| (tool["name"].as_str().expect("a name"), &tool["resource"]))
        .collect();
    assert_eq!(
        resources,
        [
            ("current_time", &Value::Null),
            ("search_notes", &json!("notes")),
            ("write_note", &json!("input.title"))
        ]
    );
}

/// A server whose settings file can be reloaded.
async fn reloading(file: &Settings, turns: impl IntoIterator<Item = Turn>) -> (TestApp, Reloader) {
    let arguments = file.arguments();
    let app = TestApp::with(&["--config", file.path()], turns).await;
    let read = move || Invocation::read(arguments.clone(), &|_| None);
    let config: Config = match read().expect("good settings") {
        Invocation::Serve(config) => *config,
        other => panic!("{other:?} does not serve"),
    };
    let reloader = Reloader::new(app.app.clone(), config, Box::new(read));
    (app, reloader)
}

#[tokio::test]
async fn a_reloaded_file_applies_to_later_steps_and_a_bad_one_to_none() {
    let rule = |decision: &str| format!("[[policy]]\ntool = \"write_note\"\ndecision = \"{decision}\"\n");
    let file = Settings::new(&rule("deny"));
    let turn = || [calls(&[("write_note", note("x"))]), model_says("ok")];
    let (app, mut reloader) = reloading(&file, [turn(), turn(), turn()].concat()).await;
    let outcome = async |chat: &str| {
        let mut stream = app.open(says(chat, "go")).await;
        stream.end().await;
        outcomes(&stream).concat()
    };
    assert_eq!(outcome("one").await, "tool-output-denied");
    file.write(&rule("allow"));
    assert_eq!(reloader.reload().expect("a good file").applied, ["policy"]);
    assert_eq!(outcome("two").await, "tool-output-available");
    file.write(&rule("perhaps"));
    let error = reloader.reload().expect_err("a bad file").to_string();
    assert!(error.starts_with(&format!("{}:3: decision: \"perhaps\"", file.path())), "{error}");
    assert_eq!(outcome("three").await, "tool-output-available");
}

const DENY_WRITING: &str =
    "[[policy]]\ntool = \"write_*\"\ndecision = \"deny\"\nreason = \"Closed for today.\"\n";

#[tokio::test]
async fn a_call_that_waits_is_not_approved_against_the_newest_rules() {
    let file = Settings::new("");
    let (app, mut reloader) =
        reloading(&file, [calls(&[("write_note", note("x"))]), model_says("I may not.")]).await;
    let mut stream = app.open(says("c", "go")).await;
    let question = stream.until("tool-approval-request").await;
    file.write(DENY_WRITING);
    reloader.reload().expect("a good file");
    let answer = json!({"chatId": "c", "approvalId": question["approvalId"], "approved": true});
    let refused = app.post("/chat/tool-result", answer.clone()).await;
    assert_eq!(refused.problem(422, "denied_by_policy"), "Closed for today.");
    stream.end().await;
    assert_eq!(outcomes(&stream), ["tool-output-denied"]);
    assert_eq!(stream.text(), "I may not.");
    assert!(results(&app)[0].contains("Closed for today."), "{:?}", results(&app));
    assert_eq!(app.post("/chat/tool-result", answer).await.status, 409, "the call has its outcome");
}

#[tokio::test]
async fn an_approval_that_is_posted_in_the_message_reads_the_denial_of_the_newest_rules() {
    let file = Settings::new("");
    let (app, mut reloader) =
        reloading(&file, [calls(&[("write_note", note("x"))]), model_says("I may not.")]).await;
    let mut post = says("c", "go");
    post["fermata"] = json!({"hold": "0s"});
    let mut stream = app.open(post).await;
    stream.end().await;
    file.write(DENY_WRITING);
    reloader.reload().expect("a good file");
    let mut messages = app.get("/api/chat/c").await.json()["messages"].clone();
    let part = &mut messages[1]["parts"][1];
    part["state"] = "approval-responded".into();
    part["approval"]["approved"] = true.into();
    let mut stream = app.open(json!({"id": "c", "messages": messages})).await;
    stream.end().await;
    assert_eq!(outcomes(&stream), ["tool-output-denied"]);
    assert_eq!(stream.text(), "I may not.");
}

#[tokio::test]
async fn a_browsers_call_that_waited_for_the_gate_is_not_permitted_against_the_newest_rules() {
    let file = Settings::new("");
    let step = [("get_location", json!({})), ("write_note", note("x"))];
    let (app, mut reloader) = reloading(&file, [calls(&step), model_says("ok")]).await;
    let mut stream = app.open(says_with_location("c", "go")).await;
    let question = stream.until("tool-approval-request").await;
    file.write("[[policy]]\nfrom = \"browser\"\ndecision = \"deny\"\n");
    reloader.reload().expect("a good file");
    let answer = json!({"chatId": "c", "approvalId": question["approvalId"], "approved": true});
    assert_eq!(app.post("/chat/tool-result", answer).await.status, 200);
    stream.end().await;
    let permitted: Vec<_> =
        stream.chunks.iter().filter(|chunk| chunk["type"] == "tool-input-available").collect();
    assert!(permitted.iter().all(|chunk| chunk["toolName"] == "write_note"), "{permitted:?}");
    let mut outcomes = outcomes(&stream);
    outcomes.sort_unstable();
    assert_eq!(outcomes, ["tool-output-available", "tool-output-denied"]);
}

#[tokio::test]
async fn a_file_that_is_gone_is_no_file_without_rules() {
    let file = Settings::new(GUARDED);
    let read = {
        let (arguments, path) = (file.arguments(), file.path().to_owned());
        // The command line does not name the file, so it is read only if it exists.
        move || match std::fs::exists(&path) {
            Ok(true) => Invocation::read(arguments.clone(), &|_| None),
            Ok(false) | Err(_) => Invocation::read(["fermata".into()], &|_| None),
        }
    };
    let Invocation::Serve(config) = read().expect("good settings") else { panic!("it does not serve") };
    let app = TestApp::with(&["--config", file.path()], []).await;
    let mut reloader = Reloader::new(app.app, *config, Box::new(read));
    file.remove();
    let gone = reloader.reload().expect_err("it is gone");
    assert!(matches!(gone, ReloadError::FileGone(_)), "{gone}");
}

#[tokio::test]
async fn settings_that_need_a_restart_are_reported() {
    let file = Settings::new("hold = \"1s\"\n");
    let (_app, mut reloader) = reloading(&file, []).await;
    file.write("hold = \"2s\"\ngate = \"progressive\"\n");
    let changes = reloader.reload().expect("a good file");
    assert_eq!((changes.applied, changes.needing_restart), (vec!["gate"], vec!["hold"]));
}
