//! Runs as transcripts: what happens on the left of `>`, what is to be done below it.

mod always;
mod bench;
mod cut_off;
mod last_word;
mod life;
mod schedules;

use std::{
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use expect_test::{Expect, expect};
use fermata_protocol::{
    Answer, AnswerKind, AnswerTarget, FinishReason, MessageId, PostedTool, Profile, RunId, UiChunk,
};
use fermata_tools::{
    AuditEvent, CallContext, Check, Checker, Decision, DecisionSource, DefaultPolicy, GateMode, Policy,
    PolicyDecision, Resource, RunBy, StateName, Tool, ToolError, ToolSpec, Toolbox,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::model::{ModelError, ModelEvent};

struct Named(&'static str, Decision);

#[async_trait]
impl Tool for Named {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.0.into(),
            description: String::new(),
            input_schema: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
            run_by: RunBy::Server,
            server: None,
            policy: self.1,
            resource: None,
            timeout: None,
            repeatable: false,
        }
    }

    async fn call(&self, _: Value, _: CallContext) -> Result<Value, ToolError> {
        Err(ToolError::internal("a transcript runs nothing"))
    }
}

/// Of `file` each `n` is a resource of its own, and `again` may be repeated.
fn settle_specs(spec: &mut ToolSpec) {
    spec.resource = (spec.name == "file").then(|| Resource::input("n"));
    spec.repeatable = spec.name == "again";
}

fn posted(name: &str) -> PostedTool {
    PostedTool {
        name: name.into(),
        description: None,
        input_schema: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
    }
}

fn run_request(tools: Vec<PostedTool>) -> RunRequest {
    RunRequest {
        id: RunId::new("r"),
        message: MessageId::new("m"),
        model: "model".into(),
        profile: Profile::V6,
        hold: Duration::from_secs(60),
        tools,
        system: None,
        call_settings: Map::new(),
        tool_choice: None,
    }
}

#[derive(Default)]
struct Counting(AtomicUsize);

impl Ids for Counting {
    fn next(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Denies what has `n` over 9 and otherwise keeps to the tools' defaults.
struct NothingOverNine;

impl Policy for NothingOverNine {
    fn decide(&self, owner: &Owner, tool: &ToolSpec, input: &Value) -> PolicyDecision {
        if input["n"].as_i64().is_some_and(|n| n > 9) {
            return PolicyDecision {
                decision: Decision::Deny,
                reason: Some("at most nine".into()),
                by: DecisionSource::Rule(1),
            };
        }
        DefaultPolicy.decide(owner, tool, input)
    }
}

/// A run with its surroundings, and the transcript so far.
struct Play {
    run: Run,
    scene: Scene,
    now: Timestamp,
    /// All that readers were shown.
    log: Vec<(Position, UiChunk)>,
    /// The effects of the last event.
    effects: Effects,
    transcript: String,
}

/// What a run may look at.
struct Scene {
    ids: Counting,
    toolbox: Toolbox,
    rules: Rules,
    /// What was put in force after the run's step began.
    newest: Option<Arc<dyn Policy>>,
    owner: Owner,
    limits: Limits,
    grants: Grants,
    /// Of the chat's other messages.
    other_bytes: usize,
}

impl Scene {
    fn new(toolbox: Toolbox) -> Self {
        Self {
            ids: Counting::default(),
            toolbox,
            rules: Rules { policy: Arc::new(NothingOverNine), ..Rules::default() },
            newest: None,
            owner: Owner::new("alice"),
            limits: Limits { steps: 3, output_bytes: 1000, parked_calls: 3, ..Limits::default() },
            grants: Grants::new(),
            other_bytes: 0,
        }
    }

    fn context(&self, now: Timestamp) -> Context<'_> {
        Context {
            now,
            ids: &self.ids,
            toolbox: &self.toolbox,
            rules: &self.rules,
            newest: self.newest.clone().unwrap_or_else(|| self.rules.policy.clone()),
            owner: &self.owner,
            limits: &self.limits,
            expire: Duration::from_secs(3600),
            grants: &self.grants,
            other_bytes: self.other_bytes,
            address: None,
        }
    }
}

impl Play {
    fn new() -> Self {
        let tools: Vec<Arc<dyn Tool>> = vec![
            Arc::new(Named("time", Decision::Allow)),
            Arc::new(Named("note", Decision::Ask)),
            Arc::new(Named("file", Decision::Allow)),
            Arc::new(Named("again", Decision::Allow)),
        ];
        let posted = vec![posted("where"), posted("color")];
        let toolbox = Toolbox::new(tools, settle_specs).0.with_saved_tools(&posted);
        let now = Timestamp::UNIX_EPOCH;
        let mut play = Self {
            run: Run::new(run_request(posted), now),
            scene: Scene::new(toolbox),
            now,
            log: Vec::new(),
            effects: Effects::default(),
            transcript: String::new(),
        };
        play.apply("begin", Event::Begun);
        play.transcript.clear();
        play
    }

    fn apply(&mut self, what: &str, event: Event) -> &mut Self {
        let context = self.scene.context(self.now);
        let mut effects = self.run.apply(event, &context);
        check_inputs(&mut self.run, &context, &mut effects);
        writeln!(self.transcript, "> {what}").unwrap();
        print(&effects, &mut self.transcript);
        self.log.extend(effects.after.publish.iter().cloned());
        self.scene.grants.extend(effects.commit.grants.iter().cloned());
        self.effects = effects;
        self
    }

    fn hear(&mut self, event: ModelEvent) -> &mut Self {
        let what = match &event {
            ModelEvent::Finished { .. } => "finished".to_owned(),
            other => format!("{other:?}"),
        };
        self.apply(&what, Event::Model(vec![event]))
    }

    /// The model makes these calls, and the step ends; only what follows the calls is printed.
    fn calls(&mut self, calls: &[(&str, &str)]) -> &mut Self {
        for (key, (tool, arguments)) in calls.iter().enumerate() {
            self.hear(ModelEvent::CallStart { key, tool: (*tool).into() });
            self.hear(ModelEvent::CallDelta { key, arguments: (*arguments).into() });
        }
        self.transcript.clear();
        self.hear(finished())
    }

    fn settle(&mut self, call: &str, outcome: Result<Value, &str>) -> &mut Self {
        let event = Event::Settled(ToolCallId::new(call), outcome.map_err(ToolError::internal));
        self.apply(&format!("settled {call}"), event)
    }

    fn answer(&mut self, answers: Vec<Answer>) -> &mut Self {
        let what = format!("answered {}", answers.iter().map(brief).collect::<Vec<_>>().join(", "));
        let valid = self.run.validate(&answers, &self.scene.context(self.now)).unwrap();
        self.apply(&what, Event::Answered(valid.answers, AnswerSource::SeparateRequest))
    }

    fn refusal(&self, answers: &[Answer]) -> Rejected {
        self.run.validate(answers, &self.scene.context(self.now)).unwrap_err()
    }

    /// Why a rule denies an edit.
    fn denial_of_edit(&self, answers: &[Answer]) -> String {
        match self.refusal(answers) {
            Rejected::Denied(event) => event.reason.unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// What is wrong with the inputs of these answers.
    fn misfit(&self, answers: &[Answer]) -> String {
        let checks = self.run.inputs_to_check(answers, &self.scene.context(self.now));
        let faults = checks.iter().filter_map(|(check, _)| CHECKER.check_here(check).err());
        faults.map(|fault| fault.to_string()).collect()
    }

    fn end(&mut self, ending: Ending) -> &mut Self {
        self.apply(ending.name(), Event::Ended(ending.clone()))
    }

    fn let_go(&mut self) -> &mut Self {
        self.apply("let go", Event::HoldEnded);
        let last = detach_chunks();
        for chunk in last {
            writeln!(self.transcript, "readers: {}", line(&chunk)).unwrap();
        }
        self
    }

    fn check(&mut self, expected: Expect) -> &mut Self {
        expected.assert_eq(&std::mem::take(&mut self.transcript));
        self.assert_whole();
        self
    }

    /// What holds in every state of every run.
    fn assert_whole(&self) {
        let calls: Vec<&Call> = self.run.step_calls().collect();
        let asked = calls.iter().any(|call| call.awaits_approval());
        assert!(
            self.scene.rules.gate == GateMode::Progressive
                || !asked
                || calls.iter().all(|call| call.state().name() != StateName::Executing),
            "a call runs while one waits for a decision"
        );
        if self.run.state.phase == Phase::Over {
            assert!(
                self.run.calls.iter().all(|call| call.state().is_final()),
                "a run is over and a call is open"
            );
        }
    }
}

static CHECKER: std::sync::LazyLock<Checker> = std::sync::LazyLock::new(Checker::new);

/// Checks at once what is to be checked.
fn check_inputs(run: &mut Run, context: &Context<'_>, effects: &mut Effects) {
    let checks = std::mem::take(&mut effects.before.checks);
    if !checks.is_empty() {
        let results = checks.iter().map(|(call, check)| (call.clone(), CHECKER.check_here(check))).collect();
        effects.append(run.apply(Event::InputsChecked(results), context));
    }
}

fn finished() -> ModelEvent {
    ModelEvent::Finished { reason: FinishReason::Stop, usage: None }
}

fn output(call: &str, output: Value) -> Answer {
    Answer { of: AnswerTarget::Call(ToolCallId::new(call)), kind: AnswerKind::Output { output } }
}

fn decision(call: &str, approved: bool) -> Answer {
    let kind = AnswerKind::Decision { approved, reason: None, always: false, input: None };
    Answer { of: AnswerTarget::Call(ToolCallId::new(call)), kind }
}

fn edited(call: &str, input: Value) -> Answer {
    let kind = AnswerKind::Decision { approved: true, reason: None, always: false, input: Some(input) };
    Answer { of: AnswerTarget::Call(ToolCallId::new(call)), kind }
}

fn always(call: &str) -> Answer {
    let kind = AnswerKind::Decision { approved: true, reason: None, always: true, input: None };
    Answer { of: AnswerTarget::Call(ToolCallId::new(call)), kind }
}

fn edit(call: &str, input: Value) -> Answer {
    let kind = AnswerKind::Decision { approved: true, reason: None, always: false, input: Some(input) };
    Answer { of: AnswerTarget::Call(ToolCallId::new(call)), kind }
}

fn brief(answer: &Answer) -> String {
    let call = match &answer.of {
        AnswerTarget::Call(call) => call.as_str(),
        AnswerTarget::Elicitation(id) => id.as_str(),
        AnswerTarget::Approval(_) => return "by question".into(),
    };
    match &answer.kind {
        AnswerKind::Output { output } => format!("{call} {output}"),
        AnswerKind::Failure { error_text } => format!("{call} failed: {error_text}"),
        AnswerKind::Elicited { action, content } => format!("{call} {action:?} {content:?}"),
        AnswerKind::Decision { approved, always, input, .. } => {
            let edited = input.as_ref().map(|input| format!(" as {input}")).unwrap_or_default();
            format!(
                "{call} {}{}{edited}",
                if *approved { "yes" } else { "no" },
                if *always { " always" } else { "" }
            )
        }
    }
}

fn print(effects: &Effects, out: &mut String) {
    let ids = |calls: &[ToolCallId]| calls.iter().map(ToolCallId::as_str).collect::<Vec<_>>().join(" ");
    if !effects.commit.is_empty() {
        out.push_str("save\n");
    }
    for (call, key) in &effects.before.lock_requests {
        writeln!(out, "queue {call} for {}", key.name).unwrap();
    }
    for (verb, calls) in [
        ("release", &effects.after.release),
        ("park", &effects.after.park),
        ("execute", &effects.after.execute),
    ] {
        if !calls.is_empty() {
            writeln!(out, "{verb} {}", ids(calls)).unwrap();
        }
    }
    for (_, chunk) in &effects.after.publish {
        writeln!(out, "{}", line(chunk)).unwrap();
    }
    for (id, reply) in &effects.after.replies {
        writeln!(out, "reply {id} {reply:?}").unwrap();
    }
    match &effects.after.next {
        Next::Nothing => {}
        Next::AskModel => out.push_str("ask\n"),
        Next::Close(ending) => writeln!(out, "over: {}", ending.name()).unwrap(),
    }
}

fn line(chunk: &UiChunk) -> String {
    let value = serde_json::to_value(chunk).unwrap();
    let field = |name: &str| {
        value.get(name).map(|v| format!(" {}", v.as_str().map_or_else(|| v.to_string(), str::to_owned)))
    };
    let fields =
        ["toolCallId", "approved", "input", "output", "errorText", "delta", "inputTextDelta", "finishReason"];
    let state = value["data"]["state"].as_str().map(|state| format!(" {state}")).unwrap_or_default();
    format!(
        "{}{}{state}",
        value["type"].as_str().unwrap(),
        fields.iter().filter_map(|name| field(name)).collect::<String>()
    )
}

#[test]
fn text_and_reasoning_are_closed_before_what_follows() {
    Play::new()
        .hear(ModelEvent::Reasoning("hm".into()))
        .hear(ModelEvent::Text("a".into()))
        .hear(ModelEvent::Text("b".into()))
        .hear(ModelEvent::CallStart { key: 0, tool: "time".into() })
        .check(expect![[r#"
            > Reasoning("hm")
            reasoning-start
            reasoning-delta hm
            > Text("a")
            reasoning-end
            text-start
            text-delta a
            > Text("b")
            text-delta b
            > CallStart { key: 0, tool: "time" }
            text-end
            tool-input-start call_1
        "#]]);
}

#[test]
fn a_text_answer_ends_the_run() {
    Play::new().hear(ModelEvent::Text("a".into())).hear(finished()).check(expect![[r#"
            > Text("a")
            text-start
            text-delta a
            > finished
            save
            text-end
            finish-step
            finish stop
            over: finished
        "#]]);
}

#[test]
fn an_answer_without_any_text_ends_the_run() {
    Play::new().hear(finished()).check(expect![[r#"
            > finished
            save
            finish-step
            finish stop
            over: finished
        "#]]);
}

#[test]
fn no_call_runs_while_one_waits_for_a_decision() {
    Play::new()
        .calls(&[("time", "{}"), ("note", "{}"), ("where", r#"{"n":1}"#)])
        .answer(vec![decision("call_2", true)])
        .check(expect![[r#"
            > finished
            save
            park call_2
            tool-input-available call_1 {}
            tool-input-available call_2 {}
            tool-approval-request call_2
            > answered call_2 yes
            save
            park call_3
            execute call_1 call_2
            tool-approval-response true
            tool-input-available call_3 {"n":1}
        "#]]);
}

#[test]
fn a_browser_call_is_parked_before_it_is_shown_and_its_output_starts_the_next_step() {
    Play::new().calls(&[("where", "{}")]).answer(vec![output("call_1", json!("Bern"))]).check(expect![[r#"
            > finished
            save
            park call_1
            tool-input-available call_1 {}
            > answered call_1 "Bern"
            save
            tool-output-available call_1 Bern
            finish-step
            start-step
            ask
        "#]]);
}

#[test]
fn the_model_waits_for_every_outcome_of_the_step() {
    Play::new()
        .calls(&[("where", "{}"), ("time", "{}")])
        .answer(vec![output("call_1", json!(null))])
        .settle("call_2", Err("no clock"))
        .check(expect![[r#"
            > finished
            save
            park call_1
            execute call_2
            tool-input-available call_2 {}
            tool-input-available call_1 {}
            > answered call_1 null
            save
            tool-output-available call_1 null
            > settled call_2
            save
            tool-output-error call_2 no clock
            finish-step
            start-step
            ask
        "#]]);
}

#[test]
fn empty_arguments_are_an_empty_object() {
    Play::new().calls(&[("note", "")]).check(expect![[r#"
            > finished
            save
            park call_1
            tool-input-delta call_1 {}
            tool-input-available call_1 {}
            tool-approval-request call_1
        "#]]);
}

#[test]
fn calls_that_cannot_run_are_settled_and_the_model_is_told() {
    Play::new()
        .calls(&[("time", "{\"n\":"), ("time", r#"{"n":"x"}"#), ("nothing", "{}"), ("where", "[]")])
        .check(expect![[r#"
            > finished
            save
            tool-input-error call_1 {"n": The arguments of time are not valid JSON (EOF while parsing a value at line 1 column 5). Call it again with a JSON object.
            tool-input-error call_2 {"n":"x"} The input of time does not fit its schema: /n: "x" is not of type "integer".
            tool-input-error call_3 {} There is no tool named "nothing". The tools are: again, file, note, time, color, where.
            tool-input-error call_4 [] The arguments of where are not a JSON object. Call it again with a JSON object.
            finish-step
            start-step
            ask
        "#]]);
}

#[test]
fn a_rule_denies_without_asking() {
    Play::new().calls(&[("note", r#"{"n":10}"#), ("time", "{}")]).settle("call_2", Ok(json!(1))).check(
        expect![[r#"
            > finished
            save
            execute call_2
            tool-input-available call_1 {"n":10}
            tool-input-available call_2 {}
            tool-output-denied call_1
            > settled call_2
            save
            tool-output-available call_2 1
            finish-step
            start-step
            ask
        "#]],
    );
}

#[test]
fn a_rule_that_denies_beside_a_question_is_told_as_an_error() {
    Play::new().calls(&[("note", r#"{"n":10}"#), ("note", r#"{"n":1}"#)]).check(expect![[r#"
            > finished
            save
            park call_2
            tool-input-available call_1 {"n":10}
            tool-input-available call_2 {"n":1}
            tool-output-error call_1 Denied: at most nine
            tool-approval-request call_2
        "#]]);
}

#[test]
fn a_browser_call_that_a_rule_denies_never_shows_its_input() {
    Play::new().calls(&[("where", r#"{"n":10}"#)]).check(expect![[r#"
            > finished
            save
            tool-output-denied call_1
            finish-step
            start-step
            ask
        "#]]);
}

#[test]
fn a_denial_is_shown_when_the_gate_opens() {
    Play::new()
        .calls(&[("note", "{}"), ("note", r#"{"n":2}"#)])
        .answer(vec![decision("call_1", false)])
        .answer(vec![decision("call_2", true)])
        .check(expect![[r#"
            > finished
            save
            park call_1 call_2
            tool-input-available call_1 {}
            tool-input-available call_2 {"n":2}
            tool-approval-request call_1
            tool-approval-request call_2
            > answered call_1 no
            save
            tool-approval-response false
            > answered call_2 yes
            save
            execute call_2
            tool-approval-response true
            tool-output-denied call_1
        "#]]);
}

#[test]
fn a_denial_beside_a_browser_call_is_told_as_an_error() {
    Play::new().calls(&[("note", "{}"), ("where", "{}")]).answer(vec![decision("call_1", false)]).check(
        expect![[r#"
            > finished
            save
            park call_1
            tool-input-available call_1 {}
            tool-approval-request call_1
            > answered call_1 no
            save
            park call_2
            tool-approval-response false
            tool-output-error call_1 Denied: the call was not approved.
            tool-input-available call_2 {}
        "#]],
    );
}

#[test]
fn when_all_are_denied_the_model_is_told() {
    Play::new().calls(&[("note", "{}")]).answer(vec![decision("call_1", false)]).check(expect![[r#"
        > finished
        save
        park call_1
        tool-input-available call_1 {}
        tool-approval-request call_1
        > answered call_1 no
        save
        tool-approval-response false
        tool-output-denied call_1
        finish-step
        start-step
        ask
    "#]]);
}

#[test]
fn a_batch_of_decisions_opens_the_gate_once() {
    Play::new()
        .calls(&[("note", "{}"), ("note", "{}")])
        .answer(vec![decision("call_1", false), decision("call_2", true)])
        .check(expect![[r#"
            > finished
            save
            park call_1 call_2
            tool-input-available call_1 {}
            tool-input-available call_2 {}
            tool-approval-request call_1
            tool-approval-request call_2
            > answered call_1 no, call_2 yes
            save
            execute call_2
            tool-approval-response false
            tool-approval-response true
            tool-output-denied call_1
        "#]]);
}

#[test]
fn always_decides_the_siblings_and_later_calls() {
    Play::new()
        .calls(&[("note", r#"{"n":1}"#), ("note", r#"{"n":2}"#), ("note", r#"{"n":10}"#)])
        .answer(vec![always("call_1")])
        .settle("call_1", Ok(json!(1)))
        .settle("call_2", Ok(json!(2)))
        .check(expect![[r#"
            > finished
            save
            park call_1 call_2
            tool-input-available call_1 {"n":1}
            tool-input-available call_2 {"n":2}
            tool-input-available call_3 {"n":10}
            tool-output-error call_3 Denied: at most nine
            tool-approval-request call_1
            tool-approval-request call_2
            > answered call_1 yes always
            save
            release call_2
            execute call_1 call_2
            tool-approval-response true
            tool-approval-response true
            > settled call_1
            save
            tool-output-available call_1 1
            > settled call_2
            save
            tool-output-available call_2 2
            finish-step
            start-step
            ask
        "#]])
        .calls(&[("note", r#"{"n":3}"#)])
        .check(expect![[r#"
            > finished
            save
            execute call_6
            tool-input-available call_6 {"n":3}
        "#]]);
}

#[test]
fn an_edited_input_is_shown_and_runs() {
    Play::new().calls(&[("note", r#"{"n":1}"#)]).answer(vec![edit("call_1", json!({"n": 2}))]).check(
        expect![[r#"
            > finished
            save
            park call_1
            tool-input-available call_1 {"n":1}
            tool-approval-request call_1
            > answered call_1 yes as {"n":2}
            save
            execute call_1
            tool-approval-response true
            tool-input-available call_1 {"n":2}
        "#]],
    );
}

#[test]
fn the_step_limit_ends_the_run_without_asking_again() {
    Play::new()
        .calls(&[("time", "{}")])
        .settle("call_1", Ok(json!(1)))
        .calls(&[("time", "{}")])
        .settle("call_2", Ok(json!(2)))
        .calls(&[("time", "{}")])
        .settle("call_3", Ok(json!(3)))
        .check(expect![[r#"
            > finished
            save
            execute call_3
            tool-input-available call_3 {}
            > settled call_3
            save
            tool-output-available call_3 3
            finish-step
            start-step
            finish-step
            finish other
            over: step_limit
        "#]]);
}

#[test]
fn stop_in_the_middle_of_the_models_words_closes_them() {
    Play::new().hear(ModelEvent::Text("a".into())).end(Ending::Stopped).check(expect![[r#"
            > Text("a")
            text-start
            text-delta a
            > stopped
            save
            text-end
            finish-step
            abort
            finish other
            over: stopped
        "#]]);
}

#[test]
fn stop_in_the_middle_of_a_call_settles_it() {
    Play::new()
        .hear(ModelEvent::CallStart { key: 0, tool: "where".into() })
        .hear(ModelEvent::CallDelta { key: 0, arguments: "{\"n".into() })
        .end(Ending::Stopped)
        .check(expect![[r#"
            > CallStart { key: 0, tool: "where" }
            tool-input-start call_1
            > CallDelta { key: 0, arguments: "{\"n" }
            tool-input-delta call_1 {"n
            > stopped
            save
            tool-output-error call_1 Cancelled: the run was stopped before the call had a result.
            finish-step
            start-step
            finish-step
            abort
            finish other
            over: stopped
        "#]]);
}

#[test]
fn stop_settles_what_waits_and_leaves_no_step_of_calls_at_the_end() {
    Play::new()
        .calls(&[("note", "{}"), ("note", "{}"), ("where", "{}")])
        .answer(vec![decision("call_1", false)])
        .end(Ending::Stopped)
        .check(expect![[r#"
            > finished
            save
            park call_1 call_2
            tool-input-available call_1 {}
            tool-input-available call_2 {}
            tool-approval-request call_1
            tool-approval-request call_2
            > answered call_1 no
            save
            tool-approval-response false
            > stopped
            save
            release call_2
            tool-output-error call_1 Denied: the call was not approved.
            tool-output-error call_2 Cancelled: the run was stopped before the call had a result.
            tool-output-error call_3 Cancelled: the run was stopped before the call had a result.
            finish-step
            start-step
            finish-step
            abort
            finish other
            over: stopped
        "#]]);
}

#[test]
fn a_run_that_fails_settles_its_calls_first() {
    Play::new()
        .hear(ModelEvent::Text("a".into()))
        .hear(ModelEvent::CallStart { key: 0, tool: "time".into() })
        .end(Ending::Failed(ModelError::Timeout))
        .check(expect![[r#"
            > Text("a")
            text-start
            text-delta a
            > CallStart { key: 0, tool: "time" }
            text-end
            tool-input-start call_1
            > failed
            save
            tool-output-error call_1 Cancelled: the run ended before the call had a result.
            finish-step
            error The model took too long to answer. Try again.
            over: failed
        "#]]);
}

#[test]
fn letting_go_asks_about_what_the_gate_withholds() {
    Play::new()
        .calls(&[("time", "{}"), ("note", "{}"), ("where", "{}")])
        .let_go()
        .answer(vec![decision("call_2", true)])
        .check(expect![[r#"
            > finished
            save
            park call_2
            tool-input-available call_1 {}
            tool-input-available call_2 {}
            tool-approval-request call_2
            > let go
            save
            park call_1 call_3
            tool-approval-request call_1
            tool-approval-request call_3
            readers: finish-step
            readers: finish tool-calls
            > answered call_2 yes
            save
            release call_1 call_3
            park call_3
            execute call_1 call_2
            tool-approval-response true
            tool-input-available call_3 {}
        "#]]);
}

#[test]
fn an_approval_that_nobody_needs_may_still_deny() {
    Play::new()
        .calls(&[("note", "{}"), ("where", "{}")])
        .let_go()
        .answer(vec![decision("call_2", false)])
        .answer(vec![decision("call_1", true)])
        .check(expect![[r#"
            > finished
            save
            park call_1
            tool-input-available call_1 {}
            tool-approval-request call_1
            > let go
            save
            park call_2
            tool-approval-request call_2
            readers: finish-step
            readers: finish tool-calls
            > answered call_2 no
            save
            tool-approval-response false
            > answered call_1 yes
            save
            execute call_1
            tool-approval-response true
            tool-output-denied call_2
        "#]]);
}

#[test]
fn a_superseded_run_shows_nothing_but_its_abort() {
    Play::new()
        .calls(&[("where", "{}"), ("color", "{}")])
        .apply("superseded", Event::Superseded(vec![output("call_1", json!(1))]))
        .check(expect![[r#"
            > finished
            save
            park call_1 call_2
            tool-input-available call_1 {}
            tool-input-available call_2 {}
            > superseded
            save
            release call_1 call_2
            abort
            over: superseded
        "#]]);
}

#[test]
fn what_comes_after_the_end_changes_nothing() {
    Play::new().end(Ending::Stopped).hear(ModelEvent::Text("late".into())).end(Ending::Expired).check(
        expect![[r#"
            > stopped
            save
            finish-step
            abort
            finish other
            over: stopped
            > Text("late")
            > expired
        "#]],
    );
}

#[test]
fn more_calls_than_may_wait_are_refused() {
    Play::new().calls(&[("where", "{}"), ("where", "{}"), ("where", "{}"), ("where", "{}")]).check(expect![
        [r#"
            > finished
            save
            park call_1 call_2 call_3
            tool-input-available call_1 {}
            tool-input-available call_2 {}
            tool-input-available call_3 {}
            tool-output-error call_4 Too many calls of this chat wait for somebody: the limit is 3.
        "#]
    ]);
}

#[test]
fn expiry_is_told_as_expiry_and_ends_the_run() {
    let mut play = Play::new();
    play.calls(&[("where", "{}"), ("note", "{}")]).answer(vec![decision("call_2", true)]);
    assert!(!play.run.is_expired(play.now));
    play.now += SignedDuration::from_hours(1);
    assert!(play.run.is_expired(play.now));
    play.transcript.clear();
    play.end(Ending::Expired).check(expect![[r#"
        > expired
        save
        release call_1
        tool-output-error call_1 Expired: nobody answered in time, so the call has no result.
        tool-output-error call_2 Cancelled: the run ended before the call had a result.
        finish-step
        start-step
        finish-step
        finish other
        over: expired
    "#]]);
}

#[test]
fn a_batch_is_validated_as_a_whole_and_changes_nothing() {
    let mut play = Play::new();
    play.calls(&[("note", "{}"), ("where", "{}")]);
    let twice = play.refusal(&[decision("call_1", true), decision("call_1", true)]);
    assert_eq!(twice, Rejected::Twice(ToolCallId::new("call_1")));
    let early = play.refusal(&[decision("call_1", true), output("call_2", json!(1))]);
    assert!(
        matches!(early, Rejected::Refused { refusal: fermata_tools::Refusal::WrongAnswer, .. }),
        "{early:?}"
    );
    let unknown = play.refusal(&[decision("call_9", true)]);
    assert!(matches!(unknown, Rejected::Unknown(_)));
    assert!(play.misfit(&[edit("call_1", json!({"n": "x"}))]).contains("integer"));
    assert_eq!(play.denial_of_edit(&[edit("call_1", json!({"n": 11}))]), "at most nine");
    assert_eq!(play.run.pending().count(), 1);
}

#[test]
fn an_output_that_is_too_large_is_refused_and_the_call_waits_on() {
    let mut play = Play::new();
    play.calls(&[("where", "{}")]);
    assert!(matches!(play.refusal(&[output("call_1", json!("x".repeat(1001)))]), Rejected::TooLarge(_)));
    assert!(play.run.is_waiting());
}

#[test]
fn a_saved_run_is_the_same_run() {
    let mut play = Play::new();
    play.hear(ModelEvent::Text("so".into()));
    play.calls(&[("note", ""), ("where", "")]).answer(vec![decision("call_1", false)]);
    let state: RunState = serde_json::from_value(serde_json::to_value(&play.run.state).unwrap()).unwrap();
    let calls: Vec<Call> = serde_json::from_value(serde_json::to_value(&play.run.calls).unwrap()).unwrap();
    let records = play
        .log
        .iter()
        .map(|(seq, chunk)| (*seq, UiChunk::from_record(&chunk.to_record()).unwrap()))
        .collect();
    let saved = SavedRun {
        id: RunId::new("r"),
        message: MessageId::new("m"),
        settings: play.run.settings.clone(),
        state,
        calls,
        log: records,
    };
    let again = Run::restore(saved).unwrap();
    assert_eq!(again.snapshot(), play.run.snapshot());
    assert_eq!(again.calls, play.run.calls);
    assert!(again.is_waiting());
}

#[test]
fn a_call_that_ran_when_the_process_ended_is_not_run_again() {
    let mut play = Play::new();
    play.calls(&[("time", "{}"), ("where", "{}")]);
    play.apply("taken up", Event::Resumed);
    play.check(expect![[r#"
        > finished
        save
        park call_2
        execute call_1
        tool-input-available call_1 {}
        tool-input-available call_2 {}
        > taken up
        save
        park call_2
        tool-output-error call_1 The server was restarted while this call ran; it may or may not have had its effect.
    "#]]);
}

#[test]
fn a_step_that_was_cut_off_is_asked_for_again_and_its_places_are_not_reused() {
    let mut play = Play::new();
    let before = play.run.state.position;
    play.apply("taken up", Event::Resumed).check(expect![[r#"
        > taken up
        save
        ask
    "#]]);
    assert!(play.run.state.position > before.plus(1_000_000));
}
