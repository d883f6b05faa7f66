//! Lists the tools of a server.
//!
//! A tool that cannot be read is left out, and the others are listed.

use std::collections::BTreeSet;

use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool, ToolAnnotations},
};
use serde_json::{Map, Value};

/// The maximum number of pages that are requested. Without it, a server with endless pages would be listed for ever.
const MAX_PAGES: usize = 1_000;
/// The maximum number of tools of one server. Providers accept fewer in one request.
const MAX_TOOLS: usize = 500;
/// The maximum length of a tool's name and of a cursor, in bytes.
const MAX_NAME: usize = 1_000;
/// The maximum length of a description, in bytes. A longer one is cut.
const MAX_DESCRIPTION: usize = 16_000;
/// The maximum size of a schema, as JSON in bytes.
const MAX_SCHEMA: usize = 256_000;

/// The tools that a server has listed, within the limits.
#[derive(Debug, Default, PartialEq)]
struct ToolListing {
    tools: Vec<Tool>,
    /// The number of tools that are left out because their name or schema is too large.
    too_large: usize,
    /// `true` if there are more tools than the maximum.
    is_cut: bool,
}

/// Lists all tools of a server, page by page. Tools beyond the limits are left out, which is logged.
///
/// # Errors
/// Returns an error if the server does not answer, or answers with something else than a list.
pub(crate) async fn list_tools(server: &str, peer: &Peer<RoleClient>) -> Result<Vec<Tool>, ServiceError> {
    if peer.peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
        return Ok(Vec::new());
    }
    let mut listed = ToolListing::default();
    let mut seen = BTreeSet::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let params = cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let request = ListToolsRequest { params, ..ListToolsRequest::default() };
        let (page, next) = match peer.send_request(ClientRequest::ListToolsRequest(request)).await? {
            ServerResult::ListToolsResult(page) => (page.tools, page.next_cursor),
            ServerResult::CustomResult(page) => {
                read_one_by_one(&page.0).ok_or(ServiceError::UnexpectedResponse)?
            }
            _ => return Err(ServiceError::UnexpectedResponse),
        };
        listed.add(page);
        match next {
            // Some servers write an empty cursor for none.
            Some(next)
                if !next.is_empty()
                    && !listed.is_cut
                    && next.len() <= MAX_NAME
                    && seen.insert(next.clone()) =>
            {
                cursor = Some(next);
            }
            Some(_) | None => break,
        }
    }
    if listed.too_large > 0 || listed.is_cut {
        tracing::warn!(
            server,
            too_large = listed.too_large,
            "some tools of an MCP server are left out; a server may have {MAX_TOOLS} tools, each with a name of {MAX_NAME} bytes \
             and an input schema of {MAX_SCHEMA} bytes"
        );
    }
    Ok(listed.tools)
}

// === impl ToolListing ===

impl ToolListing {
    fn add(&mut self, page: Vec<Tool>) {
        for tool in page {
            if tool.name.len() > MAX_NAME || size(&tool.input_schema) > MAX_SCHEMA {
                self.too_large += 1;
            } else if self.tools.len() == MAX_TOOLS {
                self.is_cut = true;
                return;
            } else {
                self.tools.push(stripped(tool));
            }
        }
    }
}

fn size(schema: &Map<String, Value>) -> usize {
    serde_json::to_string(schema).map_or(usize::MAX, |schema| schema.len())
}

/// Returns the tool with only the fields that are used. Tools are kept in memory as long as their server is configured.
fn stripped(tool: Tool) -> Tool {
    let title = tool.title.or_else(|| tool.annotations.as_ref()?.title.clone());
    let mut description = tool.description.or(title.clone().map(Into::into)).unwrap_or_default().into_owned();
    if description.len() > MAX_DESCRIPTION {
        description.truncate(description.floor_char_boundary(MAX_DESCRIPTION));
        description.push('…');
    }
    let mut stripped = Tool::new(tool.name, description, tool.input_schema);
    stripped.title = title;
    // The tool can be used without the check of its outputs.
    stripped.output_schema = tool.output_schema.filter(|schema| size(schema) <= MAX_SCHEMA);
    match tool.annotations {
        Some(annotations) => {
            let mut hints = ToolAnnotations::new();
            hints.read_only_hint = annotations.read_only_hint;
            hints.destructive_hint = annotations.destructive_hint;
            hints.idempotent_hint = annotations.idempotent_hint;
            stripped.with_annotations(hints)
        }
        None => stripped,
    }
}

/// Reads a page that the library could not read as a whole. Tools that cannot be read are left out. Programs in Go write `null` for a list
/// or an object that they do not have.
fn read_one_by_one(page: &Value) -> Option<(Vec<Tool>, Option<String>)> {
    let tools = match page.get("tools")? {
        Value::Null => &[][..],
        tools => tools.as_array()?,
    };
    let tools = tools.iter().filter_map(|tool| {
        let mut tool = tool.clone();
        if let Some(schema) = tool.get_mut("inputSchema").filter(|schema| schema.is_null()) {
            *schema = Value::Object(Map::new());
        }
        serde_json::from_value(tool).ok()
    });
    Some((tools.collect(), page.get("nextCursor").and_then(Value::as_str).map(str::to_owned)))
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
            {"name": "nil", "inputSchema": null},
            7,
        ], "nextCursor": "2"});
        let (tools, next) = read_one_by_one(&page).unwrap();
        assert_eq!(tools.iter().map(|tool| tool.name.as_ref()).collect::<Vec<_>>(), ["good", "nil"]);
        assert_eq!(next.as_deref(), Some("2"));
        assert_eq!(read_one_by_one(&json!({"tools": null})), Some((vec![], None)));
    }

    fn tool(name: &str, description: &str, schema: Value) -> Tool {
        let tool = json!({"name": name, "description": description, "inputSchema": schema});
        serde_json::from_value(tool).unwrap()
    }

    #[test]
    fn a_tool_that_is_too_large_is_left_out_and_does_not_hide_the_others() {
        let mut listed = ToolListing::default();
        let schema = json!({"type": "object", "description": "x".repeat(MAX_SCHEMA)});
        listed.add(vec![
            tool("large", "", schema),
            tool(&"n".repeat(MAX_NAME + 1), "", json!({})),
            tool("talks", &"ä".repeat(MAX_DESCRIPTION), json!({})),
        ]);
        assert_eq!((listed.too_large, listed.is_cut), (2, false));
        let description = listed.tools[0].description.as_deref().unwrap();
        assert!(description.len() <= MAX_DESCRIPTION + '…'.len_utf8() && description.ends_with("ä…"));
    }

    #[test]
    fn no_more_tools_are_listed_than_the_maximum() {
        let mut listed = ToolListing::default();
        let tools = |count: usize| (0..count).map(|n| tool(&n.to_string(), "", json!({}))).collect();
        listed.add(tools(MAX_TOOLS));
        assert!(!listed.is_cut);
        listed.add(tools(1));
        assert!(listed.is_cut && listed.tools.len() == MAX_TOOLS);
    }

    #[test]
    fn only_the_used_fields_of_a_tool_are_kept() {
        let full = json!({"name": "a", "title": "A", "inputSchema": {}, "outputSchema": {"type": "object"}, "icons": [],
            "annotations": {"title": "x", "readOnlyHint": true, "idempotentHint": true, "openWorldHint": true}, "_meta": {"x": "y"}});
        let kept = json!({"name": "a", "title": "A", "description": "A", "inputSchema": {}, "outputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true, "idempotentHint": true}});
        assert_eq!(json!(stripped(serde_json::from_value(full).unwrap())), kept);
    }
}
