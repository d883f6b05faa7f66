//! What stands around a run, as the active run keeps it: a database, a log, pending calls, queues, running tools, a model that is listened to.
//!
//! Effects are performed in the order of the active run, and the process can end between any two of them. Then the run is taken up again from what
//! the database holds.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::LazyLock,
};

use super::{
    super::*,
    facts::Facts,
    lines::{Held, Lines, Place},
};
use fermata_protocol::ElicitationId;

/// The tools of the process; one of them may be missing in the next.
pub(super) const OWN: [&str; 5] = ["time", "note", "file", "again", "ledger"];
/// The tools of the page.
const POSTED: [&str; 2] = ["where", "color"];

/// All of them, and then without the first, the second and so on.
static TOOLBOXES: LazyLock<Vec<Toolbox>> =
    LazyLock::new(|| std::iter::once(None).chain(OWN.iter().copied().map(Some)).map(toolbox).collect());

/// A run, what the process holds for it, and what outlives the process.
pub(super) struct World {
    pub run: Run,
    pub scene: Scene,
    pub now: Timestamp,
    /// `None` while nobody drives the run.
    pub live: Option<Live>,
    /// Lines for resources, of all chats.
    pub lines: Rc<Lines>,
    /// Tools of drivers that are gone; they keep their locks until they have wound up.
    pub winding_up: Vec<Job>,
    /// Places and locks of other chats.
    pub strangers: Vec<Place>,
    pub strangers_locks: Vec<Held>,
    pub facts: Facts,
    pub fuse: Option<Fuse>,
    /// What steps that begin later go by.
    pub next: (Rules, Toolbox),
    saved: Option<Saved>,
    /// How many drivers there have been.
    driver: u32,
}

/// What dies with the driver.
#[derive(Default)]
pub(super) struct Live {
    /// What readers can read.
    pub log: Vec<(Position, UiChunk)>,
    staged: Vec<(Position, UiChunk)>,
    /// How much of the log is saved.
    saved: usize,
    pub pending_calls: BTreeSet<ToolCallId>,
    pub places: Vec<(ToolCallId, Place)>,
    locks: BTreeMap<ToolCallId, Held>,
    pub jobs: Vec<Job>,
    pub questions: BTreeMap<ElicitationId, ToolCallId>,
    pub listens: bool,
    /// Inputs that are being checked apart.
    pub checks: Vec<(ToolCallId, Check)>,
}

/// A tool that runs.
pub(super) struct Job {
    pub call: ToolCallId,
    _lock: Option<Held>,
}

/// Something ends after so many more effects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fuse {
    pub effects: usize,
    pub death: Death,
}

/// What ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Death {
    Process,
    /// Only the driver, because the database fails it.
    Driver,
}

/// What the database holds.
struct Saved {
    settings: RunSettings,
    state: RunState,
    calls: Vec<Call>,
    log: Vec<(Position, UiChunk)>,
    is_over: bool,
}

// === impl World ===

impl World {
    pub fn new() -> Self {
        let scene = Scene::new(toolbox_without(None));
        let next = (scene.rules.clone(), scene.toolbox.clone());
        let mut world = Self {
            run: Run::new(request(), Timestamp::UNIX_EPOCH),
            scene,
            now: Timestamp::UNIX_EPOCH,
            live: None,
            lines: Rc::default(),
            winding_up: Vec::new(),
            strangers: Vec::new(),
            strangers_locks: Vec::new(),
            facts: Facts::default(),
            fuse: None,
            next,
            saved: None,
            driver: 0,
        };
        world.take_up();
        world
    }

    pub fn is_over(&self) -> bool {
        self.saved.as_ref().is_some_and(|saved| saved.is_over)
    }

    /// Sees to it that somebody drives the run, unless it is over.
    pub fn take_up(&mut self) {
        while self.live.is_none() && !self.is_over() {
            self.driver += 1;
            self.goes_by_what_is_new();
            let Some(saved) = &self.saved else {
                self.live = Some(Live::default());
                self.run = Run::new(request(), self.now);
                self.apply(Event::Begun);
                continue;
            };
            let (saved, log) = saved.load();
            self.live = Some(Live { saved: log.len(), log, ..Live::default() });
            self.run = Run::restore(saved).unwrap();
            self.apply(Event::Resumed);
        }
    }

    /// Goes by the rules and tools that are there now.
    pub fn goes_by_what_is_new(&mut self) {
        (self.scene.rules, self.scene.toolbox) = self.next.clone();
    }

    /// Has the run decide what follows from an event.
    pub fn decide(&mut self, event: Event) -> Effects {
        let before = self.run.calls.clone();
        let effects = self.run.apply(event, &self.scene.context(self.now));
        for (index, call) in before.iter().enumerate() {
            let is_noted = effects.commit.calls.contains(&index);
            assert!(is_noted || *call == self.run.calls[index], "{call:?} has changed and is not saved");
        }
        effects
    }

    /// Has the run decide what follows from an event, and performs it.
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
            assert!(
                effects.after.park.is_empty() && effects.after.next == Next::Nothing,
                "after the end: {effects:?}"
            );
            return;
        }
        if let Err(death) = self.perform_until_death(effects) {
            return self.die(death);
        }
        self.check_saved();
        let facts = std::mem::take(&mut self.facts);
        facts.check(self);
        self.facts = facts;
    }

    /// Between the model's answers all that is not an output in part is saved.
    fn check_saved(&self) {
        let Some(saved) = self.saved.as_ref().filter(|saved| !saved.is_over) else { return };
        if self.run.state.phase != Phase::Streaming {
            let expected = RunState { position: saved.state.position, ..self.run.state.clone() };
            assert_eq!(saved.state, expected, "the state has changed and is not saved");
        }
    }

    fn perform_until_death(&mut self, mut effects: Effects) -> Result<(), Death> {
        self.check_inputs(&mut effects);
        self.stand_in_line(&mut effects);
        let live = self.live.as_mut().unwrap();
        live.staged.extend(effects.after.publish.iter().cloned());
        self.burn(true)?;
        if !effects.commit.is_empty() {
            self.save(&effects);
        }
        self.burn(false)?;
        let live = self.live.as_mut().unwrap();
        for call in &effects.after.release {
            assert!(live.pending_calls.remove(call), "{call} has no place to leave");
        }
        for call in &effects.after.park {
            assert!(live.pending_calls.insert(call.clone()), "{call} has a place");
        }
        self.burn(false)?;
        for call in &effects.after.execute {
            self.execute(call);
            self.burn(false)?;
        }
        self.publish();
        self.burn(false)?;
        for (id, _) in &effects.after.replies {
            let live = self.live.as_mut().unwrap();
            assert!(live.questions.remove(id).is_some(), "{id} was answered before");
            self.facts.question_is_done(id);
        }
        self.burn(false)?;
        if effects.after.next.ending().is_some() {
            self.facts.check_end(&self.run, &self.scene);
            self.live = None;
        } else if effects.after.next == Next::AskModel {
            self.goes_by_what_is_new();
            self.facts.check_prompt(&self.run, &self.scene);
            self.live.as_mut().unwrap().listens = true;
        }
        Ok(())
    }

    /// A database fails only when something is saved.
    fn burn(&mut self, is_save: bool) -> Result<(), Death> {
        let Some(Fuse { effects, death }) = &mut self.fuse else { return Ok(()) };
        if matches!(death, Death::Driver) && !is_save {
            return Ok(());
        }
        if *effects == 0 {
            let death = *death;
            self.fuse = None;
            return Err(death);
        }
        *effects -= 1;
        Ok(())
    }

    /// Drops what the process held, or only what the driver did.
    pub fn die(&mut self, death: Death) {
        let Some(live) = self.live.take() else { return };
        self.facts.reader.is_cut_off();
        match death {
            Death::Driver => self.winding_up.extend(live.jobs),
            Death::Process => {
                self.winding_up.clear();
                self.strangers.clear();
                self.strangers_locks.clear();
                drop(live);
                self.lines = Rc::default();
            }
        }
    }

    /// A run that was let go is forgotten until somebody comes; nothing may be lost by that.
    pub fn let_rest(&mut self) {
        let Some(live) = &self.live else { return };
        if self.run.is_detached() && !self.run.is_pinned() {
            assert!(live.jobs.is_empty() && live.places.is_empty() && !live.listens, "something is at work");
            let before = self.run.snapshot();
            self.die(Death::Driver);
            let saved = self.saved.as_ref().unwrap().load().0;
            assert_eq!(Run::restore(saved).unwrap().snapshot(), before);
        }
    }

    /// Some take but a moment.
    fn check_inputs(&mut self, effects: &mut Effects) {
        let context = self.scene.context(self.now);
        if u64::from(self.run.state.position).is_multiple_of(2) {
            return check_inputs(&mut self.run, &context, effects);
        }
        let live = self.live.as_mut().unwrap();
        live.checks.append(&mut effects.before.checks);
    }

    fn stand_in_line(&mut self, effects: &mut Effects) {
        let live = self.live.as_mut().unwrap();
        for (call, key) in std::mem::take(&mut effects.before.lock_requests) {
            let mut place = self.lines.queue(key);
            let Some(lock) = place.turn() else {
                live.places.push((call, place));
                continue;
            };
            live.locks.insert(call.clone(), lock);
            effects.append(self.run.apply(Event::LockGranted(call.clone()), &self.scene.context(self.now)));
            assert!(effects.after.execute.contains(&call), "{call} keeps a lock for nothing");
        }
    }

    fn save(&mut self, effects: &Effects) {
        let live = self.live.as_mut().unwrap();
        let state = self.run.state.clone();
        let saved = self.saved.get_or_insert_with(|| Saved {
            settings: self.run.settings.clone(),
            state: state.clone(),
            calls: Vec::new(),
            log: Vec::new(),
            is_over: false,
        });
        for &place in effects.commit.calls.iter().chain(&effects.commit.decisions) {
            let call = &self.run.calls[place];
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
        self.scene.grants.extend(effects.commit.grants.iter().cloned());
    }

    /// As the active run, which cannot run a tool that it does not have.
    fn execute(&mut self, call: &ToolCallId) {
        let live = self.live.as_mut().unwrap();
        let known = self.run.calls.iter().find(|known| known.id == *call).unwrap();
        self.facts.call_runs(known, &self.run, self.driver);
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
        assert!(live.locks.is_empty(), "a lock is kept for a call that does not run");
    }
}

// === impl Live ===

impl Live {
    /// A call's turn has come.
    pub fn lock(&mut self, call: &ToolCallId, lock: Held) {
        self.locks.insert(call.clone(), lock);
    }

    /// A call does not begin after all.
    pub fn unlock(&mut self, call: &ToolCallId) {
        self.locks.remove(call);
    }
}

// === impl Saved ===

impl Saved {
    /// As it comes out of the database.
    fn load(&self) -> (SavedRun, Vec<(Position, UiChunk)>) {
        let log: Vec<_> = self
            .log
            .iter()
            .map(|(seq, chunk)| (*seq, UiChunk::from_record(&chunk.to_record()).unwrap()))
            .collect();
        let run = SavedRun {
            id: RunId::new("r"),
            message: MessageId::new("m"),
            settings: serde_json::from_value(serde_json::to_value(&self.settings).unwrap()).unwrap(),
            state: serde_json::from_value(serde_json::to_value(&self.state).unwrap()).unwrap(),
            calls: serde_json::from_value(serde_json::to_value(&self.calls).unwrap()).unwrap(),
            log: log.clone(),
        };
        (run, log)
    }
}

fn request() -> RunRequest {
    run_request(POSTED.into_iter().map(posted).collect())
}

/// The tools without one of [`OWN`].
pub(super) fn toolbox_without(missing: Option<usize>) -> Toolbox {
    TOOLBOXES[missing.map_or(0, |missing| missing + 1)].clone()
}

fn toolbox(missing: Option<&str>) -> Toolbox {
    let is_asked = |name| if name == "note" { Decision::Ask } else { Decision::Allow };
    let own = OWN.into_iter().filter(|name| Some(*name) != missing);
    let own = own.map(|name| Arc::new(FakeTool(name, is_asked(name))) as Arc<dyn Tool>);
    let settle = |spec: &mut ToolSpec| {
        configure_spec(spec);
        if spec.name == "ledger" {
            spec.resource = Some(Resource::input("n"));
            spec.repeatable = true;
        }
    };
    let posted: Vec<_> = POSTED.into_iter().map(posted).collect();
    Toolbox::new(own, settle).0.with_saved_tools(&posted)
}
