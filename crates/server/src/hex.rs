//! Hexadecimal digits.

/// Returns the bytes that the digits stand for; `None` if they are not pairs of digits.
pub(crate) fn decode(digits: &str) -> Option<Vec<u8>> {
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect()
}
