//! The scenes of the demo model: the format of the file, and the checks when one is read.

use std::{collections::BTreeSet, time::Duration};

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

use super::{language::Language, template};

/// The scenes that every demo model has.
const BUILTIN: &str = include_str!("scenes.toml");
/// The names that a scene may use in `{{…}}` besides the captures of its patterns.
const KNOWN: [&str; 5] = ["tools", "other_tool", "suggestions", "list", "remembered"];
/// The limit on `pace_ms`.
const SLOWEST: u64 = 10_000;

/// The demo model's knowledge: everything that it can say and do.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenes {
    /// `true` if the built-in scenes come after those of this file.
    #[serde(default = "yes")]
    builtin: bool,
    /// The time between two deltas.
    pace_ms: Option<u64>,
    /// The first scene that fits is played.
    #[serde(default, rename = "scene")]
    pub scenes: Vec<Spanned<Scene>>,
    /// The sentences about the results of any scene's calls, after the scene's own ones. The first that fits is said.
    #[serde(default)]
    pub then: Vec<Then>,
    /// The messages that a person can try.
    #[serde(default, rename = "suggestion")]
    pub suggestions: Vec<Suggestion>,
    /// The answer if none of a scene's tools is offered.
    pub missing: Option<Text>,
    /// The text before a call that the request demands.
    pub forced: Option<Text>,
    /// The answer in place of calls if the request forbids them.
    pub forbidden: Option<Text>,
}

/// One scene: the messages that it answers, and the answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scene {
    /// The name, which stands in errors.
    #[serde(default)]
    name: String,
    /// The messages that it answers; all, if there is no pattern.
    #[serde(default)]
    pub when: Vec<Pattern>,
    /// The tools that must be offered; behind a dot stands a field that the input of the tool must have.
    #[serde(default)]
    pub needs: Vec<String>,
    pub reasoning: Option<Text>,
    pub say: Option<Text>,
    #[serde(default)]
    pub calls: Vec<Call>,
    /// The pages that the answer cites.
    #[serde(default)]
    pub sources: Vec<Source>,
    /// The error that ends the answer.
    pub error: Option<Text>,
    /// The answer if none of the tools in `calls` is offered.
    pub missing: Option<Text>,
    /// The sentences about the results of the calls. The first that fits is said.
    #[serde(default)]
    pub then: Vec<Then>,
}

/// A tool call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    /// The name of the tool; with a `*` at both ends, a part of the name.
    pub tool: Text,
    /// The input; if there is none, one is made from the tool's schema.
    pub input: Option<Value>,
    /// The step of the call: the calls of each step are made once those of the steps before have their results.
    #[serde(default = "first_step")]
    pub step: u32,
}

/// A sentence about a call that has ended.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Then {
    /// The tool that was called; any, if there is no name.
    pub tool: Option<String>,
    #[serde(default)]
    pub on: Outcome,
    /// A value that must be there.
    #[serde(rename = "if")]
    pub condition: Option<String>,
    pub say: Text,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    #[default]
    Result,
    Denied,
    Cancelled,
    Error,
}

/// A message to try.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Suggestion {
    pub say: Text,
    /// The visible result.
    pub shows: Option<Text>,
    /// The tool without which it is not suggested, as in a scene.
    pub needs: Option<String>,
}

/// A page that an answer cites.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Source {
    pub url: String,
    pub title: Option<String>,
}

/// A regular expression for messages that ignores case.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Pattern(pub Regex);

/// A text: one for all languages, or one for each.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct Text {
    english: String,
    chinese: String,
}

// === impl Scenes ===

impl Scenes {
    /// Returns the built-in scenes, whose validity a test checks.
    pub(super) fn builtin() -> Result<Self, String> {
        Self::parse("the built-in scenes", BUILTIN)
    }

    /// Reads scenes. The built-in ones come after them, or only the last one, which answers everything, if the file leaves them out.
    ///
    /// # Errors
    /// Returns one line that names the file, the line and the fault there.
    pub(super) fn read(file: &str, text: &str) -> Result<Self, String> {
        let mut own = Self::parse(file, text)?;
        let builtin = Self::builtin()?;
        if own.builtin {
            own.scenes.extend(builtin.scenes);
            own.suggestions.extend(builtin.suggestions);
        } else {
            own.scenes.extend(builtin.scenes.into_iter().filter(|scene| scene.as_ref().when.is_empty()));
        }
        own.then.extend(builtin.then);
        own.pace_ms = own.pace_ms.or(builtin.pace_ms);
        own.missing = own.missing.or(builtin.missing);
        own.forced = own.forced.or(builtin.forced);
        own.forbidden = own.forbidden.or(builtin.forbidden);
        Ok(own)
    }

    fn parse(file: &str, text: &str) -> Result<Self, String> {
        let place = |at: usize| {
            let before = text.bytes().take(at);
            format!("{file}:{}", before.filter(|byte| *byte == b'\n').count() + 1)
        };
        let scenes: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            format!("{}: {}", place(at), error.message().trim().replace('\n', ", "))
        })?;
        if scenes.pace_ms.is_some_and(|pace| pace > SLOWEST) {
            return Err(format!("{file}: pace_ms is above {SLOWEST}, so that nobody would read to the end"));
        }
        for scene in &scenes.scenes {
            scene.as_ref().check().map_err(|fault| {
                let name = &scene.as_ref().name;
                let name = if name.is_empty() { String::new() } else { format!(" “{name}”") };
                format!("{}: the scene{name} {fault}", place(scene.span().start))
            })?;
        }
        Ok(scenes)
    }

    /// Returns the time between two deltas.
    pub(super) fn pace(&self) -> Duration {
        Duration::from_millis(self.pace_ms.unwrap_or_default())
    }
}

// === impl Scene ===

impl Scene {
    /// Checks the rules that the types of the fields cannot express.
    fn check(&self) -> Result<(), String> {
        if self.say.is_none()
            && self.reasoning.is_none()
            && self.error.is_none()
            && self.calls.is_empty()
            && self.sources.is_empty()
        {
            return Err(
                "says nothing and calls nothing: it needs say, reasoning, calls, sources or error".into()
            );
        }
        let mut names: BTreeSet<&str> = KNOWN.into();
        names.extend(self.when.iter().flat_map(|pattern| pattern.0.capture_names().flatten()));
        let mut texts: Vec<String> = [&self.say, &self.reasoning, &self.error]
            .into_iter()
            .flatten()
            .chain(self.calls.iter().map(|call| &call.tool))
            .flat_map(|text| [text.english.clone(), text.chinese.clone()])
            .collect();
        for input in self.calls.iter().filter_map(|call| call.input.as_ref()) {
            if !input.is_object() {
                return Err("has an input that is not a table".into());
            }
            texts.extend(strings(input));
        }
        for text in texts {
            let unknown = template::paths(&text)?.into_iter().find(|path| !names.contains(path.as_str()));
            if let Some(unknown) = unknown {
                return Err(format!(
                    "names {{{{{unknown}}}}}, which no pattern in when captures as (?<{unknown}>…)"
                ));
            }
        }
        Ok(())
    }
}

// === impl Pattern ===

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let pattern = RegexBuilder::new(&text).case_insensitive(true).dot_matches_new_line(true).build();
        pattern.map(Self).map_err(|error| {
            let error = error.to_string();
            format!("“{text}” is no regular expression: {}", error.lines().last().unwrap_or_default().trim())
        })
    }
}

// === impl Text ===

impl Text {
    /// Returns the text in a language.
    pub(super) fn pick(&self, language: Language) -> &str {
        language.pick(&self.english, &self.chinese)
    }
}

impl TryFrom<Value> for Text {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let text = match (&value, languages(&value)) {
            (Value::String(text), _) => Self { english: text.clone(), chinese: text.clone() },
            (_, Some([Value::String(english), Value::String(chinese)])) => {
                Self { english: english.clone(), chinese: chinese.clone() }
            }
            _ => return Err("expected a text, or a table with en and zh: { en = \"…\", zh = \"…\" }".into()),
        };
        template::paths(&text.english)?;
        template::paths(&text.chinese)?;
        Ok(text)
    }
}

/// Returns the values of a table that has one for each language and nothing else.
pub(super) fn languages(value: &Value) -> Option<[&Value; 2]> {
    let table = value.as_object().filter(|table| table.len() == 2)?;
    Some([table.get("en")?, table.get("zh")?])
}

/// Returns all texts in a value.
fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Object(fields) => fields.values().flat_map(strings).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

fn yes() -> bool {
    true
}

fn first_step() -> u32 {
    1
}
