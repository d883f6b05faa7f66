//! The request to the model, made from the record.
//!
//! Invariants: every call in the request has exactly one result, right after the message that made it; ids of calls are unique and short;
//! names and inputs have a form that providers accept. The next step can be requested for any record.

use std::collections::HashSet;

use fermata_protocol::{
    FilePart, Plan, Role, ToolChoice, ToolPart, ToolState, UiMessage, UiPart, denial_text,
};
use fermata_tools::{Cancelled, ChainMode, RunBy, ToolRef, ToolSpec, Toolbox};
use serde_json::{Map, Value, json};

use crate::{
    assistants::{ClientSystem, call_settings::call_settings},
    context::Fit,
    memories::Recollection,
    model::{
        ModelCall, ModelContent, ModelMessage, ModelRequest, ModelTool,
        content::{EDITED, failure_text, tool_content, tool_result_text},
        file_urls::FileUrls,
        provider_metadata::StepMetadata,
    },
    refused::{REFUSED_MESSAGE, RefusedParts, refused_result},
    run::{EDITED_FIELDS, LAST_OUTPUT, Run, RunSettings},
    run_tools::{self, plan},
    services::{PolicySnapshot, Rules},
    settings::Settings,
};

/// The length of the last preliminary output in the text for a call that has ended without an output, in characters.
const LAST_OUTPUT_CHARACTERS: usize = 1_000;

/// The block of the system message for a model whose further calls of a step do not run.
const ONE_CALL: &str = "Make one tool call at a time, and wait for its result before the next one. Further calls in the same answer do not run.";

/// The parts of a request that do not come from the messages.
pub(crate) struct PromptContext<'a> {
    /// The instructions of the assistant.
    pub instructions: Option<&'a str>,
    pub client_system: ClientSystem,
    /// The instructions that the page has posted with the run.
    pub system: Option<&'a str>,
    pub toolbox: &'a Toolbox,
    pub tool_choice: Option<ToolChoice>,
    /// The plan of the run, if there is one.
    pub plan: Option<Plan>,
    /// `true` if the prompt suggests a plan.
    pub suggests_plan: bool,
    /// The instructions for this step alone.
    pub step_instructions: Option<String>,
    /// The settings of the call, by the AI SDK's names.
    pub call_settings: Map<String, Value>,
    /// The rules, which decide the consequences of failures.
    pub rules: &'a Rules,
    /// The open run, which knows its failures.
    pub run: Option<&'a Run>,
    /// The limit on the text of one output, in bytes.
    pub output_limit: usize,
    /// Decides which files the model gets by URL.
    pub file_urls: &'a FileUrls,
    /// The knowledge of the user.
    pub recollection: Option<&'a Recollection>,
    /// The part of the history that is sent. The messages that it leaves out are not handed in.
    pub fit: &'a Fit,
    /// The model that is asked.
    pub model: &'a str,
    /// The parts that are left out, besides those that the provider of the model has refused before.
    pub without: RefusedParts,
}

impl<'a> PromptContext<'a> {
    /// Returns the context of a run that was asked for with these settings.
    pub fn new(
        policies: &'a PolicySnapshot,
        settings: &'a Settings,
        of_run: &'a RunSettings,
        toolbox: &'a Toolbox,
        run: Option<&'a Run>,
        fit: &'a Fit,
    ) -> Self {
        let (assistant, model) = of_run.answering(policies);
        let Settings { limits, file_urls, .. } = settings;
        Self {
            instructions: assistant.instructions.as_deref(),
            client_system: assistant.client_system,
            system: of_run.system.as_deref(),
            toolbox,
            tool_choice: run.and_then(|run| run.tool_choice(limits)),
            plan: run.and_then(Run::plan),
            suggests_plan: run.is_some_and(Run::suggests_plan),
            step_instructions: run.and_then(|run| run.step_instructions(limits)),
            call_settings: call_settings(&of_run.call_settings, model, limits.output_tokens),
            rules: &policies.rules,
            run,
            output_limit: limits.model_output_bytes,
            file_urls,
            recollection: run.and_then(|run| run.state.recollection.as_deref()),
            fit,
            model: model.model.name(),
            without: RefusedParts::default(),
        }
    }
}

/// Builds the request for the next step.
pub(crate) fn prompt<'a>(
    messages: impl Iterator<Item = &'a UiMessage>,
    context: &PromptContext<'_>,
) -> ModelRequest {
    let messages: Vec<&UiMessage> = messages.collect();
    let mut refused = RefusedParts::of(&messages, context.model);
    refused.extend(&context.without);
    let mut history = History { refused, ..History::default() };
    let last_user = messages.iter().rposition(|message| message.role == Role::User);
    let mut of_page: Vec<String> = context.system.map(str::to_owned).into_iter().collect();
    of_page.extend(context.fit.instructions.iter().cloned());
    for (at, message) in messages.into_iter().enumerate() {
        match message.role {
            Role::System => of_page.push(text_of(&message.parts)),
            Role::User if history.refused.has_message(&message.id) => {
                history
                    .messages
                    .push(ModelMessage::User(vec![ModelContent::Text(REFUSED_MESSAGE.to_owned())]));
            }
            Role::User => {
                let mut content: Vec<ModelContent> = message.parts.iter().filter_map(user_content).collect();
                let mut note = String::new();
                if Some(at) == last_user {
                    note.extend(context.recollection.and_then(Recollection::note));
                    note.extend(context.plan.as_ref().and_then(plan::note));
                }
                if !note.is_empty() {
                    let text = content.iter_mut().find_map(|piece| match piece {
                        ModelContent::Text(text) => Some(text),
                        ModelContent::File { .. } => None,
                    });
                    match text {
                        Some(text) => text.insert_str(0, &note),
                        None => content.insert(0, ModelContent::Text(note)),
                    }
                }
                history.refused.replace_files(&mut content);
                if !content.is_empty() {
                    history.messages.push(ModelMessage::User(content));
                }
            }
            Role::Assistant => {
                for step in message.parts.split(|part| *part == UiPart::StepStart) {
                    history.add_step(step, context);
                }
            }
        }
    }
    // There is one system message, because some providers refuse a second one, or one that is not the first.
    let mut system: Vec<String> = context.instructions.map(str::to_owned).into_iter().collect();
    system.extend(context.run.and_then(Run::told_of_consent).map(str::to_owned));
    system.extend(context.step_instructions.clone());
    let makes_one_call = context.rules.chain == ChainMode::One && context.toolbox.specs().next().is_some();
    if makes_one_call {
        system.push(ONE_CALL.to_owned());
    }
    system.extend(context.run.and_then(Run::told_of_dead_tools));
    let is_of_run = |name: &str| context.toolbox.find(name).is_some_and(ToolRef::is_of_run);
    for tool in run_tools::ALL {
        if is_of_run(tool.name()) {
            system.extend(tool.instructions(context.suggests_plan).map(str::to_owned));
        }
    }
    system.extend(context.recollection.and_then(Recollection::block));
    if context.client_system == ClientSystem::Append {
        system.extend(of_page);
    }
    // The plan of the run is newer than that of the summary.
    system.extend(context.fit.summary.as_deref().map(|covered| covered.block(context.plan.is_none())));
    system.retain(|text| !text.is_empty());
    if !system.is_empty() {
        history.messages.insert(0, ModelMessage::System(system.join("\n\n")));
    }
    context.file_urls.apply_to_messages(&mut history.messages);
    let dead = context.run.map(Run::dead_tools).unwrap_or_default();
    let mut offered: Vec<&ToolSpec> =
        context.toolbox.specs().filter(|spec| !dead.contains(spec.name.as_str())).collect();
    // A provider may take fewer. MCP servers often have many that nobody needs.
    offered.sort_by_key(|spec| match spec.run_by {
        RunBy::Server if is_of_run(&spec.name) => 0,
        RunBy::Server => 1,
        RunBy::Browser => 2,
        RunBy::Mcp => 3,
    });
    let tools = offered.into_iter().map(|spec| ModelTool {
        name: spec.name.clone(),
        description: spec.description.clone(),
        input_schema: spec.input_schema.clone(),
    });
    let mut settings = context.call_settings.clone();
    if makes_one_call {
        settings.insert("parallelToolCalls".to_owned(), false.into());
    }
    ModelRequest {
        messages: history.messages,
        tools: tools.collect(),
        tool_choice: context.tool_choice.clone(),
        settings,
        error_policy: context.rules.error_policy.clone(),
        traceparent: None,
    }
}

/// The messages of a request.
#[derive(Default)]
struct History {
    messages: Vec<ModelMessage>,
    /// The ids of all calls in `messages`.
    ids: HashSet<String>,
    /// The parts that the provider has refused.
    refused: RefusedParts,
}

impl History {
    fn add_step(&mut self, parts: &[UiPart], context: &PromptContext<'_>) {
        let mut calls = Vec::new();
        let mut results = Vec::new();
        let mut metadata = StepMetadata::of(parts);
        for part in parts.iter().filter_map(UiPart::as_tool) {
            // A call that is left in this state was never made: its arguments never became complete, and it has no result.
            if matches!(part.state, ToolState::InputStreaming { .. }) {
                continue;
            }
            let (call_id, tool) = (self.unique_id(part), tool_name(part.name.as_str()));
            let content = if self.refused.has_result(&part.tool_call_id) {
                tool_result_text(refused_result(part), context.output_limit)
            } else {
                let mut content = result_of(part, context);
                self.refused.replace_files(&mut content);
                content
            };
            let input = match part.state.input() {
                Some(input) if input.is_object() => input.clone(),
                Some(_) | None => json!({}).into(),
            };
            let provider_metadata = metadata.calls.remove(&part.tool_call_id);
            calls.push(ModelCall { id: call_id.clone(), tool: tool.clone(), input, provider_metadata });
            results.push(ModelMessage::Tool { call_id, tool, content });
        }
        let text = text_of(parts);
        let reasoning: String = parts.iter().filter_map(reasoning).collect();
        if text.is_empty() && calls.is_empty() {
            return;
        }
        match self.messages.last_mut() {
            // What the model says goes on without a result or a word of the user between, as after a call that a person has made again. Some
            // providers refuse two answers in a row.
            Some(ModelMessage::Assistant {
                reasoning: before,
                text: said,
                calls: made,
                provider_metadata: metadata_before,
            }) => {
                before.push_str(&reasoning);
                if !said.is_empty() && !text.is_empty() {
                    said.push_str("\n\n");
                }
                said.push_str(&text);
                made.extend(calls);
                if metadata.answer.is_some() {
                    *metadata_before = metadata.answer;
                }
            }
            Some(ModelMessage::System(_) | ModelMessage::User(_) | ModelMessage::Tool { .. }) | None => {
                let provider_metadata = metadata.answer;
                self.messages.push(ModelMessage::Assistant { reasoning, text, calls, provider_metadata });
            }
        }
        self.messages.extend(results);
    }

    fn unique_id(&mut self, part: &ToolPart) -> String {
        let given = part.tool_call_id.as_str();
        let is_valid = (1..=40).contains(&given.len())
            && given.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        let base = if is_valid { given } else { "call" };
        let mut id = base.to_owned();
        let mut copies = 1;
        while !self.ids.insert(id.clone()) {
            copies += 1;
            id = format!("{}_{copies}", &base[..base.len().min(30)]);
        }
        id
    }
}

/// Returns the result of a call as the model gets it.
fn result_of(part: &ToolPart, context: &PromptContext<'_>) -> Vec<ModelContent> {
    let limit = context.output_limit;
    match &part.state {
        ToolState::OutputAvailable { output, .. } if context.fit.cleared.contains(&part.tool_call_id) => {
            vec![ModelContent::Text(cleared_text(part, output))]
        }
        ToolState::OutputAvailable { output, .. } => {
            let mut content = tool_content(output, limit);
            let hint = context.run.and_then(|run| run.hint(&part.tool_call_id, context.rules));
            for line in edited_text(part).into_iter().chain(hint.map(str::to_owned)) {
                match content.last_mut() {
                    Some(ModelContent::Text(text)) => *text = format!("{text}\n{line}"),
                    Some(ModelContent::File { .. }) | None => content.push(ModelContent::Text(line)),
                }
            }
            content
        }
        ToolState::OutputError { error_text, .. } => {
            let hint = context.run.and_then(|run| run.hint(&part.tool_call_id, context.rules));
            let mut text = error_text.clone();
            if let Some(edited) = edited_text(part) {
                text = format!("{text}\n{edited}");
            }
            if let Some(last) = metadata_of(part, LAST_OUTPUT) {
                let shown = last.as_str().map_or_else(|| last.to_string(), str::to_owned);
                let clipped: String = shown.chars().take(LAST_OUTPUT_CHARACTERS).collect();
                text = format!("{text}\nIt had reported: {clipped}");
            }
            tool_result_text(failure_text(&text, hint), limit)
        }
        ToolState::OutputDenied { error_text: Some(error_text), .. } => tool_result_text(error_text, limit),
        // A history that a client has sent has the reason in the approval, if at all.
        ToolState::OutputDenied { .. } => {
            let reason = part.approval.as_ref().and_then(|approval| approval.reason.as_deref());
            tool_result_text(denial_text(reason), limit)
        }
        ToolState::InputStreaming { .. }
        | ToolState::InputAvailable { .. }
        | ToolState::ApprovalRequested { .. }
        | ToolState::ApprovalResponded { .. } => tool_result_text(Cancelled::RunEnded.text(), limit),
    }
}

fn metadata_of<'a>(part: &'a ToolPart, key: &str) -> Option<&'a Value> {
    part.extra.get("toolMetadata")?.get(key)
}

/// Returns the line about an input that is not the model's own any more, because a person has changed it.
fn edited_text(part: &ToolPart) -> Option<String> {
    let fields = metadata_of(part, EDITED_FIELDS)?.as_array()?;
    let names: Vec<&str> = fields.iter().filter_map(Value::as_str).collect();
    Some(if names.is_empty() {
        EDITED.to_owned()
    } else {
        format!("[A person changed the input of this call before it ran: {}.]", names.join(", "))
    })
}

/// Returns the line in place of an output that is no longer sent.
fn cleared_text(part: &ToolPart, output: &Value) -> String {
    let bytes = output.as_str().map_or_else(|| output.to_string().len(), str::len);
    format!(
        "[This call succeeded. Its output of {bytes} bytes was cleared to save room. If you need it, and {} only reads, make the same \
         call again.]",
        tool_name(part.name.as_str())
    )
}

/// Returns a tool's name in a form that providers accept. The model may have made up a name that has another form.
pub(crate) fn tool_name(name: &str) -> String {
    let name: String =
        name.chars().take(64).map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    if name.is_empty() { "unnamed".into() } else { name }
}

fn text_of(parts: &[UiPart]) -> String {
    parts.iter().filter_map(UiPart::as_text).collect()
}

fn reasoning(part: &UiPart) -> Option<&str> {
    match part {
        UiPart::Reasoning { text, .. } => Some(text),
        UiPart::Text { .. }
        | UiPart::File(_)
        | UiPart::StepStart
        | UiPart::Tool(_)
        | UiPart::Data(_)
        | UiPart::Unknown(_) => None,
    }
}

/// Returns the content that a model gets for a part of a user message; `None` for parts that models cannot see.
fn user_content(part: &UiPart) -> Option<ModelContent> {
    match part {
        UiPart::Text { text, .. } if !text.is_empty() => Some(ModelContent::Text(text.clone())),
        UiPart::File(FilePart { media_type, url, filename, .. }) => Some(ModelContent::File {
            media_type: media_type.clone(),
            url: url.clone(),
            filename: filename.clone(),
        }),
        UiPart::Text { .. }
        | UiPart::Reasoning { .. }
        | UiPart::StepStart
        | UiPart::Tool(_)
        | UiPart::Data(_)
        | UiPart::Unknown(_) => None,
    }
}

/// Returns whether a model gets any content for these parts.
pub(crate) fn has_model_content(parts: &[UiPart]) -> bool {
    parts.iter().any(|part| user_content(part).is_some())
}
