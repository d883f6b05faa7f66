//! The requests to an issuer, and the keys that are accepted. Time is paused.

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
    assert_eq!(issuer.asked(), MAX_REQUESTS);
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
    let p256 = ("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0");
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
