//! The public API: everything that can be asked of a chat, on one screen.

use std::{net::IpAddr, sync::Arc, time::Duration};

use fermata_protocol::{Answer, ChatId, EventId};
use fermata_tools::{
    Checker, ErrorType, LockQueue, Owner, Receipt, ResourceKey, Tool, ToolError, ToolSpec, Toolbox,
    ToolboxError,
};
use serde_json::{Map, Value};
use tokio::{sync::oneshot, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    AnswerError, ChatPages, ChatView, Clock, Following, GrantedTool, Ids, Mail, Model, Pending, ReadError,
    Rules, Settings, Store, Submission, SubmitError, Unavailable,
    chats::{Chats, Full, Lost},
    deployment_clock::DeploymentClock,
    driver::{Checked, Command, Driver, Record, Reply},
    errors::RequestError,
    instances::{Heartbeat, Instances, Order, follow_beats, free_locks, keep_alive, read_letters, sweep},
    model::Usage,
    open_runs::OpenRuns,
    rules::{Policies, PolicySnapshot},
    run::{Context, shutting_down},
    store::{ChatPage, InstanceId, StoreError},
    view::Detail,
};

/// Chats, runs and what waits in them.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// What all drivers share.
pub(crate) struct Inner {
    pub model: Arc<dyn Model>,
    pub store: Arc<dyn Store>,
    pub clock: DeploymentClock,
    pub ids: Arc<dyn Ids>,
    pub settings: Settings,
    /// Replaced as a whole.
    pub policies: Policies,
    pub chats: Chats,
    pub locks: LockQueue<ResourceKey>,
    pub open_runs: OpenRuns,
    /// Checks inputs against schemas.
    pub checker: Arc<Checker>,
    /// This process among those that share the store.
    pub instances: Instances,
    /// Drivers, and what works for them.
    pub tasks: TaskTracker,
    /// What goes on until the very end.
    upkeep: TaskTracker,
    /// The server is to end: nothing new begins.
    pub closing: CancellationToken,
    /// It ends now, whatever is at work.
    pub over: CancellationToken,
    gone: CancellationToken,
}

/// How long whoever drives a chat is looked for: for longer than it takes to notice that an instance has died.
const PATIENCE: Duration = Duration::from_secs(15);

/// What an engine is built from.
pub struct EngineParts {
    /// Who answers.
    pub model: Arc<dyn Model>,
    /// What survives.
    pub store: Arc<dyn Store>,
    /// How the instances that share the store reach each other; `None` where there is one instance only.
    pub mail: Option<Arc<dyn Mail>>,
    /// What the server itself can do.
    pub tools: Vec<Arc<dyn Tool>>,
    /// What decides about calls until [`Engine::set_rules`].
    pub rules: Rules,
    /// What time it is on this machine. It counts if the store has no clock that all instances share.
    pub clock: Arc<dyn Clock>,
    /// Where ids come from.
    pub ids: Arc<dyn Ids>,
    /// How it behaves.
    pub settings: Settings,
}

// === impl Engine ===

impl Engine {
    /// Builds an engine and starts the sweep for calls whose time is over. Needs a tokio runtime.
    ///
    /// # Errors
    /// Where two tools have one name, or a schema is none.
    pub fn new(parts: EngineParts) -> Result<Self, ToolboxError> {
        let heartbeat = heartbeat(&parts);
        let (snapshot, left_out) = PolicySnapshot::new(parts.rules, parts.tools, Vec::new());
        if let Some(error) = left_out.into_iter().next() {
            return Err(error);
        }
        let inner = Arc::new(Inner {
            instances: Instances::new(InstanceId::new(parts.ids.next("ins_")), parts.mail, heartbeat),
            policies: Policies::new(snapshot),
            model: parts.model,
            store: parts.store,
            clock: DeploymentClock::new(parts.clock),
            ids: parts.ids,
            settings: parts.settings,
            chats: Chats::default(),
            locks: LockQueue::new(),
            open_runs: OpenRuns::default(),
            checker: Arc::new(Checker::new()),
            tasks: TaskTracker::new(),
            upkeep: TaskTracker::new(),
            closing: CancellationToken::new(),
            over: CancellationToken::new(),
            gone: CancellationToken::new(),
        });
        inner.keep_up(&inner.closing, sweep(inner.clone()));
        inner.keep_up(&inner.gone, follow_beats(inner.clone()));
        let (gone, alive) = (inner.gone.clone(), Arc::downgrade(&inner));
        let beating = async move {
            gone.run_until_cancelled(keep_alive(alive)).await;
        };
        inner.instances.heartbeat.keep_up(&inner.upkeep, beating);
        if inner.instances.mail.is_some() {
            inner.keep_up(&inner.gone, read_letters(inner.clone()));
            inner.keep_up(&inner.gone, free_locks(inner.clone()));
        }
        Ok(Self { inner })
    }

    /// Starts or continues a run and follows it.
    ///
    /// # Errors
    /// Why nothing was started; see [`SubmitError`].
    pub async fn submit(&self, submission: Submission) -> Result<Following, SubmitError> {
        if self.inner.closing.is_cancelled() {
            return Err(Unavailable::ShuttingDown.into());
        }
        let limits = &self.inner.settings.limits;
        within("messages", submission.body.messages.len(), limits.messages)?;
        within("tools", submission.body.tools.len(), limits.tools)?;
        let system = submission.body.system.as_ref().map_or(0, String::len);
        within("bytes of `system`", system, limits.system_bytes)?;
        let chat = submission.body.id.clone().unwrap_or_else(|| ChatId::new(self.inner.ids.next("chat_")));
        if !self.inner.may_ask(&submission.owner, &chat).await? {
            return Err(SubmitError::NotFound);
        }
        self.inner.ask(&chat, |reply| Command::Submit(Box::new(submission), reply)).await
    }

    /// Delivers answers to calls that wait, all or none. Where they come from is noted with the decisions.
    ///
    /// # Errors
    /// Why none was taken; see [`AnswerError`].
    pub async fn answer(
        &self,
        owner: &Owner,
        chat: &ChatId,
        address: Option<IpAddr>,
        answers: Vec<Answer>,
    ) -> Result<Vec<Receipt>, AnswerError> {
        if self.inner.is_closed_to(chat) {
            return Err(Unavailable::ShuttingDown.into());
        }
        if !self.inner.may_ask(owner, chat).await? {
            return Err(AnswerError::NotFound("There is no chat with this id.".into()));
        }
        self.inner
            .ask(chat, |reply| Command::Answer {
                owner: owner.clone(),
                address,
                answers,
                checked: Checked::NotYet,
                reply,
            })
            .await
    }

    /// Follows the open run, from its start or after an event; `None` where none is open.
    ///
    /// # Errors
    /// Where the chat cannot be read.
    pub async fn resume(
        &self,
        owner: &Owner,
        chat: &ChatId,
        after: Option<EventId>,
    ) -> Result<Option<Following>, ReadError> {
        self.check_open(chat)?;
        if !self.inner.may_ask(owner, chat).await? {
            return Ok(None);
        }
        self.inner.ask(chat, |reply| Command::Resume { owner: owner.clone(), after, reply }).await
    }

    /// Ends the chat's run, with or without readers. Where no run is open, that is fine too.
    ///
    /// # Errors
    /// Where the chat cannot be read or saved.
    pub async fn stop(&self, owner: &Owner, chat: &ChatId) -> Result<(), ReadError> {
        self.check_open(chat)?;
        if !self.inner.may_ask(owner, chat).await? {
            return Ok(());
        }
        self.inner.ask(chat, |reply| Command::Stop { owner: owner.clone(), reply }).await
    }

    /// The chat.
    ///
    /// # Errors
    /// Where it is not this owner's or cannot be read.
    pub async fn chat(&self, owner: &Owner, chat: &ChatId) -> Result<ChatView, ReadError> {
        let mut pages = self.chat_in_pages(owner, chat).await?;
        let mut messages = Vec::new();
        loop {
            let page = pages.next().await?;
            if page.is_empty() {
                return Ok(ChatView { messages, ..pages.chat });
            }
            messages.extend(page);
        }
    }

    /// The same, with the messages to be read one page after the other.
    ///
    /// # Errors
    /// Where it is not this owner's or cannot be read.
    pub async fn chat_in_pages(&self, owner: &Owner, chat: &ChatId) -> Result<ChatPages, ReadError> {
        let chat = self.view(owner, chat, Detail::InPages).await?;
        Ok(ChatPages::new(chat, self.inner.store.clone()))
    }

    /// What waits for somebody in the chat.
    ///
    /// # Errors
    /// Where it is not this owner's or cannot be read.
    pub async fn pending(&self, owner: &Owner, chat: &ChatId) -> Result<Vec<Pending>, ReadError> {
        Ok(self.view(owner, chat, Detail::Pending).await?.pending)
    }

    async fn view(&self, owner: &Owner, chat: &ChatId, detail: Detail) -> Result<ChatView, ReadError> {
        self.check_open(chat)?;
        if !self.inner.may_ask(owner, chat).await? {
            return Err(ReadError::NotFound);
        }
        self.inner.ask(chat, |reply| Command::View { owner: owner.clone(), detail, reply }).await
    }

    /// The tools that a person has allowed for always in this chat, by name.
    ///
    /// # Errors
    /// Where the chat is not this owner's or cannot be read.
    pub async fn grants(&self, owner: &Owner, chat: &ChatId) -> Result<Vec<GrantedTool>, ReadError> {
        self.check_open(chat)?;
        if !self.inner.may_ask(owner, chat).await? {
            return Err(ReadError::NotFound);
        }
        self.inner.ask(chat, |reply| Command::Grants { owner: owner.clone(), reply }).await
    }

    /// Takes back that a tool is allowed for always. If it is not, that is fine too.
    ///
    /// # Errors
    /// Where the chat is not this owner's or cannot be changed.
    pub async fn end_grant(
        &self,
        owner: &Owner,
        chat: &ChatId,
        address: Option<IpAddr>,
        tool: String,
    ) -> Result<(), ReadError> {
        self.check_open(chat)?;
        if !self.inner.may_ask(owner, chat).await? {
            return Err(ReadError::NotFound);
        }
        self.inner.ask(chat, |reply| Command::EndGrant { owner: owner.clone(), address, tool, reply }).await
    }

    /// The owner's chats, newest first.
    ///
    /// # Errors
    /// Where they cannot be read, or `before` is no place in the list.
    pub async fn chats(
        &self,
        owner: &Owner,
        limit: usize,
        before: Option<&str>,
    ) -> Result<ChatPage, ReadError> {
        Ok(self.inner.store.chats(owner, limit, before).await?)
    }

    /// Forgets a chat; its open run ends.
    ///
    /// # Errors
    /// Where it is not this owner's or cannot be changed.
    pub async fn delete(&self, owner: &Owner, chat: &ChatId) -> Result<(), ReadError> {
        self.check_open(chat)?;
        if !self.inner.may_ask(owner, chat).await? {
            return Err(ReadError::NotFound);
        }
        self.inner.ask(chat, |reply| Command::Delete { owner: owner.clone(), reply }).await
    }

    /// The tools of the server and of MCP servers, as the rules want them: `policy` is what becomes of a call whose input no rule
    /// looks at.
    pub fn tools(&self, owner: &Owner) -> Vec<ToolSpec> {
        let current = self.inner.policies.current();
        let ruled = |spec: &ToolSpec| {
            // Rules about fields of the input say nothing of a tool as such.
            let policy_decision = current.rules.policy.decide(owner, spec, &Value::Object(Map::new()));
            ToolSpec { policy: policy_decision.decision, ..spec.clone() }
        };
        current.toolbox.specs().map(ruled).collect()
    }

    /// Replaces the rules, for every step that begins from now on.
    pub fn set_rules(&self, rules: Rules) {
        self.inner.policies.set_rules(rules);
    }

    /// Replaces the tools that come and go, such as those of MCP servers, for every step that begins from now on. Those that cannot
    /// be used are left out, with the reason; a name that a tool of the engine's own has is taken.
    pub fn set_tools(&self, tools: Vec<Arc<dyn Tool>>) -> Vec<ToolboxError> {
        self.inner.policies.set_tools(tools)
    }

    /// Whether requests can be served.
    ///
    /// # Errors
    /// Why they cannot.
    pub async fn ready(&self) -> Result<(), ReadError> {
        if self.inner.closing.is_cancelled() {
            return Err(Unavailable::ShuttingDown.into());
        }
        Ok(self.inner.store.ready().await?)
    }

    /// Ends everything in good order: nothing new begins; runs that wait end for their readers at once with an `error` chunk, those at
    /// work when they come to wait, or when [`Settings::drain`] is over. All stay saved, for other instances or the next start.
    pub async fn shutdown(&self) {
        let inner = &self.inner;
        inner.closing.cancel();
        inner.tasks.close();
        inner.instances.feeds.leave(&shutting_down());
        // Nobody here goes on with a run that waits; others may at once.
        if let Err(error) = inner.store.release(&inner.instances.me).await {
            tracing::warn!(%error, "runs that wait could not be let go; they are taken up when this instance is gone");
        }
        if tokio::time::timeout(inner.settings.drain, inner.tasks.wait()).await.is_err() {
            tracing::info!("runs were still at work; they go on elsewhere, or after the next start");
        }
        inner.over.cancel();
        inner.tasks.wait().await;
        inner.gone.cancel();
        inner.upkeep.close();
        inner.upkeep.wait().await;
        // Those that came while the server ended.
        inner.instances.feeds.leave(&shutting_down());
        if let Some(mail) = &inner.instances.mail {
            mail.close(&inner.instances.me).await;
        }
        if let Err(error) = inner.instances.leave(&inner.store).await {
            tracing::warn!(%error, "the database could not be told that this instance ends; it will be noticed");
        }
    }

    fn check_open(&self, chat: &ChatId) -> Result<(), ReadError> {
        if self.inner.is_closed_to(chat) { Err(Unavailable::ShuttingDown.into()) } else { Ok(()) }
    }
}

/// Where this instance says that it is alive. On a store of its own nobody asks.
fn heartbeat(parts: &EngineParts) -> Heartbeat {
    if !parts.settings.heartbeat_thread || !parts.store.is_shared() {
        return Heartbeat::Shared;
    }
    Heartbeat::thread().unwrap_or_else(|error| {
        tracing::warn!(%error, "no thread can be started to say that this instance is alive; when it is busy, it may be taken for dead");
        Heartbeat::Shared
    })
}

fn within(what: &str, count: usize, limit: usize) -> Result<(), SubmitError> {
    if count <= limit {
        return Ok(());
    }
    Err(SubmitError::TooLarge(format!("The post has {count} {what}; the limit is {limit}.")))
}

// === impl Inner ===

impl Inner {
    fn keep_up(&self, until: &CancellationToken, work: impl Future<Output = ()> + Send + 'static) {
        let until = until.clone();
        self.upkeep.spawn(async move { until.run_until_cancelled(work).await });
    }

    /// Whether the server ends and nothing of this chat is at work here any more.
    pub fn is_closed_to(&self, chat: &ChatId) -> bool {
        self.closing.is_cancelled() && !self.chats.is_driven(chat)
    }

    /// Whether the chat is this owner's, or nobody's yet. Looked at before anything else of the chat is read, and before its driver is
    /// disturbed, so that strangers cost its owner nothing. The driver looks once more: the chat may have changed hands.
    pub async fn may_ask(&self, owner: &Owner, chat: &ChatId) -> Result<bool, StoreError> {
        if self.chats.is_known_as(chat, owner) {
            return Ok(true);
        }
        Ok(self.store.owner_of(chat).await?.is_none_or(|known| known.owner == *owner))
    }

    /// A command for whoever drives the chat.
    pub fn order(&self, command: Command) -> Order {
        Order { command, until: Instant::now() + PATIENCE, from_afar: false }
    }

    /// Puts an order to the chat's driver, starting one where there is none. If the driver's inbox is full, whoever asked is told that
    /// the chat is busy, and `false` is returned.
    pub fn tell(self: &Arc<Self>, chat: &ChatId, order: Order) -> bool {
        let start = |inbox| Driver::start(self.clone(), chat.clone(), inbox);
        match self.chats.tell(chat, start, order) {
            Ok(()) => true,
            Err(Full(order)) => {
                order.command.refuse_as_busy();
                false
            }
        }
    }

    /// The same, and waits for its answer.
    pub async fn put<T, E>(
        self: &Arc<Self>,
        chat: &ChatId,
        order: impl FnOnce(Reply<T, E>) -> Order,
    ) -> Result<Result<T, E>, Lost> {
        let (reply, answer) = oneshot::channel();
        self.tell(chat, order(Reply::to(reply)));
        // Also what finds no room is answered.
        answer.await.map_err(|_| Lost)
    }

    /// Has whoever drives the chat do something, and waits for what comes of it.
    pub async fn ask<T, E: RequestError>(
        self: &Arc<Self>,
        chat: &ChatId,
        command: impl FnOnce(Reply<T, E>) -> Command,
    ) -> Result<T, E> {
        match self.put(chat, |reply| self.order(command(reply))).await {
            Ok(answer) => answer,
            Err(Lost) if self.closing.is_cancelled() => Err(Unavailable::ShuttingDown.into()),
            Err(Lost) => Err(E::from(StoreError::Unavailable("the chat's driver has failed".into()))),
        }
    }

    /// What a run that goes by these rules and tools may look at now.
    pub fn context<'a>(&'a self, rules: &'a Rules, toolbox: &'a Toolbox, record: &'a Record) -> Context<'a> {
        Context {
            now: self.clock.now(),
            ids: &*self.ids,
            toolbox,
            rules,
            newest: self.policies.current().rules.policy.clone(),
            limits: &self.settings.limits,
            expire: self.settings.expire,
            owner: &record.owner,
            grants: &record.grants,
            other_bytes: record.bytes,
            address: None,
        }
    }

    /// A tool's outcome, unless it is too large.
    pub fn within_limit(&self, outcome: Result<Value, ToolError>) -> Result<Value, ToolError> {
        let limit = self.settings.limits.output_bytes;
        outcome.and_then(|output| {
            let bytes = output.to_string().len();
            if bytes <= limit {
                Ok(output)
            } else {
                let words = format!("The output of the tool has {bytes} bytes; the limit is {limit}.");
                Err(ToolError::new(ErrorType::InvalidFormat, words))
            }
        })
    }

    /// Counts a call of the model.
    pub fn note_model_call(&self, took: Option<Duration>, before: Usage, after: Usage) {
        let model = self.model.name().to_owned();
        if let Some(took) = took {
            let labels =
                [("gen_ai_operation_name", "chat".to_owned()), ("gen_ai_request_model", model.clone())];
            metrics::histogram!("gen_ai_client_operation_duration_seconds", &labels).record(took);
        }
        let kinds = [
            ("input", before.input_tokens, after.input_tokens),
            ("output", before.output_tokens, after.output_tokens),
        ];
        for (kind, before, after) in kinds.into_iter().filter(|(_, before, after)| after > before) {
            let labels = [("gen_ai_request_model", model.clone()), ("gen_ai_token_type", kind.to_owned())];
            #[expect(clippy::cast_precision_loss, reason = "nobody counts tokens to the last of 2^53")]
            metrics::histogram!("gen_ai_client_token_usage", &labels).record((after - before) as f64);
        }
    }
}
