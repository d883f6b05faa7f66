//! Approvals as the people who decide about them follow them.

use std::collections::BTreeSet;

use futures::StreamExt;
use serde_json::json;

use crate::world::{World, calls};

#[tokio::test(start_paused = true)]
async fn changes_that_are_more_than_a_page_are_all_followed() {
    const CALLS: usize = 600;
    let world = World::new();
    world.script([calls(&vec![("note", json!({})); CALLS])]);
    let changes = world.engine.approval_changes(world.owner.clone().into(), None);
    let mut stream = world.post_text("write").await;
    stream.read_until("tool-approval-request").await;
    let seen: Vec<_> = changes.map(|(_, approval)| approval.id.to_string()).take(CALLS).collect().await;
    let seen: BTreeSet<String> = seen.into_iter().collect();
    assert_eq!(seen, world.waiting_approvals().await.into_iter().collect());
}
