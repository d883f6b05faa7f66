//! Which tools a server has.
//!
//! A tool that cannot be read is left out, so that it does not hide the others.

use std::collections::BTreeSet;

use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool},
};
use serde_json::Value;

/// The most pages that are asked for: a server that never comes to an end would be listed for ever.
const MOST_PAGES: usize = 1_000;

/// Asks a server for all of its tools, page by page.
///
/// # Errors
/// It does not answer, or not with a list.
pub(crate) async fn list(peer: &Peer<RoleClient>) -> Result<Vec<Tool>, ServiceError> {
    if peer.peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
        return Ok(Vec::new());
    }
    let mut tools = Vec::new();
    let mut seen = BTreeSet::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let (page, next) = ask(peer, cursor).await?;
        tools.extend(page);
        match next {
            Some(next) if seen.insert(next.clone()) => cursor = Some(next),
            Some(_) | None => break,
        }
    }
    Ok(tools)
}

async fn ask(
    peer: &Peer<RoleClient>,
    cursor: Option<String>,
) -> Result<(Vec<Tool>, Option<String>), ServiceError> {
    let params = cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
    let request = ListToolsRequest { params, ..ListToolsRequest::default() };
    match peer.send_request(ClientRequest::ListToolsRequest(request)).await? {
        ServerResult::ListToolsResult(page) => Ok((page.tools, page.next_cursor)),
        ServerResult::CustomResult(page) => one_by_one(&page.0).ok_or(ServiceError::UnexpectedResponse),
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

/// Reads a list of which the library could not read all.
fn one_by_one(page: &Value) -> Option<(Vec<Tool>, Option<String>)> {
    let read = |tool: &Value| serde_json::from_value(tool.clone()).ok();
    let tools: Vec<Tool> = page.get("tools")?.as_array()?.iter().filter_map(read).collect();
    Some((tools, page.get("nextCursor").and_then(Value::as_str).map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_that_cannot_be_read_does_not_hide_the_others() {
        let page = json!({"tools": [
            {"name": "good", "inputSchema": {"type": "object"}},
            {"name": "without a schema"},
            7,
        ], "nextCursor": "2"});
        let (tools, next) = one_by_one(&page).unwrap();
        assert_eq!(tools.iter().map(|tool| tool.name.as_ref()).collect::<Vec<_>>(), ["good"]);
        assert_eq!(next.as_deref(), Some("2"));
    }
}
