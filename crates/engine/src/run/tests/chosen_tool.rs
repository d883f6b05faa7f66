//! A tool that the user has chosen for the message: the first step calls it, or nobody sees the step.

use super::*;

fn with_chosen_tool() -> Play {
    let mut play = Play::new();
    play.run.settings.tool_choice = Some(ToolChoice::Tool("time".into()));
    play
}

#[test]
fn nothing_is_shown_before_the_chosen_tool_is_called_and_other_calls_are_cancelled() {
    with_chosen_tool()
        .receive(ModelEvent::Text("Well, ".into()))
        .receive(ModelEvent::CallStart { key: 0, tool: "note".into() })
        .receive(ModelEvent::CallDelta { key: 0, arguments: "{}".into() })
        .receive(ModelEvent::CallStart { key: 1, tool: "time".into() })
        .receive(ModelEvent::CallDelta { key: 1, arguments: "{}".into() })
        .receive(finished())
        .check(expect![[r#"
            > Text("Well, ")
            > CallStart { key: 0, tool: "note" }
            > CallDelta { key: 0, arguments: "{}" }
            > CallStart { key: 1, tool: "time" }
            text-start
            text-delta Well, 
            text-end
            tool-input-start call_1
            tool-input-delta call_1 {}
            tool-input-start call_2
            > CallDelta { key: 1, arguments: "{}" }
            tool-input-delta call_2 {}
            > finished
            save
            execute call_2
            tool-input-available call_1 {}
            tool-input-available call_2 {}
            message-metadata {"call_1":{"state":"cancelled","code":"not_chosen"}}
            tool-output-error call_1 Cancelled: the user has chosen another tool for this message, so this call did not run.
        "#]]);
}

#[test]
fn a_step_without_the_chosen_tool_is_asked_for_once_more_and_leaves_nothing() {
    let mut play = with_chosen_tool();
    let usage = Usage { input_tokens: 5, output_tokens: 2, total_tokens: 7 };
    play.receive(ModelEvent::Text("I know it anyway.".into()))
        .receive(ModelEvent::CallStart { key: 0, tool: "note".into() })
        .receive(ModelEvent::Finished { reason: FinishReason::Stop, usage: Some(usage) })
        .check(expect![[r#"
            > Text("I know it anyway.")
            > CallStart { key: 0, tool: "note" }
            > finished
            save
            ask
        "#]]);
    assert_eq!((play.run.calls.len(), play.run.state.usage), (0, Some(usage)), "it has to be paid for");
    play.crash();
    let limits = &play.scene.limits;
    assert_eq!(play.run.tool_choice(limits), Some(ToolChoice::Tool("time".into())));
    assert!(play.run.step_instructions(limits).unwrap().contains("Call time now"));
    play.calls(&[("time", "{}")]).settle("call_1", Ok(json!(1)));
    let limits = &play.scene.limits;
    assert_eq!((play.run.tool_choice(limits), play.run.step_instructions(limits)), (None, None));
}

#[test]
fn a_run_whose_model_refuses_the_chosen_tool_twice_fails_and_shows_nothing() {
    with_chosen_tool()
        .receive(finished())
        .receive(ModelEvent::Reasoning("Hm.".into()))
        .receive(ModelEvent::Text("Truly not.".into()))
        .receive(finished())
        .check(expect![[r#"
            > finished
            save
            ask
            > Reasoning("Hm.")
            > Text("Truly not.")
            > finished
            save
            finish-step
            error The model was asked twice to call the tool time, which was chosen for this message, and did not call it.
            over: failed
        "#]]);
}
