//! Random schedules: whatever happens in whatever order, the invariants hold.

use std::collections::BTreeMap;

use fermata_protocol::{Assembler, ToolState, UiPart};
use proptest::prelude::*;

use super::*;
use crate::prompt::{Asking, prompt};

/// Something that may happen to a run.
#[derive(Clone, Debug)]
enum Move {
    Speaks(&'static str),
    Calls(Vec<(usize, usize)>),
    Answers { nth: usize, how: usize },
    AnswersAll(bool),
    Settles { nth: usize, well: bool },
    LetsGo,
    IsSavedAndRestored,
    Dies,
    Ends(usize),
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        2 => prop_oneof![Just("hm"), Just("")].prop_map(Move::Speaks),
        6 => prop::collection::vec((0..TOOLS.len(), 0..INPUTS.len()), 0..4).prop_map(Move::Calls),
        8 => (0..4usize, 0..6usize).prop_map(|(nth, how)| Move::Answers { nth, how }),
        2 => any::<bool>().prop_map(Move::AnswersAll),
        6 => (0..4usize, any::<bool>()).prop_map(|(nth, well)| Move::Settles { nth, well }),
        2 => Just(Move::LetsGo),
        2 => Just(Move::IsSavedAndRestored),
        1 => Just(Move::Dies),
        1 => (0..4usize).prop_map(Move::Ends),
    ]
}

const TOOLS: [&str; 5] = ["time", "note", "where", "color", "nothing"];
const INPUTS: [&str; 5] = ["{}", r#"{"n":1}"#, r#"{"n":10}"#, r#"{"n":"x"}"#, "{\"n\":"];

/// A run, and what a reader from the start has seen.
struct Watched {
    play: Play,
    log: Vec<(u64, UiChunk)>,
    executed: BTreeMap<String, usize>,
    outcomes: BTreeMap<String, usize>,
}

impl Watched {
    fn new() -> Self {
        let mut play = Play::new();
        let tools = play.run.state.tools.clone();
        let state = RunRequest {
            id: RunId::new("r"),
            message: MessageId::new("m"),
            model: "model".into(),
            profile: Profile::V6,
            hold: Duration::from_secs(60),
            tools,
            system: None,
            call_settings: Map::new(),
            tool_choice: None,
        };
        play.run = Run::new(state, play.now);
        let mut watched =
            Self { play, log: Vec::new(), executed: BTreeMap::new(), outcomes: BTreeMap::new() };
        watched.tell(|run, _, effects| *effects = run.begin());
        watched
    }

    fn tell(&mut self, happens: impl FnOnce(&mut Run, &Context<'_>, &mut Effects)) {
        let over = self.play.run.state.phase == Phase::Over;
        let mut published = Vec::new();
        let mut executed = Vec::new();
        self.play.tell("", |run, context, effects| {
            happens(run, context, effects);
            published.clone_from(&effects.publish);
            executed.clone_from(&effects.execute);
        });
        assert!(!over || published.is_empty(), "something was shown after the end: {published:?}");
        for call in executed {
            *self.executed.entry(call.to_string()).or_default() += 1;
        }
        for (_, chunk) in &published {
            if let UiChunk::ToolOutputAvailable { tool_call_id, .. }
            | UiChunk::ToolOutputError { tool_call_id, .. }
            | UiChunk::ToolOutputDenied { tool_call_id, .. }
            | UiChunk::ToolInputError { tool_call_id, .. } = chunk
            {
                *self.outcomes.entry(tool_call_id.to_string()).or_default() += 1;
            }
        }
        self.log.extend(published);
        self.play.assert_whole();
    }

    fn happens(&mut self, what: Move) {
        match what {
            Move::Speaks(words) => {
                self.tell(|run, context, effects| run.hear(ModelEvent::Text(words.into()), context, effects))
            }
            Move::Calls(calls) => self.tell(|run, context, effects| {
                for (key, (tool, input)) in calls.into_iter().enumerate() {
                    run.hear(ModelEvent::CallStart { key, tool: TOOLS[tool].into() }, context, effects);
                    run.hear(
                        ModelEvent::CallDelta { key, arguments: INPUTS[input].into() },
                        context,
                        effects,
                    );
                }
                run.hear(finished(), context, effects);
            }),
            Move::Answers { nth, how } => {
                let kinds = [
                    AnswerKind::Output { output: json!(1) },
                    AnswerKind::Failure { error_text: "no".into() },
                    AnswerKind::Decision { approved: true, reason: None, always: false, input: None },
                    AnswerKind::Decision { approved: true, reason: None, always: true, input: None },
                    AnswerKind::Decision {
                        approved: true,
                        reason: None,
                        always: false,
                        input: Some(json!({"n": 3})),
                    },
                    AnswerKind::Decision {
                        approved: false,
                        reason: Some("no".into()),
                        always: false,
                        input: None,
                    },
                ];
                let Some(call) = self.play.run.calls.iter().rev().nth(nth) else { return };
                self.answer(vec![Answer {
                    of: AnswerTarget::Call(call.id.clone()),
                    kind: kinds[how].clone(),
                }]);
            }
            Move::AnswersAll(approved) => {
                let waiting = self.play.run.pending();
                let answers = waiting.map(|call| {
                    if call.is_asked() {
                        decision(call.id.as_str(), approved)
                    } else {
                        output(call.id.as_str(), json!(2))
                    }
                });
                self.answer(answers.collect());
            }
            Move::Settles { nth, well } => {
                let at_work: Vec<_> = self
                    .play
                    .run
                    .calls
                    .iter()
                    .filter(|call| is_at_work(call))
                    .map(|call| call.id.clone())
                    .collect();
                let Some(call) = at_work.get(nth) else { return };
                let outcome = if well { Ok(json!(3)) } else { Err(ToolError::internal("it failed")) };
                self.tell(|run, context, effects| run.settle(call, outcome, context, effects));
            }
            Move::LetsGo if self.play.run.is_waiting() => self.tell(|run, context, effects| {
                run.let_go(context, effects);
            }),
            Move::LetsGo => {}
            Move::IsSavedAndRestored if self.play.run.is_waiting() => self.restore(),
            Move::IsSavedAndRestored => {}
            Move::Dies => {
                // Text of a step that was cut off is never saved; whole steps are.
                if self.play.run.state.phase != Phase::Speaking {
                    self.restore();
                    self.tell(|run, context, effects| *effects = run.resume(context));
                }
            }
            Move::Ends(how) => self.end(how),
        }
    }

    fn answer(&mut self, answers: Vec<Answer>) {
        let before = (self.play.run.calls.clone(), self.play.run.snapshot());
        self.tell(|run, context, effects| match run.judge(&answers, context) {
            Ok(taken) => run.take(taken.answers, taken.elicited, context, effects),
            Err(_) => {
                assert_eq!((run.calls.clone(), run.snapshot()), before, "a refused batch changed something")
            }
        });
    }

    fn restore(&mut self) {
        let run = &self.play.run;
        if run.state.phase == Phase::Over {
            return;
        }
        let saved = SavedRun {
            id: run.id.clone(),
            message: run.message.clone(),
            state: serde_json::from_value(serde_json::to_value(&run.state).unwrap()).unwrap(),
            calls: serde_json::from_value(serde_json::to_value(&run.calls).unwrap()).unwrap(),
            log: self
                .log
                .iter()
                .map(|(seq, chunk)| (*seq, UiChunk::from_record(&chunk.to_record()).unwrap()))
                .collect(),
        };
        let restored = Run::restore(saved).unwrap();
        assert_eq!(restored.snapshot(), run.snapshot());
        self.play.run = restored;
    }

    fn end(&mut self, how: usize) {
        match how {
            0 => self.tell(|run, context, effects| run.end(Ending::Stopped, context, effects)),
            1 => self.tell(|run, context, effects| run.end(Ending::Expired, context, effects)),
            2 => self
                .tell(|run, context, effects| run.end(Ending::Failed(ModelError::Timeout), context, effects)),
            // What a superseded run leaves is in the record only, so no reader can be asked about it.
            _ => {}
        }
    }

    fn check(&self) {
        let mut reader = Assembler::new(MessageId::new("m"));
        for (_, chunk) in &self.log {
            reader.apply(chunk).unwrap();
        }
        assert!(self.log.windows(2).all(|pair| pair[0].0 < pair[1].0), "places grow");
        assert!(self.executed.values().all(|&times| times == 1), "a call ran twice: {:?}", self.executed);
        assert!(
            self.outcomes.values().all(|&times| times == 1),
            "a call has two outcomes: {:?}",
            self.outcomes
        );
        let settled = self.play.run.calls.iter().filter(|call| call.state().is_final());
        let shown = |call: &Call| {
            self.outcomes.contains_key(call.id.as_str()) || self.play.run.state.phase == Phase::Deciding
        };
        assert!(settled.clone().all(shown), "an outcome was not shown");
        let message = self.play.run.snapshot();
        if self.play.run.state.phase == Phase::Over {
            let open = message.parts.iter().filter_map(UiPart::as_tool).find(|part| !part.state.is_settled());
            assert!(open.is_none(), "the record leaves {open:?} open");
        }
        self.check_prompt(&message);
    }

    /// Every call that the model is told of has its result.
    fn check_prompt(&self, message: &UiMessage) {
        use crate::model::ModelMessage;
        let asking = Asking {
            system: None,
            toolbox: &self.play.scene.toolbox,
            tool_choice: None,
            settings: &Map::new(),
            strategies: &self.play.scene.rules.strategies,
            advice: &|_| None,
            output_limit: 1000,
        };
        let mut open = Vec::new();
        for told in prompt(std::iter::once(message), &asking).messages {
            match told {
                ModelMessage::Assistant { calls, .. } => {
                    assert!(open.is_empty(), "{open:?} have no result");
                    open = calls.into_iter().map(|call| call.id).collect();
                }
                ModelMessage::Tool { call_id, .. } => {
                    let place = open.iter().position(|id| *id == call_id).unwrap();
                    open.remove(place);
                }
                ModelMessage::System(_) | ModelMessage::User(_) => {}
            }
        }
        assert!(open.is_empty(), "{open:?} have no result");
        let streaming = message.parts.iter().filter_map(UiPart::as_tool);
        let streaming =
            streaming.filter(|part| matches!(part.state, ToolState::InputStreaming { .. })).count();
        assert!(streaming <= self.play.run.calls.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn every_schedule_keeps_the_invariants(schedule in prop::collection::vec(moves(), 1..25)) {
        let mut watched = Watched::new();
        for what in schedule {
            watched.happens(what);
        }
        watched.check();
        watched.end(0);
        watched.check();
    }
}
