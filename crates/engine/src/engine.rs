//! The public API: everything that can be asked of a chat, on one screen.

pub(crate) mod approvals;
pub mod preview;
pub(crate) mod version;
mod zero_series;

use std::{
    net::IpAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use fermata_protocol::{
    Answer, AnswerKind, AnswerTarget, ChatId, ChatPatch, EventId, GrantedFor, JsonText, MessageId, Summary,
    ToolCallId,
};
use fermata_tools::{
    Capacity, Checker, Decider, Grant, Owner, Principal, Receipt, Tool, ToolSpec, ToolboxError,
};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use crate::{
    api::{
        errors::{
            AnswerError, CallError, DeleteMessageError, PlanError, ReadError, SubmitError, SummaryError,
            Unavailable,
        },
        request::{self, Following, Submission},
        view::{ChatPages, ChatView, Detail, InputPreview, Pending, SummaryView},
    },
    assistants::Assistants,
    cluster::Cluster,
    deployment_clock::{Clock, DeploymentClock},
    memories::MemoryService,
    ports::traces::Traces,
    ports::{
        ids::Ids,
        peer_transport::PeerTransport,
        resolver::Resolver,
        store::{ChatPage, ChatQuery, InstanceId, Listing, Store},
    },
    router::Router,
    run::interrupted,
    services::{
        ApprovalFeed, DrainCounts, DueSummaries, Heartbeat, Holds, Lease, OpenRuns, Outage, Policies,
        PolicySnapshot, Repeated, ResourceLocks, Rules, Services, Shutdown,
    },
    settings::Settings,
};

/// A shutdown moves streams in this many batches, with this time between two of them.
const MOVES: usize = 20;
const MOVE_EVERY: Duration = Duration::from_millis(100);
/// The number of streams that are moved at once, even if there are few.
const LEAST_MOVED: usize = 50;

/// Chats, runs, and the calls that wait in them.
#[derive(Clone)]
pub struct Engine {
    services: Arc<Services>,
    cluster: Arc<Cluster>,
    router: Arc<Router>,
}

/// The parts that an engine is built from.
pub struct EngineParts {
    /// The assistants until [`Engine::set_assistants`]. [`Assistants::answered_by`] is one model for everybody.
    pub assistants: Assistants,
    /// The store for everything that survives the process.
    pub store: Arc<dyn Store>,
    /// The transport to the other instances that share the store; `None` if there is only one instance.
    pub peers: Option<Arc<dyn PeerTransport>>,
    /// The tools of the server itself.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The rules until [`Engine::set_rules`].
    pub rules: Rules,
    /// The clock of this machine. It counts if the store has no clock that all instances share.
    pub clock: Arc<dyn Clock>,
    /// The source of ids.
    pub ids: Arc<dyn Ids>,
    /// Looks up the names in URLs of files.
    pub resolver: Arc<dyn Resolver>,
    /// The memories of users, which tools and pages may use as well.
    pub memories: MemoryService,
    /// The slots of requests to models, for any purpose. The memories have the same.
    pub model_requests: Capacity,
    /// Takes the traces of runs; `None` if they are not traced.
    pub traces: Option<Arc<dyn Traces>>,
    /// The settings, which are fixed while the engine runs.
    pub settings: Settings,
}

// === impl Engine ===

impl Engine {
    /// Builds an engine and starts its background tasks. Needs a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if two tools have the same name, or a tool cannot be used.
    pub fn new(parts: EngineParts) -> Result<Self, ToolboxError> {
        let mut heartbeat = Heartbeat::Shared;
        // On a store that is not shared, no other instance looks for heartbeats.
        if parts.settings.heartbeat_thread && parts.store.is_shared() {
            match Heartbeat::thread() {
                Ok(thread) => heartbeat = thread,
                Err(error) => {
                    tracing::warn!(%error, "the heartbeat thread cannot be started; when this instance is busy, its lease may expire")
                }
            }
        }
        let (snapshot, unusable) =
            PolicySnapshot::new(parts.rules, Arc::new(parts.assistants), parts.tools, Vec::new());
        if let Some(error) = unusable.into_iter().next() {
            return Err(error);
        }
        zero_series::begin(&snapshot);
        let instance = InstanceId::new(parts.ids.next("ins_"));
        let clock = Arc::new(DeploymentClock::new(parts.clock, instance.clone()));
        let shutdown = Shutdown::default();
        let locks = if parts.peers.is_some() {
            ResourceLocks::of_cluster(parts.store.clone(), instance.clone(), shutdown.tasks.clone())
        } else {
            ResourceLocks::local()
        };
        let limits = &parts.settings.limits;
        let outage = Outage::new(instance.clone());
        let services = Arc::new(Services {
            lease: Lease::new(instance, heartbeat, parts.store.clone(), clock.clone()),
            store: parts.store,
            clock,
            ids: parts.ids,
            resolver: parts.resolver,
            holds: Holds::new(parts.settings.hold),
            running_calls: Capacity::new(limits.running_calls, limits.running_calls_per_owner),
            model_requests: parts.model_requests,
            settings: parts.settings,
            policies: Policies::new(snapshot),
            locks,
            open_runs: OpenRuns::default(),
            checker: Arc::new(Checker::new()),
            due_summaries: DueSummaries::new(),
            memories: parts.memories,
            shutdown,
            repeated: Repeated::default(),
            outage,
            approval_feed: ApprovalFeed::default(),
            traces: parts.traces,
        });
        let cluster = Arc::new(Cluster::new(services.clone(), parts.peers));
        let router = Arc::new(Router::new(services.clone(), cluster.clone()));

        let Shutdown { draining, stopped, background, .. } = &services.shutdown;
        let keep_alive = Cluster::keep_alive(Arc::downgrade(&cluster));
        services.lease.heartbeat.spawn(background, stopped.clone().cut_off(keep_alive));
        services.shutdown.spawn_background(stopped, ApprovalFeed::read(services.clone()));
        services.shutdown.spawn_background(draining, router.clone().sweep());
        services.shutdown.spawn_background(draining, router.clone().write_summaries());
        services.shutdown.spawn_background(draining, services.memories.clone().embed_in_background());
        services.shutdown.spawn_background(stopped, router.clone().follow_lease());
        services.shutdown.spawn_background(stopped, router.clone().serve_cluster());
        let locks = services.clone();
        services.shutdown.spawn_background(stopped, async move { locks.locks.release_dropped().await });
        Ok(Self { services, cluster, router })
    }

    /// Starts or continues a run and follows it.
    ///
    /// # Errors
    /// Returns the reason if nothing was started.
    pub async fn submit(&self, submission: Submission) -> Result<Following, SubmitError> {
        if self.services.shutdown.draining.is_reached() {
            return Err(self.services.shutdown.refuse().into());
        }
        let limits = &self.services.settings.limits;
        let body = &submission.body;
        let system_bytes = body.system.as_ref().map_or(0, String::len);
        for (what, count, limit) in [
            ("tools", body.tools.len(), limits.tools),
            ("bytes of `system`", system_bytes, limits.system_bytes),
        ] {
            if count > limit {
                let text = format!("The post has {count} {what}; the limit is {limit}.");
                return Err(SubmitError::TooLarge(text));
            }
        }
        let chat = body.id.clone().unwrap_or_else(|| ChatId::new(self.services.ids.next("chat_")));
        self.router.call(&chat, Box::new(submission)).await
    }

    /// Delivers answers of a chat's owner to pending calls: all are accepted, or none.
    ///
    /// # Errors
    /// Returns the reason if none was accepted.
    pub async fn answer(
        &self,
        by: Decider,
        chat: &ChatId,
        answers: Vec<Answer>,
    ) -> Result<Vec<Receipt>, AnswerError> {
        let owner = by.by.user.clone();
        let answer = request::AnswerRequest { owner, by, answers, checked: Vec::new() };
        self.router.call(chat, answer).await
    }

    /// Tells the other readers of the chat that a person has begun to edit the input of a call that waits for a decision, or has stopped to.
    /// It is believed for 90 seconds.
    ///
    /// # Errors
    /// Returns an error if the user has no such chat or call, or if the call waits for no decision.
    pub async fn edit_input(
        &self,
        owner: &Owner,
        chat: &ChatId,
        of: AnswerTarget,
        is_edited: bool,
    ) -> Result<Vec<Receipt>, AnswerError> {
        let edit = request::EditInput { owner: owner.clone(), of, is_edited };
        self.router.call(chat, edit).await
    }

    /// Returns how a call that waits for a decision would be shown with another input, and what the rules would say of it. Nothing changes.
    ///
    /// # Errors
    /// Returns an error if the user has no such chat or call, if the call waits for no decision, or if the input does not fit it.
    pub async fn preview_input(
        &self,
        owner: &Owner,
        chat: &ChatId,
        of: AnswerTarget,
        input: JsonText,
    ) -> Result<InputPreview, AnswerError> {
        let kind = AnswerKind::Decision { approved: true, reason: None, always: None, input: Some(input) };
        let answer = Answer { of, kind };
        let preview = request::PreviewInput { owner: owner.clone(), answer, checked: Vec::new() };
        self.router.call(chat, preview).await
    }

    /// Follows the open run, from its start or after an event; `None` if no run is open.
    ///
    /// # Errors
    /// Returns an error if the chat cannot be read.
    pub async fn resume(
        &self,
        owner: &Owner,
        chat: &ChatId,
        after: Option<EventId>,
    ) -> Result<Option<Following>, ReadError> {
        self.router.call(chat, request::Resume { owner: owner.clone(), after }).await
    }

    /// Ends the chat's run, with or without readers. It is no error if no run is open.
    ///
    /// # Errors
    /// Returns an error if the chat cannot be read or saved.
    pub async fn stop(&self, owner: &Owner, chat: &ChatId) -> Result<(), ReadError> {
        self.router.call(chat, request::Stop { owner: owner.clone(), run: None }).await
    }

    /// Cancels one call that a tool of the server or of an MCP server runs. The run goes on.
    ///
    /// # Errors
    /// Returns an error if the user has no such chat or call, or if the call does not run.
    pub async fn cancel_call(&self, owner: &Owner, chat: &ChatId, call: ToolCallId) -> Result<(), CallError> {
        self.router.call(chat, request::CancelCall { owner: owner.clone(), call }).await
    }

    /// Ends the hold of a chat's open run before its time: its streams end cleanly, and its calls wait on. Returns `false` if the run does not
    /// wait, or holds no stream.
    ///
    /// # Errors
    /// Returns an error if the chat cannot be read or changed.
    pub async fn end_hold(&self, owner: &Owner, chat: &ChatId) -> Result<bool, ReadError> {
        self.router.call(chat, request::EndHold { owner: owner.clone() }).await
    }

    /// Reads a chat with all of its messages.
    ///
    /// # Errors
    /// Returns an error if the chat does not belong to this user or cannot be read.
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

    /// Reads a chat whose messages are read page by page.
    ///
    /// # Errors
    /// Returns an error if the chat does not belong to this user or cannot be read.
    pub async fn chat_in_pages(&self, owner: &Owner, chat: &ChatId) -> Result<ChatPages, ReadError> {
        let view = request::View { owner: owner.clone(), detail: Detail::InPages };
        Ok(ChatPages::new(self.router.call(chat, view).await?, self.services.store.clone()))
    }

    /// Lists the calls and questions that wait in a chat.
    ///
    /// # Errors
    /// Returns an error if the chat does not belong to this user or cannot be read.
    pub async fn pending(&self, owner: &Owner, chat: &ChatId) -> Result<Vec<Pending>, ReadError> {
        let view = request::View { owner: owner.clone(), detail: Detail::Pending };
        Ok(self.router.call(chat, view).await?.pending)
    }

    /// Lists the grants that count in this chat: its own, and those of its owner.
    ///
    /// # Errors
    /// Returns an error if the chat does not belong to this user or cannot be read.
    pub async fn grants(&self, owner: &Owner, chat: &ChatId) -> Result<Vec<Grant>, ReadError> {
        self.router.call(chat, request::Grants { owner: owner.clone() }).await
    }

    /// Revokes the grants that were given for a tool: all of them, or those of one scope or kind. It is no error if there are none.
    ///
    /// # Errors
    /// Returns an error if the chat does not belong to this user or cannot be changed.
    pub async fn end_grant(
        &self,
        owner: &Owner,
        chat: &ChatId,
        address: Option<IpAddr>,
        tool: String,
        scope: Option<String>,
        granted_for: Option<GrantedFor>,
    ) -> Result<(), ReadError> {
        let owner = owner.clone();
        self.router.call(chat, request::EndGrant { owner, address, tool, scope, granted_for }).await
    }

    /// Returns the summary of a chat; `None` if it has none.
    ///
    /// # Errors
    /// Returns an error if the chat does not belong to this user or cannot be read.
    pub async fn summary(&self, owner: &Owner, chat: &ChatId) -> Result<Option<SummaryView>, ReadError> {
        let store = &self.services.store;
        match store.owner_of(chat).await? {
            Some(known) if known.owner == *owner => {}
            Some(_) | None => return Err(ReadError::NotFound),
        }
        Ok(store.summary(chat, usize::MAX).await?.as_ref().map(SummaryView::from))
    }

    /// Deletes a message of a chat, and all later ones if `and_later` is set.
    ///
    /// # Errors
    /// Returns an error if the chat does not belong to this user or has no such message, or if a run is open.
    pub async fn delete_message(
        &self,
        owner: &Owner,
        chat: &ChatId,
        message: MessageId,
        and_later: bool,
    ) -> Result<(), DeleteMessageError> {
        let owner = owner.clone();
        self.router.call(chat, request::DeleteMessage { owner, message, and_later }).await
    }

    /// Renames a chat, archives it or pins it, and returns its entry in lists.
    ///
    /// # Errors
    /// Returns an error if the chat does not belong to this user.
    pub async fn change_listing(
        &self,
        owner: &Owner,
        chat: &ChatId,
        patch: ChatPatch,
    ) -> Result<Listing, ReadError> {
        self.router.call(chat, request::ChangeListing { owner: owner.clone(), patch }).await
    }

    /// Drops the open plan of a chat: later runs do not go on with it.
    ///
    /// # Errors
    /// Returns an error if the chat does not belong to this user, has no open plan, or has an open run.
    pub async fn drop_plan(&self, owner: &Owner, chat: &ChatId) -> Result<(), PlanError> {
        self.router.call(chat, request::DropPlan { owner: owner.clone() }).await
    }

    /// Replaces the text of a chat's summary, from the next run on.
    ///
    /// # Errors
    /// Returns an error if the chat does not belong to this user or has no summary.
    pub async fn correct_summary(
        &self,
        owner: &Owner,
        chat: &ChatId,
        summary: Summary,
    ) -> Result<SummaryView, SummaryError> {
        self.router.call(chat, request::CorrectSummary { owner: owner.clone(), summary }).await
    }

    /// Writes a summary of a chat now, and returns when it is saved. `wishes` are the user's instructions.
    ///
    /// # Errors
    /// Returns an error if a run is open, nothing is to be summarized, the chat's assistant is not for this user, or the model gives no
    /// summary.
    pub async fn compact(
        &self,
        principal: &Principal,
        chat: &ChatId,
        wishes: Option<String>,
    ) -> Result<SummaryView, SummaryError> {
        let asked = request::Asked { wishes, groups: principal.groups.clone() };
        let written = self.router.write_summary(&principal.user, chat, Some(asked)).await?;
        // If the chat was edited meanwhile, a run has begun.
        written.ok_or(SummaryError::RunOpen)
    }

    /// Returns the memories of users.
    pub fn memories(&self) -> &MemoryService {
        &self.services.memories
    }

    /// Lists a user's chats: the pinned ones first, then newest first.
    ///
    /// # Errors
    /// Returns an error if the chats cannot be read, or `before` is not a cursor of this list.
    pub async fn chats(&self, query: ChatQuery<'_>) -> Result<ChatPage, ReadError> {
        Ok(self.services.store.chats(query).await?)
    }

    /// Deletes a chat; its open run ends. What was remembered of the user stays, unless the memories that come from the chat are to go as
    /// well.
    ///
    /// # Errors
    /// Returns an error if the chat does not belong to this user or cannot be changed.
    pub async fn delete(&self, owner: &Owner, chat: &ChatId, with_memories: bool) -> Result<(), ReadError> {
        if with_memories {
            // As long as the chat is there, it is known which memories come from it.
            self.services.memories.forget_those_of(owner, chat).await?;
        }
        self.router.call(chat, request::Delete { owner: owner.clone(), created_at: None }).await
    }

    /// Returns a principal with all groups: those that its request has proved, and those of the settings.
    pub fn with_groups(&self, principal: &Principal) -> Principal {
        self.services.policies.current().rules.policy.people().complete(principal).into_owned()
    }

    /// Returns the assistants that people can talk to.
    pub fn assistants(&self) -> Arc<Assistants> {
        self.services.policies.current().assistants.clone()
    }

    /// Lists the tools of the server and of MCP servers that an assistant may call, or the assistant `default` if none is named. `policy`
    /// is the decision about a call if no rule looks at its input.
    pub fn tools(&self, requester: &Principal, assistant: Option<&str>) -> Vec<ToolSpec> {
        let policies = self.services.policies.current();
        let mut tools = Vec::new();
        let plan = policies.assistant(assistant).plan;
        for spec in policies.toolbox_of(assistant, true, plan, &[]).specs() {
            // Rules about fields of the input do not apply to a tool as such.
            let decision = policies.rules.policy.decide(requester, spec, &Value::Object(Map::new())).decision;
            tools.push(ToolSpec { policy: decision, ..spec.clone() });
        }
        tools
    }

    /// Replaces the rules, for every step that begins from now on.
    pub fn set_rules(&self, rules: Rules) {
        self.services.policies.set_rules(rules);
    }

    /// Replaces the assistants, for every step that begins from now on.
    pub fn set_assistants(&self, assistants: Assistants) {
        self.services.policies.set_assistants(assistants);
        zero_series::begin(&self.services.policies.current());
    }

    /// Replaces the tools that come and go, such as those of MCP servers, for every step that begins from now on. Returns the errors of
    /// tools that cannot be used and are left out; the name of a tool that the engine was built with is taken.
    pub fn set_tools(&self, tools: Vec<Arc<dyn Tool>>) -> Vec<ToolboxError> {
        let errors = self.services.policies.set_tools(tools);
        zero_series::begin(&self.services.policies.current());
        errors
    }

    /// Looks whether requests can be served.
    ///
    /// # Errors
    /// Returns the reason if they cannot.
    pub async fn ready(&self) -> Result<(), ReadError> {
        if self.services.shutdown.leaving.is_reached() {
            return Err(Unavailable::ShuttingDown.into());
        }
        Ok(self.services.store.ready().await?)
    }

    /// Returns the faults that do not keep requests from being served, as sentences for the operator.
    pub fn warnings(&self) -> Vec<String> {
        self.services.clock.machine_error().into_iter().collect()
    }

    /// Looks whether this process still works, or may have to be started again.
    ///
    /// # Errors
    /// Returns the reason if it does not work.
    pub async fn healthy(&self) -> Result<(), ReadError> {
        Ok(self.services.store.healthy().await?)
    }

    /// Announces a shutdown: [`ready`](Self::ready) fails from now on, so that proxies send requests to other instances. Everything is still
    /// served.
    pub fn leave(&self) {
        self.services.shutdown.leaving.reach();
    }

    /// Returns whether [`shutdown`](Self::shutdown) was called.
    pub fn is_shutting_down(&self) -> bool {
        self.services.shutdown.draining.is_reached()
    }

    /// Returns the number of open runs, and what became of others during a shutdown.
    pub fn drain_counts(&self) -> DrainCounts {
        self.services.shutdown.tally.counts(self.services.open_runs.count())
    }

    /// Ends everything in good order: nothing new begins; runs that wait end for their readers at once, as `interrupted`, those at
    /// work when they come to wait, or after [`Settings::drain`]. All stay saved, for other instances or the next start.
    pub async fn shutdown(&self) {
        let Services { store, lease, shutdown, settings, open_runs, .. } = &*self.services;
        let (instance, begun_at, runs) = (&lease.instance, Instant::now(), open_runs.count());
        shutdown.tally.begun.store(runs, Ordering::Relaxed);
        tracing::info!(
            %instance, runs,
            "draining: runs that wait are handed over now, and those at work may go on for {:?}", settings.drain
        );
        shutdown.leaving.reach();
        shutdown.draining.reach();
        shutdown.tasks.close();
        // Runs that wait have no owner from now on, so that other instances may resume them at once.
        if let Err(error) = store.release(&lease.instance).await {
            tracing::warn!(%instance, %error, "runs that wait could not be released; they are resumed when this instance is gone");
        }
        let draining = async {
            self.move_streams().await;
            shutdown.tasks.wait().await;
        };
        if tokio::time::timeout(settings.drain, draining).await.is_err() {
            tracing::info!(%instance, "runs were still at work; they go on elsewhere, or after the next start");
        }
        shutdown.stopping.reach();
        self.router.shut_actors_down(&self.router.chats());
        shutdown.tasks.wait().await;
        let after = begun_at.elapsed();
        let DrainCounts { moved, finished, cut, refused, .. } = shutdown.tally.counts(0);
        tracing::info!(%instance, ?after, moved, finished, cut, refused, "drained");
        shutdown.stopped.reach();
        shutdown.background.close();
        shutdown.background.wait().await;
        // Replicas that came while the server ended.
        self.cluster.end_replicas(usize::MAX, &interrupted());
        self.cluster.close().await;
        if let Err(error) = lease.give_up().await {
            tracing::warn!(%instance, %error, "the lease of this instance could not be given up; it will expire");
        }
    }

    /// Ends the streams of runs that wait, and those of runs of other instances, in batches: where their clients come back to would meet all
    /// of them in one moment otherwise.
    async fn move_streams(&self) {
        let chats = self.router.chats();
        let streams = chats.len() + self.cluster.replicas();
        let batch = streams.div_ceil(MOVES).max(LEAST_MOVED);
        let mut batches = chats.chunks(batch);
        loop {
            let told = batches.next().unwrap_or_default();
            self.router.shut_actors_down(told);
            let ended = self.cluster.end_replicas(batch - told.len(), &interrupted());
            if told.len() + ended < batch {
                return;
            }
            sleep(MOVE_EVERY).await;
        }
    }
}
