//! The operator's rules. The first rule that matches a call decides about it.
//!
//! This module does not know how rules are written in a file. Invariant: a call that a rule denies stays denied in every approval mode.

use std::sync::Arc;

use serde_json::Value;

use super::{ApprovalMode, DefaultPolicy, Policy};
use crate::{
    ApprovalTerms, Decision, DecisionSource, Matcher, Pattern, People, PolicyDecision, Principal, RunBy,
    Side, ToolSpec, field,
};

/// A rule. It applies to the calls that meet all of its conditions; every call meets a condition that is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The pattern that the tool's name must match.
    pub tool: Option<Pattern>,
    /// The party that must run the tool.
    pub from: Option<RunBy>,
    /// The pattern that the name of the chat's owner must match.
    pub owner: Option<Pattern>,
    /// The pattern that the name of a group of the requester must match.
    pub group: Option<Pattern>,
    /// The matchers for fields of the input, each with the field's path; `a.b` is the field `b` of the field `a`.
    pub input: Vec<(String, Matcher)>,
    /// The decision about the calls that the rule applies to.
    pub decision: Decision,
    /// The reason, as a text for the model and the person.
    pub reason: Option<String>,
    /// The terms of the approval that the rule asks for.
    pub terms: ApprovalTerms,
}

/// A policy of rules in order. If no rule matches, the tool's own default applies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RulePolicy {
    /// The setting that says whether people are asked.
    pub approval: ApprovalMode,
    /// The rules, the first one to try first.
    pub rules: Vec<Rule>,
    /// The people of the settings, with their groups.
    pub people: People,
}

/// The result of checking one condition of a rule against a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The subject of the condition: `tool`, `from`, `owner`, or a path in the input.
    pub about: String,
    /// The condition as it is written in a rule.
    pub wants: String,
    /// True if the call meets the condition.
    pub is_met: bool,
    /// The value that decided the result, as JSON; `None` if the input has no such value.
    pub value: Option<String>,
}

// === impl Rule ===

impl Rule {
    /// Creates a rule without conditions.
    pub fn of_every_call(decision: Decision) -> Self {
        Self {
            tool: None,
            from: None,
            owner: None,
            group: None,
            input: Vec::new(),
            decision,
            reason: None,
            terms: ApprovalTerms::default(),
        }
    }

    /// Returns whether the rule applies to a call of this tool with this input, which this principal requests. `requester` has all groups.
    ///
    /// A missing field meets no condition. If a path leads to a list, one matching element is enough for a rule that denies or asks, and
    /// all elements must match for a rule that allows.
    pub fn matches(&self, requester: &Principal, tool: &ToolSpec, input: &Value) -> bool {
        let side = Side::of(self.decision);
        self.tool.as_ref().is_none_or(|pattern| pattern.matches(&tool.name))
            && self.from.is_none_or(|from| from == tool.run_by)
            && self.owner.as_ref().is_none_or(|pattern| pattern.matches(requester.user.as_str()))
            && self
                .group
                .as_ref()
                .is_none_or(|pattern| requester.groups.iter().any(|group| pattern.matches(group)))
            && self.input.iter().all(|(path, matcher)| match_field(path, matcher, input, side, side).0)
    }

    /// Returns whether a rule that denies or asks, and applies to a call, does so without any doubt about how the input is read.
    fn is_certain(&self, input: &Value) -> bool {
        self.input
            .iter()
            .all(|(path, matcher)| match_field(path, matcher, input, Side::Restricts, Side::Allows).0)
    }

    /// Returns the terms of the approval that the rule asks for; `None` if the requester decides, by button or words.
    fn saved_terms(&self) -> Option<Arc<ApprovalTerms>> {
        if self.decision != Decision::Ask || self.terms == ApprovalTerms::default() {
            return None;
        }
        Some(Arc::new(self.terms.clone()))
    }

    /// Checks each condition against a call, for a report to the operator.
    pub fn conditions(&self, requester: &Principal, tool: &ToolSpec, input: &Value) -> Vec<Condition> {
        let mut conditions = Vec::new();
        if let Some(pattern) = &self.tool {
            conditions.push(name_condition("tool", pattern, &tool.name));
        }
        if let Some(from) = self.from {
            conditions.push(Condition {
                about: "from".into(),
                wants: format!("{:?}", from.name()),
                is_met: from == tool.run_by,
                value: Some(Value::from(tool.run_by.name()).to_string()),
            });
        }
        if let Some(pattern) = &self.owner {
            conditions.push(name_condition("owner", pattern, requester.user.as_str()));
        }
        if let Some(pattern) = &self.group {
            conditions.push(Condition {
                about: "group".into(),
                wants: format!("{:?}", pattern.to_string()),
                is_met: requester.groups.iter().any(|group| pattern.matches(group)),
                value: Some(Value::from(requester.groups.clone()).to_string()),
            });
        }
        for (path, matcher) in &self.input {
            let side = Side::of(self.decision);
            let (is_met, value) = match_field(path, matcher, input, side, side);
            let value = value.map(Value::to_string);
            conditions.push(Condition { about: path.clone(), wants: matcher.to_string(), is_met, value });
        }
        conditions
    }
}

fn name_condition(about: &str, pattern: &Pattern, name: &str) -> Condition {
    Condition {
        about: about.into(),
        wants: format!("{:?}", pattern.to_string()),
        is_met: pattern.matches(name),
        value: Some(Value::from(name).to_string()),
    }
}

/// Returns whether the values at a path match, and the value that decided it. `of_list` says how many of several must match, `of_value` how
/// a doubt about one of them counts.
fn match_field<'a>(
    path: &str,
    matcher: &Matcher,
    input: &'a Value,
    of_list: Side,
    of_value: Side,
) -> (bool, Option<&'a Value>) {
    let values = field::values(input, path);
    let first = values.first().copied().flatten();
    let matches = |value: &Option<&Value>| value.is_some_and(|value| matcher.matches(value, of_value));
    match of_list {
        Side::Restricts => match values.iter().find(|value| matches(value)) {
            Some(value) => (true, *value),
            None => (false, first),
        },
        Side::Allows => match values.iter().find(|value| !matches(value)) {
            Some(value) => (false, *value),
            None => (!values.is_empty(), first),
        },
    }
}

// === impl RulePolicy ===

impl RulePolicy {
    /// Returns the rule that decides about a call, with its index.
    ///
    /// That is the first one that applies. But a rule that asks and applies only if the input is read in an odd way does not keep a later
    /// rule from denying the call; it only keeps the call from running unasked. So a doubt never makes a decision milder.
    fn deciding_rule(&self, requester: &Principal, tool: &ToolSpec, input: &Value) -> Option<(usize, &Rule)> {
        let requester = self.people.complete(requester);
        let mut in_doubt = None;
        let mut certain = None;
        for (index, rule) in self.rules.iter().enumerate() {
            if !rule.matches(&requester, tool, input) {
                continue;
            }
            if rule.decision == Decision::Ask && !rule.is_certain(input) {
                in_doubt.get_or_insert((index, rule));
                continue;
            }
            certain = Some((index, rule));
            break;
        }
        match certain.map_or(tool.policy, |(_, rule)| rule.decision) {
            Decision::Deny => certain,
            Decision::Ask => certain.or(in_doubt),
            Decision::Allow => in_doubt.or(certain),
        }
    }
}

impl Policy for RulePolicy {
    fn decide(&self, requester: &Principal, tool: &ToolSpec, input: &Value) -> PolicyDecision {
        let policy_decision = match self.deciding_rule(requester, tool, input) {
            Some((index, rule)) => PolicyDecision {
                decision: rule.decision,
                reason: rule.reason.clone(),
                by: DecisionSource::Rule(index + 1),
                terms: rule.saved_terms(),
            },
            None => DefaultPolicy.decide(requester, tool, input),
        };
        if self.approval == ApprovalMode::Auto && policy_decision.decision == Decision::Ask {
            // The reason explains why a person should look at the call, so it does not fit a call that runs unseen.
            return PolicyDecision::new(Decision::Allow, DecisionSource::Auto);
        }
        policy_decision
    }

    fn approval(&self) -> ApprovalMode {
        self.approval
    }

    fn people(&self) -> &People {
        &self.people
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::Owner;

    fn tool(name: &str, run_by: RunBy, policy: Decision) -> ToolSpec {
        ToolSpec {
            name: name.into(),
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
        }
    }

    fn alice() -> Principal {
        Owner::new("alice").into()
    }

    fn about(tool: &str, decision: Decision) -> Rule {
        Rule { tool: Some(Pattern::new(tool)), ..Rule::of_every_call(decision) }
    }

    fn rule_about_input(fields: &[(&str, &str)]) -> Rule {
        let input = fields.iter().map(|(path, glob)| ((*path).to_owned(), Matcher::Glob(Pattern::new(glob))));
        Rule { input: input.collect(), ..Rule::of_every_call(Decision::Deny) }
    }

    fn policy_decision(rules: Vec<Rule>, tool: &ToolSpec) -> (Decision, DecisionSource) {
        let policy_decision =
            RulePolicy { rules, ..RulePolicy::default() }.decide(&alice(), tool, &json!({}));
        (policy_decision.decision, policy_decision.by)
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        use Decision::{Allow, Ask, Deny};
        let write = tool("write_note", RunBy::Server, Ask);
        for (rules, expected) in [
            (vec![], (Ask, DecisionSource::Default)),
            (vec![about("read_*", Deny)], (Ask, DecisionSource::Default)),
            (vec![about("write_*", Deny)], (Deny, DecisionSource::Rule(1))),
            (vec![about("read_*", Deny), about("*note", Allow)], (Allow, DecisionSource::Rule(2))),
            (vec![Rule::of_every_call(Allow), about("write_note", Deny)], (Allow, DecisionSource::Rule(1))),
            (vec![about("write_note", Deny), Rule::of_every_call(Allow)], (Deny, DecisionSource::Rule(1))),
            (vec![about("Write_note", Deny), about("write", Deny)], (Ask, DecisionSource::Default)),
        ] {
            assert_eq!(policy_decision(rules.clone(), &write), expected, "{rules:?}");
        }
    }

    #[test]
    fn a_rule_may_be_about_the_party_that_runs_the_tool() {
        let all = [RunBy::Server, RunBy::Mcp, RunBy::Browser];
        for (rule, runs) in all.iter().flat_map(|rule| all.iter().map(move |runs| (*rule, *runs))) {
            let rules = vec![Rule { from: Some(rule), ..Rule::of_every_call(Decision::Deny) }];
            let matched = policy_decision(rules, &tool("x", runs, Decision::Allow)).0 == Decision::Deny;
            assert_eq!(matched, rule == runs, "a rule about {rule:?}, a tool of {runs:?}");
        }
    }

    #[test]
    fn all_conditions_must_be_met() {
        let rule = Rule {
            tool: Some(Pattern::new("write_*")),
            from: Some(RunBy::Server),
            ..rule_about_input(&[("title", "*secret*"), ("to.name", "bob")])
        };
        let input = json!({"title": "a secret", "to": {"name": "bob"}});
        let write = tool("write_note", RunBy::Server, Decision::Allow);
        assert!(rule.matches(&alice(), &write, &input));
        assert!(!rule.matches(&alice(), &tool("read_note", RunBy::Server, Decision::Allow), &input));
        assert!(!rule.matches(&alice(), &tool("write_note", RunBy::Mcp, Decision::Allow), &input));
        assert!(!rule.matches(&alice(), &write, &json!({"title": "a secret"})));
        assert!(!rule.matches(&alice(), &write, &json!({"title": "milk", "to": {"name": "bob"}})));
    }

    #[test]
    fn a_field_matches_with_any_of_its_texts() {
        let input = json!({
            "title": "a secret\nplan", "n": 5, "half": 0.5, "flag": true, "none": null, "empty": "",
            "to": {"name": "bob", "tags": ["x", 7, {"deep": "yes"}]}, "dotted.name": "found",
            "list": ["one", "two"], "nothing": [], "people": [{"name": "ann"}, {"name": "bob"}],
        });
        for (path, glob, expected) in [
            ("title", "*secret*", true),
            ("title", "secret", false),
            ("title", "*Secret*", true),
            ("Title", "*", false),
            ("missing", "*", false),
            ("title.missing", "*", false),
            ("n", "5", true),
            ("n", "5.0", true),
            ("half", "0.?", true),
            ("flag", "true", true),
            ("none", "null", true),
            ("empty", "", true),
            ("empty", "?*", false),
            ("to.name", "b?b", true),
            ("to", "*\"bob\"*", true),
            ("to.tags", "7", true),
            ("to.tags.deep", "yes", true),
            ("dotted.name", "found", true),
            ("list", "two", true),
            ("list", "one,two", false),
            ("nothing", "*", false),
            ("people.name", "bob", true),
            ("people.name", "carl", false),
        ] {
            let rule = rule_about_input(&[(path, glob)]);
            let matched = rule.matches(&alice(), &tool("x", RunBy::Server, Decision::Allow), &input);
            assert_eq!(matched, expected, "{path} = {glob:?}");
        }
    }

    #[test]
    fn with_approval_auto_nothing_is_asked_and_what_is_denied_stays_denied() {
        let rules = vec![
            Rule { reason: Some("No.".into()), ..about("delete_*", Decision::Deny) },
            Rule { reason: Some("Look at it.".into()), ..about("write_*", Decision::Ask) },
            about("read_*", Decision::Allow),
        ];
        let policy = RulePolicy { approval: ApprovalMode::Auto, rules, ..RulePolicy::default() };
        assert_eq!(policy.approval(), ApprovalMode::Auto);
        for (name, default, decision, reason, by) in [
            ("delete_note", Decision::Allow, Decision::Deny, Some("No."), DecisionSource::Rule(1)),
            ("write_note", Decision::Deny, Decision::Allow, None, DecisionSource::Auto),
            ("read_note", Decision::Ask, Decision::Allow, None, DecisionSource::Rule(3)),
            ("other", Decision::Ask, Decision::Allow, None, DecisionSource::Auto),
            ("other", Decision::Allow, Decision::Allow, None, DecisionSource::Default),
            ("other", Decision::Deny, Decision::Deny, None, DecisionSource::Default),
        ] {
            let policy_decision = policy.decide(&alice(), &tool(name, RunBy::Server, default), &json!({}));
            assert_eq!(
                policy_decision,
                PolicyDecision { reason: reason.map(Into::into), ..PolicyDecision::new(decision, by) },
                "{name} {default:?}"
            );
        }
    }

    #[test]
    fn a_rule_that_asks_in_doubt_keeps_no_later_rule_from_denying() {
        use Decision::{Allow, Ask, Deny};
        let title = |glob: &str, decision| Rule {
            input: vec![("title".into(), Matcher::Glob(Pattern::new(glob)))],
            ..Rule::of_every_call(decision)
        };
        let terms = ApprovalTerms { always: true, ..ApprovalTerms::default() };
        let always = Rule { terms, ..title("*Draft*", Ask) };
        for (rules, default, expected) in [
            (vec![title("*Draft*", Ask)], Allow, (Ask, DecisionSource::Rule(1))),
            (vec![title("*Draft*", Ask)], Deny, (Deny, DecisionSource::Default)),
            (vec![title("*Draft*", Ask), title("*draft*", Deny)], Allow, (Deny, DecisionSource::Rule(2))),
            (vec![title("*Draft*", Ask), title("*DRAFT*", Deny)], Allow, (Deny, DecisionSource::Rule(2))),
            (vec![title("*Draft*", Ask), title("*", Allow)], Deny, (Ask, DecisionSource::Rule(1))),
            (
                vec![title("*Draft*", Ask), title("*", Allow), title("*", Deny)],
                Deny,
                (Ask, DecisionSource::Rule(1)),
            ),
            (vec![always, title("*draft*", Ask)], Allow, (Ask, DecisionSource::Rule(2))),
            (vec![title("*draft*", Ask), title("*", Deny)], Allow, (Ask, DecisionSource::Rule(1))),
        ] {
            let policy = RulePolicy { rules, ..RulePolicy::default() };
            let input = json!({"title": "a draft"});
            let decided = policy.decide(&alice(), &tool("x", RunBy::Server, default), &input);
            assert_eq!((decided.decision, decided.by), expected, "{policy:?}");
        }
    }

    proptest! {
        /// The decision of the rules if each is read exactly as it is written.
        #[test]
        fn folding_never_makes_a_decision_milder(
            rules in prop::collection::vec(
                (prop::sample::select(vec!["*a*", "*B*", "a b", "*", "?"]), 0..3_usize, any::<bool>()), 0..5),
            default in 0..3_usize,
            auto in any::<bool>(),
            text in "[aAbB\u{ff41}\u{ff22}\u{ad} %612]{0,4}",
        ) {
            let decisions = [Decision::Allow, Decision::Ask, Decision::Deny];
            let strictness = |decision| decisions.iter().position(|other| *other == decision);
            let approval = if auto { ApprovalMode::Auto } else { ApprovalMode::Default };
            let rules: Vec<Rule> = rules
                .into_iter()
                .map(|(glob, decision, negated)| {
                    let glob = Matcher::Glob(Pattern::new(glob));
                    let matcher = if negated { Matcher::Not(Box::new(glob)) } else { glob };
                    Rule { input: vec![("t".into(), matcher)], ..Rule::of_every_call(decisions[decision]) }
                })
                .collect();
            let (input, spec) = (json!({ "t": text }), tool("x", RunBy::Server, decisions[default]));
            let matching = rules.iter().find(|rule| match &rule.input[0].1 {
                Matcher::Glob(glob) => glob.matches(&text),
                Matcher::Not(glob) => !glob.matches(&json!(text), Side::Allows),
                _ => unreachable!("there are no others"),
            });
            let mut exact = matching.map_or(decisions[default], |rule| rule.decision);
            if auto && exact == Decision::Ask {
                exact = Decision::Allow;
            }
            let folded = RulePolicy { approval, rules, ..RulePolicy::default() }.decide(&alice(), &spec, &input).decision;
            prop_assert!(strictness(folded) >= strictness(exact), "{folded:?} instead of {exact:?}");
        }
    }

    #[test]
    fn words_decide_unless_the_rule_says_otherwise_and_about_mcp_tools_only_if_it_says_so() {
        for (run_by, words, decides) in [
            (RunBy::Server, None, true),
            (RunBy::Server, Some(false), false),
            (RunBy::Server, Some(true), true),
            (RunBy::Mcp, None, false),
            (RunBy::Mcp, Some(false), false),
            (RunBy::Mcp, Some(true), true),
        ] {
            let terms = ApprovalTerms { words, ..ApprovalTerms::default() };
            let rules = vec![Rule { terms, ..about("x", Decision::Ask) }];
            let policy = RulePolicy { rules, ..RulePolicy::default() };
            let decided = policy.decide(&alice(), &tool("x", run_by, Decision::Allow), &json!({}));
            assert_eq!(decided.terms().take_words(run_by), decides, "{run_by:?} {words:?}");
            let by_default = policy.decide(&alice(), &tool("y", run_by, Decision::Ask), &json!({}));
            assert_eq!(by_default.terms().take_words(run_by), run_by == RunBy::Server, "no rule, {run_by:?}");
        }
    }

    #[test]
    fn a_rule_may_be_about_the_owner() {
        let rule = Rule { owner: Some(Pattern::new("team-*")), ..Rule::of_every_call(Decision::Deny) };
        let write = tool("write_note", RunBy::Server, Decision::Allow);
        assert!(rule.matches(&Owner::new("team-a").into(), &write, &json!({})));
        assert!(!rule.matches(&alice(), &write, &json!({})));
    }

    #[test]
    fn of_a_list_one_element_is_enough_to_deny_and_each_must_match_to_allow() {
        let safe = Matcher::Under(crate::Folder::new("/srv/safe").expect("a folder"));
        let outside = Matcher::Not(Box::new(safe.clone()));
        let matches = |decision, matcher: &Matcher, input: &Value| {
            let rule =
                Rule { input: vec![("paths".into(), matcher.clone())], ..Rule::of_every_call(decision) };
            rule.matches(&alice(), &tool("x", RunBy::Mcp, Decision::Ask), input)
        };
        let (inside, out) = ("/srv/safe/x", "/etc/passwd");
        for (input, allowed, denied, denied_outside) in [
            (json!({"paths": [inside]}), true, true, false),
            (json!({"paths": [inside, out]}), false, true, true),
            (json!({"paths": [out]}), false, false, true),
            (json!({"paths": inside}), true, true, false),
            (json!({"paths": []}), false, false, false),
            (json!({"paths": [inside, []]}), false, true, false),
            (json!({"paths": [[inside], [inside, out]]}), false, true, true),
            (json!({"paths": [inside, null]}), false, true, true),
            (json!({"paths": [inside, {"path": inside}]}), false, true, true),
            (json!({}), false, false, false),
        ] {
            assert_eq!(matches(Decision::Allow, &safe, &input), allowed, "allow {input}");
            assert_eq!(matches(Decision::Deny, &safe, &input), denied, "deny {input}");
            assert_eq!(matches(Decision::Ask, &safe, &input), denied, "ask {input}");
            assert_eq!(matches(Decision::Deny, &outside, &input), denied_outside, "deny not {input}");
        }
        let elements = json!({"files": [{"path": inside}, {"name": out}]});
        let rule = Rule { input: vec![("files.path".into(), safe)], ..Rule::of_every_call(Decision::Allow) };
        assert!(!rule.matches(&alice(), &tool("x", RunBy::Mcp, Decision::Ask), &elements), "one has no path");
    }

    #[test]
    fn always_answers_a_default_and_a_rule_that_says_so() {
        let ask = |tool: &str, always| {
            let terms = ApprovalTerms { always, ..ApprovalTerms::default() };
            Rule { terms, ..about(tool, Decision::Ask) }
        };
        let policy = RulePolicy { rules: vec![ask("a", false), ask("b", true)], ..RulePolicy::default() };
        for (name, is_honored) in [("a", false), ("b", true), ("c", true)] {
            let decided = policy.decide(&alice(), &tool(name, RunBy::Server, Decision::Ask), &json!({}));
            assert_eq!(decided.honors_grants(), is_honored, "{name}");
        }
        let chained = PolicyDecision::new(Decision::Ask, DecisionSource::Chain);
        assert!(!chained.honors_grants());
    }

    #[test]
    fn a_condition_reports_the_value_that_decided_it() {
        let safe = Matcher::Under(crate::Folder::new("/srv/safe").expect("a folder"));
        let rule = Rule {
            tool: Some(Pattern::new("read_*")),
            input: vec![("paths".into(), safe), ("n".into(), Matcher::Literal("1".into()))],
            ..Rule::of_every_call(Decision::Allow)
        };
        let conditions = rule.conditions(
            &alice(),
            &tool("read_file", RunBy::Mcp, Decision::Ask),
            &json!({"paths": ["/srv/safe/x", "/etc/passwd"]}),
        );
        let reported: Vec<_> = conditions
            .iter()
            .map(|met| (met.about.as_str(), met.wants.as_str(), met.is_met, met.value.as_deref()))
            .collect();
        assert_eq!(
            reported,
            [
                ("tool", "\"read_*\"", true, Some("\"read_file\"")),
                ("paths", "{ under = \"/srv/safe\" }", false, Some("\"/etc/passwd\"")),
                ("n", "1", false, None),
            ]
        );
    }
}
