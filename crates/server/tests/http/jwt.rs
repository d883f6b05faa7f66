//! Owners identified by JSON Web Tokens that are signed with a secret. The end-to-end tests cover published keys.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::{
    body::Body,
    http::{Method, header},
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::{
    Answer, TestApp,
    app::{Settings, says},
    scripted,
};

const SECRET: &str = "a-secret-of-thirty-two-characters";
const OPTIONS: &[&str] = &["--auth", "jwt", "--jwt-secret", SECRET];
const STRICT: &[&str] = &["--jwt-issuer", "https://issuer.example", "--jwt-audience", "fermata, chat"];

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs()
}

fn signed(algorithm: Algorithm, secret: &str, claims: &Value) -> String {
    encode(&Header::new(algorithm), claims, &EncodingKey::from_secret(secret.as_bytes())).expect("a token")
}

/// Returns the claims of a valid token with changes; null removes a claim.
fn token(other: Value) -> String {
    let mut claims = json!({"sub": "alice", "exp": now() + 60});
    for (name, value) in other.as_object().expect("an object") {
        claims[name] = value.clone();
    }
    claims.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
    signed(Algorithm::HS256, SECRET, &claims)
}

async fn ask(app: &TestApp, token: &str) -> Answer {
    let headers = [("authorization", &*format!("Bearer {token}"))];
    app.ask(Method::GET, "/api/chats", &headers, Body::empty()).await
}

/// Asserts that a token is refused, and returns the detail.
async fn refused(app: &TestApp, token: &str) -> String {
    let answer = ask(app, token).await;
    let detail = answer.problem(401, "unauthorized");
    let challenge = answer.headers[header::WWW_AUTHENTICATE].to_str().expect("text");
    assert!(challenge.starts_with("Bearer error=\"invalid_token\", error_description=\""), "{challenge}");
    let signature = token.rsplit('.').next().unwrap_or_default();
    assert!(signature.is_empty() || !detail.contains(signature), "the token is repeated: {detail}");
    detail
}

#[tokio::test]
async fn the_token_names_the_owner() {
    let app = TestApp::with(OPTIONS, [scripted::says("Hello.")]).await;
    let alice = format!("Bearer {}", token(json!({})));
    let bob = token(json!({"sub": "bob|7 @ örtlich"}));
    let headers = [("authorization", alice.as_str())];
    let begun = app.ask(Method::POST, "/api/chat", &headers, says("c", "hi").to_string()).await;
    assert_eq!(begun.status, 200, "{}", begun.text);
    assert_eq!(ask(&app, &bob).await.json(), json!({"chats": []}));
    for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
        let again = signed(algorithm, SECRET, &json!({"sub": "alice", "exp": now() + 60, "nbf": now()}));
        assert_eq!(ask(&app, &again).await.json()["chats"][0]["id"], "c");
    }
    app.get("/api/chats").await.problem(401, "unauthorized");
}

#[tokio::test]
async fn the_refusal_of_a_token_has_the_reason() {
    let app = TestApp::with(&[OPTIONS, STRICT].concat(), []).await;
    let fits = json!({"iss": "https://issuer.example", "aud": ["else", "chat"]});
    let with = |other: Value| {
        let mut claims = fits.clone();
        claims.as_object_mut().expect("an object").extend(other.as_object().expect("an object").clone());
        token(claims)
    };
    assert_eq!(ask(&app, &with(json!({}))).await.status, 200);
    assert_eq!(ask(&app, &with(json!({"aud": "fermata"}))).await.status, 200);
    // These do not count as guesses, because the issuer has signed them.
    for (claims, reason) in [
        (json!({"exp": now() - 60}), "expired (exp)"),
        (json!({"exp": null}), "exp is missing"),
        (json!({"exp": "tomorrow"}), "exp is missing"),
        (json!({"nbf": now() + 300}), "not valid yet (nbf)"),
        (json!({"iss": "https://other.example"}), "issuer (iss)"),
        (json!({"iss": null}), "iss is missing"),
        (json!({"aud": "fermata2"}), "another audience (aud)"),
        (json!({"aud": []}), "another audience (aud)"),
        (json!({"aud": null}), "aud is missing"),
        (json!({"sub": null}), "sub is missing"),
        (json!({"sub": 7}), "sub"),
        (json!({"sub": " "}), "sub is empty"),
        (json!({"sub": "a\nb"}), "sub has a control character"),
        (json!({"sub": "a".repeat(256)}), "sub is longer than 255"),
        (json!({"sub": " alice"}), "sub begins or ends with white space"),
        (json!({"sub": "alice\u{a0}"}), "sub begins or ends with white space"),
        (json!({"sub": "\u{202e}alice"}), "sub has an invisible character"),
        (json!({"sub": "ａlice"}), "sub has a letter or digit in another form"),
        (json!({"sub": "anyone"}), "sub is the reserved name"),
    ] {
        let detail = refused(&app, &with(claims.clone())).await;
        assert!(detail.contains(reason), "{claims}: {detail}");
    }
}

#[tokio::test]
async fn a_token_that_its_issuer_has_not_signed_is_refused_and_counts_as_a_guess() {
    let app = TestApp::with(OPTIONS, []).await;
    let claims = json!({"sub": "alice", "exp": now() + 60});
    let good = token(json!({}));
    let (head, tail) = good.split_once('.').expect("three parts");
    // {"alg":"none"}
    let unsigned = format!("eyJhbGciOiJub25lIn0.{}.", tail.split('.').next().expect("claims"));
    // {"alg":"RS256"}
    let other_kind = format!("eyJhbGciOiJSUzI1NiJ9.{tail}");
    // {"alg":"HS256","crit":["b64"],"b64":false}
    let critical = format!("eyJhbGciOiJIUzI1NiIsImNyaXQiOlsiYjY0Il0sImI2NCI6ZmFsc2V9.{tail}");
    for (forged, reason) in [
        (signed(Algorithm::HS256, "another-secret-of-thirty-two-letters", &claims), "signature is wrong"),
        (unsigned, "not a JSON Web Token"),
        (other_kind, "algorithm that does not match the key"),
        (critical, "crit"),
        (head.to_owned(), "not a JSON Web Token"),
        ("x".repeat(20_000), "longer than 16 kB"),
        (String::new(), "not a JSON Web Token"),
    ] {
        let detail = refused(&app, &forged).await;
        assert!(detail.contains(reason), "{detail}");
    }
    for _ in 0..3 {
        refused(&app, "guess").await;
    }
    ask(&app, "guess").await.problem(429, "too_many_failures");
    let expired = refused(&app, &token(json!({"exp": now() - 60}))).await;
    assert!(expired.contains("expired"), "{expired}");
    assert_eq!(ask(&app, &good).await.status, 200);
}

#[tokio::test]
async fn a_claim_names_the_groups() {
    let file = Settings::new("[assistants.admin]\ngroups = [\"admin\"]\n[users.bob]\ngroups = [\"admin\"]\n");
    for (claim, claims, is_admin) in [
        (None, json!({"groups": ["x", "admin"]}), true),
        (None, json!({"groups": "admin"}), true),
        (None, json!({"groups": "admin x"}), false),
        (None, json!({"groups": {"admin": true}}), false),
        (None, json!({"groups": [["admin"], 1, null]}), false),
        (None, json!({"roles": ["admin"]}), false),
        (None, json!({}), false),
        (None, json!({"sub": "bob"}), true),
        (Some("roles"), json!({"roles": ["admin"], "groups": ["x"]}), true),
        (Some("roles"), json!({"groups": ["admin"]}), false),
        (Some("realm_access.roles"), json!({"realm_access": {"roles": ["admin"]}}), true),
        (
            Some("realm_access.roles"),
            json!({"realm_access.roles": "admin", "realm_access": {"roles": []}}),
            true,
        ),
        (
            Some("realm_access.roles"),
            json!({"realm_access.roles": [], "realm_access": {"roles": ["admin"]}}),
            false,
        ),
        (Some("a.b.c"), json!({"a": {"b": {"c": "admin"}}}), true),
        (Some("a.b.c"), json!({"a": ["admin"]}), false),
    ] {
        let mut options = [OPTIONS, &["--config", file.path()]].concat();
        options.extend(claim.iter().flat_map(|claim| ["--jwt-groups-claim", claim]));
        let app = TestApp::with(&options, []).await;
        let bearer = format!("Bearer {}", token(claims.clone()));
        let headers = [("authorization", bearer.as_str())];
        let listed = app.ask(Method::GET, "/api/assistants", &headers, Body::empty()).await.json();
        let names: Vec<&Value> = listed["assistants"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|assistant| &assistant["name"])
            .collect();
        assert_eq!(names.contains(&&json!("admin")), is_admin, "{claim:?} and {claims}");
    }
}
