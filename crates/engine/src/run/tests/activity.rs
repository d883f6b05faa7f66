//! The hold, and runs whose readers were detached.

use super::*;

#[test]
fn detaching_readers_requests_approval_of_the_calls_that_the_gate_withholds() {
    Play::new()
        .calls(&[("time", "{}"), ("note", "{}"), ("where", "{}")])
        .detach()
        .answer(vec![decision("call_2", true)])
        .check(expect![[r#"
            > finished
            save
            park call_2
            tool-input-available call_1 {}
            tool-input-available call_2 {}
            tool-approval-request call_2
            > hold ended
            save
            park call_1 call_3
            tool-approval-request call_1
            tool-approval-request call_3
            readers: finish-step
            readers: finish tool-calls
            > answered call_2 yes
            save
            release call_1 call_2
            execute call_1 call_2
            tool-approval-response true
            tool-input-available call_3 {}
        "#]]);
}

#[test]
fn an_answer_after_the_readers_were_detached_makes_the_run_work_again() {
    for gate in [GateMode::Step, GateMode::Progressive] {
        let mut play = Play::with(|rules| Rules { gate, ..rules });
        play.calls(&[("note", "{}"), ("where", "{}")]);
        play.detach();
        assert!(play.run.is_detached());
        play.answer(vec![decision("call_1", true)]);
        assert!(!play.run.is_detached(), "{gate:?}: the call runs, and must not be forgotten");
    }
}

#[test]
fn the_hold_begins_when_the_run_waits_and_anew_for_a_client_that_comes_back() {
    let mut play = Play::new();
    play.calls(&[("time", "{}"), ("where", "{}")]);
    assert_eq!(play.run.state.activity, Activity::Working);
    play.now += SignedDuration::from_secs(1);
    let since = play.now;
    play.settle("call_1", Ok(json!("noon")));
    assert_eq!(play.run.state.activity, Activity::Waiting { since });
    play.now += SignedDuration::from_secs(60);
    assert_eq!(play.run.hold_ends(), Some(play.now));
    play.detach();
    assert_eq!(play.run.state.activity, Activity::Detached { since });
    assert_eq!(play.run.hold_ends(), None);
    play.apply(
        "followed",
        Event::Followed {
            profile: Profile::V6,
            hold: RunHold::For(Duration::from_secs(5)),
            show: BTreeSet::new(),
        },
    );
    assert_eq!(play.run.state.activity, Activity::Waiting { since: play.now });
}
