//! Writers and readers of one log: what is saved, what is read, and how readers end.

use bytes::Bytes;
use fermata_protocol::{DataChunk, ToolCallId};
use futures::FutureExt;

use super::*;

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
    let own = Start { after: at(2), prologue: vec![UiChunk::StartStep] };
    let own = text(log.read(Profile::V6, own).next().now_or_never().flatten());
    let id = own.lines().next().and_then(|line| line.strip_prefix("id: ")).unwrap();
    assert!(after(id).contains("<1>"), "a chunk for one reader alone has no position in the log");
}

#[tokio::test]
async fn lost_text_of_a_step_is_retracted_and_lost_reports_are_not() {
    let mut log = Writer::new(RunId::new("r"));
    // The run was recovered twice: within the step, and while its calls ran.
    let second = at(2).next_epoch();
    let third = second.next_epoch();
    let text = |position: Position| (position, delta(u64::from(position)).1);
    log.append(&[delta(1), (at(2), UiChunk::StartStep), text(second.plus(1)), text(second.plus(2))]);
    log.append(&[(third.plus(1), UiChunk::FinishStep)]);
    let (first_text, last_text) = (u64::from(second.plus(1)), u64::from(second.plus(2)));
    let seven = after(&log, Profile::V7, "r:7");
    assert!(seven.contains("reset-step") && !seven.contains("<1>"), "{seven}");
    assert!(seven.contains(&format!("<{first_text}>")), "{seven}");
    let six = after(&log, Profile::V6, "r:7");
    assert!(!six.contains("reset-step") && six.contains("<1>"), "version 6 reads all of it again: {six}");
    assert_eq!(log.log().resume_after(Profile::V6, at(7)), None, "and cannot go on");
    let reports = after(&log, Profile::V6, &format!("r:{}", u64::from(second.plus(9))));
    assert!(!reports.contains(&format!("<{last_text}>")) && reports.contains("finish-step"), "{reports}");
    assert!(!after(&log, Profile::V7, "r:2").contains("reset-step"), "it has seen nothing of the step");
}

#[tokio::test]
async fn lost_text_of_a_step_is_retracted_whatever_the_page_was_told_beside_it() {
    let told = |kind: &str, is_transient: bool| {
        let data = serde_json::json!({"stage": "working"});
        let transient = is_transient.then_some(true);
        UiChunk::Data(DataChunk { kind: kind.into(), id: None, data, transient })
    };
    let metadata = UiChunk::MessageMetadata { message_metadata: serde_json::json!({"calls": {}}) };
    let asides = [vec![told("run", true)], vec![told("plan", false), metadata], Vec::new()];
    for aside in asides {
        let mut log = Writer::new(RunId::new("r"));
        log.append(&[delta(1), (at(2), UiChunk::StartStep)]);
        let last = 2 + aside.len() as u64;
        log.append(&(3..).map(at).zip(aside.clone()).collect::<Vec<_>>());
        // Text of this epoch up to 9 was read, and is lost.
        let next = at(2).next_epoch().plus(1);
        log.append(&[(next, delta(1).1)]);
        let reset = Start { after: at(2), prologue: vec![UiChunk::ResetStep] };
        assert_eq!(log.log().resume_after(Profile::V7, at(9)), Some(reset), "{aside:?}");
        assert_eq!(log.log().resume_after(Profile::V6, at(9)), None, "{aside:?}");
        let all_read = Start { after: at(last), prologue: Vec::new() };
        assert_eq!(log.log().resume_after(Profile::V6, at(last)), Some(all_read), "{aside:?}");
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
        let there = Start { after: at(position), prologue: Vec::new() };
        assert_eq!(restored.log().resume_after(Profile::V5, at(position)), Some(there), "{position}");
    }
}

#[test]
fn deltas_that_an_earlier_version_joined_are_read_as_one() {
    let record = r#"{"type":"text-delta","id":"t","delta":"<2><3><4>"}"#;
    let chunks = read_records(&[(1, r#"{"type":"start-step"}"#.into()), (4, record.into())]).unwrap();
    assert_eq!(chunks.len(), 2);
    let kept = Writer::restore(RunId::new("r"), &chunks);
    let after = |profile, position| kept.log().resume_after(profile, at(position));
    assert_eq!(after(Profile::V6, 4), Some(Start { after: at(4), prologue: Vec::new() }));
    assert_eq!(after(Profile::V6, 3), None, "in the middle of the joined text");
    assert_eq!(after(Profile::V7, 3), Some(Start { after: at(1), prologue: vec![UiChunk::ResetStep] }));
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
    there.append(&[delta(1), (at(2), UiChunk::StartStep), delta(900)]);
    let mut seven = here.read(Profile::V7, Start::default()).located_by(FixedLocator(there.log().clone()));
    let mut six = here.read(Profile::V6, Start::default()).located_by(FixedLocator(there.log().clone()));
    let mut without_locator = here.read(Profile::V6, Start::default());
    for reader in [&mut seven, &mut six, &mut without_locator] {
        assert!(text(reader.next().await).contains("<3>"));
    }
    here.end_moved();
    assert!(text(seven.next().await).contains("reset-step"));
    assert!(text(seven.next().await).contains("<900>"));
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
    let mut reader = replica.read(Profile::V6, Start { after: at(2), prologue: Vec::new() });
    replica.append(&[delta(1), delta(2)]);
    assert!(reader.next().now_or_never().is_none());
    replica.append(&[delta(3)]);
    assert_eq!(text(reader.next().await).matches("id: ").count(), 1);
}

#[tokio::test]
async fn readers_are_sent_the_last_chunks_when_the_log_ends() {
    let mut log = Writer::new(RunId::new("r"));
    log.append(&[delta(1)]);
    let mut reader = log.read(Profile::V6, Start { after: at(1), prologue: Vec::new() });
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
