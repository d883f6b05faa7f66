//! Hashes of texts, as they are saved.

use std::fmt::Write as _;

use sha2::Digest as _;

/// Returns the SHA-256 of some bytes in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in sha2::Sha256::digest(bytes) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
