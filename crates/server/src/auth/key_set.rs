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

/// The age from which on newer keys are fetched. A withdrawn key is accepted for no longer than that.
const FRESH_FOR: Duration = Duration::from_secs(600);
/// The time for which an issuer that has failed is not asked again, if there are known keys.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// The limit on requests to the issuer in a period.
const MOST_REQUESTS: usize = 6;
/// The period for this limit.
const REQUEST_PERIOD: Duration = Duration::from_secs(60);
/// The time limit of a request to the issuer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The limit on the issuer's response, in bytes.
const LARGEST: usize = 1_000_000;
/// The limit on keys, which is more than issuers publish. All of them are tried for a token that names no key.
const MOST_KEYS: usize = 100;

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
    /// The key's id, by which tokens name it.
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
        let fetch = move || {
            let url = url.clone();
            async move { download(&url).await }.boxed()
        };
        Self { source: Source { name, fetch: Box::new(fetch) }, state: Arc::default() }
    }

    /// Fetches the keys. If that fails, the log says so right after the start.
    pub async fn prepare(&self) {
        // The failure has been logged.
        let _ = self.known().await;
    }

    /// Returns the known keys. Fetches them first if there are none, or if they are old.
    pub async fn known(&self) -> Result<Arc<Vec<Key>>, NoKeys> {
        let request = {
            let mut state = self.lock();
            match &state.known {
                Some(known) if known.fetched_at.elapsed() < FRESH_FOR => return Ok(known.keys.clone()),
                // One caller waits for newer keys, and the others use the known ones meanwhile.
                Some(known) if state.has_request() || state.has_failed_recently() => {
                    return Ok(known.keys.clone());
                }
                Some(_) | None => state.request(&self.source, &self.state),
            }
        };
        if let Some(request) = request {
            request.await;
        }
        self.lock().known.as_ref().map(|known| known.keys.clone()).ok_or(NoKeys)
    }

    /// Returns newer keys than `known`, if the issuer may be asked again and has any; otherwise `known`.
    pub async fn newer_than(&self, known: &Arc<Vec<Key>>) -> Arc<Vec<Key>> {
        let request = {
            let mut state = self.lock();
            match &state.known {
                Some(newer) if !Arc::ptr_eq(&newer.keys, known) => return newer.keys.clone(),
                Some(_) | None => state.request(&self.source, &self.state),
            }
        };
        if let Some(request) = request {
            request.await;
        }
        match &self.lock().known {
            Some(newest) => newest.keys.clone(),
            None => known.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
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

    fn has_failed_recently(&self) -> bool {
        self.failed_at.is_some_and(|failed_at| failed_at.elapsed() < RETRY_AFTER)
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
        if self.requested_at.len() >= MOST_REQUESTS {
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
    let keys: Vec<Key> = usable.take(MOST_KEYS).collect();
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
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    /// A fake issuer, which counts the requests. It is down if it publishes `None`.
    #[derive(Default)]
    struct Issuer {
        published: Mutex<Option<Value>>,
        asked: AtomicUsize,
    }

    impl Issuer {
        fn publish(&self, published: Option<Value>) {
            *self.published.lock().expect("not poisoned") = published;
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::Relaxed)
        }
    }

    fn issuer(published: Option<Value>) -> (Arc<Issuer>, KeySet) {
        let issuer = Arc::new(Issuer::default());
        issuer.publish(published);
        let asked = issuer.clone();
        let fetch = move || {
            asked.asked.fetch_add(1, Ordering::Relaxed);
            let published = asked.published.lock().expect("not poisoned").clone();
            async move {
                tokio::task::yield_now().await;
                published.map(|keys| keys.to_string().into_bytes()).ok_or_else(|| "it is down".to_owned())
            }
            .boxed()
        };
        let source = Source { name: "test".into(), fetch: Box::new(fetch) };
        (issuer, KeySet { source, state: Arc::default() })
    }

    fn keys(names: &[&str]) -> Option<Value> {
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        let key = |name: &&str| json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": name});
        Some(json!({"keys": names.iter().map(key).collect::<Vec<_>>()}))
    }

    fn names(keys: &[Key]) -> Vec<&str> {
        keys.iter().filter_map(|key| key.id.as_deref()).collect()
    }

    async fn known(keys: &KeySet) -> Arc<Vec<Key>> {
        keys.known().await.unwrap_or_else(|NoKeys| panic!("no keys"))
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_one_request() {
        let (issuer, set) = issuer(keys(&["a"]));
        let found = futures::future::join_all((0..50).map(|_| known(&set))).await;
        assert!(found.iter().all(|keys| names(keys) == ["a"]));
        assert_eq!(issuer.asked(), 1);
        known(&set).await;
        assert_eq!(issuer.asked(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_key_is_found_at_once_and_a_withdrawn_one_is_forgotten_in_time() {
        let (issuer, set) = issuer(keys(&["old"]));
        let old = known(&set).await;
        issuer.publish(keys(&["new"]));
        assert_eq!(names(&known(&set).await), ["old"]);
        assert_eq!(names(&set.newer_than(&old).await), ["new"]);
        issuer.publish(keys(&["newest"]));
        tokio::time::advance(FRESH_FOR).await;
        assert_eq!(names(&known(&set).await), ["newest"]);
        assert_eq!(issuer.asked(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_of_strangers_cause_few_requests_to_the_issuer() {
        let (issuer, set) = issuer(keys(&["a"]));
        for _ in 0..1_000 {
            let known = known(&set).await;
            set.newer_than(&known).await;
        }
        assert_eq!(issuer.asked(), MOST_REQUESTS);
        tokio::time::advance(REQUEST_PERIOD).await;
        issuer.publish(keys(&["b"]));
        let known = known(&set).await;
        assert_eq!(names(&set.newer_than(&known).await), ["b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_known_keys_stay_while_the_issuer_is_down() {
        let (issuer, set) = issuer(keys(&["a"]));
        known(&set).await;
        for answer in [None, Some(json!({"keys": []})), Some(json!("nonsense"))] {
            issuer.publish(answer);
            tokio::time::advance(FRESH_FOR).await;
            let asked = issuer.asked();
            for _ in 0..100 {
                assert_eq!(names(&known(&set).await), ["a"]);
            }
            assert_eq!(issuer.asked(), asked + 1, "it is not asked again for a while");
        }
        issuer.publish(keys(&["b"]));
        tokio::time::advance(RETRY_AFTER).await;
        assert_eq!(names(&known(&set).await), ["b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn newer_keys_are_fetched_even_if_the_first_caller_is_dropped() {
        let (issuer, set) = issuer(keys(&["old"]));
        known(&set).await;
        issuer.publish(keys(&["new"]));
        tokio::time::advance(FRESH_FOR).await;
        let mut dropped = Box::pin(set.known());
        assert!(futures::poll!(&mut dropped).is_pending());
        drop(dropped);
        assert_eq!(names(&known(&set).await), ["old"]);
        tokio::time::advance(REQUEST_TIMEOUT).await;
        assert_eq!(names(&known(&set).await), ["new"]);
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_an_error_until_there_is_a_key() {
        let (issuer, set) = issuer(None);
        assert!(set.known().await.is_err());
        issuer.publish(keys(&["a"]));
        assert_eq!(names(&known(&set).await), ["a"]);
    }

    #[test]
    fn only_public_keys_for_signatures_are_accepted_each_for_its_own_algorithms() {
        let p256 =
            ("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0");
        let algorithms = |jwk: Value| Key::read(jwk).map(|key| key.algorithms);
        let ec = |more: Value| {
            let mut jwk = json!({"kty": "EC", "crv": "P-256", "x": p256.0, "y": p256.1});
            jwk.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            jwk
        };
        assert_eq!(algorithms(ec(json!({}))), Some(vec![Algorithm::ES256]));
        assert_eq!(algorithms(ec(json!({"use": "sig", "alg": "ES256"}))), Some(vec![Algorithm::ES256]));
        assert_eq!(algorithms(ec(json!({"key_ops": ["verify"]}))), Some(vec![Algorithm::ES256]));
        let rsa = json!({"kty": "RSA", "n": "AQAB", "e": "AQAB", "alg": "RS256"});
        assert_eq!(algorithms(rsa), Some(vec![Algorithm::RS256]));
        for none in [
            ec(json!({"use": "enc"})),
            ec(json!({"key_ops": ["encrypt"]})),
            ec(json!({"alg": "HS256"})),
            ec(json!({"alg": "none"})),
            ec(json!({"crv": "P-521"})),
            json!({"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0", "alg": "HS256"}),
            json!({"kty": "RSA", "n": "AQAB", "e": "AQAB", "alg": "RSA-OAEP"}),
            json!({"kty": "new"}),
            json!(7),
        ] {
            assert_eq!(algorithms(none.clone()), None, "{none}");
        }
    }
}
