//! Tests with the reference server from npm over both transports.

use std::{collections::BTreeMap, process::Stdio};

use fermata_mcp::{ServerConfig, Transport};
use fermata_tools::{Decision, ElicitationReply, ErrorType, RunBy, ToolSpec};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    process::{Child, Command},
};

use crate::world::{Person, World, everything, everything_as_a_program, in_time, text};

/// The reference server over HTTP. It is killed when this is dropped.
struct Served {
    process: Child,
    port: u16,
}

impl Served {
    async fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        Self::start_at(port).await
    }

    async fn start_at(port: u16) -> Self {
        let mut process = Command::new("node")
            .arg(everything())
            .arg("streamableHttp")
            .env("PORT", port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("node is missing: install Node 20 or later to run the real server");
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        while let Some(line) = in_time(lines.next_line()).await.unwrap() {
            if line.contains("listening") {
                return Self { process, port };
            }
        }
        panic!("the server does not start");
    }

    fn config(&self) -> ServerConfig {
        ServerConfig::new(Transport::Http {
            url: format!("http://127.0.0.1:{}/mcp", self.port),
            headers: BTreeMap::new(),
        })
    }
}

/// Returns a world for each transport, with the reference server as `every`. The HTTP server must be kept alive.
async fn both_transports() -> [(World, Option<Served>); 2] {
    let served = Served::start().await;
    let over_http = World::with([("every", served.config())]).await;
    [(World::with([("every", everything_as_a_program())]).await, None), (over_http, Some(served))]
}

/// Returns the configuration with trusted annotations.
fn trusted(config: ServerConfig) -> ServerConfig {
    ServerConfig { trust_annotations: true, ..config }
}

#[tokio::test]
async fn every_tool_needs_approval_unless_its_annotations_are_trusted() {
    let world = World::with([("every", everything_as_a_program())]).await;
    world.tool("every__trigger-elicitation-request").await;
    let echo = &world.specs()["every__echo"];
    assert_eq!(
        (echo.policy, echo.repeatable),
        (Decision::Ask, false),
        "annotations are not trusted by default"
    );
    world.hub.set_servers([("every".to_owned(), trusted(everything_as_a_program()))].into());
    let is_allowed = |spec: &ToolSpec| spec.name == "every__echo" && spec.policy == Decision::Allow;
    world.wait_for(|specs| specs.iter().any(is_allowed)).await;
    world.hub.set_servers([("every".to_owned(), everything_as_a_program())].into());
    assert_eq!(
        world.specs()["every__echo"].policy,
        Decision::Ask,
        "the policy changes before the new server has listed its tools"
    );
}

#[tokio::test]
async fn trusted_annotations_decide_the_policies_of_tools() {
    let served = Served::start().await;
    let over_http = World::with([("every", trusted(served.config()))]).await;
    let as_a_program = World::with([("every", trusted(everything_as_a_program()))]).await;
    for world in [over_http, as_a_program] {
        world.tool("every__trigger-elicitation-request").await;
        let specs = world.specs();
        let echo = &specs["every__echo"];
        assert_eq!((echo.run_by, echo.policy, echo.repeatable), (RunBy::Mcp, Decision::Allow, true));
        assert_eq!(echo.input_schema["type"], "object");
        assert!(echo.input_schema["properties"]["message"].is_object());
        assert!(!echo.description.is_empty());
        let logging = &specs["every__toggle-simulated-logging"];
        assert_eq!((logging.policy, logging.repeatable), (Decision::Ask, false));
        assert_eq!(specs["every__trigger-elicitation-request"].policy, Decision::Ask);
        for absent in
            ["every__get-roots-list", "every__trigger-sampling-request", "every__trigger-url-elicitation"]
        {
            assert!(!specs.contains_key(absent), "{absent} needs a capability that the client does not have");
        }
    }
}

#[tokio::test]
async fn a_call_returns_the_whole_result() {
    for (world, _served) in both_transports().await {
        let output = world.call("every__echo", json!({"message": "hello"})).await.unwrap();
        assert_eq!(output, json!({"content": [{"type": "text", "text": "Echo: hello"}]}));
        let output =
            world.call("every__get-structured-content", json!({"location": "Chicago"})).await.unwrap();
        assert!(output["structuredContent"]["temperature"].is_number(), "{output}");
        let output = world.call("every__get-tiny-image", json!({})).await.unwrap();
        assert_eq!(output["content"][1]["type"], "image");
        assert_eq!(output["content"][1]["mimeType"], "image/png");
    }
}

#[tokio::test]
async fn progress_is_reported_while_a_call_runs() {
    for (world, _served) in both_transports().await {
        let mut person = Person::new("chat", []);
        let input = json!({"duration": 0.3, "steps": 3});
        let output = world.call_as("every__trigger-long-running-operation", input, &person).await.unwrap();
        assert!(text(&output).contains("completed"), "{output}");
        let mut reports = Vec::new();
        while let Ok(report) = person.reports.try_recv() {
            reports.push(report);
        }
        assert_eq!(reports[0], json!({"progress": 1, "total": 3}));
        assert_eq!(reports[1], json!({"progress": 2, "total": 3}));
    }
}

#[tokio::test]
async fn the_person_of_the_call_answers_its_elicitation() {
    for (world, _served) in both_transports().await {
        let accepted = ElicitationReply::Accept(json!({"name": "Ann", "check": true}));
        let mut person = Person::new("chat", [accepted, ElicitationReply::Decline, ElicitationReply::Cancel]);
        let ask = "every__trigger-elicitation-request";
        let output = world.call_as(ask, json!({}), &person).await.unwrap();
        assert!(text(&output).contains("- Name: Ann"), "{output}");
        let output = world.call_as(ask, json!({}), &person).await.unwrap();
        assert!(text(&output).contains("User declined"), "{output}");
        let output = world.call_as(ask, json!({}), &person).await.unwrap();
        assert!(text(&output).contains("User cancelled"), "{output}");

        let elicitation = person.elicitations.try_recv().unwrap();
        assert!(elicitation.message.contains("inputs"), "{elicitation:?}");
        let schema = &elicitation.requested_schema;
        assert_eq!(schema["required"], json!(["name"]));
        assert_eq!(schema["properties"]["integer"]["maximum"], 100);
        assert_eq!(schema["properties"]["titledMultipleSelectEnum"]["items"]["anyOf"][0]["const"], "fish-1");
    }
}

#[tokio::test]
async fn an_elicitation_that_may_be_of_two_chats_is_cancelled() {
    let world = World::with([("every", everything_as_a_program())]).await;
    let mut other = Person::new("other", []);
    let mut asked = Person::new("chat", []);
    let busy = world
        .begin("every__trigger-long-running-operation", json!({"duration": 600, "steps": 60_000}), &other)
        .await;
    in_time(other.reports.recv()).await.unwrap();
    let output = world.call_as("every__trigger-elicitation-request", json!({}), &asked).await.unwrap();
    assert!(text(&output).contains("calls of several chats ran in one process"), "{output}");
    assert!(asked.elicitations.try_recv().is_err() && other.elicitations.try_recv().is_err());
    other.context.cancelled.cancel();
    assert_eq!(in_time(busy).await.unwrap().unwrap_err().error_type, ErrorType::Cancelled);
}

#[tokio::test]
async fn an_elicitation_over_http_names_its_call() {
    let served = Served::start().await;
    let world = World::with([("every", served.config())]).await;
    let mut other = Person::new("other", []);
    let asked = Person::new("chat", [ElicitationReply::Accept(json!({"name": "Ann"}))]);
    let input = json!({"duration": 600, "steps": 60_000});
    let first = world.begin("every__trigger-long-running-operation", input, &other).await;
    in_time(other.reports.recv()).await.unwrap();
    let output = world.call_as("every__trigger-elicitation-request", json!({}), &asked).await.unwrap();
    assert!(text(&output).contains("- Name: Ann"), "{output}");
    assert!(other.elicitations.try_recv().is_err());
    other.context.cancelled.cancel();
    in_time(first).await.unwrap().unwrap_err();
}

#[tokio::test]
async fn an_elicitation_ends_with_its_call() {
    for (world, _served) in both_transports().await {
        let mut person = Person::new("chat", []);
        let call = world.begin("every__trigger-elicitation-request", json!({}), &person).await;
        in_time(person.elicitations.recv()).await.unwrap();
        person.context.cancelled.cancel();
        assert_eq!(in_time(call).await.unwrap().unwrap_err().error_type, ErrorType::Cancelled);
        world.call("every__echo", json!({"message": "still there"})).await.unwrap();
    }
}

#[tokio::test]
async fn a_tool_that_fails_has_the_reason_in_its_error() {
    for (world, _served) in both_transports().await {
        let error = world.call("every__get-sum", json!({"a": "one", "b": 2})).await.unwrap_err();
        assert!(matches!(error.error_type, ErrorType::Internal | ErrorType::InvalidFormat), "{error:?}");
        assert!(error.text.contains("number"), "{error:?}");
    }
}

#[tokio::test]
async fn an_http_server_that_dies_fails_its_calls_and_is_connected_again() {
    let mut served = Served::start().await;
    let world = World::with([("every", served.config())]).await;
    let mut person = Person::new("chat", []);
    let input = json!({"duration": 600, "steps": 60_000});
    let call = world.begin("every__trigger-long-running-operation", input, &person).await;
    in_time(person.reports.recv()).await.unwrap();
    served.process.kill().await.unwrap();
    assert_eq!(in_time(call).await.unwrap().unwrap_err().error_type, ErrorType::Network);

    let waiting = world.begin("every__echo", json!({"message": "back"}), &Person::new("chat", [])).await;
    let _served = Served::start_at(served.port).await;
    assert_eq!(text(&in_time(waiting).await.unwrap().unwrap()), "Echo: back");
}
