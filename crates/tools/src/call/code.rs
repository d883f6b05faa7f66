//! The codes of outcomes and approval requests. Pages use them to translate the texts that Fermata writes.
//!
//! A code follows from an enum, never from a text. Codes are part of the wire: a code may be added, and none changes its meaning.

use serde::Serialize;

use super::{Call, CallState, Cancelled, StateName};
use crate::{Decision, DecisionSource, PolicyDecision};

/// The reason why a call has no output, for pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NoOutput<'a> {
    /// `error` or `cancelled`.
    pub state: StateName,
    /// The reason of the cancellation, or the type of the failure.
    pub code: &'static str,
    /// The reason that the person or the rule gave, if the call was denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
}

// === impl Cancelled ===

impl Cancelled {
    /// Returns the code of the reason.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Denied { .. } => "denied",
            Self::Expired => "expired",
            Self::ByPerson => "by_person",
            Self::Stopped => "stopped",
            Self::Superseded => "superseded",
            Self::RunEnded => "run_ended",
            Self::NotFirst => "not_first",
            Self::NotChosen => "not_chosen",
        }
    }
}

// === impl CallState ===

impl CallState {
    /// Returns why the call has no output; `None` if it has one, or may still get one.
    pub fn no_output(&self) -> Option<NoOutput<'_>> {
        let (code, reason) = match self {
            Self::Error { error_type, .. } => (error_type.as_str(), None),
            Self::Cancelled { cancelled } => match cancelled {
                Cancelled::Denied { reason } => (cancelled.code(), reason.as_deref()),
                Cancelled::Expired
                | Cancelled::ByPerson
                | Cancelled::Stopped
                | Cancelled::Superseded
                | Cancelled::RunEnded
                | Cancelled::NotFirst
                | Cancelled::NotChosen => (cancelled.code(), None),
            },
            Self::Validating
            | Self::AwaitingApproval { .. }
            | Self::Scheduled { .. }
            | Self::Executing { .. }
            | Self::Success { .. } => return None,
        };
        Some(NoOutput { state: self.name(), code, reason })
    }
}

// === impl DecisionSource ===

impl DecisionSource {
    /// Returns the code of the source. All rules have one code, because their reasons are the operator's own words.
    pub fn code(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Rule(_) => "rule",
            Self::Auto => "auto",
            Self::Chain => "chain",
            Self::MemoryWrites => "memory_writes",
            Self::MemorySlot => "memory_slot",
            Self::Always => "always",
            Self::ToolChanged => "tool_changed",
            Self::Retry => "retry",
            Self::Tool => "tool",
        }
    }
}

// === impl Call ===

impl Call {
    /// Returns the policy's decision if a person is asked because of it.
    pub(super) fn asking(&self) -> Option<&PolicyDecision> {
        self.policy_decision.as_ref().filter(|policy_decision| policy_decision.decision == Decision::Ask)
    }

    /// Returns the code of what asks a person about the call; `None` if nothing does.
    pub fn reason_code(&self) -> Option<&'static str> {
        self.asking().map(|policy_decision| policy_decision.by.code())
    }

    /// Returns the words of others in [`Call::approval_reason`].
    pub fn reason_detail(&self) -> Option<&str> {
        self.asking()?.reason.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fermata_protocol::ToolCallId;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::{ErrorType, RunBy};

    fn told(state: &CallState) -> Value {
        json!(state.no_output())
    }

    #[test]
    fn every_cancellation_has_a_code_of_its_own() {
        let denied = Cancelled::Denied { reason: Some("not today".into()) };
        let mut codes = BTreeSet::new();
        for (cancelled, code, reason) in [
            (denied, "denied", Some("not today")),
            (Cancelled::Denied { reason: None }, "denied", None),
            (Cancelled::Expired, "expired", None),
            (Cancelled::ByPerson, "by_person", None),
            (Cancelled::Stopped, "stopped", None),
            (Cancelled::Superseded, "superseded", None),
            (Cancelled::RunEnded, "run_ended", None),
            (Cancelled::NotFirst, "not_first", None),
            (Cancelled::NotChosen, "not_chosen", None),
        ] {
            // What is saved and what pages read have the same name.
            assert_eq!(json!(cancelled)["why"], code);
            let mut expected = json!({ "state": "cancelled", "code": code });
            if let Some(reason) = reason {
                expected["reason"] = reason.into();
            }
            assert_eq!(told(&CallState::Cancelled { cancelled }), expected);
            codes.insert(code);
        }
        assert_eq!(codes.len(), 8);
    }

    #[test]
    fn a_failure_has_the_code_of_its_type_whatever_its_text_says() {
        for error_type in ErrorType::ALL {
            let error_text = "Cancelled: this is what a tool says.".into();
            let failed = CallState::Error { error_type, error_text };
            assert_eq!(told(&failed), json!({ "state": "error", "code": error_type.as_str() }));
        }
    }

    #[test]
    fn a_call_that_has_an_output_or_may_get_one_has_no_code() {
        let success = CallState::Success { output: json!(1) };
        for state in [
            CallState::Validating,
            CallState::AwaitingApproval { expires: Timestamp::UNIX_EPOCH },
            CallState::scheduled(crate::Wait::Gate),
            CallState::Executing { work: crate::Work::Server },
            success,
        ] {
            assert_eq!(state.no_output(), None, "{state:?}");
        }
    }

    #[test]
    fn an_approval_request_has_the_code_of_what_asks_and_fermata_writes_for_some_codes() {
        let mut codes = BTreeSet::new();
        // The text without words of others, and with some.
        for (by, code, text, with_words) in [
            (DecisionSource::Default, "default", None, "words"),
            (DecisionSource::Rule(1), "rule", None, "words"),
            (DecisionSource::Rule(12), "rule", None, "words"),
            (DecisionSource::Auto, "auto", None, "words"),
            (DecisionSource::Always, "always", None, "words"),
            (DecisionSource::Tool, "tool", None, "words"),
            (
                DecisionSource::Chain,
                "chain",
                Some("it is not the first call of the turn"),
                "it is not the first call of the turn",
            ),
            (
                DecisionSource::ToolChanged,
                "tool_changed",
                Some("the tool t has changed since the call was shown or allowed"),
                "the tool t has changed since the call was shown or allowed",
            ),
            (
                DecisionSource::MemorySlot,
                "memory_slot",
                Some("a memory with a slot is in every prompt"),
                "a memory with a slot is in every prompt",
            ),
            (
                DecisionSource::MemoryWrites,
                "memory_writes",
                Some("it changes what is remembered in all chats"),
                "it changes what is remembered in all chats, after something from outside was read: words",
            ),
            (
                DecisionSource::Retry,
                "retry",
                Some(
                    "The call failed after it had begun to run, so it may have had its effect already; approving it may repeat that effect.",
                ),
                "words The call failed after it had begun to run, so it may have had its effect already; approving it may repeat that effect.",
            ),
        ] {
            let (id, at) = (ToolCallId::new("call_1"), Timestamp::UNIX_EPOCH);
            let mut call = Call::new(id, 1, "t".into(), Some(RunBy::Server), at);
            assert_eq!(call.reason_code(), None);
            for decision in [Decision::Allow, Decision::Deny] {
                call.policy_decision = Some(PolicyDecision {
                    reason: Some("words".into()),
                    ..PolicyDecision::new(decision, by)
                });
                assert_eq!(
                    (call.reason_code(), call.approval_reason(), call.reason_detail()),
                    (None, None, None)
                );
            }
            for (reason, expected) in [(None, text), (Some("words"), Some(with_words))] {
                let asks = PolicyDecision {
                    reason: reason.map(str::to_owned),
                    ..PolicyDecision::new(Decision::Ask, by)
                };
                call.policy_decision = Some(asks);
                assert_eq!(call.reason_code(), Some(code));
                assert_eq!(call.approval_reason().as_deref(), expected);
                assert_eq!(call.reason_detail(), reason);
            }
            codes.insert(code);
        }
        assert_eq!(codes.len(), 10);
    }
}
