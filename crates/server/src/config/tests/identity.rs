//! Access to the server: the valid combinations of settings, and that nothing is open by mistake.

use super::*;

const SECRET: &str = "hush, this is a secret of the tests";
const ISSUER: (&str, &str) = ("FERMATA_JWKS_URL", "https://issuer.example/jwks");
const JWT: (&str, &str) = ("FERMATA_AUTH", "jwt");
const HEADER: (&str, &str) = ("FERMATA_USER_HEADER", "X-Forwarded-User");
const PROXIES: (&str, &str) = ("FERMATA_TRUSTED_PROXIES", "10.0.0.7");

#[test]
fn json_web_tokens_need_keys_or_a_secret_and_not_both() {
    let (config, report) = read(&[], &[JWT, ("FERMATA_JWT_SECRET", SECRET)], "").expect("a secret");
    assert_eq!(
        (config.access.auth, config.owner_limits.runs_per_owner),
        (AuthKind::Jwt, NonZeroUsize::new(64))
    );
    assert!(report.contains("jwt_secret = \"(secret)\"") && !report.contains("hush"), "{report}");
    let more =
        [JWT, ISSUER, ("FERMATA_JWT_ISSUER", "https://issuer.example"), ("FERMATA_JWT_AUDIENCE", "a, b")];
    let (config, _) = read(&[], &more, "").expect("keys");
    assert_eq!(config.access.jwt_audience.to_vec(), ["a", "b"]);
    for (variables, reason) in [
        (&[JWT][..], "FERMATA_JWKS_URL"),
        (&[JWT, ISSUER, ("FERMATA_JWT_SECRET", SECRET)], "jwks_url is also set"),
        (&[JWT, ("FERMATA_JWT_SECRET", "hush-hush-hush")], "shorter than 32 bytes"),
        (&[JWT, ISSUER, ("FERMATA_TOKENS", "a:sixteen-letters!")], "set auth to token"),
        (&[JWT, ISSUER, HEADER, PROXIES], "set auth to header"),
    ] {
        let words = error(variables, "");
        assert!(words.contains(reason) && !words.contains("hush"), "{words}");
    }
}

#[test]
fn keys_come_from_where_nobody_can_change_them() {
    for (url, is_safe) in [
        ("https://issuer.example/jwks", true),
        ("http://127.0.0.1:8080/jwks", true),
        ("http://[::1]/jwks", true),
        ("http://localhost/jwks", true),
        ("http://issuer.example/jwks", false),
        ("http://localhost.example/jwks", false),
        ("http://10.0.0.1/jwks", false),
    ] {
        let taken = read(&[], &[JWT, ("FERMATA_JWKS_URL", url)], "");
        assert_eq!(taken.is_ok(), is_safe, "{url}");
    }
}

#[test]
fn what_is_set_to_tell_owners_apart_never_goes_unused() {
    for variable in [
        ISSUER,
        ("FERMATA_JWT_SECRET", SECRET),
        ("FERMATA_JWT_ISSUER", "https://issuer.example"),
        ("FERMATA_JWT_AUDIENCE", "a"),
    ] {
        assert!(error(&[variable], "").contains("set auth to jwt"), "{variable:?}");
        let token = [variable, ("FERMATA_AUTH", "token"), ("FERMATA_TOKENS", "a:sixteen-letters!")];
        assert!(error(&token, "").contains("set auth to jwt"), "{variable:?}");
    }
}

#[test]
fn a_header_tells_owners_apart_where_there_are_proxies_to_believe() {
    for variables in [&[HEADER, PROXIES][..], &[HEADER, PROXIES, ("FERMATA_AUTH", "header")]] {
        let (config, report) = read(&["--bind", "0.0.0.0:1"], variables, "").expect("a header");
        assert_eq!(
            (config.access.auth, config.owner_limits.runs_per_owner),
            (AuthKind::Header, NonZeroUsize::new(64))
        );
        assert!(
            report.contains("auth = \"header\"") && report.contains("user_header = \"x-forwarded-user\"")
        );
    }
    for (variables, reason) in [
        (&[HEADER][..], "FERMATA_TRUSTED_PROXIES"),
        (&[("FERMATA_AUTH", "header"), PROXIES], "FERMATA_USER_HEADER"),
        (&[HEADER, ("FERMATA_TRUSTED_PROXIES", "0.0.0.0/0")], "everybody"),
        (
            &[HEADER, PROXIES, ("FERMATA_AUTH", "token"), ("FERMATA_TOKENS", "a:sixteen-letters!")],
            "auth is token",
        ),
        (&[PROXIES, ("FERMATA_USER_HEADER", "authorization")], "has another meaning"),
        (&[PROXIES, ("FERMATA_USER_HEADER", "x y")], "not the name of a header"),
    ] {
        let words = error(variables, "");
        assert!(words.contains(reason), "{words}");
    }
}
