//! What must be so when everything is well again and time has passed.

use std::{sync::atomic::Ordering, time::Duration};

use fermata_engine::{
    Submission,
    model::ModelRequest,
    store::{ChatStore, InstanceId, LockStore, Membership},
};
use fermata_protocol::{
    Answer, AnswerKind, AnswerTarget, ChatBody, ChatId, MessageId, Profile, ToolState, UiMessage, UiPart,
};
use fermata_tools::{Call, ResourceKey};
use futures::FutureExt;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    asks::body,
    clients::{Client, End},
    facts::Promised,
    model::{holds, told_of},
    world::{CHATS, Slot, World},
};

/// Longer than any call waits, with all that may follow.
const LONG: Duration = Duration::from_secs(1000);
/// Longer than any step takes in which nothing is wrong.
const WHILE: Duration = Duration::from_secs(60);

impl World {
    /// Lets everything heal and time pass, and looks at what has become of it.
    pub async fn settles_down(mut self) {
        self.facts().log("all is well from now on");
        self.heals();
        self.oracle.is_calm.store(true, Ordering::SeqCst);
        self.passes(LONG).await;
        self.requests.close();
        if timeout(WHILE, self.requests.wait()).await.is_err() {
            self.facts().fault("something that was asked has no end, or a reader has none");
        }
        self.check_clients();
        self.check_rest();
        self.check_promises();
        self.check_locks().await;
        self.goes_on().await;
        self.ends().await;
    }

    /// Lets time pass in which instances that end are started again.
    pub async fn passes(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            sleep(Duration::from_secs(1)).await;
            for at in 0..self.slots.len() {
                self.slot(at);
            }
        }
    }

    /// Each stream came to its end, and who has read all of it shows what is in the record.
    fn check_clients(&self) {
        for client in self.clients.lock().unwrap().iter() {
            let client = client.lock().unwrap();
            let has_end = client.has("finish") || client.has("error") || client.has("abort");
            let why = match client.end {
                End::Open => "hangs",
                End::Done if !has_end => "was told nothing of the end",
                End::Done | End::Cut => {
                    self.check_message(&client);
                    continue;
                }
            };
            self.facts().fault(format!("a reader of {} {why}: {}", client.run, client.types()));
        }
    }

    fn check_message(&self, client: &Client) {
        if client.profile == Profile::V5 || client.is_mixed {
            return;
        }
        let mut shown = match client.shows() {
            Ok(shown) => shown,
            Err(error) => {
                return self.facts().fault(format!("a client would fail, {error}: {}", client.types()));
            }
        };
        if !client.has_all() {
            return;
        }
        for call in self.calls_of(&client.chat, &shown.snapshot()) {
            if let (Some(question), Some(decided)) = (&call.approval_request, &call.approval_decision) {
                shown.decide(&question.id, decided.approved, decided.reason.as_deref());
            }
        }
        let shown = shown.snapshot();
        match self.messages(&client.chat).iter().find(|message| message.id == shown.id) {
            Some(saved) => {
                let (shown, saved) = (client.profile.message(&shown), client.profile.message(saved));
                if shown != saved {
                    let words = format!("is shown as {}\nand saved as {}", json!(shown), json!(saved));
                    self.facts().fault(format!("{} {words}\n{}", client.run, client.types()));
                }
            }
            None if self.facts().was_cut(&client.chat) => {}
            None => self.facts().fault(format!("{} is shown and not saved", shown.id)),
        }
    }

    fn calls_of(&self, chat: &ChatId, message: &UiMessage) -> Vec<Call> {
        let parts = message.parts.iter().filter_map(UiPart::as_tool);
        parts.filter_map(|part| self.call(chat, &AnswerTarget::Call(part.tool_call_id.clone()))).collect()
    }

    fn call(&self, chat: &ChatId, of: &AnswerTarget) -> Option<Call> {
        self.store.call(chat, of).now_or_never().unwrap().unwrap()
    }

    /// Nothing is at work, and nothing waits that nobody will end.
    fn check_rest(&self) {
        for chat in (0..CHATS).map(|chat| self.chat(chat)) {
            if let Some(run) = self.record(&chat).and_then(|record| record.open_run) {
                let calls: Vec<_> =
                    run.calls.iter().map(|call| (call.id.to_string(), call.state().name())).collect();
                let driver = self.record(&chat).and_then(|record| record.driver);
                self.facts()
                    .fault(format!("{} of {chat} is open, {driver:?}: {calls:?} {}", run.id, run.state));
            }
            self.check_words(&chat);
        }
        let active = self.runs.active();
        if !active.is_empty() {
            self.facts().fault(format!("{active:?} run for ever"));
        }
        if self.oracle.is_listened_to() {
            self.facts().fault("a model is listened to for ever");
        }
    }

    /// No message of a user's is in a chat twice, and no call is left open in it.
    fn check_words(&self, chat: &ChatId) {
        let messages = self.messages(chat);
        let mut words: Vec<_> =
            messages.iter().flat_map(|message| &message.parts).filter_map(UiPart::as_text).collect();
        words.retain(|words| words.starts_with(chat.as_str()));
        words.sort_unstable();
        if let Some(twice) = words.windows(2).find(|pair| pair[0] == pair[1]) {
            self.facts().fault(format!("{} is there twice", twice[0]));
        }
        for part in messages.iter().flat_map(|message| &message.parts).filter_map(UiPart::as_tool) {
            if !part.state.is_settled() {
                self.facts().fault(format!("{} of {chat} is open in the record", part.tool_call_id));
            }
        }
    }

    fn check_promises(&self) {
        let promises = self.facts().lock().promises.clone();
        for promise in promises {
            let is_missing = match &promise.what {
                Promised::Message(words) => {
                    let says =
                        |message: &UiMessage| message.parts.iter().any(|part| part.as_text() == Some(words));
                    !self.messages(&promise.chat).iter().any(says)
                        && !self.facts().lock().may_be_gone(&promise, false)
                }
                Promised::Answer(answer) => self.broken(&promise.chat, answer).is_some_and(|why| {
                    self.facts().log(why);
                    !self.facts().lock().may_be_gone(&promise, true)
                }),
            };
            if is_missing {
                self.facts().fault(format!("{promise:?} is not kept"));
            }
        }
    }

    /// Why an answer that was taken has not had its effect.
    fn broken(&self, chat: &ChatId, answer: &Answer) -> Option<String> {
        if let AnswerTarget::Elicitation(id) = &answer.of {
            let messages = self.messages(chat);
            let calls: Vec<_> = messages.iter().flat_map(|message| self.calls_of(chat, message)).collect();
            let AnswerKind::Elicited { action, content } = &answer.kind else { return None };
            let is_it = |reply: &&fermata_tools::ElicitationRecord| reply.to == *id;
            let reply = calls.iter().flat_map(|call| &call.replies).find(is_it);
            let is_kept = reply.is_some_and(|reply| reply.action == *action && reply.content == *content);
            // Where the message was cut, so were its calls.
            return (!is_kept && !self.facts().was_cut(chat))
                .then(|| format!("{answer:?} has become {reply:?}"));
        }
        let Some(call) = self.call(chat, &answer.of) else { return Some(format!("{answer:?} has no call")) };
        let is_kept = match &answer.kind {
            AnswerKind::Output { .. } | AnswerKind::Failure { .. } => {
                call.answer.as_ref() == Some(&answer.kind)
            }
            AnswerKind::Decision { approved, .. } => {
                let decided = call.approval_decision.as_ref().map(|decided| decided.approved);
                decided == Some(*approved) && (*approved || self.runs.begun(call.id.as_str()) == 0)
            }
            AnswerKind::Elicited { .. } => false,
        };
        (!is_kept).then(|| format!("{answer:?} has become {call:?}"))
    }

    async fn check_locks(&self) {
        let probe = InstanceId::new("probe");
        self.store.join(&probe).await.unwrap();
        for key in ["a", "b"].map(|name| ResourceKey {
            named_by: fermata_tools::NamedBy::Settings,
            name: name.into(),
            owner: None,
        }) {
            if !self.store.try_lock(&key, &probe).await.unwrap() {
                self.facts().fault(format!("{key:?} is locked for ever"));
            }
        }
        self.store.leave(&probe).await.unwrap();
    }

    /// The next turn of every chat works at every instance, and the model is told what was answered.
    async fn goes_on(&mut self) {
        for at in 0..self.slots.len() {
            let slot = self.slot(at);
            // All at once: nothing counts among the owner's open runs that is over.
            let turns = (0..CHATS).map(|chat| {
                self.said += 1;
                self.takes_turn(slot.clone(), self.chat(chat), self.said)
            });
            let turns: Vec<_> = turns.collect();
            futures::future::join_all(turns).await;
        }
        for chat in 0..CHATS {
            let chat = self.chat(chat);
            self.check_told(&chat);
            self.check_views(&chat).await;
        }
    }

    fn takes_turn(&self, slot: Slot, chat: ChatId, said: usize) -> impl Future<Output = ()> + use<> {
        let message =
            json!({"id": format!("u{said}"), "role": "user", "content": format!("{chat} u{said}.")});
        let body = ChatBody::parse(body(&chat, 6, &json!({ "message": message }))).unwrap();
        let (owner, facts) = (self.owner.clone(), self.facts().clone());
        let turn = async move {
            let following = slot.engine.submit(Submission { owner, body, hold: None, address: None }).await;
            let mut reader = following.map_err(|error| error.to_string())?.reader;
            let mut all = String::new();
            while let Some(bytes) = reader.next().await {
                all.push_str(std::str::from_utf8(&bytes).unwrap());
            }
            let is_whole = all.contains("done") && all.contains("\"finish\"") && all.ends_with("[DONE]\n\n");
            if is_whole { Ok(()) } else { Err(all) }
        };
        async move {
            match timeout(WHILE, turn).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => facts.fault(format!("the next turn of {chat} fails: {error}")),
                Err(_) => facts.fault(format!("the next turn of {chat} has no end")),
            }
        }
    }

    /// The model is told of each call of the record what came of it.
    fn check_told(&self, chat: &ChatId) {
        let asked = self.oracle.asked.lock().unwrap();
        let is_about = |request: &&ModelRequest| {
            format!("{:?}", request.messages)
                .contains(&format!("{chat} u{}.", self.said - (CHATS - 1 - self.number(chat))))
        };
        let Some(request) = asked.iter().rev().find(is_about) else {
            return self.facts().fault(format!("the model was not asked about {chat}"));
        };
        let messages = self.messages(chat);
        for part in messages.iter().flat_map(|message| &message.parts).filter_map(UiPart::as_tool) {
            let id = part.tool_call_id.as_str();
            let Some(told) = told_of(request, id) else {
                self.facts().fault(format!("the model is told nothing of {id}"));
                continue;
            };
            let is_told = match &part.state {
                ToolState::OutputAvailable { output, .. } if output.is_string() => holds(told, output),
                _ => !told.is_empty(),
            };
            if !is_told {
                self.facts().fault(format!("the model is told {told:?} of {part:?}"));
            }
        }
    }

    fn number(&self, chat: &ChatId) -> usize {
        (0..CHATS).find(|n| self.chat(*n) == *chat).unwrap()
    }

    /// Every instance shows the same.
    async fn check_views(&mut self, chat: &ChatId) {
        let saved: Vec<MessageId> = self.messages(chat).into_iter().map(|message| message.id).collect();
        for at in 0..self.slots.len() {
            let slot = self.slot(at);
            match slot.engine.chat(&self.owner, chat).await {
                Ok(view) => {
                    let shown: Vec<_> = view.messages.iter().map(|message| message.id.clone()).collect();
                    if view.open || !view.pending.is_empty() || shown != saved {
                        self.facts().fault(format!("{chat} is shown as {view:?}"));
                    }
                }
                Err(error) => self.facts().fault(format!("{chat} cannot be shown: {error}")),
            }
        }
    }

    /// Nothing is left when all have ended.
    async fn ends(&mut self) {
        let kept = self.store.kept(&self.owner, &InstanceId::new("probe")).await.unwrap();
        if kept.runs_elsewhere > 0 {
            self.facts().fault(format!("{} runs are open", kept.runs_elsewhere));
        }
        let slots = std::mem::take(&mut self.slots);
        for slot in slots {
            if timeout(WHILE, slot.engine.shutdown()).await.is_err() {
                self.facts().fault(format!("{:?} does not end", slot.store.joined()));
            }
        }
    }
}
