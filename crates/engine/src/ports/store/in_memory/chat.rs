//! A chat in memory, with its runs, and the changes that a commit makes to it.

use std::collections::BTreeMap;

use fermata_protocol::{
    AnswerTarget, ApprovalId, ChatId, MessageId, Plan, PlanState, Role, RunId, Show, UiMessage,
};
use fermata_tools::{Call, Confirmation, GrantEnd, Owner};
use jiff::Timestamp;
use serde_json::Value;

use crate::ports::store::{
    ApprovalRecord, ApprovalRow, ApprovalState, Change, ChatHead, ChatRecord, ChatSummary, InstanceId,
    Listing, RunRecord, StoreError, SummaryRecord, json_bytes, page,
};

#[derive(Clone, Debug)]
pub struct StoredChat {
    /// The chat's head. Its messages and their bytes are counted when it is read.
    pub head: ChatHead,
    pub context: Value,
    /// The summaries, by the number of messages that each covers.
    pub summaries: BTreeMap<usize, SummaryRecord>,
    pub summary_due: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub messages: Vec<UiMessage>,
    pub runs: Vec<StoredRun>,
    pub confirmations: Vec<Confirmation>,
    /// The approvals that people have decided or voted about, each with the person.
    pub voters: Vec<(ApprovalId, Owner)>,
    pub approvals: Vec<StoredApproval>,
    pub grant_ends: Vec<GrantEnd>,
}

#[derive(Clone, Debug)]
pub struct StoredApproval {
    pub row: ApprovalRow,
    pub changed_at: Timestamp,
}

#[derive(Clone, Debug)]
pub struct StoredRun {
    pub id: RunId,
    pub message: MessageId,
    pub started: Timestamp,
    pub ended: Option<Timestamp>,
    pub open: bool,
    pub owner: Option<InstanceId>,
    pub waiting: bool,
    pub detached: bool,
    pub questions: usize,
    pub attempts: u32,
    pub settings: Value,
    pub state: Value,
    pub expires: Option<Timestamp>,
    pub chunks: Vec<(u64, String)>,
    pub calls: Vec<Call>,
    pub plan: Option<Plan>,
}

/// Returns the chat after the change.
pub fn apply(chat: Option<StoredChat>, change: Change, at: Timestamp) -> Result<StoredChat, StoreError> {
    match (chat, change) {
        (None, Change::CreateChat { owner, profile }) => {
            let at = page::whole_microseconds(at);
            Ok(StoredChat {
                head: ChatHead::new(owner, profile),
                context: Value::Null,
                summaries: BTreeMap::new(),
                summary_due: None,
                created_at: at,
                updated_at: at,
                messages: Vec::new(),
                runs: Vec::new(),
                confirmations: Vec::new(),
                voters: Vec::new(),
                approvals: Vec::new(),
                grant_ends: Vec::new(),
            })
        }
        (None, _) => Err(conflict("there is no such chat")),
        (Some(mut chat), change) => chat.apply(change, at).map(|()| chat),
    }
}

pub fn is_target(call: &Call, target: &AnswerTarget) -> bool {
    match target {
        AnswerTarget::Call(id) => call.id == *id,
        AnswerTarget::Approval(id) => {
            call.approval_request.as_ref().is_some_and(|question| question.id == *id)
        }
        AnswerTarget::Elicitation(_) => false,
    }
}

fn conflict(why: impl Into<String>) -> StoreError {
    StoreError::Conflict(why.into())
}

// === impl StoredChat ===

impl StoredChat {
    pub fn record(&self, alive: &[InstanceId]) -> ChatRecord {
        ChatRecord {
            head: ChatHead { messages: self.messages.len(), bytes: self.bytes(), ..self.head.clone() },
            run_owner: self.run_owner(alive),
            context: self.context.clone(),
            confirmations: self.confirmations.clone(),
            grant_ends: self.grant_ends.clone(),
            open_run: self.open_run().map(|run| run.record(&self.messages)),
        }
    }

    /// Returns the size of the messages, in bytes of JSON.
    pub fn bytes(&self) -> usize {
        self.messages.iter().map(json_bytes).sum()
    }

    /// Returns the instance that owns the open run, if it is alive.
    pub fn run_owner(&self, alive: &[InstanceId]) -> Option<InstanceId> {
        let owner = self.open_run()?.owner.as_ref()?;
        if alive.contains(owner) { Some(owner.clone()) } else { None }
    }

    pub fn summary(&self, id: &ChatId, alive: &[InstanceId]) -> ChatSummary {
        ChatSummary {
            id: id.clone(),
            listing: Listing {
                title: self.head.listing.title.clone().or_else(|| self.first_words()),
                ..self.head.listing
            },
            created_at: self.created_at,
            updated_at: self.updated_at,
            open: self.open_run().is_some_and(|run| !run.detached),
            pending: self.open_run().map_or(0, |run| run.pending(alive)),
            status: self.head.show.contains(&Show::Run).then(|| self.head.status.clone()),
        }
    }

    pub fn first_words(&self) -> Option<String> {
        self.messages.iter().find(|message| message.role == Role::User).and_then(page::title)
    }

    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.runs.iter().flat_map(|run| &run.calls)
    }

    pub fn open_run(&self) -> Option<&StoredRun> {
        self.runs.iter().find(|run| run.open)
    }

    fn run(&mut self, id: &RunId) -> Result<&mut StoredRun, StoreError> {
        self.runs
            .iter_mut()
            .find(|run| run.id == *id)
            .ok_or_else(|| conflict(format!("there is no run {id}")))
    }

    fn run_in_progress(&mut self, id: &RunId) -> Result<&mut StoredRun, StoreError> {
        let run = self.run(id)?;
        if run.open { Ok(run) } else { Err(conflict(format!("run {id} is over"))) }
    }

    fn apply(&mut self, change: Change, at: Timestamp) -> Result<(), StoreError> {
        match change {
            Change::CreateChat { .. } => return Err(conflict("the chat is there already")),
            Change::Posted { profile } => self.head.profile = profile,
            // The caller notes the time.
            Change::Touched => {}
            Change::Choose { assistant, model } => self.head.choose(assistant, model),
            Change::PutListing(listing) => self.head.listing = listing,
            Change::PutContext { context } => self.context = context,
            Change::PutShow { show } => self.head.show = show,
            Change::PutStatus { status } => self.head.status = status,
            Change::PutPlan { run, plan } => self.run_in_progress(&run)?.plan = Some(*plan),
            Change::DropPlan => {
                let plans = self.runs.iter_mut().filter_map(|run| run.plan.as_mut());
                for plan in plans.filter(|plan| plan.state == PlanState::Accepted) {
                    plan.state = PlanState::Denied;
                }
            }
            Change::PutSummary(summary) => {
                let created_at = page::whole_microseconds(summary.created_at);
                self.summaries.insert(summary.messages, SummaryRecord { created_at, ..*summary });
            }
            Change::ScheduleSummary { due } => self.summary_due = due.map(page::whole_microseconds),
            Change::TruncateMessages { keep } => {
                self.messages.truncate(keep);
                self.summaries.retain(|messages, _| *messages <= keep);
            }
            Change::DeleteMessage { position } => {
                if position < self.messages.len() {
                    self.messages.remove(position);
                }
                self.summaries.retain(|messages, _| *messages <= position);
            }
            Change::PutMessage(message) | Change::ReplaceMessage(message) => {
                match self.messages.iter_mut().find(|known| known.id == message.id) {
                    Some(known) => *known = *message,
                    None => self.messages.push(*message),
                }
            }
            Change::OpenRun { run, message, owner } => self.open(run, message, owner, at)?,
            Change::SetRunOwner { run, owner, attempts } => {
                let run = self.run_in_progress(&run)?;
                (run.owner, run.attempts) = (owner, attempts);
            }
            Change::PutSettings { run, settings } => self.run_in_progress(&run)?.settings = settings,
            Change::SaveRun { run, state, expires, waiting, detached, questions, owner, attempts } => {
                let run = self.run_in_progress(&run)?;
                run.attempts = attempts;
                (run.state, run.expires, run.owner) = (state, expires, owner);
                (run.waiting, run.detached, run.questions) = (waiting, detached, questions);
            }
            Change::MoveCalls { from, to } => {
                let calls = std::mem::take(&mut self.run(&from)?.calls);
                self.run_in_progress(&to)?.calls = calls;
            }
            Change::AppendChunks { chunks, .. } if chunks.is_empty() => {}
            Change::AppendChunks { run, first, chunks } => {
                self.run_in_progress(&run)?.append(first, chunks)?
            }
            Change::PutCall { run, call } => self.put_call(&run, *call, at)?,
            Change::NoteRetry { call, retried_as } => {
                let mut calls = self.runs.iter_mut().flat_map(|run| &mut run.calls);
                let known = calls.find(|known| known.id == call);
                let known = known.ok_or_else(|| conflict(format!("there is no call {call}")))?;
                known.retried_as = Some(retried_as);
            }
            Change::Confirm { run, call, decision, terms } => {
                self.run(&run)?;
                let confirmation = Confirmation::of(&call, &decision, terms.map(|terms| *terms));
                if let Some(request) = &call.approval_request {
                    self.voters.push((request.id.clone(), decision.by.clone()));
                }
                self.confirmations.push(confirmation);
            }
            Change::EndGrant { tool, scope, by } => {
                let (at, after) = (page::whole_microseconds(at), self.confirmations.len());
                self.grant_ends.push(GrantEnd { tool, scope, by, at, after });
            }
            // These are no part of the chat.
            Change::Audit(_)
            | Change::Notify(_)
            | Change::GrantToOwner { .. }
            | Change::EndGrantToOwner { .. }
            | Change::ChangeMemories { .. }
            | Change::Answered { .. } => {}
            Change::CloseRun { run, outcome: _ } => self.run_in_progress(&run)?.close(at),
        }
        Ok(())
    }

    fn open(
        &mut self,
        id: RunId,
        message: MessageId,
        owner: InstanceId,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        if self.runs.iter().any(|run| run.open || run.id == id) {
            return Err(conflict(format!("run {id} cannot be opened: it is known, or another one is open")));
        }
        self.runs.push(StoredRun {
            id,
            message,
            open: true,
            owner: Some(owner),
            waiting: false,
            detached: false,
            questions: 0,
            attempts: 0,
            started: at,
            ended: None,
            settings: Value::Null,
            state: Value::Null,
            expires: None,
            chunks: Vec::new(),
            calls: Vec::new(),
            plan: None,
        });
        Ok(())
    }

    fn put_call(&mut self, run: &RunId, call: Call, at: Timestamp) -> Result<(), StoreError> {
        let is_elsewhere =
            self.runs.iter().any(|other| other.id != *run && other.calls.iter().any(|c| c.id == call.id));
        let is_taken = call.approval_request.as_ref().is_some_and(|question| {
            let target = AnswerTarget::Approval(question.id.clone());
            self.calls().any(|known| known.id != call.id && is_target(known, &target))
        });
        if is_elsewhere || is_taken {
            return Err(conflict(format!("call {} or its question belongs to another run or call", call.id)));
        }
        let calls = &mut self.run(run)?.calls;
        match calls.iter_mut().find(|known| known.id == call.id) {
            Some(known) => *known = call.clone(),
            None => calls.push(call.clone()),
        }
        self.put_approval(&call, at);
        Ok(())
    }

    /// Keeps what follows from a call about its approvals.
    fn put_approval(&mut self, call: &Call, at: Timestamp) {
        let changed_at = page::whole_microseconds(at);
        for known in &mut self.approvals {
            if call.asked_before.contains(&known.row.id) && known.row.state == ApprovalState::Waiting {
                known.row.state = ApprovalState::Cancelled;
                known.row.settled_at = Some(changed_at);
                known.changed_at = changed_at;
            }
        }
        let Some(row) = ApprovalRow::of(call) else { return };
        match self.approvals.iter_mut().find(|known| known.row.id == row.id) {
            Some(known) if known.row.state == row.state && row.state != ApprovalState::Waiting => {}
            Some(known) => *known = StoredApproval { row, changed_at },
            None => self.approvals.push(StoredApproval { row, changed_at }),
        }
    }

    /// Returns an approval for a person.
    pub fn approval(
        &self,
        chat: &ChatId,
        saved: &StoredApproval,
        viewer: Option<&Owner>,
    ) -> Option<ApprovalRecord> {
        let StoredApproval { row, changed_at } = saved;
        Some(ApprovalRecord {
            id: row.id.clone(),
            state: row.state,
            chat: chat.clone(),
            title: self.head.listing.title.clone().or_else(|| self.first_words()),
            requested_at: page::whole_microseconds(row.requested_at),
            settled_at: row.settled_at.map(page::whole_microseconds),
            changed_at: *changed_at,
            terms: row.terms.as_ref().map(|terms| terms.hash.clone()),
            has_voted: viewer.is_some_and(|viewer| {
                self.voters.iter().any(|(approval, voter)| *approval == row.id && voter == viewer)
            }),
            call: self.calls().find(|call| call.id == row.call)?.clone(),
        })
    }
}

// === impl StoredRun ===

impl StoredRun {
    /// Returns the number of calls and questions that wait for an answer. A question of a tool ends with the instance that owns its run.
    fn pending(&self, alive: &[InstanceId]) -> usize {
        let calls = self.calls.iter().filter(|call| call.awaits_answer()).count();
        let is_owned = self.owner.as_ref().is_some_and(|owner| alive.contains(owner));
        let questions = if is_owned {
            self.questions
        } else {
            self.calls.iter().filter(|call| call.awaits_reply()).count()
        };
        calls + questions
    }

    fn record(&self, messages: &[UiMessage]) -> RunRecord {
        let message = messages.iter().find(|message| message.id == self.message);
        RunRecord {
            id: self.id.clone(),
            message: self.message.clone(),
            message_bytes: message.map_or(0, json_bytes),
            settings: self.settings.clone(),
            state: self.state.clone(),
            chunks: self.chunks.clone(),
            calls: self.calls.clone(),
            waiting: self.waiting,
            attempts: self.attempts,
        }
    }

    fn append(&mut self, first: u64, chunks: Vec<String>) -> Result<(), StoreError> {
        let next = self.chunks.last().map_or(1, |(last, _)| last + 1);
        if first < next || i64::try_from(first).is_err() {
            return Err(conflict(format!(
                "the log of run {} goes on at {next} or later, not at {first}",
                self.id
            )));
        }
        self.chunks.extend((first..).zip(chunks));
        Ok(())
    }

    fn close(&mut self, at: Timestamp) {
        self.open = false;
        self.ended = Some(at);
        self.owner = None;
        self.settings = Value::Null;
        self.state = Value::Null;
        self.expires = None;
    }
}
