//! Chats, messages and calls to store, and folders to store them in. Knows no store.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use async_trait::async_trait;
use fermata_engine::{
    Store,
    store::{AuditEntry, Change, InstanceId, StoreError, SummaryRecord, Version, WantedUsage},
};
use fermata_protocol::{
    AnswerKind, ApprovalId, ChatId, GrantedFor, MessageId, Plan, PlanState, PlanStep, PlanStepState, Profile,
    Role, RunId, ToolCallId, UiMessage, UiPart,
};
use fermata_tools::{
    ApprovalDecision, ApprovalRequest, Asking, AuditAction, AuditEvent, AuditOutcome, Call, CallState,
    Cancelled, Decision, DecisionChannel, DecisionSource, ErrorType, GrantTerms, Owner, PolicyDecision,
    ResourceKey, RunBy, Scope, Wait, Work, input_hash,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

/// A folder that goes with the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("store-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self) -> PathBuf {
        self.0.join("fermata.db")
    }

    pub fn url(&self) -> String {
        format!("sqlite://{}", self.file().display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

pub fn chat(id: &str) -> ChatId {
    ChatId::parse(id).unwrap()
}

pub fn alice() -> Owner {
    Owner::new("alice")
}

pub fn bob() -> Owner {
    Owner::new("bob")
}

pub fn run(id: &str) -> RunId {
    RunId::new(id)
}

pub fn create(owner: Owner) -> Change {
    Change::CreateChat { owner, profile: Profile::V6 }
}

pub fn message(id: &str, role: Role, text: &str) -> UiMessage {
    let words =
        UiPart::Text { text: text.into(), streaming: None, provider_metadata: None, extra: Map::new() };
    UiMessage {
        id: MessageId::new(id),
        role,
        metadata: Some(json!({"n": 0.1})),
        created_at: Some(at(7)),
        parts: vec![words],
    }
}

pub fn user(id: &str, text: &str) -> UiMessage {
    message(id, Role::User, text)
}

pub fn put(message: UiMessage) -> Change {
    Change::PutMessage(Box::new(message))
}

pub fn open(id: &str) -> Change {
    open_by(id, "one")
}

/// A run that this instance owns.
pub fn open_by(id: &str, owner: &str) -> Change {
    Change::OpenRun { run: run(id), message: MessageId::new("answer"), owner: instance(owner) }
}

pub fn set_run_owner(id: &str, owner: Option<&str>) -> Change {
    Change::SetRunOwner { run: run(id), owner: owner.map(instance), attempts: 0 }
}

pub fn instance(id: &str) -> InstanceId {
    InstanceId::new(id)
}

pub fn close(id: &str) -> Change {
    Change::CloseRun { run: run(id), outcome: "finished" }
}

pub fn append(id: &str, first: u64, chunks: &[&str]) -> Change {
    Change::AppendChunks { run: run(id), first, chunks: chunks.iter().copied().map(String::from).collect() }
}

pub fn save(id: &str, state: Value, expires: Option<Timestamp>) -> Change {
    Change::SaveRun {
        run: run(id),
        state,
        expires,
        waiting: false,
        detached: false,
        questions: 0,
        owner: None,
        attempts: 0,
    }
}

/// Puts the settings of the request for a run.
pub fn put_settings(id: &str, settings: Value) -> Change {
    Change::PutSettings { run: run(id), settings }
}

/// A run that waits for somebody, until then, and that this instance owns, if any.
pub fn wait(id: &str, owner: Option<&str>, expires: Option<Timestamp>) -> Change {
    Change::SaveRun {
        run: run(id),
        state: json!(1),
        expires,
        waiting: true,
        detached: false,
        questions: 0,
        owner: owner.map(instance),
        attempts: 0,
    }
}

/// The chat's version as it is now.
pub async fn version(store: &dyn Store, chat: &ChatId) -> Version {
    store.chat(chat).await.unwrap().map_or(Version::NONE, |chat| chat.head.version)
}

/// Commits of a test, which need no versions of their own.
#[async_trait]
pub trait CommitNext {
    /// Commits with a version that no other commit of the test has, and returns it; without changes, returns the version as it is.
    async fn commit_next(
        &self,
        chat: &ChatId,
        from: Version,
        at: Timestamp,
        changes: Vec<Change>,
    ) -> Result<Version, StoreError>;
}

#[async_trait]
impl<S: Store + ?Sized> CommitNext for S {
    async fn commit_next(
        &self,
        chat: &ChatId,
        from: Version,
        at: Timestamp,
        changes: Vec<Change>,
    ) -> Result<Version, StoreError> {
        let to = new_version();
        let is_empty = changes.is_empty();
        self.commit(chat, from, to, at, changes.into()).await?;
        Ok(if is_empty { from } else { to })
    }
}

/// A version that no other commit has.
pub fn new_version() -> Version {
    static NEXT: AtomicU64 = AtomicU64::new(1_000);
    Version(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Commits for one who knows the chat as it is now.
pub async fn commit_at(
    store: &dyn Store,
    chat: &ChatId,
    at: Timestamp,
    changes: Vec<Change>,
) -> Result<Version, StoreError> {
    store.commit_next(chat, version(store, chat).await, at, changes).await
}

/// Deletes for one who knows the chat as it is now.
pub async fn delete(store: &dyn Store, chat: &ChatId) {
    store.delete(chat, version(store, chat).await, at(9), Vec::new()).await.unwrap();
}

pub fn call(id: &str, state: CallState) -> Call {
    let mut call = Call::new(ToolCallId::new(id), 1, "write_note".into(), Some(RunBy::Server), at(0));
    call.input = json!({"title": "Ü", "z": 1, "a": null}).into();
    call.approval_request = Some(request(&format!("question-{id}")));
    for state in way_to(state) {
        call.enter(state, at(0));
    }
    call
}

pub fn awaiting_approval() -> CallState {
    CallState::AwaitingApproval { expires: at(60) }
}

pub fn scheduled() -> CallState {
    CallState::scheduled(Wait::Resource)
}

pub fn executing() -> CallState {
    CallState::Executing { work: Work::Server }
}

/// The state of a call that a page runs.
pub fn parked() -> CallState {
    CallState::Executing { work: Work::Browser { expires: at(60) } }
}

/// A call with something else about it.
pub fn changed(mut call: Call, change: impl FnOnce(&mut Call)) -> Call {
    change(&mut call);
    call
}

/// Calls in every state, whose times are no whole microseconds, and which say everything that a call can say.
pub fn calls_of_all_kinds() -> Vec<Call> {
    let failures = ErrorType::ALL
        .into_iter()
        .map(|error_type| CallState::Error { error_type, error_text: "\u{0}".into() });
    let reasons = [
        Cancelled::Denied { reason: Some("\"no\"\n".into()) },
        Cancelled::Denied { reason: None },
        Cancelled::Expired,
        Cancelled::Stopped,
        Cancelled::Superseded,
        Cancelled::RunEnded,
    ];
    let cancelled = reasons.into_iter().map(|cancelled| CallState::Cancelled { cancelled });
    let waits = [Wait::Gate, Wait::Tool { since: moment(3) }, Wait::Resource, Wait::Capacity];
    let works = [
        Work::Server,
        Work::Browser { expires: moment(4) },
        Work::Asking { about: Asking::Call, expires: moment(5) },
        Work::Asking { about: Asking::Failure, expires: moment(6) },
    ];
    let works = works.into_iter().chain(waits.clone().map(Work::Again));
    let open = [CallState::Validating, awaiting_approval()]
        .into_iter()
        .chain(waits.map(CallState::scheduled))
        .chain(works.map(|work| CallState::Executing { work }));
    let outputs =
        [json!(null), json!("text"), json!({"z": [1.5, u64::MAX, i64::MIN], "a": {"output": "\u{0}"}})];
    let successes = outputs.into_iter().map(|output| CallState::Success { output });
    let mut calls = Vec::new();
    for (n, state) in open.into_iter().chain(successes).chain(failures).chain(cancelled).enumerate() {
        calls.push(in_detail(&format!("full-{n}"), &state, n));
        let mut bare = call(&format!("bare-{n}"), state);
        (bare.approval_request, bare.run_by, bare.input) = (None, None, json!("{not json").into());
        calls.push(bare);
    }
    calls
}

fn in_detail(id: &str, state: &CallState, n: usize) -> Call {
    let mut call = Call::new(ToolCallId::new(id), 7, "s__t".into(), Some(RunBy::Mcp), moment(0));
    for (n, state) in (1..).zip(way_to(state.clone())) {
        call.enter(state, moment(n));
    }
    call.input = json!({"z": 1, "a": "{}", "deep": [[{}]]}).into();
    call.edited = Some(if n.is_multiple_of(2) { json!(["other"]) } else { json!(null) }.into());
    let ruled_by = [
        DecisionSource::Default,
        DecisionSource::Rule(12),
        DecisionSource::Auto,
        DecisionSource::Chain,
        DecisionSource::Always,
    ][n % 5];
    let decision = [Decision::Allow, Decision::Ask, Decision::Deny][n % 3];
    call.policy_decision = Some(PolicyDecision {
        decision,
        reason: n.is_multiple_of(2).then(|| "a rule".into()),
        by: ruled_by,
        terms: None,
    });
    call.approval_request =
        Some(ApprovalRequest { required: n.is_multiple_of(2), ..request(&format!("question-{id}")) });
    call.approval_decision = Some(ApprovalDecision {
        by: bob(),
        at: at(1),
        approved: !n.is_multiple_of(2),
        reason: Some("so".into()),
        always: n.is_multiple_of(3),
        how: n.is_multiple_of(2).then_some(DecisionChannel::Button),
    });
    call.note_answer(&AnswerKind::Output { output: json!({"what": "was answered"}) });
    call.resource = Some(ResourceKey {
        named_by: fermata_tools::NamedBy::Settings,
        name: "file".into(),
        owner: Some(alice()),
    });
    call
}

/// Moments 1.5 microseconds apart.
pub fn moment(n: i64) -> Timestamp {
    at(0) + SignedDuration::from_nanos(1_500 * n)
}

/// The states through which a call comes into this one.
fn way_to(state: CallState) -> Vec<CallState> {
    match &state {
        CallState::Validating => vec![],
        CallState::Executing { .. } => vec![scheduled(), state],
        CallState::Success { .. } => vec![scheduled(), executing(), state],
        CallState::AwaitingApproval { .. }
        | CallState::Scheduled { .. }
        | CallState::Error { .. }
        | CallState::Cancelled { .. } => vec![state],
    }
}

pub fn put_call(id: &str, call: &Call) -> Change {
    Change::PutCall { run: run(id), call: Box::new(call.clone()) }
}

/// A decision for always (or not) about a call of the tool, with an edited input.
pub fn confirm(id: &str, tool: &str, approved: bool, always: bool) -> Change {
    let decided = ApprovalDecision {
        by: alice(),
        at: at(2) + SignedDuration::from_nanos(1_999),
        approved,
        reason: Some("because".into()),
        always,
        how: None,
    };
    let mut call = call("c", scheduled());
    call.tool = tool.into();
    call.approval_decision = Some(decided.clone());
    call.edited = Some(json!({"z": 2, "a": tool}).into());
    let terms = (approved && always).then(|| Box::new(terms(Scope::TOOL, GrantedFor::Chat)));
    Change::Confirm { run: run(id), call: Box::new(call), decision: Box::new(decided), terms }
}

/// A request for the approval of a call of Alice's.
pub fn request(id: &str) -> ApprovalRequest {
    ApprovalRequest::new(ApprovalId::new(id), alice().into(), None, at(0))
}

/// The terms of a grant with an end.
pub fn terms(scope: &str, granted_for: GrantedFor) -> GrantTerms {
    let tools = [("t\u{0}".to_owned(), "what it is".to_owned())].into();
    let scope = Scope::new(scope, "a label", "what it covers");
    GrantTerms { scope, granted_for, until: Some(at(99)), tools }
}

/// The tool is no longer allowed for always.
pub fn end_grant(tool: &str) -> Change {
    Change::EndGrant { tool: tool.into(), scope: None, by: alice() }
}

/// A decision about a call, noted for ever.
pub fn audit(reason: &str) -> Change {
    let event = AuditEvent {
        action: AuditAction::Approved,
        principal: Some(alice()),
        groups: vec!["finance \u{0}".into(), "managers".into()],
        channel: Some(DecisionChannel::Words),
        address: Some(std::net::Ipv4Addr::LOCALHOST.into()),
        call: Some(ToolCallId::new("c")),
        approval: Some(ApprovalId::new("appr")),
        tool: "tool".into(),
        rule: Some(DecisionSource::Rule(3)),
        reason: Some(reason.into()),
        input_hash: Some(input_hash(&json!({"a": 1}).into())),
        shown_hash: Some(input_hash(&json!({"a": 2}).into())),
        outcome: Some(AuditOutcome::Counted),
        subject: None,
    };
    let entry = AuditEntry { owner: Some(alice()), chat: Some(chat("c")), run: Some(run("r")), event };
    Change::Audit(Box::new(entry))
}

pub fn summary(messages: usize, content: Value) -> SummaryRecord {
    SummaryRecord {
        messages,
        up_to: MessageId::new(format!("m{messages} \u{0}")),
        content,
        reason: "every".into(),
        model: "a \u{0} ü".into(),
        created_at: at(7),
    }
}

pub fn put_summary(messages: usize, content: Value) -> Change {
    Change::PutSummary(Box::new(summary(messages, content)))
}

/// A plan with these steps. Each depends on those before.
pub fn plan(goal: &str, steps: &[&str]) -> Plan {
    let step = |(index, id): (usize, &&str)| PlanStep {
        id: (*id).to_owned(),
        title: format!("{id} \u{0} \u{1f980}"),
        tool: (index == 0).then(|| "tool \u{0}".into()),
        depends_on: steps[..index].iter().map(|id| (*id).to_owned()).collect(),
        state: PlanStepState::Doing,
        note: (index == 0).then(|| "note \u{0}".into()),
        tool_call_id: (index == 0).then(|| ToolCallId::new("call \u{0}")),
    };
    let steps = steps.iter().enumerate().map(step).collect();
    Plan { goal: goal.to_owned(), state: PlanState::Accepted, steps }
}

pub fn put_plan(id: &str, plan: &Plan) -> Change {
    Change::PutPlan { run: run(id), plan: Box::new(plan.clone()) }
}

pub fn schedule_summary(second: i64) -> Change {
    Change::ScheduleSummary { due: Some(at(second)) }
}

/// The number of the owner's open runs that the instance does not own.
pub async fn runs_elsewhere(store: &dyn Store, owner: &Owner, instance: &str) -> usize {
    let wanted = WantedUsage { runs_elsewhere: Some(usize::MAX), ..WantedUsage::default() };
    store.usage(owner, &InstanceId::new(instance), wanted).await.unwrap().runs_elsewhere
}
