//! `fermata policy test`: a dry run of the rules for a made-up call. It starts nothing and writes no file.

use std::fmt;

use fermata_engine::memories::{FORGET, REMEMBER};
use fermata_store::OpenOptions;
use fermata_tools::{
    ApprovalMode, ApprovalTerms, Capacity, ChainMode, Checker, Condition, Decision, DecisionSource,
    MemoryWrites, Owner, Policy, PolicyDecision, Principal, RulePolicy, RunBy, ToolSpec, Toolbox, may_decide,
};
use serde_json::json;

use crate::{
    app::{memory_service, note_limits},
    assistants::has_demo,
    config::{Config, TestedCall, WrittenRule},
    tools,
};

/// The reason why a dry run is not possible.
#[derive(Debug, thiserror::Error)]
pub enum DryRunError {
    /// The database in memory, for the server's own tools, cannot be created.
    #[error(transparent)]
    Store(#[from] fermata_store::OpenError),
    /// The client for the web cannot be built.
    #[error(transparent)]
    Web(#[from] reqwest::Error),
    /// The call is said to be of a tool of the server, which has no such tool.
    #[error("the server has no tool {name}; it has {known}")]
    NoSuchTool {
        /// The tool's name in the call.
        name: String,
        /// The names of the server's tools.
        known: String,
    },
}

/// The evidence for the party that runs the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// The server has the tool.
    Server,
    /// The command line names the party.
    CommandLine,
    /// The tool's name begins with the name of an MCP server in the settings.
    NamePrefix,
    /// There is no other evidence, so the tool is a browser's.
    Assumed,
}

/// The report about a call.
struct Report<'a> {
    config: &'a Config,
    call: &'a TestedCall,
    /// The requester, with all groups.
    requester: &'a Principal,
    spec: &'a ToolSpec,
    origin: Origin,
    policy_decision: &'a PolicyDecision,
    /// The decision in the approval mode `default`.
    default_decision: &'a PolicyDecision,
    /// `true` if a message such as "yes" may decide about the call.
    takes_words: bool,
    /// The way the input violates the tool's schema.
    input_error: Option<String>,
}

/// Decides about a call and returns a report with the decision, the rule and the reason. Must be called within a tokio runtime.
///
/// # Errors
/// Returns an error if the call is said to be of a tool of the server, which has no such tool.
pub async fn report(config: &Config, call: &TestedCall) -> Result<String, DryRunError> {
    // The specs of the tools for notes and memories need a database, so there is an empty one in memory.
    let options = OpenOptions { migrate: true, connections: 1, audit_key: None };
    let database = fermata_store::open("sqlite::memory:", &options).await?;
    let memories = memory_service(&config.memory, &database, None, Capacity::unlimited());
    let tools = tools::all(
        database.notes.clone(),
        note_limits(&config.owner_limits),
        memories,
        config.assistant.search_url.as_ref(),
        has_demo(config),
    )?;
    let (toolbox, _) = Toolbox::new(tools, |_| {});
    let (spec, origin) = spec(config, call, &toolbox)?;
    let mut input_error = None;
    if spec.run_by == RunBy::Server
        && let Some(tool) = toolbox.find(&call.tool)
    {
        let result = Checker::new().check_here(&tool.check_of(call.input.clone()));
        input_error = result.err().map(|error| error.to_string());
    }
    let rules = config.tables.policy.iter().map(|written| written.rule.clone()).collect();
    let requester = Principal { groups: call.groups.clone(), ..call.requester.clone().into() };
    let mut policy = RulePolicy { approval: ApprovalMode::Default, rules, people: config.people() };
    // A tool of the server may have an opinion about its input.
    let own_tool =
        if origin == Origin::Server && input_error.is_none() { toolbox.find(&call.tool) } else { None };
    let decide = |policy: &RulePolicy| match own_tool {
        Some(tool) => tool.decide(policy, &requester, &call.input),
        None => policy.decide(&requester, &spec, &call.input),
    };
    let default_decision = decide(&policy);
    policy.approval = config.calls.approval;
    let policy_decision = decide(&policy);
    let report = Report {
        config,
        call,
        requester: &policy.people.complete(&requester),
        spec: &spec,
        origin,
        policy_decision: &policy_decision,
        default_decision: &default_decision,
        takes_words: config.calls.confirm_words.as_deref().is_none_or(|words| !words.is_empty())
            && policy_decision.terms().take_words(spec.run_by),
        input_error,
    };
    Ok(report.to_string())
}

/// Returns the spec of the tool, as far as it is known without starting MCP servers.
fn spec(config: &Config, call: &TestedCall, toolbox: &Toolbox) -> Result<(ToolSpec, Origin), DryRunError> {
    let own = toolbox.find(&call.tool).map(|tool| tool.spec().clone());
    let has_prefix = config.tables.mcp.keys().any(|server| {
        let rest = call.tool.strip_prefix(server.as_str()).and_then(|rest| rest.strip_prefix("__"));
        rest.is_some_and(|tool| !tool.is_empty())
    });
    let (run_by, origin) = match (call.from, own) {
        (None | Some(RunBy::Server), Some(own)) => return Ok((own, Origin::Server)),
        (Some(RunBy::Server), None) => {
            let names: Vec<&str> = toolbox.specs().map(|spec| spec.name.as_str()).collect();
            return Err(DryRunError::NoSuchTool { name: call.tool.clone(), known: names.join(", ") });
        }
        (Some(from @ (RunBy::Mcp | RunBy::Browser)), _) => (from, Origin::CommandLine),
        (None, None) if has_prefix => (RunBy::Mcp, Origin::NamePrefix),
        (None, None) => (RunBy::Browser, Origin::Assumed),
    };
    let policy = match run_by {
        RunBy::Server | RunBy::Mcp => Decision::Ask,
        RunBy::Browser => Decision::Allow,
    };
    let spec = ToolSpec {
        name: call.tool.clone(),
        title: None,
        description: String::new(),
        input_schema: json!({"type": "object"}).into(),
        run_by,
        server: None,
        policy,
        resource: None,
        timeout: None,
        repeatable: false,
        annotations: None,
    };
    Ok((spec, origin))
}

/// Describes the result of a condition.
fn describe(condition: &Condition) -> String {
    let Condition { about, wants, is_met, value } = condition;
    let Some(value) = value else {
        return format!("{about} is not there, or has nothing in it, and should match {wants}");
    };
    let value = match value.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.clone(),
    };
    let verb = if *is_met { "matches" } else { "does not match" };
    format!("{about} is {value}, which {verb} {wants}")
}

// === impl Report ===

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "decision: {}", self.policy_decision.decision.as_str())?;
        match self.policy_decision.by {
            DecisionSource::Auto => {
                writeln!(f, "by: approval = \"auto\", without which the call would be asked about")?;
                self.write_source(f, "asked by", self.default_decision)?;
            }
            DecisionSource::Default
            | DecisionSource::Rule(_)
            | DecisionSource::Chain
            | DecisionSource::ToolChanged
            | DecisionSource::Retry
            | DecisionSource::MemoryWrites
            | DecisionSource::MemorySlot
            | DecisionSource::Always
            | DecisionSource::Tool => {
                self.write_source(f, "by", self.policy_decision)?;
            }
        }
        writeln!(f, "reason: {}", self.policy_decision.reason.as_deref().unwrap_or("none is given"))?;
        if self.policy_decision.decision == Decision::Ask {
            let words =
                if self.takes_words { "a message such as \"yes\" may decide" } else { "no message decides" };
            writeln!(f, "words: {words}")?;
            self.write_terms(f, self.policy_decision.terms())?;
        }
        self.write_missed(f)?;
        let provenance = match (self.origin, self.spec.run_by) {
            (Origin::Server, _) => "one of the server's own",
            (Origin::CommandLine, RunBy::Mcp) => "taken for an MCP server's, as --from says",
            (Origin::CommandLine, RunBy::Server | RunBy::Browser) => "taken for a browser's, as --from says",
            (Origin::NamePrefix, _) => "taken for an MCP server's, whose name it begins with",
            (Origin::Assumed, _) => {
                "taken for a browser's, as neither the server nor an MCP server of the file has it"
            }
        };
        writeln!(f, "tool: {}, {provenance}", self.spec.name)?;
        for note in self.notes() {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

impl Report<'_> {
    /// Writes the source of a decision, with the conditions of its rule.
    fn write_source(
        &self,
        f: &mut fmt::Formatter<'_>,
        role: &str,
        policy_decision: &PolicyDecision,
    ) -> fmt::Result {
        let rule = match policy_decision.by {
            DecisionSource::Rule(number) => {
                self.config.tables.policy.get(number - 1).map(|rule| (number, &rule.written))
            }
            DecisionSource::Default
            | DecisionSource::Auto
            | DecisionSource::Chain
            | DecisionSource::ToolChanged
            | DecisionSource::Retry
            | DecisionSource::MemoryWrites
            | DecisionSource::MemorySlot
            | DecisionSource::Always
            | DecisionSource::Tool => None,
        };
        if policy_decision.by == DecisionSource::Tool {
            return writeln!(f, "{role}: the tool itself, because of this input");
        }
        let Some((number, written)) = rule else {
            return writeln!(f, "{role}: the tool's own default, as no rule matches");
        };
        writeln!(f, "{role}: rule {number}, {}", written.place)?;
        let mut has_conditions = false;
        for (key, value) in &written.lines {
            if ["tool", "from", "owner", "group", "input"].contains(&key.as_str()) {
                has_conditions = true;
                writeln!(f, "  {key} = {value}")?;
            }
        }
        if !has_conditions {
            writeln!(f, "  (it has no conditions, so that it matches every call)")?;
        }
        let rule = &self.config.tables.policy[number - 1].rule;
        let conditions = rule.conditions(self.requester, self.spec, &self.call.input);
        // The conditions on the input come last.
        for condition in &conditions[conditions.len() - rule.input.len()..] {
            writeln!(f, "  {}", describe(condition))?;
        }
        Ok(())
    }

    /// Writes who may decide, how many of them have to, and until when.
    fn write_terms(&self, f: &mut fmt::Formatter<'_>, terms: &ApprovalTerms) -> fmt::Result {
        let ApprovalTerms { quorum, not_requester, expire, valid_for, notify, remind, escalate, .. } = terms;
        writeln!(f, "may decide: {}", terms.deciders())?;
        if *not_requester {
            writeln!(f, "  but not the requester, {}", self.requester.user)?;
        }
        if *quorum > 1 {
            writeln!(f, "quorum: {quorum} different people have to approve")?;
        }
        let known = self.config.people();
        let deciders = known
            .iter()
            .filter(|(name, _)| may_decide(&Owner::new(*name).into(), &self.requester.user, terms, &known));
        let names: Vec<&str> = deciders.map(|(name, _)| name).collect();
        if !names.is_empty() {
            writeln!(f, "  of the users of the file: {}", names.join(", "))?;
        }
        for (what, time) in
            [("expires after", expire), ("an approval is valid for", valid_for), ("reminder after", remind)]
        {
            if let Some(time) = time {
                writeln!(f, "{what}: {time:?}")?;
            }
        }
        if !notify.is_empty() {
            writeln!(f, "notified: {}", notify.join(", "))?;
        }
        if let Some(escalation) = escalate {
            let by: Vec<String> = escalation.by.iter().map(ToString::to_string).collect();
            writeln!(f, "after {:?} also: {}", escalation.after, by.join(", "))?;
        }
        Ok(())
    }

    /// Writes the earlier rules about the tool that only the input kept from matching.
    fn write_missed(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = match self.default_decision.by {
            DecisionSource::Rule(number) => number - 1,
            DecisionSource::Default
            | DecisionSource::Auto
            | DecisionSource::Chain
            | DecisionSource::ToolChanged
            | DecisionSource::Retry
            | DecisionSource::MemoryWrites
            | DecisionSource::MemorySlot
            | DecisionSource::Always
            | DecisionSource::Tool => self.config.tables.policy.len(),
        };
        for (index, WrittenRule { rule, written }) in self.config.tables.policy[..before].iter().enumerate() {
            let conditions = rule.conditions(self.requester, self.spec, &self.call.input);
            let (about_call, fields) = conditions.split_at(conditions.len() - rule.input.len());
            if about_call.iter().all(|condition| condition.is_met)
                && let Some(missed) = fields.iter().find(|condition| !condition.is_met)
            {
                writeln!(f, "not by: rule {}, {}: {}", index + 1, written.place, describe(missed))?;
            }
        }
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(error) = &self.input_error {
            notes.push(format!(
                "the input does not fit the tool's schema, and such a call fails before any rule is checked: {error}"
            ));
        }
        if self.spec.run_by == RunBy::Mcp && self.default_decision.by == DecisionSource::Default {
            notes.push(
                "an MCP tool is asked about, unless its server has trust_annotations = true and says that the tool only reads \
                 (readOnlyHint); no server was started to see that"
                    .into(),
            );
        }
        let is_allowed = self.policy_decision.decision == Decision::Allow
            && self.config.calls.approval == ApprovalMode::Default;
        if is_allowed && self.config.calls.chain == ChainMode::Ask {
            notes.push(
                "chain = \"ask\": if it is not the first call of its turn, it is asked about nevertheless"
                    .into(),
            );
        }
        let is_memory_write = [REMEMBER, FORGET].contains(&self.spec.name.as_str());
        match self.config.memory.memory_writes {
            MemoryWrites::Ask if is_memory_write && is_allowed => {
                notes.push("memory_writes = \"ask\": it is asked about nevertheless".into());
            }
            MemoryWrites::AskAfterReading if is_memory_write && is_allowed => notes.push(
                "memory_writes = \"ask_after_reading\": with a slot, or after something from outside was read in the turn, it is asked about \
                 nevertheless"
                    .into(),
            ),
            MemoryWrites::Free | MemoryWrites::AskAfterReading | MemoryWrites::Ask => {}
        }
        notes
    }
}
