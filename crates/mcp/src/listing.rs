//! Which tools a server has.
//!
//! A tool that cannot be read is left out, so that it does not hide the others.

use std::collections::BTreeSet;

use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool, ToolAnnotations},
};
use serde_json::Value;

/// The most pages that are asked for: a server that never comes to an end would be listed for ever.
const MOST_PAGES: usize = 1_000;
/// The most tools of one server. Providers take fewer in one request.
const MOST_TOOLS: usize = 500;
/// The longest name and the longest cursor that are kept, in bytes.
const LONGEST_NAME: usize = 1_000;
/// As much of a description as is told to models, in bytes.
const LONGEST_DESCRIPTION: usize = 16_000;
/// The largest input schema, as JSON.
const LARGEST_SCHEMA: usize = 256_000;

/// What a server has listed, within the limits.
#[derive(Debug, Default, PartialEq)]
struct ToolListing {
    tools: Vec<Tool>,
    /// How many tools are left out because something of them is too large.
    too_large: usize,
    /// Whether there are more than the most.
    is_cut: bool,
}

/// Asks a server for all of its tools, page by page. What is over the limits is left out, and the log says so.
///
/// # Errors
/// It does not answer, or not with a list.
pub(crate) async fn list(server: &str, peer: &Peer<RoleClient>) -> Result<Vec<Tool>, ServiceError> {
    if peer.peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
        return Ok(Vec::new());
    }
    let mut listed = ToolListing::default();
    let mut seen = BTreeSet::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let (page, next) = ask(peer, cursor).await?;
        listed.add(page);
        match next {
            Some(next) if !listed.is_cut && next.len() <= LONGEST_NAME && seen.insert(next.clone()) => {
                cursor = Some(next);
            }
            Some(_) | None => break,
        }
    }
    if listed.too_large > 0 || listed.is_cut {
        tracing::warn!(
            server,
            too_large = listed.too_large,
            "an MCP server lists more than is taken: at most {MOST_TOOLS} tools, each with a name of {LONGEST_NAME} and an input \
             schema of {LARGEST_SCHEMA} bytes"
        );
    }
    Ok(listed.tools)
}

// === impl ToolListing ===

impl ToolListing {
    fn add(&mut self, page: Vec<Tool>) {
        for tool in page {
            let schema = serde_json::to_string(&tool.input_schema).map_or(usize::MAX, |schema| schema.len());
            if tool.name.len() > LONGEST_NAME || schema > LARGEST_SCHEMA {
                self.too_large += 1;
            } else if self.tools.len() == MOST_TOOLS {
                self.is_cut = true;
                return;
            } else {
                self.tools.push(bare(tool));
            }
        }
    }
}

/// The tool with what is used of it, as it is kept for as long as the server is configured.
fn bare(tool: Tool) -> Tool {
    let mut description = tool.description.or(tool.title.map(Into::into)).unwrap_or_default().into_owned();
    if description.len() > LONGEST_DESCRIPTION {
        description.truncate(description.floor_char_boundary(LONGEST_DESCRIPTION));
        description.push('…');
    }
    let bare = Tool::new(tool.name, description, tool.input_schema);
    match tool.annotations {
        Some(annotations) => {
            let mut hints = ToolAnnotations::new();
            hints.read_only_hint = annotations.read_only_hint;
            hints.destructive_hint = annotations.destructive_hint;
            bare.with_annotations(hints)
        }
        None => bare,
    }
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

    fn tool(name: &str, description: &str, schema: Value) -> Tool {
        let tool = json!({"name": name, "description": description, "inputSchema": schema});
        serde_json::from_value(tool).unwrap()
    }

    #[test]
    fn what_is_too_large_is_left_out_and_hides_no_other() {
        let mut listed = ToolListing::default();
        let schema = json!({"type": "object", "description": "x".repeat(LARGEST_SCHEMA)});
        listed.add(vec![
            tool("large", "", schema),
            tool(&"n".repeat(LONGEST_NAME + 1), "", json!({})),
            tool("talks", &"ä".repeat(LONGEST_DESCRIPTION), json!({})),
        ]);
        assert_eq!((listed.too_large, listed.is_cut), (2, false));
        let description = listed.tools[0].description.as_deref().unwrap();
        assert!(description.len() <= LONGEST_DESCRIPTION + '…'.len_utf8() && description.ends_with("ä…"));
    }

    #[test]
    fn no_more_tools_are_taken_than_the_most() {
        let mut listed = ToolListing::default();
        let tools = |count: usize| (0..count).map(|n| tool(&n.to_string(), "", json!({}))).collect();
        listed.add(tools(MOST_TOOLS));
        assert!(!listed.is_cut);
        listed.add(tools(1));
        assert!(listed.is_cut && listed.tools.len() == MOST_TOOLS);
    }

    #[test]
    fn only_what_is_used_of_a_tool_is_kept() {
        let full = json!({"name": "a", "title": "A", "inputSchema": {}, "outputSchema": {"type": "object"},
            "annotations": {"title": "x", "readOnlyHint": true, "openWorldHint": true}, "_meta": {"x": "y"}});
        let kept = json!({"name": "a", "description": "A", "inputSchema": {}, "annotations": {"readOnlyHint": true}});
        assert_eq!(json!(bare(serde_json::from_value(full).unwrap())), kept);
    }
}
