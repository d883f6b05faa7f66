//! The stage of the run, as a client that asks for it receives it.

use super::*;

fn told(play: &Play) -> Vec<String> {
    let of_run = play.log.iter().filter_map(|(_, chunk)| match chunk {
        UiChunk::Data(data) if data.kind == "data-run" => {
            assert_eq!(data.transient, Some(true));
            Some(data.data.to_string())
        }
        _ => None,
    });
    of_run.collect()
}

fn asking() -> Play {
    let mut play = Play::new();
    play.run.state.show = [Show::Run].into();
    play
}

#[test]
fn each_stage_is_told_once_and_the_last_one_before_the_end() {
    let mut play = asking();
    play.receive(ModelEvent::Reasoning("hm".into()));
    play.calls(&[("note", "{}"), ("time", "{}")]).answer(vec![decision("call_1", true)]);
    play.settle("call_1", Ok(json!("saved"))).settle("call_2", Err("no clock"));
    play.receive(ModelEvent::Text("Done".into())).receive(ModelEvent::Text(".".into())).receive(finished());
    expect![[r#"
        {"stage":"decide","requiresConfirm":false}
        {"stage":"tool_call","requiresConfirm":false}
        {"stage":"tool_call","requiresConfirm":true,"gateClosed":true,"confirmWords":["yes","y","yeah","yep","yup","sure","proceed","do it","ok","okay","confirm","confirmed","approve","approved","go ahead","确认","继续","同意","是","好","可以","批准","行","确定","没问题","执行","确认执行","確認","繼續","sí","si","vale","de acuerdo","confirmar","confirmo","adelante","claro","oui","vas-y","d'accord","confirmer","je confirme","ja","einverstanden","klar","bestätigen","in ordnung","はい","ええ","承認","承認します","同意します","続けて","続行","オーケー","どうぞ","👍","✅"]}
        {"stage":"tool_call","requiresConfirm":false}
        {"stage":"tool_call","requiresConfirm":false,"lastTool":"note","lastResult":"saved"}
        {"stage":"tool_result","requiresConfirm":false,"lastTool":"time","lastResult":"Error: no clock\nIf you cannot fix the call, go on without it."}
        {"stage":"decide","requiresConfirm":false,"lastTool":"time","lastResult":"Error: no clock\nIf you cannot fix the call, go on without it."}
        {"stage":"respond","requiresConfirm":false,"lastTool":"time","lastResult":"Error: no clock\nIf you cannot fix the call, go on without it."}
        {"stage":"idle","requiresConfirm":false,"lastTool":"time","lastResult":"Error: no clock\nIf you cannot fix the call, go on without it."}"#]].assert_eq(&told(&play).join("\n"));
    let last: Vec<_> = play.log.iter().rev().take(2).map(|(_, chunk)| json!(chunk)["type"].clone()).collect();
    assert_eq!(last, ["finish", "data-run"]);
    assert_eq!(json!(play.run.status())["stage"], "idle");
}

#[test]
fn the_gate_is_closed_while_no_call_runs_and_open_if_each_runs_once_it_is_decided() {
    let mut play = asking();
    let closed = |play: &Play| (play.run.status().requires_confirm, play.run.status().gate_closed);
    play.calls(&[("note", "{}"), ("note", "{}"), ("time", "{}")]);
    assert_eq!(closed(&play), (true, true));
    play.answer(vec![decision("call_1", true)]);
    assert_eq!(closed(&play), (true, true));
    play.answer(vec![decision("call_2", true)]);
    assert_eq!(closed(&play), (false, false));
    assert!(told(&play).iter().any(|status| status.contains(r#""gateClosed":true"#)));

    let mut play = asking();
    play.scene.rules.gate = GateMode::Progressive;
    play.calls(&[("note", "{}"), ("time", "{}")]);
    assert_eq!(closed(&play), (true, false));
}

#[test]
fn a_result_is_told_as_the_model_is_told_it_and_cut() {
    let mut play = asking();
    play.calls(&[("time", "{}")]).settle("call_1", Ok(json!("\u{1f980}".repeat(300))));
    assert_eq!(play.run.status().last_result.unwrap(), "\u{1f980}".repeat(200));
    play.calls(&[("time", r#"{"n":10}"#)]);
    let status = play.run.status();
    assert_eq!(status.last_tool.as_deref(), Some("time"));
    assert!(status.last_result.unwrap().starts_with("Denied: at most nine"));
}

#[test]
fn a_run_that_fails_or_is_stopped_is_idle_for_its_client() {
    for ending in [Ending::Stopped, Ending::CrashLoop] {
        let mut play = asking();
        play.calls(&[("where", "{}")]).end(ending);
        assert!(told(&play).last().unwrap().contains("\"idle\""));
    }
}

#[test]
fn a_client_that_does_not_ask_is_told_nothing() {
    let mut play = Play::new();
    play.calls(&[("time", "{}")]).settle("call_1", Ok(json!(1))).receive(finished());
    assert_eq!(told(&play), [""; 0]);
}
