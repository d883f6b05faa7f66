//! Rules and the inputs that they are about.

use std::path::{Component, Path};

use fermata_tools::{Decimal, Folder, HostPattern, Matcher, Pattern, Program, Side, TextRegex};
use serde_json::Value;

const FOLDER: &str = "/srv/safe";
const HOST: &str = "docs.example.com";

/// What a rule says, then, behind a zero byte, the text that a model has put into a call.
pub fn policies(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (rule, text) = text.split_once('\0').unwrap_or(("*", &text));
    let value = Value::String(text.to_owned());
    matches_of_a_rule(rule, &value);
    // An input may also be JSON that is no text.
    if let Ok(other) = serde_json::from_str::<Value>(text) {
        matches_of_a_rule(rule, &other);
    }
    let under = Matcher::Under(Folder::new(FOLDER).expect("a folder"));
    // What takes a backslash for a slash reads a path in a second way.
    let readings = [text.to_owned(), text.replace('\\', "/")];
    if under.matches(&value, Side::Allows) {
        assert!(
            readings.iter().all(|text| is_in_folder(text)),
            "{text:?} is allowed as if it were in {FOLDER}"
        );
    }
    if readings.iter().any(|text| is_in_folder(text)) {
        assert!(
            under.matches(&value, Side::Restricts),
            "{text:?} is not denied as if it were not in {FOLDER}"
        );
    }
    let host = Matcher::Host(HostPattern::new(HOST).expect("a host"));
    if host.matches(&value, Side::Allows) {
        let lower = text.to_lowercase();
        let (_, rest) = lower.split_once("://").expect("a URL");
        // The library that reads URLs decides about percent signs and such; whatever is written plainly has to be the host.
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        assert!(!authority.contains('@'), "{text:?} is allowed as if it led to {HOST}");
        if authority.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:".contains(&byte)) {
            let name = authority.split(':').next().unwrap_or_default();
            assert_eq!(name, HOST, "{text:?} is allowed");
        }
    }
}

/// None of these may panic, whatever is written in the file of settings. What is denied by a matcher is not allowed by its opposite.
fn matches_of_a_rule(rule: &str, value: &Value) {
    let mut matchers = vec![Matcher::Glob(Pattern::new(rule)), Matcher::Literal(rule.to_owned())];
    matchers.extend(Folder::new(rule).ok().map(Matcher::Under));
    matchers.extend(HostPattern::new(rule).ok().map(Matcher::Host));
    matchers.extend(Program::new(rule, Vec::new()).ok().map(Matcher::Program));
    matchers.extend(TextRegex::new(rule).ok().map(Matcher::Regex));
    matchers.extend(Decimal::parse(rule).map(|min| Matcher::Between { min: Some(min), max: None }));
    for matcher in matchers {
        let allows = matcher.matches(value, Side::Allows);
        let restricts = matcher.matches(value, Side::Restricts);
        if !value.is_array() {
            assert!(!allows || restricts, "{matcher:?} counts more to allow {value} than to deny it");
        }
        let not = Matcher::Not(Box::new(matcher));
        assert!(!(not.matches(value, Side::Allows) && restricts), "{not:?} allows {value}");
    }
}

/// What the standard library makes of a path, with `..` taken by the text alone.
fn is_in_folder(text: &str) -> bool {
    if !text.starts_with('/') || text.contains('\0') {
        return false;
    }
    let mut parts: Vec<&std::ffi::OsStr> = Vec::new();
    for part in Path::new(text).components() {
        match part {
            Component::Normal(name) => parts.push(name),
            Component::ParentDir => _ = parts.pop(),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    parts.starts_with(&["srv".as_ref(), "safe".as_ref()])
}
