//! Plays a scene: one decision for each request, without I/O.
//!
//! After the results of a step's calls come those of the scene's next step, and after the last step words. Each step is played once, so a run
//! with the demo model ends.

use fermata_engine::{
    memories::split_note,
    model::{ModelCall, ModelContent, ModelError, ModelEvent, ModelMessage, ModelRequest, ModelTool, Usage},
    plan,
    plan::MAKE_PLAN,
};
use fermata_protocol::{FinishReason, ToolChoice};
use serde_json::{Map, Value};

use super::{
    language::Language,
    sample,
    scenes::{Call, Outcome, Scene, Scenes, Text, languages},
    template::Scope,
};

/// The limit on a value of a result that is repeated, in characters.
const LONGEST: usize = 600;
/// The number of suggestions in a short answer.
const FEW: usize = 3;

/// The answer of one step.
#[derive(Default)]
struct Answer {
    reasoning: String,
    text: String,
    sources: Vec<(String, Option<String>)>,
    calls: Vec<(String, Value)>,
    error: Option<String>,
}

/// The tokens are an estimate, a quarter of the bytes: about what models count, in English and in Chinese.
const BYTES_PER_TOKEN: usize = 4;

/// Returns the events of one step.
pub(super) fn reply(request: &ModelRequest, scenes: &Scenes) -> Vec<Result<ModelEvent, ModelError>> {
    let (said, since) = last_turn(&request.messages);
    let (remembered, said) = split_note(&said);
    let (_, said) = plan::split_note(said);
    let language = Language::of(said);
    let mut scope = Scope { language, values: Map::new(), longest: usize::MAX };
    describe_chat(&mut scope, scenes, &request.tools);
    scope.values.insert("remembered".into(), remembered.into());
    let scene = scenes.scenes.iter().map(|scene| scene.as_ref()).find_map(|scene| {
        let scope = enter(scene, said.trim(), &request.tools, &scope)?;
        Some((scene, scope))
    });
    let results = results(since);
    let next = match &scene {
        Some((scene, scope)) if request.tool_choice != Some(ToolChoice::None) && !results.is_empty() => {
            next_step(scene, &results, &request.tools, scope)
        }
        Some(_) | None => Vec::new(),
    };
    let answer = if results.is_empty() {
        let answer = scene.map(|(scene, scope)| play(scene, scenes, &request.tools, &scope));
        obey(answer.unwrap_or_default(), request, scenes, &scope)
    } else if !next.is_empty() {
        Answer { calls: next, ..Answer::default() }
    } else {
        let told = results.into_iter().filter_map(|(call, result)| {
            let (scene, scope) =
                scene.as_ref().map_or((None, &scope), |(scene, scope)| (Some(*scene), scope));
            comment(call, result, scene, scenes, &request.tools, scope.clone())
        });
        let told = told.filter(|text| !text.is_empty()).collect::<Vec<_>>();
        Answer { text: told.join("\n\n"), ..Answer::default() }
    };

    let mut events = Vec::new();
    let mut written = answer.reasoning.len() + answer.text.len();
    if !answer.reasoning.is_empty() {
        events.push(Ok(ModelEvent::Reasoning(answer.reasoning)));
    }
    if !answer.text.is_empty() {
        events.push(Ok(ModelEvent::Text(answer.text)));
    }
    events.extend(answer.sources.into_iter().map(|(url, title)| Ok(ModelEvent::Source { url, title })));
    let reason = if answer.calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    for (key, (tool, input)) in answer.calls.into_iter().enumerate() {
        let arguments = input.to_string();
        written += tool.len() + arguments.len();
        events.push(Ok(ModelEvent::CallStart { key, tool }));
        events.push(Ok(ModelEvent::CallDelta { key, arguments }));
    }
    if let Some(error) = answer.error {
        events.push(Err(ModelError::Provider(error)));
        return events;
    }
    let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX);
    let (input_tokens, output_tokens) = (tokens(size(request)), tokens(written));
    let usage =
        Usage { input_tokens, output_tokens, total_tokens: input_tokens.saturating_add(output_tokens) };
    events.push(Ok(ModelEvent::Finished { reason, usage: Some(usage) }));
    events
}

/// Returns the size of everything that a model would read, in bytes.
fn size(request: &ModelRequest) -> usize {
    let content = |content: &[ModelContent]| -> usize {
        let sizes = content.iter().map(|piece| match piece {
            ModelContent::Text(text) => text.len(),
            ModelContent::File { .. } => 0,
        });
        sizes.sum()
    };
    let messages = request.messages.iter().map(|message| match message {
        ModelMessage::System(text) => text.len(),
        ModelMessage::User(pieces) | ModelMessage::Tool { content: pieces, .. } => content(pieces),
        ModelMessage::Assistant { reasoning, text, calls, provider_metadata: _ } => {
            let calls = calls.iter().map(|call| call.tool.len() + call.input.to_string().len());
            reasoning.len() + text.len() + calls.sum::<usize>()
        }
    });
    let tools = request
        .tools
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.text().len());
    messages.chain(tools).sum()
}

/// Returns the last message of the user, and what came after it.
fn last_turn(messages: &[ModelMessage]) -> (String, &[ModelMessage]) {
    let said = messages.iter().enumerate().rev().find_map(|(place, message)| match message {
        ModelMessage::User(content) => Some((place, content)),
        ModelMessage::System(_) | ModelMessage::Assistant { .. } | ModelMessage::Tool { .. } => None,
    });
    let Some((place, content)) = said else {
        return (String::new(), messages);
    };
    let texts = content.iter().filter_map(|piece| match piece {
        ModelContent::Text(text) => Some(text.as_str()),
        ModelContent::File { .. } => None,
    });
    (texts.collect::<Vec<_>>().join("\n"), &messages[place + 1..])
}

/// Returns the results, each with its call. Of a file there is its kind, which is all that the demo model has eyes for.
fn results(since: &[ModelMessage]) -> Vec<(&ModelCall, String)> {
    let calls = || {
        since.iter().flat_map(|message| match message {
            ModelMessage::Assistant { calls, .. } => calls.as_slice(),
            ModelMessage::System(_) | ModelMessage::User(_) | ModelMessage::Tool { .. } => &[],
        })
    };
    let results = since.iter().filter_map(|message| match message {
        ModelMessage::Tool { call_id, content, .. } => {
            let words = content.iter().map(|piece| match piece {
                ModelContent::Text(text) => text.clone(),
                ModelContent::File { media_type, filename: Some(name), .. } => {
                    format!("[{name} ({media_type})]")
                }
                ModelContent::File { media_type, filename: None, .. } => format!("[a file ({media_type})]"),
            });
            Some((call_id, words.collect::<Vec<_>>().join("\n")))
        }
        ModelMessage::System(_) | ModelMessage::User(_) | ModelMessage::Assistant { .. } => None,
    });
    results.filter_map(|(id, content)| Some((calls().find(|call| call.id == *id)?, content))).collect()
}

/// Puts the names for all scenes into the scope: the tools of the chat, and the messages to try with them.
fn describe_chat(scope: &mut Scope, scenes: &Scenes, tools: &[ModelTool]) {
    let quoted = |text: &str| format!("`{text}`");
    let names: Vec<_> = tools.iter().map(|tool| quoted(&tool.name)).collect();
    scope.values.insert("tools".into(), names.join(scope.language.pick(", ", "、")).into());
    let called: Vec<_> = scenes
        .scenes
        .iter()
        .flat_map(|scene| &scene.as_ref().calls)
        .map(|call| call.tool.pick(scope.language))
        .collect();
    // Without a plan, a call that updates one fails.
    let is_other =
        |name: &str| name != plan::UPDATE_PLAN && !called.iter().any(|called| is_named(name, called));
    let other = tools.iter().find(|tool| is_other(&tool.name));
    if let Some(tool) = other.or_else(|| find("current_time", tools)).or(tools.first()) {
        scope.values.insert("other_tool".into(), tool.name.clone().into());
    }
    let fitting: Vec<_> = scenes
        .suggestions
        .iter()
        .filter(|suggestion| suggestion.needs.as_ref().is_none_or(|needed| is_there(needed, tools)))
        .filter_map(|suggestion| {
            let shows = suggestion.shows.as_ref().map(|shows| scope.render(shows.pick(scope.language)));
            Some((quoted(&scope.render(suggestion.say.pick(scope.language))?), shows.flatten()))
        })
        .collect();
    let mut few: Vec<&str> = fitting.iter().take(FEW).map(|(say, _)| say.as_str()).collect();
    let last = few.pop().unwrap_or_default();
    let first = few.join(scope.language.pick(", ", "、"));
    let or = scope.language.pick(" or ", "或");
    let suggestions = if first.is_empty() { last.to_owned() } else { format!("{first}{or}{last}") };
    let colon = scope.language.pick(": ", "：");
    let lines = fitting.iter().map(|(say, shows)| match shows {
        Some(shows) => format!("- {say}{colon}{shows}"),
        None => format!("- {say}"),
    });
    let list = lines.collect::<Vec<_>>().join("\n");
    scope.values.insert("suggestions".into(), suggestions.into());
    scope.values.insert("list".into(), list.into());
}

/// Returns the scope for a scene, if the scene answers the message and all its placeholders have values.
fn enter(scene: &Scene, said: &str, tools: &[ModelTool], scope: &Scope) -> Option<Scope> {
    const MARKS: &[char] = &[
        '"', '\'', '`', '“', '”', '.', '!', '?', ':', ',', '‘', '’', '「', '」', '『', '』', '《', '》',
        '。', '，', '、', '！', '？', '：', '；',
    ];
    if !scene.needs.iter().all(|needed| is_there(needed, tools)) {
        return None;
    }
    let mut scope = scope.clone();
    if !scene.when.is_empty() {
        let (pattern, captures) =
            scene.when.iter().find_map(|pattern| Some((&pattern.0, pattern.0.captures(said)?)))?;
        for name in pattern.capture_names().flatten() {
            let text = captures.name(name).map_or("", |found| found.as_str());
            // What is meant, without the quotes and stops around it.
            let text = text.trim_matches(|letter: char| letter.is_whitespace() || MARKS.contains(&letter));
            scope.values.insert(name.to_owned(), text.into());
        }
    }
    let mut said = scene.say.iter().chain(&scene.reasoning);
    if said.all(|text| scope.render(text.pick(scope.language)).is_some()) { Some(scope) } else { None }
}

/// Returns the answer of a scene before its calls have results.
fn play(scene: &Scene, scenes: &Scenes, tools: &[ModelTool], scope: &Scope) -> Answer {
    let render = |text: &Option<Text>| text.as_ref().and_then(|text| scope.render(text.pick(scope.language)));
    let calls = next_step(scene, &[], tools, scope);
    if let (Some(first), true) = (scene.calls.first(), calls.is_empty()) {
        let mut scope = scope.clone();
        let name = scope.render(first.tool.pick(scope.language)).unwrap_or_default();
        scope.values.insert("tool".into(), name.trim_matches('*').into());
        let missing = [&scene.missing, &scenes.missing].into_iter().flatten();
        let text = missing.filter_map(|text| scope.render(text.pick(scope.language))).next();
        return Answer { text: text.unwrap_or_default(), ..Answer::default() };
    }
    Answer {
        reasoning: render(&scene.reasoning).unwrap_or_default(),
        text: render(&scene.say).unwrap_or_default(),
        sources: scene.sources.iter().map(|source| (source.url.clone(), source.title.clone())).collect(),
        calls,
        error: render(&scene.error),
    }
}

/// Returns the calls of the first step of a scene that was not played yet; none if there is no such step, if a call was denied or has failed,
/// or if the results are those of other calls. A call whose tool is not offered is left out.
fn next_step(
    scene: &Scene,
    results: &[(&ModelCall, String)],
    tools: &[ModelTool],
    scope: &Scope,
) -> Vec<(String, Value)> {
    let was_made = |call: &Call| {
        let name = scope.render(call.tool.pick(scope.language)).unwrap_or_default();
        let input = call.input.as_ref().and_then(|input| fill(input, scope));
        // A person may have edited the input. The input also identifies a call if several steps call its tool.
        let is_called_once = scene.calls.iter().filter(|other| other.tool == call.tool).count() == 1;
        results.iter().any(|(made, _)| {
            is_named(&made.tool, &name) && (is_called_once || input.as_ref() == Some(&made.input.value()))
        })
    };
    let goes_on = results.iter().all(|(_, result)| outcome(result) == Outcome::Result);
    if !goes_on || !(results.is_empty() || scene.calls.iter().any(was_made)) {
        return Vec::new();
    }
    let open = scene.calls.iter().filter(|call| !was_made(call));
    let open: Vec<_> = open.filter_map(|call| Some((call.step, prepare(call, tools, scope)?))).collect();
    let next = open.iter().map(|(step, _)| *step).min();
    open.into_iter().filter(|(step, _)| Some(*step) == next).map(|(_, call)| call).collect()
}

/// Returns a call's tool and input, if the tool is offered.
fn prepare(call: &Call, tools: &[ModelTool], scope: &Scope) -> Option<(String, Value)> {
    let tool = find(&scope.render(call.tool.pick(scope.language))?, tools)?;
    let input = match &call.input {
        Some(input) => fill(input, scope)?,
        None => sample::input(&tool.input_schema),
    };
    Some((tool.name.clone(), input))
}

/// Fills the texts of an input. A field whose text has no value is left out.
fn fill(value: &Value, scope: &Scope) -> Option<Value> {
    if let Some([english, chinese]) = languages(value) {
        return fill(scope.language.pick(english, chinese), scope);
    }
    Some(match value {
        Value::String(text) => scope.render(text)?.into(),
        Value::Array(items) => items.iter().filter_map(|item| fill(item, scope)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().filter_map(|(key, value)| Some((key.clone(), fill(value, scope)?)));
            Value::Object(fields.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}

/// Returns the sentence about a call that has ended.
fn comment(
    call: &ModelCall,
    result: String,
    scene: Option<&Scene>,
    scenes: &Scenes,
    tools: &[ModelTool],
    mut scope: Scope,
) -> Option<String> {
    let planned: Vec<_> = scene
        .iter()
        .flat_map(|scene| &scene.calls)
        .filter_map(|planned| prepare(planned, tools, &scope))
        .filter(|(tool, _)| *tool == call.tool)
        .collect();
    let input = call.input.value();
    let is_edited = !planned.is_empty() && planned.iter().all(|(_, planned)| *planned != input);
    scope.longest = LONGEST;
    let outcome = outcome(&result);
    let result = serde_json::from_str(&result).unwrap_or(Value::String(result));
    scope.values.insert("tool".into(), call.tool.clone().into());
    scope.values.insert("input".into(), input);
    scope.values.insert("edited".into(), is_edited.into());
    scope.values.insert("result".into(), result);
    let sentences = scene.iter().flat_map(|scene| &scene.then).chain(&scenes.then);
    sentences
        .filter(|then| then.on == outcome)
        .filter(|then| then.tool.as_ref().is_none_or(|tool| is_named(&call.tool, tool)))
        .filter(|then| then.condition.as_ref().is_none_or(|path| scope.get(path).is_some()))
        .find_map(|then| scope.render(then.say.pick(scope.language)))
}

/// Returns how a call ended: words are looked through, JSON only if it says that it is an error.
fn outcome(result: &str) -> Outcome {
    let (words, is_error) = match serde_json::from_str::<Value>(result) {
        Ok(Value::Object(object)) => match object.get("error").or_else(|| object.get("denied")) {
            Some(error) => (error.to_string(), true),
            None => return Outcome::Result,
        },
        Ok(Value::String(text)) => (text, false),
        Ok(_) => return Outcome::Result,
        Err(_) => (result.to_owned(), false),
    };
    let words = words.to_lowercase();
    let has = |options: &[&str]| options.iter().any(|option| words.contains(option));
    if has(&["denied", "declined", "rejected", "not approved", "not allow"]) {
        Outcome::Denied
    } else if has(&["cancelled", "canceled", "expired"]) {
        Outcome::Cancelled
    } else if is_error || has(&["error", "failed", "timed out"]) {
        Outcome::Error
    } else {
        Outcome::Result
    }
}

/// Returns the offered tool of a name.
fn find<'a>(name: &str, tools: &'a [ModelTool]) -> Option<&'a ModelTool> {
    tools.iter().find(|tool| is_named(&tool.name, name))
}

/// Returns whether a tool is offered, and, if there is a field behind a dot, whether its input has that field.
fn is_there(needed: &str, tools: &[ModelTool]) -> bool {
    match needed.split_once('.') {
        Some((name, field)) => {
            find(name, tools).is_some_and(|tool| !tool.input_schema["properties"][field].is_null())
        }
        None => find(needed, tools).is_some(),
    }
}

/// Returns whether a tool has the name, or, if this stands between `*`, has it as a part of its own.
fn is_named(tool: &str, name: &str) -> bool {
    match name.strip_prefix('*').and_then(|name| name.strip_suffix('*')) {
        Some(part) => tool.to_lowercase().contains(&part.to_lowercase()),
        None => tool.eq_ignore_ascii_case(name),
    }
}

/// Makes an answer comply with the request's tool choice.
fn obey(answer: Answer, request: &ModelRequest, scenes: &Scenes, scope: &Scope) -> Answer {
    let words = |text: &Option<Text>| text.as_ref().and_then(|text| scope.render(text.pick(scope.language)));
    let force = |tool: Option<&ModelTool>| {
        tool.map(|tool| Answer {
            text: words(&scenes.forced).unwrap_or_default(),
            calls: vec![(tool.name.clone(), sample::input(&tool.input_schema))],
            ..Answer::default()
        })
    };
    match &request.tool_choice {
        Some(ToolChoice::None) if !answer.calls.is_empty() => {
            Answer { text: words(&scenes.forbidden).unwrap_or_default(), ..Answer::default() }
        }
        Some(ToolChoice::Required) if answer.calls.is_empty() => {
            force(request.tools.first()).unwrap_or(answer)
        }
        // A plan that is made up of a schema helps nobody: without one, the run goes on.
        Some(ToolChoice::Tool(name)) if name == MAKE_PLAN => answer,
        Some(ToolChoice::Tool(name)) if answer.calls.iter().all(|(tool, _)| tool != name) => {
            force(find(name, &request.tools)).unwrap_or(answer)
        }
        Some(ToolChoice::None | ToolChoice::Required | ToolChoice::Tool(_) | ToolChoice::Auto) | None => {
            answer
        }
    }
}
