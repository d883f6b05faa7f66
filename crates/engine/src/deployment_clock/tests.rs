use std::sync::atomic::{AtomicI64, Ordering};

use tokio::time::advance;

use super::*;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// A machine's clock that follows Tokio's paused time and can be set.
struct MachineClock {
    created_at: Instant,
    shifted_by_seconds: AtomicI64,
}

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        let shifted_by = SignedDuration::from_secs(self.shifted_by_seconds.load(Ordering::SeqCst));
        at(DAY) + self.created_at.elapsed() + shifted_by
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// A process on a machine whose clock is one day after the epoch when the process starts.
struct Process {
    machine: Arc<MachineClock>,
    clock: DeploymentClock,
}

impl Process {
    fn new() -> Self {
        let machine =
            Arc::new(MachineClock { created_at: Instant::now(), shifted_by_seconds: AtomicI64::new(0) });
        let instance = InstanceId::new("ins_1");
        Self { clock: DeploymentClock::new(machine.clone(), instance), machine }
    }

    fn started(mark: Option<ClockMark>) -> Self {
        let process = Self::new();
        process.clock.start(&Joined { now: None, mark }, Instant::now());
        process
    }

    /// Starts a process that finds the mark of an earlier one, which reached this number of seconds after the epoch.
    fn started_after(reached: u64) -> Self {
        Self::started(Some(ClockMark { reached: at(reached), doubted: None }))
    }

    /// Sets the machine's clock forward or back, before a heartbeat.
    fn shift(&self, seconds: i64) {
        self.machine.shifted_by_seconds.fetch_add(seconds, Ordering::SeqCst);
        self.clock.observe(None, Instant::now());
    }

    /// Lets this number of seconds pass, with a heartbeat each minute.
    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds / 60 {
            advance(Duration::from_secs(60)).await;
            self.clock.observe(None, Instant::now());
        }
    }

    /// Returns `now` and `reached`, in seconds after the start of the machine's clock.
    fn times(&self) -> (i64, i64) {
        let seconds = |time: Timestamp| time.duration_since(at(DAY)).as_secs();
        (seconds(self.clock.now()), seconds(self.clock.reached()))
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_over_before_the_source_was_read() {
    let process = Process::new();
    assert_eq!((process.clock.now(), process.clock.reached()), (at(DAY), at(0)));
    assert_eq!(process.clock.mark(), None);
}

#[tokio::test(start_paused = true)]
async fn time_goes_on_without_heartbeats() {
    let process = Process::started(None);
    advance(Duration::from_secs(DAY)).await;
    assert_eq!(process.times(), (86_400, 86_400));
}

#[tokio::test(start_paused = true)]
async fn a_small_difference_is_followed_both_ways() {
    let process = Process::started(None);
    process.shift(50);
    assert_eq!(process.times(), (50, 50));
    process.shift(-55);
    assert_eq!(process.times(), (-5, -5));
}

#[tokio::test(start_paused = true)]
async fn a_leap_ahead_is_shown_at_once_and_counts_after_an_hour() {
    let process = Process::started(None);
    process.shift(30 * 86_400);
    process.pass(HOUR - 60).await;
    assert_eq!(process.times(), (30 * 86_400 + 3540, 3540));
    process.pass(60).await;
    assert_eq!(process.times(), (30 * 86_400 + 3600, 30 * 86_400 + 3600));
}

#[tokio::test(start_paused = true)]
async fn a_leap_that_is_taken_back_leaves_nothing() {
    let process = Process::started(None);
    process.shift(30 * 86_400);
    process.pass(HOUR / 2).await;
    process.shift(-30 * 86_400);
    process.pass(HOUR).await;
    assert_eq!(process.times(), (5400, 5400));
    assert_eq!(process.clock.mark(), Some(ClockMark { reached: at(DAY + 5400), doubted: None }));
}

#[tokio::test(start_paused = true)]
async fn each_leap_is_doubted_anew() {
    let process = Process::started(None);
    process.shift(7200);
    process.pass(HOUR / 2).await;
    process.shift(7200);
    process.pass(HOUR / 2).await;
    assert_eq!(process.times(), (18_000, 3600));
    process.pass(HOUR / 2).await;
    assert_eq!(process.times(), (19_800, 19_800));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_is_not_followed_until_time_has_caught_up() {
    let process = Process::started(None);
    process.shift(-30 * 86_400);
    process.pass(3 * HOUR).await;
    assert_eq!(process.times(), (10_800, 10_800));
    process.shift(30 * 86_400);
    assert_eq!(process.times(), (10_800, 10_800));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_off_for_a_day_is_believed_when_it_starts() {
    assert_eq!(Process::started_after(0).times(), (0, 0));
    assert_eq!(Process::started_after(DAY + 59).times(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_off_for_longer_or_whose_clock_is_wrong_is_believed_after_an_hour() {
    let process =
        Process::started(Some(ClockMark { reached: at(0) - Duration::from_secs(DAY), doubted: None }));
    assert_eq!(process.times(), (0, -2 * 86_400));
    process.pass(HOUR).await;
    assert_eq!(process.times(), (3600, 3600));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_starts_with_a_clock_behind_goes_on_from_what_was_reached() {
    let process = Process::started_after(DAY + 10 * HOUR);
    process.pass(HOUR).await;
    assert_eq!(process.times(), (39_600, 39_600));
    // The battery is dead, and the network comes up later.
    process.shift(11 * 3600);
    assert_eq!(process.times(), (43_200, 39_600), "what is stored is not older than it looks");
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_start_has_doubted_is_believed_once_the_clock_has_gone_on_for_an_hour() {
    let (long_ago, doubted) = (at(0) - Duration::from_secs(9 * DAY), Some(at(DAY - HOUR)));
    let process = Process::started(Some(ClockMark { reached: long_ago, doubted }));
    assert_eq!(process.times(), (0, 0));
    let doubted = Some(at(DAY - HOUR / 2));
    let process = Process::started(Some(ClockMark { reached: long_ago, doubted }));
    assert_eq!(process.times(), (0, -10 * 86_400), "not by starting again and again");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_the_database_counts_whatever_this_machine_says() {
    let process = Process::new();
    process.clock.start(&Joined { now: Some(at(40 * DAY)), mark: None }, Instant::now());
    process.machine.shifted_by_seconds.store(-100 * 86_400, Ordering::SeqCst);
    for minutes in 1..=100 {
        advance(Duration::from_secs(60)).await;
        process.clock.observe(Some(at(40 * DAY + 60 * minutes)), Instant::now());
        assert_eq!(process.clock.reached(), at(40 * DAY + 60 * minutes));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_long_on_its_way_sets_nothing_back() {
    let process = Process::new();
    process.clock.start(&Joined { now: Some(at(DAY)), mark: None }, Instant::now());
    let asked = Instant::now();
    advance(Duration::from_secs(4)).await;
    process.clock.observe(Some(at(DAY)), asked);
    assert_eq!(process.times(), (4, 4), "the database may have read its clock at once");
    process.clock.observe(Some(at(DAY + 6)), Instant::now());
    assert_eq!(process.times(), (6, 6));
}
