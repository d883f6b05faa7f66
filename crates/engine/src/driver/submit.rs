//! What becomes of a post.

use std::sync::Arc;

use fermata_protocol::{MessageId, PostedMessage, Profile, RunId, ToolChoice, UiMessage, UiPart};
use fermata_tools::{Owner, PostedLimits, Toolbox, ToolboxError};

use super::{Driver, Live, Record};
use crate::{
    AnswerError, FileUrls, Following, Limits, Reader, Submission, SubmitError,
    open_runs::OpenRun,
    post::{Keep, Plan, plan, plan_first},
    rules::PolicySnapshot,
    run::{Given, Run, RunRequest, claims_settled_call, heal_finished, shown_by},
    run_log::{Start, Writer},
    store::{Change, Fence, Kept, json_bytes},
};

/// What a new run begins with, besides the post.
struct Beginning {
    current: Arc<PolicySnapshot>,
    toolbox: Toolbox,
    open: OpenRun,
    keep: Keep,
    add: Vec<UiMessage>,
    /// How large the chat is then, as JSON.
    bytes: usize,
}

impl Driver {
    /// Starts or continues a run.
    pub(super) async fn submit(&mut self, submission: &Submission) -> Result<Following, SubmitError> {
        if self.record.is_some() && !self.belongs_to(&submission.owner) {
            return Err(SubmitError::NotFound);
        }
        if self.record.is_none() && submission.body.fermata.exists {
            return Err(SubmitError::NotFound);
        }
        let current = self.inner.policies.current();
        let toolbox = check_tools(submission, &current, &self.inner.settings.limits)?;
        self.take_up().await?;
        let profile = submission.body.fermata.client.unwrap_or(self.inner.settings.client);
        // A message that was let go stands in the record like any other.
        let written = self.live.as_ref().filter(|live| !live.run.state.let_go);
        let writing = written.map(|live| live.run.message.clone());
        let ids = self.inner.ids.clone();
        let mut messages = Vec::new();
        let plan = if self.record.is_some() {
            messages = self.inner.store.messages(&self.chat).await?;
            plan(&submission.body, &messages, writing.as_ref(), &*ids)?
        } else {
            plan_first(&submission.body, &*ids)?
        };
        match plan {
            Plan::Run { keep, add } => {
                check_files(add.last(), &self.inner.settings.file_urls)?;
                let added: usize = add.iter().map(json_bytes).sum();
                let before = self.chat_bytes();
                let after = self.kept_bytes(keep, &messages) + added;
                let limit = self.inner.settings.limits.chat_bytes;
                // What makes a chat smaller is a way out for one that is over the limit.
                if after > limit && after >= before {
                    return Err(SubmitError::TooLarge(format!(
                        "The chat would have {after} bytes; the limit is {limit} (max_chat). Go on in a new chat, or edit an earlier \
                         message, which drops all that follows."
                    )));
                }
                // Asked for before anything is given up for it.
                let open = self.enter(&submission.owner, after.saturating_sub(before)).await?;
                self.supersede(submission).await?;
                // What it leaves behind is part of the chat now.
                let bytes = self.kept_bytes(keep, &messages) + added;
                let beginning = Beginning { current, toolbox, open, keep, add, bytes };
                self.start_run(submission, profile, beginning).await
            }
            Plan::Continue(posted) => self.continue_run(submission, profile, &posted, &messages).await,
        }
    }

    /// Returns how large the chat is as JSON, with the message that is being written.
    fn chat_bytes(&self) -> usize {
        let others = self.record.as_ref().map_or(0, |record| record.bytes);
        match &self.live {
            Some(live) if live.run.has_content() => others + json_bytes(&live.run.snapshot()),
            Some(_) | None => others,
        }
    }

    /// Returns how much of the chat a new run keeps.
    fn kept_bytes(&self, keep: Keep, messages: &[UiMessage]) -> usize {
        match keep {
            Keep::All => self.chat_bytes(),
            Keep::First(kept) => messages.iter().take(kept).map(json_bytes).sum(),
        }
    }

    /// Counts one more run of its owner, here and at other instances, unless they keep too much for a chat that grows by so many bytes.
    /// Posts of the same moment do not see each other's chats and bytes.
    async fn enter(&mut self, owner: &Owner, growth: usize) -> Result<OpenRun, SubmitError> {
        let limits = &self.inner.settings.limits;
        let runs = if self.live.is_none() { limits.runs_per_owner } else { None };
        let chats = if self.record.is_none() { limits.chats_per_owner } else { None };
        let bytes = if growth > 0 { limits.bytes_per_owner } else { None };
        let kept = if runs.is_some() || chats.is_some() || bytes.is_some() {
            self.inner.store.kept(owner, &self.inner.instances.me).await?
        } else {
            Kept::default()
        };
        if let Some(limit) = chats.filter(|limit| kept.chats >= limit.get()) {
            return Err(SubmitError::TooManyChats(limit.get()));
        }
        if let Some(limit) = bytes.filter(|limit| kept.bytes.saturating_add(growth) > *limit) {
            return Err(SubmitError::TooManyBytes { bytes: kept.bytes, growth, limit });
        }
        self.inner.open_runs.try_enter(owner, runs, kept.runs_elsewhere).map_err(SubmitError::TooManyRuns)
    }

    /// Ends the open run because the person goes on without it; outputs that come along are taken.
    async fn supersede(&mut self, submission: &Submission) -> Result<(), SubmitError> {
        let Some(live) = &self.live else { return Ok(()) };
        let posted =
            submission.body.messages.iter().find(|message| message.id.as_ref() == Some(&live.run.message));
        let outputs = posted.map(|message| live.run.new_answers(&message.parts)).unwrap_or_default();
        let effects = self.decide(|run, context, effects| run.supersede(&outputs, context, effects));
        Ok(self.perform(effects).await?)
    }

    async fn start_run(
        &mut self,
        submission: &Submission,
        profile: Profile,
        beginning: Beginning,
    ) -> Result<Following, SubmitError> {
        let Beginning { current, toolbox, open, keep, add, bytes } = beginning;
        let Submission { owner, body, hold, address: _ } = submission;
        let request = RunRequest {
            id: RunId::new(self.inner.ids.next("run_")),
            message: MessageId::new(self.inner.ids.next("msg_")),
            model: self.inner.model.name().to_owned(),
            profile,
            hold: hold.unwrap_or(self.inner.settings.hold),
            tools: body.tools.clone(),
            system: body.system.clone(),
            call_settings: self.inner.settings.limits.capped(&body.call_settings),
            tool_choice: body.tool_choice.clone(),
        };
        let mut changes = match &mut self.record {
            Some(record) => {
                record.profile = profile;
                vec![Change::Posted { profile }]
            }
            None => vec![Change::CreateChat { owner: owner.clone(), profile }],
        };
        if let (Keep::First(keep), Some(_)) = (keep, &self.record) {
            changes.push(Change::TruncateMessages { keep });
        }
        changes.extend(add.into_iter().map(|message| Change::PutMessage(Box::new(message))));
        changes.push(Change::OpenRun {
            run: request.id.clone(),
            message: request.message.clone(),
            driver: self.inner.instances.me.clone(),
        });
        let record = self.record.get_or_insert_with(|| Record {
            owner: owner.clone(),
            fence: Fence::NONE,
            profile,
            bytes: 0,
            grants: Default::default(),
            driver: None,
            is_mine: false,
            saved_run: None,
        });
        record.bytes = bytes;
        self.inner.chats.note_owner(&self.chat, Some(owner.clone()));
        let run = Run::new(request, self.inner.clock.now());
        let log = Writer::new(run.id.clone());
        let reader = log.read(profile, Start::default());
        let live = Live::new(run, log, current, toolbox, Some(open), self.inner.tasks.clone());
        let following = self.follow(&live, reader);
        self.live = Some(live);
        let effects = self.decide(|run, _, effects| *effects = run.begin());
        self.perform_after(changes, effects).await?;
        Ok(following)
    }

    /// A client has posted the assistant's message again: it answers something, or it is behind, or it wants nothing.
    async fn continue_run(
        &mut self,
        submission: &Submission,
        profile: Profile,
        posted: &PostedMessage,
        messages: &[UiMessage],
    ) -> Result<Following, SubmitError> {
        let Some(id) = &posted.id else { return Err(nothing_new()) };
        if self.live.as_ref().is_some_and(|live| live.run.message == *id) {
            return self.continue_live(submission, profile, posted).await;
        }
        let shown = shown_by(&posted.parts);
        let message = messages.iter().find(|message| message.id == *id).ok_or_else(nothing_new)?;
        if !claims_settled_call(message, &shown) {
            return Err(nothing_new());
        }
        let current = self.inner.policies.current();
        let on_server = |tool: &str| current.toolbox.find(tool).is_some();
        let chunks = heal_finished(message, &shown, on_server).ok_or_else(nothing_new)?;
        if let Some(record) = &mut self.record {
            record.profile = profile;
        }
        self.commit(vec![Change::Posted { profile }]).await?;
        let run = RunId::new(self.inner.ids.next("run_"));
        Ok(Following { chat: self.chat.clone(), reader: Reader::of(run.clone(), profile, chunks), run })
    }

    async fn continue_live(
        &mut self,
        submission: &Submission,
        profile: Profile,
        posted: &PostedMessage,
    ) -> Result<Following, SubmitError> {
        let Some(live) = &self.live else { return Err(nothing_new()) };
        let shown = shown_by(&posted.parts);
        let answers = live.run.new_answers(&posted.parts);
        // What is at work will show something that this client does not have.
        let has_all = live.run.is_waiting() && live.run.is_shown(&shown);
        if answers.is_empty() && (has_all || !claims_settled_call(&live.run.snapshot(), &shown)) {
            return Err(nothing_new());
        }
        if !answers.is_empty() && live.run.state.let_go && !live.run.state.hold.is_zero() {
            tracing::info!(
                chat = %self.chat,
                hold = ?live.run.state.hold,
                "the answer came by a second POST /api/chat after the stream had been held; a client that answers only so should ask for fermata.hold \"0s\""
            );
        }
        let healing = live.run.healing(&shown).ok_or_else(nothing_new)?;
        // Opened first: the answers may be the end of the run.
        let start = Start { after: healing.after, prelude: healing.prelude };
        let following = self.follow(live, live.log.read(profile, start));
        self.follow_on(submission, profile).await?;
        self.answer_live(&answers, Given::InMessage).await.map_err(refused)?;
        Ok(following)
    }

    /// The post brings its own hold and client version; the run's other settings stay.
    async fn follow_on(&mut self, submission: &Submission, profile: Profile) -> Result<(), SubmitError> {
        if let Some(record) = &mut self.record {
            record.profile = profile;
        }
        let hold = submission.hold.unwrap_or(self.inner.settings.hold);
        let effects = self.decide(|run, context, effects| run.follow_on(profile, hold, context.now, effects));
        Ok(self.perform_after(vec![Change::Posted { profile }], effects).await?)
    }
}

/// A file that a model would not be handed is refused while its sender is there to read why. Older messages of an imported history
/// are taken as they are; the model is told where their files are.
fn check_files(posted: Option<&UiMessage>, file_urls: &FileUrls) -> Result<(), SubmitError> {
    let parts = posted.into_iter().flat_map(|message| message.parts.iter().enumerate());
    for (at, part) in parts {
        let UiPart::File(file) = part else { continue };
        if let Err(refusal) = file_urls.check(&file.url) {
            return Err(SubmitError::Invalid(format!(
                "The file in parts[{at}] of the last message cannot be shown to the model: {refusal}. {}",
                file_urls.hint()
            )));
        }
    }
    Ok(())
}

/// The tools of a run that this post starts.
fn check_tools(
    submission: &Submission,
    current: &PolicySnapshot,
    limits: &Limits,
) -> Result<Toolbox, SubmitError> {
    let body = &submission.body;
    let limits = PostedLimits { bytes: limits.tool_bytes, patterns: limits.patterns };
    let toolbox = current.toolbox.with_browser_tools(&body.tools, limits).map_err(|error| match error {
        ToolboxError::NameTaken(name) => SubmitError::ToolNameTaken(name),
        ToolboxError::BadName(_) | ToolboxError::BadSchema { .. } | ToolboxError::TooMuch(_) => {
            SubmitError::Invalid(format!("In tools: {error}."))
        }
    })?;
    if let Some(ToolChoice::Tool(name)) = &body.tool_choice
        && toolbox.find(name).is_none()
    {
        let known = toolbox.specs().map(|spec| spec.name.clone()).collect();
        return Err(SubmitError::UnknownTool { name: name.clone(), known });
    }
    Ok(toolbox)
}

fn nothing_new() -> SubmitError {
    SubmitError::NothingToContinue(
        "The post holds no new message and no answer to a call that waits, so there is nothing to go on with.".into(),
    )
}

fn refused(error: AnswerError) -> SubmitError {
    match error {
        AnswerError::Unavailable(unavailable) => SubmitError::Unavailable(unavailable),
        AnswerError::TooLarge(words) => SubmitError::TooLarge(words),
        other => SubmitError::Invalid(other.to_string()),
    }
}
