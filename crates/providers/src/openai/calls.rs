//! Puts the pieces of the calls of a streamed answer together.
//!
//! By the specification, a call is identified by its `index`, and its arguments are what its pieces add up to. Servers leave the index out,
//! give all calls index 0, leave the id out, give two calls the same id or each piece another, repeat the name in every piece, cut it or
//! send it late. Some send the whole call once more after its pieces, or all of the arguments so far in each piece, or `{}` before them, or
//! a brace or a closing tag behind them, or JSON in a JSON string.
//!
//! So a piece is matched by everything that it has ([`Calls::find`] and [`Call::continues_with`] are the one place for that), and the rest
//! follows from the fact that JSON cannot continue after its closing brace.
//!
//! Invariants: a call's start is passed on once, and before its arguments. A call that may repeat another one is passed on only when it has
//! turned out not to. Each call that has begun is passed on, even without a name.

use fermata_engine::model::ModelEvent;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{
    chunk::CallPiece,
    failure::Failure,
    provider_metadata::{Attached, EXTRA_CONTENT, PROVIDER_SPECIFIC_FIELDS},
    surrogate_halves::{SurrogateHalves, without_halves},
};

/// The limit on the calls of an answer. Each piece is compared with all of them.
const MAX_CALLS: usize = 1_000;
/// The limit on the bytes of a call's arguments before it is passed on. The engine limits the arguments of the calls that it knows, and it
/// does not know this one.
const LONGEST_UNKNOWN: usize = 1 << 20;
/// The name of a call that has none. There is no such tool, so the model learns which tools there are.
const UNNAMED: &str = "unnamed";

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// The number of chunks that were decoded. Two named pieces in one chunk are two calls.
    chunk: usize,
}

/// A call that is being made.
#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    tool: String,
    arguments: String,
    attached: Attached,
    /// The arguments if the last pieces had all of them so far, as long as they could also be pieces that add up.
    cumulative: Option<String>,
    halves: SurrogateHalves,
    json: JsonObject,
    /// The number of the chunk that named it.
    named_in: usize,
    /// The call that this one may repeat.
    repeats: Option<usize>,
    /// `true` if it was passed on.
    is_begun: bool,
    /// The number of bytes of the arguments that were passed on.
    passed_on: usize,
}

/// A piece that leaves out everything empty.
struct Piece {
    index: Option<u64>,
    id: Option<String>,
    tool: Option<String>,
    arguments: String,
    attached: Attached,
}

/// A scanner that notices when the object of a JSON text is closed.
#[derive(Debug, Default)]
struct JsonObject {
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    is_closed: bool,
}

// === impl Calls ===

impl Calls {
    /// Returns whether the answer has no calls.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Decodes the pieces of one chunk.
    ///
    /// # Errors
    /// Returns an error if the answer makes more calls than any model does, or sends too many arguments for a call that cannot be passed on.
    pub(super) fn decode(
        &mut self,
        pieces: Vec<CallPiece>,
        events: &mut impl Extend<ModelEvent>,
    ) -> Result<(), Failure> {
        self.chunk += 1;
        for piece in pieces {
            let piece = Piece::from(piece);
            let key = self.take(piece);
            self.pass_on(key, events);
            let call = &self.calls[key];
            if call.arguments.len() - call.passed_on > LONGEST_UNKNOWN {
                return Err(Failure::format(format!(
                    "a call that has no name or may repeat another has more than {LONGEST_UNKNOWN} bytes of arguments"
                )));
            }
            if self.calls.len() > MAX_CALLS {
                return Err(Failure::format(format!("the answer makes more than {MAX_CALLS} calls")));
            }
        }
        Ok(())
    }

    /// Ends the calls of an answer with this metadata. Halves of characters whose other half is missing are replaced.
    pub(super) fn flush(&mut self, attached: &Attached, events: &mut impl Extend<ModelEvent>) {
        for key in 0..self.calls.len() {
            let call = &mut self.calls[key];
            if let Some(rest) = call.halves.flush() {
                call.arguments.push_str(&rest);
            }
            if self.is_repetition(key) || self.calls[key].is_nothing() {
                continue;
            }
            let call = &mut self.calls[key];
            call.repeats = None;
            if call.tool.is_empty() {
                UNNAMED.clone_into(&mut call.tool);
            }
            if let Some(all) = call.cumulative.take()
                && !call.json.is_closed
            {
                call.replace(all);
            }
            if let Some(inner) = json_in_string(&call.arguments) {
                call.arguments = inner;
            }
            call.begin(key, events);
            call.pass_rest_on(key, events);
            if let Some(metadata) = call.attached.keep_of_call(&call.id, attached) {
                events.extend([ModelEvent::ProviderMetadata { key: Some(key), metadata }]);
            }
        }
    }

    /// Adds a piece to the call that it belongs to, which may be a new one. Returns the key of the call.
    fn take(&mut self, piece: Piece) -> usize {
        let previous = self.find(&piece);
        let key = match previous {
            Some(key) if self.calls[key].continues_with(&piece, self.chunk) => key,
            Some(_) | None => {
                self.calls.push(Call { index: piece.index, ..Call::default() });
                self.calls.len() - 1
            }
        };
        let begun_before = previous.filter(|previous| *previous != key);
        // A piece without a name that begins another call is a call of the same tool.
        let tool = piece.tool.or_else(|| begun_before.map(|previous| self.calls[previous].tool.clone()));
        let repeats = begun_before.filter(|previous| {
            let previous = &self.calls[*previous];
            let has_same_index = piece.index.is_some() && piece.index == previous.index;
            let has_same_id = piece.id.as_ref().is_none_or(|id| *id == previous.id);
            let is_complete = previous.json.is_closed && previous.named_in < self.chunk;
            is_complete && (has_same_index || has_same_id) && tool.as_ref() == Some(&previous.tool)
        });
        let call = &mut self.calls[key];
        call.repeats = call.repeats.or(repeats);
        if call.id.is_empty() {
            call.id = piece.id.unwrap_or_default();
        }
        if let Some(tool) = tool {
            call.add_name(&tool, self.chunk);
        }
        call.attached.extend(piece.attached);
        call.append(piece.arguments);
        key
    }

    /// Returns the latest call with the piece's index, or with its id, or the latest of all calls if the piece has neither.
    fn find(&self, piece: &Piece) -> Option<usize> {
        if let Some(index) = piece.index
            && let Some(found) = self.calls.iter().rposition(|call| call.index == Some(index))
        {
            return Some(found);
        }
        if let Some(id) = &piece.id
            && let Some(found) = self.calls.iter().rposition(|call| call.id == *id)
        {
            return Some(found);
        }
        if piece.index.is_none() { self.calls.len().checked_sub(1) } else { None }
    }

    /// Passes on the known part of a call, if it is known to be one.
    fn pass_on(&mut self, key: usize, events: &mut impl Extend<ModelEvent>) {
        if self.calls[key].repeats.is_some() {
            // Whether it is the same call is known when it is complete.
            if !self.calls[key].json.is_closed || self.is_repetition(key) {
                return;
            }
            self.calls[key].repeats = None;
        }
        // Where a call has arguments, those before it have got their names.
        for earlier in 0..key {
            let call = &mut self.calls[earlier];
            if !call.tool.is_empty() && call.repeats.is_none() {
                call.begin(earlier, events);
            }
        }
        let call = &mut self.calls[key];
        if call.tool.is_empty() || call.is_held() {
            return;
        }
        call.begin(key, events);
        call.pass_rest_on(key, events);
    }

    /// Returns whether a call equals the one that it may repeat, or the beginning of it.
    fn is_repetition(&self, key: usize) -> bool {
        let call = &self.calls[key];
        let Some(repeated) = call.repeats.map(|key| &self.calls[key]) else { return false };
        let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
        repeated.arguments.starts_with(call.arguments.trim_end())
            || parse(&call.arguments).is_some_and(|arguments| parse(&repeated.arguments) == Some(arguments))
    }
}

// === impl Call ===

impl Call {
    /// Returns whether the piece belongs to this call. Otherwise it starts another.
    fn continues_with(&self, piece: &Piece, chunk: usize) -> bool {
        let has_other_index = piece.index.is_some() && self.index.is_some() && piece.index != self.index;
        let has_same_id = piece.id.as_ref().is_some_and(|id| *id == self.id);
        let has_other_id = piece.id.is_some() && !has_same_id && !self.id.is_empty();
        if let Some(tool) = &piece.tool {
            let is_renamed = !self.tool.is_empty()
                && (self.named_in == chunk || *tool != self.tool && !self.arguments.is_empty());
            if has_other_id || has_other_index || is_renamed {
                return false;
            }
        }
        if !self.json.is_closed {
            return true;
        }
        let arguments = piece.arguments.trim();
        if arguments.is_empty() || !arguments.starts_with(['{', '"']) {
            // Nothing, or what is left over behind the arguments. But an id of its own is a call without arguments.
            return !(has_other_id || has_other_index);
        }
        // An id alone is no sign of another call: some servers give each piece an id of its own.
        let was_empty = self.is_empty_object() && self.passed_on == 0 && piece.index.is_some();
        !has_other_id && !has_other_index && (was_empty || arguments == self.arguments.trim())
    }

    /// Adds a name, or a piece of one, which come before any arguments.
    fn add_name(&mut self, name: &str, chunk: usize) {
        if self.tool.is_empty() || name.starts_with(&self.tool) {
            name.clone_into(&mut self.tool);
            self.named_in = chunk;
        } else if self.arguments.is_empty() && !self.is_begun && name != self.tool {
            self.tool.push_str(name);
        }
    }

    /// Appends a piece of the arguments, or its new part.
    fn append(&mut self, piece: String) {
        // Groq sends `null` for the arguments of a tool that has none.
        if self.arguments.is_empty() && piece == "null" {
            return;
        }
        if self.json.is_closed {
            let is_replaced =
                self.is_empty_object() && self.passed_on == 0 && piece.trim_start().starts_with(['{', '"']);
            if !is_replaced || piece.trim() == "{}" {
                return;
            }
            return self.replace(piece);
        }
        let all = match self.cumulative.take() {
            Some(before) if piece.starts_with(&before) => Some(piece.clone()),
            Some(before) => Some(before + &piece),
            None if !self.arguments.is_empty() && piece.starts_with(&self.arguments) => Some(piece.clone()),
            None => None,
        };
        if let Some(all) = all.filter(|all| is_json_so_far(all)) {
            if !is_json_so_far(&format!("{}{piece}", self.arguments)) {
                return self.replace(all);
            }
            self.cumulative = Some(all);
        }
        self.add(piece);
    }

    fn add(&mut self, piece: String) {
        let mut piece = self.halves.join(piece);
        let end = self.json.follow(&piece);
        piece.truncate(end);
        self.arguments.push_str(&piece);
    }

    fn replace(&mut self, arguments: String) {
        (self.arguments, self.json) = (String::new(), JsonObject::default());
        self.halves = SurrogateHalves::default();
        self.add(arguments);
    }

    /// Returns whether the arguments are kept back, because they may turn out to be others.
    fn is_held(&self) -> bool {
        let may_be_others = self.is_empty_object() || self.cumulative.is_some() && !self.json.is_closed;
        self.arguments.is_empty() || may_be_others || self.arguments.trim_start().starts_with('"')
    }

    fn is_empty_object(&self) -> bool {
        self.arguments.trim() == "{}"
    }

    /// Returns whether nothing but an id or an index has come.
    fn is_nothing(&self) -> bool {
        self.tool.is_empty() && self.arguments.is_empty()
    }

    fn begin(&mut self, key: usize, events: &mut impl Extend<ModelEvent>) {
        if !std::mem::replace(&mut self.is_begun, true) {
            events.extend([ModelEvent::CallStart { key, tool: self.tool.clone() }]);
        }
    }

    fn pass_rest_on(&mut self, key: usize, events: &mut impl Extend<ModelEvent>) {
        let arguments = self.arguments[self.passed_on..].to_owned();
        self.passed_on = self.arguments.len();
        if !arguments.is_empty() {
            events.extend([ModelEvent::CallDelta { key, arguments }]);
        }
    }
}

/// Returns whether a text is JSON, or the beginning of it.
fn is_json_so_far(text: &str) -> bool {
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => true,
        Err(error) => error.is_eof(),
    }
}

/// Returns the JSON object in a JSON string, which may itself be in one.
fn json_in_string(text: &str) -> Option<String> {
    let inner: String = serde_json::from_str(text).ok()?;
    match inner.trim_start().as_bytes().first() {
        Some(b'"') => json_in_string(&inner),
        Some(b'{') => Some(inner),
        _ => None,
    }
}

// === impl Piece ===

impl From<CallPiece> for Piece {
    fn from(piece: CallPiece) -> Self {
        let index = piece.index.and_then(|index| index.as_u64().or_else(|| index.as_str()?.parse().ok()));
        let mut attached = Attached::default();
        attached.add(EXTRA_CONTENT, piece.extra_content);
        attached.add(PROVIDER_SPECIFIC_FIELDS, piece.provider_specific_fields);
        let function = piece.function.unwrap_or_default();
        let (id, tool) = (piece.id.0, without_halves(function.name.0));
        Self {
            index,
            id: if id.is_empty() { None } else { Some(id) },
            tool: if tool.is_empty() { None } else { Some(tool) },
            arguments: function.arguments.0,
            attached,
        }
    }
}

// === impl JsonObject ===

impl JsonObject {
    /// Follows a piece of the text. Returns the number of bytes up to the end of the object, or that of all if it does not end here.
    fn follow(&mut self, text: &str) -> usize {
        for (index, byte) in text.bytes().enumerate() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_in_string => self.is_escaped = true,
                b'"' => self.is_in_string = !self.is_in_string,
                _ if self.is_in_string => {}
                b'{' => self.depth += 1,
                b'}' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        self.is_closed = true;
                        return index + 1;
                    }
                }
                _ => {}
            }
        }
        text.len()
    }
}

#[cfg(test)]
mod tests;
