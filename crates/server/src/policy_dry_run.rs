//! `fermata policy test`: what the rules do with a call that nobody made. Nothing is started and no file is written.

use std::fmt;

use fermata_store::OpenOptions;
use fermata_tools::{
    ApprovalMode, ChainMode, Checker, Condition, Decision, DecisionSource, Policy, PolicyDecision,
    RulePolicy, RunBy, ToolSpec, Toolbox,
};
use serde_json::json;

use crate::{
    app::note_limits,
    config::{Config, TestedCall, Word, WrittenRule},
    tools,
};

/// Why nothing can be said about a call.
#[derive(Debug, thiserror::Error)]
pub enum PolicyTestError {
    /// The database of the server's own tools, in memory, cannot be made.
    #[error(transparent)]
    Store(#[from] fermata_store::OpenError),
    /// It was to be taken for a tool of the server.
    #[error("the server has no tool {name}; it has {known}")]
    NoSuchTool {
        /// The name that was given.
        name: String,
        /// The names that there are.
        known: String,
    },
}

/// How the tool was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It is the server's own.
    Own,
    /// Somebody said who runs it.
    Said,
    /// It has the name of an MCP server of the file.
    ByPrefix,
    /// Nobody else has it.
    Nowhere,
}

/// What is said about a call.
struct Report<'a> {
    config: &'a Config,
    call: &'a TestedCall,
    spec: &'a ToolSpec,
    known: Known,
    policy_decision: &'a PolicyDecision,
    /// What it would be, were people asked.
    asking: &'a PolicyDecision,
    /// What is wrong with the input.
    misfit: Option<String>,
}

/// Says what the policy does with a call, by which rule and why. Needs a tokio runtime.
///
/// # Errors
/// Where it is to be a tool of the server, and is none.
pub async fn report(config: &Config, call: &TestedCall) -> Result<String, PolicyTestError> {
    // What a tool is can only be asked of the tool, and the notes tools want a database: this one nobody sees.
    let options = OpenOptions { migrate: true, connections: 1 };
    let database = fermata_store::open("sqlite::memory:", &options).await?;
    let (toolbox, _) = Toolbox::new(tools::all(database.notes, note_limits(config)), |_| {});
    let (spec, known) = spec(config, call, &toolbox)?;
    let own = toolbox.find(&call.tool).filter(|_| spec.run_by == RunBy::Server);
    let misfit = own
        .and_then(|own| Checker::new().check_here(&own.check_of(call.input.clone())).err())
        .map(|error| error.to_string());
    let rules = config.policy.iter().map(|written| written.rule.clone()).collect();
    let mut policy = RulePolicy { approval: ApprovalMode::Default, rules };
    let asking = policy.decide(&call.owner, &spec, &call.input);
    policy.approval = config.approval;
    let policy_decision = policy.decide(&call.owner, &spec, &call.input);
    Ok(Report {
        config,
        call,
        spec: &spec,
        known,
        policy_decision: &policy_decision,
        asking: &asking,
        misfit,
    }
    .to_string())
}

/// What the tool is, as far as it can be known before anything is started.
fn spec(config: &Config, call: &TestedCall, toolbox: &Toolbox) -> Result<(ToolSpec, Known), PolicyTestError> {
    let own = toolbox.find(&call.tool).map(|found| found.spec().clone());
    let of_server = |name: &String| {
        let rest = call.tool.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix("__"));
        rest.is_some_and(|tool| !tool.is_empty())
    };
    let (run_by, known) = match (call.from, own) {
        (None | Some(RunBy::Server), Some(own)) => return Ok((own, Known::Own)),
        (Some(RunBy::Server), None) => {
            let names: Vec<&str> = toolbox.specs().map(|spec| spec.name.as_str()).collect();
            return Err(PolicyTestError::NoSuchTool { name: call.tool.clone(), known: names.join(", ") });
        }
        (Some(from @ (RunBy::Mcp | RunBy::Browser)), _) => (from, Known::Said),
        (None, None) if config.mcp.keys().any(of_server) => (RunBy::Mcp, Known::ByPrefix),
        (None, None) => (RunBy::Browser, Known::Nowhere),
    };
    let policy = match run_by {
        RunBy::Server | RunBy::Mcp => Decision::Ask,
        RunBy::Browser => Decision::Allow,
    };
    let spec = ToolSpec {
        name: call.tool.clone(),
        description: String::new(),
        input_schema: json!({"type": "object"}),
        run_by,
        server: None,
        policy,
        resource: None,
        timeout: None,
        repeatable: false,
    };
    Ok((spec, known))
}

/// How a condition turned out.
fn told(condition: &Condition) -> String {
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
        writeln!(f, "decision: {}", self.policy_decision.decision.word())?;
        match self.policy_decision.by {
            DecisionSource::Auto => {
                writeln!(f, "by: approval = \"auto\", without which the call would be asked about")?;
                self.write_maker(f, "asked by", self.asking)?;
            }
            DecisionSource::Default
            | DecisionSource::Rule(_)
            | DecisionSource::Chain
            | DecisionSource::Always => {
                self.write_maker(f, "by", self.policy_decision)?;
            }
        }
        writeln!(f, "reason: {}", self.policy_decision.reason.as_deref().unwrap_or("none is given"))?;
        self.write_missed(f)?;
        writeln!(f, "tool: {}, {}", self.spec.name, self.provenance())?;
        self.notes().iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

impl Report<'_> {
    /// Who makes a decision, with all that a rule looks at.
    fn write_maker(
        &self,
        f: &mut fmt::Formatter<'_>,
        role: &str,
        policy_decision: &PolicyDecision,
    ) -> fmt::Result {
        let rule = match policy_decision.by {
            DecisionSource::Rule(number) => {
                self.config.policy.get(number - 1).map(|rule| (number, &rule.written))
            }
            DecisionSource::Default
            | DecisionSource::Auto
            | DecisionSource::Chain
            | DecisionSource::Always => None,
        };
        let Some((number, written)) = rule else {
            return writeln!(f, "{role}: the tool's own default, as no rule matches");
        };
        writeln!(f, "{role}: rule {number}, {}", written.place)?;
        let conditions: Vec<_> = written
            .lines
            .iter()
            .filter(|(key, _)| ["tool", "from", "owner", "input"].contains(&key.as_str()))
            .collect();
        if conditions.is_empty() {
            writeln!(f, "  (it has no conditions, so that it matches every call)")?;
        }
        conditions.iter().try_for_each(|(key, value)| writeln!(f, "  {key} = {value}"))?;
        let rule = &self.config.policy[number - 1].rule;
        let fields = rule.conditions(&self.call.owner, self.spec, &self.call.input);
        let fields = fields.iter().rev().take(rule.input.len()).rev();
        fields.into_iter().try_for_each(|condition| writeln!(f, "  {}", told(condition)))
    }

    /// The rules before the one that decides which are about the tool, and would have decided but for the input.
    fn write_missed(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = match self.asking.by {
            DecisionSource::Rule(number) => number - 1,
            DecisionSource::Default
            | DecisionSource::Auto
            | DecisionSource::Chain
            | DecisionSource::Always => self.config.policy.len(),
        };
        for (place, WrittenRule { rule, written }) in self.config.policy[..before].iter().enumerate() {
            let conditions = rule.conditions(&self.call.owner, self.spec, &self.call.input);
            let (about_call, fields) = conditions.split_at(conditions.len() - rule.input.len());
            if about_call.iter().all(|condition| condition.is_met)
                && let Some(missed) = fields.iter().find(|condition| !condition.is_met)
            {
                writeln!(f, "not by: rule {}, {}: {}", place + 1, written.place, told(missed))?;
            }
        }
        Ok(())
    }

    fn provenance(&self) -> &'static str {
        match (self.known, self.spec.run_by) {
            (Known::Own, _) => "one of the server's own",
            (Known::Said, RunBy::Mcp) => "taken for an MCP server's, as --from says",
            (Known::Said, RunBy::Server | RunBy::Browser) => "taken for a browser's, as --from says",
            (Known::ByPrefix, _) => "taken for an MCP server's, whose name it begins with",
            (Known::Nowhere, _) => {
                "taken for a browser's, as neither the server nor an MCP server of the file has it"
            }
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(misfit) = &self.misfit {
            notes.push(format!(
                "the input does not fit the tool's schema, and such a call fails before any rule is asked: {misfit}"
            ));
        }
        if self.spec.run_by == RunBy::Mcp && self.asking.by == DecisionSource::Default {
            notes.push(
                "an MCP tool is asked about, unless its server has trust_annotations = true and says that the tool only reads \
                 (readOnlyHint); no server was started to see that"
                    .into(),
            );
        }
        let asked =
            self.policy_decision.decision == Decision::Allow && self.config.approval == ApprovalMode::Default;
        if asked && self.config.chain == ChainMode::Ask {
            notes.push(
                "chain = \"ask\": once the turn has a tool's result, it is asked about nevertheless".into(),
            );
        }
        notes
    }
}
