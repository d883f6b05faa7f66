//! Owners identified by JSON Web Tokens that an issuer has signed.
//!
//! The algorithms that a key may verify follow from the key, never from the token. So neither the algorithm `none` nor the use of a public
//! key as a secret can succeed. Error texts say what is wrong with a token and never contain the token.

use std::sync::{Arc, PoisonError, RwLock};

use axum::http::HeaderMap;
use fermata_tools::Principal;
use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, decode, decode_header,
    errors::{Error, ErrorKind},
};
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    Refusal, Suspicion, bearer,
    key_set::{KeySet, NoKeys},
};
use crate::{config::AccessSettings, owner::read_owner};

/// The tolerance for differences between the clocks of the issuer and of this machine, in seconds.
const LEEWAY: u64 = 30;
/// The limit on a token, in bytes.
const LONGEST: usize = 16_384;

/// The keys and conditions for tokens.
pub struct Jwt {
    keys: Keys,
    /// The claims that a token must have. The algorithms are set for each key.
    validation: Validation,
    /// The name of the claim with the groups, or the path to it.
    groups_claim: String,
}

enum Keys {
    /// The secrets of the settings that were read last.
    Secrets(RwLock<Arc<[DecodingKey]>>),
    Published(KeySet),
}

#[derive(Deserialize)]
struct Claims {
    sub: Option<Value>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// The reason why a token is refused.
enum Fault {
    /// The token has no valid signature, so anyone could have made it.
    NotSigned(&'static str),
    /// The issuer signed the token, but it is expired or meant for another server.
    NotValid(String),
}

// === impl Jwt ===

impl Jwt {
    /// Builds the keys and conditions from the settings; `None` if they name neither keys nor a secret.
    pub fn build(access: &AccessSettings) -> Option<Self> {
        let keys = match (&access.jwks_url, &access.jwt_secret) {
            (Some(url), _) => Keys::Published(KeySet::at(url.0.clone())),
            (None, Some(_)) => Keys::Secrets(RwLock::new(secrets(access))),
            (None, None) => return None,
        };
        let mut validation = Validation::new(Algorithm::HS256);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        let mut required = vec!["exp", "sub"];
        if let Some(issuer) = &access.jwt_issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        validation.validate_aud = !access.jwt_audience.is_empty();
        if validation.validate_aud {
            validation.set_audience(&access.jwt_audience);
            required.push("aud");
        }
        validation.set_required_spec_claims(&required);
        if matches!(keys, Keys::Published(_)) && !validation.validate_aud {
            tracing::warn!(
                "jwt_audience is not set, so tokens that the issuer signed for other applications are also accepted; set \
                 FERMATA_JWT_AUDIENCE"
            );
        }
        let groups_claim = access.jwt_groups_claim.clone().unwrap_or_else(|| "groups".to_owned());
        Some(Self { keys, validation, groups_claim })
    }

    /// Fetches the published keys. A failure is in the log right after the start.
    pub async fn prepare(&self) {
        if let Keys::Published(keys) = &self.keys {
            // The failure has been logged.
            let _ = keys.known().await;
        }
    }

    /// Replaces the secrets, if the settings have any.
    pub fn set_secrets(&self, access: &AccessSettings) {
        if let Keys::Secrets(known) = &self.keys {
            *known.write().unwrap_or_else(PoisonError::into_inner) = secrets(access);
        }
    }

    /// Fetches the published keys again, so that those that were withdrawn are not accepted any more.
    pub async fn refetch(&self) {
        if let Keys::Published(keys) = &self.keys {
            keys.refetch().await;
        }
    }

    /// Returns the owner and the groups that the token of a request names.
    pub async fn principal(&self, headers: &HeaderMap) -> Result<Principal, Refusal> {
        let token = bearer(headers)?;
        match self.claims(token).await? {
            Ok(Claims { sub: Some(Value::String(name)), others }) => {
                let user = read_owner(&name).map_err(|fault| invalid(&format!("its sub {fault}")))?;
                Ok(Principal { groups: groups(&others, &self.groups_claim), ..user.into() })
            }
            Ok(Claims { .. }) => Err(invalid("its sub is not a text")),
            Err(Fault::NotSigned(reason)) => {
                Err(Refusal::unproven(Suspicion::Guess, sentence(reason)).with_challenge(challenge(reason)))
            }
            Err(Fault::NotValid(reason)) => Err(invalid(&reason)),
        }
    }

    /// Returns the claims of a token that is signed with the secret or with a published key. Newer keys are fetched if no known key has
    /// signed it, unless a known key has the id that the token names.
    async fn claims(&self, token: &str) -> Result<Result<Claims, Fault>, Refusal> {
        if token.len() > LONGEST {
            return Ok(Err(Fault::NotSigned("it is longer than 16 kB")));
        }
        let header = match decode_header(token) {
            Ok(header) => header,
            Err(error) => return Ok(Err(fault(&error))),
        };
        if header.crit.as_ref().is_some_and(|names| !names.is_empty()) {
            return Ok(Err(Fault::NotSigned("it needs extensions (crit) that this server does not support")));
        }
        let keys = match &self.keys {
            Keys::Secrets(secrets) => {
                let algorithms = [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512];
                let secrets = secrets.read().unwrap_or_else(PoisonError::into_inner).clone();
                let outcome = self.verify_by_any(token, secrets.iter().map(|key| (key, &algorithms[..])));
                return Ok(outcome.unwrap_or(Err(Fault::NotSigned("this server has no secret for tokens"))));
            }
            Keys::Published(keys) => keys,
        };
        let mut outcome = Err(Fault::NotSigned("no key that its issuer publishes has signed it"));
        let known = keys.known().await.map_err(|NoKeys| {
            Refusal::Unavailable(
                "The keys for checking tokens cannot be fetched (jwks_url); try again in a moment.".into(),
            )
        })?;
        for is_newest in [false, true] {
            let candidates = if is_newest { keys.newer_than(&known).await } else { known.clone() };
            let signers = candidates.iter().filter(|key| key.may_have_signed(&header));
            if let Some(found) = self.verify_by_any(token, signers.map(|key| (&key.key, &key.algorithms[..])))
            {
                outcome = found;
            }
            if !matches!(outcome, Err(Fault::NotSigned(_))) {
                break;
            }
            // Newer keys do not help if the key that the token names is known and has not signed it.
            if header.kid.is_some() && candidates.iter().any(|key| key.id == header.kid) {
                break;
            }
        }
        Ok(outcome)
    }

    /// Verifies a token with one key after the other. Returns the outcome of the key that has signed it, or else of the last one; `None` if
    /// there is no key.
    fn verify_by_any<'k>(
        &self,
        token: &str,
        keys: impl Iterator<Item = (&'k DecodingKey, &'k [Algorithm])>,
    ) -> Option<Result<Claims, Fault>> {
        let mut last = None;
        for (key, algorithms) in keys {
            let outcome = self.verify(token, key, algorithms);
            if !matches!(outcome, Err(Fault::NotSigned(_))) {
                return Some(outcome);
            }
            last = Some(outcome);
        }
        last
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

fn secrets(access: &AccessSettings) -> Arc<[DecodingKey]> {
    let secrets = access.jwt_secret.iter().chain(&access.other_jwt_secret);
    secrets.map(|secret| DecodingKey::from_secret(secret.0.expose_secret().as_bytes())).collect()
}

/// Returns the groups of a claim, which has a list of texts or one text. A claim whose name is the whole path overrides one within claims.
fn groups(claims: &Map<String, Value>, path: &str) -> Vec<String> {
    let claim = claims.get(path).or_else(|| {
        let (first, rest) = path.split_once('.')?;
        rest.split('.').try_fold(claims.get(first)?, |claim, name| claim.get(name))
    });
    match claim {
        Some(Value::String(group)) => vec![group.clone()],
        Some(Value::Array(groups)) => groups.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Describes an error of the library. Its own text may quote the token.
fn fault(error: &Error) -> Fault {
    match error.kind() {
        ErrorKind::ExpiredSignature => Fault::NotValid("it has expired (exp)".into()),
        ErrorKind::ImmatureSignature => Fault::NotValid("it is not valid yet (nbf)".into()),
        ErrorKind::InvalidIssuer => Fault::NotValid("it has another issuer (iss)".into()),
        ErrorKind::InvalidAudience => Fault::NotValid("it was made for another audience (aud)".into()),
        ErrorKind::MissingRequiredClaim(claim) | ErrorKind::InvalidClaimFormat(claim) => {
            Fault::NotValid(format!("its claim {claim} is missing or cannot be read"))
        }
        ErrorKind::InvalidSignature => Fault::NotSigned("its signature is wrong"),
        ErrorKind::InvalidAlgorithm | ErrorKind::UnsupportedAlgorithm => {
            Fault::NotSigned("it is signed with an algorithm that does not match the key")
        }
        _ => Fault::NotSigned("it is not a JSON Web Token that this server can read"),
    }
}

/// Refuses a token that its issuer has signed, which therefore is not a guess.
fn invalid(reason: &str) -> Refusal {
    Refusal::unproven(Suspicion::InvalidClaim, sentence(reason)).with_challenge(challenge(reason))
}

fn sentence(reason: &str) -> String {
    format!("The token is refused: {reason}. Send a valid one, as `Authorization: Bearer …`.")
}

fn challenge(reason: &str) -> String {
    format!("Bearer error=\"invalid_token\", error_description=\"{reason}\"")
}
