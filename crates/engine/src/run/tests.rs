//! Tests of runs as transcripts: a line with `>` is an event, and the lines below it are its effects.

mod activity;
mod always;
mod answers;
mod call_status;
mod changed_tools;
mod chosen_tool;
mod closing;
mod cut_off;
mod elicitations;
mod gate;
mod newest_rules;
mod planning;
mod recovery;
mod retry;
mod schedules;
mod stage;
mod streaming;
mod taking_back;
mod transcript;
mod votes;
mod working;

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
    Always, Answer, AnswerKind, AnswerTarget, DataChunk, FinishReason, JsonText, MessageId, PostedTool,
    Profile, RunId, Show, UiChunk,
};
use fermata_tools::{
    AuditEvent, CallContext, Check, Checker, Decision, DecisionChannel, DecisionSource, DefaultPolicy,
    Elicitation, GateMode, Owner, Policy, PolicyDecision, Resource, RunBy, Scope, StateName, Tool, ToolError,
    ToolSpec, Toolbox, Wait,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use self::transcript::{brief, line, print};
use super::*;
use crate::model::{ModelError, ModelEvent};

struct FakeTool(&'static str, Decision);

#[async_trait]
impl Tool for FakeTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.0.into(),
            title: None,
            description: String::new(),
            input_schema: json!({"type": "object", "properties": {"n": {"type": "integer"}}}).into(),
            run_by: RunBy::Server,
            server: None,
            policy: self.1,
            resource: None,
            timeout: None,
            repeatable: false,
            annotations: None,
        }
    }

    /// All calls of the tool, or those with the same `n`.
    fn scopes(&self, input: &Value) -> Option<Vec<Scope>> {
        let by_n = input.get("n").map(|n| Scope::new(format!("n:{n}"), n.to_string(), format!("n is {n}")));
        Some(std::iter::once(Scope::tool(self.0)).chain(by_n).collect())
    }

    async fn call(&self, _: JsonText, _: CallContext) -> Result<Value, ToolError> {
        Err(ToolError::internal("a transcript runs nothing"))
    }
}

/// Makes each `n` of `file` a resource, and `again` repeatable.
fn configure_spec(spec: &mut ToolSpec) {
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
        profile: Profile::V6,
        hold: RunHold::For(Duration::from_secs(60)),
        show: BTreeSet::new(),
        settings: RunSettings {
            started: Timestamp::UNIX_EPOCH,
            requester: Arc::new(Owner::new("alice").into()),
            model: "model".into(),
            assistant: None,
            chosen_model: None,
            remembers: false,
            tools,
            system: None,
            call_settings: Map::new(),
            tool_choice: None,
            plan: PlanMode::Off,
            wants_plan: false,
            open_plan: None,
            retries: None,
            traceparent: None,
        },
    }
}

#[derive(Default)]
struct Counting(AtomicUsize, AtomicUsize);

impl Ids for Counting {
    fn next(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn next_idempotency_key(&self) -> String {
        format!("key_{}", self.1.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn next_number(&self) -> u64 {
        unreachable!("a run saves nothing by itself")
    }
}

/// Denies inputs whose `n` is over 9; otherwise the tools' defaults count.
struct NothingOverNine;

impl Policy for NothingOverNine {
    fn decide(&self, requester: &Principal, tool: &ToolSpec, input: &Value) -> PolicyDecision {
        if input["n"].as_i64().is_some_and(|n| n > 9) {
            return PolicyDecision {
                reason: Some("at most nine".into()),
                ..PolicyDecision::new(Decision::Deny, DecisionSource::Rule(1))
            };
        }
        DefaultPolicy.decide(requester, tool, input)
    }
}

/// A run, its context, and the transcript so far.
struct Play {
    run: Run,
    scene: Scene,
    now: Timestamp,
    /// All chunks that readers were shown.
    log: Vec<(Position, UiChunk)>,
    /// The effects of the last event.
    effects: Effects,
    transcript: String,
}

/// The owned parts of a [`Context`].
struct Scene {
    ids: Counting,
    toolbox: Toolbox,
    rules: Rules,
    /// The policy that came into force after the run's step began.
    newest: Option<Arc<dyn Policy>>,
    requester: Arc<Principal>,
    chat: ChatId,
    limits: Limits,
    grants: Grants,
    /// The size of the chat's other messages.
    other_bytes: usize,
    shows_model_errors: bool,
}

impl Scene {
    fn new(toolbox: Toolbox) -> Self {
        Self {
            ids: Counting::default(),
            toolbox,
            rules: Rules { policy: Arc::new(NothingOverNine), ..Rules::default() },
            newest: None,
            requester: Arc::new(Owner::new("alice").into()),
            chat: ChatId::new("chat"),
            limits: Limits { steps: 3, output_bytes: 1000, parked_calls: 3, ..Limits::default() },
            grants: Grants::default(),
            other_bytes: 0,
            shows_model_errors: false,
        }
    }

    /// The owner of the chat, who decides.
    fn decider(&self, how: DecisionChannel) -> Decider {
        Decider::new(Principal::clone(&self.requester), how, None)
    }

    fn context(&self, now: Timestamp) -> Context<'_> {
        Context {
            now,
            ids: &self.ids,
            toolbox: &self.toolbox,
            rules: &self.rules,
            newest: self.newest.clone().unwrap_or_else(|| self.rules.policy.clone()),
            requester: self.requester.clone(),
            chat: &self.chat,
            limits: &self.limits,
            expire: Duration::from_secs(3600),
            grants: &self.grants,
            other_bytes: self.other_bytes,
            shows_model_errors: self.shows_model_errors,
            window: None,
        }
    }
}

impl Play {
    fn new() -> Self {
        let tools: Vec<Arc<dyn Tool>> = vec![
            Arc::new(FakeTool("time", Decision::Allow)),
            Arc::new(FakeTool("note", Decision::Ask)),
            Arc::new(FakeTool("file", Decision::Allow)),
            Arc::new(FakeTool("again", Decision::Allow)),
        ];
        let posted = vec![posted("where"), posted("color")];
        let toolbox = Toolbox::new(tools, configure_spec).0.with_saved_tools(&posted);
        let now = Timestamp::UNIX_EPOCH;
        let mut play = Self {
            run: Run::new(run_request(posted)),
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
        let awaited: Vec<_> = self.run.awaited().collect();
        let mut effects = self.run.apply(event, &context);
        check_inputs(&mut self.run, &context, &mut effects);
        writeln!(self.transcript, "> {what}").unwrap();
        print(&effects, &awaited, &self.run.awaited().collect::<Vec<_>>(), &mut self.transcript);
        self.log.extend(effects.after.publish.iter().cloned());
        for (_, grant) in &effects.commit.grants {
            self.scene.grants.add(grant.clone());
        }
        self.effects = effects;
        self
    }

    fn receive(&mut self, event: ModelEvent) -> &mut Self {
        let what = match &event {
            ModelEvent::Finished { .. } => "finished".to_owned(),
            other => format!("{other:?}"),
        };
        self.apply(&what, Event::Model(vec![event]))
    }

    /// Streams these calls and the end of the step. The transcript begins after the calls.
    fn calls(&mut self, calls: &[(&str, &str)]) -> &mut Self {
        self.calls_until(FinishReason::Stop, calls)
    }

    /// As [`Play::calls`], for an answer that ends for this reason.
    fn calls_until(&mut self, reason: FinishReason, calls: &[(&str, &str)]) -> &mut Self {
        for (key, (tool, arguments)) in calls.iter().enumerate() {
            self.receive(ModelEvent::CallStart { key, tool: (*tool).into() });
            self.receive(ModelEvent::CallDelta { key, arguments: (*arguments).into() });
        }
        self.transcript.clear();
        self.receive(ModelEvent::Finished { reason, usage: None })
    }

    fn settle(&mut self, call: &str, outcome: Result<Value, &str>) -> &mut Self {
        let event = Event::Settled(ToolCallId::new(call), outcome.map_err(ToolError::internal));
        self.apply(&format!("settled {call}"), event)
    }

    fn answer(&mut self, answers: Vec<Answer>) -> &mut Self {
        let what = format!("answered {}", answers.iter().map(brief).collect::<Vec<_>>().join(", "));
        let valid = self.validate(&answers).unwrap();
        self.apply(&what, Event::Answered(valid.answers))
    }

    fn validate(&self, answers: &[Answer]) -> Result<Validation, Rejected> {
        let by = self.scene.decider(DecisionChannel::Api);
        self.run.validate(answers, &by, &self.scene.context(self.now))
    }

    fn refusal(&self, answers: &[Answer]) -> Rejected {
        self.validate(answers).unwrap_err()
    }

    /// Returns the reason why a rule denies an edit.
    fn denial_of_edit(&self, answers: &[Answer]) -> String {
        match self.refusal(answers) {
            Rejected::Denied(event) => event.reason.unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the schema errors of the inputs of these answers.
    fn schema_errors(&self, answers: &[Answer]) -> String {
        let checks = answers.iter().filter_map(|answer| self.run.check_of(answer, &self.scene.toolbox));
        let errors = checks.filter_map(|check| CHECKER.check_here(&check).err());
        errors.map(|error| error.to_string()).collect()
    }

    fn end(&mut self, ending: Ending) -> &mut Self {
        self.apply(ending.name(), Event::Ended(ending.clone()))
    }

    fn detach(&mut self) -> &mut Self {
        self.apply("hold ended", Event::HoldEnded);
        for chunk in detach_chunks() {
            writeln!(self.transcript, "readers: {}", line(&chunk)).unwrap();
        }
        self
    }

    fn with(rules: impl FnOnce(Rules) -> Rules) -> Self {
        let mut play = Self::new();
        play.scene.rules = rules(play.scene.rules);
        play
    }

    fn grant_lock(&mut self, call: &str) -> &mut Self {
        self.apply(
            &format!("lock granted to {call}"),
            Event::Admission(vec![(ToolCallId::new(call), Admission::Granted)]),
        )
    }

    fn asks(&mut self, call: &str) -> &mut Self {
        let event = Event::Elicits(ToolCallId::new(call), question());
        self.apply(&format!("{call} asks"), event);
        assert!(matches!(self.effects.after.elicited, Some(Ok(_))));
        self
    }

    /// Ends the process, and resumes the run from its saved state.
    fn crash(&mut self) -> &mut Self {
        let saved = SavedRun {
            id: self.run.id.clone(),
            message: self.run.message.clone(),
            settings: self.run.settings.clone(),
            state: serde_json::from_value(serde_json::to_value(&self.run.state).unwrap()).unwrap(),
            calls: serde_json::from_value(
                serde_json::to_value(self.run.all_calls().collect::<Vec<_>>()).unwrap(),
            )
            .unwrap(),
            log: self.log.clone(),
        };
        self.run = Run::restore(saved).unwrap();
        self.apply("resumed", Event::Resumed)
    }

    fn history(&self, call: &str) -> String {
        let call = self.run.calls.iter().find(|known| known.id.as_str() == call).unwrap();
        call.history().iter().map(|entered| entered.state.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn ruled(&self) -> Vec<Option<(Decision, DecisionSource)>> {
        let policy_decision = |call: &Call| {
            call.policy_decision
                .as_ref()
                .map(|policy_decision| (policy_decision.decision, policy_decision.by))
        };
        self.run.all_calls().map(policy_decision).collect()
    }

    fn later(&mut self, milliseconds: i64) -> &mut Self {
        self.now += SignedDuration::from_millis(milliseconds);
        self
    }

    /// Returns the durations of the calls in the metadata of the finished message.
    fn told_of_calls(&self) -> Value {
        self.run.snapshot().metadata.expect("a message that is finished")["calls"].clone()
    }

    fn check(&mut self, expected: Expect) -> &mut Self {
        expected.assert_eq(&std::mem::take(&mut self.transcript));
        let calls: Vec<&Call> = self.run.step_calls().iter().map(|live| &live.call).collect();
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
        self
    }
}

static CHECKER: std::sync::LazyLock<Checker> = std::sync::LazyLock::new(Checker::new);

/// Performs the checks of inputs at once.
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
    let kind = AnswerKind::Decision { approved, reason: None, always: None, input: None };
    Answer { of: AnswerTarget::Call(ToolCallId::new(call)), kind }
}

fn edited(call: &str, input: Value) -> Answer {
    let kind = AnswerKind::Decision { approved: true, reason: None, always: None, input: Some(input.into()) };
    Answer { of: AnswerTarget::Call(ToolCallId::new(call)), kind }
}

fn always_in(call: &str, scope: &str) -> Answer {
    let always = Some(Always { scope: Some(scope.into()), ..Always::default() });
    let kind = AnswerKind::Decision { approved: true, reason: None, always, input: None };
    Answer { of: AnswerTarget::Call(ToolCallId::new(call)), kind }
}

fn always(call: &str) -> Answer {
    let kind =
        AnswerKind::Decision { approved: true, reason: None, always: Some(Always::default()), input: None };
    Answer { of: AnswerTarget::Call(ToolCallId::new(call)), kind }
}

fn question() -> Elicitation {
    let requested_schema =
        json!({"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]});
    Elicitation { message: "How big?".into(), requested_schema, server: None, other_candidates: Vec::new() }
}
