//! `[[policy]]`: one rule about calls.

use fermata_tools::{Pattern, Rule};
use toml::de::DeValue;

use super::entry::{Entry, Fault};

/// Reads a rule.
pub(super) fn read(rule: &Entry<'_>) -> Result<Rule, Fault> {
    let (mut tool, mut from, mut decision, mut reason) = (None, None, None, None);
    let mut input = Vec::new();
    for entry in rule.entries_among(&["tool", "from", "input", "decision", "reason"])? {
        match entry.name {
            "tool" => tool = Some(Pattern::new(&entry.words()?)),
            "from" => from = Some(entry.read()?),
            "decision" => decision = Some(entry.read()?),
            "reason" => reason = Some(entry.words()?),
            _ => read_fields(&entry, "", &mut input)?,
        }
    }
    let decision =
        decision.ok_or_else(|| rule.fault("a rule needs decision = \"allow\", \"ask\" or \"deny\""))?;
    Ok(Rule { tool, from, input, decision, reason })
}

/// Takes the globs of a table of fields; a table in it is about the fields of a field.
fn read_fields(table: &Entry<'_>, above: &str, fields: &mut Vec<(String, Pattern)>) -> Result<(), Fault> {
    let entries = table.entries()?;
    if entries.is_empty() {
        return Err(table.fault("names no field"));
    }
    for entry in entries {
        let path = if above.is_empty() { entry.name.to_owned() } else { format!("{above}.{}", entry.name) };
        if let DeValue::Table(_) = entry.value() {
            read_fields(&entry, &path, fields)?;
        } else {
            fields.push((path, glob(&entry)?));
        }
    }
    Ok(())
}

/// A glob, or a number or a truth value, which are compared as JSON has them.
fn glob(entry: &Entry<'_>) -> Result<Pattern, Fault> {
    let literal = match entry.value() {
        DeValue::String(_) => return entry.string().map(|glob| Pattern::new(&glob)),
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
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    };
    let literal = literal.ok_or_else(|| entry.fault("must be a glob in quotes, a number, true or false"))?;
    Ok(Pattern::new(&literal))
}
