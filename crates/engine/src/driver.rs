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
mod spans;
mod submit;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fermata_protocol::{Answer, ChatId, EventId, Profile, UiChunk};
use fermata_tools::{Call, CallContext, ErrorType, Execution, Owner, Receipt, Strategy, always_allowed};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use tokio::{sync::oneshot, time::Instant};

use jobs::Signal;
use live::{Happening, Live};
use spans::model_span;

use crate::{
    AnswerError, ChatView, Following, ReadError, Submission, SubmitError,
    chats::Inbox,
    engine::Inner,
    model::{ModelError, ModelEvent},
    prompt::{Asking, prompt},
    run::{Context, Effects, Ending, Phase, Run, RunState, SavedRun},
    run_log::Writer,
    store::{Change, RunRecord, StoreError},
};

/// What can be asked of a chat.
pub(crate) enum Command {
    Submit(Box<Submission>, oneshot::Sender<Result<Following, SubmitError>>),
    Answer {
        owner: Owner,
        answers: Vec<Answer>,
        reply: oneshot::Sender<Result<Vec<Receipt>, AnswerError>>,
    },
    Resume {
        owner: Owner,
        after: Option<EventId>,
        reply: oneshot::Sender<Result<Option<Following>, ReadError>>,
    },
    Stop {
        owner: Owner,
        reply: oneshot::Sender<Result<(), ReadError>>,
    },
    View {
        owner: Owner,
        reply: oneshot::Sender<Result<ChatView, ReadError>>,
    },
    Delete {
        owner: Owner,
        reply: oneshot::Sender<Result<(), ReadError>>,
    },
    /// A time may be over.
    Wake,
}

/// The task.
pub(crate) struct Driver {
    inner: Arc<Inner>,
    chat: ChatId,
    inbox: Inbox,
    record: Option<Record>,
    live: Option<Live>,
}

/// What is known of a chat that exists.
pub(crate) struct Record {
    pub owner: Owner,
    profile: Profile,
    pub always: BTreeSet<String>,
    /// Whether a run is open that is not in [`Driver::live`].
    saved_run: bool,
}

// === impl Driver ===

impl Driver {
    /// Starts the task.
    pub fn start(inner: Arc<Inner>, chat: ChatId, inbox: Inbox) {
        let tasks = inner.tasks.clone();
        tasks.spawn(async move {
            let mut driver = Self { inner, chat, inbox, record: None, live: None };
            if let Err(error) = driver.drive().await {
                tracing::error!(chat = %driver.chat, %error, "the chat is dropped from memory; it stays as it was saved");
                driver.inbox.close();
                driver.inner.chats.forget_failed(&driver.chat);
            }
        });
    }

    async fn drive(&mut self) -> Result<(), StoreError> {
        self.load().await?;
        loop {
            self.keep_time().await?;
            self.let_rest();
            if self.live.is_none() && self.inner.chats.leave(&self.chat, &self.inbox) {
                return Ok(());
            }
            let deadline = self.deadline();
            let closing = self.inner.closing.clone();
            tokio::select! {
                biased;
                () = closing.cancelled() => {
                    self.shut_down();
                    return Ok(());
                }
                Some(command) = self.inbox.recv() => self.obey(command).await?,
                happening = next(&mut self.live, deadline) => self.handle(happening).await?,
            }
        }
    }

    async fn load(&mut self) -> Result<(), StoreError> {
        self.record = self.inner.store.chat(&self.chat).await?.map(|chat| Record {
            owner: chat.owner,
            profile: chat.profile,
            always: always_allowed(&chat.confirmations),
            saved_run: chat.open_run.is_some(),
        });
        Ok(())
    }

    /// Takes up the open run, where there is one that nobody drives.
    async fn take_up(&mut self) -> Result<(), StoreError> {
        if self.live.is_some() || !self.record.as_ref().is_some_and(|record| record.saved_run) {
            return Ok(());
        }
        let Some(saved) = self.inner.store.chat(&self.chat).await?.and_then(|chat| chat.open_run) else {
            return Ok(());
        };
        let (run, log) = restore(saved)?;
        let current = self.inner.current();
        let toolbox = current.toolbox.with_browser_tools(&run.state.tools).map_err(corrupt)?;
        let Some(record) = self.record.as_mut() else { return Ok(()) };
        record.saved_run = false;
        let open = self.inner.open_runs.enter(&record.owner);
        self.live = Some(Live::new(run, log, current, toolbox, open, self.inner.tasks.clone()));
        let effects = self.decide(|run, context, effects| *effects = run.resume(context));
        self.perform(effects).await?;
        self.keep_time().await
    }

    /// Lets the run make a decision.
    fn decide(&mut self, decision: impl FnOnce(&mut Run, &Context<'_>, &mut Effects)) -> Effects {
        let mut effects = Effects::default();
        if let (Some(live), Some(record)) = (&mut self.live, &self.record) {
            let context = self.inner.context(&live.current.rules, &live.toolbox, record);
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
        self.stand_in_line(&mut effects);
        let Effects { save, publish, release, park, execute, replies, ask, over, .. } = &effects;
        let Some(live) = &mut self.live else { return Ok(()) };
        live.log.stage(publish);
        if *save {
            self.save(before, &effects).await?;
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

    async fn save(&mut self, before: Vec<Change>, effects: &Effects) -> Result<(), StoreError> {
        let (Some(live), Some(record)) = (&mut self.live, &mut self.record) else { return Ok(()) };
        let mut changes = before;
        changes.extend(changes_of(live, effects, &record.owner)?);
        self.inner.store.commit(&self.chat, self.inner.clock.now(), changes).await?;
        if live.run.is_saved_by(effects) {
            live.log.note_saved();
        }
        for place in &effects.changed {
            let call = &live.run.calls[*place];
            live.spans.note(call, live.toolbox.find(&call.tool).is_some());
        }
        record.always.extend(effects.always.iter().cloned());
        Ok(())
    }

    /// Puts calls into the lines for what they use; those whose turn it is run at once, in the same step of saving.
    fn stand_in_line(&mut self, effects: &mut Effects) {
        let (Some(live), Some(record)) = (&mut self.live, &self.record) else { return };
        let current = live.current.clone();
        let toolbox = live.toolbox.clone();
        for (call, key) in std::mem::take(&mut effects.queue) {
            let ticket = self.inner.locks.queue(key);
            if live.stand_in_line(call.clone(), ticket, self.inner.settings.limits.lock_timeout) {
                let context = self.inner.context(&current.rules, &toolbox, record);
                live.run.take_turn(&call, &context, effects);
            }
        }
    }

    fn execute(&mut self, calls: &[fermata_protocol::ToolCallId]) {
        let (Some(live), Some(record)) = (&mut self.live, &self.record) else { return };
        for id in calls {
            let Some(call) = live.run.calls.iter().find(|call| call.id == *id) else { continue };
            let found = live.toolbox.find(&call.tool);
            let Some((spec, tool)) = found.and_then(|found| Some((found.spec(), found.tool()?))) else {
                continue;
            };
            let context = CallContext::new(record.owner.clone(), self.chat.clone(), id.clone());
            let execution = Execution {
                tool: tool.clone(),
                input: call.effective_input().clone(),
                context: live.jobs.surround(context),
                timeout: spec.timeout.unwrap_or(self.inner.settings.limits.tool_timeout),
                // Times it ran before the process ended count.
                retries: spec.retries().saturating_sub(times_before(call)),
                strategies: live.current.rules.strategies.clone(),
            };
            let lock = live.take_lock(id);
            live.jobs.start(execution, lock, live.spans.of(id));
        }
    }

    async fn ask_model(&mut self) -> Result<(), StoreError> {
        let messages = self.inner.store.messages(&self.chat).await?;
        let Some(live) = &mut self.live else { return Ok(()) };
        live.go_by(self.inner.current());
        let own = live.run.snapshot();
        // The record holds an older state of the message where the readers were sent away in between.
        let history = messages.iter().filter(|message| message.id != own.id).chain(std::iter::once(&own));
        let request = prompt(
            history,
            &Asking {
                system: live.run.state.system.as_deref(),
                toolbox: &live.toolbox,
                tool_choice: live.run.tool_choice(),
                settings: &live.run.state.call_settings,
                strategies: &live.current.rules.strategies,
                advice: &|call| live.run.advice(call, &live.current.rules.strategies),
                output_limit: self.inner.settings.limits.model_output_bytes,
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
            Happening::Tool(signal) => self.hear_tool(signal),
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
            Happening::Time => Effects::default(),
        };
        self.perform(effects).await
    }

    fn hear_tool(&mut self, signal: Signal) -> Effects {
        match signal {
            Signal::Settled(call, outcome) => {
                let outcome = self.inner.within_limit(outcome);
                self.decide(|run, context, effects| run.settle(&call, outcome, context, effects))
            }
            Signal::Reports(reports) => self.decide(|run, context, effects| {
                for (call, output) in reports {
                    if output.to_string().len() <= context.limits.output_bytes {
                        run.report(&call, output, effects);
                    }
                }
            }),
            Signal::Elicits { call, question, asked } => {
                let mut id = None;
                let effects =
                    self.decide(|run, context, effects| id = run.elicit(&call, question, context, effects));
                // Where it cannot be asked, dropping `asked` tells the tool so.
                if let (Some(live), Some(id)) = (&mut self.live, id) {
                    live.jobs.ask(id, asked);
                }
                effects
            }
            Signal::Withdraws(id) => self.decide(|run, context, effects| run.withdraw(&id, context, effects)),
        }
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
        if let Some(live) =
            self.live.as_mut().filter(|live| live.run.state.phase != Phase::Speaking || effects.ask)
        {
            let took = live.stop_listening();
            self.inner.note_model_call(took, before, live.run.state.usage.unwrap_or_default());
        }
        effects
    }

    /// Ends what is over: waiting calls, the hold, the patience with the model.
    async fn keep_time(&mut self) -> Result<(), StoreError> {
        let now = self.inner.clock.now();
        let limits = &self.inner.settings.limits;
        let Some(live) = &self.live else { return Ok(()) };
        let silent = live.model_deadline(limits.model_timeout, limits.model_call_timeout);
        if silent.is_some_and(|deadline| deadline <= Instant::now()) {
            if live.current.rules.strategies.of(ErrorType::Timeout) == Strategy::Retry && live.may_ask_again()
            {
                tracing::warn!(chat = %self.chat, "the model is silent and is asked again");
                return self.ask_model().await;
            }
            let effects = self.hear(vec![Err(ModelError::Timeout)]);
            return self.perform(effects).await;
        }
        if live.run.is_expired(now) {
            let effects = self.decide(|run, context, effects| run.end(Ending::Expired, context, effects));
            return self.perform(effects).await;
        }
        if live.run.hold_ends().is_some_and(|ends| ends <= now) {
            return self.let_go().await;
        }
        Ok(())
    }

    /// Sends the readers away while calls wait.
    async fn let_go(&mut self) -> Result<(), StoreError> {
        let mut last = Vec::new();
        let effects = self.decide(|run, context, effects| last = run.let_go(context, effects));
        self.perform(effects).await?;
        if let Some(live) = &mut self.live {
            live.log.end(last);
            // Whoever comes later, perhaps at once, follows the same run in a log that goes on.
            live.log = live.log.reopen();
        }
        Ok(())
    }

    /// Forgets a run that was let go: it costs a row from now on.
    fn let_rest(&mut self) {
        if self.live.as_ref().is_some_and(|live| live.run.state.let_go && !live.run.is_bound()) {
            self.live = None;
            if let Some(record) = &mut self.record {
                record.saved_run = true;
            }
        }
    }

    fn close(&mut self, ending: &Ending) {
        if let Some(mut live) = self.live.take() {
            live.log.end(Vec::new());
            match ending {
                Ending::Failed(error) => {
                    tracing::warn!(chat = %self.chat, run = %live.run.id, %error, "the run failed")
                }
                Ending::ToolFailed { tool, error_type } => {
                    tracing::warn!(chat = %self.chat, run = %live.run.id, tool, %error_type, "the run was ended by a tool's failure");
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

    fn shut_down(&mut self) {
        if let Some(live) = &mut self.live {
            live.log.end(vec![UiChunk::Error {
                error_text: "The server is shutting down. Load the chat again in a moment.".into(),
            }]);
        }
    }

    /// When something may be over.
    fn deadline(&self) -> Option<Instant> {
        let live = self.live.as_ref()?;
        let (now, limits) = (self.inner.clock.now(), &self.inner.settings.limits);
        let in_time = |time: Timestamp| {
            let left = Duration::try_from(time.duration_since(now)).unwrap_or(Duration::ZERO);
            // Beyond this tokio's clock may not reach; the time is looked at again then.
            Instant::now() + left.min(Duration::from_secs(24 * 3600))
        };
        let times = [
            live.run.hold_ends().map(in_time),
            live.run.expires().map(in_time),
            live.model_deadline(limits.model_timeout, limits.model_call_timeout),
        ];
        times.into_iter().flatten().min()
    }
}

/// How often a call that runs has run before.
fn times_before(call: &Call) -> u32 {
    u32::try_from(call.times_run()).unwrap_or(u32::MAX).saturating_sub(1)
}

async fn next(live: &mut Option<Live>, deadline: Option<Instant>) -> Happening {
    match live {
        Some(live) => live.next(deadline).await,
        None => std::future::pending().await,
    }
}

/// What is to be saved of the run.
fn changes_of(live: &Live, effects: &Effects, owner: &Owner) -> Result<Vec<Change>, StoreError> {
    let run = &live.run;
    let id = || run.id.clone();
    let call = |place: &usize| Box::new(run.calls[*place].clone());
    let mut changes: Vec<Change> =
        effects.changed.iter().map(|place| Change::PutCall { run: id(), call: call(place) }).collect();
    changes.extend(effects.confirmed.iter().map(|place| Change::Confirm {
        run: id(),
        call: call(place),
        by: owner.clone(),
    }));
    let keep_message = match &effects.over {
        // Clients show these however little they say.
        Some(Ending::Finished(_) | Ending::Stopped) => true,
        Some(
            Ending::Superseded
            | Ending::Expired
            | Ending::StepLimit
            | Ending::Failed(_)
            | Ending::ToolFailed { .. },
        ) => run.has_content(),
        None => run.state.let_go,
    };
    if keep_message {
        changes.push(Change::PutMessage(Box::new(run.snapshot())));
    }
    if let Some(ending) = &effects.over {
        changes.push(Change::CloseRun { run: id(), outcome: ending.name() });
    } else if run.is_saved_by(effects) {
        let state = serde_json::to_value(&run.state).map_err(corrupt)?;
        changes.push(Change::SaveRun { run: id(), state, expires: run.expires() });
        let (first, chunks) = live.log.unsaved();
        changes.push(Change::AppendChunks { run: id(), first, chunks });
    }
    Ok(changes)
}

fn restore(saved: RunRecord) -> Result<(Run, Writer), StoreError> {
    let state: RunState = serde_json::from_value(saved.state).map_err(corrupt)?;
    let log = saved.chunks.iter().map(|(seq, chunk)| Ok((*seq, UiChunk::from_record(chunk)?)));
    let log = log.collect::<Result<Vec<_>, serde_json::Error>>().map_err(corrupt)?;
    let writer = Writer::restore(saved.id.clone(), &log);
    let run = SavedRun { id: saved.id, message: saved.message, state, calls: saved.calls, log };
    Ok((Run::restore(run).map_err(corrupt)?, writer))
}

fn corrupt(error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(error.to_string())
}
