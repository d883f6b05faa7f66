//! The encryption of push messages (RFC 8291, with the content coding of RFC 8188). Only the browser can read them.

use aws_lc_rs::{
    aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree},
    error::Unspecified,
    hkdf::{HKDF_SHA256, KeyType, Salt},
    rand,
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::Value;

/// The keys of a browser that takes messages.
pub struct Subscription {
    /// The public key, as an uncompressed point.
    public_key: Vec<u8>,
    /// The secret that the browser shares with this server.
    auth: Vec<u8>,
}

/// A length of key material.
struct Length(usize);

/// The lengths of a public key, of a browser's secret, of a salt, a key and a nonce, in bytes.
const PUBLIC_KEY: usize = 65;
const AUTH: usize = 16;
const SALT: usize = 16;
const KEY: usize = 16;
const NONCE: usize = 12;
/// The size of the only record, which every push service takes.
const RECORD: u32 = 4096;
/// Ends the last record.
const LAST: u8 = 2;

// === impl Subscription ===

impl Subscription {
    /// Reads the keys of a subscription as the browser makes it; `None` if it has none that can be used.
    pub fn read(subscription: &Value) -> Option<Self> {
        let key = |name: &str| {
            let text = subscription["keys"][name].as_str()?.trim_end_matches('=');
            BASE64_URL_SAFE_NO_PAD.decode(text).ok()
        };
        let (public_key, auth) = (key("p256dh")?, key("auth")?);
        if public_key.len() == PUBLIC_KEY && auth.len() == AUTH {
            Some(Self { public_key, auth })
        } else {
            None
        }
    }

    /// Encrypts a message with a new key.
    pub fn encrypt(&self, plain: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let mut salt = [0; SALT];
        rand::fill(&mut salt)?;
        self.encrypt_with(&PrivateKey::generate(&ECDH_P256)?, salt, plain)
    }

    fn encrypt_with(&self, own: &PrivateKey, salt: [u8; SALT], plain: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let own_public = own.compute_public_key()?;
        let theirs = UnparsedPublicKey::new(&ECDH_P256, &self.public_key);
        let info = [b"WebPush: info\0", self.public_key.as_slice(), own_public.as_ref()].concat();
        let mut input = [0; 32];
        agree(own, theirs, Unspecified, |shared| {
            let extracted = Salt::new(HKDF_SHA256, &self.auth).extract(shared);
            extracted.expand(&[&info], Length(32))?.fill(&mut input)
        })?;
        let extracted = Salt::new(HKDF_SHA256, &salt).extract(&input);
        let (mut key, mut nonce) = ([0; KEY], [0; NONCE]);
        extracted.expand(&[b"Content-Encoding: aes128gcm\0"], Length(KEY))?.fill(&mut key)?;
        extracted.expand(&[b"Content-Encoding: nonce\0"], Length(NONCE))?.fill(&mut nonce)?;
        let mut record = [plain, &[LAST]].concat();
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key)?);
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut record)?;
        let length = u8::try_from(own_public.as_ref().len()).map_err(|_| Unspecified)?;
        Ok([&salt[..], &RECORD.to_be_bytes(), &[length], own_public.as_ref(), &record].concat())
    }
}

// === impl Length ===

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The example of RFC 8291, section 5.
    #[test]
    fn a_message_is_encrypted_as_the_standard_says() {
        let subscription = Subscription::read(&json!({"keys": {
            "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            "auth": "BTBZMqHH6r4Tts7J_aSIgg",
        }}));
        let own =
            BASE64_URL_SAFE_NO_PAD.decode("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw").expect("base64");
        let own = PrivateKey::from_private_key(&ECDH_P256, &own).expect("a key");
        let salt = BASE64_URL_SAFE_NO_PAD.decode("DGv6ra1nlYgDCS1FRnbzlw").expect("base64");
        let encrypted = subscription.expect("keys").encrypt_with(
            &own,
            salt.try_into().expect("16 bytes"),
            b"When I grow up, I want to be a watermelon",
        );
        assert_eq!(
            BASE64_URL_SAFE_NO_PAD.encode(encrypted.expect("a message")),
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
        );
    }

    #[test]
    fn a_subscription_without_whole_keys_is_none() {
        let key = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
        for keys in [json!({}), json!({"p256dh": key}), json!({"p256dh": key, "auth": "short"}), json!(1)] {
            assert!(Subscription::read(&json!({"keys": keys})).is_none(), "{keys}");
        }
    }
}
