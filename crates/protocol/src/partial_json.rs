//! Reads the beginning of a JSON text, as clients do to show arguments while they stream.
//!
//! The longest beginning that can be closed is closed and read: an open string is ended, an open literal completed; a key
//! without a value, half a number and a comma at the end are dropped. What is no JSON at all gives nothing. What clients
//! make of broken JSON is followed too, so that the record shows what they show.

use serde_json::Value;

/// The value of a JSON text that may be cut anywhere.
pub(crate) fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().or_else(|| {
        let repaired = close(text);
        serde_json::from_str(&repaired)
            .ok()
            .or_else(|| serde_json::from_str(&without_half_pair(&repaired)?).ok())
    })
}

/// Where the scan stands; the stack of these is what is still to be closed.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Root,
    Finished,
    Text,
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

struct Scan<'a> {
    text: &'a str,
    stack: Vec<Place>,
    /// How much of the text can be closed from here.
    keep: usize,
}

fn close(text: &str) -> String {
    let mut scan = Scan { text, stack: vec![Place::Root], keep: 0 };
    for (at, c) in text.char_indices() {
        scan.step(at, c);
    }
    scan.closed()
}

/// A text that ends in half of an escaped surrogate pair has no value until the other half is there.
fn without_half_pair(repaired: &str) -> Option<String> {
    let at = repaired.rfind("\\u")?;
    let rest = repaired.get(at + 6..)?;
    rest.starts_with('"').then(|| format!("{}{rest}", &repaired[..at]))
}

// === impl Scan ===

impl Scan<'_> {
    fn step(&mut self, at: usize, c: char) {
        let end = at + c.len_utf8();
        let Some(&place) = self.stack.last() else { return };
        match place {
            Place::Finished => {}
            Place::Root => self.value(at, c, Place::Finished),
            Place::BeforeValue => self.value(at, c, Place::AfterMember),
            Place::AfterItemComma => self.value(at, c, Place::AfterItem),
            Place::ObjectStart if c == '}' => self.pop_keeping(end),
            Place::ObjectStart | Place::AfterMemberComma if c == '"' => self.swap(Place::Key),
            Place::ObjectStart | Place::AfterMemberComma => {}
            Place::Key if c == '"' => self.swap(Place::AfterKey),
            Place::AfterKey if c == ':' => self.swap(Place::BeforeValue),
            Place::Key | Place::AfterKey => {}
            Place::AfterMember => self.after_member(end, c),
            Place::ArrayStart if c == ']' => self.pop_keeping(end),
            Place::ArrayStart => self.value(at, c, Place::AfterItem),
            Place::AfterItem if c == ',' || c == ']' => self.after_item(end, c),
            Place::AfterItem => self.keep = end,
            Place::Text => self.text_char(end, c),
            Place::Escape => self.escape(end, c),
            Place::Unicode { digits } => self.unicode(end, c, digits),
            Place::Number => self.number(end, c),
            Place::Literal { start } => self.literal(start, end, c),
        }
    }

    fn swap(&mut self, place: Place) {
        self.stack.pop();
        self.stack.push(place);
    }

    fn pop_keeping(&mut self, end: usize) {
        self.stack.pop();
        self.keep = end;
    }

    fn value(&mut self, at: usize, c: char, then: Place) {
        let place = match c {
            '"' => Place::Text,
            't' | 'f' | 'n' => Place::Literal { start: at },
            '-' | '0'..='9' => Place::Number,
            '{' => Place::ObjectStart,
            '[' => Place::ArrayStart,
            _ => return,
        };
        if c != '-' {
            self.keep = at + 1;
        }
        self.swap(then);
        self.stack.push(place);
    }

    fn after_member(&mut self, end: usize, c: char) {
        match c {
            ',' => self.swap(Place::AfterMemberComma),
            '}' => self.pop_keeping(end),
            _ => {}
        }
    }

    fn after_item(&mut self, end: usize, c: char) {
        match c {
            ',' => self.swap(Place::AfterItemComma),
            ']' => self.pop_keeping(end),
            _ => {}
        }
    }

    fn text_char(&mut self, end: usize, c: char) {
        match c {
            '"' => self.pop_keeping(end),
            '\\' => self.stack.push(Place::Escape),
            _ => self.keep = end,
        }
    }

    fn escape(&mut self, end: usize, c: char) {
        if c == 'u' {
            self.swap(Place::Unicode { digits: 0 });
        } else {
            self.pop_keeping(end);
        }
    }

    fn unicode(&mut self, end: usize, c: char, digits: u8) {
        match (c.is_ascii_hexdigit(), digits) {
            (true, 3) => self.pop_keeping(end),
            (true, _) => self.swap(Place::Unicode { digits: digits + 1 }),
            (false, _) => {}
        }
    }

    fn number(&mut self, end: usize, c: char) {
        match c {
            '0'..='9' => self.keep = end,
            'e' | 'E' | '-' | '.' => {}
            _ => {
                self.stack.pop();
                self.after_scalar(end, c);
            }
        }
    }

    fn literal(&mut self, start: usize, end: usize, c: char) {
        let so_far = &self.text[start..end];
        if LITERALS.iter().any(|literal| literal.starts_with(so_far)) {
            self.keep = end;
        } else {
            self.stack.pop();
            self.after_scalar(end, c);
        }
    }

    /// What ends a number or a literal belongs to the list or object around it.
    fn after_scalar(&mut self, end: usize, c: char) {
        match self.stack.last() {
            Some(Place::AfterMember) => self.after_member(end, c),
            Some(Place::AfterItem) => self.after_item(end, c),
            Some(_) | None => {}
        }
    }

    fn closed(self) -> String {
        let mut text = self.text[..self.keep].to_owned();
        for place in self.stack.iter().rev() {
            match place {
                Place::Text => text.push('"'),
                Place::ObjectStart
                | Place::Key
                | Place::AfterKey
                | Place::BeforeValue
                | Place::AfterMember
                | Place::AfterMemberComma => text.push('}'),
                Place::ArrayStart | Place::AfterItem | Place::AfterItemComma => text.push(']'),
                Place::Literal { start } => text.push_str(rest_of_literal(&self.text[*start..])),
                Place::Root | Place::Finished | Place::Escape | Place::Unicode { .. } | Place::Number => {}
            }
        }
        text
    }
}

fn rest_of_literal(so_far: &str) -> &'static str {
    LITERALS.iter().find_map(|literal| literal.strip_prefix(so_far)).unwrap_or_default()
}
