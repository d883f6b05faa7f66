//! The surroundings of a run, as the active run has them: a database, a log, pending calls, queues, running tools, a model.
//!
//! Effects are performed in the order of the active run, and the process can end between any two of them. Then the run is resumed from the
//! database.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::LazyLock,
};

use super::{
    super::*,
    facts::{Facts, fold, pending_in},
    locks::{RecordedGuard, RecordedLocks, RecordedWaiter},
    moves::Beginning,
};
use crate::{
    consent::ConsentWords,
    memories::MemoryNote,
    ports::store::memories::MemoryId,
    post::{KnownMessages, Plan, Reply, plan},
    run_tools::{self, Offer},
};
use fermata_protocol::{Assembler, ChatBody, ElicitationId, MemoryKind, PostedMessage, Role};
use fermata_tools::{Fallback, Pattern, ResourceKey, ToolSettings};

/// The tools of the process; one of them may be missing in the next.
pub(super) const OWN: [&str; 5] = ["time", "note", "file", "again", "ledger"];
/// The tools of the page.
const POSTED: [&str; 2] = ["where", "color"];

/// The toolbox with all tools, then those without the first tool, without the second and so on.
static TOOLBOXES: LazyLock<Vec<Toolbox>> = LazyLock::new(|| {
    let missing = std::iter::once(None).chain(OWN.iter().copied().map(Some));
    missing.map(|missing| toolbox(missing, &FIRST_VERSIONS)).collect()
});

const FIRST_VERSIONS: [u32; OWN.len()] = [0; OWN.len()];

/// A run, the part of its surroundings that ends with the process, and the part that outlives it.
pub(super) struct World {
    pub run: Run,
    beginning: Beginning,
    pub scene: Scene,
    pub now: Timestamp,
    /// `None` while the run has no actor.
    pub live: Option<Live>,
    /// The locks of resources, which all chats share.
    pub locks: Rc<RecordedLocks>,
    /// Tools of former actors; they keep their locks until they have wound up.
    pub winding_up: Vec<Job>,
    /// The waiters and locks of other chats.
    pub other_waiters: Vec<RecordedWaiter>,
    pub other_locks: Vec<RecordedGuard>,
    pub facts: Facts,
    pub planned_failure: Option<PlannedFailure>,
    /// The rules of steps that begin later, and the tools as they are now.
    pub next: (Rules, Toolbox),
    /// The tool of [`OWN`] that is not there now.
    pub missing: Option<usize>,
    /// The number of times that each tool of [`OWN`] has changed.
    pub versions: [u32; OWN.len()],
    saved: Option<Saved>,
    /// The messages whose calls were decided about in words, as they are saved.
    pub earlier: Vec<UiMessage>,
    /// The message of the assistant as a page showed it when a person began to write.
    written: Option<PostedMessage>,
    /// The further changes in the commit that begins the next message.
    handover: Option<(Saved, UiMessage)>,
    /// The number of actors that the run has had.
    actor: u32,
    /// The number of searches for knowledge of the user.
    recollections: u32,
}

/// The part of the surroundings that ends with the actor.
#[derive(Default)]
pub(super) struct Live {
    /// The chunks that readers can read.
    pub log: Vec<(Position, UiChunk)>,
    staged: Vec<(Position, UiChunk)>,
    /// The number of saved chunks.
    saved: usize,
    pub pending_calls: BTreeSet<ToolCallId>,
    pub waiters: Vec<(ToolCallId, RecordedWaiter)>,
    pub locks: BTreeMap<ToolCallId, RecordedGuard>,
    /// The calls that wait until they may be one more that runs, the first one first.
    pub slot_waiters: Vec<ToolCallId>,
    pub jobs: Vec<Job>,
    pub questions: BTreeMap<ElicitationId, ToolCallId>,
    pub is_streaming: bool,
    /// `true` during a search for knowledge of the user.
    pub is_recollecting: bool,
    /// Inputs whose checks are not complete yet.
    pub checks: Vec<(ToolCallId, Check)>,
}

/// A tool that runs.
pub(super) struct Job {
    pub call: ToolCallId,
    _lock: Option<RecordedGuard>,
}

/// A failure after so many more effects.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedFailure {
    pub effects: usize,
    pub failure: Failure,
}

/// The kinds of failures.
#[derive(Clone, Copy, Debug)]
pub(super) enum Failure {
    Process,
    /// Only the actor ends, because the store fails.
    Store,
}

/// The rows of the database.
struct Saved {
    message: MessageId,
    settings: RunSettings,
    state: RunState,
    calls: Vec<Call>,
    log: Vec<(Position, UiChunk)>,
    is_over: bool,
}

// === impl World ===

impl World {
    pub fn new(beginning: Beginning) -> Self {
        let mut scene = Scene::new(with_tools_of_run(beginning.plan, TOOLBOXES[0].clone()));
        scene.rules.tools = fallbacks();
        scene.limits.running_calls = beginning.running_calls;
        let next = (scene.rules.clone(), scene.toolbox.clone());
        let mut world = Self {
            run: Run::new(request(&beginning)),
            beginning,
            scene,
            now: Timestamp::UNIX_EPOCH,
            live: None,
            locks: Rc::default(),
            winding_up: Vec::new(),
            other_waiters: Vec::new(),
            other_locks: Vec::new(),
            facts: Facts::default(),
            planned_failure: None,
            next,
            missing: None,
            versions: FIRST_VERSIONS,
            saved: None,
            earlier: Vec::new(),
            written: None,
            handover: None,
            actor: 0,
            recollections: 0,
        };
        world.activate();
        world
    }

    pub fn is_over(&self) -> bool {
        self.saved.as_ref().is_some_and(|saved| saved.is_over)
    }

    /// Starts an actor for the run, unless it has one or is over.
    pub fn activate(&mut self) {
        while self.live.is_none() && !self.is_over() {
            self.actor += 1;
            self.use_newest_rules();
            let Some(saved) = &self.saved else {
                self.live = Some(Live::default());
                self.run = Run::new(request(&self.beginning));
                self.apply(Event::Begun);
                continue;
            };
            let (saved, log) = saved.load();
            self.live = Some(Live { saved: log.len(), log, ..Live::default() });
            self.run = Run::restore(saved).unwrap();
            self.apply(Event::Resumed);
        }
    }

    /// Returns the tools of the run as they are now.
    pub fn newest_toolbox(&self) -> Toolbox {
        let tools = if self.versions == FIRST_VERSIONS {
            TOOLBOXES[self.missing.map_or(0, |missing| missing + 1)].clone()
        } else {
            toolbox(self.missing.map(|missing| OWN[missing]), &self.versions)
        };
        with_tools_of_run(self.beginning.plan, tools)
    }

    /// Uses each tool as it is now, as the active run does before each event.
    pub fn use_newest_tools(&mut self) {
        self.scene.toolbox = self.scene.toolbox.with_newer_tools_of(&self.next.1);
    }

    /// Returns the fingerprint of a tool as it is now, or as it was when it was there last.
    fn form_of(&self, tool: &str) -> Option<String> {
        let found = self.next.1.find(tool).or_else(|| self.scene.toolbox.find(tool))?;
        Some(found.fingerprint().to_owned())
    }

    /// Notes the content of a page where a person begins to write a message now.
    pub fn write_message(&mut self) {
        let Some(live) = &self.live else { return };
        let shown = fold(&live.log, &self.run).snapshot();
        self.written = Some(PostedMessage {
            id: Some(shown.id),
            role: Role::Assistant,
            metadata: None,
            parts: shown.parts,
        });
    }

    /// Posts the message that a person has written. It takes effect if it is an answer that the run waits for.
    pub fn send_message(&mut self, text: &str) {
        let (true, Some(written)) = (self.live.is_some(), self.written.clone()) else { return };
        let shown = written.shown_approvals();
        let mut body = ChatBody::parse(json!({ "message": { "role": "user", "content": text } })).unwrap();
        body.messages.insert(0, written);
        let context = self.scene.context(self.now);
        let known = KnownMessages { waiting: self.run.waiting(&context), ..KnownMessages::default() };
        if let Ok(Plan::Reply { reply, .. }) = plan(&body, &known, &ConsentWords::default(), context.ids) {
            self.facts.words_came(shown.into_iter().map(|approval| approval.id));
            self.continue_after(&reply);
        }
    }

    /// Has the run go on after a message of the user, as the active run does.
    fn continue_after(&mut self, reply: &Reply) {
        let by = self.scene.decider(DecisionChannel::Words);
        let (answers, said) = match reply {
            Reply::Decision { approved, shown } => {
                let decisions = self.run.decisions(*approved, &shown.iter().collect());
                self.use_newest_tools();
                let valid = self.run.validate(&decisions, &by, &self.scene.context(self.now)).unwrap();
                if !valid.overruled.is_empty() {
                    return self.apply(Event::ApprovalsOverruled(valid.overruled));
                }
                (valid.answers, if *approved { Said::Approved } else { Said::Denied })
            }
            Reply::Answer(message) => (self.run.replies(message, by), Said::Answered),
        };
        let live = self.live.as_mut().unwrap();
        for (index, _) in &answers.calls {
            assert!(live.pending_calls.remove(&self.run.calls[*index].id), "a call was not pending");
            self.facts.person_decides(&self.run.calls[*index], None);
        }
        let calls = self.saved.as_ref().unwrap().calls.clone();
        let next = self.run.continued(Continuation {
            id: RunId::new("r"),
            message: MessageId::new(format!("m{}", self.earlier.len() + 1)),
            profile: Profile::V6,
            hold: RunHold::For(Duration::from_secs(60)),
            show: self.run.state.show.clone(),
            now: self.now,
            said,
        });
        let answered = answers.elicitations.iter().map(|reply| reply.index).collect();
        let last = self.run.apply(Event::HandedOver(answered), &self.scene.context(self.now));
        assert!(last.commit.calls.is_empty() && last.commit.earlier.is_empty(), "{last:?}");
        let message = self.run.snapshot();
        assert!(pending_in(&message).is_empty(), "the questions go along");
        self.run = next;
        (live.log, live.saved) = (Vec::new(), 0);
        self.facts.reader = Default::default();
        let saved = Saved {
            message: self.run.message.clone(),
            settings: self.run.settings.clone(),
            state: self.run.state.clone(),
            calls,
            log: Vec::new(),
            is_over: false,
        };
        self.handover = Some((saved, message));
        self.apply(Event::Continued(answers));
        self.handover = None;
    }

    /// Finds the knowledge of the user, which is different each time.
    pub fn recollect(&mut self) {
        if !self.live.as_mut().is_some_and(|live| std::mem::take(&mut live.is_recollecting)) {
            return;
        }
        self.recollections += 1;
        let note = MemoryNote {
            id: MemoryId(format!("mem_{}", self.recollections)),
            kind: MemoryKind::Fact,
            text: "Likes tea.".into(),
            slot: None,
        };
        self.apply(Event::Recollected(Arc::new(Recollection { always: Vec::new(), recalled: vec![note] })));
    }

    /// Uses the newest rules and tools.
    pub fn use_newest_rules(&mut self) {
        (self.scene.rules, self.scene.toolbox) = self.next.clone();
    }

    /// Applies an event to the run. Every changed call has to be saved.
    pub fn decide(&mut self, event: Event) -> Effects {
        if !matches!(event, Event::Model(_)) {
            self.use_newest_tools();
        }
        let before: Vec<Call> = self.run.all_calls().cloned().collect();
        let source = source(&event);
        let effects = self.run.apply(event, &self.scene.context(self.now));
        for (index, call) in before.iter().enumerate() {
            let is_noted = effects.commit.calls.contains(&index);
            assert!(
                is_noted || *call == self.run.calls[index].call,
                "{call:?} has changed ({source}) and is not saved; change calls through `Deciding::call_mut`"
            );
        }
        effects
    }

    /// Applies an event to the run and performs the effects.
    pub fn apply(&mut self, event: Event) {
        let effects = self.decide(event);
        self.perform(effects);
    }

    /// Performs effects in the order of the active run.
    pub fn perform(&mut self, effects: Effects) {
        if self.live.is_none() {
            assert!(
                effects.after.publish.is_empty() && effects.after.execute.is_empty(),
                "after the end: {effects:?}"
            );
            assert_eq!(effects.after.next, Next::Nothing, "after the end: {effects:?}");
            return;
        }
        if let Err(failure) = self.perform_until_failure(effects) {
            return self.fail(failure);
        }
        // Everything but partial outputs is saved, unless the model streams.
        if let Some(saved) = self.saved.as_ref().filter(|saved| !saved.is_over)
            && self.run.state.phase != Phase::Streaming
        {
            let expected = RunState { position: saved.state.position, ..self.run.state.clone() };
            assert_eq!(saved.state, expected, "the state has changed and is not saved; see `Run::apply`");
        }
        let facts = std::mem::take(&mut self.facts);
        facts.check(self);
        self.facts = facts;
    }

    fn perform_until_failure(&mut self, mut effects: Effects) -> Result<(), Failure> {
        self.check_inputs(&mut effects);
        for call in self.run.calls.iter().filter(|call| self.run.is_made_by_run(call)) {
            self.facts.gates.entry(call.step).or_insert(self.scene.rules.gate);
        }
        self.admit(&mut effects);
        // A request that is saved is shown, even if the process ends in between.
        for (_, chunk) in &effects.after.publish {
            if let UiChunk::ToolApprovalRequest { approval_id, tool_name, .. } = chunk {
                self.facts.shown_forms.insert(approval_id.clone(), self.form_of(tool_name));
            }
        }
        // Every effect also has to be performed here.
        let AfterCommit { cancel, execute, publish, replies, next, may_retry: _, elicited: _ } =
            &effects.after;
        let live = self.live.as_mut().unwrap();
        live.staged.extend(publish.iter().cloned());
        self.check_failure(true)?;
        if !effects.commit.is_empty() {
            self.save(&effects);
        }
        self.check_failure(false)?;
        let live = self.live.as_mut().unwrap();
        for call in cancel {
            let asks = |asked: &Elicited| {
                asked.source != elicit::QuestionSource::Tool && self.run.calls[asked.asker].id == *call
            };
            match live.jobs.iter().position(|job| job.call == *call) {
                Some(job) => self.winding_up.push(live.jobs.remove(job)),
                // The run itself waits for the answer to its own question, so nothing else is at work for that call.
                None => assert!(self.run.elicited.iter().any(asks), "{call} does not run"),
            }
        }
        live.pending_calls.clear();
        for target in self.run.awaited() {
            match target {
                AnswerTarget::Call(id) => _ = live.pending_calls.insert(id),
                AnswerTarget::Elicitation(id) => {
                    let asked = self.run.elicited.iter().find(|asked| asked.id == id).unwrap();
                    if Run::is_own_question(asked) {
                        live.questions.insert(id, self.run.calls[asked.asker].id.clone());
                    }
                }
                AnswerTarget::Approval(_) => panic!("a call waits by its own id"),
            }
        }
        self.check_failure(false)?;
        for call in execute {
            self.execute(call);
            self.check_failure(false)?;
        }
        self.publish();
        self.check_failure(false)?;
        for (id, _) in replies {
            let live = self.live.as_mut().unwrap();
            assert!(live.questions.remove(id).is_some(), "{id} was answered before");
            self.facts.done.insert(id.clone());
        }
        self.check_failure(false)?;
        if next.ending().is_some() {
            self.facts.check_end(&self.run, &self.scene, &self.earlier, self.now);
            self.live = None;
        } else if *next == Next::AskModel {
            self.use_newest_rules();
            if self.run.state.recollection.is_none() {
                self.live.as_mut().unwrap().is_recollecting = true;
                return Ok(());
            }
            self.facts.check_recollection(&self.run);
            self.facts.check_prompt(&self.run, &self.scene, &self.earlier);
            self.facts.begins_step(&self.run, &self.scene);
            self.live.as_mut().unwrap().is_streaming = true;
        }
        Ok(())
    }

    /// Fails if it is time. The store fails only when something is saved.
    fn check_failure(&mut self, is_save: bool) -> Result<(), Failure> {
        let Some(PlannedFailure { effects, failure }) = &mut self.planned_failure else { return Ok(()) };
        if matches!(failure, Failure::Store) && !is_save {
            return Ok(());
        }
        if *effects == 0 {
            let failure = *failure;
            self.planned_failure = None;
            return Err(failure);
        }
        *effects -= 1;
        Ok(())
    }

    /// Drops the state of the process, or only that of the actor.
    pub fn fail(&mut self, failure: Failure) {
        let Some(live) = self.live.take() else { return };
        self.facts.reader.is_disconnected = true;
        match failure {
            Failure::Store => self.winding_up.extend(live.jobs),
            Failure::Process => {
                self.winding_up.clear();
                self.other_waiters.clear();
                self.other_locks.clear();
                drop(live);
                self.locks = Rc::default();
            }
        }
    }

    /// Unloads a run whose readers were detached; nothing may be lost by that.
    pub fn unload(&mut self) {
        let Some(live) = &self.live else { return };
        if self.run.is_detached() && !self.run.is_pinned() {
            assert!(
                live.jobs.is_empty()
                    && live.waiters.is_empty()
                    && live.slot_waiters.is_empty()
                    && !live.is_streaming,
                "something is at work"
            );
            let before = self.run.snapshot();
            self.fail(Failure::Store);
            let saved = self.saved.as_ref().unwrap().load().0;
            assert_eq!(Run::restore(saved).unwrap().snapshot(), before);
        }
    }

    /// Checks inputs at once, or leaves them for [`Move::Checks`](super::moves::Move::Checks).
    fn check_inputs(&mut self, effects: &mut Effects) {
        self.use_newest_tools();
        let context = self.scene.context(self.now);
        if u64::from(self.run.state.position).is_multiple_of(2) {
            return check_inputs(&mut self.run, &context, effects);
        }
        let live = self.live.as_mut().unwrap();
        live.checks.append(&mut effects.before.checks);
    }

    /// Returns whether one more call may run, besides these.
    pub fn has_slot(&self, begun: usize) -> bool {
        let running = self.live.as_ref().map_or(0, |live| live.jobs.len()) + self.winding_up.len() + begun;
        self.scene.limits.running_calls.is_none_or(|most| running < most.get())
    }

    /// Answers the calls that ask to be admitted, as the active run does.
    fn admit(&mut self, effects: &mut Effects) {
        let asked = std::mem::take(&mut effects.before.admissions);
        if !asked.is_empty() {
            let (mut admissions, mut begun) = (Vec::new(), effects.after.execute.len());
            for (call, key) in asked {
                let admission = self.admit_call(&call, key, begun);
                begun += usize::from(matches!(admission, Admission::Granted));
                admissions.push((call, admission));
            }
            effects.append(self.run.apply(Event::Admission(admissions), &self.scene.context(self.now)));
        }
        let (run, execute) = (&self.run, &effects.after.execute);
        let live = self.live.as_mut().unwrap();
        let waits = |call: &ToolCallId| run.wait_of(call) == Some(&Wait::Capacity);
        live.locks.retain(|call, _| execute.contains(call) || waits(call));
        live.slot_waiters.retain(waits);
    }

    fn admit_call(&mut self, call: &ToolCallId, key: Option<ResourceKey>, begun: usize) -> Admission {
        if let Some(key) = key {
            let mut waiter = self.locks.enqueue(key);
            let live = self.live.as_mut().unwrap();
            let Some(lock) = waiter.try_acquire() else {
                live.waiters.push((call.clone(), waiter));
                return Admission::Queued(Wait::Resource);
            };
            live.locks.insert(call.clone(), lock);
        }
        self.admit_locked(call, begun)
    }

    /// Lets a call that has its lock be one more that runs, besides these that begin now, or has it wait for that.
    pub fn admit_locked(&mut self, call: &ToolCallId, begun: usize) -> Admission {
        if self.has_slot(begun) {
            return Admission::Granted;
        }
        self.live.as_mut().unwrap().slot_waiters.push(call.clone());
        Admission::Queued(Wait::Capacity)
    }

    fn save(&mut self, effects: &Effects) {
        let live = self.live.as_mut().unwrap();
        let state = self.run.state.clone();
        if let Some((saved, message)) = self.handover.take() {
            self.saved = Some(saved);
            self.earlier.push(message);
        }
        if !effects.commit.earlier.is_empty() {
            let id = &self.run.state.earlier.as_ref().unwrap().id;
            let earlier = self.earlier.iter_mut().find(|message| message.id == *id).unwrap();
            let mut assembler = Assembler::from_message(earlier.clone());
            for chunk in &effects.commit.earlier {
                assembler.apply(chunk).unwrap();
            }
            *earlier = assembler.snapshot();
        }
        let saved = self.saved.get_or_insert_with(|| Saved {
            message: self.run.message.clone(),
            settings: self.run.settings.clone(),
            state: state.clone(),
            calls: Vec::new(),
            log: Vec::new(),
            is_over: false,
        });
        let decided = effects.commit.decisions.iter().map(|decided| &decided.call);
        for &index in effects.commit.calls.iter().chain(decided) {
            let call = &self.run.calls[index].call;
            self.facts.call_is_saved(call);
            match saved.calls.iter_mut().find(|known| known.id == call.id) {
                Some(known) => known.clone_from(call),
                None => saved.calls.push(call.clone()),
            }
        }
        if effects.after.next.ending().is_some() {
            saved.is_over = true;
        } else if effects.commit.run {
            saved.state = state;
            let unsaved: Vec<_> = live.log[live.saved..].iter().chain(&live.staged).cloned().collect();
            assert!(
                unsaved.windows(2).all(|pair| pair[0].0.next() == pair[1].0),
                "a gap within what is saved"
            );
            saved.log.extend(unsaved);
            live.saved = live.log.len() + live.staged.len();
        }
        for (_, grant) in &effects.commit.grants {
            self.scene.grants.add(grant.clone());
        }
        self.facts.audit.extend(effects.commit.audit.iter().cloned());
        self.facts.check_audit(&self.run);
    }

    /// Executes a call as the active run does, which cannot run a tool that it does not have.
    fn execute(&mut self, call: &ToolCallId) {
        let known = self.run.calls.iter().find(|known| known.id == *call).unwrap();
        let form = self.form_of(&known.tool);
        self.facts.call_runs(known, &self.run, &self.scene.grants, form, self.actor);
        let live = self.live.as_mut().unwrap();
        if self.scene.toolbox.find(&known.tool).and_then(|found| found.tool()).is_some() {
            live.jobs.push(Job { call: call.clone(), _lock: live.locks.remove(call) });
        }
    }

    fn publish(&mut self) {
        let live = self.live.as_mut().unwrap();
        let calls = self.saved.as_ref().map_or(&[][..], |saved| &saved.calls);
        self.facts.check_shown(&live.staged, calls);
        self.facts.reader.reads(&live.staged);
        live.log.append(&mut live.staged);
        assert!(
            live.locks.keys().all(|call| self.run.wait_of(call) == Some(&Wait::Capacity)),
            "a lock is kept for a call that does not run"
        );
    }
}

// === impl Saved ===

impl Saved {
    /// Returns the run and its log as they are read from the database.
    fn load(&self) -> (SavedRun, Vec<(Position, UiChunk)>) {
        let log: Vec<_> = self
            .log
            .iter()
            .map(|(seq, chunk)| (*seq, UiChunk::from_record(&chunk.to_record()).unwrap()))
            .collect();
        let run = SavedRun {
            id: RunId::new("r"),
            message: self.message.clone(),
            settings: serde_json::from_value(serde_json::to_value(&self.settings).unwrap()).unwrap(),
            state: serde_json::from_value(serde_json::to_value(&self.state).unwrap()).unwrap(),
            calls: serde_json::from_value(serde_json::to_value(&self.calls).unwrap()).unwrap(),
            log: log.clone(),
        };
        (run, log)
    }
}

/// Returns where the schedules make an event happen. A new event does not compile until it is here.
fn source(event: &Event) -> &'static str {
    match event {
        Event::Begun | Event::Resumed => "`World` resumes the run",
        Event::Recollected(_)
        | Event::Model(_)
        | Event::ModelFailed(_)
        | Event::InputsChecked(_)
        | Event::Reported(_)
        | Event::CallCancelled(_)
        | Event::Withdrawn(_)
        | Event::Followed { .. }
        | Event::ToolsChanged
        | Event::Superseded(_)
        | Event::Ended(_) => "a move",
        Event::Answered(..)
        | Event::Settled(..)
        | Event::Elicits(..)
        | Event::Admission(_)
        | Event::ApprovalsOverruled(_) => "an action",
        Event::QuestionTimedOut | Event::ToolsTimedOut | Event::HoldEnded => "a deadline, in `moves`",
        Event::Retries(_) => "in no schedule; `tests/newest_rules.rs` has it",
        Event::HandedOver(_) | Event::Continued(_) => "`World` posts a message",
        Event::Compacts(_) => "in no schedule; `tests/chats/summaries.rs` has it",
        Event::PartsRefused(_) => "in no schedule; `tests/chats/refused.rs` has it",
        Event::InputEdited { .. } | Event::EditingTimedOut => {
            "in no schedule; `tests/chats/answers.rs` has it"
        }
        Event::RequestQueued(_) => "in no schedule; `tests/chats/capacity.rs` has it",
        Event::RulesChanged | Event::ApprovalsDue => "in no schedule; `tests/votes.rs` has it",
        Event::GivenUp => "in no schedule; `tests/chats/attempts.rs` has it",
    }
}

/// The tools that are called in place of others: one that is asked about, one whose call may be denied, and one that may be missing.
fn fallbacks() -> Vec<(Pattern, ToolSettings)> {
    let fallbacks =
        [("time", "note", None), ("again", "file", Some(json!({"n": 10}))), ("file", "ledger", None)];
    let settings = |(tool, fallback, input): (&str, &str, Option<Value>)| {
        let fallback = Some(Fallback { tool: fallback.into(), input });
        (Pattern::new(tool), ToolSettings { fallback, ..ToolSettings::default() })
    };
    fallbacks.map(settings).to_vec()
}

fn request(beginning: &Beginning) -> RunRequest {
    let mut request = run_request(POSTED.into_iter().map(posted).collect());
    request.show = [Show::Call, Show::Memory, Show::Plan, Show::Run].into();
    (request.settings.plan, request.settings.wants_plan) = (beginning.plan, beginning.wants_plan);
    request.settings.retries = beginning.retries.clone();
    request.settings.remembers = true;
    request.settings.tool_choice = beginning.chosen.map(|tool| ToolChoice::Tool(tool.to_owned()));
    request
}

/// Returns the tools, with those of the run.
fn with_tools_of_run(mode: PlanMode, toolbox: Toolbox) -> Toolbox {
    toolbox.with_tools_of_run(run_tools::specs(&Offer { plan: mode, asks_user: true, posted: &[] }))
}

fn toolbox(missing: Option<&str>, versions: &[u32; OWN.len()]) -> Toolbox {
    let is_asked = |name| if name == "note" { Decision::Ask } else { Decision::Allow };
    let own = OWN.into_iter().filter(|name| Some(*name) != missing);
    let own = own.map(|name| Arc::new(FakeTool(name, is_asked(name))) as Arc<dyn Tool>);
    let settle = |spec: &mut ToolSpec| {
        configure_spec(spec);
        let version = OWN.iter().zip(versions).find(|(name, _)| **name == spec.name);
        spec.description = format!("Version {}.", version.map_or(0, |(_, version)| *version));
        if spec.name == "ledger" {
            spec.resource = Some(Resource::input("n"));
            spec.repeatable = true;
        }
    };
    let posted: Vec<_> = POSTED.into_iter().map(posted).collect();
    Toolbox::new(own, settle).0.with_saved_tools(&posted)
}
