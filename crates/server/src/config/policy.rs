//! `[[policy]]`: the rules about calls.

use std::{borrow::Cow, collections::BTreeMap, fmt, num::NonZeroU32};

use fermata_tools::{
    ApprovalTerms, Approver, Decimal, Decision, Escalation, Folder, HostPattern, Matcher, Pattern, Program,
    Rule, RunBy, TextRegex,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    fault::{Fault, nearest},
    values::{NonEmpty, NonZeroDuration},
    written::Written,
};

/// A rule and the place where it stands.
#[derive(Clone)]
pub struct WrittenRule {
    /// The rule. Its texts may be secrets of the environment.
    pub rule: Rule,
    /// The rule as it is written in the file.
    pub written: Written,
}

/// A rule as a table of the file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Rule")]
pub(super) struct RuleTable {
    /// The tools, as a glob over the name. If this is left out, the rule is about all tools.
    tool: Option<NonEmpty>,
    /// The side that runs the tools.
    from: Option<RunBy>,
    /// The owners of the chats, as a glob.
    owner: Option<NonEmpty>,
    /// Conditions on the input, by the path of a field. All of them must be met.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Field>")]
    input: Fields,
    /// The decision about calls that match.
    decision: Decision,
    /// The reason for the decision, which the model and the person read.
    reason: Option<NonEmpty>,
    /// A person's "always" answers this rule if it asks.
    #[serde(default)]
    always: bool,
    /// A message such as "yes" may decide about calls that need approval. The default is true if the requester decides alone, but false for
    /// tools of MCP servers.
    words: Option<bool>,
    /// A group of the requester, as a glob.
    group: Option<NonEmpty>,
    /// Those who may decide: `requester` (the default), `user:…`, `group:…` (both as globs), or `channel:…` for a service that decides.
    #[schemars(with = "Option<Vec<String>>")]
    by: Option<Vec<Approver>>,
    /// The number of different people who have to approve. The default is 1.
    quorum: Option<NonZeroU32>,
    /// The requester may not decide, even as a member of a group.
    #[serde(default)]
    not_requester: bool,
    /// How long a call waits before it expires. The default is the setting `expire`.
    expire: Option<NonZeroDuration>,
    /// How long an approval is valid if the call does not start. After that, the call needs approval again.
    valid_for: Option<NonZeroDuration>,
    /// The channels that bring the approval to people, by name.
    #[serde(default)]
    notify: Vec<NonEmpty>,
    /// The channels get a reminder after this time.
    remind: Option<NonZeroDuration>,
    /// The parties that are added if nobody decides in time.
    escalate: Option<EscalationTable>,
}

/// The parties that are added if nobody decides in time.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Escalation")]
struct EscalationTable {
    /// How long the call has to wait.
    after: NonZeroDuration,
    /// Those who may decide from then on, as in `by` of the rule.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    by: Vec<Approver>,
    /// The channels that bring the approval to them.
    #[serde(default)]
    notify: Vec<NonEmpty>,
}

/// The conditions of a rule, in the order they are written.
#[derive(Default)]
struct Fields(Vec<(String, Matcher)>);

struct FieldsVisitor;

/// A condition on one field: a glob, a number, `true`, `false`, or a table of matchers.
struct Field(Matcher);

struct FieldVisitor;

/// Matchers of a field. If there are several, all of them must match.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Matcher")]
struct MatcherTable {
    /// The absolute path of a folder: the field is a path in it.
    under: Option<String>,
    /// The field is a URL with this host; `*.example.com` is every host below example.com.
    host: Option<String>,
    /// The field is a command line of a POSIX shell that is one plain command of this program, compared with its first word exactly. Lines
    /// with operators, substitutions, redirections, patterns or assignments match only rules that deny or ask.
    program: Option<String>,
    /// The first arguments of `program`.
    args: Option<Vec<String>>,
    /// At least one of these matches.
    one_of: Option<Vec<Field>>,
    /// The field is a number, and at least this.
    #[schemars(with = "Option<f64>")]
    min: Option<Number>,
    /// The field is a number, and at most this.
    #[schemars(with = "Option<f64>")]
    max: Option<Number>,
    /// A match of this regular expression is in the field.
    regex: Option<String>,
    /// This does not match.
    not: Option<Box<Field>>,
}

/// The keys of a [`MatcherTable`]. Fields of an input that have these names are written in quotes.
const MATCHERS: [&str; 9] = ["under", "host", "program", "args", "one_of", "min", "max", "regex", "not"];

/// A bound.
#[derive(Deserialize)]
#[serde(untagged, expecting = "must be a number")]
enum Number {
    Integer(i128),
    Float(f64),
}

// === impl WrittenRule ===

impl WrittenRule {
    /// Returns warnings about conditions that probably allow more than they are meant to, each with its place.
    pub fn warnings(&self) -> Vec<String> {
        let Rule { input, decision, .. } = &self.rule;
        let risky = input.iter().filter_map(|(path, matcher)| Some((path, risk(path, matcher, *decision)?)));
        risky.map(|(path, risk)| format!("{}: {path}: {risk}", self.written.place)).collect()
    }
}

impl fmt::Debug for WrittenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written.fmt(f)
    }
}

/// Returns the reason why a condition is too weak for the decision of its rule, if it is.
fn risk(path: &str, matcher: &Matcher, decision: Decision) -> Option<String> {
    match matcher {
        Matcher::Glob(glob) => {
            let glob = glob.to_string();
            if !glob.contains(['*', '?']) {
                None
            } else if looks_like_command(path) {
                risk_of_command(&glob, decision)
            } else if decision != Decision::Allow {
                None
            } else if looks_like_url(path, &glob) {
                Some(format!(
                    "the glob {glob:?} also allows other hosts, such as https://docs.example.com.evil.com for https://docs.example.com*; use \
                     {{ host = \"docs.example.com\" }}"
                ))
            } else if looks_like_path(path, &glob) {
                Some(format!(
                    "the glob {glob:?} also allows paths that lead out with \"..\"; use {{ under = \"/srv/safe\" }}"
                ))
            } else {
                None
            }
        }
        Matcher::OneOf(matchers) | Matcher::All(matchers) => {
            matchers.iter().find_map(|matcher| risk(path, matcher, decision))
        }
        Matcher::Not(_) if decision == Decision::Allow => Some(
            "it allows everything but what it names, and something may be forgotten; name what is allowed instead".into(),
        ),
        // What such a rule leaves out is allowed.
        Matcher::Not(matcher) => risk(path, matcher, Decision::Allow),
        Matcher::Literal(_)
        | Matcher::Under(_)
        | Matcher::Host(_)
        | Matcher::Program(_)
        | Matcher::Between { .. }
        | Matcher::Regex(_) => None,
    }
}

/// Returns the reason why a glob is too weak for a command line.
fn risk_of_command(glob: &str, decision: Decision) -> Option<String> {
    // A glob of nothing but stars is about every line, and is meant so.
    if !glob.contains('*') || glob.trim_matches('*').is_empty() {
        return None;
    }
    let matcher = match program_in(glob) {
        Some(program) => format!("{{ {program} }}"),
        None => "a matcher such as { program = \"git\" }".to_owned(),
    };
    Some(match decision {
        Decision::Allow => {
            let line = glob.replacen('*', "x; rm -rf /", 1).replace('*', "").replace('?', "x");
            format!(
                "the glob {glob:?} also allows other commands, such as {line}; use {matcher}, which is about one plain command"
            )
        }
        Decision::Ask | Decision::Deny => format!(
            "the glob {glob:?} misses other spellings of a command, such as r''m for rm; use {matcher}, which also matches every line that is \
             not one plain command"
        ),
    })
}

/// Returns the program that a glob over a command line begins with, and its first arguments.
fn program_in(glob: &str) -> Option<Program> {
    let before = glob.split(['*', '?']).next().unwrap_or_default();
    let mut words: Vec<String> = before.split_whitespace().map(str::to_owned).collect();
    // A word that goes on in the wildcard is probably whole if it has nothing but letters, as in `git status*`.
    words.pop_if(|word| !before.ends_with(' ') && !word.chars().all(char::is_alphabetic));
    let (name, args) = words.split_first()?;
    Program::new(name, args.to_vec()).ok()
}

fn looks_like_command(path: &str) -> bool {
    let name = path.rsplit('.').next().unwrap_or(path).to_ascii_lowercase();
    ends_with_word(path, &["command", "commandline", "cmd", "cmdline", "shell", "bash"])
        || matches!(name.as_str(), "script" | "scripts" | "sh")
}

fn looks_like_url(path: &str, glob: &str) -> bool {
    glob.contains("://") || ends_with_word(path, &["url", "uri", "href", "link", "host", "endpoint"])
}

fn looks_like_path(path: &str, glob: &str) -> bool {
    glob.contains(['/', '\\'])
        || ends_with_word(path, &["path", "file", "filename", "dir", "directory", "folder"])
}

/// Returns whether one of the words in the last name of a path ends with one of these words, in the singular or the plural.
fn ends_with_word(path: &str, wanted: &[&str]) -> bool {
    let name = path.rsplit('.').next().unwrap_or(path).to_ascii_lowercase();
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| {
        wanted.iter().any(|wanted| {
            word.ends_with(wanted) || word.strip_suffix('s').is_some_and(|word| word.ends_with(wanted))
        })
    })
}

// === impl RuleTable ===

impl TryFrom<RuleTable> for Rule {
    type Error = (&'static str, String);

    /// # Errors
    /// Returns the key that is wrong, and the reason.
    fn try_from(table: RuleTable) -> Result<Self, Self::Error> {
        let RuleTable { tool, from, owner, group, input: Fields(input), decision, reason, .. } = &table;
        let RuleTable { always, words, by, quorum, not_requester, expire, valid_for, .. } = &table;
        let RuleTable { notify, remind, escalate, .. } = &table;
        if by.as_ref().is_some_and(Vec::is_empty) {
            return Err(("by", "names nobody; leave it out if the requester decides".into()));
        }
        let of_asking = [
            ("by", by.is_some()),
            ("quorum", quorum.is_some()),
            ("not_requester", *not_requester),
            ("expire", expire.is_some()),
            ("valid_for", valid_for.is_some()),
            ("notify", !notify.is_empty()),
            ("remind", remind.is_some()),
            ("escalate", escalate.is_some()),
        ];
        if *decision != Decision::Ask
            && let Some((key, _)) = of_asking.into_iter().find(|(_, is_set)| *is_set)
        {
            return Err((key, "is only for a rule with decision = \"ask\"".into()));
        }
        let pattern = |NonEmpty(glob): &NonEmpty| Pattern::new(glob);
        let names = |names: &[NonEmpty]| names.iter().map(|name| name.0.clone()).collect();
        let terms = ApprovalTerms {
            by: by.clone().unwrap_or_else(|| vec![Approver::Requester]),
            quorum: quorum.map_or(1, NonZeroU32::get),
            not_requester: *not_requester,
            words: *words,
            always: *always,
            expire: expire.map(|time| time.0),
            valid_for: valid_for.map(|time| time.0),
            notify: names(notify),
            remind: remind.map(|time| time.0),
            escalate: escalate.as_ref().map(|escalation| Escalation {
                after: escalation.after.0,
                by: escalation.by.clone(),
                notify: names(&escalation.notify),
            }),
        };
        Ok(Self {
            tool: tool.as_ref().map(pattern),
            from: *from,
            owner: owner.as_ref().map(pattern),
            group: group.as_ref().map(pattern),
            input: input.clone(),
            decision: *decision,
            reason: reason.as_ref().map(|NonEmpty(reason)| reason.clone()),
            terms,
        })
    }
}

/// Rewrites the tables that dots in a key have made, such as `input.to.name = "b*"`, to keys that are paths, `"to.name" = "b*"`, so
/// that every table left in `input` is a table of matchers.
pub(super) fn join_paths<'i>(rule: &mut DeTable<'i>) -> Result<(), Fault> {
    let input = rule.iter_mut().find(|(key, _)| key.get_ref() == "input");
    let Some(DeValue::Table(input)) = input.map(|(_, value)| value.get_mut()) else { return Ok(()) };
    let mut fields = DeTable::new();
    let mut queue: Vec<_> = std::mem::take(input).into_iter().rev().collect();
    while let Some((key, value)) = queue.pop() {
        let (key_span, value_span) = (key.span(), value.span());
        match value.into_inner() {
            DeValue::Table(table) if !has_matcher(&table) => {
                let path = key.get_ref();
                // The span of a table that dots have made is that of its key, and a table in braces begins behind its key.
                if value_span.start == key_span.start {
                    let joined = table.into_iter().map(|(name, value)| {
                        (Spanned::new(name.span(), format!("{path}.{}", name.get_ref()).into()), value)
                    });
                    queue.extend(joined.rev());
                } else if let Some(name) = first_stranger(&table) {
                    let matchers = MATCHERS.join(", ");
                    let reason = format!(
                        "{path}: unknown key {name}; a matcher is one of {matchers}, and a field in a field is written with dots, as \
                         \"{path}.{name}\""
                    );
                    return Err(Fault { at: value_span.start, reason });
                } else {
                    fields.insert(key, Spanned::new(value_span, DeValue::Table(table)));
                }
            }
            value => {
                fields.insert(key, Spanned::new(value_span, value));
            }
        }
    }
    *input = fields;
    Ok(())
}

fn has_matcher(table: &DeTable<'_>) -> bool {
    // `args` says nothing without `program`.
    table.keys().map(|key| key.get_ref().as_ref()).any(|key| key != "args" && MATCHERS.contains(&key))
}

/// Returns the first key that is not even similar to the name of a matcher.
fn first_stranger<'t>(table: &'t DeTable<'_>) -> Option<&'t str> {
    table.keys().map(|key| key.get_ref().as_ref()).find(|name| nearest(name, &MATCHERS).is_none())
}

// === impl Fields ===

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Fields, A::Error> {
        let mut fields = Vec::new();
        while let Some((path, Field(matcher))) = entries.next_entry()? {
            fields.push((path, matcher));
        }
        if fields.is_empty() { Err(A::Error::custom("names no field")) } else { Ok(Fields(fields)) }
    }
}

// === impl Field ===

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor)
    }
}

impl JsonSchema for Field {
    fn schema_name() -> Cow<'static, str> {
        "Field".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let matcher = generator.subschema_for::<MatcherTable>();
        json_schema!({"anyOf": [{"type": ["string", "number", "boolean"]}, matcher]})
    }
}

impl<'de> Visitor<'de> for FieldVisitor {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a glob in quotes, a number, true, false, or a matcher")
    }

    fn visit_str<E>(self, glob: &str) -> Result<Field, E> {
        Ok(Field(Matcher::Glob(Pattern::new(glob))))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Field, E> {
        Ok(Field(Matcher::Literal(truth.to_string())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Field, E> {
        Ok(Field(Matcher::Literal(number.to_string())))
    }

    fn visit_i128<E>(self, number: i128) -> Result<Field, E> {
        Ok(Field(Matcher::Literal(number.to_string())))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Field, E> {
        match serde_json::Number::from_f64(number) {
            Some(number) => Ok(Field(Matcher::Literal(number.to_string()))),
            None => Err(E::custom("must be a finite number")),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Field, A::Error> {
        let table = MatcherTable::deserialize(MapAccessDeserializer::new(entries))?;
        table.matcher().map(Field).map_err(A::Error::custom)
    }
}

// === impl MatcherTable ===

impl MatcherTable {
    fn matcher(self) -> Result<Matcher, String> {
        let Self { under, host, program, args, one_of, min, max, regex, not } = self;
        let mut matchers = Vec::new();
        if let Some(folder) = under {
            matchers.push(Matcher::Under(Folder::new(&folder).map_err(|fault| format!("under: {fault}"))?));
        }
        if let Some(host) = host {
            matchers.push(Matcher::Host(HostPattern::new(&host).map_err(|fault| format!("host: {fault}"))?));
        }
        match (program, args) {
            (Some(program), args) => {
                let program = Program::new(&program, args.unwrap_or_default());
                matchers.push(Matcher::Program(program.map_err(|fault| format!("program: {fault}"))?));
            }
            (None, Some(_)) => {
                return Err("args: there is no program that gets them; name one with program".into());
            }
            (None, None) => {}
        }
        if let Some(regex) = regex {
            matchers.push(Matcher::Regex(TextRegex::new(&regex).map_err(|fault| format!("regex: {fault}"))?));
        }
        match one_of {
            Some(fields) if fields.is_empty() => return Err("one_of: must not be empty".into()),
            Some(fields) => {
                matchers.push(Matcher::OneOf(fields.into_iter().map(|Field(field)| field).collect()))
            }
            None => {}
        }
        if let Some(field) = not {
            matchers.push(Matcher::Not(Box::new(field.0)));
        }
        let (min, max) = (min.map(Decimal::try_from).transpose()?, max.map(Decimal::try_from).transpose()?);
        if let (Some(min), Some(max)) = (&min, &max)
            && min > max
        {
            return Err("min is above max, so that no number could match".into());
        }
        if min.is_some() || max.is_some() {
            matchers.push(Matcher::Between { min, max });
        }
        match matchers.len() {
            0 => Err(
                "says nothing about the field; write a glob, or a matcher such as { under = \"/srv/safe\" }"
                    .into(),
            ),
            1 => Ok(matchers.remove(0)),
            _ => Ok(Matcher::All(matchers)),
        }
    }
}

impl TryFrom<Number> for Decimal {
    type Error = &'static str;

    fn try_from(number: Number) -> Result<Self, Self::Error> {
        let text = match number {
            Number::Integer(number) => number.to_string(),
            Number::Float(number) => number.to_string(),
        };
        Self::parse(&text).ok_or("must be a finite number")
    }
}
