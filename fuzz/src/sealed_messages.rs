//! The content of an instance's mailbox, to which everyone who reaches Redis can write.

use std::{cell::RefCell, time::SystemTime};

use fermata_peers::{
    ClusterKey,
    seal::{Opener, Seal},
};

const MAILBOX: &str = "mailbox";

/// Reads bytes as a sealed message, and as the content of a message that was changed on its way.
pub fn sealed_messages(data: &[u8]) {
    thread_local! {
        static KEY: RefCell<ClusterKey> = RefCell::new(
            ClusterKey::parse(&ClusterKey::draw().expect("random numbers")).expect("a key that was drawn"),
        );
    }
    let now = SystemTime::now();
    KEY.with_borrow(|key| {
        let mut opener = Opener::new(key.clone());
        assert!(opener.open(MAILBOX, data, now).is_err(), "bytes that were not sealed have opened");
        let seal = Seal::new(key).expect("random numbers");
        let sealed = seal.seal(MAILBOX, data.to_vec(), now).expect("a short message");
        let mut changed = sealed.clone();
        for (at, byte) in data.iter().enumerate().take(64) {
            let index = (usize::from(*byte) + at * 7) % changed.len();
            changed[index] ^= byte | 1;
        }
        assert!(
            changed == sealed || opener.open(MAILBOX, &changed, now).is_err(),
            "a changed message has opened"
        );
        assert!(opener.open("another", &sealed, now).is_err(), "a message has opened in another mailbox");
        assert_eq!(opener.open(MAILBOX, &sealed, now).ok().as_deref(), Some(data));
        assert!(opener.open(MAILBOX, &sealed, now).is_err(), "a message has opened twice");
    });
}
