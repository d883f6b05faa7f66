//! What a rule asks of a field of the input.
//!
//! A matcher is asked on behalf of a [`Side`]: what is to be allowed has to match for certain, whatever else reads the value, and what is to
//! be denied or asked about matches already when some reader could take the value so. Nothing here is slow for any input: patterns are linear.

use std::{borrow::Cow, fmt};

use serde_json::Value;

pub use self::{
    host::{HostName, HostPattern},
    number::Decimal,
    path::Folder,
};
use crate::{Decision, Pattern};

mod host;
mod number;
mod path;
#[cfg(test)]
mod properties;

/// What a match is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// To allow: of several values every one must match, and there must be one.
    Allows,
    /// To deny or to ask: one value that matches is enough.
    Restricts,
}

/// What a value must be like.
#[derive(Clone, Debug, PartialEq)]
pub enum Matcher {
    /// A glob over the value as text: a string as it is, anything else as its JSON.
    Glob(Pattern),
    /// Equal to a number by value, or `true`, `false` or a text word for word.
    Literal(String),
    /// An absolute path in this folder, or the folder itself.
    Under(Folder),
    /// A URL of this host.
    Host(HostPattern),
    /// A number that is not below and not above these.
    Between {
        /// The least.
        min: Option<Decimal>,
        /// The greatest.
        max: Option<Decimal>,
    },
    /// A regular expression that is found somewhere in the value as text.
    Regex(TextRegex),
    /// As one of these wants it.
    OneOf(Vec<Matcher>),
    /// As all of these want it.
    All(Vec<Matcher>),
    /// Not as this wants it.
    Not(Box<Matcher>),
}

/// A regular expression that takes linear time, with a limit to its size.
#[derive(Clone, Debug)]
pub struct TextRegex(regex::Regex);

/// How large a regular expression may become when it is compiled, in bytes.
const LARGEST_REGEX: usize = 256 * 1024;

// === impl Side ===

impl Side {
    /// The side of a rule that decides so.
    pub fn of(decision: Decision) -> Self {
        match decision {
            Decision::Allow => Self::Allows,
            Decision::Ask | Decision::Deny => Self::Restricts,
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Allows => Self::Restricts,
            Self::Restricts => Self::Allows,
        }
    }
}

// === impl Matcher ===

impl Matcher {
    /// Whether the value is as it must be.
    ///
    /// A `not` turns the side around, too, so that a doubt never counts for what is to be allowed. To allow, it says nothing of a value that
    /// its matcher cannot read, such as a relative path: that such a path is not under `/etc` does not make it harmless.
    pub fn matches(&self, value: &Value, side: Side) -> bool {
        match self {
            Self::Glob(glob) => glob_matches(glob, value, side),
            Self::Literal(literal) => literal_matches(literal, value, side),
            Self::Under(folder) => value.as_str().is_some_and(|path| folder.holds(path, side)),
            Self::Host(host) => value.as_str().is_some_and(|url| host.matches(url, side)),
            Self::Between { min, max } => number(value, side).is_some_and(|number| {
                min.as_ref().is_none_or(|min| *min <= number) && max.as_ref().is_none_or(|max| number <= *max)
            }),
            Self::Regex(regex) => regex.0.is_match(&text(value)),
            Self::OneOf(matchers) => matchers.iter().any(|matcher| matcher.matches(value, side)),
            Self::All(matchers) => matchers.iter().all(|matcher| matcher.matches(value, side)),
            Self::Not(matcher) => {
                (side == Side::Restricts || matcher.reads(value)) && !matcher.matches(value, side.other())
            }
        }
    }

    /// Whether the value is of the kind that the matcher is about.
    fn reads(&self, value: &Value) -> bool {
        match self {
            Self::Glob(_) | Self::Literal(_) | Self::Regex(_) => true,
            Self::Under(_) => value.as_str().is_some_and(path::is_path),
            Self::Host(_) => value.as_str().is_some_and(host::is_plain_url),
            Self::Between { .. } => value.is_number(),
            Self::OneOf(matchers) | Self::All(matchers) => {
                matchers.iter().all(|matcher| matcher.reads(value))
            }
            Self::Not(matcher) => matcher.reads(value),
        }
    }
}

fn glob_matches(glob: &Pattern, value: &Value, side: Side) -> bool {
    let Value::Number(spelled) = value else { return glob.matches(&text(value)) };
    let spelled = spelled.to_string();
    let number = Decimal::parse(&spelled);
    if number.is_some() && number == Decimal::parse(&glob.to_string()) {
        return true;
    }
    let plain = number.and_then(|number| number.plain()).unwrap_or_else(|| spelled.clone());
    match side {
        Side::Allows => glob.matches(&spelled) && glob.matches(&plain),
        Side::Restricts => glob.matches(&spelled) || glob.matches(&plain),
    }
}

fn literal_matches(literal: &str, value: &Value, side: Side) -> bool {
    let same_number = || {
        let wanted = Decimal::parse(literal);
        wanted.is_some() && wanted == number(value, side)
    };
    text(value) == literal || same_number()
}

/// A value as a number. A text that spells one is one to restrict, because tools read such texts.
fn number(value: &Value, side: Side) -> Option<Decimal> {
    match value {
        Value::Number(number) => Decimal::parse(&number.to_string()),
        Value::String(text) if side == Side::Restricts => Decimal::parse(text.trim()),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => text.into(),
        other => other.to_string().into(),
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Glob(glob) => write!(f, "{:?}", glob.to_string()),
            Self::Literal(literal) => f.write_str(literal),
            Self::Under(folder) => write!(f, "{{ under = {:?} }}", folder.to_string()),
            Self::Host(host) => write!(f, "{{ host = {:?} }}", host.to_string()),
            Self::Between { min, max } => {
                let shown = |name: &str, bound: &Option<Decimal>| {
                    let bound = bound.as_ref()?;
                    Some(format!("{name} = {}", bound.plain().unwrap_or_else(|| format!("{bound:?}"))))
                };
                let bounds: Vec<String> =
                    [shown("min", min), shown("max", max)].into_iter().flatten().collect();
                write!(f, "{{ {} }}", bounds.join(", "))
            }
            Self::Regex(regex) => write!(f, "{{ regex = {:?} }}", regex.0.as_str()),
            Self::OneOf(matchers) => write!(f, "{{ one_of = [{}] }}", list(matchers, ", ")),
            Self::All(matchers) => f.write_str(&list(matchers, " and ")),
            Self::Not(matcher) => write!(f, "{{ not = {matcher} }}"),
        }
    }
}

fn list(matchers: &[Matcher], between: &str) -> String {
    matchers.iter().map(Matcher::to_string).collect::<Vec<_>>().join(between)
}

// === impl TextRegex ===

impl TextRegex {
    /// Reads a regular expression.
    ///
    /// # Errors
    /// Why it cannot be used: it is none, it is too large, or it looks around or back, which takes more than linear time.
    pub fn new(regex: &str) -> Result<Self, String> {
        let built =
            regex::RegexBuilder::new(regex).size_limit(LARGEST_REGEX).dfa_size_limit(LARGEST_REGEX).build();
        built.map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(limit) => {
                format!("{regex:?} is too large a regular expression: compiled it may have {limit} bytes")
            }
            error => {
                // The last line says what is wrong, those before draw where.
                let words = error.to_string();
                let reason =
                    words.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                format!("{regex:?} cannot be used as a regular expression: {reason}")
            }
        })
    }
}

impl PartialEq for TextRegex {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn glob(glob: &str) -> Matcher {
        Matcher::Glob(Pattern::new(glob))
    }

    fn literal(literal: &str) -> Matcher {
        Matcher::Literal(literal.into())
    }

    fn under(folder: &str) -> Matcher {
        Matcher::Under(Folder::new(folder).unwrap())
    }

    fn host(host: &str) -> Matcher {
        Matcher::Host(HostPattern::new(host).unwrap())
    }

    fn between(min: &str, max: &str) -> Matcher {
        Matcher::Between { min: Decimal::parse(min), max: Decimal::parse(max) }
    }

    fn not(matcher: Matcher) -> Matcher {
        Matcher::Not(Box::new(matcher))
    }

    /// Whether a value matches to allow and to restrict.
    fn matches(matcher: &Matcher, value: Value) -> (bool, bool) {
        (matcher.matches(&value, Side::Allows), matcher.matches(&value, Side::Restricts))
    }

    #[test]
    fn numbers_match_by_value_and_other_values_as_their_text() {
        for (matcher, value, expected) in [
            (literal("1000"), json!(1000), (true, true)),
            (literal("1000"), json!(1000.0), (true, true)),
            (literal("1000"), json!(1e3), (true, true)),
            (literal("1000"), json!("1000"), (true, true)),
            (literal("1000"), json!("1e3"), (false, true)),
            (literal("1000"), json!(1000.5), (false, false)),
            (literal("true"), json!(true), (true, true)),
            (literal("true"), json!(false), (false, false)),
            (glob("1000"), json!(1e3), (true, true)),
            (glob("5.0"), json!(5), (true, true)),
            (glob("10*"), json!(1e3), (true, true)),
            (glob("1000?"), json!(10000), (true, true)),
            (glob("*.0"), json!(1e3), (false, true)),
            (glob("a*"), json!("abc"), (true, true)),
            (glob("*b*"), json!({"b": 1}), (true, true)),
            (glob("null"), json!(null), (true, true)),
            (between("0", "100"), json!(1e2), (true, true)),
            (between("0", "100"), json!(100.5), (false, false)),
            (between("", "100"), json!(-5), (true, true)),
            (between("0", "100"), json!("50"), (false, true)),
            (between("0", "100"), json!("five"), (false, false)),
        ] {
            assert_eq!(matches(&matcher, value.clone()), expected, "{matcher} {value}");
        }
    }

    #[test]
    fn a_regular_expression_is_found_anywhere_unless_it_is_anchored() {
        let regex = |regex: &str| Matcher::Regex(TextRegex::new(regex).unwrap());
        assert_eq!(matches(&regex("b+"), json!("abbc")), (true, true));
        assert_eq!(matches(&regex("^b+$"), json!("abbc")), (false, false));
        assert_eq!(matches(&regex("^5$"), json!(5)), (true, true));
        for (bad, words) in [("(", "unclosed group"), (r"(a)\1", "backreferences"), ("(?=a)", "look-around")]
        {
            let error = TextRegex::new(bad).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(TextRegex::new(r"\p{L}{2200}").unwrap_err().contains("too large"));
    }

    #[test]
    fn what_is_not_so_is_certain_to_allow_and_possible_to_restrict() {
        let outside = not(under("/srv/safe"));
        for (value, expected) in [
            (json!("/srv/safe/x"), (false, false)),
            (json!("/etc/passwd"), (true, true)),
            (json!("/srv/safe/../x"), (true, true)),
            // Nobody knows where these are.
            (json!("etc/passwd"), (false, true)),
            (json!("/srv/safe/\0"), (false, true)),
            (json!(5), (false, true)),
            (json!("/srv/safe/x\\..\\..\\y"), (false, true)),
        ] {
            assert_eq!(matches(&outside, value.clone()), expected, "{value}");
        }
        let elsewhere = not(host("internal.example.com"));
        assert_eq!(matches(&elsewhere, json!("https://a.com")), (true, true));
        assert_eq!(matches(&elsewhere, json!("internal.example.com")), (false, true));
        assert_eq!(matches(&elsewhere, json!("https://internal.example.com")), (false, false));
        assert_eq!(matches(&not(between("0", "9")), json!("20")), (false, true));
        assert_eq!(matches(&not(not(under("/etc"))), json!("/etc/x")), (true, true));
        assert_eq!(matches(&not(glob("a*")), json!("b")), (true, true));
    }

    #[test]
    fn several_matchers_are_one_of_them_or_all() {
        let one = Matcher::OneOf(vec![glob("a"), literal("5"), under("/srv")]);
        for (value, expected) in
            [(json!("a"), true), (json!(5.0), true), (json!("/srv/x"), true), (json!("b"), false)]
        {
            assert_eq!(matches(&one, value.clone()), (expected, expected), "{value}");
        }
        let all = Matcher::All(vec![under("/srv"), not(under("/srv/secret"))]);
        assert_eq!(matches(&all, json!("/srv/x")), (true, true));
        assert_eq!(matches(&all, json!("/srv/secret/x")), (false, false));
        assert_eq!(all.to_string(), r#"{ under = "/srv" } and { not = { under = "/srv/secret" } }"#);
    }
}
