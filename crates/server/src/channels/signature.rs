//! The signatures of Standard Webhooks: HMAC-SHA256 over the id, the time and the body of a request.
//!
//! The specification is at <https://www.standardwebhooks.com>.

use aws_lc_rs::hmac;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header::InvalidHeaderValue};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use secrecy::ExposeSecret;

use crate::config::SigningSecret;

/// The largest difference between the time in a request and the clock of this machine, in seconds.
pub const TOLERANCE: i64 = 5 * 60;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
/// The prefix of a signature of this kind.
const VERSION: &str = "v1,";

/// The reason why a request is not accepted as the service's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsigned {
    /// A header is missing or cannot be read.
    #[error("the headers webhook-id, webhook-timestamp and webhook-signature are needed")]
    NoHeaders,
    /// The request is too old, or a clock is wrong.
    #[error("webhook-timestamp is more than five minutes away from the time here")]
    BadTime,
    /// No signature fits.
    #[error("no signature fits the secret of the channel")]
    BadSignature,
}

/// Returns the headers of a request with this id, signed with each of the secrets.
///
/// # Errors
/// Returns an error if the id cannot be in a header.
pub fn sign(
    secrets: &[SigningSecret],
    id: &str,
    at: Timestamp,
    body: &[u8],
) -> Result<HeaderMap, InvalidHeaderValue> {
    let seconds = at.as_second().to_string();
    let signed = message(id, &seconds, body);
    let signatures = secrets.iter().map(|secret| {
        let signature = hmac::sign(&key(secret), &signed);
        format!("{VERSION}{}", BASE64_STANDARD.encode(signature))
    });
    let signatures = signatures.collect::<Vec<_>>().join(" ");
    Ok(HeaderMap::from_iter([
        (ID, HeaderValue::from_str(id)?),
        (TIMESTAMP, HeaderValue::from_str(&seconds)?),
        (SIGNATURE, HeaderValue::from_str(&signatures)?),
    ]))
}

/// Checks that one of the signatures of a request fits one of the secrets. The comparison takes the same time for all wrong signatures.
///
/// # Errors
/// Returns an error if none does, or if the request is more than [`TOLERANCE`] old.
pub fn verify(
    secrets: &[SigningSecret],
    headers: &HeaderMap,
    now: Timestamp,
    body: &[u8],
) -> Result<(), Unsigned> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let (Some(id), Some(time), Some(signatures)) = (text(ID), text(TIMESTAMP), text(SIGNATURE)) else {
        return Err(Unsigned::NoHeaders);
    };
    let seconds: i64 = time.parse().map_err(|_| Unsigned::NoHeaders)?;
    if seconds.abs_diff(now.as_second()) > TOLERANCE.unsigned_abs() {
        return Err(Unsigned::BadTime);
    }
    let signed = message(id, time, body);
    let given = signatures.split(' ').filter_map(|text| text.strip_prefix(VERSION));
    let fits = given.filter_map(|text| BASE64_STANDARD.decode(text).ok()).any(|signature| {
        secrets.iter().any(|secret| hmac::verify(&key(secret), &signed, &signature).is_ok())
    });
    if fits { Ok(()) } else { Err(Unsigned::BadSignature) }
}

fn key(SigningSecret(secret): &SigningSecret) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret())
}

fn message(id: &str, time: &str, body: &[u8]) -> Vec<u8> {
    let mut message = format!("{id}.{time}.").into_bytes();
    message.extend_from_slice(body);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> SigningSecret {
        SigningSecret::try_from(text.to_owned()).expect("a secret")
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    /// The example of the specification's own libraries.
    #[test]
    fn a_signature_is_that_of_the_standard() {
        let secret = secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let body = br#"{"test": 2432232314}"#;
        let headers = sign(&[secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", at(1_614_265_330), body);
        let headers = headers.expect("a plain id");
        assert_eq!(headers["webhook-signature"], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(headers["webhook-timestamp"], "1614265330");
    }

    #[test]
    fn a_request_is_accepted_only_as_it_was_signed_and_when() {
        let (new, old) = (
            secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
            secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx"),
        );
        let headers = sign(&[new.clone(), old.clone()], "id", at(1000), b"body").expect("a plain id");
        let check = |secrets: &[&SigningSecret], second, body: &[u8]| {
            let secrets: Vec<SigningSecret> = secrets.iter().copied().cloned().collect();
            verify(&secrets, &headers, at(second), body)
        };
        for secrets in [&[&new][..], &[&old], &[&new, &old]] {
            assert_eq!(check(secrets, 1300, b"body"), Ok(()));
            assert_eq!(check(secrets, 700, b"body"), Ok(()));
            assert_eq!(check(secrets, 1301, b"body"), Err(Unsigned::BadTime));
            assert_eq!(check(secrets, 699, b"body"), Err(Unsigned::BadTime));
            assert_eq!(check(secrets, 1000, b"Body"), Err(Unsigned::BadSignature));
        }
        let other = secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSy");
        assert_eq!(check(&[&other], 1000, b"body"), Err(Unsigned::BadSignature));
        for (name, reason) in [
            ("webhook-id", Unsigned::NoHeaders),
            ("webhook-timestamp", Unsigned::NoHeaders),
            ("webhook-signature", Unsigned::NoHeaders),
        ] {
            let mut headers = headers.clone();
            headers.remove(name);
            assert_eq!(verify(std::slice::from_ref(&new), &headers, at(1000), b"body"), Err(reason));
        }
    }
}
