//! Puts the pieces of the calls of a streamed answer together.
//!
//! By the specification, a call is identified by its `index`. Servers leave the index out, give all calls index 0, leave the id out, give
//! two calls the same id or each piece another, repeat the name in every piece or send it late. So a piece is matched by everything that it
//! has, and the rest follows from the fact that JSON cannot continue after its closing brace.
//!
//! Invariant: a call's start is passed on once, and before its arguments.

use fermata_engine::model::ModelEvent;

use super::{
    chunk::CallPiece,
    failure::Failure,
    surrogate_halves::{SurrogateHalves, without_halves},
};

/// The limit on the calls of an answer. Each piece is compared with all of them.
const MAX_CALLS: usize = 1_000;
/// The limit on the bytes of a call's arguments before its name is known. The engine limits the arguments of the calls that it knows, and
/// it does not know this one.
const LONGEST_UNNAMED: usize = 1 << 20;

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
    halves: SurrogateHalves,
    json: JsonObject,
    /// The number of the chunk that named it.
    named_in: usize,
}

/// A piece in which everything that is empty is absent.
struct Piece {
    index: Option<u64>,
    id: Option<String>,
    tool: Option<String>,
    arguments: String,
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

    /// Returns whether a call has arguments but no name, so that it cannot be passed on.
    pub(super) fn has_nameless(&self) -> bool {
        self.calls.iter().any(|call| call.tool.is_empty() && !call.arguments.is_empty())
    }

    /// Decodes the pieces of one chunk.
    ///
    /// # Errors
    /// Returns an error if the answer makes more calls than any model does, or sends too many arguments for a call that it does not name.
    pub(super) fn decode(
        &mut self,
        pieces: Vec<CallPiece>,
        events: &mut impl Extend<ModelEvent>,
    ) -> Result<(), Failure> {
        self.chunk += 1;
        for piece in pieces {
            let piece = Piece::from(piece);
            let previous = self.find(&piece);
            let key = match previous {
                Some(key) if self.calls[key].continues_with(&piece, self.chunk) => key,
                Some(_) | None => {
                    self.calls.push(Call { index: piece.index, ..Call::default() });
                    self.calls.len() - 1
                }
            };
            // A piece without a name that begins another call is a call of the same tool.
            let tool =
                piece.tool.or_else(|| previous.map(|key| self.calls[key].tool.clone())).unwrap_or_default();
            let call = &mut self.calls[key];
            if call.id.is_empty() {
                call.id = piece.id.unwrap_or_default();
            }
            if call.tool.is_empty() && !tool.is_empty() {
                call.tool.clone_from(&tool);
                call.named_in = self.chunk;
                events.extend([ModelEvent::CallStart { key, tool }]);
                if !call.arguments.is_empty() {
                    events.extend([ModelEvent::CallDelta { key, arguments: call.arguments.clone() }]);
                }
            }
            let arguments = call.append(piece.arguments);
            if !arguments.is_empty() && !call.tool.is_empty() {
                events.extend([ModelEvent::CallDelta { key, arguments }]);
            }
            if call.tool.is_empty() && call.arguments.len() > LONGEST_UNNAMED {
                return Err(Failure::format(format!(
                    "a call without a name has more than {LONGEST_UNNAMED} bytes of arguments"
                )));
            }
            if self.calls.len() > MAX_CALLS {
                return Err(Failure::format(format!("the answer makes more than {MAX_CALLS} calls")));
            }
        }
        Ok(())
    }

    /// Ends the calls. Halves of characters whose other half is missing are replaced.
    pub(super) fn flush(&mut self, events: &mut impl Extend<ModelEvent>) {
        for (key, call) in self.calls.iter_mut().enumerate() {
            if let Some(arguments) = call.halves.flush()
                && !call.tool.is_empty()
            {
                events.extend([ModelEvent::CallDelta { key, arguments }]);
            }
        }
    }

    /// Returns the latest call with the piece's index, or with its id, or the latest of all calls if the piece has neither.
    fn find(&self, piece: &Piece) -> Option<usize> {
        if piece.index.is_some() {
            return self.calls.iter().rposition(|call| call.index == piece.index);
        }
        let by_id = piece.id.as_ref().and_then(|id| self.calls.iter().rposition(|call| call.id == *id));
        by_id.or_else(|| self.calls.len().checked_sub(1))
    }
}

// === impl Call ===

impl Call {
    /// Returns whether the piece belongs to this call. Otherwise it starts another.
    fn continues_with(&self, piece: &Piece, chunk: usize) -> bool {
        let has_same_id = piece.id.as_ref().is_some_and(|id| *id == self.id);
        let has_other_id = piece.id.is_some() && !has_same_id && !self.id.is_empty();
        if let Some(tool) = &piece.tool {
            let is_renamed = !self.tool.is_empty() && (*tool != self.tool || self.named_in == chunk);
            if has_other_id || is_renamed {
                return false;
            }
        }
        // An id alone is no sign of another call: some servers give each piece an id of its own.
        let has_more = has_other_id || !piece.arguments.trim().is_empty();
        let is_repeated = has_same_id && piece.arguments == self.arguments;
        !(self.json.is_closed && has_more) || is_repeated
    }

    /// Appends the arguments, and returns the text that they add to the call.
    fn append(&mut self, arguments: String) -> String {
        // Groq sends `null` for the arguments of a tool that has none.
        if self.json.is_closed || (self.arguments.is_empty() && arguments == "null") {
            return String::new();
        }
        let arguments = self.halves.join(arguments);
        self.arguments.push_str(&arguments);
        self.json.follow(&arguments);
        arguments
    }
}

// === impl Piece ===

impl From<CallPiece> for Piece {
    fn from(piece: CallPiece) -> Self {
        let index = piece.index.and_then(|index| index.as_u64().or_else(|| index.as_str()?.parse().ok()));
        let function = piece.function.unwrap_or_default();
        let (id, tool) = (piece.id.0, without_halves(function.name.0));
        Self {
            index,
            id: if id.is_empty() { None } else { Some(id) },
            tool: if tool.is_empty() { None } else { Some(tool) },
            arguments: function.arguments.0,
        }
    }
}

// === impl JsonObject ===

impl JsonObject {
    fn follow(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_in_string => self.is_escaped = true,
                b'"' => self.is_in_string = !self.is_in_string,
                _ if self.is_in_string => {}
                b'{' => self.depth += 1,
                b'}' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.is_closed = self.depth == 0;
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
