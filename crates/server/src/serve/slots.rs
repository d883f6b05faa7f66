//! The slots for connections.
//!
//! Invariants: there are never more connections than slots. A connection that has a request under way, or a response that its client has not
//! read yet, is never evicted. A reserved slot is free again after [`RESERVED_FOR`], unless its connection has got a regular one.

use std::{
    collections::{BTreeMap, HashMap},
    future::{pending, poll_fn},
    net::IpAddr,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Poll, ready},
    time::Duration,
};

use futures::FutureExt;
use tokio::{
    sync::{AcquireError, Notify, OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::ConnectionLimits;
use crate::{
    client::{TrustedProxies, network},
    error::{ApiError, Code},
};

/// The reason why a connection has no regular slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// All slots are taken by connections with a request under way.
    Server,
    /// The peer's address has reached the limit of connections per address.
    Address,
}

/// The reserved slot of the connection that a request came on. [`Server::when_full`](super::Server::when_full) finds it in the request's
/// extensions.
#[derive(Clone)]
pub struct Reserved(Arc<Slot>, Full);

/// All slots of a server.
pub(super) struct Slots {
    regular: Pool,
    /// The slots for requests that are always answered, for refusals, and for connections that wait for a regular slot.
    reserve: Pool,
    addresses: Arc<Addresses>,
    warned: Mutex<Option<Instant>>,
}

/// The slot of one connection, which is free again when this is dropped.
pub(super) struct Slot {
    /// The reason why the slot is a reserved one.
    pub full: Option<Full>,
    connection: Arc<Connection>,
    slots: Arc<Slots>,
    _address: Option<AddressGuard>,
    /// `true` once a reserved slot was exchanged for a regular one.
    is_exchanged: AtomicBool,
    // The mutex is held for a few instructions, never across an await.
    // This field is dropped last, so that a task that waits for the permit finds the other fields dropped.
    permit: Mutex<OwnedSemaphorePermit>,
}

/// A guard for a request under way. Its connection is idle when it is dropped, unless its slot is a reserved one, which has only one request.
pub(super) struct RequestGuard {
    connection: Arc<Connection>,
    slots: Arc<Slots>,
    is_last: bool,
}

/// Slots of one kind, and the idle connections in them, which can be evicted.
struct Pool {
    free: Arc<Semaphore>,
    // The mutex is held for a few instructions, never across an await.
    idle: Mutex<Idle>,
    /// Wakes everything that waits for a slot, because there may be a connection to evict.
    became_idle: Notify,
}

/// The connections without a request, in the order they became idle. Each has the earliest time when it can be evicted.
#[derive(Default)]
struct Idle {
    last: u64,
    connections: BTreeMap<u64, (Instant, Arc<Connection>)>,
}

#[derive(Default)]
struct Connection {
    /// The connection's key in [`Idle::connections`].
    idle: AtomicU64,
    /// True while a request is under way.
    is_busy: AtomicBool,
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

/// The least number of reserved slots.
const LEAST_RESERVE: usize = 16;
/// The largest number of reserved slots.
const LARGEST_RESERVE: usize = 256;
/// The number of regular slots for each reserved one, between these two numbers.
const REGULAR_FOR_EACH_RESERVED: usize = 16;
/// A new connection is not evicted for this time, because its request is probably on its way.
const ARRIVAL: Duration = Duration::from_millis(100);
/// The longest time that a connection may have a reserved slot. A request there takes milliseconds, unless its client is slow.
const RESERVED_FOR: Duration = Duration::from_secs(10);
/// The longest wait for the slot of an evicted connection.
const EVICTION_TIMEOUT: Duration = Duration::from_millis(100);
/// The shortest time between two log lines about refused connections.
const WARN_EVERY: Duration = Duration::from_secs(10);

// === impl Full ===

impl From<Full> for ApiError {
    fn from(full: Full) -> Self {
        match full {
            Full::Server => Self::new(
                Code::Unavailable,
                "This server has no free connection (max_connections); try again in a moment.",
            ),
            Full::Address => Self::new(
                Code::TooManyConnections,
                "Your address has reached the limit of connections (max_connections_per_address). Close some of them.",
            ),
        }
    }
}

// === impl Slots ===

impl Slots {
    pub fn new(limits: &ConnectionLimits, proxies: TrustedProxies) -> Arc<Self> {
        let reserve = (limits.connections / REGULAR_FOR_EACH_RESERVED).clamp(LEAST_RESERVE, LARGEST_RESERVE);
        Arc::new(Self {
            regular: Pool::new(limits.connections),
            reserve: Pool::new(reserve),
            addresses: Arc::new(Addresses { limit: limits.per_address, proxies, counts: Mutex::default() }),
            warned: Mutex::default(),
        })
    }

    /// Takes a slot for a connection from this address: a regular one if there is one, and otherwise a reserved one. If there are none of
    /// either, it waits.
    ///
    /// # Errors
    /// Returns an error if the slots are closed, which they never are.
    pub async fn take(self: &Arc<Self>, peer: IpAddr) -> Result<Slot, AcquireError> {
        let (address, full) = match self.addresses.enter(peer) {
            Ok(address) => match self.regular.take().await {
                Some(permit) => return Ok(Slot::new(self, permit, address, None)),
                None => (address, Full::Server),
            },
            Err(full) => (None, full),
        };
        let (permit, full) = tokio::select! {
            biased;
            permit = self.reserve.wait() => (permit?, Some(full)),
            permit = self.regular.wait(), if full == Full::Server => (permit?, None),
        };
        Ok(Slot::new(self, permit, address, full))
    }

    /// Evicts the connection that has been idle for the longest, if there is one.
    pub fn free_one(&self) {
        self.regular.evict();
    }

    fn note_refusal(&self, full: Full) {
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
            Full::Server => {
                tracing::warn!(
                    "refused a connection because the limit of connections (max_connections) is reached"
                );
            }
            Full::Address => tracing::warn!(
                "refused a connection because its address has reached the limit (max_connections_per_address)"
            ),
        }
    }
}

// === impl Pool ===

impl Pool {
    fn new(slots: usize) -> Self {
        let free = Arc::new(Semaphore::new(slots.min(Semaphore::MAX_PERMITS)));
        Self { free, idle: Mutex::default(), became_idle: Notify::new() }
    }

    /// Takes a free slot, or that of an idle connection.
    async fn take(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = self.free.clone().try_acquire_owned() {
            return Some(permit);
        }
        if !self.evict() {
            return None;
        }
        // The evicted connection has no work left, so its slot is free at once. Only a connection that has waited for longer may get it.
        timeout(EVICTION_TIMEOUT, self.free.clone().acquire_owned()).await.ok()?.ok()
    }

    /// As [`Pool::take`], but waits if every connection is busy. Cancel safe.
    async fn wait(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        let mut free = pin!(self.free.clone().acquire_owned());
        loop {
            let mut became_idle = pin!(self.became_idle.notified());
            became_idle.as_mut().enable();
            if let Some(permit) = free.as_mut().now_or_never() {
                return permit;
            }
            self.evict();
            tokio::select! {
                biased;
                permit = &mut free => return permit,
                () = became_idle => {}
                () = sleep(ARRIVAL) => {}
            }
        }
    }

    fn evict(&self) -> bool {
        let (mut idle, now) = (lock(&self.idle), Instant::now());
        let mut connections = idle.connections.iter();
        let oldest = connections.find(|(_, (evictable_at, connection))| {
            *evictable_at <= now && !connection.is_writing.load(Ordering::Relaxed)
        });
        let Some(number) = oldest.map(|(number, _)| *number) else { return false };
        let evicted = idle.connections.remove(&number);
        drop(idle);
        if let Some((_, connection)) = evicted {
            connection.evicted.cancel();
        }
        true
    }

    fn set_idle(&self, connection: &Arc<Connection>, evictable_at: Instant) {
        let mut idle = lock(&self.idle);
        idle.last += 1;
        let number = idle.last;
        connection.idle.store(number, Ordering::Relaxed);
        idle.connections.insert(number, (evictable_at, connection.clone()));
        drop(idle);
        self.became_idle.notify_waiters();
    }

    fn set_busy(&self, connection: &Connection) {
        lock(&self.idle).connections.remove(&connection.idle.load(Ordering::Relaxed));
    }
}

// === impl Slot ===

impl Slot {
    fn new(
        slots: &Arc<Slots>,
        permit: OwnedSemaphorePermit,
        address: Option<AddressGuard>,
        full: Option<Full>,
    ) -> Self {
        let slot = Self {
            full,
            connection: Arc::default(),
            slots: slots.clone(),
            _address: address,
            is_exchanged: AtomicBool::new(false),
            permit: Mutex::new(permit),
        };
        slot.pool().set_idle(&slot.connection, Instant::now() + ARRIVAL);
        slot
    }

    /// Returns the pool that has the slot's connection while it is idle.
    fn pool(&self) -> &Pool {
        if self.full.is_none() { &self.slots.regular } else { &self.slots.reserve }
    }

    /// Marks the connection as busy until the guard is dropped.
    pub fn begin_request(&self) -> RequestGuard {
        self.pool().set_busy(&self.connection);
        self.connection.is_busy.store(true, Ordering::Relaxed);
        RequestGuard {
            connection: self.connection.clone(),
            slots: self.slots.clone(),
            is_last: self.full.is_some(),
        }
    }

    /// Sets whether a response waits for the client to read it.
    pub fn set_writing(&self, is_writing: bool) {
        self.connection.is_writing.store(is_writing, Ordering::Relaxed);
    }

    /// Returns the slot for the extensions of a request, if it is a reserved one.
    pub fn reserved(self: &Arc<Self>) -> Option<Reserved> {
        Some(Reserved(self.clone(), self.full?))
    }

    /// Waits until the slot is needed for another connection and nothing is under way on this one. Poll it after the future that serves
    /// the connection, because a request may come, and be found, only after the connection was chosen.
    pub async fn evicted(&self) {
        let mut chosen = pin!(self.connection.evicted.cancelled());
        let mut evicted = poll_fn(|cx| {
            ready!(chosen.as_mut().poll(cx));
            let Connection { is_busy, is_writing, .. } = &*self.connection;
            let is_needed = is_busy.load(Ordering::Relaxed) || is_writing.load(Ordering::Relaxed);
            if is_needed { Poll::Pending } else { Poll::Ready(()) }
        });
        if self.full.is_none() {
            return evicted.await;
        }
        let has_stayed_too_long = async {
            sleep(RESERVED_FOR).await;
            if self.is_exchanged.load(Ordering::Relaxed) {
                pending::<()>().await;
            }
        };
        // The future of a regular connection stays small.
        let has_stayed_too_long = Box::pin(has_stayed_too_long);
        tokio::select! {
            () = &mut evicted => {}
            () = has_stayed_too_long => {}
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.pool().set_busy(&self.connection);
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        if !self.is_last {
            self.connection.is_busy.store(false, Ordering::Relaxed);
            self.slots.regular.set_idle(&self.connection, Instant::now());
        }
    }
}

// === impl Reserved ===

impl Reserved {
    /// Returns the reason why the connection has no regular slot.
    pub fn full(&self) -> Full {
        self.1
    }

    /// Exchanges the slot for a regular one. Returns `false` if none becomes free in time.
    pub async fn exchange(&self, within: Duration) -> bool {
        let Self(slot, Full::Server) = self else { return false };
        let pool = &slot.slots.regular;
        let regular = match pool.take().await {
            Some(regular) => regular,
            None => match timeout(within, pool.wait()).await {
                Ok(Ok(regular)) => regular,
                Ok(Err(_)) | Err(_) => return false,
            },
        };
        slot.is_exchanged.store(true, Ordering::Relaxed);
        // The reserved one is free again.
        *lock(&slot.permit) = regular;
        true
    }

    /// Counts that the connection is refused. Returns the reason.
    pub fn refuse(&self) -> Full {
        self.0.slots.note_refusal(self.1);
        self.1
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
        let second = slots.take(address("::ffff:192.0.2.1")).await.expect("a slot");
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
        let same = slots.take(address("2001:db8::ffff:2")).await.expect("a slot");
        let other = slots.take(address("2001:db8:0:1::1")).await.expect("a slot");
        assert_eq!((first.full, same.full, other.full), (None, Some(Full::Address), None));
    }

    #[tokio::test]
    async fn a_refused_address_takes_no_slot_of_others() {
        let slots = Slots::new(&LIMITS, TrustedProxies::default());
        let _first = slots.take(address("192.0.2.1")).await.expect("a slot");
        let _refused = slots.take(address("192.0.2.1")).await.expect("a slot");
        assert_eq!(slots.take(address("192.0.2.2")).await.expect("a slot").full, None);
    }
}
