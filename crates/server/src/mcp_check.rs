//! `fermata --check --mcp`: starts each MCP server of the settings and lists its tools. It opens no database and no port.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use fermata_mcp::{Hub, ServerConfig, ServerState, ServerStatus};

/// The time that the servers have to start. Each attempt has a time limit of its own, which is not longer.
const START_TIMEOUT: Duration = Duration::from_secs(70);

/// The states of the MCP servers, as lines of a report.
#[derive(Debug)]
pub struct McpReport {
    /// The report.
    pub text: String,
    /// The names of the servers that are not connected.
    pub failed: Vec<String>,
}

/// Starts the MCP servers of the settings, and ends them again.
pub async fn report(servers: &BTreeMap<String, ServerConfig>) -> McpReport {
    let hub = Hub::start(servers.clone(), |_| {});
    hub.ready(START_TIMEOUT).await;
    let servers = hub.servers();
    hub.shutdown().await;
    describe(&servers)
}

fn describe(servers: &[ServerStatus]) -> McpReport {
    let mut report = McpReport { text: String::new(), failed: Vec::new() };
    for ServerStatus { name, state } in servers {
        let line = match state {
            ServerState::Connected { protocol, tools } if tools.is_empty() => {
                format!("connected, MCP {protocol}, no tools")
            }
            ServerState::Connected { protocol, tools } => {
                format!("connected, MCP {protocol}, {} tools: {}", tools.len(), tools.join(", "))
            }
            ServerState::Down { reason } => {
                report.failed.push(name.clone());
                format!("not connected: {}", reason.replace('\n', "\n#     "))
            }
            ServerState::Starting => {
                report.failed.push(name.clone());
                "not connected: it did not start in time".to_owned()
            }
        };
        // Writing to a string does not fail.
        let _ = write!(report.text, "\n# mcp.{name}: {line}\n");
    }
    if servers.is_empty() {
        report.text.push_str("\n# no MCP servers are configured\n");
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_the_tools_or_the_reason() {
        let status = |name: &str, state| ServerStatus { name: name.to_owned(), state };
        let connected = ServerState::Connected {
            protocol: "2025-06-18".into(),
            tools: vec!["read".into(), "write".into()],
        };
        let down =
            ServerState::Down { reason: "the program ended. The last lines:\nTOKEN is not set".into() };
        let report = describe(&[status("files", connected), status("search", down)]);
        assert_eq!(
            report.text,
            "\n# mcp.files: connected, MCP 2025-06-18, 2 tools: read, write\n\
             \n# mcp.search: not connected: the program ended. The last lines:\n#     TOKEN is not set\n"
        );
        assert_eq!(report.failed, ["search"]);
    }
}
