//! The facts of a chat that are worth keeping: the request to the model that writes its summary, and the use of its answer.
//!
//! The model's output is a proposal. A change is made only if the rules let a call of `remember` or `forget` make it unasked, because
//! nobody is there to be asked.

use fermata_protocol::{MemoryKind, MessageId, Role, UiMessage, UiPart};
use fermata_tools::{Decision, MemoryWrites, Owner, Policy, Toolbox};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{FORGET, MemoryService, REMEMBER, checked_slot, words::Words};
use crate::ports::store::memories::{Memory, MemoryChange, MemoryEdit, MemoryId, MemorySource, NewMemory};

/// The number of changes of one answer that are made at most.
const MAX_CHANGES: usize = 20;

/// The text that asks a model for changes of memories. `memories` of the input are those that are known.
pub(crate) const INSTRUCTIONS: &str = "`memories` of your answer is a list of changes to what is known about the user in all chats. Keep what \
the user would not want to say again in another chat: preferences, facts about the user, people and things that matter to the user, and \
standing instructions of the user. Do not keep what matters to this chat only, what a tool or the assistant has said, or secrets such as \
passwords. The known facts are in `memories` of the input, each with its id. Leave them out. A change is one of
{\"op\": \"new\", \"kind\": \"preference\", \"text\": \"one sentence about the user\"}
{\"op\": \"changed\", \"id\": \"the id of the known one\", \"kind\": \"fact\", \"text\": \"what is true now\"}
{\"op\": \"gone\", \"id\": \"the id of one that is no longer true\"}
A kind is preference, fact, entity or instruction. A fact that exists only once, such as the user's name or timezone, gets a \
\"slot\" with its name in one word. An empty list is the usual answer.";

/// A change of memories, as a model says it.
#[derive(Debug, Deserialize)]
struct Proposal {
    op: Op,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    kind: Option<Value>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    slot: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Op {
    New,
    Changed,
    Gone,
}

/// The inputs to the changes of memories besides the model's answer.
pub(crate) struct Extraction<'a> {
    pub service: &'a MemoryService,
    /// The tools, with the settings that the rules have for them.
    pub toolbox: &'a Toolbox,
    pub policy: &'a dyn Policy,
    pub memory_writes: MemoryWrites,
    pub owner: &'a Owner,
    /// The known memories that the model was shown.
    pub known: &'a [Memory],
    /// The chat that the messages are from.
    pub chat: &'a fermata_protocol::ChatId,
    /// The messages that the model was shown.
    pub messages: &'a [&'a UiMessage],
}

/// Returns the known memories as a model is shown them.
pub(crate) fn known_memories(known: &[Memory]) -> Value {
    let mut shown = Vec::new();
    for memory in known {
        let mut fields = Map::new();
        fields.insert("id".into(), memory.id.0.clone().into());
        fields.insert("kind".into(), memory.kind.as_str().into());
        fields.insert("text".into(), memory.text.clone().into());
        if let Some(slot) = &memory.slot {
            fields.insert("slot".into(), slot.clone().into());
        }
        shown.push(Value::Object(fields));
    }
    shown.into()
}

/// Returns the words of the user in messages, for finding the known memories that have to do with them.
pub(crate) fn words_of_user(messages: &[&UiMessage]) -> String {
    let of_user = messages.iter().filter(|message| message.role == Role::User);
    let texts: Vec<&str> = of_user.flat_map(|message| &message.parts).filter_map(UiPart::as_text).collect();
    texts.join("\n")
}

// === impl Extraction ===

impl Extraction<'_> {
    /// Returns the changes that a model's answer asks for, without those that the rules do not allow.
    pub fn changes(&self, answer: &str) -> Vec<MemoryChange> {
        let mut changes = Vec::new();
        for proposal in proposals(answer).into_iter().take(MAX_CHANGES) {
            changes.extend(self.change(proposal));
        }
        changes
    }

    fn change(&self, proposal: Proposal) -> Option<MemoryChange> {
        let Proposal { op, id, kind, text, slot } = proposal;
        let id = id.filter(|id| !id.is_empty()).map(MemoryId);
        if let Op::Gone = op {
            let id = id?;
            let is_allowed = self.is_allowed(FORGET, json!({"id": id.0}));
            return if is_allowed { Some(MemoryChange::Delete { id }) } else { None };
        }
        let text = self.service.checked_text(&text?).ok()?;
        let kind = kind.and_then(|kind| serde_json::from_value::<MemoryKind>(kind).ok());
        // A slot puts the words into every prompt, which needs approval, and nobody is there to be asked.
        let may_have_slot = self.memory_writes == MemoryWrites::Free;
        let slot = if may_have_slot { slot.and_then(|slot| checked_slot(&slot).ok()) } else { None };
        let mut input = json!({"text": text, "kind": kind.unwrap_or_default()});
        if let Some(slot) = &slot {
            input["slot"] = slot.clone().into();
        }
        if !self.is_allowed(REMEMBER, input) {
            return None;
        }
        let is_in_every_prompt = self
            .known
            .iter()
            .any(|memory| Some(&memory.id) == id.as_ref() && (memory.slot.is_some() || memory.pinned));
        if is_in_every_prompt && !may_have_slot {
            return None;
        }
        let source = Some(MemorySource { chat: self.chat.clone(), message: self.message_of(&text) });
        match (op, id) {
            (Op::Changed, Some(id)) => {
                let edit = MemoryEdit { kind, text: Some(text), slot: slot.map(Some), pinned: None };
                Some(MemoryChange::Edit { id, edit, source })
            }
            (Op::New | Op::Changed | Op::Gone, _) => {
                let words = Words::of(&text);
                if self.known.iter().any(|memory| memory.slot == slot && Words::of(&memory.text) == words) {
                    return None;
                }
                let id = self.service.new_id();
                let kind = kind.unwrap_or_default();
                Some(MemoryChange::Save(NewMemory { id, kind, text, slot, pinned: false, source }))
            }
        }
    }

    /// Returns whether the rules let a tool of memory be called with this input without anybody being asked.
    fn is_allowed(&self, tool: &str, input: Value) -> bool {
        let Some(found) = self.toolbox.find(tool) else { return false };
        let decided = self.policy.decide(&self.owner.clone().into(), found.spec(), &input);
        decided.decision == Decision::Allow
    }

    /// Returns the message that most likely contains a statement of the user.
    fn message_of(&self, text: &str) -> Option<MessageId> {
        let words = Words::of(text);
        let of_user = self.messages.iter().filter(|message| message.role == Role::User);
        let most_similar = of_user.max_by(|a, b| {
            let similarity = |message: &UiMessage| Words::of(&words_of_user(&[message])).similarity(&words);
            similarity(a).total_cmp(&similarity(b))
        });
        most_similar.map(|message| message.id.clone())
    }
}

/// Reads the proposals in a model's answer. Anything else is left out.
fn proposals(answer: &str) -> Vec<Proposal> {
    let (Some(begin), Some(end)) = (answer.find('{'), answer.rfind('}')) else { return Vec::new() };
    let json = answer.get(begin..=end).unwrap_or_default();
    let Ok(Value::Object(mut fields)) = serde_json::from_str(json) else { return Vec::new() };
    let Some(Value::Array(items)) = fields.remove("memories") else { return Vec::new() };
    items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_change_is_left_out() {
        let answer = r#"Here: {"goal": "x", "memories": [
            {"op": "new", "kind": "preference", "text": "Prefers tea."}, {"op": "eaten"}, 7, {"text": "no op"},
            {"op": "gone", "id": "mem_1"}, {"op": "new", "kind": "unheard", "text": "Likes kinds.", "slot": null}]} done"#;
        let read: Vec<String> = proposals(answer)
            .iter()
            .map(|read| format!("{:?} {:?} {:?}", read.op, read.id, read.text))
            .collect();
        assert_eq!(
            read,
            [
                r#"New None Some("Prefers tea.")"#,
                r#"Gone Some("mem_1") None"#,
                r#"New None Some("Likes kinds.")"#
            ]
        );
        for none in ["", "{}", "}{", r#"{"memories": {}}"#, "no JSON at all", r#"["memories"]"#] {
            assert!(proposals(none).is_empty(), "{none}");
        }
    }
}
