//! The names of tools, as the provider takes them.
//!
//! Each tool has a name of up to 64 letters, digits, `_` and `-`, which OpenAI takes and with it nearly everybody. Gemini wants a letter or
//! `_` in front, and refuses a request with any other name.
//!
//! Invariants: no two tools of a request have one name; a name that fits stays; the same tools always have the same names.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use fermata_engine::model::ModelTool;

use super::dialect::Dialect;

/// The longest name.
const LONGEST: usize = 64;

/// The names of the tools of one request.
#[derive(Clone, Debug, Default)]
pub(super) struct ToolNames {
    begins_with_letter: bool,
    /// The names of those tools whose own names do not fit.
    given: HashMap<String, String>,
}

// === impl ToolNames ===

impl ToolNames {
    pub(super) fn new(tools: &[ModelTool], dialect: &Dialect) -> Self {
        if !dialect.tool_names_begin_with_letter {
            return Self::default();
        }
        let mut names = Self { begins_with_letter: true, given: HashMap::new() };
        let (fit, unfit): (Vec<&str>, Vec<&str>) =
            tools.iter().map(|tool| tool.name.as_str()).partition(|name| names.fits(name));
        let mut taken: HashSet<String> = fit.into_iter().map(str::to_owned).collect();
        for name in unfit {
            let mut given = prefixed(name);
            while !taken.insert(given.clone()) {
                given = prefixed(&given);
            }
            names.given.insert(name.to_owned(), given);
        }
        names
    }

    /// Returns the name that a tool has on the wire. The conversation may have calls of tools that are not offered any more.
    pub(super) fn on_the_wire<'a>(&'a self, name: &'a str) -> Cow<'a, str> {
        match self.given.get(name) {
            Some(given) => given.as_str().into(),
            None if self.fits(name) => name.into(),
            None => prefixed(name).into(),
        }
    }

    /// Returns the tool's own name, if the name on the wire is another.
    pub(super) fn own(&self, given: &str) -> Option<&str> {
        self.given.iter().find(|(_, name)| *name == given).map(|(own, _)| own.as_str())
    }

    fn fits(&self, name: &str) -> bool {
        !self.begins_with_letter
            || name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
    }
}

fn prefixed(name: &str) -> String {
    format!("_{name}").chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use reqwest::Url;
    use serde_json::json;

    use super::*;
    use crate::openai::dialect::DialectSettings;

    #[test]
    fn names_that_gemini_refuses_are_others_on_the_wire_and_are_found_again() {
        let tool = |name: &str| ModelTool {
            name: name.into(),
            description: String::new(),
            input_schema: json!({"type": "object"}).into(),
        };
        let long = format!("7{}", "a".repeat(63));
        let tools = [tool("search"), tool("3d__render"), tool("_3d__render"), tool("-x"), tool(&long)];
        let names = |base: &str, model: &str| {
            let base = Url::parse(base).unwrap();
            ToolNames::new(&tools, &Dialect::of(&base, model, &DialectSettings::default()))
        };
        let google = "https://generativelanguage.googleapis.com/v1beta/openai";
        for names in [names(google, "m"), names("http://localhost:4000/v1", "Gemini-3-pro")] {
            let shortened = format!("_7{}", "a".repeat(62));
            let expected = ["search", "__3d__render", "_3d__render", "_-x", &shortened];
            for (tool, expected) in tools.iter().zip(expected) {
                assert_eq!(names.on_the_wire(&tool.name), expected);
                assert_eq!(names.own(expected).unwrap_or(expected), tool.name);
            }
            assert_eq!(names.on_the_wire("5_gone"), "_5_gone");
        }
        let names = names("https://api.openai.com/v1", "m");
        assert!(tools.iter().all(|tool| names.on_the_wire(&tool.name) == tool.name));
        assert_eq!(names.own("_-x"), None);
    }
}
