//! Looking names up, for connections that may lead to public addresses only.
//!
//! A name that looks public may lead to any address: `10.0.0.5.nip.io` leads to 10.0.0.5. So names are looked up before a URL is handed
//! to a model, and when a tool connects. The number of lookups under way and the time of each are limited: a sender who names a host
//! also chooses how long its name server takes.

use std::{
    io,
    net::{IpAddr, ToSocketAddrs as _},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::Semaphore;

/// The time that a lookup may take.
pub const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of lookups of the operating system that may be under way.
const MOST_LOOKUPS: usize = 16;

/// Looks names up.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// Returns the addresses of a name.
    ///
    /// # Errors
    /// Returns an error if the name has no address, or no name server can be asked.
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the operating system.
#[derive(Clone, Debug)]
pub struct SystemResolver(Arc<Semaphore>);

/// The reason why nothing is fetched from a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameRefusal {
    /// One of its addresses is not allowed.
    #[error("the name {name} leads to {address}, which is not a public address")]
    NotPublic {
        /// The name.
        name: String,
        /// The address.
        address: IpAddr,
    },
    /// It has no address, or no name server can be asked.
    #[error("the name {0} cannot be looked up")]
    Unknown(String),
    /// No name server has answered within [`LOOKUP_TIMEOUT`].
    #[error("no name server answers about {0}")]
    TimedOut(String),
}

/// Returns the addresses of a name, if all of them are allowed.
///
/// # Errors
/// Returns the reason why the name is not to be connected to. One address that is not allowed is enough: a name that leads to both kinds
/// is made to get past a check.
pub async fn allowed_addresses(
    resolver: &dyn Resolver,
    name: &str,
    is_allowed: fn(IpAddr) -> bool,
) -> Result<Vec<IpAddr>, NameRefusal> {
    let found = tokio::time::timeout(LOOKUP_TIMEOUT, resolver.look_up(name))
        .await
        .map_err(|_| NameRefusal::TimedOut(name.to_owned()))?
        .map_err(|_| NameRefusal::Unknown(name.to_owned()))?;
    match found.iter().find(|address| !is_allowed(**address)) {
        Some(address) => Err(NameRefusal::NotPublic { name: name.to_owned(), address: *address }),
        None if found.is_empty() => Err(NameRefusal::Unknown(name.to_owned())),
        None => Ok(found),
    }
}

// === impl SystemResolver ===

impl Default for SystemResolver {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_LOOKUPS)))
    }
}

#[async_trait]
impl Resolver for SystemResolver {
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let permit = self.0.clone().acquire_owned().await.map_err(io::Error::other)?;
        let name = name.to_owned();
        // The operating system cannot be stopped once it looks a name up, so the permit stays with it.
        let lookup = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let found = (name.as_str(), 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        });
        lookup.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use fermata_tools::hosts::is_public_address;

    use super::*;

    /// A resolver for tests. Names that end in an address after `to.` lead there, `slow` ones never answer, others have no address.
    pub(crate) struct Invented;

    #[async_trait]
    impl Resolver for Invented {
        async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            if name.starts_with("slow.") {
                std::future::pending::<()>().await;
            }
            let addresses: Vec<IpAddr> = match name {
                "public.example" => vec![[1, 1, 1, 1].into(), [1, 0, 0, 1].into()],
                "both.example" => vec![[1, 1, 1, 1].into(), [127, 0, 0, 1].into()],
                "translated.example" => vec!["64:ff9b::a00:5".parse().expect("an address")],
                "10.0.0.5.nip.io" | "169-254-169-254.sslip.io" => vec![[10, 0, 0, 5].into()],
                "localtest.me" => vec![[127, 0, 0, 1].into()],
                "empty.example" => vec![],
                _ => return Err(io::Error::other("no such name")),
            };
            Ok(addresses)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_allowed_if_all_of_its_addresses_are() {
        let look_up = async |name| allowed_addresses(&Invented, name, is_public_address).await;
        assert_eq!(look_up("public.example").await.map(|found| found.len()), Ok(2));
        for name in ["both.example", "translated.example", "10.0.0.5.nip.io", "localtest.me"] {
            let refusal = look_up(name).await;
            assert!(matches!(refusal, Err(NameRefusal::NotPublic { .. })), "{name}: {refusal:?}");
        }
        for name in ["empty.example", "nowhere.example"] {
            assert_eq!(look_up(name).await, Err(NameRefusal::Unknown(name.into())));
        }
        assert_eq!(look_up("slow.example").await, Err(NameRefusal::TimedOut("slow.example".into())));
    }

    #[tokio::test]
    async fn the_operating_system_knows_this_machine() {
        let resolver = SystemResolver::default();
        let refusal = allowed_addresses(&resolver, "localhost", is_public_address).await;
        assert!(matches!(refusal, Err(NameRefusal::NotPublic { .. })), "{refusal:?}");
        assert_eq!(resolver.0.available_permits(), MOST_LOOKUPS);
    }
}
