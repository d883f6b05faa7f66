use fermata_protocol::{MessageId, Summary};
use fermata_tools::Toolbox;
use proptest::prelude::*;
use serde_json::Map;

use super::*;
use crate::{
    assistants::ClientSystem,
    model::{ModelContent, ModelMessage, file_urls::FileUrls},
    prompt::{PromptContext, prompt},
    refused::RefusedParts,
    services::Rules,
};

fn message(id: usize, role: Role, parts: Vec<UiPart>) -> UiMessage {
    UiMessage { id: MessageId::new(format!("m{id}")), role, metadata: None, created_at: None, parts }
}

fn text(text: &str) -> UiPart {
    UiPart::Text { text: text.into(), streaming: None, provider_metadata: None, extra: Map::new() }
}

fn call(id: &str, tool: &str, state: Value) -> UiPart {
    let mut part = json!({"type": format!("tool-{tool}"), "toolCallId": id, "input": {}});
    for (key, value) in state.as_object().expect("an object") {
        part[key] = value.clone();
    }
    serde_json::from_value(part).expect("a part")
}

fn output(bytes: usize) -> Value {
    json!({"state": "output-available", "output": "x".repeat(bytes)})
}

fn failed(bytes: usize) -> Value {
    json!({"state": "output-error", "errorText": "x".repeat(bytes)})
}

fn build(fit: &Fit, messages: &[&UiMessage]) -> ModelRequest {
    let context = PromptContext {
        instructions: None,
        client_system: ClientSystem::Append,
        system: None,
        toolbox: &Toolbox::default(),
        tool_choice: None,
        plan: None,
        suggests_plan: false,
        step_instructions: None,
        call_settings: Map::new(),
        rules: &Rules::default(),
        run: None,
        output_limit: 1_000_000,
        file_urls: &FileUrls::Https,
        recollection: None,
        fit,
        model: "m",
        without: RefusedParts::default(),
    };
    prompt(messages.iter().copied(), &context)
}

fn fitted(context: &ModelContext, messages: &[UiMessage], goal: Goal) -> Fitted {
    let history = History { first: 0, messages: messages.iter().collect() };
    context.fitted(&history, Some(goal), &[Pattern::new("keep_*")], build)
}

/// An exchange with a call: the user, a step with the call, and a step with the answer.
fn exchange(turn: usize, tool: &str, state: Value) -> Vec<UiMessage> {
    let parts = vec![
        UiPart::StepStart,
        call(&format!("c{turn}"), tool, state),
        UiPart::StepStart,
        text("It is done."),
    ];
    vec![
        message(2 * turn, Role::User, vec![text(&format!("turn {turn}"))]),
        message(2 * turn + 1, Role::Assistant, parts),
    ]
}

#[test]
fn a_history_that_fits_is_sent_as_it_is() {
    let messages: Vec<_> = (0..5).flat_map(|turn| exchange(turn, "look", output(4000))).collect();
    let fitted = fitted(&ModelContext::default(), &messages, Goal::Within(6000));
    assert_eq!(fitted.fit, Fit::default());
}

#[test]
fn outputs_of_old_calls_are_cleared_first_and_nothing_else() {
    let mut messages: Vec<_> = (0..4).flat_map(|turn| exchange(turn, "look", output(4000))).collect();
    messages.extend(exchange(4, "keep_this", output(4000)));
    messages.extend(exchange(5, "look", failed(4000)));
    messages.extend(exchange(6, "look", output(400)));
    messages.extend(exchange(7, "look", output(4000)));
    messages.push(message(99, Role::User, vec![text("and now?")]));
    let fitted = fitted(&ModelContext::default(), &messages, Goal::Within(5000));
    let cleared: Vec<&str> = fitted.fit.cleared.iter().map(ToolCallId::as_str).collect();
    assert_eq!(cleared, ["c0", "c1", "c2", "c3"]);
    assert_eq!(fitted.fit.left_out, 0);
    let told = fitted.request.messages.iter().find_map(|message| match message {
        ModelMessage::Tool { content, .. } => Some(content.clone()),
        _ => None,
    });
    assert_eq!(
        told,
        Some(vec![ModelContent::Text(
            "[This call succeeded. Its output of 4000 bytes was cleared to save room. If you need it, and look only reads, make the \
             same call again.]"
                .into()
        )])
    );
}

#[test]
fn the_oldest_turns_are_left_out_when_clearing_is_not_enough_and_instructions_stay() {
    let mut messages = vec![message(100, Role::System, vec![text("Be kind.")])];
    messages.extend((0..6).flat_map(|turn| {
        [
            message(2 * turn, Role::User, vec![text(&format!("turn {turn} {}", "x".repeat(4000)))]),
            message(2 * turn + 1, Role::Assistant, vec![UiPart::StepStart, text("yes")]),
        ]
    }));
    let fitted = fitted(&ModelContext::default(), &messages, Goal::Within(3500));
    assert_eq!(fitted.fit.left_out, 7, "the oldest user message that fits");
    assert_eq!(fitted.fit.instructions, ["Be kind."]);
    assert!(fitted.estimated <= Some(3500));
    assert_eq!(fitted.request.messages[0], ModelMessage::System("Be kind.".into()));
    assert!(format!("{:?}", fitted.request.messages[1]).contains("turn 3 "));
}

#[test]
fn the_last_user_message_stays_however_long_it_is() {
    let messages = vec![
        message(0, Role::User, vec![text("old")]),
        message(1, Role::Assistant, vec![text("yes")]),
        message(2, Role::User, vec![text(&"x".repeat(9000))]),
    ];
    let fitted = fitted(&ModelContext::default(), &messages, Goal::Within(10));
    assert_eq!(fitted.fit.left_out, 2);
}

#[test]
fn the_providers_own_number_counts_and_the_estimate_only_for_what_came_since() {
    let messages = vec![
        message(0, Role::User, vec![text(&"x".repeat(400))]),
        message(1, Role::Assistant, vec![text("yes")]),
        message(2, Role::User, vec![text("and?")]),
    ];
    let estimated = tokens::of_request(&build(&Fit::default(), &messages.iter().collect::<Vec<_>>()));
    let measured = |tokens| ModelContext {
        measured: Some(Measured { tokens, estimated: estimated - 10, summarized: 0 }),
        ..ModelContext::default()
    };
    assert_eq!(fitted(&measured(989), &messages, Goal::Within(999)).fit.left_out, 0);
    assert_eq!(fitted(&measured(990), &messages, Goal::Within(999)).fit.left_out, 2);
}

fn covered(messages: usize) -> Box<Covered> {
    let summary = Summary { goal: "tea".into(), ..Summary::default() };
    let up_to = MessageId::new(format!("m{}", messages - 1));
    Box::new(Covered {
        messages,
        up_to,
        summary,
        instructions: vec!["Be kind.".into()],
        plan: None,
        has_unremembered: false,
    })
}

fn covered_json(messages: usize) -> Value {
    json!({
        "messages": messages,
        "upTo": format!("m{}", messages - 1),
        "summary": {
            "goal": "tea", "decisions": [], "done": [], "todo": [], "facts": [], "entities": {}, "openQuestions": [], "toolsUsed": [],
        },
        "instructions": ["Be kind."],
    })
}

#[test]
fn a_summary_stands_for_what_it_covers_and_what_was_left_out_before_stays_so() {
    let mut context = ModelContext { next: Some(covered(4)), ..ModelContext::default() };
    assert_eq!(context.summarized(), 4);
    context.use_next();
    assert_eq!(context.fit.left_out, 4);
    assert_eq!((context.fit.instructions.clone(), context.next.clone()), (vec!["Be kind.".to_owned()], None));

    let cut = Fit { left_out: 6, ..Fit::default() };
    let mut context = ModelContext { fit: cut.clone(), next: Some(covered(4)), ..ModelContext::default() };
    context.use_next();
    assert_eq!(context.fit, Fit { summary: Some(covered(4)), ..cut });
}

#[test]
fn what_covers_messages_that_do_not_stay_is_forgotten() {
    let mut fit = Fit::default();
    fit.use_summary(covered(4));
    let job = SummaryJob { id: "j".into(), most: 8, until: Timestamp::UNIX_EPOCH };
    let context = ModelContext { fit, next: Some(covered(6)), job: Some(job), ..ModelContext::default() };
    for (keep, holds, has_next, has_job) in [
        (9, true, true, true),
        (8, true, true, true),
        (7, true, true, false),
        (5, true, false, false),
        (3, false, false, false),
    ] {
        let mut changed = context.clone();
        assert_eq!(changed.truncate(keep), holds, "{keep}");
        assert_eq!((changed.next.is_some(), changed.job.is_some()), (has_next, has_job), "{keep}");
        assert_eq!(changed.fit == context.fit, holds, "{keep}");
    }
}

#[test]
fn what_is_saved_is_read_again_and_nothing_is_read_from_what_is_not_known() {
    let context = ModelContext {
        fit: Fit {
            left_out: 3,
            summary: Some(covered(2)),
            instructions: vec!["ü".into()],
            cleared: [ToolCallId::new("c")].into_iter().collect(),
        },
        measured: Some(Measured { tokens: 5, estimated: 6, summarized: 0 }),
        next: Some(covered(3)),
        job: Some(SummaryJob { id: "j".into(), most: 4, until: Timestamp::UNIX_EPOCH }),
        was_full: true,
        failed_summaries: 2,
        paused_until: Some(Timestamp::UNIX_EPOCH),
        unremembered: Unremembered::Messages([MessageId::new("m1")].into_iter().collect()),
        noted: 3,
        note_at: Some(Timestamp::UNIX_EPOCH),
    };
    let Change::PutContext { context: saved } = context.saved() else { panic!("another change") };
    assert_eq!(
        saved,
        json!({
            "fit": {
                "leftOut": 3,
                "summary": covered_json(2),
                "instructions": ["ü"],
                "cleared": ["c"],
            },
            "measured": {"tokens": 5, "estimated": 6, "summarized": 0},
            "next": covered_json(3),
            "job": {"id": "j", "most": 4, "until": "1970-01-01T00:00:00Z"},
            "wasFull": true,
            "failedSummaries": 2,
            "pausedUntil": "1970-01-01T00:00:00Z",
            "unremembered": {"messages": ["m1"]},
            "noted": 3,
            "noteAt": "1970-01-01T00:00:00Z",
        })
    );
    assert_eq!(ModelContext::read(&saved), context);
    for unknown in [Value::Null, json!(5), json!({"fit": "x"})] {
        assert_eq!(ModelContext::read(&unknown), ModelContext::default());
    }
}

/// A chat of turns, with calls whose outputs have some sizes. Some of the calls have failed.
fn chat() -> impl Strategy<Value = Vec<UiMessage>> {
    let bytes = prop_oneof![0..10_usize, 400..3000_usize];
    let turn = (prop::collection::vec((bytes, any::<bool>()), 1..4), 0..2000_usize);
    prop::collection::vec(turn, 1..12).prop_map(|turns| {
        let mut messages = Vec::new();
        for (at, (calls, said)) in turns.into_iter().enumerate() {
            let asked = text(&format!("turn {at} {}", "x".repeat(said)));
            messages.push(message(2 * at, Role::User, vec![asked]));
            let mut parts = Vec::new();
            for (number, (bytes, has_failed)) in calls.into_iter().enumerate() {
                let state = if has_failed { failed(bytes) } else { output(bytes) };
                parts.extend([UiPart::StepStart, call(&format!("c{at}-{number}"), "look", state)]);
            }
            messages.push(message(2 * at + 1, Role::Assistant, parts));
        }
        messages
    })
}

proptest! {
    #[test]
    fn what_is_sent_is_a_whole_end_of_the_history(messages in chat(), limit in 50..5000_u64) {
        let fitted = fitted(&ModelContext::default(), &messages, Goal::Within(limit));
        let Fit { left_out, cleared, .. } = &fitted.fit;
        prop_assert!(messages[*left_out].role == Role::User, "it begins with a user message");
        let last_user = messages.iter().rposition(|message| message.role == Role::User).expect("one");
        prop_assert!(*left_out <= last_user);
        let whole = build(&Fit::default(), &messages[*left_out..].iter().collect::<Vec<_>>());
        prop_assert_eq!(whole.messages.len(), fitted.request.messages.len());
        for (sent, original) in fitted.request.messages.iter().zip(&whole.messages) {
            if sent != original {
                let ModelMessage::Tool { call_id, .. } = sent else { panic!("{sent:?} is not {original:?}") };
                prop_assert!(cleared.contains(&ToolCallId::new(call_id.as_str())));
            }
        }
        if fitted.estimated > Some(limit) {
            prop_assert_eq!(*left_out, last_user, "nothing more can be left out");
        }
    }

    #[test]
    fn a_history_that_was_fitted_is_not_fitted_further_before_it_has_grown(
        messages in chat(),
        limit in 50..5000_u64,
    ) {
        let first = fitted(&ModelContext::default(), &messages, Goal::Within(limit));
        let saved = ModelContext { fit: first.fit.clone(), ..ModelContext::default() };
        // An instance that reads the chat again reads it from where the history begins.
        let rest: Vec<&UiMessage> = messages[first.fit.left_out..].iter().collect();
        let history = History { first: first.fit.left_out, messages: rest };
        let again = saved.fitted(&history, Some(Goal::Within(limit)), &[Pattern::new("keep_*")], build);
        prop_assert_eq!(&again.fit, &first.fit);
        prop_assert_eq!(&again.request, &first.request);
        let without_goal = saved.fitted(&history, None, &[], build);
        prop_assert_eq!(&without_goal.request, &first.request);
    }

    #[test]
    fn a_history_that_was_refused_gets_shorter_or_stays(messages in chat()) {
        let before = fitted(&ModelContext::default(), &messages, Goal::Within(u64::MAX));
        let after = fitted(&ModelContext::default(), &messages, Goal::MuchShorter);
        if after.fit == before.fit {
            prop_assert_eq!(after.request, before.request);
        } else {
            prop_assert!(after.estimated < before.estimated);
        }
    }
}

#[test]
fn a_chat_with_very_many_messages_that_are_not_to_be_remembered_is_not_remembered_at_all() {
    let mut unremembered = Unremembered::default();
    let ids = |range: std::ops::Range<usize>| range.map(|n| MessageId::new(format!("m{n}")));
    unremembered.add(ids(0..MAX_UNREMEMBERED));
    assert!(matches!(&unremembered, Unremembered::Messages(ids) if ids.len() == MAX_UNREMEMBERED));
    unremembered.add(ids(0..2));
    assert_ne!(unremembered, Unremembered::Chat);
    unremembered.add([MessageId::new("new")]);
    assert_eq!(unremembered, Unremembered::Chat);
}
