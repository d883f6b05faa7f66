//! Answers that are cut off: none of their calls runs, and no client posts again by itself.

use fermata_protocol::{JsonText, UiPart};

use super::*;

#[test]
fn no_call_of_an_answer_that_a_content_filter_cut_off_runs() {
    let mut play = Play::new();
    play.calls_until(
        FinishReason::ContentFilter,
        &[("time", r#"{"n":1}"#), ("where", "{}"), ("note", r#"{"n":2}"#), ("nothing", "{}"), ("file", r#"{"n"#)],
    )
    .check(expect![[r#"
        > finished
        save
        message-metadata {"call_1":{"state":"error","code":"cancelled"}}
        tool-output-error call_1 The answer was cut off by the provider's content filter, so this call did not run.
        message-metadata {"call_2":{"state":"error","code":"cancelled"}}
        tool-output-error call_2 The answer was cut off by the provider's content filter, so this call did not run.
        message-metadata {"call_3":{"state":"error","code":"cancelled"}}
        tool-output-error call_3 The answer was cut off by the provider's content filter, so this call did not run.
        message-metadata {"call_4":{"state":"error","code":"cancelled"}}
        tool-output-error call_4 The answer was cut off by the provider's content filter, so this call did not run.
        message-metadata {"call_5":{"state":"error","code":"cancelled"}}
        tool-output-error call_5 The answer was cut off by the provider's content filter, so this call did not run.
        finish-step
        start-step
        finish-step
        finish content-filter
        over: finished
    "#]]);
    let inputs: Vec<_> = play.run.calls.iter().map(|call| call.input.clone()).collect();
    assert_eq!(
        inputs,
        [json!({"n": 1}), json!({}), json!({"n": 2}), json!({}), json!(r#"{"n"#)].map(JsonText::from)
    );
    assert!(play.run.calls.iter().all(|call| call.times_run() == 0));
    assert!(play.run.snapshot().parts.iter().filter_map(UiPart::as_tool).all(|part| part.state.is_settled()));
}

#[test]
fn no_call_of_an_answer_that_was_interrupted_runs() {
    Play::new()
        .receive(ModelEvent::Text("a".into()))
        .calls_until(FinishReason::Interrupted, &[("time", "{}"), ("where", "{}"), ("note", "{}")])
        .check(expect![[r#"
            > finished
            save
            message-metadata {"call_1":{"state":"error","code":"cancelled"}}
            tool-output-error call_1 The answer was cut off before its end, so this call did not run.
            message-metadata {"call_2":{"state":"error","code":"cancelled"}}
            tool-output-error call_2 The answer was cut off before its end, so this call did not run.
            message-metadata {"call_3":{"state":"error","code":"cancelled"}}
            tool-output-error call_3 The answer was cut off before its end, so this call did not run.
            finish-step
            start-step
            finish-step
            finish interrupted
            over: finished
        "#]]);
}

#[test]
fn no_call_of_an_answer_in_which_the_model_failed_runs() {
    Play::new().calls_until(FinishReason::Error, &[("again", "{}")]).check(expect![[r#"
        > finished
        save
        message-metadata {"call_1":{"state":"error","code":"cancelled"}}
        tool-output-error call_1 The answer was cut off because the model failed, so this call did not run.
        finish-step
        start-step
        finish-step
        finish error
        over: finished
    "#]]);
}

#[test]
fn an_answer_without_calls_that_was_cut_off_ends_the_run_as_any_other() {
    Play::new().receive(ModelEvent::Text("a".into())).calls_until(FinishReason::ContentFilter, &[]).check(
        expect![[r#"
        > finished
        save
        text-end
        finish-step
        finish content-filter
        over: finished
    "#]],
    );
}

#[test]
fn a_call_whose_arguments_the_token_limit_cut_off_does_not_run() {
    Play::new()
        .calls_until(FinishReason::Length, &[("time", r#"{"n":1}"#), ("time", r#"{"n""#), ("time", "")])
        .check(expect![[r#"
            > finished
            save
            execute call_1
            tool-input-available call_1 {"n":1}
            message-metadata {"call_2":{"state":"error","code":"invalid_format"}}
            tool-input-error call_2 {"n" The answer reached its token limit before the arguments of time were complete. Call it again, with less if you can.
            message-metadata {"call_3":{"state":"error","code":"invalid_format"}}
            tool-input-error call_3  The answer reached its token limit before the arguments of time were complete. Call it again, with less if you can.
        "#]]);
}
