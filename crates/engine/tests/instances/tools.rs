//! The tools of an instance, and a record of the calls that they ran.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use fermata_engine::store::ChatStore;
use fermata_protocol::{AnswerTarget, ChatId, JsonText, ToolCallId};
use fermata_tools::{
    CallContext, Decision, Elicitation, ErrorType, Resource, RunBy, Tool, ToolError, ToolSpec,
};
use futures::FutureExt;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{history::History, process::Process, shared::FaultyStore};

/// A server tool that does what its input says.
pub struct ScriptedTool {
    pub kind: &'static ToolKind,
    pub process: Arc<Process>,
    pub store: Arc<FaultyStore>,
    pub executions: Arc<Executions>,
}

/// The properties of a tool.
pub struct ToolKind {
    pub name: &'static str,
    needs_approval: bool,
    locks: bool,
    repeatable: bool,
}

/// All tools.
pub const TOOLS: [ToolKind; 5] = [
    ToolKind { name: "run", needs_approval: false, locks: false, repeatable: false },
    ToolKind { name: "ask", needs_approval: true, locks: false, repeatable: false },
    ToolKind { name: "ledger", needs_approval: false, locks: true, repeatable: false },
    ToolKind { name: "note", needs_approval: true, locks: true, repeatable: true },
    ToolKind { name: "again", needs_approval: false, locks: false, repeatable: true },
];

/// The tool whose rules say what may be remembered. The model never calls it.
pub const REMEMBER: ToolKind =
    ToolKind { name: "remember", needs_approval: false, locks: false, repeatable: true };

/// The calls that have run, and those that are running.
#[derive(Default)]
pub struct Executions {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    begun: BTreeMap<String, u32>,
    active: Vec<Active>,
    next: u64,
}

struct Active {
    number: u64,
    call: String,
    key: Option<String>,
    process: Arc<Process>,
}

/// Counts a call among the running ones while it lives.
struct Running {
    number: u64,
    executions: Arc<Executions>,
}

// === impl Runs ===

impl Executions {
    fn begin(self: &Arc<Self>, tool: &ScriptedTool, call: &str, key: Option<String>) -> Running {
        let history = &tool.process.conditions.history;
        let mut state = self.state.lock().unwrap();
        let begun = state.begun.entry(call.to_owned()).or_default();
        *begun += 1;
        let max = if tool.kind.repeatable { 3 } else { 1 };
        if *begun > max {
            history.violation(format!("{call} of {} begins for the {begun}. time", tool.kind.name));
        }
        let has_lease = |process: &Process| !process.lease_expired.load(Ordering::SeqCst);
        let rival = state.active.iter().find(|other| other.key.is_some() && other.key == key);
        if let Some(rival) = rival.filter(|rival| has_lease(&rival.process) && has_lease(&tool.process)) {
            history.violation(format!("{call} and {} use {key:?} at once", rival.call));
        }
        state.next += 1;
        let number = state.next;
        state.active.push(Active { number, call: call.to_owned(), key, process: tool.process.clone() });
        Running { number, executions: self.clone() }
    }

    /// Notes that a process was killed, and its calls with it.
    pub fn end_process(&self, process: &Arc<Process>) {
        self.state.lock().unwrap().active.retain(|active| !Arc::ptr_eq(&active.process, process));
    }

    /// Returns the calls that are running.
    pub fn active(&self) -> Vec<String> {
        self.state.lock().unwrap().active.iter().map(|active| active.call.clone()).collect()
    }

    /// Returns the number of times that a call has begun to run.
    pub fn begun(&self, call: &str) -> u32 {
        self.state.lock().unwrap().begun.get(call).copied().unwrap_or(0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.executions.state.lock().unwrap().active.retain(|active| active.number != self.number);
    }
}

// === impl Deed ===

impl ScriptedTool {
    /// Checks that a call that begins to run is saved as running, and was approved if that is necessary.
    fn check_begin(&self, history: &History, chat: &ChatId, call: &ToolCallId) {
        if self.process.lease_expired.load(Ordering::SeqCst) {
            return;
        }
        let of = AnswerTarget::Call(call.clone());
        match self.store.store.call(chat, &of).now_or_never().unwrap().unwrap() {
            None => history.check_missing(chat, &format!("{call} begins and is not saved")),
            Some(saved) => {
                if saved.state().name().as_str() != "executing" {
                    history.violation(format!("{call} begins, and is saved as {}", saved.state().name()));
                }
                if self.kind.needs_approval
                    && !saved.approval_decision.is_some_and(|decided| decided.approved)
                {
                    history.violation(format!("{call} begins, and nobody has approved it"));
                }
            }
        }
    }

    async fn work(&self, input: &Value, context: &CallContext) -> Result<Value, ToolError> {
        let time = Duration::from_millis(input["ms"].as_u64().unwrap_or(0));
        if !time.is_zero() {
            sleep(time).await;
        }
        match input["does"].as_str() {
            Some("fails") => Err(ToolError::internal("the input asks for it")),
            Some("is limited") => Err(ToolError::new(ErrorType::RateLimit, "slow down")),
            Some("reports") => {
                for n in 0..20 {
                    context.report(json!({ "progress": n }));
                    sleep(Duration::from_millis(70)).await;
                }
                Ok(json!({"reported": context.call}))
            }
            Some("asks") => {
                let requested_schema = json!({"type": "object", "required": ["size"]});
                let question = Elicitation {
                    message: "How big?".into(),
                    requested_schema,
                    server: None,
                    other_candidates: Vec::new(),
                };
                Ok(json!({"got": format!("{:?}", context.elicit(question).await)}))
            }
            _ => Ok(json!({"did": context.call})),
        }
    }
}

#[async_trait]
impl Tool for ScriptedTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.kind.name.into(),
            title: None,
            description: "Does what its input says.".into(),
            input_schema: json!({"type": "object"}).into(),
            run_by: RunBy::Server,
            server: None,
            policy: if self.kind.needs_approval { Decision::Ask } else { Decision::Allow },
            resource: self.kind.locks.then(|| Resource::input("key")),
            timeout: None,
            repeatable: self.kind.repeatable,
            annotations: None,
        }
    }

    async fn call(&self, input: JsonText, context: CallContext) -> Result<Value, ToolError> {
        let input = input.value();
        self.process.hang_if_killed().await;
        let history = self.process.conditions.history.clone();
        self.check_begin(&history, &context.chat, &context.call);
        let key = input["key"].as_str().filter(|_| self.kind.locks).map(str::to_owned);
        let _running = self.executions.begin(self, &context.call.to_string(), key);
        self.process.run_until_killed(self.work(&input, &context)).await
    }
}
