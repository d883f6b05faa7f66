//! Notices are sent in time, in order, and at last given up, on paused time.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use fermata_engine::store::{
    Change, ChatStore as _, InMemoryStore, Notice, NoticeEvent, Outbox as _, SavedNotice, Version,
};
use fermata_protocol::{ApprovalId, ChatId, Profile};
use fermata_store::SqlStore;
use fermata_tools::Owner;
use serde_json::Value;
use tokio::{
    sync::{Notify, mpsc},
    time::{pause, resume},
};

use super::*;
use crate::channels::{Channel, tests::FakeDesk};

/// The time as tokio has it.
struct PausedClock(Instant);

/// A channel that notes what it sends, and fails or hangs as the test says.
struct Recorder {
    sent: mpsc::UnboundedSender<(String, Duration)>,
    started: Instant,
    failures: AtomicUsize,
    /// The channel answers once this is notified, if it is there.
    hangs: Option<Notify>,
    refuses: Mutex<Option<SendError>>,
}

struct Running {
    store: Arc<InMemoryStore>,
    shutdown: CancellationToken,
    sender: tokio::task::JoinHandle<()>,
    sent: mpsc::UnboundedReceiver<(String, Duration)>,
}

const LONG_AGO: i64 = 1_700_000_000;

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        after(Timestamp::from_second(LONG_AGO).expect("a time"), self.0.elapsed())
    }
}

#[async_trait]
impl Channel for Recorder {
    async fn send(&self, notice: &Notice, _: &dyn ApprovalDesk) -> Result<(), SendError> {
        let _ = self.sent.send((notice.id.clone(), self.started.elapsed()));
        if let Some(hangs) = &self.hangs {
            hangs.notified().await;
        }
        if let Some(refusal) = self.refuses.lock().expect("no panic").clone() {
            return Err(refusal);
        }
        let left =
            self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_ok() { Err(SendError::Failed("no answer".into())) } else { Ok(()) }
    }
}

impl Running {
    /// Starts a sender of channels that behave as `set` says, by their names.
    async fn start(names: &[&str], set: impl Fn(&str, &mut Recorder)) -> Self {
        // The threads of a database are no reason to let the time go on.
        resume();
        let database = SqlStore::open("sqlite::memory:").await.expect("a store");
        pause();
        let (sending, sent) = mpsc::unbounded_channel();
        let started = Instant::now();
        let channels = names.iter().map(|name| {
            let mut recorder = Recorder {
                sent: sending.clone(),
                started,
                failures: AtomicUsize::new(0),
                hangs: None,
                refuses: Mutex::default(),
            };
            set(name, &mut recorder);
            ((*name).to_owned(), Arc::new(recorder) as Arc<dyn Channel>)
        });
        let channels = Channels::of(channels.collect(), &database);
        let store = Arc::new(InMemoryStore::new());
        let shutdown = CancellationToken::new();
        let clock = Arc::new(PausedClock(started));
        let sender = Sender::new(channels, store.clone(), Arc::new(FakeDesk::default()), clock);
        let sender = tokio::spawn(sender.run(shutdown.clone()));
        Self { store, shutdown, sender, sent }
    }

    /// Commits notices, each with its channel and approval.
    async fn post(&self, notices: &[(&str, &str, Option<&str>)]) {
        let chat = ChatId::parse(notices[0].0).expect("an id");
        let mut changes = vec![Change::CreateChat { owner: Owner::new("alice"), profile: Profile::V6 }];
        let at = Timestamp::from_second(LONG_AGO).expect("a time");
        changes.extend(notices.iter().map(|(id, channel, approval)| {
            Change::Notify(Box::new(Notice {
                id: (*id).into(),
                channel: (*channel).into(),
                event: NoticeEvent::ApprovalRequested,
                at,
                approval: approval.map(ApprovalId::new),
                data: Value::Null,
            }))
        }));
        self.store.commit(&chat, Version::NONE, Version(1), at, changes.into()).await.expect("a new chat");
    }

    async fn next(&mut self) -> (String, u64) {
        let (id, at) = self.sent.recv().await.expect("the channels are there");
        (id, at.as_secs())
    }

    async fn saved(&self) -> Vec<SavedNotice> {
        self.store.notices(100).await.expect("a store in memory")
    }

    /// Ends the sender, which has then noted all results.
    async fn end(self) -> Vec<SavedNotice> {
        self.shutdown.cancel();
        self.sender.await.expect("the sender does not panic");
        self.store.notices(100).await.expect("a store in memory")
    }
}

#[tokio::test(start_paused = true)]
async fn a_notice_is_sent_at_once() {
    let mut running = Running::start(&["ops"], |_, _| {}).await;
    running.post(&[("n1", "ops", None)]).await;
    assert_eq!(running.next().await, ("n1".into(), 0));
    assert_eq!(running.end().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_failed_notice_is_sent_again_by_the_schedule_and_then_given_up() {
    let mut running = Running::start(&["ops"], |_, recorder| *recorder.failures.get_mut() = usize::MAX).await;
    running.post(&[("n1", "ops", None)]).await;
    let mut times = Vec::new();
    for _ in 0..8 {
        times.push(running.next().await.1);
    }
    let mut due = 0;
    let expected = [0, 5, 30, 120, 600, 3600, 21_600, 86_400].map(|pause: u64| {
        due += pause;
        due
    });
    // The outbox is looked at once a second.
    for (at, due) in times.iter().zip(expected) {
        assert!((due..=due + 8).contains(at), "{times:?} instead of {expected:?}");
    }
    let [saved] = running.end().await.try_into().expect("one notice");
    assert_eq!((saved.attempts, saved.next), (8, None));
    assert_eq!(saved.error.as_deref(), Some("no answer"));
}

#[tokio::test(start_paused = true)]
async fn later_notices_of_an_approval_wait_for_earlier_ones() {
    let mut running = Running::start(&["ops"], |_, recorder| *recorder.failures.get_mut() = 1).await;
    running.post(&[("n1", "ops", Some("appr_1"))]).await;
    assert_eq!(running.next().await.0, "n1");
    running.post(&[("n2", "ops", Some("appr_1")), ("n3", "ops", Some("appr_2"))]).await;
    assert_eq!(running.next().await.0, "n3");
    assert_eq!(running.next().await.0, "n1");
    assert_eq!(running.next().await.0, "n2");
    assert_eq!(running.end().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_hangs_does_not_hold_up_another() {
    let mut running = Running::start(&["hangs", "works"], |name, recorder| {
        if name == "hangs" {
            recorder.hangs = Some(Notify::new());
        }
    })
    .await;
    let ids: Vec<String> = (0..SLOTS * 2).map(|number| format!("slow{number}")).collect();
    let slow: Vec<(&str, &str, Option<&str>)> = ids.iter().map(|id| (id.as_str(), "hangs", None)).collect();
    running.post(&slow).await;
    for _ in 0..SLOTS_PER_CHANNEL {
        assert!(running.next().await.0.starts_with("slow"));
    }
    running.post(&[("n1", "works", None)]).await;
    assert_eq!(running.next().await, ("n1".into(), 0));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_hangs_fails_before_its_claim_ends() {
    let mut running = Running::start(&["hangs"], |_, recorder| recorder.hangs = Some(Notify::new())).await;
    running.post(&[("n1", "hangs", None)]).await;
    assert_eq!(running.next().await, ("n1".into(), 0));
    let again = running.next().await.1;
    assert!((30..40).contains(&again), "after {again} s");
    let [saved] = running.saved().await.try_into().expect("one notice");
    assert_eq!((saved.attempts, saved.error.as_deref()), (2, Some("the attempt timed out")));
}

#[tokio::test(start_paused = true)]
async fn a_refused_notice_is_given_up_at_once() {
    let mut running = Running::start(&["ops"], |_, recorder| {
        *recorder.refuses.get_mut().expect("no panic") = Some(SendError::Refused("gone".into()));
    })
    .await;
    running.post(&[("n1", "ops", None)]).await;
    running.next().await;
    let [saved] = running.end().await.try_into().expect("one notice");
    assert_eq!((saved.attempts, saved.next, saved.error.as_deref()), (1, None, Some("gone")));
}

#[tokio::test(start_paused = true)]
async fn a_notice_of_a_channel_that_is_not_there_is_given_up_once_no_instance_knows_it() {
    let running = Running::start(&["ops"], |_, _| {}).await;
    running.post(&[("n1", "gone", None)]).await;
    // Other instances may have newer settings, so it takes a few attempts. The test's clock moves on while nothing else can.
    while running.saved().await.iter().any(|saved| saved.next.is_some()) {
        sleep(Duration::from_secs(30)).await;
    }
    let [saved] = running.end().await.try_into().expect("one notice");
    assert_eq!(saved.attempts, UNKNOWN_ATTEMPTS + 1);
    assert_eq!(saved.error.as_deref(), Some("the settings have no channel gone"));
}
