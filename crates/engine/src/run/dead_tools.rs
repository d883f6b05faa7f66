//! Tools that do not work any more: after several failures in a row a tool is not offered for the rest of the run.
//!
//! A model that gets an error often makes the same call again, and each call takes its time and its retries.

use std::collections::BTreeSet;

use fermata_tools::{Call, CallState, ErrorType, ToolError, Toolbox};

use super::Run;
use crate::run_tools;

/// The number of calls of a tool that may fail one after the other.
const MAX_FAILURES: usize = 3;

impl Run {
    /// Returns the number of calls of a tool that have failed for good since one of them succeeded.
    pub fn failures_of(&self, tool: &str) -> usize {
        let mut failures = 0;
        for call in self.calls.iter().rev().map(|live| &live.call).filter(|call| call.tool == tool) {
            match call.state() {
                CallState::Success { .. } => break,
                CallState::Error { error_type, .. } if counts(*error_type) => failures += 1,
                CallState::Validating
                | CallState::AwaitingApproval { .. }
                | CallState::Scheduled { .. }
                | CallState::Executing { .. }
                | CallState::Error { .. }
                | CallState::Cancelled { .. } => {}
            }
        }
        failures
    }

    /// Returns the tools that are not offered any more.
    pub fn dead_tools(&self) -> BTreeSet<&str> {
        let tools = self.all_calls().map(|call| call.tool.as_str());
        tools
            .filter(|tool| run_tools::find(tool).is_none() && self.failures_of(tool) >= MAX_FAILURES)
            .collect()
    }

    /// Returns the text for the model about the tools that are not offered any more.
    pub fn told_of_dead_tools(&self) -> Option<String> {
        let dead = self.dead_tools();
        if dead.is_empty() {
            return None;
        }
        let names: Vec<&str> = dead.into_iter().collect();
        Some(format!(
            "These tools have failed {MAX_FAILURES} times and cannot be called any more for this message: {}. Go on without them, and tell the \
             user what could not be done.",
            names.join(", ")
        ))
    }

    /// Returns the failure of a call whose tool is not offered any more.
    pub(super) fn failure_of_dead_tool(&self, call: &Call, toolbox: &Toolbox) -> Option<ToolError> {
        if run_tools::of_call(call, toolbox).is_some() || self.failures_of(&call.tool) < MAX_FAILURES {
            return None;
        }
        Some(ToolError::internal(format!(
            "The tool {} has failed {MAX_FAILURES} times and cannot be called any more for this message. Go on without it.",
            call.tool
        )))
    }
}

/// Returns whether a failure says that the tool does not work. An input that does not fit says nothing about it.
fn counts(error_type: ErrorType) -> bool {
    match error_type {
        ErrorType::RateLimit
        | ErrorType::Auth
        | ErrorType::Network
        | ErrorType::Timeout
        | ErrorType::Internal => true,
        ErrorType::EmptyResult | ErrorType::InvalidFormat | ErrorType::Denied | ErrorType::Cancelled => false,
    }
}
