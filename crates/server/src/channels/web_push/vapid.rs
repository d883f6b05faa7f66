//! The identification of this deployment to push services (VAPID, RFC 8292).

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use fermata_engine::store::StoreError;
use fermata_store::ChannelRecords;
use jiff::Timestamp;
use serde_json::json;
use url::Url;

use super::SendError;

/// The key pair of this deployment.
pub struct PushKey(EcdsaKeyPair);

/// The reason why there is no key pair.
#[derive(Debug, thiserror::Error)]
pub enum PushKeyError {
    /// The database fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No key can be made, or the one in the database (`push_keys`) cannot be read.
    #[error("the key for push services cannot be made or read")]
    Key,
}

/// The time that a signature is valid, in seconds. Push services allow a day.
const VALID: i64 = 12 * 60 * 60;

// === impl PushKey ===

impl PushKey {
    /// Returns the pair that the database has. The first instance that asks makes it.
    pub async fn kept(records: &ChannelRecords) -> Result<Self, PushKeyError> {
        let new = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let new = BASE64_STANDARD.encode(new.map_err(|_| PushKeyError::Key)?);
        let kept = BASE64_STANDARD.decode(records.push_key(&new).await?).map_err(|_| PushKeyError::Key)?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &kept);
        Ok(Self(pair.map_err(|_| PushKeyError::Key)?))
    }

    /// Returns the public key as browsers take it.
    pub fn public(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.0.public_key())
    }

    /// Returns the header `authorization` for a push service. `contact` is a URL where its operators find those of this server.
    pub fn authorization(
        &self,
        endpoint: &Url,
        contact: Option<&str>,
        now: Timestamp,
    ) -> Result<String, PushKeyError> {
        let header = json!({"typ": "JWT", "alg": "ES256"});
        let claims = json!({
            "aud": endpoint.origin().ascii_serialization(),
            "exp": now.as_second() + VALID,
            "sub": contact.unwrap_or("https://localhost"),
        });
        let encode = |part: &serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&claims));
        let signature =
            self.0.sign(&SystemRandom::new(), signed.as_bytes()).map_err(|_| PushKeyError::Key)?;
        let token = format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature));
        Ok(format!("vapid t={token}, k={}", self.public()))
    }
}

impl From<PushKeyError> for SendError {
    fn from(error: PushKeyError) -> Self {
        Self::Failed(error.to_string())
    }
}
