//! The clock and the ids of a running server.

use fermata_engine::{Clock, Ids};
use jiff::Timestamp;
use uuid::Uuid;

/// The clock of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Random ids of 122 bits, which cannot be guessed.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

impl Ids for RandomIds {
    fn next(&self, prefix: &str) -> String {
        let mut left = Uuid::new_v4().as_u128();
        let mut id = String::from(prefix);
        // 22 digits of base 62 hold 128 bits.
        for _ in 0..22 {
            id.push(char::from(DIGITS[(left % 62) as usize]));
            left /= 62;
        }
        id
    }

    fn next_idempotency_key(&self) -> String {
        Uuid::new_v4().to_string()
    }

    fn next_number(&self) -> u64 {
        // The lower 62 bits of a UUID of version 4 are random.
        (Uuid::new_v4().as_u64_pair().1 & ((1 << 62) - 1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idempotency_keys_are_random_uuids() {
        let keys = [RandomIds.next_idempotency_key(), RandomIds.next_idempotency_key()];
        assert_ne!(keys[0], keys[1]);
        assert!(keys.iter().all(|key| Uuid::parse_str(key).unwrap().get_version_num() == 4), "{keys:?}");
    }

    #[test]
    fn ids_are_short_plain_and_unique() {
        let ids: std::collections::BTreeSet<String> = (0..1000).map(|_| RandomIds.next("call_")).collect();
        assert_eq!(ids.len(), 1000);
        for id in ids {
            assert!(id.starts_with("call_") && id.len() <= 40, "{id}");
            assert!(id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'), "{id}");
        }
    }
}
