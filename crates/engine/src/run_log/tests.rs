//! Writers and readers of one log: the saved entries, the read entries, and the ends of readers.

use bytes::Bytes;
use fermata_protocol::{DataChunk, ToolCallId};
use futures::FutureExt;

use super::*;

mod takes_back;

fn at(number: u64) -> Position {
    number.into()
}

fn delta(number: u64) -> (Position, UiChunk) {
    (
        number.into(),
        UiChunk::TextDelta { id: "t".into(), delta: format!("<{number}>"), provider_metadata: None },
    )
}

fn text(bytes: Option<Bytes>) -> String {
    String::from_utf8(bytes.unwrap().to_vec()).unwrap()
}

impl Writer {
    fn append(&mut self, chunks: &[(Position, UiChunk)]) {
        self.stage(chunks);
        self.publish();
    }
}

#[tokio::test]
async fn what_is_staged_can_be_saved_but_not_read() {
    let mut log = Writer::new(RunId::new("r"));
    let mut reader = log.read(Profile::V6, Start::default());
    log.stage(&[delta(1)]);
    assert_eq!(unsaved(&log), [delta(1)]);
    assert!(reader.next().now_or_never().is_none());
    log.note_saved();
    log.publish();
    assert!(log.unsaved().is_empty());
    assert!(text(reader.next().await).contains("<1>"));
}

#[tokio::test]
async fn what_is_ready_comes_in_one_piece_and_then_the_reader_waits() {
    let mut log = Writer::new(RunId::new("r"));
    let mut reader = log.read(Profile::V6, Start::default());
    assert!(reader.next().now_or_never().is_none());
    log.append(&[delta(1), delta(2)]);
    let piece = text(reader.next().await);
    assert!(piece.contains("<1>") && piece.contains("<2>"), "{piece}");
    assert!(reader.next().now_or_never().is_none());
    log.end(Vec::new());
    assert_eq!(text(reader.next().await), "data: [DONE]\n\n");
    assert!(reader.next().await.is_none());
}

#[tokio::test]
async fn each_reader_is_woken_and_one_that_is_gone_leaves_nothing_behind() {
    let mut log = Writer::new(RunId::new("r"));
    let gone = log.read(Profile::V6, Start::default());
    let readers = [(); 3].map(|()| {
        let mut reader = log.read(Profile::V6, Start::default());
        tokio::spawn(async move { text(reader.next().await) })
    });
    drop(gone);
    tokio::task::yield_now().await;
    log.append(&[delta(1)]);
    for reader in readers {
        assert!(reader.await.unwrap().contains("<1>"));
    }
    assert!(log.log().waiters.is_empty() && !log.has_readers());
}

fn after(log: &Writer, profile: Profile, event: &str) -> String {
    let start = log.log().start_after(profile, EventId::parse(event).as_ref());
    let mut reader = log.read(profile, start);
    std::iter::from_fn(|| reader.next().now_or_never().flatten()).map(|bytes| text(Some(bytes))).collect()
}

#[tokio::test]
async fn a_reader_continues_after_the_event_it_names_or_from_the_start() {
    let mut log = Writer::new(RunId::new("r"));
    log.append(&[delta(1), delta(2), delta(900)]);
    let after = |event: &str| after(&log, Profile::V6, event);
    assert!(!after("r:2").contains("<2>") && after("r:2").contains("<900>"));
    assert!(after("r:2.1").contains("<900>") && !after("r:2.1").contains("<2>"));
    assert!(after("r:0").contains("<1>"));
    assert!(after("other:2").contains("<1>"), "another run's event");
    let own = Start { after: at(2), prologue: vec![UiChunk::StartStep], ..Start::default() };
    let own = text(log.read(Profile::V6, own).next().now_or_never().flatten());
    let id = own.lines().next().and_then(|line| line.strip_prefix("id: ")).unwrap();
    assert!(after(id).contains("<1>"), "a chunk for one reader alone has no position in the log");
}

/// A step whose first attempt said "<3>" and "<4>". The "<4>" was not saved; then the step was made again.
fn made_again() -> Writer {
    let mut log = Writer::new(RunId::new("r"));
    log.append(&[delta(1), (at(2), UiChunk::StartStep), delta(3)]);
    let second = at(4).next_epoch();
    log.append(&[
        (second.plus(1), aside()),
        (second.plus(2), UiChunk::ResetStep),
        (second.plus(3), delta(900).1),
    ]);
    log
}

fn aside() -> UiChunk {
    let data = serde_json::json!({"stage": "working"});
    UiChunk::Data(DataChunk { kind: "data-run".into(), id: None, data, transient: Some(true) })
}

#[tokio::test]
async fn what_is_made_again_is_taken_back_from_those_who_have_read_it() {
    let log = made_again();
    for seen in ["r:3", "r:4"] {
        let seven = after(&log, Profile::V7, seen);
        assert!(seven.contains("reset-step") && !seven.contains("<3>"), "{seven}");
        assert!(seven.find("reset-step") < seven.find("<900>"), "{seven}");
        let six = after(&log, Profile::V6, seen);
        assert!(six.contains("<1>") && !six.contains("<3>"), "version 6 reads all of it again: {six}");
    }
    assert_eq!(log.log().resume_after(Profile::V6, at(4)), None, "and cannot go on");
    for profile in [Profile::V5, Profile::V6, Profile::V7] {
        for seen in ["r:2", "other:1"] {
            let new = after(&log, profile, seen);
            assert!(!new.contains("reset-step") && !new.contains("<3>") && new.contains("<900>"), "{new}");
        }
    }
}

#[tokio::test]
async fn a_reader_that_is_there_when_a_step_is_made_again_is_told() {
    let second = at(3).next_epoch();
    for (profile, begins) in
        [(Profile::V7, true), (Profile::V6, true), (Profile::V7, false), (Profile::V6, false)]
    {
        let mut log = Writer::new(RunId::new("r"));
        log.append(&[delta(1), (at(2), UiChunk::StartStep), delta(3)]);
        let start =
            log.log().start_after(profile, EventId::parse(if begins { "r:2" } else { "r:9" }).as_ref());
        let mut reader = log.read(profile, start);
        if begins {
            assert!(text(reader.next().await).contains("<3>"));
        }
        log.append(&[(second.plus(1), UiChunk::ResetStep), (second.plus(2), delta(900).1)]);
        let told = text(reader.next().await);
        if profile == Profile::V7 {
            assert!(told.contains("reset-step") && told.contains("<900>"), "{told}");
        } else {
            assert!(told.contains("\"error\"") && told.ends_with("[DONE]\n\n"), "{told}");
        }
    }
}

#[tokio::test]
async fn partial_outputs_that_were_lost_are_not_taken_back() {
    let mut log = Writer::new(RunId::new("r"));
    log.append(&[(at(1), UiChunk::StartStep), delta(2)]);
    log.append(&[(at(2).next_epoch().plus(1), UiChunk::FinishStep)]);
    for profile in [Profile::V6, Profile::V7] {
        let rest = after(&log, profile, "r:9");
        assert!(
            !rest.contains("<2>") && !rest.contains("reset-step") && rest.contains("finish-step"),
            "{rest}"
        );
    }
}

fn records(log: &Writer) -> Vec<(u64, String)> {
    let groups = log.unsaved();
    let placed = |(first, records): (Position, Vec<String>)| (u64::from(first)..).zip(records);
    groups.into_iter().flat_map(placed).collect()
}

fn unsaved(log: &Writer) -> Vec<(Position, UiChunk)> {
    read_records(&records(log)).unwrap()
}

fn input_delta(number: u64, call: &str, text: &str) -> (Position, UiChunk) {
    (
        at(number),
        UiChunk::ToolInputDelta { tool_call_id: ToolCallId::new(call), input_text_delta: text.into() },
    )
}

#[tokio::test]
async fn deltas_are_saved_as_one_and_read_one_by_one() {
    let mut log = Writer::new(RunId::new("r"));
    let words = |number, text: &str| {
        (at(number), UiChunk::TextDelta { id: "t".into(), delta: text.into(), provider_metadata: None })
    };
    let chunks = [
        (at(1), UiChunk::StartStep),
        words(2, "Grü"),
        words(3, ""),
        words(4, "ße "),
        (at(5), UiChunk::TextEnd { id: "t".into(), provider_metadata: None, citations: None }),
        input_delta(6, "a", "{"),
        input_delta(7, "b", "{"),
        input_delta(8, "b", "}"),
        (at(9), UiChunk::FinishStep),
        // A later epoch.
        words(1 << 40, "x"),
        words((1 << 40) + 2, "y"),
    ];
    log.append(&chunks);
    let records = records(&log);
    assert_eq!(
        records.iter().map(|(position, _)| *position).collect::<Vec<_>>(),
        [1, 4, 5, 6, 7, 8, 9, 1 << 40, (1 << 40) + 2]
    );
    assert_eq!(records[1].1, r#"{"type":"text-delta","id":"t","delta":"Grüße ","lengths":[4,0,4]}"#);
    assert_eq!(read_records(&records).unwrap(), chunks);
    let restored = Writer::restore(RunId::new("r"), &chunks);
    assert!(restored.unsaved().is_empty());
    for position in 1..=9 {
        let there = restored.log().resume_after(Profile::V5, at(position)).map(|start| start.after);
        assert_eq!(there, Some(at(position)));
    }
}

#[test]
fn lengths_that_do_not_fit_the_text_are_an_error() {
    for (position, lengths) in [(9, "[1,1]"), (9, "[1,1,4]"), (1, "[1,1,1]"), (9, "[3,18446744073709551615]")]
    {
        let record = format!(r#"{{"type":"text-delta","id":"t","delta":"abc","lengths":{lengths}}}"#);
        assert!(read_records(&[(position, record)]).is_err(), "{lengths} at {position}");
    }
    let record = r#"{"type":"text-delta","id":"t","delta":"ü","lengths":[1,1]}"#;
    assert!(read_records(&[(9, record.into())]).is_err(), "in the middle of a character");
}

/// Locates every run in one log.
struct FixedLocator(Arc<RunLog>);

impl StreamLocator for FixedLocator {
    fn locate(
        &self,
        _: RunId,
        position: Position,
        profile: Profile,
    ) -> futures::future::BoxFuture<'static, Option<Reader>> {
        let start = self.0.resume_after(profile, position);
        std::future::ready(start.map(|start| Reader::new(self.0.clone(), profile, start))).boxed()
    }
}

#[tokio::test]
async fn a_reader_continues_in_the_log_of_its_run() {
    let mut here = Writer::new(RunId::new("r"));
    here.append(&[delta(1), (at(2), UiChunk::StartStep), delta(3)]);
    let mut there = Writer::new(RunId::new("r"));
    let again = at(3).next_epoch();
    there.append(&[delta(1), (at(2), UiChunk::StartStep)]);
    there.append(&[(again.plus(1), UiChunk::ResetStep), (again.plus(2), delta(900).1)]);
    let mut seven = here.read(Profile::V7, Start::default()).located_by(FixedLocator(there.log().clone()));
    let mut six = here.read(Profile::V6, Start::default()).located_by(FixedLocator(there.log().clone()));
    let mut without_locator = here.read(Profile::V6, Start::default());
    for reader in [&mut seven, &mut six, &mut without_locator] {
        assert!(text(reader.next().await).contains("<3>"));
    }
    here.end_moved();
    let rest = text(seven.next().await);
    assert!(rest.contains("reset-step") && rest.contains("<900>"), "{rest}");
    for mut lost in [six, without_locator] {
        let end = text(lost.next().await);
        assert!(end.contains("\"error\"") && end.ends_with("[DONE]\n\n"), "{end}");
    }
    there.end(Vec::new());
    assert_eq!(text(seven.next().await), "data: [DONE]\n\n");
}

#[tokio::test]
async fn a_replica_that_is_behind_its_reader_repeats_nothing() {
    let mut replica = Writer::new(RunId::new("r"));
    let mut reader = replica.read(Profile::V6, Start { after: at(2), ..Start::default() });
    replica.append(&[delta(1), delta(2)]);
    assert!(reader.next().now_or_never().is_none());
    replica.append(&[delta(3)]);
    assert_eq!(text(reader.next().await).matches("id: ").count(), 1);
}

#[tokio::test]
async fn readers_are_sent_the_last_chunks_when_the_log_ends() {
    let mut log = Writer::new(RunId::new("r"));
    log.append(&[delta(1)]);
    let mut reader = log.read(Profile::V6, Start { after: at(1), ..Start::default() });
    log.end(vec![UiChunk::FinishStep]);
    assert_eq!(text(reader.next().await), "id: r:1.1\ndata: {\"type\":\"finish-step\"}\n\ndata: [DONE]\n\n");
}

#[tokio::test]
async fn detached_readers_end_and_the_log_continues_for_later_ones() {
    let mut log = Writer::new(RunId::new("r"));
    log.append(&[delta(1)]);
    let mut early = log.read(Profile::V6, Start::default());
    log.detach_readers(Vec::new());
    let mut late = log.read(Profile::V6, Start::default());
    log.append(&[delta(2)]);
    assert!(text(early.next().await).contains("<1>"));
    assert_eq!(text(early.next().await), "data: [DONE]\n\n");
    let all = text(late.next().await);
    assert!(all.contains("<1>") && all.contains("<2>"), "{all}");
}

#[tokio::test]
async fn a_writer_that_is_lost_ends_its_readers_with_an_error() {
    let log = Writer::new(RunId::new("r"));
    let mut reader = log.read(Profile::V6, Start::default());
    drop(log);
    assert!(text(reader.next().await).contains("\"type\":\"error\""));
    assert!(reader.next().await.is_none());
}

#[tokio::test]
async fn what_was_saved_is_not_saved_again() {
    let mut log = Writer::new(RunId::new("r"));
    log.append(&[delta(1)]);
    assert_eq!(unsaved(&log), [delta(1)]);
    log.note_saved();
    log.append(&[delta(2)]);
    assert_eq!(unsaved(&log), [delta(2)]);
}

#[tokio::test]
async fn a_reader_that_is_slow_loses_nothing() {
    let mut log = Writer::new(RunId::new("r"));
    let mut reader = log.read(Profile::V6, Start::default());
    let big = "x".repeat(BATCH_BYTES / 2);
    for seq in 1..=5 {
        log.append(&[(
            at(seq),
            UiChunk::TextDelta { id: "t".into(), delta: big.clone(), provider_metadata: None },
        )]);
    }
    log.end(Vec::new());
    let mut pieces = 0;
    let mut all = String::new();
    while let Some(piece) = reader.next().await {
        pieces += 1;
        all.push_str(std::str::from_utf8(&piece).unwrap());
    }
    assert_eq!(all.matches("text-delta").count(), 5);
    assert!(pieces > 2, "a large log comes in pieces");
}
