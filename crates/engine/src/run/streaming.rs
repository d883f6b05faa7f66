//! The model's answer: its stream is shown as it arrives, and its calls are accepted when it has ended.
//!
//! The [`StepCollector`] assembles the step, and this module turns its changes into chunks.

use std::collections::HashMap;

use fermata_protocol::{DataChunk, JsonText, Show, SummaryReason, ToolCallId, UiChunk};
use fermata_tools::{Call, InputError, RunBy, ToolRef};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Deciding, Ending, FinishedStep, Next, Phase, Run};
use crate::{
    context::context_usage,
    model::{Citation, ModelEvent, Usage, provider_metadata},
    refused::{REFUSED, RefusedPart, refused_in},
    run_log::position::Position,
    settings::Limits,
    step::collector::{
        CollectedStep, InvalidArguments, OutputLimitExceeded, PartKind, StepChange, StepCollector,
        StepLimits, UrlSource, cut_off,
    },
};

/// The step that the model is making.
#[derive(Debug, Default)]
pub(super) struct OpenStep {
    collector: StepCollector,
    /// The id of the text or reasoning part that is open.
    part_id: String,
    /// The pages that the open text cites, as the AI SDK writes them.
    citations: Vec<Value>,
    /// The ids of the sources, by their URLs.
    source_ids: HashMap<String, String>,
    /// The index in [`Run::calls`] of each call of the collector.
    calls: Vec<usize>,
    /// The calls of a step that the model has ended, while their inputs are being checked and nothing is decided about them.
    checking: Vec<MadeCall>,
    /// The calls that the run is about to make itself, while their inputs are checked.
    pub(super) own: Vec<OwnCall>,
    /// `true` if the calls in place of failed ones were checked, and the model is asked next.
    pub(super) has_checked_fallbacks: bool,
    /// `true` while the request to the model waits for its turn.
    pub(super) is_queued: bool,
    /// The compaction that is being made before the model is asked, as it was shown.
    compaction: Option<Compaction>,
    /// The changes that are not shown before the step calls the tool that it has to call.
    held_back: Vec<StepChange>,
}

/// A call of a step that the model has ended.
#[derive(Debug)]
pub(super) struct MadeCall {
    /// The call's index in [`Run::calls`].
    pub index: usize,
    /// `true` if the model sent no arguments, so that the input is an empty object.
    pub is_bare: bool,
    /// The call's input, or the arguments that are not valid and the reason.
    pub input: Result<JsonText, InvalidArguments>,
}

/// A call that the run is about to make itself.
#[derive(Clone, Debug)]
pub(super) struct OwnCall {
    pub id: ToolCallId,
    pub tool: String,
    pub input: JsonText,
    pub cause: OwnCallCause,
}

/// The reason why a run makes a call itself.
#[derive(Clone, Debug)]
pub(super) enum OwnCallCause {
    /// This call has failed, and the new one is made in its place.
    FallbackOf(ToolCallId),
    /// A person makes this failed call again.
    RetryOf(ToolCallId),
}

/// The history being compacted, as a client is shown it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Compaction {
    /// The id of the data part.
    #[serde(skip)]
    pub id: String,
    pub state: CompactionState,
    /// The number of messages that a summary stands for then, from the first of the chat.
    pub messages: usize,
    pub reason: SummaryReason,
    pub tokens_before: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_after: Option<u64>,
}

/// The state of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CompactionState {
    /// The summary is being written.
    Running,
    /// The summary stands for the messages.
    Done,
    /// The messages are left out without a summary.
    Failed,
}

// === impl OpenStep ===

impl OpenStep {
    /// Returns whether the model has begun to speak to the person in this step, and is heard.
    pub fn speaks(&self) -> bool {
        self.held_back.is_empty() && self.collector.has_text()
    }

    /// Returns the chunk that adds a delta to the open part.
    fn grown(&self, kind: PartKind, delta: String) -> UiChunk {
        let id = self.part_id.clone();
        match kind {
            PartKind::Text => UiChunk::TextDelta { id, delta, provider_metadata: None },
            PartKind::Reasoning => UiChunk::ReasoningDelta { id, delta, provider_metadata: None },
        }
    }
}

fn step_limits(limits: &Limits) -> StepLimits {
    StepLimits {
        calls: limits.calls_per_step,
        argument_bytes: limits.argument_bytes,
        argument_nodes: limits.argument_nodes,
        output_bytes: limits.step_output_bytes,
    }
}

// === impl Run ===

impl Run {
    /// Returns whether the inputs of calls are being checked: of those of a step that the model has ended, or of the run's own.
    pub fn is_checking(&self) -> bool {
        !self.open_step.checking.is_empty() || !self.open_step.own.is_empty()
    }

    /// Copies text that continues the open part into the message, and returns its chunks. Nothing has to be decided about it, so this is the
    /// short way for most of an answer. Returns `None`, and changes nothing, if the events do anything else.
    pub fn stream_text(
        &mut self,
        events: &mut Vec<ModelEvent>,
        limits: &Limits,
    ) -> Option<Vec<(Position, UiChunk)>> {
        if self.state.phase != Phase::Streaming || self.is_checking() || self.left_over.is_some() {
            return None;
        }
        let kind = self.open_step.collector.continued_part(events, step_limits(limits))?;
        if self.chosen_tool(limits).is_some() {
            return None;
        }
        let mut chunks = Vec::with_capacity(events.len());
        for event in events.drain(..) {
            let (ModelEvent::Text(delta) | ModelEvent::Reasoning(delta)) = event else { continue };
            self.open_step.collector.continue_part(kind, &delta);
            let chunk = self.open_step.grown(kind, delta);
            self.add_chunk(&chunk);
            chunks.push((self.state.position, chunk));
        }
        Some(chunks)
    }

    fn next_part_id(&mut self, kind: &str) -> String {
        self.state.texts += 1;
        format!("{kind}-{}", self.state.texts)
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Shows an event of the model's stream, and decides about the calls if the answer has ended.
    pub(super) fn on_model_event(&mut self, event: ModelEvent) {
        if self.run.state.phase != Phase::Streaming || self.run.is_checking() {
            return;
        }
        match self.run.open_step.collector.on_event(event, step_limits(self.context.limits)) {
            Ok(changes) => {
                for change in changes {
                    self.hold_back_or_show(change);
                }
            }
            Err(OutputLimitExceeded { bytes }) => self.end_run(Ending::OutputLimit { bytes }),
        }
    }

    /// Shows a change of the step, unless the step has to call the tool that the user has chosen and does not call it yet. If it never does,
    /// nothing of it is shown or saved, and the model is asked once more. After that, the run ends.
    fn hold_back_or_show(&mut self, change: StepChange) {
        let Some(required) = self.run.chosen_tool(self.context.limits) else {
            return self.on_step_change(change);
        };
        // What is held back has begun no call, so the first call of the step is that of the required tool or comes with it.
        if !self.run.step_calls().is_empty() {
            return self.on_step_change(change);
        }
        match change {
            StepChange::CallStarted { tool } if tool == required => {
                for held_back in std::mem::take(&mut self.run.open_step.held_back) {
                    self.on_step_change(held_back);
                }
                self.on_step_change(StepChange::CallStarted { tool });
            }
            StepChange::Completed(step) => {
                let tool = required.to_owned();
                self.run.open_step = OpenStep::default();
                self.note_finished(step.usage);
                if self.run.state.is_reminded {
                    return self.end_run(Ending::ToolNotCalled { tool });
                }
                self.run.state.is_reminded = true;
                self.effects.after.next = Next::AskModel;
            }
            other => self.run.open_step.held_back.push(other),
        }
    }

    fn on_step_change(&mut self, change: StepChange) {
        self.take_back_left_over();
        match change {
            StepChange::PartStarted(kind) => {
                let name = match kind {
                    PartKind::Text => "text",
                    PartKind::Reasoning => "reasoning",
                };
                let id = self.run.next_part_id(name);
                self.run.open_step.part_id.clone_from(&id);
                let chunk = match kind {
                    PartKind::Text => UiChunk::TextStart { id, provider_metadata: None },
                    PartKind::Reasoning => UiChunk::ReasoningStart { id, provider_metadata: None },
                };
                self.publish(chunk);
            }
            StepChange::PartGrew(kind, delta) => {
                let chunk = self.run.open_step.grown(kind, delta);
                self.publish(chunk);
            }
            StepChange::PartEnded(kind) => self.show_part_end(kind),
            StepChange::CallStarted { tool } => self.start_call(tool),
            StepChange::ArgumentsGrew { call, delta } => {
                let tool_call_id = self.run.calls[self.run.open_step.calls[call]].id.clone();
                self.publish(UiChunk::ToolInputDelta { tool_call_id, input_text_delta: delta });
            }
            StepChange::CallLeftOut => {
                tracing::warn!(run = %self.run.id, "a call is left out, because its step has too many");
            }
            StepChange::ArgumentsWithoutCall { key } => {
                tracing::warn!(run = %self.run.id, key, "arguments came for a call that never began");
            }
            StepChange::File { media_type, url } => {
                self.publish(UiChunk::File { url, media_type, provider_metadata: None });
            }
            StepChange::Source(UrlSource { url, title }) => {
                let source_id = self.run.next_part_id("source");
                self.run.open_step.source_ids.insert(url.clone(), source_id.clone());
                self.publish(UiChunk::SourceUrl { source_id, url, title, provider_metadata: None });
            }
            StepChange::Citation(citation) => self.note_citation(citation),
            StepChange::Completed(step) => self.complete_answer(step),
        }
    }

    fn note_citation(&mut self, citation: Citation) {
        let Citation { url, title, start, end, passage } = citation;
        let id = self.run.open_step.source_ids.get(&url);
        let mut source = json!({"type": "source", "sourceType": "url", "id": id.unwrap_or(&url), "url": url});
        let mut cited = Map::new();
        if let Some(title) = title {
            source["title"] = title.into();
        }
        cited.insert("source".into(), source);
        for (field, place) in [("startIndex", start), ("endIndex", end)] {
            cited.extend(place.map(|place| (field.to_owned(), place.into())));
        }
        cited.extend(passage.map(|passage| ("citedText".to_owned(), passage.into())));
        self.run.open_step.citations.push(cited.into());
    }

    fn start_call(&mut self, tool: String) {
        let id = ToolCallId::new(self.context.ids.next("call_"));
        self.run.open_step.calls.push(self.run.calls.len());
        self.begin_call(id, tool, None);
    }

    /// Adds a call without its input to the step, and shows that it begins.
    pub(super) fn begin_call(&mut self, id: ToolCallId, tool: String, own: Option<OwnCallCause>) {
        self.take_back_left_over();
        let spec = self.context.toolbox.find(&tool).map(ToolRef::spec);
        let run_by = spec.map(|spec| spec.run_by);
        let mut call = Call::new(id, self.run.state.step, tool, run_by, self.context.now);
        match own {
            Some(OwnCallCause::FallbackOf(failed)) => call.fallback_of = Some(failed),
            Some(OwnCallCause::RetryOf(failed)) => call.retry_of = Some(failed),
            None => {}
        }
        call.presentation.title = spec.and_then(|spec| spec.title.clone());
        call.presentation.server = spec.and_then(|spec| spec.server.clone());
        self.publish(UiChunk::ToolInputStart {
            tool_call_id: call.id.clone(),
            tool_name: call.tool.clone(),
            input_encoding: None,
            provider_executed: None,
            provider_metadata: None,
            tool_metadata: None,
            dynamic: dynamic(&call),
            title: call.presentation.title.clone(),
        });
        self.run.calls.push(call.into());
    }

    /// Has the inputs of a complete answer checked. If the answer was cut off, its calls have failed, and the run is over.
    fn complete_answer(&mut self, step: CollectedStep) {
        self.note_finished(step.usage);
        let reason = step.finish_reason;
        let calls: Vec<_> =
            std::mem::take(&mut self.run.open_step).calls.into_iter().zip(step.calls).collect();
        // A step without output has to stay empty.
        if !step.text.is_empty() || !calls.is_empty() {
            let of_calls = calls.iter().filter_map(|(index, call)| {
                Some((&self.run.call(*index).id, call.provider_metadata.as_ref()?))
            });
            if let Some(chunk) = provider_metadata::chunk(step.provider_metadata.as_ref(), of_calls) {
                self.publish(chunk);
            }
        }
        if let Some(error) = cut_off(reason) {
            for (index, call) in calls {
                self.call_mut(index).input = call.into_received();
                self.fail(index, error.clone());
            }
            return self.finish(reason);
        }
        if calls.is_empty() {
            return self.finish(reason);
        }
        if self.run.is_last_step(self.context.limits) {
            // The request allowed no calls.
            for (index, call) in calls {
                self.call_mut(index).input = call.into_received();
            }
            return self.end_run(Ending::StepLimit);
        }
        for (index, call) in calls {
            let has_arguments = call.has_arguments();
            let input = call.into_input(reason);
            let is_bare = !has_arguments && input.is_ok();
            let made = self.run.call(index);
            let input = match (input, self.context.toolbox.find(&made.tool)) {
                (Ok(input), Some(found)) => {
                    let input = found.intended_input(input);
                    self.effects.before.checks.push((made.id.clone(), found.check_of(input.clone())));
                    Ok(input)
                }
                (Ok(received), None) => {
                    let error_text = self.context.toolbox.unknown_tool(&made.tool).text;
                    Err(InvalidArguments { received, error_text })
                }
                (Err(invalid), _) => Err(invalid),
            };
            self.run.open_step.checking.push(MadeCall { index, is_bare, input });
        }
        if self.effects.before.checks.is_empty() {
            self.on_inputs_checked(Vec::new());
        }
    }

    /// Notes that the model has finished a step.
    fn note_finished(&mut self, usage: Option<Usage>) {
        let step = FinishedStep { step: self.run.state.step, ended: self.context.now, usage };
        self.run.state.steps.push(step);
        if let Some(usage) = usage {
            *self.run.state.usage.get_or_insert_default() += usage;
            self.show_context(usage.input_tokens);
        }
    }

    /// Tells the client how full the model's window is, if it has asked for that.
    fn show_context(&mut self, input_tokens: u64) {
        if !self.run.state.show.contains(&Show::Context) {
            return;
        }
        self.publish_transient("data-context", json!(context_usage(input_tokens, self.context.window)));
    }

    pub(super) fn on_compaction(&mut self, compaction: Compaction) {
        self.show_compaction(&compaction);
        let is_running = compaction.state == CompactionState::Running;
        self.run.open_step.compaction = if is_running { Some(compaction) } else { None };
    }

    /// Tells the client that the history is compacted, if it has asked for that.
    fn show_compaction(&mut self, compaction: &Compaction) {
        if !self.run.state.show.contains(&Show::Context) {
            return;
        }
        let (kind, id) = ("data-compaction".to_owned(), Some(compaction.id.clone()));
        self.publish(UiChunk::Data(DataChunk { kind, id, data: json!(compaction), transient: None }));
    }

    /// Notes in the message's metadata which parts of the chat the provider has refused.
    pub(super) fn on_parts_refused(&mut self, parts: Vec<RefusedPart>) {
        let mut refused = refused_in(&self.run.message_so_far());
        refused.extend(parts);
        if !self.context.shows_model_errors {
            for part in &mut refused {
                part.reason = None;
            }
        }
        self.publish(UiChunk::MessageMetadata { message_metadata: json!({ REFUSED: refused }) });
    }

    /// Decides about the step's calls, whose inputs were checked.
    pub(super) fn on_inputs_checked(&mut self, results: Vec<(ToolCallId, Result<(), InputError>)>) {
        if !self.run.open_step.own.is_empty() {
            return self.on_own_calls_checked(results);
        }
        let mut made = std::mem::take(&mut self.run.open_step.checking);
        if made.is_empty() {
            return;
        }
        for (id, result) in results {
            let Some(MadeCall { index, input, .. }) =
                made.iter_mut().find(|made| self.run.call(made.index).id == id)
            else {
                continue;
            };
            let (Err(error), Some(found)) = (result, self.context.toolbox.find(&self.run.call(*index).tool))
            else {
                continue;
            };
            let received = match input {
                Ok(input) => std::mem::take(input),
                Err(invalid) => std::mem::take(&mut invalid.received),
            };
            *input = Err(InvalidArguments { received, error_text: found.validation_error(&error).text });
        }
        self.decide_step(made);
    }

    /// Ends the text or reasoning that is open.
    fn close_part(&mut self) {
        if let Some(kind) = self.run.open_step.collector.end_part() {
            self.show_part_end(kind);
        }
    }

    fn show_part_end(&mut self, kind: PartKind) {
        let id = std::mem::take(&mut self.run.open_step.part_id);
        let citations = std::mem::take(&mut self.run.open_step.citations);
        self.publish(part_end(kind, id, citations));
    }

    /// Ends the open parts of a step when the run ends. The arguments of calls that are incomplete or unchecked are kept.
    pub(super) fn abandon_step(&mut self) {
        self.keep_left_over();
        // A part that is held back is not open for anybody.
        if self.run.open_step.held_back.is_empty() {
            self.close_part();
        }
        let OpenStep { collector, calls, checking, compaction, .. } = std::mem::take(&mut self.run.open_step);
        if let Some(mut compaction) = compaction {
            compaction.state = CompactionState::Failed;
            self.show_compaction(&compaction);
        }
        for (index, call) in calls.into_iter().zip(collector.into_calls()) {
            self.call_mut(index).input = call.into_received();
        }
        for MadeCall { index, input, .. } in checking {
            self.call_mut(index).input = input.unwrap_or_else(|invalid| invalid.received);
        }
    }
}

/// Returns the chunk that ends a part, with the citations of a text.
pub(super) fn part_end(kind: PartKind, id: String, citations: Vec<Value>) -> UiChunk {
    match kind {
        PartKind::Text => {
            let citations = if citations.is_empty() { None } else { Some(citations.into()) };
            UiChunk::TextEnd { id, citations, provider_metadata: None }
        }
        PartKind::Reasoning => UiChunk::ReasoningEnd { id, provider_metadata: None },
    }
}

/// Returns the value of a part's `dynamic` field: pages have no types for the tools of MCP servers, and none for tools that do not exist.
pub(super) fn dynamic(call: &Call) -> Option<bool> {
    matches!(call.run_by, None | Some(RunBy::Mcp)).then_some(true)
}
