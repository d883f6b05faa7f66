//! Requests without a valid proof of identity, which are logged and slowed down.
//!
//! Only a request that is refused anyway is slowed down, so a client with a valid token never waits, and an attacker cannot lock out other
//! clients behind one address. Guessing is slow nevertheless, because an attacker needs the response to each guess.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Semaphore, time::Instant};

use crate::client::network;

/// The number of failures of an address that are answered without a delay.
const FREE: u32 = 10;
/// One failure is forgotten after this time.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(6);
/// The longest time that an address is slowed down after its last failure.
const LONGEST: Duration = Duration::from_secs(120);
/// The delay of a response to an address with too many failures.
const DELAY: Duration = Duration::from_secs(1);
/// The limit on concurrent delayed responses, so that they take little memory.
const DELAYED: usize = 512;
/// The limit on addresses that are counted separately.
const ADDRESSES: usize = 10_000;
/// The shortest time between two log lines about failures.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// The recent failures of each address.
#[derive(Debug)]
pub struct Failures {
    // The mutex is held for a few instructions, never across an await.
    recent: Mutex<Recent>,
    delays: Semaphore,
}

#[derive(Debug, Default)]
struct Recent {
    /// The time when all failures of an address will be forgotten.
    clear_at: HashMap<Option<IpAddr>, Instant>,
    logged_at: Option<Instant>,
    /// The number of failures since the last log line.
    unlogged: u64,
}

// === impl Failures ===

impl Default for Failures {
    fn default() -> Self {
        Self { recent: Mutex::default(), delays: Semaphore::new(DELAYED) }
    }
}

impl Failures {
    /// Logs a refused request. The number of log lines is limited, because the number of requests is not: a line has the number of
    /// requests that were refused since the last one.
    pub fn log(&self, client: Option<IpAddr>, reason: &str) {
        let now = Instant::now();
        let mut recent = self.lock();
        recent.unlogged += 1;
        if recent.logged_at.is_none_or(|logged_at| now >= logged_at + LOG_EVERY) {
            let refused = std::mem::take(&mut recent.unlogged);
            let client = client.map_or_else(|| "unknown".to_owned(), |client| client.to_string());
            tracing::warn!(%client, refused, reason, "refused a request that does not prove who sends it");
            recent.logged_at = Some(now);
        }
    }

    /// Counts a failure. If there were too many, it waits for a while and returns the delay before the client may try again.
    pub async fn note(&self, client: Option<IpAddr>) -> Option<Duration> {
        let wait = self.count(client)?;
        if let Ok(_permit) = self.delays.try_acquire() {
            tokio::time::sleep(DELAY).await;
        }
        Some(wait)
    }

    fn count(&self, client: Option<IpAddr>) -> Option<Duration> {
        let now = Instant::now();
        let client = client.map(network);
        let mut recent = self.lock();
        let clear_at = &mut recent.clear_at;
        if clear_at.len() >= ADDRESSES {
            clear_at.retain(|_, clear_at| *clear_at > now);
        }
        let is_full = clear_at.len() >= ADDRESSES && !clear_at.contains_key(&client);
        // If there are too many addresses, new ones share an entry.
        let clear_at = clear_at.entry(if is_full { None } else { client }).or_insert(now);
        *clear_at = ((*clear_at).max(now) + FORGOTTEN_AFTER).min(now + LONGEST);
        let left = *clear_at - now;
        if left <= FORGOTTEN_AFTER * FREE {
            return None;
        }
        // After this time, one more failure is answered without a delay.
        Some(left - FORGOTTEN_AFTER * (FREE - 1))
    }

    fn lock(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_failures_are_answered_at_once_and_further_ones_are_delayed() {
        let (failures, guesser) = (Failures::default(), address("192.0.2.1"));
        let began = Instant::now();
        for _ in 0..FREE {
            assert_eq!(failures.note(guesser).await, None);
        }
        assert_eq!(Instant::now(), began);
        assert_eq!(failures.note(guesser).await, Some(FORGOTTEN_AFTER * 2));
        assert_eq!(Instant::now(), began + DELAY);
        assert_eq!(failures.note(address("192.0.2.2")).await, None, "another client is not affected");
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_stops_guessing_is_soon_not_delayed_any_more() {
        let (failures, guesser) = (Failures::default(), address("192.0.2.1"));
        for _ in 0..1_000 {
            failures.note(guesser).await;
        }
        let wait = failures.note(guesser).await.expect("a time to wait");
        assert!(wait <= LONGEST, "{wait:?}");
        tokio::time::sleep(wait).await;
        assert_eq!(failures.note(guesser).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_of_one_ipv6_network_count_as_one() {
        let failures = Failures::default();
        for host in 0..FREE {
            assert_eq!(failures.note(address(&format!("2001:db8::{host}"))).await, None);
        }
        assert!(failures.note(address("2001:db8::ffff:1")).await.is_some());
        assert_eq!(failures.note(address("2001:db8:0:1::1")).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_counted_addresses_is_limited() {
        let failures = Failures::default();
        for number in 0..u32::try_from(ADDRESSES).expect("a number") + 1_000 {
            failures.count(Some(IpAddr::from(number.to_be_bytes())));
        }
        let known = || failures.lock().clear_at.len();
        assert!(known() <= ADDRESSES + 1, "{}", known());
        tokio::time::sleep(LONGEST).await;
        failures.count(address("192.0.2.1"));
        assert_eq!(known(), 1);
    }
}
