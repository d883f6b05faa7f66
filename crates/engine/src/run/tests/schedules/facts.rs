//! The facts that were observed about a run so far, and the invariants that follow from them.

use std::collections::{BTreeMap, BTreeSet};

use fermata_protocol::{ApprovalId, Assembler, ChatId, ElicitationId, ToolChoice, ToolState, UiPart};
use fermata_tools::{
    ApprovalDecision, AuditAction, AuditEvent, CallState, Cancelled, Grant, Permission, StateName, Transition,
};

use super::{super::*, world::World};
use crate::{
    assistants::ClientSystem,
    context::Fit,
    model::ModelMessage,
    ports::traces::RunTrace,
    prompt::{PromptContext, prompt},
    refused::RefusedParts,
    run_tools::plan::MAKE_PLAN,
};

/// The observed facts.
#[derive(Default)]
pub(super) struct Facts {
    /// The effect that each call was run for last.
    effects: BTreeMap<ToolCallId, Effect>,
    /// The idempotency keys of all effects.
    keys: BTreeSet<String>,
    /// Each call as it was saved last.
    saved: BTreeMap<ToolCallId, SavedCall>,
    /// The form of the tool when each approval request was shown.
    pub shown_forms: BTreeMap<ApprovalId, Option<String>>,
    /// The rows of the audit.
    pub audit: Vec<AuditEvent>,
    /// The questions that were answered or withdrawn.
    pub done: BTreeSet<ElicitationId>,
    /// The gate of each step.
    pub gates: BTreeMap<u32, GateMode>,
    pub reader: ReconnectingReader,
    /// The steps that had to make a plan.
    planning: BTreeSet<u32>,
    /// The approvals that the senders of messages were shown which have decided about calls.
    shown_to_senders: BTreeSet<ApprovalId>,
    /// The calls that a person has decided about.
    decided: BTreeSet<ToolCallId>,
    /// A permission for always: a tool, and the `n` of its calls unless it is every call.
    allowed: Vec<(String, Option<Value>)>,
    /// The first knowledge of the user that the model received.
    recollection: Option<Arc<Recollection>>,
}

/// The effect of a call, with one idempotency key for all repetitions without a person.
struct Effect {
    idempotency_key: String,
    /// The actors that ran the call.
    ran: Vec<u32>,
}

/// The saved state of a call.
struct SavedCall {
    state: CallState,
    history: Vec<Transition>,
    decided: Option<bool>,
    /// The number of times that the call was asked about again.
    asked_again: usize,
    idempotency_key: Option<String>,
}

/// A reader that reconnects after each interruption, at the position that it has reached.
#[derive(Default)]
pub(super) struct ReconnectingReader {
    seen: Vec<(Position, UiChunk)>,
    pub is_disconnected: bool,
}

// === impl Facts ===

impl Facts {
    /// Checks the audit right after a commit: a call that somebody was asked about has one row when it starts and one row when it ends.
    pub fn check_audit(&self, run: &Run) {
        for call in &run.calls {
            let rows = self.audit.iter().filter(|event| event.call.as_ref() == Some(&call.id));
            let rows: Vec<AuditAction> = rows.map(|event| event.action).collect();
            let starts = rows.iter().filter(|action| **action == AuditAction::Started).count();
            let ends: Vec<usize> = (0..rows.len())
                .filter(|&row| {
                    matches!(
                        rows[row],
                        AuditAction::Succeeded
                            | AuditAction::Failed
                            | AuditAction::OutcomeUnknown
                            | AuditAction::Stopped
                            | AuditAction::Superseded
                            | AuditAction::Expired
                            | AuditAction::Cancelled
                    )
                })
                .collect();
            if !call.was_asked_about() {
                assert_eq!(starts, 0, "{rows:?} {call:?}");
                continue;
            }
            assert_eq!(starts, usize::from(call.times_run() > 0), "{rows:?} {call:?}");
            match call.state() {
                CallState::Cancelled { cancelled: Cancelled::Denied { .. } } => {
                    let denied = [AuditAction::Denied, AuditAction::RuleDenied];
                    assert!(
                        ends.is_empty() && rows.iter().any(|row| denied.contains(row)),
                        "{rows:?} {call:?}"
                    );
                }
                state if state.is_final() => assert_eq!(ends, [rows.len() - 1], "{rows:?} {call:?}"),
                _ => assert!(ends.is_empty(), "{rows:?} {call:?}"),
            }
        }
    }

    /// Checks what holds after the effects of an event were performed.
    pub fn check(&self, world: &World) {
        let Some(live) = &world.live else { return };
        let run = &world.run;
        self.check_states(run);
        check_limited_steps(run, &world.scene);
        let waiting: BTreeSet<_> =
            run.calls.iter().filter(|call| call.accepts_answer()).map(|call| call.id.clone()).collect();
        assert_eq!(live.pending_calls, waiting, "a call is pending if and only if it waits for an answer");
        match run.state.phase {
            Phase::Streaming => {
                let works = [live.is_recollecting, live.is_streaming, world.run.is_checking()];
                assert_eq!(
                    works.iter().filter(|works| **works).count(),
                    1,
                    "memories are looked for, or the model streams, or inputs are checked"
                );
            }
            Phase::Deciding => {
                assert!(run.step_calls().iter().any(|call| call.awaits_approval()), "nobody is asked")
            }
            Phase::Working => self.check_work(world),
            Phase::Over => panic!("a run that is over is live"),
        }
        let asked: BTreeSet<_> = run.elicitations().map(|elicited| elicited.id.clone()).collect();
        assert_eq!(asked, live.questions.keys().cloned().collect(), "the questions are those of tools");
        assert!(asked.is_disjoint(&self.done), "a question that is done waits again");
        assert_eq!(pending_in(&run.snapshot()), asked, "the questions shown are those that wait");
        assert_eq!(
            fold(&live.log, run).snapshot(),
            run.assembler.snapshot(),
            "readers see the run's message"
        );
        check_codes(&run.snapshot(), &run.calls);
        for call in run.step_calls() {
            assert_eq!(shown_state(&live.log, &call.id), Some(json!(call.state().name())), "{call:?}");
        }
        let mut shown = shown_status(&live.log).expect("the run has shown its status");
        let has_words = shown.as_object_mut().is_some_and(|shown| shown.remove("confirmWords").is_some());
        let takes_reply = shown.as_object_mut().is_some_and(|shown| shown.remove("takesReply").is_some());
        assert_eq!(takes_reply, run.takes_reply(), "the status tells when a message is a reply");
        let context = world.scene.context(world.now);
        assert_eq!(
            has_words,
            run.can_be_decided_in_words(&context),
            "the status has the words when they count"
        );
        assert_eq!(shown, json!(run.status()));
    }

    /// Each open call is settled by exactly one thing that it waits for.
    fn check_work(&self, world: &World) {
        let live = world.live.as_ref().unwrap();
        for call in world.run.step_calls().iter().filter(|call| !call.state().is_final()) {
            let jobs = live.jobs.iter().filter(|job| job.call == call.id).count();
            let waiters = live.waiters.iter().filter(|(id, _)| *id == call.id).count();
            let parked = usize::from(live.pending_calls.contains(&call.id));
            let queued = live.slot_waiters.iter().filter(|id| **id == call.id).count();
            let absent = usize::from(matches!(call.state().waits_for(), Some(Wait::Tool { .. })));
            let asked = usize::from(call.awaits_reply());
            assert_eq!(jobs + waiters + queued + parked + absent + asked, 1, "who settles {call:?}?");
        }
        let is_open =
            |id: &ToolCallId| world.run.calls.iter().any(|call| call.id == *id && !call.state().is_final());
        assert!(
            live.jobs.iter().all(|job| is_open(&job.call)),
            "a tool runs for a call that has its outcome"
        );
    }

    /// The history of a call only grows, and a final state never changes.
    fn check_states(&self, run: &Run) {
        for call in &run.calls {
            let history = call.history();
            assert_eq!(history[0].state, StateName::Validating);
            let follows =
                |pair: &[Transition]| pair[0].state.may_become(pair[1].state) && pair[0].at <= pair[1].at;
            assert!(history.windows(2).all(follows), "{history:?}");
            assert_eq!(history.last().unwrap().state, call.state().name());
            let Some(saved) = self.saved.get(&call.id) else { continue };
            let SavedCall { state, history: before, decided, asked_again, idempotency_key: _ } = saved;
            assert!(history.starts_with(before), "{before:?} has become {history:?}");
            assert!(!state.is_final() || state == call.state(), "{state:?} has become {:?}", call.state());
            let now = call.approval_decision.as_ref().map(|decided| decided.approved);
            let is_taken_back =
                *decided == Some(true) && now == Some(false) && state.name() == StateName::Scheduled;
            let is_asked_again = call.asked_before.len() > *asked_again && *decided == Some(true);
            assert!(
                decided.is_none() || *decided == now || is_taken_back || is_asked_again,
                "a decision about {} has changed",
                call.id
            );
            let in_words = |decided: &&ApprovalDecision| decided.how == Some(DecisionChannel::Words);
            if call.approval_decision.as_ref().filter(in_words).is_some() {
                let id = &call.approval_request.as_ref().unwrap().id;
                assert!(self.shown_to_senders.contains(id), "{id} was asked after the words were written");
            }
        }
    }

    /// A message decides whose sender was shown these approvals.
    pub fn words_came(&mut self, shown: impl Iterator<Item = ApprovalId>) {
        self.shown_to_senders.extend(shown);
    }

    pub fn call_is_saved(&mut self, call: &Call) {
        let decided = call.approval_decision.as_ref().map(|decided| decided.approved);
        let saved = SavedCall {
            state: call.state().clone(),
            history: call.history().to_vec(),
            decided,
            asked_again: call.asked_before.len(),
            idempotency_key: call.idempotency_key.clone(),
        };
        self.saved.insert(call.id.clone(), saved);
    }

    /// A call begins to run with a tool of this form.
    pub fn call_runs(&mut self, call: &Call, run: &Run, grants: &Grants, form: Option<String>, actor: u32) {
        if let (Some(_), Some(request)) = (&call.approval_decision, &call.approval_request) {
            let shown = &self.shown_forms[&request.id];
            assert_eq!(*shown, form, "{} runs in a form that nobody was shown", call.id);
        } else if call.permission() == Permission::Always {
            let is_of_form = |grant: &Grant| grant.terms.tools.get(&call.tool) == form.as_ref();
            assert!(grants.iter().any(is_of_form), "{} runs in a form that nobody allowed", call.id);
        }
        assert!(!self.planning.contains(&call.step), "{} runs in a step that makes a plan", call.id);
        let allowed = call
            .policy_decision
            .as_ref()
            .is_some_and(|policy_decision| policy_decision.decision == Decision::Allow);
        let approved = call.approval_decision.as_ref().map(|decided| decided.approved);
        assert!(approved.unwrap_or(allowed), "nobody has allowed {call:?}");
        let had_begun = run.settings.retries.as_ref().is_some_and(|retried| retried.had_begun);
        if call.retry_of.is_some() && had_begun && !is_repeatable(call) {
            assert_eq!(approved, Some(true), "nobody was asked whether {} may repeat its effect", call.id);
        }
        let by = call.policy_decision.as_ref().map(|policy_decision| policy_decision.by);
        let by_grant = if approved.is_some() {
            !self.decided.contains(&call.id)
        } else {
            by == Some(DecisionSource::Always)
        };
        let covers = |(tool, n): &(String, Option<Value>)| {
            *tool == call.tool
                && n.as_ref().is_none_or(|n| call.effective_input().value().get("n") == Some(n))
        };
        assert!(!by_grant || self.allowed.iter().any(covers), "no scope covers {call:?}");
        let is_open = |other: &Call| {
            !matches!(other.state().name(), StateName::Validating | StateName::AwaitingApproval)
        };
        if self.gates[&call.step] == GateMode::Step {
            let is_decided = |other: &Call| is_open(other) || !other.asked_before.is_empty();
            assert!(
                run.step_calls().iter().all(|other| is_decided(other)),
                "{} runs before its step is decided",
                call.id
            );
        }
        assert!(is_open(call), "{} runs before it is decided", call.id);
        let saved = &self.saved[&call.id];
        assert_eq!(
            saved.state,
            CallState::Executing { work: Work::Server },
            "{} runs before that is saved",
            call.id
        );
        let key = saved.idempotency_key.as_ref().expect("a call that runs has a key, which is saved");
        assert_eq!(call.idempotency_key.as_ref(), Some(key));
        let effect = self.effects.entry(call.id.clone()).or_insert_with(|| {
            assert!(self.keys.insert(key.clone()), "{} has the key of another effect", call.id);
            Effect { idempotency_key: key.clone(), ran: Vec::new() }
        });
        assert_eq!(effect.idempotency_key, *key, "{} is repeated with another key", call.id);
        assert!(!effect.ran.contains(&actor), "{} runs twice without a crash", call.id);
        effect.ran.push(actor);
        let most = if is_repeatable(call) { 3 } else { 1 };
        assert!(effect.ran.len() <= most, "{} runs too often", call.id);
    }

    /// A person decides about a call, perhaps for always.
    pub fn person_decides(&mut self, call: &Call, kind: Option<&AnswerKind>) {
        self.decided.insert(call.id.clone());
        if let Some(AnswerKind::Decision { approved: true, always: Some(always), input, .. }) = kind {
            let n = input.as_ref().unwrap_or(call.effective_input()).value().get("n").cloned();
            let is_by_n = always.scope.as_ref().is_some_and(|scope| scope.starts_with("n:"));
            self.allowed.push((call.tool.clone(), if is_by_n { n } else { None }));
        }
    }

    /// A person lets a call run again, as often as a person likes. That is another effect.
    pub fn person_retries(&mut self, call: &ToolCallId) {
        self.effects.remove(call);
    }

    /// Checks that outcomes and the permissions of browsers to run calls are saved before readers are shown them.
    pub fn check_shown(&self, shown: &[(Position, UiChunk)], saved: &[Call]) {
        for (_, chunk) in shown {
            if let Some(id) = settled_by(chunk) {
                let call = saved.iter().find(|call| call.id == *id).unwrap();
                assert!(call.state().is_final(), "{id} is shown settled before that is saved");
            }
            if let UiChunk::ToolInputAvailable { tool_call_id, .. } = chunk {
                let call = saved.iter().find(|call| call.id == *tool_call_id).unwrap();
                let may_run = call.times_run() > 0;
                assert!(call.runs_on_server() || may_run, "a page may run {tool_call_id} too early");
            }
        }
    }

    /// Checks what holds when a run has ended.
    pub fn check_end(&self, run: &Run, scene: &Scene, earlier: &[UiMessage], now: Timestamp) {
        self.check_states(run);
        check_trace(run, now);
        check_limited_steps(run, scene);
        let open: Vec<_> = run.calls.iter().filter(|call| !call.state().is_final()).collect();
        assert!(open.is_empty(), "a run is over and these are open: {open:?}");
        assert!(run.elicitations().next().is_none(), "a run is over and a question waits");
        for message in earlier.iter().chain([&run.snapshot()]) {
            check_codes(message, &run.calls);
        }
        self.check_prompt(run, scene, earlier);
    }

    /// The model is asked for a step.
    pub fn begins_step(&mut self, run: &Run, scene: &Scene) {
        if run.settings.plan != PlanMode::Off
            && run.tool_choice(&scene.limits) == Some(ToolChoice::Tool(MAKE_PLAN.into()))
        {
            self.planning.insert(run.state.step);
        } else {
            // The model has refused twice.
            self.planning.remove(&run.state.step);
        }
    }

    /// Checks that the model receives the same knowledge of the user in each step, from any process.
    pub fn check_recollection(&mut self, run: &Run) {
        let told = self.recollection.get_or_insert_with(|| run.state.recollection.clone().unwrap());
        assert_eq!(
            Some(&*told),
            run.state.recollection.as_ref(),
            "a run keeps the knowledge that it began with"
        );
    }

    /// Checks that the prompt has each call once, with its one result.
    pub fn check_prompt(&self, run: &Run, scene: &Scene, earlier: &[UiMessage]) {
        let message = run.snapshot();
        let messages: Vec<&UiMessage> = earlier.iter().chain([&message]).collect();
        let context = PromptContext {
            instructions: None,
            client_system: ClientSystem::Append,
            system: None,
            toolbox: &scene.toolbox,
            tool_choice: None,
            plan: None,
            suggests_plan: false,
            step_instructions: None,
            call_settings: Map::new(),
            rules: &scene.rules,
            run: Some(run),
            recollection: run.state.recollection.as_deref(),
            fit: &Fit::default(),
            output_limit: 1000,
            file_urls: &crate::model::file_urls::FileUrls::Https,
            model: "m",
            without: RefusedParts::default(),
        };
        let (mut prompted, mut open) = (Vec::new(), Vec::new());
        for sent in prompt(messages.iter().copied(), &context).messages {
            match sent {
                ModelMessage::Assistant { calls, .. } => {
                    assert!(open.is_empty(), "{open:?} have no result");
                    open = calls.into_iter().map(|call| call.id).collect();
                    prompted.extend(open.iter().cloned());
                }
                ModelMessage::Tool { call_id, .. } => {
                    let index = open.iter().position(|id| *id == call_id).expect("a result has its call");
                    open.remove(index);
                }
                ModelMessage::System(_) | ModelMessage::User(_) => {}
            }
        }
        assert!(open.is_empty(), "{open:?} have no result");
        let calls: Vec<_> = run.calls.iter().map(|call| call.id.as_str().to_owned()).collect();
        assert_eq!(prompted, calls, "the prompt has each call once");
        let parts = messages.iter().flat_map(|message| &message.parts).filter_map(UiPart::as_tool);
        let unsettled: Vec<_> = parts.filter(|part| !part.state.is_settled()).collect();
        assert!(unsettled.is_empty(), "the record leaves {unsettled:?} open");
        assert!(pending_in(&message).is_empty(), "the record leaves a question open");
    }

    /// Checks a whole log: its positions grow, and each call has at most one outcome in it.
    pub fn check_log(&self, log: &[(Position, UiChunk)]) {
        assert!(log.windows(2).all(|pair| pair[0].0 < pair[1].0), "positions grow");
        let mut settled = BTreeSet::new();
        for id in log.iter().filter_map(|(_, chunk)| settled_by(chunk)) {
            assert!(settled.insert(id), "{id} has two outcomes");
        }
        let ends =
            log.iter().position(|(_, chunk)| matches!(chunk, UiChunk::Finish { .. } | UiChunk::Error { .. }));
        assert!(ends.is_none_or(|end| end + 1 == log.len()), "something is shown after the end");
    }
}

// === impl ReconnectingReader ===

impl ReconnectingReader {
    pub fn reads(&mut self, chunks: &[(Position, UiChunk)]) {
        if !self.is_disconnected {
            self.seen.extend(chunks.iter().cloned());
        }
    }

    /// Continues after the last chunk that it has seen if the log has it, and otherwise reads from the start.
    pub fn reconnects(&mut self, log: &[(Position, UiChunk)]) {
        if !std::mem::take(&mut self.is_disconnected) {
            return assert_eq!(self.seen, log);
        }
        let last =
            self.seen.last().and_then(|(last, _)| log.binary_search_by_key(last, |(seq, _)| *seq).ok());
        if let Some(last) = last {
            assert_eq!(self.seen, log[..=last], "a position in the log was used for two chunks");
        }
        self.seen = log.to_vec();
    }
}

/// Folds the log into a message, with the decisions that only the record has.
pub(super) fn fold(log: &[(Position, UiChunk)], run: &Run) -> Assembler {
    let mut reader = Assembler::new(run.message.clone());
    for (_, chunk) in log {
        reader.apply(chunk).unwrap();
    }
    for call in &run.calls {
        if let (Some(question), Some(decided)) = (&call.approval_request, &call.approval_decision) {
            reader.decide(&question.id, decided.approved, decided.reason.as_deref());
        }
    }
    reader
}

/// Returns whether the tool of a call is repeatable.
fn is_repeatable(call: &Call) -> bool {
    matches!(call.tool.as_str(), "again" | "ledger")
}

/// Returns the state of a call that clients received last.
fn shown_state(log: &[(Position, UiChunk)], id: &ToolCallId) -> Option<Value> {
    log.iter().rev().find_map(|(_, chunk)| match chunk {
        UiChunk::Data(data) if data.kind == "data-call" && data.data["toolCallId"] == json!(id) => {
            Some(data.data["state"].clone())
        }
        _ => None,
    })
}

/// Returns the state of the run that a client received last.
fn shown_status(log: &[(Position, UiChunk)]) -> Option<Value> {
    log.iter().rev().find_map(|(_, chunk)| match chunk {
        UiChunk::Data(data) if data.kind == "data-run" => Some(data.data.clone()),
        _ => None,
    })
}

/// Checks that a message says why each of these calls has no output, if it shows one that has none.
fn check_codes(message: &UiMessage, calls: &[LiveCall]) {
    for part in message.parts.iter().filter_map(UiPart::as_tool) {
        let Some(call) = calls.iter().find(|call| call.id == part.tool_call_id) else { continue };
        match part.state {
            ToolState::OutputError { .. } | ToolState::OutputDenied { .. } => {}
            ToolState::InputStreaming { .. }
            | ToolState::InputAvailable { .. }
            | ToolState::ApprovalRequested { .. }
            | ToolState::ApprovalResponded { .. }
            | ToolState::OutputAvailable { .. } => continue,
        }
        let told = &message.metadata.as_ref().unwrap()["calls"][call.id.as_str()];
        let no_output = call.state().no_output().unwrap();
        assert_eq!((&told["state"], &told["code"]), (&json!(no_output.state), &json!(no_output.code)));
    }
}

/// Returns the questions that a message shows as pending.
pub(super) fn pending_in(message: &UiMessage) -> BTreeSet<ElicitationId> {
    let pending = message.parts.iter().filter_map(|part| match part {
        UiPart::Data(part) if part.data["state"] == "pending" => part.id.as_deref().map(ElicitationId::new),
        UiPart::Data(_)
        | UiPart::Text { .. }
        | UiPart::Reasoning { .. }
        | UiPart::File(_)
        | UiPart::StepStart
        | UiPart::Tool(_)
        | UiPart::Unknown(_) => None,
    });
    pending.collect()
}

fn settled_by(chunk: &UiChunk) -> Option<&ToolCallId> {
    match chunk {
        UiChunk::ToolOutputAvailable { tool_call_id, preliminary: None | Some(false), .. }
        | UiChunk::ToolOutputError { tool_call_id, .. }
        | UiChunk::ToolOutputDenied { tool_call_id, .. }
        | UiChunk::ToolInputError { tool_call_id, .. } => Some(tool_call_id),
        _ => None,
    }
}

/// Checks the steps where not every tool may be called: the first one if a tool was chosen, and the last one.
/// Checks that the trace of a run is one tree within the time of the run, with a span for each call that has run.
fn check_trace(run: &Run, now: Timestamp) {
    let chat = ChatId::parse("c").expect("an id");
    let spans = RunTrace::of(run, &chat, &Ending::Stopped, now, false).spans;
    let (root, others) = spans.split_first().expect("a root");
    assert!(root.parent.is_none() && others.iter().all(|span| span.parent == Some(root.id)), "{spans:#?}");
    let ids: BTreeSet<_> = spans.iter().map(|span| span.id).collect();
    assert_eq!(ids.len(), spans.len(), "a span comes twice: {spans:#?}");
    for span in others {
        assert!(
            root.started <= span.started && span.ended <= root.ended,
            "{span:#?} is outside of {root:#?}"
        );
    }
    let have_run = run.own_calls().filter(|call| call.times_run() > 0).count();
    let named = |name: &str| others.iter().filter(|span| span.name.starts_with(name)).count();
    assert_eq!(named("execute_tool "), have_run, "{spans:#?}");
}

fn check_limited_steps(run: &Run, scene: &Scene) {
    // The limit is on the requests to the model, and a step of the run's own takes none.
    let own: BTreeSet<u32> =
        run.calls.iter().filter(|call| call.fallback_of.is_some()).map(|call| call.step).collect();
    for call in &run.calls {
        let requests = call.step as usize - own.range(..=call.step).count();
        if requests >= scene.limits.steps as usize {
            assert_eq!(call.times_run(), 0, "{} runs in the last step", call.id);
        }
    }
    let Some(ToolChoice::Tool(chosen)) = &run.settings.tool_choice else { return };
    let first: Vec<_> = run.calls.iter().filter(|call| call.step == 1).collect();
    for call in first.iter().filter(|call| call.tool != *chosen) {
        assert_eq!(call.times_run(), 0, "{} runs although another tool was chosen", call.id);
    }
    if !first.iter().any(|call| call.tool == *chosen) {
        let parts = run.snapshot().parts;
        let is_of_model = |part: &UiPart| !matches!(part, UiPart::StepStart | UiPart::Data(_));
        assert!(!parts.iter().any(is_of_model), "a refused step is shown: {parts:?}");
    }
}
