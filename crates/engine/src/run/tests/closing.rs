//! The ways a run ends, and the last chunks and metadata of its message.

use super::*;

#[test]
fn in_the_last_step_the_model_is_told_to_call_nothing_and_what_it_calls_does_not_run() {
    let mut play = Play::new();
    for call in ["call_1", "call_2"] {
        let limits = &play.scene.limits;
        assert_eq!((play.run.tool_choice(limits), play.run.step_instructions(limits)), (None, None));
        play.calls(&[("time", "{}")]).settle(call, Ok(json!(1)));
    }
    let limits = &play.scene.limits;
    assert_eq!(play.run.tool_choice(limits), Some(ToolChoice::None));
    assert!(play.run.step_instructions(limits).unwrap().contains("what is left to do"));
    play.calls(&[("time", "{}")]).check(expect![[r#"
        > finished
        save
        message-metadata {"call_3":{"state":"cancelled","code":"run_ended"}}
        tool-output-error call_3 Cancelled: the run ended before the call had a result.
        finish-step
        start-step
        finish-step
        finish other
        over: step_limit
    "#]]);
    assert_eq!(play.run.snapshot().metadata.unwrap()["ending"], "step_limit");
}

#[test]
fn a_message_says_how_its_run_ended_unless_it_failed() {
    for (ending, told) in [
        (Ending::Finished(FinishReason::Stop), Some("finished")),
        (Ending::Stopped, Some("stopped")),
        (Ending::Expired, Some("expired")),
        (Ending::StepLimit, Some("step_limit")),
        (Ending::CrashLoop, None),
        (Ending::OutputLimit { bytes: 1 }, None),
    ] {
        let mut play = Play::new();
        play.calls(&[("where", "{}")]).end(ending);
        let metadata = play.run.snapshot().metadata.unwrap();
        assert_eq!(metadata.get("ending").map(|ending| ending.as_str().unwrap()), told);
        // Without it the message still says why the call has no output.
        assert_eq!(metadata["calls"]["call_1"]["state"], "cancelled");
    }
}

#[test]
fn a_run_that_ends_in_its_last_step_says_that_it_was_stopped() {
    let mut play = Play::new();
    play.calls(&[("time", "{}")]).settle("call_1", Ok(json!(1)));
    play.calls(&[("time", "{}")]).settle("call_2", Ok(json!(2)));
    play.receive(ModelEvent::Text("Two are done.".into())).receive(finished());
    assert_eq!(play.run.snapshot().metadata.unwrap()["ending"], "step_limit");

    let mut play = Play::new();
    play.scene.limits.steps = 1;
    play.receive(ModelEvent::Text("Nothing had to be called.".into())).receive(finished());
    assert_eq!(play.run.snapshot().metadata.unwrap()["ending"], "finished");
}

#[test]
fn stop_in_the_middle_of_a_text_closes_it() {
    Play::new().receive(ModelEvent::Text("a".into())).end(Ending::Stopped).check(expect![[r#"
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
        .receive(ModelEvent::CallStart { key: 0, tool: "where".into() })
        .receive(ModelEvent::CallDelta { key: 0, arguments: "{\"n".into() })
        .end(Ending::Stopped)
        .check(expect![[r#"
            > CallStart { key: 0, tool: "where" }
            tool-input-start call_1
            > CallDelta { key: 0, arguments: "{\"n" }
            tool-input-delta call_1 {"n
            > stopped
            save
            message-metadata {"call_1":{"state":"cancelled","code":"stopped"}}
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
            release call_1
            tool-approval-response false
            > stopped
            save
            release call_2
            message-metadata {"call_1":{"state":"cancelled","code":"denied"}}
            tool-output-error call_1 Denied: the call was not approved.
            message-metadata {"call_2":{"state":"cancelled","code":"stopped"}}
            tool-output-error call_2 Cancelled: the run was stopped before the call had a result.
            message-metadata {"call_3":{"state":"cancelled","code":"stopped"}}
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
        .receive(ModelEvent::Text("a".into()))
        .receive(ModelEvent::CallStart { key: 0, tool: "time".into() })
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
            message-metadata {"call_1":{"state":"cancelled","code":"run_ended"}}
            tool-output-error call_1 Cancelled: the run ended before the call had a result.
            finish-step
            error The model took too long to answer. Try again.
            over: failed
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
fn events_after_the_end_change_nothing() {
    Play::new().end(Ending::Stopped).receive(ModelEvent::Text("late".into())).end(Ending::Expired).check(
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
fn an_expired_call_is_shown_as_expired_and_ends_the_run() {
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
        message-metadata {"call_1":{"state":"cancelled","code":"expired"}}
        tool-output-error call_1 Expired: nobody answered in time, so the call has no result.
        message-metadata {"call_2":{"state":"cancelled","code":"run_ended"}}
        tool-output-error call_2 Cancelled: the run ended before the call had a result.
        finish-step
        start-step
        finish-step
        finish other
        over: expired
    "#]]);
}

#[test]
fn a_chat_that_is_too_large_ends_the_run_after_the_step() {
    let mut play = Play::new();
    (play.scene.limits.chat_bytes, play.scene.other_bytes) = (2_000, 1_500);
    play.calls(&[("time", "{}")]);
    play.settle("call_1", Ok(json!("now")));
    assert_eq!(play.run.state.step, 2, "there is room");
    play.calls(&[("time", "{}")]);
    play.transcript.clear();
    play.settle("call_2", Ok(json!("x".repeat(500))));
    let transcript = play.transcript.trim_end();
    assert!(transcript.contains("finish-step\nerror This chat has "), "{transcript}");
    assert!(
        transcript.contains("may have 2000 (max_chat)") && transcript.ends_with("over: failed"),
        "{transcript}"
    );
}

#[test]
fn a_message_says_how_long_each_of_its_calls_ran_and_not_how_long_it_waited() {
    let mut play = Play::new();
    play.calls(&[("time", "{}"), ("note", "{}"), ("where", "{}")]);
    play.later(5_000).answer(vec![decision("call_2", true)]);
    play.later(30).settle("call_1", Ok(json!("noon"))).later(10).settle("call_2", Err("no paper"));
    // The process ends and another goes on: the past is known.
    play.later(1_000).crash().later(200).answer(vec![output("call_3", json!("Bern"))]);
    play.calls(&[("time", "{}")]).later(7).settle("call_5", Ok(json!("later")));
    play.later(60_000).receive(ModelEvent::Text("Done.".into())).receive(finished());
    let expected = json!({
        "call_1": {"durationMs": 30},
        "call_2": {
            "state": "error", "code": "internal", "durationMs": 40, "errorType": "internal", "strategy": "go_on",
        },
        "call_3": {"durationMs": 1_240},
        "call_5": {"durationMs": 7},
    });
    assert_eq!(play.told_of_calls(), expected);
    // A tab that was away receives the same.
    let message = play.run.snapshot();
    let healed =
        reconcile_finished(&message, &client_view(&message.parts[..1]), |_| true).expect("it is behind");
    let Some(UiChunk::Finish { message_metadata: Some(metadata), .. }) = healed.last() else {
        panic!("no finish: {healed:?}");
    };
    assert_eq!(metadata["calls"], expected);
}

#[test]
fn a_call_that_never_ran_to_its_end_has_no_duration() {
    let mut play = Play::new();
    play.calls(&[("note", "{}"), ("time", "{\"n\":\"x\"}"), ("nowhere", "{}")]);
    play.later(50).answer(vec![decision("call_1", false)]).later(50);
    play.receive(ModelEvent::Text("Well.".into())).receive(finished());
    let denied = json!({"state": "cancelled", "code": "denied"});
    let invalid = json!({
        "state": "error", "code": "invalid_format", "errorType": "invalid_format", "strategy": "go_on",
    });
    assert_eq!(
        play.told_of_calls(),
        json!({"call_1": denied, "call_2": invalid, "call_3": invalid}),
        "denied, invalid, unknown: none ran"
    );
    let mut play = Play::new();
    play.calls(&[("time", "{}"), ("where", "{}")]);
    play.later(20).settle("call_1", Ok(json!("noon"))).later(20).end(Ending::Stopped);
    let stopped = json!({"state": "cancelled", "code": "stopped"});
    assert_eq!(play.told_of_calls(), json!({"call_1": {"durationMs": 20}, "call_2": stopped}));
}

#[test]
fn why_a_model_failed_is_shown_to_a_developer_only() {
    let error = || ModelError::Unreachable("http://127.0.0.1:11434/v1: Connection refused".into());
    let mut play = Play::new();
    play.end(Ending::Failed(error()));
    play.check(expect![[r#"
        > failed
        save
        finish-step
        error The model provider cannot be reached. Try again in a moment, or tell the operator of this server.
        over: failed
    "#]]);
    let mut play = Play::new();
    play.scene.shows_model_errors = true;
    play.end(Ending::Failed(error()));
    play.check(expect![[r#"
        > failed
        save
        finish-step
        error The model provider cannot be reached. Try again in a moment, or tell the operator of this server. The cause: http://127.0.0.1:11434/v1: Connection refused
        over: failed
    "#]]);
}
