//! What people and pages answer, in the ways in which they do.

use fermata_engine::{AnswerError, Unavailable};
use fermata_protocol::{
    Answer, AnswerKind, AnswerTarget, ChatId, ElicitAction, ElicitationId, Profile, ToolState, UiPart,
};
use fermata_tools::{Call, Receipt};
use proptest::prelude::*;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    asks::{body, check_error},
    facts::Promised,
    world::{Slot, World},
};

/// How somebody answers.
#[derive(Clone, Copy, Debug)]
pub enum How {
    Right,
    /// With the other kind of answer, or no.
    Otherwise,
    /// The same at two instances.
    Twice,
    /// Two different things at two instances.
    Torn,
    /// By the question's id.
    ByQuestion,
    /// Some call of the run, be it over.
    Old,
    Unknown,
}

impl How {
    pub fn any() -> impl Strategy<Value = Self> {
        prop_oneof![
            8 => Just(Self::Right),
            2 => Just(Self::Otherwise),
            2 => Just(Self::Twice),
            3 => Just(Self::Torn),
            1 => Just(Self::ByQuestion),
            1 => Just(Self::Old),
            1 => Just(Self::Unknown),
        ]
    }
}

impl World {
    pub fn answers(&mut self, chat: usize, at: usize, nth: usize, how: How) {
        let chat = self.chat(chat);
        let calls = self.calls(&chat, matches!(how, How::Old));
        let Some(call) = calls.get(nth % calls.len().max(1)).cloned() else { return };
        let (first, second) = (self.right(&call), self.right(&call));
        let (here, there) = (self.slot(at), self.slot(at + 1));
        match how {
            How::Right | How::Old => self.sends(&here, &chat, vec![first]),
            How::Otherwise => self.sends(&here, &chat, vec![otherwise(&call)]),
            How::Twice => {
                self.sends(&here, &chat, vec![first.clone()]);
                self.sends(&there, &chat, vec![first]);
            }
            How::Torn => {
                let other = if call.awaits_approval() { otherwise(&call) } else { second };
                self.sends(&here, &chat, vec![first]);
                self.sends(&there, &chat, vec![other]);
            }
            How::ByQuestion => {
                let of = call
                    .approval_request
                    .as_ref()
                    .map(|question| AnswerTarget::Approval(question.id.clone()));
                self.sends(&here, &chat, vec![Answer { of: of.unwrap_or(first.of), kind: first.kind }]);
            }
            How::Unknown => {
                let of = AnswerTarget::Call(fermata_protocol::ToolCallId::new("call_unknown"));
                self.sends(&here, &chat, vec![first.clone(), Answer { of, kind: first.kind }]);
            }
        }
    }

    pub fn answers_all(&mut self, chat: usize, at: usize, approved: bool) {
        let (chat, slot) = (self.chat(chat), self.slot(at));
        let calls = self.calls(&chat, false);
        let mut answers = Vec::new();
        for call in &calls {
            let denies = !approved && call.awaits_approval();
            answers.push(if denies { otherwise(call) } else { self.right(call) });
        }
        if !answers.is_empty() {
            self.sends(&slot, &chat, answers);
        }
    }

    /// What a tool has asked somebody who reads.
    pub fn answers_question(&mut self, chat: usize, at: usize, accepts: bool) {
        let (chat, slot) = (self.chat(chat), self.slot(at));
        let clients = self.clients.lock().unwrap().clone();
        let asked = clients.iter().rev().find_map(|client| {
            let client = client.lock().unwrap();
            let events = client.read.iter().filter(|_| client.chat == chat);
            let pending = events.rev().find(|event| event.chunk["data"]["state"] == "pending")?;
            pending.chunk["id"].as_str().map(ElicitationId::new)
        });
        let Some(id) = asked else { return };
        self.said += 1;
        let content = accepts.then(|| json!({ "size": format!("o{}.", self.said) }));
        let action = if accepts { ElicitAction::Accept } else { ElicitAction::Decline };
        let kind = AnswerKind::Elicited { action, content };
        self.sends(&slot, &chat, vec![Answer { of: AnswerTarget::Elicitation(id), kind }]);
    }

    /// The message as the client shows it, with what it knows of its calls.
    pub fn posts_message(&mut self, nth: usize, at: usize, approved: bool) {
        let (Some(client), slot) = (self.client(nth), self.slot(at)) else { return };
        let client = client.lock().unwrap().copy();
        // Version 5 is shown less than there is.
        let Ok(shown) = client.shows() else { return };
        if client.profile == Profile::V5 || client.has("error") || !client.has("finish") {
            return;
        }
        let mut message = shown.snapshot();
        for part in &mut message.parts {
            if let UiPart::Tool(call) = part {
                self.said += 1;
                let is_browsers = matches!(call.name.as_str(), "where" | "color");
                match call.state.clone() {
                    ToolState::InputAvailable { input } if is_browsers => {
                        let output = json!(format!("o{}.", self.said));
                        call.state =
                            ToolState::OutputAvailable { input: Some(input), output, preliminary: None };
                    }
                    ToolState::ApprovalRequested { input, raw_input } => {
                        call.state = ToolState::ApprovalResponded { input, raw_input };
                        call.approval.iter_mut().for_each(|approval| approval.approved = Some(approved));
                    }
                    _ => {}
                }
            }
        }
        let body = body(&client.chat, client.profile.major(), &json!({ "message": message }));
        let follow = self.follower(&slot, Some(message), None);
        self.submits(&slot, &client.chat, body, None, None, None, follow);
    }

    /// The calls of the open run: those that wait for somebody, or all.
    pub fn calls(&self, chat: &ChatId, all: bool) -> Vec<Call> {
        let run = self.record(chat).and_then(|record| record.open_run);
        let calls = run.map(|run| run.calls).unwrap_or_default().into_iter();
        calls.filter(|call| all || call.accepts_answer()).collect()
    }

    fn right(&mut self, call: &Call) -> Answer {
        self.said += 1;
        let kind = if call.awaits_approval() {
            AnswerKind::Decision { approved: true, reason: None, always: false, input: None }
        } else if self.said.is_multiple_of(5) {
            AnswerKind::Failure { error_text: format!("o{}.", self.said) }
        } else {
            AnswerKind::Output { output: json!(format!("o{}.", self.said)) }
        };
        Answer { of: AnswerTarget::Call(call.id.clone()), kind }
    }

    fn sends(&self, slot: &Slot, chat: &ChatId, answers: Vec<Answer>) {
        let (engine, owner, named) = (slot.engine.clone(), self.owner.clone(), chat.clone());
        let (facts, asked, sent) = (self.facts().clone(), Instant::now(), answers.clone());
        let what = format!("answer {answers:?}");
        let (told, chat) = (what.clone(), chat.clone());
        let work = async move { engine.answer(&owner, &named, None, sent).await };
        self.ask(slot, what, work, move |done: Option<Result<Vec<Receipt>, AnswerError>>| {
            facts.log(format!("{told}: {done:?}"));
            match done {
                Some(Ok(receipts)) => {
                    if receipts.len() != answers.len() {
                        facts.fault(format!("{told}: {receipts:?}"));
                    }
                    for answer in answers {
                        facts.promise(&chat, asked, Promised::Answer(answer));
                    }
                }
                Some(Err(AnswerError::Unavailable(Unavailable::Store(error)))) => {
                    check_error(&facts, &told, &error)
                }
                Some(Err(_)) | None => {}
            }
        });
    }
}

/// What is not expected: no, or what the call does not wait for.
fn otherwise(call: &Call) -> Answer {
    let reason = Some("not now".to_owned());
    let kind = AnswerKind::Decision { approved: false, reason, always: false, input: None };
    Answer { of: AnswerTarget::Call(call.id.clone()), kind }
}
