//! The saved form of a run, and its resumption by another process.

use fermata_protocol::UiPart;

use super::*;
use crate::memories::MemoryNote;

#[test]
fn a_saved_run_is_the_same_run() {
    let mut play = Play::new();
    play.receive(ModelEvent::Text("so".into()));
    play.calls(&[("note", ""), ("where", "")]).answer(vec![decision("call_1", false)]);
    let state: RunState = serde_json::from_value(serde_json::to_value(&play.run.state).unwrap()).unwrap();
    let calls: Vec<Call> = {
        let calls: Vec<&Call> = play.run.all_calls().collect();
        serde_json::from_value(serde_json::to_value(calls).unwrap()).unwrap()
    };
    let records = play
        .log
        .iter()
        .map(|(seq, chunk)| (*seq, UiChunk::from_record(&chunk.to_record()).unwrap()))
        .collect();
    let saved = SavedRun {
        id: RunId::new("r"),
        message: MessageId::new("m"),
        settings: play.run.settings.clone(),
        state,
        calls,
        log: records,
    };
    let again = Run::restore(saved).unwrap();
    assert_eq!(again.snapshot(), play.run.snapshot());
    assert!(again.all_calls().eq(play.run.all_calls()));
    assert!(again.is_waiting());
}

#[test]
fn a_call_that_ran_when_the_process_ended_is_not_run_again() {
    let mut play = Play::new();
    play.calls(&[("time", "{}"), ("where", "{}")]);
    play.apply("resumed", Event::Resumed);
    play.check(expect![[r#"
        > finished
        save
        park call_2
        execute call_1
        tool-input-available call_1 {}
        tool-input-available call_2 {}
        > resumed
        save
        message-metadata {"call_1":{"state":"error","code":"internal"}}
        tool-output-error call_1 The server was restarted while this call ran; it may or may not have had its effect.
    "#]]);
}

#[test]
fn a_step_that_was_cut_off_is_asked_for_again_and_its_positions_are_not_reused() {
    let mut play = Play::new();
    let before = play.run.state.position;
    play.apply("resumed", Event::Resumed).check(expect![[r#"
        > resumed
        save
        ask
    "#]]);
    assert!(play.run.state.position > before.plus(1_000_000));
}

#[test]
fn readers_of_a_step_that_was_cut_off_are_left_with_its_saved_beginning_if_the_run_ends() {
    let mut play = Play::new();
    play.receive(ModelEvent::Text("Tea".into()));
    play.transcript.clear();
    play.crash();
    play.apply("stopped", Event::Ended(Ending::Stopped)).check(expect![[r#"
        > resumed
        save
        ask
        > stopped
        save
        reset-step
        text-start
        text-delta Tea
        text-end
        finish-step
        abort
        finish other
        over: stopped
    "#]]);
    let texts = play.run.snapshot().parts.into_iter().filter(|part| matches!(part, UiPart::Text { .. }));
    assert_eq!(texts.count(), 1);
}

#[test]
fn what_was_recalled_after_a_crash_stays_in_the_message_when_the_model_speaks() {
    let mut play = Play::new();
    play.crash();
    let note: MemoryNote =
        serde_json::from_value(json!({"id": "mem_1", "kind": "fact", "text": "Likes tea."})).unwrap();
    let recollection = Recollection { recalled: vec![note], always: Vec::new() };
    play.apply("recollected", Event::Recollected(Arc::new(recollection)));
    play.receive(ModelEvent::Text("Tea?".into()));
    let parts = play.run.snapshot().parts;
    let is_memory = |part: &UiPart| matches!(part, UiPart::Data(data) if data.kind == "data-memory");
    assert!(parts.iter().any(is_memory), "{parts:?}");
}

#[test]
fn a_repeatable_call_runs_again_after_a_crash_up_to_its_limit() {
    let mut play = Play::new();
    play.calls(&[("again", "{}")]);
    play.transcript.clear();
    play.crash().crash().crash().check(expect![[r#"
        > resumed
        save
        execute call_1
        > resumed
        save
        execute call_1
        > resumed
        save
        message-metadata {"call_1":{"state":"error","code":"internal"}}
        tool-output-error call_1 The server was restarted while this call ran; it may or may not have had its effect.
        finish-step
        start-step
        ask
    "#]]);
    assert_eq!(play.history("call_1"), "validating scheduled executing executing executing error");
}

#[test]
fn a_call_keeps_its_idempotency_key_in_each_repetition() {
    let mut play = Play::new();
    play.calls(&[("again", "{}"), ("again", "{}")]);
    let keys = |play: &Play| -> Vec<Option<String>> {
        play.run.calls.iter().map(|call| call.idempotency_key.clone()).collect()
    };
    let first = [Some("key_1".to_owned()), Some("key_2".to_owned())];
    assert_eq!(keys(&play), first);
    assert_eq!(play.effects.commit.calls, [0, 1].into(), "the keys are saved with the start of the calls");
    play.apply("again", Event::Retries(ToolCallId::new("call_1")));
    assert_eq!(keys(&play), first);
    play.crash();
    assert_eq!(play.effects.after.execute, [ToolCallId::new("call_1"), ToolCallId::new("call_2")]);
    assert_eq!(keys(&play), first);
}

#[test]
fn a_call_whose_start_the_store_has_forgotten_has_begun_and_keeps_its_idempotency_key() {
    for run_by in [RunBy::Server, RunBy::Mcp] {
        let mut play = Play::new();
        play.calls(&[("note", "{}"), ("again", "{}")]);
        play.run.calls[1].run_by = Some(run_by);
        let forgotten = (play.run.state.clone(), play.run.calls.clone());
        play.answer(vec![decision("call_1", true)]);
        let remembered = play.run.remembered();
        let key = play.run.calls[1].idempotency_key.clone();
        assert!(key.is_some());
        (play.run.state, play.run.calls) = forgotten;
        play.run.note_remembered(&remembered, play.now);
        assert_eq!(play.run.calls[1].times_run(), 1);
        assert_eq!(play.run.calls[1].idempotency_key, key);
    }
}

#[test]
fn a_queued_call_is_queued_again_after_a_crash() {
    let mut play = Play::new();
    play.calls(&[("file", r#"{"n":1}"#), ("file", r#"{"n":1}"#)]).grant_lock("call_1");
    play.transcript.clear();
    play.crash().grant_lock("call_2").check(expect![[r#"
        > resumed
        save
        queue call_2 for 1
        message-metadata {"call_1":{"state":"error","code":"internal"}}
        tool-output-error call_1 The server was restarted while this call ran; it may or may not have had its effect.
        > lock granted to call_2
        save
        execute call_2
    "#]]);
}

#[test]
fn the_position_of_a_lost_partial_output_is_not_reused() {
    let mut play = Play::new();
    play.calls(&[("again", "{}")]);
    let call = ToolCallId::new("call_1");
    let saved = play.log.len();
    play.apply("call_1 shows", Event::Reported(vec![(call, json!({"progress": 1}))]));
    let (shown, _) = play.log.last().cloned().unwrap();
    play.log.truncate(saved);
    play.run.state.position = play.log.last().unwrap().0;
    play.crash().settle("call_1", Ok(json!("done")));
    let since: Vec<Position> = play.log[saved..].iter().map(|(seq, _)| *seq).collect();
    assert!(!since.is_empty() && since.iter().all(|seq| *seq > shown), "{since:?}");
}

#[test]
fn a_run_whose_call_runs_again_after_a_crash_is_not_detached() {
    let mut play = Play::new();
    play.calls(&[("again", "{}")]).asks("call_1").detach();
    assert!(play.run.is_detached() && play.run.is_pinned());
    play.crash();
    assert!(!play.run.is_detached() && !play.run.is_pinned());
}

#[test]
fn the_state_of_a_run_keeps_the_form_in_which_it_is_saved() {
    for (phase, activity) in [
        ("streaming", r#""working""#),
        ("deciding", r#"{"waiting":{"since":"1970-01-01T00:00:00Z"}}"#),
        ("working", r#"{"detached":{"since":"1970-01-01T00:00:00Z"}}"#),
        ("over", r#""working""#),
    ] {
        let saved = format!(
            r#"{{"profile":6,"hold":{{"for":{{"secs":60,"nanos":0}}}},"phase":"{phase}","step":1,"position":5,"usage":null,"checkpoints":[{{"step":1,"position":5,"open":false}}],"activity":{activity},"texts":0}}"#
        );
        let state: RunState = serde_json::from_str(&saved).unwrap();
        assert_eq!(serde_json::to_string(&state).unwrap(), saved);
        let value = serde_json::to_value(&state).unwrap();
        let state: RunState = serde_json::from_value(value).unwrap();
        assert_eq!(serde_json::to_string(&state).unwrap(), saved);
    }
}

#[test]
fn half_a_step_is_never_saved() {
    let mut play = Play::new();
    play.receive(ModelEvent::CallStart { key: 0, tool: "time".into() });
    play.apply(
        "followed",
        Event::Followed { profile: Profile::V5, hold: RunHold::ZERO, show: BTreeSet::new() },
    );
    assert!(play.effects.commit.is_empty());
    let context = play.scene.context(play.now);
    let mut effects = play.run.apply(Event::Model(vec![finished()]), &context);
    assert!(play.run.is_checking() && effects.commit.is_empty());
    check_inputs(&mut play.run, &context, &mut effects);
    assert!(effects.commit.run);
}

#[test]
fn resuming_a_run_that_waits_saves_nothing() {
    let mut play = Play::new();
    play.calls(&[("where", "{}"), ("note", "{}")]).crash();
    assert!(play.effects.commit.is_empty(), "{:?}", play.effects.commit);
    play.detach().crash();
    assert!(play.effects.commit.is_empty(), "{:?}", play.effects.commit);
}

#[test]
fn partial_outputs_are_not_saved_by_themselves() {
    let mut play = Play::new();
    play.calls(&[("time", "{}")]).asks("call_1");
    play.apply("shows", Event::Reported(vec![(ToolCallId::new("call_1"), json!({"progress": 1}))]));
    assert_eq!(play.effects.after.publish.len(), 1);
    assert!(play.effects.commit.is_empty(), "{:?}", play.effects.commit);
}
