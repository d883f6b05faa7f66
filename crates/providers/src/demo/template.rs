//! Texts with placeholders: `{{path|filter:argument}}`.
//!
//! A placeholder that has no value makes the whole text unusable, and the caller takes the next one.

use serde_json::{Map, Value};

use super::language::Language;

/// The filters, each with the number of its arguments.
const FILTERS: [(&str, &[usize]); 9] = [
    ("or", &[1]),
    ("words", &[1]),
    ("clock", &[0]),
    ("city", &[0]),
    ("round", &[1]),
    ("bytes", &[0]),
    ("count", &[0, 2]),
    ("list", &[0, 1]),
    ("lines", &[0]),
];

/// The values that the placeholders of a text may name.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// The language of the text.
    pub language: Language,
    /// The values by name. The fields of `result` are also found without this prefix.
    pub values: Map<String, Value>,
    /// The limit on one value in a text, in characters.
    pub longest: usize,
}

/// One placeholder: its path, and its filters in their order, each with its arguments.
struct Placeholder<'a> {
    path: &'a str,
    filters: Vec<(&'a str, Vec<&'a str>)>,
}

// === impl Scope ===

impl Scope {
    /// Returns the value at a path such as `input.title`, unless it is null, false, or an empty text or list.
    pub(super) fn get(&self, path: &str) -> Option<&Value> {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let start = self.values.get(first).or_else(|| self.values.get("result")?.get(first))?;
        let found = rest
            .into_iter()
            .flat_map(|rest| rest.split('.'))
            .try_fold(start, |value, key| value.get(key).or_else(|| value.get(key.parse::<usize>().ok()?)))?;
        match found {
            Value::Null | Value::Bool(false) => None,
            Value::String(text) if text.is_empty() => None,
            Value::Array(items) if items.is_empty() => None,
            _ => Some(found),
        }
    }

    /// Returns the text with its placeholders filled, or `None` if one of them has no value.
    pub(super) fn render(&self, text: &str) -> Option<String> {
        let mut rendered = String::new();
        let mut rest = text;
        while let Some((before, inside, after)) = next(rest) {
            rendered.push_str(before);
            let placeholder = parse(inside).ok()?;
            let mut value = self.get(placeholder.path).cloned();
            for (filter, arguments) in &placeholder.filters {
                value = match (*filter, value) {
                    ("or", None) => arguments.first().map(|text| Value::from(*text)),
                    ("or", value) => value,
                    (_, None) => None,
                    (filter, Some(value)) => self.filtered(&value, filter, arguments),
                };
            }
            rendered.push_str(&self.in_words(&value?));
            rest = after;
        }
        rendered.push_str(rest);
        Some(rendered)
    }

    /// Applies a filter; `None` if the value is not of the kind that the filter takes.
    fn filtered(&self, value: &Value, filter: &str, arguments: &[&str]) -> Option<Value> {
        let argument = |place: usize| arguments.get(place).copied().unwrap_or_default();
        let items = match value {
            Value::Array(items) => items.as_slice(),
            single => std::slice::from_ref(single),
        };
        let text = match filter {
            "words" => {
                let words = value.as_str()?.split_whitespace().take(argument(0).parse().ok()?);
                words.collect::<Vec<_>>().join(" ")
            }
            "clock" => {
                let clock = value.as_str()?.split(['T', ' ']).nth(1)?.get(..5)?;
                clock.contains(':').then(|| clock.to_owned())?
            }
            "city" => value.as_str()?.rsplit('/').next()?.replace('_', " "),
            "round" => format!("{:.*}", argument(0).parse().ok()?, value.as_f64()?),
            "bytes" => match value.as_u64()? {
                count @ 0..1_000 => format!("{count} B"),
                count @ 1_000..1_000_000 => format!("{}.{} kB", count / 1_000, count / 100 % 10),
                count => format!("{}.{} MB", count / 1_000_000, count / 100_000 % 10),
            },
            "count" => {
                let noun = argument(usize::from(items.len() != 1));
                format!("{} {noun}", items.len()).trim_end().to_owned()
            }
            "list" => {
                let key = argument(0);
                let names = items.iter().map(|item| if key.is_empty() { Some(item) } else { item.get(key) });
                let names = names.map(|name| Some(format!("“{}”", self.in_words(name?))));
                names.collect::<Option<Vec<_>>>()?.join(self.language.pick(", ", "、"))
            }
            // The lines of a form have the titles that the form gave its fields.
            "lines" => {
                let titles = self.get("input.fields.properties");
                let lines: Vec<_> = match value {
                    Value::Object(fields) => fields
                        .iter()
                        .map(|(key, value)| {
                            let title = titles.and_then(|all| all.get(key)?.get("title")?.as_str());
                            format!("- {}: **{}**", title.unwrap_or(key), self.in_words(value))
                        })
                        .collect(),
                    _ => items.iter().map(|item| format!("- {}", self.in_words(item))).collect(),
                };
                (!lines.is_empty()).then(|| lines.join("\n"))?
            }
            _ => return None,
        };
        Some(Value::String(text))
    }

    /// Returns a value as people write it, shortened: fields and items in a row, and no JSON.
    fn in_words(&self, value: &Value) -> String {
        let separator = self.language.pick(", ", "，");
        let words = match value {
            Value::String(text) => text.clone(),
            Value::Array(items) => {
                items.iter().map(|item| self.in_words(item)).collect::<Vec<_>>().join(separator)
            }
            Value::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| match value {
                    Value::Object(_) | Value::Array(_) => format!("{key} ({})", self.in_words(value)),
                    _ => format!("{key}: {}", self.in_words(value)),
                });
                fields.collect::<Vec<_>>().join(separator)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        };
        match words.char_indices().nth(self.longest) {
            Some((end, _)) => format!("{}…", &words[..end]),
            None => words,
        }
    }
}

/// Returns the paths of a text's placeholders.
///
/// # Errors
/// Returns the fault of a placeholder.
pub(super) fn paths(text: &str) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    let mut rest = text;
    while let Some((_, inside, after)) = next(rest) {
        paths.push(parse(inside)?.path.to_owned());
        rest = after;
    }
    if rest.contains("{{") { Err("“{{” has no “}}” after it".to_owned()) } else { Ok(paths) }
}

/// Splits the text at its first placeholder.
fn next(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (inside, after) = rest.split_once("}}")?;
    Some((before, inside, after))
}

fn parse(inside: &str) -> Result<Placeholder<'_>, String> {
    let mut parts = inside.split('|');
    let path = parts.next().unwrap_or_default().trim();
    if path.is_empty() || path.contains(char::is_whitespace) {
        return Err(format!("{{{{{inside}}}}} does not name a value"));
    }
    let mut filters = Vec::new();
    for part in parts {
        let mut arguments = part.split(':');
        let name = arguments.next().unwrap_or_default().trim();
        let arguments: Vec<_> = arguments.collect();
        let Some((_, counts)) = FILTERS.iter().find(|(known, _)| *known == name) else {
            let known = FILTERS.map(|(known, _)| known).join(", ");
            return Err(format!("{{{{{inside}}}}}: there is no filter “{name}”; there are {known}"));
        };
        let are_numbers = arguments.iter().all(|text| text.trim().parse::<u8>().is_ok());
        if !counts.contains(&arguments.len()) || (matches!(name, "words" | "round") && !are_numbers) {
            return Err(format!("{{{{{inside}}}}}: the filter “{name}” does not take these arguments"));
        }
        filters.push((name, arguments));
    }
    Ok(Placeholder { path, filters })
}
