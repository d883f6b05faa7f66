//! The checks after a schedule, when all faults have ended and time has passed.

use std::{sync::atomic::Ordering, time::Duration};

use fermata_engine::{
    Submission,
    model::ModelRequest,
    store::{
        ChatStore, InstanceId, LockStore, Membership, WantedUsage,
        memories::{Memories, MemoryFilter},
    },
};
use fermata_protocol::{
    Answer, AnswerKind, AnswerTarget, ChatBody, ChatId, MessageId, Profile, ToolState, UiMessage, UiPart,
};
use fermata_tools::{Call, DecisionChannel, Owner, ResourceKey, ValidAnswer};
use futures::FutureExt;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    clients::{Client, StreamEnd},
    history::Effect,
    model::{NO_FACT, contains_text, memory_of, result_of},
    requests::body,
    world::{CHATS, Instance, World},
};

/// Longer than any call waits, with all steps that may follow.
const SETTLE_TIME: Duration = Duration::from_secs(1000);
/// Longer than any step takes without faults.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

impl World {
    /// Ends all faults, lets time pass, and makes all checks.
    pub async fn settle_and_check(mut self) {
        self.history().log("all faults end here");
        self.end_faults();
        self.model.is_calm.store(true, Ordering::SeqCst);
        self.let_pass(SETTLE_TIME).await;
        self.requests.close();
        if timeout(STEP_TIMEOUT, self.requests.wait()).await.is_err() {
            self.history().violation("a request or a reader hangs");
        }
        self.check_clients();
        self.check_idle();
        self.check_acknowledgments();
        self.check_locks().await;
        self.check_memories();
        self.check_next_runs().await;
        self.shut_down_all().await;
    }

    /// Checks that what came with a summary was remembered with it, and once.
    fn check_memories(&self) {
        let filter = MemoryFilter::default();
        let all = self.store.memories(&self.owner, &filter).now_or_never().unwrap().unwrap();
        let mut known: Vec<String> = all.into_iter().map(|memory| memory.text).collect();
        known.sort_unstable();
        if let Some(pair) = known.windows(2).find(|pair| pair[0] == pair[1]) {
            self.history().violation(format!("{:?} is remembered twice", pair[0]));
        }
        for chat in 0..CHATS {
            let mut most = usize::MAX;
            while let Some(summary) =
                self.store.summary(&self.chat(chat), most).now_or_never().unwrap().unwrap()
            {
                let goal = summary.content["summary"]["goal"].as_str().unwrap();
                if goal != NO_FACT && !known.contains(&memory_of(goal.parse().unwrap())) {
                    self.history().violation(format!("the fact {goal} of a summary is not remembered"));
                }
                most = summary.messages - 1;
            }
        }
    }

    /// Lets time pass. Instances that end meanwhile are started again.
    pub async fn let_pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            sleep(Duration::from_secs(1)).await;
            for instance in 0..self.instances.len() {
                self.instance(instance);
            }
        }
    }

    /// Checks that each stream has ended, and that a client that has read all of it shows the record.
    fn check_clients(&self) {
        for client in self.clients.lock().unwrap().iter() {
            let client = client.lock().unwrap();
            let has_end = client.has("finish") || client.has("error") || client.has("abort");
            let why = match client.end {
                StreamEnd::Open => "hangs",
                StreamEnd::Done if !has_end => "got [DONE] without a last chunk",
                StreamEnd::Done | StreamEnd::Broken => {
                    self.check_message(&client);
                    continue;
                }
            };
            self.history().violation(format!("a reader of {} {why}: {}", client.run, client.types()));
        }
    }

    fn check_message(&self, client: &Client) {
        if client.profile == Profile::V5 || client.is_mixed {
            return;
        }
        let mut shown = match client.message() {
            Ok(shown) => shown,
            Err(error) => {
                return self.history().violation(format!("a client would fail, {error}: {}", client.types()));
            }
        };
        if !client.has_read_end() {
            return;
        }
        // A client shows its own decision, although another client's may count.
        for call in self.calls_of(&client.chat, &shown.snapshot()) {
            if let (Some(question), Some(decided)) = (&call.approval_request, &call.approval_decision) {
                shown.decide(&question.id, decided.approved, decided.reason.as_deref());
            }
        }
        let mut shown = shown.snapshot();
        match self.messages(&client.chat).iter().find(|message| message.id == shown.id) {
            Some(saved) => {
                forget_late_decisions(&mut shown, saved);
                // The stream does not say when the message was begun.
                shown.created_at = saved.created_at;
                let (shown, saved) = (client.profile.message(&shown), client.profile.message(saved));
                if shown != saved {
                    let difference = format!("is shown as {}\nand saved as {}", json!(shown), json!(saved));
                    self.history().violation(format!("{} {difference}\n{}", client.run, client.types()));
                }
            }
            None if self.history().may_lack_messages(&client.chat) => {}
            None => self.history().violation(format!("{} is shown and not saved", shown.id)),
        }
    }

    fn calls_of(&self, chat: &ChatId, message: &UiMessage) -> Vec<Call> {
        let parts = message.parts.iter().filter_map(UiPart::as_tool);
        parts.filter_map(|part| self.call(chat, &AnswerTarget::Call(part.tool_call_id.clone()))).collect()
    }

    /// Checks that words have decided only about calls that their senders were shown.
    fn check_words(&self, chat: &ChatId) {
        for call in self.messages(chat).iter().flat_map(|message| self.calls_of(chat, message)) {
            let (Some(asked), Some(decided)) = (&call.approval_request, &call.approval_decision) else {
                continue;
            };
            if decided.how == Some(DecisionChannel::Words) && !self.history().was_shown(&asked.id) {
                self.history()
                    .violation(format!("words have decided about {}, which nobody was shown", call.id));
            }
        }
    }

    fn call(&self, chat: &ChatId, of: &AnswerTarget) -> Option<Call> {
        self.store.call(chat, of).now_or_never().unwrap().unwrap()
    }

    /// Checks that no run is open and that nothing is at work.
    fn check_idle(&self) {
        for chat in (0..CHATS).map(|chat| self.chat(chat)) {
            if let Some(run) = self.record(&chat).and_then(|record| record.open_run) {
                let calls: Vec<_> =
                    run.calls.iter().map(|call| (call.id.to_string(), call.state().name())).collect();
                let owner = self.record(&chat).and_then(|record| record.run_owner);
                self.history()
                    .violation(format!("{} of {chat} is open, {owner:?}: {calls:?} {}", run.id, run.state));
            }
            self.check_messages(&chat);
            self.check_words(&chat);
        }
        let active = self.executions.active();
        if !active.is_empty() {
            self.history().violation(format!("{active:?} run for ever"));
        }
        if self.model.has_open_streams() {
            self.history().violation("a stream of the model is open for ever");
        }
    }

    /// Checks that no user message is in a chat twice, and that no call of the record is open.
    fn check_messages(&self, chat: &ChatId) {
        let messages = self.messages(chat);
        let mut texts: Vec<_> =
            messages.iter().flat_map(|message| &message.parts).filter_map(UiPart::as_text).collect();
        texts.retain(|text| text.starts_with(chat.as_str()));
        texts.sort_unstable();
        if let Some(twice) = texts.windows(2).find(|pair| pair[0] == pair[1]) {
            self.history().violation(format!("{} is there twice", twice[0]));
        }
        for part in messages.iter().flat_map(|message| &message.parts).filter_map(UiPart::as_tool) {
            if !part.state.is_settled() {
                self.history().violation(format!("{} of {chat} is open in the record", part.tool_call_id));
            }
        }
    }

    fn check_acknowledgments(&self) {
        let acknowledgments = self.history().lock().acknowledgments.clone();
        for acknowledgment in acknowledgments {
            let is_missing = match &acknowledgment.effect {
                Effect::Message(text) => {
                    let has_text =
                        |message: &UiMessage| message.parts.iter().any(|part| part.as_text() == Some(text));
                    !self.messages(&acknowledgment.chat).iter().any(has_text)
                        && !self.history().lock().may_be_removed(&acknowledgment, false)
                }
                Effect::Answer(answer) => {
                    self.broken_effect(&acknowledgment.chat, answer).is_some_and(|why| {
                        self.history().log(why);
                        !self.history().lock().may_be_removed(&acknowledgment, true)
                    })
                }
            };
            if is_missing {
                self.history().violation(format!("{acknowledgment:?} is lost"));
            }
        }
    }

    /// Returns why an answer that was accepted has not had its effect; `None` if it has.
    fn broken_effect(&self, chat: &ChatId, answer: &Answer) -> Option<String> {
        if let AnswerTarget::Elicitation(id) = &answer.of {
            let messages = self.messages(chat);
            let calls: Vec<_> = messages.iter().flat_map(|message| self.calls_of(chat, message)).collect();
            let AnswerKind::Elicited { action, content } = &answer.kind else { return None };
            let is_it = |reply: &&fermata_tools::ElicitationRecord| reply.to == *id;
            let reply = calls.iter().flat_map(|call| &call.replies).find(is_it);
            let is_kept = reply.is_some_and(|reply| reply.action == *action && reply.content == *content);
            // If the message was removed, so were its calls.
            return (!is_kept && !self.history().may_lack_messages(chat))
                .then(|| format!("{answer:?} has become {reply:?}"));
        }
        let Some(call) = self.call(chat, &answer.of) else { return Some(format!("{answer:?} has no call")) };
        let is_kept = match &answer.kind {
            AnswerKind::Output { .. } | AnswerKind::Failure { .. } => {
                call.validate_answer(&answer.kind, &Owner::anyone().into()) == Ok(ValidAnswer::Repeated)
            }
            AnswerKind::Decision { approved, .. } => {
                // An approval can be taken back before the call begins; a denial is final.
                match call.approval_decision.as_ref().map(|decided| decided.approved) {
                    Some(true) => *approved,
                    Some(false) => self.executions.begun(call.id.as_str()) == 0,
                    None => false,
                }
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
                self.history().violation(format!("{key:?} is locked for ever"));
            }
        }
        self.store.leave(&probe).await.unwrap();
    }

    /// Checks that every chat goes on at every instance, and that the model gets the outcome of each call.
    async fn check_next_runs(&mut self) {
        let mut chats = Vec::new();
        for chat in 0..CHATS {
            // A chat that was deleted takes no more posts.
            if !self.store.was_deleted(&self.owner, &self.chat(chat)).await.unwrap() {
                chats.push(chat);
            }
        }
        for instance in 0..self.instances.len() {
            let instance = self.instance(instance);
            // All chats at once, because no run that is over may count as open.
            let posts = chats.iter().map(|&chat| {
                self.texts += 1;
                self.check_post(instance.clone(), self.chat(chat), self.texts)
            });
            let posts: Vec<_> = posts.collect();
            futures::future::join_all(posts).await;
        }
        let first = self.texts + 1 - chats.len();
        for (number, chat) in (first..).zip(chats) {
            let chat = self.chat(chat);
            self.check_request(&chat, number);
            self.check_views(&chat).await;
        }
    }

    fn check_post(
        &self,
        instance: Instance,
        chat: ChatId,
        number: usize,
    ) -> impl Future<Output = ()> + use<> {
        let message =
            json!({"id": format!("u{number}"), "role": "user", "content": format!("{chat} u{number}.")});
        let body = ChatBody::parse(body(&chat, 6, &json!({ "message": message }))).unwrap();
        let (owner, history) = (self.owner.clone(), self.history().clone());
        let post = async move {
            let following = instance
                .engine
                .submit(Submission {
                    owner,
                    body,
                    hold: None,
                    address: None,
                    groups: Vec::new(),
                    retries: None,
                    traceparent: None,
                })
                .await;
            let mut reader = following.map_err(|error| error.to_string())?.reader;
            let mut all = String::new();
            while let Some(bytes) = reader.next().await {
                all.push_str(std::str::from_utf8(&bytes).unwrap());
            }
            let is_whole = all.contains("done") && all.contains("\"finish\"") && all.ends_with("[DONE]\n\n");
            if is_whole { Ok(()) } else { Err(all) }
        };
        async move {
            match timeout(STEP_TIMEOUT, post).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => history.violation(format!("the next run of {chat} fails: {error}")),
                Err(_) => history.violation(format!("the next run of {chat} hangs")),
            }
        }
    }

    /// Checks that the model gets the result of each call of the record, except for those that a summary stands for by now.
    fn check_request(&self, chat: &ChatId, number: usize) {
        let requests = self.model.requests.lock().unwrap();
        let is_about = |request: &&ModelRequest| {
            format!("{:?}", request.messages).contains(&format!("{chat} u{number}."))
        };
        let Some(request) = requests.iter().rev().find(is_about) else {
            return self.history().violation(format!("the model got no request about {chat}"));
        };
        let messages = self.messages(chat);
        let record = self.store.chat(chat).now_or_never().unwrap().unwrap().unwrap();
        let left_out = record.context["fit"]["leftOut"].as_u64().unwrap_or_default();
        let sent = messages.iter().skip(usize::try_from(left_out).unwrap());
        for part in sent.flat_map(|message| &message.parts).filter_map(UiPart::as_tool) {
            let id = part.tool_call_id.as_str();
            let Some(result) = result_of(request, id) else {
                self.history().violation(format!("the model gets no result of {id}"));
                continue;
            };
            let has_result = match &part.state {
                ToolState::OutputAvailable { output, .. } if output.is_string() => {
                    contains_text(result, output)
                }
                _ => !result.is_empty(),
            };
            if !has_result {
                self.history().violation(format!("the model gets {result:?} for {part:?}"));
            }
        }
    }

    /// Checks that every instance shows the saved state.
    async fn check_views(&mut self, chat: &ChatId) {
        let saved: Vec<MessageId> = self.messages(chat).into_iter().map(|message| message.id).collect();
        for instance in 0..self.instances.len() {
            let instance = self.instance(instance);
            match instance.engine.chat(&self.owner, chat).await {
                Ok(view) => {
                    let shown: Vec<_> = view.messages.iter().map(|message| message.id.clone()).collect();
                    if view.open || !view.pending.is_empty() || shown != saved {
                        self.history().violation(format!("{chat} is shown as {view:?}"));
                    }
                }
                Err(error) => self.history().violation(format!("{chat} cannot be shown: {error}")),
            }
        }
    }

    /// Checks that all instances shut down, and that no run counts as open.
    async fn shut_down_all(&mut self) {
        let wanted = WantedUsage { runs_elsewhere: Some(usize::MAX), ..WantedUsage::default() };
        let usage = self.store.usage(&self.owner, &InstanceId::new("probe"), wanted).await.unwrap();
        if usage.runs_elsewhere > 0 {
            self.history().violation(format!("{} runs are open", usage.runs_elsewhere));
        }
        let instances = std::mem::take(&mut self.instances);
        for instance in instances {
            if timeout(STEP_TIMEOUT, instance.engine.shutdown()).await.is_err() {
                self.history().violation(format!("{:?} does not end", instance.store.joined()));
            }
        }
    }
}

/// Forgets the decisions of a client about requests that were over when it decided, so that the record has no decision. A client shows its
/// own decision, and there is no chunk that takes it back.
fn forget_late_decisions(shown: &mut UiMessage, saved: &UiMessage) {
    let saved: Vec<_> = saved.parts.iter().filter_map(UiPart::as_tool).collect();
    for part in &mut shown.parts {
        let UiPart::Tool(part) = part else { continue };
        let Some(approval) = &mut part.approval else { continue };
        let is_undecided = saved
            .iter()
            .filter_map(|saved| saved.approval.as_ref())
            .any(|saved| saved.id == approval.id && saved.approved.is_none());
        if is_undecided {
            (approval.approved, approval.reason) = (None, None);
        }
    }
}
