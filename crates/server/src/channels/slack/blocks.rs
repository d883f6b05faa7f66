//! The blocks of messages, within the limits of Slack: 3000 characters in a text, 50 blocks, 2000 characters in the value of a button.

use fermata_engine::Approval;
use serde_json::{Value, json};

use super::super::words;

/// The limit of a text, in characters.
pub const TEXT: usize = 3000;
pub const APPROVE: &str = "fermata_approve";
pub const DENY: &str = "fermata_deny";

/// Returns the blocks of an approval that waits.
pub fn waiting(approval: &Approval, inbox: Option<&str>) -> Vec<Value> {
    let mut blocks = about(approval);
    blocks.push(context(&words::terms(approval)));
    if let Some(inbox) = inbox {
        blocks.push(section(&format!("<{inbox}|Open in the inbox>")));
    }
    let value = json!({"approval": approval.id, "inputHash": approval.input_hash}).to_string();
    blocks.push(json!({"type": "actions", "elements": [
        button("Approve", "primary", APPROVE, &value),
        button("Deny", "danger", DENY, &value),
    ]}));
    blocks
}

/// Returns the blocks of an approval that is settled. They have no buttons.
pub fn settled(approval: &Approval) -> Vec<Value> {
    let mut blocks = about(approval);
    let outcome = words::outcome(approval).unwrap_or_default();
    blocks.push(section(&format!("*{}*", escaped(&outcome, TEXT - 2))));
    blocks.push(context(&format!("Requested by {}.", approval.requested_by)));
    blocks
}

/// Returns a text as Slack shows it literally, of at most `most` characters.
pub fn escaped(text: &str, most: usize) -> String {
    let mut kept = text.chars().count().min(most);
    loop {
        // Escaping makes a text longer, so it is cut before, until it fits.
        let escaped =
            words::shortened(text, kept).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let length = escaped.chars().count();
        if length <= most {
            return escaped;
        }
        kept = kept.saturating_sub((length - most).div_ceil(5).max(1));
    }
}

/// Returns the blocks about the call: its words, its input and the reason for asking.
fn about(approval: &Approval) -> Vec<Value> {
    let mut blocks = vec![section(&format!("*{}*", escaped(words::title(approval), 300)))];
    if let Some(description) = &approval.description {
        blocks.push(section(&escaped(description, TEXT)));
    }
    // Backticks would end the block of code.
    let input = escaped(&approval.input_text.replace("```", "`\u{200b}`\u{200b}`"), TEXT - 6);
    blocks.push(section(&format!("```{input}```")));
    if let Some(reason) = &approval.reason {
        blocks.push(section(&escaped(reason, TEXT)));
    }
    blocks
}

fn section(text: &str) -> Value {
    json!({"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": true}})
}

fn context(text: &str) -> Value {
    let text = escaped(text, TEXT);
    json!({"type": "context", "elements": [{"type": "mrkdwn", "text": text, "verbatim": true}]})
}

fn button(text: &str, style: &str, action: &str, value: &str) -> Value {
    json!({
        "type": "button",
        "text": {"type": "plain_text", "text": text},
        "style": style,
        "action_id": action,
        "value": value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::tests::approval;

    #[test]
    fn a_text_is_escaped_and_fits() {
        assert_eq!(escaped("<!channel> & co", TEXT), "&lt;!channel&gt; &amp; co");
        for text in ["&".repeat(5000), "<a".repeat(2000), "é".repeat(5000), "x".repeat(3001)] {
            let escaped = escaped(&text, TEXT);
            let length = escaped.chars().count();
            assert!((2900..=TEXT).contains(&length), "{length}");
            assert!(escaped.ends_with("… (shortened)"), "{escaped}");
            let entities = escaped.matches('&').count();
            assert_eq!(entities, escaped.matches(';').count(), "an entity was cut");
        }
    }

    #[test]
    fn a_large_approval_stays_within_the_limits_of_slack() {
        let mut large = approval(&[]);
        large.title = Some("<t>".repeat(1000));
        large.description = Some("&".repeat(9000));
        large.input_text = "```".repeat(9000);
        large.reason = Some("r".repeat(9000));
        for blocks in [waiting(&large, Some("https://chat.example.com/inbox")), settled(&large)] {
            assert!(blocks.len() <= 50);
            for block in blocks {
                let texts = [&block["text"]["text"], &block["elements"][0]["text"]];
                for text in texts.into_iter().filter_map(Value::as_str) {
                    assert!((1..=TEXT).contains(&text.chars().count()), "{}", text.len());
                }
                let values = block["elements"].as_array().into_iter().flatten();
                for value in values.filter_map(|element| element["value"].as_str()) {
                    assert!(value.len() <= 2000);
                }
            }
        }
    }

    #[test]
    fn only_an_approval_that_waits_has_buttons() {
        let mut asked = approval(&[]);
        let actions = |blocks: &[Value]| blocks.iter().filter(|block| block["type"] == "actions").count();
        assert_eq!(actions(&waiting(&asked, None)), 1);
        asked.state = fermata_engine::ApprovalState::Expired;
        assert_eq!(actions(&settled(&asked)), 0);
    }
}
