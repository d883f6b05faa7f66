//! The requests to an instance, except answers, and the invariants after their replies.

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
    clients::SharedClient,
    history::{Effect, History},
    model::{POISON, SLOW_POISON},
    world::{Instance, World},
};

impl World {
    pub fn post_text(&mut self, chat: usize, instance: usize, client: u8, hold: Option<u64>, has_id: bool) {
        let (chat, instance) = (self.chat(chat), self.instance(instance));
        self.texts += 1;
        let text = format!("{chat} u{}.", self.texts);
        let mut message = json!({"role": "user", "content": text});
        if has_id {
            message["id"] = json!(format!("u{}", self.texts));
        }
        let body = body(&chat, client, &json!({ "message": message }));
        self.post(&instance, &chat, body, hold, Some(text), None);
    }

    pub fn post_poison(&mut self, chat: usize, instance: usize, is_slow: bool) {
        let (chat, instance) = (self.chat(chat), self.instance(instance));
        self.texts += 1;
        let text = format!("{chat} u{}. {}", self.texts, if is_slow { SLOW_POISON } else { POISON });
        let message = json!({"id": format!("u{}", self.texts), "role": "user", "content": text});
        let body = body(&chat, 7, &json!({ "message": message }));
        self.post(&instance, &chat, body, None, Some(text), None);
    }

    /// Posts a body, and follows the run.
    pub fn post(
        &self,
        instance: &Instance,
        chat: &ChatId,
        body: Value,
        hold: Option<u64>,
        text: Option<String>,
        removal: Option<usize>,
    ) {
        let follow = self.follower(instance, None, None);
        self.submit(instance, chat, body, hold, text, removal, follow);
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a post, and what follows from it")]
    pub fn submit(
        &self,
        instance: &Instance,
        chat: &ChatId,
        body: Value,
        hold: Option<u64>,
        text: Option<String>,
        removal: Option<usize>,
        follow: impl FnOnce(Following) + Send + 'static,
    ) {
        let what = format!("post {body}");
        let body = ChatBody::parse(body).unwrap();
        let hold = hold.map(Duration::from_secs);
        let (engine, owner) = (instance.engine.clone(), self.owner.clone());
        let work = async move {
            engine
                .submit(Submission {
                    owner,
                    body,
                    hold,
                    address: None,
                    groups: Vec::new(),
                    retries: None,
                    traceparent: None,
                })
                .await
        };
        let (history, chat, requested_at) = (self.history().clone(), chat.clone(), Instant::now());
        let context = what.clone();
        self.request(instance, what, work, move |done| {
            let result = done.as_ref().map(|done| done.as_ref().map(|following| following.run.to_string()));
            history.log(format!("{context}: {result:?}"));
            match done {
                Some(Ok(following)) => {
                    if let Some(removal) = removal {
                        history.end_removal(removal);
                    }
                    if let Some(text) = text {
                        history.acknowledge(&chat, requested_at, Effect::Message(text));
                    }
                    follow(following);
                }
                Some(Err(SubmitError::Unavailable(Unavailable::Store(error)))) => {
                    check_error(&history, &context, &error)
                }
                Some(Err(_)) | None => {}
            }
        });
    }

    pub fn post_again(&mut self, chat: usize, instance: usize) {
        let (chat, instance) = (self.chat(chat), self.instance(instance));
        let messages = self.messages(&chat);
        let Some(last) = messages.iter().rfind(|message| message.role == Role::User) else {
            return;
        };
        let removal = self.history().begin_removal(&chat, false);
        let body = body(&chat, 6, &json!({ "message": last }));
        self.post(&instance, &chat, body, None, None, Some(removal));
    }

    pub fn regenerate(&mut self, chat: usize, instance: usize) {
        let (chat, instance) = (self.chat(chat), self.instance(instance));
        let removal = self.history().begin_removal(&chat, false);
        let body =
            body(&chat, 7, &json!({"messages": self.messages(&chat), "trigger": "regenerate-message"}));
        self.post(&instance, &chat, body, None, None, Some(removal));
    }

    pub fn stop(&mut self, chat: usize, instance: usize) {
        let (chat, instance, owner) = (self.chat(chat), self.instance(instance), self.owner.clone());
        let open = self.record(&chat).and_then(|record| record.open_run).map(|run| run.id);
        let (engine, store, history, chat_id) =
            (instance.engine.clone(), self.store.clone(), self.history().clone(), chat.clone());
        let work = async move { engine.stop(&owner, &chat_id).await };
        self.request(&instance, format!("stop {chat}"), work, move |done| {
            history.log(format!("stop {chat}: {done:?}"));
            let now = ChatStore::chat(&*store, &chat).now_or_never().unwrap().unwrap();
            let now = now.and_then(|record| record.open_run).map(|run| run.id);
            if let (Some(Ok(())), Some(open)) = (done, open)
                && now == Some(open)
            {
                history.violation(format!("{now:?} was stopped and is open"));
            }
        });
    }

    pub fn delete(&mut self, chat: usize, instance: usize) {
        let (chat, instance, owner) = (self.chat(chat), self.instance(instance), self.owner.clone());
        let removal = self.history().begin_removal(&chat, true);
        let before: Vec<_> = self.messages(&chat).into_iter().map(|message| message.id).collect();
        let (engine, store, history, chat_id) =
            (instance.engine.clone(), self.store.clone(), self.history().clone(), chat.clone());
        let work = async move { engine.delete(&owner, &chat_id, false).await };
        self.request(&instance, format!("delete {chat}"), work, move |done| {
            history.log(format!("delete {chat}: {done:?}"));
            if let Some(Ok(())) = done {
                history.end_removal(removal);
                let now = ChatStore::messages(&*store, &chat).now_or_never().unwrap().unwrap();
                let mut left = now.iter().filter(|_| !history.may_be_recreated(&chat));
                if let Some(left) = left.find(|message| before.contains(&message.id)) {
                    history.violation(format!("{} outlives its chat", left.id));
                }
            }
        });
    }

    pub fn view(&mut self, chat: usize, instance: usize) {
        let (chat, instance, owner) = (self.chat(chat), self.instance(instance), self.owner.clone());
        let (engine, history) = (instance.engine.clone(), self.history().clone());
        let chat_id = chat.clone();
        let work = async move { engine.chat(&owner, &chat_id).await };
        self.request(&instance, format!("view {chat}"), work, move |done| {
            if let Some(Err(ReadError::Unavailable(Unavailable::Store(error)))) = done {
                check_error(&history, "view", &error);
            }
        });
    }

    pub fn follow(&mut self, chat: usize, instance: usize) {
        let (chat, instance) = (self.chat(chat), self.instance(instance));
        self.resume_after(&instance, &chat, None, None);
    }

    pub fn resume(&mut self, index: usize, instance: usize) {
        let Some(client) = self.client(index) else { return };
        let instance = self.instance(instance);
        let (chat, position) = {
            let client = client.lock().unwrap();
            (client.chat.clone(), client.position())
        };
        // A fork, because this client may read on.
        self.resume_after(&instance, &chat, position, Some(client));
    }

    fn resume_after(
        &self,
        instance: &Instance,
        chat: &ChatId,
        after: Option<EventId>,
        before: Option<SharedClient>,
    ) {
        let before = before.map(|before| {
            let copy = before.lock().unwrap().fork();
            Arc::new(Mutex::new(copy))
        });
        let follow = self.follower(instance, None, before);
        let (engine, owner, chat_id) = (instance.engine.clone(), self.owner.clone(), chat.clone());
        let what = format!("resume {chat} after {after:?}");
        let work = async move { engine.resume(&owner, &chat_id, after).await };
        let (history, context) = (self.history().clone(), what.clone());
        self.request(instance, what, work, move |done| {
            let result = done.as_ref().map(|done| {
                done.as_ref().map(|following| following.as_ref().map(|following| following.run.to_string()))
            });
            history.log(format!("{context}: {result:?}"));
            match done {
                Some(Ok(Some(following))) => follow(following),
                Some(Err(ReadError::Unavailable(Unavailable::Store(error)))) => {
                    check_error(&history, &context, &error)
                }
                Some(Ok(None) | Err(_)) | None => {}
            }
        });
    }
}

/// Notes a violation if an error is one that no fault explains.
pub fn check_error(history: &History, what: &str, error: &StoreError) {
    match error {
        StoreError::Unavailable(_) | StoreError::Unclear(_) | StoreError::Fenced => {}
        StoreError::Corrupt(_) | StoreError::Conflict(_) | StoreError::BadCursor => {
            history.violation(format!("{what}: {error}"));
        }
    }
}

/// Returns the body of a post with two browser tools.
pub fn body(chat: &ChatId, client: u8, what: &Value) -> Value {
    let tool = json!({"parameters": {"type": "object"}});
    let mut body = what.clone();
    body["id"] = json!(chat.as_str());
    body["tools"] = json!({"where": tool, "color": tool});
    body["fermata"] = json!({"client": client});
    body
}
