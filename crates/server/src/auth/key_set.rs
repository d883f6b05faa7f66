//! The keys that an issuer publishes (JWKS), fetched when they are needed.
//!
//! Keys that are known are used for as long as nothing newer can be had, so an issuer that is away keeps nobody out whose token is signed
//! with one of them. Whatever tokens strangers send, the issuer is asked a few times a minute at most, and by one request at a time.

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

/// How old keys may be before newer ones are looked for; a key that was withdrawn counts no longer than that.
const FRESH_FOR: Duration = Duration::from_secs(600);
/// How long an issuer that has failed is left alone, where there are keys to go on with.
const LEFT_ALONE: Duration = Duration::from_secs(60);
/// How often the issuer may be asked in this time.
const ASKED_AT_MOST: usize = 6;
const ASKED_IN: Duration = Duration::from_secs(60);
/// How long it may take to answer, and how much it may say.
const PATIENCE: Duration = Duration::from_secs(5);
const LARGEST: usize = 1_000_000;
/// More keys than anybody publishes; each is tried for a token that names none.
const MOST_KEYS: usize = 100;

/// The keys of one issuer.
pub struct KeySet {
    source: Source,
    // Held for a look and a change, never across an await.
    state: Arc<Mutex<State>>,
}

/// What asks the issuer.
struct Source {
    /// What the log calls it.
    name: String,
    ask: Box<dyn Fn() -> BoxFuture<'static, Result<Vec<u8>, String>> + Send + Sync>,
}

#[derive(Default)]
struct State {
    known: Option<Known>,
    /// When the issuer was asked, of late.
    asked: Vec<Instant>,
    /// When it failed, if it has not answered since.
    failed_at: Option<Instant>,
    asking: Option<Shared<BoxFuture<'static, ()>>>,
}

#[derive(Clone)]
struct Known {
    keys: Arc<Vec<Key>>,
    fetched_at: Instant,
}

/// A public key.
pub struct Key {
    /// What tokens call it.
    pub id: Option<String>,
    /// What it may verify.
    pub algorithms: Vec<Algorithm>,
    /// The key itself.
    pub key: DecodingKey,
}

/// Nothing is known yet, and nothing can be had.
pub struct NoKeys;

#[derive(Deserialize)]
struct Published {
    keys: Vec<Value>,
}

// === impl KeySet ===

impl KeySet {
    /// Those at this address.
    pub fn at(url: String) -> Self {
        let name = Url::masked(&url);
        let ask = move || {
            let url = url.clone();
            async move { download(&url).await }.boxed()
        };
        Self { source: Source { name, ask: Box::new(ask) }, state: Arc::default() }
    }

    /// Fetches them, so that the log tells at the start if that does not go.
    pub async fn prepare(&self) {
        // The log has the reason already.
        let _ = self.known().await;
    }

    /// The keys that are known; fetched if there are none, and if they are old.
    pub async fn known(&self) -> Result<Arc<Vec<Key>>, NoKeys> {
        let asking = {
            let mut state = self.lock();
            match &state.known {
                Some(known) if known.fetched_at.elapsed() < FRESH_FOR => return Ok(known.keys.clone()),
                // One request waits for newer keys, and the others go on with those that are there.
                Some(known) if state.is_being_asked() || state.is_left_alone() => {
                    return Ok(known.keys.clone());
                }
                Some(_) | None => state.ask(&self.source, &self.state),
            }
        };
        if let Some(asking) = asking {
            asking.await;
        }
        self.lock().known.as_ref().map(|known| known.keys.clone()).ok_or(NoKeys)
    }

    /// Newer keys than these, if the issuer may be asked again and has any; else these.
    pub async fn newer_than(&self, known: &Arc<Vec<Key>>) -> Arc<Vec<Key>> {
        let asking = {
            let mut state = self.lock();
            match &state.known {
                Some(newer) if !Arc::ptr_eq(&newer.keys, known) => return newer.keys.clone(),
                Some(_) | None => state.ask(&self.source, &self.state),
            }
        };
        if let Some(asking) = asking {
            asking.await;
        }
        self.lock().known.as_ref().map_or_else(|| known.clone(), |newest| newest.keys.clone())
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
    /// Whether somebody waits for an answer. A request whose client went away is driven by nobody, and is taken up again in time.
    fn is_being_asked(&self) -> bool {
        self.asking.is_some() && self.asked.last().is_some_and(|asked_at| asked_at.elapsed() < PATIENCE)
    }

    fn is_left_alone(&self) -> bool {
        self.failed_at.is_some_and(|failed_at| failed_at.elapsed() < LEFT_ALONE)
    }

    /// The request that is on its way, or a new one unless there have been too many.
    fn ask(&mut self, source: &Source, state: &Arc<Mutex<Self>>) -> Option<Shared<BoxFuture<'static, ()>>> {
        if let Some(asking) = &self.asking {
            return Some(asking.clone());
        }
        self.asked.retain(|asked_at| asked_at.elapsed() < ASKED_IN);
        if self.asked.len() >= ASKED_AT_MOST {
            return None;
        }
        self.asked.push(Instant::now());
        let (name, answer, state) = (source.name.clone(), (source.ask)(), state.clone());
        // Whoever waits drives it. Should all of them go away, the next one goes on with it.
        let asking = async move {
            let fetched = tokio::time::timeout(PATIENCE, answer).await;
            let fetched = fetched.unwrap_or_else(|_| Err("no answer in time".into()));
            lock(&state).note(&name, fetched.and_then(|body| read_keys(&body)));
        };
        let asking = asking.boxed().shared();
        self.asking = Some(asking.clone());
        Some(asking)
    }

    fn note(&mut self, source: &str, fetched: Result<Vec<Key>, String>) {
        self.asking = None;
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
    // A set may hold keys of kinds that this server does not know, for other purposes.
    let usable = published.keys.into_iter().filter_map(Key::read);
    let keys: Vec<Key> = usable.take(MOST_KEYS).collect();
    if keys.is_empty() { Err("the answer has no key for signatures".into()) } else { Ok(keys) }
}

/// Follows no redirect, because where the keys come from is who decides about identities.
async fn download(url: &str) -> Result<Vec<u8>, String> {
    let words = |error: reqwest::Error| error.without_url().to_string();
    let client =
        reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().map_err(words)?;
    let response = client.get(url).send().await.map_err(words)?;
    if !response.status().is_success() {
        return Err(format!("the status is {}", response.status().as_u16()));
    }
    let mut body = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        body.extend_from_slice(&piece.map_err(words)?);
        if body.len() > LARGEST {
            return Err(format!("the answer is larger than {LARGEST} bytes"));
        }
    }
    Ok(body)
}

// === impl Key ===

impl Key {
    /// A key that verifies signatures; a secret that is published is none.
    fn read(published: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(published).ok()?;
        let purpose = &jwk.common;
        let is_for_signatures =
            purpose.public_key_use.as_ref().is_none_or(|it| *it == PublicKeyUse::Signature)
                && purpose.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify));
        if !is_for_signatures {
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

    /// Whether a token with this header may be tried with it.
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

    /// An issuer that a test has in its hand: what it publishes, or nothing while it is down, and how often it was asked.
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
        let ask = move || {
            asked.asked.fetch_add(1, Ordering::Relaxed);
            let published = asked.published.lock().expect("not poisoned").clone();
            async move {
                tokio::task::yield_now().await;
                published.map(|keys| keys.to_string().into_bytes()).ok_or_else(|| "it is down".to_owned())
            }
            .boxed()
        };
        let source = Source { name: "test".into(), ask: Box::new(ask) };
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
    async fn all_who_need_keys_at_once_ask_once() {
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
    async fn tokens_of_strangers_have_the_issuer_asked_a_few_times_only() {
        let (issuer, set) = issuer(keys(&["a"]));
        for _ in 0..1_000 {
            let known = known(&set).await;
            set.newer_than(&known).await;
        }
        assert_eq!(issuer.asked(), ASKED_AT_MOST);
        tokio::time::advance(ASKED_IN).await;
        issuer.publish(keys(&["b"]));
        let known = known(&set).await;
        assert_eq!(names(&set.newer_than(&known).await), ["b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_keys_that_are_known_stay_while_the_issuer_is_down() {
        let (issuer, set) = issuer(keys(&["a"]));
        known(&set).await;
        for answer in [None, Some(json!({"keys": []})), Some(json!("nonsense"))] {
            issuer.publish(answer);
            tokio::time::advance(FRESH_FOR).await;
            let asked = issuer.asked();
            for _ in 0..100 {
                assert_eq!(names(&known(&set).await), ["a"]);
            }
            assert_eq!(issuer.asked(), asked + 1, "it is left alone for a while");
        }
        issuer.publish(keys(&["b"]));
        tokio::time::advance(LEFT_ALONE).await;
        assert_eq!(names(&known(&set).await), ["b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn old_keys_do_not_stay_because_a_client_went_away_while_newer_ones_were_fetched() {
        let (issuer, set) = issuer(keys(&["old"]));
        known(&set).await;
        issuer.publish(keys(&["new"]));
        tokio::time::advance(FRESH_FOR).await;
        let mut given_up = Box::pin(set.known());
        assert!(futures::poll!(&mut given_up).is_pending());
        drop(given_up);
        assert_eq!(names(&known(&set).await), ["old"]);
        tokio::time::advance(PATIENCE).await;
        assert_eq!(names(&known(&set).await), ["new"]);
    }

    #[tokio::test(start_paused = true)]
    async fn without_any_key_that_is_said_until_there_is_one() {
        let (issuer, set) = issuer(None);
        assert!(set.known().await.is_err());
        issuer.publish(keys(&["a"]));
        assert_eq!(names(&known(&set).await), ["a"]);
    }

    #[test]
    fn only_public_keys_for_signatures_are_taken_and_each_for_its_own_algorithms() {
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
