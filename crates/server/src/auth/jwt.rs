//! Owners by JSON Web Tokens: whoever has one that its issuer has signed, for this server and for now, is whom it names.
//!
//! Which algorithms a key may verify follows from the key, never from the token. So neither `none` nor a public key that is taken for a
//! secret can ever do. What is wrong with a token is said; the token itself is not repeated.

use axum::http::HeaderMap;
use fermata_tools::Owner;
use jsonwebtoken::{
    Algorithm, DecodingKey, Header, Validation, decode, decode_header,
    errors::{Error, ErrorKind},
};
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::Value;

use super::{
    Refusal, bearer,
    key_set::{KeySet, NoKeys},
    read_owner,
};
use crate::config::Config;

/// How far the clocks of the issuer and of this machine may be apart, in seconds.
const LEEWAY: u64 = 30;
/// The longest token that is looked at.
const LONGEST: usize = 16_384;

/// Whose tokens are taken.
pub struct Jwt {
    keys: Keys,
    /// What a token must say; which algorithms it may have follows from the key.
    validation: Validation,
}

enum Keys {
    Secret(DecodingKey),
    Published(KeySet),
}

#[derive(Deserialize)]
struct Claims {
    sub: Option<Value>,
}

/// Why a token does not verify with a key.
enum Fault {
    /// Its signature is not by this key, or it cannot be read: anybody could have made it.
    NotSigned(&'static str),
    /// Its issuer has signed it, and it is not for here and now.
    NotValid(String),
}

// === impl Jwt ===

impl Jwt {
    /// As the settings say; `None` where they name neither keys nor a secret.
    pub fn build(config: &Config) -> Option<Self> {
        let keys = match (&config.jwks_url, &config.jwt_secret) {
            (Some(url), _) => Keys::Published(KeySet::at(url.0.clone())),
            (None, Some(secret)) => {
                Keys::Secret(DecodingKey::from_secret(secret.0.expose_secret().as_bytes()))
            }
            (None, None) => return None,
        };
        let mut validation = Validation::new(Algorithm::HS256);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        let mut required = vec!["exp", "sub"];
        if let Some(issuer) = &config.jwt_issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        validation.validate_aud = !config.jwt_audience.is_empty();
        if validation.validate_aud {
            validation.set_audience(&config.jwt_audience);
            required.push("aud");
        }
        validation.set_required_spec_claims(&required);
        if matches!(keys, Keys::Published(_)) && !validation.validate_aud {
            tracing::warn!(
                "jwt_audience is not set: every token that the keys of jwks_url have signed is taken, also one that was made for \
                 another application; set FERMATA_JWT_AUDIENCE"
            );
        }
        Some(Self { keys, validation })
    }

    /// Fetches the keys, so that the log tells at the start if that does not go.
    pub async fn prepare(&self) {
        if let Keys::Published(keys) = &self.keys {
            keys.prepare().await;
        }
    }

    /// Whom the token of a request names.
    pub async fn owner(&self, headers: &HeaderMap) -> Result<Owner, Refusal> {
        let token = bearer(headers)?;
        match self.claims(token).await? {
            Ok(Claims { sub: Some(Value::String(name)) }) => {
                read_owner(&name).map_err(|fault| invalid(&format!("its sub {fault}")))
            }
            Ok(Claims { .. }) => Err(invalid("its sub is not a text")),
            Err(Fault::NotSigned(reason)) => {
                Err(Refusal::guess(sentence(reason)).with_challenge(challenge(reason)))
            }
            Err(Fault::NotValid(reason)) => Err(invalid(&reason)),
        }
    }

    async fn claims(&self, token: &str) -> Result<Result<Claims, Fault>, Refusal> {
        if token.len() > LONGEST {
            return Ok(Err(Fault::NotSigned("it is longer than 16 kB")));
        }
        let header = match decode_header(token) {
            Ok(header) => header,
            Err(error) => return Ok(Err(fault(&error))),
        };
        if header.crit.as_ref().is_some_and(|names| !names.is_empty()) {
            return Ok(Err(Fault::NotSigned("it asks for extensions (crit) that this server does not have")));
        }
        match &self.keys {
            Keys::Secret(key) => {
                let algorithms = [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512];
                Ok(self.verify(token, key, &algorithms))
            }
            Keys::Published(keys) => self.verify_published(token, &header, keys).await,
        }
    }

    /// Tries the keys that are known, and looks for newer ones if the token names none of them.
    async fn verify_published(
        &self,
        token: &str,
        header: &Header,
        keys: &KeySet,
    ) -> Result<Result<Claims, Fault>, Refusal> {
        let unknown = |NoKeys| {
            Refusal::Unavailable(
                "The keys by which tokens are checked cannot be fetched (jwks_url); try again in a moment."
                    .into(),
            )
        };
        let mut outcome = Err(Fault::NotSigned("no key that its issuer publishes has signed it"));
        let known = keys.known().await.map_err(unknown)?;
        for is_newest in [false, true] {
            let candidates = if is_newest { keys.newer_than(&known).await } else { known.clone() };
            for key in candidates.iter().filter(|key| key.may_have_signed(header)) {
                outcome = self.verify(token, &key.key, &key.algorithms);
                match outcome {
                    Err(Fault::NotSigned(_)) => {}
                    Ok(_) | Err(Fault::NotValid(_)) => return Ok(outcome),
                }
            }
            // A key that is named by its id and has not signed the token is not to be replaced by looking again.
            if header.kid.is_some() && candidates.iter().any(|key| key.id == header.kid) {
                break;
            }
        }
        Ok(outcome)
    }

    fn verify(&self, token: &str, key: &DecodingKey, algorithms: &[Algorithm]) -> Result<Claims, Fault> {
        let validation = Validation { algorithms: algorithms.to_vec(), ..self.validation.clone() };
        decode::<Claims>(token, key, &validation).map(|token| token.claims).map_err(|error| fault(&error))
    }
}

impl std::fmt::Debug for Jwt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Jwt")
    }
}

/// What the library found, in words. Its own may quote the token.
fn fault(error: &Error) -> Fault {
    match error.kind() {
        ErrorKind::ExpiredSignature => Fault::NotValid("it has expired (exp)".into()),
        ErrorKind::ImmatureSignature => Fault::NotValid("it is not valid yet (nbf)".into()),
        ErrorKind::InvalidIssuer => Fault::NotValid("its issuer (iss) is another one".into()),
        ErrorKind::InvalidAudience => Fault::NotValid("it was made for somebody else (aud)".into()),
        ErrorKind::MissingRequiredClaim(claim) | ErrorKind::InvalidClaimFormat(claim) => {
            Fault::NotValid(format!("its claim {claim} is missing or cannot be read"))
        }
        ErrorKind::InvalidSignature => Fault::NotSigned("its signature is wrong"),
        ErrorKind::InvalidAlgorithm | ErrorKind::UnsupportedAlgorithm => {
            Fault::NotSigned("it is signed with an algorithm that is not for the key")
        }
        _ => Fault::NotSigned("it is not a JSON Web Token that this server can read"),
    }
}

/// A token that its issuer has signed is no guess, whatever else is wrong with it.
fn invalid(reason: &str) -> Refusal {
    Refusal::claim(sentence(reason)).with_challenge(challenge(reason))
}

fn sentence(reason: &str) -> String {
    format!("The token is refused: {reason}. Send a valid one, as `Authorization: Bearer …`.")
}

fn challenge(reason: &str) -> String {
    format!("Bearer error=\"invalid_token\", error_description=\"{reason}\"")
}
