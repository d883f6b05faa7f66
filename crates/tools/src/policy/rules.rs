//! Rules that an operator wrote: the first that matches a call decides about it.
//!
//! Where they are written down is not known here. Invariant: whatever the approval mode, what a rule denies stays denied.

use serde_json::Value;

use super::{ApprovalMode, Decision, DecisionSource, DefaultPolicy, Policy, PolicyDecision};
use crate::{Matcher, Owner, Pattern, RunBy, Side, ToolSpec, field};

/// What is to happen to the calls that meet all of its conditions. A condition that is left out is met by every call.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// What the tool's name must look like.
    pub tool: Option<Pattern>,
    /// Who must be the one to run it.
    pub from: Option<RunBy>,
    /// What the name of the chat's owner must look like.
    pub owner: Option<Pattern>,
    /// What fields of the input must be like, each by its path; `a.b` is the field `b` of the field `a`.
    pub input: Vec<(String, Matcher)>,
    /// What is to happen.
    pub decision: Decision,
    /// Why, in words for the model and the person.
    pub reason: Option<String>,
    /// Whether a person's "always" answers a rule that asks.
    pub always: bool,
}

/// Rules in the order in which they are asked. If none matches, the tool's own default counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RulePolicy {
    /// Whether people are asked.
    pub approval: ApprovalMode,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// A condition of a rule, as it turned out for one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What it is about: `tool`, `from`, `owner`, or a path in the input.
    pub about: String,
    /// What it wants, as a rule is written.
    pub wants: String,
    /// Whether the call meets it.
    pub is_met: bool,
    /// The value that decided it, as JSON; `None` if there is none.
    pub value: Option<String>,
}

// === impl Rule ===

impl Rule {
    /// A rule without conditions.
    pub fn of_every_call(decision: Decision) -> Self {
        Self { tool: None, from: None, owner: None, input: Vec::new(), decision, reason: None, always: false }
    }

    /// Whether it is about a call of this tool with this input in a chat of this owner.
    ///
    /// A field that is missing meets no condition. Of a list, one element that matches is enough to deny or to ask; to allow, each must.
    pub fn matches(&self, owner: &Owner, tool: &ToolSpec, input: &Value) -> bool {
        let side = Side::of(self.decision);
        self.tool.as_ref().is_none_or(|pattern| pattern.matches(&tool.name))
            && self.from.is_none_or(|from| from == tool.run_by)
            && self.owner.as_ref().is_none_or(|pattern| pattern.matches(owner.as_str()))
            && self.input.iter().all(|(path, matcher)| decide(path, matcher, input, side).0)
    }

    /// Its conditions, as they turn out for a call.
    pub fn conditions(&self, owner: &Owner, tool: &ToolSpec, input: &Value) -> Vec<Condition> {
        let named = |about: &str, pattern: &Option<Pattern>, name: &str| {
            pattern.as_ref().map(|pattern| Condition {
                about: about.into(),
                wants: format!("{:?}", pattern.to_string()),
                is_met: pattern.matches(name),
                value: Some(Value::from(name).to_string()),
            })
        };
        let from = self.from.map(|from| Condition {
            about: "from".into(),
            wants: format!("{:?}", from.name()),
            is_met: from == tool.run_by,
            value: Some(Value::from(tool.run_by.name()).to_string()),
        });
        let side = Side::of(self.decision);
        let fields = self.input.iter().map(|(path, matcher)| {
            let (is_met, value) = decide(path, matcher, input, side);
            let value = value.map(Value::to_string);
            Condition { about: path.clone(), wants: matcher.to_string(), is_met, value }
        });
        let about_call =
            [named("tool", &self.tool, &tool.name), from, named("owner", &self.owner, owner.as_str())];
        about_call.into_iter().flatten().chain(fields).collect()
    }
}

/// Whether the values at a path are as a matcher wants them, and the value that decides it.
fn decide<'a>(path: &str, matcher: &Matcher, input: &'a Value, side: Side) -> (bool, Option<&'a Value>) {
    let values = field::values(input, path);
    let first = values.first().copied().flatten();
    let fits = |value: &Option<&Value>| value.is_some_and(|value| matcher.matches(value, side));
    match side {
        Side::Restricts => match values.iter().find(|value| fits(value)) {
            Some(value) => (true, *value),
            None => (false, first),
        },
        Side::Allows => match values.iter().find(|value| !fits(value)) {
            Some(value) => (false, *value),
            None => (!values.is_empty(), first),
        },
    }
}

// === impl RulePolicy ===

impl Policy for RulePolicy {
    fn decide(&self, owner: &Owner, tool: &ToolSpec, input: &Value) -> PolicyDecision {
        let decided = self.rules.iter().enumerate().find(|(_, rule)| rule.matches(owner, tool, input));
        let policy_decision = match decided {
            Some((place, rule)) => PolicyDecision {
                decision: rule.decision,
                reason: rule.reason.clone(),
                by: DecisionSource::Rule(place + 1),
            },
            None => DefaultPolicy.decide(owner, tool, input),
        };
        if self.approval == ApprovalMode::Auto && policy_decision.decision == Decision::Ask {
            // The reason said why a person should look, and nobody does.
            return PolicyDecision { decision: Decision::Allow, reason: None, by: DecisionSource::Auto };
        }
        policy_decision
    }

    fn approval(&self) -> ApprovalMode {
        self.approval
    }

    fn honors_grants(&self, policy_decision: &PolicyDecision) -> bool {
        match policy_decision.by {
            DecisionSource::Default => true,
            DecisionSource::Rule(number) => {
                number.checked_sub(1).and_then(|place| self.rules.get(place)).is_some_and(|rule| rule.always)
            }
            DecisionSource::Auto | DecisionSource::Chain | DecisionSource::Always => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, run_by: RunBy, policy: Decision) -> ToolSpec {
        ToolSpec {
            name: name.into(),
            description: String::new(),
            input_schema: json!({"type": "object"}),
            run_by,
            server: None,
            policy,
            resource: None,
            timeout: None,
            repeatable: false,
        }
    }

    fn any(decision: Decision) -> Rule {
        Rule::of_every_call(decision)
    }

    fn alice() -> Owner {
        Owner::new("alice")
    }

    fn about(tool: &str, decision: Decision) -> Rule {
        Rule { tool: Some(Pattern::new(tool)), ..any(decision) }
    }

    fn where_input(fields: &[(&str, &str)]) -> Rule {
        let glob = |glob: &str| Matcher::Glob(Pattern::new(glob));
        let input = fields.iter().map(|(path, text)| ((*path).to_owned(), glob(text))).collect();
        Rule { input, ..any(Decision::Deny) }
    }

    fn policy_decision(rules: Vec<Rule>, tool: &ToolSpec) -> (Decision, DecisionSource) {
        let policy_decision =
            RulePolicy { approval: ApprovalMode::Default, rules }.decide(&alice(), tool, &json!({}));
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
            (vec![any(Allow), about("write_note", Deny)], (Allow, DecisionSource::Rule(1))),
            (vec![about("write_note", Deny), any(Allow)], (Deny, DecisionSource::Rule(1))),
            (vec![about("Write_note", Deny), about("write", Deny)], (Ask, DecisionSource::Default)),
        ] {
            assert_eq!(policy_decision(rules.clone(), &write), expected, "{rules:?}");
        }
    }

    #[test]
    fn a_rule_may_be_about_who_runs_the_tool() {
        let from = |from| Rule { from: Some(from), ..any(Decision::Deny) };
        let all = [RunBy::Server, RunBy::Mcp, RunBy::Browser];
        for (rule, runs) in all.iter().flat_map(|rule| all.iter().map(move |runs| (*rule, *runs))) {
            let matched =
                policy_decision(vec![from(rule)], &tool("x", runs, Decision::Allow)).0 == Decision::Deny;
            assert_eq!(matched, rule == runs, "a rule about {rule:?}, a tool of {runs:?}");
        }
    }

    #[test]
    fn all_conditions_must_be_met() {
        let rule = Rule {
            tool: Some(Pattern::new("write_*")),
            from: Some(RunBy::Server),
            ..where_input(&[("title", "*secret*"), ("to.name", "bob")])
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
            ("title", "*Secret*", false),
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
            let rule = where_input(&[(path, glob)]);
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
        let policy = RulePolicy { approval: ApprovalMode::Auto, rules };
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
                PolicyDecision { decision, reason: reason.map(Into::into), by },
                "{name} {default:?}"
            );
        }
    }

    #[test]
    fn a_rule_may_be_about_the_owner() {
        let rule = Rule { owner: Some(Pattern::new("team-*")), ..any(Decision::Deny) };
        let write = tool("write_note", RunBy::Server, Decision::Allow);
        assert!(rule.matches(&Owner::new("team-a"), &write, &json!({})));
        assert!(!rule.matches(&alice(), &write, &json!({})));
    }

    #[test]
    fn of_a_list_one_element_is_enough_to_deny_and_each_must_match_to_allow() {
        let safe = Matcher::Under(crate::Folder::new("/srv/safe").expect("a folder"));
        let outside = Matcher::Not(Box::new(safe.clone()));
        let matches = |decision, matcher: &Matcher, input: &Value| {
            let rule = Rule { input: vec![("paths".into(), matcher.clone())], ..any(decision) };
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
        let rule = Rule { input: vec![("files.path".into(), safe)], ..any(Decision::Allow) };
        assert!(!rule.matches(&alice(), &tool("x", RunBy::Mcp, Decision::Ask), &elements), "one has no path");
    }

    #[test]
    fn always_answers_a_default_and_a_rule_that_says_so() {
        let ask = |always| Rule { always, ..any(Decision::Ask) };
        let policy = RulePolicy { approval: ApprovalMode::Default, rules: vec![ask(false), ask(true)] };
        let by = |by| PolicyDecision { decision: Decision::Ask, reason: None, by };
        for (ruled_by, heeds) in [
            (DecisionSource::Default, true),
            (DecisionSource::Rule(1), false),
            (DecisionSource::Rule(2), true),
            (DecisionSource::Rule(3), false),
            (DecisionSource::Rule(0), false),
            (DecisionSource::Chain, false),
        ] {
            assert_eq!(policy.honors_grants(&by(ruled_by)), heeds, "{ruled_by:?}");
        }
    }

    #[test]
    fn a_condition_tells_the_value_that_decided_it() {
        let safe = Matcher::Under(crate::Folder::new("/srv/safe").expect("a folder"));
        let rule = Rule {
            tool: Some(Pattern::new("read_*")),
            input: vec![("paths".into(), safe), ("n".into(), Matcher::Literal("1".into()))],
            ..any(Decision::Allow)
        };
        let conditions = rule.conditions(
            &alice(),
            &tool("read_file", RunBy::Mcp, Decision::Ask),
            &json!({"paths": ["/srv/safe/x", "/etc/passwd"]}),
        );
        let told: Vec<_> = conditions
            .iter()
            .map(|met| (met.about.as_str(), met.wants.as_str(), met.is_met, met.value.as_deref()))
            .collect();
        assert_eq!(
            told,
            [
                ("tool", "\"read_*\"", true, Some("\"read_file\"")),
                ("paths", "{ under = \"/srv/safe\" }", false, Some("\"/etc/passwd\"")),
                ("n", "1", false, None),
            ]
        );
    }
}
