//! Tests with servers that are programs: their environment, and how they end.

use std::{fs, path::PathBuf, process::Command};

use fermata_mcp::{ServerConfig, Transport};
use fermata_tools::ErrorType;
use serde_json::{Value, json};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
};

use crate::world::{Person, World, everything, everything_as_a_program, in_time, named, program, text};

#[tokio::test]
async fn a_program_inherits_only_a_few_variables() {
    let Transport::Program { command, args, .. } = everything_as_a_program().transport else {
        unreachable!()
    };
    let env = [("TOKEN".to_owned(), "abc".to_owned())].into();
    let world = World::with([("every", ServerConfig::new(Transport::Program { command, args, env }))]).await;
    let output = world.call("every__get-env", json!({})).await.unwrap();
    let seen: Value = serde_json::from_str(&text(&output)).unwrap();
    let names: Vec<&String> = seen.as_object().unwrap().keys().collect();
    assert_eq!(seen["TOKEN"], "abc");
    assert!(seen["PATH"].is_string());
    let allowed = ["TOKEN", "PATH", "HOME", "LANG", "TMPDIR", "USER", "SHELL", "TERM"];
    assert!(names.iter().all(|name| allowed.contains(&name.as_str())), "{names:?}");
}

#[tokio::test]
async fn a_program_that_dies_fails_its_calls_and_is_started_again() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("dying.pid");
    // The shell writes its process id to the file before it becomes the reference server.
    let script = format!("echo $$ > '{}'; exec node '{}' stdio", file.display(), everything().display());
    let world = World::with([("every", program("sh", ["-c", &script]))]).await;
    let mut person = Person::new("chat", []);
    let input = json!({"duration": 600, "steps": 60_000});
    let call = world.begin("every__trigger-long-running-operation", input, &person).await;
    in_time(person.reports.recv()).await.unwrap();
    let first = fs::read_to_string(&file).unwrap();
    assert!(Command::new("kill").args(["-9", first.trim()]).status().unwrap().success());
    let error = in_time(call).await.unwrap().unwrap_err();
    assert_eq!(error.error_type, ErrorType::Network, "{error:?}");

    assert!(world.specs().contains_key("every__echo"), "its tools stay while it is down");
    let output = world.call("every__echo", json!({"message": "again"})).await.unwrap();
    assert_eq!(text(&output), "Echo: again");
    assert_ne!(fs::read_to_string(&file).unwrap(), first);
}

#[tokio::test]
async fn a_server_that_cannot_be_started_does_not_affect_the_others() {
    let world = World::with([
        ("absent", program("there-is-no-such-program", [])),
        ("every", everything_as_a_program()),
        ("mute", program("true", [])),
        ("wrong", program("echo", ["this is no JSON"])),
    ])
    .await;
    let output = world.call("every__echo", json!({"message": "hello"})).await.unwrap();
    assert_eq!(text(&output), "Echo: hello");
    assert!(world.specs().keys().all(|name| name.starts_with("every__")));
}

#[tokio::test]
async fn servers_come_and_go_with_the_settings() {
    let world = World::with([("one", everything_as_a_program()), ("two", everything_as_a_program())]).await;
    let (one, two) = (world.tool("one__echo").await, world.tool("two__echo").await);
    let person = Person::new("chat", []);
    world.hub.set_servers(named([("two", everything_as_a_program()), ("three", everything_as_a_program())]));
    world.wait_for(|specs| specs.iter().all(|spec| !spec.name.starts_with("one__"))).await;
    world.call("three__echo", json!({"message": "new"})).await.unwrap();
    in_time(two.call(json!({"message": "kept"}).into(), person.context.clone())).await.unwrap();
    let error =
        in_time(one.call(json!({"message": "gone"}).into(), person.context.clone())).await.unwrap_err();
    assert!(error.text.contains("no longer configured"), "{error}");
}

/// Starts a program that starts a child process before it becomes the reference server. Returns a connection to the child.
async fn with_a_child() -> (World, TcpStream) {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = port.local_addr().unwrap().port();
    let script = format!(
        "node -e 'require(\"net\").connect({at}, \"127.0.0.1\")' </dev/null >/dev/null 2>&1 & exec node '{}' stdio",
        everything().display()
    );
    let world = World::with([("every", program("sh", ["-c", &script]))]).await;
    let (child, _) = in_time(port.accept()).await.unwrap();
    (world, child)
}

/// Waits until the process at the other end of the connection has ended.
async fn ended(mut process: TcpStream) {
    // A process that is killed may reset its connections.
    let _ = in_time(process.read(&mut [0])).await;
}

#[tokio::test]
async fn the_child_processes_of_a_program_end_with_the_hub() {
    let (world, child) = with_a_child().await;
    in_time(world.hub.shutdown()).await;
    ended(child).await;
    let error = world.call("every__echo", json!({"message": "gone"})).await.unwrap_err();
    assert!(error.text.contains("no longer configured"), "{error}");
}

#[tokio::test]
async fn no_process_outlives_a_dropped_hub() {
    let (world, child) = with_a_child().await;
    drop(world);
    ended(child).await;
}

/// A server whose only tool returns a text of any length. It writes the id of a response after the result.
const LARGE_RESPONSES: &str = r#"
const send = (message) => process.stdout.write(JSON.stringify(message) + "\n");
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  const answer = (result) => send({ result, jsonrpc: "2.0", id });
  if (method === "initialize") {
    const { protocolVersion } = params;
    answer({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "much", version: "1" } });
  }
  if (method === "tools/list") answer({ tools: [{ name: "answer", inputSchema: { type: "object" } }] });
  if (method === "ping") answer({});
  if (method === "tools/call") {
    answer({ content: [{ type: "text", text: "x".repeat(params.arguments.length) }] });
  }
});
"#;

#[tokio::test]
async fn a_response_that_is_too_large_fails_only_its_call() {
    let world = World::with([("much", program("node", ["-e", LARGE_RESPONSES]))]).await;
    let error = world.call("much__answer", json!({"length": 17 * 1024 * 1024})).await.unwrap_err();
    assert_eq!(error.error_type, ErrorType::InvalidFormat);
    assert_eq!(error.text, "The response of the MCP server much is too large.");
    assert_eq!(text(&world.call("much__answer", json!({"length": 3})).await.unwrap()), "xxx");
}
