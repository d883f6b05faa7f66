//! The one task that everything about a chat goes through.
//!
//! It owns the chat's open run and does what the run says. Commands come in one after the other, so nothing about a chat is ever
//! decided twice at once, and no lock is needed. It lives while something happens in the chat.
//!
//! What it cannot save it does not do: when the database fails it drops everything and leaves the chat as it was saved last, for the
//! next driver to take up.

mod commands;
mod jobs;
mod live;
mod saving;
mod spans;
mod submit;
mod timers;
mod tools;

use std::{net::IpAddr, sync::Arc, time::Duration};

use fermata_protocol::{Answer, ChatId, EventId, Profile, RunId};
use fermata_tools::{ErrorStrategy, ErrorType, Grants, Owner, Receipt};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::{sync::oneshot, time::Instant};

use live::{Happening, Live};
use spans::model_span;
use timers::in_time;

use crate::{
    AnswerError, ChatView, Following, GrantedTool, ReadError, Submission, SubmitError,
    chats::Inbox,
    engine::Inner,
    model::{ModelError, ModelEvent},
    prompt::{Asking, prompt},
    run::{Context, Effects, Ending, Phase, Run, goodbye, shutting_down},
    store::{Change, Fence, InstanceId, RunRecord, StoreError},
    view::Detail,
};

/// What can be asked of a chat.
pub(crate) enum Command {
    Submit(Box<Submission>, Reply<Following, SubmitError>),
    Answer {
        owner: Owner,
        /// Where the answers come from.
        address: Option<IpAddr>,
        answers: Vec<Answer>,
        checked: Checked,
        reply: Reply<Vec<Receipt>, AnswerError>,
    },
    Resume {
        owner: Owner,
        after: Option<EventId>,
        reply: Reply<Option<Following>, ReadError>,
    },
    Stop {
        owner: Owner,
        reply: Reply<(), ReadError>,
    },
    View {
        owner: Owner,
        detail: Detail,
        reply: Reply<ChatView, ReadError>,
    },
    Delete {
        owner: Owner,
        reply: Reply<(), ReadError>,
    },
    /// What is allowed for always.
    Grants {
        owner: Owner,
        reply: Reply<Vec<GrantedTool>, ReadError>,
    },
    /// A tool is no longer allowed for always.
    EndGrant {
        owner: Owner,
        address: Option<IpAddr>,
        tool: String,
        reply: Reply<(), ReadError>,
    },
    /// As [`Command::Resume`], for a reader that has read this much of this run; `None` where it cannot go on.
    Rejoin {
        owner: Owner,
        run: RunId,
        place: u64,
        profile: Profile,
        reply: Reply<Option<Following>, ReadError>,
    },
    /// A time may be over, or nobody drives the run.
    Wake,
    /// Somebody else may have taken up the run.
    Verify,
}

/// Whether the inputs and contents that an answer brings fit their schemas.
pub(crate) enum Checked {
    NotYet,
    Fits,
    /// One does not, in words for who answered.
    Misfit(String),
}

/// Where the result of a command is waited for, once.
pub(crate) struct Reply<T, E>(Option<oneshot::Sender<Result<T, E>>>);

/// The task.
pub(crate) struct Driver {
    inner: Arc<Inner>,
    chat: ChatId,
    inbox: Inbox,
    /// Whether `record` is what was saved last.
    has_read: bool,
    /// How often this instance had been taken for dead, as far as it knew, when it read or looked whether that is still so.
    deaths: u64,
    /// Whether it was started because nobody drove the run.
    was_woken: bool,
    record: Option<Record>,
    live: Option<Live>,
    /// Where the command comes from that is being done.
    address: Option<IpAddr>,
}

/// What is known of a chat that exists.
pub(crate) struct Record {
    pub owner: Owner,
    /// As of what was read or written last.
    fence: Fence,
    profile: Profile,
    /// Bytes of its messages as JSON, without the one that its open run writes.
    pub bytes: usize,
    pub grants: Grants,
    /// Who else drives its open run.
    driver: Option<InstanceId>,
    /// Whether it is saved that this instance drives it.
    is_mine: bool,
    /// The open run that is not in [`Driver::live`] yet.
    saved_run: Option<Box<RunRecord>>,
}

// === impl Reply ===

impl<T, E> Reply<T, E> {
    pub fn to(waiting: oneshot::Sender<Result<T, E>>) -> Self {
        Self(Some(waiting))
    }

    /// The same, for whoever goes on with the command.
    pub fn take(&mut self) -> Self {
        Self(self.0.take())
    }

    /// Sends the result. Who asked may have gone; the chat does not mind.
    pub fn send(&mut self, result: Result<T, E>) {
        if let Some(waiting) = self.0.take() {
            let _ = waiting.send(result);
        }
    }
}

// === impl Driver ===

impl Driver {
    /// Starts the task.
    pub fn start(inner: Arc<Inner>, chat: ChatId, inbox: Inbox) {
        let tasks = inner.tasks.clone();
        tasks.spawn(async move {
            let mut driver = Self {
                inner,
                chat,
                inbox,
                has_read: false,
                deaths: 0,
                was_woken: false,
                record: None,
                live: None,
                address: None,
            };
            driver.work().await;
        });
    }

    async fn work(&mut self) {
        loop {
            match self.drive().await {
                Ok(()) => return,
                Err(StoreError::Fenced) => {
                    tracing::info!(chat = %self.chat, "another instance has taken up the chat");
                    self.forget();
                }
                Err(error) => {
                    tracing::error!(chat = %self.chat, %error, "the chat is dropped from memory; it stays as it was saved");
                    self.note_failure(&error);
                    self.forget();
                    return self.retire();
                }
            }
        }
    }

    /// Has the chat taken up again by itself, where that may help.
    fn note_failure(&self, error: &StoreError) {
        let instances = &self.inner.instances;
        match error {
            StoreError::Unavailable(_) | StoreError::Unclear(_) if self.live.is_some() || self.was_woken => {
                instances.drop_chat(self.chat.clone());
            }
            StoreError::Corrupt(_) | StoreError::Conflict(_) => instances.shun(self.chat.clone()),
            StoreError::Unavailable(_)
            | StoreError::Unclear(_)
            | StoreError::Fenced
            | StoreError::BadCursor => {}
        }
    }

    async fn drive(&mut self) -> Result<(), StoreError> {
        let (closing, over) = (self.inner.closing.clone(), self.inner.over.clone());
        loop {
            let mut tools = self.inner.policies.changes();
            self.find_tools().await?;
            self.keep_time().await?;
            self.let_rest();
            if self.live.is_none() {
                if self.inner.chats.leave(&self.chat, &self.inbox) {
                    return Ok(());
                }
                // Nothing here keeps others from beginning a run.
                self.has_read = false;
            }
            let is_closing = closing.is_cancelled();
            if is_closing && !self.is_at_work() {
                return self.shut_down().await;
            }
            let deadline = self.deadline();
            tokio::select! {
                biased;
                () = over.cancelled() => return self.shut_down().await,
                () = closing.cancelled(), if !is_closing => {}
                Some(order) = self.inbox.recv() => self.obey(order).await?,
                // Looked for at the beginning of the next round.
                Ok(()) = tools.changed(), if self.waits_for_tools() => {}
                happening = next(&mut self.live, deadline) => self.handle(happening).await?,
            }
        }
    }

    /// Forgets all that is in memory; the run's readers look for it anew.
    fn forget(&mut self) {
        if let Some(mut live) = self.live.take() {
            live.log.end_moved();
        }
        self.record = None;
        self.has_read = false;
    }

    /// Takes nothing more.
    fn retire(&mut self) {
        self.inbox.close();
        self.inner.chats.forget_closed(&self.chat);
    }

    fn is_at_work(&self) -> bool {
        self.live.as_ref().is_some_and(|live| !live.run.is_waiting())
    }

    /// Lets the run make a decision.
    fn decide(&mut self, decision: impl FnOnce(&mut Run, &Context<'_>, &mut Effects)) -> Effects {
        let mut effects = Effects::default();
        if let (Some(live), Some(record)) = (&mut self.live, &self.record) {
            let mut context = self.inner.context(&live.current.rules, &live.toolbox, record);
            context.address = self.address;
            decision(&mut live.run, &context, &mut effects);
        }
        effects
    }

    /// Does what the run says, in the order in which it has to be done.
    async fn perform(&mut self, effects: Effects) -> Result<(), StoreError> {
        self.perform_after(Vec::new(), effects).await
    }

    /// As [`Driver::perform`], with changes to the chat that are saved together with the run.
    async fn perform_after(&mut self, before: Vec<Change>, effects: Effects) -> Result<(), StoreError> {
        let mut effects = effects;
        self.check_inputs(&mut effects);
        self.stand_in_line(&mut effects);
        let Effects { save, publish, release, park, execute, replies, ask, over, .. } = &effects;
        let Some(live) = &mut self.live else { return Ok(()) };
        live.log.stage(publish);
        if *save {
            self.save(before, &effects).await?;
        }
        if !execute.is_empty() {
            // Time has stood still for this process since the commit, perhaps, and somebody else has settled these calls.
            self.verify_in_doubt().await?;
        }
        let Some(live) = &mut self.live else { return Ok(()) };
        for call in release {
            live.release(call);
        }
        for call in park {
            live.park(call.clone());
        }
        self.execute(execute);
        let Some(live) = &mut self.live else { return Ok(()) };
        live.log.publish();
        for (id, reply) in replies {
            live.jobs.reply(id, reply.clone());
        }
        if let Some(ending) = over {
            self.close(ending);
        } else if *ask {
            self.ask_model().await?;
        }
        Ok(())
    }

    async fn ask_model(&mut self) -> Result<(), StoreError> {
        let messages = self.inner.store.messages(&self.chat).await?;
        let Some(live) = &mut self.live else { return Ok(()) };
        live.go_by(self.inner.policies.current());
        let own = live.run.snapshot();
        // The record holds an older state of the message where the readers were sent away in between.
        let history = messages.iter().filter(|message| message.id != own.id).chain(std::iter::once(&own));
        let request = prompt(
            history,
            &Asking {
                system: live.run.settings.system.as_deref(),
                toolbox: &live.toolbox,
                tool_choice: live.run.tool_choice(),
                settings: &live.run.settings.call_settings,
                error_policy: &live.current.rules.error_policy,
                hint: &|call| live.run.hint(call, &live.current.rules.error_policy),
                output_limit: self.inner.settings.limits.model_output_bytes,
                file_urls: &self.inner.settings.file_urls,
            },
        );
        let model = self.inner.model.clone();
        let events = stream::once(async move { model.stream(request).await }).try_flatten();
        let span = model_span(self.inner.model.name(), &live.run);
        live.listen(events.boxed(), span);
        Ok(())
    }

    async fn handle(&mut self, happening: Happening) -> Result<(), StoreError> {
        let effects = match happening {
            Happening::Heard(events) => self.hear(events),
            Happening::Silence => {
                self.hear(vec![Err(ModelError::Network("the stream ended before the answer did".into()))])
            }
            Happening::Tool(signal) => return self.hear_tool(signal).await,
            Happening::Turn(call) => {
                let effects = self.decide(|run, context, effects| run.take_turn(&call, context, effects));
                if let Some(live) = self.live.as_mut().filter(|_| !effects.execute.contains(&call)) {
                    live.drop_lock(&call);
                }
                effects
            }
            Happening::NoTurn(call) => {
                self.decide(|run, context, effects| run.miss_turn(&call, context, effects))
            }
            Happening::Checked(results) => {
                self.decide(|run, context, effects| run.checked(results, context, effects))
            }
            Happening::Time => Effects::default(),
        };
        self.perform(effects).await
    }

    fn hear(&mut self, events: Vec<Result<ModelEvent, ModelError>>) -> Effects {
        let before = self.live.as_ref().and_then(|live| live.run.state.usage).unwrap_or_default();
        if let (Some(live), Some(Err(error))) = (&self.live, events.last()) {
            live.note_model_error(error);
        }
        let effects = self.decide(|run, context, effects| {
            for event in events {
                match event {
                    Ok(event) => run.hear(event, context, effects),
                    Err(error) if run.state.phase == Phase::Speaking => {
                        run.end(Ending::Failed(error), context, effects)
                    }
                    Err(_) => {}
                }
            }
        });
        let has_ended =
            |live: &Live| live.run.state.phase != Phase::Speaking || effects.ask || live.run.is_checking();
        if let Some(live) = self.live.as_mut().filter(|live| has_ended(live)) {
            let took = live.stop_listening();
            self.inner.note_model_call(took, before, live.run.state.usage.unwrap_or_default());
        }
        effects
    }

    /// Ends what is over: waiting calls, the hold, the patience with the model.
    async fn keep_time(&mut self) -> Result<(), StoreError> {
        self.set_timers();
        let (reached, limits) = (self.inner.clock.reached(), &self.inner.settings.limits);
        let Some(live) = &self.live else { return Ok(()) };
        let silent = live.model_deadline(limits.model_timeout, limits.model_call_timeout);
        if silent.is_some_and(|deadline| deadline <= Instant::now()) {
            if live.current.rules.error_policy.of(ErrorType::Timeout) == ErrorStrategy::Retry
                && live.may_ask_again()
            {
                tracing::warn!(chat = %self.chat, "the model is silent and is asked again");
                return self.ask_model().await;
            }
            let effects = self.hear(vec![Err(ModelError::Timeout)]);
            return self.perform(effects).await;
        }
        if live.timers.question.is_over() {
            let effects = self.decide(Run::end_questions);
            return self.perform(effects).await;
        }
        if live.run.is_expired(reached) {
            let effects = self.decide(|run, context, effects| run.end(Ending::Expired, context, effects));
            return self.perform(effects).await;
        }
        if live.timers.tools.is_over() {
            let effects = self.decide(Run::give_up_on_tools);
            return self.perform(effects).await;
        }
        if live.timers.hold.is_over() {
            return self.let_go().await;
        }
        Ok(())
    }

    /// Sends the readers away while calls wait.
    async fn let_go(&mut self) -> Result<(), StoreError> {
        let effects = self.decide(Run::let_go);
        self.perform(effects).await?;
        if let Some(live) = &mut self.live {
            live.log.end(goodbye());
            // Whoever comes later, perhaps at once, follows the same run in a log that goes on.
            live.log = live.log.reopen();
        }
        Ok(())
    }

    /// Forgets a run that was let go, or was only looked at: it costs a row from now on.
    fn let_rest(&mut self) {
        if self.live.as_ref().is_some_and(Live::may_rest) {
            self.live = None;
            self.has_read = false;
        }
    }

    fn close(&mut self, ending: &Ending) {
        if let Some(mut live) = self.live.take() {
            live.log.end(Vec::new());
            match ending {
                Ending::Failed(error) => {
                    tracing::warn!(chat = %self.chat, run = %live.run.id, %error, "the run failed")
                }
                Ending::OutputLimit { bytes } => {
                    tracing::warn!(chat = %self.chat, run = %live.run.id, limit = bytes, "the model said more than a step may");
                }
                Ending::ChatLimit { bytes, limit } => {
                    tracing::warn!(chat = %self.chat, run = %live.run.id, bytes, limit, "the chat is larger than it may be");
                }
                Ending::ToolFailed { tool, error_type } => {
                    tracing::warn!(chat = %self.chat, run = %live.run.id, tool, %error_type, "the run was ended by a tool's failure");
                }
                Ending::CrashLoop => {
                    tracing::error!(
                        chat = %self.chat,
                        run = %live.run.id,
                        "the run is given up: each process that took it up ended, failed or was cut off before the run got on"
                    );
                }
                Ending::Finished(_)
                | Ending::Stopped
                | Ending::Superseded
                | Ending::Expired
                | Ending::StepLimit => {
                    tracing::debug!(chat = %self.chat, run = %live.run.id, ending = ending.name(), "the run is over");
                }
            }
            metrics::counter!("fermata_runs_total", "outcome" => ending.name()).increment(1);
        }
    }

    /// Sends the readers away, to come back to another instance or after the next start. What waited when the end began has been let go
    /// with all others that did; what was saved since then is let go here, unless it is at work.
    async fn shut_down(&mut self) -> Result<(), StoreError> {
        let is_at_work = self.is_at_work();
        self.retire();
        let Some(live) = &mut self.live else { return Ok(()) };
        live.log.leave(shutting_down());
        // A run at work that this process took up has done it no harm: the end comes from outside, and is not counted against the run.
        let attempts = if is_at_work { live.attempts.saturating_sub(1) } else { live.attempts };
        if attempts == live.attempts && (is_at_work || !live.is_saved_late) {
            return Ok(());
        }
        let run = live.run.id.clone();
        self.commit(vec![Change::Drive { run, driver: None, attempts }]).await
    }

    /// When something may be over.
    fn deadline(&mut self) -> Option<Instant> {
        self.set_timers();
        let (reached, limits) = (self.inner.clock.reached(), &self.inner.settings.limits);
        let live = self.live.as_ref()?;
        let times = [
            live.timers.hold.ends(),
            live.timers.question.ends(),
            live.timers.tools.ends(),
            live.run.expiry().map(|expires| in_time(expires, reached)),
            live.model_deadline(limits.model_timeout, limits.model_call_timeout),
        ];
        // Beyond this tokio's clock may not reach; the time is looked at again then.
        let furthest = Instant::now() + Duration::from_secs(24 * 3600);
        times.into_iter().flatten().min().map(|ends| ends.min(furthest))
    }

    fn set_timers(&mut self) {
        let now = self.inner.clock.now();
        let tool_timeout = self.inner.settings.limits.tool_timeout;
        let Some(live) = &mut self.live else { return };
        live.timers.hold.set(live.run.hold_ends(), now);
        live.timers.question.set(live.run.first_question_ends(), now);
        live.timers.tools.set(live.run.tools_missed(tool_timeout), now);
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Nobody else takes up what this instance seems to drive. Its readers wait for the next driver, which goes on or gives the run up.
        if std::thread::panicking() {
            self.forget();
            self.inner.instances.drop_chat(self.chat.clone());
            self.retire();
        }
    }
}

async fn next(live: &mut Option<Live>, deadline: Option<Instant>) -> Happening {
    match live {
        Some(live) => live.next(deadline).await,
        None => std::future::pending().await,
    }
}
