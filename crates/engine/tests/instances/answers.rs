//! Answers to calls and questions, right and wrong ones.

use fermata_engine::{AnswerError, Unavailable};
use fermata_protocol::{
    Answer, AnswerKind, AnswerTarget, ChatId, ElicitAction, ElicitationId, Profile, ToolState, UiPart,
};
use fermata_tools::{Call, Decider, DecisionChannel, Receipt};
use proptest::prelude::*;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    history::Effect,
    requests::{body, check_error},
    world::{Instance, World},
};

/// The way a call is answered.
#[derive(Clone, Copy, Debug)]
pub enum AnswerVariant {
    Expected,
    /// With a denial, or with a kind of answer that the call does not wait for.
    Unexpected,
    /// With the same answer at two instances.
    Duplicate,
    /// With different answers at two instances.
    Conflicting,
    /// By the id of the approval request.
    ByApprovalId,
    /// As expected, but the call may be any of the run, even one that has ended.
    AnyCall,
    UnknownCall,
}

impl AnswerVariant {
    pub fn any() -> impl Strategy<Value = Self> {
        prop_oneof![
            8 => Just(Self::Expected),
            2 => Just(Self::Unexpected),
            2 => Just(Self::Duplicate),
            3 => Just(Self::Conflicting),
            1 => Just(Self::ByApprovalId),
            1 => Just(Self::AnyCall),
            1 => Just(Self::UnknownCall),
        ]
    }
}

impl World {
    pub fn answer(&mut self, chat: usize, instance: usize, index: usize, variant: AnswerVariant) {
        let chat = self.chat(chat);
        let calls = self.calls(&chat, matches!(variant, AnswerVariant::AnyCall));
        let Some(call) = calls.get(index % calls.len().max(1)).cloned() else { return };
        let (first, second) = (self.expected_answer(&call), self.expected_answer(&call));
        let (here, there) = (self.instance(instance), self.instance(instance + 1));
        match variant {
            AnswerVariant::Expected | AnswerVariant::AnyCall => self.send_answers(&here, &chat, vec![first]),
            AnswerVariant::Unexpected => self.send_answers(&here, &chat, vec![unexpected_answer(&call)]),
            AnswerVariant::Duplicate => {
                self.send_answers(&here, &chat, vec![first.clone()]);
                self.send_answers(&there, &chat, vec![first]);
            }
            AnswerVariant::Conflicting => {
                let other = if call.awaits_approval() { unexpected_answer(&call) } else { second };
                self.send_answers(&here, &chat, vec![first]);
                self.send_answers(&there, &chat, vec![other]);
            }
            AnswerVariant::ByApprovalId => {
                let of = call
                    .approval_request
                    .as_ref()
                    .map(|question| AnswerTarget::Approval(question.id.clone()));
                self.send_answers(
                    &here,
                    &chat,
                    vec![Answer { of: of.unwrap_or(first.of), kind: first.kind }],
                );
            }
            AnswerVariant::UnknownCall => {
                let of = AnswerTarget::Call(fermata_protocol::ToolCallId::new("call_unknown"));
                self.send_answers(&here, &chat, vec![first.clone(), Answer { of, kind: first.kind }]);
            }
        }
    }

    pub fn answer_all(&mut self, chat: usize, instance: usize, approved: bool) {
        let (chat, instance) = (self.chat(chat), self.instance(instance));
        let calls = self.calls(&chat, false);
        let mut answers = Vec::new();
        for call in &calls {
            let is_denied = !approved && call.awaits_approval();
            answers.push(if is_denied { unexpected_answer(call) } else { self.expected_answer(call) });
        }
        if !answers.is_empty() {
            self.send_answers(&instance, &chat, answers);
        }
    }

    /// Answers the newest question of a tool that a client has read.
    pub fn answer_question(&mut self, chat: usize, instance: usize, accepts: bool) {
        let (chat, instance) = (self.chat(chat), self.instance(instance));
        let clients = self.clients.lock().unwrap().clone();
        let requested_at = clients.iter().rev().find_map(|client| {
            let client = client.lock().unwrap();
            let events = client.read.iter().filter(|_| client.chat == chat);
            let pending = events.rev().find(|event| event.chunk["data"]["state"] == "pending")?;
            pending.chunk["id"].as_str().map(ElicitationId::new)
        });
        let Some(id) = requested_at else { return };
        self.texts += 1;
        let content = accepts.then(|| json!({ "size": format!("o{}.", self.texts) }));
        let action = if accepts { ElicitAction::Accept } else { ElicitAction::Decline };
        let kind = AnswerKind::Elicited { action, content };
        self.send_answers(&instance, &chat, vec![Answer { of: AnswerTarget::Elicitation(id), kind }]);
    }

    /// Posts the message as a client shows it, with answers to its calls.
    pub fn post_message(&mut self, index: usize, instance: usize, approved: bool) {
        let (Some(client), instance) = (self.client(index), self.instance(instance)) else { return };
        let client = client.lock().unwrap().fork();
        // Version 5 does not get all chunks.
        let Ok(shown) = client.message() else { return };
        if client.profile == Profile::V5 || client.has("error") || !client.has("finish") {
            return;
        }
        let mut message = shown.snapshot();
        for part in &mut message.parts {
            if let UiPart::Tool(call) = part {
                self.texts += 1;
                let is_browser_call = matches!(call.name.as_str(), "where" | "color");
                match call.state.clone() {
                    ToolState::InputAvailable { input } if is_browser_call => {
                        let output = json!(format!("o{}.", self.texts));
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
        let follow = self.follower(&instance, Some(message), None);
        self.submit(&instance, &client.chat, body, None, None, None, follow);
    }

    /// Posts "yes" or "no" as a client that shows a message, which may be an older one. Of clients of version 5 it is not known what they show.
    pub fn post_words(&mut self, index: usize, instance: usize, approved: bool) {
        let (Some(client), instance) = (self.client(index), self.instance(instance)) else { return };
        let client = client.lock().unwrap().fork();
        let Ok(shown) = client.message() else { return };
        if client.profile == Profile::V5 {
            return;
        }
        let shown = shown.snapshot();
        let asked: Vec<_> = shown
            .parts
            .iter()
            .filter_map(UiPart::as_tool)
            .filter(|call| matches!(call.state, ToolState::ApprovalRequested { .. }))
            .filter_map(|call| Some(call.approval.as_ref()?.id.clone()))
            .collect();
        if asked.is_empty() {
            // An ordinary message is another operation.
            return;
        }
        self.texts += 1;
        let text = if approved { "yes" } else { "no" };
        let message = json!({"id": format!("u{}", self.texts), "role": "user", "content": text});
        let mut body = body(&client.chat, client.profile.major(), &json!({ "message": message }));
        body["fermata"]["decides"] = json!(asked);
        body["fermata"]["exists"] = true.into();
        self.history().show_to_sender(asked);
        self.post(&instance, &client.chat, body, None, None, None);
    }

    /// Returns the calls of the open run: all, or those that wait for an answer.
    pub fn calls(&self, chat: &ChatId, all: bool) -> Vec<Call> {
        let run = self.record(chat).and_then(|record| record.open_run);
        let calls = run.map(|run| run.calls).unwrap_or_default().into_iter();
        calls.filter(|call| all || call.accepts_answer()).collect()
    }

    fn expected_answer(&mut self, call: &Call) -> Answer {
        self.texts += 1;
        let kind = if call.awaits_approval() {
            AnswerKind::Decision { approved: true, reason: None, always: None, input: None }
        } else if self.texts.is_multiple_of(5) {
            AnswerKind::Failure { error_text: format!("o{}.", self.texts) }
        } else {
            AnswerKind::Output { output: json!(format!("o{}.", self.texts)) }
        };
        Answer { of: AnswerTarget::Call(call.id.clone()), kind }
    }

    fn send_answers(&self, instance: &Instance, chat: &ChatId, answers: Vec<Answer>) {
        let (engine, owner, chat_id) = (instance.engine.clone(), self.owner.clone(), chat.clone());
        let (history, requested_at, sent) = (self.history().clone(), Instant::now(), answers.clone());
        let what = format!("answer {answers:?}");
        let (context, chat) = (what.clone(), chat.clone());
        let work = async move {
            engine.answer(Decider::new(owner.clone(), DecisionChannel::Api, None), &chat_id, sent).await
        };
        self.request(instance, what, work, move |done: Option<Result<Vec<Receipt>, AnswerError>>| {
            history.log(format!("{context}: {done:?}"));
            match done {
                Some(Ok(receipts)) => {
                    if receipts.len() != answers.len() {
                        history.violation(format!("{context}: {receipts:?}"));
                    }
                    for answer in answers {
                        history.acknowledge(&chat, requested_at, Effect::Answer(answer));
                    }
                }
                Some(Err(AnswerError::Unavailable(Unavailable::Store(error)))) => {
                    check_error(&history, &context, &error)
                }
                Some(Err(_)) | None => {}
            }
        });
    }
}

/// Returns a denial, which some calls do not wait for.
fn unexpected_answer(call: &Call) -> Answer {
    let reason = Some("not now".to_owned());
    let kind = AnswerKind::Decision { approved: false, reason, always: None, input: None };
    Answer { of: AnswerTarget::Call(call.id.clone()), kind }
}
