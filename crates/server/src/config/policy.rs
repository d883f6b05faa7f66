//! `[[policy]]`: one rule about calls.

use fermata_tools::{Decimal, Folder, HostPattern, Matcher, Pattern, Rule, TextRegex};
use toml::de::DeValue;

use super::entry::{Entry, Fault};

/// The keys of a table that says what a field must be like. They are never names of fields.
const MATCHERS: [&str; 7] = ["under", "host", "one_of", "min", "max", "regex", "not"];

/// Reads a rule.
pub(super) fn read(rule: &Entry<'_>) -> Result<Rule, Fault> {
    let (mut tool, mut from, mut owner, mut decision, mut reason) = (None, None, None, None, None);
    let mut always = false;
    let mut input = Vec::new();
    for entry in rule.entries_among(&["tool", "from", "owner", "input", "decision", "reason", "always"])? {
        match entry.name {
            "tool" => tool = Some(Pattern::new(&entry.words()?)),
            "from" => from = Some(entry.read()?),
            "owner" => owner = Some(Pattern::new(&entry.words()?)),
            "decision" => decision = Some(entry.read()?),
            "reason" => reason = Some(entry.words()?),
            "always" => always = entry.truth()?,
            _ => read_fields(&entry, "", &mut input)?,
        }
    }
    let decision =
        decision.ok_or_else(|| rule.fault("a rule needs decision = \"allow\", \"ask\" or \"deny\""))?;
    Ok(Rule { tool, from, owner, input, decision, reason, always })
}

/// Takes what a table says of fields. A table in it is what a field must be like, or, if it was made by dots in a key, more of a path.
fn read_fields(table: &Entry<'_>, above: &str, fields: &mut Vec<(String, Matcher)>) -> Result<(), Fault> {
    let entries = table.entries()?;
    if entries.is_empty() {
        return Err(table.fault("names no field"));
    }
    for entry in entries {
        let path = if above.is_empty() { entry.name.to_owned() } else { format!("{above}.{}", entry.name) };
        if goes_on_with_path(&entry) {
            read_fields(&entry, &path, fields)?;
        } else {
            fields.push((path, matcher(&entry)?));
        }
    }
    Ok(())
}

/// Whether the entry is a table made by dots in a key that says nothing about its field: `to.name = "b*"`.
fn goes_on_with_path(entry: &Entry<'_>) -> bool {
    let DeValue::Table(table) = entry.value() else { return false };
    entry.is_dotted() && !table.keys().any(|key| MATCHERS.contains(&key.get_ref().as_ref()))
}

/// What a field must be like: a glob, a literal, or a table of matchers, all of which count.
fn matcher(entry: &Entry<'_>) -> Result<Matcher, Fault> {
    let DeValue::Table(_) = entry.value() else { return glob(entry) };
    let mut matchers = Vec::new();
    let (mut min, mut max) = (None, None);
    for entry in entries_of_matcher(entry)? {
        match entry.name {
            "under" => {
                matchers.push(Matcher::Under(Folder::new(&entry.words()?).map_err(|bad| entry.fault(bad))?))
            }
            "host" => matchers
                .push(Matcher::Host(HostPattern::new(&entry.words()?).map_err(|bad| entry.fault(bad))?)),
            "regex" => matchers
                .push(Matcher::Regex(TextRegex::new(&entry.words()?).map_err(|bad| entry.fault(bad))?)),
            "one_of" => matchers.push(one_of(&entry)?),
            "min" => min = Some(number(&entry)?),
            "max" => max = Some(number(&entry)?),
            _ => matchers.push(Matcher::Not(Box::new(matcher(&entry)?))),
        }
    }
    if let (Some(min), Some(max)) = (&min, &max)
        && min > max
    {
        return Err(entry.fault("min is above max, so that no number could match"));
    }
    if min.is_some() || max.is_some() {
        matchers.push(Matcher::Between { min, max });
    }
    Ok(if matchers.len() == 1 { matchers.remove(0) } else { Matcher::All(matchers) })
}

/// The entries of a table of matchers; a table that is none probably was to be a path.
fn entries_of_matcher<'a>(entry: &Entry<'a>) -> Result<Vec<Entry<'a>>, Fault> {
    let entries = entry.entries()?;
    if entries.is_empty() {
        return Err(entry.fault(
            "says nothing about the field; write a glob, or a matcher such as { under = \"/srv/safe\" }",
        ));
    }
    match entries.iter().find(|entry| !MATCHERS.contains(&entry.name)) {
        None => Ok(entries),
        Some(stranger) => Err(stranger.unknown(
            &MATCHERS,
            &format!(
                "; a matcher is one of {}, and a field in a field is written with dots, as \"{}.{}\"",
                MATCHERS.join(", "),
                entry.name,
                stranger.name
            ),
        )),
    }
}

fn one_of(entry: &Entry<'_>) -> Result<Matcher, Fault> {
    let elements = entry.elements("must be a list, such as [\"a\", \"b\"]")?;
    if elements.is_empty() {
        return Err(entry.fault("must not be empty"));
    }
    elements.iter().map(matcher).collect::<Result<_, _>>().map(Matcher::OneOf)
}

fn number(entry: &Entry<'_>) -> Result<Decimal, Fault> {
    let literal = match entry.value() {
        DeValue::Integer(_) | DeValue::Float(_) => literal(entry.value()),
        _ => None,
    };
    literal.and_then(|number| Decimal::parse(&number)).ok_or_else(|| entry.fault("must be a number"))
}

/// A glob, or a number or a truth value.
fn glob(entry: &Entry<'_>) -> Result<Matcher, Fault> {
    if let DeValue::String(_) = entry.value() {
        return entry.string().map(|glob| Matcher::Glob(Pattern::new(&glob)));
    }
    literal(entry.value())
        .map(Matcher::Literal)
        .ok_or_else(|| entry.fault("must be a glob in quotes, a number, true, false, or a matcher"))
}

/// A number or a truth value as JSON has it.
fn literal(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::Boolean(truth) => Some(truth.to_string()),
        DeValue::Integer(number) => {
            i128::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number.to_string())
        }
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .ok()
            .and_then(serde_json::Number::from_f64)
            .map(|number| number.to_string()),
        DeValue::String(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}
