//! Assistants of the settings file: the choices of a page, and the instructions of the model.

use axum::http::Method;
use fermata_engine::model::ModelMessage;
use fermata_server::{config::Invocation, reload::Reloader};
use serde_json::{Value, json};

use crate::{
    TestApp,
    app::Settings,
    scripted::{Turn, says as model_says},
};

const SHOP: &str = r#"
instructions = "HOUSE"
[models.fast]
[models.large]
[assistants.support]
title = "Support"
instructions = "SUPPORT"
models = ["fast", "large"]
tools = ["search_*"]
suggestions = ["Where is my order?"]
[assistants.bare]
builtin = []
"#;

async fn shop(turns: impl IntoIterator<Item = Turn>) -> TestApp {
    let file = Settings::new(SHOP);
    TestApp::with(&["--config", file.path()], turns).await
}

fn says(text: &str, fermata: Value) -> Value {
    json!({"id": "c", "message": {"role": "user", "content": text}, "fermata": fermata})
}

/// Returns the system messages of the last request to the model of the test.
fn system(app: &TestApp) -> Vec<String> {
    let asked = app.model.requests();
    let messages = &asked.last().expect("a request").messages;
    let text = |message: &ModelMessage| match message {
        ModelMessage::System(text) => Some(text.clone()),
        _ => None,
    };
    messages.iter().filter_map(text).collect()
}

#[tokio::test]
async fn the_assistants_are_listed_without_what_the_model_is_told() {
    let app = shop([]).await;
    let listed = app.get("/api/assistants").await;
    assert_eq!(listed.status, 200);
    assert_eq!(
        serde_json::from_str::<Value>(&listed.text).expect("JSON"),
        json!({"assistants": [
            {"name": "default", "title": "default", "models": ["scripted"], "suggestions": []},
            {"name": "bare", "title": "bare", "models": ["scripted"], "suggestions": []},
            {"name": "support", "title": "Support", "models": ["fast", "large"], "suggestions": ["Where is my order?"]},
        ]})
    );
}

#[tokio::test]
async fn the_tools_of_an_assistant_are_listed_by_its_name() {
    let app = shop([]).await;
    let names = async |path: &str| {
        let listed: Value = serde_json::from_str(&app.get(path).await.text).expect("JSON");
        let tools = listed["tools"].as_array().expect("a list").clone();
        tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("/api/tools").await, ["current_time", "search_notes", "write_note"]);
    assert_eq!(app.get("/api/tools").await.json()["tools"][2]["title"], "Write a note");
    assert_eq!(names("/api/tools?assistant=support").await, ["search_notes"]);
    assert_eq!(names("/api/tools?assistant=bare").await, [""; 0]);
    let detail = app.get("/api/tools?assistant=none").await.problem(404, "not_found");
    assert!(detail.contains("`none`"), "{detail}");
}

#[tokio::test]
async fn a_chat_says_whom_it_has_chosen() {
    let app = shop([model_says("hi")]).await;
    app.open(says("hello", json!({}))).await.end().await;
    assert_eq!(system(&app), ["HOUSE"]);
    let chat = async || serde_json::from_str::<Value>(&app.get("/api/chat/c").await.text).expect("JSON");
    let record = chat().await;
    assert!(record.get("assistant").is_none() && record.get("model").is_none(), "{record}");
    app.open(says("and now?", json!({"assistant": "support", "model": "large"}))).await.end().await;
    let record = chat().await;
    assert_eq!((&record["assistant"], &record["model"]), (&json!("support"), &json!("large")));
    let detail =
        app.post("/api/chat", says("x", json!({"model": "huge"}))).await.problem(422, "invalid_request");
    assert!(detail.ends_with("It has: fast, large."), "{detail}");
}

#[tokio::test]
async fn a_reload_brings_other_assistants_and_keeps_the_programs_own_model() {
    let app = shop([model_says("one"), model_says("two"), model_says("three")]).await;
    app.open(says("hello", json!({}))).await.end().await;
    let file = Settings::new("instructions = \"NEW\"\n");
    let read = {
        let arguments = file.arguments();
        move || Invocation::read(arguments.clone(), &|_| None)
    };
    let Ok(Invocation::Serve(config)) = read() else { panic!("these settings serve nothing") };
    let mut reloader = Reloader::new(app.app.clone(), *config, Box::new(read));
    file.write("instructions = \"NEWER\"\n[assistants.other]\n");
    assert_eq!(reloader.reload().expect("good settings").applied, ["instructions", "assistants"]);
    app.open(says("and now?", json!({}))).await.end().await;
    assert_eq!(system(&app), ["NEWER"]);
    file.write("instructions = \"NEWEST\"\n[assistants.other]\nmodels = [\"none\"]\n");
    let error = reloader.reload().expect_err("there is no such model").to_string();
    assert!(error.contains("there is no model none; use"), "{error}");
    app.open(says("and then?", json!({}))).await.end().await;
    assert_eq!(system(&app), ["NEWER"], "nothing has changed");
}

const TEAMS: &str = r#"
auth = "token"
tokens = ["ada:ada-0123456789abcdef", "team-1:team-0123456789abcdef", "eve:eve-0123456789abcdef"]
[assistants.admin]
owners = ["team-*"]
groups = ["admin"]
[users.ada]
groups = ["admin"]
"#;

#[tokio::test]
async fn an_assistant_for_some_is_neither_listed_nor_found_by_others() {
    let file = Settings::new(TEAMS);
    let app = TestApp::with(&["--config", file.path()], [model_says("hi"), model_says("hi")]).await;
    let ask = async |owner: &str, method: Method, path: &str, body: Value| {
        let token = format!("Bearer {owner}-0123456789abcdef");
        let body = if method == Method::GET { String::new() } else { body.to_string() };
        app.ask(method, path, &[("authorization", &token)], body).await
    };
    let listed = async |owner: &str| {
        let listed = ask(owner, Method::GET, "/api/assistants", json!(null)).await.json();
        let names = listed["assistants"].as_array().expect("a list").iter();
        names.map(|assistant| assistant["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    let posted = async |owner: &str, assistant: &str| {
        let mut body = says("hello", json!({"assistant": assistant}));
        body["id"] = json!(format!("{owner}-chat"));
        ask(owner, Method::POST, "/api/chat", body).await
    };
    for owner in ["ada", "team"] {
        assert_eq!(listed(owner).await, ["default", "admin"]);
        assert_eq!(posted(owner, "admin").await.status, 200);
        assert_eq!(ask(owner, Method::GET, "/api/tools?assistant=admin", json!(null)).await.status, 200);
    }
    assert_eq!(listed("eve").await, ["default"]);
    for name in ["admin", "admni"] {
        let detail = posted("eve", name).await.problem(404, "not_found");
        assert_eq!(
            detail,
            format!("There is no assistant `{name}` (fermata.assistant). There are: default.")
        );
        let tools = ask("eve", Method::GET, &format!("/api/tools?assistant={name}"), json!(null)).await;
        assert_eq!(tools.problem(404, "not_found"), detail);
    }
}

#[tokio::test]
async fn groups_are_read_again_on_a_reload() {
    let file = Settings::new(TEAMS);
    let app = TestApp::with(&["--config", file.path()], []).await;
    let listed = async || {
        let headers = [("authorization", "Bearer eve-0123456789abcdef")];
        app.ask(Method::GET, "/api/assistants", &headers, "").await.json()["assistants"]
            .as_array()
            .map(Vec::len)
    };
    let read = {
        let arguments = file.arguments();
        move || Invocation::read(arguments.clone(), &|_| None)
    };
    let Ok(Invocation::Serve(config)) = read() else { panic!("these settings serve nothing") };
    let mut reloader = Reloader::new(app.app.clone(), *config, Box::new(read));
    assert_eq!(listed().await, Some(1));
    file.write(&format!("{TEAMS}[users.eve]\ngroups = [\"admin\"]\n"));
    assert_eq!(reloader.reload().expect("good settings").applied, ["users"]);
    assert_eq!(listed().await, Some(2));
}
