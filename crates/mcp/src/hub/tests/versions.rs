//! Tests of the versions of MCP, with the library's own server.

use std::sync::Arc;

use fermata_tools::ErrorType;
use serde_json::json;

use super::world::{AcceptingHost, World, context, text};
use crate::{
    config::Protocol,
    hub::{ServerState, ServerStatus},
};

fn protocol(world: &World) -> String {
    match &world.hub.servers()[..] {
        [ServerStatus { state: ServerState::Connected { protocol, .. }, .. }] => protocol.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_configured_version_is_spoken() {
    for (configured, spoken) in [
        (Protocol::Auto, "2026-07-28"),
        (Protocol::V2026July, "2026-07-28"),
        (Protocol::V2025November, "2025-11-25"),
        (Protocol::V2025June, "2025-06-18"),
        (Protocol::V2025March, "2025-03-26"),
        (Protocol::V2024November, "2024-11-05"),
    ] {
        let world = World::speaking(configured, ["do"], []);
        world.ready().await;
        assert_eq!(protocol(&world), spoken);
        assert_eq!(text(&world.call("s__do").await.unwrap()), "done", "{spoken}");
    }
}

#[tokio::test]
async fn a_call_that_needs_input_asks_the_person_and_is_made_again() {
    let world = World::speaking(Protocol::Auto, ["needs input", "needs roots", "never has enough"], []);
    world.ready().await;
    let tool = world.tool("s__needs_input");
    let output = tool.call(json!({}).into(), context().with_host(Arc::new(AcceptingHost))).await.unwrap();
    let output = text(&output);
    assert!(output.contains(r#""action":"accept""#) && output.contains("Which one?"), "{output}");
    assert!(output.ends_with(r#"with Some("half")"#), "{output}");
    for (tool, expected) in [("s__needs_roots", "asks for roots/list"), ("s__never_has_enough", "10 times")] {
        let error = world.call(tool).await.unwrap_err();
        assert_eq!(error.error_type, ErrorType::Internal);
        assert!(error.text.contains(expected), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn changes_of_the_tool_list_are_subscribed_to() {
    let mut world = World::speaking(Protocol::Auto, ["old"], []);
    world.ready().await;
    let server = world.connected.recv().await.unwrap();
    *world.pipe.tools.lock().unwrap() = vec!["new"];
    server.peer().notify_tool_list_changed().await.unwrap();
    world.tools.wait_for(|tools| tools.iter().any(|tool| tool.spec().name == "s__new")).await.unwrap();
}
