//! Posts to a chat.

use std::{num::NonZero, sync::Arc};

use fermata_protocol::{
    AnswerTarget, ChatBody, FilePart, MessageId, PlanMode, PostedMessage, Profile, Role, RunId, ToolCallId,
    ToolChoice, Trigger, UiMessage, UiPart,
};
use fermata_tools::{
    AuditAction, AuditEvent, CallState, ErrorType, Owner, PostedLimits, StateName, Toolbox, ToolboxError,
    input_hash,
};
use futures::future::join_all;
use jiff::Timestamp;

use super::{ChatActor, ChatState, Handle, plans::open_plan};
use crate::{
    active_run::{ActiveRun, NewRun, RunParts},
    api::{
        errors::SubmitError,
        request::{Following, Submission},
    },
    assistants::{ClientSystem, call_settings::check_options},
    model::media_types::{TAKEN, is_taken},
    ports::store::{AuditEntry, Change, Files, OwnerUsage, StoreError, WantedUsage, json_bytes},
    post::{Keep, KnownMessages, Plan, named_messages, plan, plan_first},
    record::Record,
    run::{
        Event, RetriedCall, Run, RunRequest, RunSettings, claims_settled_call, client_view,
        reconcile_finished,
    },
    run_log::{Reader, Start, Writer},
    services::{OpenRun, PolicySnapshot, Services},
    settings::Limits,
};

impl Handle for Box<Submission> {
    /// Starts or continues a run.
    async fn handle(&self, actor: &mut ChatActor) -> Result<Following, SubmitError> {
        let is_known = actor.record().is_some();
        if !is_known && (self.body.fermata.exists || self.retries.is_some()) {
            return Err(SubmitError::NotFound);
        }
        let services = actor.services.clone();
        if !is_known {
            check_history(&self.body, services.settings.limits.messages)?;
        }
        if !is_known && services.store.was_deleted(&self.owner, &actor.mailbox.chat).await? {
            return Err(SubmitError::Deleted);
        }
        let policies = services.policies.current();
        let mut settings = run_settings(self, actor.record(), &policies, services.clock.now())?;
        let toolbox = check_tools(self, &settings.server_tools(&policies), &services.settings.limits)?;
        services.policies.warn_of_tools_of_page(&toolbox, &self.body.tools);
        actor.activate().await?;
        if let Some(call) = &self.retries {
            let retried = actor.failed_call(call).await?;
            let (open_run, _) = actor.make_room(&self.owner, Keep::All, retried.input.as_str().len()).await?;
            let bytes = actor.chat_bytes();
            let changes = noted_retry(self, &retried);
            settings.retries = Some(retried);
            let post = NewPost {
                toolbox,
                settings,
                open_run,
                keep: Keep::All,
                add: Vec::new(),
                bytes,
                history: None,
                changes,
            };
            return actor.start_run(self, policies, post).await;
        }
        let known = if is_known { actor.known_messages(&self.body).await? } else { KnownMessages::default() };
        let plan = if is_known {
            plan(&self.body, &known, &services.policies.current().rules.consent, &*services.ids)?
        } else {
            plan_first(&self.body, &*services.ids)?
        };
        match plan {
            Plan::Continue(posted) => actor.continue_run(self, &posted, &known).await,
            Plan::Reply { reply, mut said } => {
                said.created_at = Some(settings.started);
                check_files(Some(&said), &services).await?;
                let open_run = actor.make_room(&self.owner, Keep::All, json_bytes(&said)).await?.0;
                let profile = actor.profile_of(self);
                // The plan was made for a run that is here.
                let ChatState::Active(active) = &mut actor.state else {
                    return Err(StoreError::Fenced.into());
                };
                active.continue_after(self, &reply, said, profile, open_run).await
            }
            Plan::Run { keep, mut add } => {
                for message in &mut add {
                    message.created_at = Some(settings.started);
                }
                check_files(add.last(), &services).await?;
                if settings.plan != PlanMode::Off {
                    let said = actor.last_said(keep, &add).await?;
                    settings.wants_plan =
                        said.is_some_and(|said| policies.assistants.plan_triggers.match_text(&said));
                }
                // Asked for before anything is given up for it.
                let added: usize = add.iter().map(json_bytes).sum();
                let (open_run, kept) = actor.make_room(&self.owner, keep, added).await?;
                actor.supersede(self).await?;
                // The superseded run's message is part of the chat now.
                let bytes = kept.unwrap_or_else(|| actor.chat_bytes()) + added;
                // Files are read again when they are sent, so that the run does not hold them.
                let has_files =
                    add.iter().flat_map(|message| &message.parts).any(|part| matches!(part, UiPart::File(_)));
                let history = if is_known || has_files { None } else { Some(add.clone()) };
                let changes = Vec::new();
                let post = NewPost { toolbox, settings, open_run, keep, add, bytes, history, changes };
                actor.start_run(self, policies, post).await
            }
        }
    }
}

/// Checks the history that a new chat begins with. The server reads the history of a chat that it knows from its record.
fn check_history(body: &ChatBody, limit: usize) -> Result<(), SubmitError> {
    if body.lacks_history {
        return Err(SubmitError::TooLarge(
            "The body is too large for a chat that this server does not know (max_body, max_json_nodes)."
                .to_owned(),
        ));
    }
    let count = body.messages.len();
    if count > limit {
        let text =
            format!("The post has {count} messages; the limit for a new chat is {limit} (max_messages).");
        return Err(SubmitError::TooLarge(text));
    }
    Ok(())
}

/// A post that starts a run.
struct NewPost {
    toolbox: Toolbox,
    settings: RunSettings,
    open_run: OpenRun,
    keep: Keep,
    add: Vec<UiMessage>,
    /// The size of the chat with the post, in bytes of JSON.
    bytes: usize,
    /// The messages of the chat, if it begins with the post and they have no files.
    history: Option<Vec<UiMessage>>,
    /// Changes that are saved with the run.
    changes: Vec<Change>,
}

impl ChatActor {
    /// Returns the size of the chat in bytes of JSON, with the message of the open run.
    fn chat_bytes(&self) -> usize {
        let others = self.record().map_or(0, |record| record.head.bytes);
        match self.active() {
            Some(active) if active.run.has_content() => others + json_bytes(&active.run.snapshot()),
            Some(_) | None => others,
        }
    }

    /// Returns the size of the chat's first messages in bytes of JSON.
    async fn bytes_of_first(&mut self, kept: usize) -> Result<usize, StoreError> {
        if kept == 0 {
            return Ok(0);
        }
        let outline = self.services.store.outline(&self.mailbox.chat).await?;
        Ok(outline.iter().take(kept).map(|message| message.bytes).sum())
    }

    /// Reads the messages that the plan for a post depends on.
    async fn known_messages(&mut self, body: &ChatBody) -> Result<KnownMessages, StoreError> {
        let (store, chat) = (&self.services.store, &self.mailbox.chat);
        let mut known = KnownMessages::default();
        // If the readers were sent away, the run's message is among the chat's like any other.
        if let Some(active) = self.active() {
            if !active.run.is_detached() {
                known.writing = Some(active.run.message.clone());
            }
            known.waiting = active.waiting();
        }
        for id in named_messages(body) {
            known.named.extend(store.message(chat, id).await?);
        }
        known.last = store.last_message(chat, usize::MAX, None).await?;
        let last_posted = body.messages.last().and_then(|message| known.find(message.id.as_ref()?));
        if let Some((position @ 1.., _)) = last_posted {
            known.before_last_posted = store.last_message(chat, position, None).await?.map(|(_, id)| id);
        }
        if body.trigger == Trigger::Regenerate {
            let user_before = async |before: usize| {
                let last = store.last_message(chat, before, Some(Role::User)).await?;
                Ok::<_, StoreError>(last.map(|(position, _)| position))
            };
            known.last_user = user_before(usize::MAX).await?;
            let again = known.named.iter().find(|(_, message)| body.message_id.as_ref() == Some(&message.id));
            if let Some((position, _)) = again {
                known.user_before = user_before(*position).await?;
            }
        }
        Ok(known)
    }

    /// Returns a call of the chat that has failed, to be made again.
    async fn failed_call(&mut self, call: &ToolCallId) -> Result<RetriedCall, SubmitError> {
        let target = AnswerTarget::Call(call.clone());
        let Some(call) = self.services.store.call(&self.mailbox.chat, &target).await? else {
            return Err(SubmitError::NoSuchCall);
        };
        if let Some(retried_as) = call.retried_as {
            return Err(SubmitError::AlreadyRetried(retried_as));
        }
        if self.active().is_some() {
            return Err(SubmitError::RunOpen);
        }
        // A call keeps its record when an edit drops its message.
        let messages =
            self.services.store.messages_at(&self.mailbox.chat, 0..usize::MAX, Files::ByName).await?;
        let mut parts = messages.iter().flat_map(|message| &message.parts).filter_map(UiPart::as_tool);
        if parts.all(|part| part.tool_call_id != call.id) {
            return Err(SubmitError::NoSuchCall);
        }
        match call.state() {
            // What its tool has refused was denied and never ran, and would be again.
            CallState::Error { error_type: ErrorType::Denied, .. } if call.times_run() == 0 => {
                Err(SubmitError::NotFailed(StateName::Cancelled))
            }
            CallState::Error { .. } => {
                let id = ToolCallId::new(self.services.ids.next("call_"));
                let (tool, input) = (call.tool.clone(), call.effective_input().clone());
                Ok(RetriedCall { id, of: call.id.clone(), tool, input, had_begun: call.times_run() > 0 })
            }
            other => Err(SubmitError::NotFailed(other.name())),
        }
    }

    /// Makes room for the bytes that a post adds to the messages that it keeps: one more open run of the user, and no more bytes than the chat and
    /// the user may have. Returns the run, and the size of the messages that are kept if they are not all.
    async fn make_room(
        &mut self,
        owner: &Owner,
        keep: Keep,
        added: usize,
    ) -> Result<(OpenRun, Option<usize>), SubmitError> {
        let kept = match keep {
            Keep::All => None,
            Keep::First(kept) => Some(self.bytes_of_first(kept).await?),
        };
        let before = self.chat_bytes();
        let after = kept.unwrap_or(before) + added;
        let limit = self.services.settings.limits.chat_bytes;
        // A post that makes the chat smaller is a way out for a chat that is over the limit.
        if after > limit && after >= before {
            return Err(SubmitError::TooLarge(format!(
                "The chat would have {after} bytes; the limit is {limit} (max_chat). Go on in a new chat, or edit an earlier message, which \
                 drops all that follows."
            )));
        }
        Ok((self.enter(owner, after.saturating_sub(before)).await?, kept))
    }

    /// Returns the words of the last user message, once a post has kept some messages and added others.
    async fn last_said(&mut self, keep: Keep, add: &[UiMessage]) -> Result<Option<String>, StoreError> {
        let words = |message: &UiMessage| message.parts.iter().filter_map(UiPart::as_text).collect();
        if let Some(message) = add.iter().rfind(|message| message.role == Role::User) {
            return Ok(Some(words(message)));
        }
        let kept = match keep {
            Keep::All => usize::MAX,
            Keep::First(kept) => kept,
        };
        let (store, chat) = (&self.services.store, &self.mailbox.chat);
        let Some((_, id)) = store.last_message(chat, kept, Some(Role::User)).await? else { return Ok(None) };
        Ok(store.message(chat, &id).await?.map(|(_, message)| words(&message)))
    }

    /// Counts one more open run of the user, unless the user has too many here and at other instances, or keeps too much for a chat that
    /// grows by so many bytes. Posts of the same moment do not see each other's chats and bytes.
    async fn enter(&mut self, owner: &Owner, growth: usize) -> Result<OpenRun, SubmitError> {
        let limits = &self.services.settings.limits;
        let runs = if self.active().is_none() { limits.runs_per_owner } else { None };
        let chats = if self.record().is_none() { limits.chats_per_owner } else { None };
        let bytes = if growth > 0 { limits.bytes_per_owner } else { None };
        let wanted = WantedUsage {
            chats: chats.map(NonZero::get),
            bytes: bytes.is_some(),
            runs_elsewhere: runs.map(NonZero::get),
        };
        let usage = if wanted == WantedUsage::default() {
            OwnerUsage::default()
        } else {
            self.services.store.usage(owner, &self.services.lease.instance, wanted).await?
        };
        if let Some(limit) = chats
            && usage.chats >= limit.get()
        {
            return Err(SubmitError::TooManyChats(limit.get()));
        }
        if let Some(limit) = bytes
            && usage.bytes.saturating_add(growth) > limit
        {
            return Err(SubmitError::TooManyBytes { bytes: usage.bytes, growth, limit });
        }
        let entered = self.services.open_runs.try_enter(owner, runs, usage.runs_elsewhere);
        entered.map_err(SubmitError::TooManyRuns)
    }

    /// Ends the open run, if there is one, because the user goes on without it; outputs that come along are accepted.
    async fn supersede(&mut self, submission: &Submission) -> Result<(), SubmitError> {
        let ChatState::Active(active) = &mut self.state else { return Ok(()) };
        let mut posted = submission.body.messages.iter();
        let outputs = match posted.find(|message| message.id.as_ref() == Some(&active.run.message)) {
            Some(message) => active.run.new_answers(&message.parts),
            None => Vec::new(),
        };
        active.apply(Event::Superseded(outputs)).await?;
        self.leave_finished_run();
        Ok(())
    }

    async fn start_run(
        &mut self,
        submission: &Submission,
        policies: Arc<PolicySnapshot>,
        post: NewPost,
    ) -> Result<Following, SubmitError> {
        let NewPost { toolbox, mut settings, open_run, keep, add, bytes, history, mut changes } = post;
        let Submission { owner, body, .. } = submission;
        let services = self.services.clone();
        let profile = self.profile_of(submission);
        let hold = services.holds.of(submission, &*services.store).await?;
        if settings.plan != PlanMode::Off && self.record().is_some() {
            let most = if let Keep::First(kept) = keep { kept } else { usize::MAX };
            settings.open_plan = open_plan(&*services.store, &self.mailbox.chat, most).await?;
        }
        let request = RunRequest {
            id: RunId::new(services.ids.next("run_")),
            message: MessageId::new(services.ids.next("msg_")),
            profile,
            hold,
            show: body.fermata.show.clone(),
            settings,
        };
        let run = Run::new(request);
        // If this fails, the chat has to be read again.
        let mut record = match std::mem::replace(&mut self.state, ChatState::Unread) {
            ChatState::Idle(mut record) => {
                changes.push(Change::Posted { profile });
                if let Keep::First(keep) = keep {
                    changes.push(Change::TruncateMessages { keep });
                    changes.extend(record.truncate_context(&services, keep).await?);
                }
                *record
            }
            ChatState::Absent => {
                changes.push(Change::CreateChat { owner: owner.clone(), profile });
                Record::new(self.mailbox.chat.clone(), owner.clone(), profile, services.lease.epoch())
            }
            ChatState::Unread
            | ChatState::Elsewhere(_)
            | ChatState::Dormant { .. }
            | ChatState::Active(_) => {
                return Err(StoreError::Fenced.into());
            }
        };
        record.head.profile = profile;
        let messages = add.iter().map(|message| message.id.clone()).chain([run.message.clone()]);
        changes.extend(record.note_post(&body.fermata, messages));
        record.head.bytes = bytes;
        changes.extend(add.into_iter().map(|message| Change::PutMessage(Box::new(message))));
        changes.push(Change::OpenRun {
            run: run.id.clone(),
            message: run.message.clone(),
            owner: services.lease.instance.clone(),
        });
        let settings = serde_json::to_value(&run.settings);
        let settings = settings.map_err(|error| StoreError::Corrupt(error.to_string()))?;
        changes.push(Change::PutSettings { run: run.id.clone(), settings });
        self.mailbox.note_owner(Some(owner.clone()));
        let log = Writer::new(run.id.clone());
        let reader = log.read(profile, Start::default());
        let parts = RunParts { run, log, policies, toolbox };
        let new = NewRun { parts, open_run, changes, history };
        let active = ActiveRun::begin(services, record, new).await?;
        let following = active.follow(reader);
        self.state = ChatState::Active(Box::new(active));
        Ok(following)
    }

    fn profile_of(&self, submission: &Submission) -> Profile {
        submission.body.fermata.client.unwrap_or(self.services.settings.client)
    }

    /// A client has posted the assistant's message again: it answers something, or it is behind, or there is nothing to do.
    async fn continue_run(
        &mut self,
        submission: &Submission,
        posted: &PostedMessage,
        known: &KnownMessages,
    ) -> Result<Following, SubmitError> {
        let Some(id) = &posted.id else { return Err(SubmitError::nothing_new()) };
        let profile = self.profile_of(submission);
        let services = self.services.clone();
        if let ChatState::Active(active) = &mut self.state
            && active.run.message == *id
        {
            return active.continue_with(posted, submission, profile).await;
        }
        let shown = client_view(&posted.parts);
        let (_, message) = known.find(id).ok_or_else(SubmitError::nothing_new)?;
        if !claims_settled_call(message, &shown) {
            return Err(SubmitError::nothing_new());
        }
        let policies = services.policies.current();
        let runs_on_server = |tool: &str| policies.toolbox.find(tool).is_some();
        let chunks =
            reconcile_finished(message, &shown, runs_on_server).ok_or_else(SubmitError::nothing_new)?;
        let patience = self.request_patience();
        if let Some(record) = self.record_mut() {
            record.head.profile = profile;
            let mut changes = vec![Change::Posted { profile }];
            changes.extend(record.choose(&submission.body.fermata));
            changes.extend(record.put_show(&submission.body.fermata.show));
            record.commit(&services, patience, changes).await?;
        }
        let run = RunId::new(services.ids.next("run_"));
        let reader = Reader::of(run.clone(), profile, chunks);
        Ok(Following { chat: self.mailbox.chat.clone(), run, reader })
    }
}

/// A file that no model takes, or that it would not be handed, is refused while its sender is there to read why. Older messages of an imported history
/// are taken as they are; a line of text tells the model where their files are.
async fn check_files(posted: Option<&UiMessage>, services: &Services) -> Result<(), SubmitError> {
    let file_urls = &services.settings.file_urls;
    let parts = posted.into_iter().flat_map(|message| message.parts.iter().enumerate());
    let files = parts.filter_map(|(at, part)| match part {
        UiPart::File(file) => Some((at, file)),
        _ => None,
    });
    let files: Vec<(usize, &FilePart)> = files.collect();
    for (at, FilePart { media_type, url, filename, .. }) in &files {
        if !is_taken(media_type, url) {
            let name = filename.as_deref().unwrap_or("without a name");
            let kind = if media_type.is_empty() { "no media type" } else { media_type };
            return Err(SubmitError::Invalid(format!(
                "The file {name} ({kind}) in parts[{at}] of the last message cannot be shown to the model. Models take {TAKEN}."
            )));
        }
    }
    let checks = files
        .into_iter()
        .map(async |(at, file)| (at, file_urls.check_name(&file.url, &*services.resolver).await));
    for (at, checked) in join_all(checks).await {
        if let Err(refusal) = checked {
            return Err(SubmitError::Invalid(format!(
                "The file in parts[{at}] of the last message cannot be shown to the model: {refusal}. {}",
                file_urls.hint()
            )));
        }
    }
    Ok(())
}

/// Returns the settings of the run that a post asks for. The assistant and the model that answer from this post on are those that it names, or
/// those that the chat has chosen before.
///
/// # Errors
/// Returns an error if it names one that does not exist, asks for options that it may not set, or has instructions of its own for an
/// assistant that takes none.
fn run_settings(
    submission: &Submission,
    record: Option<&Record>,
    policies: &PolicySnapshot,
    now: Timestamp,
) -> Result<RunSettings, SubmitError> {
    let body = &submission.body;
    let options = &body.fermata;
    let assistants = &policies.assistants;
    let (mut assistant, mut chosen_model) = (options.assistant.clone(), options.model.clone());
    if let Some(record) = record {
        assistant = assistant.or_else(|| record.head.assistant.clone());
        chosen_model = chosen_model.or_else(|| record.head.model.clone());
    }
    let name = match &options.assistant {
        Some(name) => name,
        None => assistants.answering(assistant.as_deref()),
    };
    let requester = submission.principal();
    let answering = assistants.choose(name, &policies.rules.policy.people().complete(&requester))?;
    if let Some(name) = &options.model
        && answering.models().all(|model| model.name != *name)
    {
        let known: Vec<&str> = answering.models().map(|model| model.name.as_str()).collect();
        return Err(SubmitError::Invalid(format!(
            "The assistant has no model `{name:.64}` (fermata.model). It has: {}.",
            known.join(", ")
        )));
    }
    let model = answering.model(chosen_model.as_deref());
    check_options(&body.call_settings, model).map_err(SubmitError::Invalid)?;
    let has_system =
        body.system.is_some() || body.messages.iter().any(|message| message.role == Role::System);
    if has_system && answering.client_system == ClientSystem::Refuse {
        return Err(SubmitError::Invalid(
            "The assistant takes no instructions from pages (client_system): leave out `system` and messages with the role \"system\"."
                .into(),
        ));
    }
    Ok(RunSettings {
        started: now,
        requester: Arc::new(requester),
        model: model.model.name().to_owned(),
        assistant,
        chosen_model,
        remembers: answering.remembers && options.memory != Some(false),
        tools: body.tools.clone(),
        system: body.system.clone(),
        call_settings: body.call_settings.clone(),
        tool_choice: body.tool_choice.clone(),
        plan: options.plan.map_or(answering.plan, |plan| plan.max(answering.plan)),
        wants_plan: false,
        open_plan: None,
        retries: None,
        traceparent: submission.traceparent.clone(),
    })
}

/// Returns the changes that note who makes a failed call again, and as which call. They are saved with the run that makes it, so of two requests
/// one finds that the call was made again.
fn noted_retry(submission: &Submission, retried: &RetriedCall) -> Vec<Change> {
    let event = AuditEvent {
        call: Some(retried.of.clone()),
        tool: retried.tool.clone(),
        input_hash: Some(input_hash(&retried.input)),
        ..AuditEvent::new(AuditAction::Retried)
    };
    let event = event.by(submission.owner.clone(), submission.address);
    let (owner, chat) = (Some(submission.owner.clone()), submission.body.id.clone());
    vec![
        Change::NoteRetry { call: retried.of.clone(), retried_as: retried.id.clone() },
        Change::Audit(Box::new(AuditEntry { owner, chat, run: None, event })),
    ]
}

/// The tools of a run that this post starts.
fn check_tools(
    submission: &Submission,
    of_assistant: &Toolbox,
    limits: &Limits,
) -> Result<Toolbox, SubmitError> {
    let body = &submission.body;
    let limits = PostedLimits { bytes: limits.tool_bytes, patterns: limits.patterns };
    let toolbox = of_assistant.with_browser_tools(&body.tools, limits).map_err(|error| match error {
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
