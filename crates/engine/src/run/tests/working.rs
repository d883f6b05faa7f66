//! Calls on their way to their outcome: parked, queued for a resource, run, reported, failed.

use fermata_tools::{ChainMode, ErrorPolicy, ErrorStrategy, ErrorType, Pattern, ToolSettings};

use super::*;

#[test]
fn a_browser_call_is_parked_before_it_is_shown_and_its_output_starts_the_next_step() {
    Play::new().calls(&[("where", "{}")]).answer(vec![output("call_1", json!("Bern"))]).check(expect![[r#"
        > finished
        save
        park call_1
        tool-input-available call_1 {}
        > answered call_1 "Bern"
        save
        release call_1
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
            release call_1
            tool-output-available call_1 null
            > settled call_2
            save
            message-metadata {"call_2":{"state":"error","code":"internal"}}
            tool-output-error call_2 no clock
            finish-step
            start-step
            ask
        "#]]);
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
            message-metadata {"call_4":{"state":"error","code":"rate_limit"}}
            tool-output-error call_4 Too many calls of this chat wait for somebody: the limit is 3.
        "#]
    ]);
}

#[test]
fn a_call_that_uses_a_resource_is_scheduled_until_it_has_the_lock() {
    Play::new()
        .calls(&[("file", r#"{"n":1}"#), ("file", r#"{"n":1}"#), ("file", "{}"), ("time", "{}")])
        .grant_lock("call_1")
        .settle("call_1", Ok(json!(1)))
        .grant_lock("call_2")
        .grant_lock("call_2")
        .check(expect![[r#"
            > finished
            save
            queue call_1 for 1
            queue call_2 for 1
            execute call_3 call_4
            tool-input-available call_1 {"n":1}
            tool-input-available call_2 {"n":1}
            tool-input-available call_3 {}
            tool-input-available call_4 {}
            > lock granted to call_1
            save
            execute call_1
            > settled call_1
            save
            tool-output-available call_1 1
            > lock granted to call_2
            save
            execute call_2
            > lock granted to call_2
        "#]]);
}

#[test]
fn an_edited_input_queues_for_the_resource_that_it_names() {
    let mut play = Play::with(|rules| Rules { chain: ChainMode::Ask, ..rules });
    play.calls(&[("time", "{}")]).settle("call_1", Ok(json!("noon"))).calls(&[("file", r#"{"n":1}"#)]);
    play.transcript.clear();
    play.answer(vec![edited("call_2", json!({"n": 2}))]).check(expect![[r#"
        > answered call_2 yes as {"n":2}
        save
        queue call_2 for 2
        release call_2
        tool-approval-response true
        tool-input-available call_2 {"n":2}
    "#]]);
}

#[test]
fn a_call_that_does_not_get_its_lock_fails_as_a_timeout() {
    let mut play = Play::new();
    play.calls(&[("file", r#"{"n":1}"#), ("time", "{}")]);
    let late = ToolError::new(ErrorType::Timeout, "Other calls used 1 for too long.");
    play.apply(
        "lock timed out for call_1",
        Event::Admission(vec![(ToolCallId::new("call_1"), Admission::Refused(late))]),
    );
    play.grant_lock("call_1").check(expect![[r#"
        > finished
        save
        queue call_1 for 1
        execute call_2
        tool-input-available call_1 {"n":1}
        tool-input-available call_2 {}
        > lock timed out for call_1
        save
        message-metadata {"call_1":{"state":"error","code":"timeout"}}
        tool-output-error call_1 Other calls used 1 for too long.
        > lock granted to call_1
    "#]]);
    assert_eq!(play.run.calls[0].state().error_type(), Some(ErrorType::Timeout));
}

#[test]
fn a_partial_output_is_not_an_outcome() {
    let mut play = Play::new();
    let report = || Event::Reported(vec![(ToolCallId::new("call_1"), json!({"progress": 1}))]);
    play.calls(&[("time", "{}"), ("note", "{}")]).answer(vec![decision("call_2", false)]);
    play.transcript.clear();
    play.apply("call_1 shows", report())
        .settle("call_1", Ok(json!("noon")))
        .apply("call_1 shows late", report())
        .check(expect![[r#"
            > call_1 shows
            tool-output-available call_1 {"progress":1}
            > settled call_1
            save
            tool-output-available call_1 noon
            finish-step
            start-step
            ask
            > call_1 shows late
        "#]]);
}

#[test]
fn a_failure_with_fail_run_ends_the_run_with_an_explanation() {
    let error_policy = ErrorPolicy::default().with(ErrorType::Internal, ErrorStrategy::FailRun);
    let mut play = Play::with(|rules| Rules { error_policy, ..rules });
    play.calls(&[("time", "{}"), ("where", "{}")]).settle("call_1", Err("no clock")).check(expect![[r#"
        > finished
        save
        park call_2
        execute call_1
        tool-input-available call_1 {}
        tool-input-available call_2 {}
        > settled call_1
        save
        release call_2
        message-metadata {"call_1":{"state":"error","code":"internal"}}
        tool-output-error call_1 no clock
        message-metadata {"call_2":{"state":"cancelled","code":"run_ended"}}
        tool-output-error call_2 Cancelled: the run ended before the call had a result.
        finish-step
        error The tool time failed (internal), and this server ends a run then. Nothing after it was done.
        over: failed
    "#]]);
}

#[test]
fn a_call_whose_tool_does_not_come_back_fails() {
    let mut play = Play::new();
    play.calls(&[("note", "{}"), ("time", "{}")]);
    play.scene.toolbox = Toolbox::new(vec![Arc::new(FakeTool("time", Decision::Allow)) as _], |_| {}).0;
    play.transcript.clear();
    play.answer(vec![decision("call_1", true)]);
    assert!(play.run.waits_for_tools() && !play.run.is_waiting());
    play.apply("nothing has come", Event::ToolsChanged);
    play.now = play.run.tool_wait_ends(play.scene.limits.tool_timeout).unwrap();
    play.apply("it is missed", Event::ToolsTimedOut).check(expect![[r#"
        > answered call_1 yes
        save
        release call_1
        execute call_2
        tool-approval-response true
        > nothing has come
        > it is missed
        save
        message-metadata {"call_1":{"state":"error","code":"network"}}
        tool-output-error call_1 The tool note is not there any more, so the call did not run.
    "#]]);
}

#[test]
fn only_a_structured_output_can_say_that_nothing_was_found() {
    let mcp = |structured: Value| json!({"content": [{"type": "text", "text": "x"}], "structuredContent": structured});
    for (output, is_empty) in [
        (json!({"notes": []}), true),
        (json!({"notes": null}), true),
        (json!({"notes": " "}), true),
        (json!({"notes": {}}), true),
        (json!({}), true),
        (json!({"notes": [1]}), false),
        (json!({"notes": false}), false),
        (json!({"notes": 0}), false),
        (mcp(json!({"notes": []})), true),
        (mcp(json!({"notes": ["a"]})), false),
        (json!({"content": [{"type": "text", "text": "plain words"}]}), false),
        (json!("plain words"), false),
        (json!([]), false),
        (Value::Null, false),
    ] {
        let empty = ToolSettings { empty: Some("notes".into()), ..ToolSettings::default() };
        let mut play = Play::with(|rules| Rules { tools: vec![(Pattern::new("time"), empty)], ..rules });
        play.calls(&[("time", "{}")]).settle("call_1", Ok(output.clone()));
        assert_eq!(play.run.calls[0].is_empty, is_empty, "{output}");
    }
}

#[test]
fn a_tool_that_fails_three_times_in_a_row_is_not_offered_any_more() {
    let mut play = Play::new();
    play.scene.limits.steps = 20;
    let fail = |play: &mut Play, text: &str| {
        play.calls(&[("time", "{}")]);
        let call = play.run.calls.last().unwrap().id.to_string();
        play.settle(&call, Err(text));
    };
    fail(&mut play, "one");
    fail(&mut play, "two");
    play.calls(&[("time", "{}")]);
    let call = play.run.calls.last().unwrap().id.to_string();
    play.settle(&call, Ok(json!(1)));
    assert_eq!(play.run.failures_of("time"), 0, "it works");
    for failure in ["three", "four", "five"] {
        assert!(play.run.dead_tools().is_empty());
        fail(&mut play, failure);
    }
    assert_eq!(play.run.dead_tools().into_iter().collect::<Vec<_>>(), ["time"]);
    assert!(play.run.told_of_dead_tools().unwrap().contains("time"));
    play.calls(&[("time", "{}"), ("again", "{}")]);
    let states: Vec<_> = play.run.calls.iter().rev().take(2).map(|call| call.state().name()).collect();
    assert_eq!(states, [StateName::Executing, StateName::Error], "others go on");
    play.crash();
    assert!(play.run.dead_tools().contains("time"));
}
