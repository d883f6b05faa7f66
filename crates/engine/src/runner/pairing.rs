//! Pairs the calls of a conversation with their results, as providers demand, whether or not the program pushed them in pairs.

use crate::model::{ModelContent, ModelMessage};

/// The result of a call that never got one.
const NO_RESULT: &str = "There is no result of this call: the conversation went on without it.";

/// Gives every call exactly one result, right after its message and in the order of the calls. Results without a call are removed.
pub(super) fn pair(messages: &mut Vec<ModelMessage>) {
    let mut rest = std::mem::take(messages).into_iter().peekable();
    while let Some(message) = rest.next() {
        let calls = match &message {
            ModelMessage::Assistant { calls, .. } => calls.clone(),
            ModelMessage::System(_) | ModelMessage::User(_) => Vec::new(),
            ModelMessage::Tool { .. } => continue,
        };
        messages.push(message);
        let mut results = Vec::new();
        while let Some(result) = rest.next_if(|next| matches!(next, ModelMessage::Tool { .. })) {
            results.push(result);
        }
        for call in calls {
            let own = results.iter().position(
                |result| matches!(result, ModelMessage::Tool { call_id, .. } if *call_id == call.id),
            );
            match own {
                Some(index) => messages.push(results.swap_remove(index)),
                None => {
                    let content = vec![ModelContent::Text(NO_RESULT.into())];
                    messages.push(ModelMessage::Tool { call_id: call.id, tool: call.tool, content });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::ModelCall;

    fn user() -> ModelMessage {
        ModelMessage::User(vec![ModelContent::Text("hi".into())])
    }

    fn calls(ids: &[&str]) -> ModelMessage {
        let call = |id: &&str| ModelCall {
            id: (*id).into(),
            tool: "t".into(),
            input: json!({}).into(),
            provider_metadata: None,
        };
        ModelMessage::Assistant {
            reasoning: String::new(),
            text: String::new(),
            calls: ids.iter().map(call).collect(),
            provider_metadata: None,
        }
    }

    fn result(id: &str, text: &str) -> ModelMessage {
        let content = vec![ModelContent::Text(text.into())];
        ModelMessage::Tool { call_id: id.into(), tool: "t".into(), content }
    }

    #[test]
    fn whatever_was_pushed_every_call_gets_one_result_in_its_place() {
        let mut messages = vec![
            result("z", "of nothing"),
            calls(&["a", "b", "c"]),
            result("c", "3"),
            result("a", "1"),
            result("a", "again"),
            user(),
            result("b", "too late"),
        ];
        pair(&mut messages);
        assert_eq!(
            messages,
            [calls(&["a", "b", "c"]), result("a", "1"), result("b", NO_RESULT), result("c", "3"), user(),]
        );
    }

    #[test]
    fn what_is_paired_stays_as_it_is() {
        let paired = vec![user(), calls(&["a"]), result("a", "1"), calls(&[]), user()];
        let mut messages = paired.clone();
        pair(&mut messages);
        assert_eq!(messages, paired);
    }
}
