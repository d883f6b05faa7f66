//! Command lines of a POSIX shell, as far as they are one plain command.
//!
//! This module is no shell. It reads words and quotes, and refuses every line that has anything else: operators, substitutions, redirections,
//! patterns, escapes, comments, assignments, line ends, and every character that it does not know. It does not know what a program does with
//! its arguments; a program that runs others (`env`, `xargs`, `sh`, `git -c`) may still run anything.

use std::fmt;

use super::Side;
use crate::reading::{fold, is_invisible, readings};

/// The characters that stand for themselves outside of quotes, besides letters and digits.
const PLAIN: &str = "_-./:,@%+=";

/// A program and its first arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    name: String,
    args: Vec<String>,
}

// === impl Program ===

impl Program {
    /// Creates the pattern of command lines that run this program with these first arguments.
    ///
    /// # Errors
    /// Returns a message if the name is not one plain word.
    pub fn new(name: &str, args: Vec<String>) -> Result<Self, String> {
        if words(name).is_some_and(|words| words == [name]) {
            return Ok(Self { name: name.to_owned(), args });
        }
        Err(format!(
            "{name:?} is not the name of a program; write the first word of the command, such as \"git\", and the next ones in args"
        ))
    }

    /// Returns whether a command line runs the program.
    ///
    /// On the side that allows, the line must be one plain command whose first words are the program and its arguments. On the side that
    /// restricts, a line that is not one plain command runs every program. There the folder and the case of a program make no difference,
    /// and other arguments may stand between the wanted ones.
    pub(super) fn is_run_by(&self, line: &str, side: Side) -> bool {
        match side {
            Side::Allows => words(line).is_some_and(|words| match words.split_first() {
                Some((first, args)) => *first == self.name && args.starts_with(&self.args),
                None => false,
            }),
            Side::Restricts => readings(line).iter().any(|reading| match words(reading) {
                Some(words) => self.may_be_run_by(&words),
                None => true,
            }),
        }
    }

    fn may_be_run_by(&self, words: &[String]) -> bool {
        let Some((first, args)) = words.split_first() else { return false };
        let mut args = args.iter().map(|arg| fold(arg));
        base_name(first) == base_name(&self.name)
            && self.args.iter().map(|wanted| fold(wanted)).all(|wanted| args.any(|arg| arg == wanted))
    }
}

/// Returns whether a line is one plain command, of any program.
pub(super) fn is_plain(line: &str) -> bool {
    readings(line).iter().all(|reading| words(reading).is_some())
}

/// Returns the name of a program without its folder, in a form that is equal for names that a file system may take for each other.
fn base_name(program: &str) -> String {
    fold(program.rsplit('/').next().unwrap_or(program))
}

/// Returns the words of a line; `None` if the line is not one plain command.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        end if end == c => break,
                        '$' | '`' | '\\' | '!' if c == '"' => return None,
                        quoted if is_invisible(quoted) => return None,
                        quoted => word.push(quoted),
                    }
                }
            }
            c if c.is_ascii_alphanumeric() || PLAIN.contains(c) => word.get_or_insert_default().push(c),
            _ => return None,
        }
    }
    words.extend(word);
    // `A=b git` sets a variable.
    if words.first()?.contains('=') { None } else { Some(words) }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "program = {:?}", self.name)?;
        if self.args.is_empty() { Ok(()) } else { write!(f, ", args = {:?}", self.args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str, args: &[&str]) -> Program {
        Program::new(name, args.iter().map(|arg| (*arg).to_owned()).collect()).unwrap()
    }

    fn runs(program: &Program, line: &str) -> (bool, bool) {
        (program.is_run_by(line, Side::Allows), program.is_run_by(line, Side::Restricts))
    }

    #[test]
    fn a_line_is_split_into_words_as_a_shell_does() {
        for (line, expected) in [
            ("git", vec!["git"]),
            (" git  status ", vec!["git", "status"]),
            ("git commit -m 'it''s; done' \"a b\"", vec!["git", "commit", "-m", "its; done", "a b"]),
            ("g\"i\"t --author='A <a@b.c>' ''", vec!["git", "--author=A <a@b.c>", ""]),
            (
                "git log HEAD@1..v1.0 -n10 -- src/a+b.rs,v",
                vec!["git", "log", "HEAD@1..v1.0", "-n10", "--", "src/a+b.rs,v"],
            ),
            ("git commit -m 'ü $HOME `x` \\ !'", vec!["git", "commit", "-m", "ü $HOME `x` \\ !"]),
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn a_program_is_the_first_word_and_its_arguments_the_next_ones() {
        let (git, status) = (program("git", &[]), program("git", &["status"]));
        for (line, of_git, of_status) in [
            ("git", (true, true), (false, false)),
            ("git status -s", (true, true), (true, true)),
            ("git 'status'", (true, true), (true, true)),
            ("git -C /tmp status", (true, true), (false, true)),
            ("git statuses", (true, true), (false, false)),
            ("/usr/bin/git status", (false, true), (false, true)),
            ("GIT STATUS", (false, true), (false, true)),
            ("gitk status", (false, false), (false, false)),
            ("echo git status", (false, false), (false, false)),
        ] {
            assert_eq!(runs(&git, line), of_git, "{line}");
            assert_eq!(runs(&status, line), of_status, "{line}");
        }
    }

    #[test]
    fn a_program_has_a_name_of_one_word() {
        assert_eq!(program("/usr/bin/git", &[]).to_string(), r#"program = "/usr/bin/git""#);
        assert_eq!(program("git", &["log"]).to_string(), r#"program = "git", args = ["log"]"#);
        for bad in ["", " ", "git status", " git", "'git'", "git*", "a=b", "git;", "$SHELL", "ｇit"] {
            assert!(Program::new(bad, Vec::new()).unwrap_err().contains("in args"), "{bad:?}");
        }
    }
}
