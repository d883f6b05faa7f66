//! The slots for connections.
//!
//! Invariants: there are never more connections than slots. A connection that has a request under way, or a response that its client has not
//! read yet, is never evicted.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::ConnectionLimits;
use crate::client::{TrustedProxies, network};

/// The reason why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// All slots are taken by connections with a request under way.
    Server,
    /// The peer's address has reached the limit of connections per address.
    Address,
}

/// All slots of a server.
pub(super) struct Slots {
    regular: Arc<Pool>,
    /// The slots for health checks and refusals.
    reserve: Arc<Pool>,
    addresses: Arc<Addresses>,
    warned: Mutex<Option<Instant>>,
}

/// The slot of one connection, which is free again when this is dropped.
pub(super) struct Slot {
    /// The reason for refusing the connection, if it must be refused.
    pub full: Option<Full>,
    connection: Arc<Connection>,
    pool: Arc<Pool>,
    _address: Option<AddressGuard>,
    // This field is dropped last, so that a task that waits for the permit finds the other fields dropped.
    _permit: OwnedSemaphorePermit,
}

/// A guard for a request under way. Its connection is idle when it is dropped.
pub(super) struct RequestGuard {
    connection: Arc<Connection>,
    pool: Arc<Pool>,
}

/// Slots of one kind, and the idle connections in them, which can be evicted.
struct Pool {
    free: Arc<Semaphore>,
    // The mutex is held for a few instructions, never across an await.
    idle: Mutex<Idle>,
}

/// The connections without a request, in the order in which they became idle.
#[derive(Default)]
struct Idle {
    last: u64,
    connections: BTreeMap<u64, Arc<Connection>>,
}

#[derive(Default)]
struct Connection {
    /// The connection's key in [`Idle::connections`].
    idle: AtomicU64,
    /// True while the client has not read all of a response.
    is_writing: AtomicBool,
    evicted: CancellationToken,
}

/// The number of connections from each address.
struct Addresses {
    limit: usize,
    proxies: TrustedProxies,
    // The mutex is held for a few instructions, never across an await.
    counts: Mutex<HashMap<IpAddr, usize>>,
}

/// A guard that counts a connection from an address.
struct AddressGuard {
    addresses: Arc<Addresses>,
    address: IpAddr,
}

/// The number of connections that are refused with a response at a time. Further connections are closed at once.
const RESERVE: usize = 16;
/// The shortest time between two log lines about refused connections.
const WARN_EVERY: Duration = Duration::from_secs(10);

// === impl Slots ===

impl Slots {
    pub fn new(limits: &ConnectionLimits, proxies: TrustedProxies) -> Self {
        Self {
            regular: Pool::new(limits.connections),
            reserve: Pool::new(RESERVE),
            addresses: Arc::new(Addresses { limit: limits.per_address, proxies, counts: Mutex::default() }),
            warned: Mutex::default(),
        }
    }

    /// Takes a slot for a connection from this address; `None` if not even a reserved one is free.
    pub async fn take(&self, peer: IpAddr) -> Option<Slot> {
        let full = match self.addresses.enter(peer) {
            Ok(address) => match self.regular.take().await {
                Some(permit) => return Some(Slot::new(&self.regular, permit, address, None)),
                None => Full::Server,
            },
            Err(full) => full,
        };
        self.note_refusal(full, peer);
        let permit = self.reserve.take().await?;
        Some(Slot::new(&self.reserve, permit, None, Some(full)))
    }

    /// Evicts the connection that has been idle for the longest, if there is one.
    pub fn free_one(&self) {
        self.regular.evict();
    }

    fn note_refusal(&self, full: Full, peer: IpAddr) {
        let reason = match full {
            Full::Server => "server",
            Full::Address => "address",
        };
        metrics::counter!("fermata_connections_refused_total", "reason" => reason).increment(1);
        let now = Instant::now();
        let mut warned = lock(&self.warned);
        if warned.is_some_and(|warned| now < warned + WARN_EVERY) {
            return;
        }
        *warned = Some(now);
        match full {
            Full::Server => tracing::warn!(
                %peer,
                "refused a connection because the limit of connections (max_connections) is reached"
            ),
            Full::Address => tracing::warn!(
                %peer,
                "refused a connection because its address has reached the limit (max_connections_per_address)"
            ),
        }
    }
}

// === impl Pool ===

impl Pool {
    fn new(slots: usize) -> Arc<Self> {
        let free = Arc::new(Semaphore::new(slots.min(Semaphore::MAX_PERMITS)));
        Arc::new(Self { free, idle: Mutex::default() })
    }

    async fn take(&self) -> Option<OwnedSemaphorePermit> {
        match self.free.clone().try_acquire_owned() {
            Ok(permit) => Some(permit),
            // The evicted connection has no work left, so its slot is free at once.
            Err(_) if self.evict() => self.free.clone().acquire_owned().await.ok(),
            Err(_) => None,
        }
    }

    fn evict(&self) -> bool {
        let mut idle = lock(&self.idle);
        let is_done = |connection: &Arc<Connection>| !connection.is_writing.load(Ordering::Relaxed);
        let oldest = idle.connections.iter().find(|(_, connection)| is_done(connection));
        let Some(number) = oldest.map(|(number, _)| *number) else { return false };
        let evicted = idle.connections.remove(&number);
        drop(idle);
        if let Some(connection) = evicted {
            connection.evicted.cancel();
        }
        true
    }

    fn set_idle(&self, connection: &Arc<Connection>) {
        let mut idle = lock(&self.idle);
        idle.last += 1;
        let number = idle.last;
        connection.idle.store(number, Ordering::Relaxed);
        idle.connections.insert(number, connection.clone());
    }

    fn set_busy(&self, connection: &Connection) {
        lock(&self.idle).connections.remove(&connection.idle.load(Ordering::Relaxed));
    }
}

// === impl Slot ===

impl Slot {
    fn new(
        pool: &Arc<Pool>,
        permit: OwnedSemaphorePermit,
        address: Option<AddressGuard>,
        full: Option<Full>,
    ) -> Self {
        let connection = Arc::new(Connection::default());
        pool.set_idle(&connection);
        Self { full, connection, pool: pool.clone(), _address: address, _permit: permit }
    }

    /// Marks the connection as busy until the guard is dropped.
    pub fn begin_request(&self) -> RequestGuard {
        self.pool.set_busy(&self.connection);
        RequestGuard { connection: self.connection.clone(), pool: self.pool.clone() }
    }

    /// Sets whether a response waits for the client to read it.
    pub fn set_writing(&self, is_writing: bool) {
        self.connection.is_writing.store(is_writing, Ordering::Relaxed);
    }

    /// Waits until the slot is needed for another connection.
    pub async fn evicted(&self) {
        self.connection.evicted.cancelled().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.pool.set_busy(&self.connection);
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.pool.set_idle(&self.connection);
    }
}

// === impl Addresses ===

impl Addresses {
    /// Counts one more connection. Connections from this machine and from trusted proxies are not counted.
    fn enter(self: &Arc<Self>, peer: IpAddr) -> Result<Option<AddressGuard>, Full> {
        let address = network(peer);
        if address.is_loopback() || self.proxies.trusts(peer) {
            return Ok(None);
        }
        let mut counts = lock(&self.counts);
        let count = counts.entry(address).or_default();
        if *count >= self.limit {
            return Err(Full::Address);
        }
        *count += 1;
        Ok(Some(AddressGuard { addresses: self.clone(), address }))
    }
}

impl Drop for AddressGuard {
    fn drop(&mut self) {
        let mut counts = lock(&self.addresses.counts);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ConnectionLimits = ConnectionLimits {
        connections: 2,
        per_address: 1,
        header_timeout: Duration::from_secs(10),
        reader_timeout: Duration::from_secs(30),
    };

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[tokio::test]
    async fn the_connections_of_an_address_are_limited_unless_it_is_this_machine() {
        let slots = Slots::new(&LIMITS, TrustedProxies::default());
        let first = slots.take(address("192.0.2.1")).await.expect("a slot");
        assert_eq!(first.full, None);
        let second = slots.take(address("::ffff:192.0.2.1")).await.expect("a refusal");
        assert_eq!(second.full, Some(Full::Address));
        drop(first);
        assert_eq!(slots.take(address("192.0.2.1")).await.expect("a slot").full, None);
        let these = ["127.0.0.1", "::1"].map(address);
        let first = slots.take(these[0]).await.expect("a slot");
        let second = slots.take(these[1]).await.expect("a slot");
        assert_eq!((first.full, second.full), (None, None));
    }

    #[tokio::test]
    async fn a_trusted_proxy_has_any_number() {
        let proxies = TrustedProxies::new(vec!["192.0.2.0/24".parse().expect("a network")]);
        let slots = Slots::new(&LIMITS, proxies);
        let first = slots.take(address("192.0.2.1")).await.expect("a slot");
        let second = slots.take(address("::ffff:192.0.2.1")).await.expect("a slot");
        assert_eq!((first.full, second.full), (None, None));
    }

    #[tokio::test]
    async fn a_network_of_ipv6_counts_as_one_address() {
        let slots = Slots::new(&LIMITS, TrustedProxies::default());
        let first = slots.take(address("2001:db8::1")).await.expect("a slot");
        let same = slots.take(address("2001:db8::ffff:2")).await.expect("a refusal");
        let other = slots.take(address("2001:db8:0:1::1")).await.expect("a slot");
        assert_eq!((first.full, same.full, other.full), (None, Some(Full::Address), None));
    }

    #[tokio::test]
    async fn a_refused_address_takes_no_slot_of_others() {
        let slots = Slots::new(&LIMITS, TrustedProxies::default());
        let _first = slots.take(address("192.0.2.1")).await.expect("a slot");
        let _refused = slots.take(address("192.0.2.1")).await.expect("a refusal");
        assert_eq!(slots.take(address("192.0.2.2")).await.expect("a slot").full, None);
    }
}
