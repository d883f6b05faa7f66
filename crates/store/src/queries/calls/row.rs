//! Conversion of a call into a row and back.
//!
//! Invariant: every field of a call is in one column or in `more`; the times and durations are computed from the other columns.

use fermata_engine::store::StoreError;
use fermata_protocol::{AnswerKind, ApprovalId, ToolCallId};
use fermata_tools::{
    ApprovalDecision, ApprovalRequest, AskedFailure, Call, CallState, Cancelled, DecisionSource,
    ElicitationRecord, ErrorType, Owner, PolicyDecision, Presentation, ResourceKey, StateName,
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use super::timing::Timing;
use crate::{
    column::{deadline, json, name, read_json, read_name},
    connection::{Query, row},
    text::Text,
};

/// The fields of a call that have no column. They are read as fields of [`Call`], so they have its names.
#[derive(Serialize)]
struct More<'a> {
    #[serde(skip_serializing_if = "Presentation::is_empty")]
    presentation: &'a Presentation,
    /// Absent if the state says the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<&'a AnswerKind>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    asked_before: &'a [ApprovalId],
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    replies: &'a [ElicitationRecord],
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<&'a ResourceKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_about: Option<&'a AskedFailure>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_empty: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback_of: Option<&'a ToolCallId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_of: Option<&'a ToolCallId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retried_as: Option<&'a ToolCallId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reads_from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_report: Option<&'a Value>,
    since: Timestamp,
    /// The fields of a state that is not final: the thing that the call waits for.
    #[serde(flatten)]
    open_state: Map<String, Value>,
}

/// Declares a row with the names of its columns, and the binding of all values in the same order.
macro_rules! bound_row {
    ($(#[$attribute:meta])* pub struct $row:ident { $($column:ident: $type:ty,)* }) => {
        row! {
            $(#[$attribute])*
            pub struct $row {
                $($column: $type,)*
            }
        }

        impl $row {
            /// The names of the columns, in the order of the fields.
            pub const COLUMNS: &[&str] = &[$(stringify!($column)),*];

            /// Binds the values of all columns, in the order of the fields.
            pub fn bind(self, query: Query<'_>) -> Query<'_> {
                query$(.bind(self.$column))*
            }
        }
    };
}

bound_row! {
    /// A call as a row of `tool_calls`, without the columns for its chat, its run and its position there.
    pub struct Row {
        id: Text,
        step: i64,
        tool: Text,
        run_by: Option<String>,
        state: String,
        states: String,
        created_at: Option<i64>,
        started_at: Option<i64>,
        ended_at: Option<i64>,
        expires_at: Option<i64>,
        waited_for_approval: Option<i64>,
        waited_for_turn: Option<i64>,
        ran_for: Option<i64>,
        policy_decision: Option<String>,
        policy_source: Option<String>,
        policy_reason: Option<Text>,
        approval_id: Option<Text>,
        approval_required: Option<bool>,
        approved: Option<bool>,
        always: Option<bool>,
        decided_by: Option<Text>,
        decided_reason: Option<Text>,
        decided_how: Option<String>,
        input: String,
        edited_input: Option<String>,
        outcome: Option<String>,
        error_type: Option<String>,
        answered: bool,
        more: String,
    }
}

// === impl Row ===

impl Row {
    pub fn of(call: &Call) -> Result<Self, StoreError> {
        let timing = Timing::of(call.history());
        let (policy, question, decided) =
            (call.policy_decision.as_ref(), call.approval_request.as_ref(), call.approval_decision.as_ref());
        let answered = call.answer.as_ref().is_some_and(|answer| is_answer_of(call.state(), answer));
        let more = More {
            presentation: &call.presentation,
            answer: if answered { None } else { call.answer.as_ref() },
            asked_before: &call.asked_before,
            fingerprint: call.fingerprint.as_deref(),
            replies: &call.replies,
            resource: call.resource.as_ref(),
            asked_about: call.asked_about.as_ref(),
            is_empty: call.is_empty,
            idempotency_key: call.idempotency_key.as_deref(),
            fallback_of: call.fallback_of.as_ref(),
            retry_of: call.retry_of.as_ref(),
            retried_as: call.retried_as.as_ref(),
            reads_from: call.reads_from.as_deref(),
            last_report: call.last_report.as_ref(),
            since: call.since(),
            open_state: open_state(call.state())?,
        };
        Ok(Self {
            id: call.id.as_str().into(),
            step: call.step.into(),
            tool: call.tool.as_str().into(),
            run_by: call.run_by.as_ref().map(name).transpose()?,
            state: call.state().name().as_str().into(),
            states: json(&call.history())?,
            created_at: timing.created_at,
            started_at: timing.started_at,
            ended_at: timing.ended_at,
            expires_at: call.state().expires().map(deadline),
            waited_for_approval: timing.waited_for_approval,
            waited_for_turn: timing.waited_for_turn,
            ran_for: timing.ran_for,
            policy_decision: policy.map(|policy| name(&policy.decision)).transpose()?,
            policy_source: policy.map(|policy| source_name(policy.by)).transpose()?,
            policy_reason: policy.and_then(|policy| policy.reason.as_deref()).map(Text::from),
            approval_id: question.map(|question| question.id.as_str().into()),
            approval_required: question.map(|question| question.required),
            approved: decided.map(|decided| decided.approved),
            always: decided.map(|decided| decided.always),
            decided_by: decided.map(|decided| decided.by.as_str().into()),
            decided_reason: decided.and_then(|decided| decided.reason.as_deref()).map(Text::from),
            decided_how: decided.and_then(|decided| decided.how.as_ref()).map(name).transpose()?,
            input: json(&call.input)?,
            edited_input: call.edited.as_ref().map(json).transpose()?,
            outcome: outcome(call.state())?,
            error_type: call.error_type().map(|kind| kind.as_str().into()),
            answered,
            more: json(&more)?,
        })
    }

    /// Returns the fields that have no column, as JSON.
    pub fn more(self) -> String {
        self.more
    }

    /// The call; the error is [`StoreError::Corrupt`] if the columns do not make one.
    pub fn call(self) -> Result<Call, StoreError> {
        let final_state = self.final_state()?;
        let answer = final_state.as_ref().and_then(answer_of).filter(|_| self.answered);
        let mut call = self.in_state(final_state)?;
        call.run_by = self.run_by.as_deref().map(|by| read_name("who runs a call", by)).transpose()?;
        call.input = read_json("a call's input", &self.input)?;
        call.edited =
            self.edited_input.as_deref().map(|input| read_json("an edited input", input)).transpose()?;
        call.policy_decision = match (&self.policy_decision, &self.policy_source) {
            (Some(decision), Some(source)) => Some(PolicyDecision {
                decision: read_name("a decision", decision)?,
                reason: self.policy_reason.map(|Text(reason)| reason),
                by: read_source(source)?,
            }),
            (_, _) => None,
        };
        call.approval_request = match (self.approval_id, self.approval_required) {
            (Some(Text(id)), Some(required)) => Some(ApprovalRequest { id: ApprovalId::new(id), required }),
            (_, _) => None,
        };
        call.approval_decision = match (self.decided_by, self.approved, self.always) {
            (Some(Text(by)), Some(approved), Some(always)) => {
                let reason = self.decided_reason.map(|Text(reason)| reason);
                let how = self.decided_how.as_deref();
                let how = how.map(|how| read_name("how a person decided", how)).transpose()?;
                Some(ApprovalDecision { by: Owner::new(by), approved, reason, always, how })
            }
            (_, _, _) => None,
        };
        call.answer = answer.or(call.answer);
        Ok(call)
    }

    /// The call in this final state, or in the one that is in `more`, without the fields that other columns add. Only a call itself can enter a
    /// state, so the state and the history are put into its serialised form.
    fn in_state(&self, final_state: Option<CallState>) -> Result<Call, StoreError> {
        let mut fields: Map<String, Value> = read_json("a call", &self.more)?;
        fields.insert("id".into(), self.id.0.clone().into());
        fields.insert("step".into(), self.step.into());
        fields.insert("tool".into(), self.tool.0.clone().into());
        fields.insert("input".into(), Value::Null);
        fields.insert("history".into(), read_json("a call's states", &self.states)?);
        fields.insert("state".into(), self.state.clone().into());
        if let Some(state) = final_state {
            fields.extend(fields_of(&state)?);
        }
        serde_json::from_value(Value::Object(fields)).map_err(|error| corrupt("a call", error))
    }

    /// The state, if it is final.
    fn final_state(&self) -> Result<Option<CallState>, StoreError> {
        let what = "a call's outcome";
        let outcome = self.outcome.as_deref().unwrap_or_default();
        Ok(Some(match read_name::<StateName>("a call's state", &self.state)? {
            StateName::Validating
            | StateName::AwaitingApproval
            | StateName::Scheduled
            | StateName::Executing => return Ok(None),
            StateName::Success => CallState::Success { output: read_json(what, outcome)? },
            StateName::Error => CallState::Error {
                error_type: read_name::<ErrorType>("a type", self.error_type.as_deref().unwrap_or_default())?,
                error_text: read_json(what, outcome)?,
            },
            StateName::Cancelled => {
                CallState::Cancelled { cancelled: read_json::<Cancelled>(what, outcome)? }
            }
        }))
    }
}

/// The fields of a state that is not final. They have no columns.
fn open_state(state: &CallState) -> Result<Map<String, Value>, StoreError> {
    if state.is_final() {
        return Ok(Map::new());
    }
    let mut fields = fields_of(state)?;
    fields.remove("state");
    Ok(fields)
}

fn fields_of(state: &CallState) -> Result<Map<String, Value>, StoreError> {
    match serde_json::to_value(state) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(other) => Err(corrupt("a call's state", other)),
        Err(error) => Err(corrupt("a call's state", error)),
    }
}

/// The answer of a browser that brings a call into this state.
fn answer_of(state: &CallState) -> Option<AnswerKind> {
    match state {
        CallState::Success { output } => Some(AnswerKind::Output { output: output.clone() }),
        CallState::Error { error_type: _, error_text } => {
            Some(AnswerKind::Failure { error_text: error_text.clone() })
        }
        CallState::Validating
        | CallState::AwaitingApproval { .. }
        | CallState::Scheduled { .. }
        | CallState::Executing { .. }
        | CallState::Cancelled { .. } => None,
    }
}

/// Returns whether this is what [`answer_of`] returns.
fn is_answer_of(state: &CallState, answer: &AnswerKind) -> bool {
    match (state, answer) {
        (CallState::Success { output }, AnswerKind::Output { output: answer }) => output == answer,
        (CallState::Error { error_type: _, error_text }, AnswerKind::Failure { error_text: answer }) => {
            error_text == answer
        }
        (_, _) => false,
    }
}

fn outcome(state: &CallState) -> Result<Option<String>, StoreError> {
    match state {
        CallState::Validating
        | CallState::AwaitingApproval { .. }
        | CallState::Scheduled { .. }
        | CallState::Executing { .. } => Ok(None),
        CallState::Success { output } => json(output).map(Some),
        CallState::Error { error_type: _, error_text } => json(error_text).map(Some),
        CallState::Cancelled { cancelled } => json(cancelled).map(Some),
    }
}

/// The source of a policy decision, as text that an operator can search for.
pub fn source_name(source: DecisionSource) -> Result<String, StoreError> {
    match source {
        DecisionSource::Rule(index) => Ok(format!("{RULE}{index}")),
        DecisionSource::Default
        | DecisionSource::Auto
        | DecisionSource::Chain
        | DecisionSource::MemoryWrites
        | DecisionSource::MemorySlot
        | DecisionSource::Always
        | DecisionSource::ToolChanged
        | DecisionSource::Retry
        | DecisionSource::Tool => name(&source),
    }
}

/// The prefix of a rule's number.
const RULE: &str = "rule ";

fn read_source(text: &str) -> Result<DecisionSource, StoreError> {
    match text.strip_prefix(RULE) {
        Some(index) => {
            index.parse().map(DecisionSource::Rule).map_err(|error| corrupt("the number of a rule", error))
        }
        None => read_name("the source of a decision", text),
    }
}

fn corrupt(what: &str, error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use fermata_protocol::{ElicitAction, ElicitationId};
    use fermata_tools::NamedBy;
    use serde_json::json;

    use super::*;

    /// The fields that have columns.
    const IN_COLUMNS: [&str; 11] = [
        "id",
        "step",
        "tool",
        "run_by",
        "input",
        "edited",
        "policy_decision",
        "approval_request",
        "approval_decision",
        "state",
        "history",
    ];

    /// A call with a value in every field that has no column.
    fn full() -> Call {
        let mut call = Call::new(ToolCallId::new("c"), 1, "t".into(), None, Timestamp::UNIX_EPOCH);
        call.presentation.title = Some("A title".into());
        call.answer = Some(AnswerKind::Output { output: json!(1) });
        call.asked_before = vec![ApprovalId::new("appr_0")];
        call.fingerprint = Some("abc".into());
        call.replies = vec![ElicitationRecord {
            to: ElicitationId::new("q"),
            by: Owner::anyone(),
            action: ElicitAction::Decline,
            content: None,
        }];
        call.resource = Some(ResourceKey { named_by: NamedBy::Settings, name: "file".into(), owner: None });
        call.asked_about = Some(AskedFailure { error_type: ErrorType::Timeout, text: "late".into() });
        call.is_empty = true;
        call.idempotency_key = Some("k".into());
        call.fallback_of = Some(ToolCallId::new("b"));
        call.retry_of = Some(ToolCallId::new("a"));
        call.retried_as = Some(ToolCallId::new("d"));
        call.reads_from = Some("https://example.com".into());
        call.last_report = Some(json!("half"));
        call
    }

    #[test]
    fn every_field_of_a_call_is_in_a_column_or_in_more() {
        let row = Row::of(&full()).unwrap();
        let more: Map<String, Value> = serde_json::from_str(&row.more).unwrap();
        let debug = format!("{:#?}", full());
        let fields: Vec<&str> = debug
            .lines()
            .filter_map(|line| line.strip_prefix("    ")?.split_once(": "))
            .map(|(field, _)| field)
            .filter(|field| !field.starts_with(' '))
            .collect();
        assert_eq!(fields.len(), IN_COLUMNS.len() + more.len(), "{fields:?}");
        for field in fields {
            assert!(IN_COLUMNS.contains(&field) || more.contains_key(field), "{field} is not saved");
        }
    }

    #[test]
    fn a_call_comes_back_with_its_fields_without_columns() {
        assert_eq!(Row::of(&full()).unwrap().call().unwrap(), full());
    }
}
