//! The keys that an issuer publishes (JWKS), fetched when they are needed.
//!
//! Known keys are used until newer ones can be fetched, so tokens that they signed are accepted even if the issuer is unreachable. Tokens of
//! strangers cannot cause more than a few requests to the issuer per minute, and there is one at a time.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, Shared},
};
use jsonwebtoken::{
    Algorithm, DecodingKey, Header,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse},
};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::config::Url;

/// Keys older than this are fetched again. A withdrawn key is accepted for no longer than that.
const FRESH_FOR: Duration = Duration::from_secs(600);
/// An issuer that has failed is not asked again for this time, if there are known keys.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// The limit on requests to the issuer in a period.
const MAX_REQUESTS: usize = 6;
/// The period for this limit.
const REQUEST_PERIOD: Duration = Duration::from_secs(60);
/// The time limit of a request to the issuer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The limit on the issuer's response, in bytes.
const LARGEST: usize = 1_000_000;
/// The limit on keys, which is more than issuers publish. All of them are tried for a token that names no key.
const MAX_KEYS: usize = 100;

/// The keys of one issuer.
pub struct KeySet {
    source: Source,
    // The mutex is held for a few instructions, never across an await.
    state: Arc<Mutex<State>>,
}

/// The way to ask the issuer.
struct Source {
    /// The issuer's name in the log.
    name: String,
    fetch: Box<dyn Fn() -> BoxFuture<'static, Result<Vec<u8>, String>> + Send + Sync>,
}

#[derive(Default)]
struct State {
    known: Option<Known>,
    /// The times of the recent requests.
    requested_at: Vec<Instant>,
    /// The time of the last failure, if no request has succeeded since.
    failed_at: Option<Instant>,
    request: Option<Shared<BoxFuture<'static, ()>>>,
}

#[derive(Clone)]
struct Known {
    keys: Arc<Vec<Key>>,
    fetched_at: Instant,
}

/// A public key.
pub struct Key {
    /// The key's id; tokens name the key with it.
    pub id: Option<String>,
    /// The algorithms that the key may verify.
    pub algorithms: Vec<Algorithm>,
    /// The key itself.
    pub key: DecodingKey,
}

/// The error if no keys are known and none can be fetched.
pub struct NoKeys;

#[derive(Deserialize)]
struct Published {
    keys: Vec<Value>,
}

// === impl KeySet ===

impl KeySet {
    /// Creates the set of the keys that are published at a URL. Nothing is fetched yet.
    pub fn at(url: String) -> Self {
        let name = Url::masked(&url);
        let fetch = Box::new(move || {
            let url = url.clone();
            async move { download(&url).await }.boxed()
        });
        Self { source: Source { name, fetch }, state: Arc::default() }
    }

    /// Returns the known keys. Fetches them first if there are none, or if they are old.
    pub async fn known(&self) -> Result<Arc<Vec<Key>>, NoKeys> {
        let request = {
            let mut state = lock(&self.state);
            let has_failed_recently =
                state.failed_at.is_some_and(|failed_at| failed_at.elapsed() < RETRY_AFTER);
            match &state.known {
                Some(known) if known.fetched_at.elapsed() < FRESH_FOR => return Ok(known.keys.clone()),
                // One caller waits for newer keys, and the others use the known ones meanwhile.
                Some(known) if state.has_request() || has_failed_recently => {
                    return Ok(known.keys.clone());
                }
                Some(_) | None => state.request(&self.source, &self.state),
            }
        };
        if let Some(request) = request {
            request.await;
        }
        lock(&self.state).known.as_ref().map(|known| known.keys.clone()).ok_or(NoKeys)
    }

    /// Fetches the keys, however often the issuer was asked before. If that fails, the known ones stay.
    pub async fn refetch(&self) {
        let request = {
            let mut state = lock(&self.state);
            state.requested_at.clear();
            state.request(&self.source, &self.state)
        };
        if let Some(request) = request {
            request.await;
        }
        if lock(&self.state).failed_at.is_none() {
            tracing::info!(source = self.source.name, "fetched the keys of tokens again");
        }
    }

    /// Returns newer keys than `known`, if the issuer may be asked again and has any; otherwise `known`.
    pub async fn newer_than(&self, known: &Arc<Vec<Key>>) -> Arc<Vec<Key>> {
        let request = {
            let mut state = lock(&self.state);
            match &state.known {
                Some(newer) if !Arc::ptr_eq(&newer.keys, known) => return newer.keys.clone(),
                Some(_) | None => state.request(&self.source, &self.state),
            }
        };
        if let Some(request) = request {
            request.await;
        }
        match &lock(&self.state).known {
            Some(newest) => newest.keys.clone(),
            None => known.clone(),
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl State ===

impl State {
    /// Returns whether a request is under way. One that is older than its time limit does not count: all callers that polled it have been
    /// dropped, and the next caller has to poll it again.
    fn has_request(&self) -> bool {
        self.request.is_some()
            && self.requested_at.last().is_some_and(|requested_at| requested_at.elapsed() < REQUEST_TIMEOUT)
    }

    /// Returns the request that is under way, or a new one unless there have been too many.
    fn request(
        &mut self,
        source: &Source,
        state: &Arc<Mutex<Self>>,
    ) -> Option<Shared<BoxFuture<'static, ()>>> {
        if let Some(request) = &self.request {
            return Some(request.clone());
        }
        self.requested_at.retain(|requested_at| requested_at.elapsed() < REQUEST_PERIOD);
        if self.requested_at.len() >= MAX_REQUESTS {
            return None;
        }
        self.requested_at.push(Instant::now());
        let (name, response, state) = (source.name.clone(), (source.fetch)(), state.clone());
        // The callers that wait poll the request. If all of them are dropped, the next caller continues it.
        let request = async move {
            let fetched = tokio::time::timeout(REQUEST_TIMEOUT, response).await;
            let fetched = fetched.unwrap_or_else(|_| Err("no answer in time".into()));
            lock(&state).note(&name, fetched.and_then(|body| read_keys(&body)));
        };
        let request = request.boxed().shared();
        self.request = Some(request.clone());
        Some(request)
    }

    fn note(&mut self, source: &str, fetched: Result<Vec<Key>, String>) {
        self.request = None;
        match fetched {
            Ok(keys) => {
                self.failed_at = None;
                self.known = Some(Known { keys: Arc::new(keys), fetched_at: Instant::now() });
            }
            Err(reason) => {
                let known = self.known.as_ref().map_or(0, |known| known.keys.len());
                tracing::warn!(source, reason, known, "the keys of tokens cannot be fetched");
                self.failed_at = Some(Instant::now());
            }
        }
    }
}

fn read_keys(body: &[u8]) -> Result<Vec<Key>, String> {
    let published: Published =
        serde_json::from_slice(body).map_err(|_| "the answer is not a set of keys".to_owned())?;
    // The set may contain keys of unknown types, or for other purposes.
    let usable = published.keys.into_iter().filter_map(Key::read);
    let keys: Vec<Key> = usable.take(MAX_KEYS).collect();
    if keys.is_empty() { Err("the answer has no key for signatures".into()) } else { Ok(keys) }
}

/// Downloads the published keys. Does not follow redirects, because the source of the keys decides about identities.
async fn download(url: &str) -> Result<Vec<u8>, String> {
    let describe = |error: reqwest::Error| error.without_url().to_string();
    let client =
        reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().map_err(describe)?;
    let response = client.get(url).send().await.map_err(describe)?;
    if !response.status().is_success() {
        return Err(format!("the status is {}", response.status().as_u16()));
    }
    let mut body = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        body.extend_from_slice(&piece.map_err(describe)?);
        if body.len() > LARGEST {
            return Err(format!("the answer is larger than {LARGEST} bytes"));
        }
    }
    Ok(body)
}

// === impl Key ===

impl Key {
    /// Reads a published key; `None` if it cannot verify signatures, or if it is a secret, which must not be published.
    fn read(published: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(published).ok()?;
        let purpose = &jwk.common;
        let verifies_signatures =
            purpose.public_key_use.as_ref().is_none_or(|it| *it == PublicKeyUse::Signature)
                && purpose.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify));
        if !verifies_signatures {
            return None;
        }
        let mut algorithms = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => vec![
                Algorithm::RS256,
                Algorithm::RS384,
                Algorithm::RS512,
                Algorithm::PS256,
                Algorithm::PS384,
                Algorithm::PS512,
            ],
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
                vec![Algorithm::ES256]
            }
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => {
                vec![Algorithm::ES384]
            }
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
                vec![Algorithm::EdDSA]
            }
            _ => return None,
        };
        if let Some(only) = purpose.key_algorithm {
            let only = Algorithm::try_from(only).ok()?;
            algorithms.retain(|algorithm| *algorithm == only);
        }
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        if algorithms.is_empty() { None } else { Some(Self { id: jwk.common.key_id, algorithms, key }) }
    }

    /// Returns whether the key may have signed a token with this header.
    pub fn may_have_signed(&self, header: &Header) -> bool {
        let is_named = self.id.is_none() || header.kid.is_none() || self.id == header.kid;
        is_named && self.algorithms.contains(&header.alg)
    }
}

#[cfg(test)]
mod tests;
