//! The model's answer: its parts, its calls and the limits of a step.

use proptest::prelude::*;

use super::*;

#[test]
fn text_and_reasoning_are_closed_before_what_follows() {
    Play::new()
        .receive(ModelEvent::Reasoning("hm".into()))
        .receive(ModelEvent::Text("a".into()))
        .receive(ModelEvent::Text("b".into()))
        .receive(ModelEvent::CallStart { key: 0, tool: "time".into() })
        .check(expect![[r#"
            > Reasoning("hm")
            reasoning-start
            reasoning-delta hm
            > Text("a")
            reasoning-end
            text-start
            text-delta a
            > Text("b")
            text-delta b
            > CallStart { key: 0, tool: "time" }
            text-end
            tool-input-start call_1
        "#]]);
}

#[test]
fn a_text_answer_ends_the_run() {
    Play::new().receive(ModelEvent::Text("a".into())).receive(finished()).check(expect![[r#"
            > Text("a")
            text-start
            text-delta a
            > finished
            save
            text-end
            finish-step
            finish stop
            over: finished
        "#]]);
}

#[test]
fn an_answer_without_any_text_ends_the_run() {
    Play::new().receive(finished()).check(expect![[r#"
            > finished
            save
            finish-step
            finish stop
            over: finished
        "#]]);
}

#[test]
fn empty_arguments_are_an_empty_object() {
    Play::new().calls(&[("note", "")]).check(expect![[r#"
            > finished
            save
            park call_1
            tool-input-delta call_1 {}
            tool-input-available call_1 {}
            tool-approval-request call_1
        "#]]);
}

#[test]
fn null_for_an_optional_field_is_no_part_of_the_input() {
    Play::new().calls(&[("time", r#"{"n":null,"other":null}"#)]).check(expect![[r#"
        > finished
        save
        execute call_1
        tool-input-available call_1 {"other":null}
    "#]]);
}

#[test]
fn calls_that_cannot_run_are_settled_as_errors() {
    Play::new()
        .calls(&[("time", "{\"n\":"), ("time", r#"{"n":"x"}"#), ("nothing", "{}"), ("where", "[]")])
        .check(expect![[r#"
            > finished
            save
            message-metadata {"call_1":{"state":"error","code":"invalid_format"}}
            tool-input-error call_1 {"n": The arguments of time are not valid JSON (EOF while parsing a value at line 1 column 5). Call it again with a JSON object.
            message-metadata {"call_2":{"state":"error","code":"invalid_format"}}
            tool-input-error call_2 {"n":"x"} The input of time does not fit its schema: /n: "x" is not of type "integer".
            message-metadata {"call_3":{"state":"error","code":"invalid_format"}}
            tool-input-error call_3 {} There is no tool named "nothing". The tools are: again, file, note, time, color, where.
            message-metadata {"call_4":{"state":"error","code":"invalid_format"}}
            tool-input-error call_4 [] The arguments of where are not a JSON object. Call it again with a JSON object.
            finish-step
            start-step
            ask
        "#]]);
}

#[test]
fn nothing_is_decided_about_a_step_before_its_inputs_are_checked() {
    let mut play = Play::new();
    play.receive(ModelEvent::CallStart { key: 0, tool: "where".into() });
    play.receive(ModelEvent::CallDelta { key: 0, arguments: r#"{"n":1}"#.into() });
    let effects = play.run.apply(Event::Model(vec![finished()]), &play.scene.context(play.now));
    assert!(play.run.is_checking() && effects.after.publish.is_empty() && effects.commit.is_empty());
    // It is stopped meanwhile: the results of the checks are too late.
    play.transcript.clear();
    play.end(Ending::Stopped);
    let checks: Vec<_> = effects.before.checks.into_iter().map(|(call, _)| (call, Ok(()))).collect();
    play.transcript.clear();
    play.apply("checked", Event::InputsChecked(checks));
    play.check(expect![[r#"
        > checked
    "#]]);
    assert_eq!(play.run.calls[0].input, json!({"n": 1}).into());
}

#[test]
fn arguments_that_are_too_long_fail_their_call_and_are_not_kept() {
    let mut play = Play::new();
    play.scene.limits.argument_bytes = 10;
    play.receive(ModelEvent::CallStart { key: 0, tool: "note".into() });
    play.receive(ModelEvent::CallDelta { key: 0, arguments: r#"{"n":1,"#.into() });
    play.transcript.clear();
    for _ in 0..3 {
        play.receive(ModelEvent::CallDelta { key: 0, arguments: r#""a":1}"#.into() });
    }
    play.transcript.clear();
    play.receive(finished()).check(expect![[r#"
        > finished
        save
        message-metadata {"call_1":{"state":"error","code":"invalid_format"}}
        tool-input-error call_1 null The arguments of note have more than 10 bytes (max_arguments). Call it again with less.
        finish-step
        start-step
        ask
    "#]]);
}

#[test]
fn calls_over_the_limit_of_a_step_are_left_out() {
    let mut play = Play::new();
    play.scene.limits.calls_per_step = 1;
    play.calls(&[("time", "{}"), ("time", "{}"), ("time", "{}")]).check(expect![[r#"
        > finished
        save
        execute call_1
        tool-input-available call_1 {}
        message-metadata {"call_2":{"state":"error","code":"invalid_format"}}
        tool-input-error call_2 null The step has more than 1 calls (max_calls_per_step). This one and those after it were left out; make them in the next step.
    "#]]);
    assert_eq!(play.run.calls.len(), 2);
}

#[test]
fn output_over_the_limit_of_a_step_ends_the_run_with_an_error() {
    let mut play = Play::new();
    play.scene.limits.step_output_bytes = 20;
    play.receive(ModelEvent::Text("a".repeat(20)));
    play.transcript.clear();
    play.receive(ModelEvent::Reasoning("b".into())).check(expect![[r#"
        > Reasoning("b")
        save
        text-end
        finish-step
        error The model said more than 20 bytes in one step, and this server ends a run then (max_step_output).
        over: failed
    "#]]);
}

fn model_event() -> impl Strategy<Value = ModelEvent> {
    prop_oneof![
        6 => "[a-c]{0,3}".prop_map(ModelEvent::Text),
        4 => "[a-c]{0,3}".prop_map(ModelEvent::Reasoning),
        1 => Just(ModelEvent::Alive),
        1 => Just(ModelEvent::CallStart { key: 0, tool: "time".into() }),
        1 => Just(ModelEvent::CallDelta { key: 0, arguments: "{}".into() }),
        1 => Just(ModelEvent::Source { url: "https://a.example/".into(), title: None }),
        1 => Just(finished()),
    ]
}

proptest! {
    /// Text that takes the short way and text that is decided about have the same effect.
    #[test]
    fn text_that_is_only_copied_gives_the_same_answer(
        answer in prop::collection::vec(prop::collection::vec(model_event(), 1..4), 1..12),
        must_call in any::<bool>(),
        step_output_bytes in 5_usize..60,
    ) {
        let [mut decided, mut copied] = [Play::new(), Play::new()];
        for play in [&mut decided, &mut copied] {
            play.scene.limits.step_output_bytes = step_output_bytes;
            if must_call {
                play.run.settings.tool_choice = Some(ToolChoice::Tool("time".into()));
            }
        }
        for events in answer {
            decided.apply("", Event::Model(events.clone()));
            let mut events = events;
            match copied.run.stream_text(&mut events, &copied.scene.limits) {
                Some(chunks) => copied.log.extend(chunks),
                None => _ = copied.apply("", Event::Model(events)),
            }
            prop_assert_eq!(&copied.log, &decided.log);
            prop_assert_eq!(&copied.run.state, &decided.run.state);
            prop_assert_eq!(copied.run.message_so_far(), decided.run.message_so_far());
        }
    }
}
