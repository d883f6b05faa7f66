//! Which piece of a streamed answer belongs to which call.
//!
//! By the book, a call is known by its `index`. Servers leave the index out, give all calls index 0, leave the id out, give
//! two calls the same id or each piece another, repeat the name in every piece or send it late. So a piece is matched with
//! all there is, and what settles the rest is that JSON cannot go on after its closing brace.
//!
//! Invariant: a call's start is passed on before its arguments, and once.

use fermata_engine::model::ModelEvent;

use super::{
    failure::Failure,
    response::CallPiece,
    surrogate_halves::{SurrogateHalves, without_halves},
};

/// Calls of one answer. Each piece is compared with all of them.
const MOST_CALLS: usize = 1_000;
/// Bytes of the arguments of a call whose name has not come yet. The engine has not heard of it, so it is counted here.
const LONGEST_UNNAMED: usize = 1 << 20;

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// Counts the chunks: two named pieces in one chunk are two calls.
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
    /// The chunk that named it.
    named_in: usize,
}

/// A piece with what is empty taken as absent.
struct Piece {
    index: Option<u64>,
    id: Option<String>,
    tool: Option<String>,
    arguments: String,
}

/// Follows JSON text far enough to know when its object is closed.
#[derive(Debug, Default)]
struct JsonObject {
    depth: usize,
    in_string: bool,
    escaped: bool,
    closed: bool,
}

// === impl Calls ===

impl Calls {
    /// Whether there were any.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether a call has arguments but was never named, and so cannot be told of.
    pub(super) fn has_nameless(&self) -> bool {
        self.calls.iter().any(|call| call.tool.is_empty() && !call.arguments.is_empty())
    }

    /// Takes the pieces of one chunk.
    ///
    /// # Errors
    /// Where the answer makes more calls than any model does, or goes on and on about one that it does not name.
    pub(super) fn take(
        &mut self,
        pieces: Vec<CallPiece>,
        events: &mut impl Extend<ModelEvent>,
    ) -> Result<(), Failure> {
        self.chunk += 1;
        for piece in pieces {
            let call = self.take_piece(piece.into(), events);
            if call.tool.is_empty() && call.arguments.len() > LONGEST_UNNAMED {
                let words =
                    format!("a call without a name has more than {LONGEST_UNNAMED} bytes of arguments");
                return Err(Failure::format(words));
            }
            if self.calls.len() > MOST_CALLS {
                return Err(Failure::format(format!("the answer makes more than {MOST_CALLS} calls")));
            }
        }
        Ok(())
    }

    fn take_piece(&mut self, piece: Piece, events: &mut impl Extend<ModelEvent>) -> &Call {
        let before = self.find(&piece);
        let goes_on = before.filter(|key| self.calls[*key].goes_on_with(&piece, self.chunk));
        let key = goes_on.unwrap_or_else(|| self.open(&piece));
        let tool =
            piece.tool.or_else(|| Some(self.calls[before?].tool.clone()).filter(|tool| !tool.is_empty()));
        let call = &mut self.calls[key];
        if call.id.is_empty() {
            call.id = piece.id.unwrap_or_default();
        }
        if let (true, Some(tool)) = (call.tool.is_empty(), tool) {
            call.tool.clone_from(&tool);
            call.named_in = self.chunk;
            events.extend([ModelEvent::CallStart { key, tool }]);
            if !call.arguments.is_empty() {
                events.extend([ModelEvent::CallDelta { key, arguments: call.arguments.clone() }]);
            }
        }
        if let Some(arguments) = call.accept(piece.arguments).filter(|_| !call.tool.is_empty()) {
            events.extend([ModelEvent::CallDelta { key, arguments }]);
        }
        call
    }

    /// Gives up on halves of characters whose other half did not come.
    pub(super) fn end(&mut self, events: &mut impl Extend<ModelEvent>) {
        for (key, call) in self.calls.iter_mut().enumerate() {
            let rest = call.halves.flush().filter(|_| !call.tool.is_empty());
            events.extend(rest.map(|arguments| ModelEvent::CallDelta { key, arguments }));
        }
    }

    /// The latest call with the piece's index, or with its id, or the latest of all for a piece with neither.
    fn find(&self, piece: &Piece) -> Option<usize> {
        if piece.index.is_some() {
            return self.calls.iter().rposition(|call| call.index == piece.index);
        }
        let by_id = piece.id.as_ref().and_then(|id| self.calls.iter().rposition(|call| call.id == *id));
        by_id.or_else(|| self.calls.len().checked_sub(1))
    }

    fn open(&mut self, piece: &Piece) -> usize {
        self.calls.push(Call { index: piece.index, ..Call::default() });
        self.calls.len() - 1
    }
}

// === impl Call ===

impl Call {
    /// Whether the piece is more of this call, rather than the start of another.
    fn goes_on_with(&self, piece: &Piece, chunk: usize) -> bool {
        let same_id = piece.id.as_ref().is_some_and(|id| *id == self.id);
        let other_id = piece.id.is_some() && !same_id && !self.id.is_empty();
        if let Some(tool) = &piece.tool {
            let renamed = !self.tool.is_empty() && (*tool != self.tool || self.named_in == chunk);
            if other_id || renamed {
                return false;
            }
        }
        // An id alone is no sign of another call: some servers give each piece an id of its own.
        let is_more = other_id || !piece.arguments.trim().is_empty();
        let is_repeated = same_id && piece.arguments == self.arguments;
        !(self.json.closed && is_more) || is_repeated
    }

    /// Keeps the arguments and gives back what they come to, where they say anything.
    fn accept(&mut self, arguments: String) -> Option<String> {
        // Groq gives `null` for the arguments of a tool that has none.
        let says_nothing = arguments.is_empty() || (self.arguments.is_empty() && arguments == "null");
        if says_nothing || self.json.closed {
            return None;
        }
        let arguments = self.halves.join(arguments);
        self.arguments.push_str(&arguments);
        self.json.follow(&arguments);
        Some(arguments).filter(|arguments| !arguments.is_empty())
    }
}

// === impl Piece ===

impl From<CallPiece> for Piece {
    fn from(piece: CallPiece) -> Self {
        let index = piece.index.and_then(|index| index.as_u64().or_else(|| index.as_str()?.parse().ok()));
        let function = piece.function.unwrap_or_default();
        Self {
            index,
            id: Some(piece.id.0).filter(|id| !id.is_empty()),
            tool: Some(without_halves(function.name.0)).filter(|name| !name.is_empty()),
            arguments: function.arguments.0,
        }
    }
}

// === impl JsonObject ===

impl JsonObject {
    fn follow(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' => self.depth += 1,
                b'}' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.closed = self.depth == 0;
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::*;

    /// Takes one chunk per item, each a list of pieces.
    fn check(chunks: Value, expected: Expect) {
        let mut calls = Calls::default();
        let mut events = Vec::new();
        for chunk in chunks.as_array().unwrap() {
            calls.take(serde_json::from_value(chunk.clone()).unwrap(), &mut events).unwrap();
        }
        let lines: String = events
            .iter()
            .map(|event| match event {
                ModelEvent::CallStart { key, tool } => format!("start {key} {tool}\n"),
                ModelEvent::CallDelta { key, arguments } => format!("delta {key} {arguments}\n"),
                other => panic!("{other:?}"),
            })
            .collect();
        expected.assert_eq(&lines);
    }

    fn piece(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: Option<&str>) -> Value {
        json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
    }

    #[test]
    fn interleaved_calls_are_kept_apart_by_index() {
        check(
            json!([
                [piece(Some(0), Some("a"), Some("f"), Some(""))],
                [piece(Some(1), Some("b"), Some("g"), Some(""))],
                [piece(Some(0), None, None, Some("{\"x\""))],
                [piece(Some(1), None, None, Some("{}"))],
                [piece(Some(0), None, None, Some(":1}"))],
            ]),
            expect![[r#"
                start 0 f
                start 1 g
                delta 0 {"x"
                delta 1 {}
                delta 0 :1}
            "#]],
        );
    }

    #[test]
    fn a_new_id_and_name_is_a_new_call_though_the_index_is_the_same() {
        check(
            json!([
                [piece(Some(0), Some("a"), Some("f"), Some("{}"))],
                [piece(Some(0), Some("b"), Some("f"), Some("{}"))],
                [piece(Some(0), Some("c"), Some("g"), None)],
            ]),
            expect![[r#"
                start 0 f
                delta 0 {}
                start 1 f
                delta 1 {}
                start 2 g
            "#]],
        );
    }

    #[test]
    fn calls_without_index_and_id_are_told_apart_by_name_and_by_closed_arguments() {
        check(
            json!([
                [piece(None, None, Some("f"), Some("{\"x\":"))],
                [piece(None, None, None, Some("\"}\"}"))],
                [piece(None, Some(""), Some("f"), Some("{}"))],
                [piece(None, Some(""), Some("g"), Some("{}"))],
                [piece(None, Some(""), Some(""), Some("{\"y\":2}"))],
            ]),
            expect![[r#"
                start 0 f
                delta 0 {"x":
                delta 0 "}"}
                start 1 f
                delta 1 {}
                start 2 g
                delta 2 {}
                start 3 g
                delta 3 {"y":2}
            "#]],
        );
    }

    #[test]
    fn two_named_pieces_in_one_chunk_are_two_calls() {
        check(
            json!([[piece(None, None, Some("f"), None), piece(None, None, Some("f"), None)]]),
            expect![[r#"
                start 0 f
                start 1 f
            "#]],
        );
    }

    #[test]
    fn pieces_without_index_are_matched_by_id() {
        check(
            json!([
                [piece(None, Some("a"), Some("f"), Some("{")), piece(None, Some("b"), Some("g"), Some("{"))],
                [piece(None, Some("a"), None, Some("}"))],
                [piece(None, Some("b"), None, Some("}"))],
            ]),
            expect![[r#"
                start 0 f
                delta 0 {
                start 1 g
                delta 1 {
                delta 0 }
                delta 1 }
            "#]],
        );
    }

    #[test]
    fn a_name_in_each_piece_and_an_id_of_its_own_for_each_piece_change_nothing() {
        check(
            json!([
                [piece(Some(0), Some("a"), Some("f"), Some("{\"x"))],
                [piece(Some(0), Some("a"), Some("f"), Some("\":"))],
                [piece(Some(0), None, Some("f"), Some("1}"))],
                [piece(Some(0), Some("a"), Some("f"), Some(""))],
                [piece(Some(1), Some("r1"), Some("g"), Some("{"))],
                [piece(Some(1), Some("r2"), None, Some("}"))],
            ]),
            expect![[r#"
                start 0 f
                delta 0 {"x
                delta 0 ":
                delta 0 1}
                start 1 g
                delta 1 {
                delta 1 }
            "#]],
        );
    }

    #[test]
    fn arguments_that_come_before_the_name_are_kept_for_it() {
        check(
            json!([
                [piece(Some(0), Some("a"), None, None)],
                [piece(Some(0), None, None, Some("{\"x\":"))],
                [piece(Some(0), None, Some("f"), Some("1}"))],
            ]),
            expect![[r#"
                start 0 f
                delta 0 {"x":
                delta 0 1}
            "#]],
        );
    }

    #[test]
    fn one_id_for_two_calls_does_not_join_them() {
        check(
            json!([
                [piece(Some(0), Some("x"), Some("f"), Some("{\"n\":1}"))],
                [piece(Some(1), Some("x"), Some("f"), Some("{\"n\":2}"))],
                [piece(Some(1), Some("x"), Some("f"), Some("{\"n\":3}"))],
            ]),
            expect![[r#"
                start 0 f
                delta 0 {"n":1}
                start 1 f
                delta 1 {"n":2}
                start 2 f
                delta 2 {"n":3}
            "#]],
        );
    }

    #[test]
    fn a_call_that_is_sent_again_whole_under_its_id_is_one_call() {
        check(
            json!([
                [piece(Some(0), Some("x"), Some("f"), Some("{\"n\":1}"))],
                [piece(Some(0), Some("x"), Some("f"), Some("{\"n\":1}"))],
            ]),
            expect![[r#"
                start 0 f
                delta 0 {"n":1}
            "#]],
        );
    }

    #[test]
    fn null_arguments_are_none() {
        check(
            json!([
                [piece(Some(0), Some("a"), Some("f"), None)],
                [piece(Some(1), Some("b"), Some("g"), Some("null"))],
                [{"index": 2, "id": "c", "function": {"name": "h", "arguments": {"x": 1}}}],
                [{"index": 3, "id": "d", "function": null}],
            ]),
            expect![[r#"
                start 0 f
                start 1 g
                start 2 h
                delta 2 {"x":1}
            "#]],
        );
    }

    #[test]
    fn arguments_that_were_never_named_are_noticed() {
        let mut calls = Calls::default();
        let mut events = Vec::new();
        let pieces = json!([{"index": 0, "function": {"arguments": "{}"}}]);
        calls.take(serde_json::from_value(pieces).unwrap(), &mut events).unwrap();
        assert!(calls.has_nameless() && events.is_empty());
    }

    fn refusal(chunks: impl IntoIterator<Item = Value>) -> Option<Failure> {
        let mut calls = Calls::default();
        chunks.into_iter().find_map(|chunk| {
            calls.take(serde_json::from_value(json!([chunk])).unwrap(), &mut Vec::new()).err()
        })
    }

    #[test]
    fn an_answer_makes_a_thousand_calls_and_no_more() {
        let calls = |count| (0..count).map(|index| piece(Some(index), None, Some("f"), Some("{}")));
        assert!(refusal(calls(1_000)).is_none());
        assert!(refusal(calls(1_001)).is_some());
        let unnamed = (0..1_001).map(|index| piece(Some(index), None, None, None));
        assert!(refusal(unnamed).is_some(), "calls that nobody hears of count, too");
    }

    #[test]
    fn arguments_without_a_name_do_not_grow_for_ever() {
        let text = "x".repeat(LONGEST_UNNAMED / 4);
        let pieces = |name| {
            (0..5).map({
                let text = text.clone();
                move |_| piece(Some(0), None, name, Some(&text))
            })
        };
        assert!(refusal(pieces(None)).is_some());
        assert!(refusal(pieces(Some("f"))).is_none(), "those of a named call are the engine's to count");
    }
}
