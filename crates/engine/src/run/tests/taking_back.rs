//! An approval is taken back as long as the call has not started.

use fermata_tools::{AuditAction, Refusal};

use super::*;

fn approved_then_denied(play: &mut Play, call: &str) -> Vec<AuditAction> {
    let mut noted = Vec::new();
    for approved in [true, false] {
        play.answer(vec![decision(call, approved)]);
        noted.extend(play.effects.commit.audit.iter().map(|event| event.action));
    }
    noted
}

#[test]
fn an_approval_is_taken_back_while_the_gate_is_closed() {
    let mut play = Play::new();
    play.calls(&[("note", "{}"), ("note", "{}")]);
    play.transcript.clear();
    let noted = approved_then_denied(&mut play, "call_1");
    assert_eq!(noted, [AuditAction::Approved, AuditAction::Denied]);
    play.check(expect![[r#"
        > answered call_1 yes
        save
        release call_1
        tool-approval-response true
        > answered call_1 no
        save
        tool-approval-response false
    "#]]);
    assert_eq!(
        play.refusal(&[decision("call_1", true)]),
        Rejected::of(Refusal::AlreadyAnswered, &play.run.calls[0]),
        "the last word was no"
    );
    play.crash().transcript.clear();
    play.answer(vec![decision("call_2", true)]).check(expect![[r#"
        > answered call_2 yes
        save
        release call_2
        execute call_2
        tool-approval-response true
        message-metadata {"call_1":{"state":"cancelled","code":"denied"}}
        tool-output-denied call_1
    "#]]);
    assert_eq!(play.run.calls[0].times_run(), 0);
}

#[test]
fn an_approval_is_taken_back_while_the_call_waits_for_its_resource_or_its_tool() {
    let mut play = Play::new();
    configure(&mut play, "note", |spec| spec.resource = Some(Resource::named("notes")));
    play.calls(&[("note", "{}")]);
    play.transcript.clear();
    approved_then_denied(&mut play, "call_1");
    play.check(expect![[r#"
        > answered call_1 yes
        save
        queue call_1 for notes
        release call_1
        tool-approval-response true
        > answered call_1 no
        save
        tool-approval-response false
        message-metadata {"call_1":{"state":"cancelled","code":"denied"}}
        tool-output-denied call_1
        finish-step
        start-step
        ask
    "#]]);
    play.grant_lock("call_1").check(expect![[r#"
        > lock granted to call_1
    "#]]);

    let mut play = Play::new();
    play.calls(&[("note", "{}"), ("again", "{}")]);
    let toolbox = std::mem::take(&mut play.scene.toolbox);
    approved_then_denied(&mut play, "call_1");
    assert_eq!(play.run.calls[0].state().name(), StateName::Cancelled);
    play.scene.toolbox = toolbox;
    play.apply("tools", Event::ToolsChanged);
    assert_eq!((play.run.calls[0].times_run(), play.run.calls[1].times_run()), (0, 1));
}

#[test]
fn an_approval_is_not_taken_back_once_the_call_runs() {
    let mut play = Play::new();
    play.calls(&[("note", "{}")]).answer(vec![decision("call_1", true)]);
    assert_eq!(
        play.refusal(&[decision("call_1", false)]),
        Rejected::of(Refusal::AlreadyAnswered, &play.run.calls[0])
    );
}

/// Changes the settings of a tool.
fn configure(play: &mut Play, name: &str, change: impl Fn(&mut ToolSpec)) {
    let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(FakeTool("note", Decision::Ask))];
    let toolbox = Toolbox::new(tools, |spec| {
        if spec.name == name {
            change(spec);
        }
    });
    play.scene.toolbox = toolbox.0;
}
