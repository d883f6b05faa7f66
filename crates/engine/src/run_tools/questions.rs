//! Questions of the run itself: the model's, which it asks with `ask_user`, and those about a failed call. This module decides which
//! ones may be asked, which form a person is shown, and which output the model gets.
//!
//! A question follows from the call that asks it, so it is saved with the call and outlives the process. This module decides without I/O.

use std::collections::HashSet;

use fermata_protocol::{ElicitationId, Plan};
use fermata_tools::{AskedFailure, Call, CallState, Decision, Elicitation, ToolSpec, Toolbox};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Earlier, Offer, RunTool, Started, calls_of, spec_of};

/// The tool that asks the user.
pub const ASK_USER: &str = "ask_user";

/// The block of the system message for assistants that may ask.
const BLOCK: &str = "If something is unclear, begin from the most likely assumption and state it. Ask with ask_user only what changes the answer and \
cannot be found out otherwise, and give your best guess with each question.";

/// The code of the question about a failed call. Pages translate its text by this code.
pub const CALL_FAILED: &str = "call_failed";

/// The number of questions in one call.
const MAX_QUESTIONS: usize = 2;
/// The number of calls in a run.
const MAX_CALLS: usize = 2;
/// The output for a model that asks too much.
const ENOUGH: &str = "Answer with your best assumption, and say what you have assumed.";
/// The length of the name of a question, in bytes.
const LONGEST_ID: usize = 64;

/// `ask_user`.
pub(crate) struct AskUser;

/// The input of `ask_user`.
#[derive(Debug, Deserialize, JsonSchema)]
struct QuestionsInput {
    /// One or two questions.
    #[schemars(length(min = 1))]
    questions: Vec<Question>,
}

/// A question with the guess that stands for its answer until the user gives another one.
#[derive(Debug, Deserialize, JsonSchema)]
struct Question {
    /// A short name for the answer, such as size.
    id: String,
    /// The question.
    #[schemars(length(min = 1, max = 1000))]
    question: String,
    /// The answers to choose from, if there are only a few.
    #[serde(default)]
    #[schemars(length(max = 50))]
    choices: Option<Vec<String>>,
    /// The most likely answer: one of the choices, if there are any.
    #[schemars(length(max = 1000))]
    guess: String,
}

// === impl AskUser ===

impl RunTool for AskUser {
    fn name(&self) -> &'static str {
        ASK_USER
    }

    /// A page's own `ask_user` overrides Fermata's.
    fn spec(&self, offer: &Offer<'_>) -> Option<ToolSpec> {
        if !offer.asks_user || offer.posted.iter().any(|tool| tool.name == ASK_USER) {
            return None;
        }
        let description = "Asks the user, who sees your guesses and may change them. At most two questions in a call, and two calls for a message.";
        Some(spec_of::<QuestionsInput>(self, "Ask a question", description, Decision::Allow))
    }

    fn instructions(&self, _suggests_plan: bool) -> Option<&'static str> {
        Some(BLOCK)
    }

    fn check(&self, input: &Value, earlier: &Earlier<'_>, _toolbox: &Toolbox) -> Result<(), String> {
        let asked = calls_of(self, earlier.calls.iter().copied())
            .filter(|call| !matches!(call.state(), CallState::Error { .. }));
        check(input, asked.count())
    }

    fn start(&self, input: &Value, _plan: Option<&Plan>) -> Started {
        Started::Asks(form(input))
    }

    fn fit(&self, input: &Value, message: &str) -> Option<Map<String, Value>> {
        fit(input, message)
    }

    fn output(&self, input: &Value, content: Option<&Value>, message: Option<&str>) -> Value {
        output(input, content, message)
    }
}

/// Checks an input that fits the schema. `before` is the number of earlier calls in the run.
///
/// # Errors
/// Returns the text for the model if the questions are too many or cannot be asked.
fn check(input: &Value, before: usize) -> Result<(), String> {
    let QuestionsInput { questions } = QuestionsInput::deserialize(input)
        .map_err(|error| format!("The questions cannot be read: {error}."))?;
    if questions.len() > MAX_QUESTIONS {
        return Err(format!("At most {MAX_QUESTIONS} questions can be asked at a time. {ENOUGH}"));
    }
    if before >= MAX_CALLS {
        return Err(format!("The user was asked {MAX_CALLS} times for this message already. {ENOUGH}"));
    }
    let mut ids = HashSet::new();
    for Question { id, choices, guess, .. } in &questions {
        if id.trim().is_empty() || id.len() > LONGEST_ID {
            return Err(format!("The id of a question must have 1 to {LONGEST_ID} bytes."));
        }
        if !ids.insert(id) {
            return Err(format!("Two questions have the id {id:?}. Give each an id of its own."));
        }
        let Some(choices) = choices else { continue };
        let mut known = HashSet::new();
        if choices.iter().any(|choice| choice.trim().is_empty() || !known.insert(choice)) {
            return Err(format!("The choices of {id:?} must differ and must not be empty."));
        }
        if !choices.is_empty() && !choices.contains(guess) {
            return Err(format!("The guess of {id:?} must be one of its choices."));
        }
    }
    Ok(())
}

/// Returns the id of the question of a call of a tool of the run. It is the same in each process.
pub(crate) fn id_of(call: &Call) -> ElicitationId {
    ElicitationId::new(format!("elic_{}", call.id))
}

/// Returns the question of a call, as a form that is filled with the guesses.
fn form(input: &Value) -> Elicitation {
    let questions = QuestionsInput::deserialize(input).map_or_else(|_| Vec::new(), |asked| asked.questions);
    let message: Vec<&str> = questions.iter().map(|asked| asked.question.as_str()).collect();
    let mut properties = Map::new();
    for Question { id, question, choices, guess } in &questions {
        let mut property = json!({ "type": "string", "title": question, "default": guess });
        if let Some(choices) = choices.as_ref().filter(|choices| !choices.is_empty()) {
            property["enum"] = json!(choices);
        }
        properties.insert(id.clone(), property);
    }
    Elicitation {
        message: message.join("\n"),
        requested_schema: json!({ "type": "object", "properties": properties }),
        server: None,
        other_candidates: Vec::new(),
    }
}

/// Returns a message of the user as the content of the form: the choice that it names, or else the answer to the first question without
/// choices. Returns `None` if it fits no question.
fn fit(input: &Value, message: &str) -> Option<Map<String, Value>> {
    let questions = QuestionsInput::deserialize(input).map_or_else(|_| Vec::new(), |asked| asked.questions);
    let message = message.trim();
    if message.is_empty() {
        return None;
    }
    let plain = |text: &str| text.trim().trim_end_matches(['.', '!', '。', '！']).to_lowercase();
    for Question { id, choices, .. } in &questions {
        let mut choices = choices.iter().flatten();
        if let Some(choice) = choices.find(|choice| plain(choice) == plain(message)) {
            return Some(Map::from_iter([(id.clone(), choice.as_str().into())]));
        }
    }
    let Question { id, .. } =
        questions.iter().find(|asked| asked.choices.as_ref().is_none_or(Vec::is_empty))?;
    Some(Map::from_iter([(id.clone(), message.into())]))
}

/// Returns the output of a call. `content` is the form as the person has sent it; `None` if the person did not answer. `message` is the
/// message of the user, if the answer is one; the model receives it unless it answers all questions.
fn output(input: &Value, content: Option<&Value>, message: Option<&str>) -> Value {
    let questions = QuestionsInput::deserialize(input).map_or_else(|_| Vec::new(), |asked| asked.questions);
    let (mut answers, mut assumed) = (Map::new(), Vec::new());
    for Question { id, guess, .. } in questions {
        match content.and_then(|content| content.get(&id)) {
            Some(answer) => _ = answers.insert(id, answer.clone()),
            None => {
                answers.insert(id.clone(), guess.into());
                assumed.push(id);
            }
        }
    }
    let mut output = json!({ "answers": answers });
    if content.is_none() {
        output["note"] = "The user did not answer. Go on with these guesses, and state them.".into();
    } else if !assumed.is_empty() {
        output["guessed"] = json!(assumed);
        if let Some(message) = message {
            output["reply"] = message.into();
            output["note"] =
                "The user has answered with the message in `reply`. It overrides the guesses.".into();
        }
    }
    output
}

/// A person's choice after the failure of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureChoice {
    Retry,
    GoOn,
    Stop,
}

/// Returns the id of the question about the failure of a call. It is the same in each process, and another one for each attempt.
pub(crate) fn id_about_failure(call: &Call) -> ElicitationId {
    ElicitationId::new(format!("elic_{}_{}", call.id, call.times_run()))
}

/// Returns the question about the failure of a call.
pub(crate) fn about_failure(call: &Call, failure: &AskedFailure) -> Elicitation {
    let AskedFailure { error_type, text } = failure;
    let tool = &call.tool;
    Elicitation {
        message: format!("{tool} failed ({error_type}): {text}\nTry it again, go on without it, or stop?"),
        requested_schema: json!({
            "type": "object",
            "properties": {
                "choice": {
                    "type": "string",
                    "title": "What now?",
                    "oneOf": [
                        { "const": "retry", "title": "Try it again" },
                        { "const": "go_on", "title": "Go on without it" },
                        { "const": "stop", "title": "Stop" },
                    ],
                    "default": "go_on",
                }
            },
            "required": ["choice"],
        }),
        server: None,
        other_candidates: Vec::new(),
    }
}

/// Returns a person's choice. `content` is the form as the person has sent it; without an answer the run goes on.
pub(crate) fn choice(content: Option<&Value>) -> FailureChoice {
    match content.and_then(|content| content["choice"].as_str()) {
        Some("retry") => FailureChoice::Retry,
        Some("stop") => FailureChoice::Stop,
        // The form was checked against its schema.
        Some(_) | None => FailureChoice::GoOn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(id: &str, choices: &[&str], guess: &str) -> Value {
        json!({ "id": id, "question": format!("Which {id}?"), "choices": choices, "guess": guess })
    }

    fn asked(questions: &[Value]) -> Value {
        json!({ "questions": questions })
    }

    #[test]
    fn what_is_asked_too_much_is_to_be_assumed() {
        let one = asked(&[question("size", &["S", "M"], "M")]);
        assert_eq!(check(&one, 0), Ok(()));
        assert_eq!(check(&one, 1), Ok(()));
        assert!(check(&one, 2).unwrap_err().contains("best assumption"));
        let three = asked(&["a", "b", "c"].map(|id| question(id, &[], "x")));
        assert!(check(&three, 0).unwrap_err().contains("best assumption"));
    }

    #[test]
    fn questions_that_cannot_be_asked_are_refused() {
        for (questions, reason) in [
            (vec![question("a", &[], "x"), question("a", &[], "x")], "\"a\""),
            (vec![question(" ", &[], "x")], "1 to 64"),
            (vec![question(&"x".repeat(65), &[], "x")], "1 to 64"),
            (vec![question("a", &["x", "x"], "x")], "must differ"),
            (vec![question("a", &["x", ""], "x")], "must not be empty"),
            (vec![question("a", &["x"], "y")], "one of its choices"),
        ] {
            let error = check(&asked(&questions), 0).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        assert!(check(&json!({}), 0).unwrap_err().starts_with("The questions cannot be read"));
    }

    #[test]
    fn the_form_is_filled_with_the_guesses() {
        let input = asked(&[question("size", &["S", "M"], "M"), question("color", &[], "red")]);
        let Elicitation { message, requested_schema, .. } = form(&input);
        assert_eq!(message, "Which size?\nWhich color?");
        assert_eq!(
            requested_schema["properties"]["size"],
            json!({ "type": "string", "title": "Which size?", "default": "M", "enum": ["S", "M"] })
        );
        assert_eq!(requested_schema["properties"]["color"]["default"], "red");
        assert_eq!(requested_schema["properties"]["color"].get("enum"), None);
    }

    #[test]
    fn what_is_not_answered_is_as_guessed() {
        let input = asked(&[question("size", &["S", "M"], "M"), question("color", &[], "red")]);
        assert_eq!(
            output(&input, Some(&json!({ "size": "S" })), None),
            json!({ "answers": { "size": "S", "color": "red" }, "guessed": ["color"] })
        );
        let declined = output(&input, None, None);
        assert_eq!(declined["answers"], json!({ "size": "M", "color": "red" }));
        assert!(declined["note"].as_str().unwrap().contains("did not answer"));
    }

    #[test]
    fn a_message_is_the_answer_to_the_question_that_it_fits() {
        let size = question("size", &["S", "M", "X L"], "M");
        let (color, name) = (question("color", &[], "red"), question("name", &[], "Ann"));
        for (questions, message, fits) in [
            (vec![size.clone()], "s", Some(json!({ "size": "S" }))),
            (vec![size.clone()], " x l. ", Some(json!({ "size": "X L" }))),
            (vec![size.clone()], "the small one", None),
            (vec![color.clone()], "the blue one", Some(json!({ "color": "the blue one" }))),
            (vec![color.clone(), size.clone()], "S!", Some(json!({ "size": "S" }))),
            (vec![size.clone(), color.clone()], "dark blue", Some(json!({ "color": "dark blue" }))),
            (vec![color.clone(), name.clone()], "blue", Some(json!({ "color": "blue" }))),
            (vec![color.clone()], "  ", None),
        ] {
            assert_eq!(fit(&asked(&questions), message).map(Value::Object), fits, "{message:?}");
        }
    }

    #[test]
    fn the_model_is_told_a_message_that_does_not_answer_all() {
        let input = asked(&[question("size", &["S", "M"], "M"), question("color", &[], "red")]);
        let told = output(&input, Some(&json!({ "color": "tiny and blue" })), Some("tiny and blue"));
        assert_eq!(told["answers"], json!({ "size": "M", "color": "tiny and blue" }));
        assert_eq!((&told["guessed"], &told["reply"]), (&json!(["size"]), &json!("tiny and blue")));
        let one = asked(&[question("color", &[], "red")]);
        assert_eq!(
            output(&one, Some(&json!({ "color": "blue" })), Some("blue")),
            json!({ "answers": { "color": "blue" } })
        );
        let other = output(&asked(&[question("size", &["S"], "S")]), Some(&json!({})), Some("none of these"));
        assert_eq!((&other["guessed"], &other["reply"]), (&json!(["size"]), &json!("none of these")));
    }
}
