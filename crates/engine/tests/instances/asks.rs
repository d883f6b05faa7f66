//! What is asked of an instance, except to take an answer; and what must be so when it says that it is done.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fermata_engine::{
    Following, ReadError, Submission, SubmitError, Unavailable,
    store::{ChatStore, StoreError},
};
use fermata_protocol::{ChatBody, ChatId, EventId, Role};
use futures::FutureExt;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    clients::Shared,
    facts::{Facts, Promised},
    model::{POISON, SLOW_POISON},
    world::{Slot, World},
};

impl World {
    pub fn says(&mut self, chat: usize, at: usize, client: u8, hold: Option<u64>, named: bool) {
        let (chat, slot) = (self.chat(chat), self.slot(at));
        self.said += 1;
        let words = format!("{chat} u{}.", self.said);
        let mut message = json!({"role": "user", "content": words});
        if named {
            message["id"] = json!(format!("u{}", self.said));
        }
        let body = body(&chat, client, &json!({ "message": message }));
        self.posts(&slot, &chat, body, hold, Some(words), None);
    }

    pub fn says_poison(&mut self, chat: usize, at: usize, is_slow: bool) {
        let (chat, slot) = (self.chat(chat), self.slot(at));
        self.said += 1;
        let words = format!("{chat} u{}. {}", self.said, if is_slow { SLOW_POISON } else { POISON });
        let message = json!({"id": format!("u{}", self.said), "role": "user", "content": words});
        let body = body(&chat, 7, &json!({ "message": message }));
        self.posts(&slot, &chat, body, None, Some(words), None);
    }

    /// Posts something; what comes of it is followed.
    pub fn posts(
        &self,
        slot: &Slot,
        chat: &ChatId,
        body: Value,
        hold: Option<u64>,
        promised: Option<String>,
        cut: Option<usize>,
    ) {
        let follow = self.follower(slot, None, None);
        self.submits(slot, chat, body, hold, promised, cut, follow);
    }

    #[expect(clippy::too_many_arguments, reason = "what a post is, and what is to come of it")]
    pub fn submits(
        &self,
        slot: &Slot,
        chat: &ChatId,
        body: Value,
        hold: Option<u64>,
        promised: Option<String>,
        cut: Option<usize>,
        follow: impl FnOnce(Following) + Send + 'static,
    ) {
        let what = format!("post {body}");
        let body = ChatBody::parse(body).unwrap();
        let hold = hold.map(Duration::from_secs);
        let (engine, owner) = (slot.engine.clone(), self.owner.clone());
        let work = async move { engine.submit(Submission { owner, body, hold, address: None }).await };
        let (facts, chat, asked) = (self.facts().clone(), chat.clone(), Instant::now());
        let told = what.clone();
        self.ask(slot, what, work, move |done| {
            let result = done.as_ref().map(|done| done.as_ref().map(|following| following.run.to_string()));
            facts.log(format!("{told}: {result:?}"));
            match done {
                Some(Ok(following)) => {
                    if let Some(cut) = cut {
                        facts.cut_is_done(cut);
                    }
                    if let Some(words) = promised {
                        facts.promise(&chat, asked, Promised::Message(words));
                    }
                    follow(following);
                }
                Some(Err(SubmitError::Unavailable(Unavailable::Store(error)))) => {
                    check_error(&facts, &told, &error)
                }
                Some(Err(_)) | None => {}
            }
        });
    }

    pub fn says_again(&mut self, chat: usize, at: usize) {
        let (chat, slot) = (self.chat(chat), self.slot(at));
        let messages = self.messages(&chat);
        let Some(last) = messages.iter().rfind(|message| message.role == Role::User) else {
            return;
        };
        let cut = self.facts().cut_begins(&chat, false);
        let body = body(&chat, 6, &json!({ "message": last }));
        self.posts(&slot, &chat, body, None, None, Some(cut));
    }

    pub fn regenerates(&mut self, chat: usize, at: usize) {
        let (chat, slot) = (self.chat(chat), self.slot(at));
        let cut = self.facts().cut_begins(&chat, false);
        let body =
            body(&chat, 7, &json!({"messages": self.messages(&chat), "trigger": "regenerate-message"}));
        self.posts(&slot, &chat, body, None, None, Some(cut));
    }

    pub fn stops(&mut self, chat: usize, at: usize) {
        let (chat, slot, owner) = (self.chat(chat), self.slot(at), self.owner.clone());
        let open = self.record(&chat).and_then(|record| record.open_run).map(|run| run.id);
        let (engine, store, facts, named) =
            (slot.engine.clone(), self.store.clone(), self.facts().clone(), chat.clone());
        let work = async move { engine.stop(&owner, &named).await };
        self.ask(&slot, format!("stop {chat}"), work, move |done| {
            facts.log(format!("stop {chat}: {done:?}"));
            let now = ChatStore::chat(&*store, &chat).now_or_never().unwrap().unwrap();
            let now = now.and_then(|record| record.open_run).map(|run| run.id);
            if let (Some(Ok(())), Some(open)) = (done, open)
                && now == Some(open)
            {
                facts.fault(format!("{now:?} was stopped and is open"));
            }
        });
    }

    pub fn deletes(&mut self, chat: usize, at: usize) {
        let (chat, slot, owner) = (self.chat(chat), self.slot(at), self.owner.clone());
        let cut = self.facts().cut_begins(&chat, true);
        let before: Vec<_> = self.messages(&chat).into_iter().map(|message| message.id).collect();
        let (engine, store, facts, named) =
            (slot.engine.clone(), self.store.clone(), self.facts().clone(), chat.clone());
        let work = async move { engine.delete(&owner, &named).await };
        self.ask(&slot, format!("delete {chat}"), work, move |done| {
            facts.log(format!("delete {chat}: {done:?}"));
            if let Some(Ok(())) = done {
                facts.cut_is_done(cut);
                let now = ChatStore::messages(&*store, &chat).now_or_never().unwrap().unwrap();
                let mut left = now.iter().filter(|_| !facts.may_come_back(&chat));
                if let Some(left) = left.find(|message| before.contains(&message.id)) {
                    facts.fault(format!("{} outlives its chat", left.id));
                }
            }
        });
    }

    pub fn looks(&mut self, chat: usize, at: usize) {
        let (chat, slot, owner) = (self.chat(chat), self.slot(at), self.owner.clone());
        let (engine, facts) = (slot.engine.clone(), self.facts().clone());
        let named = chat.clone();
        let work = async move { engine.chat(&owner, &named).await };
        self.ask(&slot, format!("look at {chat}"), work, move |done| {
            if let Some(Err(ReadError::Unavailable(Unavailable::Store(error)))) = done {
                check_error(&facts, "look", &error);
            }
        });
    }

    pub fn follows(&mut self, chat: usize, at: usize) {
        let (chat, slot) = (self.chat(chat), self.slot(at));
        self.resumes_after(&slot, &chat, None, None);
    }

    pub fn resumes(&mut self, nth: usize, at: usize) {
        let Some(client) = self.client(nth) else { return };
        let slot = self.slot(at);
        let (chat, place) = {
            let client = client.lock().unwrap();
            (client.chat.clone(), client.place())
        };
        // A copy, because this one may read on.
        self.resumes_after(&slot, &chat, place, Some(client));
    }

    fn resumes_after(&self, slot: &Slot, chat: &ChatId, after: Option<EventId>, before: Option<Shared>) {
        let before = before.map(|before| {
            let copy = before.lock().unwrap().copy();
            Arc::new(Mutex::new(copy))
        });
        let follow = self.follower(slot, None, before);
        let (engine, owner, named) = (slot.engine.clone(), self.owner.clone(), chat.clone());
        let what = format!("resume {chat} after {after:?}");
        let work = async move { engine.resume(&owner, &named, after).await };
        let (facts, told) = (self.facts().clone(), what.clone());
        self.ask(slot, what, work, move |done| {
            let result = done.as_ref().map(|done| {
                done.as_ref().map(|following| following.as_ref().map(|following| following.run.to_string()))
            });
            facts.log(format!("{told}: {result:?}"));
            match done {
                Some(Ok(Some(following))) => follow(following),
                Some(Err(ReadError::Unavailable(Unavailable::Store(error)))) => {
                    check_error(&facts, &told, &error)
                }
                Some(Ok(None) | Err(_)) | None => {}
            }
        });
    }
}

/// What nobody may be told, whatever fails.
pub fn check_error(facts: &Facts, what: &str, error: &StoreError) {
    match error {
        StoreError::Unavailable(_) | StoreError::Unclear(_) | StoreError::Fenced => {}
        StoreError::Corrupt(_) | StoreError::Conflict(_) | StoreError::BadCursor => {
            facts.fault(format!("{what}: {error}"));
        }
    }
}

/// A post with two browser tools.
pub fn body(chat: &ChatId, client: u8, what: &Value) -> Value {
    let tool = json!({"parameters": {"type": "object"}});
    let mut body = what.clone();
    body["id"] = json!(chat.as_str());
    body["tools"] = json!({"where": tool, "color": tool});
    body["fermata"] = json!({"client": client});
    body
}
