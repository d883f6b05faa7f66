//! Parses incomplete JSON, as clients do to show arguments while they stream.
//!
//! The longest prefix that can be completed is completed and parsed. An open string is closed and an open literal is
//! completed. A key without a value, an incomplete number and a trailing comma are dropped. Malformed JSON is treated as
//! clients treat it, so that the stored message has the value that they show.

use serde_json::Value;

/// Parses a JSON text that may be cut off anywhere. Returns `None` if no value can be made of it.
pub(crate) fn parse(text: &str) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    let completed = complete(text);
    if let Ok(value) = serde_json::from_str(&completed) {
        return Some(value);
    }
    serde_json::from_str(&without_half_surrogate_pair(&completed)?).ok()
}

/// The state of the scanner. The stack of states has the open structures.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Root,
    Finished,
    String,
    Escape,
    Unicode { digits: u8 },
    Literal { start: usize },
    Number,
    ObjectStart,
    Key,
    AfterKey,
    BeforeValue,
    AfterMember,
    AfterMemberComma,
    ArrayStart,
    AfterItem,
    AfterItemComma,
}

const LITERALS: [&str; 3] = ["true", "false", "null"];

struct Scanner<'a> {
    text: &'a str,
    stack: Vec<State>,
    /// The end of the prefix that can be completed, in bytes.
    keep: usize,
}

/// Returns the longest prefix that can be completed, with its end.
fn complete(text: &str) -> String {
    let mut scanner = Scanner { text, stack: vec![State::Root], keep: 0 };
    for (start, c) in text.char_indices() {
        scanner.scan(start, c);
    }
    let mut completed = text[..scanner.keep].to_owned();
    for state in scanner.stack.iter().rev() {
        match state {
            State::String => completed.push('"'),
            State::ObjectStart
            | State::Key
            | State::AfterKey
            | State::BeforeValue
            | State::AfterMember
            | State::AfterMemberComma => completed.push('}'),
            State::ArrayStart | State::AfterItem | State::AfterItemComma => completed.push(']'),
            State::Literal { start } => {
                let rest = LITERALS.iter().find_map(|literal| literal.strip_prefix(&text[*start..]));
                completed.push_str(rest.unwrap_or_default());
            }
            State::Root | State::Finished | State::Escape | State::Unicode { .. } | State::Number => {}
        }
    }
    completed
}

/// Removes the first half of an escaped surrogate pair at the end of a string, which has no value without the second half.
/// Returns `None` if the text has no escape at the end of a string.
fn without_half_surrogate_pair(completed: &str) -> Option<String> {
    let escape = completed.rfind("\\u")?;
    let rest = completed.get(escape + 6..)?;
    if rest.starts_with('"') { Some(format!("{}{rest}", &completed[..escape])) } else { None }
}

// === impl Scanner ===

impl Scanner<'_> {
    /// Reads the character that starts at byte `start`.
    fn scan(&mut self, start: usize, c: char) {
        let end = start + c.len_utf8();
        let Some(&state) = self.stack.last() else { return };
        match state {
            State::Finished => {}
            State::Root => self.value(start, c, State::Finished),
            State::BeforeValue => self.value(start, c, State::AfterMember),
            State::AfterItemComma => self.value(start, c, State::AfterItem),
            State::ObjectStart if c == '}' => self.pop_keeping(end),
            State::ObjectStart | State::AfterMemberComma if c == '"' => self.replace(State::Key),
            State::ObjectStart | State::AfterMemberComma => {}
            State::Key if c == '"' => self.replace(State::AfterKey),
            State::AfterKey if c == ':' => self.replace(State::BeforeValue),
            State::Key | State::AfterKey => {}
            State::AfterMember => self.after_member(end, c),
            State::ArrayStart if c == ']' => self.pop_keeping(end),
            State::ArrayStart => self.value(start, c, State::AfterItem),
            State::AfterItem if c == ',' || c == ']' => self.after_item(end, c),
            State::AfterItem => self.keep = end,
            State::String if c == '"' => self.pop_keeping(end),
            State::String if c == '\\' => self.stack.push(State::Escape),
            State::String => self.keep = end,
            State::Escape if c == 'u' => self.replace(State::Unicode { digits: 0 }),
            State::Escape => self.pop_keeping(end),
            State::Unicode { digits: 3 } if c.is_ascii_hexdigit() => self.pop_keeping(end),
            State::Unicode { digits } if c.is_ascii_hexdigit() => {
                self.replace(State::Unicode { digits: digits + 1 });
            }
            State::Unicode { .. } => {}
            State::Number if c.is_ascii_digit() => self.keep = end,
            State::Number if matches!(c, 'e' | 'E' | '-' | '.') => {}
            State::Literal { start }
                if LITERALS.iter().any(|literal| literal.starts_with(&self.text[start..end])) =>
            {
                self.keep = end;
            }
            State::Number | State::Literal { .. } => {
                self.stack.pop();
                // The character after a number or a literal belongs to the array or object around it.
                match self.stack.last() {
                    Some(State::AfterMember) => self.after_member(end, c),
                    Some(State::AfterItem) => self.after_item(end, c),
                    Some(_) | None => {}
                }
            }
        }
    }

    fn replace(&mut self, state: State) {
        self.stack.pop();
        self.stack.push(state);
    }

    fn pop_keeping(&mut self, end: usize) {
        self.stack.pop();
        self.keep = end;
    }

    /// Begins a value. `next` is the state after it.
    fn value(&mut self, start: usize, c: char, next: State) {
        let state = match c {
            '"' => State::String,
            't' | 'f' | 'n' => State::Literal { start },
            '-' | '0'..='9' => State::Number,
            '{' => State::ObjectStart,
            '[' => State::ArrayStart,
            _ => return,
        };
        if c != '-' {
            self.keep = start + 1;
        }
        self.replace(next);
        self.stack.push(state);
    }

    fn after_member(&mut self, end: usize, c: char) {
        match c {
            ',' => self.replace(State::AfterMemberComma),
            '}' => self.pop_keeping(end),
            _ => {}
        }
    }

    fn after_item(&mut self, end: usize, c: char) {
        match c {
            ',' => self.replace(State::AfterItemComma),
            ']' => self.pop_keeping(end),
            _ => {}
        }
    }
}
