//! The key that signs checkpoints of the audit (Ed25519).

use std::{fmt, sync::Arc};

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

/// The bytes before the key in the DER form of a public key of Ed25519 (RFC 8410).
const PUBLIC_DER: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const KEY_BYTES: usize = 32;

/// A private key. It is shown by its public key.
#[derive(Clone)]
pub struct AuditKey {
    pair: Arc<Ed25519KeyPair>,
    public: PublicKey,
}

/// A public key, in base64.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PublicKey(String);

/// The reason why a text is no key. It does not show the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is no private key.
    #[error(
        "it is no private key for Ed25519: neither PKCS#8 in PEM nor 32 bytes in base64; make one with: openssl genpkey -algorithm ed25519"
    )]
    Private,
    /// The text is no public key.
    #[error(
        "it is no public key for Ed25519: neither PEM nor 32 bytes in base64; print it with: openssl pkey -in KEY -pubout"
    )]
    Public,
}

/// Returns the bytes of a text in base64, or of the block with this label in PEM.
fn decode(text: &str, label: &str) -> Option<Vec<u8>> {
    let (begin, end) = (format!("-----BEGIN {label}-----"), format!("-----END {label}-----"));
    let body = match text.split_once(&begin) {
        Some((_, rest)) => rest.split_once(&end)?.0,
        None => text,
    };
    STANDARD.decode(body.split_whitespace().collect::<String>()).ok()
}

// === impl AuditKey ===

impl AuditKey {
    /// Reads a key: PKCS#8 in PEM, as `openssl genpkey` writes it, or the 32 bytes of the seed in base64.
    ///
    /// # Errors
    /// If the text is neither.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let bytes = decode(text, "PRIVATE KEY").ok_or(KeyError::Private)?;
        let pair = if bytes.len() == KEY_BYTES {
            Ed25519KeyPair::from_seed_unchecked(&bytes)
        } else {
            Ed25519KeyPair::from_pkcs8_maybe_unchecked(&bytes)
        };
        let pair = pair.map_err(|_| KeyError::Private)?;
        let public = PublicKey(STANDARD.encode(pair.public_key()));
        Ok(Self { pair: Arc::new(pair), public })
    }

    /// Returns the public key.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(super) fn sign(&self, text: &[u8]) -> String {
        STANDARD.encode(self.pair.sign(text))
    }
}

impl PartialEq for AuditKey {
    fn eq(&self, other: &Self) -> bool {
        self.public == other.public
    }
}

impl Eq for AuditKey {}

impl fmt::Debug for AuditKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AuditKey").field(&self.public).finish()
    }
}

// === impl PublicKey ===

impl PublicKey {
    /// Reads a key: PEM, as `openssl pkey -pubout` writes it, or the 32 bytes in base64.
    ///
    /// # Errors
    /// If the text is neither.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let bytes = decode(text, "PUBLIC KEY").ok_or(KeyError::Public)?;
        let key = bytes.strip_prefix(&PUBLIC_DER).unwrap_or(&bytes);
        if key.len() == KEY_BYTES { Ok(Self(STANDARD.encode(key))) } else { Err(KeyError::Public) }
    }

    /// Returns the key that a statement names. Whether it is one shows when a signature is verified.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    pub(super) fn verifies(&self, text: &[u8], signature: &str) -> bool {
        let (Ok(key), Ok(signature)) = (STANDARD.decode(&self.0), STANDARD.decode(signature)) else {
            return false;
        };
        UnparsedPublicKey::new(&ED25519, key).verify(text, &signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout`.
    const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEICmETdbN2g/WPvGK20MgbOlQzfEFHQAmkK4Ki8TANUP/\n\
        -----END PRIVATE KEY-----\n";
    const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\n\
        MCowBQYDK2VwAyEAJBcNPa+o5m+1yAk8zqRRrhar9xXjYuE62vJsohdPGz0=\n\
        -----END PUBLIC KEY-----\n";

    #[test]
    fn both_forms_of_a_key_are_the_same_key() {
        let key = AuditKey::parse(PRIVATE).unwrap();
        let seed = "KYRN1s3aD9Y+8YrbQyBs6VDN8QUdACaQrgqLxMA1Q/8=";
        assert_eq!(AuditKey::parse(&format!(" {seed}\n")).unwrap(), key);
        assert_eq!(&PublicKey::parse(PUBLIC).unwrap(), key.public());
        assert_eq!(&PublicKey::parse(&key.public().to_string()).unwrap(), key.public());
        let signature = key.sign(b"text");
        assert!(key.public().verifies(b"text", &signature));
        assert!(!key.public().verifies(b"texts", &signature) && !key.public().verifies(b"text", "AAAA"));
        assert!(!format!("{key:?}").contains("KYRN"), "{key:?}");
    }

    #[test]
    fn other_texts_are_no_keys() {
        for wrong in ["", "secret", "AAAA", PUBLIC, "-----BEGIN PRIVATE KEY-----\nMC4C"] {
            assert_eq!(AuditKey::parse(wrong), Err(KeyError::Private), "{wrong}");
        }
        for wrong in ["", "AAAA", PRIVATE] {
            assert_eq!(PublicKey::parse(wrong), Err(KeyError::Public), "{wrong}");
        }
    }
}
