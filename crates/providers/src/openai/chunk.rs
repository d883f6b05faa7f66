//! The chunks of a streamed answer, as any vendor sends them.
//!
//! Every field may be absent, null or of another type ([`super::lenient`]). The contribution of a chunk to the answer is decided in
//! [`super::decoder`].

use std::borrow::Cow;

use fermata_engine::model::Usage;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    failure::Failure,
    lenient::{Arguments, Content, Objects, Text, read_first, read_list, read_object},
    surrogate_halves::repair,
};

/// A value that few chunks have. It is not a part of the chunk itself, which is moved several times for each delta.
pub(super) type Rare = Option<Box<Value>>;

/// The JSON of one event, or the one body of a server that does not stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk {
    /// The first of the alternative answers; only one is ever asked for.
    #[serde(rename = "choices", deserialize_with = "read_first")]
    pub(super) choice: Option<Box<Choice>>,
    pub(super) usage: Rare,
    pub(super) error: Rare,
    /// `error` in vLLM's and Mistral's error objects, which are not wrapped in `error`; the next three fields are theirs too.
    pub(super) object: Text,
    pub(super) message: Rare,
    pub(super) r#type: Rare,
    pub(super) code: Rare,
    /// Servers and gateways put their words here instead of an answer, or in one of the next two.
    pub(super) detail: Rare,
    pub(super) errors: Rare,
    pub(super) base_resp: Rare,
    /// The pages that Perplexity has found, and their URLs alone, which xAI sends as well.
    pub(super) search_results: Rare,
    pub(super) citations: Rare,
    /// Groq puts the usage in here.
    pub(super) x_groq: Rare,
}

/// One of the alternative answers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice {
    #[serde(deserialize_with = "read_object")]
    pub(super) delta: Option<Delta>,
    /// This stands in the place of `delta` if the server does not stream.
    #[serde(deserialize_with = "read_object")]
    pub(super) message: Option<Box<Delta>>,
    pub(super) finish_reason: Text,
    /// Moonshot puts the usage in here.
    pub(super) usage: Rare,
    pub(super) error: Rare,
}

/// The text, reasoning and calls that came since the last chunk.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta {
    pub(super) content: Content,
    pub(super) reasoning_content: Text,
    pub(super) reasoning: Text,
    /// OpenRouter's pieces of reasoning. Some of them also come in `reasoning`.
    pub(super) reasoning_details: Rare,
    /// This and the next two go back as they came ([`super::provider_metadata`]).
    pub(super) thinking_blocks: Rare,
    pub(super) extra_content: Rare,
    pub(super) provider_specific_fields: Rare,
    pub(super) refusal: Text,
    #[serde(deserialize_with = "read_list")]
    pub(super) tool_calls: Vec<CallPiece>,
    /// The form that calls had once.
    #[serde(deserialize_with = "read_object")]
    pub(super) function_call: Option<Box<FunctionPiece>>,
    pub(super) images: Rare,
    pub(super) annotations: Rare,
}

/// A piece of a call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallPiece {
    pub(super) index: Option<Value>,
    pub(super) id: Text,
    #[serde(deserialize_with = "read_object")]
    pub(super) function: Option<FunctionPiece>,
    pub(super) extra_content: Rare,
    pub(super) provider_specific_fields: Rare,
}

/// The tool and the arguments in a piece of a call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionPiece {
    pub(super) name: Text,
    pub(super) arguments: Arguments,
}

// === impl Chunk ===

impl Chunk {
    /// Reads the data of one event: an object is one chunk, a list has one in each of its objects, and any other JSON has none.
    pub(super) fn read_all(data: &[u8]) -> Result<impl Iterator<Item = Self> + use<>, Failure> {
        // The lossy conversion looks at each byte by itself, so it is for data that needs it.
        let text = str::from_utf8(data).map_or_else(|_| String::from_utf8_lossy(data), Cow::Borrowed);
        let json = repair(text.trim());
        match serde_json::from_str::<Objects<Self>>(&json) {
            Ok(Objects { object, items }) => Ok(object.into_iter().chain(items)),
            Err(error) if error.is_eof() => {
                Err(Failure::network("the answer ended in the middle of an event"))
            }
            Err(error) => Err(Failure::format(format!("{error}: {json}"))),
        }
    }

    /// Reads the body of a server that does not stream.
    pub(super) fn read_whole(body: &str) -> Result<Self, Failure> {
        serde_json::from_str(&repair(body)).map_err(|error| Failure::format(format!("{error}: {body}")))
    }

    /// Returns the error that the chunk reports, if it reports one.
    pub(super) fn error(&self) -> Option<Value> {
        let in_choice = self.choice.as_ref().and_then(|choice| choice.error.as_ref());
        if let Some(error) = self.error.as_ref().or(in_choice) {
            return Some(Value::clone(error));
        }
        if self.object.0 == "error" {
            return Some(json!({"message": self.message, "type": self.r#type, "code": self.code}));
        }
        None
    }

    /// Returns whether the chunk has a piece of the answer.
    pub(super) fn says_something(&self) -> bool {
        let Some(Delta { content, reasoning_content, reasoning, refusal, tool_calls, .. }) =
            self.choice.as_ref().and_then(|choice| choice.delta.as_ref())
        else {
            return false;
        };
        let texts = [&content.text, &content.thinking, &reasoning_content.0, &reasoning.0, &refusal.0];
        !tool_calls.is_empty() || texts.iter().any(|text| !text.is_empty())
    }

    /// Returns whether this is no part of an answer, but says something.
    pub(super) fn is_foreign(&self) -> bool {
        let words = [&self.message, &self.r#type, &self.code, &self.detail, &self.errors, &self.base_resp];
        self.choice.is_none() && self.usage().is_none() && words.iter().any(|word| word.is_some())
    }

    /// Returns the tokens of the step so far, if the chunk has them.
    pub(super) fn usage(&self) -> Option<Usage> {
        let groq = self.x_groq.as_ref().and_then(|x_groq| x_groq.get("usage"));
        let moonshot = self.choice.as_ref().and_then(|choice| choice.usage.as_deref());
        let counted = self.usage.as_deref().or(groq).or(moonshot)?.as_object()?;
        let count = |name: &str| counted.get(name).and_then(Value::as_u64);
        let (input, output) = (count("prompt_tokens"), count("completion_tokens"));
        let total = count("total_tokens");
        if input.is_none() && output.is_none() && total.is_none() {
            return None;
        }
        let (input_tokens, output_tokens) = (input.unwrap_or(0), output.unwrap_or(0));
        let total_tokens = total.unwrap_or(input_tokens.saturating_add(output_tokens));
        Some(Usage { input_tokens, output_tokens, total_tokens })
    }
}

#[cfg(test)]
mod tests {
    use fermata_engine::model::ModelError;

    use super::*;

    fn read(json: &str) -> Chunk {
        serde_json::from_str(json).unwrap()
    }

    fn delta(json: &str) -> Delta {
        let chunk = read(&format!(r#"{{"choices":[{{"delta":{json}}}]}}"#));
        chunk.choice.unwrap().delta.unwrap()
    }

    #[test]
    fn absent_and_null_fields_are_read_alike() {
        for json in [
            "{}",
            r#"{"choices":null,"usage":null,"error":null}"#,
            r#"{"choices":[]}"#,
            r#"{"choices":[{"delta":null,"finish_reason":null}]}"#,
            r#"{"choices":[{"delta":{"content":null,"tool_calls":null,"reasoning":null,"refusal":null}}]}"#,
        ] {
            let chunk = read(json);
            assert!(chunk.error().is_none() && chunk.usage().is_none(), "{json}");
        }
    }

    #[test]
    fn fields_of_another_type_do_not_fail_the_chunk() {
        let delta = delta(r#"{"content":7,"reasoning":["x"],"refusal":false,"reasoning_content":{"a":1}}"#);
        assert_eq!(delta.content, Content::default());
        assert_eq!(delta.reasoning.0, "");
        assert_eq!(delta.reasoning_content.0, "");
        assert_eq!(delta.refusal.0, "");
    }

    #[test]
    fn what_cannot_be_read_in_a_list_takes_nothing_else_with_it() {
        let chunk = read(
            r#"{"choices":[null,7,{"finish_reason":"stop","message":[],"delta":{
               "content":[null,"a",{"text":"b"}],"tool_calls":[null,{"id":"c","function":"f"}]}}]}"#,
        );
        let choice = chunk.choice.unwrap();
        assert_eq!(choice.finish_reason.0, "stop");
        let delta = choice.delta.as_ref().unwrap();
        assert_eq!(delta.content.text, "ab");
        assert_eq!(delta.tool_calls[0].id.0, "c");
    }

    #[test]
    fn only_the_first_choice_counts() {
        let chunk = read(r#"{"choices":[{"finish_reason":"stop"},{"delta":7},[],"a",{"error":{"code":1}}]}"#);
        assert!(chunk.error().is_none());
        assert_eq!(chunk.choice.unwrap().finish_reason.0, "stop");
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let mut chunks = Chunk::read_all(b"{\"choices\":[{\"finish_reason\":\"\xff\"}]}").unwrap();
        assert_eq!(chunks.next().unwrap().choice.unwrap().finish_reason.0, "\u{fffd}");
    }

    #[test]
    fn a_list_of_parts_is_split_into_text_and_thinking() {
        let delta = delta(
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
               {"type":"thinking","thinking":"c"},{"type":"text","text":"d"},{"type":"reference","reference_ids":[1]}]}"#,
        );
        assert_eq!(delta.content, Content { text: "d".into(), thinking: "abc".into() });
    }

    #[test]
    fn arguments_and_ids_become_text_whatever_they_are() {
        let delta =
            delta(r#"{"tool_calls":[{"id":17,"function":{"name":"f","arguments":{"b":1,"a":[2]}}}]}"#);
        let piece = &delta.tool_calls[0];
        assert_eq!(piece.id.0, "17");
        assert_eq!(piece.function.as_ref().unwrap().arguments.0, r#"{"b":1,"a":[2]}"#);
    }

    #[test]
    fn usage_is_found_where_groq_puts_it_and_totalled_where_nobody_did() {
        let groq =
            read(r#"{"choices":[],"x_groq":{"id":"r","usage":{"prompt_tokens":3,"completion_tokens":4}}}"#);
        assert_eq!(groq.usage(), Some(Usage { input_tokens: 3, output_tokens: 4, total_tokens: 7 }));
        assert_eq!(read(r#"{"usage":{}}"#).usage(), None);
        assert_eq!(read(r#"{"usage":"none"}"#).usage(), None);
    }

    #[test]
    fn errors_are_found_wrapped_bare_and_in_the_choice() {
        assert!(read(r#"{"error":{"message":"x"}}"#).error().is_some());
        assert_eq!(
            read(r#"{"object":"error","message":"x","code":400}"#).error(),
            Some(json!({"message": "x", "type": null, "code": 400}))
        );
        assert!(read(r#"{"choices":[{"delta":{},"error":{"code":502}}]}"#).error().is_some());
    }

    #[test]
    fn an_event_has_a_chunk_for_its_object_or_for_each_object_of_its_list() {
        let count = |data: &str| Chunk::read_all(data.as_bytes()).unwrap().count();
        assert_eq!(count(" {\"choices\":[]} "), 1);
        assert_eq!(count("[{},null,[{}],{\"usage\":{}}]"), 2);
        for data in ["null", "7", "-7", "1.5", "true", "\"processing\"", "[]"] {
            assert_eq!(count(data), 0, "{data}");
        }
    }

    #[test]
    fn a_list_of_very_many_objects_is_refused_before_it_fills_the_memory() {
        let empty = vec!["{}"; 1_001].join(",");
        for data in
            [format!("[{empty}]"), format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{empty}]}}}}]}}"#)]
        {
            let error = Chunk::read_all(data.as_bytes()).err().unwrap().into_error("http://api", &[]);
            let ModelError::Format(text) = error else { panic!() };
            assert!(text.contains("more than 1000 objects"), "{text}");
        }
        assert!(Chunk::read_all(format!("[{}]", vec!["{}"; 1_000].join(",")).as_bytes()).is_ok());
    }

    #[test]
    fn json_that_just_ends_is_a_broken_connection_and_other_text_is_no_answer() {
        let error =
            |data: &str| Chunk::read_all(data.as_bytes()).err().unwrap().into_error("http://api", &[]);
        for data in ["{\"choices\":[", "[{", "\"processi"] {
            assert!(matches!(error(data), ModelError::Network(_)), "{data}");
        }
        for data in ["oops", "{oops}", "{} {}", "[1 2]"] {
            assert!(matches!(error(data), ModelError::Format(text) if text.ends_with(data)), "{data}");
        }
    }

    #[test]
    fn a_body_that_is_not_streamed_is_an_object() {
        assert!(
            Chunk::read_whole("{\"choices\":[{\"message\":{}}]}").unwrap().choice.unwrap().message.is_some()
        );
        for body in ["null", "7", "\"processing\"", "{\"choices\":[", "<html>"] {
            assert!(matches!(
                Chunk::read_whole(body).unwrap_err().into_error("http://api", &[]),
                ModelError::Format(_)
            ));
        }
    }
}
