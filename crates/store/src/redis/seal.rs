//! Seals on messages: what Redis, and whoever can write to it or read it, cannot do.
//!
//! A message is encrypted and authenticated (AES-256-GCM) with a key that is derived from the deployment's [`ClusterKey`] for the process that
//! sends it. That process numbers its messages, and the number is the nonce. The key of the mailbox is authenticated with the message, as are
//! number and time. So a message
//!
//! - that nobody with the cluster's key has sealed does not open, nor does one that was changed or put into another mailbox;
//! - opens once: its receiver remembers of each sender which numbers it has opened, for as long as it lives;
//! - does not open when it is older than [`OLDEST`], however it was held back. That is as lost as any message may be.
//!
//! A mailbox belongs to one start of a process and is never opened by another, so nothing has to be remembered beyond that.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    error::Unspecified,
    hkdf::{HKDF_SHA256, KeyType, Prk, Salt},
    rand,
};
use base64::{
    Engine,
    alphabet::{Alphabet, STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// The age beyond which a message is not taken any more, and how far clocks of two machines may be apart.
pub const OLDEST: Duration = Duration::from_secs(300);

/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// A key made by chance has about thirty different bytes. One that has fewer than this was made up.
const DIFFERENT_BYTES: usize = 16;
/// How far behind the newest message of its sender one may come.
const WINDOW: u64 = 4096;

const VERSION: u8 = 1;

/// A process that sends messages: drawn at its start.
type Session = [u8; 16];

/// What all instances of a deployment have, and nobody else.
#[derive(Clone)]
pub struct ClusterKey {
    secret: Prk,
    /// What tells keys apart and may be seen by everybody.
    name: String,
}

/// Why a text is no key. Does not quote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadClusterKey {
    /// Neither hexadecimal digits nor base64.
    #[error("it is neither hexadecimal digits nor base64; make one with: openssl rand -hex 32")]
    NotEncoded,
    /// Too few bytes.
    #[error("it has {0} bytes, and needs at least 32; make one with: openssl rand -hex 32")]
    TooShort(usize),
    /// Bytes that nobody has drawn.
    #[error("its bytes are not random; make one with: openssl rand -hex 32")]
    NotRandom,
}

/// Seals messages.
pub struct Seal {
    session: Session,
    key: LessSafeKey,
    sealed: AtomicU64,
}

/// Opens messages, each once.
pub struct Opener {
    cluster: ClusterKey,
    senders: HashMap<(String, Session), Sender>,
}

/// One that has sealed a message which opened.
struct Sender {
    key: Arc<LessSafeKey>,
    opened: Opened,
}

/// Which numbers have been opened: all up to a window behind the newest count as opened.
struct Opened {
    newest: u64,
    window: Box<[u64; (WINDOW / 64) as usize]>,
}

/// Why a message is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nobody with this key has sealed it for this mailbox, or it was changed.
    #[error("no instance with this cluster key has sealed it for this one")]
    Forged,
    /// It has been opened before, or may have been.
    #[error("it has been opened before, or comes too late behind others")]
    Replayed,
    /// It is older than [`OLDEST`], or comes from as far in the future.
    #[error("its time is more than five minutes from the time here; are the clocks of all instances right?")]
    Untimely,
}

/// What is read of a sealed message before it is opened.
struct Header {
    session: Session,
    number: u64,
    sent_at: u64,
}

// === impl ClusterKey ===

impl ClusterKey {
    /// Reads a key of at least 32 random bytes, written as hexadecimal digits or as base64.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, BadClusterKey> {
        let text = text.trim();
        let bytes = from_hex(text).or_else(|| from_base64(text)).ok_or(BadClusterKey::NotEncoded)?;
        if bytes.len() < KEY_BYTES {
            return Err(BadClusterKey::TooShort(bytes.len()));
        }
        let mut different = bytes.clone();
        different.sort_unstable();
        different.dedup();
        if different.len() < DIFFERENT_BYTES {
            return Err(BadClusterKey::NotRandom);
        }
        let secret = Salt::new(HKDF_SHA256, b"fermata cluster key").extract(&bytes);
        let mut name = [0; 8];
        // Only a length that HKDF cannot make is refused.
        fill(&secret, &[b"name"], &mut name).map_err(|_| BadClusterKey::NotRandom)?;
        Ok(Self { secret, name: name.iter().map(|byte| format!("{byte:02x}")).collect() })
    }

    /// Draws a new key, as [`ClusterKey::parse`] reads it.
    ///
    /// # Errors
    /// Where the system has no random numbers.
    pub fn draw() -> Result<String, Unspecified> {
        let mut bytes = [0; KEY_BYTES];
        rand::fill(&mut bytes)?;
        Ok(base64::prelude::BASE64_STANDARD.encode(bytes))
    }

    /// What tells keys apart and may be seen by everybody.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn of_session(&self, session: &Session) -> Result<LessSafeKey, Unspecified> {
        let mut key = [0; KEY_BYTES];
        fill(&self.secret, &[b"letters of", session], &mut key)?;
        Ok(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key)?))
    }
}

impl PartialEq for ClusterKey {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterKey({})", self.name)
    }
}

/// As many bytes as are asked of HKDF.
struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

fn fill(secret: &Prk, purpose: &[&[u8]], out: &mut [u8]) -> Result<(), Unspecified> {
    secret.expand(purpose, Bytes(out.len()))?.fill(out)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| Some(u8::try_from(digit.to_digit(16)?).unwrap_or_default())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let decode = |alphabet: &Alphabet| GeneralPurpose::new(alphabet, lenient).decode(text).ok();
    decode(&STANDARD).or_else(|| decode(&URL_SAFE))
}

// === impl Seal ===

impl Seal {
    /// For one process.
    ///
    /// # Errors
    /// Where the system has no random numbers.
    pub fn new(cluster: &ClusterKey) -> Result<Self, Unspecified> {
        let mut session = Session::default();
        rand::fill(&mut session)?;
        Ok(Self { key: cluster.of_session(&session)?, session, sealed: AtomicU64::new(0) })
    }

    /// Seals a message for a mailbox.
    ///
    /// # Errors
    /// Where the message is larger than the cipher takes, which is 64 GB.
    pub fn seal(&self, to: &str, mut message: Vec<u8>, now: SystemTime) -> Result<Vec<u8>, Unspecified> {
        let number = self.sealed.fetch_add(1, Ordering::Relaxed) + 1;
        let header = Header { session: self.session, number, sent_at: milliseconds(now) };
        self.key.seal_in_place_append_tag(header.nonce(), header.bound_to(to), &mut message)?;
        let mut sealed = header.to_bytes().to_vec();
        sealed.append(&mut message);
        Ok(sealed)
    }
}

// === impl Opener ===

impl Opener {
    /// For messages to this process.
    pub fn new(cluster: ClusterKey) -> Self {
        Self { cluster, senders: HashMap::new() }
    }

    /// Opens what was found in a mailbox.
    ///
    /// # Errors
    /// Why it is as good as lost.
    pub fn open(&mut self, at: &str, sealed: &[u8], now: SystemTime) -> Result<Vec<u8>, Refusal> {
        let (header, message) = Header::read(sealed).ok_or(Refusal::Forged)?;
        let sender = (at.to_owned(), header.session);
        let key = match self.senders.get(&sender) {
            Some(known) => known.key.clone(),
            None => Arc::new(self.cluster.of_session(&header.session).map_err(|_| Refusal::Forged)?),
        };
        let mut message = message.to_vec();
        let opened = key.open_in_place(header.nonce(), header.bound_to(at), &mut message);
        let length = opened.map_err(|_| Refusal::Forged)?.len();
        message.truncate(length);
        if u128::from(milliseconds(now).abs_diff(header.sent_at)) > OLDEST.as_millis() {
            return Err(Refusal::Untimely);
        }
        // A sender is remembered only once a message of its has opened, or strangers could fill the memory.
        let sender = self.senders.entry(sender).or_insert_with(|| Sender { key, opened: Opened::default() });
        if sender.opened.take(header.number) { Ok(message) } else { Err(Refusal::Replayed) }
    }
}

// === impl Opened ===

impl Default for Opened {
    fn default() -> Self {
        Self { newest: 0, window: Box::new([0; _]) }
    }
}

impl Opened {
    /// Notes a number; `false` where it has been noted before, or may have been.
    fn take(&mut self, number: u64) -> bool {
        if number.saturating_add(WINDOW) <= self.newest {
            return false;
        }
        if number > self.newest {
            let first = (self.newest + 1).max(number.saturating_sub(WINDOW - 1));
            for place in first..=number {
                let (word, bit) = Self::place(place);
                self.window[word] &= !bit;
            }
            self.newest = number;
        }
        let (word, bit) = Self::place(number);
        let is_new = self.window[word] & bit == 0;
        self.window[word] |= bit;
        is_new
    }

    fn place(number: u64) -> (usize, u64) {
        ((number % WINDOW / 64) as usize, 1 << (number % 64))
    }
}

// === impl Header ===

impl Header {
    fn read(sealed: &[u8]) -> Option<(Self, &[u8])> {
        let (&version, rest) = sealed.split_first()?;
        let (session, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (sent_at, message) = rest.split_first_chunk()?;
        let header = Self {
            session: *session,
            number: u64::from_be_bytes(*number),
            sent_at: u64::from_be_bytes(*sent_at),
        };
        (version == VERSION).then_some((header, message))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.session);
        bytes.extend_from_slice(&self.number.to_be_bytes());
        bytes.extend_from_slice(&self.sent_at.to_be_bytes());
        bytes
    }

    /// A session has a key of its own and seals no two messages with one number, so no nonce is used twice.
    fn nonce(&self) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[NONCE_LEN - 8..].copy_from_slice(&self.number.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    /// What is authenticated with the message.
    fn bound_to(&self, at: &str) -> Aad<Vec<u8>> {
        Aad::from([&self.to_bytes(), at.as_bytes()].concat())
    }
}

fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const MAILBOX: &str = "test:box:a";
    /// Version, session, number, time.
    const HEADER: usize = 1 + 16 + 8 + 8;

    fn key() -> ClusterKey {
        ClusterKey::parse(KEY).unwrap()
    }

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000)
    }

    fn sealed(seal: &Seal, text: &str) -> Vec<u8> {
        seal.seal(MAILBOX, text.into(), now()).unwrap()
    }

    #[test]
    fn a_message_opens_once_and_says_what_was_sealed() {
        let (seal, mut opener) = (Seal::new(&key()).unwrap(), Opener::new(key()));
        for text in ["one", "", "three"] {
            let message = sealed(&seal, text);
            assert!(text.is_empty() || !message.windows(text.len()).any(|part| part == text.as_bytes()));
            assert_eq!(opener.open(MAILBOX, &message, now()).unwrap(), text.as_bytes());
            assert_eq!(opener.open(MAILBOX, &message, now()), Err(Refusal::Replayed));
        }
    }

    #[test]
    fn a_message_for_one_mailbox_does_not_open_in_another() {
        let (seal, mut opener) = (Seal::new(&key()).unwrap(), Opener::new(key()));
        assert_eq!(opener.open("test:box:b", &sealed(&seal, "one"), now()), Err(Refusal::Forged));
    }

    #[test]
    fn a_message_of_another_key_does_not_open() {
        let other = ClusterKey::parse(&ClusterKey::draw().unwrap()).unwrap();
        let (seal, mut opener) = (Seal::new(&other).unwrap(), Opener::new(key()));
        assert_eq!(opener.open(MAILBOX, &sealed(&seal, "one"), now()), Err(Refusal::Forged));
        assert!(opener.senders.is_empty(), "strangers are not remembered");
    }

    #[test]
    fn no_bit_of_a_message_can_be_changed_and_no_end_cut_off() {
        let (seal, mut opener) = (Seal::new(&key()).unwrap(), Opener::new(key()));
        let message = sealed(&seal, "approved: false");
        for place in 0..message.len() * 8 {
            let mut changed = message.clone();
            changed[place / 8] ^= 1 << (place % 8);
            assert_eq!(opener.open(MAILBOX, &changed, now()), Err(Refusal::Forged), "bit {place}");
        }
        for length in 0..message.len() {
            assert_eq!(
                opener.open(MAILBOX, &message[..length], now()),
                Err(Refusal::Forged),
                "{length} bytes"
            );
        }
        assert_eq!(opener.open(MAILBOX, &message, now()).unwrap(), b"approved: false");
    }

    #[test]
    fn messages_may_overtake_one_another_but_not_by_far() {
        let (seal, mut opener) = (Seal::new(&key()).unwrap(), Opener::new(key()));
        let messages: Vec<_> = (0..WINDOW + 2).map(|number| sealed(&seal, &number.to_string())).collect();
        assert!(opener.open(MAILBOX, &messages[1], now()).is_ok());
        assert!(opener.open(MAILBOX, &messages[0], now()).is_ok());
        assert!(opener.open(MAILBOX, messages.last().unwrap(), now()).is_ok());
        for message in &messages[..2] {
            assert_eq!(opener.open(MAILBOX, message, now()), Err(Refusal::Replayed));
        }
        for message in messages[2..messages.len() - 1].iter().rev() {
            assert!(opener.open(MAILBOX, message, now()).is_ok());
        }
        for message in &messages {
            assert_eq!(opener.open(MAILBOX, message, now()), Err(Refusal::Replayed));
        }
    }

    #[test]
    fn a_message_that_was_held_back_for_long_does_not_open() {
        let (seal, mut opener) = (Seal::new(&key()).unwrap(), Opener::new(key()));
        let late = now() + OLDEST + Duration::from_secs(1);
        assert_eq!(opener.open(MAILBOX, &sealed(&seal, "late"), late), Err(Refusal::Untimely));
        assert_eq!(
            opener.open(MAILBOX, &seal.seal(MAILBOX, vec![1], late).unwrap(), now()),
            Err(Refusal::Untimely)
        );
        assert!(opener.open(MAILBOX, &sealed(&seal, "in time"), now() + OLDEST).is_ok());
    }

    #[test]
    fn each_process_seals_with_a_key_of_its_own() {
        let (one, other) = (Seal::new(&key()).unwrap(), Seal::new(&key()).unwrap());
        assert_ne!(sealed(&one, "same")[HEADER..], sealed(&other, "same")[HEADER..]);
        let mut opener = Opener::new(key());
        assert!(opener.open(MAILBOX, &sealed(&one, "one"), now()).is_ok());
        assert!(opener.open(MAILBOX, &sealed(&other, "other"), now()).is_ok());
    }

    #[test]
    fn a_key_is_read_in_hexadecimal_and_in_base64_alike() {
        let base64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        for text in [KEY, &KEY.to_uppercase(), base64, base64.trim_end_matches('='), &format!(" {KEY}\n")] {
            assert_eq!(ClusterKey::parse(text).unwrap(), key(), "{text}");
        }
        assert_ne!(ClusterKey::parse(&format!("{KEY}20")).unwrap(), key());
        assert!(!format!("{:?}", key()).contains("000102"));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for (text, reason) in [
            ("", BadClusterKey::TooShort(0)),
            ("correct horse battery staple", BadClusterKey::NotEncoded),
            (&KEY[..62], BadClusterKey::TooShort(31)),
            (&"00".repeat(32), BadClusterKey::NotRandom),
            (&"deadbeef".repeat(8), BadClusterKey::NotRandom),
        ] {
            assert_eq!(ClusterKey::parse(text), Err(reason), "{text}");
        }
        assert_ne!(ClusterKey::draw().unwrap(), ClusterKey::draw().unwrap());
    }
}
