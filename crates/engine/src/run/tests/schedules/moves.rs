//! The moves of a schedule, and how each is performed.

use std::num::NonZeroUsize;

use crate::run_tools::{
    plan::{MAKE_PLAN, UPDATE_PLAN},
    questions::ASK_USER,
};
use fermata_tools::{ChainMode, ErrorPolicy, ErrorStrategy, ErrorType, NamedBy, ResourceKey};
use proptest::prelude::*;

use super::{
    super::*,
    world::{Failure, OWN, PlannedFailure, World},
};

/// A move of a schedule.
#[derive(Clone, Debug)]
pub(super) enum Move {
    Streams {
        reasoning: bool,
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
    /// The knowledge of the user is found.
    Recollects,
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
    /// A person begins to write a message, and looks at a page.
    WritesMessage,
    /// The person sends the message.
    SendsMessage {
        text: &'static str,
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
    /// A person cancels a call.
    CancelsCall {
        index: usize,
    },
    Asks {
        index: usize,
    },
    Withdraws {
        index: usize,
    },
    LockIsGranted,
    LockTimesOut {
        index: usize,
    },
    OtherChatQueues {
        n: u8,
    },
    OtherChatReleases {
        index: usize,
    },
    WindsUp {
        index: usize,
    },
    TimePasses {
        seconds: i64,
    },
    Follows {
        profile: Profile,
    },
    ReaderReconnects,
    RulesChange {
        gate: GateMode,
        chain: ChainMode,
        severe: bool,
        missing: Option<usize>,
    },
    /// A tool changes.
    ToolChanges {
        tool: usize,
    },
    Fails(Failure),
    WillFail(PlannedFailure),
    IsStopped,
    IsSuperseded,
}

const TOOLS: [&str; 11] = [
    "time",
    "note",
    "file",
    "again",
    "ledger",
    "where",
    "color",
    "nothing",
    MAKE_PLAN,
    UPDATE_PLAN,
    ASK_USER,
];
/// The tools that a user may choose, which are the first ones.
const CHOOSABLE: usize = 7;
const INPUTS: [&str; 6] = ["{}", r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":10}"#, r#"{"n":"x"}"#, "{\"n\":"];
/// Inputs of the tools for plans. The last two plans cannot be used.
const PLANS: [&str; 3] = [
    r#"{"goal":"g","steps":[{"id":"s1","title":"One","tool":"time"},{"id":"s2","title":"Two","dependsOn":["s1"]}]}"#,
    r#"{"goal":"g","steps":[{"id":"s1","title":"One","dependsOn":["s1"]}]}"#,
    r#"{"goal":"g","steps":[]}"#,
];
const UPDATES: [&str; 3] =
    [r#"{"id":"s1","state":"done"}"#, r#"{"id":"s2","state":"done"}"#, r#"{"id":"s2","state":"skipped"}"#];

/// Inputs of the tool for questions. The last one asks nothing.
const QUESTIONS: [&str; 3] = [
    r#"{"questions":[{"id":"size","question":"Which size?","choices":["S","M"],"guess":"M"}]}"#,
    r#"{"questions":[{"id":"size","question":"Which size?","guess":"M"},{"id":"color","question":"Which color?","guess":"red"}]}"#,
    r#"{"questions":[]}"#,
];
/// Messages of a person.
const MESSAGES: [&str; 3] = ["yes", "no", "the blue one"];

/// The beginning of a run.
#[derive(Clone, Debug)]
pub(super) struct Beginning {
    /// The tool that the user has chosen for the message.
    pub chosen: Option<&'static str>,
    pub plan: PlanMode,
    /// `true` if the words of the user ask for a plan.
    pub wants_plan: bool,
    /// The call that a person makes again.
    pub retries: Option<RetriedCall>,
    /// The number of calls that may run at a time, if it is limited.
    pub running_calls: Option<NonZeroUsize>,
}

pub(super) fn beginning() -> impl Strategy<Value = Beginning> {
    let chosen = prop::sample::select(&TOOLS[..CHOOSABLE]).prop_map(Some);
    let plan = prop_oneof![2 => Just(PlanMode::Off), 1 => Just(PlanMode::Auto), 1 => Just(PlanMode::Ask)];
    // A tool that does not exist any more, and an input that does not fit any more, are among them.
    let retried = (0..8usize, 0..5usize, any::<bool>()).prop_map(|(tool, input, had_begun)| RetriedCall {
        id: ToolCallId::new("call_again"),
        of: ToolCallId::new("call_failed"),
        had_begun,
        tool: TOOLS[tool].into(),
        input: serde_json::from_str(INPUTS[input]).unwrap(),
    });
    let plain = Beginning {
        chosen: None,
        plan: PlanMode::Off,
        wants_plan: false,
        retries: None,
        running_calls: None,
    };
    let (of_model, planned) = (plain.clone(), plain.clone());
    let beginning = prop_oneof![
        3 => chosen.prop_map(move |chosen| Beginning { chosen, ..plain.clone() }),
        2 => retried.prop_map(move |retried| Beginning { retries: Some(retried), ..of_model.clone() }),
        9 => (plan, any::<bool>()).prop_map(move |(plan, wants_plan)| Beginning { plan, wants_plan, ..planned.clone() }),
    ];
    let running_calls = prop_oneof![3 => Just(0usize), 1 => Just(1), 1 => Just(2)];
    (beginning, running_calls).prop_map(|(beginning, running_calls)| Beginning {
        running_calls: NonZeroUsize::new(running_calls),
        ..beginning
    })
}

pub(super) fn moves() -> impl Strategy<Value = Move> {
    let (call, index) = ((0..TOOLS.len(), 0..INPUTS.len() + 6), 0..4usize);
    // Most inputs are valid.
    let call = call.prop_map(|(tool, input)| (tool, if input < INPUTS.len() { input } else { input % 3 }));
    let failure = prop_oneof![2 => Just(Failure::Process), 1 => Just(Failure::Store)];
    let gate = prop_oneof![Just(GateMode::Step), Just(GateMode::Progressive)];
    let chain = prop_oneof![3 => Just(ChainMode::Free), 1 => Just(ChainMode::Ask), 1 => Just(ChainMode::One)];
    let seconds = prop_oneof![6 => Just(1i64), 3 => Just(61), 1 => Just(3601)];
    let profile = prop_oneof![Just(Profile::V5), Just(Profile::V6), Just(Profile::V7)];
    let missing = prop_oneof![3 => Just(None), 1 => (0..OWN.len()).prop_map(Some)];
    prop_oneof![
        4 => any::<bool>().prop_map(|reasoning| Move::Streams { reasoning }),
        4 => call.clone().prop_map(|(tool, input)| Move::BeginsCall { tool, input }),
        20 => prop::collection::vec(call, 1..6).prop_map(Move::Calls),
        4 => Just(Move::EndsStep),
        1 => Just(Move::CutsStepOff),
        12 => Just(Move::Checks),
        12 => Just(Move::Recollects),
        1 => Just(Move::ModelFails),
        20 => (index.clone(), 0..10usize, any::<bool>())
            .prop_map(|(index, how, by_question)| Move::Answers { index, how, by_question }),
        6 => any::<bool>().prop_map(|approved| Move::AnswersAll { approved }),
        10 => Just(Move::WritesMessage),
        14 => prop::sample::select(MESSAGES.to_vec()).prop_map(|text| Move::SendsMessage { text }),
        8 => (index.clone(), 0..5usize).prop_map(|(index, how)| Move::AnswersQuestion { index, how }),
        18 => (index.clone(), 0..2 * ErrorType::ALL.len()).prop_map(|(index, how)| Move::Settles { index, how }),
        6 => index.clone().prop_map(|index| Move::Reports { index }),
        4 => index.clone().prop_map(|index| Move::CancelsCall { index }),
        6 => index.clone().prop_map(|index| Move::Asks { index }),
        3 => index.clone().prop_map(|index| Move::Withdraws { index }),
        12 => Just(Move::LockIsGranted),
        2 => index.clone().prop_map(|index| Move::LockTimesOut { index }),
        3 => (1..3u8).prop_map(|n| Move::OtherChatQueues { n }),
        4 => index.clone().prop_map(|index| Move::OtherChatReleases { index }),
        3 => index.prop_map(|index| Move::WindsUp { index }),
        8 => seconds.prop_map(|seconds| Move::TimePasses { seconds }),
        3 => profile.prop_map(|profile| Move::Follows { profile }),
        4 => Just(Move::ReaderReconnects),
        5 => (gate, chain, prop::bool::weighted(0.2), missing)
            .prop_map(|(gate, chain, severe, missing)| Move::RulesChange { gate, chain, severe, missing }),
        6 => (0..OWN.len()).prop_map(|tool| Move::ToolChanges { tool }),
        6 => failure.clone().prop_map(Move::Fails),
        8 => (0..12usize, failure).prop_map(|(effects, failure)| Move::WillFail(PlannedFailure { effects, failure })),
        1 => Just(Move::IsStopped),
        1 => Just(Move::IsSuperseded),
    ]
}

impl World {
    pub fn make_move(&mut self, what: Move) {
        self.activate();
        self.apply_move(what);
        self.look_for_tools();
        self.unload();
    }

    fn apply_move(&mut self, what: Move) {
        match what {
            Move::Streams { reasoning: false } => self.receive(vec![ModelEvent::Text("hm".into())]),
            Move::Streams { reasoning: true } => self.receive(vec![ModelEvent::Reasoning("hm".into())]),
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
            Move::Recollects => self.recollect(),
            Move::ModelFails if self.is_streaming() => self.apply(Event::ModelFailed(ModelError::Timeout)),
            Move::ModelFails => {}
            Move::Answers { index, how, by_question } => self.answer_call(index, how, by_question),
            Move::AnswersAll { approved } => self.answer_all(approved),
            Move::WritesMessage => self.write_message(),
            Move::SendsMessage { text } => self.send_message(text),
            Move::AnswersQuestion { index, how } => self.answer_question(index, how),
            Move::Settles { index, how } => self.settle(index, how),
            Move::Reports { index } => {
                let Some(call) = self.job(index) else { return };
                self.apply(Event::Reported(vec![(call, json!({"done": 1}))]));
            }
            Move::CancelsCall { index } => {
                // Also calls that do not run; nothing follows for them.
                let Some(call) = self.run.calls.iter().rev().nth(index).map(|call| call.id.clone()) else {
                    return;
                };
                self.apply(Event::CallCancelled(call));
            }
            Move::Asks { index } => self.ask(index),
            Move::Withdraws { index } => {
                // Only a tool can go away while its question is open.
                let mut of_tools = self
                    .run
                    .elicited
                    .iter()
                    .rev()
                    .filter(|asked| asked.source == elicit::QuestionSource::Tool);
                let Some(id) = of_tools.nth(index).map(|asked| asked.id.clone()) else { return };
                self.apply(Event::Withdrawn(id));
            }
            Move::LockIsGranted => {
                self.grant_lock();
            }
            Move::LockTimesOut { index } => {
                let Some(live) = self.live.as_mut().filter(|live| index < live.waiters.len()) else { return };
                let (call, _) = live.waiters.remove(index);
                let refused = Admission::Refused(ToolError::new(ErrorType::Timeout, "others use it"));
                self.apply(Event::Admission(vec![(call, refused)]));
            }
            Move::OtherChatQueues { n } => {
                let waiter = self.locks.enqueue(ResourceKey {
                    named_by: NamedBy::Settings,
                    name: n.to_string(),
                    owner: None,
                });
                self.other_waiters.push(waiter);
                self.grant_other_locks();
            }
            Move::OtherChatReleases { index } if index < self.other_locks.len() => {
                self.other_locks.remove(index);
            }
            Move::OtherChatReleases { .. } => {
                self.other_waiters.pop();
            }
            Move::WindsUp { index } if index < self.winding_up.len() => {
                self.winding_up.remove(index);
            }
            Move::WindsUp { .. } => {}
            Move::TimePasses { seconds } => {
                self.now += SignedDuration::from_secs(seconds);
                self.keep_time();
            }
            Move::Follows { profile } if self.live.is_some() => {
                let show = [Show::Call, Show::Run].into();
                self.apply(Event::Followed { profile, hold: RunHold::For(Duration::from_secs(60)), show });
            }
            Move::Follows { .. } => {}
            Move::ReaderReconnects => self.reader_reconnects(),
            Move::RulesChange { gate, chain, severe, missing } => {
                let error_policy = if severe {
                    ErrorPolicy::default().with(ErrorType::Network, ErrorStrategy::FailRun)
                } else {
                    ErrorPolicy::default()
                };
                let rules = Rules { gate, chain, error_policy, ..self.scene.rules.clone() };
                self.missing = missing;
                self.next = (rules, self.newest_toolbox());
            }
            Move::ToolChanges { tool } => {
                self.versions[tool] += 1;
                self.next.1 = self.newest_toolbox();
            }
            Move::Fails(failure) => self.fail(failure),
            Move::WillFail(planned_failure) => self.planned_failure = Some(planned_failure),
            Move::IsStopped => self.ends(Ending::Stopped),
            Move::IsSuperseded if self.live.is_some() => {
                let outputs = self.run.pending().map(|call| output(call.id.as_str(), json!(5))).take(1);
                let outputs = outputs.collect();
                self.apply(Event::Superseded(outputs));
            }
            Move::IsSuperseded => {}
        }
    }

    /// Completes the checks of inputs.
    fn checks(&mut self) {
        let Some(live) = &mut self.live else { return };
        let checks = std::mem::take(&mut live.checks);
        let results = checks.iter().map(|(call, check)| (call.clone(), CHECKER.check_here(check))).collect();
        self.apply(Event::InputsChecked(results));
    }

    fn is_streaming(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.is_streaming)
    }

    pub fn receive(&mut self, events: Vec<ModelEvent>) {
        if !self.is_streaming() {
            return;
        }
        if events.iter().any(|event| matches!(event, ModelEvent::Finished { .. })) {
            self.facts.gates.insert(self.run.state.step, self.scene.rules.gate);
        }
        let effects = self.decide(Event::Model(events));
        if let Some(live) = &mut self.live {
            live.is_streaming = self.run.state.phase == Phase::Streaming
                && effects.after.next != Next::AskModel
                && !self.run.is_checking();
        }
        self.perform(effects);
    }

    pub fn ends(&mut self, ending: Ending) {
        self.apply(Event::Ended(ending));
    }

    /// Applies due deadlines, as the active run does after every event.
    fn keep_time(&mut self) {
        if self.live.is_none() {
            return;
        }
        if self.run.first_question_ends().is_some_and(|ends| ends <= self.now) {
            self.apply(Event::QuestionTimedOut);
        } else if self.run.is_expired(self.now) {
            self.ends(Ending::Expired);
        } else if self.run.tool_wait_ends(self.scene.limits.tool_timeout).is_some_and(|ends| ends <= self.now)
        {
            self.apply(Event::ToolsTimedOut);
        } else if self.run.hold_ends().is_some_and(|ends| ends <= self.now) {
            self.apply(Event::HoldEnded);
        }
    }

    /// Uses new tools if calls wait for tools, as the active run does before it waits.
    fn look_for_tools(&mut self) {
        if self.live.is_some() && self.run.waits_for_tools() {
            self.use_newest_rules();
            self.apply(Event::ToolsChanged);
        }
    }

    fn reader_reconnects(&mut self) {
        if let Some(live) = &self.live {
            self.facts.reader.reconnects(&live.log);
            self.facts.check_log(&live.log);
        }
    }

    /// Lets everybody act until the run is over.
    pub fn finish(&mut self) {
        self.planned_failure = None;
        for _ in 0..200 {
            self.activate();
            if self.is_over() {
                return;
            }
            self.look_for_tools();
            if self.live.is_none() {
                continue;
            }
            self.reader_reconnects();
            self.winding_up.clear();
            self.other_waiters.clear();
            self.other_locks.clear();
            self.recollect();
            if self.run.is_checking() {
                self.checks();
            } else if self.is_streaming() {
                self.receive(vec![finished()]);
            } else if self.run.elicitations().next().is_some() {
                let index = self
                    .run
                    .elicited
                    .iter()
                    .rev()
                    .position(|asked| asked.state == elicit::ElicitState::Pending);
                self.answer_question(index.unwrap(), 0);
            } else if self.job(0).is_some() {
                self.settle(0, usize::MAX);
            } else if self.run.can_be_decided_in_words(&self.scene.context(self.now))
                && self.earlier.is_empty()
            {
                self.write_message();
                self.send_message("yes");
            } else if self.run.pending().next().is_some() {
                self.answer_all(true);
            } else if !self.grant_lock() {
                assert!(self.run.waits_for_tools(), "nothing can happen: {:?}", self.run.calls);
                self.now += SignedDuration::try_from(self.scene.limits.tool_timeout).unwrap();
                self.keep_time();
            }
        }
        panic!("the run does not end: {:?}", self.run.calls);
    }
}

fn call(key: usize, (tool, input): (usize, usize)) -> [ModelEvent; 2] {
    let arguments = match TOOLS[tool] {
        MAKE_PLAN => PLANS[[0, 0, 0, 1, 2, 0][input]],
        UPDATE_PLAN => UPDATES[input % UPDATES.len()],
        ASK_USER => QUESTIONS[input % QUESTIONS.len()],
        _ => INPUTS[input],
    };
    [
        ModelEvent::CallStart { key, tool: TOOLS[tool].into() },
        ModelEvent::CallDelta { key, arguments: arguments.into() },
    ]
}
