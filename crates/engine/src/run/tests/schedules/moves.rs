//! What may happen to a run, and how it happens.

use fermata_tools::{ChainMode, ErrorPolicy, ErrorStrategy, ErrorType, NamedBy, ResourceKey};
use proptest::prelude::*;

use super::{
    super::*,
    world::{Death, Fuse, OWN, World, toolbox_without},
};

/// Something that may happen.
#[derive(Clone, Debug)]
pub(super) enum Move {
    Speaks {
        aloud: bool,
    },
    BeginsCall {
        tool: usize,
        input: usize,
    },
    /// Calls, and the end of the step.
    Calls(Vec<(usize, usize)>),
    EndsStep,
    /// The provider cuts the step off.
    CutsStepOff,
    /// The inputs of the step are checked.
    Checks,
    ModelFails,
    Answers {
        index: usize,
        how: usize,
        by_question: bool,
    },
    AnswersAll {
        approved: bool,
    },
    AnswersQuestion {
        index: usize,
        how: usize,
    },
    Settles {
        index: usize,
        how: usize,
    },
    Reports {
        index: usize,
    },
    Asks {
        index: usize,
    },
    Withdraws {
        index: usize,
    },
    TurnComes,
    MissesTurn {
        index: usize,
    },
    StrangerComes {
        n: u8,
    },
    StrangerGoes {
        index: usize,
    },
    WindsUp {
        index: usize,
    },
    Passes {
        seconds: i64,
    },
    FollowsOn {
        profile: Profile,
    },
    ReaderComesBack,
    RulesChange {
        gate: GateMode,
        chain: ChainMode,
        severe: bool,
        missing: Option<usize>,
    },
    Dies(Death),
    WillDie(Fuse),
    IsStopped,
    IsSuperseded,
}

const TOOLS: [&str; 8] = ["time", "note", "file", "again", "ledger", "where", "color", "nothing"];
const INPUTS: [&str; 6] = ["{}", r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":10}"#, r#"{"n":"x"}"#, "{\"n\":"];

pub(super) fn moves() -> impl Strategy<Value = Move> {
    let (call, index) = ((0..TOOLS.len(), 0..INPUTS.len() + 6), 0..4usize);
    // Most inputs are good ones.
    let call = call.prop_map(|(tool, input)| (tool, if input < INPUTS.len() { input } else { input % 3 }));
    let death = prop_oneof![2 => Just(Death::Process), 1 => Just(Death::Driver)];
    let gate = prop_oneof![Just(GateMode::Step), Just(GateMode::Progressive)];
    let chain = prop_oneof![3 => Just(ChainMode::Free), 1 => Just(ChainMode::Ask)];
    let seconds = prop_oneof![6 => Just(1i64), 3 => Just(61), 1 => Just(3601)];
    let profile = prop_oneof![Just(Profile::V5), Just(Profile::V6), Just(Profile::V7)];
    let missing = prop_oneof![3 => Just(None), 1 => (0..OWN.len()).prop_map(Some)];
    prop_oneof![
        4 => any::<bool>().prop_map(|aloud| Move::Speaks { aloud }),
        4 => call.clone().prop_map(|(tool, input)| Move::BeginsCall { tool, input }),
        20 => prop::collection::vec(call, 1..6).prop_map(Move::Calls),
        4 => Just(Move::EndsStep),
        1 => Just(Move::CutsStepOff),
        12 => Just(Move::Checks),
        1 => Just(Move::ModelFails),
        20 => (index.clone(), 0..7usize, any::<bool>())
            .prop_map(|(index, how, by_question)| Move::Answers { index, how, by_question }),
        6 => any::<bool>().prop_map(|approved| Move::AnswersAll { approved }),
        8 => (index.clone(), 0..5usize).prop_map(|(index, how)| Move::AnswersQuestion { index, how }),
        18 => (index.clone(), 0..2 * ErrorType::ALL.len()).prop_map(|(index, how)| Move::Settles { index, how }),
        6 => index.clone().prop_map(|index| Move::Reports { index }),
        6 => index.clone().prop_map(|index| Move::Asks { index }),
        3 => index.clone().prop_map(|index| Move::Withdraws { index }),
        12 => Just(Move::TurnComes),
        2 => index.clone().prop_map(|index| Move::MissesTurn { index }),
        3 => (1..3u8).prop_map(|n| Move::StrangerComes { n }),
        4 => index.clone().prop_map(|index| Move::StrangerGoes { index }),
        3 => index.prop_map(|index| Move::WindsUp { index }),
        8 => seconds.prop_map(|seconds| Move::Passes { seconds }),
        3 => profile.prop_map(|profile| Move::FollowsOn { profile }),
        4 => Just(Move::ReaderComesBack),
        5 => (gate, chain, prop::bool::weighted(0.2), missing)
            .prop_map(|(gate, chain, severe, missing)| Move::RulesChange { gate, chain, severe, missing }),
        6 => death.clone().prop_map(Move::Dies),
        8 => (0..12usize, death).prop_map(|(effects, death)| Move::WillDie(Fuse { effects, death })),
        1 => Just(Move::IsStopped),
        1 => Just(Move::IsSuperseded),
    ]
}

impl World {
    pub fn happens(&mut self, what: Move) {
        self.take_up();
        self.does(what);
        self.look_for_tools();
        self.let_rest();
    }

    fn does(&mut self, what: Move) {
        match what {
            Move::Speaks { aloud: true } => self.receive(vec![ModelEvent::Text("hm".into())]),
            Move::Speaks { aloud: false } => self.receive(vec![ModelEvent::Reasoning("hm".into())]),
            Move::BeginsCall { tool, input } => self.receive(call(7, (tool, input)).to_vec()),
            Move::Calls(calls) => {
                let calls = calls.into_iter().enumerate().flat_map(|(key, asked)| call(key, asked));
                self.receive(calls.chain([finished()]).collect());
            }
            Move::EndsStep => self.receive(vec![finished()]),
            Move::CutsStepOff => {
                self.receive(vec![ModelEvent::Finished { reason: FinishReason::ContentFilter, usage: None }]);
            }
            Move::Checks => self.checks(),
            Move::ModelFails if self.listens() => self.apply(Event::ModelFailed(ModelError::Timeout)),
            Move::ModelFails => {}
            Move::Answers { index, how, by_question } => self.answer_call(index, how, by_question),
            Move::AnswersAll { approved } => self.answer_all(approved),
            Move::AnswersQuestion { index, how } => self.answer_question(index, how),
            Move::Settles { index, how } => self.settle(index, how),
            Move::Reports { index } => {
                let Some(call) = self.job(index) else { return };
                self.apply(Event::Reported(vec![(call, json!({"done": 1}))]));
            }
            Move::Asks { index } => self.ask(index),
            Move::Withdraws { index } => {
                let asked = self.run.elicited.iter().rev().nth(index).map(|elicited| elicited.id.clone());
                let Some(id) = asked else { return };
                self.apply(Event::Withdrawn(id));
            }
            Move::TurnComes => {
                self.lines_move();
            }
            Move::MissesTurn { index } => {
                let Some(live) = self.live.as_mut().filter(|live| index < live.places.len()) else { return };
                let (call, _) = live.places.remove(index);
                self.apply(Event::LockTimedOut(call, ToolError::new(ErrorType::Timeout, "others use it")));
            }
            Move::StrangerComes { n } => {
                let place = self.lines.queue(ResourceKey {
                    named_by: NamedBy::Settings,
                    name: n.to_string(),
                    owner: None,
                });
                self.strangers.push(place);
                self.strangers_move();
            }
            Move::StrangerGoes { index } if index < self.strangers_locks.len() => {
                self.strangers_locks.remove(index);
            }
            Move::StrangerGoes { .. } => {
                self.strangers.pop();
            }
            Move::WindsUp { index } if index < self.winding_up.len() => {
                self.winding_up.remove(index);
            }
            Move::WindsUp { .. } => {}
            Move::Passes { seconds } => {
                self.now += SignedDuration::from_secs(seconds);
                self.keep_time();
            }
            Move::FollowsOn { profile } if self.live.is_some() => {
                self.apply(Event::Followed { profile, hold: Duration::from_secs(60) });
            }
            Move::FollowsOn { .. } => {}
            Move::ReaderComesBack => self.reader_comes_back(),
            Move::RulesChange { gate, chain, severe, missing } => {
                let error_policy = if severe {
                    ErrorPolicy::default().with(ErrorType::Network, ErrorStrategy::FailRun)
                } else {
                    ErrorPolicy::default()
                };
                let rules = Rules { gate, chain, error_policy, ..self.scene.rules.clone() };
                self.next = (rules, toolbox_without(missing));
            }
            Move::Dies(death) => self.die(death),
            Move::WillDie(fuse) => self.fuse = Some(fuse),
            Move::IsStopped => self.ends(Ending::Stopped),
            Move::IsSuperseded => self.is_superseded(),
        }
    }

    /// What was to be checked apart has been.
    fn checks(&mut self) {
        let Some(live) = &mut self.live else { return };
        let checks = std::mem::take(&mut live.checks);
        let results = checks.iter().map(|(call, check)| (call.clone(), CHECKER.check_here(check))).collect();
        self.apply(Event::InputsChecked(results));
    }

    fn listens(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.listens)
    }

    pub fn receive(&mut self, events: Vec<ModelEvent>) {
        if !self.listens() {
            return;
        }
        if events.iter().any(|event| matches!(event, ModelEvent::Finished { .. })) {
            self.facts.gates.insert(self.run.state.step, self.scene.rules.gate);
        }
        let heard = self.decide(Event::Model(events));
        if let Some(live) = &mut self.live {
            live.listens = self.run.state.phase == Phase::Streaming
                && heard.after.next != Next::AskModel
                && !self.run.is_checking();
        }
        self.perform(heard);
    }

    pub fn ends(&mut self, ending: Ending) {
        self.apply(Event::Ended(ending));
    }

    fn is_superseded(&mut self) {
        let outputs: Vec<_> =
            self.run.pending().map(|call| output(call.id.as_str(), json!(5))).take(1).collect();
        if self.live.is_some() {
            self.apply(Event::Superseded(outputs));
        }
    }

    /// As the active run does after every event.
    fn keep_time(&mut self) {
        if self.live.is_none() {
            return;
        }
        if self.run.first_question_ends().is_some_and(|ends| ends <= self.now) {
            self.apply(Event::QuestionTimedOut);
        } else if self.run.is_expired(self.now) {
            self.ends(Ending::Expired);
        } else if self.tools_are_missed() {
            self.apply(Event::ToolsTimedOut);
        } else if self.run.hold_ends().is_some_and(|ends| ends <= self.now) {
            self.apply(Event::HoldEnded);
        }
    }

    fn tools_are_missed(&self) -> bool {
        let limit = self.scene.limits.tool_timeout;
        self.run.tool_wait_ends(limit).is_some_and(|missed| missed <= self.now)
    }

    /// As the active run does before it waits.
    fn look_for_tools(&mut self) {
        if self.live.is_some() && self.run.waits_for_tools() {
            self.goes_by_what_is_new();
            self.apply(Event::ToolsChanged);
        }
    }

    fn reader_comes_back(&mut self) {
        if let Some(live) = &self.live {
            self.facts.reader.comes_back(&live.log);
            self.facts.check_log(&live.log);
        }
    }

    /// Everybody does what is theirs to do, until the run is over.
    pub fn settles_down(&mut self) {
        self.fuse = None;
        for _ in 0..200 {
            self.take_up();
            if self.is_over() {
                return;
            }
            self.look_for_tools();
            if self.live.is_none() {
                continue;
            }
            self.reader_comes_back();
            self.winding_up.clear();
            self.strangers.clear();
            self.strangers_locks.clear();
            if self.run.is_checking() {
                self.checks();
            } else if self.listens() {
                self.receive(vec![finished()]);
            } else if self.run.elicitations().next().is_some() {
                let place = self
                    .run
                    .elicited
                    .iter()
                    .rev()
                    .position(|asked| asked.state == elicit::ElicitState::Pending);
                self.answer_question(place.unwrap(), 0);
            } else if self.job(0).is_some() {
                self.settle(0, usize::MAX);
            } else if self.run.pending().next().is_some() {
                self.answer_all(true);
            } else if !self.lines_move() {
                assert!(self.run.waits_for_tools(), "nobody can do anything: {:?}", self.run.calls);
                self.now += SignedDuration::try_from(self.scene.limits.tool_timeout).unwrap();
                self.keep_time();
            }
        }
        panic!("the run does not end: {:?}", self.run.calls);
    }
}

fn call(key: usize, (tool, input): (usize, usize)) -> [ModelEvent; 2] {
    [
        ModelEvent::CallStart { key, tool: TOOLS[tool].into() },
        ModelEvent::CallDelta { key, arguments: INPUTS[input].into() },
    ]
}
