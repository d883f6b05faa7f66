//! The parts of an engine that may be replaced while it runs: the rules, the assistants, and the tools that come and go.
//!
//! Invariant: a step uses the rules of one [`PolicySnapshot`] from its beginning to its end. Of each tool it uses the newest definition.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fermata_protocol::{PlanMode, PostedTool};
use fermata_tools::{
    ChainMode, DefaultPolicy, ErrorPolicy, Fallback, GateMode, MAX_RETRIES, MemoryWrites, Pattern, Policy,
    Tool, ToolRef, ToolSettings, ToolSpec, Toolbox, ToolboxError,
};
use tokio::sync::watch;

use crate::{
    assistants::{Assistant, Assistants},
    consent::ConsentWords,
    memories,
    run_tools::{self, Offer},
};

/// The rules that decide about calls. A step keeps the rules that were in force when it began, but a call that the newest rules deny does
/// not run.
#[derive(Clone)]
pub struct Rules {
    /// Decides for each call: allow, ask a person, or deny.
    pub policy: Arc<dyn Policy>,
    /// The gate that the calls of a step pass before they run.
    pub gate: GateMode,
    /// The treatment of calls after the first tool result of a turn.
    pub chain: ChainMode,
    /// The cases when a model needs approval to change memories.
    pub memory_writes: MemoryWrites,
    /// The consequence of a failure, by its type.
    pub error_policy: ErrorPolicy,
    /// The settings of tools by name. If several patterns match a name, the later settings win.
    pub tools: Vec<(Pattern, ToolSettings)>,
    /// The words that decide about calls in a message.
    pub consent: ConsentWords,
    /// The channels that are notified without a rule.
    pub notices: NoticeRoutes,
    /// The names of tools whose outputs are never cleared from a history to save room.
    pub never_clear: Vec<Pattern>,
}

/// The channels that are notified without a rule.
#[derive(Clone, Debug, Default)]
pub struct NoticeRoutes {
    /// The channels that want certain events, each with globs over their names.
    pub subscriptions: Vec<(String, Vec<Pattern>)>,
    /// The channels where requesters are notified of their own calls that wait.
    pub requester: Option<RequesterNotice>,
}

/// A notice to requesters about their own calls that wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequesterNotice {
    /// The names of the channels.
    pub channels: Vec<String>,
    /// How long a call waits before the requester is notified.
    pub after: Duration,
}

/// The policy snapshot in force. It is replaced as a whole; a step that has begun keeps the one it began with.
pub(crate) struct Policies {
    current: watch::Sender<Arc<PolicySnapshot>>,
    /// The unchecked patterns of pages' tools that were logged. The mutex is never held across an await.
    warned_of: Mutex<HashSet<String>>,
}

/// The number of tools of pages whose unchecked patterns are logged.
const MAX_WARNINGS: usize = 1_000;

/// The rules, the assistants and the tools that a step uses.
pub(crate) struct PolicySnapshot {
    pub rules: Rules,
    pub assistants: Arc<Assistants>,
    /// The tools of this process and of MCP servers, with the settings that the rules have for them.
    pub toolbox: Toolbox,
    /// The tools of the assistant `default`.
    default_tools: AssistantTools,
    /// The tools of each other assistant.
    other_tools: BTreeMap<String, AssistantTools>,
    /// The tools that the engine was built with.
    own: Vec<Arc<dyn Tool>>,
    /// The tools that come and go.
    others: Vec<Arc<dyn Tool>>,
}

/// The tools of an assistant.
struct AssistantTools {
    all: Toolbox,
    /// Those of a post that the user excludes from memory.
    without_memory: Toolbox,
}

/// The parts of a snapshot. Each may be replaced.
struct Parts {
    rules: Rules,
    assistants: Arc<Assistants>,
    own: Vec<Arc<dyn Tool>>,
    others: Vec<Arc<dyn Tool>>,
}

// === impl Rules ===

impl Rules {
    /// Returns the number of times that a call of a missing tool may run again, according to the settings alone.
    pub(crate) fn retries(&self, tool: &str) -> u32 {
        let repeatable = self.settings_for(tool).filter_map(|settings| settings.repeatable).last();
        if repeatable == Some(true) { MAX_RETRIES } else { 0 }
    }

    /// Returns the consequences of failures of a tool.
    pub(crate) fn errors_of(&self, tool: &str) -> ErrorPolicy {
        let own = self.settings_for(tool).flat_map(|settings| &settings.errors);
        own.fold(self.error_policy.clone(), |policy, (error_type, strategy)| {
            policy.with(*error_type, *strategy)
        })
    }

    /// Returns the dotted path of the part of the tool's outputs that is empty if nothing was found, according to the settings alone.
    pub(crate) fn empty_at<'a>(&'a self, tool: &'a str) -> Option<&'a str> {
        self.settings_for(tool).filter_map(|settings| settings.empty.as_deref()).last()
    }

    /// Returns the tool that is called in place of one whose call has failed.
    pub(crate) fn fallback_of<'a>(&'a self, tool: &'a str) -> Option<&'a Fallback> {
        self.settings_for(tool).filter_map(|settings| settings.fallback.as_ref()).last()
    }

    fn settings_for<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a ToolSettings> {
        self.tools.iter().filter(|(pattern, _)| pattern.matches(tool)).map(|(_, settings)| settings)
    }
}

impl Default for Rules {
    /// Returns the default rules: each tool's own policy, the gate over whole steps, and no settings by name.
    fn default() -> Self {
        Self {
            policy: Arc::new(DefaultPolicy),
            gate: GateMode::default(),
            chain: ChainMode::default(),
            memory_writes: MemoryWrites::default(),
            error_policy: ErrorPolicy::default(),
            tools: Vec::new(),
            consent: ConsentWords::default(),
            notices: NoticeRoutes::default(),
            never_clear: Vec::new(),
        }
    }
}

// === impl Policies ===

impl Policies {
    pub fn new(snapshot: PolicySnapshot) -> Self {
        Self { current: watch::Sender::new(Arc::new(snapshot)), warned_of: Mutex::default() }
    }

    /// Returns the snapshot for steps that begin now.
    pub fn current(&self) -> Arc<PolicySnapshot> {
        self.current.borrow().clone()
    }

    /// Returns a receiver that is notified of each replacement.
    pub fn changes(&self) -> watch::Receiver<Arc<PolicySnapshot>> {
        self.current.subscribe()
    }

    /// Replaces the rules, and keeps the assistants and the tools.
    pub fn set_rules(&self, rules: Rules) {
        // Each tool was checked when it was added, and rules cannot make one unusable.
        self.change(|parts| parts.rules = rules);
    }

    /// Replaces the assistants, and keeps the rules and the tools.
    pub fn set_assistants(&self, assistants: Assistants) {
        self.change(|parts| parts.assistants = Arc::new(assistants));
    }

    /// Replaces the tools that come and go, and keeps the rules and the assistants. Returns the errors of tools that cannot be used.
    pub fn set_tools(&self, tools: Vec<Arc<dyn Tool>>) -> Vec<ToolboxError> {
        let errors = self.change(|parts| parts.others = tools);
        self.current().warn_of_unchecked_tools();
        errors
    }

    /// Logs which patterns in the schemas of a page's tools are not checked: once for each, although a page posts its tools with each message.
    pub fn warn_of_tools_of_page(&self, toolbox: &Toolbox, posted: &[PostedTool]) {
        for found in posted.iter().filter_map(|tool| toolbox.find(&tool.name)) {
            let Some(reason) = found.unchecked_patterns() else { continue };
            let mut warned_of = self.warned_of.lock().unwrap_or_else(PoisonError::into_inner);
            if warned_of.len() < MAX_WARNINGS && warned_of.insert(reason.to_owned()) {
                warn_of_unchecked(found, reason);
            }
        }
    }

    /// Replaces the snapshot by one whose parts are changed. Returns the errors of tools that cannot be used.
    fn change(&self, change: impl FnOnce(&mut Parts)) -> Vec<ToolboxError> {
        let mut errors = Vec::new();
        self.current.send_modify(|current| {
            let mut parts = Parts {
                rules: current.rules.clone(),
                assistants: current.assistants.clone(),
                own: current.own.clone(),
                others: current.others.clone(),
            };
            change(&mut parts);
            let (next, unusable) = PolicySnapshot::from_parts(parts);
            *current = Arc::new(next);
            errors = unusable;
        });
        errors
    }
}

fn warn_of_unchecked(found: ToolRef<'_>, reason: &str) {
    let tool = &found.spec().name;
    tracing::warn!(tool, reason, "some patterns of the tool's schema are not checked");
}

// === impl PolicySnapshot ===

impl PolicySnapshot {
    /// Returns the snapshot, and the errors of tools that cannot be used. Logs which tools check their inputs alone.
    pub fn new(
        rules: Rules,
        assistants: Arc<Assistants>,
        own: Vec<Arc<dyn Tool>>,
        others: Vec<Arc<dyn Tool>>,
    ) -> (Self, Vec<ToolboxError>) {
        let (snapshot, errors) = Self::from_parts(Parts { rules, assistants, own, others });
        snapshot.warn_of_unchecked_tools();
        (snapshot, errors)
    }

    fn from_parts(parts: Parts) -> (Self, Vec<ToolboxError>) {
        let Parts { rules, assistants, own, others } = parts;
        let tools = own.iter().chain(&others).cloned();
        let (toolbox, errors) = Toolbox::new(tools, |spec: &mut ToolSpec| {
            let name = spec.name.clone();
            for settings in rules.settings_for(&name) {
                settings.apply(spec);
            }
        });
        let tools_of = |assistant: &Assistant| {
            let all = toolbox.restricted(|tool| assistant.tools.has(tool));
            AssistantTools { without_memory: all.restricted(|tool| !memories::TOOLS.contains(&tool)), all }
        };
        let default_tools = tools_of(&assistants.default);
        let other_tools = assistants.others.iter();
        let other_tools = other_tools.map(|(name, assistant)| (name.clone(), tools_of(assistant))).collect();
        (Self { rules, assistants, toolbox, default_tools, other_tools, own, others }, errors)
    }

    fn warn_of_unchecked_tools(&self) {
        for found in self.toolbox.specs().filter_map(|spec| self.toolbox.find(&spec.name)) {
            if let Some(reason) = found.unchecked_patterns() {
                warn_of_unchecked(found, reason);
            }
        }
    }

    /// Returns the assistant of this name; the default one if there is none of this name any more.
    pub fn assistant(&self, name: Option<&str>) -> &Assistant {
        name.and_then(|name| self.assistants.find(name)).unwrap_or(&self.assistants.default)
    }

    /// Returns the tools of that assistant, for a run that may remember or not, that may make a plan or not, and whose page has posted these
    /// tools.
    pub fn toolbox_of(
        &self,
        name: Option<&str>,
        remembers: bool,
        plan: PlanMode,
        posted: &[PostedTool],
    ) -> Toolbox {
        let tools = name.and_then(|name| self.other_tools.get(name)).unwrap_or(&self.default_tools);
        let tools = if remembers { &tools.all } else { &tools.without_memory };
        let asks_user = self.assistant(name).asks_user;
        let of_run = run_tools::specs(&Offer { plan, asks_user, posted });
        if of_run.is_empty() { tools.clone() } else { tools.with_tools_of_run(of_run) }
    }
}
