//! The cost of scheduling, besides the tools' own time: printed, never asserted. `make bench` runs it.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use super::*;

const CALLS: usize = 100;
const ROUNDS: usize = 500;

/// The durations of one round.
struct Round {
    /// From the end of the model's answer to all effects.
    decided: Duration,
    /// Until each call has its outcome and the model is asked again.
    settled: Duration,
    /// For comparison: the chunks of both as JSON, once.
    written: Duration,
}

fn round(tool: &str) -> Round {
    let mut play = Play::new();
    for key in 0..CALLS {
        play.receive(ModelEvent::CallStart { key, tool: tool.into() });
        play.receive(ModelEvent::CallDelta { key, arguments: format!(r#"{{"n":{}}}"#, key % 10) });
    }
    let Play { mut run, scene, now, .. } = play;
    let context = scene.context(now);
    let ids: Vec<ToolCallId> = run.calls.iter().map(|call| call.id.clone()).collect();
    let begun = Instant::now();
    let mut effects = run.apply(Event::Model(vec![finished()]), &context);
    check_inputs(&mut run, &context, &mut effects);
    let granted: Vec<_> =
        std::mem::take(&mut effects.before.lock_requests).into_iter().map(|(call, _)| call).collect();
    if !granted.is_empty() {
        effects.append(run.apply(Event::LocksGranted(granted), &context));
    }
    let decided = begun.elapsed();
    assert_eq!(effects.after.execute.len(), CALLS);
    let mut published = effects.after.publish;
    let begun = Instant::now();
    for id in ids {
        let effects = run.apply(Event::Settled(id, Ok(json!({"noon": true}))), &context);
        published.extend(black_box(effects).after.publish);
    }
    let settled = begun.elapsed();
    assert_eq!((run.state.phase, run.state.step), (Phase::Streaming, 2));
    let begun = Instant::now();
    for (_, chunk) in &published {
        black_box(serde_json::to_string(chunk).unwrap());
    }
    Round { decided, settled, written: begun.elapsed() }
}

#[test]
#[ignore = "measures; `make bench` runs it"]
#[expect(clippy::print_stdout, reason = "the numbers are what it is for")]
fn bench_a_step_of_many_calls() {
    for (tool, what) in [("time", "without locks"), ("file", "with a lock each")] {
        let rounds: Vec<Round> = (0..ROUNDS).map(|_| round(tool)).collect();
        let median = |of: &dyn Fn(&Round) -> Duration| {
            let mut times: Vec<_> = rounds.iter().map(of).collect();
            times.sort();
            times[ROUNDS / 2]
        };
        let all = median(&|round| round.decided + round.settled);
        let written = median(&|round| round.written);
        println!(
            "{CALLS} calls {what}: decided {:?}, settled {:?}, both {all:?}, {:.1} times their chunks as JSON ({written:?})",
            median(&|round| round.decided),
            median(&|round| round.settled),
            all.as_secs_f64() / written.as_secs_f64(),
        );
    }
}
