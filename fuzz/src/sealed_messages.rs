//! What stands in the box of an instance, to which whoever reaches Redis can write.

use std::{cell::RefCell, time::SystemTime};

use fermata_store::{
    ClusterKey,
    seal::{Opener, Seal},
};

const BOX: &str = "box";

/// Bytes in a box, as they are and as a letter that was changed on its way.
pub fn letters(data: &[u8]) {
    thread_local! {
        static KEY: RefCell<ClusterKey> = RefCell::new(
            ClusterKey::parse(&ClusterKey::draw().expect("random numbers")).expect("a key that was drawn"),
        );
    }
    let now = SystemTime::now();
    KEY.with_borrow(|key| {
        let mut opener = Opener::new(key.clone());
        assert!(opener.open(BOX, data, now).is_err(), "nobody has sealed this");
        let seal = Seal::new(key).expect("random numbers");
        let sealed = seal.seal(BOX, data.to_vec(), now).expect("a short letter");
        let mut changed = sealed.clone();
        for (at, byte) in data.iter().enumerate().take(64) {
            let place = (usize::from(*byte) + at * 7) % changed.len();
            changed[place] ^= byte | 1;
        }
        assert!(changed == sealed || opener.open(BOX, &changed, now).is_err(), "this was changed");
        assert!(opener.open("another", &sealed, now).is_err(), "this is for another box");
        assert_eq!(opener.open(BOX, &sealed, now).ok().as_deref(), Some(data));
        assert!(opener.open(BOX, &sealed, now).is_err(), "a letter opens once");
    });
}
