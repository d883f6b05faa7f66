//! Rules that an operator wrote: the first that matches a call decides about it.
//!
//! Where they are written down is not known here. Invariant: whatever the approval mode, what a rule denies stays denied.

use serde_json::Value;

use super::{ApprovalMode, Decision, DefaultPolicy, Policy, RuledBy, Ruling};
use crate::{Pattern, RunBy, ToolSpec, field};

/// What is to happen to the calls that meet all of its conditions. A condition that is left out is met by every call.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// What the tool's name must look like.
    pub tool: Option<Pattern>,
    /// Who must be the one to run it.
    pub from: Option<RunBy>,
    /// What fields of the input must look like, each by its path; `a.b` is the field `b` of the field `a`.
    pub input: Vec<(String, Pattern)>,
    /// What is to happen.
    pub decision: Decision,
    /// Why, in words for the model and the person.
    pub reason: Option<String>,
}

/// Rules in the order in which they are asked. Where none matches, the tool's own default counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RulePolicy {
    /// Whether people are asked.
    pub approval: ApprovalMode,
    /// The rules.
    pub rules: Vec<Rule>,
}

// === impl Rule ===

impl Rule {
    /// Whether it is about a call of this tool with this input.
    ///
    /// A field that is missing meets no condition; of a list, one element that does is enough.
    pub fn matches(&self, tool: &ToolSpec, input: &Value) -> bool {
        let looks_so = |(path, pattern): &(String, Pattern)| {
            field::texts(input, path).iter().any(|text| pattern.matches(text))
        };
        self.tool.as_ref().is_none_or(|pattern| pattern.matches(&tool.name))
            && self.from.is_none_or(|from| from == tool.run_by)
            && self.input.iter().all(looks_so)
    }
}

// === impl RulePolicy ===

impl Policy for RulePolicy {
    fn rule(&self, tool: &ToolSpec, input: &Value) -> Ruling {
        let decided = self.rules.iter().enumerate().find(|(_, rule)| rule.matches(tool, input));
        let ruling = match decided {
            Some((place, rule)) => {
                Ruling { decision: rule.decision, reason: rule.reason.clone(), by: RuledBy::Rule(place + 1) }
            }
            None => DefaultPolicy.rule(tool, input),
        };
        if self.approval == ApprovalMode::Auto && ruling.decision == Decision::Ask {
            // The reason said why a person should look, and nobody does.
            return Ruling { decision: Decision::Allow, reason: None, by: RuledBy::Auto };
        }
        ruling
    }

    fn approval(&self) -> ApprovalMode {
        self.approval
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
            policy,
            resource: None,
            timeout: None,
            repeatable: false,
        }
    }

    fn any(decision: Decision) -> Rule {
        Rule { tool: None, from: None, input: vec![], decision, reason: None }
    }

    fn about(tool: &str, decision: Decision) -> Rule {
        Rule { tool: Some(Pattern::new(tool)), ..any(decision) }
    }

    fn where_input(fields: &[(&str, &str)]) -> Rule {
        let input = fields.iter().map(|(path, glob)| ((*path).to_owned(), Pattern::new(glob))).collect();
        Rule { input, ..any(Decision::Deny) }
    }

    fn ruling(rules: Vec<Rule>, tool: &ToolSpec) -> (Decision, RuledBy) {
        let ruling = RulePolicy { approval: ApprovalMode::Default, rules }.rule(tool, &json!({}));
        (ruling.decision, ruling.by)
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        use Decision::{Allow, Ask, Deny};
        let write = tool("write_note", RunBy::Server, Ask);
        for (rules, expected) in [
            (vec![], (Ask, RuledBy::Default)),
            (vec![about("read_*", Deny)], (Ask, RuledBy::Default)),
            (vec![about("write_*", Deny)], (Deny, RuledBy::Rule(1))),
            (vec![about("read_*", Deny), about("*note", Allow)], (Allow, RuledBy::Rule(2))),
            (vec![any(Allow), about("write_note", Deny)], (Allow, RuledBy::Rule(1))),
            (vec![about("write_note", Deny), any(Allow)], (Deny, RuledBy::Rule(1))),
            (vec![about("Write_note", Deny), about("write", Deny)], (Ask, RuledBy::Default)),
        ] {
            assert_eq!(ruling(rules.clone(), &write), expected, "{rules:?}");
        }
    }

    #[test]
    fn a_rule_may_be_about_who_runs_the_tool() {
        let from = |from| Rule { from: Some(from), ..any(Decision::Deny) };
        let all = [RunBy::Server, RunBy::Mcp, RunBy::Browser];
        for (rule, runs) in all.iter().flat_map(|rule| all.iter().map(move |runs| (*rule, *runs))) {
            let matched = ruling(vec![from(rule)], &tool("x", runs, Decision::Allow)).0 == Decision::Deny;
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
        assert!(rule.matches(&write, &input));
        assert!(!rule.matches(&tool("read_note", RunBy::Server, Decision::Allow), &input));
        assert!(!rule.matches(&tool("write_note", RunBy::Mcp, Decision::Allow), &input));
        assert!(!rule.matches(&write, &json!({"title": "a secret"})));
        assert!(!rule.matches(&write, &json!({"title": "milk", "to": {"name": "bob"}})));
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
            ("n", "5.0", false),
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
            let matched = rule.matches(&tool("x", RunBy::Server, Decision::Allow), &input);
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
            ("delete_note", Decision::Allow, Decision::Deny, Some("No."), RuledBy::Rule(1)),
            ("write_note", Decision::Deny, Decision::Allow, None, RuledBy::Auto),
            ("read_note", Decision::Ask, Decision::Allow, None, RuledBy::Rule(3)),
            ("other", Decision::Ask, Decision::Allow, None, RuledBy::Auto),
            ("other", Decision::Allow, Decision::Allow, None, RuledBy::Default),
            ("other", Decision::Deny, Decision::Deny, None, RuledBy::Default),
        ] {
            let ruling = policy.rule(&tool(name, RunBy::Server, default), &json!({}));
            assert_eq!(ruling, Ruling { decision, reason: reason.map(Into::into), by }, "{name} {default:?}");
        }
    }
}
