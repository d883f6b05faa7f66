//! Seals on messages, against Redis and everyone who can read it or write to it.
//!
//! A message is encrypted and authenticated (AES-256-GCM) with a key that is derived from the [`ClusterKey`] of the deployment for the
//! process that sends it. That process numbers its messages, and the number is the nonce. The number, the time and the Redis key of the
//! mailbox are authenticated with the message. Therefore
//!
//! - a message opens only if it was sealed with the cluster key, and was neither changed nor put into another mailbox;
//! - a message opens once, because its receiver remembers, while it lives, the numbers that it has opened of each sender;
//! - a message that is older than [`MAX_AGE`] does not open. It counts as lost, like any message that does not arrive.
//!
//! A mailbox belongs to one start of a process and is never opened by another process, so nothing has to be remembered for longer.

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

use crate::guessing::is_guessable;

/// The age beyond which a message is dropped. The clocks of two machines may differ by as much.
pub const MAX_AGE: Duration = Duration::from_secs(300);

/// The number of bytes of a key.
const KEY_BYTES: usize = 32;
/// The least number of different bytes in a key. A random key has about thirty of them; one with fewer than this is not random.
const MIN_DIFFERENT_BYTES: usize = 16;
/// The number of messages, counted back from the newest one of a sender, that may arrive out of order.
const WINDOW: u64 = 4096;

const VERSION: u8 = 1;

/// The id of a process that sends messages, drawn at its start.
type Session = [u8; 16];

/// The secret that all instances of a deployment share.
#[derive(Clone)]
pub struct ClusterKey {
    secret: Prk,
    /// The name of the key, which is different for each key and not secret.
    name: String,
}

/// The reason why a text is not a key. The error does not quote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadClusterKey {
    /// The text is neither hexadecimal digits nor base64.
    #[error("it is neither hexadecimal digits nor base64; make one with: openssl rand -hex 32")]
    NotEncoded,
    /// The key has too few bytes.
    #[error("it has {0} bytes, and needs at least 32; make one with: openssl rand -hex 32")]
    TooShort(usize),
    /// The bytes are not random.
    #[error("its bytes are not random; make one with: openssl rand -hex 32")]
    NotRandom,
}

/// Seals the messages that this process sends.
pub struct Seal {
    session: Session,
    key: LessSafeKey,
    /// The number of messages that were sealed.
    sealed: AtomicU64,
}

/// Opens the messages that this process receives, each of them once.
pub struct Opener {
    cluster: ClusterKey,
    senders: HashMap<(String, Session), Sender>,
}

/// A process whose messages open.
struct Sender {
    key: Arc<LessSafeKey>,
    opened: ReplayWindow,
}

/// The numbers that were opened. Those that are more than [`WINDOW`] behind the newest one count as opened.
struct ReplayWindow {
    newest: u64,
    /// A bit for each number, at the number modulo [`WINDOW`].
    bits: Box<[u64; (WINDOW / 64) as usize]>,
}

/// The reason why a message is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It was not sealed with this key for this mailbox, or it was changed.
    #[error("it was not sealed with this cluster key for this instance, or it was changed")]
    Forged,
    /// It was opened before, or may have been.
    #[error("it was opened before, or too many later messages were opened before it")]
    Replayed,
    /// It is older than [`MAX_AGE`], or its time is as far in the future.
    #[error(
        "its time differs by more than five minutes from the time of this instance; check the clocks of all instances and of the database"
    )]
    Untimely,
}

/// The part of a sealed message that is not encrypted.
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
    /// Returns the reason if the text is not such a key.
    pub fn parse(text: &str) -> Result<Self, BadClusterKey> {
        let text = text.trim();
        let bytes = from_hex(text).or_else(|| from_base64(text)).ok_or(BadClusterKey::NotEncoded)?;
        if bytes.len() < KEY_BYTES {
            return Err(BadClusterKey::TooShort(bytes.len()));
        }
        if is_guessable(&bytes, MIN_DIFFERENT_BYTES) {
            return Err(BadClusterKey::NotRandom);
        }
        Self::of(&bytes)
    }

    fn of(bytes: &[u8]) -> Result<Self, BadClusterKey> {
        let secret = Salt::new(HKDF_SHA256, b"fermata cluster key").extract(bytes);
        let mut name = [0; 8];
        // HKDF refuses only lengths that it cannot produce, and this is not one of them.
        fill(&secret, &[b"name"], &mut name).map_err(|_| BadClusterKey::NotRandom)?;
        Ok(Self { secret, name: name.iter().map(|byte| format!("{byte:02x}")).collect() })
    }

    /// Draws a new key, in a form that [`ClusterKey::parse`] reads.
    ///
    /// # Errors
    /// Returns an error if the system has no random numbers.
    pub fn draw() -> Result<String, Unspecified> {
        let mut bytes = [0; KEY_BYTES];
        rand::fill(&mut bytes)?;
        Ok(base64::prelude::BASE64_STANDARD.encode(bytes))
    }

    /// Returns the name of the key, which is different for each key and not secret.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn of_session(&self, session: &Session) -> Result<LessSafeKey, Unspecified> {
        let mut key = [0; KEY_BYTES];
        // The label stays as it is from 0.1.0 on, because instances of two versions open each other's messages.
        fill(&self.secret, &[b"messages of", session], &mut key)?;
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

/// The number of bytes that HKDF returns.
struct OutputLength(usize);

impl KeyType for OutputLength {
    fn len(&self) -> usize {
        self.0
    }
}

fn fill(secret: &Prk, purpose: &[&[u8]], out: &mut [u8]) -> Result<(), Unspecified> {
    secret.expand(purpose, OutputLength(out.len()))?.fill(out)
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
    /// Draws the session of a process.
    ///
    /// # Errors
    /// Returns an error if the system has no random numbers.
    pub fn new(cluster: &ClusterKey) -> Result<Self, Unspecified> {
        let mut session = Session::default();
        rand::fill(&mut session)?;
        Ok(Self { key: cluster.of_session(&session)?, session, sealed: AtomicU64::new(0) })
    }

    /// Seals a message for a mailbox.
    ///
    /// # Errors
    /// Returns an error if the message is larger than 64 GB, which is the most that the cipher accepts.
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
    /// Returns an opener that has opened nothing yet.
    pub fn new(cluster: ClusterKey) -> Self {
        Self { cluster, senders: HashMap::new() }
    }

    /// Opens a message that was found in the mailbox `at`.
    ///
    /// # Errors
    /// Returns the reason why the message has to be dropped.
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
        if u128::from(milliseconds(now).abs_diff(header.sent_at)) > MAX_AGE.as_millis() {
            return Err(Refusal::Untimely);
        }
        // A sender is remembered only after one of its messages has opened. Otherwise anyone who can write to Redis could fill the memory.
        let sender =
            self.senders.entry(sender).or_insert_with(|| Sender { key, opened: ReplayWindow::default() });
        if sender.opened.insert(header.number) { Ok(message) } else { Err(Refusal::Replayed) }
    }
}

// === impl ReplayWindow ===

impl Default for ReplayWindow {
    fn default() -> Self {
        Self { newest: 0, bits: Box::new([0; _]) }
    }
}

impl ReplayWindow {
    /// Marks a number as opened. Returns `false` if it was opened before, or may have been.
    fn insert(&mut self, number: u64) -> bool {
        if number.saturating_add(WINDOW) <= self.newest {
            return false;
        }
        if number > self.newest {
            let first = (self.newest + 1).max(number.saturating_sub(WINDOW - 1));
            for skipped in first..=number {
                let (word, bit) = Self::position(skipped);
                self.bits[word] &= !bit;
            }
            self.newest = number;
        }
        let (word, bit) = Self::position(number);
        let is_new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        is_new
    }

    fn position(number: u64) -> (usize, u64) {
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

    /// Each session has its own key and never seals two messages with the same number, so no nonce is used twice.
    fn nonce(&self) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[NONCE_LEN - 8..].copy_from_slice(&self.number.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    /// Returns the data that is authenticated with the message.
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

    const MAILBOX: &str = "test:box:a";
    /// The length of version, session, number and time.
    const HEADER: usize = 1 + 16 + 8 + 8;

    /// A key that is too regular to be read from the settings.
    fn key() -> ClusterKey {
        ClusterKey::of(&(0..32).collect::<Vec<u8>>()).unwrap()
    }

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000)
    }

    fn sealed(seal: &Seal, text: &str) -> Vec<u8> {
        seal.seal(MAILBOX, text.into(), now()).unwrap()
    }

    #[test]
    fn a_message_opens_once_and_has_the_content_that_was_sealed() {
        let (seal, mut opener) = (Seal::new(&key()).unwrap(), Opener::new(key()));
        for text in ["one", "", "three"] {
            let message = sealed(&seal, text);
            assert!(text.is_empty() || !message.windows(text.len()).any(|part| part == text.as_bytes()));
            assert_eq!(opener.open(MAILBOX, &message, now()).unwrap(), text.as_bytes());
            assert_eq!(opener.open(MAILBOX, &message, now()), Err(Refusal::Replayed));
        }
    }

    /// Instances of two versions talk to each other, so the form of a sealed message must not change.
    #[test]
    fn a_message_that_the_first_version_sealed_opens() {
        let sealed = concat!(
            "01a0a1a2a3a4a5a6a7a8a9aaabacadaeaf0000000000000007000000003b9aca00",
            "112fc00c2ef5721255fb19923252a2c6230a1cb497",
        );
        let sealed = from_hex(sealed).unwrap();
        assert_eq!(Opener::new(key()).open(MAILBOX, &sealed, now()).unwrap(), b"hello");
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
        assert!(opener.senders.is_empty(), "the unknown sender is remembered");
    }

    #[test]
    fn a_message_that_was_changed_or_cut_off_does_not_open() {
        let (seal, mut opener) = (Seal::new(&key()).unwrap(), Opener::new(key()));
        let message = sealed(&seal, "approved: false");
        for bit in 0..message.len() * 8 {
            let mut changed = message.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(opener.open(MAILBOX, &changed, now()), Err(Refusal::Forged), "bit {bit}");
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
    fn a_message_that_is_too_old_does_not_open() {
        let (seal, mut opener) = (Seal::new(&key()).unwrap(), Opener::new(key()));
        let late = now() + MAX_AGE + Duration::from_secs(1);
        assert_eq!(opener.open(MAILBOX, &sealed(&seal, "late"), late), Err(Refusal::Untimely));
        assert_eq!(
            opener.open(MAILBOX, &seal.seal(MAILBOX, vec![1], late).unwrap(), now()),
            Err(Refusal::Untimely)
        );
        assert!(opener.open(MAILBOX, &sealed(&seal, "in time"), now() + MAX_AGE).is_ok());
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
        let base64 = ClusterKey::draw().unwrap();
        let bytes = base64::prelude::BASE64_STANDARD.decode(&base64).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let key = ClusterKey::parse(&base64).unwrap();
        for text in [&hex, &hex.to_uppercase(), base64.trim_end_matches('='), &format!(" {hex}\n")] {
            assert_eq!(ClusterKey::parse(text).unwrap(), key, "{text}");
        }
        assert_ne!(ClusterKey::parse(&format!("{hex}20")).unwrap(), key);
        assert!(!format!("{key:?}").contains(&hex[..6]));
    }

    #[test]
    fn a_text_that_is_not_a_key_is_refused() {
        for (text, reason) in [
            ("", BadClusterKey::TooShort(0)),
            ("correct horse battery staple", BadClusterKey::NotEncoded),
            (&"0123456789abcdef".repeat(4)[..62], BadClusterKey::TooShort(31)),
            (&"00".repeat(32), BadClusterKey::NotRandom),
            (&"deadbeef".repeat(8), BadClusterKey::NotRandom),
        ] {
            assert_eq!(ClusterKey::parse(text), Err(reason), "{text}");
        }
        assert_ne!(ClusterKey::draw().unwrap(), ClusterKey::draw().unwrap());
    }
}
