//! The tools of an instance, and a record of which calls ran when and where.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use fermata_engine::store::ChatStore;
use fermata_protocol::{AnswerTarget, ChatId, ToolCallId};
use fermata_tools::{
    CallContext, Decision, Elicitation, ErrorType, Resource, RunBy, Tool, ToolError, ToolSpec,
};
use futures::FutureExt;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{facts::Facts, life::Life, shared::Shaky};

/// A server's tool.
pub struct Deed {
    pub kind: &'static Kind,
    pub life: Arc<Life>,
    pub store: Arc<Shaky>,
    pub runs: Arc<Runs>,
}

/// What a tool is like.
pub struct Kind {
    pub name: &'static str,
    asked: bool,
    locks: bool,
    repeatable: bool,
}

/// All of them.
pub const KINDS: [Kind; 5] = [
    Kind { name: "run", asked: false, locks: false, repeatable: false },
    Kind { name: "ask", asked: true, locks: false, repeatable: false },
    Kind { name: "ledger", asked: false, locks: true, repeatable: false },
    Kind { name: "note", asked: true, locks: true, repeatable: true },
    Kind { name: "again", asked: false, locks: false, repeatable: true },
];

/// Which calls ran, and which run.
#[derive(Default)]
pub struct Runs {
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
    life: Arc<Life>,
}

/// A tool that runs, until this is dropped.
struct Running {
    number: u64,
    runs: Arc<Runs>,
}

// === impl Runs ===

impl Runs {
    fn begin(self: &Arc<Self>, deed: &Deed, call: &str, key: Option<String>) -> Running {
        let facts = &deed.life.world.facts;
        let mut state = self.state.lock().unwrap();
        let begun = state.begun.entry(call.to_owned()).or_default();
        *begun += 1;
        let most = if deed.kind.repeatable { 3 } else { 1 };
        if *begun > most {
            facts.fault(format!("{call} of {} begins for the {begun}. time", deed.kind.name));
        }
        let is_sound = |life: &Life| !life.was_buried.load(Ordering::SeqCst);
        let rival = state.active.iter().find(|other| other.key.is_some() && other.key == key);
        if let Some(rival) = rival.filter(|rival| is_sound(&rival.life) && is_sound(&deed.life)) {
            facts.fault(format!("{call} and {} use {key:?} at once", rival.call));
        }
        state.next += 1;
        let number = state.next;
        state.active.push(Active { number, call: call.to_owned(), key, life: deed.life.clone() });
        Running { number, runs: self.clone() }
    }

    /// A process has ended, and its tools with it.
    pub fn end_with(&self, life: &Arc<Life>) {
        self.state.lock().unwrap().active.retain(|active| !Arc::ptr_eq(&active.life, life));
    }

    /// The calls that run now.
    pub fn active(&self) -> Vec<String> {
        self.state.lock().unwrap().active.iter().map(|active| active.call.clone()).collect()
    }

    /// How often a call has begun.
    pub fn begun(&self, call: &str) -> u32 {
        self.state.lock().unwrap().begun.get(call).copied().unwrap_or(0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.runs.state.lock().unwrap().active.retain(|active| active.number != self.number);
    }
}

// === impl Deed ===

impl Deed {
    /// Before a call runs, it is allowed and saved that it runs.
    fn check_begin(&self, facts: &Facts, chat: &ChatId, call: &ToolCallId) {
        if self.life.was_buried.load(Ordering::SeqCst) {
            return;
        }
        let of = AnswerTarget::Call(call.clone());
        match self.store.store.call(chat, &of).now_or_never().unwrap().unwrap() {
            None => facts.note_missing(chat, &format!("{call} begins and is not saved")),
            Some(saved) => {
                if saved.state().name().as_str() != "executing" {
                    facts.fault(format!("{call} begins, and is saved as {}", saved.state().name()));
                }
                if self.kind.asked && !saved.approval_decision.is_some_and(|decided| decided.approved) {
                    facts.fault(format!("{call} begins, and nobody has approved it"));
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
            Some("fails") => Err(ToolError::internal("as it was told")),
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
                Ok(json!({"was told": format!("{:?}", context.elicit(question).await)}))
            }
            _ => Ok(json!({"did": context.call})),
        }
    }
}

#[async_trait]
impl Tool for Deed {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.kind.name.into(),
            description: "Does what its input says.".into(),
            input_schema: json!({"type": "object"}),
            run_by: RunBy::Server,
            server: None,
            policy: if self.kind.asked { Decision::Ask } else { Decision::Allow },
            resource: self.kind.locks.then(|| Resource::input("key")),
            timeout: None,
            repeatable: self.kind.repeatable,
        }
    }

    async fn call(&self, input: Value, context: CallContext) -> Result<Value, ToolError> {
        self.life.goes_on().await;
        let facts = self.life.world.facts.clone();
        self.check_begin(&facts, &context.chat, &context.call);
        let key = input["key"].as_str().filter(|_| self.kind.locks).map(str::to_owned);
        let _running = self.runs.begin(self, &context.call.to_string(), key);
        self.life.lives(self.work(&input, &context)).await
    }
}
