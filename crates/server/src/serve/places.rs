//! The places that connections take.
//!
//! Invariants: there are never more connections than places; a connection with a request under way, or with something still to be
//! written, is never evicted.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
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
use crate::client::TrustedProxies;

/// Why there is no place for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// All places are taken by connections with a request under way.
    Server,
    /// The peer's address has as many connections as one address may have.
    Address,
}

/// All places of a server.
pub(super) struct Places {
    regular: Arc<Pool>,
    /// For connections that are refused in words, and for health checks.
    reserve: Arc<Pool>,
    addresses: Arc<Addresses>,
    warned: Mutex<Option<Instant>>,
}

/// One connection's place, given back when it is dropped.
pub(super) struct Place {
    /// Why the connection is to be refused, if it is.
    pub full: Option<Full>,
    connection: Arc<Connection>,
    pool: Arc<Pool>,
    _address: Option<AddressPlace>,
    // Dropped last: who waits for it finds the rest gone.
    _permit: OwnedSemaphorePermit,
}

/// A request under way. When it is dropped, the connection is idle.
pub(super) struct UnderWay {
    connection: Arc<Connection>,
    pool: Arc<Pool>,
}

/// Places of one kind, and the connections in them that could be done without.
struct Pool {
    free: Arc<Semaphore>,
    // Held for a few instructions, never across an await.
    idle: Mutex<Idle>,
}

/// The connections without a request, in the order in which they became so.
#[derive(Default)]
struct Idle {
    last: u64,
    connections: BTreeMap<u64, Arc<Connection>>,
}

#[derive(Default)]
struct Connection {
    /// Its number among those that are idle.
    idle: AtomicU64,
    /// Whether a response waits for the client to take it.
    is_writing: AtomicBool,
    evicted: CancellationToken,
}

/// How many connections each address has.
struct Addresses {
    limit: usize,
    proxies: TrustedProxies,
    // Held for a few instructions, never across an await.
    counts: Mutex<HashMap<IpAddr, usize>>,
}

struct AddressPlace {
    addresses: Arc<Addresses>,
    address: IpAddr,
}

/// How many connections are refused in words at a time; to further ones the socket is closed.
const RESERVE: usize = 16;
/// How often the log says that places are missing.
const WARN_EVERY: Duration = Duration::from_secs(10);

// === impl Places ===

impl Places {
    pub fn new(limits: &ConnectionLimits, proxies: TrustedProxies) -> Self {
        Self {
            regular: Pool::new(limits.connections),
            reserve: Pool::new(RESERVE),
            addresses: Arc::new(Addresses { limit: limits.per_address, proxies, counts: Mutex::default() }),
            warned: Mutex::default(),
        }
    }

    /// A place for a connection from this address; `None` when not even one for a refusal is left.
    pub async fn take(&self, peer: IpAddr) -> Option<Place> {
        let full = match self.addresses.enter(peer) {
            Ok(address) => match self.regular.take().await {
                Some(permit) => return Some(Place::new(&self.regular, permit, address, None)),
                None => Full::Server,
            },
            Err(full) => full,
        };
        self.tell(full, peer);
        let permit = self.reserve.take().await?;
        Some(Place::new(&self.reserve, permit, None, Some(full)))
    }

    /// Has the connection end that has been idle for the longest, if there is one.
    pub fn free_one(&self) {
        self.regular.evict();
    }

    fn tell(&self, full: Full, peer: IpAddr) {
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
                "all places for connections are taken (max_connections); connections are refused"
            ),
            Full::Address => tracing::warn!(
                %peer,
                "an address has more connections than it may have (max_connections_per_address); connections are refused"
            ),
        }
    }
}

// === impl Pool ===

impl Pool {
    fn new(places: usize) -> Arc<Self> {
        let free = Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS)));
        Arc::new(Self { free, idle: Mutex::default() })
    }

    async fn take(&self) -> Option<OwnedSemaphorePermit> {
        match self.free.clone().try_acquire_owned() {
            Ok(permit) => Some(permit),
            // The connection that is evicted has nothing left to do, so its place is free at once.
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

    fn is_idle(&self, connection: &Arc<Connection>) {
        let mut idle = lock(&self.idle);
        idle.last += 1;
        let number = idle.last;
        connection.idle.store(number, Ordering::Relaxed);
        idle.connections.insert(number, connection.clone());
    }

    fn is_busy(&self, connection: &Connection) {
        lock(&self.idle).connections.remove(&connection.idle.load(Ordering::Relaxed));
    }
}

// === impl Place ===

impl Place {
    fn new(
        pool: &Arc<Pool>,
        permit: OwnedSemaphorePermit,
        address: Option<AddressPlace>,
        full: Option<Full>,
    ) -> Self {
        let connection = Arc::new(Connection::default());
        pool.is_idle(&connection);
        Self { full, connection, pool: pool.clone(), _address: address, _permit: permit }
    }

    /// A request has come.
    pub fn begin(&self) -> UnderWay {
        self.pool.is_busy(&self.connection);
        UnderWay { connection: self.connection.clone(), pool: self.pool.clone() }
    }

    /// Whether a response waits for the client to take it.
    pub fn set_writing(&self, is_writing: bool) {
        self.connection.is_writing.store(is_writing, Ordering::Relaxed);
    }

    /// Returns when the place is wanted for another connection.
    pub async fn evicted(&self) {
        self.connection.evicted.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.pool.is_busy(&self.connection);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.pool.is_idle(&self.connection);
    }
}

// === impl Addresses ===

impl Addresses {
    /// Counts one more connection; nothing is counted for this machine itself, and for proxies.
    fn enter(self: &Arc<Self>, peer: IpAddr) -> Result<Option<AddressPlace>, Full> {
        let address = counted_as(peer);
        if address.is_loopback() || self.proxies.trusts(peer) {
            return Ok(None);
        }
        let mut counts = lock(&self.counts);
        let count = counts.entry(address).or_default();
        if *count >= self.limit {
            return Err(Full::Address);
        }
        *count += 1;
        Ok(Some(AddressPlace { addresses: self.clone(), address }))
    }
}

impl Drop for AddressPlace {
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

/// One customer of a provider has a whole network of IPv6 addresses.
fn counted_as(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address @ (IpAddr::V4(_) | IpAddr::V6(_)) => address,
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
    async fn one_address_has_so_many_connections_and_this_machine_any_number() {
        let places = Places::new(&LIMITS, TrustedProxies::default());
        let first = places.take(address("192.0.2.1")).await.expect("a place");
        assert_eq!(first.full, None);
        let second = places.take(address("::ffff:192.0.2.1")).await.expect("a refusal");
        assert_eq!(second.full, Some(Full::Address));
        drop(first);
        assert_eq!(places.take(address("192.0.2.1")).await.expect("a place").full, None);
        let these = ["127.0.0.1", "::1"].map(address);
        let first = places.take(these[0]).await.expect("a place");
        let second = places.take(these[1]).await.expect("a place");
        assert_eq!((first.full, second.full), (None, None));
    }

    #[tokio::test]
    async fn a_trusted_proxy_has_any_number() {
        let proxies = TrustedProxies::new(vec!["192.0.2.0/24".parse().expect("a network")]);
        let places = Places::new(&LIMITS, proxies);
        let first = places.take(address("192.0.2.1")).await.expect("a place");
        let second = places.take(address("::ffff:192.0.2.1")).await.expect("a place");
        assert_eq!((first.full, second.full), (None, None));
    }

    #[tokio::test]
    async fn a_network_of_ipv6_counts_as_one_address() {
        let places = Places::new(&LIMITS, TrustedProxies::default());
        let first = places.take(address("2001:db8::1")).await.expect("a place");
        let same = places.take(address("2001:db8::ffff:2")).await.expect("a refusal");
        let other = places.take(address("2001:db8:0:1::1")).await.expect("a place");
        assert_eq!((first.full, same.full, other.full), (None, Some(Full::Address), None));
    }

    #[tokio::test]
    async fn a_refused_address_takes_no_place_of_others() {
        let places = Places::new(&LIMITS, TrustedProxies::default());
        let _first = places.take(address("192.0.2.1")).await.expect("a place");
        let _refused = places.take(address("192.0.2.1")).await.expect("a refusal");
        assert_eq!(places.take(address("192.0.2.2")).await.expect("a place").full, None);
    }
}
