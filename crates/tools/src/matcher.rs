//! Matchers: the conditions of rules about fields of the input.
//!
//! A matcher errs on the safe side, which its [`Side`] names: a value matches a rule that allows only if every program would read it that
//! way, and it matches a rule that denies or asks as soon as one program could. So rules that deny or ask also look at the text with its
//! percent signs decoded, and without differences of case, width and invisible characters. Matching takes linear time for every input.

use std::fmt;

use serde_json::Value;

pub use self::{command::Program, host::HostPattern, number::Decimal, path::Folder};
use crate::{
    Decision, Pattern,
    field::text,
    hosts::plain_host,
    reading::{fold, readings},
};

mod command;
mod host;
mod number;
mod path;
#[cfg(test)]
mod properties;

/// The effect of a match, which decides how a doubt is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A match allows. All values must match, and there must be at least one.
    Allows,
    /// A match denies or asks. One matching value is enough.
    Restricts,
}

/// A condition on a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Matcher {
    /// The value as text matches the glob. A value that is not a string is its JSON.
    Glob(Pattern),
    /// The value equals this literal: a number by value, or `true`, `false` or a text exactly.
    Literal(String),
    /// The value is the absolute path of this folder or of something in it.
    Under(Folder),
    /// The value is a URL with this host.
    Host(HostPattern),
    /// The value is a command line of a POSIX shell that runs this program and nothing else.
    Program(Program),
    /// The value is a number in this range, bounds included.
    Between {
        /// The lower bound.
        min: Option<Decimal>,
        /// The upper bound.
        max: Option<Decimal>,
    },
    /// The value as text contains a match of the regular expression.
    Regex(TextRegex),
    /// At least one of the matchers matches.
    OneOf(Vec<Matcher>),
    /// All of the matchers match.
    All(Vec<Matcher>),
    /// The matcher does not match.
    Not(Box<Matcher>),
}

/// A regular expression of limited size that matches in linear time.
#[derive(Clone, Debug)]
pub struct TextRegex {
    regex: regex::Regex,
    /// The same expression without differences of case.
    caseless: regex::Regex,
}

/// The limit on a compiled regular expression, in bytes.
const LARGEST_REGEX: usize = 256 * 1024;

// === impl Side ===

impl Side {
    /// Returns the side of a rule with this decision.
    pub fn of(decision: Decision) -> Self {
        match decision {
            Decision::Allow => Self::Allows,
            Decision::Ask | Decision::Deny => Self::Restricts,
        }
    }
}

// === impl Matcher ===

impl Matcher {
    /// Returns whether the value matches.
    ///
    /// `not` swaps the side for its matcher, so that a doubt never allows anything. On the side that allows, it does not match a value that
    /// its matcher cannot interpret: a relative path, for example, may be under `/etc` or not.
    pub fn matches(&self, value: &Value, side: Side) -> bool {
        match self {
            Self::Glob(glob) => {
                let Value::Number(spelled) = value else { return matches_glob(glob, &text(value), side) };
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
            Self::Literal(literal) => {
                let wanted = Decimal::parse(literal);
                let text = text(value);
                text == literal.as_str()
                    || (side == Side::Restricts && readings(&text).contains(&fold(literal)))
                    || (wanted.is_some() && wanted == number(value, side))
            }
            Self::Under(folder) => value.as_str().is_some_and(|path| folder.holds(path, side)),
            Self::Host(host) => value.as_str().is_some_and(|url| host.matches(url, side)),
            Self::Program(program) => value.as_str().is_some_and(|line| program.is_run_by(line, side)),
            Self::Between { min, max } => number(value, side).is_some_and(|number| {
                min.as_ref().is_none_or(|min| *min <= number) && max.as_ref().is_none_or(|max| number <= *max)
            }),
            Self::Regex(regex) => regex.matches(&text(value), side),
            Self::OneOf(matchers) => matchers.iter().any(|matcher| matcher.matches(value, side)),
            Self::All(matchers) => matchers.iter().all(|matcher| matcher.matches(value, side)),
            Self::Not(matcher) => match side {
                Side::Allows => matcher.can_interpret(value) && !matcher.matches(value, Side::Restricts),
                Side::Restricts => !matcher.matches(value, Side::Allows),
            },
        }
    }

    /// Returns whether the value has the form that the matcher is about.
    fn can_interpret(&self, value: &Value) -> bool {
        match self {
            Self::Glob(_) | Self::Literal(_) | Self::Regex(_) => true,
            Self::Under(_) => value.as_str().is_some_and(path::is_plain),
            Self::Host(_) => value.as_str().is_some_and(|url| plain_host(url).is_some()),
            Self::Program(_) => value.as_str().is_some_and(command::is_plain),
            Self::Between { .. } => value.is_number(),
            Self::OneOf(matchers) | Self::All(matchers) => {
                matchers.iter().all(|matcher| matcher.can_interpret(value))
            }
            Self::Not(matcher) => matcher.can_interpret(value),
        }
    }
}

fn matches_glob(glob: &Pattern, text: &str, side: Side) -> bool {
    match side {
        Side::Allows => glob.matches(text),
        Side::Restricts => {
            let folded = Pattern::new(&fold(&glob.to_string()));
            readings(text).iter().any(|reading| glob.matches(reading) || folded.matches(reading))
        }
    }
}

/// Returns a value as a number. A string that spells a number counts only on the side that restricts, because some tools read it as one.
fn number(value: &Value, side: Side) -> Option<Decimal> {
    match value {
        Value::Number(number) => Decimal::parse(&number.to_string()),
        Value::String(text) if side == Side::Restricts => {
            let digits = fold(text).replace(['_', ',', '\'', ' '], "");
            Decimal::parse(&digits)
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Glob(glob) => write!(f, "{:?}", glob.to_string()),
            Self::Literal(literal) => f.write_str(literal),
            Self::Under(folder) => write!(f, "{{ under = {:?} }}", folder.to_string()),
            Self::Host(host) => write!(f, "{{ host = {:?} }}", host.to_string()),
            Self::Program(program) => write!(f, "{{ {program} }}"),
            Self::Between { min, max } => {
                let mut bounds = Vec::new();
                for (name, bound) in [("min", min), ("max", max)] {
                    if let Some(bound) = bound {
                        let number = bound.plain().unwrap_or_else(|| format!("{bound:?}"));
                        bounds.push(format!("{name} = {number}"));
                    }
                }
                write!(f, "{{ {} }}", bounds.join(", "))
            }
            Self::Regex(regex) => write!(f, "{{ regex = {:?} }}", regex.regex.as_str()),
            Self::OneOf(matchers) => write!(f, "{{ one_of = [{}] }}", join(matchers, ", ")),
            Self::All(matchers) => f.write_str(&join(matchers, " and ")),
            Self::Not(matcher) => write!(f, "{{ not = {matcher} }}"),
        }
    }
}

fn join(matchers: &[Matcher], separator: &str) -> String {
    matchers.iter().map(Matcher::to_string).collect::<Vec<_>>().join(separator)
}

// === impl TextRegex ===

impl TextRegex {
    /// Compiles a regular expression.
    ///
    /// # Errors
    /// Returns a message if the expression is invalid, is too large, or uses look-around or back-references, which take more than linear
    /// time.
    pub fn new(regex: &str) -> Result<Self, String> {
        let build = |is_caseless| {
            let mut builder = regex::RegexBuilder::new(regex);
            builder.size_limit(LARGEST_REGEX).dfa_size_limit(LARGEST_REGEX);
            builder.case_insensitive(is_caseless).build()
        };
        let built = build(false).and_then(|regex| Ok(Self { regex, caseless: build(true)? }));
        built.map_err(|error| match error {
            regex::Error::CompiledTooBig(limit) => {
                format!(
                    "the regular expression {regex:?} is too large: the limit is {limit} bytes when compiled"
                )
            }
            error => {
                // The last line names the error; the lines before it mark the position.
                let message = error.to_string();
                let reason = message.lines().last().unwrap_or_default().trim_start_matches("error: ");
                format!("{regex:?} cannot be used as a regular expression: {reason}")
            }
        })
    }
}

impl TextRegex {
    fn matches(&self, text: &str, side: Side) -> bool {
        match side {
            Side::Allows => self.regex.is_match(text),
            Side::Restricts => readings(text)
                .iter()
                .any(|reading| self.regex.is_match(reading) || self.caseless.is_match(reading)),
        }
    }
}

impl PartialEq for TextRegex {
    fn eq(&self, other: &Self) -> bool {
        self.regex.as_str() == other.regex.as_str()
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

    /// Returns whether a value matches on the side that allows, and on the side that restricts.
    fn matches(matcher: &Matcher, value: Value) -> (bool, bool) {
        (matcher.matches(&value, Side::Allows), matcher.matches(&value, Side::Restricts))
    }

    #[test]
    fn numbers_match_by_value_and_other_values_as_text() {
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
            (glob("A*"), json!("abc"), (false, true)),
            (glob("*secret*"), json!({"note": "S\u{ad}ecret"}), (false, true)),
            (glob("*b*"), json!({"b": 1}), (true, true)),
            (glob("null"), json!(null), (true, true)),
            (between("0", "100"), json!(1e2), (true, true)),
            (between("0", "100"), json!(100.5), (false, false)),
            (between("", "100"), json!(-5), (true, true)),
            (between("0", "100"), json!("50"), (false, true)),
            (between("0", "100"), json!(" ５０ "), (false, true)),
            (literal("1000"), json!("1,000"), (false, true)),
            (literal("true"), json!("TRUE"), (false, true)),
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
        for (bad, reason) in [("(", "unclosed group"), (r"(a)\1", "backreferences"), ("(?=a)", "look-around")]
        {
            let error = TextRegex::new(bad).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        assert!(TextRegex::new(r"\p{L}{2200}").unwrap_err().contains("too large"));
    }

    #[test]
    fn a_text_that_only_looks_different_matches_to_restrict_and_not_to_allow() {
        let regex = |regex: &str| Matcher::Regex(TextRegex::new(regex).unwrap());
        let one_of = |word: &str| Matcher::OneOf(vec![glob("other"), glob(word)]);
        for matcher in
            [glob("*secret*"), glob("*SECRET*"), glob("*ｓecret*"), regex("secret"), regex("Secret")]
        {
            for text in [
                "my SECRET",
                "s\u{ad}ecret",
                "ｍｙ　ｓｅｃｒｅｔ",
                "se\u{200d}cret",
                "\u{202e}Secret",
                "s\u{e0065}ecret",
                "s%65cret",
                "s%2565cret",
                "%73%65%63%72%65%74",
                "S\0ecret",
                "sec\tret",
                "ⓢⓔⓒⓡⓔⓣ",
                "ſecret",
            ] {
                assert!(matcher.matches(&json!(text), Side::Restricts), "{matcher} {text:?}");
                assert!(!not(matcher.clone()).matches(&json!(text), Side::Allows), "not {matcher} {text:?}");
            }
            assert!(!matcher.matches(&json!("secre t"), Side::Restricts), "{matcher}");
        }
        for text in ["DELETE", " delete ", "ｄｅｌｅｔｅ", "del\u{200b}ete", "%64elete", "delete\n"] {
            for matcher in [one_of("delete"), one_of("Delete"), literal("delete"), regex("^delete$")] {
                assert!(matcher.matches(&json!(text), Side::Restricts), "{matcher} {text:?}");
                assert!(!matcher.matches(&json!(text), Side::Allows), "{matcher} {text:?}");
            }
        }
        assert!(glob("rm -rf *").matches(&json!("rm\t-rf  /"), Side::Restricts));
    }

    #[test]
    fn not_must_be_certain_to_allow_and_only_possible_to_restrict() {
        let outside = not(under("/srv/safe"));
        for (value, expected) in [
            (json!("/srv/safe/x"), (false, false)),
            (json!("/etc/passwd"), (true, true)),
            (json!("/srv/safe/../x"), (true, true)),
            // These may be in the folder or not.
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
            [(json!("a"), true), (json!(5.0), true), (json!("/srv/x"), true), (json!("/b"), false)]
        {
            assert_eq!(matches(&one, value.clone()), (expected, expected), "{value}");
        }
        let all = Matcher::All(vec![under("/srv"), not(under("/srv/secret"))]);
        assert_eq!(matches(&all, json!("/srv/x")), (true, true));
        assert_eq!(matches(&all, json!("/srv/secret/x")), (false, false));
        assert_eq!(all.to_string(), r#"{ under = "/srv" } and { not = { under = "/srv/secret" } }"#);
    }
}
