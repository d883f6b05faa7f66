//! Values that are one of a few words, wherever they stand: in an option, a variable, a key or a table of the file.

use fermata_mcp::Processes;
use fermata_tools::{ApprovalMode, ChainMode, Decision, ErrorStrategy, GateMode, ResourcePart, RunBy};

use super::value::{Value, quoted};

/// A closed set of words.
pub(crate) trait Word: Copy + 'static {
    /// What each of them is, with its article.
    const KIND: &'static str;
    /// All of them.
    const ALL: &'static [Self];

    /// How it is written.
    fn word(self) -> &'static str;

    /// The one that is written so.
    fn of(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|candidate| candidate.word() == text);
        found.copied().ok_or_else(|| {
            let words: Vec<&str> = Self::ALL.iter().map(|word| word.word()).collect();
            format!("{text:?} is not {}; use {}", Self::KIND, either(&words))
        })
    }
}

/// `a, b or c`.
pub(super) fn either(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

impl<T: Word> Value for T {
    fn read(text: &str) -> Result<Self, String> {
        T::of(text.trim())
    }

    fn show(&self) -> Option<String> {
        quoted(self.word())
    }
}

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// An object in each line, for programs.
    Json,
}

impl Word for LogFormat {
    const KIND: &'static str = "a format of the log";
    const ALL: &'static [Self] = &[Self::Text, Self::Json];

    fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

impl Word for ApprovalMode {
    const KIND: &'static str = "a way to approve calls";
    const ALL: &'static [Self] = &[Self::Default, Self::Auto];

    fn word(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Auto => "auto",
        }
    }
}

impl Word for GateMode {
    const KIND: &'static str = "a kind of gate";
    const ALL: &'static [Self] = &[Self::Step, Self::Progressive];

    fn word(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Progressive => "progressive",
        }
    }
}

impl Word for ChainMode {
    const KIND: &'static str = "a rule for chains of calls";
    const ALL: &'static [Self] = &[Self::Free, Self::Ask];

    fn word(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Ask => "ask",
        }
    }
}

impl Word for Processes {
    const KIND: &'static str = "a way to share processes";
    const ALL: &'static [Self] = &[Self::Shared, Self::PerOwner, Self::PerChat];

    fn word(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::PerOwner => "per_owner",
            Self::PerChat => "per_chat",
        }
    }
}

impl Word for Decision {
    const KIND: &'static str = "a decision";
    const ALL: &'static [Self] = &[Self::Allow, Self::Ask, Self::Deny];

    fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl Word for RunBy {
    const KIND: &'static str = "who runs tools";
    const ALL: &'static [Self] = &[Self::Server, Self::Mcp, Self::Browser];

    fn word(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Mcp => "mcp",
            Self::Browser => "browser",
        }
    }
}

impl Word for ResourcePart {
    const KIND: &'static str = "a part of a value";
    const ALL: &'static [Self] = &[Self::Whole, Self::Host];

    fn word(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Host => "host",
        }
    }
}

impl Word for ErrorStrategy {
    const KIND: &'static str = "what can follow a failure";
    const ALL: &'static [Self] = &[Self::Retry, Self::GoOn, Self::AskPerson, Self::FailRun];

    fn word(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::GoOn => "go_on",
            Self::AskPerson => "ask_person",
            Self::FailRun => "fail_run",
        }
    }
}
