//! Requests that prove nobody's identity: said in the log, and slowed down.
//!
//! Who has a valid token never waits here, whatever others at the same address do: only a request that was refused already is slowed
//! down. So nobody can lock out those with whom they share an address, and guessing becomes slow all the same, because an answer
//! is what a guess is made for.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Semaphore, time::Instant};

/// How many failures of one address are answered at once.
const FREE: u32 = 10;
/// After what time one of them is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(6);
/// An address has to wait no longer than this after its last failure.
const LONGEST: Duration = Duration::from_secs(120);
/// How long an answer to one failure too many is held back.
const PAUSE: Duration = Duration::from_secs(1);
/// How many such answers are held back at a time, so that they cost no memory worth naming.
const PAUSES: usize = 512;
/// How many addresses are told apart.
const ADDRESSES: usize = 10_000;
/// How often the log speaks of failures.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Failures of late, by address.
#[derive(Debug)]
pub struct Failures {
    // Held for a look and a change, never across an await.
    seen: Mutex<Seen>,
    pauses: Semaphore,
}

#[derive(Debug, Default)]
struct Seen {
    /// When all failures of an address will be forgotten.
    clear_at: HashMap<Option<IpAddr>, Instant>,
    told_at: Option<Instant>,
    /// Failures that the log has not spoken of.
    untold: u64,
}

// === impl Failures ===

impl Default for Failures {
    fn default() -> Self {
        Self { seen: Mutex::default(), pauses: Semaphore::new(PAUSES) }
    }
}

impl Failures {
    /// Says in the log that a request was refused, and now and then how many were, because anybody can send any number of them.
    pub fn tell(&self, client: Option<IpAddr>, reason: &str) {
        let now = Instant::now();
        let mut seen = self.lock();
        seen.untold += 1;
        if seen.told_at.is_none_or(|told_at| now >= told_at + TELL_EVERY) {
            let refused = std::mem::take(&mut seen.untold);
            let client = client.map_or_else(|| "unknown".to_owned(), |client| client.to_string());
            tracing::warn!(%client, refused, reason, "refused a request that does not prove who sends it");
            seen.told_at = Some(now);
        }
    }

    /// Notes a failure, and waits if there were too many. Then it says after what time the client is to try again.
    pub async fn note(&self, client: Option<IpAddr>) -> Option<Duration> {
        let wait = self.count(client)?;
        if let Ok(_pause) = self.pauses.try_acquire() {
            tokio::time::sleep(PAUSE).await;
        }
        Some(wait)
    }

    fn count(&self, client: Option<IpAddr>) -> Option<Duration> {
        let now = Instant::now();
        let mut seen = self.lock();
        let clear_at = seen.clear_at(client.map(network), now);
        *clear_at = (*clear_at + FORGOTTEN_AFTER).min(now + LONGEST);
        let left = *clear_at - now;
        if left <= FORGOTTEN_AFTER * FREE {
            return None;
        }
        // Then there is room for one more.
        Some(left - FORGOTTEN_AFTER * (FREE - 1))
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn clear_at(&mut self, client: Option<IpAddr>, now: Instant) -> &mut Instant {
        if self.clear_at.len() >= ADDRESSES {
            self.clear_at.retain(|_, clear_at| *clear_at > now);
        }
        let is_full = self.clear_at.len() >= ADDRESSES && !self.clear_at.contains_key(&client);
        // Where there are too many addresses to tell apart, the new ones share a place.
        let clear_at = self.clear_at.entry(if is_full { None } else { client }).or_insert(now);
        *clear_at = (*clear_at).max(now);
        clear_at
    }
}

/// What counts as one address: of IPv6 the network, because whoever has one address of it has all.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_failures_are_answered_at_once_and_further_ones_are_held_back() {
        let (failures, guesser) = (Failures::default(), address("192.0.2.1"));
        let began = Instant::now();
        for _ in 0..FREE {
            assert_eq!(failures.note(guesser).await, None);
        }
        assert_eq!(Instant::now(), began);
        assert_eq!(failures.note(guesser).await, Some(FORGOTTEN_AFTER * 2));
        assert_eq!(Instant::now(), began + PAUSE);
        assert_eq!(failures.note(address("192.0.2.2")).await, None, "that is somebody else");
    }

    #[tokio::test(start_paused = true)]
    async fn who_stops_is_forgiven_before_long() {
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
    async fn addresses_of_one_network_are_one() {
        let failures = Failures::default();
        for host in 0..FREE {
            assert_eq!(failures.note(address(&format!("2001:db8::{host}"))).await, None);
        }
        assert!(failures.note(address("2001:db8::ffff:1")).await.is_some());
        assert_eq!(failures.note(address("2001:db8:0:1::1")).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_number_of_addresses_fills_the_memory() {
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
