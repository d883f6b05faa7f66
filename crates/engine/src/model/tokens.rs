//! Estimates of tokens, for texts that no provider has counted.
//!
//! There is no tokenizer here: each model has its own, and where a number counts, the provider's own is used. An estimate depends on
//! nothing but its input, so all instances agree on it.

use crate::model::{ModelContent, ModelMessage, ModelRequest, ModelTool};

/// The bytes of a token of text in an alphabet.
const BYTES_PER_TOKEN: u64 = 4;
/// The tokens that a provider adds to each message or tool for its frame.
const FRAME: u64 = 4;
/// The tokens of a picture or another file, which do not depend on the length of its URL.
const FILE: u64 = 1000;

/// Returns about how many tokens a text has: one for four bytes, but one for each Chinese, Japanese or Korean character.
pub fn of_text(text: &str) -> u64 {
    let (mut bytes, mut wide) = (0, 0);
    for c in text.chars() {
        if is_wide(c) {
            wide += 1;
        } else {
            bytes += c.len_utf8() as u64;
        }
    }
    bytes.div_ceil(BYTES_PER_TOKEN) + wide
}

/// Returns about how many tokens a request has.
pub fn of_request(request: &ModelRequest) -> u64 {
    let messages: u64 = request.messages.iter().map(of_message).sum();
    let tools: u64 = request.tools.iter().map(of_tool).sum();
    messages + tools
}

/// Returns about how many tokens a message has.
pub fn of_message(message: &ModelMessage) -> u64 {
    let content = match message {
        ModelMessage::System(text) => of_text(text),
        ModelMessage::User(content) | ModelMessage::Tool { content, .. } => of_content(content),
        // Most providers are not sent the reasoning of earlier turns.
        ModelMessage::Assistant { reasoning: _, text, calls, provider_metadata: _ } => {
            let calls = calls.iter().map(|call| FRAME + of_text(&call.tool) + of_text(call.input.as_str()));
            of_text(text) + calls.sum::<u64>()
        }
    };
    FRAME + content
}

/// Returns about how many tokens the offer of a tool has.
pub fn of_tool(tool: &ModelTool) -> u64 {
    FRAME + of_text(&tool.name) + of_text(&tool.description) + of_text(tool.input_schema.text())
}

fn of_content(content: &[ModelContent]) -> u64 {
    let pieces = content.iter().map(|piece| match piece {
        ModelContent::Text(text) => of_text(text),
        ModelContent::File { .. } => FILE,
    });
    pieces.sum()
}

/// Returns whether a character is about one token by itself, as Hangul, kana and Chinese ideographs are.
pub(crate) fn is_wide(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{11ff}' | '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::ModelCall;

    #[test]
    fn a_token_is_four_bytes_or_one_ideograph() {
        for (text, tokens) in
            [("", 0), ("a", 1), ("four", 1), ("fives", 2), ("你好，世界", 5), ("你好 four", 4), ("안녕", 2)]
        {
            assert_eq!(of_text(text), tokens, "{text}");
        }
    }

    #[test]
    fn a_file_counts_the_same_however_it_is_sent() {
        let file = |url: &str| {
            let file = ModelContent::File { media_type: "image/png".into(), url: url.into(), filename: None };
            of_message(&ModelMessage::User(vec![file]))
        };
        assert_eq!(file("https://a.b/c.png"), file(&format!("data:image/png;base64,{}", "A".repeat(10_000))));
    }

    #[test]
    fn calls_count_with_their_inputs() {
        let call = ModelCall {
            id: "c".into(),
            tool: "search".into(),
            input: json!({"query": "tea"}).into(),
            provider_metadata: None,
        };
        let message = ModelMessage::Assistant {
            reasoning: "hm".into(),
            text: "four".into(),
            calls: vec![call],
            provider_metadata: None,
        };
        assert_eq!(of_message(&message), FRAME + 1 + FRAME + 2 + 4);
    }
}
